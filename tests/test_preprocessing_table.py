"""The preprocessor of a table: by what is known of columns, and privately where nothing is; rows of norm 1 come out."""

import math
import pickle
import re
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import estimator_html_repr

from skdprp import (
    AMPClassifier,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyLedger,
    PublicScaler,
    make_table_preprocessor,
    privacy_report,
    set_budget,
)
from skdprp.testing import reproducible_noise

KNOWN = {
    "bounds": {"age": (0, 120), "hours": (0, 100)},
    "edges": {"gain": [0, 1, 1000, 5000]},
    "categories": {"sector": ["public", "private"], "level": [3, 1, 2], "owns": [True, False]},
    "drop": ["id"],
}


def people(n_rows=600):
    """Return a table of what tables have, and labels."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, n_rows), "hours": rng.normal(40, 10, n_rows)})
    table["gain"] = rng.choice([0, 0, 0, 700, 8000], n_rows)
    table["sector"] = rng.choice(["private", "public"], n_rows)
    table["level"] = rng.choice([1, 2, 3], n_rows)
    table["owns"] = rng.choice([True, False], n_rows)
    table["id"] = [f"number {place}" for place in range(n_rows)]
    return table, np.where(table["age"] < 60, "yes", "no")


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


@pytest.mark.parametrize("numbers", ["bins", "scaled"])
@pytest.mark.parametrize("n_bins", [2, 40])
def test_rows_are_sparse_by_what_is_known_of_the_columns(n_bins, numbers):
    """If few entries can be other than 0, whatever the rows are; and as in dense rows."""
    X, _ = people()
    preprocessor = make_table_preprocessor(**KNOWN, numbers=numbers, n_bins=n_bins)
    rows = preprocessor.fit_transform(X)
    assert sp.issparse(rows) == (numbers == "bins" and n_bins == 40)
    unknown = X.assign(sector="secret", level=9, owns=None)
    assert sp.issparse(preprocessor.fit_transform(unknown)) == sp.issparse(rows)
    given = KNOWN | {"numbers": numbers, "n_bins": n_bins, "sparse_output": False}
    np.testing.assert_array_equal(make_table_preprocessor(**given).fit_transform(X), dense(rows))


def test_private_bins_are_sparse_unless_a_category_may_be_that_of_all_rows():
    X, y = people()
    for categories, is_sparse in (({"sector": ["public", "private"]}, True), ({"sector": ["public"]}, False)):
        columns = make_table_preprocessor(epsilon=1.0, categories=categories, drop=["id"])
        assert sp.issparse(columns.fit_transform(X)) == is_sparse
        model = make_pipeline(columns, AMPClassifier(classes=["no", "yes"])).fit(X, y)
        assert not privacy_report(model).not_covered
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="For pandas output pass sparse_output=False"):
        make_table_preprocessor(epsilon=1.0, drop=["id"]).set_output(transform="pandas").fit_transform(X)
    assert not ledger.entries
    columns = make_table_preprocessor(epsilon=1.0, drop=["id"])
    model = make_pipeline(columns, AMPClassifier(classes=["no", "yes"])).set_output(transform="pandas")
    for plan in (privacy_report, partial(set_budget, epsilon=1.0, delta=1e-6)):
        with pytest.raises(ValueError, match="For pandas output pass sparse_output=False"):
            plan(model, X=X, y=y)


@pytest.mark.parametrize(
    ("encoder", "is_public"),
    [
        ({"categories": [["public", "private"]]}, True),
        ({"categories": [["public"]]}, False),
        ({"categories": [["public", "private"]], "drop": "first"}, False),
        ({"categories": [["public", "private"]], "max_categories": 1}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("threshold", [1.0, 0.99])
def test_whether_columns_are_sparse_is_public_where_each_row_has_a_zero(encoder, threshold, is_public):
    """At a threshold of 1: of others, one row may decide."""
    X, y = people()
    encoder = OneHotEncoder(handle_unknown="ignore", **encoder)
    columns = ColumnTransformer(
        [("numbers", PublicScaler((0, 120)), ["age"]), ("names", encoder, ["sector"])], sparse_threshold=threshold
    )
    model = make_pipeline(columns, AMPClassifier(classes=["no", "yes"])).fit(X, y)
    told = any("sparse_output_" in one for one in privacy_report(model).not_covered)
    assert told == (not (is_public and threshold == 1.0))


def test_rows_of_bins_and_categories_have_norm_one_and_the_same_entries():
    """Six columns say something, each with a single 1 among its bins."""
    X, _ = people()
    preprocessor = make_table_preprocessor(**KNOWN, n_bins=4)
    rows = preprocessor.fit_transform(X)
    assert rows.shape == (600, 5 + 5 + 4 + 2 + 3 + 2)
    np.testing.assert_allclose(np.unique(rows), [0, 1 / 6**0.5])
    assert np.count_nonzero(rows, axis=1).tolist() == [6] * 600
    names = preprocessor.get_feature_names_out().tolist()
    assert names[:5] == ["age_(-inf, 30)", "age_[30, 60)", "age_[60, 90)", "age_[90, inf)", "age_nan"]
    assert names[10:] == [
        *["gain_(-inf, 1)", "gain_[1, 1000)", "gain_[1000, inf)", "gain_nan"],
        *["sector_public", "sector_private", "level_1", "level_2", "level_3", "owns_False", "owns_True"],
    ]
    is_60_to_90 = rows[:, names.index("age_[60, 90)")] > 0
    assert is_60_to_90.tolist() == X["age"].between(60, 89).tolist()


def test_what_is_known_may_come_from_iterators():
    X, _ = people()
    once = {
        name: {column: iter(given) for column, given in columns.items()} if isinstance(columns, dict) else iter(columns)
        for name, columns in KNOWN.items()
    }
    rows = dense(clone(make_table_preprocessor(**once)).fit_transform(X))
    np.testing.assert_array_equal(rows, dense(make_table_preprocessor(**KNOWN).fit_transform(X)))


def test_missing_and_other_values_are_no_error():
    """Numbers have a bin for them, categories have 0 everywhere."""
    X, _ = people(6)
    X = X.astype({"age": float, "sector": object, "level": float, "owns": object})
    X.iloc[:3, [0, 1, 2, 4]] = np.nan
    X.iloc[:2, [3, 5]] = None
    X.loc[2:3, "sector"] = "secret"
    table = make_table_preprocessor(**KNOWN, n_bins=4).fit(X)
    rows = pd.DataFrame(table.transform(X), columns=table.get_feature_names_out()) > 0
    assert rows["age_nan"].tolist() == rows["gain_nan"].tolist() == [True] * 3 + [False] * 3
    assert rows.filter(like="sector_").sum(axis=1).tolist() == [0, 0, 0, 0, 1, 1]
    assert rows.filter(like="level_").sum(axis=1).tolist() == [0, 0, 0, 1, 1, 1]
    assert rows.filter(like="owns_").sum(axis=1).tolist() == [0, 0, 1, 1, 1, 1]
    np.testing.assert_allclose(np.linalg.norm(table.transform(X), axis=1), 1)


@pytest.mark.parametrize("n_columns", [1, 2, 8, 9, 40])
def test_scaled_columns_are_clipped_at_a_third_of_the_longest_row_but_no_column_alone(n_columns):
    """The max_norm of 1 of the model is 0.35 of the longest row, or the norm of a row with one column at its bound."""
    X = pd.DataFrame(np.zeros((2, n_columns)), columns=[f"c{place}" for place in range(n_columns)])
    X.iloc[0] = 7.0
    X.iloc[1, 0] = 7.0
    rows = make_table_preprocessor(dict.fromkeys(X, (-7, 7)), numbers="scaled").fit_transform(X)
    longest, alone = np.linalg.norm(rows, axis=1)
    assert alone <= 1 + 1e-15, "one column at its bound is not clipped"
    assert 1 / longest == pytest.approx(max(0.35, n_columns**-0.5)), "nor is more than that let through"


def test_scaled_columns_beside_categories_are_brought_to_norm_one():
    X, _ = people()
    given = {"bounds": KNOWN["bounds"], "categories": {"sector": ["private", "public"]}}
    rows = make_table_preprocessor(**given, numbers="scaled", drop=["gain", "level", "owns", "id"]).fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    middle = rows[:, 0] / rows[:, 2:].max(axis=1)
    np.testing.assert_allclose(middle, X["age"] / 60 - 1)


def test_missing_values_of_scaled_columns_are_filled():
    X = pd.DataFrame({"age": [np.nan, 120.0], "hours": [np.nan, 0.0]})
    options = {"bounds": KNOWN["bounds"], "numbers": "scaled"}
    assert make_table_preprocessor(**options).fit_transform(X).tolist() == [[0, 0], [1, -1]]
    filled = make_table_preprocessor(**options, fill={"age": 90}).fit_transform(X)
    np.testing.assert_allclose(filled, [[0.5, 0], [1, -1]])
    assert make_table_preprocessor(**options, fill=100).fit_transform(X)[0].tolist() == pytest.approx([2 / 3, 1])


@pytest.mark.parametrize("numbers", ["bins", "scaled"])
def test_a_row_is_transformed_by_itself(numbers):
    """Whatever the others are, so that a row replaced before is a row replaced after."""
    X, _ = people(40)
    table = make_table_preprocessor(**KNOWN, numbers=numbers).fit(X)
    rows = dense(table.transform(X))
    for place in range(40):
        np.testing.assert_array_equal(dense(table.transform(X[place : place + 1]))[0], rows[place])


@pytest.mark.parametrize("numbers", ["bins", "scaled"])
def test_what_is_known_is_taken_and_nothing_else_of_the_table(numbers):
    """After fits on two tables without a value in common, the states are the same; so are the reports."""
    X, _ = people()
    other = X.assign(age=1e6, hours=np.nan, gain=-5, sector="secret", level=9, owns=True, id="secret")
    fitted = [make_table_preprocessor(**KNOWN, numbers=numbers).fit(table) for table in (X, other)]
    assert pickle.dumps(fitted[0]) == pickle.dumps(fitted[1])
    assert "secret" not in str(vars(fitted[1].named_steps["columns"]))


def test_all_columns_that_do_not_fit_are_named_in_one_message():
    X, y = people()
    X["born"], X["sex"] = pd.Timestamp("2000-01-01"), pd.Series(["1"] * 600, dtype="string")
    given = {
        "bounds": {"agee": (0, 120), "sector": (0, 1), "born": (0, 1)},
        "categories": {"level": ["low", "high"], "town": ["York"], "sex": [1, 2]},
        "drop": ["idd"],
    }
    with pytest.raises(ValueError, match="These columns do not fit") as error:
        make_table_preprocessor(**given).fit(X)
    lines = [line.strip() for line in str(error.value).split("\n")[1:]]
    assert [line.split(":")[0] for line in lines[:3]] == ["agee", "town", "idd"]
    assert lines[0] == "agee: there is no such column (did you mean age?)"
    assert {line.split(":")[0] for line in lines[3:-1]} == {*X} and lines[-1].startswith("Give bounds")
    told = {line.split(":")[0]: line for line in lines}
    assert told["age"] == "age: nothing is given for this column of type int64"
    assert all("where numbers should be; convert it" in told[name] for name in ("sector", "born"))
    assert told["level"] == "level: type int64 where text should be, as its categories are"
    assert told["sex"] == "sex: type string where numbers should be, as its categories are"
    assert "number " not in str(error.value), "no value of id"
    model = make_pipeline(make_table_preprocessor(**given), AMPClassifier())
    with pytest.raises(ValueError, match="These columns do not fit") as within:
        set_budget(model, X, y)
    assert str(within.value) == str(error.value)
    with pytest.raises(ValueError, match="agee: there is no such column"):
        DPSearchCV(model, {"ampclassifier__tol": [1e-9, 1e-10]}).fit(X.drop(columns="born"), y)
    with pytest.raises(ValueError, match="These columns do not fit") as error:
        make_table_preprocessor(epsilon=1.0).fit(X)
    assert str(error.value).split("\n")[1:] == [
        "  born: type datetime64; make it days since a date that is not from the data, or drop it"
    ]


def test_a_type_that_lists_categories_is_not_quoted():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"age": [1], "town": pl.Series(["secret"], dtype=pl.Enum(["secret"]))})
    with pytest.raises(ValueError, match="town: nothing is given for this column of type Enum\n") as error:
        make_table_preprocessor({"age": (0, 120)}).fit(table)
    assert "secret" not in str(error.value)


def test_a_table_to_predict_on_is_asked_for_the_same_columns():
    X, y = people()
    model = make_pipeline(make_table_preprocessor(**KNOWN), AMPClassifier(classes=["no", "yes"])).fit(X, y)
    assert model.predict(X).tolist() == model.predict(X[list(reversed(X.columns))].assign(new="x")).tolist()
    for name in X.columns[:-1]:
        with pytest.raises(
            ValueError, match=rf"  {name}: there is no such column; .* a column of missing values \(None\)$"
        ):
            model.predict(X.drop(columns=name))
        assert set(model.predict(X.assign(**{name: None}))) <= {"no", "yes"}  # the cure does


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Nothing is given"),
        ({"drop": ["id"]}, "Nothing is given"),
        ({"bounds": {"age": (0, 1)}, "numbers": "scale"}, 'numbers must be "bins" or "scaled"'),
        ({"bounds": {"age": (0, 1)}, "fill": 3}, "bins have one for missing values"),
        ({"bounds": {"age": (0, 1)}, "fill": {"hours": 3}, "numbers": "scaled"}, r"fill is given for \['hours'\]"),
        ({"bounds": {"age": (0, 1)}, "edges": {"age": [0, 1, 2]}}, r"named twice: \['age'\]"),
        ({"bounds": {"age": (0, 1)}, "drop": ["id", "id"]}, r"named twice: \['id'\]"),
        ({"bounds": {0: (0, 1)}}, r"Names of columns must be text; got \[0\]"),
        ({"categories": {"sector": "public"}}, "categories of column 'sector' must be different texts, or"),
        ({"categories": {"sector": ["public", 1]}}, "categories of column 'sector' must be different texts, or"),
        ({"categories": {"sector": [1, 1.0]}}, "categories of column 'sector' must be different texts, or"),
        ({"categories": {"sector": [1.0, math.nan]}}, "categories of column 'sector' must be .* none missing"),
        ({"categories": {"sector": None}}, "categories of column 'sector' must be .* none missing"),
        ({"categories": {"sector": [1.0, None]}}, "categories of column 'sector' must be .* none missing"),
        ({"categories": {"sector": []}}, "categories of column 'sector' must be different texts, or"),
        (
            {"categories": {"sector": np.array([["public"]])}},
            "categories of column 'sector' must be different texts, or",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        make_table_preprocessor(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": (0, 1)}, "bounds must be a dict, by the names of columns; got tuple"),
        ({"categories": ["public"]}, "categories must be a dict, by the names of columns; got list"),
        ({"bounds": {"age": (0, 1)}, "drop": "id"}, r"drop must be a list of names of columns: write \['id'\]"),
    ],
)
def test_what_goes_by_names_is_told_by_names(options, message):
    with pytest.raises(TypeError, match=message):
        make_table_preprocessor(**options)


@pytest.mark.parametrize("options", [{"bounds": {"age": (9, 1)}}, {"bounds": {"age": 3}}, {"edges": {"age": [2, 1]}}])
def test_bounds_and_edges_are_checked_before_anything_is_released(options):
    X, _ = people()
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="age"):
        make_table_preprocessor(**options, epsilon=1.0).fit(X)
    assert not ledger.entries


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan")])
def test_no_bins_are_found_for_a_wrong_epsilon(epsilon):
    with pytest.raises(ValueError, match="'epsilon' parameter of DPBinner"):
        make_table_preprocessor(epsilon=epsilon).fit(people()[0])


def test_columns_of_which_nothing_is_known_are_found_under_the_same_budget():
    """What is known is not paid for, the total is the target, and the parameters are those of a pipeline."""
    X, y = people()
    given = {"bounds": {"age": (0, 120)}, "drop": ["id"], "epsilon": 0.5}
    model = make_pipeline(make_table_preprocessor(**given), AMPClassifier(epsilon=0.5, classes=["no", "yes"]))
    set_budget(model, X, y, epsilon=2.0, delta=1e-6)
    with PrivacyLedger() as ledger:
        report = privacy_report(model.fit(X, y))
    assert 2.0 * (1 - 1e-5) < report.total.epsilon <= 2.0 and report.total.delta <= 1e-6
    assert len(ledger.entries) == 2 and all(entry.guarantee.epsilon < 2.0 for entry in ledger.entries)
    assert {line.estimator for line in report.steps if line.status == "private"} == {"DPBinner", "AMPClassifier"}
    found = model[0]["columns"].named_transformers_["remainder"]
    assert found.feature_names_in_.tolist() == ["age", "hours", "gain", "sector", "level", "owns"]
    assert [column.cells.bounds for column in found.histograms_.columns[:2]] == [(0, 120), None]
    np.testing.assert_allclose(np.linalg.norm(dense(model[0].transform(X)), axis=1), 1)


def test_private_bins_lie_between_bounds_and_what_else_is_known_stays_as_it_is():
    """Edges and categories cost nothing, and scaled columns get no bins: all columns weigh about the same in a row."""
    X, _ = people()
    columns = make_table_preprocessor(**KNOWN, n_bins=4, epsilon=1.0).fit(X)["columns"]
    assert [name for name, _, _ in columns.transformers_] == ["edges", "categories", "remainder"]
    found = columns.named_transformers_["remainder"]
    assert found.bounds == KNOWN["bounds"] and found.feature_names_in_.tolist() == ["age", "hours"]
    assert "bounds and listed categories do not come from the data" in found.guarantee_.assumptions
    assert columns.transform(X.drop(columns="id")).shape == (600, 4 + 7 + 5 + 5)
    scaled = make_table_preprocessor(**KNOWN, epsilon=1.0, numbers="scaled", fill={"age": 60}).fit(X.assign(new=1.0))
    numbers = scaled["columns"].named_transformers_["numbers"]
    assert numbers.feature_range_ == (-2, 2) and numbers.fill_.tolist() == [60, 50]
    assert scaled["columns"].named_transformers_["remainder"].feature_names_in_.tolist() == ["new"]


def test_bounds_make_bins_neither_worse_than_none_nor_than_bins_of_equal_width(silenced_noise):
    """Values in a small part of their bounds have as many bins as without bounds, and few rows have those of bounds."""
    table = pd.DataFrame({"age": np.tile(np.arange(20.0, 30.0), 2000)})
    edges = [
        make_table_preprocessor(bounds, n_bins=5, epsilon=1.0).fit(table)["columns"].transformers_[-1][1].bin_edges_[0]
        for bounds in (None, {"age": (0, 1000)})
    ]
    np.testing.assert_array_equal(*edges)
    assert edges[0].tolist() == [-np.inf, 22, 24, 26, 28, np.inf]
    for epsilon in (0.001, 0.02):
        few = make_table_preprocessor({"age": (0, 1000)}, n_bins=5, epsilon=epsilon).fit(table)
        assert few["columns"].transformers_[-1][1].bin_edges_[0].tolist() == [-np.inf, 200, 400, 600, 800, np.inf]


def test_a_search_reaches_what_is_inside():
    X, y = people()
    model = make_pipeline(make_table_preprocessor(**KNOWN), AMPClassifier(classes=["no", "yes"]))
    grid = {"pipeline__columns__numbers__n_bins": [2, 5], "ampclassifier__C": [1.0]}
    search = DPSearchCV(model, grid, n_trials=1, epsilon=5.0, delta=1e-6).fit(X, y)
    assert search.guarantee_.epsilon == 5.0
    with pytest.raises(ValueError, match="ampclassifier__epsilon in param_grid would change nothing"):
        DPSearchCV(model, {"ampclassifier__epsilon": [0.3, 1.0]}, epsilon=5.0, delta=1e-6).fit(X, y)
    search = DPSearchCV(
        make_pipeline(
            make_table_preprocessor(epsilon=1.0, drop=["id"]), DPRidge(target_bounds=(0, 1), mechanism="moments")
        ),  # whose losses add up in closed form
        {"pipeline__columns__remainder__n_bins": [2, 5]},
        n_trials=1,
        epsilon=5.0,
        delta=1e-6,
        max_loss=1.0,
    )
    assert search.fit(X, (y == "yes").astype(float)).guarantee_.epsilon == 5.0


@pytest.mark.parametrize(
    "model",
    [
        AMPClassifier(epsilon=30.0, classes=["no", "yes"]),
        DPSGDClassifier(epsilon=30.0, classes=["no", "yes"]),
        DPRidge(epsilon=30.0, target_bounds=(0, 120)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_defaults_of_models_take_its_rows(model):
    """With no word of a norm, models learn: that of the rows is their default."""
    X, y = people(2000)
    y = X["age"] if isinstance(model, DPRidge) else y
    with reproducible_noise(0):
        assert make_pipeline(make_table_preprocessor(**KNOWN), model).fit(X, y).score(X, y) > 0.75


def test_it_is_a_pipeline_like_any_other():
    X, y = people()
    preprocessor = make_table_preprocessor(**KNOWN, sparse_output=False)
    rows = preprocessor.fit_transform(X)
    for other in (clone(preprocessor), pickle.loads(pickle.dumps(preprocessor))):
        np.testing.assert_array_equal(other.fit(X).transform(X), rows)
    named = clone(preprocessor).set_output(transform="pandas").fit_transform(X)
    assert named.columns.tolist() == preprocessor.get_feature_names_out().tolist()
    np.testing.assert_array_equal(named, rows)
    assert clone(preprocessor).set_output(transform="polars").fit_transform(X).shape == rows.shape
    assert "PublicBinner" in estimator_html_repr(preprocessor) and "TableColumns" in repr(preprocessor)
    model = make_pipeline(preprocessor, AMPClassifier(classes=["no", "yes"]))
    assert cross_val_predict(model, X, y).shape == (600,)


@pytest.mark.parametrize("output", ["pandas", "polars", "default"])
@pytest.mark.parametrize("numbers", ["bins", "scaled"])
def test_no_missing_cell_decides_how_columns_become_a_frame_of_another_kind(output, numbers):
    columns = {"age": pl.Series([30, 40, 50, 60]), "smokes": pl.Series([True, False, True, False])}
    whole = pl.DataFrame(columns)
    with_missing = whole.with_columns(smokes=pl.Series([None, False, True, False], dtype=pl.Boolean))
    known = {
        "bounds": {"age": (0, 100)},
        "categories": {"smokes": [False, True]},
        "numbers": numbers,
        "sparse_output": False,
    }
    preprocessor = make_table_preprocessor(**known).set_output(transform=output)
    rows, others = (np.asarray(clone(preprocessor).fit_transform(one)) for one in (whole, with_missing))
    assert rows.dtype == others.dtype == float
    np.testing.assert_array_equal(rows[1:], others[1:])
    assert isinstance(preprocessor.fit(whole).named_steps["table"].transform(with_missing), pl.DataFrame)


def test_no_cell_is_quoted_where_a_frame_becomes_one_of_another_kind():
    odd = pd.DataFrame({"age": [30.0, 40.0], "code": pd.Series([101, "odd cell"], dtype=object)})
    known = {"bounds": {"age": (0, 100)}, "categories": {"code": ["101", "102"]}, "sparse_output": False}
    rows = [
        np.asarray(make_table_preprocessor(**known).set_output(transform=output).fit_transform(odd))
        for output in ("default", "pandas", "polars")
    ]
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[0], rows[2])


def test_the_same_table_in_other_types_gives_the_same_rows():
    pl = pytest.importorskip("polars")
    X, _ = people()
    rows = dense(make_table_preprocessor(**KNOWN).fit_transform(X))
    types = {"age": "Int64", "hours": "Float64", "gain": "float32", "level": "int8", "owns": "boolean"}
    for table in (
        pl.from_pandas(X),
        X.astype(types | {"sector": "string"}),
        X.astype({"sector": "category"}),
        X.astype({"age": object, "hours": object, "owns": object}),
        X.astype({"age": pd.SparseDtype(float), "gain": pd.SparseDtype(int), "sector": object}),
    ):
        np.testing.assert_array_equal(dense(make_table_preprocessor(**KNOWN).fit_transform(table)), rows)


def test_arrays_lazy_tables_and_names_that_are_there_twice_are_refused():
    dd = pytest.importorskip("dask.dataframe")
    X, _ = people()
    with pytest.raises(ValueError, match="  age: there are several columns of this name"):
        make_table_preprocessor(**KNOWN).fit(pd.concat([X, X[["age"]]], axis=1))
    with pytest.raises(TypeError, match="columns go by their names"):
        make_table_preprocessor(**KNOWN).fit(X.to_numpy())
    with pytest.raises(TypeError, match="does not take dask"):
        make_table_preprocessor(**KNOWN).fit(dd.from_pandas(X, npartitions=2))


def test_the_report_has_no_line_for_what_learns_nothing():
    X, y = people()
    model = make_pipeline(make_table_preprocessor(**KNOWN), AMPClassifier(delta=1e-6, classes=["no", "yes"])).fit(X, y)
    report = privacy_report(model)
    assert {line.status for line in report.steps} == {"data-independent", "private"}
    assert repr(report.total) == "(1.0, 1e-06)-DP, one row replaced" and not report.not_covered
    _, printed, _ = str(report).split("\n\n")
    assert re.findall(r"^\w+", printed, flags=re.MULTILINE) == ["step", "ampclassifier"]


@pytest.mark.parametrize("kind", ["polars", "Int64", "int64[pyarrow]"])
def test_no_missing_number_decides_which_others_are_listed(kind):
    """As floats 2^60 + 3 is 2^60: half of all rows had a listed number or had none, by one cell of another row."""
    encoded, names = [], []
    for first in (7, None):
        numbers = [first, 2**60 + 3, 7]
        if kind == "polars":
            frame = pl.DataFrame({"id": pl.Series(numbers, dtype=pl.Int64)})
        else:
            if "pyarrow" in kind:
                pytest.importorskip("pyarrow")
            frame = pd.DataFrame({"id": pd.array(numbers, dtype=kind)})
        preprocessor = make_table_preprocessor(categories={"id": [7, 2**60]}).fit(frame)
        encoded.append(preprocessor.transform(frame)[1:])
        names.append(list(preprocessor.get_feature_names_out()))
    assert np.array_equal(*encoded) and names[0] == names[1]
