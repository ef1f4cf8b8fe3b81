"""Minimise a regularised, perturbed empirical risk to a gradient norm that a guarantee can rely on."""

import numpy as np
from scipy.sparse import issparse

_ARMIJO = 1e-4
_FORCING = 0.1
_ROUNDING = 2.0**-36


class SolverError(RuntimeError):
    """The solver did not reach the accuracy that the guarantee assumes: nothing is released."""


class PerturbedRisk:
    """The function ``J(w) = sum_i loss(y_i, w'x_i) + penalty/2 |w|^2 + b'w`` of the weights w.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, float64.
    y : ndarray of shape (n_samples,)
        Labels as the loss reads them.
    loss : object
        A loss of :mod:`skdprp.losses`.
    penalty : float
        Weight of the squared norm; of the intercept too.
    intercept : float
        Constant feature that follows the others; 0 for none.
    perturbation : ndarray of shape (n_weights,) or (n_weights, n_outputs)
        The linear term b.
    """

    def __init__(self, X, y, loss, *, penalty, intercept, perturbation):
        self.X, self.y, self.loss = X, y, loss
        self.penalty, self.intercept, self.perturbation = penalty, intercept, perturbation
        self._transposed = X.T.tocsr() if issparse(X) and perturbation.ndim > 1 else X.T

    def scores(self, weights):
        """Scores of all rows, an array of shape (n_samples,) or (n_samples, n_outputs)."""
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
        return lambda weights: self._pull_back(curvature(self.scores(weights))) + self.penalty * weights


def minimise(risk, tol, max_iter):
    """Minimise by Newton's method, each step by conjugate gradients.

    Parameters
    ----------
    risk : PerturbedRisk
        What to minimise.
    tol : float
        Largest norm of the gradient at the returned point, as computed there.
    max_iter : int
        Largest number of Newton steps.

    Returns
    -------
    ndarray, of the shape of the perturbation

    Raises
    ------
    SolverError
        If the gradient is not that small after `max_iter` steps.
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
        accuracy = max(min(_FORCING, norm / first) * norm, 0.5 * tol)
        step = _conjugate_gradients(risk.hessian(scores), -gradient, accuracy)
        weights, scores, gradient, value = _line_search(risk, weights, step, gradient, value)
    if np.linalg.norm(gradient) <= tol:
        return weights
    raise SolverError(f"The solver did not reach tol within max_iter={max_iter} steps: raise either.")


def _conjugate_gradients(multiply, target, accuracy):
    """Solve ``multiply(x) = target`` for a positive definite operator until the residual is at most `accuracy`."""
    solution, residual = np.zeros_like(target), target.copy()
    direction, square = residual.copy(), np.vdot(residual, residual)
    for _ in range(2 * target.size + 10):
        if square <= accuracy**2:
            break
        image = multiply(direction)
        length = square / np.vdot(direction, image)
        solution += length * direction
        residual -= length * image
        previous, square = square, np.vdot(residual, residual)
        direction = residual + (square / previous) * direction
    return solution


def _line_search(risk, weights, step, gradient, value):
    """Halve the step until it lowers the value, or, where rounding hides that, the norm of the gradient."""
    slope, norm = np.vdot(gradient, step), np.linalg.norm(gradient)
    rounding = _ROUNDING * (abs(value) + 2 * abs(np.vdot(risk.perturbation, weights)))
    for length in 0.5 ** np.arange(40):
        trial = weights + length * step
        scores = risk.scores(trial)
        new_gradient, new_value = risk.gradient(trial, scores), risk.value(trial, scores)
        if new_value <= value + _ARMIJO * length * slope:
            break
        if -slope * length <= rounding and np.linalg.norm(new_gradient) < norm:
            break
    return trial, scores, new_gradient, new_value
