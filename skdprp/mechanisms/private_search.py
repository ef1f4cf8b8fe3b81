"""Private search: the best of a secret number of private trials."""

import math

import numpy as np

from .._digits import with_python_numbers
from ._numerics import cached, calibrated, require_positive_delta
from .gaussian_laplace import gaussian_profile

_ROOM = 2.0**-10  # of the distance of a trial: for what its sampling and its steps besides a Gaussian one cost
_LEAST_SHARE = 2.0**-6
_ROUND_DOWN = 1 - 2.0**-30  # what profiles round up, and more


@with_python_numbers
def private_search_profile(epsilon, *, n_trials, trial_epsilon, trial_delta, trial_distance):
    """Privacy profile of a search: the best of N private trials, N a positive Poisson variable that stays secret.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats, at least 0.
    n_trials : float
        Mean m of the Poisson variable. N is drawn given that it is not 0, so that ``m / (1 - e^-m)`` trials run on
        average.
    trial_epsilon, trial_delta : float
        Each trial is (trial_epsilon, trial_delta)-DP, all that it would release taken together: the candidate, the
        model and its score.
    trial_distance : float
        Total variation distance of a trial on two neighbours, at most: its delta at epsilon 0.

    Returns
    -------
    float
        A delta such that the search is (epsilon, delta)-DP.

    Notes
    -----
    A trial is a draw y from a distribution Q that depends on the data, all trials are independent, and the candidate is
    a part of each draw: were the sequence of candidates public, a later one that wins would tell that N is not small,
    and nothing below would hold. The largest y wins, in an order that does not depend on the data; which one of equal
    ones does is decided by an independent uniform number, and whether one draws that or takes the first makes no
    difference, as trials are exchangeable. With F(y) the probability that a trial is below y and
    ``f(z) = E[z^N] = (e^(m z) - 1) / (e^m - 1)``, the winner has the density ``f'(F(y))`` with respect to Q, and

        f'(F) = m e^(m F) / (e^m - 1) <= M = m / (1 - e^-m),   f'(F) / f'(F') = e^(m (F - F')) <= e^(m t),

    for the F' of a neighbour is off by the total variation distance t at most. So, for each set S of results,

        P(S) - e^epsilon P'(S) <= integral over S of f'(F) (dQ - e^(epsilon - m t) dQ') <= M d(epsilon - m t),

    where d is the profile of a trial. It is convex in e^epsilon, so that it lies below the chord from t at 0 to
    `trial_delta` at `trial_epsilon`. And as the trials of two neighbours can be drawn such that each pair differs with
    probability t, the winners differ with probability ``1 - f(1 - t)`` at most, which bounds delta at every epsilon.

    References
    ----------
    .. [1] A. Koskela, R. Redberg and Y.-X. Wang, "Privacy Profiles for Private Selection", arXiv:2402.06701, for
       Poisson variables that may be 0.
    .. [2] N. Papernot and T. Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022.

    Examples
    --------
    >>> from skdprp.mechanisms import private_search_profile
    >>> trial = {"trial_epsilon": 0.5, "trial_delta": 1e-7, "trial_distance": 0.04}
    >>> f"{private_search_profile(0.9, n_trials=10, **trial):.2e}"
    '1.00e-06'
    """
    if not (n_trials > 0 and 0 <= trial_distance <= 1 and 0 <= trial_delta <= 1 and trial_epsilon >= 0):
        raise ValueError("A search needs n_trials > 0, and trials with a delta and a distance between 0 and 1.")
    if not epsilon >= 0:
        return 1.0  # of which the chord says nothing
    # At least t: of a tiny number of trials the products underflow.
    either = max(float(np.expm1(-n_trials * trial_distance) / np.expm1(-n_trials)), trial_distance)
    left = epsilon - n_trials * trial_distance
    if left < 0:
        return min(1.0, either)
    trial = min(trial_delta, trial_distance)
    if left < trial_epsilon:
        # (e^trial_epsilon - e^left) / (e^trial_epsilon - 1), written so that nothing overflows.
        share = np.expm1(left - trial_epsilon) / np.expm1(-trial_epsilon)
        trial += (trial_distance - trial) * float(share)
    return float(min(1.0, either, n_trials / -np.expm1(-n_trials) * trial))


@with_python_numbers
def searched_profile(epsilon, *, n_trials, trial_distance, losses):
    """Privacy profile of a search whose trials release one of several things, such as one of several models.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats, at least 0.
    n_trials : float
        Mean of the Poisson variable, see :func:`private_search_profile`.
    trial_distance : float
        Total variation distance of a trial on two neighbours, at most.
    losses : tuple of PrivacyLoss
        Of each thing that a trial may release.

    Returns
    -------
    float
        A delta such that the search is (epsilon, delta)-DP.

    Notes
    -----
    A trial draws which of them it releases, so that its delta is a mean of theirs at every epsilon, and no more than
    the largest. The rest is :func:`private_search_profile`, with ``epsilon - n_trials * trial_distance`` as the epsilon
    of a trial.

    Examples
    --------
    >>> from skdprp.composition import PrivacyLoss
    >>> from skdprp.mechanisms import searched_profile
    >>> f"{searched_profile(1.0, n_trials=10, trial_distance=0.045, losses=(PrivacyLoss(mu=0.11),)):.1e}"
    '7.7e-08'
    """
    left = max(epsilon - n_trials * trial_distance, 0.0)
    trial = {"trial_epsilon": left, "trial_delta": max(loss.profile(left) for loss in losses)}
    return private_search_profile(epsilon, n_trials=n_trials, trial_distance=trial_distance, **trial)


@cached
def private_search_trial(epsilon, delta, *, n_trials, trial_distance=None):
    """Calibrate a search: what each of its trials may cost.

    Parameters
    ----------
    epsilon, delta : float
        Target of the search.
    n_trials : float
        Mean of the Poisson variable, see :func:`private_search_profile`.
    trial_distance : float or None, default=None
        Total variation distance that trials keep to; None for that of a Gaussian mechanism.

    Returns
    -------
    trial_epsilon, trial_delta, trial_distance : float
        A search whose trials keep to all three meets the target. A Gaussian mechanism that meets the first two keeps to
        the third, if that is None.

    Raises
    ------
    ValueError
        If `delta` or `n_trials` is not positive, or `epsilon` too small for so many trials at this distance.

    Examples
    --------
    The noise of a trial is about twice that of a single fit:

    >>> from skdprp.mechanisms import gaussian_scale, private_search_trial
    >>> trial_epsilon, trial_delta, _ = private_search_trial(1.0, 1e-6, n_trials=10)
    >>> round(gaussian_scale(trial_epsilon, trial_delta) / gaussian_scale(1.0, 1e-6), 1)
    2.0
    """
    require_positive_delta(delta)
    if n_trials == 0:
        raise ValueError("A search needs n_trials > 0.")

    def _profile_of_gaussian_trials(scale):
        distance = min(1.0, gaussian_profile(0.0, scale=scale) * (1 + _ROOM))
        left = epsilon - n_trials * distance
        if left < _LEAST_SHARE * epsilon:  # a large delta would leave nothing of epsilon to calibrate a trial to
            return 1.0
        trial = {"trial_epsilon": left, "trial_delta": gaussian_profile(left, scale=scale), "trial_distance": distance}
        return private_search_profile(epsilon, n_trials=n_trials, **trial)

    trial_delta = delta * -math.expm1(-n_trials) / n_trials * _ROUND_DOWN
    if trial_distance is None:
        scale = calibrated(_profile_of_gaussian_trials, delta, start=1.0)
        trial_distance = min(1.0, gaussian_profile(0.0, scale=scale) * (1 + _ROOM))
        # Of a delta that such a trial leaves over, a trial with less noise would make use, and pass the distance.
        trial_delta = min(trial_delta, gaussian_profile(max(epsilon - n_trials * trial_distance, 0.0), scale=scale))
    trial_epsilon = epsilon - n_trials * trial_distance
    if trial_epsilon <= 0:
        raise ValueError(f"epsilon={epsilon} is too small for n_trials={n_trials}: run fewer trials.")
    return math.nextafter(trial_epsilon, 0.0), trial_delta, trial_distance
