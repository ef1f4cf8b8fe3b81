"""Bounds in print: few digits, never on the wrong side of the number."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_AS_ASKED = 6


def printed_up(bound, digits=3):
    """Print an upper bound, never as less than it is.

    Parameters
    ----------
    bound : float
        A number that takes at most six digits is printed as it is: mostly, somebody has asked for it.
    digits : int, default=3
        Number of significant digits of all others.

    Returns
    -------
    str

    Examples
    --------
    >>> from skdprp._digits import printed_up
    >>> printed_up(1e-6), printed_up(9.9991234e-07), printed_up(1.4032566), printed_up(float("inf"))
    ('1e-06', '1e-06', '1.41', 'inf')
    """
    return _printed(bound, Context(prec=digits, rounding=ROUND_CEILING))


def printed_down(bound, digits=3):
    """Print a lower bound as :func:`printed_up` an upper one, never as more than it is.

    Examples
    --------
    >>> from skdprp._digits import printed_down
    >>> printed_down(1.8299999)
    '1.82'
    """
    return _printed(bound, Context(prec=digits, rounding=ROUND_FLOOR))


def _printed(bound, context):
    shortest = Decimal(str(bound))
    if not shortest.is_finite() or len(shortest.normalize().as_tuple().digits) <= _AS_ASKED:
        return str(bound)
    return str(float(context.create_decimal(Decimal(float(bound)))))
