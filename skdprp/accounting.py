"""Privacy profiles: the exact delta of a mechanism at every epsilon, and their numerics.

A profile is a function ``(epsilon, *, scale, sensitivity) -> delta``; its inverse, the calibration
``(epsilon, delta, *, sensitivity) -> scale``, is in :mod:`skdprp.mechanisms`.
"""

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr


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
    mu = sensitivity / scale
    if mu == 0.0:
        return max(0.0, -np.expm1(epsilon))
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if upper > 0:
        return float(ndtr(upper) - np.exp(epsilon + log_ndtr(lower)))
    # phi(upper) = exp(epsilon) phi(lower): a difference of Mills ratios loses no digits where delta is tiny.
    mills_ratios = erfcx(-upper / np.sqrt(2)) - erfcx(-lower / np.sqrt(2))
    return float(0.5 * np.exp(-(upper**2) / 2) * mills_ratios)


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
    return float(max(0.0, -np.expm1((epsilon - sensitivity / scale) / 2)))


def _randomised_response_losses(epsilon0):
    """Probabilities of the losses -epsilon0 and +epsilon0 of one bit flipped with probability 1 / (1 + e^epsilon0)."""
    return 1 / (1 + np.exp(epsilon0)), 1 / (1 + np.exp(-epsilon0))


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


def objective_perturbation_profile(
    epsilon, *, scale, lipschitz=1.0, log_det=0.0, adjacency="replace_one", n_outputs=1, release_shift=0.0
):
    """Bound the privacy profile of Gaussian objective perturbation of binary linear models.

    The minimiser of ``J(w) + b'w`` is released, with b Gaussian, J strongly convex and the derivative of the loss by
    its score of one sign for each label, as for the logistic and the Huber hinge loss.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats.
    scale : float
        Standard deviation of each coordinate of b.
    lipschitz : float, default=1.0
        Largest norm of the gradient of one row's loss.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative of one problem.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.
    n_outputs : int, default=1
        Number of problems that share their rows and are released together, each with a perturbation of its own.
    release_shift : float, default=0.0
        Distance between the released points that two neighbours with the same exact minimiser may have, in units of
        the Gaussian noise added to the release; 0 if the minimiser is exact.

    Returns
    -------
    float
        A delta such that the release is (epsilon, delta)-DP.

    Notes
    -----
    *One row added.* Given b in the larger data set, the privacy loss is at most
    ``log_det + (|b + g|^2 - |b|^2) / (2 scale^2)`` with ``g = s x`` and s between 0 and an extreme slope. This is convex
    in s, so that it is at most ``log_det`` plus the loss U of the Gaussian mechanism at the extreme slope, or plus 0:
    delta(epsilon) is at most that of the Gaussian mechanism at epsilon - log_det, for epsilon at least log_det. A
    removed row obeys the same without log_det. The symmetry ``delta'(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon))``
    between the two directions extends both to every real epsilon. So each problem is dominated by a pair of normals,
    the second with total mass e^-log_det, and pairs compose: several problems, and the noise of the release, add their
    squared shifts.

    *One row replaced.* The loss is at most ``log_det`` plus the largest Gaussian loss over sums a + b of vertices of a
    removed and of an added row, that is, delta is at most the integral of
    ``[phi(z) - e^epsilon min_a psi(z + a)]_+`` with ``psi(y) = min_b phi(y + b)``. With a(z) that attains the minimum,
    insert ``e^epsilon1 phi(z + a(z))``: the integral is at most ``F(epsilon1) + e^epsilon1 F(epsilon - epsilon1)``, F
    the bound for one row added, because z -> z + a(z) is one to one: if z + a = z' + a' = y, the strictly convex
    -log psi at y is no less than at y + (a - a') and at y - (a - a'). The split
    ``epsilon1 = (epsilon - (lipschitz / scale)^2) / 2`` makes the sum the Gaussian profile at twice the shift; it needs
    epsilon1 >= 0. The probability that the release's own loss leaves too little for that is added. Several problems are
    chained through the data set without the row, at ``log_det`` for either half.

    Examples
    --------
    >>> from skdprp.accounting import objective_perturbation_profile
    >>> f"{objective_perturbation_profile(1.1, scale=3.7306, log_det=0.1, adjacency='add_remove'):.2e}"
    '1.00e-05'
    """
    total_log_det = n_outputs * log_det
    shift = np.sqrt(n_outputs) * lipschitz / scale
    if adjacency == "add_remove":
        return gaussian_profile(epsilon - total_log_det, scale=1.0, sensitivity=np.hypot(shift, release_shift))
    double = np.hypot(2 * shift, release_shift)
    if n_outputs > 1:
        chained = gaussian_profile(epsilon - 2 * total_log_det, scale=1.0, sensitivity=double)
        return min(1.0, np.exp(total_log_det) * chained)
    left = epsilon - log_det - shift**2
    if left < 0:
        return 1.0
    return min(1.0, gaussian_profile(epsilon - log_det, scale=1.0, sensitivity=double) + _tail(left, release_shift))


def _tail(loss, shift):
    """Probability that the privacy loss of a Gaussian mechanism exceeds `loss`."""
    return float(ndtr(shift / 2 - loss / shift)) if shift > 0 else 0.0


def _normal_excess(upper, spread):
    """Return ``E[1 - exp(-spread (N + upper))]_+`` with N standard normal, to full relative precision."""
    gap = np.maximum(spread - upper, 0.0)
    # phi(upper) = exp(spread^2 / 2 - spread upper) phi(upper - spread): Mills ratios lose no digits where it is tiny.
    mills_ratios = erfcx(np.maximum(-upper, 0.0) / np.sqrt(2)) - erfcx(gap / np.sqrt(2))
    direct = ndtr(upper) - np.exp(np.minimum(spread**2 / 2 - spread * upper + log_ndtr(upper - spread), 0.0))
    return np.where(upper > 0, direct, 0.5 * np.exp(-(upper**2) / 2) * mills_ratios)


def softmax_perturbation_profile(
    epsilon, *, scale, n_classes, max_norm=1.0, log_det=0.0, adjacency="replace_one", release_shift=0.0
):
    """Bound the privacy profile of Gaussian objective perturbation of multinomial logistic regression.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats.
    scale : float
        Standard deviation of each coordinate of the perturbation b, an array of all weights of all classes.
    n_classes : int
        Number K of classes.
    max_norm : float, default=1.0
        Largest norm of a row.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.
    release_shift : float, default=0.0
        Distance between the released points that two neighbours with the same exact minimiser may have, in units of
        the Gaussian noise added to the release; 0 if the minimiser is exact.

    Returns
    -------
    float
        A delta such that the release is (epsilon, delta)-DP.

    Notes
    -----
    As in :func:`objective_perturbation_profile`, the loss is convex in the row's gradient, ``(p - e_y) x'`` with p in
    the simplex, so that it is largest at a vertex p = e_j. There it is the loss of a Gaussian mechanism,
    ``r (Z_j - Z_y) + r^2`` with ``r = |x| / scale`` and Z one standard normal for each class. Hence one row added has
    ``F(epsilon) = E[1 - exp(epsilon - r (max_{j != y} Z_j - Z_y) - r^2)]_+`` at epsilon - log_det >= 0: the exact
    maximum of K - 1 correlated normals, an integral over that maximum. F grows with r: more noise is a convolution,
    and the minimum of convolved densities is no less than the convolved minimum. A replaced row is bounded by
    ``F(epsilon1) + e^epsilon1 F(epsilon - epsilon1)``, for the reason given there.

    Examples
    --------
    >>> from skdprp.accounting import softmax_perturbation_profile
    >>> f"{softmax_perturbation_profile(1.0, scale=6.0, n_classes=10, adjacency='add_remove'):.2e}"
    '5.87e-05'
    """
    epsilon, ratio = epsilon - log_det, max_norm / scale
    if epsilon < 0:
        return 1.0
    if adjacency == "add_remove":
        first, second, factor = 0.0, epsilon, 1.0
    else:
        split = max(0.0, epsilon / 2 - ratio**2)
        first, second, factor = _largest_of_normals_profile(split, ratio, n_classes, 0.0), epsilon - split, np.exp(split)
    rest = _largest_of_normals_profile(second, ratio, n_classes, release_shift) + _tail(second, release_shift)
    return float(min(1.0, (first + factor * rest) * _QUADRATURE_ERROR))


_QUADRATURE_ERROR = 1 + 2.0**-36


def _largest_of_normals_profile(epsilon, ratio, n_classes, shift):
    """E[1 - exp(epsilon - loss)]_+ of the loss ``ratio (max of K-1 normals - normal) + ratio^2``, plus a Gaussian's."""
    step = 2.0**-5
    largest = np.arange(-10.0, 40.0, step)  # the trapezoidal rule on an analytic, Gaussian-like integrand
    density = np.exp(np.log(n_classes - 1) - largest**2 / 2 + (n_classes - 2) * log_ndtr(largest)) / np.sqrt(2 * np.pi)
    spread = np.hypot(ratio, shift)
    upper = (ratio * largest + ratio**2 + shift**2 / 2 - epsilon) / spread
    return step * float(density @ _normal_excess(upper, spread))
