"""Attacks on the ledger: releases without an entry, files, parts, threads, and blocks that end in odd ways."""

import asyncio
import contextlib
import contextvars
import math
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import joblib
import numpy as np
import pytest
from attacks import (
    PURE,
    REFUSALS,
    X12,
    X12_4,
    X60,
    X200_UNIFORM,
    X240,
    Y12,
    Y200_UNIFORM,
    Y240,
    Interruption,
    as_a_fresh_process,
    in_a_context_of_its_own,
    in_fork,
    leaves_with,
    private_model,
    publish,
    publish_as_a_fresh_process,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    MIDPRegressor,
    PrivacyGuarantee,
    PrivacyLedger,
    iDPSignRP,
    privacy_report,
    transform_chunks,
)
from skdprp import _open_ledgers as open_ledgers
from skdprp._recording import EntryBlock
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import Adjacency, PrivacyWarning, Unit
from skdprp.ledger import LedgerError, UnrecordedNoiseError, _ledger, entry
from skdprp.ledger._ledger import Rows
from skdprp.mechanisms import add_gaussian, add_laplace
from skdprp.testing import reproducible_noise

# Releases that no entry accounts for


@in_a_context_of_its_own
def test_two_generators_inside_of_entries_hide_no_release_of_others():
    """Contexts left in another order than the opposite of entering: the second generator, and all that came after."""
    done = []

    def noisy(value):
        with entry(PURE):
            done.append(1)
            yield add_laplace([value], scale=4.0)

    with PrivacyLedger() as ledger:
        with contextlib.suppress(RuntimeError):
            for _ in zip(noisy(1.0), noisy(2.0), strict=True):
                pass
        for _ in range(3):
            with contextlib.suppress(*REFUSALS):
                publish(done)
        assert len(ledger.entries) >= len(done)


@in_a_context_of_its_own
def test_a_generator_that_waits_inside_of_an_entry_hides_no_release_of_its_caller():
    """Its context is that of whoever asked for its next value."""
    done = []

    def noisy():
        with entry(PURE):
            done.append(1)
            yield add_laplace([1.0], scale=4.0)

    with PrivacyLedger() as ledger:
        for _ in noisy():
            with contextlib.suppress(*REFUSALS):
                publish(done)
        assert len(ledger.entries) >= len(done)


@in_a_context_of_its_own
def test_a_task_that_was_begun_inside_of_an_entry_and_runs_after_it_is_entered():
    """A task of asyncio runs in a copy of the context it was made in."""
    done = []

    async def later():
        with contextlib.suppress(*REFUSALS):
            publish(done)

    async def main():
        with entry(PURE):
            done.append(1)
            task = asyncio.create_task(later())
        await task

    with PrivacyLedger() as ledger:
        asyncio.run(main())
        assert len(ledger.entries) >= len(done)


@in_a_context_of_its_own
def test_a_ledger_that_is_opened_inside_of_an_entry_sees_what_follows():
    """The entry was made before: in another ledger, or in none."""
    done = []
    with entry(replace(PURE, epsilon=9.0, delta=0.01)), PrivacyLedger() as ledger:
        with contextlib.suppress(*REFUSALS):
            AMPClassifier(epsilon=9.0, classes=[0, 1]).fit(X12_4, Y12)
            done.append(1)
        with contextlib.suppress(*REFUSALS):
            add_laplace([1.0], scale=4.0)
            done.append(1)
        assert len(ledger.entries) >= len(done)


class Fitting:
    """A callback that fits another private model after each step."""

    def __init__(self, done):
        self.done = done

    def setup(self, estimator, context):
        """Do nothing."""

    teardown = setup

    def on_fit_task_begin(self, estimator, context, **known):
        """Do nothing."""

    def on_fit_task_end(self, estimator, context, **known):
        """Publish for an epsilon of 9."""
        with contextlib.suppress(*REFUSALS):
            AMPClassifier(epsilon=9.0, classes=[0, 1]).fit(X12_4, Y12)
            self.done.append(1)


def test_a_model_that_a_callback_fits_has_an_entry_of_its_own():
    """A limit of 1.0 did not see four fits of epsilon 9 within one of 0.5."""
    estimator = DPSGDClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1], n_epochs=3)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    done = []
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-2)
        estimator.set_callbacks(Fitting(done)).fit(X12_4, Y12)
        assert len(ledger.entries) >= 1 + len(done)


class Hooked:
    """Rows that call a function when they are asked for."""

    def __init__(self, rows, hook):
        self.rows, self.hook, self.shape = rows, hook, rows.shape

    def __len__(self):
        return len(self.rows)

    def __array__(self, dtype=None, copy=None):
        """Be asked."""
        self.hook()
        return self.rows


def test_a_sketch_that_is_fitted_anew_while_it_transforms_is_entered_as_what_it_releases():
    """The noise was that of the fit at the beginning, epsilon 10, and the entry that of the fit in between, 0.01."""
    sketch = DPOPORP(4, epsilon=10.0, delta=1e-6).fit(X12_4)
    rows = Hooked(np.zeros((2000, 4)), lambda: sketch.set_params(epsilon=0.01).fit(X12_4))
    with PrivacyLedger() as ledger:
        released = sketch.transform(rows)
        recorded = ledger.entries[0].guarantee.epsilon
    assert recorded >= 10.0 or released.std() > 100.0  # 0.5 for 10, 307 for 0.01


def seeded_by_hand():
    with reproducible_noise(0), entry(PURE):
        add_laplace([1.0], scale=4.0)


def seeded_inside():
    with entry(PURE), reproducible_noise(0):
        add_laplace([1.0], scale=4.0)


def seeded_by_rows():
    with contextlib.ExitStack() as stack:
        rows = Hooked(X12_4, lambda: stack.enter_context(reproducible_noise(0)))
        AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1]).fit(rows, Y12)


@pytest.mark.parametrize("release", [seeded_by_hand, seeded_inside, seeded_by_rows])
def test_noise_from_a_seed_is_entered_as_such_or_refused(release):
    """A limit counted it as private, and a total said so."""
    with PrivacyLedger() as ledger:
        try:
            release()
        except REFUSALS:
            return
        assert ledger.entries[0].guarantee.seeded


def begin_a_ledger(path):
    stack = contextlib.ExitStack()
    stack.enter_context(PrivacyLedger(path))


def publishes_in_what_was_begun(path):
    begin_a_ledger(path)
    with contextlib.suppress(*REFUSALS):
        publish()
    os._exit(len(PrivacyLedger(path).entries))


def test_a_ledger_that_nobody_holds_any_more_is_open_until_its_block_is_left(tmp_path):
    """A function that opens it for a whole program: it was closed, without a word, as the function returned."""
    assert in_fork(publishes_in_what_was_begun, tmp_path / "spent.jsonl") == 1


def test_two_entries_of_one_with_statement_are_two():
    """The second was taken for a part of the first, and passed the limit: 5.0 was released, and 0.5 entered."""
    more = PrivacyGuarantee(5.0, 0.0, adjacency=PURE.adjacency)
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        with contextlib.suppress(LedgerError):
            with entry(PURE, "count"), entry(more, "sum"):
                add_laplace([1.0], scale=0.2)
            assert ledger.total()[0].adaptive.epsilon == 5.5


@pytest.mark.parametrize("add", [add_gaussian, add_laplace])
def test_a_value_without_noise_is_no_release_without_an_entry(add):
    """A scale of 0 drew nothing, so that nobody asked which ledgers are open, and returned the value as it is."""
    with PrivacyLedger(), pytest.raises((UnrecordedNoiseError, ValueError)):
        add([42.0], scale=0.0)


@pytest.mark.parametrize(
    "model",
    [
        DPHistograms(epsilon=0.5),
        DPBinner(epsilon=0.5),
        DPScaler(epsilon=0.5),
        DPMoments(epsilon=0.5),
        DPRidge(epsilon=0.5, target_bounds=(0, 1), mechanism="moments"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_chunks_release_on_their_way_is_no_part_of_the_release_that_takes_them(model):
    """A model in the generator of the chunks has an entry of its own, before that of all; bare noise is refused."""
    has_targets = not isinstance(model, DPHistograms | DPBinner | DPScaler)
    refused = []

    def chunks():
        for place in range(2):
            AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1]).fit(X12_4, Y12)
            with pytest.raises(UnrecordedNoiseError):
                add_laplace([1.0], scale=4.0)
            refused.append(place)
            yield (X12_4, Y12) if has_targets else X12_4

    with PrivacyLedger() as ledger:
        model.fit_chunks(chunks())
    assert refused == [0, 1]
    assert [released.estimator for released in ledger.entries] == ["AMPClassifier"] * 2 + [type(model).__name__]


def search(*steps):
    model = make_pipeline(*steps, DPSGDClassifier(n_epochs=2, max_norm=1.0, classes=[0, 1]))
    grid = {"dpsgdclassifier__max_norm": [1.0, 2.0]}
    return DPSearchCV(model, grid, n_trials=5, epsilon=2.0, delta=1e-5, classes=[0, 1])


def test_a_ledger_does_not_tell_how_many_trials_a_search_has_run():
    """Steps side by side that ask for threads of their own, and draw noise there, are part of the one entry."""
    rows, labels = np.tile(X12_4, (10, 1)), np.tile(Y12, 10)
    with PrivacyLedger() as ledger:
        search(make_union(DPPCA(1), DPPCA(2), n_jobs=2)).fit(rows, labels)
    assert [released.estimator for released in ledger.entries] == ["DPSearchCV"]


@pytest.mark.parametrize("n_calls", range(1, 9))
def test_a_search_is_entered_as_a_whole_or_refused_where_a_ledger_is_opened_meanwhile(n_calls):
    """A step opens one at one of its calls: before the entry, or in one of the trials, each of which draws noise."""
    rows, labels, calls = np.tile(X12_4, (10, 1)), np.tile(Y12, 10), []
    with contextlib.ExitStack() as stack:
        ledger = PrivacyLedger()

        def opens(rows):
            calls.append(1)
            if len(calls) == n_calls:
                stack.enter_context(ledger)
            return rows

        try:
            search(FunctionTransformer(opens)).fit(rows, labels)
        except UnrecordedNoiseError:
            return
        assert len(calls) < n_calls or [released.estimator for released in ledger.entries] == ["DPSearchCV"]


# Parts


@in_a_context_of_its_own
def test_parts_of_one_ledger_are_no_parts_of_another(tmp_path):
    """Visits of different years are disjoint; those of a patient, whom the other ledger is about, are not."""
    with PrivacyLedger(tmp_path / "visits") as visits, PrivacyLedger(tmp_path / "patients") as patients:
        for year in ("2024", "2025", "2026"):
            with visits.part(year):
                publish()
    assert visits.total()[0].guarantee.epsilon == 0.5
    assert patients.total()[0].guarantee.epsilon >= 1.5


def test_what_is_in_two_parts_of_one_division_is_not_released():
    """Of rows that were in "b", 1.0 was released, and 0.5 counted: once as a part of "a", and once beside it."""
    with PrivacyLedger() as ledger:
        with ledger.part("a"), pytest.raises(LedgerError, match="two parts of one division"), ledger.part("b"):
            publish()
        with ledger.part("a"), ledger.part("a"), ledger.part("b", division="of a"):
            publish()
    assert [released.rows for released in ledger.entries] == [(("rows", "a"), ("of a", "b"))]


@in_a_context_of_its_own
def test_generators_inside_of_parts_do_not_make_parts_of_what_follows():
    """Two of them in turn: all that followed was of the first part, and disjoint from others."""
    with PrivacyLedger() as ledger:

        def rows_of(name):
            with ledger.part(name):
                yield name

        with contextlib.suppress(RuntimeError):
            for _ in zip(rows_of("a"), rows_of("b"), strict=True):
                pass
        publish()

        def other():
            with ledger.part("c"):
                publish()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert ledger.total()[0].guarantee.epsilon >= 1.0


def test_a_part_inside_of_another_of_its_division_is_refused_or_counted_for_both():
    """Rows of "b" saw both releases, for nobody leaves a part by entering another: 0.5 was printed for 1.0."""
    with PrivacyLedger() as ledger:
        try:
            with ledger.part("a"), ledger.part("b"):
                publish()
        except (LedgerError, ValueError):
            return
        with ledger.part("b"):
            publish()
    assert ledger.total()[0].guarantee.epsilon >= 1.0


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
            DPMoments(delta=1e-6).fit(X60)
        try:
            sys.settrace(_trace)
            with ledger.part("a"):
                pass
        except Interruption:
            pass
        finally:
            sys.settrace(before)
        DPMoments(delta=1e-6).fit(X60)  # of all rows, those of "b" as well
        assert ledger.total()[0].adaptive.epsilon >= 2.0


# Files


def test_a_ledger_stays_the_same_file_in_another_working_directory(monkeypatch, tmp_path):
    """Its path was looked up again where the process had gone to: nothing was released, and there was a file there."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with PrivacyLedger("spent.jsonl") as ledger:
        publish()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert len(ledger.entries) == 1
        assert ledger.total()[0].guarantee.epsilon == PURE.epsilon
    assert len(ledger.entries) == 1
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_name_that_was_mistyped_is_no_ledger_in_which_nothing_was_released(tmp_path):
    """To look at it made a file, with which the next mistake looked right."""
    with contextlib.suppress(LedgerError, FileNotFoundError):
        assert PrivacyLedger(tmp_path / "spemt.jsonl").total() == ()
    assert os.listdir(tmp_path) == []


def unknown_profile(epsilon):
    return max(0.0, 0.5 - epsilon)


@pytest.mark.parametrize(
    "more",
    [
        {"audited_epsilon": math.inf},
        {"loss": PrivacyLoss(profiles=(Profile.of(unknown_profile),))},
        {"loss": PrivacyLoss(mu=math.inf)},
        {"epsilon": 10**400},
        {"epsilon": math.inf},
    ],
    ids=["an infinite audit", "a profile of one's own", "an infinite ratio", "a large integer", "infinite epsilon"],
)
def test_what_was_entered_can_be_read_again(more, tmp_path):
    """Of a guarantee that no line brings back, the release was made, and the ledger unreadable from then on."""
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        try:
            guarantee = PrivacyGuarantee(**{"epsilon": 0.5, "delta": 0.0, "adjacency": PURE.adjacency} | more)
            with entry(guarantee):
                add_laplace([1.0], scale=4.0)
        except (LedgerError, ValueError, OverflowError):
            assert ledger.entries == ()
            return
        assert len(ledger.entries) == len(ledger.total()) == 1


def on_a_full_disk(path):
    with PrivacyLedger(path):
        publish()
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, resource.RLIM_INFINITY))
        try:
            publish()
        except LedgerError:
            os._exit(0)
    os._exit(1)


def test_half_a_line_on_a_full_disk_is_taken_back(tmp_path):
    """By a limit of the size of files, which lets the first half of a line through."""
    path = tmp_path / "spent.jsonl"
    assert in_fork(on_a_full_disk, path) == 0
    assert len(PrivacyLedger(path).entries) == 1


def test_each_spelling_of_a_path_is_the_same_ledger(tmp_path):
    """By way of symbolic links and of a parent directory, one inside the other: one entry, and one book."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "directory")
    (tmp_path / "directory" / "also").symlink_to("spent.jsonl")
    spellings = ["directory/spent.jsonl", "link/spent.jsonl", "link/../directory/also"]
    with contextlib.ExitStack() as stack:
        ledgers = [stack.enter_context(PrivacyLedger(f"{tmp_path}/{spelling}")) for spelling in spellings]
        publish()
        assert [len(ledger.entries) for ledger in ledgers] == [1, 1, 1]


def test_ledgers_may_be_closed_in_any_order_and_by_any_thread(tmp_path):
    """What was opened first is closed first, by a thread that is not the one that opened it."""
    first, second = PrivacyLedger(tmp_path / "first"), PrivacyLedger(tmp_path / "second")
    for do in (first.__enter__, second.__enter__, publish, lambda: first.__exit__(None, None, None)):
        thread = threading.Thread(target=do)
        thread.start()
        thread.join()
    publish()
    second.__exit__(None, None, None)
    publish()
    assert (len(first.entries), len(second.entries)) == (1, 2)


def test_where_there_are_no_locks_it_is_said_and_no_file_is_left(monkeypatch, tmp_path):
    """On Windows, it was an AttributeError, and a file without a line."""
    monkeypatch.setattr("skdprp.ledger._journal.fcntl", None)
    with pytest.raises(NotImplementedError), PrivacyLedger(tmp_path / "spent.jsonl"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_moved_away_is_not_begun_anew_without_its_limit(tmp_path):
    """A worker that had not read it before made a new file at its place, in which there was no limit."""
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        ledger.limit(0.1, delta=0.0)
        path.rename(tmp_path / "moved")
        assert in_fork(publish_as_a_fresh_process) == 0
        (tmp_path / "moved").replace(path)


def test_a_file_that_is_another_one_by_now_is_read_anew(tmp_path):
    """A copy of another ledger at its place, of lines as long: what had been read before was 0.2, and spent were 18."""
    path, other = tmp_path / "spent.jsonl", tmp_path / "other.jsonl"
    for epsilon, name in ((0.1, path), (9.0, other)):
        with PrivacyLedger(name):
            for _ in range(2):
                with entry(PrivacyGuarantee(epsilon, 0.0, adjacency=PURE.adjacency)):
                    add_laplace([1.0], scale=1 / epsilon)
    shutil.copyfile(other, path)
    assert PrivacyLedger(path).total()[0].adaptive.epsilon == 18.0


def test_the_name_of_a_new_ledger_is_on_the_disk_before_a_release(monkeypatch, tmp_path):
    """A crash of the machine left entries in a file without a name."""
    written, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (written.append(os.fstat(file).st_ino), fsync(file)))
    with PrivacyLedger(tmp_path / "spent.jsonl"):
        assert written == [(tmp_path / "spent.jsonl").stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize("name", [["count"], {"count": 1}])
def test_a_name_of_a_release_that_cannot_be_counted_is_refused_before_the_release(name):
    """No total could be printed from then on."""
    with PrivacyLedger() as ledger:
        with contextlib.suppress(TypeError, ValueError, LedgerError), entry(PURE, name):
            pass
        ledger.total()


def test_what_one_ledger_refuses_is_entered_into_none(tmp_path):
    """It was entered into those that were asked before, whose limits were spent on nothing."""
    with contextlib.ExitStack() as stack:
        ledgers = [stack.enter_context(PrivacyLedger(tmp_path / str(number))) for number in range(12)]
        ledgers[5].limit(0.1, delta=0.0)
        with pytest.raises(LedgerError):
            publish()
        assert [len(ledger.entries) for ledger in ledgers] == [0] * 12


def prints_while_it_writes(path):
    with PrivacyLedger(path):
        os.close(1)
        os.close(2)
        written = os.fsync

        def printing(descriptor):  # as another thread, or BLAS
            for number in (1, 2):
                with contextlib.suppress(OSError):
                    os.write(number, b"a row\n")
            written(descriptor)

        os.fsync = printing
        publish()
    os._exit(0)


def test_nothing_is_printed_into_a_ledger(tmp_path):
    """A daemon that has closed standard output: the file was opened as number 1, and a line of text damaged it."""
    assert in_fork(prints_while_it_writes, tmp_path / "spent.jsonl") == 0
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) == 1


def test_a_damaged_line_stops_releases_of_a_ledger_without_a_limit(tmp_path):
    """Only the first line was looked at before a release: what could not be counted any more was published."""
    with PrivacyLedger(tmp_path / "spent.jsonl"):
        publish()
        with (tmp_path / "spent.jsonl").open("a") as file:
            file.write("not an entry\n")
        with pytest.raises(LedgerError, match="Line 3"):
            publish()


# Threads


def opens_and_closes_at(line):
    """At one line that tells processes of ledgers, have another thread close one ledger and open another one."""
    first, second, n_lines = PrivacyLedger(), PrivacyLedger(), 0
    thread = threading.Thread(target=lambda: (first.__exit__(None, None, None), second.__enter__()))

    def trace(frame, event, _):
        nonlocal n_lines
        if frame.f_code.co_name != "_tell":
            return None
        n_lines += event == "line"
        if n_lines == line and event == "line" and thread.ident is None:
            thread.start()
            thread.join(0.1)  # unless it waits for this one
        return trace

    first.__enter__()
    sys.settrace(trace)
    with PrivacyLedger():
        pass
    sys.settrace(None)
    is_reached = thread.ident is not None
    if is_reached:
        thread.join()
    assert set(open_ledgers._told()) == set(open_ledgers._OWN), line
    (second if is_reached else first).__exit__(None, None, None)
    publish()
    return is_reached


def opens_and_closes_in_turn():
    line = 1
    while opens_and_closes_at(line):
        line += 1
    os._exit(0 if line > 1 else 2)


def test_processes_are_told_of_ledgers_that_threads_open_and_close_at_a_time():
    """One of them was lost, or told of for ever, or was closed with an error and nothing was released after that."""
    assert in_fork(opens_and_closes_in_turn) == 0


def test_a_ledger_may_be_opened_again_while_another_has_its_file_open(tmp_path):
    """It was said to be open already."""
    again = PrivacyLedger(os.fsencode(tmp_path / "spent.jsonl"))
    with again:
        pass
    with PrivacyLedger(tmp_path / "spent.jsonl"), again:
        publish()
        with pytest.raises(LedgerError, match="open already"):
            again.__enter__()
    assert len(again.entries) == 1


def publish_in_a_thread(entered):
    """Publish in another thread, and note in which ledgers."""

    def _publish():
        with contextlib.suppress(*REFUSALS), entry(PURE) as release:
            add_laplace([1.0], scale=4.0)
            entered.extend(release.written)

    thread = threading.Thread(target=_publish)
    thread.start()
    thread.join()


@in_a_context_of_its_own
def test_what_is_entered_while_a_ledger_without_a_path_is_closed_is_in_its_total():
    """Between the last look at its file and its end, as happens in most blocks in which threads go on publishing."""
    line, is_reached = 1, True
    while is_reached:
        entered = []
        ledger, is_reached = leaves_with(lambda entered=entered: publish_in_a_thread(entered), line, code="__exit__")
        assert len(ledger.entries) == 1 + len(entered), line
        line += 1
    assert line > 3


@pytest.mark.parametrize("how", ["swept away", "in a fork"])
def test_a_ledger_that_cannot_know_does_not_say_that_nothing_was_released(how, monkeypatch, tmp_path):
    """Its file was removed as too old by what clears /tmp, or its block was left by another process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fork = multiprocessing.get_context("fork")
    left, said, ledger = fork.Event(), fork.Queue(), PrivacyLedger()

    def looks():
        left.wait(100)
        try:
            said.put(len(ledger.entries))
        except LedgerError:
            said.put(1)

    with contextlib.suppress(LedgerError), ledger:
        publish()
        process = fork.Process(target=looks)
        process.start()
        for path in tmp_path.iterdir() if how == "swept away" else ():
            path.unlink()
    left.set()
    if how == "in a fork":
        assert said.get(timeout=100) == 1
    else:
        with contextlib.suppress(LedgerError):
            assert len(ledger.entries) == 1
    process.join()


def test_a_ledger_that_two_threads_open_at_a_time_counts_what_both_release(monkeypatch, tmp_path):
    """Both found it closed, and who left first closed it for the other: 35 were released, and 10 entered."""
    ledger, begun, left, done = PrivacyLedger(tmp_path / "spent.jsonl"), threading.Barrier(2), threading.Event(), []
    begin = _ledger.begin

    def begin_together(path):
        with contextlib.suppress(threading.BrokenBarrierError):
            begun.wait(0.5)
        return begin(path)

    def job(n_releases, wait):
        with contextlib.suppress(*REFUSALS), ledger:
            wait(5)
            for _ in range(n_releases):
                publish(done)

    def first():
        job(1, lambda _: None)
        left.set()

    monkeypatch.setattr(_ledger, "begin", begin_together)
    threads = [threading.Thread(target=first), threading.Thread(target=job, args=(3, left.wait))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done
    assert len(ledger.entries) >= len(done)


def test_threads_with_ledgers_of_their_own_at_one_path_enter_each_release_once(tmp_path):
    """They open and close them all the time; what is entered by one is not entered by another."""
    done = []

    def job():
        for _ in range(5):
            with PrivacyLedger(tmp_path / "spent.jsonl"):
                publish(done)
                publish(done)

    threads = [threading.Thread(target=job) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) == len(done) == 40


def test_a_ledger_without_a_path_that_another_thread_closes_stops_no_release(monkeypatch):
    """Its file was gone between two steps of a release: "bring it back as it was", said an error."""
    look, other = _ledger.open_journals, PrivacyLedger()

    def close_after_a_look():
        journals = look()
        monkeypatch.setattr(_ledger, "open_journals", look)
        thread = threading.Thread(target=other.__exit__)
        thread.start()
        thread.join()
        return journals

    with PrivacyLedger() as ledger:
        other.__enter__()
        monkeypatch.setattr(_ledger, "open_journals", close_after_a_look)
        publish()
        assert len(ledger.entries) == 1


def left_in_order(block):
    """Leave a block before the one that was entered after it."""

    def waits_in(block):
        with block:
            yield

    one, other = waits_in(block), waits_in(entry(PURE) if isinstance(block, EntryBlock) else Rows([], are_all=False))
    next(one)
    next(other)
    one.close()
    return other  # which goes on to wait


def left_in_another_thread(block):
    def waits():
        with block:
            yield

    generator = waits()
    next(generator)
    thread = threading.Thread(target=generator.close)
    thread.start()
    thread.join()


def left_by_threads_that_take_chunks(block):
    def chunks():
        with block:
            yield from [X12_4] * 8

    transform_chunks(DPOPORP(2, random_state=0).fit(X12_4), chunks(), n_jobs=2)


def publish_again(block):
    with block:
        publish()


def left_by_the_event_loop(block):
    async def chunks():
        with block:
            yield
            yield

    async def main():
        async for _ in chunks():
            break
        for _ in range(10):  # in which the loop closes what the loop above has left
            await asyncio.sleep(0)
        publish_again(block)

    asyncio.run(main())


def leave_and_publish_again(leave, of_rows):
    with PrivacyLedger() as ledger:
        block = ledger.part("train") if of_rows else entry(PURE)
        waiting = leave(block)
        n_before = len(ledger.entries)
        publish_again(block)
        publish()
        assert len(ledger.entries) == n_before + 2
        assert [len(released.rows) for released in ledger.entries[-2:]] == [of_rows, 0]
        del waiting


@pytest.mark.parametrize("of_rows", [True, False], ids=["part", "entry"])
@pytest.mark.parametrize(
    "leave", [left_in_order, left_in_another_thread, left_by_threads_that_take_chunks, left_by_the_event_loop]
)
def test_a_block_that_was_left_out_of_order_or_elsewhere_may_be_entered_again(leave, of_rows):
    """It was its own outer block then, by itself or by way of another: whoever asked for all of them never ended."""
    assert in_fork(leave_and_publish_again, leave, of_rows) == 0


# A ledger without a file, opened again


def test_a_ledger_without_a_file_is_not_opened_again():
    """Four fits were one of epsilon 1 in its entries and total, and each passed a limit that was for all."""
    ledger, model = PrivacyLedger(), private_model()
    with ledger:
        ledger.limit(1.0, 1e-5)
        model.fit(X200_UNIFORM, Y200_UNIFORM)
    with pytest.raises(LedgerError, match="name a file"), ledger:
        model.fit(X200_UNIFORM, Y200_UNIFORM)
    assert len(ledger.entries) == 1
    model.fit(X200_UNIFORM, Y200_UNIFORM)  # nothing of the refused block is open
    assert len(ledger.entries) == 1


def _release_within(ledger, sketch):
    with ledger:
        ledger.limit(1.0, 1e-6, adjacency=sketch.guarantee_.adjacency)
        return sketch.transform(X12)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_ledger_without_a_file_that_workers_open_does_not_say_that_nothing_was_released():
    """Each worker opened a copy of its own: three releases within a limit of one, and a ledger of none."""
    ledger, sketch, n_released = PrivacyLedger(), DPOPORP(4, random_state=0).fit(X12), 0
    # As good as spawned, and without what it takes to import all that is imported here.
    options = {"mp_context": multiprocessing.get_context("fork"), "initializer": as_a_fresh_process}
    with ProcessPoolExecutor(1, **options) as workers:
        for _ in range(3):
            with contextlib.suppress(Exception):
                n_released += workers.submit(_release_within, ledger, sketch).result().shape == (12, 4)
    assert len(ledger.entries) == n_released <= 1


def test_an_empty_file_is_no_ledger_that_is_there(tmp_path):
    (tmp_path / "people.jsonl").touch()
    with pytest.raises(LedgerError), PrivacyLedger(tmp_path / "people.jsonl", create=False):
        pass


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inside", ["model", "search", "other person", "larger change"])
def test_an_entry_warns_of_what_its_guarantee_does_not_cover(inside):
    X = np.linspace(-1, 1, 300)[:, None] * [1, -1]
    y, target = (X[:, 0] > 0).astype(int), {"epsilon": 3.0, "delta": 1e-6}
    model = AMPClassifier(classes=[0, 1], **target)
    fits = {
        "model": lambda: model.fit(X, y),
        "search": lambda: DPSearchCV(AMPClassifier(classes=[0, 1]), {"max_norm": [1.0, 2.0]}, **target).fit(X, y),
        "other person": lambda: model.fit(X, y),
        "larger change": lambda: DPOPORP(2, epsilon=0.5, delta=1e-6).fit_transform(X),
    }
    unit = Unit.PERSON if inside == "other person" else Unit.ROW
    neighbours = Adjacency("l1", 2.0) if inside == "larger change" else Adjacency("replace_one")
    stated = PrivacyGuarantee(0.5, 1e-6, adjacency=neighbours, unit=unit)
    with PrivacyLedger(), entry(stated, "mine"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fits[inside]()
    assert any("entry" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("stated", "sketch"),
    [
        (PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("l1", 2.0)), DPOPORP(2)),
        (PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("l2", 1.0)), DPOPORP(2)),
        (PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("l1", 1.0)), DPSignOPORP(2)),
        (PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("l1", 1.0)), iDPSignRP(2)),
        (PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one")), iDPSignRP(2)),
    ],
)
def test_an_entry_for_more_than_a_sketch_inside_hides_warns(stated, sketch):
    sketch.fit(np.eye(4))
    with pytest.warns(PrivacyWarning, match="entry around it"), PrivacyLedger(), entry(stated):
        sketch.transform(np.eye(4))


def test_an_entry_around_a_release_that_is_given_the_labels_warns_or_says_so():
    """The ledger stated for all neighbours what held for those with the same set of labels."""
    stated = AMPClassifier(delta=1e-6, classes=[0, 1]).fit(X200_UNIFORM, Y200_UNIFORM).guarantee_
    with warnings.catch_warnings(record=True) as heard, PrivacyLedger() as ledger:
        warnings.simplefilter("always")
        with entry(stated):
            AMPClassifier(delta=1e-6).fit(X200_UNIFORM, Y200_UNIFORM)
    assert any(issubclass(one.category, PrivacyWarning) for one in heard) or ledger.entries[0].guarantee.given


def test_an_entry_around_a_release_of_more_bits_warns():
    """2 bits were released in an entry of 0.1 bits, without a word."""
    stated = MIDPRegressor(epsilon=0.1).fit(X200_UNIFORM, Y200_UNIFORM).guarantee_
    with PrivacyLedger(), pytest.warns(PrivacyWarning, match="entry around it"), entry(stated):
        MIDPRegressor(epsilon=2.0).fit(X200_UNIFORM, Y200_UNIFORM)


ROWS90 = np.random.default_rng(0).normal(size=(90, 3))


LABELS90 = np.tile([0, 1], 45)


def test_a_ledger_has_what_jobs_release_whatever_runs_them():
    for backend in ("threading", "multiprocessing"):
        model = OneVsRestClassifier(DPSGDClassifier(delta=1e-6, n_epochs=2, classes=[0, 1]), n_jobs=2)
        with joblib.parallel_backend(backend, n_jobs=2), PrivacyLedger() as ledger:
            model.fit(ROWS90, np.arange(90) % 3)
        assert len(ledger.entries) == 3
        assert privacy_report(model, ledger=ledger).total.epsilon == privacy_report(model).total.epsilon


ROW24 = Adjacency("replace_one")


@pytest.mark.filterwarnings("ignore")
def test_blocks_do_not_reach_into_tasks_contexts_and_generators_that_outlive_them():
    """An entry or a part covers what runs while its block is held, and not what only has its context."""

    def _fit():
        private_model().fit(X240, Y240)

    async def _later():
        _fit()

    async def _all(ledger):
        small = PrivacyGuarantee(0.1, 0.0, adjacency=ROW24)
        with ledger.part("a"):
            task, context = asyncio.create_task(_later()), contextvars.copy_context()
        await task
        context.run(_fit)
        with entry(small, "x"):
            task, context = asyncio.create_task(_later()), contextvars.copy_context()
            thread = threading.Thread(target=contextvars.copy_context().run, args=(_fit,))
            thread.start()
            thread.join()
        await task
        context.run(_fit)

    with PrivacyLedger() as ledger:
        asyncio.run(_all(ledger))
    assert [(one.estimator, one.guarantee.epsilon) for one in ledger.entries if one.estimator == "x"] == [("x", 0.1)]
    fits = [one for one in ledger.entries if one.estimator == "AMPClassifier"]
    assert len(fits) == 5 and all(one.rows == () and one.guarantee.epsilon == 1.0 for one in fits)
