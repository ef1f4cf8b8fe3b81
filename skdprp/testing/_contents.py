"""What an object holds, all the way down."""

import gc
import sys
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from numbers import Real
from types import CellType, ModuleType

import numpy as np

_CODE = (
    "__self__",
    "__closure__",
    "__defaults__",
    "__kwdefaults__",
    "__dict__",
)  # what functions keep


# What holds nothing but itself: few of all that is held is of another type.
_PLAIN = frozenset({type(None), bool, int, float, str, bytes, np.float64, np.int64})
_LEAVES = (str, bytes, Real, np.ndarray)
_CONTAINERS = (dict, list, tuple, set, frozenset)


def _leaves(thing, name="", seen=(), wanted=None):
    """Yield everything that an object holds, down to arrays, numbers and texts, with its name; or what is wanted.

    Wanted are the names in a set, and those of all that they are parts of.
    """
    if type(thing) in _PLAIN or (type(thing) is np.ndarray and not thing.dtype.hasobject):
        yield name, thing
        return
    if isinstance(thing, _LEAVES) or _is_global(thing):
        yield name, thing
    if isinstance(thing, _CONTAINERS) and not thing and not name.rpartition(".")[2].isdigit():
        yield name, f"nothing, in a {type(thing).__name__}"  # that it is there may tell of a row
    if id(thing) not in seen:
        seen = (*seen, id(thing))
        for part, value in parts_of(thing):
            of_part = f"{name}.{part}" if name else str(part)
            # What has an empty name is no part of the names of what it holds.
            if wanted is None or not of_part or of_part in wanted:
                yield from _leaves(value, of_part, seen, wanted)


def _on_the_way(names):
    """Names, and those of all that they are parts of; None for all names."""
    if names is None:
        return None
    return {start for name in names for start in accumulate(name.split("."), "{}.{}".format)}


def _is_global(thing):
    """Whether it is a class or a module that anybody can import."""
    if isinstance(thing, ModuleType):
        return sys.modules.get(thing.__name__) is thing
    if not isinstance(thing, type):
        return False
    found = sys.modules.get(thing.__module__)
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


def parts_of(thing):
    """Names and values of what an object holds or would be pickled as."""
    if thing is None or _is_global(thing):
        return ()
    parts = dict(getattr(thing, "__dict__", {}))  # which those derived from arrays, numbers, lists and others have, too
    if isinstance(thing, np.ndarray):
        return [*parts.items(), *enumerate(thing.ravel().tolist() if thing.dtype.hasobject else ())]
    if isinstance(thing, _LEAVES):
        return parts.items()
    if isinstance(thing, dict):
        return [*parts.items(), *thing.items()]
    if isinstance(thing, _CONTAINERS):
        return [*parts.items(), *enumerate(thing)]
    if isinstance(thing, type):
        return _class_attributes(thing).items()
    if isinstance(thing, memoryview):
        return [("obj", thing.obj)]
    if isinstance(thing, CellType):
        with suppress(ValueError):  # it may be empty
            return [("contents", thing.cell_contents)]
        return ()
    if callable(thing) and hasattr(thing, "__qualname__"):
        return [(name, getattr(thing, name, None)) for name in _CODE]
    # Slots and states of extension types are in no __dict__, and in what is pickled.
    try:
        _, arguments, *rest = thing.__reduce_ex__(4)
    except Exception:
        # What cannot be pickled is asked what it keeps alive: queues, views of dictionaries, generators.
        return [*parts.items(), *enumerate(gc.get_referents(thing))]
    state, items, pairs = (*rest, None, None, None)[:3]
    state = state if isinstance(state, dict) else {"its state": state}
    # A pickle may hold what the object does not, also by the same name.
    parts |= {
        f"{name}, pickled" if name in parts else name: value
        for name, value in state.items()
        if value is not parts.get(name)
    }
    return [*parts.items(), *enumerate((arguments, list(items or ()), list(pairs or ())))]


def _class_attributes(kind):
    """What a class holds itself, but for its code."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("__") and not callable(value) and not hasattr(value, "__get__")
    }


def of_class(thing):
    """What an object has from its class: attributes that lie there, and what its properties return."""
    parts = {}
    for kind in reversed(type(thing).__mro__):
        parts |= _class_attributes(kind)
        for name, value in vars(kind).items():
            if isinstance(value, property | cached_property) and not name.startswith("_"):
                with suppress(Exception):
                    parts[name] = getattr(thing, name)
    return parts


def numbers_in(thing, names=None):
    """Arrays and numbers that an object holds, by name: all, or those of some names, and what may lie on the way."""
    numbers = {}
    for name, value in _leaves(thing, wanted=_on_the_way(names)):
        if isinstance(value, Real) and not isinstance(value, bool):
            numbers[name] = np.asarray(float(value))
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size:
            numbers[name] = value.copy()
    return numbers


def flat(thing, names):
    """Some of the numbers that an object holds, in one array."""
    numbers = numbers_in(thing, names)
    return np.concatenate([np.ravel(numbers[name]) for name in names])


def fingerprints(thing, names=None):
    """Everything that an object holds, by name, as values that can be compared: all, or at least some names."""
    found, wanted = {}, _on_the_way(names)
    for part in (of_class(thing), thing):
        for name, value in _leaves(part, wanted=wanted):
            if isinstance(value, np.ndarray):
                entries = value.tolist() if value.dtype.hasobject else value.tobytes()
                found[name] = value.dtype.str, value.shape, entries
            else:
                found[name] = type(value).__name__, repr(value)
    return found
