"""That errors of the estimators name no value of the data, in whatever form it comes, and warnings its caller."""

import copy
import pickle
import re
import threading
import traceback
import warnings
from functools import cache, partial

import joblib
import numpy as np
import pandas as pd
import polars as pl
import public
import pytest
import scipy.sparse as sp
from public import unlisted
from scipy import special
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC
from sklearn.utils._param_validation import InvalidParameterError

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyLedger,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    iDPSignRP,
    privacy_report,
    worst_neighbours,
)
from skdprp._errors import silent, warn_at_caller, without_values
from skdprp._validation import validate_data
from skdprp.histograms import PrivateHistograms

SECRET = "simon schwarz"
NUMBER = 8314.159
# With parameters by which they refuse missing values.
ESTIMATORS = [
    DPRandomProjection(2),
    DPOPORP(2),
    DPSignRP(2),
    DPSignOPORP(2),
    iDPSignRP(2),
    AMPClassifier(),
    ProductNoiseOutputPerturbation(),
    DPSGDClassifier(n_epochs=2),
    MIDPRegressor(),
    DPSearchCV(AMPClassifier(), {}, n_trials=1),
    DPMoments(),
    DPPCA(),
    DPRidge(target_bounds=(-1, 1)),
    PublicScaler((0, 1)),
    PublicBinner((0, 1), missing="error"),
]
PRIVATE = [estimator for estimator in ESTIMATORS if "epsilon" in estimator.get_params()]
ROWS = [[0.1, 0.2], [0.3, -0.4], [0.2, 0.1], [0.5, 0.5]] * 10
FRAME = pd.DataFrame(ROWS, columns=["a", "b"])
TEXT = [[0.1, SECRET], *ROWS[1:]]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
METHODS = (
    "transform",
    "inverse_transform",
    "predict",
    "decision_function",
    "predict_proba",
    "predict_log_proba",
    "score",
)
FITS = ("fit", "fit_transform", "sketch")
FORMS = {
    "list": list,
    "objects": lambda rows: np.array(rows, dtype=object),
    "strings": lambda rows: np.array(rows, dtype=str),
    "frame": lambda rows: pd.DataFrame(rows, columns=["a", "b"]),
    "categories": lambda rows: pd.DataFrame(rows, columns=["a", "b"]).astype({"b": "category"}),
}
as_form = pytest.mark.parametrize("form", FORMS)


def test_every_estimator_of_numbers_is_listed():
    of_cells = {kind for kind in public.ESTIMATORS if issubclass(kind, PrivateHistograms)}  # which take text, too
    assert not unlisted(public.ESTIMATORS - of_cells, ESTIMATORS), "add it to ESTIMATORS of tests/test_validation.py"


def labels(estimator):
    return [0.0, 1.0, 1.0, 0.0] * 10 if is_classifier(estimator) or is_regressor(estimator) else None


@cache
def fit_to_rows(estimator):
    return clone(estimator).fit(ROWS, labels(estimator))


def fitted_to_rows(estimator):
    """Return a copy of one fit, which failures may leave unfitted."""
    return copy.copy(fit_to_rows(estimator))


def refusal(function, *data):
    """What a refusal prints, with all that it chains to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError)) as caught:
            function(*data)
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    printed = "".join(traceback.format_exception_only(error))
    assert SECRET not in printed
    assert str(NUMBER) not in printed
    return error


def calls(fitted, X, y):
    """All methods that take rows, with what they take; those that a failure leaves unfitted last."""
    for name in METHODS + FITS:
        if hasattr(fitted, name):
            yield getattr(fitted, name), (X, y) if name in ("score", *FITS) else (X,)


@every
@as_form
def test_text_is_not_quoted(estimator, form):
    y, text = labels(estimator), FORMS[form](TEXT)
    for method, data in calls(fitted_to_rows(estimator), text, y):
        assert "X has text where numbers should be" in str(refusal(method, *data))


@every
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([NUMBER, 2.0], "Reshape your data"),
        (np.full((40, 2), NUMBER).view(np.matrix), "^np.matrix is not supported"),
        (np.array([[NUMBER, 1j]] * 40), "^Complex data not supported$"),
        (pd.Series([NUMBER, 2.0]), "2-dimensional container"),
        (
            [[NUMBER, np.nan]] * 40,
            r"^X contains NaN. Before the private step put SimpleImputer.*must not come from the data",
        ),
        ([[NUMBER, {}]] * 40, "argument must be a string or a real number"),
        ([[NUMBER, 10**400]] * 40, "withheld"),
        ([[NUMBER], [1.0, 2.0]] * 20, "inhomogeneous"),
    ],
)
def test_numbers_are_not_quoted(estimator, X, message):
    y = labels(estimator)
    for method, data in calls(fitted_to_rows(estimator), X, y):
        assert re.search(message, str(refusal(method, *data)))


class Cell:
    """A number of somebody's own, which refuses in words that begin as those of scikit-learn and numpy do."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error


@every
@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"Input contains infinity or {SECRET}"),
        ValueError(f"Complex data not supported, {SECRET}"),
        ValueError(f"Feature names {SECRET}"),
        TypeError(f"float() argument must be {SECRET}"),
    ],
    ids=lambda error: str(error)[:15],
)
def test_what_a_cell_says_is_not_quoted_however_it_begins(estimator, error):
    y, cells = labels(estimator), np.array([[0.1, Cell(error)], *ROWS[1:]], dtype=object)
    for method, data in calls(fitted_to_rows(estimator), cells, y):
        assert "withheld" in str(refusal(method, *data))


DATES = np.array([["2020-01-01", "NaT"], ["2021-01-01", "2022-02-02"]] * 20, dtype="datetime64[ns]")
TIMES = {
    "dates": DATES,
    "days": DATES.astype("datetime64[D]"),
    "spans": DATES - DATES[0, 0],
    "cells": np.array([[np.timedelta64(5, "s"), 1.0]] * 40, dtype=object),
    "lists": [list(row) for row in DATES],
    "frame of objects": pd.DataFrame(np.array([[np.datetime64("2020-01-01"), 1.0]] * 40, dtype=object), dtype=object),
    "frame": pd.DataFrame(DATES),
    "frame of spans": pd.DataFrame(DATES - DATES[0, 0]),
    "frame with numbers": pd.DataFrame({"a": np.ones(40), "b": DATES[:, 1]}),
    "time zones": pd.DataFrame({"a": np.ones(40), "b": pd.to_datetime(DATES[:, 1]).tz_localize("UTC")}),
    "polars": pl.DataFrame({"a": np.ones(40), "b": DATES[:, 1]}),
    "polars spans": pl.DataFrame({"a": np.ones(40), "b": DATES[:, 0] - DATES[0, 0]}),
}


@every
@pytest.mark.parametrize("X", TIMES.values(), ids=TIMES)
def test_times_are_no_numbers(estimator, X):
    """NaT came out as -9.2e18, and a date as the number of its ticks: in which unit depends on the table."""
    y = labels(estimator)
    for method, data in calls(fitted_to_rows(estimator), X, y):
        assert "X has dates or spans of time where numbers should be" in str(refusal(method, *data))


@pytest.mark.parametrize(
    "y", [DATES[:, 0], DATES[:, 1] - DATES[0, 0], list(DATES[:, 0])], ids=["dates", "spans", "list"]
)
def test_times_are_no_targets(y):
    assert "y has dates or spans of time" in str(refusal(MIDPRegressor().fit, ROWS, y))


@every
@pytest.mark.parametrize("form", ["array", "sparse", "frame"])
def test_missing_values_bring_no_advice_that_looks_at_the_rows(estimator, form):
    """scikit-learn's names imputers, dropping rows and another model: all of them read the data without noise."""
    make = {"array": np.array, "sparse": sp.csr_array, "frame": pd.DataFrame}[form]
    X, y = make(np.array([[np.nan, 2.0], [0.0, 1.0]] * 20)), labels(estimator)
    for method, data in calls(fitted_to_rows(estimator), X, y):
        told = str(refusal(method, *data))
        assert told == (
            "X contains NaN. Before the private step put SimpleImputer(strategy='constant', fill_value=0, "
            "keep_empty_features=True) or, for tables, make_table_preprocessor; values filled in must not come from "
            "the data."
        )


MISSING_LABELS = {
    "floats": [0.0, np.nan] * 20,
    "objects": np.array([0.0, np.nan] * 20, dtype=object),
    "strings": np.array(["a", np.nan] * 20, dtype=object),
    "integers": pd.Series([0, None] * 20, dtype="Int64"),
    "categories": pd.Series(["a", None] * 20, dtype="category"),
}


@pytest.mark.parametrize("y", MISSING_LABELS.values(), ids=MISSING_LABELS)
def test_missing_labels_bring_the_same_advice(y):
    told = str(refusal(AMPClassifier().fit, ROWS, y))
    assert told.startswith("y contains NaN: drop the rows without a label")


def test_missing_labels_and_targets_of_a_score_bring_the_same_advice():
    for estimator in (AMPClassifier(), MIDPRegressor()):
        for method in (estimator.fit(ROWS, labels(estimator)).score, estimator.fit):
            told = str(refusal(method, ROWS, MISSING_LABELS["floats"]))
            assert told.startswith("y contains NaN: drop the rows without a label")


@pytest.mark.parametrize(
    "y", [[SECRET, "b"] * 20, np.array([SECRET, "b"] * 20), np.array([SECRET, 1.0] * 20, dtype=object)]
)
@pytest.mark.parametrize("method", ["fit", "sketch", "score"])
def test_targets_are_not_quoted(y, method):
    regressor = MIDPRegressor().fit(ROWS, labels(MIDPRegressor()))
    assert str(refusal(getattr(regressor, method), ROWS, y)).startswith("y has text where numbers should be")


@pytest.mark.parametrize("estimator", [AMPClassifier(), ProductNoiseOutputPerturbation(), DPSGDClassifier(n_epochs=2)])
def test_labels_are_not_quoted(estimator):
    y = [SECRET, "b"] * 20
    refusal(estimator.set_params(classes=[0, 1]).fit, ROWS, y)
    refusal(estimator.set_params(classes=None).fit, ROWS, [NUMBER, 0.5] * 20)
    refusal(estimator.fit, ROWS, NUMBER)
    refusal(estimator.fit(ROWS, labels(estimator)).score, ROWS, [NUMBER, 0.5] * 20)


@pytest.mark.parametrize("estimator", [AMPClassifier(), DPSGDClassifier(), MIDPRegressor()])
def test_text_of_any_length_is_said_to_be_in_y(estimator):
    y = np.array(["a", "b"], dtype=np.dtypes.StringDType())
    with pytest.raises(TypeError, match=r"^y .*StringDType"):
        estimator.fit(np.eye(2), y)


def test_targets_of_objects_are_finite():
    with pytest.raises(ValueError, match="y contains inf"):
        MIDPRegressor().fit(ROWS, np.array([np.inf, 1.0] * 20, dtype=object))


def test_neighbours_are_not_quoted():
    assert "X has text" in str(refusal(worst_neighbours, AMPClassifier(), TEXT, labels(AMPClassifier())))


def test_what_is_unknown_is_withheld():
    """Errors of other packages, whose words are not known here, lose all but their type."""

    class StrangeError(Exception):
        pass

    def refuse(X):
        raise StrangeError(X)

    error = refusal(without_values, refuse, SECRET)
    assert str(error).startswith("X cannot be read (StrangeError;")


def test_memory_errors_pass():
    def exhaust(X):
        raise MemoryError

    with pytest.raises(MemoryError):
        without_values(exhaust, SECRET)


@pytest.mark.parametrize(
    "called", [partial(without_values, lambda X: np.empty((2, X))), silent(lambda X: np.empty((2, X)))]
)
def test_errors_do_not_say_how_much_memory_the_rows_wanted(called):
    """What numpy says has the shape: as many entries as there are nonzeros, or rows of persons."""
    with pytest.raises(MemoryError, match="how much was wanted is withheld") as caught:
        called(2**50)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("estimator", PRIVATE, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("value", [True, np.True_])
def test_truth_is_no_epsilon(estimator, value):
    """Though Python counts it as 1."""
    with pytest.raises(InvalidParameterError, match="'epsilon' parameter"):
        clone(estimator).set_params(epsilon=value).fit(ROWS, labels(estimator))


@pytest.mark.parametrize("estimator", [DPOPORP(2), iDPSignRP(2), AMPClassifier(classes=[0, 1], multi_class="ovr")])
def test_no_jobs_are_refused_before_anything_is_released(estimator):
    """A sketch was entered into ledgers, and then joblib refused."""
    with PrivacyLedger() as ledger, pytest.raises(InvalidParameterError, match="'n_jobs' parameter"):
        clone(estimator).set_params(n_jobs=0).fit(ROWS, [0, 1] * (len(ROWS) // 2))
    assert not ledger.entries
    assert clone(estimator).set_params(n_jobs=np.int64(-1)).n_jobs == -1


@pytest.mark.parametrize("estimator", [PublicScaler((0, 1)), DPOPORP(2), AMPClassifier(), MIDPRegressor()])
def test_rows_whose_sum_overflows_cause_no_warning(estimator):
    """Warnings are errors here, and one of an overflow while looking for NaN would tell of a row."""
    rows = np.ones((20, 4))
    rows[::2], rows[1::2] = 1.5e308, -1.5e308
    with np.errstate(all="warn"):
        assert np.isfinite(validate_data(clone(estimator), rows)).all()


@pytest.mark.parametrize(
    "estimator",
    [
        *ESTIMATORS,
        DPRandomProjection(projection="identity"),
        AMPClassifier(loss="huber_hinge", classes=range(3), n_jobs=2),
        AMPClassifier(multi_class="ovr", classes=range(3), n_jobs=2),
        ProductNoiseOutputPerturbation(multi_class="multinomial", classes=range(3)),
        DPSGDClassifier(n_epochs=2, hidden_layer_sizes=(4,)),
        MIDPRegressor(mechanism="additive"),
    ],
    ids=lambda estimator: str(estimator).replace("\n", ""),
)
def test_floating_point_errors_that_the_caller_asks_for_do_not_leave(estimator):
    """A row with 5e-324, or with 1e160, made what a caller saw differ from that of a row of zeros."""
    rows = np.array(ROWS)
    rows[::3, 0], rows[1::3, 1] = 5e-324, 1e160 if is_classifier(estimator) or is_regressor(estimator) else -5e-324
    y = labels(estimator)
    with warnings.catch_warnings(), np.errstate(all="raise"), special.errstate(all="raise"):
        warnings.simplefilter("ignore", DataDimensionalityWarning)
        for name in FITS:
            if hasattr(estimator, name):
                fitted = clone(estimator)
                getattr(fitted, name)(rows, y)
        fitted = clone(estimator).fit(rows, y)
        for name in METHODS:
            if hasattr(fitted, name):
                getattr(fitted, name)(rows, *[y] * (name == "score"))


@pytest.mark.parametrize("estimator", PRIVATE, ids=lambda estimator: type(estimator).__name__)
def test_no_cache_takes_an_estimator_for_another(estimator):
    """Nor for itself: equal rows would have the release that they had before, and it tells that they are equal."""
    fitted = clone(estimator).fit(ROWS, labels(estimator))
    assert len({joblib.hash(fitted) for _ in range(3)} | {joblib.hash(clone(estimator)) for _ in range(3)}) == 6
    for duplicate in (copy.copy(fitted), copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert vars(duplicate).keys() == vars(fitted).keys()


# Warnings

PUBLISHED = [
    AMPClassifier(calibration="published", delta=1e-6),
    ProductNoiseOutputPerturbation(calibration="published", radius="chi1", delta=1e-6),
    DPSGDClassifier(calibration="published", noise="product", n_epochs=2, delta=1e-6),
    MIDPRegressor(calibration="published"),
]


def by_hand(estimator, X, y):
    return estimator.fit(X, y)


def in_a_pipeline(estimator, X, y):
    return make_pipeline(Normalizer(), estimator).fit(X, y)


def in_a_search(estimator, X, y):
    return GridSearchCV(estimator, {"max_norm": [1.0]} if hasattr(estimator, "max_norm") else {}, cv=KFold(2)).fit(X, y)


def in_another_estimator(estimator, X, y):
    return (OneVsRestClassifier if is_classifier(estimator) else MultiOutputRegressor)(estimator).fit(
        X, y if is_classifier(estimator) else np.column_stack([y, y])
    )


def in_a_transformed_target(estimator, X, y):
    return TransformedTargetRegressor(estimator).fit(X, y) if is_regressor(estimator) else estimator.fit(X, y)


@pytest.mark.parametrize("call", [by_hand, in_a_pipeline, in_a_search, in_another_estimator, in_a_transformed_target])
@pytest.mark.parametrize("estimator", PUBLISHED, ids=lambda estimator: type(estimator).__name__)
def test_warnings_point_at_the_line_of_the_caller(estimator, call):
    """Not into this library, scikit-learn or joblib, whatever the fit is called through."""
    X, y = np.random.default_rng(0).normal(size=(40, 8)), np.arange(40) % 2
    with pytest.warns(PrivacyWarning) as caught:
        call(clone(estimator), X, y)
    first = call.__code__.co_firstlineno
    told = [warning for warning in caught if warning.category is PrivacyWarning]
    assert {warning.filename for warning in told} == {__file__}
    assert {warning.lineno for warning in told} <= set(range(first + 1, first + 4))


def test_a_warning_in_a_thread_of_its_own_still_comes():
    """There is no line of a caller then."""
    with pytest.warns(PrivacyWarning, match="not private"):
        thread = threading.Thread(target=warn_at_caller, args=("not private", PrivacyWarning))
        thread.start()
        thread.join()


def test_a_warning_is_shown_once_for_each_line_of_a_caller():
    """As Python's own are: the registry of the caller's module knows which were."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn_at_caller("one line", UserWarning)
        warn_at_caller("one line", UserWarning)
    assert len(caught) == 2


@every
def test_missing_values_are_refused_whatever_scikit_learn_assumes(estimator):
    """Under ``assume_finite=True`` comparisons with NaN are false, and what they check goes unchecked."""
    y, missing = labels(estimator), [[0.1, np.nan], *ROWS[1:]]
    with config_context(assume_finite=True):
        for X in (missing, sp.csr_array(missing), sp.coo_array(missing)):
            for method, data in calls(fitted_to_rows(estimator), X, y):
                assert "X contains NaN" in str(refusal(method, *data))


@every
@pytest.mark.parametrize("form", [lambda X: X, list, lambda X: X.astype(np.float32)])
def test_masked_cells_are_refused_and_what_lies_under_them_is_not_taken(estimator, form):
    y, X = labels(estimator), np.ma.array(ROWS)
    fitted = clone(estimator).fit(X, y)
    X[0, 1] = np.ma.masked
    for method, data in calls(fitted, form(X), y):
        assert "Data has masked cells" in str(refusal(method, *data))


def test_masked_targets_and_labels_are_refused():
    y = np.ma.array(np.arange(40) % 2, mask=np.arange(40) == 3)
    for estimator in (DPRidge(target_bounds=(0, 1)), AMPClassifier(classes=[0, 1])):
        assert "Data has masked cells" in str(refusal(estimator.fit, ROWS, y))


@every
def test_what_polars_has_not_computed_is_refused_with_what_to_write(estimator):
    X, y = pl.DataFrame(ROWS, orient="row"), labels(estimator)
    for method, data in calls(clone(estimator).fit(X, y), X.lazy(), y):
        assert "pass its rows, X.collect()" in str(refusal(method, *data))


@every
def test_parameters_are_checked_whatever_scikit_learn_is_told_to_skip(estimator):
    """A configuration of scikit-learn switches off its checks of parameters, on which the noise rests."""
    y = labels(estimator)
    with config_context(skip_parameter_validation=True):
        for changed in ({"epsilon": -1.0}, {"epsilon": np.nan}, {"epsilon": True}):
            if "epsilon" in estimator.get_params():
                assert isinstance(refusal(clone(estimator).set_params(**changed).fit, ROWS, y), InvalidParameterError)


def test_missing_targets_are_refused_whatever_scikit_learn_assumes():
    with config_context(assume_finite=True):
        assert "y contains NaN" in str(refusal(MIDPRegressor().fit, ROWS, [np.nan, 1.0] * 20))


@pytest.mark.filterwarnings("default::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda: DPOPORP(4).fit(ROWS),
        lambda: DPOPORP(4).fit_transform(ROWS),
        lambda: make_pipeline(DPOPORP(4)).fit(ROWS),
        lambda: make_pipeline(PublicScaler((0, 1)), DPOPORP(4), LinearSVC()).fit(ROWS, [0, 1] * 20),
        lambda: make_union(DPOPORP(4), PublicScaler((0, 1))).fit_transform(ROWS),
        lambda: ColumnTransformer([("sketch", DPOPORP(4), [0, 1])]).set_output(transform="pandas").fit_transform(FRAME),
        lambda: cross_val_score(make_pipeline(DPOPORP(4), LinearSVC()), ROWS, [0, 1] * 20, cv=KFold(2)),
    ],
)
def test_warnings_point_at_the_line_that_called(call):
    with pytest.warns(DataDimensionalityWarning) as caught:
        call()
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, call.__code__.co_firstlineno)}


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_columns_of_text_are_named_where_rows_are_a_frame(dtype):
    """By names and types, which are public, and by no cell: of mixed cells all columns of their type."""
    rows = pd.DataFrame({"age": [1.0, 2.0] * 20, "town": pd.Series([SECRET, "b"] * 20, dtype=dtype), "n": [1, 2] * 20})
    numbers = rows.assign(town=0.5)
    model = AMPClassifier(classes=[0, 1]).fit(numbers, [0, 1] * 20)
    for method, data in ((AMPClassifier().fit, (rows, [0, 1] * 20)), (model.predict, (rows,))):
        told = str(refusal(method, *data))
        assert (
            "Columns that are not numeric: 'town'. Encode them by make_table_preprocessor" in told
            and SECRET not in told
        )
    many = pd.DataFrame({f"c{i}": rows["town"] for i in range(12)})
    assert str(refusal(AMPClassifier().fit, many, [0, 1] * 20)).count("'c9', .... Encode") == 1


@pytest.mark.parametrize("name", ["dtype", "tocsr", "shape", "columns", "epsilon"])
def test_columns_may_be_called_as_attributes_of_arrays(name):
    table = pd.DataFrame(np.linspace(-1, 1, 60).reshape(30, 2), columns=[name, "b"])
    model = AMPClassifier(classes=[False, True]).fit(table, table["b"] > 0)
    assert model.predict(table).shape == (30,)
    assert privacy_report(clone(model), table, table["b"] > 0).total is not None
    assert DPOPORP(2).fit(table).transform(table).shape == (30, 2)
