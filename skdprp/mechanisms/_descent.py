"""Scales of the noise of many steps, and what their sampling costs."""

import numpy as np

from .._digits import with_python_numbers
from .._noise import SAMPLING_LOSS
from ..accounting import (
    amplified,
    composed_profile,
    randomised_response_profile,
    spherical_profile,
    subsampled_gaussian_profile,
)
from ..accounting._neighbours import rows_that_differ
from ..accounting._rounding import rounded_up
from ._additive import gaussian_scale, published_product_noise_scale, spherical_scale
from ._calibration import boundary, remembered, require_positive_delta, sampled_target

_DIGITS, _POWER = 2.0**-7, 2.0**-4
_SHARE_OF_TAIL = 2.0**-12
_FINEST_DELTA = 1.01 * 2.0**-40  # what the accounting of samples adds for rounding, and a little
_SHARES_OF_RESPONSES = (0.1, 0.5, 0.9)


@with_python_numbers
def sampled_steps_target(epsilon, delta, *, n_changed):
    """Target that ideal noise must meet so that very many sampled values together meet (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        Target of all releases together.
    n_changed : int
        Number m of released values, of all steps, that may differ between neighbours.

    Returns
    -------
    epsilon, delta : float
        ``epsilon - 2 s`` and ``e^-s (delta - d (1 + e^epsilon))``, with s and d as in the notes.

    Raises
    ------
    ValueError
        If `epsilon` is too small for `n_changed`.

    Notes
    -----
    Each sampled value has its ideal probability to within a factor exp(eta), eta = 2^-31, whatever came before, if the
    noise of each value is independent: Gaussian or Laplace noise is, spherical noise is not. That is
    a factor exp(m eta) at worst, see :func:`sampled_target`; but the log-ratio of all values is a sum of terms in
    [-eta, eta] with conditional expectations of at most eta^2 / 2, which by the inequality of Azuma and Hoeffding
    exceeds ``s = m eta^2 / 2 + eta sqrt(2 m ln(1 / d))`` with probability d at most. So for every set of releases
    ``P~ <= e^s P + d``, ``P <= e^(epsilon - 2 s) Q + delta'`` and ``Q <= e^s Q~ + d``, which together are the target.
    The smaller cost of the two is charged; d (1 + e^epsilon) is `delta` / 4096.

    Examples
    --------
    >>> from skdprp.mechanisms import sampled_steps_target, sampled_target
    >>> known = {"epsilon": 2.0, "delta": 1e-5, "n_changed": 10**8}
    >>> print(f"{2 - sampled_steps_target(**known)[0]:.1e} {2 - sampled_target(**known)[0]:.1e}")
    6.2e-05 9.3e-02
    """
    log_tail = np.log(delta * _SHARE_OF_TAIL) - np.logaddexp(0, epsilon)
    loss = n_changed * SAMPLING_LOSS**2 / 2 + SAMPLING_LOSS * np.sqrt(-2 * n_changed * log_tail)
    if loss >= n_changed * SAMPLING_LOSS or 2 * loss >= epsilon:
        return sampled_target(epsilon, delta, n_changed=n_changed)
    return float(epsilon - 2 * loss), float(delta * (1 - _SHARE_OF_TAIL) * np.exp(-loss))


@remembered
def descent_scale(epsilon, delta, *, rate=1.0, n_steps=1, adjacency="replace_one"):
    """Calibrate Gaussian noise of many steps, each on a Poisson sample of the rows, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target: :func:`~skdprp.accounting.subsampled_gaussian_profile` at `epsilon` is at most `delta`.
    rate : float, default=1.0
        Probability with which each row is in the sample of a step.
    n_steps : int, default=1
        Number of steps.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row replaced at its place, or in whether the row at one place counts.

    Returns
    -------
    float
        Standard deviation of the noise on a sum to which one row adds a vector of norm 1; with sampling at most one
        part in 2048 above the least.

    Raises
    ------
    ValueError
        If `delta` is not positive, or below what the accounting of samples resolves.
    ImportError
        If `rate` is below 1 and dp-accounting is not installed.

    Examples
    --------
    >>> from skdprp.mechanisms import descent_scale
    >>> round(descent_scale(1.0, 1e-5, n_steps=100, adjacency="add_remove"), 3)
    37.306
    >>> round(descent_scale(1.0, 1e-5, n_steps=100), 3)
    74.613
    >>> round(descent_scale(2.0, 1e-5, rate=0.01, n_steps=1000), 2)
    1.3
    """
    require_positive_delta(delta)
    rows = rows_that_differ(adjacency)
    if rate == 1.0:
        return gaussian_scale(epsilon, delta, sensitivity=float(rows * np.sqrt(n_steps)))
    if delta < _FINEST_DELTA:
        raise ValueError(
            f"delta={delta:.3g} is below 2**-40, which the accounting of random batches does not resolve: choose a "
            "larger delta, or all rows at each step, batch_size=None."
        )
    # By the central limit the steps are like one Gaussian release. From there, to search in powers keeps close to it.
    ratio = 1 / (gaussian_scale(epsilon, delta) * rows * rate * np.sqrt(n_steps))
    likely = float((np.arcsinh if rows == 2 else np.log1p)(ratio**2) ** -0.5)

    def _scale(factor):
        return likely * factor**_POWER

    def _meets(factor):
        known = {"scale": _scale(factor), "rate": rate, "n_steps": n_steps, "adjacency": adjacency}
        return rounded_up(subsampled_gaussian_profile(epsilon, **known)) <= delta

    return _scale(boundary(_meets, start=1.0, digits=_DIGITS))


@remembered
def product_descent_scale(epsilon, delta, *, rate=1.0, n_steps=1, n_dims, adjacency="replace_one"):
    """Calibrate multivariate Laplace noise of many steps, each on a Poisson sample, rounding to the private side.

    Parameters
    ----------
    epsilon, delta : float
        Target of all steps together.
    rate : float, default=1.0
        Probability p with which each row is in the sample of a step.
    n_steps : int, default=1
        Number T of steps.
    n_dims : int
        Number M of released coordinates of a step.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row replaced at its place, or in whether the row at one place counts.

    Returns
    -------
    float
        Scale s of the radius, which is s times a Gamma variate of shape `n_dims`, for a sum to which one row adds a
        vector of norm 1.

    Raises
    ------
    ValueError
        If `delta` is not positive.

    Notes
    -----
    A share of `delta`, the best of three, pays for T randomised responses; the rest for the deltas of the steps. This
    fixes the guarantee of each step on its sample, which the exact profile turns into s. Composing (epsilon, delta)
    pairs loses much of what the profile of a step knows, so that for many steps Gaussian noise is smaller.

    References
    ----------
    .. [1] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.

    Examples
    --------
    >>> from skdprp.mechanisms import product_descent_scale
    >>> round(product_descent_scale(1.0, 1e-5, n_steps=10, n_dims=20), 2)
    14.05
    """
    require_positive_delta(delta)
    targets = [_step_target(epsilon, delta, share, rate, n_steps) for share in _SHARES_OF_RESPONSES]
    law = {"n_dims": n_dims, "shape": n_dims, "power": 1, "sensitivity": float(rows_that_differ(adjacency))}
    return min(spherical_scale(*target, **law) for target in targets)


@remembered
def published_product_descent(epsilon, delta, *, rate=1.0, n_steps=1, n_dims, adjacency="replace_one"):
    """Calibrate half-normal product noise of many steps as published, and compute what it really gives.

    Parameters
    ----------
    epsilon, delta : float
        Target that is claimed for all steps together.
    rate : float, default=1.0
        Probability p with which each row is in the sample of a step.
    n_steps : int, default=1
        Number T of steps.
    n_dims : int
        Number M of released coordinates of a step, at least 4.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row replaced at its place, or in whether the row at one place counts.

    Returns
    -------
    scale : float
        Scale of the half-normal radius, sqrt(2) times its sigma, for a sum to which one row adds a vector of norm 1.
    true_delta : float
        Delta of all steps at `epsilon`, from the exact profile of a step.

    Raises
    ------
    ValueError
        If `delta` is not positive, or there are fewer than 4 coordinates.

    References
    ----------
    .. [1] Liu, Ji, Fang, Wei and Li, "Privacy Loss of Noise Perturbation via Concentration Analysis of a Product
       Measure", SIGMOD 2026, Algorithm 1 for the scale of a step, whose proof does not hold.
    .. [2] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, in the
       place of the composition of [1]_.

    Examples
    --------
    >>> from skdprp.mechanisms import published_product_descent
    >>> scale, true_delta = published_product_descent(1.0, 1e-5, n_steps=10, n_dims=1000)
    >>> round(true_delta, 2)
    0.9
    """
    require_positive_delta(delta)
    known = {"n_dims": n_dims, "sensitivity": float(rows_that_differ(adjacency))}
    sigmas = {}
    for share in _SHARES_OF_RESPONSES:
        target = _step_target(epsilon, delta, share, rate, n_steps)
        sigmas[published_product_noise_scale(*target, **known)] = target[0]
    sigma = min(sigmas)
    scale = float(np.sqrt(2) * sigma)
    step_delta = spherical_profile(sigmas[sigma], scale=scale, **known, shape=1, power=2)
    step_epsilon, step_delta = amplified(sigmas[sigma], step_delta, rate=rate)
    step = {"step_epsilon": step_epsilon * (1 + 2.0**-40), "step_delta": rounded_up(step_delta)}
    return scale, rounded_up(composed_profile(epsilon, **step, n_steps=n_steps))


def _step_target(epsilon, delta, share, rate, n_steps):
    """Guarantee of one step on its sample, such that all steps together meet (epsilon, delta)."""

    def _meets(factor):
        profile = randomised_response_profile(epsilon, epsilon0=epsilon / factor, n_bits=n_steps)
        return rounded_up(profile) <= share * delta

    step_epsilon = _deamplified(epsilon / boundary(_meets, start=float(n_steps)), rate)
    failure = (1 - share) * delta / (1 - share * delta)
    step_delta = -np.expm1(np.log1p(-failure) / n_steps) / rate
    return float(step_epsilon * (1 - 2.0**-40)), float(min(step_delta * (1 - 2.0**-40), 1.0))


def _deamplified(epsilon, rate):
    """Epsilon on a sample that comes to this one on all rows, see :func:`~skdprp.accounting.amplified`."""
    if epsilon > 1:
        return epsilon + np.log1p(-(1 - rate) * np.exp(-epsilon)) - np.log(rate)
    return np.log1p(np.expm1(epsilon) / rate)
