"""What released numbers and bits say of the projections they came from: posterior means, component by component.

With the likelihood f(s | x) of a release s, the density p of a component on points x has the posterior mean
``sum_x x p(x) f(s | x) / sum_x p(x) f(s | x)``. The density of one component is estimated from its releases (empirical
Bayes), which is post-processing: by a few steps of expectation maximisation, from a density of all components.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state, gen_batches

_GROWTH = 1 / 16  # spacing of points of a density far out, as a share of themselves; at 0 it is the scale of the noise
_FINER = 16  # cells of released numbers for each such point: the posterior mean hardly varies in one
_FARTHEST = 30  # logarithm of the number of scales beyond which numbers count alike
_POOLED_STEPS, _STEPS = 300, 5
_PRIOR_ROWS = 100.0  # by how many rows the density of all components counts in that of one
_BY_CHANCE = 3.0  # log likelihood that the density of one gains even if it is that of all
_BLOCK_ENTRIES = 2**21
# Share of the squares of projections. Densities whose posterior means explain less are too coarse to be trusted.
_LEAST_EXPLAINED = 0.1
_INVENTED = 200  # rows, drawn from the densities, on which posterior means and releases are compared
_CLEARLY = 1.1  # times the contrast: components of real rows are not independent, as those of invented ones
_TINY = np.finfo(float).tiny


def _maximise(density, counts, likelihood, n_steps, prior_rows=0.0):
    """Make the releases of each component more likely with each step of expectation maximisation.

    `counts` has a row for each component, `likelihood` for each point, and both a column for each cell of releases.
    Where each component has a likelihood of its own, both are stacks of such matrices, `counts` of one row each. The
    density where all start counts as `prior_rows` rows more.
    """
    weights, n_rows = np.broadcast_to(density, (*counts.shape[:-1], len(density))), counts.sum(axis=-1, keepdims=True)
    for _ in range(n_steps):
        # Densities with no likelihood left for a cell without a row would make 0 / 0 of it.
        ratios = counts / np.maximum(weights @ likelihood, _TINY)
        expected = weights * (ratios @ likelihood.swapaxes(-1, -2))
        weights = (expected + prior_rows * density) / (n_rows + prior_rows)
    return weights


def _means_of_cells(weights, likelihood, points):
    """Posterior mean of each component (rows) given each cell (columns), from the density of each."""
    return (weights * points) @ likelihood / np.maximum(weights @ likelihood, _TINY)


def _own_densities(density, counts, likelihood):
    """Density of each component: its own as far as its releases are more likely under it than by chance.

    Else it is that of all components, or where there is much noise each would be weighed by chance.
    """
    own = _maximise(density, counts, likelihood, _STEPS, _PRIOR_ROWS)
    gains = counts * np.log(np.maximum(own @ likelihood, _TINY) / np.maximum(density @ likelihood, _TINY))
    shares = 1 - _BY_CHANCE / np.maximum(gains.sum(axis=1, keepdims=True), _BY_CHANCE)
    return shares * own + (1 - shares) * density


def _counts_of_cells(cells, n_cells):
    """How often each component (rows) is in each cell (columns)."""
    own = cells + np.arange(len(cells))[:, None] * n_cells
    return np.bincount(own.ravel(), minlength=len(cells) * n_cells).reshape(-1, n_cells)


@dataclass(frozen=True)
class _Grid:
    """Cells of released numbers and, among them, points of a density: even at 0, and in proportion far out."""

    scale: float
    n_points: int  # on each side of 0

    @classmethod
    def of(cls, S, scale):
        """Make one that reaches as far as the numbers do."""
        scale = scale or 1.0  # where no neighbour moves the projection there is neither noise nor anything to estimate
        return cls(scale, int(_number_of_cell(max(S.max(), -S.min()), scale)) // _FINER + 1)

    @property
    def values(self):
        """Middles of all cells; one in `_FINER` is a point."""
        reach = self.n_points * _FINER
        return self.scale / _GROWTH * np.sinh(np.arange(-reach, reach + 1) * (_GROWTH / _FINER))

    def cells(self, numbers):
        """Index of the cell that each number is in."""
        reach = self.n_points * _FINER
        return (_number_of_cell(numbers, self.scale).clip(-reach, reach) + reach).astype(np.int16)


def _number_of_cell(numbers, scale):
    """Count cells from 0 on."""
    limit = int(_FARTHEST * _FINER / _GROWTH)
    return np.rint(np.arcsinh(numbers * (_GROWTH / scale)) * (_FINER / _GROWTH)).clip(-limit, limit)


def _in_batches(X):
    return list(gen_batches(len(X), max(1, _BLOCK_ENTRIES // X.shape[1])))


def _densities_of_numbers(S, grid, noise):
    """Density of each component on the points of a grid, and its posterior mean for a release in each cell.

    The density of all components is the discrete one under which all releases together are most likely.
    """
    values, points, k = grid.values, grid.values[::_FINER], S.shape[1]
    cells = np.empty((k, len(S)), np.int16)  # of one component beside each other, as they are counted
    for batch in _in_batches(S):
        cells[:, batch] = grid.cells(S[batch]).T
    blocks = list(gen_batches(k, max(1, _BLOCK_ENTRIES // max(len(values), len(S)))))
    together = sum(_counts_of_cells(cells[block], len(values)).sum(axis=0) for block in blocks)
    seen = np.flatnonzero(together)  # cells without a release say nothing
    z = (values - points[:, None]) / grid.scale
    exponents = -np.abs(z) if noise == "laplace" else -(z**2) / 2
    likelihood = np.exp(exponents - exponents.max(axis=0))  # of each cell up to a factor, which cancels
    of_seen, uniform = likelihood[:, seen], np.full(len(points), 1 / len(points))
    density = _maximise(uniform, together[None, seen], of_seen, _POOLED_STEPS)[0]
    densities, means = np.empty((k, len(points))), np.empty((k, len(values)), np.float32)
    for block in blocks:
        counts = _counts_of_cells(cells[block], len(values))[:, seen]
        densities[block] = _own_densities(density, counts, of_seen)
        means[block] = _means_of_cells(densities[block], likelihood, points)
    return densities, means


def means_of_numbers(S, *, noise, scale):
    """Posterior means of the components of rows, float32, given their releases with additive noise."""
    grid = _Grid.of(S, scale)
    return _looked_up(_densities_of_numbers(S, grid, noise)[1], grid, S)


def _looked_up(means_of_cells, grid, S):
    """Posterior means of the numbers in rows, from those of the cells of each component."""
    means = np.empty(S.shape, np.float32)
    for batch in _in_batches(S):
        means[batch] = means_of_cells[np.arange(S.shape[1]), grid.cells(S[batch])]
    return means


def weights_of_numbers(S, *, noise, scale):
    """Posterior means of rows, or what finds rows better together with or instead of them: the released numbers.

    Where each row is large in few components of its own, as texts are, and noise hides them, posterior means leave of a
    row what is common to all. This shows on rows that are drawn from the densities.
    """
    grid = _Grid.of(S, scale)
    densities, means_of_cells = _densities_of_numbers(S, grid, noise)
    means, variance = _looked_up(means_of_cells, grid, S), grid.scale**2 * (2 if noise == "laplace" else 1)
    squares = [np.mean(np.square(numbers), dtype=np.float64) for numbers in (means, S)]
    explained = squares[0] / max(squares[1] - variance, _TINY)
    if explained < _LEAST_EXPLAINED:
        return S.astype(np.float32)
    generator = check_random_state(0)  # of rows that nobody has: no secret is needed
    shares, points = np.cumsum(densities, axis=1), grid.values[::_FINER]
    drawn = generator.uniform(size=(len(shares), _INVENTED)) * shares[:, -1:]
    invented = np.stack(
        [points[own.searchsorted(at).clip(max=len(own) - 1)] for own, at in zip(shares, drawn, strict=True)], axis=1
    )
    draw = generator.laplace if noise == "laplace" else generator.normal
    released = invented + draw(scale=grid.scale, size=invented.shape)
    of_means = _contrast(invented, _looked_up(means_of_cells, grid, released))
    if _contrast(invented, released) <= _CLEARLY * of_means:
        return means
    return unit_rows(means) + unit_rows(S) / np.float32(explained**1.5)


def _contrast(rows, estimates):
    """By how many standard deviations rows have larger products with their own estimates than with others, on average.

    All rows and estimates are of length 1, or zeros, which stand out from nothing.
    """
    products = unit_rows(rows) @ unit_rows(estimates).T
    of_own, of_all = np.diag(products), products.mean(axis=1)
    deviations = products.std(axis=1)
    return np.mean(np.divide(of_own - of_all, deviations, out=np.zeros(len(rows)), where=deviations > 0))


def unit_rows(rows):
    """Rows of length 1, and rows of zeros as they are, in float32."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    units = np.empty(rows.shape, np.float32)
    for batch in _in_batches(rows):
        units[batch] = rows[batch] / np.where(norms[batch] > 0, norms[batch], 1.0)
    return units


def means_of_bits(positive, *, positive_probability, unit):
    """Posterior means of the components of rows, float32, given which of their bits are +1.

    Bits do not tell how large components are: the density of all of them is a normal one whose standard deviation is
    `unit`, and that of each is its own by how many of its bits are +1.
    """
    points = np.linspace(-4, 4, 41)
    density = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    plus = positive_probability(points[:, None] * unit).T
    n_positive = positive.sum(axis=0)
    counts = np.stack([len(positive) - n_positive, n_positive], axis=1)[:, None]
    likelihood = np.stack([1 - plus, plus], axis=2)
    weights = _maximise(density, counts, likelihood, _STEPS, _PRIOR_ROWS)
    table = unit * _means_of_cells(weights, likelihood, points)[:, 0]
    return np.where(positive, table[:, 1], table[:, 0]).astype(np.float32)
