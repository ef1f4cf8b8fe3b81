"""Signs randomised only near zero, under individual DP: iDPSignRP."""

import numpy as np

from .. import _noise
from .._adjacency import Relation
from .._calibration import Calibration
from .._validation import PRIVACY_CONSTRAINTS, StrOptions
from ..guarantee import Definition
from ..mechanisms import flip_probability, gaussian_scale, sampled_target
from ..mechanisms.randomised_response import integer_thresholds
from ..random_projection import make_projection
from ..sensitivity import l2_sensitivity
from ._base import DENSITY, ROUNDING_MARGIN
from ._sign import SIGN_CONSTRAINTS, SignSketch


class iDPSignRP(SignSketch):
    """Release signs of a random projection, randomised only where a change could flip them: individual DP, **not** DP.

    Signs that no neighbour of the row can change are released as they are. Which ones these are depends on the row, so
    that the release protects a data set given in advance, with the noise held as it is for that data set, and nothing
    more. The library states no total of several such releases: even one may reveal a row.

    Parameters
    ----------
    n_components : int, default=256
        Number k of bits of a sketch.
    epsilon : float, default=1.0
        Privacy of a change of one row by at most `max_change`, in one release, with the noise parameters held fixed:
        with such a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float, default=1e-6
        The probability that is added, see `epsilon`. Not used by method "rr", for which it is 0.
    max_change : float, default=1.0
        Size beta of the change that is covered, and which `epsilon` hides more or less: l1, or of one coordinate for
        method "rr" with projection "oporp". A public choice, never read from the data.
    method : {"gaussian", "rr"}, default="gaussian"
        Noise before the sign, or randomised response after it.
    projection : {"rademacher", "gaussian", "uniform", "very_sparse", "oporp"}, default="rademacher"
        The projection.
    density : "auto" or float, default="auto"
        Share 1 / s of nonzero entries of a very sparse projection; "auto" is 1 / sqrt(n_features).
    max_nonzeros : int or None, default=None
        Largest number of nonzeros in a row, such as the words of a message, as far as is known without the data. If, by
        this bound, most bits of every row tell nothing of it, fit warns. Nothing else depends on it: rows with more
        nonzeros are released in the same way.
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
        Change c of each projection within which its sign may flip.
    scale_ : float
        Method "gaussian": standard deviation of the noise for a sensitivity of 1.
    flip_thresholds_ : ndarray of uint64, shape (n_components + 1,)
        Method "rr": probability, out of 2**64, that one of N signs that may flip is flipped.
    guarantee_ : PrivacyGuarantee
        What one release guarantees; its definition is "individual DP".
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPSignOPORP : Differentially private signs.

    Notes
    -----
    In [1]_ it is iDP-SignRP-G, with ``method="rr"`` iDP-SignRP-RR, and with ``projection="oporp"`` iDP-SignOPORP, whose
    empty bins come out as -1.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 6, Algorithms 9 to 11.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import iDPSignRP
    >>> X = load_digits().data / 16 - 0.5
    >>> sketch = iDPSignRP(64, epsilon=0.5, random_state=0).fit(X)
    >>> sketch.guarantee_
    (0.5, 1e-06)-individual DP per transform, l1 change of 1.0
    """

    _parameter_constraints: dict = {
        **SIGN_CONSTRAINTS,
        "delta": PRIVACY_CONSTRAINTS["delta"],
        "method": [StrOptions({"gaussian", "rr"})],
        "projection": [StrOptions({"rademacher", "gaussian", "uniform", "very_sparse", "oporp"})],
        "density": DENSITY,
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        delta=1e-6,
        max_change=1.0,
        method="gaussian",
        projection="rademacher",
        density="auto",
        max_nonzeros=None,
        output="sign",
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.max_change = max_change
        self.method = method
        self.projection = projection
        self.density = density
        self.max_nonzeros = max_nonzeros
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw_projection(self, n_features, random_state):
        return make_projection(self.projection, n_features, self.n_components, random_state, density=self.density)

    def _calibrate(self, projection):
        fitted = {"component_change_": self._component_change(projection)}
        if self.method == "gaussian":
            row_change = projection.divisor * l2_sensitivity(projection, Relation.L1, self.max_change)
            target = sampled_target(self.epsilon, self.delta, n_changed=projection.n_components)
            # For a sensitivity of 1: `_release_signs` divides each row by its own.
            scale = gaussian_scale(*target, sensitivity=1 + ROUNDING_MARGIN)
            fitted |= {"_row_change": row_change * (1 + ROUNDING_MARGIN), "scale_": scale}
            delta, adjacency, mechanism = self.delta, Relation.L1, "Gaussian noise before the sign"
        else:
            # N bits that a change may flip share epsilon, unless it reaches one bin only: the loss of each of them.
            changed, one_bin = np.arange(1, projection.n_components + 1), self.projection == "oporp"
            flip_epsilon = self.epsilon / (np.ones_like(changed) if one_bin else changed)
            thresholds = integer_thresholds(flip_probability(1, flip_epsilon))
            fitted["flip_thresholds_"] = np.append(np.uint64(0), thresholds)  # others are not flipped
            delta, adjacency, mechanism = 0.0, Relation.COORDINATE if one_bin else Relation.L1, "randomised response"
        guarantee = self._guarantee(
            delta,
            adjacency=adjacency,
            released="the signs of the projection, randomised near zero",
            mechanism=f"{mechanism} on the N signs that a change may flip; the others as they are",
            source="Li and Li, arXiv:2306.01751, Section 6, Algorithms 9 to 11, with the noise held fixed",
            definition=Definition.INDIVIDUAL_DP,
            assumptions=(
                "individual DP of the released data set, noise parameters held fixed",
                "not differential privacy",
                "no total with other releases is stated",
            ),
        )
        return Calibration(guarantee, fitted)

    def _release_signs(self, x):
        # All other signs are the same for all neighbours of this row: they are released as they are.
        may_flip = np.abs(x) <= self.component_change_
        if self.method == "rr":
            # Level N indexes the threshold for N signs that share epsilon, level 0 the one that never flips.
            levels = np.where(may_flip, may_flip.sum(axis=1, keepdims=True), 0)
            return (x > 0) ^ _noise.flip(levels, self.flip_thresholds_)
        # In units of the sensitivity every row has the same noise, and its rounding to a grid comes before the sign.
        released = np.divide(x, self._sensitivity_within(may_flip)[:, None], out=np.zeros_like(x), where=may_flip)
        _noise.add_gaussian(released, self.scale_)
        return np.where(may_flip, released, x) > 0

    def _sensitivity_within(self, may_flip):
        """How far a neighbour moves the projections that have noise, for each row.

        It is ``max_change max_i |W_iA|`` over the projections A: an l1 change moves them by a mean of rows of W, whose
        norm is no larger than the largest. Rounding, which `_check_domain` bounds by the l1 norm of the row times the
        rows of W in the same way, is within the margin. Where W is too large for it, the norm of the changes of each
        projection in A and the largest row of W as a whole are bounds.
        """
        reached = self.max_change * (1 + ROUNDING_MARGIN) * self.projection_.row_norm_within(may_flip)
        changes = np.sqrt(may_flip @ np.square(self.component_change_))
        sensitivity = np.minimum(np.minimum(reached, changes), self._row_change)
        # Projections that no feature reaches are zero for all rows: any noise makes them coins.
        return np.where(sensitivity > 0, sensitivity, 1.0)
