"""Flip probabilities of signs."""

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, ndtr, ndtri

from .._digits import with_python_numbers
from ..accounting import randomised_response_profile
from ..accounting._rounding import rounded_up
from ._calibration import boundary, remembered

_MAX_LOSS = 16.0
_MAX_LEVEL = 2**16 - 1  # levels are uint16


@with_python_numbers
def flip_probability(level, epsilon):
    """Probability that a sign of the given level is released flipped, ``1 / (1 + exp(level * epsilon))``.

    Parameters
    ----------
    level : array-like of int
        Number of unit changes that separate the value from zero; 0 gives a fair coin.
    epsilon : float
        Privacy loss of one unit change.

    Returns
    -------
    ndarray of float64

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.

    Examples
    --------
    >>> from skdprp.mechanisms import flip_probability
    >>> flip_probability([0, 1, 2], 1.0).round(3)
    array([0.5  , 0.269, 0.119])
    """
    return expit(-np.asarray(level) * epsilon)


@with_python_numbers
def flip_thresholds(epsilon):
    """Tabulate the flip probabilities of all levels as integers out of 2**64, rounded to the private side.

    The last level is the largest with a loss of at most 16: higher ones are flipped as often as that one. This only
    adds flips, and the level still moves by at most one between neighbours.

    Parameters
    ----------
    epsilon : float
        Privacy loss of one unit change. Below 2**-40 every level is a fair coin.

    Returns
    -------
    ndarray of uint64, shape (n_levels,)
        A sign of level L is flipped with probability ``thresholds[L] / 2**64``.

    Examples
    --------
    >>> from skdprp.mechanisms import flip_thresholds
    >>> (flip_thresholds(8.0) / 2**64).round(7)
    array([5.000e-01, 3.354e-04, 1.000e-07])
    """
    last = 0 if epsilon < 2.0**-40 else int(max(1, min(_MAX_LOSS // epsilon, _MAX_LEVEL)))
    return np.append(np.uint64(2**63), integer_thresholds(flip_probability(np.arange(1, last + 1), epsilon)))


@with_python_numbers
def integer_thresholds(probability):
    """Return flip probabilities below 1/2 as integers out of 2**64, rounded up, to 1 at least: towards more flips.

    Parameters
    ----------
    probability : ndarray of float64
        Probabilities, correct to within 2**-46 of their size.

    Returns
    -------
    ndarray of uint64

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.mechanisms import integer_thresholds
    >>> integer_thresholds(np.array([0.25])) > 2**62
    array([ True])
    """
    probability = np.asarray(probability, np.float64) * (1 + 2.0**-46)
    return np.ceil(np.clip(probability, 2.0**-64, 0.5) * 2.0**64).astype(np.uint64)


@remembered
def binomial_flip_epsilon(epsilon, delta, *, n_components, changed):
    """Calibrate the loss of one bit when each of the bits differs between neighbours at random.

    Parameters
    ----------
    epsilon, delta : float
        Target, over the draw of the projection and the flips.
    n_components : int
        Number of bits.
    changed : float
        Probability that one bit differs between two neighbours, see :func:`sign_change_probability`.

    Returns
    -------
    float
        Largest loss of one bit that meets the target; never below ``epsilon / n_components``.

    Examples
    --------
    >>> from skdprp.mechanisms import binomial_flip_epsilon, sign_change_probability
    >>> round(binomial_flip_epsilon(1.0, 1e-6, n_components=256, changed=sign_change_probability(0.1)), 3)
    0.078
    """

    def _meets(scale):
        loss = epsilon / scale
        profile = randomised_response_profile(epsilon, epsilon0=loss, n_bits=n_components, changed=changed)
        return rounded_up(profile) <= delta

    # A bit flipped with probability e^-64 is as good as kept; delta may be so large that no bit need be flipped.
    largest = max(epsilon, 64.0)
    return largest if _meets(epsilon / largest) else epsilon / boundary(_meets, start=float(n_components))


@with_python_numbers
def sign_change_probability(relative_change):
    """Probability that a Gaussian projection gives two neighbours different signs.

    Parameters
    ----------
    relative_change : float
        Distance between the neighbours divided by the least norm that both have.

    Returns
    -------
    float
        ``(2 / pi) asin(relative_change / 2)``: their largest angle over pi; 1 if they can be opposite.

    References
    ----------
    .. [1] M. Goemans and D. Williamson, "Improved Approximation Algorithms for Maximum Cut and Satisfiability Problems
       Using Semidefinite Programming", J. ACM 42, 1995, Lemma 3.2.

    Examples
    --------
    >>> from skdprp.mechanisms import sign_change_probability
    >>> round(sign_change_probability(0.1), 4)
    0.0318
    """
    return float(2 / np.pi * np.arcsin(min(relative_change, 2.0) / 2))


@remembered
def published_sign_change_probability(relative_change, n_features):
    """Bound F on the probability that one sign differs, as published.

    Parameters
    ----------
    relative_change : float
        beta / m: distance between the neighbours divided by the least norm that both have.
    n_features : int
        Dimension p of the data.

    Returns
    -------
    float
        ``int_0^inf 2 p [2 Phi(t) - 1]^(p-1) [2 Phi(t beta / m) - 1] phi(t) dt``.

    Notes
    -----
    The lemma behind it is false for some rows. For Gaussian projections :func:`sign_change_probability` is exact, and
    F is smaller than that where `relative_change` is near 2, so that it is no bound there either.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Lemma 4.3.

    Examples
    --------
    >>> from skdprp.mechanisms import published_sign_change_probability
    >>> round(published_sign_change_probability(0.1, 1000), 3)
    0.269
    """

    def _density(t):
        below = 2 * ndtr(t) - 1
        maximum_of_p = 2 * n_features * np.exp((n_features - 1) * np.log(below) - t**2 / 2) / np.sqrt(2 * np.pi)
        return maximum_of_p * (2 * ndtr(relative_change * t) - 1)

    peak = -ndtri(1 / (2 * n_features))
    return quad(_density, 0, np.inf if peak < 1 else 40.0, points=None if peak < 1 else [peak], limit=200)[0]


@with_python_numbers
def published_sign_changes(delta, *, relative_change, n_features, n_components):
    """Bound N_+ on the number of signs in which two neighbours differ, as published.

    Parameters
    ----------
    delta : float
        Probability that the bound fails.
    relative_change : float
        beta / m: distance between the neighbours divided by the least norm that both have.
    n_features, n_components : int
        Shape (p, k) of the projection.

    Returns
    -------
    float
        N_+, at most `n_components`.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Theorem 4.1.

    Examples
    --------
    >>> from skdprp.mechanisms import published_sign_changes
    >>> round(1 / published_sign_changes(1e-6, relative_change=0.1, n_features=1000, n_components=256), 4)
    0.0083
    """
    expected = published_sign_change_probability(relative_change, n_features) * n_components
    log_delta = np.log(1 / delta)
    return float(min(expected + (log_delta + np.sqrt(log_delta**2 + 8 * expected * log_delta)) / 2, n_components))
