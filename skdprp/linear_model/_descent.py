"""Least squares by noisy gradient descent on all rows, with clipped gradients and steps that no row decides."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from .. import _noise
from .._adjacency import Unit
from .._sums import CompensatedSum
from ..composition import PrivacyLoss
from ..mechanisms import gaussian_scale
from ..mechanisms._numerics import rows_that_differ
from ..mechanisms.noisy_steps import sampled_steps_target

_MANY_ROWS = 1000.0  # for each weight, in units of the noise: where moments are as good, in one pass and unclipped
_LEAST_CLIP, _FEW_ROWS = 0.2, 30.0  # clipping norm with few rows, where rows and targets have a norm of 1 at most
N_STEPS = 200
_LARGEST_STEP = 0.5  # of rows with a constant of 1, whose curvature is 2 at most
_LARGEST_MOMENTUM = 0.975
_CURVATURE = 0.3  # of directions that a noisy descent learns, as a share of the largest that can be
_LARGEST_WEIGHTS = 2.0**14  # norm up to which the rounding of a gradient is priced; to it weights are projected
_BLOCK_ENTRIES = 2**18  # of float64, which fit the cache
_UNIT = 2.0**-52  # twice the rounding error of one operation, which pays for products of rounding errors


@dataclass(frozen=True)
class RidgeDescent:
    """Steps and noise, from public facts: `scale` of the noise of each sum of gradients, `travel` of all steps.

    Rows with their constant have a norm of at most 1, targets too. Steps are in units of one over the number of rows.
    """

    n_samples: int
    clip: float
    scale: float
    travel: float
    loss: PrivacyLoss
    unit: Unit = Unit.ROW

    @property
    def step(self):
        """Length of each step."""
        return min(_LARGEST_STEP, self.travel / N_STEPS)

    @property
    def momentum(self):
        """Share of the last move in the next, by which short steps travel further."""
        return min(_LARGEST_MOMENTUM, max(0.0, 1 - N_STEPS * self.step / self.travel))

    def gain(self, constant, n_targets):
        """How much further the intercept goes than other weights: as with a constant of 1, if its own noise allows."""
        noise = self.scale / np.sqrt(N_STEPS) * np.sqrt(n_targets) / (constant * self.n_samples)
        return max(1.0, min(1.0, _travel(noise, self.n_samples) / self.travel) / constant**2)


def rows_for_each_weight(epsilon, delta, *, n_samples, n_weights, adjacency):
    """Rows for each of the weights of a target, in units of the noise that hides one: about 5 are few, 1000 plenty."""
    noise = gaussian_scale(epsilon, delta, sensitivity=float(rows_that_differ(adjacency)))
    return n_samples / (noise * n_weights)


def has_many_rows(*target, **shape):
    """Whether the noise of moments hardly matters any more."""
    return rows_for_each_weight(*target, **shape) >= _MANY_ROWS


def plan_ridge_descent(epsilon, delta, *, n_samples, n_weights, n_targets, adjacency, unit=Unit.ROW):
    """Calibrate a descent for so many weights of each target, from public facts.

    Notes
    -----
    The proof is in the notes of :class:`~skdprp.DPRidge`.

    The rest are choices that cost no privacy, which did best on simulated tables of many kinds. Gradients are clipped
    less where rows are many, as that bends the mean of a skewed target. Of the distance `travel` that the steps add up
    to, a direction of curvature c learns the share ``1 - exp(-c travel)`` and gathers noise in proportion: to stop
    early is the only regularisation, see `_travel`. The intercept goes further, as with a constant of 1, however short
    the constant is that gradients are clipped with: else features that are far from 0 in all rows learn the mean of the
    targets in its place, and are bent by it.
    """
    rows = rows_for_each_weight(epsilon, delta, n_samples=n_samples, n_weights=n_weights, adjacency=adjacency)
    clip = float(np.clip(_LEAST_CLIP * np.cbrt(rows / _FEW_ROWS), _LEAST_CLIP, 1.0))
    n_changed = N_STEPS * n_weights * n_targets
    target = sampled_steps_target(epsilon, delta, n_changed=n_changed)
    per_step = rows_that_differ(adjacency) * clip + 2 * rounding_of_descent(n_samples, n_weights, clip, unit)
    sensitivity = float(np.sqrt(N_STEPS) * per_step * (1 + 2.0**-50))
    scale = gaussian_scale(*target, sensitivity=sensitivity)
    a = scale / np.sqrt(N_STEPS) * np.sqrt(n_weights * n_targets) / n_samples
    loss = PrivacyLoss(mu=sensitivity / scale, sampling=n_changed * _noise.SAMPLING_LOSS)
    return RidgeDescent(n_samples, clip, scale, _travel(a, n_samples), loss, unit)


def _travel(noise, n_samples):
    """What all steps add up to, by the noise of the mean gradient of so many rows."""
    return float(1 / (noise + noise**2 / _CURVATURE + 1 / n_samples))


def rounding_of_descent(n_samples, n_weights, clip, unit=Unit.ROW):
    """Bound the norm of what rounding does to a sum of clipped gradients, of so many rows or persons.

    Notes
    -----
    With e = 2^-53, rows and targets of norms at most 1 and weights w of norm at most W: a residual is a sum of at most
    d + 4 products, off by ``(d + 4) e (W + 1)``; to clip it moves no two of them further apart, and is off by 8 e of
    the clipping norm, as are row norms and units by ``d + 16``. A sum over n rows is off by n e of the sum of their
    norms, in whatever order. Of n persons, the weights of whose rows add up to n at most, it is off by ``(B + 4) e`` of
    the sum of the weighted norms, by blocks of B rows and compensated sums of these: their number does not matter.
    """
    residual = (n_weights + 4) * (_LARGEST_WEIGHTS + 1)
    n_additions = n_samples if unit == Unit.ROW else _rows_of_a_block(n_weights) + 4
    return _UNIT * n_samples * (residual + clip * (n_additions + n_weights + 24))


def _rows_of_a_block(n_weights):
    """How many rows are multiplied at once."""
    return max(1, _BLOCK_ENTRIES // n_weights)


def descend(X, constant, targets, descent, row_weights=None):
    """Return weights of rows and of the constant, of shape (n_features + 1, n_targets).

    `X` are rows of norm at most 1 with the constant, `targets` of norm at most 1. The weights are the mean of the later
    half of all steps. Of persons, the clipped gradients of their rows are multiplied by `row_weights`.
    """
    shape = (X.shape[1] + 1, targets.shape[1])
    weights, move, mean = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    step_sizes = np.full((shape[0], 1), descent.step / descent.n_samples)
    if constant:
        step_sizes[-1] *= descent.gain(constant, targets.shape[1])
    blocks = [
        (
            (X[rows], np.sqrt(row_norms(X[rows], squared=True) + constant**2), targets[rows]),
            1.0 if row_weights is None else row_weights[rows, None],
        )
        for rows in gen_batches(X.shape[0], _rows_of_a_block(shape[0]))
    ]
    momentum = descent.momentum
    for step in range(N_STEPS):
        ahead = _projected(weights + momentum * move)  # Nesterov's momentum
        parts = (_clipped_gradients(*block, constant, ahead, descent.clip, shares) for block, shares in blocks)
        gradient = _sum_up(parts, descent.unit)
        _noise.add_gaussian(gradient, descent.scale)
        move = momentum * move - step_sizes * gradient
        weights = weights + move
        if step >= N_STEPS // 2:
            mean += weights / (N_STEPS - N_STEPS // 2)
    return mean


def _sum_up(terms, unit):
    """Sum; of persons without rounding that grows with the number of their rows."""
    if unit == Unit.ROW:
        return sum(terms, start=0.0)
    total = CompensatedSum()
    for term in terms:
        total.add(term)
    return total.value


def _projected(weights):
    return weights * min(1.0, _LARGEST_WEIGHTS / max(np.linalg.norm(weights), 1.0))


def _clipped_gradients(X, norms, targets, constant, weights, clip, shares=1.0):
    """Sum of the gradients of half the squared residuals of a block, each clipped, times their shares of a person."""
    residuals = X @ weights[:-1] + constant * weights[-1] - targets
    sizes = norms * np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
    residuals *= (clip / np.maximum(sizes, clip))[:, None]
    residuals *= shares
    return np.vstack([X.T @ residuals, constant * residuals.sum(axis=0)])
