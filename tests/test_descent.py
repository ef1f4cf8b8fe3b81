"""Noisy gradient descent: its arithmetic, its noise, and what scikit-learn users meet."""

import importlib.util
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
from contextlib import redirect_stdout
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from scipy.stats import binom, chi2
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize

from skdprp import DPSGDClassifier, _noise
from skdprp.mechanisms.noisy_steps import descent_scale
from skdprp.neural_network import _network
from skdprp.neural_network._dpsgd import DescentProblem
from skdprp.neural_network._network import Network, add_clipped_gradients, score
from skdprp.neural_network._plan import Plan, float32_margin, float64_margin, plan_rounding, sampling_rate
from skdprp.neural_network._steps import UPDATES, batches, block_size, blocks
from skdprp.testing import reproducible_noise

NETWORKS = [
    Network((6, 1), "relu", bias=0.3),
    Network((6, 3), "relu", bias=0.3),
    Network((6, 5, 1), "relu", bias=1.0),
    Network((6, 7, 4, 3), "relu", bias=1.0),
    Network((6, 5, 3), "tanh", bias=1.0),
    Network((6, 5, 3), "logistic", bias=1.0),
]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.uniform(size=(40, 6)) < 0.6)
    return X, rng.integers(3, size=40)


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(n_samples=300, n_features=8, n_informative=4, random_state=0)
    return normalize(X), y


@pytest.fixture(scope="module")
def three_classes():
    X, y = make_classification(n_samples=300, n_features=8, n_informative=5, n_classes=3, random_state=0)
    return normalize(X), y


def random_weights(network, seed=1):
    return np.random.default_rng(seed).normal(size=network.n_weights)


def clipped_sum(network, weights, X, codes, bound, size=64):
    total = np.zeros(network.n_weights)
    for block in blocks(X, codes, size):
        add_clipped_gradients(total, network, weights, block, bound)
    return total


def loss_of_row(network, weights, x, code):
    """Loss of one row, written out."""
    apply = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh, "logistic": expit}[network.activation]
    layers = network.layers(weights)
    for layer in layers[:-1]:
        x = apply(x @ layer[:-1] + network.bias * layer[-1])
    scores = x @ layers[-1][:-1] + network.bias * layers[-1][-1]
    if len(scores) == 1:
        return np.log1p(np.exp(-(2 * code - 1) * scores[0]))
    return -np.log(softmax(scores)[code])


def gradient_of_row(network, weights, x, code, h=1e-6):
    """Gradient of one row, by central differences of its loss."""
    steps = h * np.eye(len(weights))
    return np.array(
        [loss_of_row(network, weights + d, x, code) - loss_of_row(network, weights - d, x, code) for d in steps]
    ) / (2 * h)


# Gradients


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_clipped_sum_equals_the_loop_over_rows(network, make, rows):
    """Each row's gradient, by finite differences, is clipped to the bound and added up."""
    X, codes = rows[0], rows[1] % max(network.sizes[-1], 2)
    weights = random_weights(network)
    gradients = np.array([gradient_of_row(network, weights, x, code) for x, code in zip(X, codes, strict=True)])
    norms = np.linalg.norm(gradients, axis=1)
    bound = np.median(norms)
    assert 0 < (norms < bound).sum() < len(norms)
    expected = (gradients * np.minimum(1, bound / norms)[:, None]).sum(axis=0)
    np.testing.assert_allclose(clipped_sum(network, weights, make(X), codes, bound), expected, atol=2e-7)


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_no_row_adds_more_than_the_bound(network, rows):
    """Also huge rows; those at which a gradient overflows add nothing at all, and tell nobody."""
    weights = random_weights(network)
    for factor in (1e-3, 1.0, 1e3, 1e20, 1e200):
        for x, code in zip(factor * rows[0], rows[1] % max(network.sizes[-1], 2), strict=True):
            total = clipped_sum(network, weights, x[None], np.array([code]), 0.5)
            assert np.linalg.norm(total) <= 0.5 * (1 + 2.0**-48)


def test_a_row_that_overflows_leaves_the_others_alone(rows):
    X, codes = rows
    network = NETWORKS[3]
    weights = random_weights(network)
    with_it = clipped_sum(network, weights, np.vstack([X, np.full(6, 1e307)]), np.append(codes, 0), 0.5)
    np.testing.assert_array_equal(with_it, clipped_sum(network, weights, X, codes, 0.5))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("hidden", [(), (3,)])
def test_sums_of_all_rows_that_overflow_tell_nobody(hidden, make):
    """Finite rows whose sum is not: no warning, which is an error here."""
    X = np.repeat([[1.7e308, 1.0], [-1.7e308, 1.0]], 256, axis=0)
    with np.errstate(all="ignore"):
        assert np.isnan(X.sum())
    model = DPSGDClassifier(hidden_layer_sizes=hidden, batch_size=None, n_epochs=1).fit(make(X), np.arange(512) % 2)
    assert all(np.isfinite(coef).all() for coef in model.coefs_)


KERNELS = """
import numpy as np
from skdprp.neural_network._network import row_products
rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    for rows in (32, 256):
        for inner in (16, 37, 100):
            for width in (1, 8, 26, 300):
                X = np.tile(rng.normal(size=inner).astype(dtype), (rows, 1))
                for W in (rng.normal(size=(inner, width)), rng.normal(size=(width, inner)).T):
                    products = row_products(X, W.astype(dtype))
                    assert (products == products[0]).all(), (dtype, rows, inner, width)
"""


@pytest.mark.parametrize("kernel", ["", "Haswell", "Sandybridge", "SkylakeX"])
@pytest.mark.parametrize("n_threads", ["1", "2"])
def test_no_linear_algebra_rounds_equal_rows_apart(kernel, n_threads):
    """Several kernels of OpenBLAS do: with Haswell's, most rows of 26 scores in float32 depend on their place."""
    known = {"OPENBLAS_NUM_THREADS": n_threads} | ({"OPENBLAS_CORETYPE": kernel} if kernel else {})
    subprocess.run([sys.executable, "-c", KERNELS], env=os.environ | known, check=True)


def test_trials_find_products_that_depend_on_the_place(monkeypatch):
    """The control: the last rows of a block are summed from the end."""

    class Backwards(np.ndarray):
        def __matmul__(self, W):
            products = np.asarray(self) @ np.asarray(W)
            products[-4:] = np.asarray(self)[-4:, ::-1] @ np.asarray(W)[::-1]
            return products

    tile = np.tile
    assert _network._rounds_rows_alike.__wrapped__((8, 37), 3, np.dtype(float), True)
    monkeypatch.setattr(np, "tile", lambda row, repeats: tile(row, repeats).view(Backwards))
    assert not _network._rounds_rows_alike.__wrapped__((8, 37), 3, np.dtype(float), True)


def test_products_row_by_row_are_the_products(monkeypatch):
    monkeypatch.setattr(_network, "_rounds_rows_alike", lambda *shapes: False)
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(32, 19)), rng.normal(size=(7, 19))
    np.testing.assert_allclose(_network.row_products(X, W.T), X @ W.T, rtol=1e-12)
    np.testing.assert_allclose(_network.row_products(X, W.T.copy()), X @ W.T, rtol=1e-12)
    np.testing.assert_array_equal(_network.row_products(sp.csr_array(X), W.T), sp.csr_array(X) @ W.T)


def test_repeated_entries_beyond_float32_leave_the_weights_finite():
    """Their sum is cut before it is brought back to float32, without a warning that would tell of the row."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.normal(size=(50, 5)).astype(np.float32))
    data, indices = np.append(X.data, np.float32([3e38, 3e38])), np.append(X.indices, [0, 0])
    X = sp.csr_array((data, indices, np.append(X.indptr, len(data))), shape=(51, 5))
    y = np.arange(51) % 2
    for hidden in ((), (4,)):
        model = DPSGDClassifier(batch_size=None, hidden_layer_sizes=hidden).fit(X, y)
        assert all(np.isfinite(coef).all() for coef in model.coefs_)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [32, 64, 256, 1024])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [1, 3, 10])
def test_the_arithmetic_of_a_row_does_not_depend_on_its_place(width, dtype, size, make):
    """What the guarantee assumes of the linear algebra library: the same bits at every place of a block."""
    rng = np.random.default_rng(0)
    for sizes in ((37, width), (37, 19, width), (128, 128, 10)):
        network = Network(sizes, "tanh", bias=1.0)
        layers = network.layers(random_weights(network).astype(dtype))
        X = rng.normal(size=(size, sizes[0])).astype(dtype)
        scores = network.forward(layers, make(X))[-1]
        assert scores.dtype == dtype
        for shift in (1, 2, 5, size // 2):
            moved = np.roll(X, shift, axis=0)
            np.testing.assert_array_equal(network.forward(layers, make(moved))[-1], np.roll(scores, shift, axis=0))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_that_leaves_moves_no_other_in_columns_either(order, monkeypatch):
    """Rows stored by columns fill full blocks as they do the last one: their scores cancel to rounding alone."""
    sums = []

    def _set_weights(values, scale):
        sums.append(values.copy())
        values[:] = -float(n_rows)
        values[-1] = 0.0

    monkeypatch.setattr(_noise, "add_gaussian", _set_weights)
    model = DPSGDClassifier(n_epochs=2, learning_rate=1.0, classes=[0, 1])
    for large, small, rest in np.random.default_rng(0).permuted([np.arange(8)] * 10, axis=1)[:, :3]:
        X = np.zeros((512, 8), order=order)
        X[:, [large, small, rest]] = 1e20, -1e20, 1000.0
        for n_rows in (512, 511):
            model.fit(np.asarray(X[:n_rows], order=order), np.ones(n_rows, int))
        assert np.linalg.norm(sums[-1] - sums[-3]) <= model.sensitivity_ * (1 + 1e-9)


@pytest.mark.parametrize(("batch_size", "size"), [(1, 32), (200, 256), (2000, 256), (5000, 1024)])
def test_blocks_have_the_size_of_a_batch(batch_size, size):
    assert block_size(batch_size) == size


@pytest.mark.parametrize("size", [32, 1024])
def test_rounding_stays_within_its_margin(size):
    """Sums in another order differ by less than the margin says, and the margin is no wild guess."""
    network = Network((6, 5, 3), "tanh", bias=1.0)
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(5000, 6)), rng.integers(3, size=5000)
    weights = random_weights(network)
    order = rng.permutation(5000)
    sums = [clipped_sum(network, weights, X[p], codes[p], 0.5, size) for p in (np.arange(5000), order)]
    margin = float64_margin(network, 5000, size if size == 32 else 5000)
    assert 0 < np.linalg.norm(sums[0] - sums[1]) <= 0.5 * margin < 1e-6


# Rows in float32


def float32_and_float64_sums(network, X, codes, bound):
    """Sums of the same gradients in float32 and in float64."""
    sums = [np.zeros(network.n_weights) for _ in range(2)]
    weights = random_weights(network)
    for block in blocks(X, codes, 256):
        for total, dtype in zip(sums, (np.float32, np.float64), strict=True):
            add_clipped_gradients(total, network, weights, block, bound, dtype)
    return sums


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_sums_in_float32_stay_within_their_margin(network):
    """Far off what float64 gives, but by less than is paid for; also where all rows push one way."""
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(1000, 6)), np.repeat(rng.normal(size=(1, 6)), 1000, axis=0)):
        codes = np.zeros(1000, int)
        short, long = float32_and_float64_sums(network, X.astype(np.float32), codes, 0.5)
        off = np.linalg.norm(short - long)
        assert 1e-9 < off <= 0.5 * float32_margin(network, 1000, 0.5) / 2


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_no_row_in_float32_adds_more_than_the_bound(network, rows):
    """Also rows at both ends of the range of float32, where squares overflow or vanish."""
    margin = float32_margin(network, 1, 0.5)
    for factor in (1e-40, 1e-20, 1.0, 1e20, 1e37):
        for x, code in zip((factor * rows[0]).astype(np.float32), rows[1] % max(network.sizes[-1], 2), strict=True):
            for total in float32_and_float64_sums(network, x[None], np.array([code]), 0.5):
                assert np.linalg.norm(total) <= 0.5 * (1 + margin)


def test_huge_rows_and_tiny_derivatives_are_clipped_too():
    """Derivatives whose squares float32 has no numbers for: computed in it, the norm would be 0."""
    network = Network((1, 1), "relu", bias=1e-30)
    X = np.array([[1e30]], np.float32)
    weights = np.array([69e-30, 0.0])
    total = np.zeros(2)
    add_clipped_gradients(total, network, weights, next(blocks(X, np.array([1]), 32)), 0.5, np.float32)
    assert np.linalg.norm(total) == pytest.approx(0.5, rel=1e-3)


def rounding_of(dtype, n_samples, rate, bound=1.0, n_steps=100):
    problem = DescentProblem(n_samples, 10, Network((784, 128, 10), "relu", bias=1.0), bound, np.dtype(dtype))
    return plan_rounding(problem, Plan(n_samples, rate, n_steps, 1.0), 1e-8)


def test_float32_sums_only_where_they_are_cheap():
    """Small batches of float32; neither all rows, nor large batches, nor a bound near what float32 loses."""
    assert rounding_of(np.float32, 8000, 0.025).dtype == np.float32
    for other in (
        rounding_of(np.float64, 8000, 0.025),
        rounding_of(np.float32, 8000, 1.0),
        rounding_of(np.float32, 8000, 0.2),
        rounding_of(np.float32, 8000, 0.025, bound=1e-4),
    ):
        assert (other.dtype, other.failure) == (np.float64, 0.0)


@pytest.mark.parametrize(("n_samples", "rate"), [(8000, 0.025), (200, 0.3), (10**6, 1e-5), (100, 0.01)])
def test_batches_are_too_large_for_float32_as_seldom_as_is_said(n_samples, rate):
    """The binomial tail of all steps, beyond the number of rows that the margin pays for, is paid out of delta."""
    found = rounding_of(np.float32, n_samples, rate)
    assert found.dtype == np.float32
    assert found.failure == 2.0**-40 * 1e-8
    log = np.log(100 / found.failure)
    largest = n_samples * rate + np.sqrt(2 * n_samples * rate * log) + log
    network = Network((784, 128, 10), "relu", bias=1.0)
    assert found.margin == pytest.approx(float32_margin(network, min(largest, n_samples), 1.0), rel=1e-12)
    assert 100 * binom.sf(np.floor(largest), n_samples, rate) <= found.failure


@pytest.mark.parametrize("known", [{"max_norm": 1e-40}, {"max_norm": 1e40}, {"max_grad_norm": 1e45}], ids=str)
def test_norms_beyond_float32_are_computed_in_float64(known, binary, silenced_noise):
    """The same weights as from rows in float64, where float32 has no such numbers."""
    X, y = binary[0].astype(np.float32), binary[1]
    short, long = (
        DPSGDClassifier(n_epochs=3, learning_rate=1.0, **known).fit(rows, y) for rows in (X, X.astype(float))
    )
    assert np.abs(long.coef_).max() > 0
    np.testing.assert_array_equal(short.coef_, long.coef_)


def test_float32_pays_for_its_rounding(binary):
    """By a little more noise, and by a share of delta where it is composed further."""
    X, y = binary
    known = {"hidden_layer_sizes": (5,), "batch_size": 30, "n_epochs": 3, "epsilon": 4.0}
    long, short = (DPSGDClassifier(**known).fit(X.astype(dtype), y) for dtype in (np.float64, np.float32))
    assert 1.0001 < short.scale_ / long.scale_ < 1.01
    assert long.guarantee_.loss.failure_probability == 0.0
    assert short.guarantee_.loss.failure_probability == 2.0**-40 * short.delta_
    assert short.guarantee_.loss.profile(4.0) <= short.delta_


# Batches


@pytest.mark.parametrize(
    ("adjacency", "mu", "least", "most"), [("add_remove", 0.386, 1.01, 1.1), ("replace_one", 0.193, 1.0, 1.01)]
)
def test_automatic_batches_cost_next_to_nothing_in_noise(adjacency, mu, least, most):
    """A few percent more than all rows need where a row is blank or not, next to none where it is replaced."""
    n_steps, known = 244, {"adjacency": adjacency}
    rate = sampling_rate(mu, 8000, n_steps=n_steps, n_epochs="auto", **known)
    assert rate == pytest.approx(sampling_rate(mu, 8000, n_steps=None, n_epochs=rate * n_steps, **known))
    sampled, whole = (descent_scale(2.0, 1 / 8000**2, rate=p, n_steps=n_steps, **known) / p for p in (rate, 1.0))
    assert least < sampled / whole < most
    assert sampling_rate(1e-9, 8000, n_steps=50, n_epochs="auto", **known) == 64 / 8000
    assert sampling_rate(1e9, 8000, n_steps=50, n_epochs="auto", **known) == 1.0


def test_noise_of_a_replaced_row_is_twice_that_of_a_blank_one():
    """A row adds a vector of norm C or nothing; a row for another is a move by 2 C."""
    X, y = np.random.default_rng(0).normal(size=(100, 4)), np.arange(100) % 2
    for noise in ("gaussian", "product"):
        blank, replaced = (
            DPSGDClassifier(noise=noise, n_epochs=5, adjacency=adjacency).fit(X, y)
            for adjacency in ("add_remove", "replace_one")
        )
        assert replaced.scale_ == pytest.approx(2 * blank.scale_, rel=1e-6)
        assert replaced.sensitivity_ == blank.sensitivity_ == 1.0
    assert DPSGDClassifier().adjacency == "replace_one"
    with pytest.raises(ValueError, match="adjacency"):
        DPSGDClassifier(adjacency="l1").fit(X, y)


@pytest.mark.parametrize("n_epochs", ["auto", 2])
def test_the_smaller_epsilon_the_smaller_the_automatic_batch(n_epochs, binary):
    X, y = np.tile(binary[0], (10, 1)), np.tile(binary[1], 10)
    known = {"hidden_layer_sizes": (3,), "n_epochs": n_epochs}
    rates = [DPSGDClassifier(epsilon=epsilon, **known).fit(X, y).sampling_rate_ for epsilon in (0.3, 1.0, 3.0)]
    assert 64 / 3000 <= rates[0] < rates[1] < rates[2] <= 1
    assert DPSGDClassifier(n_epochs=2).fit(X, y).sampling_rate_ == 1.0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_blocks_have_one_shape_and_hold_each_row_once(make, rows):
    X, codes = rows
    chosen = np.array([3, 5, 8, 13, 21])
    for indices in (None, chosen, chosen[:0]):
        kept = X if indices is None else X[indices]
        parts = list(blocks(make(X), codes, 16, indices))
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
    assert chi2.ppf(1e-7, n_steps) < statistic < chi2.isf(1e-7, n_steps)
    per_row = ((held.sum(axis=0) - n_steps * rate) ** 2).sum() / (n_steps * rate * (1 - rate))
    assert chi2.ppf(1e-7, n) < per_row < chi2.isf(1e-7, n)
    assert len(np.unique(held, axis=0)) == n_steps


# Descent without noise


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
        model = DPSGDClassifier(n_epochs=n_epochs, learning_rate=2.0).fit(X, y)
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


@pytest.mark.parametrize("hidden", [(), (5,), (4, 3)])
def test_scores_are_those_of_mlp_classifier(hidden, three_classes, seeded):
    """The same weights in scikit-learn's network give the same probabilities."""
    X, y = three_classes
    ours = DPSGDClassifier(hidden_layer_sizes=hidden, batch_size=None, n_epochs=3).fit(X, y)
    peer = MLPClassifier(hidden or (1,), max_iter=1).partial_fit(X, y, classes=ours.classes_)
    peer.coefs_, peer.intercepts_, peer.n_layers_ = ours.coefs_, ours.intercepts_, len(ours.coefs_) + 1
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(
        ours.decision_function(X), score("relu", zip(ours.coefs_, ours.intercepts_, strict=True), X)
    )


@pytest.mark.parametrize("known", [{}, {"max_norm": 0.7}, {"hidden_layer_sizes": (5,), "batch_size": None}], ids=str)
def test_sparse_and_float32_give_the_same_model(known, three_classes, silenced_noise):
    """CSR rows, repeated entries of them, and float32 only differ by rounding."""
    X, y = three_classes
    X = np.where(np.abs(X) > 0.2, X, 0)
    known = {"n_epochs": 20, "learning_rate": 1.0, "activation": "tanh"} | known
    dense = DPSGDClassifier(**known).fit(X, y)
    csr = sp.csr_matrix(X)
    halves = sp.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    for other in (csr, sp.csr_array(X), halves, X.astype(np.float32), csr.astype(np.float32), pd.DataFrame(X)):
        model = DPSGDClassifier(**known).fit(other, y)
        for ours, theirs in zip(model.coefs_, dense.coefs_, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        np.testing.assert_allclose(model.decision_function(other), dense.decision_function(X), atol=1e-6)
    assert halves.nnz == 2 * csr.nnz  # the caller's matrix is left alone


def test_sparse_rows_are_never_densified(monkeypatch, three_classes):
    X, y = three_classes

    def refuse(self, *args, **kwargs):
        raise AssertionError("densified")

    for kind in (sp.csr_matrix, sp.csr_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    csr = sp.csr_matrix(X)
    for hidden in ((), (4,)):
        DPSGDClassifier(hidden_layer_sizes=hidden, n_epochs=2).fit(csr, y).predict(csr)


# Noise


def test_energy_of_the_noise_of_each_step(monkeypatch, binary):
    """Every step adds noise of standard deviation `scale_` to each of the weights' sums, and no other."""
    X, y = binary
    drawn, add = [], _noise.add_gaussian

    def _record(values, scale):
        before = values.copy()
        add(values, scale)
        drawn.append((scale, values - before))

    monkeypatch.setattr(_noise, "add_gaussian", _record)
    model = DPSGDClassifier(n_epochs=200).fit(X, y)
    assert len(drawn) == model.n_iter_ == 200
    assert {scale for scale, _ in drawn} == {model.scale_}
    assert model.scale_ == pytest.approx(model.noise_multiplier_ * model.sensitivity_)
    noise = np.array([values for _, values in drawn]) / model.scale_
    n = noise.size
    assert chi2.ppf(1e-7, n) < np.sum(noise**2) < chi2.isf(1e-7, n)
    steps = [a @ b for a, b in pairwise(noise)]
    assert abs(np.sum(steps)) < 6 * np.sqrt(n)


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
    assert chi2.ppf(1e-7, 2 * 9 * 300) < 2 * np.sum(radii) < chi2.isf(1e-7, 2 * 9 * 300)


def fitted_weights(pickled, X, y):
    return pickle.loads(pickled).fit(X, y).coefs_[0].ravel()


@pytest.mark.parametrize("known", [{}, {"hidden_layer_sizes": (3,), "batch_size": 150}, {"noise": "product"}], ids=str)
def test_every_fit_has_noise_of_its_own(known, binary):
    """Refits, clones, unpickled copies and forked processes: no two fits agree in more than one weight or so."""
    X, y = binary
    model = DPSGDClassifier(n_epochs=2, **known)
    pickled = pickle.dumps(model)
    model.fit(X, y)  # calibrates once, before the fork
    with multiprocessing.get_context("fork").Pool(2) as pool:
        weights = pool.starmap(fitted_weights, [(pickled, X, y)] * 4)
    weights += [model.fit(X, y).coefs_[0].ravel() for _ in range(2)]
    weights += [clone(model).fit(X, y).coefs_[0].ravel(), fitted_weights(pickle.dumps(model), X, y)]
    agree = [np.mean(a == b) for a, b in combinations(weights, 2)]  # noisy sums lie on a grid
    assert len(weights) == 8
    assert max(agree) < 0.5


def test_seeded_noise_repeats_itself_and_says_so(binary):
    X, y = binary
    fits = []
    for _ in range(2):
        with reproducible_noise(0):
            fits.append(DPSGDClassifier(hidden_layer_sizes=(3,), batch_size=150, n_epochs=2).fit(X, y))
    np.testing.assert_array_equal(fits[0].coefs_[0], fits[1].coefs_[0])
    assert fits[0].guarantee_.seeded
    assert "seeded" in repr(fits[0].guarantee_)


# Behaviour


def test_nothing_of_the_rows_is_kept(binary):
    """What a fitted model holds is public, or released weights."""
    X, y = binary
    model = DPSGDClassifier(n_epochs=2).fit(X, y)
    fitted = {name for name in vars(model) if name not in model.get_params()}
    assert fitted == {
        *("coefs_", "intercepts_", "classes_", "guarantee_", "delta_", "scale_"),
        *("n_iter_", "sampling_rate_", "learning_rate_", "sensitivity_", "noise_multiplier_", "n_features_in_"),
        "_calibrated_for",  # the parameters
    }
    assert model._calibrated_for == model.get_params()
    network = model.set_params(hidden_layer_sizes=(3,), batch_size=None).fit(X, y)
    assert not hasattr(network, "coef_")
    assert not hasattr(network, "intercept_")


def test_max_norm_bounds_the_gradients_of_linear_models(binary, three_classes):
    """Nothing is clipped then, whatever max_grad_norm is."""
    for X, y in (binary, three_classes):
        K = y.max() + 1
        model = DPSGDClassifier(max_norm=2.0, max_grad_norm=1e-3, n_epochs=1).fit(X, y)
        assert model.sensitivity_ == pytest.approx(np.hypot(2.0, 0.6) * (1 if K == 2 else np.sqrt(2)))
    network = DPSGDClassifier(max_norm=2.0, max_grad_norm=0.1, hidden_layer_sizes=(2,), batch_size=None, n_epochs=1)
    assert network.fit(X, y).sensitivity_ == 0.1


def test_scores_clip_rows_as_fit_does(binary, seeded):
    X, y = binary
    model = DPSGDClassifier(max_norm=0.5).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(100 * X), rtol=1e-9)


def test_one_hidden_layer_may_be_a_number(binary):
    model = DPSGDClassifier(hidden_layer_sizes=3, batch_size=None, n_epochs=1).fit(*binary)
    assert [coef.shape for coef in model.coefs_] == [(8, 3), (3, 1)]


@pytest.mark.parametrize("batch_size", [300, 301, 10**6, None])
def test_batches_of_all_rows_are_the_full_batch(batch_size, binary):
    X, y = binary
    model = DPSGDClassifier(batch_size=batch_size, n_epochs=5).fit(X, y)
    assert model.sampling_rate_ == 1.0
    assert model.n_iter_ == 5


def test_epochs_count_expected_uses_of_a_row(binary):
    X, y = binary
    model = DPSGDClassifier(batch_size=70, n_epochs=2).fit(X, y)
    assert model.sampling_rate_ == pytest.approx(70 / 300)
    assert model.n_iter_ == 9


def test_defaults_depend_on_public_quantities_only(three_classes):
    """Other values of the rows, the same plan."""
    X, y = three_classes
    plans = set()
    for scale in (1e-3, 1.0, 1e3):
        model = DPSGDClassifier().fit(scale * X, np.roll(y, 7))
        plans.add((model.n_iter_, model.learning_rate_, model.scale_, model.sampling_rate_))
    assert len(plans) == 1


def test_it_learns(digits):
    """Far above chance, at a seed: linear, and with a hidden layer."""
    X, y = digits
    with reproducible_noise(0):
        assert DPSGDClassifier(epsilon=3.0).fit(X / 4, y).score(X / 4, y) > 0.85
        network = DPSGDClassifier(epsilon=10.0, hidden_layer_sizes=(32,), batch_size=None, n_epochs=100)
        assert network.fit(X, y).score(X, y) > 0.8


def test_pipelines_searches_and_names(binary):
    X, y = binary
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    labels = np.array(["no", "yes"])[y]
    pipe = make_pipeline(Normalizer().set_output(transform="pandas"), DPSGDClassifier(n_epochs=5))
    search = GridSearchCV(pipe, {"dpsgdclassifier__epsilon": [0.1, 10.0]}, cv=2).fit(frame, labels)
    assert set(search.predict(frame)) <= {"no", "yes"}
    assert list(search.best_estimator_[-1].feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"hidden_layer_sizes": (3, 0)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": (3.5,)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": [[3]]}, "hidden_layer_sizes must be positive integers"),
        ({"classes": [0, 2]}, "y has labels that are not among"),
        ({"delta": 1.0}, "delta"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"max_norm": 0.0}, "max_norm"),
        ({"batch_size": 0}, "batch_size"),
        ({"epsilon": 1e-7, "n_epochs": 1000}, "too small"),
    ],
)
def test_errors_before_anything_is_drawn(known, message, binary, monkeypatch):
    """A refused fit has drawn no noise and set no attribute."""
    monkeypatch.setattr(_noise, "random_bytes", None)
    model = DPSGDClassifier(**known)
    with pytest.raises(ValueError, match=message):
        model.fit(*binary)
    assert not hasattr(model, "guarantee_")
    assert not hasattr(model, "coefs_")


def test_a_failed_refit_keeps_the_earlier_release_whole(binary):
    X, y = binary
    model = DPSGDClassifier(n_epochs=2).fit(X, y)
    before = (model.guarantee_, model.coefs_)
    with pytest.raises(ValueError, match="among"):
        model.set_params(classes=[0, 2]).fit(X, y)
    assert (model.guarantee_, model.coefs_) == before


def test_missing_accountant_is_named(binary, monkeypatch):
    """Sampling needs dp-accounting; the full batch does not."""
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    DPSGDClassifier(n_epochs=2).fit(*binary)
    with pytest.raises(ImportError, match=r'pip install "skdprp\[pld\]"'):
        DPSGDClassifier(batch_size=77, n_epochs=3).fit(*binary)


# Progress


def test_verbose_tells_the_step_alone(binary):
    X, y = binary
    told = []
    for rows, labels in ((X, y), (10 * X, 1 - y)):
        with redirect_stdout(io.StringIO()) as out:
            DPSGDClassifier(n_epochs=10, verbose=2).fit(rows, labels)
        told.append(out.getvalue())
    assert told[0] == told[1] == "[DPSGDClassifier] step 5 of 10\n[DPSGDClassifier] step 10 of 10\n"


class Spy:
    """A callback that asks for everything."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        """Note the start."""
        self.seen.append("setup")

    def teardown(self, estimator, context):
        """Note the end."""
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        """Look around."""
        self._see(estimator, X, y, metadata, fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        """Look around."""
        self._see(estimator, X, y, metadata, fitted_estimator)

    def _see(self, estimator, *given):
        assert given == (None,) * 4
        arrays = [name for name, value in vars(estimator).items() if isinstance(value, np.ndarray | list)]
        self.seen.append(arrays)


def test_callbacks_count_steps_and_see_nothing(binary):
    """scikit-learn's callbacks, where it has them, run at every step and are handed no rows, labels or weights."""
    pytest.importorskip("sklearn.callback")
    spy = Spy()
    DPSGDClassifier(n_epochs=4).set_callbacks(spy).fit(*binary)
    assert spy.seen[0] == "setup"
    assert spy.seen[-1] == "teardown"
    between = spy.seen[1:-1]
    assert len(between) == 2 * (4 + 1)
    assert all(arrays == ["_skl_callbacks_to_teardown"] or "_skl_callbacks" in arrays for arrays in between)
    assert not any(name in ("coefs_", "X", "y") for arrays in between for name in arrays)


def test_without_callbacks_of_scikit_learn(monkeypatch, capsys):
    """Before scikit-learn 1.9 there are none: the step is told to the terminal alone."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.find_spec("skdprp.neural_network._progress")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.with_callbacks(len) is len
    estimator = module.CallbackSupportMixin()
    assert not hasattr(estimator, "set_callbacks")
    module.report_steps(estimator, n_steps=1, verbose=1)(1)
    assert capsys.readouterr().out == "[CallbackSupportMixin] step 1 of 1\n"
