"""Scaling by public bounds: where values go, what is learnt (nothing), and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from skdprp import AMPClassifier, DPSignOPORP, PublicScaler, privacy_report

BY_NAME = {"income": (0, 200_000), "age": (0, 120)}
TABLE = pd.DataFrame({"age": [30, 90, 200], "income": [50_000.0, 900_000.0, -1.0]})


@pytest.mark.parametrize("feature_range", [(-0.5, 0.5), (0, 1), (2, 7)])
def test_agrees_with_a_clipping_scaler_fitted_on_the_bounds(feature_range):
    rng = np.random.default_rng(0)
    X = rng.normal(scale=100, size=(50, 3))
    bounds = np.array([[-100, 50], [0, 10], [-1e6, -3]])
    expected = MinMaxScaler(feature_range, clip=True).fit(bounds.T).transform(X)
    scaler = PublicScaler(bounds, feature_range=feature_range).fit(X)
    np.testing.assert_allclose(scaler.transform(X), expected, rtol=1e-12, atol=1e-12)
    clipped = np.clip(X, *bounds.T)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), clipped, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_leaves_the_range(dtype):
    """Rounding must not lengthen what `max_change` and `max_norm` count on."""
    rng = np.random.default_rng(1)
    for low, width in rng.uniform(0.1, 1e3, (200, 2)):
        scaled = PublicScaler((low, low + width)).fit_transform(
            np.array([[-1e30], [low], [low + width], [1e30]], dtype)
        )
        assert scaled.dtype == dtype and np.abs(scaled).max() == 0.5


def test_huge_values_are_clipped_before_they_overflow():
    np.testing.assert_array_equal(PublicScaler((0, 1e-3)).fit_transform([[1e308], [-1e308]]), [[0.5], [-0.5]])


def test_zero_stays_zero_exactly():
    """For symmetric bounds and ranges of any size, and not up to rounding, which would fill sparse rows."""
    for bound, half in np.random.default_rng(0).uniform(0.01, 100, (200, 2)):
        assert PublicScaler((-bound, bound), feature_range=(-half, half)).fit([[1.0]]).offset_ == 0
        assert PublicScaler((0, bound), feature_range=(0, half)).fit([[1.0]]).offset_ == 0


def test_bounds_by_name_follow_the_columns_and_not_the_order_of_the_dict():
    expected = [[-0.25, -0.25], [0.25, 0.5], [0.5, -0.5]]
    scaler = PublicScaler(BY_NAME).fit(TABLE)
    np.testing.assert_array_equal(scaler.transform(TABLE), expected)
    np.testing.assert_array_equal(PublicScaler(BY_NAME).fit_transform(TABLE[["income", "age"]]), np.flip(expected, 1))
    for twin in (pickle.loads(pickle.dumps(scaler)), clone(scaler).fit(TABLE)):
        np.testing.assert_array_equal(twin.transform(TABLE), expected)
    frame = scaler.set_output(transform="pandas").transform(TABLE)
    assert list(frame.columns) == ["age", "income"]


def test_no_value_is_learnt():
    """Fits on rows of the same shape cannot be told apart."""
    states = [vars(PublicScaler((0, 9)).fit(X)) for X in (np.zeros((5, 2)), np.full((5, 2), 1e6))]
    assert states[0].keys() == states[1].keys()
    for name in states[0]:
        np.testing.assert_array_equal(states[0][name], states[1][name])


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize(
    ("bounds", "feature_range"), [((-49, 49), (-0.7, 0.7)), ((0, 49), (0, 1)), ([[-3, 3], [-49, 49]], (-0.1, 0.1))]
)
def test_sparse_rows_stay_sparse(container, bounds, feature_range):
    X = np.array([[0.0, 60.0], [-5.0, 0.0], [0.0, 0.0]])
    scaler = PublicScaler(bounds, feature_range=feature_range)
    dense, sparse = scaler.fit_transform(X), scaler.fit_transform(container(X))
    assert sparse.nnz == 2
    np.testing.assert_array_equal(sparse.toarray(), dense)
    np.testing.assert_array_equal(scaler.inverse_transform(sparse).toarray(), scaler.inverse_transform(dense))


def test_sparse_rows_that_would_fill_up_are_refused():
    X = sp.csr_array(np.eye(2))
    fitted = PublicScaler((0, 1)).fit(np.eye(2))
    for refused in (fitted.transform, fitted.inverse_transform, PublicScaler((0, 1)).fit):
        with pytest.raises(ValueError, match="would not stay zero"):
            refused(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"age": (0, 120)}}, r"missing for the columns \['income'\]"),
        ({"bounds": BY_NAME | {"aeg": (0, 1)}}, r"given for \['aeg'\]"),
        ({"bounds": [(0, 1)]}, "hold 1 pairs, but X has 2 columns"),
        ({"bounds": (0, 1, 2)}, r"bounds must be two numbers, low and high; got \[0, 1, 2\]"),
        ({"bounds": []}, r"bounds must be two numbers, low and high; got \[\]"),
        ({"bounds": ("low", "high")}, "bounds must be two numbers"),
        (
            {"bounds": {"age": (0, 120), "income": (0, 1, 2)}},
            r"bounds of column 'income' must be two .* got \(0, 1, 2\)",
        ),
        ({"bounds": {"age": 0, "income": 1}}, "bounds of column 'age' must be two numbers, low and high; got 0"),
        ({"bounds": {"age": (0, 120), "income": (2e5, 0)}}, "'income' are 200000 and 0: low and high exchanged?"),
        ({"bounds": [(0, 120), (0, 0)]}, "bounds of column 'income' must be finite, low below high"),
        ({"bounds": (1, 1)}, "bounds must be finite, low below high .* got 1 and 1"),
        ({"bounds": (0, np.inf)}, "bounds must be finite"),
        ({"bounds": (np.nan, 1)}, "bounds must be finite"),
        ({"bounds": (-1.7e308, 1.7e308)}, "bounds must be finite"),
        ({"bounds": (0, 1), "feature_range": (1, -1)}, "feature_range are 1 and -1: low and high exchanged?"),
        ({"bounds": (0, 1), "feature_range": [(0, 1), (0, 1)]}, "feature_range must be two numbers, low and high"),
    ],
)
def test_bad_bounds(options, message):
    with pytest.raises(ValueError, match=message):
        PublicScaler(**options).fit(TABLE)


def test_bounds_have_no_default():
    with pytest.raises(TypeError, match="bounds"):
        PublicScaler()


def test_errors_name_columns_without_names_by_their_number():
    with pytest.raises(ValueError, match="bounds of column 1 are 5 and 0"):
        PublicScaler([(0, 120), (5, 0)]).fit(TABLE.to_numpy())


def test_bounds_by_name_need_names():
    with pytest.raises(ValueError, match="no names of columns"):
        PublicScaler(BY_NAME).fit(TABLE.to_numpy())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(bad):
    X = np.array([[0.0, bad]])
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        PublicScaler((-1, 1)).fit(X)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        PublicScaler((-1, 1)).fit(np.zeros((1, 2))).transform(X)


def test_reports_count_it_as_data_independent():
    """A private model on mixed units, which learns something, and whose whole Pipeline is covered."""
    rng = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame({"age": rng.uniform(0, 120, n), "income": rng.uniform(0, 200_000, n)})
    y = np.where(X["income"] > 100_000, "rich", "poor")
    for private in (AMPClassifier(epsilon=1.0, max_norm=2**0.5 / 2), DPSignOPORP(2, random_state=0)):
        pipeline = make_pipeline(PublicScaler(BY_NAME), private).fit(X, y)
        report = privacy_report(pipeline)
        assert report.steps[0].status == "data-independent" and "bounds are trusted" in report.steps[0].remark
        assert report.total.epsilon == 1.0
    model = make_pipeline(PublicScaler(BY_NAME), AMPClassifier(epsilon=1.0, max_norm=2**0.5 / 2)).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("encoder", "is_covered"),
    [
        (OneHotEncoder(categories=[["no", "yes"]], handle_unknown="ignore"), True),
        (OneHotEncoder(), False),
        (OneHotEncoder(categories=[["no", "yes"]], handle_unknown="infrequent_if_exist", min_frequency=20), False),
    ],
)
def test_reports_count_encoders_of_given_categories_as_data_independent(encoder, is_covered):
    """Categories that are found or counted in the rows tell about them; those that are given do not."""
    X = pd.DataFrame({"age": np.arange(100.0), "smokes": ["no", "yes"] * 50})
    columns = make_column_transformer((PublicScaler((0, 120)), ["age"]), (encoder, ["smokes"]), sparse_threshold=0)
    report = privacy_report(make_pipeline(columns, AMPClassifier()).fit(X, X["age"] > 50))
    assert (report.total is not None) == is_covered


def test_entries_that_a_sparse_row_holds_twice_are_one_value():
    rows = sp.csr_matrix((np.array([100.0, 100.0, -0.5]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    kept = rows.copy()
    scaler = PublicScaler((-1, 1), feature_range=(-0.5, 0.5)).fit(rows)
    np.testing.assert_array_equal(scaler.transform(rows).toarray(), scaler.transform(rows.toarray()))
    np.testing.assert_array_equal(scaler.inverse_transform(rows).toarray(), scaler.inverse_transform(rows.toarray()))
    np.testing.assert_array_equal(rows.data, kept.data)


@pytest.mark.parametrize("end", [0.1, 0.3, 0.7, 1.1, 1e-3])
def test_rows_of_float32_do_not_leave_the_range(end):
    scaler = PublicScaler((-1, 1), feature_range=(-end, end)).fit([[0.0]])
    out = scaler.transform(np.array([[-1.0], [1.0]], dtype=np.float32))
    assert out.dtype == np.float32 and np.abs(out.astype(np.float64)).max() <= end
    np.testing.assert_allclose(out.ravel(), [-end, end], rtol=1e-6)
