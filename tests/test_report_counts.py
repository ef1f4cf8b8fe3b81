"""What reports charge, against the releases that one row really went through."""

import copy
import pickle
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import product

import dask.array
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

import skdprp
from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    _noise,
    compose,
    privacy_report,
    transform_chunks,
)
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.ledger import entry
from skdprp.mechanisms import gaussian_profile, gaussian_scale
from skdprp.report._search import _NUMBERS_OF_MODELS, _WORDS_OF_MODELS
from skdprp.sketch._base import BaseSketch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 8))
Y = np.arange(12) % 2
Y3 = np.arange(12) % 3
PLACE = {value: place for place, row in enumerate(X) for value in row}
NOISY = DPOPORP(4, epsilon=1.0, delta=1e-6)
SIGNS = DPSignOPORP(4, epsilon=0.7)
MODEL = AMPClassifier(epsilon=0.5, delta=1e-6, noise="gaussian")
MODEL_GUARANTEE = clone(MODEL).fit(X, Y).guarantee_
RIDGE = RidgeClassifier()
SKETCHED = make_pipeline(NOISY, RIDGE)
VOTED = VotingClassifier([("a", SKETCHED)])
CLUSTERED = make_pipeline(NOISY, KMeans(2, n_init=1))
PREDICTIONS = make_scorer(accuracy_score)
DECISIONS = make_scorer(lambda labels, scores: np.mean((scores > 0) == labels), response_method="decision_function")
ALL = np.arange(12)


def twice(model, rows, labels):
    """Score that predicts twice."""
    return accuracy_score(labels, model.predict(rows)) + f1_score(labels, model.predict(rows))


@pytest.fixture
def released(monkeypatch):
    """How often each row of X was released, by its place: sketched, or learned from by a private model."""
    counts = Counter()
    release, learn = BaseSketch._release, AMPClassifier._release

    def count(rows):
        places = (PLACE.get(row[0]) for row in np.asarray(rows))
        counts.update(place for place in places if place is not None)
        return rows

    monkeypatch.setattr(BaseSketch, "_release", lambda self, rows, *more: release(self, count(rows), *more))

    def count_and_learn(self, calibration, rows, *labels):
        return learn(self, calibration, count(rows), *labels)

    monkeypatch.setattr(AMPClassifier, "_release", count_and_learn)
    return counts


def most(released):
    """Releases of the row that was released most often; all are forgotten."""
    largest = max(released.values(), default=0)
    released.clear()
    return largest


def charged(report):
    """Releases of one row that a report counts."""
    return sum(step.releases for step in report.steps)


def reasons(report):
    """What a report says is not covered, in one line."""
    return "; ".join(report.not_covered)


def test_counting_rows_is_counting_draws_of_noise(released, monkeypatch):
    drawn, add_gaussian = [], _noise.add_gaussian
    monkeypatch.setattr(_noise, "add_gaussian", lambda x, scale: (drawn.append(len(x)), add_gaussian(x, scale))[1])
    GridSearchCV(SKETCHED, {}, cv=KFold(3), return_train_score=True).fit(X, Y)
    assert sum(released.values()) == sum(drawn) == 12 * (2 * 2 + 1 + 1)


@pytest.mark.parametrize(
    ("estimator", "n_releases"),
    [
        (SKETCHED, 1),
        (make_pipeline(make_union(NOISY, SIGNS), RIDGE), 2),
        (make_pipeline(make_pipeline(NOISY), RIDGE), 1),
        (make_pipeline(make_column_transformer((NOISY, slice(0, 4)), (SIGNS, slice(4, 8))), RIDGE), 2),
        (make_pipeline(NOISY, SIGNS, MODEL), 1),
        (make_pipeline(FunctionTransformer(), SKETCHED), 1),
        (make_pipeline(make_union("passthrough", NOISY), MODEL), 2),
        (MODEL, 1),
        (OneVsRestClassifier(MODEL), 3),
        (OneVsRestClassifier(SKETCHED), 3),
        (VotingClassifier([("a", SKETCHED), ("b", MODEL), ("c", make_pipeline(SIGNS, RIDGE))]), 3),
        (make_pipeline(VotingClassifier([("a", SKETCHED), ("b", MODEL)]), RIDGE), 3),
        (make_pipeline(VotingClassifier([("a", make_pipeline(make_union(VOTED), RIDGE))]), RIDGE), 3),
        (make_pipeline(VotingClassifier([("a", OneVsRestClassifier(SKETCHED))]), RIDGE), 6),
        (make_pipeline(make_column_transformer((VOTED, slice(0, 8)), sparse_threshold=0), RIDGE), 2),
        (make_pipeline(make_union(GridSearchCV(CLUSTERED, {}, cv=KFold(3))), RIDGE), 5),
        (make_pipeline(NOISY, VotingClassifier([("a", SKETCHED)]), RIDGE), 1),
    ],
)
def test_a_fit_releases_what_is_charged(released, estimator, n_releases):
    report = privacy_report(clone(estimator).fit(X, Y3))
    assert charged(report) == most(released) == n_releases


def test_a_fit_for_several_targets_releases_what_is_charged(released):
    report = privacy_report(MultiOutputClassifier(SKETCHED).fit(X, np.column_stack([Y, Y3 == 0])))
    assert charged(report) == most(released) == 2


def test_each_further_call_is_a_release_more_and_the_report_says_so(released):
    model = clone(SKETCHED)
    model.fit(X, Y).predict(X)
    model.score(X, Y)
    model[:-1].transform(X)
    assert most(released) == 4
    report = privacy_report(model)
    assert charged(report) == 1 and report.steps[0].guarantee.per == "transform"
    assert any(
        "each transform, predict or score of them is one release more" in text for text in report.total.assumptions
    )


# Each row is held out once in each repetition, so that every row pays the same.
HOLD_OUT_EACH = [
    None,
    4,
    KFold(3, shuffle=True),
    StratifiedKFold(3, shuffle=True),
    RepeatedKFold(n_splits=3, n_repeats=2),
    RepeatedStratifiedKFold(n_splits=3, n_repeats=2),
    LeaveOneOut(),
]
OTHERS = [ShuffleSplit(3), StratifiedShuffleSplit(3), TimeSeriesSplit(3), PredefinedSplit(ALL % 3 - 1), LeavePOut(2)]
SCORING = [None, "accuracy", PREDICTIONS, {"a": "accuracy", "b": DECISIONS}]


# What a fold releases of a row depends on how it is scored, and how often a row is in one, on the splitter alone.
@pytest.mark.parametrize(
    ("cv", "scoring", "train"),
    [
        *product([KFold(3)], SCORING, [False, True]),
        *((cv, *scored) for cv in HOLD_OUT_EACH for scored in ((None, False), (SCORING[3], True))),
    ],
)
def test_a_search_over_sketches_charges_what_it_released(released, cv, scoring, train):
    options = {
        "cv": cv,
        "scoring": scoring,
        "return_train_score": train,
        "refit": "b" if scoring is SCORING[3] else True,
    }
    # Each candidate is charged by itself: one is enough where folds are many, and two of one kind of folds.
    alphas = [0.1, 1.0] if cv == 4 else [1.0]
    n_rows = 4 if isinstance(cv, LeaveOneOut) else 12
    search = GridSearchCV(SKETCHED, {"ridgeclassifier__alpha": alphas}, **options).fit(X[:n_rows], Y[:n_rows])
    report = privacy_report(search)
    assert charged(report) == most(released)
    mu = np.sqrt(charged(report)) / gaussian_scale(1.0, 1e-6)
    assert gaussian_profile(report.private.epsilon, scale=1 / mu) <= report.private.delta
    assert gaussian_profile(report.private.epsilon * 0.9999, scale=1 / mu) > report.private.delta


@pytest.mark.parametrize("train", [False, True])
def test_folds_of_a_search_pass_on_as_the_refit_does(released, train):
    """What is frozen is charged for a fit of its own in each fold and in the refit, though it had only one before."""
    options = {"cv": KFold(3), "return_train_score": train}
    assert privacy_report(GridSearchCV(make_pipeline(VOTED, RIDGE), {}, **options).fit(X, Y)).private is None
    most(released)
    frozen = FrozenEstimator(clone(CLUSTERED).fit(X))
    report = privacy_report(GridSearchCV(make_pipeline(frozen, RIDGE), {}, **options).fit(X, Y))
    assert charged(report) == 2 * (2 + train) + 1 + 2 > most(released)
    mu = np.sqrt(charged(report)) / gaussian_scale(1.0, 1e-6)
    assert gaussian_profile(report.private.epsilon, scale=1 / mu) <= report.private.delta


def test_what_was_frozen_is_charged_for_its_own_fit_too(released):
    frozen = FrozenEstimator(clone(CLUSTERED).fit(X))
    report = privacy_report(make_pipeline(make_union(frozen), RIDGE).fit(X, Y))
    assert charged(report) == most(released) == 2


@pytest.mark.parametrize(
    "hides",
    [
        BaggingClassifier(MODEL, 2, random_state=0),  # of 12 rows another draw may have one class
        StackingClassifier([("a", SKETCHED)], RIDGE, cv=KFold(2)),
        StackingClassifier([("a", MODEL)], RIDGE, cv=KFold(2)),
        BaggingClassifier(FrozenEstimator(clone(SKETCHED).fit(X, Y)), 2, random_state=0),
    ],
)
def test_releases_within_what_is_not_known_leave_no_sum_of_the_others(hides):
    """A sum of the private steps alone that leaves some of them out is none."""
    members = [("known", MODEL), ("hides", hides)]
    report = privacy_report(VotingClassifier(members).fit(X, Y))
    assert report.private is None and "holds private estimators" in reasons(report)
    plain = [("known", MODEL), ("plain", BaggingClassifier(RIDGE, 2, random_state=0))]
    assert privacy_report(VotingClassifier(plain).fit(X, Y)).private.epsilon == 0.5


@pytest.mark.parametrize("word", ["drop", "passthrough"])
def test_words_in_place_of_steps_are_known_where_the_fit_kept_them(word):
    """A column transformer keeps what it fitted; a union and a pipeline keep what they are told since."""
    columns = make_column_transformer((NOISY, slice(0, 4)), (word, slice(4, 8)), sparse_threshold=0)
    assert privacy_report(make_pipeline(columns, MODEL).fit(X, Y)).total.delta >= 1e-6
    union = make_union(NOISY, SIGNS)
    for model in (make_pipeline(union, RIDGE), Pipeline([("dpoporp", SIGNS), ("b", RIDGE)])):
        fitted = clone(model).fit(X, Y)
        assert any("since the fit" in text for text in privacy_report(fitted).total.assumptions)
        (fitted[0] if model[0] is union else fitted).set_params(dpoporp=word)
        report = privacy_report(fitted)
        assert report.private is None and "leave the step out and fit again" in reasons(report)


@pytest.mark.parametrize("word", [None, "passthrough"])
def test_words_after_a_sketch_stand_for_what_came_after_it(word):
    assert privacy_report(Pipeline([("a", NOISY), ("b", word), ("c", RIDGE)]).fit(X, Y)).total.epsilon == 1.0


def test_a_cache_is_refused_for_what_it_keeps(tmp_path):
    cached = {"memory": str(tmp_path)}
    report = privacy_report(make_pipeline(make_union(NOISY), RIDGE, **cached).fit(X, Y))
    assert report.private is None and "set memory=None" in reasons(report)
    assert privacy_report(make_pipeline(PublicScaler((0, 1)), MODEL, **cached).fit(X, Y)).total.epsilon == 0.5


@pytest.mark.parametrize(
    ("cv", "scoring"),
    [
        *product(OTHERS[:1], [*SCORING, {"a": "accuracy", "b": PREDICTIONS}]),
        *product(OTHERS[1:], [None, SCORING[3]]),
    ],
)
def test_a_search_over_sketches_charges_no_less_than_it_released(released, cv, scoring):
    refit = next(iter(scoring)) if isinstance(scoring, dict) else True
    options = {"cv": cv, "scoring": scoring, "return_train_score": True, "refit": refit}
    n_rows = 6 if isinstance(cv, LeavePOut) else 12  # of 12 there are 66 pairs
    report = privacy_report(GridSearchCV(SKETCHED, {}, **options).fit(X[:n_rows], Y[:n_rows]))
    assert charged(report) >= most(released) > 1


class Failing(ClassifierMixin, BaseEstimator):
    """A classifier that cannot predict."""

    def fit(self, X, y):
        """Learn nothing."""
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        """Fail after the sketch was drawn."""
        raise ValueError("too late")


@pytest.mark.filterwarnings("ignore")
def test_scorers_that_share_predictions_are_charged_each_because_failures_are_not_shared(released):
    options = {"scoring": ["accuracy", "f1"], "refit": lambda results: 0, "cv": KFold(2)}
    reports = [privacy_report(GridSearchCV(SKETCHED, {}, **options).fit(X, Y))]
    assert most(released) == 1 + 1 + 1
    reports.append(privacy_report(GridSearchCV(make_pipeline(NOISY, Failing()), {}, **options).fit(X, Y)))
    assert [charged(report) for report in reports] == [most(released)] * 2 == [1 + 2 + 1] * 2


@pytest.mark.parametrize(
    ("cv", "n_fits"),
    [
        (KFold(3), 2),
        (KFold(4, shuffle=True), 3),
        (RepeatedKFold(n_splits=3, n_repeats=2), 4),
        (LeaveOneOut(), 11),
        (TimeSeriesSplit(2), 2),
        (PredefinedSplit(ALL % 3 - 1), 2),
    ],
)
def test_a_search_over_models_charges_the_folds_that_train_on_a_row(released, cv, n_fits):
    search = RandomizedSearchCV(MODEL, {"C": [0.01, 0.02]}, n_iter=2, cv=cv).fit(X, Y)
    report = privacy_report(search)
    assert charged(report) == most(released) == 2 * n_fits + 1
    assert report.private.epsilon == compose(*charged(report) * [replace(MODEL_GUARANTEE, loss=None)]).epsilon
    assert report.private.delta == pytest.approx((2 * n_fits + 1) * 1e-6)


def test_a_random_split_of_models_charges_all_folds(released):
    report = privacy_report(GridSearchCV(MODEL, {}, cv=ShuffleSplit(3)).fit(X, Y))
    assert charged(report) == 3 + 1 >= most(released)


@pytest.mark.parametrize(
    ("cv", "n_train", "n_fits"),
    [(KFold(5), 9, 4), (KFold(3), 8, 2), (RepeatedKFold(n_splits=5, n_repeats=2), 9, 8), (LeaveOneOut(), 11, 11)],
)
def test_delta_of_none_is_that_of_the_smallest_fold(cv, n_train, n_fits):
    search = GridSearchCV(AMPClassifier(), {"epsilon": [0.5, 1.0]}, cv=cv).fit(X, Y)
    results = cross_validate(AMPClassifier(), X, Y, cv=cv, return_estimator=True)
    assert max(model.guarantee_.delta for model in results["estimator"]) == n_train**-2.0
    private = privacy_report(search).private
    assert private.delta == pytest.approx((2 * n_fits + 1) / n_train**2, rel=1e-12)
    assert private.epsilon <= n_fits * 1.5 + 1.0


@pytest.mark.parametrize("cv", [ShuffleSplit(2), TimeSeriesSplit(2), PredefinedSplit(ALL % 3), LeavePOut(2)])
def test_delta_of_none_is_not_known_in_folds_of_other_sizes(cv):
    report = privacy_report(GridSearchCV(AMPClassifier(), {}, cv=cv).fit(X, Y))
    assert report.private is None and "give delta" in reasons(report)
    given = GridSearchCV(AMPClassifier(), {"delta": [None, 1e-6]}, cv=KFold(2), refit=lambda results: 1).fit(X, Y)
    assert privacy_report(given).private is None


def test_a_candidate_is_charged_for_what_it_is_and_the_refit_for_the_costliest():
    search = GridSearchCV(MODEL, {"epsilon": [0.5, 2.0, 1.0]}, cv=KFold(2), refit=lambda results: 0).fit(X, Y)
    pairs = [PrivacyGuarantee(epsilon, 1e-6, adjacency=Adjacency("replace_one")) for epsilon in (0.5, 2.0, 1.0, 2.0)]
    report = privacy_report(search)
    assert report.private.epsilon == compose(*pairs).epsilon and report.private.delta == pytest.approx(4e-6)
    assert report.steps[1].guarantee.epsilon == 2.0 and "guarantees differ" in report.steps[1].remark


def fails(labels, predicted):
    """Score that is none."""
    raise ArithmeticError


@pytest.mark.filterwarnings("ignore")
def test_a_candidate_whose_fits_failed_is_charged_as_if_it_had_released():
    """Parameters may have been refused before a release, or a solver failed once the noise was drawn."""
    folds, too_large = KFold(3, shuffle=True), {"C": [1e-3, 1e9]}
    with PrivacyLedger() as ledger:
        search = GridSearchCV(MODEL, too_large, cv=folds).fit(X, Y)
    step = privacy_report(search).steps[1]
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert (step.releases, step.calls) == (5, 7) and len(ledger.entries) == 4
    assert privacy_report(search, ledger=ledger).private is None


@pytest.mark.filterwarnings("ignore")
def test_what_failed_after_a_release_is_charged(released):
    """A score that failed, and a model after a sketch that was refused."""
    folds = KFold(3, shuffle=True)
    search = GridSearchCV(MODEL, {}, scoring=make_scorer(fails), cv=folds).fit(X, Y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    assert privacy_report(search).steps[1].releases == most(released) == 3
    pipeline = make_pipeline(NOISY, clone(MODEL))
    search = GridSearchCV(pipeline, {"ampclassifier__C": [1e-3, 1e9]}, cv=folds).fit(X, Y)
    assert privacy_report(search).steps[1].releases >= most(released) > 5


def test_equal_releases_of_a_search_are_those_of_its_folds():
    """Sketches keep their privacy loss: the total is what composing the guarantees of the real fits gives."""
    search = GridSearchCV(make_pipeline(DPSignRP(8, epsilon=0.5), RIDGE), {}, cv=KFold(3)).fit(X, Y)
    folds = cross_validate(search.best_estimator_, X, Y, cv=KFold(3), return_estimator=True)["estimator"]
    total = compose(*(fold[0].guarantee_ for fold in folds), search.best_estimator_[0].guarantee_)
    private = privacy_report(search).private
    assert (private.epsilon, private.delta) == (total.epsilon, total.delta)
    assert private.profile(0.3) == total.profile(0.3)


def test_a_projection_that_drew_zeros_says_nothing_of_those_of_the_folds():
    sketch = DPRandomProjection(1, projection="very_sparse", density=1e-12)
    search = GridSearchCV(make_pipeline(sketch, RIDGE), {}, cv=KFold(3)).fit(X, Y)
    assert search.best_estimator_[0].guarantee_.loss.mu == 0.0
    nothing_known = PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("l1", 1.0))
    assert privacy_report(search).private.epsilon == compose(*4 * [nothing_known]).epsilon


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_of_a_sketch_covers_every_projection_that_a_fold_may_draw(seed):
    sketch = DPRandomProjection(4, projection="gaussian", adjacency="l2", random_state=seed)
    search = GridSearchCV(make_pipeline(sketch, RIDGE), {}, cv=KFold(3)).fit(X, Y)
    total = compose(*4 * [search.best_estimator_[0].guarantee_])
    assert total.epsilon <= privacy_report(search).private.epsilon <= total.epsilon * (1 + 1e-8)


# What looks at labels


def test_an_ensemble_that_finds_the_labels_in_the_rows_is_given_them():
    told = AMPClassifier(delta=1e-6, classes=[0, 1])
    assert privacy_report(clone(told).fit(X, Y)).total.given == ""
    for model in (OneVsRestClassifier(told), VotingClassifier([("a", told)])):
        assert privacy_report(model.fit(X, Y)).total.given == "the set of labels"
    assert privacy_report(OneVsRestClassifier(SKETCHED).fit(X, Y3)).total.given == ""


def test_folds_are_given_the_labels_of_each():
    for classes, given in ((None, "the set of labels in each fold"), ([0, 1], "")):
        model = AMPClassifier(delta=1e-6, classes=classes)
        private = privacy_report(GridSearchCV(model, {}, cv=KFold(3)).fit(X, Y)).private
        assert private.given == given and private.mechanism == "AMPClassifier"


def test_one_label_moves_rows_between_stratified_folds_and_is_told_from_the_model(seeded):
    """Rows that only one of the two worlds trains on in the first fold agree with its sign, the others say nothing."""
    n = 4000
    labels = [np.arange(n) % 2 for _ in range(2)]
    labels[1][0] = 1
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    trains = [next(cv.split(np.zeros((n, 1)), y))[0] for y in labels]
    only = [np.isin(np.arange(n), one) & ~np.isin(np.arange(n), other) for one, other in (trains, trains[::-1])]
    rows = ((2 * labels[0] - 1) * (only[0].astype(float) - only[1]))[:, None]
    assert min(map(sum, only)) > n / 8, "one label moves a sixth of all rows in, and a sixth out"
    model = AMPClassifier(epsilon=0.1, delta=1e-8)
    weights = [
        [clone(model).fit(rows[train], y[train]).coef_[0, 0] for _ in range(20)]
        for train, y in zip(trains, labels, strict=True)
    ]
    assert min(weights[0]) > 0 > max(weights[1])
    report = privacy_report(GridSearchCV(model, {}, cv=cv).fit(rows, labels[0]))
    assert report.total is None and report.private is None
    assert "one label may move other rows between the folds of StratifiedKFold: set cv=KFold(5" in reasons(report)


@pytest.mark.parametrize(
    "cv", [KFold(5, shuffle=True, random_state=0), TimeSeriesSplit(3), ShuffleSplit(3, random_state=0)]
)
def test_one_row_moves_no_other_by_place(cv):
    other = X.copy(), 1 - Y
    other[0][3] += 100
    for one, two in zip(cv.split(X, Y), cv.split(*other), strict=True):
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])


LABELS = [
    StratifiedKFold(3, shuffle=True, random_state=0),
    RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    StratifiedShuffleSplit(3, random_state=0),
]


@pytest.mark.parametrize("cv", LABELS)
def test_features_move_no_row_in_a_split_by_labels_so_sketches_add_up(cv):
    for one, two in zip(cv.split(X, Y), cv.split(RNG.normal(size=X.shape), Y), strict=True):
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
    private = privacy_report(GridSearchCV(SKETCHED, {}, cv=cv).fit(X, Y)).private
    assert private.adjacency == Adjacency("l1", 1.0)
    assert any("labels, which neighbours have in common" in text for text in private.assumptions)
    assert privacy_report(GridSearchCV(MODEL, {}, cv=cv).fit(X, Y)).private is None


def test_models_beside_a_sketch_add_up_for_the_neighbours_of_the_sketch():
    model = make_pipeline(make_union("passthrough", NOISY), MODEL)
    private = privacy_report(GridSearchCV(model, {}, cv=StratifiedKFold(3)).fit(X, Y)).private
    assert private.adjacency.relation == "l1" and private.delta == pytest.approx((3 + 1 + 2 + 1) * 1e-6)


class OwnKFold(KFold):
    """A split that may do what it likes."""


@pytest.mark.parametrize(
    "cv",
    [GroupKFold(3), OwnKFold(3), [(ALL, ALL)], [(ALL[:6], ALL[6:])], list(KFold(3).split(X))],
)
@pytest.mark.parametrize("model", [SKETCHED, MODEL])
def test_splits_that_may_look_at_rows_add_up_to_nothing(cv, model, released):
    groups = {"groups": ALL % 3} if isinstance(cv, GroupKFold) else {}
    report = privacy_report(GridSearchCV(model, {}, cv=cv).fit(X, Y, **groups))
    assert report.total is None and report.private is None and charged(report) == 0
    assert "one row may move others" in reasons(report) and "set cv=KFold(" in reasons(report)


@pytest.mark.parametrize("cv", [None, 5])
def test_integers_are_stratified_for_classifiers_and_by_place_for_others(cv):
    assert privacy_report(GridSearchCV(MODEL, {}, cv=cv).fit(X, Y)).private is None

    class Regressor(BaseEstimator):
        def fit(self, X, y):
            self.fitted_ = True
            return self

        def predict(self, X):
            return np.zeros(len(X))

        def score(self, X, y):
            return 0.0

    private = privacy_report(GridSearchCV(make_pipeline(NOISY, Regressor()), {}, cv=cv).fit(X, Y)).private
    assert any("KFold holds out depends on places" in text for text in private.assumptions)


# What a search was


@cache
def search_of(kind):
    """A search over candidates of a kind, which each test copies."""
    model, grid = {
        "sketches": (SKETCHED, {"dpoporp__n_components": [2, 4]}),
        "models": (MODEL, {"C": [0.1, 0.2]}),
        "budgets": (AMPClassifier(), {"epsilon": [0.5, 1.0]}),
    }[kind]
    return GridSearchCV(clone(model), grid, cv=KFold(3)).fit(X, Y)


@pytest.mark.parametrize("kind", ["sketches", "models", "budgets"])
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.01},
        {"delta": 1e-9},
        {"cv": KFold(2)},
        {"cv": KFold(100)},
        {"cv": StratifiedKFold(3)},
        {"scoring": twice},
        {"scoring": ["accuracy", "f1"]},
        {"return_train_score": True},
        {"estimator": DummyClassifier()},
        {"param_grid": {}},
    ],
)
def test_parameters_that_were_changed_since_change_nothing(kind, changes):
    search = copy.deepcopy(search_of(kind))
    before = privacy_report(search)
    path = "dpoporp__" if kind == "sketches" else ""
    if "cv" not in changes and changes.keys() & {"epsilon", "delta"}:
        search.estimator.set_params(**{path + name: value for name, value in changes.items()})
        search.best_estimator_.set_params(**{path + name: value for name, value in changes.items()})
    else:
        search.set_params(**changes)
    after = privacy_report(search)
    assert before.private is not None
    if after.private is None:  # folds that are none of this fit, where scikit-learn keeps no record of its own
        assert "cv" in changes and not hasattr(search, "_checked_cv_orig")
    else:
        assert (after.private.epsilon, after.private.delta) == (before.private.epsilon, before.private.delta)
        assert charged(after) == charged(before)


def test_delta_that_is_fixed_after_the_fit_does_not_make_folds_larger():
    search = GridSearchCV(AMPClassifier(), {}, cv=KFold(3)).fit(X, Y)
    search.best_estimator_.set_params(delta=search.best_estimator_.delta_)
    assert privacy_report(search).private.delta == pytest.approx(3 / 8**2)


def test_a_report_of_a_stored_search_is_the_same():
    for grid in ({"dpoporp__epsilon": [0.5, 1.0]}, {"dpoporp__epsilon": [1.0, 1.0], "dpoporp__noise": ["gaussian"]}):
        search = GridSearchCV(SKETCHED, grid, cv=KFold(3)).fit(X, Y)
        assert privacy_report(pickle.loads(pickle.dumps(search))) == privacy_report(search)


def test_a_refit_that_is_switched_off_since_leaves_no_sum():
    """A fit that was told to make none would have left the best estimator of an earlier one, and look the same."""
    search = GridSearchCV(clone(MODEL), {}, cv=KFold(3)).fit(X, Y).set_params(refit=False)
    report = privacy_report(search)
    assert report.private is None and "search with refit=True" in reasons(report)


def test_a_fit_that_failed_leaves_no_sum():
    search = GridSearchCV(clone(SKETCHED), {}, cv=KFold(3)).fit(X, Y)
    search.set_params(cv=KFold(2), error_score="raise")
    with pytest.raises(ValueError, match="NaN"):
        search.fit(X * np.nan, Y)
    report = privacy_report(search)
    assert report.private is None and "fit it again" in reasons(report)


@pytest.mark.parametrize(("best", "is_known"), [(0, False), (1, True)])
def test_lists_of_grids_are_known_where_the_refit_has_what_the_others_had(best, is_known):
    grids = [{"epsilon": [0.3]}, {"C": [0.01]}]
    search = GridSearchCV(MODEL, grids, cv=KFold(2), refit=lambda results: best).fit(X, Y)
    report = privacy_report(search)
    assert (report.private is not None) == is_known == ("does not follow" not in reasons(report))
    if is_known:
        pairs = [PrivacyGuarantee(epsilon, 1e-6, adjacency=Adjacency("replace_one")) for epsilon in (0.3, 0.5, 0.5)]
        assert report.private.epsilon == compose(*pairs).epsilon


@pytest.mark.parametrize(
    ("model", "grid", "is_known"),
    [
        (SKETCHED, {"dpoporp": [clone(NOISY), clone(NOISY)]}, False),
        (SKETCHED, {"dpoporp": [clone(NOISY)], "dpoporp__epsilon": [0.5, 1.0]}, True),
        (SKETCHED, {"dpoporp": [clone(NOISY), "passthrough"]}, False),
        (SKETCHED, {"ridgeclassifier": [RidgeClassifier(), LogisticRegression(), clone(MODEL)]}, True),
        (SKETCHED, {"steps": [[("a", clone(NOISY)), ("b", RIDGE)], [("a", clone(SIGNS)), ("b", RIDGE)]]}, False),
        (make_pipeline(PublicScaler((0, 1)), MODEL), {"publicscaler__bounds": [(0, 1), (0, 2)]}, True),
        (make_pipeline(PublicScaler((0, 1)), MODEL), {"publicscaler": [PublicScaler((0, 1)), "passthrough"]}, False),
        (make_pipeline(PublicScaler((0, 1)), SKETCHED), {"publicscaler__bounds": [(0, 1), (0, 2)]}, False),
        (AMPClassifier(delta=1e-6), {"loss": ["log_loss", "huber_hinge"]}, True),
        (AMPClassifier(delta=1e-6), {"classes": [None, [0, 1]]}, False),
        (AMPClassifier(delta=1e-6), {"calibration": ["exact"]}, True),
        (AMPClassifier(delta=1e-6, calibration="published"), {}, False),
        (
            make_pipeline(make_column_transformer((NOISY, slice(0, 4))), RIDGE),
            {"columntransformer__remainder": ["drop", "passthrough"]},
            False,
        ),
        (SKETCHED, {"transform_input": [None, ["X_val"]]}, False),
        (MIDPRegressor(), {}, False),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_a_candidate_was_is_known_from_numbers_and_names(model, grid, is_known):
    report = privacy_report(GridSearchCV(model, grid, cv=KFold(2)).fit(X, Y))
    assert (
        (report.private is not None)
        == is_known
        == (not re.search("does not follow|not recorded|set after the fit", reasons(report)))
    )


VALUES = {
    "C": 0.01,
    "activation": "tanh",
    "batch_size": 4,
    "class_weight": {0: 0.5},
    "count_labels": False,
    "fit_intercept": False,
    "hidden_layer_sizes": (2,),
    "learning_rate": 0.1,
    "loss": "huber_hinge",
    "max_grad_norm": 2.0,
    "max_norm": 2.0,
    "momentum": 0.5,
    "multi_class": "ovr",
    "n_epochs": 3,
    "n_jobs": 1,
    "optimizer": "adam",
    "preconditioner": True,
    "threshold": 0.5,
    "tol": 1e-8,
    "verbose": 0,
}


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
def test_parameters_of_models_that_reports_pass_over_change_no_guarantee(kind):
    """All but numbers that are charged, and words on which assumptions depend."""
    plain = kind(delta=1e-6).fit(X, Y3).guarantee_
    seen = set(kind().get_params()) - {*_NUMBERS_OF_MODELS, *_WORDS_OF_MODELS}
    assert seen <= set(VALUES)
    for name in seen:
        guarantee = kind(delta=1e-6).set_params(**{name: VALUES[name]}).fit(X, Y3).guarantee_
        known = {"mechanism": plain.mechanism, "loss": plain.loss, "source": plain.source}
        assert replace(guarantee, **known) == plain, name


# Who else may release


class Rows(TransformerMixin, BaseEstimator):
    """Rows with Laplace noise by somebody else."""

    def __init__(self, per=None):
        self.per = per

    def fit(self, X, y=None):
        """State a guarantee."""
        adjacency = Adjacency("l1", 1.0) if self.per != "fit" else Adjacency("replace_one")
        self.guarantee_ = PrivacyGuarantee(1.0, 0.0, adjacency=adjacency, per=self.per)
        return self

    def transform(self, X):
        """Add noise."""
        return X + np.random.default_rng().laplace(size=X.shape)


def test_a_transformer_of_others_is_charged_at_each_transform_if_it_says_so():
    report = privacy_report(make_pipeline(Rows("transform"), RIDGE).fit(X, Y))
    assert [step.status for step in report.steps] == ["private", "post-processing"] and charged(report) == 1
    assert report.total.epsilon == 1.0
    for cv in (KFold(3), 3):
        report = privacy_report(GridSearchCV(make_pipeline(Rows("transform"), RIDGE), {}, cv=cv).fit(X, Y))
        assert report.private is None and "what Rows guaranteed in each fold was not recorded" in reasons(report)


def test_a_transformer_of_others_that_does_not_say_when_it_releases_is_not_covered():
    report = privacy_report(make_pipeline(Rows(), RIDGE).fit(X, Y))
    assert report.total is None and report.private is None
    assert [step.status for step in report.steps] == ["not covered"] * 2 and 'state per="fit"' in report.steps[0].remark


def test_rows_that_leave_a_transformer_with_a_private_fit_are_still_rows():
    report = privacy_report(make_pipeline(Rows("fit"), RIDGE).fit(X, Y))
    assert report.total is None and [step.status for step in report.steps] == ["private", "not covered"]
    report = privacy_report(make_pipeline(Rows("fit"), MODEL).fit(X, Y))
    assert report.total.epsilon == compose(Rows("fit").fit(X).guarantee_, clone(MODEL).fit(X, Y).guarantee_).epsilon
    report = privacy_report(make_pipeline(Rows("fit"), NOISY, RIDGE).fit(X, Y))
    assert report.total is None and report.private is None and "each fit changes" in reasons(report)


class Thrice(DPOPORP):
    """A sketch that was changed."""

    def fit(self, X, y=None):
        """Sketch three times."""
        self.seen_ = [DPOPORP.fit(self, X).transform(X) for _ in range(3)]
        return self


class _Looking:
    def transform(self, X):
        self.rows_ = X
        return super().transform(X)


class Looking(_Looking, DPOPORP):
    """A sketch with a further base."""


class Shadowing(DPOPORP):
    """A sketch whose constructor hides a method."""

    def __init__(self, n_components=4):
        super().__init__(n_components)
        self.transform = lambda X: X


class Renamed(DPOPORP):
    """The same sketch, with another default."""

    def __init__(self, n_components=4, *, epsilon=1.0):
        super().__init__(n_components, epsilon=epsilon)


@pytest.mark.parametrize("sketch", [Thrice(4), Looking(4), Shadowing(4)])
def test_a_class_that_inherits_a_guarantee_and_adds_to_it_is_not_covered(sketch):
    report = privacy_report(make_pipeline(sketch, RIDGE).fit(X, Y))
    assert report.total is None and report.private is None and charged(report) == 0
    assert "hold the private estimator inside" in report.steps[0].remark
    assert privacy_report(GridSearchCV(make_pipeline(sketch, RIDGE), {}, cv=KFold(2)).fit(X, Y)).private is None


REQUIRED = {"target_bounds": (0, 1), "estimator": MODEL, "param_grid": {}}
KINDS = [kind for name in skdprp.__all__ if isinstance(kind := getattr(skdprp, name), type) and hasattr(kind, "fit")]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "epsilon" in signature(kind).parameters])
def test_every_private_estimator_of_the_library_is_known_as_such(kind):
    rows = np.abs(X) / np.abs(X).max()
    required = {name: value for name, value in REQUIRED.items() if name in signature(kind).parameters}
    assert charged(privacy_report(kind(**required, epsilon=5.0).fit(rows, Y))) == 1


def test_a_class_with_another_constructor_only_is_what_it_inherits():
    assert privacy_report(make_pipeline(Renamed(), RIDGE).fit(X, Y)).total.epsilon == 1.0


class Repeating(Pipeline):
    """A pipeline that fits three times."""

    def fit(self, X, y=None):
        """Fit three times."""
        for _ in range(3):
            super().fit(X, y)
        return self


class RepeatingSearch(GridSearchCV):
    """A search that searches three times."""

    def fit(self, X, y=None, **params):
        """Fit three times."""
        for _ in range(3):
            super().fit(X, y)
        return self


def test_classes_that_derive_from_those_of_scikit_learn_may_do_what_they_like(released):
    report = privacy_report(Repeating([("sketch", clone(NOISY)), ("model", RIDGE)]).fit(X, Y))
    assert most(released) == 3 and report.private is None and "use Pipeline of scikit-learn" in report.steps[0].remark
    report = privacy_report(RepeatingSearch(SKETCHED, {}, cv=KFold(2)).fit(X, Y))
    assert most(released) == 9 and report.private is None and "use GridSearchCV" in reasons(report)


@pytest.mark.parametrize("scoring", [twice, {"a": twice, "b": "accuracy"}, lambda *args: {"a": twice(*args)}])
def test_scorers_that_are_functions_may_release_rows_any_number_of_times(released, scoring):
    search = GridSearchCV(SKETCHED, {}, cv=KFold(2), scoring=scoring, refit=lambda results: 0).fit(X, Y)
    report = privacy_report(search)
    assert most(released) > 3 and report.private is None and "use make_scorer" in reasons(report)
    report = privacy_report(GridSearchCV(MODEL, {}, cv=KFold(2), scoring=twice).fit(X, Y))
    assert report.private is None and "use make_scorer" in reasons(report)  # it may fit the model again


@pytest.mark.parametrize("model", [SKETCHED, MODEL])
@pytest.mark.parametrize("options", [{"cv": [(ALL, ALL)]}, {"scoring": twice}, {"cv": KFold(3)}, {}])
def test_a_cross_validation_adds_up_to_nothing_and_names_the_cure(model, options):
    report = privacy_report(cross_validate(model, X, Y, return_estimator=True, **options))
    assert report.total is None and report.private is None and charged(report) == 0
    assert "report GridSearchCV(model, {}, cv=KFold(5, shuffle=True))" in reasons(report)
    assert repr(report.steps[1].guarantee).startswith("(1.0, 1e-06)-DP" if model is SKETCHED else "(0.5, 1e-06)-DP")


def test_a_cross_validation_is_reported_from_its_estimators():
    with pytest.raises(ValueError, match="return_estimator=True"):
        privacy_report(cross_validate(MODEL, X, Y))


class Echo(BaseEstimator):
    """A model with rows to validate on."""

    def fit(self, X, y=None, X_val=None):
        """Look at further rows, as they leave the steps before."""
        return self


def test_a_pipeline_that_transforms_further_rows_adds_up_to_nothing(released):
    with config_context(enable_metadata_routing=True):
        model = Pipeline([("a", clone(NOISY)), ("b", Echo().set_fit_request(X_val=True))], transform_input=["X_val"])
        report = privacy_report(model.fit(X, Y, X_val=X))
    assert most(released) == 2 and report.private is None and "transform_input" in reasons(report)


class Monitor:
    """A callback that may score."""


@pytest.mark.parametrize("estimator", [SKETCHED, GridSearchCV(SKETCHED, {}, cv=KFold(2))])
def test_callbacks_may_score_rows(estimator):
    fitted = clone(estimator).fit(X, Y)
    fitted._skl_callbacks = [Monitor()]
    report = privacy_report(fitted)
    assert report.private is None and "callbacks" in reasons(report)


def test_a_frozen_sketch_is_charged_and_left_alone(released):
    frozen = FrozenEstimator(clone(NOISY).fit(X))
    guarantee = frozen.estimator.guarantee_
    report = privacy_report(GridSearchCV(make_pipeline(frozen, RIDGE), {}, cv=KFold(3)).fit(X, Y))
    assert charged(report) == most(released) == 4 and frozen.estimator.guarantee_ is guarantee


def test_totals_of_sketches_assume_that_lazy_ones_are_computed_once():
    """In worker processes copies of a sketch are lazy, of which no report hears: two draws were stated as one."""
    X = np.random.default_rng(0).normal(size=(20, 6))
    union = make_union(DPOPORP(4, random_state=0), DPOPORP(2, random_state=1), n_jobs=2).fit(X)
    union.transform(dask.array.from_array(X, chunks=(10, 6)))
    total = privacy_report(union).total
    assert total is None or any("each time that dask computes" in text for text in total.assumptions)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_a_draw_of_zeros_does_not_stand_for_the_draw_before():
    """A sketch that a union fits twice has two projections: one of zeros loses nothing, as was said of both."""
    sketch, X = DPRandomProjection(2, projection="very_sparse", density=0.05, random_state=0), np.eye(4)
    scales = {seed: clone(sketch).set_params(random_state=seed).fit(X).scale_ for seed in range(40)}
    some, none = (next(seed for seed, scale in scales.items() if (scale > 0) == is_any) for is_any in (True, False))
    sketch.set_params(random_state=some).fit_transform(X)
    assert privacy_report(sketch).total.epsilon == 1.0
    sketch.set_params(random_state=none).fit_transform(X)
    assert sketch.scale_ == 0 and privacy_report(sketch).total is None
    again = clone(sketch).set_params(random_state=some)
    assert privacy_report(again.fit(X).fit(X)).total.epsilon == 1.0


@pytest.mark.parametrize("n_calls", [1, 2])
def test_chunks_of_one_call_count_as_one_release(n_calls):
    """Twenty chunks counted as twenty releases, where a report follows from one: no total with the ledger of them."""
    X = np.random.default_rng(0).uniform(size=(90, 8))
    for sketch in (
        DPSignOPORP(8),
        make_pipeline(PublicScaler((0, 1)), DPOPORP(4)),
        make_union(DPOPORP(4), DPOPORP(4, random_state=1)),
    ):
        sketch.fit(X)
        with PrivacyLedger() as ledger:
            for _ in range(n_calls):
                transform_chunks(sketch, [X[:30], X[30:60], X[60:]], n_jobs=2)
        report, alone = privacy_report(sketch, ledger=ledger), privacy_report(sketch)
        if n_calls > 1:
            assert report.total is None and any(
                "the ledger has other releases as well" in line for line in report.not_covered
            )
        else:
            assert (report.total.epsilon, report.total.delta) == (alone.total.epsilon, alone.total.delta)
            assert any("chunks of one collection" in assumed for assumed in report.total.assumptions)
        with PrivacyLedger() as ledger:  # declared to be disjoint by who releases, and not by one call
            for name in "ab":
                with ledger.part(name):
                    sketch.transform(X[:40])
        assert privacy_report(sketch, ledger=ledger).total is None


class OfHouseholds(TransformerMixin, BaseEstimator):
    """A sketch of one's own, for households, whose rows may be in several chunks."""

    epsilon = 1.0

    def fit(self, X, y=None):  # noqa: D102
        self.guarantee_ = PrivacyGuarantee(1.0, 1e-3, unit="one household", per="transform")
        return self

    def transform(self, X):  # noqa: D102
        with entry(self.guarantee_, "OfHouseholds"):
            return np.asarray(X) + 1.0


def test_chunks_of_households_count_as_often_as_there_are_chunks():
    X = np.random.default_rng(0).uniform(size=(90, 8))
    sketch = OfHouseholds().fit(X)
    with PrivacyLedger() as ledger:
        sketch.transform(X)
    assert privacy_report(sketch, ledger=ledger).total.epsilon == 1.0
    with PrivacyLedger() as ledger:
        transform_chunks(sketch, [X[:30], X[30:60], X[60:]])
    assert privacy_report(sketch, ledger=ledger).total is None


def test_only_ledgers_count():
    with pytest.raises(TypeError, match="must be a PrivacyLedger, got int"):
        privacy_report(DPOPORP(1).fit([[1.0, 2.0]]), ledger=5)


def test_nothing_is_added_up_where_the_ledger_has_other_releases():
    """Of a model that was fitted twice a report said (1.0, 1e-06), beside a ledger of two such releases."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
    y = np.arange(60) % 2
    model = AMPClassifier(delta=1e-6, classes=[0, 1])
    search = GridSearchCV(model, {"epsilon": [0.5, 1.0]}, cv=KFold(2))
    for estimator in (model, search):
        with PrivacyLedger() as ledger:
            estimator.fit(X, y)
        assert privacy_report(estimator, ledger=ledger).private is not None
        with PrivacyLedger() as ledger:
            estimator.fit(X, y).fit(X, y)
        report = privacy_report(estimator, ledger=ledger)
        assert report.private is None and "by the ledger" in report.counted


@pytest.mark.parametrize(
    "public",
    [
        PublicScaler((0, 1)),
        PublicBinner((0, 1), n_bins=3),
        make_column_transformer((PublicScaler((0, 1)), slice(0, 8))),
    ],
)
def test_what_a_search_released_adds_up_with_a_later_sketch_behind_the_same_maps(public, digits):
    X, y = (part[:100] for part in digits)
    model = make_pipeline(public, DPOPORP(4, noise="laplace", random_state=0), LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=KFold(3)).fit(X, y)
    found, later = privacy_report(search).private, privacy_report(clone(model).fit(X, y)).private
    assert found.adjacency == later.adjacency
    assert compose(found, later).epsilon == pytest.approx(found.epsilon + later.epsilon)


def test_a_fit_that_is_given_the_labels_is_not_counted_for_one_that_is_not():
    """The ledger has a fit of as many numbers that found the labels in the rows; the one reported was outside of it."""
    model = AMPClassifier(delta=1e-6)
    with PrivacyLedger() as ledger:
        model.fit(X, Y)
    assert privacy_report(model, ledger=ledger).private.given == "the set of labels"
    listed = clone(model).set_params(classes=[0, 1]).fit(X, Y)
    assert privacy_report(listed, ledger=ledger).private is None
