"""Threads for work that leaves the interpreter's lock.

joblib says how many; its own pools look for results every 10 milliseconds, in which a block of rows is done.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import ThreadpoolController

from ._recording import current_entry, handed_on
from ._validation import silent


class _Blas:
    """The threads of BLAS, of which a process has one number: 1 while blocks run, in whichever of its threads."""

    def __init__(self):
        self.lock, self.n_running, self.pools, self.limit = Lock(), 0, None, None

    def begin(self):
        with self.lock:
            if self.n_running == 0:
                self.pools = self.pools or ThreadpoolController().select(user_api="blas")
                self.limit = self.pools.limit(limits=1)
            self.n_running += 1

    def end(self):
        with self.lock:
            self.n_running -= 1
            if self.n_running == 0:
                self.limit.restore_original_limits()

    def after_fork(self):
        self.lock = Lock()  # which a thread may hold that the child does not have


_BLAS = _Blas()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_BLAS.after_fork)


@contextmanager
def one_blas_thread():
    """Multiply in the thread that asks: a block of rows that fits the cache is done before other threads wake up."""
    _BLAS.begin()
    try:
        yield
    finally:
        _BLAS.end()


def in_threads(function, parts):
    """Call a function on each part, all at a time, and return the results in order; one part stays in this thread."""
    parts = list(parts)
    if len(parts) < 2:
        return [function(part) for part in parts]
    entry = current_entry()

    # Each thread begins with warnings of floating-point errors, which would tell of a row, and in no entry.
    @silent
    def _in_thread(part):
        with handed_on(entry):
            return function(part)

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(_in_thread, parts))
