"""Gaussian and Laplace noise: profiles in fifty digits, calibrations exact on both sides."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss, LaplacePrivacyLoss
from hypothesis import given
from profiles import DELTA, assert_bounds, loss_of, precise_gaussian_profile, sizes
from scipy import stats
from scipy.integrate import quad

from skdprp import DPOPORP, DPRandomProjection, composition
from skdprp.composition import PrivacyLoss, Profile
from skdprp.mechanisms import classic_gaussian_scale, gaussian_profile, gaussian_scale, kenthapadi_scale, laplace_scale
from skdprp.mechanisms.gaussian_laplace import (
    analytic_bound_scale,
    gaussian_epsilon,
    kenthapadi_bound_scale,
    laplace_profile,
)


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


def _profile_of_moves(epsilon, moves):
    """Profile of independent Laplace noise of scale 1 on numbers that move by so much: a sum over the losses of one."""
    move, *others = moves
    if not others:
        return laplace_profile(epsilon, scale=1.0, sensitivity=move)

    def _left(loss):
        return _profile_of_moves(epsilon - loss, others)

    kinks = [x for x in (epsilon - sum(others), epsilon + sum(others)) if -move < x < move]
    between = quad(lambda loss: 0.25 * np.exp(-(move - loss) / 2) * _left(loss), -move, move, points=kinks or None)[0]
    return 0.5 * _left(move) + 0.5 * np.exp(-move) * _left(-move) + between


@pytest.mark.parametrize("total", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5])
def test_no_split_of_a_move_has_a_larger_delta(total, share):
    """Of two numbers by integrals, of which halves lose least; of many by convolutions."""
    for epsilon in np.linspace(0.0, 0.95, 6) * total:
        together = laplace_profile(epsilon, scale=1.0, sensitivity=total)
        split = _profile_of_moves(epsilon, [share * total, (1 - share) * total])
        halves = _profile_of_moves(epsilon, [total / 2, total / 2])
        assert halves - 1e-9 <= split <= together + 1e-9
        assert split < together or epsilon > (1 - 2 * share) * total
    many = sum((loss_of(laplace_profile, scale=1.0, sensitivity=total / 8) for _ in range(8)), start=PrivacyLoss())
    assert 0 < many.profile(0.3 * total) < laplace_profile(0.3 * total, scale=1.0, sensitivity=total)


@pytest.mark.parametrize("scale", [0.3, 1 / 3, 1.0, 7.7])
def test_stated_deltas_of_laplace_noise_are_upper_bounds(scale):
    """Also where epsilon is the next float below the largest loss, and delta all in the last bits."""
    for epsilon in (0.0, 0.01, 0.1, np.nextafter(1 / scale, 0), 1 / scale, np.nextafter(1 / scale, 9), 9.0):
        exact = max(mpmath.mpf(0), -mpmath.expm1((mpmath.mpf(epsilon) - 1 / mpmath.mpf(scale)) / 2))
        assert_bounds(loss_of(laplace_profile, scale=scale).profile(epsilon), exact)
    assert laplace_profile(float("inf"), scale=scale) == 0.0


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


EPSILONS = [0.001, 0.1, 1.0, 10.0, 50.0]
DELTAS = [1e-12, 1e-6, 0.01, 0.4]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("sensitivity", [1.0, 0.037, 200.0])
def test_gaussian_scale_is_exact(epsilon, delta, sensitivity):
    """The calibrated noise meets the target; one part per million less does not."""
    scale = gaussian_scale(epsilon, delta, sensitivity=sensitivity)
    assert gaussian_profile(epsilon, scale=scale, sensitivity=sensitivity) <= delta
    assert gaussian_profile(epsilon, scale=0.999999 * scale, sensitivity=sensitivity) > delta


def test_gaussian_scale_golden_value():
    assert gaussian_scale(1.0, 1e-5) == pytest.approx(3.730631634816, rel=1e-10)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sensitivity", [1.0, 0.1, 3.0])
def test_laplace_scale_is_exact(epsilon, sensitivity):
    scale = laplace_scale(epsilon, sensitivity=sensitivity)
    assert sensitivity <= epsilon * scale
    assert laplace_profile(epsilon, scale=0.999999 * scale, sensitivity=sensitivity) > 0


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_closed_forms_are_private_and_noisier_than_the_exact_calibration(epsilon, delta):
    calibrations = [kenthapadi_scale] + [classic_gaussian_scale] * (epsilon < 1)
    for calibrate in calibrations:
        scale = calibrate(epsilon, delta, sensitivity=2.0)
        assert gaussian_profile(epsilon, scale=scale, sensitivity=2.0) <= delta
        assert scale >= gaussian_scale(epsilon, delta, sensitivity=2.0)


def test_closed_forms_are_the_published_ones():
    epsilon, delta, p, k = 0.7, 1e-5, 1000, 64
    assert kenthapadi_scale(epsilon, delta) == pytest.approx(
        math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon, rel=1e-14
    )
    assert classic_gaussian_scale(epsilon, delta) == pytest.approx(math.sqrt(2 * math.log(1.25 / delta)) / epsilon)
    bound = 3 * math.sqrt(1 + 2 * math.sqrt(math.log(2 * p / delta) / k) + 2 * math.log(2 * p / delta) / k)
    ours = kenthapadi_bound_scale(epsilon, delta, max_change=3.0, n_features=p, n_components=k)
    assert ours == pytest.approx(bound * math.sqrt(2 * (math.log(1 / delta) + epsilon)) / epsilon, rel=1e-14)


@pytest.mark.parametrize(("n_features", "n_components"), [(1, 1), (1000, 8), (1000, 256), (10**6, 64)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 0.01)])
def test_analytic_bound_meets_its_target_over_the_draw(epsilon, delta, n_features, n_components):
    """For some share of delta: rows of W longer than a bound, times their number, and the noise for that bound."""
    known = {"max_change": 3.0, "n_features": n_features, "n_components": n_components}
    scale = analytic_bound_scale(epsilon, delta, **known)
    assert scale < 0.93 * kenthapadi_bound_scale(epsilon, delta, **known)

    def exact_tail(length):
        with mpmath.workdps(30):
            tail = mpmath.gammainc(mpmath.mpf(n_components) / 2, n_components * mpmath.mpf(length) ** 2 / 2)
            return float(tail * n_features / mpmath.gamma(mpmath.mpf(n_components) / 2))

    lengths = np.linspace(0.9, 3.0 + 7 / n_components**0.5, 4000)
    tails = n_features * stats.chi2.sf(n_components * lengths**2, n_components)
    totals = tails + [gaussian_profile(epsilon, scale=scale, sensitivity=3.0 * float(length)) for length in lengths]
    assert totals.min() <= delta * (1 + 1e-3) and totals.min() >= 0.8 * delta
    for i in {*range(0, 4000, 100), *range(max(0, totals.argmin() - 10), min(4000, totals.argmin() + 11))}:
        assert tails[i] == pytest.approx(exact_tail(lengths[i]), rel=1e-9, abs=1e-300)


def test_analytic_bound_of_a_thousand_features():
    known = {"max_change": 1.0, "n_features": 1000, "n_components": 256}
    scales = [scale(1.0, 1e-6, **known) for scale in (analytic_bound_scale, kenthapadi_bound_scale)]
    assert [round(scale, 2) for scale in scales] == [5.49, 7.19]
    options = {"projection": "gaussian", "epsilon": 1.0, "delta": 1e-6}
    for calibration, scale, printed in zip(("analytic_bound", "kenthapadi_bound"), scales, (5.49, 7.2), strict=True):
        sketch = DPRandomProjection(256, calibration=calibration, **options).fit(np.zeros((1, 1000)))
        assert scale < sketch.scale_ < scale * (1 + 2**-9) and round(sketch.scale_, 2) == printed  # with its margin


@pytest.mark.parametrize("calibrate", [gaussian_scale, kenthapadi_scale, classic_gaussian_scale])
@pytest.mark.parametrize("delta", [0.0, -1e-6, math.nan])
def test_gaussian_noise_needs_a_positive_delta(calibrate, delta):
    with pytest.raises(ValueError, match="delta"):
        calibrate(0.5, delta)


def test_closed_forms_refuse_what_they_do_not_cover():
    with pytest.raises(ValueError, match="analytic"):
        classic_gaussian_scale(1.0, 1e-6)
    with pytest.raises(ValueError, match="delta < 1/2"):
        kenthapadi_scale(1.0, 0.5)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_impossible_targets_are_errors(epsilon):
    with pytest.raises(ValueError, match="No amount of noise"):
        gaussian_scale(epsilon, 1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.7])
def test_scales_for_short_floats_are_exact_and_poison_no_cache(epsilon):
    """Neither the scale for a float32, nor the one for an equal float asked for after it, is computed in float32."""
    short, slack = np.float32(epsilon), np.float32(3e-6)
    first = gaussian_scale(short, slack)
    assert gaussian_scale(float(short), float(slack)) == first
    assert gaussian_profile(float(short), scale=first) <= float(slack)


@given(sizes(1e-3, 0.999), DELTA)
def test_closed_forms_have_more_noise(epsilon, delta):
    exact = gaussian_scale(epsilon, delta)
    assert exact <= kenthapadi_scale(epsilon, delta) and exact <= classic_gaussian_scale(epsilon, delta)
