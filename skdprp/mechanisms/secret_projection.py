"""A secret random projection of the rows with noise on all columns, ``S Z + sigma N``: rows of Gaussian variables."""

import numpy as np
from scipy.linalg import cholesky
from scipy.special import gammaincc

from .. import _noise
from .._digits import with_python_numbers
from .._errors import silent
from .._noise import SAMPLING_LOSS, check_scale
from ._numerics import LEAST_DELTA, cached, calibrated, require_positive_delta, rounded_up, rows_that_differ
from .gaussian_laplace import _below_zero

_FLOOR = 2.0**-960  # stands for all deltas below, of which floats begin to lose the digits
_MOST_COMPONENTS = 10**6  # up to which floats hold nearly 12 digits of a tail of chi-square, however deep
_LOG_FLOATS = 760.0  # minus the logarithm of less than any float
_LOG_MASS_LEFT_OUT = 60.0  # of an integral, in relation to its largest part
_POINTS, _PANELS = 65, 32
_HALVINGS = 2.0 ** -np.arange(1, 56)
_AROUND = np.linspace(-12, 12, 33)  # the root of a Gamma variate is within that of its centre, and of width 1/2
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
_LEAST_NOISE = 2.0**-10  # of the root of min_eigenvalue
_FAR = 21.0  # standard deviations, beyond which a normal variable has a probability below 2^-315
_VARIATE_ERROR = 2.0**-43  # of a drawn normal variate, see _noise.py
_ROUNDING = 2.0**-53
_LARGEST_ERROR = 2.0**-10  # of the Gram matrix, in units of the variance of the noise


@with_python_numbers
def secret_projection_profile(
    epsilon, *, scale, n_components, max_norm=1.0, adjacency="replace_one", min_eigenvalue=0.0
):
    """Exact privacy profile of a secret Gaussian projection of rows, with Gaussian noise on all columns.

    Released is ``M = S Z + scale N``. Z is the table of n rows z, with the target among the columns if there is one; S
    has k rows of n standard normal variates, N as many of the columns of Z, and both stay secret.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats; may be negative.
    scale : float
        Standard deviation of the noise of each number.
    n_components : int
        Number k of rows of S.
    max_norm : float, default=1.0
        Largest l2 norm of a row of Z, all columns counted.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row replaced at its place, or in whether the row at one place counts.
    min_eigenvalue : float, default=0.0
        Assumed, and public: the matrix ``Z'Z`` has at least this least eigenvalue, whichever row is left out. If that
        is not so, the guarantee is void. Never compute it from the private data.

    Returns
    -------
    float
        Least delta such that the mechanism is (epsilon, delta)-DP; never 0 unless `max_norm` is, also where floats
        would underflow.

    Raises
    ------
    ValueError
        If `n_components` is below 1, or above 10^6, where floats begin to lose digits of the tails of chi-square.

    Notes
    -----
    The k rows of M are independent normal vectors with the covariance matrix ``Z'Z + scale^2 I``.

    *A row more.* Let A be that matrix without the row z. The map ``A^(-1/2)`` of each row loses nothing, and turns A
    into I and ``A + zz'`` into ``I + vv'``, with ``v = A^(-1/2) z``. Along v the variance is 1 without the row and
    1 + s with it, where ``s = |v|^2 = z'A^(-1) z``; orthogonally to v both neighbours are alike and independent of it.
    What decides is the sum of squares of k variables. With G a Gamma variate of shape a = k / 2, half of a chi-square,
    it is 2 G without the row and 2 (1 + s) G with it. From the table with the row, delta at epsilon is::

        E[(1 - exp(-s (G - t)))+] = P(G > t) - e^epsilon P(G > (1 + s) t),      t = (a ln(1 + s) + epsilon) / s

    which is integrated by parts, so that nothing cancels.

    *The other order* of both never has a larger delta, from epsilon = 0 on. Let g be the density, without the row, of
    the logarithm l of the ratio of both densities. The deltas differ by the integral over l > epsilon of
    ``(e^l - e^epsilon) (g(l) - e^(-l) g(-l))``. The logarithm of g(l) over e^(-l) g(-l) is
    ``2 (a - 1) artanh(l / c) - l (2 + s) / s`` up to c = a ln(1 + s), beyond which the latter is 0: it changes its sign
    once at most, from below to above. At epsilon = 0 both deltas are the total variation distance, and the integral is
    0. At any other one it has the weights ``(e^l - e^epsilon)+ / (e^l - 1)`` in addition, which grow with l: what is
    above 0 outweighs what is below.

    *The worst row.* For ``c = s' / s <= 1`` the random map ``x -> sqrt(c) x + sqrt(1 - c) N(0, 1)`` turns N(0, 1) into
    itself and N(0, 1 + s) into N(0, 1 + s'): delta grows with s by data processing. Since A has no eigenvalue below
    ``scale^2 + min_eigenvalue``, s is at most ``max_norm^2 / (scale^2 + min_eigenvalue)``, which a row of the largest
    norm attains in a direction in which the table has nothing else, or no more than was assumed.

    *A row replaced* by another one. With A without either of them, the covariance matrices are ``I + vv'`` and
    ``I + ww'``, with p and q for the squares of the norms. These differ in the plane of v and w alone, and a linear map
    of it makes them diag(1 + a, 1) and diag(1, 1 + b): the product of the eigenvalues 1 + a >= 1 and 1 / (1 + b) <= 1
    of ``(I + ww')^-1 (I + vv')`` is (1 + p) / (1 + q), and their sum 2 + p - q / (1 + q) - (v'w)^2 / (1 + q). The sum
    falls with (v'w)^2 while the product stays, which brings them closer together: so a <= p and b <= q, as they are for
    orthogonal rows. By the random map above, in each of the two coordinates, delta grows with a and b: two orthogonal
    rows of the largest norm are the worst, and any table of at least two columns may hold them.

    *Its delta.* Turn that plane by 45 degrees. The first coordinates x of the k rows are normal with variance 1 + s / 2
    under both neighbours; given x, the second ones have the mean ``s / (2 + s) x`` or its negative, and the variance
    2 (1 + s) / (2 + s): they are a Gaussian mechanism with ``mu = s sqrt(2 G / (1 + s))``, which x tells, G as above.
    Delta is the mean of its delta over G, by parts, with ``d delta / d mu = phi(mu / 2 - epsilon / mu)``.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, for the mechanism; the profile is ours.

    Examples
    --------
    >>> from skdprp.mechanisms import secret_projection_profile
    >>> for adjacency in ("add_remove", "replace_one"):
    ...     delta = secret_projection_profile(1.0, scale=10.0, n_components=1000, adjacency=adjacency)
    ...     print(f"{adjacency} {delta:.2e}")
    add_remove 9.98e-07
    replace_one 1.06e-04
    """
    if not 1 <= n_components <= _MOST_COMPONENTS:
        raise ValueError(f"n_components must be between 1 and {_MOST_COMPONENTS}, got {n_components}.")
    n_rows = rows_that_differ(adjacency)
    if max_norm == 0:
        return 0.0 if epsilon >= 0 else _below_zero(epsilon, 0.0)
    hidden_by, shape = np.hypot(scale, np.sqrt(min_eigenvalue)), n_components / 2
    # The largest s: what a row adds to the variance in its direction, in units of what is there without it.
    with np.errstate(over="ignore", divide="ignore"):
        gain = float(max(np.square(np.divide(max_norm, hidden_by)), LEAST_DELTA))
    if np.isinf(gain):
        delta = 1.0
    elif n_rows == 2:
        delta = _of_a_row_replaced(abs(epsilon), gain, shape)
    else:
        delta = _of_a_row_more(abs(epsilon), gain, shape)
    delta = float(min(max(delta, _FLOOR), 1.0))
    return delta if epsilon >= 0 else _below_zero(epsilon, delta)


def _of_a_row_more(epsilon, gain, shape):
    """``E[(1 - exp(-s (G - t)))+]``, by parts the integral of ``2 s m exp(-s (m^2 - t)) P(G > m^2)``, m^2 > t."""
    start = np.sqrt(epsilon / gain + shape * np.log1p(gain) / gain)
    reach = 80.0 / gain
    if np.isinf(start + reach):
        return 0.0

    def _log_integrand(step):
        m = start + step
        return np.log(2 * gain * m) - gain * step * (start + m) + np.log(gammaincc(shape, m**2))

    return _unimodal_integral(_log_integrand, reach / (start + np.sqrt(start**2 + reach)))


def _of_a_row_replaced(epsilon, gain, shape):
    """``E[delta(epsilon, mu)]`` with ``mu = c sqrt(G)``, by parts the integral of ``phi(x/2 - eps/x) P(mu > x)``."""
    if np.isinf(epsilon):
        return 0.0
    ratio = gain * np.sqrt(2 / (1 + gain))
    # Where phi is negligible, or P(mu > x) below all floats: P(G > k/2 + sqrt(k y) + y) <= e^-y (Laurent and Massart).
    largest_mu = ratio * np.sqrt(shape + np.sqrt(2 * shape * _LOG_FLOATS) + _LOG_FLOATS)
    reach = min(40 + np.sqrt(1600 + 2 * epsilon), largest_mu)

    def _log_integrand(mu):
        mu = np.maximum(mu, LEAST_DELTA)
        return -((mu / 2 - epsilon / mu) ** 2 + np.log(2 * np.pi)) / 2 + np.log(gammaincc(shape, (mu / ratio) ** 2))

    return _unimodal_integral(_log_integrand, reach, edges=ratio * (np.sqrt(shape) + _AROUND))


@np.errstate(divide="ignore", over="ignore")
def _unimodal_integral(log_integrand, high, edges=()):
    """Integrate from 0 to `high` a positive function that does not rise again once it has fallen.

    The interval is narrowed to where the function is not negligible, and then cut into panels, ever smaller ones
    towards 0, where a small epsilon has the function rise, and at given edges.
    """
    low, n_kept, before = 0.0, 0, None
    while 2 * n_kept < _POINTS and (low, high) != before:  # until it is narrow, or as narrow as floats are
        before = low, high
        grid = np.linspace(low, high, _POINTS)
        values = log_integrand(grid)
        kept = np.flatnonzero(values > values.max() - _LOG_MASS_LEFT_OUT)
        if not kept.size:  # floats hold none of the values
            return 0.0
        low, high, n_kept = grid[max(kept[0] - 1, 0)], grid[min(kept[-1] + 1, _POINTS - 1)], kept.size
    edges = np.concatenate([np.linspace(low, high, _PANELS + 1), high * _HALVINGS, edges])
    edges = np.unique(np.clip(edges, low, high))
    halves = np.diff(edges) / 2
    logs = log_integrand(edges[:-1, None] + np.multiply.outer(halves, 1 + _NODES))
    peak = logs.max()
    return float(np.exp(peak) * (halves @ np.exp(logs - peak) @ _NODE_WEIGHTS))


@cached
def secret_projection_scale(epsilon, delta, *, n_components, max_norm=1.0, adjacency="replace_one", min_eigenvalue=0.0):
    """Calibrate the noise of a secret Gaussian projection of rows exactly, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: the privacy profile at `epsilon` is at most `delta`.
    n_components : int
        Number k of rows of S.
    max_norm : float, default=1.0
        Largest l2 norm of a row of Z, all columns counted.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row replaced at its place, or in whether the row at one place counts.
    min_eigenvalue : float, default=0.0
        Assumed, and public: the least eigenvalue of ``Z'Z``, whichever row is left out, see
        :func:`secret_projection_profile`.

    Returns
    -------
    float
        Standard deviation of the noise of each number; 0 if `max_norm` is 0. However large `min_eigenvalue` is, it is
        not below 2^-10 times its root: noise of some size has to hide what floats of S Z round off.

    Raises
    ------
    ValueError
        If `delta` is not positive.

    Examples
    --------
    >>> from skdprp.mechanisms import secret_projection_scale
    >>> for k in (100, 1000):
    ...     scale = secret_projection_scale(1.0, 1e-6, n_components=k, adjacency="add_remove")
    ...     print(f"{k} components: {scale:.2f}")
    100 components: 5.96
    1000 components: 10.00
    """
    require_positive_delta(delta)
    if max_norm == 0:
        return 0.0
    known = {"max_norm": max_norm, "adjacency": adjacency, "min_eigenvalue": min_eigenvalue}

    def _profile(scale):
        return secret_projection_profile(epsilon, scale=scale, n_components=n_components, **known)

    least = float(_LEAST_NOISE * np.sqrt(min_eigenvalue))
    if least > 0 and rounded_up(_profile(least)) <= delta < 1:
        return check_scale(least)
    return calibrated(_profile, delta, start=max_norm)


@with_python_numbers
def secret_projection_n_changed(*, scale, n_components, n_dims, n_samples, max_norm=1.0, n_additions=None):
    """Number of sampled values that cost as much as all that :func:`project_secretly` rounds off.

    To be handed to :func:`~skdprp.mechanisms.sampled_target`, whose target the noise is calibrated for; times
    ``SAMPLING_LOSS`` it is the ``sampling`` of a :class:`~skdprp.composition.PrivacyLoss`. `scale` is that of the noise
    or less, such as what would do for the target itself. `n_dims` is the number d of columns of Z, `n_samples` that n
    of its rows, and `n_additions` how many numbers are added up one after the other for an entry of the Gram matrix,
    products included; n unless it is less, as it is if the rows are added up by blocks.

    Raises
    ------
    ValueError
        If the noise is too small to hide what floats of so many rows round off.

    Notes
    -----
    Released is ``C + N``, sampled on a grid, where N has half of the variance of the noise and the other half is within
    ``C = G R``, a product of normal variates G and the factor R of ``A = Z'Z + scale^2 / 2 I``: the rows of ``C + N``
    have the covariance matrix of the mechanism. Floats have ``C~`` in the place of C. If N alone hides from each other
    two matrices at a distance of ``|C~ - C|``, then the released distributions P~ and P of both are as close: couple
    C~ and C by the same bits of G. The hockey-stick divergence of the mixtures P~ and P over both is at most the mean
    of that given both, which is the one of a Gaussian mechanism; so P~ <= e^l P + d and P <= e^l P~ + d for
    ``l = mu^2 / 2 + 21 mu``, where d is the probability that ``|C~ - C|`` exceeds mu standard deviations of N, and
    Phi(-21). As for one sampled value, all that has a probability of less than 2^-288 is left out.

    *How far C~ is from C.* Let n' be the number of additions, u = 2^-53, and r^2 = n max_norm^2 + d scale^2 / 2, which
    is not below the trace of A, and by how little ever above. The factor R~ of floats is the exact one of A + E with
    ``|E| <= (n' + d + 4) u r^2`` in the Frobenius norm, d + 1 of it by the factorisation, the rest by sums [1]_. Let
    ``R~ = U (A + E)^(1/2)`` with an orthogonal U, and R = U A^(1/2). No eigenvalue of A is below ``scale^2 / 2``, so
    ``|R~ - R| <= |E| / (sqrt(2) scale)``, to first order in E. ``|G (R~ - R)|`` has a mean of at most
    ``sqrt(k) |R~ - R|`` and, as a Lipschitz function of normal variates, exceeds it by 21 times ``|R~ - R|`` with a
    probability below e^(-220). The same is true of ``|G|`` and ``sqrt(k d)``. Variates of floats are within 2^-43 of
    those of real numbers, which moves the product by ``2^-43 sqrt(k d) r`` at most, and the rounding of the product by
    ``d u |G| r``. What is of the second order is below a share of 2^-6 of it all.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002, Sections 3.5 and 10.1.
    """
    if not scale > 0:
        raise ValueError(f"Without noise, scale={scale}, nothing hides what floats round off.")
    n_additions = n_samples if n_additions is None else n_additions
    size = n_samples * (max_norm / scale) ** 2 + n_dims / 2
    gram_error = (n_additions + n_dims + 4) * _ROUNDING * size
    if not gram_error < _LARGEST_ERROR:
        raise ValueError(
            f"Floats of n_samples={n_samples} rows round off too much for noise of scale {scale:.3g}: add up the rows "
            "by blocks, so that n_additions is less, or choose another epsilon."
        )
    n_values = n_components * n_dims
    # In standard deviations of the noise on the grid: of the factor, and of the product.
    factor_error = gram_error * (np.sqrt(n_components) + _FAR)
    product_error = np.sqrt(2 * size) * (_VARIATE_ERROR + n_dims * _ROUNDING) * (np.sqrt(n_values) + _FAR)
    mu = (factor_error + product_error) * (1 + 2.0**-6)
    return n_values + int(np.ceil((mu**2 / 2 + _FAR * mu) / SAMPLING_LOSS))


@silent
def project_secretly(gram, *, scale, n_components):
    """Release ``S Z + scale N`` on a public grid, given the Gram matrix ``Z'Z`` alone; S and N are drawn and forgotten.

    Its rows are independent normal vectors with the covariance matrix ``Z'Z + scale^2 I``: a triangular factor takes
    the place of Z, and one pass over the rows is enough. Half of the variance of the noise is part of what is factored,
    so that no eigenvalue is near 0, also where ``Z'Z`` is singular; the other half is added on the grid and hides what
    floats round off, at the cost of :func:`secret_projection_n_changed`.
    """
    gram = np.array(gram, dtype=np.float64)
    if not np.isfinite(gram).all():
        raise ValueError("The Gram matrix is not finite: clip the rows to a bound that does not come from the data.")
    half = check_scale(float(scale) * np.sqrt(0.5) * (1 + 2.0**-40))
    gram[np.diag_indices_from(gram)] += half**2
    try:
        factor = cholesky(gram)
        released = np.ascontiguousarray(_noise.draw_gaussian((n_components, len(gram)), 1.0) @ factor)
        _noise.add_gaussian(released, half)
    except (FloatingPointError, np.linalg.LinAlgError):
        raise ValueError(
            f"The Gram matrix is too large for noise of scale {float(scale):.3g}: clip the rows."
        ) from None
    return released
