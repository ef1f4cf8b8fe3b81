"""Empirical risk minimisation as the private classifiers need it: what is public of a problem, and its minimisers.

A guarantee that speaks of a minimiser needs a bound on how far the solver is from it. The bound follows from public
facts alone, all rounding included; a solver that misses it raises.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.utils import gen_batches

from .._errors import silent
from .._sums import CompensatedSum
from ..losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss, SoftmaxLoss, WeightedLoss
from ..mechanisms.objective_perturbation import hessian_log_det
from ._passes import LARGEST_BLOCK

BINARY_LOSSES = {"log_loss": LogisticLoss, "capped_log_loss": CappedLogisticLoss, "huber_hinge": HuberHingeLoss}
_RELATIVE_INTERCEPT = 0.3
_TWO_U = 2.0**-52  # twice the rounding error u of one operation, which pays for products of rounding errors
_ARMIJO = 1e-4
_FORCING = 0.1  # a Newton step is solved for until what is left of its equation is this share of the gradient norm
_MOST_FOR_HESSIAN = 256  # weights, of rows that are read anew in each pass
_SMALL_COPY = 2**14  # numbers
_MOST_STEPS = 10_000  # beyond, SolverError: weights that take more are never released; some hinges take hundreds
_NOISE_OF_VALUES = 2.0**-36  # share of the objective's value below which a decrease may be rounding
# Weights that one table releases, and its neighbour answers by an error, no noise hides.
SOLVED = f"no row decides whether the solver reaches its tolerance in {_MOST_STEPS:,} steps (it takes few)"


class SolverError(RuntimeError):
    """The solver did not reach the accuracy that the guarantee assumes: nothing is released."""


@dataclass(frozen=True)
class Problem:
    """What is public of a classification problem.

    `constant` is the constant feature of every row, 0 for none; `tol` the gradient norm at which the solver stops, in
    units of ``n_samples * max_norm``. A multinomial problem has one loss for all classes, instead of one for each.
    `largest_offset` bounds a number that is added to all scores of a binary problem.
    """

    n_samples: int
    n_features: int
    n_classes: int
    loss: str
    multinomial: bool
    max_norm: float
    constant: float
    tol: float
    largest_offset: float = 0.0

    @property
    def row_loss(self):
        """The loss of one row."""
        return SoftmaxLoss(self.n_classes) if self.multinomial else BINARY_LOSSES[self.loss]()

    @property
    def row_norm(self):
        """Largest norm of a row with its constant feature: the `max_norm` that mechanisms are given."""
        return float(np.hypot(self.max_norm, self.constant))

    @property
    def lipschitz(self):
        """Largest norm of the gradient of one row's loss, slope times row norm: the `lipschitz` of mechanisms."""
        return self.row_loss.lipschitz * self.row_norm

    @property
    def n_outputs(self):
        """Number of minimisations: one for each class if one-vs-rest, otherwise one."""
        return 1 if self.multinomial or self.n_classes == 2 else self.n_classes

    @property
    def weights_shape(self):
        """Shape of all weights: one column for each class if multinomial, otherwise one row for each problem."""
        n_columns = self.n_features + bool(self.constant)
        return (n_columns, self.n_classes) if self.multinomial else (self.n_outputs, n_columns)

    @property
    def n_weights_each(self):
        """Number of weights of each minimisation."""
        return self.n_weights // self.n_outputs

    @property
    def n_weights(self):
        """Number of all weights."""
        return int(math.prod(self.weights_shape))

    @property
    def n_numbers(self):
        """How many numbers a fit holds at most, besides the rows and a few for each."""
        return self.multinomial * 8 * self.n_samples * self.n_classes + 12 * self.n_weights

    def log_det(self, penalty):
        """Most that one row may change in the log-determinant of the second derivative: no noise hides that."""
        return hessian_log_det(self.row_loss, max_norm=self.row_norm, penalty=penalty)

    @property
    def target_gradient(self):
        """Norm that the solver brings each gradient to."""
        return self.n_samples * self.max_norm * self.tol

    def with_tol_in_reach(self, largest_perturbation):
        """Return the problem with `tol` raised to what rounding of so large a linear term lets the solver reach."""
        reached = _TWO_U * 4 * largest_perturbation / (self.n_samples * self.max_norm)
        return replace(self, tol=max(self.tol, reached))

    def gradient_error(self, penalty, largest_perturbation=0.0):
        """Bound on the norm of the true gradients of all outputs together, where the solver returns.

        `largest_perturbation` bounds the norm of the linear term of one output.

        Notes
        -----
        The solver returns weights w, of norm at most W, whose *computed* gradient has a norm of at most
        `target_gradient`. With u = 2^-53, n rows of norm at most R and d features, to first order in u:

        - a sum of d + 2 products, the score of a row, is off by ``(d + 2) u R W``, all K scores of a row together too,
          and by 2 u times an offset that is added to it;
          the derivative of its loss then moves by at most the smoothness times that, and its gradient by R times more;
        - the derivative computed from the score, and its product with a weight of at most 1, are off by
          ``(K + 17) u``: K for a sum over classes, 17 for the rest, three times what is measured;
        - a sum over n rows of norms of at most L R is off by ``(n + 2) u n L R``, and by no more than
          ``(B + 6) u n L R`` where blocks of at most B rows are added up by compensated sums, and these again by one
          if they are of several chunks;
        - adding up the gradient, the penalty and the linear term is off by 4 u times the norms of all three;
        - the norm itself is off by ``d K u`` of it.

        Products of matrices are taken to be sums of products, in whatever order.

        W is what :meth:`largest_weights` says, which :func:`minimisers` enforces.
        """
        fixed, per_weight = self._rounding(penalty, largest_perturbation)
        rounding = fixed + per_weight * self.largest_weights(penalty, largest_perturbation)
        bound = float(np.sqrt(self.n_outputs) * (self.target_gradient + rounding))
        return np.inf if np.isnan(bound) else bound  # of a penalty that overflowed

    def _rounding(self, penalty, largest_perturbation):
        """Bound the rounding error of one gradient by two numbers: the first plus the second times the norm of w."""
        loss, n, R = self.row_loss, self.n_samples, self.row_norm
        slopes = (min(n, LARGEST_BLOCK + 4) + 2) * loss.lipschitz + self.n_classes + 17
        slopes += 2 * loss.smoothness * self.largest_offset
        fixed = n * R * (slopes + 4 * loss.lipschitz) + 4 * largest_perturbation
        fixed += self.n_weights_each * self.target_gradient
        per_weight = n * loss.smoothness * R**2 * (self.n_features + 2) + 4 * penalty
        return _TWO_U * fixed, _TWO_U * per_weight

    def largest_weights(self, penalty, largest_perturbation=0.0):
        """Bound on the norm of the weights of one output where the solver returns, from public facts alone.

        `largest_perturbation` bounds the norm of the linear term.

        Notes
        -----
        At the minimiser w the objective is at most what it is at 0 and the losses are at least 0, so that
        ``penalty |w|^2 / 2 - largest_perturbation |w|`` is at most the losses at 0; and its gradient is 0, so that
        ``penalty |w|`` is at most the norms of all others. The solver stops at weights no further from w than their
        true gradient over the penalty. Rounding makes a part of that gradient grow with the weights, so that their norm
        W is on both sides, ``W <= a + r W``, and at most ``a / (1 - r)``. An r above 1/2 is taken for 1/2, and a fit to
        larger weights is refused.
        """
        n = self.n_samples
        scores = np.zeros((1, self.n_classes)) if self.multinomial else np.full(1, -self.largest_offset)
        loss_at_zero = float(self.row_loss.value(np.ones(1, dtype=int), scores)[0])  # of a row of any class
        by_value = largest_perturbation + np.sqrt(largest_perturbation**2 + 2 * penalty * n * loss_at_zero)
        by_gradient = largest_perturbation + n * self.row_loss.lipschitz * self.row_norm
        fixed, per_weight = self._rounding(penalty, largest_perturbation)
        reached = min(by_value, by_gradient) + self.target_gradient + fixed
        return float(reached / penalty / (1 - min(per_weight / penalty, 0.5)))

    def coefficients(self, weights):
        """Split weights into those of columns and intercepts, as scikit-learn lays out `coef_` and `intercept_`."""
        weights = weights.T if self.multinomial else weights
        if not self.constant:
            return weights.copy(), np.zeros(len(weights))
        return weights[:, :-1].copy(), self.constant * weights[:, -1]


def constant_feature(fit_intercept, max_norm):
    """Constant feature for an intercept: short, because it adds to the sensitivity of every row."""
    return _RELATIVE_INTERCEPT * max_norm if fit_intercept else 0.0


def minimisers(problem, X, codes, row_weights=None, *, penalty, perturbation, largest_perturbation, n_jobs, offset=0.0):
    """Minimise the perturbed risk of each output; weights and linear terms have the shape ``problem.weights_shape``.

    `X` are rows in memory, or `StreamedRows`, which have codes and weights of their own. The linear terms are drawn
    before, and none has a norm above `largest_perturbation`. `offset` is added to all scores; weights of rows are at
    most 1. Raises SolverError if a gradient does not get as small as the guarantee assumes, or weights or a linear term
    are larger than `largest_weights` and `largest_perturbation`.
    """

    @silent  # once more, in the threads of jobs, which start with warnings
    def _solve(k, linear):
        if codes is None:
            risk = StreamedRisk(X, k, problem, penalty=penalty, perturbation=linear, offset=offset)
        else:
            risk = _risk_of_rows(X, codes, row_weights, k, problem, penalty=penalty, perturbation=linear, offset=offset)
        weights = minimise(risk, problem.target_gradient)
        # `gradient_error` assumes both bounds, which were never seen to be missed.
        largest_weights = problem.largest_weights(penalty, largest_perturbation)
        if np.linalg.norm(linear) > largest_perturbation or np.linalg.norm(weights) > largest_weights:
            raise SolverError("The weights are larger than the accuracy of the solver is known for: lower C.")
        return weights

    if problem.multinomial:
        return _solve(None, perturbation)
    if problem.n_classes == 2:  # one problem, for which no jobs are set up
        return _solve(1, perturbation[0])[None]
    if codes is None:  # threads would read the chunks of one file, or of one buffer, at the same time
        return np.stack([_solve(k, linear) for k, linear in enumerate(perturbation)])
    solved = Parallel(n_jobs=n_jobs, require="sharedmem")(  # the linear terms are secret, and leave no process
        delayed(_solve)(k, linear) for k, linear in enumerate(perturbation)
    )
    return np.stack(solved)


def _risk_of_rows(X, codes, row_weights, k, problem, *, penalty, perturbation, offset):
    """Risk of class k against the others, or of all classes where k is None."""
    targets = codes if k is None else np.where(codes == k, 1.0, -1.0)
    loss = problem.row_loss if row_weights is None else WeightedLoss(problem.row_loss, row_weights)
    return PerturbedRisk(
        X, targets, loss, penalty=penalty, constant=problem.constant, perturbation=perturbation, offset=offset
    )


@dataclass(frozen=True, eq=False)
class Point:
    """Weights, with the value and the gradient of a risk there.

    ``hessian()`` returns a function that multiplies by the second derivative: computed only where a step begins.
    """

    weights: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: Callable


class PerturbedRisk:
    """The function ``J(w) = sum_i loss(y_i, w'x_i + offset) + penalty/2 |w|^2 + b'w`` of the weights w.

    Rows are in float64, dense or CSR. The intercept is the weight of a constant feature that follows the others, and
    is penalised as they are; b is `perturbation`, of the shape of the weights.
    """

    forcing = _FORCING

    def __init__(self, X, y, loss, *, penalty, constant, perturbation, offset=0.0):
        self.X, self.y, self.loss, self.offset = X, y, loss, offset
        self.penalty, self.constant, self.perturbation = penalty, constant, perturbation
        # The transpose of CSR is CSC, whose products with many columns are slower than those of CSR.
        is_slow = sp.issparse(X) and perturbation.ndim > 1
        cuts = list(gen_batches(X.shape[0], LARGEST_BLOCK))
        self._blocks = [(rows, self._transposed(rows).tocsr() if is_slow else None) for rows in cuts]

    def at(self, weights):
        """Value and derivatives at `weights`."""
        scores = self.scores(weights)
        return Point(weights, self.value(weights, scores), self.gradient(weights, scores), lambda: self.hessian(scores))

    def scores(self, weights):
        """Scores of all rows, an array of shape (n_samples,), or (n_samples, n_classes) for a softmax."""
        return self._products(weights) + self.offset

    def _products(self, weights):
        """Products of all rows, with their constant feature, and the weights.

        Those of a class lie side by side in memory: sums over few classes are several times as fast.
        """
        if not self.constant:
            return (weights.T @ self.X.T).T
        return (weights[:-1].T @ self.X.T).T + self.constant * weights[-1]

    def _transposed(self, rows):
        """Transpose of some rows: a view of all of them, or of dense ones."""
        return (self.X if rows.stop - rows.start == self.X.shape[0] else self.X[rows]).T

    def _pull_back(self, change):
        """Multiply the transpose of the rows, with their constant feature, by one number for each score."""
        total = CompensatedSum()
        for rows, transposed in self._blocks:
            part = change[rows]
            product = (self._transposed(rows) if transposed is None else transposed) @ part
            if self.constant:
                product = np.concatenate([product, self.constant * part.sum(axis=0, keepdims=True)])
            total.add(product)
        return total.value

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

    def hessian_matrix(self, scores):
        """Second derivative of the sum of losses by all weights, in the order in which they lie in memory."""
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        curvature, scores = self.loss.hessian(self.y, scores), scores.reshape(len(X), -1)
        shape = (len(self.perturbation), scores.shape[1])
        matrix = np.empty(shape + shape)
        for k in range(shape[1]):
            change = np.zeros_like(scores)
            change[:, k] = 1.0
            moved = curvature(change if self.perturbation.ndim > 1 else change[:, 0]).reshape(scores.shape)
            for j in range(shape[1]):
                matrix[:, j, :, k] = _weighted_products(X, moved[:, j], self.constant)
        return matrix.reshape(2 * (self.perturbation.size,))


def _weighted_products(X, weights, constant):
    """Sum the products of all columns of weighted rows, and of a constant that follows them if it is not 0.

    In parts with small copies: memory for large ones takes longer than the products where it is asked of the system
    for each block, as in workers of dask.
    """
    d = X.shape[1]
    total = np.zeros((d + bool(constant),) * 2)
    for rows in gen_batches(len(X), max(1, _SMALL_COPY // d)):
        total[:d, :d] += (X[rows] * weights[rows, None]).T @ X[rows]
    if constant:
        total[d, :d] = total[:d, d] = constant * (weights @ X)
        total[d, d] = constant**2 * weights.sum()
    return total


class StreamedRisk:
    """A `PerturbedRisk` of class k, or of all, whose rows are read anew at each point.

    Where weights are few, one pass has the second derivative, too, as a matrix by which steps are solved for: Newton's
    method needs the fewest passes. The rounding of sums is priced in whatever order, see `Problem.gradient_error`.
    """

    def __init__(self, rows, k, problem, *, penalty, perturbation, offset):
        self.rows, self.penalty, self.perturbation = rows, penalty, perturbation
        self.has_matrix = perturbation.size <= _MOST_FOR_HESSIAN
        self.forcing = 0.0 if self.has_matrix else _FORCING
        self._known = {"k": k, "problem": problem, "offset": offset}

    def at(self, weights):
        """Value and derivatives at `weights`."""
        n = weights.size
        sums = self.rows.sum(partial(_derivatives, weights=weights, with_matrix=self.has_matrix, **self._known))
        value = sums[0] + 0.5 * self.penalty * np.vdot(weights, weights) + np.vdot(self.perturbation, weights)
        gradient = sums[1 : n + 1].reshape(weights.shape) + self.penalty * weights + self.perturbation

        def _multiply(step):
            if self.has_matrix:
                product = sums[n + 1 :].reshape(n, n) @ step.ravel()
            else:
                product = self.rows.sum(partial(_hessian_product, weights=weights, step=step, **self._known))
            return product.reshape(step.shape) + self.penalty * step

        return Point(weights, value, gradient, lambda: _multiply)


def _derivatives(*block, weights, with_matrix, **known):
    """Value, gradient and, if asked for, second derivative of the losses of a block, one after the other."""
    risk = _risk_of_rows(*block, **known, penalty=0.0, perturbation=np.zeros_like(weights))  # which are added once
    scores = risk.scores(weights)
    parts = [risk.value(weights, scores), risk.gradient(weights, scores)]
    return np.concatenate([np.ravel(part) for part in [*parts, *[risk.hessian_matrix(scores)] * with_matrix]])


def _hessian_product(*block, weights, step, **known):
    risk = _risk_of_rows(*block, **known, penalty=0.0, perturbation=np.zeros_like(weights))
    return risk.hessian(risk.scores(weights))(step)


def minimise(risk, target_gradient):
    """Minimise by Newton's method, each step by conjugate gradients, to a gradient norm of at most `target_gradient`.

    Raises SolverError if it is not that small after `_MOST_STEPS`: a guarantee rests on it.
    """
    point = risk.at(np.zeros_like(risk.perturbation))
    first = np.linalg.norm(point.gradient)
    for _ in range(_MOST_STEPS):
        norm = np.linalg.norm(point.gradient)
        if norm <= target_gradient:
            return point.weights
        # In proportion to the progress so far, for superlinear convergence; but a step need not be better than that.
        atol = max(min(risk.forcing, norm / first) * norm, 0.5 * target_gradient)
        point = _line_search(risk, point, _newton_step(point, atol))
    if np.linalg.norm(point.gradient) <= target_gradient:
        return point.weights
    raise SolverError(f"The solver did not reach tol within {_MOST_STEPS:,} steps: raise tol or lower C.")


def _newton_step(point, atol):
    """Step at which the quadratic model has a gradient norm of at most `atol`, by conjugate gradients."""
    multiply, gradient, shape = point.hessian(), point.gradient, point.gradient.shape
    second = LinearOperator(
        (gradient.size, gradient.size), matvec=lambda step: multiply(step.reshape(shape)).ravel(), dtype=np.float64
    )
    # Whether it converged does not matter: the line search looks at what comes out, and `minimise` at the gradient.
    step, _ = cg(second, -gradient.ravel(), rtol=0.0, atol=atol, maxiter=2 * gradient.size + 10)
    return step.reshape(shape)


def _line_search(risk, point, step):
    """Halve the step until it lowers the value, or, where rounding hides that, the norm of the gradient.

    After forty halves the last trial stands, as good as none: `minimise` has as many steps as it has.
    """
    slope, norm = np.vdot(point.gradient, step), np.linalg.norm(point.gradient)
    rounding = _NOISE_OF_VALUES * (abs(point.value) + 2 * abs(np.vdot(risk.perturbation, point.weights)))
    for length in 0.5 ** np.arange(40):
        trial = risk.at(point.weights + length * step)
        if trial.value <= point.value + _ARMIJO * length * slope:
            break
        # Near the minimum values agree to all digits that floats have, while gradients still tell which is closer.
        if -slope * length <= rounding and np.linalg.norm(trial.gradient) < norm:
            break
    return trial
