"""What released numbers and bits say of the projections they came from: posterior means, component by component.

With the likelihood f(s | x) of a release s, the density p of a component on points x has the posterior mean
``sum_x x p(x) f(s | x) / sum_x p(x) f(s | x)``. The density of one component is estimated from its releases (empirical
Bayes), which is post-processing: by a few steps of expectation maximisation, from a density of all components.
"""

import numpy as np
from sklearn.utils import gen_batches

_GROWTH = 1 / 16  # spacing of points of a density far out, as a share of themselves; at 0 it is the scale of the noise
_FINER = 16  # cells of released numbers for each such point: the posterior mean hardly varies in one
_FARTHEST = 30  # logarithm of the number of scales beyond which numbers count alike
_POOLED_STEPS, _STEPS = 300, 5
_PRIOR_ROWS = 100.0  # by how many rows the density of all components counts in that of one
_BLOCK_ENTRIES = 2**21
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


def _means_of_cells(density, counts, likelihood, points):
    """Posterior mean of each component (rows) given each cell (columns), from a density of all components."""
    weights = _maximise(density, counts, likelihood, _STEPS, _PRIOR_ROWS)
    return (weights * points) @ likelihood / np.maximum(weights @ likelihood, _TINY)


def _counts_of_cells(cells, n_cells):
    """How often each column (rows) is in each cell (columns)."""
    own = cells + np.arange(cells.shape[1]) * n_cells
    return np.bincount(own.ravel(), minlength=cells.shape[1] * n_cells).reshape(-1, n_cells)


def means_of_numbers(S, *, noise, scale):
    """Posterior means of the components of rows, float32, given their releases with additive noise.

    The density of all components is the discrete one under which all releases together are most likely.
    """
    scale = scale or 1.0  # where no neighbour moves the projection there is neither noise nor anything to estimate
    # Cells of releases and, among them, points of a density: even at 0, and so as to reach far in proportion.
    spacing = scale / _GROWTH
    limit = int(_FARTHEST * _FINER / _GROWTH)
    cells = np.clip(np.rint(np.arcsinh(S / spacing) * (_FINER / _GROWTH)), -limit, limit).astype(np.int16)
    n_points = int(max(-cells.min(), cells.max())) // _FINER + 1
    cells += n_points * _FINER
    values = spacing * np.sinh(np.arange(-n_points * _FINER, n_points * _FINER + 1) * (_GROWTH / _FINER))
    points = values[::_FINER]
    columns = list(gen_batches(S.shape[1], max(1, _BLOCK_ENTRIES // max(len(values), len(S)))))
    together = sum(_counts_of_cells(cells[:, block], len(values)).sum(axis=0) for block in columns)
    seen = np.flatnonzero(together)  # cells without a release say nothing, and nobody asks what they mean
    place = np.zeros(len(values), np.int16)
    place[seen] = np.arange(len(seen))
    z = (values[seen] - points[:, None]) / scale
    exponents = -np.abs(z) if noise == "laplace" else -(z**2) / 2
    likelihood = np.exp(exponents - exponents.max(axis=0))  # of each cell up to a factor, which cancels
    uniform = np.full(len(points), 1 / len(points))
    density = _maximise(uniform, together[None, seen], likelihood, _POOLED_STEPS)[0]
    means = np.empty(S.shape, np.float32)
    for block in columns:
        own = place[cells[:, block]]
        table = _means_of_cells(density, _counts_of_cells(own, len(seen)), likelihood, points)
        means[:, block] = table[np.arange(own.shape[1]), own]
    return means


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
    table = unit * _means_of_cells(density, counts, np.stack([1 - plus, plus], axis=2), points)[:, 0]
    return np.where(positive, table[:, 1], table[:, 0]).astype(np.float32)
