"""Which ledgers are open, as every process of this machine sees it, and which entry noise is drawn for.

A ledger is open while its owner holds a lock on a marker: a file whose name begins with the owner's process id, and
which names the ledger's journal. A process knows the ledgers that it opened; those of the processes it was forked
from; those of its ancestors, by their markers; those in its environment, which reach descendants whose parents have
ended; and those that came to it with a pickled estimator. Locks end with their owners: nobody writes to the ledger of
one that was killed.
"""

import json
import os
import stat
import sys
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows: no ledger can be opened there
    fcntl = None

_ENVIRONMENT = "SKDPRP_OPEN_LEDGERS"
_OPENED = []  # one for each ledger that this process has opened
_OWN = {}  # marker -> (owner's process id, descriptor, journal) of the ledgers opened here, or before a fork
_TOLD = set()  # markers that came with a pickle


class UnrecordedNoiseError(RuntimeError):
    """Noise was about to be drawn that no entry of an open ledger accounts for."""


# Markers


@lru_cache(maxsize=1)
def _markers():
    """Directory of the markers, which is this user's alone; the same whatever TMPDIR a process has."""
    return f"/tmp/skdprp-ledgers-{os.getuid()}"


def _is_ours(directory):
    """Whether the directory is this user's own, or None where there is none."""
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        return None
    return status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)


@lru_cache(maxsize=1)
def _namespace(pid):
    """Name of the set of process ids that one is of: containers that share a directory do not share these."""
    with suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return "0"


def _parent(pid):
    with suppress(OSError, ValueError, IndexError):  # Linux; elsewhere the environment tells what is further up
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@lru_cache(maxsize=1)
def _lineage(pid, parent):
    """Names of markers of a process and its ancestors begin so."""
    pids = [pid]
    while parent > 0 and parent not in pids:
        pids.append(parent)
        parent = _parent(parent)
    return tuple(f"{_namespace(pids[0])}-{pid}-" for pid in pids)


def _is_locked(marker):
    """Whether somebody holds the lock of a marker."""
    try:
        descriptor = os.open(marker, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)  # which ends a lock that was got
    return False


def _is_open_here(owner, descriptor):
    """Whether a ledger that was opened here, or before a fork, is open: its owner empties the marker when it closes."""
    return owner == os.getpid() or os.pread(descriptor, 1, 0) != b""


def open_journals():
    """Journals that a release of this process belongs into: (path, device, inode), by their markers."""
    if fcntl is None:
        return {}
    journals = {
        marker: journal for marker, (owner, descriptor, journal) in _OWN.items() if _is_open_here(owner, descriptor)
    }
    directory = _markers()
    if not _is_ours(directory):
        return journals
    lineage, names = _lineage(os.getpid(), os.getppid()), []
    with suppress(FileNotFoundError):  # the last ledger was closed in between, which removes the directory
        names = os.listdir(directory)
    told = {f"{directory}/{name}" for name in names if name.startswith(lineage)}
    for marker in (told | _TOLD | set(_told())) - set(_OWN):
        if os.path.dirname(marker) == directory and _is_locked(marker):
            with suppress(FileNotFoundError):  # closed in between
                if said := Path(marker).read_bytes():  # emptied in between
                    journals[marker] = tuple(json.loads(said))
    return journals


def _told():
    """Markers that a process was told of when it started."""
    return list(filter(None, os.environ.get(_ENVIRONMENT, "").split(os.pathsep)))


def adopt(markers):
    """Take over the open ledgers that came with a pickle."""
    _TOLD.update(marker for marker in markers if fcntl is not None and _is_locked(marker))


def _sweep(directory):
    """Remove the markers of owners that were killed."""
    for name in os.listdir(directory):
        if not name.startswith("draft-") and not _is_locked(f"{directory}/{name}"):
            with suppress(OSError):
                os.unlink(f"{directory}/{name}")


def check_supported():
    """Refuse where there are no locks."""
    if fcntl is None:
        raise NotImplementedError("A ledger needs the file locks of POSIX: Linux, macOS, or WSL on Windows.")


@contextmanager
def marked(journal):
    """Hold a marker that says that a journal is open."""
    directory, owner, name = _markers(), os.getpid(), uuid4().hex
    marker, draft = Path(directory, f"{_namespace(owner)}-{owner}-{name}"), Path(directory, f"draft-{name}")
    descriptor = _new_file(draft)
    _sweep(directory)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(journal).encode())
    draft.rename(marker)  # nobody sees it before it is locked and says all
    _OWN[str(marker)] = owner, descriptor, journal
    _OPENED.append(marker)
    _tell(lambda told: [*told, str(marker)])
    try:
        yield
    finally:
        del _OWN[str(marker)]
        _tell(lambda told: [other for other in told if other != str(marker)])
        if os.getpid() == owner:  # a forked child that leaves closes nothing of its parent's
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked children share the lock, and would hold it on
            marker.unlink(missing_ok=True)
            with suppress(OSError):  # others are open
                os.rmdir(directory)  # as a release finds out fastest that none is
        with suppress(OSError):
            os.close(descriptor)


def _new_file(path):
    """Create a file for a marker, and the directory, which another process may remove in between."""
    while True:
        with suppress(FileExistsError):
            os.mkdir(path.parent, mode=0o700)
        if _is_ours(path.parent) is False:
            raise PermissionError(f"{path.parent} belongs to somebody else, who could say which ledgers are open.")
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def _tell(change):
    """Change what is told to processes that start from now on."""
    told = change(_told())
    os.environ[_ENVIRONMENT] = os.pathsep.join(told)
    if not told:
        del os.environ[_ENVIRONMENT]


# What holds in a `with` block


class Block:
    """What holds while a `with` block of a function runs, and nowhere else.

    A context variable alone would hold where the block does not run: in the caller of a generator that waits inside of
    it, in tasks and forks that began in it and outlive it, and for good where two generators leave in the order in
    which they entered. So a block holds in its process, while it is not left, below the frame that entered it.
    """

    def __init__(self, variable):
        self._variable = variable
        self._frame, self._process = None, None

    def __enter__(self):
        self._enter(sys._getframe(1))
        return self

    def _enter(self, frame):
        if self._frame is not None:
            raise RuntimeError("This block is entered already: make one for each `with`.")
        while frame.f_globals.get("__name__") == "contextlib":  # an ExitStack
            frame = frame.f_back
        self.outer = self._variable.get()
        self._variable.set(self)
        self._frame, self._process = frame, os.getpid()

    def __exit__(self, *error):
        self._frame = None
        if self._variable.get() is self:
            self._variable.set(self.outer)

    def holds(self):
        """Whether this block runs here and now."""
        if self._frame is None or self._process != os.getpid():
            return False
        frame = sys._getframe(1)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None


def innermost(variable):
    """Blocks that hold here, from the innermost."""
    block = variable.get()
    while block is not None:
        if block.holds():
            yield block
        block = block.outer


_ENTRY = ContextVar("block of the innermost entry", default=None)


class EntryBlock(Block):
    """Noise is drawn that an entry accounts for, in the journals it was written to.

    `absorbs` tells whether releases inside are its own.
    """

    def __init__(self, written, *, seeded, absorbs):
        super().__init__(_ENTRY)
        self.written, self.seeded, self.absorbs = written, seeded, absorbs
        self.n_opened = len(_OPENED)


def current_entry():
    """Return the block of the entry that noise drawn here belongs to, or None."""
    entry = next(innermost(_ENTRY), None)
    return None if entry is None or entry.written is None else entry


def outside_of_entries():
    """Block for what is called within a release and is no part of it, such as a callback."""
    return EntryBlock(None, seeded=False, absorbs=False)


def handed_on(entry):
    """Block for another thread that draws noise of an entry of this one."""
    if entry is None:
        return nullcontext()
    block = EntryBlock(entry.written, seeded=entry.seeded, absorbs=entry.absorbs)
    block.n_opened = entry.n_opened
    return block


def check_recorded(*, seeded):
    """Refuse noise that an open ledger knows nothing of, or not that it has a seed."""
    entry = current_entry()
    if entry is not None and entry.n_opened == len(_OPENED) and entry.seeded >= seeded:
        return  # the same ledgers are open as when it was written
    journals = set(open_journals().values())
    if not journals:
        return
    if entry is None or not journals <= entry.written:
        raise UnrecordedNoiseError(
            "Noise is drawn for a release that an open ledger has no entry of: publish by an estimator, or inside "
            "`with skdprp.ledger.entry(guarantee):`, in the function that draws it."
        )
    if seeded and not entry.seeded:
        raise UnrecordedNoiseError("A seed was entered after the release was: its entry says nothing of it.")
