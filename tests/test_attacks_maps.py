"""Attacks on steps before and after private ones: maps that differ, functions that look at all rows or hold a model."""

import random
import re
import sys
import warnings
import weakref
from dataclasses import replace
from functools import partial, wraps
from numbers import Integral
from types import ModuleType

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.signal
import scipy.stats
from attacks import (
    IS_FLU,
    LAPLACE_SKETCH,
    WORDS,
    X12,
    X12_UNIFORM,
    X24,
    X24_POSITIVE,
    X24_SMALL,
    Y12,
    Y24,
    amp,
    assert_true,
    binary_model,
    charged,
    gaussian_delta,
    illnesses,
    model_with,
    n_moved,
    private_model,
    seeded_sketch,
    sketch,
    sketch_of_8,
    total_of,
)
from scipy.signal import detrend, savgol_filter
from scipy.special import expit, softmax
from scipy.stats import zscore
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    RandomForestClassifier,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, RidgeClassifierCV, SGDClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    normalize,
    quantile_transform,
    scale,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import DecisionTreeRegressor

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSignOPORP,
    PrivacyLedger,
    PublicBinner,
    PublicScaler,
    compose,
    load_model,
    load_release,
    privacy_report,
    save_model,
    save_release,
)
from skdprp.report._data_independent import is_data_independent, remark_on

FACTOR = 1.0
FITTED = {}  # private models that functions of this module apply


# Maps that differ


def times(factor):
    """Return a function that multiplies rows by a keyword's default."""

    def _multiply(rows, *, by=factor):
        return rows * by

    return _multiply


def sketched_total(function):
    """Total of one sketch of rows that a function has mapped."""
    return privacy_report(make_pipeline(FunctionTransformer(function), sketch()).fit(X12)).total


def test_maps_that_differ_in_the_defaults_of_keywords_are_different_ones():
    """Rows at distance 1 as they leave the one map are at 100 as they leave the other: no neighbours in common."""
    totals = [sketched_total(times(factor)) for factor in (1.0, 100.0)]
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*totals)


def by_global(rows):
    """Multiply rows by what stands in the module at the moment."""
    return rows * FACTOR


def test_maps_that_differ_in_what_they_find_in_their_module_are_different_ones(monkeypatch):
    """A cell of a notebook sets a constant, and a later one sets it to something else."""
    totals = []
    for factor in (1.0, 100.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        totals.append(sketched_total(by_global))
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*totals)


def test_maps_are_not_told_apart_by_where_they_lie_in_memory():
    """What cannot be pickled was named by its address, which is free for another map once it is gone."""
    labels = set()
    for factor in range(20):
        function = FunctionTransformer(np.vectorize(lambda value, by=float(factor): value * by, otypes=[float]))
        labels.add(privacy_report(make_pipeline(function, sketch()).fit(X12[:2])).total.adjacency.after)
        del function
    assert len(labels) == 20


def take(rows, columns):
    """Take some columns: truth values choose them, and whole numbers say which ones."""
    return rows[:, columns]


def keep(rows, share):
    """Keep so many columns, or a share of them, as parameters of scikit-learn often mean it."""
    return rows[:, : share if isinstance(share, int) else int(share * rows.shape[1])]


def enlarge(rows, by):
    """Multiply rows: True is the default, a factor of 100."""
    return rows * (100.0 if by is True else by)


def taking(columns):
    """Return a column transformer that takes some columns as they are."""
    return ColumnTransformer([("a", "passthrough", columns)], sparse_threshold=0)


@pytest.mark.filterwarnings("ignore:n_components=4 is more")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (taking([True, False] * 4), taking([1, 0] * 4)),
        (taking(np.arange(8) % 2 == 0), taking([1, 0, 1, 0, 1, 0, 1, 0])),
        *(
            (FunctionTransformer(function, kw_args=one), FunctionTransformer(function, kw_args=other))
            for function, one, other in (
                (take, {"columns": np.arange(8) % 2 == 0}, {"columns": [1, 0, 1, 0, 1, 0, 1, 0]}),
                (enlarge, {"by": True}, {"by": 1}),
                (keep, {"share": 1}, {"share": 1.0}),
            )
        ),
    ],
)
def test_maps_whose_parameters_are_equal_numbers_of_other_types_are_different_ones(one, other):
    """A mask of columns was written as the numbers 0 and 1 are: rows equal after one map are far apart after another.

    So the total of two sketches was stated for neighbours that one of them told apart for sure.
    """
    totals = [privacy_report(make_pipeline(step, sketch()).fit(X12)).total for step in (one, other)]
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*totals)


def by_file(rows):
    """Multiply rows by what a file holds at the moment."""
    return rows * np.load("factor.npy")


def by_name(rows):
    """Multiply rows by what stands in the module, by a name that is no name in the code."""
    return pd.eval("rows * FACTOR")


@pytest.mark.parametrize("function", [by_file, by_name])
def test_maps_that_differ_in_what_a_library_reads_for_them_are_different_ones(function, monkeypatch, tmp_path):
    """A function that calls nothing but libraries may read a file by one, or a variable by its name in a text."""
    totals = []
    monkeypatch.chdir(tmp_path)
    for factor in (1.0, 100.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.save("factor.npy", factor)
        totals.append(privacy_report(make_pipeline(FunctionTransformer(function), sketch()).fit(X12)).total)
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*totals)


def test_maps_side_by_side_are_not_those_one_after_the_other():
    """Names of steps may have dots: x.a and x.b of a union are its own, or those of a pipeline x in it.

    Two such unions had one label, so that sketches of rows at a distance of 1 as they leave different maps added up.
    """
    steps = [("a", PublicScaler((-1, 1))), ("b", PublicScaler((-1, 1), feature_range=(0, 100)))]
    unions = FeatureUnion([("x", Pipeline(steps))]), FeatureUnion([(f"x.{name}", step) for name, step in steps])
    one, other = (privacy_report(Pipeline([("maps", clone(maps)), ("s", sketch())]).fit(X12)).total for maps in unions)
    assert one.adjacency.after != other.adjacency.after


def test_maps_that_differ_in_what_they_leave_out_are_not_the_same():
    """Rows as they leave one column transformer are at other distances than as they leave the other."""
    X, totals = np.random.default_rng(0).uniform(size=(20, 4)), []
    scaled = ("a", PublicScaler((0, 1)), [0, 1])
    for transformers, rest in (([scaled], "drop"), ([scaled], "passthrough"), ([scaled, ("b", "drop", [2])], "drop")):
        columns = ColumnTransformer(transformers, remainder=rest, sparse_threshold=0)
        sketch = DPSignOPORP(2, adjacency="l1", random_state=0)
        totals.append(privacy_report(make_pipeline(columns, sketch).fit(X)).total)
    for one, other in ((0, 1), (1, 2)):
        with pytest.raises(ValueError, match="different neighbours"):
            compose(totals[one], totals[other])


def made(choose, depth=2):
    """A data-independent map, as deep as 2."""
    several = choose.choice
    kinds = [
        lambda: Normalizer(several(["l1", "l2", "max"])),
        lambda: PublicScaler(several([(0, 2), (0, 3)]), feature_range=several([(0, 1), (-1, 1)])),
        lambda: PolynomialFeatures(2, interaction_only=several([True, False]), include_bias=several([True, False])),
        lambda: Binarizer(threshold=several([0.05, 0.1, 0.2])),
        lambda: FunctionTransformer(np.clip, kw_args=several([{"a_min": 0, "a_max": 0.1}, {"a_min": 0, "a_max": 0.2}])),
        lambda: FunctionTransformer(several([np.exp, np.sqrt, expit, partial(np.clip, a_min=0, a_max=0.2), None])),
        lambda: FunctionTransformer(several([np.abs, np.round, np.negative, np.square])),
        lambda: FunctionTransformer(normalize, kw_args=several([{"norm": "l1"}, {}])),
        lambda: GaussianRandomProjection(3, random_state=several([0, 1])),
    ]
    deep = [
        lambda: ColumnTransformer(
            [
                ("a", several(["passthrough", "drop", made(choose, depth - 1)]), several([[0, 1], [1, 0], [1]])),
                ("b", several(["passthrough", "drop", made(choose, depth - 1)]), several([[2], [3], [2, 3], [-1]])),
            ],
            remainder=several(["drop", "passthrough"]),
            transformer_weights=several([None, {"a": 2.0}]),
            sparse_threshold=0,
        ),
        lambda: FeatureUnion(
            [("u", made(choose, depth - 1)), ("v", made(choose, depth - 1))],
            transformer_weights=several([None, {"u": 2.0}, {"u": 3.0}]),
        ),
        lambda: Pipeline([("x", made(choose, depth - 1)), ("y", made(choose, depth - 1))]),
        lambda: FrozenEstimator(made(choose, depth - 1).fit(X24_POSITIVE)),
    ]
    return several([*kinds, *deep] if depth else kinds)()


@pytest.mark.filterwarnings("ignore")
def test_maps_that_make_other_numbers_of_the_same_rows_have_other_labels():
    """Of 18,248 pairs with equal labels, of some 5000 maps as deep as 2, all made the same numbers."""
    choose, found, n_pairs = random.Random(0), {}, 0
    for _ in range(170):
        try:
            model = make_pipeline(made(choose), DPSignOPORP(2, adjacency="l1", random_state=0)).fit(X24_POSITIVE)
        except (ValueError, TypeError):  # of what does not go together, or drops all columns
            continue
        rows, private = np.asarray(model[:-1].transform(X24_POSITIVE)), privacy_report(model).private
        if private is not None:
            n_pairs += private.adjacency.after in found
            before = found.setdefault(private.adjacency.after, rows)
            assert before.shape == rows.shape and np.allclose(before, rows, rtol=0, atol=1e-9)
    assert n_pairs > 50


MAPS = {
    "branches that change places": lambda which: ColumnTransformer(
        [("a", ["passthrough", "drop"][which], [0]), ("b", ["drop", "passthrough"][which], [1])], sparse_threshold=0
    ),
    "slices": lambda which: ColumnTransformer([("a", "passthrough", slice(which, which + 2))], sparse_threshold=0),
    "weights": lambda which: make_union(FunctionTransformer()).set_params(
        transformer_weights={"functiontransformer": 1.0 + which}
    ),
    "functions": lambda which: FunctionTransformer([np.exp, np.sinh][which]),
    "arguments": lambda which: FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 1 + which}),
    "norms": lambda which: Normalizer(["l1", "l2"][which]),
    "products": lambda which: PolynomialFeatures(2, interaction_only=bool(which)),
    "edges": lambda which: PublicBinner([[-0.1 - which / 10, 0.1]] * 6),
    "fills": lambda which: PublicScaler((-1, 1), fill=which / 2),
}


@pytest.mark.filterwarnings("ignore:n_components=2 is more than")
@pytest.mark.parametrize("kind", MAPS)
def test_sketches_behind_maps_that_differ_have_no_total(kind):
    """Whatever it is in which two maps differ, distances are those of rows as they leave the one or the other."""
    totals = [
        privacy_report(
            make_pipeline(MAPS[kind](which), DPOPORP(2, adjacency="l1", random_state=0)).fit(X24_SMALL)
        ).total
        for which in (0, 1, 1)
    ]
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*totals[:2])
    assert compose(*totals[1:]).n_releases == 2


# Rows as they leave a map


def test_one_line_says_that_neighbours_are_compared_after_a_map():
    """Each column twice, and one coordinate of a row is two of those that reach the sketch, at a loss of 2.0.

    The report knows, but `total` was printed as 1.0-DP, one coordinate changed by 1.0.
    """
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    twice = make_union("passthrough", "passthrough")
    total = privacy_report(make_pipeline(twice, DPSignOPORP(6, random_state=0)).fit(rows)).total
    assert abs(np.diff(twice.fit_transform(rows), axis=0)).sum() == 2.0
    assert total is None or "leave" in repr(total) or "featureunion" in repr(total)


def neighbours_in(guarantee):
    """Who the neighbours are, as it is printed."""
    return " ".join(re.search(r"^neighbours(.*?)^\w", str(guarantee), re.DOTALL | re.MULTILINE)[1].split())


def test_the_guarantee_of_a_sketch_in_a_pipeline_does_not_speak_of_the_rows_that_enter_it():
    """One coordinate that changes by 1 moves the rows behind the scaler by 100: delta is near 1 where 1e-6 is printed.

    A ledger says "as they reach each release", and a report names the scaler. The guarantee of the sketch itself, which
    `pipeline[-1].guarantee_` prints and a release file has, speaks of rows at a distance, and assumes of earlier steps
    only that they were not fitted on the rows.
    """
    pipeline = make_pipeline(PublicScaler((0, 1), feature_range=(0, 100)), DPOPORP(4)).fit(np.abs(X24))
    sketch, rows = pipeline[-1], np.zeros((2, 6))
    rows[1, 0] = 1.0
    apart = np.linalg.norm(np.diff(sketch.project_queries(pipeline[:-1].transform(rows)), axis=0))
    stated = sketch.guarantee_
    assert stated.delta <= 1e-6 and gaussian_delta(stated.epsilon, apart / sketch.scale_) > 0.999
    assert re.search("as they (reach|leave)", neighbours_in(stated))


def test_guarantees_of_sketches_that_saw_differently_scaled_rows_have_no_total_for_rows(tmp_path):
    """Reports on both pipelines do not compose; the guarantees of their sketches in files did, for rows 1 apart."""
    maps = [PublicScaler((0, 1), feature_range=(0, high)) for high in (1, 100)]
    pipelines = [make_pipeline(scaler, DPOPORP(4)).fit(np.abs(X24)) for scaler in maps]
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*(privacy_report(pipeline).total for pipeline in pipelines))
    released = []
    for pipeline in pipelines:
        save_release(tmp_path / "release.npz", pipeline.transform(np.abs(X24)), pipeline[-1])
        released.append(load_release(tmp_path / "release.npz").guarantee)
    try:
        total = compose(*released)
    except ValueError:
        return
    assert re.search("as they (reach|leave)", neighbours_in(total))


def ensemble_of_models(kind, private):
    """Return an ensemble of one private model; what it transforms rows to is what that predicts."""
    return kind([("a", private)])


@pytest.mark.parametrize(
    "predicts",
    [
        ensemble_of_models(VotingRegressor, DPRidge(target_bounds=(-1000, 1000), delta=1e-6)),
        ensemble_of_models(VotingClassifier, AMPClassifier(delta=1e-6, classes=[0, 1])),
        make_union(ensemble_of_models(VotingRegressor, DPRidge(target_bounds=(-1000, 1000), delta=1e-6))),
        FrozenEstimator(
            VotingRegressor([("a", DPRidge(target_bounds=(-1000, 1000), delta=1e-6))]).fit(X12, 1000 * Y12)
        ),
    ],
    ids=["regressor", "classifier", "union", "frozen"],
)
def test_predictions_of_an_ensemble_are_no_rows_at_the_distance_that_a_sketch_hides(predicts):
    """Rows 1 apart left an ensemble 979 apart, to noise of 8; the total was (0.69, 1.2e-6)-DP for an l1 change of 1.

    The sketch of a row was below 0 in 60 of 60 releases, and for its neighbour in none. Predictions are a map of the
    rows, which moves with each fit, as principal components are.
    """
    assert privacy_report(make_pipeline(predicts, DPOPORP(1, delta=1e-6)).fit(X12, Y12)).total is None


def test_predictions_of_an_ensemble_are_rows_to_a_model_after_it():
    """A row replaced before an ensemble is one replaced after it: the private models of both add up, and once each."""
    regression = DPRidge(target_bounds=(0, 1), delta=1e-6)
    report = privacy_report(make_pipeline(ensemble_of_models(VotingRegressor, regression), regression).fit(X12, Y12))
    assert charged(report) == 2
    assert report.total.delta == 2e-6


class ScaledSketch(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A pipeline in an estimator of one's own, which states what the report on that says."""

    def fit(self, X, y=None):
        """Fit the pipeline, and report on it."""
        self.pipeline_ = make_pipeline(PublicScaler((0, 1), feature_range=(0, 100)), sketch_of_8()).fit(X)
        self.guarantee_ = replace(privacy_report(self.pipeline_).total, per="transform")
        return self

    def transform(self, X):
        """Release sketches."""
        return self.pipeline_.transform(X)


def test_a_map_that_an_estimator_of_ones_own_states_is_not_forgotten_behind_another(released_projections):
    """Rows are 1 apart as they leave the outer map, and 100 apart as they leave the inner one and are sketched."""

    def fit(rows):
        return make_pipeline(PublicScaler((0, 1), feature_range=(0, 1)), ScaledSketch(), RidgeClassifier()).fit(
            rows, Y24
        )

    # The total is for rows 1 apart as they leave both: 0.01 apart as they leave the outer one.
    assert privacy_report(fit(np.zeros((24, 8)))).total.adjacency.after.count("publicscaler") == 2
    a = np.zeros((24, 8))
    b = a.copy()
    b[0, 0] = 0.01
    assert_true(released_projections, fit, a, b)


# Functions that apply a model


@pytest.mark.parametrize("given", ["method", "keyword"])
def test_a_map_that_scores_rows_by_a_private_model_is_one_that_was_fitted_on_them(given):
    """A pipeline that scores rows by one private model, and learns a second one, releases both; it said (1.0, 1e-6)."""
    first = AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1]).fit(X12, Y12)
    if given == "method":
        scores = FunctionTransformer(first.predict_proba)
    else:
        scores = FunctionTransformer(lambda rows, by: by.predict_proba(rows), kw_args={"by": first})
    total = privacy_report(make_pipeline(scores, private_model()).fit(X12, Y12)).total
    assert total is None or total.epsilon >= 9.0


class Scorer:
    """Scores by a private model, in ways that only its class tells of."""

    model = None

    def __call__(self, rows):
        """Look a model up in the module."""
        return FITTED["first"].predict_proba(rows)

    def by_another(self, rows):
        """Have another method do it."""
        return self(rows)

    def by_class(self, rows):
        """Look a model up in the class."""
        return self.model.predict_proba(rows)


def score_one_by_one(rows):
    """Apply a private model in a function within this one."""
    return np.concatenate(tuple(FITTED["first"].decision_function(row[None]) for row in rows))[:, None]


def score_along(rows):
    """Apply a private model in a function within this one that has no name."""
    return np.apply_along_axis(lambda row: FITTED["first"].decision_function(row[None]), 1, rows)


@pytest.mark.parametrize(
    "scores", [score_one_by_one, score_along, Scorer(), Scorer().by_another, Scorer().by_class], ids=range(5)
)
def test_a_map_that_scores_rows_by_a_private_model_may_name_it_further_within(scores, monkeypatch):
    """A generator, a lambda, a class that is called: names that they look up are not those of the outermost code."""
    first = AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1]).fit(X12, Y12)
    monkeypatch.setitem(FITTED, "first", first)
    monkeypatch.setattr(Scorer, "model", first)
    report = privacy_report(make_pipeline(FunctionTransformer(scores), private_model()).fit(X12, Y12))
    assert report.total is None
    assert report.private is None or report.private.epsilon > 8.0


THEIRS = None  # a module


def score_by_modules(rows):
    """Apply a private model of a module within a module, each of which names the other."""
    return THEIRS.inner.first.predict_proba(rows)


def score_by_import(rows):
    """Apply a private model of a module that is imported when it is called."""
    import their_inner

    return their_inner.first.predict_proba(rows)


@pytest.mark.parametrize("scores", [score_by_modules, score_by_import])
def test_a_map_may_find_a_private_model_in_another_module(scores, monkeypatch):
    """Names of a module are followed, of a module within it, too, and where modules name each other there is an end."""
    inner, outer = ModuleType("their_inner"), ModuleType("their_outer")
    inner.first = AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1]).fit(X12, Y12)
    inner.inner = outer.inner = inner
    inner.THEIRS = outer
    monkeypatch.setitem(sys.modules, "their_inner", inner)
    monkeypatch.setitem(globals(), "THEIRS", outer)
    assert privacy_report(make_pipeline(FunctionTransformer(scores), private_model()).fit(X12, Y12)).total is None


def clipped(rows):
    """Clip rows by their own method."""
    return rows.clip(-1, 1)


def test_an_attribute_is_no_name_of_a_module_and_functions_are_assumed_to_apply_no_model(monkeypatch):
    """A model of the module that has the name of a method of arrays is none that the function applies."""
    fitted = AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1]).fit(X12, Y12)
    monkeypatch.setitem(globals(), "clip", fitted)
    for function in (clipped, np.tanh):
        total = privacy_report(make_pipeline(FunctionTransformer(function), private_model()).fit(X12, Y12)).total
        assert ("applies no model that was fitted on these rows" in repr(total.assumptions)) == (function is clipped)


def scores_of_a_file(rows, path=""):
    """Apply a model that a file holds, of which nothing else tells."""
    return joblib.load(path).predict_proba(np.asarray(rows))


def reads(path, wrapped):
    """Return a transformer that applies the model of a file, by a function that something else holds."""
    if wrapped == "partial":
        return FunctionTransformer(partial(scores_of_a_file, path=path))
    if wrapped == "vectorize":
        return FunctionTransformer(np.vectorize(lambda rows: scores_of_a_file(rows, path), signature="(n,d)->(n,k)"))
    if wrapped == "wraps":
        return FunctionTransformer(wraps(np.abs)(lambda rows: scores_of_a_file(rows, path)))
    if wrapped == "pipe":
        return FunctionTransformer(pd.DataFrame.pipe, kw_args={"func": scores_of_a_file, "path": path})
    return FunctionTransformer(pd.DataFrame.assign, kw_args={"score": lambda rows: scores_of_a_file(rows, path)[:, 0]})


@pytest.mark.parametrize("wrapped", ["partial", "vectorize", "wraps", "pipe", "assign"])
def test_a_function_that_a_library_wraps_is_assumed_to_apply_no_model_either(wrapped, tmp_path):
    """The assumption was printed for a function by itself, and not for one that numpy, pandas or functools calls.

    The total was (1.0, 1e-6), where a model of epsilon 9 of the same rows was released beside it.
    """
    first = AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1]).fit(X12, Y12)
    joblib.dump(first, tmp_path / "first.joblib")
    step = reads(str(tmp_path / "first.joblib"), wrapped)
    total = privacy_report(make_pipeline(step, private_model()).fit(pd.DataFrame(X12).add_prefix("x"), Y12)).total
    assert total is None or "applies no model that was fitted on these rows" in repr(total.assumptions)


class FitsWhatItLimits(float):
    """A number that universal functions ask what to do with the rows."""

    def __array_ufunc__(self, function, method, *given, **known):
        for rows in filter(np.ndim, given):
            AMPClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1]).fit(rows, Y12)
        return getattr(function, method)(*(one if np.ndim(one) else float(one) for one in given), **known)


class FitsWhatItBounds(np.ndarray):
    """Bounds that universal functions ask as well."""

    def __array_ufunc__(self, function, method, *given, **known):
        AMPClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1]).fit(np.asarray(given[0]), Y12)
        return getattr(function, method)(*map(np.asarray, given), **known)


_LIMITS = {
    "number": FitsWhatItLimits(1.0),
    "array": np.ones(X12.shape[1]).view(FitsWhatItBounds),
    "plain number": 1.0,
    "plain array": np.ones(X12.shape[1]),
}


@pytest.mark.parametrize(
    ("kind", "is_function"), [*((kind, True) for kind in _LIMITS), ("number", False), ("plain number", False)]
)
def test_numbers_of_a_class_of_the_user_are_assumed_to_publish_nothing(kind, is_function):
    """A total of 1.0 printed no word of them, for a fit that spent 8.9."""
    step = FunctionTransformer(np.clip, kw_args={"a_min": -1.0, "a_max": _LIMITS[kind]})
    step = step if is_function else Binarizer(threshold=_LIMITS[kind])
    with PrivacyLedger() as ledger:
        model = make_pipeline(step, private_model()).fit(X12, Y12)
    assert len(ledger.entries) == (1 if "plain" in kind else 2)
    name = type(step).__name__.lower()
    told = f"{name}: publishes nothing of what it is given" in privacy_report(model).total.assumptions
    assert told == ("plain" not in kind)


@pytest.mark.parametrize("is_beside", [True, False])
def test_numbers_of_a_class_of_the_user_beside_or_behind_a_private_step_are_assumed_to_publish_nothing(is_beside):
    """The assumption was printed where a private step follows, and a total of 1.0 had no word of it elsewhere."""
    steps = DPScaler(bounds=(-1, 1), delta=1e-6), Binarizer(threshold=FitsWhatItLimits(1.0))
    model = (make_union if is_beside else make_pipeline)(*steps)
    with PrivacyLedger() as ledger:
        model.fit_transform(X12)
    assert [one.guarantee.epsilon for one in ledger.entries] == [1.0, 8.0]
    assert any("binarizer: publishes nothing" in text for text in privacy_report(model).total.assumptions)


def test_bounds_of_a_class_of_the_user_that_are_set_on_a_frozen_step_are_assumed_to_publish_nothing():
    scaler = PublicScaler((-1, 1)).fit(X12)
    model = make_pipeline(FrozenEstimator(scaler), private_model()).fit(X12, Y12)
    for bounds in (scaler.bounds_, scaler.bounds_.view(FitsWhatItBounds)):
        scaler.bounds_ = bounds
        told = any("publishes nothing" in text for text in privacy_report(model).total.assumptions)
        assert told == (type(bounds) is FitsWhatItBounds)


class Counted:
    """A number, by registration, to which a weak proxy may point."""

    def __lt__(self, other):
        return np.asarray(other) > 0

    def __float__(self):
        return 0.0

    __gt__ = __le__ = __ge__ = __lt__


Integral.register(Counted)


class OfAFileOfTheUser(float):
    """A number of a class of a module that hides one of Python."""


@pytest.mark.parametrize("kind", ["object", "proxy", "class", "hidden module"])
def test_code_of_the_user_is_no_plain_number_whatever_it_is_reached_through(kind, monkeypatch):
    """A proxy, a class and a file named as a module of Python were taken for plain: no word of them was printed."""
    counted = Counted()
    hides = ModuleType("profile")
    hides.__file__ = "/somewhere/profile.py"
    monkeypatch.setitem(sys.modules, "profile", hides)
    monkeypatch.setattr(OfAFileOfTheUser, "__module__", "profile")
    given = {"object": counted, "proxy": weakref.proxy(counted), "class": Counted, "hidden module": OfAFileOfTheUser(0)}
    step = Binarizer().fit(X12)
    step.threshold = given[kind]
    report = privacy_report(make_pipeline(step, private_model().fit(X12, Y12)))
    assert "binarizer: publishes nothing of what it is given" in report.total.assumptions


@pytest.mark.parametrize("kind", [np.ndarray, np.recarray])
def test_a_model_that_an_array_of_any_class_holds_is_found(kind):
    """Of arrays of a class of numpy's own besides its array, only the references were followed: it has none."""
    held = np.array([private_model().fit(X12, Y12)], dtype=object).view(kind)
    step = FunctionTransformer(np.clip, kw_args={"a_min": -1.0, "a_max": 1.0})
    step.note = held
    assert privacy_report(make_pipeline(step, private_model().fit(X12, Y12))).total is None


def test_a_model_that_a_number_of_a_class_of_the_user_holds_is_found():
    """What numbers hold was never looked into."""
    number = FitsWhatItLimits(1.0)
    number.model = private_model().fit(X12, Y12)
    assert privacy_report(make_pipeline(Binarizer(threshold=number), private_model()).fit(X12, Y12)).total is None


@pytest.mark.filterwarnings("ignore:n_components=4 is more than the 2 features")
@pytest.mark.parametrize("last", [private_model(), sketch()], ids=["model", "sketch"])
@pytest.mark.parametrize(
    "method",
    [
        StandardScaler().fit(X12).transform,
        LogisticRegression().fit(X12, Y12).predict_proba,
        partial(StandardScaler().fit(X12).transform, copy=True),
    ],
    ids=["scaler", "model", "partial"],
)
def test_a_method_of_what_was_fitted_is_no_map_that_was_not(method, last):
    """A frozen scaler is not covered; its method was "data-independent", and the whole had a total."""
    assert privacy_report(make_pipeline(FunctionTransformer(method), last).fit(X12, Y12)).total is None


class ScoresOfAFile(TransformerMixin, BaseEstimator):
    """Scores by a model that a file holds."""

    def __init__(self, path=""):
        self.path = path

    def fit(self, X, y=None):
        """Learn nothing."""
        return self

    def transform(self, X):
        """Return the scores."""
        return scores_of_a_file(X, self.path)


@pytest.mark.parametrize("step", [lambda path: reads(path, "partial"), ScoresOfAFile], ids=["function", "class"])
def test_what_applies_no_model_after_a_sketch_is_an_assumption_too(step, tmp_path):
    """What follows a sketch is post-processing only if it brings nothing of the rows; the total said nothing of that.

    From noisy rows and their scores, both released, the exact weights of a logistic regression are read off.
    """
    joblib.dump(LogisticRegression().fit(X12, Y12), tmp_path / "model.joblib")
    noisy = DPRandomProjection(8, projection="identity")
    total = privacy_report(make_pipeline(noisy, step(str(tmp_path / "model.joblib"))).fit(X12, Y12)).total
    assert total is None or "no model that was fitted on these rows" in repr(total.assumptions)


def test_a_function_that_is_handed_means_of_columns_in_a_dictionary_is_assumed_not_to_be():
    """A series of the means was seen, and a dictionary of them was not."""
    rows = pd.DataFrame(X12).mask(X12 > 2)
    given = [rows.mean(), rows.mean().to_dict()]
    fills = [FunctionTransformer(pd.DataFrame.fillna, kw_args={"value": value}) for value in given]
    totals = [privacy_report(make_pipeline(fill, private_model()).fit(rows, Y12)).total for fill in fills]
    assert all(any("handed nothing" in text for text in total.assumptions) for total in totals if total is not None)


def test_a_partial_that_holds_ends_of_columns_is_assumed_not_to():
    """What `kw_args` hold was seen, and what the function itself holds was not, nor the one that undoes it."""
    ends = partial(np.clip, a_min=X12.min(axis=0), a_max=X12.max(axis=0))
    clips = [FunctionTransformer(ends), FunctionTransformer(inverse_func=partial(ends), check_inverse=False)]
    totals = [privacy_report(make_pipeline(clip, private_model()).fit(X12, Y12)).total for clip in clips]
    assert all(any("handed nothing" in text for text in total.assumptions) for total in totals if total is not None)
    given = FunctionTransformer(partial(np.clip, a_min=0, a_max=1))
    of_numbers = privacy_report(make_pipeline(given, private_model()).fit(X12, Y12)).total.assumptions
    assert not any("handed nothing" in text for text in of_numbers)


def test_a_library_function_that_is_handed_rows_after_a_sketch_is_assumed_not_to_be():
    """`numpy.append` puts the rows themselves beside their sketches, and its report assumed nothing of it."""
    beside = FunctionTransformer(np.append, kw_args={"values": X12, "axis": 1})
    pipeline = make_pipeline(sketch(), beside, LogisticRegression()).fit(X12, Y12)
    np.testing.assert_array_equal(pipeline[:-1].transform(X12)[:, -X12.shape[1] :], X12)
    total = privacy_report(pipeline).total
    assert total is None or any(assumption.startswith("functiontransformer: ") for assumption in total.assumptions)


# Functions that look at all rows


@pytest.mark.parametrize(
    ("function", "kw_args"),
    [
        (pd.DataFrame.cummax, None),
        (pd.DataFrame.pct_change, None),
        (pd.DataFrame.shift, None),
        (np.diff, {"axis": 0, "prepend": 0.0}),
        (np.roll, {"shift": 8}),
        (np.sort, {"axis": 0}),
        (normalize, {"axis": 0}),
        (rbf_kernel, None),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_functions_of_libraries_that_make_a_row_of_several_are_no_maps_of_rows(function, kw_args):
    """Sums, ranks and differences by pandas were known; one row moves all of a running maximum, or of a kernel."""
    rows = pd.DataFrame(X12) if hasattr(pd.DataFrame, function.__name__) else X12
    pipeline = make_pipeline(
        FunctionTransformer(function, kw_args=kw_args), PublicScaler([-1, 1], fill=0.0), private_model()
    )
    assert privacy_report(pipeline.fit(rows, Y12)).total is None


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (scipy.special.softmax, {}),
        (scipy.special.log_softmax, {}),
        (np.flip, {}),
        (np.flipud, {}),
        (scipy.ndimage.gaussian_filter, {"sigma": 1.0}),
        (scipy.stats.mstats.winsorize, {"limits": 0.1}),
    ],
)
def test_function_of_a_library_that_looks_at_all_rows_is_not_covered(function, known):
    """These are over all rows, or move rows away from their labels, unless they are told otherwise."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    step = FunctionTransformer(function, kw_args=known)
    model = make_pipeline(step, DPRidge(target_bounds=(0, 1), delta=1e-6)).fit(X, np.linspace(0, 1, 30))
    assert total_of(model) is None


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
    assert total is None or is_said or n_moved(hasher, rows, neighbours) == 0


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
    # Along rows, but solved for all of them at once, where a huge row scales the others.
    (detrend, {"axis": 1}),
    (savgol_filter, {"window_length": 5, "polyorder": 2, "deriv": 2}),
    # One missing cell makes other types of all, which are summed in another precision, or have ties in another order.
    (zscore, {"axis": 1, "nan_policy": "omit"}),
    (np.argsort, {"axis": 1}),
    (np.sort, {}),
    (softmax, {"axis": 1}),
    # Handed all rows at once.
    (np.ma.argsort, {}),
    (np.vectorize(scale, otypes=[float], signature="(m,n)->(m,n)"), {}),
    (np.vectorize(scale, otypes=[float], excluded={0}), {}),
    (np.modf, {}),  # of which two rows come out, of one cell of each row that came in
    (pd.DataFrame.transform, {"func": "rank"}),
    (pd.DataFrame.apply, {"func": "rank", "axis": "index"}),
    (pd.DataFrame.fillna, {"method": "ffill"}),
]


@pytest.mark.parametrize(("function", "known"), DOWN, ids=range(len(DOWN)))
def test_functions_of_libraries_that_make_rows_of_others_are_named_however_they_are_written(function, known):
    assert not is_data_independent(FunctionTransformer(function, kw_args=known))


def test_a_report_says_what_to_do_about_a_function_that_may_look_at_all_rows():
    report = privacy_report(make_pipeline(FunctionTransformer(partial(scale)), clone(LAPLACE_SKETCH)).fit(X12_UNIFORM))
    assert report.total is None
    assert "may make a row of other rows" in repr(report) and "a function of your own" in repr(report)


OF_EACH_CELL = [
    (None, {}),
    (np.log1p, {}),
    (expit, {}),
    (np.clip, {"a_min": 0, "a_max": 1}),
    (partial(np.clip, a_min=0, a_max=1), {}),
    (np.nan_to_num, {}),
    (normalize, {}),
    (pd.DataFrame.abs, {}),
    (pd.DataFrame.fillna, {"value": 0}),
    (np.vectorize(abs, otypes=[float]), {}),
    (lambda rows: rows, {}),
]


@pytest.mark.parametrize(("function", "known"), OF_EACH_CELL, ids=range(len(OF_EACH_CELL)))
def test_functions_that_treat_each_row_by_itself_are_known(function, known):
    assert is_data_independent(FunctionTransformer(function, kw_args=known))


# What was fitted before, and arrays that are handed to a step


@pytest.mark.parametrize(
    "inner", [LogisticRegression(), StandardScaler(), AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1])]
)
def test_what_was_fitted_on_rows_and_frozen_is_not_covered_by_a_sketch_before_it(inner):
    """Noisy rows have the columns of rows: a model of the latter, weights without noise and all, takes them as well.

    (1.0, 1e-6) was printed for the whole of a pipeline that holds the exact weights of a logistic regression.
    """
    noisy = DPRandomProjection(8, projection="identity")
    last = () if hasattr(inner, "predict") else (LogisticRegression(),)
    report = privacy_report(make_pipeline(noisy, FrozenEstimator(clone(inner).fit(X12, Y12)), *last).fit(X12, Y12))
    assert report.total is None or report.total.epsilon > 8.0


@pytest.mark.parametrize(
    "holder",
    [
        lambda fitted: VotingClassifier([("a", FrozenEstimator(fitted))]),
        lambda fitted: StackingClassifier([("a", fitted)], cv="prefit"),
        lambda fitted: make_pipeline(SelectFromModel(fitted, prefit=True), LogisticRegression()),
        lambda fitted: GridSearchCV(make_pipeline(FrozenEstimator(fitted)), {}, cv=KFold(3)),
        lambda fitted: BaggingClassifier(
            make_pipeline(FunctionTransformer(), FrozenEstimator(fitted)), 2, random_state=0
        ),
    ],
    ids=range(5),
)
@pytest.mark.parametrize("inner", [LogisticRegression(), AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1])])
def test_what_holds_an_estimator_that_was_fitted_before_is_not_covered_by_a_sketch(holder, inner):
    """Ensembles, selections and searches take models that are fitted as parameters."""
    noisy, fitted = DPRandomProjection(8, projection="identity"), clone(inner).fit(X12, Y12)
    report = privacy_report(make_pipeline(noisy, holder(fitted)).fit(X12, Y12))
    assert report.total is None or report.total.epsilon > 8.0
    assert isinstance(inner, LogisticRegression) or report.private is None or report.private.epsilon > 8.0
    again = privacy_report(make_pipeline(noisy, BaggingClassifier(clone(inner), 2, random_state=0)).fit(X12, Y12))
    assert again.total.epsilon == 1.0  # nothing there is fitted before the sketch


def test_what_a_step_is_handed_at_fit_beside_the_rows_is_at_least_assumed_to_be_none_of_them():
    """Weights that are a column of the rows reach a tree behind a sketch as they are, and it keeps their sum.

    A report cannot see what a fit was handed. But a total that says nothing of it is for rows that differ by the l1
    distance that is printed, and the tree tells these apart each time.
    """
    X, y, sums, reports = np.random.default_rng(0).uniform(size=(60, 6)), np.arange(60) % 2, [], []
    for number in (0.2, 1.2):
        X[0, 0] = number
        model = make_pipeline(DPOPORP(4, epsilon=0.1, random_state=0), DecisionTreeRegressor(max_depth=1))
        model.fit(X, y, decisiontreeregressor__sample_weight=X[:, 0])
        sums.append(model[-1].tree_.weighted_n_node_samples[0])
        reports += [privacy_report(model), privacy_report(model, X, y)]
    assert sums[1] - sums[0] == pytest.approx(1.0)
    for report in reports:
        stated = () if report.total is None else report.total.assumptions + report.total.not_covered
        assert report.total is None or any("weight" in text or "given anything" in text for text in stated)


@pytest.mark.parametrize(
    "behind", [make_pipeline, lambda *steps: make_pipeline(steps[0], FeatureUnion([("f", steps[1])]))]
)
def test_what_goes_on_from_an_earlier_fit_is_not_covered_behind_a_sketch(behind):
    """A forest kept the tree that it had learnt from the rows themselves, beside one of their sketches."""
    X = np.random.default_rng(0).uniform(size=(60, 4))
    forest = RandomTreesEmbedding(2, warm_start=True).fit(X).set_params(n_estimators=4)
    model = behind(DPRandomProjection(projection="identity", epsilon=0.1), forest)
    for report in (privacy_report(model, X), privacy_report(model.fit(X)), privacy_report(clone(model).fit(X))):
        assert report.total is None and any("warm_start=False" in step.remark for step in report.steps)
        assert report.private is not None
    forest.set_params(warm_start=False)
    assert privacy_report(model.fit(X)).total.epsilon == pytest.approx(0.1)


@pytest.mark.parametrize(
    "hand", [lambda X: KMeans(2, init=X[:2], n_init=1), lambda X: GaussianMixture(2, means_init=X[:2])]
)
def test_arrays_that_a_step_behind_a_sketch_is_made_with_are_assumed_to_be_no_rows(hand):
    """As those that a function is handed are: first centres are rows as they are, and stay with the step."""
    X = np.random.default_rng(0).uniform(size=(60, 4))
    model = make_pipeline(DPRandomProjection(projection="identity", epsilon=0.1), hand(X)).fit(X)
    for report in (privacy_report(model), privacy_report(model, X)):
        stated = () if report.total is None else report.total.assumptions
        assert report.total is None or any("given anything" in text for text in stated)


REUSED = {
    "forest": (
        lambda: RandomForestClassifier(5, oob_score=True, random_state=0),
        {"oob_score": False},
        lambda reused: reused.oob_decision_function_,
    ),
    "ridge": (
        lambda: RidgeClassifierCV(store_cv_results=True),
        {"store_cv_results": False},
        lambda reused: reused.cv_results_,
    ),
    "search": (
        lambda: GridSearchCV(LogisticRegression(), {}, cv=KFold(2)),
        {"refit": False},
        lambda reused: reused.best_estimator_.coef_,
    ),
}


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores", "ignore:invalid value")
@pytest.mark.parametrize("kind", REUSED)
def test_what_an_estimator_kept_of_plain_rows_is_not_covered_behind_a_sketch(kind):
    """Predictions for each plain row, or weights, stay in the pipeline, of which the total is that of the sketch."""
    make, options, what = REUSED[kind]
    reused = make().fit(X24_POSITIVE, Y24)
    kept = what(reused).copy()
    model = make_pipeline(seeded_sketch(3), reused.set_params(**options)).fit(X24_POSITIVE, Y24)
    try:
        is_there = np.array_equal(what(model[-1]), kept, equal_nan=True)
    except AttributeError:
        is_there = False
    total = privacy_report(model).total
    # Of attributes of all classes nobody knows which are of the last fit: that none are others is assumed in print.
    said = () if total is None or kind == "search" else total.assumptions
    assert not is_there or total is None or any("keep nothing of earlier fits" in text for text in said)


def test_what_steps_keep_of_earlier_fits_is_assumed_once_and_only_where_some_see_what_was_released():
    voting = VotingClassifier([("a", RidgeClassifier()), ("b", LogisticRegression())])
    models = [make_pipeline(seeded_sketch(3), voting), amp()]
    assumed = [privacy_report(model.fit(X24_POSITIVE, Y24)).total.assumptions for model in models]
    assert [sum("earlier fits" in text for text in texts) for texts in assumed] == [1, 0]


def _forest_of_plain_rows(X, y):
    return RandomForestClassifier(1, bootstrap=False, warm_start=True).fit(X, y).set_params(n_estimators=2)


def _descent_of_plain_rows(X, y):
    return SGDClassifier(warm_start=True, max_iter=1).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fitted", [_forest_of_plain_rows, _descent_of_plain_rows])
@pytest.mark.parametrize("before", [True, False], ids=["plan", "report"])
@pytest.mark.parametrize("inner", [True, False], ids=["inner", "plain"])
def test_what_goes_on_from_a_fit_to_plain_rows_is_no_post_processing(fitted, before, inner):
    """A step with warm_start=True keeps what it learned before: a pipeline fits it as it is, and clones nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(60, 1)), np.arange(60) % 2
    step = fitted(X, y)
    step = make_pipeline(PublicScaler((0, 1)), step) if inner else step
    pipeline = make_pipeline(DPRandomProjection(projection="identity", epsilon=0.1), step)
    report = privacy_report(pipeline, X, y) if before else privacy_report(pipeline.fit(X, y))
    assert report.total is None or "warm_start" in " ".join(report.total.assumptions)


@pytest.mark.filterwarnings("ignore")
def test_a_warm_start_shows_what_was_learned_of_plain_rows():
    """The first tree is that of the plain rows, also after the fit to their sketches: this is why."""
    thresholds = set()
    for value in (1.0, 2.0):
        X, y = np.linspace(-1, 0.5, 60)[:, None], np.zeros(60, int)
        X[0], y[0] = value, 1
        forest = _forest_of_plain_rows(X, y)
        make_pipeline(DPRandomProjection(projection="identity", epsilon=0.1), forest).fit(X, y)
        thresholds.add(float(forest.estimators_[0].tree_.threshold.max()))
    assert thresholds == {0.75, 1.25}


def frozen_behind_a_map(rows):
    front = make_pipeline(sketch_of_8(), PCA(2)).fit(rows)
    scaler = PublicScaler((0, 100), feature_range=(0, 1))
    return make_pipeline(scaler, FrozenEstimator(front), RidgeClassifier()).fit(rows, Y24)


def test_what_was_frozen_before_it_stood_behind_a_map_did_not_see_rows_as_they_leave_that_map(released_projections):
    """Its own fit sketched rows that are 50 apart, and is charged as one of rows that are half apart."""
    a = np.full((24, 8), 50.0)
    b = a.copy()
    b[0, 0] = 100.0  # half apart as rows leave the scaler
    assert_true(released_projections, frozen_behind_a_map, a, b)


@pytest.mark.parametrize("kind", [OneHotEncoder, OrdinalEncoder])
def test_an_encoder_that_is_fitted_again_keeps_what_it_has_counted_before_and_is_not_covered(kind):
    """Of how many rows had a category the second fit left an exact sign, and the report said that all is covered."""
    unknown = {"handle_unknown": "infrequent_if_exist"} if kind is OneHotEncoder else {}
    now = {"handle_unknown": "ignore"} if kind is OneHotEncoder else {}
    model = make_pipeline(kind(min_frequency=5, **unknown), model_with(classes=[0, 1])).fit(WORDS, IS_FLU)
    encoder = model[0].set_params(categories=[["HIV", "cold", "flu"]], min_frequency=None, **now)
    model.fit(WORDS, IS_FLU)
    report = privacy_report(model)
    assert [list(one) for one in encoder.infrequent_categories_] == [["HIV"]]
    assert report.total is None
    assert "a new one" in report.steps[0].remark
    assert privacy_report(clone(model).fit(WORDS, IS_FLU)).total is not None


@pytest.mark.filterwarnings("ignore:No guarantee covers all:skdprp.PrivacyWarning")
@pytest.mark.parametrize("kind", [OneHotEncoder, OrdinalEncoder])
@pytest.mark.parametrize("is_in_a_union", [False, True])
def test_a_step_that_is_fitted_again_in_its_place_keeps_nothing_of_the_fit_before(kind, is_in_a_union, tmp_path):
    """Whether four rows have an illness or five was left in `infrequent_categories_`, under a total of 1.0."""
    found = []
    for n_rare in (4, 5):
        X, y = illnesses(n_rare)
        known = {"handle_unknown": "use_encoded_value", "unknown_value": -1} if kind is OrdinalEncoder else {}
        encoder = kind(min_frequency=5, **known)
        step = FeatureUnion([("ill", encoder)]) if is_in_a_union else encoder
        model = make_pipeline(step, binary_model()).fit(X, y)
        if kind is OneHotEncoder:
            encoder.set_params(handle_unknown="ignore")
        encoder.set_params(categories=[["HIV", "cold", "flu"]], min_frequency=None)
        report = privacy_report(model.fit(X, y))
        save_model(tmp_path / "model.npz", model)
        saved = load_model(tmp_path / "model.npz").estimator[0]
        saved = saved.transformer_list[0][1] if is_in_a_union else saved
        kept = [getattr(one, "infrequent_categories_", [None])[0] for one in (encoder, saved)]
        found.append((report.total is None, [None if one is None else list(one) for one in kept]))
    (is_not_covered, four), (_, five) = found
    assert is_not_covered or four == five


# Functions that warn


def absolute(rows):
    """Return rows without their signs."""
    return np.abs(rows)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (OneHotEncoder(categories=[[0, 1]], sparse_output=False, handle_unknown="ignore", drop="first"), [[7]]),
        (OneHotEncoder(categories=[[0, 1]], sparse_output=False, handle_unknown="warn"), [[7]]),
        (FunctionTransformer(absolute, absolute), [[-1]]),
        (Normalizer("l1"), [[1e308]]),
    ],
)
def test_a_step_that_warns_of_a_row_is_remarked_on(step, rows):
    """A warning of unknown categories, or of functions that are no inverses, is there because of one row."""
    fitted = make_pipeline(step, private_model())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(np.asarray([[1]] * 11 + rows), Y12)
    report = privacy_report(fitted)
    assert not caught or report.total is None or "warn" in report.steps[0].remark


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        ([FunctionTransformer(lambda rows: np.clip(np.log(np.abs(rows)), -9, 9))], 0.0),
        ([PolynomialFeatures(2), FunctionTransformer(np.nan_to_num)], 1e200),
    ],
)
def test_a_function_that_warns_of_a_row_is_remarked_on(steps, value):
    """Warnings of numpy tell of a zero under a logarithm, or of a square that overflows, where one row has it."""
    rows = X12.copy()
    rows[0, 0] = value
    fitted = make_pipeline(*steps, private_model())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(rows, Y12)
    report = privacy_report(fitted)
    assert not caught or report.total is None or "warn" in report.steps[0].remark


# Cells that a function leaves alone, and odd ones in other rows

MASK = [True] * 10 + [False] * 10


@pytest.mark.parametrize(
    "function",
    [
        FunctionTransformer(np.log1p, kw_args={"where": MASK, "out": None}),
        FunctionTransformer(partial(np.log1p, where=MASK, out=None)),
        FunctionTransformer(np.sqrt, kw_args={"where": False, "out": None}),
        FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 9, "where": MASK}),
    ],
    ids=["by keyword", "partial", "nowhere", "clip"],
)
def test_a_function_that_leaves_cells_unwritten_is_no_map_of_each_row(function):
    """What lies in such cells are rows of earlier calls: sketches of rows of 3 had the numbers of 300 private rows."""
    scaler = PublicScaler((-4, 4), feature_range=(-4, 4), fill="middle")
    model = make_pipeline(function, scaler, DPSignOPORP(20, random_state=0)).fit(np.ones((1, 20)))
    assert privacy_report(model).total is None


FUNCTIONS = [
    (np.log1p, {}),
    (np.round, {"decimals": 1}),
    (np.sinc, {}),
    (np.nan_to_num, {}),
    (np.clip, {"a_min": -1, "a_max": 1}),
    (pd.DataFrame.clip, {"lower": -1, "upper": 1}),
]


@pytest.mark.parametrize(("function", "known"), FUNCTIONS, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_odd_cell_moves_other_rows_of_functions_that_are_known(function, known, dtype):
    """Missing, infinite, huge and tiny cells, and zeros of either sign, in tables of few and of many rows."""
    rng = np.random.default_rng(0)
    for n_rows in (2, 5, 33, 200):
        lines = rng.normal(size=(n_rows, 1)) + rng.normal(size=(n_rows, 1)) * np.arange(8)
        for X in (rng.normal(size=(n_rows, 8)), lines, np.repeat(lines[:, :1], 8, axis=1)):
            tables = [X.astype(dtype) for _ in range(9)]
            for table, cell in zip(tables, [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-320, 0.0, -0.0], strict=False):
                with np.errstate(all="ignore"):
                    table[0, 3] = cell
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                frames = map(pd.DataFrame, tables) if function.__module__.startswith("pandas") else tables
                *others, usual = (np.asarray(function(one, **known))[1:] for one in frames)
            assert all(np.array_equal(usual, other, equal_nan=True) for other in others)


# Types that one missing cell changes


@pytest.mark.parametrize("score", [scipy.stats.zscore, scipy.stats.gzscore])
@pytest.mark.parametrize("policy", ["propagate", "omit"])
def test_scores_in_half_precision_have_no_total_as_one_missing_cell_moves_other_rows(score, policy):
    """Rows of float16 are summed in float32 unless a cell of any row is missing."""
    rows = np.abs(np.random.default_rng(0).normal(100, 10, size=(500, 24))).astype(np.float16)
    other = rows.copy()
    other[0, 0] = np.nan
    fill = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
    scores = FunctionTransformer(score, kw_args={"axis": 1, "nan_policy": policy})
    model = make_pipeline(scores, fill, DPOPORP(4, random_state=0)).fit(rows)
    assert privacy_report(model).total is None
    first, second = (model[:-1].transform(some)[1:] for some in (rows, other))
    assert np.array_equal(first, second) == (policy == "propagate")


@pytest.mark.parametrize("kind", ["Int8", "UInt16", "Int64"])
@pytest.mark.parametrize("order", [{}, {"axis": 1, "kind": "stable"}], ids=["default", "stable"])
def test_orders_have_no_total_as_one_missing_answer_changes_that_of_ties_in_other_rows(kind, order):
    """Small whole numbers of polars are floats where one is missing, which numpy may sort by another algorithm."""
    pl = pytest.importorskip("polars")
    answers = np.random.default_rng(0).integers(1, 6, size=(200, 9))
    answers[0] = np.arange(9)
    columns = {f"q{place}": answers[:, place].tolist() for place in range(9)}
    tables = []
    for last in (8, None):
        columns["q8"][0] = last
        tables.append(pl.DataFrame(columns, schema=dict.fromkeys(columns, getattr(pl, kind))))
    model = make_pipeline(FunctionTransformer(np.argsort, kw_args=order or None), DPOPORP(4, random_state=0))
    model.fit(tables[0])
    first, second = (model[:-1].transform(table) for table in tables)
    assert first.dtype == second.dtype
    assert privacy_report(model).total is None
    if order or kind == "Int64":  # which are sorted alike: the report cannot know
        assert np.array_equal(first[1:], second[1:])


def test_maps_of_the_same_table_in_another_order_of_columns_are_assumed_to_be_in_one_order():
    """One year of age more was a hundredth as it left one map, and one as it left the other: delta is 1."""
    table = pd.DataFrame({"age": [0.0, 100.0], "ratio": [0.5, 0.5]})
    scaler = PublicScaler((0, 100), feature_range=(0, 1))
    columns = ColumnTransformer([("s", scaler, [0])], remainder="passthrough", sparse_threshold=0)
    model = make_pipeline(columns, DPOPORP(2, random_state=0))
    orders = ["age", "ratio"], ["ratio", "age"]
    models = [clone(model).fit(table[order]) for order in orders]
    moved = [
        np.abs(np.diff(fitted[:-1].transform(table[order]), axis=0)).sum()
        for fitted, order in zip(models, orders, strict=True)
    ]
    assert moved == [1.0, 100.0]
    total = compose(*(privacy_report(model).total for model in models))
    assert any("the same columns, in one order and of the same types" in text for text in total.assumptions)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_odd_row_moves_the_others_through_functions_of_cells(dtype):
    """Those that a report knows, as one row is moved along by others that leave a condition, or is odd."""
    rng = np.random.default_rng(0)
    functions = [getattr(np, name) for name in ("i0", "sinc", "fix", "nan_to_num", "angle", "round")]
    functions += [one for one in vars(np).values() if isinstance(one, np.ufunc) and one.nargs == 2]
    rows = (6 * rng.normal(size=(35, 3))).astype(dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for function in functions:
            for odd in (0.0, np.nan, np.inf, -1e300, 5e-324, 8.01, 65504.0, 71476.0625):
                others = rows.copy()
                others[5] = odd
                try:
                    made = [np.delete(function(one), 5, axis=0) for one in (rows, others)]
                except TypeError:
                    break
                assert made[0].tobytes() == made[1].tobytes()
