"""Objective perturbation: a random linear term b in the function that is minimised.

There are three profiles: `objective_perturbation_profile` of Gaussian b and binary problems, as many as one-vs-rest
has; `softmax_perturbation_profile` of Gaussian b and one softmax; `product_perturbation_profile` of product noise,
which is multivariate Laplace noise here: a uniform direction and a Gamma radius (`_noise.draw_spherical`).

Each calibration finds the least scale at which the profile above it, rounded up, is at most delta.
"""

from fractions import Fraction
from functools import partial
from math import hypot

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from .._digits import with_python_numbers
from ._numerics import LEAST_DELTA, cached, calibrated, require_positive_delta, rows_that_differ
from .gaussian_laplace import gaussian_profile
from .radial import spherical_profile

_QUADRATURE_ERROR, _CANCELLATION = 2.0**-28, 2.0**-46  # relative; what cancels grows as the noise does
_LARGEST_EXPONENT = 700.0  # beyond which exp overflows
RELEASE_DEVIATIONS = 20  # of the release beside product noise, for which epsilon pays; the tail beyond adds to delta
_ROUNDING = 2.0**-48  # relative, of sums of a few numbers
_LARGEST_EPSILON = 2.0**20  # a profile decreases, so that a smaller epsilon is on the private side


@with_python_numbers
def objective_perturbation_profile(
    epsilon,
    *,
    scale,
    lipschitz=1.0,
    log_det=0.0,
    adjacency="replace_one",
    n_outputs=1,
    release_shift=0.0,
    count_shift=0.0,
):
    """Bound the privacy profile of Gaussian objective perturbation of binary linear models.

    The minimiser of ``J(w) + b'w`` is released, with b Gaussian, J strongly convex and the derivative of the loss by
    its score of one sign for each label, as for the logistic loss, the capped one and the Huber hinge.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats.
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
        Distance between the points, before the noise of the release, at which the solver may stop for two neighbours
        with the same exact minimiser, in units of that Gaussian noise; 0 if the minimiser is exact.
    count_shift : float, default=0.0
        Shift of Gaussian releases beside it, such as a count of labels: what one row that is added, taken away or
        replaced changes in them, in units of their noise. Each may depend on those before, and so may the fit.

    Returns
    -------
    float
        A delta such that the release is (epsilon, delta)-DP.

    Notes
    -----
    *The density.* At the minimiser w, ``b = -grad J(w)``. This is one to one between all w and all b, so that w has the
    density ``f(-grad J(w)) det(grad^2 J(w))``, f that of b. One row moves ``grad J(w)`` by a vector between 0 and its
    extreme gradient, and adds between 0 and c, which is `log_det`, to the logarithm of the determinant.

    Let G(epsilon) be the profile of the Gaussian mechanism of shift ``mu = lipschitz / scale``
    (:func:`~skdprp.mechanisms.gaussian_profile`).

    *One row added.* Given b in the larger data set, the privacy loss is at most ``c + (|b + g|^2 - |b|^2) /
    (2 scale^2)`` with ``g = s x`` and s between 0 and an extreme slope. As this is convex in s, it is at most c plus 0
    or plus the loss of the Gaussian mechanism at the extreme slope. Hence ``A(epsilon) <= G(epsilon - c)`` from
    epsilon = c on, A the profile of a row added, and ``B(epsilon) <= G(epsilon)`` from epsilon = 0 on, B that of a row
    removed, which pays no c. The symmetry ``A(-x) = 1 - e^-x (1 - B(x))`` of the two directions, of which G is its own
    mirror image, gives

    - ``A(x) <= G(x)`` for x <= 0, and so ``A(x) <= G(x - c)`` for every real x, for A decreases;
    - ``B(x) <= G(x) + max(0, 1 - e^x)`` for every real x: no profile grows faster than that below 0;
    - ``B(x) <= G(x - c)`` for every real x: at x = -y < 0 it says ``h(y + c) <= e^c h(y - c)`` of h = 1 - G, and
      log h(z) - z / 2 is even and concave, for h is the normal distribution convolved with min(1, e^z).

    So each problem is dominated by a pair of normals, the second one with total mass e^-c and the rest of its mass
    where the first has none, and pairs compose: several problems, and the noise of the release, add their squared
    shifts. What is below 0 in the second line becomes the Gaussian profile of the release alone.

    *One row replaced.* Write e = epsilon - c. The loss is at most c plus the largest Gaussian loss over sums u + v, u
    being 0 or the extreme gradient of the row taken away and v that of the new row, that is, delta is at most the
    integral of ``[phi(z) - exp(e) min_u psi(z + u)]_+`` with ``psi(y) = min_v phi(y + v)``. With u(z) that attains the
    minimum, insert ``exp(e1) phi(z + u(z))``: the integral is at most ``G(e1) + exp(e1) G(e - e1)``, because z -> z +
    u(z) is one to one: if z + u = z' + u' = y, -log psi at y is no less than at y + (u - u') and at y - (u - u'), which
    contradicts its strict convexity unless u = u'. The split ``e1 = (e - mu^2) / 2``, which has to be 0 or more and is
    where epsilon >= c + mu^2, makes the sum the Gaussian profile at twice the shift. The probability that the release's
    own loss leaves too little for that is added.

    *Losses with kinks in their slope*, at a margin of 0 the capped logistic loss and at two the Huber hinge, have no
    second derivative there, and need none, for the slope is Lipschitz. So ``b = -grad J(w)`` is one to one between all
    w and all b, as J is strongly convex, and Lipschitz in both directions. It is differentiable but where the margin of
    a row is at a kink: on finitely many hyperplanes, for a row of zeros has no say. These have measure 0, and so have
    their images. Hence the density is as above almost everywhere, and so is what one row adds to the logarithm of the
    determinant. Profiles are integrals of densities, in which the rest does not count.

    *Near epsilon = 0* no log-determinant need be paid. A row added costs ``A(0) = B(0)`` at most. A row replaced costs
    ``A(a) + e^a B(epsilon - a)`` for every a, through the data set without the row, whose release may be thought to lie
    halfway between the others, so that either half has half of `release_shift`. With ``a = (epsilon - mu^2) / 2`` that
    is the Gaussian profile of twice the shift, as long as epsilon <= mu^2; beyond, a = 0 is best. The least of all
    bounds counts. Several problems, whose c add up to C, pay that in either half: ``G(a - C) + e^a G(epsilon - a - C)``
    with the best a is e^C times the Gaussian profile of twice the shift at epsilon - 2 C at most.

    *Gaussian releases beside it.* Given what was released before, whatever it was, each is a Gaussian mechanism of its
    shift m_i at most, and the fit is an objective perturbation of the same bounds: a number that is added to all
    scores, as public as what was released, changes no bound on a slope or a curvature. So the pairs that dominate them
    compose, in any order, and the Gaussian ones to a single one of shift ``m = hypot(m_1, m_2, ...)``. With h the
    profile of the fit and Z the loss of that one, all together have ``E[h(epsilon - Z)]`` at most. A row added or
    removed: h(x) is at most G(x - c) for every real x, so that squared shifts add up. A row replaced: h(x) is at most
    the Gaussian profile of twice the shift at x - c for x >= c + mu^2, and at most 1 below, which adds
    ``P(Z > epsilon - c - mu^2) = Phi(m / 2 - (epsilon - c - mu^2) / m)``. That is what the noise of the release costs,
    with ``hypot(release_shift, m)`` for its shift. Only through the data set without the row there is a difference: a
    count is not split into halves, and either half has all of m.

    Examples
    --------
    >>> from skdprp.mechanisms.objective_perturbation import objective_perturbation_profile
    >>> f"{objective_perturbation_profile(1.1, scale=3.7306, log_det=0.1, adjacency='add_remove'):.2e}"
    '1.00e-05'
    """
    mu, total_log_det = float(np.sqrt(n_outputs)) * lipschitz / scale, n_outputs * log_det
    beside, beside_half = hypot(release_shift, count_shift), hypot(release_shift / 2, count_shift)
    if rows_that_differ(adjacency) == 1:  # "One row added"; one problem also "Near epsilon = 0"
        added = _gaussian_delta(epsilon - total_log_det, mu, beside)
        alone = n_outputs == 1 and epsilon >= 0
        return min(added, _one_row_removed(0.0, mu, beside)) if alone else added
    if n_outputs > 1:  # through the data set without the row, each half with its log-determinants
        chained = _gaussian_delta(epsilon - 2 * total_log_det, 2 * mu, release_shift, 2 * count_shift)
        return float(min(1.0, np.exp(total_log_det) * chained))
    twice_epsilon1 = epsilon - log_det - mu**2
    delta = 1.0  # where the log-determinant leaves nothing; the bound near epsilon = 0 does without
    if twice_epsilon1 >= 0:  # "One row replaced"
        delta = _gaussian_delta(epsilon - log_det, 2 * mu, beside) + _probability_beyond(twice_epsilon1, beside)
    # "Near epsilon = 0", with half of the release and all of the count on either side; skipped if it cannot be less.
    if epsilon >= 0 and delta > _gaussian_delta(0.0, mu, beside_half):
        removed = partial(_one_row_removed, mu=mu, beside=beside_half)
        delta = min(delta, _without_row(epsilon, (mu**2 + beside_half**2) / 2, removed, removed))
    return float(min(1.0, delta))


def _gaussian_delta(epsilon, *shifts):
    """Profile of Gaussian mechanisms of these shifts together."""
    return gaussian_profile(epsilon, scale=1.0, sensitivity=hypot(*shifts))


def _one_row_removed(epsilon, mu, beside):
    """Bound on the profile of one row removed, which pays no log-determinant, with Gaussian releases beside it."""
    return _gaussian_delta(epsilon, mu, beside) + _gaussian_delta(epsilon, beside)


def _without_row(epsilon, half_square, first, last):
    """Bound for epsilon >= 0 through the data set without the row, by the profiles of the two halves.

    `half_square` is mu^2 / 2 of either half.
    """
    a = min(epsilon / 2 - half_square, 0.0)  # of "Near epsilon = 0", where a profile is known from 0 on
    return -np.expm1(a) + np.exp(a) * (first(-a) + last(epsilon - a))


def _probability_beyond(loss, shift, log_factor=0.0):
    """Probability that the privacy loss of a Gaussian mechanism exceeds `loss`, times a factor."""
    if shift == 0:
        return 0.0
    return float(np.exp(np.minimum(log_factor + log_ndtr(shift / 2 - loss / shift), _LARGEST_EXPONENT)))


@with_python_numbers
def product_perturbation_profile(
    epsilon,
    *,
    scale,
    n_dims,
    lipschitz=1.0,
    n_vertices=1,
    log_det=0.0,
    adjacency="replace_one",
    release_shift=0.0,
    count_epsilon=0.0,
):
    """Bound the privacy profile of objective perturbation by multivariate Laplace noise, of radius Gamma(M, scale).

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats.
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
    release_shift : float, default=0.0
        Distance between the points, before the noise of the release, at which the solver may stop for two neighbours
        with the same exact minimiser, in units of that Gaussian noise; 0 if the minimiser is exact.
    count_epsilon : float, default=0.0
        Epsilon of an (epsilon, 0)-DP release beside it, such as a count of labels, which the fit may depend on.

    Returns
    -------
    float
        A delta such that the release is (epsilon, delta)-DP.

    Notes
    -----
    *One row added* and *One row replaced* of :func:`objective_perturbation_profile` need of the noise only that minus
    its log-density is convex and constant on no segment: so they hold with the spherical profile in place of G, the
    exact profile of two such noises whose centres are ``lipschitz`` apart, which grows with the distance
    (:func:`~skdprp.mechanisms.spherical_profile`). Several vertices are bounded by the sum of their profiles. No loss
    exceeds ``lipschitz / scale`` for each of the one or two rows that change.

    The noise of the release has a loss above ``t = 20 m + m^2 / 2``, m its shift, with probability Phi(-20), below
    2^-288: with this added, it takes t of epsilon, for a profile decreases. A release beside the fit,
    whose loss is at most `count_epsilon`, takes that.

    *Near epsilon = 0* holds as well. What the two releases leave below 0 is added: the profile of the first, and that
    of the second at 0. Both halves of a replacement have the second; the first is in the last half alone, and not half
    of it in either as for Gaussian noise.

    Examples
    --------
    >>> from skdprp.mechanisms.objective_perturbation import product_perturbation_profile
    >>> product_perturbation_profile(1.0, scale=2.0, n_dims=10)
    0.0
    """
    release_loss = RELEASE_DEVIATIONS * release_shift + release_shift**2 / 2 + count_epsilon
    tail = float(ndtr(-RELEASE_DEVIATIONS)) if release_shift else 0.0
    is_replaced, epsilon = rows_that_differ(adjacency) == 2, min(epsilon, _LARGEST_EPSILON)
    taken = (1 + Fraction(_ROUNDING)) * Fraction(release_loss) + Fraction(log_det)  # of epsilon
    if (2 if is_replaced else 1) * Fraction(lipschitz) <= (Fraction(epsilon) - taken) * Fraction(scale):
        return tail
    rounding = _ROUNDING * (abs(epsilon) + release_loss + log_det)  # a profile decreases
    left = min(epsilon - release_loss - log_det - rounding, _LARGEST_EXPONENT)

    def _one_row(epsilon):
        return n_vertices * spherical_profile(
            epsilon, scale=scale, sensitivity=lipschitz, n_dims=n_dims, shape=n_dims, power=1
        )

    def _with_count(epsilon):
        return _one_row(epsilon - count_epsilon) + float(np.tanh(count_epsilon / 2))

    def _with_release(epsilon):
        beside = _gaussian_delta(epsilon, release_shift) + float(np.tanh(count_epsilon / 2))
        return _one_row(epsilon - release_loss) + tail + beside

    shift = lipschitz / (scale * np.sqrt(n_dims + 1))  # relative to one coordinate's standard deviation
    split = max(0.0, left / 2 - shift**2 / 2) if is_replaced else 0.0
    delta = 1.0
    if left >= 0:
        delta = np.exp(split) * _one_row(left - split) + (_one_row(split) if is_replaced else 0.0) + tail
    # Where it cannot be less it is left out: it is the total variation or more, in one coordinate, by Chebyshev.
    if epsilon >= 0 and delta > 0.75 * min(1.0, shift / 4):
        near = _without_row(epsilon, shift**2 / 2, _with_count, _with_release) if is_replaced else _with_release(0.0)
        delta = min(delta, near)
    return float(min(1.0, delta))


@with_python_numbers
def softmax_perturbation_profile(
    epsilon, *, scale, n_classes, max_norm=1.0, log_det=0.0, adjacency="replace_one", release_shift=0.0
):
    """Bound the privacy profile of Gaussian objective perturbation of multinomial logistic regression.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats.
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
        Distance between the points, before the noise of the release, at which the solver may stop for two neighbours
        with the same exact minimiser, in units of that Gaussian noise; 0 if the minimiser is exact.

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
    ``F(epsilon1) + e^epsilon1 F(epsilon - log_det - epsilon1)``: as in *One row replaced* there, ``e^epsilon1`` times
    the density at ``z + u(z)`` is put between the two, with u(z) the worst vertex at z. The noise of the release
    belongs to the second part: F is then that of both losses together, and ``e^epsilon1`` times the probability that
    the loss of the release alone exceeds ``epsilon - log_det - epsilon1`` is added. Near 0 the bounds that pay no
    log-determinant are less, as there: F(0) for one row added, and for one replaced, through the data set without the
    row, ``1 - e^a + e^a F(-a) + e^a F(epsilon - a)`` with a <= 0; what the release adds to the last one is its own
    Gaussian profile.

    Examples
    --------
    >>> from skdprp.mechanisms.objective_perturbation import softmax_perturbation_profile
    >>> f"{softmax_perturbation_profile(1.0, scale=6.0, n_classes=10, adjacency='add_remove'):.2e}"
    '7.97e-06'
    """
    ratio, is_replaced = max_norm / scale, rows_that_differ(adjacency) == 2
    left = min(epsilon - log_det, _LARGEST_EPSILON)
    # Of a replaced row (left - mu^2) / 2, as of a Gaussian loss of mu^2 = 2 ratio^2.
    epsilon1 = max(0.0, left / 2 - ratio**2) if is_replaced else 0.0
    delta = 1.0
    if left >= 0:
        delta = _largest_of_normals_profile(left - epsilon1, ratio, n_classes, shift=release_shift, log_factor=epsilon1)
        delta += _probability_beyond(left - epsilon1, release_shift, log_factor=epsilon1)
        delta += _largest_of_normals_profile(epsilon1, ratio, n_classes) if is_replaced else 0.0

    def _with_release(epsilon):
        exact = _largest_of_normals_profile(epsilon, ratio, n_classes, shift=release_shift)
        return exact + _gaussian_delta(epsilon, release_shift)

    if epsilon >= 0 and delta > _gaussian_delta(0.0, np.sqrt(2) * ratio):  # the other bounds are no less than that
        first = partial(_largest_of_normals_profile, ratio=ratio, n_classes=n_classes)
        near = _without_row(epsilon, ratio**2, first, _with_release) if is_replaced else _with_release(0.0)
        delta = min(delta, near)
    return float(np.clip(delta * (1 + _QUADRATURE_ERROR + _CANCELLATION / ratio), LEAST_DELTA, 1.0))


def _largest_of_normals_profile(epsilon, ratio, n_classes, *, shift=0.0, log_factor=0.0):
    """Profile of the loss ``ratio (max of K-1 normals - normal) + ratio^2`` plus a Gaussian's, times a factor."""
    step = 2.0**-5
    largest = np.arange(-10.0, 40.0, step)  # the trapezoidal rule on an analytic, Gaussian-like integrand
    log_density = np.log(n_classes - 1) - largest**2 / 2 + (n_classes - 2) * log_ndtr(largest) - np.log(2 * np.pi) / 2
    spread = np.hypot(ratio, shift)
    upper = np.minimum((ratio * largest + ratio**2 + shift**2 / 2 - epsilon) / spread, 1e8)
    # The logarithm of E[1 - exp(-spread (N + upper))]_+ with N standard normal, to full relative precision:
    # phi(upper) = exp(spread^2 / 2 - spread upper) phi(upper - spread). Mills ratios lose no digits where it is tiny.
    mills_ratios = erfcx(np.maximum(-upper, 0.0) / np.sqrt(2)) - erfcx(np.maximum(spread - upper, 0.0) / np.sqrt(2))
    direct = ndtr(upper) - np.exp(np.minimum(spread**2 / 2 - spread * upper + log_ndtr(upper - spread), 0.0))
    tiny = np.finfo(float).tiny
    in_tail = np.log(np.maximum(mills_ratios, tiny) / 2) - np.minimum(upper, 0.0) ** 2 / 2
    log_excess = np.where(upper > 0, np.log(np.maximum(direct, tiny)), in_tail)
    exponent = log_density + log_factor + log_excess
    return step * float(np.exp(np.minimum(exponent, _LARGEST_EXPONENT)).sum())


@with_python_numbers
def hessian_log_det(loss, *, max_norm, penalty):
    """Most that one row can add to the log-determinant of the second derivative of a regularised risk.

    ``rank log(1 + trace max_norm**2 / (rank penalty))``, with rank and trace of the second derivative of the loss, K -
    1 and 1 - 1 / K for a softmax of K classes: the determinant is largest when the eigenvalues are equal.
    """
    return float(loss.hessian_rank * np.log1p(loss.hessian_trace * max_norm**2 / (loss.hessian_rank * penalty)))


@with_python_numbers
def penalty_for_log_det(loss, *, max_norm, log_det):
    """Penalty at which one row adds at most `log_det`: the inverse of :func:`hessian_log_det`."""
    growth = np.expm1(min(log_det / loss.hessian_rank, _LARGEST_EXPONENT))
    return float(loss.hessian_trace * max_norm**2 / (loss.hessian_rank * growth))


def _require_room(epsilon, needed):
    """Refuse log-determinants, a part of the loss that no noise hides, that leave nothing to the noise."""
    if needed >= epsilon:
        raise ValueError(f"The log-determinant takes {needed:.6g} of epsilon={epsilon}: raise the penalty or epsilon.")


@cached
def objective_perturbation_scale(
    epsilon,
    delta,
    *,
    lipschitz=1.0,
    log_det=0.0,
    adjacency="replace_one",
    n_outputs=1,
    release_shift=0.0,
    count_shift=0.0,
):
    """Calibrate Gaussian objective perturbation of binary linear models, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: :func:`~skdprp.mechanisms.objective_perturbation_profile` at `epsilon` is at most `delta`.
    lipschitz : float, default=1.0
        Largest norm of the gradient of one row's loss.
    log_det : float, default=0.0
        Most that one row adds to the log-determinant of the second derivative of one problem.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        What one row may do.
    n_outputs : int, default=1
        Number of problems released together.
    release_shift : float, default=0.0
        Shift of the inexact minimiser, in units of the noise added to the release.
    count_shift : float, default=0.0
        Shift of Gaussian releases beside it, in units of their noise.

    Returns
    -------
    float
        Standard deviation of each coordinate of the perturbation.

    Raises
    ------
    ValueError
        If `delta` is not positive, or the log-determinants leave nothing of `epsilon`.

    Examples
    --------
    >>> from skdprp.mechanisms import objective_perturbation_scale
    >>> round(objective_perturbation_scale(1.0, 1e-5), 4)
    7.4613
    """
    require_positive_delta(delta)
    halves = 2 if n_outputs > 1 and rows_that_differ(adjacency) == 2 else 1
    _require_room(epsilon, halves * n_outputs * log_det)
    return calibrated(
        lambda scale: objective_perturbation_profile(
            epsilon,
            scale=scale,
            lipschitz=lipschitz,
            log_det=log_det,
            adjacency=adjacency,
            n_outputs=n_outputs,
            release_shift=release_shift,
            count_shift=count_shift,
        ),
        delta,
        start=lipschitz,
    )


@cached
def softmax_perturbation_scale(
    epsilon, delta, *, n_classes, max_norm=1.0, log_det=0.0, adjacency="replace_one", release_shift=0.0
):
    """Calibrate the noise of :func:`softmax_perturbation_profile`, rounding to the private side."""
    require_positive_delta(delta)
    _require_room(epsilon, log_det)
    return calibrated(
        lambda scale: softmax_perturbation_profile(
            epsilon,
            scale=scale,
            n_classes=n_classes,
            max_norm=max_norm,
            log_det=log_det,
            adjacency=adjacency,
            release_shift=release_shift,
        ),
        delta,
        start=max_norm,
    )


@cached
def product_perturbation_scale(
    epsilon,
    delta,
    *,
    n_dims,
    lipschitz=1.0,
    n_vertices=1,
    log_det=0.0,
    adjacency="replace_one",
    release_shift=0.0,
    count_epsilon=0.0,
):
    """Calibrate the noise of :func:`product_perturbation_profile`, rounding to the private side.

    At most, for a row replaced, the scale is ``2 lipschitz / (epsilon - log_det - d release_shift -
    release_shift^2 / 2 - count_epsilon)``, d = `RELEASE_DEVIATIONS`: `delta` makes it less.
    """
    _require_room(epsilon, log_det + RELEASE_DEVIATIONS * release_shift + release_shift**2 / 2 + count_epsilon)
    return calibrated(
        lambda scale: product_perturbation_profile(
            epsilon,
            scale=scale,
            n_dims=n_dims,
            lipschitz=lipschitz,
            n_vertices=n_vertices,
            log_det=log_det,
            adjacency=adjacency,
            release_shift=release_shift,
            count_epsilon=count_epsilon,
        ),
        delta,
        start=lipschitz,
    )
