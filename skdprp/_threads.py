"""Threads for work that leaves the interpreter's lock.

joblib says how many; its own pools look for results every 10 milliseconds, in which a block of rows is done.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock, current_thread, local, main_thread

from threadpoolctl import ThreadpoolController

from ._recording import current_entry, handed_on
from ._validation import silent


class _Blas:
    """The threads of BLAS, of which a process has one number.

    Only the main thread sets it, as that of another may be ignored, and only while no release runs in any thread: each
    has the same number from its beginning to its end, on which trials of how products are rounded rely.
    """

    def __init__(self):
        self.lock, self.pools, self.limit = Lock(), None, None
        self.n_running, self.own = 0, local()

    def begin(self):
        """Enter a release."""
        with self.lock:
            if self.n_running == 0 and self.limit is None and current_thread() is main_thread():
                self.pools = self.pools or ThreadpoolController().select(user_api="blas")
                self.limit = self.pools.limit(limits=1)
            self._add(1)

    def end(self):
        """Leave it."""
        with self.lock:
            self._add(-1)
            if self.n_running == 0 and self.limit is not None and current_thread() is main_thread():
                self.limit.restore_original_limits()
                self.limit = None

    def _add(self, number):
        self.n_running += number
        self.own.n_running = getattr(self.own, "n_running", 0) + number

    def after_fork(self):
        """Forget other threads, which the child does not have: one may hold the lock, and others may be in releases."""
        self.lock, self.n_running = Lock(), getattr(self.own, "n_running", 0)


_BLAS = _Blas()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_BLAS.after_fork)


@contextmanager
def one_blas_thread():
    """Have BLAS use one thread: a block of rows that fits the cache is done before others wake up, see `_Blas`."""
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
