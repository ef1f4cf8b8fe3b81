"""Attacks on how tables are read: no cell changes another row, or else what is released says what it assumes."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attacks import X200_UNIFORM, Y200_UNIFORM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _get_feature_names

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    MIDPRegressor,
    PublicScaler,
    iDPSignRP,
    privacy_report,
)
from skdprp.guarantee import ROWS_ARE_READ_ALONE
from skdprp.metrics import dp_accuracy_score

_N_ROWS, _N_PARTS = 4000, 4
_FAR = 15.0  # standard deviations of noise, which it passes less often than once in 10^20


def _codes(letters):
    """Digits as text, with a letter in the first row, as of a column of codes."""
    codes = np.random.default_rng(0).integers(1, 4, _N_ROWS).astype(str).astype(object)
    codes[list(letters)] = "A"
    return codes


def _lines(cells):
    return "code,x\n" + "".join(f"{cell},{place % 3}\n" for place, cell in enumerate(cells))


def _read(path, cells, **options):
    dd = pytest.importorskip("dask.dataframe")
    path.write_text(_lines(cells))
    return dd.read_csv(path, blocksize=path.stat().st_size // _N_PARTS, **options)


def _listed(table, names=("A", "1", "2", "3")):
    """Released numbers of listed codes in units of their noise."""
    fitted = DPHistograms(delta=1e-6, categories={"code": list(names)}).fit(table)
    return np.array(list(fitted.histograms_.counts("code").values())) / fitted.scale_


def _with(cells, place, cell):
    other = cells.copy()
    other[place] = cell
    return other


@pytest.mark.parametrize("cell", ["", "A", "0.5", "000", "True", "1e3"])
def test_cells_of_a_csv_whose_type_is_given_change_no_other_row(cell, tmp_path):
    codes = _codes([3])
    tables = [
        _read(tmp_path / name, cells, dtype={"code": str})
        for name, cells in (("a.csv", codes), ("b.csv", _with(codes, 2500, cell)))
    ]
    one, other = (_listed(table) for table in tables)
    assert np.abs(one - other).max() < _FAR


@pytest.mark.parametrize("cell", [None, "A", 0.5, 2**70, True])
def test_cells_of_objects_in_parts_change_no_other_row(cell):
    dd = pytest.importorskip("dask.dataframe")
    codes = _codes([3])
    tables = [
        dd.from_pandas(pd.DataFrame({"code": pd.Series(cells, dtype=object), "x": 0.0}), npartitions=_N_PARTS)
        for cells in (codes, _with(codes, 2500, cell))
    ]
    one, other = (_listed(table) for table in tables)
    assert np.abs(one - other).max() < _FAR


def _are_counted_alike(one, other, column, names):
    """Whether released numbers of listed names of two tables differ by noise alone."""
    categories = {column: list(dict.fromkeys(names))}
    models = [DPHistograms(delta=1e-6, categories=categories).fit(table) for table in (one, other)]
    numbers = [np.array(model.histograms_.columns[0].counts) / model.scale_ for model in models]
    return np.abs(numbers[0] - numbers[1]).max() < _FAR


@pytest.mark.parametrize("kind", ["int64", "uint64", "bool_", "float32", "large_string"])
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_null_of_an_arrow_table_rounds_no_other_number_of_its_column(kind, is_batch):
    pa = pytest.importorskip("pyarrow")
    places = np.random.default_rng(0).integers(0, 3, _N_ROWS)
    names = {
        "bool_": [False, True, True],
        "float32": [0.5, 1.5, 2.5],
        "large_string": ["0", "01", "1.0"],
    }.get(kind, [10**17, 10**17 + 1, 10**17 + 2])

    def _table(cells):
        columns = {"code": pa.array(cells, getattr(pa, kind)())}
        return (pa.record_batch if is_batch else pa.table)(columns)

    cells = [names[place] for place in places]
    tables = [_table(some) for some in (cells, [None, *cells[1:]])]
    column = 0 if _get_feature_names(pa.table({"code": [0]})) is None else "code"
    assert _are_counted_alike(*tables, column, names)


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary", "batch"])
def test_text_of_an_arrow_table_is_counted_by_category_as_that_of_a_frame(kind, seeded):
    """It was refused as text where numbers should be, unless its column was listed."""
    pa = pytest.importorskip("pyarrow")
    ages, cities = np.arange(3000.0), np.array(["a", "b", "a"] * 1000, dtype=object)
    text = pa.array(cities, pa.large_string() if kind == "large_string" else None)
    text = text.dictionary_encode() if kind == "dictionary" else text
    table = (pa.record_batch if kind == "batch" else pa.table)({"age": ages, "city": text})
    for rows in (pd.DataFrame({"age": ages, "city": cities}), table):
        fitted = DPHistograms(delta=1e-6).fit(rows)
        assert set(fitted.histograms_.counts("city")) == {"a", "b"}
        assert 1000 < fitted.histograms_.quantile("age", 0.5) < 2000


@pytest.mark.parametrize("size", [1, 10**17])
def test_a_number_of_a_sparse_table_that_is_stored_in_two_parts_rounds_no_other(size):
    numbers = size + np.random.default_rng(0).integers(0, 3, _N_ROWS)
    rows = sp.csr_array(np.c_[numbers, np.ones(_N_ROWS, int)])
    parts = sp.csr_array(
        (np.r_[rows.data[0] - 1, 1, rows.data[1:]], np.r_[0, rows.indices], np.r_[0, rows.indptr[1:] + 1]),
        shape=rows.shape,
    )
    assert (rows.toarray() == parts.toarray()).all()
    assert _are_counted_alike(rows, parts, 0, [size, size + 1, size + 2])


@pytest.mark.parametrize(
    "estimator",
    [
        AMPClassifier(classes=[0, 1], delta=1e-6),
        DPSGDClassifier(classes=[0, 1], n_epochs=2),
        DPRidge(target_bounds=(0, 1)),
        MIDPRegressor(),
        DPHistograms(),
        DPBinner(),
        DPMoments(),
        DPOPORP(2),
        DPSignOPORP(2),
        iDPSignRP(2, projection="gaussian"),
        DPSearchCV(AMPClassifier(classes=[0, 1]), {}, n_trials=1, delta=1e-4),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_guarantee_assumes_that_no_row_decides_how_others_are_read(estimator):
    """A reader that guesses types turns each False of a part into True, or each 1 into 1.0, for one odd cell."""
    fitted = estimator.fit(X200_UNIFORM, Y200_UNIFORM)
    assert ROWS_ARE_READ_ALONE in fitted.guarantee_.assumptions
    public = make_pipeline(PublicScaler((-1, 1)), fitted).fit(X200_UNIFORM, Y200_UNIFORM)
    report = privacy_report(public)
    assert report.total is None or ROWS_ARE_READ_ALONE in report.total.assumptions


def test_a_report_of_private_steps_and_a_score_assume_that_no_row_decides_how_others_are_read():
    model = make_pipeline(StandardScaler(), AMPClassifier(classes=[0, 1], delta=1e-6)).fit(X200_UNIFORM, Y200_UNIFORM)
    assert ROWS_ARE_READ_ALONE in privacy_report(model).private.assumptions
    score = dp_accuracy_score(Y200_UNIFORM, 1 - Y200_UNIFORM, epsilon=1.0)
    assert ROWS_ARE_READ_ALONE in score.guarantee.assumptions
