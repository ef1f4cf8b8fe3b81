"""What all mechanisms share: numbers as Python's, rounding to the private side, bisection, the price of sampling."""

import sys
from functools import lru_cache
from operator import eq

import numpy as np
from scipy.optimize import brentq

from .._adjacency import Relation
from .._digits import with_python_numbers
from .._errors import silent, without_values
from .._lazy import computed
from .._noise import SAMPLING_LOSS, check_scale
from .._validation import check_real, check_unmasked, is_frame, is_list

_ERROR = 2.0**-32
_FOURIER_ERROR, _FEW_RELEASES = 2.0**-40, 2.0**9
LEAST_DELTA = sys.float_info.min  # stands for all that floats cannot tell from 0 but that is more
_ROOT = 2.0**-49  # of a scale, within which a root is found
_ROWS = {Relation.REPLACE_ONE: 2, Relation.ADD_REMOVE: 1}


def rounded_up(delta):
    """Bound a delta from above, given its computed value: ``delta * (1 + 2**-32)``, at most 1; 0 stays 0.

    Profiles are computed to a relative error of 1e-12 or less; what is added here is more than a hundred times that,
    and the only place where it is added.
    """
    return float(min(1.0, delta * (1 + _ERROR)))


def fourier_error(n_releases):
    """Bound what a delta is off by, if a Fourier transform composed so many releases in double precision.

    A transform is raised to that power, and the error grows with it. All probabilities together were off by up to 1e-12
    for 512 releases and by 8e-16 for each of more: of up to 300,000 pure ones, a million steps on random samples, and
    four million probabilities. No delta was off by more than 1e-16 for each release.
    """
    return _FOURIER_ERROR * max(1.0, n_releases / _FEW_RELEASES)


def bisect(meets, low, high, digits=2.0**-50):
    """Approach from above the least number that meets a condition, false at `low`, true at `high`, monotone between."""
    while high - low > digits * high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return float(high)


def rows_that_differ(adjacency):
    """Return 2 for "replace_one", which takes a row away and puts another at its place, and 1 for "add_remove"."""
    if adjacency not in _ROWS:
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got {adjacency!r}.")
    return _ROWS[adjacency]


def boundary(meets, start, digits=2.0**-50):
    """Bisect ``meets``, false below some scale and true above it, to a relative width; return the private side."""
    return bisect(meets, *_around(meets, start), digits)


def _around(meets, start):
    """Return two scales, one half of the other, of which the larger one meets."""
    low = high = float(start)  # the digits of a coarser type would never meet
    while meets(low):
        high, low = low, low / 2
    while not meets(high):
        low, high = high, high * 2
        if not np.isfinite(high):
            raise ValueError("No amount of noise is known to meet this target: choose epsilon > 0 and 0 < delta < 0.5.")
    return low, high


def calibrated(profile, delta, start):
    """Find the least scale at which a profile, rounded up, is at most `delta`: of the last two tried, the larger."""
    if delta >= 1:
        raise ValueError(f"delta={delta} allows everything, and no noise is the least: choose delta < 1.")

    def _meets(scale):
        return rounded_up(profile(scale)) <= delta

    def _excess(scale):
        computed_delta = rounded_up(profile(scale))
        distance = abs(np.log(max(computed_delta, LEAST_DELTA)) - np.log(delta))
        return distance if computed_delta > delta else -distance  # logarithms might round to another sign

    low, high = _around(_meets, start)
    if delta > 0:  # bisection, of fifty steps, is left with a few around a root
        root, width = brentq(_excess, low, high, xtol=LEAST_DELTA, rtol=_ROOT, disp=False), _ROOT
        while high - low > 2 * width * high:
            for scale in (root * (1 - width), root * (1 + width)):
                if low < scale < high:
                    low, high = (low, scale) if _meets(scale) else (scale, high)
            width *= 8
    return check_scale(bisect(_meets, low, high))


def cached(calibrate):
    """Cache a calibration: a search, or an audit, makes the same again and again."""
    return with_python_numbers(lru_cache(maxsize=128, typed=True)(calibrate))


@with_python_numbers
def sampled_target(epsilon, delta, *, n_changed):
    """Target that ideal noise must meet so that the noise of :mod:`skdprp._noise` meets (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        Target of the release.
    n_changed : int
        Number m of released values that may differ between neighbours.

    Returns
    -------
    epsilon, delta : float
        ``epsilon - 2 m eta`` and ``delta exp(-m eta)``, eta = 2^-31.

    Raises
    ------
    ValueError
        If `epsilon` is too small for `n_changed`.

    Notes
    -----
    Each sampled value has its ideal probability to within a factor exp(eta), so for every set of releases
    ``P~ <= e^(m eta) P <= e^(m eta) (e^eps' Q + delta') <= e^(eps' + 2 m eta) Q~ + e^(m eta) delta'``. Left out are
    the values of each number that are so far in the tail that they have a probability below 2^-288 together.
    Calibrations round deltas up by 2^-32 of their size, a hundred times their numerical error, which covers that m
    times if ``m (1 + e^epsilon)`` is below 2^56 and `delta` above 2^-199; at ``delta = 0`` it is taken as zero.

    Examples
    --------
    >>> from skdprp.mechanisms import sampled_target
    >>> epsilon, delta = sampled_target(1.0, 1e-6, n_changed=256)
    >>> f"{1 - epsilon:.1e} {1e-6 - delta:.1e}"
    '2.4e-07 1.2e-13'
    """
    loss = n_changed * SAMPLING_LOSS
    if not epsilon > 2 * loss:
        raise ValueError(f"epsilon={epsilon} is too small: {n_changed} values cannot be sampled to a loss below it.")
    return epsilon - 2 * loss, float(delta * np.exp(-loss))


def require_positive_delta(delta):
    """Refuse delta = 0 for a mechanism that cannot meet it."""
    if not delta > 0:
        raise ValueError(
            "This mechanism cannot meet delta=0: choose delta > 0, or Laplace noise where there is a choice."
        )


def _are_equal(floats, given):
    """Whether numbers were converted to float64 without rounding; Python compares those of two types exactly."""
    if given.dtype.kind == "f" and given.dtype.itemsize <= 8:
        return True
    exact = (number.item() if isinstance(number, np.generic) else number for number in given.ravel().tolist())
    return all(map(eq, floats.ravel().tolist(), exact))


def _check_unmasked(values):
    check_unmasked(values)
    for one in values if is_list(values) else ():
        _check_unmasked(one)


def _as_they_are(values):
    """Return an array of numbers, or of objects where they have several types: that which they share would round them.

    Those of a frame are converted column by column, as a whole frame of them would be of one type first.
    """
    if is_frame(values):
        columns = (
            [values.iloc[:, i] for i in range(values.shape[1])] if hasattr(values, "iloc") else values.get_columns()
        )
        return np.column_stack([np.asarray(column, dtype=object) for column in columns])
    return np.asarray(values, dtype=None if isinstance(values, np.ndarray | np.generic) else object)


@silent
def released(add_noise, values, scale, **options):
    """Return a copy of numbers to which a sampler has added noise in place; refuse what it could not hide."""
    [values] = computed(values)
    _check_unmasked(values)
    without_values(check_real, values, "The array", name="The array")
    given = without_values(_as_they_are, values, name="The array")
    values = without_values(np.array, given, dtype=np.float64, order="C", name="The array")
    if not np.isfinite(values).all():
        raise ValueError("Some numbers are not finite: clip them to bounds that do not come from the data.")
    # Of neighbours one may be rounded down and the other up, by any distance.
    if not without_values(_are_equal, values, given, name="The array"):
        raise ValueError("Some numbers equal no float: round them first, and count that into the sensitivity.")
    try:
        add_noise(values, float(scale), **options)
    except FloatingPointError:  # in units of a grid as fine as its noise a number has to be one of float64
        raise ValueError(f"Some numbers are too large for noise of scale {float(scale):.3g}: clip them.") from None
    return values
