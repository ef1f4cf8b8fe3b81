"""Attacks on searches, plans of fits, limits and composites: what one row decides beyond what noise hides."""

import pickle
import random

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import gammainccinv, gammaincinv
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    _noise,
    audit_epsilon,
    compose,
    make_table_preprocessor,
    privacy_report,
)
from skdprp.guarantee import Adjacency
from skdprp.ledger import LedgerError, _filter, entry
from skdprp.linear_model import _objective
from skdprp.mechanisms import Published, gaussian_profile
from skdprp.mechanisms.objective_perturbation import hessian_log_det, objective_perturbation_profile

FLOAT = np.dtype(np.float64)


def _amp(**known):
    return AMPClassifier(**{"epsilon": 1.0, "delta": 1e-4, "classes": [0, 1]} | known)


# A held-out row that a step after private bins refuses


def _scores_with_and_without_a_row_that_is_refused(convert, *steps):
    """Scores of a search in which one held-out row has a category that nobody listed, and of one in which none has."""
    n_rows, rng = 80, np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    place = train_test_split(np.arange(n_rows), test_size=0.5, random_state=0)[1][0]
    binner = DPBinner(3, bounds={1: (0, 1)}, categories={0: [0.0, 1.0]}, encode="ordinal", epsilon=1.0, delta=1e-4)
    last = DPSGDClassifier(epsilon=1.0, delta=1e-4, classes=[0, 1])
    model = make_pipeline(binner, *steps, OneHotEncoder(categories=[range(2), range(4)]), last)
    # With Gaussian noise alone, whose losses add up in no time.
    known = {"epsilon": 60.0, "delta": 1e-3, "n_trials": 0.01, "test_size": 0.5, "random_state": 0}
    for refused in (False, True):
        X = np.column_stack([y, rng.uniform(size=n_rows)])
        X[place, 0] = 2.0 if refused else X[place, 0]
        yield DPSearchCV(model, {"dpsgdclassifier__max_norm": [1.0]}, **known).fit(convert(X), y).best_score_


@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist, sp.bsr_array])
def test_a_row_that_is_refused_behind_bins_moves_the_score_by_one_row_in_any_container(convert):
    """One of 40 rows moves the mean by 0.025, and noise by far less than 0.1 at so large an epsilon."""
    without, with_one = _scores_with_and_without_a_row_that_is_refused(convert)
    assert abs(without - with_one) < 0.4


def test_a_row_that_is_refused_moves_no_score_of_a_function_that_takes_no_row_alone():
    """Once a row that was refused moved the score of such a function from 1 to 0."""
    vector_of_one_row = FunctionTransformer(lambda X: np.asarray(X).squeeze())
    without, with_one = _scores_with_and_without_a_row_that_is_refused(np.asarray, vector_of_one_row)
    assert abs(without - with_one) < 0.4


# Everything that is held, said and returned follows from what was released


class _Constant:
    """Put numbers in the place of all releases that depend on nothing but their order, size and grid."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(_noise, "_add_on_grid", self._add)
        monkeypatch.setattr(_noise, "random_bytes", self._bytes)
        self.begin()

    def begin(self):
        self.rng = np.random.default_rng(7)
        np.random.seed(0)  # noqa: NPY002 (of both, searches draw seeds)
        random.seed(0)

    def _add(self, values, rounded, grid):
        values[...] = np.rint(3000 * self.rng.normal(size=values.shape)) * grid

    def _bytes(self, size):
        return self.rng.bytes(size)


def _numbers(seed):
    rng = np.random.default_rng(seed)
    return (
        rng.uniform(-1, 1, (80, 3)) if seed % 2 else rng.normal(size=(80, 3)) * 10.0 ** rng.uniform(-200, 40, (80, 1))
    )


def _labels(seed):
    return np.random.default_rng(seed).integers(0, 2, 80) if seed % 2 else (np.arange(80) == 3).astype(int)


def _table(seed):
    rng, names = np.random.default_rng(seed), np.array(["Bath", "Hull", "York"])
    places = np.r_[[0, 1, 2], rng.integers(0, 3, 77) if seed % 2 else np.zeros(77, int)]
    return pd.DataFrame({"age": _numbers(seed)[:, 0], "town": names[places]})


COMPOSITES = {
    "bins": (
        lambda: make_pipeline(make_table_preprocessor({"age": (0, 1)}, epsilon=0.5), _amp(noise="gaussian")),
        _table,
    ),
    "search": (
        lambda: DPSearchCV(_amp(), {"max_norm": [0.5, 1.0]}, epsilon=5.0, delta=1e-4, n_trials=2, random_state=0),
        _numbers,
    ),
    "union": (
        lambda: make_pipeline(
            make_union(
                DPScaler(delta=1e-4, n_cells=64, bounds=(-1, 1)), DPBinner(3, delta=1e-4, n_cells=64, bounds=(-1, 1))
            ),
            DPSGDClassifier(n_epochs=2, delta=1e-4, classes=[0, 1]),
        ),
        _numbers,
    ),
    "components": (lambda: make_pipeline(DPPCA(2, delta=1e-4), DPRidge(target_bounds=(0, 1), delta=1e-4)), _numbers),
    "voting": (
        lambda: VotingClassifier([("a", _amp()), ("b", ProductNoiseOutputPerturbation(delta=1e-4, classes=[0, 1]))]),
        _numbers,
    ),
    "prior": (lambda: _amp(threshold="prior", epsilon=5.0), _numbers),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_all_that_a_composite_holds_and_says_follows_from_what_its_steps_released(name, monkeypatch, recwarn):
    """Fits to unlike tables, in which equal numbers are released, are equal byte by byte, and so are predictions."""
    make, rows = COMPOSITES[name]
    monkeypatch.setattr("skdprp._validation.uuid4", lambda: type("Constant", (), {"hex": ""}))
    constant, told = _Constant(monkeypatch), []
    for seed in (1, 2):
        constant.begin()
        with PrivacyLedger() as ledger:
            model = make().fit(rows(seed), _labels(seed))
        spent = [(one.guarantee, one.estimator) for one in ledger.entries]
        predicted = model.predict(rows(1)).tobytes()
        told.append((pickle.dumps(model), str(privacy_report(model)), spent, predicted, [*map(str, recwarn.list)]))
        recwarn.clear()
    assert all(one == told[0] for one in told)


def _persons(seed):
    others = np.random.default_rng(seed).integers(0, 20, 60) if seed % 2 else np.zeros(60, int)
    return np.append(np.arange(20), others) + 1000 * (seed % 3)


@pytest.mark.filterwarnings("ignore:The published calibration:skdprp.PrivacyWarning")
def test_fits_of_chunks_and_of_persons_hold_nothing_but_what_was_released(monkeypatch):
    """Fits to unlike rows, labels and persons, in which equal numbers are released, have equal pickles."""
    # Of a scale that is given: finding it takes longer than all fits.
    batches = {"n_epochs": 2, "batch_size": 8, "calibration": Published(noise_multiplier=2.0)}
    fits = [
        lambda X, y, seed: _amp().fit_chunks([(X[:50], y[:50]), (X[50:], y[50:])]),
        lambda X, y, seed: DPSGDClassifier(n_epochs=2, preconditioner=True, classes=[0, 1]).fit_chunks([(X, y)]),
        lambda X, y, seed: DPSGDClassifier(**batches, classes=[0, 1]).fit(X, y, groups=_persons(seed)),
        lambda X, y, seed: DPRidge(target_bounds=(0, 1), mechanism="moments").fit(X, y, groups=_persons(seed)),
        lambda X, y, seed: DPPCA(2).fit(X, groups=_persons(seed)),
    ]
    monkeypatch.setattr("skdprp._validation.uuid4", lambda: type("Constant", (), {"hex": ""}))
    constant = _Constant(monkeypatch)
    for fit in fits:
        held = set()
        for seed in (1, 2):
            constant.begin()
            held.add(pickle.dumps(fit(_numbers(seed), _labels(seed), seed)))
        assert len(held) == 1


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_no_row_of_odd_numbers_moves_histograms_further_than_is_priced(adjacency):
    """Zeros of both signs, missing, subnormal and huge values move all sums by the stated shift at most."""
    rng = np.random.default_rng(0)
    odd = np.array([0.0, -0.0, np.nan, 1e-320, -1e308, 1e308, 0.5, -3.0, 1e-200])
    for _ in range(10):
        width, bounds = int(rng.integers(1, 4)), [None, (-2.0, 3.0)][rng.integers(2)]
        X = rng.choice(odd, (4, width))
        other = X[1:] if adjacency == "add_remove" else np.vstack([rng.choice(odd, (1, width)), X[1:]])
        model = DPHistograms(bounds=bounds, delta=1e-3, n_cells=int(rng.choice([2, 17])), adjacency=adjacency)
        guarantee = model.fit(X).guarantee_
        moved = np.linalg.norm(model._exact_sums(X) - model._exact_sums(other))
        assert moved <= guarantee.loss.mu * model.scale_


# Plans


def test_plans_of_fits_of_any_size_meet_their_target_by_facts_that_are_computed_anew():
    """Shift, log-determinant, sensitivity and count in the profile are no less than those of the noise."""
    rng, n_planned = np.random.default_rng(6), 0
    for _ in range(16):
        shape, n_classes = (int(10 ** rng.uniform(1, 12)), int(10 ** rng.uniform(0, 2))), int(rng.choice([2, 3, 10]))
        delta = float(10 ** rng.uniform(-30, -2))
        known = {
            "epsilon": float(10 ** rng.uniform(-3, 3)),
            "delta": delta,
            "noise": str(rng.choice(["auto", "gaussian"])),
        }
        adjacency = str(rng.choice(["replace_one", "add_remove"]))
        try:
            planned = AMPClassifier(adjacency=adjacency, **known)._calibration_of(shape, FLOAT, n_classes)
        except ValueError:
            continue
        if planned.is_void or planned.guarantee.loss is None:
            continue
        noise, problem, n_planned = planned.noise, planned.problem, n_planned + 1
        facts = dict(planned.guarantee.loss.profiles[0].parameters)
        distance = _objective._distance_of_solutions(problem, noise.penalty, noise.scale, noise.radius_law)
        log_det = hessian_log_det(problem.row_loss, max_norm=problem.row_norm, penalty=noise.penalty)
        assert facts["release_shift"] * (1 + 1e-14) >= distance / noise.release_scale
        assert facts["log_det"] >= log_det and facts["scale"] == noise.scale
        assert facts.get("lipschitz", np.inf) >= problem.lipschitz
        if noise.count:
            assert max(facts.get("count_shift", 0), facts.get("count_epsilon", 0)) >= 1 / noise.count.scale
        assert planned.guarantee.profile(known["epsilon"]) <= delta * (1 + 1e-12)
    assert n_planned > 3


def test_published_settings_of_any_size_are_stated_at_the_delta_that_their_noise_has():
    """The stated delta is no less than the profile at the scales, penalty and solver's error that are used."""
    rng, n_planned = np.random.default_rng(3), 0
    for _ in range(60):
        epsilon, delta = float(10 ** rng.uniform(-2, 1.5)), float(10 ** rng.uniform(-20, -0.5))
        settings = Published(
            epsilon2=epsilon * rng.uniform(0.01, 0.9), delta2=delta * rng.uniform(0.01, 0.9), analytic=True
        )
        model = AMPClassifier(epsilon=epsilon, delta=delta, calibration=settings)
        try:
            planned = model._calibration_of((int(10 ** rng.uniform(1, 6)), 5), FLOAT, int(rng.choice([2, 3])))
        except ValueError:
            continue
        if planned.is_void:
            continue
        noise, problem, n_planned = planned.noise, planned.problem, n_planned + 1
        shift = _objective._distance_of_solutions(problem, noise.penalty, noise.scale) / noise.release_scale
        log_det = hessian_log_det(problem.row_loss, max_norm=problem.row_norm, penalty=noise.penalty)
        known = {"lipschitz": problem.lipschitz, "n_outputs": problem.n_outputs, "release_shift": shift}
        true = objective_perturbation_profile(epsilon, scale=noise.scale, log_det=log_det, **known)
        assert true <= planned.guarantee.delta * (1 + 1e-12)
    assert n_planned > 20


def test_steps_on_all_rows_and_their_gram_matrix_meet_their_target_however_many_values_are_sampled():
    """The Gaussian profile at the largest move of all releases, with what sampling costs, is at most delta."""
    rng, eta, n_planned = np.random.default_rng(4), 2.0**-31, 0
    for _ in range(80):
        n_features, is_replaced = int(10 ** rng.uniform(0, 3)), bool(rng.integers(2))
        epsilon, delta = float(10 ** rng.uniform(-2, 2)), float(10 ** rng.uniform(-50, -0.3))
        known = {"epsilon": epsilon, "delta": delta, "adjacency": "replace_one" if is_replaced else "add_remove"}
        known["preconditioner"] = bool(rng.integers(2))
        n_rows, n_classes = int(10 ** rng.uniform(0.5, 9)), int(rng.choice([2, 3, 100]))
        planned = DPSGDClassifier(**known)._calibration_of((n_rows, n_features), FLOAT, n_classes)
        if planned.is_void:
            continue
        descent, bound, n_planned = planned.noise, planned.problem.bound, n_planned + 1
        n_steps, n_values = descent.plan.n_steps, descent.plan.n_steps * planned.problem.network.n_weights
        square = (4 if is_replaced else 1) * n_steps * (bound / descent.scale) ** 2
        if descent.preconditioner is not None:
            n_values += (n_features + 1) * (n_features + 2) // 2
            cosines, other = np.linspace(0, 1, 33), float(is_replaced)
            gram = (1 + other * (1 - 2 * cosines**2)) / descent.preconditioner.scale**2
            steps = n_steps * (1 + other * (1 + 2 * cosines)) * (bound / descent.scale) ** 2
            square = float((gram + steps).max())
        mu, tail = square**0.5, delta * 2.0**-12
        slack = n_values * eta**2 / 2 + eta * np.sqrt(2 * n_values * (np.logaddexp(0, epsilon) - np.log(tail)))
        costs = [(slack, tail), (n_values * eta, 0.0)]
        met = [np.exp(s) * gaussian_profile(epsilon - 2 * s, scale=1 / mu) + add for s, add in costs if 2 * s < epsilon]
        assert mu <= planned.guarantee.loss.mu and min(met) <= delta
    assert n_planned > 30


# Limits


@pytest.mark.parametrize("seed", range(2))
def test_models_that_no_gaussian_dominates_pass_a_limit_of_squares_together_with_others_and_total_no_more(seed):
    """Whatever passes it in any order composes to the limit at most."""
    rng, rows = np.random.default_rng(seed), Adjacency("replace_one")
    by_epsilon = AMPClassifier(epsilon=8.0, delta=1e-6, classes=range(3))._calibration_of((150, 4), FLOAT, 3).guarantee
    assert any(np.isinf(_filter._dominating(one)[0]) for one in by_epsilon.loss.profiles)
    gaussian = DPSGDClassifier(epsilon=1.0, delta=1e-6)._calibration_of((1000, 3), FLOAT, 2).guarantee
    releases = [
        by_epsilon,
        gaussian,
        PrivacyGuarantee(2.0, 1e-7, adjacency=rows),
        PrivacyGuarantee(0.1, 0.0, adjacency=rows),
    ]
    for limit in [(12.0, 1e-4)]:
        passed = []
        with PrivacyLedger() as ledger:
            ledger.limit(*limit, composition="gaussian")
            for place in rng.integers(0, len(releases), 8):
                try:
                    with entry(releases[place]):
                        passed.append(releases[place])
                except LedgerError:
                    pass
        assert len(ledger.entries) == len(passed)
        assert compose(*passed, delta=limit[1]).epsilon <= limit[0]


# Audits and quantiles


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_audits_of_a_response_of_known_epsilon_show_more_no_more_often_than_their_confidence_says(epsilon):
    """At a confidence of 0.9 some 10 of 100 may; 45 of them are a chance below 1e-15."""
    rng, flipped = np.random.default_rng(0), 1 / (1 + np.exp(epsilon))

    def respond(bit):
        return float(bit ^ (rng.random() < flipped))

    known = {"n_trials": 40, "confidence": 0.9, "distinguishers": ["values"], "n_jobs": 1}
    assert sum(audit_epsilon(respond, 0, 1, **known).epsilon > epsilon for _ in range(100)) < 45


def test_radii_of_product_noise_are_as_exact_as_their_price_counts():
    """The inverse of the Gamma distribution is off by less than 2^-40 of the largest radius, in both tails."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    with mpmath.workdps(40):
        for _ in range(60):
            shape, tail, is_upper = float(10 ** rng.uniform(0, 3.5)), float(2.0 ** -rng.uniform(1, 64)), rng.integers(2)
            radius = float((gammainccinv if is_upper else gammaincinv)(shape, tail))
            ends = (radius, mpmath.inf) if is_upper else (0, radius)
            density = mpmath.e ** ((shape - 1) * mpmath.log(radius) - radius - mpmath.loggamma(shape))
            error = abs(mpmath.gammainc(shape, *ends, regularized=True) - tail) / density
            assert error < 2.0**-40 * (shape + 20 * shape**0.5 + 200)
