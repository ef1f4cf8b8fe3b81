"""Numbers as they come in, as plain Python ones, and as they go out: few digits, never on the wrong side."""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import wraps
from math import inf
from numbers import Real

import numpy as np

_AS_ASKED = 6
_MOST_DIGITS = 400  # of a number that a float equals, whole ones included
_PLAIN = {float, int, bool, str, type(None)}
_UNBOUNDED = (
    *("scale", "sensitivity", "lipschitz", "max_norm", "max_abs", "max_change", "min_norm", "min_eigenvalue"),
    *("min_residual", "n_changed", "n_columns", "n_trials", "penalty", "log_det", "noise_variance", "release_shift"),
    *("count_epsilon", "count_shift", "accuracy", "trial_epsilon", "trial_distance", "n_components", "n_dims"),
    *("n_samples", "n_steps", "n_outputs", "n_vertices", "n_classes", "n_bits", "n_features", "epsilon0"),
    "step_epsilon",
)
_LARGEST = {"changed": 1, "rate": 1, "step_delta": 1, "trial_delta": 1} | dict.fromkeys(_UNBOUNDED, inf)
_COUNTS = "n_components", "n_dims", "n_samples", "n_steps", "n_outputs", "n_vertices", "n_bits"
_LEAST = dict.fromkeys(_COUNTS, 1) | {"n_classes": 2}  # all others 0
_BOUNDED = _LARGEST.keys()


def to_python(number):
    """Convert a number of any type to the int or float of Python that it equals; what is no number stays as it is.

    Arithmetic with a float16 is done in float16, and what is computed for a float32 is found again by the float that it
    equals, wherever results are cached: neither is the result for the number itself. What no float equals raises
    ValueError: on which side of it to round depends on what it bounds.
    """
    if type(number) in _PLAIN:  # mostly, and then fast
        return number
    if isinstance(number, np.ndarray | np.generic) and number.ndim == 0 and not np.ma.is_masked(number):
        number = number.item()  # of a long double, itself
    if isinstance(number, int | float) and type(number) is not bool:  # of a type that may say it is another number
        return int.__int__(number) if isinstance(number, int) else float.__float__(number)
    if not isinstance(number, np.longdouble | Fraction | Decimal):
        return number
    if float(number) != number:
        raise ValueError(f"{number!r} is no float: round it first, a target of privacy down and a sensitivity up.")
    return float(number)


def with_python_numbers(function):
    """Call a function, such as a calibration, with all numbers as plain Python ones."""

    @wraps(function)
    def _call(*args, **known):
        known = {name: to_python(value) for name, value in known.items()}
        for name in _BOUNDED & known.keys():
            # Of what is no scale or probability a formula would return a number, and a false guarantee with it.
            least, largest = _LEAST.get(name, 0), _LARGEST[name]
            if isinstance(known[name], Real) and not least <= known[name] <= largest:
                raise ValueError(f"{name} must be between {least} and {largest:g}, got {known[name]}.")
        for name in known.keys() & _COUNTS:
            if isinstance(known[name], float) and not known[name].is_integer():
                raise ValueError(f"{name} must be a whole number, got {known[name]}.")
        return function(*map(to_python, args), **known)

    return _call


def as_given(number):
    """Print a number as somebody has given it, with all of its digits; a whole one without a point."""
    return str(to_python(number)).removesuffix(".0")


def printed_up(bound, digits=3):
    """Print an upper bound, never as less than it is: up to six digits as they are, as somebody has asked for them."""
    return _printed(bound, digits, ROUND_CEILING)


def printed_down(bound, digits=3):
    """Print a lower bound such as a scale of noise, as :func:`printed_up` an upper one: never as more than it is."""
    return _printed(bound, digits, ROUND_FLOOR)


def _printed(bound, n_digits, rounding):
    bound = to_python(bound)
    shortest = Decimal(str(bound))
    if not shortest.is_finite() or len(shortest.normalize(_context(_MOST_DIGITS)).as_tuple().digits) <= _AS_ASKED:
        return str(bound)
    exact = Decimal(bound) if isinstance(bound, int) else Decimal.from_float(bound)
    return str(float(_context(n_digits, rounding).create_decimal(exact)))


def _context(n_digits, rounding=ROUND_HALF_EVEN):
    """A context of decimals that knows nothing of the precision, the traps and the flags of the caller's."""
    return Context(n_digits, rounding, MIN_EMIN, MAX_EMAX, traps=[])
