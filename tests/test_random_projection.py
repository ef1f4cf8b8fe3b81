"""Public projections: their distribution, their arithmetic, their norms, their seeds."""

import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sketches import DENSE, KINDS

from skdprp import _kernels, random_projection
from skdprp.random_projection import (
    DenseProjection,
    IdentityProjection,
    OPORPProjection,
    VerySparseProjection,
    make_projection,
)


def draw(kind, n_features=300, n_components=64, seed=0, **options):
    return make_projection(kind, n_features, n_components, np.random.RandomState(seed), **options)


def matrix(projection):
    return projection.project(np.eye(projection.n_features))


WHOLE = [kind for kind in KINDS if not (matrix(draw(kind, 8, 8)) % 1).any()]  # whose entries are whole numbers


def test_every_kind_is_listed():
    """Tests of projections read their kinds in a docstring."""
    assert set(KINDS) >= random_projection._KINDS.keys(), "name it in the docstring of make_projection"
    page = (Path(__file__).parents[1] / "doc" / "guide" / "projections.rst").read_text()
    assert all(f'\n``"{kind}"``  ' in page for kind in KINDS), "add it to the table of doc/guide/projections.rst"


@pytest.fixture(params=KINDS)
def projection(request):
    return draw(request.param)


@pytest.fixture(params=["in memory", "on demand"])
def storage(request, monkeypatch):
    """Dense projections are kept when small, and made block by block when not: here both."""
    if request.param == "on demand":
        monkeypatch.setattr(random_projection, "_CACHED_ENTRIES", 0)
        monkeypatch.setattr(random_projection, "_BLOCK_ENTRIES", 64 * 100)


def product_and_rounding(X, W):
    """``X @ W``, and by how much two computations of it may differ, each of which rounds as it likes.

    Each is off by at most n + 1 times 2^-53 of the sum of what it sums, for n entries, repeated ones and all.
    """
    rows = sp.csr_array(X)
    entries = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices
    data, real, size = rows.data.astype(np.float64), np.zeros(rows.shape), np.zeros(rows.shape)
    np.add.at(real, entries, data)
    np.add.at(size, entries, np.abs(data))
    most = np.diff(rows.indptr).max() + 1
    return real @ W, 2 * most * 2.0**-53 * (1 + 1e-9) * (size @ np.abs(W))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_array, sp.csr_matrix])
def test_project_is_multiplication(projection, form, dtype, storage):
    X = sp.random_array((50, 300), density=0.1, rng=0).toarray().astype(dtype)
    product = projection.project(form(X))
    assert product.dtype == np.float64 and product.flags.c_contiguous
    expected, rounding = product_and_rounding(X, matrix(projection))
    assert (np.abs(product - expected) <= rounding).all()


def reference(projection):
    """W whole, by its definition instead of the kernels."""
    if isinstance(projection, DenseProjection):
        return projection.rows(np.arange(projection.n_features))
    if isinstance(projection, VerySparseProjection):
        return projection.matrix.toarray()
    if isinstance(projection, IdentityProjection):
        return np.eye(projection.n_features)
    if isinstance(projection, OPORPProjection):
        W = np.zeros((projection.n_features, projection.n_components))
        W[np.arange(projection.n_features), projection.code // 2] = np.where(projection.code % 2, -1.0, 1.0)
        return W
    raise TypeError(f"Say here what the matrix of a {type(projection).__name__} is, without its kernels.")


def rows_of_all_lengths(n_rows, n_features, rng):
    """CSR rows with none, few, many and repeated entries, out of order."""
    lengths = rng.choice([0, 1, 2, 7, 8, 9, 16, 40, 3 * n_features], n_rows)
    indices = rng.integers(0, n_features, lengths.sum())
    return sp.csr_array(
        (rng.normal(size=len(indices)), indices, np.append(0, np.cumsum(lengths))), (n_rows, n_features)
    )


def with_long_indices(X):
    """CSR rows with pointers of 64 bits, as those of many entries have; alone, or with indices to match."""
    X = X.copy()
    X.indptr = X.indptr.astype(np.int64)
    X.indices = X.indices.astype(np.int64 if X.dtype == np.float32 else np.int32)
    return X


FORMS = {
    "array": lambda X: X.toarray(),
    "fortran": lambda X: np.asfortranarray(X.toarray()),
    "strided": lambda X: np.repeat(X.toarray(), 2, axis=1)[:, ::2],
    "csr_array": lambda X: X,
    "csr_matrix": sp.csr_matrix,
    "long": with_long_indices,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("p", "k"), [(90, 13), (90, 64), (300, 3), (5, 5)])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_the_dense_product(kind, p, k, dtype, storage, monkeypatch):
    """Small blocks, so that all borders occur: of pieces of rows, of blocks of rows, of bytes of signs."""
    monkeypatch.setattr(random_projection, "_BLOCK_BYTES", 4000)
    monkeypatch.setattr(random_projection, "_BLOCK_ENTRIES", 8 * 8 * k)
    projection = draw(kind, p, k)
    X, W = rows_of_all_lengths(29, p, np.random.default_rng(0)).astype(dtype), reference(projection)
    # Sparse rows with their repeated entries, and dense ones.
    products = {is_sparse: product_and_rounding(X if is_sparse else X.toarray(), W) for is_sparse in (True, False)}
    for form, in_form in FORMS.items():
        stored = in_form(X)
        expected, rounding = products[sp.issparse(stored)]
        assert (np.abs(projection.project(stored) - expected) <= rounding).all(), form
        slices = [slice(0, 10), slice(10, 11), slice(11, 29)]
        for rows, x in projection.project_blocks(stored, slices):
            assert (np.abs(x - expected[rows]) <= rounding[rows]).all(), form
            x[:] = np.nan  # the caller may do what it likes with a block


shapes = st.tuples(st.integers(1, 7), st.integers(1, 12), st.integers(1, 9))


def tables(shape, elements, dtype):
    return arrays(dtype, shape[:2], elements=elements)


@pytest.mark.parametrize("kind", WHOLE)
@given(data=st.data(), shape=shapes)
def test_sums_of_whole_numbers_are_exact(kind, data, shape):
    """Dense and sparse, where W has entries of one size, a power of two: every sum is exact."""
    X = data.draw(tables(shape, st.integers(-(2**40), 2**40), np.int64))
    options = {"density": 0.25} if kind == "very_sparse" else {}
    projection = draw(kind, *shape[1:], **options)
    W = reference(projection).astype(np.int64)
    for form in (np.asarray, np.asfortranarray, sp.csr_array):
        assert (projection.project(form(X.astype(np.float64))) == X @ W).all()


numbers = st.one_of(st.sampled_from([0.0, -0.0]), st.floats(1e-20, 1e9), st.floats(-1e9, -1e-20))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), shape=shapes)
def test_sums_round_as_little_as_stated(kind, data, shape):
    """Within ``(n + 1) 2^-53 |u|_1 max |w|`` of the real sums; dense and sparse alike where sums have an order."""
    X = data.draw(tables(shape, numbers, np.float64))
    projection = draw(kind, *shape[1:])
    W = np.vectorize(Fraction, otypes=[object])(reference(projection))
    U = np.vectorize(Fraction, otypes=[object])(X)
    terms = np.count_nonzero(X, axis=1) + 1
    allowed = (terms * abs(U).sum(axis=1) / 2**53)[:, None] * abs(W).max(axis=0)
    products = [projection.project(form(X)) for form in (np.asarray, np.asfortranarray, sp.csr_array)]
    exact = U @ W
    for product in {product.tobytes(): product for product in products}.values():
        assert (abs(np.vectorize(Fraction, otypes=[object])(product) - exact) <= allowed).all()
    if kind not in DENSE:
        assert products[0].tobytes() == products[1].tobytes() == products[2].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sparse_row_rounds_the_same_alone_and_among_others(kind, storage, monkeypatch):
    monkeypatch.setattr(random_projection, "_BLOCK_ENTRIES", 8 * 8 * 16)
    projection = draw(kind, 90, 16)
    X = rows_of_all_lengths(40, 90, np.random.default_rng(0))
    together = projection.project(X)
    for row in range(40):
        assert (projection.project(X[[row]]) == together[row]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_project_leaves_duplicates_of_its_input_alone(projection, dtype, storage):
    X = rows_of_all_lengths(20, 300, np.random.default_rng(0)).astype(dtype)
    X = sp.csr_array((np.repeat(X.data, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    for array in (X.data, X.indices, X.indptr):
        array.setflags(write=False)
    projection.project(X)
    assert all((now == then).all() for now, then in zip((X.data, X.indices, X.indptr), before, strict=True))


def test_project_leaves_its_input_alone(projection):
    X = np.random.default_rng(0).uniform(size=(5, 300))
    before = X.copy()
    product = projection.project(X)
    product += 1
    assert (before == X).all()


def test_duplicate_and_unsorted_entries_are_summed(projection):
    indices = np.array([7, 2, 7, 299, 0, 0])
    X = sp.csr_array((np.arange(1.0, 7.0), indices, np.array([0, 3, 3, 6])), shape=(3, 300))
    assert np.allclose(projection.project(X), X.toarray() @ matrix(projection))


def test_norms_are_those_of_the_matrix(projection, storage):
    W = matrix(projection)
    assert projection.row_norm(1) == pytest.approx(np.abs(W).sum(axis=1).max(), rel=1e-11)
    assert projection.row_norm(2) == pytest.approx(np.linalg.norm(W, axis=1).max(), rel=1e-11)
    assert projection.spectral_norm() == pytest.approx(np.linalg.norm(W, 2), rel=1e-11)
    assert (projection.column_max() == np.abs(W).max(axis=0)).all()
    assert projection.max_entry >= np.abs(W).max()


@pytest.mark.parametrize("kind", KINDS)
def test_norms_are_rounded_up(kind):
    """In higher precision, no norm is below that of the matrix, or of some of its columns."""
    projection = draw(kind, 40, 8)
    W = matrix(projection).astype(np.longdouble)
    assert projection.row_norm(1) >= np.abs(W).sum(axis=1).max()
    assert projection.row_norm(2) >= np.sqrt((W**2).sum(axis=1).max())
    some = np.random.default_rng(0).random((50, W.shape[1])) < 0.4
    exact = np.sqrt((some @ (W**2).T).max(axis=1))
    assert (projection.row_norm_within(some) >= exact).all()
    # Together with the other norms, which say as much of some kinds, it is exact.
    others = np.minimum(np.sqrt(some @ projection.column_max() ** 2), projection.row_norm(2))
    least = np.minimum(projection.row_norm_within(some), others)
    assert np.allclose(least.astype(float), exact.astype(float), rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_norms_within_a_large_matrix_are_not_computed(kind, monkeypatch):
    """Whether they are depends on its shape alone, and not on the rows."""
    monkeypatch.setattr(random_projection, "_CACHED_ENTRIES", 0)
    assert np.isinf(draw(kind).row_norm_within(np.ones((3, 64), bool))).all()


def test_norms_within_come_in_batches(monkeypatch):
    projection, some = draw("gaussian"), np.random.default_rng(0).random((50, 64)) < 0.4
    whole = projection.row_norm_within(some)
    monkeypatch.setattr(random_projection, "_BLOCK_ENTRIES", 7 * 300)
    assert np.allclose(projection.row_norm_within(some), whole, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_same_random_state_same_projection(kind):
    assert (matrix(draw(kind)) == matrix(draw(kind))).all()
    if kind != "identity":
        assert (matrix(draw(kind)) != matrix(draw(kind, seed=1))).any()


def test_projection_rebuilds_itself_from_its_seed(projection):
    before = matrix(projection)
    pickled = pickle.dumps(projection)
    assert len(pickled) < 500
    assert (matrix(pickle.loads(pickled)) == before).all()


@pytest.mark.parametrize("kind", DENSE)
def test_rows_can_be_made_alone(kind):
    """Any sorted selection of features gives the rows of the whole matrix: near, far apart, or one."""
    projection = draw(kind, 5000, 70)
    W = projection.rows(np.arange(5000))
    for features in ([0], [4999], [3, 4, 5], [0, 63, 64, 200, 4998], np.arange(0, 5000, 97)):
        assert (projection.rows(np.array(features)) == W[features]).all()


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff 00000000 ffffffff ffffffff", "ffffffff ffffffff", None),
        ("243f6a88 00000000 13198a2e 03707344", "a4093822 299f31d0", None),
    ],
)
def test_philox_is_the_published_generator(counter, key, words):
    """Against the published vector at zero, and the definition in Python's integers elsewhere."""
    c, k = ([int(word, 16) for word in text.split()] for text in (counter, key))
    seed = k[0] | k[1] << 32 | c[2] << 64 | c[3] << 96
    first, second = (int(word) for word in _kernels.philox(np.array([c[0]]), 1, seed)[0])
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ k[0], right & 0xFFFFFFFF, left >> 32 ^ c[3] ^ k[1], left & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    assert (first, second) == (c[0] | c[1] << 32, c[2] | c[3] << 32)
    assert words is None or c == [int(word, 16) for word in words.split()]


@pytest.mark.parametrize(
    ("kind", "distribution"),
    [("gaussian", stats.norm()), ("uniform", stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)))],
)
def test_continuous_entries_have_their_distribution(kind, distribution):
    assert stats.kstest(matrix(draw(kind, 1000, 256)).ravel(), distribution.cdf).pvalue > 1e-6


def test_rademacher_entries_are_fair_and_uncorrelated():
    W = matrix(draw("rademacher", 1000, 256))
    assert set(np.unique(W)) == {-1.0, 1.0}
    assert stats.binomtest(int((W > 0).sum()), W.size).pvalue > 1e-6
    gram = W.T @ W - 1000 * np.eye(256)
    assert np.abs(gram).max() < 6.5 * np.sqrt(1000)


@pytest.mark.parametrize("density", ["auto", 0.01, 0.5, 1.0])
def test_very_sparse_entries_have_their_distribution(density):
    p, k = 2000, 100
    W = matrix(draw("very_sparse", p, k, density=density))
    density = p**-0.5 if density == "auto" else density
    nonzero = int(np.count_nonzero(W))
    assert stats.binomtest(nonzero, p * k, density).pvalue > 1e-6
    assert stats.binomtest(int((W > 0).sum()), nonzero).pvalue > 1e-6
    assert set(np.unique(np.abs(W))) <= {0.0, density**-0.5}
    assert stats.chisquare(np.count_nonzero(W, axis=0)).pvalue > 1e-6
    assert stats.binomtest(int(np.count_nonzero(W[-100:])), 100 * k, density).pvalue > 1e-6


@pytest.mark.parametrize(("p", "k"), [(300, 64), (64, 64), (5, 8), (1, 1), (7, 2)])
def test_oporp_puts_each_feature_in_one_of_equal_bins(p, k):
    projection = draw("oporp", p, k)
    W = matrix(projection)
    assert (np.abs(W).sum(axis=1) == 1).all() and (np.abs(W) <= 1).all()
    assert np.abs(W).sum(axis=0).max() <= projection.bin_length == -(-p // k)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_oporp_rounds_within_its_bound(form, dtype):
    """All components together are off by at most ``n 2**-53 |u|_1``, for which the rounding margin pays."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(20, 400)) * 10.0 ** rng.integers(-9, 10, (20, 400))).astype(dtype)
    projection = draw("oporp", 400, 3)
    W, projected = matrix(projection), projection.project(form(X))
    errors = []
    for row, x in zip(X, projected, strict=True):
        terms = [Fraction(float(entry)) for entry in row]
        exact = [sum(int(sign) * term for sign, term in zip(w, terms, strict=True) if sign) for w in W.T]
        errors.append(sum(abs(Fraction(float(value)) - true) for value, true in zip(x, exact, strict=True)))
        assert errors[-1] <= 400 * Fraction(2) ** -53 * sum(map(abs, terms))
    assert max(errors) > 0


def test_oporp_bins_and_signs_are_uniform():
    """Over seeds, every feature meets every bin and both signs equally often."""
    codes = np.array([draw("oporp", 12, 4, seed=seed).code for seed in range(2000)])
    for feature in codes.T:
        assert stats.chisquare(np.bincount(feature, minlength=8)).pvalue > 1e-6


def test_a_count_sketch_draws_its_bins_and_signs_uniformly():
    """Each of 8 codes comes to a feature as often, and pairs of features share a bin independently of others."""
    codes = np.array([draw("count_sketch", 12, 4, seed=seed).code for seed in range(2000)])
    for feature in codes.T:
        assert stats.chisquare(np.bincount(feature, minlength=8)).pvalue > 1e-6
    together = (codes[:, ::2] >> 1) == (codes[:, 1::2] >> 1)
    expected = 2000 * stats.binom.pmf(np.arange(7), 6, 0.25)
    assert stats.chisquare(np.bincount(together.sum(axis=1), minlength=7), expected).pvalue > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_fourth_moments(kind):
    """Of entries, or of nonzero ones where all rows have as many of them."""
    projection = draw(kind, 4000, 256, density=0.1)
    W4 = np.square(np.square(reference(projection)))
    W4 = W4[W4 > 0] if np.ptp(np.count_nonzero(W4, axis=1)) == 0 else W4
    assert abs(W4.mean() - projection.fourth_moment) < 5 * W4.std() / np.sqrt(W4.size) + 1e-12


def test_repeats_stand_side_by_side():
    projection = draw("oporp", 300, 64, n_repeats=4)
    W = matrix(projection)
    assert W.shape == (300, 64) and (np.abs(W).reshape(300, 4, 16).sum(axis=2) == 1).all()
    assert len({tuple(part.code) for part in projection.parts}) == 4
    assert projection.row_norm(1) == 4 and projection.row_norm(2) == 2
    assert projection.spectral_norm() >= np.linalg.norm(W, 2)
    assert (matrix(pickle.loads(pickle.dumps(projection))) == W).all()
    X = sp.random_array((20, 300), density=0.1, rng=0, format="csr")
    assert np.allclose(projection.project(X), X @ W)


def test_empty_projection_of_rows_without_entries(projection):
    assert (projection.project(sp.csr_array((3, 300))) == 0).all()


@pytest.mark.parametrize(("n_features", "n_components"), [(2**31, 16), (2**31 - 8, 16), (8, 2**30 + 1)])
def test_bins_that_31_bits_do_not_number_are_refused(n_features, n_components):
    """Their codes would wrap, and sums be written beside the bins."""
    with pytest.raises(ValueError, match="fewer than"):
        make_projection("oporp", n_features, n_components, np.random.RandomState(0))
    make_projection("oporp", 2**31 - 16, 16, np.random.RandomState(0))
    make_projection("oporp", 8, 2**30, np.random.RandomState(0))


def test_every_random_word_gives_a_finite_entry():
    """The largest and the smallest random words give finite entries of Gaussian and uniform projections."""
    words = np.array([[0, 2**64 - 1]], dtype=np.uint64)
    for kind in ("gaussian", "uniform"):
        low, high = type(make_projection(kind, 2, 2, np.random.RandomState(0)))._entries(words)[0]
        assert np.isfinite([low, high]).all()
        assert low == -high


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
