"""Empirical risk minimisation as the private classifiers need it: what is public of a problem, and its minimisers.

A guarantee that speaks of a minimiser rests on how close the solver comes to it: its accuracy
is computed from public facts alone, with all rounding counted, and a solver that misses it raises.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.sparse.linalg import LinearOperator, cg

from .._validation import silent
from ..losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss, SoftmaxLoss, WeightedLoss

BINARY_LOSSES = {"log_loss": LogisticLoss, "capped_log_loss": CappedLogisticLoss, "huber_hinge": HuberHingeLoss}
_RELATIVE_INTERCEPT = 0.3
_UNIT = 2.0**-52  # twice the rounding error of one operation, which pays for products of rounding errors
_ARMIJO = 1e-4
_FORCING = 0.1
_NOISE_OF_VALUES = 2.0**-36  # share of the objective's value below which a decrease may be rounding


class SolverError(RuntimeError):
    """The solver did not reach the accuracy that the guarantee assumes: nothing is released."""


@dataclass(frozen=True)
class Problem:
    """What is public of a classification problem.

    `intercept` is the constant feature of every row, 0 for none; `tol` the largest gradient norm of a minimiser, in
    units of ``n_samples * max_norm``. A multinomial problem has one loss for all classes, instead of one for each.
    `largest_offset` bounds a number that is added to all scores of a binary problem.
    """

    n_samples: int
    n_features: int
    n_classes: int
    loss: str
    multinomial: bool
    max_norm: float
    intercept: float
    tol: float
    largest_offset: float = 0.0

    @property
    def row_loss(self):
        """The loss of one row."""
        return SoftmaxLoss(self.n_classes) if self.multinomial else BINARY_LOSSES[self.loss]()

    @property
    def row_norm(self):
        """Largest norm of a row with its constant feature."""
        return float(np.hypot(self.max_norm, self.intercept))

    @property
    def n_outputs(self):
        """Number of minimisations: one for each class if one-vs-rest, otherwise one."""
        return 1 if self.multinomial or self.n_classes == 2 else self.n_classes

    @property
    def weights_shape(self):
        """Shape of all weights: one column for each class if multinomial, otherwise one row for each problem."""
        n_weights = self.n_features + bool(self.intercept)
        return (n_weights, self.n_classes) if self.multinomial else (self.n_outputs, n_weights)

    @property
    def n_weights(self):
        """Number of weights of each minimisation."""
        return self.n_released // self.n_outputs

    @property
    def n_released(self):
        """Number of all weights."""
        return int(np.prod(self.weights_shape))

    @property
    def n_numbers(self):
        """How many numbers a fit holds at most, besides the rows and a few for each."""
        return self.multinomial * 8 * self.n_samples * self.n_classes + 12 * self.n_released

    @property
    def target_gradient(self):
        """Norm that the solver brings each gradient to."""
        return self.n_samples * self.max_norm * self.tol

    def accuracy(self, penalty, largest=0.0):
        """Bound on the norm of the true gradients of all outputs together, where the solver returns.

        `largest` bounds the norm of the linear term of one output.

        Notes
        -----
        The solver returns weights w, of norm at most W, whose *computed* gradient has a norm of at most
        `target_gradient`. With u = 2^-53, n rows of norm at most R and d features, to first order in u:

        - a sum of d + 2 products, the score of a row, is off by ``(d + 2) u R W``, all K scores of a row together too,
          and by 2 u times an offset that is added to it;
          the derivative of its loss then moves by at most the smoothness times that, and its gradient by R times more;
        - the derivative computed from the score, and its product with a weight of at most 1, are off by
          ``(K + 17) u``;
        - a sum over n rows of norms of at most L R is off by ``(n + 2) u n L R``, and adding up the gradient, the
          penalty and the linear term by 4 u times the norms of all three; the norm itself by ``d K u`` of it.

        W is what :meth:`largest_weights` says, which :func:`minimisers` enforces.
        """
        fixed, per_weight = self._rounding(penalty, largest)
        rounding = fixed + per_weight * self.largest_weights(penalty, largest)
        bound = float(np.sqrt(self.n_outputs) * (self.target_gradient + rounding))
        return np.inf if np.isnan(bound) else bound  # of a penalty that overflowed

    def _rounding(self, penalty, largest):
        """What rounding may hide of one gradient: a number, and one for each unit of the norm of the weights."""
        loss, n, R = self.row_loss, self.n_samples, self.row_norm
        slopes = (n + 2) * loss.lipschitz + self.n_classes + 17
        slopes += 2 * n * loss.smoothness * self.largest_offset
        fixed = n * R * (slopes + 4 * loss.lipschitz) + 4 * largest + self.n_weights * self.target_gradient
        per_weight = n * loss.smoothness * R**2 * (self.n_features + 2) + 4 * penalty
        return _UNIT * fixed, _UNIT * per_weight

    def largest_weights(self, penalty, largest=0.0):
        """Bound on the norm of the weights of one output where the solver returns, from public facts alone.

        `largest` bounds the norm of the linear term.

        Notes
        -----
        At the minimiser w the objective is at most what it is at 0 and the losses are at least 0, so that
        ``penalty |w|^2 / 2 - largest |w|`` is at most the losses at 0; and its gradient is 0, so that
        ``penalty |w|`` is at most the norms of all others. The solver stops within its true gradient over the penalty
        of that, of which the part that grows with the weights is no more than half of them; where it might be, a fit
        may be refused.
        """
        n = self.n_samples
        scores = np.zeros((1, self.n_classes)) if self.multinomial else np.full(1, -self.largest_offset)
        loss_at_zero = float(self.row_loss.value(np.ones(1, dtype=int), scores)[0])  # of a row of any class
        by_value = largest + np.sqrt(largest**2 + 2 * penalty * n * loss_at_zero)
        by_gradient = largest + n * self.row_loss.lipschitz * self.row_norm
        fixed, per_weight = self._rounding(penalty, largest)
        reached = min(by_value, by_gradient) + self.target_gradient + fixed
        return float(reached / penalty / (1 - min(per_weight / penalty, 0.5)))

    def coefficients(self, weights):
        """Split weights into `coef_` and `intercept_` as scikit-learn lays them out."""
        weights = weights.T if self.multinomial else weights
        if not self.intercept:
            return {"coef_": weights.copy(), "intercept_": np.zeros(len(weights))}
        return {"coef_": weights[:, :-1].copy(), "intercept_": self.intercept * weights[:, -1]}


def constant_feature(fit_intercept, max_norm):
    """Constant feature for an intercept: short, because it adds to the sensitivity of every row."""
    return _RELATIVE_INTERCEPT * max_norm if fit_intercept else 0.0


def minimisers(problem, X, codes, row_weights=None, *, penalty, perturbation, largest, max_iter, n_jobs, offset=0.0):
    """Minimise the perturbed risk of each output; weights and linear terms have the shape ``problem.weights_shape``.

    The linear terms are drawn before, and none has a norm above `largest`. `offset` is added to all scores; weights of
    rows are at most 1. Raises SolverError if a gradient does not get as small as the guarantee assumes, or weights or a
    linear term are as large as almost never.
    """

    @silent  # once more, in the threads of jobs, which start with warnings
    def _solve(y, linear):
        loss = problem.row_loss if row_weights is None else WeightedLoss(problem.row_loss, row_weights)
        known = {"penalty": penalty, "intercept": problem.intercept, "offset": offset}
        risk = PerturbedRisk(X, y, loss, perturbation=linear, **known)
        weights = minimise(risk, problem.target_gradient, max_iter)
        # `accuracy` counts on both bounds; nobody has seen them missed, but the guarantee must not rest on luck.
        if np.linalg.norm(linear) > largest or np.linalg.norm(weights) > problem.largest_weights(penalty, largest):
            raise SolverError("The weights are larger than the accuracy of the solver is known for: lower C.")
        return weights

    if problem.multinomial:
        return _solve(codes, perturbation)
    if problem.n_classes == 2:  # one problem, for which no jobs are set up
        return _solve(np.where(codes == 1, 1.0, -1.0), perturbation[0])[None]
    solved = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_solve)(np.where(codes == k, 1.0, -1.0), linear) for k, linear in enumerate(perturbation)
    )
    return np.stack(solved)


class PerturbedRisk:
    """The function ``J(w) = sum_i loss(y_i, w'x_i + offset) + penalty/2 |w|^2 + b'w`` of the weights w.

    Rows are in float64, dense or CSR. The intercept is the weight of a constant feature that follows the others, and
    is penalised as they are; b is `perturbation`, of the shape of the weights.
    """

    def __init__(self, X, y, loss, *, penalty, intercept, perturbation, offset=0.0):
        self.X, self.y, self.loss, self.offset = X, y, loss, offset
        self.penalty, self.intercept, self.perturbation = penalty, intercept, perturbation
        # The transpose of CSR is CSC, whose products with many columns are slower than those of CSR.
        self._transposed = X.T.tocsr() if sp.issparse(X) and perturbation.ndim > 1 else X.T

    def scores(self, weights):
        """Scores of all rows, an array of shape (n_samples,) or (n_samples, n_outputs)."""
        return self._products(weights) + self.offset

    def _products(self, weights):
        """Products of all rows, with their constant feature, and the weights."""
        if not self.intercept:
            return self.X @ weights
        return self.X @ weights[:-1] + self.intercept * weights[-1]

    def _pull_back(self, change):
        """Multiply the transpose of the rows, with their constant feature, by one number for each score."""
        product = self._transposed @ change
        if not self.intercept:
            return product
        return np.concatenate([product, self.intercept * change.sum(axis=0, keepdims=True)])

    def value(self, weights, scores):
        """Value at `weights`, whose scores are given."""
        ridge = 0.5 * self.penalty * np.vdot(weights, weights)
        return self.loss.value(self.y, scores).sum() + ridge + np.vdot(self.perturbation, weights)

    def gradient(self, weights, scores):
        """Gradient at `weights`, whose scores are given."""
        return self._pull_back(self.loss.gradient(self.y, scores)) + self.penalty * weights + self.perturbation

    def hessian(self, scores):
        """Second derivative where the scores are `scores`, as a function that multiplies weights by it."""
        curvature = self.loss.hessian(self.y, scores)
        return lambda weights: self._pull_back(curvature(self._products(weights))) + self.penalty * weights


def minimise(risk, tol, max_iter):
    """Minimise by Newton's method, each step by conjugate gradients, until the norm of the gradient is at most `tol`.

    Raises SolverError if it is not that small after `max_iter` steps: a guarantee rests on it.
    """
    weights = np.zeros_like(risk.perturbation)
    scores = risk.scores(weights)
    gradient = risk.gradient(weights, scores)
    value = risk.value(weights, scores)
    first = np.linalg.norm(gradient)
    for _ in range(max_iter):
        norm = np.linalg.norm(gradient)
        if norm <= tol:
            return weights
        # In proportion to the progress so far, for superlinear convergence; but a step need not be better than `tol`.
        atol = max(min(_FORCING, norm / first) * norm, 0.5 * tol)
        step = _newton_step(risk, scores, gradient, atol)
        weights, scores, gradient, value = _line_search(risk, weights, step, gradient, value)
    if np.linalg.norm(gradient) <= tol:
        return weights
    raise SolverError(f"The solver did not reach tol within max_iter={max_iter} steps: raise either.")


def _newton_step(risk, scores, gradient, atol):
    """Step at which the quadratic model has a gradient norm of at most `atol`, by conjugate gradients."""
    multiply, shape = risk.hessian(scores), gradient.shape
    second = LinearOperator(
        (gradient.size, gradient.size), matvec=lambda step: multiply(step.reshape(shape)).ravel(), dtype=np.float64
    )
    # Whether it converged does not matter: the line search looks at what comes out, and `minimise` at the gradient.
    step, _ = cg(second, -gradient.ravel(), rtol=0.0, atol=atol, maxiter=2 * gradient.size + 10)
    return step.reshape(shape)


def _line_search(risk, weights, step, gradient, value):
    """Halve the step until it lowers the value, or, where rounding hides that, the norm of the gradient.

    After forty halves the last trial stands, as good as none: `minimise` has as many steps as it has.
    """
    slope, norm = np.vdot(gradient, step), np.linalg.norm(gradient)
    rounding = _NOISE_OF_VALUES * (abs(value) + 2 * abs(np.vdot(risk.perturbation, weights)))
    for length in 0.5 ** np.arange(40):
        trial = weights + length * step
        scores = risk.scores(trial)
        new_gradient, new_value = risk.gradient(trial, scores), risk.value(trial, scores)
        if new_value <= value + _ARMIJO * length * slope:
            break
        # Near the minimum values agree to all digits that floats have, while gradients still tell which is closer.
        if -slope * length <= rounding and np.linalg.norm(new_gradient) < norm:
            break
    return trial, scores, new_gradient, new_value
