"""Flipped signs of projections: DPSignRP and DPSignOPORP."""

from abc import abstractmethod

import numpy as np
from sklearn.utils.extmath import row_norms

from .. import _noise
from .._adjacency import Relation
from .._validation import POSITIVE, PRIVACY_CONSTRAINTS, SKETCH_CONSTRAINTS, StrOptions
from ..composition import PrivacyLoss, Profile
from ..mechanisms import (
    binomial_flip_epsilon,
    flip_thresholds,
    published_sign_changes,
    randomised_response_profile,
    sign_change_probability,
)
from ..sensitivity import component_sensitivity
from ._base import DRAW, SLACK, BaseSketch, blocks_of

_LL_4 = "Li and Li, arXiv:2306.01751, Section 4"
SIGN_CONSTRAINTS = {
    **SKETCH_CONSTRAINTS,
    "epsilon": POSITIVE,
    "output": [StrOptions({"sign", "packed"})],
}


class SignSketch(BaseSketch):
    """The signs of a projection, some of them flipped."""

    @property
    def _n_features_out(self):
        return -(-self.projection_.n_components // 8) if self.output == "packed" else self.projection_.n_components

    def _output_dtype(self, dtype):
        return np.uint8 if self.output == "packed" else np.int8

    def _randomise(self, x):
        positive = self._release_signs(x)
        return np.packbits(positive, axis=1) if self.output == "packed" else 2 * positive.astype(np.int8) - 1

    @abstractmethod
    def _release_signs(self, x):
        """Turn unscaled projections into Booleans, true for a positive sign."""

    def _components(self):
        """Change c of each projection between neighbours, with slack for the rounding of the projection itself.

        Computed projections of neighbours differ by at most ``c (1 + SLACK)``: `_check_domain` refuses the rows whose
        rounding could exceed it. A component that no feature reaches has c = 0; any positive number serves.
        """
        change = component_sensitivity(self.projection_, self.max_change)
        return np.where(change > 0, change, 1.0) * (1 + SLACK)


def _levels(x, change, last):
    """Level ``ceil(|x| / c)`` of each projection, at most `last`; overwrites x."""
    np.divide(np.abs(x, out=x), change, out=x)
    return np.minimum(np.ceil(x, out=x), last, out=x).astype(np.uint16)


_FLIP_CONSTRAINTS = {**SIGN_CONSTRAINTS, "method": [StrOptions({"smooth", "rr"})]}


class FlippedSignSketch(SignSketch):
    """Signs flipped with the probability of their level, at a loss of `flip_epsilon_` for each unit change."""

    def _calibrate_flips(self, flip_epsilon):
        self.component_change_ = self._components()
        self.flip_epsilon_ = flip_epsilon
        self.flip_thresholds_ = flip_thresholds(flip_epsilon)

    def _bits_loss(self, n_bits):
        """Loss of the bits that one change may reach: each has at most that of randomised response."""
        profile = Profile.of(randomised_response_profile, epsilon0=self.flip_epsilon_, n_bits=n_bits)
        return PrivacyLoss(profiles=(profile,))

    def _release_signs(self, x):
        positive = x > 0
        last = len(self.flip_thresholds_) - 1
        smooth = self.method == "smooth"
        levels = _levels(x, self.component_change_, last) if smooth else np.minimum(x != 0, last).astype(np.uint8)
        return positive ^ _noise.flip(levels, self.flip_thresholds_)


class DPSignRP(FlippedSignSketch):
    """Release randomly flipped signs of a random projection of each row.

    Signs tell most when the features are centred: take public constants off first.

    Parameters
    ----------
    n_components : int, default=256
        Number k of bits of a sketch.
    epsilon : float, default=1.0
        Bound on the privacy loss of one row in one release.
    delta : float, default=0.0
        Slack of the bound; 0, or with `min_norm` at least 1e-9.
    max_change : float, default=1.0
        l1 distance beta within which two rows cannot be told apart: the unit of privacy. A public choice, never read
        from the data.
    method : {"smooth", "rr"}, default="smooth"
        "smooth" flips a sign less often the further its projection is from zero; "rr" (randomised response) flips all
        alike.
    min_norm : float or None, default=None
        Public promise that every row has at least this l2 norm. Rows below it are refused. With method="rr",
        projection="gaussian" and delta > 0 it allows far fewer flips.
    projection : {"rademacher", "gaussian", "uniform", "very_sparse"}, default="rademacher"
        Distribution of the entries of W.
    calibration : {"exact", "published"}, default="exact"
        How `min_norm` is used: by the exact law of the number of signs that differ, or by the published bound N_+.
    output : {"sign", "packed"}, default="sign"
        Signs as int8 -1 and +1, or eight of them packed in a byte (uint8, +1 as a set bit).
    random_state : int, RandomState instance or None, default=None
        Draws the public projection; share it to share the projection. It never seeds the noise.
    n_jobs : int or None, default=None
        Threads of a large `transform`.

    Attributes
    ----------
    projection_ : Projection
        The public projection.
    component_change_ : ndarray of shape (n_components,)
        Change c of each projection that moves its level by one.
    flip_epsilon_ : float
        Privacy loss of one bit.
    flip_thresholds_ : ndarray of uint64, shape (n_levels,)
        Probability, out of 2**64, that a sign of each level is flipped.
    guarantee_ : PrivacyGuarantee
        What one release promises.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPSignOPORP : Far fewer flips when a change stays in one coordinate.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSignRP
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = DPSignRP(64, epsilon=20.0, random_state=0).fit(X)
    >>> sketch.transform(X[:2]).dtype
    dtype('int8')
    >>> sketch.guarantee_
    20.0-DP per transform, l1 change of 1.0
    """

    _parameter_constraints: dict = {
        **_FLIP_CONSTRAINTS,
        "delta": PRIVACY_CONSTRAINTS["delta"],
        "min_norm": [*POSITIVE, None],
        "projection": [StrOptions({"rademacher", "gaussian", "uniform", "very_sparse"})],
        "calibration": [StrOptions({"exact", "published"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        delta=0.0,
        max_change=1.0,
        method="smooth",
        min_norm=None,
        projection="rademacher",
        calibration="exact",
        output="sign",
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.max_change = max_change
        self.method = method
        self.min_norm = min_norm
        self.projection = projection
        self.calibration = calibration
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _calibrate(self):
        if self.min_norm is None:
            if self.delta > 0:
                raise ValueError("delta > 0 buys nothing without min_norm: set delta=0, or promise a min_norm.")
            self._calibrate_flips(float(self.epsilon) / self.projection_.n_components)
            return self._state(0.0, loss=self._bits_loss(self.projection_.n_components))
        if self.method != "rr" or self.projection != "gaussian" or self.delta == 0:
            raise ValueError("min_norm needs method='rr', projection='gaussian' and delta > 0.")
        self._check_delta_of_a_draw()
        self._calibrate_flips(self._flip_epsilon_of_distant_rows())
        note = (
            DRAW,
            f"every row has l2 norm at least {self.min_norm} (rows below are refused)",
        )
        return self._state(self.delta, assumptions=note)

    @property
    def _slack(self):
        return SLACK if self.min_norm is None else SLACK / 64

    def _flip_epsilon_of_distant_rows(self):
        """Loss of one bit; the published one only where it is the smaller, for its N_+ is no bound on short rows.

        A sign may also differ by rounding, when the projection of either row is within slack / 4 * max_change times
        the largest entry of W of zero, on either side: its density there is at most 0.4 / min_norm.
        """
        relative_change, k = self.max_change / self.min_norm, self.projection_.n_components
        rounding = 0.4 * self._slack * self.projection_.max_entry * relative_change
        changed = min(1.0, sign_change_probability(relative_change) + rounding)
        exact = binomial_flip_epsilon(self.epsilon, self.delta, n_components=k, changed=changed)
        if self.calibration == "exact":
            return exact
        published = published_sign_changes(
            self.delta, relative_change=relative_change, n_features=self.n_features_in_, n_components=k
        )
        return min(exact, self.epsilon / published)

    def _state(self, delta, **more):
        return self._guarantee(
            delta,
            adjacency=Relation.L1,
            released="the flipped signs of the projection",
            mechanism=f"randomised response, {self.method}, loss {self.flip_epsilon_:.6g} for each bit",
            source=_LL_4 if delta == 0 else "binomial mixture of randomised responses, exact for Gaussian projections",
            **more,
        )

    def _check_domain(self, X):
        super()._check_domain(X)
        if self.min_norm is not None and not all((row_norms(rows) >= self.min_norm).all() for rows in blocks_of(X)):
            raise ValueError(f"X has a row of l2 norm below min_norm={self.min_norm}, which the guarantee excludes.")


class DPSignOPORP(FlippedSignSketch):
    """Release randomly flipped signs of one permutation and one random projection of each row.

    A change of one coordinate moves one bin only, so that each bit may use the whole epsilon. Signs tell most when the
    features are centred: take public constants off first.

    Parameters
    ----------
    n_components : int, default=256
        Number k of bits of a sketch, a multiple of `n_repeats`.
    epsilon : float, default=1.0
        Bound on the privacy loss of one row in one release.
    max_change : float, default=1.0
        How much one coordinate may change: the unit of privacy. Rows that differ in several coordinates by this much in
        all are **not** covered. A public choice, never read from the data.
    method : {"smooth", "rr"}, default="smooth"
        "smooth" flips a sign less often the further its projection is from zero; "rr" (randomised response) flips all
        alike.
    n_repeats : int, default=1
        Number t of independent projections with k / t bits each, at epsilon / t each.
    output : {"sign", "packed"}, default="sign"
        Signs as int8 -1 and +1, or eight of them packed in a byte (uint8, +1 as a set bit).
    random_state : int, RandomState instance or None, default=None
        Draws the public projection; share it to share the projection. It never seeds the noise.
    n_jobs : int or None, default=None
        Threads of a large `transform`.

    Attributes
    ----------
    projection_ : Projection
        The public projection.
    component_change_ : ndarray of shape (n_components,)
        Change c of each projection that moves its level by one.
    flip_epsilon_ : float
        Privacy loss of one bit.
    flip_thresholds_ : ndarray of uint64, shape (n_levels,)
        Probability, out of 2**64, that a sign of each level is flipped.
    guarantee_ : PrivacyGuarantee
        What one release promises.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPSignRP : Covers changes spread over many coordinates.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSignOPORP
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = DPSignOPORP(64, epsilon=1.0, output="packed", random_state=0).fit(X)
    >>> sketch.transform(X).shape
    (1797, 8)
    >>> sketch.guarantee_
    1.0-DP per transform, one coordinate changed by 1.0
    """

    _parameter_constraints: dict = {
        **_FLIP_CONSTRAINTS,
        "n_repeats": SKETCH_CONSTRAINTS["n_components"],
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        max_change=1.0,
        method="smooth",
        n_repeats=1,
        output="sign",
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.max_change = max_change
        self.method = method
        self.n_repeats = n_repeats
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _projection_kind(self):
        return "oporp"

    def _projection_options(self):
        if self.n_components % self.n_repeats:
            raise ValueError(f"n_components={self.n_components} is not a multiple of n_repeats={self.n_repeats}.")
        return {"n_repeats": self.n_repeats}

    def _calibrate(self):
        self._calibrate_flips(float(self.epsilon) / self.n_repeats)
        return self._guarantee(
            0.0,
            adjacency=Relation.COORDINATE,
            released="the flipped signs of the projection",
            mechanism=f"randomised response, {self.method}, loss {self.flip_epsilon_:.6g} for each bit; "
            f"one coordinate reaches {self.n_repeats}",
            source=_LL_4,
            loss=self._bits_loss(self.n_repeats),
        )
