# ruff: noqa: D101, D102
"""Histories of fits, replayed with other noise in one of their releases: a total has all releases that matter.

What a report adds up it infers. Here nothing is inferred: if what a pipeline has learnt comes out otherwise where one
release had other noise, it depends on that release, and its report has to charge it.
"""

import copy
import os
import pickle
import random
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPScaler,
    DPSignOPORP,
    PrivacyWarning,
    PublicScaler,
    _noise,
    privacy_report,
)
from skdprp.ledger._ledger import Release
from skdprp.report import _walk

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings(f"ignore::{PrivacyWarning.__module__}.{PrivacyWarning.__name__}"),
]
X = np.random.default_rng(7).uniform(-1, 1, (40, 3))
Y = (X[:, 0] > 0).astype(int)
PEOPLE = np.arange(40) // 2
A_PART = "of the steps that this was fitted behind, and that are not a part of it"


class Replay:
    """Entropy of each release by its place in a history; that of one of them may be another."""

    def __init__(self, changed=None):
        self.changed, self.releases, self.generator = changed, [], np.random.default_rng(0)

    def begin(self, guarantee):
        place = len(self.releases)
        self.releases.append(guarantee)
        self.generator = np.random.default_rng([place, place == self.changed])

    def urandom(self, size):
        return self.generator.bytes(size)

    def __getattr__(self, name):
        return getattr(os, name)


@pytest.fixture
def replayed(monkeypatch):
    """Call a function with the noise of a replay, which is returned with the result."""
    begin, now = Release._begin, [Replay()]

    def _begin(release, frame):
        begin(release, frame)
        now[0].begin(release._guarantee)

    def _replayed(function, changed=None):
        now[0] = Replay(changed)
        monkeypatch.setattr(_noise, "os", now[0])
        np.random.seed(0)  # noqa: NPY002 (public projections)
        return function(), now[0].releases

    monkeypatch.setattr(Release, "_begin", _begin)
    return _replayed


class Wrapped(ClassifierMixin, BaseEstimator):
    """A model of the user with a clone of a private one."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y, **groups):
        self.model_ = self.of(self.model).fit(X, y, **groups)
        self.classes_ = getattr(self.model_, "classes_", None)
        return self

    def of(self, model):
        return clone(model)

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    @property
    def guarantee_(self):
        return self.model_.guarantee_


class WrappedInPlace(Wrapped):
    """Fits its parameter, which others may hold as well."""

    def of(self, model):
        return model


class WrappedStep(TransformerMixin, BaseEstimator):
    def __init__(self, step):
        self.step = step

    def fit(self, X, y=None, **groups):
        self.step_ = clone(self.step).fit(X, **groups)
        self.guarantee_ = self.step_.guarantee_
        return self

    def transform(self, X):
        return self.step_.transform(X)


class Steps:
    """Private steps that several pipelines share, each with an epsilon of its own."""

    def __init__(self):
        numbers = {"bounds": (-1, 1), "delta": 1e-6}
        self.scaler, self.other_scaler = DPScaler(epsilon=0.51, **numbers), DPScaler(epsilon=0.52, **numbers)
        self.binner, self.other_binner = (DPBinner(n_bins=3, epsilon=epsilon, **numbers) for epsilon in (0.53, 0.54))
        self.model, self.other_model = (AMPClassifier(epsilon=e, delta=1e-6, classes=[0, 1]) for e in (0.55, 0.56))
        self.pca, self.other_pca = (DPPCA(2, epsilon=epsilon, delta=1e-6) for epsilon in (0.57, 0.58))
        self.ridge = DPRidge(epsilon=0.59, delta=1e-6, target_bounds=(-1, 1), mechanism="moments")
        self.sketch = DPOPORP(4, epsilon=0.61, delta=1e-6, random_state=0)
        self.signs = DPSignOPORP(4, epsilon=0.62, random_state=0)


def of_the_libraries(s):
    """Pipelines of skdprp and scikit-learn."""
    yield make_pipeline(s.scaler, s.model)
    yield make_pipeline(s.binner, s.model)
    yield make_pipeline(s.scaler, s.binner, s.model)
    yield make_pipeline(make_pipeline(s.scaler, s.pca), s.other_model)
    yield make_pipeline(s.scaler, make_pipeline(s.other_binner, s.other_model))
    yield make_pipeline(make_union(s.other_scaler, s.pca), s.model)
    yield make_pipeline(ColumnTransformer([("some", s.scaler, [0]), ("rest", s.binner, [1, 2])]), s.other_model)
    yield make_pipeline(ColumnTransformer([("some", s.scaler, [0])], remainder=s.other_binner), s.model)
    yield make_pipeline(s.scaler, OneVsRestClassifier(s.model))
    yield make_pipeline(s.binner, VotingClassifier([("one", s.model), ("other", s.other_model)], voting="soft"))
    yield make_pipeline(s.scaler, FixedThresholdClassifier(s.model, threshold=0.4))
    yield make_pipeline(FrozenEstimator(s.scaler), s.model)
    yield make_pipeline(s.scaler, "passthrough", s.model)
    yield make_pipeline(PublicScaler((-1, 1)), s.binner, s.other_model)
    yield VotingClassifier([("one", make_pipeline(s.scaler, s.model)), ("other", s.other_model)], voting="soft")
    yield make_pipeline(s.scaler, FrozenEstimator(s.model))
    yield make_pipeline(s.scaler, MultiOutputClassifier(s.model))


def of_the_user(s):
    """Pipelines with classes of the user."""
    yield make_pipeline(s.scaler, Wrapped(s.model))
    yield make_pipeline(s.binner, WrappedInPlace(s.model))
    yield make_pipeline(WrappedStep(s.scaler), s.model)
    yield make_pipeline(WrappedStep(s.other_scaler), s.binner, s.model)
    yield make_pipeline(WrappedStep(s.scaler), Wrapped(s.model))
    yield make_pipeline(make_union(s.scaler, WrappedStep(s.binner)), Wrapped(s.model))
    yield make_pipeline(s.scaler, OneVsRestClassifier(Wrapped(s.model)))
    yield make_pipeline(s.scaler, FixedThresholdClassifier(Wrapped(s.model), threshold=0.4))
    yield make_pipeline(FrozenEstimator(WrappedStep(s.scaler)), s.model)
    yield make_pipeline(s.scaler, s.model)
    yield make_pipeline(s.scaler, s.binner, s.other_model)


def of_persons(s):
    """Pipelines of which some steps are given the person of each row."""
    yield make_pipeline(s.pca, s.ridge)
    yield make_pipeline(s.scaler, s.ridge)
    yield make_pipeline(make_union(s.pca, s.other_pca), s.ridge)
    yield make_pipeline(s.pca, s.other_pca, s.ridge)
    yield make_pipeline(FrozenEstimator(s.pca), s.ridge)
    yield make_pipeline(WrappedStep(s.pca), s.ridge)
    yield make_pipeline(s.other_pca, Wrapped(s.ridge))
    yield make_pipeline(PublicScaler((-1, 1)), s.ridge)


def of_sketches(s):
    """Pipelines with models that are not private behind sketches."""
    yield make_pipeline(s.sketch, LogisticRegression())
    yield make_pipeline(PublicScaler((-1, 1)), s.signs, LogisticRegression())
    yield make_pipeline(make_union(s.sketch, s.signs), LogisticRegression())
    yield make_pipeline(make_union(s.sketch, s.scaler), LogisticRegression())
    yield make_pipeline(s.scaler, s.sketch, LogisticRegression())
    yield make_pipeline(FrozenEstimator(s.sketch), LogisticRegression())
    yield make_pipeline(WrappedStep(s.signs), LogisticRegression())
    yield OneVsRestClassifier(make_pipeline(s.sketch, LogisticRegression()))
    yield VotingClassifier([("one", make_pipeline(s.sketch, LogisticRegression())), ("other", s.model)], voting="soft")


class History:
    """A few pipelines that share steps, and what somebody does with them; the same for the same seed."""

    def __init__(self, kind, seed):
        self.kind, self.draw = kind, random.Random(seed)
        steps = Steps()
        self.steps = list(vars(steps).values())
        self.pipelines = self.draw.sample(list(kind(steps)), 3)
        for _ in range(self.draw.randint(2, 7)):
            place = self.draw.randrange(3)
            actions = [self.fit, self.fit, self.fit_half, self.fit_half, self.change]
            with suppress(ValueError, TypeError, AttributeError, NotFittedError):
                self.pipelines[place] = self.draw.choice(actions)(self.pipelines[place]) or self.pipelines[place]

    def fit(self, pipeline):
        X_ = self.draw.choice([X, X, X[::-1].copy(), X[:, :2]])
        in_thread = self.draw.random() < 0.1
        if self.kind is of_persons:
            with_groups = [name for name, step in pipeline.steps if hasattr(step, "fit") and self.draw.random() < 0.7]
            groups = {f"{name}__groups": PEOPLE for name in with_groups if self.takes_groups(pipeline[name])}
            return pipeline.fit(X_, X[:, 1], **groups)
        y = np.c_[Y, 1 - Y] if isinstance(pipeline[-1:][0], MultiOutputClassifier) else Y
        if not in_thread:
            return pipeline.fit(X_, y)
        thread = threading.Thread(target=pipeline.fit, args=(X_, y))
        thread.start()
        thread.join()
        return None

    @staticmethod
    def takes_groups(step):
        return isinstance(step, DPPCA | DPRidge | Wrapped | WrappedStep)

    def fit_half(self, pipeline):
        y = X[:, 1] if self.kind is of_persons else Y
        way = self.draw.randrange(4)
        if way == 0:  # the last step refuses a label, once those before have released
            pipeline.fit(X, [np.nan if self.kind is of_persons else 7, *y[1:]])
        if way == 1:
            pipeline.fit(X, y[:30])
        if way == 2:
            pipeline[:-1].fit(X, y)
        if way == 3:
            self.draw.choice(self.steps).fit(X, y)

    def change(self, pipeline):
        way, steps = self.draw.randrange(8), getattr(pipeline, "steps", [])
        if way == 0:
            step = self.draw.choice(self.steps)
            step.set_params(epsilon=round(self.draw.uniform(0.2, 3), 3))
        if way == 1:
            return clone(pipeline)
        if way == 2:
            return pickle.loads(pickle.dumps(pipeline))
        if way == 3:
            return copy.deepcopy(pipeline)
        if way == 4:
            return GridSearchCV(pipeline, {}, cv=KFold(2)).fit(X, Y).best_estimator_
        if way == 5 and steps:
            return Pipeline(steps[self.draw.randrange(len(steps)) :])
        if self.kind is of_sketches or not steps:  # a model that is not private does not tell what it was behind
            return None
        place = self.draw.randrange(len(steps))
        name, step = steps[place]
        if way == 6:
            steps[place] = name, FrozenEstimator(step)
        if way == 7:
            other = self.draw.choice(self.pipelines)
            steps[-1] = "of another", other[-1]
        return None


def learnt(thing):
    """All that fits have set in an estimator, but for what they state."""
    if isinstance(thing, Pipeline | FeatureUnion):
        return [learnt(step) for _, step in getattr(thing, "steps", None) or thing.transformer_list]
    if isinstance(thing, FrozenEstimator):
        return learnt(thing.estimator)
    if isinstance(thing, list | tuple | Mapping):
        return [learnt(one) for one in (thing.values() if isinstance(thing, Mapping) else thing)]
    if isinstance(thing, BaseEstimator):
        known = {name: value for name, value in vars(thing).items() if name.endswith("_") and name != "guarantee_"}
        return [type(thing).__name__, *([name, learnt(known[name])] for name in sorted(known))]
    return joblib.hash(thing)


def all_that_learnt(history):
    return [learnt(pipeline) for pipeline in history.pipelines]


def uncharged(replayed, kind, seed):
    """Yield of each pipeline with a total the releases that it depends on, and that the total does not have."""
    history, releases = replayed(lambda: History(kind, seed))
    before = all_that_learnt(history)
    charged = {i: facts for i, pipeline in enumerate(history.pipelines) if (facts := charges_of(pipeline)) is not None}
    places = range(len(releases)) if charged else ()
    others = [all_that_learnt(replayed(lambda: History(kind, seed), changed=place)[0]) for place in places]
    for i, facts in charged.items():
        yield facts_of(releases[place] for place in places if others[place][i] != before[i]) - facts


def charges_of(pipeline):
    """What a total adds up, or None if there is none, or it says that what a part was fitted behind comes on top."""
    with suppress(NotFittedError):
        total = privacy_report(pipeline).total
        if total is not None and not any(A_PART in text for text in total.assumptions):
            return facts_of(one for group in _walk.walk(pipeline, "", _walk.Flow()).charges for one in group)
    return None


def facts_of(guarantees):
    return Counter((one.epsilon, one.delta, one.unit) for one in guarantees)


@pytest.mark.parametrize("kind", [of_the_libraries, of_the_user, of_persons, of_sketches])
def test_a_total_has_all_releases_that_a_pipeline_depends_on(replayed, kind):
    found = [missing for seed in range(9) for missing in uncharged(replayed, kind, seed)]
    assert len(found) >= 4
    assert not any(found)


def test_what_is_not_compared_with_what_is_before_it_is_missed(replayed, monkeypatch):
    """Of a report that takes each model for fitted behind the steps before it, some totals are too small."""
    monkeypatch.setattr(_walk, "_as_fitted", lambda part, *others: part)
    assert any(missing for seed in range(20) for missing in uncharged(replayed, of_the_libraries, seed))


def test_a_model_within_one_of_the_user_that_was_fitted_since_for_another_place_has_no_total():
    """It was fitted in place: the report of the first pipeline had the weights of the second, behind its own bins."""
    s = Steps()
    first, second = make_pipeline(s.binner, WrappedInPlace(s.model)), make_pipeline(s.scaler, s.model)
    first.fit(X, Y)
    assert privacy_report(first).total is not None
    second.fit(X, Y)
    assert privacy_report(first).total is None
    assert privacy_report(first.fit(X, Y)).total is not None
