"""What papers claim: their formulas, and what is true of them."""

import mpmath
import numpy as np
import pytest

from skdprp.mechanisms import (
    flip_probability,
    objective_perturbation_scale,
    published_product_noise_scale,
    spherical_profile,
)
from skdprp.mechanisms.published import (
    local_flip_probability,
    published_information_scale,
    published_objective_perturbation,
    published_rademacher_sign_change_probability,
    published_sign_change_probability,
    published_sign_changes,
)


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


def test_signs_of_a_rademacher_projection_that_may_flip_are_no_more_than_approximated():
    """(31) against all 2^16 vectors of signs: close for a row of many like coordinates, and no bound for others."""
    signs = 1 - 2 * (np.arange(2**16)[:, None] >> np.arange(16) & 1)
    for beta in (0.3, 1.0, 2.0):
        u = np.random.default_rng(0).uniform(-1, 1, 16)
        exact = np.mean(abs(signs @ u) <= beta)
        assert published_rademacher_sign_change_probability(beta / np.linalg.norm(u)) == pytest.approx(exact, abs=0.02)
    assert np.mean(abs(signs @ np.eye(16)[0]) <= 1) == 1 > published_rademacher_sign_change_probability(1.0) + 0.3


def test_smooth_flips_cover_local_ones_and_change_little():
    """The local probability falls from that of randomised response to 0 at once; its smooth bound by a factor each."""
    levels, epsilon = np.arange(1, 60), 0.4
    local, smooth = local_flip_probability(levels, epsilon), flip_probability(levels, epsilon)
    assert local[0] == smooth[0] == pytest.approx(1 / (1 + np.exp(epsilon))) and not local[1:].any()
    assert (smooth >= local).all() and (smooth[:-1] / smooth[1:] <= np.exp(epsilon) * (1 + 1e-12)).all()
    assert ((1 - smooth[1:]) / (1 - smooth[:-1]) <= np.exp(epsilon)).all()


def _claimed_delta(k, epsilon, n_dims):
    """Algorithm 1 as printed, in multiple precision: (t, delta)."""
    m = mpmath.mpf(n_dims)
    t = mpmath.sqrt(2 * k ** (4 / m) * (m / 4 + 1.5) ** (1 + 4 / m) / mpmath.e ** (1 + 2 / m))
    lam = epsilon / t
    z = lam**2 / 2
    series = mpmath.hyp1f1(m / 4 + 0.5, 0.5, z) + mpmath.sqrt(2) * lam * mpmath.hyp1f1(m / 4 + 1, 1.5, z)
    factor = mpmath.sqrt(m - 1) / (mpmath.sqrt(m / 2 - 1.5) * mpmath.sqrt(m / 2 + 0.75))
    return t, mpmath.exp(-z) / (k * mpmath.sqrt(mpmath.pi)) * series * factor


@pytest.mark.parametrize("n_dims", [4, 14, 784, 47236, 10**6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 100.0])
def test_published_scale_is_the_printed_one(n_dims, epsilon):
    """The published scale is the root of the printed delta, to 12 digits."""
    with mpmath.workdps(40):
        log_k = mpmath.findroot(lambda x: mpmath.log(1e5 * _claimed_delta(mpmath.exp(x), epsilon, n_dims)[1]), 11.0)
        exact = float(3 * _claimed_delta(mpmath.exp(log_k), epsilon, n_dims)[0] / epsilon)
    scale = published_product_noise_scale(epsilon, 1e-5, sensitivity=3.0, n_dims=n_dims)
    assert scale == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("n_dims, epsilon, low, high", [(784, 1.0, 0.725, 0.735), (47236, 0.1, 0.205, 0.215)])
def test_published_scale_is_not_private(n_dims, epsilon, low, high):
    """The exact delta of the published calibration, where 1e-5 is claimed."""
    sigma = published_product_noise_scale(epsilon, 1e-5, n_dims=n_dims)
    assert low < spherical_profile(epsilon, scale=np.sqrt(2) * sigma, n_dims=n_dims, shape=1, power=2) < high


def test_published_scale_is_undefined_in_low_dimension():
    with pytest.raises(ValueError, match="n_dims >= 4"):
        published_product_noise_scale(1.0, 1e-5, n_dims=3)


def test_published_split():
    """H-F AMP at epsilon = 1: one percent for the release, the share f = .906 of the rest for the noise."""
    known = published_objective_perturbation(1.0, 1e-6)
    assert known.scale == pytest.approx(2 * (1 + np.sqrt(2 * np.log(1 / 0.99e-6))) / (0.906 * 0.99))
    assert known.release_factor == pytest.approx((1 + np.sqrt(2 * np.log(1 / 1e-8))) / 0.01)
    assert known.least_penalty == pytest.approx(2 / (0.99 - 0.906 * 0.99))
    # At large epsilon the share is 1 - 1 / epsilon and a little.
    scale = published_objective_perturbation(20.0, 1e-6).scale
    assert scale == pytest.approx(2 * (1 + np.sqrt(2 * np.log(1 / 0.99e-6))) / (0.951 * 0.99 * 20))
    # The exact calibration needs less than half of that noise.
    assert objective_perturbation_scale(1.0, 1e-6, log_det=0.05) < 0.65 * known.scale


def test_published_scale():
    assert published_information_scale(0.5, n_components=25, residual=3.0, max_abs=2.0) == pytest.approx(91**0.5)
    assert published_information_scale(0.5, n_components=25, residual=5.0) == 0.0
