"""Sums of products of columns and of arrays, whose rounding does not grow with the number of blocks that are added."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

_CACHED = 2**14  # numbers of each of a few arrays
_EXPANDED = 2**18  # products of entries of sparse rows, which fit the cache
_GROUPS, _SMALLEST_GROUP = 4, 256  # of columns, whose products with columns before them are left out
_MIRRORED = 64  # rows at a time


def products(X, others):
    """Sum the products of all columns of a block, of which some are sparse or dense, and some dense."""
    total = ProductSum()
    total.add(X, others)
    return total.finish()


def upper_products(X, others):
    """Yield parts of the sums of products of all columns of a block, and where they are: all on or above the diagonal.

    Each entry is a sum over the rows one after the other, or as BLAS adds them.
    """
    these, rest = slice(X.shape[1]), slice(X.shape[1], X.shape[1] + others.shape[1])
    if sp.issparse(X):
        by_column, width = X.tocsc(), max(_SMALLEST_GROUP, -(-X.shape[1] // _GROUPS))
        for columns in gen_batches(X.shape[1], width):
            yield from sparse_products(X, by_column, columns)
        yield (these, rest), X.T @ others
        yield (rest, rest), others.T @ others
    else:  # in one contiguous array, which adds up faster
        values = np.zeros((rest.stop, rest.stop))
        np.matmul(X.T, X, out=values[these, these])
        np.matmul(X.T, others, out=values[these, rest])
        np.matmul(others.T, others, out=values[rest, rest])
        yield (slice(None), slice(None)), values


def sparse_products(X, by_column, columns):
    """Yield sums of products of a group of columns with all from its first on, of sparse rows, and where they are.

    For each entry of a column, the rest of its row is copied, times the entry; what is copied for a column is then
    summed in a dense row, one after the other. Unlike ``X.T @ X``, this neither finds out before where there will be
    entries, nor makes a sparse array of so many, nor computes both triangles.
    """
    rest = X[:, columns.start :] if columns.start else X
    begins = by_column.indptr[columns.start : columns.stop + 1]
    of_group = slice(begins[0], begins[-1])
    rows, values, begins = by_column.indices[of_group], by_column.data[of_group], begins - begins[0]
    ends = np.append(0, np.cumsum(np.diff(rest.indptr)[rows], dtype=np.int64))[begins]  # copied for columns before
    start = 0
    while start < len(begins) - 1:
        stop = max(start + 1, np.searchsorted(ends, ends[start] + _EXPANDED, side="right") - 1)
        entries = slice(begins[start], begins[stop])
        copied = rest[rows[entries]]
        copied.data *= np.repeat(values[entries], np.diff(copied.indptr))
        parts = copied.data, copied.indices, copied.indptr[begins[start : stop + 1] - begins[start]]
        place = slice(columns.start + start, columns.start + stop), slice(columns.start, X.shape[1])
        yield place, sp.csr_array(parts, shape=(stop - start, rest.shape[1])).toarray()
        start = stop


def mirror(values):
    """Copy what is above the diagonal to below it, in place."""
    for start in range(0, len(values), _MIRRORED):
        stop = min(start + _MIRRORED, len(values))
        values[stop:, start:stop] = values[start:stop, stop:].T
        block = values[start:stop, start:stop]
        block[...] = np.triu(block) + np.triu(block, 1).T


class ProductSum:
    """Compensated sum of the products of all columns over blocks of rows; below the diagonal only at the end."""

    def __init__(self):
        self._sum = self._lost = None

    def add(self, X, others):
        """Add the products of one more block."""
        is_first, size = self._sum is None, X.shape[1] + others.shape[1]
        if is_first:
            self._sum = np.zeros((size, size))
        elif self._lost is None:
            self._lost = np.zeros((size, size))
        for place, values in upper_products(X, others):
            if is_first:
                self._sum[place] = values
            else:
                add_compensated(self._sum[place], self._lost[place], values)

    def finish(self):
        """Return the sum, to which no more is added: 0 of no blocks."""
        if self._sum is None:
            return 0.0
        if self._lost is not None:
            self._sum += self._lost
        mirror(self._sum)
        return self._sum


def add_compensated(total, lost, terms):
    """Add to a total, and what that rounds off to what is lost: in place, in parts that stay in the cache."""
    step = max(1, _CACHED // max(1, np.size(terms[:1])))
    for part in (slice(start, start + step) for start in range(0, len(total), step)):
        before, more = total[part], terms[part]
        after = before + more
        added = after - before
        lost[part] += before - (after - added)  # exactly what was rounded off
        lost[part] += more - added
        before[...] = after


class CompensatedSum:
    """A sum of arrays whose rounding does not grow with their number (Knuth, TwoSum)."""

    def __init__(self):
        self._sum, self._lost = 0.0, None

    @property
    def value(self):
        """The sum so far."""
        return self._sum if self._lost is None else self._sum + self._lost

    def add(self, term):
        """Add one more array, or what another sum has, with what that rounded off."""
        if isinstance(term, CompensatedSum):
            self.add(term._sum)
            if term._lost is not None:
                self._begin_to_lose()
                self._lost += term._lost
            return
        if np.ndim(self._sum) == 0 and self._sum == 0 and self._lost is None:  # nothing, or that of no rows
            self._sum = term
            return
        self._begin_to_lose()
        term = np.broadcast_to(term, self._sum.shape)
        add_compensated(*(values.reshape(-1) for values in (self._sum, self._lost, term)))

    def _begin_to_lose(self):
        if self._lost is None:  # what was added first is not ours to write to
            self._sum, self._lost = np.array(self._sum, order="C"), np.zeros(np.shape(self._sum))
