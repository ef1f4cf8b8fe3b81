"""Threads for work that leaves the interpreter's lock.

joblib says how many; its own pools look for results every 10 milliseconds, in which a block of rows is done.
"""

from concurrent.futures import ThreadPoolExecutor

from ._recording import current_entry, handed_on
from ._validation import silent


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
