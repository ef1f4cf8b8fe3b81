"""Privacy profiles: the exact delta of a mechanism at every epsilon, and their numerics.

A profile is a function ``(epsilon, *, scale, sensitivity) -> delta``; its inverse, the calibration
``(epsilon, delta, *, sensitivity) -> scale``, is in :mod:`skdprp.mechanisms`.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, erfcx, expit, gammainc, gammaincc, gammainccinv, log_ndtr, ndtr, ndtri

_SMALL = 0.1
_LOG_MASS_LEFT_OUT = 80.0
_RELATIVE_ERROR = 2.0**-42
_LARGE_MU = 1000.0
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
_QUADRATURE_ERROR, _CANCELLATION = 2.0**-28, 2.0**-46
_LARGEST_EXPONENT = 700.0
_LARGEST_EPSILON = 2.0**20  # a profile decreases, so that a smaller epsilon is on the private side


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
    if upper > _SMALL:
        return float(ndtr(upper) - np.exp(epsilon + log_ndtr(lower)))
    # phi(upper) = exp(epsilon) phi(lower): a difference of Mills ratios loses no digits where delta is tiny.
    return float(0.5 * np.exp(-(upper**2) / 2) * _mills_difference(-upper / np.sqrt(2), mu / np.sqrt(2)))


def _mills_difference(x, step):
    """Subtract ``erfcx(x) - erfcx(x + step)``; the integral of the slope keeps the digits of a small step."""
    if step > _SMALL:
        return erfcx(x) - erfcx(x + step)
    nodes = x + step * (1 + _NODES) / 2
    return step / 2 * (_NODE_WEIGHTS @ (2 / np.sqrt(np.pi) - 2 * nodes * erfcx(nodes)))


def laplace_profile(epsilon, *, scale, sensitivity=1.0):
    """Exact privacy profile of the Laplace mechanism in one dimension.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats, at least 0.
    scale : float
        Scale b of the noise, of density ``exp(-|x| / b) / (2 b)``.
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


def check_spherical(n_dims, shape, power):
    """Refuse spherical noise whose profile is not known exactly.

    Parameters
    ----------
    n_dims : int
        Dimension M.
    shape, power : float
        Parameters (a, b) of the radius, see :func:`spherical_profile`.

    Raises
    ------
    ValueError
        If the density of the noise grows away from the origin (a > M), or the quadrature does not cover (a, b).

    Examples
    --------
    >>> from skdprp.accounting import check_spherical
    >>> check_spherical(10, shape=10, power=1.0)
    """
    if shape > n_dims:
        raise ValueError(f"Spherical noise needs shape <= n_dims, got shape={shape} and n_dims={n_dims}.")
    if shape != n_dims and not 1 <= shape <= n_dims - 1:
        raise ValueError(f"shape must be n_dims or between 1 and n_dims - 1, got shape={shape} and n_dims={n_dims}.")
    if not 0.5 <= power <= 4 or (n_dims == 1 and power not in (1, 2)):
        raise ValueError(f"power must be between 0.5 and 4, and 1 or 2 in one dimension, got {power}.")


def _shifted_potential(r, d, g, b):
    """``psi(r + d) - psi(r)`` with psi(r) = g ln r + r^b, without cancellation: the loss straight behind the centre."""
    stretch = np.log1p(d / r)
    return g * stretch - (r + d) ** b * np.expm1(-b * stretch)


def _shifted_potential_slope(r, d, g, b):
    """Derivative of :func:`_shifted_potential` in ln r; it changes sign once at most."""
    return b * r**b * np.expm1((b - 1) * np.log1p(d / r)) - g * d / (r + d)


def _reflected_potential(r, d, g, b):
    """``psi(|d - r|) - psi(r)``: the loss on the way from one centre to the other, decreasing up to r = d / 2."""
    other = np.abs(d - r) + 1e-300
    return g * np.log(other / r) + other**b - r**b


def _crossings(function, edges):
    """Roots of a function that is monotone between consecutive edges."""
    sign = np.sign(function(edges))
    return [brentq(function, edges[i], edges[i + 1]) for i in np.flatnonzero(sign[1:] != sign[:-1])]


def _log_gamma_panels(k, width):
    """Edges that cover all but exp(-80) of w = ln(Gamma(k) / k), as wide as its density is smooth."""
    share = _LOG_MASS_LEFT_OUT / k
    low, high = -(np.sqrt(2 * share) + share), min(np.sqrt(2 * share), np.log(3 + 2 * share))
    below = np.linspace(low, 0, int(np.ceil(-low / width)), endpoint=False)
    # Above the mode the density falls like exp(-k e^w), as smooth as a normal one in e^(w/2).
    root = np.expm1(high / 2)
    return np.append(below, 2 * np.log1p(np.linspace(0, root, 2 + int(3 * np.sqrt(k) * root))))


def _split_at_kinks(edges, width, epsilon, d, g, k, b):
    """Add the radii where an attack region starts or stops to hold a whole sphere, closely surrounded by edges.

    Where c(r) leaves [-1, 1] the integrand has a zero of order (M - 1) / 2. Two such radii can merge at the turn of the
    potential, and then disappear: hence the edges around that point as well.
    """

    def _radius(w):
        return np.exp((w + np.log(k)) / b)

    turn = _crossings(lambda w: _shifted_potential_slope(_radius(w), d, g, b), edges)
    edges = np.sort(np.append(edges, turn))
    behind = _crossings(lambda w: _shifted_potential(_radius(w), d, g, b) - epsilon, edges)
    between = _crossings(lambda w: _reflected_potential(_radius(w), d, g, b) - epsilon, edges)
    behind, between = _radius(np.array(behind + turn)), _radius(np.array(between))
    kinks = b * np.log(np.concatenate([behind, behind + d, between, d - between])) - np.log(k)
    offsets = width * 0.25 ** np.arange(1, 13)
    around = np.add.outer(kinks, np.concatenate([-offsets, [0], offsets])).ravel()
    return np.unique(np.concatenate([edges, around[(around > edges[0]) & (around < edges[-1])]]))


def _radius_rule(epsilon, d, n_dims, shape, power):
    """Nodes r / s and weights of the expectation over the radius, and the probability left out."""
    k = shape / power
    # In w the density has the width 1 / sqrt(k), and in ln r = w / b the integrand varies over a unit.
    width = min(power / 2, 1 / np.sqrt(k)) / 1.5
    edges = _log_gamma_panels(k, width)
    if n_dims < 64:  # from there on the zeros are of an order that the nodes integrate as they are
        edges = _split_at_kinks(edges, width, epsilon, d, n_dims - shape, k, power)
    # u^2 (3 - 2u) turns the square roots at both ends of a panel into polynomials.
    u = (_NODES + 1) / 2
    w = (edges[:-1, None] + np.diff(edges)[:, None] * u**2 * (3 - 2 * u)).ravel()
    weights = np.outer(np.diff(edges), _NODE_WEIGHTS * u * (1 - u)).ravel() * np.exp(-k * (np.expm1(w) - w))
    ends = k * np.exp(edges[[0, -1]])
    return np.exp((w + np.log(k)) / power), weights / weights.sum(), gammainc(k, ends[0]) + gammaincc(k, ends[1])


def _log_stretch(epsilon, r, g, b):
    """Root tau of ``psi(r e^tau) - psi(r) = epsilon``; minus infinity where even the centre has a larger potential."""
    rho = r**b
    if g == 0:
        with np.errstate(divide="ignore"):
            return np.log1p(np.maximum(epsilon / rho, -1.0)) / b
    # Newton's iteration on a convex function, from the side where it is positive, never overshoots.
    tau = np.minimum(epsilon / g, np.log1p(epsilon / rho) / b) if epsilon > 0 else epsilon / (g + b * rho)
    for _ in range(12):
        power_gain = rho * np.expm1(b * tau)
        step = (g * tau + power_gain - epsilon) / (g + b * (rho + power_gain))
        tau = tau - step
        if np.all(np.abs(step) <= 1e-9 * np.abs(tau)):
            break
    return tau


def _cosine_cdf(r, q, d, n_dims):
    """Probability that the cosine of a random direction is below ``(d^2 - q (2 r + q)) / (2 r d)``."""
    # A product is exact where 1 + c is small; c itself is where (1 + c) / 2 is 1 / 2 to most of its digits.
    if n_dims < 4096:
        half_of_one_plus_c = (d - q) / (2 * r) * ((2 * r + d + q) / (2 * d))
        return betainc((n_dims - 1) / 2, (n_dims - 1) / 2, np.clip(half_of_one_plus_c, 0, 1))
    cosine = (d - q * (2 * r + q) / d) / (2 * r)
    tail = betaincc(0.5, (n_dims - 1) / 2, np.minimum(cosine**2, 1)) / 2
    return np.where(cosine < 0, tail, 1 - tail)


def spherical_profile(epsilon, *, scale, sensitivity=1.0, n_dims, shape, power):
    """Exact privacy profile of spherical noise: a random radius times an independent random direction.

    The radius R = `scale` * Gamma(a / b)^(1 / b) has density proportional to ``r^(a - 1) exp(-(r / scale)^b)``.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats; may be negative.
    scale : float
        Scale s of the radius.
    sensitivity : float, default=1.0
        Largest l2 distance between the outputs of two neighbours.
    n_dims : int
        Dimension M of the output.
    shape : float
        a: `n_dims`, or between 1 and ``n_dims - 1``. With `n_dims` the noise has density exp(-(norm / s)^b).
    power : float
        b, between 0.5 and 4. With a = M, b = 2 is Gaussian noise of standard deviation s / sqrt(2) and b = 1 the
        multivariate Laplace noise, which also is (sensitivity / scale, 0)-DP. a = 1, b = 2 is "product noise".

    Returns
    -------
    float
        Least delta such that the mechanism is (epsilon, delta)-DP, rounded up.

    Raises
    ------
    ValueError
        If `shape` is above `n_dims`, or (shape, power) is outside of what the quadrature covers.

    Notes
    -----
    With psi(r) = (M - a) ln r + (r / s)^b, an output x of one centre has a loss above epsilon when its distance to the
    other one is at least r e^tau, ``psi(r e^tau) = psi(r) + epsilon``: a bound on the cosine of its direction, whose
    distribution is a Beta. The expectation over r of

        P(c < (D^2 - q (2r + q)) / (2 r D)) at q = r expm1(tau(epsilon))

    minus e^epsilon times the same with -D and -epsilon is the profile. No smaller distance is worse: the density
    decreases with the radius, so its level sets are balls, and shifted balls overlap less the further they are apart.

    Each of the two terms is computed to a relative error below 2^-42, and the second one to 2^-52 e^(epsilon / (M - a))
    if that is more: outputs near the other centre lie in a ball that small. The errors are added, never subtracted.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, for the noise; its Theorem 8 omits the Jacobian (M - 1) ln r of the loss.

    Examples
    --------
    >>> from skdprp.accounting import gaussian_profile, spherical_profile
    >>> f"{spherical_profile(1.0, scale=3.7306 * 2**0.5, n_dims=100, shape=100, power=2):.2e}"
    '1.00e-05'
    >>> spherical_profile(1.0, scale=1.0, n_dims=100, shape=100, power=1)
    0.0
    """
    check_spherical(n_dims, shape, power)
    if epsilon < 0:
        reverse = spherical_profile(
            -epsilon, scale=scale, sensitivity=sensitivity, n_dims=n_dims, shape=shape, power=power
        )
        return float(np.exp(epsilon) * reverse - np.expm1(epsilon))
    d, g = sensitivity / scale, n_dims - shape
    if d == 0 or (power == 1 and g == 0 and d <= epsilon):
        return 0.0
    if n_dims == 1 and power == 2:
        return gaussian_profile(epsilon, scale=scale / np.sqrt(2), sensitivity=sensitivity)
    if n_dims == 1:
        return laplace_profile(epsilon, scale=scale, sensitivity=sensitivity)
    r, weights, left_out = _radius_rule(epsilon, d, n_dims, shape, power)
    further, nearer = (r * np.expm1(_log_stretch(signed, r, g, power)) for signed in (epsilon, -epsilon))
    exceeds = weights @ _cosine_cdf(r, further, d, n_dims)
    exceeds_at_other = np.exp(min(epsilon, 700.0)) * (weights @ _cosine_cdf(r, nearer, -d, n_dims))
    error_at_other = _RELATIVE_ERROR + (2.0**-52 * np.exp(min(epsilon / g, 36.0)) if g else 0.0)
    delta = exceeds * (1 + _RELATIVE_ERROR) - exceeds_at_other * (1 - error_at_other) + left_out
    return float(np.clip(delta, 0.0, 1.0))


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
    ``log_det + (|b + g|^2 - |b|^2) / (2 scale^2)`` with ``g = s x`` and s between 0 and an extreme slope. As this is
    convex in s, it is at most ``log_det`` plus 0 or plus the loss of the Gaussian mechanism at the extreme slope:
    delta(epsilon) is at most that of the Gaussian mechanism at epsilon - log_det, for epsilon at least log_det. A
    removed row obeys the same without log_det. The symmetry ``delta'(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon))``
    of the two directions extends the bound to every real epsilon. So each problem is dominated by a pair of normals,
    the second one with total mass e^-log_det, and pairs compose: several problems, and the noise of the release, add
    their squared shifts.

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


def _tail(loss, shift, log_factor=0.0):
    """Probability that the privacy loss of a Gaussian mechanism exceeds `loss`, times a factor."""
    if shift == 0:
        return 0.0
    return float(np.exp(np.minimum(log_factor + log_ndtr(shift / 2 - loss / shift), _LARGEST_EXPONENT)))


def _log_normal_excess(upper, spread):
    """Logarithm of ``E[1 - exp(-spread (N + upper))]_+`` with N standard normal, to full relative precision."""
    # phi(upper) = exp(spread^2 / 2 - spread upper) phi(upper - spread): Mills ratios lose no digits where it is tiny.
    mills_ratios = erfcx(np.maximum(-upper, 0.0) / np.sqrt(2)) - erfcx(np.maximum(spread - upper, 0.0) / np.sqrt(2))
    direct = ndtr(upper) - np.exp(np.minimum(spread**2 / 2 - spread * upper + log_ndtr(upper - spread), 0.0))
    tiny = np.finfo(float).tiny
    in_tail = np.log(np.maximum(mills_ratios, tiny) / 2) - np.minimum(upper, 0.0) ** 2 / 2
    return np.where(upper > 0, np.log(np.maximum(direct, tiny)), in_tail)


def product_perturbation_profile(
    epsilon, *, scale, n_dims, lipschitz=1.0, n_vertices=1, log_det=0.0, adjacency="replace_one"
):
    """Bound the privacy profile of objective perturbation by multivariate Laplace noise, of radius Gamma(M, scale).

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats.
    scale : float
        Scale s of the radius of the perturbation.
    n_dims : int
        Number M of weights.
    lipschitz : float, default=1.0
        Largest norm of the gradient of one row's loss.
    n_vertices : int, default=1
        Number of extreme gradients of one row, 0 not counted: 1 for a binary loss, K - 1 for the softmax of K classes.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.

    Returns
    -------
    float
        A delta such that the exact minimiser is (epsilon, delta)-DP.

    Notes
    -----
    The argument of :func:`objective_perturbation_profile` needs of the noise only that minus its log-density is convex
    and constant on no segment symmetric about its centre: so it holds with the spherical profile in place of the
    Gaussian one. Several vertices are bounded by the sum of their profiles. No loss exceeds ``lipschitz / scale`` for
    each of the one or two rows that change.

    Examples
    --------
    >>> from skdprp.accounting import product_perturbation_profile
    >>> product_perturbation_profile(1.0, scale=2.0, n_dims=10)
    0.0
    """
    epsilon = epsilon - log_det
    if epsilon < 0:
        return 1.0
    if (2 if adjacency == "replace_one" else 1) * lipschitz / scale <= epsilon:
        return 0.0

    def _one_row(epsilon):
        law = {"n_dims": n_dims, "shape": n_dims, "power": 1}
        return n_vertices * spherical_profile(epsilon, scale=scale, sensitivity=lipschitz, **law)

    if adjacency == "add_remove":
        return min(1.0, _one_row(epsilon))
    epsilon = min(epsilon, _LARGEST_EXPONENT)
    split = max(0.0, epsilon / 2 - (lipschitz / scale) ** 2 / (2 * (n_dims + 1)))
    return float(min(1.0, _one_row(split) + np.exp(split) * _one_row(epsilon - split)))


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
    '7.97e-06'
    """
    epsilon, ratio = min(epsilon - log_det, _LARGEST_EPSILON), max_norm / scale
    if epsilon < 0:
        return 1.0
    split = 0.0 if adjacency == "add_remove" else max(0.0, epsilon / 2 - ratio**2)
    rest = epsilon - split
    delta = _largest_of_normals_profile(rest, ratio, n_classes, shift=release_shift, log_factor=split)
    delta += _tail(rest, release_shift, log_factor=split)
    if adjacency == "replace_one":
        delta += _largest_of_normals_profile(split, ratio, n_classes)
    return float(min(1.0, delta * (1 + _QUADRATURE_ERROR + _CANCELLATION / ratio)))


def _largest_of_normals_profile(epsilon, ratio, n_classes, *, shift=0.0, log_factor=0.0):
    """Profile of the loss ``ratio (max of K-1 normals - normal) + ratio^2`` plus a Gaussian's, times a factor."""
    step = 2.0**-5
    largest = np.arange(-10.0, 40.0, step)  # the trapezoidal rule on an analytic, Gaussian-like integrand
    log_density = np.log(n_classes - 1) - largest**2 / 2 + (n_classes - 2) * log_ndtr(largest) - np.log(2 * np.pi) / 2
    spread = np.hypot(ratio, shift)
    upper = np.minimum((ratio * largest + ratio**2 + shift**2 / 2 - epsilon) / spread, 1e8)
    exponent = log_density + log_factor + _log_normal_excess(upper, spread)
    return step * float(np.exp(np.minimum(exponent, _LARGEST_EXPONENT)).sum())


def gaussian_epsilon(delta, *, scale, sensitivity=1.0):
    """Invert the privacy profile of the Gaussian mechanism, rounding up.

    Parameters
    ----------
    delta : float
        Slack, between 0 and 1 exclusive.
    scale : float
        Standard deviation of the noise of each coordinate.
    sensitivity : float, default=1.0
        l2 distance between the outputs of two neighbours.

    Returns
    -------
    float
        Least epsilon of at least 0 such that the mechanism is (epsilon, delta)-DP; infinite without noise.

    Examples
    --------
    >>> from skdprp.accounting import gaussian_epsilon
    >>> round(gaussian_epsilon(1e-5, scale=3.7306), 3)
    1.0
    """
    if scale == 0:
        return float("inf")
    if gaussian_profile(0.0, scale=scale, sensitivity=sensitivity) <= delta:
        return 0.0
    mu = sensitivity / scale
    # There the first of the two terms of the profile alone is delta.
    low, high = 0.0, (mu**2 / 2 - mu * ndtri(delta)) * (1 + 2.0**-40)
    if mu > _LARGE_MU:
        return float(high)
    while high - low > 2.0**-50 * high:
        middle = low + (high - low) / 2
        holds = gaussian_profile(middle, scale=scale, sensitivity=sensitivity) <= delta
        low, high = (low, middle) if holds else (middle, high)
    return float(high)


def gaussian_information(*, scale, max_abs=1.0, n_components=1, min_residual=0.0):
    """Bound the bits that Gaussian noise lets through about one bounded number.

    Parameters
    ----------
    scale : float
        Standard deviation sigma of the noise.
    max_abs : float, default=1.0
        Largest absolute value of the number.
    n_components : int, default=1
        Number n' of noisy copies, each multiplied by its own standard normal variate.
    min_residual : float, default=0.0
        Least norm of what hides the number besides the noise, see :func:`skdprp.mechanisms.information_scale`.

    Returns
    -------
    float
        ``log2(1 + n' max_abs^2 / (sigma^2 + min_residual^2)) / 2``: the capacity of the channel when it is used with a
        power of `max_abs` squared, and the multipliers are known. No distribution of the number exceeds it.

    References
    ----------
    .. [1] T. Cover and J. Thomas, "Elements of Information Theory", 2nd edition, Theorem 9.1.1.

    Examples
    --------
    >>> from skdprp.accounting import gaussian_information
    >>> gaussian_information(scale=1.0)
    0.5
    """
    variance = scale**2 + min_residual**2
    if variance == 0:
        return float("inf")
    return float(np.log1p(n_components * max_abs**2 / variance) / (2 * np.log(2)))


def information_delta(epsilon):
    """Convert MI-DP to (0, delta)-DP, exactly.

    Parameters
    ----------
    epsilon : float
        Bound on the mutual information, in bits.

    Returns
    -------
    float
        Largest total variation distance delta that epsilon bits allow, the root of
        ``1 - h2((1 + delta) / 2) = epsilon``, rounded up; 1 from one bit on, where any secret bit may be lost.

    Notes
    -----
    Let the secret be one of two values with equal odds. Its posterior probability is ``(1 + u) / 2`` with
    ``E |u| = delta``, and the information is ``E[1 - h2((1 + |u|) / 2)]``, at least ``1 - h2((1 + delta) / 2)``
    because h2 is concave. A binary
    symmetric channel attains it.

    References
    ----------
    .. [1] P. Cuff and L. Yu, "Differential Privacy as a Mutual Information Constraint", CCS 2016, for the definition.

    Examples
    --------
    >>> from skdprp.accounting import information_delta, pinsker_delta
    >>> print(f"{information_delta(0.2):.4f} {pinsker_delta(0.2):.4f}")
    0.5140 0.5266
    """
    if epsilon >= 1:
        return 1.0
    low, high = 0.0, min(1.0, pinsker_delta(epsilon) * (1 + 2.0**-40))
    while high - low > 2.0**-50 * high:
        middle = low + (high - low) / 2
        # (1 - h2((1 + t) / 2)) ln 2, written without cancellation.
        nats = middle * np.arctanh(middle) + np.log1p(-(middle**2)) / 2
        low, high = (low, middle) if nats * (1 - 2.0**-48) >= epsilon * np.log(2) else (middle, high)
    return float(high)


def pinsker_delta(epsilon):
    """Convert MI-DP to (0, delta)-DP by Pinsker's inequality.

    Parameters
    ----------
    epsilon : float
        Bound on the mutual information, in bits.

    Returns
    -------
    float
        ``sqrt(2 epsilon ln 2)``, at most 1; never below :func:`information_delta`.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018.

    Examples
    --------
    >>> from skdprp.accounting import pinsker_delta
    >>> round(pinsker_delta(0.5), 4)
    0.8326
    """
    return float(min(1.0, np.sqrt(2 * epsilon * np.log(2))))


def projected_entry_epsilon(delta, *, scale, n_components, max_abs=1.0, min_residual=0.0):
    """Bound the epsilon of one entry in a Gaussian projection of its column with noise.

    Parameters
    ----------
    delta : float
        Slack, between 0 and 1 exclusive.
    scale : float
        Standard deviation sigma of the noise.
    n_components : int
        Number n' of rows of the projection.
    max_abs : float, default=1.0
        Largest absolute value of an entry.
    min_residual : float, default=0.0
        Lower bound on the residuals of the columns, see :func:`skdprp.mechanisms.information_scale`.

    Returns
    -------
    float
        epsilon such that the release is (epsilon, delta)-DP when one entry moves by up to ``2 max_abs``.

    Notes
    -----
    Given the column s of S that multiplies the entry, and all that the entry does not touch, the release is a Gaussian
    mechanism of sensitivity ``2 max_abs |s|`` and variance ``sigma^2 + min_residual^2`` at least. ``|s|^2`` is chi
    squared with n' degrees of freedom: half of `delta` pays for its upper tail, half for the mechanism.

    Examples
    --------
    >>> from skdprp.accounting import projected_entry_epsilon
    >>> round(projected_entry_epsilon(1e-5, scale=17.7, n_components=100), 1)
    7.3
    """
    largest_norm = np.sqrt(2 * gammainccinv(n_components / 2, delta / 2)) * (1 + 2.0**-40)
    spread = np.hypot(scale, min_residual)
    return gaussian_epsilon(delta / 2, scale=spread, sensitivity=2 * max_abs * largest_norm)
