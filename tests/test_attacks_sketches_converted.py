"""Attacks on conversions: what a value or a missing one in a row does to other rows before a private step sees them."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdprp import DPOPORP, AMPClassifier, DPRidge, DPSignOPORP, PublicBinner, PublicScaler, privacy_report
from skdprp.report._data_independent import is_data_independent, remark_on
from skdprp.testing import reproducible_noise

LARGEST = 2**63 - 1
FILLS_SPLINES = "handle_missing" in inspect.signature(SplineTransformer).parameters
needs_missing_splines = pytest.mark.skipif(not FILLS_SPLINES, reason="These splines refuse missing values.")


def _dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def _moved(step, rows, neighbours):
    """Count rows other than the first, which alone was replaced, that a step gives otherwise."""
    one, other = (_dense(step.transform(X)) for X in (rows, neighbours))
    return int((one[1:] != other[1:]).any(axis=1).sum())


def _total(estimator):
    """What a report adds up; None where it does not vouch for all steps."""
    return privacy_report(estimator).total


def _table_of_codes(first):
    """A categorical column of whole numbers, beside one of numbers; the types do not depend on the first code."""
    codes = pd.Categorical([first] + [LARGEST] * 59, categories=np.array([0, 1, LARGEST]))
    return pd.DataFrame({"code": codes, "one": np.ones(60, "int64")})


@needs_missing_splines
@pytest.mark.parametrize("extrapolation", ["continue", "periodic", "constant", "linear"])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_missing_values_are_not_encoded_by_the_least_value_of_other_rows(extrapolation, sparse_output):
    """Of sparse splines, scikit-learn 1.9 put the splines of the least value of a column where one was missing."""
    knots = np.tile([[0.0], [1.0], [2.0], [3.0], [4.0]], 2)
    known = {"extrapolation": extrapolation, "handle_missing": "zeros", "sparse_output": sparse_output}
    rows = np.full((30, 2), 3.0)
    rows[1:, 1] = np.nan
    neighbours = rows.copy()
    neighbours[0, 1] = 1.0
    model = make_pipeline(
        SplineTransformer(degree=1, knots=knots, **known), AMPClassifier(delta=1e-6, classes=[0, 1], max_norm=2.0)
    ).fit(rows, np.arange(30) % 2)
    assert _total(model) is None or _moved(model[0], rows, neighbours) == 0


@pytest.mark.parametrize(
    "step",
    [
        PublicScaler((0, LARGEST)),
        PublicBinner((0, LARGEST), sparse_output=False),
        DPSignOPORP(8, max_change=1e17, random_state=0),
        DPOPORP(2, max_change=1e18, random_state=0),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_missing_category_of_a_frame_does_not_change_the_numbers_of_other_rows(step):
    """Frames made int64 of codes with a missing one by way of floats, in which the largest ones overflow."""
    rows, neighbours = _table_of_codes(0), _table_of_codes(None)
    assert rows.dtypes.equals(neighbours.dtypes)
    released = []
    for X in (rows, neighbours):
        with reproducible_noise(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a seed, and of casts
            try:
                released.append(_dense(step.fit(rows).transform(X)))
            except (TypeError, ValueError):
                return  # one that is refused moves no other
    assert np.array_equal(released[0][1:], released[1][1:])


@pytest.mark.parametrize("step", [Binarizer(), Normalizer("l1")], ids=lambda step: type(step).__name__)
def test_what_scikit_learn_makes_of_such_a_frame_is_assumed_in_print(step):
    """Its steps convert frames by themselves, of which the library sees nothing."""
    model = make_pipeline(step, DPOPORP(2, max_change=1e18, random_state=0)).fit(_table_of_codes(0))
    name = type(step).__name__.lower()
    said = f"{name}: transforms rows one by one; no row decides the output type; dask rows have a fixed order"
    assert said in _total(model).assumptions


def test_a_missing_category_does_not_turn_the_gradients_of_all_other_rows():
    """Labels are all alike, so that the weight of the column of codes has the sign of the codes."""
    y, signs = np.ones(60, int), []
    y[0] = 0
    for first in (0, None):
        model = AMPClassifier(epsilon=50.0, delta=1e-6, classes=[0, 1], fit_intercept=False)
        with reproducible_noise(0):
            try:
                signs.append(np.sign(model.fit(_table_of_codes(first), y).coef_[0, 0]))
            except (TypeError, ValueError):
                return
    assert signs[0] == signs[1]


def test_a_missing_category_does_not_turn_the_targets_of_all_other_rows():
    """A table of targets is converted as one of features is."""
    X, intercepts = np.random.default_rng(0).uniform(size=(60, 2)), []
    for first in (0, None):
        with reproducible_noise(0):
            try:
                model = DPRidge(target_bounds=(-1, 1), epsilon=50.0).fit(X, _table_of_codes(first))
            except (TypeError, ValueError):
                return
        intercepts.append(model.intercept_[0])
    assert abs(intercepts[0] - intercepts[1]) < 0.5


def test_hashing_the_columns_of_a_frame_is_no_map_of_rows():
    """Whoever iterates over a frame of polars gets its columns, each with the values of all persons."""
    pl = pytest.importorskip("polars")
    rows, neighbours = (pl.DataFrame({f"q{i}": [first] + ["yes"] * 5 for i in range(20)}) for first in ("yes", "no"))
    hasher = FeatureHasher(64, input_type="string", alternate_sign=False)
    model = make_pipeline(hasher, DPOPORP(8, noise="laplace", max_change=2.0, random_state=0))
    try:
        total = privacy_report(model, rows).total
    except (TypeError, ValueError):
        return
    is_said = "no dataframe" in remark_on(hasher)
    assert total is None or is_said or _moved(hasher, rows, neighbours) == 0


@pytest.mark.parametrize("n_rows", [10, 100, 1000])
@pytest.mark.parametrize(
    "encoder",
    [
        lambda known: OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False),
        lambda known: OrdinalEncoder(categories=known, handle_unknown="use_encoded_value", unknown_value=-1),
    ],
)
def test_an_unknown_number_does_not_decide_if_another_is_known(n_rows, encoder):
    """Unsigned numbers were compared with signed ones as floats, but exactly where any of a column was unknown."""
    far = 2**60
    categories = [2**53, *range(far, far + 13)]
    fitted = encoder([categories]).fit(np.array([[2**53]]))
    rows = np.array([[far], [2**53 + 1]] + [[far + 1]] * (n_rows - 2), dtype=np.uint64)
    neighbours = rows.copy()
    neighbours[0] = 7
    model = make_pipeline(fitted, DPOPORP(1, random_state=0)).fit(np.array([[2**53]]))
    assert _total(model) is None or _moved(model[0], rows, neighbours) == 0


@pytest.mark.parametrize("makes", [FeatureUnion, ColumnTransformer])
def test_no_branch_writes_into_the_rows_that_the_next_one_sketches(makes):
    """Rows of 1 / d, at distance 1 from zeros, were made ones by a step with copy=False, and sketched as ones."""
    d = 16
    nothing = make_pipeline(Binarizer(copy=False), ColumnTransformer([("none", "drop", slice(0, d))]))
    branches = [("first", nothing), ("second", DPOPORP(d, epsilon=100.0, noise="laplace", random_state=0))]
    if makes is ColumnTransformer:
        branches = [(name, step, slice(0, d)) for name, step in branches]
    model = makes(branches, **{"sparse_threshold": 0} if makes is ColumnTransformer else {})
    rows = np.full((2, d), 1 / d)
    released = _dense(model.fit(rows.copy()).transform(rows.copy()))
    report = privacy_report(model)
    assert (report.total is None and report.private is None) or np.abs(released).max() < 0.5


@pytest.mark.filterwarnings("ignore:y is a dask collection:UserWarning")
def test_lazy_rows_in_any_order_are_not_taken_for_rows_in_one():
    """A step makes an array of a shuffled frame, in another order each time, and x of one person meets y of another."""
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0] * 10, "k": range(30), "y": [0, 1, 1] * 10})
    shuffled = dd.from_pandas(table, npartitions=3).shuffle("k")
    model = make_pipeline(Normalizer(), AMPClassifier(delta=1e-6, classes=[0, 1]))
    try:
        total = _total(model.fit(shuffled[["x"]], shuffled["y"]))
    except (TypeError, ValueError):
        return
    assert total is None or any("order" in text for text in total.assumptions)


@needs_missing_splines
def test_splines_say_that_a_missing_value_may_change_their_type():
    """One null in a column of small integers of polars makes all splines float32: an imputer says so."""
    pl = pytest.importorskip("polars")
    splines = SplineTransformer(knots=np.array([[0.0], [1.0], [2.0], [4.0]]), handle_missing="zeros")
    types = set()
    for first in (1, None):
        rows = pl.DataFrame({"a": pl.Series([first, 3, 2, 0], dtype=pl.Int8)})
        types.add(splines.fit(rows).transform(rows).dtype)
    assert len(types) == 1 or not is_data_independent(splines) or "type" in remark_on(splines)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "step",
    [
        AdditiveChi2Sampler(sample_steps=3),
        Binarizer(threshold=1 / 3),
        GaussianRandomProjection(3, random_state=0),
        Normalizer(),
        PolynomialFeatures(4),
        RBFSampler(gamma=0.3, n_components=7, random_state=0),
        SparseRandomProjection(3, density=0.5, random_state=0),
        SplineTransformer(knots=np.tile([[0.0], [0.5], [2.0]], 5), extrapolation="linear"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_round_each_row_alike_whatever_the_first_one_is(step, dtype):
    """Also where numbers are picked out and computed side by side, as the logarithms of nonzero ones are."""
    rows = np.random.default_rng(0).uniform(size=(41, 5)).astype(dtype)
    step.fit(rows)
    for first in ([0.0] * 5, [0.0, 1e30, 0.0, 1e-40, 1.0], [1.0] * 5, [0.0, 0.0, 0.0, 0.0, 1e8]):
        neighbours = rows.copy()
        neighbours[0] = first
        assert _moved(step, rows, neighbours) == 0
        if not isinstance(step, SplineTransformer):
            assert _moved(step, sp.csr_array(rows), sp.csr_array(neighbours)) == 0


@pytest.mark.parametrize("known", [["a", "b", None, np.nan], [0, 1.5, 2**50], ["1", ""]])
def test_what_is_unknown_of_objects_is_so_whatever_other_rows_hold(known):
    """Cells of all kinds, known and unknown, beside a first row that is known, unknown or missing."""
    cells = [0, 0.0, False, 1, True, 1.5, "a", "b", "", None, np.nan, float("nan"), 2**70, -0.0]
    encoder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
    encoder.fit(np.array([[known[0]]], dtype=object))
    assert is_data_independent(encoder)
    rows = np.array([[known[0]]] + [[cell] for cell in cells], dtype=object)
    for first in cells:
        neighbours = rows.copy()
        neighbours[0, 0] = first
        assert _moved(encoder, rows, neighbours) == 0
