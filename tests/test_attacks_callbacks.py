"""Attacks on what callbacks leave in pickles, on steps that stand twice, and on scores of searches and limits."""
# ruff: noqa: D102

import pickle
import re
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from attacks import X200_UNIFORM, X400, Y200_UNIFORM, Y400, saved_and_loaded
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    compose,
    make_table_preprocessor,
    privacy_report,
)
from skdprp.guarantee import Adjacency
from skdprp.ledger import LedgerError, entry
from skdprp.testing import reproducible_noise

HAS_CALLBACKS = pytest.mark.skipif(not hasattr(Pipeline, "set_callbacks"), reason="no callbacks before 1.9")


class KeepsMeans:
    """A callback that logs the means of the rows it is shown."""

    def __init__(self):
        self.means, self.begun = [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.begun.append(context.task_name)
        if X is not None:
            self.means.append(np.asarray(X).mean(axis=0))

    def on_fit_task_end(self, estimator, context):
        pass


class Everywhere(KeepsMeans):
    """The same for all that is fitted within."""

    max_propagation_depth = None


def is_said(report):
    """Whether a report has no total, or says something of callbacks or pickles."""
    total = report.total
    return total is None or any(re.search("callback|pickle", text) for text in (*total.assumptions, *total.not_covered))


def callbacks_in(estimator):
    """All callbacks of an estimator and its steps."""
    parts = [estimator, *estimator.get_params().values()]
    return [one for part in parts for one in getattr(part, "_skl_callbacks", ())]


@HAS_CALLBACKS
def test_no_pickle_of_a_search_has_what_callbacks_had_logged_before():
    """Clones keep callbacks: the pickle had the accuracy of a model without noise on all rows."""
    from sklearn.callback import ScoringMonitor

    explored = LogisticRegression(max_iter=3).set_callbacks(ScoringMonitor(scoring="accuracy"))
    pipeline = make_pipeline(PublicScaler((-1, 1)), explored).fit(X200_UNIFORM, Y200_UNIFORM)
    pipeline.score(X200_UNIFORM, Y200_UNIFORM)
    grid = {"logisticregression": [AMPClassifier(classes=[0, 1]), AMPClassifier(classes=[0, 1], max_norm=0.5)]}
    search = DPSearchCV(clone(pipeline), grid, n_trials=1, epsilon=2.0, delta=1e-4).fit(X200_UNIFORM, Y200_UNIFORM)
    read = pickle.loads(pickle.dumps(search))
    assert not callbacks_in(read.estimator) or is_said(privacy_report(search))


@HAS_CALLBACKS
def test_a_file_has_a_model_without_its_callbacks(tmp_path):
    model = DPSGDClassifier(classes=[0, 1], n_epochs=2).set_callbacks(KeepsMeans()).fit(X200_UNIFORM, Y200_UNIFORM)
    saved = saved_and_loaded(model, tmp_path).estimator
    assert callbacks_in(model) and not callbacks_in(saved)
    assert np.array_equal(saved.predict(X200_UNIFORM), model.predict(X200_UNIFORM))


@HAS_CALLBACKS
def test_a_total_is_not_of_a_pipeline_whose_callbacks_keep_means_or_says_so():
    """The pickle of a pipeline of which all was said to be covered had the exact means of its rows."""
    pipeline = make_pipeline(PublicScaler((-1, 1)), AMPClassifier(classes=[0, 1], delta=1e-6))
    pipeline.set_callbacks(KeepsMeans()).fit(X200_UNIFORM, Y200_UNIFORM)
    kept = [one.means for one in callbacks_in(pickle.loads(pickle.dumps(pipeline)))]
    assert not any(kept) or is_said(privacy_report(pipeline))


@HAS_CALLBACKS
def test_a_total_is_not_of_a_pipeline_whose_progress_bar_has_methods_of_its_own_or_says_so():
    """A bar of scikit-learn's is no word in a report, by the name of its class; its object may keep rows."""
    from sklearn.callback import ProgressBar

    for is_changed in (False, True):
        bar = object.__new__(ProgressBar)  # its constructor asks for rich, which draws
        if is_changed:
            bar.on_fit_task_begin = KeepsMeans().on_fit_task_begin
        pipeline = make_pipeline(PublicScaler((-1, 1)), AMPClassifier(classes=[0, 1], delta=1e-6))
        pipeline.fit(X200_UNIFORM, Y200_UNIFORM).set_callbacks(bar)
        assert is_said(privacy_report(pipeline)) == is_changed


def test_a_step_that_stands_twice_and_has_groups_once_is_for_rows():
    """The report stated the guarantee of its last fit for both: one person replaced, where the first was for rows."""
    twice, persons = DPPCA(2, delta=1e-6), np.arange(200) // 2
    model = Pipeline([("a", twice), ("b", twice), ("model", DPSGDClassifier(classes=[0, 1], delta=1e-6))])
    with PrivacyLedger() as ledger:
        model.fit(X200_UNIFORM, Y200_UNIFORM, b__groups=persons, model__groups=persons)
    total = privacy_report(model).total
    assert total is None or total.unit == ledger.total()[0].guarantee.unit == "one row"


@pytest.mark.parametrize("frozen", [FrozenEstimator, lambda step: FrozenEstimator(make_pipeline(step))])
def test_a_step_that_is_frozen_and_fitted_again_for_persons_is_not_reported_for_persons_in_both_places(frozen):
    rows, persons = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 4)), np.arange(300) // 3
    step = DPPCA(4, delta=1e-6).fit(rows)  # of rows
    ridge = DPRidge(target_bounds=(-1, 1), delta=1e-6, mechanism="moments")
    model = Pipeline([("before", frozen(step)), ("step", step), ("ridge", ridge)])
    model.fit(rows, rows[:, 0], step__groups=persons, ridge__groups=persons)
    total = privacy_report(model).total
    assert total is None or "person" not in total.unit


def test_a_report_counts_what_a_frozen_step_had_released_before_the_same_pipeline_fitted_it_again():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 4))
    with PrivacyLedger() as ledger:
        step = DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6).fit(rows)
        step.set_params(epsilon=1.0)
        model = Pipeline([("before", FrozenEstimator(step)), ("step", step), ("model", AMPClassifier(classes=[0, 1]))])
        model.fit(rows, (rows[:, 0] > 0).astype(int))
    total = privacy_report(model).total
    assert total is None or total.epsilon >= 5.0
    assert [one.guarantee.epsilon for one in ledger.entries] == [5.0, 1.0, 1.0]


def _voting_on_frozen_pipelines(first, second, rows, y):
    """Two pipelines, the first fitted on a few of the rows, frozen into one ensemble."""
    with PrivacyLedger() as ledger:
        one, two = make_pipeline(first, AMPClassifier(**PURE)), make_pipeline(second, AMPClassifier(**PURE))
        frozen = [FrozenEstimator(one.fit(rows[:100], y[:100])), FrozenEstimator(two.fit(rows, y))]
        voting = VotingClassifier([("a", frozen[0]), ("b", frozen[1])]).fit(rows, y)
    return privacy_report(voting).total, ledger.total()[0].guarantee


PURE = {"delta": 1e-9, "classes": [0, 1]}


def test_a_step_that_two_frozen_pipelines_share_is_not_reported_by_the_last_of_their_fits():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (3000, 3))
    scaler = DPScaler(bounds=(-1, 1), epsilon=0.5)  # whose delta follows from the number of rows
    total, spent = _voting_on_frozen_pipelines(scaler, scaler, rows, (rows[:, 0] > 0).astype(int))
    assert total is None or total.delta >= spent.delta


def test_what_is_frozen_by_itself_and_shared_by_frozen_pipelines_keeps_its_total():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (3000, 3))
    scaler = DPScaler(bounds=(-1, 1), epsilon=0.5).fit(rows)
    frozen = FrozenEstimator(scaler), FrozenEstimator(scaler)
    total, spent = _voting_on_frozen_pipelines(*frozen, rows, (rows[:, 0] > 0).astype(int))
    assert total.epsilon >= spent.epsilon and scaler.guarantee_.epsilon == 0.5


def test_a_frozen_pipeline_of_private_steps_may_stand_in_two_places_unless_a_step_of_it_does():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3))
    y = (rows[:, 0] > 0).astype(int)
    scaler = DPScaler(bounds=(-1, 1), epsilon=0.5, delta=1e-6)
    for before, is_known in ((make_pipeline(scaler), True), (make_union(scaler, scaler), False)):
        frozen = FrozenEstimator(before.fit(rows))
        members = [(name, make_pipeline(frozen, AMPClassifier(**PURE))) for name in "ab"]
        total = privacy_report(VotingClassifier(members).fit(rows, y)).total
        assert (total is not None) == is_known
        assert total is None or total.epsilon > 2.0


def test_a_step_that_stands_in_two_places_is_reported_by_the_losses_of_both_of_its_fits():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{place}": rng.choice(list("abc"), 400) for place in range(8)})
    step = DPBinner(2, epsilon=0.1, delta=1e-3, sparse_output=False, max_categories=3)  # names, then numbers
    last = AMPClassifier(delta=1e-6, classes=[0, 1], max_norm=20.0)
    with PrivacyLedger() as ledger:
        model = Pipeline([("one", step), ("two", step), ("last", last)]).fit(table, rng.integers(0, 2, 400))
    total, released = privacy_report(model).total, compose(*(one.guarantee for one in ledger.entries))
    assert total is None or released.profile(total.epsilon) <= total.delta * (1 + 1e-9)


@HAS_CALLBACKS
@pytest.mark.filterwarnings("ignore:The estimator")
@pytest.mark.parametrize("kind", [KeepsMeans, Everywhere])
def test_callbacks_around_a_search_see_nothing_of_its_trials(kind):
    """Of a pipeline and of a grid search around it; those of what is searched are called in no trial."""
    seen, within, rows, y = [], kind(), X200_UNIFORM[:60], Y200_UNIFORM[:60]
    model = make_pipeline(PublicScaler((-1, 1)), DPSGDClassifier(classes=[0, 1], n_epochs=2)).set_callbacks(within)
    for _ in range(4):
        around = kind()
        search = DPSearchCV(clone(model), {}, n_trials=6, epsilon=3.0, delta=1e-5)
        make_pipeline(PublicScaler((-1, 1)), search).set_callbacks(around).fit(rows, y)
        GridSearchCV(search, {}, cv=KFold(2)).set_callbacks(around).fit(rows, y)
        seen.append(around.begun)
    assert all(one == seen[0] for one in seen)
    assert not within.begun


def test_no_odd_cell_of_a_held_out_row_moves_the_score_of_a_search_by_more_than_one_row():
    """Cells of all types, with the same noise: the sums of scores differ by one row at most."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    table = pd.DataFrame({"number": rng.normal(size=100), "name": pd.Series(rng.choice(names, 100), dtype=object)})
    labels = (table["number"].to_numpy() > 0).astype(int)
    held_out = train_test_split(np.arange(100), test_size=0.2, random_state=0)[1]
    odd = [None, np.nan, 1, True, "a\0", 2**70]
    encoder = OneHotEncoder(categories=[names], handle_unknown="infrequent_if_exist", sparse_output=False)
    for columns, *scorings in (
        (make_table_preprocessor({"number": (-3, 3)}, categories={"name": names}), "accuracy", "neg_log_loss"),
        (make_table_preprocessor({"number": (-3, 3)}, epsilon=0.3), "accuracy"),
        (ColumnTransformer([("names", encoder, ["name"])], sparse_threshold=0), "accuracy"),
    ):
        model = make_pipeline(columns, DPSGDClassifier(classes=[0, 1], n_epochs=2))
        for scoring in scorings:
            unit = 1.0 if scoring == "accuracy" else 4.0
            search = DPSearchCV(model, {}, n_trials=0.1, epsilon=20.0, delta=1e-3, scoring=scoring, random_state=0)

            def mean(rows, labels, search=search):
                with reproducible_noise(0):
                    return search.fit(rows, labels).best_score_

            usual = mean(table, labels)
            for place, cell in enumerate(odd):
                rows, others = table.copy(), labels.copy()
                row = held_out[place % len(held_out)]
                rows.at[row, "name"], rows.at[row, "number"] = cell, [np.nan, 1e308, -0.0][place % 3]
                others[row] = 1 - others[row]
                assert abs(mean(rows, others) - usual) * len(held_out) / unit < 1.01


def test_all_that_passes_a_gaussian_limit_composes_to_no_more():
    """Exactly: pure and Gaussian releases, product noise, bins, and plans of several steps."""
    rng = np.random.default_rng(1)

    def one():
        epsilon, delta = float(rng.uniform(0.05, 0.6)), float(10 ** rng.uniform(-9, -6))
        private = {"epsilon": epsilon, "delta": delta}
        return (
            PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency("replace_one")),
            PrivacyGuarantee(epsilon, delta, adjacency=Adjacency("replace_one")),
            privacy_report(AMPClassifier(**private, classes=[0, 1], noise="product"), X400, Y400).private,
            privacy_report(ProductNoiseOutputPerturbation(**private, classes=[0, 1]), X400, Y400).private,
            privacy_report(DPBinner(4, **private), X400).private,
        )[rng.integers(5)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epsilon in (1.0,):
            passed, n_refused = [], 0
            with PrivacyLedger() as ledger:
                ledger.limit(epsilon, 1e-5, composition="gaussian")
                while (n_refused < 3 or not passed) and len(passed) < 6:
                    guarantee = one()
                    try:
                        with entry(guarantee):
                            passed.append(guarantee)
                    except LedgerError:
                        n_refused += 1
            assert passed
            assert compose(*passed, delta=1e-5).epsilon <= epsilon


def test_no_print_of_a_guarantee_is_below_its_numbers():
    """Lines, texts, tables and pages, and the best guess in them."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        epsilon, delta = float(10 ** rng.uniform(-6, 2.5)), float(10 ** rng.uniform(-300, -0.01))
        if rng.random() < 0.5:
            epsilon, delta = round(epsilon, 5) or 1.0, float(f"{delta:.4g}")
        guarantee = PrivacyGuarantee(epsilon, delta, adjacency=Adjacency("replace_one"))
        for text in (repr(guarantee), str(guarantee), guarantee.to_markdown(), guarantee._repr_html_()):
            text = re.sub("<[^>]*>", " ", text)
            shown = re.search(r"\(([\d.e+-]+), ([\d.e+-]+)\)-DP", text)
            assert Fraction(float(shown[1])) >= Fraction(epsilon)
            assert Fraction(float(shown[2])) >= Fraction(delta)
            if best := re.search(r"right in at most ([\d.]+) of 100", text):
                assert Fraction(best[1]) >= 100 * Fraction(guarantee.guess_probability)


def test_no_total_of_pipelines_that_share_steps_is_below_what_a_ledger_has():
    """Random unions and pipelines in which a step may stand several times, fitted anew at each place."""
    rng = np.random.default_rng(3)

    def budget():
        return {"epsilon": (0.5, 2.0)[rng.integers(2)], "delta": 1e-5}

    def new():
        bins = partial(DPBinner, 4, bounds=(-1, 1), sparse_output=False)
        kinds = bins, partial(DPScaler, bounds=(-1, 1)), partial(DPPCA, 2)
        return kinds[rng.integers(3)](**budget()) if rng.random() < 0.8 else PublicScaler((-1, 1))

    def tree(known, depth):
        if not depth or rng.random() < 0.5:
            if not known or rng.random() < 0.75:
                known.append(new())
                return known[-1]
            return known[rng.integers(len(known))]
        parts = [tree(known, depth - 1) for _ in range(rng.integers(1, 3))]
        return make_pipeline(*parts) if rng.random() < 0.5 else make_union(*parts)

    n_totals = 0
    for _ in range(16):
        model = DPSGDClassifier(classes=[0, 1], n_epochs=2, **budget())
        last = model if rng.random() < 0.5 else OneVsRestClassifier(make_pipeline(new(), model))
        known = []
        pipeline = make_pipeline(tree(known, 2), tree(known, 1), last)
        with PrivacyLedger() as ledger:
            pipeline.fit(X200_UNIFORM, Y200_UNIFORM)
        report = privacy_report(pipeline)
        if report.total is not None:
            n_totals += 1
            released = [one.guarantee for one in ledger.entries]
            assert sum(step.releases for step in report.steps) == len(released)
            composed = compose(*released)
            assert report.total.delta >= composed.delta * (1 - 1e-9)
            assert report.total.epsilon >= composed.epsilon * (1 - 1e-3)
    assert n_totals > 6
