"""DPRidge: what it learns, with noise and without, at which price, and what it refuses."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPMoments,
    DPRidge,
    PublicScaler,
    _noise,
    add_moments,
    audit_epsilon,
    privacy_report,
    worst_neighbours,
)
from skdprp.linear_model import _descent
from skdprp.linear_model._descent import N_STEPS, descend, has_many_rows, plan_ridge_descent, rounding_of_descent
from skdprp.linear_model._least_squares import NormalEquations
from skdprp.mechanisms import gaussian_profile, secret_projection_profile
from skdprp.testing import reproducible_noise

BOUNDS = (10.0, 50.0)
MECHANISMS = ["descent", "moments"]


def table(n_rows=2000, n_features=4, noise=1.0, seed=0):
    """Rows of norm at most 1, and targets within their bounds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_rows, n_features))
    y = 30 + X @ np.linspace(-10, 10, n_features) + noise * rng.normal(size=n_rows)
    return X, np.clip(y, *BOUNDS)


# Without noise


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 3.0, 500.0])
def test_without_noise_it_is_ridge(silenced_noise, alpha, intercept):
    X, y = table()
    y = y - 30 * (not intercept)
    bounds = (10, 50) if intercept else (-20, 20)
    # Means are shrunk for noise that is known to be there, though it is silenced: with this epsilon, hardly.
    model = DPRidge(target_bounds=bounds, epsilon=100.0, alpha=alpha, fit_intercept=intercept).fit(X, y)
    other = Ridge(alpha, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-4)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-4, atol=1e-3)
    assert model.alpha_ == pytest.approx(alpha)


def test_without_noise_a_path_has_all_ridges(silenced_noise):
    X, y = table()
    alphas = [0.1, 1.0, 30.0]
    model = DPRidge(target_bounds=BOUNDS, epsilon=100.0, mechanism="moments").fit(X, y)
    coefs, intercepts = model.path(alphas)
    assert coefs.shape == (3, 4)
    for alpha, coef, intercept in zip(alphas, coefs, intercepts, strict=True):
        other = Ridge(alpha).fit(X, y)
        np.testing.assert_allclose(coef, other.coef_, rtol=1e-4)
        assert intercept == pytest.approx(other.intercept_, rel=1e-4)


def test_without_noise_a_descent_comes_close_to_least_squares(silenced_noise):
    """It stops early, and clips what is far off."""
    X, y = table()
    model = DPRidge(target_bounds=BOUNDS, epsilon=50.0, mechanism="descent").fit(X, y)
    assert model.score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.01


def test_several_targets_are_regressions_of_each(silenced_noise):
    X, y = table()
    Y = np.stack([y, 2 * y - 7, X[:, 0]], axis=1)
    bounds = [(10, 50), (13, 93), (-0.5, 0.5)]
    model = DPRidge(target_bounds=bounds, epsilon=100.0, alpha=1.0).fit(X, Y)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == model.alpha_.shape == (3,)
    np.testing.assert_allclose(model.coef_, Ridge(1.0).fit(X, Y).coef_, rtol=1e-3, atol=1e-3)
    coefs, intercepts = model.path([1.0, 2.0])
    assert coefs.shape == (2, 3, 4)
    assert intercepts.shape == (2, 3)
    np.testing.assert_array_equal(coefs[0], model.coef_)
    assert model.predict(X).shape == Y.shape
    descent = DPRidge(target_bounds=bounds, epsilon=1e2, mechanism="descent").fit(X, Y)
    assert descent.score(X, Y) > 0.9


def test_rows_and_targets_beyond_their_bounds_are_clipped(silenced_noise):
    X, y = table()
    far, out = X.copy(), y.copy()
    far[0], out[0] = 1e6 * X[0], 1e9
    near, within = X.copy(), y.copy()
    near[0], within[0] = X[0] / np.linalg.norm(X[0]), BOUNDS[1]
    for mechanism in MECHANISMS:
        models = [
            DPRidge(target_bounds=BOUNDS, mechanism=mechanism).fit(*data) for data in ((far, out), (near, within))
        ]
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-9)
        np.testing.assert_allclose(models[0].predict(far[:1]), models[0].predict(near[:1]), rtol=1e-9)
        assert models[0].predict(1e3 * np.eye(4)).max() <= BOUNDS[1]


def test_sparse_rows_are_dense_ones(silenced_noise):
    X, y = table()
    X[X < 0.1] = 0
    for mechanism in MECHANISMS:
        models = [
            DPRidge(target_bounds=BOUNDS, mechanism=mechanism).fit(kind(X), y) for kind in (np.asarray, sp.csr_array)
        ]
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-9)
        np.testing.assert_allclose(models[0].predict(X), models[1].predict(sp.csr_array(X)), rtol=1e-9)


# With noise


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_learns_under_noise(mechanism, seeded):
    X, y = table(20_000)
    model = DPRidge(target_bounds=BOUNDS, mechanism=mechanism).fit(X, y)
    assert model.score(X, y) > 0.85  # 0.91 without noise
    assert model.mechanism_ == mechanism


def test_defaults_are_of_use_on_few_rows(seeded):
    """Means of 10 draws; predicting the middle of the bounds has a score of -.1."""
    X, y = load_diabetes(return_X_y=True)
    model = make_pipeline(PublicScaler((-0.15, 0.15)), DPRidge(target_bounds=(0, 350), delta=1e-6, max_norm=0.6))
    scores = {
        epsilon: np.mean([clone(model).set_params(dpridge__epsilon=epsilon).fit(X, y).score(X, y) for _ in range(10)])
        for epsilon in (0.1, 1.0, 10.0)
    }
    assert scores[0.1] > -0.2
    assert scores[1.0] > 0.3
    assert scores[10.0] > 0.4


def test_without_a_signal_it_predicts_about_the_mean(seeded):
    """Noise in the weights is worth less than the noisy mean alone would lose."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (1000, 20)), np.clip(30 + 3 * rng.normal(size=1000), *BOUNDS)
    for mechanism in MECHANISMS:
        model = DPRidge(target_bounds=BOUNDS, mechanism=mechanism, max_norm=2.0)
        errors = [np.mean((model.fit(X, y).predict(X) - y) ** 2) for _ in range(10)]
        assert np.mean(errors) < 2 * y.var()


def test_auto_takes_a_descent_unless_rows_are_many_or_it_cannot():
    X, y = table(500)
    model = DPRidge(target_bounds=BOUNDS)
    assert model.fit(X, y).mechanism_ == "descent"
    assert model.fit(X.tolist(), y.tolist()).mechanism_ == "descent"
    assert clone(model).set_params(alpha=1.0).fit(X, y).mechanism_ == "moments"
    assert model.fit_chunks([(X, y)]).mechanism_ == "moments"
    assert clone(model).set_params(epsilon=100.0).fit(*table(20_000)).mechanism_ == "moments"
    da = pytest.importorskip("dask.array")
    assert model.fit(da.from_array(X), da.from_array(y)).mechanism_ == "moments"
    target = {"epsilon": 1.0, "delta": 1e-6}
    shape = {"n_weights": 50, "adjacency": "add_remove"}
    assert has_many_rows(*target.values(), n_samples=10**6, **shape)
    assert not has_many_rows(*target.values(), n_samples=10**5, **shape)


def test_a_fit_drops_what_another_mechanism_has_set():
    X, y = table(200)
    model = DPRidge(target_bounds=BOUNDS, mechanism="moments").fit(X, y)
    assert hasattr(model, "moments_")
    model.set_params(mechanism="descent").fit(X, y)
    assert not hasattr(model, "moments_")
    assert not hasattr(model, "coef_std_")


def test_what_is_missing_after_a_descent_says_so():
    X, y = np.eye(4), np.arange(4.0)
    model = DPRidge(target_bounds=(0, 3)).fit(X, y)
    assert model.mechanism_ == "descent" and not hasattr(model, "coef_std_")
    with pytest.raises(AttributeError, match="'coef_std_': it has none after a descent, but with mechanism='moments'"):
        _ = model.coef_std_
    for other, name in [(model, "standard_errors_"), (DPRidge(target_bounds=(0, 3)), "coef_std_")]:
        with pytest.raises(AttributeError, match=f"'DPRidge' object has no attribute '{name}'$"):
            getattr(other, name)


# Privacy of a descent


def test_the_noise_of_all_steps_is_calibrated_on_the_exact_profile(monkeypatch):
    X, y = table(300)
    for adjacency, rows in (("add_remove", 1), ("replace_one", 2)):
        scales = []
        monkeypatch.setattr(_noise, "_add", lambda values, scale, rounded, scales=scales: scales.append(scale))
        model = DPRidge(target_bounds=BOUNDS, epsilon=0.5, delta=1e-5, adjacency=adjacency).fit(X, y)
        plan = model._plan(300, model.columns_, "one row")
        assert scales == [model.scale_] * N_STEPS == [plan.scale] * N_STEPS
        sensitivity = rows * plan.clip * np.sqrt(N_STEPS)
        assert gaussian_profile(0.5, scale=plan.scale, sensitivity=sensitivity) < 1e-5
        assert gaussian_profile(0.5, scale=plan.scale * (1 - 1e-4), sensitivity=sensitivity) > 1e-5
        assert 0.99e-5 < model.guarantee_.profile(0.5) <= 1e-5


@pytest.mark.parametrize("n_targets", [1, 3])
def test_no_row_moves_a_sum_of_gradients_by_more_than_the_clipping_norm(monkeypatch, n_targets):
    """At the weights of any step: found to be reached, and never passed."""
    rng, clip = np.random.default_rng(0), 0.3
    directions = rng.normal(size=(500, 4))
    X = directions / np.linalg.norm(directions, axis=1, keepdims=True) * rng.uniform(0, 0.8, (500, 1))
    targets = rng.uniform(-1, 1, (500, n_targets)) / np.sqrt(n_targets)
    norms = np.sqrt((X**2).sum(axis=1) + 0.36)
    for size in (0.0, 1.0, 1e3):
        weights = size * rng.normal(size=(5, n_targets))
        gradients = [
            _descent._clipped_gradients(X[[i]], norms[[i]], targets[[i]], 0.6, weights, clip) for i in range(500)
        ]
        lengths = np.linalg.norm(gradients, axis=(1, 2))
        assert lengths.max() <= clip * (1 + 2.0**-48)
        assert lengths.max() > 0.999 * clip
        together = _descent._clipped_gradients(X, norms, targets, 0.6, weights, clip)
        assert np.linalg.norm(together - sum(gradients)) <= rounding_of_descent(500, 5, clip)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_guarantee_of_a_descent_can_be_recomputed_from_what_it_prints(adjacency):
    """It named the scale alone, of gradients clipped to an unknown norm, and a proof that no page shows."""
    model = DPRidge(target_bounds=BOUNDS, adjacency=adjacency, mechanism="descent", delta=1e-6).fit(*table())
    found = re.search(r"on (\d+) sums of gradients clipped to norm (\S+), scale (\S+)$", model.guarantee_.mechanism)
    n_steps, clip, scale = map(float, found.groups())
    assert 0.2 < clip < 1 and scale == pytest.approx(model.scale_, rel=1e-5)
    mu = (2 if adjacency == "replace_one" else 1) * np.sqrt(n_steps) * clip / scale
    assert mu == pytest.approx(model.guarantee_.loss.mu, rel=1e-5)
    assert gaussian_profile(1.0, scale=1.0, sensitivity=mu) == pytest.approx(1e-6, rel=1e-3)
    assert "skdprp.DPRidge" in model.guarantee_.source and "sqrt(T)" in DPRidge.__doc__


def test_weights_stay_where_the_rounding_of_gradients_is_priced(monkeypatch):
    """However far the noise throws them."""
    plan = plan_ridge_descent(1.0, 1e-6, n_samples=10, n_weights=3, n_targets=1, adjacency="replace_one")
    seen, clipped = [], _descent._clipped_gradients

    def watched(X, norms, targets, constant, weights, clip, shares):
        seen.append(np.linalg.norm(weights))
        return clipped(X, norms, targets, constant, weights, clip, shares)

    monkeypatch.setattr(_descent, "_clipped_gradients", watched)
    monkeypatch.setattr(_noise, "_add", lambda values, scale, rounded: values.__iadd__(1e9))
    descend(np.zeros((10, 2)), 0.5, np.zeros((10, 1)), plan)
    assert max(seen) == pytest.approx(2.0**14)


def test_a_descent_reads_nothing_of_the_rows_but_noisy_gradients(monkeypatch):
    """With sums that are the same whatever the rows are, so are the weights."""
    monkeypatch.setattr(
        _descent, "_clipped_gradients", lambda X, norms, targets, constant, weights, clip, shares: 0 * weights
    )
    models = []
    for seed in (1, 2):
        with reproducible_noise(0):
            models.append(DPRidge(target_bounds=BOUNDS, mechanism="descent").fit(*table(200, seed=seed)))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].intercept_ == models[1].intercept_


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_an_audit_of_moments_finds_a_quarter_of_the_noise_and_refutes_nothing(noise_of, adjacency):
    """Of 100 rows, each along an axis of its own, that are opposite or blank, or not: many trials in each fit.

    A quarter of the noise passes less than once in 10^9: the numbers are six standard deviations apart.
    """
    model = DPRidge(target_bounds=BOUNDS, delta=0.4, mechanism="moments", adjacency=adjacency)
    is_there, is_blank = np.resize([True, False], 100), adjacency == "add_remove"
    X, y = np.diag(np.where(is_there, 1.0, 0.0 if is_blank else -1.0)), np.full(100, BOUNDS[1])
    guarantee = model.fit(X, y).guarantee_

    def audit():
        fits = [model.fit(X, y).moments_.values for _ in range(20)]
        lines = np.array([values[:100, 100:].sum(axis=1) + is_blank * np.diag(values)[:100] for values in fits])
        score = {"line": lambda outputs: -outputs[:, 0]}
        options = {"n_trials": 1000, "n_jobs": 1, "confidence": 1 - 1e-10, "delta": 0.4, "distinguishers": score}
        return audit_epsilon(next, iter(lines[:, is_there].ravel()), iter(lines[:, ~is_there].ravel()), **options)

    assert not audit().exceeds(guarantee)
    noise_of(0.25)
    assert audit().exceeds(guarantee)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_an_audit_of_a_descent_finds_a_quarter_of_the_noise_and_refutes_nothing(noise_of, monkeypatch, adjacency):
    """On the worst neighbours that are known, and a descent of 4 steps: the contract audits one of 200.

    With an intercept no row of a table is blank, and one is left out instead. Of seeded noise, whose outcome is always
    this one: a confidence of .999 needs a third of the fits of one of 1 - 1e-10.
    """
    monkeypatch.setattr(_descent, "N_STEPS", 4)
    X, y = np.zeros((20, 1)), np.full(20, 30.0)
    model = DPRidge(target_bounds=BOUNDS, delta=0.4, mechanism="descent")
    a, b = worst_neighbours(model, X, y)
    if adjacency == "add_remove":
        model.set_params(adjacency=adjacency)
        b = a[0][:-1], a[1][:-1]
    guarantee = model.fit(*a).guarantee_
    noise_of(1e-9)  # the line from one to the other, on which the attack looks
    ends = [np.append(fit.coef_, fit.intercept_) for fit in (clone(model).fit(*a), clone(model).fit(*b))]
    line = {"line": lambda weights: weights @ (ends[1] - ends[0])}
    audit = partial(audit_epsilon, model, a, b, n_trials=84, confidence=0.999, distinguishers=line)
    noise_of(1.0)
    with reproducible_noise(0):
        assert not audit().exceeds(guarantee)
    noise_of(0.25)
    with reproducible_noise(0):
        assert audit().exceeds(guarantee)


def test_an_audit_of_a_descent_on_very_few_rows_refutes_nothing(monkeypatch):
    """Of two rows one is left out. Planned for one row, the weights were about half as large, and told of it."""
    monkeypatch.setattr(_descent, "N_STEPS", 4)
    X, y = np.full((2, 1), 0.5), np.full(2, 0.5)
    options = {"target_bounds": (0, 1), "epsilon": 0.1, "delta": 0.01}
    model = DPRidge(**options, mechanism="descent", adjacency="add_remove")
    size = {"size": lambda weights: np.abs(weights[:, 0])}
    with reproducible_noise(0):
        result = audit_epsilon(model, (X, y), (X[:1], y[:1]), n_trials=280, confidence=0.999, distinguishers=size)
        assert not result.exceeds(model.fit(X, y).guarantee_)


# Secret projection


def test_a_secret_projection_learns_as_moments_do(seeded):
    X, y = table(20_000)
    model = DPRidge(target_bounds=BOUNDS, mechanism="projection").fit(X, y)
    assert model.mechanism_ == "projection"
    assert model.score(X, y) > 0.85
    low, high = model.predict_interval(X)
    assert 0.85 < np.mean((low <= y) & (y <= high)) <= 1
    coefs, _ = model.path([model.alpha_])
    np.testing.assert_allclose(coefs[0], model.coef_)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_noise_of_a_projection_is_calibrated_on_its_exact_profile(adjacency):
    X, y = table(300)
    model = DPRidge(
        target_bounds=BOUNDS, epsilon=0.5, delta=1e-5, mechanism="projection", n_components=200, adjacency=adjacency
    ).fit(X, y)
    profile = partial(secret_projection_profile, 0.5, n_components=200, adjacency=adjacency)
    assert profile(scale=model.scale_) < 1e-5 < profile(scale=model.scale_ * (1 - 1e-3))
    assert 0.99e-5 < model.guarantee_.profile(0.5) <= 1e-5


def test_without_noise_on_them_the_moments_of_a_projection_are_those_of_the_table():
    """On average: 225 draws of few components, to within 5 standard errors."""
    X, y = table(50)
    options = {"target_bounds": BOUNDS, "epsilon": 50.0, "n_components": 10}
    with reproducible_noise(0):
        draws = [DPRidge(mechanism="projection", **options).fit(X, y).moments_.values for _ in range(225)]
    exact = DPMoments(target_bounds=BOUNDS)._sum([(X, y, None)])[2]
    errors = np.mean(draws, axis=0) - exact
    assert np.abs(errors / (np.std(draws, axis=0) / 15)).max() < 5


def test_projections_do_not_add_up():
    X, y = table(50)
    moments = DPRidge(target_bounds=BOUNDS, mechanism="projection", n_components=50).fit(X, y).moments_
    with pytest.raises(ValueError, match='mechanism="moments"'):
        add_moments(moments, moments)


# Moments that were released before


def test_released_moments_are_learnt_from_at_no_price():
    X, y = table(500)
    release = DPMoments(epsilon=2.0, delta=1e-6, target_bounds=BOUNDS).fit(X, y)
    model = DPRidge(target_bounds=(0, 1), alpha=1.0).fit_moments(release.moments_)
    again = DPRidge(target_bounds=(0, 1), alpha=1.0).fit_moments(release.moments_)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert model.guarantee_ == release.guarantee_ and model.scale_ == release.scale_
    assert model.predict(X).min() >= BOUNDS[0]
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="no targets"):
        DPRidge(target_bounds=BOUNDS).fit_moments(DPMoments().fit(X).moments_)


def test_parties_learn_together(seeded):
    X, y = table(40_000)
    parts = [
        DPMoments(epsilon=2.0, delta=1e-6, target_bounds=BOUNDS).fit(X[half], y[half]).moments_
        for half in (slice(20_000), slice(20_000, None))
    ]
    both = add_moments(*parts, disjoint=True)
    model = DPRidge(target_bounds=BOUNDS).fit_moments(both)
    assert model.score(X, y) > 0.85
    assert model.guarantee_.epsilon == 2.0


# Errors


def test_the_residual_of_released_weights_is_known(seeded):
    """Within noise that is small here; the residual is that of the rows, about the released weights."""
    X, y = table(50_000)
    model = DPRidge(target_bounds=BOUNDS, mechanism="moments", epsilon=2.0).fit(X, y)
    residual = np.sqrt(np.mean((y - X @ model.coef_ - model.intercept_) ** 2))
    assert residual < model.residual_std_ < 1.3 * residual


@pytest.mark.parametrize("n_rows", [5000, 50_000])
def test_intervals_cover_as_many_targets_as_they_say(seeded, n_rows):
    covered, levels = [], (0.5, 0.9)
    for _ in range(10):
        X, y = table(n_rows, noise=4.0, seed=len(covered))
        model = DPRidge(target_bounds=BOUNDS, mechanism="moments").fit(X, y)
        intervals = [model.predict_interval(X, level) for level in levels]
        covered.append([np.mean((low <= y) & (y <= high)) for low, high in intervals])
    shares = np.mean(covered, axis=0)
    assert (shares > np.array(levels) - 0.03).all()
    assert (shares < np.array(levels) + 0.12).all()


def test_standard_errors_cover_the_weights(seeded):
    """At 90%, on average over weights and draws of table and noise."""
    truth, inside = np.linspace(-10, 10, 4), []
    for seed in range(40):
        X, y = table(20_000, noise=4.0, seed=seed)
        model = DPRidge(target_bounds=(-20, 80), mechanism="moments", epsilon=3.0).fit(X, y)
        inside.append(np.abs(model.coef_ - truth) <= norm.ppf(0.95) * model.coef_std_)
    assert 0.8 < np.mean(inside) <= 1


def test_errors_have_the_units_of_the_data():
    """Ten times the targets, or a tenth of the rows, are ten times the weights and their errors."""
    X, y = table(3000)
    with reproducible_noise(0):
        model = DPRidge(target_bounds=BOUNDS, mechanism="moments").fit(X, y)
    with reproducible_noise(0):
        other = DPRidge(target_bounds=(100, 500), mechanism="moments", max_norm=0.125).fit(X / 8, 10 * y)
    for name, factor in (("coef_", 80), ("coef_std_", 80), ("residual_std_", 10), ("intercept_std_", 10)):
        np.testing.assert_allclose(getattr(other, name), factor * getattr(model, name), rtol=1e-3, err_msg=name)
    assert other.alpha_ == pytest.approx(model.alpha_ / 64, rel=1e-3)
    assert model.covariance_.shape == (5, 5)
    np.testing.assert_allclose(np.sqrt(np.diag(model.covariance_))[:4], model.coef_std_)


def test_steins_correction_is_right_on_average():
    """The mean squared residual on the rows is estimated without bias: 200 draws, to within 5 standard errors."""
    X, y = table(400)
    rows, errors = X, []
    with reproducible_noise(0):
        for _ in range(200):
            moments = DPMoments(epsilon=8.0, target_bounds=BOUNDS).fit(X, y).moments_
            equations = NormalEquations.of(moments)
            weights, intercept = equations.solve(0, 50.0)
            truth = np.mean(((y - 30) / 20 - rows @ weights - intercept) ** 2)
            errors.append(equations.residual_variance(0, 50.0)[0] - truth)
    assert abs(np.mean(errors)) < 5 * np.std(errors) / np.sqrt(200) + 0.02 * np.std(errors)


# Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_bounds": (5, 5)}, "low below high"),
        ({"target_bounds": (0, 1, 2)}, "low, high"),
        ({"mechanism": "projections"}, "mechanism"),
        ({"mechanism": "descent", "alpha": 1.0}, "no penalty"),
        ({"alpha": -1.0}, "alpha"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1e-9}, "too small"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    X, y = table(50)
    model = DPRidge(**{"target_bounds": BOUNDS} | options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_bounds_of_targets_have_to_be_given():
    with pytest.raises(TypeError, match="target_bounds"):
        DPRidge()


@pytest.mark.parametrize("alphas", [[], [[1.0]], [-1.0], [np.inf], [np.nan]])
def test_penalties_of_a_path_are_a_list_of_finite_numbers(alphas):
    model = DPRidge(target_bounds=(0, 1), mechanism="moments").fit(np.eye(3), [0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="list of finite numbers"):
        model.path(alphas)


def test_a_descent_has_neither_path_nor_intervals():
    X, y = table(100)
    model = DPRidge(target_bounds=BOUNDS, mechanism="descent").fit(X, y)
    with pytest.raises(ValueError, match='mechanism="moments"'):
        model.path([1.0])
    with pytest.raises(ValueError, match='mechanism="moments"'):
        model.predict_interval(X)
    da = pytest.importorskip("dask.array")
    for fit in (lambda: model.fit(da.from_array(X), da.from_array(y)), lambda: model.fit_chunks([(X, y)])):
        with pytest.raises(ValueError, match='mechanism="moments"'):
            fit()


def test_penalties_and_levels_are_checked():
    X, y = table(100)
    model = DPRidge(target_bounds=BOUNDS, mechanism="moments").fit(X, y)
    for alphas in ([-1.0], [np.nan], 1.0, [[1.0]]):
        with pytest.raises(ValueError, match="alphas"):
            model.path(alphas)
    for level in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="level"):
            model.predict_interval(X, level)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_small_tables_have_sound_answers(mechanism):
    """One row, one column, more columns than rows, constant columns: finite weights, predictions within bounds."""
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (1, 5), (3, 30), (50, 1)):
        for rows in (rng.normal(size=shape), np.zeros(shape), np.ones(shape)):
            model = DPRidge(target_bounds=BOUNDS, mechanism=mechanism, delta=1e-3).fit(rows, np.full(len(rows), 12.0))
            assert np.isfinite(model.coef_).all()
            predicted = model.predict(rows)
            assert ((BOUNDS[0] <= predicted) & (predicted <= BOUNDS[1])).all()


def test_it_survives_pickling_and_searches():
    X, y = table(300)
    model = DPRidge(target_bounds=BOUNDS, mechanism="moments").fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    np.testing.assert_array_equal(copy.path([1.0])[0], model.path([1.0])[0])
    search = GridSearchCV(model, {"alpha": [0.1, 10.0]}, cv=KFold(2)).fit(X, y)
    assert search.best_params_["alpha"] in (0.1, 10.0)
    # Each row is in one of two folds of each candidate, and in the refit.
    assert privacy_report(search).private.n_releases == 3


@pytest.mark.parametrize("seed", range(3))
def test_columns_in_one_corner_do_not_learn_the_mean_of_the_targets(seed, silenced_noise):
    """Skewed columns and targets within wide bounds: descents were far worse than the mean, without any noise."""
    rng = np.random.default_rng(seed)
    skewed = rng.exponential(size=(4000, 4)) * [0.1, 0.15, 0.2, 0.05]
    y = np.minimum(4 * skewed[:, 0] + rng.exponential(2.0, size=4000), 100)
    X = 2 * np.minimum(skewed, 1) - 1
    model = DPRidge(target_bounds=(0, 100), delta=1e-6, mechanism="descent").fit(X[:3000], y[:3000])
    assert model.score(X[3000:], y[3000:]) > -0.2
