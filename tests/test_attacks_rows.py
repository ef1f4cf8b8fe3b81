"""Attacks on rows, each of which is a vector, whatever its storage and type and the other rows are."""

import contextlib
import inspect
import itertools
import random
import re
import warnings
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from attacks import (
    LAPLACE_SKETCH,
    LEAST,
    X12,
    X200_UNIFORM,
    Y12,
    dense,
    in_fork,
    n_moved,
    private_model,
    shift_in_mu,
    total_of,
)
from sketches import computed
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PublicBinner,
    PublicScaler,
    iDPSignRP,
    make_table_preprocessor,
    privacy_report,
)
from skdprp._command import main
from skdprp._rows import clip_rows
from skdprp.report._data_independent import is_data_independent, remark_on
from skdprp.testing import reproducible_noise
from skdprp.testing._tape import tape_of

_LISTED, _OTHER = 2**60, 2**60 + 3  # whole numbers of which floats know the first alone: the second becomes it
_MODEL = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1]}
BIG = 2**53  # from where on floats are not all whole numbers


def _assert_others_are_as_they_were(steps, tables):
    """Where a total is stated without a word of lists, other rows leave the steps as they did beside another first."""
    y = [0] + [1] * 20 + [0] * (len(tables[0]) - 21)
    others, totals = [], []
    for table in tables:
        model = make_pipeline(steps, AMPClassifier(**_MODEL))
        with suppress(TypeError, ValueError):  # what is refused releases nothing
            totals.append(privacy_report(model, table, y).total)
            others.append(dense(model[:-1].fit_transform(table))[1:])
    if isinstance(tables[0], list):  # whose numbers have no type of their own
        said = "for a list, the type of its numpy array"
        assert all(total is None or said in " ".join(total.assumptions) for total in totals)
    elif len(others) == len(tables) and any(total is not None for total in totals):
        np.testing.assert_array_equal(others[0], others[1])


# Storage: dense, sparse, in parts, in containers


def with_repeated_offsets():
    X = sp.dia_array((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])), shape=(2, 2))
    X.offsets = np.array([0, 0])
    return X, [[4, 0], [0, 6]]


def with_lists_out_of_order():
    X = sp.lil_array((1, 3))
    X.rows[0], X.data[0] = [2, 0, 2], [1.0, 2.0, 4.0]
    return X, [[2, 0, 5]]


def with_flags_that_lie():
    X = sp.csr_array((np.array([1.5, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    X.has_sorted_indices = X.has_canonical_format = True
    return X, [[2, 5.5]]


def with_large_numbers_of_another_byte_order():
    data = np.array([2**60, 7, -(2**60)], dtype=">i8")
    return sp.csr_array((data, np.zeros(3, int), np.array([0, 3])), shape=(1, 2)), [[7, 0]]


def with_python_integers():
    data = np.array([2**80, 3, -(2**80)], dtype=object)
    return sp.csr_array((data, np.zeros(3, int), np.array([0, 3])), shape=(1, 2)), [[3, 0]]


def with_repeated_blocks():
    return sp.bsr_array((np.ones((2, 1, 1)), np.array([0, 0]), np.array([0, 2])), shape=(1, 1)), [[2]]


@pytest.mark.parametrize(
    "rows",
    [
        with_repeated_offsets,
        with_lists_out_of_order,
        with_flags_that_lie,
        with_large_numbers_of_another_byte_order,
        with_python_integers,
        with_repeated_blocks,
    ],
)
def test_sparse_rows_made_by_hand_are_the_vectors_that_they_sum_to(rows):
    """Entries that scipy itself would sum in another order, in another type, or not at all."""
    X, expected = rows()
    sketch = DPRandomProjection(projection="identity", max_change=10.0).fit(X)
    assert np.array_equal(computed(sketch, X), expected)


ROWS = np.array([[1.0, 0.0, 2.5], [3.0, -1.0, 0.0], [0.0, 0.0, 7.0]])


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray(ROWS),
        np.ma.array(ROWS),
        np.array([[Decimal(str(value)) for value in row] for row in ROWS]),
        np.array([[Fraction(value) for value in row] for row in ROWS]),
        [pd.Series(row) for row in ROWS],
        ROWS.astype(">f8"),
        ROWS.astype(np.longdouble),
        ROWS.astype(str).tolist(),
        pd.DataFrame(ROWS).astype("Float64"),
        pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(ROWS)),
        sp.bsr_array(ROWS),
        sp.dia_array(ROWS),
        sp.lil_matrix(ROWS),
    ],
    ids=range(13),
)
def test_rows_in_odd_containers_are_projected_to_the_same_numbers(form):
    sketch = DPOPORP(2, random_state=0).fit(ROWS)
    np.testing.assert_array_equal(sketch.project_queries(form), sketch.project_queries(ROWS))


def _forms(X):
    yield from (np.asfortranarray(X), X.tolist(), X.astype(object), X.astype(np.longdouble), X.astype(">f8"))
    yield np.repeat(X, 2, axis=1)[:, ::2]
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array, sp.bsr_array, sp.dia_array):
        yield kind(X)
    stored = sp.csr_matrix(np.ones(X.shape))
    stored.data = X.ravel().copy()  # also zeros, and both kinds of them
    yield stored
    halves = np.concatenate([X.ravel() / 2 + 64, X.ravel() / 2, np.full(X.size, -64.0)])
    places = [np.tile(index.ravel(), 3) for index in np.indices(X.shape)]
    order = np.random.default_rng(0).permutation(halves.size)
    yield sp.coo_matrix((halves[order], [place[order] for place in places]), shape=X.shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(3, random_state=0),
        DPRandomProjection(3, projection="very_sparse", density=0.5, random_state=0),
        DPRandomProjection(projection="identity"),
        DPSignOPORP(3, max_change=0.1, random_state=0),
        iDPSignRP(3, projection="oporp", method="rr", random_state=0),
    ],
    ids=repr,
)
def test_rows_in_any_form_reach_the_noise_alike(sketch):
    """Dense or sparse, in any order, with stored zeros and entries in parts: the last bit is the same."""
    X = np.random.default_rng(0).integers(-64, 64, (30, 6)) / 16
    X[::3, ::2] = -0.0
    sketch.fit(X)
    plain = tape_of(lambda: sketch.transform(X))
    for form in _forms(X):
        other = tape_of(lambda form=form: sketch.transform(form))
        assert all(np.array_equal(a[2], b[2]) for a, b in zip(plain, other, strict=True))


def numbers_that_double_a_rounding(times):
    """Numbers whose running sum, begun at 0 or at 1, ends at -2**(times - 1) or at as much above zero.

    In each binade the lower sum has an odd last bit, so that the upper one, half a step above, rounds up to the next.
    """
    numbers, low, high = [], 0.0, 1.0
    for exponent in range(53, 53 + times):
        numbers.append(2.0**exponent + 2.0 ** (exponent - 52) - low)
        low, high = low + numbers[-1], high + numbers[-1]
    return [*numbers, -low, (low - high) / 2]


@pytest.mark.parametrize("n_entries", [46340, 46341, 65536, 92681])
@pytest.mark.parametrize("sketch", [DPOPORP(1), DPOPORP(1, noise="laplace"), DPSignOPORP(1)], ids=repr)
def test_rows_of_very_many_entries_are_checked_as_others_are(sketch, n_entries):
    """From 46341 entries in a sparse row on, their number squared has more than 31 bits, and no row was refused.

    The two rows differ by 1 in one coordinate, and their sums by 2^40: noise of scale 4.2 lay around -5.5e11 or 5.5e11,
    and one bit of epsilon = 1 was positive with probability 1.1e-7 or 1 - 1.1e-7.
    """
    sketch = clone(sketch).set_params(random_state=0).fit(sp.csr_array((1, n_entries)))
    numbers = numbers_that_double_a_rounding(40)
    rows = np.full((2, n_entries), 2.0**-10)
    rows[:, 0], rows[:, 1 : 1 + len(numbers)] = [LEAST, 1.0], numbers
    rows *= 1 - 2 * (sketch.projection_.code & 1)
    assert abs(rows[0] - rows[1]).sum() <= 1.0
    for form in (sp.csr_array, sp.csc_array, np.asarray):
        try:
            before = computed(sketch, form(rows))
        except ValueError:
            continue
        assert abs(before[0] - before[1]) <= 1.001


@pytest.mark.filterwarnings("ignore")
def test_damaged_columns_are_refused():
    """A row number beyond the rows is refused before scipy writes beside its memory: a process may die of it."""
    X = sp.csc_matrix(np.ones((2, 3)))
    X.indices[1] = 2_000

    def _refuse():
        with pytest.raises(ValueError):
            DPOPORP(2).fit(X)

    assert in_fork(_refuse) == 0


def with_one_entry_in_parts(rows):
    """Return float32 rows as CSR, and the same rows where the first entry of the first is stored as two halves."""
    whole = sp.csr_array(rows.astype(np.float32))
    data, indices, indptr = (
        np.insert(whole.data, 0, whole.data[0] / 2),
        np.insert(whole.indices, 0, 0),
        whole.indptr + 1,
    )
    data[:2], indptr[0] = whole.data[0] / 2, 0
    return whole, sp.csr_array((data, indices, indptr), shape=whole.shape)


@pytest.mark.parametrize(
    "public",
    [
        lambda rows: DPSGDClassifier(delta=1e-5, n_epochs=2, classes=[0, 1]).fit(rows, Y12).scale_,
        lambda rows: str(DPSGDClassifier(delta=1e-5, n_epochs=2, classes=[0, 1]).fit(rows, Y12).guarantee_),
        lambda rows: MIDPRegressor().sketch(rows, Y12)[0].dtype,
        lambda rows: MIDPRegressor(mechanism="additive").sketch(rows, Y12)[0].dtype,
    ],
    ids=["scale", "guarantee", "projection", "copy"],
)
def test_a_row_with_an_entry_in_parts_is_not_told_by_the_type_of_a_release(public):
    """Repeated entries are summed in float64, and one such row had all rows computed, or released, in that type.

    The noise of a descent was 52.76 instead of 52.84, for sure: no epsilon allows that of two rows that are equal.
    """
    whole, parts = with_one_entry_in_parts(X12)
    assert np.array_equal(whole.toarray(), parts.toarray()) and whole.dtype == parts.dtype
    assert public(whole) == public(parts)


def test_a_row_with_an_entry_in_parts_moves_no_other_row_that_is_projected():
    """Projected rows are released in the type of all rows: one row had the others rounded to it, or not.

    A model of the projections has no room for that, which is up to 3e-8 of the norm of each row, all in one direction
    where rows are equal.
    """
    whole, parts = with_one_entry_in_parts(X12)
    projection = DPPCA(2, delta=1e-6).fit(whole)
    assert np.array_equal(projection.transform(whole)[1:], projection.transform(parts)[1:])


def test_weights_beyond_floats_do_not_tell_which_entries_are_stored():
    """Infinite steps times 0 are nan, and nan times a row spreads to the columns that sparse rows have entries in."""
    rows = np.zeros((50, 40))
    rows[:, :10] = np.random.default_rng(0).normal(size=(50, 10))
    labels, known = np.arange(50) % 2, {"epsilon": 0.1, "delta": 1e-6, "classes": [0, 1], "preconditioner": False}
    descent = DPSGDClassifier(n_epochs=20, momentum=0.0, learning_rate=1.7e307, **known)
    for seed in range(8):
        with reproducible_noise(seed):
            try:
                descent.fit(sp.csr_array(rows), labels)
            except ValueError:  # of the rate, whatever the rows are
                continue
        assert np.isfinite(descent.coef_).all()


# Types of columns


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"a": pd.array([0, 2**24 + 1], dtype="Int64"), "b": np.array([0, 1], "f4")}, 2**24 + 1),
        ({"a": np.array([0, 2**24 + 1]), "b": np.array([False, True])}, 2**24 + 1),
        ({"a": pd.arrays.SparseArray([0, 2**24 + 1]), "b": np.array([0, 1], "f4")}, 2**24 + 1),
        ({"a": pd.Categorical([3, 2**24 + 1]), "b": np.array([0, 1], "f4")}, 2**24 + 1),
        ({"a": pd.array([0, 2**53 + 1], dtype="Int64")}, 2.0**53),
    ],
)
def test_columns_of_mixed_types_are_rounded_once_to_float64(columns, expected):
    """No conversion by way of float32 or of a common type, which would round more than the domain allows for."""
    rows = pd.DataFrame(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sketch = DPRandomProjection(projection="identity", max_change=1e6).fit(rows)
        assert computed(sketch, rows)[1, 0] == expected


LARGEST_OF_TYPES = {"int8": 127, "int32": 2**31 - 1, "int64": 2**53 - 1, "uint32": 2**32 - 1}
LARGEST_OF_TYPES |= {"float32": float(np.float32(0.1)), "float64": 0.1}


def of_pandas(columns, kind="{}"):
    return pd.DataFrame({str(i): pd.Series([value], dtype=kind.format(name)) for i, (name, value) in columns})


def of_polars(columns):
    polars = pytest.importorskip("polars")
    kinds = {
        name: getattr(polars, name.capitalize().replace("int", "Int").replace("Uint", "UInt"))
        for name in LARGEST_OF_TYPES
    }
    return polars.DataFrame({str(i): polars.Series([value], dtype=kinds[name]) for i, (name, value) in columns})


def of_arrow(columns):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({str(i): arrow.array([value], getattr(arrow, name)()) for i, (name, value) in columns})


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("table_of", [of_pandas, partial(of_pandas, kind="Sparse[{}]"), of_polars, of_arrow])
def test_columns_of_any_two_types_are_rounded_once_to_float64(table_of):
    """Whatever the type that both have in common in that library: the largest integers, and a tenth."""
    sketch = DPRandomProjection(projection="identity", max_change=1e9).fit(np.zeros((1, 2)))
    for pair in itertools.product(LARGEST_OF_TYPES.items(), repeat=2):
        assert computed(sketch, table_of(list(enumerate(pair)))).tolist() == [[float(value) for _, value in pair]]


@pytest.mark.parametrize("narrow", ["float32", "Float32", "float16", "Sparse[float32]"])
@pytest.mark.parametrize("wide", ["int32", "int64", "UInt64", "object"])
def test_whole_numbers_beside_narrow_floats_keep_all_digits(wide, narrow):
    """Rows one apart stay one apart: in float32 they would be equal, or 64 apart."""
    frame = pd.DataFrame({"a": pd.Series([2**30 + 1], dtype=wide), "b": pd.Series([1.5], dtype=narrow)})
    sketch = DPRandomProjection(projection="identity", max_change=1e3).fit(frame)
    assert sketch.project_queries(frame)[0, 0] == 2**30 + 1


@pytest.mark.parametrize("kind", [DPOPORP, DPSignRP, PublicScaler])
def test_complex_columns_are_refused_beside_nullable_ones(kind):
    """Pandas took the real parts, with a warning: two rows that differ in the other part were one."""
    frame = pd.DataFrame({"a": np.array([1 + 2j, 0.5]), "b": pd.array([1, 0], dtype="Int64")})
    with pytest.raises(ValueError, match="Complex data"):
        (kind((0, 1)) if kind is PublicScaler else kind(2)).fit(frame)


@pytest.mark.parametrize(
    "step",
    [
        OneHotEncoder(categories=[[0, 1], [0, 1]], handle_unknown="ignore", sparse_output=False),
        OrdinalEncoder(categories=[[0, 1], [0, 1]], handle_unknown="use_encoded_value", unknown_value=-1),
        SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
        GaussianRandomProjection(2, random_state=0),
    ],
)
def test_no_step_that_learns_nothing_keeps_the_type_of_a_column(step):
    """One value that is no whole number, or a large one, gives a column another type, and what is kept of a fit too."""
    kept, totals = set(), []
    for value in (1, 0.5, 40_000):
        column = np.array([value, *[0, 1] * 5, 1])
        column = column.astype(np.float32 if value == 0.5 else np.int8 if value == 1 else np.int32)
        table = pd.DataFrame({"a": column, "b": np.arange(12, dtype=np.float32) % 2})
        fitted = make_pipeline(step, private_model()).fit(table, Y12)
        state = {name: value for name, value in vars(fitted[0]).items() if name.endswith(("_", "dtype"))}
        arrays = [part for value in state.values() for part in (value if isinstance(value, list) else [value])]
        kept.add(str([getattr(part, "dtype", part) for part in arrays if not isinstance(part, int | float)]))
        totals.append(privacy_report(fitted).total)
    assert len(kept) == 1 or all(total is None or "type" in str(total.assumptions) for total in totals)


def test_the_type_of_the_rows_is_stated_to_be_public_where_it_sets_the_noise():
    """Noise is more where rows of float32 are summed; one large number makes a frame of columns float64."""
    scales = set()
    for value in (1, 40_000):
        column = np.array([value, *[1] * 11]).astype(np.int8 if value == 1 else np.int32)
        table = pd.DataFrame({"a": X12[:, 0].astype(np.float32), "b": column})
        fitted = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=5).fit(table, Y12)
        scales.add(fitted.scale_)
    known = fitted.guarantee_.assumptions + fitted.guarantee_.not_covered
    assert len(scales) == 1 or any("type" in text for text in known)


def test_columns_chosen_by_type_tell_of_a_missing_value():
    """One missing value makes a column of integers one of floats: coef_ has another shape."""
    columns = make_column_selector(dtype_include="int64")
    filled = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
    shapes = []
    for last in (11, np.nan):
        table = pd.DataFrame({"a": [*range(11), last], "b": range(12)})
        fitted = make_pipeline(ColumnTransformer([("n", filled, columns)], sparse_threshold=0), private_model()).fit(
            table, Y12
        )
        shapes.append(fitted[-1].coef_.shape)
    assert shapes[0] == shapes[1] or privacy_report(fitted).total is None


@pytest.mark.parametrize("step", ["passthrough", PublicScaler((-2, 2)), Normalizer(), Binarizer()])
def test_a_column_transformer_keeps_how_many_entries_of_sparse_rows_are_stored(step):
    """One row with more entries, 27 of 100 or 32, and `sparse_output_` is another, for any step that keeps zeros."""
    few = np.arange(100).reshape(10, 10) % 4 == 0
    few[0, 1:9:4] = True
    kept = []
    for row in (few[0], True):
        rows = few.copy()
        rows[0] = row
        fitted = make_pipeline(ColumnTransformer([("s", step, slice(0, 10))]), private_model())
        kept.append(fitted.fit(sp.csr_array(rows.astype(float)), np.arange(10) % 2)[0].sparse_output_)
    assert kept[0] == kept[1] or privacy_report(fitted).total is None


@pytest.mark.parametrize(
    ("step", "cell", "firsts"),
    [
        (OneHotEncoder(categories=[[7, _LISTED]], handle_unknown="ignore", sparse_output=False), _OTHER, (7, 0.5)),
        (
            OrdinalEncoder(categories=[[7, _LISTED]], handle_unknown="use_encoded_value", unknown_value=-1),
            _OTHER,
            (7, 0.5),
        ),
        (Binarizer(threshold=0.1), np.float32(0.1), (np.float32(0.5), 0.5)),
    ],
)
def test_no_number_of_a_list_decides_how_those_of_other_rows_are_read(step, cell, firsts):
    """Numbers of a list have no type of their own: numpy takes one for all that follows from each of them."""
    tables = [[[first]] + [[cell]] * 20 + [[firsts[0]]] * 9 for first in firsts]
    _assert_others_are_as_they_were(step, tables)


def test_odd_target_moves_no_other_target():
    """Of arrays of objects and of columns with a type, and of lists of numbers, each target is converted by itself."""
    numbers = [0.1, np.float32(0.3), 2**70 + 1, BIG + 1, True, np.longdouble(1) / 3, Fraction(1, 7), 0.5]
    odd = [0, -0.0, np.float16(0.3), np.int8(-3), 2**64 - 1, 2**80, np.bool_(0), Fraction(1, 9), np.longdouble("0.3")]
    X = np.eye(8)

    def _objects(values):
        made = np.empty(8, dtype=object)
        made[:] = values
        return made

    def _read(y):
        return DPMoments(target_bounds=(0, 1))._validate(X, y, reset=True)[1]

    containers = [list, tuple, _objects, lambda values: pd.Series(values, dtype=object)]
    containers += [lambda values, t=t: pd.Series(list(map(float, values)), dtype=t) for t in ("Float64", "Float32")]
    for make, value in product(containers, odd):
        assert np.array_equal(_read(make(numbers))[1:], _read(make([value, *numbers[1:]]))[1:])


@pytest.mark.filterwarnings("ignore:This release has no guarantee")
@pytest.mark.parametrize("n_targets", [1, 2])
def test_text_among_targets_moves_no_other_target(n_targets):
    """Numpy makes a text of every number of a list in which one is a text, with fewer digits than it had.

    A list with a text is refused, or each of its cells is read by itself.
    """
    n, number, sums = 4000, np.float16(0.7), []
    for first in (number, "0.7"):
        y = [first, *[number] * (n - 1)]
        y = y if n_targets == 1 else [[one, 0.5] for one in y]
        model = DPMoments(epsilon=1e9, delta=1e-6, target_bounds=(0, 1), fit_intercept=False)
        try:
            moments = model.fit(np.ones((n, 1)), y).moments_
        except (TypeError, ValueError):
            return
        sums.append(moments.cross[0, 0])
    assert model.scale_ < 1e-3
    assert abs(sums[0] - sums[1]) < 0.05  # of one target by itself 0.0002, and of all of them 0.8


def test_two_spellings_of_a_cell_give_one_model(tmp_path, monkeypatch):
    """Clipped, filled in or unknown, a cell leaves nothing of how it was written, or of which of these it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skdprp._validation.uuid4", lambda: SimpleNamespace(hex=""))
    usual = {"number": "0.25", "whole": "1", "filled": "5", "kind": "A", "code": "1", "label": "1"}
    others = [usual | {"label": "0"}, usual | {"kind": "B", "code": "2"}, usual | {"filled": "", "number": "1"}] * 3
    bounds = ["--bounds", "number=0:1", "whole=0:1", "filled=0:10"]
    options = [*bounds, "--numbers", "scaled", "--fill", "filled=5", "--categories", "kind=A,B", "code=1,2"]

    def model_of(**cells):
        pd.DataFrame([*others, usual | cells]).to_csv("rows.csv", index=False)
        with reproducible_noise(0):
            main(["fit", "rows.csv", "--target", "label", "--classes", "0,1", "--force", *options])
        return Path("skdprp_model.npz").read_bytes()

    spellings = {  # of each column one cell: all of them are spelled anew at once
        "number": ("2", "1.0", "1e300", "9223372036854775808", "18446744073709551616"),
        "whole": ("2", "9223372036854775808", "18446744073709551616", "1" + "0" * 200),
        "filled": ("5", "5.0", "", "NA"),
        "kind": ("C", "", "1", "True"),
        "code": ("3", "x", "", "9223372036854775808", "1e-400", "inf", "-1e400"),
        "label": ("1", "1.0", "+1", " 1"),
    }
    tables = [{name: some[place % len(some)] for name, some in spellings.items()} for place in range(7)]
    assert len({model_of(**cells) for cells in tables}) == 1


# Missing values


FILLS_SPLINES = "handle_missing" in inspect.signature(SplineTransformer).parameters
needs_missing_splines = pytest.mark.skipif(not FILLS_SPLINES, reason="These splines refuse missing values.")


@needs_missing_splines
@pytest.mark.parametrize("extrapolation", ["continue", "periodic", "constant", "linear"])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_missing_values_are_not_encoded_by_the_least_value_of_other_rows(extrapolation, sparse_output):
    """Of sparse splines, scikit-learn 1.9 put the splines of the least value of a column where one was missing."""
    knots = np.tile([[0.0], [1.0], [2.0], [3.0], [4.0]], 2)
    known = {"extrapolation": extrapolation, "handle_missing": "zeros", "sparse_output": sparse_output}
    rows = np.full((30, 2), 3.0)
    rows[1:, 1] = np.nan
    neighbours = rows.copy()
    neighbours[0, 1] = 1.0
    model = make_pipeline(
        SplineTransformer(degree=1, knots=knots, **known), AMPClassifier(delta=1e-6, classes=[0, 1], max_norm=2.0)
    ).fit(rows, np.arange(30) % 2)
    assert total_of(model) is None or n_moved(model[0], rows, neighbours) == 0


LARGEST_INT64 = 2**63 - 1


def _table_of_codes(first):
    """A categorical column of whole numbers, beside one of numbers; the types do not depend on the first code."""
    codes = pd.Categorical([first] + [LARGEST_INT64] * 59, categories=np.array([0, 1, LARGEST_INT64]))
    return pd.DataFrame({"code": codes, "one": np.ones(60, "int64")})


@pytest.mark.parametrize(
    "step",
    [
        PublicScaler((0, LARGEST_INT64)),
        PublicBinner((0, LARGEST_INT64), sparse_output=False),
        DPSignOPORP(8, max_change=1e17, random_state=0),
        DPOPORP(2, max_change=1e18, random_state=0),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_missing_category_of_a_frame_does_not_change_the_numbers_of_other_rows(step):
    """Frames made int64 of codes with a missing one by way of floats, in which the largest ones overflow."""
    rows, neighbours = _table_of_codes(0), _table_of_codes(None)
    assert rows.dtypes.equals(neighbours.dtypes)
    released = []
    for X in (rows, neighbours):
        with reproducible_noise(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a seed, and of casts
            try:
                released.append(dense(step.fit(rows).transform(X)))
            except (TypeError, ValueError):
                return  # one that is refused moves no other
    assert np.array_equal(released[0][1:], released[1][1:])


@pytest.mark.parametrize("step", [Binarizer(), Normalizer("l1")], ids=lambda step: type(step).__name__)
def test_what_scikit_learn_makes_of_such_a_frame_is_assumed_in_print(step):
    """Its steps convert frames by themselves, of which the library sees nothing."""
    model = make_pipeline(step, DPOPORP(2, max_change=1e18, random_state=0)).fit(_table_of_codes(0))
    name = type(step).__name__.lower()
    said = f"{name}: transforms rows one by one, and equal rows alike however they are stored; "
    said += "no row decides the output type; dask rows have a fixed order"
    assert said in total_of(model).assumptions


def test_a_missing_category_does_not_turn_the_gradients_of_all_other_rows():
    """Labels are all alike, so that the weight of the column of codes has the sign of the codes."""
    y, signs = np.ones(60, int), []
    y[0] = 0
    for first in (0, None):
        model = AMPClassifier(epsilon=50.0, delta=1e-6, classes=[0, 1], fit_intercept=False)
        with reproducible_noise(0):
            try:
                signs.append(np.sign(model.fit(_table_of_codes(first), y).coef_[0, 0]))
            except (TypeError, ValueError):
                return
    assert signs[0] == signs[1]


def test_a_missing_category_does_not_turn_the_targets_of_all_other_rows():
    """A table of targets is converted as one of features is."""
    X, intercepts = np.random.default_rng(0).uniform(size=(60, 2)), []
    for first in (0, None):
        with reproducible_noise(0):
            try:
                model = DPRidge(target_bounds=(-1, 1), epsilon=50.0).fit(X, _table_of_codes(first))
            except (TypeError, ValueError):
                return
        intercepts.append(model.intercept_[0])
    assert abs(intercepts[0] - intercepts[1]) < 0.5


@pytest.mark.parametrize("n_rows", [10, 100, 1000])
@pytest.mark.parametrize(
    "encoder",
    [
        lambda known: OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False),
        lambda known: OrdinalEncoder(categories=known, handle_unknown="use_encoded_value", unknown_value=-1),
    ],
)
def test_an_unknown_number_does_not_decide_if_another_is_known(n_rows, encoder):
    """Unsigned numbers were compared with signed ones as floats, but exactly where any of a column was unknown."""
    far = 2**60
    categories = [2**53, *range(far, far + 13)]
    fitted = encoder([categories]).fit(np.array([[2**53]]))
    rows = np.array([[far], [2**53 + 1]] + [[far + 1]] * (n_rows - 2), dtype=np.uint64)
    neighbours = rows.copy()
    neighbours[0] = 7
    model = make_pipeline(fitted, DPOPORP(1, random_state=0)).fit(np.array([[2**53]]))
    assert total_of(model) is None or n_moved(model[0], rows, neighbours) == 0


@needs_missing_splines
def test_splines_say_that_a_missing_value_may_change_their_type():
    """One null in a column of small integers of polars makes all splines float32: an imputer says so."""
    pl = pytest.importorskip("polars")
    splines = SplineTransformer(knots=np.array([[0.0], [1.0], [2.0], [4.0]]), handle_missing="zeros")
    types = set()
    for first in (1, None):
        rows = pl.DataFrame({"a": pl.Series([first, 3, 2, 0], dtype=pl.Int8)})
        types.add(splines.fit(rows).transform(rows).dtype)
    assert len(types) == 1 or not is_data_independent(splines) or "type" in remark_on(splines)


@pytest.mark.parametrize("known", [["a", "b", None, np.nan], [0, 1.5, 2**50], ["1", ""]])
def test_what_is_unknown_of_objects_is_so_whatever_other_rows_hold(known):
    """Cells of all kinds, known and unknown, beside a first row that is known, unknown or missing."""
    cells = [0, 0.0, False, 1, True, 1.5, "a", "b", "", None, np.nan, float("nan"), 2**70, -0.0]
    encoder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
    encoder.fit(np.array([[known[0]]], dtype=object))
    assert is_data_independent(encoder)
    rows = np.array([[known[0]]] + [[cell] for cell in cells], dtype=object)
    for first in cells:
        neighbours = rows.copy()
        neighbours[0, 0] = first
        assert n_moved(encoder, rows, neighbours) == 0


KNOTS = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])


@pytest.mark.skipif(not FILLS_SPLINES, reason="splines take missing values from scikit-learn 1.9 on")
@pytest.mark.parametrize("extrapolation", ["continue", "periodic", "error", "constant", "linear"])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_missing_value_of_a_spline_is_not_a_value_of_another_row(extrapolation, sparse_output):
    """A step without a warning in its report treats each row by itself: one row replaced moves no other row.

    Sparse splines put the least value of all rows in the place of a missing one, in all columns but the first.
    """
    known = {"knots": KNOTS, "extrapolation": extrapolation, "sparse_output": sparse_output, "degree": 1}
    splines = SplineTransformer(handle_missing="zeros", **known)
    seen = []
    for value in (0.05, 0.95):
        X = np.full((50, 2), 0.5)
        X[1:, 1], X[0, 1] = np.nan, value
        model = make_pipeline(clone(splines), DPRidge(target_bounds=(0, 1), epsilon=1.0, delta=1e-6))
        rows = model.fit(X, X[:, 0])[0].transform(X)
        seen.append((rows.toarray() if sp.issparse(rows) else rows)[1:])
    assert np.array_equal(*seen) or total_of(model) is None


@pytest.mark.parametrize(
    ("given", "categories"),
    [
        (polars.Series("a", [True, False] * 20, dtype=polars.Boolean), [0, 1]),
        (pd.Series([1, 2] * 20, dtype=pd.CategoricalDtype([1, 2, 3])), [1, 2, 3]),
        (pd.Series([1, 2] * 20, dtype=pd.CategoricalDtype([1, 2, 3])), [1.0, 2.5, 3.0]),
    ],
)
def test_one_missing_category_changes_neither_names_nor_other_rows(given, categories):
    """The type of such a column is the same with a missing value and without, and so is all that is made of it."""
    frame, seen = (polars.DataFrame if isinstance(given, polars.Series) else pd.DataFrame), []
    for first in (given[0], None):
        values = [first, *given.to_list()[1:]]
        again = type(given)("a", values, dtype=given.dtype) if frame is polars.DataFrame else None
        table = frame({"a": pd.Series(values, dtype=given.dtype) if again is None else again})
        preprocessor = make_table_preprocessor(categories={"a": categories}).fit(table)
        seen.append((list(preprocessor.get_feature_names_out()), dense(preprocessor.transform(table))[1:].tolist()))
    assert seen[0] == seen[1]


def test_missing_whole_number_rounds_no_other_category():
    """Categories beyond 2^53 are told apart with a missing value among them as without one."""
    values = [BIG + 1] * 300 + [BIG + 3] * 200
    for first, make in product((BIG + 1, None), (DPHistograms, DPBinner)):
        ids = pd.Series([first, *values[1:]], dtype=pd.CategoricalDtype([BIG, BIG + 1, BIG + 2, BIG + 3, BIG + 4]))
        released = make(epsilon=50.0, delta=1e-6).fit(pd.DataFrame({"id": ids})).histograms_.counts("id")
        assert set(released) == {BIG + 1, BIG + 3}  # of noise with a standard deviation below 1


def test_missing_value_changes_no_type_of_public_steps():
    """Noise may depend on the type of rows, which a missing value therefore leaves as it is."""
    frames = [polars.DataFrame, pd.DataFrame]
    types = [
        (getattr(polars, t) for t in ("Int8", "Int16", "Int64", "UInt64", "Float32", "Boolean")),
        ("Int8", "Int64", "UInt64", "Float32", "Float64", "boolean"),
    ]
    steps = [PublicScaler((0, 200), fill=0.0), PublicBinner((0, 200), n_bins=7, sparse_output=False)]
    for frame, of_frame in zip(frames, types, strict=True):
        series = polars.Series if frame is polars.DataFrame else pd.Series
        for dtype, step in product(of_frame, steps):
            base = [True, False, True] if "ool" in str(dtype) else [1, 2, 100]
            tables = [frame({"a": series(one, dtype=dtype)}) for one in (base, [None, *base[1:]])]
            seen = {step.fit(X).transform(Z)[1:].tobytes() for X, Z in product(tables, tables)}
            assert len(seen) == 1


@pytest.mark.parametrize("kind", ["Int64", "UInt64"])
def test_no_missing_cell_decides_how_categories_of_other_rows_are_read(kind):
    """Whole numbers of polars are integers where none is missing, and floats where one is: ids beyond 2^53 change."""
    pl = pytest.importorskip("polars")
    tables = [
        pl.DataFrame({"id": pl.Series([first] + [_OTHER] * 20 + [7] * 9, dtype=getattr(pl, kind)), "age": [0.5] * 30})
        for first in (7, None)
    ]
    steps = make_table_preprocessor({"age": (0, 1)}, categories={"id": [7, _LISTED]})
    _assert_others_are_as_they_were(steps, tables)


_KINDS = ("Int8", "Int16", "Int64", "UInt64", "Float32", "boolean", "int64[pyarrow]", "float[pyarrow]")


@pytest.mark.parametrize("kind", _KINDS)
def test_no_missing_cell_moves_numbers_of_other_rows(kind):
    """Columns of pandas that have a value for what is missing keep their type, and come out in one."""
    pd = pytest.importorskip("pandas")
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    cells = {"boolean": [True, False, True], "Float32": [0.1, 0.3, 1.5], "float[pyarrow]": [0.1, 0.3, 1.5]}.get(
        kind, [1, 2, 100] if kind in ("Int8", "Int16") else [2**60 + 1, 2**53 + 1, 3]
    )
    scaler = PublicScaler((0, 2.0**61), fill="middle")
    binner = PublicBinner(edges=[0, 0.3, 2.0**53 + 2, 2.0**60, 2.0**61], sparse_output=False)
    for step in (scaler, binner):
        one, other = (
            step.fit_transform(pd.DataFrame({"a": pd.array([first, *cells], dtype=kind), "b": [1.0] * 4}))
            for first in (cells[0], None)
        )
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one[1:], other[1:])


# No row moves another one


@pytest.mark.filterwarnings("ignore")  # of numbers beyond all floats
def test_one_row_moves_no_other_row_of_steps_that_a_report_vouches_for():
    """Of 300 steps with parameters at random, whatever the rows hold."""
    rng, n_worked = np.random.default_rng(0), 0

    def _any(*values):
        return values[rng.integers(len(values))]

    def _step(d):
        listed = [sorted({float(x) for x in rng.integers(-2, 3, 3)}) for _ in range(d)]
        knots = np.sort(rng.normal(size=(4, d)), axis=0)
        extrapolation = _any("error", "constant", "linear", "continue", "periodic")
        return _any(
            Binarizer(threshold=_any(0.0, 0.5)),
            Normalizer(norm=_any("l1", "l2", "max")),
            PolynomialFeatures(degree=_any(1, 2, (2, 3)), order=_any("C", "F")),
            SplineTransformer(knots=knots, degree=_any(0, 1, 3), extrapolation=extrapolation, sparse_output=True),
            OneHotEncoder(categories=listed, handle_unknown="ignore", sparse_output=_any(True, False)),
            OrdinalEncoder(categories=listed, handle_unknown="use_encoded_value", unknown_value=_any(-1, np.nan)),
            GaussianRandomProjection(1, random_state=0),
        )

    for _ in range(300):
        d, n_rows = int(rng.integers(1, 4)), _any(2, 5, 40)
        step, place = _step(d), rng.integers(n_rows)
        cells = [np.nan, np.inf, 1e308, 5e-324, -0.0, 0.0, 1.0, -1.0, 100.0, *rng.normal(size=9)]
        a = rng.choice(cells[_any(0, 4, 5) :], (n_rows, d))
        b, kept = a.copy(), np.arange(n_rows) != place
        b[place] = rng.choice(cells[4:], d)
        seen = []
        assert is_data_independent(step)
        for fitted_on in (a, b):
            with suppress(ValueError):
                fitted = clone(step).fit(fitted_on)
                for X in (a, b):
                    with suppress(ValueError):
                        rows = fitted.transform(X)
                        seen.append((rows.toarray() if sp.issparse(rows) else rows)[kept])
        n_worked += bool(seen)
        assert all(np.array_equal(seen[0], one, equal_nan=True) for one in seen)
    assert n_worked > 100


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "step",
    [
        AdditiveChi2Sampler(sample_steps=3),
        Binarizer(threshold=1 / 3),
        GaussianRandomProjection(3, random_state=0),
        Normalizer(),
        PolynomialFeatures(4),
        RBFSampler(gamma=0.3, n_components=7, random_state=0),
        SparseRandomProjection(3, density=0.5, random_state=0),
        SplineTransformer(knots=np.tile([[0.0], [0.5], [2.0]], 5), extrapolation="linear"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_round_each_row_alike_whatever_the_first_one_is(step, dtype):
    """Also where numbers are picked out and computed side by side, as the logarithms of nonzero ones are."""
    rows = np.random.default_rng(0).uniform(size=(41, 5)).astype(dtype)
    step.fit(rows)
    for first in ([0.0] * 5, [0.0, 1e30, 0.0, 1e-40, 1.0], [1.0] * 5, [0.0, 0.0, 0.0, 0.0, 1e8]):
        neighbours = rows.copy()
        neighbours[0] = first
        assert n_moved(step, rows, neighbours) == 0
        if not isinstance(step, SplineTransformer):
            assert n_moved(step, sp.csr_array(rows), sp.csr_array(neighbours)) == 0


GRID = np.array([[0.0] * 4, [0.5] * 4, [4.0] * 4])
LISTED = [[0.0, 1.0, 2.0]] * 4


@pytest.mark.parametrize("changed", [[3.0, 1.0, 0.0, 2.0], [0.0] * 4, [2.0, 1e-310, 1.5, 0.25]])
@pytest.mark.parametrize(
    "step",
    [
        AdditiveChi2Sampler(),
        FeatureUnion([("a", Normalizer()), ("b", "passthrough")], transformer_weights={"a": 2.0}),
        FunctionTransformer(np.clip, kw_args={"a_min": 0.5, "a_max": 3}),
        OneHotEncoder(categories=LISTED, handle_unknown="ignore"),
        OneHotEncoder(categories=LISTED, handle_unknown="infrequent_if_exist", sparse_output=False),
        OrdinalEncoder(categories=LISTED, handle_unknown="use_encoded_value", unknown_value=-1),
        PolynomialFeatures(3, interaction_only=True),
        PublicBinner((0, 4)),
        PublicScaler((0, 4)),
        SimpleImputer(strategy="constant", fill_value=9, missing_values=0, keep_empty_features=True),
        SplineTransformer(knots=GRID, extrapolation="linear", sparse_output=True),
        SplineTransformer(knots=GRID, extrapolation="continue", include_bias=False),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_that_learn_nothing_give_other_rows_the_same_numbers(step, changed):
    rows = np.arange(24.0).reshape(6, 4) % 3
    other = np.vstack([rows[:-1], changed])
    total = privacy_report(make_pipeline(clone(step), clone(LAPLACE_SKETCH)).fit(rows)).total
    one, two = (clone(step).fit_transform(table) for table in (rows, other))
    one, two = (table.toarray() if sp.issparse(table) else table for table in (one, two))
    assert total is not None
    np.testing.assert_array_equal(one[:-1], two[:-1])


def _written_out(thing):
    """Spell out attributes, arrays and splines at any depth."""
    if hasattr(thing, "get_params") and hasattr(thing, "__dict__"):
        thing = vars(thing)
    if isinstance(thing, dict):
        return {name: _written_out(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_written_out(value) for value in thing]
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, _written_out(thing.tolist())
    return (_written_out(thing.t), thing.k) if hasattr(thing, "t") and hasattr(thing, "k") else repr(thing)


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, np.float32])
def test_steps_that_learn_nothing_have_the_same_attributes_whatever_one_row_is(form):
    """One row is missing, huge, negative, of zeros, or of a category that is listed."""
    known, knots = [[0.0, 0.5, 1.0]] * 3, np.tile(np.linspace(0, 1, 5)[:, None], 3)
    steps = [
        SimpleImputer(strategy="constant", keep_empty_features=True),
        SimpleImputer(strategy="constant", missing_values=0, fill_value=1.0, keep_empty_features=True),
        SplineTransformer(knots=knots),
        RBFSampler(gamma=1.0, random_state=0),
        PolynomialFeatures(),
        PublicScaler((0, 1), fill="middle"),
        PublicBinner((0, 1)),
        OneHotEncoder(categories=known, handle_unknown="ignore"),
        OrdinalEncoder(categories=known, handle_unknown="use_encoded_value", unknown_value=-1),
        FeatureUnion([("a", PolynomialFeatures()), ("b", PublicScaler((0, 1)))]),
    ]
    n_compared = 0
    for step in steps:
        for rows in (np.abs(X200_UNIFORM), np.where(X200_UNIFORM > 0, 1.0, 0.0), np.full_like(X200_UNIFORM, np.nan)):
            for value in (np.nan, 1e30, -1.0, 0.0, 0.5):
                other = rows.copy()
                other[0] = value
                try:
                    fits = [_written_out(clone(step).fit(form(one))) for one in (rows, other)]
                except ValueError:  # which no guarantee covers
                    continue
                n_compared += 1
                assert repr(fits[0]) == repr(fits[1])
    assert n_compared > 80


@pytest.mark.parametrize(("max_norm", "length"), [(1e-16, 4.0426e307), (1e-50, 1.348655e273), (1e-14, 1.756e308)])
@pytest.mark.parametrize("to_format", [np.asarray, sp.csr_array])
def test_rows_of_any_length_are_shortened_to_the_norm(to_format, max_norm, length):
    """Factors below the normal floats have few digits: a row may stay up to twice as long as it should."""
    row = clip_rows(to_format([[length]]), max_norm)
    assert abs(row).sum() <= max_norm


def _column(kind, rng, n_rows):
    """A column of a type of pandas, with a missing value here and there where the type has one."""
    numbers = rng.choice([0, 1, -3, 7, 100, 2**53 + 1], n_rows).astype(object)
    texts = rng.choice(["a", "b", "é", "nan", ""], n_rows).astype(object)
    missing = rng.random(n_rows) < 0.3
    if kind in ("int64", "float32"):
        return pd.Series(numbers.astype(kind))
    if kind == "float64":
        return pd.Series(np.where(missing, np.nan, numbers.astype(float)))
    values = numbers if kind in ("Int64", "Float64") else numbers % 2 == 1 if kind == "boolean" else texts
    values = [None if gap else one for gap, one in zip(missing, values, strict=True)]
    if kind == "category":
        return pd.Series(pd.Categorical(values, categories=["a", "b", "é", "nan", ""]))
    return pd.Series(values, dtype=kind)


@pytest.mark.parametrize("seed", range(2))
def test_one_row_of_a_table_decides_no_number_and_no_type_of_others(seed):
    """Of any types, as frames of pandas and of polars."""
    rng, n_compared = np.random.default_rng(seed), 0
    of_numbers = ["int64", "float32", "float64", "Int64", "Float64", "boolean"]
    known = {"bounds": {"m": (-10, 100), "n": (-1, 1)}, "edges": {"o": [0, 1, 5, 1e300]}}
    known["categories"] = {"c": [1, 3, 7], "s": ["a", "nan"], "t": ["", "é"]}
    for _ in range(4):
        kinds = {name: rng.choice(of_numbers) for name in "mno"}
        kinds["c"] = rng.choice(["Int64", "float64", "boolean"])
        kinds |= {name: rng.choice(["str", "object", "category"]) for name in "st"}
        tables = [pd.DataFrame({name: _column(kind, rng, 5) for name, kind in kinds.items()}) for _ in range(2)]
        tables[1] = pd.concat([tables[1].iloc[:1], tables[0].iloc[1:]], ignore_index=True).astype(tables[0].dtypes)
        for form in (pd.DataFrame, polars.from_pandas):
            columns = make_table_preprocessor(**known, numbers=str(rng.choice(["bins", "scaled"])))
            one, other = (dense(columns.fit(form(table)).transform(form(table))) for table in tables)
            assert one.dtype == other.dtype
            assert np.array_equal(one[1:], other[1:])
            n_compared += 1
    assert n_compared == 8


# Tables and frames of any columns


def test_one_answer_moves_prepared_rows_no_further_than_the_table_of_changes_says():
    """Numbers beyond bounds and missing ones, categories that are not listed or missing, in 30 random tables."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        bounds = {f"bound {i}": (0, float(rng.choice([1, 10, 1e6]))) for i in range(rng.integers(1, 3))}
        edges = {f"edge {i}": np.sort(rng.normal(size=4)).tolist() for i in range(rng.integers(0, 3))}
        listed = {f"listed {i}": ["x", "y", "z"] for i in range(rng.integers(0, 3))}
        loose = {f"loose {i}": ["u", "v"] for i in range(rng.integers(0, 3))}
        cells = {
            **dict.fromkeys([*bounds, *edges], (np.nan, 0.0, -5.0, 1e9, 0.5, 3.0)),
            **dict.fromkeys(listed, ("x", "y", "z")),
            **dict.fromkeys(loose, ("u", "v", "w", None)),
        }
        rows = {name: [some[i] for i in rng.integers(len(some), size=40)] for name, some in cells.items()}
        others, names = {name: list(column) for name, column in rows.items()}, list(cells)
        for row in range(40):
            name = names[rng.integers(len(names))]
            others[name][row] = cells[name][rng.integers(len(cells[name]))]
        table, other = pd.DataFrame(rows), pd.DataFrame(others)
        columns = make_table_preprocessor(
            bounds, edges=edges, categories=listed | loose, n_bins=int(rng.integers(1, 9))
        )
        n_sure = len(bounds) + len(edges) + len(listed)
        moved = np.abs(dense(columns.fit_transform(table)) - dense(columns.transform(other)))
        assert moved.sum(axis=1).max() <= 2 / n_sure**0.5 * (1 + 1e-12)
        assert np.sqrt((moved**2).sum(axis=1)).max() <= (2 / n_sure) ** 0.5 * (1 + 1e-12)


def test_columns_of_polars_of_any_two_types_reach_the_noise_as_the_nearest_floats():
    """Whole numbers of 64 bits, fractions of ten, truth values and narrow floats, side by side."""
    polars = pytest.importorskip("polars")
    whole = {
        polars.Int8: [-1, 3, 127],
        polars.Int64: [2**53 + 1, -(2**62) + 1, 3],
        polars.UInt16: [0, 65535, 1],
        polars.UInt64: [2**53 + 1, 2**62 - 1, 1],
    }
    tenths = {polars.Decimal(30, 3): list(map(Decimal, ("1.125", "-9007199254740993.001", "0.1")))}
    floats = {polars.Float32: [0.1, -1.5, 3.25], polars.Float64: [0.1, 1e20, 0.0], polars.Boolean: [True, False, True]}
    columns = [polars.Series("", values, dtype=kind) for kind, values in (whole | tenths | floats).items()]
    for one, other in itertools.product(columns, columns):
        frame = polars.DataFrame({"a": one, "b": other})
        sketch = DPRandomProjection(projection="identity", max_change=1e30).fit(frame)
        ((_, _, values),) = tape_of(partial(sketch.transform, frame))
        assert np.array_equal(values, np.transpose([list(map(float, one)), list(map(float, other))]))


# Tables of Arrow


@pytest.mark.parametrize("step", [PublicScaler((-2e19, 2e19), fill="middle"), PublicBinner((-1e19, 1e19), n_bins=99)])
def test_a_missing_cell_of_a_table_of_arrow_moves_no_other_row(step):
    """Of whole numbers beyond 2^53 beside narrow floats, in one chunk or two."""
    pa = pytest.importorskip("pyarrow")
    cells = {
        "int8": [1, 2, 3],
        "int64": [2**60 + 1, -(2**60) - 1, 3],
        "uint64": [2**63 + 1025, 5, 7],
        "float32": [0.1, 0.2, 0.3],
        "float64": [0.1, 1e300, 0.3],
        "bool_": [True, False, True],
    }
    for kind in cells:
        for beside in cells:
            moved = []
            for last in (cells[kind][2], None):
                columns = [
                    pa.array([*cells[kind][:2], last], getattr(pa, kind)()),
                    pa.array(cells[beside], getattr(pa, beside)()),
                ]
                table = pa.table(columns, names=["a", "b"])
                rows = step.fit(table).transform(table)
                moved.append((rows.toarray() if hasattr(rows, "toarray") else rows)[:2])
            np.testing.assert_array_equal(*moved)


def test_no_cell_of_a_table_of_the_same_types_changes_the_other_rows_that_come_out():
    draw = random.Random(0)
    kinds = [("Int64", [1, None, 2**60, 2**60 + 1]), ("int64[pyarrow]", [1, None, 2**60]), ("boolean", [True, None])]
    kinds += [("float64", [0.0, np.nan, -3.0, np.inf]), ("object", ["a", "1", 1, True, 1.0, None, 2**60, b"a", "zq7x"])]
    kinds += [("str", ["a", "zq7x", None]), (pd.CategoricalDtype(["a", "b", "zq7x"]), ["a", "zq7x", None])]
    known = [{"bounds": {"x": (0, 4)}}, {"bounds": {"x": (0, 4)}, "numbers": "scaled"}]
    lists = ["a", "1"], [1, 2], [True, False], [2**60, 2**60 + 1], [1.5]
    known += [{"categories": {"x": listed}} for listed in lists]
    n_compared = 0
    for _ in range(150):
        dtype, cells = draw.choice(kinds)
        if dtype == "int64[pyarrow]":
            pytest.importorskip("pyarrow")
        rows, preprocessor = draw.choices(cells, k=6), make_table_preprocessor(**draw.choice(known))
        seen = []
        for first in (rows[0], draw.choice(cells)):
            try:
                table = pd.DataFrame({"x": pd.Series([first, *rows[1:]], dtype=dtype)})
                seen.append(dense(preprocessor.fit_transform(table))[1:])
            except (TypeError, ValueError) as error:
                assert "zq7x" not in f"{error} {error.__cause__} {error.__context__}"
                break
        if len(seen) == 2:
            n_compared += 1
            assert (seen[0].dtype, seen[0].tobytes()) == (seen[1].dtype, seen[1].tobytes())
    assert n_compared > 50


def _odd_tables():
    rows = np.random.default_rng(0).uniform(size=(13, 4))
    odd_cells = 7654321.25, "SECRETX", b"SECRETX", [7654321.25], {"SECRETX": 1}, 10**400, 7654321.25j, pd.NA, slice(3)
    for cell in odd_cells:
        cells = np.empty((13, 4), object)
        for place in np.ndindex(13, 4):
            cells[place] = float(rows[place])
        cells[5, 2] = cell
        yield cells
        yield [list(row) for row in cells]
        yield pd.DataFrame(cells, columns=list("abcd"))
    for form in ("csr", "csc", "lil", "dia", "bsr"):
        for value in (np.inf, np.nan, 7654321.25e300):
            odd = rows.copy()
            odd[5, 2] = value
            yield getattr(sp, f"{form}_array")(odd)


def test_no_error_of_an_odd_table_quotes_a_cell_or_how_many_rows_there_are():
    estimators = (DPOPORP(2), DPSignOPORP(2), DPHistograms(delta=1e-6), DPScaler(bounds=(0, 1)), PublicScaler((0, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X in _odd_tables():
            for estimator in (*estimators, DPRandomProjection(projection="identity"), PublicBinner((0, 1))):
                try:
                    fitted = estimator.fit(X)
                    if hasattr(fitted, "transform"):
                        fitted.transform(X)
                except (TypeError, ValueError) as error:
                    while error is not None:
                        assert not re.search(r"SECRETX|7654321|\b13\b|0{20}", f"{error} {error.args}")
                        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("kind", ["arrow", "polars", "pandas"])
@pytest.mark.parametrize(
    ("first", "second"), [("float32", "int8"), ("float32", "int64"), ("int8", "float32"), ("int8", "bool")]
)
def test_one_missing_cell_of_any_frame_changes_no_type_and_no_other_row(kind, first, second):
    pa = pytest.importorskip("pyarrow")
    came_out = []
    for missing in (False, True):
        a, b = np.linspace(-1, 1, 20).astype(first), (np.arange(20) % 2).astype(second)
        cells = b.tolist()
        cells[3] = None if missing else cells[3]
        types = [pa.from_numpy_dtype(np.dtype(one)) for one in (first, second)]
        table = pa.table({"a": pa.array(a.tolist(), types[0]), "b": pa.array(cells, types[1])})
        if kind == "polars":
            table = pytest.importorskip("polars").from_arrow(table)
        elif kind == "pandas":
            pd = pytest.importorskip("pandas")
            table = table.to_pandas(types_mapper=pd.ArrowDtype)
        for step in (PublicScaler((-5, 5), fill="middle"), PublicBinner((-5, 5), n_bins=4, encode="ordinal")):
            rows = step.fit_transform(table)
            came_out.append(
                (rows.dtype, DPOPORP(2).fit(rows).transform(rows).dtype, np.delete(rows, 3, axis=0).tobytes())
            )
    assert came_out[:2] == came_out[2:]


@pytest.mark.parametrize("cell", [1e300, np.nan, -0.0, 5e-324, -1e300])
@pytest.mark.parametrize("word", ["a", "zz", None, ""])
def test_no_cell_of_a_frame_moves_what_is_released_behind_a_pipeline_by_more_than_a_row(cell, word):
    usual = pd.DataFrame({"x": [0.1, 2.0, -3.0, 4.0], "z": [1.0, 0.0, 5.0, 2.0], "w": ["a", "b", "c", "a"]})
    other = usual.copy()
    other.loc[3, "x"], other.loc[3, "w"] = cell, word
    numbers = make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True), Normalizer())
    words = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
    columns = ColumnTransformer([("n", numbers, ["x", "z"]), ("w", words, ["w"])], sparse_threshold=0)
    pipeline = make_pipeline(columns, DPMoments(epsilon=1.0, delta=1e-5))
    assert shift_in_mu(pipeline[-1], pipeline.fit, usual, other) <= 1


@pytest.mark.parametrize("masked", [False, True])
def test_a_masked_scalar_in_a_cell_is_refused_and_warned_of_nowhere(masked):
    """Numpy warned of it where it was masked: of a step whose warnings are said to tell of no row."""
    X = [[np.ma.array(5.0, mask=masked), 1.0], [2.0, 3.0]]
    for step in (DPHistograms(delta=1e-3), PublicScaler((0, 1), fill="middle"), DPMoments(delta=1e-3)):
        with pytest.raises(ValueError, match="masked cells"):
            step.fit(X)


@pytest.mark.parametrize("cell", [0.25 + 0j, np.emath.sqrt(-0.25)])
def test_a_complex_target_is_refused_whatever_it_comes_in(cell):
    """The real part of one of numpy's was taken, with a warning that told of the row."""
    for model in (DPRidge(target_bounds=(0, 1)), DPMoments(target_bounds=(0, 1), delta=1e-3)):
        with pytest.raises((TypeError, ValueError), match="Complex data not supported"):
            model.fit(np.eye(3), [0.5, 0.25, cell])


@pytest.mark.parametrize("interface", ["spmatrix", "sparray"])
def test_what_scikit_learn_is_told_of_sparse_matrices_changes_no_release(interface):
    import scipy.sparse as sp
    from sklearn import config_context, get_config

    from skdprp import DPOPORP, DPMoments, DPSignOPORP
    from skdprp.testing import reproducible_noise

    rows = sp.random(50, 20, 0.2, random_state=0, format="csr")

    def _released(form):
        with reproducible_noise(0):
            numbers = DPOPORP(8, random_state=0).fit_transform(form(rows))
            bits = DPSignOPORP(8, random_state=0).fit_transform(form(rows))
            return numbers, bits, DPMoments().fit(form(rows)).moments_.values

    if "sparse_interface" not in get_config():
        pytest.skip("This scikit-learn is told nothing of sparse matrices.")
    expected = _released(sp.csr_matrix)
    with config_context(sparse_interface=interface):
        for form in (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array):
            for one, other in zip(_released(form), expected, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("missing", [None, np.nan, "zz", 2**60, np.float32(0.1), True])
def test_a_cell_of_a_public_table_moves_no_other_row(missing):
    from skdprp import make_table_preprocessor

    columns = make_table_preprocessor({"z": (0, 1)}, categories={"c": ["0", "1", "2"]}, numbers="scaled")
    cells = [str(i % 3) for i in range(30)]
    numbers = np.linspace(0, 1, 30)
    one = columns.fit_transform(pd.DataFrame({"c": pd.Series(cells, dtype=object), "z": numbers}))
    cells[5] = missing
    other = columns.fit_transform(pd.DataFrame({"c": pd.Series(cells, dtype=object), "z": numbers}))
    kept = np.arange(30) != 5
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one[kept], other[kept])


@pytest.mark.parametrize("numbers", ["bins", "scaled"])
@pytest.mark.parametrize("kind", ["object", "str", "string[pyarrow]", "category"])
def test_one_cell_of_a_table_changes_no_other_prepared_row(kind, numbers):
    preprocessor = make_table_preprocessor(
        {"age": (0, 120)}, edges={"pay": [0, 1, 10]}, categories={"town": ["a", "b"], "flag": [0, 1]}, numbers=numbers
    )
    prepared = []
    for age, pay, town, flag in ((5.0, 2, "a", 1), (None, None, None, None), (1e300, -5, "c", 7)):
        table = pd.DataFrame({"age": [30.1, None, age], "town": pd.Series(["a", "zz", town]).astype(kind)})
        table["pay"], table["flag"] = (pd.Series(cells, dtype="Int64") for cells in ([2**53 + 1, 0, pay], [0, 1, flag]))
        prepared.append(dense(preprocessor.fit_transform(table)))
    assert all(np.array_equal(prepared[0][:2], other[:2]) for other in prepared[1:])


X60 = np.random.default_rng(0).normal(size=(60, 3))


Y60 = np.arange(60) % 2


def test_rows_in_a_buffer_of_two_dimensions_are_read_or_refused_in_words():
    """A memoryview is an array to numpy."""
    with contextlib.suppress(TypeError, ValueError):
        AMPClassifier(delta=1e-3, classes=[0, 1]).fit(memoryview(X60), Y60)
