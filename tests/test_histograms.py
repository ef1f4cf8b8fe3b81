"""Histograms of all columns of a table: cells, sums, sensitivity, quantiles, categories, forms of tables."""

import itertools
from fractions import Fraction
from math import comb, isqrt

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils import gen_batches

from skdprp import DPHistograms, PrivacyLedger, audit_epsilon, privacy_report
from skdprp.histograms import _columns
from skdprp.histograms._cells import (
    Cells,
    coefficients,
    column_norm,
    column_norm_squared,
    half_sums,
    noise_of_sums,
    prefix_sums,
)
from skdprp.histograms._columns import Listed, Numbers, Unlisted
from skdprp.mechanisms import thresholded_counts
from skdprp.sensitivity import histograms_sensitivity
from skdprp.testing._tape import tape_of

LARGE = {"epsilon": 100.0, "delta": 0.5}


def table(n_rows=600):
    """Rows of numbers of several kinds, some missing, and of categories, some rare."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n_rows), "income": rng.lognormal(10, 1, n_rows).round(2)})
    frame["gain"] = np.where(rng.random(n_rows) < 0.9, 0.0, frame["income"] / 7)
    frame["town"] = rng.choice(["York", "Hull", "Leeds"], n_rows, p=[0.6, 0.3, 0.1])
    frame.loc[::7, "income"] = np.nan
    frame.loc[::5, "town"] = None
    return frame


# Cells


def test_cells_of_floats_tell_years_apart_and_have_one_for_zero():
    cells = Cells()
    assert (np.diff(cells.edges) > 0).all()
    whole = np.arange(-2048.0, 2049.0)
    assert len(set(cells.place(whole))) == len(whole)
    assert (cells.edges[cells.place(whole)] == whole).all()
    near = np.array([-1e-300, 0.0, -0.0, 1e-300])
    assert len(set(cells.place(near))) == 3 and cells.place(near)[1] == cells.place(near)[2]
    # Beyond 4096 and below 1 a cell is a 256th of its numbers wide, or less.
    large = np.array([5e-5, 0.3, 50_000.0, 1e9])
    assert (cells.edges[cells.place(large) + 1] - cells.edges[cells.place(large)] <= large / 256).all()


def test_what_is_beyond_the_cells_is_in_the_outermost():
    for cells in (Cells(), Cells((0, 10), 16)):
        assert cells.place(np.array([-1e308, 1e308])).tolist() == [0, len(cells) - 1]


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(2, 5000))
def test_cells_between_bounds_are_at_most_as_many_as_asked_for(low, width, n_cells):
    cells = Cells((low, low + width), n_cells)
    edges = cells.edges
    widths = np.diff(edges)
    assert n_cells / 4 - 1 <= len(cells) <= n_cells + 1
    assert (widths == widths[:1]).all() and (np.frexp(widths[:1])[0] == 0.5).all()
    assert edges[0] <= low and edges[-1] <= low + width <= edges[-1] + np.append(widths, width)[0]


@pytest.mark.parametrize("bounds", [None, (0.0, 10.0), (-3.7, 1e-9), (-1e100, 1e90), (1e-100, 1e-99)])
def test_numbers_are_in_the_last_cell_that_begins_at_or_below_them(bounds):
    """Looked up by their bits, or by quotients that are exact, as a search among the edges finds them."""
    cells, rng = Cells(bounds), np.random.default_rng(0)
    any_float = rng.integers(-(2**63), 2**63 - 1, 200_000).view(np.float64)
    edges, tiny = cells.edges, 2.0**-1022
    special = np.array([0.0, -0.0, 5e-324, tiny, tiny / 2, 2.0**-20, 2.0**40, 1e308, np.inf])
    near = [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf), -edges, special, -special]
    values = np.concatenate([*near, any_float[~np.isnan(any_float)], rng.normal(size=100_000) * 100])
    assert np.array_equal(cells.place(values), np.searchsorted(edges[1:], values, side="right"))


def test_bounds_without_room_for_cells_are_refused():
    with pytest.raises(ValueError, match="floats have no 4096 cells"):
        DPHistograms(bounds=(1e15, 1e15 + 1)).fit([[0.0]])


# Sums


@given(st.lists(st.integers(0, 2**35), min_size=1, max_size=40))
def test_sums_are_exact(counts):
    whole = coefficients(len(counts)).astype(int).tolist()
    exact = [sum(whole[i - k] * counts[k] for k in range(i + 1)) for i in range(len(counts))]
    assert (half_sums(np.array(counts)) * 4096).tolist() == exact


def test_sums_over_all_cells_are_exact():
    """Of as many rows as there may be, where a Fourier transform rounds most; along some rows of the matrix."""
    size, rng = len(Cells()), np.random.default_rng(0)
    for counts in (
        rng.integers(0, 2**20, size),
        np.where(np.arange(size) == 3, 2**36 - 1, 0),
        np.full(size, 2**20 - 1),
    ):
        sums = half_sums(counts) * 4096
        for i in (0, 5, 1000, size // 2, size - 1):
            assert int(sums[i]) == sum(
                c * n
                for c, n in zip(
                    coefficients(size)[: i + 1][::-1].astype(int).tolist(), counts[: i + 1].tolist(), strict=True
                )
            )


@pytest.mark.parametrize("size", [1, 2, 9, 4096, 49_154])
def test_twice_the_root_makes_prefix_sums(size):
    counts = np.random.default_rng(0).integers(0, 1000, size)
    np.testing.assert_allclose(prefix_sums(half_sums(counts)), np.cumsum(counts), rtol=1e-9)
    # The square root has norms of the order of the root of the logarithm, on either side.
    norm, noise = column_norm(size), noise_of_sums(size)
    assert abs(norm**2 - (1 + np.log(size) / np.pi)) < 0.5
    assert noise == pytest.approx(norm, rel=1e-3)


def test_norms_of_columns_are_exact():
    """Those of the coefficients as they are used: central binomial coefficients, rounded to a 1 / 4096."""
    exact = [round(Fraction(comb(2 * k, k), 4**k) * 4096) for k in range(60)]
    assert coefficients(60).tolist() == exact
    squared = sum(c**2 for c in exact)
    assert column_norm_squared(60) == Fraction(squared, 4096**2)
    assert column_norm(60) * 4096 == isqrt(squared)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_sensitivity_is_that_of_the_worst_pair_of_rows(adjacency):
    """Of all rows of a table of a column of numbers, with a value of each cell or missing, and one of categories."""
    columns = (Numbers(Cells((0, 5), 5)), Listed(("a", "b")))
    values = ([*np.arange(5.0), np.nan], ["a", "b", "c", None])

    def sums(row):
        return np.concatenate([c.sums(c.count(v)) for c, v in zip(columns, (np.array(row[:1]), [row[1]]), strict=True)])

    rows = [sums(row) for row in itertools.product(*values)]
    others = rows if adjacency == "replace_one" else [np.zeros_like(rows[0])]
    worst = max(np.linalg.norm(one - other) for one in rows for other in others)
    bound = histograms_sensitivity(sum(column.norm_squared for column in columns), adjacency=adjacency)
    # A missing value weighs as much as the largest column, rounded down to a 1 / 4096.
    assert bound * (1 - 2.0**-12) < worst <= bound


# Quantiles, means, counts


def test_quantiles_are_those_of_the_rows_up_to_a_cell(silenced_noise):
    frame = table()
    release = DPHistograms(**LARGE).fit(frame).histograms_
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    for name in ("age", "income", "gain"):
        exact = np.nanquantile(frame[name], levels, method="inverted_cdf")
        found = release.quantile(name, levels)
        assert (found <= exact).all() and (found >= exact * (1 - 1 / 128)).all()
        assert release.missing(name) == pytest.approx(frame[name].isna().sum(), abs=1e-6)
        assert release.mean(name) == pytest.approx(frame[name].mean(), rel=0.05)
    assert release.quantile("age", 0.5) == frame["age"].quantile(0.5, interpolation="lower")
    assert release.missing("town") == frame["town"].isna().sum()


def test_bounds_clip_what_is_beyond(silenced_noise):
    release = DPHistograms(bounds={"age": (20, 60)}, **LARGE).fit(table()).histograms_
    assert release.quantile("age", 0.0) == 20 and 59 < release.quantile("age", 1.0) <= 60


def test_quantiles_are_as_near_as_the_noise_says(seeded):
    """In fifty releases none is off by more than seven standard deviations of the noise, in ranks; most are nearer."""
    rows, off = np.arange(20_000.0)[:, None] / 100, []
    for _ in range(50):
        release = DPHistograms(delta=1e-6, bounds=(0, 200)).fit(rows).histograms_
        off.append(
            np.abs(release.quantile(0, [0.1, 0.5, 0.9]) * 100 - [2000, 10_000, 18_000]) / release.column(0).deviation
        )
    assert np.max(off) < 7
    assert np.mean(off) < 2


def test_the_noise_of_cumulative_counts_is_as_stated(seeded):
    X = np.full((100, 1), 0.5)
    sums = []
    for _ in range(400):
        column = DPHistograms(delta=1e-6, bounds=(0, 1), n_cells=64).fit(X).histograms_.columns[0]
        sums.append(prefix_sums(column.values[:-1]) - 100 * (column.cells.edges >= 0.5))
    spread = np.std(sums, axis=0)
    assert spread.max() == pytest.approx(column.deviation, rel=0.1)
    assert np.abs(np.mean(sums, axis=0)).max() < 0.3 * column.deviation


def test_counts_of_listed_categories_have_one_for_all_others(silenced_noise):
    frame = table()
    release = DPHistograms(categories={"town": ["York", "Hull", "Bath"], "age": None}, **LARGE).fit(frame).histograms_
    counts = frame["town"].value_counts()
    assert release.counts("town") == {"York": counts["York"], "Hull": counts["Hull"], "Bath": 0.0}
    assert release.column("town").others == counts["Leeds"]
    assert list(release.counts("age")) == sorted(frame["age"].unique()) and release.column("age").others is None


def test_a_category_of_one_row_is_not_named():
    """With a probability of at most delta / 8, and those of many rows are, with all but certainty."""
    towns = ["Hull"] * 500 + ["York"] * 400 + ["Atlantis"]
    for _ in range(20):
        release = DPHistograms(delta=1e-11).fit(pd.DataFrame({"town": towns})).histograms_
        assert list(release.counts("town")) == ["Hull", "York"]


def test_categories_are_in_the_order_of_their_names(silenced_noise):
    names = ["b", "a", 2, 10, True, 1, 0.5, b"x", False]
    for order in itertools.islice(itertools.permutations(names), 0, None, 50_000):
        frame = pd.DataFrame({"c": pd.Series(list(order) * 9, dtype=object)})
        found = DPHistograms(**LARGE).fit(frame).histograms_.column("c").categories
        assert [(type(one), one) for one in found] == [
            (type(one), one) for one in [False, True, b"x", 0.5, 1, 2, 10, "a", "b"]
        ]


def test_whole_floats_are_the_same_categories_as_integers(silenced_noise):
    """A column of integers becomes one of floats where a value is missing."""
    whole = DPHistograms(categories=["c"], **LARGE).fit(pd.DataFrame({"c": [1, 2] * 9})).histograms_.counts("c")
    gaps = DPHistograms(categories=["c"], **LARGE).fit(pd.DataFrame({"c": [1, 2, None] * 9})).histograms_.counts("c")
    assert whole == gaps == {1: 9.0, 2: 9.0}


def test_questions_that_have_no_answer_are_refused():
    release = DPHistograms(delta=1e-6).fit(table()).histograms_
    for ask, message in (
        (lambda: release.quantile("town", 0.5), "holds categories"),
        (lambda: release.counts("age"), "No categories were counted"),
        (lambda: release.mean("height"), "no column 'height'"),
        (lambda: release.quantile("age", 1.5), "between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


# Tables in all forms


def reaches_the_noise(X, **parameters):
    return [values.tolist() for _, _, values in tape_of(lambda: DPHistograms(delta=1e-6, **parameters).fit(X))]


def test_the_form_of_a_table_is_irrelevant():
    """To the last bit: whole numbers are counted."""
    frame = table()
    expected = reaches_the_noise(frame)
    typed = frame.astype({"age": "Int64", "income": "Float64", "town": "string"})
    forms = {
        "shuffled": frame.sample(frac=1, random_state=0),
        "nullable": typed,
        "categories": frame.astype({"town": "category"}),
        "objects": frame.astype({"town": object}),
        "float32": frame.assign(age=frame["age"].astype(np.float32)),
        "sparse": frame.assign(gain=pd.arrays.SparseArray(frame["gain"], fill_value=0.0)),
        "polars": pl.from_pandas(frame),
        "polars enum": pl.from_pandas(frame).with_columns(pl.col("town").cast(pl.Enum(["York", "Hull", "Leeds"]))),
        "polars with nulls": pl.from_pandas(frame).with_columns(pl.col("income").fill_nan(None)),
    }
    for name, form in forms.items():
        assert reaches_the_noise(form) == expected, name


def test_arrays_are_numbers_but_for_named_columns():
    frame = table().fillna({"town": "?"})
    numbers = frame[["age", "income", "gain"]].to_numpy()
    expected = reaches_the_noise(numbers)
    for form in (
        numbers.tolist(),
        np.asfortranarray(numbers),
        numbers.astype(object),
        sp.csr_array(numbers),
        sp.coo_matrix(numbers),
    ):
        assert reaches_the_noise(form) == expected
    mixed = frame.to_numpy(dtype=object)
    assert reaches_the_noise(mixed, categories=[3]) == reaches_the_noise(frame)
    assert reaches_the_noise(mixed.tolist(), categories={3: None}) == reaches_the_noise(frame)
    with pytest.raises(ValueError, match="text where numbers should be"):
        DPHistograms().fit(mixed)


def test_blocks_of_rows_are_one_table(monkeypatch):
    """Rows are counted in blocks that stay in the cache, in which a category or a missing value may not occur."""
    frame = pd.concat([table(), pd.DataFrame({"age": [200.0], "town": ["Rome"]})])
    columns = (Numbers(Cells()), Numbers(Cells((0, 1e5), 64)), Numbers(Cells()), Unlisted())
    whole = _columns.count(frame, columns)
    monkeypatch.setattr(_columns, "gen_batches", lambda n_rows, _: gen_batches(n_rows, 101))
    for chunk in (frame, pl.from_pandas(frame.reset_index(drop=True))):
        n_rows, counts = _columns.count(chunk, columns)
        assert n_rows == whole[0] == 601
        assert all(np.array_equal(one, other) for one, other in zip(counts[:3], whole[1][:3], strict=True))
        assert counts[3] == whole[1][3] and sum(counts[3].values()) == 601


@pytest.mark.parametrize("bounds", [(0, 1.0), (0, 4096.0), (0, 2.0**50)])
def test_the_least_number_below_zero_has_a_cell_below_that_of_zero(bounds):
    """Divided by a width above 1 it is 0."""
    cells = Cells((-bounds[1], bounds[1]), 1000)
    below, at, above = cells.place(np.array([-5e-324, 0.0, 5e-324]))
    assert cells.edges[below] < 0 == cells.edges[at] and at == above == below + 1


def test_chunks_are_one_table():
    frame = table()
    expected = reaches_the_noise(frame)
    parts = [frame[:100], frame[100:101], frame[101:]]
    assert [v.tolist() for _, _, v in tape_of(lambda: DPHistograms(delta=1e-6).fit_chunks(iter(parts)))] == expected
    fitted = DPHistograms(delta=1e-6).fit_chunks(parts)
    assert fitted.histograms_.n_samples == len(frame)
    parts = [frame[:0], *parts, frame[:0]]
    assert [v.tolist() for _, _, v in tape_of(lambda: DPHistograms(delta=1e-6).fit_chunks(iter(parts)))] == expected
    with pytest.raises(ValueError, match="no rows"):
        DPHistograms().fit_chunks([])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        DPHistograms().fit_chunks([frame[:0]])
    for fit in (DPHistograms().fit, lambda rows: DPHistograms().fit_chunks([rows])):
        with pytest.raises(ValueError, match="Expected 2D array"):
            fit(())
    with pytest.raises(ValueError, match="feature names"):
        DPHistograms().fit_chunks([frame, frame.rename(columns={"age": "years"})])


def test_partitions_are_one_table():
    dask = pytest.importorskip("dask.dataframe")
    frame = table()
    lazy = dask.from_pandas(frame, npartitions=3)
    assert reaches_the_noise(lazy) == reaches_the_noise(frame)
    assert reaches_the_noise(dask.from_pandas(frame, npartitions=80)) == reaches_the_noise(frame)
    assert DPHistograms(delta=1e-6).fit(lazy[lazy["age"] > 40]).histograms_.n_samples == (frame["age"] > 40).sum()
    numbers = frame[["age", "gain"]].to_numpy()
    rows = pytest.importorskip("dask.array").from_array(numbers, chunks=(100, 1))
    assert reaches_the_noise(rows) == reaches_the_noise(numbers)


@pytest.mark.parametrize(
    ("X", "parameters", "kind", "message"),
    [
        ([[np.inf]], {}, ValueError, "contains infinity"),
        ([["x"]], {"categories": {0: [np.inf]}}, ValueError, "must be different texts"),
        ([[-np.inf, 1.0]], {"categories": [0]}, ValueError, "contains infinity"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), {}, TypeError, "dates or spans of time"),
        (np.array([["2020-01-01"]], dtype="M8[ns]"), {"categories": [0]}, TypeError, "dates or spans of time"),
        (pl.DataFrame({"a": ["2020-01-01"]}).with_columns(pl.col("a").str.to_date()), {}, TypeError, "dates or spans"),
        (pd.DataFrame({"a": [(1, 2)]}), {}, TypeError, "neither text nor finite numbers"),
        (pd.DataFrame({"a": [[1, 2]]}), {}, TypeError, "neither text nor finite numbers"),
        (pd.DataFrame({"a": [1j]}), {}, ValueError, "Complex data"),
        ([1.0, 2.0], {}, ValueError, "Reshape your data"),
        (np.zeros((0, 2)), {}, ValueError, "0 sample"),
        (pd.DataFrame({"a": []}, dtype=str), {}, ValueError, "There are no rows"),
        ([[1.0]], {"bounds": (1, 0)}, ValueError, "low and high exchanged"),
        ([[1.0]], {"bounds": {"a": (0, 1)}}, ValueError, "which X does not have"),
        ([[1.0]], {"categories": [3]}, ValueError, "which X does not have"),
        ([[1.0]], {"categories": {0: "abc"}}, ValueError, "must be different texts"),
        ([[1.0]], {"categories": {0: ["a", "a"]}}, ValueError, "must be different texts"),
        ([[1.0]], {"categories": [0], "bounds": {0: (0, 1)}}, ValueError, "hold categories and no numbers"),
        ([[1.0]], {"n_cells": 1}, ValueError, "n_cells"),
        ([[1.0]], {"delta": 0.0}, ValueError, "delta"),
        ([[1.0]], {"epsilon": 1e-6}, ValueError, "too small"),
    ],
)
def test_what_cannot_be_counted_is_refused_and_nothing_released(X, parameters, kind, message):
    with PrivacyLedger() as ledger, pytest.raises(kind, match=message) as caught:
        DPHistograms(**parameters).fit(X)
    assert caught.value.__context__ is None
    assert not ledger.entries


def test_more_rows_than_are_summed_exactly_are_refused():
    with pytest.raises(ValueError, match="not exact"):
        DPHistograms()._calibrate(2**36, (Listed(("a",)),))
    assert DPHistograms()._calibrate(2**36 - 1, (Listed(("a",)),)).guarantee.epsilon == 1.0


# The release


def test_the_release_is_entered_and_charged_as_it_is_stated():
    with PrivacyLedger() as ledger:
        fitted = DPHistograms(epsilon=0.5, delta=1e-6).fit(table())
    assert [entry.guarantee for entry in ledger.entries] == [fitted.guarantee_]
    assert privacy_report(fitted).total.epsilon == 0.5
    assert fitted.guarantee_.profile(0.5) <= 1e-6 < fitted.guarantee_.profile(0.5 * (1 - 1e-4))


def test_what_is_told_is_assumed_to_be_public():
    for parameters in ({}, {"bounds": {"age": (0, 99)}}, {"categories": {"town": ["York"]}}, {"categories": ["age"]}):
        assumed = DPHistograms(delta=1e-6, **parameters).fit(table()).guarantee_.assumptions
        is_told = any(isinstance(given, dict) for given in parameters.values())
        assert ("bounds and listed categories do not come from the data" in assumed) == is_told


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_rows_that_count_or_not_need_less_noise(adjacency):
    one, other = (DPHistograms(delta=1e-6, adjacency=name).fit(table()) for name in ("replace_one", adjacency))
    assert one.scale_ / other.scale_ == pytest.approx(1 if adjacency == "replace_one" else 2**0.5, rel=1e-6)


def test_histograms_are_values():
    fitted = DPHistograms(delta=1e-6).fit(table())
    assert fitted.histograms_ == fitted.histograms_ != clone(fitted).fit(table()).histograms_
    again = DPHistograms().fit_histograms(fitted.histograms_)
    assert again.guarantee_ == fitted.guarantee_ and again.feature_names_in_.tolist() == list(table())
    assert (again.scale_, again.threshold_) == (fitted.scale_, fitted.threshold_)
    with pytest.raises(TypeError, match="Expected Histograms"):
        DPHistograms().fit_histograms(fitted)


NAMED = pd.DataFrame({"town": ["Hull"] * 60 + ["Atlantis"]})
UNNAMED = pd.DataFrame({"town": ["Hull"] * 61})


def is_named(fitted):
    return float("Atlantis" in fitted.histograms_.counts("town"))


def test_a_name_that_one_row_has_is_hidden_and_a_lower_threshold_caught(monkeypatch, seeded):
    """An attack that looks for the name finds nothing; and with a tenth of the threshold, a violation."""
    release = DPHistograms(epsilon=0.1, delta=0.05)
    options = {"n_trials": 120, "distinguishers": ["linear"], "confidence": 0.999, "delta": 0.05}

    def audit():
        return audit_epsilon(lambda X: is_named(clone(release).fit(X)), NAMED, UNNAMED, **options)

    assert audit().epsilon <= 0.1
    exact = thresholded_counts.add_thresholded_noise
    monkeypatch.setattr(
        "skdprp.histograms._estimator.add_thresholded_noise",
        lambda counts, scale, threshold: exact(counts, scale, 0.1 * threshold),
    )
    assert audit().epsilon > 0.1
