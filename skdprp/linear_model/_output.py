"""Output perturbation: ProductNoiseOutputPerturbation."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import _noise
from .._adjacency import Relation
from .._calibration import Calibration
from .._digits import printed_down, printed_up
from .._validation import StrOptions
from ..composition import PrivacyLoss, Profile
from ..mechanisms import (
    Published,
    classic_gaussian_scale,
    gaussian_scale,
    published_product_noise_delta,
    published_product_noise_scale,
    sampled_target,
    spherical_profile,
    spherical_scale,
)
from ..sensitivity import minimiser_sensitivity
from ._base import CLASSIFIER_CONSTRAINTS, LEAST_PENALTY, PrivateLinearClassifier
from ._erm import SOLVED, minimisers


@dataclass(frozen=True)
class OutputNoise:
    """The penalty and the noise on the minimiser.

    `scale` is a standard deviation if the noise is Gaussian; otherwise that of a radius, with the shape and power in
    `radius`.
    """

    penalty: float
    scale: float
    radius: tuple[float, float] | None


class ProductNoiseOutputPerturbation(PrivateLinearClassifier):
    """Private logistic regression or support vector machine by noise on the minimiser.

    The noise is a random radius times a random direction. Rows of norm above `max_norm` are clipped, in fit and in
    prediction.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2. With ``radius="gamma"`` it may be 0.
    C : float or "auto", default="auto"
        Inverse of the penalty, as in LogisticRegression: the objective is the sum of the losses plus
        ``|w|**2 / (2 C)``, with the intercept penalised. "auto" depends on the numbers of rows, features and classes,
        `epsilon`, `delta`, `adjacency` and the other parameters only, never on the values of the data.
    loss : {"auto", "log_loss", "capped_log_loss", "huber_hinge"}, default="auto"
        Logistic regression; logistic regression whose derivative is capped at 1/2, which halves the noise; or a support
        vector machine with a smoothed hinge. "auto" is the capped one for two classes and one-vs-rest problems, and
        "log_loss" for a softmax and for published calibrations.
    multi_class : {"auto", "multinomial", "ovr"}, default="auto"
        One softmax for more than two classes, or one-vs-rest problems released jointly. "auto" is the softmax,
        unless the loss has none.
    radius : {"gamma", "chi1", "gaussian"}, default="gamma"
        Distribution of the radius. "gamma" is the multivariate Laplace noise: if delta is far below epsilon, it is at
        most about as much as Gaussian noise, and much less for few weights. "gaussian" is Gaussian noise; "chi1" is the
        half-normal radius of [1]_, which for the same true guarantee is far more noise.
    calibration : {"exact", "published"} or Published, default="exact"
        "published" reproduces the scale of [1]_ for "chi1", and the textbook one for "gaussian". What they claim is in
        `claimed_`; `guarantee_` has what is true, and fit warns. :class:`~skdprp.mechanisms.Published` has a tuning
        parameter besides.
    max_norm : float, default=1.0
        Norm to which rows of larger norm are clipped. A public choice, never read from the data.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row, with any label, in the place of one row. With "add_remove",
        that place is empty and adds nothing, which a row of zeros would: another guarantee, which needs half the noise.
        The number of places for rows is public in both.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature of 0.3 `max_norm`.
    tol : float, default=1e-10
        Largest norm of the gradient of the mean loss at the solution, in units of `max_norm`; at least 1e-10, which
        the guarantee accounts for. A solver that does not get there, as at a `C` of millions, raises SolverError.
    classes : array-like or None, default=None
        Each label once, if they are public. None takes those found in y. If only one row has a label, the set of labels
        reveals that row: the guarantee then holds only between tables with the same set of labels, and says so: *given
        the set of labels*.
    class_weight : dict of {label: float} or None, default=None
        Public weights of the rows of each class, from 0 to 1; labels that are not listed have 1, and None is 1 for all.
        They must not come from the data, so that there is no "balanced". Predicted probabilities are then those of a
        population with these weights.
    threshold : float, default=0.5
        The second of two classes is predicted where its probability is above this. It may be set anew after the fit, as
        often as wanted. As all parameters it must not come from the data: choose it by costs, or on other rows.
    n_jobs : int or None, default=None
        Threads for one-vs-rest problems of rows in memory; chunks and dask collections are read for one class after the
        other.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    claimed_ : PrivacyGuarantee
        What the paper claims; for ``calibration="published"`` only.
    C_, delta_ : float
        The values used.
    loss_ : str
        The loss that was minimised.
    sensitivity_ : float
        Distance between the solutions of two neighbours.
    scale_ : float
        Scale of the noise: of the radius, or the standard deviation of Gaussian noise.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    AMPClassifier : More accurate, for delta > 0.

    Notes
    -----
    There is no `n_iter_`: how long the solver takes depends on the data, and is no part of the release. There is no
    `max_iter` either: a solver that stops early would fail for some data sets and not for their neighbours. One that
    misses `tol` after 10,000 steps raises an error, which the guarantee does not cover. There is no `sample_weight`,
    which would change the sensitivity.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Algorithm 2. Its Lambda is that of an objective divided by the number of rows:
       ``C = 1 / (n_samples * Lambda)``.
    .. [2] K. Chaudhuri, C. Monteleoni and A. Sarwate, "Differentially Private Empirical Risk Minimization", JMLR 12,
       2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import ProductNoiseOutputPerturbation
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ProductNoiseOutputPerturbation(epsilon=10.0, delta=0, max_norm=50.0, classes=range(10)).fit(X, y)
    >>> model.coef_.shape
    (10, 64)
    >>> model.guarantee_
    10.0-DP, one row replaced
    """

    _parameter_constraints: dict = {
        **CLASSIFIER_CONSTRAINTS,
        "radius": [StrOptions({"gamma", "chi1", "gaussian"})],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=None,
        C="auto",
        loss="auto",
        multi_class="auto",
        radius="gamma",
        calibration="exact",
        max_norm=1.0,
        adjacency="replace_one",
        fit_intercept=True,
        tol=1e-10,
        classes=None,
        class_weight=None,
        threshold=0.5,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.C = C
        self.loss = loss
        self.multi_class = multi_class
        self.radius = radius
        self.calibration = calibration
        self.max_norm = max_norm
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.classes = classes
        self.class_weight = class_weight
        self.threshold = threshold
        self.n_jobs = n_jobs

    def _calibrate(self, problem, delta):
        n_dims = problem.n_weights
        radius = {"gamma": (n_dims, 1), "chi1": (1, 2), "gaussian": None}[self.radius]
        distance = partial(
            minimiser_sensitivity,
            problem.row_loss,
            max_norm=problem.row_norm,
            adjacency=self.adjacency,
            n_outputs=problem.n_outputs,
        )
        if self.C == "auto":
            unit = distance(penalty=1.0)
            # The root mean square of one coordinate of noise of scale 1.
            deviation = {"gamma": np.sqrt(n_dims + 1), "chi1": np.sqrt(0.5 / n_dims), "gaussian": 1.0}[self.radius]
            penalty = output_penalty(problem, self._scale(delta, unit, n_dims, radius) * deviation)
        else:
            penalty = 1.0 / self.C
        # Where the solver stops it is off by this gradient, of either neighbour: the sensitivity has room for both.
        accuracy = problem.gradient_error(penalty)
        sensitivity = distance(penalty=penalty, accuracy=accuracy)
        claimed = None
        if self.calibration == "exact":
            scale = self._scale(delta, sensitivity, n_dims, radius)
        else:  # which takes the sensitivity of exact minimisers
            scale, claimed = self._published_scale(delta, sensitivity - 2 * accuracy / penalty, n_dims)
        loss = _loss(scale, sensitivity, n_dims, radius)
        pole = ("near zero, a half-normal radius is sampled as if floats were real numbers",)
        guarantee = self._guarantee(
            self.epsilon,
            loss.profile(self.epsilon) if claimed else delta,
            mechanism=f"output perturbation, {self.radius} radius, scale {printed_down(scale, 6)}, "
            f"sensitivity {printed_up(sensitivity, 6)}",
            source="exact profile of the noise; Chaudhuri, Monteleoni and Sarwate, JMLR 2011, for the sensitivity",
            assumptions=(SOLVED, *pole) if self.radius == "chi1" else (SOLVED,),
            loss=loss,
        )
        return Calibration(
            guarantee,
            fitted={"C_": 1.0 / penalty, "delta_": delta, "sensitivity_": sensitivity, "scale_": scale},
            noise=OutputNoise(penalty, scale, radius),
            claimed=claimed,
        )

    def _scale(self, delta, sensitivity, n_dims, radius):
        """Exact scale of the noise, of which sampling in floats costs a little."""
        target = sampled_target(self.epsilon, delta, n_changed=n_dims)
        if not np.isfinite(sensitivity):  # of a penalty beyond floats
            _noise.check_scale(sensitivity)
        if radius is None:
            scale = gaussian_scale(*target, sensitivity=sensitivity)
        else:
            scale = spherical_scale(*target, sensitivity=sensitivity, n_dims=n_dims, shape=radius[0], power=radius[1])
        return _noise.check_scale(scale)  # a sensitivity of 0 is one that vanished

    def _published_scale(self, delta, sensitivity, n_dims):
        """Scale of the papers, and what they claim for it."""
        if self.adjacency != Relation.REPLACE_ONE or self.radius == "gamma":
            raise ValueError("Published calibrations are for radius='chi1' or 'gaussian', and adjacency='replace_one'.")
        if self.radius == "gaussian":
            Published.of(self.calibration, kind="Gaussian noise")
            if self.epsilon >= 1:
                raise ValueError(f"The textbook noise needs epsilon < 1, got {self.epsilon}: use calibration='exact'.")
            scale = classic_gaussian_scale(self.epsilon, delta, sensitivity=sensitivity)
            return scale, self._claim(delta, "Dwork and Roth 2014, Theorem A.1")
        settings = Published.of(self.calibration, "k", "alpha", kind="product noise")
        known = {"n_dims": n_dims, "k": settings.k}
        sigma = published_product_noise_scale(
            self.epsilon, delta, sensitivity=sensitivity, alpha=settings.alpha, **known
        )
        if settings.k is not None and settings.alpha is None:
            delta = published_product_noise_delta(self.epsilon, **known)
        return float(np.sqrt(2) * sigma), self._claim(delta, "Liu et al., SIGMOD 2026, Algorithm 2")

    def _release(self, calibration, X, codes, class_weights):
        problem, noise = calibration.problem, calibration.noise
        zero = np.zeros(problem.weights_shape)
        X, row_weights = self._clipped(X, codes, class_weights)
        weights = minimisers(
            problem,
            X,
            codes,
            row_weights,
            penalty=noise.penalty,
            perturbation=zero,
            largest_perturbation=0.0,
            n_jobs=self.n_jobs,
        )
        if noise.radius is None:
            _noise.add_gaussian(weights, noise.scale)
        else:
            _noise.add_spherical(weights, noise.scale, shape=noise.radius[0], power=noise.radius[1])
        coef, intercept = problem.coefficients(weights)
        return {"coef_": coef, "intercept_": intercept, "loss_": problem.loss}


def _loss(scale, sensitivity, n_dims, radius):
    """Privacy loss at every epsilon, with what sampling costs."""
    sampling = n_dims * _noise.SAMPLING_LOSS
    if radius is None:
        return PrivacyLoss(mu=sensitivity / scale, sampling=sampling)
    exact = Profile.of(
        spherical_profile, scale=scale, sensitivity=sensitivity, n_dims=n_dims, shape=radius[0], power=radius[1]
    )
    return PrivacyLoss(profiles=(exact,), sampling=sampling)


def output_penalty(problem, noise_scale):
    """Penalty that balances the noise of the release against shrinkage, from public facts.

    `noise_scale` is the root mean square of each coordinate of the noise at penalty 1: it falls as the penalty grows.
    """
    balanced = 2.5 * np.sqrt(problem.n_classes) * problem.row_norm * noise_scale
    return max(balanced, LEAST_PENALTY * problem.row_norm**2)
