"""What all data-independent transformers share: rows in every form, and parameters that go by columns."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from .._lazy import LazyTransformerMixin, as_it_is_now, is_lazy, map_rows, stand_in
from .._rows import float_type
from .._validation import FLOATS, check_listed, in_order, low_and_high, validate_data


class DataIndependentTransformer(OneToOneFeatureMixin, LazyTransformerMixin, BaseEstimator, ABC):
    """Treat each row by itself, and learn the number and the names of the columns only.

    A transformer fills in whether it takes missing values, and what it makes of validated rows.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_missing()
        return tags

    def _validate(self, X, *, reset):
        """Validate rows; of a dask collection, rows of its width, names and types, with none of its values."""
        if reset:  # a fit that fails leaves nothing of an earlier one, of other columns
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
        # A stand-in of columns that can be empty may be so itself: missing values are looked for in each chunk.
        finite = not is_lazy(X) and ("allow-nan" if self._takes_missing() else True)
        given = stand_in(X) if is_lazy(X) else X
        return validate_data(self, given, accept_sparse="csr", dtype=FLOATS, reset=reset, ensure_all_finite=finite)

    def _transform_each(self, X):
        """Transform rows, or each chunk of a dask collection whenever it is computed."""
        check_is_fitted(self)
        rows = self._validate(X, reset=False)
        if not is_lazy(X):
            return self._of_rows(rows, float_type(X, rows))
        dtype = float_type(stand_in(X), rows)
        form = np.empty
        if sp.issparse(X._meta):
            form = sp.csr_matrix if isinstance(X._meta, sp.spmatrix) else sp.csr_array
        nothing = self._of_rows(form((0, self.n_features_in_), dtype=dtype), dtype)
        return map_rows(as_it_is_now(self).transform, X, nothing)

    def _names(self):
        return getattr(self, "feature_names_in_", None)

    @abstractmethod
    def __sklearn_is_fitted__(self):
        """Whether the last fit came to its end: that `n_features_in_` is there does not tell."""

    @abstractmethod
    def _takes_missing(self):
        """Whether rows may have missing values, as the parameters say."""

    @abstractmethod
    def _of_rows(self, rows, dtype):
        """Transform validated rows, dense or CSR, and return them in a dtype."""

    @abstractmethod
    def _matches_parameters(self):
        """Whether what it does is what the parameters say: it is not fitted, or they are those of the last fit."""


def bounds_of_columns(bounds, n_features, names):
    """Bounds of each column, of shape (n_features, 2)."""
    if isinstance(bounds, Mapping):
        bounds = in_order(bounds, names, "bounds")
    else:
        check_listed(bounds, "bounds")
        bounds = np.asarray(bounds, dtype=object).tolist()
        if all(np.ndim(number) == 0 for number in bounds):  # one pair for all columns
            return np.tile(low_and_high(bounds, "bounds"), (n_features, 1))
    if len(bounds) != n_features:
        raise ValueError(
            f"bounds hold {len(bounds)} pairs, but X has {n_features} columns: give (low, high) for each of them, or a "
            "dict by their names."
        )
    columns = range(n_features) if names is None else names
    return np.array(
        [low_and_high(pair, f"bounds of column {name!r}") for name, pair in zip(columns, bounds, strict=True)]
    )
