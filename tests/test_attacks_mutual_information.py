"""Attacks on MIDPRegressor: leaks, optimal tests and audits."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from skdprp import MIDPRegressor, PrivacyWarning, _noise, audit_epsilon
from skdprp.linear_model import least_residual
from skdprp.mechanisms import gaussian_profile, information_scale
from skdprp.mechanisms.mutual_information import information_delta


def sketch_quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.sketch(X, y)


def leaky_data(entry):
    """Column 0 is proportional to y but for its first entry, at which y is 0."""
    rng = np.random.default_rng(0)
    y = rng.uniform(-2, 2, 4000)
    y[0] = 0.0
    X = rng.uniform(-1, 1, (4000, 3))
    X[:, 0] = y / 2
    X[0, 0] = entry
    return X, y


def read_entry(model, X, y):
    """Subtract from the projected column what is known of it; the entry and the noise remain."""
    sketch, targets = sketch_quietly(model, X, y)
    square = np.mean((sketch[:, 0] - targets / 2) ** 2) - vars(model).get("scale_", 0.0) ** 2
    return np.sqrt(max(0.0, square))


@pytest.mark.parametrize("entry", [0.4, 0.9])
def test_published_calibration_leaks_an_entry(entry, seeded):
    """The published noise is zero here, and the entry is read off within 10%; the exact noise hides it."""
    X, y = leaky_data(entry)
    model = MIDPRegressor(n_components=1000, epsilon=0.5, calibration="published", max_abs=1.0)
    readings = [read_entry(model, X, y) for _ in range(10)]
    assert np.abs(np.array(readings) / entry - 1).max() < 0.1
    assert model.claimed_.epsilon == 0.5
    closed = [read_entry(clone(model).set_params(calibration="exact"), X, y) for _ in range(50)]
    assert np.mean(np.abs(np.array(closed) / entry - 1) < 0.1) < 0.2


def test_a_true_bound_closes_the_leak():
    """No positive bound on residuals is true of that table, so that the sound calibration keeps its noise."""
    assert least_residual(*leaky_data(0.4)) < 1e-6


def distinguish(model, tables, y, trials):
    """Share of right guesses of the optimal test between two tables, from sketches of each."""
    right = 0
    covariances = []
    for X in tables:
        sketch_quietly(model, X, y)
        A = np.column_stack([X, y])
        scale = vars(model).get("scale_", 0.0)
        covariances.append(A.T @ A + np.diag([scale**2] * X.shape[1] + [0]))
    quadratic = np.linalg.inv(covariances[0]) - np.linalg.inv(covariances[1])
    log_volume = np.linalg.slogdet(covariances[0])[1] - np.linalg.slogdet(covariances[1])[1]
    for truth, X in enumerate(tables):
        for _ in range(trials):
            rows = np.column_stack(sketch_quietly(model, X, y))
            loss = np.einsum("ij,jk,ik->", rows, quadratic, rows) + len(rows) * log_volume
            right += (loss > 0) == truth
    return stats.binomtest(int(right), 2 * trials).proportion_ci(0.998)


def tables_with(entry_a, entry_b, *, leaky):
    rng = np.random.default_rng(1)
    y = rng.uniform(-2, 2, 300)
    y[0] = 0.0
    X = rng.uniform(-1, 1, (300, 2))
    X[:, 0] = y / 2 + (0 if leaky else 0.05) * X[:, 0]
    tables = [X.copy(), X.copy()]
    tables[0][0, 0], tables[1][0, 0] = entry_a, entry_b
    return tables, y


@pytest.mark.parametrize("leaky", [False, True])
def test_optimal_attack_on_a_projection(leaky):
    """The likelihood ratio of all the sketch guesses an entry as well as epsilon allows, not better.

    With the published calibration, and with a bound that is not true, the same attack succeeds.
    """
    tables, y = tables_with(0.1, 1.0, leaky=leaky)
    allowed = (1 + information_delta(0.2)) / 2
    true_bound = min(least_residual(X, y) for X in tables) * (1 - 1e-9)
    for bound in (0.0, true_bound):
        honest = MIDPRegressor(epsilon=0.2, n_components=20, min_residual=bound)
        assert distinguish(honest, tables, y, 200).low <= allowed
    for broken in ({"calibration": "published"}, {"min_residual": 8.0}):
        model = MIDPRegressor(epsilon=0.2, n_components=20, **broken)
        assert not leaky or distinguish(model, tables, y, 200).low > max(allowed, 0.95)


@pytest.mark.parametrize("broken", [False, True])
def test_audit_of_additive_noise(broken, monkeypatch):
    """No threshold beats the entry's (epsilon, delta); with two thirds of the noise, one does."""
    model = MIDPRegressor(epsilon=0.2, mechanism="additive").fit([[1.0]], [1.0])
    epsilon = 2.5
    delta = gaussian_profile(epsilon, scale=model.scale_, sensitivity=2.0)
    if broken:
        honest = _noise.add_gaussian
        monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: honest(values, scale / 1.5))

    def release(rows):
        return model.sketch(rows, np.ones(len(rows)))[0]

    options = {"n_trials": 400_000, "confidence": 1 - 1e-7, "distinguishers": ["linear"], "rows_are_trials": True}
    found = audit_epsilon(release, [[1.0]], [[-1.0]], delta=delta, **options).epsilon
    assert (found > epsilon) == broken
    assert found > 0.5 * epsilon


def test_audit_of_a_projected_entry():
    """A projected sign is guessed from its known column of S no better than the entry's epsilon allows."""
    n_components, epsilon = 20, 0.2
    scale = information_scale(epsilon, n_components=n_components)
    rng = np.random.default_rng(0)
    S = rng.normal(size=(n_components, 100_000))
    guesses = np.einsum("ij,ij->j", S, S + scale * rng.normal(size=S.shape)) > 0
    wins = stats.binomtest(int(guesses.sum()), guesses.size).proportion_ci(0.998)
    assert wins.low <= (1 + information_delta(epsilon)) / 2
    assert wins.high > 0.5 + 0.3 * information_delta(epsilon)
