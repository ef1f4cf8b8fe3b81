"""Sensitivities: never exceeded by a neighbour, reached by some."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from sketches import KINDS

from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss, SoftmaxLoss
from skdprp.random_projection import make_projection
from skdprp.sensitivity import (
    component_sensitivity,
    gaussian_l1_sensitivity_bound,
    gaussian_l2_sensitivity_bound,
    l1_sensitivity,
    l2_sensitivity,
    minimiser_sensitivity,
)

P, K, BETA = 30, 8, 0.7


@pytest.fixture(params=KINDS)
def projection(request):
    return make_projection(request.param, P, K, np.random.RandomState(0))


def differences(projection, adjacency):
    """Projections of changes of size beta: random dense and sparse ones, coordinates, and singular vectors."""
    rng = np.random.default_rng(0)
    W = projection.project(np.eye(P)) / projection.divisor
    sparse = rng.standard_normal((500, P)) * (rng.uniform(size=(500, P)) < 0.1) + 1e-9
    changes = np.vstack([rng.standard_normal((500, P)), sparse, np.eye(P), np.linalg.svd(W)[0].T])
    order = 1 if adjacency == "l1" else 2
    return BETA * changes / np.linalg.norm(changes, order, axis=1, keepdims=True) @ W


@pytest.mark.parametrize("adjacency", ["l1", "l2"])
def test_l2_sensitivity_is_the_least_bound(projection, adjacency):
    moved = np.linalg.norm(differences(projection, adjacency), axis=1).max()
    assert moved == pytest.approx(l2_sensitivity(projection, adjacency, BETA), rel=1e-9)


def test_l1_sensitivity_of_l1_neighbours_is_the_least_bound(projection):
    moved = np.abs(differences(projection, "l1")).sum(axis=1).max()
    assert moved == pytest.approx(l1_sensitivity(projection, "l1", BETA), rel=1e-9)


def test_l1_sensitivity_of_l2_neighbours_is_a_bound(projection):
    moved = np.abs(differences(projection, "l2")).sum(axis=1).max()
    assert moved <= l1_sensitivity(projection, "l2", BETA)


@pytest.mark.parametrize("p", [3, 8, 9, 13, 32, 100])
def test_l1_sensitivity_of_l2_neighbours_is_reached_by_bins(p):
    """Full ones, empty ones and some of padding, of equal length or not, move all at once; as does the identity."""
    for kind in ("identity", "oporp", "count_sketch"):
        projection = make_projection(kind, p, 8, np.random.RandomState(0))
        W = projection.project(np.eye(p)) / projection.divisor
        change = BETA * W.sum(axis=1) / np.linalg.norm(W.sum(axis=1))
        sensitivity = l1_sensitivity(projection, "l2", BETA)
        assert np.abs(change @ W).sum() == pytest.approx(sensitivity, rel=1e-9)
        assert sensitivity == pytest.approx(BETA * p**0.5, rel=1e-9)


def test_component_sensitivity_is_the_least_bound(projection):
    moved = np.abs(differences(projection, "l1")).max(axis=0) * projection.divisor
    assert moved == pytest.approx(component_sensitivity(projection, BETA), rel=1e-9)


@pytest.mark.parametrize("kind", ["rademacher", "oporp", "identity"])
def test_sensitivity_of_unit_entries_is_max_change_itself(kind):
    projection = make_projection(kind, P, K, np.random.RandomState(0))
    assert l2_sensitivity(projection, "l1", BETA) == BETA


@pytest.mark.parametrize(("order", "bound"), [(1, gaussian_l1_sensitivity_bound), (2, gaussian_l2_sensitivity_bound)])
@pytest.mark.parametrize("k", [1, 8, 256])
def test_bounds_of_a_gaussian_projection_hold_with_their_probability(order, bound, k):
    """A row is longer than the bound for one feature with less than delta; the bounds are not far off, and scale."""
    delta, rows = 0.05, np.random.default_rng(0).standard_normal((20_000, k))
    norms = np.linalg.norm(rows, order, axis=1) / np.sqrt(k)
    stated = bound(delta, n_features=1, n_components=k)
    assert np.mean(norms > stated) <= delta
    assert stated < 1.7 * np.quantile(norms, 1 - delta)
    assert bound(delta, max_change=0.5, n_features=7, n_components=k) == pytest.approx(
        0.5 * bound(delta / 7, n_features=1, n_components=k)
    )


def minimiser(loss, rows, labels, penalty):
    """Minimiser of the penalised risk by an independent solver, and the norm of the gradient there."""
    shape = (rows.shape[1], loss.n_classes) if isinstance(loss, SoftmaxLoss) else (rows.shape[1],)

    def risk(w):
        scores = rows @ w.reshape(shape)
        gradient = rows.T @ loss.gradient(labels, scores)
        return loss.value(labels, scores).sum() + penalty / 2 * w @ w, gradient.ravel() + penalty * w

    w = minimize(risk, np.zeros(np.prod(shape)), jac=True, tol=1e-9).x
    return w, np.linalg.norm(risk(w)[1])


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss(), SoftmaxLoss(3)])
def test_no_minimisers_of_neighbours_are_further_apart_than_the_sensitivity(loss):
    rng = np.random.default_rng(0)
    for shared, penalty in product((0, 1, 4), (0.05, 1.0, 20.0)):
        rows = rng.standard_normal((shared + 2, 3))
        rows *= 2.0 / np.linalg.norm(rows, axis=1, keepdims=True)
        labels = rng.integers(0, 3, len(rows)) if isinstance(loss, SoftmaxLoss) else rng.choice([-1.0, 1.0], len(rows))
        of_neighbours = {"replace_one": [*range(shared), shared + 1], "add_remove": [*range(shared)]}
        w, error = minimiser(loss, rows[:-1], labels[:-1], penalty)
        for adjacency, kept in of_neighbours.items():
            other, other_error = minimiser(loss, rows[kept], labels[kept], penalty)
            known = {"max_norm": 2.0, "penalty": penalty, "accuracy": max(error, other_error)}
            assert np.linalg.norm(w - other) <= minimiser_sensitivity(loss, adjacency=adjacency, **known)


@pytest.mark.parametrize(("adjacency", "other"), [("replace_one", [[-2.0, 0.0]]), ("add_remove", np.empty((0, 2)))])
def test_minimisers_of_neighbours_may_be_as_far_apart_as_the_sensitivity(adjacency, other):
    """Of a hinge, whose slope is the steepest until the penalty stops it."""
    loss, penalty = HuberHingeLoss(), 20.0
    of_one, of_other = (minimiser(loss, np.array(rows), np.ones(len(rows)), penalty)[0] for rows in ([[2.0, 0]], other))
    bound = minimiser_sensitivity(loss, max_norm=2.0, penalty=penalty, adjacency=adjacency)
    assert np.linalg.norm(of_one - of_other) == pytest.approx(bound)
