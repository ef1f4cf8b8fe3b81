"""Attacks on the ledger: releases without an entry, totals below the truth, limits that are passed, files and locks."""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import math
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextvars import Context
from functools import wraps
from pathlib import Path

import numpy as np
import pytest
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
    PrivacyGuarantee,
    PrivacyLedger,
    transform_chunks,
)
from skdprp import _recording as recording
from skdprp._recording import EntryBlock
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import Adjacency
from skdprp.ledger import Entry, LedgerError, UnrecordedNoiseError, _ledger, entry
from skdprp.ledger._ledger import Rows
from skdprp.ledger._totals import totals
from skdprp.mechanisms import add_gaussian, add_laplace
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon
from skdprp.testing import reproducible_noise

X = np.random.default_rng(0).normal(size=(12, 4))
Y = np.arange(12) % 2
PURE = PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("replace_one"))
REFUSALS = (LedgerError, UnrecordedNoiseError)


def in_a_context_of_its_own(test):
    """Run a test where no other is told which entry it left open."""

    @wraps(test)
    def _test(*args, **known):
        return Context().run(test, *args, **known)

    return _test


def publish(done=None):
    """Release a number, and note that it was released."""
    with entry(PURE):
        add_laplace([1.0], scale=4.0)
    if done is not None:
        done.append(1)


def in_fork(function, *args, seconds=8):
    """Run a function in a forked child, and return its exit status: negative where it had to be killed."""
    process = multiprocessing.get_context("fork").Process(target=function, args=args)
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode


def as_a_fresh_process():
    """Forget in a forked child what a process that starts anew does not know."""
    recording._OWN.clear()
    recording._TOLD.clear()
    _ledger._BOOKS.clear()


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


def publish_once(_):
    with contextlib.suppress(*REFUSALS):
        publish()
        return 1
    return 0


@in_a_context_of_its_own
def test_workers_that_were_forked_inside_of_an_entry_enter_what_they_release_after_it():
    """A forked child has the context of its parent, and keeps it."""
    with PrivacyLedger() as ledger:
        with entry(PURE):
            pool = multiprocessing.get_context("fork").Pool(1)
        with pool:
            done = sum(pool.map(publish_once, range(2)))
        assert len(ledger.entries) >= 1 + done


@in_a_context_of_its_own
def test_a_ledger_that_is_opened_inside_of_an_entry_sees_what_follows():
    """The entry was made before: in another ledger, or in none."""
    done = []
    with entry(PURE), PrivacyLedger() as ledger:
        with contextlib.suppress(*REFUSALS):
            AMPClassifier(epsilon=9.0, classes=[0, 1]).fit(X, Y)
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
            AMPClassifier(epsilon=9.0, classes=[0, 1]).fit(X, Y)
            self.done.append(1)


def test_a_model_that_a_callback_fits_has_an_entry_of_its_own():
    """A limit of 1.0 did not see four fits of epsilon 9 within one of 0.5."""
    estimator = DPSGDClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1], n_epochs=3)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    done = []
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-2)
        estimator.set_callbacks(Fitting(done)).fit(X, Y)
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
    sketch = DPOPORP(4, epsilon=10.0, delta=1e-6).fit(X)
    rows = Hooked(np.zeros((2000, 4)), lambda: sketch.set_params(epsilon=0.01).fit(X))
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
        rows = Hooked(X, lambda: stack.enter_context(reproducible_noise(0)))
        AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1]).fit(rows, Y)


@pytest.mark.parametrize("release", [seeded_by_hand, seeded_inside, seeded_by_rows])
def test_noise_from_a_seed_is_entered_as_such_or_refused(release):
    """A limit counted it as private, and a total said so."""
    with PrivacyLedger() as ledger:
        try:
            release()
        except REFUSALS:
            return
        assert ledger.entries[0].guarantee.seeded


@in_a_context_of_its_own
def test_no_interruption_of_an_entry_hides_the_releases_after_it():
    """A KeyboardInterrupt at each line that enters and leaves."""

    def interrupted(line):
        left = line

        def trace(frame, event, _):
            nonlocal left
            if not frame.f_code.co_filename.endswith("_recording.py"):
                return None
            left -= event == "line"
            if left < 0 and event == "line":
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with recording.EntryBlock(frozenset(), seeded=False, absorbs=True):
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    line = 0
    with PrivacyLedger() as ledger:
        while interrupted(line):
            n_entries = len(ledger.entries)
            publish()
            assert len(ledger.entries) == n_entries + 1, line
            line += 1


# Ledgers that are open, and are not found


def test_an_open_ledger_whose_marker_is_swept_away_is_still_open(monkeypatch, tmp_path):
    """Machines clear directories for what is temporary: every release after that went unrecorded, in the owner, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    done = []
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        shutil.rmtree(tmp_path / "temporary")
        with contextlib.suppress(Exception):
            publish(done)
    assert len(ledger.entries) >= len(done)


def with_closed_files(path):
    with PrivacyLedger(path):
        os.closerange(3, 256)
        with contextlib.suppress(Exception):
            publish()
            os._exit(1)
    os._exit(0)


def test_an_open_ledger_is_open_after_a_daemon_has_closed_all_files(tmp_path):
    """As those that detach from their terminal do: the lock that said that the ledger is open was among them."""
    done = in_fork(with_closed_files, tmp_path / "spent.jsonl")
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) >= done


def leaves_in_a_child(path):
    with contextlib.suppress(SystemExit), PrivacyLedger(path) as ledger:
        child = os.fork()
        if not child:
            raise SystemExit
        os.waitpid(child, 0)
        with contextlib.suppress(Exception):
            publish()
        os._exit(10 + len(ledger.entries))
    os._exit(0)


def test_a_forked_child_that_leaves_the_block_does_not_close_the_ledger_of_its_parent(tmp_path):
    """By sys.exit, for instance: it gave back the lock that both hold, and the parent published without entries."""
    assert in_fork(leaves_in_a_child, tmp_path / "spent.jsonl") == 11


DESCENDANT = """
import sys
from pathlib import Path
from skdprp.mechanisms import add_laplace
from skdprp.ledger import entry, UnrecordedNoiseError
try:
    add_laplace([1.0], scale=4.0)
    Path(sys.argv[1]).write_text("published")
except UnrecordedNoiseError:
    Path(sys.argv[1]).write_text("refused")
"""


def as_process_1(begun):
    if ctypes.CDLL(None).unshare(0x20000000):  # CLONE_NEWPID: the next child is process 1 of its own namespace
        os._exit(77)
    child = os.fork()
    if not child:
        with PrivacyLedger():
            subprocess.run(begun)
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.parametrize("how", ["orphan", "another TMPDIR", "child of process 1"])
def test_descendants_that_start_anew_see_the_ledger(how, tmp_path):
    """Of a shell with `&` that ended; with another place for what is temporary; of the first process of a container."""
    said = tmp_path / "said"
    begun = [sys.executable, "-c", DESCENDANT, said]
    if how == "child of process 1":
        if not sys.platform.startswith("linux") or in_fork(as_process_1, begun, seconds=60) == 77:
            pytest.skip("only root on Linux may begin a namespace")
    else:
        with PrivacyLedger():
            if how == "orphan":
                subprocess.run(["sh", "-c", '"$@" &', "sh", *begun], check=True)
            else:
                subprocess.run(begun, env=os.environ | {"TMPDIR": str(tmp_path)}, check=True)
            deadline = time.monotonic() + 60
            while not (said.exists() and said.read_text()):
                assert time.monotonic() < deadline
                time.sleep(0.02)
    assert said.read_text() == "refused"


def publish_as_a_fresh_process():
    as_a_fresh_process()
    try:
        publish()
    except (*REFUSALS, OSError, ValueError):
        os._exit(0)
    os._exit(1)


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "a\nb", " a ", "\udcff"])
def test_any_name_of_a_file_reaches_the_descendants(name, tmp_path):
    """Carriage returns became newlines on the way, and the entries went into another file."""
    with PrivacyLedger(tmp_path / name) as ledger:
        done = in_fork(publish_as_a_fresh_process)
        assert len(ledger.entries) >= done
    assert len(os.listdir(tmp_path)) == 1


def test_a_file_that_is_moved_away_is_not_begun_anew_without_its_limit(tmp_path):
    """A worker that had not read it before made a new file at its place, in which there was no limit."""
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        ledger.limit(0.1)
        path.rename(tmp_path / "moved")
        assert in_fork(publish_as_a_fresh_process) == 0
        (tmp_path / "moved").replace(path)


def test_another_user_cannot_say_which_ledgers_are_open():
    """Whoever made the directory of the markers first had releases written where they liked."""
    if os.geteuid():
        pytest.skip("only root can be two others")
    place = Path(tempfile.mkdtemp())
    place.chmod(0o777)
    markers = place / "skdprp-open-65534"
    markers.mkdir(mode=0o755)
    journal = place / "told"
    journal.write_bytes(b'{"skdprp ledger": 1}\n')
    journal.chmod(0o666)
    name = "-".join(recording._process(os.getpid()))
    (markers / f"{name}-x").symlink_to(f"{journal.stat().st_dev} {journal.stat().st_ino} {journal}")

    def victim():
        as_a_fresh_process()
        os.setuid(65534)
        recording._directories = lambda: {str(markers)}
        with contextlib.suppress(Exception):
            publish()
        os._exit(0)

    said = []
    for owner in (1234, 65534):
        os.chown(markers, owner, owner)
        assert in_fork(victim) == 0
        said.append(len(journal.read_bytes().splitlines()) - 1)
    shutil.rmtree(place)
    assert said == [0, 1]


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
    guarantee = PrivacyGuarantee(**{"epsilon": 0.5, "delta": 0.0, "adjacency": PURE.adjacency} | more)
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        try:
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


# Locks


def read_by_a_signal(path):
    signal.alarm(5)
    with PrivacyLedger(path) as ledger:
        signal.signal(signal.SIGUSR1, lambda *_: len(ledger.entries))
        written = os.fsync
        os.fsync = lambda descriptor: (written(descriptor), signal.raise_signal(signal.SIGUSR1))
        publish()
    os._exit(0)


def test_a_handler_of_a_signal_may_read_the_ledger(tmp_path):
    """One that shows the total from time to time waited for the lock of the entry that it had interrupted."""
    assert in_fork(read_by_a_signal, tmp_path / "spent.jsonl") == 0


def opened_by_a_signal(path):
    signal.alarm(5)
    refused = []

    def open_again(*_):
        with contextlib.suppress(LedgerError), PrivacyLedger(path):
            os._exit(1)
        refused.append(1)

    with PrivacyLedger(path):
        signal.signal(signal.SIGUSR1, open_again)
        written = os.fsync
        os.fsync = lambda descriptor: (written(descriptor), signal.raise_signal(signal.SIGUSR1))
        publish()
    os._exit(0 if refused else 2)


def test_a_handler_of_a_signal_waits_for_no_lock_of_what_it_interrupts(tmp_path):
    """It opened the ledger into which an entry was being written."""
    assert in_fork(opened_by_a_signal, tmp_path / "spent.jsonl") == 0


def forks_while_a_thread_writes(path):
    writing, written, wait = threading.Event(), os.fsync, threading.Event()

    def slow(descriptor):
        if threading.current_thread() is not threading.main_thread():
            writing.set()
            wait.wait(2)
        written(descriptor)

    with PrivacyLedger(path):
        os.fsync = slow
        thread = threading.Thread(target=publish)
        thread.start()
        writing.wait()
        child = os.fork()
        if not child:
            signal.alarm(4)
            publish()
            os._exit(0)
        wait.set()
        thread.join()
        os._exit(os.waitpid(child, 0)[1])


def test_a_fork_while_a_thread_writes_an_entry_leaves_no_lock_behind(tmp_path):
    """The child held the lock of its parent's thread, and waited for itself."""
    assert in_fork(forks_while_a_thread_writes, tmp_path / "spent.jsonl") == 0


# Totals


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


# What changes around a ledger


def closes_and_opens_files(path):
    with PrivacyLedger(path):
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os.closerange(3, 256)
        while os.open(os.devnull, os.O_RDWR) < 32:
            pass
        with contextlib.suppress(Exception):
            publish()
            os._exit(1)
        os._exit(0)


def test_a_daemon_in_whose_files_numbers_are_used_again_enters_its_releases(tmp_path):
    """It forks, closes all files and opens /dev/null, at the number where it looked whether the ledger is closed."""
    done = in_fork(closes_and_opens_files, tmp_path / "spent.jsonl")
    assert done in (0, 1)
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) >= done


def begins_others_with_closed_files(path):
    with PrivacyLedger(path):
        os.closerange(3, 256)
        child = os.fork()
        if not child:
            publish_as_a_fresh_process()
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def test_a_ledger_is_open_to_descendants_of_a_daemon_that_has_closed_all_files(tmp_path):
    """With them went the lock, and who started after that was told of a ledger that looked closed."""
    done = in_fork(begins_others_with_closed_files, tmp_path / "spent.jsonl")
    assert done in (0, 1)
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) >= done


def as_another_user(estimator):
    os.setuid(65534)
    return pickle.loads(estimator)


def without_files(estimator):
    recording._lineage = lambda pid, parent: ()  # no child of the owner of the ledger
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most[1]))
    estimator = pickle.loads(estimator)
    resource.setrlimit(resource.RLIMIT_NOFILE, most)
    return estimator


@pytest.mark.parametrize("received", [as_another_user, without_files])
def test_a_marker_that_cannot_be_opened_is_of_a_ledger_that_may_be_open(received, tmp_path):
    """By a worker of another user of the machine, and by one that has too many files open when it gets an estimator."""
    if os.getuid() and received is as_another_user:
        pytest.skip("only root can become another user")
    fork = multiprocessing.get_context("fork")
    there, here = fork.Pipe()

    def worker():
        pickled = there.recv()
        as_a_fresh_process()
        estimator = received(pickled)
        with contextlib.suppress(Exception):
            estimator.fit(X, Y)
            os._exit(1)
        os._exit(0)

    process = fork.Process(target=worker)
    process.start()
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        here.send(pickle.dumps(AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1])))
        process.join()
        assert process.exitcode in (0, 1)
        assert len(ledger.entries) >= process.exitcode


def test_a_process_that_loses_its_parent_still_belongs_to_those_before(tmp_path):
    """A server that a shell had started in the background, and which had released something before the shell ended."""
    fork = multiprocessing.get_context("fork")
    begun, orphaned, go, done = fork.Event(), fork.Event(), fork.Event(), fork.Queue()

    def parent():
        if os.fork():
            begun.wait(20)
            os._exit(0)
        shell = os.getppid()
        publish()
        begun.set()
        while os.getppid() == shell:
            time.sleep(0.01)
        orphaned.set()
        go.wait(20)
        done.put(publish_once(None))
        done.close()
        done.join_thread()
        os._exit(0)

    process = fork.Process(target=parent)
    process.start()
    process.join()
    orphaned.wait(20)
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        go.set()
        n_released = done.get(timeout=20)
        assert len(ledger.entries) >= n_released


def opens_for_an_orphan(path):
    """Have a child begin another process and end, and open a ledger then."""
    fork = multiprocessing.get_context("fork")
    go, done = fork.Event(), fork.Queue()
    child = os.fork()
    if not child:
        child = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == child:
            time.sleep(0.01)
        go.wait(20)
        done.put(publish_once(None))
        done.close()
        done.join_thread()
        os._exit(0)
    os.waitpid(child, 0)
    with PrivacyLedger(path) as ledger:
        go.set()
        n_released = done.get(timeout=20)
        os._exit(n_released - len(ledger.entries))


def test_forked_processes_see_their_ancestors_at_once(tmp_path):
    """Nobody in between had released anything, or looked whether a ledger is open."""
    assert in_fork(opens_for_an_orphan, tmp_path / "spent.jsonl", seconds=30) == 0


def test_what_lies_where_anybody_could_have_put_it_is_neither_believed_nor_passed_over(tmp_path):
    markers = tmp_path / f"skdprp-open-{os.geteuid() + 1}"
    markers.mkdir()
    marker = markers / "marker"
    marker.symlink_to("1 1 /tmp/nowhere")
    recording.adopt([str(marker)])
    with pytest.raises(UnrecordedNoiseError, match="where anybody could"):
        publish()
    marker.unlink()
    publish()
    assert not recording._TOLD


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nobody tells when a process began")
def test_a_process_is_not_its_id():
    """Ids are given again; when a process began is not, unless nobody can tell, or ask."""
    namespace, pid, began = recording._process(os.getpid())
    assert began != "0"
    assert recording._lives((namespace, pid, began))
    assert not recording._lives((namespace, pid, "1"))
    assert recording._lives((namespace, pid, "0"))
    assert recording._lives(("another", pid, "1"))


def killed_in_the_block(path):
    with PrivacyLedger():
        path.write_text(*recording._OWN)
        os.kill(os.getpid(), signal.SIGKILL)


def test_markers_of_owners_that_were_killed_are_swept_by_who_opens_next(tmp_path):
    assert in_fork(killed_in_the_block, tmp_path / "marker") == -signal.SIGKILL
    with PrivacyLedger():
        assert not os.path.islink((tmp_path / "marker").read_text())


def test_a_directory_that_has_just_changed_may_change_again_unseen(monkeypatch, tmp_path):
    """Within one step of the clock of its file system: two ledgers opened, and somebody looked in between."""
    monkeypatch.setattr(recording, "_directories", lambda: {str(tmp_path)})
    os.utime(tmp_path, (1, 1))
    assert recording._stamp() == recording._stamp()
    later = time.time() + 1000
    os.utime(tmp_path, (later, later))
    assert recording._stamp() != recording._stamp()


def test_noise_of_an_entry_that_is_older_than_the_ledger_of_another_process_is_refused():
    """A worker was within an entry, or a long fit, when its parent opened a ledger: in threads that is refused."""
    fork = multiprocessing.get_context("fork")
    ready, go, done = fork.Event(), fork.Event(), fork.Queue()

    def worker():
        with entry(PURE):
            ready.set()
            go.wait(20)
            with contextlib.suppress(*REFUSALS):
                add_laplace([1.0], scale=4.0)
                done.put(1)
        done.put(0)

    process = fork.Process(target=worker)
    process.start()
    ready.wait(20)
    with PrivacyLedger() as ledger:
        go.set()
        n_released = done.get(timeout=20)
        assert len(ledger.entries) >= n_released
    process.join()


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


# Interruptions


def publish_with(act, line):
    """Publish, with something done before one line of the journal, and return how many lines there were."""
    n_lines = 0

    def trace(frame, event, _):
        nonlocal n_lines
        if not frame.f_code.co_filename.endswith("_journal.py"):
            return None
        n_lines += event == "line"
        if n_lines == line and event == "line":
            act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        publish()
    except (KeyboardInterrupt, *REFUSALS):
        pass
    finally:
        sys.settrace(before)
    return n_lines


def interrupt():
    raise KeyboardInterrupt


def is_undisturbed(path, how):
    signal.alarm(20)  # ends who waits for themselves
    with PrivacyLedger(path) as ledger:
        acts = {"interrupt": interrupt, "read": lambda: ledger.entries, "look": lambda: PrivacyLedger(path).entries}
        for line in range(publish_with(None, line=0)):
            publish_with(acts[how], line + 1)
            publish()
            assert len(ledger.entries) == len(path.read_bytes().splitlines()) - 1
    os._exit(0)


@pytest.mark.parametrize("how", ["interrupt", "read", "look"])
def test_no_signal_between_two_lines_of_a_journal_locks_it_or_counts_twice(how, tmp_path):
    """The lock was kept for good, or the thread was taken for one that holds it, and read no more of the file."""
    assert in_fork(is_undisturbed, tmp_path / "spent.jsonl", how, seconds=30) == 0


class Handler:
    """What signals call, in several forms."""

    def __init__(self, done):
        self.done = done

    def count_all(self, *_):
        """Publish."""
        with contextlib.suppress(*REFUSALS):
            publish(self.done)

    def with_names(self, number, *, frame):
        """Publish."""
        self.count_all()

    def __call__(self, number, frame):
        """Publish."""
        self.count_all()


FORMS = {
    "method": lambda handler: handler.count_all,
    "object": lambda handler: handler,
    "lambda": lambda handler: lambda number, frame: handler.with_names(number, frame=frame),
}


def handles_a_signal(path, form):
    done = []
    signal.signal(signal.SIGUSR1, FORMS[form](Handler(done)))
    with PrivacyLedger(path) as ledger:
        with entry(PURE):
            done.append(1)
            signal.raise_signal(signal.SIGUSR1)
        os._exit(max(0, len(done) - len(ledger.entries)))


@pytest.mark.parametrize("form", FORMS)
def test_a_handler_of_a_signal_does_not_publish_for_the_entry_that_it_interrupts(form, tmp_path):
    """One that releases a count every hour had no entry of its own where a longer release was under way."""
    assert in_fork(handles_a_signal, tmp_path / "spent.jsonl", form) == 0


def opens_interrupted(line):
    """Open and close a ledger, interrupted before one line that does so, and return whether there was one."""
    n_lines = 0

    def trace(frame, event, _):
        nonlocal n_lines
        if not frame.f_code.co_filename.endswith("_recording.py"):
            return None
        n_lines += event == "line"
        if n_lines == line and event == "line":
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        with PrivacyLedger():
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return n_lines >= line


def is_open_everywhere_or_nowhere(folder):
    tempfile.tempdir = str(folder)  # an interrupted ledger leaves its file
    line = 1
    while opens_interrupted(line):
        publish()
        mine = "-".join(recording._process(os.getpid()))
        with contextlib.suppress(FileNotFoundError):
            names = {name for name in os.listdir(recording._markers()) if name.startswith(mine)}
            assert names == {os.path.basename(marker) for marker in recording._OWN}, line
        for marker in list(recording._OWN):
            recording._unmark(marker)
        assert recording._told() == [], line
        line += 1
    os._exit(0 if line > 20 else 2)


def test_no_interruption_of_opening_or_closing_a_ledger_refuses_what_follows(tmp_path):
    """It was closed in one place and open in another, without a file: nothing was released any more."""
    assert in_fork(is_open_everywhere_or_nowhere, tmp_path, seconds=20) == 0


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
    assert set(recording._told()) == set(recording._OWN), line
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


def test_the_name_of_a_new_ledger_is_on_the_disk_before_a_release(monkeypatch, tmp_path):
    """A crash of the machine left entries in a file without a name."""
    written, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (written.append(os.fstat(file).st_ino), fsync(file)))
    with PrivacyLedger(tmp_path / "spent.jsonl"):
        assert written == [(tmp_path / "spent.jsonl").stat().st_ino, tmp_path.stat().st_ino]


# What is not released, and what cannot be


def test_what_one_ledger_refuses_is_entered_into_none(tmp_path):
    """It was entered into those that were asked before, whose limits were spent on nothing."""
    with contextlib.ExitStack() as stack:
        ledgers = [stack.enter_context(PrivacyLedger(tmp_path / str(number))) for number in range(12)]
        ledgers[5].limit(0.1)
        with pytest.raises(LedgerError):
            publish()
        assert [len(ledger.entries) for ledger in ledgers] == [0] * 12


def test_a_limit_that_no_float_is_small_enough_for_admits_nothing():
    """The search for the noise ended at 2^60, whose total variation is 3.5e-19, and took that for enough."""
    with PrivacyLedger() as ledger:
        ledger.limit(0.0, 1e-60, composition="gaussian")
        with pytest.raises(LedgerError), entry(PrivacyGuarantee(1e-19, 0.0, adjacency=PURE.adjacency)):
            pass


@pytest.mark.parametrize("name", [["count"], {"count": 1}])
def test_a_name_of_a_release_that_cannot_be_counted_is_refused_before_the_release(name):
    """No total could be printed from then on."""
    with PrivacyLedger() as ledger:
        with contextlib.suppress(TypeError, ValueError, LedgerError), entry(PURE, name):
            pass
        ledger.total()


# Who is not seen, and what is lost


def publishes_as_another_user(ready, go, done):
    os.setuid(65534)
    ready.set()
    go.wait(20)
    done.put(publish_once(None))
    done.close()
    done.join_thread()
    os._exit(0)


def test_a_descendant_that_is_another_user_by_now_makes_no_release_without_an_entry(tmp_path):
    """A service that drops its privileges, or `sudo`: it looked for the markers of its own user only.

    It was not told of the ledger, for it is older, or its environment was cleared. Those that were told are refused.
    """
    if os.geteuid():
        pytest.skip("only root can become another user")
    fork = multiprocessing.get_context("fork")
    ready, go, done = fork.Event(), fork.Event(), fork.Queue()
    process = fork.Process(target=publishes_as_another_user, args=(ready, go, done))
    process.start()
    ready.wait(20)
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        go.set()
        n_released = done.get(timeout=20)
        assert len(ledger.entries) >= n_released
    process.join()


def leaves_with(act, line, *, code=""):
    """Leave a block with something done before one line of that; return the ledger, and whether there was such a line.

    Counted are lines of the ledger and its journal, or of functions of one name.
    """
    n_lines = 0

    def trace(frame, event, _):
        nonlocal n_lines
        if not frame.f_code.co_filename.endswith(("_ledger.py", "_journal.py")):
            return None
        n_lines += event == "line" and frame.f_code.co_name.startswith(code)
        if n_lines == line and event == "line":
            n_lines += 1
            act()
        return trace

    ledger, before = PrivacyLedger(), sys.gettrace()
    try:
        with ledger:
            publish()
            sys.settrace(trace)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return ledger, n_lines > line


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


def leaves_interrupted():
    line, is_reached = 1, True
    while is_reached:
        ledger, is_reached = leaves_with(interrupt, line)
        with contextlib.suppress(LedgerError):
            assert len(ledger.entries) == 1, line
        line += 1
    os._exit(0 if line > 10 else 2)


def test_no_interruption_of_leaving_a_block_makes_its_releases_none():
    """By Ctrl+C a second time: "Nothing was released.", said the ledger, and its file was removed."""
    assert in_fork(leaves_interrupted, seconds=20) == 0


@pytest.mark.parametrize("how", ["swept away", "in a fork"])
def test_a_ledger_that_cannot_know_does_not_say_that_nothing_was_released(how, monkeypatch, tmp_path):
    """Its file was removed as too old by what clears /tmp, or its block was left by another process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fork = multiprocessing.get_context("fork")
    left, said, ledger = fork.Event(), fork.Queue(), PrivacyLedger()

    def looks():
        left.wait(20)
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
        assert said.get(timeout=20) == 1
    else:
        with contextlib.suppress(LedgerError):
            assert len(ledger.entries) == 1
    process.join()


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
        ledger.limit(1.0)
        with contextlib.suppress(LedgerError):
            with entry(PURE, "count"), entry(more, "sum"):
                add_laplace([1.0], scale=0.2)
            assert ledger.total()[0].adaptive.epsilon == 5.5


# Files and locks of others


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


def ends_while_a_thread_writes(path, end):
    writing = threading.Event()
    with PrivacyLedger(path):
        os.fsync = lambda _: (writing.set(), time.sleep(60))
        threading.Thread(target=publish, daemon=True).start()
        writing.wait()
        if not os.fork():
            end.wait(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


def opens_soon(path):
    with PrivacyLedger(path):
        os._exit(0)


def test_a_lock_ends_with_the_process_that_took_it(tmp_path):
    """One that was killed while a thread wrote: a child forked meanwhile held the lock, for as long as it lived."""
    path, end = tmp_path / "spent.jsonl", multiprocessing.get_context("fork").Event()
    if not (owner := os.fork()):
        ends_while_a_thread_writes(path, end)
    os.waitpid(owner, 0)
    opened = in_fork(opens_soon, path, seconds=1)
    end.set()
    assert opened == 0


def test_no_exclusive_lock_is_asked_for_where_a_file_is_only_read(monkeypatch, tmp_path):
    """NFS has none of such: no ledger could be opened in a home directory of a cluster."""
    lock = fcntl.flock

    def as_on_nfs(descriptor, operation):
        is_read_only = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if operation & fcntl.LOCK_EX and is_read_only:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", as_on_nfs)
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        publish()
        assert len(ledger.entries) == 1


# Blocks that go on without the process that began them, and what else the ledger did not see or add up


def goes_on_without_its_parent(path, how, done):
    with contextlib.suppress(Exception), PrivacyLedger(path):
        parent = os.getpid()
        if os.fork():
            os._exit(0) if how == "ends" else os.kill(parent, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            while not os.kill(parent, 0):  # until it is no zombie any more, either
                time.sleep(0.01)
        released = sum(publish_once(None) for _ in range(3))
        done.put(released)
        done.close()
        done.join_thread()
    os._exit(0)


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_a_block_that_goes_on_in_a_forked_child_enters_what_is_released_in_it(how, tmp_path):
    """A daemon forks inside of the block, and its parent ends: nothing was entered any more, and no limit held."""
    done = multiprocessing.get_context("fork").Queue()
    if not (owner := os.fork()):
        goes_on_without_its_parent(tmp_path / "spent.jsonl", how, done)
    os.waitpid(owner, 0)
    released = done.get(timeout=20)
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) >= released


def leaves_without_its_parent(path, done):
    with PrivacyLedger(path) as ledger:
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:
            time.sleep(0.01)
        publish()
    publish()  # outside of any block
    done.put(len(ledger.entries))
    done.close()
    done.join_thread()
    os._exit(0)


def test_a_forked_child_whose_parent_has_ended_leaves_the_block_for_good(tmp_path):
    """What it publishes after that is no concern of the ledger."""
    done = multiprocessing.get_context("fork").Queue()
    if not (owner := os.fork()):
        leaves_without_its_parent(tmp_path / "spent.jsonl", done)
    os.waitpid(owner, 0)
    assert done.get(timeout=20) == 1


def begins_another_in_a_fork(path, how, said, go):
    if not (owner := os.fork()):
        with PrivacyLedger(path):
            if not os.fork():
                go.wait(60)
                subprocess.run([sys.executable, "-c", DESCENDANT, said])
                os._exit(0)
            if how == "ends":
                os._exit(0)
        os._exit(0)
    os.waitpid(owner, 0)
    go.set()


@pytest.mark.parametrize(("how", "expected"), [("ends", "refused"), ("leaves", "published")])
def test_what_a_forked_child_begins_sees_the_ledgers_that_are_open_to_the_child(how, expected, tmp_path):
    """Its parent ended inside of the block, so that it goes on in the child, or left it."""
    said, go = tmp_path / "said", multiprocessing.get_context("fork").Event()
    begins_another_in_a_fork(tmp_path / "spent.jsonl", how, said, go)
    deadline = time.monotonic() + 60
    while not (said.exists() and said.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert said.read_text() == expected


def publishes_with_another_tmp(begins):
    libc = ctypes.CDLL(None)
    is_refused = libc.unshare(0x00020000)  # CLONE_NEWNS, and then mounts that nobody else sees
    is_refused |= libc.mount(b"none", b"/", None, 0x44000, None)
    if is_refused | libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None):
        os._exit(77)
    begins()
    with contextlib.suppress(*REFUSALS):
        publish()
        os._exit(1)
    os._exit(0)


def is_told():
    as_a_fresh_process()
    recording._TOLD.update(recording._told())


@pytest.mark.parametrize("begins", [int, is_told])
def test_a_descendant_with_another_tmp_makes_no_release_without_an_entry(begins, tmp_path):
    """A sandbox with a /tmp of its own: a marker that cannot be seen there was taken for that of a closed ledger."""
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        done = in_fork(publishes_with_another_tmp, begins) if sys.platform.startswith("linux") else 77
        if done == 77:
            pytest.skip("only root on Linux may mount")
        assert done in (0, 1)
        assert len(ledger.entries) >= done


def test_a_ledger_that_is_opened_again_in_another_working_directory_has_the_same_limit(monkeypatch, tmp_path):
    """Its path was looked up again at each `with`: it went on in another file, in which there was no limit."""
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger, released = PrivacyLedger("spent.jsonl"), 0
    with ledger:
        ledger.limit(1.0)
        released += publish_once(None)
    monkeypatch.chdir(tmp_path / "results")
    with ledger:
        released += sum(publish_once(None) for _ in range(3))
    assert 0.5 * released <= 1.0
    assert len(ledger.entries) == released


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
        with ledger.part(year):
            NoisySums().transform(np.ones((1, 1)))


@pytest.mark.parametrize("release", [visits_in_chunks, visits_in_parts])
def test_disjoint_rows_are_not_disjoint_patients(release):
    """Ten visits of one patient, in a release of 0.5 each: the total was 0.5, and assumed disjoint rows only."""
    with PrivacyLedger() as ledger:
        release(ledger)
    total = ledger.total()[0].guarantee
    assert total is None or total.epsilon >= 5.0 or any("patient" in assumed for assumed in total.assumptions)


def test_a_damaged_line_stops_releases_of_a_ledger_without_a_limit(tmp_path):
    """Only the first line was looked at before a release: what could not be counted any more was published."""
    with PrivacyLedger(tmp_path / "spent.jsonl"):
        publish()
        with (tmp_path / "spent.jsonl").open("a") as file:
            file.write("not an entry\n")
        with pytest.raises(LedgerError, match="Line 3"):
            publish()


def test_a_handler_that_reads_without_the_lock_hides_no_line_from_other_threads(monkeypatch, tmp_path):
    """It had read nothing new, and took back a line that another thread had read since: the limit was passed.

    The main thread waits for the lock, which a process has that appends; a handler of a signal reads meanwhile.
    """
    fork, lock, read = multiprocessing.get_context("fork"), fcntl.flock, os.pread
    go, has_read, looked, state = fork.Event(), threading.Event(), threading.Event(), {"is": "before"}

    def in_another_process():
        go.wait(20)
        publish()

    def before_the_limit_is_checked(frame, event, _):
        if frame.f_code is _ledger._Book._check.__code__:
            has_read.set()
            looked.wait(20)
            sys.settrace(None)

    def second_thread():
        sys.settrace(before_the_limit_is_checked)
        publish_once(None)

    def interrupted(descriptor, operation):
        if state["is"] == "waiting":
            state["is"] = "looking"
            _ = ledger.entries  # as the handler does
            looked.set()
            thread.join()
        lock(descriptor, operation)

    def slow(*args):
        text = read(*args)
        if state["is"] == "looking" and threading.current_thread() is threading.main_thread() and not text:
            state["is"] = "after"
            go.set()
            process.join()
            thread.start()
            has_read.wait(20)
        return text

    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        ledger.limit(1.0)
        publish()
        assert len(ledger.entries) == 1
        process, thread = fork.Process(target=in_another_process), threading.Thread(target=second_thread)
        process.start()
        monkeypatch.setattr(fcntl, "flock", interrupted)
        monkeypatch.setattr(os, "pread", slow)
        state["is"] = "waiting"
        publish_once(None)
        assert state["is"] == "after"
        assert ledger.total()[0].adaptive.epsilon <= 1.0


def test_a_limit_that_rounding_makes_infinite_is_a_limit():
    """Room for rounding took the largest numbers to infinity."""
    large = PrivacyGuarantee(1.7e308, 0.0, adjacency=Adjacency("replace_one"))
    with PrivacyLedger() as ledger:
        ledger.limit(sys.float_info.max)
        with entry(large):
            pass
        with pytest.raises(LedgerError), entry(large):
            pass


@pytest.mark.parametrize("add", [add_gaussian, add_laplace])
def test_a_value_without_noise_is_no_release_without_an_entry(add):
    """A scale of 0 drew nothing, so that nobody asked which ledgers are open, and returned the value as it is."""
    with PrivacyLedger(), pytest.raises((UnrecordedNoiseError, ValueError)):
        add([42.0], scale=0.0)


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
                with ledger.part(part), entry(PrivacyGuarantee(epsilon, 1e-6, adjacency=Adjacency("replace_one"))):
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
    for _ in range(40):
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


# Blocks that are left by whoever opened them while others are in them, and ledgers that threads share


def becomes_a_daemon(path, who, done):
    with PrivacyLedger(path) as ledger:
        ledger.limit(1.0)
        owner = os.getpid()
        if os.fork():
            sys.exit(0) if who == "owner" else os._exit(0)
        os.setsid()
        if os.fork():
            sys.exit(0)
        with contextlib.suppress(ProcessLookupError):
            while not os.kill(owner, 0):
                time.sleep(0.01)
        done.put(sum(publish_once(None) for _ in range(3)))
        done.close()
        done.join_thread()
        os._exit(0)


@pytest.mark.parametrize("who", ["owner", "child"])
def test_a_daemon_whose_parents_leave_by_sys_exit_enters_its_releases(who, tmp_path):
    """The usual recipe of two forks: `sys.exit` unwinds the block of the owner, which closed it for the daemon, too."""
    done = multiprocessing.get_context("fork").Queue()
    if not (owner := os.fork()):
        try:
            becomes_a_daemon(tmp_path / "spent.jsonl", who, done)
        finally:  # not into what runs the tests
            os._exit(0)
    os.waitpid(owner, 0)
    released = done.get(timeout=20)
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) >= released


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


def test_estimators_of_closed_ledgers_leave_nothing_in_the_environment():
    """Whoever loaded the models of 1,400 runs could begin no process any more: the list of ledgers was too long."""
    model = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1])
    with PrivacyLedger():
        pickled = pickle.dumps(model)
    try:
        pickle.loads(pickled)
        assert not recording._told()
    finally:
        recording.open_journals()
        recording._tell()


# Blocks that are entered again, and publishers of many parts


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
            yield from [X] * 8

    transform_chunks(DPOPORP(2, random_state=0).fit(X), chunks(), n_jobs=2)


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


def publish_again(block):
    with block:
        publish()


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
    assert in_fork(leave_and_publish_again, leave, of_rows, seconds=4) == 0


def job_of_a_worker(_):
    try:
        publish()
    except REFUSALS as error:
        return str(error)
    return "released"


def test_a_worker_outlives_a_ledger_without_a_path_that_was_left_by_an_error():
    """A limit ends its block by an error. The file was removed, and each later release of the worker was refused."""
    ledger = PrivacyLedger()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(LedgerError), ledger:
            ledger.limit(1.0)
            pool = stack.enter_context(multiprocessing.get_context("fork").Pool(1))
            assert pool.map(job_of_a_worker, [0]) == ["released"]
            raise LedgerError
        with PrivacyLedger() as later:
            answers = pool.map(job_of_a_worker, [0])
            assert answers == ["released"]
            assert (len(ledger.entries), len(later.entries)) == (2, 1)
        os.unlink(ledger._identity[0])


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
            AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1]).fit(X, Y)
            with pytest.raises(UnrecordedNoiseError):
                add_laplace([1.0], scale=4.0)
            refused.append(place)
            yield (X, Y) if has_targets else X

    with PrivacyLedger() as ledger:
        model.fit_chunks(chunks())
    assert refused == [0, 1]
    assert [released.estimator for released in ledger.entries] == ["AMPClassifier"] * 2 + [type(model).__name__]


def search(*steps):
    model = make_pipeline(*steps, AMPClassifier(max_norm=1.0, classes=[0, 1]))
    grid = {"ampclassifier__max_norm": [1.0, 2.0]}
    return DPSearchCV(model, grid, n_trials=5, epsilon=2.0, delta=1e-5, classes=[0, 1])


def test_a_ledger_does_not_tell_how_many_trials_a_search_has_run():
    """Steps side by side that ask for threads of their own, and draw noise there, are part of the one entry."""
    rows, labels = np.tile(X, (10, 1)), np.tile(Y, 10)
    with PrivacyLedger() as ledger:
        search(make_union(DPPCA(1), DPPCA(2), n_jobs=2)).fit(rows, labels)
    assert [released.estimator for released in ledger.entries] == ["DPSearchCV"]


@pytest.mark.parametrize("n_calls", range(1, 9))
def test_a_search_is_entered_as_a_whole_or_refused_where_a_ledger_is_opened_meanwhile(n_calls):
    """A step opens one at one of its calls: before the entry, or in one of the trials, each of which draws noise."""
    rows, labels, calls = np.tile(X, (10, 1)), np.tile(Y, 10), []
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
