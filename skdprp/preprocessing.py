"""Scaling of columns by public bounds: bounds that do not come from the data."""

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._validation import FLOATS, _fit_context, float_type, silent, validate_array, validate_data

__all__ = ["PublicScaler"]


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Clip each column to bounds that do not come from the data, and scale it to a range that all columns share.

    It stands before a private estimator where ``MinMaxScaler`` or ``StandardScaler`` stood: those learn from the rows,
    which no later noise covers. This one learns the number and the names of the columns only. It is data-independent
    and treats each row by itself, so that the guarantee of what follows holds for the rows as they leave it.

    With the default range, of length 1, the default ``max_change=1.0`` of the sketches hides all that one column says;
    and ``max_norm=n_features**0.5 / 2`` of the linear models clips no row.

    Parameters
    ----------
    bounds : tuple (low, high), array-like of shape (n_features, 2) or dict
        Least and largest value: one pair for all columns, a pair for each column, or pairs by the names of the columns.
        Take them from what is known of the quantity (ages are 0 to 120), **never from the rows**: nothing can detect
        that afterwards.
    feature_range : tuple (low, high), default=(-0.5, 0.5)
        Where the bounds go. ``(-1, 1)`` is what :class:`~skdprp.MIDPRegressor` takes by default, and ``(0, 1)`` is for
        networks.

    Attributes
    ----------
    scale_, offset_ : ndarray of shape (n_features,)
        A clipped column is multiplied by the one, and then the other is added.
    bounds_ : ndarray of shape (n_features, 2)
        Least and largest value of each column.
    feature_range_ : tuple (low, high)
        Where the bounds go.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has names that are all strings.

    See Also
    --------
    privacy_report : Which steps of a Pipeline are covered.

    Notes
    -----
    How many values lie outside of the bounds is private, and nothing tells it. Missing values are refused: fill them in
    before, by ``SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)``.

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
    """

    _parameter_constraints: dict = {"bounds": ["array-like", dict], "feature_range": ["array-like"]}

    def __init__(self, bounds, *, feature_range=(-0.5, 0.5)):
        self.bounds = bounds
        self.feature_range = feature_range

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Match the bounds with the columns of X; no value of X is used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
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
            If the bounds do not fit the columns, a low bound is not below its high one, or zeros of sparse rows would
            not stay zero.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        bounds = _bounds_of_columns(self.bounds, X.shape[1], getattr(self, "feature_names_in_", None))
        (low, high), (a, b) = bounds.T, _pair(self.feature_range, "feature_range")
        # Where zero stays zero it does so exactly, and not up to rounding, for the sake of sparse rows.
        scale, zero_stays = (b - a) / (high - low), a * high == b * low
        self.bounds_, self.scale_, self.offset_ = bounds, scale, np.where(zero_stays, 0.0, a - low * scale)
        self.feature_range_ = (float(a), float(b))
        self._refuse_to_fill(X)
        return self

    @silent
    def transform(self, X):
        """Clip and scale each column.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR sparse} of shape (n_samples, n_features)
            Values within `feature_range`.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        self._refuse_to_fill(rows)
        return _on_values(self._scale, rows, float_type(X, rows))

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
        self._refuse_to_fill(rows)
        return _on_values(self._unscale, rows, float_type(X, rows))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _scale(self, values, column, dtype):
        clipped = np.clip(values, *self.bounds_[column].T)
        # Rounding overshoots, here and again in float32, and what follows counts on the range.
        scaled = clipped * self.scale_[column] + self.offset_[column]
        return np.clip(scaled, *_rounded_inward(self.feature_range_, dtype))

    def _unscale(self, values, column, dtype):
        return (values - self.offset_[column]) / self.scale_[column]

    def _matches_parameters(self):
        """Whether the parameters still are those of the last fit."""
        bounds = _bounds_of_columns(self.bounds, self.n_features_in_, getattr(self, "feature_names_in_", None))
        return np.array_equal(bounds, self.bounds_) and np.array_equal(self.feature_range, self.feature_range_)

    def _refuse_to_fill(self, X):
        if sp.issparse(X) and self.offset_.any():
            raise ValueError(
                "Zeros of sparse rows would not stay zero: make bounds and feature_range symmetric, or start both at 0."
            )


def _on_values(function, X, dtype):
    """Apply a function of values and their columns to each value of X, or each that is stored."""
    if not sp.issparse(X):
        return function(X, slice(None), dtype).astype(dtype, copy=False)
    # The zeros in between stay zero: all others are refused before.
    values = function(X.data, X.indices, dtype).astype(dtype, copy=False)
    return type(X)((values, X.indices.copy(), X.indptr.copy()), shape=X.shape)


def _rounded_inward(interval, dtype):
    """Round the ends of an interval to a dtype, so that they stay inside of it."""
    with np.errstate(over="ignore"):
        low, high = np.array(interval, dtype=dtype)
    low = np.nextafter(low, high) if low < np.float64(interval[0]) else low
    high = np.nextafter(high, low) if high > np.float64(interval[1]) else high
    return np.float64(low), np.float64(high)


def _bounds_of_columns(bounds, n_features, names):
    """Bounds of each column, of shape (n_features, 2)."""
    if isinstance(bounds, Mapping):
        if names is None:
            raise ValueError(
                "bounds go by names, but X has no names of columns: pass a DataFrame, or pairs in their order."
            )
        if missing := [name for name in names if name not in bounds]:
            raise ValueError(f"bounds are missing for the columns {missing}.")
        if unknown := [name for name in bounds if name not in names]:
            raise ValueError(f"bounds are given for {unknown}, which X does not have.")
        bounds = [bounds[name] for name in names]
    else:
        bounds = np.asarray(bounds, dtype=object).tolist()
        if all(np.ndim(number) == 0 for number in bounds):  # one pair for all columns
            return np.tile(_pair(bounds, "bounds"), (n_features, 1))
    if len(bounds) != n_features:
        raise ValueError(f"bounds hold {len(bounds)} pairs, but X has {n_features} columns.")
    columns = range(n_features) if names is None else names
    return np.array([_pair(pair, f"bounds of column {name!r}") for name, pair in zip(columns, bounds, strict=True)])


def _pair(pair, whose):
    """Check a low and a high number, and return them as floats."""
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        raise ValueError(f"{whose} must be two numbers, low and high; got {pair!r}.") from None
    if low > high:
        raise ValueError(f"{whose} are {low:g} and {high:g}: low and high exchanged?")
    # Beyond that scale and offset are no floats, or leave nothing of the values.
    if not 1e-100 < high - low < 1e100:
        raise ValueError(f"{whose} must be finite, low below high by 1e-100 to 1e100; got {low:g} and {high:g}.")
    return low, high
