"""What papers claim: their formulas, and what is true of them."""

import pickle

import mpmath
import numpy as np
import pytest

from skdprp.mechanisms import (
    Published,
    flip_probability,
    gaussian_scale,
    objective_perturbation_scale,
    published_product_noise_delta,
    published_product_noise_scale,
    spherical_profile,
)
from skdprp.mechanisms.noisy_steps import amplified, composed_profile
from skdprp.mechanisms.published import (
    local_flip_probability,
    published_composition,
    published_information_scale,
    published_objective_perturbation,
    published_rademacher_sign_change_probability,
    published_sign_change_probability,
    published_sign_changes,
)


def test_published_sign_changes_golden_values():
    """The published bound as a formula."""
    n_plus = published_sign_changes(1e-6, relative_change=0.1, n_features=1000, n_components=256)
    assert 1 / n_plus == pytest.approx(0.0083, abs=5e-5)
    assert published_sign_changes(1e-6, relative_change=1.9, n_features=1000, n_components=8) == 8


def test_published_sign_change_probability_is_no_bound():
    """Of a row with two equal entries beta can flip a sign more often than F says: .749 is more than .666.

    For w at the angle t from the row, |u| |cos t| <= beta max_i |w_i| fails for cos t > r cos(pi / 4 - t) only.
    """
    r, n = 0.999, 10**6
    t = (np.arange(n) + 0.5) * np.pi / n
    largest = np.maximum(abs(np.cos(t + np.pi / 4)), abs(np.sin(t + np.pi / 4)))
    exact = 1 - 2 / np.pi * np.arctan(np.sqrt(2) / r - 1)
    assert np.mean(abs(np.cos(t)) <= r * largest) == pytest.approx(exact, abs=4 / n)
    assert (round(exact, 3), round(published_sign_change_probability(r, 2), 3)) == (0.749, 0.666)


@pytest.mark.parametrize("n_features", [1, 2, 50, 10**7])
def test_published_sign_change_probability_is_its_integral(n_features):
    """The integral over the maximum of p half-normals, by a change of variable and high precision."""
    ratio = 0.3
    with mpmath.workdps(20):

        def integrand(u):
            t = mpmath.sqrt(2) * mpmath.erfinv(mpmath.root(u, n_features))
            return mpmath.erf(t * ratio / mpmath.sqrt(2))

        exact = float(mpmath.quad(integrand, [0, 0.5, 1]))
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


def _claimed_delta_of_moment(q, k, epsilon, n_dims):
    """Proposition 7 as printed, in multiple precision."""
    m, q = mpmath.mpf(n_dims), mpmath.mpf(q)
    t = mpmath.sqrt(2 * k ** (2 / q) * ((q + 3) / 2) ** (1 + 2 / q) / mpmath.e ** (1 + 1 / q))
    lam = epsilon / t
    z = lam**2 / 2
    series = mpmath.hyp1f1((q + 1) / 2, 0.5, z) + mpmath.sqrt(2) * lam * mpmath.hyp1f1((q + 2) / 2, 1.5, z)
    first = mpmath.exp(-z) / (k * mpmath.sqrt(mpmath.pi)) * series / mpmath.sqrt(q + 0.75)
    return first * mpmath.sqrt(m - 1) / mpmath.sqrt(m - q - 1.5)


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


@pytest.mark.parametrize("n_dims", [4, 784, 10**6])
@pytest.mark.parametrize("k", [1.5, 1000.0, 4e4])
def test_published_delta_of_a_tuning_parameter_is_the_printed_one(n_dims, k):
    """(13), and the scale of Theorem 8 at the same k, whatever delta."""
    with mpmath.workdps(40):
        t, delta = map(float, _claimed_delta(mpmath.mpf(k), 0.3, n_dims))
    assert published_product_noise_delta(0.3, k=k, n_dims=n_dims) == pytest.approx(delta, rel=1e-12)
    for unused in (1e-3, 1e-9):
        scale = published_product_noise_scale(0.3, unused, sensitivity=2.0, n_dims=n_dims, k=k)
        assert scale == pytest.approx(2 * t / 0.3, rel=1e-12)


@pytest.mark.parametrize("q", [1.5, 7.0, 100.0, 392.0, 782.0])
def test_published_delta_of_a_moment_is_the_printed_one(q):
    """(12), which is (13) at q = M / 2, where it is nearly the least."""
    with mpmath.workdps(40):
        exact = float(_claimed_delta_of_moment(q, mpmath.mpf(1000), 0.3, 784))
    delta = published_product_noise_delta(0.3, k=1000.0, n_dims=784, q=q)
    assert delta == pytest.approx(min(exact, 1.0), rel=1e-12)
    at_half = published_product_noise_delta(0.3, k=1000.0, n_dims=784)
    assert at_half == published_product_noise_delta(0.3, k=1000.0, n_dims=784, q=392) <= 1.01 * delta


@pytest.mark.parametrize("n_dims, q, k", [(8, 4.0, 1.5), (20, 10.0, 2.0), (20, 3.0, 50.0), (100, 50.0, 1000.0)])
def test_published_delta_bounds_the_moments_that_it_is_for(n_dims, q, k):
    """Propositions 4 to 7, on a tail of W U, hold; that of the privacy loss is another one."""
    with mpmath.workdps(30):
        t = mpmath.sqrt(2 * k ** (2 / q) * ((q + 3) / 2) ** (1 + 2 / q) / mpmath.e ** (1 + 1 / q))
        lam = 1 / t  # epsilon is 1
        of_r = mpmath.quad(lambda r: (r + lam) ** q * mpmath.exp(-(r**2) / 2), [0, 2, 8, 40])
        of_w = mpmath.sqrt(2 / mpmath.pi) * of_r
        norm = mpmath.quad(lambda angle: mpmath.sin(angle) ** (n_dims - 2), [0, mpmath.pi])
        of_u = mpmath.quad(lambda angle: mpmath.sin(angle) ** (n_dims - 2 - q), [0, mpmath.pi]) / norm
        moments = of_w * of_u / t**q
    printed = mpmath.gammaprod([n_dims / 2, (n_dims - q - 1) / 2], [(n_dims - 1) / 2, (n_dims - q) / 2])  # (11)
    assert float(of_u) == pytest.approx(float(printed))
    claimed = published_product_noise_delta(1.0, k=k, n_dims=n_dims, q=q)
    assert 0.2 * claimed < float(moments) <= claimed


@pytest.mark.parametrize("q", [1.0, 782.5, np.nan])
def test_published_delta_of_no_moment_is_refused(q):
    with pytest.raises(ValueError, match="q must be between"):
        published_product_noise_delta(0.3, k=1000.0, n_dims=784, q=q)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_determinant_of_the_published_proof(share):
    """Lambda / (Lambda - r beta) is too much at the least Lambda; the true ratio, at its worst, is half of the rest."""
    penalty = published_objective_perturbation(2.0, 1e-6, settings=Published(epsilon2=1.0, epsilon3=1 - share))
    rest, lam = share, penalty.least_penalty
    assert lam == pytest.approx(2 / rest)
    assert lam / (lam - 2) > np.exp(rest)
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(300):
        rows = rng.standard_normal((2, 3))
        a, b = (np.outer(row, row) / (row @ row) for row in rows)
        others = lam * np.eye(3) + rng.choice([0.0, 1.0]) * np.outer(rows[0], rows[0])
        ratios = np.linalg.det(others + a) / np.linalg.det(others + np.array([b, np.zeros((3, 3))]))
        worst = max(worst, np.log(ratios.max()))
    assert worst <= np.log1p(rest / 2) * (1 + 1e-12) < rest / 2
    assert worst == pytest.approx(np.log1p(rest / 2))


@pytest.mark.parametrize("k, alpha", [(2.0, 1.7), (1.1, 10.0), (1e9, 2.0)])
def test_step_factor_is_that_of_algorithm_1(k, alpha):
    reached = k
    while published_product_noise_delta(1.0, k=reached, n_dims=100) > 1e-5:
        reached *= alpha
    expected = published_product_noise_scale(1.0, 1e-5, n_dims=100, k=reached)
    assert published_product_noise_scale(1.0, 1e-5, n_dims=100, k=k, alpha=alpha) == pytest.approx(expected, rel=1e-12)


def test_deltas_that_the_paper_prints():
    """Of M = 10^6 and 10^8 at k = 1000; of 50 epochs on MNIST, (0.99, 9.87e-6), by Table 12."""
    assert f"{published_product_noise_delta(0.1, k=1000.0, n_dims=10**6):.3e}" == "1.144e-06"
    assert f"{published_product_noise_delta(0.1, k=1000.0, n_dims=10**8):.3e}" == "1.144e-07"
    rate, n_steps = 256 / 60000, round(50 * 60000 / 256)
    step = amplified(0.3, published_product_noise_delta(0.3, k=40_000.0, n_dims=26_010), rate=rate)
    epsilon, delta = published_composition(*step, n_steps=n_steps, slack=1e-8)
    assert epsilon == pytest.approx(0.99, abs=0.005) and delta == pytest.approx(9.87e-6, rel=3e-3)


def test_published_composition_is_no_bound():
    """Of a hundred pure steps it claims less than a thousandth of the least delta that there is."""
    epsilon, delta = published_composition(0.1, 0.0, n_steps=100, slack=1e-6)
    assert epsilon == pytest.approx(100 * 0.1 * np.tanh(0.05) + np.sqrt(2 * np.log(1e6) * 100) * 0.1)
    assert 0 < delta < 1e-3 * composed_profile(epsilon, step_epsilon=0.1, step_delta=0.0, n_steps=100)
    assert published_composition(0.1, 1e-9, n_steps=3, slack=1e-6) == (pytest.approx(0.3), pytest.approx(3e-9))


def test_published_composition_is_the_printed_one():
    e, delta, T, slack = 0.01, 1e-10, 4000, 1e-6
    epsilon = T * (np.exp(e) - 1) * e / (np.exp(e) + 1) + np.sqrt(2 * np.log(1 / slack) * T * e**2)
    with mpmath.workdps(40):
        x, E, d = mpmath.mpf(epsilon), mpmath.exp(mpmath.mpf(e)), mpmath.mpf(delta)
        tail = mpmath.exp(-(x + T * e) / 2) * (2 * T * e / (T * e - x) / (1 + E)) ** T
        tail *= ((T * e + x) / (T * e - x)) ** (-(x + T * e) / (2 * e))
        j = mpmath.ceil(x / e)
        exact = 2 - (1 - E * d / (1 + E)) ** j * (1 - d / (1 + E)) ** (T - j) - (1 - d / (1 + E)) ** T + tail
    assert published_composition(e, delta, n_steps=T, slack=slack) == pytest.approx((epsilon, float(exact)), rel=1e-9)


def test_published_settings_are_a_value():
    settings = Published(k=np.float32(1000), alpha=2)
    assert settings == Published(k=1000.0, alpha=2.0) == pickle.loads(pickle.dumps(settings))
    assert hash(settings) == hash(Published(k=1000.0, alpha=2.0)) != hash(Published(k=1000.0))
    assert repr(settings) == "Published(k=1000.0, alpha=2.0)" and repr(Published()) == "Published()"
    with pytest.raises(AttributeError):
        settings.k = 5.0


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"k": 1.0}, "k .* above 1"),
        ({"k": np.nan}, "k .* above 1"),
        ({"k": "1000"}, "k .* above 1"),
        ({"k": True}, "k .* above 1"),
        ({"k": 10.0, "alpha": 1.0}, "alpha .* above 1"),
        ({"alpha": 2.0}, "give both"),
        ({"epsilon2": 0.0}, "epsilon2 .* above 0"),
        ({"noise_multiplier": np.inf}, "noise_multiplier .* above 0"),
        ({"step_epsilon": 1.0}, "needs a k"),
        ({"analytic": 1.5}, "analytic .* True or False"),
    ],
)
def test_published_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Published(**settings)


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


def test_published_split_by_hand():
    """Algorithm 3: both noises from k, epsilon3 for the linear term and epsilon2 for the release."""
    split = Published(k=1000.0, epsilon2=0.5, epsilon3=0.2, delta2=5e-7)
    known = published_objective_perturbation(1.0, 1e-6, lipschitz=3.0, smoothness=0.25, n_dims=100, settings=split)
    t = 0.2 * published_product_noise_scale(0.2, 1e-6, n_dims=100, k=1000.0)
    assert known.scale == pytest.approx(np.sqrt(2) * 2 * 3 * t / 0.2)
    assert known.release_factor == pytest.approx(np.sqrt(2) * t / 0.5)
    assert known.least_penalty == pytest.approx(2 * 0.25 / (0.5 - 0.2))
    claims = [published_product_noise_delta(epsilon, k=1000.0, n_dims=100) for epsilon in (0.2, 0.5)]
    assert known.claimed_delta == pytest.approx(sum(claims))
    shared = published_objective_perturbation(2.0, 2e-6, n_outputs=2, settings=Published(epsilon2=1.0, delta2=1e-6))
    alone = published_objective_perturbation(1.0, 1e-6, settings=Published(epsilon2=0.5, delta2=5e-7))
    assert shared.scale == pytest.approx(alone.scale) and shared.release_factor == pytest.approx(alone.release_factor)
    assert shared.claimed_delta == 2e-6


def test_analytic_gaussian_without_hyperparameters():
    """The strongest baseline of the paper: the same split, and the least Gaussian noise for each part."""
    known = published_objective_perturbation(1.0, 1e-6, settings=Published(analytic=True))
    assert known.scale == pytest.approx(2 * gaussian_scale(0.906 * 0.99, 0.99e-6))
    assert known.release_factor == pytest.approx(gaussian_scale(0.01, 1e-8))


@pytest.mark.parametrize(
    "settings, message",
    [({"epsilon2": 1.0}, "below epsilon"), ({"delta2": 1e-6}, "below epsilon"), ({"epsilon3": 0.99}, "below epsilon1")],
)
def test_published_split_beyond_the_budget_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        published_objective_perturbation(1.0, 1e-6, settings=Published(**settings))
