"""Projections with additive noise: DPRandomProjection and DPOPORP."""

import numpy as np

from .. import _noise
from .._adjacency import Relation
from .._calibration import Calibration
from .._digits import printed_down, printed_up
from .._validation import PRIVACY_CONSTRAINTS, SKETCH_CONSTRAINTS, StrOptions
from ..composition import PrivacyLoss, loss_of_laplace_noise
from ..mechanisms import classic_gaussian_scale, gaussian_scale, kenthapadi_scale, laplace_scale, sampled_target
from ..mechanisms.gaussian_laplace import analytic_bound_scale, kenthapadi_bound_scale
from ..random_projection import make_projection
from ..sensitivity import l1_sensitivity, l2_sensitivity
from ._base import DENSITY, DRAW, ROUNDING_MARGIN, BaseSketch, changes_hidden_by_noise, check_delta_of_a_draw

_BW = "Balle and Wang, ICML 2018, Theorem 8"
_BEFORE_THE_DRAW = {
    "kenthapadi_bound": (kenthapadi_bound_scale, "Li and Li, arXiv:2306.01751, Section 3"),
    "analytic_bound": (
        analytic_bound_scale,
        f"{_BW}, and the chi-square distribution of Gaussian rows",
    ),
}
_GAUSSIAN_CALIBRATIONS = {
    "analytic": (None, _BW),
    "kenthapadi": (kenthapadi_scale, "Li and Li, arXiv:2306.01751, Theorem 3.1"),
    "classic": (classic_gaussian_scale, "Dwork and Roth 2014, Theorem A.1"),
}


class AdditiveSketch(BaseSketch):
    """A projection with Gaussian or Laplace noise on each component.

    The noise is calibrated for the rounding of the projection, and for the sampling of the noise, as well.
    """

    def _calibrate(self, projection):
        delta, loss, assumptions = self.delta, None, ()
        # Sampling in floats costs an epsilon of 2^-30 for each noisy value. It is set aside first: ideal noise has to
        # meet what is left.
        target = sampled_target(self.epsilon, self.delta, n_changed=projection.n_components)
        if self.noise == "laplace":
            sensitivity = l1_sensitivity(projection, self.adjacency, self.max_change)
            scale = laplace_scale(target[0], sensitivity=sensitivity * (1 + ROUNDING_MARGIN))
            mechanism, delta, source = "Laplace mechanism", 0.0, "Dwork et al. 2006"
            loss = loss_of_laplace_noise(target[0], projection.n_components) if scale else PrivacyLoss()
            assumptions = ("the probability of noise beyond 200 scales, below 2**-288 for each number, counts as zero",)
        elif self.calibration in _BEFORE_THE_DRAW:
            if self.projection != "gaussian" or self.adjacency != Relation.L1:
                raise ValueError(f"calibration={self.calibration!r} needs projection='gaussian' and adjacency='l1'.")
            check_delta_of_a_draw(self.delta)
            # Of what was drawn, for information: the scale is set before the draw, and does not depend on it.
            sensitivity = l2_sensitivity(projection, self.adjacency, self.max_change)
            scale_before, source = _BEFORE_THE_DRAW[self.calibration]
            scale = scale_before(
                *target,
                max_change=self.max_change * (1 + ROUNDING_MARGIN),
                n_features=projection.n_features,
                n_components=projection.n_components,
            )
            mechanism, assumptions = "Gaussian mechanism, a-priori calibration", (DRAW,)
        else:
            mechanism = f"Gaussian mechanism, {self.calibration} calibration"
            sensitivity = l2_sensitivity(projection, self.adjacency, self.max_change)
            with_rounding = sensitivity * (1 + ROUNDING_MARGIN)
            closed_form, source = _GAUSSIAN_CALIBRATIONS[self.calibration]
            scale = gaussian_scale(*target, sensitivity=with_rounding)
            if closed_form is not None:  # of the ideal mechanism: it does not know the price of sampling
                scale = max(scale, closed_form(self.epsilon, self.delta, sensitivity=with_rounding))
            # The scale is 0 where no neighbour changes the projection: then nothing is lost.
            mu, sampling = with_rounding / scale if scale else 0.0, projection.n_components * _noise.SAMPLING_LOSS
            loss = PrivacyLoss(mu=mu, sampling=sampling)
        guarantee = self._guarantee(
            delta,
            adjacency=self.adjacency,
            released="the noisy projection, on a public grid",
            mechanism=f"{mechanism}, scale {printed_down(scale, 6)}, sensitivity {printed_up(sensitivity, 6)}",
            source=source,
            loss=loss,
            assumptions=assumptions,
            hidden_changes=changes_hidden_by_noise(
                sensitivity and sensitivity / scale, noise=self.noise, n_values=projection.n_components
            ),
        )
        return Calibration(guarantee, {"sensitivity_": sensitivity, "scale_": scale})

    def _mean_squared_loss(self, n_nonzeros):
        """Of numbers l_j away over the scale: ``exp(-l^2 / 8)`` is the affinity of Gaussian distributions.

        Of Laplace ones it is ``exp(-l / 2) (1 + l / 2)``, which is no less: ``y - log(1 + y) <= y^2 / 2``.
        """
        # The scale is 0 where no row changes the projection.
        return self._mean_squared_move(n_nonzeros) / (self.projection_.divisor * (self.scale_ or np.inf)) ** 2

    def _output_dtype(self, dtype):
        return dtype

    def _randomise(self, x):
        if self.projection_.divisor != 1:  # a division by 1 would be a pass over memory for nothing
            x /= self.projection_.divisor
        add_noise = _noise.add_laplace if self.noise == "laplace" else _noise.add_gaussian
        add_noise(x, self.scale_)
        return x


_ADDITIVE_CONSTRAINTS = {
    **SKETCH_CONSTRAINTS,
    **PRIVACY_CONSTRAINTS,
    "adjacency": [StrOptions({"l1", "l2"})],
    "noise": [StrOptions({"gaussian", "laplace"})],
}


class DPRandomProjection(AdditiveSketch):
    """Release a noisy random projection of each row.

    Parameters
    ----------
    n_components : int, default=256
        Number k of components of a sketch. The identity has as many as features.
    epsilon : float, default=1.0
        Privacy of a change of one row by at most `max_change`, in one release: with such a neighbour, an outcome is at
        most exp(epsilon) times as probable, plus `delta`.
    delta : float, default=1e-6
        The probability that is added, see `epsilon`. Not used by Laplace noise, for which it is 0.
    max_change : float, default=1.0
        Size beta of the change that is covered; how well it is hidden, `epsilon` says. A public choice, never read from
        the data.
    adjacency : {"l1", "l2"}, default="l1"
        Which distance; "l1" covers a change of one coordinate by `max_change`.
    projection : {"rademacher", "gaussian", "uniform", "very_sparse", "identity", "count_sketch"}, default="rademacher"
        Distribution of the entries of W; "identity" adds noise to the data itself, and "count_sketch" has bins of
        variable length, where :class:`DPOPORP` has bins of fixed length.
    density : "auto" or float, default="auto"
        Share of nonzero entries of a very sparse projection; "auto" is 1 / sqrt(n_features).
    noise : {"gaussian", "laplace"}, default="gaussian"
        Distribution of the noise. For a change of one or a few coordinates, "laplace" lets a search find more at equal
        epsilon, see the user guide; "gaussian" has less noise for l2 changes and in totals of many releases.
    calibration : {"analytic", "analytic_bound", "kenthapadi", "kenthapadi_bound", "classic"}, default="analytic"
        How Gaussian noise is calibrated. "analytic" is exact and has the least noise; "analytic_bound" and
        "kenthapadi_bound", the published formula, are set before a Gaussian projection is drawn, for a delta of 1e-9 or
        more; "classic" needs epsilon < 1.
    max_nonzeros : int or None, default=None
        Largest number of nonzeros in a row, such as the words of a message, as far as is known without the data. If, by
        this bound, the noise nearly hides whole rows, fit warns. Nothing else depends on it: rows with more nonzeros
        are released in the same way.
    random_state : int, RandomState instance or None, default=None
        Draws the public projection; share it to share the projection. It never seeds the noise.
    n_jobs : int or None, default=None
        Threads of a large `transform`.

    Attributes
    ----------
    projection_ : Projection
        The public projection.
    sensitivity_ : float
        Sensitivity of the realised projection, in the norm that the noise needs.
    scale_ : float
        Standard deviation of Gaussian noise, scale b of Laplace noise.
    guarantee_ : PrivacyGuarantee
        What one release guarantees.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPOPORP : At most as much noise, except with only a few features; far less with Laplace noise; and much faster.
    DPSignRP : Releases one bit for each component.

    Notes
    -----
    In [1]_ it is DP-RP-G-OPT-B; with ``projection="gaussian"`` DP-RP-G-OPT, DP-RP-G (``calibration="kenthapadi"``),
    Analytic DP-RP-G (``calibration="kenthapadi_bound"``) or DP-RP-L (``noise="laplace"``); and with
    ``projection="identity"`` Raw-data-G-OPT.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPRandomProjection
    >>> X = load_digits().data / 16
    >>> sketch = DPRandomProjection(32, epsilon=2.0, random_state=0).fit(X)
    >>> sketch.transform(X).shape
    (1797, 32)
    >>> sketch.guarantee_
    (2.0, 1e-06)-DP per transform, l1 change of 1.0
    """

    _parameter_constraints: dict = {
        **_ADDITIVE_CONSTRAINTS,
        "projection": [StrOptions({"rademacher", "gaussian", "uniform", "very_sparse", "identity", "count_sketch"})],
        "density": DENSITY,
        "calibration": [StrOptions({"analytic", "analytic_bound", "kenthapadi", "kenthapadi_bound", "classic"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        delta=1e-6,
        max_change=1.0,
        adjacency="l1",
        projection="rademacher",
        density="auto",
        noise="gaussian",
        calibration="analytic",
        max_nonzeros=None,
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.max_change = max_change
        self.adjacency = adjacency
        self.projection = projection
        self.density = density
        self.noise = noise
        self.calibration = calibration
        self.max_nonzeros = max_nonzeros
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw_projection(self, n_features, random_state):
        return make_projection(self.projection, n_features, self.n_components, random_state, density=self.density)


class DPOPORP(AdditiveSketch):
    """Release a noisy count-sketch-like projection of each row: one permutation, one random projection.

    A row that changes by `max_change` in l1 norm moves its projection by at most `max_change`, in l1 norm and in l2
    norm, for any number of bins and of features. The projection costs one addition for each nonzero entry of X. It is a
    count-sketch with bins of fixed length, which estimate inner products with less variance than bins of variable
    length by a factor of (P - k) / (P - 1), P the number of features padded to a multiple of k. Its signs are
    Rademacher ones, which have the least variance and the least sensitivity of all.

    Parameters
    ----------
    n_components : int, default=256
        Number k of bins. With more bins than features, X is padded with zeros.
    epsilon : float, default=1.0
        Privacy of a change of one row by at most `max_change`, in one release: with such a neighbour, an outcome is at
        most exp(epsilon) times as probable, plus `delta`.
    delta : float, default=1e-6
        The probability that is added, see `epsilon`. Not used by Laplace noise, for which it is 0.
    max_change : float, default=1.0
        Size beta of the change that is covered; how well it is hidden, `epsilon` says. A public choice, never read from
        the data.
    adjacency : {"l1", "l2"}, default="l1"
        Which distance; "l1" covers a change of one coordinate by `max_change`.
    noise : {"gaussian", "laplace"}, default="gaussian"
        Distribution of the noise. For a change of one or a few coordinates, "laplace" lets a search find more at equal
        epsilon, see the user guide; "gaussian" has less noise for l2 changes and in totals of many releases.
    calibration : {"analytic", "kenthapadi", "classic"}, default="analytic"
        How Gaussian noise is calibrated. "analytic" is exact and has the least noise; "classic" needs epsilon < 1.
    max_nonzeros : int or None, default=None
        Largest number of nonzeros in a row, such as the words of a message, as far as is known without the data. If, by
        this bound, the noise nearly hides whole rows, fit warns. Nothing else depends on it: rows with more nonzeros
        are released in the same way.
    random_state : int, RandomState instance or None, default=None
        Draws the public projection; share it to share the projection. It never seeds the noise.
    n_jobs : int or None, default=None
        Threads of a large `transform`.

    Attributes
    ----------
    projection_ : Projection
        The public projection.
    sensitivity_ : float
        Sensitivity of the realised projection, in the norm that the noise needs.
    scale_ : float
        Standard deviation of Gaussian noise, scale b of Laplace noise.
    guarantee_ : PrivacyGuarantee
        What one release guarantees.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPRandomProjection : Dense and very sparse projections, and the data itself.
    DPSignOPORP : Releases one bit for each component.

    Notes
    -----
    In [1]_ it is DP-OPORP.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 3.
    .. [2] P. Li and X. Li, "OPORP: One Permutation + One Random Projection", arXiv:2302.03505.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPOPORP
    >>> X = load_digits().data / 16
    >>> sketch = DPOPORP(32, epsilon=2.0, random_state=0).fit(X)
    >>> sketch.transform(X).shape
    (1797, 32)
    >>> round(sketch.scale_, 4)
    2.2327
    """

    _parameter_constraints: dict = {
        **_ADDITIVE_CONSTRAINTS,
        "calibration": [StrOptions({"analytic", "kenthapadi", "classic"})],
    }

    def __init__(
        self,
        n_components=256,
        *,
        epsilon=1.0,
        delta=1e-6,
        max_change=1.0,
        adjacency="l1",
        noise="gaussian",
        calibration="analytic",
        max_nonzeros=None,
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.max_change = max_change
        self.adjacency = adjacency
        self.noise = noise
        self.calibration = calibration
        self.max_nonzeros = max_nonzeros
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw_projection(self, n_features, random_state):
        return make_projection("oporp", n_features, self.n_components, random_state)
