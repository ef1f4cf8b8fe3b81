"""Errors that are known before a release: bounds and expectations, against simulation."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skdprp import MIDPRegressor
from skdprp.linear_model import (
    additive_error_bound,
    least_residual,
    perturbation_error_bound,
    projection_error_bound,
    projection_expected_error,
    regularisation_error_bound,
    relative_error,
)
from skdprp.mechanisms import information_scale
from skdprp.mechanisms.mutual_information import gaussian_information


def make_data(n=3000, d=4, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ np.linspace(1, -1, d) + noise * rng.normal(size=n)


def residuals_by_brute_force(X, y, fit_intercept=False):
    """Yield the residual of each column on all else, less each row."""
    for j in range(X.shape[1]):
        others = np.column_stack([np.delete(X, j, axis=1), np.ones((len(X), int(fit_intercept))), y])
        for i in range(len(X)):
            A, target = np.delete(others, i, axis=0), np.delete(X[:, j], i)
            yield np.linalg.norm(target - A @ np.linalg.lstsq(A, target)[0])


def test_least_residual_matches_brute_force():
    X, y = make_data(25, 3)
    X[4, 1], X[7, 0] = 1.0, -1.0
    for fit_intercept in (False, True):
        expected = min(residuals_by_brute_force(X, y, fit_intercept))
        assert least_residual(X, y, fit_intercept=fit_intercept) == pytest.approx(expected, rel=1e-9)


def test_a_true_bound_is_exactly_enough():
    """With the largest true bound the worst entry gets its epsilon bits, and no entry more."""
    X, y = make_data(30, 3)
    bound = least_residual(X, y)
    scale = information_scale(0.9, n_components=20, min_residual=bound)
    assert 0 < scale < 0.95 * information_scale(0.9, n_components=20)
    bits = [gaussian_information(scale=scale, n_components=20, min_residual=r) for r in residuals_by_brute_force(X, y)]
    assert max(bits) == pytest.approx(0.9, abs=1e-6) and min(bits) < 0.88


def relative_errors(model, X, y, repeats):
    least = np.sum((y - LinearRegression(fit_intercept=False).fit(X, y).predict(X)) ** 2)
    return np.array([np.sum((y - model.fit(X, y).predict(X)) ** 2) / least - 1 for _ in range(repeats)])


@pytest.mark.parametrize("n_components", [30, 200])
def test_expected_error_of_a_projection(n_components, seeded):
    """The mean over many releases is the exact expectation, and below the bound from four numbers."""
    X, y = make_data(2000)
    model = MIDPRegressor(n_components=n_components, epsilon=1.0)
    errors = relative_errors(model, X, y, 400)
    expected = projection_expected_error(X, y, n_components=n_components, scale=model.scale_)
    assert abs(errors.mean() - expected) < 5 * errors.std() / np.sqrt(400)
    sizes = {"n_components": n_components, "scale": model.scale_}
    bound = projection_error_bound(n_samples=2000, n_features=4, **sizes, **public_numbers(X, y))
    assert expected <= bound < 2 * expected


def public_numbers(X, y):
    fitted = LinearRegression(fit_intercept=False).fit(X, y).predict(X)
    return {
        "condition_number": np.linalg.cond(X),
        "signal_to_noise": np.sum(fitted**2) / np.sum((y - fitted) ** 2),
        "mean_square": np.mean(X**2),
    }


def test_bound_of_additive_noise(seeded):
    """Twenty releases stay below a bound that fails in 1%; without its term for finite n it is what they come to."""
    X, y = make_data(40_000, noise=1.0)
    model = MIDPRegressor(mechanism="additive", epsilon=1.0)
    errors = relative_errors(model, X, y, 20)
    numbers = public_numbers(X, y) | {"n_features": 4, "scale": model.scale_}
    assert errors.max() <= additive_error_bound(n_samples=40_000, **numbers) < 10 * errors.mean()
    assert additive_error_bound(n_samples=10**16, **numbers) == pytest.approx(errors.mean(), rel=0.1)
    assert additive_error_bound(n_samples=9, n_features=4, scale=1.0, **public_numbers(X, y)) == np.inf


def test_expected_error_needs_enough_rows():
    with pytest.raises(ValueError, match="no mean"):
        projection_expected_error(*make_data(20), n_components=5, scale=1.0)


def test_projection_beats_additive_noise(seeded):
    """Fewer rows need less noise: at n = 20,000 and 0.5 bits the projection has the smaller error."""
    X, y = make_data(20_000)
    additive, projection = (
        relative_errors(MIDPRegressor(mechanism=mechanism), X, y, 5).mean() for mechanism in ("additive", "projection")
    )
    assert 3 * projection < additive


def facts(X, y):
    """Singular values of X, and r(y)."""
    fitted = X @ np.linalg.lstsq(X, y)[0]
    return np.linalg.svd(X, compute_uv=False), np.linalg.norm(fitted) / np.linalg.norm(fitted - y)


@pytest.mark.parametrize("seed", range(10))
def test_bound_of_perturbations(seed):
    """Perturbations of the largest norm that is allowed for, in the worst direction of many, stay below the bound."""
    rng = np.random.default_rng(seed)
    X, y = make_data(30, 3, noise=1.0, seed=seed)
    X[:, 2] += rng.uniform(0, 5) * X[:, 0]
    singular, r = facts(X, y)
    known = {"n_samples": 30, "n_features": 3, "largest_singular": singular[0], "r": r, "failure": 0.01}
    known["condition_number"] = singular[0] / singular[2]
    norm_of_noise = np.sqrt(30) + np.sqrt(3) + np.sqrt(2 * np.log(200))
    scale = 0.4 * singular[2] / norm_of_noise  # at h = 0.4
    bound = perturbation_error_bound(**known, scale=scale)
    residual = y - X @ np.linalg.lstsq(X, y)[0]
    _, _, right = np.linalg.svd(X)
    worst = 1.0
    for direction in [*right, *rng.normal(size=(20, 3))]:
        for sign in (1, -1):  # N moves the columns towards the residual
            noise = sign * np.outer(residual, direction)
            noise *= scale * norm_of_noise / np.linalg.norm(noise, 2)
            worst = max(worst, relative_error(X, y, np.linalg.lstsq(X + noise, y)[0]))
    assert 1 < worst <= bound
    assert perturbation_error_bound(**known, scale=2.5 * scale * (1 - 1e-9)) > 1e6
    assert perturbation_error_bound(**known, scale=2.5 * scale * (1 + 1e-9)) == np.inf


def test_bound_of_perturbations_is_the_theorem_as_printed():
    """(11), whose delta is free: here it is what a probability asks for."""
    sigma, largest, kappa, n, d, delta, r = 0.04, 20.0, 2.0, 400, 9, 0.02, 3.0
    failure = 2 * np.exp(-(largest**2) / (2 * sigma**2) * delta**2)
    h = kappa * (sigma / largest * (np.sqrt(n) + np.sqrt(d)) + delta)
    known = {"n_samples": n, "n_features": d, "largest_singular": largest, "condition_number": kappa, "r": r}
    bound = perturbation_error_bound(**known, scale=sigma, failure=failure)
    assert bound == pytest.approx((1 + h / (1 - h) * (kappa + r)) ** 2)


def test_bound_of_regularisation():
    """With the distortion that a projection turned out to have, the theorem bounds what it turned out to lose."""
    rng = np.random.default_rng(1)
    for noise, sigma in [(0.3, 2.0), (1.0, 20.0), (0.01, 5.0), (1.0, 0.0)]:
        X, y = make_data(300, 4, noise=noise)
        singular, r = facts(X, y)
        table, targets = np.vstack([X, sigma * np.eye(4)]), np.append(y, np.zeros(4))
        S = rng.normal(size=(40, 304))
        released = np.linalg.lstsq(S @ table, S @ targets)[0]
        distortion = np.sqrt(relative_error(table, targets, released)) - 1
        bound = regularisation_error_bound(scale=sigma, singular_values=singular, r=r, distortion=distortion)
        assert relative_error(X, y, released) <= bound * (1 + 1e-12)
    assert bound == pytest.approx(relative_error(X, y, released))  # without noise
