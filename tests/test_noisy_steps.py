"""Noisy steps: profiles and calibrations against independent computations."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import DELTA, EPSILON, few, sizes
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from skdprp.losses import LogisticLoss
from skdprp.mechanisms import (
    gaussian_profile,
    noisy_steps,
    sampled_target,
    spherical_profile,
    subsampled_gaussian_profile,
)
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.noisy_steps import (
    _SHARES_OF_RESPONSES,
    _step_target,
    amplified,
    composed_profile,
    descent_scale,
    product_descent_scale,
    sampled_steps_target,
)
from skdprp.mechanisms.randomised_response import randomised_response_profile
from skdprp.sensitivity import minimiser_sensitivity


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


BOTH = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])


@BOTH
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("n_steps", [1, 7, 400])
def test_all_rows_compose_exactly(epsilon, n_steps, adjacency):
    """T releases are one with sqrt(T) times the sensitivity; composed numerically they come to the same."""
    scale, rows = 3.0 * np.sqrt(n_steps), 2 if adjacency == "replace_one" else 1
    exact = subsampled_gaussian_profile(epsilon, scale=rows * scale, n_steps=n_steps, adjacency=adjacency)
    assert exact == pytest.approx(gaussian_profile(epsilon, scale=3.0), rel=1e-12)
    step = privacy_loss_distribution.from_gaussian_mechanism(scale, value_discretization_interval=0.3 / 500)
    numeric = step.self_compose(n_steps).get_delta_for_epsilon(epsilon)
    assert exact <= numeric + 1e-12
    assert numeric == pytest.approx(exact, rel=0.01, abs=1e-10)


def removed(epsilon, scale, rate):
    """Exact delta of one step: removing a row is the worse direction [Balle, Barthe and Gaboardi 2018, Theorem 2]."""
    if rate < 1 and epsilon <= np.log1p(-rate):  # even the least loss is above
        return -np.expm1(epsilon)
    if epsilon < 0:
        return -np.expm1(epsilon) + np.exp(epsilon) * added(-epsilon, scale, rate)
    return rate * gaussian_profile(np.log1p(np.expm1(epsilon) / rate), scale=scale)


def added(epsilon, scale, rate):
    """Exact delta of one step, adding a row."""
    if np.exp(-epsilon) <= 1 - rate:
        return 0.0
    # loss above epsilon where 1 - p + p exp((2x - 1) / (2 s^2)) < exp(-epsilon)
    edge = 0.5 + scale**2 * np.log1p(np.expm1(-epsilon) / rate)
    mixture = (1 - rate) * norm.cdf(edge, 0, scale) + rate * norm.cdf(edge, 1, scale)
    return norm.cdf(edge, 0, scale) - np.exp(epsilon) * mixture


def log_mixture(x, mean, scale, rate):
    """Logarithm of the density of a step in which the row adds `mean`, over that without it."""
    return np.logaddexp(np.log1p(-rate), np.log(rate) + mean * (2 * x - mean) / (2 * scale**2))


def replaced(epsilon, scale, rate):
    """Exact delta of one step, between two rows of opposite gradients."""

    def _loss(x):
        return log_mixture(x, 1, scale, rate) - log_mixture(x, -1, scale, rate)

    edge = brentq(lambda x: _loss(x) - epsilon, -1e4, 1e4, xtol=1e-14)
    beyond = [(1 - rate) * norm.sf(edge, 0, scale) + rate * norm.sf(edge, mean, scale) for mean in (1, -1)]
    return beyond[0] - np.exp(epsilon) * beyond[1]


EXACT = {"add_remove": removed, "replace_one": replaced}


def two_steps(epsilon, scale, rate, adjacency):
    """Delta of two steps: the second step's profile at what the first one leaves of epsilon."""
    other = -1 if adjacency == "replace_one" else 0

    def _integrand(x):
        first, second = (log_mixture(x, mean, scale, rate) for mean in (1, other))
        return norm.pdf(x, 0, scale) * np.exp(first) * EXACT[adjacency](epsilon - first + second, scale, rate)

    return quad(_integrand, -12 * scale, 12 * scale, limit=400, points=[0, 1], epsabs=1e-13)[0]


@BOTH
@pytest.mark.parametrize(("scale", "rate"), [(0.7, 0.01), (1.0, 0.3), (3.0, 0.9)])
def test_sampled_steps_match_quadrature(scale, rate, adjacency):
    """Never below the truth, and above it by no more than a percent and a share of 1e-9."""
    for n_steps, exact in enumerate((EXACT[adjacency], partial(two_steps, adjacency=adjacency)), start=1):
        known = {"scale": scale, "rate": rate, "n_steps": n_steps, "adjacency": adjacency}
        for epsilon in (0.1, 2.0):
            truth = exact(epsilon, scale, rate)
            assert truth - 1e-13 <= subsampled_gaussian_profile(epsilon, **known) <= 1.01 * truth + 1e-9


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_opposite_gradients_are_the_worst_replacement(scale, rate):
    """Exact deltas in the plane, of gradients of any length up to 1 in any two directions; at -g they are attained."""
    rng = np.random.default_rng(0)
    axis, step = np.linspace(-8 * scale - 1, 8 * scale + 1, 500, retstep=True)
    none = np.outer(*2 * [np.exp(-(axis**2) / (2 * scale**2))])

    def _delta(epsilon, g, h):
        bells = (np.outer(*np.exp(-((axis - mean[:, None]) ** 2) / (2 * scale**2))) for mean in (g, h))
        a, b = ((1 - rate) * none + rate * bell for bell in bells)
        return np.maximum(a - np.exp(epsilon) * b, 0).sum() * step**2 / (2 * np.pi * scale**2)

    for epsilon in (0.0, 0.1, 1.0):
        worst = replaced(epsilon, scale, rate)
        for _ in range(8):
            g, h = rng.normal(size=(2, 2))
            g, h = g / max(np.linalg.norm(g), 1), h / max(np.linalg.norm(h), 1)
            assert _delta(epsilon, g, h) <= worst * (1 + 1e-4)
        unit = g / np.linalg.norm(g)
        assert _delta(epsilon, unit, -unit) == pytest.approx(worst, rel=1e-3, abs=1e-9)
        assert _delta(epsilon, unit, -0.9 * unit) < worst


@BOTH
@pytest.mark.parametrize(("scale", "rate"), [(0.3, 1e-8), (0.3, 1e-5), (2.0, 1e-8)])
def test_few_steps_of_few_rows_fit_the_memory(scale, rate, adjacency):
    """Losses of a step reach far beyond their likely size: the grid stays small, and costs a percent of noise."""
    least, most = (EXACT[adjacency](1e-3, factor * scale, rate) for factor in (1.0, 0.99))
    assert least <= subsampled_gaussian_profile(1e-3, scale=scale, rate=rate, adjacency=adjacency) <= most + 1e-12
    assert noisy_steps._composed_losses(scale, rate, 1, adjacency)._pmf_remove.size < 2**16


@pytest.mark.parametrize("rate", [0.5, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("scale", [0.05, 0.3])
def test_next_to_all_rows_and_little_noise_fit_the_memory(scale, rate):
    """The least likelihood of a value under the other row is far below 1 - p, and counts."""
    assert noisy_steps._composed_losses(scale, rate, 1, "replace_one")._pmf_remove.size < 2**17


@pytest.mark.parametrize(("adjacency", "below", "above"), [("add_remove", 1.82, 1.835), ("replace_one", 2.835, 2.85)])
def test_golden_value_of_many_sampled_steps(adjacency, below, above):
    """Epsilon is 1.83, and 2.84 for a replaced row, at p = 0.01, T = 1000, sigma = 1 and delta = 1e-5."""
    known = {"scale": 1.0, "rate": 0.01, "n_steps": 1000, "adjacency": adjacency}
    assert subsampled_gaussian_profile(above, **known) < 1e-5 < subsampled_gaussian_profile(below, **known)


@pytest.mark.parametrize(
    ("epsilon", "delta", "known"),
    [
        *((1.0, 1e-5, {"adjacency": adjacency}) for adjacency in EXACT),
        *((0.03, 1e-9, {"n_steps": 50, "adjacency": adjacency}) for adjacency in EXACT),
        *((2.0, 1e-6, {"rate": 0.05, "n_steps": 100, "adjacency": adjacency}) for adjacency in EXACT),
        # Numbers alone, of which the adjacency decides nothing: each takes ten compositions.
        (0.3, 1e-8, {"rate": 0.5, "n_steps": 10, "adjacency": "add_remove"}),
        (1e4, 1e-6, {"rate": 0.1, "n_steps": 20, "adjacency": "replace_one"}),
    ],
)
def test_descent_scale_is_tight(epsilon, delta, known):
    """It meets the target; one part in a thousand less does not."""
    scale = descent_scale(epsilon, delta, **known)
    assert subsampled_gaussian_profile(epsilon, scale=scale, **known) <= delta
    assert subsampled_gaussian_profile(epsilon, scale=0.999 * scale, **known) > delta


@pytest.mark.parametrize(
    "function",
    [
        partial(subsampled_gaussian_profile, 1.0, scale=1.0),
        partial(subsampled_gaussian_profile, 1.0, scale=1.0, rate=0.5),
        partial(descent_scale, 1.0, 1e-5),
        partial(descent_scale, 1.0, 1e-5, rate=0.5),
        partial(product_descent_scale, 1.0, 1e-5, n_dims=9),
        partial(minimiser_sensitivity, LogisticLoss(), max_norm=1.0, penalty=1.0),
    ],
)
def test_other_neighbours_are_refused(function):
    """A slip of the pen must not halve the noise."""
    with pytest.raises(ValueError, match="adjacency must be 'replace_one' or 'add_remove', got 'replace one'"):
        function(adjacency="replace one")


def test_rounding_of_very_many_sampled_steps_is_paid_for():
    """A transform to a power of 10^5 was off by 8e-12, below zero, where 1e-12 was paid."""
    known = {"scale": 0.632, "rate": 0.001, "n_steps": 100_000}
    deltas = [subsampled_gaussian_profile(epsilon, **known) for epsilon in np.linspace(20.0, 30.0, 21)]
    assert min(deltas) >= 2.0**-49 * 100_000
    with pytest.raises(ValueError, match="down to which 100000 steps"):
        descent_scale(1.0, 1e-11, rate=0.001, n_steps=100_000)


def test_delta_below_the_resolution_of_samples_is_refused():
    """At once, and for samples only."""
    with pytest.raises(ValueError, match="choose a larger delta, or all rows at each step"):
        descent_scale(1.0, 9e-13, rate=0.5, n_steps=10)
    assert descent_scale(1.0, 1e-12, rate=0.5, n_steps=10) < descent_scale(1.0, 9e-13, n_steps=10)


@pytest.mark.parametrize(("step_epsilon", "step_delta", "n_steps"), [(0.1, 1e-6, 30), (1.0, 0.01, 3), (0.02, 0, 500)])
def test_composition_matches_the_oracle(step_epsilon, step_delta, n_steps):
    """The worst case of (epsilon, delta) pairs, composed by dp-accounting."""
    interval = step_epsilon / 10
    step = privacy_loss_distribution.from_privacy_parameters(
        privacy_loss_distribution.common.DifferentialPrivacyParameters(step_epsilon, step_delta),
        value_discretization_interval=interval,
    )
    composed = step.self_compose(n_steps)
    for epsilon in step_epsilon * n_steps * np.array([0.1, 0.5, 0.9]):
        ours = composed_profile(epsilon, step_epsilon=step_epsilon, step_delta=step_delta, n_steps=n_steps)
        assert ours == pytest.approx(composed.get_delta_for_epsilon(epsilon), rel=1e-6, abs=1e-12)


def test_composition_of_nothing_and_of_failure():
    assert composed_profile(1.0, step_epsilon=1.0, step_delta=0.0, n_steps=1) == 0.0
    assert composed_profile(1.0, step_epsilon=1.0, step_delta=1.0, n_steps=5) == 1.0


@pytest.mark.parametrize("rate", [0.01, 0.5, 1.0])
def test_amplification_is_attained(rate):
    """One sampled Gaussian step has exactly the amplified delta."""
    epsilon, delta = amplified(1.0, gaussian_profile(1.0, scale=2.0), rate=rate)
    assert removed(epsilon, 2.0, rate) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.5, 1 - 1e-12])
def test_amplification_covers_a_replaced_row(rate):
    """From the delta between two rows; attained where all rows are taken, and not wasteful elsewhere."""
    epsilon, delta = amplified(1.0, gaussian_profile(1.0, scale=2.0, sensitivity=2.0), rate=rate)
    share = replaced(epsilon, 2.0, rate) / delta
    assert share <= 1 + 1e-9
    assert share == pytest.approx(1, rel=1e-6) if rate > 0.9 else share > 0.1


@pytest.mark.parametrize("rate", [1e-3, 0.3, 1.0])
def test_amplification_has_an_inverse(rate):
    for epsilon in (1e-9, 0.1, 1.0, 1.1, 30.0, 1e6):
        assert noisy_steps._deamplified(amplified(epsilon, 0.0, rate=rate)[0], rate) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("known", [{"n_steps": 1}, {"n_steps": 20}, {"n_steps": 20, "rate": 0.1}], ids=str)
def test_product_scale_meets_its_target(known):
    """Some guarantee of a step proves the target; with a tenth less noise none does."""
    epsilon, delta, law = 1.0, 1e-6, {"n_dims": 30, "shape": 30, "power": 1, "sensitivity": 2.0}
    scale = product_descent_scale(epsilon, delta, n_dims=30, **known)
    rate, n_steps = known.get("rate", 1.0), known["n_steps"]

    def _proved(scale):
        splits = [noisy_steps._step_target(epsilon, delta, s, rate, n_steps)[0] for s in np.linspace(0.1, 0.9, 9)]
        pairs = [amplified(e, spherical_profile(e, scale=scale, **law), rate=rate) for e in splits]
        return min(composed_profile(epsilon, step_epsilon=e, step_delta=d, n_steps=n_steps) for e, d in pairs)

    assert _proved(scale) <= delta < _proved(0.9 * scale)
    blank = product_descent_scale(epsilon, delta, n_dims=30, **known, adjacency="add_remove")
    assert blank == pytest.approx(scale / 2, rel=1e-9)


@pytest.mark.parametrize("m", [10, 1000, 20_000])
def test_price_of_sampled_values(m, monkeypatch):
    """The cost covers the worst m values, each with a probability off by a factor exp(eta): with eta made large."""
    eta = 1e-3
    monkeypatch.setattr(noisy_steps, "SAMPLING_LOSS", eta)
    monkeypatch.setattr("skdprp.mechanisms._numerics.SAMPLING_LOSS", eta)
    epsilon, delta = 3.0, 1e-5
    left, left_delta = sampled_steps_target(epsilon, delta, n_changed=m)
    loss = (epsilon - left) / 2
    assert left_delta < delta
    # [epsilon, delta] -> [epsilon + 2 loss, e^loss delta + tail (1 + e^(epsilon + loss))]
    tail = randomised_response_profile(loss, epsilon0=eta, n_bits=m)
    assert np.exp(loss) * left_delta + tail * (1 + np.exp(left + loss)) <= delta * (1 + 1e-12)
    if m > 10:
        tight = randomised_response_profile(loss / 4, epsilon0=eta, n_bits=m)
        assert np.exp(loss / 4) * left_delta + tight * (1 + np.exp(left)) > delta


def test_few_sampled_values_cost_what_they_did():
    """Neither price is ever above that of a single release."""
    for m in (1, 10, 10**4, 10**8):
        for epsilon in (0.5, 1e6):
            old = sampled_target(epsilon, 1e-6, n_changed=m)
            assert sampled_steps_target(epsilon, 1e-6, n_changed=m)[0] >= old[0]
    assert sampled_steps_target(0.5, 1e-6, n_changed=10) == sampled_target(0.5, 1e-6, n_changed=10)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("known", "share"),
    [
        ({"scale": 0.0, "rate": 0.1, "n_steps": 2}, 0.19),
        ({"scale": 1e-300, "rate": 0.1}, 0.1),
        ({"scale": 1.0, "sensitivity": math.inf, "rate": 0.1}, 0.1),
        ({"scale": 1.0, "rate": 1e-20, "n_steps": 7}, 7e-20),
        ({"scale": 1.0, "rate": 0.0}, 0.0),
        ({"scale": 1.0, "sensitivity": 0.0, "rate": 0.5}, 0.0),
        ({"scale": 0.0, "sensitivity": 0.0, "rate": 0.5}, 0.0),
        ({"scale": math.inf, "rate": 0.5}, 0.0),
    ],
)
def test_samples_with_no_noise_or_hardly_any_row_are_known_by_whether_the_row_is_sampled(known, share, adjacency):
    """These raised errors of the accountant, which overflowed."""
    for epsilon in (0.0, 3.0, -0.5):
        unsampled = subsampled_gaussian_profile(epsilon, **known | {"rate": 1.0}, adjacency=adjacency)
        expected = share * unsampled + (1 - share) * max(0.0, -math.expm1(epsilon))
        stated = subsampled_gaussian_profile(epsilon, **known, adjacency=adjacency)
        assert stated == pytest.approx(expected, rel=1e-12, abs=0) and math.copysign(1.0, stated) == 1.0
        assert unsampled == 1.0 or known["rate"] != 0.1  # without noise the row is found wherever it is


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "known", [{"scale": 1e6, "rate": 1e-9}, {"scale": 1e9, "rate": 0.5, "n_steps": 100}, {"scale": 1e300, "rate": 0.5}]
)
def test_losses_that_floats_do_not_tell_from_zero_are_accounted(known, adjacency):
    stated = subsampled_gaussian_profile(1e-3, **known, adjacency=adjacency)
    assert 0.0 < stated < 1e-12
