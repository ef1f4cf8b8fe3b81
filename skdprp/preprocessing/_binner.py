"""Binning of columns by public edges: edges that do not come from the data."""

from collections.abc import Mapping
from numbers import Integral

import numpy as np
import scipy.sparse as sp

from .._errors import silent
from .._validation import (
    FLOATS,
    Interval,
    Options,
    PythonNumbersMixin,
    StrOptions,
    _fit_context,
    check_listed,
    in_order,
)
from ._base import DataIndependentTransformer, bounds_of_columns


class PublicBinner(PythonNumbersMixin, DataIndependentTransformer):
    """Put the values of each column into bins whose edges do not come from the data.

    A linear model has one weight for each bin, and so learns a curve for each column, of any shape: it is an additive
    model. ``KBinsDiscretizer`` reads its edges from the rows, which no later noise covers. This one learns the number
    and the names of the columns only. It is data-independent and treats each row by itself, so that the guarantee of
    what follows holds for the rows as they leave it.

    Each one-hot row has norm ``n_features**0.5``, whatever its values: that ``max_norm`` of a model that follows clips
    no row, and a smaller one clips all alike. A value that moves to another bin changes two of its columns by 1: for
    sketches that is an l1 distance of 2.

    Parameters
    ----------
    bounds : tuple (low, high), array-like of shape (n_features, 2), dict or None, default=None
        Least and largest value, between which there are `n_bins` bins of the same width: one pair for all columns, a
        pair for each column, or pairs by the names of the columns. Either these or `edges` are given.
    n_bins : int, default=10
        How many bins there are between `bounds`. It is not used with `edges`.
    edges : array-like of numbers, list of array-likes, dict or None, default=None
        Increasing edges of bins, one more than there are bins: for all columns, for each column, or by the names of the
        columns. An edge belongs to the bin that it begins. Values below the first edge are in the first bin, those
        above the last in the last one, so that these two may be infinite. Take edges from what is known of the quantity
        (ages at which rules change), **never from the rows**: nothing can detect that afterwards.
    encode : {"onehot", "ordinal"}, default="onehot"
        A column for each bin, with a single 1 for each value; or the number of the bin, from 0.
    missing : {"bin", "error"}, default="bin"
        Missing values have a bin of their own, the last one, which is there whether or not any value is missing; or
        they are refused.
    sparse_output : bool, default=True
        Whether one-hot rows are sparse.
    dtype : {np.float64, np.float32} or None, default=None
        Type of what comes out; None for that of the rows, or float64.

    Attributes
    ----------
    bin_edges_ : list of ndarray
        Edges of the bins of each column.
    n_bins_ : ndarray of shape (n_features,)
        Number of bins of each column, without that of missing values.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names that are all strings.

    See Also
    --------
    PublicScaler : Columns as they are, on one scale.
    privacy_report : Which steps of a Pipeline are covered.

    Notes
    -----
    How many values lie in a bin is private, and nothing reveals it. One-hot rows have as many entries as there are
    columns, and sparse rows are made dense on the way: a zero has a bin like any other value.

    For a dask collection `fit` computes nothing, and `transform` returns a lazy dask array.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdprp import PublicBinner
    >>> table = pd.DataFrame({"age": [17, 30, 90], "hours": [40, np.nan, 70]})
    >>> binner = PublicBinner(edges={"age": [0, 18, 65, 120], "hours": [0, 35, 45, 100]}, sparse_output=False)
    >>> binner.fit_transform(table)
    array([[1., 0., 0., 0., 0., 1., 0., 0.],
           [0., 1., 0., 0., 0., 0., 0., 1.],
           [0., 0., 1., 0., 0., 0., 1., 0.]])
    >>> binner.get_feature_names_out().tolist()[:4]
    ['age_(-inf, 18)', 'age_[18, 65)', 'age_[65, inf)', 'age_nan']
    >>> PublicBinner((0, 100), n_bins=5, encode="ordinal").fit_transform(table)
    array([[0., 2.],
           [1., 5.],
           [4., 3.]])
    """

    _parameter_constraints: dict = {
        "bounds": [None, "array-like", dict],
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "edges": [None, "array-like", dict],
        "encode": [StrOptions({"onehot", "ordinal"})],
        "missing": [StrOptions({"bin", "error"})],
        "sparse_output": ["boolean"],
        "dtype": [Options(type, set(FLOATS)), None],
    }

    def __init__(
        self, bounds=None, *, n_bins=10, edges=None, encode="onehot", missing="bin", sparse_output=True, dtype=None
    ):
        self.bounds = bounds
        self.n_bins = n_bins
        self.edges = edges
        self.encode = encode
        self.missing = missing
        self.sparse_output = sparse_output
        self.dtype = dtype

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Match the edges with the columns of X; no value of X is used.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        PublicBinner
            Itself.

        Raises
        ------
        ValueError
            If not exactly one of `bounds` and `edges` is given, if they do not fit the columns, or if edges do not
            increase.
        """
        self._validate(X, reset=True)
        # What comes out follows from the fit, whatever becomes of the parameters.
        self._fitted_as = (self.encode, self.missing)
        self.bin_edges_ = self._edges_of_columns()
        self.n_bins_ = np.array([len(edges) - 1 for edges in self.bin_edges_])
        return self

    @silent
    def transform(self, X):
        """Put each value into its bin.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR sparse, dask array} of shape (n_samples, n_features_out)
            Ones in the columns of the bins, or numbers of bins. Those of a dask collection are a lazy dask array in the
            same chunks of rows.
        """
        return self._transform_each(X)

    def get_feature_names_out(self, input_features=None):
        """Name the columns that come out: of one-hot rows after the values of each bin.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns that come in, where X had none at the fit; None for x0, x1 and so on.

        Returns
        -------
        ndarray of str
            The names.
        """
        names = super().get_feature_names_out(input_features)
        encode, missing = self._fitted_as
        if encode == "ordinal":
            return names
        named = []
        for name, edges in zip(names, self.bin_edges_, strict=True):
            for n_digits in range(6, 18):  # as many as tell the edges apart
                inner = [f"{edge:.{n_digits}g}" for edge in edges[1:-1]]
                if len(set(inner)) == len(inner):
                    break
            opening = ["(-inf", *(f"[{edge}" for edge in inner)]
            bins = [f"{begin}, {end})" for begin, end in zip(opening, [*inner, "inf"], strict=True)]
            named += [f"{name}_{values}" for values in bins + ["nan"] * (missing == "bin")]
        return np.array(named, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"] if self.dtype is None else []
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_bins_")

    def _takes_missing(self):
        return self.missing == "bin"

    def _of_rows(self, rows, dtype):
        dtype, (encode, missing) = np.dtype(self.dtype or dtype), self._fitted_as
        rows = rows.toarray() if sp.issparse(rows) else rows
        if encode == "ordinal":
            return self._places(rows, dtype)
        places = self._places(rows, np.intp)
        return one_hot(places, self.n_bins_ + (missing == "bin"), sparse_output=self.sparse_output, dtype=dtype)

    def _places(self, rows, dtype):
        """Number of the bin of each value, in its column."""
        places = np.empty(rows.shape, dtype)
        for column, edges in enumerate(self.bin_edges_):
            places[:, column] = places_between(edges, rows[:, column])
        return places

    def _edges_of_columns(self):
        """Edges of each column, as the parameters say."""
        if (self.bounds is None) == (self.edges is None):
            raise ValueError("Give either bounds, between which there are n_bins bins of the same width, or edges.")
        names, n_features = self._names(), self.n_features_in_
        columns = range(n_features) if names is None else names
        if self.bounds is not None:
            bounds = bounds_of_columns(self.bounds, n_features, names)
            edges = [np.linspace(*pair, self.n_bins + 1) for pair in bounds]
        elif isinstance(self.edges, Mapping):
            edges = in_order(self.edges, names, "edges")
        elif all(np.ndim(edge) == 0 for edge in self.edges):
            return [_increasing(self.edges, "edges")] * n_features
        else:
            edges = self.edges
        if len(edges) != n_features:
            raise ValueError(f"edges are given for {len(edges)} columns, but X has {n_features}.")
        return [_increasing(some, f"edges of column {name!r}") for name, some in zip(columns, edges, strict=True)]

    def _matches_parameters(self):
        if not self.__sklearn_is_fitted__():
            return True
        told, fitted = self._edges_of_columns(), self.bin_edges_
        are_equal = len(told) == len(fitted) and all(map(np.array_equal, told, fitted))
        return are_equal and self._fitted_as == (self.encode, self.missing)


def places_between(edges, values):
    """Number of the bin of each value, of which nan has the last one."""
    # The outer edges separate nothing. NaN is sorted behind all numbers, into a bin of its own.
    return np.append(edges[1:-1], np.nan).searchsorted(values, side="right")


def one_hot(places, n_bins, *, sparse_output, dtype):
    """Rows with a single 1 for each column, given the numbers of bins; sparse or dense."""
    ends = np.cumsum(n_bins)
    shape = len(places), int(ends[-1])
    # Indices of 32 bits are what most of scipy and scikit-learn is fast with, and some of it insists on.
    index = np.int32 if max(places.size, shape[1]) < 2**31 else np.int64
    ones = (places + np.append(0, ends[:-1])).astype(index)
    if not sparse_output:
        dense = np.zeros(shape, dtype)
        np.put_along_axis(dense, ones, 1, axis=1)
        return dense
    pointers = np.arange(0, places.size + 1, places.shape[1], dtype=index)
    return sp.csr_array((np.ones(places.size, dtype), ones.ravel(), pointers), shape=shape)


def _increasing(edges, whose):
    """Check edges of bins, and return them as floats."""
    check_listed(edges, whose)
    try:
        values = np.array([float(edge) for edge in edges])
    except (TypeError, ValueError):
        raise ValueError(f"{whose} must be numbers; got {edges!r}.") from None
    if len(values) < 2 or not (np.diff(values) > 0).all() or np.isinf(values[1:-1]).any():
        raise ValueError(f"{whose} must be two or more numbers that increase; got {list(map(float, values))}.")
    return values
