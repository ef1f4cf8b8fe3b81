"""Attacks on tables that scikit-learn makes frames of another kind of, and on types where a cell is missing."""

import itertools

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPScaler,
    DPSearchCV,
    PublicBinner,
    PublicScaler,
    make_table_preprocessor,
    privacy_report,
)
from skdprp.preprocessing._table import TableColumns

pa = pytest.importorskip("pyarrow")

pl = pytest.importorskip("polars")
pytestmark = pytest.mark.filterwarnings("ignore")
NARROW = ["Int8", "Int16", "Int64", "UInt8", "Float32", "Float64", "Boolean"]


def answers(*, one_is_missing, n_samples=400):
    """Ages and truth values, of which one may be missing; the schema of both tables is the same."""
    rng = np.random.default_rng(0)
    age, smokes = rng.integers(18, 90, n_samples), (rng.uniform(size=n_samples) < 0.3).tolist()
    if one_is_missing:
        smokes[7] = None
    return pl.DataFrame({"age": age, "smokes": pl.Series(smokes, dtype=pl.Boolean)})


def ids(*, one_is_missing):
    """Whole numbers beyond 2**53, and small ones, of which one may be missing."""
    visits = [i % 3 for i in range(400)]
    if one_is_missing:
        visits[7] = None
    return pl.DataFrame({"id": [10**17 + i % 5 for i in range(400)], "visits": pl.Series(visits, dtype=pl.Int64)})


@pytest.mark.parametrize("output", ["default", "polars", "pandas"])
def test_one_missing_cell_of_polars_does_not_make_names_of_the_numbers_of_all_rows(output):
    """All ages became names, with another total in print."""
    found = []
    with sklearn.config_context(transform_output=output):
        for one_is_missing in (False, True):
            table = answers(one_is_missing=one_is_missing)
            columns = make_table_preprocessor(epsilon=5.0, n_bins=4)
            model = make_pipeline(columns, AMPClassifier(delta=1e-6, classes=[0, 1]))
            model.fit(table, np.arange(len(table)) % 2)
            binner = model[0]["columns"].transformers_[-1][1]
            kinds = [type(column).__name__ for column in binner.histograms_.columns]
            found.append((kinds, repr(privacy_report(model).total), binner.n_bins_.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("output", ["default", "polars", "pandas"])
def test_one_missing_cell_of_polars_rounds_no_number_of_another_column(output):
    """Five names became one."""
    counted = []
    with sklearn.config_context(transform_output=output):
        for one_is_missing in (False, True):
            counting = DPHistograms(categories=["id"], epsilon=10.0, delta=1e-3)
            pipeline = make_pipeline(TableColumns([], {}, others="take"), counting)
            pipeline.fit(ids(one_is_missing=one_is_missing))
            counted.append(set(pipeline[-1].histograms_.counts("id")))
    assert counted[0] == counted[1]


@pytest.mark.parametrize("known", [{"categories": {"code": ["101", "102"]}}, {"epsilon": 1.0}])
@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_no_error_of_the_first_step_of_a_table_quotes_a_cell_whatever_frame_is_asked_for(output, known):
    """That of pyarrow did, for a column of objects."""
    table = pd.DataFrame({"age": [30.0, 40.0, 50.0], "code": pd.Series([101, 102, "SECRET"], dtype=object)})
    columns = make_table_preprocessor({"age": (0, 100)}, **known, sparse_output=False).set_output(transform=output)
    try:
        columns["table"].fit_transform(table)
    except Exception as error:
        assert "SECRET" not in str(error)


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_frames_of_pandas_keep_their_types_whatever_is_missing_and_asked_for(output):
    """Those of 15 types, whose categories are numbers among them."""
    whole, big = list(range(8)), [10**17 + i for i in range(8)]
    truth, names = [True, False] * 4, list("abcdefgh")
    columns = [(whole, "Int8"), (big, "Int64"), (truth, "boolean"), (whole, "Float32"), (names, "string")]
    columns += [(big, "int64[pyarrow]"), (truth, "bool[pyarrow]"), (whole, object), (truth, object)]
    columns += [(some, pd.CategoricalDtype(sorted(set(some)))) for some in (whole, big, names, truth)]
    for values, dtype in columns:
        made = []
        for cells in (values, [*values[:4], None, *values[5:]]):
            table = pd.DataFrame({"p": pd.Series(cells, dtype=dtype), "q": np.arange(8.0)})
            with sklearn.config_context(transform_output=output):
                column = TableColumns([], {}, others="take").fit(table).transform(table)["p"]
            cells = column.to_list()
            made.append((str(column.dtype), [repr(cell) for cell in cells[:4] + cells[5:]]))
        assert made[0] == made[1]


def test_one_missing_number_of_polars_changes_no_type_that_preprocessing_gives():
    """Of all pairs of types; public steps give other rows the same numbers."""
    steps = [PublicScaler((0, 1), fill="middle"), PublicBinner((0, 1), sparse_output=False)]
    few = {"delta": 1e-6, "bounds": (0, 1), "n_cells": 16}
    steps += [DPScaler(**few), DPBinner(**few, sparse_output=False)]
    for first in NARROW:
        for second in NARROW:
            pairs = []
            for missing in (False, True):
                cells = [None if missing and i == 9 else i % 2 for i in range(32)]
                column = pl.Series(cells, dtype=pl.Int8).cast(getattr(pl, first))
                other = pl.Series([i % 2 for i in range(32)], dtype=pl.Int8).cast(getattr(pl, second))
                table = pl.DataFrame({"p": column, "q": other})
                pairs.append([step.fit(table).transform(table) for step in steps])
            for step, one, another in zip(steps, *pairs, strict=True):
                assert one.dtype == another.dtype
                if isinstance(step, PublicScaler | PublicBinner):
                    assert np.array_equal(np.delete(one, 9, 0), np.delete(another, 9, 0))


@pytest.mark.parametrize("reading", [pa.Table.from_pandas, pa.RecordBatch.from_pandas])
@pytest.mark.parametrize("estimator", [AMPClassifier(), DPOPORP(2), PublicScaler((0, 1)), DPBinner()], ids=str)
def test_columns_of_arrow_are_told_apart_by_their_names(estimator, reading, binary):
    """Batches had none, and columns in another order were taken for those of the fit."""
    X, y = binary
    rows = pd.DataFrame(X, columns=list("abcdefgh"))
    fitted = estimator.fit(reading(rows), y)
    assert list(fitted.feature_names_in_) == list(rows)
    method = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    assert method(reading(rows)).shape[0] == len(rows)
    with pytest.raises(ValueError, match="feature names should match"):
        method(reading(rows[list("hgfedcba")]))


def test_a_reader_of_arrow_is_refused_with_what_to_pass():
    batch = pa.RecordBatch.from_pandas(pd.DataFrame({"a": [0.5]}))
    for estimator in (AMPClassifier(), DPOPORP(1), PublicBinner((0, 1))):
        with pytest.raises(TypeError, match="pass its rows"):
            estimator.fit(pa.RecordBatchReader.from_batches(batch.schema, [batch]), [0])


def test_a_search_takes_tables_as_its_best_model_does(binary):
    X, y = binary
    rows = pd.DataFrame(X, columns=list("abcdefgh"))
    model = make_pipeline(make_column_transformer(("passthrough", ["a", "b"]), sparse_threshold=0), AMPClassifier())
    search = DPSearchCV(model, {}, n_trials=1, epsilon=5.0, classes=[0, 1]).fit(rows, y)
    other = rows.assign(more=0.0)[["more", *"hgfedcba"]]
    assert (search.predict(other) == search.predict(rows)).all()
    with pytest.raises(ValueError, match="X contains NaN"):
        search.predict(other.assign(a=np.nan))
    alone = DPSearchCV(AMPClassifier(), {}, n_trials=1, epsilon=5.0, classes=[0, 1]).fit(rows, y)
    with pytest.raises(ValueError, match="feature names should match"):
        alone.predict(rows[list("hgfedcba")])


def test_no_error_of_a_table_quotes_complex_numbers():
    table = pd.DataFrame({"p": np.arange(12) + 9876j, "q": np.arange(12.0)})
    with pytest.raises((TypeError, ValueError)) as error:
        make_table_preprocessor({"q": (0, 5)}, categories={"p": [1, 2]}).fit_transform(table)
    assert "9876" not in str(error.value)


TYPES = [pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()]


@pytest.mark.parametrize("form", ["table", "batch"])
@pytest.mark.parametrize(
    "step", [PublicScaler((-3, 30), fill="middle"), PublicBinner((-3, 50), n_bins=7, sparse_output=False)]
)
def test_a_missing_cell_of_arrow_changes_no_other_row_and_no_type(form, step):
    for one, two in itertools.product(TYPES, TYPES):
        made = {pa.bool_(): bool, pa.float16(): np.float16, pa.float32(): float, pa.float64(): float}
        cells = [[made.get(kind, int)(number) for number in (1, 0, 3, 7)] for kind in (one, two)]
        tables = []
        for missing in (False, True):
            first = [*cells[0][:2], None if missing else cells[0][2], cells[0][3]]
            table = pa.table({"a": pa.array(first, one), "b": pa.array(cells[1], two)})
            tables.append(table if form == "table" else table.to_batches()[0])
        plain, with_missing = (step.fit(tables[0]).transform(table) for table in tables)
        assert plain.dtype == with_missing.dtype
        assert np.array_equal(np.delete(plain, 2, 0), np.delete(with_missing, 2, 0))
