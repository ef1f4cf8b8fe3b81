"""Attacks on the totals and limits of a ledger: sums below the truth, conditions unsaid, limits that are passed."""

import contextlib
import itertools
import json
import random
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import expit, ndtri
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    compose,
    privacy_report,
    transform_chunks,
)
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import Adjacency
from skdprp.ledger import Entry, LedgerError, _filter, _ledger, entry
from skdprp.ledger._filter import budget, price
from skdprp.ledger._limit import Limit
from skdprp.ledger._totals import Spent, basic_sums, totals
from skdprp.mechanisms import add_laplace, searched_profile
from skdprp.testing import reproducible_noise

X = np.random.default_rng(0).normal(size=(12, 4))
Y = np.arange(12) % 2
PURE = PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("replace_one"))


def publish():
    """Release a number."""
    with entry(PURE):
        add_laplace([1.0], scale=4.0)


def two_parts(ledger):
    for name in "ab":
        with ledger.part(name):
            publish()


def two_chunks(ledger):
    transform_chunks(DPOPORP(2, epsilon=1.0, delta=1e-6).fit(X), [X, X])


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
        AMPClassifier(epsilon=0.5, delta=1e-6).fit(X, Y)
    facts = ledger.total()[0].facts()
    assert "given the set of labels" in facts["total"]
    assert "given the set of labels" in facts["adaptive"]


@pytest.mark.parametrize("epsilons", [[0.1] * 10, [1.0000000000005]], ids=["ten", "one"])
def test_a_total_is_not_rounded_down_to_the_limit(epsilons):
    """Sums may pass a limit by a rounding, and then the limit was printed."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0)
        for epsilon in epsilons:
            with entry(PrivacyGuarantee(epsilon, 0.0, adjacency=PURE.adjacency)):
                pass
    spent = sum(Fraction(entry.guarantee.epsilon) for entry in ledger.entries)
    assert Fraction(ledger.total()[0].adaptive.epsilon) >= spent


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


def test_a_report_has_no_total_where_the_ledger_has_other_guarantees():
    """As many sketches, but of epsilon 10: a step in its place had been fitted since."""
    pipeline = make_pipeline(DPOPORP(2, epsilon=10.0, delta=1e-6), RidgeClassifier())
    with PrivacyLedger() as ledger:
        pipeline.fit(X, Y)
    pipeline.steps[0] = ("dpoporp", DPOPORP(2, epsilon=0.01, delta=1e-6).fit(X))
    total = privacy_report(pipeline, ledger=ledger).total
    assert total is None or total.epsilon >= 10.0


def test_a_report_has_no_total_where_the_ledger_has_noise_from_a_seed():
    """The same model was fitted again outside of the ledger: the report said that the one it counts is private."""
    model = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1])
    with PrivacyLedger() as ledger, reproducible_noise(0):
        model.fit(X, Y)
    report = privacy_report(model.fit(X, Y), ledger=ledger)
    assert report.total is None
    assert "something else" in report.not_covered[-1]


# Limits


@pytest.mark.parametrize(
    "guarantee",
    [
        PrivacyGuarantee(0.1, 0.0, unit="one label", adjacency=PURE.adjacency),
        PrivacyGuarantee(0.1, 0.0, adjacency=PURE.adjacency, audited_epsilon=3.0),
    ],
    ids=["of another unit", "refuted"],
)
def test_a_limit_refuses_what_does_not_hold_for_a_row(guarantee):
    """The unit was not compared where it differed, and a void guarantee was counted as if it held."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0)
        with pytest.raises(LedgerError), entry(guarantee):
            pass


def test_a_limit_is_for_the_neighbours_it_was_set_for():
    """What rows pass before they are compared was not written down: rows as they are were let through instead."""
    after = Adjacency("l1", 1.0, after="Normalizer()")
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, adjacency=after)
        ledger.limit(1.0, adjacency=after)
        with pytest.raises(LedgerError), entry(PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("l1", 1.0))):
            pass
        with entry(PrivacyGuarantee(0.5, 0.0, adjacency=after)):
            pass


def test_a_limit_is_one_for_totals_and_for_releases_alike(tmp_path):
    """One blank before its name, and it was printed as the total, and not looked at by releases."""
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        ledger.limit(1.0)
    path.write_text(path.read_text().replace('{"limit"', '{ "limit"'))
    _ledger._BOOKS.clear()
    with contextlib.suppress(LedgerError), PrivacyLedger(path) as ledger:
        for _ in range(5):
            publish()
    with contextlib.suppress(LedgerError):
        spent = sum(entry.guarantee.epsilon for entry in PrivacyLedger(path).entries)
        assert not spent or PrivacyLedger(path).total()[0].adaptive.epsilon >= spent


@pytest.mark.parametrize("epsilon", [1e-17, 1e-16, 1e-12, 1.0, 14.0, 20.0, 28.0, 34.0, 36.5])
def test_the_price_of_a_pure_release_is_not_below_its_ratio(epsilon):
    """By a root found with 60 digits: 0 instead of 1e-16, and two thirds of a percent less at 36.5."""
    with mpmath.workdps(60):
        share = 1 / (1 + mpmath.e ** mpmath.mpf(epsilon))
        start = float(-2 * ndtri(expit(-epsilon))) or 1.25 * epsilon
        ratio = mpmath.findroot(lambda mu: mpmath.erfc(mu / mpmath.sqrt(8)) / 2 - share, start)
        assert price(PrivacyGuarantee(epsilon, 0.0)).square >= ratio**2 * (1 - mpmath.mpf(10) ** -30)


@pytest.mark.parametrize("delta", [1e-300, 1e-50, 1e-9, 0.5, 0.999])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1.0, 50.0, 700.0])
def test_a_budget_is_within_its_limit_far_out(epsilon, delta):
    """By the profile of a Gaussian with 60 digits, coins and sampling: nowhere more than delta."""
    most = budget(epsilon, delta)
    with mpmath.workdps(60):
        ratio, shift = mpmath.sqrt(most.square), mpmath.mpf(epsilon) - 2 * mpmath.mpf(most.sampling)
        near, far = ratio / 2 - shift / ratio, -ratio / 2 - shift / ratio
        ideal = mpmath.ncdf(near) - mpmath.e**shift * mpmath.ncdf(far)
        assert mpmath.e**most.sampling * (ideal + most.coins) <= delta


# Sketches


def small_sketch(**parameters):
    return DPOPORP(2, random_state=0, **parameters).fit(np.zeros((1, 4)))


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


@pytest.mark.parametrize(
    "guarantee",
    [
        PrivacyGuarantee(1.7e308, 0.0, adjacency=Adjacency("replace_one")),
        PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one"), loss=PrivacyLoss(mu=1e200)),
    ],
    ids=["epsilon", "ratio"],
)
def test_a_release_of_next_to_no_privacy_has_a_price(guarantee):
    """The square of its ratio was an OverflowError, which says nothing of a limit."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-5, composition="gaussian")
        with contextlib.suppress(LedgerError), entry(guarantee):
            pass


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


@pytest.mark.parametrize("others", [{"unit": "one word"}, {"violation": "epsilon is at least 9"}])
def test_a_limit_takes_no_release_that_guarantees_less(others):
    """What hides one word, or was refuted by an audit, was taken into a limit for one row."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0)
        with (
            pytest.raises(LedgerError),
            entry(PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("replace_one"), **others)),
        ):
            pass


def test_a_limit_for_rows_as_they_leave_a_map_takes_no_release_of_others():
    """A row that is changed by 1 after the map may be changed by more before it, where the sketch saw it."""
    with PrivacyLedger() as ledger, pytest.raises((LedgerError, ValueError)):
        ledger.limit(1.0, 1e-5, adjacency=Adjacency("l1", 1.0, after="a map"))
        small_sketch(epsilon=0.5).transform(np.zeros((8, 4)))


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


def test_what_holds_adaptively_is_not_less_than_the_sum():
    """A limit may be passed by 2^-40 of it, for the sake of rounding, and then was said to hold itself."""
    spent = 1 + 5e-13
    with PrivacyLedger() as ledger:
        ledger.limit(1.0)
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


# What was mended


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


@pytest.mark.parametrize("adjacency", [Adjacency("l1", 0.1, after="Normalizer()"), Adjacency("replace_one")])
def test_a_limit_is_read_as_it_was_set_and_printed_so(adjacency):
    limit = Limit(1.0, 0.01, adjacency, "gaussian")
    assert Limit.from_dict(json.loads(json.dumps(limit.to_dict()))) == limit
    assert repr(limit.guarantee).startswith("(1.0, 0.01)-DP")


def test_the_limit_is_no_total_of_what_passed_it():
    """Entries that came from elsewhere, without the limit having been looked at."""
    entries = [Entry(str(n), "", "release", PURE, ()) for n in range(9)]
    limit = Limit(1.0, 0.01, PURE.adjacency, "gaussian")
    assert totals(entries, None, limit)[0].adaptive.epsilon >= 4.5
    entries = [Entry(str(n), "", "release", PrivacyGuarantee(0.06, 0.0, adjacency=PURE.adjacency)) for n in range(20)]
    assert totals(entries, None, limit)[0].adaptive.epsilon == 1.0


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


def test_a_gaussian_limit_prices_each_entry_once(monkeypatch):
    priced = []
    monkeypatch.setattr(_filter, "price", lambda guarantee: priced.append(1) or price(guarantee))
    with PrivacyLedger() as ledger:
        ledger.limit(5.0, 1e-6, composition="gaussian")
        for _ in range(20):
            with entry(PrivacyGuarantee(0.01, 0.0, adjacency=PURE.adjacency)):
                pass
    assert len(priced) == 20 + 19  # before it is written, and once it was read


def test_the_price_of_a_pure_release_is_its_ratio():
    """Nowhere below it, and above by less than a part in ten millions, wherever one formula takes over from another."""
    for epsilon in np.geomspace(1e-20, 700, 300):
        with mpmath.workdps(60):
            share = 1 / (1 + mpmath.e ** mpmath.mpf(epsilon))
            start = float(-2 * ndtri(expit(-epsilon))) or 1.25 * epsilon
            ratio = mpmath.findroot(
                lambda mu, share=share: mpmath.log(mpmath.erfc(mu / mpmath.sqrt(8)) / 2 / share), start
            )
            assert ratio**2 <= price(PrivacyGuarantee(epsilon, 0.0)).square <= ratio**2 * (1 + 1e-7)


def search_of(epsilons):
    return GridSearchCV(AMPClassifier(delta=1e-6, classes=[0, 1]), {"epsilon": epsilons}, cv=KFold(3)).fit(X, Y)


def test_a_report_on_a_search_compares_what_its_folds_may_have_cost():
    with PrivacyLedger() as ledger:
        search = search_of([0.1, 0.5])
    assert not any("see its total()" in reason for reason in privacy_report(search, ledger=ledger).not_covered)
    with PrivacyLedger() as another:
        search_of([0.1, 0.9])
    assert "see its total()" in privacy_report(search, ledger=another).not_covered[-1]


def test_a_report_on_a_pipeline_knows_what_its_steps_cost_after_maps():
    with PrivacyLedger() as ledger:
        pipeline = make_pipeline(FunctionTransformer(np.tanh), DPOPORP(2), RidgeClassifier()).fit(X, Y)
    assert privacy_report(pipeline, ledger=ledger).total == privacy_report(pipeline).total


def test_a_ledger_does_not_take_a_row_that_is_given_several_times_for_one():
    """One step of descent on a bootstrap sample, in which a row stands three times: delta is .005, and 1e-6 was stated.

    A row is there k times with the odds of Binomial(12, 1/12), and moves the sum of gradients k times as far.
    """
    descent = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=1)
    with PrivacyLedger() as ledger:
        ensemble = BaggingClassifier(descent, n_estimators=1, random_state=0).fit(100 * X, Y)
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


@pytest.mark.parametrize(("n_trials", "distance"), [(0.5, 0.2), (10.0, 0.03), (100.0, 0.01)])
def test_the_price_of_a_search_dominates_its_profile(n_trials, distance):
    """In 50 digits, and between the points where it is computed: the profile has a corner, and is constant at first."""
    losses = (PrivacyLoss(mu=2 * distance), PrivacyLoss(mu=distance, failure_probability=1e-9, sampling=1e-7))
    searched = {"n_trials": n_trials, "trial_distance": distance, "losses": losses}
    loss = PrivacyLoss(profiles=(Profile.of(searched_profile, **searched),))
    square, coins, sampling = price(PrivacyGuarantee(1e3, 0.5, loss=loss))
    assert sampling == 0
    with mpmath.workdps(50):
        ratio = mpmath.sqrt(mpmath.mpf(square))
        for epsilon in np.concatenate([np.geomspace(1e-8, 70, 120), n_trials * distance * np.array([0.99, 1, 1.01])]):
            at = mpmath.mpf(float(epsilon))
            gaussian = mpmath.ncdf(ratio / 2 - at / ratio) - mpmath.exp(at) * mpmath.ncdf(-ratio / 2 - at / ratio)
            assert coins + (1 - mpmath.mpf(coins)) * gaussian >= loss.profile(float(epsilon)) * (1 - 1e-12)
