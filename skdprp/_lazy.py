"""Collections of dask: whether rows are one, and what can be said of them before anything is computed."""

import sys

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
