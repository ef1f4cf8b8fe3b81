"""Attacks on limits of a ledger: what passes them, what they are for, and the price of a release."""

import contextlib
import itertools
import json
import multiprocessing
import random
import sys
import threading
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from attacks import PURE, X12_4, X60, Y12, publish, publish_once, small_sketch
from scipy.special import expit, ndtri

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPSignOPORP,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    audit_epsilon,
    compose,
    transform_chunks,
)
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import FIXED_BEFORE, Adjacency
from skdprp.ledger import Entry, LedgerError, _filter, _ledger, entry
from skdprp.ledger._filter import budget, price
from skdprp.ledger._limit import Limit
from skdprp.ledger._totals import totals
from skdprp.mechanisms import gaussian_scale, searched_profile
from skdprp.metrics import dp_accuracy_score, dp_confusion_matrix, dp_r2_score, dp_roc_auc_score

# What passes them


def test_what_a_limit_counts_of_a_total_says_what_that_assumes():
    """Where a limit covers two kinds of neighbours, neither has a total, and what one entry assumed was left out."""
    once = DPOPORP(2, epsilon=0.5, delta=1e-6, max_change=2.0).fit(X12_4).guarantee_
    with PrivacyLedger() as ledger:
        ledger.limit(10.0, 1e-3, adjacency=Adjacency("coordinate", 1.0))
        with entry(compose(*[once] * 9, delta=1e-5)):
            pass
        assert FIXED_BEFORE in " ".join(repr(ledger.total()).split())
        DPOPORP(2, epsilon=0.5, delta=1e-6, adjacency="l2").fit(X12_4).transform(X12_4)
        told = " ".join(repr(ledger.total()).split())
    assert told.count("total none") == 2 and FIXED_BEFORE in told


def test_a_limit_that_no_float_is_small_enough_for_admits_nothing():
    """The search for the noise ended at 2^60, whose total variation is 3.5e-19, and took that for enough."""
    with PrivacyLedger() as ledger:
        ledger.limit(0.0, 1e-60, composition="gaussian")
        with pytest.raises(LedgerError), entry(PrivacyGuarantee(1e-19, 0.0, adjacency=PURE.adjacency)):
            pass


def test_a_limit_that_rounding_makes_infinite_is_a_limit():
    """Room for rounding took the largest numbers to infinity."""
    large = PrivacyGuarantee(1.7e308, 0.0, adjacency=Adjacency("replace_one"))
    with PrivacyLedger() as ledger:
        ledger.limit(sys.float_info.max, delta=0.0)
        with entry(large):
            pass
        with pytest.raises(LedgerError), entry(large):
            pass


def fits_in_threads(_):
    """Number of fits of four threads that were not refused."""
    made = []

    def _fit():
        try:
            DPMoments(epsilon=0.1, delta=1e-7).fit(X60)
        except LedgerError:
            return
        made.append(1)

    threads = [threading.Thread(target=_fit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(made)


def test_threads_of_many_processes_pass_no_limit_together():
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-5)
        with multiprocessing.get_context("fork").Pool(4) as pool:
            assert sum(pool.map(fits_in_threads, range(8), chunksize=1)) == len(ledger.entries) == 10


@pytest.fixture(scope="module")
def guarantees():
    """Guarantees of releases of several kinds of noise, at several targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y, found = (X[:, 0] > 0).astype(int), []
    for epsilon, delta in ((0.1, 1e-8), (0.7, 1e-6)):
        known = {"epsilon": epsilon, "delta": delta}
        found += [
            AMPClassifier(classes=[0, 1], noise="product", **known).fit(X, y),
            AMPClassifier(classes=[0, 1], noise="gaussian", count_labels=True, **known).fit(X, y),
            ProductNoiseOutputPerturbation(classes=[0, 1], **known).fit(X, y),
            DPHistograms(**known).fit(X),
            DPRidge(target_bounds=(0, 1), mechanism="projection", n_components=40, **known).fit(X, y),
        ]
    return [model.guarantee_ for model in found]


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (6.0, 1e-4)])
def test_what_a_limit_lets_pass_is_within_it(guarantees, composition, epsilon, delta):
    """Whatever kinds of noise come in whatever order, exact composition of all that was entered is within the limit."""
    pytest.importorskip("dp_accounting")
    rng, n_refused, entered = np.random.default_rng(3), 0, []
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon=epsilon, delta=delta, composition=composition)
        while n_refused < 8 and len(entered) < 30:
            guarantee = guarantees[rng.integers(len(guarantees))]
            try:
                with entry(guarantee, "some release"):
                    pass
            except LedgerError:
                n_refused += 1
            else:
                entered.append(guarantee)
    assert len(ledger.entries) == len(entered) > 0
    assert compose(*entered, delta=delta).epsilon <= epsilon * (1 + 1e-9)


def test_a_ledger_that_is_opened_again_in_another_working_directory_has_the_same_limit(monkeypatch, tmp_path):
    """Its path was looked up again at each `with`: it went on in another file, in which there was no limit."""
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger, released = PrivacyLedger("spent.jsonl"), 0
    with ledger:
        ledger.limit(1.0, delta=0.0)
        released += publish_once(None)
    monkeypatch.chdir(tmp_path / "results")
    with ledger:
        released += sum(publish_once(None) for _ in range(3))
    assert 0.5 * released <= 1.0
    assert len(ledger.entries) == released


def test_the_limit_is_no_total_of_what_passed_it():
    """Entries that came from elsewhere, without the limit having been looked at."""
    entries = [Entry(str(n), "", "release", PURE, ()) for n in range(9)]
    limit = Limit(1.0, 0.01, PURE.adjacency, "gaussian")
    assert totals(entries, None, limit)[0].adaptive.epsilon >= 4.5
    entries = [Entry(str(n), "", "release", PrivacyGuarantee(0.06, 0.0, adjacency=PURE.adjacency)) for n in range(20)]
    assert totals(entries, None, limit)[0].adaptive.epsilon == 1.0


# What they are for


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
        ledger.limit(1.0, delta=0.0)
        with pytest.raises(LedgerError), entry(guarantee):
            pass


def test_a_limit_is_for_the_neighbours_it_was_set_for():
    """What rows pass before they are compared was not written down: rows as they are were let through instead."""
    after = Adjacency("l1", 1.0, after="Normalizer()")
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0, adjacency=after)
        ledger.limit(1.0, delta=0.0, adjacency=after)
        with pytest.raises(LedgerError), entry(PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("l1", 1.0))):
            pass
        with entry(PrivacyGuarantee(0.5, 0.0, adjacency=after)):
            pass


def _printed(ledger):
    """Facts that a ledger prints, by the words at the beginning of their lines; of several totals the last."""
    facts, name = {}, ""
    for line in repr(ledger).splitlines():
        if line[:1].strip():
            name, _, line = line.partition(" ")
            facts[name] = ""
        facts[name] = f"{facts.get(name, '')} {line.strip()}"
    return facts


def test_what_is_spent_of_a_limit_is_printed_with_what_it_assumes():
    """Three releases of each row are counted as one, by parts that have all rows in common."""
    sketches = [small_sketch(max_change=2.0), small_sketch(adjacency="l2")]
    with PrivacyLedger() as ledger:
        ledger.limit(3.0, 1e-5, adjacency=Adjacency("l1", 1.0))
        for part, sketch in (("a", sketches[0]), ("b", sketches[0]), ("c", sketches[1])):
            with ledger.part(part):
                sketch.transform(X12_4)
        facts = _printed(ledger)
    assert all(total.guarantee is None for total in ledger.total())
    assert "spent (1.0, 1e-06)" in facts["limit"] and "disjoint parts" in facts["assumed"]


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
def test_the_line_of_a_limit_leaves_out_nothing_that_is_given(composition):
    """Without `classes`, neighbours of other labels are told apart for sure."""
    with PrivacyLedger() as ledger:
        ledger.limit(3.0, 1e-5, composition=composition)
        AMPClassifier(epsilon=0.5, delta=1e-6, noise="gaussian").fit(X12_4, Y12)
        facts = _printed(ledger)
    assert "given the set of labels" in facts["total"]
    assert "given the set of labels" in facts["limit"]


def test_a_limit_is_one_for_totals_and_for_releases_alike(tmp_path):
    """One blank before its name, and it was printed as the total, and not looked at by releases."""
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        ledger.limit(1.0, delta=0.0)
    path.write_text(path.read_text().replace('{"limit"', '{ "limit"'))
    _ledger._BOOKS.clear()
    with contextlib.suppress(LedgerError), PrivacyLedger(path) as ledger:
        for _ in range(5):
            publish()
    with contextlib.suppress(LedgerError):
        spent = sum(entry.guarantee.epsilon for entry in PrivacyLedger(path).entries)
        assert not spent or PrivacyLedger(path).total()[0].adaptive.epsilon >= spent


@pytest.mark.parametrize("others", [{"unit": "one word"}, {"violation": "epsilon is at least 9"}])
def test_a_limit_takes_no_release_that_guarantees_less(others):
    """What hides one word, or was refuted by an audit, was taken into a limit for one row."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
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


@pytest.mark.parametrize("adjacency", [Adjacency("l1", 0.1, after="Normalizer()"), Adjacency("replace_one")])
def test_a_limit_is_read_as_it_was_set_and_printed_so(adjacency):
    limit = Limit(1.0, 0.01, adjacency, "gaussian")
    assert Limit.from_dict(json.loads(json.dumps(limit.to_dict()))) == limit
    assert repr(limit.guarantee).startswith("(1.0, 0.01)-DP")


# Prices


@pytest.mark.parametrize("epsilons", [[0.1] * 10, [1.0000000000005]], ids=["ten", "one"])
def test_a_total_is_not_rounded_down_to_the_limit(epsilons):
    """Sums may pass a limit by a rounding, and then the limit was printed."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        for epsilon in epsilons:
            with entry(PrivacyGuarantee(epsilon, 0.0, adjacency=PURE.adjacency)):
                pass
    spent = sum(Fraction(entry.guarantee.epsilon) for entry in ledger.entries)
    assert Fraction(ledger.total()[0].adaptive.epsilon) >= spent


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


NESTED = ["coordinate", "l1", "l2"]


def sketches_of_all_neighbours():
    """Sketches for changes of three kinds and three sizes."""
    for size in (0.5, 1.0, 2.0):
        for adjacency in NESTED:
            method = "smooth" if adjacency == "coordinate" else "laplace"
            yield DPSignOPORP(2, max_change=size, adjacency=adjacency, method=method)
            if adjacency != "coordinate":
                yield DPOPORP(2, max_change=size, adjacency=adjacency)


def test_a_limit_takes_no_sketch_that_hides_less_than_its_neighbours():
    """Of 135 pairs of a limit and a sketch those are taken whose neighbours are a part of the sketch's."""
    rows = np.zeros((2, 3))
    sketches = [sketch.fit(rows) for sketch in sketches_of_all_neighbours()]
    for relation in NESTED:
        for bound in (0.5, 1.0, 2.0):
            for sketch in sketches:
                hidden = sketch.guarantee_.adjacency
                is_wider = NESTED.index(hidden.relation) >= NESTED.index(relation) and hidden.bound >= bound
                with PrivacyLedger() as ledger:
                    ledger.limit(1.0, 1e-6, adjacency=Adjacency(relation, bound))
                    if is_wider:
                        sketch.transform(rows)
                    else:
                        with pytest.raises(LedgerError):
                            sketch.transform(rows)


def test_a_total_of_two_sketches_is_for_neighbours_of_both():
    """The narrower kind, and the smaller size; of most without their losses, which take long to compose."""
    whole = [sketch.fit(np.zeros((1, 3))).guarantee_ for sketch in sketches_of_all_neighbours()]
    bare = [replace(stated, loss=None) for stated in whole]
    for one, others in ((whole[-1], whole), *((one, bare) for one in bare)):
        for other in others:
            total = compose(one, other).adjacency
            for part in (one.adjacency, other.adjacency):
                assert NESTED.index(part.relation) >= NESTED.index(total.relation) and part.bound >= total.bound


def test_no_limit_lets_an_audit_release_a_row_more_often_than_it_allows():
    row = np.zeros((1, 6))
    sketch = DPSignOPORP(4, epsilon=1.0, random_state=0).fit(row)
    with PrivacyLedger() as ledger, pytest.raises(LedgerError):
        ledger.limit(100.0, 0.0, adjacency=sketch.guarantee_.adjacency)
        audit_epsilon(sketch, row, row + np.eye(6)[:1], n_trials=400, distinguishers=["values"])


def test_chunks_within_chunks_and_two_calls_add_up():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 8))
    one, other = (DPOPORP(8, noise="laplace", epsilon=e).fit(X) for e in (1.0, 0.5))
    for release, epsilon in (
        (lambda: [transform_chunks(one, [X[:20], X[20:]]) for _ in range(2)], 2.0),
        (lambda: transform_chunks(other, (one.transform(rows) for rows in (X[:20], X[20:]))), 2.5),
        (lambda: transform_chunks(other, (transform_chunks(one, [rows]) for rows in (X[:20], X[20:]))), 2.5),
    ):
        with PrivacyLedger() as ledger:
            release()
        assert ledger.total()[0].guarantee.epsilon >= epsilon * (1 - 1e-9)


def test_the_price_of_each_score_dominates_its_profile():
    y, groups = np.arange(200) % 2, np.arange(200) // 2
    for epsilon in (0.01, 0.29, 3.0):
        of_all = {"epsilon": epsilon, "groups": groups}
        for score in (
            dp_accuracy_score(y, 1 - y, **of_all),
            dp_confusion_matrix(y, y, labels=[0, 1], **of_all),
            dp_r2_score(y, y / 2, target_bounds=(0, 1), **of_all),
            dp_roc_auc_score(y, y / 2, pos_label=1, **of_all),
        ):
            price, loss = _filter.price(score.guarantee), score.guarantee.profile
            for point in np.linspace(0, 2 * epsilon, 40):
                gaussian = _filter.gaussian_profile(point, scale=1 / price.square**0.5)
                assert loss(point) <= price.coins + (1 - price.coins) * gaussian * (1 + 1e-7) + 3 * price.sampling


@pytest.mark.parametrize("seed", range(12))
def test_a_release_of_what_is_left_fits_and_no_larger_one(seed):
    """In parts of parts, for rows and persons, by both ways of adding up."""
    rng = random.Random(seed)
    composition, unit = ["basic", "gaussian"][seed % 2], ["row", "person"][seed // 2 % 2]
    epsilon, delta = rng.choice([0.3, 1, 3, 10]), 10 ** rng.uniform(-9, -2)
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon, delta, composition=composition, unit=unit)
        for share in (0.1, 1.01, 0.5, 1.0):
            with contextlib.ExitStack() as stack:
                if rng.random() < 0.6:
                    stack.enter_context(ledger.part(rng.choice("ab")))
                    stack.enter_context(ledger.part(rng.choice("xy"), division="second"))
                left, loss = ledger.left(), None
                if not left.epsilon:
                    continue
                asked = left.epsilon * share, left.delta * share
                if composition == "gaussian":
                    asked = left.epsilon * share, delta
                    loss = PrivacyLoss(mu=1 / gaussian_scale(*asked))
                new = PrivacyGuarantee(*asked, unit=unit, adjacency=Adjacency("replace_one"), loss=loss)
                with contextlib.nullcontext() if share <= 1 else pytest.raises(LedgerError), entry(new):
                    pass


ROW24 = Adjacency("replace_one")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_what_a_limit_takes_in_parts_of_two_divisions(seed):
    """Brute force over all rows, each in one part of either division."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        epsilon, delta, spent = float(np.exp(rng.uniform(-2, 1.5))), float(10 ** rng.uniform(-8, -2)), []
        with PrivacyLedger() as ledger:
            ledger.limit(epsilon, delta)
            for _ in range(int(rng.integers(1, 8))):
                with contextlib.ExitStack() as stack:
                    path = {}
                    for division in rng.permutation(["A", "B"])[: int(rng.integers(0, 3))]:
                        path[division] = str(rng.integers(3))
                        stack.enter_context(ledger.part(path[division], division=str(division)))
                    left = ledger.left()
                    takes_all = rng.random() < 0.3 and min(left) > 0
                    wanted = left if takes_all else (epsilon * rng.uniform(0, 0.5), delta * rng.uniform(0, 0.5))
                    try:
                        with entry(PrivacyGuarantee(*wanted, adjacency=ROW24), "one"):
                            spent.append((path, *wanted))
                    except LedgerError:
                        assert not takes_all
                        assert wanted[0] > left.epsilon or wanted[1] > left.delta
            total = ledger.total()
        for row in itertools.product("012", repeat=2):
            here = [
                one
                for one in spent
                if all(one[0].get(name, part) == part for name, part in zip("AB", row, strict=True))
            ]
            sums = [sum(one[place] for one in here) for place in (1, 2)]
            assert sums[0] <= epsilon * (1 + 2.0**-39) and sums[1] <= delta * (1 + 2.0**-39)
            assert not here or total[0].adaptive.epsilon >= sums[0] * (1 - 1e-12)


ROW_REPLACED = Adjacency("replace_one")


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_of_a_limit_may_be_spent_and_no_more(seed):
    """After releases of all rows and of parts, in any block: the epsilon that is left passes, a millionth more not."""
    rng = np.random.default_rng(seed)
    epsilon, delta = float(10 ** rng.uniform(-2, 1)), float(10 ** rng.uniform(-9, -2))
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon, delta)
        for part in rng.choice(["", "a", "b"], size=4):
            spent = PrivacyGuarantee(epsilon * rng.uniform(0, 0.3), delta * rng.uniform(0, 0.2), adjacency=ROW_REPLACED)
            block = ledger.part(str(part)) if part else contextlib.nullcontext()
            with contextlib.suppress(LedgerError), block, entry(spent):
                pass
        for part in ("", "a", "b", "c"):
            with ledger.part(part) if part else contextlib.nullcontext():
                left = ledger.left()
                if left.epsilon > 0:
                    ledger.check(PrivacyGuarantee(left.epsilon, left.delta, adjacency=ROW_REPLACED))
                    with pytest.raises(LedgerError):
                        ledger.check(PrivacyGuarantee(left.epsilon * (1 + 1e-6), left.delta, adjacency=ROW_REPLACED))
