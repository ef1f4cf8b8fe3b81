"""Objective perturbation: AMPClassifier."""

from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np

from .. import _noise
from .._adjacency import Relation
from .._calibration import Calibration, reached_delta
from .._digits import printed_down
from .._validation import Interval, StrOptions
from ..composition import PrivacyLoss, Profile
from ..mechanisms import Published, sampled_target
from ..mechanisms.gaussian_laplace import gaussian_scale
from ..mechanisms.label_count import LabelCount, gaussian_label_count, laplace_label_count
from ..mechanisms.objective_perturbation import (
    RELEASE_DEVIATIONS,
    objective_perturbation_profile,
    objective_perturbation_scale,
    penalty_for_log_det,
    product_perturbation_profile,
    product_perturbation_scale,
    softmax_perturbation_profile,
    softmax_perturbation_scale,
)
from ..mechanisms.published import published_objective_perturbation
from ._base import CLASSIFIER_CONSTRAINTS, LEAST_PENALTY, PrivateLinearClassifier
from ._erm import SOLVED, Problem, minimisers

# Of epsilon, what log-determinants (see `hessian_log_det`) take at most at C="auto", and at any C that is not refused.
_LARGEST_SHARE_OF_LOG_DET_OF_AUTO, _LARGEST_SHARE_OF_LOG_DET = 1 / 8, 7 / 8
# The least shift of the release, in units of its noise: so much for each unit of epsilon, up to a bound. It costs next
# to nothing of the guarantee, a hundredth of epsilon beside product noise.
_LEAST_SHIFT_PER_EPSILON, _BOUND_OF_LEAST_SHIFT = {"gaussian": 1 / 300, "product": 1 / 2000}, 0.1
_MOST_FOR_THE_RELEASE = 1.3  # factor by which the shift of the release may raise Gaussian noise of the linear term
_LEAST_DELTA_OF_PRODUCT = 4e-87  # above 2^-288, a bound of the tail that its profile adds
_USUAL_SCORE = 3.0  # of rows of the largest norm
_MOST_WEIGHTS_OF_PRODUCT = 64  # up to which product noise may be the smaller one: beyond, by 3% at most
_SAMPLING_ERROR = 2.0**-40  # of a sampled b, relative to its largest norm: see `_distance_of_solutions`
_BINARY_PROOF = "proof in skdprp.mechanisms.objective_perturbation_profile"
_SOFTMAX_PROOF = "proof in skdprp.mechanisms.softmax_perturbation_profile"
_PRODUCT_PROOF = "proof in skdprp.mechanisms.product_perturbation_profile"


@dataclass(frozen=True)
class ObjectiveNoise:
    """The penalty, the linear term b, the noise of the release, and that of a count of labels beside it.

    `scale` is a standard deviation if b is Gaussian, and `radius_law` None. Otherwise `radius_law` is a shape and a
    power: the norm of b is scale Gamma(shape / power)^(1 / power), its direction uniform. `release_scale` and
    `release_radius_law` say the same of the noise of the release, which is Gaussian beside exact product noise, too.

    This is the `noise` of a `Calibration`; the parameters `noise` and `calibration` of the estimator are its choices.
    """

    penalty: float
    scale: float
    radius_law: tuple[float, float] | None
    release_scale: float
    count: LabelCount | None = None
    release_radius_law: tuple[float, float] | None = None

    def __post_init__(self):
        _noise.check_scale(self.scale)
        _noise.check_scale(self.release_scale)


@dataclass(frozen=True)
class Plan:
    """What is fixed before the final calibration: kind of noise, penalty and shift of the release, by public facts.

    `release_shift` is how far apart the solver may leave two neighbours with the same exact minimiser, each for a b of
    its own, in units of the noise of the release. Plans are compared by `deviation`: that of a linear term which would
    cause all the noise of the weights, from both sources, at `_usual_curvature`.
    """

    problem: Problem
    kind: str
    count: LabelCount | None
    penalty: float
    release_shift: float
    deviation: float


class AMPClassifier(PrivateLinearClassifier):
    """Private logistic regression or support vector machine by objective perturbation.

    A random linear term is added to the objective, so that its minimiser is private (approximate minima perturbation).
    Rows of norm above `max_norm` are clipped to it, in fit and in prediction.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
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
        unless the loss has none, or the calibration is published.
    noise : {"auto", "gaussian", "product"}, default="auto"
        Distribution of the linear term: Gaussian, or a random radius times a random direction. Calibrated exactly, the
        radius is Gamma distributed, which is less noise for few weights; as published it is the half-normal of [2]_.
        "auto" takes the one that puts less noise on the weights; only public numbers decide this, such as those of rows
        and columns. Mostly it is product noise for up to 64 weights and some 100,000 rows. It is Gaussian for more of
        either, for one-vs-rest problems of more than two classes, and for published calibrations. Beside many other
        releases Gaussian noise adds up to less; a :class:`~skdprp.DPSearchCV` takes it for "auto".
    calibration : {"exact", "published"} or Published, default="exact"
        "published" reproduces [1]_ without hyperparameters (H-F AMP), or [2]_ for product noise, which is then that of
        the release, too. What they claim is in `claimed_`; `guarantee_` has what is true, and fit warns.
        :class:`~skdprp.mechanisms.Published` has another split of epsilon and delta, the tuning parameter of [2]_, and
        analytic Gaussian noise.
    max_norm : float, default=1.0
        Norm to which rows of larger norm are clipped. A public choice, never read from the data.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row, with any label, in the place of one row. With "add_remove",
        that place is empty and adds nothing, which a row of zeros would: another guarantee, which needs less noise, at
        best half. The number of places for rows is public in both.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature of 0.3 `max_norm`. Without one, `intercept_`
        is 0, or where labels are counted the score of their shares.
    tol : float, default=1e-10
        Largest norm of the gradient of the perturbed objective at the solution, divided by `n_samples`, in units of
        `max_norm`; at least 1e-10, which the guarantee accounts for. Noise of millions allows more, because rounding
        would hide so small a gradient. A solver that does not get there, as at a `C` of millions, raises SolverError.
    classes : array-like or None, default=None
        Each label once, if they are public. None takes those found in y. If only one row has a label, the set of labels
        reveals that row: the guarantee then holds only between tables with the same set of labels, and says so: *given
        the set of labels*.
    class_weight : dict of {label: float} or None, default=None
        Public weights of the rows of each class, from 0 to 1; labels that are not listed have 1, and None is 1 for all.
        They must not come from the data, so that there is no "balanced". Predicted probabilities are then those of a
        population with these weights.
    count_labels : "auto" or bool, default="auto"
        Whether to release a noisy count of the labels of two classes. The log-odds of the noisy share are added to all
        scores, so that probabilities are right where one class is rare. It costs half a percent more Gaussian noise, or
        a fiftieth of epsilon beside product noise. "auto" counts if the number of rows is at least forty times the
        standard deviation of the noise of the count: `epsilon`, `delta`, the number of rows and the kind of the noise
        decide this. Not for huber_hinge, more classes, and published calibrations.
    threshold : float or "prior", default=0.5
        Of two classes, ``classes_[1]`` (they are sorted) is predicted where its probability is above this; "prior" is
        `prior_threshold_`, for which `fit` counts the labels, unless `count_labels` is False. It may be set anew after
        the fit, as often as wanted: predictions, and files saved from then on, have it as it stands, and the guarantee
        is the same. As all parameters it must not come from the data: a threshold chosen by looking at the rows of the
        fit, or by scores on them, is a release without a guarantee. Choose it by costs, or on other rows.
    n_jobs : int or None, default=None
        Threads for one-vs-rest problems of rows in memory; chunks and dask collections are read for one class after the
        other. The noise is drawn before, for all classes at once.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    guarantee_ : PrivacyGuarantee
        What holds of this release.
    claimed_ : PrivacyGuarantee
        What the paper claims; for ``calibration="published"`` only.
    class_prior_ : float or None
        Noisy share of the second class, where labels were counted: kept at least two standard deviations of its noise
        away from 0 and from 1.
    prior_threshold_ : float or None
        Noisy share of the second class by the weights of the classes, where labels were counted: what
        ``threshold="prior"`` stands for.
    C_, delta_ : float
        The values used.
    loss_, noise_ : str
        The loss that was minimised, and the distribution of the linear term.
    scale_ : float
        Scale of the linear term: standard deviation of Gaussian noise, scale of the radius of product noise.
    release_scale_ : float
        Standard deviation of the noise on the minimiser, which hides the error of the solver; for published product
        noise, the scale of its radius.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    ProductNoiseOutputPerturbation : Noise on the minimiser; can be pure epsilon-DP.

    Notes
    -----
    The guarantee is proved in :func:`skdprp.mechanisms.objective_perturbation_profile` for Gaussian noise, in
    :func:`skdprp.mechanisms.softmax_perturbation_profile` for that of a softmax, and in
    :func:`skdprp.mechanisms.product_perturbation_profile` for product noise, which is the default for few weights;
    ``guarantee_.source`` says which it is. There is no `n_iter_`: how long the solver takes depends on the data, and is
    no part of the release. There is no `max_iter` either: with it, some weights could never be released from one table,
    because the solver would need more steps, and yet be released from a neighbouring table, where it needs fewer. That
    would tell the two apart. A solver that misses `tol` after 10,000 steps raises an error. The guarantee does not
    cover that, and assumes that no row decides about it. There is no `sample_weight`, by which the data would set the
    sensitivity.

    References
    ----------
    .. [1] R. Iyengar, J. P. Near, D. Song, O. Thakkar, A. Thakurta and L. Wang, "Towards Practical Differentially
       Private Convex Optimization", IEEE S&P 2019.
    .. [2] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Algorithm 3. Its Lambda is ``1 / C``.

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

    _weights = "coef_, intercept_, class_prior_ (None unless labels are counted)"

    _parameter_constraints: dict = {
        **CLASSIFIER_CONSTRAINTS,
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "noise": [StrOptions({"auto", "gaussian", "product"})],
        "count_labels": [StrOptions({"auto"}), "boolean"],
        "threshold": [StrOptions({"prior"}), *CLASSIFIER_CONSTRAINTS["threshold"]],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=None,
        C="auto",
        loss="auto",
        multi_class="auto",
        noise="auto",
        calibration="exact",
        max_norm=1.0,
        adjacency="replace_one",
        fit_intercept=True,
        tol=1e-10,
        classes=None,
        class_weight=None,
        count_labels="auto",
        threshold=0.5,
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
        self.classes = classes
        self.class_weight = class_weight
        self.count_labels = count_labels
        self.threshold = threshold
        self.n_jobs = n_jobs

    def _calibrate(self, problem, delta):
        can_count = problem.n_classes == 2 and problem.loss != "huber_hinge" and self.calibration == "exact"
        if self.count_labels is True and not can_count:
            raise ValueError("count_labels=True needs two classes, a logistic loss and an exact calibration.")
        if self.threshold == "prior" and (self.count_labels is False or not can_count):
            raise ValueError(
                "threshold='prior' needs a count of labels: leave count_labels and calibration as they are by default."
            )
        if self.calibration != "exact":
            return self._calibrate_as_published(problem, delta)
        # (1) Ideal noise has to meet (epsilon - 2 m eta, delta exp(-m eta)): sampling in floats moves the probability
        # of each of m noisy values by a factor exp(eta), eta = 2^-31.
        target = sampled_target(self.epsilon, delta, n_changed=_n_noisy(problem))
        # (2) The kind of the noise, the penalty and the shift of the release, by noise of a provisional scale.
        plan = min(self._plans(problem, target, delta, can_count), key=lambda plan: plan.deviation)
        problem = plan.problem
        # (3) The scale of the linear term, which pays for the log-determinant, the release and a count of labels, too.
        log_det = problem.log_det(plan.penalty)
        profile, calibrate, facts = self._mechanism(problem, plan.kind, plan.count)
        known = {"log_det": log_det, "release_shift": plan.release_shift, **facts}
        scale = calibrate(*_target_of_each(problem, plan.kind, target), **known)
        # (4) The noise of the release.
        radius_law = _radius_law(problem, plan.kind)
        problem = problem.with_tol_in_reach(_largest_perturbation(problem, scale, radius_law))
        release_scale = _distance_of_solutions(problem, plan.penalty, scale, radius_law) / plan.release_shift
        noise = ObjectiveNoise(plan.penalty, scale, radius_law, release_scale, plan.count)
        if plan.kind == "gaussian":
            loss = _privacy_loss(problem, profile, scale=scale, **known)
            source = _SOFTMAX_PROOF if problem.multinomial else _BINARY_PROOF
            return self._state(problem, noise, "Gaussian", delta=delta, source=source, loss=loss)
        loss = _privacy_loss(problem, profile, scale=scale, **known) if problem.n_outputs == 1 else None
        return self._state(problem, noise, "multivariate Laplace", delta=delta, source=_PRODUCT_PROOF, loss=loss)

    def _plans(self, problem, target, delta, can_count):
        """Return a `Plan` for each kind of noise that may be taken."""
        # Several problems would have to share epsilon.
        may_be_product = problem.n_outputs == 1 and problem.n_weights_each <= _MOST_WEIGHTS_OF_PRODUCT
        if delta < _LEAST_DELTA_OF_PRODUCT:
            may_be_product = False
            if self.noise == "product":
                raise ValueError(f"noise='product' needs a delta of at least {_LEAST_DELTA_OF_PRODUCT}, got {delta}.")
        kinds = ("gaussian", "product") if may_be_product else ("gaussian",)
        kinds = kinds if self.noise == "auto" else (self.noise,)
        counts = [self._count(problem, kind, delta) if can_count else None for kind in kinds]
        return [self._plan(problem, kind, count, target) for kind, count in zip(kinds, counts, strict=True)]

    def _plan(self, problem, kind, count, target):
        """Plan a fit with one kind of noise.

        The noise has a provisional scale, at log_det=0 and without a shift of the release: both depend on the penalty,
        and the penalty of C="auto" on the scale. `_calibrate` finds the final one.
        """
        problem = _with_largest_offset(problem, count)
        _, calibrate, facts = self._mechanism(problem, kind, count)
        scale = calibrate(*_target_of_each(problem, kind, target), log_det=0.0, **facts)
        # The squared radius of product noise has the mean n (n + 1) scale^2, over n coordinates.
        deviation = scale if kind == "gaussian" else np.sqrt(problem.n_weights_each + 1) * scale
        penalty = self._penalty(problem, kind, deviation)
        distance = _distance_of_solutions(problem, penalty, scale, _radius_law(problem, kind))
        # Noise of the linear term moves weights by itself over the steepness, that of the release as it is.
        steepness = penalty + _usual_curvature(problem)
        ratio = distance * steepness / deviation
        shift, factor = self._release_shift(problem, kind, count, target, penalty=penalty, ratio=ratio)
        of_both = np.hypot(factor * deviation, distance * steepness / shift)
        # Raised only now, for the noise of the release: plans are compared without it.
        if self.C == "auto":
            penalty = max(penalty, _least_penalty_beside_release(problem, penalty * distance / shift))
        return Plan(problem, kind, count, penalty, shift, of_both)

    def _release_shift(self, problem, kind, count, target, *, penalty, ratio):
        """Shift of the release that is best for the weights, see `_balanced_shift`, and its factor on the other noise.

        Fits to few rows have the least one.
        """
        profile, calibrate, facts = self._mechanism(problem, kind, count)
        epsilon, delta = _target_of_each(problem, kind, target)
        facts["log_det"] = problem.log_det(penalty)
        # `epsilon` is what is left after sampling; a first guess need not count that in the share of log-determinants.
        left = epsilon * (1 - self._n_log_dets(problem, kind) * facts["log_det"] / self.epsilon)
        least = min(_LEAST_SHIFT_PER_EPSILON[kind] * epsilon, _BOUND_OF_LEAST_SHIFT)
        shift, factor = _balanced_shift(kind, left, delta, ratio, least)
        if kind == "gaussian" and shift > least:
            # The profile may count the release for more than a Gaussian mechanism: if a row of a softmax is replaced,
            # it leaves only half of epsilon to it.
            scale = _MOST_FOR_THE_RELEASE * calibrate(epsilon, delta, release_shift=least, **facts)
            while shift > least and profile(epsilon, scale=scale, release_shift=shift, **facts) > delta:
                shift = max(0.9 * shift, least)  # `factor` stays: it only serves to compare plans
        return shift, factor

    def _count(self, problem, kind, delta):
        """Noise of a count of labels beside this kind of noise, or None where there is no count."""
        # By all of epsilon and delta, and cheap: any scale would be private, as the profile counts its exact price.
        if kind == "gaussian":
            count = gaussian_label_count(self.epsilon, delta, n_samples=problem.n_samples)
        else:
            count = laplace_label_count(self.epsilon, n_samples=problem.n_samples)
        is_wanted = self.count_labels is True or self.threshold == "prior"
        return count if is_wanted or (self.count_labels == "auto" and count.pays) else None

    def _mechanism(self, problem, kind, count=None):
        """Profile and calibration of noise in the objective, and the public facts that both take."""
        facts = {"adjacency": self.adjacency}
        if problem.multinomial and kind == "gaussian":
            # One row changes the gradient by (p - e_y) x', with x' the row and its constant feature: the profile takes
            # the norm of x', and knows the worst p.
            facts |= {"n_classes": problem.n_classes, "max_norm": problem.row_norm}
            return softmax_perturbation_profile, softmax_perturbation_scale, facts
        # The sensitivity: one row, clipped and with its constant feature, adds this to the gradient of an objective at
        # most. A row that is replaced counts twice, in the profile.
        facts |= {"lipschitz": problem.lipschitz, **(count.profile_argument if count else {})}
        if kind == "gaussian":
            facts["n_outputs"] = problem.n_outputs
            return objective_perturbation_profile, objective_perturbation_scale, facts
        facts |= {"n_dims": problem.n_weights_each, "n_vertices": problem.n_classes - 1 if problem.multinomial else 1}
        return product_perturbation_profile, product_perturbation_scale, facts

    def _n_log_dets(self, problem, kind):
        """How many log-determinants the privacy loss has."""
        # One row may change the log-determinant of the second derivative, which is a part of the privacy loss that no
        # noise hides. One-vs-rest problems pay for one each, and with Gaussian noise and a replaced row for two each,
        # of the row that is taken away and of the new one: see `objective_perturbation_profile`.
        pays_twice = problem.n_outputs > 1 and self.adjacency == Relation.REPLACE_ONE and kind == "gaussian"
        return problem.n_outputs * (2 if pays_twice else 1)

    def _penalty(self, problem, kind, deviation):
        """Penalty of `C`; if "auto", one that balances noise of this kind and size against shrinkage."""
        of_one = self.epsilon / self._n_log_dets(problem, kind)
        at = partial(penalty_for_log_det, problem.row_loss, max_norm=problem.row_norm)
        least = at(log_det=_LARGEST_SHARE_OF_LOG_DET * of_one)
        least_of_auto = at(log_det=_LARGEST_SHARE_OF_LOG_DET_OF_AUTO * of_one)
        penalty = max(least_of_auto, balanced_penalty(problem, deviation)) if self.C == "auto" else 1.0 / self.C
        if penalty <= least:
            raise ValueError(
                f"epsilon={self.epsilon} is too small for C={self.C}: C must be below {0.99 / least:.3g}, and "
                f"C={1 / least_of_auto:.3g} leaves most of epsilon to the noise."
            )
        return penalty

    def _state(self, problem, noise, kind, *, delta, source, loss=None, proved=None, claimed=None):
        """State what holds of a fit with this noise: (epsilon, `delta`), or another pair that was `proved`."""
        mechanism = (
            f"objective perturbation, {kind}, scale {printed_down(noise.scale, 6)}; "
            f"{'half-normal radius' if noise.release_radius_law else 'Gaussian'} release noise, "
            f"scale {printed_down(noise.release_scale, 6)} (hides the error of the solver)"
        )
        if noise.count:
            kind_of_count = "Gaussian" if noise.count.is_gaussian else "Laplace"
            mechanism += f"; {kind_of_count} count of labels, scale {printed_down(noise.count.scale, 6)}"
        return Calibration(
            self._guarantee(
                *(proved or (self.epsilon, delta)),
                mechanism=mechanism,
                source=source,
                assumptions=(SOLVED,),
                loss=loss,
            ),
            fitted={
                "C_": 1.0 / noise.penalty,
                "delta_": delta,
                "noise_": "gaussian" if noise.radius_law is None else "product",
                "scale_": noise.scale,
                "release_scale_": noise.release_scale,
            },
            noise=noise,
            claimed=claimed,
            problem=problem,
        )

    def _release(self, calibration, X, codes, class_weights):
        problem, noise = calibration.problem, calibration.noise
        # (0) The offset of all scores: that of the noisy share of the second class, weighted as its rows are.
        prior, share, offset = None, None, 0.0
        if noise.count:
            prior = noise.count.release(int(X.class_counts[1] if codes is None else np.count_nonzero(codes)))
            shares, least = np.array([1 - prior, prior]), _least_weighted_share(problem)
            if class_weights is not None:
                shares *= class_weights / class_weights.max()  # whose ratio counts, however small they are
            share = float(np.clip(shares[1] / shares.sum(), least, 1 - least))
            offset = problem.row_loss.score_of(share)
        # (1) The linear term b. It is drawn for all outputs at once, because the jobs that minimise draw nothing.
        if noise.radius_law is None:
            perturbation = _noise.draw_gaussian(problem.weights_shape, noise.scale)
        else:
            shape, power = noise.radius_law
            size, n_outputs = problem.n_weights_each, problem.n_outputs  # each with a radius and a direction of its own
            draws = [_noise.draw_spherical(size, noise.scale, shape=shape, power=power) for _ in range(n_outputs)]
            perturbation = np.stack(draws).reshape(problem.weights_shape)
        # (2) The minimiser for rows that are clipped to `max_norm`, to the tolerance that the guarantee assumes.
        X, row_weights = self._clipped(X, codes, class_weights)
        weights = minimisers(
            problem,
            X,
            codes,
            row_weights,
            offset=offset,
            penalty=noise.penalty,
            perturbation=perturbation,
            largest_perturbation=_largest_perturbation(problem, noise.scale, noise.radius_law),
            n_jobs=self.n_jobs,
        )
        # (3) The noise of the release, which hides how far the solver is from the minimiser.
        if noise.release_radius_law is None:
            _noise.add_gaussian(weights, noise.release_scale)
        else:
            shape, power = noise.release_radius_law
            outputs = np.ascontiguousarray(weights).reshape(problem.n_outputs, -1)
            for of_output in outputs:  # each with a radius and a direction of its own
                _noise.add_spherical(of_output, noise.release_scale, shape=shape, power=power)
            weights = outputs.reshape(problem.weights_shape)
        coef, intercept = problem.coefficients(weights)
        intercept += offset  # as public as the count that it is computed from
        fitted = {"coef_": coef, "intercept_": intercept, "loss_": problem.loss}  # the last is public
        return {**fitted, "class_prior_": prior, "prior_threshold_": share}

    def _calibrate_as_published(self, problem, delta):
        """Take the noise of the papers, and state what it truly gives."""
        if self.adjacency != Relation.REPLACE_ONE:
            raise ValueError("Published calibrations are for adjacency='replace_one'.")
        both = ("epsilon2", "epsilon3", "delta2")
        if self.noise == "product":
            settings = Published.of(self.calibration, "k", "alpha", *both, kind="product noise")
        else:
            settings = Published.of(self.calibration, *both, "analytic", kind="Gaussian noise")
        published = published_objective_perturbation(
            self.epsilon,
            delta,
            lipschitz=problem.row_loss.lipschitz,
            smoothness=problem.row_loss.smoothness,
            max_norm=problem.row_norm,
            n_outputs=problem.n_outputs,
            n_dims=problem.n_weights_each if self.noise == "product" else None,
            settings=settings,
        )
        penalty = published.least_penalty if self.C == "auto" else 1.0 / self.C
        if penalty < published.least_penalty:
            raise ValueError(
                f"The published calibration needs C of at most {1 / published.least_penalty:.6g}, got {self.C}."
            )
        radius_law = (1, 2) if self.noise == "product" else None
        largest = _largest_perturbation(problem, published.scale, radius_law)
        problem = problem.with_tol_in_reach(largest)
        release_scale = published.release_factor * problem.gradient_error(penalty, largest) / penalty
        noise = ObjectiveNoise(penalty, published.scale, radius_law, release_scale, release_radius_law=radius_law)
        if radius_law is not None:
            kind, source, paper = "half-normal radius", "none", "Liu et al., SIGMOD 2026"
            loss, proved = None, (np.inf, 0.0)
        else:
            kind, source, paper = "Gaussian", _BINARY_PROOF, "Iyengar et al., S&P 2019"
            log_det = problem.log_det(penalty)
            shift = _distance_of_solutions(problem, penalty, noise.scale) / release_scale
            profile, _, facts = self._mechanism(problem, "gaussian")
            loss = _privacy_loss(problem, profile, scale=noise.scale, log_det=log_det, release_shift=shift, **facts)
            proved = self.epsilon, reached_delta(self.epsilon, loss.profile(self.epsilon))
        claimed = self._claim(published.claimed_delta, paper)
        return self._state(problem, noise, kind, delta=delta, source=source, loss=loss, proved=proved, claimed=claimed)

    def _is_multinomial(self, n_classes):
        # The papers know binary problems alone.
        if self.calibration == "exact":
            return super()._is_multinomial(n_classes)
        if self.multi_class == "multinomial":
            raise ValueError("Published calibrations are for binary problems: use multi_class='ovr' or 'auto'.")
        return False


def _target_of_each(problem, kind, target):
    """Epsilon and delta of each draw of the noise, of those that all may take together."""
    # No profile of several spherical draws together is known, so that each has its part of epsilon and of delta.
    return target if kind == "gaussian" else (target[0] / problem.n_outputs, target[1] / problem.n_outputs)


def _radius_law(problem, kind):
    """Shape and power of the radius of the linear term, see `ObjectiveNoise`."""
    return None if kind == "gaussian" else (problem.n_weights_each, 1)


def _privacy_loss(problem, profile, **known):
    """Privacy loss at every epsilon, for totals; `sampling` is the m eta of `sampled_target`."""
    return PrivacyLoss(profiles=(Profile.of(profile, **known),), sampling=_n_noisy(problem) * _noise.SAMPLING_LOSS)


def _n_noisy(problem):
    """Bound the number of released values with noise: all weights, and of two classes a count of labels if one is made.

    b is not released: what its sampling may be off by is in `_distance_of_solutions`.
    """
    return problem.n_weights + (problem.n_classes == 2)


def _with_largest_offset(problem, count):
    """Bound the number that is added to all scores if labels are counted, by the score of the smallest share."""
    largest = abs(problem.row_loss.score_of(_least_weighted_share(problem))) if count else 0.0
    return replace(problem, largest_offset=largest)


def _least_weighted_share(problem):
    """Smallest share of a class that scores start from: a quarter of a row.

    A count alone says half a row at least, see `LabelCount.least_share`; class weights make the share smaller.
    """
    return 0.25 / problem.n_samples


def balanced_penalty(problem, noise_scale):
    """Penalty that balances noise of this scale in the objective against shrinkage, from public facts.

    The noise moves weights that the data does not determine by noise_scale / penalty, so that scores of rows of norm R
    stay of order one if the penalty is of order R noise_scale. The constants, and more where the noise outweighs the
    rows themselves, were chosen on scikit-learn's digits and breast cancer data and on synthetic problems, and checked
    on others.
    """
    K, R = problem.n_classes, problem.row_norm
    relative_noise = noise_scale * np.sqrt(problem.n_features) / (R * problem.n_samples)
    balanced = 0.63 * np.sqrt(K) * R * noise_scale * (1 + 36 * relative_noise**2 / (K - 1) ** 1.5)
    return max(balanced, LEAST_PENALTY * R**2)


def _usual_curvature(problem):
    """Second derivative of all losses in a direction, if rows have the largest norm and no direction is preferred.

    A rule of thumb, with p (1 - p) = 1 / (4 K): utility depends on it, privacy does not.
    """
    return problem.n_samples * problem.row_norm**2 / (4 * problem.n_classes * problem.n_features)


def _least_penalty_beside_release(problem, noise_times_penalty):
    """Penalty that balances noise of the release, which this number over the penalty is, against shrinkage.

    Scores of rows of the largest norm R have noise of ``R noise_times_penalty / penalty``, and scores of usually 3 are
    shrunk by ``3 penalty / curvature``: at this penalty both are equal, and both are small where rows are many.
    """
    return float(np.sqrt(problem.row_norm * noise_times_penalty * _usual_curvature(problem) / _USUAL_SCORE))


def _balanced_shift(kind, epsilon, delta, ratio, least):
    """Shift of the release that makes both kinds of noise of the weights together least, and its factor on the first.

    The noise of the linear term grows with the shift, and that of the release is proportional to 1 / shift. `ratio` is
    the latter at a shift of 1 over the former at 0. For few rows it is next to nothing, and the shift is `least`.

    Gaussian noise of the linear term and of the release together are a Gaussian mechanism of shift mu, so that the
    first grows by ``1 / sqrt(1 - (shift / mu)^2)``: what is least is about ``1 + (shift / mu)^2 + (ratio / shift)^2``.
    Beside product noise the release takes about d = `RELEASE_DEVIATIONS` times its shift of epsilon, so that the first
    grows by ``1 / (1 - d shift / epsilon)``: about ``1 + 2 d shift / epsilon + (ratio / shift)^2`` is least. Neither
    takes more than half.
    """
    ratio = ratio if np.isfinite(ratio) else 0.0  # of a penalty that no noise goes with, which is refused later
    if kind == "gaussian":
        mu = 1 / gaussian_scale(epsilon, delta)
        shift = float(np.clip(np.sqrt(ratio * mu), least, mu / 2))
        return shift, 1 / np.sqrt(1 - (shift / mu) ** 2)
    d = RELEASE_DEVIATIONS
    half = epsilon / (np.sqrt(d**2 + epsilon) + d)  # at which d shift + shift^2 / 2, which is the loss, is epsilon / 2
    shift = float(np.clip(np.cbrt(ratio**2 * epsilon / d), least, half))
    return shift, 1 / (1 - (d * shift + shift**2 / 2) / epsilon)


def _largest_perturbation(problem, scale, radius_law=None):
    """Norm of the linear term of one output, beyond which `minimisers` refuses draws: a probability below 2^-288.

    The term depends on no row, so that what is refused adds (1 + e^epsilon) 2^-288 to a delta at most: as little as one
    number's tails that are not sampled exactly, see `_calibration.void_if_out_of_reach`. The norm is a root of a Gamma
    variate G of shape k times a scale. For t between 0 and 1, ``log E exp(t (G - k)) = -k log(1 - t) - k t``, which is
    at most ``k t^2 / (2 (1 - t))``, so that G exceeds ``k + sqrt(2 k x) + x`` with a probability of exp(-x) at most
    (Boucheron, Lugosi and Massart 2013, section 2.4), and exp(-200) is below 2^-288.
    """
    # A Gaussian one is sqrt(2) scale times a root of a Gamma variate.
    shape, power = radius_law or (problem.n_weights_each, 2)
    k = shape / power
    return float((scale if radius_law else np.sqrt(2) * scale) * (k + 20 * np.sqrt(k) + 200) ** (1 / power))


def _distance_of_solutions(problem, penalty, scale, radius_law=None):
    """How far apart the solver may leave two neighbours with the same exact minimiser, before the noise of the release.

    Where the solver stops, the gradient is small, and the weights no further from the minimiser than its norm over the
    penalty. Those of two neighbours are at most twice that apart. One-vs-rest problems count together under Gaussian
    noise, and each by itself under product noise.
    """
    largest = _largest_perturbation(problem, scale, radius_law)
    # A sampled b is off from a real-valued one by at most 2^-40 of the largest norm, however small its coordinates are:
    # they are normal quantiles of tails that are exact to 46 bits (`_noise.draw_gaussian`), and the radius of product
    # noise is as exact up to the shape `_noise._EXACT_SHAPE`.
    hidden = problem.gradient_error(penalty, largest) + _SAMPLING_ERROR * np.sqrt(problem.n_outputs) * largest
    return 2 * hidden / (penalty * (np.sqrt(problem.n_outputs) if radius_law else 1.0))
