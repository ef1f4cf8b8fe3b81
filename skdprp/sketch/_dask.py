"""Sketches of dask collections: lazy, chunk by chunk, each computation a release of its own.

dask names a task after what it computes, takes equal names for equal results, and makes a lost result again. A release
is no such thing: it has noise of its own each time. So each call of `transform` gets a name of its own, its chunks draw
their noise where and when they are computed, and what is computed together shares one draw of each.
"""

from contextvars import Context
from uuid import uuid4

import numpy as np

from .._lazy import SHUFFLED, is_lazy_frame, output_container, shuffles
from ..ledger._ledger import Rows, current_rows

RELEASED_LAZILY = set()  # names of fits of which lazy sketches have been in this process


class _Release:
    """One call of `transform`: the sketch as it was then, and a name that no other call has."""

    def __init__(self, sketch, nothing):
        self.sketch = sketch
        self.nothing = nothing
        self.name = f"dask {uuid4().hex}"
        self.rows = current_rows()
        RELEASED_LAZILY.add(sketch._fit_name)

    def __setstate__(self, state):
        vars(self).update(state)
        RELEASED_LAZILY.add(self.sketch._fit_name)  # which another process may have released, by a copy of the sketch

    def __dask_tokenize__(self):
        return self.name

    def __call__(self, chunk, place):
        """Release a chunk; an empty context has no seed, so that the noise is from the kernel on every scheduler."""
        return Context().run(self._transform, chunk, place) if chunk.shape[0] else self.nothing

    def _transform(self, chunk, place):
        from ._base import BaseSketch

        with Rows((*self.rows, ("", self.name, str(place))), are_all=True):
            return BaseSketch.transform(self.sketch, chunk)  # the rows have passed what a subclass does before


def release_lazily(sketch, X, dtype):
    """Return a dask array that releases each chunk of rows of X, by a fitted sketch that nobody changes later."""
    # A dataframe of scikit-learn would load all sketches at once.
    if (container := output_container(sketch)) != "default":
        raise ValueError(
            f'Sketches of a dask collection are a dask array, and none of {container}: set_output(transform="default").'
        )
    if shuffles(X):  # chunk by chunk a ledger would take rows for others that are dealt to two of them
        raise ValueError(SHUFFLED)
    meta = np.empty((0, sketch._n_features_out), dtype)
    release = _Release(sketch, meta)
    if is_lazy_frame(X):
        return _map_chunks(release, X.optimize(), (np.nan,) * X.npartitions, meta)
    rows = X.rechunk({1: -1})
    return _map_chunks(release, rows, rows.chunks[0], meta)


def _map_chunks(release, rows, lengths, meta):
    """Return a dask array with a task of its own for each chunk of rows."""
    from dask.array import Array
    from dask.core import flatten
    from dask.highlevelgraph import HighLevelGraph

    from ._dask_task import ReleaseLayer, release_task

    name = f"release-{release.name.split()[1]}"
    chunks = {(name, i, 0): chunk for i, chunk in enumerate(flatten(rows.__dask_keys__()))}
    tasks = {key: release_task(key, release, chunk, key[1]) for key, chunk in chunks.items()}
    graph = HighLevelGraph.from_collections(name, ReleaseLayer(tasks), dependencies=[rows])
    return Array(graph, name, chunks=(lengths, (meta.shape[1],)), meta=meta)
