"""Find the random generators that clones of an estimator would copy: all of them would draw the same noise."""

import gc
import weakref
from collections.abc import Mapping
from functools import cache
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from .._validation import is_estimator

# Functions, and what else a copy shares with what it is made of.
_SHARED = FunctionType, BuiltinFunctionType, type(cache(print)), type, ModuleType, weakref.ref, FrozenEstimator


def copied_with(estimator):
    """List an estimator, and all that its clones copy, at any depth, but for what they draw from in public."""
    found, left = {}, [estimator]
    while left:
        thing = left.pop()
        if id(thing) not in found:
            found[id(thing)] = thing  # which keeps it, and no other gets its id
            left += _parts(thing)
    return list(found.values())


def _parts(thing):
    """What is copied where a thing is: the parameters of an estimator, and all that others refer to."""
    if isinstance(thing, _SHARED):
        return []
    is_public = _is_of(("skdprp", "sklearn"), thing)
    public = getattr(thing, "random_state", None) if is_public else None
    usual_clone = BaseEstimator.__sklearn_clone__
    if is_estimator(thing) and getattr(type(thing), "__sklearn_clone__", usual_clone) is usual_clone:
        parameters = thing.get_params(deep=False)
        if is_public:
            parameters |= {"param_distributions": _lists(parameters.get("param_distributions", {}))}
        parts = parameters.values()
    else:
        own = getattr(thing, "__dict__", {})
        parts = [*own.values(), *(part for part in gc.get_referents(thing) if part is not own)]
        if isinstance(thing, np.ndarray) and thing.dtype == object:
            parts += thing.ravel().tolist()
    return [part for part in parts if part is not public]


def _lists(param_distributions):
    """List candidates, without the distributions, which a search draws from by its `random_state`."""
    spaces = [param_distributions] if isinstance(param_distributions, Mapping) else param_distributions
    return [values for space in spaces for values in space.values() if not hasattr(values, "rvs")]


def require_no_generator(estimator, parts):
    """Refuse an estimator of which some part is a random generator."""
    if generators := [type(part).__name__ for part in parts if _is_generator(part)]:
        raise ValueError(
            f"Each trial fits a clone of {type(estimator).__name__}, which holds a random generator ({generators[0]}), "
            "of which each has a copy: all have one noise. Give a function that makes an estimator, fits it and "
            "returns what it released."
        )


def _is_generator(thing):
    return any(f"{kind.__module__}.".startswith(("random.", "numpy.random.")) for kind in type(thing).__mro__)


def calls_others(part):
    """Whether code of other packages is called, which may draw from a generator of its module."""
    is_called = is_estimator(part) or (callable(part) and not isinstance(part, type))
    return is_called and not _is_of(("skdprp",), part)


def _is_of(packages, thing):
    """Whether a function, or else the class of a thing, belongs to some packages."""
    home = thing if isinstance(thing, FunctionType) else type(thing)
    return (home.__module__ or "").partition(".")[0] in packages
