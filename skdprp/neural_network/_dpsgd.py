"""Noisy gradient descent: DPSGDClassifier."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp

from .. import _noise
from .._adjacency import Relation, Unit
from .._calibration import Calibration, reached_delta
from .._digits import printed_down, printed_up
from .._rows import clip_rows
from .._validation import POSITIVE, Interval, StrOptions, _fit_context
from ..composition import PrivacyLoss, Profile
from ..guarantee import PrivacyGuarantee
from ..linear_model._base import CLASS_WEIGHT, THRESHOLD, PrivateClassifier
from ..linear_model._erm import constant_feature
from ..losses import CappedLogisticLoss
from ..mechanisms import Published, gaussian_scale, sampled_target, subsampled_gaussian_profile
from ..mechanisms._numerics import rows_that_differ
from ..mechanisms.noisy_steps import descent_scale, product_descent_scale, sampled_steps_target
from ..mechanisms.published import published_product_descent
from ._network import ACTIVATIONS, Network, capped_log_probabilities, score
from ._plan import Plan, Rounding, plan_descent, plan_rounding
from ._preconditioner import Preconditioner, least_floor, relative_scales, release_preconditioner, rounding_of_gram
from ._progress import CallbackSupportMixin, report_steps, with_callbacks
from ._steps import LARGEST_PADDED_BLOCK, UPDATES, noisy_descent

_IN_MEMORY = (
    "Networks, batches, rows without max_norm and very many rows need all of them in memory: X, y = "
    "dask.compute(X, y). Or choose a linear model with max_norm and batch_size=None."
)
_LARGEST_NORM, _LARGEST_FLOAT32_NORM = 1e50, 1e15  # of float64, and of float32 with room for what is computed
_END_OF_FLOAT32 = 1e38  # which sums of repeated entries may pass


@dataclass(frozen=True)
class DescentProblem:
    """What is public of a problem for gradient descent.

    `n_samples` is the number of rows or persons, as `unit` says. `row_norm` is the norm of a row with its constant
    feature, as far as gradients are concerned; `bound` that of its gradient, at most; `dtype` the type that gradients
    are computed in.
    """

    n_samples: int
    n_classes: int
    network: Network
    row_norm: float
    bound: float
    dtype: np.dtype
    unit: Unit = Unit.ROW

    @property
    def n_numbers(self):
        """How many numbers a fit holds at most, besides the rows and the preconditioner."""
        return 12 * self.network.n_weights + 4 * LARGEST_PADDED_BLOCK * max(self.network.sizes[1:])


@dataclass(frozen=True)
class Descent:
    """Steps and batches, the noise of a sum of gradients, how gradients are summed, and the preconditioner.

    `scale` is a standard deviation if the noise is Gaussian; otherwise that of a radius, with the shape and power in
    `radius`.
    """

    plan: Plan
    scale: float
    radius: tuple[float, float] | None
    rounding: Rounding
    preconditioner: Preconditioner | None = None


@dataclass(frozen=True)
class StepNoise:
    """Noise of a sum of gradients in units of their bound, the preconditioner before it, and what holds of all steps.

    `delta` holds at epsilon, and includes the probability that a batch is larger than the margin of rounding is for;
    `loss` holds at every epsilon, where it is known. `claimed` is what a published calibration claims.
    """

    multiplier: float
    delta: float
    radius: tuple[float, float] | None = None
    loss: PrivacyLoss | None = None
    preconditioner: Preconditioner | None = None
    claimed: PrivacyGuarantee | None = None


def _n_changed(problem, plan):
    """Number of values that neighbours differ in, of all steps."""
    return plan.n_steps * problem.network.n_weights


class DPSGDClassifier(CallbackSupportMixin, PrivateClassifier):
    r"""Private linear classifier or neural network by noisy gradient descent.

    Each step t adds up the gradients g_i of the rows of a batch B_t, each clipped to a norm of at most C, adds noise
    N_t, and moves the weights w by that::

        noisy = sum(g_i * min(1, C / |g_i|) for i in B_t) + N_t
        w = w - learning_rate * noisy / E|B_t|

    The batch B_t has all rows, or each with probability p, unknown to anyone. The weights are the average of those of
    the second half of the steps.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    hidden_layer_sizes : int or array-like of int, default=()
        Widths of the hidden layers; none is a linear model, logistic or multinomial.
    activation : {"relu", "tanh", "logistic"}, default="relu"
        What hidden layers apply to their sums.
    max_grad_norm : float, default=1.0
        C: norm to which the gradient of each row is clipped, in networks, and in linear models where `max_norm` is
        None. Probabilities are biased where many gradients are clipped.
    batch_size : int, None or "auto", default="auto"
        Expected number of rows of a batch; None for all rows at each step, which is accounted for exactly and without
        further packages. "auto" is all rows for linear models; for networks the smallest sample that needs hardly more
        noise than all rows, by the number of rows, `epsilon` and `delta`: the smaller `epsilon`, the smaller it is.
    n_epochs : int or "auto", default="auto"
        How often each row is used, on average. Like every "auto" here, it depends on the numbers of rows, features and
        classes, `epsilon`, `delta` and the other parameters only, never on the values of the data.
    learning_rate : float or "auto", default="auto"
        Factor eta of the mean gradient.
    momentum : float or "auto", default="auto"
        Share of the last move in the next one. For linear models "auto" is above 0 where plain steps would have to be
        too long, or too many, to get far enough. It is 0 for networks and where `learning_rate` is given, and 0.9 for
        "adam", whose first decay it is.
    optimizer : {"sgd", "adam"}, default="sgd"
        How a noisy gradient moves the weights: as above, or scaled weight by weight by its past.
    preconditioner : bool or "auto", default="auto"
        Whether the sums of products of columns are released first, to precondition the steps: directions in which rows
        vary little are then learnt in as many steps as others. With ``adjacency="replace_one"`` this costs nothing;
        with "add_remove" it takes a fifth of the budget (of the sum of mu squared). It is only for linear models that
        have a `max_norm` and use all rows in each step; `learning_rate` is then a factor on the step that the released
        sums suggest. "auto" uses it for at most 1000 weights per class, if there are so many rows that the sums are
        large compared with their noise. About n_features squared numbers are released.
    noise : {"gaussian", "product"}, default="gaussian"
        Distribution of the noise of a step. "product" is a Gamma distributed radius times a random direction, composed
        as pairs of (epsilon, delta): twice the size of Gaussian noise at 5 steps and five times at 50, for 124 weights
        at epsilon = 1 and delta = 1e-9.
    calibration : {"exact", "published"} or Published, default="exact"
        "published", for product noise, is the half-normal radius of [4]_ at the scale that it gives for each step. What
        that claims is in `claimed_`; `guarantee_` has what is true, next to nothing, and fit warns. With
        :class:`~skdprp.mechanisms.Published` you set the noise itself: product noise by the initial epsilon and the
        tuning parameter of [4]_, Gaussian noise by a noise multiplier. `epsilon` and `delta` then decide only what is
        "auto", and `guarantee_` has the delta that results at `epsilon`.
    max_norm : float, "auto" or None, default="auto"
        Norm to which rows of larger norm are clipped, in fit and in prediction. A public choice, never read from the
        data. "auto" is 1 for a linear model, and None for a network, which clips no row. In a linear model it bounds
        the gradients, so that none is clipped, and the derivative of a row's loss by its scores is capped at the length
        that it has at the start: half the noise for two classes. Probabilities allow for the cap.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row, with any label, in the place of one row. With "add_remove",
        that place is empty and adds nothing, which a row of zeros would: another guarantee, which needs half the noise
        or a little more. The number of places for rows is public in both.
    classes : array-like or None, default=None
        Each label once, if they are public. None takes those found in y. If only one row has a label, the set of labels
        reveals that row: the guarantee then holds only between tables with the same set of labels, and says so: *given
        the set of labels*.
    class_weight : dict of {label: float} or None, default=None
        Public weights of the rows of each class, from 0 to 1, by which their gradients are multiplied; labels that are
        not listed have 1, and None is 1 for all. They must not come from the data, so that there is no "balanced".
    threshold : float, default=0.5
        For two classes: ``classes_[1]`` (they are sorted) is predicted where its probability is above this. It may be
        set anew after the fit, as often as wanted. As all parameters it must not come from the data: choose it by
        costs, or on other rows.
    verbose : int, default=0
        How many lines to print during fit. They tell how far it is, and nothing of the data.

    Attributes
    ----------
    coefs_ : list of ndarray of shape (width of the layer, width of the next)
        Private weights of each layer.
    intercepts_ : list of ndarray of shape (width of the next layer,)
        Private intercepts of each layer.
    coef_, intercept_ : ndarray of shape (1, n_features) or (n_classes, n_features), and (1,) or (n_classes,)
        The same for a linear model, as LogisticRegression has them.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    claimed_ : PrivacyGuarantee
        What the published calibration claims; only with ``calibration="published"``.
    sensitivity_ : float
        Largest norm of the gradient of one row, as the guarantee assumes it.
    scale_ : float
        Scale of the noise of a sum of gradients: standard deviation of Gaussian noise, scale of the radius of product
        noise.
    noise_multiplier_ : float
        `scale_` divided by `sensitivity_`.
    sampling_rate_ : float
        Probability p with which a row is in a batch; 1 for all rows.
    n_iter_ : int
        Number T of steps.
    learning_rate_, momentum_, delta_ : float
        The values used.
    preconditioner_scale_ : float or None
        Standard deviation of the noise on each entry of the diagonal of the sum of products of columns, of rows of norm
        1 with their constant; None without a preconditioner.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    AMPClassifier : Private linear models without steps to choose.
    skdprp.mechanisms.subsampled_gaussian_profile : The accounting.

    Notes
    -----
    A row blank or not moves a sum of gradients by C, a row that is replaced by 2 C. All steps together are released:

    - With all rows at each step, T Gaussian releases are one with noise multiplier sigma / sqrt(T), and
      ``delta(epsilon) = dG(epsilon, 2 sqrt(T) / sigma)`` exactly, without the 2 for a row blank or not.
    - With a preconditioner, the sums ``sum u u'`` of products of columns, of rows u of norm 1 at most, are one more
      Gaussian release before them, of scale s. Each release is at weights that only earlier ones decide, so that the
      squares of moves over scales add up to mu^2. Let t be the scale of a sum of gradients ``d u'``, where d is the
      derivative by the scores, of norm 1 at most in units of its bound.

      One row u, blank or not, moves the products by ``|u|^2`` and a sum by ``|u|``, both 1 at most, so that
      ``mu^2 = 1 / s^2 + T / t^2``, of which the products have a fifth.

      A row u replaced by a row v moves the products by the root of ``|u u' - v v'|^2 = a^2 + b^2 - 2 c^2 a b``, with
      ``a = |u|^2``, ``b = |v|^2`` and c the size of their cosine, and a sum by that of
      ``|d u' - e v'|^2 <= a + b + 2 c sqrt(a b)``, whatever d and e are at that step. With ``s = sqrt(8) k`` and
      ``t = 2 sqrt(T) k``, ``k^2 mu^2`` is ``f = (a^2 + b^2 - 2 c^2 a b) / 8 + (a + b + 2 c sqrt(a b)) / 4``. It grows
      with b, by ``(b - c^2 a) / 4 + (1 + c sqrt(a / b)) / 4 >= (1 - c^2) / 4``, and so with a: the longest rows are the
      worst. For them ``f = (1 - c^2) / 4 + (1 + c) / 2``, which grows up to c = 1, where it is 1. So the rows that move
      sums furthest are opposite, their products are equal, and ``mu = 2 sqrt(T) / t``: the products are free.
    - With samples, the privacy losses of T steps are composed numerically, rounded up.
    - Product noise: exact profile of a step, amplification by sampling, composition of (epsilon, delta) pairs.

    The norm of the gradient of a layer, an outer product, is the product of two norms: no gradient of a single row is
    formed. The linear model has the intercept as the weight of a constant feature of 0.3 `max_norm` (or, without it,
    0.3 `max_grad_norm`), a network has a constant feature of 1 in each layer.

    A linear model descends on a logistic or softmax loss, whose derivative by the scores is p - e_y. For K classes it
    is clipped to sqrt(1 - 1/K), its norm if all are equally likely. So C is that times the norm of a row. Two classes
    share one score; then the derivative is clipped to 1/2, and C is 1/2 times the norm of a row. Rows that the model
    gets wrong pull no harder than at the start, so that scores are not log-odds. `predict_proba` returns the
    probabilities q of the classes at which the mean of the clipped derivatives is 0 for rows with these scores:
    ``q_y ~ p_y max(1, |p - e_y| / sqrt(1 - 1/K))``, where p is the softmax of the scores, or of two classes the
    logistic function of the score.

    Rows in float32 have their gradients computed in float32, which is faster, and the norms of these in float64. Sums
    of batches of up to some hundred dense rows are in float32 too: what it may round off is added to the noise, less
    than 0.8% of it.

    There is no loss curve, no early stopping and no `sample_weight`: each would be one more release. `verbose` and
    scikit-learn's callbacks see the number of the step.

    References
    ----------
    .. [1] M. Abadi, A. Chu, I. Goodfellow, H. B. McMahan, I. Mironov, K. Talwar and L. Zhang, "Deep Learning with
       Differential Privacy", CCS 2016.
    .. [2] I. Goodfellow, "Efficient Per-Example Gradient Computations", arXiv:1510.01799, for the norms.
    .. [3] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.
    .. [4] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Algorithm 4, which returns the last weights, not an average. Its composition of
       steps, which does not hold either, is replaced by [3]_.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DPSGDClassifier(epsilon=5.0, classes=range(10)).fit(X / 64, y)
    >>> model.guarantee_
    (5.0, 3.1e-07)-DP, one row replaced
    >>> model.score(X / 64, y) > 0.7
    True

    A network, where ``skdprp[pld]`` is installed:

    >>> network = DPSGDClassifier(epsilon=5.0, hidden_layer_sizes=(32,), n_epochs=5, classes=range(10)).fit(X / 16, y)
    >>> [coef.shape for coef in network.coefs_]
    [(64, 32), (32, 10)]
    """

    _weights = "coefs_, intercepts_, the weights of every step"

    _parameter_constraints: dict = {
        "epsilon": POSITIVE,
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "max_grad_norm": [Interval(Real, 1e-50, 1e50, closed="both")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [*POSITIVE, StrOptions({"auto"})],
        "momentum": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "optimizer": [StrOptions({"sgd", "adam"})],
        "preconditioner": ["boolean", StrOptions({"auto"})],
        "noise": [StrOptions({"gaussian", "product"})],
        "calibration": [StrOptions({"exact", "published"}), Published],
        "max_norm": [Interval(Real, 1e-50, 1e50, closed="both"), StrOptions({"auto"}), None],
        "adjacency": [StrOptions({"replace_one", "add_remove"})],
        "classes": ["array-like", None],
        "class_weight": CLASS_WEIGHT,
        "threshold": [THRESHOLD],
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=None,
        hidden_layer_sizes=(),
        activation="relu",
        max_grad_norm=1.0,
        batch_size="auto",
        n_epochs="auto",
        learning_rate="auto",
        momentum="auto",
        optimizer="sgd",
        preconditioner="auto",
        noise="gaussian",
        calibration="exact",
        max_norm="auto",
        adjacency="replace_one",
        classes=None,
        class_weight=None,
        threshold=0.5,
        verbose=0,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.optimizer = optimizer
        self.preconditioner = preconditioner
        self.noise = noise
        self.calibration = calibration
        self.max_norm = max_norm
        self.adjacency = adjacency
        self.classes = classes
        self.class_weight = class_weight
        self.threshold = threshold
        self.verbose = verbose

    @property
    def coef_(self):
        """Private weights of a linear model."""
        return self._of_linear_model(self.coefs_)[0].T

    @property
    def intercept_(self):
        """Private intercepts of a linear model."""
        return self._of_linear_model(self.intercepts_)[0]

    def _of_linear_model(self, layers):
        """The layers of a linear model, of which there is one."""
        if len(layers) > 1:
            raise AttributeError("A network has coefs_ and intercepts_, one for each layer.")
        return layers

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, groups=None, **unsupported):
        """Release private weights.

        Each call is a new release, with fresh noise: fitting the same rows twice costs their privacy twice.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Those of norm above `max_norm` are clipped to it. Partitions of a dask collection are computed anew at
            each step of a linear model, on the scheduler in use, and gradients are summed where they lie.
        y : array-like of shape (n_samples,), or a dask collection beside one
            Labels: numbers, truth values or strings, no dates. Without `classes`, the guarantee holds given the set of
            those found here. True and False in a list then become the labels 1 and 0; in a boolean array they stay True
            and False.
        groups : array-like of shape (n_samples,) or None, default=None
            Whose rows they are, where one person has several: a whole number or text for each row. Each person then
            counts as much as one row, batches are samples of persons, whose number stands for that of rows, and the
            guarantee is for one person with all of its rows, however many they are. With None the guarantee is for one
            row. Dask collections take None only.
        **unsupported : dict
            Nothing; `sample_weight` is refused with the reason.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        TypeError
            If there are weights of rows.
        ValueError
            If X is not finite, y has one class or labels outside `classes`, `groups` has missing labels or another
            length, or a parameter does not fit the others.
        ImportError
            If batches are sampled and dp-accounting, which accounts for them, is not installed.
        """
        return self._fit(X, y, groups, unsupported)

    def _problem(self, shape, dtype, n_classes, unit=Unit.ROW):
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes))
        if sizes.ndim > 1 or (sizes.size and (sizes.dtype.kind not in "iu" or sizes.min() < 1)):
            raise ValueError(f"hidden_layer_sizes must be positive integers, got {self.hidden_layer_sizes!r}.")
        hidden = tuple(int(size) for size in sizes)
        sizes = (shape[1], *hidden, n_classes if n_classes > 2 else 1)
        max_norm = self._max_norm
        if hidden or max_norm is None:
            # The constant feature adds to the norm of every gradient: short next to what is known of the rows.
            bias = 1.0 if hidden else constant_feature(True, self.max_grad_norm)
            network = Network(sizes, self.activation, bias)
            row_norm = bound = self.max_grad_norm  # no norm of rows is known: plans take that of gradients
        else:
            bias = constant_feature(True, max_norm)  # 0.3 of the norm, as in the other linear models
            network, row_norm = Network(sizes, self.activation, bias, capped=True), float(np.hypot(max_norm, bias))
            bound = network.lipschitz * row_norm  # of the gradients of such rows: none is clipped
        return DescentProblem(shape[0], n_classes, network, row_norm, bound, self._dtype(dtype), unit)

    @property
    def _max_norm(self):
        """Norm that no row exceeds, or None."""
        if self.max_norm != "auto":
            return self.max_norm
        return None if np.size(self.hidden_layer_sizes) else 1.0

    def _dtype(self, dtype):
        """Type to compute in: that of the rows, unless squares of the norms would leave float32.

        It is float64 for rows of bounded norm in linear models, whose rounding is priced there.
        """
        norms = self.max_grad_norm, 1.0 if self._max_norm is None else self._max_norm
        fits = 1 / _LARGEST_FLOAT32_NORM <= min(norms) <= max(norms) <= _LARGEST_FLOAT32_NORM
        is_bounded = self._max_norm is not None and not np.size(self.hidden_layer_sizes)
        return dtype if fits and not is_bounded else np.dtype(np.float64)

    def _clipped(self, X):
        """Rows of a norm of at most `max_norm`, in the type to compute in; finite ones, where there is none."""
        dtype, max_norm = self._dtype(X.dtype), self._max_norm
        if dtype == np.float64:
            return clip_rows(X, max_norm or _LARGEST_NORM)
        if max_norm is None and not sp.issparse(X):
            return np.ascontiguousarray(X)  # float32 ends before the largest norm
        return clip_rows(X, max_norm or _END_OF_FLOAT32).astype(dtype)

    def _calibrate(self, problem, delta):
        settings = self._published_settings()
        plan = plan_descent(
            problem,
            self.epsilon,
            delta,
            adjacency=self.adjacency,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            optimizer=self.optimizer,
            preconditioner=self.preconditioner if settings is None else False,
            noise=self.noise,
        )
        rounding = plan_rounding(problem, plan, delta)
        if plan.is_preconditioned:
            step_noise = self._preconditioned_steps(problem, plan, rounding, delta)
        elif self.noise == "gaussian":
            step_noise = self._gaussian_steps(problem, plan, rounding, delta, settings)
        else:
            step_noise = self._product_steps(problem, plan, rounding, delta, settings)
        preconditioner = step_noise.preconditioner
        # Rounding may move a sum by that share of the bound more than one row does.
        scale = step_noise.multiplier * problem.bound * (1 + rounding.margin)
        return Calibration(
            self._guarantee_of_steps(problem, plan, step_noise, scale),
            fitted={
                "n_iter_": plan.n_steps,
                "sampling_rate_": plan.rate,
                "learning_rate_": plan.learning_rate,
                "momentum_": plan.momentum,
                "preconditioner_scale_": None if preconditioner is None else preconditioner.scale,
                "sensitivity_": problem.bound,
                "delta_": delta,
                "scale_": scale,
                "noise_multiplier_": scale / problem.bound,
            },
            noise=Descent(plan, scale, step_noise.radius, rounding, preconditioner),
            claimed=step_noise.claimed,
            in_memory="" if rounding.in_any_order else _IN_MEMORY,
        )

    @with_callbacks
    def _release(self, calibration, X, codes, class_weights, persons=None):
        problem, descent = calibration.problem, calibration.noise
        if descent.radius is None:
            add_noise = _noise.add_gaussian
        else:
            shape, power = descent.radius
            add_noise = partial(_noise.add_spherical, shape=shape, power=power)
        update = UPDATES[self.optimizer](descent.plan.learning_rate, descent.plan.momentum)
        row_weights = None if class_weights is None or codes is None else class_weights[codes]
        X = X.clipped(self._max_norm) if codes is None else self._clipped(X)
        if descent.preconditioner is not None:
            shares = None if persons is None else persons.weights
            # The Gram matrix is released first, by noise that is drawn here.
            update = release_preconditioner(update, descent.preconditioner, problem, X, shares)
        if persons is not None:  # public weights of classes are 1 at most, and so is what they leave of a person's
            row_weights = persons.weights if row_weights is None else row_weights * persons.weights
        # A generator: each step draws its noise when the loop below comes to it.
        steps = noisy_descent(
            problem, descent, X, codes, row_weights, persons=persons, update=update, add_noise=add_noise
        )
        # From here on no parameter is read that noise and guarantee rest on: callbacks may set another max_norm.
        report = report_steps(self, descent.plan.n_steps, self.verbose)
        mean, n_late = 0.0, 0  # of the second half of the steps, in which the noise of single ones cancels
        for step, weights in enumerate(steps, start=1):
            if 2 * step > descent.plan.n_steps:
                n_late += 1
                mean = mean + (weights - mean) / n_late
            report(step)
        layers = problem.network.layers(mean)
        return {
            "coefs_": [layer[:-1].copy() for layer in layers],  # the one of a linear model is coef_, transposed
            "intercepts_": [problem.network.bias * layer[-1] for layer in layers],
        }

    def _published_settings(self):
        """Settings of a published calibration, or None."""
        if self.calibration == "exact":
            return None
        if self.noise == "gaussian":
            settings = Published.of(self.calibration, "noise_multiplier", kind="Gaussian noise of steps")
            if settings.noise_multiplier is None:
                raise ValueError("The published calibration is for noise='product', or for a given noise_multiplier.")
            if self.preconditioner is True:
                raise ValueError("A preconditioner has no noise_multiplier of its own: use preconditioner=False.")
            return settings
        settings = Published.of(self.calibration, "step_epsilon", "k", kind="product noise of steps")
        if self.adjacency != Relation.REPLACE_ONE:
            raise ValueError("Published calibrations are for adjacency='replace_one'.")
        if settings.k is not None and settings.step_epsilon is None:
            raise ValueError("k of a published calibration of steps needs a step_epsilon.")
        return settings

    def _preconditioned_steps(self, problem, plan, rounding, delta):
        """Make one Gaussian mechanism of the Gram matrix of the rows and all steps, see `relative_scales`."""
        p = problem.network.sizes[0] + 1
        n_changed = _n_changed(problem, plan) + p * (p + 1) // 2
        unit = gaussian_scale(*sampled_steps_target(self.epsilon, delta, n_changed=n_changed))
        gram, step = relative_scales(self.adjacency, plan.n_steps)
        # What is rounded off moves all releases together by these shares of the norm of their moves, at most.
        priced = unit * (1 + 2 * rounding_of_gram(problem.network, plan.n_samples)) * (1 + 2.0**-40)
        scale = gram * priced * (1 + rounding.margin)
        # Where the floor is all the curvature, so many steps go as far as `travel`.
        floor = plan.n_samples * plan.n_steps / (plan.travel * (1 - plan.momentum))
        loss = PrivacyLoss(mu=1 / unit, sampling=n_changed * _noise.SAMPLING_LOSS)
        preconditioner = Preconditioner(scale, max(floor, least_floor(scale, p)))
        return StepNoise(step * priced, delta, loss=loss, preconditioner=preconditioner)

    def _gaussian_steps(self, problem, plan, rounding, delta, settings):
        n_changed = _n_changed(problem, plan)
        if settings is None:
            target = sampled_steps_target(self.epsilon, delta - rounding.failure, n_changed=n_changed)
            multiplier = descent_scale(*target, rate=plan.rate, n_steps=plan.n_steps, adjacency=self.adjacency)
            return StepNoise(multiplier, delta, loss=self._loss(plan, multiplier, n_changed, rounding.failure))
        loss = self._loss(plan, settings.noise_multiplier, n_changed, rounding.failure)
        true_delta = reached_delta(self.epsilon, min(loss.profile(self.epsilon), 1.0))
        return StepNoise(settings.noise_multiplier, true_delta, loss=loss)

    def _product_steps(self, problem, plan, rounding, delta, settings):
        n_changed, n_weights = _n_changed(problem, plan), problem.network.n_weights
        if settings is None:
            # The coordinates of a draw are not independent, so that no tail bound holds: each is priced at its worst.
            target = sampled_target(self.epsilon, delta - rounding.failure, n_changed=n_changed)
            multiplier = product_descent_scale(
                *target, rate=plan.rate, n_steps=plan.n_steps, n_dims=n_weights, adjacency=self.adjacency
            )
            return StepNoise(multiplier, delta, radius=(n_weights, 1))
        # The claim knows nothing of sampling: what that costs is added to what is true, not taken off the target.
        epsilon, share = sampled_target(self.epsilon, 1.0, n_changed=n_changed)
        multiplier, true_delta, claimed_delta = published_product_descent(
            epsilon,
            delta,
            rate=plan.rate,
            n_steps=plan.n_steps,
            n_dims=n_weights,
            step_epsilon=settings.step_epsilon,
            k=settings.k,
        )
        claimed = self._claim(claimed_delta, "Liu et al., SIGMOD 2026, Algorithm 4, for each step", problem.unit)
        return StepNoise(multiplier, min(true_delta / share + rounding.failure, 1.0), radius=(1, 2), claimed=claimed)

    def _loss(self, plan, multiplier, n_changed, failure):
        """Privacy loss of Gaussian steps at every epsilon; of product noise only a pair is known."""
        # At every epsilon sampled values are priced at their worst, as no one tail is the right one for all.
        sampling = n_changed * _noise.SAMPLING_LOSS
        if plan.rate == 1:
            mu = rows_that_differ(self.adjacency) * float(np.sqrt(plan.n_steps)) / multiplier
            return PrivacyLoss(mu=mu, sampling=sampling, failure_probability=failure)
        profile = Profile.of(
            subsampled_gaussian_profile,
            scale=multiplier,
            rate=plan.rate,
            n_steps=plan.n_steps,
            adjacency=self.adjacency,
        )
        return PrivacyLoss(profiles=(profile,), sampling=sampling, failure_probability=failure)

    def _guarantee_of_steps(self, problem, plan, step_noise, scale):
        """State what holds of steps with noise of this scale."""
        noise = "Gaussian noise of standard deviation"
        source = "exact composition of Gaussian releases; proof in the notes of skdprp.DPSGDClassifier"
        if plan.rate < 1:
            source = "composed privacy losses; proof in skdprp.mechanisms.subsampled_gaussian_profile"
        assumptions = (
            "matrix products round a row alike wherever it stands, as in trials, or the noise covers the difference",
        )
        if self.noise == "product":
            noise = "multivariate Laplace noise of scale"
            source = "Kairouz, Oh and Viswanath, ICML 2015, Theorem 3.3, for steps of exactly known profile"
        if self.noise == "product" and self.calibration != "exact":
            noise = "noise with a half-normal radius of scale"
            assumptions += ("near zero, a half-normal radius is sampled as if floats were real numbers",)
        before = ""
        if step_noise.preconditioner is not None:
            gram = printed_down(step_noise.preconditioner.scale, 6)
            replaced = self.adjacency == Relation.REPLACE_ONE
            together = "without further privacy loss" if replaced else "mu^2 of both add up"
            products = "sums of products of columns of rows of norm at most 1"
            before = f", after Gaussian noise of {gram} on {products} ({together})"
        of_persons = problem.unit == Unit.PERSON
        one, means = ("person", ", means over the rows of a person") if of_persons else ("row", "")
        sample = f"a secret sample, each {one} at probability {printed_up(plan.rate, 6)}"
        rows = f"all {one}s" if plan.rate == 1 else sample
        bound = printed_up(problem.bound, 6)
        return self._guarantee(
            self.epsilon,
            step_noise.delta,
            mechanism=f"{plan.n_steps} steps of gradient descent, each on {rows}, {noise} "
            f"{printed_down(scale, 6)} on sums of gradients of norm at most {bound}{means}{before}",
            source=source,
            assumptions=assumptions,
            loss=step_noise.loss,
            unit=problem.unit,
        )

    def _log_probabilities(self, scores):
        if len(self.coefs_) > 1 or self._max_norm is None:
            return super()._log_probabilities(scores)
        if scores.ndim == 1:
            return CappedLogisticLoss().log_probability(np.column_stack([-scores, scores]))
        return capped_log_probabilities(scores)

    def _scores(self, X):
        return score(self.activation, zip(self.coefs_, self.intercepts_, strict=True), self._clipped(X))
