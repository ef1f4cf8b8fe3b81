"""Attacks on what sketches have beside them: rows that are written over, searches, reused estimators, and files."""
# ruff: noqa: D101, D102

import random
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.fft
import scipy.sparse as sp
from scipy.special import expit, log_ndtr, ndtr, softmax
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, RidgeClassifierCV
from sklearn.metrics import make_scorer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold, ShuffleSplit
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, PolynomialFeatures, normalize
from sklearn.random_projection import GaussianRandomProjection

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSignOPORP,
    DPSignRP,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    compose,
    iDPSignRP,
    load_model,
    privacy_report,
    save_model,
)
from skdprp.sketch._base import BaseSketch

X = np.random.default_rng(0).uniform(0.01, 0.3, size=(24, 6))
Y = np.arange(24) % 2


def gaussian_delta(epsilon, mu):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def amp(**options):
    return AMPClassifier(classes=[0, 1], delta=1e-6, **options)


@pytest.fixture
def released(monkeypatch):
    """Of each release of a sketch its epsilon, the rows as they reach it, and their projections over the scale."""
    found, release = [], BaseSketch._release

    def noted(sketch, rows, dtype):
        projected = sketch.projection_.project(rows) / sketch.projection_.divisor
        found.append((sketch.epsilon, np.array(rows), projected / getattr(sketch, "scale_", 1.0)))
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", noted)
    return found


def is_true_of(found, fit, a, b):
    """Whether what is printed of private steps bounds what Gaussian noise of their sketches loses of two data sets."""
    releases = []
    for rows in (a, b):
        found.clear()
        model = fit(rows)
        releases.append([projected for _, _, projected in found])
    mu = np.sqrt(sum(np.square(one - other).sum() for one, other in zip(*releases, strict=True)))
    private = privacy_report(model).private
    if private is None or any("write" in text for text in private.assumptions):
        return True
    return mu == 0 or gaussian_delta(private.epsilon, mu) <= private.delta


# Rows that pass a map twice, and are written over by it


def percent(rows):
    rows *= 100
    return rows


def percent_of_a_column(table):
    table["rate"] = table["rate"] * 100
    return table


WRITING_MAPS = {
    "a function of one's own": lambda: FunctionTransformer(percent, inverse_func=lambda rows: rows / 100),
    "dct": lambda: FunctionTransformer(scipy.fft.dct, inverse_func=scipy.fft.idct, kw_args={"overwrite_x": True}),
}


@pytest.mark.filterwarnings("ignore:The provided functions are not strictly inverse")
@pytest.mark.parametrize("kind", WRITING_MAPS)
def test_a_check_of_the_inverse_does_not_pass_rows_through_a_map_before_they_are_sketched(kind, released):
    """FunctionTransformer checks on a view: with a total of epsilon 1 rows are 100 apart, where 1 is printed."""
    a = np.full((24, 6), 0.5)
    b = a.copy()
    apart = WRITING_MAPS[kind]().func(np.eye(6), **(WRITING_MAPS[kind]().kw_args or {}))
    b[0, 0] += 1 / np.abs(apart[0]).sum()  # 1 apart as rows leave the map
    assert is_true_of(
        released, lambda rows: fitted_and_transformed(make_pipeline(WRITING_MAPS[kind](), sketch(6)), rows), a, b
    )


def sketch(n_components=2, **options):
    return DPOPORP(n_components, random_state=0, **options)


def fitted_and_transformed(model, rows):
    model.fit_transform(rows.copy())
    return model


SCORED = {
    "two scorers": {"scoring": ["accuracy", "roc_auc"], "refit": "roc_auc"},
    "scores of training rows": {"return_train_score": True},
}


@pytest.mark.parametrize("scored", SCORED)
def test_rows_that_are_scored_twice_are_not_written_over_in_between(scored, released):
    """The second scorer gets rows that are 100 times as far apart as they leave the map, and nothing says so."""
    a = pd.DataFrame({"rate": np.linspace(0, 0.05, 24), "other": np.linspace(0, 1, 24)})
    b = a.copy()
    b.loc[0, "rate"] += 0.01  # 1 as rows leave the map
    model = make_pipeline(FunctionTransformer(percent_of_a_column), sketch(), LogisticRegression())
    assert is_true_of(
        released, lambda rows: GridSearchCV(model, {}, cv=KFold(2), **SCORED[scored]).fit(rows.copy(), Y), a, b
    )


# Branches that write over rows, within something else


class OwnScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    def fit(self, rows, y=None):
        return self

    def transform(self, rows):
        rows *= 1000
        return rows


class OwnPrivateScaler(OwnScaler):
    epsilon = 1.0

    def fit(self, rows, y=None):
        self.guarantee_ = DPScaler(epsilon=self.epsilon, delta=1e-6).fit(rows.copy()).guarantee_
        return self


WITHIN = {
    "a search": lambda: GridSearchCV(make_pipeline(Normalizer(copy=False), LogisticRegression()), {}, cv=KFold(2)),
    "a transformer of one's own": lambda: make_pipeline(OwnScaler(), LogisticRegression()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WITHIN)
def test_no_sum_is_stated_where_what_is_within_a_member_writes_over_the_rows_of_the_next(kind, released):
    """Normalizer(copy=False) is refused a sum, and is not within a search; the sketch beside it has a mu of 167."""
    a = np.full((24, 2), 1e-3) + np.random.default_rng(0).uniform(0, 1e-4, size=(24, 2))
    b = a.copy()
    a[0], b[0] = (1e-3, 0), (0, 1e-3)
    members = [("a", WITHIN[kind]()), ("b", make_pipeline(sketch(max_change=2e-3), LogisticRegression()))]
    assert is_true_of(released, lambda rows: VotingClassifier(members).fit(rows.copy(), Y), a, b)


def test_no_total_is_stated_where_a_private_step_of_ones_own_writes_over_the_rows_of_a_sketch(released):
    """With a total of epsilon 1.9 for changes of 1, the sketch has rows of which such a change is 1000."""
    a = X.copy()
    b = a.copy()
    b[0, 0] += 1.0
    assert is_true_of(
        released,
        lambda rows: make_pipeline(make_union(OwnPrivateScaler(), sketch()), amp()).fit(rows.copy(), Y),
        a,
        b,
    )


INNER = {
    "a selector": lambda: make_pipeline(SelectFromModel(RidgeClassifier(copy_X=False)), LogisticRegression()),
    "a search": lambda: GridSearchCV(RidgeClassifier(copy_X=False), {}, cv=KFold(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", INNER)
def test_no_sum_is_stated_of_a_model_whose_rows_had_their_means_taken_off_within_a_member(kind, monkeypatch):
    """One row moves all those that AMPClassifier sees, under a sum of epsilon 1 for one row replaced."""
    seen, fit = [], AMPClassifier.fit
    monkeypatch.setattr(AMPClassifier, "fit", lambda model, rows, y: seen.append(np.array(rows)) or fit(model, rows, y))
    for first in (0.0, 1e9):
        rows = X.copy()
        rows[0, 0] = first
        voting = VotingClassifier([("a", INNER[kind]()), ("b", amp())]).fit(rows, Y)
    assert np.array_equal(seen[0][1:], seen[1][1:]) or privacy_report(voting).private is None


class OwnRidge(RidgeClassifier):
    def fit(self, rows, y):
        rows *= 1000
        return super().fit(rows, y)


def selected_by(model, grid, weights):
    return SelectFromModel(GridSearchCV(model, grid, cv=KFold(2)), importance_getter=f"best_estimator_.{weights}coef_")


RESCALED = Pipeline([("n", Normalizer()), ("l", LogisticRegression())])
HELD = {
    "a grid": selected_by(RidgeClassifier(), {"copy_X": [True, False]}, ""),
    "what is in a grid": selected_by(RESCALED, {"n": [Normalizer(copy=False)]}, "named_steps.l."),
    "a stack": StackingClassifier([("r", make_pipeline(Normalizer(), RidgeClassifier(copy_X=False)))], cv=KFold(2)),
    "bags": BaggingClassifier(make_pipeline(Normalizer(copy=False), LogisticRegression()), bootstrap=False),
}


@pytest.mark.parametrize("kind", HELD)
def test_what_writes_is_found_at_any_depth_of_what_a_branch_holds(kind):
    is_selector = isinstance(HELD[kind], SelectFromModel)
    first = make_pipeline(HELD[kind], LogisticRegression()) if is_selector else HELD[kind]
    report = privacy_report(VotingClassifier([("a", first), ("b", amp())]).fit(X.copy(), Y))
    assert report.private is None and any("may write over rows" in text for text in report.not_covered)


def test_an_estimator_of_ones_own_within_a_member_is_trusted_in_print():
    members = [("a", make_pipeline(SelectFromModel(OwnRidge()), LogisticRegression())), ("b", amp())]
    private = privacy_report(VotingClassifier(members).fit(X.copy(), Y)).private
    assert "votingclassifier.0.selectfrommodel: does not write over the rows that it is given" in private.assumptions


@pytest.mark.parametrize("shape", ["row", "search", "branch"])
def test_of_each_function_of_ones_own_it_is_said_once_that_it_does_not_write_over_rows(shape):
    model = make_pipeline(FunctionTransformer(percent), FunctionTransformer(np.tanh), sketch(), LogisticRegression())
    whole = {
        "row": model,
        "search": GridSearchCV(model, {"dpoporp__epsilon": [0.5, 1.0]}, cv=KFold(2), scoring=["accuracy", "roc_auc"]),
        "branch": VotingClassifier([("a", model), ("b", LogisticRegression())]),
    }[shape].set_params(**{"refit": "accuracy"} if shape == "search" else {})
    said = [text for text in privacy_report(whole.fit(X.copy(), Y)).private.assumptions if "write over" in text]
    prefix = "votingclassifier.0." * (shape == "branch")
    assert said == [f"{prefix}functiontransformer-1: does not write over the rows that it is given"]


@pytest.mark.parametrize("shape", ["search", "branch"])
def test_what_is_written_over_behind_a_sketch_leaves_the_rows_and_the_sum_as_they_are(shape):
    model = make_pipeline(sketch(), Normalizer(copy=False), RidgeClassifier(copy_X=False))
    whole = {
        "search": GridSearchCV(model, {}, cv=KFold(2), return_train_score=True),
        "branch": VotingClassifier([("a", model), ("b", amp())]),
    }[shape]
    assert privacy_report(whole.fit(X.copy(), Y)).private is not None


@pytest.mark.parametrize("is_only_in_a_candidate", [True, False])
def test_a_map_that_writes_over_rows_has_no_sum_in_a_search(is_only_in_a_candidate):
    model = make_pipeline(Normalizer(copy=is_only_in_a_candidate), sketch(), LogisticRegression())
    search = GridSearchCV(model, {"normalizer__copy": [True, False]} if is_only_in_a_candidate else {}, cv=KFold(2))
    assert privacy_report(search.fit(X.copy(), Y)).private is None
    assert privacy_report(model.fit(X.copy(), Y)).private is not None  # rows pass it once


# Searches


@pytest.mark.parametrize("name", ["remainder", "b"])
def test_candidates_that_drop_columns_and_that_pass_them_on_are_not_of_one_map(name, released):
    """Rows that are alike where columns are dropped differ by anything where they are passed on, in the same sum."""
    b = X.copy()
    b[0, {"remainder": 3, "b": 2}[name]] += 1e4
    columns = ColumnTransformer([("a", PublicScaler((0, 1)), [0, 1]), ("b", "drop", [2])], sparse_threshold=0)
    model = make_pipeline(columns, sketch(), LogisticRegression())
    grid = {f"columntransformer__{name}": ["drop", "passthrough"]}
    scoring = make_scorer(lambda y, predicted: 0.0)  # of equal candidates the first is the best
    assert is_true_of(
        released, lambda rows: GridSearchCV(model, grid, cv=KFold(2), scoring=scoring).fit(rows.copy(), Y), X, b
    )


def some_columns(**options):
    branches = [("a", PublicScaler((0, 1)), [0, 1]), ("b", "drop", [2])]
    return ColumnTransformer(branches, sparse_threshold=0, **options)


OF_OTHER_COLUMNS = {
    "nested": (
        make_pipeline(ColumnTransformer([("c", some_columns(), [0, 1, 2])], sparse_threshold=0), sketch()),
        "pipeline__columntransformer__c__b",
        ["drop", "passthrough"],
    ),
    "whole lists": (
        make_pipeline(ColumnTransformer([("a", "passthrough", [0, 1])], sparse_threshold=0), sketch()),
        "pipeline__columntransformer__transformers",
        [[("a", "passthrough", [0, 1]), ("b", word, [2])] for word in ("drop", "passthrough")],
    ),
    "a name with a point": (
        Pipeline([("c", some_columns()), ("s", sketch()), ("c.b", Normalizer())]),
        "pipeline__c__b",
        ["drop", "passthrough"],
    ),
}


@pytest.mark.parametrize("kind", OF_OTHER_COLUMNS)
def test_candidates_of_other_columns_have_no_sum_wherever_the_words_stand(kind, released):
    """In a branch of a branch, in a list, or where a step behind the sketch has the name of the branch."""
    b = X.copy()
    b[0, 2] += 1e4
    front, name, values = OF_OTHER_COLUMNS[kind]
    model, scoring = make_pipeline(front, LogisticRegression()), make_scorer(lambda y, predicted: 0.0)
    assert is_true_of(
        released,
        lambda rows: GridSearchCV(model, {name: values}, cv=KFold(2), scoring=scoring).fit(rows.copy(), Y),
        X,
        b,
    )


@pytest.mark.parametrize("word", ["drop", "passthrough"])
def test_a_search_whose_candidates_all_pass_the_same_columns_on_is_summed(word):
    model = make_pipeline(some_columns(remainder=word), sketch(), LogisticRegression())
    search = GridSearchCV(model, {"columntransformer__b": [word], "dpoporp__epsilon": [0.5, 1.0]}, cv=KFold(2))
    report = privacy_report(search.fit(X, Y))
    assert report.private is not None and sum(step.releases for step in report.steps) == 5


@pytest.mark.parametrize("kind", ["sketch", "model"])
def test_the_best_estimator_of_an_earlier_fit_says_nothing_of_a_search_without_a_refit(kind):
    """After a fit to public rows at .1, a fit to these rows at 50 without a refit is reported as .17 and .2."""
    made = {"sketch": make_pipeline(sketch(epsilon=0.1), LogisticRegression()), "model": amp(epsilon=0.1)}[kind]
    search = GridSearchCV(made, {}, cv=KFold(2)).fit(X + 1, Y)
    name = {"sketch": "estimator__dpoporp__epsilon", "model": "estimator__epsilon"}[kind]
    search.set_params(refit=False, **{name: 50.0}).fit(X, Y)
    private = privacy_report(search).private
    assert private is None or private.epsilon >= 50


# Steps that were fitted before


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
    reused = make().fit(X, Y)
    kept = what(reused).copy()
    model = make_pipeline(sketch(3), reused.set_params(**options)).fit(X, Y)
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
    models = [make_pipeline(sketch(3), voting), amp()]
    assumed = [privacy_report(model.fit(X, Y)).total.assumptions for model in models]
    assert [sum("earlier fits" in text for text in texts) for texts in assumed] == [1, 0]


# Files


def test_a_violation_of_what_was_released_together_is_in_a_file_at_each_step(tmp_path):
    """The steps of a winner have it before, and the last one of what is read back has a total of epsilon 2."""
    search = DPSearchCV(
        make_pipeline(DPBinner(4), AMPClassifier(classes=[0, 1])),
        {"ampclassifier__max_norm": [0.5, 1.0]},
        n_trials=1,
        epsilon=2.0,
        delta=1e-3,
    ).fit(X, Y)
    for _, step in search.best_estimator_.steps:
        step.guarantee_ = replace(step.guarantee_, audited_epsilon=9.0, violation="epsilon is at least 9 at delta=0")
    save_model(tmp_path / "model.npz", search.best_estimator_)
    for _, step in load_model(tmp_path / "model.npz").estimator.steps:
        assert step.guarantee_.violation and privacy_report(step).total is None


def test_a_file_is_read_back_where_an_audit_has_marked_one_step_of_a_winner(tmp_path):
    search = DPSearchCV(
        make_pipeline(DPBinner(4), amp()), {"ampclassifier__max_norm": [0.5, 1.0]}, n_trials=1, delta=1e-3
    ).fit(X, Y)
    binner, model = (step for _, step in search.best_estimator_.steps)
    binner.guarantee_ = replace(binner.guarantee_, audited_epsilon=9.0, violation="epsilon is at least 9 at delta=0")
    save_model(tmp_path / "model.npz", search.best_estimator_)
    saved = load_model(tmp_path / "model.npz")
    assert [step.guarantee_ for _, step in saved.estimator.steps] == [binner.guarantee_, model.guarantee_]
    before, after = privacy_report(search.best_estimator_), privacy_report(saved.estimator)
    assert after.steps == before.steps and after.total is before.total is None


def test_a_file_does_not_state_the_guarantee_of_an_earlier_model_for_one_below_another_threshold(tmp_path):
    """Both are there, the earlier one as a parameter: its .5 is all that is stated, and the other predicts, with 50."""
    earlier = amp(epsilon=0.5).fit(X, Y)
    model = FixedThresholdClassifier(earlier.set_params(epsilon=50.0)).fit(X, Y)
    save_model(tmp_path / "model.npz", model)
    saved = load_model(tmp_path / "model.npz")
    assert saved.estimator.estimator_.guarantee_ in saved.guarantees.values()


def test_a_file_states_what_all_fits_released_that_it_has(tmp_path):
    """Of a model that was fitted before it was given a threshold there were two fits, and one guarantee."""
    save_model(tmp_path / "model.npz", FixedThresholdClassifier(amp(epsilon=5.0).fit(X, Y)).fit(X, Y))
    saved = load_model(tmp_path / "model.npz")
    assert hasattr(saved.estimator.estimator_, "coef_")
    assert not hasattr(saved.estimator.estimator, "coef_")
    assert compose(*saved.guarantees.values()).n_releases == 1


def test_a_file_states_the_guarantees_of_all_transformers_that_were_fitted_before(tmp_path):
    """Parameters that list estimators have one path for all of them: the first, of epsilon 50, is left out."""
    scalers = [DPScaler(epsilon=epsilon, delta=1e-6).fit(X[:, :3]) for epsilon in (50.0, 0.1)]
    columns = ColumnTransformer(
        [("a", scalers[0].set_params(epsilon=0.1), [0, 1, 2]), ("b", scalers[1], [3, 4, 5])]
    ).fit(X)
    save_model(tmp_path / "model.npz", columns)
    saved = load_model(tmp_path / "model.npz")
    held = [step for _, step, *_ in [*saved.estimator.transformers, *saved.estimator.transformers_]]
    assert all(step.guarantee_ in saved.guarantees.values() for step in held if hasattr(step, "guarantee_"))


# What held


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
        lambda: FunctionTransformer(several([np.cumsum, np.flip, np.sort, softmax]), kw_args={"axis": 1}),
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
        lambda: FrozenEstimator(made(choose, depth - 1).fit(X)),
    ]
    return several([*kinds, *deep] if depth else kinds)()


@pytest.mark.filterwarnings("ignore")
def test_maps_that_make_other_numbers_of_the_same_rows_have_other_labels():
    """Of 18,248 pairs with equal labels, of some 5000 maps as deep as 2, all made the same numbers."""
    choose, found, n_pairs = random.Random(0), {}, 0
    for _ in range(250):
        try:
            model = make_pipeline(made(choose), DPSignOPORP(2, adjacency="l1", random_state=0)).fit(X)
        except (ValueError, TypeError):  # of what does not go together, or drops all columns
            continue
        rows, private = np.asarray(model[:-1].transform(X)), privacy_report(model).private
        if private is not None:
            n_pairs += private.adjacency.after in found
            before = found.setdefault(private.adjacency.after, rows)
            assert before.shape == rows.shape and np.allclose(before, rows, rtol=0, atol=1e-9)
    assert n_pairs > 50


def searched(choose):
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
    model = make_pipeline(*(clone(grids[name][0]) for name in names), sketch(), LogisticRegression())
    cv = choose.choice([KFold(2), ShuffleSplit(2, random_state=0)])
    return GridSearchCV(model, grid, cv=cv, return_train_score=choose.choice([True, False]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(5))
def test_rows_reach_the_sketches_of_a_search_with_a_sum_by_the_map_of_its_refit(seed, released):
    """Of 222 searches with a sum, over any parameters of maps, 3 had rows by another map: those of dropped columns."""
    choose = random.Random(seed)
    for _ in range(4):
        released.clear()
        search = searched(choose).fit(X.copy(), Y)
        if privacy_report(search).private is not None:
            last = released[-1][1]
            for _, rows, _ in released:
                assert rows.shape[1] == last.shape[1]
                assert np.abs(rows[:, None] - last[None]).max(axis=2).min(axis=1).max() < 1e-9


LEFT_ALONE = [
    *(amp(max_norm=0.1), ProductNoiseOutputPerturbation(classes=[0, 1], max_norm=0.1), DPMoments(max_norm=0.1)),
    *(DPRidge(target_bounds=(0, 1), max_norm=0.1), DPPCA(2, max_norm=0.1), DPHistograms(), DPBinner(4), DPScaler()),
    *(PublicScaler((0.1, 0.2)), PublicBinner([[0.1]] * 6), DPRandomProjection(projection="identity"), sketch(4)),
    *(DPSignRP(4), DPSignRP(4, method="laplace"), DPSignOPORP(4, n_repeats=2), iDPSignRP(4)),
]
FORMS = [np.array, np.asfortranarray, pd.DataFrame, sp.csr_matrix]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", LEFT_ALONE, ids=lambda estimator: repr(estimator)[:60])
def test_no_step_of_this_library_writes_over_the_rows_that_it_is_given(estimator):
    """In any form, by any method: 477 calls left all rows as they were."""
    for form in FORMS:
        rows = form(X.copy())
        before = rows.toarray() if sp.issparse(rows) else np.array(rows)
        try:
            fitted = clone(estimator).fit(rows, Y)
        except (TypeError, ValueError):  # of those that take no sparse rows
            continue
        for method in ("transform", "predict", "predict_proba", "project_queries"):
            getattr(fitted, method, lambda rows: None)(rows)
        assert np.array_equal(rows.toarray() if sp.issparse(rows) else np.array(rows), before)


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
        columns = ColumnTransformer([("s", sketch(1), ["b"]), ("p", "passthrough", ["a"])])
        with pytest.raises(ValueError, match=r"another order|inconsistent number of samples"):
            columns.set_output(transform="pandas").fit_transform(table)
