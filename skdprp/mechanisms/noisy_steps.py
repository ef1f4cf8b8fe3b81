"""Many noisy steps, each on all rows or on a secret sample of them."""

from functools import lru_cache

import numpy as np

from .._digits import with_python_numbers
from .._noise import SAMPLING_LOSS
from ._numerics import (
    boundary,
    cached,
    fourier_error,
    require_positive_delta,
    rounded_up,
    rows_that_differ,
    sampled_target,
)
from .gaussian_laplace import gaussian_profile, gaussian_scale
from .radial import spherical_scale
from .randomised_response import randomised_response_profile

_INTERVALS, _MOST_INTERVALS = 2.0**9, 2.0**15  # of the grid of losses: finer ones cost time and gain next to nothing
_REACH = 10.0  # standard deviations, beyond which dp-accounting counts all losses as infinite
_LEAST_MULTIPLIER, _LARGEST_MULTIPLIER = 2.0**-5, 2.0**500  # of the noise, beyond which dp-accounting overflows
_ALL = 1 - 2.0**-40  # a rate above which rows are taken to be always sampled
_FINEST = 2.0**-40  # grid of losses: finer ones are below what floats tell apart from 1
_DIGITS, _POWER = 2.0**-7, 2.0**-4  # together one part in 2048 of the scale
_SHARE_OF_TAIL = 2.0**-12  # of delta, for the sampling of many values
_LEAST_DELTA = 1.01  # in units of what the accounting of samples adds for rounding
_SHARES_OF_RESPONSES = (0.1, 0.5, 0.9)  # of delta: which is best depends on the number of steps


@with_python_numbers
def subsampled_gaussian_profile(epsilon, *, scale, sensitivity=1.0, rate=1.0, n_steps=1, adjacency="replace_one"):
    """Privacy profile of adaptively chosen Gaussian releases, each of a fresh Poisson sample of the rows.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats, at least 0.
    scale : float
        Standard deviation of the noise of each coordinate.
    sensitivity : float, default=1.0
        Largest l2 norm that one row adds to the sum that is released.
    rate : float, default=1.0
        Probability p with which each row is in the sample of a step, independently of all else.
    n_steps : int, default=1
        Number T of releases.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Neighbours differ in one row replaced at its place, or in whether the row at one place counts.

    Returns
    -------
    float
        A delta for which the releases together are (epsilon, delta)-DP: the least one without sampling; otherwise one
        above it, by a small share and by 2**-40, or 2**-49 for each step if these are more than 512. If the noise is
        below 1/32 of the sensitivity, or a row is sampled in any step with a probability of no more than that, it is
        the least one without sampling, times the probability that a row is ever sampled.

    Raises
    ------
    ImportError
        If `rate` is below 1 and dp-accounting is not installed.

    Notes
    -----
    Without sampling T Gaussian releases are one with sensitivity sqrt(T), or 2 sqrt(T) for a replaced row. With it the
    privacy loss l of a step of a row that counts or not is that between
    ``(1 - p) N(0, scale^2) + p N(D, scale^2)`` and ``N(0, scale^2)`` [1]_, the larger of the deltas of the two
    directions; of a replaced row that between the former and ``(1 - p) N(0, scale^2) + p N(-D, scale^2)``. Its
    distribution is rounded up to a grid and composed by a fast Fourier transform [2]_. The grid has 512 steps within
    the size that all losses have in the limit of many steps [3]_, and at most 2**15 within the largest of one.

    That two opposite vectors u and -u of norm D are the worst for a replaced row, at every epsilon, so that T steps are
    no worse than T steps of theirs, each chosen in view of the earlier ones [4]_: fix the sample of the other rows, of
    which both neighbours are mixtures with the same weights, and let the row add g or its replacement h, where it is in
    the sample. With f the density of the noise around 0, the delta at ``a = e^epsilon >= 1`` is the integral of the
    positive part of ``p f(x - g) - (1 - p) (a - 1) f(x) - a p f(x - h)``, that is ``E[(p - c X - d Y)+]`` with c and d
    at least 0 and ``X = f(x) / f(x - g)``, ``Y = f(x - h) / f(x - g)`` for x around g: two lognormal variables of mean
    1, whose logarithms have the variances ``|g|^2`` and ``|g - h|^2`` and the covariance ``<g, g - h>``, over scale^2.
    On the line from one covariance matrix S to another one, the derivative of ``E[F(X, Y)]`` is half the sum of
    ``dS_ij E[X_i X_j F_ij]``, and here ``F_ij >= 0`` for every i and j (in a smooth approximation of the positive
    part): the expectation grows in all three entries. All three are largest at ``g = -h`` of norm D. Epsilons below 0
    are the other direction, of which the same is true.

    References
    ----------
    .. [1] M. Abadi, A. Chu, I. Goodfellow, H. B. McMahan, I. Mironov, K. Talwar and L. Zhang, "Deep Learning with
       Differential Privacy", CCS 2016.
    .. [2] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar and P. Manurangsi, "Connect the Dots: Tighter Discrete
       Approximations of Privacy Loss Distributions", PETS 2022.
    .. [3] J. Dong, A. Roth and W. Su, "Gaussian Differential Privacy", JRSS B 2022.
    .. [4] Y. Zhu, J. Dong and Y.-X. Wang, "Optimal Accounting of Differential Privacy via Characteristic Function",
       AISTATS 2022, Theorem 10.

    Examples
    --------
    >>> from skdprp.mechanisms import subsampled_gaussian_profile
    >>> f"{subsampled_gaussian_profile(1.0, scale=74.612, n_steps=100):.2e}"
    '1.00e-05'
    >>> known = {"scale": 1.0, "rate": 0.01, "n_steps": 1000}
    >>> f"{subsampled_gaussian_profile(1.83, **known, adjacency='add_remove'):.1e}"
    '9.9e-06'
    >>> f"{subsampled_gaussian_profile(2.85, **known):.1e}"
    '9.7e-06'
    """
    of_all = rows_that_differ(adjacency) * sensitivity * np.sqrt(n_steps)
    unsampled = gaussian_profile(epsilon, scale=scale, sensitivity=of_all)
    if rate >= _ALL:
        return unsampled
    if np.isnan(epsilon):
        return 1.0  # the accountant would find no loss above it
    if sensitivity == 0 or scale == np.inf:
        return float(0.0 - np.expm1(min(epsilon, 0.0)))
    # With little noise, or a row that is hardly ever sampled, no more is known than in which steps it is sampled.
    ever_sampled = -np.expm1(n_steps * np.log1p(-rate))
    if scale < _LEAST_MULTIPLIER * sensitivity or ever_sampled <= fourier_error(n_steps):
        return float(ever_sampled * unsampled - (1 - ever_sampled) * np.expm1(min(epsilon, 0.0)))
    composed = _composed_losses(min(scale / sensitivity, _LARGEST_MULTIPLIER), rate, n_steps, adjacency)
    return float(min(max(0.0, composed.get_delta_for_epsilon(epsilon)) + fourier_error(n_steps), 1.0))


@lru_cache(maxsize=8)
def _composed_losses(multiplier, rate, n_steps, adjacency):
    """Privacy loss distribution of all steps, rounded up."""
    try:
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError as error:
        raise ImportError(
            'Accounting for random batches needs dp-accounting: python -m pip install "skdprp[pld]"; all rows at each '
            "step, batch_size=None, do without."
        ) from error
    is_replaced = rows_that_differ(adjacency) == 2
    step = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier,
        sampling_prob=rate,
        value_discretization_interval=_grid_step(multiplier, rate, n_steps, adjacency),
        pessimistic_estimate=True,
        neighboring_relation=NeighboringRelation.REPLACE_ONE if is_replaced else NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return step.self_compose(n_steps)


def _grid_step(multiplier, rate, n_steps, adjacency):
    """A share of the size of all losses, but not so small that the losses of a step fill the memory."""
    rows, square = rows_that_differ(adjacency), multiplier**-2.0
    # Many steps are like one Gaussian release of this sensitivity, which is the size of their privacy losses.
    of_a_step = min(square, rate**2 * (np.sinh if rows == 2 else np.expm1)(min(square, 100.0)))
    mu = rows * float(np.sqrt(n_steps * of_a_step))
    largest = np.logaddexp(np.log1p(-rate), np.log(rate) + 0.5 / multiplier**2 + _REACH / multiplier)
    if rows == 2:  # the same value under the other row
        largest -= np.logaddexp(np.log1p(-rate), np.log(rate) - 1.5 / multiplier**2 - _REACH / multiplier)
    return float(max(mu / _INTERVALS, largest / _MOST_INTERVALS, _FINEST))


@with_python_numbers
def amplified(epsilon, delta, *, rate):
    """Guarantee of a mechanism that sees a Poisson sample of the rows: ``ln(1 + p (e^epsilon - 1))`` and ``p delta``.

    On the sample (epsilon, delta) holds when one of its rows counts or not; or, for a row replaced at its place, when
    one is replaced or does not count.

    Notes
    -----
    For a replaced row both neighbours are the mechanism without the row with probability 1 - p, and otherwise that with
    the one row or the other: by advanced joint convexity [1]_ delta is p times a mean of the deltas at epsilon between
    the one row and none, and between both rows.

    References
    ----------
    .. [1] B. Balle, G. Barthe and M. Gaboardi, "Privacy Amplification by Subsampling: Tight Analyses via Couplings and
       Divergences", NeurIPS 2018, Theorems 2 and 8.
    """
    if epsilon > 1:  # where e^epsilon may overflow
        return float(epsilon + np.log(rate + (1 - rate) * np.exp(-epsilon))), rate * delta
    return float(np.log1p(rate * np.expm1(epsilon))), rate * delta


@with_python_numbers
def composed_profile(epsilon, *, step_epsilon, step_delta, n_steps):
    """Exact profile of the worst adaptive composition of mechanisms with one (epsilon, delta) each.

    ``1 - (1 - step_delta)^T (1 - HS)`` [1]_, with HS the profile of T randomised responses.

    References
    ----------
    .. [1] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015,
       Theorem 3.3.
    """
    responses = randomised_response_profile(epsilon, epsilon0=step_epsilon, n_bits=n_steps)
    failure = -np.expm1(n_steps * np.log1p(-step_delta)) if step_delta < 1 else 1.0
    return float(failure + (1 - failure) * responses)


@with_python_numbers
def sampled_steps_target(epsilon, delta, *, n_changed):
    """Target that ideal noise must meet so that very many sampled values together meet (epsilon, delta).

    `n_changed` is the number m of released values, of all steps, that may differ between neighbours.

    Notes
    -----
    Each sampled value has its ideal probability to within a factor exp(eta), eta = 2^-31, whatever came before, if the
    noise of each value is independent: Gaussian or Laplace noise is, spherical noise is not. That is a factor
    exp(m eta) at worst, see :func:`sampled_target`; but the log-ratio of all values is a sum of terms in
    [-eta, eta] with conditional expectations of at most eta^2 / 2, which by the inequality of Azuma and Hoeffding
    exceeds ``s = m eta^2 / 2 + eta sqrt(2 m ln(1 / d))`` with probability d at most. So for every set of releases
    ``P~ <= e^s P + d``, ``P <= e^(epsilon - 2 s) Q + delta'`` and ``Q <= e^s Q~ + d``, which together are the target.
    The smaller cost of the two is charged; d (1 + e^epsilon) is `delta` / 4096.
    """
    log_tail = np.log(delta * _SHARE_OF_TAIL) - np.logaddexp(0, epsilon)
    loss = n_changed * SAMPLING_LOSS**2 / 2 + SAMPLING_LOSS * np.sqrt(-2 * n_changed * log_tail)
    if loss >= n_changed * SAMPLING_LOSS or 2 * loss >= epsilon:
        return sampled_target(epsilon, delta, n_changed=n_changed)
    return float(epsilon - 2 * loss), float(delta * (1 - _SHARE_OF_TAIL) * np.exp(-loss))


@cached
def descent_scale(epsilon, delta, *, rate=1.0, n_steps=1, adjacency="replace_one"):
    """Calibrate Gaussian noise of many steps, each on a Poisson sample of the rows, rounding to the private side.

    For a sum to which one row adds a vector of norm 1, as in :func:`subsampled_gaussian_profile`; with sampling the
    scale is at most one part in 2048 above the least.
    """
    require_positive_delta(delta)
    rows = rows_that_differ(adjacency)
    if rate == 1.0:
        return gaussian_scale(epsilon, delta, sensitivity=float(rows * np.sqrt(n_steps)))
    if delta < (least := _LEAST_DELTA * fourier_error(n_steps)):
        raise ValueError(
            f"delta={delta:.3g} is below {least:.3g}, down to which {n_steps} steps on random batches are accounted "
            "for: choose a larger delta, or all rows at each step, batch_size=None."
        )
    # By the central limit the steps are like one Gaussian release. From there, to search in powers keeps close to it.
    ratio = 1 / (gaussian_scale(epsilon, delta) * rows * rate * np.sqrt(n_steps))
    likely = float((np.arcsinh if rows == 2 else np.log1p)(ratio**2) ** -0.5)

    def _scale(factor):
        return likely * factor**_POWER

    def _meets(factor):
        profile = subsampled_gaussian_profile(
            epsilon, scale=_scale(factor), rate=rate, n_steps=n_steps, adjacency=adjacency
        )
        return rounded_up(profile) <= delta

    return _scale(boundary(_meets, start=1.0, digits=_DIGITS))


@cached
def product_descent_scale(epsilon, delta, *, rate=1.0, n_steps=1, n_dims, adjacency="replace_one"):
    """Calibrate multivariate Laplace noise of many steps, each on a Poisson sample, rounding to the private side.

    Returned is the scale s of the radius, for a sum of `n_dims` coordinates to which one row adds a vector of norm 1.

    Notes
    -----
    A share of `delta`, the best of three, pays for T randomised responses; the rest for the deltas of the steps. This
    fixes the guarantee of each step on its sample, which the exact profile turns into s. Composing (epsilon, delta)
    pairs loses much of what the profile of a step knows, so that for many steps Gaussian noise is smaller.

    References
    ----------
    .. [1] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.
    """
    require_positive_delta(delta)
    targets = [_step_target(epsilon, delta, share, rate, n_steps) for share in _SHARES_OF_RESPONSES]
    rows = float(rows_that_differ(adjacency))
    return min(spherical_scale(*target, sensitivity=rows, n_dims=n_dims, shape=n_dims, power=1) for target in targets)


def _step_target(epsilon, delta, share, rate, n_steps):
    """Guarantee of one step on its sample, such that all steps together meet (epsilon, delta)."""

    def _meets(factor):
        profile = randomised_response_profile(epsilon, epsilon0=epsilon / factor, n_bits=n_steps)
        return rounded_up(profile) <= share * delta

    # What rounding may take is taken off the targets of a step, so that their composition stays within the whole one.
    step_epsilon = _deamplified(epsilon / boundary(_meets, start=float(n_steps)), rate)
    failure = (1 - share) * delta / (1 - share * delta)
    step_delta = -np.expm1(np.log1p(-failure) / n_steps) / rate
    return float(step_epsilon * (1 - 2.0**-40)), float(min(step_delta * (1 - 2.0**-40), 1.0))


def _deamplified(epsilon, rate):
    """Epsilon on a sample that comes to this one on all rows, see :func:`~skdprp.mechanisms.amplified`."""
    if epsilon > 1:
        return epsilon + np.log1p(-(1 - rate) * np.exp(-epsilon)) - np.log(rate)
    return np.log1p(np.expm1(epsilon) / rate)
