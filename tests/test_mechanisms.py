"""What holds of every mechanism: of its noise, its targets, its calibration and its profile."""

import math
from contextlib import suppress
from fractions import Fraction
from functools import partial
from inspect import Parameter, signature

import numpy as np
import pytest
import test_number_types
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import ADJACENCY, DELTA, EPSILON, SENSITIVITY, few, sizes

from skdprp import PrivacyGuarantee, _noise, audit_epsilon, mechanisms
from skdprp.composition import PrivacyLoss
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import (
    add_gaussian,
    add_laplace,
    add_spherical,
    gaussian_profile,
    gaussian_scale,
    kenthapadi_scale,
    laplace_scale,
    objective_perturbation_scale,
    sampled_target,
    secret_projection_profile,
    secret_projection_scale,
    spherical_profile,
    spherical_scale,
)
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.gaussian_laplace import laplace_profile
from skdprp.mechanisms.noisy_steps import sampled_steps_target
from skdprp.mechanisms.objective_perturbation import (
    objective_perturbation_profile,
    product_perturbation_profile,
    product_perturbation_scale,
    softmax_perturbation_profile,
    softmax_perturbation_scale,
)
from skdprp.testing import reproducible_noise

# Valid arguments of every function of every mechanism.
ARGUMENTS = test_number_types.ARGUMENTS[test_number_types.mechanisms]
SIZES = ("sensitivity", "lipschitz", "max_norm", "max_abs", "max_change")  # how far a row moves what is released


def of_mechanisms(ending):
    """Functions of all mechanisms, public or not, by the end of their names."""
    return {name: getattr(test_number_types.mechanisms, name) for name in ARGUMENTS if name.endswith(ending)}


def needed(name):
    """Arguments of a function that have no default, which are the fewest that it can be called with."""
    parameters = signature(getattr(test_number_types.mechanisms, name)).parameters
    return {key: value for key, value in ARGUMENTS[name].items() if parameters[key].default is Parameter.empty}


def takes_adjacency(name):
    return "adjacency" in signature(getattr(test_number_types.mechanisms, name)).parameters


# A calibration for whole numbers, as its arguments say, has no scale beside floats: it returns 0 for 1e-200.
SIZED = [
    (name, size)
    for name, calibrate in of_mechanisms("_scale").items()
    for size in signature(calibrate).parameters
    if size in SIZES and type(ARGUMENTS[name].get(size, 1.0)) is float
]


@pytest.mark.parametrize("sensitivity", [1e-200, 1e200])
@pytest.mark.parametrize(
    ("name", "size", "known"),
    [
        *[(*one, {}) for one in SIZED if one[0] != "published_information_scale"],  # which has no proof to keep
        ("spherical_scale", "sensitivity", {"delta": 0.0}),
        ("thresholded_counts_scale", "sensitivity", {"n_columns": 3}),
    ],
)
def test_scales_that_noise_cannot_have_are_refused(name, size, known, sensitivity):
    """Before anything is released: on a grid so fine or coarse, values overflow or vanish."""
    with pytest.raises(ValueError, match="no scale of noise that floats can sample"):
        of_mechanisms("_scale")[name](**needed(name) | known | {size: sensitivity})


# Formulas, and calibrations for a part of delta: estimators give them less than 1.
TAKE_ANY_DELTA = {
    *("analytic_bound_scale", "classic_gaussian_scale", "kenthapadi_bound_scale", "kenthapadi_scale"),
    *("product_descent_scale", "published_product_noise_scale"),
}


@pytest.mark.parametrize("delta", [1.0, 1.5])
@pytest.mark.parametrize(
    ("name", "known"),
    [
        *[(name, {}) for name in of_mechanisms("_scale") if "delta" in needed(name) and name not in TAKE_ANY_DELTA],
        ("secret_projection_scale", {"min_eigenvalue": 1.0}),
        ("thresholded_counts_scale", {"n_columns": 0}),
        ("thresholded_counts_scale", {"n_columns": 3}),
    ],
)
def test_delta_of_one_is_no_target(name, known, delta):
    """No noise at all would meet it: the search for the least went on until floats ended."""
    with pytest.raises(ValueError, match="choose delta < 1"):
        of_mechanisms("_scale")[name](**needed(name) | known | {"delta": delta})


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


# Noise, as a mechanism of one's own adds it

ADDED = [
    (add_gaussian, {}, _noise.add_gaussian),
    (add_laplace, {}, _noise.add_laplace),
    (add_spherical, {"shape": 3, "power": 1}, _noise.add_spherical),
]
added = pytest.mark.parametrize(("add", "law", "sampler"), ADDED, ids=lambda part: getattr(part, "__name__", ""))


def test_all_noise_that_is_public_is_listed():
    public = {name for name in mechanisms.__all__ if name.startswith("add_")}
    # What computes more from what the sampler returned has a test file of its own, and is left out here by name.
    assert {add.__name__ for add, _, _ in ADDED} == public, "add it to ADDED of tests/test_mechanisms.py"


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
        add([0.0, 0.0, 1e300], 1e-100, **law)


def test_a_sum_with_calibrated_noise_withstands_an_attack_that_half_of_the_noise_does_not():
    """Replacing one row moves the sum by 2, from end to end of its bounds."""
    scale = gaussian_scale(*sampled_target(3.0, 1e-2, n_changed=1), sensitivity=2.0)
    claim = PrivacyGuarantee(3.0, 1e-2, adjacency=Adjacency("replace_one"), loss=PrivacyLoss(mu=2.0 / scale))
    rows, other = np.append(np.zeros(9), -1.0), np.append(np.zeros(9), 1.0)

    def audit(share):
        with reproducible_noise(0):
            sums = [iter(add_gaussian(np.full(2000, X.sum()), share * scale)) for X in (rows, other)]
        options = {"delta": claim.profile(0.1), "n_trials": 2000, "confidence": 1 - 1e-10, "n_jobs": 1}
        return audit_epsilon(next, *sums, distinguishers={"sum": lambda outputs: outputs[:, 0]}, **options)

    assert not audit(1.0).exceeds(claim)
    assert audit(0.5).exceeds(claim)


@pytest.mark.parametrize("name", [name for name in of_mechanisms("") if takes_adjacency(name)])
def test_no_mechanism_takes_a_word_that_is_no_adjacency(name):
    """Taken for a row less, "replace" came out as half of what a row replaced costs."""
    function, known = of_mechanisms("")[name], ARGUMENTS[name] | {"epsilon": 0.25}
    assert function(**known, adjacency="replace_one") > function(**known, adjacency="add_remove") > 0
    with pytest.raises(ValueError, match="adjacency must be 'replace_one' or 'add_remove', got 'replace'"):
        function(**known, adjacency="replace")


# Calibration, profile, and the further arguments of both, which have one name in both. Each number makes a release less
# private, and one is sensitivity, lipschitz or max_norm; of whole numbers, it is drawn from st.integers(1, 50).
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
    "projection": (
        secret_projection_scale,
        secret_projection_profile,
        {"max_norm": SENSITIVITY, "n_components": st.integers(1, 5000), "adjacency": ADJACENCY},
    ),
}
CLOSED_FORMS = ("kenthapadi", "laplace")  # which are not the inverse of the profile
# Of another form, or of a paper: tested beside their mechanism.
CALIBRATED_ELSEWHERE = {
    "analytic_bound_scale": "tests/test_gaussian_laplace.py",
    "classic_gaussian_scale": "tests/test_gaussian_laplace.py",
    "descent_scale": "tests/test_noisy_steps.py",
    "information_scale": "tests/test_mutual_information.py",
    "kenthapadi_bound_scale": "tests/test_gaussian_laplace.py",
    "product_descent_scale": "tests/test_noisy_steps.py",
    "published_information_scale": "tests/test_published.py",
    "published_product_noise_scale": "tests/test_published.py",
    "thresholded_counts_scale": "tests/test_thresholded_counts.py",
}


def test_every_calibration_is_listed():
    here = {getattr(calibrate, "func", calibrate).__name__ for calibrate, _, _ in CALIBRATIONS.values()}
    new = "add it to CALIBRATIONS of tests/test_mechanisms.py, or to CALIBRATED_ELSEWHERE with the file that tests it"
    every = {name for name in test_number_types.MECHANISMS if name.endswith("_scale")}
    assert here | CALIBRATED_ELSEWHERE.keys() == every, new


@pytest.mark.parametrize("name", CALIBRATIONS)
@settings(max_examples=16)
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
    if name not in CLOSED_FORMS:
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
@settings(max_examples=6)
@given(st.data())
def test_a_calibration_is_monotone(name, data):
    """More of epsilon or delta takes no more noise, a larger change no less, up to the digits of bisection.

    To a millionth this follows from the two tests above, which take more cases.
    """
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
@settings(max_examples=6)
@given(st.data())
def test_a_calibration_is_that_of_the_number(name, kind, data):
    """Whatever its type, and though the cache was asked for it as a short float before."""
    calibrate, profile, options = CALIBRATIONS[name]
    epsilon, delta = kind(data.draw(sizes(0.1, 40.0))), kind(data.draw(sizes(1e-4, 0.4)))
    parameters = signature(calibrate).parameters
    known = {key: data.draw(one) for key, one in options.items() if parameters[key].default is Parameter.empty}
    short = calibrate(epsilon, delta, **known)
    assert short == calibrate(float(epsilon), float(delta), **known)
    assert profile(epsilon, scale=short, **known) == profile(float(epsilon), scale=short, **known) <= float(delta)


PROFILES = [name for name in mechanisms.__all__ if name.endswith("_profile")]


@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_promises_what_no_mechanism_holds(name):
    """Any two distributions differ by ``1 - e^epsilon`` below 0; two profiles said less, and little of a nan."""
    profile = partial(getattr(mechanisms, name), **ARGUMENTS[name])
    for epsilon in (-0.1, -1.0, -20.0):
        assert -math.expm1(epsilon) <= rounded_up(profile(epsilon=epsilon)) <= 1.0
    with suppress(ValueError):
        assert not profile(epsilon=math.nan) < 1.0
