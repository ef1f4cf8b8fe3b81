"""Attacks on models, searches and counts beside models: what is left out of a printed total, and exact densities."""

import re
import sys
import warnings
from contextlib import nullcontext, suppress
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, chi, gamma, gengamma, laplace, norm
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline, make_union

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSearchCV,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    _noise,
    compose,
    privacy_report,
)
from skdprp.linear_model import SolverError, _erm
from skdprp.linear_model._erm import Problem, minimisers
from skdprp.linear_model._objective import _largest_perturbation
from skdprp.losses import CappedLogisticLoss, LogisticLoss
from skdprp.mechanisms import gaussian_profile, secret_projection_profile
from skdprp.testing import reproducible_noise

_N_ROWS, _SPLIT = 100, 0
_HELD_OUT = int(train_test_split(np.arange(_N_ROWS), test_size=0.2, random_state=_SPLIT)[1][0])


def _people(*, is_odd):
    """Rows of which one, that a search holds out, is at an end of its range, or else missing and of the other class."""
    X, y = np.tile([[-2.0, 1.0], [2.0, -1.0]], (_N_ROWS // 2, 1)), np.ones(_N_ROWS, dtype=int)
    X[_HELD_OUT], y[_HELD_OUT] = (np.nan, 0) if is_odd else (-3.0, 1)
    return X, y


def _search(*steps):
    """A search for a model, with nearly always one trial."""
    model = AMPClassifier(epsilon=1.0, classes=[0, 1], noise="gaussian")
    return DPSearchCV(
        make_pipeline(*steps, DPPCA(epsilon=1.0), model),
        {},
        n_trials=1e-9,
        epsilon=1.0,
        delta=1e-4,
        random_state=_SPLIT,
    )


def _scaler():
    return DPScaler(epsilon=2.0, delta=1e-22, bounds=(-3, 3), n_cells=2)


@pytest.mark.parametrize(
    "frozen",
    [
        FrozenEstimator,
        lambda scaler: FrozenEstimator(make_pipeline(FrozenEstimator(scaler), PublicScaler((-1, 1)))),
        lambda scaler: make_union(PublicScaler((-3, 3)), FrozenEstimator(scaler)),
        lambda scaler: ColumnTransformer([("scaled", FrozenEstimator(scaler), [0, 1])]),
    ],
)
def test_a_search_takes_no_private_step_that_was_fitted_before(frozen):
    """Held-out rows were charged for their score alone, and a seed of its noise was forgotten.

    A frozen public step, and the same private one to be fitted in each trial, are taken.
    """
    X, y = np.nan_to_num(_people(is_odd=False)[0]), np.arange(_N_ROWS) % 2
    scaler = _scaler()
    search, refused = _search(frozen(scaler.fit(X))), "a frozen (DPScaler|Pipeline).*Put it before the search"
    with pytest.raises(ValueError, match=refused):
        privacy_report(search, X, y)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=refused):
        search.fit(X, y)
    assert not ledger.entries
    for step in (FrozenEstimator(PublicScaler((-3, 3)).fit(X)), scaler):
        assert _search(step).fit(X, y).guarantee_.epsilon == 1.0


def test_a_row_that_a_search_holds_out_is_charged_for_what_was_fitted_on_it_before(silenced_noise):
    """A frozen scaler before a search has seen the rows that are held out, too: of them the score has all of a trial.

    Without noise, to see how far the row moves both: what is released has this beside noise of the printed scales.
    """
    sums, scores = [], []
    for is_odd in (False, True):
        X, y = _people(is_odd=is_odd)
        scaler = _scaler().fit(X)
        model = make_pipeline(FrozenEstimator(scaler), _search()).fit(X, y)
        sums.append(np.concatenate([column.values for column in scaler.histograms_.columns]))
        scores.append(model[-1].best_score_)
    of_scaler = np.linalg.norm(sums[0] - sums[1]) / scaler.scale_
    of_score = abs(scores[0] - scores[1]) / model[-1].scale_
    total = privacy_report(model).total
    assert "best_estimator_" in total.released and "histograms_" in total.released
    # Both are Gaussian mechanisms, the second adaptive: together they are one of this shift.
    exact = gaussian_profile(total.epsilon, scale=1.0, sensitivity=float(np.hypot(of_scaler, of_score)))
    assert 0 < exact <= total.delta


def test_a_search_after_a_step_of_noise_from_a_seed_is_marked():
    """Noise that everybody knows was in the winner, and the search, and the report on it, said that it was private."""
    X, y = _people(is_odd=False)
    with reproducible_noise(0):
        scaler = _scaler().fit(X)
    assert scaler.guarantee_.seeded
    model = make_pipeline(FrozenEstimator(scaler), _search())
    assert privacy_report(model, X, y).total.seeded
    assert privacy_report(model.fit(X, y)).total.seeded
    assert not model[-1].guarantee_.seeded  # whose own noise was not


_ALL_STEPS = _erm._MOST_STEPS


def _count_below(y, n_fits):
    """How many of so many private weights of a row are below -1.1; a fit whose solver stops too soon has none."""
    model = AMPClassifier(
        epsilon=1.0, delta=1e-6, C=0.25, loss="huber_hinge", noise="gaussian", fit_intercept=False, classes=[-1, 1]
    )
    count = 0
    for _ in range(n_fits):
        with suppress(SolverError):
            count += model.fit([[1.0]], [y]).coef_[0, 0] < -1.1
    return count


@pytest.mark.parametrize("n_steps", [1, _ALL_STEPS])
def test_weights_of_a_solver_that_may_fail_tell_no_more_than_is_stated(n_steps, monkeypatch):
    """Where a solver ends in one step depends on the rows, and so would the weights that can be released at all."""
    monkeypatch.setattr(_erm, "_MOST_STEPS", n_steps)
    n_fits = 300
    low, high = sorted(_count_below(y, n_fits) for y in (1, -1))
    # Clopper and Pearson, each side wrong once in 10^10.
    most = beta.ppf(1 - 1e-10, low + 1, n_fits - low)
    least = beta.ppf(1e-10, high, n_fits - high + 1) if high else 0.0
    assert (least <= np.exp(1.0) * most + 1e-6) == (n_steps == _ALL_STEPS)


@pytest.mark.parametrize("kind", [AMPClassifier, ProductNoiseOutputPerturbation])
def test_nobody_sets_how_soon_a_solver_fails(kind, monkeypatch):
    """With max_iter=1, weights below -1.1 of the row above were released in 271 of 600 fits for y = 1, or in none.

    With tol=1e-20, those of rows of zeros were, which are minus b / penalty in floats, and with another row none.
    """
    assert "max_iter" not in kind().get_params()
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    for tol, is_taken in ((1e-10, True), (9.9e-11, False)):
        model = kind(tol=tol, classes=[0, 1])
        with nullcontext() if is_taken else pytest.raises(ValueError, match="'tol' parameter"):
            model.fit(X, y)
    problem = Problem(20, 2, 2, "log_loss", False, 1.0, 0.0, 1e-20)
    monkeypatch.setattr(_erm, "_MOST_STEPS", 200)
    known = {"penalty": 1.0, "perturbation": np.array([[0.3, 0.4]]), "largest": 1.0, "n_jobs": None}
    assert (minimisers(problem, X, y, **known) == [[-0.3, -0.4]]).all()
    X[0] = 0.1, 0.7
    with pytest.raises(SolverError, match="did not reach tol"):
        minimisers(problem, X, y, **known)


@pytest.mark.parametrize(
    "b", [(-1.8949, 8.55042, -1.66077), (2.20707, -2.91117, 6.27394), (2.08621, -3.02729, 6.05293)]
)
def test_a_hinge_is_minimised_in_the_steps_that_are_the_default(b, monkeypatch):
    """Of such linear terms, three of 10,000, no weights were released, while those of a neighbour were."""
    sizes = [24, 21, 25, 30]
    X = np.repeat([[-1, -1], [-1, 1], [1, -1], [1, 1]], sizes, axis=0) / np.sqrt(2)
    y = np.repeat([0, 0, 1, 1], sizes)
    monkeypatch.setattr(_noise, "gaussian", lambda shape, scale: np.reshape(b, shape))
    model = AMPClassifier(epsilon=10.0, delta=1e-6, C=80.0, loss="huber_hinge", classes=[0, 1], noise="gaussian")
    assert np.isfinite(model.fit(X, y).coef_).all()


@pytest.mark.parametrize("delta", [1e-30, 1e-6])
@pytest.mark.parametrize("noise", ["product", "gaussian"])
def test_no_linear_term_is_refused_that_a_tiny_delta_counts(noise, delta, monkeypatch):
    """Linear terms that one in 10^22 draws exceeds were refused: what they would release, a neighbour may release."""
    model = AMPClassifier(
        epsilon=1.0, delta=delta, C=0.2, fit_intercept=False, classes=[-1, 1], noise=noise, count_labels=False
    ).fit([[1.0]], [1])
    assert model.guarantee_.loss.epsilon(1e-30) < 10.0
    drawn = []
    monkeypatch.setattr(_noise, "spherical", lambda n_dims, scale, **law: np.array(drawn))
    monkeypatch.setattr(_noise, "gaussian", lambda shape, scale: np.reshape(drawn, shape))
    law = (
        laplace(0, model.scale_) if noise == "product" else norm(0, model.scale_)
    )  # a radius of one weight, and a sign
    for probability in (1e-22, 1e-30, 2.0**-289):
        for y, sign in product((-1, 1), repeat=2):
            drawn[:] = [sign * law.isf(probability)]
            assert np.isfinite(model.fit([[1.0]], [y]).coef_).all()
    drawn[:] = [law.isf(1e-100)]  # the accuracy of a minimiser is known up to some norm
    with pytest.raises(SolverError, match="larger than the accuracy"):
        model.fit([[1.0]], [1])


@pytest.mark.parametrize("radius", [None, (1, 2), (1, 1)])
@pytest.mark.parametrize("n_weights", [1, 2, 3, 10, 100, 10_000, 10**7])
def test_linear_terms_that_are_refused_are_rarer_than_tails_that_are_never_sampled(radius, n_weights):
    """By the distribution of their norm; and no limit is so far out that it costs accuracy for nothing."""
    problem = Problem(1, n_weights, 2, "log_loss", False, 1.0, 0.0, 1e-10)
    largest = _largest_perturbation(problem, 3.0, radius)
    law = chi(n_weights, scale=3.0) if radius is None else gengamma(radius[0] / radius[1], radius[1], scale=3.0)
    assert law.sf(largest) < 2.0**-288 < law.sf(0.8 * largest)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="filters of warnings belong to a context, counted otherwise")
def test_what_the_process_counts_tells_how_many_trials_there_were_and_is_not_covered(monkeypatch):
    """Each block that catches warnings is counted, and the next warning writes the number into a module."""
    X, y = _people(is_odd=False)
    X = np.nan_to_num(X)
    search = DPSearchCV(AMPClassifier(classes=[0, 1]), {}, n_trials=5, epsilon=3.0, delta=1e-4)

    def version():
        registry = {}
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("default")
            warnings.warn_explicit("any", UserWarning, "any", 1, registry=registry)
        return registry.get("version", 0)

    counts = []
    for n_trials in (1, 9):
        monkeypatch.setattr(_noise, "poisson_above_zero", lambda mean, n_trials=n_trials: n_trials)
        search.fit(X, y)  # what is kept from the first fit on
        before = version()
        search.fit(X, y)
        counts.append(version() - before)
    assert counts[0] < counts[1]
    told = "what code in the same process can find out, such as the number of trials"
    assert told in search.guarantee_.not_covered and told in str(privacy_report(search))


def _densities(model, X, y, weights, counts, points):
    """Density of a noisy count of labels and of the minimiser that it was the offset of, on a grid of both."""
    loss = {"log_loss": LogisticLoss, "capped_log_loss": CappedLogisticLoss}[model.loss]()
    printed = re.search(r"(Gaussian|Laplace) count of labels, scale ([\d.e+-]+)", model.guarantee_.mechanism)
    kind, scale = printed.groups()
    law, deviation = (norm, float(scale)) if kind == "Gaussian" else (laplace, float(scale) * 2**0.5)
    least = min(max(2 * deviation, 0.5) / len(y), 0.5)
    prior = np.clip(counts / len(y), least, 1 - least)
    shares = np.array([1 - prior, prior]) * (np.array(weights) / max(weights))[:, None]
    shares = np.clip(shares[1] / shares.sum(axis=0), 0.25 / len(y), 1 - 0.25 / len(y))
    of_rows, density = np.where(y > 0, weights[1], weights[0]), []
    of_b = norm(0, model.scale_) if model.noise_ == "gaussian" else laplace(0, model.scale_)
    for share in shares:
        scores = points[:, None] * X + loss.score_of(float(share))
        gradient = (loss.gradient(np.broadcast_to(y, scores.shape), scores) * of_rows * X).sum(axis=1)
        curvature = np.exp(-np.abs(scores)) / (1 + np.exp(-np.abs(scores))) ** 2
        if model.loss == "capped_log_loss":
            curvature = np.where(scores * y >= 0, curvature, 0.0)
        curvature = (curvature * of_rows * X**2).sum(axis=1) + 1 / model.C_
        density.append(of_b.pdf(gradient + points / model.C_) * curvature)
    return law.pdf(counts, np.count_nonzero(y > 0), float(scale))[:, None] * density


@pytest.mark.parametrize("noise", ["gaussian", "product"])
@pytest.mark.parametrize("loss", ["log_loss", "capped_log_loss"])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 1.0)])
def test_a_count_and_the_minimiser_that_starts_from_it_tell_no_more_than_their_profile(noise, loss, weights):
    """Exact densities of both together, for rows whose offset, weight, label and features all change at once."""
    for epsilon, delta, X, y, odd in (
        (1.0, 1e-3, [1.0, 0.5], [1, -1], (-1.0, 1)),
        (0.3, 0.05, [1.0], [1], (1.0, -1)),
        (4.0, 1e-2, [1.0, 0.0, -1.0, -1.0], [1, 1, -1, -1], (-1.0, 1)),
    ):
        model = AMPClassifier(
            epsilon=epsilon,
            delta=delta,
            loss=loss,
            noise=noise,
            fit_intercept=False,
            count_labels=True,
            classes=[-1, 1],
            class_weight=dict(zip((-1, 1), weights, strict=True)),
        ).fit(np.reshape(X, (-1, 1)), y)
        neighbours = [(np.array(X), np.array(y)), (np.array([odd[0], *X[1:]]), np.array([odd[1], *y[1:]]))]
        scale = float(re.search(r"count of labels, scale ([\d.e+-]+)", model.guarantee_.mechanism)[1])
        counts, reach = np.linspace(-14 * scale, 14 * scale, 121), 25 * (model.scale_ + 1) * model.C_
        points = np.linspace(-reach, reach, 3001)
        cell = (counts[1] - counts[0]) * (points[1] - points[0])
        first, second = (_densities(model, *rows, weights, counts, points) * cell for rows in neighbours)
        assert first.sum() == pytest.approx(1, abs=0.02)
        for at in (0.0, epsilon / 2, epsilon, 2 * epsilon):
            exact = np.maximum(first - np.exp(at) * second, 0).sum()
            assert exact <= model.guarantee_.loss.profile(at) * 1.02 + 1e-9


def test_secret_projections_of_any_two_rows_are_no_further_apart_than_their_profile():
    """Of rows at any angle and of any length, exactly: quadratic forms of two Gamma variates."""
    rng, z = np.random.default_rng(0), np.linspace(-12, 12, 3001)
    for _ in range(100):
        k, gain = int(rng.choice([1, 2, 5, 20, 100])), 10 ** rng.uniform(-2.5, 1.0)
        angles = rng.uniform(0, np.pi) + np.array([0.0, rng.choice([np.pi / 2, rng.uniform(0.1, np.pi / 2)])])
        lengths = np.sqrt(gain) * np.array([1.0, rng.choice([1.0, rng.uniform()])])[rng.permutation(2)]
        rows = lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        one, other = (np.eye(2) + np.outer(row, row) for row in rows)
        root = np.linalg.cholesky(one)
        low, high = np.linalg.eigvalsh(root.T @ (np.linalg.inv(other) - np.linalg.inv(one)) @ root)
        offset = k / 2 * np.log(np.linalg.det(other) / np.linalg.det(one))
        epsilon = rng.uniform(0, 2) * gain * np.sqrt(k / (1 + gain))
        variates = np.where(z > 0, gamma.isf(norm.sf(z), k / 2), gamma.ppf(norm.cdf(z), k / 2))
        rest = epsilon - offset - low * variates
        needed = np.maximum(rest / high, 0.0)
        log_second = rest - k / 2 * np.log1p(high) + gamma.logsf(needed * (1 + high), k / 2)
        exact = np.sum(norm.pdf(z) * (z[1] - z[0]) * (gamma.sf(needed, k / 2) - np.exp(log_second)))
        bound = secret_projection_profile(epsilon, scale=1.0, n_components=k, max_norm=float(np.sqrt(gain)))
        assert exact <= bound * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_extreme_targets_are_met_by_the_losses_that_are_stated(adjacency):
    """A printed pair is the loss at its epsilon, from tiny to huge targets, or there is no guarantee at all."""
    X, rng = np.eye(4)[[0, 1, 2, 3, 0, 1]], np.random.default_rng(1)
    y, t = np.arange(6) % 2, np.linspace(-1, 1, 6)
    for _ in range(5):
        known = {"epsilon": 10 ** rng.uniform(-3, 2.2), "delta": 10 ** rng.uniform(-60, -0.01), "adjacency": adjacency}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = [
                AMPClassifier(classes=[0, 1], noise="gaussian", **known).fit(X, y),
                ProductNoiseOutputPerturbation(classes=[0, 1], **known).fit(X, y),
                DPRidge(target_bounds=(-1, 1), mechanism="projection", n_components=20, **known).fit(X, t),
                DPMoments(**known).fit(X),
                DPHistograms(bounds=(0, 1), n_cells=16, **known).fit(X),
                DPBinner(2, categories=[0], bounds={}, n_cells=16, **known).fit(X),
            ]
        for guarantee in (model.guarantee_ for model in fitted):
            if guarantee.epsilon < np.inf:
                assert guarantee.loss.profile(guarantee.epsilon) <= guarantee.delta * (1 + 2.0**-48)


def test_two_scalers_and_their_total_keep_every_mark():
    """A total of releases of which one is seeded is seeded, frozen or not, before a fit and after it."""
    X, y = np.eye(4)[[0, 1, 2, 3] * 5], [0, 1] * 10
    with reproducible_noise(0):
        scaler = DPScaler(bounds=(0, 1), delta=1e-6).fit(X)
    model = make_pipeline(FrozenEstimator(scaler), AMPClassifier(delta=1e-6, classes=[0, 1]))
    assert privacy_report(model, X, y).total.seeded
    assert privacy_report(model.fit(X, y)).total.seeded
    assert compose(scaler.guarantee_, model[-1].guarantee_).seeded
