"""Calibrations: exact, two-sided, rounded to the private side."""

import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest

from skdprp import PrivacyGuarantee, _noise, audit_epsilon, mechanisms
from skdprp.composition import PrivacyLoss
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import (
    add_gaussian,
    add_laplace,
    classic_gaussian_scale,
    flip_probability,
    gaussian_profile,
    gaussian_scale,
    information_scale,
    kenthapadi_scale,
    laplace_scale,
    objective_perturbation_scale,
    published_product_noise_scale,
    sampled_target,
    spherical_scale,
)
from skdprp.mechanisms.gaussian_laplace import kenthapadi_bound_scale, laplace_profile
from skdprp.mechanisms.noisy_steps import sampled_steps_target
from skdprp.mechanisms.objective_perturbation import product_perturbation_scale, softmax_perturbation_scale
from skdprp.mechanisms.published import published_sign_change_probability, published_sign_changes
from skdprp.mechanisms.radial import add_spherical
from skdprp.mechanisms.randomised_response import (
    binomial_flip_epsilon,
    flip_thresholds,
    integer_thresholds,
    randomised_response_profile,
    sign_change_probability,
)
from skdprp.testing import reproducible_noise

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


@pytest.mark.parametrize("sensitivity", [1e-200, 1e200])
@pytest.mark.parametrize(
    "calibrate",
    [
        partial(gaussian_scale, 0.5, 1e-5),
        partial(kenthapadi_scale, 0.5, 1e-5),
        partial(classic_gaussian_scale, 0.5, 1e-5),
        partial(laplace_scale, 0.5),
        partial(spherical_scale, 0.5, 0.0, n_dims=3, shape=3, power=1),
        partial(spherical_scale, 0.5, 1e-5, n_dims=3, shape=3, power=1),
        partial(published_product_noise_scale, 0.5, 1e-5, n_dims=4),
        lambda sensitivity: objective_perturbation_scale(0.5, 1e-5, lipschitz=sensitivity),
        lambda sensitivity: softmax_perturbation_scale(0.5, 1e-5, n_classes=3, max_norm=sensitivity),
        lambda sensitivity: product_perturbation_scale(0.5, 1e-5, n_dims=3, lipschitz=sensitivity),
        lambda sensitivity: kenthapadi_bound_scale(0.5, 1e-5, max_change=sensitivity, n_features=9, n_components=4),
        lambda sensitivity: information_scale(0.5, max_abs=sensitivity),
    ],
)
def test_scales_that_noise_cannot_have_are_refused(calibrate, sensitivity):
    """Before anything is released: on a grid so fine or coarse, values overflow or vanish."""
    with pytest.raises(ValueError, match="no scale of noise that floats can sample"):
        calibrate(sensitivity=sensitivity)


@pytest.mark.parametrize("delta", [1.0, 1.5])
def test_delta_of_one_is_no_target(delta):
    """No noise at all would meet it: the search for the least went on until floats ended."""
    law = {"n_dims": 3, "shape": 3, "power": 1}
    for calibrate in (
        gaussian_scale,
        partial(spherical_scale, **law),
        objective_perturbation_scale,
        partial(softmax_perturbation_scale, n_classes=3),
        partial(product_perturbation_scale, n_dims=3),
    ):
        with pytest.raises(ValueError, match="choose delta < 1"):
            calibrate(1.0, delta)


def test_no_scale_is_needed_where_nothing_moves():
    assert gaussian_scale(1.0, 1e-5, sensitivity=0.0) == laplace_scale(1.0, sensitivity=0.0) == 0.0
    assert spherical_scale(1.0, 1e-5, sensitivity=0.0, n_dims=3, shape=3, power=1) == 0.0


def test_sampled_target_pays_for_both_neighbours():
    epsilon, delta = sampled_target(1.0, 1e-6, n_changed=1000)
    loss = 1000 * 2.0**-31
    assert epsilon == 1.0 - 2 * loss and delta == pytest.approx(1e-6 * math.exp(-loss), rel=1e-14)
    with pytest.raises(ValueError, match="too small"):
        sampled_target(2 * loss, 1e-6, n_changed=1000)


@pytest.mark.parametrize("price", [sampled_target, sampled_steps_target])
def test_the_price_of_sampling_is_paid_in_short_floats(price):
    """The cost is below the spacing of float32; scales are calibrated in the precision of what is returned."""
    short, slack = np.float32(1.0), np.float32(1e-6)
    assert price(short, slack, n_changed=10) == price(1.0, float(slack), n_changed=10)
    assert all(type(value) is float for value in price(short, slack, n_changed=10))


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


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.01, 0.3, 1.0, 2.7, 7.9, 16.1, 100.0])
def test_neighbouring_levels_never_lose_more_than_epsilon(epsilon):
    """Adjacent signed levels ..., -1, 0, 1, ... and the step from -1 to 1, in exact arithmetic on the thresholds."""
    thresholds = [int(t) for t in flip_thresholds(epsilon)]
    positive = [2**64 - t for t in thresholds]
    pairs = list(zip(thresholds[1:], thresholds, strict=False)) + list(zip(positive[1:], positive, strict=False))
    pairs += [(thresholds[1], positive[1])]
    with mpmath.workdps(50):
        bound = mpmath.exp(mpmath.mpf(epsilon))
        assert all(max(a, b) <= bound * min(a, b) for a, b in pairs)


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


def test_published_sign_changes_golden_values():
    """The published bound as a formula, and the pair of rows that its lemma does not cover."""
    n_plus = published_sign_changes(1e-6, relative_change=0.1, n_features=1000, n_components=256)
    assert 1 / n_plus == pytest.approx(0.0083, abs=5e-5)
    assert published_sign_changes(1e-6, relative_change=1.9, n_features=1000, n_components=8) == 8
    assert published_sign_change_probability(0.999, 2) == pytest.approx(0.666, abs=5e-4)


@pytest.mark.parametrize("n_features", [1, 2, 50, 10**7])
def test_published_sign_change_probability_is_its_integral(n_features):
    """The integral over the maximum of p half-normals, by a change of variable and high precision."""
    ratio = 0.3
    with mpmath.workdps(30):

        def integrand(u):
            t = mpmath.sqrt(2) * mpmath.erfinv(mpmath.root(u, n_features))
            return mpmath.erf(t * ratio / mpmath.sqrt(2))

        exact = float(mpmath.quad(integrand, mpmath.linspace(0, 1, 9)))
    assert published_sign_change_probability(ratio, n_features) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.7])
def test_scales_for_short_floats_are_exact_and_poison_no_cache(epsilon):
    """Neither the scale for a float32, nor the one for an equal float asked for after it, is computed in float32."""
    short, slack = np.float32(epsilon), np.float32(3e-6)
    first = gaussian_scale(short, slack)
    assert gaussian_scale(float(short), float(slack)) == first
    assert gaussian_profile(float(short), scale=first) <= float(slack)


# Noise, as a mechanism of one's own adds it

ADDED = [
    (add_gaussian, {}, _noise.add_gaussian),
    (add_laplace, {}, _noise.add_laplace),
    (add_spherical, {"shape": 3, "power": 1}, _noise.add_spherical),
]
added = pytest.mark.parametrize(("add", "law", "sampler"), ADDED, ids=lambda part: getattr(part, "__name__", ""))


@added
def test_noise_is_added_to_a_copy_by_the_one_sampler(add, law, sampler):
    values, expected = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    with reproducible_noise(0):
        sampler(expected, 0.75, **law)
    for kind in (float, np.float32, Fraction):
        with reproducible_noise(0):
            assert np.array_equal(add(values, kind(0.75), **law), expected)
    assert np.array_equal(values, [1.0, 2.0, 3.0])


@added
def test_noise_is_new_at_each_call_and_lies_on_a_grid(add, law, sampler):
    """Two draws of sixty numbers agree less than once in 2^60: no number has a probability above 1/2."""
    once, again = add(np.zeros(60), 1.0, **law), add(np.zeros(60), 1.0, **law)
    assert not np.array_equal(once, again)
    assert np.array_equal(once * 2.0**14, np.rint(once * 2.0**14))


@added
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_noise_is_not_added_to_what_it_cannot_hide(add, law, sampler, value):
    with pytest.raises(ValueError, match="not finite"):
        add([0.0, value, 1.0], 1.0, **law)


@added
def test_numbers_too_large_for_the_grid_of_their_noise_are_refused(add, law, sampler):
    """In units of the grid they are infinite, and nan would come out."""
    with pytest.raises(ValueError, match="too large for noise of scale 1e-100"):
        add([0.0, 1e300], 1e-100, **law)


def test_a_sum_with_calibrated_noise_withstands_an_attack_that_half_of_the_noise_does_not():
    """Replacing one row moves the sum by 2, from end to end of its bounds."""
    scale = gaussian_scale(*sampled_target(1.0, 1e-6, n_changed=1), sensitivity=2.0)
    claim = PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one"), loss=PrivacyLoss(mu=2.0 / scale))
    rows, other = np.append(np.zeros(9), -1.0), np.append(np.zeros(9), 1.0)

    def audit(share):
        with reproducible_noise(0):
            return audit_epsilon(
                lambda X: add_gaussian([X.sum()], share * scale), rows, other, delta=1e-6, n_trials=20_000
            )

    assert not audit(1.0).exceeds(claim)
    assert audit(0.5).exceeds(claim)


@pytest.mark.parametrize(
    "profile",
    [
        partial(mechanisms.objective_perturbation_profile, scale=3.0),
        partial(mechanisms.product_perturbation_profile, scale=0.8, n_dims=3),
        partial(mechanisms.softmax_perturbation_profile, scale=3.0, n_classes=3),
        partial(mechanisms.subsampled_gaussian_profile, scale=3.0),
    ],
    ids=lambda profile: profile.func.__name__,
)
def test_no_profile_takes_a_word_that_is_no_adjacency(profile):
    """Taken for a row less, "replace" came out as half of what a row replaced costs."""
    assert profile(1.0, adjacency="replace_one") > profile(1.0, adjacency="add_remove") > 0
    with pytest.raises(ValueError, match="adjacency must be 'replace_one' or 'add_remove', got 'replace'"):
        profile(1.0, adjacency="replace")
