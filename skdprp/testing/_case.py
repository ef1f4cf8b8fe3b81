"""What is checked: an estimator, data for it, and its releases."""

import math
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags

from ..guarantee import PrivacyGuarantee
from ._contents import numbers_in, parts_of
from ._tape import tape_of

SURE = 1 - 1e-9  # confidence of the audits
NUMBERS, INTEGERS, BITS = 4, 64, 1024  # how many, drawn twice, come out alike less than once in 10^9 times
FAR, NEAR = 2.0**20, 2.0**10  # times a row, which is then beyond all usual bounds, or beyond most
MANY = 10_000  # rows of one call of transform
_N_FITS = 16  # of which numbers with noise are hardly ever all alike
_CELLS = 2.0**10  # to a unit: noise lies on finer grids


@dataclass(frozen=True)
class Case:
    """An estimator, and what to check it on."""

    estimator: object
    given_X: object = None
    given_y: object = None
    neighbours: tuple | None = None
    weakened: object = None
    audit_options: dict = field(default_factory=dict)

    @cached_property
    def X(self):
        """Rows to check it on, which what is broken may write over: those given stay."""
        return _rows() if self.given_X is None else np.array(self.given_X, dtype=np.float64)

    @cached_property
    def y(self):
        """Labels or targets, None for transformers."""
        if self.given_y is not None:
            return np.array(self.given_y)
        if is_classifier(self.estimator):
            classes = getattr(self.estimator, "classes", None)
            several = get_tags(self.estimator).classifier_tags.multi_class
            classes = np.arange(2 + several) if classes is None else np.asarray(classes)
            return classes[np.arange(len(self.X)) * 7 // 4 % len(classes)]  # each class in each fold, in no period of X
        return np.clip(self.X.sum(axis=1), -1, 1) if is_regressor(self.estimator) else None

    @property
    def data(self):
        """Arguments of fit."""
        return (self.X,) if self.y is None else (self.X, self.y)

    @cached_property
    def odd(self):
        """Data with an empty row and with one beyond all usual bounds, in one table or in two, as far as accepted."""
        empty = self.X.copy()
        empty[1] = 0.0
        tables = []
        for distance in (FAR, NEAR):
            far = self.X.copy()
            far[-2] = self.beyond(-2, distance)
            both = np.where(empty == self.X, far, empty)
            tables += [(X, *self.data[1:]) for X in (both, empty, far)]
            if self._accepts(tables[-3]):
                return tables[-3:-2]
        return list(filter(self._accepts, tables))

    def beyond(self, row, distance=FAR):
        """Return a row so many times as long, in all columns."""
        return distance * np.where(self.X[row], self.X[row], 1.0)

    @cached_property
    def unlike(self):
        """Data with what usual ones have not, as far as accepted: a column of zeros, few values, one sign."""
        empty = self.X.copy()
        empty[:, -1] = 0.0
        positive = np.abs(self.X) + 2.0**-10
        rows = [empty, np.sign(self.X), positive, -positive, (self.X > 0).astype(self.X.dtype)]
        targets = [np.rint(self.y), np.abs(self.y), -np.abs(self.y)] if is_regressor(self.estimator) else []
        tables = [*((X, *self.data[1:]) for X in rows), *((self.X, y) for y in targets)]
        return list(filter(self._accepts, tables))

    @cached_property
    def one_class(self):
        """Data of one class alone, for classifiers that take them."""
        data = (self.X, np.full_like(self.y, self.y[0])) if is_classifier(self.estimator) else ()
        return [data] if data and self._accepts(data) else []

    @cached_property
    def strange(self):
        """All of these in which a warning, or the scale of noise, is no more than what is known in common."""
        return [*self.odd, *self.unlike, *(() if self.fitted.guarantee_.given else self.one_class)]

    def _accepts(self, data):
        fit = partial(self.fit, *data)
        return error_of(lambda: fit().transform(data[0]) if self.at_transform else fit()) is None

    @property
    def public_seed(self):
        """Parameters that draw the same public randomness each time."""
        return {"random_state": 0} if "random_state" in self.estimator.get_params(deep=False) else {}

    def new(self, **parameters):
        """Clone it, with some other parameters."""
        return clone(self.estimator).set_params(**parameters)

    def fit(self, *data, **parameters):
        """Fit a clone, whose public randomness is that of all others."""
        return self.new(**self.public_seed | parameters).fit(*(data or self.data))

    def tape(self, fitted):
        """What reaches the noise in a transform, where that is a release."""
        return tape_of(lambda: fitted.transform(self.X)) if self.at_transform else None

    @cached_property
    def fitted(self):
        """Fit once, for what asks one fit only."""
        return self.fit()

    @property
    def has_guarantee(self):
        """Whether a fit states a guarantee, without which nothing can be checked."""
        return isinstance(getattr(self.fitted, "guarantee_", None), PrivacyGuarantee)

    @property
    def at_transform(self):
        """Whether each call of transform is a release, and not each fit."""
        return self.fitted.guarantee_.per == "transform"

    @property
    def by_distance(self):
        """Whether neighbours are rows that are close to each other, and not one row and another."""
        adjacency = self.fitted.guarantee_.adjacency
        return adjacency is not None and adjacency.is_distance

    @cached_property
    def noisy(self):
        """Names of the fitted numbers that differ between fits, which these released; of all, if there are none."""
        fits = [numbers_in(_fitted_parts(self.new().fit(*self.data))) for _ in range(_N_FITS)]
        common = sorted(set.intersection(*map(set, fits)))
        return [name for name in common if any(not equal(fit[name], fits[0][name]) for fit in fits)] or common

    def released(self, data):
        """Release some data, by a fit or by a transform."""
        return self.fitted.transform(data[0]) if self.at_transform else self.fit(*data)

    def release(self, fitted=None):
        """Numbers that one release gives, by name: of a fitted estimator, or of a new one."""
        if self.at_transform:
            return {"transform": dense((self.fitted if fitted is None else fitted).transform(self.X))}
        noisy = self.noisy
        numbers = numbers_in(self.fit() if fitted is None else fitted, noisy)
        return {name: numbers[name] for name in noisy if name in numbers}

    def again(self, fitted):
        """Another release of the same object."""
        return self.release(fitted if self.at_transform else fitted.fit(*self.data))

    def sequence(self, draw):
        """So many releases, by a function without arguments, that chance repeats none of them."""
        first = draw()
        missing = max((math.ceil(needed(values) / values.size) for values in first.values()), default=1)
        releases = [first, *(draw() for _ in range(min(missing, INTEGERS) - 1))]
        return {name: np.stack([release[name] for release in releases]) for name in first}


def _fitted_parts(fitted):
    """What a fitted estimator holds that may be released."""
    not_released = ("_", "guarantee_", "n_features_in_")
    named = ((str(name), value) for name, value in parts_of(fitted))
    return {name: value for name, value in named if name.endswith("_") and not name.startswith(not_released)}


def _rows():
    """Rows of numbers that float32 holds: some zeros, the last row beyond all others, and one nearly opposite to it."""
    X = np.round(np.sin(np.arange(1.0, 241.0)) * 2.0**19).reshape(40, 6) * 2.0**-20
    X[20, ::2] = 0.0
    X[30] = np.array([-44, 43, -42, 41, -40, 39]) / 64
    X[-1] = np.array([48, -47, 46, -45, 44, -43]) / 64
    return X


def needed(values):
    """How many numbers of a kind decide whether two draws of them are one."""
    # On a grid as coarse as cells are, or where one release has a number twice, few numbers are alike too often.
    if np.all(values * _CELLS == np.rint(values * _CELLS)) or np.unique(values).size < np.size(values):
        is_whole = np.all(values == np.rint(values))
        return BITS if is_whole and np.unique(np.abs(values)).size < 3 else INTEGERS
    return NUMBERS


def dense(output):
    """Convert what a transform returned to an array."""
    return np.asarray(output.toarray() if sp.issparse(output) else output)


def equal(a, b):
    """Whether two arrays have the same numbers; nan equals nan."""
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def error_of(function):
    """The error that a call raises, or None."""
    try:
        function()
    except Exception as error:
        return error
    return None
