"""MI-DP regression: calibrations against integration, leaks, attacks, and what a release may carry."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import sizes
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from skdprp import mechanisms
from skdprp.mechanisms import gaussian_profile, information_scale
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon
from skdprp.mechanisms.mutual_information import (
    gaussian_information,
    information_delta,
    pinsker_delta,
    projected_entry_epsilon,
    sampled_information,
)

EPSILONS = [0.01, 0.2, 0.5, 1.0, 3.0]


def binary_information(amplitude):
    """Bits about an equiprobable sign in ``sign * amplitude + N(0, 1)``, by integration."""

    def loss(z):
        return math.exp(-z * z / 2) * np.logaddexp(0, -2 * amplitude * (amplitude + z))

    return 1 - quad(loss, -12, 12, epsabs=1e-12, limit=200)[0] / (math.sqrt(2 * math.pi) * math.log(2))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sizes", [{}, {"max_abs": 7.0}, {"n_components": 300, "max_abs": 0.1}])
def test_scale_is_exact(epsilon, sizes):
    """The calibrated noise lets at most epsilon bits through; one part per million less does not."""
    scale = information_scale(epsilon, **sizes)
    assert gaussian_information(scale=scale, **sizes) <= epsilon
    assert gaussian_information(scale=scale * (1 - 1e-6), **sizes) > epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_residual_takes_its_share_of_the_noise(epsilon):
    """The variance of the noise and the squared residual add up to what is needed."""
    needed = information_scale(epsilon, n_components=50)
    residual = 0.9 * needed
    scale = information_scale(epsilon, n_components=50, min_residual=residual)
    assert gaussian_information(scale=scale, n_components=50, min_residual=residual) <= epsilon
    assert scale == pytest.approx(needed * np.sqrt(0.19), rel=1e-9)


@pytest.mark.parametrize("n_samples", [None, 10**4, 10**8])
def test_a_projection_has_noise_that_hides_the_last_bits_of_floats(n_samples):
    """Where real numbers would need none, or nearly none; with a residual and of unknown length, those of any column.

    Each of n partial sums is at most ``max_abs sqrt(n)``, and rounded by a part in 2^53.
    """
    longest = 3.0 * np.sqrt(2**40 if n_samples is None else n_samples)
    known = {"n_components": 50, "max_abs": 3.0, "n_samples": n_samples}
    for epsilon, min_residual in ((0.5, 0.9 * longest), (60.0, 0.9 * longest), (60.0, 0.0)):
        if n_samples or min_residual:
            scale = information_scale(epsilon, **known, min_residual=min_residual)
            assert scale == pytest.approx(2.0**-30 * longest, rel=1e-15)
            assert scale >= 100 * 2.0**-53 * longest * np.sqrt(n_samples or 2**20)
    assert information_scale(60.0, max_abs=3.0) < 2.0**-58  # noise on the entries themselves, which are not rounded


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_input_attains_the_bound(epsilon):
    """Mutual information of a Gaussian entry of power one, integrated from its densities, is epsilon."""
    scale = information_scale(epsilon)
    spread = np.hypot(1, scale)
    entropy = quad(lambda x: -stats.norm.pdf(x, 0, spread) * stats.norm.logpdf(x, 0, spread), -14 * spread, 14 * spread)
    conditional = 0.5 * np.log(2 * np.pi * np.e * scale**2)
    assert (entropy[0] - conditional) / np.log(2) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounded_input_stays_below_the_bound(epsilon):
    """A sign, the worst input within [-1, 1] at much noise, reveals at most epsilon, and nearly that if small."""
    bits = binary_information(1 / information_scale(epsilon))
    assert bits <= epsilon
    assert epsilon >= 0.5 or bits >= 0.95 * epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 0.5])
@pytest.mark.parametrize("n_components", [3, 200])
def test_projected_sign_stays_below_the_bound(epsilon, n_components):
    """Information about a sign in ``t s + noise`` given s, averaged over the chi distribution of its norm."""
    scale = information_scale(epsilon, n_components=n_components)
    lengths = stats.chi(n_components).ppf((np.arange(30) + 0.5) / 30)
    bits = np.mean([binary_information(length / scale) for length in lengths])
    assert 0.8 * epsilon < bits <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_information_delta_is_the_root(epsilon):
    """The binary symmetric channel of that total variation carries epsilon bits; slightly less variation, fewer."""

    def bits(delta):
        return 1 - stats.entropy([(1 + delta) / 2, (1 - delta) / 2], base=2)

    delta = information_delta(epsilon)
    assert delta <= pinsker_delta(epsilon) + 1e-15
    if epsilon >= 1:
        assert delta == 1.0
    else:
        assert bits(0.99999 * delta) < epsilon <= bits(delta) + 1e-12
        assert delta == pytest.approx(brentq(lambda t: bits(t) - epsilon, 1e-6, 1 - 1e-12, xtol=1e-13), rel=1e-8)


@pytest.mark.parametrize("epsilon", np.exp(np.random.default_rng(0).uniform(-50, 0, 60)))
def test_information_delta_is_an_upper_bound(epsilon):
    """To the last bit, and by a part in 10^12 at most."""
    with mpmath.workdps(50):

        def bits(delta):
            return 1 + sum(p * mpmath.log(p, 2) for p in ((1 + delta) / 2, (1 - delta) / 2))

        delta = mpmath.mpf(information_delta(epsilon))
        assert bits(delta * (1 - mpmath.mpf(10) ** -12)) < mpmath.mpf(epsilon) <= bits(delta)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("n_changed", [1, 1000, 10**6])
def test_bits_that_sampling_may_add_are_paid(epsilon, n_changed):
    """The bound on sampled noise, at what ideal noise may let through, is epsilon."""
    loss = n_changed * 2.0**-31
    ideal = sampled_information(epsilon, n_changed=n_changed) * np.log(2)
    sampled = np.exp(loss) * ideal + 2 * loss + np.expm1(loss) * 2 / np.e
    assert sampled == pytest.approx(epsilon * np.log(2), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-12, 0.2, 0.6])
def test_conversions_agree_for_little_information(epsilon):
    assert 0.9 * pinsker_delta(epsilon) < information_delta(epsilon) <= pinsker_delta(epsilon)
    assert epsilon > 1e-6 or information_delta(epsilon) == pytest.approx(np.sqrt(2 * epsilon * np.log(2)), rel=1e-9)


@pytest.mark.parametrize("amplitude", [0.1, 1.0, 2.0])
def test_information_bounds_the_total_variation(amplitude):
    """For Gaussian noise the total variation is known: 2 Phi(a) - 1 is below what its information allows."""
    total_variation = 2 * stats.norm.cdf(amplitude) - 1
    assert 0.75 * information_delta(binary_information(amplitude)) < total_variation
    assert total_variation <= information_delta(binary_information(amplitude))


@pytest.mark.parametrize("scale", [0.1, 1.0, 1.7691, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_gaussian_epsilon_inverts_the_profile(scale, delta):
    epsilon = gaussian_epsilon(delta, scale=scale, sensitivity=2.0)
    assert gaussian_profile(epsilon, scale=scale, sensitivity=2.0) <= delta
    assert epsilon == 0 or gaussian_profile(epsilon * (1 - 1e-6), scale=scale, sensitivity=2.0) > delta


def test_additive_entry_epsilon_is_known():
    """At 0.2 bits, one entry is (5.05, 1e-5)-DP."""
    assert gaussian_epsilon(1e-5, scale=information_scale(0.2), sensitivity=2.0) == pytest.approx(5.05, abs=0.01)
    assert gaussian_epsilon(1e-5, scale=0.0) == np.inf


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
@pytest.mark.parametrize("n_components", [1, 10, 1000])
@pytest.mark.parametrize("bits", [0.1, 1.0, 6.0])
def test_projected_entry_epsilon_is_that_of_the_mixture(delta, n_components, bits):
    """The Gaussian profile, averaged over the norm of the column of S by integration, is delta there."""
    noise = information_scale(bits, n_components=n_components)
    known = {"scale": 0.6 * noise, "min_residual": 0.8 * noise, "max_abs": 0.7, "n_components": n_components}
    epsilon = projected_entry_epsilon(delta, **known)
    norm = stats.chi(n_components)

    edges = np.geomspace(1e-6 * delta, 0.5, 40)
    edges = np.unique(np.concatenate([norm.ppf(edges), norm.isf(edges)]))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, None] / 2
    norms, weights = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    weights *= norm.pdf(norms)

    def mixture(epsilon):
        return weights @ [gaussian_profile(epsilon, scale=noise, sensitivity=1.4 * s) for s in norms]

    assert mixture(epsilon) <= delta
    assert epsilon == 0 or mixture(epsilon) > 0.98 * delta


def channel_information(rows):
    """Bits about which of two equiprobable rows an outcome comes from."""
    return stats.entropy(rows.mean(axis=0), base=2) - np.mean([stats.entropy(row, base=2) for row in rows])


@pytest.mark.parametrize("n_values", [2, 30])
def test_sampled_information_covers_any_sampling_error(n_values, monkeypatch):
    """Channels with probabilities off by the sampling loss may carry more than the ideal ones, within the target."""
    loss = 0.01
    monkeypatch.setattr(mechanisms.mutual_information, "SAMPLING_LOSS", loss)
    constant = 1.0 - np.exp(loss) * mechanisms.mutual_information.sampled_information(1.0, n_changed=1)
    rng = np.random.default_rng(0)
    excess, margin = [], []
    for _ in range(200):
        ideal = rng.dirichlet(np.full(n_values, 0.5), 2)
        sampled = ideal * np.exp(loss / 2 * np.sign(ideal - ideal.mean(axis=0)))
        bits = channel_information(sampled / sampled.sum(axis=1, keepdims=True))
        excess.append(bits - channel_information(ideal))
        margin.append(np.exp(loss) * channel_information(ideal) + constant - bits)
    assert max(excess) > 0 and min(margin) > 0 and constant < 5 * loss


@given(sizes(1e-3, 60.0), sizes(1e-3, 1e3), st.integers(1, 10**5), st.floats(0.0, 50.0))
def test_noise_for_bits_meets_its_target(epsilon, max_abs, n_components, min_residual):
    known = {"max_abs": max_abs, "n_components": n_components, "min_residual": min_residual}
    assert gaussian_information(scale=information_scale(epsilon, **known), **known) <= epsilon
