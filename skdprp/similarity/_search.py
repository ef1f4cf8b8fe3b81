"""Exhaustive nearest-neighbour search on sign sketches: HammingNeighbors."""

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches, gen_even_slices
from sklearn.utils.validation import check_is_fitted

from .._threads import in_threads
from .._validation import SKETCH_CONSTRAINTS, PythonNumbersMixin, _fit_context
from ._estimates import as_array, is_release

_ROWS, _QUERIES = 1 << 15, 16  # compared at a time: one word of each of the rows stays in the cache
_LINE = 64  # bytes
_SAMPLE = 2048  # distances that bound the k-th smallest of all
_WORDS_PER_BYTE = 3  # that many words differ in at most 192 bits, which a byte can count


def _as_sketches(S):
    """Return sign sketches as an array, or refuse them."""
    S = as_array(S)
    if S.ndim != 2:
        raise ValueError(f"Sign sketches need two dimensions, got shape {S.shape}.")
    if S.dtype not in (np.uint8, np.int8):
        raise ValueError(
            f"This needs sign sketches: bits packed in uint8, or int8 signs; got {S.dtype}. SketchNeighbors searches "
            "numbers, and takes plain rows as queries. Here sketch these first: sketch.transform(rows), or of a loaded "
            "release, release.estimator.transform(rows)."
        )
    return S


def _as_bits(S):
    """Signs, or packed bits, as packed bits."""
    return S if S.dtype == np.uint8 else np.packbits(S > 0, axis=1)


def _as_words(bits):
    """Packed bits in 64-bit words, filled up with zeros."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def _aligned(bits):
    """Copy packed bits to where a line of the cache begins: of rows of 64 bytes, none lies in two lines."""
    memory = np.empty(bits.size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    copy = memory[start : start + bits.size].reshape(bits.shape)
    copy[:] = bits
    return copy


def _count_differences(block, queries, out, differ, counts, totals):
    """Write the Hamming distances of queries to the rows of a block; the last three are overwritten."""
    for i, words in enumerate(block):
        # One word of all rows at a time, for all queries while it is in the cache. The bits of so few words are counted
        # in bytes, and only their sums in a wider type.
        is_first, is_last = i % _WORDS_PER_BYTE == 0, (i + 1) % _WORDS_PER_BYTE == 0 or i + 1 == len(block)
        for word, total, distances in zip(queries[:, i], totals, out, strict=False):
            np.bitwise_xor(words, word, differ)
            np.bitwise_count(differ, total if is_first else counts)
            if not is_first:
                np.add(total, counts, total)
            if is_last:
                np.add(distances, total, distances) if i >= _WORDS_PER_BYTE else np.copyto(distances, total)


def _nearest(distances, n_neighbors):
    """Indices of the smallest distances in order, ties by index.

    The k-th smallest of some distances is a bound on that of all, which few exceed: only these are sorted.
    """
    sample = distances[: max(_SAMPLE, 16 * n_neighbors)]
    bound = np.partition(sample, n_neighbors - 1)[n_neighbors - 1]
    candidates = np.flatnonzero(distances <= bound)
    return candidates[np.argsort(distances[candidates], kind="stable")[:n_neighbors]]


def _nearest_rows(blocks, queries, n_neighbors):
    """Distances and indices of the nearest rows of each query."""
    n_rows, size = sum(block.shape[1] for block in blocks), blocks[0].shape[1]
    differ, counts, totals = np.empty(size, np.uint64), np.empty(size, np.uint8), np.empty((_QUERIES, size), np.uint8)
    distances = np.empty((_QUERIES, n_rows), np.min_scalar_type(64 * queries.shape[1]))
    nearest, indices = np.empty((2, len(queries), n_neighbors), np.int64)
    for start in range(0, len(queries), _QUERIES):
        group = queries[start : start + _QUERIES]
        for block, out in zip(blocks, np.split(distances, range(size, n_rows, size), axis=1), strict=True):
            n = block.shape[1]
            _count_differences(block, group, out, differ[:n], counts[:n], totals[:, :n])
        for i, of_query in enumerate(distances[: len(group)], start):
            indices[i] = _nearest(of_query, n_neighbors)
            nearest[i] = of_query[indices[i]]
    return nearest, indices


def in_slices(search, n_queries, n_jobs):
    """Distances and indices that a search finds for slices of queries in threads."""
    slices = gen_even_slices(max(n_queries, 1), max(1, min(n_jobs, n_queries)))
    distances, indices = zip(*in_threads(search, slices), strict=True)
    return np.concatenate(distances), np.concatenate(indices)


class _Words:
    """Bits arranged for a search by numpy."""

    def __init__(self, bits):
        self._n_bytes = bits.shape[1]
        # In each block one contiguous array for each word: a query is compared with many sketches in one operation.
        words = _as_words(bits)
        self._blocks = [np.ascontiguousarray(words[rows].T) for rows in gen_batches(len(words), _ROWS)]

    def bits(self):
        """Bits as they were given."""
        words = np.ascontiguousarray(np.hstack(self._blocks).T)
        return words.view(np.uint8)[:, : self._n_bytes]

    def search(self, queries, n_neighbors, n_jobs):
        """Distances and indices of the nearest rows, ties by index."""
        queries = _as_words(queries)
        return in_slices(lambda rows: _nearest_rows(self._blocks, queries[rows], n_neighbors), len(queries), n_jobs)

    def __reduce__(self):
        return arrange, (self.bits(),)


class _Faiss:
    """Bits arranged for a search by FAISS, which compiles what numpy does in several passes over memory."""

    def __init__(self, bits):
        import faiss

        # An index of FAISS's own lies where it happens to, and takes a third longer if each row is in two lines.
        self._faiss, self._rows = faiss, _aligned(bits)

    def bits(self):
        """Bits as they were given."""
        return self._rows

    def search(self, queries, n_neighbors, n_jobs):
        """Distances and indices of the nearest rows, ties by index."""
        queries = _aligned(queries)

        def _search(rows):
            # Threads of Python, as FAISS's own wait for each other where the processor is busy with other work.
            before = self._faiss.omp_get_max_threads()
            self._faiss.omp_set_num_threads(1)  # of this thread alone
            try:
                # Rows are scanned in order, and kept if nearer than the last: of ties the first ones stay.
                distances, indices = self._faiss.knn_hamming(queries[rows], self._rows, n_neighbors)
            finally:
                self._faiss.omp_set_num_threads(before)
            return distances.astype(np.int64), indices

        return in_slices(_search, len(queries), n_jobs)

    def __reduce__(self):
        return arrange, (self.bits(),)  # where FAISS is not installed, ours takes over


def arrange(bits):
    """Arrange packed bits for a search, by FAISS where it is installed."""
    try:
        return _Faiss(bits)
    except ImportError:
        return _Words(bits)


NEIGHBORS_CONSTRAINTS = {"n_neighbors": SKETCH_CONSTRAINTS["n_components"], "n_jobs": SKETCH_CONSTRAINTS["n_jobs"]}


class NeighborsMixin(ABC):
    """Offer what a search finds as scikit-learn's `NearestNeighbors` does, and as a graph."""

    def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
        """Find what is nearest to each query among the sketches, or the rows, seen in fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or None, default=None
            Queries. Those of :class:`HammingNeighbors` are sketches by the same projection and in the same form. Those
            of :class:`SketchNeighbors` are rows without noise, scaled as the released ones were before they reached the
            sketch; what has the dtype and width of released bits is refused. Sketches of numbers raise an error, unless
            they have as many components as there are features: then they are taken for rows, and what is found is
            meaningless. None takes the sketches seen in fit, none of which is a neighbour of itself.
        n_neighbors : int or None, default=None
            Number of neighbours; None takes that of the constructor.
        return_distance : bool, default=True
            Whether to return the distances as well.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            In ascending order: numbers of bits that differ, in int64, or 1 minus cosines or inner products,
            in float64. Only if `return_distance`.
        indices : ndarray of int64, shape (n_queries, n_neighbors)
            Places in what was passed to fit; of equal distances the smaller one comes first.

        Raises
        ------
        ValueError
            If X is not as said above, or if `n_neighbors` is more than there are to choose from.
        """
        check_is_fitted(self)
        n_neighbors = self.n_neighbors if n_neighbors is None else n_neighbors
        n_candidates = self.n_samples_fit_ - (X is None)
        if not 1 <= n_neighbors <= n_candidates:
            raise ValueError(f"n_neighbors={n_neighbors} should be at least 1 and at most {n_candidates} here.")
        distances, indices = self._nearest(X, int(n_neighbors) + (X is None))
        if X is None:
            # Each is dropped from its own neighbours, or the last if equal ones before it left no room for it.
            drop = indices == np.arange(len(indices))[:, None]
            drop[~drop.any(axis=1), -1] = True
            distances, indices = (each[~drop].reshape(len(each), -1) for each in (distances, indices))
        return (distances, indices) if return_distance else indices

    @abstractmethod
    def _nearest(self, X, n_neighbors):
        """Return distances and indices of so many neighbours of each query, or of what was seen in fit."""

    def kneighbors_graph(self, X=None, n_neighbors=None, mode="connectivity"):
        """Return the neighbours as a sparse graph, which scikit-learn takes as ``metric="precomputed"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or None, default=None
            Queries, as `kneighbors` takes them.
        n_neighbors : int or None, default=None
            Number of neighbours; None takes that of the constructor.
        mode : {"connectivity", "distance"}, default="connectivity"
            Whether an edge weighs 1, or the distance.

        Returns
        -------
        CSR sparse matrix of float64, shape (n_queries, n_samples_fit)

        Raises
        ------
        ValueError
            As `kneighbors`, and if `mode` is another.
        """
        if mode not in ("connectivity", "distance"):
            raise ValueError(f'mode should be "connectivity" or "distance", got {mode!r}.')
        distances, indices = self.kneighbors(X, n_neighbors)
        weights = distances if mode == "distance" else np.ones_like(distances)
        starts = np.arange(len(indices) + 1) * indices.shape[1]
        shape = len(indices), self.n_samples_fit_
        return sp.csr_matrix((weights.ravel().astype(np.float64), indices.ravel(), starts), shape=shape)


class HammingNeighbors(NeighborsMixin, PythonNumbersMixin, BaseEstimator):
    """Find the nearest sign sketches by exhaustive search, like :class:`sklearn.neighbors.NearestNeighbors`.

    Searching released sketches costs no privacy. The search is exact and deterministic: of sketches at the same
    distance, the one with the smaller index comes first.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours, unless `kneighbors` is told another.
    n_jobs : int or None, default=None
        Threads of a search; each takes some of the queries.

    Attributes
    ----------
    n_features_in_ : int
        Width of the sketches.
    n_samples_fit_ : int
        Number of sketches to search in.

    See Also
    --------
    SketchNeighbors : Takes queries that are no sketches, which need no noise, and numbers as well as bits.
    angles : Turns the distances of randomised responses into unbiased estimates of angles.
    hamming_distances : All distances at once.

    Notes
    -----
    Where FAISS is installed (``pip install ".[search]"``) it compares the bits, with the same answers.
    Time is proportional to queries times sketches times bits. Besides a copy of the sketches, each thread needs memory
    in proportion to the number of sketches, for one query at a time.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPSignOPORP
    >>> from skdprp.similarity import HammingNeighbors
    >>> X, y = load_digits(return_X_y=True)
    >>> sketch = DPSignOPORP(64, epsilon=10.0, output="packed", random_state=0).fit(X)
    >>> S = sketch.transform(X / 16 - 0.5)
    >>> neighbors = HammingNeighbors(n_neighbors=10).fit(S[100:])
    >>> distances, indices = neighbors.kneighbors(S[:100])
    >>> bool((y[100:][indices] == y[:100, None]).mean() > 0.3)
    True
    """

    _parameter_constraints: dict = NEIGHBORS_CONSTRAINTS

    def __init__(self, n_neighbors=5, *, n_jobs=None):
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Arrange sketches for the search.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Release
            Sign sketches by one projection: bits packed in uint8, or int8 signs; or what :func:`~skdprp.load_release`
            returns.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X holds no sign sketches, or is empty.
        """
        X = _as_sketches(X.sketches if is_release(X) else X)
        if X.size == 0:
            raise ValueError(f"There is nothing to search in X of shape {X.shape}.")
        self.n_samples_fit_, self.n_features_in_ = X.shape
        self._form = X.dtype
        self._arranged = arrange(_as_bits(X))
        return self

    def _nearest(self, X, n_neighbors):
        if X is None:
            return self._search(self._arranged.bits(), n_neighbors)
        X = _as_sketches(X)
        if X.dtype != self._form or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"The queries are {X.dtype} of width {X.shape[1]}, the sketches seen in fit are {self._form} of "
                f"width {self.n_features_in_}."
            )
        return self._search(_as_bits(X), n_neighbors)

    def _search(self, bits, n_neighbors):
        return self._arranged.search(bits, n_neighbors, effective_n_jobs(self.n_jobs))
