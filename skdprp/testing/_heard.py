"""What is said in a call: warnings, prints and logs."""

import io
import logging
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from threading import get_ident

from ._case import error_of

PASSING = (ImportWarning, ResourceWarning)  # of files and imports, which Python gives when it likes


class _Ear(io.TextIOBase):
    """Keeps what this thread writes while it is open, and passes all else on: another thread may put it back later."""

    def __init__(self, stream):
        self._stream, self._thread, self.is_open, self.text = stream, get_ident(), True, ""

    def write(self, text):
        """Keep a text of this thread, or pass it on."""
        if not self.is_open or get_ident() != self._thread:
            return self._stream.write(text)
        self.text += text
        return len(text)

    def flush(self):
        """Write out what was passed on."""
        self._stream.flush()


@contextmanager
def _logs():
    """Record what this thread logs, whatever handlers a logger has, and whether or not it passes records on."""
    texts, thread, make, level = [], get_ident(), logging.getLogRecordFactory(), logging.getLogger().level

    def _make(*facts, **known):
        record = make(*facts, **known)
        if get_ident() == thread:
            texts.append(record.getMessage())
        return record

    logging.setLogRecordFactory(_make)
    logging.getLogger().setLevel(1)
    try:
        yield texts
    finally:
        logging.getLogger().setLevel(level)
        logging.setLogRecordFactory(make)


@contextmanager
def heard():
    """Record what is said in a `with` block, by kind: warnings of those who call, prints, and logs of all levels."""
    said, out, err = {}, _Ear(sys.stdout), _Ear(sys.stderr)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(out),
            redirect_stderr(err),
            _logs() as logged,
        ):
            warnings.simplefilter("always")
            yield said
    finally:
        out.is_open = err.is_open = False
    said["its warnings"] = sorted({str(one.message) for one in caught if not issubclass(one.category, PASSING)})
    said["what it prints"] = out.text + err.text
    said["what it logs"] = logged


def use(fitted, data):
    """Predict and score the rows of a fit, as anybody does, and keep nothing of what that returns."""
    for name in ("predict", "transform"):
        if hasattr(fitted, name):
            error_of(partial(getattr(fitted, name), data[0]))
    if hasattr(fitted, "score"):
        with heard():  # what a metric says of the rows that it is given
            error_of(partial(fitted.score, *data))
