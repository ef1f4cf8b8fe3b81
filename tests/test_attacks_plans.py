"""Attacks on plans: what a report before a fit says and leaves behind, budgets, and entries of fits to come."""
# ruff: noqa: D101, D102

import contextlib
import functools
import os
import pickle
import random
import signal
import threading
import time
from abc import ABCMeta
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from types import FunctionType, MethodType

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attacks import (
    BINARY_AMP,
    RIDGE,
    THREE_CLASSES,
    X6,
    X12,
    X24_HALF,
    X60,
    X200_UNIFORM,
    Y12,
    Y24,
    Y60,
    Y200_UNIFORM,
    Log,
    Spy,
    binner_of_3,
    binner_of_4,
    bits_of_a_coordinate,
    charged,
    mixed_table,
    model_with,
    perhaps_without_delta,
    private_model,
    saved_and_loaded,
    shift_in_place,
    sketch,
    sketch_of_8,
    stored_in_parts,
)
from joblib import Memory, parallel_config
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm
from sketches import wide
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    LeaveOneOut,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures, StandardScaler
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

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
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    compose,
    iDPSignRP,
    make_table_preprocessor,
    privacy_report,
    set_budget,
)
from skdprp.guarantee import Adjacency
from skdprp.ledger import LedgerError, UnrecordedNoiseError, entry
from skdprp.mechanisms import add_laplace

pytestmark = pytest.mark.usefixtures("short_descents")

TWO_LABELS = np.column_stack([Y12, np.arange(12) % 3 == 0]).astype(int)
WIDE = np.random.default_rng(0).normal(size=(1200, 450))
OF_WIDE = np.arange(1200) % 2


# What a plan says


MULTILABEL = np.column_stack([np.arange(12) == 0, Y12, Y12]).astype(int)  # one row alone has the first of three labels


def test_no_plan_has_a_total_where_one_label_may_be_that_of_no_row():
    """A column of labels that are all equal is fitted by a constant, without noise: one row decides whether it is."""
    ensemble = OneVsRestClassifier(AMPClassifier(delta=1e-6))
    assert privacy_report(ensemble, X12, MULTILABEL).total is None
    assert privacy_report(clone(ensemble).fit(X12, MULTILABEL)).total is None


@pytest.mark.parametrize("member", [AMPClassifier(delta=1e-6), make_pipeline(sketch(), LogisticRegression())])
def test_two_columns_of_labels_are_two_releases_in_a_plan_too(member):
    """Two labels a row were taken for two classes, of which one problem is made: (1.0, 1e-6) for (1.42, 2e-6)."""
    ensemble = OneVsRestClassifier(member)
    plan, report = privacy_report(ensemble, X12, TWO_LABELS), privacy_report(clone(ensemble).fit(X12, TWO_LABELS))
    assert charged(plan) == charged(report) == 2
    assert 1.3 < report.private.epsilon <= plan.private.epsilon < report.private.epsilon * (1 + 1e-6)


class AsItIs(ClassifierMixin, BaseEstimator):
    """A classifier that was fitted elsewhere, of rows as they may have been before a sketch."""

    def __init__(self, classifier=None):
        self.classifier = classifier

    def fit(self, X, y):
        """Take it as it is."""
        self.classes_, self.coef_ = self.classifier.classes_, self.classifier.coef_
        return self

    def predict(self, X):
        """Predict by it."""
        return self.classifier.predict(X)


@pytest.mark.parametrize(
    "holder",
    [
        AsItIs(LogisticRegression().fit(X12[:, :4], Y12)),
        TunedThresholdClassifierCV(LogisticRegression().fit(X12[:, :4], Y12), cv="prefit", refit=False),
    ],
)
def test_a_plan_knows_of_what_was_fitted_before(holder):
    """A clone forgets the fits of its parameters, which the fit to come will take over as they are."""
    pipeline = make_pipeline(sketch(), holder)
    with pytest.raises(ValueError, match="holds what was fitted before"):
        privacy_report(pipeline, X12, Y12)
    assert privacy_report(pipeline.fit(X12, Y12)).total is None


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
@pytest.mark.parametrize("projection", [GaussianRandomProjection, SparseRandomProjection])
def test_a_projection_that_is_wider_for_more_rows_is_so_in_a_plan(projection):
    """Its width was that for eight rows, 99 for 340: the private steps cost 1.00001 of a budget of 1."""
    pipeline = make_pipeline(projection(eps=0.5), DPPCA(4), AMPClassifier(classes=[0, 1]))
    with suppress(ValueError, TypeError):  # no price is as good
        set_budget(pipeline, WIDE, OF_WIDE, epsilon=1.0, delta=1e-6)
        plan = privacy_report(pipeline, WIDE[:20], n_samples=len(WIDE))
        report = privacy_report(pipeline.fit(WIDE, OF_WIDE))
        assert plan.total is None and report.total is None  # of persons the number of rows is private
        assert report.private.epsilon <= min(plan.private.epsilon, 1.0)
        assert plan.steps[-1].guarantee.mechanism == report.steps[-1].guarantee.mechanism


def test_a_search_behind_a_projection_that_is_wider_for_more_rows_does_not_pay_for_nothing():
    """No trial had the guarantee of a plan for eight rows, so that all of them failed and the budget was gone."""
    pipeline = make_pipeline(GaussianRandomProjection(eps=0.5), AMPClassifier(classes=[0, 1]))
    search = DPSearchCV(pipeline, {"ampclassifier__max_norm": [1.0, 2.0]}, n_trials=1, epsilon=5.0)
    with suppress(ValueError, TypeError):  # to refuse it before any noise is as good
        assert search.fit(WIDE, OF_WIDE).best_params_ is not None


def test_a_plan_without_targets_is_not_one_for_a_single_target():
    """Ridge regression of 200 targets cost 1.0016 of a budget of 1 that had been set for one, and nothing said so."""
    targets = np.random.default_rng(1).uniform(size=(len(WIDE), 200))
    pipeline = make_pipeline(DPPCA(40), DPRidge(target_bounds=(0, 1)))
    with suppress(ValueError):  # to ask for y is as good
        set_budget(pipeline, WIDE[:, :60], epsilon=1.0, delta=1e-6)
        report = privacy_report(pipeline.fit(WIDE[:, :60], targets))
        assert report.total.epsilon <= 1.0


class CountsInATree(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A private transformer of somebody else, with one release for each level of a tree of the rows."""

    def __init__(self, cost_of_level=0.1):
        self.cost_of_level = cost_of_level

    def fit(self, X, y=None):
        """State what all levels cost; what they release does not matter here."""
        self.n_features_in_ = X.shape[1]
        adjacency, n_levels = Adjacency("replace_one"), len(X).bit_length()
        self.guarantee_ = PrivacyGuarantee(self.cost_of_level * n_levels, 0.0, adjacency=adjacency, per="fit")
        return self

    def transform(self, X):
        """Let rows pass."""
        return X


def test_what_others_calibrate_to_the_number_of_rows_has_no_price_before_a_fit():
    """A step without `epsilon` was fitted to eight rows, and charged for those: .4 for 2.0 at a million rows."""
    pipeline = make_pipeline(CountsInATree(), private_model())
    with pytest.raises(TypeError, match="does not say before a fit"):
        privacy_report(pipeline, X12, n_samples=10**6)


def test_a_plan_of_moments_without_targets_is_not_one_for_no_target():
    """Moments are no regressor, of which targets were asked for: 200 cost 1.00001 of a budget of 1 set for none."""
    targets = np.random.default_rng(1).uniform(size=(len(WIDE), 200))
    pipeline = make_pipeline(DPPCA(40), DPMoments(target_bounds=(0, 1)))
    with suppress(ValueError):  # to ask for y is as good
        set_budget(pipeline, WIDE[:, :60], epsilon=1.0, delta=1e-6)
        report = privacy_report(pipeline.fit(WIDE[:, :60], targets))
        assert report.total.epsilon <= 1.0


class SketchesInATree(CountsInATree):
    """The same, with a release at each transform, of which the fit fixes what it costs."""

    def fit(self, X, y=None):
        """State what one transform costs."""
        super().fit(X)
        self.guarantee_ = replace(self.guarantee_, per="transform")
        return self


def test_what_others_calibrate_to_the_number_of_rows_has_no_price_before_a_transform_either():
    """Of the fit that was mended; a release at each transform was still charged as for the first 64 rows."""
    with suppress(TypeError, ValueError):
        plan = privacy_report(SketchesInATree(), X12, n_samples=500)
        assert plan.total.epsilon >= privacy_report(SketchesInATree().fit(np.zeros((500, 8)))).total.epsilon


def test_a_projection_within_a_search_is_as_wide_in_a_plan_as_for_the_rows_of_a_trial():
    """It was as wide as for all rows in the plan, and as for four fifths in the fit: 5.0009 of a budget of 5."""
    rows, labels = WIDE[:100, :200], OF_WIDE[:100]
    pipeline = make_pipeline(GaussianRandomProjection(eps=0.9), AMPClassifier(classes=[0, 1]))
    search = DPSearchCV(pipeline, {"ampclassifier__max_norm": [1.0]}, n_trials=1, epsilon=2.0)
    ensemble = VotingClassifier([("one", search), ("other", search)])
    with suppress(ValueError, TypeError):  # no price is as good
        set_budget(ensemble, rows, labels, epsilon=5.0, delta=1e-6)
        assert privacy_report(ensemble.fit(rows, labels)).total.epsilon <= 5.0


class OfALevel(AMPClassifier):
    """A private model whose constructor makes its budget of a parameter of its own."""

    def __init__(self, level=1.0):
        super().__init__(epsilon=level, delta=1e-6, classes=[0, 1])
        self.level = level


def test_a_plan_is_of_the_budget_that_a_model_has_and_not_of_what_its_constructor_would_make():
    """A clone has the epsilon of its level, 1; the model that is fitted has that of the level it was made with, 5."""
    estimator = OfALevel(level=5.0).set_params(level=1.0)
    with suppress(TypeError, ValueError):  # no price is as good
        plan = privacy_report(estimator, X12, Y12)
        assert plan.total.epsilon >= privacy_report(estimator.fit(X12, Y12)).total.epsilon


def test_a_search_before_the_last_step_has_no_price_before_its_fit(binary):
    """It was that of its folds of a few rows: of 9 releases instead of 22."""
    X, y = binary[0][:20], binary[1][:20]
    search = GridSearchCV(make_pipeline(DPPCA(2, delta=1e-6), KMeans(2, n_init=1)), {}, cv=LeaveOneOut())
    for model in (make_pipeline(search, RIDGE), make_pipeline(FeatureUnion([("searched", search)]), RIDGE)):
        with pytest.raises((TypeError, ValueError)):
            privacy_report(model, X, y)


def test_the_price_of_a_random_projection_is_that_of_any_draw(binary):
    """A draw of zeros tells nothing, and costs nothing; another one is drawn at the fit."""
    sketch = DPRandomProjection(1, projection="very_sparse", density=0.02)
    model = make_pipeline(FeatureUnion([("one", sketch), ("other", sketch)]), LogisticRegression())
    seeds = {f"featureunion__{name}__random_state": 0 for name in ("one", "other")}
    planned = [privacy_report(clone(model), binary[0], binary[1]).total for _ in range(20)]
    assert all(total is None or total.epsilon > 1.4 for total in planned)
    assert privacy_report(model.set_params(**seeds), binary[0], binary[1]).total is not None


@pytest.mark.parametrize("limits", [{"batch_size": 50}, {}])
def test_a_plan_of_rows_that_are_stored_in_parts_is_that_of_the_rows(limits, binary):
    """It printed the noise of a descent in float64, which tells how one of the first rows is stored."""
    X, y = binary[0].astype(np.float32), binary[1]
    model = DPSGDClassifier(classes=[0, 1], max_norm=None, n_epochs=2, delta=1e-6, **limits)
    planned = [privacy_report(model, rows, y).private for rows in (sp.csr_matrix(X), stored_in_parts(X, 3))]
    fitted = privacy_report(clone(model).fit(stored_in_parts(X, 3), y)).private
    assert len({(one.mechanism, one.loss) for one in (*planned, fitted)}) == 1


def test_no_text_of_a_table_decides_what_a_plan_says():
    """Categories found with noise of the first rows, at each plan anew: columns are as many whichever are found."""
    y, stated = np.arange(64) % 2, set()
    model = make_pipeline(DPBinner(delta=1e-3, sparse_output=False), clone(RIDGE).set_params(delta=1e-6))
    for n_rare in (10, 11, 12, 40) * 3:
        table = pd.DataFrame({"text": np.array(["rare"] * n_rare + ["often"] * (64 - n_rare), dtype=object)})
        stated.add(privacy_report(model, table, y).private)
    assert len(stated) == 1


def test_a_search_behind_a_step_that_takes_groups_is_priced_as_it_is_fitted():
    """Its fits are of rows, and the plan was of 20 persons: of 1.4035 it said 1.4002."""
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    y, persons = (X[:, 0] > 0).astype(int), np.arange(200) // 10
    candidate = DPSGDClassifier(classes=[0, 1], n_epochs=1, batch_size=20)
    search = DPSearchCV(candidate, {"max_norm": [1.0]}, n_trials=1e-3, delta=1e-5, classes=[0, 1])
    model = make_pipeline(DPPCA(2, delta=1e-5), search)
    with_groups, without = privacy_report(model, X, y, groups=persons), privacy_report(model, X, y)
    assert with_groups.steps[-1].guarantee.loss == without.steps[-1].guarantee.loss
    assert with_groups.private.epsilon >= without.private.epsilon * (1 - 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(3),
        DPRandomProjection(12, projection="very_sparse", adjacency="l2"),  # of 3 columns all may be zeros by chance
        DPSignRP(4, method="rr", projection="gaussian", min_norm=0.5, max_change=0.1, delta=1e-6),
        DPSignOPORP(8, output="packed"),
    ],
    ids=repr,
)
def test_the_price_of_sketches_before_a_fit_is_that_after_it_and_of_a_ledger(sketch):
    """Wherever they stand: in ensembles that pass rows on, in unions of unions, frozen, and after maps."""
    X, two = np.random.default_rng(0).uniform(-3, 3, (60, 6)), np.arange(60) % 2
    in_pipeline = make_pipeline(clone(sketch), LogisticRegression())
    branches = [("a", clone(sketch), [0, 1, 2, 3]), ("b", clone(sketch), [2, 3, 4, 5])]
    models = [
        VotingClassifier([("a", in_pipeline), ("b", clone(in_pipeline))]),
        OneVsRestClassifier(in_pipeline),
        make_pipeline(make_union(make_union(clone(sketch), clone(sketch)), sketch), LogisticRegression()),
        make_pipeline(ColumnTransformer(branches, sparse_threshold=0), LogisticRegression()),
        make_pipeline(FrozenEstimator(clone(sketch).fit(np.eye(6))), LogisticRegression()),
        make_pipeline(PolynomialFeatures(), sketch, LogisticRegression()),
    ]
    for model in models:
        y = np.arange(60) % 3 if isinstance(model, OneVsRestClassifier) else two
        planned = privacy_report(model, X, y).total
        with PrivacyLedger() as ledger:
            model.fit(X, y)
        prices = [planned, privacy_report(model).total, ledger.total()[0].guarantee]
        assert np.ptp([price.epsilon for price in prices]) <= 1e-6 * planned.epsilon
        assert len({f"{price.delta:.9g}" for price in prices}) == len({price.n_releases for price in prices}) == 1


@wide
@pytest.mark.parametrize(("drawn", "n_features"), [(bits_of_a_coordinate, 50), (perhaps_without_delta, 23)])
def test_a_report_before_a_fit_holds_for_whatever_projection_the_fit_draws(drawn, n_features):
    """The clone that was priced had a projection of its own, and the guarantee of it was stated for the fit to come.

    "1.0-DP" was said of what then was (1.0, 1e-06)-DP, and "right in at most 82.2 of 100" of 88.8.
    """
    X = np.zeros((10, n_features))
    deltas = {(g.profile(1.0), g.profile(2.0)) for g in (drawn(random_state=i).fit(X).guarantee_ for i in range(20))}
    for total in (privacy_report(drawn(), X).total for _ in range(8)):
        assert total is None or all(
            total.profile(epsilon) >= max(of_draws)
            for epsilon, of_draws in zip((1.0, 2.0), zip(*deltas, strict=True), strict=True)
        )


@pytest.mark.parametrize("output", ["sign", "packed"])
def test_a_plan_shows_bits_of_both_kinds(output):
    """Packed ones were all 255, or whatever a platform makes of -1: a step that drops what is constant had no plan."""
    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 16)), np.arange(40) % 2
    sketch = DPSignOPORP(16, output=output, random_state=0)
    model = make_pipeline(make_pipeline(sketch, VarianceThreshold()), LogisticRegression())
    planned = privacy_report(model, X, y).total
    assert planned.epsilon == privacy_report(model.fit(X, y)).total.epsilon


# What a plan leaves behind, and shows


def test_a_report_before_a_fit_leaves_no_sketches_in_a_cache(tmp_path):
    """Its rows went through an inner pipeline that keeps what it has released, and no ledger knew of that."""
    inner = make_pipeline(sketch(), PublicScaler([-1, 1]), memory=str(tmp_path))
    with pytest.raises(ValueError, match="memory=None"):
        privacy_report(make_pipeline(inner, LogisticRegression()), X12, Y12)
    assert not list(tmp_path.rglob("output.pkl"))


def test_a_report_before_a_fit_leaves_the_guarantee_of_a_frozen_search_as_it_is():
    """A clone of what is frozen is the same object: it got the guarantee of a fit to 10^8 rows, delta 1e-16."""
    search = DPSearchCV(private_model(), {"max_norm": [1.0]}, n_trials=1)
    frozen = FrozenEstimator(search.fit(X12, Y12))
    released = frozen.guarantee_
    for estimator in (make_pipeline(Normalizer(), frozen), FixedThresholdClassifier(frozen), frozen):
        with suppress(ValueError, TypeError):  # no price is as good
            assert privacy_report(estimator, X12, Y12, n_samples=10**8).total.delta == released.delta
        assert frozen.guarantee_ == search.guarantee_ == released


def in_a_vote(cached):
    """Return an ensemble of one, which sees what a cached pipeline has sketched."""
    return VotingClassifier([("one", make_pipeline(FeatureUnion([("cached", cached)]), LogisticRegression()))])


def against_the_rest(cached):
    """Return one against the rest, each of which sees what a cached pipeline has sketched."""
    return OneVsRestClassifier(in_a_vote(cached).estimators[0][1])


class PipelineOfOthers(Pipeline):
    """A pipeline as other libraries have them."""


def of_others(cached):
    """Return a cached pipeline of another library."""
    return PipelineOfOthers(cached.steps, memory=cached.memory)


@pytest.mark.parametrize("wrap", [in_a_vote, against_the_rest, of_others])
def test_a_report_before_a_fit_leaves_no_sketches_in_a_cache_wherever_that_is(wrap, tmp_path):
    """Before its fit an ensemble has no members to look through; the first eight rows, sketched, stayed on the disk."""
    cached = make_pipeline(sketch(), PublicScaler([-1, 1]), memory=str(tmp_path))
    with suppress(ValueError):
        privacy_report(wrap(cached), X12, Y12)
    assert not list(tmp_path.rglob("output.pkl"))


def test_a_report_before_a_fit_shows_nothing_to_callbacks():
    """Components and means of the first eight rows were shown, under no entry of a ledger."""
    if not hasattr(Pipeline, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    log = Log()
    components = make_pipeline(PublicScaler((-1, 1)), DPPCA(2)).set_callbacks(log)
    with suppress(ValueError, TypeError):
        privacy_report(make_pipeline(FeatureUnion([("components", components)]), private_model()), X12, Y12)
    with suppress(ValueError, TypeError):
        privacy_report(make_pipeline(sketch(), StandardScaler().set_callbacks(log), LogisticRegression()), X12, Y12)
    assert not log.shown


def test_what_comes_after_a_sketch_sees_no_sketches_in_a_report_before_a_fit(capfd):
    """Sums of squares of the first 64 rows, sketched, were printed; a function kept them in a cache of its own."""
    seen = []

    def kept(rows):
        seen.append(np.array(rows))
        return rows

    printed = []
    for _ in range(2):
        for step in (KMeans(2, verbose=1, n_init=1, random_state=0), FunctionTransformer(kept)):
            with suppress(ValueError, TypeError):
                privacy_report(make_pipeline(sketch(), step, LogisticRegression()), X12, Y12)
        printed.append(capfd.readouterr().out)
    assert printed[0] == printed[1]  # sketches have noise of their own
    assert not seen or all(np.array_equal(rows, seen[0]) for rows in seen)


def test_a_report_on_a_search_leaves_the_cache_of_what_is_frozen_alone(tmp_path):
    """A clone of what is frozen is the same object: its pipeline lost the cache that its owner had given it."""
    known = make_pipeline(PublicScaler((-1, 1)), PublicScaler((-1, 1)), memory=str(tmp_path)).fit(X12)
    pipeline = make_pipeline(FrozenEstimator(known), private_model())
    search = DPSearchCV(pipeline, {"ampclassifier__max_norm": [1.0]}, n_trials=1, epsilon=5.0)
    with suppress(ValueError):
        privacy_report(search, X12, Y12)
    assert known.memory == str(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_plans_can_plan_as_well():
    """Plans are made one at a time: in the child the other thread was gone, and its lock held for good."""
    planning, ended = threading.Event(), threading.Event()

    def waits(rows):
        planning.set()
        ended.wait(30)
        return rows

    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 6)), np.arange(40) % 2
    steps = DPOPORP(3, random_state=0), LogisticRegression()
    other = threading.Thread(target=privacy_report, args=(make_pipeline(FunctionTransformer(waits), *steps), X, y))
    other.start()
    try:
        assert planning.wait(30)
        if not (child := os.fork()):
            signal.alarm(60)  # which ends it, if it waits
            try:
                privacy_report(make_pipeline(*steps), X, y)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        other.join()


# Budgets


def test_a_budget_changes_no_row(binary):
    """The few rows that pass the steps before the model were a view of all: a step without copies changed these."""
    X, y = binary[0].copy(), binary[1]
    set_budget(make_pipeline(FunctionTransformer(shift_in_place), BINARY_AMP), X, y)
    set_budget(make_pipeline(Normalizer(copy=False), BINARY_AMP), X, y)
    assert np.array_equal(X, binary[0])


def below(x, y):
    """Largest convex function below points, at these."""
    hull = []
    for here in range(len(x)):
        while len(hull) > 1:
            left, last = hull[-2:]
            if (y[last] - y[left]) * (x[here] - x[last]) < (y[here] - y[last]) * (x[last] - x[left]):
                break
            hull.pop()
        hull.append(here)
    return np.interp(x, x[hull], y[hull])


def delta_of(losses, epsilon, n_points=2001):
    """Delta of Gaussian losses and another one together, by an integral over the Gaussian loss."""
    mu = np.sqrt(sum(loss.mu**2 for loss in losses))
    sampling, failure = (sum(getattr(loss, name) for loss in losses) for name in ("sampling", "failure_probability"))
    (profile,) = (one for loss in losses for one in loss.profiles)
    ends = np.linspace(0, 3 * epsilon + 1, n_points)
    deltas = np.array([profile(end) for end in ends])
    mirrored = -np.expm1(-ends) + np.exp(-ends) * deltas
    odds = np.exp(np.append(-ends[:0:-1], ends))
    convex = below(odds, np.append(mirrored[:0:-1], deltas))
    drawn = mu**2 / 2 + mu * np.linspace(-9, 9, 20_001)
    left = epsilon - 2 * sampling - drawn
    of_the_other = np.where(left > -ends[-1], np.interp(np.exp(left), odds, convex), -np.expm1(left))
    mean = np.trapezoid(of_the_other * norm.pdf(drawn, mu**2 / 2, mu), drawn)
    return mean * np.exp(sampling) + failure


def test_a_budget_is_what_the_steps_lose_together(binary):
    """By another composition than that of the library: an integral instead of convolutions on a grid."""
    rows, (epsilon, delta) = mixed_table(binary[0]), (0.2, 1e-3)
    pipe = set_budget(
        make_pipeline(DPBinner(3, bounds=(-3, 3), epsilon=0.3), BINARY_AMP),
        rows,
        binary[1],
        epsilon=epsilon,
        delta=delta,
    )
    pipe.fit(rows, binary[1])
    losses = [step.guarantee_.loss for step in pipe]
    assert 0.99 * delta < delta_of(losses, epsilon) <= delta
    assert privacy_report(pipe).total.epsilon <= epsilon


def test_a_sketch_beside_a_private_model_in_an_ensemble_has_no_budget(binary):
    """The budget went to the sketch alone, and both together cost 1.4 times as much, without a word."""
    beside = ColumnTransformer([("sketch", DPOPORP(4), [0, 1]), ("rows", "passthrough", [2])])
    with pytest.raises((TypeError, ValueError)):
        set_budget(make_pipeline(beside, OneVsRestClassifier(BINARY_AMP)), *binary, epsilon=1.0, delta=1e-6)


SKETCHED = ColumnTransformer([("sketch", DPOPORP(4), [0, 1]), ("rows", "passthrough", [2])], sparse_threshold=0)
HIDDEN = [
    make_pipeline(SKETCHED, BaggingClassifier(BINARY_AMP, n_estimators=2)),
    make_pipeline(SKETCHED, CalibratedClassifierCV(BINARY_AMP, cv=2)),
    make_pipeline(SKETCHED, RFE(BINARY_AMP)),
    make_pipeline(SKETCHED, GridSearchCV(BINARY_AMP, {}, cv=KFold(2))),
    make_pipeline(
        FeatureUnion([("sketch", DPOPORP(4)), ("chosen", SelectFromModel(BINARY_AMP))]), LogisticRegression()
    ),
    make_pipeline(
        FeatureUnion([("sketch", DPOPORP(4)), ("before", FrozenEstimator(DPOPORP(2)))]), LogisticRegression()
    ),
]


@pytest.mark.parametrize("model", HIDDEN)
def test_a_budget_of_a_sketch_is_that_of_all_that_releases_rows_beside_it(model, binary):
    """Of models in what is known to no report, and of a frozen sketch: the budget was that of the one sketch in sight.

    All together cost up to 2.3 times as much, without a word.
    """
    X, model = binary[0][:, :3], deepcopy(model)
    for step in getattr(model[0], "transformer_list", ()):
        if isinstance(step[1], FrozenEstimator):
            step[1].estimator.fit(X)
    with pytest.raises((TypeError, ValueError)):
        set_budget(model, X, binary[1], epsilon=1.0, delta=1e-6)


def test_the_budget_of_gaussian_steps_is_theirs_by_the_exact_profile(binary):
    """At deltas near 1 and next to 0, where the total may be an epsilon of 0."""
    X, y = binary[0], binary[1] * 1.0
    steps = DPPCA(2, epsilon=0.1), DPScaler(epsilon=3.0, bounds=(-5, 5), n_cells=64), RIDGE
    for epsilon, delta in ((1e-3, 0.5), (1.0, 0.999), (50.0, 1e-30), (0.1, 1e-3)):
        model = set_budget(make_pipeline(*map(clone, steps)), X, y, epsilon=epsilon, delta=delta).fit(X, y)
        total, losses = privacy_report(model).total, [step.guarantee_.loss for step in model]
        with mpmath.workdps(40):
            mu = mpmath.sqrt(mpmath.fsum(mpmath.mpf(loss.mu) ** 2 for loss in losses))
            sampling, failed = (
                sum(getattr(one, name) for one in losses) for name in ("sampling", "failure_probability")
            )
            left = total.epsilon - 2 * sampling
            lost = mpmath.ncdf(mu / 2 - left / mu) - mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
            assert lost * mpmath.exp(sampling) + failed <= total.delta <= delta and total.epsilon <= epsilon


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
def test_one_against_the_rest_is_two_releases_for_labels_of_two_columns(binary):
    """Of two classes it is one; columns were taken for classes, and a budget of 1 cost 1.4."""
    X, y = binary[0], np.column_stack([binary[1], binary[1][::-1]])
    model = set_budget(OneVsRestClassifier(DPSGDClassifier(classes=[0, 1])), X, y, epsilon=1.0, delta=1e-6)
    before = privacy_report(model, X, y)
    with PrivacyLedger() as ledger:
        model.fit(X, y)
    after, (total,) = privacy_report(model), ledger.total()
    assert total.guarantee.epsilon <= 1.0 and total.guarantee.delta <= 1e-6
    assert after.private.epsilon <= before.private.epsilon
    assert (before.total is None) == (after.total is None)


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
def test_a_budget_counts_the_columns_of_labels():
    """Both models got the whole budget, so that a fit released 1.42 for 1."""
    ensemble = set_budget(OneVsRestClassifier(DPSGDClassifier(n_epochs=1)), X12, TWO_LABELS, epsilon=1.0, delta=1e-6)
    assert privacy_report(ensemble.fit(X12, TWO_LABELS)).private.epsilon <= 1.0


def of_columns():
    """Return a pipeline whose only private step is a sketch among columns."""
    columns = ColumnTransformer([("all", sketch(8.0), slice(0, 8))], sparse_threshold=0)
    return make_pipeline(columns, LogisticRegression())


def of_a_threshold():
    """Return a classifier with a threshold, of sketches."""
    return FixedThresholdClassifier(make_pipeline(sketch(8.0), LogisticRegression()), threshold=0.3)


def of_a_searched_threshold():
    """Return a classifier with a threshold, which a private search finds."""
    search = DPSearchCV(private_model(), {"max_norm": [1.0]}, n_trials=1, epsilon=8.0, delta=1e-6)
    return FixedThresholdClassifier(search, threshold=0.3)


@pytest.mark.parametrize("make", [of_columns, of_a_threshold, of_a_searched_threshold])
def test_a_budget_of_what_was_fitted_before_is_that_of_its_next_fit(make):
    """The fitted clone within got the budget of 1, and the parameter from which the next fit is made kept its 8."""
    estimator = make().fit(X12, Y12)
    with suppress(ValueError, TypeError):  # to refuse it is as good
        set_budget(estimator, X12, Y12, epsilon=1.0)
        private = privacy_report(estimator.fit(X12, Y12)).private
        assert private is None or private.epsilon <= 1.0


class ModelOfOthers(ClassifierMixin, BaseEstimator):
    """A private model of somebody else, which calls its budget by another name."""

    def __init__(self, budget=2.0):
        self.budget = budget

    def fit(self, X, y):
        """State what it costs; what it releases does not matter here."""
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        self.guarantee_ = PrivacyGuarantee(self.budget, 0.0, adjacency=Adjacency("replace_one"), per="fit")
        return self

    def predict(self, X):
        """Predict the first class."""
        return self.classes_[np.zeros(len(X), dtype=int)]


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(DPPCA(2), ModelOfOthers()),
        VotingClassifier([("ours", private_model()), ("theirs", ModelOfOthers())]),
    ],
    ids=["after", "beside"],
)
def test_no_budget_is_set_for_what_is_beside_a_private_model_of_somebody_else(estimator):
    """What had no parameter named epsilon was no private step of the budget of 1, and one of the fit, of 3."""
    with suppress(TypeError, ValueError):
        set_budget(clone(estimator), X12, Y12, epsilon=1.0, delta=1e-6)
        total = privacy_report(clone(estimator).fit(X12, Y12)).total
        assert total is None or total.epsilon <= 1.0


def test_a_budget_of_a_search_without_a_delta_is_the_one_that_is_documented():
    """It is no sketch, whose delta stays: that of the search was .01 before, and still was."""
    search = DPSearchCV(private_model(), {"max_norm": [1.0]}, n_trials=1, delta=0.01)
    set_budget(search, X12, Y12, epsilon=1.0)
    assert privacy_report(search, X12, Y12).total.delta <= 1 / len(X12) ** 2


@pytest.mark.parametrize(
    ("epsilon", "last"),
    [(0.3, AMPClassifier(epsilon=0.8, noise="gaussian", classes=[0, 1])), (2.0, clone(RIDGE).set_params(epsilon=0.8))],
)
def test_a_budget_over_private_bins_is_what_the_fit_releases(epsilon, last):
    """The plan sees public numbers in the place of bins: the total after the fit, and that of a ledger, are no more."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(0, 99, 500), "town": rng.choice(list("xyz"), 500)})
    y = (table["age"] > 50).astype(int)
    model = make_pipeline(make_table_preprocessor({"age": (0, 120)}, epsilon=0.2), last)
    set_budget(model, table, y, epsilon=epsilon, delta=1e-6)
    plan = privacy_report(model, table.iloc[:9], y[:9], n_samples=500).private
    with PrivacyLedger() as ledger:
        model.fit(table, y)
    total = privacy_report(model).total
    assert len(ledger.entries) == 2
    assert max(total.epsilon, ledger.total()[0].guarantee.epsilon) <= min(plan.epsilon, epsilon) * (1 + 1e-9)


def test_totals_of_steps_for_persons_and_for_rows_keep_their_budget():
    """The total of both is for rows, and of persons alone for persons, as it is after the fit."""
    persons = np.arange(200) // 4
    for first, unit in ((binner_of_3(), "one row"), (DPPCA(2), "one person (all of its rows)")):
        model = make_pipeline(first, DPRidge(target_bounds=(-1, 1)))
        said = pytest.warns(PrivacyWarning, match="take no groups: DPBinner") if unit == "one row" else nullcontext()
        with said:
            set_budget(model, X200_UNIFORM, X200_UNIFORM[:, 0], groups=persons, epsilon=1.0, delta=1e-5)
        plan = privacy_report(model, X200_UNIFORM, X200_UNIFORM[:, 0], groups=persons).private
        given = {f"{name}__groups": persons for name, _ in model.steps if name != "dpbinner"}
        total = privacy_report(model.fit(X200_UNIFORM, X200_UNIFORM[:, 0], **given)).private
        assert (plan.unit, plan.epsilon, plan.delta) == (total.unit, total.epsilon, total.delta)
        assert plan.unit == unit and plan.epsilon <= 1.0


def test_set_budget_does_not_say_that_no_noise_is_enough():
    """Three sketches of a third of epsilon each are within it; and any noise guarantees a delta of 1."""
    model = OneVsRestClassifier(make_pipeline(DPOPORP(4), LogisticRegression()))
    rows, y = np.tile(X6, (5, 1)), np.arange(30) % 3
    try:
        set_budget(model, rows, y, epsilon=1.0)
    except ValueError as error:
        assert "No noise of these steps guarantees (1.0, 1.0)" not in str(error)
    else:
        assert privacy_report(model, rows, y).private.epsilon <= 1.0


FROZEN_WITHIN = {
    "in a row": lambda: make_pipeline(FrozenEstimator(DPOPORP(6).fit(X24_HALF)), AMPClassifier(delta=1e-6)),
    "in a column transformer": lambda: make_pipeline(
        ColumnTransformer([("a", FrozenEstimator(DPScaler(delta=1e-6).fit(X24_HALF[:, :2])), [0, 1])]),
        AMPClassifier(delta=1e-6),
    ),
    "in a union": lambda: make_pipeline(
        FeatureUnion([("a", FrozenEstimator(DPOPORP(6).fit(X24_HALF))), ("b", PublicScaler((-1, 1)))]),
        AMPClassifier(delta=1e-6),
    ),
    "twice": lambda: make_pipeline(
        FrozenEstimator(FrozenEstimator(DPOPORP(6).fit(X24_HALF))), AMPClassifier(delta=1e-6)
    ),
}


@pytest.mark.parametrize("kind", FROZEN_WITHIN)
def test_no_budget_and_no_private_search_leaves_out_what_is_frozen_within(kind):
    """Its releases are of the same rows."""
    model = FROZEN_WITHIN[kind]().set_params(ampclassifier__classes=[0, 1])
    with pytest.raises((TypeError, ValueError)):
        DPSearchCV(model, {"ampclassifier__max_norm": [0.5, 1.0]}, epsilon=1.0, delta=1e-6).fit(X24_HALF, Y24)
    try:
        total = privacy_report(set_budget(model, X24_HALF, Y24, epsilon=1.0, delta=1e-5).fit(X24_HALF, Y24)).private
    except (TypeError, ValueError):
        return
    assert total is None or total.epsilon <= 1.0


# Entries of fits to come


class _NoisyCount(TransformerMixin, BaseEstimator):
    """A step of one's own that counts with noise, and has forgotten to enter that."""

    def fit(self, X, y=None):
        """Keep a noisy number of rows above 0."""
        self.count_ = add_laplace([(X[:, 0] > 0).sum()], scale=1e-6)[0]
        return self

    def transform(self, X):
        """Let all rows pass."""
        return X


@pytest.mark.parametrize("age", [0.0, 0.3])
@pytest.mark.parametrize("is_step", [False, True])
def test_noise_that_is_no_release_of_a_plan_is_refused_in_its_block_however_old_the_ledger_is(age, is_step):
    """A tenth of a second after the ledger was opened a count of epsilon 1e6 was released, and not entered."""
    model = make_pipeline(_NoisyCount(), model_with(classes=[0, 1])) if is_step else model_with(classes=[0, 1])
    plan = privacy_report(model_with(classes=[0, 1]), X200_UNIFORM, Y200_UNIFORM)
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-5)
        time.sleep(age)
        with entry(plan), pytest.raises(RuntimeError, match="no entry"):
            model.fit(X200_UNIFORM, Y200_UNIFORM) if is_step else add_laplace([42.0], scale=1e-6)


@pytest.mark.parametrize("what", ["labels", "chunks", "map"])
def test_what_a_plan_has_under_other_conditions_is_entered_by_itself(what):
    """Given the labels, in chunks that are read again, or behind another map: epsilon and delta alone are the same."""
    model = fitted = model_with(classes=[0, 1])
    if what == "labels":
        fitted = model_with()
    if what == "map":
        model, fitted = (
            make_pipeline(PublicScaler((-bound, bound)), DPOPORP(2, random_state=0), LogisticRegression())
            for bound in (1.0, 0.01)
        )
    plan = privacy_report(model, X200_UNIFORM, Y200_UNIFORM)
    with PrivacyLedger() as ledger, entry(plan):
        fitted.fit_chunks(
            [(X200_UNIFORM[:100], Y200_UNIFORM[:100]), (X200_UNIFORM[100:], Y200_UNIFORM[100:])]
        ) if what == "chunks" else fitted.fit(X200_UNIFORM, Y200_UNIFORM)
    released = privacy_report(fitted).private
    own = {text for text in released.assumptions if "chunks" in text}
    assert any(
        one.guarantee.given == released.given
        and own <= set(one.guarantee.assumptions)
        and one.guarantee.adjacency.after in ("", released.adjacency.after)
        for one in ledger.entries
    )


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_a_planned_ensemble_is_one_entry_whatever_its_members_list(classes):
    """The total is given the set of labels, and its members assumed of them what that says: each was entered again."""
    model = OneVsRestClassifier(AMPClassifier(delta=1e-6, classes=classes))
    y = np.digitize(X200_UNIFORM[:, 0], [-0.3, 0.3])
    plan = privacy_report(model, X200_UNIFORM, y)
    with PrivacyLedger() as ledger, entry(plan):
        model.fit(X200_UNIFORM, y)
    (only,) = ledger.entries
    assert only.guarantee.epsilon == plan.total.epsilon


def test_a_release_that_an_audit_has_refuted_is_no_part_of_a_plan():
    """The total of the entry had no mark of it."""
    sketch = DPOPORP(2, random_state=0).fit(X200_UNIFORM)
    plan = privacy_report(DPOPORP(2, random_state=0), X200_UNIFORM)
    sketch.guarantee_ = replace(sketch.guarantee_, violation="epsilon is at least 3", audited_epsilon=3.0)
    with PrivacyLedger() as ledger, entry(plan):
        sketch.transform(X200_UNIFORM)
    assert [bool(one.guarantee.violation) for one in ledger.entries] == [False, True]
    assert ledger.total()[0].guarantee is None


def test_a_plan_does_not_take_what_an_audit_has_refuted():
    """Without the plan, the ledger has no total."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (24, 6))
    sketch, plan = DPOPORP(4, random_state=0).fit(X), privacy_report(DPOPORP(4, random_state=0), X)
    sketch.guarantee_ = replace(sketch.guarantee_, audited_epsilon=3.0, violation="epsilon is at least 3.0")
    with PrivacyLedger() as ledger, entry(plan):
        sketch.transform(X)
    assert all(total.guarantee is None or total.guarantee.violation for total in ledger.total())


def test_the_report_of_a_search_that_was_fitted_is_no_plan_of_as_many_releases_of_each_row():
    """Eleven sketches of all rows, 11.0, were the one entry of a search in which each row is sketched 6 times."""
    sketch = DPSignOPORP(2, random_state=0)
    search = GridSearchCV(make_pipeline(sketch, LogisticRegression()), {"logisticregression__C": [1.0]}, cv=KFold(5))
    report = privacy_report(search.fit(X200_UNIFORM, Y200_UNIFORM))
    calls = max(step.calls for step in report.steps)
    with PrivacyLedger() as ledger:
        try:
            with entry(report):
                for _ in range(calls):
                    sketch.fit_transform(X200_UNIFORM)
        except (TypeError, ValueError):
            return
    stated = compose(*(one.guarantee for one in ledger.entries)).epsilon
    assert stated >= compose(*calls * [sketch.guarantee_]).epsilon


def _plan():
    model = model_with(classes=[0, 1], noise="gaussian")
    return model, privacy_report(model, X200_UNIFORM, Y200_UNIFORM)


def test_no_release_of_one_part_is_counted_for_another_part_by_a_plan():
    """Without a plan it is refused; two fits of part "b" had the total of one."""
    model, plan = _plan()

    def _fit_part(name):
        with ledger.part(name):
            model.fit(X200_UNIFORM, Y200_UNIFORM)

    with PrivacyLedger() as ledger:
        try:
            with ledger.part("a"), entry(plan):
                _fit_part("b")
        except LedgerError:
            return
        _fit_part("b")
    assert ledger.total()[0].guarantee.epsilon >= compose(model.guarantee_, model.guarantee_).epsilon


_COMPOSITES = {
    "amp": lambda: (model_with(), Y200_UNIFORM),
    "descent": lambda: (DPSGDClassifier(), THREE_CLASSES),
    "output": lambda: (ProductNoiseOutputPerturbation(), Y200_UNIFORM),
    "ridge": lambda: (DPRidge(target_bounds=(-1, 1)), X200_UNIFORM[:, 0]),
    "pipeline": lambda: (make_pipeline(DPScaler(bounds=(-3, 3)), DPPCA(2), DPSGDClassifier(n_epochs=2)), THREE_CLASSES),
    "rest": lambda: (OneVsRestClassifier(model_with()), THREE_CLASSES),
    "voting": lambda: (VotingClassifier([("a", model_with()), ("b", model_with())]), Y200_UNIFORM),
    "outputs": lambda: (
        MultiOutputClassifier(DPSGDClassifier(n_epochs=2)),
        np.column_stack([Y200_UNIFORM, THREE_CLASSES]),
    ),
    "targets": lambda: (MultiOutputRegressor(DPRidge(target_bounds=(-1, 1))), X200_UNIFORM[:, :2]),
    "threshold": lambda: (FixedThresholdClassifier(model_with(classes=[0, 1]), threshold=0.3), Y200_UNIFORM),
    "union": lambda: (
        make_pipeline(FeatureUnion([("a", binner_of_3()), ("b", DPScaler(bounds=(-3, 3)))]), clone(RIDGE)),
        Y200_UNIFORM,
    ),
    "columns": lambda: (
        make_pipeline(
            ColumnTransformer([("a", binner_of_3(), [0]), ("b", DPScaler(bounds=(-3, 3)), [1, 2])], sparse_threshold=0),
            clone(RIDGE),
        ),
        Y200_UNIFORM,
    ),
    "search": lambda: (
        make_pipeline(binner_of_3(), DPSearchCV(model_with(), {"max_norm": [1.0, 2.0]}, n_trials=2)),
        Y200_UNIFORM,
    ),
    "sketch": lambda: (
        make_pipeline(PublicScaler((-1, 1)), DPOPORP(2, random_state=0), LogisticRegression()),
        Y200_UNIFORM,
    ),
    "sketches": lambda: (
        VotingClassifier(
            [(name, make_pipeline(DPOPORP(2, random_state=0), LogisticRegression())) for name in ("a", "b")]
        ),
        Y200_UNIFORM,
    ),
    "moments": lambda: (DPMoments(), None),
    "histograms": lambda: (DPHistograms(), None),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _COMPOSITES)
def test_the_entry_of_a_plan_is_what_its_fit_releases_and_a_second_fit_is_entered_step_by_step(name):
    """A ledger that is opened inside has each release by itself: as many, and no more in all at the same delta."""
    model, y = _COMPOSITES[name]()
    plan = privacy_report(model, X200_UNIFORM, y)
    with PrivacyLedger() as ledger, entry(plan):
        with PrivacyLedger() as inner:
            model.fit(X200_UNIFORM, y)
        assert len(ledger.entries) == 1
        model.fit(X200_UNIFORM, y)
        planned, *others = (one.guarantee for one in ledger.entries)
    total = privacy_report(model).private
    here = total.adjacency and replace(total.adjacency, after="")  # a ledger knows of no map before a release
    assert repr(planned) == repr(replace(total, adjacency=here))
    found = [one.guarantee for one in inner.entries]
    assert len(found) == len(others) == sum(step.calls for step in plan.steps)
    if not planned.adjacency.after:
        assert compose(*found).delta <= planned.delta
        assert planned.epsilon >= compose(*found, delta=planned.delta).epsilon * (1 - 1e-9)


def planned_sketch():
    model = make_pipeline(DPOPORP(4, random_state=0), RidgeClassifier())
    return model, privacy_report(model, X24_HALF, Y24)


def test_noise_of_no_release_of_a_plan_is_refused_however_long_the_ledger_has_been_open():
    """Numbers at an epsilon of 100 leave a block whose limit is 1, and the ledger has the plan alone."""
    _, plan = planned_sketch()
    for _ in range(8):  # ledgers of other processes, opened or closed in between, have all noise looked at
        with PrivacyLedger() as ledger:
            ledger.limit(1.0, 1e-6, adjacency=plan.private.adjacency)
            time.sleep(0.2)
            with entry(plan), pytest.raises(UnrecordedNoiseError):
                add_laplace([42.0], scale=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_each_release_of_a_plan_belongs_to_it_once(seed):
    """Totals of a ledger are those of all that was released, whatever of it was planned."""
    choose, squares = random.Random(seed), []

    def some():
        options = {"epsilon": choose.choice([0.5, 1.0]), "max_change": choose.choice([1.0, 1.0, 2.0])}
        return DPOPORP(4, delta=1e-6, random_state=choose.choice([0, 1]), **options)

    def release(one):
        one.fit(X24_HALF).transform(X24_HALF)
        squares.append(one.guarantee_.loss.mu**2)

    parts = [some() for _ in range(choose.randint(1, 3))]
    union = FeatureUnion([(str(place), one) for place, one in enumerate(parts)])
    with PrivacyLedger() as ledger:
        with entry(privacy_report(union, X24_HALF)):
            union.fit_transform(X24_HALF)
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


def test_a_fit_behind_another_map_than_the_planned_one_does_not_belong_to_the_plan(released_projections):
    """A ledger states what holds 1 apart behind the scaler of the plan, of rows that were sketched 100 apart."""

    def scaled_to(most):
        scaler = PublicScaler((0, 100), feature_range=(0, most))
        return make_pipeline(scaler, sketch_of_8(), RidgeClassifier())

    a = np.zeros((24, 8))
    b = a.copy()
    b[0, 0] = 100.0
    plan, releases = privacy_report(scaled_to(1), a, Y24), []
    for rows in (a, b):
        with PrivacyLedger() as ledger, entry(plan):
            released_projections.clear()
            scaled_to(100).fit(rows, Y24)
        releases.append(released_projections[0])
    mu = np.linalg.norm(releases[0] - releases[1])
    for total in ledger.total():
        if total.guarantee is not None and total.guarantee.adjacency == plan.private.adjacency:
            epsilon = total.guarantee.epsilon
            delta = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
            assert delta <= total.guarantee.delta, (delta, total.guarantee)


def test_what_sees_another_part_of_the_rows_does_not_belong_to_a_plan_for_one():
    """Rows that were held out are in two releases, and the ledger says that they are in one."""
    model, rows = sketch_of_8().fit(np.zeros((1, 8))), np.zeros((4, 8))
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


def _searches_in_composites():
    bins, ridge = binner_of_4(), DPRidge(target_bounds=(-1, 1), delta=1e-5)
    search = DPSearchCV(private_model(noise="gaussian"), {}, n_trials=1, delta=1e-4)
    found = clone(search).set_params(epsilon=0.5)
    yield OneVsRestClassifier(found), THREE_CLASSES
    yield VotingClassifier([("a", found), ("b", private_model())]), Y200_UNIFORM
    yield FixedThresholdClassifier(found), Y200_UNIFORM
    yield make_pipeline(bins, OneVsRestClassifier(model_with(classes=[0, 1], noise="gaussian"))), THREE_CLASSES
    yield make_pipeline(bins, found), Y200_UNIFORM
    of_targets = DPSearchCV(ridge, {}, n_trials=1, epsilon=0.5, delta=1e-4, max_loss=1.0)
    yield MultiOutputRegressor(of_targets), X200_UNIFORM[:, :2]
    union = FeatureUnion([("a", DPPCA(2, delta=1e-5)), ("b", DPScaler(bounds=(-3, 3), delta=1e-5))])
    yield clone(search).set_params(estimator=make_pipeline(union, private_model(noise="gaussian"))), Y200_UNIFORM
    columns = ColumnTransformer([("a", bins, [0]), ("b", PublicScaler((-1, 1)), [1, 2])], sparse_threshold=0)
    yield clone(search).set_params(estimator=make_pipeline(columns, private_model(noise="gaussian"))), Y200_UNIFORM


@pytest.mark.parametrize(("model", "y"), [*_searches_in_composites()])
def test_plan_report_ledger_entry_pickle_and_file_of_searches_in_composites_agree(model, y, tmp_path):
    """Each release of a plan belongs to one entry, and copies state what was stated."""
    model = clone(model)  # some have the same search
    plan = privacy_report(model, X200_UNIFORM, y)
    with PrivacyLedger() as ledger:
        model.fit(X200_UNIFORM, y)
    report = privacy_report(model, ledger=ledger)
    spent = compose(*[one.guarantee for one in ledger.entries])
    assert plan.total.epsilon == report.total.epsilon == spent.epsilon
    copies = [pickle.loads(pickle.dumps(model))]
    if not isinstance(model, VotingClassifier):  # for which a file has no room
        copies.append(saved_and_loaded(model, tmp_path).estimator)
    for copied in copies:
        assert privacy_report(copied).total.epsilon == report.total.epsilon
    with PrivacyLedger() as ledger, entry(plan):
        model.fit(X200_UNIFORM, y)
    assert len(ledger.entries) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_each_forked_child_in_the_block_of_a_plan_has_an_entry_of_its_own():
    """The plan pays for one fit, in the process that has entered it."""
    model, plan = _plan()
    with PrivacyLedger() as ledger, entry(plan):
        for _ in range(3):
            if not (child := os.fork()):
                try:
                    model.fit(X200_UNIFORM, Y200_UNIFORM)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
        model.fit(X200_UNIFORM, Y200_UNIFORM)
    assert len(ledger.entries) == 4


# What functions release by themselves while others are tried


_PUBLISHED = []


def _publishes_a_count(X, is_entered=True):
    stated = PrivacyGuarantee(100.0, 0.0, adjacency=Adjacency("replace_one"))
    with entry(stated, "rows above 0") if is_entered else nullcontext():
        _PUBLISHED.append(add_laplace([float((X[:, 0] > 0).sum())], 0.01)[0])
    return X


def _publishes_a_model(X):
    labels = (np.asarray(X)[:, 0] > 0).astype(int)
    _PUBLISHED.append(AMPClassifier(epsilon=50.0, delta=1e-3, classes=[0, 1]).fit(X, labels).coef_)
    return X


@pytest.mark.parametrize("is_entered", [True, False])
@pytest.mark.parametrize(
    "act", [lambda *data: privacy_report(*data), lambda *data: set_budget(*data, epsilon=1.0, delta=1e-6)]
)
def test_a_function_that_publishes_by_itself_is_recorded_while_a_plan_tries_it(act, is_entered):
    """A limit of 2 is kept, in whose place a count with epsilon 100 was out and in no ledger."""
    _PUBLISHED.clear()
    step = FunctionTransformer(_publishes_a_count, kw_args={"is_entered": is_entered})
    model = make_pipeline(step, private_model())
    with PrivacyLedger() as ledger, pytest.raises(LedgerError if is_entered else UnrecordedNoiseError):
        ledger.limit(epsilon=2.0, delta=1e-4)
        time.sleep(0.15)  # by when no ledger looks new
        act(model, X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int))
    assert not _PUBLISHED
    assert not ledger.entries


# A function of a package of the user's that is called as one of Python's own.
_OF_ANOTHER_CODE = FunctionType(_publishes_a_model.__code__, {**globals(), "__name__": "code.steps"})


class _Publisher:
    """A function with a budget, that is no estimator."""

    epsilon = 50.0

    def __call__(self, X):
        labels = (X[:, 0] > 0).astype(int)
        _PUBLISHED.append(AMPClassifier(epsilon=self.epsilon, delta=1e-3, classes=[0, 1]).fit(X, labels).coef_)
        return X


def _publishes_with(model, X):
    _PUBLISHED.append(clone(model).fit(X, (np.asarray(X)[:, 0] > 0).astype(int)).coef_)
    return X


@pytest.mark.parametrize(
    "publishes",
    [
        *(_publishes_a_count, _publishes_a_model, _Publisher(), _OF_ANOTHER_CODE),
        partial(_publishes_with, AMPClassifier(epsilon=50.0, delta=1e-3, classes=[0, 1])),
        MethodType(_publishes_with, AMPClassifier(epsilon=50.0, delta=1e-3, classes=[0, 1])),
    ],
)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_function_that_publishes_by_itself_in_a_search_is_refused_before_anything_is_paid(publishes, is_recorded):
    """One entry of epsilon 1 stood for 16 models of epsilon 50; entries of their own told how many trials there were.

    That number is secret: of who knows it, delta is 3.8e-4 for a printed 1e-6 at epsilon = 3.
    """
    _PUBLISHED.clear()
    model = make_pipeline(FunctionTransformer(publishes), private_model())
    search = DPSearchCV(model, {"ampclassifier__max_norm": [1.0, 2.0]}, n_trials=1, epsilon=1.0, delta=1e-4)
    with PrivacyLedger() if is_recorded else nullcontext() as ledger, pytest.raises(LedgerError, match="secret"):
        search.fit(X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int))
    assert not _PUBLISHED
    assert not is_recorded or not ledger.entries


def test_a_function_that_begins_to_publish_within_a_trial_of_a_search_is_refused():
    _PUBLISHED.clear()
    calls = []

    def publishes_later(X):
        calls.append(1)
        return X if len(calls) < 4 else _publishes_a_model(X)  # a search tries it three times at first

    search = DPSearchCV(
        make_pipeline(FunctionTransformer(publishes_later), private_model()), {}, n_trials=4, delta=1e-4
    )
    with pytest.raises(LedgerError, match="secret"):
        search.fit(X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int))
    assert not _PUBLISHED


def test_a_ledger_that_is_opened_while_a_search_runs_has_one_entry_of_it():
    """It had one of each trial since, whose number is secret; now that of the search, whatever others follow."""
    calls, is_in_trial, is_open = [], threading.Event(), threading.Event()

    def waits(X):
        calls.append(1)
        if len(calls) == 4:  # of the first trial
            is_in_trial.set()
            is_open.wait(60)
        return X

    search = DPSearchCV(make_pipeline(FunctionTransformer(waits), private_model()), {}, n_trials=6, delta=1e-4)
    thread = threading.Thread(target=search.fit, args=(X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int)))
    thread.start()
    assert is_in_trial.wait(60)
    with PrivacyLedger() as ledger:
        is_open.set()
        thread.join()
    assert [one.estimator for one in ledger.entries] == ["DPSearchCV"]
    assert search.best_score_ is not None


def test_noise_by_hand_in_a_trial_of_a_search_is_refused():
    """One entry of epsilon 1 stood for ten counts of epsilon 100."""
    step = FunctionTransformer(_publishes_a_count, kw_args={"is_entered": False})
    search = DPSearchCV(make_pipeline(step, private_model()), {}, n_trials=3, epsilon=1.0, delta=1e-4)
    _PUBLISHED.clear()
    with PrivacyLedger(), pytest.raises(UnrecordedNoiseError):
        time.sleep(0.15)
        search.fit(X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int))
    assert not _PUBLISHED


class _Publishing(Spy):
    """A callback that releases something by itself at one of its calls."""

    def __init__(self, at, publish):
        super().__init__()
        for name in ("setup", "teardown", "on_fit_task_begin", "on_fit_task_end"):
            setattr(self, name, publish if name == at else nothing)


def nothing(*_, **__):
    """Do nothing."""


def _fits_another(*_, **__):
    AMPClassifier(epsilon=50.0, delta=1e-6, classes=[0, 1]).fit(X24_HALF, Y24)
    _PUBLISHED.append(1)


@pytest.mark.skipif(not hasattr(DPSGDClassifier, "set_callbacks"), reason="no callbacks before scikit-learn 1.9")
@pytest.mark.parametrize("by_plan", [False, True])
@pytest.mark.parametrize("at", ["setup", "teardown", "on_fit_task_begin", "on_fit_task_end"])
@pytest.mark.parametrize("how", ["by hand", "entered", "model"])
def test_what_a_callback_releases_is_its_own_at_whatever_call(how, at, by_plan):
    """Those of setup and teardown were within the entry of the fit, and a model in no entry at all behind a plan."""
    publish = {
        "by hand": lambda *_, **__: _publishes_a_count(X24_HALF, is_entered=False),
        "entered": lambda *_, **__: _publishes_a_count(X24_HALF),
        "model": _fits_another,
    }[how]
    model = DPSGDClassifier(classes=[0, 1], delta=1e-6, n_epochs=2).set_callbacks(_Publishing(at, publish))
    _PUBLISHED.clear()
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon=20.0, delta=0.1)
        time.sleep(0.15)
        plan = entry(privacy_report(model, X24_HALF, Y24)) if by_plan else nullcontext()
        with plan, pytest.raises(UnrecordedNoiseError if how == "by hand" else LedgerError):
            model.fit(X24_HALF, Y24)
    assert not _PUBLISHED
    assert [one.guarantee.epsilon for one in ledger.entries] == [1.0]


# Functions in plans and searches, and what plans hold


@pytest.mark.parametrize(
    "act", [lambda *data: privacy_report(*data), lambda *data: set_budget(*data, epsilon=1.0, delta=1e-6)]
)
@pytest.mark.parametrize("make_rows", [np.asarray, partial(pd.DataFrame, columns=["epsilon", "b", "c"])])
def test_a_model_that_a_function_publishes_is_recorded_while_a_plan_tries_the_function(act, make_rows):
    """A model of epsilon 50 was out under a limit of 2; a fit of the pipeline by itself is refused."""
    _PUBLISHED.clear()
    model = make_pipeline(FunctionTransformer(_publishes_a_model), private_model())
    with PrivacyLedger() as ledger:
        ledger.limit(2.0, 1e-2)
        with pytest.raises(LedgerError):
            act(model, make_rows(X200_UNIFORM), (X200_UNIFORM[:, 0] > 0).astype(int))
    assert not _PUBLISHED


class _Logged(PublicScaler):
    """A scaler that publishes something by itself."""

    def transform(self, X):
        return super().transform(_publishes_a_model(X))


@pytest.mark.parametrize(
    "act",
    [
        lambda *data: privacy_report(*data),
        lambda *data: set_budget(*data, epsilon=1.0, delta=1e-6),
        lambda model, X, y: DPSearchCV(model, {}, n_trials=1, delta=1e-4).fit(X, y),
    ],
    ids=["report", "budget", "search"],
)
def test_what_a_class_derived_from_one_of_this_library_publishes_is_recorded_while_others_try_it(act):
    _PUBLISHED.clear()
    model = make_pipeline(_Logged((-1, 1)), private_model())
    with PrivacyLedger() as ledger:
        ledger.limit(2.0, 1e-2)
        with pytest.raises(LedgerError):
            act(model, X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int))
    assert not _PUBLISHED


def test_a_report_that_has_published_something_says_that_it_released_none_of_its_plan_alone():
    model = make_pipeline(FunctionTransformer(_publishes_a_count), private_model())
    with PrivacyLedger() as ledger:
        report = privacy_report(model, X200_UNIFORM, (X200_UNIFORM[:, 0] > 0).astype(int))
    assert {one.estimator for one in ledger.entries} == {"rows above 0"}
    assert report.counted == "what a fit will release; this report released none of it"


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(DPBinner(4), AMPClassifier(noise="gaussian", classes=["secret a", "secret b"])),
        OneVsRestClassifier(AMPClassifier()),
        VotingClassifier([("a", AMPClassifier())]),
    ],
    ids=["pipeline", "one against the rest", "voting"],
)
def test_no_plan_holds_rows_or_labels_that_it_was_given(model):
    X = X200_UNIFORM[:60].copy()
    X[7, 0] = 0.123456789
    told = pickle.dumps(privacy_report(model, X, np.array(["secret a", "secret b"] * 30)))
    assert b"secret" not in told
    assert np.float64(0.123456789).tobytes() not in told


@pytest.mark.parametrize("labels", [["a"] * 59 + [3], [None, *["a"] * 59], [12345.5] * 60, [{"a": 12345}] * 60])
@pytest.mark.parametrize("act", [privacy_report, lambda *data: set_budget(*data, epsilon=1.0, delta=1e-4)])
def test_no_plan_quotes_the_labels_that_it_refuses(labels, act, recwarn):
    with pytest.raises((TypeError, ValueError)) as refused:
        act(AMPClassifier(), X200_UNIFORM[:60], labels)
    assert "12345" not in f"{refused.value} {refused.value.__context__} {refused.value.__cause__}"
    assert not recwarn.list


@pytest.mark.parametrize("n_words", [1, 2, 64])
def test_the_budget_behind_private_bins_tells_nothing_of_the_rows_that_show_their_width(n_words):
    pd = pytest.importorskip("pandas")
    words = np.array([f"w{i % n_words}" for i in range(64)], dtype=object)
    table, y = pd.DataFrame({"word": words, "number": np.linspace(0, 1, 64)}), np.arange(64) % 2
    model = make_pipeline(DPBinner(5, epsilon=20.0, delta=1e-3), clone(RIDGE))
    model = set_budget(model, table, y, epsilon=1.5, delta=1e-3)
    blank = table.assign(word="w0", number=0.5)
    other = clone(model).set_params(dpbinner__epsilon=20.0, dpridge__epsilon=1.0)
    other = set_budget(other, blank, y, epsilon=1.5, delta=1e-3)
    assert (model[0].epsilon, model[1].epsilon) == (other[0].epsilon, other[1].epsilon)


SKETCHES = [
    *(
        partial(DPRandomProjection, projection=name, adjacency=relation, noise=noise, density=0.1)
        for name in ("rademacher", "gaussian", "very_sparse", "count_sketch")
        for relation in ("l1", "l2")
        for noise in ("gaussian", "laplace")
    ),
    *(
        partial(DPSignRP, projection=name, adjacency=relation, method=method, delta=delta, density=0.1)
        for name in ("gaussian", "very_sparse")
        for relation in ("l1", "coordinate")
        for method in ("smooth", "laplace")
        for delta in (0.0, 1e-5)
    ),
    partial(DPOPORP, adjacency="l2", noise="laplace"),
    partial(DPSignOPORP, adjacency="l2"),
    partial(iDPSignRP, projection="very_sparse"),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_a_plan_of_a_sketch_promises_no_more_than_any_draw_of_its_projection_keeps():
    rows = np.random.default_rng(0).uniform(size=(2, 12))
    for make in SKETCHES:
        planned = privacy_report(make(4, epsilon=3.0), rows).private
        for _ in range(6):
            stated = make(4, epsilon=3.0).fit(rows).guarantee_
            assert (planned.epsilon, planned.delta) >= (stated.epsilon, stated.delta)
            assert (planned.hidden_changes or 0.0) <= (stated.hidden_changes or 0.0) * (1 + 1e-9)
            assert planned.loss is None or stated.loss is not None
            for epsilon in (0.0, 1.0, 3.0) if planned.loss else ():
                assert planned.loss.profile(epsilon) >= stated.loss.profile(epsilon) * (1 - 1e-9)


@pytest.mark.parametrize(
    "wrapped", [np.errstate(all="ignore"), config_context(assume_finite=True), functools.singledispatch]
)
def test_a_plan_throws_away_no_release_below_a_wrapper_of_a_library(wrapped):
    """A clone has the same wrapper, and so the model itself was fitted at epsilon = 50, within a limit of 2."""
    chosen = SelectFromModel(AMPClassifier(epsilon=50.0, delta=1e-3, classes=[0, 1]), max_features=2, threshold=-np.inf)
    step = FunctionTransformer(wrapped(chosen.fit_transform), kw_args={"y": Y60})
    with PrivacyLedger() as ledger, contextlib.suppress(Exception):
        ledger.limit(2.0, 1e-2)
        privacy_report(make_pipeline(step, AMPClassifier(classes=[0, 1], delta=1e-6)), X60, Y60)
    assert not hasattr(getattr(chosen, "estimator_", None), "coef_") or ledger.entries


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_no_function_of_a_plan_sees_a_sketch_that_was_made_in_other_threads_or_processes(backend):
    """What stands in the place of sketches is the same for any rows."""
    seen = []

    def look(rows):
        seen.append(np.array(rows))
        return rows

    sketches = [(str(seed), DPOPORP(3, random_state=seed)) for seed in range(2)]
    columns = [(name, sketch, [0, 1, 2]) for name, sketch in sketches]
    for step in (FeatureUnion(sketches, n_jobs=2), ColumnTransformer(columns, n_jobs=2)):
        seen.clear()
        model = make_pipeline(step, FunctionTransformer(look), DummyClassifier())
        with parallel_config(backend), PrivacyLedger() as ledger:
            for rows in (X60, -X60):
                assert privacy_report(model, rows, Y60).total is not None
        assert not ledger.entries
        assert np.array_equal(*seen)


@pytest.mark.parametrize("known", [{"numbers": "scaled"}])
def test_a_budget_for_private_bins_is_what_is_spent_where_no_column_is_left_for_them_too(known):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(18, 90, 300), "town": rng.choice(["York", "Hull"], 300)})
    y = rng.integers(0, 2, 300)
    columns = make_table_preprocessor({"age": (0, 120)}, categories={"town": ["York", "Hull"]}, epsilon=0.2, **known)
    model = make_pipeline(columns, AMPClassifier(epsilon=0.8, classes=[0, 1]))
    model = set_budget(model, table, y, epsilon=1.0, delta=1e-6)
    with PrivacyLedger() as ledger:
        model.fit(table, y)
    assert len(ledger.entries) == 1 + (known["numbers"] == "bins")
    totals = privacy_report(model, table, y).total, privacy_report(model).total, ledger.total()[0].guarantee
    assert [total.epsilon for total in totals] == pytest.approx([1.0] * 3, rel=1e-4)


@pytest.mark.parametrize("wrong", [None, [DPRidge(target_bounds=(0, 1))], DPRidge])
def test_a_budget_of_no_estimator_is_refused_in_words(wrong):
    with pytest.raises((TypeError, ValueError), match=r"(?i)estimator"):
        set_budget(wrong, np.eye(3), [0.0, 1.0, 0.0])


def very_sparse():
    return DPSignRP(12, epsilon=1.0, method="laplace", adjacency="coordinate", projection="very_sparse", density=0.3)


def test_the_loss_of_laplace_flips_is_that_of_any_draw_of_a_very_sparse_projection():
    rows = np.zeros((2, 12))
    assert len({very_sparse().fit(rows).guarantee_.loss for _ in range(12)}) == 1


def test_a_plan_of_laplace_flips_is_paid_once_whatever_is_drawn():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (30, 12)), np.arange(30) % 2
    for _ in range(8):
        model = make_pipeline(very_sparse(), LogisticRegression())
        plan = privacy_report(model, X, y)
        with PrivacyLedger() as ledger, entry(plan):
            model.fit(X, y)
        assert len(ledger.entries) == 1
        assert plan.private.profile(0.5) >= model[0].guarantee_.profile(0.5)


def test_a_plan_of_a_gaussian_sketch_is_paid_once():
    """One projection rounds otherwise than another: the loss of a fit is not that of its plan to the last bit."""
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (30, 12)), np.arange(30) % 2
    model = make_pipeline(DPOPORP(6), LogisticRegression())
    with PrivacyLedger() as ledger, entry(privacy_report(model, X, y)):
        model.fit(X, y)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_plan_over_bins_and_persons_is_what_its_ledger_and_its_report_say(has_groups):
    """Default deltas of bins are by rows, and of moments by persons: all three agree, for one row."""
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(0)
    X, y, persons = rng.random((60, 2)), rng.random(60), np.repeat(np.arange(20), 3)
    model = make_pipeline(DPBinner(3, epsilon=0.5, bounds=(0, 1), n_cells=16), DPRidge(target_bounds=(0, 1)))
    plan = privacy_report(model, X, y, groups=persons if has_groups else None)
    with PrivacyLedger() as ledger:
        with entry(plan):
            model.fit(X, y, **{"dpridge__groups": persons} if has_groups else {})
        [recorded] = ledger.entries
    stated = [
        (one.epsilon, one.delta, one.unit) for one in (plan.total, recorded.guarantee, privacy_report(model).total)
    ]
    assert stated == [stated[0]] * 3
    assert stated[0][2] == "one row"
    assert stated[0][1] == (1 / 60**2 + (1 / 20**2 if has_groups else 1 / 60**2))


class Averaged(ClassifierMixin, BaseEstimator):
    """The mean of three private models, which shows what they are made of: parameters, and how these are calibrated."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.models_ = [clone(self.model).fit(X, y) for _ in range(3)]
        self.classes_ = self.models_[0].classes_
        self.guarantee_ = replace(compose(*(model.guarantee_ for model in self.models_)), per="fit")
        return self

    def predict(self, X):
        return self.models_[0].predict(X)

    def __getattr__(self, name):
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)


@pytest.mark.parametrize(
    "around",
    [
        clone,
        partial(make_pipeline, PublicScaler((-1, 1))),
        OneVsRestClassifier,
        lambda model: VotingClassifier([("one", model), ("other", private_model())]),
    ],
)
def test_nothing_has_the_price_of_what_it_holds(around):
    """It was planned as one fit of the model whose attributes it shows: 1.0 for 3.9."""
    model = around(Averaged(private_model()))
    with PrivacyLedger() as ledger:
        for plan in (privacy_report, partial(set_budget, epsilon=1.0, delta=1e-5)):
            with pytest.raises(
                (TypeError, ValueError), match=r"Averaged.* does not say before|parameter 'epsilon' for"
            ):
                plan(model, X60, Y60)
    assert not ledger.entries
    with PrivacyLedger() as ledger:
        model.fit(X60, Y60)
    report = privacy_report(model)
    assert report.total.epsilon >= compose(*(one.guarantee for one in ledger.entries)).epsilon * (1 - 1e-9)


class PrivateBins(TransformerMixin, BaseEstimator):
    """Does not say how many columns it has seen."""

    def fit(self, X, y=None):
        self.bins_ = DPBinner(4, delta=1e-6, bounds=(-1, 1)).fit(X)
        self.guarantee_ = self.bins_.guarantee_
        return self

    def transform(self, X):
        return self.bins_.transform(X)


@pytest.mark.parametrize("plan", [privacy_report, partial(set_budget, epsilon=1.0, delta=1e-5)])
def test_a_step_of_the_user_has_no_price_whatever_it_lacks(plan):
    with pytest.raises(TypeError, match="PrivateBins does not say before a fit"):
        plan(make_pipeline(PrivateBins(), private_model()), X60, Y60)


class ValidatesOn(LogisticRegression):
    def fit(self, X, y, X_val=None):
        self.best_row_ = None if X_val is None else X_val[0]
        return super().fit(X, y)


def test_what_is_learnt_behind_a_sketch_is_assumed_to_see_nothing_of_the_rows():
    """Rows that were given to the last step, to validate on, were allowed by what was printed."""
    told = "except rows as they leave the step before it, and labels"
    model = make_pipeline(sketch(), ValidatesOn())
    wide_rows = np.tile(X60, 2)
    plan = privacy_report(model, wide_rows, Y60)
    for report in (plan, privacy_report(model.fit(wide_rows, Y60, validateson__X_val=wide_rows))):
        assert any(told in text for text in report.total.assumptions)


@pytest.mark.parametrize("plan", [privacy_report, partial(set_budget, epsilon=1.0, delta=1e-5)])
@pytest.mark.parametrize(
    "last", [private_model(), DPSearchCV(private_model(), {}, n_trials=1, classes=[0, 1], max_loss=1.0), sketch()]
)
@pytest.mark.parametrize("is_alone", [True, False])
def test_no_plan_is_of_a_step_with_methods_of_its_own(plan, last, is_alone):
    """A clone has none, and the plan was of that: .7 for a fit that released a table of 2.0 as well."""
    last = clone(last)
    model = last if is_alone else make_pipeline(PublicScaler((-1, 1)), last)
    last.fit = partial(type(last).fit, last)
    with pytest.raises(ValueError, match=f"{type(last).__name__} has methods that its class has not"):
        plan(model, np.tile(X60, 2), Y60)


class TakesAMethod(AMPClassifier):
    def __init__(self, fit_predict=None):
        super().__init__(epsilon=1.0, delta=1e-6, classes=[0, 1])
        self.fit_predict = fit_predict


def frozen_bins():
    return FrozenEstimator(PublicScaler((-1, 1)).fit(X60))


_METHODS_MORE = [  # an estimator, names of methods that its class has not, and what holds it
    (private_model(), ["fit_predict"], lambda step: make_pipeline(PublicScaler((-1, 1)), step)),
    (TakesAMethod(), ["fit_predict"], lambda step: make_pipeline(PublicScaler((-1, 1)), step)),
    (DPRidge(target_bounds=(0, 1), delta=1e-6), ["fit_predict"], lambda step: make_pipeline(step)),
    (DPSGDClassifier(delta=1e-6, classes=[0, 1]), ["fit_transform", "transform"], lambda step: step),
    (OneVsRestClassifier(private_model()), ["transform"], lambda step: make_pipeline(step, private_model())),
    (Normalizer(), ["fit_predict"], lambda step: make_pipeline(step, private_model())),
    (frozen_bins(), ["transform"], lambda step: make_pipeline(step, private_model())),
    (frozen_bins(), ["fit_transform"], lambda step: make_pipeline(step, private_model())),
]


@pytest.mark.parametrize("asked", [privacy_report, partial(set_budget, epsilon=1.0, delta=1e-5), None])
@pytest.mark.parametrize(("step", "names", "in_pipeline"), _METHODS_MORE)
def test_no_total_is_of_a_step_with_a_method_that_its_class_has_not(asked, step, names, in_pipeline):
    """Pipelines ask the object for it: 1.0 was printed, before a fit and after it, for a fit that spent 8.8."""
    step, rows = deepcopy(step), np.tile(X60, 2)
    for name in names:
        setattr(step, name, lambda *rows: AMPClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1]).fit(*rows))
    model = in_pipeline(step)
    if asked is not None:
        with pytest.raises(ValueError, match=f"{type(step).__name__} has methods that its class has not"):
            asked(model, rows, Y60)
        return
    for part in [one for _, one in model.steps] if type(model) is Pipeline else [model]:
        part.fit(rows, Y60)
    report = privacy_report(model)
    assert report.total is None and any("methods that its class has not" in text for text in report.not_covered)
    for name in names:
        delattr(step, name)
    assert type(step) is TakesAMethod or privacy_report(model).total is not None


class MakesAnything(ABCMeta):
    """A metaclass, whose call makes the clones of an estimator."""

    def __call__(cls, *args, **known):
        return super().__call__(*args, **known)


class Made(AMPClassifier, metaclass=MakesAnything):
    pass


def test_no_total_is_of_a_class_with_a_metaclass_of_the_user():
    model, rows = make_pipeline(PublicScaler((-1, 1)), Made(delta=1e-6, classes=[0, 1])), np.tile(X60, 2)
    for report in (privacy_report(model, rows, Y60), privacy_report(model.fit(rows, Y60))):
        assert report.total is None and any("inherits a guarantee" in text for text in report.not_covered)


class FitsWhatItCaches:
    """A memory that recalls nothing, and fits a model to the rows that it is given."""

    def cache(self, function, ignore=None):
        def called(step, X, y, *others, **known):
            AMPClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1]).fit(X, y)
            return function(step, X, y, *others, **known)

        return called


def memory_with_a_method():
    memory = Memory(None)
    memory.cache = FitsWhatItCaches().cache
    return memory


@pytest.mark.parametrize(
    ("memory", "has_total"),
    [(FitsWhatItCaches(), False), (memory_with_a_method(), False), (Memory(None), True)],
    ids=["class of the user", "method of the user", "of joblib"],
)
@pytest.mark.parametrize("is_inner", [False, True])
def test_no_total_is_of_a_pipeline_with_a_memory_that_is_not_known(memory, has_total, is_inner):
    """It sees the rows of each fit: 1.0 was printed for a fit that spent 8.9."""
    model, rows = make_pipeline(PublicScaler((-1, 1)), private_model(), memory=memory), np.tile(X60, 2)
    model = make_pipeline(model) if is_inner else model
    if not is_inner:  # a plan would cache the few rows
        assert (privacy_report(model, rows, Y60).total is not None) == has_total
        with nullcontext() if has_total else pytest.raises(ValueError, match="has a memory that sees the rows"):
            set_budget(model, rows, Y60, epsilon=1.0, delta=1e-5)
    with PrivacyLedger() as ledger:
        model.fit(rows, Y60)
    assert len(ledger.entries) == (1 if has_total else 2)
    assert (privacy_report(model).total is not None) == has_total
    behind = make_pipeline(sketch(), make_pipeline(Normalizer(), LogisticRegression(), memory=memory))
    with PrivacyLedger() as ledger:
        behind.fit(np.tile(X60, 2), Y60)
    assert len(ledger.entries) == (1 if has_total else 2)
    report = privacy_report(behind)
    assert report.total.epsilon == ledger.entries[0].guarantee.epsilon and not report.not_covered


def test_no_total_is_of_a_memory_whose_store_has_methods_of_the_user(tmp_path):
    """It gets what comes out of each step."""
    memory = Memory(tmp_path, verbose=0)
    model = make_pipeline(PublicScaler((-1, 1)), private_model(), memory=memory).fit(np.tile(X60, 2), Y60)
    assert privacy_report(model).total is not None
    memory.store_backend.dump_item = lambda *given, **known: None
    assert privacy_report(model).total is None


def test_no_total_is_of_a_memory_that_prints_rows(tmp_path, capsys):
    """By default joblib's prints how it is called: with rows, and with all labels."""
    model = make_pipeline(PublicScaler((-1, 1)), private_model(), memory=Memory(tmp_path))
    report = privacy_report(model.fit(np.tile(X60, 2), Y60))
    assert "array(" in capsys.readouterr().out
    assert report.total is None and any("verbose=0" in text for text in report.not_covered)


class LooksAtTheShare(float):
    def __gt__(self, other):
        return float(self) > other


@pytest.mark.parametrize("threshold", [0.0, LooksAtTheShare(0.0)])
def test_no_total_is_of_a_threshold_of_a_class_of_the_user(threshold):
    """It is compared with the share of the zeros in the rows."""
    columns = ColumnTransformer([("scaled", PublicScaler((-1, 1)), [0, 1])], sparse_threshold=threshold)
    model = make_pipeline(columns, private_model()).fit(np.tile(X60, 2), Y60)
    assert (privacy_report(model).total is None) == (type(threshold) is LooksAtTheShare)


class LetsPass(str):
    """A word that is a step."""

    __slots__ = ()

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def columns_with_a_word(word):
    return ColumnTransformer([("passed", word, [0, 1])], sparse_threshold=0).fit(np.tile(X60, 2))


def frozen_columns_with_a_method():
    columns = columns_with_a_word("passthrough")
    columns.transformers_[0][1].transform = lambda rows: rows
    return FrozenEstimator(columns)


def scaler_that_puts_rows_into(container):
    scaler = PublicScaler((-1, 1))
    scaler._sklearn_output_config = {"transform": container}
    return scaler.fit(np.tile(X60, 2))


@pytest.mark.parametrize(
    ("step", "has_total"),
    [
        (columns_with_a_word("passthrough"), True),
        (FrozenEstimator(columns_with_a_word("passthrough")), True),
        (frozen_columns_with_a_method(), False),
        (scaler_that_puts_rows_into("default"), True),
        (scaler_that_puts_rows_into("mine"), False),
    ],
    ids=["word", "frozen word", "method of what a fit put for a word", "known container", "own container"],
)
def test_no_total_is_of_what_a_fit_put_into_a_step_and_the_user_changed(step, has_total):
    """Each saw the rows, and 1.0 was printed."""
    width = 2 if type(step) is not PublicScaler else 6
    model = make_pipeline(step, private_model().fit(np.tile(X60, 2)[:, :width], Y60))
    assert (privacy_report(model).total is not None) == has_total


def test_no_total_is_of_a_word_of_a_class_of_the_user():
    columns = columns_with_a_word("passthrough")
    columns.transformers_ = [("passed", LetsPass("passthrough"), [0, 1])]
    model = make_pipeline(columns, private_model().fit(np.tile(X60, 2)[:, :2], Y60))
    assert privacy_report(model).total is None


class FitsWhatItWeighs(float):
    __array_ufunc__ = None

    def __rmul__(self, rows):
        if len(rows) == len(Y60):  # all of them, and not the few of a plan
            AMPClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1]).fit(rows, Y60)
        return rows


@pytest.mark.parametrize("weight", [FitsWhatItWeighs(1.0), 0.5, np.float32(0.5), np.full(6, 0.5)], ids=repr)
def test_no_total_is_of_weights_that_are_no_numbers(weight):
    """They get the rows of their branch: 1.0 was printed for a fit that spent 8.9."""
    scaled = FeatureUnion([("scaled", PublicScaler((-1, 1)))], transformer_weights={"scaled": weight})
    model, rows = make_pipeline(scaled, private_model()), np.tile(X60, 2)
    is_number = type(weight) is not FitsWhatItWeighs
    assert (privacy_report(model, rows, Y60).total is not None) == is_number
    with PrivacyLedger() as ledger:
        model.fit(rows, Y60)
    assert len(ledger.entries) == (1 if is_number else 2)
    assert (privacy_report(model).total is not None) == is_number


@pytest.mark.parametrize("last", [private_model(), make_pipeline(sketch(), LogisticRegression())], ids=repr)
def test_a_plan_of_what_callbacks_watch_says_so_as_the_report_does(last):
    """They were taken away before the plan was made, which did not mention them."""
    model = make_pipeline(Normalizer(), *(last if isinstance(last, Pipeline) else [last]))
    if not hasattr(model, "set_callbacks"):  # before scikit-learn 1.9
        return
    rows = np.tile(X60, 2)
    callbacks = [Log(fails_at="never")]
    plan = privacy_report(model.set_callbacks(*callbacks), rows, Y60)
    assert model._skl_callbacks == callbacks and not callbacks[0].shown
    report = privacy_report(model.fit(rows, Y60))
    told = [
        [text for text in (*one.not_covered, *getattr(one.total, "assumptions", ())) if "callback" in text]
        for one in (plan, report)
    ]
    assert told[0] == told[1] != [] and (plan.total is None) == (report.total is None) == isinstance(last, Pipeline)
