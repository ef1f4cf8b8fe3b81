"""One private release of the second moments of rows and targets, from which every least-squares model follows."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from . import _noise
from ._adjacency import Unit
from ._calibration import Calibration, GuaranteeDisplayMixin, MarkedReleaseMixin, snapshot, state_guarantee, take_over
from ._digits import printed_down, printed_up
from ._errors import silent, without_values
from ._lazy import (
    SAME_ORDER,
    SHUFFLED,
    compute_joined,
    is_lazy,
    partitions,
    shuffles,
    stand_in,
)
from ._persons import persons_in_parts, persons_of, roots
from ._recording import in_plan
from ._rows import array_for_blocks, chunks_with_rows, clip_rows, number_of_rows, scale_rows
from ._sums import CompensatedSum, ProductSum, mirror
from ._validation import (
    FLOATS,
    POSITIVE,
    Interval,
    PythonNumbersMixin,
    StrOptions,
    UncachedMixin,
    _fit_context,
    check_listed,
    public_numbers,
    validate_data,
)
from .composition import PrivacyLoss
from .guarantee import (
    NOT_COVERED,
    ONLY_PRIVATE_STEPS_FITTED,
    PARAMETERS_ARE_PUBLIC,
    Adjacency,
    PrivacyGuarantee,
    assumed_of_unit,
    compose,
)
from .mechanisms import gaussian_scale, sampled_target
from .sensitivity import moments_sensitivity

__all__ = ["DPMoments", "Moments", "add_moments"]

_BLOCK_ENTRIES = 2**18  # of float64, which fit the cache
_SPARSE_ROWS = 8  # rows of a block of sparse rows, for each column
_OTHER_COLUMNS = "The chunks have different numbers of targets, or bounds."
_UNIT = 2.0**-52  # twice the rounding error of one operation, which pays for products of rounding errors

MOMENTS_CONSTRAINTS = {
    "epsilon": POSITIVE,
    "delta": [Interval(Real, 0, 1, closed="neither"), None],
    "max_norm": [Interval(Real, 1e-50, 1e50, closed="both")],  # fourth powers of norms stay in float64
    "adjacency": [StrOptions({"replace_one", "add_remove"})],
}


@dataclass(frozen=True)
class Columns:
    """What the columns of the table ``z = (x, 1, y)`` are: public facts, which bring each row to norm 1 at most.

    `low` and `high` are the bounds of each target, none where there are no targets; `names` those of the features, if
    they have some.
    """

    n_features: int
    max_norm: float
    intercept: bool
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def center(self):
        """What is taken off each target: the middle of its bounds, if an intercept gives it back."""
        low, high = np.array(self.low), np.array(self.high)
        return low + (high - low) / 2 if self.intercept else np.zeros(len(low))

    @property
    def reach(self):
        """Largest distance of each target from its center."""
        return np.maximum(np.array(self.high) - self.center, self.center - np.array(self.low))

    @property
    def n_targets(self):
        """Number of targets."""
        return len(self.low)

    @property
    def constant(self):
        """The constant feature beside rows of norm 1; its size is of theory and simulations, as that of targets."""
        return 0.5 * self.intercept

    @property
    def target_weight(self):
        """Factor of each target of size 1 beside rows of norm 1."""
        return np.sqrt(0.5 / max(self.n_targets, 1))

    @property
    def weights(self):
        """Factors that bring x, 1 and the centred y to a vector u of norm at most 1."""
        rows = np.full(self.n_features, 1 / self.max_norm)
        constant = np.full(int(self.intercept), self.constant)
        norm = np.sqrt(1 + self.constant**2 + 0.5 * bool(self.n_targets))
        return np.concatenate([rows, constant, self.target_weight / self.reach]) / norm

    @property
    def n_released(self):
        """Number of different products of two columns."""
        size = self.n_features + self.intercept + len(self.low)
        return size * (size + 1) // 2

    def clip(self, X, y, factors=None, *, copy=True, out=None):
        """Clip rows and targets to their bounds; return rows, and beside them the constant and the centred targets.

        All of a row is multiplied by its factor, if there are some. Without `copy`, nobody writes into the rows, of
        which a copy begins `out`, if that is given.
        """
        others = np.ones((X.shape[0], self.intercept + self.n_targets))
        if y is not None:
            targets = np.clip(y.reshape(X.shape[0], -1), self.low, self.high, out=others[:, int(self.intercept) :])
            targets -= self.center
        X = clip_rows(X, self.max_norm, copy=copy or factors is not None, out=out)
        if factors is not None:
            scale_rows(X, factors)
            scale_rows(others, factors)
        return X, others

    def natural(self, values):
        """Bring sums of products of u to those of (x, 1, y less its center)."""
        return values / np.outer(self.weights, self.weights)


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise on moments: of standard deviation `scale` on the diagonal, and 1 / sqrt(2) of it beside."""

    scale: float

    def release(self, sums):
        """Add noise to a symmetric matrix, in place."""
        size, root = len(sums), np.sqrt(2.0)
        released = np.empty(size * (size + 1) // 2)
        rows = np.split(released, np.cumsum(np.arange(size, 1, -1)))
        # svec: with sqrt(2) off the diagonal, the norm of the vector is the Frobenius norm of the matrix.
        for i, row in enumerate(rows):
            row[0] = sums[i, i]
            np.multiply(sums[i, i + 1 :], root, out=row[1:])
        _noise.add_gaussian(released, self.scale)
        for i, row in enumerate(rows):
            sums[i, i] = row[0]
            np.divide(row[1:], root, out=sums[i, i + 1 :])
        mirror(sums)
        return sums


@dataclass(frozen=True, eq=False)
class Moments:
    """Released sums of products of the columns of a table, with what a reader needs to know of their noise.

    Parameters
    ----------
    values : ndarray of shape (n_columns, n_columns)
        The sum of ``u u'`` over all rows, with noise; symmetric, and not always positive semidefinite. The columns of u
        are those of X, of a constant and of the targets, in units in which no row has a norm above 1. With `groups`, it
        is the sum over persons of the mean over the rows of each.
    noise : GaussianNoise
        The noise that was added.
    n_samples : int
        Number of rows, which is public; if the guarantee is for one person, the number of persons.
    columns : Columns
        What the columns are.
    guarantee : PrivacyGuarantee
        The guarantee of the release.
    releases : tuple of str, default=()
        Of a sum, the digest of each release in it, which says that none is added twice. A release by itself has none.
    """

    values: np.ndarray
    noise: GaussianNoise
    n_samples: int
    columns: Columns
    guarantee: PrivacyGuarantee
    releases: tuple[str, ...] = ()

    def __eq__(self, other):
        if not isinstance(other, Moments):
            return NotImplemented
        facts = (self.noise, self.n_samples, self.columns, self.guarantee, self.releases)
        alike = facts == (other.noise, other.n_samples, other.columns, other.guarantee, other.releases)
        return alike and np.array_equal(self.values, other.values)

    __hash__ = None

    def __repr__(self):
        units = "persons" if self.guarantee.unit == Unit.PERSON else "rows"
        return f"Moments of {len(self.values)} columns over {self.n_samples:,} {units}, {self.guarantee!r}"

    @property
    def gram(self):
        """Noisy ``X'X`` of the clipped rows, ndarray of shape (n_features, n_features)."""
        d = self.columns.n_features
        return self.columns.natural(self.values)[:d, :d]

    @property
    def mean(self):
        """Noisy mean of each column of X, ndarray of shape (n_features,); None without an intercept."""
        if not self.columns.intercept:
            return None
        d = self.columns.n_features
        return self.columns.natural(self.values)[:d, d] / self.n_samples

    @property
    def cross(self):
        """Noisy ``X'(y - center)`` of clipped rows and targets, ndarray of shape (n_features, n_targets)."""
        d = self.columns.n_features
        return self.columns.natural(self.values)[:d, d + self.columns.intercept :]


def add_moments(*moments, disjoint=False):
    """Add released moments of several tables with the same columns, as of partitions or parties.

    The noise of all adds up: where one place sees all partitions, :meth:`DPMoments.fit_chunks` adds them before the
    noise, and needs that of one release only.

    Parameters
    ----------
    *moments : Moments
        What each has released, all with the same columns and bounds.
    disjoint : bool, default=False
        Whether no row, or no person, is in two of the tables, and which table it is in does not depend on what is in
        it: then the guarantee is that of the weakest release. Otherwise guarantees add up, see :func:`~skdprp.compose`.

    Returns
    -------
    Moments

    Raises
    ------
    TypeError
        If they are no moments.
    ValueError
        If there are none, their columns differ, some are of rows and others of persons, a release is among them twice,
        alone or within sums, or their guarantees do not compose.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import DPMoments, add_moments
    >>> parties = [DPMoments().fit(np.eye(3)).moments_, DPMoments().fit(-np.eye(3)).moments_]
    >>> both = add_moments(*parties, disjoint=True)
    >>> both.n_samples, both.guarantee
    (6, (1.0, 0.112)-DP, one row replaced)
    """
    if others := {type(one).__name__ for one in moments if not isinstance(one, Moments)}:
        raise TypeError(f"Moments are added, such as DPMoments().fit(X).moments_, not {', '.join(sorted(others))}.")
    if len({one.columns for one in moments}) != 1:
        raise ValueError("Moments are added of tables with the same columns and bounds, of at least one.")
    if not all(type(one.noise) is GaussianNoise for one in moments):
        raise ValueError('Projections are not added: choose mechanism="moments".')
    if len({one.guarantee.unit for one in moments}) != 1:
        raise ValueError("Moments of rows are not added to those of persons, in which each person counts once.")
    releases = [digest for one in moments for digest in _releases_in(one)]
    if len(set(releases)) < len(releases):
        raise ValueError(
            "The same moments are added twice, alone or within sums: their noise is one draw, and adds up to twice as "
            "much."
        )
    return Moments(
        values=sum(one.values for one in moments),
        noise=GaussianNoise(float(np.sqrt(sum(one.noise.scale**2 for one in moments)))),
        n_samples=sum(one.n_samples for one in moments),
        columns=moments[0].columns,
        guarantee=compose(*(one.guarantee for one in moments), disjoint=disjoint),
        releases=tuple(sorted(releases)) if len(moments) > 1 else moments[0].releases,
    )


def _releases_in(moments):
    """Digests of the releases that moments are made of: copies, and what was read twice, have the same."""
    if moments.guarantee.n_releases > 1 and not moments.releases:
        raise ValueError("A sum of moments was saved before it said what it is made of: add the releases anew.")
    values = np.ascontiguousarray(moments.values, "<f8")
    return moments.releases or (hashlib.sha256(values).hexdigest(),)


class PrivateMoments(GuaranteeDisplayMixin, MarkedReleaseMixin, PythonNumbersMixin, UncachedMixin, BaseEstimator, ABC):
    """Release the second moments of a table once, and learn from them alone.

    Children are parameters, and what is computed from the moments, which costs no privacy.
    """

    _released = "moments_"
    _release_attribute = "moments_"
    target_bounds = None  # where there is no target
    fit_intercept = True

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, groups=None):
        """Release what is learnt from rows and targets.

        Each call is a new release, with fresh noise: fitting the same rows twice costs their privacy twice.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Those of norm above `max_norm` are clipped to it. Partitions of a dask collection are summed where
            they are, on the scheduler in use.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or a dask collection
            Targets. Those outside `target_bounds` are clipped to them.
        groups : array-like of shape (n_samples,), a dask collection beside one, or None, default=None
            Whose rows they are, where one person has several: a whole number or text for each row. Each person then
            counts as much as one row, the number of persons stands for that of rows, and the guarantee is for one
            person with all of its rows, however many they are. None is for rows.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or y is not finite or of the wrong shape, or a parameter does not fit the others. Nothing is released
            then.
        """
        return self._fit_rows(X, y, groups)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks):
        """Release what is learnt from a table that comes in chunks, in one pass and under one guarantee.

        Parameters
        ----------
        chunks : iterable of (X, y) or (X, y, groups), or of X where there are no targets
            Rows and their targets, as `fit` takes them: slices of a memmap, parts of a file read by a generator. The
            order and the size of the chunks make no difference beyond rounding, which the guarantee counts. With
            `groups`, all rows of one person are in one chunk.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`, if there are no chunks, if a person is in two, or if a descent is asked for, which needs many
            passes. Nothing is released then.
        """
        chunks = (chunk if isinstance(chunk, tuple) else (chunk,) for chunk in chunks)
        return self._fit_chunks((*chunk, None, None)[:3] for chunk in chunks)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments):
        """Learn from moments that were released before, which costs no privacy.

        Parameters
        ----------
        moments : Moments
            A release, such as ``DPMoments(...).fit(X, y).moments_`` or what :func:`add_moments` returns. Bounds and
            guarantee are those of the release, whatever the parameters of the same names.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        TypeError
            If these are no moments.
        ValueError
            If the moments lack what is to be learnt: targets, or means.
        """
        if not isinstance(moments, Moments):
            raise TypeError(f"Expected Moments, such as estimator.moments_, got {type(moments).__name__}.")
        model = snapshot(self)
        model._calibrated_for = None  # the release was calibrated for parameters of another
        if moments is vars(self).get("moments_"):  # of rows that passed what its fit was behind
            model._fitted_behind = getattr(self, "_fitted_behind", "")
        model._learn(moments)
        model.moments_, model.delta_, model.scale_ = moments, moments.guarantee.delta, moments.noise.scale
        state_guarantee(model, replace(moments.guarantee, per="fit"))  # of a sum it says nothing
        model.n_features_in_ = moments.columns.n_features
        if moments.columns.names:
            model.feature_names_in_ = np.array(moments.columns.names, dtype=object)
        take_over(self, model)
        return self

    def _fit_rows(self, X, y, groups):
        return self._fit_chunks([(X, y, groups)])

    def _fit_chunks(self, chunks):
        model = snapshot(self)
        model._calibrated_for = model.get_params(deep=False)
        n_samples, columns, sums, unit, assumed = model._sum(chunks)
        calibration = model._calibrate(n_samples, columns, unit)
        assumptions = calibration.guarantee.assumptions + assumed
        calibration = replace(calibration, guarantee=replace(calibration.guarantee, assumptions=assumptions))
        with calibration.recorded(self, in_plans=True) as entry:
            values = calibration.noise.release(sums)
        seeded = entry.was_seeded()
        guarantee = calibration.guarantee.mark_seeded() if seeded else calibration.guarantee
        model.moments_ = Moments(values, calibration.noise, n_samples, columns, guarantee)
        model._learn(model.moments_)
        calibration.publish(model, seeded=seeded)
        take_over(self, model)
        return self

    def _sum(self, chunks):
        """Sum ``u u'`` over all rows of all chunks, or its means over the rows of each person.

        Return the number of rows or persons, what the columns are, the sum, which of both it is of, and assumptions.
        """
        numbers, labels, kinds, columns, total, assumed = {}, set(), set(), None, CompensatedSum(), ()
        for X, y, groups in chunks_with_rows(chunks):
            if is_lazy(X) and (y is not None or groups is not None):
                assumed = (SAME_ORDER,)
            persons, parts = self._parts(X, y, groups)
            if (part := joined_parts(parts)) is None:
                continue
            n_rows, its_columns, its_total = part
            if columns not in (None, its_columns):
                raise ValueError(_OTHER_COLUMNS)
            columns = its_columns
            total.add(its_total)
            if persons is None:
                numbers[Unit.ROW] = numbers.get(Unit.ROW, 0) + n_rows
            if persons is not None:
                kinds.update(map(type, persons.labels[:1]))
                if len(kinds) > 1:
                    raise ValueError("groups is text in one chunk and not in another: make it text in all of them.")
                if not labels.isdisjoint(persons.labels):
                    raise ValueError("A person has rows in two chunks: bring all of them into one.")
                labels.update(persons.labels)
                numbers[Unit.PERSON] = len(labels)
        if columns is None:
            raise ValueError("There are no rows.")
        if len(numbers) > 1:
            raise ValueError("Some chunks have groups, and others have none: give them to all.")
        [(unit, number)] = numbers.items()
        sums, weights = np.require(total.value, requirements="W"), columns.weights  # what workers send may be read-only
        for row, weight in zip(sums, weights, strict=True):
            row *= weight * weights
        return number, columns, sums, unit, assumed

    def _parts(self, X, y, groups):
        """Return the persons of a chunk, if there are groups, and its sums, or those of partitions of a lazy one."""
        first = not hasattr(self, "n_features_in_")
        if is_lazy(X):
            if first:
                validate_data(self, stand_in(X), accept_sparse="csr", dtype=FLOATS)
            return compute_partitions(self._part_of_lazy, joined_parts, X, y, groups)
        X, y = self._validate(X, y, reset=first)
        persons = None if groups is None else persons_of(groups, X.shape[0])
        return persons, [self._part(X, y, None if persons is None else persons.weights)]

    @silent
    def _part_of_lazy(self, X, y, weights):
        if weights is not None and len(weights) != number_of_rows(X):
            raise ValueError("X and groups should have the same partitions.")
        if hasattr(X, "shape") and X.shape[0] == 0:  # an empty partition
            return None
        return self._part(*self._validate(X, y, reset=False), weights)

    def _part(self, X, y, weights):
        """Number of rows, columns and sums of validated rows."""
        columns, total = self._columns(X, y), ProductSum()
        if in_plan():  # components would tell of the few rows, and whoever fits a step that follows reads them
            X, y = (None if part is None else public_numbers(*part.shape) for part in (X, y))
        factors = None if weights is None else roots(weights)
        size = rows_per_product(columns, is_sparse=sp.issparse(X))
        out = array_for_blocks(X, size)
        for rows in gen_batches(X.shape[0], size):
            parts = (None if part is None else part[rows] for part in (X, y, factors))
            total.add(*columns.clip(*parts, copy=False, out=out))
        return X.shape[0], columns, total.finish()

    def _validate(self, X, y, *, reset):
        # What is not finite is refused by `clip_rows`, which takes norms anyway; a plan goes on with other numbers.
        options = {"accept_sparse": "csr", "dtype": FLOATS, "reset": reset, "ensure_all_finite": in_plan()}
        if self.target_bounds is None:
            return validate_data(self, X, **options), None
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None: its bounds are given.")
        if not sp.issparse(y):
            X, y = validate_data(self, X, y, y_numeric=True, multi_output=True, **options)
        if sp.issparse(y):  # also of a frame of sparse columns
            raise TypeError("y is sparse: make it dense, by y.toarray().")
        return X, y

    def _columns(self, X, y):
        low, high = ((), ()) if y is None else target_limits(self.target_bounds, n_targets=y[0].size)
        names = tuple(getattr(self, "feature_names_in_", ()))
        columns = Columns(X.shape[1], self.max_norm, self.fit_intercept, low, high, names)
        if not all(1e-50 <= reach <= 1e50 for reach in columns.reach):  # fourth powers stay in float64, as of max_norm
            raise ValueError("target_bounds are too close or too far for float64: choose another unit of the targets.")
        return columns

    def _calibration_of(self, shape, dtype, n_targets, unit=Unit.ROW):
        """What `fit` would fix for rows, or persons, of a shape and a type, and so many targets: nothing is spent."""
        targets = None if self.target_bounds is None else np.empty((1, n_targets))
        return self._calibrate(shape[0], self._columns(np.empty((1, shape[1])), targets), unit)

    def _calibrate(self, n_samples, columns, unit):
        """Noise and guarantee, from the number of rows, or of persons, and what the columns are."""
        delta = self._delta(n_samples)
        sensitivity = moments_sensitivity(adjacency=self.adjacency, accuracy=rounding_of_moments(n_samples, columns))
        # All products change with one row.
        target = sampled_target(self.epsilon, delta, n_changed=columns.n_released)
        scale = gaussian_scale(*target, sensitivity=sensitivity)
        return self._state(
            delta,
            scale,
            mechanism=f"Gaussian mechanism on sums of products of columns, scale {printed_down(scale, 6)}, "
            f"sensitivity {printed_up(sensitivity, 6)}",
            source="exact profile of the Gaussian mechanism; proof of the sensitivity in moments_sensitivity",
            loss=PrivacyLoss(mu=sensitivity / scale, sampling=columns.n_released * _noise.SAMPLING_LOSS),
            noise=GaussianNoise(scale),
            unit=unit,
        )

    def _delta(self, n_samples):
        return self.delta if self.delta is not None else 1.0 / max(n_samples, 2) ** 2

    def _state(self, delta, scale, *, mechanism, source, loss, noise, unit, released=None):
        """State what holds of one fit."""
        guarantee = PrivacyGuarantee(
            self.epsilon,
            delta,
            unit=unit,
            adjacency=Adjacency(self.adjacency),
            per="fit",
            released=self._released if released is None else released,
            mechanism=mechanism,
            assumptions=(
                *assumed_of_unit(unit, self.adjacency),
                PARAMETERS_ARE_PUBLIC,
                ONLY_PRIVATE_STEPS_FITTED,
            ),
            not_covered=NOT_COVERED,
            source=source,
            loss=loss,
        )
        return Calibration(guarantee, fitted={"delta_": delta, "scale_": scale}, noise=noise)

    @abstractmethod
    def _learn(self, moments):
        """Set what follows from released moments."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        return tags


class DPMoments(PrivateMoments):
    """One private release of the second moments of rows and targets, for every least-squares model.

    Whatever is computed from the release costs no more privacy: every ridge regression, principal components, least
    squares on any of the targets. Rows of norm above `max_norm` and targets outside `target_bounds` are clipped.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy of one row and its targets: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus
        `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    max_norm : float, default=1.0
        Norm to which rows of larger norm are clipped. A public choice, never read from the data.
    target_bounds : tuple (low, high), array-like of shape (n_targets, 2) or None, default=None
        Least and largest value of the targets, one pair for all or one for each. Public: never read from the data.
        None leaves the targets out.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row with its targets in the place of one row. With "add_remove",
        the row is blank in the neighbour: another guarantee, which needs less noise. The number of places for rows is
        public in both.
    fit_intercept : bool, default=True
        Whether a constant column is part of the table, which gives the means; targets are then centred on the middle
        of their bounds.

    Attributes
    ----------
    moments_ : Moments
        The release.
    delta_ : float
        The value used.
    scale_ : float
        Standard deviation of the noise on each entry of the diagonal, in units in which no row has a norm above 1.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPRidge : Regression on such moments.
    DPPCA : Principal components of them.
    add_moments : Adds what several parties have released.

    Notes
    -----
    With z the row, a constant and the targets, scaled to a norm of at most 1, the release is ``sum z z'`` with Gaussian
    noise on svec: the proof is in :func:`~skdprp.sensitivity.moments_sensitivity`. It need not be positive
    semidefinite, which is left to those who use it.

    References
    ----------
    .. [1] C. Dwork, K. Talwar, A. Thakurta and L. Zhang, "Analyze Gauss: Optimal Bounds for Privacy-Preserving
       Principal Component Analysis", STOC 2014, for the mechanism.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skdprp import DPMoments, DPRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> release = DPMoments(epsilon=5.0, delta=1e-6, max_norm=0.3, target_bounds=(0, 350)).fit(X, y)
    >>> release.moments_.gram.shape
    (10, 10)
    >>> model = DPRidge(max_norm=0.3, target_bounds=(0, 350)).fit_moments(release.moments_)
    >>> model.guarantee_
    (5.0, 1e-06)-DP, one row replaced
    """

    _parameter_constraints: dict = {
        **MOMENTS_CONSTRAINTS,
        "target_bounds": ["array-like", None],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=None,
        max_norm=1.0,
        target_bounds=None,
        adjacency="replace_one",
        fit_intercept=True,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.max_norm = max_norm
        self.target_bounds = target_bounds
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept

    def _learn(self, moments):
        """Learn nothing more."""


def target_limits(bounds, n_targets):
    """Least and largest value of each target, from one pair of numbers for all or a pair for each."""
    check_listed(bounds, "target_bounds")
    limits = without_values(np.asarray, bounds, dtype=np.float64, name="target_bounds")
    if limits.shape not in ((2,), (n_targets, 2)):
        raise ValueError(f"target_bounds should be (low, high), or one pair for each of the {n_targets} targets.")
    low, high = np.broadcast_to(limits, (n_targets, 2)).T
    with np.errstate(over="ignore"):
        if not (np.isfinite(high - low).all() and (low < high).all()):
            raise ValueError("target_bounds should be finite, with low below high.")
    return tuple(low.tolist()), tuple(high.tolist())


def rows_per_product(columns, *, is_sparse=False):
    """How many rows are multiplied at once; of sparse ones more, whose products take less time than adding them up."""
    size = len(columns.weights)
    return max(_SPARSE_ROWS * size, 4 * _BLOCK_ENTRIES // size) if is_sparse else max(size, _BLOCK_ENTRIES // size)


def rounding_of_moments(n_samples, columns):
    """Bound the Frobenius norm of what rounding does to the sum of ``u u'``.

    Notes
    -----
    With e = 2^-53, to first order: clipping, centring and the weights move each entry of a row by ``d + 16`` roundings
    of its size at most, so that of each product by twice that; a product of a block of b rows is a sum of b products in
    some order, off by ``b e`` of the sum of their sizes, and no block has more rows than those of sparse rows, whose
    products add up one after the other; up to 2^26 blocks add up by compensated sums, off by 2 e of it. All sizes
    together, ``sum |u_i| |u_i|'``, have a Frobenius norm of at most n: of n persons, too, for the weights of the rows
    of each add up to 1 at most. How many rows they have does not matter.
    """
    return n_samples * n_additions(columns) * _UNIT


def n_additions(columns):
    """Number of roundings, one after the other, of an entry of the moments."""
    return 2 * (columns.n_features + 16) + rows_per_product(columns, is_sparse=True) + 4


@silent
def joined_parts(parts):
    """Join parts of a table, of which each has a number of rows, columns and sums, or is None without rows."""
    n_samples, columns, total = 0, None, CompensatedSum()
    for n_rows, its_columns, its_total in filter(None, parts):
        if columns not in (None, its_columns):
            raise ValueError(_OTHER_COLUMNS)
        n_samples, columns = n_samples + n_rows, its_columns
        total.add(its_total)
    return None if columns is None else (n_samples, columns, total)


def compute_partitions(function, join, X, y, groups):
    """Call a function of the rows, targets and weights of each partition of dask collections; return its persons, too.

    On the scheduler in use, which first finds the labels of all rows, if there are some. `join` joins some results.
    """
    import dask

    rows, targets, labels = partitions(X, y, groups)
    if groups is None:
        parts = zip(rows, targets, [None] * len(rows), strict=True)
        return None, compute_joined([dask.delayed(function, pure=False)(*part) for part in parts], join)
    if any(map(shuffles, (X, groups))):
        raise ValueError(SHUFFLED)
    found = dask.compute(*labels)
    persons, weights = persons_in_parts(found)
    task = dask.delayed(partial(_of_persons, function), pure=False)
    tasks = [task(*part) for part in zip(rows, targets, weights, labels, found, strict=True)]
    return persons, compute_joined(tasks, join)


def _of_persons(function, rows, targets, weights, labels, found):
    """Call a function of rows, of which each has the label that its weight was found for."""
    if not np.array_equal(np.asarray(labels, dtype=object), np.asarray(found, dtype=object)):
        raise ValueError(SHUFFLED)
    return function(rows, targets, weights)
