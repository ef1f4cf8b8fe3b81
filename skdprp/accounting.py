"""Privacy profiles: the exact delta of a mechanism at every epsilon, and their numerics.

A profile is a function ``(epsilon, *, scale, sensitivity) -> delta``; its inverse, the calibration
``(epsilon, delta, *, sensitivity) -> scale``, is in :mod:`skdprp.mechanisms`.
"""

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, ndtr

_SMALL = 0.1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


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
        Least delta such that the mechanism is (epsilon, delta)-DP.

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
    mu = sensitivity / scale
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if upper > 0 and mu > _SMALL:
        return float(ndtr(upper) - np.exp(epsilon + log_ndtr(lower)))
    # phi(upper) = exp(epsilon) phi(lower): a difference of Mills ratios loses no digits where delta is tiny.
    return float(0.5 * np.exp(-(upper**2) / 2) * _mills_difference(-upper / np.sqrt(2), mu / np.sqrt(2)))


def _mills_difference(x, step):
    """Subtract ``erfcx(x) - erfcx(x + step)``; the integral of the slope keeps the digits of a small step."""
    if step > _SMALL:
        return erfcx(x) - erfcx(x + step)
    nodes = x + step * (1 + _NODES) / 2
    return step / 2 * (_WEIGHTS @ (2 / np.sqrt(np.pi) - 2 * nodes * erfcx(nodes)))


def laplace_profile(epsilon, *, scale, sensitivity=1.0):
    """Exact privacy profile of the Laplace mechanism in one dimension.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats, at least 0.
    scale : float
        Scale b of the noise, of density exp(-|x| / b) / (2 b).
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
    return float(max(0.0, -np.expm1((epsilon - sensitivity / scale) / 2))) if sensitivity else 0.0


def _randomised_response_losses(epsilon0):
    """Probabilities of the losses -epsilon0 and +epsilon0 of one bit flipped with probability 1 / (1 + e^epsilon0)."""
    return expit(-epsilon0), expit(epsilon0)


def _convolution_power(pmf, n):
    """Return the pmf of a sum of n independent copies; direct convolution keeps every digit of positive numbers."""
    power = np.ones(1)
    for bit in f"{n:b}":
        power = np.convolve(power, power)
        if bit == "1":
            power = np.convolve(power, pmf)
    return power


def randomised_response_profile(epsilon, *, epsilon0, n_bits, changed=1.0):
    """Exact privacy profile of randomised response on bits that differ independently at random.

    Each of `n_bits` bits differs between two neighbours with probability `changed`, independently, and is released
    flipped with probability 1 / (1 + e^epsilon0). Which bits differ is known to the attacker.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats, at least 0.
    epsilon0 : float
        Privacy loss of one bit.
    n_bits : int
        Number of bits released.
    changed : float, default=1.0
        Probability that a bit differs between two neighbours.

    Returns
    -------
    float
        Expected least delta: ``E_N[HS(epsilon)]`` with N binomial and HS the hockey-stick divergence of N-fold
        randomised response.

    References
    ----------
    .. [1] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.

    Examples
    --------
    >>> from skdprp.accounting import randomised_response_profile
    >>> round(randomised_response_profile(0.0, epsilon0=1.0, n_bits=1), 6)
    0.462117
    """
    down, up = _randomised_response_losses(epsilon0)
    pmf = _convolution_power(np.array([changed * down, 1 - changed, changed * up]), n_bits)
    loss = epsilon0 * np.arange(-n_bits, n_bits + 1)
    return float(pmf @ -np.expm1(np.minimum(epsilon - loss, 0.0)))
