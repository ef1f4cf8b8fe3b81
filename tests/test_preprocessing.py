"""Scaling and binning by what is public: where values go, what is learnt (nothing), and what is refused."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OneHotEncoder

from skdprp import (
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPRidge,
    DPSignOPORP,
    PublicBinner,
    PublicScaler,
    privacy_report,
)

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


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.floats(-10, 10), min_size=1, max_size=8),
    st.tuples(st.floats(-1e3, 1e3), st.floats(1e-9, 1e9)),
    st.sampled_from([(-0.5, 0.5), (0, 1), (-1e-3, 7.0), (0.1, 0.3)]),
)
def test_values_come_out_as_if_clipped_before_they_are_scaled(values, bounds, feature_range):
    """Bit for bit: what is beyond a bound cannot be told from what is at the bound."""
    (low, width), column = bounds, np.array(values)[:, None]
    scaler = PublicScaler((low, low + width), feature_range=feature_range).fit(column)
    scaled = np.clip(np.clip(column, *scaler.bounds_[0]) * scaler.scale_ + scaler.offset_, *feature_range)
    assert np.array_equal(scaler.transform(column), scaled)


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
    with pytest.raises(ValueError, match="Give either bounds"):
        PublicBinner().fit(TABLE)


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


def test_reports_count_it_as_data_independent(seeded):
    """A private model on mixed units, which learns something, and whose whole Pipeline is covered."""
    rng = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame({"age": rng.uniform(0, 120, n), "income": rng.uniform(0, 200_000, n)})
    y = np.where(X["income"] > 100_000, "rich", "poor")
    for private in (AMPClassifier(epsilon=1.0, max_norm=2**0.5 / 2), DPSignOPORP(2, random_state=0)):
        pipeline = make_pipeline(PublicScaler(BY_NAME), private).fit(X, y)
        report = privacy_report(pipeline)
        assert report.steps[0].status == "data-independent" and "you state that its bounds" in report.steps[0].remark
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


# Missing values

GAPS = pd.DataFrame({"age": [30, np.nan], "income": [np.nan, 50_000.0]})


@pytest.mark.parametrize(
    ("fill", "filled"),
    [
        ("middle", [60, 100_000]),
        (40, [40, 40]),
        (np.float32(40), [40, 40]),
        ([40, 0], [40, 0]),
        (["middle", 0], [60, 0]),
        ({"income": 0, "age": 40}, [40, 0]),
    ],
)
@pytest.mark.parametrize("form", [pd.DataFrame.copy, pd.DataFrame.to_numpy, lambda X: X.convert_dtypes()])
def test_missing_values_are_filled_by_what_is_given(fill, filled, form):
    """As if the table had come with these numbers in the gaps."""
    rows, bounds = GAPS if isinstance(fill, dict) else form(GAPS), [(0, 120), (0, 200_000)]
    scaler = PublicScaler(bounds, fill=fill).fit(rows)
    expected = PublicScaler(bounds).fit_transform(GAPS.fillna(dict(zip(GAPS, filled, strict=True))))
    np.testing.assert_array_equal(scaler.transform(rows), expected)
    assert scaler.fill_.tolist() == filled


@pytest.mark.parametrize(
    ("form", "fill"), [(pd.DataFrame, {"age": 40}), (np.array, [40, None]), (sp.csr_array, [40, None])]
)
def test_columns_without_a_fill_value_refuse_missing_ones(form, fill):
    scaler = PublicScaler((-120, 120), fill=fill)
    scaler.fit(form(TABLE))
    for refused in (scaler.transform, clone(scaler).fit):
        with pytest.raises(ValueError, match=r"^X contains NaN. Before the private step put SimpleImputer"):
            refused(form(GAPS))
    assert scaler.transform(form(GAPS[1:])).shape == (1, 2)


def test_missing_values_of_sparse_rows_are_filled():
    X = sp.csr_array(np.array([[np.nan, 0.0], [0.0, 3.0]]))
    out = PublicScaler((0, 4), feature_range=(0, 1), fill=1).fit_transform(X)
    assert out.nnz == 2
    np.testing.assert_array_equal(out.toarray(), [[0.25, 0], [0, 0.75]])


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (-1, r"fill of column 'age' must be 'middle', None or a number within its bounds, 0 to 120; got -1"),
        ([40, 300_000], "fill of column 'income' must .* within its bounds, 0 to 200000; got 300000"),
        (np.nan, "fill of column 'age' must"),
        (["mean", 0], "fill of column 'age' must .* got 'mean'"),
        ([40], "fill holds 1 values, but X has 2 columns"),
        ({"aeg": 40}, r"fill values are given for \['aeg'\]"),
        ("mean", "'fill' parameter of PublicScaler must be"),
    ],
)
def test_bad_fill_values(fill, message):
    with pytest.raises(ValueError, match=message):
        PublicScaler(BY_NAME, fill=fill).fit(TABLE)


# Bins

EDGES = {"income": [0, 30_000, 60_000, 200_000], "age": [0, 18, 65, 120]}


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9, unique=True),
    st.lists(st.one_of(st.floats(allow_infinity=False), st.just(np.nan)), min_size=1, max_size=30),
)
def test_bins_are_those_of_their_definition(edges, values):
    """A value is in the last bin whose first edge it reaches, or in the first one; NaN comes behind all."""
    edges = np.sort(edges)
    values = np.array([*values, *edges])
    expected = [
        len(edges) - 1 if np.isnan(value) else np.clip((edges <= value).sum() - 1, 0, len(edges) - 2)
        for value in values
    ]
    out = PublicBinner(edges=edges, encode="ordinal").fit_transform(values[:, None])
    assert out.ravel().tolist() == expected
    one_hot = PublicBinner(edges=edges).fit_transform(values[:, None])
    np.testing.assert_array_equal(one_hot.toarray(), np.eye(len(edges))[expected])


@pytest.mark.parametrize("encode", ["onehot", "ordinal"])
def test_agrees_with_a_discretizer_of_the_same_edges(encode):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 7, size=(500, 3))
    bounds = np.array([[-2, 5], [0, 1], [-3, 6]])
    # A discretizer takes least and largest value of its rows for bounds.
    expected = KBinsDiscretizer(7, encode=encode, strategy="uniform", subsample=None).fit(bounds.T).transform(X)
    out = PublicBinner(bounds, n_bins=7, encode=encode, missing="error").fit_transform(X)
    np.testing.assert_array_equal(*(one.toarray() if sp.issparse(one) else one for one in (out, expected)))


def test_edges_by_name_follow_the_columns_and_not_the_order_of_the_dict():
    binner = PublicBinner(edges=EDGES, encode="ordinal").fit(TABLE)
    expected = [[1, 1], [2, 2], [2, 0]]
    for twin in (
        binner,
        pickle.loads(pickle.dumps(binner)),
        clone(binner).fit(TABLE),
        PublicBinner(edges=[EDGES["age"], EDGES["income"]], encode="ordinal").fit(TABLE),
    ):
        np.testing.assert_array_equal(twin.transform(TABLE), expected)
    assert binner.n_bins_.tolist() == [3, 3] and [edges.tolist() for edges in binner.bin_edges_] == [
        EDGES["age"],
        EDGES["income"],
    ]


def test_names_of_bins_are_the_values_in_them():
    binner = PublicBinner(edges=EDGES, sparse_output=False).set_output(transform="pandas")
    frame = binner.fit_transform(TABLE)
    assert list(frame.columns) == [
        *["age_(-inf, 18)", "age_[18, 65)", "age_[65, inf)", "age_nan"],
        *["income_(-inf, 30000)", "income_[30000, 60000)", "income_[60000, inf)", "income_nan"],
    ]
    assert frame.to_numpy().nonzero()[1].tolist() == [1, 5, 2, 6, 2, 4]
    names = PublicBinner((0, 1), n_bins=2, missing="error").fit(TABLE.to_numpy()).get_feature_names_out()
    assert names.tolist() == ["x0_(-inf, 0.5)", "x0_[0.5, inf)", "x1_(-inf, 0.5)", "x1_[0.5, inf)"]
    assert PublicBinner((0, 1), encode="ordinal").fit(TABLE).get_feature_names_out().tolist() == ["age", "income"]
    assert PublicBinner((0, 1), n_bins=1).fit([[0.0]]).get_feature_names_out().tolist() == ["x0_(-inf, inf)", "x0_nan"]
    near = PublicBinner(edges=[0, 1, 1 + 1e-12, 2]).fit([[0.0]]).get_feature_names_out()
    assert len(set(near)) == 4


@pytest.mark.parametrize("missing", ["bin", "error"])
def test_no_value_decides_the_shape(missing):
    """Whether or not a value is missing, and wherever all of them lie."""
    shapes = {
        PublicBinner((0, 9), n_bins=3, missing=missing).fit(X).transform(X[:1]).shape
        for X in (np.zeros((5, 2)), np.full((5, 2), 1e6), *([np.full((5, 2), np.nan)] if missing == "bin" else []))
    }
    assert shapes == {(1, 8 if missing == "bin" else 6)}


def test_no_value_is_learnt_by_a_binner():
    states = [vars(PublicBinner((0, 9)).fit(X)) for X in (np.zeros((5, 2)), np.full((5, 2), np.nan))]
    assert states[0].keys() == states[1].keys()
    for name in states[0]:
        np.testing.assert_array_equal(states[0][name], states[1][name])


@pytest.mark.parametrize("n_columns", [1, 3, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_one_hot_row_has_the_norm_that_is_stated(n_columns, dtype):
    X = np.random.default_rng(0).normal(size=(200, n_columns)).astype(dtype)
    X[X > 1] = np.nan
    rows = PublicBinner((-2, 2)).fit_transform(X)
    assert rows.dtype == dtype and rows.has_canonical_format and rows.indices.dtype == np.int32
    assert (rows.toarray() ** 2).sum(axis=1).tolist() == [n_columns] * 200
    out = PublicBinner((-2, 2), dtype=np.float32, sparse_output=False).fit_transform(X)
    assert out.dtype == np.float32 and (out == rows.toarray()).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Give either bounds"),
        ({"bounds": (0, 1), "edges": [0, 1]}, "Give either bounds"),
        ({"edges": [0]}, r"edges must be two or more numbers that increase; got \[0.0\]"),
        ({"edges": []}, "edges must be two or more numbers"),
        ({"edges": [0, 2, 1]}, "edges must be two or more numbers that increase"),
        ({"edges": [0, 1, 1]}, "edges must be two or more numbers that increase"),
        ({"edges": [0, np.nan]}, "edges must be two or more numbers that increase"),
        ({"edges": ["a", "b"]}, "edges must be numbers"),
        ({"edges": [[0, 1]]}, "edges are given for 1 columns, but X has 2"),
        ({"edges": {"age": [0, 1]}}, r"edges are missing for the columns \['income'\]"),
        ({"edges": EDGES | {"aeg": [0, 1]}}, r"edges are given for \['aeg'\]"),
        ({"edges": EDGES | {"age": 18}}, "edges of column 'age' must be numbers; got 18"),
        ({"edges": EDGES | {"age": [18]}}, "edges of column 'age' must be two or more"),
        ({"bounds": {"age": (0, 1)}}, r"bounds are missing for the columns \['income'\]"),
        ({"bounds": (1, 0)}, "low and high exchanged"),
        ({"bounds": (1e16, 1e16 + 4)}, "edges of column 'age' must be two or more numbers that increase"),
        ({"bounds": (0, 1), "n_bins": 0}, "'n_bins' parameter of PublicBinner must be"),
        ({"bounds": (0, 1), "n_bins": 2.5}, "'n_bins' parameter of PublicBinner must be"),
    ],
)
def test_bad_edges(options, message):
    with pytest.raises(ValueError, match=message):
        PublicBinner(**options).fit(TABLE)


def test_edges_may_be_infinite_and_numbers_of_any_type():
    X = np.array([[-1e300], [0.5], [3.0]])
    one = PublicBinner(edges=[-np.inf, 0, 1, np.inf], encode="ordinal").fit_transform(X)
    other = PublicBinner(edges=np.array([-1, 0, 1, 2], dtype=np.float16), encode="ordinal").fit_transform(X)
    assert one.tolist() == other.tolist() == [[0], [1], [2]]
    assert PublicBinner((0, 1), n_bins=np.int64(4)).fit(X).n_bins_.tolist() == [4]


@pytest.mark.parametrize("missing", ["bin", "error"])
def test_infinite_values_are_refused_by_a_binner(missing):
    binner = PublicBinner((0, 1), missing=missing).fit([[0.0]])
    for refused in (binner.transform, clone(binner).fit):
        with pytest.raises(ValueError, match="infinity"):
            refused(np.array([[np.inf]]))


def test_parameters_changed_after_a_fit_wait_for_the_next_one():
    binner = PublicBinner((0, 1), n_bins=2).fit([[0.0]])
    binner.set_params(encode="ordinal", n_bins=9)
    assert binner.transform([[0.7]]).toarray().tolist() == [[0, 1, 0]]
    assert len(binner.get_feature_names_out()) == 3


def test_frames_need_dense_rows():
    with pytest.raises(ValueError, match="sparse"):
        PublicBinner((0, 1)).set_output(transform="pandas").fit_transform(TABLE)


def test_a_private_linear_model_of_bins_is_a_private_additive_model(seeded):
    """It learns a curve that no line is near, under a total that is that of the model alone."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(0, 120, 5000), "income": rng.uniform(0, 200_000, 5000)})
    y = np.where(abs(X["age"] - 60) < 25, "yes", "no")
    X.loc[::10, "income"] = np.nan
    bounds = {"age": (0, 120), "income": (0, 200_000)}
    columns = make_column_transformer(
        (PublicBinner((0, 120)), ["age"]), (PublicBinner(edges=EDGES["income"]), ["income"])
    )
    for first in (PublicBinner(bounds), columns):
        model = make_pipeline(first, AMPClassifier(epsilon=1.0, max_norm=2**0.5)).fit(X, y)
        report = privacy_report(model)
        assert {step.status for step in report.steps[:-1]} == {"data-independent"}
        assert report.total.epsilon == 1.0 and model.score(X, y) > 0.85
    line = make_pipeline(PublicScaler(bounds, fill="middle"), AMPClassifier(epsilon=1.0)).fit(X, y)
    assert privacy_report(line).total.epsilon == 1.0 and line.score(X, y) < 0.7


@pytest.mark.parametrize("transformer", [PublicScaler([(0, 1)] * 2), PublicBinner([(0, 1)] * 2)], ids=str)
def test_a_fit_that_fails_leaves_nothing_of_the_last_one(transformer):
    fitted = clone(transformer).fit(TABLE)
    for rows in (np.ones((2, 3)), TABLE.iloc[:, :1], np.full((2, 2), np.inf)):
        with pytest.raises(ValueError, match=r"pairs|infinity"):
            fitted.fit(rows)
        with pytest.raises(NotFittedError):
            fitted.transform(rows)


# Lazy rows


TRANSFORMERS = [
    PublicScaler(BY_NAME, fill={"age": 40, "income": "middle"}),
    PublicScaler((0, 120), feature_range=(0, 1), fill=40),
    PublicBinner(edges=EDGES),
    PublicBinner((0, 120), encode="ordinal", dtype=np.float32),
    PublicBinner((0, 120), sparse_output=False),
]
MANY = pd.DataFrame({"age": np.arange(50.0), "income": np.arange(50.0) * 1000}).mask(lambda frame: frame % 7 == 0)


def computed(rows):
    out = rows.compute(scheduler="synchronous")
    return out.toarray() if sp.issparse(out) else out


def raise_if_computed(frame):
    raise AssertionError("computed")


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_frames_of_dask_are_transformed_partition_by_partition(transformer):
    frame = dd.from_pandas(MANY, npartitions=4)
    lazy = clone(transformer).fit_transform(frame)
    eager = clone(transformer).fit_transform(MANY)
    assert isinstance(lazy, da.Array) and lazy.npartitions == 4 and lazy.dtype == eager.dtype
    for _ in range(2):
        np.testing.assert_array_equal(computed(lazy), eager.toarray() if sp.issparse(eager) else eager)
    fitted = clone(transformer).fit(frame)
    assert fitted.feature_names_in_.tolist() == ["age", "income"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(frame[["income", "age"]])


@pytest.mark.parametrize("transformer", TRANSFORMERS[1:2] + TRANSFORMERS[3:], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_dask_are_transformed_chunk_by_chunk(transformer, form, dtype):
    X = MANY.to_numpy(dtype)
    rows = da.from_array(X, chunks=(20, 1))
    if form is not np.asarray:
        rows = rows.rechunk({1: 2}).map_blocks(form, meta=form((0, 0), dtype=dtype))
    lazy, eager = clone(transformer).fit_transform(rows), clone(transformer).fit_transform(X)
    assert lazy.chunks == ((20, 20, 10), (eager.shape[1],)) and lazy.dtype == eager.dtype
    np.testing.assert_array_equal(computed(lazy), eager)


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_nothing_lazy_is_computed_by_fit_or_transform(transformer):
    rows = dd.from_pandas(MANY, npartitions=4).map_partitions(raise_if_computed, meta=MANY.iloc[:0])
    lazy = clone(transformer).fit_transform(rows)
    with pytest.raises(AssertionError, match="computed"):
        computed(lazy)


@pytest.mark.parametrize("transformer", [PublicScaler(BY_NAME), PublicBinner(BY_NAME, missing="error")], ids=str)
def test_missing_values_of_lazy_rows_are_refused_when_they_are_computed(transformer):
    lazy = transformer.fit_transform(dd.from_pandas(MANY, npartitions=2))
    with pytest.raises(ValueError, match=r"^X contains NaN. Before the private step put SimpleImputer"):
        computed(lazy)


def test_lazy_rows_are_those_of_the_fit_that_there_was():
    scaler = PublicScaler((0, 100), fill=0)
    lazy = scaler.fit_transform(da.from_array(np.full((4, 1), 50.0), chunks=2))
    scaler.set_params(bounds=(0, 50)).fit([[0.0]])
    assert computed(lazy).ravel().tolist() == [0.0] * 4


def test_empty_partitions_stay_empty():
    frame = dd.from_pandas(MANY, npartitions=5)
    few = frame[frame["age"] > 35]
    expected = PublicBinner(edges=EDGES).fit_transform(MANY[MANY["age"] > 35]).toarray()
    np.testing.assert_array_equal(computed(PublicBinner(edges=EDGES).fit_transform(few)), expected)


def test_lazy_rows_are_no_frames_of_scikit_learn():
    frame, scaler = dd.from_pandas(MANY, npartitions=2), PublicScaler(BY_NAME, fill="middle")
    lazy = scaler.fit_transform(frame)
    with config_context(transform_output="pandas"), pytest.raises(ValueError, match="dask arrays"):
        scaler.transform(frame)
    with pytest.raises(ValueError, match="dask arrays"):
        scaler.set_output(transform="pandas").transform(frame)
    assert isinstance(computed(lazy), np.ndarray)


def test_sparse_lazy_rows_that_would_fill_up_are_refused():
    rows = da.from_array(np.eye(2), chunks=2).map_blocks(sp.csr_array, meta=sp.csr_array((0, 0)))
    with pytest.raises(ValueError, match="would not stay zero"):
        PublicScaler((0, 1)).fit_transform(rows)


def test_a_pipeline_of_lazy_rows_is_fitted_once_and_covered():
    frame = dd.from_pandas(MANY, npartitions=4)
    pipeline = make_pipeline(PublicScaler(BY_NAME, fill="middle"), DPRidge(target_bounds=(0, 50)))
    with dask.config.set(scheduler="synchronous"):
        pipeline.fit(frame, frame["age"].fillna(0))
    report = privacy_report(pipeline)
    assert report.total.epsilon == 1.0 and report.steps[0].status == "data-independent"


def test_masked_parameters_are_refused():
    """Under the mask is some number, which was taken for the parameter."""
    table, masked = np.array([[0.5], [1.0]]), np.ma.array([0.0, 1.0], mask=[True, False])
    for step in (PublicScaler(masked), PublicScaler([masked]), PublicBinner(edges=[masked]), DPBinner(bounds=[masked])):
        with pytest.raises(ValueError, match="masked entries"):
            step.fit(table)
    labels, epsilon = np.ma.array([0, 1, 2], mask=[0, 0, 1]), np.ma.array(3.0, mask=True)
    for model in (
        DPRidge(target_bounds=masked),
        AMPClassifier(classes=labels),
        AMPClassifier(classes=[0, 1], epsilon=epsilon),
    ):
        with pytest.raises(ValueError, match=r"masked entries|'epsilon' parameter"):
            model.fit(table, [0, 1])
    assert AMPClassifier(classes=np.ma.array([0, 1])).fit(table, [0, 1]).classes_.tolist() == [0, 1]


def test_iterators_that_a_report_would_find_empty_are_refused():
    table = pd.DataFrame({"a": [0.5, 1.0], "t": ["x", "y"]})
    for step in (
        PublicBinner(edges={"a": iter([0, 0.5, 1])}),
        PublicScaler({"a": iter((0, 1))}),
        DPBinner(bounds={"a": iter((0, 1))}),
        DPBinner(categories={"t": iter(["x", "y"])}),
        DPHistograms(categories={"t": iter(["x", "y"])}),
    ):
        with pytest.raises(TypeError, match="are an iterator, which can be read once: make it a list"):
            step.fit(table if hasattr(step, "categories") else table[["a"]])
