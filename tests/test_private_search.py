"""The profile of a private search against enumeration of small searches, and its draws against their distributions."""

import decimal
from itertools import combinations, pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import few, loss_of
from scipy.stats import chisquare, poisson

from skdprp import _noise
from skdprp.mechanisms import gaussian_profile, gaussian_scale, private_search_profile, private_search_trial
from skdprp.mechanisms._numerics import rounded_up


@pytest.mark.parametrize("n_trials", [5e-324, 1e-310, 1e-300, 1e-9])
def test_a_search_costs_no_less_than_a_trial_however_few_there_are(n_trials):
    trial = {"trial_epsilon": 0.5, "trial_delta": 1e-7, "trial_distance": 0.04}
    assert 0.04 <= private_search_profile(0.0, n_trials=n_trials, **trial) <= 0.04 * (1 + 1e-8)


def hockey_stick(p, q, epsilon):
    """Least delta for two distributions on the same outcomes, in one order."""
    return mpmath.fsum(max(a - mpmath.exp(epsilon) * b, mpmath.mpf(0)) for a, b in zip(p, q, strict=True))


def winners(trial, n_trials):
    """Exact distribution of the best of N trials, the larger outcome the better: P(best <= y) = E[F(y)^N | N > 0]."""
    below = np.cumsum([mpmath.mpf(0), *map(mpmath.mpf, trial)])
    among = [(mpmath.expm1(n_trials * F)) / mpmath.expm1(n_trials) for F in below]
    return [high - low for low, high in pairwise(among)]


def of_trials(trials, epsilon):
    """Profile of a trial at epsilon, over all pairs of neighbours."""
    return max(hockey_stick(p, q, epsilon) for a, b in combinations(trials, 2) for p, q in ((a, b), (b, a)))


def of_search(trials, n_trials, epsilon):
    """Profile of the search."""
    return of_trials([winners(trial, n_trials) for trial in trials], epsilon)


def stated(trials, n_trials, trial_epsilon, epsilon):
    """What the library says of the search, from two points of the profile of a trial, both rounded up."""
    delta, distance = (float(of_trials(trials, at)) * (1 + 1e-12) for at in (trial_epsilon, 0.0))
    trial = {"trial_epsilon": trial_epsilon, "trial_delta": min(delta, 1.0), "trial_distance": min(distance, 1.0)}
    return rounded_up(private_search_profile(epsilon, n_trials=n_trials, **trial))


@st.composite
def neighbouring_trials(draw):
    """Up to three distributions on a few ordered outcomes, of which each may be rare or impossible for one of them."""
    size = draw(st.integers(2, 5))
    weight = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))
    rows = draw(st.lists(st.lists(weight, min_size=size, max_size=size).filter(sum), min_size=2, max_size=3))
    return [[mpmath.mpf(one) / mpmath.fsum(row) for one in row] for row in rows]


@given(neighbouring_trials(), st.floats(0.01, 30.0), st.floats(0.0, 3.0), st.floats(0.0, 5.0))
def test_no_search_is_above_its_profile(trials, n_trials, trial_epsilon, epsilon):
    assert of_search(trials, n_trials, epsilon) <= stated(trials, n_trials, trial_epsilon, epsilon)


# One row decides about a rare outcome that wins against all others.
RARE = [[1.0, 0.0], [0.99, 0.01]]
RESPONSES = [[0.6, 0.4], [0.4, 0.6]]


@pytest.mark.parametrize("n_trials", [0.5, 3.0, 20.0])
def test_the_factor_is_attained_by_an_outcome_that_always_wins(n_trials):
    """A better outcome that is new has the probability 1 - f(1 - t), which is the bound at every epsilon near 0."""
    exact = of_search(RARE, n_trials, 0.0)
    assert exact <= stated(RARE, n_trials, 1.0, 0.0) <= exact * (1 + 1e-9)
    # With t small, that is M t: the factor M cannot be less.
    rare = [[1.0, 0.0], [1 - 1e-9, 1e-9]]
    assert stated(rare, n_trials, 0.5, 1.0) == pytest.approx(float(of_search(rare, n_trials, 1.0)), rel=1e-6)


def test_one_trial_is_as_private_as_itself():
    for epsilon in (0.0, 0.1, 0.3):
        exact = of_search(RESPONSES, 1e-9, epsilon)
        assert exact <= stated(RESPONSES, 1e-9, epsilon, epsilon) <= exact * (1 + 1e-6)
        assert float(exact) == pytest.approx(float(of_trials(RESPONSES, epsilon)), rel=1e-6)


def test_the_shift_of_epsilon_is_needed():
    """Without it, more would be said than is true: the losses of trials add up beyond that of one."""
    epsilon0 = float(np.log(1.5))  # beyond which a single response never leaks
    assert of_trials(RESPONSES, epsilon0) < 1e-12
    assert of_search(RESPONSES, 5.0, epsilon0) > 0.01


def test_a_public_sequence_of_candidates_would_not_be_private():
    """Why candidates are drawn in secret: were it public that the fourth is mediocre, it wins where the others failed.

    Those before it do so with probability p each, and the fourth wins with P(N >= 4) p^3: three losses instead of one.
    """
    p, loss, m = 0.5, 0.1, 3.0
    trials = [[p, 1 - p], [p * np.exp(-loss), 1 - p * np.exp(-loss)]]
    four_or_more = poisson.sf(3, m) / -np.expm1(-m)
    public = [four_or_more * trial[0] ** 3 for trial in trials]
    epsilon = 0.28
    assert of_trials(trials, loss + 0.01) < 1e-12
    assert public[0] - np.exp(epsilon) * public[1] > 2 * stated(trials, m, loss + 0.01, epsilon)


@given(st.floats(0.05, 200.0), st.floats(1e-9, 1e-2), st.floats(0.01, 50.0))
@few
def test_a_calibration_meets_its_target(epsilon, delta, n_trials):
    try:
        target = private_search_trial(epsilon, delta, n_trials=n_trials)
    except ValueError as error:
        assert "run fewer trials" in str(error)
        return
    names = ("trial_epsilon", "trial_delta", "trial_distance")
    loss = loss_of(private_search_profile, n_trials=n_trials, **dict(zip(names, target, strict=True)))
    assert delta * (1 - 1e-8) <= loss.profile(epsilon) <= delta
    # A Gaussian trial at the first two keeps to the third, which is no more than it needs.
    distance = gaussian_profile(0.0, scale=gaussian_scale(*target[:2]))
    assert distance <= target[2]


@pytest.mark.parametrize(("n_trials", "times"), [(3, 1.32), (10, 2.01), (20, 2.97)])
def test_the_noise_of_a_search_is_that_of_the_guide(n_trials, times):
    trial_epsilon, trial_delta, _ = private_search_trial(1.0, 1e-6, n_trials=n_trials)
    assert gaussian_scale(trial_epsilon, trial_delta) / gaussian_scale(1.0, 1e-6) == pytest.approx(times, abs=0.01)


def test_a_longer_distance_of_trials_costs_epsilon():
    short = private_search_trial(1.0, 1e-6, n_trials=3)
    longer = private_search_trial(1.0, 1e-6, n_trials=3, trial_distance=0.1)
    assert longer[0] < short[0] and longer[1:] == (short[1], 0.1)
    with pytest.raises(ValueError, match="run fewer trials"):
        private_search_trial(1.0, 1e-6, n_trials=3, trial_distance=0.5)


@pytest.mark.parametrize("known", [{"n_trials": 0}, {"trial_delta": 1.5}, {"trial_distance": -0.1}])
def test_what_no_search_has_is_refused(known):
    with pytest.raises(ValueError, match=r"A search needs|must be between 0 and"):
        private_search_profile(
            1.0, **{"n_trials": 1, "trial_epsilon": 1.0, "trial_delta": 0.1, "trial_distance": 0.2} | known
        )


@pytest.mark.parametrize("mean", [0.01, 3, 10.5, 300.0])
def test_numbers_of_trials_are_poisson(mean, monkeypatch):
    """At each quantile that the kernel may draw, the count is that of the exact distribution given that it is not 0."""
    for share in (0.0, 0.1, 0.5, 0.9, 0.999999):
        word = int(share * 2**384)
        monkeypatch.setattr(_noise, "random_bytes", lambda size, word=word: word.to_bytes(size, "little"))
        count = _noise.poisson_above_zero(mean)
        at_zero = poisson.pmf(0, mean)
        below, up_to = ((poisson.cdf(one, mean) - at_zero) / (1 - at_zero) for one in (count - 1, count))
        assert count >= 1 and below - 1e-9 <= share <= up_to + 1e-9


def test_the_largest_number_of_trials_is_finite(monkeypatch):
    monkeypatch.setattr(_noise, "random_bytes", lambda size: b"\xff" * size)
    assert 1000 < _noise.poisson_above_zero(1000) < 3000


@pytest.mark.parametrize("mean", [1e-300, 3.0, 50.0])
def test_no_decimal_context_of_the_caller_decides_how_many_trials_are_drawn(mean):
    traps = [decimal.FloatOperation, decimal.Inexact, decimal.Rounded, decimal.Subnormal, decimal.Underflow]
    with decimal.localcontext(decimal.Context(prec=5, Emin=-3, Emax=3, traps=traps)):
        assert 1 <= _noise.poisson_above_zero(mean) < 1000


def test_indices_are_uniform_and_biased_words_are_drawn_again(monkeypatch):
    words = iter([2**64 - 1, 7])
    monkeypatch.setattr(_noise, "random_bytes", lambda size: next(words).to_bytes(size, "little"))
    assert _noise.uniform_index(3) == 1  # 2^64 - 1 is the first of an incomplete run of three


def test_indices_of_the_kernel_are_uniform():
    counts = np.bincount([_noise.uniform_index(5) for _ in range(5000)], minlength=5)
    assert chisquare(counts).pvalue > 1e-10
