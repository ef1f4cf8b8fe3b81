"""Profiles of Gaussian and Laplace noise."""

from fractions import Fraction

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from .._digits import with_python_numbers
from ._rounding import LEAST_DELTA, bisect, rounded_up

_SMALL = 0.1
_LARGE_MU = 1000.0
_EXACT_MU = 100.0
_FAR_BELOW = -100.0  # where the normal distribution function is below all floats
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)


@with_python_numbers
def gaussian_profile(epsilon, *, scale, sensitivity=1.0):
    """Exact privacy profile of the Gaussian mechanism.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats; may be negative.
    scale : float
        Standard deviation of the noise of each coordinate.
    sensitivity : float, default=1.0
        l2 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Least delta such that the mechanism is (epsilon, delta)-DP; never 0 unless `sensitivity` is, also where floats
        would underflow.

    References
    ----------
    .. [1] B. Balle and Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8.

    Examples
    --------
    >>> from skdprp.accounting import gaussian_profile
    >>> f"{gaussian_profile(1.0, scale=3.7306):.2e}"
    '1.00e-05'
    """
    if sensitivity == 0:
        return max(0.0, float(-np.expm1(epsilon)))
    mu = max(sensitivity / scale, LEAST_DELTA)
    upper, lower = _upper_point(epsilon, scale, sensitivity, mu), -mu / 2 - epsilon / mu
    if upper < _FAR_BELOW:
        return LEAST_DELTA
    if upper > _SMALL and mu > _EXACT_MU and lower < 0:
        return float(ndtr(upper) - 0.5 * np.exp(-upper * upper / 2) * erfcx(-lower / np.sqrt(2)))
    if upper > _SMALL:
        return float(ndtr(upper) - np.exp(epsilon + log_ndtr(lower)))
    # phi(upper) = exp(epsilon) phi(lower): a difference of Mills ratios loses no digits where delta is tiny.
    delta = 0.5 * np.exp(-(upper**2) / 2) * _mills_difference(-upper / np.sqrt(2), mu / np.sqrt(2))
    return max(float(delta), LEAST_DELTA)  # in this order, which keeps nan


def _upper_point(epsilon, scale, sensitivity, mu):
    """Subtract ``mu / 2 - epsilon / mu``; exactly where the two are large and may nearly cancel."""
    if mu <= _EXACT_MU or np.isinf(mu) or np.isinf(epsilon):
        return mu / 2 - epsilon / mu
    exact = Fraction(float(sensitivity)) / Fraction(float(scale))
    return float(exact / 2 - Fraction(float(epsilon)) / exact)


def _mills_difference(x, step):
    """Subtract ``erfcx(x) - erfcx(x + step)``; the integral of the slope keeps the digits of a small step."""
    if step > _SMALL:
        return erfcx(x) - erfcx(x + step)
    nodes = x + step * (1 + _NODES) / 2
    return step / 2 * (_NODE_WEIGHTS @ (2 / np.sqrt(np.pi) - 2 * nodes * erfcx(nodes)))


@with_python_numbers
def laplace_profile(epsilon, *, scale, sensitivity=1.0):
    """Exact privacy profile of the Laplace mechanism in one dimension.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats, at least 0.
    scale : float
        Scale b of the noise, of density ``exp(-|x| / b) / (2 b)``.
    sensitivity : float, default=1.0
        Distance between the outputs of two neighbours.

    Returns
    -------
    float
        Least delta such that the mechanism is (epsilon, delta)-DP.

    References
    ----------
    .. [1] B. Balle, G. Barthe and M. Gaboardi, "Privacy Amplification by Subsampling", NeurIPS 2018, Theorem 3.

    Examples
    --------
    >>> from skdprp.accounting import laplace_profile
    >>> laplace_profile(1.0, scale=1.0)
    0.0
    """
    if not sensitivity or epsilon * scale >= 2 * sensitivity:  # far beyond the largest loss
        return 0.0
    # The two may nearly cancel, and all of delta be in their last bits.
    left = float(Fraction(float(epsilon)) - Fraction(float(sensitivity)) / Fraction(float(scale)))
    return float(max(0.0, -np.expm1(left / 2)))


@with_python_numbers
def gaussian_epsilon(delta, *, scale, sensitivity=1.0):
    """Invert the privacy profile of the Gaussian mechanism, rounding up.

    Parameters
    ----------
    delta : float
        Slack, between 0 and 1 exclusive.
    scale : float
        Standard deviation of the noise of each coordinate.
    sensitivity : float, default=1.0
        l2 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Least epsilon of at least 0 such that the mechanism is (epsilon, delta)-DP; infinite without noise.

    Examples
    --------
    >>> from skdprp.accounting import gaussian_epsilon
    >>> round(gaussian_epsilon(1e-5, scale=3.7306), 3)
    1.0
    """
    if scale == 0:
        return float("inf")

    def _meets(epsilon):
        return rounded_up(gaussian_profile(epsilon, scale=scale, sensitivity=sensitivity)) <= delta

    if _meets(0.0):
        return 0.0
    mu = sensitivity / scale
    # There the first of the two terms of the profile alone is delta.
    high = (mu**2 / 2 - mu * ndtri(delta)) * (1 + 2.0**-40)
    if mu > _LARGE_MU:
        return float(high)
    return bisect(_meets, 0.0, high)
