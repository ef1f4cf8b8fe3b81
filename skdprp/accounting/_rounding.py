"""Rounding to the private side: of computed deltas, and of roots."""

import sys

_ERROR = 2.0**-32
LEAST_DELTA = sys.float_info.min  # stands for all that floats cannot tell from 0 but that is more


def rounded_up(delta):
    """Bound a delta from above, given its computed value.

    Profiles are computed to a relative error of 1e-12 or less; what is added here is more than a hundred times that,
    and the only place where it is added.

    Parameters
    ----------
    delta : float
        Value of a profile, at least 0.

    Returns
    -------
    float
        ``delta * (1 + 2**-32)``, at most 1: 0 stays 0.

    Examples
    --------
    >>> from skdprp.accounting._rounding import rounded_up
    >>> rounded_up(0.0), 1e-6 < rounded_up(1e-6) < 1.000001e-6, rounded_up(1.0)
    (0.0, True, 1.0)
    """
    return float(min(1.0, delta * (1 + _ERROR)))


def bisect(meets, low, high, digits=2.0**-50):
    """Approach the least number that meets a condition from above.

    Parameters
    ----------
    meets : callable
        The condition: false at `low`, true at `high`, and monotone between them.
    low, high : float
        Where to start, at least 0.
    digits : float, default=2**-50
        Relative width at which to end.

    Returns
    -------
    float
        A number that meets the condition, or `high`.

    Examples
    --------
    >>> from skdprp.accounting._rounding import bisect
    >>> root = bisect(lambda x: x * x >= 2, 1.0, 2.0)
    >>> round(root, 6), root * root >= 2
    (1.414214, True)
    """
    while high - low > digits * high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return float(high)
