"""Search with plain queries: posterior means against Bayes' rule, neighbours against sorting all cosines."""

import pickle
from copy import copy
from functools import lru_cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.stats import laplace, norm
from sketches import EVERY, projection_matrix, wide
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPOPORP,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    PublicScaler,
    iDPSignRP,
    load_release,
    save_release,
)
from skdprp.similarity import HammingNeighbors, SketchNeighbors, _neighbors, _posterior
from skdprp.testing import reproducible_noise

DENSITY = {"laplace": laplace, "gaussian": norm}


def sparse_rows(rng, shape, shares):
    """Rows of 0 and 1, each column with its own share of ones."""
    return (rng.uniform(size=shape) < shares).astype(float)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.15, 0.4])
def test_means_of_numbers_are_those_of_bayes_who_knows_the_shares(noise, scale):
    """Of components that are 1 in a share of the rows of their own, and otherwise 0."""
    rng, shares = np.random.default_rng(0), np.array([0.003, 0.1, 0.5, 0.0])
    X = sparse_rows(rng, (20_000, 4), shares)
    S = X + DENSITY[noise](scale=scale).rvs(X.shape, random_state=1)
    means = _posterior.means_of_numbers(S, noise=noise, scale=scale)
    one, zero = (DENSITY[noise](loc, scale).pdf(S) for loc in (1, 0))
    exact = shares * one / (shares * one + (1 - shares) * zero)
    lost = ((means - X) ** 2).mean(axis=0) - ((exact - X) ** 2).mean(axis=0)
    assert means.dtype == np.float32
    assert np.all(lost < 0.1 * scale**2)  # of a variance of the noise of at least scale^2
    assert np.all(lost > -0.01 * scale**2)  # nobody knows better than Bayes, but by chance
    # One column's own density: of the same number a frequent one says more.
    of_half = [means[np.abs(S[:, j] - 0.6).argmin(), j] for j in range(4)]
    assert of_half[3] <= of_half[0] + 0.05 and of_half[0] < of_half[1] < of_half[2]


def test_means_of_numbers_stay_close_to_them_without_noise_that_matters():
    """To within the spacing of the grid far out, however large they are, and beyond all scales, too."""
    S = np.random.default_rng(0).standard_normal((100, 3)) * np.array([1.0, 10.0, 100.0])
    for noise in DENSITY:
        means = _posterior.means_of_numbers(S, noise=noise, scale=1e-6)
        assert np.all(np.abs(means - S) <= 0.04 * np.abs(S) + 1e-5)
    assert np.isfinite(_posterior.means_of_numbers(np.array([[1e300, -1e300], [0, 1.0]]), noise=noise, scale=1.0)).all()
    assert not _posterior.means_of_numbers(np.zeros((3, 2)), noise="laplace", scale=0.0).any()


def test_each_step_makes_the_releases_more_likely():
    rng = np.random.default_rng(0)
    counts, likelihood = rng.integers(0, 9, (3, 12)).astype(float), rng.uniform(size=(5, 12))
    densities = [_posterior._maximise(np.full(5, 0.2), counts, likelihood, n) for n in range(6)]
    of_steps = [(counts * np.log(weights @ likelihood)).sum(axis=1) for weights in densities]
    assert all(np.allclose(weights.sum(axis=1), 1) for weights in densities)
    assert np.all(np.diff(of_steps, axis=0) > 0)
    shrunk = _posterior._maximise(np.full(5, 0.2), counts, likelihood, 5, prior_rows=1e9)
    assert np.allclose(shrunk, 0.2)


@pytest.mark.parametrize("options", [{}, {"method": "rr"}, {"adjacency": "l1"}], ids=str)
def test_means_of_bits_are_those_of_bayes_and_of_a_normal_density(options, monkeypatch):
    sketch = DPSignOPORP(4, epsilon=2.0, max_change=0.5, random_state=0, **options).fit(np.ones((1, 40)))
    monkeypatch.setattr(_posterior, "_STEPS", 0)
    unit, bits = 0.5, np.array([[True, False, True, True]])
    means = _posterior.means_of_bits(bits, positive_probability=sketch.positive_probability, unit=unit)

    def weight(x):
        return sketch.positive_probability(np.full(4, x * unit))[0] * norm.pdf(x)

    steps = {"points": range(-4, 5), "limit": 200}
    exact = quad(lambda x: x * weight(x), -5, 5, **steps)[0] / quad(weight, -5, 5, **steps)[0]
    assert means[0] == pytest.approx(exact * np.array([1, -1, 1, 1]), rel=0.03)


def test_bits_of_lopsided_components_say_what_is_rare():
    """The mean of a component follows its share of bits; of fair ones both bits say as much."""
    sketch = DPSignOPORP(2, epsilon=3.0, random_state=0).fit(np.ones((1, 40)))
    positive = np.random.default_rng(0).uniform(size=(5000, 2)) < [0.9, 0.5]
    means = _posterior.means_of_bits(positive, positive_probability=sketch.positive_probability, unit=1.0)
    plus, minus = (means[positive[:, 0] == bit, 0][0] for bit in (True, False))
    assert plus > -minus > 0.1
    fair = np.unique(means[:, 1])
    assert fair[0] == pytest.approx(-fair[1], rel=0.05)


def cosines_of(rows, queries):
    """Cosines in float64, 0 of zeros."""
    rows, queries = (np.asarray(each, float) for each in (rows, queries))
    norms = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(rows, axis=1))
    return np.divide(queries @ rows.T, norms, out=np.zeros_like(norms), where=norms > 0)


@lru_cache
def rows_of_which_some_are_equal():
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (300, 20)).astype(float)
    X[200:] = X[:100]
    sketch = DPRandomProjection(
        projection="identity", noise="laplace", epsilon=100.0, max_change=1e-6, random_state=0
    ).fit(X)
    return X, SketchNeighbors().fit(X, sketch=sketch)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("n_neighbors", [1, 7, 300])
def test_neighbours_are_those_of_sorting_all_cosines(n_neighbors, n_jobs, monkeypatch):
    """Of equal rows the smaller index first, over batches, threads, and a query of zeros."""
    monkeypatch.setattr(_neighbors, "_SCORES", 1000)
    X, fitted = rows_of_which_some_are_equal()
    neighbors = copy(fitted).set_params(n_neighbors=n_neighbors, n_jobs=n_jobs)
    queries = np.vstack([X[:9] + 0.1, np.zeros((1, 20)), np.random.default_rng(1).standard_normal((5, 20))])
    distances, indices = neighbors.kneighbors(queries)
    exact = cosines_of(neighbors._rows, _posterior.unit_rows(queries))
    order = np.argsort(-exact.round(12), axis=1, kind="stable")[:, :n_neighbors]
    assert (indices == order).all()
    assert distances == pytest.approx(1 - np.take_along_axis(exact, order, axis=1), abs=1e-6)
    assert (np.diff(distances, axis=1) >= 0).all() and distances.min() >= 0
    assert (distances[9] == 1).all() and (indices[9] == np.arange(n_neighbors)).all()


def test_released_rows_are_searched_among_themselves_as_scikit_learn_does():
    """No row is its own neighbour, where copies come before it or there are more of them than neighbours, too."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 50))
    sketch = DPOPORP(30, epsilon=20.0, random_state=0).fit(X)
    S = sketch.transform(X)
    S[[3, 20, 30]] = S[7]  # somebody may pass a row on twice
    neighbors = SketchNeighbors(2).fit(S, sketch=sketch)
    distances, indices = neighbors.kneighbors()
    peer = NearestNeighbors(n_neighbors=2, metric="cosine", algorithm="brute").fit(neighbors._rows.astype(float))
    assert distances == pytest.approx(peer.kneighbors()[0], abs=1e-6)
    assert not (indices == np.arange(40)[:, None]).any()
    assert indices[[3, 7, 20, 30]].tolist() == [[7, 20], [3, 20], [3, 7], [3, 7]]
    assert (neighbors.kneighbors_graph().toarray().argsort()[:, -2:].sum(axis=1) == indices.sum(axis=1)).all()


def test_integers_that_cannot_be_released_bits_are_plain_queries():
    """Whole numbers from 0 to 255 and from -9 to 9, as images and ratings are."""
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, (30, 64)).astype(np.int8)
    for k, queries in ((64, X), (48, X.astype(np.uint8))):
        sketch = DPSignOPORP(k, random_state=0).fit(X)
        neighbors = SketchNeighbors(3).fit(sketch.transform(X), sketch=sketch)
        assert (neighbors.kneighbors(queries)[1] == neighbors.kneighbors(queries.astype(float))[1]).all()


@pytest.fixture(scope="module")
def texts():
    """Rows of few ones, as texts of hashed words are, and what is nearest to queries by cosine."""
    rng = np.random.default_rng(0)
    shares = np.minimum(0.5, 4 / np.arange(1, 401))  # few words are in many texts
    X = sp.csr_array(sparse_rows(rng, (1500, 400), shares))
    rows, queries = X[300:], X[:300]
    exact = cosines_of(rows.toarray(), queries.toarray())
    return rows, queries, exact


def recall(exact, indices):
    """Share of the nearest ten that are found, ties included."""
    least = np.sort(exact, axis=1)[:, -10, None]
    return (np.take_along_axis(exact, indices, axis=1) >= least - 1e-9).mean()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_posterior_means_find_far_more_than_noisy_inner_products_and_cosines(noise, texts):
    rows, queries, exact = texts
    epsilon = {"laplace": 6.0, "gaussian": 30.0}[noise]
    sketch = DPOPORP(400, epsilon=epsilon, noise=noise, random_state=0).fit(rows)
    with reproducible_noise(0):
        S = sketch.transform(rows)
    found = SketchNeighbors(10).fit(S, sketch=sketch).kneighbors(queries, return_distance=False)
    products = sketch.project_queries(queries) @ S.T
    plain = [
        recall(exact, np.argsort(-score, axis=1)[:, :10]) for score in (products, products / np.sum(S**2, 1) ** 0.5)
    ]
    assert recall(exact, found) > 1.3 * max(plain) > 0.1


@lru_cache
def rows_of_words(n_rows, n_words, share=0.0):
    """Rows whose words are the rarer the later they come; a share of all words occurs five times."""
    rng = np.random.default_rng(0)
    rows = sparse_rows(rng, (n_rows, n_words), np.minimum(0.3, 1.5 / np.arange(1, n_words + 1)))
    if share:
        rows[rng.uniform(size=rows.shape) < share] *= 5
    return rows


@pytest.mark.parametrize("epsilon", [2.5, 3.0, 3.5, 4.0, 5.0])
def test_short_texts_are_found_no_worse_than_by_noisy_inner_products(epsilon):
    """At small epsilon posterior means alone found a row itself in 15 of 100 cases, and plain products in 95."""
    rows = sp.csr_array(rows_of_words(600, 2000))
    sketch = DPOPORP(2000, epsilon=epsilon, noise="laplace", random_state=0).fit(rows)
    with reproducible_noise(0):
        S = sketch.transform(rows)
    found = SketchNeighbors(1).fit(S, sketch=sketch).kneighbors(rows[:200], return_distance=False)
    by_products = (sketch.project_queries(rows[:200]) @ S.T).argmax(axis=1)
    assert (found[:, 0] == np.arange(200)).mean() >= (by_products == np.arange(200)).mean() - 0.04


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0])
def test_texts_with_a_few_large_counts_are_found_no_worse_than_by_noisy_inner_products(epsilon):
    """One of 100 words occurs five times: posterior means leave only these, which are most of the rows' squares."""
    rows = rows_of_words(500, 1000, share=0.01)
    sketch = DPOPORP(1000, epsilon=epsilon, noise="laplace", random_state=0).fit(rows)
    with reproducible_noise(0):
        S = sketch.transform(rows)
    found = SketchNeighbors(1).fit(S, sketch=sketch).kneighbors(rows[:300], return_distance=False)
    by_products = (sketch.project_queries(rows[:300]) @ S.T).argmax(axis=1)
    least = (by_products == np.arange(300)).mean() - 0.04
    assert (found[:, 0] == np.arange(300)).mean() >= max(least, 0.8 if epsilon >= 3 else 0)


def test_rows_whose_posterior_means_say_little_are_searched_by_released_numbers_over_typical_norms():
    rows = rows_of_words(1000, 1000)
    sketch = DPOPORP(1000, epsilon=2.0, noise="laplace", random_state=0).fit(rows)
    with reproducible_noise(0):
        S = sketch.transform(rows)
    distances, indices = SketchNeighbors(20).fit(S, sketch=sketch).kneighbors(rows[:50])
    scores = sketch.project_queries(rows[:50]) @ S.T
    scores /= _posterior._Posterior.of(S, "laplace", sketch.scale_).estimates(S)[1]
    largest = -np.sort(-scores, axis=1)[:, :20]
    assert np.take_along_axis(scores, indices, axis=1) == pytest.approx(largest, rel=1e-5)
    assert distances.min() > 0 and distances.max() < 2 and (np.diff(distances, axis=1) > 0).all()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_posterior_norms_and_means_are_those_of_bayes_under_the_densities(noise):
    S = np.random.default_rng(0).normal(scale=[1, 3, 9], size=(400, 3))
    posterior = _posterior._Posterior.of(S, noise, 1.5)
    points = posterior.grid.points
    weights = posterior.densities * DENSITY[noise](scale=1.5).pdf(S[:9, :, None] - points)
    weights /= weights.sum(axis=2, keepdims=True)
    means, norms = posterior.estimates(S[:9])
    assert means == pytest.approx(weights @ points, rel=0.01, abs=0.1)
    assert norms == pytest.approx(np.sqrt((weights @ points**2).sum(axis=1)), rel=0.02)


def test_places_of_rows_are_counted_among_those_of_others():
    rng = np.random.default_rng(0)
    rows, own = rng.standard_normal((2, 7, 5))
    others, (of_own, of_others) = rng.standard_normal((40, 5)), (rng.uniform(1, 2, 7), rng.uniform(1, 2, 40))
    places = [
        1 + sum(row @ other / by >= row @ mine / of_mine for other, by in zip(others, of_others, strict=True))
        for row, mine, of_mine in zip(rows, own, of_own, strict=True)
    ]
    assert len(set(places)) > 3
    assert _posterior._log_place(rows, (own, of_own), (others, of_others)) == pytest.approx(np.log(places).mean())
    nothing = np.zeros((40, 5)), np.zeros(40)  # estimates that are all 0 find nothing
    assert _posterior._log_place(rows, (np.zeros((7, 5)), np.zeros(7)), nothing) == pytest.approx(np.log(41))


def test_one_enormous_number_leaves_other_rows_as_they_are():
    rows = sparse_rows(np.random.default_rng(0), (300, 40), 0.1)
    sketch = DPOPORP(40, epsilon=1.0, noise="laplace", random_state=0).fit(rows)
    with reproducible_noise(0):
        S = sketch.transform(rows)
    S[0, 0] = 1e300
    weights = SketchNeighbors().fit(S, sketch=sketch)._rows
    lengths = np.linalg.norm(weights, axis=1)
    assert lengths.max() == pytest.approx(1) and lengths.min() > 0.01


def test_without_noise_that_matters_the_nearest_are_those_of_the_projections(texts, seeded):
    rows, queries, _ = texts
    sketch = DPOPORP(100, epsilon=100.0, max_change=1e-3, noise="laplace", random_state=0).fit(rows)
    found = SketchNeighbors(10).fit(sketch.transform(rows), sketch=sketch).kneighbors(queries, return_distance=False)
    exact = cosines_of(sketch.project_queries(rows), sketch.project_queries(queries))
    assert recall(exact, found) > 0.97


@pytest.mark.parametrize("k", [64, 61])
def test_bits_are_searched_better_than_by_counting_them_and_alike_packed_or_not(k):
    X = load_digits().data / 16 - 0.5
    rows, queries = X[300:], X[:300]
    signs, packed = (
        DPSignOPORP(k, epsilon=3.0, output=output, random_state=0).fit(rows) for output in ("sign", "packed")
    )
    with reproducible_noise(0):
        S, Q = signs.transform(rows), signs.transform(queries)
    found = SketchNeighbors(10).fit(S, sketch=signs).kneighbors(queries)
    of_packed = SketchNeighbors(10).fit(np.packbits(S > 0, axis=1), sketch=packed).kneighbors(queries)
    for ours, others in zip(found, of_packed, strict=True):
        assert (ours == others).all()
    exact = cosines_of(rows, queries)
    counted = HammingNeighbors(10).fit(S).kneighbors(Q, return_distance=False)
    assert recall(exact, found[1]) > 1.1 * recall(exact, counted)


@wide
@pytest.mark.parametrize(
    "sketch",
    [sketch for sketch in EVERY if not isinstance(sketch, iDPSignRP)]
    + [DPSignRP(64, output="packed", projection="very_sparse", random_state=0)],
    ids=repr,
)
def test_every_sketch_but_the_individual_ones_can_be_searched(sketch, tmp_path, seeded):
    """As fitted, from a file, as frames, and after the sketch was fitted again for other rows."""
    X = np.random.default_rng(0).uniform(1, 2, (30, 12))
    sketch = clone(sketch).fit(X)
    S = sketch.transform(X)
    expected = SketchNeighbors(3).fit(S, sketch=sketch).kneighbors(X[:5])
    save_release(tmp_path / "rows.npz", S, sketch)
    neighbors = SketchNeighbors(3).fit(load_release(tmp_path / "rows.npz"))
    of_frame = SketchNeighbors(3).fit(pd.DataFrame(S), sketch=sketch)
    sketch.fit(X[:, :7])
    for searched in (neighbors, of_frame, pickle.loads(pickle.dumps(of_frame))):
        for queries in (X[:5], sp.csc_array(X[:5]), pd.DataFrame(X[:5]), X[:5].tolist()):
            for ours, others in zip(searched.kneighbors(queries), expected, strict=True):
                assert ours == pytest.approx(others, abs=1e-6)
    assert (neighbors.n_features_in_, neighbors.n_samples_fit_) == (12, 30)


@wide
@pytest.mark.parametrize("sketch", EVERY, ids=repr)
def test_queries_are_projected_as_rows_are_but_without_noise(sketch):
    """What a sketch computes of rows before its noise, over the divisor, and no release is recorded."""
    X = np.random.default_rng(0).uniform(1, 2, (5, 12))
    sketch = clone(sketch).fit(pd.DataFrame(X, columns=list("abcdefghijkl")))
    W = projection_matrix(sketch.projection_)
    with PrivacyLedger() as ledger:
        plain = sketch.project_queries(pd.DataFrame(X, columns=list("abcdefghijkl")))
    assert plain == pytest.approx(X @ W / sketch.projection_.divisor)
    assert (sketch.project_queries(pl.DataFrame(X, schema=list("abcdefghijkl"))) == plain).all()
    assert not ledger.entries
    with pytest.raises(ValueError, match="feature names"):
        sketch.project_queries(pd.DataFrame(X, columns=list("bacdefghijkl")))
    with pytest.raises(ValueError, match="NaN"):
        sketch.project_queries(pd.DataFrame(X * np.nan, columns=list("abcdefghijkl")))
    with pytest.raises(ValueError, match="fit again"):
        sketch.set_params(epsilon=7.0).project_queries(X)
    with pytest.raises(NotFittedError):
        clone(sketch).project_queries(X)


def test_lazy_queries_and_releases_are_refused():
    array = pytest.importorskip("dask.array")
    sketch = DPOPORP(4).fit(np.ones((1, 9)))
    with pytest.raises(TypeError, match="compute them first"):
        sketch.project_queries(array.ones((3, 9)))
    with pytest.raises(TypeError, match="compute them first"):
        SketchNeighbors(1).fit(sketch.transform(array.ones((3, 9))), sketch=sketch)


@wide
def test_components_that_no_feature_reaches_do_not_count():
    X = np.random.default_rng(0).uniform(1, 2, (40, 3))
    sketch = DPOPORP(50, epsilon=0.5, noise="laplace", random_state=0).fit(X)
    neighbors = SketchNeighbors().fit(sketch.transform(X), sketch=sketch)
    assert (neighbors._rows.any(axis=0) == projection_matrix(sketch.projection_).any(axis=0)).all()


def test_search_is_an_estimator_whose_graph_feeds_others(seeded):
    X, y = load_digits(return_X_y=True)
    X = X / 16 - 0.5
    sketch = DPOPORP(64, epsilon=50.0, noise="laplace", random_state=0).fit(X)
    neighbors = SketchNeighbors(5, n_jobs=2).fit(sketch.transform(X[500:]), sketch=sketch)
    assert neighbors.get_params() == {"n_neighbors": 5, "n_jobs": 2}
    with pytest.raises(NotFittedError):
        clone(neighbors).kneighbors(X)
    graph = neighbors.kneighbors_graph(X[:500], mode="distance")
    distances, indices = neighbors.kneighbors(X[:500])
    assert (graph.indices.reshape(500, 5) == indices).all() and (graph.data == distances.ravel()).all()
    among = neighbors.kneighbors_graph(X[500:], mode="distance")
    votes = KNeighborsClassifier(5, metric="precomputed").fit(among, y[500:])
    assert votes.score(graph, y[:500]) > 0.9


ROWS = np.ones((3, 6))
SKETCH = DPOPORP(4, random_state=0).fit(ROWS)
SIGNS = DPSignOPORP(4, random_state=0).fit(ROWS)
FITTED = SketchNeighbors(2).fit(SKETCH.transform(ROWS), sketch=SKETCH)
OF_BITS = SketchNeighbors(2).fit(SIGNS.transform(ROWS), sketch=SIGNS)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SketchNeighbors().fit(np.ones((3, 4))), TypeError, "Pass the fitted sketch"),
        (
            lambda: SketchNeighbors().fit(np.ones((3, 4)), sketch=iDPSignRP(4).fit(ROWS)),
            TypeError,
            "search bits by HammingNeighbors",
        ),
        (
            lambda: SketchNeighbors().fit(np.ones((3, 4)), sketch=make_pipeline(PublicScaler((0, 2)), SKETCH)),
            TypeError,
            r"Pass the sketch alone, pipeline\[-1\], .* pipeline\[:-1\]",
        ),
        (lambda: SketchNeighbors().fit(np.ones((3, 4)), sketch=DPOPORP(4)), NotFittedError, "not fitted"),
        (
            lambda: SketchNeighbors().fit(np.ones((3, 4)), sketch=DPOPORP(4).fit(ROWS).set_params(epsilon=2.0)),
            ValueError,
            "fit again",
        ),
        (lambda: SketchNeighbors(0).fit(np.ones((3, 4)), sketch=SKETCH), ValueError, "n_neighbors"),
        (lambda: SketchNeighbors().fit(np.ones((3, 5)), sketch=SKETCH), ValueError, "width 5 is not 4 numbers"),
        (lambda: SketchNeighbors().fit(np.ones((3, 4), int), sketch=SKETCH), ValueError, "int64 and width 4"),
        (lambda: SketchNeighbors().fit(np.full((3, 4), np.nan), sketch=SKETCH), ValueError, "NaN or infinite"),
        (lambda: SketchNeighbors().fit(np.ones((0, 4)), sketch=SKETCH), ValueError, "nothing to search"),
        (lambda: SketchNeighbors().fit(np.ones(4), sketch=SKETCH), ValueError, "nothing to search"),
        (lambda: SketchNeighbors().fit(np.ones((3, 4)), sketch=SIGNS), ValueError, "not 4 signs"),
        (lambda: SketchNeighbors().fit(np.ones((3, 2), np.uint8), sketch=SIGNS), ValueError, "not 4 signs"),
        (lambda: FITTED.kneighbors(ROWS, 4), ValueError, "at most 3"),
        (lambda: FITTED.kneighbors(ROWS, 0), ValueError, "at least 1"),
        (lambda: FITTED.kneighbors(ROWS[:, :5]), ValueError, "expecting 6 features"),
        (lambda: FITTED.kneighbors(ROWS[:0]), ValueError, "0 sample"),
        (lambda: FITTED.kneighbors(None, 3), ValueError, "at most 2"),
        (lambda: OF_BITS.kneighbors(SIGNS.transform(ROWS)), ValueError, "int8 and 4: HammingNeighbors"),
        (lambda: OF_BITS.kneighbors(np.packbits(ROWS > 0, axis=1)), ValueError, "uint8 and 1: HammingNeighbors"),
        (lambda: FITTED.kneighbors_graph(ROWS, mode="weights"), ValueError, "mode"),
    ],
)
def test_what_cannot_be_searched_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
