"""Descent with a private Gram matrix: what it computes, how much all its releases cost together, where it is taken."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import chi2

from skdprp import DPSGDClassifier, _noise
from skdprp.ledger import PrivacyLedger
from skdprp.mechanisms import gaussian_profile
from skdprp.neural_network._dpsgd import DescentProblem
from skdprp.neural_network._network import Network, add_gradients
from skdprp.neural_network._plan import LARGEST_SCORE, bounded_margin, plan_descent
from skdprp.neural_network._preconditioner import Preconditioner, relative_scales, release_preconditioner
from skdprp.neural_network._steps import bounded_blocks

BOTH = ["add_remove", "replace_one"]


def plan_of(n_samples, n_features, n_classes=2, **known):
    """The plan of a fit with a capped linear model."""
    network = Network((n_features, n_classes if n_classes > 2 else 1), "relu", bias=0.3, capped=True)
    row_norm = float(np.hypot(1.0, 0.3))
    problem = DescentProblem(n_samples, n_classes, network, row_norm, network.lipschitz * row_norm, np.dtype(float))
    auto = dict.fromkeys(("batch_size", "n_epochs", "learning_rate", "momentum", "preconditioner"), "auto")
    options = {"adjacency": "replace_one", "optimizer": "sgd", "noise": "gaussian"}
    return plan_descent(problem, **{"epsilon": 1.0, "delta": 1e-6} | auto | options | known)


def recorded_sums(model, X, y, monkeypatch):
    """What a fit releases before noise, and the scale of the noise, one pair for each release."""
    sums = []
    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: sums.append((values.copy(), scale)))
    model.fit(X, y)
    return sums


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_silenced_noise_leaves_newton_like_steps(make, binary, silenced_noise):
    """Written out: the Gram matrix of clipped rows with their constant, an inverse, momentum, an average."""
    X, y = binary
    model = DPSGDClassifier(epsilon=100.0, preconditioner=True, n_epochs=6, classes=[0, 1]).fit(make(X), y)
    assert (model.n_iter_, model.momentum_, model.learning_rate_) == (6, 0.5, 1.0)
    u = np.column_stack([X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None], np.full(len(X), 0.3)])
    R, sizes = np.hypot(1, 0.3), (8, 1)
    problem = DescentProblem(len(X), 2, Network(sizes, "relu", 0.3, capped=True), R, R / 2, np.dtype(float))
    settings = model._calibrate(problem, model.delta_).noise.preconditioner
    P = np.linalg.inv(u.T @ u / 4 + settings.floor * R**2 * np.eye(9))
    w, move, late = np.zeros(9), np.zeros(9), []
    for _ in range(6):
        move = move / 2 + P @ (u.T @ np.clip(expit(u @ w) - y, -0.5, 0.5))
        w = w - move
        late += [w]
    np.testing.assert_allclose(model.coef_[0], np.mean(late[3:], axis=0)[:-1], rtol=1e-7)
    np.testing.assert_allclose(model.intercept_[0], 0.3 * np.mean(late[3:], axis=0)[-1], rtol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("adjacency", BOTH)
def test_all_releases_together_are_one_gaussian_mechanism_of_the_target(adjacency, n_classes):
    """The largest sum of squared moves over scales, by search over pairs of rows: no more, and attained."""
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % n_classes
    model = DPSGDClassifier(preconditioner=True, adjacency=adjacency, n_epochs=7, delta=1e-6).fit(X, y)
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(2, 20_000, 2))  # a plane has every angle
    for rows in (u, v):
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        rows[5000:] *= rng.uniform(size=(15_000, 1)) ** 0.3
    u[:100] = -v[:100]
    if adjacency == "add_remove":
        v[:] = 0.0
    products = np.linalg.norm(u[:, :, None] * u[:, None] - v[:, :, None] * v[:, None], axis=(1, 2))
    gradients = np.maximum(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))
    multiplier = model.scale_ / model.sensitivity_
    mu = np.sqrt((products / model.preconditioner_scale_) ** 2 + 7 * (gradients / multiplier) ** 2).max()
    assert gaussian_profile(1.0, scale=1 / mu) <= model.delta_
    assert gaussian_profile(1.0, scale=1 / (1.001 * mu)) > model.delta_
    assert model.guarantee_.loss.mu == pytest.approx(mu, rel=1e-4)
    assert model.guarantee_.loss.profile(1.0) == pytest.approx(model.delta_, rel=1e-3)


def test_products_of_columns_are_free_for_replaced_rows():
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 2
    for adjacency, price in (("replace_one", 1.0), ("add_remove", 0.8**-0.5)):
        known = {"adjacency": adjacency, "n_epochs": 7}
        plain, with_gram = (DPSGDClassifier(**known, preconditioner=use).fit(X, y) for use in (False, True))
        assert with_gram.scale_ / plain.scale_ == pytest.approx(price, rel=1e-4)
    assert relative_scales("replace_one", 1) == (8**0.5, 2.0)


@pytest.mark.parametrize("adjacency", BOTH)
def test_releases_of_neighbours_move_as_far_as_is_priced(adjacency, monkeypatch):
    """Through fit, at weights of zero: rows at all angles, of either label, or one that is blank."""
    rng, squares = np.random.default_rng(0), []
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 2
    model = DPSGDClassifier(preconditioner=True, adjacency=adjacency, n_epochs=1, classes=[0, 1], delta=1e-4)
    for angle in np.linspace(0, np.pi, 13):
        sums = []
        for row, label in (([1.0, 0, 0], 1), ([np.cos(angle), np.sin(angle), 0], 0)):
            table = np.vstack([X, row]), np.append(y, label)
            if adjacency == "add_remove" and label == 0:
                table = X, y
            with monkeypatch.context() as patch:
                sums.append(recorded_sums(model, *table, patch))
        scales = [scale for _, scale in sums[0]]
        squares.append(sum(np.sum((a - b) ** 2) / s**2 for (a, _), (b, _), s in zip(*sums, scales, strict=True)))
    budget = DPSGDClassifier(**model.get_params()).fit(X, y).guarantee_.loss.mu ** 2
    # Constants of 0.3 beside rows of norm 1 keep any two of them from being opposite.
    assert (0.9 if adjacency == "replace_one" else 0.999) * budget < max(squares) <= budget * (1 + 1e-6)


def test_energy_of_the_noise_of_products(binary, monkeypatch):
    """Each entry of svec gets noise of the one scale, and steps get theirs."""
    X, y = binary
    drawn, add = [], _noise.add_gaussian

    def _record(values, scale):
        before = values.copy()
        add(values, scale)
        drawn.append((scale, values - before))

    monkeypatch.setattr(_noise, "add_gaussian", _record)
    energies = []
    for _ in range(50):
        drawn.clear()
        model = DPSGDClassifier(preconditioner=True, n_epochs=2).fit(X, y)
        assert [scale for scale, _ in drawn] == [model.preconditioner_scale_, model.scale_, model.scale_]
        assert drawn[0][1].size == 45
        energies.append(np.sum((drawn[0][1] / model.preconditioner_scale_) ** 2))
    assert chi2.ppf(1e-10, 45 * 50) < np.sum(energies) < chi2.isf(1e-10, 45 * 50)


def test_all_of_it_is_one_entry_of_a_ledger(binary):
    with PrivacyLedger() as ledger:
        model = DPSGDClassifier(preconditioner=True, n_epochs=2, delta=1e-6).fit(*binary)
    assert [entry.guarantee for entry in ledger.entries] == [model.guarantee_]
    assert "sums of products of columns" in model.guarantee_.mechanism


@pytest.mark.parametrize("adjacency", BOTH)
def test_the_guarantee_can_be_recomputed_from_what_it_prints(adjacency, binary):
    """It printed two noises, and not that the first is free where a row is replaced."""
    model = DPSGDClassifier(preconditioner=True, delta=1e-6, adjacency=adjacency).fit(*binary)
    steps = r"(\d+) steps of .* deviation (\S+) on sums of gradients of norm at most (\S+), "
    sums = r"after Gaussian noise of (\S+) on sums of products of columns of rows of norm at most 1 \((.*)\)"
    *numbers, together = re.fullmatch(steps + sums, model.guarantee_.mechanism).groups()
    n_steps, scale, bound, gram = map(float, numbers)
    squares = [n_steps * (bound / scale) ** 2, gram**-2.0]
    assert together == {"replace_one": "without further privacy loss", "add_remove": "mu^2 of both add up"}[adjacency]
    mu = 2 * np.sqrt(squares[0]) if adjacency == "replace_one" else np.sqrt(sum(squares))
    assert mu == pytest.approx(model.guarantee_.loss.mu, rel=1e-5)
    assert "skdprp.DPSGDClassifier" in model.guarantee_.source and "sqrt(T)" in DPSGDClassifier.__doc__


def test_where_it_is_taken():
    """By the numbers of rows and columns, epsilon and delta: never for wide rows, few rows or a small epsilon."""
    assert plan_of(24_000, 170, adjacency="add_remove").travel
    assert plan_of(24_000, 170).travel
    for plan in (
        plan_of(24_000, 170, epsilon=0.1),
        plan_of(10**9, 1000),
        plan_of(400, 30),
        plan_of(24_000, 170, learning_rate=1.0),
        plan_of(24_000, 170, batch_size=1000),
        plan_of(24_000, 170, noise="product"),
        plan_of(24_000, 170, optimizer="adam"),
        plan_of(24_000, 170, preconditioner=False),
    ):
        assert plan.travel is None
    assert plan_of(10**9, 999).travel


@pytest.mark.parametrize(
    "known",
    [
        {"hidden_layer_sizes": (3,)},
        {"max_norm": None},
        {"batch_size": 30},
        {"optimizer": "adam"},
        {"noise": "product"},
    ],
    ids=str,
)
def test_where_it_cannot_be_is_refused_before_anything_is_drawn(known, binary, monkeypatch):
    monkeypatch.setattr(_noise, "random_bytes", None)
    with pytest.raises(ValueError, match="A preconditioner is for linear models"):
        DPSGDClassifier(preconditioner=True, **known).fit(*binary)


def test_without_a_gram_matrix_it_is_plain_descent():
    """Where the floor is all that counts."""
    network, calls = Network((3, 2), "relu", bias=0.3), []
    problem = DescentProblem(50, 3, network, 1.0, 1.0, np.dtype(float))
    update = release_preconditioner(
        calls.append, Preconditioner(1e-3, 1e9), problem, np.random.default_rng(0).normal(size=(50, 3))
    )
    gradient = np.arange(8.0)
    update(gradient)
    np.testing.assert_allclose(calls[0], gradient * 50 / 1e9, rtol=1e-6, atol=1e-14)


# Steps on rows of bounded norm, wherever they lie


@pytest.mark.parametrize("n_scores", [1, 4])
def test_rounding_of_bounded_rows_stays_within_its_margin(n_scores):
    """Other orders, and scores as large as they are priced for; the margin is no wild guess."""
    rng = np.random.default_rng(0)
    network = Network((20, n_scores), "relu", bias=0.3, capped=True)
    X = rng.normal(size=(5000, 20))
    X /= np.linalg.norm(X, axis=1)[:, None]
    weights = rng.normal(size=network.n_weights)
    bound = network.lipschitz * np.hypot(1, 0.3)
    for size in (1.0, 30.0, LARGEST_SCORE / np.hypot(1, 0.3)):
        w, sums = weights * size / np.linalg.norm(weights), []
        codes = rng.integers(max(n_scores, 2), size=5000)
        for order in (np.arange(5000), rng.permutation(5000)):
            for make in (np.asarray, sp.csr_array):
                total = np.zeros(network.n_weights)
                for block in bounded_blocks(make(X[order]), codes[order], n_scores=n_scores):
                    add_gradients(total, network, w, block)
                sums.append(total)
        apart = max(np.linalg.norm(a - sums[0]) for a in sums)
        assert 0 < apart <= bound * bounded_margin(network, 5000) < 1e-5


def test_weights_are_projected_to_what_is_priced(binary, silenced_noise):
    X, y = binary
    model = DPSGDClassifier(n_epochs=1, learning_rate=1e9).fit(X, y)
    assert np.linalg.norm(np.append(model.coef_, model.intercept_ / 0.3)) == pytest.approx(
        LARGEST_SCORE / np.hypot(1, 0.3)
    )


def test_momentum_travels_as_far_in_fewer_steps():
    """The product of learning rate and steps over what momentum leaves is the same; no step is longer than 10 / R^2."""
    plans = [plan_of(n, 5000) for n in (2000, 20_000, 10**6)]
    assert [plan.n_steps for plan in plans] == [50, 80, 80]
    assert plans[0].momentum == 0 < plans[1].momentum < plans[2].momentum == 0.9
    travels = [plan.n_steps * plan.learning_rate / (1 - plan.momentum) for plan in plans]
    assert travels[1] == pytest.approx(10 * travels[0], rel=1e-9)
    assert plans[2].learning_rate == pytest.approx(10 / (1 + 0.09))
    assert plan_of(10**5, 5000, learning_rate=1.0).momentum == 0
    assert plan_of(20_000, 5000, n_epochs=5).momentum == 0
