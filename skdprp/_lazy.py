"""Collections of dask: whether rows are one, what is known of them before anything is computed, and maps of rows."""

import re
import sys
from contextvars import ContextVar
from copy import copy
from functools import wraps
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

SAME_ORDER = "X, y and groups of a dask collection hold the same rows in one order whenever they are computed"
RELEASED_AGAIN = (
    "X, y or groups come from lazy sketches, which each pass over them would release again: persist or compute them "
    "first."
)
SHUFFLED = (
    "X, y or groups come from a shuffle, as of a merge or a sort, or from a sample of a bag, which may have other rows "
    "or another order each time that it is computed: persist() the table as a whole first, and take its columns then."
)
_TOGETHER = 8  # results that are joined at once
_FITS = ContextVar("whether rows that are transformed go on to a fit", default=False)
# The last ones of bags, which draw anew; also in the name of a task that others are fused into.
_SHUFFLE = re.compile("shuffle|p2p|partd|groupby-(part|collect)|finalize_sample|sample_(map|reduce|with_replacement)")
# Arrays in other chunks, or by places that are given; and parts on disk, which have new names each time that a graph is
# made, where what comes of them has not.
_IN_A_FIXED_ORDER = re.compile("rechunk-|shuffle-(part|barrier|taker|sorter|split|[0-9a-f]{32}$)")


def is_lazy(X):
    """Whether X is a dask collection, which only who has imported dask can hold."""
    return "dask" in sys.modules and sys.modules["dask"].is_dask_collection(X)


def is_lazy_frame(X):
    """Whether a collection is a dataframe."""
    return hasattr(X, "_meta_nonempty") and hasattr(X, "columns")


def holds_releases(collection):
    """Whether to compute a collection releases something, as of a lazy sketch that was not persisted."""
    tasks = dict(collection.__dask_graph__()).values()
    return any(type(task).__name__ == "ReleaseTask" for task in tasks)  # of a higher layer


def shuffles(collection):
    """Return the tasks that shuffle rows, as merges and sorts do, into another order each time, or draw them anew."""
    if not hasattr(collection, "rechunk"):  # a frame, as its columns are before each is optimised by itself
        collection = collection.to_delayed(optimize_graph=False)[0]
    graph = dict(collection.__dask_graph__())
    by_name = {key: str(key[0] if isinstance(key, tuple) else key) for key in graph}
    named = (key for key, name in by_name.items() if _SHUFFLE.search(name) and not _IN_A_FIXED_ORDER.match(name))
    # Of what was persisted only the names are left. A task that draws a sample may have read its rows itself.
    depends, found = sys.modules["dask"].core.get_dependencies, set()
    for key in named:
        entry = graph[key]
        is_task = type(entry).__name__ == "Task" or (type(entry) is tuple and len(entry) > 0 and callable(entry[0]))
        if depends(graph, key) or ("sample" in by_name[key] and is_task):
            found.add(key)
    return found


def check_same_order(*collections):
    """Refuse collections that are shuffled each by itself: a row may come at other places in one than in another."""
    if len({frozenset(shuffles(one)) for one in collections}) > 1:
        raise ValueError(SHUFFLED)


def stand_in(X):
    """Return rows with the width, names and dtypes of a dask array or dataframe, and none of its values."""
    if is_lazy_frame(X):
        return X._meta_nonempty.bfill().ffill()  # dask has a missing value in nullable columns
    if not (hasattr(X, "_meta") and hasattr(X, "map_blocks")) or X.ndim != 2:
        raise ValueError(f"Expected a dask array with two dimensions or a dask dataframe, got {type(X).__name__}.")
    dtype = np.float64 if X.dtype in (np.float16, object) else X.dtype.newbyteorder("=")  # that sparse rows may have
    return sp.csr_array((1, X.shape[1]), dtype=dtype)


def partitions(X, *others):
    """Delayed partitions of the rows of a dask array or dataframe, and of what goes with them, or None for each.

    None is optimised by itself: each would read a file of its own, or shuffle its columns into an order of its own.
    """
    given = [collection for collection in (X, *others) if collection is not None]
    if not all(map(is_lazy, given)):
        raise TypeError("X is a dask collection, and y or groups is not: make all of them one.")
    if any(map(holds_releases, given)):
        raise ValueError(RELEASED_AGAIN)
    check_same_order(*given)
    parts = [None if collection is None else _delayed(collection, X) for collection in (X, *others)]
    if len({len(some) for some in parts if some is not None}) > 1:
        raise ValueError("X, y and groups should have the same partitions.")
    return [[None] * len(parts[0]) if some is None else some for some in parts]


def _delayed(collection, X):
    """Delayed partitions of a dataframe, or of an array that is cut into rows as X is, where that is known."""
    if not hasattr(collection, "rechunk"):
        return collection.to_delayed(optimize_graph=False)
    rows = X.chunks[0] if hasattr(X, "chunks") else collection.chunks[0]
    try:
        whole = collection.rechunk({0: rows, 1: -1} if collection.ndim > 1 else {0: rows})
    except ValueError:  # which says how many rows there are
        whole = None
    if whole is None:
        raise ValueError("X, y and groups should have the same rows.")
    return whole.to_delayed(optimize_graph=False).ravel().tolist()


def map_rows(function, X, nothing):
    """Return a dask array of what a function makes of each chunk of rows, each time that it is computed.

    The function is called on whole rows, and not on empty chunks, of which `nothing` comes: its type is that of all.
    """
    nothing = _of_dask(nothing)
    on_chunk = _OnChunk(function, nothing)
    if is_lazy_frame(X):
        import dask.array as da

        task, shape = sys.modules["dask"].delayed(on_chunk, pure=True), (np.nan, *nothing.shape[1:])
        # Optimised by itself, a table in files is read in the columns that are used, and no longer shared with others.
        parts = X.to_delayed(optimize_graph=not _FITS.get())
        chunks = [da.from_delayed(task(part), shape, dtype=nothing.dtype, meta=nothing) for part in parts]
        return da.concatenate(chunks, allow_unknown_chunksizes=True)
    rows = X.rechunk({1: -1})
    chunks = (rows.chunks[0], *((width,) for width in nothing.shape[1:]))
    dropped = 1 if nothing.ndim == 1 else None
    return rows.map_blocks(on_chunk, dtype=nothing.dtype, meta=nothing, chunks=chunks, drop_axis=dropped)


class LazyTransformerMixin(TransformerMixin):
    """Rows of dask dataframes: what `transform` returns reads used columns only, and goes on to no fit with targets."""

    def fit_transform(self, X, y=None, **fit_params):
        """Fit to rows, and transform them.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.
        y : array-like or None, default=None
            Targets, as `fit` takes them.
        **fit_params : dict
            Other parameters of `fit`.

        Returns
        -------
        {ndarray, sparse matrix, dask array}
            What `transform` returns. That of a dask dataframe shares its computation with targets of the same table,
            which are then read once, with their rows.
        """
        before = _FITS.set(True)
        try:
            return super().fit_transform(X, y, **fit_params)
        finally:
            _FITS.reset(before)


def by_chunks(method):
    """Let a method of rows return a lazy dask array for a dask collection: of each chunk, whenever it is computed."""

    @wraps(method)
    def _method(self, X):
        if not is_lazy(X):
            return method(self, X)
        check_is_fitted(self)
        nothing = method(self, stand_in(X))[:0]
        return map_rows(getattr(as_it_is_now(self), method.__name__), X, nothing)

    return _method


def output_container(estimator):
    """What scikit-learn is told to put transformed rows in: "default", or a kind of dataframe."""
    config = getattr(estimator, "_sklearn_output_config", {})
    return config.get("transform", get_config()["transform_output"])


def as_it_is_now(estimator):
    """Copy an estimator, of whose chunks none shall tell what became of it before they are computed."""
    container = output_container(estimator)
    if not hasattr(estimator, "set_output"):
        return copy(estimator)
    # A dataframe of scikit-learn would load all rows at once.
    if container != "default":
        raise ValueError(f'Rows of dask collections are dask arrays: set_output(transform="{container}") is not.')
    return copy(estimator).set_output(transform="default")  # whatever is the default of a worker


def computed(*collections):
    """Compute dask collections together, and return all else as it is."""
    check_same_order(*filter(is_lazy, collections))
    return sys.modules["dask"].compute(*collections) if any(map(is_lazy, collections)) else collections


def compute_joined(tasks, join=None):
    """Compute tasks; or what `join` makes of a few results, of such results again, and so on, where they lie.

    Nobody then holds the results of all tasks at once, as of counts that take more memory than the rows.
    """
    dask = sys.modules["dask"]
    while join is not None and len(tasks) > _TOGETHER:
        starts = range(0, len(tasks), _TOGETHER)
        tasks = [dask.delayed(join, pure=False)(tasks[start : start + _TOGETHER]) for start in starts]
    return dask.compute(*tasks)


class _OnChunk:
    """A function of rows, by a name of its own: dask finds none for an estimator whose states equal no others."""

    def __init__(self, function, nothing):
        self.function, self.nothing, self.name = function, nothing, uuid4().hex

    def __dask_tokenize__(self):
        return self.name

    def __call__(self, chunk):
        return _of_dask(self.function(chunk)) if chunk.shape[0] else self.nothing


def _of_dask(rows):
    """Return sparse rows as a matrix of scipy: of its sparse arrays, only new versions of dask know what they are."""
    return sp.csr_matrix(rows) if sp.issparse(rows) else rows
