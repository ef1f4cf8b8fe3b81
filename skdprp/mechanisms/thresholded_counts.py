"""Noisy counts of names that nobody has listed, beside other Gaussian noise: only those above a threshold are named."""

import numpy as np
from scipy.special import ndtr, ndtri

from .. import _noise
from .._digits import with_python_numbers
from .._noise import check_scale
from ._numerics import bisect, cached, rounded_up
from .gaussian_laplace import gaussian_profile, gaussian_scale

_SHARE_OF_DELTA = 0.125  # of names that one row alone would bring: the threshold grows with its logarithm only
_HALF_A_STEP = 2.0**-11  # of the scale: half a step of the grid at most, see `_noise`


@with_python_numbers
def name_probability(*, scale, threshold, n_columns):
    """Probability that one of the names that a single row has, in so many columns, is released, rounded up."""
    alone = rounded_up(ndtr((1 - threshold) / scale))
    return rounded_up(-np.expm1(n_columns * np.log1p(-alone))) if alone < 1 else 1.0


@with_python_numbers
def shift_of_epsilon(probability):
    """What the chance that names of a neighbour are released takes off epsilon."""
    return float(-np.log1p(-probability)) * (1 + 2.0**-40) if probability < 1 else float("inf")


@with_python_numbers
def thresholded_counts_profile(epsilon, *, scale, threshold, sensitivity, n_columns=1):
    """Bound the privacy profile of counts of unlisted names above a threshold, and of all that is released with them.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats.
    scale : float
        Standard deviation of the noise of each count.
    threshold : float
        What a noisy count has to exceed for its name to be released.
    sensitivity : float
        l2 distance of all counts of two neighbours, of all columns, and of whatever else has this noise; those of the
        names of a single row count as if they were released.
    n_columns : int, default=1
        In how many columns names are not listed.

    Returns
    -------
    float
        A delta such that the release is (epsilon, delta)-DP, for rows replaced or left out.

    Notes
    -----
    Let neighbours differ in one row, and let U be the columns where it has a name that no row of the other data set
    has, U' those where the row at its place in the other one does. A name in U has a count of 1, is released with
    probability ``q = Phi((1 - threshold) / scale)``, and nowhere else: with ``p = 1 - (1 - q)^|U|`` one of them is.
    Given that none is, the release is that of the names that both have, of distribution G, which both can draw: a
    function of counts with Gaussian noise, at a distance of at most `sensitivity`. With p' for the other one,

        ``P(S) <= p + (1 - p) G(S)`` and ``P'(S) >= (1 - p') G'(S)``,

    so that ``P(S) <= p + e^epsilon P'(S) + delta_G(epsilon - log(1 / (1 - p')))``, delta_G being the profile of the
    Gaussian mechanism. This goes for any later release as well, whose profile takes the place of delta_G: names cost
    a failure probability p, and a shift of epsilon. It is exact up to the shift, the square of p, and that names which
    only one of them has do not add to the distance.

    Examples
    --------
    >>> from skdprp.mechanisms import gaussian_profile, thresholded_counts_profile
    >>> noise = {"scale": 6.0, "sensitivity": 2.0**0.5}
    >>> f"{thresholded_counts_profile(1.0, threshold=31.0, **noise):.2e}"
    '1.20e-06'
    >>> f"{gaussian_profile(1.0, **noise):.2e}"
    '9.16e-07'
    """
    probability = name_probability(scale=scale, threshold=threshold, n_columns=n_columns)
    shift = shift_of_epsilon(probability)
    if probability >= 1:
        return 1.0
    delta = rounded_up(gaussian_profile(epsilon - shift, scale=scale, sensitivity=sensitivity)) + probability
    return float(min(1.0, np.exp(shift / 2) * delta))  # of which PrivacyLoss pays the shift by what sampling may cost


@cached
def thresholded_counts_scale(epsilon, delta, *, sensitivity, n_columns=1):
    """Calibrate noise and threshold of counts of unlisted names, and of what is released with them.

    Parameters
    ----------
    epsilon, delta : float
        Target: the privacy profile at `epsilon` is at most `delta`.
    sensitivity : float
        l2 distance of all counts of two neighbours, of all columns.
    n_columns : int, default=1
        In how many columns names are not listed; 0 for none, where this is the Gaussian mechanism.

    Returns
    -------
    scale, threshold : float
        Standard deviation of the noise of each count, and what a noisy count has to exceed.

    Raises
    ------
    ValueError
        If `delta` is not positive.

    Examples
    --------
    >>> from skdprp.mechanisms import thresholded_counts_scale
    >>> scale, threshold = thresholded_counts_scale(1.0, 1e-6, sensitivity=2.0**0.5)
    >>> round(scale, 2), round(threshold, 1)
    (6.01, 32.0)
    """
    if n_columns == 0 or delta >= 1:  # which is refused there
        return gaussian_scale(epsilon, delta, sensitivity=sensitivity), float("inf")
    if not delta > 0:
        raise ValueError("Names that are not listed cannot meet delta=0: list them, or choose delta > 0.")
    probability = delta * _SHARE_OF_DELTA
    shift = shift_of_epsilon(probability)
    rest = (delta * np.exp(-shift / 2) - probability) * (1 - 2.0**-30)
    scale = gaussian_scale(epsilon - shift, rest, sensitivity=sensitivity)
    # Without noise on anything else that bisection would never end: the guess is right up to rounding.
    guess = 1 - scale * ndtri(probability / n_columns)
    threshold = bisect(
        lambda threshold: name_probability(scale=scale, threshold=threshold, n_columns=n_columns) <= probability,
        1.0,
        guess * (1 + 2.0**-20),
    )
    return check_scale(scale), threshold


def add_thresholded_noise(counts, scale, threshold):
    """Release counts of names: noisy numbers, and where they are above the threshold; all others are to be dropped.

    Parameters
    ----------
    counts : ndarray of float64
        How often each name occurs, not changed; names that do not occur have no entry.
    scale, threshold : float
        See :func:`thresholded_counts_scale`.

    Returns
    -------
    counts : ndarray of float64
        Noisy counts, on a public grid.
    is_released : ndarray of bool
        Which of them may be known to exist.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.mechanisms.thresholded_counts import add_thresholded_noise
    >>> _, is_released = add_thresholded_noise(np.array([900.0, 1.0]), scale=6.0, threshold=60.0)
    >>> is_released
    array([ True, False])
    """
    noisy = np.array(counts, dtype=np.float64)
    _noise.add_gaussian(noisy, scale)
    # A rounded sum is above a number by half a step only if the sum itself is above it.
    return noisy, noisy > threshold + _HALF_A_STEP * scale
