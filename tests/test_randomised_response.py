"""Randomised response: profiles as sums over all outputs, thresholds on the private side."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import EPSILON, assert_bounds, loss_of, sizes

from skdprp import DPSignOPORP, DPSignRP
from skdprp.mechanisms import flip_probability
from skdprp.mechanisms.randomised_response import (
    binomial_flip_epsilon,
    flip_thresholds,
    hidden_flip_epsilon,
    integer_thresholds,
    laplace_flip_thresholds,
    randomised_response_profile,
    sign_change_probability,
)


def brute_force_randomised_response(epsilon, epsilon0, n_bits, changed):
    """Sum the hockey-stick divergence over which bits differ and over all outputs."""
    keep, delta = 1 / (1 + math.exp(-epsilon0)), 0.0
    for differ in product([0, 1], repeat=n_bits):
        n = sum(differ)
        weight = changed**n * (1 - changed) ** (n_bits - n)
        for output in product([0, 1], repeat=n):
            flips = sum(output)
            p, q = keep ** (n - flips) * (1 - keep) ** flips, keep**flips * (1 - keep) ** (n - flips)
            delta += weight * max(0.0, p - math.exp(epsilon) * q)
    return delta


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("n_bits", [1, 2, 5])
@pytest.mark.parametrize("changed", [0.0, 0.2, 1.0])
def test_randomised_response_profile_sums_over_all_outputs(epsilon, n_bits, changed):
    exact = brute_force_randomised_response(epsilon, 0.7, n_bits, changed)
    assert randomised_response_profile(epsilon, epsilon0=0.7, n_bits=n_bits, changed=changed) == pytest.approx(exact)


def test_randomised_response_profile_is_exact_in_rational_arithmetic():
    """With e^epsilon0 = 3 and e^epsilon = 2, all probabilities are rational."""
    k, q = 12, Fraction(1, 5)
    delta = Fraction(0)
    for n in range(k + 1):
        weight = math.comb(k, n) * q**n * (1 - q) ** (k - n)
        for i in range(n + 1):
            delta += weight * math.comb(n, i) * max(Fraction(0), Fraction(3 ** (n - i) - 2 * 3**i, 4**n))
    ours = randomised_response_profile(math.log(2), epsilon0=math.log(3), n_bits=k, changed=0.2)
    assert ours == pytest.approx(float(delta), rel=1e-13)


@pytest.mark.parametrize(
    ("k", "epsilon0", "epsilon"),
    [(1, 5.0, 3.0), (40, 0.2, 3.0), (40, 60.0, 2000.0), (3000, 0.005, 2.0), (3000, 0.03, 5.0), (6000, 1.0, 4300.0)],
)
def test_randomised_response_profile_of_all_bits_changed_is_the_composition_theorem(k, epsilon0, epsilon):
    """Kairouz, Oh and Viswanath (2015), Theorem 3.3, down to deltas of 1e-125."""
    with mpmath.workdps(60):
        e, exact, weight = mpmath.mpf(epsilon0), mpmath.mpf(0), (1 + mpmath.exp(-mpmath.mpf(epsilon0))) ** -k
        for i in range(k + 1):  # bits that are flipped
            exact += weight * max(0, -mpmath.expm1(epsilon - (k - 2 * i) * e))
            weight *= mpmath.exp(-e) * (k - i) / (i + 1)
        ours = randomised_response_profile(epsilon, epsilon0=epsilon0, n_bits=k)
        assert abs(ours / exact - 1) < 1e-12


@pytest.mark.parametrize("method", ["smooth", "rr"])
@pytest.mark.parametrize("sketch", [DPSignRP(7, epsilon=1.9), DPSignOPORP(7, epsilon=1.9)])
def test_stated_deltas_of_signs_are_upper_bounds(sketch, method):
    """Of signs at level one on either side of zero, flipped as often as the integer thresholds say."""
    sketch.set_params(method=method, random_state=0).fit(np.zeros((1, 30)))
    n_bits = round(1.9 / sketch.flip_epsilon_)
    flip = mpmath.mpf(int(sketch.flip_thresholds_[1])) / 2**64
    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.8):
        exact = mpmath.mpf(0)
        for i in range(n_bits + 1):
            p, q = flip**i * (1 - flip) ** (n_bits - i), flip ** (n_bits - i) * (1 - flip) ** i
            exact += math.comb(n_bits, i) * max(mpmath.mpf(0), p - mpmath.exp(mpmath.mpf(epsilon)) * q)
        assert_bounds(sketch.guarantee_.profile(epsilon), exact)


def test_deltas_of_bits_keep_their_digits_at_the_largest_loss():
    """Three times the float nearest to 0.7 is no float: just below and above it, delta is all in the last bits."""
    flip = 1 / (1 + mpmath.exp(mpmath.mpf(0.7)))
    for epsilon in (np.nextafter(3 * 0.7, 0), 3 * 0.7, np.nextafter(3 * 0.7, 9)):
        exact = max(mpmath.mpf(0), (1 - flip) ** 3 - mpmath.exp(mpmath.mpf(epsilon)) * flip**3)
        assert_bounds(loss_of(randomised_response_profile, epsilon0=0.7, n_bits=3).profile(epsilon), exact)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.01, 0.3, 1.0, 2.7, 7.9, 16.1, 100.0])
def test_neighbouring_levels_never_lose_more_than_epsilon(epsilon):
    """Adjacent signed levels ..., -1, 0, 1, ... and the step from -1 to 1, in exact arithmetic on the thresholds."""
    thresholds = [int(t) for t in flip_thresholds(epsilon)]
    positive = [2**64 - t for t in thresholds]
    pairs = list(zip(thresholds[1:], thresholds, strict=False)) + list(zip(positive[1:], positive, strict=False))
    pairs += [(thresholds[1], positive[1])]
    with mpmath.workdps(100):
        bound = int(mpmath.floor(mpmath.exp(mpmath.mpf(epsilon)) * 2**200))  # whole numbers are compared in no time
    assert all(max(a, b) << 200 <= bound * min(a, b) for a, b in pairs)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_flip_thresholds_are_tight(epsilon):
    """The step from -1 to 1 loses epsilon to twelve digits, and no level flips below its probability."""
    thresholds = flip_thresholds(epsilon).astype(np.float64) / 2**64
    assert math.log((1 - thresholds[1]) / thresholds[1]) == pytest.approx(epsilon, abs=1e-12)
    exact = flip_probability(np.arange(len(thresholds)), epsilon)
    assert (thresholds >= exact).all() and np.allclose(thresholds, exact, rtol=1e-12, atol=0)


def test_flip_thresholds_stop_at_a_loss_of_sixteen():
    assert len(flip_thresholds(1.0)) == 17
    assert len(flip_thresholds(20.0)) == 2
    assert len(flip_thresholds(1e-9)) == 2**16
    assert (flip_thresholds(1e-13) == 2**63).all()


def test_integer_thresholds_never_round_a_probability_down():
    probability = np.array([2.0**-70, 1e-30, 1e-5, 0.3, 0.5])
    assert all(int(t) >= p * 2.0**64 for t, p in zip(integer_thresholds(probability), probability, strict=True))
    assert integer_thresholds(np.array([2.0**-70])) == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("relative_change", [0.01, 0.1, 1.0, 2.0])
@pytest.mark.parametrize("n_components", [1, 16, 256])
def test_binomial_flip_epsilon_is_exact(epsilon, relative_change, n_components):
    """It meets the target, a millionth more does not, and it is never below epsilon / k."""
    delta, changed = 1e-6, sign_change_probability(relative_change)
    flip = binomial_flip_epsilon(epsilon, delta, n_components=n_components, changed=changed)
    options = {"n_bits": n_components, "changed": changed}
    assert randomised_response_profile(epsilon, epsilon0=flip, **options) <= delta
    assert randomised_response_profile(epsilon, epsilon0=flip * (1 + 1e-6), **options) > delta
    assert flip >= epsilon / n_components * (1 - 1e-12)


def test_sign_change_probability_is_the_largest_angle_over_pi():
    assert sign_change_probability(2.0) == sign_change_probability(5.0) == 1.0
    assert sign_change_probability(1.0) == pytest.approx(1 / 3)
    rng = np.random.default_rng(0)
    u, v = np.array([1.0, 0.0]), np.array([math.cos(1.0), math.sin(1.0)])
    W = rng.standard_normal((2, 10**6))
    share = np.mean(np.sign(u @ W) != np.sign(v @ W))
    q = sign_change_probability(2 * math.sin(0.5))
    assert abs(share - q) < 5 * math.sqrt(q * (1 - q) / 10**6)


@given(EPSILON, sizes(1e-12, 0.4), st.integers(1, 300), st.floats(0.001, 1.0))
def test_flips_meet_their_target(epsilon, delta, n_bits, changed):
    known = {"n_bits": n_bits, "changed": changed}
    flip = binomial_flip_epsilon(epsilon, delta, n_components=n_bits, changed=changed)
    assert randomised_response_profile(epsilon, epsilon0=flip, **known) <= delta
    assert flip >= epsilon / n_bits * (1 - 2.0**-40)


@given(st.floats(-40, 40), st.floats(-2, 2))
def test_laplace_flips_lose_no_more_than_two_values_differ(value, change):
    """The logarithms of both probabilities, out of 2**64, move by the distance of the values and 2**-38 at most."""
    flips = [int(threshold) for threshold in laplace_flip_thresholds(np.array([value, value + change]))]
    plus = [2**64 - flip if v > 0 else flip for flip, v in zip(flips, (value, value + change), strict=True)]
    with mpmath.workdps(50):
        distance = abs(mpmath.mpf(value + change) - mpmath.mpf(value))
        for p, q in (plus, [2**64 - one for one in plus]):
            assert abs(mpmath.log(mpmath.mpf(p) / q)) <= distance + mpmath.mpf(2) ** -38


def test_laplace_flips_are_rounded_towards_coins():
    values = np.concatenate([np.linspace(-16, 16, 4001), [0.0, -0.0, 5e-324, 16.1, -1e300, np.inf, -np.inf]])
    thresholds = laplace_flip_thresholds(values)
    with mpmath.workdps(50):
        for value, threshold in zip(values, thresholds, strict=True):
            exact = mpmath.exp(-min(abs(mpmath.mpf(float(value))), 16)) / 2 * 2**64
            assert exact <= int(threshold) <= min(exact * (1 + mpmath.mpf(2) ** -39.8), 2**63)


@pytest.mark.parametrize("n_bits", [1, 2, 7, 8, 64, 500, 2001])
def test_hidden_flips_are_guessed_right_three_times_in_four_at_most(n_bits):
    loss = hidden_flip_epsilon(n_bits)
    distance = randomised_response_profile(0.0, epsilon0=loss, n_bits=n_bits)
    assert 0.5 * (1 - 2e-9) < distance <= 0.5
    if n_bits <= 2:
        assert loss == pytest.approx(math.log(3))
