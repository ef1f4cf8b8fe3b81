"""Spherical noise: a random direction, and a radius of its own; the multivariate Laplace mechanism is the pure one."""

from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, gammainc, gammaincc, gammaln

from .. import _noise
from .._digits import with_python_numbers
from ._numerics import cached, calibrated, released
from .gaussian_laplace import gaussian_profile, laplace_profile, laplace_scale

_LARGEST_EPSILON = 1e100  # from 1e154 on, squares of distances overflow in the quadrature
_LOG_MASS_LEFT_OUT = 80.0  # which is added to delta
_RELATIVE_ERROR = 2.0**-42  # of the quadrature
_MOST_DIMS_OF_GAMMA_RULE = 128  # beyond, logarithms of the density have too few digits after the point
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)


@cached
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
        Parameters (a, b) of the radius, see :func:`skdprp.mechanisms.spherical_profile`.

    Returns
    -------
    float
        Scale s of the radius ``s * Gamma(a / b)^(1 / b)``; 0 if `sensitivity` is 0.

    Raises
    ------
    ValueError
        If `delta` is not positive, unless the noise is multivariate Laplace (a = M, b = 1), which is pure; or if
        (a, b), or an `epsilon` beyond 1e100, is not covered by the profile.

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
    if delta <= 0 or sensitivity == 0:  # one draw of multivariate Laplace noise loses what its distance is in scales
        return laplace_scale(epsilon, sensitivity=sensitivity)
    if epsilon > _LARGEST_EPSILON:
        raise ValueError(f"epsilon={epsilon:g} is too large for spherical noise: choose at most {_LARGEST_EPSILON:g}.")
    return calibrated(
        lambda scale: spherical_profile(
            epsilon, scale=scale, sensitivity=sensitivity, n_dims=n_dims, shape=shape, power=power
        ),
        delta,
        start=sensitivity,
    )


@with_python_numbers
def check_spherical(n_dims, shape, power):
    """Refuse noise whose density grows away from the origin, or whose (a, b) the quadrature does not cover."""
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
    # In w = ln(Gamma(k) / k) the density has the width 1 / sqrt(k); in ln r = w / b the integrand varies over a unit.
    width = min(power / 2, 1 / np.sqrt(k)) / 1.5
    # Edges of panels that cover all but exp(-80), below the mode of w and above it.
    share = _LOG_MASS_LEFT_OUT / k
    low, high = -(np.sqrt(2 * share) + share), min(np.sqrt(2 * share), np.log(3 + 2 * share))
    below = np.linspace(low, 0, int(np.ceil(-low / width)), endpoint=False)
    # Above the mode the density falls like exp(-k e^w), as smooth as a normal one in e^(w/2).
    root = np.expm1(high / 2)
    edges = np.append(below, 2 * np.log1p(np.linspace(0, root, 2 + int(3 * np.sqrt(k) * root))))
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


@with_python_numbers
def spherical_profile(epsilon, *, scale, sensitivity=1.0, n_dims, shape, power):
    """Exact privacy profile of spherical noise: a random radius times an independent random direction.

    The radius R = `scale` * Gamma(a / b)^(1 / b) has density proportional to ``r^(a - 1) exp(-(r / scale)^b)``.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats; may be negative.
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
        multivariate Laplace noise, which also is (sensitivity / scale, 0)-DP. a = 1, b = 2 is "product noise" in [1]_.

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
    The privacy loss of an output is a random variable (PLRV in [1]_), whose tail above epsilon decides about delta.
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
    >>> from skdprp.mechanisms import gaussian_profile, spherical_profile
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
    if d == 0 or (power == 1 and g == 0 and 2 * d <= epsilon):
        return 0.0
    if power == 1 and g == 0 and d <= epsilon:  # or is rounded to that
        if Fraction(sensitivity) <= Fraction(epsilon) * Fraction(scale):
            return 0.0
        d = float(np.nextafter(epsilon, np.inf))
    if n_dims == 1 and power == 2:
        return gaussian_profile(epsilon, scale=scale / np.sqrt(2), sensitivity=sensitivity)
    if n_dims == 1:
        return laplace_profile(epsilon, scale=scale, sensitivity=sensitivity)
    if g == 0 and power == 1 and n_dims <= _MOST_DIMS_OF_GAMMA_RULE:
        return _multivariate_laplace_profile(epsilon, d, n_dims)
    r, weights, left_out = _radius_rule(epsilon, d, n_dims, shape, power)
    further, nearer = (r * np.expm1(_log_stretch(signed, r, g, power)) for signed in (epsilon, -epsilon))
    exceeds = weights @ _cosine_cdf(r, further, d, n_dims)
    exceeds_at_other = np.exp(min(epsilon, 700.0)) * (weights @ _cosine_cdf(r, nearer, -d, n_dims))
    error_at_other = _RELATIVE_ERROR + (2.0**-52 * np.exp(min(epsilon / g, 36.0)) if g else 0.0)
    delta = exceeds * (1 + _RELATIVE_ERROR) - exceeds_at_other * (1 - error_at_other) + left_out
    return float(np.clip(delta, 0.0, 1.0))


def _multivariate_laplace_profile(epsilon, d, n_dims):
    """Profile of noise of density exp(-norm) in two or more dimensions, for 0 <= epsilon < d.

    An output at distance r from its own centre, in a direction of cosine c with the other one, has a loss of more than
    epsilon where its distance to the other is above r + epsilon: where ``(1 + c) / 2`` is below
    ``(d - epsilon) (2 r + d + epsilon) / (4 r d)``, which all are for r below ``(d - epsilon) / 2``. Of an output of
    the other centre, at distance r from that, it is ``(d - epsilon) (r - (d + epsilon) / 2) / (2 r d)``.
    """
    far, near = (d - epsilon) / 2, (d + epsilon) / 2  # distances where the bounds on the cosine leave [-1, 1]
    r, weights, left_out = _gamma_rule(far, n_dims)
    own = gammainc(n_dims, far) + weights @ _half_cosine_cdf(far / (2 * r) * ((2 * r + d + epsilon) / d), n_dims)
    r, weights, _ = _gamma_rule(near, n_dims)
    other = weights @ _half_cosine_cdf(far * (r - near) / (r * d), n_dims)
    # What is left out of the other only adds to the difference, and what is left out of this one is added.
    delta = own * (1 + _RELATIVE_ERROR) - np.exp(min(epsilon, 700.0)) * other * (1 - _RELATIVE_ERROR) + left_out
    return float(np.clip(delta, 0.0, 1.0))


def _half_cosine_cdf(x, n_dims):
    """Probability that ``(1 + c) / 2`` is below x, for the cosine c of a random direction."""
    return betainc((n_dims - 1) / 2, (n_dims - 1) / 2, np.clip(x, 0, 1))


def _gamma_rule(start, k):
    """Nodes and weights of the expectation over a Gamma(k) variate above `start`, and the probability left out.

    In ``v = sqrt(r - start)`` zeros of order (k - 1) / 2 at the start are those of an analytic function, and the
    density is as smooth as a normal one of standard deviation 1 / 2. Near a small start the integrand varies with
    r / start, and so do the panels.
    """
    share = _LOG_MASS_LEFT_OUT / k
    low = max(k * np.exp(-(np.sqrt(2 * share) + share)) - start, 0.0)
    high = max(k * min(np.exp(np.sqrt(2 * share)), 3 + 2 * share) - start, low) + 2 * _LOG_MASS_LEFT_OUT
    ends = np.sqrt([low, high])
    small = np.sqrt(start) * 2.0 ** np.arange(-1, 12)
    edges = np.append(np.arange(ends[0], ends[1], 0.75), ends[1])
    edges = np.unique(np.append(edges, small[(small > ends[0]) & (small < min(ends[1], ends[0] + 1.0))]))
    half = np.diff(edges)[:, None] / 2
    v = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    r = start + v**2
    weights = (half * _NODE_WEIGHTS).ravel() * 2 * v * np.exp((k - 1) * np.log(r) - r - gammaln(k))
    return r, weights, gammaincc(k, r[-1]) + (gammainc(k, start + low) if low else 0.0)


def add_spherical(values, scale, *, shape, power):
    """Release numbers with one draw of spherical noise over all of them, from the kernel and rounded to a public grid.

    The noise is ``R h``: a radius ``R = scale * Gamma(shape / power)^(1 / power)`` times a random direction h. Its
    privacy is :func:`spherical_profile` at the l2 sensitivity of all numbers together.

    Parameters
    ----------
    values : array-like of float
        What to release, already clipped so that the sensitivity holds; not changed.
    scale : float
        Scale of the radius, see :func:`spherical_scale`; 0 adds no noise.
    shape, power : float
        Parameters (a, b) of the radius, see :func:`spherical_profile`. For M numbers, a = M and b = 1 is multivariate
        Laplace noise. The product noise ``sigma_M R h`` of [1]_, R from chi_nu, is ``scale=sqrt(2) * sigma_M`` with
        a = nu and b = 2; nu is 1 there.

    Returns
    -------
    ndarray of float64
        Multiples of a power of two of about a thousandth of the noise of a number.

    Raises
    ------
    ValueError
        If a number is not finite, or too large for noise of this scale, or floats cannot sample it, or (shape, power)
        is not covered by the profile. Nothing is released then.

    Notes
    -----
    With a = M, sampling costs what :func:`sampled_target` says for M numbers that change. A rounded number is moved
    only where a computed coordinate of the noise, which is off by a small part of a step of the grid, passes the end of
    a cell of the grid; and the density, of ``exp(-(norm / s)^b)``, is nearly the same all over a step. With a below M
    it is infinite at the centre, and no such price is known for what is released next to it: there the profile is that
    of real numbers.

    References
    ----------
    .. [1] S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a
       Product Measure", SIGMOD 2026, (2), with f(x) as `values`.

    Examples
    --------
    >>> from skdprp.mechanisms import add_spherical, sampled_target, spherical_scale
    >>> epsilon, delta = sampled_target(1.0, 1e-6, n_changed=3)
    >>> scale = spherical_scale(epsilon, delta, sensitivity=2.0, n_dims=3, shape=3, power=1)
    >>> add_spherical([120.0, 80.0, 40.0], scale, shape=3, power=1).shape
    (3,)
    """
    return released(_add, values, scale, shape=shape, power=power)


def _add(values, scale, *, shape, power):
    check_spherical(values.size, shape, power)
    _noise.add_spherical(values, scale, shape=shape, power=power)
