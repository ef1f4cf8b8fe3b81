"""Privacy profiles against independent computations."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss, LaplacePrivacyLoss

from skdprp import DPOPORP, DPSignOPORP, DPSignRP, composition
from skdprp.composition import PrivacyLoss, Profile
from skdprp.mechanisms import gaussian_profile, spherical_profile
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon, laplace_profile
from skdprp.mechanisms.objective_perturbation import objective_perturbation_profile, softmax_perturbation_profile
from skdprp.mechanisms.randomised_response import randomised_response_profile


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


@pytest.mark.parametrize("epsilon", [-1e-20, -1e-9, -0.01, -1.0, -30.0])
@pytest.mark.parametrize("ratio", [1e-9, 0.3, 20.0])
def test_profiles_at_a_negative_epsilon_keep_their_digits(epsilon, ratio):
    """The other order of two neighbours that are alike: 1 - e^epsilon at least, which two equal ones have."""
    with mpmath.workdps(60):
        laplace = max(-mpmath.expm1(epsilon), -mpmath.expm1((mpmath.mpf(epsilon) - mpmath.mpf(ratio)) / 2))
        gaussian = precise_gaussian_profile(epsilon, ratio)
        for profile, exact in ((laplace_profile, laplace), (gaussian_profile, gaussian)):
            known = {"scale": 1.0, "sensitivity": ratio}
            assert abs(profile(epsilon, **known) - exact) <= 1e-12 * exact
            assert exact <= Profile.of(profile, **known)(epsilon)


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


# Stated deltas are upper bounds, to the last bit: 50 digits tell

mpmath.mp.dps = 50
SMALL = 1e-9


def loss_of(function, **parameters):
    return PrivacyLoss(profiles=(Profile.of(function, **parameters),))


def assert_bounds(stated, exact, small=SMALL):
    assert exact <= stated <= exact * (1 + small)


def gaussian_cases():
    rng = np.random.default_rng(0)
    for log_epsilon, log_mu in rng.uniform([-6, -6], [4, 2], (300, 2)):
        epsilon, mu = float(np.exp(log_epsilon)), float(np.exp(log_mu))
        exact = precise_gaussian_profile(epsilon, mu)
        if exact > 1e-290:  # below, floats have no digits left
            yield PrivacyLoss(mu=mu).profile(epsilon), exact


def test_stated_deltas_of_gaussian_noise_are_upper_bounds():
    for stated, exact in gaussian_cases():
        assert_bounds(stated, exact)


def test_computed_deltas_are_not(monkeypatch):
    """Without rounding up, a third of them would be too small: by less than a part in 10**12, but too small."""
    monkeypatch.setattr(composition, "rounded_up", lambda delta: delta)
    monkeypatch.setattr(composition, "_ROUND_UP", 1.0)
    below = [exact / stated - 1 for stated, exact in gaussian_cases() if stated < exact]
    assert len(below) > 50 and max(below) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_calibrated_noise_meets_its_target_in_fifty_digits(seed):
    """With the price of sampling, from the public interface; a part in 10**8 less noise does not."""
    rng = np.random.default_rng(seed)
    for k in rng.integers(1, 300, 20).tolist():
        epsilon, delta = float(np.exp(rng.uniform(-4, 4))), float(10 ** rng.uniform(-14, -1))
        loss = DPOPORP(k, epsilon=epsilon, delta=delta, random_state=k).fit(np.zeros((1, 400))).guarantee_.loss
        price = mpmath.mpf(loss.sampling)

        def exact(mu, epsilon=epsilon, price=price):
            return mpmath.exp(price) * precise_gaussian_profile(mpmath.mpf(epsilon) - 2 * price, mu)

        assert exact(loss.mu) <= mpmath.mpf(delta) < exact(loss.mu * (1 + 1e-8))


@pytest.mark.parametrize("scale", [0.3, 1 / 3, 1.0, 7.7])
def test_stated_deltas_of_laplace_noise_are_upper_bounds(scale):
    """Also where epsilon is the next float below the largest loss, and delta all in the last bits."""
    for epsilon in (0.0, 0.01, 0.1, np.nextafter(1 / scale, 0), 1 / scale, np.nextafter(1 / scale, 9), 9.0):
        exact = max(mpmath.mpf(0), -mpmath.expm1((mpmath.mpf(epsilon) - 1 / mpmath.mpf(scale)) / 2))
        assert_bounds(loss_of(laplace_profile, scale=scale).profile(epsilon), exact)
    assert laplace_profile(float("inf"), scale=scale) == 0.0


def precise_three_dimensional_laplace(epsilon, d):
    """In prolate spheroidal coordinates around the two centres, the loss is -d times the second one."""

    def shell(eta):
        excess = mpmath.exp(-c * eta) - mpmath.exp(epsilon + c * eta)
        return excess * mpmath.exp(-c) * (1 / c + 2 / c**2 + 2 / c**3 - eta**2 / c)

    epsilon, d = mpmath.mpf(epsilon), mpmath.mpf(d)
    c = d / 2
    return c**3 * mpmath.quad(shell, [-1, -epsilon / d]) / 4


@pytest.mark.parametrize("d", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_stated_deltas_of_spherical_noise_are_upper_bounds(d, share):
    loss = loss_of(spherical_profile, scale=1.0, sensitivity=d, n_dims=3, shape=3, power=1)
    assert_bounds(loss.profile(share * d), precise_three_dimensional_laplace(share * d, d))


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


def precise_gaussians(epsilon, *shifts):
    mu = mpmath.sqrt(sum(mpmath.mpf(shift) ** 2 for shift in shifts))
    return precise_gaussian_profile(epsilon, mu) if mu else max(mpmath.mpf(0), -mpmath.expm1(epsilon))


def bounds_of_a_replaced_row(epsilon, mu, log_det, release_shift):
    """At once, and through the data set without the row."""
    half, left = release_shift / 2, epsilon - log_det - mu**2
    square = mu**2 + half**2

    def removed(x):
        return precise_gaussians(x, mu, half) + precise_gaussians(x, half)

    tail = mpmath.ncdf(release_shift / 2 - left / release_shift) if release_shift else 0
    yield precise_gaussians(epsilon - log_det, 2 * mu, release_shift) + tail if left >= 0 else mpmath.mpf(1)
    a = min(mpmath.mpf(0), (epsilon - square) / 2)
    yield -mpmath.expm1(a) + mpmath.exp(a) * (removed(-a) + removed(epsilon - a))


def bounds_of_an_added_row(epsilon, mu, log_det, release_shift):
    yield precise_gaussians(epsilon - log_det, mu, release_shift)
    yield precise_gaussians(0, mu, release_shift) + precise_gaussians(0, release_shift)


objective_bounds = {"replace_one": bounds_of_a_replaced_row, "add_remove": bounds_of_an_added_row}


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("release_shift", [0.0, 0.01])
def test_stated_deltas_of_objective_perturbation_are_upper_bounds(adjacency, release_shift):
    known = {"scale": 7.3, "log_det": 0.1, "adjacency": adjacency, "release_shift": release_shift}
    bounds = objective_bounds[adjacency]
    for epsilon in (0.0, 0.004, 0.02, 0.08, 0.1, 0.11, 0.13, 0.2, 0.5, 1.0, 3.0):
        exact = min(bounds(mpmath.mpf(epsilon), 1 / mpmath.mpf(7.3), mpmath.mpf(0.1), mpmath.mpf(release_shift)))
        assert_bounds(loss_of(objective_perturbation_profile, **known).profile(epsilon), exact)


def precise_softmax_profile(epsilon, ratio, n_classes):
    """Expectation over the largest of the other classes' normals, by adaptive quadrature."""

    def integrand(largest):
        a = ratio * largest + ratio**2 - epsilon
        excess = mpmath.ncdf(a / ratio) - mpmath.exp(ratio**2 / 2 - a) * mpmath.ncdf(a / ratio - ratio)
        return excess * (n_classes - 1) * mpmath.npdf(largest) * mpmath.ncdf(largest) ** (n_classes - 2)

    return mpmath.quad(integrand, range(-12, 26, 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_stated_deltas_of_the_softmax_are_upper_bounds(epsilon):
    loss = loss_of(softmax_perturbation_profile, scale=3.0, n_classes=4, adjacency="add_remove")
    assert_bounds(loss.profile(epsilon), precise_softmax_profile(mpmath.mpf(epsilon), 1 / mpmath.mpf(3), 4), small=1e-8)


def test_stated_deltas_of_composed_gaussian_noise_are_upper_bounds():
    for mus in ((0.3, 0.4), (1e-3,) * 50, (2.0, 1e-5, 0.7)):
        mu = mpmath.sqrt(sum(mpmath.mpf(mu) ** 2 for mu in mus))
        total = sum((PrivacyLoss(mu=mu) for mu in mus), start=PrivacyLoss())
        for epsilon in (0.01, 0.3, 1.0):
            exact = precise_gaussian_profile(epsilon, mu)
            if exact > 1e-290:
                assert_bounds(total.profile(epsilon), exact)


@pytest.mark.parametrize("mu", [1010.0, 1e5, 1e8, 1e10])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.4, 0.99])
def test_epsilon_of_next_to_no_noise_is_an_upper_bound(mu, delta):
    """From the first of the two terms of the profile alone."""
    epsilon = gaussian_epsilon(delta, scale=1.0, sensitivity=mu)
    assert precise_gaussian_profile(epsilon, mu) <= mpmath.mpf(delta)
    assert precise_gaussian_profile(epsilon * (1 - 1e-5), mu) > mpmath.mpf(delta)


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 30.0, 990.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.4, 0.99])
def test_stated_epsilons_are_upper_bounds(mu, delta):
    for epsilon in (PrivacyLoss(mu=mu).epsilon(delta), gaussian_epsilon(delta, scale=1.0, sensitivity=mu)):
        assert precise_gaussian_profile(epsilon, mu) <= mpmath.mpf(delta)
        assert epsilon == 0 or precise_gaussian_profile(epsilon * (1 - 1e-8), mu) > mpmath.mpf(delta)


def test_what_cannot_be_computed_is_no_small_delta():
    for loss in (PrivacyLoss(mu=1.0), loss_of(randomised_response_profile, epsilon0=0.5, n_bits=3)):
        assert loss.profile(float("nan")) == 1.0


@pytest.mark.parametrize("mu", [1e3, 1e5, 1e7, 1e8, 1e10])
def test_profile_of_little_noise_is_computed_to_twelve_digits(mu):
    """About half of mu^2, where delta is neither 0 nor 1, epsilon and its reach nearly cancel."""
    epsilons = [mu**2 / 2 - z * mu for z in (5.0, 1.0, 0.3, 0.05, 0.0, -1.0, -5.0, -30.0)]
    for epsilon in epsilons:
        exact = precise_gaussian_profile(epsilon, mu)
        assert abs(gaussian_profile(epsilon, scale=1.0, sensitivity=mu) - exact) <= 1e-12 * exact
        assert PrivacyLoss(mu=mu).profile(epsilon) >= min(exact, 1)


@pytest.mark.parametrize("mu", [1e20, 1e200, math.inf])
def test_profile_without_noise_worth_the_name_is_one(mu):
    assert PrivacyLoss(mu=mu).profile(1.0) == 1.0 and PrivacyLoss(mu=mu).epsilon(1e-6) == math.inf


@pytest.mark.parametrize("mu", [5e-324, 1e-300, 1e-160])
def test_profile_of_hardly_any_loss_is_hardly_anything(mu):
    loss = PrivacyLoss(mu=mu)
    assert loss.epsilon(1e-6) == 0.0 <= loss.epsilon(1e-300) < 1e-150
    assert 0 < loss.profile(1.0) < 1e-300 and loss.profile(0.0) < 1e-150
