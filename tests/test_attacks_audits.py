"""Attacks on audits and checks by estimators that keep their guarantee, of which audits may refute none."""
# ruff: noqa: D102

import math
import secrets
from collections import namedtuple

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import validate_data

from skdprp import DPOPORP, DPPCA, DPBinner, PrivacyGuarantee, PublicScaler, audit_epsilon
from skdprp.audit import membership_inference_auc
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.mechanisms import add_laplace, laplace_scale
from skdprp.testing import _private_checks

KERNEL = secrets.SystemRandom()
SURE = 1 - 1e-9  # confidence of the audits
X = np.linspace(-0.9, 0.9, 30).reshape(10, 3)
B = np.where(np.arange(10)[:, None] == 0, -X, X)


class Released(BaseEstimator):
    """Release some numbers of a table at each fit."""

    def __init__(self, *, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        epsilon = float(self.epsilon)
        if not 0 < epsilon < math.inf:
            raise ValueError("epsilon must be positive and finite.")
        try:
            X = validate_data(self, X, dtype=np.float64)
            is_finite = np.isfinite(X).all()
        except (TypeError, ValueError):
            is_finite = False
        if not is_finite:
            raise ValueError("X must be a table of finite numbers.")
        facts = {"released": "released_", "mechanism": "a choice", "assumptions": ("as many rows",)}
        facts |= {"adjacency": Adjacency("replace_one"), "per": "fit", "not_covered": ("the running time",)}
        guarantee = PrivacyGuarantee(epsilon, 0.0, **facts)
        with entry(guarantee, type(self).__name__) as release:
            self.released_ = np.atleast_1d(self.release(X, epsilon))
        self.guarantee_ = guarantee.mark_seeded() if release.seeded else guarantee
        return self


class LargestCount(Released):
    """Which column has most positive numbers, by noise that is twice a count's: its exact loss is epsilon."""

    def release(self, X, epsilon):
        counts = np.count_nonzero(X > 0, axis=0).astype(float)
        return float(np.argmax(add_laplace(counts, laplace_scale(epsilon * (1 - 2.0**-32), 0.0, sensitivity=2.0))))


def test_what_releases_less_than_it_adds_noise_to_is_told_under_which_condition_it_fails():
    """All noisy counts are more than this hides, and it shows the largest only: that it "does not keep" was false."""
    said = {}
    for name, check in _private_checks(LargestCount()):
        try:
            check()
        except AssertionError as error:
            said[name] = str(error)
    assert said.keys() == {"noise_is_enough"}
    assert "if all numbers that noise is added to can be computed from what is released" in said["noise_is_enough"]


class Centred(TransformerMixin, Released):
    """Rows less their noisy mean, of which the mean alone is released."""

    def release(self, X, epsilon):
        scale = 2 * X.shape[1] / epsilon / len(X)
        noise = [scale * KERNEL.expovariate(1) * KERNEL.choice((-1, 1)) for _ in X.T]
        return np.clip(X, -1, 1).mean(axis=0) + noise

    def transform(self, X):
        return np.asarray(X) - self.released_


@pytest.mark.parametrize(
    "model",
    [
        Centred(),
        make_pipeline(Centred()),
        make_pipeline(DPPCA(2, delta=1e-3)),
        make_pipeline(PublicScaler((-1, 1)), DPPCA(2, delta=1e-3)),
        make_column_transformer((DPBinner(delta=1e-3), [0, 1, 2])),
        make_pipeline(DPBinner(delta=1e-3), DPOPORP(2, delta=1e-3)),
    ],
    ids=lambda model: " ".join(str(model).split()),
)
@pytest.mark.filterwarnings("ignore:The noise hides most:UserWarning")
def test_rows_that_a_fit_transforms_are_no_release(model):
    """An audit looked at the secret rows, transformed, and refuted a true guarantee: more than 2.4 of 1."""
    with pytest.raises(TypeError, match="Say by `output`"):
        audit_epsilon(model, X, B, n_trials=100)


class Prefitted(TransformerMixin, BaseEstimator):
    """Has something that is fitted, which clones share, as scikit-learn's guide shows it."""

    def __init__(self, estimator):
        self.estimator = estimator

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.estimator.transform(X)


@pytest.mark.parametrize(
    "step",
    [FrozenEstimator, Prefitted, lambda fitted: FunctionTransformer(fitted.transform)],
    ids=["frozen", "prefitted", "a function"],
)
def test_what_was_fitted_before_is_no_release_of_an_audit(step):
    model = make_pipeline(step(DPPCA(2, delta=1e-3).fit(X)), DPOPORP(2, delta=1e-3, max_change=4.0))
    assert audit_epsilon(model, X, B, n_trials=20).n_trials == 20


def test_an_audit_leaves_the_memory_of_what_clones_share(tmp_path):
    """It was None after the audit, in the user's own pipeline."""
    inner = make_pipeline(FunctionTransformer(), memory=str(tmp_path)).fit(X)
    audit_epsilon(make_pipeline(Prefitted(inner), DPOPORP(2, delta=1e-3)), X, B, n_trials=8)
    assert inner.memory == str(tmp_path)


def laplace():
    """Noise on a grid, whose last bits tell of nothing."""
    return round((KERNEL.expovariate(1) - KERNEL.expovariate(1)) * 64) / 64


@pytest.mark.parametrize("store", [list, lambda rows: pd.DataFrame({"id": rows})], ids=["a list", "a frame"])
def test_copies_of_rows_have_their_missing_values_as_often_as_the_rows(store):
    """A pickle makes of one nan many, and so a set of 21 names one of 50: an audit refuted a sound count, 4.5 of 1."""
    people = [str(i) for i in range(20)]

    def count(rows):
        return len(set(rows if isinstance(rows, list) else rows["id"])) + laplace()

    a, b = store(people + [np.nan] * 30), store(people)
    assert not audit_epsilon(count, a, b, n_trials=400, confidence=SURE).exceeds(PrivacyGuarantee(1.0, 0.0))


def test_a_generator_beside_the_rows_draws_new_noise_in_each_trial():
    """Copied with the dict that holds it, it drew one noise in all trials: 1000 hits, 0 false alarms."""
    rng = np.random.default_rng(0)
    a, b = ({"rows": np.full(1, value), "noise": [rng, secrets.SystemRandom()]} for value in (0.0, 1.0))

    def release(data):
        data["rows"] += data["noise"][0].laplace()
        return np.rint(data["rows"].sum() * 64)

    assert not audit_epsilon(release, a, b, n_trials=400, confidence=SURE).exceeds(PrivacyGuarantee(1.0, 0.0))
    assert a["rows"] == 0 and b["rows"] == 1


def test_rows_with_names_of_their_parts_keep_them():
    Data = namedtuple("Data", "rows n")
    result = audit_epsilon(lambda data: data.rows.sum() + data.n, Data(X, 1), Data(X, 1), n_trials=8)
    assert result.epsilon == 0


def test_an_attack_on_members_leaves_their_rows_as_they_are():
    """A scaler without copies wrote into them, and the second attack saw other rows than the first."""
    rng = np.random.default_rng(0)
    rows, y = rng.normal(5, 5, size=(200, 3)), rng.integers(2, size=200)
    model = make_pipeline(StandardScaler(copy=False), DecisionTreeClassifier(random_state=0))
    model.fit(rows[:100].copy(), y[:100])
    before = rows.copy()
    found = {membership_inference_auc(model, (rows[:100], y[:100]), (rows[100:], y[100:, None])) for _ in range(3)}
    assert len(found) == 1 and found.pop() > 0.6 and np.array_equal(rows, before)
    with pytest.raises(ValueError, match="A classifier with"):
        membership_inference_auc(LinearRegression().fit(rows, y), (rows, y), (rows, y))


class Several(BaseEstimator):
    """Fit each of a list."""

    def __init__(self, models):
        self.models = models

    def fit(self, X, y=None):
        self.models_ = [clone(model).fit(X) for model in self.models]
        return self


def cached(folder):
    return Pipeline([("centred", Centred()), ("as it is", "passthrough")], memory=str(folder))


def of_grid(model):
    search = GridSearchCV(Pipeline([("model", "passthrough")]), {"model": [model]}, cv=2, scoring=lambda *_: 0.0)
    return search, lambda fitted: fitted.best_estimator_["model"]["centred"].released_


@pytest.mark.parametrize(
    "audited",
    [
        lambda model: (model, lambda fitted: fitted["centred"].released_),
        lambda model: (Several([model]), lambda fitted: fitted.models_[0]["centred"].released_),
        of_grid,
    ],
    ids=["a pipeline", "in a list", "in a grid"],
)
def test_each_trial_has_noise_of_its_own_whatever_a_pipeline_remembers(audited, tmp_path):
    """The fits of all trials came from the memory of the first: 500 hits of 500 refuted a true guarantee."""
    model = cached(tmp_path)
    (outer, released), seen = audited(model), []

    def _output(fitted):
        seen.append(released(fitted).tobytes())
        return released(fitted)

    result = audit_epsilon(outer, X, B, n_trials=20, confidence=SURE, output=_output)
    assert not result.exceeds(Centred().fit(X).guarantee_)
    assert len(seen) == len(set(seen)) >= 40
    assert model.memory == str(tmp_path) and not any(tmp_path.iterdir())
    assert outer.fit(X) and any(tmp_path.iterdir())  # which remembers elsewhere


class OfMuchMemory(Released):
    """Has a parameter of that name, which caches nothing."""

    def __init__(self, *, epsilon=1.0, memory="2GB"):
        super().__init__(epsilon=epsilon)
        self.memory = memory

    def release(self, X, epsilon):
        assert self.memory == "2GB"
        return KERNEL.random()


def test_a_parameter_that_is_called_memory_may_mean_something_else():
    result = audit_epsilon(OfMuchMemory(), X, B, n_trials=20, confidence=SURE, output=lambda fitted: fitted.released_)
    assert result.epsilon == 0


CALLED_WITH = []


class OneNoiseACall(DPOPORP):
    """All rows of a call have one noise; a row by itself is released as by the sketch."""

    def transform(self, X):
        CALLED_WITH.append(len(X))
        noise = super().transform(np.zeros((1, self.n_features_in_)))
        return self.projection_.project(np.asarray(X, float)) / self.projection_.divisor + noise


@pytest.mark.parametrize("move", [0.0, 1.0])
def test_rows_of_one_call_are_no_trials_of_their_own_where_a_class_of_the_user_releases_them(move):
    """Two equal rows were an epsilon of 3 apart, by audits that are sure of it: each trial is a call with one row."""
    one = np.zeros((1, 4))
    other = one + move * np.eye(4)[:1]
    sketch = OneNoiseACall(2, noise="laplace", epsilon=1.0, random_state=0).fit(one)
    CALLED_WITH.clear()
    result = audit_epsilon(sketch, one, other, confidence=SURE, n_trials=30)
    assert not result.exceeds(sketch.guarantee_) and (move or not result.epsilon)
    assert len(CALLED_WITH) >= 60 and set(CALLED_WITH) == {1}
