"""Attacks on private histograms and scalers, on bins and ranges learned from them, and on what follows these."""

import contextlib
import decimal
import pickle
import warnings
from collections import Counter
from contextlib import suppress
from itertools import product

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from attacks import X200_UNIFORM, objects
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdprp import (
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPRidge,
    DPScaler,
    PrivacyLedger,
    PrivacyWarning,
    PublicBinner,
    PublicScaler,
    audit_epsilon,
    compose,
    privacy_report,
    set_budget,
)
from skdprp.composition import PrivacyLoss
from skdprp.histograms import _columns
from skdprp.histograms._cells import Cells, coefficients, column_norm_squared, half_sums
from skdprp.histograms._columns import Unlisted, columns_of, count
from skdprp.mechanisms import thresholded_counts_scale
from skdprp.mechanisms.thresholded_counts import name_probability, shift_of_epsilon
from skdprp.sensitivity import histograms_sensitivity
from skdprp.testing import reproducible_noise
from skdprp.testing._tape import tape_of

# What is released


@pytest.mark.parametrize("name_of_one_row", [None, "x"])
@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_a_column_of_texts_may_be_empty(name_of_one_row, dtype):
    """Noise was refused for no names at all, after that of the other columns was drawn: one name in one row told."""
    notes = objects([name_of_one_row, *[None] * 49], dtype)
    table = pd.DataFrame({"age": np.arange(50.0), "note": notes})
    with PrivacyLedger() as ledger:
        release = DPHistograms(delta=1e-9).fit(table)
        assert release.histograms_.counts("note") == {}  # or one name, with a probability of 1e-10
        binner = DPBinner(delta=1e-9).fit_chunks([table[:25], table[25:]])
    assert len(ledger.entries) == 2 and binner.transform(table).shape == (50, 21 + 22)
    # A budget passes a few rows through the steps, of which a text may be in none.
    y, model = [0, 1] * 25, DPRidge(max_norm=2.0, target_bounds=(0, 1), mechanism="moments")  # composed in no time
    pipe = set_budget(make_pipeline(DPBinner(), model), table[::-1], y, epsilon=1.0, delta=1e-6)
    assert privacy_report(pipe.fit(table, y)).private.epsilon <= 1.0


@pytest.mark.parametrize("size", [2, 3, 1000, 65_536])
def test_all_sums_are_those_of_whole_numbers(size):
    """For counts that add up to 2^36 - 1 rows, against an exact product of two integers of a million digits."""
    n_rows, exactly = 2**36 - 1, decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX)
    width = len(str(2**12 * n_rows))  # digits of the largest sum, so that no sum carries into the next

    def joined(numbers):
        return decimal.Decimal("".join(f"{number:0{width}d}" for number in numbers[::-1].astype(int).tolist()))

    piled, block = np.zeros((2, size), dtype=np.int64)
    piled[0], block[-4096:] = n_rows, n_rows // min(size, 4096)
    spread = np.random.default_rng(0).multinomial(n_rows, np.random.default_rng(1).dirichlet(np.full(size, 0.01)))
    kernel = joined(coefficients(size))
    for counts in (piled, block, spread, np.full(size, n_rows // size)):
        digits = str(exactly.multiply(kernel, joined(counts))).zfill(width * size)[-width * size :]
        exact = [int(digits[end - width : end]) for end in range(len(digits), 0, -width)]
        assert (half_sums(counts) * 4096).astype(np.uint64).tolist() == exact


def exact_delta(epsilon, releases, alone, alone_there):
    """Hockey-stick divergence of releases, as (scale, threshold, squared sensitivity), to 80 digits.

    The one table has so many names of a single row, and the other as many others; all else is Gaussian.
    """
    none, none_there, squared = mpmath.mpf(1), mpmath.mpf(1), mpmath.mpf(0)
    for scale, threshold, squared_sensitivity in releases:
        unnamed = 1 - mpmath.ncdf((1 - mpmath.mpf(threshold)) / scale)
        none, none_there = none * unnamed**alone, none_there * unnamed**alone_there
        squared += (mpmath.mpf(squared_sensitivity) - alone - alone_there) / mpmath.mpf(scale) ** 2
    left = epsilon + mpmath.log(none_there) - mpmath.log(none)
    if squared <= 1e-12:
        return 1 - none + none * max(0, 1 - mpmath.exp(left))
    mu = mpmath.sqrt(squared)
    here, there = mpmath.ncdf(mu / 2 - left / mu), mpmath.ncdf(-mu / 2 - left / mu)
    return 1 - none + none * (here - mpmath.exp(left) * there)


TARGETS = [[(1e-3, 0.9)], [(1e-3, 0.1)], [(0.01, 0.99)], [(1e-3, 1e-12)], [(50.0, 1e-6)], [(5.0, 1e-30)]]


@pytest.mark.parametrize("targets", [*TARGETS, [(0.5, 1e-6), (1.0, 1e-5), (0.2, 1e-4)]])
def test_no_loss_of_unlisted_names_is_below_the_exact_one(targets):
    """Where a delta is near 1, the chance of a name takes more off epsilon than there is of it; or three at once."""
    for n_columns, rest, replaced in product((1, 3), (0.0, 500.0), (False, True)):
        squared, loss, releases = (rest + n_columns) * (1 + replaced), PrivacyLoss(), []
        for target in targets:
            known = {"sensitivity": squared**0.5, "n_columns": n_columns}
            scale, threshold = thresholded_counts_scale(*target, **known)
            named = name_probability(scale=scale, threshold=threshold, n_columns=n_columns)
            facts = {"sampling": shift_of_epsilon(named) / 2, "failure_probability": named}
            loss += PrivacyLoss(mu=known["sensitivity"] / scale, **facts)
            releases.append((scale, threshold, squared))
        names = (0, 1, n_columns)
        pairs = [pair for pair in product(names, names) if replaced or 0 in pair]
        for epsilon in (0.0, targets[0][0], 2 * targets[-1][0]):
            with mpmath.workdps(80):
                worst = max(exact_delta(epsilon, releases, *pair) for pair in pairs)
            assert worst <= loss.profile(epsilon)
        assert len(targets) > 1 or loss.profile(targets[0][0]) <= targets[0][1] * (1 + 1e-9)


CELLS_OF_TYPES = {
    "float": [0.0, -0.0, 5e-324, 1e308, -1e308, np.nan, 2.0**53, 4095.999, 4096.0, np.nextafter(1, 0), 1e-7],
    "int64": [0, 1, -1, 2**62, -(2**62), 4096, 2**53 + 1],
    "Int64": [pd.NA, 0, 1, 2**60],
    "bool": [True, False],
    "object": [None, np.nan, "a", "a\0", "", "nan", "1"],
    "category": [None, "a", "b"],
}


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_no_row_of_a_mixed_table_moves_its_counts_by_more_than_noise_is_made_for(adjacency):
    """Odd cells of columns of all types, and names that nobody lists: the distance is nearly attained."""
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(40):
        types = rng.choice(list(CELLS_OF_TYPES), 3)
        rows = [[CELLS_OF_TYPES[kind][rng.integers(len(CELLS_OF_TYPES[kind]))] for kind in types] for _ in range(6)]
        others = rows[:-2] + rows[-1:] if adjacency == "replace_one" else rows[:-2]
        tables = [
            pd.DataFrame({str(j): pd.Series([row[j] for row in some], dtype=kind) for j, kind in enumerate(types)})
            for some in (rows[:-1], others)
        ]
        bounds = {str(j): (-3, 5000) for j, kind in enumerate(types) if kind not in ("object", "category")}
        release = DPHistograms(adjacency=adjacency, bounds=bounds, n_cells=7)
        (_, columns, counts), (_, _, other_counts) = (clone(release)._count([table]) for table in tables)
        square, n_changed = 0.0, 0
        for column, one, other in zip(columns, counts, other_counts, strict=True):
            moves = list(column.sums(one) - column.sums(other))
            if isinstance(one, Counter):
                moves += [one[key] - other[key] for key in {*one, *other} if key[1] is not None]
            square, n_changed = square + np.sum(np.square(moves)), n_changed + np.count_nonzero(moves)
        bound = histograms_sensitivity(sum(column.norm_squared for column in columns), adjacency=adjacency)
        assert n_changed <= sum(column.n_changed for column in columns)
        assert square <= bound**2
        largest = max(largest, np.sqrt(square) / bound)
    assert largest > 0.9


def test_no_row_moves_the_sums_of_histograms_within_any_bounds_by_more_than_noise_is_made_for():
    """Numbers of any size, at bounds and beyond, missing ones, and categories that are listed or not."""
    rng, worst = np.random.default_rng(0), 0.0
    odd = np.array([np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324, 2.0**40, -(2.0**-20), 4096, 2.0**-1022])
    for _ in range(20):
        bounds = (None, (0.0, 1.0), (-3.3, 1e6))[rng.integers(3)]
        table = pd.DataFrame({name: rng.choice(np.append(odd, rng.normal(size=9) * 1e3), 4) for name in "ab"})
        table["c"] = rng.choice(["u", "v", "w"], 4).astype(object)
        other, row = table.copy(), int(rng.integers(4))
        other.loc[row, ["a", "b"]] = rng.choice(odd, 2)
        other.loc[row, "c"] = rng.choice(["u", "x"])
        known = {"bounds": bounds and {"a": bounds, "b": bounds}, "categories": {"c": ["u", "v"]}}
        release = DPHistograms(n_cells=int(rng.choice([2, 7, 4096])), **known)
        columns = release._count([table])[1]
        moved = np.linalg.norm(release._exact_sums(table) - release._exact_sums(other))
        worst = max(worst, moved / histograms_sensitivity(sum(column.norm_squared for column in columns)))
    assert 0.7 < worst <= 1 + 1e-15


# A row is a vector


ODD = [1, True, "1", b"1", float("nan"), None, pd.NA, pd.NaT, np.float16(1.1), np.longdouble("1.1"), 2**53 + 1, 2**70]
ODD += [-0.0, 5e-324, 1e308, np.longdouble("1e400"), "", "a\0", "nan", "inf", "\ud800", 1j, np.datetime64("2020"), (1,)]


def _counted(estimator, X):
    return np.concatenate([values for *_, values in tape_of(lambda: estimator.fit(X))])


@pytest.mark.parametrize("form", ["list", "array", "frame"])
@pytest.mark.parametrize("categories", [None, [0]])
def test_one_odd_cell_moves_nothing_but_its_own_count(form, categories):
    """Of a list, or of objects, a cell of another type could change the type of all others, or the order of names."""
    if form == "frame" and categories is None:
        return  # in which objects are categories

    def _table(last):
        cells = [[1.0], [2.0], [4.5], [2.0], [last]]
        as_array = np.array([None] * 5, dtype=object)[:, None]
        as_array[:, 0] = [cell for (cell,) in cells]
        return {"list": cells, "array": as_array, "frame": pd.DataFrame(as_array, columns=["c"])}[form]

    listed = ["c"] if form == "frame" and categories else categories
    estimator = DPHistograms(delta=1e-6, categories=listed)
    total = np.sum(_counted(estimator, _table(4.5)))
    for odd in ODD:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                numbers = _counted(estimator, _table(odd))
            except (TypeError, ValueError) as error:  # which is told, but not what was refused
                assert error.__context__ is None and error.__cause__ is None
                continue
        if categories is None:
            assert (
                np.linalg.norm(numbers - _counted(estimator, _table(4.5))) <= (2 * column_norm_squared(49_154)) ** 0.5
            )
        else:
            assert np.sum(numbers) == total and np.count_nonzero(numbers >= 1) in (3, 4)


def test_a_missing_value_rounds_no_value_of_another_row():
    """Whole numbers that float32 does not hold, in cells that would tell, beside columns of every other type."""
    known = {"bounds": {"a": (2**24 - 6, 2**24 + 10), "b": (0, 2)}, "n_cells": 64, "delta": 1e-6}
    cells, small = [2**24 + 1, 2**24 + 3, 7, 5] * 3, [1, 0] * 6
    pandas_types = [
        "int32",
        "Int32",
        "Int64",
        "UInt32",
        "Float64",
        "int32[pyarrow]",
        "double[pyarrow]",
        "Sparse[int64]",
    ]
    others = ["Int8", "boolean", "float32", "float[pyarrow]", "Sparse[float32]"]
    polars_types, polars_others = [pl.Int32, pl.UInt64], [pl.Float32, pl.Boolean]
    for frame, column, dtypes in (
        (pd.DataFrame, lambda cells, dtype: pd.Series(cells, dtype=dtype), product(pandas_types, others)),
        (pl.DataFrame, lambda cells, dtype: pl.Series(cells, dtype=dtype), product(polars_types, polars_others)),
    ):
        for dtype, other in dtypes:
            beside = column(list(map(bool, small)) if other in ("boolean", pl.Boolean) else small, other)
            histograms, sums = DPHistograms(**known), []
            for first in (cells[0], None, cells[2]):
                try:
                    table = frame({"a": column([first, *cells[1:]], dtype), "b": beside})
                except (TypeError, ValueError):  # of a type without missing values
                    continue
                sums.append(histograms._exact_sums(table))
            limit = (2 * sum(one.norm_squared for one in histograms._columns(table))) ** 0.5
            assert len(sums) > 1
            assert max(np.linalg.norm(one - sums[0]) for one in sums) <= limit, (dtype, other)


def test_a_missing_value_does_not_change_the_type_of_rows_that_come_out():
    """Noise of a model may depend on that type; numpy has no integers or truth values that are missing."""
    short = {
        "pandas": np.linspace(0, 1, 40).astype(np.float32),
        "polars": pl.Series(np.linspace(0, 1, 40), dtype=pl.Float32),
    }
    pandas_types = ["boolean", "Int8", "Int64", "Float32"]
    polars_types = [pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Float32]
    for kind, dtype in [*product(["pandas"], pandas_types), *product(["polars"], polars_types)]:
        cells = ([True, False] if dtype in ("boolean", pl.Boolean) else [1, 2]) * 20
        tables = []
        for missing in (False, True):
            if kind == "pandas":
                column = pd.array([None, *cells[1:]] if missing else cells, dtype=dtype)
            else:
                column = pl.Series([None, *cells[1:]] if missing else cells, dtype=dtype)
            tables.append((pd if kind == "pandas" else pl).DataFrame({"a": column, "b": short[kind]}))
        for step in (DPScaler(bounds=(0, 2), delta=1e-6), PublicScaler((0, 2), fill=0), PublicBinner((0, 2))):
            assert len({step.fit(table).transform(table).dtype for table in tables}) == 1, (kind, dtype, step)


def test_one_cell_moves_one_count_of_categories():
    """Categories that are numbers beyond 2^53 are told apart beside a missing one, in every kind of column."""
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    others = [2**53 + 1, 2**53, 2**60 + 1, 3]
    kinds = {
        "Int64": lambda cells: pd.array(cells, dtype="Int64"),
        "objects": lambda cells: pd.Series(cells, dtype=object),
        "categories": lambda cells: pd.Categorical(cells, categories=[*others, 99]),
        "dictionary": lambda cells: pd.arrays.ArrowExtensionArray(pa.array(cells, pa.int64()).dictionary_encode()),
    }
    for make in kinds.values():
        for first in (99, None):
            table = pd.DataFrame({"a": make([first, *others])})
            known = {"bounds": None, "categories": {"a": None}, "n_cells": 64, "counts_listed": True}
            columns = columns_of(table, 1, ["a"], **known)
            (whole,), (rest,) = (count(part, columns)[1] for part in (table, table.iloc[1:]))
            assert sum(abs(whole[key] - rest[key]) for key in {*whole, *rest}) == 1
            assert len(rest) == 4


CELLS_OF_OBJECTS = [None, np.nan, 2**53 + 5, 7, True, "z", b"a", 1.5, -0.0, pd.NA, np.int8(1), np.bool_(True)]


@pytest.mark.parametrize("dtype", [object, "Int64", pd.CategoricalDtype([2**53 + 1, 2**53 + 3, 2**53 + 5, 7])])
def test_one_cell_moves_the_counts_of_two_categories(dtype):
    """Whole numbers that floats cannot tell apart stay apart whatever another row holds."""
    codes = np.tile([0, 1], 6)
    whole = pd.Series(np.array([2**53 + 1, 2**53 + 3], dtype=object)[codes])

    def _counts(column):
        return DPHistograms(categories={"c": None})._count([pd.DataFrame({"c": column})])[2][0]

    before = _counts(whole.astype(dtype))
    assert set(before.values()) == {6}
    for cell in CELLS_OF_OBJECTS:
        column = whole.astype(dtype)
        try:
            column.iloc[5] = cell
            after = _counts(column)
        except (TypeError, ValueError):
            continue
        if column.dtype == dtype:
            assert sum(abs(before[key] - after[key]) for key in {*before, *after}) <= 2, cell


def test_counts_of_blocks_are_those_of_all_rows_at_once():
    """Cells of every type at random, which are equal to Python, beside numbers of any size: each counts by its key."""
    pd = pytest.importorskip("pandas")
    rng, n = np.random.default_rng(0), 20_000
    cells = [*(1, 1.0, True, "1", "1.0", None, np.nan, "a", 0, 0.0, -0.0, False, "", b"1")]
    cells += [2**60, float(2**60), np.bool_(True)]
    numbers = rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n)
    numbers[:6] = [0.0, -0.0, 5e-324, -5e-324, 1.7e308, np.nan]
    names = np.array([cells[place] for place in rng.integers(len(cells), size=n)], dtype=object)
    table = pd.DataFrame({"x": numbers, "c": names, "l": names[::-1].copy()})
    for bounds in (None, {"x": (-1, 1)}, {"x": (-1e-5, 3e7)}):
        listed = {"l": ["a", 1, True, "1"]}
        columns = columns_of(table, 3, list(table), bounds=bounds, categories=listed, n_cells=64, counts_listed=True)
        _, whole = count(table, columns)
        parts = [count(table.iloc[start : start + 777], columns)[1] for start in range(0, n, 777)]
        for place, found in enumerate(whole):
            total = parts[0][place]
            for part in parts[1:]:
                total = total + part[place]
            assert np.array_equal(total, found) if isinstance(found, np.ndarray) else total == found


@pytest.mark.parametrize("estimator", [DPHistograms(), DPScaler(), DPBinner()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("as_objects", [False, True])
def test_a_masked_cell_is_not_warned_of(estimator, as_objects):
    """Numpy warns of each that it makes nan, also where missing values are counted with noise."""
    cells = np.random.default_rng(0).normal(size=(50, 2)).astype(object)
    cells[3, 0] = np.ma.masked
    refused = suppress(TypeError, ValueError)  # which is not covered, and stated so
    with warnings.catch_warnings(record=True) as caught, refused:
        warnings.simplefilter("always")
        clone(estimator).fit(cells if as_objects else cells.tolist())
    assert not [one for one in caught if not issubclass(one.category, PrivacyWarning)]


# Scalers


@pytest.mark.parametrize("form", [np.array, np.asfortranarray, sp.csr_array, sp.csc_array, lambda X: X.astype("f4")])
def test_a_public_scaler_makes_each_row_of_that_row_alone_and_writes_into_none(form):
    """Blocks end anywhere in the rows, and are written in place of a copy."""
    rng = np.random.default_rng(0)
    for shape in ((1, 20_000), (3, 7000), (257, 300), (6000, 3)):
        X = form(rng.normal(size=shape) * 10)
        before, limits = X.copy(), np.abs(rng.normal(size=(shape[1], 1))) * 20 * [-1, 1] + [-1e-3, 1e-3]
        scaler = PublicScaler(limits).fit(X)
        out, rows = scaler.transform(X), (X.toarray() if sp.issparse(X) else X)
        out = out.toarray() if sp.issparse(out) else out
        assert not abs(X - before).sum()
        for place in rng.integers(shape[0], size=2):
            assert np.array_equal(scaler.transform(rows[[place]])[0], out[place])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_public_scaler_makes_the_same_bits_of_a_row_wherever_it_is(dtype):
    """In blocks of any size, in any order and alone, with zeros of both signs and missing values."""
    rng = np.random.default_rng(0)
    for n_rows, n_columns in ((3, 1), (700, 5), (50, 33), (2000, 17)):
        low = rng.choice([0.0, -1.0, -0.3, -100.0, -0.0], n_columns)
        bounds = np.column_stack([low, low + rng.choice([1, 0.1, 3, 1e6], n_columns)])
        X = rng.normal(size=(n_rows, n_columns)) * rng.choice([1, 100, 1e-3])
        for value in (0.0, -0.0, np.nan):
            X[rng.uniform(size=X.shape) < 0.1] = value
        X, order = X.astype(dtype), rng.permutation(n_rows)
        for feature_range in ((-0.5, 0.5), (0, 1), (-0.0, 0.1)):
            scaler = PublicScaler(bounds, feature_range=feature_range, fill="middle").fit(X)
            whole = scaler.transform(np.asfortranarray(X))[order]
            alone = np.concatenate([scaler.transform(X[[place]]) for place in order[:50]])
            assert whole.tobytes() == scaler.transform(X[order]).tobytes()
            assert whole[:50].tobytes() == alone.tobytes()


def test_two_scalers_and_their_total_keep_every_mark():
    """A total of releases of which one is seeded is seeded, frozen or not, before a fit and after it."""
    X, y = np.eye(4)[[0, 1, 2, 3] * 5], [0, 1] * 10
    with reproducible_noise(0):
        scaler = DPScaler(bounds=(0, 1), delta=1e-6).fit(X)
    model = make_pipeline(FrozenEstimator(scaler), AMPClassifier(delta=1e-6, classes=[0, 1]))
    assert privacy_report(model, X, y).total.seeded
    assert privacy_report(model.fit(X, y)).total.seeded
    assert compose(scaler.guarantee_, model[-1].guarantee_).seeded


# What follows


def test_neither_rows_nor_noise_decide_how_wide_bins_are_or_whether_they_are_found():
    rng = np.random.default_rng(0)
    shapes = [np.zeros, lambda n: np.full(n, np.nan), lambda n: rng.normal(size=n), lambda n: rng.choice([0, 1e12], n)]
    limits = [(1, None, 4096), (3, {"a": (0, 1)}, 2), (40, {"a": (-1e9, 1e9)}, 65_536)]
    for n_rows, numbers, epsilon in product((1, 300), shapes, (0.05, 60.0)):
        table = pd.DataFrame({"a": numbers(n_rows), "c": objects(["p", *rng.choice(["q", None], n_rows - 1)])})
        for n_bins, bounds, n_cells in limits:
            known = {"bounds": bounds, "n_cells": n_cells, "epsilon": epsilon, "delta": 1e-3}
            binner = DPBinner(n_bins, max_categories=2, **known).fit(table)
            rows = binner.transform(table)
            assert rows.shape[1] == len(set(binner.get_feature_names_out())) == n_bins + 1 + 4
            assert (rows.sum(axis=1) == 2).all() and binner.max_norm_ == 2**0.5
            ordinal = DPBinner(n_bins, max_categories=2, encode="ordinal").fit_histograms(binner.histograms_)
            norms = np.linalg.norm(ordinal.transform(table), axis=1)
            assert norms.max() <= ordinal.max_norm_ == np.hypot(n_bins, 3)


def test_columns_that_are_chosen_by_released_names_have_no_total():
    """The noise decides whether a name is released, and so how wide the model is that is fitted and calibrated."""
    n_rows, private = 3000, {"epsilon": 0.5, "delta": 1e-6}
    n_near = round(DPHistograms(**private).fit(pd.DataFrame({"t": objects(["a"] * n_rows)})).threshold_)
    table = pd.DataFrame({"t": objects(["a"] * (n_rows - n_near) + ["b"] * n_near)})
    y, widths, totals = ["no", "yes"] * (n_rows // 2), set(), set()
    for seed in range(8):
        with reproducible_noise(seed):
            pipe = make_pipeline(
                DPBinner(sparse_output=False, **private).set_output(transform="pandas"),
                ColumnTransformer(
                    [("unused", "drop", make_column_selector(pattern="_unused_"))],
                    remainder="passthrough",
                    sparse_threshold=0,
                ),
                AMPClassifier(max_norm=1.0, delta=1e-6, classes=["no", "yes"]),
            ).fit(table, y)
        widths.add(pipe[-1].n_features_in_)
        totals.add(privacy_report(pipe).total)
    assert widths == {2, 3} and totals == {None}


def test_a_total_of_what_a_function_makes_of_released_columns_says_what_it_holds_for():
    """Columns by released names again, through a function this time: totals differed with the noise of the bins."""
    n_rows, private = 3000, {"epsilon": 0.5, "delta": 1e-6}
    n_near = round(DPHistograms(**private).fit(pd.DataFrame({"t": objects(["a"] * n_rows)})).threshold_)
    table = pd.DataFrame({"t": objects(["a"] * (n_rows - n_near) + ["b"] * n_near)})

    def used(frame):
        return frame.loc[:, [name for name in frame if "_unused_" not in name]]

    widths, assumed = set(), set()
    for seed in range(4):
        with reproducible_noise(seed):
            binner = DPBinner(sparse_output=False, **private).set_output(transform="pandas")
            model = DPRidge(target_bounds=(0, 1), delta=1e-6)
            pipe = make_pipeline(binner, FunctionTransformer(used), model).fit(table, np.arange(n_rows) % 2)
        widths.add(pipe[-1].n_features_in_)
        assumed.update(privacy_report(pipe).total.assumptions)
    assert widths == {2, 3}
    assert "functiontransformer: how many columns come out does not depend on what was released before" in assumed


def test_chunks_that_set_parameters_or_seeds_meanwhile_change_nothing():
    table = pd.DataFrame({"a": np.arange(40.0), "t": objects(["x", "y"] * 20)})
    estimator, listed = DPBinner(epsilon=0.1, delta=1e-6), {"t": ["x"]}

    def _chunks(estimator):
        with reproducible_noise(0):
            yield table[:20]
            estimator.set_params(epsilon=50.0, delta=0.5)
            listed["t"] = None
            yield table[20:]

    once = estimator.fit_chunks(_chunks(estimator)).histograms_
    assert estimator.guarantee_.epsilon == 0.1 and once.scale == estimator.scale_ > 50 and not once.guarantee.seeded
    again = estimator.set_params(epsilon=0.1, delta=1e-6).fit_chunks(_chunks(estimator)).histograms_
    assert not np.array_equal(once.columns[0].values, again.columns[0].values)
    binner = DPBinner(categories=listed | {"t": ["x"]}, delta=1e-6)
    assert binner.fit_chunks(_chunks(binner)).threshold_ == np.inf
    # Nor does what was counted on the way stay anywhere.
    table.loc[7] = [123456.789, "a name of one row"]
    kept = pickle.dumps(DPBinner(delta=1e-9).fit(table))
    assert b"a name of one row" not in kept and np.float64(123456.789).tobytes() not in kept


@pytest.mark.parametrize("kind", [DPHistograms, DPBinner])
def test_histograms_of_unlisted_categories_can_be_audited(kind):
    """All audits ended in "The release must return at least one number, and finite ones only"."""
    table = pd.DataFrame({"age": np.tile(np.arange(20.0, 60.0), 50), "town": ["York", "Hull"] * 1000})
    other = table.copy()
    other.loc[1999, "town"] = None
    estimator = kind(bounds={"age": (0, 100)}, n_cells=8, delta=1e-3)
    result = audit_epsilon(estimator, table, other, n_trials=20)
    assert result.epsilon <= 1.0


def test_bins_and_scales_of_any_noise_have_their_public_width_and_norm():
    rng = np.random.default_rng(0)
    for _ in range(7):
        n, d = int(rng.choice([1, 3, 200])), int(rng.integers(1, 4))
        rows = [
            rng.normal(size=(n, d)),
            np.zeros((n, d)),
            np.full((n, d), np.nan),
            10 ** rng.uniform(-300, 300, (n, d)),
        ]
        rows = rows[rng.integers(4)]
        known = {"epsilon": float(10 ** rng.uniform(-3, 2)), "delta": 1e-6, "n_cells": int(rng.choice([2, 64]))}
        known["bounds"] = [None, (-1, 1), (0, 1e-90)][rng.integers(3)]
        for step in (DPBinner(int(rng.integers(1, 30)), sparse_output=False, **known), DPScaler(**known)):
            out = step.fit_transform(rows)
            assert out.shape[1] == len(set(step.get_feature_names_out())) if isinstance(step, DPBinner) else d
            assert np.isfinite(out).all() and np.linalg.norm(out, axis=1).max() <= step.max_norm_ * (1 + 1e-9)
            assert step.guarantee_.profile(step.epsilon) <= step.guarantee_.delta
        quantiles = DPHistograms(**known).fit(rows).histograms_.quantile(0, [0.0, 0.3, 1.0])
        assert np.isfinite(quantiles).all() and (np.diff(quantiles) >= 0).all()


def test_cells_are_those_that_a_search_for_their_edges_finds():
    rng = np.random.default_rng(0)
    for _ in range(60):
        size = 10.0 ** rng.uniform(-60, 90)
        low = float(rng.choice([0.0, -1.0, 1.0, rng.normal()]) * size)
        try:
            cells = Cells((low, low + size * 10.0 ** rng.uniform(-9, 2)), int(rng.choice([2, 7, 64, 4096])))
        except ValueError:
            continue
        edges = cells.edges
        values = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), [0.0, -5e-324]])
        places = np.clip(edges.searchsorted(values, side="right") - 1, 0, len(edges) - 1)
        assert np.array_equal(cells.place(values.copy()), places)


def test_neighbours_in_any_two_containers_move_histograms_no_further_than_noise_is_for():
    pl, rng = pytest.importorskip("polars"), np.random.default_rng(7)
    numbers = [0.0, -0.0, 1e308, -1e308, 5e-324, np.nan, 2.0**53 + 2, 1.5, 2047.999, -1.0]
    names = ["x", "y", None, "", "nan", "X"]

    def row():
        of_truth = [True, False, None]
        return [rng.choice(numbers), int(rng.integers(-5, 5)), names[rng.integers(6)], of_truth[rng.integers(3)]]

    forms = {
        "pandas": lambda table: [table],
        "chunks": lambda table: [table[:7], table[7:]],
        "polars": lambda table: [pl.from_pandas(table)],
        "categories": lambda table: [table.astype({"c": "category"})],
    }
    for turn in range(8):
        rows = [row() for _ in range(15)]
        other = [*rows]
        other[rng.integers(15)] = row()
        known = {"bounds": {"b": (-3, 3)} if turn % 2 else None, "n_cells": int(rng.choice([2, 7, 64]))}
        known["categories"] = {"c": ["x", "y"]} if turn % 3 else None
        found = []
        for one in (rows, other):
            table = pd.DataFrame(one, columns=list("abcd")).astype({"a": float, "d": "boolean"})
            found.append(DPHistograms(**known)._count(forms[rng.choice(list(forms))](table)))
        (_, columns, one), (_, _, two) = found
        moved = 0.0
        for column, a, b in zip(columns, one, two, strict=True):
            if type(column) is Unlisted:
                moved += sum((a[key] - b[key]) ** 2 for key in {*a, *b})
            else:
                moved += ((column.sums(a) - column.sums(b)) ** 2).sum()
        assert moved**0.5 <= histograms_sensitivity(sum(column.norm_squared for column in columns))


def test_spans_of_time_in_cells_are_no_categories():
    from skdprp import DPHistograms

    for unit in ("ns", "h"):
        cells = np.array([[np.timedelta64(5, unit)], [5]] * 100, dtype=object)
        with pytest.raises(TypeError, match="neither text nor finite numbers"):
            DPHistograms(categories=[0], delta=1e-6).fit(cells)


def test_counts_of_mixed_cells_in_chunks_are_those_of_the_whole_table():
    from skdprp import DPHistograms

    rng = np.random.default_rng(1)
    cells = [None, np.nan, "a", "b", 1, 1.0, True, False, 2**60, 2**60 + 1, 0.5, -0.0, b"x", np.float32(0.1), "1"]
    for _ in range(60):
        n = int(rng.integers(2, 9))
        column = pd.Series([cells[i] for i in rng.integers(0, len(cells), n)], dtype=object)
        table = pd.DataFrame({"c": column, "v": rng.choice([0.0, 1.0, -3.0, np.nan, 1e300, 5e-324, 4096.5], n)})
        cut = int(rng.integers(1, n))
        (_, _, one), (_, _, other) = (
            DPHistograms()._count(parts) for parts in ([table], [table.iloc[:cut], table.iloc[cut:]])
        )
        assert dict(one[0]) == dict(other[0])
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("estimator", [DPHistograms(), DPBinner(), DPScaler()])
def test_histograms_without_bounds_assume_that_parameters_are_public(estimator):
    """`max_categories=table["town"].nunique()` leaves in the number of bins."""
    assert any("do not come from the data" in text for text in estimator.fit(X200_UNIFORM).guarantee_.assumptions)


def test_no_cells_of_one_row_move_histograms_by_more_than_their_sensitivity():
    rng = np.random.default_rng(0)
    numbers = [0.0, -0.0, 1.0, -1e300, 5e-324, np.nan, 4095.999, 2047.0, 1.1e12, -(2**-20.5), 0.1]
    cells = ["a", "A", "", None, np.nan, 1, 1.0, True, 0, "1", b"a", 2**60, 0.5, np.float32(0.5), pd.NA]
    for _ in range(70):
        table, bounds, listed = {}, {}, {}
        for j in range(rng.integers(1, 5)):
            kind, column = rng.integers(4), np.empty(5, object)
            column[:] = [(numbers if kind < 2 else cells)[i] for i in rng.integers(11, size=5)]
            table[f"c{j}"] = column.astype(float) if kind < 2 else pd.Series(column, dtype=object)
            bounds |= {f"c{j}": (-rng.uniform(0, 5), rng.uniform(1, 1e6))} if kind == 1 else {}
            listed |= {f"c{j}": ["a", 1, True, 0.5]} if kind == 3 else {}
        one = pd.DataFrame(table)
        other = one.copy()
        for place, name in enumerate(one):
            other.iloc[0, place] = (numbers if one[name].dtype == float else cells)[rng.integers(11)]
        options = {"bounds": bounds or None, "categories": listed or None, "n_cells": int(rng.integers(2, 200))}
        columns = _columns.columns_of(one, one.shape[1], list(one), counts_listed=True, **options)
        square = 0.0
        for column, before, after in zip(
            *(columns, *(_columns.count(X, columns)[1] for X in (one, other))), strict=True
        ):
            square += ((column.sums(before) - column.sums(after)) ** 2).sum()
            if isinstance(before, dict):
                keys = (set(before) | set(after)) - {_columns.key_of(None)}
                square += sum((before[key] - after[key]) ** 2 for key in keys)
        assert square <= histograms_sensitivity(sum(one.norm_squared for one in columns)) ** 2 * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_fails_once_histograms_are_paid_whatever_is_in_the_columns(seed):
    """Bins, ranges, quantiles and names of columns follow from any release: of one row, of no values, of huge ones."""
    rng = np.random.default_rng(seed)
    for _ in range(2):
        n = int(rng.choice([1, 2, 50]))
        numbers = {
            "nothing": np.full(n, np.nan),
            "sizes": rng.normal(size=n) * 10.0 ** rng.uniform(-320, 300),
            "same": np.full(n, rng.choice([0.0, -0.0, 1e308, 5e-324])),
        }
        names = np.array([True, 1, "1", b"1", 1.5, "nan", "infrequent", "unused_1", None], dtype=object)
        table = pd.DataFrame(numbers | {"names": rng.choice(names, n)})
        known = {"epsilon": float(10 ** rng.uniform(-2, 2)), "delta": float(rng.choice([1e-12, 0.5, 0.99]))}
        known["bounds"] = {"sizes": (-(10.0 ** rng.uniform(-40, 40)), 1.0)} if rng.random() < 0.5 else None
        release = DPHistograms(**known, n_cells=int(rng.choice([2, 17, 4096]))).fit(table).histograms_
        for name in numbers:
            assert np.isfinite([*release.quantile(name, [0, 0.3, 1]), release.mean(name), release.missing(name)]).all()
        binner = DPBinner(int(rng.choice([1, 3, 200])), max_categories=2).fit_histograms(release)
        columns = binner.get_feature_names_out()
        rows = binner.transform(table)
        assert len(set(columns)) == len(columns) == rows.shape[1]
        assert np.isclose(np.sqrt(rows.multiply(rows).sum(axis=1)).max(), binner.max_norm_)
        scaler = DPScaler(**known).fit(table[list(numbers)])
        scaled = scaler.transform(table[list(numbers)])
        assert np.linalg.norm(scaled, axis=1).max() <= scaler.max_norm_ * (1 + 1e-12)


def test_bounds_by_number_are_not_those_of_another_column_whose_label_is_that_number():
    """They were given to the columns in these places."""
    table = pd.DataFrame({1: np.linspace(0, 1, 50), 0: np.linspace(0, 1000, 50)})
    for known in ({"bounds": {0: (0, 1000), 1: (0, 1)}}, {"categories": [0]}):
        with pytest.raises(ValueError, match=r"those of X are no text: make them text, X.columns = "):
            DPHistograms(delta=1e-6, **known).fit(table)
    in_places = DPHistograms(bounds={0: (0, 1), 1: (0, 1000)}, delta=1e-6).fit(table[[1, 0]].to_numpy())
    assert [column.cells.bounds for column in in_places.histograms_.columns] == [(0, 1), (0, 1000)]


def test_columns_of_one_name_are_refused_by_that_name():
    """Names are public: a library behind scikit-learn says which, and this was withheld."""
    table = pd.DataFrame(np.eye(3, 2), columns=["age", "age"])
    with contextlib.suppress(ValueError):
        StandardScaler().fit(table)
        pytest.skip("This scikit-learn takes columns by their places.")
    with pytest.raises(ValueError, match="age"):
        DPHistograms(delta=1e-6).fit(table)
