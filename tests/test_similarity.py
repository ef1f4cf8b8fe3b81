"""Estimators from sketches, unbiased with the stated variances, and exact search."""

import pickle
import sys
import warnings
from functools import lru_cache, partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mode, norm
from sketches import KINDS
from sklearn.base import clone
from sklearn.exceptions import DataDimensionalityWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from skdprp import DPSignOPORP, DPSignRP
from skdprp.random_projection import make_projection
from skdprp.similarity import (
    HammingNeighbors,
    _search,
    angle_variance,
    angles,
    best_n_components,
    best_n_repeats,
    bit_correlation,
    cosine_variance,
    cosines,
    hamming_distances,
    inner_product_variance,
    inner_products,
    squared_distances,
    squared_norms,
)

TRIALS = 20_000
FEWER = 5_000  # draws of bins, each of which takes a call


def moments_agree(estimates, mean, variance):
    """Mean and variance within five standard errors, the latter from the fourth moment of the estimates."""
    centred = estimates - mean
    assert abs(centred.mean()) < 5 * np.sqrt(variance / len(estimates))
    assert abs((centred**2).mean() - variance) < 5 * (centred**2).std() / np.sqrt(len(estimates))


def noisy(x, sigma, rng):
    return x + sigma * rng.standard_normal(x.shape)


def many_sketches(kind, rows, n_components, n_repeats):
    """One projection, and the rows under many draws of it: shape (TRIALS or FEWER, rows, components)."""
    state, p = np.random.RandomState(0), rows.shape[1]
    W = make_projection(kind, p, n_components, state, n_repeats=n_repeats)
    if kind == "count_sketch":  # features are independent, so that those of many projections are those of one
        code = make_projection(kind, p * TRIALS, n_components, state).code.reshape(TRIALS, p)
        return W, rows @ (np.eye(n_components)[code >> 1] * (1 - 2 * (code & 1))[..., None])
    if kind == "oporp":
        draws = (make_projection(kind, p, n_components, state, n_repeats=n_repeats) for _ in range(FEWER))
        code = np.array([[part.code for part in getattr(draw, "parts", [draw])] for draw in draws])
        parts = rows @ (np.eye(n_components // n_repeats)[code >> 1] * (1 - 2 * (code & 1))[..., None])
        return W, np.concatenate(parts.swapaxes(0, 1), axis=2) / W.divisor
    if kind == "identity":
        return W, np.repeat(rows[None], TRIALS, axis=0)
    # Components are independent, so that those of a wide projection are those of many narrow ones.
    wide = make_projection(kind, p, n_components * TRIALS, state).project(rows)
    return W, wide.reshape(len(rows), TRIALS, n_components).swapaxes(0, 1) / W.divisor


def of_pairs(estimate, S, T):
    """Estimates of each row of S and the same row of T, from tables of few rows."""
    parts = (np.array_split(sketches, len(S) // 100) for sketches in (S, T))
    return np.concatenate([estimate(*pair).diagonal() for pair in zip(*parts, strict=True)])


@pytest.mark.parametrize(("kind", "n_repeats"), [*((kind, 1) for kind in KINDS), ("oporp", 2)])
def test_inner_products_have_their_mean_and_variance(kind, n_repeats):
    """Over draws of the projection and the noise."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 10))
    W, sketches = many_sketches(kind, np.stack([u, v]), 4, n_repeats)
    for sigma in (0.0, 0.5):
        x, y = noisy(sketches, sigma, rng).swapaxes(0, 1)
        estimates = of_pairs(inner_products, x, y)
        variance = inner_product_variance(u, v, projection=W, noise_variance=sigma**2)
        if variance:
            moments_agree(estimates, u @ v, variance)
        else:
            assert estimates == pytest.approx(u @ v)


def test_squared_norms_and_distances_are_unbiased():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1, 6))
    sigma = 0.8
    S, T = noisy(np.repeat(x, TRIALS, axis=0), sigma, rng), noisy(np.repeat(y, TRIALS, axis=0), sigma, rng)
    norms = squared_norms(S, noise_variance=sigma**2)
    distances = of_pairs(partial(squared_distances, noise_variance=sigma**2), S, T)
    for estimates, true in ((norms, np.sum(x**2)), (distances, np.sum((x - y) ** 2))):
        assert abs(estimates.mean() - true) < 5 * estimates.std() / np.sqrt(TRIALS)


def test_cosines_ignore_lengths_and_stay_defined_for_empty_rows():
    S = np.array([[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]])
    expected = [[1, np.sqrt(0.5), 0], [np.sqrt(0.5), 1, 0], [0, 0, 0]]
    assert np.allclose(cosines(S, 7 * S), expected)


@pytest.mark.parametrize("k", [1, 8, 13, 200])
def test_hamming_distances_are_the_same_for_signs_and_packed_bits(k):
    rng = np.random.default_rng(k)
    S, T = rng.integers(0, 2, (5, k)), rng.integers(0, 2, (7, k))
    expected = (S[:, None] != T[None]).sum(axis=2)
    assert (hamming_distances(2 * S.astype(np.int8) - 1, 2 * T.astype(np.int8) - 1) == expected).all()
    packed = [np.packbits(bits.astype(bool), axis=1) for bits in (S, T)]
    assert (hamming_distances(*packed) == expected).all()


REAL, SIGNS, PACKED = np.ones((2, 8)), np.ones((2, 8), dtype=np.int8), np.ones((2, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("function", "S", "T", "message"),
    [
        (inner_products, SIGNS, SIGNS, "real-valued"),
        (inner_products, REAL, REAL[:, :7], "same width"),
        (cosines, PACKED, PACKED, "real-valued"),
        (squared_distances, REAL, SIGNS, "real-valued"),
        (hamming_distances, REAL, REAL, "sign sketches"),
        (hamming_distances, SIGNS, PACKED, "of one form"),
        (hamming_distances, PACKED, SIGNS, "of one form"),
        (hamming_distances, PACKED[0], PACKED[0], "two dimensions"),
    ],
)
def test_sketches_of_the_wrong_kind_are_refused(function, S, T, message):
    options = {"noise_variance": 1.0} if function is squared_distances else {}
    with pytest.raises(ValueError, match=message):
        function(S, T, **options)


@pytest.mark.parametrize("flip_epsilon", [0.7, 3.0, np.inf])
@pytest.mark.parametrize("theta", [0.3, np.pi / 2, 2.8])
def test_angles_have_their_mean_and_variance(flip_epsilon, theta):
    """Signs of a Gaussian projection agree with probability 1 - theta / pi; each is flipped alone."""
    rng, k = np.random.default_rng(0), 16
    keep = 1 / (1 + np.exp(-flip_epsilon))
    differ = rng.uniform(size=(TRIALS, k)) < theta / np.pi
    flips = rng.uniform(size=(2, TRIALS, k)) > keep
    distances = (differ ^ flips[0] ^ flips[1]).sum(axis=1)
    estimates = angles(distances, n_components=k, flip_epsilon=flip_epsilon)
    moments_agree(estimates, theta, angle_variance(theta, n_components=k, flip_epsilon=flip_epsilon))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3, 50.0, 400.0])
@pytest.mark.parametrize("angle", [0.05, np.pi / 3, np.pi / 2])
def test_best_n_components_beats_every_other(epsilon, angle):
    best = best_n_components(epsilon, angle=angle)
    k = np.arange(1, 5000)
    variances = angle_variance(angle, n_components=k, flip_epsilon=epsilon / k)
    assert variances[best - 1] == variances.min()


@pytest.mark.parametrize(("epsilon", "min_norm"), [(10.0, 10.0), (30.0, 3.0), (0.5, 3.0), (10.0, None)])
def test_best_n_components_of_distant_rows_has_the_least_variance_of_all(epsilon, min_norm):
    """Against the losses that sketches of each number of bits really have; a larger number than without a norm."""
    best = best_n_components(epsilon, delta=1e-6, min_norm=min_norm)
    options = {"method": "rr", "projection": "gaussian", "delta": 1e-6, "min_norm": min_norm, "epsilon": epsilon}

    def variance(k):
        loss = DPSignRP(k, **options).fit(np.ones((1, 300))).flip_epsilon_
        return angle_variance(np.pi / 3, n_components=k, flip_epsilon=loss)

    assert variance(best) <= 1.02 * min(variance(k) for k in range(1, 150, 12))
    assert best >= best_n_components(epsilon)


def test_best_n_components_takes_a_norm_with_a_delta():
    with pytest.raises(ValueError, match="A least norm needs delta > 0"):
        best_n_components(1.0, min_norm=1.0)


@lru_cache(maxsize=1)
def projected_pairs(kind):
    """Two rows at an acute angle, and what 600 projections to 64 numbers make of them."""
    rng, state = np.random.default_rng(0), np.random.RandomState(0)
    u = rng.standard_normal(100)
    u, v = (row / np.linalg.norm(row) for row in (u, 0.9 * u + 0.4 * rng.standard_normal(100)))
    drawn = [make_projection(kind, 100, 64, state) for _ in range(600)]
    return u, v, drawn[-1], np.array([W.project(np.stack([u, v])) / W.divisor for W in drawn])


@pytest.mark.parametrize("sigma", [0.0, 0.1])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
def test_cosines_have_their_variance(sigma, kind):
    """To first order in 1 / k, over draws of the projection and the noise; far below that of inner products."""
    u, v, W, pairs = projected_pairs(kind)
    x, y = noisy(pairs, sigma, np.random.default_rng(1)).swapaxes(0, 1)
    estimates = of_pairs(cosines, x, y)
    stated = cosine_variance(u, v, projection=W, noise_variance=sigma**2)
    assert np.var(estimates) == pytest.approx(stated, rel=0.25)  # four standard errors, and the second order
    assert stated < 0.2 * inner_product_variance(u, v, projection=W, noise_variance=sigma**2)


def test_cosine_variance_without_noise_is_that_of_the_paper():
    """F ((1 - rho^2)^2 - 2 sum m_i^2) of Rademacher signs, and no change by the length of a row."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 50))
    W = make_projection("oporp", 50, 8, np.random.RandomState(0))
    a, b = u / np.linalg.norm(u), v / np.linalg.norm(v)
    rho = a @ b
    m = a * b - rho * (a**2 + b**2) / 2
    exact = W.variance_factor * ((1 - rho**2) ** 2 - 2 * m @ m)
    for scale in (1.0, 7.0):
        assert cosine_variance(scale * u, v, projection=W, noise_variance=0.0) == pytest.approx(exact)


@pytest.fixture(params=["numpy", "faiss"])
def engine(request, monkeypatch):
    """What searches bits: ours, and FAISS where it is installed."""
    if request.param == "faiss":
        pytest.importorskip("faiss")
    else:
        monkeypatch.setitem(sys.modules, "faiss", None)
    return request.param


each_engine = pytest.mark.usefixtures("engine")


def packed(rng, n, width, *, distinct=256):
    """Draw packed bits; few distinct bytes make ties."""
    return rng.integers(0, distinct, (n, width)).astype(np.uint8)


def nearest_by_sorting(S, T, k):
    """Distances and indices of the k nearest rows of T, ties by index, from the full matrix."""
    distances = hamming_distances(S, T)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


@each_engine
@pytest.mark.parametrize("width", [1, 3, 8, 9, 32, 33, 64])
@pytest.mark.parametrize("distinct", [1, 3, 256])
@pytest.mark.parametrize("n_neighbors", [1, 7, 300])
def test_neighbours_are_those_of_sorting_all_distances(width, distinct, n_neighbors):
    rng = np.random.default_rng(width)
    database, queries = packed(rng, 300, width, distinct=distinct), packed(rng, 5, width)
    found = HammingNeighbors(n_neighbors).fit(database).kneighbors(queries)
    for ours, expected in zip(found, nearest_by_sorting(queries, database, n_neighbors), strict=True):
        assert (ours == expected).all()


FLIPS = [
    {"method": "smooth"},
    {"method": "rr"},
    {"method": "laplace"},
    {"adjacency": "l1"},
    {"adjacency": "l2", "method": "laplace"},
]


@lru_cache(maxsize=4)
def normal_tables(n_tables, n_rows, n_features, n_nonzero, size):
    """Rows whose nonzeros are normal and anywhere."""
    rng, places = np.random.default_rng(0), np.tile(np.arange(n_features), (n_rows, 1))
    return [
        size * rng.standard_normal(places.shape) * (rng.permuted(places, axis=1) < n_nonzero) for _ in range(n_tables)
    ]


@pytest.mark.parametrize("flips", FLIPS, ids=str)
@pytest.mark.parametrize(
    ("epsilon", "n_repeats", "nonzero"), [(1.0, 1, 30), (6.0, 4, 30), (1000.0, 2, 9), (3.0, 1, 90)]
)
def test_bit_correlation_is_that_of_released_sketches(epsilon, n_repeats, nonzero, flips, seeded):
    """Of two releases of rows whose nonzeros are normal, over draws of projections, rows and flips; bins are padded."""
    p, k, n, draws, size = 90, 16, 400, 25, 0.6
    products = np.empty((draws, n))
    for draw, X in enumerate(normal_tables(draws, n, p, nonzero, size)):
        sketch = DPSignOPORP(k, epsilon=epsilon, n_repeats=n_repeats, random_state=draw, **flips).fit(X)
        products[draw] = np.mean(sketch.transform(X) * sketch.transform(X), axis=1)
    shape = {"n_features": p, "n_components": k, "n_nonzero": nonzero}
    stated = bit_correlation(epsilon, n_repeats=n_repeats, size=size, **flips, **shape)
    assert abs(products.mean() - stated) < 7.5 * products.std() / np.sqrt(products.size)


@pytest.mark.parametrize("flips", FLIPS, ids=str)
@pytest.mark.parametrize(("epsilon", "n_repeats"), [(1e-4, 1), (0.7, 2), (6.0, 1)])
def test_bit_correlation_is_a_mean_over_all_places_of_nonzeros(epsilon, n_repeats, flips):
    """By enumeration of the places, and for each number in a bin by the flips that a fitted sketch states."""
    p, k, z, size = 5, 2 * n_repeats, 3, 0.6
    rows = np.full((1, p), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataDimensionalityWarning)  # of repetitions there are more bits than features
        sketch = DPSignOPORP(k, epsilon=epsilon, n_repeats=n_repeats, random_state=0, **flips).fit(rows)
    # Each level reaches up to its edge: points in the middle of cells as wide as a fraction of it.
    x = np.arange(2**17) / 2**12 * (1 + 2.0**-10) + 2.0**-13
    kept = (2 * sketch.positive_probability(x[:, None])[:, 0] - 1) ** 2
    kept_by = {0: 0.0} | {m: kept @ norm.pdf(x, scale=size * m**0.5) * 2 * (x[1] - x[0]) for m in (1, 2, 3)}
    places = list(combinations(range(6), z))  # one is padding
    exact = np.mean([(kept_by[sum(i < 3 for i in held)] + kept_by[sum(i >= 3 for i in held)]) / 2 for held in places])
    stated = bit_correlation(
        epsilon, n_features=p, n_components=k, n_nonzero=z, n_repeats=n_repeats, size=size, **flips
    )
    # The flips have 2**-10 of max_change set aside for rounding, which is not counted here.
    assert stated == pytest.approx(exact, rel=3e-3)


def test_a_correlation_of_flips_that_are_none_is_refused():
    shape = {"n_features": 784, "n_components": 96}
    for wrong in ({"method": "smooth", "adjacency": "l1"}, {"method": "Laplace"}, {"adjacency": "linf"}):
        with pytest.raises(ValueError, match=r"none of DPSignOPORP|should be"):
            bit_correlation(1.0, **shape, **wrong)
        with pytest.raises(ValueError, match=r"none of DPSignOPORP|should be"):
            best_n_repeats(1.0, **shape, **wrong)
    assert bit_correlation(1.0, **shape, adjacency="l1") == bit_correlation(1.0, **shape, method="laplace")


def test_repeats_grow_with_epsilon_and_with_empty_bins():
    """The choice is the best of all divisors; it is 1 where each bin is full, and nothing helps empty rows."""
    shape = {"n_features": 784, "n_components": 96, "n_nonzero": 60}
    chosen = [best_n_repeats(epsilon, **shape) for epsilon in (0.1, 1.0, 10.0, 100.0)]
    assert chosen == sorted(chosen) and chosen[0] == 1 < chosen[-1]
    for epsilon, t in zip((0.1, 1.0, 10.0, 100.0), chosen, strict=True):
        best = bit_correlation(epsilon, n_repeats=t, **shape)
        assert all(0.99 * bit_correlation(epsilon, n_repeats=d, **shape) <= best for d in (1, 2, 3, 4, 6, 8, 12, 96))
    assert best_n_repeats(1000.0, n_features=784, n_components=96) == 1
    assert bit_correlation(1000.0, n_features=784, n_components=96, n_nonzero=0) == 0
    levels = np.arange(1, 2000)  # of so many nonzeros in a bin that their number hardly varies
    exact = 2 * np.diff(norm.cdf(np.append(0, levels) / 125)) @ np.tanh(levels / 2) ** 2
    crowded = bit_correlation(1.0, n_features=10**7, n_components=64, n_nonzero=10**6)
    assert crowded == pytest.approx(exact, abs=1e-5)
    with pytest.raises(ValueError, match="not between 0 and n_features"):
        best_n_repeats(1.0, n_features=10, n_components=4, n_nonzero=11)


@each_engine
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("distinct", [2, 256])
def test_neighbours_across_blocks_and_threads(n_jobs, distinct, monkeypatch):
    """The nearest may lie in any block, and beyond the sample that bounds their distance."""
    monkeypatch.setattr(_search, "_ROWS", 64)
    monkeypatch.setattr(_search, "_QUERIES", 2)
    monkeypatch.setattr(_search, "_SAMPLE", 8)
    rng = np.random.default_rng(0)
    database, queries = packed(rng, 1000, 4, distinct=distinct), packed(rng, 11, 4, distinct=distinct)
    database[-3:] = queries[:3]
    found = HammingNeighbors(9, n_jobs=n_jobs).fit(database).kneighbors(queries)
    for ours, expected in zip(found, nearest_by_sorting(queries, database, 9), strict=True):
        assert (ours == expected).all()


@each_engine
def test_opposite_bits_of_long_sketches_are_counted_in_full():
    """All bits differ: 1040 of them do not fit the byte that counts three words."""
    ones = np.full((1, 130), 255, np.uint8)
    distances, _ = HammingNeighbors(1).fit(np.zeros((2, 130), np.uint8)).kneighbors(ones)
    assert distances == [[1040]]


def test_a_search_moves_to_where_another_engine_is_installed(monkeypatch):
    """Pickled with FAISS and without, it finds the same, and FAISS keeps the threads it had."""
    faiss = pytest.importorskip("faiss")
    S = packed(np.random.default_rng(0), 500, 5, distinct=3)
    before = faiss.omp_get_max_threads()
    with_faiss = HammingNeighbors(7, n_jobs=2).fit(S)
    expected = with_faiss.kneighbors(S[:20])
    assert faiss.omp_get_max_threads() == before
    stored = [pickle.dumps(with_faiss)]
    monkeypatch.setitem(sys.modules, "faiss", None)
    without = pickle.loads(stored[0])
    assert type(without._arranged) is not type(with_faiss._arranged)
    stored.append(pickle.dumps(without))
    monkeypatch.undo()
    assert type(pickle.loads(stored[1])._arranged) is type(with_faiss._arranged)
    for search in (without, pickle.loads(stored[1])):
        for found, of_faiss in zip(search.kneighbors(S[:20]), expected, strict=True):
            assert (found == of_faiss).all() and found.dtype == of_faiss.dtype


@each_engine
def test_signs_and_packed_bits_have_the_same_neighbours():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (40, 13)).astype(bool)
    signs, packed_bits = 2 * bits.astype(np.int8) - 1, np.packbits(bits, axis=1)
    of_signs, of_bits = (HammingNeighbors(6).fit(S[9:]).kneighbors(S[:9]) for S in (signs, packed_bits))
    assert all((a == b).all() for a, b in zip(of_signs, of_bits, strict=True))


@each_engine
@pytest.mark.parametrize("distinct", [1, 3])
def test_no_row_is_a_neighbour_of_itself(distinct):
    """Even where more rows of a smaller index are at distance 0 than there are neighbours."""
    S = packed(np.random.default_rng(0), 30, 2, distinct=distinct)
    distances, indices = HammingNeighbors(4).fit(S).kneighbors()
    every = hamming_distances(S, S).astype(float)
    np.fill_diagonal(every, np.inf)
    assert (indices == np.argsort(every, axis=1, kind="stable")[:, :4]).all()
    assert (distances == np.take_along_axis(every, indices, axis=1)).all()


@each_engine
def test_neighbours_agree_with_scikit_learn_and_feed_its_estimators():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (60, 24)).astype(bool)
    S, y = np.packbits(bits, axis=1), np.arange(60) % 3
    ours = HammingNeighbors(5).fit(S[20:])
    brute = NearestNeighbors(n_neighbors=5, metric="hamming", algorithm="brute").fit(bits[20:])
    assert np.allclose(ours.kneighbors(S[:20])[0], 24 * brute.kneighbors(bits[:20])[0])
    graph = ours.kneighbors_graph(S[:20], mode="distance")
    indices = ours.kneighbors(S[:20], return_distance=False)
    assert (ours.kneighbors_graph(S[:20]).toarray() == np.eye(40)[indices].sum(axis=1)).all()
    votes = KNeighborsClassifier(5, metric="precomputed").fit(ours.kneighbors_graph(mode="distance"), y[20:])
    assert (votes.predict(graph) == mode(y[20:][indices], axis=1).mode).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_distances_of_neighbours_become_angles(seeded):
    """The sketches' own loss of a bit turns the distance found into an estimate of the angle."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal(50)
    v = np.cos(1.0) * u / np.linalg.norm(u) + np.sin(1.0) * np.linalg.svd(u[None])[2][1]
    k = 20_000
    sketch = DPSignRP(k, epsilon=2.0 * k, method="rr", projection="gaussian", output="packed", random_state=0).fit(
        np.stack([u, v])
    )
    S = sketch.transform(np.stack([u, v]))
    distances, _ = HammingNeighbors(1).fit(S[1:]).kneighbors(S[:1])
    options = {"n_components": k, "flip_epsilon": sketch.flip_epsilon_}
    assert abs(angles(distances, **options)[0, 0] - 1.0) < 6 * angle_variance(1.0, **options) ** 0.5


@each_engine
def test_search_is_an_estimator_like_others():
    S = packed(np.random.default_rng(0), 20, 4)
    neighbors = HammingNeighbors(3, n_jobs=2).fit(S)
    assert neighbors.get_params() == {"n_neighbors": 3, "n_jobs": 2}
    assert (neighbors.n_samples_fit_, neighbors.n_features_in_) == (20, 4)
    copy = pickle.loads(pickle.dumps(neighbors))
    for a, b in zip(copy.kneighbors(S, 6), neighbors.kneighbors(S, 6), strict=True):
        assert (a == b).all()
    with pytest.raises(NotFittedError):
        clone(neighbors).kneighbors(S)
    assert (copy.kneighbors()[1] == neighbors.kneighbors()[1]).all()
    frame = pd.DataFrame(S)
    assert (HammingNeighbors(3).fit(frame).kneighbors(frame)[1] == neighbors.kneighbors(S)[1]).all()
    assert neighbors.kneighbors(S[:0])[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HammingNeighbors().fit(REAL), "sign sketches.*SketchNeighbors searches"),
        (lambda: HammingNeighbors(1).fit(PACKED).kneighbors(REAL), r"release\.estimator\.transform"),
        (lambda: HammingNeighbors().fit(PACKED[0]), "two dimensions"),
        (lambda: HammingNeighbors().fit(PACKED[:0]), "nothing to search"),
        (lambda: HammingNeighbors(0).fit(PACKED), "n_neighbors"),
        (lambda: HammingNeighbors(3).fit(PACKED).kneighbors(PACKED), "at most 2"),
        (lambda: HammingNeighbors(2).fit(PACKED).kneighbors(), "at most 1"),
        (lambda: HammingNeighbors(1).fit(PACKED).kneighbors(PACKED, 0), "at least 1"),
        (lambda: HammingNeighbors(1).fit(PACKED).kneighbors(SIGNS), "int8 of width 8"),
        (lambda: HammingNeighbors(1).fit(PACKED).kneighbors(PACKED[:, :7]), "width 7"),
        (lambda: HammingNeighbors(1).fit(PACKED).kneighbors_graph(PACKED, mode="weights"), "mode"),
    ],
)
def test_what_cannot_be_searched_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
