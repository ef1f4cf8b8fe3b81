"""Which ledgers are open, as every process of this machine sees it.

A ledger is open while a marker of it exists and the owner of that lives: the process that opened it, or one that was
forked inside of its block, for which the block goes on. The marker is a symbolic link that leads nowhere: its name says
whose it is, and its text which journal; it is made and removed at once, and read without opening a file. The owner is
known by its process id and when it began. A process knows the ledgers that it opened, or that were open when it was
forked, for which a byte that both share says whether they are closed; those of all that it ever saw among its
ancestors, by their markers; those in its environment, which reach descendants whose parents have ended; and those that
came to it with a pickled estimator.
"""

import os
import stat
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from mmap import mmap
from pathlib import Path
from uuid import uuid4

_ENVIRONMENT = "SKDPRP_OPEN_LEDGERS"
_SETTLED = 10**8  # nanoseconds: more than clocks of file systems take for a step


class RecordingError(RuntimeError):
    """Something that an open ledger does not allow, in words that say nothing of the data."""


class UnrecordedNoiseError(RecordingError):
    """Noise was about to be drawn that no entry of an open ledger accounts for."""


# Processes


def _facts_of(pid):
    """What Linux says of a process, from its state on; nothing where it does not, or not to this one."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        if os.readlink("/proc/self") == str(os.getpid()):  # these are the processes that this one knows by their ids
            return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
    return []


@lru_cache(maxsize=1)
def _namespace(pid):
    """Name of the set of process ids that one is of: containers that share a directory do not share these."""
    with suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return "0"


def _process(pid):
    """Where, as whom and when a process began, which no other ever has in common with it; "0" if nobody can tell."""
    return _namespace(os.getpid()), str(pid), (_facts_of(pid) or ["0"] * 20)[19]


process_itself = lru_cache(maxsize=1)(_process)


def _may_be(process, other):
    """Whether two are the same process, as far as one can tell."""
    return process[:2] == other[:2] and (process[2] == other[2] or "0" in (process[2], other[2]))


def _lives(process):
    if process[0] != _namespace(os.getpid()):
        return True  # nobody here can ask
    try:
        os.kill(int(process[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is of another user
    return _may_be(process, _process(process[1]))


_LINEAGE = set()
_USERS = set()  # that this process and its ancestors were ever seen to be


@lru_cache(maxsize=1)
def _lineage(pid, parent):
    """Return a process and all that were ever seen among its ancestors, for those may have ended."""
    seen = []
    while pid > 0 and (process := _process(pid)) not in seen:
        seen.append(process)
        with suppress(OSError):  # users that Linux says it is, or can become again
            status = Path(f"/proc/{pid}/status").read_bytes().decode(errors="replace")
            _USERS.update(next((line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")), []))
        pid, parent = parent, int((_facts_of(parent) or ["", 0])[1])  # elsewhere than on Linux, the parent is the last
    _LINEAGE.update(seen)
    return _LINEAGE


# Markers


def _told():
    """Markers that a process was told of when it started."""
    return list(filter(None, os.environ.get(_ENVIRONMENT, "").split(os.pathsep)))


_OWN = {}  # marker of this process -> journal, and a byte that is 1 when whoever opened the ledger has closed it
_TOLD = set(_told())  # markers that came with the environment or with a pickle


def _markers():
    """Directory of the markers, which is this user's; the same whatever TMPDIR a process has."""
    return f"/tmp/skdprp-open-{getattr(os, 'geteuid', int)()}"  # there is none on Windows


def _directories():
    """Directories of the markers of all users that a ledger may belong to: this process may be another one by now."""
    _lineage(os.getpid(), os.getppid())
    _USERS.add(str(getattr(os, "geteuid", int)()))
    return {_markers(), *(f"/tmp/skdprp-open-{user}" for user in list(_USERS))}


def _is_safe(directory):
    """Whether a directory of markers is of the user in its name, or None where there is none."""
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        return None
    return stat.S_ISDIR(status.st_mode) and str(status.st_uid) == directory.rpartition("-")[2]


def _owner(marker):
    return tuple(os.path.basename(marker).split("-")[:3])


def ledger_of(marker):
    """Name of a ledger, which all of its markers have in common, with the place that it was opened at."""
    return os.path.basename(marker).split("-", 3)[-1]


def _place():
    """Machine, as it runs now, and its /tmp: a sandbox or a container may have one of its own."""
    boot = tmp = ""
    with suppress(OSError):  # elsewhere than on Linux, or where there is no /tmp
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().partition("-")[0]
        tmp = "{0.st_dev}.{0.st_ino}".format(os.stat("/tmp"))
    return boot, tmp


def _is_hidden(marker):
    """Whether a marker is of this machine, and of another /tmp: nobody here can tell whether it is there."""
    (boot, tmp), (opened, *there) = _place(), ledger_of(marker).split("-")
    return opened == boot != "" and there[:1] != [tmp]


def _marker(directory, ledger):
    """Marker of a ledger that this process has."""
    return f"{directory}/{'-'.join(process_itself(os.getpid()))}-{ledger}"


def _of_lineage(directory):
    """Markers in a directory that belong to this process or its ancestors."""
    if not _is_safe(directory):
        return []
    lineage, names = _lineage(os.getpid(), os.getppid()), []
    with suppress(FileNotFoundError):  # the last ledger was closed in between, which removes the directory
        names = os.listdir(directory)
    return [f"{directory}/{name}" for name in names if any(_may_be(_owner(name), process) for process in lineage)]


def _journal_of(marker):
    """What an open ledger is written to, or None once it was closed, or its owner was killed."""
    try:
        device, inode, path = os.readlink(marker).split(" ", 2)
    except FileNotFoundError:
        if _is_hidden(marker):
            raise PermissionError(f"{marker} is in another /tmp; {_ENVIRONMENT} has it from a process before") from None
        return None
    if _is_safe(os.path.dirname(marker)) is False:
        raise PermissionError(f"{marker} lies where anybody could have put it")
    return (path, int(device), int(inode)) if _lives(_owner(marker)) else None


def open_journals():
    """Journals that a release of this process belongs into: (path, device, inode), by their markers.

    Refuse where that cannot be found out: a ledger may be open then.
    """
    try:
        journals, n_known = {}, len(_OWN) + len(_TOLD)
        for marker in {*_OWN, *_TOLD}.union(*map(_of_lineage, _directories())):
            # Whatever becomes of the marker, what was opened here, or before a fork, is open until it is closed.
            journal, closed = _OWN.get(marker) or (_journal_of(marker), b"\0")
            if journal is not None and not closed[0]:
                journals[marker] = journal
            else:  # for good
                _TOLD.discard(marker)
                _OWN.pop(marker, None)
        if len(_OWN) + len(_TOLD) < n_known:
            _tell()
    except (OSError, ValueError) as error:
        raise UnrecordedNoiseError(f"Nobody can tell which ledgers are open ({error}): nothing is released.") from error
    return journals


def adopt(markers):
    """Take over the open ledgers that came with a pickle."""
    if new := {marker for marker in markers if not _is_hidden(marker) and _may_be_open(marker)} - {*_OWN, *_TOLD}:
        _TOLD.update(new)
        _tell()


def _may_be_open(marker):
    try:
        return _journal_of(marker) is not None
    except (OSError, ValueError):  # a release will find out, or be refused
        return True


def _tell():
    """Tell processes that start from now on; if others change that meanwhile, the last one looks once more."""
    while os.environ.get(_ENVIRONMENT, "") != (markers := os.pathsep.join([*_TOLD, *_OWN])):
        os.environ[_ENVIRONMENT] = markers
        if not markers:
            os.environ.pop(_ENVIRONMENT, None)


def stamp():
    """What is another one when a ledger was opened in between, by this process or an ancestor."""
    changes = {}
    for directory in _directories():
        with suppress(FileNotFoundError):
            changed = os.stat(directory).st_mtime_ns
            # Two changes within a step of the clock look like one: nothing equals an object.
            changes[directory] = changed if time.time_ns() - changed > _SETTLED else object()
    return {*_OWN, *_TOLD}, changes


@contextmanager
def mark_open(journal):
    """Mark a journal as open, under the name of a ledger."""
    marker, is_left_to_children = _marker(_markers(), "-".join((*_place(), uuid4().hex))), False
    try:
        _mark(marker, journal)
        _OWN[marker] = journal, mmap(-1, 1)
        _tell()
        yield ledger_of(marker)
    except BaseException:  # as sys.exit(), by which a process ends that has become a daemon by a fork
        is_left_to_children = True
        raise
    finally:
        try:
            _unmark(marker, is_left_to_children)
        finally:  # what an interruption may have left: a ledger is open everywhere or nowhere
            _unmark(marker, is_left_to_children)


def _mark(marker, journal):
    """Make a marker, and the directory, which another process may remove in between."""
    directory, (path, device, inode) = os.path.dirname(marker), journal
    while True:
        with suppress(FileExistsError):
            os.mkdir(directory, mode=0o755)
        if _is_safe(directory) is False:
            raise PermissionError(f"{directory} belongs to somebody else, who could say which ledgers are open.")
        with suppress(FileNotFoundError):
            os.chmod(directory, 0o755)  # descendants that are other users by now look for markers, too
            for name in os.listdir(directory):
                with suppress(OSError, ValueError):
                    if not _lives(_owner(name)):  # it was killed
                        os.unlink(f"{directory}/{name}")
            return os.symlink(f"{device} {inode} {path}", marker)


def _unmark(marker, is_left_to_children=False):
    """Close a ledger for all that are in its block; a forked child that leaves that closes nothing of its parent's."""
    directory, ledger = os.path.dirname(marker), ledger_of(marker)
    mine, names = _marker(directory, ledger), []
    if mine == marker and mine in _OWN and not is_left_to_children:
        _OWN[mine][1][0] = 1
        with suppress(OSError):  # somebody cleared the directory
            names = [name for name in os.listdir(directory) if ledger_of(name) == ledger]
    for name in (os.path.basename(mine), *names):
        with suppress(OSError):
            os.unlink(f"{directory}/{name}")
    _OWN.pop(mine, None)
    _tell()
    with suppress(OSError):  # others are open
        os.rmdir(directory)  # as a release finds out fastest that none is


def _look_up():
    """See the ancestors while they are there, of a process that may have the id of its parent in another namespace."""
    for known in (_namespace, process_itself, _lineage):
        known.cache_clear()
    with suppress(OSError):  # a release will look once more, and be refused if there is nothing to see
        _lineage(os.getpid(), os.getppid())


def _inherit():
    """Mark in a forked child what is open: who opened it may end while the child, and what it begins, goes on."""
    _look_up()
    for theirs, (journal, closed) in list(_OWN.items()):
        marker = _marker(os.path.dirname(theirs), ledger_of(theirs))
        _OWN[marker] = _OWN.pop(theirs)
        _TOLD.add(theirs)
        with suppress(OSError):  # of another user by now: what it begins is told of the marker of its parent
            _mark(marker, journal)
        if closed[0]:  # in between
            _unmark(marker)
    _tell()


_FORKS = []  # of this process: children may still be in blocks that it has left


def n_forks():
    """How often this process was forked."""
    return len(_FORKS)


_look_up()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=lambda: _FORKS.append(None), after_in_child=_inherit)
