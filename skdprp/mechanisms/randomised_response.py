"""Randomised response: signs that are flipped at random, by level."""

import numpy as np
from scipy.special import betaincinv, expit, logit

from .._digits import with_python_numbers
from ._numerics import LEAST_DELTA, boundary, cached, rounded_up

_MAX_LOSS = 16.0  # of a level: a sign beyond is flipped once in 2**23 times, which no user of it would notice
_MAX_LEVEL = 2**16 - 1  # levels are uint16


@with_python_numbers
def randomised_response_profile(epsilon, *, epsilon0, n_bits, changed=1.0):
    """Exact privacy profile of randomised response on bits that differ independently at random.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, in nats.
    epsilon0 : float
        Privacy loss of one bit, which is flipped with probability ``1 / (1 + e^epsilon0)``.
    n_bits : int
        Number of bits that may differ between neighbours.
    changed : float, default=1.0
        Probability with which each of them does, independently.

    Returns
    -------
    float
        The smallest delta such that the release is (epsilon, delta)-DP.

    Notes
    -----
    Which bits differ is known to the attacker, so that delta is ``E_N[HS(epsilon)]`` with N binomial and HS the
    hockey-stick divergence of N-fold randomised response [1]_.

    References
    ----------
    .. [1] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.

    Examples
    --------
    >>> from skdprp.mechanisms import randomised_response_profile
    >>> f"{randomised_response_profile(1.0, epsilon0=0.2, n_bits=16):.1e}"
    '6.5e-02'
    """
    # The loss of a bit that differs is -epsilon0 where it is flipped and +epsilon0 where not, of others 0.
    if changed == 1:
        bits = np.arange(-n_bits, n_bits + 1, 2)
        # The pmf of how many bits are kept, each with probability e^epsilon0 / (1 + e^epsilon0). From the most likely
        # number, whose factor is 1, to both ends each is the one before times a ratio of at most 1: no digit cancels,
        # and after m steps the relative error is at most 4 m roundings. Far beyond that number all is 0.
        odds, mode = np.exp(-epsilon0), min(n_bits, int((n_bits + 1) * expit(epsilon0)))
        above, below = np.arange(mode, n_bits), np.arange(mode, 0, -1)
        more = np.cumprod((n_bits - above) / ((above + 1) * odds))
        fewer = np.cumprod(below * odds / (n_bits - below + 1))
        pmf = np.concatenate([fewer[::-1], [1.0], more])
        pmf = pmf / pmf.sum()
    else:
        down, up = expit(-epsilon0), expit(epsilon0)
        bits = np.arange(-n_bits, n_bits + 1)
        # The pmf of the sum by repeated squaring; direct convolution keeps every digit of positive numbers.
        of_one, pmf = np.array([changed * down, 1 - changed, changed * up]), np.ones(1)
        for digit in f"{n_bits:b}":
            pmf = np.convolve(pmf, pmf)
            if digit == "1":
                pmf = np.convolve(pmf, of_one)
    leading = float(np.float32(epsilon0))
    # delta = E[(1 - e^(epsilon - loss))+] over the sum of the losses, which is bits * epsilon0.
    left = (epsilon - leading * bits) - (epsilon0 - leading) * bits  # products of so few digits do not round
    delta = float(pmf @ -np.expm1(np.minimum(left, 0.0)))
    # Where the largest loss exceeds epsilon delta is positive, even if floats say 0.
    return max(delta, LEAST_DELTA) if changed > 0 and left[-1] < 0 else delta


@with_python_numbers
def flip_probability(level, epsilon):
    """Probability that a sign of the given level is released flipped, ``1 / (1 + exp(level * epsilon))``.

    Parameters
    ----------
    level : array-like of int
        Number of unit changes that separate the value from zero, of any type; 0 gives a fair coin.
    epsilon : float
        Privacy loss of one unit change.

    Returns
    -------
    ndarray of float64
        Never 0, also where floats would underflow: a sign that is never flipped has no privacy.

    Notes
    -----
    Let c bound how far a projection x moves between neighbours. Its sign has the level ``L = ceil(|x| / c)``, and is
    +1 with probability ``expit(e f)``, where f is L with the sign of x, and e is `epsilon`. A projection of 0 has no
    sign, the level 0 and a fair coin.

    **The loss.** If x and x' have one sign, or one of them is 0, then ``|x| / c`` moves by at most 1. So does L, since
    ``ceil(t + 1) = ceil(t) + 1``, and so does f. The slopes of ``log expit(t)`` and ``log expit(-t)`` are at most 1 in
    absolute value: both outcomes lose at most e. If x and x' have opposite signs, then ``|x| + |x'| <= c``, both levels
    are 1, and the loss is ``log(expit(e) / expit(-e)) = e`` again. So a bit loses at most e, whichever neighbours are
    compared. A change of one coordinate moves one bin of OPORP, or one in each of t repeats, and loses ``t e`` at most.
    Where it may move all k projections it loses at most ``k e``.

    **The last level.** ``min(L, last)`` moves no two levels further apart, and only adds flips. With ``last = 1`` this
    is randomised response.

    **Rounding of projections.** On rows that lie on multiples of c, rounding alone moves a level by one more, and the
    loss is 2 e. So levels are ``ceil(|x| / ((1 + m) c))`` with ``m = 2^-10``. A sketch refuses each row whose rounding
    could move a projection by m c / 4, so that computed projections of neighbours differ by at most ``(1 + m / 2) c``,
    up to terms of second order, and quotients by less than ``1 - m / 3``. A quotient of up to 2^16, the largest level,
    is rounded by 2^-36 at most, so that L still moves by at most one.

    **Rounding of probabilities.** Flips are drawn by thresholds out of 2^64, which are rounded up, towards 1/2. Level 0
    is a fair coin exactly, so that rounding only makes the loss between levels 0 and 1 less, as it does between the two
    signs at level 1. Between two levels L and L + 1 with L >= 1, and u = L e, the loss of a flip is below e by
    ``e expit(-u - e)`` at least, and that of a sign that stays by e / 2. Rounding adds less: at most
    ``2^-45 + 2^-63 exp(u)``. For `last` is the largest level with ``last e <= 16``, or 1: of two such levels u + e is
    at most 16, and where e is above 8 there are none, `last` being 1 then. Levels are below 2^16, and all signs are
    random where e is below 2^-40.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.

    Examples
    --------
    >>> from skdprp.mechanisms import flip_probability
    >>> flip_probability([0, 1, 2], 1.0).round(3)
    array([0.5  , 0.269, 0.119])
    """
    return np.maximum(expit(-np.asarray(level, dtype=np.float64) * epsilon), LEAST_DELTA)


@with_python_numbers
def flip_thresholds(epsilon):
    """Flip probabilities of all levels, as :func:`integer_thresholds`; `epsilon` is the loss of one unit change.

    The last level is the largest with a loss of at most 16: higher ones are flipped as often as that one. This only
    adds flips, and the level still moves by at most one between neighbours.
    """
    # Without a last level the table would grow as 1 / epsilon; below 2**-40 it would be all fair coins.
    last = 0 if epsilon < 2.0**-40 else int(max(1, min(_MAX_LOSS // epsilon, _MAX_LEVEL)))
    return np.append(np.uint64(2**63), integer_thresholds(flip_probability(np.arange(1, last + 1), epsilon)))


@with_python_numbers
def integer_thresholds(probability):
    """Flip probabilities below 1/2 as integers out of 2**64, rounded up, to 1 at least: towards more flips.

    The probabilities are correct to within 2**-46 of their size.
    """
    # Flips that come a little too often cost no privacy, and a sign that is never flipped would cost all of it.
    probability = np.asarray(probability, np.float64) * (1 + 2.0**-46)
    return np.ceil(np.clip(probability, 2.0**-64, 0.5) * 2.0**64).astype(np.uint64)


@with_python_numbers
def laplace_flip_thresholds(values):
    """Flip probabilities of the signs of a Laplace mechanism, as :func:`integer_thresholds`.

    Parameters
    ----------
    values : ndarray of float64
        Values over the scale b of the noise that decides about their signs.

    Returns
    -------
    ndarray of uint64
        ``exp(-min(|t|, 16)) / 2`` of each value t, out of 2**64; 1/2 at 0, whose sign is none.

    Notes
    -----
    With noise of density ``exp(-|n|) / 2`` beside it t is positive with probability F(t), F being ``e^t / 2`` below 0
    and ``1 - e^-t / 2`` above: its sign flips with probability ``1 - F(|t|) = e^-|t| / 2``. Nobody has to draw the
    noise, and its sign alone is released.

    **The loss.** ``log F`` has the slope 1 below 0, and ``e^-t / (2 - e^-t) <= 1`` above; of the other sign it is
    ``log F(-t)``. So the logarithms of both probabilities move no faster than t, and signs of values t and t' that are
    flipped independently lose no more than ``sum_j |t_j - t'_j|`` together: the l1 sensitivity over b, wherever the
    values lie and however a change is spread over them. (Levels, which are steps, may all be passed by changes
    however small.) ``t -> max(-16, min(t, 16))`` moves no two values further apart.

    **Rounding.** What is computed is ``e^-|t| / 2 >= 2**-24.1`` to within 2**-46 of its size, and t before that to
    within 2**-48. An integer out of 2**64 is at most 2**-39.9 of it larger: each probability, also that of a sign that
    stays, which is no smaller, is right to within a factor of ``exp(2**-39)``, and each sign loses no more than twice
    that besides. A target of :func:`sampled_target` has 2**-30 for each.

    References
    ----------
    .. [1] C. Dwork, F. McSherry, K. Nissim and A. Smith, "Calibrating Noise to Sensitivity in Private Data Analysis",
       TCC 2006.
    """
    return integer_thresholds(np.exp(-np.minimum(np.abs(values), _MAX_LOSS)) / 2)


@cached
def binomial_flip_epsilon(epsilon, delta, *, n_components, changed):
    """Largest loss of one bit that meets a target, when each differs between neighbours with probability `changed`.

    The target holds over the draw of the projection and the flips; the loss is never below ``epsilon / n_components``.
    """

    def _meets(scale):
        loss = epsilon / scale
        profile = randomised_response_profile(epsilon, epsilon0=loss, n_bits=n_components, changed=changed)
        return rounded_up(profile) <= delta

    # A bit flipped with probability e^-64 is as good as kept; delta may be so large that no bit need be flipped.
    largest = max(epsilon, 64.0)
    return largest if _meets(epsilon / largest) else epsilon / boundary(_meets, start=float(n_components))


@with_python_numbers
def hidden_flip_epsilon(n_bits):
    """Largest loss of each of several bits at which the best guess is right with probability 3/4 at most, in all.

    Of bits that are kept with probability ``p = e^e / (1 + e^e)``, the best guess is the majority, or a coin if there
    is none. It is right as often for 2 r bits as for 2 r - 1: with the probability ``I_p(r, r)`` that r of these are
    kept.
    """
    r = (n_bits + 1) // 2
    return float(logit(betaincinv(r, r, 0.75)) * (1 - 2.0**-30))


@with_python_numbers
def sign_change_probability(relative_change):
    """Probability that a Gaussian projection gives two neighbours different signs.

    ``(2 / pi) asin(relative_change / 2)``, their largest angle over pi [1]_, where their distance is `relative_change`
    times the least norm that both have; 1 if they can be opposite.

    References
    ----------
    .. [1] M. Goemans and D. Williamson, "Improved Approximation Algorithms for Maximum Cut and Satisfiability Problems
       Using Semidefinite Programming", J. ACM 42, 1995, Lemma 3.2.
    """
    return float(2 / np.pi * np.arcsin(min(relative_change, 2.0) / 2))
