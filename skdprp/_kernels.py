"""The loops behind public projections: random words by their counters, and products with W as it is made."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_PHILOX_FACTORS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_PHILOX_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
SIGNS_OF_BYTE = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


def read_only(matrix):
    """Make an array, or the arrays of a CSR matrix, read-only: noise is calibrated for what they hold."""
    for array in (matrix.data, matrix.indices, matrix.indptr) if sp.issparse(matrix) else (matrix,):
        array.flags.writeable = False
    return matrix


def rows_of(X, rows):
    """Some rows of an array, or of a CSR matrix in float64: a view where it can be, not to be written to."""
    if not sp.issparse(X):
        return X[rows]
    # Indexing of a sparse X would copy its entries.
    start, stop = X.indptr[rows.start], X.indptr[rows.stop]
    data = X.data[start:stop].astype(np.float64, copy=False)
    entries = data, X.indices[start:stop], X.indptr[rows.start : rows.stop + 1] - start
    return sp.csr_array(entries, shape=(rows.stop - rows.start, X.shape[1]))


# Random words


def philox(features, blocks, seed):
    """Philox4x32-10 [1]_: two random words for each feature and block, uint64 of shape (n_features, 2 * blocks).

    The features are the first words of the counters, the range of blocks their second ones, and the 128 bits of the
    seed the key of the generator and the other words of the counters.

    References
    ----------
    .. [1] J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
    """
    key = [np.uint64(seed >> shift & 0xFFFFFFFF) for shift in (0, 32)]
    c0 = np.repeat(features.astype(np.uint64), blocks)
    c1 = np.tile(np.arange(blocks, dtype=np.uint64), len(features))
    c2, c3 = (np.full_like(c0, seed >> shift & 0xFFFFFFFF) for shift in (64, 96))
    left, right = np.empty_like(c0), np.empty_like(c0)
    for _ in range(10):
        np.multiply(c0, _PHILOX_FACTORS[0], out=left)
        np.multiply(c2, _PHILOX_FACTORS[1], out=right)
        _philox_half(right, c1, key[0], out=c0)
        _philox_half(left, c3, key[1], out=c2)
        key = [k + w & _LOW for k, w in zip(key, _PHILOX_WEYL, strict=True)]
    return np.stack([c0 | c1 << _HALF, c2 | c3 << _HALF], axis=1).reshape(len(features), 2 * blocks)


def _philox_half(product, other, key, *, out):
    """Half a round, in place: ``out, other = high(product) ^ other ^ key, low(product)``."""
    np.right_shift(product, _HALF, out=out)
    np.bitwise_xor(out, other, out=out)
    np.bitwise_xor(out, key, out=out)
    np.bitwise_and(product, _LOW, out=other)


def uniform(words):
    """Uniform numbers strictly between 0 and 1, symmetric around 1/2."""
    # 52 bits and the half are 53 digits: no sum rounds to 1, of which a quantile would be infinite.
    return ((words >> np.uint64(12)) + 0.5) * 2.0**-52


# Sums of bins: signs are put into the entries, and `toarray` adds up what meets in a bin, in the order of the row


def bin_sums_of_sparse(X, slices, code, n_bins):
    """Yield blocks of CSR rows with the signed sums of their bins, all in one workspace; see `OPORPProjection.code`."""
    most = max((int(X.indptr[rows.stop] - X.indptr[rows.start]) for rows in slices), default=0)
    codes, values, converted = np.empty(most, code.dtype), np.empty(most, X.dtype), np.empty(most)
    out, word = np.empty((_longest(slices), n_bins)), np.dtype(f"u{X.dtype.itemsize}")
    entries = None
    for rows in slices:
        start, stop, size = X.indptr[rows.start], X.indptr[rows.stop], rows.stop - rows.start
        if entries is None or entries.shape[0] != size:  # only the last block has another size
            entries = sp.csr_array((size, n_bins))
        bins, signed = codes[: stop - start], values[: stop - start]
        np.take(code, X.indices[start:stop], mode="clip", out=bins)  # other modes copy what they write to
        # The lowest bit of a code goes to that of the sign: values are negated where it is odd.
        flips = signed.view(word)
        np.left_shift(bins.view(np.uint32), word.type(8 * word.itemsize - 1), out=flips, dtype=word)
        np.bitwise_xor(flips, X.data[start:stop].view(word), out=flips)
        np.right_shift(bins, 1, out=bins)
        # Signs are exact in any type, sums are not: they are taken in float64.
        if signed.dtype != np.float64:
            converted[: stop - start] = signed
            signed = converted[: stop - start]
        entries.data, entries.indices, entries.indptr = signed, bins, X.indptr[rows.start : rows.stop + 1] - start
        yield rows, entries.toarray(out=out[:size])


def bin_sums_of_dense(X, slices, code, n_bins):
    """Yield blocks of dense rows with the signed sums of their bins: as if all their numbers were stored entries."""
    n_features, largest = len(code), _longest(slices)
    signed, out = np.empty((largest, n_features)), np.empty((largest, n_bins))
    # In the type of X, so that float32 is not converted first; integers would wrap where a sign changes.
    signs = (1 - 2 * (code & 1)).astype(X.dtype if X.dtype.kind == "f" else np.float64)
    entries = None
    for rows in slices:
        size = rows.stop - rows.start
        if entries is None or entries.shape[0] != size:  # only the last block has another size
            bins = np.tile(code >> 1, size)
            pointers = np.arange(size + 1, dtype=bins.dtype) * bins.dtype.type(n_features)
            entries = sp.csr_array((np.empty(bins.size), bins, pointers), shape=(size, n_bins))
        entries.data = np.multiply(X[rows], signs, out=signed[:size]).reshape(-1)
        yield rows, entries.toarray(out=out[:size])


def _longest(slices):
    return max((rows.stop - rows.start for rows in slices), default=0)


# Products with signs that are made from bits as they are needed


def product_with_signs(X, bits_of, n_components, few):
    """Multiply CSR rows by a matrix of signs, of which `bits_of` returns rows as bytes, making `few` of them at a time.

    The rows of the matrix for few entries of one row of X at a time: its rounding does not depend on other rows of X.
    """
    out = np.zeros((X.shape[0], n_components))
    values, signs = np.empty(few), np.empty((few, -(-n_components // 8), 8))
    matrix = signs.reshape(few, -1)[:, :n_components]
    for start, stop, pieces in _pieces_of_rows(X.indptr, few, 16 * few):
        bits = bits_of(X.indices[start:stop])
        for row, first, last in pieces:
            size = last - first
            values[:size] = X.data[first:last]
            np.take(SIGNS_OF_BYTE, bits[first - start : last - start], axis=0, mode="clip", out=signs[:size])
            out[row] += values[:size] @ matrix[:size]
    return out


def _pieces_of_rows(pointers, few, many):
    """Cut the entries of each row, from its first on, in pieces of at most `few`; group pieces of about `many` entries.

    Yields the first entry of a group, the one after its last, and its pieces in order, each as (row, start, stop).
    """
    per_row = -(-np.diff(pointers) // few)
    row = np.repeat(np.arange(len(per_row)), per_row)
    start = pointers[row] + few * (np.arange(len(row)) - np.repeat(np.cumsum(per_row) - per_row, per_row))
    stop = np.minimum(start + few, pointers[row + 1])
    groups = np.flatnonzero(np.diff(start // many, prepend=-1, append=-1))
    for group in (slice(*ends) for ends in pairwise(groups)):
        pieces = zip(row[group].tolist(), start[group].tolist(), stop[group].tolist(), strict=True)
        yield start[group][0], stop[group][-1], pieces
