"""Attacks on the ledger by other processes: forks, daemons, descendants, other users, signals, interruptions, locks."""

import contextlib
import ctypes
import errno
import fcntl
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from attacks import (
    PURE,
    REFUSALS,
    X12_4,
    Y12,
    as_a_fresh_process,
    in_a_context_of_its_own,
    in_fork,
    leaves_with,
    publish,
    publish_as_a_fresh_process,
    publish_once,
)

from skdprp import AMPClassifier, PrivacyLedger
from skdprp import _open_ledgers as open_ledgers
from skdprp._recording import EntryBlock
from skdprp.ledger import LedgerError, UnrecordedNoiseError, _ledger, entry
from skdprp.mechanisms import add_laplace

DESCENDANT = """
import sys
from pathlib import Path
sys.modules["pandas"] = None  # which scikit-learn would import
from skdprp.mechanisms import add_laplace
from skdprp.ledger import entry, UnrecordedNoiseError
try:
    add_laplace([1.0], scale=4.0)
    Path(sys.argv[1]).write_text("published")
except UnrecordedNoiseError:
    Path(sys.argv[1]).write_text("refused")
"""


@pytest.fixture(autouse=True)
def no_file_stays(monkeypatch, tmp_path_factory):
    """Processes that are killed leave the file of a ledger in memory behind."""
    tmp_path_factory.getbasetemp()  # elsewhere, as it stays
    with tempfile.TemporaryDirectory(prefix="t") as folder:  # whose name is short: names of sockets have to be
        os.chmod(folder, 0o1777)  # as that of all users is
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


# Workers and forks


@in_a_context_of_its_own
def test_workers_that_were_forked_inside_of_an_entry_enter_what_they_release_after_it():
    """A forked child has the context of its parent, and keeps it."""
    with PrivacyLedger() as ledger:
        with entry(PURE):
            pool = multiprocessing.get_context("fork").Pool(1)
        with pool:
            done = sum(pool.map(publish_once, range(2)))
        assert len(ledger.entries) >= 1 + done


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
            signal.alarm(60)
            publish()
            os._exit(0)
        wait.set()
        thread.join()
        os._exit(os.waitpid(child, 0)[1])


def test_a_fork_while_a_thread_writes_an_entry_leaves_no_lock_behind(tmp_path):
    """The child held the lock of its parent's thread, and waited for itself."""
    assert in_fork(forks_while_a_thread_writes, tmp_path / "spent.jsonl") == 0


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
        go.wait(100)
        done.put(publish_once(None))
        done.close()
        done.join_thread()
        os._exit(0)
    os.waitpid(child, 0)
    with PrivacyLedger(path) as ledger:
        go.set()
        n_released = done.get(timeout=100)
        os._exit(n_released - len(ledger.entries))


def test_forked_processes_see_their_ancestors_at_once(tmp_path):
    """Nobody in between had released anything, or looked whether a ledger is open."""
    assert in_fork(opens_for_an_orphan, tmp_path / "spent.jsonl") == 0


def test_noise_of_an_entry_that_is_older_than_the_ledger_of_another_process_is_refused():
    """A worker was within an entry, or a long fit, when its parent opened a ledger: in threads that is refused."""
    fork = multiprocessing.get_context("fork")
    ready, go, done = fork.Event(), fork.Event(), fork.Queue()

    def worker():
        with entry(PURE):
            ready.set()
            go.wait(100)
            with contextlib.suppress(*REFUSALS):
                add_laplace([1.0], scale=4.0)
                done.put(1)
        done.put(0)

    process = fork.Process(target=worker)
    process.start()
    ready.wait(100)
    with PrivacyLedger() as ledger:
        go.set()
        n_released = done.get(timeout=100)
        assert len(ledger.entries) >= n_released
    process.join()


def ends_while_a_thread_writes(path, end):
    writing = threading.Event()
    with PrivacyLedger(path):
        os.fsync = lambda _: (writing.set(), time.sleep(60))
        threading.Thread(target=publish, daemon=True).start()
        writing.wait()
        if not os.fork():
            end.wait(100)
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
    opened = in_fork(opens_soon, path, seconds=30)
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
    released = done.get(timeout=100)
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
    assert done.get(timeout=100) == 1


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


def becomes_a_daemon(path, who, done):
    with PrivacyLedger(path) as ledger:
        ledger.limit(1.0, delta=0.0)
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
    released = done.get(timeout=100)
    assert len(PrivacyLedger(tmp_path / "spent.jsonl").entries) >= released


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
            ledger.limit(1.0, delta=0.0)
            pool = stack.enter_context(multiprocessing.get_context("fork").Pool(1))
            assert pool.map(job_of_a_worker, [0]) == ["released"]
            raise LedgerError
        with PrivacyLedger() as later:
            answers = pool.map(job_of_a_worker, [0])
            assert answers == ["released"]
            assert (len(ledger.entries), len(later.entries)) == (2, 1)
        os.unlink(ledger._identity[0])


# Descendants


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
        if not sys.platform.startswith("linux") or in_fork(as_process_1, begun) == 77:
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


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "a\nb", " a ", "\udcff"])
def test_any_name_of_a_file_reaches_the_descendants(name, tmp_path):
    """Carriage returns became newlines on the way, and the entries went into another file."""
    with PrivacyLedger(tmp_path / name) as ledger:
        done = in_fork(publish_as_a_fresh_process)
        assert len(ledger.entries) >= done
    assert len(os.listdir(tmp_path)) == 1


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
    name = "-".join(open_ledgers._process(os.getpid()))
    (markers / f"{name}-x").symlink_to(f"{journal.stat().st_dev} {journal.stat().st_ino} {journal}")

    def victim():
        as_a_fresh_process()
        os.setuid(65534)
        open_ledgers._directories = lambda: {str(markers)}
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
    open_ledgers._lineage = lambda pid, parent: ()  # no child of the owner of the ledger
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
            estimator.fit(X12_4, Y12)
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
            begun.wait(100)
            os._exit(0)
        shell = os.getppid()
        publish()
        begun.set()
        while os.getppid() == shell:
            time.sleep(0.01)
        orphaned.set()
        go.wait(100)
        done.put(publish_once(None))
        done.close()
        done.join_thread()
        os._exit(0)

    process = fork.Process(target=parent)
    process.start()
    process.join()
    orphaned.wait(100)
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        go.set()
        n_released = done.get(timeout=100)
        assert len(ledger.entries) >= n_released


def test_what_lies_where_anybody_could_have_put_it_is_neither_believed_nor_passed_over(tmp_path):
    markers = tmp_path / f"skdprp-open-{os.geteuid() + 1}"
    markers.mkdir()
    marker = markers / "marker"
    marker.symlink_to("1 1 /tmp/nowhere")
    open_ledgers.adopt([str(marker)])
    with pytest.raises(UnrecordedNoiseError, match="where anybody could"):
        publish()
    marker.unlink()
    publish()
    assert not open_ledgers._TOLD


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nobody tells when a process began")
def test_a_process_is_not_its_id():
    """Ids are given again; when a process began is not, unless nobody can tell, or ask."""
    namespace, pid, began = open_ledgers._process(os.getpid())
    assert began != "0"
    assert open_ledgers._lives((namespace, pid, began))
    assert not open_ledgers._lives((namespace, pid, "1"))
    assert open_ledgers._lives((namespace, pid, "0"))
    assert open_ledgers._lives(("another", pid, "1"))


def killed_in_the_block(path):
    with PrivacyLedger():
        path.write_text(*open_ledgers._OWN)
        os.kill(os.getpid(), signal.SIGKILL)


def test_markers_of_owners_that_were_killed_are_swept_by_who_opens_next(tmp_path):
    assert in_fork(killed_in_the_block, tmp_path / "marker") == -signal.SIGKILL
    with PrivacyLedger():
        assert not os.path.islink((tmp_path / "marker").read_text())


def test_a_directory_that_has_just_changed_may_change_again_unseen(monkeypatch, tmp_path):
    """Within one step of the clock of its file system: two ledgers opened, and somebody looked in between."""
    monkeypatch.setattr(open_ledgers, "_directories", lambda: {str(tmp_path)})
    os.utime(tmp_path, (1, 1))
    assert open_ledgers.stamp() == open_ledgers.stamp()
    later = time.time() + 1000
    os.utime(tmp_path, (later, later))
    assert open_ledgers.stamp() != open_ledgers.stamp()


def publishes_as_another_user(ready, go, done):
    os.setuid(65534)
    ready.set()
    go.wait(100)
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
    ready.wait(100)
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        go.set()
        n_released = done.get(timeout=100)
        assert len(ledger.entries) >= n_released
    process.join()


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
    open_ledgers._TOLD.update(open_ledgers._told())


@pytest.mark.parametrize("begins", [int, is_told])
def test_a_descendant_with_another_tmp_makes_no_release_without_an_entry(begins, tmp_path):
    """A sandbox with a /tmp of its own: a marker that cannot be seen there was taken for that of a closed ledger."""
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        done = in_fork(publishes_with_another_tmp, begins) if sys.platform.startswith("linux") else 77
        if done == 77:
            pytest.skip("only root on Linux may mount")
        assert done in (0, 1)
        assert len(ledger.entries) >= done


def test_estimators_of_closed_ledgers_leave_nothing_in_the_environment():
    """Whoever loaded the models of 1,400 runs could begin no process any more: the list of ledgers was too long."""
    model = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1])
    with PrivacyLedger():
        pickled = pickle.dumps(model)
    try:
        pickle.loads(pickled)
        assert not open_ledgers._told()
    finally:
        open_ledgers.open_journals()
        open_ledgers._tell()


# Signals and interruptions


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
            with EntryBlock(frozenset(), seeded=False, absorbs=True):
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


def read_by_a_signal(path):
    signal.alarm(60)
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
    signal.alarm(60)
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


def publish_with(act, line):
    """Publish, with something done before one line of the journal, and return how many lines there were.

    Of a loop the first eight rounds count: one goes through all callers, and those of the tests are many, and alike.
    """
    n_lines = 0

    def trace(frame, event, _):
        times = Counter()

        def trace_lines(frame, event, _):
            nonlocal n_lines
            times[frame.f_lineno] += event == "line"
            if event == "line" and times[frame.f_lineno] <= 8:
                n_lines += 1
                if n_lines == line:
                    act()
            return trace_lines

        return trace_lines if frame.f_code.co_filename.endswith("_journal.py") else None

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
    signal.alarm(500)  # ends who waits for themselves, on a busy machine, too
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
    assert in_fork(is_undisturbed, tmp_path / "spent.jsonl", how) == 0


FORMS = {
    "method": lambda handler: handler.count_all,
    "object": lambda handler: handler,
    "lambda": lambda handler: lambda number, frame: handler.with_names(number, frame=frame),
}


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
        if not frame.f_code.co_filename.endswith("_open_ledgers.py"):
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
        mine = "-".join(open_ledgers._process(os.getpid()))
        with contextlib.suppress(FileNotFoundError):
            names = {name for name in os.listdir(open_ledgers._markers()) if name.startswith(mine)}
            assert names == {os.path.basename(marker) for marker in open_ledgers._OWN}, line
        for marker in list(open_ledgers._OWN):
            open_ledgers._unmark(marker)
        assert open_ledgers._told() == [], line
        line += 1
    os._exit(0 if line > 20 else 2)


def test_no_interruption_of_opening_or_closing_a_ledger_refuses_what_follows(tmp_path):
    """It was closed in one place and open in another, without a file: nothing was released any more."""
    assert in_fork(is_open_everywhere_or_nowhere, tmp_path) == 0


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
    assert in_fork(leaves_interrupted) == 0


def test_a_handler_that_reads_without_the_lock_hides_no_line_from_other_threads(monkeypatch, tmp_path):
    """It had read nothing new, and took back a line that another thread had read since: the limit was passed.

    The main thread waits for the lock, which a process has that appends; a handler of a signal reads meanwhile.
    """
    fork, lock, read = multiprocessing.get_context("fork"), fcntl.flock, os.pread
    go, has_read, looked, state = fork.Event(), threading.Event(), threading.Event(), {"is": "before"}

    def in_another_process():
        go.wait(100)
        publish()

    def before_the_limit_is_checked(frame, event, _):
        if frame.f_code is _ledger._Book._check.__code__:
            has_read.set()
            looked.wait(100)
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
            has_read.wait(100)
        return text

    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        ledger.limit(1.0, delta=0.0)
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
