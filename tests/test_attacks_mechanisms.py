"""Attacks on mechanisms: profiles, calibrations, sensitivities, odd parameters, and what several lose together."""

import decimal
import math
import re
import traceback
from contextlib import suppress
from functools import partial
from random import Random

import mpmath
import numpy as np
import pandas as pd
import pytest
from attacks import SPHERICAL, X12, X200_UNIFORM, Y12, Y200_UNIFORM
from scipy.special import expit, gammaln, ndtr
from scipy.stats import binom, chi2, gamma, norm
from sklearn import config_context
from sklearn.base import clone

from skdprp import (
    AMPClassifier,
    DPRandomProjection,
    DPRidge,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyGuarantee,
    ProductNoiseOutputPerturbation,
    _noise,
    compose,
    mechanisms,
)
from skdprp.composition import PrivacyLoss, Profile, approximate_profile
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import (
    add_gaussian,
    add_laplace,
    classic_gaussian_scale,
    flip_probability,
    gaussian_profile,
    gaussian_scale,
    kenthapadi_scale,
    objective_perturbation_profile,
    private_search_trial,
    product_perturbation_profile,
    sampled_target,
    searched_profile,
    secret_projection_profile,
    softmax_perturbation_profile,
    spherical_profile,
)
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.noisy_steps import (
    composed_profile,
    descent_scale,
    product_descent_scale,
    subsampled_gaussian_profile,
)
from skdprp.mechanisms.radial import add_spherical
from skdprp.mechanisms.randomised_response import binomial_flip_epsilon, randomised_response_profile
from skdprp.random_projection import make_projection
from skdprp.sensitivity import l1_sensitivity, l2_sensitivity

# Profiles and scales, far from where anybody uses them


def profile_in_sixty_digits(epsilon, mu):
    with mpmath.workdps(60):
        epsilon, mu, root = mpmath.mpf(epsilon), mpmath.mpf(mu), mpmath.sqrt(2)
        upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return (mpmath.erfc(-upper / root) - mpmath.exp(epsilon) * mpmath.erfc(-lower / root)) / 2


def test_gaussian_scales_far_from_where_anybody_uses_them_are_private():
    """Epsilon from 1e-6 to 1e6, delta from 1e-300 to within 1e-14 of 1: no scale is short, in sixty digits."""
    rng = np.random.default_rng(1)
    for case in range(200):
        epsilon, sensitivity = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-20, 20)
        delta = 1 - 10 ** rng.uniform(-14, -1) if case % 5 == 0 else 10 ** rng.uniform(-300, -0.0001)
        scale = gaussian_scale(epsilon, delta, sensitivity=sensitivity)
        assert profile_in_sixty_digits(epsilon, mpmath.mpf(sensitivity) / mpmath.mpf(scale)) <= delta


STEP = 2.0**-5
ENDS = np.pi / 2 * np.sinh(np.arange(-3.6, 3.6, STEP))  # the tanh of which crowds at both ends of an interval
END_WEIGHTS = STEP * np.hypot(np.pi / 2, ENDS) / np.cosh(ENDS) ** 2
FROM_LOW, FROM_HIGH = 2 / (1 + np.exp(-2 * ENDS)), 2 / (1 + np.exp(2 * ENDS))  # of an interval of length 2


def spherical_delta(epsilon, d, n_dims, shape, power):
    """Mean of (1 - e^(epsilon - loss))+ over radius and cosine: no distribution function, and nothing subtracted."""
    k, gap, half_degree = shape / power, n_dims - shape, (n_dims - 3) / 2
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    panels = np.linspace(-np.sqrt(160 / k) - 80 / k, min(np.sqrt(160 / k), np.log(5 + 200 / k)), 401)
    w = (panels[:-1, None] + np.diff(panels)[:, None] * (1 + nodes) / 2).ravel()  # of ln(radius^power / k)
    weights = np.outer(np.diff(panels), node_weights / 2).ravel()
    weights *= np.exp(k * (w - np.exp(w)) + k * np.log(k) - gammaln(k))
    w, weights = w[weights > 1e-18, None], weights[weights > 1e-18]
    r = np.exp((w + np.log(k)) / power)
    low, high = np.full_like(r, -700.0), np.full_like(r, 600 / power)  # ln of the distance to the other centre, over r
    for _ in range(100):
        middle = (low + high) / 2
        is_less = gap * middle + r**power * np.expm1(power * middle) < epsilon
        low, high = np.where(is_less, middle, low), np.where(is_less, high, middle)
    nearest = r * np.exp(high)  # at which the loss is epsilon
    least = np.clip((nearest - abs(r - d)) * (nearest + abs(r - d)) / (2 * r * d), 0, 2 - 2.0**-50)  # of 1 - cosine
    half = 1 - least / 2
    plus, minus = half * FROM_LOW, least + half * FROM_HIGH
    distance = np.sqrt((r - d) ** 2 + 2 * r * d * minus)
    loss = gap * np.log(distance / r) + distance**power - r**power
    density = np.exp(
        half_degree * np.log(plus * minus / 4) - 2 * gammaln(half_degree + 1) + gammaln(2 * half_degree + 2)
    )
    return weights @ (half / 2 * density * -np.expm1(np.minimum(epsilon - loss, 0.0)) @ END_WEIGHTS)


@pytest.mark.parametrize(
    ("n_dims", "shape", "power"),
    [(3, 1.5, 0.5), (14, 14, 1), (40, 1, 2), (40, 39, 4), (128, 1.2, 0.5), (129, 129, 1), (500, 1, 3), (500, 250, 1)],
)
def test_profiles_of_spherical_noise_are_not_below_a_direct_integral(n_dims, shape, power):
    """Shapes between those that estimators use, and poles in many dimensions; in 578 random cases none was below."""
    radius = (shape / power) ** (1 / power)
    for epsilon, d in [(0.0, 0.01 * radius), (0.3, radius / n_dims**0.5), (4.0, radius)]:
        stated = spherical_profile(epsilon, scale=1.0, sensitivity=d, n_dims=n_dims, shape=shape, power=power)
        exact = spherical_delta(epsilon, d, n_dims, shape, power)
        assert exact * (1 - 1e-5) <= stated <= exact * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize("calibrate", [kenthapadi_scale, classic_gaussian_scale])
def test_closed_forms_far_from_where_anybody_uses_them_are_private(calibrate):
    """Epsilon from 1e-7 to 1e5, delta from 1e-250 to within 1e-15 of where they end: the exact delta is less."""
    rng, most = np.random.default_rng(2), 0.5 if calibrate is kenthapadi_scale else 1.0
    with mpmath.workdps(60):
        for _ in range(150):
            epsilon = 10 ** rng.uniform(-7, 5 if calibrate is kenthapadi_scale else -1e-6)
            delta = rng.choice([most * 10 ** rng.uniform(-250, -0.01), most - 10 ** rng.uniform(-15, -1)])
            mu = 1 / mpmath.mpf(calibrate(epsilon, delta))
            upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            assert mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower) <= delta


def test_deltas_of_many_bits_far_from_where_anybody_uses_them_are_private():
    """Epsilon from 1e-6 to 300, delta from 1e-300 to within 1e-14 of 1: the sum over all numbers of flips is less."""
    rng = np.random.default_rng(0)
    with mpmath.workdps(60):
        for _ in range(120):
            n_bits, epsilon = int(rng.choice([1, 2, 5, 17, 64])), 10 ** rng.uniform(-6, 2.5)
            delta = rng.choice([10 ** rng.uniform(-300, -1), rng.uniform(0, 1), 1 - 10 ** rng.uniform(-14, -1)])
            loss = mpmath.mpf(binomial_flip_epsilon(epsilon, delta, n_components=n_bits, changed=1.0))
            kept, exact = 1 / (1 + mpmath.exp(-loss)), mpmath.mpf(0)
            for n_kept in range(n_bits + 1):
                left = 1 - mpmath.exp(min(epsilon - (2 * n_kept - n_bits) * loss, 0))
                exact += mpmath.binomial(n_bits, n_kept) * kept**n_kept * (1 - kept) ** (n_bits - n_kept) * left
            assert exact <= delta


def exact_profile(epsilon, epsilon0, n_bits):
    """Delta of as many flipped bits, as a sum of 45 digits from its largest term to both sides."""
    with mpmath.workdps(45):
        epsilon, epsilon0 = mpmath.mpf(epsilon), mpmath.mpf(epsilon0)
        kept, odds = 1 / (1 + mpmath.exp(-epsilon0)), mpmath.exp(epsilon0)
        least = max(0, int(mpmath.floor((n_bits + epsilon / epsilon0) / 2)) + 1)
        if least > n_bits:
            return mpmath.mpf(0)
        start = min(n_bits, max(least, int((n_bits + 1) * kept)))
        first = mpmath.binomial(n_bits, start) * kept**start * (1 - kept) ** (n_bits - start)

        def terms(ks, ratio):
            probability = first
            for k in ks:
                probability *= ratio(k)
                yield probability * -mpmath.expm1(epsilon - (2 * k - n_bits) * epsilon0)
                if probability < first * mpmath.mpf(10) ** -60:
                    return

        above = terms(range(start, n_bits + 1), lambda k: mpmath.mpf(n_bits - k + 1) / k * odds if k > start else 1)
        below = terms(range(start - 1, least - 1, -1), lambda k: mpmath.mpf(k + 1) / ((n_bits - k) * odds))
        return sum(above) + sum(below)


@pytest.mark.parametrize("n_bits", [1, 5, 64, 1000, 20_000])
def test_profiles_of_many_bits_are_those_of_a_sum_with_many_digits(n_bits):
    """Of 776, of up to a million bits, none was below by more than 3e-13 of itself, where 2e-10 is added."""
    random = Random(n_bits)
    for _ in range(6):
        epsilon0 = 10 ** random.uniform(-6, 1)
        spread = n_bits**0.5 * epsilon0
        epsilon = max(0.0, n_bits * np.tanh(epsilon0 / 2) * epsilon0 + spread * random.uniform(-5, 10))
        exact = exact_profile(epsilon, epsilon0, n_bits)
        computed = randomised_response_profile(epsilon, epsilon0=epsilon0, n_bits=n_bits)
        assert rounded_up(computed) >= exact
        assert computed <= max(exact * (1 + mpmath.mpf(2) ** -32), 1e-300)


def test_secret_projections_of_any_two_rows_are_no_further_apart_than_their_profile():
    """Of rows at any angle and of any length, exactly: quadratic forms of two Gamma variates."""
    rng, z = np.random.default_rng(0), np.linspace(-12, 12, 3001)
    for _ in range(100):
        k, gain = int(rng.choice([1, 2, 5, 20, 100])), 10 ** rng.uniform(-2.5, 1.0)
        angles = rng.uniform(0, np.pi) + np.array([0.0, rng.choice([np.pi / 2, rng.uniform(0.1, np.pi / 2)])])
        lengths = np.sqrt(gain) * np.array([1.0, rng.choice([1.0, rng.uniform()])])[rng.permutation(2)]
        rows = lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        one, other = (np.eye(2) + np.outer(row, row) for row in rows)
        root = np.linalg.cholesky(one)
        low, high = np.linalg.eigvalsh(root.T @ (np.linalg.inv(other) - np.linalg.inv(one)) @ root)
        offset = k / 2 * np.log(np.linalg.det(other) / np.linalg.det(one))
        epsilon = rng.uniform(0, 2) * gain * np.sqrt(k / (1 + gain))
        variates = np.where(z > 0, gamma.isf(norm.sf(z), k / 2), gamma.ppf(norm.cdf(z), k / 2))
        rest = epsilon - offset - low * variates
        needed = np.maximum(rest / high, 0.0)
        log_second = rest - k / 2 * np.log1p(high) + gamma.logsf(needed * (1 + high), k / 2)
        exact = np.sum(norm.pdf(z) * (z[1] - z[0]) * (gamma.sf(needed, k / 2) - np.exp(log_second)))
        bound = secret_projection_profile(epsilon, scale=1.0, n_components=k, max_norm=float(np.sqrt(gain)))
        assert exact <= bound * (1 + 1e-9) + 1e-12


def test_a_loss_has_no_epsilon_at_a_delta_that_is_no_number():
    """Comparisons with nan are false, and so a search for the least epsilon ended at 1, whatever the loss was."""
    with suppress(ValueError):
        assert PrivacyLoss(mu=100.0).epsilon(float("nan")) == float("inf")


# Numbers that are no parameters


@pytest.mark.parametrize(
    ("estimator", "extreme"),
    [
        (AMPClassifier(), {"epsilon": 1.7e308}),
        (AMPClassifier(noise="product"), {"tol": 1.7e308}),
        (AMPClassifier(calibration="published"), {"epsilon": 5e-324}),
        (AMPClassifier(calibration="published"), {"delta": 5e-324}),
        (AMPClassifier(calibration="published", noise="product"), {"epsilon": 1e160}),
        (ProductNoiseOutputPerturbation(), {"epsilon": 1e300, "C": 1e-100}),
        (ProductNoiseOutputPerturbation(radius="chi1", calibration="published"), {"epsilon": 1e5}),
        (DPSGDClassifier(noise="product", calibration="published", n_epochs=2), {"epsilon": 1e5}),
    ],
)
def test_extreme_numbers_are_refused_by_name_before_noise_is_drawn(estimator, extreme, monkeypatch):
    """Overflows, divisions by zero and series of gigabytes were left to whoever called."""
    monkeypatch.setattr(_noise, "random_bytes", None)
    with pytest.raises(ValueError, match=f"{next(iter(extreme))}=.* too (extreme|large)"):
        clone(estimator).set_params(**{"delta": 1e-6, **extreme}).fit(X12, Y12)


@pytest.mark.parametrize(
    ("name", "arguments", "known"),
    [
        ("information_scale", (1.0,), {"n_components": 20, "n_samples": 100, "min_residual": -2.0}),
        ("private_search_trial", (1.0, 1e-6), {"n_trials": -1, "trial_distance": 0.04}),
        ("private_search_trial", (1.0, 1e-6), {"n_trials": 3, "trial_distance": -1.0}),
        ("product_perturbation_profile", (1.0,), {"scale": 1.9, "n_dims": 5, "count_epsilon": -1.0}),
        (
            "thresholded_counts_profile",
            (1.0,),
            {"scale": 5.0, "threshold": 20.0, "sensitivity": 1.0, "n_columns": -1},
        ),
        ("sampled_target", (float("nan"), 1e-5), {"n_changed": 3}),
    ],
)
def test_what_is_no_bound_is_refused(name, arguments, known):
    """A negative bound holds of any data, and its square would count as noise; a formula returns a number for it."""
    with pytest.raises(ValueError, match=r"must be between 0 and|is too small"):
        getattr(mechanisms, name)(*arguments, **known)


@pytest.mark.parametrize("n_changed", [-1, -(2**31), math.nan])
def test_no_number_of_values_is_negative(n_changed):
    """Sampling gave privacy then: a target of (1.5, 2e-6) for (1, 1e-6)."""
    with pytest.raises(ValueError, match="n_changed must be between 0 and inf"):
        sampled_target(1.0, 1e-6, n_changed=n_changed)


@pytest.mark.parametrize("add_noise", [add_gaussian, add_laplace, partial(add_spherical, **SPHERICAL)])
@pytest.mark.parametrize("form", [list, np.array, partial(np.array, dtype=object), pd.Series])
def test_errors_of_the_public_mechanisms_quote_no_value(add_noise, form):
    """A cell that is no number left in the error, as it did once from estimators: could not convert string to float."""
    with pytest.raises((TypeError, ValueError)) as caught:
        add_noise(form(["8675309 Elm Street", "1.0"]), 1.0)
    assert "8675309" not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__context__ is None or "8675309" not in str(caught.value.__context__)


@pytest.mark.parametrize("sensitivity", [l1_sensitivity, l2_sensitivity])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove", "entry", "L1", None])
def test_no_sensitivity_is_computed_for_neighbours_that_it_does_not_know(sensitivity, adjacency):
    """Whatever is not "l1" was taken for "l2": one row for another moved a projection by 1.0, it was said."""
    W = make_projection("oporp", 16, 4, np.random.RandomState(0))
    with pytest.raises(ValueError):
        sensitivity(W, adjacency, 1.0)


@pytest.mark.parametrize(
    ("profile", "known"),
    [
        (objective_perturbation_profile, {"log_det": -0.5}),
        (objective_perturbation_profile, {"log_det": math.nan}),
        (objective_perturbation_profile, {"n_outputs": 0}),
        (softmax_perturbation_profile, {"n_classes": 10, "log_det": -5.0}),
        (softmax_perturbation_profile, {"n_classes": 1}),
        (partial(product_perturbation_profile, n_dims=3), {"log_det": -5.0}),
        (partial(product_perturbation_profile, n_dims=3), {"n_vertices": 0}),
    ],
)
def test_no_log_determinant_gives_privacy(profile, known):
    """As no number of sampled values does; those of a penalty below 0 are negative, and delta was 0.0 for some."""
    with pytest.raises(ValueError):
        profile(1.0, scale=3.0, **known)


# Types of numbers, and how they are printed


@pytest.mark.parametrize("n_repeats", [1, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.bool_])
def test_projections_of_small_integers_move_as_far_as_their_sensitivity(dtype, n_repeats):
    """One more moved a bin of negative sign by 255, where l1_sensitivity says 1: the product was taken in uint8.

    Laplace noise for epsilon = 1 then tells the two rows apart but for a share of 2^-184, and add_laplace takes no
    notice, for the projection is one of float64.
    """
    W = make_projection("oporp", 16, 4, np.random.RandomState(0), n_repeats=n_repeats)
    least = 0 if dtype is np.bool_ else np.iinfo(dtype).min
    rows = np.full((17, 16), least, dtype)
    rows[np.arange(16), np.arange(16)] += dtype(1)
    projected = W.project(rows)
    if dtype is not np.int64:  # which floats do not hold
        assert np.array_equal(projected, W.project(rows.astype(np.float64)))
    moved = abs(projected[:16] - projected[16]).sum(axis=1).max() / W.divisor
    assert moved <= l1_sensitivity(W, "l1", 1.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64, np.int8, np.float16, np.float32])
def test_flip_probabilities_are_those_of_the_levels_whatever_type_these_have(dtype):
    """In an unsigned type -1 is 255: the probability was 1.0 at level 1, and a coin at level 0, an infinite loss.

    Of float16 levels, such as np.ceil makes of float16 rows, 1100 and 1101 at epsilon = .01 lost .0156.
    """
    levels = np.arange(100)
    assert np.array_equal(flip_probability(levels.astype(dtype), 0.3), flip_probability(levels, 0.3))


@pytest.mark.parametrize(("level", "epsilon"), [(1, 746.0), (2, 1e6), (2**16, 0.1), (1, 740.0)])
def test_no_flip_probability_is_below_what_floats_hold(level, epsilon):
    """It was 0 from a loss of 746 on: a sign that is never flipped has no privacy, and 746 was asked for."""
    exact = 1 / (1 + mpmath.exp(mpmath.mpf(level) * mpmath.mpf(epsilon)))
    assert exact <= mpmath.mpf(float(flip_probability(level, epsilon))) <= 1e-300


@pytest.mark.parametrize("sketch", [DPSignRP(7), DPSignOPORP(9, n_repeats=9, epsilon=2.0)], ids=repr)
def test_the_loss_of_a_bit_is_not_printed_as_less_than_it_is(sketch):
    """Numbers that nobody asked for are rounded up, says the guide; of a seventh the mechanism printed 0.142857."""
    fitted = clone(sketch).fit(np.ones((1, 64)))
    printed = re.search(r"loss (\S+) per bit", fitted.guarantee_.mechanism)[1]
    assert decimal.Decimal(printed) >= decimal.Decimal(fitted.flip_epsilon_)


@pytest.mark.parametrize("epsilon", np.geomspace(0.1, 10, 12).tolist())
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_is_not_printed_as_more_than_it_is(noise, epsilon):
    """A scale is printed from below and a sensitivity from above, both to six digits."""
    sketch = DPRandomProjection(7, epsilon=epsilon, noise=noise, random_state=0).fit(np.ones((1, 64)))
    scale, sensitivity = map(float, re.search(r"scale (\S+), sensitivity (\S+)$", sketch.guarantee_.mechanism).groups())
    assert (1 - 1e-5) * sketch.scale_ <= scale <= sketch.scale_
    assert sketch.sensitivity_ <= sensitivity <= (1 + 1e-5) * sketch.sensitivity_


def test_what_one_release_implies_is_not_said_of_several():
    """The total of two releases, of 0.6 bits, said that it implies (0, 0.6215)-DP and (10.51, 1e-5)-DP of one entry.

    Where all else is 0 but the target of the entry's row, the sketch of y is the column of S that multiplies it, of a
    chi-squared norm: two releases have a total variation of 0.688, and a delta of 1.55e-5 at epsilon 10.51.
    """
    rows, targets = np.zeros((2000, 3)), np.eye(2000)[0]
    regressor = MIDPRegressor(epsilon=0.3)
    regressor.sketch(rows, targets)
    squares = np.linspace(1e-6, 400.0, 20001)
    weights = chi2.pdf(squares, 2 * regressor.n_components_)
    distance = weights @ (2 * ndtr(np.sqrt(squares) / regressor.scale_) - 1) / weights.sum()
    assert 0.68 < distance < 0.7
    one, two = regressor.guarantee_, compose(regressor.guarantee_, regressor.guarantee_)
    assert "implies (0, 0.6215)-DP" in one.mechanism
    assert "implies (0, 0.6215)-DP" not in two.mechanism or "alone" in two.mechanism


# What several lose together


def test_a_total_of_pairs_is_no_less_than_the_worst_composition_of_them():
    """Totals at 25 random targets, put into the exact formula for the worst releases with one pair each."""
    rng, adjacency = np.random.default_rng(3), Adjacency("replace_one")
    for _ in range(25):
        epsilon, delta, n_steps = 10 ** rng.uniform(-2, 1), rng.choice([0, 1e-9, 1e-4]), int(rng.integers(2, 30))
        target = n_steps * delta * rng.choice([1.5, 30]) + 1e-6
        total = compose(*[PrivacyGuarantee(epsilon, delta, adjacency=adjacency)] * n_steps, delta=target).epsilon
        if np.isfinite(total):
            assert composed_profile(total, step_epsilon=epsilon, step_delta=delta, n_steps=n_steps) <= target


def test_laplace_and_gaussian_noise_together_are_no_worse_than_their_total():
    """The profile of both together, by integration over the loss of the one."""
    law = {"n_dims": 1, "shape": 1, "power": 1}
    x = np.linspace(-400, 400, 800_001)
    for scale, mu in ((1.0, 0.5), (4.0, 2.0), (0.5, 0.1)):
        laplace = Profile.of(spherical_profile, scale=scale, sensitivity=1.0, **law)
        loss = PrivacyLoss(mu=mu) + PrivacyLoss(profiles=(laplace,))
        weights = np.exp(-np.abs(x) / scale) / (2 * scale) * (x[1] - x[0])
        left = np.array([0.0, 1.0])[:, None] - (np.abs(x - 1) - np.abs(x)) / scale
        gaussian = PrivacyLoss(mu=mu)
        table = np.linspace(left.min(), left.max(), 4001)
        profile = np.interp(left, table, [gaussian._ideal_profile(epsilon) for epsilon in table])
        for true, epsilon in zip(profile @ weights, (0.0, 1.0), strict=True):
            assert true <= loss.profile(epsilon) * (1 + 1e-4)


@pytest.mark.parametrize(("pure", "mu"), [([(20.0, 1), (0.01, 300)], 0.0), ([(3.0, 2), (0.5, 7)], 0.05)])
@pytest.mark.parametrize("delta", [1e-9, 1e-2])
def test_totals_of_very_unequal_parts_are_above_the_exact_ones(pure, mu, delta):
    """Randomised responses are the worst of pure releases: one of epsilon 20 beside many of 0.01 needs a wide grid."""
    neighbours = Adjacency("replace_one")
    parts = [PrivacyGuarantee(epsilon, 0.0, adjacency=neighbours) for epsilon, count in pure for _ in range(count)]
    if mu:
        parts.append(PrivacyGuarantee(5.0, 1e-30, adjacency=neighbours, loss=PrivacyLoss(mu=mu)))
    losses, chances = np.zeros(1), np.ones(1)
    for epsilon, count in pure:
        heads = np.arange(count + 1)
        losses = np.add.outer(losses, (2 * heads - count) * epsilon).ravel()
        chances = np.multiply.outer(chances, binom.pmf(heads, count, expit(epsilon))).ravel()
    total = compose(*parts, delta=delta)
    for epsilon in (total.epsilon, total.epsilon / 2):
        left = epsilon - losses
        if mu:
            exact = ndtr(mu / 2 - left / mu) - np.exp(np.minimum(left, 700.0)) * ndtr(-mu / 2 - left / mu)
        else:
            exact = np.maximum(-np.expm1(np.minimum(left, 0.0)), 0.0)
        assert chances @ exact <= total.profile(epsilon) * (1 + 1e-9)
    assert total.profile(total.epsilon) <= delta * (1 + 1e-9)


def losses_of_bits(flip_epsilon, n_bits):
    keep = 1 / (1 + math.exp(-flip_epsilon))
    return {
        (2 * kept - n_bits) * flip_epsilon: math.comb(n_bits, kept) * keep**kept * (1 - keep) ** (n_bits - kept)
        for kept in range(n_bits + 1)
    }


def test_totals_of_sign_sketches_are_not_below_the_exact_ones():
    """All combinations of losses of up to three sketches of few bits, against the privacy loss distributions."""
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(3)
    for _ in range(4):
        fitted = [
            kind(int(rng.integers(2, 9)), epsilon=10 ** rng.uniform(-2, 1.3)).fit(np.ones((1, 9)))
            for kind in rng.choice([DPSignRP, DPSignOPORP], rng.integers(2, 4))
        ]
        losses = {0.0: 1.0}
        for sketch in fitted:
            bits = losses_of_bits(sketch.flip_epsilon_, sketch.n_components if type(sketch) is DPSignRP else 1)
            pairs = [(a + b, p * q) for a, p in losses.items() for b, q in bits.items()]
            losses = {}
            for loss, probability in pairs:
                losses[loss] = losses.get(loss, 0.0) + probability
        for delta in (1e-9, 1e-3, 0.3):
            total = compose(*(sketch.guarantee_ for sketch in fitted), delta=delta)
            exact = sum(-p * math.expm1(total.epsilon - loss) for loss, p in losses.items() if loss > total.epsilon)
            assert exact <= total.delta * (1 + 1e-12)


def exact_delta(epsilon, mu, flips):
    """Delta of Gaussian noise and flipped bits together, (epsilon0, number of bits) each: a mixture over the bits."""
    losses, weights = np.zeros(1), np.ones(1)
    for flip_epsilon, n_bits in flips:
        more = losses_of_bits(flip_epsilon, n_bits)
        losses = np.add.outer(losses, list(more)).ravel()
        weights = np.multiply.outer(weights, list(more.values())).ravel()
    return weights @ [gaussian_profile(float(epsilon - loss), scale=1.0, sensitivity=mu) for loss in losses]


@pytest.mark.parametrize(
    ("mu", "flips"),
    [
        (0.01, [(4.0, 2)]),
        (5.0, [(1e-4, 3), (0.5, 4)]),
        (0.3, [(0.07, 9)]),
        (1e-3, [(1e-3, 5), (2.0, 1)]),
        (3.0, [(12.0, 1), (1e-5, 2)]),
    ],
)
def test_totals_of_gaussian_noise_and_flipped_bits_are_not_below_the_exact_ones(mu, flips):
    """Losses five orders apart, and epsilons from 0 to beyond the likely ones."""
    pytest.importorskip("dp_accounting")
    bits = [Profile.of(randomised_response_profile, epsilon0=loss, n_bits=n_bits) for loss, n_bits in flips]
    total = PrivacyLoss(mu=mu, profiles=tuple(bits))
    for epsilon in np.linspace(0, 6 * mu + sum(math.prod(flip) for flip in flips), 6):
        exact, bound = exact_delta(epsilon, mu, flips), total.profile(epsilon)
        assert exact * (1 - 1e-9) - 1e-15 <= bound <= 1.01 * exact + 1e-9


def searched_normals(n_trials, epsilon, delta):
    """Guarantee of a search whose trials are normal numbers with shifted neighbours, and the shift of a trial."""
    target = private_search_trial(epsilon, delta, n_trials=n_trials)
    mu = 1 / gaussian_scale(*target[:2])
    known = {"n_trials": n_trials, "trial_distance": target[2], "losses": (PrivacyLoss(mu=mu),)}
    loss = PrivacyLoss(profiles=(Profile.of(searched_profile, **known),))
    return PrivacyGuarantee(epsilon, delta, adjacency=Adjacency("replace_one"), loss=loss), mu


def losses_of_the_largest(n_trials, mu):
    """Privacy losses of the largest of a Poisson number of normals, above 0, and their probabilities, on a grid."""
    y = np.linspace(-8, 9, 100_001)
    log_densities = [norm.logpdf(y - shift) + n_trials * ndtr(y - shift) for shift in (0.0, mu)]
    weights = np.exp(log_densities[0])
    return log_densities[0] - log_densities[1], weights / weights.sum()


@pytest.mark.parametrize("n_searches", [1, 2])
def test_totals_of_searches_are_those_of_searches_and_not_of_their_trials(n_searches):
    """One search of (1.0, 1e-6) at a delta of 1e-6 was (0.475, 1e-6), of which 3.1e-5 is exact; two were (0.66, 2e-6).

    What is exact for two is 1.1e-3: each releases the largest of ten normals, whose number stays secret.
    """
    if n_searches > 1:
        pytest.importorskip("dp_accounting")
    once, mu = searched_normals(10, 1.0, 1e-6)
    total = compose(*[once] * n_searches, delta=n_searches * 1e-6)
    losses, probabilities = losses_of_the_largest(10, mu)
    cells = np.floor(losses * 1e3).astype(int)  # rounded down, as delta is no larger then
    lowest, spread = cells.min(), np.bincount(cells - cells.min(), weights=probabilities)
    sums = spread if n_searches == 1 else np.convolve(spread, spread)
    loss = (np.arange(len(sums)) + n_searches * lowest) / 1e3
    exact = sums @ np.maximum(-np.expm1(np.minimum(total.epsilon - loss, 0.0)), 0.0)
    assert exact <= total.delta
    assert total.loss.profile(total.epsilon) <= total.delta * (1 + 1e-6)


@pytest.mark.parametrize("power", [-120, -3, 40, 150])
def test_noise_follows_the_unit_of_the_data_to_the_last_digit_from_one_end_of_floats_to_the_other(power):
    """A unit that is a power of two changes no digit of a scale but its exponent."""
    unit, shape, options = 2.0**power, (1000, 7), {"epsilon": 0.7, "delta": 1e-6, "classes": [0, 1]}

    def scales(unit):
        linear = {**options, "max_norm": unit}
        bounded = {"max_norm": unit, "target_bounds": (-unit, unit), "delta": 1e-6}
        models = [
            *(AMPClassifier(**linear, noise=noise) for noise in ("gaussian", "product")),
            *(AMPClassifier(**linear, loss="huber_hinge", adjacency=one) for one in ("replace_one", "add_remove")),
            DPSGDClassifier(**linear, batch_size=None),
        ]
        found = [model._calibration_of(shape, np.dtype(float), 2).fitted["scale_"] / unit for model in models]
        output = ProductNoiseOutputPerturbation(**linear)._calibration_of(shape, np.dtype(float), 2)
        ridges = [DPRidge(**bounded, mechanism=name) for name in ("moments", "descent", "projection")]
        found += [ridge._calibration_of(shape, np.dtype(float), 1).fitted["scale_"] for ridge in ridges]
        return [*found, output.fitted["scale_"] * unit]

    np.testing.assert_allclose(scales(unit), scales(1.0), rtol=1e-9)


def test_no_configuration_of_scikit_learn_lets_a_parameter_pass_that_noise_was_not_made_for():
    wrong = [
        {"max_norm": np.nan}, {"max_norm": -1.0}, {"max_norm": np.inf}, {"epsilon": -1.0}, {"epsilon": np.nan},
        {"delta": 2.0}, {"delta": np.nan}, {"adjacency": "l1"}, {"adjacency": "entry"},
    ]  # fmt: skip
    kinds = [AMPClassifier, ProductNoiseOutputPerturbation, DPSGDClassifier]
    with config_context(skip_parameter_validation=True):
        for kind in kinds:
            for options in wrong:
                with pytest.raises(ValueError):
                    kind(classes=[0, 1], **options).fit(X200_UNIFORM, Y200_UNIFORM)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rate", [0.5, 0.99])
@pytest.mark.parametrize("is_laplace", [False, True])
def test_steps_on_samples_lose_no_more_than_two_integrals_say(adjacency, rate, is_laplace):
    """Losses of two steps of one number, rounded down to a grid, and composed: a lower bound of the true delta."""
    epsilon, delta = 1.0, 1e-2
    known = {"rate": rate, "n_steps": 2, "adjacency": adjacency}
    if is_laplace:
        scale = product_descent_scale(epsilon, delta, n_dims=1, **known)
        x = np.linspace(-60 * scale - 3, 60 * scale + 3, 100_001)
        law = lambda centre: np.exp(-np.abs(x - centre) / scale) / (2 * scale)  # noqa: E731
    else:
        scale = descent_scale(epsilon, delta, **known)
        x = np.linspace(-12 * scale - 3, 12 * scale + 3, 100_001)
        law = lambda centre: np.exp(-(((x - centre) / scale) ** 2) / 2) / (scale * np.sqrt(2 * np.pi))  # noqa: E731
    one = ((1 - rate) * law(0) + rate * law(1)) * (x[1] - x[0])
    other = ((1 - rate) * law(0) + rate * law(-1) if adjacency == "replace_one" else law(0)) * (x[1] - x[0])
    for P, Q in ((one, other), (other, one)):
        places = np.floor(np.log(P / Q) / 2e-3).astype(int)
        mass = np.bincount(places - places.min(), P)
        both = np.convolve(mass, mass)
        losses = (np.arange(len(both)) + 2 * places.min()) * 2e-3
        assert (both * np.maximum(0, -np.expm1(epsilon - losses))).sum() <= delta


@pytest.mark.parametrize(("count", "epsilon"), [(14_000, 0.005), (16_000, 0.001), (12_360, 0.01443)])
def test_no_profile_of_very_many_releases_is_negative(count, epsilon):
    loss = PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=epsilon),) * count)
    likely = count * epsilon * math.tanh(epsilon / 2) + 10 * epsilon * count**0.5
    assert loss.profile(likely) > 0


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_no_profile_of_a_million_steps_on_samples_is_negative(adjacency):
    known = {"scale": 16.9, "rate": 1e-3, "n_steps": 1_000_000, "adjacency": adjacency}
    assert all(subsampled_gaussian_profile(epsilon, **known) > 0 for epsilon in (1.0, 1.5, 2.0, 3.0))


def test_no_noise_of_a_million_steps_is_pure():
    profile = Profile.of(subsampled_gaussian_profile, scale=16.9, rate=1e-3, n_steps=1_000_000, adjacency="replace_one")
    assert PrivacyLoss(profiles=(profile,)).epsilon(0.0) == math.inf


@pytest.mark.parametrize("epsilon", [-0.3, -0.02, 0.0, 0.3])
@pytest.mark.parametrize("n_dims", [2, 20])
def test_profiles_of_spherical_noise_at_negative_epsilons_are_those_of_draws(n_dims, epsilon):
    rng, scale, distance, n = np.random.default_rng(0), 1.2, 0.7, 200_000
    radius = scale * rng.gamma(n_dims, size=n)
    cosine = 2 * rng.beta((n_dims - 1) / 2, (n_dims - 1) / 2, size=n) - 1
    loss = (np.sqrt(radius**2 + distance**2 + 2 * radius * distance * cosine) - radius) / scale
    excess = np.maximum(0, -np.expm1(epsilon - loss))
    stated = spherical_profile(epsilon, scale=scale, sensitivity=distance, n_dims=n_dims, shape=n_dims, power=1)
    assert abs(stated - excess.mean()) < 6 * excess.std() / n**0.5
