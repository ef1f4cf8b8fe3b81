"""Estimators from sketches: unbiased, with the stated variances."""

import numpy as np
import pytest

from skdprp.random_projection import make_projection
from skdprp.similarity import (
    angle_variance,
    angles,
    best_n_components,
    cosines,
    hamming_distances,
    inner_product_variance,
    inner_products,
    squared_distances,
    squared_norms,
)

TRIALS = 20_000


def moments_agree(estimates, mean, variance):
    """Mean and variance within five standard errors, the latter from the fourth moment of the estimates."""
    centred = estimates - mean
    assert abs(centred.mean()) < 5 * np.sqrt(variance / len(estimates))
    assert abs((centred**2).mean() - variance) < 5 * (centred**2).std() / np.sqrt(len(estimates))


def noisy(x, sigma, rng):
    return x + sigma * rng.standard_normal(x.shape)


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "uniform", "very_sparse", "oporp", "identity"])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_inner_products_have_their_mean_and_variance(kind, sigma):
    """Over draws of the projection and the noise."""
    rng, state = np.random.default_rng(0), np.random.RandomState(0)
    u, v = rng.standard_normal((2, 10))
    estimates = np.empty(TRIALS if sigma or kind != "identity" else 1)
    for i in range(len(estimates)):
        W = make_projection(kind, 10, 4, state)
        x, y = noisy(W.project(np.stack([u, v])) / W.divisor, sigma, rng)
        estimates[i] = inner_products(x[None], y[None])[0, 0]
    variance = inner_product_variance(u, v, projection=W, noise_variance=sigma**2)
    if variance:
        moments_agree(estimates, u @ v, variance)
    else:
        assert estimates == pytest.approx(u @ v)


def test_squared_norms_and_distances_are_unbiased():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1, 6))
    sigma = 0.8
    S, T = noisy(np.repeat(x, TRIALS, axis=0), sigma, rng), noisy(np.repeat(y, TRIALS, axis=0), sigma, rng)
    options = {"noise_variance": sigma**2}
    norms = squared_norms(S, **options)
    distances = np.array([squared_distances(s[None], t[None], **options)[0, 0] for s, t in zip(S, T, strict=True)])
    for estimates, true in ((norms, np.sum(x**2)), (distances, np.sum((x - y) ** 2))):
        assert abs(estimates.mean() - true) < 5 * estimates.std() / np.sqrt(TRIALS)


def test_cosines_ignore_lengths_and_stay_defined_for_empty_rows():
    S = np.array([[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]])
    expected = [[1, np.sqrt(0.5), 0], [np.sqrt(0.5), 1, 0], [0, 0, 0]]
    assert np.allclose(cosines(S, 7 * S), expected)


@pytest.mark.parametrize("k", [1, 8, 13, 200])
def test_hamming_distances_are_the_same_for_signs_and_packed_bits(k):
    rng = np.random.default_rng(k)
    S, T = rng.integers(0, 2, (5, k)), rng.integers(0, 2, (7, k))
    expected = (S[:, None] != T[None]).sum(axis=2)
    assert (hamming_distances(2 * S.astype(np.int8) - 1, 2 * T.astype(np.int8) - 1) == expected).all()
    packed = [np.packbits(bits.astype(bool), axis=1) for bits in (S, T)]
    assert (hamming_distances(*packed) == expected).all()


REAL, SIGNS, PACKED = np.ones((2, 8)), np.ones((2, 8), dtype=np.int8), np.ones((2, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("function", "S", "T", "message"),
    [
        (inner_products, SIGNS, SIGNS, "real-valued"),
        (inner_products, REAL, REAL[:, :7], "same width"),
        (cosines, PACKED, PACKED, "real-valued"),
        (squared_distances, REAL, SIGNS, "real-valued"),
        (hamming_distances, REAL, REAL, "sign sketches"),
        (hamming_distances, SIGNS, PACKED, "of one form"),
        (hamming_distances, PACKED, SIGNS, "of one form"),
        (hamming_distances, PACKED[0], PACKED[0], "two dimensions"),
    ],
)
def test_sketches_of_the_wrong_kind_are_refused(function, S, T, message):
    options = {"noise_variance": 1.0} if function is squared_distances else {}
    with pytest.raises(ValueError, match=message):
        function(S, T, **options)


@pytest.mark.parametrize("flip_epsilon", [0.7, 3.0, np.inf])
@pytest.mark.parametrize("theta", [0.3, np.pi / 2, 2.8])
def test_angles_have_their_mean_and_variance(flip_epsilon, theta):
    """Signs of a Gaussian projection agree with probability 1 - theta / pi; each is flipped alone."""
    rng, k = np.random.default_rng(0), 16
    keep = 1 / (1 + np.exp(-flip_epsilon))
    differ = rng.uniform(size=(TRIALS, k)) < theta / np.pi
    flips = rng.uniform(size=(2, TRIALS, k)) > keep
    distances = (differ ^ flips[0] ^ flips[1]).sum(axis=1)
    estimates = angles(distances, n_components=k, flip_epsilon=flip_epsilon)
    moments_agree(estimates, theta, angle_variance(theta, n_components=k, flip_epsilon=flip_epsilon))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3, 50.0, 400.0])
@pytest.mark.parametrize("angle", [0.05, np.pi / 3, np.pi / 2])
def test_best_n_components_beats_every_other(epsilon, angle):
    best = best_n_components(epsilon, angle=angle)
    k = np.arange(1, 5000)
    variances = angle_variance(angle, n_components=k, flip_epsilon=epsilon / k)
    assert variances[best - 1] == variances.min()
