"""Least squares on released moments: the centred problem, the penalty that the noise asks for, errors of the weights.

All in units in which rows have a norm of at most 1 and targets lie in [-1, 1], about the middle of their bounds.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

_RIDGE_FOR_POSTERIOR = 0.7  # ridge for the posterior mean, whose filter it is not: least error on simulated tables
_PRIOR_OF_A_MEAN = 0.1  # variance of the mean of a target, about the middle of its bounds
_SIZES = np.geomspace(1e-10, 1e4, 71)[:, None]  # of the variance of one weight
_FEW_ROWS = 100.0  # for each weight, in units of the noise
_ZERO = 1e-100
_LEVEL = 2.0  # of a logarithm of a likelihood, below its largest, down to which a size is not ruled out


@dataclass(frozen=True)
class NormalEquations:
    """Moments of rows and targets with noise, as least squares need them.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    gram : ndarray of shape (n_features, n_features)
        Noisy ``X'X``.
    cross : ndarray of shape (n_features, n_targets)
        Noisy ``X'Y``.
    squares : ndarray of shape (n_targets,)
        Noisy sum of the squares of each target.
    row_sums, target_sums : ndarray of shape (n_features,) and (n_targets,), or None
        Noisy sums of rows and targets; None without an intercept.
    noise : float
        Standard deviation of the noise beside the diagonal of `gram`; sqrt(2) of it is on the diagonal.
    constant, target_weight : float
        The constant feature, and the factor of the targets, in the table whose moments had that noise.
    n_components : float
        Number of rows of a secret projection that was released; infinite where noise was added to moments.
    """

    n_samples: int
    gram: np.ndarray
    cross: np.ndarray
    squares: np.ndarray
    row_sums: np.ndarray | None
    target_sums: np.ndarray | None
    noise: float
    constant: float
    target_weight: float
    n_components: float

    @property
    def rows_for_each_weight(self):
        """Rows for each weight, in units of the noise that hides one."""
        norm = 1 + self.constant**2 + self.cross.shape[1] * self.target_weight**2
        return self.n_samples * norm / (np.sqrt(2) * self.noise * (len(self.gram) + 1))

    @classmethod
    def of(cls, moments):
        """Bring released moments to these units."""
        columns, d = moments.columns, moments.columns.n_features
        targets = d + columns.intercept
        row = columns.weights[0] * columns.max_norm
        values, constant, weight = moments.values / row**2, columns.constant, columns.target_weight
        n_components = getattr(moments.noise, "n_components", np.inf)
        # A projection has sampled all columns alike, the constant one, too: together they are a table of their own.
        is_sampled = constant and np.isfinite(n_components)
        return cls(
            n_samples=max(1.0, values[d, d] / constant**2) if is_sampled else moments.n_samples,
            gram=values[:d, :d],
            cross=values[:d, targets:] / weight,
            squares=np.diag(values)[targets:] / weight**2,
            row_sums=values[:d, d] / constant if constant else None,
            target_sums=values[d, targets:] / (constant * weight) if constant else None,
            noise=moments.noise.scale / np.sqrt(2) / row**2,
            constant=constant,
            target_weight=weight,
            n_components=n_components,
        )

    @cached_property
    def row_mean(self):
        """Mean of the rows, shrunk by as much as noise makes it longer (James and Stein), and of norm at most 1."""
        if self.row_sums is None:
            return np.zeros(len(self.gram))
        square, noise = self.row_sums @ self.row_sums, len(self.gram) * (self.noise / self.constant) ** 2
        mean = self.row_sums * max(0.0, 1 - noise / max(square, np.finfo(float).tiny)) / self.n_samples
        return mean / max(1.0, np.linalg.norm(mean))

    @cached_property
    def target_mean(self):
        """Mean of each target, shrunk to the middle of its bounds where noise is large."""
        if self.target_sums is None:
            return np.zeros(self.cross.shape[1])
        variance = (self.noise / (self.constant * self.target_weight * self.n_samples)) ** 2
        return np.clip(self.target_sums / self.n_samples * _PRIOR_OF_A_MEAN / (_PRIOR_OF_A_MEAN + variance), -1, 1)

    @cached_property
    def spectrum(self):
        """Eigenvalues of the centred Gram matrix, those below 0 set to 0, and its eigenvectors."""
        values, vectors = np.linalg.eigh(self.gram - self.n_samples * np.outer(self.row_mean, self.row_mean))
        return np.maximum(values, 0.0), vectors

    @cached_property
    def projected(self):
        """Centred ``X'Y`` in the basis of the eigenvectors, of shape (n_features, n_targets)."""
        centred = self.cross - self.n_samples * np.outer(self.row_mean, self.target_mean)
        return self.spectrum[1].T @ centred

    def noise_of_equations(self, residual, size):
        """Factors a and c of ``a A + c I``, the covariance of the noise of the equations ``b - A w``, but for ``w w'``.

        With q the square of the norm of (w, the intercept, -1), and r the variance of a residual. Noise on moments has
        ``a = 0`` and ``c = noise^2 q``. A projection to k rows releases a Wishart matrix of the table with noise of
        variance ``s^2 = noise sqrt(k)`` on each entry: of ``a = (n r + s^2 q) / k`` and ``c = s^2 a``.
        """
        hidden = self.noise / np.sqrt(self.n_components)
        along = self.n_samples * residual / self.n_components + hidden * size
        return along, self.n_samples * residual * hidden + self.noise**2 * size

    def penalty(self, target):
        """Penalty that the noise of a target asks for, and the largest variance of a weight that is not ruled out.

        Notes
        -----
        Empirical Bayes: with weights of independent N(0, t), residuals of variance r and l the eigenvalues of A, each
        of the numbers ``V'b`` has the variance ``t l^2 + (r + a) l + c``, a and c of `noise_of_equations`. Of all t,
        the likeliest is taken; r is what t leaves of the released sum of squares. The posterior mean
        ``V'b l / (l^2 + l (r + a) / t + c / t)`` shrinks small eigenvalues to nothing; the ridge
        ``0.7 (sqrt(c / t) + (r + a) / t)`` stands for it.
        """
        values, b = self.spectrum[0], self.projected[:, target]
        total = np.clip(self.squares[target] / self.n_samples - self.target_mean[target] ** 2, 0.0, 1.0)
        residual = np.maximum(total - _SIZES * values.sum() / self.n_samples, 0.0)
        offset = (self.target_mean[target] / self.constant) ** 2 if self.constant else 0.0
        along, noise = self.noise_of_equations(
            residual, self.target_weight**-2 + offset + (len(self.gram) + 1) * _SIZES
        )
        residual = residual + along
        variance = _SIZES * values**2 + residual * values + noise
        loss = (np.log(variance) + b**2 / variance).sum(axis=1) / 2
        best = np.argmin(loss)
        alpha = _RIDGE_FOR_POSTERIOR * (np.sqrt(noise[best] / _SIZES[best]) + residual[best] / _SIZES[best])
        largest = float(_SIZES[np.flatnonzero(loss <= loss[best] + _LEVEL)[-1], 0])
        # With few rows nothing is ruled out: weights of the size of targets by rows are possible at least.
        return float(alpha[0]), largest if self.rows_for_each_weight >= _FEW_ROWS else max(largest, 1.0)

    def solve(self, target, alpha):
        """Weights and intercept of the ridge regression of a target."""
        values, vectors = self.spectrum
        # The pseudo-inverse, where no penalty holds an eigenvalue of 0, or one whose inverse is no float.
        weights = vectors @ np.divide(
            self.projected[:, target], values + alpha, out=np.zeros_like(values), where=values + alpha > _ZERO
        )
        return weights, self.target_mean[target] - self.row_mean @ weights

    def solve_all(self, alphas):
        """Weights, of shape (n_targets, n_features), and intercepts, at one penalty or one for each target."""
        alphas = np.broadcast_to(alphas, self.cross.shape[1])
        solutions = [self.solve(target, alpha) for target, alpha in enumerate(alphas)]
        weights, intercepts = map(np.array, zip(*solutions, strict=True))
        return weights, intercepts

    def residual_variance(self, target, alpha):
        """Mean squared residual on the rows of the fit, and the standard deviation of its noise.

        The noise is in the weights and in the moments: Stein's identity adds what that makes too small.
        """
        (values, vectors), (weights, intercept) = self.spectrum, self.solve(target, alpha)
        constant = intercept / self.constant if self.constant else 0.0
        inverse = 1 / np.maximum(values + alpha, np.finfo(float).tiny)
        size = weights @ weights + constant**2 + self.target_weight**-2
        w, row_sums, target_sums = weights, self.row_sums, self.target_sums
        square = w @ self.gram @ w - 2 * w @ self.cross[:, target] + self.squares[target]
        if row_sums is not None:
            square += 2 * intercept * (w @ row_sums - target_sums[target]) + self.n_samples * intercept**2
        along, noise = self.noise_of_equations(max(square, 0.0) / self.n_samples, size)
        bias = 2 * (inverse @ (along * values + noise) + self.noise**2 * inverse @ (vectors.T @ weights) ** 2)
        # Of a quadratic form of the moments; that of a projection is in proportion to the form itself.
        deviation = np.sqrt(2) * (self.noise * size + max(square, 0.0) / np.sqrt(self.n_components))
        return float((square + bias) / self.n_samples), float(deviation / self.n_samples)

    def covariance(self, target, alpha, size):
        """Covariance of weights and intercept, and the variance of a residual.

        Notes
        -----
        The sandwich of ridge regression with the noise in its middle: ``J (r A + V + alpha^2 size I) J``, J the inverse
        of ``A + alpha I``, with an intercept that is not penalised; r is the variance of a residual, one standard
        deviation of its noise above what is estimated, and ``V = a A + c I + noise^2 u u'`` the covariance of the noise
        of the equations, see `noise_of_equations`, u the weights with the intercept. The last
        term is the square of what shrinkage takes from weights of variance `size`: it makes intervals right on
        average over weights, and not for each.
        """
        values, vectors = self.spectrum
        weights, intercept = self.solve(target, alpha)
        estimate, deviation = self.residual_variance(target, alpha)
        residual = float(np.clip(max(estimate, 0.0) + deviation, 0.0, 4.0))
        d, k = len(weights), self.constant
        u = np.append(weights, intercept / k) if k else weights
        along, beside = self.noise_of_equations(residual, self.target_weight**-2 + u @ u)
        noise = beside * np.eye(len(u)) + self.noise**2 * np.outer(u, u)
        gram = (vectors * values) @ vectors.T
        if k:
            if np.isinf(self.n_components):  # the number of rows is known; a projection has noise on it, too
                noise[d, d] = self.noise**2 * (self.target_weight**-2 + weights @ weights)
            mean = np.append(self.row_mean, 0.0)
            gram = np.pad(gram, (0, 1)) + self.n_samples * np.outer(mean, mean)
            gram[d, :] = gram[:, d] = self.n_samples * k * np.append(self.row_mean, k)
        penalty = np.append(np.full(d, alpha), np.zeros(len(u) - d))
        inverse = np.linalg.pinv(gram + np.diag(penalty), hermitian=True)
        covariance = inverse @ ((residual + along) * gram + noise + np.diag(penalty**2 * size)) @ inverse
        units = np.append(np.ones(d), np.full(len(u) - d, k))
        return covariance * np.outer(units, units), residual
