"""What all sketches share: fit from a shape, release by blocks of rows."""

from abc import ABC, abstractmethod
from numbers import Real
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from scipy.special import ndtri
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from .. import _noise
from .._calibration import GuaranteeDisplayMixin, is_as_stated, snapshot, state_guarantee, take_over
from .._digits import as_given
from .._errors import silent, warn_at_caller
from .._kernels import read_only, rows_of
from .._lazy import is_lazy, output_container, stand_in
from .._recording import in_plan
from .._rows import float_type
from .._threads import in_threads, one_blas_thread
from .._validation import (
    FLOATS,
    Interval,
    PythonNumbersMixin,
    StrOptions,
    UncachedMixin,
    _fit_context,
    public_numbers,
    validate_data,
)
from ..guarantee import PARAMETERS_ARE_PUBLIC, Adjacency, Definition, PrivacyGuarantee
from ..ledger._ledger import Release
from ._dask import RELEASED_LAZILY, release_lazily

_PARALLEL_ENTRIES = 2**20  # of the projection, below which threads may cost more than they gain
_NORM_ENTRIES = 2**16
# Share of `max_change` by which rounding may move two neighbours further apart, and for which the noise is calibrated.
ROUNDING_MARGIN = 2.0**-10
_PERHAPS_OF_THE_CLASS = ("adjacency", "calibration", "delta", "noise")
RELEASED_SEEDED = set()  # names of fits of which a copy, too, has released with seeded noise in this process
# W is one of those that seeds give: 2**32 for an integer random_state, and nobody knows how a RandomState was seeded.
# Of rows that happen to be the worst for one of them, delta is up to 2**-32 = 2.3e-10, whatever is computed of a draw.
# Whoever tries seeds makes rows of p numbers that are the worst for about p / k of them: these the assumption excludes.
LEAST_DELTA_OF_A_DRAW = 1e-9
DRAW = (
    "delta includes the draw of the projection, taken as one of Gaussian numbers that are independent of the rows: "
    "rows are chosen without knowledge of its seed, and not by what the generator makes of any seeds"
)
DENSITY = [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"})]  # of a very sparse projection
_ASSUMPTIONS = (
    "the projection is public and does not depend on the data",
    PARAMETERS_ARE_PUBLIC,
    "no preceding step was fitted on the rows",
)
_NOT_COVERED = (
    "rows that differ by more than max_change",
    "the labels and the number of rows",
    "whether a row is refused (too large for float64, or outside an assumed bound)",
    "the running time",
)


def blocks_of(X):
    """Rows in float64, by blocks that fit the cache."""
    size = max(1, _NORM_ENTRIES * X.shape[0] // max(X.nnz if sp.issparse(X) else X.size, 1))
    return (rows_of(X, rows).astype(np.float64, copy=False) for rows in gen_batches(X.shape[0], size))


def _read_only_arrays(state):
    """Return attributes whose arrays nobody can write to: the noise is calibrated for what they hold."""
    for value in state.values():
        if isinstance(value, np.ndarray):
            read_only(value)
    return state


class BaseSketch(
    GuaranteeDisplayMixin,
    PythonNumbersMixin,
    UncachedMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """Fit from the shape of X, then project and randomise each row at every call of `transform`.

    A sketch fills in how it draws its projection, how it calibrates the noise, of which type its releases are, and how
    it randomises a block of projections.
    """

    def __setstate__(self, state):
        super().__setstate__(_read_only_arrays(state))  # those of a pickle or a deep copy could be written to

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
        # What the last fit released stays released, under a guarantee that the next one does not state.
        self._note_last_fit()
        self._calibrated_for = None  # until this fit has succeeded, nothing is released
        # On a copy, which is taken over at once: a thread that releases meanwhile sees no part of this fit.
        sketch = snapshot(self)
        X = validate_data(sketch, stand_in(X) if is_lazy(X) else X, accept_sparse="csr", dtype=FLOATS)
        projection = sketch._draw_projection(X.shape[1], check_random_state(sketch.random_state))
        if projection.n_components > X.shape[1]:
            warn_at_caller(
                f"n_components={projection.n_components} is more than the {X.shape[1]} features of X: the sketch is "
                "larger than the data.",
                DataDimensionalityWarning,
            )
        sketch._calibrate_to(projection)
        sketch._warn_of_uselessness()
        self._note_last_fit()  # of a thread that has fitted it since
        sketch._earlier_fits = self._earlier_fits
        take_over(self, sketch)
        return self

    def _calibrate_to(self, projection):
        """Calibrate the noise for a projection and state the guarantee."""
        self.projection_ = self._calibrated_to = projection
        self._fit_name = uuid4().hex
        calibration = self._calibrate(projection)
        calibration.publish(self, seeded=_noise.is_seeded())
        self._noise_of_fit = dict(calibration.fitted)
        self._calibrated_for = self._stated_for = self._private_parameters()
        _read_only_arrays(vars(self))

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
            If a row has NaN or infinite values, the wrong width, or lies outside the domain of the guarantee, if a
            parameter was changed after fit, or if a frame is asked for and the index of X numbers its rows in another
            order: a union would join their sketches to other rows. Nothing is released then.
        """
        sketch = object.__new__(type(self))  # as a fit in another thread would change the noise of rows still to come
        vars(sketch).update(vars(self))
        sketch._check_calibrated()
        vars(sketch).update(sketch._calibrated_for | sketch._noise_of_fit)  # which is equal to those, as they say
        # Of lazy rows only width, names and types are known: their values are checked with each chunk.
        given = stand_in(X) if is_lazy(X) else X
        rows = validate_data(sketch, given, accept_sparse="csr", dtype=FLOATS, reset=False)
        dtype = sketch._output_dtype(float_type(given, rows))
        if is_lazy(X):
            if in_plan():  # computed anywhere, they would be releases
                raise TypeError("X is a dask collection, of which a plan sees nothing: give an array.")
            self._was_given_lazy_rows = True  # which goes with it into another process
            return release_lazily(sketch, X, dtype)
        sketch._check_domain(rows)
        if output_container(sketch) == "pandas":
            _check_order_of(X)
        if in_plan():  # what follows may keep or print what it sees
            sketches = _public_numbers(rows.shape[0], sketch.projection_.n_components, dtype)
        else:
            effective_n_jobs(sketch.n_jobs)  # which refuses 0, before anything is released
            if _noise.is_seeded():
                self._mark_seeded(sketch)
            with Release(sketch.guarantee_, type(self).__name__):  # entered into the open ledgers
                sketches = sketch._release(rows, dtype)
        if output_container(sketch) != "pandas":
            return sketches
        import pandas as pd

        return pd.DataFrame(sketches, copy=False)  # scikit-learn would give it the index of X, which may name the rows

    def _mark_seeded(self, sketch):
        """State of a copy that is about to release, and of this sketch, that whoever has the seed can undo it."""
        RELEASED_SEEDED.add(sketch._fit_name)
        stated = sketch.guarantee_
        state_guarantee(sketch, stated.mark_seeded(), of_a_fit=False)
        if self.guarantee_ is stated:  # it may be of another fit by now
            state_guarantee(self, sketch.guarantee_, of_a_fit=False)

    @silent
    def project_queries(self, X):
        """Project rows as `transform` does, without any noise: queries that need no protection.

        Nothing is released by it as long as what it returns stays with the searcher.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Rows without noise.

        Returns
        -------
        ndarray of float64, shape (n_queries, n_components)
            Their plain projections, **with no privacy**: ``W' u`` over the divisor of the projection.

        Raises
        ------
        TypeError
            If X is a dask collection.
        ValueError
            If X has no rows, NaN, infinite values or the wrong width, or if a parameter was changed after fit.

        Examples
        --------
        >>> from skdprp import DPRandomProjection
        >>> sketch = DPRandomProjection(projection="identity").fit([[0.0, 0.0, 0.0]])
        >>> sketch.project_queries([[1.0, 2.0, 3.0]])
        array([[1., 2., 3.]])
        """
        self._check_calibrated()
        if is_lazy(X):
            raise TypeError("Plain queries are not lazy: compute them first.")
        rows = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return self.projection_.project(rows) / self.projection_.divisor

    def __getstate__(self):
        return super().__getstate__() | ({"_was_given_lazy_rows": True} if self._released_lazily else {})

    @property
    def _released_lazily(self):
        """Whether lazy rows were released: how often is not known here, and reports add nothing up."""
        # The sketch itself, or a copy of it, of whose fit the name is.
        return getattr(self, "_was_given_lazy_rows", False) or getattr(self, "_fit_name", None) in RELEASED_LAZILY

    @property
    def _was_fitted_otherwise(self):
        """Whether rows may have been released by an earlier fit, for other parameters or under another guarantee."""
        now = self._what_was_stated()
        return any(fit != now for fit in getattr(self, "_earlier_fits", []))

    def _note_last_fit(self):
        """Keep what the last fit stated, if there was one, and that it released lazy rows."""
        if self._released_lazily:
            self._was_given_lazy_rows = True
        earlier = getattr(self, "_earlier_fits", [])
        last = [self._what_was_stated()] if hasattr(self, "_stated_guarantee") else []
        self._earlier_fits = [*earlier, *(one for one in last if one not in earlier)]

    def _what_was_stated(self):
        """Parameters and guarantee of the last fit, up to what draws of the projection round in other ways."""
        stated, found = self._stated_guarantee, getattr(self, "guarantee_", None)
        loss = None if stated.loss is None else (f"{stated.loss.mu:.6g}", stated.loss.profiles)
        hidden = None if stated.hidden_changes is None else f"{stated.hidden_changes:.6g}"
        return self._stated_for, stated.seeded, getattr(found, "violation", ""), loss, hidden

    def _check_calibrated(self):
        """Refuse to go on under a guarantee that does not hold."""
        check_is_fitted(self)
        if self._private_parameters() != self._calibrated_for:
            raise ValueError("The last fit failed, or a parameter was changed after it: no guarantee holds, fit again.")
        if self.projection_ is not self._calibrated_to:  # that of another sketch has another sensitivity
            raise ValueError("projection_ was set after the fit: no guarantee holds for it, fit again.")
        for name, value in self._noise_of_fit.items():
            if not np.array_equal(getattr(self, name, None), value):
                raise ValueError(f"{name} was set after the fit: no guarantee holds for it, fit again.")
        if not is_as_stated(self):
            raise ValueError("guarantee_ was set after the fit, and is not what was stated of its noise: fit again.")

    def _private_parameters(self):
        """Parameters that the calibration and the guarantee depend on."""
        # The guarantee holds for every projection that is drawn, and for rows of any number of nonzeros; bits may be
        # packed and threads added without harm.
        public = {"random_state", "n_jobs", "output", "max_nonzeros"}
        parameters = {name: value for name, value in self._parameters_held().items() if name not in public}
        # A sketch that offers one kind alone has it in its class, where an object may have another one set.
        of_class = {name: getattr(self, name) for name in _PERHAPS_OF_THE_CLASS if hasattr(self, name)}
        return of_class | parameters

    @property
    def _n_features_out(self):
        return self.projection_.n_components

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        floats = ("float64", "float32")
        tags.transformer_tags.preserves_dtype = [name for name in floats if self._output_dtype(np.dtype(name)) == name]
        return tags

    def _guarantee(
        self,
        delta,
        *,
        adjacency,
        released,
        mechanism,
        source,
        loss=None,
        assumptions=(),
        definition=Definition.DP,
        hidden_changes=None,
    ):
        """State the guarantee of one release; `adjacency` names the distance that `max_change` bounds."""
        return PrivacyGuarantee(
            self.epsilon,
            delta,
            definition=definition,
            adjacency=Adjacency(adjacency, self.max_change),
            per="transform",
            released=f"projection_, and of each row {released}",
            mechanism=mechanism,
            assumptions=(*assumptions, *_ASSUMPTIONS),
            not_covered=_NOT_COVERED,
            source=source,
            loss=loss,
            hidden_changes=hidden_changes,
        )

    def _release(self, X, dtype):
        """Project and randomise rows by blocks that fit the cache; their release is recorded already."""
        out = np.empty((X.shape[0], self._n_features_out), dtype=dtype)
        small = X.shape[0] * self.projection_.n_components < _PARALLEL_ENTRIES
        # A seed holds in one thread: in others the noise of a seeded release would come from the kernel.
        n_jobs = 1 if _noise.is_seeded() or small else effective_n_jobs(self.n_jobs)
        # With few rows smaller blocks, so that each thread has one.
        size = min(self.projection_.rows_per_block(X), -(-X.shape[0] // n_jobs))
        blocks = list(gen_batches(X.shape[0], size))
        per_job = -(-len(blocks) // n_jobs)
        jobs = [blocks[start : start + per_job] for start in range(0, len(blocks), per_job)]

        def _release_blocks(blocks):
            for rows, x in self.projection_.project_blocks(X, blocks):
                out[rows] = self._randomise(x)

        with one_blas_thread():
            in_threads(_release_blocks, jobs)
        return out

    def _check_domain(self, X, rounding_margin=ROUNDING_MARGIN):
        """Refuse rows whose rounding could move a projection by more than a margin times what `max_change` can.

        A sum of n terms ``u_i w_ij``, where the u_i are rounded themselves, is off by at most
        ``(n + 1) 2**-53 |u|_1 max_i |w_ij|`` in whatever order it is summed, all components together by
        ``(n + 1) 2**-53 |u|_1 max_i |W_i|``; half the margin pays for the two neighbours, and the other for terms of
        second order. The largest norm of a row of W is in both, and so in neither of the two that are compared.
        """
        largest = self.max_change * rounding_margin / 4 * 2.0**53
        # In Python's integers: the square of the 32 bits that count stored entries would wrap, and refuse no row.
        terms = int(np.diff(X.indptr).max(initial=1)) if sp.issparse(X) else X.shape[1]
        entries = X.data if sp.issparse(X) else X
        entry = max(float(entries.max(initial=0)), -float(entries.min(initial=0)))
        # Mostly the largest entry bounds all l1 norms well enough, and is far cheaper. NaN fails each comparison.
        if (terms + 1) * terms * entry <= largest / 2:
            return
        for block in blocks_of(X):
            if not (((block != 0).sum(axis=1) + 1) * abs(block).sum(axis=1) <= largest).all():
                raise ValueError(
                    "X has a row so large that float64 is too coarse to project it to within "
                    f"max_change={self.max_change}. Scale X, or raise max_change."
                )

    def _warn_of_uselessness(self):
        """Warn where it is public that what is released tells next to nothing of a row.

        That is where the best guess between a row and one of zeros is right with probability 3/4 at most, on average
        over the signs of its numbers: to change one is to change the sign of a row of W. Numbers or bits whose
        distributions have affinities (Bhattacharyya coefficients) of at least ``exp(-l_j^2 / 8)`` have one of at least
        ``exp(-Q / 8)`` together, ``Q = sum_j l_j^2``, and a total variation distance of at most
        ``sqrt(1 - exp(-Q / 4))``, which is 1/2 at ``Q = 4 log(4/3)`` [1]_. It is concave in Q, so that the mean of Q
        bounds its mean.

        References
        ----------
        .. [1] L. Le Cam, "Asymptotic Methods in Statistical Decision Theory", 1986, Chapter 4.
        """
        if self.max_nonzeros is None or getattr(self, "min_norm", None) is not None:
            return  # how large rows are is not known then, or there are none of zeros
        if self.projection_.row_norm(2) == 0:
            return  # no noise is to blame
        if self._mean_squared_loss(min(self.max_nonzeros, self.n_features_in_)) <= 4 * np.log(4 / 3):
            warn_at_caller(
                f"Rows are lost in the noise: the best guess between a row of zeros and one with max_nonzeros="
                f"{self.max_nonzeros} numbers of at most max_change={as_given(self.max_change)} is right in at most "
                "75 of 100 cases, on average over the signs of these numbers. Raise epsilon, or lower max_change.",
                DataDimensionalityWarning,
            )

    def _mean_squared_loss(self, n_nonzeros):
        """Bound of the mean of Q, see `_warn_of_uselessness`, for rows of so many numbers of at most `max_change`."""
        return np.inf

    def _mean_squared_move(self, n_nonzeros):
        """Bound of the mean squared l2 distance of such rows from zeros, as projections that are not divided.

        Over the signs of the rows W_i it is ``sum_i u_i^2 |W_i|^2``: W is distributed alike whatever these signs
        are, and so is each sensitivity, and with it the noise.
        """
        return n_nonzeros * (self.max_change * self.projection_.row_norm(2)) ** 2

    @abstractmethod
    def _draw_projection(self, n_features, random_state):
        """Draw the public projection of rows of so many features."""

    @abstractmethod
    def _calibrate(self, projection):
        """Return the `Calibration` for a projection: what the release needs as fitted attributes, and the guarantee."""

    @abstractmethod
    def _output_dtype(self, dtype):
        """Return the dtype of the release of rows of a dtype."""

    @abstractmethod
    def _randomise(self, x):
        """Turn unscaled projections, a float64 array that may be overwritten, into a release."""


def _check_order_of(X):
    """Refuse a frame whose index has the numbers of its rows in another order.

    pandas joins frames by their index, without a word where both have the same labels: sketches, whose rows are
    numbered from 0, would stand beside other rows.
    """
    import pandas as pd

    places = pd.RangeIndex(X.shape[0]) if isinstance(X, pd.DataFrame) else None
    if places is not None and not X.index.equals(places) and places.isin(X.index).all():
        raise ValueError(
            "The index of X numbers its rows in another order, and the rows of sketches are numbered from 0: pandas "
            "would join them to other rows. Call X.reset_index(drop=True) first."
        )


def _public_numbers(n_rows, n_components, dtype):
    """Numbers, signs or packed bits that are the same for all rows, as sketches of which nothing is to be seen."""
    numbers = public_numbers(n_rows, n_components)
    if np.dtype(dtype).kind == "u":
        return np.packbits(numbers > 0, axis=1)
    return (np.sign(numbers) if np.dtype(dtype).kind == "i" else numbers).astype(dtype)


def changes_hidden_by_noise(loss, *, noise, n_values):
    """How many times `max_change` two rows may be apart so that the best guess is right with probability 3/4 at most.

    `loss` is that of a change by `max_change`, without rounding: epsilon of Laplace noise or flips, mu of Gaussian
    noise. Projections move in proportion to the change, and by ROUNDING_MARGIN of what `max_change` moves them besides.
    A guess is right with probability ``(1 + TV) / 2``. Of total variation distances at most 1/2 leave the Gaussian
    mechanism a mu of ``2 Phi^-1(3/4)``, by ``TV = 2 Phi(mu / 2) - 1``, and the Laplace mechanism a loss of 2 log 2, by
    ``TV <= 1 - exp(-loss / 2)``. Sampling, which keeps each of n values to within exp(2^-31), has n 2^-30 set aside.
    """
    of_epsilon = n_values * 2 * _noise.SAMPLING_LOSS
    distance = 0.5 - min(of_epsilon, 0.5)
    allowed = 2 * ndtri((1 + distance) / 2) if noise == "gaussian" else -2 * np.log1p(-distance)
    if loss == 0:
        return np.inf
    return max(0.0, float((allowed / loss - ROUNDING_MARGIN) * (1 - 2.0**-40)))


def check_delta_of_a_draw(delta):
    """Refuse a delta over the draw of the projection that is below the chance of one seed."""
    if delta < LEAST_DELTA_OF_A_DRAW:
        raise ValueError(
            f"delta={delta:g} is below {LEAST_DELTA_OF_A_DRAW:g}: it includes the draw of the projection, which comes "
            "from one of 2**32 seeds if random_state is an integer."
        )
