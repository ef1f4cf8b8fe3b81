"""Privacy profiles against independent computations."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss, LaplacePrivacyLoss

from skdprp.accounting import gaussian_profile, laplace_profile, randomised_response_profile


def precise_gaussian_profile(epsilon, mu):
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 1.0, 5.0, 20.0])
def test_gaussian_profile_keeps_ten_digits_however_small(epsilon, mu):
    exact = precise_gaussian_profile(epsilon, mu)
    profile = gaussian_profile(epsilon, scale=1 / mu)
    assert profile == pytest.approx(float(exact), rel=1e-10, abs=1e-300)


def test_gaussian_profile_depends_on_the_ratio_of_sensitivity_and_scale():
    assert gaussian_profile(1.0, scale=6.0, sensitivity=3.0) == gaussian_profile(1.0, scale=2.0)


def test_profiles_without_sensitivity_are_perfectly_private():
    assert gaussian_profile(0.5, scale=0.0, sensitivity=0.0) == laplace_profile(0.5, scale=0.0, sensitivity=0.0) == 0.0


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
def test_profiles_agree_with_an_independent_accountant(epsilon, scale):
    gaussian, laplace = GaussianPrivacyLoss(scale), LaplacePrivacyLoss(scale)
    assert gaussian_profile(epsilon, scale=scale) == pytest.approx(gaussian.get_delta_for_epsilon(epsilon), abs=1e-14)
    assert laplace_profile(epsilon, scale=scale) == pytest.approx(laplace.get_delta_for_epsilon(epsilon), abs=1e-14)


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


def test_randomised_response_profile_of_all_bits_changed_is_the_composition_theorem():
    """Kairouz, Oh and Viswanath (2015), Theorem 3.3."""
    k, epsilon0, epsilon = 40, 0.2, 3.0
    i = np.arange(k + 1)
    terms = [math.comb(k, j) for j in i] * np.maximum(np.exp((k - i) * epsilon0) - np.exp(epsilon + i * epsilon0), 0)
    exact = terms.sum() / (1 + np.exp(epsilon0)) ** k
    assert randomised_response_profile(epsilon, epsilon0=epsilon0, n_bits=k) == pytest.approx(exact, rel=1e-12)
