"""Steps of noisy descent: batches, blocks and updates."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from networks import clipped_sum
from scipy.stats import chi2

from skdprp import DPSGDClassifier, _noise
from skdprp.neural_network._network import Network
from skdprp.neural_network._steps import UPDATES, batches, block_size, padded_blocks


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.uniform(size=(40, 6)) < 0.6)
    return X, rng.integers(3, size=40)


@pytest.mark.parametrize(("batch_size", "size"), [(1, 32), (200, 256), (2000, 256), (5000, 1024)])
def test_blocks_have_the_size_of_a_batch(batch_size, size):
    assert block_size(batch_size) == size


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_blocks_have_one_shape_and_hold_each_row_once(make, rows):
    X, codes = rows
    chosen = np.array([3, 5, 8, 13, 21])
    for indices in (None, chosen, chosen[:0]):
        kept = X if indices is None else X[indices]
        parts = list(padded_blocks(make(X), codes, 16, indices))
        assert all(part.X.shape == (16, 6) and part.codes.shape == (16,) for part in parts)
        held = [part.X.toarray() if sp.issparse(part.X) else part.X for part in parts]
        held = np.concatenate([block[: part.n_rows] for block, part in zip(held, parts, strict=True)] or [X[:0]])
        np.testing.assert_array_equal(held, kept)


def test_batches_are_poisson_samples():
    """Sizes vary as a binomial does, each row is as likely, and no two batches agree."""
    n, rate, n_steps = 200, 0.3, 500
    X = np.arange(n, dtype=float)[:, None]
    held = np.zeros((n_steps, n), dtype=bool)
    for step, batch in enumerate(batches(X, np.zeros(n, int), rate=rate, n_steps=n_steps)):
        for block in batch:
            held[step, block.X[: block.n_rows, 0].astype(int)] = True
    variance = n * rate * (1 - rate)
    statistic = ((held.sum(axis=1) - n * rate) ** 2).sum() / variance
    assert chi2.ppf(1e-10, n_steps) < statistic < chi2.isf(1e-10, n_steps)
    per_row = ((held.sum(axis=0) - n_steps * rate) ** 2).sum() / (n_steps * rate * (1 - rate))
    assert chi2.ppf(1e-10, n) < per_row < chi2.isf(1e-10, n)
    assert len(np.unique(held, axis=0)) == n_steps


def plain_descent(X, y, network, bound, learning_rate, n_steps):
    """Gradient descent on the mean of clipped gradients, with the second half averaged."""
    weights, later = np.zeros(network.n_weights), []
    for step in range(n_steps):
        weights = weights - learning_rate * clipped_sum(network, weights, X, y, bound) / len(X)
        later += [weights] if 2 * (step + 1) > n_steps else []
    return np.mean(later, axis=0)


@pytest.mark.parametrize("n_epochs", [1, 2, 7])
def test_silenced_noise_leaves_gradient_descent(n_epochs, binary, three_classes, silenced_noise):
    for X, y in (binary, three_classes):
        network = Network((8, 1 if y.max() == 1 else 3), "relu", bias=0.3)
        expected = plain_descent(X, y, network, 1.0, 2.0, n_epochs)
        model = DPSGDClassifier(n_epochs=n_epochs, learning_rate=2.0, max_norm=None).fit(X, y)
        np.testing.assert_allclose(model.coefs_[0], network.layers(expected)[0][:-1], atol=1e-12)
        np.testing.assert_allclose(model.intercepts_[0], 0.3 * expected[-network.sizes[-1] :], atol=1e-12)
        np.testing.assert_array_equal(model.coef_, model.coefs_[0].T)


def test_adam_divides_by_past_sizes():
    """Kingma and Ba 2015, Algorithm 1: moments are weighted means of the past, here written out as sums."""
    gradients = np.random.default_rng(0).normal(size=(5, 7))
    update = UPDATES["adam"](0.1)
    for t, gradient in enumerate(gradients):
        past = gradients[: t + 1]
        first, second = (
            np.average(past**k, axis=0, weights=b ** np.arange(t, -1, -1)) for k, b in ((1, 0.9), (2, 0.999))
        )
        np.testing.assert_allclose(update(gradient), 0.1 * first / (np.sqrt(second) + 1e-8), rtol=1e-9)


def test_energy_of_the_noise_of_each_step(monkeypatch, binary):
    """Every step adds noise of standard deviation `scale_` to each of the weights' sums, and no other."""
    X, y = binary
    drawn, add = [], _noise.add_gaussian

    def _record(values, scale):
        before = values.copy()
        add(values, scale)
        drawn.append((scale, values - before))

    monkeypatch.setattr(_noise, "add_gaussian", _record)
    model = DPSGDClassifier(n_epochs=200, preconditioner=False).fit(X, y)
    assert len(drawn) == model.n_iter_ == 200
    assert {scale for scale, _ in drawn} == {model.scale_}
    assert model.scale_ == pytest.approx(model.noise_multiplier_ * model.sensitivity_)
    noise = np.array([values for _, values in drawn]) / model.scale_
    n = noise.size
    assert chi2.ppf(1e-10, n) < np.sum(noise**2) < chi2.isf(1e-10, n)
    steps = [a @ b for a, b in pairwise(noise)]
    assert abs(np.sum(steps)) < 7 * np.sqrt(n)


def test_product_noise_has_its_radius(monkeypatch, binary):
    """A Gamma distributed radius, one draw for all weights of a step."""
    X, y = binary
    radii, add = [], _noise.add_spherical

    def _record(values, scale, **law):
        before = values.copy()
        add(values, scale, **law)
        radii.append(np.linalg.norm(values - before) / scale)

    monkeypatch.setattr(_noise, "add_spherical", _record)
    DPSGDClassifier(n_epochs=300, noise="product").fit(X, y)
    assert chi2.ppf(1e-10, 2 * 9 * 300) < 2 * np.sum(radii) < chi2.isf(1e-10, 2 * 9 * 300)
