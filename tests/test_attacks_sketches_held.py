"""Attacks on sketches that were held elsewhere before: frozen behind maps, and fitted to rows that are written over."""

import json
import random
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.fft
from scipy.special import log_ndtr, ndtr
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPScaler,
    DPSearchCV,
    PrivacyLedger,
    PublicScaler,
    privacy_report,
    set_budget,
)
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.inspection import PrivacyProfileDisplay, PrivacyUtilityDisplay
from skdprp.ledger import LedgerError, UnrecordedNoiseError, entry
from skdprp.mechanisms import add_laplace
from skdprp.sketch._base import BaseSketch

Y = np.arange(24) % 2


@pytest.fixture
def released(monkeypatch):
    """Projections over the scale of the noise, of each release of a sketch."""
    found, release = [], BaseSketch._release

    def noted(sketch, rows, dtype):
        found.append(sketch.projection_.project(rows) / sketch.projection_.divisor / sketch.scale_)
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", noted)
    return found


def sketch():
    return DPOPORP(8, random_state=0)


def assert_true(found, fit, a, b):
    """What is printed of private steps bounds what Gaussian noise of their sketches loses of two data sets."""
    releases = []
    for rows in (a, b):
        found.clear()
        model = fit(rows.copy())
        releases.append(list(found))
    mu = np.sqrt(sum(np.square(one - other).sum() for one, other in zip(*releases, strict=True)))
    total = privacy_report(model).private
    if total is not None and not any("that it has written over are not passed again" in t for t in total.assumptions):
        delta = ndtr(mu / 2 - total.epsilon / mu) - np.exp(total.epsilon + log_ndtr(-mu / 2 - total.epsilon / mu))
        assert delta <= total.delta, (delta, total)


def frozen_behind_a_map(rows):
    front = make_pipeline(sketch(), PCA(2)).fit(rows)
    scaler = PublicScaler((0, 100), feature_range=(0, 1))
    return make_pipeline(scaler, FrozenEstimator(front), RidgeClassifier()).fit(rows, Y)


def test_what_was_frozen_before_it_stood_behind_a_map_did_not_see_rows_as_they_leave_that_map(released):
    """Its own fit sketched rows that are 50 apart, and is charged as one of rows that are half apart."""
    a = np.full((24, 8), 50.0)
    b = a.copy()
    b[0, 0] = 100.0  # half apart as rows leave the scaler
    assert_true(released, frozen_behind_a_map, a, b)


def written_over():
    return make_pipeline(FunctionTransformer(scipy.fft.dct, kw_args={"overwrite_x": True}), sketch())


def transformed_after_a_fit(rows):
    model = written_over().fit(rows)
    model.transform(rows)
    return model


def frozen_after_a_fit(rows):
    return make_pipeline(FrozenEstimator(written_over().fit(rows)), RidgeClassifier()).fit(rows, Y)


@pytest.mark.parametrize("fit", [transformed_after_a_fit, frozen_after_a_fit])
def test_rows_that_a_fit_wrote_over_are_not_transformed_under_a_total_for_rows_that_left_the_map_once(fit, released):
    """Rows are 1 apart as they leave the map once, and were sketched after they had left it twice."""
    a = np.full((24, 8), 0.5)
    b = a.copy()
    b[0] += scipy.fft.idct(np.eye(8)[0])
    assert_true(released, fit, a, b)


X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(24, 6))
BESIDE_WHAT_IS_FROZEN = {
    "a model": lambda: make_pipeline(
        FrozenEstimator(DPScaler(epsilon=5.0, delta=1e-6).fit(X)), AMPClassifier(classes=[0, 1], delta=1e-6)
    ),
    "a sketch": lambda: make_pipeline(
        FeatureUnion([("a", FrozenEstimator(DPOPORP(4, epsilon=5.0).fit(X))), ("b", DPOPORP(4))]), RidgeClassifier()
    ),
}


@pytest.mark.parametrize("kind", BESIDE_WHAT_IS_FROZEN)
def test_a_curve_says_that_its_epsilon_is_not_that_of_what_is_frozen_beside(kind):
    """At an epsilon of 0.1 on the axis, the report on the same pipeline has a total of 4.85."""
    pytest.importorskip("matplotlib").use("Agg")
    model = BESIDE_WHAT_IS_FROZEN[kind]()
    options = {"epsilons": [0.1, 1.0], "cv": KFold(2), "n_repeats": 1, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, X, Y, reference=None, **options).plot()
    varied = [name for name in model.get_params() if name.endswith("epsilon") and "frozen" not in name]
    total = privacy_report(model.set_params(**dict.fromkeys(varied, 0.1)).fit(X, Y)).total
    assert total.epsilon <= 0.1 or "alone" in display.ax_.get_xlabel(), (total, display.ax_.get_xlabel())


def planned_sketch():
    model = make_pipeline(DPOPORP(4, random_state=0), RidgeClassifier())
    return model, privacy_report(model, X, Y)


def test_noise_of_no_release_of_a_plan_is_refused_however_long_the_ledger_has_been_open():
    """Numbers at an epsilon of 100 leave a block whose limit is 1, and the ledger has the plan alone."""
    _, plan = planned_sketch()
    for _ in range(8):  # ledgers of other processes, opened or closed in between, have all noise looked at
        with PrivacyLedger() as ledger:
            ledger.limit(1.0, 1e-6, adjacency=plan.private.adjacency)
            time.sleep(0.2)
            with entry(plan), pytest.raises(UnrecordedNoiseError):
                add_laplace([42.0], scale=0.01)


def test_a_curve_with_a_name_of_its_own_says_what_its_guarantee_is_given():
    """Without its label of default, a target of (1.0, 1e-6) stands there for rows whose labels may be any."""
    pytest.importorskip("matplotlib").use("Agg")
    model = AMPClassifier(delta=1e-6).fit(X, Y)
    other = AMPClassifier(delta=1e-6).fit(X, np.where(np.arange(24) == 0, 2, Y))  # one label replaced
    assert model.guarantee_.given and len(model.classes_) < len(other.classes_)
    ax = PrivacyProfileDisplay.from_estimator(model, label="patients").plot().ax_
    texts = [ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.get_legend().get_texts())]
    assert any(model.guarantee_.given in text for text in texts), texts


@pytest.mark.parametrize("seed", range(20))
def test_each_release_of_a_plan_belongs_to_it_once(seed):
    """Totals of a ledger are those of all that was released, whatever of it was planned."""
    choose, squares = random.Random(seed), []

    def some():
        options = {"epsilon": choose.choice([0.5, 1.0]), "max_change": choose.choice([1.0, 1.0, 2.0])}
        return DPOPORP(4, delta=1e-6, random_state=choose.choice([0, 1]), **options)

    def release(one):
        one.fit(X).transform(X)
        squares.append(one.guarantee_.loss.mu**2)

    parts = [some() for _ in range(choose.randint(1, 3))]
    union = FeatureUnion([(str(place), one) for place, one in enumerate(parts)])
    with PrivacyLedger() as ledger:
        with entry(privacy_report(union, X)):
            union.fit_transform(X)
            squares += [one.guarantee_.loss.mu**2 for one in parts]
            for _ in range(choose.randint(0, 3)):
                release(choose.choice([*parts, some()]))
        release(choose.choice(parts))
        totals = [total.guarantee for total in ledger.total() if total.guarantee is not None]
    mu = np.sqrt(sum(squares))
    assert totals
    for total in totals:
        delta = ndtr(mu / 2 - total.epsilon / mu) - np.exp(total.epsilon + log_ndtr(-mu / 2 - total.epsilon / mu))
        assert delta <= total.delta * (1 + 1e-9)


FROZEN_WITHIN = {
    "in a row": lambda: make_pipeline(FrozenEstimator(DPOPORP(6).fit(X)), AMPClassifier(delta=1e-6)),
    "in a column transformer": lambda: make_pipeline(
        ColumnTransformer([("a", FrozenEstimator(DPScaler(delta=1e-6).fit(X[:, :2])), [0, 1])]),
        AMPClassifier(delta=1e-6),
    ),
    "in a union": lambda: make_pipeline(
        FeatureUnion([("a", FrozenEstimator(DPOPORP(6).fit(X))), ("b", PublicScaler((-1, 1)))]),
        AMPClassifier(delta=1e-6),
    ),
    "twice": lambda: make_pipeline(FrozenEstimator(FrozenEstimator(DPOPORP(6).fit(X))), AMPClassifier(delta=1e-6)),
}


@pytest.mark.parametrize("kind", FROZEN_WITHIN)
def test_no_budget_and_no_private_search_leaves_out_what_is_frozen_within(kind):
    """Its releases are of the same rows."""
    model = FROZEN_WITHIN[kind]().set_params(ampclassifier__classes=[0, 1])
    with pytest.raises((TypeError, ValueError)):
        DPSearchCV(model, {"ampclassifier__max_norm": [0.5, 1.0]}, epsilon=1.0, delta=1e-6).fit(X, Y)
    try:
        total = privacy_report(set_budget(model, X, Y, epsilon=1.0, delta=1e-5).fit(X, Y)).private
    except (TypeError, ValueError):
        return
    assert total is None or total.epsilon <= 1.0


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
    model = make_pipeline(FeatureUnion([("a", OfAUnit(*unit)), ("b", DPOPORP(4))]), RidgeClassifier()).fit(X, Y)
    total, stated = privacy_report(model).total, OfAUnit(*unit).fit(X).guarantee_
    assert (total and total.adjacency.relation) == UNITS[unit]
    assert total is None or (total.unit == "one row" and total.epsilon > 1.0)
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated
    for name in ("protected", "neighbours"):
        with pytest.raises(ValueError, match=name):
            PrivacyGuarantee.from_dict(stated.to_dict() | {name: "one thing"})


def test_a_fit_behind_another_map_than_the_planned_one_does_not_belong_to_the_plan(released):
    """A ledger states what holds 1 apart behind the scaler of the plan, of rows that were sketched 100 apart."""

    def scaled_to(most):
        scaler = PublicScaler((0, 100), feature_range=(0, most))
        return make_pipeline(scaler, sketch(), RidgeClassifier())

    a = np.zeros((24, 8))
    b = a.copy()
    b[0, 0] = 100.0
    plan, releases = privacy_report(scaled_to(1), a, Y), []
    for rows in (a, b):
        with PrivacyLedger() as ledger, entry(plan):
            released.clear()
            scaled_to(100).fit(rows, Y)
        releases.append(released[0])
    mu = np.linalg.norm(releases[0] - releases[1])
    for total in ledger.total():
        if total.guarantee is not None and total.guarantee.adjacency == plan.private.adjacency:
            epsilon = total.guarantee.epsilon
            delta = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
            assert delta <= total.guarantee.delta, (delta, total.guarantee)


@pytest.mark.parametrize("relation", ["l1", "l2"])
def test_a_change_within_a_unit_of_ones_own_is_not_printed_as_one_within_a_row(relation):
    """Signs of ten blocks of a row lose 1 where one block changes, and 10 where a row changes as little in all."""
    unit = "one block of ten columns"
    stated = PrivacyGuarantee(1.0, 0.0, unit=unit, adjacency=Adjacency(relation, 1.0))
    with PrivacyLedger() as ledger, entry(stated, "signs"):
        pass
    assert [text for text in (repr(stated), repr(ledger), ledger._repr_html_()) if unit not in text] == []


class Randomised(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Each row in [-1, 1], with as much noise as hides it among all others: of its label nothing is said."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        """State what is guaranteed at each transform."""
        self.scale_ = 2 * X.shape[1] / self.epsilon
        self.guarantee_ = PrivacyGuarantee(
            self.epsilon, 0.0, adjacency=Adjacency("replace_one"), per="transform", released="rows", mechanism="Laplace"
        )
        return self

    def transform(self, X):
        """Release rows."""
        with entry(self.guarantee_, "Randomised"):
            return add_laplace(np.clip(X, -1, 1), self.scale_)


def test_labels_as_they_are_are_in_no_total_for_a_row_that_is_replaced_with_its_label():
    """Behind rows that were randomised a model has counts of labels, which one that is replaced changes for certain."""
    other = np.where(np.arange(24) == 0, 1, Y)
    one, two = (make_pipeline(Randomised(), GaussianNB()).fit(X, labels) for labels in (Y, other))
    assert list(one[-1].class_count_) != list(two[-1].class_count_)
    total = privacy_report(one).total
    assert total is None or total.adjacency.is_distance or "label" in total.given, repr(total)


class ScaledSketch(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A pipeline in an estimator of one's own, which states what the report on that says."""

    def fit(self, X, y=None):
        """Fit the pipeline, and report on it."""
        self.pipeline_ = make_pipeline(PublicScaler((0, 1), feature_range=(0, 100)), sketch()).fit(X)
        self.guarantee_ = replace(privacy_report(self.pipeline_).total, per="transform")
        return self

    def transform(self, X):
        """Release sketches."""
        return self.pipeline_.transform(X)


def test_a_map_that_an_estimator_of_ones_own_states_is_not_forgotten_behind_another(released):
    """Rows are 1 apart as they leave the outer map, and 100 apart as they leave the inner one and are sketched."""

    def fit(rows):
        return make_pipeline(PublicScaler((0, 1), feature_range=(0, 1)), ScaledSketch(), RidgeClassifier()).fit(rows, Y)

    # The total is for rows 1 apart as they leave both: 0.01 apart as they leave the outer one.
    assert privacy_report(fit(np.zeros((24, 8)))).total.adjacency.after.count("publicscaler") == 2
    a = np.zeros((24, 8))
    b = a.copy()
    b[0, 0] = 0.01
    assert_true(released, fit, a, b)


def test_what_sees_another_part_of_the_rows_does_not_belong_to_a_plan_for_one():
    """Rows that were held out are in two releases, and the ledger says that they are in one."""
    model, rows = sketch().fit(np.zeros((1, 8))), np.zeros((4, 8))
    plan = privacy_report(model, rows)
    with PrivacyLedger() as ledger:
        try:
            with ledger.part("train"), entry(plan), ledger.part("test"):
                model.transform(rows)
        except LedgerError:  # as without a plan
            return
        with ledger.part("test"):
            model.transform(rows)
    mu = model.guarantee_.loss.mu * np.sqrt(2)
    (total,) = (total.guarantee for total in ledger.total())
    delta = ndtr(mu / 2 - total.epsilon / mu) - np.exp(total.epsilon + log_ndtr(-mu / 2 - total.epsilon / mu))
    assert delta <= total.delta, (delta, total)
