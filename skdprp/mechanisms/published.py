"""Calibrations as published, to reproduce papers: what they claim does not hold, or not by their proofs."""

from dataclasses import dataclass, fields
from numbers import Real

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr, ndtri

from .._digits import to_python, with_python_numbers
from .._noise import check_scale
from ._numerics import boundary, cached, require_positive_delta, rounded_up
from .gaussian_laplace import gaussian_scale
from .mutual_information import _unit_information_scale
from .noisy_steps import _SHARES_OF_RESPONSES, _step_target, amplified, composed_profile
from .radial import spherical_profile
from .randomised_response import flip_probability


@dataclass(frozen=True, kw_only=True)
class Published:
    """Settings of published calibrations, which exact ones do not have: to redo papers at their own numbers.

    For the parameter `calibration` of :class:`~skdprp.AMPClassifier`, :class:`~skdprp.DPSGDClassifier` and
    :class:`~skdprp.ProductNoiseOutputPerturbation`; ``calibration="published"`` has the defaults. An estimator refuses
    settings that it has no use for. What is true of the noise is in `guarantee_` whatever they are.

    Parameters
    ----------
    k : float or None, default=None
        Tuning parameter of product noise, above 1 [1]_; what it claims for delta is (13) of the paper, whatever the
        `delta` of the estimator. None is the least number at which that is at most `delta`.
    alpha : float or None, default=None
        Step factor, above 1, of Algorithm 1: k is multiplied by it until delta is at most `delta`.
    epsilon2, delta2 : float or None, default=None
        Parts of epsilon and delta for the noise of the release in approximate minima perturbation; epsilon1 and delta1
        are the rest. None is a hundredth, as without hyperparameters (H-F AMP) [2]_.
    epsilon3 : float or None, default=None
        Part of epsilon1 for the linear term; the rest is for the penalty. None is the share of H-F AMP.
    analytic : bool, default=False
        Whether Gaussian noise of approximate minima perturbation is analytic, in the place of a tail bound.
    step_epsilon : float or None, default=None
        Initial epsilon, of one step of product noise before sampling, which takes a `k`. None splits the total.
    noise_multiplier : float or None, default=None
        Standard deviation of the Gaussian noise of a step over the norm of gradients. `guarantee_` has the delta that
        it has at `epsilon`.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026: Theorem 8, Algorithms 1, 3 and 4, and Table 12.
    .. [2] R. Iyengar, J. P. Near, D. Song, O. Thakkar, A. Thakurta and L. Wang, "Towards Practical Differentially
       Private Convex Optimization", IEEE S&P 2019.

    Examples
    --------
    >>> from skdprp import ProductNoiseOutputPerturbation
    >>> from skdprp.mechanisms import Published
    >>> ProductNoiseOutputPerturbation(radius="chi1", calibration=Published(k=1000.0))
    ProductNoiseOutputPerturbation(calibration=Published(k=1000.0), radius='chi1')
    """

    k: float | None = None
    alpha: float | None = None
    epsilon2: float | None = None
    epsilon3: float | None = None
    delta2: float | None = None
    analytic: bool = False
    step_epsilon: float | None = None
    noise_multiplier: float | None = None

    def __post_init__(self):
        for name in self._in_order(self.given - {"analytic"}):
            number, least = to_python(getattr(self, name)), 1 if name in ("k", "alpha") else 0
            if isinstance(number, bool) or not isinstance(number, Real) or not least < number < np.inf:
                raise ValueError(f"{name} of a published calibration must be a number above {least}, got {number!r}.")
            object.__setattr__(self, name, float(number))
        if not isinstance(self.analytic, bool):
            raise ValueError(f"analytic of a published calibration must be True or False, got {self.analytic!r}.")
        if self.alpha is not None and self.k is None:
            raise ValueError("alpha of a published calibration multiplies a k: give both.")
        if self.step_epsilon is not None and self.k is None:
            raise ValueError("step_epsilon of a published calibration needs a k, from which delta follows.")

    def __repr__(self):
        return f"Published({', '.join(f'{name}={getattr(self, name)!r}' for name in self._in_order(self.given))})"

    @property
    def given(self):
        """Names of the settings that are not at their defaults."""
        return {field.name for field in fields(self) if getattr(self, field.name) != field.default}

    @classmethod
    def of(cls, calibration, *allowed, kind):
        """Return the settings of a published calibration; refuse those that the `kind` of noise has no use for."""
        settings = cls() if calibration == "published" else calibration
        if unused := settings.given - set(allowed):
            names = ", ".join(cls._in_order(unused))
            can = f"has {', '.join(allowed)}" if allowed else "has no settings"
            raise ValueError(f"The published calibration of {kind} {can}, and not {names}.")
        return settings

    @classmethod
    def _in_order(cls, names):
        return [field.name for field in fields(cls) if field.name in names]


def _log_hyp1f1(a, b, z):
    """Logarithm of 1F1(a; b; z) for positive arguments, summed in the log domain where the value overflows."""
    n = np.arange(64 + int(4 * (z + np.sqrt(a * z))))
    return logsumexp(np.append(0.0, np.cumsum(np.log((a + n) * z / ((b + n) * (1 + n))))))


def _published_product_noise(k, epsilon, n_dims, q=None):
    """Return t and the logarithm of the delta that is claimed for the scale ``sensitivity * t / epsilon``.

    Proposition 7 of Liu et al., SIGMOD 2026, bounds the privacy loss by a moment of order q, Theorem 8 by half of M.
    """
    q = n_dims / 2 if q is None else q
    t = np.exp((np.log(2) + 2 * np.log(k) / q + (1 + 2 / q) * np.log((q + 3) / 2) - 1 - 1 / q) / 2)
    lam = epsilon / t
    if not lam <= 1000:  # a series of about 2 lam^2 terms
        raise ValueError(f"epsilon={epsilon:g} is too large for the series of the published calibration.")
    series = np.logaddexp(
        _log_hyp1f1((q + 1) / 2, 0.5, lam**2 / 2),
        np.log(np.sqrt(2) * lam) + _log_hyp1f1((q + 2) / 2, 1.5, lam**2 / 2),
    )
    ratio = (n_dims - 1) / ((n_dims - q - 1.5) * (q + 0.75))
    return t, series - lam**2 / 2 - np.log(k * np.sqrt(np.pi)) + np.log(ratio) / 2


@with_python_numbers
def published_product_noise_delta(epsilon, *, k, n_dims, q=None):
    """Claim of (13) in [1]_: delta of product noise at this epsilon and tuning parameter k; it is not true.

    Parameters
    ----------
    epsilon : float
        Claimed bound on the privacy loss.
    k : float
        Tuning parameter, above 1.
    n_dims : int
        Dimension M of the output, at least 4.
    q : float or None, default=None
        Order of the moment that bounds the loss, by (12), between 1 and ``n_dims - 3 / 2``; the noise is that of
        Proposition 7 at this q. None is ``n_dims / 2``, that of (13).

    Returns
    -------
    float
        At most 1.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Proposition 7 and Theorem 8.

    Examples
    --------
    >>> from skdprp.mechanisms import published_product_noise_delta
    >>> f"{published_product_noise_delta(0.1, k=1000.0, n_dims=10**6):.3e}"
    '1.144e-06'
    """
    _check_dimension(n_dims)
    if q is not None and not 1 < q < n_dims - 1.5:
        raise ValueError(f"q must be between 1 and n_dims - 3 / 2 = {n_dims - 1.5:g}, got {q}.")
    return float(min(np.exp(_published_product_noise(k, epsilon, n_dims, q)[1]), 1.0))


def _check_dimension(n_dims):
    if n_dims < 4:
        raise ValueError(f"The published calibration needs n_dims >= 4, got {n_dims}.")


@cached
def published_product_noise_scale(epsilon, delta, *, sensitivity=1.0, n_dims, k=None, alpha=None):
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
    k : float or None, default=None
        Tuning parameter, above 1: the scale is that of Theorem 8, and what it claims is not `delta` but
        :func:`published_product_noise_delta`. None is the least number at which that is at most `delta`.
    alpha : float or None, default=None
        Step factor, above 1, by which k is multiplied until that is at most `delta`.

    Returns
    -------
    float
        sigma_M: the radius of the noise is ``sigma_M * |N(0, 1)|``, spherical noise of scale ``sqrt(2) * sigma_M``.

    Raises
    ------
    ValueError
        If `delta` is not positive or `n_dims` is below 4, where the formula is not defined, or `epsilon` is so large
        that its series would have millions of terms.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Theorem 8 and Algorithm 1.

    Examples
    --------
    >>> from skdprp.mechanisms import spherical_profile
    >>> from skdprp.mechanisms import published_product_noise_scale
    >>> sigma = published_product_noise_scale(1.0, 1e-5, n_dims=784)
    >>> round(spherical_profile(1.0, scale=2**0.5 * sigma, n_dims=784, shape=1, power=2), 2)
    0.73
    """
    require_positive_delta(delta)
    _check_dimension(n_dims)
    if k is None or alpha is not None:
        least = boundary(lambda k: _published_product_noise(k, epsilon, n_dims)[1] <= np.log(delta), start=1.0)
        k = least if k is None else k * alpha ** max(0.0, np.ceil(np.log(least / k) / np.log(alpha)))
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

    ``2 Phi(relative_change) - 1`` [1]_, with ``relative_change = beta / |u|``, for a row u of many coordinates of
    about equal size: of a row with one nonzero, below beta, P_+ is 1. So it gives no N_+ that holds for all rows.

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
    `release_factor` that of the noise of the release, for a minimiser known to within distance 1; from `least_penalty`
    on the calibration is said to hold, with `claimed_delta`.
    """

    scale: float
    release_factor: float
    least_penalty: float
    claimed_delta: float


@with_python_numbers
def published_objective_perturbation(
    epsilon, delta, *, lipschitz=1.0, smoothness=1.0, max_norm=1.0, n_outputs=1, n_dims=None, settings=None
):
    """Split the budget and calibrate approximate minima perturbation as published, without hyperparameters (H-F AMP).

    One row is replaced [1]_; `lipschitz` and `smoothness` bound the first and the second derivative of its loss by its
    score. Problems that are released together share the budget evenly. With `n_dims`, the number of weights of one
    problem, both noises are the product noise of Algorithm 3 of [2]_. `settings` is :class:`Published`.

    Notes
    -----
    The step about the determinant, of a Hessian of rank r / 2, does not follow: ``Lambda / (Lambda - r beta)`` is
    ``1 / (1 - x)`` at ``Lambda = r beta / x``, with x = epsilon1 - epsilon3, where it has to be at most ``e^x``: 2
    against 1.65 at x = 1/2, 10 against 2.46 at x = 0.9. What it is to show holds all the same, with half of x to spare.
    The Hessian of all other rows is at least Lambda, to which that of a row adds a matrix of rank r / 2 whose
    eigenvalues are at most beta: so the determinants of two neighbours differ by a factor of at most
    ``(1 + beta / Lambda)^(r / 2) = (1 + x / r)^(r / 2) <= e^(x / 2)``.

    References
    ----------
    .. [1] R. Iyengar, J. P. Near, D. Song, O. Thakkar, A. Thakurta and L. Wang, "Towards Practical Differentially
       Private Convex Optimization", IEEE S&P 2019.
    .. [2] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026.
    """
    require_positive_delta(delta)
    settings = settings or Published()
    if (settings.epsilon2 or 0.0) >= epsilon or (settings.delta2 or 0.0) >= delta:
        raise ValueError("epsilon2 and delta2 of a published calibration must be below epsilon and delta.")
    # Step 1: epsilon = epsilon1 + epsilon2, delta = delta1 + delta2; each of several problems has an equal part.
    epsilon2 = (settings.epsilon2 or 0.01 * epsilon) / n_outputs
    delta2 = (settings.delta2 or 0.01 * delta) / n_outputs
    epsilon1, delta1 = epsilon / n_outputs - epsilon2, delta / n_outputs - delta2
    # The share of the linear term, fitted in [1]_ to experiments; the rest is for the second derivative.
    each = epsilon / n_outputs
    share = max(min(0.887 + 0.019 / each**0.373, 0.99), 1 - 1 / each + 0.001)
    epsilon3 = share * epsilon1 if settings.epsilon3 is None else settings.epsilon3 / n_outputs
    if epsilon3 >= epsilon1 and settings.epsilon3 is None:
        raise ArithmeticError("Of an epsilon this extreme the published share leaves nothing.")
    if epsilon3 >= epsilon1:
        raise ValueError(f"epsilon3 of a published calibration must be below epsilon1 = {epsilon1 * n_outputs:g}.")
    # The noise of the release is calibrated for half of what it has to hide: the claim does not follow.
    if n_dims is not None:  # its radius is |N(0, sigma^2)|, the half-normal
        known = {"n_dims": n_dims, "k": settings.k, "alpha": settings.alpha}
        noise, release = (
            float(np.sqrt(2) * published_product_noise_scale(*part, **known))
            for part in ((epsilon3, delta1), (epsilon2, delta2))
        )
    else:
        # The standard deviation over the sensitivity: exactly, or by a tail bound.
        noise, release = (
            gaussian_scale(*part) if settings.analytic else float((1 + np.sqrt(2 * np.log(1 / part[1]))) / part[0])
            for part in ((epsilon3, delta1), (epsilon2, delta2))
        )
    claimed = delta
    if settings.k is not None and settings.alpha is None:
        claims = [published_product_noise_delta(part, k=settings.k, n_dims=n_dims) for part in (epsilon3, epsilon2)]
        claimed = min(1.0, n_outputs * sum(claims))
    penalty = 2 / (epsilon1 - epsilon3) * smoothness * max_norm**2
    return PublishedPerturbation(2 * noise * lipschitz * max_norm, release, penalty, claimed)


@cached
def published_product_descent(epsilon, delta, *, rate=1.0, n_steps=1, n_dims, step_epsilon=None, k=None):
    """Calibrate half-normal product noise of many steps as published, and compute what it really gives.

    Returned are the scale of the half-normal radius, sqrt(2) times its sigma, for a sum of `n_dims` coordinates to
    which one row adds a vector of norm 1, and the deltas of all steps at `epsilon`: the true one, and the claimed one.
    A row is replaced, which moves the sum by 2 (Algorithm 4 of [1]_). With `step_epsilon`, the initial epsilon of a
    step, and `k`, the noise is that of [1]_; without, the total is split by [2]_.

    References
    ----------
    .. [1] Liu, Ji, Fang, Wei and Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a Product
       Measure", SIGMOD 2026, Theorem 8 for the scale of a step, whose proof does not hold.
    .. [2] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, in the
       place of the composition of [1]_.
    """
    require_positive_delta(delta)
    if step_epsilon is None:
        targets = [_step_target(epsilon, delta, share, rate, n_steps) for share in _SHARES_OF_RESPONSES]
        sigmas = [published_product_noise_scale(*target, sensitivity=2.0, n_dims=n_dims) for target in targets]
        sigma, (step_epsilon, claimed_of_step) = min(zip(sigmas, targets, strict=True))
    else:
        sigma = published_product_noise_scale(step_epsilon, delta, sensitivity=2.0, n_dims=n_dims, k=k)
        claimed_of_step = published_product_noise_delta(step_epsilon, k=k, n_dims=n_dims)
    scale = float(np.sqrt(2) * sigma)
    true_of_step = spherical_profile(step_epsilon, scale=scale, sensitivity=2.0, n_dims=n_dims, shape=1, power=2)
    deltas = []  # of all steps, rounded up
    for of_step in (true_of_step, claimed_of_step):
        epsilon_of_rows, delta_of_rows = amplified(step_epsilon, of_step, rate=rate)
        step = {"step_epsilon": epsilon_of_rows * (1 + 2.0**-40), "step_delta": rounded_up(delta_of_rows)}
        deltas.append(rounded_up(composed_profile(epsilon, **step, n_steps=n_steps)))
    true, claimed = deltas
    return scale, true, claimed if k is not None else delta


@with_python_numbers
def published_composition(step_epsilon, step_delta, *, n_steps, slack):
    """Claim of the composition theorem that [1]_ takes from [2]_: (epsilon, delta) of many steps; it is not true.

    `slack` is delta~ of the theorem: epsilon grows as it falls. As printed, delta'' has the sign of its first exponent
    wrong: 100 steps of (0.1, 0) are said to have a delta far below the least one, that of
    :func:`~skdprp.mechanisms.noisy_steps.composed_profile`.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, Theorem 5.
    .. [2] F. He, B. Wang and D. Tao, "Tighter Generalization Bounds for Iterative Differentially Private Learning
       Algorithms", UAI 2021.
    """
    e, T = step_epsilon, n_steps
    epsilon = T * np.tanh(e / 2) * e + np.sqrt(2 * np.log(1 / slack) * T) * e
    if epsilon >= T * e:
        return float(T * e), float(-np.expm1(T * np.log1p(-step_delta)))
    rest = T * e - epsilon
    log_tail = -(epsilon + T * e) / 2 + T * (np.log(2 * T * e / rest) - np.log1p(np.exp(e)))
    log_tail -= (epsilon + T * e) / (2 * e) * np.log((T * e + epsilon) / rest)
    large, small = np.log1p(-np.exp(e) * step_delta / (1 + np.exp(e))), np.log1p(-step_delta / (1 + np.exp(e)))
    j = np.ceil(epsilon / e)
    delta = -np.expm1(j * large + (T - j) * small) - np.expm1(T * small) + np.exp(log_tail)
    return float(epsilon), float(min(delta, 1.0))


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
