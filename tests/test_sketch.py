"""The sketches: what they compute, what they promise, and what they refuse."""

import pickle
import tracemalloc
import warnings
from fractions import Fraction
from functools import cache

import joblib
import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import DataDimensionalityWarning, NotFittedError

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, _noise, iDPSignRP, reproducible_noise
from skdprp.accounting import gaussian_profile
from skdprp.mechanisms import flip_thresholds, gaussian_scale
from skdprp.random_projection import make_projection
from skdprp.sketch import _base

wide = pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
SLACK = 1 + 2.0**-10
WHOLE = 2**64
DENSE = ["rademacher", "gaussian", "uniform"]
EVERY = [
    DPRandomProjection(4, random_state=0),
    DPRandomProjection(4, projection="gaussian", noise="laplace", random_state=0),
    DPOPORP(4, random_state=0),
    DPSignRP(4, random_state=0),
    DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=1.0, max_change=0.1, random_state=0),
    DPSignOPORP(4, random_state=0),
    DPSignOPORP(4, method="rr", n_repeats=2, random_state=0),
    iDPSignRP(4, random_state=0),
    iDPSignRP(4, method="rr", projection="oporp", random_state=0),
]
every = pytest.mark.parametrize("sketch", EVERY, ids=repr)


def projection_matrix(projection):
    """W whole, by multiplying the identity."""
    return projection.project(np.eye(projection.n_features))


# Exact losses of sign sketches


@pytest.fixture
def states(monkeypatch):
    """Return a function that gives, for each released bit, its sign times its level, as `flip` receives them."""
    seen = []

    def keep(levels, thresholds):
        seen.append(levels.astype(np.int64))
        return np.zeros(levels.shape, dtype=bool)

    monkeypatch.setattr(_noise, "flip", keep)

    def states(sketch, X):
        seen.clear()
        signs = sketch.transform(X)
        return signs * np.vstack(seen)

    return states


def probability_of_plus(state, thresholds):
    """Out of 2**64, for a bit of the given sign times level."""
    flipped = int(thresholds[abs(state)])
    return WHOLE - flipped if state > 0 else flipped


def exact_losses(before, after, thresholds):
    """Twice 2**-100 of the worst log-ratio of each pair of rows, as Python integers rounded up."""

    @cache
    def loss(a, b):
        p, q = probability_of_plus(a, thresholds), probability_of_plus(b, thresholds)
        with mpmath.workdps(50):
            worst = max(mpmath.log(mpmath.mpf(p) / q), mpmath.log(mpmath.mpf(WHOLE - p) / (WHOLE - q)))
            return int(mpmath.ceil(worst * 2**100))

    def total(first, second):
        return max(
            sum(loss(int(a), int(b)) for a, b in zip(u[u != v], v[u != v], strict=True))
            for u, v in zip(first, second, strict=True)
        )

    return Fraction(max(total(before, after), total(after, before)), 2**100)


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
    """Over adversarial l1 neighbours the log-ratios of all bits together reach epsilon and never pass it."""
    beta = float(dtype(0.1))
    first, second = adversarial_neighbours(beta, 12, dtype, spread=True)
    sketch = DPSignRP(k, epsilon=epsilon, max_change=beta, method=method, projection=projection, random_state=3)
    sketch.fit(first)
    loss = exact_losses(states(sketch, first), states(sketch, second), sketch.flip_thresholds_)
    reached = k - np.sum(~projection_matrix(sketch.projection_).any(axis=0))
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


@pytest.mark.parametrize("sketch", [DPSignRP(512, random_state=0), DPSignOPORP(512, random_state=0)], ids=repr)
def test_loss_of_512_bits_is_epsilon(states, sketch):
    """With 512 bits the losses still sum to epsilon, for dense and for sparse rows."""
    rng = np.random.default_rng(0)
    first, second = (sp.csr_array(side) for side in opposite_neighbours(rng, 3, 1024, 1.0, spread=False))
    sketch = clone(sketch).fit(first)
    loss = exact_losses(states(sketch, first), states(sketch, second), sketch.flip_thresholds_)
    assert_tight(loss, sketch, 1.0, 512)


def test_levels_on_a_grid_need_the_slack(states):
    """On thousands of pairs on multiples of 0.1, levels move by at most one; without the slack, some move by two."""
    rng = np.random.default_rng(1)
    first, second = neighbours_on_a_grid(rng, 20_000, 8, 0.1, np.float64, spread=False)
    sketch = DPSignOPORP(2, epsilon=1.0, max_change=0.1, random_state=0).fit(first)
    assert np.abs(np.abs(states(sketch, first)) - np.abs(states(sketch, second))).max() == 1
    sketch.component_change_ = sketch.component_change_ / SLACK
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


def test_a_row_does_not_touch_the_projection_of_another(monkeypatch):
    """A change of one sparse row leaves the projection of every other row as it was, to the last bit."""
    monkeypatch.setattr("skdprp.random_projection._CACHED_ENTRIES", 1)
    monkeypatch.setattr("skdprp.random_projection._BLOCK_ENTRIES", 64)
    rng = np.random.default_rng(0)
    first = sp.lil_array(np.vstack([rng.normal(size=(20, 400)), np.zeros(400)]) * (rng.random((21, 400)) < 0.5))
    second = first.copy()
    first[20, 0], second[20, 0] = 1.0, 0.0
    for row in range(20):
        first[row, 0] = second[row, 0] = 0.0
    for kind in DENSE:
        W = make_projection(kind, 400, 8, np.random.RandomState(0))
        assert np.array_equal(W.project(first.tocsr())[:20], W.project(second.tocsr())[:20])


# Calibration with a least norm


def binomial_sketch(**options):
    parameters = {"method": "rr", "projection": "gaussian", "delta": 1e-6, "min_norm": 1.0, "max_change": 0.1}
    return DPSignRP(256, **(parameters | options)).fit(np.ones((1, 1000)))


def test_min_norm_needs_far_fewer_flips():
    """eps/k, the published bound and the exact law give .0039, .0083 and .078 for one bit."""
    plain = DPSignRP(256).fit(np.ones((1, 1000)))
    published, exact = binomial_sketch(calibration="published"), binomial_sketch()
    assert [round(s.flip_epsilon_, 4) for s in (plain, published)] == [0.0039, 0.0083]
    assert round(exact.flip_epsilon_, 3) == 0.078
    assert repr(exact.guarantee_) == "(1.0, 1e-06)-DP"


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


# Individual DP


@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "oporp"])
def test_individual_randomised_response_is_exact(states, projection):
    """With A and N held as they are for u, no l1 (oporp: one-coordinate) neighbour has a loss above epsilon."""
    rng = np.random.default_rng(0)
    k, p, beta, epsilon = 16, 32, 0.5, 1.0
    sketch = iDPSignRP(k, epsilon=epsilon, max_change=beta, method="rr", projection=projection, random_state=0).fit(
        np.ones((1, p))
    )
    W, c = projection_matrix(sketch.projection_), sketch.component_change_
    worst = 0
    for _ in range(200):
        u = rng.normal(size=p) * rng.choice([0.01, 0.1, 1.0])
        step = np.eye(p)[rng.integers(p)] if projection == "oporp" or rng.random() < 0.5 else rng.dirichlet(np.ones(p))
        x, y = u @ W, (u + beta * rng.choice([-1, 1]) * step) @ W
        held = np.abs(x) <= c
        state = states(sketch, u[None])
        assert np.array_equal(np.abs(state[0]), np.where(held, held.sum(), 0))
        differ = (x > 0) != (y > 0)
        assert not np.any(differ & ~held)
        if held.any():
            t = int(sketch.flip_thresholds_[held.sum()])
            loss = differ.sum() * mpmath.log(mpmath.mpf(WHOLE - t) / t)
            assert loss <= epsilon
            worst = max(worst, loss)
    assert worst > 0.4 * epsilon


@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "oporp"])
def test_individual_gaussian_noise_covers_the_realised_shift(monkeypatch, projection):
    """With A and the noise held, the shift inside A over the noise released stays at the calibrated ratio or below."""
    drawn = []

    def ones(values, scale):
        drawn.append(scale)
        values += scale

    monkeypatch.setattr(_noise, "add_gaussian", ones)
    rng = np.random.default_rng(0)
    k, p, beta, epsilon, delta = 16, 32, 0.5, 1.0, 1e-3
    options = {"epsilon": epsilon, "delta": delta, "max_change": beta, "projection": projection, "random_state": 0}
    sketch = iDPSignRP(k, **options).fit(np.ones((1, p)))
    W, c = projection_matrix(sketch.projection_), sketch.component_change_
    worst = 0.0
    for _ in range(300):
        u = rng.normal(size=p) * rng.choice([0.01, 0.1, 1.0])
        step = np.eye(p)[rng.integers(p)] if rng.random() < 0.5 else rng.dirichlet(np.ones(p))
        x, y = u @ W, (u + beta * rng.choice([-1, 1]) * step) @ W
        held = np.abs(x) <= c
        assert np.array_equal((x > 0)[~held], (y > 0)[~held])
        if held.any():
            sigma = sketch.scale_ * min(np.sqrt(np.sum(c[held] ** 2)), beta * np.linalg.norm(W, axis=1).max() * SLACK)
            assert np.array_equal(sketch.transform(u[None])[0] > 0, np.where(held, x + sigma > 0, x > 0))
            shift = np.linalg.norm((x - y)[held])
            assert gaussian_profile(epsilon, scale=sigma, sensitivity=shift) <= delta
            worst = max(worst, shift / sigma * sketch.scale_)
    assert 0.9 < worst <= 1
    assert set(drawn) == {sketch.scale_}


def test_individual_dp_is_not_dp():
    """A released sign that one row excludes is possible for its neighbour: no finite loss covers the pair."""
    sketch = iDPSignRP(1, epsilon=1.0, max_change=0.5, method="rr", random_state=0).fit(np.ones((1, 1)))
    sign = projection_matrix(sketch.projection_)[0, 0]
    far, near = (np.full((20_000, 1), sign * value) for value in (0.75, 0.40))
    assert np.all(sketch.transform(far) == 1)
    minus = np.sum(sketch.transform(near) == -1)
    assert stats.binomtest(int(minus), 20_000, 1 / (1 + np.e)).pvalue > 1e-6


@pytest.mark.parametrize("method", ["gaussian", "rr"])
def test_signs_that_no_change_can_flip_are_released(method):
    """Where N = 0, and outside A in general, the release is the sign of the projection."""
    X = 100 * np.random.default_rng(0).normal(size=(50, 30))
    sketch = iDPSignRP(8, method=method, max_change=0.01, random_state=0).fit(X)
    x = sketch.projection_.project(X)
    far = np.abs(x) > sketch.component_change_
    assert far.all(axis=1).any()
    assert np.array_equal(sketch.transform(X)[far] == 1, x[far] > 0)


@pytest.mark.parametrize("method", ["gaussian", "rr"])
def test_individual_guarantee_prints_under_its_own_name(method):
    """The guarantee names individual DP, held parameters, and says that it is not DP and does not compose."""
    guarantee = iDPSignRP(2, method=method).fit(np.ones((1, 3))).guarantee_
    assert guarantee.definition == "individual DP"
    assert repr(guarantee).endswith("-individual DP")
    for phrase in ("held fixed", "not differential privacy", "does not compose"):
        assert phrase in str(guarantee)


# Additive sketches


ADDITIVE = [
    *[DPRandomProjection(6, projection=kind, random_state=0) for kind in [*DENSE, "very_sparse", "identity"]],
    DPOPORP(6, random_state=0),
    DPOPORP(5, noise="laplace", adjacency="l2", random_state=0),
]


@pytest.mark.parametrize("sketch", ADDITIVE, ids=repr)
def test_without_noise_a_sketch_is_its_projection(sketch, silenced_noise):
    """Dense, CSR, CSC, duplicated and read-only X all give X @ W / divisor, of the float type of X."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (7, 13)) * (rng.random((7, 13)) < 0.5) / 8
    sketch = clone(sketch).fit(X)
    expected = X @ projection_matrix(sketch.projection_) / sketch.projection_.divisor
    frozen = X.copy()
    frozen.setflags(write=False)
    halves = sp.coo_array(X)
    doubled = sp.csr_array(
        (np.tile(halves.data / 2, 2), (np.tile(halves.coords[0], 2), np.tile(halves.coords[1], 2))), shape=X.shape
    )
    for same in (X, frozen, np.asfortranarray(X), X[::-1][::-1], sp.csr_array(X), sp.csc_array(X), doubled):
        assert np.allclose(sketch.transform(same), expected, rtol=1e-12, atol=1e-12)
    single = sketch.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert np.allclose(single, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sketch", EVERY, ids=repr)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.longdouble])
def test_other_numbers_are_read_as_float64(sketch, dtype, silenced_noise):
    """Booleans, integers, half and extended precision give the sketch of the same numbers in float64."""
    X = np.random.default_rng(0).integers(0, 2, (5, 9))
    X[:, 0] = 1
    sketch = clone(sketch).fit(X)
    assert np.array_equal(sketch.transform(X.astype(dtype)), sketch.transform(X.astype(np.float64)))


@pytest.mark.parametrize("adjacency", ["l1", "l2"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-6), (8.0, 1e-9)])
@pytest.mark.parametrize("estimator", [DPRandomProjection, DPOPORP])
def test_gaussian_scale_is_exact_for_an_independent_accountant(estimator, epsilon, delta, adjacency):
    """dp_accounting finds delta met at scale_, slack included, and not met at 0.9999 of it."""
    sketch = estimator(4, epsilon=epsilon, delta=delta, adjacency=adjacency, random_state=0).fit(np.ones((1, 20)))

    def delta_of(scale):
        accountant = PLDAccountant(value_discretization_interval=1e-4)
        accountant.compose(GaussianDpEvent(scale / (sketch.sensitivity_ * SLACK)))
        return accountant.get_delta(epsilon)

    def exact(scale):
        with mpmath.workdps(50):
            mu = mpmath.mpf(sketch.sensitivity_ * SLACK) / scale
            upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            return mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower)

    assert exact(sketch.scale_ * (1 + 1e-9)) <= delta < exact(0.999999 * sketch.scale_)
    assert delta_of(1.001 * sketch.scale_) <= delta < delta_of(0.999 * sketch.scale_)


@pytest.mark.parametrize("epsilon", [1e-20, 1e-12, 1e-4, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("delta", [1e-100, 1e-18, 1e-9, 0.1, 0.9])
def test_gaussian_scale_is_exact_at_the_extremes(epsilon, delta):
    """At tiny and huge epsilon and delta the noise still meets its target, and a little less does not."""
    calibrated = gaussian_scale(epsilon, delta)

    def exact(scale):
        with mpmath.workdps(400):
            mu = 1 / mpmath.mpf(float(scale))
            upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            return mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower)

    assert exact(calibrated * (1 + 1e-11)) <= delta < exact(calibrated * (1 - 1e-8))


def test_laplace_scale_is_exact():
    """scale_ times epsilon, less the loss of sampling, is the l1 sensitivity with its slack."""
    sketch = DPRandomProjection(9, noise="laplace", epsilon=0.3, max_change=2.0).fit(np.ones((1, 20)))
    assert sketch.sensitivity_ == 2.0 * 3.0
    epsilon = 0.3 - 2 * 9 * 2.0**-31
    assert Fraction(sketch.scale_) * Fraction(epsilon) >= Fraction(6.0) * Fraction(SLACK)
    assert sketch.scale_ * epsilon == pytest.approx(6.0 * SLACK, rel=1e-15)


@pytest.mark.parametrize("estimator", [DPRandomProjection, DPOPORP])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_has_the_printed_scale(estimator, noise):
    """Released minus projected is noise of law scale_: chi-square goodness of fit over 50 cells."""
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    sketch = estimator(8, noise=noise, random_state=0).fit(X)
    residual = sketch.transform(X) - sketch.projection_.project(X) / sketch.projection_.divisor
    law = stats.norm if noise == "gaussian" else stats.laplace
    cells = np.bincount((50 * law.cdf(residual.ravel() / sketch.scale_)).astype(int), minlength=50)
    assert stats.chisquare(cells).pvalue > 1e-6
    wrong = np.bincount((50 * law.cdf(1.05 * residual.ravel() / sketch.scale_)).astype(int), minlength=50)
    assert stats.chisquare(wrong).pvalue < 1e-6


def test_published_calibrations_have_their_formulas():
    """Kenthapadi, the a-priori bound and the classic formula, as printed, with the slack of the sensitivity."""
    X, epsilon, delta, p, k = np.ones((1, 100)), 0.5, 1e-5, 100, 16
    gaussian = {"projection": "gaussian", "epsilon": epsilon, "delta": delta, "random_state": 0}
    kenthapadi = DPRandomProjection(k, calibration="kenthapadi", **gaussian).fit(X)
    W = projection_matrix(kenthapadi.projection_)
    assert kenthapadi.sensitivity_ == pytest.approx(np.linalg.norm(W, axis=1).max() / 4, rel=1e-9)
    factor = np.sqrt(2 * (np.log(1 / (2 * delta)) + epsilon)) / epsilon
    assert kenthapadi.scale_ == pytest.approx(kenthapadi.sensitivity_ * SLACK * factor, rel=1e-12)
    bound = DPRandomProjection(k, calibration="kenthapadi_bound", max_change=3.0, **gaussian).fit(X)
    tail = np.log(2 * p / delta) / k
    factor = np.sqrt(1 + 2 * np.sqrt(tail) + 2 * tail) * np.sqrt(2 * (np.log(1 / delta) + epsilon)) / epsilon
    factor *= 1 + 16 * 2.0**-30 / epsilon  # the loss of sampling 16 values
    assert bound.scale_ == pytest.approx(3.0 * SLACK * factor, rel=2e-9)
    classic = DPOPORP(k, calibration="classic", epsilon=epsilon, delta=delta).fit(X)
    assert classic.scale_ == pytest.approx(SLACK * np.sqrt(2 * np.log(1.25 / delta)) / epsilon, rel=1e-12)


VARIANTS = {
    "Raw-data-G-OPT": DPRandomProjection(projection="identity"),
    "DP-RP-G": DPRandomProjection(8, projection="gaussian", calibration="kenthapadi"),
    "Analytic DP-RP-G": DPRandomProjection(8, projection="gaussian", calibration="kenthapadi_bound"),
    "DP-RP-G-OPT": DPRandomProjection(8, projection="gaussian"),
    "DP-RP-G-OPT-B": DPRandomProjection(8),
    "DP-RP-L": DPRandomProjection(8, projection="gaussian", noise="laplace"),
    "DP-OPORP": DPOPORP(8),
    "DP-SignRP-RR": DPSignRP(8, method="rr"),
    "DP-SignRP-RR, least norm": DPSignRP(8, method="rr", projection="gaussian", min_norm=1.0, delta=1e-6),
    "DP-SignRP-RR-smooth": DPSignRP(8),
    "DP-SignOPORP-RR": DPSignOPORP(8, method="rr"),
    "DP-SignOPORP-RR-smooth": DPSignOPORP(8),
    "DP-SignOPORP-RR-smooth, repeated": DPSignOPORP(8, n_repeats=4),
    "iDP-SignRP-G": iDPSignRP(8),
    "iDP-SignRP-RR": iDPSignRP(8, method="rr"),
    "iDP-SignOPORP-G": iDPSignRP(8, projection="oporp"),
    "iDP-SignOPORP-RR": iDPSignRP(8, method="rr", projection="oporp"),
}
PURE = {"DP-RP-L", *(name for name in VARIANTS if "RR" in name and "least" not in name)}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_published_variant_prints_its_own_guarantee(name):
    """Each named variant is one call away, and prints epsilon, delta, unit, adjacency, release and assumptions."""
    X = np.full((3, 16), 0.5)
    sketch = clone(VARIANTS[name]).fit(X)
    assert sketch.transform(X).shape == (3, 16 if name.startswith("Raw") else 8)
    guarantee = sketch.guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 0.0 if name in PURE else 1e-6)
    assert guarantee.definition == ("individual DP" if name.startswith("iDP") else "DP")
    text = str(guarantee)
    assert "unit        one row" in text
    assert ("one coordinate, by at most 1.0" if "SignOPORP-RR" in name else "l1 distance at most 1.0") in text
    assert "once for each row at each call of transform; the projection" in text
    assert "the projection is public and does not depend on the data" in text
    assert "that a row is refused, because it is too large for float64 or outside a promised bound" in text
    assert ("includes the draw" in text) == (name in {"Analytic DP-RP-G", "DP-SignRP-RR, least norm"})


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("adjacency", ["l1", "l2"])
@pytest.mark.parametrize("sketch", ADDITIVE[:-1], ids=repr)
def test_sensitivity_is_never_passed_and_is_reached(sketch, adjacency, noise, silenced_noise):
    """No neighbour moves a projection further than sensitivity_; the worst one does (l1 noise, l2 rows: a bound)."""
    X = np.random.default_rng(0).normal(size=(1, 13))
    sketch = clone(sketch).set_params(adjacency=adjacency, noise=noise, max_change=0.25).fit(X)
    W = projection_matrix(sketch.projection_)
    rng = np.random.default_rng(1)
    steps = np.vstack([np.eye(13), rng.normal(size=(200, 13)), np.linalg.svd(W)[0].T])
    steps /= np.linalg.norm(steps, 1 if adjacency == "l1" else 2, axis=1, keepdims=True)
    moved = np.linalg.norm(sketch.transform(X + 0.25 * steps) - sketch.transform(X), noise == "laplace" or 2, axis=1)
    moved = (
        np.abs(sketch.transform(X + 0.25 * steps) - sketch.transform(X)).sum(axis=1) if noise == "laplace" else moved
    )
    assert moved.max() <= sketch.sensitivity_ * SLACK
    if (adjacency, noise) != ("l2", "laplace"):
        assert moved.max() >= sketch.sensitivity_ * (1 - 1e-9)


@pytest.mark.parametrize("projection", [*DENSE, "very_sparse"])
def test_rounding_cannot_pass_the_sensitivity(projection, silenced_noise):
    """Rows so large that float64 would move their projections further than a change may are refused."""
    first, second = np.array([[0.0, 1e17], [9.0, 1e17]])
    sketch = DPRandomProjection(1, projection=projection, density=1.0, max_change=9.0).fit(first[None])
    for row in (first, second):
        with pytest.raises(ValueError, match="float64 is too coarse"):
            sketch.transform(row[None])


# Unbiased estimates


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "oporp", "raw"])
def test_inner_products_are_unbiased_with_the_known_variance(kind):
    """Over projections and noise, inner products of sketches have the mean and the variance of the formulas."""
    p, k, draws, rng = 12, 4, 1000, np.random.default_rng(0)
    u, v = rng.normal(size=(2, p))
    X, seeds = np.vstack([u, v]), np.random.RandomState(0)
    make = {
        "rademacher": lambda: DPRandomProjection(k, random_state=seeds),
        # Calibrated before the draw: its noise has the same scale for every projection.
        "gaussian": lambda: DPRandomProjection(
            k, projection="gaussian", calibration="kenthapadi_bound", random_state=seeds
        ),
        "oporp": lambda: DPOPORP(k, random_state=seeds),
        "raw": lambda: DPRandomProjection(projection="identity"),
    }[kind]()
    make.set_params(epsilon=20.0, delta=1e-3)
    products, scales = np.empty(draws), np.empty(draws)
    fitted = make.fit(X) if kind == "raw" else None
    with reproducible_noise(0):
        for i in range(draws):
            sketch = fitted or make.fit(X)
            x, y = sketch.transform(X)
            products[i], scales[i] = x @ y, sketch.scale_
    uu, vv, uv, common = u @ u, v @ v, u @ v, np.sum(u**2 * v**2)
    spread = {
        "rademacher": (uu * vv + uv**2 - 2 * common) / k,
        "gaussian": (uu * vv + uv**2) / k,
        "oporp": (uu * vv + uv**2 - 2 * common) / k * (p - k) / (p - 1),
        "raw": 0.0,
    }[kind]
    size = p if kind == "raw" else k
    assert np.ptp(scales) == 0
    variance = scales[0] ** 2 * (uu + vv) + size * scales[0] ** 4 + spread
    squares = (products - uv) ** 2
    assert abs(products.mean() - uv) < 5 * products.std() / np.sqrt(draws)
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(draws)


# Conduct


@every
def test_threads_change_nothing_but_speed(sketch, monkeypatch, silenced_noise):
    """Two threads give what one gives, under any backend that the caller has chosen."""
    X = np.random.default_rng(0).normal(size=(3000, 9)) + 2
    sketch = clone(sketch).fit(X)
    expected = sketch.transform(X)
    monkeypatch.setattr(_base, "_PARALLEL_ENTRIES", 1)
    assert np.allclose(sketch.set_params(n_jobs=2).transform(X), expected, rtol=1e-12, atol=1e-12)
    with joblib.parallel_config("loky", n_jobs=2, max_nbytes=None):
        released = sketch.set_params(n_jobs=None).transform(X)
    assert np.allclose(released, expected, rtol=1e-12, atol=1e-12)


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


@every
def test_tables_come_back_as_tables(sketch):
    """Pandas and polars tables, with the names of the sketch's own features."""
    X = pd.DataFrame(np.full((5, 9), 2.0), columns=list("abcdefghi"))
    sketch = clone(sketch).fit(X)
    names = [f"{type(sketch).__name__.lower()}{j}" for j in range(4)]
    assert list(sketch.feature_names_in_) == list("abcdefghi")
    assert list(sketch.get_feature_names_out()) == names
    for output, table in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        released = sketch.set_output(transform=output).transform(X)
        assert isinstance(released, table)
        assert list(released.columns) == names


@every
def test_fit_reads_only_the_shape(sketch):
    """Other values of the same width leave the same fitted state, byte for byte."""
    rng = np.random.default_rng(0)
    first, second = (clone(sketch).fit(X) for X in (rng.normal(size=(3, 9)), np.zeros((7, 9))))
    assert pickle.dumps(first) == pickle.dumps(second)


@every
def test_releasing_leaves_no_trace(sketch):
    """Transform adds nothing to the estimator: its pickle is small, the same as before, and rebuilds the projection."""
    X = np.random.default_rng(0).normal(size=(500, 40)) + 2
    sketch = clone(sketch).fit(X)
    before = pickle.dumps(sketch)
    sketch.transform(X)
    after = pickle.dumps(sketch)
    restored = pickle.loads(after)
    assert after == before
    assert len(after) < 4000 + sketch.__dict__.get("flip_thresholds_", np.empty(0)).nbytes
    assert np.array_equal(restored.projection_.project(X), sketch.projection_.project(X))
    assert restored.guarantee_ == sketch.guarantee_


@every
def test_random_state_draws_the_projection_only(sketch):
    """Equal random_state gives equal projections and other noise; another random_state, another projection."""
    X = np.random.default_rng(0).normal(size=(500, 40)) + 2
    one, two, other = clone(sketch).fit(X), clone(sketch).fit(X), clone(sketch).set_params(random_state=7).fit(X)
    assert np.array_equal(one.projection_.project(X), two.projection_.project(X))
    assert not np.array_equal(one.projection_.project(X), other.projection_.project(X))
    if not isinstance(sketch, iDPSignRP):
        assert not np.array_equal(one.transform(X), two.transform(X))


@every
def test_seeded_noise_marks_the_guarantee(sketch):
    """A release in a seeded block repeats itself and voids the guarantee, until the next fit."""
    X = np.random.default_rng(0).normal(size=(50, 40)) + 2
    sketch = clone(sketch).fit(X)
    released = []
    for _ in range(2):
        with reproducible_noise(5):
            released.append(sketch.transform(X))
    assert np.array_equal(*released)
    assert "seeded: not private" in str(sketch.guarantee_)
    assert "seeded" not in repr(sketch.fit(X).guarantee_)
    with reproducible_noise(5):
        assert "seeded: not private" in repr(sketch.fit(X).guarantee_)


@every
def test_html_shows_the_guarantee(sketch):
    """The representation in a notebook of a fitted sketch holds its guarantee."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    assert repr(sketch.guarantee_) in sketch._repr_html_()


@pytest.mark.parametrize("estimator", [DPOPORP, DPRandomProjection])
def test_sixteen_million_features_fit_in_memory(estimator):
    """A projection of 16 million features takes under 1 GB, where W whole would take 33 GB."""
    p = 16_000_000
    X = sp.csr_array((np.ones(8), np.arange(8) * 1_999_999, [0, 3, 8]), shape=(2, p))
    tracemalloc.start()
    try:
        assert estimator(256, random_state=0).fit(X).transform(X).shape == (2, 256)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()


# Bad input


@pytest.fixture
def no_release(monkeypatch):
    """Fail the test if any private randomness is drawn."""

    def drawn(size):
        pytest.fail("noise was drawn")

    monkeypatch.setattr(_noise, "random_bytes", drawn)


@every
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((2, 9), np.nan), "NaN"),
        (np.full((2, 9), np.inf), "infinity"),
        (np.full((2, 9), 1e300), "float64 is too coarse"),
        (np.full((2, 9), 1e18), "float64 is too coarse"),
        (sp.csr_array(np.full((2, 9), 1e300)), "float64 is too coarse"),
        (np.ones((2, 8)), "8 features"),
        (np.ones((0, 9)), "0 sample"),
        (np.ones(9), "1D array"),
    ],
)
def test_rows_outside_the_domain_release_nothing(sketch, X, message, no_release):
    """NaN, infinity, rows too large for float64 and other shapes raise before any noise is drawn."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match=message):
            sketch.transform(X)


@every
@pytest.mark.parametrize("epsilon", [0, -1.0, np.nan])
def test_epsilon_is_positive(sketch, epsilon):
    """An epsilon that is not positive is refused."""
    with pytest.raises(ValueError, match="epsilon"):
        clone(sketch).set_params(epsilon=epsilon).fit(np.ones((1, 9)))


@pytest.mark.parametrize("sketch", [s for s in EVERY if "delta" in s.get_params()], ids=repr)
@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, np.nan])
def test_delta_is_a_probability_below_one(sketch, delta):
    """A delta outside [0, 1) is refused, whether it is used or not."""
    with pytest.raises(ValueError, match="delta"):
        clone(sketch).set_params(delta=delta).fit(np.ones((1, 9)))


@pytest.mark.parametrize("max_change", [0.0, 5e-324, 1e-200, 1e200, np.inf])
@every
def test_max_change_stays_within_float64(sketch, max_change):
    """Changes whose squares or whose noise leave float64 are refused."""
    with pytest.raises(ValueError, match="max_change"):
        clone(sketch).set_params(max_change=max_change).fit(np.ones((1, 9)))


def test_tiny_entries_do_not_escape_the_domain(no_release):
    """A row whose squares underflow is either on the scale of max_change or refused."""
    sketch = DPSignOPORP(1, max_change=1e-100).fit(np.ones((1, 3)))
    with pytest.raises(ValueError, match="float64 is too coarse"):
        sketch.transform(np.full((1, 3), 1e-80))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_domain_ends_at_its_norm(form):
    """One large entry among zeros is judged by the norm of its row, on both sides of the bound of the rounding."""
    sketch = DPOPORP(2, random_state=0).fit(np.ones((1, 9)))
    row = np.zeros((1, 9))
    row[0, 4] = -1.0
    terms = 9 if form is np.asarray else 1
    largest = 2.0**-12 / ((terms + 1) * 2.0**-53 * np.sqrt(terms))
    assert sketch.transform(form(0.999 * largest * row)).shape == (1, 2)
    with pytest.raises(ValueError, match="float64 is too coarse"):
        sketch.transform(form(1.001 * largest * row))


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicates_that_cancel_do_not_escape_the_domain(sketch, dtype, no_release):
    """Entries too large are refused though they sum to a small row: what lies between them is lost to rounding."""
    row = np.array([1e18, 1.0, -1e18], dtype=dtype), np.array([0, 1, 0]), np.array([0, 3])
    sketch = clone(sketch).fit(np.ones((1, 9)))
    with pytest.raises(ValueError, match="float64 is too coarse"):
        sketch.transform(sp.csr_array(row, shape=(1, 9)))


@pytest.mark.parametrize(
    ("sketch", "message"),
    [
        (DPOPORP(2, delta=0.0), "delta=0"),
        (iDPSignRP(2, delta=0.0), "delta=0"),
        (DPOPORP(2, calibration="classic"), "analytic"),
        (DPRandomProjection(2, calibration="kenthapadi", delta=0.5), "analytic"),
        (DPRandomProjection(2, calibration="kenthapadi_bound"), "gaussian"),
        (DPRandomProjection(2, calibration="kenthapadi_bound", projection="gaussian", adjacency="l2"), "l1"),
        (DPSignOPORP(4, n_repeats=3), "multiple of n_repeats"),
        (DPSignRP(2, delta=1e-6), "min_norm"),
        (DPSignRP(2, delta=1e-6, min_norm=1.0, method="rr"), "gaussian"),
        (DPSignRP(2, delta=1e-6, min_norm=1.0, projection="gaussian"), "rr"),
        (DPSignRP(2, min_norm=1.0, projection="gaussian", method="rr"), "delta > 0"),
    ],
    ids=repr,
)
def test_parameters_without_a_guarantee_are_refused(sketch, message):
    """Combinations for which nothing is proved raise at fit, with the way out in the message."""
    with pytest.raises(ValueError, match=message):
        sketch.fit(np.ones((1, 9)))


def test_rows_below_min_norm_release_nothing(no_release):
    """One row below the promised norm refuses all of them, dense or sparse."""
    sketch, X = binomial_sketch(), np.zeros((2, 1000))
    X[0, 0], X[1, 0] = 2.0, np.nextafter(1.0, 0)
    for rows in (X, sp.csr_array(X), X.astype(np.float64)):
        with pytest.raises(ValueError, match="below min_norm"):
            sketch.transform(rows)


@every
def test_unfitted_sketches_release_nothing(sketch, no_release):
    """Transform before fit is an error."""
    with pytest.raises(NotFittedError):
        clone(sketch).transform(np.ones((1, 9)))


@pytest.mark.parametrize(
    ("sketch", "change"),
    [
        (DPOPORP(2, noise="laplace"), {"noise": "gaussian"}),
        (DPOPORP(2), {"epsilon": 0.1}),
        (VARIANTS["DP-SignRP-RR, least norm"], {"min_norm": 1e-9}),
        (VARIANTS["DP-SignRP-RR, least norm"], {"method": "smooth"}),
        (iDPSignRP(2, projection="oporp"), {"projection": "rademacher"}),
    ],
    ids=repr,
)
def test_parameters_changed_after_fit_release_nothing(sketch, change, no_release):
    """A calibration for other parameters is not used: the guarantee would be false."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    with pytest.raises(ValueError, match="fit again"):
        sketch.set_params(**change).transform(np.ones((1, 9)))


@pytest.mark.parametrize("sketch", [s for s in EVERY if s.get_params().get("n_repeats") != 2], ids=repr)
def test_more_components_than_features_warn(sketch):
    """A sketch larger than the data warns as scikit-learn's projections do, and is released; the identity does not."""
    with pytest.warns(DataDimensionalityWarning, match="larger than the data"):
        released = clone(sketch).fit_transform(np.full((2, 3), 2.0))
    assert released.shape == (2, 4)
    assert DPRandomProjection(4, projection="identity").fit_transform(np.ones((2, 3))).shape == (2, 3)


def test_every_random_word_gives_a_finite_entry():
    """The largest and the smallest random words give finite entries of Gaussian and uniform projections."""
    words = np.array([[0, 2**64 - 1]], dtype=np.uint64)
    for kind in ("gaussian", "uniform"):
        low, high = type(make_projection(kind, 2, 2, np.random.RandomState(0)))._entries(words)[0]
        assert np.isfinite([low, high]).all()
        assert low == -high


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


@pytest.mark.parametrize("epsilon", [1e-6, 50.0, 1e4])
@every
def test_extreme_epsilon_is_finite(sketch, epsilon):
    """Tiny and huge epsilon calibrate to finite noise and release finite sketches."""
    X = np.full((3, 9), 2.0)
    sketch = clone(sketch).set_params(epsilon=epsilon).fit(X)
    assert np.isfinite(sketch.transform(X)).all()
    thresholds = getattr(sketch, "flip_thresholds_", flip_thresholds(1.0))
    assert np.all(thresholds[1:] >= 1)


@pytest.mark.parametrize("sketch", ADDITIVE, ids=repr)
def test_epsilon_below_what_sampling_can_keep_is_refused(sketch):
    """Values are sampled to a loss of 2**-31 each, and no guarantee may claim less."""
    with pytest.raises(ValueError, match="too small"):
        clone(sketch).set_params(epsilon=1e-10).fit(np.ones((1, 9)))


@every
def test_a_failed_refit_releases_nothing(sketch):
    """After a fit that failed, the parameters of the last good one do not revive it on the new projection."""
    sketch = clone(sketch).fit(np.ones((2, 20)))
    good = sketch.get_params()
    with pytest.raises(ValueError, match=r"epsilon|NaN"):
        sketch.set_params(epsilon=-1.0).fit(np.ones((2, 50)))
    with pytest.raises(ValueError, match="NaN"):
        sketch.set_params(**good).fit(np.full((2, 50), np.nan))
    with pytest.raises(ValueError, match="fit again"):
        sketch.transform(np.ones((2, 50)))


def test_gaussian_signs_near_a_point_of_the_grid_are_as_likely_as_on_it():
    """Rounding comes before the sign: moving x by a hundredth of a grid step moves no probability by a whole one."""
    sketch = iDPSignRP(1, epsilon=0.01, projection="gaussian", random_state=0).fit(np.ones((1, 1)))
    w = projection_matrix(sketch.projection_)[0, 0]
    step = _noise._grid(sketch.scale_) * abs(w)
    for noise in (-0.49, -0.3, 0.3, 0.49):
        signs = []
        for x in (-step / 100, step / 100):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_noise, "_rounded_to_gaussian", lambda fractions, steps, n=noise: np.rint(fractions + n))
                signs.append(sketch.transform(np.array([[x / w]]))[0, 0])
        assert signs[0] == signs[1]


def test_published_bound_on_short_rows_is_no_licence():
    """Where N_+ is too small, the exact calibration is used."""
    options = {"method": "rr", "projection": "gaussian", "min_norm": 0.5, "delta": 1e-6, "epsilon": 1000.0}
    with pytest.warns(DataDimensionalityWarning):
        published = DPSignRP(400, calibration="published", **options).fit(np.ones((1, 1)))
        exact = DPSignRP(400, **options).fit(np.ones((1, 1)))
    assert published.flip_epsilon_ == exact.flip_epsilon_


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # scikit-learn compares with 1e100
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(8, random_state=0),
        DPOPORP(8, noise="laplace", random_state=0),
        DPRandomProjection(8, projection="very_sparse", density=0.3, random_state=0),
        DPSignRP(7, random_state=0),
        DPSignOPORP(9, n_repeats=3, random_state=0),
    ],
    ids=repr,
)
def test_parameters_of_a_coarse_type_are_calibrated_in_float64(sketch):
    """In half precision the price of sampling would be rounded away, and the noise come out too small."""
    names = {"epsilon", "max_change", "density"} & set(sketch.get_params())
    coarse = {name: np.float16(value) for name, value in {"epsilon": 0.3, "max_change": 0.7, "density": 0.3}.items()}
    fitted = [
        clone(sketch).set_params(**{name: as_type(coarse[name]) for name in names}).fit(np.zeros((1, 20)))
        for as_type in (np.float16, float)
    ]
    for name in ("scale_", "flip_epsilon_", "sensitivity_"):
        half, double = (float(getattr(one, name, 0)) for one in fitted)
        assert half == double
