"""The Gaussian and the Laplace mechanism: noise on each coordinate."""

from fractions import Fraction

import numpy as np
from scipy.special import chdtri, erfcx, log_ndtr, ndtr, ndtri

from .. import _noise
from .._digits import with_python_numbers
from .._noise import check_scale
from ._numerics import LEAST_DELTA, bisect, cached, calibrated, released, require_positive_delta, rounded_up

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
        Epsilon of the guarantee, in nats; may be negative.
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
    >>> from skdprp.mechanisms import gaussian_profile
    >>> f"{gaussian_profile(1.0, scale=3.7306):.2e}"
    '1.00e-05'
    """
    if epsilon < 0:
        return _below_zero(epsilon, gaussian_profile(-epsilon, scale=scale, sensitivity=sensitivity))
    if sensitivity == 0:
        return 0.0
    if scale == 0:
        return 1.0
    mu = max(sensitivity / scale, LEAST_DELTA)
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if not (mu <= _EXACT_MU or np.isinf(mu) or np.isinf(epsilon)):  # two large numbers, which may nearly cancel
        exact = Fraction(float(sensitivity)) / Fraction(float(scale))
        upper = float(exact / 2 - Fraction(float(epsilon)) / exact)
    # Theorem 8: delta = Phi(upper) - e^epsilon Phi(lower). Each branch is that difference where it loses no digits.
    if upper < _FAR_BELOW:
        return LEAST_DELTA
    if upper > _SMALL and mu > _EXACT_MU and lower < 0:  # large epsilon and log Phi(lower) would cancel
        return float(ndtr(upper) - 0.5 * np.exp(-upper * upper / 2) * erfcx(-lower / np.sqrt(2)))
    if upper > _SMALL:
        return float(ndtr(upper) - np.exp(epsilon + log_ndtr(lower)))
    # phi(upper) = exp(epsilon) phi(lower): a difference of Mills ratios loses no digits where delta is tiny.
    x, step = -upper / np.sqrt(2), mu / np.sqrt(2)
    if step > _SMALL:
        difference = erfcx(x) - erfcx(x + step)
    else:  # the integral of the slope keeps the digits of a small step
        nodes = x + step * (1 + _NODES) / 2
        difference = step / 2 * (_NODE_WEIGHTS @ (2 / np.sqrt(np.pi) - 2 * nodes * erfcx(nodes)))
    delta = 0.5 * np.exp(-(upper**2) / 2) * difference
    return max(float(delta), LEAST_DELTA)  # in this order, which keeps nan


def _below_zero(epsilon, reverse):
    """Profile at a negative epsilon, by that at -epsilon of the other order of two neighbours, which are alike."""
    return float(np.exp(epsilon) * reverse - np.expm1(epsilon))


@with_python_numbers
def laplace_profile(epsilon, *, scale, sensitivity=1.0):
    """Exact privacy profile of the Laplace mechanism, at any epsilon, also a negative one [1]_.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats.
    scale : float
        Scale b of the noise of each number.
    sensitivity : float, default=1.0
        l1 distance between the numbers of two neighbours.

    Returns
    -------
    float
        The least delta for which a number with this noise is (epsilon, delta)-DP; 0 from ``sensitivity / scale`` on.

    Notes
    -----
    That of one number. It holds for several, by their l1 sensitivity: numbers that move by ``d_1, ..., d_k`` have no
    larger delta than one that moves by D, the sum. It is enough to show this for two, at scale 1 and ``d_1 <= d_2``,
    and to put numbers together one after the other. With p_0 and p_1 the densities of two neighbours, a delta is
    ``E[(1 - e^epsilon y)+]`` under p_0, convex in ``y = p_1 / p_0``, which has mean 1. So what is more spread out has
    the larger delta, and y is, if the distribution functions of the losses ``l = -log y`` cross once, from above [2]_.

    For one number ``P(l <= x)`` is ``exp(-(D - x) / 2) / 2`` for x from -D on, and 1 from D on. Let R(x) be that of
    ``l_1 + l_2`` over this, ``s = x - d_2``, and m half a unit at -d_1 and at d_1 with density 1/4 between. Then R(x)
    is the integral of ``h(s - t) dm(t)``, h(u) being 0 below -2 d_2, 1 up to 0, and ``2 exp(-u / 2)`` from 0 on. It
    begins with 1/2, and does not decrease up to ``s = -d_1``. From there on it is ``3/2 + (d_1 - s) / 4``, up to
    ``s = d_1``, which is x = D: it passes 1 once.

    References
    ----------
    .. [1] B. Balle, G. Barthe and M. Gaboardi, "Privacy Amplification by Subsampling", NeurIPS 2018, Theorem 3.
    .. [2] M. Shaked and J. G. Shanthikumar, "Stochastic Orders", Springer 2007, Theorem 3.A.44.

    Examples
    --------
    >>> from skdprp.mechanisms import laplace_profile
    >>> [round(laplace_profile(epsilon, scale=1.0), 3) for epsilon in (0.0, 0.5, 1.0)]
    [0.393, 0.221, 0.0]
    """
    if epsilon < 0:
        return _below_zero(epsilon, laplace_profile(-epsilon, scale=scale, sensitivity=sensitivity))
    if not sensitivity or np.isinf(scale) or epsilon * scale >= 2 * sensitivity:  # twice the largest loss
        return 0.0
    # delta = 1 - e^((epsilon - sensitivity / scale) / 2). The two may nearly cancel, and delta be in their last bits.
    left = float(Fraction(float(epsilon)) - Fraction(float(sensitivity)) / Fraction(float(scale)))
    return float(max(0.0, -np.expm1(left / 2)))


@with_python_numbers
def gaussian_epsilon(delta, *, scale, sensitivity=1.0):
    """Least epsilon of at least 0 at which the Gaussian mechanism has a delta, rounded up; infinite without noise."""
    if scale == 0:
        return float("inf")

    def _meets(epsilon):
        return rounded_up(gaussian_profile(epsilon, scale=scale, sensitivity=sensitivity)) <= delta

    if _meets(0.0):
        return 0.0
    mu = sensitivity / scale
    # There the first of the two terms of the profile alone is delta: no epsilon that is needed is larger.
    high = (mu**2 / 2 - mu * ndtri(delta)) * (1 + 2.0**-40)
    if mu > _LARGE_MU:  # the second term is so small a share of delta that the bound is as good
        return float(high)
    return bisect(_meets, 0.0, high)


@cached
def gaussian_scale(epsilon, delta, *, sensitivity=1.0):
    """Calibrate the Gaussian mechanism exactly, rounding to the private side: the "analytic Gaussian" mechanism [1]_.

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
    if delta >= 0.5:  # the logarithm in it is negative
        raise ValueError(f"The Kenthapadi calibration needs delta < 1/2, got delta={delta}: use 'analytic'.")
    return check_scale(float(sensitivity * np.sqrt(2 * (np.log(1 / (2 * delta)) + epsilon)) / epsilon))


@with_python_numbers
def gaussian_l2_sensitivity_bound(delta, *, max_change=1.0, n_features, n_components):
    """Bound the l2 sensitivity of a Gaussian projection to l1 changes, except with probability `delta` over its draw.

    ``beta sqrt(1 + 2 sqrt(t) + 2 t)`` with ``t = ln(p / delta) / k`` [1]_: the tail bound of Laurent and Massart for a
    chi-square of k degrees of freedom, over all p rows of W at once. That of a drawn W is
    :func:`skdprp.sensitivity.l2_sensitivity`.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Lemma 3.3.

    Examples
    --------
    >>> from skdprp.sensitivity import gaussian_l2_sensitivity_bound
    >>> round(gaussian_l2_sensitivity_bound(1e-6, n_features=1000, n_components=256), 3)
    1.316
    """
    tail = np.log(n_features / delta) / n_components
    return float(max_change * np.sqrt(1 + 2 * np.sqrt(tail) + 2 * tail))


@with_python_numbers
def gaussian_l1_sensitivity_bound(delta, *, max_change=1.0, n_features, n_components):
    """Bound the l1 sensitivity of a Gaussian projection to l1 changes, except with probability `delta` over its draw.

    ``beta sqrt(2 k ln 2 + 2 ln(p / delta))`` [1]_. It grows with the root of k, where the l2 sensitivity stays near
    beta: so Laplace noise on a dense projection is of that size over epsilon. It shows that, and calibrates nothing:
    noise for a bound that may fail has a delta.

    Notes
    -----
    A sum Z of k half-normal numbers has ``E[e^(tZ)] = (2 e^(t^2 / 2) Phi(t))^k <= 2^k e^(k t^2 / 2)``. By Markov's
    inequality at ``t = z / k``, ``Pr(Z >= z) <= 2^k e^(-z^2 / (2 k))``, which is delta / p at
    ``z = sqrt(2 k (k ln 2 + ln(p / delta)))``; and a row of W, scaled by ``1 / sqrt(k)``, has the norm ``Z / sqrt(k)``.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Lemmas 3.6 and 3.7.

    Examples
    --------
    >>> from skdprp.sensitivity import gaussian_l1_sensitivity_bound
    >>> round(gaussian_l1_sensitivity_bound(1e-6, n_features=1000, n_components=256), 2)
    19.91
    """
    return float(max_change * np.sqrt(2 * n_components * np.log(2) + 2 * np.log(n_features / delta)))


@with_python_numbers
def kenthapadi_bound_scale(epsilon, delta, *, max_change, n_features, n_components):
    """Calibrate a Gaussian random projection, scaled by 1 / sqrt(k), before it is drawn ("Analytic DP-RP-G") [1]_.

    Half of `delta` pays for the event that the drawn projection has a larger sensitivity than its high-probability
    bound, half for the noise. The target holds over the draw of the projection and the noise.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 3 (Analytic DP-RP-G).
    """
    require_positive_delta(delta)
    bound = gaussian_l2_sensitivity_bound(
        delta / 2, max_change=max_change, n_features=n_features, n_components=n_components
    )
    return kenthapadi_scale(epsilon, delta / 2, sensitivity=bound)


@cached
def analytic_bound_scale(epsilon, delta, *, max_change, n_features, n_components):
    """Calibrate a Gaussian random projection, scaled by 1 / sqrt(k), before it is drawn, without tail bounds.

    As :func:`kenthapadi_bound_scale`, with the analytic Gaussian mechanism in the place of its formula, the quantile of
    the chi-square distribution in that of Laurent and Massart's bound, and the best share of delta for the draw.

    Notes
    -----
    The squared norms of the p rows of W are chi-square variables of k degrees of freedom: all are at most the quantile
    t at a tail of ``s delta / p``, except with probability ``s delta``. Then the l2 sensitivity is at most
    ``max_change sqrt(t / k)``, and the noise meets (epsilon, (1 - s) delta). Any share s is private: of those that are
    powers of 1/2 the one with the least noise is taken.
    """
    require_positive_delta(delta)

    def _scale(share):
        quantile = chdtri(n_components, delta * share / n_features) * (1 + 2.0**-36)  # for its own error
        sensitivity = max_change * float(np.sqrt(quantile / n_components))
        return gaussian_scale(epsilon, delta * (1 - share), sensitivity=sensitivity)

    return min(_scale(2.0**-i) for i in range(1, 12))


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
        raise ValueError(f"The classic calibration is proved for epsilon < 1 only, got {epsilon}: use 'analytic'.")
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
    if epsilon == 0:
        raise ValueError("epsilon must be above 0.")
    scale = check_scale(sensitivity / epsilon)
    # The division may have rounded down, to a loss above epsilon.
    meets = Fraction(sensitivity) <= Fraction(epsilon) * Fraction(scale)
    return float(scale if meets else np.nextafter(scale, np.inf))


def add_gaussian(values, scale):
    """Release numbers with Gaussian noise, drawn from the kernel and rounded to a public grid.

    Parameters
    ----------
    values : array-like of float
        What to release, already clipped so that the sensitivity holds; not changed.
    scale : float
        Standard deviation of the noise of each number, see :func:`gaussian_scale`; 0 adds none.

    Returns
    -------
    ndarray of float64
        Multiples of a power of two of about scale / 1024, which tell nothing of the last bits of `values`. As many
        numbers as neighbours may change cost what :func:`sampled_target` says.

    Raises
    ------
    ValueError
        If a number is not finite, or too large for noise of this scale, or floats cannot sample it. Nothing is
        released then.

    Examples
    --------
    >>> from skdprp.mechanisms import add_gaussian, gaussian_scale, sampled_target
    >>> scale = gaussian_scale(*sampled_target(1.0, 1e-6, n_changed=2), sensitivity=3.0)
    >>> add_gaussian([120.0, 80.0], scale).shape
    (2,)
    """
    return released(_noise.add_gaussian, values, scale)


def add_laplace(values, scale):
    """Release numbers with Laplace noise, drawn from the kernel and rounded to a public grid.

    Parameters
    ----------
    values : array-like of float
        What to release, already clipped so that the sensitivity holds; not changed.
    scale : float
        Scale b of the noise of each number, see :func:`laplace_scale`; 0 adds none.

    Returns
    -------
    ndarray of float64
        As of :func:`add_gaussian`.

    Raises
    ------
    ValueError
        If a number is not finite, or too large for noise of this scale, or floats cannot sample it. Nothing is
        released then.

    Examples
    --------
    >>> from skdprp.mechanisms import add_laplace, laplace_scale
    >>> add_laplace([120.0, 80.0], laplace_scale(1.0, sensitivity=2.0)).shape
    (2,)
    """
    return released(_noise.add_laplace, values, scale)
