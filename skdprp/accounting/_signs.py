"""Profile of many randomised responses at once."""

import numpy as np
from scipy.special import expit

from .._digits import with_python_numbers
from ._rounding import LEAST_DELTA


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


@with_python_numbers
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
    bits, leading = np.arange(-n_bits, n_bits + 1), float(np.float32(epsilon0))
    left = (epsilon - leading * bits) - (epsilon0 - leading) * bits  # products of so few digits do not round
    delta = float(pmf @ -np.expm1(np.minimum(left, 0.0)))
    return max(delta, LEAST_DELTA) if changed > 0 and left[-1] < 0 else delta
