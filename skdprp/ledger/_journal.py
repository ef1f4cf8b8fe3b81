"""The file of a ledger: one line of JSON for each entry, appended under a lock and never changed."""

import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from .._open_ledgers import RecordingError

try:
    import fcntl
except ImportError:  # Windows, where no ledger can be opened
    fcntl = None

_HEADER = {"skdprp ledger": 1}
_PAGE = 4096  # of files in memory, in bytes, or a divisor of it


class LedgerError(RecordingError):
    """A ledger that cannot be read, or may not be written to: nothing was released."""


def _line(facts):
    return json.dumps(facts, allow_nan=False).encode() + b"\n"


_HELD = {}  # files of journals -> threads that have them open


def _let_go():
    """Close in a forked child what other threads held, which are not there: it would keep the lock of a dead parent."""
    for file, thread in list(_HELD.items()):
        if thread != threading.get_ident():
            file.close()
            del _HELD[file]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _descriptor(path, flags):
    """Open a file under a number that nobody prints to, even where standard output was closed."""
    descriptor = os.open(path, flags, 0o600)
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def _under_lock(path, flags, use):
    """Call a function of a descriptor of a file while nobody else has its lock, and of whether that is so for sure.

    What interrupts this thread meanwhile, a handler of a signal for instance, looks without waiting for it. The file
    is closed as this frame is left, wherever an interruption comes.
    """
    # A descriptor of its own each time: locks belong to descriptors, and threads shall wait for each other.
    is_sure = not is_interrupted()
    with open(path, "rb", buffering=0, opener=lambda path, _: _descriptor(path, flags)) as file:
        try:
            _HELD[file] = threading.get_ident()
            if is_sure:
                # NFS has no exclusive locks of files that are only read.
                fcntl.flock(file.fileno(), fcntl.LOCK_SH if flags == os.O_RDONLY else fcntl.LOCK_EX)
            return use(file.fileno(), is_sure)
        finally:  # a process that was forked meanwhile shares the lock, and would hold it on
            _HELD.pop(file, None)
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)


def is_interrupted():
    """Whether this thread has a journal under its lock, or waits for it, in a frame that called or was interrupted."""
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code is not _under_lock.__code__:
        frame = frame.f_back
    return frame is not None


def _refuse_if_interrupted():
    if is_interrupted():
        raise LedgerError("An entry is being written that this release has interrupted: nothing is released.")


def begin(path):
    """Make a journal, unless there is one, and return what tells it from other files: its path, device and inode."""
    if fcntl is None:
        raise NotImplementedError("A ledger needs the file locks of POSIX: Linux, macOS, or WSL on Windows.")
    _refuse_if_interrupted()

    def _begin(descriptor, _):
        if not os.fstat(descriptor).st_size:
            _append(descriptor, path, _HEADER)
            keep_name(path)

    _under_lock(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _begin)
    return existing(path)


def keep_name(path):
    """Have the disk know the name of a new file, where it can be asked to: elsewhere than on POSIX, it cannot."""
    with suppress(OSError):
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def existing(path):
    """Return what tells a journal from other files, if there is one."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise LedgerError(f"There is no ledger at {path} ({error.strerror}).") from None
    return path, status.st_dev, status.st_ino


def _append(descriptor, path, facts):
    """Write a line at once, and to the disk: what it announces happens after."""
    line, size = _line(facts), os.fstat(descriptor).st_size
    # Whoever is killed while writing ends at a page: a line that fits into one is moved to the next, and never torn.
    gap = b" " * (-size % _PAGE)
    pieces = (gap, line) if len(gap) < len(line) <= _PAGE else (line,)
    try:
        for piece in pieces:
            if os.write(descriptor, piece) < len(piece):
                raise OSError("the disk is full")
        os.fsync(descriptor)
    except BaseException as error:  # no torn line is left, by an interruption either
        is_refused = isinstance(error, OSError)
        if is_refused or os.fstat(descriptor).st_size < size + sum(map(len, pieces)):
            os.ftruncate(descriptor, size)
        if is_refused:
            raise LedgerError(f"No entry can be written to {path} ({error}): nothing is released.") from error
        raise


class Journal:
    """Read and append lines of a file that other threads and processes append to.

    What was read is kept while a ledger is open, for the file only grows.
    """

    def __init__(self, identity):
        self.path = Path(identity[0])
        self._identity = identity
        self._lines = []
        self._seen = 0, 0  # lines and bytes: lines beyond are of a reading that was interrupted

    def read(self, look):
        """Call a function of all lines."""
        return self._held(os.O_RDONLY, lambda _, lines: look(lines))

    def take(self, look):
        """Call a function of all lines, and remove the file: who waits to append to it is refused."""
        _refuse_if_interrupted()

        def _use(_, lines):
            seen = look(lines)
            self.path.unlink()
            return seen

        return self._held(os.O_RDWR, _use)

    def write(self, use):
        """Hold the file for oneself, and call a function of its lines and of a function that appends one."""
        _refuse_if_interrupted()
        self._held(
            os.O_RDWR | os.O_APPEND,
            lambda descriptor, lines: use(lines, lambda facts: _append(descriptor, self.path, facts)),
        )

    def _held(self, flags, use):
        def _use(descriptor, is_sure):
            self._read(descriptor, is_sure)
            return use(descriptor, self._lines)

        try:
            return _under_lock(self.path, flags, _use)
        except FileNotFoundError:
            raise LedgerError(
                f"{self.path} is gone: bring it back as it was, or remove its link from /tmp/skdprp-open-* if nobody "
                "has it open. Nothing is released."
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be read ({error}): nothing is released.") from error

    def _read(self, descriptor, is_sure):
        status, (number, end) = os.fstat(descriptor), self._seen
        if not status.st_nlink:
            raise FileNotFoundError  # it was removed before this one had the lock
        if (status.st_dev, status.st_ino) != self._identity[1:]:
            raise LedgerError(f"{self.path} is another file than the ledger was opened with: nothing is released.")
        if status.st_size < end:
            raise LedgerError(f"{self.path} got shorter: entries were removed. Bring back the file as it was.")
        text = b""
        while part := os.pread(descriptor, 1 << 20, end + len(text)):
            text += part
        if not is_sure:  # somebody may be writing the last line
            text = text[: text.rfind(b"\n") + 1]
        if not text[text.rfind(b"\n") + 1 :].strip(b" "):  # a gap before a line that was not written any more
            text = text[: text.rfind(b"\n") + 1]
        lines = text.splitlines(keepends=True)
        is_torn = bool(text) and not text.endswith(b"\n")
        if lines and not number and not _line(_HEADER).startswith(lines[0]):
            raise LedgerError(f"{self.path} is no ledger: its first line is not {json.dumps(_HEADER)}.")
        if is_torn:
            raise self.damaged(number + len(lines), "it has no end")
        self._lines[number:] = lines
        self._seen = number + len(lines), end + len(text)

    def damaged(self, number, why):
        """Return the error of a line that cannot be read."""
        return LedgerError(
            f"Line {number} of {self.path} is damaged ({why}). Nothing was changed, and nothing is released: what it "
            "announced may have been published. Restore the line, or begin a new ledger that counts it."
        )
