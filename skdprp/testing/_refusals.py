"""Checks of what is refused, and of what errors and warnings say."""

import copy
import math
import warnings
from contextlib import suppress
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn import config_context
from sklearn.utils import get_tags

from ._case import FAR, dense, equal, error_of
from ._contents import fingerprints, numbers_in
from ._faults import faults, printed
from ._heard import PASSING
from ._storage import indistinct
from ._tape import same_tape

_CALLER = "<the line that calls>"
_OF_OTHERS = (DeprecationWarning, FutureWarning, PendingDeprecationWarning)  # which point at other packages


def _parameters_without_guarantee_are_refused(case):
    parameters = case.estimator.get_params(deep=False)
    if "epsilon" not in parameters:
        return 'has no parameter "epsilon": name the bound on the privacy loss so, and the displays will find it.'
    wrong = {"epsilon": (0.0, -1.0, math.nan), "delta": (-1e-9, 1.5, math.nan)}
    for name, values in wrong.items():
        for value in values if name in parameters else ():
            if error_of(lambda name=name, value=value: case.fit(**{name: value})) is None:
                return f"is fitted with {name}={value}: raise ValueError, for nothing is guaranteed then."
    return ""


def _rows_that_are_not_finite_are_refused(case):
    kinds = [math.inf] if get_tags(case.estimator).input_tags.allow_nan else [math.nan, math.inf]
    for value in kinds:
        for assume_finite in (False, True):
            X = case.X.copy()
            X[len(X) // 2, 0] = value
            with config_context(assume_finite=assume_finite):
                if case.at_transform:
                    error = error_of(lambda X=X: case.fitted.transform(X))
                else:
                    error = error_of(lambda X=X: case.fit(X, *case.data[1:]))
            if error is None:
                where = f" under config_context(assume_finite={assume_finite})" * assume_finite
                return f"releases rows with {value}{where}: check np.isfinite, whatever scikit-learn is told to assume."
    return ""


def _errors_tell_nothing_of_the_rows(case):
    # All others take the rows alone.
    others = [getattr(case.fitted, name) for name in ("transform", "predict") if hasattr(case.fitted, name)]
    for name, first, second in faults(case):
        for method, takes in ((case.fit, 2), *((other, 1) for other in others)):
            errors = [error_of(lambda method=method, data=data[:takes]: method(*data)) for data in (first, second)]
            if None not in errors and printed(errors[0]) != printed(errors[1]):
                return (
                    f"says of {name} what depends on the values: {printed(errors[0])} or {printed(errors[1])}. "
                    'Catch the error and raise another that names no value, "from None".'
                )
    return ""


def _warnings_point_at_the_caller(case):
    calls = ["case.new().fit(*data)"] + [
        f"case.fitted.{name}(data[0])" for name in ("transform", "predict") if hasattr(case.fitted, name)
    ]
    for call in calls:
        usual = _warned(call, case, case.data)
        strange = [one for one in usual if one.filename != _CALLER and not issubclass(one.category, _OF_OTHERS)]
        if strange:
            where = f"{strange[0].filename}:{strange[0].lineno}"
            return f'warns "{strange[0].message}" at {where}: choose a stacklevel that reaches the line that called.'
        texts = {str(warning.message) for warning in usual}
        tables = (case.X[::-1].copy(), *case.data[1:]), (case.X * 1e200, *case.data[1:]), *case.strange
        for data in tables:
            unusual = [one for one in _warned(call, case, data) if str(one.message) not in texts]
            if unusual:
                return f'warns "{unusual[0].message}" of some rows and not of others: a warning is a release.'
    return ""


def _warned(call, case, data):
    """Warnings of a call from a file of its own, but those that come when Python likes."""
    with warnings.catch_warnings(record=True) as caught, suppress(ArithmeticError, ValueError):
        warnings.simplefilter("always")
        eval(compile(call, _CALLER, "eval"), {"__name__": "caller", "case": case, "data": data})
    return [warning for warning in caught if not issubclass(warning.category, PASSING)]


def _failed_fits_release_nothing(case):
    fitted = None
    for name, broken, _ in faults(case):
        if fitted is None:  # one that kept all that it held is asked again
            fitted = case.fit()
            held = numbers_in(fitted), fitted.guarantee_, case.tape(copy.deepcopy(fitted))
            if "epsilon" in fitted.get_params(deep=False):
                fitted.set_params(epsilon=fitted.epsilon / 2)
        if error_of(lambda fitted=fitted, broken=broken: fitted.fit(*broken)) is None or not hasattr(
            fitted, "guarantee_"
        ):
            fitted = None
            continue
        if fitted.guarantee_ != held[1]:
            return f"states another guarantee after a fit that failed on {name}: state it last, when all is released."
        if case.at_transform:
            after = []  # nothing, if the transform raises
            # Of a copy: a transform with seeded noise may mark the guarantee.
            error = error_of(lambda fitted=fitted, after=after: after.append(case.tape(copy.deepcopy(fitted))))
            is_taped = error is None and None not in (held[2], *after)
            if is_taped and [scale for _, scale, _ in after[0]] != [scale for _, scale, _ in held[2]]:
                return (
                    f"releases with other noise after a fit that failed on {name}: refuse, or keep the noise of before."
                )
            continue
        numbers = numbers_in(fitted)
        changed = [one for one in case.noisy if one in numbers and not equal(numbers[one], held[0][one])]
        if changed:
            return f"holds a new {changed[0]} after a fit that failed on {name}: set attributes when all is released."
    return ""


def _parameters_set_after_fit_change_nothing(case):
    fitted = case.fit()
    tape = case.tape(fitted)
    guarantee = fitted.guarantee_  # after the tape, which marks it as seeded
    for name, value in fitted.get_params().items():
        others = (_with_numbers(value, partial(_another, is_larger=is_larger)) for is_larger in (True, False))
        for other in others:
            if fingerprints([other]) == fingerprints([value]):
                continue
            said = f"after set_params({name}={other!r}), without another fit: keep what it was fitted with, or refuse."
            # Both may be refused, now that no fit has these parameters.
            stated, after = [], []
            fitted.set_params(**{name: other})
            error_of(lambda stated=stated: stated.append(fitted.guarantee_))
            error_of(lambda after=after: after.append(case.tape(fitted)))
            if stated not in ([], [guarantee]):
                return f"states another guarantee {said}"
            if after and case.at_transform:
                release = partial(_with_parameter, fitted, name, rows=(*case.odd, case.data)[0][0])
                if not (same_tape(tape, after[0] or []) if tape else indistinct(release, value, other)):
                    return f"releases something else, or with other noise, {said}"
            fitted.set_params(**{name: value})
    return ""


def _with_parameter(fitted, name, value, rows):
    return dense(fitted.set_params(**{name: value}).transform(rows))


def _with_numbers(value, change):
    """A parameter with each of its numbers changed: in lists, tuples, dictionaries and arrays, too."""
    if type(value) in (list, tuple):
        return type(value)(_with_numbers(one, change) for one in value)
    if type(value) is dict:
        return {key: _with_numbers(one, change) for key, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return np.array([change(one) for one in value.ravel().tolist()], dtype=value.dtype).reshape(value.shape)
    return change(value) if isinstance(value, Real) and not isinstance(value, bool | np.bool_) else value


def _another(number, *, is_larger):
    """A larger number, or one nearer to zero."""
    if isinstance(number, Integral):
        return number + 1 if is_larger else max(number - 1, 0)
    return (FAR * number or 1 / FAR) if is_larger else number / FAR  # so far that it shows through noise


CHECKS = (
    _parameters_without_guarantee_are_refused,
    _rows_that_are_not_finite_are_refused,
    _errors_tell_nothing_of_the_rows,
    _warnings_point_at_the_caller,
    _failed_fits_release_nothing,
    _parameters_set_after_fit_change_nothing,
)
