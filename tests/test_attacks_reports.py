"""Attacks on reports on models: what is in their totals, and what these assume."""
# ruff: noqa: D101, D102

import copy
import json
import pickle
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from attacks import (
    X12,
    X24_HALF,
    X24_SMALL,
    X200_UNIFORM,
    X240,
    X400,
    Y12,
    Y24,
    Y200_UNIFORM,
    Y240,
    Y400,
    binary_model,
    binner_of_4,
    charged,
    model_of_norm_2,
    private_model,
    same_numbers,
    saved_and_loaded,
    sketch,
    winner_of_a_search,
)
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier, VotingRegressor
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, OrdinalEncoder

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    _noise,
    compose,
    make_table_preprocessor,
    privacy_report,
)
from skdprp._calibration import is_as_stated
from skdprp.audit._epsilon import clopper_pearson, epsilon_bound
from skdprp.guarantee import FIXED_BEFORE, ROWS_ARE_READ_ALONE, TYPES_ARE_PUBLIC, Adjacency
from skdprp.ledger import entry
from skdprp.sketch._base import BaseSketch, _public_numbers
from skdprp.testing._contents import fingerprints

pytestmark = pytest.mark.usefixtures("short_descents")

# Steps of others


class ScoresOfModels(TransformerMixin, BaseEstimator):
    """Scores by private models, which are in a list, or made where they are fitted."""

    def __init__(self, models=()):
        self.models = models

    def fit(self, X, y):
        """Fit all models."""
        models = self.models or [AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1])]
        self.fitted_ = [model.fit(X, y) for model in models]
        return self

    def transform(self, X):
        """Return a column of scores for each model."""
        return np.column_stack([model.decision_function(X) for model in self.fitted_])


@pytest.mark.parametrize("models", [(), [AMPClassifier(epsilon=9.0, delta=1e-6, classes=[0, 1])] * 2])
def test_private_models_that_an_unknown_step_keeps_in_a_list_are_part_of_what_private_steps_cost(models):
    """(1.0, 1e-6) for the private steps alone, of a pipeline in which another step released a model of epsilon 9."""
    report = privacy_report(make_pipeline(ScoresOfModels(models), private_model()).fit(X12, Y12))
    assert report.total is None
    assert report.private is None or report.private.epsilon >= 9.0


def test_the_last_step_of_a_private_pipeline_states_that_what_is_before_it_is_added_up():
    """Its weights tell what a step before it tells: epsilon is 0.8 at least, but for 1e-9, and 0.5 is stated."""
    # Half of the rows lie along one axis, and half along the other: one row decides which is the first component, and
    # so whether scores know the labels. The total of the pipeline, and a ledger, have both.
    n_of_each, n_trials = 2000, 120
    rows = np.zeros((2 * n_of_each + 1, 2))
    signs = np.tile([1.0, -1.0], n_of_each + 1)[: len(rows)]
    rows[: n_of_each + 1, 0], rows[n_of_each + 1 :, 1] = signs[: n_of_each + 1], signs[n_of_each + 1 :]
    labels = (signs > 0).astype(int)
    labels[n_of_each + 1 :] = np.tile([0, 0, 1, 1], n_of_each)[:n_of_each]  # which say nothing of the second axis
    other = rows.copy()
    other[0] = [0.0, 1.0]
    last = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1], count_labels=False)
    model = make_pipeline(DPPCA(1, epsilon=20.0, delta=1e-6), last)
    hits, false_alarms = (
        sum(abs(model.fit(X, labels)[-1].coef_[0, 0]) > 2.0 for _ in range(n_trials)) for X in (rows, other)
    )
    power, size = clopper_pearson(hits, n_trials, 5e-10)[0], clopper_pearson(false_alarms, n_trials, 5e-10)[1]
    stated, total = model[-1].guarantee_, privacy_report(model).total
    to_be_added = "private ones; the guarantee of each such fit is added to this one"
    is_to_be_added = any(to_be_added in text for text in stated.assumptions)
    assert is_to_be_added or epsilon_bound(power, size, stated.delta) <= stated.epsilon
    assert not any("no preceding step was fitted" in text and "private" not in text for text in total.assumptions)
    assert epsilon_bound(power, size, total.delta) <= total.epsilon


@pytest.mark.parametrize(
    "holder",
    [
        lambda: SelectFromModel(model_of_norm_2()),
        lambda: RFECV(model_of_norm_2(), cv=2),
        lambda: CalibratedClassifierCV(model_of_norm_2(), cv=2),
        lambda: StackingClassifier([("a", model_of_norm_2()), ("b", LogisticRegression())], cv=2),
        lambda: BaggingClassifier(model_of_norm_2(), n_estimators=2),
        lambda: OneVsOneClassifier(model_of_norm_2()),
        lambda: ClassifierChain(model_of_norm_2()),
    ],
)
def test_what_fits_private_models_as_often_as_it_likes_has_no_total(holder):
    """More entries are in a ledger than a report could count."""
    y = np.column_stack([Y400, Y400[::-1]]) if isinstance(holder(), ClassifierChain) else Y400
    report = privacy_report(holder().fit(X400, y))
    assert report.total is None
    assert report.private is None


@pytest.mark.parametrize(
    "fitted",
    [winner_of_a_search, lambda: DPRidge(target_bounds=(0, 1)).fit(X400, Y400), lambda: binner_of_4().fit(X400)],
)
def test_copies_of_what_is_fitted_state_what_was_stated(fitted):
    """A copy, a deep copy and a pickle have what they state beside what they were fitted with; a clone has neither."""
    model = fitted()
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for one in copies:
        assert all(is_as_stated(step) for step in getattr(one, "named_steps", {"": one}).values())
        assert privacy_report(one).total.epsilon == privacy_report(model).total.epsilon
    assert not hasattr(clone(model), "guarantee_")


class ReleasesTwice(DPOPORP):
    def transform(self, X):
        return (super().transform(X) + super().transform(X)) / 2


class SaysNotWhen(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.guarantee_ = replace(DPOPORP(3, epsilon=50.0).fit(X).guarantee_, per=None)
        return self

    def transform(self, X):
        return X


def fitted_again():
    union = make_union(DPOPORP(3, epsilon=50.0), DPSignOPORP(3, epsilon=0.1, adjacency="l1"))
    union.fit_transform(X24_SMALL)
    return union.set_params(dpoporp__epsilon=0.2)


UNKNOWN = {
    "a sketch that was fitted before": fitted_again,
    "a subclass of a sketch": lambda: make_union(ReleasesTwice(3, epsilon=50.0), DPSignOPORP(3, epsilon=0.1)),
    "one that does not say when it releases": lambda: make_union(SaysNotWhen(), DPSignOPORP(3, epsilon=0.1)),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_sum_of_private_steps_leaves_none_of_them_out(kind):
    """It is said to be None if it is not known, and is .1 where one of two private steps released at 50.

    Of sketches that were given lazy rows, or whose guarantee was set after the fit, there is none.
    """
    union = UNKNOWN[kind]()
    union.fit_transform(X24_SMALL)
    report = privacy_report(union)
    assert report.total is None and (report.private is None or report.private.epsilon >= 50)


UNITS = {
    ("one household", "replace_one"): None,
    ("one household", "l1"): None,
    ("one row", "replace_one"): "l1",
    ("one row", "l1"): "l1",
    ("one person", "replace_one"): "l1",
}


class OfAUnit(TransformerMixin, BaseEstimator):
    """A release of one's own, for a unit of one's own."""

    def __init__(self, unit="one row", relation="replace_one"):
        self.unit = unit
        self.relation = relation

    def fit(self, X, y=None):
        """State what is guaranteed."""
        bound = 1.0 if self.relation == "l1" else np.inf
        adjacency = Adjacency(self.relation, bound)
        self.guarantee_ = PrivacyGuarantee(1.0, 0.0, unit=self.unit, adjacency=adjacency, per="transform")
        return self

    def transform(self, X):
        """Release nothing of the rows."""
        return np.zeros((len(X), 1))


@pytest.mark.parametrize("unit", UNITS, ids=" ".join)
def test_units_of_ones_own_have_no_total_with_sketches_and_come_back_from_json(unit):
    """Only what implies a guarantee for a row is added to one."""
    model = make_pipeline(FeatureUnion([("a", OfAUnit(*unit)), ("b", DPOPORP(4))]), RidgeClassifier()).fit(
        X24_HALF, Y24
    )
    total, stated = privacy_report(model).total, OfAUnit(*unit).fit(X24_HALF).guarantee_
    assert (total and total.adjacency.relation) == UNITS[unit]
    assert total is None or (total.unit == "one row" and total.epsilon > 1.0)
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated
    for name in ("protected", "neighbours"):
        with pytest.raises(ValueError, match=name):
            PrivacyGuarantee.from_dict(stated.to_dict() | {name: "one thing"})


@pytest.mark.parametrize("relation", ["l1", "l2"])
def test_a_change_within_a_unit_of_ones_own_is_not_printed_as_one_within_a_row(relation):
    """Signs of ten blocks of a row lose 1 where one block changes, and 10 where a row changes as little in all."""
    unit = "one block of ten columns"
    stated = PrivacyGuarantee(1.0, 0.0, unit=unit, adjacency=Adjacency(relation, 1.0))
    with PrivacyLedger() as ledger, entry(stated, "signs"):
        pass
    assert [text for text in (repr(stated), repr(ledger), ledger._repr_html_()) if unit not in text] == []


# Random composites


def random_model(rng, depth):
    """Return a private classifier of rows, perhaps behind private transformers or in an ensemble."""
    epsilon = float(rng.choice([0.3, 1.0, 2.0]))
    kind = rng.integers(5 + (depth == 3)) if depth else 0  # what is frozen knows rows as they come
    if kind == 1:
        return VotingClassifier([(name, random_model(rng, depth - 1)) for name in "ab"])
    if kind == 2:
        return OneVsRestClassifier(random_model(rng, 0))
    if kind == 3:
        pair = [("a", DPScaler(epsilon=epsilon, bounds=(-5, 5), n_cells=8)), ("b", DPPCA(2, delta=1e-6))]
        return make_pipeline(FeatureUnion(pair), random_model(rng, depth - 1))
    if kind == 4:
        columns = [("a", DPPCA(2, epsilon=epsilon, delta=1e-6), [0, 1, 2]), ("b", Normalizer(), [2, 3])]
        return make_pipeline(ColumnTransformer(columns, sparse_threshold=0), random_model(rng, depth - 1))
    if kind == 5:
        scaler = FrozenEstimator(DPScaler(bounds=(-5, 5), n_cells=8, delta=1e-6).fit(X12))
        return make_pipeline(scaler, random_model(rng, depth - 1))
    if rng.random() < 0.5:
        return ProductNoiseOutputPerturbation(epsilon=epsilon, delta=0.0, classes=[0, 1])
    return DPSGDClassifier(epsilon=epsilon, delta=1e-6, classes=[0, 1], n_epochs=2)


def test_plans_reports_and_ledgers_agree_on_random_composites_of_models():
    """No release of a fit is left out, what is frozen is added, and a plan says beforehand what a report says after."""
    rng = np.random.default_rng(3)
    for _ in range(9):
        estimator = random_model(rng, 3)
        plan = privacy_report(estimator, X12, Y12)
        with PrivacyLedger() as ledger:
            estimator.fit(X12, Y12)
        report, of_fit = privacy_report(estimator), [entry.guarantee for entry in ledger.entries]
        n_frozen = sum("frozen" in step.step for step in report.steps if step.releases)
        assert charged(report) == charged(plan) == len(of_fit) + n_frozen
        assert report.private.epsilon == pytest.approx(plan.private.epsilon, rel=1e-6)
        assert report.private.epsilon >= compose(*of_fit, delta=report.private.delta).epsilon * (1 - 1e-9)


def random_composite(rng, depth, *, regresses):
    """Return a private model, perhaps a search, behind private steps or in an ensemble."""
    epsilon, delta = float(rng.choice([0.3, 1.0, 2.0])), rng.choice([1e-6, 1e-7])
    kind = rng.integers(5) if depth else 0
    inner = partial(random_composite, rng, depth - 1, regresses=regresses)
    if kind == 1:
        return (VotingRegressor if regresses else VotingClassifier)([(name, inner()) for name in "ab"])
    if kind == 2:
        searched = make_pipeline(DPPCA(2, epsilon=epsilon, delta=1e-6), random_composite(rng, 0, regresses=regresses))
        known = {"max_loss": 1.0} if regresses else {"classes": [0, 1]}
        return DPSearchCV(searched, {}, n_trials=0.5, epsilon=8.0, delta=delta, **known)
    if kind == 3:
        parts = FeatureUnion([("a", DPScaler(epsilon=epsilon, bounds=(-5, 5), n_cells=8)), ("b", Normalizer())])
        return make_pipeline(parts, inner())
    if kind == 4:
        nested = make_pipeline(Normalizer(), DPPCA(1, epsilon=epsilon, delta=delta))
        columns = [("a", nested, slice(0, 2)), ("b", DPBinner(3, bounds=(-5, 5), n_cells=8, sparse_output=False), [3])]
        return make_pipeline(ColumnTransformer(columns, sparse_threshold=0), inner())
    if regresses:
        mechanism = str(rng.choice(["auto", "moments", "projection"]))
        return DPRidge(
            target_bounds=(-1, 1), epsilon=epsilon, delta=delta, mechanism=mechanism, n_components=20, max_norm=3.0
        )
    return DPSGDClassifier(epsilon=epsilon, delta=delta, classes=[0, 1], n_epochs=2)


@pytest.mark.parametrize("regresses", [False, True])
def test_plans_reports_and_ledgers_agree_on_random_composites_with_searches(regresses):
    """Of regressors as well: no release of a fit is left out, and a plan says beforehand what a report says after."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(300, 5))
    y = np.tanh(rows[:, 0]) if regresses else (rows[:, 0] > 0).astype(int)
    for _ in range(2 if regresses else 4):
        estimator = random_composite(rng, 3, regresses=regresses)
        plan = privacy_report(estimator, rows, y)
        with PrivacyLedger() as ledger:
            estimator.fit(rows, y)
        report, of_fit = privacy_report(estimator), [entry.guarantee for entry in ledger.entries]
        assert charged(report) == charged(plan) == len(of_fit)
        assert report.private.epsilon == pytest.approx(plan.private.epsilon, rel=1e-6)
        assert report.private.epsilon >= compose(*of_fit, delta=report.private.delta).epsilon * (1 - 1e-9)


def _composites(rng):
    """Yield pipelines at random, of public, private and frozen steps, unions, ensembles, winners and searches."""

    def _step(depth):
        kind = rng.integers(10 if depth < 2 else 6)
        epsilon = float(rng.choice([0.3, 1.0, 2.0]))
        leaves = [
            binner_of_4(epsilon),
            DPScaler(bounds=(-3, 3), epsilon=epsilon, delta=1e-6),
            DPPCA(2, epsilon=epsilon, delta=1e-6),
            PublicScaler((-3, 3)),
            Normalizer(),
            FunctionTransformer(np.abs),
        ]
        if kind < 6:
            return leaves[kind]
        if kind == 6:
            return make_pipeline(_step(depth + 1), _step(depth + 1))
        if kind == 7:
            return FeatureUnion([("a", _step(depth + 1)), ("b", _step(depth + 1))])
        if kind == 8:
            parts = [("a", _step(depth + 1), [0, 1])]
            return ColumnTransformer(parts, remainder=_step(depth + 1), sparse_threshold=0)
        return FrozenEstimator(_step(depth + 1).fit(X400))

    def _last(depth):
        kind = rng.integers(9 if depth < 2 else 3)
        epsilon = float(rng.choice([0.3, 1.0, 2.0]))
        if kind < 3:
            own = {"epsilon": epsilon, "delta": 1e-6, "classes": [0, 1]}
            return [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation][kind](**own)
        if kind == 3:
            return FixedThresholdClassifier(_last(2), threshold=0.4, response_method="predict_proba")
        if kind == 4:
            return VotingClassifier([("a", _last(depth + 1)), ("b", _last(depth + 1))])
        if kind == 5:
            return OneVsRestClassifier(_last(depth + 1))
        if kind == 6:
            return make_pipeline(_step(depth + 1), _last(depth + 1))
        if kind == 7:
            return DPSearchCV(
                make_pipeline(binner_of_4(), model_of_norm_2()), {}, n_trials=1, epsilon=epsilon + 1, delta=1e-4
            )
        winner = winner_of_a_search()
        return make_pipeline(*map(FrozenEstimator, winner)) if rng.random() < 0.5 else FrozenEstimator(winner)

    while True:
        yield lambda: make_pipeline(_step(0), _last(0))


def test_no_total_of_any_pipeline_is_less_than_what_a_ledger_has_and_no_plan_is_less_than_its_fit():
    """Frozen steps and winners included, which were fitted while the ledger was open."""
    n_tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in _composites(np.random.default_rng(3)):
            with PrivacyLedger() as ledger:
                try:
                    model = make()
                    planned = privacy_report(model, X400, Y400).private
                    model.fit(X400, Y400)
                except ValueError:  # what is frozen takes rows of another width
                    continue
            spent = privacy_report(model)
            if spent.private is not None:
                assert sum(step.calls for step in spent.steps) >= len(ledger.entries)
                assert spent.private.epsilon >= compose(*(one.guarantee for one in ledger.entries)).epsilon * (1 - 1e-9)
                assert planned.epsilon >= spent.private.epsilon * (1 - 1e-6)
            n_tried += 1
            if n_tried == 2:
                return


# Totals


@pytest.mark.parametrize(
    ("estimator", "change"),
    [
        (make_union(sketch(), sketch(20.0)), {"dpoporp-2": "drop"}),
        (Pipeline([("a", sketch(20.0)), ("b", sketch(0.1))]), {"a": "passthrough"}),
    ],
)
def test_taking_a_step_out_after_the_fit_takes_back_no_release(estimator, change):
    """What a fit released stays released; a report that cannot know it any more states no sum."""
    fitted = make_pipeline(estimator, LogisticRegression()).fit(X12, Y12)
    before = privacy_report(fitted).private
    fitted[0].set_params(**change)
    after = privacy_report(fitted).private
    assert after is None or after.epsilon >= before.epsilon


def _again(winner, **parameters):
    return winner.set_params(**parameters).fit(X240, Y240)


class FitsAgain(ClassifierMixin, BaseEstimator):
    """Fits what it holds, and no clone of it."""

    def __init__(self, held):
        self.held = held

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        _again(self.held, epsilon=0.01)
        return self

    def predict(self, X):
        return self.held.predict(X)


def _again_in_another_search(winner):
    GridSearchCV(FitsAgain(winner), {}, cv=KFold(2)).fit(X240, Y240)
    return winner


@pytest.mark.parametrize(
    ("model", "again"),
    [
        (private_model(epsilon=5.0), partial(_again, epsilon=0.01)),
        (make_pipeline(Normalizer(), private_model(epsilon=5.0)), partial(_again, ampclassifier__epsilon=0.01)),
        (
            make_pipeline(Normalizer(), private_model(epsilon=5.0)),
            partial(_again, ampclassifier=private_model(epsilon=0.01)),
        ),
        (
            make_pipeline(
                ColumnTransformer([("b", binner_of_4().set_params(epsilon=5.0), [0, 1])]), LogisticRegression()
            ),
            partial(_again, columntransformer__b__epsilon=0.01),
        ),
        (
            make_pipeline(
                ColumnTransformer([("b", binner_of_4().set_params(epsilon=5.0), [0, 1])]), LogisticRegression()
            ),
            lambda winner: winner[0].set_params(b__epsilon=0.01).fit(X240),
        ),
        (private_model(epsilon=5.0), lambda winner: _again(clone(winner), epsilon=0.01)),
        (private_model(epsilon=5.0), _again_in_another_search),
    ],
    ids=["model", "step", "another step", "in columns", "columns alone", "another winner", "in another search"],
)
def test_a_winner_that_was_fitted_again_says_nothing_of_the_folds_of_its_search(model, again):
    """Its folds at epsilon = 5 were reported at the .01 of the later fit: .05 in all, of 25.01."""
    search = GridSearchCV(model, {}, cv=KFold(3)).fit(X240, Y240)
    total = privacy_report(search).private
    assert total.epsilon > 10.0 and privacy_report(pickle.loads(pickle.dumps(search))).private == total
    again_fitted = again(search.best_estimator_)
    if type(again_fitted) is type(search.best_estimator_):
        search.best_estimator_ = again_fitted
    report = privacy_report(search)
    assert report.private is None and "was fitted after the search" in str(report)
    assert privacy_report(search.fit(X240, Y240)).private.epsilon == total.epsilon


def test_steps_side_by_side_that_one_search_released_count_once(tmp_path):
    """Neither branch knew what the other one states: a search of 2 was counted as 3; two of them are 4 or less."""
    union = FeatureUnion([("bins", binner_of_4()), ("scaled", DPScaler(bounds=(-3, 3), epsilon=1.0, delta=1e-6))])
    search = DPSearchCV(make_pipeline(union, model_of_norm_2()), {}, n_trials=1, epsilon=2.0, delta=1e-4)
    winner, other = search.fit(X400, Y400).best_estimator_, clone(search).fit(X400, Y400).best_estimator_
    for model in (winner, saved_and_loaded(winner, tmp_path).estimator):
        assert privacy_report(model).total.epsilon == 2.0
        assert sum(step.calls for step in privacy_report(model).steps) == 1
    both = FeatureUnion([("a", FrozenEstimator(winner[0])), ("b", FrozenEstimator(other[0]))])
    both = make_pipeline(both, FrozenEstimator(winner[1])).fit(X400, Y400)
    assert 3.0 < privacy_report(both).total.epsilon <= 4.0
    assert sum(step.calls for step in privacy_report(both).steps) == 2


def test_reports_count_what_ensembles_release_of_classifiers_and_of_regressors_in_their_place():
    """One against the rest takes a regressor as well."""
    ridge, labels = DPRidge(target_bounds=(0, 1), delta=1e-5), np.digitize(X200_UNIFORM[:, 0], [-0.3, 0.3])
    for model, y in [
        (OneVsRestClassifier(ridge), labels),
        (OneVsRestClassifier(ridge), Y200_UNIFORM),
        (OneVsRestClassifier(binary_model()), labels),
        (
            VotingClassifier(
                [("a", binary_model()), ("b", make_pipeline(DPScaler(bounds=(-3, 3), delta=1e-5), binary_model()))]
            ),
            Y200_UNIFORM,
        ),
        (FixedThresholdClassifier(binary_model()), Y200_UNIFORM),
    ]:
        plan = privacy_report(model, X200_UNIFORM, y)
        with PrivacyLedger() as ledger:
            model.fit(X200_UNIFORM, y)
        report = privacy_report(model, ledger=ledger)
        assert sum(step.calls for step in report.steps) == len(ledger.entries)
        assert report.total is not None and report.total.epsilon == plan.total.epsilon
        assert ledger.total()[0].guarantee.epsilon <= report.total.epsilon * (1 + 1e-9)


def _table(rng):
    """Rows of numbers and texts, with missing values, unknown categories, zeros, and columns that are empty."""
    numbers = {name: rng.choice([0, 0, 1.5, -3, np.nan, 1e6, 7], 40) * rng.integers(2) for name in ("a", "b")}
    texts = {name: rng.choice(["x", "y", "zz", None], 40).astype(object) for name in ("s", "t")}
    return pd.DataFrame(numbers | texts)


def _pipelines(rng):
    """Yield pipelines of a table: public and private steps, and a sketch or a private model behind them."""
    fill = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
    listed = {"categories": [["x", "y"], ["x"]]}
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -2}
    of_numbers = [
        PublicScaler((-1, 5), fill="middle"),
        PublicBinner((0, 5), n_bins=3),
        make_pipeline(fill, Normalizer()),
        make_pipeline(fill, FunctionTransformer(np.tanh)),
        DPBinner(3, bounds=(-5, 5), delta=1e-6),
        DPScaler(bounds=(-5, 5), delta=1e-6),
    ]
    of_texts = [
        OneHotEncoder(**listed, handle_unknown="ignore", sparse_output=False),
        OrdinalEncoder(**listed, **unknown),
        DPBinner(3, delta=1e-6),
    ]
    sketches = [DPOPORP(3, random_state=0), DPSignOPORP(3, adjacency="l1", random_state=0)]
    last = [DPPCA(1, delta=1e-6), DPMoments(delta=1e-6), make_pipeline(PCA(2), GaussianNB())]
    while True:
        numbers, texts = of_numbers[rng.integers(6)], of_texts[rng.integers(3)]
        columns = ColumnTransformer([("n", numbers, ["a", "b"]), ("t", texts, ["s", "t"])], sparse_threshold=0)
        sketch = sketches[rng.integers(2)]
        behind = [FeatureUnion([("p", sketch), ("q", sketch)]), sketch, "passthrough"][rng.integers(3)]
        yield make_pipeline(columns, *[behind] * (behind != "passthrough"), last[rng.integers(3)])


def test_all_that_a_pipeline_with_a_total_holds_follows_from_what_it_released(monkeypatch):
    """Of tables of entirely other values, of the same types, where all releases are the same numbers."""
    for name in ("add_gaussian", "add_laplace"):
        monkeypatch.setattr(_noise, name, same_numbers)
    monkeypatch.setattr(
        BaseSketch,
        "_release",
        lambda sketch, rows, dtype: _public_numbers(len(rows), sketch.projection_.n_components, dtype),
    )
    # Of names that nobody has listed, noise decides which of those that occur are named: here none.
    none_named = lambda counts, *_: (np.zeros(len(counts)), np.zeros(len(counts), dtype=bool))  # noqa: E731
    monkeypatch.setattr("skdprp.histograms._estimator.add_thresholded_noise", none_named)
    drawn = ("_unlike_any_other", "_fit_name", "_fitted_behind")  # of which the last has the second of sketches
    rng, n_totals = np.random.default_rng(0), 0
    for model, _ in zip(_pipelines(rng), range(18), strict=False):
        fitted = [clone(model).fit(_table(rng), np.arange(40) % 2) for _ in range(2)]
        if privacy_report(fitted[0]).total is not None:
            one, other = map(fingerprints, fitted)
            unlike = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
            assert not [name for name in unlike if not name.endswith(drawn)], model
            n_totals += 1
    assert n_totals > 5


@pytest.mark.parametrize(
    "cv",
    [
        KFold(3),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
        ShuffleSplit(3, test_size=0.3, random_state=0),
        TimeSeriesSplit(3),
        TimeSeriesSplit(3, max_train_size=4, gap=2),
        PredefinedSplit(np.arange(24) % 4 - 1),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_no_row_pays_more_in_a_search_than_its_report_says(cv):
    """What the entries of a ledger cost the row that was in most fits, fold by fold, by an exact composition."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (24, 2))
    model = make_pipeline(
        DPScaler(bounds=(-1, 1), epsilon=0.3, delta=1e-6), DPRidge(target_bounds=(-1, 1), mechanism="moments")
    )
    grid = {"dpridge__epsilon": [0.1, 2.0], "dpridge__delta": [1e-4, 1e-6]}
    search = GridSearchCV(model, grid, cv=cv)
    with PrivacyLedger() as ledger:
        search.fit(X, X[:, 0])
    spent, trains = iter([entry.guarantee for entry in ledger.entries]), [train for train, _ in cv.split(X)]
    fits = [(train, [next(spent), next(spent)]) for _ in range(4) for train in trains]
    fits.append((np.arange(24), [next(spent), next(spent)]))
    stated = privacy_report(search).private
    for row in {int(place) for train in trains for place in train[:2]} | {0, 23}:
        paid = [one for train, pair in fits if row in train for one in pair]
        assert compose(*paid, delta=stated.delta).epsilon <= stated.epsilon * (1 + 1e-9)


AMP, RIDGE = AMPClassifier(classes=[0, 1], delta=1e-6), DPRidge(target_bounds=(0, 1), delta=1e-6)


@pytest.mark.parametrize(
    "ensemble",
    [
        VotingClassifier([("a", AMP)]),
        OneVsRestClassifier(AMP),
        MultiOutputClassifier(AMP),
        MultiOutputRegressor(RIDGE),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_no_total_of_an_ensemble_leaves_out_that_lazy_labels_may_be_those_of_other_rows(ensemble):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(size=200), "k": rng.integers(9, size=200), "y": np.arange(200) % 2})
    rows = dd.from_pandas(table, npartitions=3).shuffle("k", shuffle_method="disk")
    y = rows[["y"]] if type(ensemble).__name__.startswith("MultiOutput") else rows["y"]
    try:
        ensemble.fit(rows[["a"]].compute().to_numpy(), y)
    except (TypeError, ValueError):
        return
    total = privacy_report(ensemble).total
    assert total is None or any("dask" in text for text in total.assumptions)


@pytest.mark.parametrize("kind", ["calibrated", "bagged", "stacked", "chained", "selected", "transformed", "imputed"])
@pytest.mark.filterwarnings("ignore")
def test_no_composite_that_fits_private_models_unseen_has_a_sum(kind):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import BaggingClassifier, StackingClassifier
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.feature_selection import SelectFromModel
    from sklearn.impute import IterativeImputer
    from sklearn.multioutput import ClassifierChain
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(60, 3)), np.arange(60) % 2
    model = {
        "calibrated": CalibratedClassifierCV(AMP, cv=2),
        "bagged": BaggingClassifier(AMP, 2),
        "stacked": StackingClassifier([("a", AMP)], final_estimator=AMP, cv=2),
        "chained": ClassifierChain(AMP),
        "selected": make_pipeline(SelectFromModel(AMP), AMP),
        "transformed": TransformedTargetRegressor(RIDGE),
        "imputed": make_pipeline(IterativeImputer(RIDGE, max_iter=1), AMP),
    }[kind]
    report = privacy_report(model.fit(X, np.column_stack([y, 1 - y]) if kind == "chained" else y))
    assert report.total is None and report.private is None


def test_a_candidate_whose_solver_failed_once_noise_was_drawn_is_charged(monkeypatch):
    """The ledger has its fits, and the report took them for refused ones."""
    from sklearn.model_selection import KFold

    from skdprp.linear_model import _erm

    monkeypatch.setattr(_erm, "_MOST_STEPS", 300)
    rows = np.array([[1.0, 1e-6], [1.0, -1e-6]]) @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    model = ProductNoiseOutputPerturbation(delta=1e-6, loss="huber_hinge", classes=[0, 1], fit_intercept=False)
    with PrivacyLedger() as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"C": [1e12, 1.0]}, cv=KFold(2)).fit(np.tile(rows, (2, 1)), [1, 0, 1, 0])
    private = privacy_report(search).private
    assert len(ledger.entries) == 5
    assert private is None or private.epsilon >= 3.0  # a row is in one of two folds of both candidates, and the refit


def _spent_by_rows(search, ledger, X, y):
    """Sum of the epsilons of all fits that saw each row: candidates in folds one after the other, and the refit."""
    folds, spent = list(search.cv.split(X, y)), np.zeros(len(X))
    candidates, entries = len(search.cv_results_["params"]), [one.guarantee.epsilon for one in ledger.entries]
    n_steps = len(entries) // (candidates * len(folds) + 1)
    of_fits = np.reshape(entries, (-1, n_steps)).sum(axis=1)
    for place, epsilon in enumerate(of_fits[:-1]):
        spent[folds[place % len(folds)][0]] += epsilon
    return spent + of_fits[-1]


@pytest.mark.parametrize("kind", ["KFold", "LeaveOneOut", "TimeSeriesSplit", "PredefinedSplit"])
@pytest.mark.parametrize("steps", [1, 2])
def test_no_row_spends_more_in_the_folds_of_a_search_than_its_report_adds_up(kind, steps):
    from sklearn import model_selection

    X, y = X200_UNIFORM[:12], Y200_UNIFORM[:12]
    arguments = {"KFold": (4,), "LeaveOneOut": (), "TimeSeriesSplit": (3,), "PredefinedSplit": (np.arange(12) % 4 - 1,)}
    model = private_model(noise="gaussian")
    model, name = (
        (model, "") if steps == 1 else (make_pipeline(DPScaler(bounds=(-3, 3), delta=1e-6), model), "ampclassifier__")
    )
    search = GridSearchCV(model, {f"{name}epsilon": [0.5, 2.0]}, cv=getattr(model_selection, kind)(*arguments[kind]))
    with PrivacyLedger() as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
    report = privacy_report(search, ledger=ledger)
    assert _spent_by_rows(search, ledger, X, y).max() <= report.private.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("model", [BaggingClassifier(AMPClassifier(classes=[0, 1]), n_estimators=2)])
def test_what_fits_a_private_model_unseen_has_no_sum(model):
    assert privacy_report(model.fit(X200_UNIFORM, Y200_UNIFORM)).private is None


def test_members_of_ensembles_cost_no_less_than_a_ledger_has():
    for model, y in (
        (VotingClassifier([("a", AMPClassifier(delta=1e-6)), ("b", DPSGDClassifier(delta=1e-6))]), Y200_UNIFORM),
        (MultiOutputClassifier(AMPClassifier(delta=1e-6)), np.c_[Y200_UNIFORM, 1 - Y200_UNIFORM]),
    ):
        with PrivacyLedger() as ledger:
            model.fit(X200_UNIFORM, y)
        report = privacy_report(model, ledger=ledger)
        assert report.total.given
        assert report.total.epsilon >= ledger.total()[0].guarantee.epsilon * (1 - 1e-9)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (AMPClassifier(classes=[0, 1], noise="gaussian"), {"count_labels": [True, False]}),
        (AMPClassifier(classes=[0, 1], noise="product"), {"epsilon": [0.5, 1.0]}),
        (ProductNoiseOutputPerturbation(classes=[0, 1], radius="chi1"), {"epsilon": [0.5, 1.0]}),
        (
            DPSearchCV(AMPClassifier(classes=[0, 1], noise="gaussian"), {"max_norm": [1.0, 2.0]}, n_trials=2),
            {"epsilon": [0.5, 1.0]},
        ),
        (
            make_pipeline(
                make_union(DPPCA(1), DPScaler(bounds=(-3, 3))), AMPClassifier(classes=[0, 1], noise="gaussian")
            ),
            {"featureunion__dppca__epsilon": [1.0, 2.0], "ampclassifier__delta": [1e-4, 1e-3]},
        ),
    ],
)
def test_no_row_of_a_search_in_folds_pays_more_than_its_report_says(model, grid):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    with PrivacyLedger() as ledger:
        search = GridSearchCV(model, grid, cv=KFold(3)).fit(rng.uniform(size=(60, 2)), rng.integers(0, 2, 60))
    n_steps = sum(step.releases > 0 for step in privacy_report(search).steps)
    (*in_folds,) = ledger.entries[:-n_steps]
    refit = ledger.entries[-n_steps:]
    # Each row is in two of three folds of each candidate, and in the refit.
    spent = 2 / 3 * sum(one.guarantee.epsilon for one in in_folds) + sum(one.guarantee.epsilon for one in refit)
    delta = 2 / 3 * sum(one.guarantee.delta for one in in_folds) + sum(one.guarantee.delta for one in refit)
    total = privacy_report(search).private
    assert total.epsilon >= spent * (1 - 1e-12)
    assert total.delta >= delta * (1 - 1e-12)
    assert privacy_report(search, ledger=ledger).private is not None
    assert Counter(one.estimator for one in refit).total() == n_steps


DELTA23 = {"delta": 1e-5}


BINARY23 = {**DELTA23, "classes": [0, 1]}


def test_searches_within_others_cost_no_less_than_their_rows_pay():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (60, 3)), np.arange(60) % 2
    inner = DPSearchCV(private_model(noise="gaussian"), {"max_norm": [1.0, 2.0]}, epsilon=2.0, delta=1e-5, n_trials=2)
    binned = make_pipeline(DPBinner(4, bounds=(-3, 3), **DELTA23), AMPClassifier(noise="gaussian", **BINARY23))
    for model, grid, epsilons in (
        (inner, {"epsilon": [1.0, 3.0]}, 1.0 + 3.0 + 3.0),
        (binned, {"dpbinner__epsilon": [0.5, 1.0]}, 0.5 + 1.0 + 1.0 + 3 * 1.0),
    ):
        with PrivacyLedger() as ledger:
            search = GridSearchCV(model, grid, cv=KFold(2)).fit(X, y)
        report = privacy_report(search, ledger=ledger)
        # A row is in one fold of two of each candidate, and in the refit, which is charged as the costliest.
        assert report.total is None and report.private.epsilon >= 0.98 * epsilons
    nested = GridSearchCV(
        GridSearchCV(AMPClassifier(**BINARY23), {"max_norm": [1.0, 2.0]}), {"refit": [True]}, cv=KFold(2)
    )
    several = GridSearchCV(
        OneVsRestClassifier(AMPClassifier(**BINARY23)), {"estimator__max_norm": [1.0, 2.0]}, cv=KFold(2)
    )
    assert privacy_report(nested.fit(X, y)).private is None
    assert privacy_report(several.fit(X, np.arange(60) % 3)).private is None


COMPOSITES = {
    "voting between": lambda: make_pipeline(
        VotingClassifier([("a", private_model())], voting="soft"), private_model(noise="gaussian")
    ),
    "side by side": lambda: make_pipeline(
        make_union(DPScaler(bounds=(-3, 3), delta=1e-6), DPPCA(2, delta=1e-6), PublicScaler((-1, 1))),
        DPSGDClassifier(n_epochs=2, delta=1e-6, classes=[0, 1]),
    ),
    "columns": lambda: make_pipeline(
        ColumnTransformer(
            [
                ("a", DPScaler(bounds=(-3, 3), delta=1e-6), [0, 1]),
                ("b", DPBinner(3, bounds=(-3, 3), delta=1e-6, sparse_output=False), [1, 2]),
            ],
            remainder="passthrough",
            sparse_threshold=0,
        ),
        DPSGDClassifier(n_epochs=2, delta=1e-6, classes=[0, 1]),
    ),
    "a search and a model": lambda: VotingClassifier(
        [
            ("a", DPSearchCV(private_model(), {"max_norm": [1.0, 2.0]}, n_trials=2, delta=1e-6)),
            ("b", private_model(epsilon=2.0)),
        ]
    ),
    "a search behind a scaler": lambda: make_pipeline(
        DPScaler(bounds=(-3, 3), epsilon=0.3, delta=1e-6),
        FixedThresholdClassifier(private_model(noise="gaussian"), threshold=0.3),
    ),
    "two targets": lambda: MultiOutputRegressor(DPRidge(target_bounds=(0, 1), delta=1e-6)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMPOSITES)
def test_reports_of_composites_state_what_their_ledgers_add_up(name):
    """The total of a report is the exact one of as many entries, and its plan and budget are that of the fit."""
    X, y = X240, Y240
    y = np.column_stack([y, 1 - y]) if name == "two targets" else y
    model = COMPOSITES[name]()
    if name == "voting between":
        planned = None
        with pytest.raises(ValueError, match="VotingClassifier learns from labels before the last step"):
            privacy_report(model, X, y)
    else:
        planned = privacy_report(model, X, y)
    with PrivacyLedger() as ledger:
        model.fit(X, y)
    report, total = privacy_report(model, ledger=ledger), ledger.total()[0].guarantee
    assert report.total is not None
    assert planned is None or planned.total.epsilon == pytest.approx(report.total.epsilon, rel=1e-9)
    assert (report.total.epsilon, report.total.delta) == pytest.approx((total.epsilon, total.delta), rel=1e-9)
    assert {TYPES_ARE_PUBLIC, ROWS_ARE_READ_ALONE} <= set(report.total.assumptions)


@pytest.mark.filterwarnings("ignore")
def test_a_search_over_private_bins_within_a_preprocessor_is_charged_for_the_worst_row():
    """Names of parameters reach the remainder of a ColumnTransformer; each row is in so many training sets."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(size=240), "b": rng.normal(size=240), "c": rng.choice(list("xyz"), 240)})
    model = make_pipeline(make_table_preprocessor({"a": (0, 1)}, epsilon=0.3), private_model(noise="gaussian"))
    grid = {"pipeline__columns__remainder__epsilon": [0.1, 0.9], "ampclassifier__epsilon": [2.0]}
    for cv, n_fits in ((KFold(2), 1), (RepeatedKFold(n_splits=2, n_repeats=2, random_state=0), 2)):
        with PrivacyLedger() as ledger:
            search = GridSearchCV(model, grid, cv=cv).fit(table, table["a"] > 0.5)
        private = privacy_report(search, ledger=ledger).private
        sums = [sum(params.values()) for params in search.cv_results_["params"]]
        assert private.epsilon == pytest.approx(n_fits * sum(sums) + max(sums))
        deltas = 1e-6 + 1 / len(next(cv.split(table))[0]) ** 2
        assert private.delta == pytest.approx((n_fits * len(sums) + 1) * deltas)


@pytest.mark.filterwarnings("ignore")
def test_steps_of_the_winner_of_a_search_that_are_frozen_before_another_model_count_as_the_search():
    """A scaler that was chosen by scores costs what the search did, and not its own epsilon."""
    search = DPSearchCV(
        make_pipeline(DPScaler(bounds=(-3, 3)), private_model()),
        {"dpscaler__epsilon": [0.1, 0.2]},
        n_trials=2,
        epsilon=0.7,
        delta=1e-6,
    ).fit(X240, Y240)
    model = make_pipeline(FrozenEstimator(search.best_estimator_[0]), private_model(epsilon=1.0)).fit(X240, Y240)
    report = privacy_report(model)
    assert [step.guarantee.epsilon for step in report.steps] == [0.7, 1.0]
    assert 1.0 < report.total.epsilon <= 1.7


@pytest.mark.filterwarnings("ignore")
def test_what_learns_from_private_predictions_without_noise_has_no_total():
    """Predictions of private weights for private rows are no release."""
    model = make_pipeline(VotingClassifier([("a", private_model())], voting="soft"), LogisticRegression()).fit(
        X240, Y240
    )
    assert privacy_report(model).total is None


X60 = np.random.default_rng(0).normal(size=(60, 3))


Y60 = np.arange(60) % 2


ROW_REPLACED = Adjacency("replace_one")


SAME_OBJECT = DPPCA(3, epsilon=0.7, delta=1e-3)


ONE_CLASSIFIER = AMPClassifier(epsilon=0.5, delta=1e-3, classes=[0, 1], noise="gaussian")


ONE_BINNER = DPBinner(4, bounds=(-3, 3), epsilon=0.7, delta=1e-3)


IN_TWO_PLACES = {
    "in a row": Pipeline([("a", SAME_OBJECT), ("b", SAME_OBJECT), ("c", ONE_CLASSIFIER)]),
    "side by side": make_pipeline(FeatureUnion([("a", ONE_BINNER), ("b", ONE_BINNER)]), ONE_CLASSIFIER),
    "members": VotingClassifier([("a", ONE_CLASSIFIER), ("b", ONE_CLASSIFIER)]),
}


@pytest.mark.parametrize("name", IN_TWO_PLACES)
def test_one_object_in_two_places_is_paid_for_both_or_has_no_total(name):
    """No total is less than what a ledger counts of the same fit."""
    with PrivacyLedger() as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = IN_TWO_PLACES[name].fit(X60, Y60)
    counted, report = ledger.total()[0].guarantee, privacy_report(model)
    assert len(ledger.entries) == {"in a row": 3, "side by side": 3, "members": 2}[name]
    if report.total is not None:
        assert report.total.epsilon >= counted.epsilon * (1 - 1e-9)
        assert report.total.delta >= counted.delta * (1 - 1e-9)


def test_the_total_of_a_pipeline_of_fitted_steps_says_that_their_parameters_were_fixed_before():
    """The kind of noise of the second was chosen by the first release: both had one total, and needed more delta."""
    pca = DPPCA(2, epsilon=1.0, delta=0.005).fit(X60)
    model = DPRidge(epsilon=1.0, delta=0.005, target_bounds=(0, 1), mechanism="moments").fit(pca.transform(X60), Y60)
    total = privacy_report(Pipeline([("pca", pca), ("model", model)])).total
    assert total.epsilon < 2.0 and FIXED_BEFORE in total.assumptions
    assert FIXED_BEFORE not in privacy_report(make_pipeline(model)).total.assumptions


def test_a_plan_fixes_what_its_total_assumes_but_what_is_frozen_was_released_before():
    """A private search, which makes a plan of each candidate, said that the number of its secret trials was fixed."""
    binner, model = DPBinner(4, bounds=(-3, 3), epsilon=0.5), private_model(epsilon=0.5, noise="gaussian")
    table = pd.DataFrame({"a": X60[:, 0], "b": X60[:, 1]})
    assert FIXED_BEFORE not in privacy_report(make_pipeline(binner, model), table, Y60).total.assumptions
    frozen = FrozenEstimator(clone(binner).fit(table))
    assert FIXED_BEFORE in privacy_report(make_pipeline(frozen, model), table, Y60).total.assumptions
    assert FIXED_BEFORE not in privacy_report(frozen).total.assumptions  # of one release
    search = DPSearchCV(make_pipeline(binner, model), {"dpbinner__n_bins": [4]}, n_trials=1, epsilon=2.0, delta=1e-4)
    assert FIXED_BEFORE not in search.fit(table, Y60).guarantee_.assumptions


def test_an_estimator_whose_fit_was_taken_away_is_as_fitted_as_before():
    """How many columns it selects tells neighbours apart."""
    fitted = LogisticRegression().fit(X60, Y60)
    select = SelectFromModel(fitted, prefit=True, threshold=1e-9)
    pipeline = make_pipeline(DPSignOPORP(3, random_state=0), select).fit(X60)
    assert privacy_report(pipeline).total is None
    fitted.fit = None
    assert privacy_report(pipeline).total is None


def test_names_of_steps_and_of_releases_run_nothing_where_they_are_shown():
    """What a user has called a step, a release or a condition is text on a page."""
    script = "<script>alert(1)</script>"
    model = Pipeline([(script, clone(ONE_CLASSIFIER))]).fit(X60, Y60)
    with PrivacyLedger() as ledger:
        with entry(PrivacyGuarantee(1.0, 0.0, adjacency=ROW_REPLACED, given="<b>x</b>"), script):
            pass
        shown = ledger._repr_html_() + privacy_report(model)._repr_html_()
    assert "<script>" not in shown
    assert "<b>x" not in shown
