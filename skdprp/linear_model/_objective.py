"""Objective perturbation: AMPClassifier."""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from .. import _noise
from .._adjacency import Relation
from .._validation import Interval, StrOptions
from ..composition import PrivacyLoss, Profile
from ..guarantee import PrivacyGuarantee
from ..mechanisms import gaussian_scale, objective_perturbation_scale, published_product_noise_scale, sampled_target
from ..mechanisms.objective_perturbation import (
    objective_perturbation_profile,
    product_perturbation_scale,
    softmax_perturbation_profile,
    softmax_perturbation_scale,
)
from ..mechanisms.published import published_objective_perturbation
from ..sensitivity import hessian_log_det, penalty_for_log_det
from ._base import CLASSIFIER_CONSTRAINTS, PrivateLinearClassifier
from ._erm import draw_spherical, minimisers
from ._penalty import balanced_penalty

_SHARE_OF_LOG_DET, _LARGEST_SHARE_OF_LOG_DET = 1 / 8, 7 / 8
_SHIFT_OF_RELEASE = 1 / 300
_LARGEST_SHIFT = 0.1
_SAMPLING_ERROR = 2.0**-40
_SHARE_OF_RELEASE = 1 / 100
_BINARY_PROOF = "proof in skdprp.mechanisms.objective_perturbation_profile"
_SOFTMAX_PROOF = "proof in skdprp.mechanisms.softmax_perturbation_profile"
_PRODUCT_PROOF = "proof in skdprp.mechanisms.product_perturbation_profile"


@dataclass(frozen=True)
class Perturbation:
    """Penalty, noise and guarantee of one fit, all public.

    Parameters
    ----------
    penalty : float
        Weight of half the squared norm.
    delta : float
        Slack of the target.
    scale : float
        Scale of the linear term: a standard deviation if Gaussian, the scale of a radius otherwise.
    release_scale : float
        Standard deviation of the noise added to the minimiser.
    radius : tuple of float or None
        Shape and power of the radius of the linear term; None if Gaussian.
    guarantee : PrivacyGuarantee
        What is true.
    claimed : PrivacyGuarantee or None
        What was published.
    """

    penalty: float
    delta: float
    scale: float
    release_scale: float
    radius: tuple[float, float] | None
    guarantee: PrivacyGuarantee
    claimed: PrivacyGuarantee | None = None

    def __post_init__(self):
        _noise.check_scale(self.scale)
        _noise.check_scale(self.release_scale)


class AMPClassifier(PrivateLinearClassifier):
    """Private logistic regression or support vector machine by objective perturbation.

    A random linear term is added to the objective, so that its minimiser is private (approximate minima perturbation).
    Rows longer than `max_norm` are shortened, in fit and in prediction.

    Parameters
    ----------
    epsilon : float, default=1.0
        Bound on the privacy loss of one row.
    delta : float or None, default=None
        Slack of the bound; None is 1 / n_samples**2.
    C : float or "auto", default="auto"
        Inverse of the penalty, as in LogisticRegression: the objective is the sum of the losses plus
        ``|w|**2 / (2 C)``, with the intercept penalised. "auto" depends on the numbers of rows, features and classes,
        `epsilon`, `delta`, `adjacency` and the other parameters only, never on the values of the data.
    loss : {"log_loss", "huber_hinge"}, default="log_loss"
        Logistic regression, or a support vector machine with a smoothed hinge.
    multi_class : {"auto", "multinomial", "ovr"}, default="auto"
        One softmax for more than two classes, or one-vs-rest problems released jointly. "auto" is the softmax for
        log_loss, except in published calibrations.
    noise : {"gaussian", "product"}, default="gaussian"
        Law of the linear term: Gaussian, or a random radius times a random direction. Calibrated exactly, the radius
        is Gamma distributed, which is less noise for few weights; as published it is the half-normal of [2]_.
    calibration : {"exact", "published"}, default="exact"
        "published" reproduces [1]_ without hyperparameters (H-F AMP), or [2]_ for product noise. What they claim is in
        `claimed_`; `guarantee_` has what is true, and fit warns.
    max_norm : float, default=1.0
        Norm to which longer rows are shortened. A public choice, never read from the data.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row and its label, replaced by others at their place, or counting or blank there: a
        weaker guarantee at half the noise. The number of places for rows is public in both.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature of 0.3 `max_norm`.
    tol : float, default=1e-10
        Largest norm of the gradient of the mean loss at the solution, in units of `max_norm`. The guarantee accounts
        for it.
    max_iter : int, default=100
        Largest number of Newton steps.
    classes : array-like or None, default=None
        The labels, as public knowledge. None takes those found in y: a class of one row tells that it is there, and the
        guarantee holds *given the set of labels*, as it is printed.
    n_jobs : int or None, default=None
        Threads for one-vs-rest problems. Their noise is drawn before, for all classes at once.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    guarantee_ : PrivacyGuarantee
        What this release promises.
    claimed_ : PrivacyGuarantee
        What the paper claims; for ``calibration="published"`` only.
    C_, delta_ : float
        The values used.
    scale_ : float
        Scale of the linear term: standard deviation of Gaussian noise, scale of the radius of product noise.
    release_scale_ : float
        Standard deviation of the noise on the minimiser.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    ProductNoiseOutputPerturbation : Noise on the minimiser; can be pure epsilon-DP.

    Notes
    -----
    The guarantee is proved in :func:`skdprp.mechanisms.objective_perturbation_profile` and
    :func:`skdprp.mechanisms.softmax_perturbation_profile`. There is no `n_iter_`: how long the solver takes depends on
    the data, and is no part of the release. There is no `sample_weight`, which would change the sensitivity.

    References
    ----------
    .. [1] R. Iyengar, J. P. Near, D. Song, O. Thakkar, A. Thakurta and L. Wang, "Towards Practical Differentially
       Private Convex Optimization", IEEE S&P 2019.
    .. [2] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import AMPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AMPClassifier(epsilon=10.0, max_norm=50.0, classes=range(10)).fit(X, y)
    >>> model.coef_.shape
    (10, 64)
    >>> model.guarantee_
    (10.0, 3.1e-07)-DP, one row replaced
    """

    _parameter_constraints: dict = {
        **CLASSIFIER_CONSTRAINTS,
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "noise": [StrOptions({"gaussian", "product"})],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=None,
        C="auto",
        loss="log_loss",
        multi_class="auto",
        noise="gaussian",
        calibration="exact",
        max_norm=1.0,
        adjacency="replace_one",
        fit_intercept=True,
        tol=1e-10,
        max_iter=100,
        classes=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.C = C
        self.loss = loss
        self.multi_class = multi_class
        self.noise = noise
        self.calibration = calibration
        self.max_norm = max_norm
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.classes = classes
        self.n_jobs = n_jobs

    def _calibrate(self, problem, delta):
        if self.calibration == "published":
            return self._calibrate_as_published(problem, delta)
        target = sampled_target(self.epsilon, delta, n_changed=problem.n_released)
        penalty = self._auto_penalty(problem, target) if self.C == "auto" else 1.0 / self.C
        log_det = self._log_det_with_room(problem, penalty)
        calibrate = self._calibrate_gaussian if self.noise == "gaussian" else self._calibrate_product
        return calibrate(problem, delta, target, penalty, log_det)

    def _calibrate_gaussian(self, problem, delta, target, penalty, log_det):
        shift = min(_SHIFT_OF_RELEASE * self.epsilon, _LARGEST_SHIFT)
        scale = self._gaussian_scale(problem, target, log_det=log_det, release_shift=shift)
        release_scale = 2 * _hidden_gradient(problem, penalty, scale) / (penalty * shift)
        source = _SOFTMAX_PROOF if problem.multinomial else _BINARY_PROOF
        loss = self._loss(problem, scale=scale, log_det=log_det, release_shift=shift)
        guarantee = self._state(self.epsilon, delta, "Gaussian", scale, release_scale, source, loss)
        return Perturbation(penalty, delta, scale, release_scale, None, guarantee)

    def _gaussian_scale(self, problem, target, **known):
        calibrate = softmax_perturbation_scale if problem.multinomial else objective_perturbation_scale
        return calibrate(*target, **known, **self._sizes(problem))

    def _loss(self, problem, **known):
        profile = softmax_perturbation_profile if problem.multinomial else objective_perturbation_profile
        sampling = problem.n_released * _noise.SAMPLING_LOSS
        return PrivacyLoss(profiles=(Profile.of(profile, **known, **self._sizes(problem)),), sampling=sampling)

    def _sizes(self, problem):
        if problem.multinomial:
            return {"adjacency": self.adjacency, "n_classes": problem.n_classes, "max_norm": problem.row_norm}
        lipschitz = problem.row_loss.lipschitz * problem.row_norm
        return {"adjacency": self.adjacency, "n_outputs": problem.n_outputs, "lipschitz": lipschitz}

    def _calibrate_product(self, problem, delta, target, penalty, log_det):
        """Compose one-vs-rest problems, and the noise of the release, by adding up their budgets."""
        n_dims = problem.n_weights
        share = (1 - _SHARE_OF_RELEASE) / problem.n_outputs
        scale = product_perturbation_scale(
            share * target[0],
            share * target[1],
            n_dims=n_dims,
            lipschitz=problem.row_loss.lipschitz * problem.row_norm,
            n_vertices=problem.n_classes - 1 if problem.multinomial else 1,
            log_det=log_det,
            adjacency=self.adjacency,
        )
        release_scale = gaussian_scale(
            _SHARE_OF_RELEASE * target[0],
            _SHARE_OF_RELEASE * target[1],
            sensitivity=2 * _hidden_gradient(problem, penalty, scale, (n_dims, 1)) / penalty,
        )
        guarantee = self._state(self.epsilon, delta, "multivariate Laplace", scale, release_scale, _PRODUCT_PROOF)
        return Perturbation(penalty, delta, scale, release_scale, (n_dims, 1), guarantee)

    def _calibrate_as_published(self, problem, delta):
        """One-vs-rest problems share the budget evenly; the true guarantee composes them."""
        if self.adjacency != Relation.REPLACE_ONE:
            raise ValueError("Published calibrations are for adjacency='replace_one'.")
        known = published_objective_perturbation(self.epsilon / problem.n_outputs, delta / problem.n_outputs)
        lipschitz = problem.row_loss.lipschitz * problem.row_norm
        least = known.penalty_factor * problem.row_loss.smoothness * problem.row_norm**2
        penalty = least if self.C == "auto" else 1.0 / self.C
        if penalty < least:
            raise ValueError(f"The published calibration needs C of at most {1 / least:.6g}, got {self.C}.")
        scale, radius = known.scale_factor * lipschitz, None
        if self.noise == "product":
            sigma = published_product_noise_scale(
                known.epsilon_noise, known.delta_noise, sensitivity=2 * lipschitz, n_dims=problem.n_weights
            )
            scale, radius = float(np.sqrt(2) * sigma), (1, 2)
        accuracy = problem.accuracy(penalty, _largest_perturbation(problem, scale, radius))
        release_scale = known.release_factor * accuracy / penalty
        if radius is not None:
            guarantee = self._state(np.inf, 0.0, "half-normal radius", scale, release_scale, "none")
            claimed = self._claim(delta, "Liu et al., SIGMOD 2026")
            return Perturbation(penalty, delta, scale, release_scale, radius, guarantee, claimed)
        loss = self._loss(
            problem,
            scale=scale,
            log_det=hessian_log_det(problem.row_loss, max_norm=problem.row_norm, penalty=penalty),
            release_shift=2 * _hidden_gradient(problem, penalty, scale) / (penalty * release_scale),
        )
        true_delta = loss.profile(self.epsilon)
        guarantee = self._state(self.epsilon, true_delta, "Gaussian", scale, release_scale, _BINARY_PROOF, loss)
        claimed = self._claim(delta, "Iyengar et al., S&P 2019")
        return Perturbation(penalty, delta, scale, release_scale, None, guarantee, claimed)

    def _state(self, epsilon, delta, law, scale, release_scale, source, loss=None):
        mechanism = (
            f"objective perturbation, {law}, scale {scale:.6g}; Gaussian release noise, scale {release_scale:.6g}"
        )
        return self._guarantee(epsilon, delta, mechanism=mechanism, source=source, loss=loss)

    def _is_multinomial(self, n_classes):
        if self.calibration != "published":
            return super()._is_multinomial(n_classes)
        if self.multi_class == "multinomial":
            raise ValueError("Published calibrations are for binary problems: use multi_class='ovr' or 'auto'.")
        return False

    def _auto_penalty(self, problem, target):
        noise_scale = self._gaussian_scale(problem, target, log_det=0.0)
        floor = self._penalty_at(problem, _SHARE_OF_LOG_DET)
        return max(floor, balanced_penalty(problem, noise_scale))

    def _log_dets(self, problem):
        """How many times the guarantee pays for the log-determinant of one problem."""
        chained = problem.n_outputs > 1 and self.adjacency == Relation.REPLACE_ONE and self.noise == "gaussian"
        return problem.n_outputs * (2 if chained else 1)

    def _penalty_at(self, problem, share):
        """Penalty at which the log-determinants take this share of epsilon."""
        log_det = share * self.epsilon / self._log_dets(problem)
        return penalty_for_log_det(problem.row_loss, max_norm=problem.row_norm, log_det=log_det)

    def _log_det_with_room(self, problem, penalty):
        least = self._penalty_at(problem, _LARGEST_SHARE_OF_LOG_DET)
        if penalty <= least:
            raise ValueError(
                f"epsilon={self.epsilon} is too small for C={self.C}: C must be below {0.99 / least:.3g}, and "
                f"C={1 / self._penalty_at(problem, _SHARE_OF_LOG_DET):.3g} leaves most of epsilon to the noise."
            )
        return hessian_log_det(problem.row_loss, max_norm=problem.row_norm, penalty=penalty)

    def _release(self, problem, release, X, codes):
        if release.radius is None:
            perturbation = _noise.gaussian(problem.weights_shape, release.scale)
        else:
            perturbation = draw_spherical(problem, release.scale, release.radius)
        weights = minimisers(
            problem,
            X,
            codes,
            penalty=release.penalty,
            perturbation=perturbation,
            largest=_largest_perturbation(problem, release.scale, release.radius),
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )
        _noise.add_gaussian(weights, release.release_scale)
        return weights

    def _publish(self, release):
        self.release_scale_ = release.release_scale
        super()._publish(release)


def _largest_perturbation(problem, scale, radius=None):
    """Norm of the linear term of one output that is exceeded once in 10^21 draws, which are refused then."""
    shape, power = radius or (problem.n_weights, 2)
    k = shape / power
    return float((scale if radius else np.sqrt(2) * scale) * (k + 10 * np.sqrt(k) + 40) ** (1 / power))


def _hidden_gradient(problem, penalty, scale, radius=None):
    """Gradient norm that the noise of the release hides: the solver's, and what sampling and rounding do to the term b.

    A sampled b is within a factor 2^-40 of a real-valued one.
    """
    largest = _largest_perturbation(problem, scale, radius)
    return problem.accuracy(penalty, largest) + _SAMPLING_ERROR * np.sqrt(problem.n_outputs) * largest
