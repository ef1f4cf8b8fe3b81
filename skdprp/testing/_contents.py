"""What an object holds, all the way down."""

from contextlib import suppress
from numbers import Real
from types import CellType, ModuleType

import numpy as np


def _leaves(thing, name="", seen=()):
    """Yield everything that an object holds, down to arrays, numbers and texts, with its name."""
    if thing is None or isinstance(thing, str | bytes | Real | type | ModuleType | np.ndarray):
        yield name, thing
    elif id(thing) not in seen:
        for part, value in _parts(thing):
            yield from _leaves(value, f"{name}.{part}" if name else str(part), (*seen, id(thing)))


def _parts(thing):
    """Names and values of what an object holds or would be pickled as."""
    if isinstance(thing, dict):
        return thing.items()
    if isinstance(thing, list | tuple | set | frozenset):
        return enumerate(thing)
    if isinstance(thing, CellType):
        with suppress(ValueError):  # it may be empty
            return [("contents", thing.cell_contents)]
        return ()
    if callable(thing) and hasattr(thing, "__qualname__"):  # code, which keeps no less than others
        kept = ("__self__", "__closure__", "__defaults__", "__kwdefaults__", "__dict__")
        return [(name, getattr(thing, name, None)) for name in kept]
    parts = dict(getattr(thing, "__dict__", {}))
    # Slots and states of extension types are in no __dict__, and in what is pickled.
    with suppress(Exception):
        _, arguments, *state = thing.__reduce_ex__(4)
        state = state[0] if state else None
        parts |= state if isinstance(state, dict) else {"state": state}
        parts |= {"arguments": arguments}
    return parts.items()


def numbers_in(thing):
    """Arrays and numbers that an object holds, by name."""
    numbers = {}
    for name, value in _leaves(thing):
        if isinstance(value, Real) and not isinstance(value, bool):
            numbers[name] = np.asarray(float(value))
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size:
            numbers[name] = value.copy()
    return numbers


def flat(thing, names):
    """Some of the numbers that an object holds, in one array."""
    numbers = numbers_in(thing)
    return np.concatenate([np.ravel(numbers[name]) for name in names])


def fingerprints(thing):
    """Everything that an object holds, by name, as values that can be compared."""
    return {name: _fingerprint(value) for name, value in _leaves(thing)}


def _fingerprint(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist() if value.dtype.hasobject else value.tobytes()
    return type(value).__name__, repr(value)
