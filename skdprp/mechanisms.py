"""From (epsilon, delta, sensitivity) to the scale of the noise, rounded to the private side.

Every calibration has its profile in :mod:`skdprp.accounting`: ``profile(calibration(epsilon, delta)) <= delta``.
"""

from fractions import Fraction

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, logsumexp, ndtr, ndtri

from ._noise import SAMPLING_LOSS
from .accounting import check_spherical, gaussian_profile, randomised_response_profile, spherical_profile

_DIGITS = 2.0**-50
_MAX_LOSS = 16.0
_MAX_LEVEL = 2**16 - 1


def _boundary(meets, start):
    """Bisect ``meets``, false below some scale and true above, to the last digits; return the side where it is true."""
    low = high = start
    while meets(low):
        high, low = low, low / 2
    while not meets(high):
        low, high = high, high * 2
        if not np.isfinite(high):
            raise ValueError("No amount of noise meets this target: choose epsilon > 0 and 0 < delta < 1.")
    while high - low > _DIGITS * high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


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
    ``P~ <= e^(m eta) P <= e^(m eta) (e^eps' Q + delta') <= e^(eps' + 2 m eta) Q~ + e^(m eta) delta'``.

    Examples
    --------
    >>> from skdprp.mechanisms import sampled_target
    >>> epsilon, delta = sampled_target(1.0, 1e-6, n_changed=256)
    >>> f"{1 - epsilon:.1e} {1e-6 - delta:.1e}"
    '2.4e-07 1.2e-13'
    """
    loss = n_changed * SAMPLING_LOSS
    if epsilon <= 2 * loss:
        raise ValueError(f"epsilon={epsilon} is too small: {n_changed} values cannot be sampled to a loss below it.")
    return epsilon - 2 * loss, float(delta * np.exp(-loss))


def _require_positive_delta(delta):
    if not delta > 0:
        raise ValueError("Gaussian noise cannot meet delta=0: choose delta > 0, or Laplace noise.")


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
    _require_positive_delta(delta)
    if sensitivity == 0:
        return 0.0
    return _boundary(
        lambda scale: gaussian_profile(epsilon, scale=scale, sensitivity=sensitivity) <= delta, start=sensitivity
    )


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
    _require_positive_delta(delta)
    if delta >= 0.5:
        raise ValueError(f"The Kenthapadi calibration needs delta < 1/2, got delta={delta}: use 'analytic'.")
    return float(sensitivity * np.sqrt(2 * (np.log(1 / (2 * delta)) + epsilon)) / epsilon)


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
    _require_positive_delta(delta)
    tail = np.log(2 * n_features / delta) / n_components
    return kenthapadi_scale(epsilon, delta / 2, sensitivity=max_change * np.sqrt(1 + 2 * np.sqrt(tail) + 2 * tail))


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
    _require_positive_delta(delta)
    if epsilon >= 1:
        raise ValueError(f"The classic calibration holds for epsilon < 1 only, got {epsilon}: use 'analytic'.")
    return float(sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon)


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
        Scale b of the noise to add to each coordinate, of density ``exp(-|x| / b) / (2 b)``.

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
    scale = sensitivity / epsilon
    meets = Fraction(sensitivity) <= Fraction(epsilon) * Fraction(scale)
    return float(scale if meets else np.nextafter(scale, np.inf))


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
        Scale s of the radius ``s * Gamma(a / b)^(1 / b)``.

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
    if delta <= 0:
        return laplace_scale(epsilon, sensitivity=sensitivity)
    law = {"n_dims": n_dims, "shape": shape, "power": power}
    return _boundary(
        lambda scale: spherical_profile(epsilon, scale=scale, sensitivity=sensitivity, **law) <= delta,
        start=sensitivity,
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
    k = _boundary(lambda k: _published_product_noise(k, epsilon, n_dims)[1] <= np.log(delta), start=1.0)
    return float(sensitivity * _published_product_noise(k, epsilon, n_dims)[0] / epsilon)


def information_scale(epsilon, *, max_abs=1.0, n_components=1, min_residual=0.0):
    """Calibrate Gaussian noise to a bound on mutual information (MI-DP), rounding to the private side.

    With the defaults the noise is for the entries of X themselves; with `n_components`, for ``S X`` where S has that
    many rows of standard normal variates.

    Parameters
    ----------
    epsilon : float
        Bound on the mutual information between an entry and the release given all else, in bits.
    max_abs : float, default=1.0
        Largest absolute value of an entry.
    n_components : int, default=1
        Number n' of rows of S.
    min_residual : float, default=0.0
        A public promise about X, y (and a constant column, if one is projected too): for every column j and row i, the
        least-squares residual of column j on the other columns and y has at least this norm when row i is left out.
        Above 0 it needs a secret S.

    Returns
    -------
    float
        ``sqrt(max(0, n' max_abs^2 / (2^(2 epsilon) - 1) - min_residual^2))``

    Notes
    -----
    The entry ``t = X_ij`` is in the projected column j only, ``S x_j = t s + R x``, with s column i of S, R the other
    columns, and x column j without row i. Reveal s, S y and the other columns of S X without noise. Split x into a
    combination of the other columns and y without row i, which the attacker can subtract, and a residual r. Because S
    is Gaussian, R r is independent of all that was revealed. What remains is ``t s + N(0, (sigma^2 + |r|^2) I)``. Its
    information about t, given s, is at most ``E log2(1 + max_abs^2 |s|^2 / (sigma^2 + |r|^2)) / 2``, and by Jensen's
    inequality at most
    :func:`skdprp.accounting.gaussian_information`. With a promise of 0 all of S may be known to the attacker.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, for the mechanisms; the residuals are ours.

    Examples
    --------
    >>> from skdprp.mechanisms import information_scale
    >>> round(information_scale(0.5), 9)
    1.0
    >>> round(information_scale(0.5, n_components=100, min_residual=8.0), 9)
    6.0
    """
    needed = max_abs * _unit_information_scale(epsilon) * np.sqrt(n_components) * (1 + 2.0**-39)
    return float(np.sqrt(max(0.0, (needed - min_residual) * (needed + min_residual))) * (1 + 2.0**-40))


def sampled_information(epsilon, *, n_changed):
    """Bits that ideal noise may let through so that the noise of :mod:`skdprp._noise` lets at most `epsilon` through.

    Parameters
    ----------
    epsilon : float
        Bound on the mutual information of the release, in bits.
    n_changed : int
        Number m of released values that depend on the protected entry.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `epsilon` is too small for `n_changed`.

    Notes
    -----
    Let P be the ideal law of the release given the entry, and P~ the sampled one, within a factor e^a of it, where
    ``a = m 2^-31``; Q and Q~ are their mixtures over the entry. Then ``log(P~/Q~) <= log(P/Q) + 2 a``, and the mean of
    ``log(P/Q)`` under P~ is at most that under P plus ``e^a - 1`` times that of its absolute value. The latter is at
    most ``KL + 2 / e``. In nats, averaged over the entry, ``I~ <= e^a I + 2 a + (e^a - 1) 2 / e``.

    Examples
    --------
    >>> from skdprp.mechanisms import sampled_information
    >>> f"{0.5 - sampled_information(0.5, n_changed=1000):.1e}"
    '2.1e-06'
    """
    loss = n_changed * SAMPLING_LOSS
    target = (epsilon - (2 * loss + 2 / np.e * np.expm1(loss)) / np.log(2)) * np.exp(-loss)
    if target <= 0:
        raise ValueError(f"epsilon={epsilon} is too small: {n_changed} values cannot be sampled to fewer bits.")
    return float(target)


def _unit_information_scale(epsilon):
    """``1 / sqrt(2^(2 epsilon) - 1)``, which does not overflow."""
    return np.exp2(-epsilon) / np.sqrt(-np.expm1(-2 * epsilon * np.log(2)))


def published_information_scale(epsilon, *, n_components, residual, max_abs=1.0):
    """Calibrate the noise of a Gaussian projection as published; it does not meet its target.

    Parameters
    ----------
    epsilon : float
        Claimed bound on the mutual information, in bits.
    n_components : int
        Number n' of rows of S.
    residual : float
        f(X): root of the least, over the columns, sum of squares without the largest square. It ignores that the other
        columns and y are projected by the same S and reveal what it counts on to hide the entry; and it is read from
        the data.
    max_abs : float, default=1.0
        Largest absolute value of an entry.

    Returns
    -------
    float
        ``sqrt(max(0, n' max_abs^2 / (2^(2 epsilon) - 1) - f^2))``

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, Lemma 2.

    Examples
    --------
    >>> from skdprp.mechanisms import published_information_scale
    >>> published_information_scale(0.5, n_components=100, residual=11.0)
    0.0
    """
    needed = max_abs * _unit_information_scale(epsilon) * np.sqrt(n_components)
    return float(np.sqrt(max(0.0, needed**2 - residual**2)))


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
    return np.ceil(np.clip(probability * (1 + 2.0**-46), 2.0**-64, 0.5) * 2.0**64).astype(np.uint64)


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
        return randomised_response_profile(epsilon, epsilon0=loss, n_bits=n_components, changed=changed) <= delta

    # A bit flipped with probability e^-64 is as good as kept; delta may be so large that no bit need be flipped.
    largest = max(epsilon, 64.0)
    return largest if _meets(epsilon / largest) else epsilon / _boundary(_meets, start=float(n_components))


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
    The lemma behind it is false for some rows; the count of differing signs derived from it is still an upper bound for
    Gaussian projections, where :func:`sign_change_probability` is exact.

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
