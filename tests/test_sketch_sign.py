"""Sign sketches: the exact losses of their bits, and calibration with a least norm."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sketches import (
    DENSE,
    EVERY,
    MARGIN,
    WHOLE,
    binomial_sketch,
    exact_losses,
    probability_of_plus,
    projection_matrix,
    wide,
)
from sklearn.base import clone
from sklearn.exceptions import DataDimensionalityWarning

from skdprp import DPRandomProjection, DPSignOPORP, DPSignRP
from skdprp.guarantee import Adjacency, Definition
from skdprp.random_projection import make_projection


def neighbours_on_a_grid(rng, n, p, beta, dtype, *, spread):
    """Return pairs of rows of multiples of beta whose exact distance is at most beta."""
    counts = rng.integers(-4, 5, (n, p))
    moved = counts.astype(float)
    if spread:
        share = rng.dirichlet(np.ones(p), n) * rng.choice([-0.999, 0.999], (n, p))
        moved += share
    else:
        moved[np.arange(n), rng.integers(0, p, n)] += rng.choice([-1, 1], n)
    first, second = (beta * counts).astype(dtype), (beta * moved).astype(dtype)
    distance = np.abs(first.astype(np.longdouble) - second.astype(np.longdouble)).sum(axis=1)
    near = distance <= np.longdouble(beta)
    return first[near], second[near]


def opposite_neighbours(rng, n, p, beta, *, spread):
    """Return pairs u, -u at distance beta, which change every sign that a change can reach."""
    share = rng.dirichlet(np.ones(p), n) if spread else np.eye(p)[rng.integers(0, p, n)]
    u = 0.4999 * beta * share * rng.choice([-1, 1], (n, p))
    return u, -u


def adversarial_neighbours(beta, p, dtype, *, spread, seed=0):
    rng = np.random.default_rng(seed)
    zero = np.zeros((2, p)), np.array([np.eye(p)[0], np.eye(p)[-1]]) * beta
    near = np.full((1, p), 2 * beta), np.full((1, p), 2 * beta) - np.eye(p)[:1] * beta
    pairs = [
        zero,
        near,
        neighbours_on_a_grid(rng, 300, p, beta, dtype, spread=False),
        opposite_neighbours(rng, 10, p, beta, spread=spread),
    ]
    if spread:
        pairs.append(neighbours_on_a_grid(rng, 100, p, beta, dtype, spread=True))
    first, second = (np.vstack(side).astype(dtype) for side in zip(*pairs, strict=True))
    distance = np.abs(first.astype(np.longdouble) - second.astype(np.longdouble)).sum(axis=1)
    return first[distance <= beta], second[distance <= beta]


def assert_tight(loss, sketch, epsilon, n_bits):
    """The loss is at most epsilon, and would pass it with one part in 2**64 fewer flips (or 1e-6 of loss)."""
    assert loss <= Fraction(epsilon)
    least = float(sketch.flip_thresholds_[1])
    assert loss >= epsilon - max(1e-6, 2 * n_bits / least)


@wide
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("projection", [*DENSE, "very_sparse"])
@pytest.mark.parametrize(("method", "epsilon", "k"), [("smooth", 0.01, 3), ("smooth", 50.0, 24), ("rr", 5.0, 64)])
def test_loss_of_sign_projections_is_epsilon(states, projection, method, epsilon, k, dtype):
    """Over adversarial l1 neighbours the log-ratios of all bits together reach epsilon and never pass it.

    Nor where one of the two is sparse: dense projections round it in another way.
    """
    beta = float(dtype(0.1))
    first, second = adversarial_neighbours(beta, 12, dtype, spread=True)
    sketch = DPSignRP(k, epsilon=epsilon, max_change=beta, method=method, projection=projection, random_state=3)
    sketch.fit(first)
    reached = k - np.sum(~projection_matrix(sketch.projection_).any(axis=0))
    for stored in (second, sp.csr_array(second)):
        loss = exact_losses(states(sketch, first), states(sketch, stored), sketch.flip_thresholds_)
        assert_tight(loss, sketch, epsilon * reached / k if projection == "very_sparse" else epsilon, k)
        assert loss <= Fraction(epsilon)


@wide
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_repeats", [1, 4])
@pytest.mark.parametrize("k", [4, 32])
@pytest.mark.parametrize(("method", "epsilon"), [("smooth", 0.01), ("smooth", 2.0), ("rr", 1.0), ("smooth", 50.0)])
def test_loss_of_sign_oporp_is_epsilon(states, method, epsilon, k, n_repeats, dtype):
    """Over adversarial one-coordinate neighbours, with bins of padding or not, the loss reaches epsilon, no more."""
    beta = float(dtype(0.1))
    first, second = adversarial_neighbours(beta, 12, dtype, spread=False)
    sketch = DPSignOPORP(k, epsilon=epsilon, max_change=beta, method=method, n_repeats=n_repeats, random_state=0)
    sketch.fit(first)
    loss = exact_losses(states(sketch, first), states(sketch, second), sketch.flip_thresholds_)
    if epsilon / n_repeats < 40:
        assert_tight(loss, sketch, epsilon, n_repeats)
    else:  # the least probability of a flip is 2**-64, a loss of 44.4
        assert 44 < loss < epsilon


storages = pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sp.csr_array], ids=lambda f: f.__name__)


@storages
def test_loss_of_512_signs_is_epsilon(states, storage):
    """Two rows whose 1024 entries all differ, by max_change in all, change each of 512 signs: epsilon / 512 a sign."""
    first, second = opposite_neighbours(np.random.default_rng(0), 3, 1024, 1.0, spread=True)
    sketch = DPSignRP(512, random_state=0).fit(first)
    before, after = states(sketch, storage(first)), states(sketch, storage(second))
    assert (before == -after).all() and (abs(before) == 1).all()
    assert_tight(exact_losses(before, after, sketch.flip_thresholds_), sketch, 1.0, 512)


def rows_on_edges(sketch, n_features, rng):
    """Return a row of no zero that lies, to the last bit, on the edge between two levels in every bin, and its bins.

    In the first two bins all but one entry cancel.
    """
    W = projection_matrix(sketch.projection_)
    bins = np.nonzero(W.T)[1].reshape(sketch.n_components, -1)
    signs = W[bins, np.arange(len(bins))[:, None]]
    terms = rng.uniform(-1, 1, bins.shape)
    edges = rng.integers(1, 5, len(bins)) * sketch.component_change_
    terms[:, -1] = edges - terms[:, :-1].sum(axis=1)
    terms[:2] = [0.4999, *[0.3, -0.3] * ((bins.shape[1] - 1) // 2)]
    row = np.empty(n_features)
    row[bins] = signs * terms
    return row, bins


@storages
def test_loss_of_512_bins_is_epsilon(states, storage):
    """One coordinate moves one bin, wherever its row lies and though the others are on the edge of a level."""
    rng, p = np.random.default_rng(0), 512 * 7
    sketch = DPSignOPORP(512, random_state=0).fit(np.ones((1, p)))
    row, bins = rows_on_edges(sketch, p, rng)
    moved = [bins[0, 0], *rng.choice(bins[2:].ravel(), 40, replace=False)]
    first, second = np.tile(row, (len(moved), 1)), np.tile(row, (len(moved), 1))
    second[np.arange(len(moved)), moved] -= np.copysign(0.9998, row[moved])
    before, after = states(sketch, storage(first)), states(sketch, storage(second[::-1]))[::-1]
    assert_tight(exact_losses(before, after, sketch.flip_thresholds_), sketch, 1.0, 1)
    second[0, bins[1, 0]] *= -1  # control: a second bin that differs is counted
    both = states(sketch, storage(second[:1]))
    assert exact_losses(before[:1], both, sketch.flip_thresholds_) > 1


def test_levels_on_a_grid_need_the_margin(states):
    """On thousands of pairs on multiples of 0.1, levels move by at most one; without the margin, some move by two."""
    rng = np.random.default_rng(1)
    first, second = neighbours_on_a_grid(rng, 20_000, 8, 0.1, np.float64, spread=False)
    sketch = DPSignOPORP(2, epsilon=1.0, max_change=0.1, random_state=0).fit(first)
    assert np.abs(np.abs(states(sketch, first)) - np.abs(states(sketch, second))).max() == 1
    sketch.component_change_ = sketch.component_change_ / MARGIN
    before, after = states(sketch, first), states(sketch, second)
    jumps = np.abs(np.abs(before) - np.abs(after)).max(axis=1) == 2
    assert jumps.any()
    assert exact_losses(before[jumps], after[jumps], sketch.flip_thresholds_) > 1


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.01, 0.3, 1.0, 7.7, 11.9, 12.3, 15.9, 16.0, 30.0, 44.0])
def test_thresholds_of_every_level_are_on_the_private_side(epsilon):
    """Neighbouring levels, and opposite signs at level 1, have a log-ratio of at most epsilon."""
    sketch = DPSignOPORP(1, epsilon=epsilon).fit(np.ones((1, 4)))
    top = min(len(sketch.flip_thresholds_) - 1, 2000)
    states = np.arange(-1, top + 1)[:, None]
    levels, signs = states[2:], np.array([[-1], [1]])
    for before, after in ((levels[:-1], levels[1:]), (states[1:2], states[2:3]), (signs[:1], signs[1:])):
        losses = [exact_losses(a[None], b[None], sketch.flip_thresholds_) for a, b in zip(before, after, strict=True)]
        assert all(loss <= Fraction(epsilon) for loss in losses)


def test_min_norm_needs_far_fewer_flips():
    """eps/k, the published bound and the exact distribution give .0039, .0083 and .078 for one bit."""
    plain = DPSignRP(256).fit(np.ones((1, 1000)))
    published, exact = binomial_sketch(calibration="published"), binomial_sketch()
    assert [round(s.flip_epsilon_, 4) for s in (plain, published)] == [0.0039, 0.0083]
    assert round(exact.flip_epsilon_, 3) == 0.078
    assert (exact.guarantee_.epsilon, exact.guarantee_.delta, exact.guarantee_.per) == (1.0, 1e-6, "transform")
    assert exact.guarantee_.definition is Definition.DP and exact.guarantee_.adjacency == Adjacency("l1", 0.1)


def test_binomial_calibration_is_exact():
    """The mixture over a binomial number of differing signs meets delta; with one part per million more it does not."""
    q, k, loss = 2 / np.pi * np.arcsin(0.05), 256, binomial_sketch().flip_epsilon_
    q += 0.4 * 2.0**-16 * 8.3 * 0.1  # signs that rounding may change

    def profile(loss):
        n = np.arange(k + 1)[:, None]
        kept = np.arange(k + 1)[None, :]
        share = stats.binom.pmf(kept, n, 1 / (1 + np.exp(-loss)))
        hockey_stick = share * np.maximum(0, -np.expm1(1.0 - loss * (2 * kept - n)))
        return stats.binom.pmf(n[:, 0], k, q) @ hockey_stick.sum(axis=1)

    assert profile(loss * (1 - 1e-6)) < 1e-6 < profile(loss * (1 + 1e-6))


def test_number_of_differing_signs_is_binomial():
    """Over draws of a Gaussian W, the signs of two rows at their largest angle differ Binomial(k, q) times."""
    k, draws, beta = 16, 4000, 0.4
    angle = 2 * np.arcsin(beta / 2)
    pair = np.zeros((2, 5))
    pair[:, :2] = [[1, 0], [np.cos(angle), np.sin(angle)]]
    rng = np.random.RandomState(0)
    signs = [make_projection("gaussian", 5, k, rng).project(pair) > 0 for _ in range(draws)]
    count = np.bincount([(a != b).sum() for a, b in signs], minlength=k + 1)
    expected = draws * stats.binom.pmf(np.arange(k + 1), k, angle / np.pi)
    cells = np.minimum(np.arange(k + 1), 6)
    observed, expected = np.bincount(cells, count), np.bincount(cells, expected)
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_delta_that_covers_every_differing_sign_needs_no_flips():
    """When two neighbours differ with probability below delta, a bit is flipped with probability 2**-64 at most."""
    sketch = DPSignRP(
        16, method="rr", projection="gaussian", delta=1e-4, min_norm=1.0, max_change=1e-6, random_state=0
    ).fit(np.ones((1, 20)))
    assert 1 - (1 - 1e-6 / np.pi) ** 16 < 1e-4
    assert sketch.flip_thresholds_[1] == 1


def test_min_norm_counts_what_duplicates_sum_to():
    """Entries of one column that cancel do not lift a sparse row over min_norm; entries that add up do."""
    cancel = sp.csr_array(([3.0, -3.0], [0, 0], [0, 2]), shape=(1, 1000))
    add_up = sp.csr_array(([0.6, 0.6], [0, 0], [0, 2]), shape=(1, 1000))
    sketch = binomial_sketch()
    with pytest.raises(ValueError, match="below min_norm"):
        sketch.transform(cancel)
    assert sketch.transform(add_up).shape == (1, 256)
    assert cancel.nnz == add_up.nnz == 2


@pytest.mark.parametrize("sketch", [s for s in EVERY if "Sign" in type(s).__name__], ids=repr)
@pytest.mark.parametrize("k", [4, 8, 13])
@wide
def test_packed_bits_are_the_signs(sketch, k, silenced_noise):
    """Packed output is numpy.packbits of the positive signs."""
    X = np.random.default_rng(0).normal(size=(20, 9)) + 2
    options = {"n_components": k} | ({"n_repeats": 1} if "n_repeats" in sketch.get_params() else {})
    signs = clone(sketch).set_params(**options).fit_transform(X)
    packed = clone(sketch).set_params(**options, output="packed").fit_transform(X)
    assert signs.dtype == np.int8
    assert set(np.unique(signs)) <= {-1, 1}
    assert packed.dtype == np.uint8
    assert np.array_equal(packed, np.packbits(signs > 0, axis=1))


@wide
def test_almost_empty_projections_are_valid():
    """A very sparse projection with no nonzero entry, or with empty columns, releases fair coins and zeros."""
    X = np.ones((4000, 50))
    empty = DPRandomProjection(4, projection="very_sparse", density=1e-18, random_state=0).fit(X)
    assert empty.projection_.matrix.nnz == 0
    assert not empty.transform(X).any()
    sketch = DPSignRP(64, projection="very_sparse", epsilon=1e4, random_state=0).fit(X[:, :3])
    reached = sketch.projection_.column_max() > 0
    assert 0 < np.sum(~reached) < 64
    plus = np.mean(sketch.transform(X[:, :3]) == 1, axis=0)
    assert np.all(stats.norm.sf(np.abs(plus[~reached] - 0.5) * 2 * np.sqrt(4000)) > 1e-6)


def test_published_bound_on_short_rows_is_no_licence():
    """Where N_+ is too small, the exact calibration is used."""
    options = {"method": "rr", "projection": "gaussian", "min_norm": 0.5, "delta": 1e-6, "epsilon": 1000.0}
    with pytest.warns(DataDimensionalityWarning):
        published = DPSignRP(400, calibration="published", **options).fit(np.ones((1, 1)))
        exact = DPSignRP(400, **options).fit(np.ones((1, 1)))
    assert published.flip_epsilon_ == exact.flip_epsilon_


FLIPPED = [s for s in EVERY if isinstance(s, DPSignRP | DPSignOPORP)]


@pytest.mark.parametrize("sketch", FLIPPED, ids=repr)
def test_stated_probabilities_are_those_of_the_levels(sketch, states):
    """To the last bit of a float: what is drawn with is the integer."""
    X = np.random.default_rng(0).normal(size=(50, 9)) + 2
    sketch = clone(sketch).fit(X)
    stated = sketch.positive_probability(sketch.projection_.project(X))
    exact = [[probability_of_plus(int(s), sketch.flip_thresholds_) / WHOLE for s in row] for row in states(sketch, X)]
    assert np.array_equal(stated, exact)


@pytest.mark.parametrize("sketch", FLIPPED, ids=repr)
def test_bits_are_positive_as_often_as_stated(sketch):
    row = np.linspace(-2.0, 3.0, 9)[None, :]
    sketch = clone(sketch).set_params(epsilon=6.0).fit(row)
    plus = (sketch.transform(np.repeat(row, 20_000, axis=0)) == 1).mean(axis=0)
    stated = sketch.positive_probability(sketch.projection_.project(row))[0]
    # Bernstein's inequality: further off at most once in 1e11.
    assert (np.abs(plus - stated) < np.sqrt(2 * 27 * stated * (1 - stated) / 20_000) + 27 / 20_000).all()


def test_probability_of_a_projection_takes_any_shape_but_nan():
    sketch = DPSignOPORP(4, epsilon=2.0, random_state=0).fit(np.ones((1, 9)))
    grid = np.array([[-np.inf], [-1.0], [0.0], [1.0], [1e300]])
    assert sketch.positive_probability(grid).shape == (5, 4)
    assert (sketch.positive_probability(0.0) == 0.5).all() and (grid[1] == -1.0).all()
    assert np.allclose(sketch.positive_probability(grid) + sketch.positive_probability(-grid), 1, rtol=0, atol=2.0**-52)
    with pytest.raises(ValueError, match="NaN"):
        sketch.positive_probability([np.nan])
    with pytest.raises(ValueError, match="shape"):
        sketch.positive_probability(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="fit again"):
        sketch.set_params(epsilon=3.0).positive_probability(grid)
