"""Sign sketches: the exact losses of their bits, and calibration with a least norm."""

import warnings
from fractions import Fraction
from itertools import product
from math import prod

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sketches import (
    EVERY,
    KINDS,
    MARGIN,
    WHOLE,
    binomial_sketch,
    exact_losses,
    exact_losses_of_bits,
    offered,
    projection_matrix,
    wide,
)
from sklearn.base import clone
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.pipeline import make_pipeline

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, PublicScaler, iDPSignRP, privacy_report
from skdprp.guarantee import Adjacency, Definition, PrivacyWarning
from skdprp.mechanisms.randomised_response import randomised_response_profile, sign_change_probability
from skdprp.random_projection import make_projection
from skdprp.report._search import of_any_draw
from skdprp.testing import reproducible_noise


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
@pytest.mark.parametrize("projection", offered(DPSignRP))
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
    sketch.component_change_ = sketch._noise_of_fit["component_change_"] = sketch.component_change_ / MARGIN
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
    k, draws, beta = 16, 2000, 0.4
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
def test_almost_empty_projections_are_valid(seeded):
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


@pytest.mark.parametrize("min_norm", [0.5, 10.0])
def test_published_bound_needs_no_warning(min_norm):
    """Its bits meet the stated guarantee by the exact distribution: it is no mere claim."""
    options = {"method": "rr", "projection": "gaussian", "min_norm": min_norm, "delta": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        sketch = DPSignRP(16, calibration="published", **options).fit(np.ones((1, 100)))
    exact = DPSignRP(16, **options).fit(np.ones((1, 100)))
    assert not hasattr(sketch, "claimed_") and repr(sketch.guarantee_) == repr(exact.guarantee_)
    bits = {"n_bits": 16, "changed": sign_change_probability(1 / min_norm)}
    assert randomised_response_profile(1.0, epsilon0=sketch.flip_epsilon_, **bits) <= 1e-6


FLIPPED = [s for s in EVERY if isinstance(s, DPSignRP | DPSignOPORP)]


@pytest.mark.parametrize("sketch", FLIPPED, ids=repr)
def test_stated_probabilities_are_those_of_the_flips(sketch, pluses):
    """To the last bit of a float: what is drawn with is the integer."""
    X = np.random.default_rng(0).normal(size=(50, 9)) + 2
    sketch = clone(sketch).fit(X)
    stated = sketch.positive_probability(sketch.projection_.project(X))
    assert np.array_equal(stated, (pluses(sketch, X) / WHOLE).astype(float))


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


# Laplace flips


def spread_neighbours(beta, p, dtype, relation):
    """Return pairs of rows at distance beta: in one coordinate, or spread; across zero, from it or far away."""
    rng = np.random.default_rng(0)
    order = 1 if relation == "l1" else 2
    steps = np.vstack([np.eye(p), np.ones((1, p)), rng.normal(size=(40, p)), rng.normal(size=(40, p)) ** 9])
    steps *= 0.9999 * beta / np.linalg.norm(steps, order, axis=1)[:, None]
    starts = [np.zeros_like(steps), -steps / 2, beta * rng.integers(-3, 4, steps.shape), 5 * steps, 40 * steps]
    first = np.vstack(starts)
    second = first + np.tile(steps, (len(starts), 1))
    first, second = first.astype(dtype), second.astype(dtype)
    distance = np.linalg.norm(first.astype(np.longdouble) - second.astype(np.longdouble), order, axis=1)
    return first[distance <= beta], second[distance <= beta]


@wide
@pytest.mark.parametrize(
    ("k", "n_repeats", "dtype"), [(4, 1, np.float64), (4, 4, np.float32), (32, 1, np.float32), (32, 4, np.float64)]
)
@pytest.mark.parametrize(("relation", "epsilon"), [("l1", 0.01), ("l1", 2.0), ("l1", 30.0), ("l2", 0.1), ("l2", 8.0)])
def test_loss_of_laplace_flips_is_epsilon(pluses, relation, epsilon, k, n_repeats, dtype):
    """Wherever a change goes, the loss reaches epsilon, but for the margin of rounding, and no more."""
    beta = float(dtype(0.3))
    first, second = spread_neighbours(beta, 13, dtype, relation)
    sketch = DPSignOPORP(
        k, epsilon=epsilon, max_change=beta, adjacency=relation, n_repeats=n_repeats, random_state=0
    ).fit(first)
    # All bins to one side of zero, each by as much as its features: the worst of changes in l2.
    signs = np.sign(projection_matrix(sketch.projection_).sum(axis=1))
    worst = 0.9999 * beta * signs[None] / np.linalg.norm(signs, 1 if relation == "l1" else 2)
    first, second = np.vstack([first, 0 * worst]).astype(dtype), np.vstack([second, -worst]).astype(dtype)
    before = pluses(sketch, first)
    for stored in (second, sp.csr_array(second)):
        loss = exact_losses_of_bits(before, pluses(sketch, stored))
        assert loss <= epsilon
    if n_repeats == 1 or relation == "l1":
        assert loss >= min(epsilon, 16.0) * (1 - 2.0**-9)  # beyond the cap all signs are flipped alike
        assert len(first) > 300


@pytest.mark.parametrize("relation", ["l1", "l2"])
def test_levels_of_one_coordinate_do_not_cover_a_change_that_is_spread(pluses, relation):
    """Control: the same pairs find that the levels lose several times epsilon, as no guarantee of theirs denies."""
    first, second = spread_neighbours(1.0, 13, np.float64, relation)
    sketch = DPSignOPORP(8, epsilon=1.0, random_state=0).fit(first)
    assert exact_losses_of_bits(pluses(sketch, first), pluses(sketch, second)) > 2


@pytest.mark.parametrize("max_change", [0.1, 2.0, 1e6])
def test_laplace_flips_know_how_far_a_row_may_move(pluses, max_change):
    """Control: a fit for half the change loses twice epsilon, almost."""
    first, second = spread_neighbours(max_change, 13, np.float64, "l1")
    losses = []
    for change in (max_change, max_change / 2):
        sketch = DPSignOPORP(4, epsilon=1.0, max_change=change, adjacency="l1", random_state=0).fit(first)
        losses.append(exact_losses_of_bits(pluses(sketch, first), pluses(sketch, second)))
    assert 0.99 < losses[0] <= 1 < 1.99 < losses[1]


@pytest.mark.parametrize("k", [1, 5, 64])
@pytest.mark.parametrize("relation", ["coordinate", "l1", "l2"])
def test_bits_are_the_signs_of_laplace_noise(relation, k):
    """As often +1 as the numbers of DPOPORP are positive, whose scale is the same, but for their grid."""
    options = {"epsilon": 3.0, "max_change": 0.7, "random_state": 5}
    row = np.ones((1, 70))
    signs = DPSignOPORP(k, method="laplace", adjacency=relation, **options).fit(row)
    noisy = DPOPORP(k, noise="laplace", adjacency="l2" if relation == "l2" else "l1", **options).fit(row)
    assert signs.flip_scale_ == noisy.scale_
    x = np.linspace(-16, 16, 101)[:, None] * noisy.scale_
    assert np.allclose(signs.positive_probability(x), stats.laplace.cdf(x, scale=noisy.scale_), rtol=1e-11, atol=0)


def test_far_signs_are_still_flipped():
    """As often as at 16 scales, and not never."""
    sketch = DPSignOPORP(1, epsilon=1.0, adjacency="l1").fit(np.ones((1, 3)))
    assert np.isclose(sketch.positive_probability([[-np.inf], [-1e300], [-17.0]]), np.exp(-16) / 2, rtol=1e-11).all()


@pytest.mark.parametrize("method", ["smooth", "rr"])
@pytest.mark.parametrize("relation", ["l1", "l2"])
def test_levels_are_refused_where_a_change_may_spread(method, relation):
    with pytest.raises(ValueError, match=f"of one coordinate: a change in {relation} may reach all bits"):
        DPSignOPORP(4, method=method, adjacency=relation).fit(np.ones((1, 9)))


def test_fits_of_two_kinds_leave_no_attribute_of_each_other():
    sketch = DPSignOPORP(4, random_state=0).fit(np.ones((1, 9)))
    assert not hasattr(sketch, "flip_scale_")
    sketch.set_params(adjacency="l1").fit(np.ones((1, 9)))
    assert not hasattr(sketch, "flip_thresholds_") and not hasattr(sketch, "flip_epsilon_")
    assert sketch.guarantee_.adjacency == Adjacency("l1", 1.0) and sketch.guarantee_.profile(1.0) == 0


def test_an_epsilon_below_the_rounding_of_flips_is_refused():
    with pytest.raises(ValueError, match="too small"):
        DPSignOPORP(256, epsilon=1e-7, adjacency="l1").fit(np.ones((1, 300)))


@wide
@pytest.mark.parametrize("projection", offered(DPSignRP))
@pytest.mark.parametrize(("epsilon", "k"), [(0.01, 3), (4.0, 24)])
def test_loss_of_laplace_flips_of_projections_is_epsilon(pluses, projection, epsilon, k):
    """It is reached from zero along the feature whose row of W has the largest norm."""
    first, second = spread_neighbours(0.3, 13, np.float64, "l1")
    sketch = DPSignRP(
        k, epsilon=epsilon, max_change=0.3, method="laplace", projection=projection, density=0.4, random_state=1
    ).fit(first)
    assert sketch.guarantee_.delta == 0
    before = pluses(sketch, first)
    for stored in (second, sp.csr_array(second)):
        loss = exact_losses_of_bits(before, pluses(sketch, stored))
        assert loss <= epsilon
    # Of bits that move below zero the loss is all that they pay for; of those above, less.
    W = projection_matrix(sketch.projection_)
    row = W[np.abs(W).sum(axis=1).argmax()]
    below = max(row[row > 0].sum(), -row[row < 0].sum()) / np.abs(row).sum()
    assert loss >= below * epsilon * (1 - 2.0**-9)


def sparse_signs(**options):
    parameters = {"projection": "very_sparse", "density": 0.2, "random_state": 3} | options
    return DPSignRP(24, **parameters).fit(np.ones((1, 40)))


@wide
@pytest.mark.parametrize("method", ["smooth", "rr"])
@pytest.mark.parametrize("epsilon", [0.01, 2.0])
def test_a_coordinate_pays_for_the_bits_that_it_reaches(states, method, epsilon):
    """The largest number of nonzeros in a row of W: the loss is epsilon, and more where changes are spread."""
    sketch = sparse_signs(epsilon=epsilon, method=method, adjacency="coordinate")
    reached = int((projection_matrix(sketch.projection_) != 0).sum(axis=1).max())
    assert sketch.flip_epsilon_ == epsilon / reached and reached < 12
    assert sketch.guarantee_.adjacency == Adjacency("coordinate", 1.0)
    first, second = adversarial_neighbours(1.0, 40, np.float64, spread=False)
    units = np.eye(40) * 0.4999
    first, second = np.vstack([first, units]), np.vstack([second, -units])
    loss = exact_losses(states(sketch, first), states(sketch, second), sketch.flip_thresholds_)
    assert_tight(loss, sketch, epsilon, reached)
    u, v = opposite_neighbours(np.random.default_rng(0), 50, 40, 1.0, spread=True)
    assert exact_losses(states(sketch, u), states(sketch, v), sketch.flip_thresholds_) > 1.5 * epsilon


@pytest.mark.parametrize("kind", KINDS)
def test_no_feature_reaches_more_components_than_stated(kind):
    W = make_projection(kind, 60, 20, np.random.RandomState(0), density=0.1, n_repeats=1)
    most = int((projection_matrix(W) != 0).sum(axis=1).max())
    assert most == W.n_reached()
    reached = (projection_matrix(W) != 0).T
    for n in (2, 5, 60):
        some = [reached[:, np.random.default_rng(i).permutation(60)[:n]].any(axis=1).sum() for i in range(50)]
        assert max(some) <= W.n_reached(n) <= n * most
    assert W.n_reached(60) == reached.any(axis=1).sum()
    if kind != "identity":
        stacked = make_projection(kind, 60, 20, np.random.RandomState(0), density=0.1, n_repeats=2)
        assert (projection_matrix(stacked) != 0).sum(axis=1).max() <= stacked.n_reached() <= 2 * most + 4


def exact_delta(before, after, epsilon):
    """Sum the hockey-stick divergence over all outputs of two rows, in either order."""

    def one_way(u, v):
        total = mpmath.mpf(0)
        for signs in product([True, False], repeat=len(u)):
            p, q = (prod(int(w if s else WHOLE - w) for s, w in zip(signs, bits, strict=True)) for bits in (u, v))
            total += max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q) / WHOLE ** len(u)
        return total

    with mpmath.workdps(40):
        return max(one_way(before, after), one_way(after, before))


@wide
@pytest.mark.parametrize("delta", [1e-6, 0.01])
@pytest.mark.parametrize("options", [{}, {"method": "rr"}, {"method": "laplace"}, {"projection": "gaussian"}], ids=str)
def test_delta_of_projections_without_a_norm_is_exact_for_every_row(pluses, options, delta):
    """All eight bits may change their sign: delta is reached there, up to rounding, and passed by no other pair."""
    sketch = DPSignRP(8, epsilon=2.0, delta=delta, random_state=1, **options).fit(np.ones((1, 13)))
    first, second = spread_neighbours(1.0, 13, np.float64, "l1")
    few = np.random.default_rng(0).permutation(len(first))[:3]
    W = projection_matrix(sketch.projection_)
    step = np.linalg.lstsq(W.T, np.ones(8), rcond=None)[0]
    step *= 0.4999 / np.abs(step).sum()
    first, second = np.vstack([step, first[few]]), np.vstack([-step, second[few]])
    deltas = [exact_delta(*pair, 2.0) for pair in zip(pluses(sketch, first), pluses(sketch, second), strict=True)]
    assert max(deltas) <= delta
    assert sketch.guarantee_.delta == delta and sketch.guarantee_.profile(2.0) <= delta
    if options.get("method") != "laplace":
        assert deltas[0] >= delta * (1 - 1e-6)


def test_a_small_delta_allows_several_times_the_loss_of_a_bit():
    plain, with_delta = (DPSignRP(256, delta=delta).fit(np.ones((1, 1000))) for delta in (0.0, 1e-6))
    assert round(with_delta.flip_epsilon_ / plain.flip_epsilon_, 1) == 3.8
    laplace = [DPSignRP(256, delta=delta, method="laplace").fit(np.ones((1, 1000))) for delta in (0.0, 1e-6)]
    assert round(laplace[0].flip_scale_ / laplace[1].flip_scale_, 1) == 3.8


def test_laplace_flips_that_need_no_delta_use_none_and_state_what_holds_of_any_draw():
    """The l1 sensitivity of a Gaussian projection is far below its largest changes times their number."""
    plain, with_delta = (
        DPSignRP(64, delta=delta, method="laplace", projection="gaussian", random_state=0).fit(np.ones((1, 100)))
        for delta in (0.0, 1e-6)
    )
    assert plain.flip_scale_ == with_delta.flip_scale_
    assert with_delta.guarantee_.delta == 1e-6 and plain.guarantee_.delta == 0


@wide
@pytest.mark.parametrize(
    "sketch",
    [
        *EVERY,
        DPSignRP(16, projection="very_sparse", density=0.25, adjacency="coordinate"),
        DPSignRP(16, projection="very_sparse", density=0.25, adjacency="coordinate", delta=1e-3),
        DPSignRP(64, projection="very_sparse", method="laplace", delta=1e-6),
        DPRandomProjection(4, projection="very_sparse", density=0.25),
    ],
    ids=repr,
)
def test_what_is_stated_holds_of_any_draw_of_the_projection(sketch):
    """A report before a fit, or of folds, has one projection, and the fit draws another: it was stated of the first."""
    stated = []
    for seed in range(15):
        guarantee = clone(sketch).set_params(random_state=seed).fit(np.zeros((1, 6))).guarantee_
        loss = guarantee.loss
        if loss is None or loss.mu or loss.profiles:  # a projection of zeros loses nothing
            points = [share * guarantee.epsilon for share in (0.25, 0.5, 1.0, 1.5)]
            profile = [] if loss is None else [of_any_draw(guarantee).profile(point) for point in points]
            stated.append([guarantee.epsilon, guarantee.delta, *profile])
    assert len(stated) > 5
    np.testing.assert_allclose(stated, stated[:1] * len(stated), rtol=1e-5, atol=1e-15)


# What a release hides


def distance_of_laws(before, after):
    """Total variation distance of the bits of two rows, over all outputs."""
    outputs = np.array(list(product([True, False], repeat=len(before))))
    shares = (np.array(thresholds, dtype=float) / WHOLE for thresholds in (before, after))
    laws = [np.where(outputs, plus, 1 - plus).prod(axis=1) for plus in shares]
    return abs(laws[0] - laws[1]).sum() / 2


HIDING = [
    DPSignOPORP(6, epsilon=0.3),
    DPSignOPORP(6, epsilon=3.0, adjacency="l1"),
    DPSignOPORP(6, epsilon=0.5, adjacency="l2"),
    DPSignOPORP(6, epsilon=0.8, n_repeats=2),
    DPSignRP(6, epsilon=0.5),
    DPSignRP(6, epsilon=0.5, delta=0.05),
    DPSignRP(6, epsilon=0.9, method="laplace", projection="gaussian"),
    DPSignRP(6, epsilon=2.0, method="laplace", delta=0.01),
    DPSignRP(6, epsilon=0.9, projection="very_sparse", density=0.5, adjacency="coordinate"),
]


@pytest.mark.parametrize("sketch", HIDING, ids=repr)
def test_rows_within_what_is_hidden_are_no_further_apart_than_half(sketch, pluses):
    """The best guess between two rows is right with probability (1 + TV) / 2: 3/4 at a distance of 1/2."""
    sketch = clone(sketch).set_params(max_change=0.7, random_state=0).fit(np.ones((1, 13)))
    reach, relation = sketch.guarantee_.hides, sketch.guarantee_.adjacency.relation
    assert 0 < reach < 30
    if relation == "coordinate":
        steps = reach * np.eye(13)
        first = np.vstack([-steps / 2, 0 * steps, steps * 2])
        second = first + np.tile(steps, (3, 1))
    else:
        first, second = spread_neighbours(reach, 13, np.float64, relation)
        first, second = first[::23], second[::23]
    distances = [distance_of_laws(*pair) for pair in zip(pluses(sketch, first), pluses(sketch, second), strict=True)]
    assert 0.1 < max(distances) <= 0.5
    # Control: what it says is in the units of the rows.
    far = [distance_of_laws(*pair) for pair in zip(pluses(sketch, 6 * first), pluses(sketch, 6 * second), strict=True)]
    assert max(far) > 0.5


def test_randomised_response_hides_any_change_or_none(pluses):
    few, many = (
        DPSignRP(6, epsilon=epsilon, method="rr", random_state=0).fit(np.ones((1, 13))) for epsilon in (1.0, 9)
    )
    assert few.guarantee_.hides == np.inf and "hides       any change of rows as they" in str(few.guarantee_)
    assert many.guarantee_.hides == 0 and "hides       nothing for sure: the best guess may be" in str(many.guarantee_)
    rows = np.random.default_rng(0).normal(size=(2, 5, 13)) * 1e3
    assert max(map(distance_of_laws, *(pluses(few, side) for side in rows))) <= 0.5
    assert binomial_sketch().guarantee_.hides is None  # rows between two others may be shorter than assumed


REPEATED = DPSignOPORP(512, n_repeats=8, max_nonzeros=21)
SPARSE = DPSignRP(64, epsilon=50.0, projection="very_sparse", density=0.01, max_nonzeros=3)


@pytest.mark.parametrize(
    ("sketch", "reached", "enough"),
    [
        (DPSignOPORP(64, max_nonzeros=31), 31, {"max_nonzeros": 32}),
        (REPEATED, 168, {"n_repeats": 16}),
        (SPARSE, None, {"density": 0.9}),
        (clone(SPARSE).set_params(max_nonzeros=None, density=1e-5), None, {"density": 0.01}),
        (iDPSignRP(64, projection="oporp", max_nonzeros=9), 9, {"projection": "rademacher"}),
    ],
    ids=repr,
)
def test_bits_that_no_promised_nonzero_reaches_are_told(sketch, reached, enough):
    """From public numbers and no row; silent where enough nonzeros, or repetitions, would reach half of the bits."""
    k, n_nonzeros, messages = sketch.n_components, sketch.max_nonzeros, []
    sketch = clone(sketch).set_params(random_state=0)
    for X in (np.zeros((1, 1000)), np.random.default_rng(0).normal(size=(9, 1000))):
        with pytest.warns(DataDimensionalityWarning, match=f"of the {k} bits .* no nonzero reaches") as caught:
            sketch.fit(X)
        assert [warning.filename for warning in caught] == [__file__]
        messages.append(str(caught[0].message))
    assert messages[0] == messages[1]
    most = 1000 if n_nonzeros is None else n_nonzeros
    largest = np.sort((projection_matrix(sketch.projection_) != 0).sum(axis=1))[-most:].sum()
    stated = int(messages[0].split()[2])
    assert stated == reached if reached else min(largest, 1) <= stated < k / 2
    for quiet in (enough, {"max_nonzeros": None}) if n_nonzeros else (enough,):
        clone(sketch).set_params(**quiet).fit(X)
    stated = [clone(sketch).set_params(max_nonzeros=z).fit(X).guarantee_ for z in (500, 1000) if n_nonzeros]
    assert all(other == sketch.guarantee_ for other in stated)


def least_told(sketch, row):
    """Fit the sketch of the largest epsilon with which whole rows are hidden, as the warning has it."""

    def warns(epsilon):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted.append(clone(sketch).set_params(epsilon=epsilon).fit(row))
        return any("Rows are lost in the noise" in str(warning.message) for warning in caught)

    fitted, low, high = [], 1e-3, 1e3
    assert warns(low) and not warns(high)
    for _ in range(16):  # to one part in 5000
        middle = (low * high) ** 0.5
        low, high = (middle, high) if warns(middle) else (low, middle)
    return low


def distance_from_zeros(sketch, rows):
    """Total variation distance of what is released of each row, and of one of zeros: exact but for Laplace noise."""
    x = sketch.projection_.project(rows)
    if hasattr(sketch, "positive_probability"):
        outputs = np.array(list(product([False, True], repeat=x.shape[1])))
        laws = [np.where(outputs, plus, 1 - plus).prod(axis=1) for plus in sketch.positive_probability(x)]
        return np.abs(np.array(laws) - 0.5 ** x.shape[1]).sum(axis=1) / 2
    moved = np.abs(x) / (sketch.projection_.divisor * sketch.scale_)
    if sketch.noise == "gaussian":
        return 2 * stats.norm.cdf(np.linalg.norm(moved, axis=1) / 2) - 1
    assert moved.shape[1] == 1
    return 1 - np.exp(-moved[:, 0] / 2)


@wide
@pytest.mark.parametrize(
    "sketch",
    [
        *HIDING,
        DPSignOPORP(6, method="rr", n_repeats=2),
        DPSignRP(6, method="rr", projection="uniform"),
        DPSignRP(6, projection="gaussian"),
        DPOPORP(6),
        DPOPORP(6, adjacency="l2"),
        DPOPORP(1, noise="laplace"),
        DPRandomProjection(6),
        DPRandomProjection(6, projection="gaussian"),
        DPRandomProjection(6, projection="very_sparse", density=0.4),
        DPRandomProjection(projection="identity"),
    ],
    ids=repr,
)
def test_rows_that_are_hidden_as_a_whole_are_told(sketch):
    """Of rows that are as large as promised, over all signs of their numbers; and not only where all is lost by far."""
    sketch = clone(sketch).set_params(max_nonzeros=6, max_change=0.7, random_state=0)
    rows = np.zeros((64, 13))
    rows[:, :6] = 0.7 * np.array(list(product([-1, 1], repeat=6)))
    told = least_told(sketch, rows)
    hidden, twice, far = (
        distance_from_zeros(clone(sketch).set_params(epsilon=times * told, max_nonzeros=None).fit(rows), rows)
        for times in (1, 2, 6)
    )
    assert 0.15 < hidden.mean() <= 0.5 < far.mean()
    # Control: the bound is one of rows that are no larger.
    larger = distance_from_zeros(clone(sketch).set_params(epsilon=told, max_nonzeros=None).fit(rows), 6 * rows)
    assert larger.mean() > 0.5 or sketch.get_params().get("method") == "rr"
    assert hidden.mean() < twice.mean()


@pytest.mark.parametrize("sketch", [*EVERY, *HIDING], ids=repr)
def test_a_promise_that_rows_break_changes_nothing(sketch):
    rows = np.random.default_rng(0).normal(size=(20, 13)) + 2
    kept, broken = (clone(sketch).set_params(max_nonzeros=z, epsilon=50.0, random_state=0).fit(rows) for z in (13, 4))
    assert kept.guarantee_ == broken.guarantee_
    with reproducible_noise(0):
        released = kept.transform(rows)
    with reproducible_noise(0):
        assert np.array_equal(broken.transform(rows), released)
    with pytest.raises(ValueError, match="max_nonzeros"):
        clone(sketch).set_params(max_nonzeros=0).fit(rows)


def test_what_is_hidden_of_one_coordinate_is_no_more():
    """Rows that differ in all coordinates differ in most bits, by which anybody tells them apart."""
    guarantee = DPSignOPORP(256, method="rr", epsilon=1.0, random_state=0).fit(np.zeros((1, 1000))).guarantee_
    assert guarantee.hides == np.inf and "hides       any change of one coordinate of rows" in str(guarantee)
    report = privacy_report(make_pipeline(PublicScaler((0, 0.01)), DPOPORP(2)).fit(np.full((2, 4), 0.005)))
    text = " ".join(str(report.private).split())
    assert "of rows as they leave publicscaler: the best guess is right in at most 75 of 100 cases" in text


def test_where_no_row_is_one_of_zeros_none_is_said_to_be_lost():
    """A row of zeros would be refused, and so the best guess between it and another is always right."""
    options = {"projection": "gaussian", "delta": 1e-6, "max_change": 0.6, "epsilon": 0.3, "max_nonzeros": 5}
    DPSignRP(4, method="rr", min_norm=1.0, **options).fit(np.eye(9))
