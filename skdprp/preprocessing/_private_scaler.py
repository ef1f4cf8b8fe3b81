"""Scaling of columns by private ranges, with private medians for missing values."""

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import silent
from .._lazy import LazyTransformerMixin, by_chunks
from .._recording import in_plan
from .._rows import float_type
from .._validation import FLOATS, low_and_high, public_numbers, validate_data
from ..histograms import PrivateHistograms
from ..histograms._estimator import HISTOGRAMS_CONSTRAINTS
from ..histograms._release import NumberHistogram
from ._scaler import PublicScaler


class DPScaler(OneToOneFeatureMixin, LazyTransformerMixin, PrivateHistograms):
    """Scale each column from a private range, and fill missing values by private medians.

    Replaces ``MinMaxScaler``, ``RobustScaler`` and ``SimpleImputer`` where no bounds of the columns are known. `fit`
    releases histograms, from which ranges and medians follow. What `transform` returns is **not private**: it is
    computed from each row without noise, for a private step that follows. Values beyond the range are clipped to it.

    Parameters
    ----------
    quantiles : tuple (low, high), default=(0.01, 0.99)
        Levels of two quantiles: values between them are not clipped. A level so close to 0 or 1 that the noise hides
        the difference is replaced by the nearest level that can be distinguished from that end.
    feature_range : tuple (low, high), default=(-0.5, 0.5)
        Where the range goes, as of :class:`~skdprp.PublicScaler`.
    bounds : tuple (low, high), dict or None, default=None
        Least and largest value of all columns, or of some by their names: public, never read from the data. None takes
        numbers of any size, see :class:`~skdprp.DPHistograms`.
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row in the place of one row. With "add_remove", the row is blank
        in the neighbour: another guarantee, which needs less noise. The number of places for rows is public in both.
    n_cells : int, default=4096
        Largest number of cells between bounds, at which ranges may begin and end.

    Attributes
    ----------
    bounds_ : ndarray of shape (n_features, 2)
        Private range of each column.
    fill_ : ndarray of shape (n_features,)
        Private median of each column, which stands for missing values.
    max_norm_ : float
        Largest norm of a row that comes out.
    histograms_ : Histograms
        What was released; all else follows from it.
    delta_ : float
        The value used.
    scale_ : float
        Standard deviation of the noise of each released value.
    threshold_ : float
        Infinite: there are no categories.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    n_features_in_ : int
        Number of columns seen in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, when X has string names.

    See Also
    --------
    PublicScaler : Bounds that do not come from the data, which cost nothing.
    DPBinner : Bins instead, of which a linear model learns a curve.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import DPScaler
    >>> X = np.column_stack([np.tile(np.arange(20.0, 60.0), 5000), np.linspace(0, 1e6, 200_000)])
    >>> scaler = DPScaler(delta=1e-6).fit(X)
    >>> scaler.guarantee_
    (1.0, 1e-06)-DP, one row replaced
    >>> ranges = scaler.bounds_.tolist()
    >>> 19 < ranges[0][0] < 22, 8e5 < ranges[1][1] < 1.1e6
    (True, True)
    >>> scaler.transform([[1e300, np.nan]]).tolist()[0][0], round(scaler.max_norm_, 3)
    (0.5, 0.707)
    """

    _released = "bounds_, fill_ and histograms_, from which they follow"
    categories = None  # where there are only numbers

    _parameter_constraints: dict = {
        **{name: kinds for name, kinds in HISTOGRAMS_CONSTRAINTS.items() if name != "categories"},
        "quantiles": ["array-like"],
        "feature_range": ["array-like"],
    }

    def __init__(
        self,
        quantiles=(0.01, 0.99),
        *,
        feature_range=(-0.5, 0.5),
        bounds=None,
        epsilon=1.0,
        delta=None,
        adjacency="replace_one",
        n_cells=4096,
    ):
        self.quantiles = quantiles
        self.feature_range = feature_range
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_cells = n_cells

    def _calibrate(self, n_samples, columns):
        self._levels()  # before anything is released
        return super()._calibrate(n_samples, columns)

    def _columns(self, X):
        columns = super()._columns(X)
        if any(not hasattr(column, "cells") for column in columns):
            raise ValueError("X has columns of categories: scale the others in a ColumnTransformer, or take DPBinner.")
        return columns

    def _learn(self, histograms):
        """Find ranges and medians."""
        levels = self._levels()
        if not all(isinstance(column, NumberHistogram) for column in histograms.columns):
            raise ValueError("These histograms have columns of categories, which are not scaled.")
        found = np.array([column.quantiles([*levels, 0.5]) for column in histograms.columns])
        bounds, fill = found[:, :2], found[:, 2]
        # A range of no width, of a column that is nearly constant, becomes one of a width like its values.
        half = np.where(np.diff(bounds, axis=1)[:, 0] > 1e-100, 0.0, np.maximum(np.abs(fill), 1) / 2)
        self.bounds_ = bounds + np.column_stack([-half, half])
        self.fill_ = np.clip(fill, *self.bounds_.T)
        self._scaler = PublicScaler(self.bounds_, feature_range=self.feature_range, fill=self.fill_)
        self._scaler.fit(np.zeros((1, len(fill))))
        self.max_norm_ = float(np.abs(self._scaler.feature_range_).max() * np.sqrt(len(fill)))

    def _levels(self):
        low, high = low_and_high(self.quantiles, "quantiles")
        if not 0 <= low < high <= 1:
            raise ValueError(f"quantiles must be two levels from 0 to 1, low below high; got {low:g} and {high:g}.")
        low_and_high(self.feature_range, "feature_range")
        return low, high

    @by_chunks
    @silent
    def transform(self, X):
        """Clip and scale each column. What is returned is **not private**: it is made of each row as it is.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples, n_features)
            Values within `feature_range`, in the type of X, if that is float32 or float64; lazy for a dask collection.
        """
        check_is_fitted(self)
        options = {"accept_sparse": "csr", "dtype": FLOATS, "ensure_all_finite": "allow-nan"}
        rows = validate_data(self, X, reset=False, **options)
        rows, dtype = rows.toarray() if hasattr(rows, "toarray") else rows, float_type(X, rows)
        if in_plan():
            low, high = self._scaler.feature_range_
            return (low + (high - low) * (public_numbers(*rows.shape) + 1) / 2).astype(dtype)
        return self._scaler._of_rows(rows, dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
