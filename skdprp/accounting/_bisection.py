"""Bisection that ends on a chosen side."""


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
    >>> from skdprp.accounting._bisection import bisect
    >>> root = bisect(lambda x: x * x >= 2, 1.0, 2.0)
    >>> round(root, 6), root * root >= 2
    (1.414214, True)
    """
    while high - low > digits * high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return float(high)
