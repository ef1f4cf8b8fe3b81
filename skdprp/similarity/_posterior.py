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
_BATCH_ENTRIES = 2**18  # of rows, of which there are several copies at a time
_INVENTED = 200  # rows, drawn from the densities, whose places say whether to search by posterior means or releases
_WORSE = 0.02  # mean logarithm of a place: so much the places of 200 rows may differ by chance
_USUAL = 2.0**16
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


def _means_of_cells(weights, likelihood, values):
    """Posterior mean of values at the points, by component (rows) and cell (columns), from the density of each."""
    return (weights * values) @ likelihood / np.maximum(weights @ likelihood, _TINY)


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

    @property
    def points(self):
        """Points of a density."""
        return self.values[::_FINER]

    def cells(self, numbers):
        """Index of the cell that each number is in."""
        reach = self.n_points * _FINER
        return (_number_of_cell(numbers, self.scale).clip(-reach, reach) + reach).astype(np.int16)


def _number_of_cell(numbers, scale):
    """Count cells from 0 on."""
    limit = int(_FARTHEST * _FINER / _GROWTH)
    return np.rint(np.arcsinh(numbers * (_GROWTH / scale)) * (_FINER / _GROWTH)).clip(-limit, limit)


def _in_batches(X):
    return list(gen_batches(len(X), max(1, _BATCH_ENTRIES // X.shape[1])))


@dataclass(frozen=True)
class _Posterior:
    """Density of each component on the points of a grid, and what it makes of a release in each cell."""

    grid: _Grid
    noise: str
    densities: np.ndarray
    means: np.ndarray
    squares: np.ndarray  # means of squares

    @classmethod
    def of(cls, S, noise, scale):
        """Estimate it. The density of all components is the discrete one under which all releases are most likely."""
        grid, k = _Grid.of(S, scale), S.shape[1]
        values, points = grid.values, grid.points
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
        densities = np.empty((k, len(points)))
        means, squares = np.empty((2, k, len(values)), np.float32)
        for block in blocks:
            counts = _counts_of_cells(cells[block], len(values))[:, seen]
            # A component has its own density as far as its releases are more likely under it than by chance, else that
            # of all components: where there is much noise each would be weighed by chance.
            own = _maximise(density, counts, of_seen, _STEPS, _PRIOR_ROWS)
            gains = counts * np.log(np.maximum(own @ of_seen, _TINY) / np.maximum(density @ of_seen, _TINY))
            shares = 1 - _BY_CHANCE / np.maximum(gains.sum(axis=1, keepdims=True), _BY_CHANCE)
            own = densities[block] = shares * own + (1 - shares) * density
            means[block] = _means_of_cells(own, likelihood, points)
            squares[block] = _means_of_cells(own, likelihood, points**2)
        return cls(grid, noise, densities, means, squares)

    def estimates(self, S):
        """Posterior means of rows, and the root of that of the squared norm of each."""
        components, means, squares = np.arange(S.shape[1]), np.empty(S.shape, np.float32), np.empty(len(S))
        for batch in _in_batches(S):
            cells = self.grid.cells(S[batch])
            means[batch] = self.means[components, cells]
            squares[batch] = self.squares[components, cells].sum(axis=1, dtype=np.float64)
        return means, np.sqrt(squares)

    def invented_rows(self):
        """Draw rows from the densities, and release them."""
        generator = check_random_state(0)  # of rows that nobody has: no secret is needed
        shares, points = np.cumsum(self.densities, axis=1), self.grid.points
        drawn = generator.uniform(size=(len(shares), _INVENTED)) * shares[:, -1:]
        components = zip(shares, drawn, strict=True)
        places = np.stack([own.searchsorted(at).clip(max=len(own) - 1) for own, at in components], axis=1)
        draw = generator.laplace if self.noise == "laplace" else generator.normal
        return points[places], points[places] + draw(scale=self.grid.scale, size=places.shape)


def means_of_numbers(S, *, noise, scale):
    """Posterior means of the components of rows, float32, given their releases with additive noise."""
    return _Posterior.of(S, noise, scale).estimates(S)[0]


def weights_of_numbers(S, *, noise, scale):
    """Rows of length at most 1, float32, whose inner products with a query tell which are near: one of two estimates.

    Posterior means over their norms find most, unless each row is large in few components of its own, as texts are, and
    noise hides them: of such a row posterior means leave what is common to all, or its few largest numbers. Released
    numbers leave everything, and are divided by what the norms are on average given the release: a norm of the release
    itself is mostly noise. The choice is made by rows that are drawn from the densities.
    """
    if scale and not 1 / _USUAL < scale < _USUAL:  # squares of numbers far from 1 are none that float32 can hold
        unit = 2.0 ** np.frexp(scale)[1]
        S, scale = S / unit, scale / unit
    posterior = _Posterior.of(S, noise, scale)
    farthest = posterior.grid.values[-1]
    if max(S.max(), -S.min()) > farthest:
        S = S.clip(-farthest, farthest)  # beyond, numbers count alike
    invented, released = posterior.invented_rows()
    (means, typical), (own_means, own_typical) = posterior.estimates(S), posterior.estimates(released)
    by_means = _log_place(invented, (own_means, norms(own_means)), (means, norms(means)))
    by_numbers = _log_place(invented, (released, own_typical), (S, typical))
    if by_means <= by_numbers + _WORSE:
        return unit_rows(means, out=means)
    return divided(S, typical * (norms(S) / typical).max(), out=means)


def _log_place(rows, own, others):
    """Mean logarithm of the place of rows' own estimates among those of others, by their products with the row.

    Estimates are numbers, and what to divide them by. Unlike by how much an estimate stands out, a mean of which a few
    rows with large numbers govern, a place tells what is found.
    """
    (numbers, divisors), places = own, np.ones(len(rows))
    rows = rows.astype(np.float32)
    least = np.einsum("ij,ij->i", rows, numbers) / _nonzero(divisors)
    numbers, divisors = others
    for batch in _in_batches(numbers):
        products = rows @ numbers[batch].astype(np.float32, copy=False).T / _nonzero(divisors[batch])
        places += (products >= least[:, None]).sum(axis=1)
    return np.log(places).mean()


def norms(rows):
    """Norms of rows, in float64."""
    return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def divided(rows, divisors, out=None):
    """Rows over numbers of their own, or as they are where that is 0, in float32."""
    out = np.empty(rows.shape, np.float32) if out is None else out
    divisors = _nonzero(divisors)[:, None]
    for batch in _in_batches(rows):
        out[batch] = rows[batch] / divisors[batch]
    return out


def unit_rows(rows, out=None):
    """Rows of length 1, and rows of zeros as they are, in float32."""
    return divided(rows, norms(rows), out)


def _nonzero(divisors):
    return np.where(divisors > 0, divisors, 1.0)


def means_of_bits(positive, *, positive_probability, unit):
    """Posterior means of the components of rows, as multiples of `unit` in float32, given which of their bits are +1.

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
    table = _means_of_cells(weights, likelihood, points)[:, 0].astype(np.float32)
    return np.where(positive, table[:, 1], table[:, 0])
