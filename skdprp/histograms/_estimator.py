"""Estimators of private histograms: one Gaussian release for all columns of a table."""

from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from .. import _noise
from .._adjacency import Unit
from .._calibration import Calibration, GuaranteeDisplayMixin, MarkedReleaseMixin, snapshot, state_guarantee, take_over
from .._digits import printed_down, printed_up
from .._errors import silent
from .._lazy import compute_joined, is_lazy, partitions, stand_in
from .._recording import in_plan
from .._rows import chunks_with_rows
from .._validation import (
    POSITIVE,
    Interval,
    PythonNumbersMixin,
    StrOptions,
    UncachedMixin,
    _fit_context,
    validate_schema,
)
from ..composition import PrivacyLoss
from ..guarantee import (
    NOT_COVERED,
    ONLY_PRIVATE_STEPS_FITTED,
    PARAMETERS_ARE_PUBLIC,
    Adjacency,
    PrivacyGuarantee,
    assumed_of_unit,
)
from ..mechanisms import sampled_target
from ..mechanisms.thresholded_counts import (
    add_thresholded_noise,
    name_probability,
    shift_of_epsilon,
    thresholded_counts_scale,
)
from ..sensitivity import histograms_sensitivity
from ._cells import MOST_CELLS
from ._columns import N_PUBLIC, Listed, Numbers, Unlisted, columns_of, count, joined_counts, key_of, read
from ._release import CategoryCounts, Histograms, NumberHistogram

HISTOGRAMS_CONSTRAINTS = {
    "bounds": [None, "array-like", dict],
    "categories": [None, "array-like", dict],
    "epsilon": POSITIVE,
    "delta": [Interval(Real, 0, 1, closed="neither"), None],
    "adjacency": [StrOptions({"replace_one", "add_remove"})],
    "n_cells": [Interval(Integral, 2, MOST_CELLS, closed="both")],
}


class PrivateHistograms(
    GuaranteeDisplayMixin, MarkedReleaseMixin, PythonNumbersMixin, UncachedMixin, BaseEstimator, ABC
):
    """Release histograms of all columns of a table once, and learn from them alone.

    Children are parameters, and what is computed from the histograms, which costs no privacy.
    """

    _released = "histograms_"
    _release_attribute = "histograms_"
    _counts_listed = True  # whether counts of listed categories are wanted

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, **unsupported):
        """Release private histograms of the columns of a table, and learn from them.

        Each call is a new release, with fresh noise: fitting the same rows twice costs their privacy twice.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe, dask dataframe or array} of shape (n_samples, n_features)
            Rows. In a dataframe, columns of numbers and truth values hold numbers, and all others categories. In an
            array all columns hold numbers, except those that `categories` names. :class:`~skdprp.DPScaler` takes
            columns of numbers only. NaN, None and NA are missing values.
        y : None
            Ignored.
        **unsupported : dict
            Nothing; `groups` and `sample_weight` are refused with the reason.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If X holds infinite numbers, dates, text in a column of numbers, or columns of categories for
            :class:`~skdprp.DPScaler`; if a parameter does not fit the columns, or there is more than X. Nothing is
            released then.
        """
        if unsupported:
            raise TypeError(
                f"{type(self).__name__}.fit takes no {' and no '.join(unsupported)}: its guarantee is for one row, and "
                "each row counts once. To protect persons, make one row of each, or give bounds, edges and categories."
            )
        return self._fit([X])

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks):
        """Release private histograms of a table that comes in chunks, in one pass and under one guarantee.

        Parameters
        ----------
        chunks : iterable of X
            Rows, as `fit` takes them. Their counts add up exactly, whatever their order and size.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            As `fit`, or if there are no chunks. Nothing is released then.
        """
        return self._fit(chunks)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_histograms(self, histograms):
        """Learn from histograms that were released before, which costs no privacy.

        Parameters
        ----------
        histograms : Histograms
            A release, such as ``DPHistograms(...).fit(X).histograms_``. Bounds, categories and guarantee are those of
            the release, whatever the parameters of the same names.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        TypeError
            If these are no histograms.
        """
        if not isinstance(histograms, Histograms):
            raise TypeError(f"Expected Histograms, such as estimator.histograms_, got {type(histograms).__name__}.")
        model = snapshot(self)
        model._calibrated_for = None  # the release was calibrated for parameters of another
        if histograms is vars(self).get("histograms_"):  # of rows that passed what its fit was behind
            model._fitted_behind = getattr(self, "_fitted_behind", "")
        model._learn(histograms)
        model.histograms_, model.delta_ = histograms, histograms.guarantee.delta
        model.scale_, model.threshold_ = histograms.scale, histograms.threshold
        state_guarantee(model, replace(histograms.guarantee, per="fit"))
        model.n_features_in_ = len(histograms.columns)
        if histograms.names is not None:
            model.feature_names_in_ = np.array(histograms.names, dtype=object)
        take_over(self, model)
        return self

    def _fit(self, chunks):
        model = snapshot(self)
        model._calibrated_for = model.get_params(deep=False)
        n_samples, columns, counts = model._count(chunks)
        model._kinds = columns
        if in_plan():  # names of bins would tell of the few rows, and whoever fits a step that follows reads them
            n_samples, counts = N_PUBLIC, [column.public_counts() for column in columns]
        calibration = model._calibrate(n_samples, columns)
        with calibration.recorded(self, in_plans=True) as entry:
            released = _release(columns, counts, n_samples, **calibration.noise)
        seeded = entry.was_seeded()
        guarantee = calibration.guarantee.mark_seeded() if seeded else calibration.guarantee
        names = tuple(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None
        model.histograms_ = Histograms(released, names, n_samples, **calibration.noise, guarantee=guarantee)
        model._learn(model.histograms_)
        calibration.publish(model, seeded=seeded)
        take_over(self, model)
        return self

    def _count(self, chunks):
        """Count the values of all chunks; return the number of rows and how each column is counted, too."""
        columns = total = None
        for (chunk,) in chunks_with_rows((chunk,) for chunk in chunks):  # which may be a tuple of rows itself
            given = stand_in(chunk) if is_lazy(chunk) else chunk
            validate_schema(self, given, reset=columns is None)
            columns = self._columns(given) if columns is None else columns
            if is_lazy(chunk):  # each partition, on the scheduler in use
                import dask

                tasks = [dask.delayed(_count_partition)(part, columns) for part in partitions(chunk)[0]]
                parts = compute_joined(tasks, joined_counts)
            else:
                parts = [count(chunk, columns)]
            total = joined_counts([total, *parts])
        if total is None:
            raise ValueError("There are no rows.")
        n_samples, counts = total
        return n_samples, columns, counts

    def _exact_sums(self, X):
        """Sums over all rows before there is noise, for audits."""
        _, columns, counts = self._count([X])
        return np.concatenate([column.sums(some) for column, some in zip(columns, counts, strict=True)])

    def _columns(self, X):
        """How each column is counted."""
        return columns_of(
            X,
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
            bounds=self.bounds,
            categories=self.categories,
            n_cells=self.n_cells,
            counts_listed=self._counts_listed,
        )

    def _calibration_of(self, shape, dtype, n_targets):
        """What `fit` would fix for so many rows of the columns that were seen: nothing is spent."""
        return self._calibrate(shape[0], self._kinds)

    def _calibrate(self, n_samples, columns):
        """Noise, threshold and guarantee, from the number of rows and how columns are counted."""
        delta = self.delta if self.delta is not None else 1.0 / max(n_samples, 2) ** 2
        sensitivity = histograms_sensitivity(sum(one.norm_squared for one in columns), adjacency=self.adjacency)
        if not sensitivity:
            raise ValueError("All columns have listed categories, and nothing is to be counted: use OneHotEncoder.")
        if n_samples >= 2**36:  # from where on sums are not exact
            raise ValueError("Counts of so many rows are not exact: release parts of them.")
        n_changed = sum(one.n_changed for one in columns)
        target, n_unlisted = sampled_target(self.epsilon, delta, n_changed=n_changed), columns.count(Unlisted())
        scale, threshold = thresholded_counts_scale(*target, sensitivity=sensitivity, n_columns=n_unlisted)
        named = name_probability(scale=scale, threshold=threshold, n_columns=n_unlisted) if n_unlisted else 0.0
        is_told = self.bounds is not None or any(type(one) is Listed for one in columns)
        unlisted = f"unlisted categories of {n_unlisted} column" + "s" * (n_unlisted > 1)
        above = f", {unlisted} named if their noisy count is above {printed_down(threshold, 6)}" * bool(n_unlisted)
        guarantee = PrivacyGuarantee(
            self.epsilon,
            delta,
            adjacency=Adjacency(self.adjacency),
            per="fit",
            released=self._released,
            mechanism=f"Gaussian mechanism on counts of all columns, scale {printed_down(scale, 6)}, "
            f"sensitivity {printed_up(sensitivity, 6)}{above}",
            assumptions=(
                *assumed_of_unit(Unit.ROW, self.adjacency),
                ONLY_PRIVATE_STEPS_FITTED,
                PARAMETERS_ARE_PUBLIC,
                *["bounds and listed categories do not come from the data"] * is_told,
            ),
            not_covered=NOT_COVERED,
            source="exact Gaussian profile; proofs in histograms_sensitivity and thresholded_counts_profile",
            loss=PrivacyLoss(
                mu=sensitivity / scale,
                sampling=n_changed * _noise.SAMPLING_LOSS + shift_of_epsilon(named) / 2,
                failure_probability=named,
            ),
        )
        fitted = {"delta_": delta, "scale_": scale, "threshold_": threshold}
        return Calibration(guarantee, fitted=fitted, noise={"scale": scale, "threshold": threshold})

    @abstractmethod
    def _learn(self, histograms):
        """Set what follows from released histograms."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = True
        return tags


class DPHistograms(PrivateHistograms):
    """Private histograms of all columns of a table, in one release: quantiles, means, categories, missing values.

    For tables of which neither bounds nor categories are known. Whatever is computed from the release costs no more
    privacy: quantiles and means of columns, and what :class:`~skdprp.DPBinner` and :class:`~skdprp.DPScaler` learn.

    Parameters
    ----------
    bounds : tuple (low, high), dict or None, default=None
        Least and largest value of all columns of numbers, or of some by their names. Public: never read from the data.
        Between them there are `n_cells` cells of one width. None has cells for numbers of any size, see Notes.
    categories : dict, list of names or None, default=None
        Categories by the names of their columns, as lists that do not come from the data; or None in the place of a
        list, for those that are frequent, see Notes. A list names columns of categories without listing any. Where X
        is a dataframe, columns that hold no numbers are categories in any case.
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row in the place of one row. With "add_remove", the row is blank
        in the neighbour: another guarantee, which needs less noise. The number of places for rows is public in both.
    n_cells : int, default=4096
        Largest number of cells between bounds, from 2 to 65536. Noise grows with its logarithm only.

    Attributes
    ----------
    histograms_ : Histograms
        The release.
    delta_ : float
        The value used.
    scale_ : float
        Standard deviation of the noise of each released value.
    threshold_ : float
        What the noisy count of a category has to exceed for it to be named; infinite where all are listed.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    n_features_in_ : int
        Number of columns seen in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, when X has string names.

    See Also
    --------
    DPBinner : Bins at private quantiles.
    DPScaler : Scales columns by private ranges.
    DPMoments : Products of columns, where bounds are known.

    Notes
    -----
    Quantiles need sums of counts. If each count had noise, the noise of thousands of cells would add up. Released are
    instead weighted sums ``B h`` of the counts h, with noise. B is the lower triangular matrix for which ``B B`` is the
    matrix of ones on and below the diagonal. So ``B (B h)`` has the number of values up to each cell. The columns of B
    have norms of about ``(1 + log(n_cells) / pi)^(1/2)``. Multiplied by B again, the noise grows by no more than this
    factor [1]_. Entries of B are rounded to multiples of 1 / 4096, so that sums are exact in floating point.

    Without bounds, a cell holds the numbers that share the sign, the exponent and the first 8 bits of the mantissa, or
    10 bits for numbers from 1 to 4096. 0 has a cell of its own. So 1990 and 1991 are told apart, and so are 50,000 and
    50,200. Bounds reduce the noise by a few percent, and make cells finer unless they are far too wide.

    If the categories of a column are not listed, those are released whose noisy count exceeds a threshold. One row
    alone passes it with a small probability, which is part of `delta`. All others stay unnamed.

    Which columns hold numbers follows from the types of the columns, which are taken to be public.

    References
    ----------
    .. [1] H. Fichtenberger, M. Henzinger and J. Upadhyay, "Constant Matters: Fine-grained Error Bound on Differentially
       Private Continual Observation", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import DPHistograms
    >>> years = np.repeat(np.arange(1990, 2010), 1000)[:, None]
    >>> release = DPHistograms(delta=1e-6).fit(years)
    >>> release.guarantee_
    (1.0, 1e-06)-DP, one row replaced
    >>> 1996 <= release.histograms_.quantile(0, 0.5) <= 2003
    True
    """

    _parameter_constraints: dict = HISTOGRAMS_CONSTRAINTS

    def __init__(self, *, bounds=None, categories=None, epsilon=1.0, delta=None, adjacency="replace_one", n_cells=4096):
        self.bounds = bounds
        self.categories = categories
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_cells = n_cells

    def _learn(self, histograms):
        """Learn nothing more."""


def values_of(X, histograms):
    """Values of each column of a table as its release counted them: floats with nan, or lists of cells."""
    columns = (
        Numbers(one.cells) if isinstance(one, NumberHistogram) else Listed(one.categories) for one in histograms.columns
    )
    return read(X, tuple(columns))[1]


@silent
def _count_partition(X, columns):
    return count(X, columns) if X.shape[0] else None


def _release(columns, counts, n_samples, *, scale, threshold):
    """Add noise to all that is counted, in one release."""
    sums = [column.sums(some) for column, some in zip(columns, counts, strict=True)]
    noisy = np.concatenate(sums)
    _noise.add_gaussian(noisy, scale)
    parts = np.split(noisy, np.cumsum([len(some) for some in sums])[:-1])
    released = []
    for column, counted, some in zip(columns, counts, parts, strict=True):
        if type(column) is Numbers:
            released.append(NumberHistogram(column.cells, some.copy(), scale, n_samples))
        elif type(column) is Listed and not column.is_counted:
            released.append(CategoryCounts(column.categories, None, None))
        elif type(column) is Listed:
            *noisy_counts, others, missing = some.tolist()
            released.append(CategoryCounts(column.categories, tuple(noisy_counts), missing, others))
        else:
            # In the order of their names: that of the rows would tell of them.
            keys = sorted(key for key in counted if key != key_of(None))
            noisy_counts, is_kept = add_thresholded_noise([counted[key] for key in keys], scale, threshold)
            names = tuple(key[1] for key, kept in zip(keys, is_kept, strict=True) if kept)
            released.append(CategoryCounts(names, tuple(noisy_counts[is_kept].tolist()), float(some[0])))
    return tuple(released)
