"""Threads for work that leaves the interpreter's lock.

joblib says how many; its own pools look for results every 10 milliseconds, in which a block of rows is done.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock, current_thread, get_ident, main_thread
from weakref import WeakSet

from threadpoolctl import ThreadpoolController

from ._errors import silent
from ._recording import current_entry, handed_on


class _Blas:
    """The threads of BLAS, of which a process has one number.

    Only the main thread sets it, as that of another may be ignored, and only while no release runs in any thread: each
    has the same number from its beginning to its end, on which trials of how products are rounded rely. If a release of
    another thread ends last, the number comes back with the next release of the main thread. An interrupt, wherever it
    comes, changes no more than that: a release that has not been left runs no longer than its frame is there.
    """

    def __init__(self):
        self.lock, self.pools, self.numbers = Lock(), None, None
        self.running = WeakSet()

    def begin(self, release):
        """Enter a release."""
        with self.lock:
            if not self.running and current_thread() is main_thread():
                self.pools = self.pools or ThreadpoolController().select(user_api="blas").lib_controllers
                if self.numbers is None:  # kept before they are changed
                    self.numbers = [pool.num_threads for pool in self.pools]
                self._set([1] * len(self.pools))
            self.running.add(release)

    def end(self, release):
        """Leave it, if it was entered."""
        with self.lock:
            self.running.discard(release)
            if not self.running and self.numbers is not None and current_thread() is main_thread():
                self._set(self.numbers)
                self.numbers = None

    def _set(self, numbers):
        for pool, number in zip(self.pools, numbers, strict=True):
            pool.set_num_threads(number)

    def after_fork(self):
        """Forget other threads, which the child does not have: one may hold the lock, and others may be in releases."""
        self.lock = Lock()
        self.running = WeakSet(release for release in self.running if release.thread == get_ident())


class _Release:
    """One release, in the thread that makes it."""

    def __init__(self):
        self.thread = get_ident()


_BLAS = _Blas()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_BLAS.after_fork)


@contextmanager
def one_blas_thread():
    """Have BLAS use one thread: a block of rows that fits the cache is done before others wake up, see `_Blas`."""
    release = _Release()
    try:
        _BLAS.begin(release)
        yield
    finally:
        _BLAS.end(release)


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
