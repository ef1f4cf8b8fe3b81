"""Empirical risk minimisation as the private classifiers need it: what is public of a problem, and its minimisers."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.utils import assert_all_finite
from sklearn.utils.extmath import row_norms

from .. import _noise
from .._validation import silent
from ..losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss
from ._solver import PerturbedRisk, SolverError, minimise

_BINARY_LOSSES = {"log_loss": LogisticLoss, "huber_hinge": HuberHingeLoss}
_RELATIVE_INTERCEPT = 0.3
_ROUNDING = 2.0**-52  # twice that of one operation, which pays for products of rounding errors


@dataclass(frozen=True)
class Problem:
    """What is public of a classification problem.

    Parameters
    ----------
    n_samples, n_features, n_classes : int
        Shape of the data, and number of classes.
    loss : {"log_loss", "huber_hinge"}
        Name of the loss.
    multinomial : bool
        Whether one loss covers all classes, instead of one binary loss for each.
    max_norm : float
        Largest norm of a row.
    intercept : float
        Constant feature of every row; 0 for none.
    tol : float
        Largest gradient norm of a minimiser, in units of ``n_samples * max_norm``.

    Examples
    --------
    >>> from skdprp.linear_model._erm import Problem
    >>> problem = Problem(100, 5, 3, "log_loss", multinomial=True, max_norm=1.0, intercept=0.3, tol=1e-10)
    >>> problem.weights_shape
    (6, 3)
    """

    n_samples: int
    n_features: int
    n_classes: int
    loss: str
    multinomial: bool
    max_norm: float
    intercept: float
    tol: float

    @property
    def row_loss(self):
        """The loss of one row."""
        return SoftmaxLoss(self.n_classes) if self.multinomial else _BINARY_LOSSES[self.loss]()

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
    def target_gradient(self):
        """Norm that the solver brings each gradient to."""
        return self.n_samples * self.max_norm * self.tol

    @property
    def loss_at_zero(self):
        """Loss of a row whose scores are zero, of any class."""
        scores = np.zeros((1, self.n_classes) if self.multinomial else 1)
        return float(self.row_loss.value(np.ones(1, dtype=int), scores)[0])

    def accuracy(self, penalty, perturbation=0.0):
        """Bound on the norm of the true gradients of all outputs together, where the solver returns.

        Parameters
        ----------
        penalty : float
            Weight of half the squared norm of the weights.
        perturbation : float, default=0.0
            Largest norm of the linear term of one output.

        Returns
        -------
        float

        Notes
        -----
        The solver returns weights w, of norm at most W, whose *computed* gradient has a norm of at most
        `target_gradient`. With u = 2^-53, n rows of norm at most R and d features, to first order in u:

        - a sum of d + 2 products, the score of a row, is off by ``(d + 2) u R W``, all K scores of a row together too;
          the derivative of its loss then moves by at most the smoothness times that, and its gradient by R times more;
        - the derivative computed from the score is off by ``(K + 16) u``;
        - a sum over n rows of norms of at most L R is off by ``(n + 2) u n L R``, and adding up the gradient, the
          penalty and the linear term by 4 u times the norms of all three; the norm itself by ``d K u`` of it.

        W is what :meth:`largest_weights` says, which :func:`minimisers` enforces.
        """
        fixed, per_weight = self._rounding(penalty, perturbation)
        rounding = fixed + per_weight * self.largest_weights(penalty, perturbation)
        return float(np.sqrt(self.n_outputs) * (self.target_gradient + rounding))

    def _rounding(self, penalty, perturbation):
        """What rounding may hide of one gradient: a number, and one for each unit of the norm of the weights."""
        loss, n, R = self.row_loss, self.n_samples, self.row_norm
        slopes = (n + 2) * loss.lipschitz + self.n_classes + 16
        fixed = n * R * (slopes + 4 * loss.lipschitz) + 4 * perturbation + self.n_weights * self.target_gradient
        per_weight = n * loss.smoothness * R**2 * (self.n_features + 2) + 4 * penalty
        return _ROUNDING * fixed, _ROUNDING * per_weight

    def largest_weights(self, penalty, perturbation=0.0):
        """Bound on the norm of the weights of one output where the solver returns, from public facts alone.

        Parameters
        ----------
        penalty : float
            Weight of half the squared norm of the weights.
        perturbation : float, default=0.0
            Largest norm of the linear term.

        Returns
        -------
        float

        Notes
        -----
        At the minimiser w the objective is at most what it is at 0 and the losses are at least 0, so that
        ``penalty |w|^2 / 2 - perturbation |w|`` is at most the losses at 0; and its gradient is 0, so that
        ``penalty |w|`` is at most the norms of all others. The solver stops within its true gradient over the penalty
        of that, of which the part that grows with the weights is no more than half of them; where it might be, a fit
        may be refused.
        """
        n = self.n_samples
        by_value = perturbation + np.sqrt(perturbation**2 + 2 * penalty * n * self.loss_at_zero)
        by_gradient = perturbation + n * self.row_loss.lipschitz * self.row_norm
        fixed, per_weight = self._rounding(penalty, perturbation)
        reached = min(by_value, by_gradient) + self.target_gradient + fixed
        return float(reached / penalty / (1 - min(per_weight / penalty, 0.5)))

    def coefficients(self, weights):
        """Split weights into `coef_` and `intercept_` as scikit-learn lays them out."""
        weights = weights.T if self.multinomial else weights
        if not self.intercept:
            return weights.copy(), np.zeros(len(weights))
        return weights[:, :-1].copy(), self.intercept * weights[:, -1]


def relative_intercept(fit_intercept, max_norm):
    """Constant feature for an intercept: short, because it adds to the sensitivity of every row.

    Parameters
    ----------
    fit_intercept : bool
        Whether there is one.
    max_norm : float
        Largest norm of a row.

    Returns
    -------
    float
    """
    return _RELATIVE_INTERCEPT * max_norm if fit_intercept else 0.0


@silent
def clip_rows(X, max_norm):
    """Shorten the rows that are longer than `max_norm`.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of finite numbers.
    max_norm : float
        Largest norm of a row.

    Returns
    -------
    {ndarray, csr_array} of shape (n_samples, n_features)
        In float64, row by row: then linear algebra rounds a row in one way in every block. CSR input stays sparse, and
        repeated entries of it are summed before norms are taken.
    """
    if sp.issparse(X):
        X = sp.csr_array((X.data.astype(np.float64), X.indices.copy(), X.indptr.copy()), shape=X.shape)
        X.sum_duplicates()
        assert_all_finite(X.data)
    else:
        X = X.astype(np.float64, order="C")
    with np.errstate(over="ignore"):
        norms = row_norms(X)
    is_huge = ~np.isfinite(norms)  # the squares overflow, and so may the norm itself
    if is_huge.any():  # exact but for numbers near 0; the other factor is then a normal number, with all its digits
        _scale_rows(X, np.where(is_huge, 2.0**-600, 1.0))
        norms = row_norms(X)
    limit = max_norm * (1 - (X.shape[1] + 8) * 2.0**-52)  # what rounding may hide of a norm
    factors = limit / np.where(is_huge, norms, np.maximum(norms, limit))
    if (factors != 1).any():
        _scale_rows(X, factors)
    return X


def _scale_rows(X, factors):
    """Multiply each row by its factor, in place."""
    if sp.issparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr))
    else:
        X *= factors[:, None]


def minimisers(problem, X, codes, *, penalty, perturbation, largest, max_iter, n_jobs):
    """Minimise the perturbed risk of each output.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Clipped rows.
    codes : ndarray of int of shape (n_samples,)
        Class of each row, from 0 to n_classes - 1.
    penalty : float
        Weight of half the squared norm of the weights.
    perturbation : ndarray of shape ``problem.weights_shape``
        The linear terms, drawn before: jobs draw nothing.
    largest : float
        Norm that no linear term has more than.
    max_iter : int
        Largest number of Newton steps.
    n_jobs : int or None
        Threads, for one-vs-rest.

    Returns
    -------
    ndarray of shape ``problem.weights_shape``

    Raises
    ------
    SolverError
        If a gradient does not get as small as the guarantee assumes, or weights or a linear term are as large as
        almost never.
    """

    @silent
    def _minimise(y, linear):
        risk = PerturbedRisk(X, y, problem.row_loss, penalty=penalty, intercept=problem.intercept, perturbation=linear)
        weights = minimise(risk, problem.target_gradient, max_iter)
        if np.linalg.norm(linear) > largest or np.linalg.norm(weights) > problem.largest_weights(penalty, largest):
            raise SolverError("The weights are larger than the accuracy of the solver is known for: lower C.")
        return weights

    if problem.multinomial:
        return _minimise(codes, perturbation)
    positive = [1] if problem.n_classes == 2 else range(problem.n_classes)
    targets = [np.where(codes == k, 1.0, -1.0) for k in positive]
    solved = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_minimise)(y, linear) for y, linear in zip(targets, perturbation, strict=True)
    )
    return np.stack(solved)


def draw_spherical(problem, scale, radius):
    """Draw spherical noise for the weights of each minimisation, each with its own radius and direction.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    scale : float
        Scale of the radius.
    radius : tuple of float
        Shape and power of the radius.

    Returns
    -------
    ndarray of shape ``problem.weights_shape``
    """
    shape, power = radius
    draws = [_noise.spherical(problem.n_weights, scale, shape=shape, power=power) for _ in range(problem.n_outputs)]
    return np.stack(draws).reshape(problem.weights_shape)
