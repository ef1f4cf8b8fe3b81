r"""A privacy filter: a limit that no sequence of releases passes, however each depends on those before.

Composition is exact for parameters that were fixed beforehand. Where a later epsilon, or the decision to go on, depends
on earlier outputs, sums have to stay below bounds that were fixed beforehand. Every release is priced in one currency.
It is dominated by a coin that tells all with a probability d, and otherwise Gaussian noise of ratio mu:

    profile(eps) <= d + (1 - d) dG(eps; mu)   for all eps >= 0,

and the sampling of its noise costs a factor e^s, as in `sampled_target`. Along each path of the releases

    sum mu_i^2 <= B^2,   sum d_i <= D,   sum s_i <= S.

**All releases together are (eps, delta)-DP** if ``e^S (dG(eps - 2 S; B) + D) <= delta``. For, the coins have the same
odds for both neighbours, so that some coin tells all with a probability of at most D under both; without coins, noise
of ratios whose squares sum up to at most B^2, chosen adaptively, tells no more than noise of ratio B (A. Smith and
A. Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy", 2022: what is left of the budget may be
spent on one more Gaussian, whose output nobody reads); and each sampled distribution is within e^s of the ideal one, in
both directions, along each path.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtr, ndtri_exp

from ..mechanisms import gaussian_profile
from ..mechanisms._numerics import bisect, rounded_up

_SHARE_OF_COINS = 0.1  # of delta; costs less than a hundredth of B
_SHARE_OF_SAMPLING, _MOST_SAMPLING = 0.005, 0.1  # of epsilon, and at most
_ROUND_UP = 1 + 2.0**-40
_SMALL = 2.0**-10  # of an epsilon: its bound is within 1.8e-8 then, and logarithms are exact enough beyond
_TOP, _CELLS = 60.0, 1000


class Price(NamedTuple):
    """What a release costs, and what all may: mu^2, coins, and sampling."""

    square: float = 0.0
    coins: float = 0.0
    sampling: float = 0.0


def fits(costs, budget):
    """Whether no part is more than that of a budget."""
    return all(cost <= most for cost, most in zip(costs, budget, strict=False))  # of none, there may be more


@lru_cache(maxsize=16)
def budget(epsilon, delta):
    """Prices up to which all releases together are (epsilon, delta)-DP."""
    sampling = min(_SHARE_OF_SAMPLING * epsilon, _MOST_SAMPLING)
    coins = _SHARE_OF_COINS * delta

    def _is_enough(ratio):
        # Of too much noise there is no shortage: the largest ratio that holds is looked for as the least inverse.
        profile = rounded_up(gaussian_profile(epsilon - 2 * sampling, scale=ratio))
        return np.exp(sampling) * (profile + coins) * _ROUND_UP <= delta

    least = bisect(_is_enough, 2.0**-40, 2.0**60)
    if not _is_enough(least):
        return Price()
    return Price(float(least) ** -2 / _ROUND_UP, coins, sampling)


def price(guarantee):
    """Price of one release: a Gaussian ratio and a coin that dominate its profile."""
    # By epsilon: the Gaussian that dominates randomised response. Their trade-off curves meet at both ends and where
    # both errors are 1 / (1 + e^epsilon); in between, that of the Gaussian, which is convex, lies below the two chords,
    # which are the other. Thus Phi(ratio / 2) is the logistic function F of epsilon.
    if guarantee.epsilon < _SMALL:
        # Where that cannot be told from 1/2, ratio <= epsilon sqrt(pi / 2): G(x) = Phi(x sqrt(pi / 8)) has the value
        # and the slope of F at 0 and its limit at infinity, and (log G'/F')' = tanh(x / 2) - pi x / 8 changes its sign
        # once, from above, so that G >= F.
        ratio = _ROUND_UP * (guarantee.epsilon * math.sqrt(math.pi / 2))
    else:
        ratio = -2 * _ROUND_UP * float(ndtri_exp(log_expit(-guarantee.epsilon)))
    by_epsilon = Price(_square(ratio) * _ROUND_UP, guarantee.delta)
    if guarantee.loss is None:
        return by_epsilon
    dominating = [_dominating(profile) for profile in guarantee.loss.profiles]
    square = _square(guarantee.loss.mu) + sum(_square(ratio) for ratio, _ in dominating)
    coins = guarantee.loss.failure_probability + sum(coin for _, coin in dominating)
    by_loss = Price(square * _ROUND_UP, coins * _ROUND_UP, guarantee.loss.sampling)
    # Both hold. That of a loss is infinite where no Gaussian that is tried dominates its profile.
    return by_epsilon if fits(by_epsilon, by_loss) or math.isinf(by_loss.square) else by_loss


def epsilon_of_gaussian(ratio, delta):
    """Epsilon up to which noise at this delta is no more costly than Gaussian noise of a ratio, rounded down."""

    def _is_within(epsilon):
        return gaussian_profile(epsilon, scale=1 / ratio) <= delta

    return 0.0 if _is_within(0.0) else bisect(_is_within, 0.0, 2.0**20) * (1 - 2.0**-20)


def _square(ratio):
    return ratio * ratio  # infinite where it is too large: ** raises an error


@lru_cache(maxsize=256)
def _dominating(profile):
    """Ratio, to a part in a hundred, and coin that dominate a profile.

    Profiles decrease: what holds at the right end of a cell for the value at its left end holds within the cell. The
    coin is a little above what a profile ends at: convolutions leave a rounding of that size, which a ratio would pay.
    """
    coin = profile(_TOP) * (1 + 2.0**-7)
    if coin >= 1:
        return float("inf"), 1.0
    ends = np.concatenate([[0.0], np.geomspace(1e-6, _TOP, _CELLS)])
    excess = np.array([(profile(epsilon) - coin) / (1 - coin) for epsilon in ends[:-1]]) * _ROUND_UP
    right, excess = ends[1:][excess > 0], excess[excess > 0]
    if not len(right):
        return 0.0, coin
    ratio = bisect(lambda ratio: (_gaussian_profiles(right, ratio) >= excess).all(), 0.0, 2.0**10, digits=2.0**-12)
    while ratio < 2.0**10:
        exact = (gaussian_profile(epsilon, scale=1 / ratio) / _ROUND_UP for epsilon in right)
        if all(profile >= value for profile, value in zip(exact, excess, strict=True)):
            return float(ratio), coin
        ratio *= 1 + 2.0**-10
    return float("inf"), coin


def _gaussian_profiles(epsilon, ratio):
    """Profile of Gaussian noise at many epsilons, with little accuracy where it is small."""
    if not ratio:
        return np.zeros_like(epsilon)
    shift = epsilon / ratio
    return ndtr(ratio / 2 - shift) - np.exp(epsilon + log_ndtr(-ratio / 2 - shift))
