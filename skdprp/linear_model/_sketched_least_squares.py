"""Tables [X, 1, y] by blocks of rows: clipped, with noise, projected by a secret matrix, reduced to least squares."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from .. import _noise

_BLOCK_ENTRIES = 2**18  # of float64, which fit the cache


def clip_entries(X, max_abs):
    """Clip the entries of X, dense or CSR, to [-max_abs, max_abs], in float64; never X itself."""
    if not sp.issparse(X):
        return np.clip(X, -max_abs, max_abs, dtype=np.float64)
    X = sp.csr_array((X.data.astype(np.float64), X.indices.copy(), X.indptr.copy()), shape=X.shape)
    X.sum_duplicates()  # an entry is the sum of its parts
    np.clip(X.data, -max_abs, max_abs, out=X.data)
    return X


def to_unit_size(y):
    """Return targets of at most 1, and the exponent of the power of two that they were divided by.

    Near the ends of the floats, entries of X would decide what overflows and what has no digits. The power of two
    depends on y alone, which is not protected.
    """
    exponent = np.frexp(np.abs(y).max())[1]
    return np.ldexp(y, -exponent), exponent


def column_residual(X, max_abs):
    """Quantity f(X) of the published calibration, read from the data.

    The root of the least, over the columns, sum of squares without the largest square.
    """
    total = largest = np.zeros(X.shape[1])
    for rows in _row_blocks(X):
        squares = clip_entries(X[rows], max_abs) ** 2
        total = total + np.asarray(squares.sum(axis=0)).ravel()
        block_largest = squares.max(axis=0)
        largest = np.maximum(largest, block_largest.toarray().ravel() if sp.issparse(squares) else block_largest)
    return float(np.sqrt(max(0.0, (total - largest).min())))


def noisy_blocks(X, public, *, max_abs, scale):
    """Yield blocks of [X + noise, public], of clipped entries and with fresh noise, unless its scale is 0."""
    for rows in _row_blocks(X):
        block = clip_entries(X[rows], max_abs)
        block = block.toarray(order="C") if sp.issparse(block) else np.ascontiguousarray(block)
        if scale:
            _noise.add_gaussian(block, scale)
        yield np.hstack([block, public[rows]])


def triangle(blocks):
    """Reduce a table of many rows to few that have the same Gram matrix, by Householder reflections.

    ``A = Q R`` with orthonormal columns of Q. Gram matrices themselves would lose half of the digits.
    """
    R = None
    for block in blocks:
        R = np.linalg.qr(block if R is None else np.vstack([R, block]), mode="r")
    return R


def project(X, public, *, n_components, max_abs, scale):
    """Multiply a table by a secret Gaussian matrix and add noise: ``[S X + noise, S public]``, of clipped entries.

    Notes
    -----
    If the table has at most n' columns, a factor takes its place. With ``public = Q1 R`` and ``X = Q1 A + Q2 B``, where
    the columns of Q1 and Q2 are orthonormal, ``S public = G1 R`` and ``S X = G1 A + G2 B``. ``[G1, G2] = S [Q1, Q2]``,
    the product of a Gaussian matrix and orthonormal columns, is again a matrix of independent standard normal variates.
    The joint distribution of the release is the same, and at most as many variates as it has entries are drawn instead
    of ``n' n``. R is computed without X, so that no bit of ``S public``, which gets no noise, depends on X.
    """
    n_samples, n_features = X.shape
    n_public = public.shape[1]
    if n_features + n_public <= n_components:  # [G1 A + G2 B, G1 R] of the factors with the public columns first
        R = _without_signs(triangle(public[rows] for rows in _row_blocks(public)))
        blocks = noisy_blocks(X, public, max_abs=max_abs, scale=0.0)
        joint = _without_signs(triangle(np.roll(block, n_public, axis=1) for block in blocks))
        G = _secret_columns(n_components, 0, len(joint))
        projected = np.hstack([G @ joint[:, n_public:], G[:, :n_public] @ R])
    else:
        projected = np.zeros((n_components, n_features + n_public))
        for rows in gen_batches(n_samples, max(1, _BLOCK_ENTRIES // n_components)):
            S = _secret_columns(n_components, rows.start, rows.stop)
            projected[:, :n_features] += S @ clip_entries(X[rows], max_abs)
            projected[:, n_features:] += S @ public[rows]
    noisy = np.ascontiguousarray(projected[:, :n_features])  # noise is added in place
    _noise.add_gaussian(noisy, scale)  # a scale of 0 is that of the published calibration alone
    projected[:, :n_features] = noisy
    return projected


def _without_signs(R):
    """Turn the rows of a triangle to a diagonal that is not negative, for triangles of one matrix to be the same."""
    return np.where(np.diag(R) < 0, -1.0, 1.0)[:, None] * R


def _row_blocks(X):
    """Blocks of some rows more than there are columns, so that reducing one to a triangle makes it smaller."""
    return gen_batches(X.shape[0], max(4 * X.shape[1], _BLOCK_ENTRIES // X.shape[1]))


def _secret_columns(n_components, start, stop):
    """Draw columns start to stop of S: used once, stored nowhere."""
    return _noise.draw_gaussian((n_components, stop - start), 1.0)
