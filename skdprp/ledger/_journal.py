"""The file of a ledger: one line of JSON for each entry, appended under a lock and never changed."""

try:
    import fcntl
except ImportError:  # Windows, where no ledger can be opened
    fcntl = None
import json
import os
from contextlib import contextmanager
from pathlib import Path

_HEADER = {"skdprp ledger": 1}


class LedgerError(RuntimeError):
    """A ledger that cannot be read, or may not be written to: nothing was released."""


def _line(facts):
    return json.dumps(facts, allow_nan=False).encode() + b"\n"


class Journal:
    """Read and append lines of a file that other threads and processes append to.

    What was read is kept, for the file only grows.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._lines = []
        self._end = 0

    @contextmanager
    def locked(self):
        """Hold the file for oneself, and yield its lines and a function that appends one."""
        # A descriptor of its own each time: locks belong to descriptors, and threads shall wait for each other.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._read(descriptor)
            if not self._lines:
                self._append(descriptor, _HEADER)
                self._read(descriptor)
            yield self._lines, lambda facts: self._append(descriptor, facts)
        finally:
            os.close(descriptor)  # which ends the lock

    def _read(self, descriptor):
        if os.fstat(descriptor).st_size < self._end:
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

    def _append(self, descriptor, facts):
        """Write a line at once, and to the disk: what it announces happens after."""
        line = _line(facts)
        size = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, line) < len(line):
                raise OSError("the disk is full")
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, size)  # no torn line is left
            raise LedgerError(f"No entry can be written to {self.path} ({error}): nothing is released.") from error
