"""Calibrations as published, to reproduce papers: what they claim does not hold, or not by their proofs."""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr, ndtri

from .._digits import with_python_numbers
from .._noise import check_scale
from ._numerics import boundary, cached, require_positive_delta, rounded_up, rows_that_differ
from .mutual_information import _unit_information_scale
from .noisy_steps import _SHARES_OF_RESPONSES, _step_target, amplified, composed_profile
from .radial import spherical_profile
from .randomised_response import flip_probability


def _log_hyp1f1(a, b, z):
    """Logarithm of 1F1(a; b; z) for positive arguments, summed in the log domain where the value overflows."""
    n = np.arange(64 + int(4 * (z + np.sqrt(a * z))))
    return logsumexp(np.append(0.0, np.cumsum(np.log((a + n) * z / ((b + n) * (1 + n))))))


def _published_product_noise(k, epsilon, n_dims):
    """Return t and the logarithm of the delta that is claimed for the scale ``sensitivity * t / epsilon``."""
    m = n_dims / 4  # Liu et al., SIGMOD 2026, Algorithm 1
    t = np.exp((np.log(2) + np.log(k) / m + (1 + 1 / m) * np.log(m + 1.5) - 1 - 2 / n_dims) / 2)
    lam = epsilon / t
    if not lam <= 1000:  # a series of about 2 lam^2 terms
        raise ValueError(f"epsilon={epsilon:g} is too large for the series of the published calibration.")
    series = np.logaddexp(
        _log_hyp1f1(m + 0.5, 0.5, lam**2 / 2), np.log(np.sqrt(2) * lam) + _log_hyp1f1(m + 1, 1.5, lam**2 / 2)
    )
    ratio = (n_dims - 1) / ((2 * m - 1.5) * (2 * m + 0.75))
    return t, series - lam**2 / 2 - np.log(k * np.sqrt(np.pi)) + np.log(ratio) / 2


@cached
def published_product_noise_scale(epsilon, delta, *, sensitivity=1.0, n_dims):
    """Calibrate the chi_1 product noise as published; it does not meet its target.

    Parameters
    ----------
    epsilon, delta : float
        Claimed guarantee. The true delta, which is far larger, is the profile of
        :func:`skdprp.mechanisms.spherical_profile` with ``scale=sqrt(2) * sigma, shape=1, power=2``.
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
        If `delta` is not positive or `n_dims` is below 4, where the formula is not defined, or `epsilon` is so large
        that its series would have millions of terms.

    Notes
    -----
    The constant k of the algorithm is taken as the least real number at which the claimed delta is at most `delta`.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Algorithm 1.

    Examples
    --------
    >>> from skdprp.mechanisms import spherical_profile
    >>> from skdprp.mechanisms import published_product_noise_scale
    >>> sigma = published_product_noise_scale(1.0, 1e-5, n_dims=784)
    >>> round(spherical_profile(1.0, scale=2**0.5 * sigma, n_dims=784, shape=1, power=2), 2)
    0.73
    """
    if delta <= 0 or n_dims < 4:
        raise ValueError(f"The published calibration needs delta > 0 and n_dims >= 4, got {delta} and {n_dims}.")
    k = boundary(lambda k: _published_product_noise(k, epsilon, n_dims)[1] <= np.log(delta), start=1.0)
    return check_scale(float(sensitivity * _published_product_noise(k, epsilon, n_dims)[0] / epsilon))


@cached
def published_sign_change_probability(relative_change, n_features):
    """Bound F on the probability that one sign differs, as published, of neighbours with norms of at least m.

    ``int_0^inf 2 p [2 Phi(t) - 1]^(p-1) [2 Phi(t beta / m) - 1] phi(t) dt`` [1]_ with ``beta / m = relative_change``,
    the distance of the neighbours over m, and p features.

    Notes
    -----
    The lemma behind it is false for some rows. For Gaussian projections :func:`sign_change_probability` is exact, and
    F is smaller than that where `relative_change` is near 2, so that it is no bound there either.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Lemma 4.3.
    """

    def _density(t):
        below = 2 * ndtr(t) - 1
        maximum_of_p = 2 * n_features * np.exp((n_features - 1) * np.log(below) - t**2 / 2) / np.sqrt(2 * np.pi)
        return maximum_of_p * (2 * ndtr(relative_change * t) - 1)

    peak = -ndtri(1 / (2 * n_features))  # of the largest of p normal variates, which quadrature would step over
    return quad(_density, 0, np.inf if peak < 1 else 40.0, points=None if peak < 1 else [peak], limit=200)[0]


@with_python_numbers
def published_sign_changes(delta, *, relative_change, n_features, n_components):
    """Bound N_+ on the number of signs in which two neighbours differ, with probability 1 - `delta`, as published.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Proposition 4.5.
    """
    expected = published_sign_change_probability(relative_change, n_features) * n_components
    log_delta = np.log(1 / delta)
    return float(min(expected + (log_delta + np.sqrt(log_delta**2 + 8 * expected * log_delta)) / 2, n_components))


@with_python_numbers
def published_rademacher_sign_change_probability(relative_change):
    """Approximate P_+, the probability that a change of one coordinate may flip a sign, of a Rademacher projection.

    ``2 Phi(relative_change) - 1`` [1]_, with ``relative_change = beta / |u|``, for a row u of many coordinates of like
    size: of a row with one nonzero, below beta, P_+ is 1. So it gives no number N_+ that holds for all rows.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, (31).
    """
    return float(2 * ndtr(relative_change) - 1)


@with_python_numbers
def local_flip_probability(level, epsilon):
    """Local flipping probability: of signs that a change may flip, at level 1, that of randomised response; else 0.

    It is the counterpart of local sensitivity, and as little private: that a sign is never flipped tells that no
    neighbour changes it. :func:`skdprp.mechanisms.flip_probability` is its smooth upper bound, which moves by no more
    than a factor of ``exp(epsilon)`` from a level to the next.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.2.
    """
    return np.where(np.asarray(level) <= 1, flip_probability(level, epsilon), 0.0)


@dataclass(frozen=True)
class PublishedPerturbation:
    """Approximate minima perturbation as published.

    `scale` is that of the perturbation, a standard deviation or the scale of the radius of product noise;
    `release_factor` the standard deviation of the noise of the release, for a minimiser known to within distance 1;
    and from `least_penalty` on the calibration is said to hold.
    """

    scale: float
    release_factor: float
    least_penalty: float


@with_python_numbers
def published_objective_perturbation(
    epsilon, delta, *, lipschitz=1.0, smoothness=1.0, max_norm=1.0, n_outputs=1, n_dims=None
):
    """Split the budget and calibrate approximate minima perturbation as published, without hyperparameters (H-F AMP).

    One row is replaced [1]_; `lipschitz` and `smoothness` bound the first and the second derivative of its loss by its
    score. Problems that are released together share the budget evenly. With `n_dims`, the number of weights of one
    problem, the noise is the product noise of [2]_.

    References
    ----------
    .. [1] R. Iyengar, J. P. Near, D. Song, O. Thakkar, A. Thakurta and L. Wang, "Towards Practical Differentially
       Private Convex Optimization", IEEE S&P 2019.
    .. [2] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026.
    """
    require_positive_delta(delta)
    epsilon, delta = epsilon / n_outputs, delta / n_outputs
    # The noise of the release is calibrated for half of what it has to hide: the claim does not follow.
    epsilon_release, delta_release = 0.01 * epsilon, 0.01 * delta
    epsilon_objective, delta_noise = epsilon - epsilon_release, delta - delta_release
    # The share of the noise in what is left, fitted in [1]_ to experiments; the rest is for the second derivative.
    share = max(min(0.887 + 0.019 / epsilon**0.373, 0.99), 1 - 1 / epsilon + 0.001)
    epsilon_noise = share * epsilon_objective
    gradient = lipschitz * max_norm
    if n_dims is None:
        scale = 2 * _published_gaussian_factor(epsilon_noise, delta_noise) * gradient
    else:  # its radius is |N(0, sigma^2)|, the half-normal
        sigma = published_product_noise_scale(epsilon_noise, delta_noise, sensitivity=2 * gradient, n_dims=n_dims)
        scale = float(np.sqrt(2) * sigma)
    release_factor = _published_gaussian_factor(epsilon_release, delta_release)
    return PublishedPerturbation(
        scale, release_factor, 2 / (epsilon_objective - epsilon_noise) * smoothness * max_norm**2
    )


def _published_gaussian_factor(epsilon, delta):
    """Standard deviation of Gaussian noise over the sensitivity, by a tail bound."""
    return float((1 + np.sqrt(2 * np.log(1 / delta))) / epsilon)


@cached
def published_product_descent(epsilon, delta, *, rate=1.0, n_steps=1, n_dims, adjacency="replace_one"):
    """Calibrate half-normal product noise of many steps as published, and compute what it really gives.

    Returned are the scale of the half-normal radius, sqrt(2) times its sigma, for a sum of `n_dims` coordinates to
    which one row adds a vector of norm 1, and the true delta of all steps at `epsilon`.

    References
    ----------
    .. [1] Liu, Ji, Fang, Wei and Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a Product
       Measure", SIGMOD 2026, Algorithm 1 for the scale of a step, whose proof does not hold.
    .. [2] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, in the
       place of the composition of [1]_.
    """
    require_positive_delta(delta)
    rows = float(rows_that_differ(adjacency))
    targets = [_step_target(epsilon, delta, share, rate, n_steps) for share in _SHARES_OF_RESPONSES]
    sigmas = [published_product_noise_scale(*target, sensitivity=rows, n_dims=n_dims) for target in targets]
    sigma, (step_epsilon, _) = min(zip(sigmas, targets, strict=True))
    scale = float(np.sqrt(2) * sigma)
    # What a step truly gives at its epsilon, on its sample; then on all rows, and for all steps.
    step_delta = spherical_profile(step_epsilon, scale=scale, sensitivity=rows, n_dims=n_dims, shape=1, power=2)
    step_epsilon, step_delta = amplified(step_epsilon, step_delta, rate=rate)
    true_delta = composed_profile(
        epsilon, step_epsilon=step_epsilon * (1 + 2.0**-40), step_delta=rounded_up(step_delta), n_steps=n_steps
    )
    return scale, rounded_up(true_delta)


@with_python_numbers
def published_information_scale(epsilon, *, n_components, residual, max_abs=1.0):
    """Calibrate the noise of a Gaussian projection as published; it does not meet its target.

    `residual` is f(X): the root of the least, over the columns, sum of squares without the largest square. It ignores
    that the other columns and y are projected by the same S and reveal what it counts on to hide the entry; and it is
    read from the data.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, Lemma 2.
    """
    needed = max_abs * _unit_information_scale(epsilon) * np.sqrt(n_components)
    return float(np.sqrt(max(0.0, needed**2 - residual**2)))
