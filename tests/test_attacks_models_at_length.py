"""Attacks on models and their records over many fits: interruptions, persons, parts, limits, files and seeds."""

import itertools
import json
import multiprocessing
import random
import sys
import threading
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skdprp import (
    AMPClassifier,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    add_moments,
    load_model,
    privacy_report,
    save_model,
)
from skdprp.guarantee import Adjacency
from skdprp.ledger import LedgerError, UnrecordedNoiseError, entry
from skdprp.mechanisms import add_laplace
from skdprp.release_file._file import checksum_of
from skdprp.testing import reproducible_noise
from skdprp.testing._tape import tape_of

X = np.random.default_rng(0).standard_normal((60, 3))
Y = (X[:, 0] > 0).astype(int)
TARGETS = np.clip(X[:, 0], -1, 1)


CONSTANT = "n_features_in_", "delta_", "mechanism_"  # the same in all fits


class Interruption(BaseException):
    """What the handler of a signal raises, such as one that limits the time of a fit."""


def interrupt(call, *, at):
    """Call a function, and raise at the event of this number in the library; tell whether there was one."""
    left = at

    def _trace(frame, event, _):
        nonlocal left
        if "/skdprp/" not in frame.f_code.co_filename:
            return None
        left -= 1
        if left == 0:
            sys.settrace(None)
            raise Interruption
        return _trace

    before = sys.gettrace()
    sys.settrace(_trace)
    try:
        call()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_part_that_was_interrupted_as_it_ends_names_no_rows_of_later_releases():
    """A handler of a signal may raise as `__exit__` begins: what follows in that function is of all rows."""

    def _trace(frame, event, _):
        if (
            event == "call"
            and frame.f_code.co_filename.endswith("_recording.py")
            and frame.f_code.co_name == "__exit__"
        ):
            sys.settrace(None)
            raise Interruption

    before = sys.gettrace()
    with PrivacyLedger() as ledger:
        with ledger.part("b"):
            DPMoments(delta=1e-6).fit(X)
        try:
            sys.settrace(_trace)
            with ledger.part("a"):
                pass
        except Interruption:
            pass
        finally:
            sys.settrace(before)
        DPMoments(delta=1e-6).fit(X)  # of all rows, those of "b" as well
        assert ledger.total()[0].adaptive.epsilon >= 2.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of files that were just being opened
@pytest.mark.parametrize(
    "model, y",
    [
        (DPMoments(delta=1e-6), None),
        (DPRidge(target_bounds=(-1, 1), delta=1e-6, mechanism="moments"), TARGETS),
        (DPHistograms(bounds=(-3, 3), n_cells=64, delta=1e-6), None),
    ],
)
def test_an_interrupted_fit_leaves_one_fit_and_no_way_around_the_ledger(model, y):
    """Attributes are all of the old release or all of the new, of which there is an entry."""
    for at in random.Random(0).sample(range(1, 3400), 25):
        before = vars(model.set_params(epsilon=3.0).fit(X, y)).copy()
        model.set_params(epsilon=0.5)
        with PrivacyLedger() as ledger:
            interrupt(lambda: model.fit(X, y), at=at)
            fitted = [
                name for name in before if name.endswith("_") and name not in ("n_features_in_", "delta_", "mechanism_")
            ]
            kept = {vars(model).get(name) is before[name] for name in fitted if name in vars(model)}
            assert len(kept) == 1, at
            assert kept == {True} or len(ledger.entries) == 1
            n_entries = len(ledger.entries)
            with pytest.raises(UnrecordedNoiseError):
                add_laplace([0.0], scale=1.0)
            model.fit(X, y)
            assert len(ledger.entries) == n_entries + 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["moments", "descent", "preconditioned"])
def test_persons_with_any_number_of_rows_move_all_releases_no_further_than_stated(name, seed):
    """Of the moves that the guarantee is for, opposite persons need up to all, and others less."""
    rng = np.random.default_rng(seed)
    bounds = {"delta": 1e-5, "max_norm": 2.0}
    model = {
        "moments": DPMoments(target_bounds=(-1, 2), **bounds),
        "descent": DPRidge(target_bounds=(-1, 2), mechanism="descent", **bounds),
        "preconditioned": DPSGDClassifier(classes=[0, 1], n_epochs=4, preconditioner=True, **bounds),
    }[name]
    others = rng.standard_normal((20, 2)), rng.integers(0, 2, 20), 1 + rng.integers(0, 6, 20)
    one = rng.standard_normal(2)
    other = rng.choice([-1.0, 1.0]) * one if seed % 2 else rng.standard_normal(2)

    def _releases(row, label):
        n_rows = int(rng.integers(1, 9))
        X = np.vstack([np.tile(3 * row / np.linalg.norm(row), (n_rows, 1)), others[0]])
        data = X, np.append(np.full(n_rows, label), others[1]), np.append(np.zeros(n_rows, int), others[2])
        places = rng.permutation(len(X))
        X, y, groups = (part[places] for part in data)
        return tape_of(lambda: model.fit(sp.csr_array(X) if seed % 3 == 0 else X, y, groups=groups))

    a, b = _releases(one, 0), _releases(other, 1)
    squares = [np.sum((values - moved) ** 2) / scale**2 for (_, scale, values), (_, _, moved) in zip(a, b, strict=True)]
    n_others = len(squares) - (name == "preconditioned")  # steps at the first weights, which both have in common
    first = squares[0] if name == "preconditioned" else 0.0
    spent = first + n_others * squares[name == "preconditioned"]
    assert spent <= model.guarantee_.loss.mu**2


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

    for _ in range(40):
        with PrivacyLedger() as ledger:
            if is_limited := rng.random() < 0.6:
                ledger.limit(1.0)
            for _ in range(rng.randint(1, 8)):
                _act(ledger)
            worst, totals = spent_by_the_worst_row(ledger.entries), ledger.total()
            assert not is_limited or worst <= 1 + Fraction(10) ** -11
            assert all(Fraction(total.adaptive.epsilon) >= worst for total in totals)


def fits_in_threads(_):
    """Number of fits of four threads that were not refused."""
    made = []

    def _fit():
        try:
            DPMoments(epsilon=0.1, delta=1e-7).fit(X)
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


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("disjoint", [True, False])
def test_a_sum_of_moments_of_which_some_are_seeded_is_seeded(disjoint, order):
    with reproducible_noise(0):
        seeded = DPMoments(delta=1e-6).fit(X).moments_
    released = add_moments(*[seeded, DPMoments(delta=1e-6).fit(X).moments_][::order], disjoint=disjoint)
    assert released.guarantee.seeded


class LeftOpen:
    """Chunks whose iterator waits inside of a block of seeded noise after the last of them."""

    def __iter__(self):
        self._waiting = self._seeded()
        yield next(self._waiting)

    def _seeded(self):
        with reproducible_noise(0):
            yield X, Y
            yield None

    def close(self):
        """Leave the block."""
        self._waiting.close()


@pytest.mark.parametrize("model", [AMPClassifier(classes=[0, 1]), DPSGDClassifier(classes=[0, 1], n_epochs=3)])
def test_a_seed_that_chunks_leave_behind_marks_the_fit(model):
    chunks = LeftOpen()
    assert model.fit_chunks(chunks).guarantee_.seeded
    chunks.close()
    assert not model.fit(X, Y).guarantee_.seeded


@pytest.mark.parametrize("is_seeded", [True, False])
def test_a_file_keeps_every_mark_of_a_release(is_seeded, tmp_path):
    """Also what a report says of it."""
    for model, y in ((AMPClassifier(classes=[0, 1]), Y), (DPRidge(target_bounds=(-1, 1)), TARGETS)):
        if is_seeded:
            with reproducible_noise(0):
                model.fit(X, y)
        else:
            model.fit(X, y)
        save_model(tmp_path / "model.npz", model)
        loaded = load_model(tmp_path / "model.npz").estimator
        assert str(loaded.guarantee_) == str(model.guarantee_)
        assert loaded.guarantee_.seeded == is_seeded
        assert repr(privacy_report(loaded)) == repr(privacy_report(model))


def test_a_file_with_any_other_value_is_a_model_or_refused(tmp_path):
    """With a checksum that fits, one value of the header at a time is replaced by one of another kind."""
    rng, path = random.Random(0), tmp_path / "model.npz"
    save_model(path, AMPClassifier(classes=[0, 1]).fit(X, Y))
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = arrays.pop("header").item()
    del arrays["checksum"]
    others = [
        None,
        True,
        -1,
        10**400,
        "x",
        [],
        {},
        {"type": "int"},
        {"tuple": 1},
        {"array": "array_0"},
        {"float": "nan"},
    ]
    refused = Counter()
    for _ in range(150):
        facts = json.loads(header)
        place = rng.choice([*facts, "of the model"])
        held, place = (facts["model"]["estimator"][1], None) if place == "of the model" else (facts, place)
        held[rng.choice(list(held)) if place is None else place] = rng.choice(others)
        text = json.dumps(facts)
        np.savez(path, header=text, checksum=checksum_of(text, arrays), **arrays)
        try:
            refused[repr(load_model(path).estimator) == ""] += 1
        except ValueError as error:
            refused[str(path) in str(error)] += 1
    assert refused[True] > 75


CELLS = [None, np.nan, 2**53 + 5, 7, True, "z", b"a", 1.5, -0.0, pd.NA, np.int8(1), np.bool_(True)]


@pytest.mark.parametrize("dtype", [object, "Int64", pd.CategoricalDtype([2**53 + 1, 2**53 + 3, 2**53 + 5, 7])])
def test_one_cell_moves_the_counts_of_two_categories(dtype):
    """Whole numbers that floats cannot tell apart stay apart whatever another row holds."""
    codes = np.tile([0, 1], 6)
    whole = pd.Series(np.array([2**53 + 1, 2**53 + 3], dtype=object)[codes])

    def _counts(column):
        return DPHistograms(categories={"c": None})._count([pd.DataFrame({"c": column})])[2][0]

    before = _counts(whole.astype(dtype))
    assert set(before.values()) == {6}
    for cell in CELLS:
        column = whole.astype(dtype)
        try:
            column.iloc[5] = cell
            after = _counts(column)
        except (TypeError, ValueError):
            continue
        if column.dtype == dtype:
            assert sum(abs(before[key] - after[key]) for key in {*before, *after}) <= 2, cell
