"""Products of rows by a matrix that round a row in one way, wherever it lies among the others.

Linear algebra libraries sum the products of some rows of a block in another order than those of the others: the last
ones, or those at which a thread ends. A row that is in a random batch or not moves the others by a place, and where
rounding decides between two classes, all their gradients could turn.
"""

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

_TRIED = 100  # numbers in the products of a row, besides five rows
_LINE = 64  # bytes: where a row starts in a line of memory may decide how it is summed


def row_products(X, W):
    """Multiply rows by a matrix, each row as if it were alone.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        Rows.
    W : ndarray of shape (n_features, width)
        The matrix.

    Returns
    -------
    ndarray of shape (n_rows, width)
        By one product of matrices where trials of the same shapes rounded equal rows alike, otherwise row by row.
    """
    if sp.issparse(X) or _rounds_rows_alike(X.shape, W.shape[1], X.dtype, W.flags.c_contiguous):
        return X @ W
    return np.matmul(_aligned(X)[:, None, :], W)[:, 0]


def try_products_again():
    """Forget earlier trials: the number of threads may be another."""
    _rounds_rows_alike.cache_clear()


@lru_cache
def _rounds_rows_alike(shape, width, dtype, in_rows):
    """Whether a product of matrices gives equal rows equal results; tried with sums that show their order."""
    if width == 1:  # one number shows little, and its rounding may depend on where the row lies in memory
        return False
    for trial in range(1, 6 + _TRIED // width):
        W = _numbers_of_many_sizes(shape[1] * width, 0.7 * trial).reshape(-1, width)
        row = _numbers_of_many_sizes(shape[1], trial).astype(dtype)
        products = np.tile(row, (shape[0], 1)) @ np.asarray(W, dtype, order="C" if in_rows else "F")
        if (products != products[0]).any():
            return False
    return True


def _numbers_of_many_sizes(size, frequency):
    places = np.arange(size)
    return np.cos(frequency * places) * np.exp2(7.0 * places % 19 - 9)


def _aligned(X):
    """Copy of rows that all start at the beginning of a line of memory."""
    per_row = -(-X.shape[1] * X.itemsize // _LINE) * _LINE
    memory = np.empty(len(X) * per_row + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    lines = memory[start : start + len(X) * per_row].view(X.dtype).reshape(len(X), -1)[:, : X.shape[1]]
    lines[:] = X
    return lines
