"""Scaling of columns by public bounds: bounds that do not come from the data."""

from collections.abc import Mapping
from functools import partial
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._errors import silent
from .._lazy import is_lazy
from .._rows import float_type
from .._validation import FLOATS, StrOptions, _fit_context, in_order, low_and_high, validate_array
from ._base import DataIndependentTransformer, bounds_of_columns

_BLOCK = 2**14  # values that stay in the cache between steps


class PublicScaler(DataIndependentTransformer):
    """Clip each column to bounds that do not come from the data, and scale it to a range that all columns share.

    It replaces ``MinMaxScaler`` and ``StandardScaler`` before a private estimator: those learn from the rows, which no
    later noise covers. This one learns the number and the names of the columns only. It is data-independent
    and treats each row by itself, so that the guarantee of what follows holds for the rows as they leave it.

    The default range has length 1. So the default ``max_change=1.0`` of the sketches covers any change of one column;
    epsilon says how well it is hidden. ``max_norm=n_features**0.5 / 2`` of the linear models clips no row.

    Parameters
    ----------
    bounds : tuple (low, high), array-like of shape (n_features, 2) or dict
        Least and largest value: one pair for all columns, a pair for each column, or pairs by the names of the columns.
        Take them from what is known of the quantity (ages are 0 to 120), **never from the rows**: nothing can detect
        that afterwards.
    feature_range : tuple (low, high), default=(-0.5, 0.5)
        Where the bounds go. ``(-1, 1)`` is what :class:`~skdprp.MIDPRegressor` takes by default, and ``(0, 1)`` is for
        networks.
    fill : None, "middle", number, array-like of shape (n_features,) or dict, default=None
        What stands for a missing value, in the units of its column: the middle of the bounds, or a number within them,
        for all columns, for each, or by their names. None refuses missing values, as do columns that a dict does not
        name. As the bounds it must not come from the rows: neither a mean nor a median.

    Attributes
    ----------
    scale_, offset_ : ndarray of shape (n_features,)
        A clipped column is multiplied by `scale_`, and then `offset_` is added.
    bounds_ : ndarray of shape (n_features, 2)
        Least and largest value of each column.
    feature_range_ : tuple (low, high)
        Where the bounds go.
    fill_ : ndarray of shape (n_features,)
        What stands for a missing value of each column; NaN where missing values are refused.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names that are all strings.

    See Also
    --------
    PublicBinner : Bins instead, of which a linear model learns a curve, with one for missing values.
    privacy_report : Which steps of a Pipeline are covered.

    Notes
    -----
    How many values lie outside of the bounds is private, and nothing reveals it. Missing values are refused, unless
    `fill` says what stands for them. Where it matters that they were missing, use bins, or a column that says so.

    For a dask collection `fit` computes nothing, and `transform` returns a lazy dask array. To compute that again gives
    the same rows again: it is no release.

    Sparse rows are taken where zeros stay zero: if bounds and range are symmetric, or both start at zero. Arithmetic is
    in float64; rows of float32 come out as float32.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdprp import PublicScaler
    >>> table = pd.DataFrame({"age": [30, 90], "income": [50_000, 900_000]})
    >>> scaler = PublicScaler({"age": (0, 120), "income": (0, 200_000)}).fit(table)
    >>> scaler.transform(table)
    array([[-0.25, -0.25],
           [ 0.25,  0.5 ]])
    >>> scaler.inverse_transform([[-0.25, 0.5]])
    array([[3.e+01, 2.e+05]])

    A missing age is taken for 40 years, and a missing income is refused:

    >>> scaler.set_params(feature_range=(0, 1), fill={"age": 40}).fit(table)
    PublicScaler(bounds={'age': (0, 120), 'income': (0, 200000)},
                 feature_range=(0, 1), fill={'age': 40})
    >>> scaler.transform(pd.DataFrame({"age": [None], "income": [50_000]}, dtype=float)).round(2)
    array([[0.33, 0.25]])
    """

    _parameter_constraints: dict = {
        "bounds": ["array-like", dict],
        "feature_range": ["array-like"],
        "fill": [None, StrOptions({"middle"}), Real, "array-like", dict],
    }

    def __init__(self, bounds, *, feature_range=(-0.5, 0.5), fill=None):
        self.bounds = bounds
        self.feature_range = feature_range
        self.fill = fill

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Match the bounds with the columns of X; no value of X is used.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        PublicScaler
            Itself.

        Raises
        ------
        ValueError
            If the bounds or `fill` do not fit the columns, a low bound is not below its high one, or zeros of sparse
            rows would not stay zero.
        """
        rows = self._validate(X, reset=True)
        bounds = bounds_of_columns(self.bounds, self.n_features_in_, self._names())
        (low, high), (a, b) = bounds.T, low_and_high(self.feature_range, "feature_range")
        self.fill_ = _fill_of_columns(self.fill, bounds, self._names())
        # Where zero stays zero it does so exactly, and not up to rounding, for the sake of sparse rows.
        scale, zero_stays = (b - a) / (high - low), a * high == b * low
        self.bounds_, self.scale_, self.offset_ = bounds, scale, np.where(zero_stays, 0.0, a - low * scale)
        if not is_lazy(X):  # of which each chunk is looked at
            self._check_rows(rows)
        self.feature_range_ = (float(a), float(b))
        return self

    @silent
    def transform(self, X):
        """Clip and scale each column.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR sparse, dask array} of shape (n_samples, n_features)
            Values within `feature_range`. Those of a dask collection are a lazy dask array in the same chunks of rows.
        """
        return self._transform_each(X)

    @silent
    def inverse_transform(self, X):
        """Return to the units of the bounds; what was clipped comes back as its bound.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the scaled columns.

        Returns
        -------
        {ndarray, CSR sparse} of shape (n_samples, n_features)
            Values in the units of the bounds.
        """
        check_is_fitted(self)
        rows = validate_array(X, accept_sparse="csr", dtype=FLOATS)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {rows.shape[1]} columns where {self.n_features_in_} were scaled.")
        self._check_zeros(rows)
        return _on_values(_unscale, (self.scale_, self.offset_), rows, float_type(X, rows))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "feature_range_")

    def _takes_missing(self):
        return self.fill is not None

    def _of_rows(self, rows, dtype):
        self._check_rows(rows)
        # Rounding overshoots, here and again in float32, and what follows counts on the range. Scaling keeps the order
        # of floats, so that to clip what comes out to scaled bounds gives what clipping before would.
        with np.errstate(over="ignore"):
            low, high = np.array(self.feature_range_, dtype=dtype)  # whose ends may lie outside, and are moved inside
        low = np.nextafter(low, high) if low < np.float64(self.feature_range_[0]) else low
        high = np.nextafter(high, low) if high > np.float64(self.feature_range_[1]) else high
        low, high = np.clip(self.bounds_.T * self.scale_ + self.offset_, np.float64(low), np.float64(high))
        scale = partial(_scale, fills=not np.isnan(self.fill_).all())
        return _on_values(scale, (self.scale_, self.offset_, low, high, self.fill_), rows, dtype)

    def _matches_parameters(self):
        if not self.__sklearn_is_fitted__():
            return True
        bounds = bounds_of_columns(self.bounds, self.n_features_in_, self._names())
        return (
            np.array_equal(bounds, self.bounds_)
            and np.array_equal(self.feature_range, self.feature_range_)
            and np.array_equal(_fill_of_columns(self.fill, bounds, self._names()), self.fill_, equal_nan=True)
        )

    def _check_rows(self, rows):
        self._check_zeros(rows)
        refused = np.isnan(self.fill_)
        if self._takes_missing() and refused.any():  # where there is nothing to fill in, as if `fill` were not there
            validate_array(rows[:, refused], accept_sparse="csr", dtype=FLOATS, ensure_min_samples=0)

    def _check_zeros(self, rows):
        if not sp.issparse(rows):
            return
        of_zeros = np.clip(self.offset_, *(self.bounds_.T * self.scale_ + self.offset_))  # one beyond bounds is clipped
        if of_zeros.any():
            raise ValueError(
                "Zeros of sparse rows would not stay zero: make bounds and feature_range symmetric, or start both at 0."
            )


def _scale(values, scale, offset, low, high, fill, *, fills):
    if fills:
        np.copyto(values, fill, where=np.isnan(values))
    values *= scale
    values += offset
    np.minimum(np.maximum(values, low, out=values), high, out=values)  # of nan it is nan


def _unscale(values, scale, offset):
    values -= offset
    values /= scale


def _on_values(function, parameters, X, dtype):
    """Apply a function of values and the parameters of their columns to each value of X, or each that is stored."""
    values, columns = (X.data, X.indices) if sp.issparse(X) else (X, None)
    changed = np.empty(values.shape, dtype)
    step = max(1, _BLOCK // max(1, values[:1].size))
    if columns is None:  # as many rows of them as a block has: numpy is slow where it begins anew in each row
        parameters = [np.tile(parameter, (min(step, len(values)), 1)) for parameter in parameters]
    for block in (slice(start, start + step) for start in range(0, len(values), step)):
        # In float64, as the parameters are, and row by row, whichever way the rows lie in memory.
        part = changed[block] if dtype == np.float64 else np.empty_like(changed[block], np.float64)
        part[...] = values[block]
        function(part, *(known[: len(part)] if columns is None else known[columns[block]] for known in parameters))
        if dtype != np.float64:
            changed[block] = part
    if columns is None:
        return changed
    # The zeros in between stay zero: all others are refused before.
    return type(X)((changed, columns.copy(), X.indptr.copy()), shape=X.shape)


def _fill_of_columns(fill, bounds, names):
    """What is filled in for missing values of each column; NaN where they are refused."""
    n_features = len(bounds)
    if fill is None or isinstance(fill, str | Real):
        fill = [fill] * n_features
    elif isinstance(fill, Mapping):
        fill = in_order(fill, names, "fill values", of_all=False)
    if len(fill) != n_features:
        raise ValueError(f"fill holds {len(fill)} values, but X has {n_features} columns.")
    columns = range(n_features) if names is None else names
    filled = []
    for value, (low, high), column in zip(fill, bounds, columns, strict=True):
        if value is None:
            filled.append(np.nan)
        elif isinstance(value, str) and value == "middle":
            filled.append((low + high) / 2)
        elif isinstance(value, Real) and low <= value <= high:
            filled.append(float(value))
        else:
            raise ValueError(
                f"fill of column {column!r} must be 'middle', None or a number within its bounds, {low:g} to {high:g}; "
                f"got {value!r}."
            )
    return np.array(filled)
