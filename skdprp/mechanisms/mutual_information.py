"""Gaussian noise measured in bits: what a release tells about one entry, given all else."""

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaincinv, log_ndtr, ndtr

from .._digits import with_python_numbers
from .._noise import SAMPLING_LOSS, check_scale
from ._numerics import bisect, cached, rounded_up
from .gaussian_laplace import gaussian_epsilon

_LEAST_NOISE = 2.0**-30  # of the longest that a projected column can be
_MOST_ROWS = 2**40
_CELLS = 2**12  # of the grid of norms, which costs a part in 80 of delta at most
_BEYOND = 2.0**-10  # share of delta that pays for norms beyond the grid


@with_python_numbers
def gaussian_information(*, scale, max_abs=1.0, n_components=1, min_residual=0.0):
    """Bound the bits that Gaussian noise lets through about one number of at most `max_abs`.

    `n_components` are the noisy copies of it, each multiplied by its own standard normal variate; `min_residual` is the
    norm of what hides it besides the noise, at least. The bound is the capacity of the channel when it is used with a
    power of `max_abs` squared, and the multipliers are known [1]_: no distribution of the number exceeds it.

    References
    ----------
    .. [1] T. Cover and J. Thomas, "Elements of Information Theory", 2nd edition, Theorem 9.1.1.
    """
    variance = scale**2 + min_residual**2
    if variance == 0:
        return float("inf")
    return float(np.log1p(n_components * max_abs**2 / variance) / (2 * np.log(2)))


@with_python_numbers
def information_delta(epsilon):
    """Convert MI-DP to (0, delta)-DP: the largest total variation distance that `epsilon` bits allow, rounded up.

    From one bit on it is 1: any secret bit may be lost.

    Notes
    -----
    Let the secret be one of two values with equal odds. Its posterior probability is ``(1 + u) / 2`` with
    ``E |u| = delta``, and the information is ``E[1 - h2((1 + |u|) / 2)]``, at least ``1 - h2((1 + delta) / 2)``
    because h2 is concave. A binary symmetric channel attains it.

    References
    ----------
    .. [1] P. Cuff and L. Yu, "Differential Privacy as a Mutual Information Constraint", CCS 2016, for the definition.
    """
    if epsilon >= 1:
        return 1.0

    def _is_enough(delta):
        # (1 - h2((1 + delta) / 2)) ln 2, written without cancellation.
        nats = delta * np.arctanh(delta) + np.log1p(-(delta**2)) / 2
        return nats * (1 - 2.0**-48) >= epsilon * np.log(2)

    return bisect(_is_enough, 0.0, min(1.0, pinsker_delta(epsilon) * (1 + 2.0**-40)))


@with_python_numbers
def pinsker_delta(epsilon):
    """Convert MI-DP to (0, delta)-DP by Pinsker's inequality, which is never below :func:`information_delta`.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018.
    """
    return float(min(1.0, np.sqrt(2 * epsilon * np.log(2))))


@cached
def projected_entry_epsilon(delta, *, scale, n_components, max_abs=1.0, min_residual=0.0):
    """Bound the epsilon of one entry, which moves by up to ``2 max_abs``, in a noisy Gaussian projection of its column.

    Notes
    -----
    Given the column s of S that multiplies the entry, and all that the entry does not touch, the release is a Gaussian
    mechanism of sensitivity ``2 max_abs |s|`` and variance ``sigma^2 + min_residual^2`` at least. ``|s|^2`` is chi
    squared with n' degrees of freedom, so that delta is the mean of the Gaussian profile over |s|. The profile grows
    with |s|: in each cell of a grid it is at most what it is at the end, and beyond the last cell at most 1.
    """
    spread = np.hypot(scale, min_residual)
    if spread == 0:
        return float("inf")
    k, beyond = n_components / 2, delta * _BEYOND
    # The factors are what quantiles and shares may be off by.
    norms = np.linspace(*np.sqrt([2 * gammaincinv(k, beyond), 2 * gammainccinv(k, beyond)]), _CELLS) * (1 + 2.0**-40)
    longer = gammaincc(k, norms**2 / 2)
    shares, mu = -np.diff(longer, prepend=1.0) * (1 + 2.0**-40), 2 * max_abs / spread * norms

    def _is_enough(epsilon):
        # As in gaussian_profile; the first term pays for digits that the difference loses.
        error = (1 + epsilon) * 2.0**-45
        profiles = (1 + error) * ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        return rounded_up(shares @ profiles + longer[-1]) <= delta

    # Half of delta for longer norms, and half for the noise at the longest other.
    longest = np.sqrt(2 * gammainccinv(k, delta / 2)) * (1 + 2.0**-40)
    enough = gaussian_epsilon(delta / 2, scale=spread, sensitivity=2 * max_abs * longest)
    return 0.0 if _is_enough(0.0) else bisect(_is_enough, 0.0, enough, digits=2.0**-20)


@with_python_numbers
def information_scale(epsilon, *, max_abs=1.0, n_components=1, min_residual=0.0, n_samples=None):
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
        Assumed of X, y (and a constant column, if one is projected too), and public: for every column j and row i, the
        least-squares residual of column j on the other columns and y has at least this norm when row i is left out.
        Above 0 it needs a secret S, and some noise all the same.
    n_samples : int or None, default=None
        Number n of rows of X, which is public. None stands for 2^40 with a `min_residual`; without one, for noise on
        the entries themselves, which nothing has rounded before.

    Returns
    -------
    float
        ``sqrt(max(0, n' max_abs^2 / (2^(2 epsilon) - 1) - min_residual^2))``, or ``2^-30 max_abs sqrt(n)`` if that is
        more.

    Notes
    -----
    The entry ``t = X_ij`` is in the projected column j only, ``S x_j = t s + R x``, with s column i of S, R the other
    columns, and x column j without row i. Reveal s, S y and the other columns of S X without noise. Split x into a
    combination of the other columns and y without row i, which the attacker can subtract, and a residual r. Because S
    is Gaussian, R r is independent of all that was revealed. What remains is ``t s + N(0, (sigma^2 + |r|^2) I)``. Its
    information about t, given s, is at most ``E log2(1 + max_abs^2 |s|^2 / (sigma^2 + |r|^2)) / 2``, and by Jensen's
    inequality at most ``gaussian_information``. With a `min_residual` of 0 all of S may be known to the attacker.

    This is proved of real numbers. Floats of S X are not Gaussian to the last bit, and without noise their last bits
    tell of what numbers they are sums of products. A column is at most ``max_abs sqrt(n)`` long; so is, but for a
    standard normal variate, each partial sum of its n products. They are rounded by a part in 2^53 each, and all of
    them together by about sqrt(n) times that, as roundings are not all to one side [2]_. The least noise is ``2^23 /
    sqrt(n)`` times that, a thousand times at 2^26 rows, and costs next to nothing.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, for the mechanisms; the residuals are ours.
    .. [2] N. Higham and T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM Journal on Scientific
       Computing, 2019.

    Examples
    --------
    >>> from skdprp.mechanisms import information_scale
    >>> round(information_scale(0.5), 9)
    1.0
    >>> round(information_scale(0.5, n_components=100, min_residual=8.0), 9)
    6.0
    """
    needed = max_abs * _unit_information_scale(epsilon) * np.sqrt(n_components) * (1 + 2.0**-39)
    # The root of a difference of squares, whose factors lose no digits where it is small; of none where the other
    # entries hide this one well enough.
    least = np.sqrt(max(0.0, needed - min_residual)) * np.sqrt(needed + min_residual) * (1 + 2.0**-40)
    # Never none: the last bits of floats without noise are no real numbers, and tell the entry.
    if n_samples is None:
        n_samples = _MOST_ROWS if min_residual > 0 else 0
    return check_scale(float(max(least, _LEAST_NOISE * max_abs * np.sqrt(n_samples))))


@with_python_numbers
def sampled_information(epsilon, *, n_changed):
    """Bits that ideal noise may let through so that the noise of :mod:`skdprp._noise` lets at most `epsilon` through.

    `n_changed` is the number m of released values that depend on the protected entry.

    Notes
    -----
    Let P be the ideal distribution of the release given the entry, and P~ the sampled one, within a factor e^a of it,
    where ``a = m 2^-31``; Q and Q~ are their mixtures over the entry. Then ``log(P~/Q~) <= log(P/Q) + 2 a``, and the
    mean of ``log(P/Q)`` under P~ is at most that under P plus ``e^a - 1`` times that of its absolute value. The latter
    is at most ``KL + 2 / e``. In nats, averaged over the entry, ``I~ <= e^a I + 2 a + (e^a - 1) 2 / e``.
    """
    loss = n_changed * SAMPLING_LOSS
    target = (epsilon - (2 * loss + 2 / np.e * np.expm1(loss)) / np.log(2)) * np.exp(-loss)
    if target <= 0:
        raise ValueError(f"epsilon={epsilon} is too small: {n_changed} values cannot be sampled to fewer bits.")
    return float(target)


def _unit_information_scale(epsilon):
    """``1 / sqrt(2^(2 epsilon) - 1)``, which does not overflow."""
    return np.exp2(-epsilon) / np.sqrt(-np.expm1(-2 * epsilon * np.log(2)))
