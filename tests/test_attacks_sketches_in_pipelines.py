"""Attacks on sketches in pipelines: what stands around them, what is said of steps before them, and forms of rows."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.signal import detrend
from scipy.special import expit, softmax
from scipy.stats import zscore
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFECV
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeavePOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    normalize,
    quantile_transform,
    scale,
)

from skdprp import DPOPORP, PublicBinner, PublicScaler, privacy_report
from skdprp.report._data_independent import is_data_independent

X = np.random.default_rng(0).uniform(size=(12, 4))
Y = np.arange(12) % 2
SKETCH = DPOPORP(2, epsilon=1.0, noise="laplace")


PASSED = Counter()


def counting(rows):
    """Count how often each row passes."""
    PASSED.update(map(tuple, rows))
    return rows


def sketched(**parameters):
    sketch = clone(SKETCH).set_params(**parameters)
    return make_pipeline(FunctionTransformer(counting), sketch, RidgeClassifier())


def search(kind=GridSearchCV, values=(1.0,), **options):
    return kind(sketched(), {"ridgeclassifier__alpha": [0.1, 1.0], "dpoporp__epsilon": list(values)}, **options)


@pytest.mark.parametrize(
    "model",
    [
        sketched(),
        StackingClassifier([("a", sketched()), ("b", sketched())], final_estimator=RidgeClassifier(), cv=KFold(2)),
        BaggingClassifier(sketched(), n_estimators=3, random_state=0),
        CalibratedClassifierCV(sketched(), cv=2),
        VotingClassifier([("a", sketched()), ("b", sketched())]),
        OneVsRestClassifier(sketched()),
        OneVsOneClassifier(sketched()),
        TunedThresholdClassifierCV(sketched(), cv=2),
        make_pipeline(FunctionTransformer(counting), SKETCH, RFECV(RidgeClassifier(), cv=2)),
        search(cv=KFold(3)),
        search(cv=TimeSeriesSplit(2), return_train_score=True),
        search(cv=RepeatedKFold(n_splits=2, n_repeats=2), scoring=["accuracy", "f1"], refit="f1"),
        search(cv=LeavePOut(1)),
        search(RandomizedSearchCV, n_iter=2, cv=ShuffleSplit(3, test_size=0.5), return_train_score=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_no_row_is_sketched_more_often_than_a_report_says(model):
    PASSED.clear()
    model = clone(model).fit(X, Y)
    released = max(PASSED.values())
    charged = privacy_report(model).private
    assert charged is None or charged.epsilon >= released


GRID = np.array([[0.0] * 4, [0.5] * 4, [4.0] * 4])
LISTED = [[0.0, 1.0, 2.0]] * 4


@pytest.mark.parametrize("changed", [[3.0, 1.0, 0.0, 2.0], [0.0] * 4, [2.0, 1e-310, 1.5, 0.25]])
@pytest.mark.parametrize(
    "step",
    [
        AdditiveChi2Sampler(),
        FeatureUnion([("a", Normalizer()), ("b", "passthrough")], transformer_weights={"a": 2.0}),
        FunctionTransformer(np.cumsum, kw_args={"axis": 1}),
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
    total = privacy_report(make_pipeline(clone(step), clone(SKETCH)).fit(rows)).total
    one, two = (clone(step).fit_transform(table) for table in (rows, other))
    one, two = (table.toarray() if sp.issparse(table) else table for table in (one, two))
    assert total is not None
    np.testing.assert_array_equal(one[:-1], two[:-1])


DOWN = [
    (np.sort, {"axis": 0}),
    (np.sort, {"axis": -2}),
    (np.nancumsum, {"axis": -2}),
    (np.rot90, {"k": 2}),
    (np.random.permutation, {}),
    (np.linalg.pinv, {}),
    (np.unique, {"axis": 1}),
    (np.add.accumulate, {}),
    (np.maximum.accumulate, {"axis": 0}),
    (np.ndarray.cumsum, {"axis": 0}),
    (np.vectorize(abs), {}),  # of the type that the first row gives
    (scale, {}),
    (partial(scale), {}),
    (partial(quantile_transform, n_quantiles=10), {}),
    (StandardScaler().fit_transform, {}),
    (zscore, {}),
    (partial(zscore, axis=0), {}),
    (detrend, {"axis": -2}),
    (pd.DataFrame.transform, {"func": "rank"}),
    (pd.DataFrame.apply, {"func": "rank", "axis": "index"}),
    (pd.DataFrame.fillna, {"method": "ffill"}),
]


@pytest.mark.parametrize(("function", "known"), DOWN, ids=range(len(DOWN)))
def test_functions_of_libraries_that_make_rows_of_others_are_named_however_they_are_written(function, known):
    assert not is_data_independent(FunctionTransformer(function, kw_args=known))


def test_a_report_says_what_to_do_about_a_function_that_may_look_at_all_rows():
    report = privacy_report(make_pipeline(FunctionTransformer(partial(scale)), clone(SKETCH)).fit(X))
    assert report.total is None
    assert "may make a row of other rows" in repr(report) and "axis=1" in repr(report)


ALONG = [
    (None, {}),
    (np.log1p, {}),
    (expit, {}),
    (np.clip, {"a_min": 0, "a_max": 1}),
    (partial(np.clip, a_min=0, a_max=1), {}),
    (np.nan_to_num, {}),
    (np.sort, {}),
    (np.cumsum, {"axis": 1}),
    (partial(np.cumsum, axis=-1), {}),
    (softmax, {"axis": 1}),
    (normalize, {}),
    (pd.DataFrame.abs, {}),
    (pd.DataFrame.fillna, {"value": 0}),
    (np.vectorize(abs, otypes=[float]), {}),
    (lambda rows: rows, {}),
]


@pytest.mark.parametrize(("function", "known"), ALONG, ids=range(len(ALONG)))
def test_functions_that_treat_each_row_by_itself_are_known(function, known):
    assert is_data_independent(FunctionTransformer(function, kw_args=known))


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


@pytest.mark.parametrize("columns", [[0, 1, -4], [True, True, False, False]])
def test_columns_by_places_from_the_end_and_by_masks_are_those_that_are_charged(columns):
    model = ColumnTransformer([("a", SKETCH, columns), ("b", SKETCH, [2, 3])]).fit(X)
    total = privacy_report(model).total
    assert (total is None) == (-4 in columns)
    assert total is None or total.epsilon == 2.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1000.0, 1e-6), (1.0, 1e-300)])
def test_what_no_noise_that_can_be_sampled_reaches_is_stated_as_no_guarantee(epsilon, delta):
    with pytest.warns(UserWarning):
        sketch = DPOPORP(3, epsilon=epsilon, delta=delta).fit(X)
    assert sketch.guarantee_.epsilon == np.inf
