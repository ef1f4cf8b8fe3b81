"""Spherical noise: exact profile, calibration, published calibration, sampler."""

import math
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache, partial

import mpmath
import numpy as np
import pytest
from profiles import assert_bounds, loss_of
from scipy import stats
from scipy.integrate import dblquad, quad
from scipy.special import betaincinv, gammaincc, gammainccinv, gammaincinv, gammaln, lambertw

from skdprp import _noise
from skdprp.mechanisms import (
    add_spherical,
    gaussian_profile,
    gaussian_scale,
    published_product_noise_scale,
    radial,
    spherical_profile,
    spherical_scale,
)
from skdprp.mechanisms.gaussian_laplace import laplace_profile
from skdprp.testing import reproducible_noise

FALSE_ALARM = 1e-6


def _noise_of(family, n_dims):
    shape, power = {"gaussian": (n_dims, 2), "chi_1": (1, 2), "laplace": (n_dims, 1)}[family]
    return {"n_dims": n_dims, "shape": shape, "power": power}


def _mean_square(scale, n_dims, shape, power):
    k = shape / power
    return scale**2 * np.exp(gammaln(k + 2 / power) - gammaln(k))


def _potential(r, scale, n_dims, shape, power):
    return (n_dims - shape) * np.log(r) + (r / scale) ** power


def _loss(outputs, scale, kind):
    """Privacy loss of outputs of the centre 0 against the centre e_1."""
    other = outputs - np.eye(1, outputs.shape[1])
    return _potential(np.linalg.norm(other, axis=1), scale, **kind) - _potential(
        np.linalg.norm(outputs, axis=1), scale, **kind
    )


# Profile


@pytest.mark.parametrize("n_dims", [1, 2, 3, 4, 7, 13, 14, 63, 64, 784, 4095, 4096, 47236, 10**6])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1, 1.0, 4.0, 20.0])
def test_gaussian_is_a_special_case(n_dims, epsilon):
    """With a = M and b = 2 the profile is the Gaussian one: never below it, and above it by rounding only."""
    for sigma in (0.3, 1.0, 4.0, 40.0, 400.0):
        exact = gaussian_profile(epsilon, scale=sigma)
        if exact > 1e-14:
            profile = spherical_profile(epsilon, scale=np.sqrt(2) * sigma, **_noise_of("gaussian", n_dims))
            assert exact <= profile <= min(exact + 1e-12, exact * (1 + 1e-7))


@pytest.mark.parametrize("n_dims", [2, 784])
def test_negative_epsilon(n_dims):
    """The profile extends to negative epsilon, as the Gaussian one."""
    profile = spherical_profile(-0.5, scale=np.sqrt(2), sensitivity=0.7, **_noise_of("gaussian", n_dims))
    assert profile == pytest.approx(gaussian_profile(-0.5, scale=1.0, sensitivity=0.7), abs=1e-12)


@pytest.mark.parametrize("epsilon", [20.0, 25.0, 30.0])
@pytest.mark.parametrize("power", [1, 2])
def test_outputs_next_to_a_pole_are_counted(epsilon, power):
    """In the plane, where density and probability are known there, delta is an upper bound; from e^36 on a coarse one.

    With a = 1 the density is c exp(-r^b) / (2 pi r), c the one of the radius at 0. The loss is above epsilon within
    r = exp(1 - epsilon) of the centre, a probability of c r here, and e^epsilon times pi r^2 c / (2 pi e) there.
    """
    c = {1: 1.0, 2: 2 / np.sqrt(np.pi)}[power]
    exact = c * np.exp(1 - epsilon) / 2
    profile = spherical_profile(epsilon, scale=1.0, n_dims=2, shape=1, power=power)
    assert exact * (1 - 1e-8) <= profile <= exact * (1 + 2 * (1e-8 + 2.0**-52 * np.exp(epsilon)))
    assert profile > exact * (1 + 2.0**-53 * np.exp(epsilon))  # what rounding may hide is added


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_one_dimension_is_laplace(scale):
    """In one dimension a = b = 1 is Laplace noise."""
    profile = spherical_profile(0.3, scale=scale, **_noise_of("laplace", 1))
    assert profile == laplace_profile(0.3, scale=scale) > 0


@pytest.mark.parametrize("n_dims", [1, 2, 3, 14, 784, 10**6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_laplace_is_pure(n_dims, epsilon):
    """The multivariate Laplace noise has delta = 0 from epsilon = D / s on, and delta > 0 below."""
    kind = _noise_of("laplace", n_dims)
    scale = spherical_scale(epsilon, 0.0, **kind)
    assert scale == pytest.approx(1 / epsilon, rel=1e-15)
    assert spherical_profile(epsilon, scale=scale, **kind) == 0.0
    assert spherical_profile(0.99 * epsilon, scale=scale, **kind) > 0.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("scale", [0.3, 2.0])
@pytest.mark.parametrize("family", ["gaussian", "chi_1", "laplace"])
@pytest.mark.parametrize("n_dims", [2, 3])
def test_profile_is_the_integral_of_its_definition(epsilon, scale, family, n_dims):
    """In two and three dimensions, integrating (f - e^epsilon f')_+ over the space in polar coordinates agrees."""
    kind = _noise_of(family, n_dims)
    nodes, node_weights = np.polynomial.legendre.leggauss(40)

    k = (n_dims - kind["shape"]) / kind["power"]

    def _loss_at(r, angle):
        other = np.sqrt(r**2 + 1 - 2 * r * np.cos(angle))
        return _potential(np.maximum(other, 1e-300), scale, **kind) - _potential(r, scale, **kind)

    def _distance_at(loss, r):
        """Of the other centre: its potential is k log u + u of a power u of it."""
        v = _potential(r, scale, **kind) + loss - (n_dims - kind["shape"]) * np.log(scale)
        return scale * (k * lambertw(np.exp(v / k) / k).real if k else v) ** (1 / kind["power"])

    def _excess(r):
        start = np.arccos(np.clip((r**2 + 1 - _distance_at(epsilon, r) ** 2) / (2 * r), -1, 1))
        t = start + (np.pi - start) * (1 + nodes) / 2
        density = (1 / np.pi if n_dims == 2 else np.sin(t) / 2) * node_weights * (np.pi - start) / 2
        return density @ -np.expm1(np.minimum(epsilon - _loss_at(r, t), 0))

    shape, power = kind["shape"], kind["power"]
    factor = power / math.gamma(shape / power) / scale**shape

    def _integrand(r):
        return factor * r ** (shape - 1) * math.exp(-((r / scale) ** power)) * _excess(r)

    far = stats.gengamma(shape / power, power, scale=scale).isf(1e-14)
    edges = np.concatenate([[0], np.linspace(0.02, far, 25)])
    delta, error = np.sum([quad(_integrand, *edge, epsabs=1e-10) for edge in np.c_[edges[:-1], edges[1:]]], axis=0)
    assert error < 1e-8
    assert spherical_profile(epsilon, scale=scale, **kind) == pytest.approx(delta, rel=1e-7, abs=error)


@pytest.mark.parametrize("family, n_dims, scale", [
    ("chi_1", 14, 20.0), ("chi_1", 784, 200.0), ("laplace", 14, 0.2), ("laplace", 784, 0.03), ("gaussian", 784, 0.9)
])  # fmt: skip
def test_profile_is_the_simulated_one(family, n_dims, scale):
    """The mean of (1 - e^(epsilon - loss))_+ over simulated outputs is the profile."""
    kind, rng, n_draws = _noise_of(family, n_dims), np.random.default_rng(0), 10000
    along, across = rng.standard_normal(n_draws), rng.chisquare(n_dims - 1, n_draws)  # of e_1: all that the loss is of
    radius = scale * rng.gamma(kind["shape"] / kind["power"], size=n_draws) ** (1 / kind["power"])
    outputs = (radius / np.hypot(along, np.sqrt(across))) * np.stack([along, np.sqrt(across)])
    for epsilon in (0.1, 1.0):
        excess = -np.expm1(np.minimum(epsilon - _loss(outputs.T, scale, kind), 0))
        margin = stats.norm.isf(FALSE_ALARM / 2) * excess.std() / np.sqrt(n_draws)
        delta = spherical_profile(epsilon, scale=scale, **kind)
        assert 0 < margin < 0.1
        assert excess.mean() - margin <= delta <= excess.mean() + margin


@pytest.mark.parametrize("family", ["gaussian", "chi_1", "laplace"])
@pytest.mark.parametrize("n_dims", [2, 5, 784, 10**6])
def test_profile_is_monotone(family, n_dims):
    """Delta falls with epsilon, grows with the distance of the centres, and depends on distance / scale only."""
    kind = _noise_of(family, n_dims)
    scale = {"gaussian": 3.0, "chi_1": 3 * np.sqrt(n_dims), "laplace": 3 / np.sqrt(n_dims)}[family]
    of_epsilon = [spherical_profile(e, scale=scale, **kind) for e in (-1.0, 0.0, 0.1, 0.3, 1.0)]
    of_distance = [spherical_profile(0.1, scale=scale, sensitivity=d, **kind) for d in (0.0, 0.5, 0.9, 1.0, 1.1, 2.0)]
    assert np.all(np.diff(of_epsilon) < 0)
    assert of_distance[0] == 0
    assert np.all(np.diff(of_distance) > 0)
    assert spherical_profile(0.1, scale=2 * scale, sensitivity=2.0, **kind) == of_distance[3]


def excess_integral(excess, start, d, n_dims):
    """Of a function of the cosine of an angle, from an angle on, in prolate spheroidal coordinates around two centres.

    The loss is -d times that cosine.
    """
    of_first, of_next = bessel_integrals(d, n_dims)

    def shell(angle):
        eta = mpmath.cos(angle)
        return excess(eta) * (of_next + (1 - eta**2) * of_first) * mpmath.sin(angle) ** (n_dims - 2)

    return mpmath.quad(shell, [start, (start + mpmath.pi) / 2, mpmath.pi], method="gauss-legendre")


@cache
def bessel_integrals(d, n_dims):
    """Integrals of exp(-c x) (x^2 - 1)^(order - 1/2) from 1 on, c = d / 2, of two orders."""
    first, c = mpmath.mpf(n_dims - 2) / 2, d / 2

    def bessel(order):
        return mpmath.gamma(order + 0.5) / mpmath.sqrt(mpmath.pi) * (2 / c) ** order * mpmath.besselk(order, c)

    return bessel(first), bessel(first + 1)


@cache
def whole_integral(d, n_dims):
    """Of the density, over all of the space."""
    return excess_integral(lambda eta: mpmath.exp(-d / 2 * eta), mpmath.mpf(0), d, n_dims)


@mpmath.workdps(30)
def precise_laplace(epsilon, d, n_dims):
    epsilon, d = mpmath.mpf(epsilon), mpmath.mpf(d)

    def excess(eta):
        return mpmath.exp(-d / 2 * eta) - mpmath.exp(epsilon + d / 2 * eta)

    return excess_integral(excess, mpmath.acos(-epsilon / d), d, n_dims) / whole_integral(d, n_dims)


@pytest.mark.parametrize("n_dims", [2, 3, 9, 40, 128])
@pytest.mark.parametrize("d", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_stated_deltas_of_spherical_noise_are_upper_bounds(n_dims, d, share):
    loss = loss_of(spherical_profile, scale=1.0, sensitivity=d, n_dims=n_dims, shape=n_dims, power=1)
    exact = precise_laplace(share * d, d, n_dims)
    if exact > 1e-30:
        assert_bounds(loss.profile(share * d), exact)


@pytest.mark.parametrize("n_dims", [2, 5, 31, 128])
@pytest.mark.parametrize("epsilon", [0.0, 0.03, 0.6, 2.0])
def test_laplace_noise_is_one_of_the_families(n_dims, epsilon, monkeypatch):
    """Its own quadrature agrees with that of all radii."""
    known = {"scale": 1 / n_dims, "n_dims": n_dims, "shape": n_dims, "power": 1}
    own = spherical_profile(epsilon, **known)
    monkeypatch.setattr(radial, "_MOST_DIMS_OF_GAMMA_RULE", 0)
    assert own == pytest.approx(spherical_profile(epsilon, **known), rel=1e-11)


@pytest.mark.parametrize("n_dims, shape, power, message", [
    (3, 4, 2, "shape <= n_dims"), (3, 2.5, 2, "between 1 and n_dims - 1"), (3, 0.5, 2, "between 1 and n_dims - 1"),
    (3, 3, 5, "power must be"), (1, 1, 3, "power must be"),
])  # fmt: skip
def test_refused_noise(n_dims, shape, power, message):
    """Noise whose exact profile is not known is refused, by the profile and by the calibration."""
    kind = {"n_dims": n_dims, "shape": shape, "power": power}
    with pytest.raises(ValueError, match=message):
        spherical_profile(1.0, scale=1.0, **kind)
    with pytest.raises(ValueError, match=message):
        spherical_scale(1.0, 1e-5, **kind)


@pytest.mark.parametrize("epsilon", [1.1e100, 1e300])
@pytest.mark.parametrize("kind", [{"shape": 3, "power": 1}, {"shape": 1, "power": 2}, {"shape": 3, "power": 0.5}])
def test_an_epsilon_at_which_distances_overflow_is_refused_as_such(epsilon, kind):
    """And not with a NaN of a solver, or with the advice to choose an epsilon above 0."""
    with pytest.raises(ValueError, match=r"epsilon=1.*e\+.* is too large"):
        spherical_scale(epsilon, 1e-6, n_dims=3, **kind)


# Calibration


TARGETS = [(0.1, 1e-5), (1.0, 1e-2), (1.0, 1e-12), (4.0, 1e-5)]


@pytest.mark.parametrize("family", ["gaussian", "chi_1", "laplace"])
@pytest.mark.parametrize(
    "n_dims, epsilon, delta", [(n, *target) for n in (2, 3, 14, 784, 47236) for target in TARGETS[:: 1 + (n > 784)]]
)
def test_scale_is_exact(family, n_dims, epsilon, delta):
    """The calibrated noise meets the target; one part per million less does not."""
    kind = _noise_of(family, n_dims)
    scale = spherical_scale(epsilon, delta, sensitivity=0.7, **kind)
    at, below = (spherical_profile(epsilon, scale=s, sensitivity=0.7, **kind) for s in (scale, 0.999999 * scale))
    assert at <= delta < below


@pytest.mark.parametrize("family", ["gaussian", "chi_1"])
def test_delta_zero_needs_laplace(family):
    with pytest.raises(ValueError, match="delta=0"):
        spherical_scale(1.0, 0.0, **_noise_of(family, 3))


@pytest.mark.parametrize("n_dims, family, relative", [
    (2, "laplace", ["0.314", "0.215", "0.160"]), (14, "laplace", ["0.795", "0.689", "0.595"]),
    (100, "laplace", ["0.968", "0.947", "0.924"]), (784, "laplace", ["0.996", "0.993", "0.990"]),
    (14, "chi_1", ["1e+07", "1e+08", "4e+08"]), (100, "chi_1", ["1e+07", "2e+08", "6e+08"]),
    (784, "chi_1", ["1e+07", "2e+08", "6e+08"]),
])  # fmt: skip
def test_energy_relative_to_the_gaussian(n_dims, family, relative):
    """A Gamma radius needs less noise than the Gaussian at the same guarantee; product noise needs 10^7 times."""
    kind = _noise_of(family, n_dims)
    ratios = [
        _mean_square(spherical_scale(epsilon, 1e-5, **kind), **kind) / (n_dims * gaussian_scale(epsilon, 1e-5) ** 2)
        for epsilon in (0.1, 1.0, 4.0)
    ]
    assert [f"{ratio:.3f}" if family == "laplace" else f"{ratio:.0e}" for ratio in ratios] == relative


# Sampler


def _draws(draw, n_draws):
    """Outputs of a sampler, of words that are the same each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_noise, "random_bytes", np.random.default_rng(0).bytes)
        return np.array([draw() for _ in range(n_draws)])


N_DRAWS = 4000
RARE = 6e-3  # of as many draws that are the same each time: as far from the law as is seen of 10,000 once in a million


@cache
def _vectors(n_dims, shape, power):
    """Noise of scale 3: in many dimensions fewer vectors."""
    n_draws = N_DRAWS if n_dims < 100 else 2000
    return _draws(partial(_noise.draw_spherical, n_dims, 3.0, shape=shape, power=power), n_draws)


@pytest.mark.parametrize("n_dims, shape, power", [
    (1, 1, 2), (2, 2, 2), (5, 5, 2), (14, 14, 2), (2, 1, 2), (14, 1, 2), (14, 3, 2), (1, 1, 1), (2, 2, 1), (14, 14, 1)
])  # fmt: skip
def test_sampler_law(n_dims, shape, power):
    """The radius has its Gamma kind, the direction is uniform, and they are independent."""
    kind = {"n_dims": n_dims, "shape": shape, "power": power}
    vectors, n_draws = _vectors(**kind), N_DRAWS
    radius = np.linalg.norm(vectors, axis=1)
    gamma = stats.gengamma(shape / power, power, scale=3.0)
    assert stats.kstest(radius, gamma.cdf).pvalue > RARE
    if power == 2:
        assert stats.kstest(radius, stats.chi(shape, scale=3.0 / np.sqrt(2)).cdf).pvalue > RARE  # sigma_M
    assert np.mean(radius**2) == pytest.approx(_mean_square(3.0, **kind), abs=3 * np.std(radius**2) / np.sqrt(n_draws))
    direction = vectors / radius[:, None]
    assert stats.chi2(n_dims).sf(n_dims * n_draws * np.sum(direction.mean(axis=0) ** 2)) > RARE
    assert stats.spearmanr(radius, direction[:, 0]).pvalue > RARE
    if n_dims > 1:
        for axis in np.vstack([np.eye(n_dims)[0], np.ones(n_dims) / np.sqrt(n_dims)]):
            cosine = stats.beta((n_dims - 1) / 2, (n_dims - 1) / 2, loc=-1, scale=2)
            assert stats.kstest(direction @ axis, cosine.cdf).pvalue > RARE


@pytest.mark.parametrize("shape", [0.5, 1.0, 14.0, 2.0**14])
def test_radius_reaches_both_tails(shape, monkeypatch):
    """A tail probability of 2^-65, with either sign, gives its quantile, neither 0 nor infinite."""
    for sign, tail in ((1.0, gammaincc), (-1.0, stats.gamma.cdf)):
        draw = (np.array([2.0**-65]), np.array([sign]))
        monkeypatch.setattr(_noise, "_tail_and_sign", lambda size, draw=draw: draw)
        quantile = _noise._standard_gamma(shape)
        probability = tail(shape, quantile) if sign > 0 else tail(quantile, shape)
        assert probability == pytest.approx(2.0**-65, rel=1e-9)


@pytest.mark.parametrize("shape, n_parts", [(2.0**14 + 1, 2), (47236.0, 4), (9226422.0, 1024)])
def test_a_radius_of_many_dimensions_is_a_root_of_a_sum_of_gamma_variates(shape, n_parts, monkeypatch):
    """Quantiles of scipy jump in the lower tail of large shapes, by 24 at the last one: those of the parts do not.

    They grow by .5 from one to the next.
    """
    sums = []
    for tail in np.geomspace(3e-6, 3.5e-6, 201):
        monkeypatch.setattr(_noise, "_tail_and_sign", lambda size, tail=tail: (np.full(size, tail), -np.ones(size)))
        sums.append(_noise._standard_gamma(shape))
    assert sums[0] == pytest.approx(n_parts * stats.gamma(shape / n_parts).ppf(3e-6), rel=1e-13)
    steps = np.diff(sums)
    assert steps.min() > 0 and steps.max() < 1.5 * steps.min()


def test_radii_of_many_dimensions_have_their_gamma_law():
    with reproducible_noise(0):
        radii = [_noise._standard_gamma(2.0**15) for _ in range(N_DRAWS)]
    assert stats.kstest(radii, stats.gamma(2.0**15).cdf).pvalue > RARE


@pytest.mark.parametrize("shape", [0.5, 1.0, 14.0, 300.0, 2.0**14])
def test_radii_are_exact_to_44_bits(shape):
    """Objective perturbation takes a drawn term to be off by at most 2^-40 of its size."""
    for tail in (2.0**-64, 2.0**-30, 2.0**-10, 0.3):
        for quantile, ends in ((gammaincinv(shape, tail), "a"), (gammainccinv(shape, tail), "b")):
            x = mpmath.mpf(float(quantile))
            with mpmath.workdps(40):
                found = mpmath.gammainc(shape, **{"a": 0, "b": mpmath.inf} | {"b" if ends == "a" else "a": x})
                density = x ** (shape - 1) * mpmath.exp(-x)
                assert abs((found - tail * mpmath.gamma(shape)) / density / x) < 2.0**-44


def test_no_direction_is_drawn_again(monkeypatch):
    """A Gaussian draw of exactly zero, which has no direction, is not released."""
    words = [b"\xff" * 8, b"\x00" * 7 + b"\x40", b"\x00" * 7 + b"\x40"]
    monkeypatch.setattr(_noise, "random_bytes", lambda size: words.pop(0))
    vector = _noise.draw_spherical(1, 1.0, shape=1, power=1)
    assert not words
    assert vector > 0


def test_noise_is_fresh():
    """No two calls, threads or forked processes share noise; a seed reproduces it."""
    kind = _noise_of("laplace", 3)
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(lambda _: _noise.draw_spherical(scale=1.0, **kind), range(8)))
    vectors += [_noise.draw_spherical(scale=1.0, **kind) for _ in range(2)]
    assert len(np.unique(vectors)) == 3 * 10
    with reproducible_noise(0):
        first = _noise.draw_spherical(scale=1.0, **kind)
    with reproducible_noise(0):
        assert np.array_equal(first, _noise.draw_spherical(scale=1.0, **kind))


def test_forked_process_has_its_own_noise():
    kind = _noise_of("laplace", 3)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of this process do not draw noise
        child = os.fork()
    if child == 0:
        os.write(write, _noise.draw_spherical(scale=1.0, **kind).tobytes())
        os._exit(0)
    own = _noise.draw_spherical(scale=1.0, **kind)
    other = np.frombuffer(os.read(read, 24))
    os.waitpid(child, 0)
    assert len(np.unique([own, other])) == 6


# Release


@pytest.mark.parametrize("n_dims, shape, power", [(2, 1, 2), (14, 1, 2), (14, 3, 2), (14, 14, 1), (5, 5, 2)])
def test_what_is_released_is_values_with_that_noise(n_dims, shape, power):
    """Of any centre: the noise of the sampler, whose law is above, to half a step of a grid; values are those of it."""
    centre = np.linspace(-300.0, 1000.0, n_dims)
    kind = {"shape": shape, "power": power}
    released = _draws(partial(add_spherical, centre, 3.0, **kind), 200)
    noise = _draws(partial(_noise.draw_spherical, n_dims, 3.0, **kind), 200)
    grid = _noise._grid(3.0 * (shape / power) ** (1 / power) / np.sqrt(n_dims))
    assert np.array_equal(released, np.rint(released / grid) * grid)
    assert abs(released - centre - noise).max() <= grid * (0.5 + 1e-6)


@cache
def _released_around_zero(n_dims, shape, power):
    """Many vectors with noise of scale 4."""
    return _draws(partial(add_spherical, np.zeros(n_dims), 4.0, shape=shape, power=power), 5000)


@pytest.mark.parametrize(("family", "n_dims"), [("chi_1", 3), ("laplace", 2)])
def test_delta_of_what_is_released_is_the_profile(family, n_dims):
    """The mass that a loss above epsilon has more than the other centre allows, within its error, both ways.

    With half of the noise it is above the profile of the whole.
    """
    kind, n_draws, epsilon = _noise_of(family, n_dims), 5000, 0.5
    released = 0.3 * _released_around_zero(**kind) + 1e-9  # of scale 1.2; the loss of the centre is infinite
    whole = spherical_profile(epsilon, scale=1.2, **kind)
    for factor in (1.0, 0.5):
        excess = np.clip(-np.expm1(epsilon - _loss(factor * released, factor * 1.2, kind)), 0, None)
        error = 3.5 * np.std(excess) / np.sqrt(n_draws)  # draws are the same each time
        own = spherical_profile(epsilon, scale=factor * 1.2, **kind)
        assert abs(excess.mean() - own) <= error < 0.1
        assert factor == 1 or excess.mean() - error > whole


def test_a_cell_around_the_centre_has_its_exact_probability():
    """Multivariate Laplace noise in the plane, cell by cell of the grid: the ratios between neighbours, too."""
    scale, n_draws = 4.0, 5000
    released = _released_around_zero(**_noise_of("laplace", 2))
    wide = 4.0  # a whole number of steps of the grid
    cells = np.sort(abs(np.rint(released / wide)), axis=1)
    for cell, n_alike in ([0, 0], 1), ([0, 1], 4), ([1, 1], 4), ([1, 2], 8):
        low, high = wide * np.subtract(cell, 0.5), wide * np.add(cell, 0.5)
        mass, _ = dblquad(lambda u, v: np.exp(-np.hypot(u, v) / scale), low[1], high[1], low[0], high[0])
        exact = n_alike * mass / (2 * np.pi * scale**2)
        count = np.sum((cells == cell).all(axis=1))
        assert stats.binomtest(count, n_draws, exact).pvalue > 1e-2  # draws are the same each time


def test_no_noise_is_added_for_what_no_neighbour_changes():
    values = np.array([[0.1, -7.0], [1e9, 0.3]])
    assert np.array_equal(add_spherical(values, 0.0, shape=4, power=1), values)
    released = add_spherical(values, 1.0, shape=4, power=1)
    assert released.shape == (2, 2) and not np.shares_memory(released, values) and values[0, 0] == 0.1


@pytest.mark.parametrize(
    "values, scale, shape, power, message",
    [
        ([1.0, np.nan], 1.0, 2, 1, "not finite"),
        ([1.0, 2.0], np.nan, 2, 1, "no scale"),
        ([1.0, 2.0], -1.0, 2, 1, "no scale"),
        ([1.0, 2.0], 1.0, 3, 1, "shape <= n_dims"),
        ([1.0, 2.0], 1.0, 2, 9, "power must be"),
        ([], 1.0, 1, 1, "shape <= n_dims"),
    ],
)
def test_what_cannot_be_released_is_refused_before_noise_is_drawn(values, scale, shape, power, message, monkeypatch):
    monkeypatch.setattr(_noise, "_random_words", None)
    with pytest.raises(ValueError, match=message):
        add_spherical(values, scale, shape=shape, power=power)


def test_numbers_beyond_a_grid_are_refused_by_no_number():
    with pytest.raises(ValueError, match="Some numbers are too large for noise of scale 1e-100") as error:
        add_spherical([1.0, 1e300], 1e-100, shape=2, power=1)
    assert "300" not in str(error.value)


# Audit


def _epsilon_lower_bound(scale, kind, threshold, delta, n_draws):
    """Lower bound on epsilon from the test ``loss > threshold`` on two centres, wrong once in a million.

    Of each the bound holds by itself, so that the same draws do for both.
    """
    noise = scale / 3.0 * _vectors(**kind)[:n_draws]
    hits = np.sum(_loss(noise, scale, kind) > threshold)
    false_hits = np.sum(_loss(np.eye(1, kind["n_dims"]) + noise, scale, kind) > threshold)
    least = stats.binomtest(hits, n_draws, alternative="greater").proportion_ci(1 - FALSE_ALARM / 2).low
    most = stats.binomtest(false_hits, n_draws, alternative="less").proportion_ci(1 - FALSE_ALARM / 2).high
    return np.log(max(least - delta, 1e-300) / most)


@pytest.mark.parametrize(
    "family, n_dims, threshold", [("laplace", 2, 0.9), ("laplace", 14, 0.5), ("gaussian", 14, 0.5)]
)
def test_audit_finds_no_violation(family, n_dims, threshold):
    """A likelihood-ratio attack on calibrated noise stays below epsilon, and is not blind."""
    kind = _noise_of(family, n_dims)
    scale = spherical_scale(2.0, 1e-5, **kind)
    assert 0.2 < _epsilon_lower_bound(scale, kind, threshold, 1e-5, n_draws=N_DRAWS) <= 2.0


def test_audit_catches_the_published_calibration():
    """The same attack shows that the published product noise is far above the epsilon that it claims."""
    scale = np.sqrt(2) * published_product_noise_scale(1.0, 1e-5, n_dims=784)
    assert _epsilon_lower_bound(scale, _noise_of("chi_1", 784), 1.0, 1e-5, n_draws=2000) > 1.5


@pytest.mark.parametrize(
    ("n_dims", "shape", "power", "epsilon", "distance"),
    [(2, 2, 0.5, 0.3, 3.0), (3, 1.5, 1, 0.5, 1.0), (8, 8, 1, 0.4, 1.0), (12, 7, 2, 1.0, 0.8), (64, 63, 4, 0.5, 0.5)],
)
def test_the_profile_of_spherical_noise_is_that_of_a_plain_sum(n_dims, shape, power, epsilon, distance):
    """Over radii and cosines at equal steps of smoothed quantiles: no quadrature of the library."""
    t, quantiles = (np.arange(1500) + 0.5) / 1500, (np.arange(800) + 0.5) / 800
    weights = 30 * t**2 * (1 - t) ** 2 / 1500
    r = gammaincinv(shape / power, t**3 * (10 - 15 * t + 6 * t**2))[:, None] ** (1 / power)
    cosine = 2 * betaincinv((n_dims - 1) / 2, (n_dims - 1) / 2, quantiles) - 1
    other = np.sqrt(np.maximum(r**2 + distance**2 - 2 * r * distance * cosine, 1e-300))
    loss = (n_dims - shape) * np.log(other / r) + other**power - r**power
    found = weights @ -np.expm1(np.minimum(epsilon - loss, 0)).mean(axis=1)
    stated = spherical_profile(epsilon, scale=1.0, sensitivity=distance, n_dims=n_dims, shape=shape, power=power)
    assert found <= stated * (1 + 2e-3) + 1e-6
    assert stated <= found * (1 + 2e-2) + 1e-5


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_multivariate_laplace_noise_is_pure_where_it_is_so_exactly(n_dims):
    """A quotient that was rounded to epsilon called a larger loss pure."""
    for epsilon in np.random.default_rng(0).uniform(0.2, 3.0, 100).tolist():
        for scale in 1 / epsilon * (1 + np.arange(-3, 4) * 2.0**-52):
            is_pure = Fraction(epsilon) * Fraction(float(scale)) >= 1
            delta = spherical_profile(epsilon, scale=float(scale), n_dims=n_dims, shape=n_dims, power=1)
            assert (delta == 0) == is_pure
