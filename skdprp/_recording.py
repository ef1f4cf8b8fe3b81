"""Which ledgers are open, as every process of this machine sees it; what a ledger is stands in `ledger`.

A ledger is open while its owner holds a lock on a marker: a file whose name begins with the owner's process id, and
which names the ledger's journal. A process sees the ledgers of its ancestors, by their markers, and those that came to
it with a pickled estimator. Locks end with their owners: nobody waits for a ledger whose owner was killed, or writes to
it.
"""

import os
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows: no ledger can be opened there
    fcntl = None

_IN_ENTRY = ContextVar("the entry of noise drawn here: (is seeded, has all releases within)", default=None)
_KNOWN = {}  # marker -> path of the journal, of the ledgers that this process opened or was told of


class UnrecordedNoiseError(RuntimeError):
    """Noise was about to be drawn that no entry of an open ledger accounts for."""


def _markers():
    """Directory of the markers, which is this user's alone; the same whatever TMPDIR a process has."""
    return Path("/tmp", f"skdprp-ledgers-{os.getuid()}")


def _own_markers():
    directory = _markers()
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to somebody else, who could say which ledgers are open.")
    return directory


def _parent(pid):
    with suppress(OSError, ValueError, IndexError):  # Linux; elsewhere parents are seen, and grandparents are not
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@lru_cache(maxsize=1)
def _lineage(pid, parent):
    """Process ids of a process and its ancestors."""
    pids = [pid]
    while parent > 1 and parent not in pids:
        pids.append(parent)
        parent = _parent(parent)
    return frozenset(map(str, pids))


def _is_open(marker):
    """Whether somebody holds the lock of a marker."""
    try:
        descriptor = os.open(marker, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)  # which ends a lock that was got
    return False


def open_journals():
    """Paths of the journals that a release of this process belongs into, by their markers."""
    known = dict(_KNOWN)
    if fcntl is not None:
        lineage, markers = _lineage(os.getpid(), os.getppid()), _markers()
        with suppress(OSError):  # there is none, or it is somebody else's, in which case nobody could open a ledger
            if os.stat(markers).st_uid == os.getuid():
                names = [name for name in os.listdir(markers) if name.partition("-")[0] in lineage]
                known = {str(markers / name): "" for name in names} | known
    journals = {}
    for marker, path in known.items():
        if _is_open(marker):
            journals[marker] = path or Path(marker).read_text()
        else:
            _KNOWN.pop(marker, None)
    return journals


def adopt(journals):
    """Take over the open ledgers that came with a pickle."""
    _KNOWN.update({marker: path for marker, path in journals.items() if _is_open(marker)})


@contextmanager
def marked(path):
    """Hold a marker that says that the journal at a path is open."""
    if fcntl is None:
        raise NotImplementedError("A ledger needs the file locks of POSIX: Linux, macOS, or WSL on Windows.")
    marker = _own_markers() / f"{os.getpid()}-{uuid4().hex}"
    descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, os.fsencode(path))
        _KNOWN[str(marker)] = str(path)
        yield str(marker)
    finally:
        _KNOWN.pop(str(marker), None)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked children share the lock, and would hold it on
        os.close(descriptor)
        marker.unlink(missing_ok=True)


@contextmanager
def in_entry(*, seeded, absorbs):
    """Draw noise that an entry accounts for, which says whether it is seeded; releases within may be its own."""
    token = _IN_ENTRY.set((seeded, absorbs))
    try:
        yield
    finally:
        _IN_ENTRY.reset(token)


def is_absorbed():
    """Whether a release here belongs to an entry that has been made."""
    _, absorbs = _IN_ENTRY.get() or (False, False)
    return absorbs


def check_recorded(*, seeded):
    """Refuse noise that an open ledger knows nothing of, or not that it has a seed."""
    entry = _IN_ENTRY.get()
    if seeded and entry is not None and not entry[0] and open_journals():
        raise UnrecordedNoiseError("A seed was entered after the release was: its entry says nothing of it.")
    if entry is None and open_journals():
        raise UnrecordedNoiseError(
            "Noise is drawn for a release that the open ledger has no entry of: publish by an estimator, or inside "
            "`with skdprp.ledger.entry(guarantee):`."
        )
