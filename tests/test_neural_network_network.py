"""Networks: the sum of clipped gradients, and the place of a row, which decides nothing."""

import inspect
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from networks import NETWORKS, clipped_sum, random_weights
from scipy.special import expit, softmax

from skdprp import DPSGDClassifier, _noise
from skdprp.losses import CappedLogisticLoss
from skdprp.neural_network import _network
from skdprp.neural_network._network import Network, add_clipped_gradients, capped_log_probabilities
from skdprp.neural_network._plan import float32_margin, float64_margin
from skdprp.neural_network._steps import padded_blocks


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.uniform(size=(40, 6)) < 0.6)
    return X, rng.integers(3, size=40)


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


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_clipped_sum_equals_the_loop_over_rows(network, make, rows):
    """Each row's gradient, by finite differences, is clipped to the bound and added up."""
    X, codes = rows[0][:12], rows[1][:12] % max(network.sizes[-1], 2)
    weights = random_weights(network)
    gradients = np.array([gradient_of_row(network, weights, x, code) for x, code in zip(X, codes, strict=True)])
    norms = np.linalg.norm(gradients, axis=1)
    bound = np.median(norms)
    assert 0 < (norms < bound).sum() < len(norms)
    expected = (gradients * np.minimum(1, bound / norms)[:, None]).sum(axis=0)
    np.testing.assert_allclose(clipped_sum(network, weights, make(X), codes, bound), expected, atol=2e-7)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_capped_derivatives_are_those_of_the_loss_up_to_their_norm_at_the_start(n_classes):
    """No cap moves the first step, and none is longer; that of the softmax loss alone tends to sqrt(2)."""
    n_scores = 1 if n_classes == 2 else n_classes
    plain, capped = (Network((6, n_scores), "relu", bias=0.3, capped=cap) for cap in (False, True))
    codes = np.arange(1000) % n_classes
    for size in (0.0, 1.0, 1e3):
        scores = size * np.random.default_rng(0).normal(size=(1000, n_scores))
        full, clipped = plain.loss_gradient(codes, scores), capped.loss_gradient(codes, scores)
        norms = np.linalg.norm(full, axis=1)
        np.testing.assert_allclose(clipped, full * np.minimum(1, capped.lipschitz / np.maximum(norms, 1e-9))[:, None])
        assert np.linalg.norm(clipped, axis=1).max() <= capped.lipschitz * (1 + 2.0**-50)
        if size == 0:
            np.testing.assert_allclose(norms, capped.lipschitz, rtol=1e-15)
    assert norms.max() == pytest.approx(plain.lipschitz, rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_probabilities_of_capped_scores_are_where_descent_stays(n_classes):
    """The mean derivative of rows of these shares vanishes; the likeliest class is the one of the largest score."""
    scores = 3 * np.random.default_rng(0).normal(size=(200, n_classes))
    shares = np.exp(capped_log_probabilities(scores))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), scores.argmax(axis=1))
    network = Network((6, n_classes if n_classes > 2 else 1), "relu", bias=0.3, capped=True)
    scores = scores if n_classes > 2 else scores[:, 1:] - scores[:, :1]
    pulls = [network.loss_gradient(np.full(200, k), scores) for k in range(n_classes)]
    np.testing.assert_allclose(np.einsum("ik,kij->ij", shares, np.array(pulls)), 0.0, atol=1e-12)
    if n_classes == 2:
        np.testing.assert_allclose(np.log(shares[:, 1]), CappedLogisticLoss().log_probability(scores[:, 0]), rtol=1e-9)


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


# The products alone, which need numpy and scipy.sparse: all that their module imports takes a second.
NAMES = ["row_products", "forget_trials", "_rounds_rows_alike", "_numbers_of_many_sizes", "_aligned"]
PRODUCTS = f"""
from functools import lru_cache
import numpy as np
import scipy.sparse as sp
_TRIED, _LINE = {_network._TRIED}, {_network._LINE}
{"".join(inspect.getsource(getattr(_network, name)) for name in NAMES)}
"""
KERNELS = """
from threadpoolctl import threadpool_info, threadpool_limits
for n_threads in (1, 2):
    forget_trials()
    rng = np.random.default_rng(0)
    with threadpool_limits(n_threads, user_api="blas"):
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {n_threads}
        for dtype in (np.float32, np.float64):
            for rows in (32, 256):
                for inner in (16, 37, 100):
                    for width in (1, 8, 26, 300):
                        X = np.tile(rng.normal(size=inner).astype(dtype), (rows, 1))
                        for W in (rng.normal(size=(inner, width)), rng.normal(size=(width, inner)).T):
                            products = row_products(X, W.astype(dtype))
                            assert (products == products[0]).all(), (n_threads, dtype, rows, inner, width)
"""


@pytest.mark.parametrize("kernel", ["", "Haswell", "Sandybridge", "SkylakeX"])
def test_no_linear_algebra_rounds_equal_rows_apart(kernel):
    """Several kernels of OpenBLAS do: with Haswell's, most rows of 26 scores in float32 depend on their place."""
    known = {"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_THREAD_TIMEOUT": "10"}  # threads sleep soon, which wait for work
    known |= {"OPENBLAS_CORETYPE": kernel} if kernel else {}
    ended = subprocess.run([sys.executable, "-c", PRODUCTS + KERNELS], env=os.environ | known)
    if kernel and ended.returncode == -signal.SIGILL:
        pytest.skip(f"this processor lacks instructions of the kernel {kernel}")
    assert ended.returncode == 0


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
    model = DPSGDClassifier(n_epochs=2, learning_rate=1.0, classes=[0, 1], max_norm=None)
    for large, small, rest in np.random.default_rng(0).permuted([np.arange(8)] * 10, axis=1)[:, :3]:
        X = np.zeros((512, 8), order=order)
        X[:, [large, small, rest]] = 1e20, -1e20, 1000.0
        for n_rows in (512, 511):
            model.fit(np.asarray(X[:n_rows], order=order), np.ones(n_rows, int))
        assert np.linalg.norm(sums[-1] - sums[-3]) <= model.sensitivity_ * (1 + 1e-9)


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
    for block in padded_blocks(X, codes, 256):
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
    add_clipped_gradients(total, network, weights, next(padded_blocks(X, np.array([1]), 32)), 0.5, np.float32)
    assert np.linalg.norm(total) == pytest.approx(0.5, rel=1e-3)


def test_sparse_rows_are_never_densified(monkeypatch, three_classes):
    X, y = three_classes

    def dense_sums(self, toarray=sp.csr_array.toarray):
        """Sums of products of columns, which have no more rows than there are columns."""
        if self.shape[0] > X.shape[1]:
            raise AssertionError("densified")
        return toarray(self)

    def refuse(self, *args, **kwargs):
        raise AssertionError("densified")

    assert len(X) > X.shape[1]
    monkeypatch.setattr(sp.csr_array, "toarray", dense_sums)
    for kind, name in ((sp.csr_matrix, "toarray"), (sp.csr_matrix, "todense"), (sp.csr_array, "todense")):
        monkeypatch.setattr(kind, name, refuse)
    csr = sp.csr_matrix(X)
    for hidden in ((), (4,)):
        DPSGDClassifier(hidden_layer_sizes=hidden, n_epochs=2).fit(csr, y).predict(csr)
