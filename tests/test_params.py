"""That errors of the estimators name no value of the data, in whatever form it comes."""

import re
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils._param_validation import InvalidParameterError

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    iDPSignRP,
    worst_neighbours,
)
from skdprp._params import validate_data, without_values

SECRET = "simon schwarz"
NUMBER = 8314.159
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
    PublicScaler((0, 1)),
]
ROWS = [[0.1, 0.2], [0.3, -0.4], [0.2, 0.1], [0.5, 0.5]] * 10
TEXT = [[0.1, SECRET], *ROWS[1:]]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
METHODS = ("transform", "inverse_transform", "predict", "decision_function", "predict_proba", "score")
FITS = ("fit", "fit_transform", "sketch")
FORMS = {
    "list": list,
    "objects": lambda rows: np.array(rows, dtype=object),
    "strings": lambda rows: np.array(rows, dtype=str),
    "frame": lambda rows: pd.DataFrame(rows, columns=["a", "b"]),
    "categories": lambda rows: pd.DataFrame(rows, columns=["a", "b"]).astype({"b": "category"}),
}
as_form = pytest.mark.parametrize("form", FORMS)


def labels(estimator):
    return [0.0, 1.0, 1.0, 0.0] * 10 if is_classifier(estimator) or is_regressor(estimator) else None


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
    for method, data in calls(clone(estimator).fit(ROWS, y), text, y):
        assert "X has text where numbers should be" in str(refusal(method, *data))


@every
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([NUMBER, 2.0], "Reshape your data"),
        (np.array([[NUMBER, 1j]] * 40), "^Complex data not supported$"),
        (pd.Series([NUMBER, 2.0]), "2-dimensional container"),
        ([[NUMBER, np.nan]] * 40, "Input X contains NaN"),
        ([[NUMBER, {}]] * 40, "argument must be a string or a real number"),
        ([[NUMBER, 10**400]] * 40, "withheld"),
        ([[NUMBER], [1.0, 2.0]] * 20, "inhomogeneous"),
    ],
)
def test_numbers_are_not_quoted(estimator, X, message):
    y = labels(estimator)
    for method, data in calls(clone(estimator).fit(ROWS, y), X, y):
        assert re.search(message, str(refusal(method, *data)))


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
    refusal(estimator.fit(ROWS, labels(estimator)).score, ROWS, y)


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


@pytest.mark.parametrize("estimator", ESTIMATORS[:-1], ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("value", [True, np.True_])
def test_truth_is_no_epsilon(estimator, value):
    """Though Python counts it as 1."""
    with pytest.raises(InvalidParameterError, match="'epsilon' parameter"):
        clone(estimator).set_params(epsilon=value).fit(ROWS, labels(estimator))


@pytest.mark.parametrize("estimator", [PublicScaler((0, 1)), DPOPORP(2), AMPClassifier(), MIDPRegressor()])
def test_rows_whose_sum_overflows_cause_no_warning(estimator):
    """Warnings are errors here, and one of an overflow while looking for NaN would tell of a row."""
    rows = np.ones((20, 4))
    rows[::2], rows[1::2] = 1.5e308, -1.5e308
    with np.errstate(all="warn"):
        assert np.isfinite(validate_data(clone(estimator), rows)).all()
