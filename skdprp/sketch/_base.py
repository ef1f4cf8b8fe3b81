"""What all sketches share: fit from a shape, release by blocks of rows."""

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from .. import _noise
from .._label import GuaranteeDisplayMixin
from .._threads import in_threads
from .._validation import (
    FLOATS,
    PythonNumbersMixin,
    UncachedMixin,
    _fit_context,
    float_type,
    silent,
    validate_data,
    warn_at_caller,
)
from ..guarantee import Adjacency, PrivacyGuarantee
from ..random_projection import make_projection, read_only, rows_of
from ._dask import is_lazy, release_lazily, stand_in

_PARALLEL_ENTRIES = 2**20  # of the projection, below which threads may cost more than they gain
_NORM_ENTRIES = 2**16
SLACK = 2.0**-10
# W is one of those that seeds give: 2**32 for an integer random_state, and nobody knows how a RandomState was seeded.
# Of rows that happen to be the worst for one of them, delta is up to 2**-32 = 2.3e-10, whatever is computed of a draw.
LEAST_DELTA_OF_A_DRAW = 1e-9
DRAW = (
    "delta includes the draw of the projection: rows are chosen without knowledge of it, and the generator of the "
    "projection is taken as random"
)
_NOT_COVERED = (
    "rows that differ by more than max_change",
    "the labels and the number of rows",
    "that a row is refused, because it is too large for float64 or outside a promised bound",
    "how long a transform took",
)


def blocks_of(X):
    """Rows in float64, by blocks that fit the cache."""
    size = max(1, _NORM_ENTRIES * X.shape[0] // max(X.nnz if sp.issparse(X) else X.size, 1))
    return (rows_of(X, rows).astype(np.float64, copy=False) for rows in gen_batches(X.shape[0], size))


def _frozen(value):
    return read_only(value) if isinstance(value, np.ndarray) else value


class BaseSketch(
    GuaranteeDisplayMixin,
    PythonNumbersMixin,
    UncachedMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """Fit from the shape of X, then project and randomise each row at every call of `transform`."""

    def __setattr__(self, name, value):
        super().__setattr__(name, _frozen(value))

    def __setstate__(self, state):  # an array that was pickled or copied can be written to
        super().__setstate__({name: _frozen(value) for name, value in state.items()})

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Draw the public projection and calibrate the noise, from the shape of X alone.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows; only their number of features is used. Nothing of a dask collection is computed.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted sketch.
        """
        self._remember_last_fit()
        self._calibrated_for = None  # until this fit has succeeded, nothing is released
        fitted = self._snapshot()  # taken over at once: a thread that releases meanwhile sees no part of it
        X = validate_data(fitted, stand_in(X) if is_lazy(X) else X, accept_sparse="csr", dtype=FLOATS)
        fitted._fit_projection(fitted._make_projection(X.shape[1]))
        parameters = self.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(fitted).items() if name not in parameters})
        return self

    def _snapshot(self):
        """Copy what the sketch holds at one moment, far faster than by its pickled state."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def _fit_projection(self, projection):
        """Calibrate the noise for a projection and state the guarantee."""
        self.projection_ = projection
        guarantee = self._calibrate()
        self.guarantee_ = guarantee.mark_seeded() if _noise.is_seeded() else guarantee
        self._calibrated_for = self._private_parameters()

    @silent
    def transform(self, X):
        """Release a fresh private sketch of each row.

        Each call is a new release: sketching the same rows twice costs their privacy twice.

        What is computed of a row before the noise depends on its numbers alone, and not on format, type, order of
        entries, entries that are stored in parts, its place or other rows. That holds to the last bit, or, where linear
        algebra sums products with a dense projection in an order of its own, to within the rounding that the noise is
        calibrated for.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows to release.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            The sketches. Those of a dask collection are a lazy dask array in the same chunks of rows; each time it is
            computed is a release. A frame, if `set_output` asks for one, has its rows numbered from 0: the index of X,
            which may name the rows, is not released.

        Raises
        ------
        ValueError
            If a row has NaN or infinite values, the wrong width, or lies outside the domain of the guarantee, or if a
            parameter was changed after fit. Nothing is released then.
        """
        sketch = self._snapshot()  # a fit in another thread would change the noise of the rows still to come
        sketch._check_calibrated()
        given = stand_in(X) if is_lazy(X) else X
        rows = validate_data(sketch, given, accept_sparse="csr", dtype=FLOATS, reset=False)
        dtype = sketch._output_dtype(float_type(given, rows))
        if is_lazy(X):
            return release_lazily(sketch, X, dtype)
        sketch._check_domain(rows)
        if _noise.is_seeded() and not self.guarantee_.seeded:
            self.guarantee_ = self.guarantee_.mark_seeded()
        return sketch._numbered(sketch._release(rows, dtype))

    def _container(self):
        """What scikit-learn is told to put the sketches in."""
        config = getattr(self, "_sklearn_output_config", {})
        return config.get("transform", get_config()["transform_output"])

    def _numbered(self, sketches):
        """Number the rows of a frame from 0: scikit-learn would give it the index of X, which may name them."""
        if self._container() != "pandas":
            return sketches
        import pandas as pd

        return pd.DataFrame(sketches, copy=False)

    def _remember_last_fit(self):
        """Keep for what an earlier fit was: what was released then is not what the next guarantee says."""
        if getattr(self, "_calibrated_for", None) is not None:
            last, earlier = (self._calibrated_for, self.guarantee_.seeded), getattr(self, "_earlier_fits", [])
            self._earlier_fits = earlier if last in earlier else [*earlier, last]

    @property
    def _was_fitted_otherwise(self):
        """Whether rows may have been released by an earlier fit, for other parameters."""
        now = self._calibrated_for, self.guarantee_.seeded
        return any(fit != now for fit in getattr(self, "_earlier_fits", []))

    def _check_calibrated(self):
        """Refuse to go on under a guarantee that does not hold."""
        check_is_fitted(self)
        if self._private_parameters() != self._calibrated_for:
            raise ValueError("The last fit failed, or a parameter was changed after it: no guarantee holds, fit again.")

    @property
    def _slack(self):
        """Share of `max_change` that the rounding of two neighbours may add to it."""
        return SLACK

    def _private_parameters(self):
        """Parameters that the calibration and the guarantee depend on."""
        public = {"random_state", "n_jobs", "output"}
        return {name: value for name, value in self.get_params(deep=False).items() if name not in public}

    @property
    def _n_features_out(self):
        return self.projection_.n_components

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _make_projection(self, n_features):
        kind = self._projection_kind()
        if self.n_components > n_features and kind != "identity":
            warn_at_caller(
                f"n_components={self.n_components} is more than the {n_features} features of X: the sketch is larger "
                "than the data.",
                DataDimensionalityWarning,
            )
        options = self._projection_options()
        return make_projection(kind, n_features, self.n_components, check_random_state(self.random_state), **options)

    def _projection_kind(self):
        return self.projection

    def _projection_options(self):
        return {}

    def _guarantee(self, delta, *, adjacency, released, mechanism, source, assumptions=(), **more):
        """State the guarantee of one release; `adjacency` names the distance that `max_change` bounds."""
        common = (
            "the projection is public and does not depend on the data",
            "rows reach the sketch by a map that was not fitted on them",
        )
        return PrivacyGuarantee(
            self.epsilon,
            delta,
            adjacency=Adjacency(adjacency, self.max_change),
            per="transform",
            released=f"{released}; the projection",
            mechanism=mechanism,
            assumptions=(*assumptions, *common),
            not_covered=_NOT_COVERED,
            source=source,
            **more,
        )

    def _check_delta_of_a_draw(self):
        """Refuse a delta over the draw of the projection that is below the chance of one seed."""
        if self.delta < LEAST_DELTA_OF_A_DRAW:
            raise ValueError(
                f"delta={self.delta:g} is below {LEAST_DELTA_OF_A_DRAW:g}: it includes the draw of the projection, "
                "which comes from one of 2**32 seeds if random_state is an integer."
            )

    def _release(self, X, dtype):
        """Work by blocks that fit the cache; on few rows they are smaller, so that each thread has one."""
        out = np.empty((X.shape[0], self._n_features_out), dtype=dtype)
        small = X.shape[0] * self.projection_.n_components < _PARALLEL_ENTRIES
        n_jobs = 1 if _noise.is_seeded() or small else effective_n_jobs(self.n_jobs)
        size = min(self.projection_.rows_per_block(X), -(-X.shape[0] // n_jobs))
        per_job = size * -(-X.shape[0] // (size * n_jobs))
        in_threads(lambda rows: self._release_rows(X, rows, size, out), gen_batches(X.shape[0], per_job))
        return out

    def _release_rows(self, X, rows, size, out):
        slices = [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]
        for block, x in self.projection_.project_blocks(X, slices):
            out[block] = self._randomise(x)

    def _check_domain(self, X):
        """Refuse rows whose rounding could move a projection by more than a slack times what `max_change` can.

        A sum of n terms ``u_i w_ij``, where the u_i are rounded themselves, is off by at most
        ``(n + 1) 2**-53 |u|_1 max_i |w_ij|`` in whatever order it is summed, all components together by
        ``(n + 1) 2**-53 |u|_1 max_i |W_i|``; half the slack pays for the two neighbours, and the other for terms of
        second order. The l1 norms are computed only where the largest entry does not bound them well enough. Each
        comparison is such that NaN fails it.
        """
        largest = self.max_change * self._slack / 4 * 2.0**53
        terms = np.diff(X.indptr).max(initial=1) if sp.issparse(X) else X.shape[1]
        entries = X.data if sp.issparse(X) else X
        entry = max(float(entries.max(initial=0)), -float(entries.min(initial=0)))
        if (terms + 1) * terms * entry <= largest / 2:
            return
        for block in blocks_of(X):
            if not (((block != 0).sum(axis=1) + 1) * abs(block).sum(axis=1) <= largest).all():
                raise ValueError(
                    "X has a row so large that float64 is too coarse to project it to within "
                    f"max_change={self.max_change}. Scale X, or raise max_change."
                )

    @abstractmethod
    def _calibrate(self):
        """Set the sensitivity and the scale of the noise for `projection_`; return the guarantee."""

    @abstractmethod
    def _output_dtype(self, dtype):
        """Return the dtype of the release of rows of a dtype."""

    @abstractmethod
    def _randomise(self, x):
        """Turn unscaled projections, a float64 array that may be overwritten, into a release."""
