"""A row is a vector: what is computed of it before any noise depends on its numbers, and on nothing else.

Not on format, order of entries, repeated entries, type, memory layout, place, other rows or blocks. Of projections by
±1 and of single entries this holds to the last bit; of dense ones, which linear algebra sums in an order of its own, to
within the rounding that the slack of each guarantee pays for.
"""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from public import DATA_INDEPENDENT, SKETCHES, unlisted
from sketches import MARGIN, computed, offered, projection_matrix, with_entries, with_entries_twice
from sklearn import config_context
from sklearn.base import clone

from skdprp import (
    DPOPORP,
    DPMoments,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PublicBinner,
    PublicScaler,
    _rows,
    _validation,
    iDPSignRP,
    random_projection,
)

P = 23
TYPES = [np.float64, np.float32, np.int64, np.int8, bool]
EXACT = [
    DPOPORP(4, random_state=0),
    DPOPORP(4, noise="laplace", adjacency="l2", random_state=0),
    DPSignOPORP(4, random_state=0),
    DPSignOPORP(4, method="rr", n_repeats=2, random_state=0),
    iDPSignRP(4, projection="oporp", random_state=0),
    iDPSignRP(4, method="rr", projection="oporp", random_state=0),
    DPRandomProjection(4, projection="very_sparse", random_state=0),
    DPSignRP(4, projection="very_sparse", random_state=0),
    DPRandomProjection(projection="identity"),
    DPRandomProjection(4, projection="count_sketch", random_state=0),
]
DENSE = [
    DPRandomProjection(4, random_state=0),
    DPRandomProjection(4, projection="gaussian", noise="laplace", random_state=0),
    DPRandomProjection(4, projection="uniform", adjacency="l2", random_state=0),
    DPSignRP(4, random_state=0),
    DPSignRP(4, projection="gaussian", random_state=0),
    DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=1e-3, max_change=0.1, random_state=0),
    DPSignRP(4, projection="uniform", random_state=0),
    iDPSignRP(4, random_state=0),
    iDPSignRP(4, method="rr", projection="gaussian", random_state=0),
]
ONE_OF_EACH = {sketch.get_params().get("projection", "oporp"): sketch for sketch in (EXACT + DENSE)[::-1]}
exact = pytest.mark.parametrize("sketch", EXACT, ids=repr)


def test_every_projection_of_a_sketch_is_listed():
    named = {projection for kind in SKETCHES for projection in offered(kind)}
    new = "add a sketch with it to EXACT of tests/test_rows.py, or to DENSE if dense and sparse rows round in two ways"
    assert named <= {sketch.get_params().get("projection") for sketch in EXACT + DENSE}, new


def table(dtype=np.float64, n_rows=9):
    """Rows of numbers of many sizes and signs, whose sums round: half of them zero, one row whole."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, P)) * 4.0 ** rng.integers(-10, 10, (n_rows, P))
    X = np.where(rng.random(X.shape) < 0.5, X, 0)
    if np.dtype(dtype).kind in "biu":
        X = np.abs(X).astype(int) % 100
    X[0] = 2 * X[1] + 1
    return X.astype(dtype)


# Storage


def shuffled(X):
    """CSR with the entries of each row in some order that is not that of the columns."""
    X, rng = sp.csr_array(X), np.random.default_rng(1)
    order = np.concatenate([rng.permutation(np.arange(*ends)) for ends in itertools.pairwise(X.indptr)])
    return sp.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def with_wrong_flags(X):
    X = shuffled(X)
    X.has_sorted_indices = X.has_canonical_format = True
    return X


def with_explicit_zeros(X):
    full = sp.csr_array(np.ones(X.shape, X.dtype))
    full.data = X.ravel()
    return full


def with_room_at_the_end(X):
    X = sp.csr_array(X)
    room = sp.csr_array((np.append(X.data, X.data), np.append(X.indices, X.indices), X.indptr), shape=X.shape)
    room.data, room.indices = np.append(X.data, X.data[:5]), np.append(X.indices, X.indices[:5])
    return room


def with_long_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_negative_zeros(X):
    return np.where(X == 0, np.array(-0.0, X.dtype), X)


def read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


def frame_of_sparse_columns(X):
    zero = X.dtype.type(0)
    return pd.DataFrame({i: pd.arrays.SparseArray(column, fill_value=zero) for i, column in enumerate(X.T)})


def frame_of_filled_columns(X):
    """Sparse columns, each filled with a value of its own, which no warning should print."""
    return pd.DataFrame({f"x{i}": pd.arrays.SparseArray(X[:, i], fill_value=X[0, i]) for i in range(P)})


SPARSE = [
    *[sp.csr_array, sp.csc_array, sp.coo_array, sp.bsr_array, sp.dia_array, sp.lil_array, sp.dok_array],
    *[sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.bsr_matrix, sp.dia_matrix, sp.lil_matrix, sp.dok_matrix],
]
STORAGE = {
    "fortran": np.asfortranarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read only": read_only,
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "frame": pd.DataFrame,
    "frame of columns": lambda X: pd.DataFrame({f"x{i}": X[:, i].copy() for i in range(P)}),
    "frame of sparse columns": frame_of_sparse_columns,
    "frame of filled columns": frame_of_filled_columns,
    "polars": lambda X: pl.DataFrame(np.asarray(X), schema=[f"x{i}" for i in range(P)]),
    "negative zeros": with_negative_zeros,
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "longdouble": lambda X: X.astype(np.longdouble),
    **{form.__name__: form for form in SPARSE},
    "shuffled": shuffled,
    "csc of shuffled": lambda X: sp.csc_array(shuffled(X)),
    "coordinates of shuffled": lambda X: shuffled(X).tocoo(),
    "wrong flags": with_wrong_flags,
    "explicit zeros": with_explicit_zeros,
    "room at the end": with_room_at_the_end,
    "long indices": with_long_indices,
    "twice": with_entries_twice,
    "twice, coordinates": lambda X: with_entries_twice(X).tocoo(),
    "twice, csc": lambda X: with_entries_twice(X, sp.csc_array),
    "twice, wrong flags": lambda X: with_wrong_flags(with_entries_twice(X)),
}


@cache
def stored_table(storage, dtype):
    return STORAGE[storage](table(dtype))


@cache
def computed_of_a_table(sketch, dtype):
    X = table(dtype)
    return computed(clone(sketch).fit(X), X.astype(np.float64)).tobytes()


def types_of(sketch):
    """Of two sketches with one projection the second has floats alone: no sketch is given whole numbers as such."""
    return TYPES if sketch in ONE_OF_EACH.values() else TYPES[:2]


@pytest.mark.parametrize("storage", STORAGE)
@exact
def test_storage_does_not_matter(sketch, storage):
    for dtype in types_of(sketch):
        stored = stored_table(storage, dtype)
        assert computed(clone(sketch).fit(stored), stored).tobytes() == computed_of_a_table(sketch, dtype), dtype


def as_fractions(X):
    return np.vectorize(Fraction, otypes=[object])(X.astype(np.float64))


def rounding(X, W):
    """What a sum of products may be off by in any order, if half the slack of each sketch is to pay for it twice."""
    U = as_fractions(X)
    terms = np.count_nonzero(X, axis=1) + 1
    return (terms * abs(U).sum(axis=1) / 2**53)[:, None] * abs(W).max(axis=0)


@pytest.mark.parametrize(
    ("sketch", "dtype"),
    [(sketch, dtype) for sketch in DENSE for dtype in types_of(sketch) if dtype not in (np.int64, bool)],
    ids=lambda one: getattr(one, "__name__", repr(one)),
)
def test_storage_moves_a_dense_projection_by_its_rounding_only(sketch, dtype):
    """Each component is within ``(n + 1) 2^-53 |u|_1 max |w|`` of the real one."""
    X = table(dtype)
    W = as_fractions(projection_matrix(clone(sketch).fit(X).projection_))
    real, allowed, within = as_fractions(X) @ W, rounding(X, W), set()
    for storage in STORAGE:
        stored = stored_table(storage, dtype)
        found = computed(clone(sketch).fit(stored), stored)
        if found.tobytes() not in within:
            assert (abs(as_fractions(found) - real) <= allowed).all(), storage
            within.add(found.tobytes())


# Neighbours in the table


FORMS = {"array": np.asarray, "csr": sp.csr_array, "shuffled": shuffled, "twice": with_entries_twice}
as_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def small_blocks(monkeypatch):
    """Borders of blocks everywhere, and dense projections made piece by piece."""
    monkeypatch.setattr(random_projection, "_BLOCK_BYTES", 16 * 2 * P)
    monkeypatch.setattr(random_projection, "_BLOCK_ENTRIES", 4 * 8 * 8)
    monkeypatch.setattr(random_projection, "_CACHED_ENTRIES", 0)


@as_form
@exact
def test_the_place_of_a_row_does_not_matter(sketch, form):
    X = table(n_rows=40)
    sketch, stored = clone(sketch).fit(X), FORMS[form]
    together = computed(sketch, stored(X))
    assert (computed(sketch, stored(X[::-1]))[::-1] == together).all()
    assert all((computed(sketch, stored(X[[row]])) == together[row]).all() for row in range(0, 40, 3))


@as_form
@pytest.mark.parametrize("sketch", EXACT + DENSE, ids=repr)
def test_what_other_rows_hold_does_not_matter(sketch, form, small_blocks):
    """Zeros, large numbers or full rows above and below: also where linear algebra rounds by the place of a row."""
    X = table(n_rows=40)
    sketch, stored = clone(sketch).fit(X), FORMS[form]
    alone = computed(sketch, stored(np.where(np.arange(40)[:, None] % 3, X, 1.0)))
    for other in (np.full(P, 1e5), np.eye(P)[4], -X[1]):
        among = computed(sketch, stored(np.where(np.arange(40)[:, None] % 3, X, other)))
        assert (among == alone)[np.arange(40) % 3 > 0].all()


@as_form
@exact
def test_blocks_do_not_matter(sketch, form, request):
    X = table(n_rows=40)
    sketch = clone(sketch).fit(X)
    whole = computed(sketch, FORMS[form](X))
    request.getfixturevalue("small_blocks")
    assert (computed(clone(sketch).fit(X), FORMS[form](X)) == whole).all()


@pytest.mark.parametrize("storage", STORAGE)
def test_scaled_rows_are_vectors_too(storage):
    X, scaler = table(), PublicScaler((-100, 100), feature_range=(-0.3, 0.3))
    stored = STORAGE[storage](X)
    scaled, expected = scaler.fit(stored).transform(stored), scaler.fit(X).transform(X)
    assert np.array_equal(scaled.toarray() if sp.issparse(scaled) else scaled, expected)
    back, expected = scaler.inverse_transform(stored), scaler.inverse_transform(X)
    assert np.array_equal(back.toarray() if sp.issparse(back) else back, expected)


BINNER = PublicBinner(edges=[*-np.logspace(3, -5, 9), 0.0, *np.logspace(-5, 3, 9)], sparse_output=False)


@cache
def binned_table(dtype):
    X = table(dtype)
    return clone(BINNER).fit(X).transform(X.astype(np.float64))


@pytest.mark.parametrize("storage", STORAGE)
def test_binned_rows_are_vectors_too(storage):
    for dtype in TYPES:
        stored = stored_table(storage, dtype)
        assert np.array_equal(clone(BINNER).fit(stored).transform(stored), binned_table(dtype))


MAPS = [BINNER, PublicScaler((-100, 100), fill=7)]


def test_every_data_independent_transformer_is_listed():
    assert not unlisted(DATA_INDEPENDENT, MAPS), "add it to MAPS of tests/test_rows.py"


@as_form
@pytest.mark.parametrize("transformer", MAPS, ids=lambda one: type(one).__name__)
def test_neither_place_nor_other_rows_nor_gaps_in_them_matter_where_values_may_be_missing(transformer, form):
    X = table(n_rows=40)
    transformer, stored = clone(transformer).fit(X), FORMS[form]

    def transformed(rows):
        out = transformer.transform(stored(rows))
        return out.toarray() if sp.issparse(out) else out

    together = transformed(X)
    assert (transformed(X[::-1])[::-1] == together).all()
    kept = np.arange(40) % 3 > 0
    for other in (np.full(P, np.nan), np.full(P, 1e5), np.where(np.arange(P) % 2, np.nan, 0.0)):
        assert (transformed(np.where(kept[:, None], X, other))[kept] == together[kept]).all()


# Each of these was a break


@pytest.mark.parametrize("sketch", [DPSignOPORP(4, random_state=0), iDPSignRP(4, method="rr", projection="oporp")])
def test_two_orders_of_a_row_on_the_edge_of_a_level(sketch, states):
    """Summed in the order of storage, one of them had its bits flipped with 5.2e-3, the other with 2.0e-4."""
    numbers = np.array(
        [float.fromhex(x) for x in ("0x1.a1b089a027525p-2", "0x1.6f0068db8bac7p-10", "0x1.2ef03afb7e911p-1")]
    )
    sums = [(a + b) + c for a, b, c in itertools.permutations(numbers)]
    assert min(sums) <= MARGIN < max(sums)
    sketch = clone(sketch).fit(np.ones((1, 12)))
    code = sketch.projection_.code
    by_bin = np.argsort(code >> 1, kind="stable")
    data = np.tile(numbers, 4) * np.where(code[by_bin] % 2, -1, 1)

    def row(order):
        order = (np.arange(0, 12, 3)[:, None] + order).ravel()
        return sp.csr_array((data[order], by_bin[order], [0, 12]), shape=(1, 12))

    rows = [row(list(order)) for order in itertools.permutations(range(3))]
    levels = [states(sketch, row)[0] for row in rows]
    flipped = [np.prod(sketch.flip_thresholds_[np.abs(level)] / 2.0**64) for level in levels]
    assert max(flipped) == min(flipped)
    assert all((level == levels[0]).all() for level in levels)


def on_one_side(sketch, n):
    """Features of one bin of OPORP whose signs are equal."""
    return np.flatnonzero(sketch.projection_.code == sketch.projection_.code[0])[:n]


def test_a_missing_value_leaves_no_other_row_unchecked():
    """Where scikit-learn is told to assume finite values: rows at distance .2 came out 30 noise scales apart."""
    sketch = DPOPORP(1, random_state=0).fit(np.zeros((1, 9)))
    X = np.zeros((2, 9))
    X[1, on_one_side(sketch, 2)] = 2.0**59, 64.2
    bad = X.copy()
    bad[0, 0] = np.nan
    with config_context(assume_finite=True):
        for form in (np.asarray, sp.csr_array, pd.DataFrame):
            with pytest.raises(ValueError, match="float64 is too coarse"):
                sketch.transform(form(X))
            with pytest.raises(ValueError, match="NaN"):
                sketch.transform(form(bad))


def test_a_missing_value_leaves_no_other_row_below_min_norm():
    sketch = DENSE[5]
    X = table()
    X[1:4], X[5, 3] = 0, np.nan
    with config_context(assume_finite=True), pytest.raises(ValueError, match="NaN"):
        clone(sketch).fit(table()).transform(X)


@pytest.mark.parametrize(
    ("form", "dtype", "large"),
    [(sp.csr_array, np.int64, 2**62), (sp.coo_array, np.float64, 2**63), (sp.coo_array, np.float32, 2**29)],
)
def test_repeated_entries_are_summed_exactly(form, dtype, large):
    """Rows at a distance of 1 came out 242, 484 and 15 noise scales apart."""
    sketch = DPOPORP(1, random_state=0).fit(np.zeros((1, 9)))
    tie = {np.int64: 512, np.float64: 1024, np.float32: 32}[dtype]
    rows = [
        form(sp.csr_array((np.array([large, tie + more, -large], dtype), [0, 0, 0], [0, 3]), shape=(1, 9)))
        for more in (0, 1)
    ]
    first, second = (computed(sketch, row)[0, 0] for row in rows)
    assert abs(first - second) / sketch.scale_ == 1 / sketch.scale_
    assert abs(first) == tie


# The form that all rows are brought to


entries = st.tuples(st.integers(0, 3), st.integers(0, 4), st.floats(allow_nan=False, allow_infinity=False, width=32))


@given(st.lists(entries, max_size=30), st.sampled_from([sp.csr_array, sp.csc_array, sp.coo_array]))
def test_canonical_rows_are_the_exact_sums_in_order(entries, form):
    expected = np.full((4, 5), Fraction(0))
    for row, column, number in entries:
        expected[row, column] += Fraction(number)
    row, column, data = np.array(entries).reshape(-1, 3).T
    out = _rows.canonical_csr(with_entries(form, data, row.astype(int), column.astype(int), (4, 5)))
    assert all((np.diff(out.indices[start:stop]) > 0).all() for start, stop in itertools.pairwise(out.indptr))
    assert (out.toarray() == expected.astype(float)).all()


@pytest.mark.parametrize(
    ("dtype", "numbers", "total"),
    [
        (np.int64, [2**62, 2**62, 1 - 2**62, -(2**62)], 1),
        (np.uint64, [2**64 - 2, 1], 2**64 - 1),
        (np.int8, [100, 100, 100], 300),
        (np.float32, [1.0, 2.0**-40], 1 + 2.0**-40),
        (np.float64, [-1.0, 2.0**-54, 1.0], 2.0**-54),
        (np.longdouble, [1.0, 2.0**-60, -1.0], 2.0**-60),
        (bool, [True, True], 1),
    ],
)
def test_sums_of_every_type_are_exact(dtype, numbers, total):
    X = sp.csr_array((np.array(numbers, dtype), np.zeros(len(numbers), int), [0, len(numbers)]), shape=(1, 2))
    assert _rows.canonical_csr(X).toarray().tolist() == [[total, 0]]
    assert X.nnz == len(numbers)


@pytest.mark.parametrize(("dtype", "numbers"), [(np.uint64, [2**64 - 1, 1]), (np.int64, [-(2**63), -1])])
def test_whole_numbers_in_parts_that_are_too_large_are_refused(dtype, numbers):
    """As floats, those of all other rows beyond 2^53 would be rounded with them."""
    X = sp.csr_array((np.array(numbers, dtype), np.zeros(2, int), [0, 2]), shape=(1, 2))
    with pytest.raises(ValueError, match="too large for 64 bits"):
        _rows.canonical_csr(X)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint16, np.uint64])
def test_an_entry_in_parts_makes_no_floats_of_whole_numbers(dtype):
    numbers = np.array([np.iinfo(dtype).max if dtype is not bool else True, 1, 0], dtype)
    X = sp.csr_array((numbers, [0, 0, 0], [0, 1, 3]), shape=(2, 2))
    rows = _rows.canonical_csr(X)
    assert rows.dtype.kind == np.dtype(dtype).kind and rows.toarray().tolist() == [[int(numbers[0]), 0], [1, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize(
    ("numbers", "message"),
    [([np.nan, 1], "NaN"), ([np.inf, 1], "infinity"), ([np.inf, -np.inf], "infinity"), ([0, 1, np.nan, 2], "NaN")],
)
def test_no_sum_hides_what_is_not_finite(dtype, numbers, message):
    X = sp.csr_array((np.array(numbers, dtype), np.zeros(len(numbers), int), [0, len(numbers)]), shape=(1, 2))
    for stored in (X, X.tocsc(), X.tocoo()):
        with pytest.raises(ValueError, match=message):
            _validation.validate_array(stored, accept_sparse="csr", dtype=_validation.FLOATS)


def test_a_missing_value_leaves_no_other_entry_in_parts():
    """Where missing values are taken: parts of an entry would each be scaled, and moved to a bin, by themselves."""
    X = sp.csr_array((np.array([np.nan, 1.0, 1.0, np.nan, 2.0]), np.array([0, 1, 1, 2, 2]), [0, 5]), shape=(1, 3))
    np.testing.assert_array_equal(_rows.canonical_csr(X).toarray(), [[np.nan, 2.0, np.nan]])


def test_a_sum_too_large_is_not_finite():
    X = sp.csr_array((np.array([1.7e308, 1.7e308, -1.7e308]), np.zeros(3, int), [0, 3]), shape=(1, 2))
    with pytest.raises(ValueError, match="infinity"):
        _validation.validate_array(X, accept_sparse="csr", dtype=_validation.FLOATS)


@pytest.mark.parametrize("index", [-1, 2])
def test_columns_that_do_not_exist_are_refused(index):
    """Where a kernel would read the memory beside W. The error does not tell the column, which is private."""
    X = sp.csr_array((np.ones(2), np.array([0, 1]), [0, 2]), shape=(1, 2))
    X.indices[1] = index
    with pytest.raises(ValueError, match=r"X is damaged: an entry lies in a column that it does not have[.]$"):
        _validation.validate_array(X, accept_sparse="csr", dtype=_validation.FLOATS)


def test_canonical_rows_are_not_copied():
    X = sp.csr_array(sp.random(5, 9, density=0.5, random_state=0))
    for rows in (X, sp.csr_matrix(X)):
        out = _rows.canonical_csr(rows)
        assert type(out) is type(rows)
        assert np.shares_memory(out.data, X.data)
        assert np.shares_memory(out.indices, X.indices)


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("number", [-1, 98765])
def test_damaged_sparse_rows_are_refused(kind, part, number):
    """What scipy takes for granted of them made it read, and write, beside them, and the process died."""
    rows = getattr(sp, f"{kind}_matrix")(np.full((2, 3), 1.0))
    getattr(rows, part)[1] = number
    for estimator in (DPOPORP(2), DPMoments(), PublicScaler((-1, 1))):
        with pytest.raises(ValueError, match="X is damaged"):
            clone(estimator).fit(rows)
