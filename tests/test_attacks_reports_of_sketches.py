"""Attacks on reports on sketches: how often each row was released, and what stands beside its sketch."""

import collections
import contextlib
import copy
import pickle
import random
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pandas as pd
import pytest
import sklearn
from attacks import (
    LAPLACE_SKETCH,
    UNION,
    X6,
    X12,
    X12_UNIFORM,
    X24,
    X24_POSITIVE,
    X24_SMALL,
    Y12,
    Y24,
    amp,
    bits_of_a_coordinate,
    charged,
    is_true_of,
    perhaps_without_delta,
    seeded_sketch,
    sketch,
)
from joblib import Memory
from scipy.special import expit, log_ndtr
from sketches import computed, wide
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier, VotingRegressor
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    LeavePOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPRandomProjection,
    DPScaler,
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    PrivacyLedger,
    PublicScaler,
    compose,
    iDPSignRP,
    privacy_report,
    transform_chunks,
)
from skdprp.guarantee import Adjacency
from skdprp.sketch import _base
from skdprp.sketch._base import BaseSketch
from skdprp.testing import reproducible_noise

NOISY = DPOPORP(4, delta=1e-6)
PLACE12 = {value: place for place, row in enumerate(X12) for value in row}


@pytest.fixture
def sketched_by_value(monkeypatch):
    """How often each row of X12 was sketched, by its first value."""
    counts, release = Counter(), BaseSketch._release
    monkeypatch.setattr(
        BaseSketch, "_release", lambda self, rows, *more: (counts.update(rows[:, 0]), release(self, rows, *more))[1]
    )
    return counts


def voted(kind, final):
    """Return an ensemble of one sketch and a model of it."""
    return kind([("a", make_pipeline(sketch(), final))])


@pytest.fixture
def released_by_place(monkeypatch):
    """How often each row of X12 was released, by its place: sketched, or learned from by a private model."""
    counts = Counter()

    def counting(method, n_before):
        def count(*given):
            places = (PLACE12.get(row[0]) for row in np.asarray(given[n_before]))
            counts.update(place for place in places if place is not None)
            return method(*given)

        return count

    monkeypatch.setattr(BaseSketch, "_release", counting(BaseSketch._release, 1))
    monkeypatch.setattr(AMPClassifier, "_release", counting(AMPClassifier._release, 2))
    return counts


# Ensembles, searches and caches


@pytest.mark.parametrize(
    "step",
    [
        voted(VotingClassifier, LogisticRegression()),
        voted(VotingRegressor, Ridge()),
        make_union(voted(VotingRegressor, Ridge())),
        ColumnTransformer([("all", voted(VotingRegressor, Ridge()), slice(0, 8))], sparse_threshold=0),
        make_pipeline(FunctionTransformer(), voted(VotingRegressor, Ridge())),
    ],
)
def test_an_ensemble_before_another_step_sketches_rows_to_fit_and_again_to_transform(sketched_by_value, step):
    """It has no `fit_transform` of its own: a pipeline fits it, and then has it predict the same rows."""
    report = privacy_report(make_pipeline(step, Ridge()).fit(X12, Y12))
    assert charged(report) >= max(sketched_by_value.values()) == 2


@pytest.mark.parametrize("wrap", [make_pipeline, make_union])
def test_a_search_before_another_step_transforms_the_rows_once_more_after_its_refit(sketched_by_value, wrap):
    """A search has no `fit_transform`: its best pipeline was fitted and then transforms the same rows."""
    search = GridSearchCV(make_pipeline(sketch(), KMeans(2, n_init=1)), {}, cv=KFold(3))
    report = privacy_report(make_pipeline(wrap(search), Ridge()).fit(X12, Y12))
    assert charged(report) >= max(sketched_by_value.values()) == 5


def test_a_frozen_pipeline_before_another_step_has_sketched_rows_before(sketched_by_value):
    """What is frozen was fitted, which sketched the rows, and sketches them again to transform them."""
    frozen = FrozenEstimator(make_pipeline(sketch(), KMeans(2, n_init=1)).fit(X12))
    report = privacy_report(make_pipeline(frozen, LogisticRegression()).fit(X12, Y12))
    assert charged(report) >= max(sketched_by_value.values()) == 2


def test_a_pipeline_with_a_cache_repeats_its_noise_for_equal_rows_only(tmp_path):
    """Two fits on equal rows give one release, on rows of which one moved another: an event of probability 1 or 0."""
    first, again = (make_pipeline(sketch(), Ridge(), memory=str(tmp_path)).fit(X12, Y12) for _ in range(2))
    has_repeated = np.array_equal(first[-1].coef_, again[-1].coef_)
    report = privacy_report(again)
    assert not has_repeated or report.total is None or "memory" in repr(report)


def test_one_against_the_rest_in_a_pipeline_sketches_for_each_class(sketched_by_value):
    """As many releases as classes, and as many are charged."""
    report = privacy_report(
        OneVsRestClassifier(make_pipeline(sketch(), LogisticRegression())).fit(X12, np.arange(12) % 3)
    )
    assert charged(report) == max(sketched_by_value.values()) == 3


def test_a_cached_pipeline_does_not_tell_whether_a_row_has_changed(tmp_path):
    """Pipeline(memory=...) gave the same noise again for the same rows, and other noise for a neighbour."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 6)), np.arange(20) % 2
    steps = DPOPORP(4, random_state=0), LogisticRegression()
    first, second = (make_pipeline(*steps, memory=str(tmp_path)).fit(X, y)[-1].coef_ for _ in range(2))
    assert not np.array_equal(first, second)


def rows_with_names(n_rows=24):
    return np.column_stack([np.arange(n_rows) / n_rows, np.random.default_rng(0).uniform(-1, 1, (n_rows, 3))])


def grid_searched(*steps, **options):
    model = make_pipeline(*steps, LogisticRegression())
    return GridSearchCV(model, {"logisticregression__C": [1.0, 2.0]}, cv=KFold(2), **options)


@pytest.mark.parametrize(
    ("model", "n_releases"),
    [
        (
            VotingClassifier(
                [("a", grid_searched(DPOPORP(3))), ("b", make_pipeline(DPOPORP(3), LogisticRegression()))]
            ),
            6,
        ),
        (OneVsRestClassifier(grid_searched(DPOPORP(3))), 15),
        (make_pipeline(VotingClassifier([("a", grid_searched(DPOPORP(3)))]), LogisticRegression()), 6),
        (grid_searched(make_union(DPOPORP(3), DPSignOPORP(3)), return_train_score=True), 14),
        (grid_searched(ColumnTransformer([("a", DPOPORP(2), [0, 1]), ("b", DPOPORP(2), [0, 2])])), 10),
    ],
)
def test_searches_within_ensembles_are_charged_for_the_row_that_was_sketched_most(model, n_releases, monkeypatch):
    """Rows are known by their first number wherever they are sketched: in folds, refits, and what passes them on."""
    X, counts, release = rows_with_names(), collections.Counter(), DPOPORP._release

    def counted(sketch, rows, dtype):
        counts.update(np.asarray(rows)[:, 0].tolist())
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", counted)
    fitted = clone(model).fit(X, np.arange(24) % 3)
    charged = sum(step.releases for step in privacy_report(fitted).steps)
    assert charged == max(counts.values()) == n_releases


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (make_pipeline(DPOPORP(3), LogisticRegression()), {"logisticregression__C": [1.0, 2.0]}),
        (
            FixedThresholdClassifier(AMPClassifier(classes=[0, 1]), response_method="predict_proba"),
            {"threshold": [-1, 2]},
        ),
    ],
    ids=["sketch", "threshold"],
)
def test_the_winner_of_a_search_is_not_reported_as_if_nobody_had_searched(model, grid):
    """Of 21 labels 1 and 20 labels 0, or one of them changed, the better threshold is -1 or 2, for sure.

    The report on `best_estimator_` stated epsilon = 1.0, listed nothing that is not covered, and assumed nothing of how
    the parameters were chosen. Of the sketch a row had been released seven times, at 2.62 in all.
    """
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (41, 3)), np.arange(41) % 2 == 0
    search = GridSearchCV(clone(model), grid, cv=KFold(3)).fit(X, y.astype(int))
    total = privacy_report(search.best_estimator_).total
    assert total is None or any("chosen" in text and "search" in text for text in total.assumptions)


VOTED = VotingClassifier([("a", make_pipeline(NOISY, RidgeClassifier()))])


@pytest.mark.parametrize(
    "model",
    [
        VOTED,
        make_pipeline(VOTED),
        make_pipeline(FunctionTransformer(), VOTED),
        make_pipeline(GridSearchCV(make_pipeline(NOISY, PCA(1)), {}, cv=KFold(3))),
    ],
)
def test_fit_transform_is_charged_for_all_that_it_releases(model, released_by_place):
    """An ensemble, or a search, that comes last sketches rows to fit and again to transform: one of them was charged.

    Of a sketch, and of pipelines and unions of sketches, `fit_transform` is one release.
    """
    model = clone(model)
    with PrivacyLedger() as ledger:
        model.fit_transform(X12, Y12)
    report = privacy_report(model)
    assert len(ledger.entries) >= max(released_by_place.values())
    said = report.private is None or any("fit_transform" in text for text in report.private.assumptions)
    assert said or sum(step.releases for step in report.steps) >= max(released_by_place.values())


def test_no_cache_of_joblib_gives_a_release_again(tmp_path):
    """Methods, functions and sketches as arguments, for equal rows: a second release is one."""
    memory, sketch = Memory(tmp_path, verbose=0), DPOPORP(4, random_state=0).fit(X24_SMALL)
    for again in (
        lambda: memory.cache(sketch.transform)(X24_SMALL),
        lambda: memory.cache(DPOPORP.transform)(sketch, X24_SMALL),
        lambda: memory.cache(transform_chunks)(sketch, [X24_SMALL]),
    ):
        assert not np.array_equal(again(), again())


class SketchOfTwoStrengths(DPOPORP):
    """A sketch with another constructor."""

    def __init__(self, *, is_strict=True):
        self.is_strict = is_strict
        super().__init__(4, epsilon=0.1 if is_strict else 8.0, delta=1e-6)


@pytest.mark.parametrize("grid", [[True], [False, True], [True, False]])
def test_a_search_over_what_the_constructor_of_a_sketch_reads_is_charged_for_its_epsilon(grid):
    """All fits are of 8.0, and so is the best, whatever the others say of themselves."""
    model = make_pipeline(SketchOfTwoStrengths(is_strict=False), LogisticRegression())
    grid = {"sketchoftwostrengths__is_strict": grid}
    search = GridSearchCV(model, grid, cv=KFold(3), refit=lambda results: 0).fit(X12, Y12)
    private = privacy_report(search).private
    assert private is None or private.epsilon >= 8.0


# Columns, twice or beside


@pytest.mark.parametrize("columns", [[0] * 5, [0, 1, 0, 1, 0], [0, -3, 0, -3, 0]])
@pytest.mark.parametrize("sketch", [DPOPORP(5, noise="laplace"), DPSignOPORP(5), DPOPORP(5)], ids=repr)
def test_columns_that_are_taken_more_than_once_are_no_change_of_one_coordinate(sketch, columns):
    """A column transformer may give a sketch a column five times: 5.0 was lost where the report said 1.0.

    The report named the distance of the rows of the table, and not of those that reach the sketch.
    """
    transformer = ColumnTransformer([("sketch", clone(sketch), columns)]).fit(np.eye(3))
    fitted, total = transformer.named_transformers_["sketch"], privacy_report(transformer).total
    rows = np.array([[0.0, 0.0, 0.0], [0.999, 0.0, 0.0]])
    moved = abs(np.diff(computed(fitted, rows[:, columns]), axis=0)[0])
    covered = moved.max() <= 1.0 and moved.sum() <= 1.0
    assert covered or total is None or total.adjacency.after or total.epsilon > 1.0 or total.adjacency.bound < 0.4


@pytest.mark.parametrize("columns", [[0, 0], [0, -3], (0, 0), np.array([2, 1, 2])], ids=repr)
@pytest.mark.parametrize("branch", [DPOPORP(1), make_pipeline(FunctionTransformer(), DPSignRP(1))], ids=repr)
def test_reports_name_the_branch_that_is_given_a_column_twice(branch, columns):
    """Whatever else is in the branch: no total, also of the private steps alone, and what to do."""
    report = privacy_report(ColumnTransformer([("twice", clone(branch), columns)]).fit(np.eye(3)))
    assert report.total is None and report.private is None
    assert report.not_covered[0].startswith("columntransformer.twice is given a column several times")


@pytest.mark.parametrize("columns", [[0, 1], [-1, 0], slice(0, 2), slice("a", "b"), [True, True, False], ["a", "c"]])
def test_reports_charge_a_column_in_two_branches_twice(columns):
    """Each branch is given it once, at the distance that its guarantee is for."""
    X, sketch = pd.DataFrame(np.eye(3), columns=list("abc")), DPOPORP(1, noise="laplace")
    both = ColumnTransformer([("first", sketch, columns), ("second", clone(sketch), ["a"])]).fit(X)
    total = privacy_report(both).total
    assert (total.epsilon, total.n_releases) == (2.0, 2)


@pytest.mark.parametrize(
    "joined",
    [
        ColumnTransformer([("s", DPOPORP(2), [0, 1])], remainder="passthrough", sparse_threshold=0),
        ColumnTransformer([("s", DPOPORP(2), [0, 1]), ("r", PublicScaler((-9, 9)), [2, 3])], sparse_threshold=0),
        make_union(DPOPORP(2), FunctionTransformer()),
        make_pipeline(make_union(DPOPORP(2), FunctionTransformer()), FunctionTransformer()),
    ],
    ids=["remainder", "scaled", "union", "pipeline"],
)
def test_columns_that_leave_beside_a_sketch_have_no_total(joined):
    """A sketch of some columns joined with others as they are: the report printed (1.0, 1e-06) for the whole.

    Nothing was listed as not covered, and transform gives these columns out; the guide tells how to join them.
    """
    rows = np.random.default_rng(0).uniform(-4, 4, (20, 4))
    released = clone(joined).fit(rows).transform(rows)
    assert np.allclose(np.corrcoef(released[:, -1], rows[:, -1]), 1.0)
    assert privacy_report(clone(joined).fit(rows)).total is None


@pytest.mark.parametrize("columns", [[0, 1, -4], [True, True, False, False]])
def test_columns_by_places_from_the_end_and_by_masks_are_those_that_are_charged(columns):
    model = ColumnTransformer([("a", LAPLACE_SKETCH, columns), ("b", LAPLACE_SKETCH, [2, 3])]).fit(X12_UNIFORM)
    total = privacy_report(model).total
    assert (total is None) == (-4 in columns)
    assert total is None or total.epsilon == 2.0


@pytest.mark.parametrize("sketch", [DPOPORP(2), DPSignRP(2), iDPSignRP(2)], ids=repr)
@pytest.mark.parametrize("globally", [False, True])
def test_names_of_rows_do_not_leave_with_their_sketches(sketch, globally):
    """A released frame has the index of the rows, which may be names of people, unless the guarantee says so."""
    rows = pd.DataFrame(np.eye(3), columns=list("abc"), index=["alice", "bob", "carol"])
    with sklearn.config_context(transform_output="pandas" if globally else "default"):
        sketch = clone(sketch) if globally else clone(sketch).set_output(transform="pandas")
        released = sketch.fit(rows).transform(rows)
    told = any("index" in fact for fact in sketch.guarantee_.not_covered)
    assert told or not set(released.index) & set(rows.index)


@pytest.mark.parametrize(
    "names_rows",
    [
        make_union(sketch(), make_pipeline(sketch(), FunctionTransformer(np.asarray))),
        voted(VotingClassifier, LogisticRegression()),
    ],
    ids=["union", "ensemble"],
)
def test_a_report_says_where_the_index_of_a_frame_leaves_beside_sketches(names_rows):
    """Sketches number their rows from 0; what scikit-learn makes of them side by side has the index of X again."""
    rows = pd.DataFrame(X12, index=[f"person {i}" for i in range(len(X12))]).add_prefix("x")
    fitted = clone(names_rows).set_output(transform="pandas").fit(rows, Y12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # numpy returns no frame
        shows_names = list(fitted.transform(rows).index) == list(rows.index)
    report = privacy_report(fitted)
    assert not shows_names or report.total is None or "index" in str(report.total)


ORDERS = {
    "integers": lambda order: order,
    "floats": lambda order: [float(place) for place in order],
    "small integers": lambda order: np.array(order, dtype=np.uint8),
    "nullable": lambda order: pd.array(order, dtype="Int64"),
    "categories": pd.Categorical,
    "decimals": lambda order: [Decimal(place) for place in order],
    "complex": lambda order: [complex(place) for place in order],
    "objects": lambda order: pd.Index(order, dtype=object),
    "truth values": lambda order: [bool(place) for place in order] if len(order) == 2 else order,
    "texts": lambda order: [str(place) for place in order],
    "levels": lambda order: pd.MultiIndex.from_arrays([order]),
    "times": lambda order: pd.to_datetime(order, unit="ns"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ORDERS)
def test_no_sketch_is_joined_to_the_columns_of_another_row_by_an_index_of_any_type(kind):
    """Numbers that are equal to places, in whatever type, are refused by the sketch, and others by the transformer."""
    for n in (2, 6):
        table = pd.DataFrame({"a": np.arange(n) * 1.0, "b": np.arange(n) * 1.0}, index=ORDERS[kind]([*range(1, n), 0]))
        columns = ColumnTransformer([("s", seeded_sketch(1), ["b"]), ("p", "passthrough", ["a"])])
        with pytest.raises(ValueError, match=r"another order|inconsistent number of samples"):
            columns.set_output(transform="pandas").fit_transform(table)


def test_sketches_stand_beside_other_columns_of_their_own_rows():
    """A sketch numbers its rows from 0, and pandas joins branches by the index: shuffled rows met others' sketches."""
    order = np.random.default_rng(0).permutation(len(X24))
    frame = pd.DataFrame(X24, columns=list("abcdef"), index=order)
    sketch = DPRandomProjection(projection="identity", epsilon=10.0, delta=1e-6, max_change=1e-6)
    columns = ColumnTransformer([("plain", "passthrough", ["a"]), ("sketch", sketch, ["a"])])
    try:
        joined = columns.set_output(transform="pandas").fit_transform(frame).to_numpy()
    except ValueError:
        return
    assert np.allclose(joined[:, 0], X24[:, 0]) and np.allclose(joined[:, 1], X24[:, 0], atol=1e-3)


# Searches over columns and maps


@pytest.mark.parametrize("name", ["remainder", "b"])
def test_candidates_that_drop_columns_and_that_pass_them_on_are_not_of_one_map(name, released_rows):
    """Rows that are alike where columns are dropped differ by anything where they are passed on, in the same sum."""
    b = X24_POSITIVE.copy()
    b[0, {"remainder": 3, "b": 2}[name]] += 1e4
    columns = ColumnTransformer([("a", PublicScaler((0, 1)), [0, 1]), ("b", "drop", [2])], sparse_threshold=0)
    model = make_pipeline(columns, seeded_sketch(), LogisticRegression())
    grid = {f"columntransformer__{name}": ["drop", "passthrough"]}
    scoring = make_scorer(lambda y, predicted: 0.0)  # of equal candidates the first is the best
    assert is_true_of(
        released_rows,
        lambda rows: GridSearchCV(model, grid, cv=KFold(2), scoring=scoring).fit(rows.copy(), Y24),
        X24_POSITIVE,
        b,
    )


def some_columns(**options):
    branches = [("a", PublicScaler((0, 1)), [0, 1]), ("b", "drop", [2])]
    return ColumnTransformer(branches, sparse_threshold=0, **options)


OF_OTHER_COLUMNS = {
    "nested": (
        make_pipeline(ColumnTransformer([("c", some_columns(), [0, 1, 2])], sparse_threshold=0), seeded_sketch()),
        "pipeline__columntransformer__c__b",
        ["drop", "passthrough"],
    ),
    "whole lists": (
        make_pipeline(ColumnTransformer([("a", "passthrough", [0, 1])], sparse_threshold=0), seeded_sketch()),
        "pipeline__columntransformer__transformers",
        [[("a", "passthrough", [0, 1]), ("b", word, [2])] for word in ("drop", "passthrough")],
    ),
    "a name with a point": (
        Pipeline([("c", some_columns()), ("s", seeded_sketch()), ("c.b", Normalizer())]),
        "pipeline__c__b",
        ["drop", "passthrough"],
    ),
}


@pytest.mark.parametrize("kind", OF_OTHER_COLUMNS)
def test_candidates_of_other_columns_have_no_sum_wherever_the_words_stand(kind, released_rows):
    """In a branch of a branch, in a list, or where a step behind the sketch has the name of the branch."""
    b = X24_POSITIVE.copy()
    b[0, 2] += 1e4
    front, name, values = OF_OTHER_COLUMNS[kind]
    model, scoring = make_pipeline(front, LogisticRegression()), make_scorer(lambda y, predicted: 0.0)
    assert is_true_of(
        released_rows,
        lambda rows: GridSearchCV(model, {name: values}, cv=KFold(2), scoring=scoring).fit(rows.copy(), Y24),
        X24_POSITIVE,
        b,
    )


@pytest.mark.parametrize("word", ["drop", "passthrough"])
def test_a_search_whose_candidates_all_pass_the_same_columns_on_is_summed(word):
    model = make_pipeline(some_columns(remainder=word), seeded_sketch(), LogisticRegression())
    search = GridSearchCV(model, {"columntransformer__b": [word], "dpoporp__epsilon": [0.5, 1.0]}, cv=KFold(2))
    report = privacy_report(search.fit(X24_POSITIVE, Y24))
    assert report.private is not None and sum(step.releases for step in report.steps) == 5


@pytest.mark.parametrize("kind", ["sketch", "model"])
def test_the_best_estimator_of_an_earlier_fit_says_nothing_of_a_search_without_a_refit(kind):
    """After a fit to public rows at .1, a fit to these rows at 50 without a refit is reported as .17 and .2."""
    made = {"sketch": make_pipeline(seeded_sketch(epsilon=0.1), LogisticRegression()), "model": amp(epsilon=0.1)}[kind]
    search = GridSearchCV(made, {}, cv=KFold(2)).fit(X24_POSITIVE + 1, Y24)
    name = {"sketch": "estimator__dpoporp__epsilon", "model": "estimator__epsilon"}[kind]
    search.set_params(refit=False, **{name: 50.0}).fit(X24_POSITIVE, Y24)
    private = privacy_report(search).private
    assert private is None or private.epsilon >= 50


def searched_at_random(choose):
    """A search over maps before a sketch, and over the sketch."""
    grids = {
        "normalizer": (Normalizer(), {"norm": ["l1", "l2"], "copy": [True, False]}),
        "publicscaler": (PublicScaler((0, 1)), {"bounds": [(0, 1), (0, 2)], "fill": [0, 0.5]}),
        "polynomialfeatures": (PolynomialFeatures(2), {"interaction_only": [True, False], "order": ["C", "F"]}),
        "functiontransformer": (
            FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 0.1}),
            {"kw_args": [{"a_min": 0, "a_max": 0.1}, {"a_min": 0, "a_max": 0.2}]},
        ),
        "featureunion": (
            make_union(PublicScaler((0, 1)), Normalizer()),
            {"transformer_weights": [None, {"normalizer": 2.0}], "normalizer__norm": ["l1", "l2"]},
        ),
        "columntransformer": (
            ColumnTransformer([("a", PublicScaler((0, 1)), [0, 1]), ("b", Normalizer(), [1, 2])], sparse_threshold=0),
            {"transformer_weights": [None, {"a": 2.0}], "b__norm": ["l1", "l2"], "sparse_threshold": [0, 0.0]},
        ),
    }
    names = choose.sample(sorted(grids), k=2)
    grid = {"dpoporp__n_components": [2, 3]} if choose.random() < 0.5 else {}
    for name in names:
        if choose.random() < 0.5:
            parameter = choose.choice(sorted(grids[name][1]))
            grid[f"{name}__{parameter}"] = grids[name][1][parameter]
    model = make_pipeline(*(clone(grids[name][0]) for name in names), seeded_sketch(), LogisticRegression())
    cv = choose.choice([KFold(2), ShuffleSplit(2, random_state=0)])
    return GridSearchCV(model, grid, cv=cv, return_train_score=choose.choice([True, False]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(5))
def test_rows_reach_the_sketches_of_a_search_with_a_sum_by_the_map_of_its_refit(seed, released_rows):
    """Of 222 searches with a sum, over any parameters of maps, 3 had rows by another map: those of dropped columns."""
    choose = random.Random(seed)
    for _ in range(3):
        released_rows.clear()
        search = searched_at_random(choose).fit(X24_POSITIVE.copy(), Y24)
        if privacy_report(search).private is not None:
            last = released_rows[-1][1]
            for _, rows, _ in released_rows:
                assert rows.shape[1] == last.shape[1]
                assert np.abs(rows[:, None] - last[None]).max(axis=2).min(axis=1).max() < 1e-9


# Draws of the projection


@wide
def test_the_sketches_of_a_search_are_charged_for_the_projections_that_they_had(monkeypatch):
    """The candidates were charged for the projection of another seed, whose features reach five bits and not three.

    The fewer bits share epsilon, the more likely is a loss near it.
    """
    X, y, recorded = np.random.default_rng(0).normal(size=(20, 40)), np.arange(20) % 2, []
    sketch = bits_of_a_coordinate(density=0.1, random_state=4)
    reached = [bits_of_a_coordinate(density=0.1, random_state=i).fit(X).projection_.n_reached() for i in (0, 4)]
    assert reached[0] > reached[1]
    release = BaseSketch._release
    monkeypatch.setattr(BaseSketch, "_release", lambda *args: recorded.append(args[0].guarantee_) or release(*args))
    report = privacy_report(GridSearchCV(make_pipeline(sketch, LogisticRegression()), {}, cv=KFold(2)).fit(X, y))
    assert len(recorded) == 5  # of which a row is in three
    stated = report.private
    assert stated is None or stated.profile(6.0) >= compose(*recorded[:3]).profile(6.0) * (1 - 1e-9)


@wide
def test_folds_that_had_a_delta_are_not_reported_without_one(monkeypatch):
    """Each fit draws a projection: that of the refit, and of the seed that was asked, need no delta, others did."""
    X, y, recorded = np.random.default_rng(0).normal(size=(20, 23)), np.arange(20) % 2, []
    release = BaseSketch._release
    monkeypatch.setattr(BaseSketch, "_release", lambda *args: recorded.append(args[0].guarantee_) or release(*args))
    for _ in range(6):
        recorded.clear()
        search = GridSearchCV(make_pipeline(perhaps_without_delta(), LogisticRegression()), {}, cv=KFold(3))
        stated = privacy_report(search.fit(X, y)).private
        assert stated is None or stated.delta >= max(guarantee.delta for guarantee in recorded)


def drawn_anew(sketch, X, told):
    """The first fits of a sketch by each of many states, and the second ones, by what they tell: (first, second)."""
    for seed in range(200):
        one = clone(sketch).set_params(random_state=np.random.RandomState(seed))
        pair = tuple(told(one.fit(X).guarantee_) for _ in range(2))
        yield np.random.RandomState(seed), pair


@wide
def test_a_sketch_that_stands_twice_in_a_union_is_charged_for_both_of_its_projections():
    """A union clones nothing: the second W was zero, and so a loss of 0 was charged for the first one, too."""
    X, sketch = np.ones((5, 4)), DPRandomProjection(2, projection="very_sparse", density=0.05)
    draws = drawn_anew(sketch, X, lambda guarantee: guarantee.profile(0.0))
    state, (first, _) = next(draw for draw in draws if draw[1][0] > 2 * draw[1][1])
    sketch.set_params(random_state=state)
    union = make_union(sketch, sketch)
    union.fit_transform(X)
    assert (stated := privacy_report(union).private) is None or stated.profile(0.0) >= first


@wide
def test_a_sketch_fitted_again_does_not_hide_what_only_its_last_projection_does():
    """Fitted, released and fitted again with the same parameters: the report had the distance of the other W."""
    X, sketch = np.ones((5, 40)), bits_of_a_coordinate(epsilon=1.0)
    draws = drawn_anew(sketch, X, lambda guarantee: guarantee.hides)
    state, (first, second) = next(draw for draw in draws if draw[1][0] < draw[1][1])
    sketch.set_params(random_state=state).fit_transform(X)
    assert privacy_report(sketch).private.hides == first
    assert sketch.fit(X).guarantee_.hides == second > first
    stated = privacy_report(sketch).private
    assert stated is None or stated.hides is None or stated.hides <= first


# Fits again


def test_a_report_is_true_of_all_that_one_sketch_and_its_copies_released():
    """Whatever they went through: other parameters, fits that fail, seeds, copies, pickles and chunks."""
    rng, n_totals = random.Random(0), 0
    for _ in range(150):
        sketch, released = rng.choice([DPOPORP(3), DPSignOPORP(3), DPRandomProjection(3, noise="laplace")]), []
        sketch = clone(sketch)
        with PrivacyLedger() as ledger:
            for step in rng.choices(range(9), k=rng.randrange(2, 9)):
                with suppress(ValueError):
                    if step < 2:
                        sketch.fit(X6)
                    elif step == 2:
                        sketch.set_params(**rng.choice([{"epsilon": 5.0}, {"epsilon": 1.0}, {"max_change": 2.0}]))
                    elif step == 3:
                        sketch.fit(np.full((2, 5), np.nan))
                    elif step == 4:
                        sketch = rng.choice([copy.copy, copy.deepcopy])(sketch)
                    elif step == 5:
                        sketch = pickle.loads(pickle.dumps(sketch))
                    elif step == 6:
                        with reproducible_noise(0):
                            sketch.transform(X6)
                    elif step == 7:
                        transform_chunks(sketch, [X6[:3], X6[3:]])
                    else:
                        sketch.transform(X6)
            released = [entry.guarantee for entry in ledger.entries]
        if not hasattr(sketch, "guarantee_") or (total := privacy_report(sketch).total) is None:
            continue
        n_totals += 1
        for guarantee in released:
            assert guarantee.epsilon <= total.epsilon and guarantee.delta <= total.delta
            assert guarantee.adjacency.bound >= total.adjacency.bound and guarantee.seeded <= total.seeded
    assert n_totals > 30


@pytest.mark.filterwarnings("ignore")
def test_rows_are_in_no_more_releases_than_the_report_on_a_search_counts():
    """Counted by an entry of the ledger for each call: of one row, no more than the report says of all rows."""
    rng = random.Random(0)
    rows, y = np.random.default_rng(0).normal(size=(24, 6)), np.arange(24) % 2
    for _ in range(8):
        sketch = rng.choice([DPOPORP(4, epsilon=30.0), FeatureUnion([("a", DPOPORP(3)), ("b", DPSignOPORP(3))])])
        search = GridSearchCV(
            make_pipeline(sketch, LogisticRegression()),
            {},
            cv=rng.choice([KFold(3), ShuffleSplit(2), RepeatedKFold(n_splits=2, n_repeats=2)]),
            scoring=rng.choice([None, "accuracy", ["accuracy", "roc_auc"]]),
            refit="accuracy",
            return_train_score=rng.random() < 0.5,
        )
        with PrivacyLedger() as ledger:
            search.fit(rows, y)
        report, entries = privacy_report(search), Counter(entry.estimator for entry in ledger.entries)
        for step in report.steps:
            assert step.calls >= entries[step.estimator] * (step.releases > 0)
        assert report.total is None and report.private is not None


def test_a_second_fit_does_not_heal_what_was_released_before():
    """An audit refuted the sketch of a pipeline; fitted once more with the same parameters it had a total again."""
    pipeline = make_pipeline(clone(NOISY), RidgeClassifier()).fit(X12, Y12)
    pipeline[0].guarantee_ = replace(pipeline[0].guarantee_, audited_epsilon=3.0)
    assert privacy_report(pipeline).total is None
    pipeline[0].fit(X12[:1])
    assert privacy_report(pipeline).total is None


def test_a_violation_that_follows_a_failed_fit_is_not_forgotten_by_the_next():
    """The fit that failed had taken down what was stated before the audit, and the next took down nothing."""
    sketch = DPOPORP(3, delta=1e-6, random_state=0).fit(X24)
    with pytest.raises(ValueError):
        sketch.fit([[np.nan] * 6])
    sketch.guarantee_ = replace(sketch.guarantee_, audited_epsilon=9.0)
    sketch.fit(X24)
    assert privacy_report(make_pipeline(sketch, LogisticRegression())).total is None
    again = DPOPORP(3, delta=1e-6, random_state=0).fit(X24)
    with pytest.raises(ValueError):
        again.fit([[np.nan] * 6])
    assert not again.fit(X24)._was_fitted_otherwise


# Steps of one's own


class Seen(list):
    """What reaches each release, and numbers that are the same whatever that is."""

    def release(self, rows, n_columns):
        """Note the rows, and return numbers that they do not decide."""
        self.append(np.array(rows, dtype=np.float64))
        return np.random.default_rng(len(self)).normal(size=(len(rows), n_columns))


SEEN = Seen()


class OwnRows(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A step of one's own that releases rows, under the guarantee that it is told."""

    def __init__(self, relation="l1"):
        self.relation = relation

    def fit(self, X, y=None):
        """State the guarantee."""
        adjacency = Adjacency("l1", 1.0) if self.relation == "l1" else Adjacency("replace_one")
        self.guarantee_ = PrivacyGuarantee(1.0, 0.0, adjacency=adjacency, per="transform")
        return self

    def transform(self, X):
        """Release rows."""
        return SEEN.release(X, 3)


def models_of_ones_own(rng):
    """Yield composites of sketches and steps of one's own, any of which may stand behind another."""

    def step(depth):
        kinds = [OwnRows(), OwnRows("replace_one"), DPOPORP(3, random_state=0), PublicScaler((-1, 1)), Normalizer()]
        choice = rng.integers(8) if depth else rng.integers(5)
        if choice < 5:
            return kinds[choice]
        if choice == 5:
            return FeatureUnion([("a", step(depth - 1)), ("b", step(depth - 1))])
        if choice == 6:
            return make_pipeline(step(depth - 1), step(depth - 1))
        return VotingClassifier([("a", make_pipeline(step(depth - 1), GaussianNB()))])

    while True:
        yield make_pipeline(*(step(2) for _ in range(rng.integers(1, 4))), LogisticRegression())


@pytest.mark.parametrize("seed", range(2))
def test_steps_of_ones_own_and_sketches_release_rows_as_often_as_is_charged(seed, monkeypatch):
    """Calls that see other rows of another table are releases; what is learnt behind them is the same."""
    monkeypatch.setattr(BaseSketch, "_release", lambda sketch, X, dtype: SEEN.release(X, sketch._n_features_out))
    monkeypatch.setattr("skdprp.sketch._base.warn_at_caller", lambda message, category: None)  # of few columns
    rng = np.random.default_rng(seed)
    tables, n_totals = rng.uniform(-1, 1, (2, 24, 4)), 0
    for model, _ in zip(models_of_ones_own(rng), range(24), strict=False):
        calls, fitted = [], []
        for rows in tables:
            SEEN.clear()
            with reproducible_noise(0):
                fitted.append(copy.deepcopy(model).fit(rows, Y24))
            calls.append(list(SEEN))
        report = privacy_report(fitted[0])
        if report.private is not None:
            released = sum(not np.array_equal(one, other) for one, other in zip(*calls, strict=True))
            assert released <= sum(line.calls for line in report.steps), model
        if report.total is not None:
            n_totals += 1
            assert np.array_equal(fitted[0][-1].coef_, fitted[1][-1].coef_), model
    assert n_totals > 5


def test_sketches_behind_a_private_scaler_have_no_total_and_rows_of_ones_own_do():
    """Neighbours at a distance move with the scaler, those with another row do not."""
    X = np.random.default_rng(0).uniform(-1, 1, (24, 4))
    scaler = DPScaler(bounds=(-1, 1), n_cells=4, delta=1e-6)
    assert privacy_report(make_pipeline(scaler, DPOPORP(3), GaussianNB()).fit(X, Y24)).total is None
    total = privacy_report(make_pipeline(scaler, OwnRows("replace_one"), GaussianNB()).fit(X, Y24)).total
    assert total.epsilon > 1 and total.given == "all labels"


# Random composites


def random_map(rng, depth):
    """Sketches and public maps, in pipelines, unions, ensembles and searches at random, which pass rows on."""
    kind = rng.integers(7) if depth else rng.integers(2)
    if kind == 0:
        return sketch()
    if kind == 1:
        return FunctionTransformer()
    parts = [random_map(rng, depth - 1) for _ in range(2)]
    if kind in (2, 3):
        return (make_pipeline, make_union)[kind - 2](*parts)
    if kind == 4:
        return ColumnTransformer([("a", parts[0], slice(0, 2)), ("b", parts[1], slice(0, 1))], sparse_threshold=0)
    if kind == 5:
        members = [(name, make_pipeline(part, Ridge())) for name, part in zip("ab", parts, strict=True)]
        return VotingRegressor(members)
    cv = (KFold(3), ShuffleSplit(2), RepeatedKFold(n_splits=2, n_repeats=2))[rng.integers(3)]
    scored = make_pipeline(parts[0], KMeans(2, n_init=1))
    return GridSearchCV(scored, {"kmeans__n_init": [1, 2]}, cv=cv, return_train_score=bool(rng.integers(2)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_no_row_is_sketched_more_often_than_a_report_of_random_steps_says(sketched_by_value):
    """Compositions of compositions, of which about half have a sum: none of a thousand was an undercount."""
    rng, known = np.random.default_rng(0), 0
    for _ in range(12):
        sketched_by_value.clear()
        try:
            fitted = make_pipeline(random_map(rng, 3), random_map(rng, 2), LogisticRegression()).fit(X12, Y12)
        except ValueError:  # steps that do not fit together
            continue
        report = privacy_report(fitted)
        counts = max((count for value, count in sketched_by_value.items() if value in X12[:, 0]), default=0)
        assert charged(report) >= counts
        known += counts > 0 and report.private is not None
    assert known > 3


def composite_of_kinds(choose, depth):
    """A model with sketches at random places."""

    def sketch():
        kind = choose.choice([DPOPORP, DPSignOPORP, DPSignRP])
        return kind(4, epsilon=choose.uniform(0.1, 2.0), random_state=choose.choice([None, 0]))

    def front():
        return choose.choice(
            [
                sketch,
                lambda: FeatureUnion([("a", sketch()), ("b", sketch())]),
                lambda: ColumnTransformer([("a", sketch(), [0, 1]), ("b", sketch(), [1, 2])], sparse_threshold=0),
            ]
        )()

    if depth and choose.random() < 0.6:
        first, second = composite_of_kinds(choose, depth - 1), composite_of_kinds(choose, depth - 1)
        return choose.choice(
            [
                lambda: VotingClassifier([("a", first), ("b", second)]),
                lambda: OneVsRestClassifier(first),
                lambda: make_pipeline(VotingClassifier([("a", first), ("b", second)]), LogisticRegression()),
            ]
        )()
    return make_pipeline(FunctionTransformer(), front(), LogisticRegression())


@pytest.mark.parametrize("seed", range(10))
def test_reports_count_each_release(seed, monkeypatch):
    """Before a fit and after it, a report has at least as many releases of each sketch as there were."""
    released, release = Counter(), BaseSketch._release

    def counted(sketch, X, dtype):
        released[sketch.guarantee_.epsilon] += 1
        return release(sketch, X, dtype)

    monkeypatch.setattr(BaseSketch, "_release", counted)
    X, y = np.random.default_rng(0).normal(size=(30, 6)), np.arange(30) % 3
    model, reports = composite_of_kinds(random.Random(seed), 2), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(TypeError, ValueError):  # which has no price before a fit
            reports.append(privacy_report(model, X, y))
        assert not released
        reports.append(privacy_report(model.fit(X, y)))
    for report in reports:
        if report.private is None:
            continue
        stated = Counter()
        for step in report.steps:
            if step.guarantee is not None:
                stated[step.guarantee.epsilon] += step.releases
        assert all(stated[epsilon] >= count for epsilon, count in released.items())


def composite_of_epsilons(choose, depth, new):
    """A model with sketches at random places, each with an epsilon of its own."""

    def front(depth):
        further = [
            new,
            new,
            lambda: FunctionTransformer(),
            lambda: PublicScaler((-9, 9), feature_range=(-9, 9)),
            lambda: make_union(front(depth - 1), front(depth - 1)),
            lambda: ColumnTransformer(
                [("a", front(depth - 1), [0, 1]), ("b", front(depth - 1), [0, 2, 3])], sparse_threshold=0
            ),
            lambda: make_pipeline(front(depth - 1), front(depth - 1)),
            lambda: FrozenEstimator(front(depth - 1).fit(X24_SMALL, Y24)),
            lambda: VotingClassifier([("a", model(depth - 1)), ("b", model(depth - 1))]),
        ]
        return choose.choice(further if depth else further[:4])()

    def model(depth):
        further = [
            lambda: make_pipeline(front(depth), LogisticRegression()),
            lambda: VotingClassifier([("a", model(depth - 1)), ("b", model(depth - 1))]),
            lambda: OneVsRestClassifier(model(depth - 1)),
            lambda: FrozenEstimator(model(depth - 1).fit(X24_SMALL, Y24)),
            lambda: GridSearchCV(
                model(depth - 1),
                {},
                cv=choose.choice(
                    [KFold(2), ShuffleSplit(2), RepeatedKFold(n_splits=2, n_repeats=2), StratifiedKFold(2)]
                ),
                return_train_score=choose.choice([True, False]),
            ),
        ]
        return choose.choice(further if depth else further[:1])()

    return model(depth)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
def test_no_row_is_sketched_more_often_than_is_charged_wherever_a_sketch_stands(seed, monkeypatch):
    """Of 1381 models with a sum, as deep as 3, none had a row in more releases, and 1329 in as many as were charged."""
    choose, made, released, release = random.Random(seed), [], Counter(), BaseSketch._release
    places = {round(float(row[0]), 9): place for place, row in enumerate(X24_SMALL)}

    def counted(sketch, rows, dtype):
        for value in rows[:, 0]:  # sketches of sketches are no releases of rows
            if round(float(value), 9) in places:
                released[sketch.epsilon, places[round(float(value), 9)]] += 1
        return release(sketch, rows, dtype)

    def new():
        made.append(1 + len(made) / 64)
        return choose.choice([DPOPORP, DPSignOPORP])(3, epsilon=made[-1], random_state=choose.choice([None, 0]))

    monkeypatch.setattr(BaseSketch, "_release", counted)
    try:
        report = privacy_report(composite_of_epsilons(choose, 2, new).fit(X24_SMALL, Y24))
    except (ValueError, AttributeError):  # of what does not go together
        return
    if report.private is not None:
        charged = Counter()
        for step in report.steps:
            if step.releases:
                charged[step.guarantee.epsilon] += step.releases
        assert all(count <= charged[epsilon] for (epsilon, _), count in released.items())


PASSED = Counter()


def counting(rows):
    """Count how often each row passes."""
    PASSED.update(map(tuple, rows))
    return rows


def sketched(**parameters):
    sketch = clone(LAPLACE_SKETCH).set_params(**parameters)
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
        make_pipeline(FunctionTransformer(counting), LAPLACE_SKETCH, RFECV(RidgeClassifier(), cv=2)),
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
    model = clone(model).fit(X12_UNIFORM, Y12)
    released = max(PASSED.values())
    charged = privacy_report(model).private
    assert charged is None or charged.epsilon >= released


def weighted():
    return LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


def search_of(model, grid=None, **options):
    scoring = get_scorer("accuracy").set_score_request(sample_weight=True)  # no score of a pipeline's own before 1.7
    return GridSearchCV(model, grid or {}, cv=KFold(3), scoring=scoring, **options)


ROUTED = {
    "search": lambda: search_of(
        make_pipeline(DPOPORP(4), weighted()), {"logisticregression__C": [1, 2]}, return_train_score=True
    ),
    "frozen": lambda: search_of(make_pipeline(FrozenEstimator(DPOPORP(4).fit(X24)), weighted())),
    "union": lambda: search_of(make_pipeline(make_union(DPOPORP(4), DPOPORP(4)), weighted())),
    "columns": lambda: search_of(
        make_pipeline(ColumnTransformer([("a", DPOPORP(2), [0, 1]), ("b", DPOPORP(2), [0, 2])]), weighted())
    ),
    "votes": lambda: make_pipeline(
        VotingClassifier([(name, make_pipeline(DPOPORP(4), weighted())) for name in "ab"]), weighted()
    ),
}


@pytest.mark.parametrize("model", ROUTED)
def test_rows_are_sketched_as_often_as_a_report_says_where_metadata_are_routed(model, monkeypatch):
    """Weights that are routed through searches, unions and ensembles, to fits and to scores."""
    counts, released = Counter(), BaseSketch.transform

    def transform(self, rows):
        counts.update(rows[:, 0].tolist())
        return released(self, rows)

    monkeypatch.setattr(BaseSketch, "transform", transform)
    with config_context(enable_metadata_routing=True), PrivacyLedger() as ledger:
        fitted = ROUTED[model]()
        fitted.fit(X24, np.arange(24) % 2, sample_weight=np.ones(24))
    report = privacy_report(fitted, ledger=ledger)
    assert sum(step.releases for step in report.steps) == max(counts.values())
    assert report.private is not None and "see its total" not in str(report.not_covered)


class Compositions:
    """Estimators of scikit-learn around sketches and private models, at random and the same each time."""

    def __init__(self, seed):
        self.random = Random(seed)

    def _several(self, name, depth, most, make):
        return [(f"{name}{i}", make(depth - 1)) for i in range(self.random.randint(1, most))]

    def transformer(self, depth):
        """One that releases something, or passes rows on as they are."""
        sketches = NOISY, DPSignOPORP(4), DPRandomProjection(4, noise="laplace"), DPSignRP(4, method="laplace")
        sketch, choice = clone(self.random.choice(sketches)), self.random.random()
        if depth <= 0 or choice < 0.4:
            return sketch
        if choice < 0.5:
            return FunctionTransformer()
        if choice < 0.65:
            return FeatureUnion(self._several("u", depth, 3, self.transformer))
        if choice < 0.8:
            branches = self._several("c", depth, 2, self.transformer)
            columns = [(name, step, self.random.choice([slice(0, 8), [0, 1, 2]])) for name, step in branches]
            return ColumnTransformer(columns, remainder=self.random.choice(["drop", sketch]))
        if choice < 0.9:
            return Pipeline(self._several("s", depth, 3, self.transformer))
        if choice < 0.95:
            return FeatureUnion([("v", VotingClassifier(self._several("v", depth, 2, self.model)))])
        return FrozenEstimator(self.transformer(depth - 1).fit(X12, Y12))

    def model(self, depth):
        """One that predicts labels."""
        choice = self.random.random()
        if depth <= 0 or choice < 0.2:
            return self.random.choice([RidgeClassifier(), AMPClassifier(delta=1e-6, classes=[0, 1])])
        if choice < 0.6:
            return Pipeline([*self._several("s", depth, 2, self.transformer), ("m", self.model(depth - 1))])
        if choice < 0.7:
            return VotingClassifier(self._several("v", depth, 2, self.model))
        if choice < 0.9:
            return self.random.choice([OneVsRestClassifier, FixedThresholdClassifier])(self.model(depth - 1))
        return GridSearchCV(self.model(depth - 1), {}, cv=KFold(3))


@wide
@pytest.mark.parametrize("seed", range(2))
def test_estimators_within_estimators_are_charged_what_they_release_and_not_more_than_planned(seed, released_by_place):
    """Of more than two thousand of these no report on a fit was below the releases of one row, nor a plan below it."""
    compositions, n_known = Compositions(seed), 0
    for i in range(16):
        released_by_place.clear()
        planned = None
        try:
            estimator = compositions.model(3) if i % 2 else compositions.transformer(3)
            with contextlib.suppress(TypeError, ValueError):  # a search has no price before its fit, for instance
                planned = privacy_report(estimator, X12, Y12).private
            estimator.fit(X12, Y12)
        except (AttributeError, ValueError):  # where columns are asked for, say, that are not there after a sketch
            continue
        report = privacy_report(estimator)
        if (stated := report.private) is not None:
            n_known += 1
            assert sum(step.releases for step in report.steps) >= max(released_by_place.values(), default=0)
            if planned is not None:
                assert planned.epsilon >= stated.epsilon * (1 - 1e-9) and planned.delta >= stated.delta * (1 - 1e-9)
    assert n_known >= 8


PLACE24 = {value: place for place, row in enumerate(X24) for value in row}
BITS = make_pipeline(DPSignOPORP(4), LogisticRegression())
THREE, LABELS = np.arange(24) % 3, (np.arange(24)[:, None] >> np.arange(3)) % 2


@wide
@pytest.mark.parametrize(
    ("model", "y", "n_releases"),
    [
        (OneVsRestClassifier(BITS), THREE, 3),
        (OneVsRestClassifier(BITS), LABELS, 3),
        (MultiOutputClassifier(OneVsRestClassifier(BITS)), LABELS[:, :2], 2),
        (MultiOutputClassifier(make_pipeline(UNION, RidgeClassifier())), LABELS, 6),
        (VotingClassifier([("a", OneVsRestClassifier(BITS)), ("b", BITS), ("c", "drop")]), THREE, 4),
        (make_pipeline(UNION, OneVsRestClassifier(BITS)), THREE, 2),
    ],
)
def test_sketches_within_models_of_several_classes_are_charged_for_each_before_and_after_a_fit(
    model, y, n_releases, monkeypatch
):
    """Of nearly 400 compositions, with several classes or targets, none was charged less than one row was released."""
    released, release = Counter(), BaseSketch._release

    def counting(sketch, rows, dtype):
        places = (PLACE24.get(row[0]) for row in np.asarray(rows))
        released.update(place for place in places if place is not None)
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", counting)
    planned = privacy_report(clone(model), X24, y)
    assert not released
    report = privacy_report(clone(model).fit(X24, y))
    for stated in (planned, report):
        assert sum(step.releases for step in stated.steps) == n_releases >= max(released.values())
    assert planned.private.epsilon >= report.private.epsilon * (1 - 1e-9)
    assert planned.private.delta >= report.private.delta * (1 - 1e-9)


# Totals of numbers and bits


def profile_of_numbers(epsilon, mu):
    return np.exp(log_ndtr(mu / 2 - epsilon / mu)) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def test_totals_of_numbers_and_bits_are_not_below_the_sum_over_all_bits():
    rng, rows = np.random.default_rng(0), np.random.default_rng(0).uniform(-0.5, 0.5, size=(4, 12))
    for _ in range(15):
        numbers = [DPOPORP(4, epsilon=rng.choice([0.3, 1.0, 2.5]), delta=1e-5) for _ in range(rng.integers(1, 4))]
        bits = [DPSignOPORP(4, epsilon=rng.choice([0.3, 1.0, 2.5]), n_repeats=2) for _ in range(rng.integers(1, 3))]
        union = FeatureUnion([(str(place), one) for place, one in enumerate([*numbers, *bits])]).fit(rows)
        total, *sketches = privacy_report(union).total, *(one for _, one in union.transformer_list)
        mu = np.sqrt(sum((one.sensitivity_ / one.scale_) ** 2 for one in sketches[: len(numbers)]))
        outcomes = [(1.0, 0.0)]
        for loss in (one.flip_epsilon_ for one in sketches[len(numbers) :] for _ in range(2)):
            outcomes = [(p * expit(sign * loss), lost + sign * loss) for p, lost in outcomes for sign in (1, -1)]
        exact = sum(p * profile_of_numbers(total.epsilon - lost, mu) for p, lost in outcomes)
        assert exact <= total.delta * (1 + 1e-6)


def test_no_number_in_the_text_of_a_guarantee_says_more_than_is_stated():
    """Of epsilon and delta no less is printed, of the change no more, up to what float reads as the same."""
    rng = np.random.default_rng(0)
    for _ in range(1500):
        epsilon, delta, bound = (
            float(at * (1 + rng.choice([-1, 1]) * 2.0 ** -rng.integers(1, 53))) for at in (1.0, 1e-6, 2.5)
        )
        text = repr(PrivacyGuarantee(epsilon, delta, adjacency=Adjacency("l1", bound)))
        pair, change = text.removeprefix("(").split(")-DP, l1 change of ")
        printed = [*pair.split(", "), change]
        for number, stated, is_less in zip(printed, (epsilon, delta, bound), (False, False, True), strict=True):
            apart = Fraction(number) - Fraction(stated)
            assert float(number) == stated or (apart < 0) == is_less


ROWS_OF_SIX = np.random.default_rng(0).uniform(-0.5, 0.5, size=(60, 6))


SIDES = (ROWS_OF_SIX[:, 0] > 0).astype(int)


SHUFFLED = KFold(2, shuffle=True)


def _sketch_of_four():
    return DPOPORP(4, noise="laplace", epsilon=1.0, random_state=0)


def _model_on_a_sketch():
    return make_pipeline(_sketch_of_four(), LogisticRegression())


@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")  # more than there are features
@pytest.mark.parametrize(
    "estimator",
    [
        _model_on_a_sketch(),
        GridSearchCV(_model_on_a_sketch(), {"logisticregression__C": [1, 2]}, cv=SHUFFLED),
        GridSearchCV(_model_on_a_sketch(), {"logisticregression__C": [1, 2]}, cv=SHUFFLED, return_train_score=True),
        GridSearchCV(
            _model_on_a_sketch(),
            {"logisticregression__C": [1]},
            cv=3,
            scoring=["accuracy", "roc_auc"],
            refit="accuracy",
        ),
        make_pipeline(
            VotingClassifier([("a", _model_on_a_sketch()), ("b", _model_on_a_sketch())]), LogisticRegression()
        ),
        make_pipeline(make_union(_sketch_of_four(), _sketch_of_four()), LogisticRegression()),
        make_pipeline(
            make_column_transformer((_sketch_of_four(), [0, 1, 2]), (_sketch_of_four(), [3, 4, 5])),
            LogisticRegression(),
        ),
    ],
    ids=str,
)
def test_reports_and_ledgers_count_as_many_releases_of_a_row_as_there_are(estimator, monkeypatch):
    counts, release = {}, _base.BaseSketch._release

    def counted(self, rows, dtype):
        for row in rows:
            counts[row.tobytes()] = counts.get(row.tobytes(), 0) + 1
        return release(self, rows, dtype)

    monkeypatch.setattr(_base.BaseSketch, "_release", counted)
    with PrivacyLedger() as ledger:
        estimator.fit(ROWS_OF_SIX, SIDES)
    most = max(counts.values())
    assert privacy_report(estimator).private.epsilon >= most
    assert privacy_report(estimator, ledger=ledger).private.epsilon >= most
    assert ledger.total()[0].guarantee.epsilon >= most


@pytest.mark.parametrize("step", [DPBinner(), DPHistograms(), DPOPORP(2), DPSignRP(2), DPSignOPORP(2), iDPSignRP(2)])
@pytest.mark.parametrize("as_batch", [False, True])
def test_a_plan_takes_tables_of_arrow_as_a_fit_does(step, as_batch):
    pa = pytest.importorskip("pyarrow")
    X = pa.table({"a": [0.0, 1.0], "b": [1.0, 2.0]})
    X = X.to_batches()[0] if as_batch else X
    step.fit(X)
    assert privacy_report(type(step)(**step.get_params()), X).steps
