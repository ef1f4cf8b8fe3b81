"""Nearest released sketches of queries that are not sketches themselves: SketchNeighbors."""

from copy import copy

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from .._validation import PythonNumbersMixin, _fit_context
from ..sensitivity import component_sensitivity
from ._estimates import as_array, is_release
from ._posterior import means_of_bits, unit_rows, weights_of_numbers
from ._search import NEIGHBORS_CONSTRAINTS, NeighborsMixin, in_slices

_SCORES = 2**24  # in memory at a time


def _weights(S, sketch):
    """Rows of length at most 1 whose inner products with a projected query tell which released rows are near it.

    They are computed of the released rows, and of what is public of the noise.
    """
    projection, k = sketch.projection_, sketch.projection_.n_components
    # Of components that no feature reaches it is known that they are 0. Sums of these numbers and their opposites never
    # vanish by accident.
    unreached = projection.project(np.sqrt(np.arange(2.0, projection.n_features + 2))[None])[0] == 0
    if hasattr(sketch, "positive_probability"):
        if S.dtype not in (np.uint8, np.int8) or S.shape[1] != (-(-k // 8) if S.dtype == np.uint8 else k):
            raise ValueError(f"X of {S.dtype} and width {S.shape[1]} is not {k} signs in int8, or packed in uint8.")
        positive = np.unpackbits(S, axis=1, count=k).view(bool) if S.dtype == np.uint8 else S > 0
        unit = component_sensitivity(projection, sketch.max_change).max() or 1.0
        means = means_of_bits(positive, positive_probability=sketch.positive_probability, unit=unit)
        means[:, unreached] = 0
        return unit_rows(means, out=means)
    if S.dtype not in (np.float32, np.float64) or S.shape[1] != k:
        raise ValueError(f"X of {S.dtype} and width {S.shape[1]} is not {k} numbers in float32 or float64.")
    if not np.isfinite(S).all():
        raise ValueError("X has NaN or infinite values, which no sketch releases.")
    with np.errstate(over="ignore"):
        if not unreached.any():
            return weights_of_numbers(S, noise=sketch.noise, scale=sketch.scale_)
        weights = np.zeros(S.shape, np.float32)
        weights[:, ~unreached] = weights_of_numbers(S[:, ~unreached], noise=sketch.noise, scale=sketch.scale_)
        return weights


def _products(rows, candidates, query):
    """Inner products of some rows with a query in float64, each summed alone and in the same order."""
    batches = gen_batches(len(candidates), max(1, _SCORES // rows.shape[1]))
    parts = [(rows[candidates[batch]].astype(np.float64) * query).sum(axis=1) for batch in batches]
    return np.concatenate(parts)


def _largest_products(rows, queries, n_neighbors):
    """Indices of the rows with the largest inner products with each query, ties by index, and these products.

    Products in float32 are off by less than `margin`: what may be among the largest is computed again in float64, row
    by row, so that equal rows have equal products.
    """
    margin = 2 * (rows.shape[1] + 2) * np.finfo(np.float32).eps
    indices, products = np.empty((len(queries), n_neighbors), np.int64), np.empty((len(queries), n_neighbors))
    for batch in gen_batches(len(queries), max(1, _SCORES // len(rows))):
        for i, scores in enumerate(queries[batch] @ rows.T, batch.start):
            least = np.partition(scores, len(scores) - n_neighbors)[len(scores) - n_neighbors]
            candidates = np.flatnonzero(scores >= least - margin)
            exact = _products(rows, candidates, queries[i])
            order = np.argsort(-exact, kind="stable")[:n_neighbors]
            indices[i], products[i] = candidates[order], exact[order]
    return products, indices


class SketchNeighbors(NeighborsMixin, PythonNumbersMixin, BaseEstimator):
    """Find the released rows nearest to plain queries, like :class:`sklearn.neighbors.NearestNeighbors`.

    A plain query is a row itself, not a sketch. It needs no noise, because it belongs to the searcher. It is compared
    with the posterior means of the rows' projections. These follow from the released numbers or bits, the distribution
    of the noise, and that of each component, which is estimated from the released rows. Searching costs no privacy.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours, unless `kneighbors` is told another.
    n_jobs : int or None, default=None
        Threads of a search; each takes some of the queries.

    Attributes
    ----------
    sketch_ : estimator
        The fitted sketch that released the rows.
    n_features_in_ : int
        Number of features of a query.
    n_samples_fit_ : int
        Number of released rows.

    See Also
    --------
    HammingNeighbors : Where the queries are sign sketches themselves.
    cosines, squared_distances : Where the queries are sketches of numbers themselves.
    skdprp.load_release : Reads what `fit` takes.

    Notes
    -----
    Nearly all components of the sketch of a row with few nonzeros are noise, and plain inner products add up this
    noise. With the likelihood f(s | x) of a released number s and a density p of the component, the posterior mean
    ``sum_x x p(x) f(s | x) / sum_x p(x) f(s | x)`` shrinks to 0 what is as good as noise alone. The densities are
    estimated from the releases by expectation maximisation: first one density of all components together; a few steps
    from it then give the density of each component [1]_. Bits do not tell how large components are. For them the
    estimate starts from a normal density, whose standard deviation is the most that a change of one coordinate by
    `max_change` moves any component. A component that no feature reaches does not count.

    Bits say on which side of 0 a component is. If rows are dense, subtract the middles of the columns' bounds before
    the sketch: where each component has about one feature and 0 is near an end of its bounds, bits say little, and
    :class:`HammingNeighbors` with sketches of the queries may find more.

    Short texts are large in only a few components, and each text in other ones. If the noise hides these, posterior
    means keep of a row only what is common to all rows and its few largest numbers, and they find little. So for
    released numbers `fit` draws 200 rows from the estimated densities, adds noise, and searches for them among the
    released rows. If posterior means find them at later places than released numbers do, the search uses the released
    numbers. The numbers of each row are divided by the root of the posterior mean of its squared norm, because the norm
    of the numbers themselves is mostly noise.

    The distance is 1 minus the cosine of a query's projection and the posterior means. If the search uses the released
    numbers, each row of them is first divided as described above, and then all rows by one number, so that the largest
    norm is 1. The distance is then 1 minus the inner product of such a row and the query's projection, scaled to norm
    1. That is a score to rank by, and no estimate of the rows' own cosine: see :func:`cosines` for that. A query of
    zeros has the distance 1 to all rows.

    Never pass sketches as queries: they would be projected once more. Bits are recognised and refused. Sketches of
    numbers raise an error, unless they have as many components as there are features: then they are taken for plain
    rows, and what is found is meaningless. To search the released rows among each other, for duplicates for instance,
    call `kneighbors` without queries.

    It takes 4 bytes for each released component, and about 5 during `fit`. Time grows with queries times rows times
    components.

    References
    ----------
    .. [1] B. Efron, "Two modeling strategies for empirical Bayes estimation", Statistical Science 29, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPOPORP
    >>> from skdprp.similarity import SketchNeighbors
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16 - 0.5
    >>> sketch = DPOPORP(64, epsilon=5.0, noise="laplace", random_state=0).fit(X)
    >>> neighbors = SketchNeighbors(n_neighbors=10).fit(sketch.transform(X[100:]), sketch=sketch)
    >>> distances, indices = neighbors.kneighbors(X[:100])
    >>> bool((y[100:][indices] == y[:100, None]).mean() > 0.6)
    True
    """

    _parameter_constraints: dict = NEIGHBORS_CONSTRAINTS

    def __init__(self, n_neighbors=5, *, n_jobs=None):
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sketch=None):
        """Compute what queries are compared with.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out), or Release
            Rows that `sketch` released by its last fit, or what :func:`~skdprp.load_release` returns.
        y : None
            Ignored.
        sketch : estimator or None, default=None
            The fitted sketch that released X: any but :class:`~skdprp.iDPSignRP`, whose flips depend on what it does
            not release. Not needed with a `Release`.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If `sketch` is missing, or says nothing of its noise.
        ValueError
            If X is empty or cannot come from `sketch`, or if a parameter of `sketch` was changed after its fit.
        """
        if sketch is None:
            if not is_release(X):
                raise TypeError("Pass the fitted sketch that released X, fit(X, sketch=sketch), or a loaded release.")
            X, sketch = X.sketches, X.estimator
        if not (hasattr(sketch, "positive_probability") or hasattr(sketch, "noise")):
            alone = (
                " Pass the sketch alone, pipeline[-1], and queries as they reach it, pipeline[:-1].transform(Q)."
                * hasattr(sketch, "named_steps")
            )
            cure = "search bits by HammingNeighbors"
            raise TypeError(f"{type(sketch).__name__} does not say how its noise is distributed: {cure}.{alone}")
        X = as_array(X)
        if X.ndim != 2 or X.size == 0:
            raise ValueError(f"There is nothing to search in X of shape {X.shape}.")
        sketch = copy(sketch)  # which a later fit of the one that was passed does not change
        sketch._check_calibrated()
        self.sketch_, self.n_features_in_, self.n_samples_fit_ = sketch, sketch.n_features_in_, len(X)
        self._rows = _weights(X, sketch)
        return self

    def _nearest(self, X, n_neighbors):
        k = self.sketch_.projection_.n_components
        has_bits = isinstance(X, np.ndarray) and hasattr(self.sketch_, "positive_probability")
        is_packed = has_bits and X.dtype == np.uint8 and X.shape[1:] == (-(-k // 8),)
        if is_packed or (has_bits and X.dtype == np.int8 and X.shape[1:] == (k,) and (np.abs(X) == 1).all()):
            raise ValueError(
                f"Queries are plain rows here, and X has the dtype and width of the sketches, {X.dtype} and "
                f"{X.shape[1]}: HammingNeighbors searches by sketches. If these are plain rows, pass them as floats."
            )
        queries = self._rows if X is None else unit_rows(self.sketch_.project_queries(X))
        products, indices = in_slices(
            lambda rows: _largest_products(self._rows, queries[rows], n_neighbors),
            len(queries),
            effective_n_jobs(self.n_jobs),
        )
        return np.clip(1 - products, 0, 2), indices
