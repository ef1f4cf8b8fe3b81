"""Scales of additive noise: Gaussian, Laplace and spherical."""

from fractions import Fraction

import numpy as np
from scipy.special import logsumexp

from .._digits import with_python_numbers
from .._noise import check_scale
from ..accounting import check_spherical, gaussian_profile, spherical_profile
from ._calibration import boundary, calibrated, remembered, require_positive_delta


@remembered
def gaussian_scale(epsilon, delta, *, sensitivity=1.0):
    """Calibrate the Gaussian mechanism exactly, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: the privacy profile at `epsilon` is at most `delta`.
    sensitivity : float, default=1.0
        l2 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Standard deviation of the noise to add to each coordinate; 0 if `sensitivity` is 0.

    Raises
    ------
    ValueError
        If `delta` is not positive.

    References
    ----------
    .. [1] B. Balle and Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8.

    Examples
    --------
    >>> from skdprp.mechanisms import gaussian_scale
    >>> round(gaussian_scale(1.0, 1e-5), 4)
    3.7306
    """
    require_positive_delta(delta)
    if sensitivity == 0:
        return 0.0
    return calibrated(
        lambda scale: gaussian_profile(epsilon, scale=scale, sensitivity=sensitivity), delta, start=sensitivity
    )


@with_python_numbers
def kenthapadi_scale(epsilon, delta, *, sensitivity=1.0):
    """Calibrate the Gaussian mechanism by the closed form of Kenthapadi et al.

    Parameters
    ----------
    epsilon, delta : float
        Target; `delta` is below 1/2.
    sensitivity : float, default=1.0
        l2 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Standard deviation of the noise to add to each coordinate.

    Raises
    ------
    ValueError
        If `delta` is not between 0 and 1/2.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Theorem 3.1.

    Examples
    --------
    >>> from skdprp.mechanisms import kenthapadi_scale
    >>> round(kenthapadi_scale(1.0, 1e-5), 4)
    4.8621
    """
    require_positive_delta(delta)
    if delta >= 0.5:
        raise ValueError(f"The Kenthapadi calibration needs delta < 1/2, got delta={delta}: use 'analytic'.")
    return check_scale(float(sensitivity * np.sqrt(2 * (np.log(1 / (2 * delta)) + epsilon)) / epsilon))


@with_python_numbers
def kenthapadi_bound_scale(epsilon, delta, *, max_change, n_features, n_components):
    """Calibrate a Gaussian random projection before it is drawn ("Analytic DP-RP-G").

    Half of `delta` pays for the event that the drawn projection has a larger sensitivity than its high-probability
    bound, half for the noise.

    Parameters
    ----------
    epsilon, delta : float
        Target, over the draw of the projection and the noise.
    max_change : float
        l1 distance between two neighbours.
    n_features, n_components : int
        Shape (p, k) of the projection.

    Returns
    -------
    float
        Standard deviation of the noise to add to each coordinate of the projection, scaled by 1 / sqrt(k).

    Raises
    ------
    ValueError
        If `delta` is not positive.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 3 (Analytic DP-RP-G).

    Examples
    --------
    >>> from skdprp.mechanisms import kenthapadi_bound_scale
    >>> round(kenthapadi_bound_scale(1.0, 1e-6, max_change=1.0, n_features=1000, n_components=256), 4)
    7.1923
    """
    require_positive_delta(delta)
    tail = np.log(2 * n_features / delta) / n_components
    return kenthapadi_scale(epsilon, delta / 2, sensitivity=max_change * np.sqrt(1 + 2 * np.sqrt(tail) + 2 * tail))


@with_python_numbers
def classic_gaussian_scale(epsilon, delta, *, sensitivity=1.0):
    """Calibrate the Gaussian mechanism by the textbook formula, valid below epsilon = 1 only.

    Parameters
    ----------
    epsilon, delta : float
        Target; `epsilon` is below 1.
    sensitivity : float, default=1.0
        l2 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Standard deviation of the noise to add to each coordinate.

    Raises
    ------
    ValueError
        If `epsilon` is 1 or more, or `delta` not positive.

    References
    ----------
    .. [1] C. Dwork and A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Theorem A.1.

    Examples
    --------
    >>> from skdprp.mechanisms import classic_gaussian_scale
    >>> round(classic_gaussian_scale(0.5, 1e-5), 4)
    9.6896
    """
    require_positive_delta(delta)
    if epsilon >= 1:
        raise ValueError(f"The classic calibration holds for epsilon < 1 only, got {epsilon}: use 'analytic'.")
    return check_scale(float(sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon))


@with_python_numbers
def laplace_scale(epsilon, delta=0.0, *, sensitivity=1.0):
    """Calibrate the Laplace mechanism.

    Parameters
    ----------
    epsilon : float
        Target.
    delta : float, default=0.0
        Not used: Laplace noise gives delta = 0.
    sensitivity : float, default=1.0
        l1 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Scale b of the noise to add to each coordinate, of density ``exp(-|x| / b) / (2 b)``; 0 if `sensitivity` is 0.

    References
    ----------
    .. [1] C. Dwork, F. McSherry, K. Nissim and A. Smith, "Calibrating Noise to Sensitivity in Private Data Analysis",
       TCC 2006.

    Examples
    --------
    >>> from skdprp.mechanisms import laplace_scale
    >>> laplace_scale(0.5)
    2.0
    """
    if sensitivity == 0:
        return 0.0
    scale = check_scale(sensitivity / epsilon)
    meets = Fraction(sensitivity) <= Fraction(epsilon) * Fraction(scale)
    return float(scale if meets else np.nextafter(scale, np.inf))


@remembered
def spherical_scale(epsilon, delta, *, sensitivity=1.0, n_dims, shape, power):
    """Calibrate spherical noise exactly, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: the privacy profile at `epsilon` is at most `delta`.
    sensitivity : float, default=1.0
        Largest l2 distance between the outputs of two neighbours.
    n_dims : int
        Dimension M of the output.
    shape, power : float
        Parameters (a, b) of the radius, see :func:`skdprp.accounting.spherical_profile`.

    Returns
    -------
    float
        Scale s of the radius ``s * Gamma(a / b)^(1 / b)``; 0 if `sensitivity` is 0.

    Raises
    ------
    ValueError
        If `delta` is not positive, unless the noise is multivariate Laplace (a = M, b = 1), which is pure; or if
        (a, b) is not covered by the profile.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, for the noise; its calibration is :func:`published_product_noise_scale`.

    Examples
    --------
    >>> from skdprp.mechanisms import spherical_scale
    >>> round(spherical_scale(1.0, 1e-5, n_dims=14, shape=14, power=1), 4)
    0.7996
    """
    check_spherical(n_dims, shape, power)
    if delta <= 0 and (shape != n_dims or power != 1):
        raise ValueError("Only the multivariate Laplace noise, shape=n_dims and power=1, can meet delta=0.")
    if delta <= 0 or sensitivity == 0:
        return laplace_scale(epsilon, sensitivity=sensitivity)
    law = {"n_dims": n_dims, "shape": shape, "power": power}
    return calibrated(
        lambda scale: spherical_profile(epsilon, scale=scale, sensitivity=sensitivity, **law), delta, start=sensitivity
    )


def _log_hyp1f1(a, b, z):
    """Logarithm of 1F1(a; b; z) for positive arguments, summed in the log domain where the value overflows."""
    n = np.arange(64 + int(4 * (z + np.sqrt(a * z))))
    return logsumexp(np.append(0.0, np.cumsum(np.log((a + n) * z / ((b + n) * (1 + n))))))


def _published_product_noise(k, epsilon, n_dims):
    """Return t and the logarithm of the delta that [1]_ claims for the scale ``sensitivity * t / epsilon``."""
    m = n_dims / 4
    t = np.exp((np.log(2) + np.log(k) / m + (1 + 1 / m) * np.log(m + 1.5) - 1 - 2 / n_dims) / 2)
    lam = epsilon / t
    series = np.logaddexp(
        _log_hyp1f1(m + 0.5, 0.5, lam**2 / 2), np.log(np.sqrt(2) * lam) + _log_hyp1f1(m + 1, 1.5, lam**2 / 2)
    )
    ratio = (n_dims - 1) / ((2 * m - 1.5) * (2 * m + 0.75))
    return t, series - lam**2 / 2 - np.log(k * np.sqrt(np.pi)) + np.log(ratio) / 2


@remembered
def published_product_noise_scale(epsilon, delta, *, sensitivity=1.0, n_dims):
    """Calibrate the chi_1 product noise as published; it does not meet its target.

    Parameters
    ----------
    epsilon, delta : float
        Claimed guarantee. The true delta, which is far larger, is the profile of
        :func:`skdprp.accounting.spherical_profile` with ``scale=sqrt(2) * sigma, shape=1, power=2``.
    sensitivity : float, default=1.0
        Largest l2 distance between the outputs of two neighbours.
    n_dims : int
        Dimension M of the output, at least 4.

    Returns
    -------
    float
        sigma_M: the radius of the noise is ``sigma_M * |N(0, 1)|``, spherical noise of scale ``sqrt(2) * sigma_M``.

    Raises
    ------
    ValueError
        If `delta` is not positive, or `n_dims` is below 4, where the formula is not defined.

    Notes
    -----
    The constant k of the algorithm is taken as the least real number at which the claimed delta is at most `delta`.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Algorithm 1.

    Examples
    --------
    >>> from skdprp.accounting import spherical_profile
    >>> from skdprp.mechanisms import published_product_noise_scale
    >>> sigma = published_product_noise_scale(1.0, 1e-5, n_dims=784)
    >>> round(spherical_profile(1.0, scale=2**0.5 * sigma, n_dims=784, shape=1, power=2), 2)
    0.73
    """
    if delta <= 0 or n_dims < 4:
        raise ValueError(f"The published calibration needs delta > 0 and n_dims >= 4, got {delta} and {n_dims}.")
    k = boundary(lambda k: _published_product_noise(k, epsilon, n_dims)[1] <= np.log(delta), start=1.0)
    return check_scale(float(sensitivity * _published_product_noise(k, epsilon, n_dims)[0] / epsilon))
