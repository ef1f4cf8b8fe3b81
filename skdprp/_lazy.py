"""Collections of dask: whether rows are one, what is known of them before anything is computed, and maps of rows."""

import sys
from functools import partial

import scipy.sparse as sp


def is_lazy(X):
    """Whether X is a dask collection, which only who has imported dask can hold."""
    return "dask" in sys.modules and sys.modules["dask"].is_dask_collection(X)


def is_frame(X):
    """Whether a collection is a dataframe."""
    return hasattr(X, "_meta_nonempty") and hasattr(X, "columns")


def stand_in(X):
    """Return rows with the width, names and dtypes of a dask array or dataframe, and none of its values."""
    if is_frame(X):
        return X._meta_nonempty
    if not (hasattr(X, "_meta") and hasattr(X, "map_blocks")) or X.ndim != 2:
        raise ValueError(f"Expected a dask array with two dimensions or a dask dataframe, got {type(X).__name__}.")
    return sp.csr_array((1, X.shape[1]), dtype=X.dtype)


def map_rows(function, X, nothing):
    """Return a dask array of what a function makes of each chunk of rows, each time that it is computed.

    The function is called on whole rows, and not on empty chunks, of which `nothing` comes: its type is that of all.
    """
    nothing = _of_dask(nothing)
    on_chunk = partial(_on_chunk, function, nothing)
    if is_frame(X):
        return X.map_partitions(on_chunk, meta=nothing)
    rows = X.rechunk({1: -1})
    chunks = (rows.chunks[0], (nothing.shape[1],))
    return rows.map_blocks(on_chunk, dtype=nothing.dtype, meta=nothing, chunks=chunks)


def _on_chunk(function, nothing, chunk):
    return _of_dask(function(chunk)) if chunk.shape[0] else nothing


def _of_dask(rows):
    """Return sparse rows as a matrix of scipy: of its sparse arrays, only new versions of dask know what they are."""
    return sp.csr_matrix(rows) if sp.issparse(rows) else rows
