"""Composition against independent computations."""

import math
import sys
from itertools import product

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiles import assert_bounds, few, loss_of, precise_gaussian_profile, sizes
from scipy import stats
from scipy.special import expit

from skdprp import PrivacyGuarantee, compose
from skdprp.composition import PrivacyLoss, Profile, _convex_minorant, approximate_profile
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import gaussian_profile, spherical_profile
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.gaussian_laplace import laplace_profile
from skdprp.mechanisms.objective_perturbation import objective_perturbation_profile
from skdprp.mechanisms.randomised_response import randomised_response_profile

EPSILONS = [0.0, 0.1, 0.5, 1.0, 1.7, 3.0]


def bits_and_gaussian_profile(epsilon, losses, mu):
    """Exact profile of one randomised response for each of `losses`, with a Gaussian mechanism, by enumeration."""
    total = 0.0
    for signs in product([-1, 1], repeat=len(losses)):
        probability = np.prod([expit(sign * loss) for sign, loss in zip(signs, losses, strict=True)])
        rest = epsilon - np.dot(signs, losses)
        total += probability * gaussian_profile(rest, scale=1.0, sensitivity=mu)
    return total


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("losses", "mu"), [((1.0,), 0.3), ((0.2, 0.7), 0.0), ((0.5, 0.5, 0.5), 1.2), ((3.0, 0.01), 0.1)]
)
def test_composition_is_exact_and_never_below(epsilon, losses, mu):
    total = PrivacyLoss(mu=mu)
    for loss in losses:
        total += loss_of(approximate_profile, epsilon0=loss)
    exact = bits_and_gaussian_profile(epsilon, losses, mu)
    assert exact <= total.profile(epsilon) <= exact * 1.01 + 1e-11


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_profiles_compose_as_the_mechanisms_of_an_independent_accountant(epsilon):
    total = loss_of(laplace_profile, scale=2.0) + PrivacyLoss(mu=0.5) + loss_of(laplace_profile, scale=4.0)
    fine = {"value_discretization_interval": 1e-4}
    oracle = privacy_loss_distribution.from_gaussian_mechanism(2.0, **fine)
    for scale in (2.0, 4.0):
        oracle = oracle.compose(privacy_loss_distribution.from_laplace_mechanism(scale, **fine))
    exact = oracle.get_delta_for_epsilon(epsilon)
    assert exact - 1e-9 <= total.profile(epsilon) <= exact * 1.01 + 1e-11


def test_gaussians_compose_in_closed_form_and_through_their_distribution_alike():
    closed = PrivacyLoss(mu=0.3) + PrivacyLoss(mu=0.4)
    numeric = PrivacyLoss(mu=0.3) + loss_of(gaussian_profile, scale=1.0, sensitivity=0.4)
    assert closed.method == "closed form" and numeric.method == "privacy loss distribution"
    for epsilon in EPSILONS:
        exact = gaussian_profile(epsilon, scale=2.0)
        assert exact < closed.profile(epsilon) < exact * (1 + 1e-9)
        assert exact <= numeric.profile(epsilon) <= exact * 1.01 + 1e-11


def test_where_next_to_no_loss_is_finite_delta_is_one():
    loss = PrivacyLoss(mu=0.1) + loss_of(approximate_profile, epsilon0=5.0, delta0=1 - 1e-9)
    assert loss.profile(0.0) == 1


def test_many_bits_compose_as_more_bits():
    half = loss_of(randomised_response_profile, epsilon0=0.05, n_bits=20)
    for epsilon in EPSILONS:
        exact = randomised_response_profile(epsilon, epsilon0=0.05, n_bits=40)
        assert exact <= (half + half).profile(epsilon) <= exact * 1.1 + 1e-11
        assert exact * 1.01 >= (half + half).profile(epsilon) or exact < 1e-9


def test_composition_of_approximate_guarantees_is_the_known_optimum():
    """Kairouz, Oh and Viswanath 2015, Theorem 3.3, for 10 releases of (0.5, 1e-4)-DP."""
    total = PrivacyLoss()
    for _ in range(10):
        total += loss_of(approximate_profile, epsilon0=0.5, delta0=1e-4)
    for epsilon in EPSILONS:
        pure = randomised_response_profile(epsilon, epsilon0=0.5, n_bits=10)
        exact = 1 - (1 - 1e-4) ** 10 * (1 - pure)
        assert exact - 1e-12 <= total.profile(epsilon) <= exact * 1.01 + 1e-11


@pytest.mark.parametrize(
    "loss",
    [
        PrivacyLoss(mu=0.7),
        loss_of(spherical_profile, scale=2.0, n_dims=9, shape=9, power=1),
        loss_of(objective_perturbation_profile, scale=4.0, log_det=0.1),
        PrivacyLoss(mu=0.2) + loss_of(laplace_profile, scale=3.0),
    ],
)
def test_epsilon_inverts_the_profile(loss):
    for delta in (1e-3, 1e-6):
        epsilon = loss.epsilon(delta)
        assert loss.profile(epsilon) <= delta < loss.profile(epsilon * (1 - 1e-9))


def test_epsilon_is_infinite_where_delta_is_never_reached():
    assert loss_of(approximate_profile, epsilon0=1.0, delta0=1e-3).epsilon(1e-4) == float("inf")
    assert loss_of(approximate_profile, epsilon0=float("inf")).profile(100.0) == 1.0


def test_sampling_is_paid_once_for_each_release():
    ideal, sampled = PrivacyLoss(mu=0.5), PrivacyLoss(mu=0.3, sampling=0.1) + PrivacyLoss(mu=0.4, sampling=0.2)
    assert sampled.profile(1.0) == pytest.approx(np.exp(0.3) * ideal.profile(1.0 - 0.6), rel=1e-12)


def test_sampling_reaches_below_zero():
    """At epsilon < 2 s the profile of the other order of the neighbours is needed: exact for one bit."""
    loss = PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=1.0),), sampling=0.1)
    p = expit(1.0)
    exact = np.exp(0.1) * (p - np.exp(-0.2) * (1 - p))
    assert exact < loss.profile(0.0) < exact * (1 + 1e-9)


def test_sampling_of_hardly_any_loss_keeps_its_digits():
    """Gaussian noise far larger than what sampling costs: at epsilon = 0 delta is close to total variation."""
    loss = PrivacyLoss(mu=1e-9, sampling=1e-9)
    exact = -np.expm1(-2e-9) + np.exp(-2e-9) * gaussian_profile(2e-9, scale=1e9)
    assert exact < loss.profile(0.0) < exact * (1 + 2e-9)


def test_convex_minorant_is_convex_and_touches():
    x, y = np.arange(6.0), np.array([5.0, 4.5, 2.0, 1.9, 0.5, 0.0])
    hull = _convex_minorant(x, y)
    assert np.all(hull <= y) and np.all(np.diff(hull, 2) >= -1e-15)
    np.testing.assert_allclose(hull, [5.0, 3.5, 2.0, 1.25, 0.5, 0.0])


@given(arrays(float, 12, elements=st.floats(0, 1)), arrays(float, 12, elements=st.floats(0.01, 1)))
def test_convex_minorant_is_the_largest(y, steps):
    """At each point the least of all chords over it."""
    x = np.cumsum(steps)
    hull = _convex_minorant(x, y)
    for i in range(12):
        chords = [np.interp(x[i], x[[a, b]], y[[a, b]]) for a in range(i + 1) for b in range(i, 12) if a < b]
        assert hull[i] == pytest.approx(min([y[i], *chords]), abs=1e-12)


@pytest.mark.parametrize("name", ["mu", "sampling", "failure_probability"])
def test_no_part_of_a_loss_is_negative(name):
    for value in (-1e-300, -0.5, float("nan")):
        with pytest.raises(ValueError, match="at least 0"):
            PrivacyLoss(**{name: value})


def _one_of_two_gaussians(epsilon, *, mus, share):
    """Profile of a mechanism that draws which of two Gaussian ones it is, and says so."""
    deltas = [gaussian_profile(epsilon, scale=1.0, sensitivity=mu) for mu in mus]
    return (1 - share) * deltas[0] + share * deltas[1]


@pytest.mark.parametrize("share", [1e-9, 1e-6, 1e-3])
def test_a_release_that_may_lose_nearly_all_composes_as_tightly_as_others(share):
    """The dots of its profile are close where it bends, not where the largest loss is: 700, for a usual one of 0.3."""
    mus = 0.1, 30.0
    once = loss_of(_one_of_two_gaussians, mus=mus, share=share)
    for epsilon in (0.0, 0.05, 0.3, 0.6, 1.0, 50.0):
        large = gaussian_profile(epsilon, scale=1.0, sensitivity=mus[1] * 2**0.5)
        mixed = gaussian_profile(epsilon, scale=1.0, sensitivity=np.hypot(*mus))
        small = gaussian_profile(epsilon, scale=1.0, sensitivity=mus[0] * 2**0.5)
        exact = (1 - share) ** 2 * small + 2 * share * (1 - share) * mixed + share**2 * large
        assert exact - 1e-12 <= (once + once).profile(epsilon) <= exact * 1.02 + 1e-11


def test_a_bound_that_is_not_convex_composes_as_its_convex_minorant():
    total = loss_of(objective_perturbation_profile, scale=4.0, log_det=0.2) + PrivacyLoss(mu=0.1)
    profile = np.array([total.profile(epsilon) for epsilon in np.linspace(0, 3, 61)])
    assert np.all(np.diff(profile) <= 0) and profile[0] < 1


def test_losses_without_loss_compose_to_none():
    nothing = loss_of(approximate_profile, epsilon0=0.0)
    assert (nothing + nothing).profile(0.0) < 2.0**-39


def test_composition_without_the_accountant_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    total = loss_of(laplace_profile, scale=1.25) + PrivacyLoss(mu=0.31)
    with pytest.raises(ImportError, match=r"skdprp\[pld\]"):
        total.profile(1.0)


def test_failure_probabilities_add_up_whether_or_not_failures_coincide():
    one = PrivacyLoss(mu=0.3, failure_probability=1e-3)
    assert (one + one).profile(1.0) == pytest.approx(gaussian_profile(1.0, scale=1 / np.hypot(0.3, 0.3)) + 2e-3)


def test_many_small_losses_need_no_fine_grid():
    total = PrivacyLoss()
    for _ in range(2000):
        total += loss_of(approximate_profile, epsilon0=1e-3)
    exact = randomised_response_profile(0.1, epsilon0=1e-3, n_bits=2000)
    assert exact <= total.profile(0.1) and total.epsilon(exact) <= 0.102


def test_rounding_of_thousands_of_releases_is_paid_for():
    """A Fourier transform to a power is off by more, the larger the power: at delta = 0 nothing but the sum holds."""
    many = PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=0.005),) * 14_000)
    assert many.epsilon(0.0) == math.inf  # where the sum is stated
    for epsilon in (5.04, 6.0, 8.0):
        assert many.profile(epsilon) >= randomised_response_profile(epsilon, epsilon0=0.005, n_bits=14_000)
    total = compose(*[PrivacyGuarantee(0.005, 0.0, adjacency=Adjacency("replace_one"))] * 14_000)
    assert total.delta == 0.0 and total.epsilon >= 70.0 * (1 - 1e-12)


def test_stated_deltas_of_composed_gaussian_noise_are_upper_bounds():
    for mus in ((0.3, 0.4), (1e-3,) * 50, (2.0, 1e-5, 0.7)):
        mu = mpmath.sqrt(sum(mpmath.mpf(mu) ** 2 for mu in mus))
        total = sum((PrivacyLoss(mu=mu) for mu in mus), start=PrivacyLoss())
        for epsilon in (0.01, 0.3, 1.0):
            exact = precise_gaussian_profile(epsilon, mu)
            if exact > 1e-290:
                assert_bounds(total.profile(epsilon), exact)


def test_what_cannot_be_computed_is_no_small_delta():
    for loss in (PrivacyLoss(mu=1.0), loss_of(randomised_response_profile, epsilon0=0.5, n_bits=3)):
        assert loss.profile(float("nan")) == 1.0


GAUSSIANS = sizes(1e-2, 2.0).map(lambda mu: PrivacyLoss(mu=mu))
RESPONSES = sizes(1e-2, 2.0).map(lambda e: loss_of(approximate_profile, epsilon0=e))
LAPLACES = sizes(0.5, 50.0).map(lambda scale: loss_of(laplace_profile, scale=scale))
LOSSES = st.one_of(GAUSSIANS, RESPONSES, LAPLACES)
FFT = 2.0**-39  # what a total by convolution adds, and what floats lose of it


def stated(loss, delta):
    """A guarantee at one delta."""
    return PrivacyGuarantee(loss.epsilon(delta), delta, adjacency=Adjacency("replace_one"), loss=loss)


@few
@given(st.lists(LOSSES, min_size=2, max_size=3), sizes(1e-3, 3.0), st.randoms(use_true_random=False))
def test_a_total_is_never_below_a_part_and_the_order_of_releases_does_not_matter(losses, epsilon, random):
    shuffled = random.sample(losses, len(losses))
    first, second = (sum(some, PrivacyLoss()).profile(epsilon) for some in (losses, shuffled))
    assert first == pytest.approx(second, rel=1e-9, abs=FFT)
    assert all(loss.profile(epsilon) <= rounded_up(first) for loss in losses)


@few
@given(st.lists(st.tuples(LOSSES, sizes(1e-9, 1e-2)), min_size=2, max_size=3))
def test_basic_composition_is_an_upper_bound(parts):
    """And a total never promises more than its own profile."""
    guarantees = [stated(loss, delta) for loss, delta in parts]
    total = compose(*guarantees)
    assert total.epsilon <= sum(guarantee.epsilon for guarantee in guarantees) * (1 + 2.0**-50)
    assert total.delta >= max(guarantee.delta for guarantee in guarantees)
    assert total.profile(total.epsilon) <= total.delta


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0, 12.7])
def test_no_delta_is_below_what_tails_that_are_never_sampled_tell(mu):
    """Beyond 38.5 deviations nothing is released: what lies there of one neighbour, the other never gives."""
    loss = PrivacyLoss(mu=mu, sampling=2.0**-30)
    deltas = [loss.profile(epsilon) for epsilon in (0.5, 8.0, 8.5, 50.0, 400.0, 1e4, 1e9)]
    assert min(deltas) >= stats.norm.cdf(mu - 38.5) and (np.diff(deltas) <= 0).all()
    assert loss.epsilon(stats.norm.cdf(mu - 38.5)) == np.inf
    ideal = PrivacyLoss(mu=mu)
    for epsilon in (0.5, 1.0, 2.0):
        assert loss.profile(epsilon) <= ideal.profile(epsilon - 2.0**-29) * (1 + 2.0**-20) + 2.0**-200
