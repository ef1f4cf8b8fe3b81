"""Rows that are read anew in each pass: chunks of a file, or partitions of dask collections."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.utils import gen_batches

from .._errors import silent
from .._lazy import RELEASED_AGAIN, compute_joined, holds_releases, is_lazy, partitions
from .._recording import outside_of_entries
from .._rows import array_for_blocks, clip_rows
from .._sums import CompensatedSum

LARGEST_BLOCK = 2**17  # rows; of float64, entries that fit the cache
_SMALLEST_BLOCK = 256

SAME_ROWS = "chunks or partitions hold the same rows in every pass, each row once and with its label"
_READ_ONCE = (
    "These chunks can be read once, as those of a generator, and a fit reads them in each of many passes: give a list, "
    "or an object whose __iter__ begins anew."
)


class Chunks:
    """Chunks of rows and labels, one after the other in this process."""

    def __init__(self, chunks):
        if iter(chunks) is chunks:
            raise TypeError(_READ_ONCE)
        self.chunks = chunks

    def map(self, function, join=None):
        """Yield what a function makes of the rows and labels of each chunk."""
        for chunk in self.chunks:
            if not isinstance(chunk, tuple) or len(chunk) != 2:
                raise TypeError("Each chunk should be a tuple (X, y).")
            if any(is_lazy(part) and holds_releases(part) for part in chunk):
                raise ValueError(RELEASED_AGAIN)
            yield function(*chunk)


class Partitions:
    """Partitions of dask collections of rows and labels, all together on the scheduler in use."""

    def __init__(self, X, y):
        self.parts = list(zip(*partitions(X, y), strict=True))

    def map(self, function, join=None):
        """Return what a function makes of the rows and labels of each partition, or `join` of some results."""
        import dask

        task = dask.delayed(function, pure=False)
        return compute_joined([task(*part) for part in self.parts], join)


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows and the index of the class of each, of which sums are what comes out of a pass.

    `read` takes rows and labels of a part, and returns validated rows and indices. `class_counts` are the rows of each
    class, `class_weights` public weights of them or None.
    """

    source: Chunks | Partitions | None
    read: Callable
    n_rows: int
    n_features: int
    class_counts: np.ndarray
    class_weights: np.ndarray | None
    max_norm: float | None = None

    def clipped(self, max_norm):
        """The same rows, clipped to `max_norm`, block by block."""
        return replace(self, max_norm=max_norm)

    def sum(self, function):
        """Sum what a function makes of the clipped rows, the indices and the weights (or None) of each block.

        Sums are compensated: what is rounded off grows neither with the number of blocks nor depends on their order,
        but for the rounding of the sum of one block.
        """
        with outside_of_entries():  # what an iterable of chunks releases is its own
            parts = self.source.map(partial(_sum_of_part, replace(self, source=None), function), _joined)
            class_counts, total = _joined(parts)
        if not np.array_equal(class_counts, self.class_counts):
            raise ValueError("The rows are not those of the pass before: they must be the same in each.")
        return total.value


@silent
def _joined(parts):
    """Sum the rows of each class, and the sums, of some parts."""
    class_counts, total = 0, CompensatedSum()
    for counts, part in parts:
        class_counts = class_counts + counts
        total.add(part)
    return class_counts, total


def block_rows(n_features, n_scores):
    """Rows of a block that fits the cache, and so do its scores."""
    return max(_SMALLEST_BLOCK, LARGEST_BLOCK // max(n_features, n_scores))


@silent
def _sum_of_part(known, function, X, y):
    (X, codes), total = known.read(X, y), CompensatedSum()
    size = block_rows(known.n_features, len(known.class_counts))
    out = array_for_blocks(X, size)
    for rows in gen_batches(len(codes), size):
        weights = None if known.class_weights is None else known.class_weights[codes[rows]]
        total.add(function(clip_rows(X[rows], known.max_norm, copy=False, out=out), codes[rows], weights))
    return np.bincount(codes, minlength=len(known.class_counts)), total.value
