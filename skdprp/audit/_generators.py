"""Find the random generators that clones of an estimator hold: copies of one would draw the same noise."""

import gc
import pickle
from collections.abc import Mapping
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np
from sklearn.base import clone

from .._validation import is_estimator

_SHARED = FunctionType, BuiltinFunctionType, ModuleType, type  # by an object and its copies
_CONTAINERS = np.ndarray, dict, tuple  # which are not tracked where they seem to hold numbers and texts only


def require_noise_of_its_own(estimator):
    """Refuse an estimator of which two clones hold generators in one state, and would draw the same noise."""
    one, other = (reachable(clone(estimator)) for _ in range(2))
    shared = {id(part) for part in one} & {id(part) for part in other}
    states = [{state for part in parts if id(part) not in shared for state in _states(part)} for parts in (one, other)]
    if common := set.intersection(*states):
        kind, _ = min(common)
        raise ValueError(
            f"Each trial fits a clone of {type(estimator).__name__}, which holds a random generator ({kind}), of which "
            "each has a copy: all have one noise. Give a function that makes an estimator, fits it and returns what it "
            "released."
        )


def calls_others(estimator):
    """Whether an estimator calls code of other packages, which may draw from a generator of its module."""
    parts = (part for part in reachable(clone(estimator)) if not isinstance(part, type))
    return any((callable(part) or is_estimator(part)) and _package(part) != "skdprp" for part in parts)


def reachable(thing, *, closed=()):
    """List a thing and all that it holds, at any depth, but numbers, texts, and what it draws from in public.

    What those of some classes hold is left out, too.
    """
    found, left = {}, [thing]
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one  # which keeps it, and no other gets its id
            parts = () if isinstance(one, closed) else _parts(one)
            left += (part for part in parts if gc.is_tracked(part) or isinstance(part, _CONTAINERS))
    return list(found.values())


def _parts(thing):
    if isinstance(thing, _SHARED):
        return []
    if isinstance(thing, MethodType) and _package(thing.__self__) == "scipy" and thing.__name__ != "rvs":
        return []  # such as the density of a distribution, which draws nothing
    if isinstance(thing, np.ndarray):
        return thing.ravel().tolist() if thing.dtype.hasobject else []
    own = getattr(thing, "__dict__", {})
    if not own or _package(thing) not in ("skdprp", "sklearn"):
        return gc.get_referents(thing)
    # What these draw from `random_state`, and a search from distributions by it, is public.
    parts = {name: part for name, part in own.items() if name.strip("_") != "random_state"}
    spaces = parts.pop("param_distributions", [])
    values = [space.values() if isinstance(space, Mapping) else [space] for space in _listed(spaces)]
    return [*parts.values(), *(value for some in values for value in some if not hasattr(value, "rvs"))]


def _listed(spaces):
    return spaces if isinstance(spaces, list | tuple) else [spaces]


def _package(thing):
    """Name of the package of a function, or else of the class of a thing."""
    home = thing if isinstance(thing, FunctionType) else type(thing)
    return (home.__module__ or "").partition(".")[0]


def _states(thing):
    """Name and state of what random numbers are drawn from, as its class and those it derives from have it."""
    kinds = {f"{kind.__module__}.{kind.__name__}": kind for kind in type(thing).__mro__}
    if "random.Random" in kinds and "random.SystemRandom" not in kinds:
        for kind in (kinds["random.Random"], type(thing)):
            with suppress(Exception):  # of a class of others that has no such state
                yield type(thing).__name__, pickle.dumps(kind.getstate(thing))
    elif kinds.keys() & {"numpy.random.bit_generator.BitGenerator", "numpy.random.bit_generator.SeedSequence"}:
        yield type(thing).__name__, pickle.dumps(thing.state)  # of which generators of numpy hold one
