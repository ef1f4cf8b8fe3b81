"""What holds of every calibration, profile, total and printed number, for cases nobody thought of."""

import re
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdprp import PrivacyGuarantee, compose
from skdprp._digits import printed_down, printed_up
from skdprp.composition import PrivacyLoss, Profile, approximate_profile
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import (
    classic_gaussian_scale,
    gaussian_profile,
    gaussian_scale,
    information_scale,
    kenthapadi_scale,
    laplace_scale,
    objective_perturbation_scale,
    spherical_profile,
    spherical_scale,
)
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.gaussian_laplace import laplace_profile
from skdprp.mechanisms.mutual_information import gaussian_information
from skdprp.mechanisms.noisy_steps import (
    _SHARES_OF_RESPONSES,
    _step_target,
    composed_profile,
    descent_scale,
    product_descent_scale,
)
from skdprp.mechanisms.objective_perturbation import (
    objective_perturbation_profile,
    product_perturbation_profile,
    product_perturbation_scale,
    softmax_perturbation_profile,
    softmax_perturbation_scale,
)
from skdprp.mechanisms.randomised_response import binomial_flip_epsilon, randomised_response_profile


def sizes(low, high):
    """Positive numbers of every order of magnitude in a range."""
    return st.floats(np.log(low), np.log(high)).map(lambda log: float(np.exp(log)))


EPSILON, DELTA, SENSITIVITY = sizes(1e-3, 40.0), sizes(1e-14, 0.4), sizes(1e-3, 1e3)
ADJACENCY = st.sampled_from(["add_remove", "replace_one"])
# Calibration, profile, further arguments: of those that are numbers, each makes a release less private.
CALIBRATIONS = {
    "gaussian": (gaussian_scale, gaussian_profile, {"sensitivity": SENSITIVITY}),
    "kenthapadi": (kenthapadi_scale, gaussian_profile, {"sensitivity": SENSITIVITY}),
    "laplace": (laplace_scale, laplace_profile, {"sensitivity": SENSITIVITY}),
    "spherical": (
        partial(spherical_scale, n_dims=7, shape=7, power=1),
        partial(spherical_profile, n_dims=7, shape=7, power=1),
        {"sensitivity": SENSITIVITY},
    ),
    "binary": (
        objective_perturbation_scale,
        objective_perturbation_profile,
        {
            "lipschitz": SENSITIVITY,
            "log_det": sizes(1e-6, 4e-4),
            "release_shift": sizes(1e-5, 1e-4),
            "n_outputs": st.integers(1, 20),
            "adjacency": ADJACENCY,
        },
    ),
    "softmax": (
        softmax_perturbation_scale,
        softmax_perturbation_profile,
        {
            "n_classes": st.integers(2, 30),
            "max_norm": SENSITIVITY,
            "log_det": sizes(1e-6, 4e-4),
            "release_shift": sizes(1e-5, 1e-4),
            "adjacency": ADJACENCY,
        },
    ),
    "product": (
        partial(product_perturbation_scale, n_dims=5),
        partial(product_perturbation_profile, n_dims=5),
        {
            "lipschitz": SENSITIVITY,
            "log_det": sizes(1e-6, 4e-4),
            "n_vertices": st.integers(1, 9),
            "adjacency": ADJACENCY,
        },
    ),
}
few = settings(max_examples=25)


@pytest.mark.parametrize("name", CALIBRATIONS)
@few
@given(st.data())
def test_a_calibration_meets_its_target(name, data):
    """To the last digit, and a millionth less noise does not, but for a closed form."""
    calibrate, profile, options = CALIBRATIONS[name]
    epsilon, delta = data.draw(EPSILON), data.draw(DELTA)
    known = {key: data.draw(values) for key, values in options.items()}
    if name == "binary" and 2 * known["log_det"] * known["n_outputs"] >= epsilon:
        known["n_outputs"] = 1
    scale = calibrate(epsilon, delta, **known)
    assert profile(epsilon, scale=scale, **known) <= delta
    if name not in ("kenthapadi", "laplace"):
        assert profile(epsilon, scale=scale * (1 - 1e-6), **known) > delta


@pytest.mark.parametrize("name", CALIBRATIONS)
@few
@given(st.data())
def test_a_profile_is_monotone(name, data):
    """It falls with epsilon and the scale, and grows with all that makes a release less private: as it is stated."""
    _, profile, options = CALIBRATIONS[name]
    known = {key: data.draw(values) for key, values in options.items()}
    known |= {"epsilon": data.draw(sizes(1e-4, 20.0)), "scale": data.draw(sizes(0.03, 300.0)) * known_size(known)}
    before = profile(**known)
    name = data.draw(st.sampled_from(sorted(set(known) - {"adjacency"})))
    factor = data.draw(st.floats(1.0, 3.0))
    more = {name: known[name] * factor if isinstance(known[name], float) else known[name] + round(3 * factor)}
    after = profile(**known | more)
    low, high = (after, before) if name in ("epsilon", "scale") else (before, after)
    assert low <= rounded_up(high)
    if "adjacency" in known:
        replaced, added = (profile(**known | {"adjacency": kind}) for kind in ("replace_one", "add_remove"))
        assert added <= rounded_up(replaced)


def known_size(known):
    """What a scale is to be compared with."""
    return next(known[name] for name in ("sensitivity", "lipschitz", "max_norm") if name in known)


@pytest.mark.parametrize("name", CALIBRATIONS)
@few
@given(st.data())
def test_a_calibration_is_monotone(name, data):
    """More of epsilon or delta takes no more noise, a larger change no less, up to the digits of bisection."""
    calibrate, _, options = CALIBRATIONS[name]
    epsilon, delta = data.draw(EPSILON), data.draw(DELTA)
    known = {key: data.draw(values) for key, values in options.items()} | ({"n_outputs": 1} if name == "binary" else {})
    scale = calibrate(epsilon, delta, **known)
    factor = data.draw(st.floats(1.0, 3.0))
    digits = 1 + 2.0**-30
    assert calibrate(epsilon * factor, delta, **known) <= scale * digits
    assert calibrate(epsilon, min(delta * factor, 0.49), **known) <= scale * digits
    size = next(key for key in known if known[key] == known_size(known))
    assert calibrate(epsilon, delta, **known | {size: known[size] * factor}) >= scale / digits


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("name", CALIBRATIONS)
@settings(max_examples=10)
@given(st.data())
def test_a_calibration_is_that_of_the_number(name, kind, data):
    """Whatever its type, and though the cache was asked for it as a short float before."""
    calibrate, profile, _ = CALIBRATIONS[name]
    epsilon, delta = kind(data.draw(sizes(0.1, 40.0))), kind(data.draw(sizes(1e-4, 0.4)))
    known = {"n_classes": 3} if name == "softmax" else {}
    short = calibrate(epsilon, delta, **known)
    assert short == calibrate(float(epsilon), float(delta), **known)
    assert profile(epsilon, scale=short, **known) == profile(float(epsilon), scale=short, **known) <= float(delta)


@given(EPSILON, sizes(1e-12, 0.4), st.integers(1, 300), st.floats(0.001, 1.0))
def test_flips_meet_their_target(epsilon, delta, n_bits, changed):
    known = {"n_bits": n_bits, "changed": changed}
    flip = binomial_flip_epsilon(epsilon, delta, n_components=n_bits, changed=changed)
    assert randomised_response_profile(epsilon, epsilon0=flip, **known) <= delta
    assert flip >= epsilon / n_bits * (1 - 2.0**-40)


@given(sizes(1e-3, 60.0), sizes(1e-3, 1e3), st.integers(1, 10**5), st.floats(0.0, 50.0))
def test_noise_for_bits_meets_its_target(epsilon, max_abs, n_components, min_residual):
    known = {"max_abs": max_abs, "n_components": n_components, "min_residual": min_residual}
    assert gaussian_information(scale=information_scale(epsilon, **known), **known) <= epsilon


@given(sizes(1e-3, 0.999), DELTA)
def test_closed_forms_have_more_noise(epsilon, delta):
    exact = gaussian_scale(epsilon, delta)
    assert exact <= kenthapadi_scale(epsilon, delta) and exact <= classic_gaussian_scale(epsilon, delta)


@few
@given(EPSILON, DELTA, st.integers(1, 1000))
def test_steps_on_all_rows_are_one_release(epsilon, delta, n_steps):
    scale = descent_scale(epsilon, delta, n_steps=n_steps)
    assert gaussian_profile(epsilon, scale=scale, sensitivity=float(np.sqrt(n_steps))) <= delta


@settings(max_examples=8)
@given(sizes(0.1, 10.0), sizes(1e-9, 0.1), st.integers(1, 30))
def test_steps_of_product_noise_meet_their_target(epsilon, delta, n_steps):
    """At some guarantee of one step the composition is within the target."""
    scale = product_descent_scale(epsilon, delta, n_steps=n_steps, n_dims=4)
    steps = [_step_target(epsilon, delta, share, 1.0, n_steps)[0] for share in _SHARES_OF_RESPONSES]
    pairs = [(step, rounded_up(spherical_profile(step, scale=scale, n_dims=4, shape=4, power=1))) for step in steps]
    totals = [composed_profile(epsilon, step_epsilon=e, step_delta=d, n_steps=n_steps) for e, d in pairs]
    assert min(totals) <= delta


@settings(max_examples=20)
@given(sizes(0.05, 20.0), sizes(1e-9, 0.3), st.integers(1, 40), sizes(1e-3, 1.0), st.sampled_from(_SHARES_OF_RESPONSES))
def test_targets_of_steps_compose_to_the_target(epsilon, delta, n_steps, rate, share):
    """In fifty digits: the guarantee of a step, amplified by its sample, and the optimal composition of all."""
    step_epsilon, step_delta = _step_target(epsilon, delta, share, rate, n_steps)
    with mpmath.workdps(50):
        e = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(step_epsilon))
        flip = 1 / (1 + mpmath.exp(e))
        responses = mpmath.mpf(0)
        for i in range(n_steps + 1):
            p, q = (1 - flip) ** (n_steps - i) * flip**i, (1 - flip) ** i * flip ** (n_steps - i)
            responses += mpmath.binomial(n_steps, i) * max(mpmath.mpf(0), p - mpmath.exp(mpmath.mpf(epsilon)) * q)
        kept = (1 - min(1, mpmath.mpf(rate) * step_delta)) ** n_steps
        assert 1 - kept * (1 - responses) <= mpmath.mpf(delta)


# Totals

GAUSSIANS = sizes(1e-2, 2.0).map(lambda mu: PrivacyLoss(mu=mu))
RESPONSES = sizes(1e-2, 2.0).map(lambda e: loss_of(approximate_profile, epsilon0=e))
LAPLACES = sizes(0.5, 50.0).map(lambda scale: loss_of(laplace_profile, scale=scale))
LOSSES = st.one_of(GAUSSIANS, RESPONSES, LAPLACES)
FFT = 2.0**-39  # what a total by convolution adds, and what floats lose of it


def loss_of(function, **parameters):
    return PrivacyLoss(profiles=(Profile.of(function, **parameters),))


def stated(loss, delta):
    """A guarantee at one delta."""
    return PrivacyGuarantee(loss.epsilon(delta), delta, adjacency=Adjacency("replace_one"), loss=loss)


@few
@given(st.lists(LOSSES, min_size=2, max_size=4), sizes(1e-3, 3.0), st.randoms(use_true_random=False))
def test_order_of_releases_does_not_matter(losses, epsilon, random):
    shuffled = random.sample(losses, len(losses))
    first, second = (sum(some, PrivacyLoss()).profile(epsilon) for some in (losses, shuffled))
    assert first == pytest.approx(second, rel=1e-9, abs=FFT)


@few
@given(st.lists(LOSSES, min_size=2, max_size=4), sizes(1e-3, 3.0))
def test_a_total_is_never_below_a_part(losses, epsilon):
    total = sum(losses, PrivacyLoss()).profile(epsilon)
    assert all(loss.profile(epsilon) <= rounded_up(total) for loss in losses)


@few
@given(st.lists(st.tuples(LOSSES, sizes(1e-9, 1e-2)), min_size=2, max_size=4))
def test_basic_composition_is_an_upper_bound(parts):
    """And a total never promises more than its own profile."""
    guarantees = [stated(loss, delta) for loss, delta in parts]
    total = compose(*guarantees)
    assert total.epsilon <= sum(guarantee.epsilon for guarantee in guarantees) * (1 + 2.0**-50)
    assert total.delta >= max(guarantee.delta for guarantee in guarantees)
    assert total.profile(total.epsilon) <= total.delta


# Printing


@given(st.floats(0.0, allow_infinity=False, allow_nan=False), st.floats(0.0, 1.0))
def test_a_printed_guarantee_is_never_better_than_the_true_one(epsilon, delta):
    """Nor more than six digits of epsilon, or three of delta, worse."""
    guarantee = PrivacyGuarantee(epsilon, delta)
    for text in (repr(guarantee), guarantee.to_markdown().splitlines()[2]):
        numbers = [float(number) for number in re.findall(r"[\d.]+(?:e[+-]?\d+)?", text)]
        assert epsilon <= numbers[0] <= max(epsilon * (1 + 1e-5), epsilon + 5e-324)
        if delta:
            assert delta <= numbers[1] <= max(delta * 1.01, delta + 5e-324)


@given(st.floats(5e-324, allow_infinity=False), st.integers(2, 17))
def test_printed_bounds_are_on_their_sides(number, digits):
    assert float(printed_down(number, digits)) <= number <= float(printed_up(number, digits))
    assert printed_up(np.float64(number), digits) == printed_up(number, digits)
