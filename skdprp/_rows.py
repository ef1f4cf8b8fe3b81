"""Rows as vectors: sparse ones in one form, clipped and scaled ones, and how many there are, in memory or in chunks."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.utils import assert_all_finite, extmath

from ._errors import silent, without_values
from ._lazy import is_lazy


def canonical_csr(X):
    """Return sparse rows as CSR, each entry once and in the order of its column, whatever their format.

    What is computed from them is then a function of the rows as vectors, and not of how they are stored. Entries that
    are stored several times are summed exactly, and rounded once, to float64, unless they are whole numbers: any other
    sum would depend on the order, or on how a number is split. Entries of other types than `FLOATS` are left to be
    converted, and those that are not finite or not real to be refused, by the validation that follows. A view of X
    where it can be.
    """
    if X.ndim != 2 or X.dtype.kind == "c":
        return X
    rows = _stored_entries(X)  # whose flags are computed anew: those of X may say what is not so
    if not rows.has_canonical_format:
        # Places are sorted by column, in a copy, instead of values: scipy sorts fewer types than it holds.
        order = sp.csr_array((np.arange(rows.nnz), rows.indices.copy(), rows.indptr), shape=rows.shape)
        order.sort_indices()
        rows = _sum_repeated(sp.csr_array((rows.data[order.data], order.indices, rows.indptr), shape=rows.shape))
    ends = np.concatenate([rows.indptr[:-1], rows.indptr[1:] - 1])[np.tile(np.diff(rows.indptr) > 0, 2)]
    if not ((rows.indices[ends] >= 0) & (rows.indices[ends] < X.shape[1])).all():
        raise ValueError("X is damaged: an entry lies in a column that it does not have.")  # W has no row for it
    return sp.csr_matrix(rows) if isinstance(X, sp.spmatrix) else rows


def _stored_entries(X):
    """CSR of all entries as they are stored: nothing is summed, and no flag set."""
    if X.format in ("csr", "csc"):  # of which scipy believes what they say, and reads and writes beside them
        n_entries, lengths = min(len(X.indices), len(X.data)), np.diff(X.indptr)
        if X.indptr[0] != 0 or (lengths < 0).any() or X.indptr[-1] > n_entries:
            raise ValueError("X is damaged: its pointers are not those of its entries.")
        if X.format == "csc" and n_entries and not 0 <= X.indices.min() <= X.indices.max() < X.shape[0]:
            raise ValueError("X is damaged: an entry lies in a row that it does not have.")
    X = X.tocsr() if X.format == "csc" else X  # which keeps repeated entries apart, where others would sum them
    if X.format == "csr":
        size = X.indptr[-1]
        return sp.csr_array((X.data[:size], X.indices[:size], X.indptr), shape=X.shape)
    X = X.tocoo()
    order = np.argsort(X.row, kind="stable")
    pointers = np.append(0, np.cumsum(np.bincount(X.row, minlength=X.shape[0])))
    return sp.csr_array((X.data[order], X.col[order], pointers), shape=X.shape)


def _sum_repeated(X):
    """Sum what sorted rows hold several times."""
    # Where an entry begins: another column than before, or a row that is not empty.
    begins = np.diff(X.indices, prepend=-1) != 0
    begins[X.indptr[:-1][np.diff(X.indptr) > 0]] = True
    if begins.all():
        return X
    first, kind = np.flatnonzero(begins), X.dtype.kind if X.dtype.itemsize <= 8 else "O"
    # Whole numbers stay what they are: as floats those beyond 2^53 would be equal, in all rows, for one of two parts.
    types = {"b": np.bool_, "i": np.int64, "u": np.uint64}
    sums, lengths = X.data[first].astype(types.get(kind, np.float64)), np.diff(first, append=X.nnz)
    repeated = lengths > 1  # few as a rule: only these are summed in Python
    numbers = X.data[np.repeat(repeated, lengths)].tolist()
    ends = pairwise([0, *np.cumsum(lengths[repeated]).tolist()])
    try:
        sums[repeated] = [_exact_sum(numbers[start:stop], kind) for start, stop in ends]
    except OverflowError:
        raise ValueError("X has an entry that is stored in several parts, and is too large for 64 bits.") from None
    return sp.csr_array((sums, X.indices[first], np.append(0, np.cumsum(begins))[X.indptr]), shape=X.shape)


def _exact_sum(numbers, kind):
    """Sum in real numbers, rounded once to a float; of whole numbers, as they are; of truth values, if one is true.

    What is not finite stays so: a sum might hide that an entry is infinite.
    """
    floats = list(map(float, numbers)) if kind in ("f", "O") else []
    if not all(map(math.isfinite, floats)):
        return math.inf if any(map(math.isinf, floats)) else math.nan
    try:
        if kind == "f":
            return math.fsum(numbers)
        if kind in "iu":
            return sum(numbers)
        if kind == "b":
            return any(numbers)
        return float(sum(Fraction(*number.as_integer_ratio()) for number in numbers))
    except OverflowError:
        return math.inf


@silent
def clip_rows(X, max_norm, *, copy=True, out=None):
    """Clip rows, dense or CSR, to a norm of at most `max_norm`; return them in float64, row by row.

    Row by row, because linear algebra then rounds a row in one way in every block. Repeated entries are summed before
    norms are taken. Without `copy`, X itself is returned where it is all of that already, and nobody writes into it.
    A copy of dense rows begins `out`, if that is given. Rows that are not finite are refused.
    """
    given = X
    if sp.issparse(X):
        X = sp.csr_array((X.data.astype(np.float64), X.indices.copy(), X.indptr.copy()), shape=X.shape)
        X.sum_duplicates()
    elif copy or X.dtype != np.float64 or not X.flags.c_contiguous:
        X = _copied(X, out)
    norms = extmath.row_norms(X)
    # The computed norm may be below the true one: the sensitivity rests on the true one, so that the limit is less.
    limit = max_norm * (1 - (X.shape[1] + 8) * 2.0**-52)
    if (norms <= limit).all():
        return X
    is_huge = ~np.isfinite(norms)  # the squares overflow, and so may the norm itself
    if is_huge.any():
        with config_context(assume_finite=False):
            without_values(assert_all_finite, X, input_name="X")
        X = _copied(X, out) if X is given else X
        # Exact but for numbers near 0; the other factor is then a normal number, with all its digits.
        scale_rows(X, np.where(is_huge, 2.0**-600, 1.0))
        norms = extmath.row_norms(X)
    factors = limit / np.where(is_huge, norms, np.maximum(norms, limit))
    if X is given:  # in one pass
        return np.multiply(X, factors[:, None], out=None if out is None else out[: len(X)])
    scale_rows(X, factors)
    return X


def _copied(X, out):
    if out is None:
        return X.astype(np.float64, order="C")
    out[: len(X)] = X
    return out[: len(X)]


def array_for_blocks(X, size):
    """Return an array for copies of dense rows, so many at a time: none of sparse ones.

    A new array for each block costs more than all that is computed with it, where memory goes back to the system at
    once, as in workers of dask.
    """
    return None if sp.issparse(X) else np.empty((min(size, X.shape[0]), X.shape[1]))


def scale_rows(X, factors):
    """Multiply each row by its factor, in place."""
    if sp.issparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr))
    else:
        X *= factors[:, None]


def number_of_rows(X):
    """Return how many rows an array, a sparse matrix, a frame or a list has."""
    if not hasattr(X, "shape"):
        return len(X)
    if not X.shape:
        raise TypeError("X is one number, and has no rows.")
    return X.shape[0]


def float_type(X, rows):
    """Return the type that rows came in: repeated entries of float32 are summed in float64."""
    return np.dtype(np.float32) if sp.issparse(X) and X.dtype == np.float32 else rows.dtype


def has_rows(X):
    """Whether a chunk is none that is known to be empty, such as what a filter leaves of a file."""
    return is_lazy(X) or getattr(X, "shape", (1,))[:1] != (0,)


def chunks_with_rows(chunks):
    """Leave out tuples of X, and of what belongs to it, that have no rows; where none has any, keep the last.

    It is refused as any table without rows is.
    """
    last, none_yet = [], True
    for chunk in chunks:
        last = [chunk]
        if has_rows(chunk[0]):
            none_yet = False
            yield chunk
    yield from last * none_yet


def in_given_type(X, rows):
    """Return validated rows in the type that they came in, on which the noise of a model may depend."""
    if (dtype := float_type(X, rows)) == rows.dtype:
        return rows
    limits = np.finfo(dtype)  # which sums of repeated entries are cut to, as no row is refused for them
    data = np.clip(rows.data, limits.min, limits.max).astype(dtype)
    return type(rows)((data, rows.indices, rows.indptr), shape=rows.shape)
