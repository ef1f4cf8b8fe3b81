"""Attacks on totals of a ledger: sums below the truth, and conditions that are not said."""
# ruff: noqa: D102

import contextlib
import itertools
import math
import random
import threading
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from attacks import LAPLACE_SKETCH, PURE, X12_4, Y12, gaussian_delta, model_with, publish, small_sketch
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingClassifier, StackingRegressor, VotingRegressor
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPMoments,
    DPRandomProjection,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    PublicScaler,
    compose,
    privacy_report,
    transform_chunks,
)
from skdprp.composition import PrivacyLoss, Profile, approximate_profile
from skdprp.guarantee import Adjacency
from skdprp.ledger import Entry, LedgerError, entry
from skdprp.ledger._limit import Limit
from skdprp.ledger._totals import Spent, basic_sums, totals
from skdprp.mechanisms import add_laplace
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon
from skdprp.testing import reproducible_noise

# Conditions


def two_parts(ledger):
    for name in "ab":
        with ledger.part(name):
            publish()


def two_chunks(ledger):
    transform_chunks(DPOPORP(2, epsilon=1.0, delta=1e-6).fit(X12_4), [X12_4, X12_4])


@pytest.mark.parametrize("release", [two_parts, two_chunks])
def test_a_total_over_disjoint_rows_says_that_it_assumes_them(release):
    """Where all parts had the same guarantee, it printed "assumed nothing"; the chunks here are the same rows twice."""
    with PrivacyLedger() as ledger:
        release(ledger)
    for total in (ledger.total()[0].guarantee, ledger.total()[0].adaptive):
        assert any("the values in a row do not decide its part" in text for text in total.assumptions)


@pytest.mark.parametrize("marked", [PURE.mark_seeded(), PrivacyGuarantee(0.5, 0.0, audited_epsilon=3.0)])
def test_no_line_of_a_total_leaves_out_that_it_is_void(marked):
    """The adaptive one said (epsilon, delta)-DP and no more."""
    with PrivacyLedger() as ledger, entry(marked):
        pass
    facts = ledger.total()[0].facts()
    for name in ("total", "adaptive"):
        line = facts.get(name, facts["total"])  # which says why there is none
        assert "not private" in line or "VIOLATED" in line


def test_no_line_of_a_total_leaves_out_what_is_given():
    """Without `classes`, neighbours of other labels are told apart for sure."""
    with PrivacyLedger() as ledger:
        AMPClassifier(epsilon=0.5, delta=1e-6).fit(X12_4, Y12)
    facts = ledger.total()[0].facts()
    assert "given the set of labels" in facts["total"]
    assert "given the set of labels" in facts["adaptive"]


@pytest.mark.parametrize(
    "guarantees",
    [
        [PrivacyGuarantee(0.5, 0.0)] * 2,
        [PURE, PrivacyGuarantee(0.5, 0.0, unit="one label", adjacency=PURE.adjacency)],
    ],
    ids=["no neighbours", "two units"],
)
def test_whatever_was_entered_can_be_shown(guarantees):
    """No total where there is none, rather than an error that hides all others."""
    with PrivacyLedger() as ledger:
        for guarantee in guarantees:
            with entry(guarantee):
                pass
    assert "none" in repr(ledger)
    assert all(total.guarantee is None for total in ledger.total())


def test_what_holds_adaptively_is_not_less_than_the_sum():
    """A limit may be passed by 2^-40 of it, for the sake of rounding, and then was said to hold itself."""
    spent = 1 + 5e-13
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        with contextlib.suppress(LedgerError), entry(PrivacyGuarantee(spent, 0.0, adjacency=Adjacency("replace_one"))):
            pass
    assert all(total.adaptive.epsilon >= spent for total in ledger.total())


@pytest.mark.parametrize("fact", ["seeded", "VIOLATED", "given"])
def test_both_totals_are_printed_with_what_makes_them_void_or_conditional(fact):
    """Of seeded noise the second total was printed as (1.0, 1e-06)-DP without a word."""
    guarantee = PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one"))
    changed = {"seeded": True} if fact == "seeded" else {"given": "the set of labels"}
    changed = {"violation": "epsilon is at least 9"} if fact == "VIOLATED" else changed
    with PrivacyLedger() as ledger, entry(replace(guarantee, **changed)):
        pass
    adaptive = repr(ledger).partition("adaptive")[2]
    assert not adaptive or fact in adaptive


def test_an_exact_total_says_that_it_is_for_parameters_that_were_fixed_beforehand():
    """Whoever fits, looks and goes on until the loss is large needs 1.7 times its delta; a label is read by itself."""
    with PrivacyLedger() as ledger:
        publish()
        publish()
    (total,) = ledger.total(delta=1e-3)
    assert "fixed before the first release" in total.guarantee.to_markdown()
    assert "fixed before the first release" not in total.adaptive.to_markdown()
    publish_once = totals([Entry("a", "", "release", PURE)], None, None)[0]
    assert "fixed before the first release" not in publish_once.guarantee.to_markdown()


def test_one_part_alone_assumes_nothing_of_others():
    with PrivacyLedger() as ledger, ledger.part("first half"):
        publish()
    total = ledger.total()[0].guarantee
    assert total == replace(PURE, assumptions=total.assumptions)
    assert not any("in common" in text for text in total.assumptions)


def test_mutual_information_has_no_total_of_adaptive_releases():
    """A bound that depends on what was released is a function of the entry, too."""
    with PrivacyLedger() as ledger:
        for _ in range(2):
            with entry(PrivacyGuarantee(0.2, 0.0, definition="MI-DP (bits)", adjacency=Adjacency("entry", 1.0))):
                pass
    total = ledger.total()[0]
    assert total.guarantee.epsilon == pytest.approx(0.4)
    assert total.adaptive is None
    assert total.facts()["adaptive"].startswith("none")


# What does not add up


def test_a_report_has_no_total_where_the_ledger_has_noise_from_a_seed():
    """The same model was fitted again outside of the ledger: the report said that the one it counts is private."""
    model = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1])
    with PrivacyLedger() as ledger, reproducible_noise(0):
        model.fit(X12_4, Y12)
    report = privacy_report(model.fit(X12_4, Y12), ledger=ledger)
    assert report.total is None
    assert "something else" in report.not_covered[-1]


def test_a_report_has_no_total_where_the_ledger_has_other_guarantees():
    """As many sketches, but of epsilon 10: a step in its place had been fitted since."""
    pipeline = make_pipeline(DPOPORP(2, epsilon=10.0, delta=1e-6), RidgeClassifier())
    with PrivacyLedger() as ledger:
        pipeline.fit(X12_4, Y12)
    pipeline.steps[0] = ("dpoporp", DPOPORP(2, epsilon=0.01, delta=1e-6).fit(X12_4))
    total = privacy_report(pipeline, ledger=ledger).total
    assert total is None or total.epsilon >= 10.0


def the_same_rows_in_chunks(sketch):
    transform_chunks(sketch, [np.zeros((8, 4))] * 20)


def overlapping_chunks_of_dask(sketch):
    da = pytest.importorskip("dask.array")
    rows = da.from_array(np.zeros((40, 4)), chunks=(2, 4))
    sketch.transform(da.overlap.overlap(rows, depth={0: 2, 1: 0}, boundary={0: "none", 1: "none"})).compute()


@pytest.mark.parametrize("release", [the_same_rows_in_chunks, overlapping_chunks_of_dask])
def test_chunks_with_rows_in_common_add_up_or_the_total_says_so(release):
    """Twenty chunks of the same rows, each sketched twenty times, were a total of (1.0, 1e-06) without a condition."""
    with PrivacyLedger() as ledger:
        release(small_sketch())
    total = ledger.total()[0].guarantee
    assert total.epsilon > 1.0 or any("in common" in fact or "disjoint" in fact for fact in total.assumptions)


def test_parts_of_rows_are_no_parts_of_patients():
    """One patient had a row in each of ten chunks of 0.5, and the total said 0.5, of one patient."""
    patient = PrivacyGuarantee(0.5, 0.0, unit="one patient", adjacency=Adjacency("replace_one"))
    with PrivacyLedger() as ledger:
        for year in range(10):
            with ledger.part(f"year {year}"), entry(patient):
                pass
    assert ledger.total()[0].guarantee.epsilon == ledger.total()[0].adaptive.epsilon == 5.0
    assert "one patient" in compose(patient, patient, disjoint=True).assumptions[-1]


def test_a_total_of_parts_assumes_what_a_composition_of_disjoint_rows_does():
    """Two equal releases of two parts were printed as one of all rows, that assumes nothing of which rows are where."""
    one = PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("replace_one"))
    with PrivacyLedger() as ledger:
        for name in ("women", "men"):
            with ledger.part(name), entry(one):
                pass
    total = ledger.total()[0].guarantee
    assert set(compose(one, one, disjoint=True).assumptions) <= set(total.assumptions)
    assert total.n_releases == 2


@pytest.mark.parametrize(
    "pair",
    [
        [PrivacyGuarantee(0.5, 0.0, unit=unit, adjacency=Adjacency("replace_one")) for unit in ("one row", "one word")],
        [PrivacyGuarantee(0.5, 0.0), PrivacyGuarantee(0.25, 0.0)],
    ],
    ids=["units", "no neighbours"],
)
def test_releases_that_do_not_add_up_have_no_total(pair):
    """Guarantees of two units, or of no stated neighbours, were entered, and then no total could be printed at all."""
    with PrivacyLedger() as ledger:
        for guarantee in pair:
            with entry(guarantee):
                pass
    assert all(total.guarantee is None or total.guarantee.epsilon == 0.5 for total in ledger.total())


def a_thousandfold(rows):
    return 1000 * rows


def test_a_ledger_tells_rows_before_a_map_from_rows_after_it():
    """Rows at distance 1 are at 1000 where the second sketch sees them: mu is 236, and delta 1 at any stated epsilon.

    The total was (1.40326, 2e-06) for rows at l1 distance at most 1.0. A report does not add up what was released of
    rows as they leave different maps.
    """
    rows = np.zeros((8, 4))
    with PrivacyLedger() as ledger:
        small_sketch().transform(rows)
        make_pipeline(FunctionTransformer(a_thousandfold), small_sketch()).fit_transform(rows)
    for total in ledger.total():
        assert total.guarantee is None or "leave" in total.neighbours or "reach" in total.neighbours


def releases_of_all_rows(rows):
    """Centre rows by a private mean of the whole table."""
    return rows - DPMoments(epsilon=1.0, delta=1e-6, max_norm=2.0).fit(X12_4).moments_.values[0, :4]


class Chunk:
    """Rows that release all rows where they are converted to an array."""

    def __init__(self, rows):
        self.rows, self.shape = rows, rows.shape

    def __len__(self):
        return len(self.rows)

    def __array__(self, *args, **known):
        releases_of_all_rows(self.rows)
        return self.rows


def by_a_function(chunks, n_jobs):
    transform_chunks(make_pipeline(FunctionTransformer(releases_of_all_rows)).fit(X12_4), chunks, n_jobs=n_jobs)


def by_a_conversion(chunks, n_jobs):
    transform_chunks(PublicScaler((-1, 1)).fit(X12_4), map(Chunk, chunks), n_jobs=n_jobs)


def by_chunks_of_its_own(chunks, n_jobs):
    def release_in_chunks(rows):
        transform_chunks(small_sketch().fit(X12_4), [X12_4[:6], X12_4[6:]])
        return rows

    transform_chunks(make_pipeline(FunctionTransformer(release_in_chunks)).fit(X12_4), chunks, n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("release", [by_a_function, by_a_conversion, by_chunks_of_its_own])
def test_what_a_function_releases_beside_a_chunk_is_no_release_of_the_rows_of_the_chunk_alone(release, n_jobs):
    """Four fits to the whole table were within a limit for one."""
    with PrivacyLedger() as ledger:
        release(np.split(X12_4, 4), n_jobs)
    n_released = len(ledger.entries) // (2 if release is by_chunks_of_its_own else 1)
    assert n_released >= 4
    total = ledger.total()[0]
    assert total.adaptive.epsilon == pytest.approx(n_released) and total.guarantee.epsilon > 1.9
    with PrivacyLedger() as ledger, pytest.raises(LedgerError, match="limit"):
        ledger.limit(1.0, 1e-5)
        release(np.split(X12_4, 4), n_jobs)


def by_a_method_of_a_sketch(limit):
    given = SimpleNamespace(transform=partial(LAPLACE_SKETCH.fit_transform, X12_4))
    with limit as ledger:
        transform_chunks(given, np.split(X12_4, 4))
    return ledger


def by_a_task_of_dask(limit):
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    model = DPMoments(epsilon=1.0, delta=1e-6, max_norm=2.0)
    means = da.from_delayed(dask.delayed(model.fit)(X12_4).moments_.values[0, :4], (4,), dtype=float)
    with limit as ledger, dask.config.set(scheduler="synchronous"):
        transform_chunks(Normalizer().fit(X12_4), [da.from_array(part) - means for part in np.split(X12_4, 4)])
    return ledger


@pytest.mark.filterwarnings("ignore:The `numpy:FutureWarning")
@pytest.mark.parametrize("release", [by_a_method_of_a_sketch, by_a_task_of_dask])
def test_what_libraries_alone_release_beside_a_chunk_counts_for_all_rows_as_well(release):
    """No function of the user stands between; four and eight releases of all rows were one and two."""
    ledger = release(PrivacyLedger())
    assert len(ledger.entries) >= 4
    assert ledger.total()[0].adaptive.epsilon == pytest.approx(len(ledger.entries))
    limited = PrivacyLedger()
    with limited:
        limited.limit(1.0, 1e-5)
    with pytest.raises(LedgerError, match="limit"):
        release(limited)


class FirstChunk(BaseEstimator):
    """Releases the rows of the first chunk with each; pipelines need no more methods than these."""

    def fit_transform(self, X, y=None):
        return X

    def transform(self, X):
        self.first_ = getattr(self, "first_", np.array(X))
        return self.first_[: len(X)]


class KeepsAllRows(RegressorMixin, TransformerMixin, BaseEstimator):
    """Releases the first rows that it was fitted to in place of any others."""

    def fit(self, X, y=None):
        self.all_ = np.array(X)
        return self

    def transform(self, X):
        return self.all_[: len(X)]

    def predict(self, X):
        return self.all_[: len(X), 0]

    def score(self, X, y=None):
        return 0.0


@pytest.mark.parametrize(
    "step",
    [
        FirstChunk(),
        KeepsAllRows(),
        VotingRegressor([("own", KeepsAllRows())]),
        StackingRegressor([("own", DummyRegressor())], final_estimator=KeepsAllRows()),
        GridSearchCV(Pipeline([("own", "passthrough"), ("same", FunctionTransformer())]), {"own": [KeepsAllRows()]}),
    ],
    ids=lambda step: type(step).__name__,
)
def test_classes_of_the_user_within_those_of_scikit_learn_may_give_a_chunk_any_rows(step):
    """The first three rows are in each of four chunks: their loss of 4 was printed as 1."""
    if isinstance(step, GridSearchCV):
        step = clone(step).set_params(cv=2, scoring=lambda estimator, X, y=None: 0.0)
    model = make_pipeline(step, DPRandomProjection(1, epsilon=1.0, random_state=0)).fit(X12_4, np.arange(12.0))
    with PrivacyLedger() as ledger:
        transform_chunks(model, np.split(X12_4, 4))
    assert ledger.total()[0].adaptive.epsilon == pytest.approx(4.0)


def test_sketches_in_pipelines_unions_and_columns_count_once_for_each_chunk():
    for inner in (FeatureUnion([("sketch", LAPLACE_SKETCH)]), ColumnTransformer([("sketch", LAPLACE_SKETCH, [0, 1])])):
        with config_context(enable_metadata_routing=True):  # what a step asks for is no step
            scaler = PublicScaler((-9, 9))
            given = make_pipeline(scaler, Normalizer().set_transform_request(copy=False), inner).fit(X12_4)
        given.own_ = given
        with PrivacyLedger() as ledger:
            transform_chunks(given, np.split(X12_4, 4))
        assert len(ledger.entries) == 4 and ledger.total()[0].guarantee.epsilon == 1.0


class NoisySums:
    """Sums over the rows of a chunk, of which a patient has one or several."""

    guarantee = PrivacyGuarantee(0.5, 0.0, unit="one patient", adjacency=Adjacency("replace_one"))

    def transform(self, rows):
        """Publish for an epsilon of 0.5."""
        with entry(self.guarantee):
            return add_laplace(np.asarray(rows).sum(axis=0, keepdims=True), scale=2.0)


def visits_in_chunks(ledger):
    transform_chunks(NoisySums(), [np.ones((1, 1))] * 10)


def visits_in_parts(ledger):
    for year in range(10):
        with ledger.part(str(year)):
            NoisySums().transform(np.ones((1, 1)))


@pytest.mark.parametrize("release", [visits_in_chunks, visits_in_parts])
def test_disjoint_rows_are_not_disjoint_patients(release):
    """Ten visits of one patient, in a release of 0.5 each: the total was 0.5, and assumed disjoint rows only."""
    with PrivacyLedger() as ledger:
        release(ledger)
    total = ledger.total()[0].guarantee
    assert total is None or total.epsilon >= 5.0 or any("patient" in assumed for assumed in total.assumptions)


def test_a_ledger_does_not_take_a_row_that_is_given_several_times_for_one():
    """One step of descent on a bootstrap sample, in which a row stands three times: delta is .005, and 1e-6 was stated.

    A row is there k times with the odds of Binomial(12, 1/12), and moves the sum of gradients k times as far.
    """
    descent = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=1)
    with PrivacyLedger() as ledger:
        ensemble = BaggingClassifier(descent, n_estimators=1, random_state=0).fit(100 * X12_4, Y12)
    assert np.bincount(ensemble.estimators_samples_[0]).max() == 3
    known = [
        " ".join(total.assumptions + total.not_covered)
        for total in [total.guarantee for total in ledger.total() if total.guarantee is not None]
    ]
    assert all("several times" in text or "once" in text for text in known)


def test_a_ledger_does_not_add_up_folds_that_look_at_labels():
    """One label of 100 moves 36 rows into or out of the first fold of a stratified search.

    Its one step of descent has a delta of .073 at the total epsilon of .236 for which 6e-8 was stated, and of .014 at
    the sum of all epsilons; a report of the search states no total.
    """
    labels = np.arange(100) % 2
    other, splitter = np.r_[1, labels[1:]], StratifiedKFold(5, shuffle=True, random_state=0)
    first, second = (set(next(splitter.split(labels, y))[0]) for y in (labels, other))
    assert len(first ^ second) > 10
    descent = DPSGDClassifier(epsilon=0.1, delta=1e-8, classes=[0, 1], n_epochs=1)
    with PrivacyLedger() as ledger:
        GridSearchCV(descent, {}, cv=splitter).fit(np.eye(100)[:, :3], labels)
    known = [
        " ".join(total.assumptions + total.not_covered)
        for total in [total.guarantee for total in ledger.total() if total.guarantee is not None]
    ]
    assert all("fold" in text or "split" in text or "which rows" in text for text in known)


def search_of(epsilons):
    return GridSearchCV(AMPClassifier(delta=1e-6, classes=[0, 1]), {"epsilon": epsilons}, cv=KFold(3)).fit(X12_4, Y12)


def test_a_report_on_a_search_compares_what_its_folds_may_have_cost():
    with PrivacyLedger() as ledger:
        search = search_of([0.1, 0.5])
    assert not any("see its total()" in reason for reason in privacy_report(search, ledger=ledger).not_covered)
    with PrivacyLedger() as another:
        search_of([0.1, 0.9])
    assert "see its total()" in privacy_report(search, ledger=another).not_covered[-1]


def test_a_report_on_a_pipeline_knows_what_its_steps_cost_after_maps():
    with PrivacyLedger() as ledger:
        pipeline = make_pipeline(FunctionTransformer(np.tanh), DPOPORP(2), RidgeClassifier()).fit(X12_4, Y12)
    assert privacy_report(pipeline, ledger=ledger).total == privacy_report(pipeline).total


# Sums


def test_a_total_of_many_parts_composes_each_of_them_once(monkeypatch):
    """Of more than 32 parts, each step of a bisection composed all anew: 40 took a minute."""
    privacy_loss = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution").PrivacyLossDistribution
    n_parts, calls, compose_itself = 34, [], privacy_loss.self_compose

    def counted(*args):
        calls.append(1)
        assert len(calls) <= 8 * n_parts
        return compose_itself(*args)

    monkeypatch.setattr(privacy_loss, "self_compose", counted)
    with PrivacyLedger() as ledger:
        for part in range(n_parts):
            for epsilon in (0.25 + 0.003 * part, 0.5 - 0.002 * part):
                with ledger.part(str(part)), entry(PrivacyGuarantee(epsilon, 1e-6, adjacency=Adjacency("replace_one"))):
                    pass
    assert 0.5 < ledger.total()[0].guarantee.epsilon < 1.0


def costliest(releases):
    """Square of the ratio that the most exposed row is released with: one part of each division, all of the others."""
    divisions, own = {}, sum(square for rows, square in releases if not rows)
    for rows, square in releases:
        if rows:
            divisions.setdefault(rows[0][0], {}).setdefault(rows[0][1], []).append((rows[1:], square))
    return own + sum(max(map(costliest, parts.values())) for parts in divisions.values())


def test_a_total_of_gaussian_releases_is_that_of_the_most_exposed_row():
    """In parts of parts, and at any delta: nowhere below one Gaussian mechanism."""
    rng, ratios = random.Random(0), [0.1, 0.3, 0.5, 1.0]
    stated = {ratio: gaussian_epsilon(1e-6, scale=1.0, sensitivity=ratio) for ratio in ratios}
    for _ in range(25):
        releases = []
        for ratio in rng.choices(ratios, k=rng.randint(1, 5)):
            rows = tuple((rng.choice("AB"), rng.choice("xy")) for _ in range(rng.choice([0, 1, 1, 2])))
            releases.append((rows, ratio))
        entries = [
            Entry(
                "",
                "",
                "",
                PrivacyGuarantee(stated[ratio], 1e-6, adjacency=PURE.adjacency, loss=PrivacyLoss(ratio)),
                rows,
            )
            for rows, ratio in releases
        ]
        total = totals(entries, rng.choice([None, 1e-5, 1e-4]), None)[0].guarantee
        ratio = math.sqrt(costliest([(rows, ratio**2) for rows, ratio in releases]))
        exact = gaussian_epsilon(total.delta, scale=1.0, sensitivity=ratio)
        assert total.epsilon >= exact * (1 - 1e-9)


def spent_from_scratch(releases):
    """Add up the same rows, take the largest of the parts of each division."""
    total = [sum(Fraction(costs[i]) for rows, costs in releases if not rows) for i in (0, 1)]
    for division in {rows[0][0] for rows, _ in releases if rows}:
        names = {rows[0] for rows, _ in releases if rows and rows[0][0] == division}
        parts = [
            spent_from_scratch([(rows[1:], costs) for rows, costs in releases if rows[:1] == (name,)]) for name in names
        ]
        total = [total[i] + max(part[i] for part in parts) for i in (0, 1)]
    return total


def test_what_is_spent_is_told_step_by_step_as_from_scratch():
    rng, spent, releases = np.random.default_rng(0), Spent(), []
    for _ in range(150):
        rows = tuple((f"division {rng.integers(2)}", f"part {rng.integers(3)}") for _ in range(rng.integers(4)))
        costs = tuple(rng.exponential(size=2))
        expected = spent.after(rows, costs)
        spent.add(rows, costs)
        releases.append((rows, costs))
        assert list(spent.costs) == list(expected) == spent_from_scratch(releases)
    assert spent.n_releases == 150


@pytest.mark.parametrize("rows", [(), (("division", "part"),)])
def test_an_infinite_cost_passes_every_limit_and_stays_infinite(rows):
    boundless = PrivacyGuarantee(np.inf, 0.0, adjacency=PURE.adjacency)
    assert basic_sums([Entry("", "", "", boundless, rows), Entry("", "", "", boundless, rows)]) == (np.inf, 0.0)
    with pytest.raises(LedgerError, match="pass the limit"):
        Limit(1e300, 0.5, PURE.adjacency, "basic").check([], Entry("", "", "release", boundless, rows))


def delta_of_responses(pairs, epsilon):
    """Delta of what is worst for such pairs of epsilon and delta: a coin that tells all, and a randomised response."""
    untold, here, there = 1.0, np.ones(1), np.ones(1)
    for one, delta in pairs:
        untold *= 1 - delta
        right = expit(one)
        here = np.concatenate([here * right, here * (1 - right)])
        there = np.concatenate([there * (1 - right), there * right])
    return 1 - untold + untold * np.maximum(here - np.exp(epsilon) * there, 0).sum()


def delta_of_the_most_exposed_row(entries, epsilon):
    """A row is in one part of each division, and in the releases that are of no other part of one."""
    parts = {}
    for one in entries:
        for division, part in one.rows:
            parts.setdefault(division, {})[part] = None
    deltas = []
    for chosen in itertools.product(*parts.values()):
        of_row = set(zip(parts, chosen, strict=True))
        seen = [one.guarantee for one in entries if of_row.issuperset(one.rows)]
        deltas.append(delta_of_responses([(one.epsilon, one.delta) for one in seen], epsilon))
    return max(deltas)


@pytest.mark.parametrize("seed", range(12))
def test_no_total_is_below_that_of_the_worst_releases_in_any_parts(seed):
    """All outcomes of randomised responses are enumerated, for each row: parts, parts in parts, and several divisions.

    Such a response with a coin that tells all is the worst that has an epsilon and a delta.
    """
    draw = random.Random(seed)
    entries = [
        Entry(
            str(place),
            "",
            "release",
            replace(PURE, epsilon=draw.choice([0.1, 0.5, 1.0, 3 * draw.random()]), delta=draw.choice([0, 1e-6, 0.1])),
            tuple((division, draw.choice("xyz")) for division in draw.sample("ABC", draw.randint(0, 2))),
        )
        for place in range(6)
    ]
    for delta in (None, draw.choice([1e-6, 1e-3, 0.3])):
        (total,) = totals(entries, delta, None)
        for stated in (total.guarantee, total.adaptive):
            if stated.epsilon < np.inf:
                assert delta_of_the_most_exposed_row(entries, stated.epsilon) <= stated.delta * (1 + 1e-9) + 1e-13
    for epsilon in (0.0, 0.5, 2.0):
        assert delta_of_the_most_exposed_row(entries, epsilon) <= total.guarantee.profile(epsilon) * (1 + 1e-9) + 1e-13


def spent_by_the_worst_row(entries):
    """Sums over the releases that a row is in, for each choice of one part of each division."""
    parts = {}
    for one in entries:
        for division, part in one.rows:
            parts.setdefault(division, set()).add(part)
    worst = Fraction(0)
    for chosen in itertools.product(*parts.values()):
        of_row = dict(zip(parts, chosen, strict=True))
        sees = (one for one in entries if all(of_row[division] == part for division, part in one.rows))
        worst = max(worst, sum((Fraction(one.guarantee.epsilon) for one in sees), Fraction(0)))
    return worst


def test_no_history_of_parts_threads_and_refusals_costs_a_row_more_than_the_ledger_says():
    """Parts within parts of other divisions, and threads, which are told of none."""
    rng = random.Random(0)

    def _act(ledger, depth=0):
        try:
            if depth < 3 and rng.random() < 0.35:
                with ledger.part(rng.choice("ab"), division=rng.choice("pqr")):
                    for _ in range(rng.randint(1, 3)):
                        _act(ledger, depth + 1)
            elif rng.random() < 0.2:
                thread = threading.Thread(target=_act, args=(ledger, 3))
                thread.start()
                thread.join()
            else:
                guarantee = PrivacyGuarantee(rng.choice([0.1, 0.25, 0.5]), 0.0, adjacency=Adjacency("replace_one"))
                with entry(guarantee):
                    pass
        except LedgerError:
            pass

    for _ in range(25):
        with PrivacyLedger() as ledger:
            if is_limited := rng.random() < 0.6:
                ledger.limit(1.0, delta=0.0)
            for _ in range(rng.randint(1, 8)):
                _act(ledger)
            worst, totals = spent_by_the_worst_row(ledger.entries), ledger.total()
            assert not is_limited or worst <= 1 + Fraction(10) ** -11
            assert all(Fraction(total.adaptive.epsilon) >= worst for total in totals)


def test_no_row_pays_more_than_the_totals_of_a_ledger_with_parts_of_parts():
    """A row lies in one part of each of two divisions: what has seen it there is within totals, sums and limits."""
    draw, n_compared = random.Random(0), 0
    known = [replace(PURE, epsilon=epsilon, delta=delta) for epsilon, delta in ((0.1, 0.0), (0.3, 1e-6), (0.7, 1e-7))]
    known.append(model_with(classes=[0, 1], noise="gaussian", epsilon=0.4).fit(X12_4, Y12).guarantee_)
    for _ in range(15):
        limit = draw.choice([None, 1.0, 2.0])
        with PrivacyLedger() as ledger:
            if limit:
                ledger.limit(limit, 1e-4)
            for _ in range(draw.randint(2, 6)):
                rows = dict.fromkeys((draw.choice("AB"), draw.choice("12")) for _ in range(draw.randint(0, 2)))
                with contextlib.suppress(LedgerError), contextlib.ExitStack() as blocks:
                    for division, part in rows:
                        blocks.enter_context(ledger.part(part, division=division))
                    blocks.enter_context(entry(draw.choice(known)))
        for total, places in itertools.product(ledger.total(), itertools.product("12", repeat=2)):
            seen = dict(zip("AB", places, strict=True))
            paid = [one.guarantee for one in ledger.entries if all(seen[where] == part for where, part in one.rows)]
            if paid:
                n_compared += 1
                spent = sum(one.epsilon for one in paid)
                assert compose(*paid, delta=total.guarantee.delta).epsilon <= total.guarantee.epsilon * (1 + 1e-4)
                assert spent <= total.adaptive.epsilon * (1 + 1e-12)
                assert limit is None or spent <= limit * (1 + 1e-11)
    assert n_compared > 40


def test_totals_over_parts_of_sketches_are_not_below_those_of_the_most_exposed_row():
    """Of Gaussian noise, whose squares of mu add up, in divisions within others and beside them, at any epsilon."""
    rng = np.random.default_rng(0)
    sketches = [small_sketch(epsilon=epsilon, delta=1e-6) for epsilon in (0.1, 0.5, 2.0)]
    for _ in range(15):
        released = []
        with PrivacyLedger() as ledger:
            for _ in range(rng.integers(1, 6)):
                names = rng.permutation(["a", "b"])[: rng.integers(3)]
                parts = {str(name): str(rng.integers(2)) for name in names}
                sketch = sketches[rng.integers(3)]
                with contextlib.ExitStack() as blocks:
                    for name, part in parts.items():
                        blocks.enter_context(ledger.part(part, division=name))
                    sketch.transform(X12_4[:1])
                released.append((parts, sketch.guarantee_))
            [total] = ledger.total()
        for own in itertools.product("01", repeat=2):
            row = dict(zip("ab", own, strict=True))
            mine = [one for parts, one in released if all(row[name] == part for name, part in parts.items())]
            if mine:
                mu = math.sqrt(sum(one.loss.mu**2 for one in mine))
                for epsilon in (0.0, 0.3, total.guarantee.epsilon):
                    assert total.guarantee.profile(epsilon) >= gaussian_delta(epsilon, mu) * (1 - 1e-12)
                assert total.adaptive.epsilon >= sum(one.epsilon for one in mine) * (1 - 1e-12)


def _exact(epsilon0, count, epsilon):
    """Delta of flips of so many bits together, in exact arithmetic."""
    right = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon0)))
    ratio, of_one, of_other = (1 - right) / right, right**count, (1 - right) ** count
    total, ways = mpmath.mpf(0), mpmath.mpf(1)
    for place in range(count + 1):
        more = ways * (of_one - mpmath.exp(epsilon) * of_other)
        if more <= 0:
            break
        total += more
        ways, of_one, of_other = ways * (count - place) / (place + 1), of_one * ratio, of_other / ratio
    return total


@pytest.mark.parametrize(("epsilon0", "count"), [(1.0, 3), (0.1, 100), (0.01, 1000), (5.0, 20), (1e-4, 1000)])
def test_no_total_of_many_equal_flips_is_below_the_exact_one(epsilon0, count):
    pytest.importorskip("dp_accounting")
    loss = PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=epsilon0),) * count)
    with mpmath.workdps(40):
        for share in (0.0, 0.01, 0.1, 0.3, 0.7, 0.99, 1.0):
            epsilon = share * epsilon0 * count
            assert loss.profile(epsilon) >= _exact(epsilon0, count, epsilon)
