"""Scales of noise under mutual-information differential privacy."""

import numpy as np

from .._digits import with_python_numbers
from .._noise import SAMPLING_LOSS, check_scale


@with_python_numbers
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
    if needed <= min_residual:
        return 0.0
    return check_scale(float(np.sqrt(needed - min_residual) * np.sqrt(needed + min_residual) * (1 + 2.0**-40)))


@with_python_numbers
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


@with_python_numbers
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
