"""Turn whatever is audited into a function that draws outputs: arrays of shape (n_trials, rows, columns)."""

from collections import Counter
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from numbers import Integral
from types import MethodType
from typing import Any
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._errors import without_values
from .._lazy import is_lazy
from .._open_ledgers import open_journals
from .._persons import persons_of
from .._rows import number_of_rows
from .._validation import own_copy
from ..guarantee import PrivacyGuarantee
from ..histograms import CategoryCounts, PrivateHistograms
from ..linear_model._base import PrivateClassifier
from ..linear_model._mutual_information import MIDPRegressor
from ..losses import LogisticLoss, SoftmaxLoss
from ..moments import PrivateMoments
from ..sketch._additive import AdditiveSketch
from ..sketch._base import BaseSketch
from ._generators import calls_others, reachable, require_noise_of_its_own


@dataclass(frozen=True)
class Trials:
    """How to draw outputs of a release, and what is known about them."""

    draw: Callable  # draw(data, n): n outputs, an array of shape (n, rows, columns)
    a: Any
    b: Any
    known: dict  # scores that need no training, by name: functions of outputs
    delta: float | None = None  # of the guarantee, where there is one
    in_threads: bool = True  # processes would each have a copy of a generator of others, and draw the same noise


def _finite(output):
    """Convert to a float array, of finite numbers."""
    try:
        numbers = np.asarray(output.toarray() if sp.issparse(output) else output).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("The release must return numbers, or arrays of them.") from error
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError("The release must return at least one number, and finite ones only: replace the others.")
    return numbers


def as_table(output):
    """Convert one output, or a tuple of several, to finite floats in two dimensions; one row or number to a column."""
    if isinstance(output, tuple) or (isinstance(output, list) and any(np.ndim(part) for part in output)):
        return np.concatenate([as_table(part).ravel() for part in output])[:, None]
    table = _finite(output)
    return table.reshape(-1, 1) if table.ndim < 2 or len(table) == 1 else table.reshape(len(table), -1)


def join(parts):
    """Concatenate arrays of outputs, of shape (n, rows, columns); refuse outputs of different shapes."""
    if len({part.shape[1:] for part in parts}) > 1:
        raise ValueError("Outputs of the release differ in shape: pad them, or release a summary of fixed length.")
    return np.concatenate(parts)


def _call(release, data, n):
    return join([as_table(release(data))[None] for _ in range(n)])


def _release_of_copy(release, data):
    return release(copied(data))


def copied(data):
    """Copy rows, which others may write into, as scikit-learn does with copy=False: the next trial gets the same.

    What is beside them in tuples, lists and dicts stays: of a generator each copy would draw the same noise.
    """
    if isinstance(data, tuple):
        parts = map(copied, data)
        return type(data)(*parts) if hasattr(data, "_fields") else tuple(parts)
    if type(data) is list:
        return list(map(copied, data))
    if type(data) is dict:
        return {name: copied(part) for name, part in data.items()}
    if hasattr(data, "iloc") and not is_lazy(data):
        return own_copy(data)
    return deepcopy(data) if isinstance(data, np.ndarray | list | dict) or sp.issparse(data) else data


def _call_on_copies(release, row, n, output=None):
    """Release many copies of a row at once: each row of the output is a trial, of which `output` keeps something."""
    if n > 1 and open_journals():  # which count calls: each release of the row is one
        return np.concatenate([_call_on_copies(release, row, 1, output) for _ in range(n)])
    if sp.issparse(row):
        copies = sp.vstack([row] * n, format="csr")
    else:
        copies = row.iloc[[0] * n] if hasattr(row, "iloc") else np.repeat(np.asarray(row), n, axis=0)
    released = np.atleast_1d(_finite(release(copies)))
    if len(released) != n:
        raise ValueError(f"The release returned {len(released)} rows for {n} rows: it does not treat them one by one.")
    if output:  # of each by itself
        return join([as_table(output(released[[i]]))[None] for i in range(n)])
    return released.reshape(n, -1, 1)


def trials_of(release, a, b, *, rows_are_trials=None, output=None):
    """Prepare the trials of a release, each of which has noise of its own."""
    is_estimator = isinstance(release, BaseEstimator)
    is_fitted_once = isinstance(release, BaseSketch) and getattr(release, "min_norm", None) is None
    if is_estimator and not is_fitted_once:
        release = _without_caches(release)
        require_noise_of_its_own(release)
    if rows_are_trials is not None and is_estimator and not isinstance(release, BaseSketch):
        raise TypeError(f"rows_are_trials is for functions and sketches: each fit of {type(release).__name__} is one.")
    trials = _trials_of(release, a, b, rows_are_trials=rows_are_trials, output=output)
    return replace(trials, in_threads=not is_estimator or calls_others(release))


def _without_caches(estimator):
    """Clone an estimator without the `memory` of pipelines: each trial would have the fit, and noise, of the first."""
    own = {id(part): part for part in reachable(estimator)}  # of which clones share some, such as what is frozen
    estimator = clone(estimator)
    for part in reachable(estimator):
        if isinstance(part, Pipeline) and id(part) not in own:
            part.memory = None
    return estimator


@singledispatch
def _trials_of(release, a, b, *, rows_are_trials=None, output=None):
    """Take any function of a data set; estimators are registered below."""
    if isinstance(release, type):
        raise TypeError(f"An audit needs an estimator, not its class: {release.__name__}().")
    if not callable(release):
        raise TypeError(f"An audit needs a function of a data set or an estimator, got {type(release).__name__}.")
    if output:
        raise TypeError("A function returns what it releases: `output` is for estimators.")
    if rows_are_trials:
        return Trials(partial(_call_on_copies, release), a, b, {})
    return Trials(partial(_call, partial(_release_of_copy, release)), a, b, {})


def _fit_and_take(estimator, output, data, n):
    return _call(lambda data: output(clone(estimator).fit(*copied(data))), data, n)


def _as_arguments(data):
    return data if isinstance(data, tuple) else (data,)


def labelled(data):
    """Return X and y; refuse what is no pair of them."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(f"Rows and their labels are wanted, a tuple (X, y), not {_described(data)}.")
    return data


def _unlabelled(data):
    """Return rows; refuse labels."""
    if isinstance(data, tuple):
        raise TypeError(f"Rows alone are wanted, one data set X, not {_described(data)}.")
    return data


def _described(data):
    return f"a tuple of {len(data)}" if isinstance(data, tuple) else type(data).__name__


def _require_one_width(a, b):
    shapes = [X.shape for X in (a, b) if hasattr(X, "shape")]
    if len({shape[1:] for shape in shapes}) > 1:
        raise ValueError("Neighbours have the same columns: a has shape {}, b {}.".format(*shapes))


def _require_as_many_rows(estimator, a, b):
    """Refuse a row that is left out, where fits cannot be planned for it as for a blank one."""
    # Of lazy tables the number may be unknown.
    n_rows = [number for number in map(number_of_rows, (a[0], b[0])) if isinstance(number, Integral)]
    if len(set(n_rows)) > 1:
        name = type(estimator).__name__
        raise ValueError(
            "a has {} rows and b has {}, and what a fit of {} plans (delta, penalty, noise) may follow from their "
            "number, which is public: give tables with as many rows, or audit the private step alone, on the rows that "
            "reach it. If the guarantee hides their number as well, give a function that fits and returns what is "
            "released.".format(*n_rows, name)
        )


def _released(estimator):
    """What a fit has released: sums of products or counts, or the weights of a linear model or of all layers."""
    if isinstance(estimator, PrivateMoments) and hasattr(estimator, "moments_"):
        return _upper(estimator.moments_.values)
    if isinstance(estimator, PrivateHistograms):  # in the order in which they were counted
        parts = [  # of categories that are named each time, how many values are missing
            [column.missing] if isinstance(column, CategoryCounts) and not column.is_listed else column.values
            for column in estimator.histograms_.columns
        ]
        return np.concatenate(parts)
    if hasattr(estimator, "coef_"):  # one row for each class, the intercept last
        return np.column_stack([np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)])
    return tuple(estimator.coefs_ + estimator.intercepts_)


def _upper(matrix):
    """Entries on and above the diagonal."""
    return matrix[np.triu_indices(len(matrix))]


def _transformed(estimator, data):
    data = copied(data)
    return clone(estimator).fit(*data).transform(data[0])


@_trials_of.register
def _of_estimator(estimator: BaseEstimator, a, b, *, rows_are_trials=None, output=None):
    """Fit a clone at each trial: weights if it has them, what transform releases otherwise."""
    a, b = _as_arguments(a), _as_arguments(b)
    _require_one_width(a[0], b[0])
    _require_as_many_rows(estimator, a, b)
    fitted = clone(estimator).fit(*copied(a))
    delta = getattr(getattr(fitted, "guarantee_", None), "delta", None)
    if output is None and not hasattr(fitted, "coef_"):
        if not hasattr(fitted, "transform") or _has_released_at_fit(fitted, estimator):
            raise TypeError(
                f"Say by `output` what a fitted {type(estimator).__name__} releases, such as "
                "output=lambda pipeline: pipeline[-1].coef_ for a Pipeline that ends in a linear model. If rows that "
                "it transforms are released, too, give a function that fits and returns all of it."
            )
        return Trials(partial(_call, partial(_transformed, estimator)), a, b, {}, delta)
    return Trials(partial(_fit_and_take, estimator, output or _released), a, b, {}, delta)


def _has_released_at_fit(fitted, estimator):
    """Whether a guarantee of something that is fitted is of this fit alone: rows that it transforms are no release."""
    # Neither what clones share, nor what functions among the parameters call, is fitted.
    before = {id(part) for part in reachable(estimator)}
    parts = (part for part in reachable(fitted, closed=(MethodType, partial)) if id(part) not in before)
    guarantees = (getattr(part, "guarantee_", None) for part in parts if isinstance(part, BaseEstimator))
    return any(isinstance(one, PrivacyGuarantee) and one.per == "fit" for one in guarantees)


@_trials_of.register
def _of_classifier(estimator: PrivateClassifier, a, b, *, rows_are_trials=None, output=None):
    """Fit as the guarantee assumes: public labels, and as many places for rows as `a` has, of which `b` has one blank.

    All that follows from the number of rows is of one number then, or `a` and `b` would differ in public.
    """
    _require_one_width(labelled(a)[0], labelled(b)[0])
    estimator = clone(estimator)
    if estimator.classes is None and not np.array_equal(np.unique(a[1]), np.unique(b[1])):
        estimator.set_params(classes=np.union1d(a[1], b[1]))
    fitted = clone(estimator).fit(*a)
    is_linear = hasattr(fitted, "coef_")
    known = {"membership": _membership_score(fitted, a, b)} if is_linear and not output else {}
    draw = partial(_fit_in_places, estimator, output or _released, number_of_rows(a[0]))
    return Trials(draw, a, b, known, fitted.guarantee_.delta)


def _fit_in_places(estimator, output, n_places, data, n):
    def _release(data):
        model = clone(estimator)
        # A blank row is in no batch and in no sum: to what is planned, and to means, it is one of the rows.
        model._problem = lambda shape, *facts: type(model)._problem(model, (n_places, *shape[1:]), *facts)
        return output(model.fit(*data))

    return _call(_release, data, n)


class _InPlaces:
    """Moments or histograms of so many places for rows, `n_places`, of which one is blank where a row is left out.

    A mixin, whose methods are called by the snapshots that fits work on as well.
    """

    def _sum(self, chunks):  # of moments
        return self.n_places, *super()._sum(chunks)[1:]

    def _plan(self, n_samples, *facts):  # of a descent
        return super()._plan(self.n_places, *facts)

    def _count(self, chunks):  # of histograms
        return self.n_places, *super()._count(chunks)[1:]


def _sum_in_places(estimator, output, n_places, data, n):
    """Fit moments, a descent or histograms as `_fit_in_places` fits classifiers."""
    kind = type(estimator)
    in_places = type(kind.__name__, (_InPlaces, kind), {"n_places": n_places})

    def _release(data):
        model = clone(estimator)
        model.__class__ = in_places
        return output(model.fit(*data))

    return _call(_release, data, n)


def _number_of_places(X, y=None, groups=None):
    """Number of rows or, where there are groups, of persons."""
    return number_of_rows(X) if groups is None else persons_of(groups, number_of_rows(X)).number


@_trials_of.register
def _of_moments(estimator: PrivateMoments, a, b, *, rows_are_trials=None, output=None):
    """Look at the moments, or the weights of a descent, with what is planned from the number of rows of `a`."""
    a, b = _as_arguments(a), _as_arguments(b)
    _require_one_width(a[0], b[0])
    fitted = clone(estimator).fit(*a)
    planned = {"delta": fitted.delta_} | ({"mechanism": fitted.mechanism_} if hasattr(fitted, "mechanism_") else {})
    estimator = clone(estimator).set_params(**planned)
    n_places = fitted.moments_.n_samples if hasattr(fitted, "moments_") else _number_of_places(*a)
    draw = partial(_sum_in_places, estimator, output or _released, n_places)
    if output or not hasattr(fitted, "moments_"):
        return Trials(draw, a, b, {}, fitted.delta_)
    # The likelihood ratio of Gaussian noise: along the line from the moments of a to those of b.
    sums = [_upper(clone(estimator)._sum([(*data, None, None)[:3]])[2]) for data in (a, b)]
    direction = (sums[1] - sums[0]) * np.where(_upper(np.eye(len(fitted.moments_.values))), 1, 2)
    known = {"likelihood": lambda outputs: outputs.reshape(len(outputs), -1) @ direction}
    return Trials(draw, a, b, known, fitted.delta_)


@_trials_of.register
def _of_histograms(estimator: PrivateHistograms, a, b, *, rows_are_trials=None, output=None):
    """Look at the sums of counts themselves, with what is planned from the number of rows of `a`."""
    a, b = _as_arguments(a), _as_arguments(b)
    _require_one_width(a[0], b[0])
    fitted = clone(estimator).fit(*a)
    estimator = clone(estimator).set_params(delta=fitted.delta_)
    draw = partial(_sum_in_places, estimator, output or _released, fitted.histograms_.n_samples)
    if output:
        return Trials(draw, a, b, {}, fitted.delta_)
    sums = [clone(estimator)._exact_sums(*data) for data in (a, b)]
    known = {"likelihood": lambda outputs: outputs.reshape(len(outputs), -1) @ (sums[1] - sums[0])}
    return Trials(draw, a, b, known, fitted.delta_)


@_trials_of.register
def _of_regressor(estimator: MIDPRegressor, a, b, *, rows_are_trials=None, output=None):
    """Audit at the delta for which the guarantee translates itself to differential privacy of one entry."""
    _require_one_width(labelled(a)[0], labelled(b)[0])
    _require_as_many_rows(estimator, a, b)
    return Trials(partial(_fit_and_take, estimator, output or _released), a, b, {}, 1e-5)


def _only_in(data, other):
    """Rows and labels that one data set has more often than another."""
    (X, y), (X_other, y_other) = ((_dense(X), np.asarray(y)) for X, y in (data, other))
    left = Counter(_keys(X_other, y_other))
    missing = []
    # As multisets: a row that one has twice and the other once is in one of them once more.
    for key in _keys(X, y):
        missing.append(not left[key])
        left[key] -= left[key] > 0
    return X[missing], y[missing]


def _dense(X):
    return X.toarray() if sp.issparse(X) else without_values(np.asarray, X, dtype=np.float64)


def _keys(X, y):
    return [(row.tobytes(), label) for row, label in zip(X, y, strict=True)]


def _membership_score(fitted, a, b):
    """Score weights by the losses of the rows of a that b does not have, less those of b that a does not have."""
    only_a, only_b = _only_in(a, b), _only_in(b, a)
    return lambda outputs: _losses(outputs, *only_a, fitted.classes_) - _losses(outputs, *only_b, fitted.classes_)


def _losses(outputs, X, y, classes):
    """Sum of the losses of some rows under each of many released weights."""
    outputs = outputs.reshape(len(outputs), -1, X.shape[1] + 1)  # a row of weights for each class, the intercept last
    scores = outputs[:, :, :-1] @ X.T + outputs[:, :, -1:]
    codes, total = np.searchsorted(classes, y), np.zeros(len(outputs))
    for row, code in enumerate(codes):
        if scores.shape[1] == 1:
            total += LogisticLoss().value(2 * code - 1, scores[:, 0, row])
        else:
            total += SoftmaxLoss(len(classes)).value(np.full(len(outputs), code), scores[:, :, row])
    return total


@_trials_of.register
def _of_sketch(estimator: BaseSketch, a, b, *, rows_are_trials=None, output=None):
    """Release one row many times at once, or a whole data set again and again, with one public projection."""
    _require_one_width(_unlabelled(a), _unlabelled(b))
    if getattr(estimator, "min_norm", None) is not None:  # delta includes the draw of the projection
        if output:
            raise ValueError(
                "Signs are compared with those of the projection, if min_norm is given: leave out `output`."
            )
        fresh = clone(estimator).set_params(random_state=None, output="sign")
        return Trials(partial(_call, partial(_signs_of_drawn_projection, fresh, a, b)), a, b, {}, estimator.delta)
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        estimator = clone(estimator).fit(a)
    else:
        if hasattr(estimator, "feature_names_in_") and not hasattr(a, "columns"):
            estimator = copy(estimator)  # rows without names are meant: no warning at each trial
            del estimator.feature_names_in_
    release = partial(_transform, estimator)
    # Each row has noise of its own, so that n copies of one row in one call are n trials; others may differ in that.
    is_own = type(estimator).__module__.startswith("skdprp.sketch.")
    one_row = is_own and number_of_rows(a) == number_of_rows(b) == 1 if rows_are_trials is None else rows_are_trials
    known = {} if output or not isinstance(estimator, AdditiveSketch) else {"likelihood": _log_ratio(estimator, a, b)}
    if one_row:
        draw = partial(_call_on_copies, release, output=output)
    else:
        draw = partial(_call, (lambda data: output(release(data))) if output else release)
    return Trials(draw, a, b, known, estimator.guarantee_.delta)


def _transform(estimator, X):
    """Released sketches, one bit a component if packed."""
    released = estimator.transform(X)
    return np.unpackbits(released, axis=1) if released.dtype == np.uint8 else released


def _signs_of_drawn_projection(estimator, a, b, data):
    """Draw a projection and release; signs are compared with those that the projections of a and b have."""
    # 32 bits of the kernel, and no noise: processes that were forked would share draws of numpy's global generator.
    estimator = clone(estimator).set_params(random_state=uuid4().int >> 96).fit(data)
    truth = [np.sign(estimator.projection_.project(_dense(X))) for X in (a, b)]
    released = estimator.transform(data)  # one release
    return np.vstack([released * signs for signs in truth])


def _log_ratio(estimator, a, b):
    """Exact likelihood ratio of b to a of additive noise."""
    centres = [estimator.projection_.project(_dense(X)) / estimator.projection_.divisor for X in (a, b)]
    power = 1 if estimator.noise == "laplace" else 2

    def _score(outputs):
        to_a, to_b = (np.abs(outputs.reshape(-1, *centre.shape) - centre) ** power for centre in centres)
        return (to_a - to_b).sum(axis=(1, 2))

    return _score
