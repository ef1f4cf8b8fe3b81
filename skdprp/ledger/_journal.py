"""The file of a ledger: one line of JSON for each entry, appended under a lock and never changed."""

import json
import os
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where no ledger can be opened
    fcntl = None

_HEADER = {"skdprp ledger": 1}


class LedgerError(RuntimeError):
    """A ledger that cannot be read, or may not be written to: nothing was released."""


def _line(facts):
    return json.dumps(facts, allow_nan=False).encode() + b"\n"


@contextmanager
def _locked_file(path, flags):
    # A descriptor of its own each time: locks belong to descriptors, and threads shall wait for each other.
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        with suppress(OSError):
            fcntl.flock(
                descriptor, fcntl.LOCK_UN
            )  # a process that was forked meanwhile shares it, and would hold it on
        os.close(descriptor)


def begin(path):
    """Make a journal, unless there is one, and return what tells it from other files: its path, device and inode."""
    path = os.path.realpath(path)
    with _locked_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
        status = os.fstat(descriptor)
        if not status.st_size:
            _append(descriptor, path, _HEADER)
    return path, status.st_dev, status.st_ino


def existing(path):
    """Return what tells a journal from other files, if there is one."""
    path = os.path.realpath(path)
    try:
        status = os.stat(path)
    except OSError as error:
        raise LedgerError(f"There is no ledger at {path} ({error.strerror}).") from None
    return path, status.st_dev, status.st_ino


def _append(descriptor, path, facts):
    """Write a line at once, and to the disk: what it announces happens after."""
    line, size = _line(facts), os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, line) < len(line):
            raise OSError("the disk is full")
        os.fsync(descriptor)
    except OSError as error:
        os.ftruncate(descriptor, size)  # no torn line is left
        raise LedgerError(f"No entry can be written to {path} ({error}): nothing is released.") from error


class Journal:
    """Read and append lines of a file that other threads and processes append to.

    What was read is kept, for the file only grows.
    """

    def __init__(self, identity):
        self.path = Path(identity[0])
        self._identity = identity
        self._lines = []
        self._end = 0
        self._holder = None

    def read(self, look):
        """Call a function of all lines under the lock; in a signal handler that interrupts its holder, without it."""
        if self._is_held_here():
            return look(self._lines)
        with self._held(os.O_RDONLY):
            return look(self._lines)

    @contextmanager
    def locked(self):
        """Hold the file for oneself, and yield its lines and a function that appends one."""
        if self._is_held_here():
            raise LedgerError("An entry is being written that this release has interrupted: nothing is released.")
        with self._held(os.O_RDWR | os.O_APPEND) as descriptor:
            yield self._lines, lambda facts: _append(descriptor, self.path, facts)

    def _is_held_here(self):
        return self._holder == (os.getpid(), threading.get_ident())

    @contextmanager
    def _held(self, flags):
        try:
            with _locked_file(self.path, flags) as descriptor:
                self._holder = os.getpid(), threading.get_ident()
                try:
                    self._read(descriptor)
                    yield descriptor
                finally:
                    self._holder = None
        except FileNotFoundError:
            raise LedgerError(f"{self.path} is gone: bring it back as it was. Nothing is released.") from None

    def _read(self, descriptor):
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != self._identity[1:]:
            raise LedgerError(f"{self.path} is another file than the ledger was opened with: nothing is released.")
        if status.st_size < self._end:
            raise LedgerError(f"{self.path} got shorter: entries were removed. Bring back the file as it was.")
        text = b""
        while part := os.pread(descriptor, 1 << 20, self._end + len(text)):
            text += part
        lines = text.splitlines(keepends=True)
        if text and not text.endswith(b"\n"):
            raise self.damaged(len(self._lines) + len(lines), "it has no end")
        if lines and not self._lines and lines[0] != _line(_HEADER):
            raise LedgerError(f"{self.path} is no ledger: its first line is not {json.dumps(_HEADER)}.")
        self._lines += lines
        self._end += len(text)

    def damaged(self, number, why):
        """Return the error of a line that cannot be read."""
        return LedgerError(
            f"Line {number} of {self.path} is damaged ({why}). Nothing was changed, and nothing is released: what it "
            "announced may have been published. Restore the line, or begin a new ledger that counts it."
        )
