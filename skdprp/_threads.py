"""Threads for work that leaves the interpreter's lock.

joblib says how many; its own pools look for results every 10 milliseconds, in which a block of rows is done.
"""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from ._validation import silent


def in_threads(function, parts):
    """Call a function on each part, all at a time, and return the results in order; one part stays in this thread."""
    parts = list(parts)
    if len(parts) < 2:
        return [function(part) for part in parts]
    contexts = [copy_context() for _ in parts]
    # Each thread begins with warnings of floating-point errors, which would tell of a row.
    with ThreadPoolExecutor(len(parts)) as pool:
        # Each in the context of the caller: what threads draw is noise of the caller's release.
        return list(pool.map(lambda part, context: context.run(silent(function), part), parts, contexts))
