"""Attacks on totals at deltas out of reach, and on the contract by two kinds of noise and by what it overlooks."""
# ruff: noqa: D101, D102

import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.special import log_ndtr
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from test_attacks_contract import Means, contract_of, finite

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPRidge,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    _noise,
    compose,
    load_model,
    privacy_report,
    save_model,
)
from skdprp._noise import is_seeded
from skdprp.guarantee import Adjacency, PrivacyWarning
from skdprp.histograms._cells import Cells, coefficients, half_sums
from skdprp.ledger import entry
from skdprp.mechanisms import add_gaussian, add_laplace, gaussian_scale, laplace_scale, sampled_target
from skdprp.mechanisms.objective_perturbation import objective_perturbation_profile, product_perturbation_profile
from skdprp.testing import reproducible_noise

_LARGEST_NOISE = 38.47  # standard deviations: the quantile of the least of all floats


# What noise does not reach


@pytest.mark.parametrize("delta", [1e-150, 1e-200, 1e-300])
def test_no_finite_epsilon_is_stated_at_a_delta_that_neighbours_pass_by_outputs_of_their_own(delta):
    """A row has outputs at which the noise of its neighbour would have to be larger than any that is sampled."""
    guarantee = DPOPORP(2, epsilon=140.0, delta=1e-6, random_state=0).fit([[0.0, 1.0]]).guarantee_
    least = log_ndtr(guarantee.loss.mu - _LARGEST_NOISE)
    assert np.log(delta) < least
    assert compose(guarantee, delta=delta).epsilon == np.inf


def test_a_profile_is_never_below_the_probability_of_outputs_that_a_neighbour_does_not_have():
    """It holds at any epsilon, however large."""
    guarantee = DPOPORP(2, epsilon=140.0, delta=1e-6, random_state=0).fit([[0.0, 1.0]]).guarantee_
    least = log_ndtr(guarantee.loss.mu - _LARGEST_NOISE)
    assert np.log(guarantee.profile(1000.0)) >= least


# Estimators of others, each with a fault of a kind that the contract asks for


class Released(Means):
    """Sums of clipped rows, whose noise children choose, in one entry."""

    def fit(self, X, y=None):
        X, bound = self.looked_at(finite(self, X)), float(self.bound)
        rows, seeded = np.clip(X, -bound, bound), is_seeded()
        facts = {"per": "fit", "released": "sums", "mechanism": "noise on sums", "not_covered": ()}
        guarantee = PrivacyGuarantee(
            float(self.epsilon), float(self.delta), adjacency=Adjacency("replace_one"), **facts
        )
        with entry(guarantee, type(self).__name__):
            self.sums_ = self.sums(rows, bound)
        self.guarantee_ = guarantee.mark_seeded() if seeded else guarantee
        return self


class SpendsItOnEachKindOfNoise(Released):
    def sums(self, rows, bound):
        d = rows.shape[1]
        scale = gaussian_scale(
            *sampled_target(self.epsilon, self.delta, n_changed=d), sensitivity=2.0001 * bound * d**0.5
        )
        count = np.count_nonzero(rows.sum(axis=1) > 0)
        of_count = laplace_scale(sampled_target(self.epsilon, 0.0, n_changed=1)[0])
        return np.append(add_gaussian(rows.sum(axis=0), scale), add_laplace(float(count), of_count))


class SpendsItOnEachColumn(Released):
    def sums(self, rows, bound):
        target, _ = sampled_target(self.epsilon, 0.0, n_changed=rows.shape[1])
        return add_laplace(rows.sum(axis=0), laplace_scale(target, sensitivity=2.0001 * bound))


class StatesTheLossOfTheFirst(RegressorMixin, Means):
    def fit(self, X, y=None):
        X, bound = finite(self, X), float(self.bound)
        rows, d = np.clip(X, -bound, bound), X.shape[1] ** 0.5
        parts = (rows.sum(axis=0), 2 * bound * d), (np.square(rows).sum(axis=0), bound**2 * d)
        half = {"epsilon": float(self.epsilon) / 2, "delta": float(self.delta) / 2, "adjacency": "l2"}
        first, second = (
            DPRandomProjection(projection="identity", max_change=change, **half).fit([sums]) for sums, change in parts
        )
        facts = {"per": "fit", "released": "sums and sums of squares", "not_covered": (), "hidden_changes": None}
        whole = {"epsilon": float(self.epsilon), "delta": float(self.delta), "adjacency": Adjacency("replace_one")}
        guarantee, seeded = replace(first.guarantee_, **whole, **facts), is_seeded()
        with entry(guarantee, type(self).__name__):
            self.sums_ = first.transform([parts[0][0]])[0]
            self.squares_ = second.transform([parts[1][0]])[0]
        self.guarantee_ = guarantee.mark_seeded() if seeded else guarantee
        return self

    def predict(self, X):
        return np.full(len(finite(self, X, reset=False)), self.sums_.sum())


class WarnsOfTheFuture(Means):
    def looked_at(self, X):
        if np.abs(X).max() > self.bound:
            said = f"The largest number is {np.abs(X).max():.6g}: version 2 will refuse rows beyond bound."
            warnings.warn(said, FutureWarning, stacklevel=3)
        return X


class HoldsNothingOfLargeRows(Means):
    def looked_at(self, X):
        vars(self).pop("clipped_", None)
        if np.abs(X).max() > self.bound:
            self.clipped_ = {}
        return X


class QuotesInANote(Means):
    def fit(self, X, y=None):
        try:
            return super().fit(X)
        except ValueError as error:
            cells = np.asarray(X, dtype=object).ravel()
            if texts := [cell for cell in cells if isinstance(cell, str)]:
                error.add_note(f"such as {texts[0]!r}")
            raise


FAULTY = [
    (SpendsItOnEachKindOfNoise, "noise_is_enough"),
    (SpendsItOnEachColumn, "noise_is_enough"),
    (StatesTheLossOfTheFirst, "noise_is_enough"),
    (WarnsOfTheFuture, "warnings_point_at_the_caller"),
    (HoldsNothingOfLargeRows, "attributes_hold_nothing_of_the_rows"),
    (QuotesInANote, "errors_tell_nothing_of_the_rows"),
]


@pytest.mark.parametrize(("kind", "name"), FAULTY, ids=[kind.__name__ for kind, _ in FAULTY])
def test_the_contract_catches_what_two_kinds_of_noise_spend_and_what_later_versions_are_said_to_refuse(kind, name):
    """Each fault shows in a table that the contract has."""
    with pytest.raises(AssertionError, match=f"^{name}: "):
        contract_of(kind(), name)()


def test_a_report_on_a_loss_of_one_of_two_releases_would_state_too_little():
    """The figures of a guarantee that keeps the loss of its first half, which its page's `replace` does."""
    X = np.linspace(-1, 1, 60).reshape(10, 6)
    half = DPRandomProjection(projection="identity", epsilon=0.5, delta=5e-7, adjacency="l2").fit(X).guarantee_
    stated = StatesTheLossOfTheFirst().fit(X).guarantee_
    assert compose(stated, stated).epsilon < 0.7 < 0.97 < compose(half, half, half, half).epsilon


# What the page on sketches counts as one word


# What held


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_no_exact_density_of_a_perturbed_hinge_passes_its_profile(noise):
    """Minimisers in one dimension, whose density has jumps at two kinks of the slope of each row."""
    rng, h, penalty, scale = np.random.default_rng(0), 0.1, 1.0, 1.5
    reach = 80.0
    for adjacency in ("replace_one", "add_remove"):
        for _ in range(5):
            rows = [*rng.uniform(-1, 1, 2), 1.0]
            others = [*rows[:2], -1.0] if adjacency == "replace_one" else rows[:2]
            kinks = np.array([one / x for x in rows + others for one in (1 - h, 1 + h)])
            near = np.concatenate([[1e-13], np.geomspace(1e-9, reach, 3000)])
            w = np.concatenate([np.linspace(-reach, reach, 40_001), *np.add.outer(kinks, np.append(-near, near))])
            w = np.unique(w[np.abs(w) <= reach])
            one, other = (_density(w, some, h, penalty, scale, noise) for some in (rows, others))
            assert all(abs(np.trapezoid(density, w) - 1) < 1e-5 for density in (one, other))
            known = {"scale": scale, "log_det": np.log1p(1 / (2 * h) / penalty), "adjacency": adjacency}
            for epsilon in (0.0, 0.3, known["log_det"], 2.5):
                if noise == "gaussian":
                    bound = objective_perturbation_profile(epsilon, **known)
                else:
                    bound = product_perturbation_profile(epsilon, n_dims=1, **known)
                for p, q in ((one, other), (other, one)):
                    assert np.trapezoid(np.maximum(p - np.exp(epsilon) * q, 0), w) <= bound + 1e-5


def _density(w, rows, h, penalty, scale, noise):
    gradient, curvature = penalty * w, np.full_like(w, penalty)
    for x in rows:
        gradient += -x * np.clip((1 + h - w * x) / (2 * h), 0, 1)
        curvature += x**2 / (2 * h) * (np.abs(1 - w * x) <= h)
    z = gradient / scale
    of_noise = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) if noise == "gaussian" else np.exp(-np.abs(z)) / 2
    return of_noise / scale * curvature


@pytest.mark.parametrize("frozen", [False, True])
def test_a_sketch_that_stands_in_two_places_counts_in_both(frozen):
    """As many entries as the ledger has, in the report and, before the fit, in the plan."""
    X = np.linspace(-1, 1, 120).reshape(20, 6)
    y = np.arange(20) % 2
    sketch = DPOPORP(3, random_state=0)
    sketch = FrozenEstimator(sketch.fit(X)) if frozen else sketch
    model = make_pipeline(FeatureUnion([("a", sketch), ("b", sketch)]), LogisticRegression())
    plan = privacy_report(model, X, y).total
    with PrivacyLedger() as ledger:
        model.fit(X, y)
    assert len(ledger.entries) == 2
    spent = ledger.total()[0].guarantee.epsilon
    assert privacy_report(model).total.epsilon >= spent and plan.epsilon >= spent


def test_a_plan_of_projections_that_may_be_empty_is_no_less_than_any_fit():
    """A very sparse W that is all zeros has no loss, and another draw of it has one."""
    X = np.linspace(-1, 1, 60).reshape(10, 6)
    empty = {"projection": "very_sparse", "density": 0.03}
    for _ in range(10):
        union = FeatureUnion([(name, DPRandomProjection(3, **empty)) for name in "ab"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert privacy_report(union, X).total.epsilon >= 1.4032


def test_sums_of_cells_are_exact_up_to_the_most_rows():
    """Neighbours would move them by more than the sensitivity if a transform rounded one off."""
    rng = np.random.default_rng(0)
    for size in (2, 4097, 30_000):
        counts, weights = rng.integers(0, 3, size), coefficients(size).astype(int).tolist()
        counts[rng.integers(size, size=5)] += rng.integers(0, 2**36 // 6, 5)
        halves, counts = half_sums(counts), counts.tolist()
        for j in (0, 1, size // 2, size - 1):
            exact = sum(weights[j - i] * counts[i] for i in range(j + 1))
            assert Fraction(float(halves[j])) == Fraction(exact, 4096)


def test_each_number_has_a_cell_between_any_bounds():
    """A place outside would be one count more, or an error, for one row."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        low = float(rng.normal() * 10.0 ** rng.integers(-50, 50))
        high = low + float(abs(rng.normal()) * 10.0 ** rng.integers(-50, 50))
        if not 1e-60 < high - low < 1e60:
            continue
        try:
            cells = Cells((low, high), int(rng.choice([2, 100, 4096])))
        except ValueError:
            continue
        edges = cells.edges
        near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
        numbers = np.append(near, [0.0, 5e-324, -5e-324, 1.79e308, -1.79e308])
        places = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 1)
        np.testing.assert_array_equal(cells.place(numbers), places)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_file_of_a_step_without_privacy_is_written_with_a_warning(frozen, tmp_path):
    """Frozen ones, too; the model alone has none."""
    X = np.linspace(-1, 1, 120).reshape(20, 6)
    y = np.arange(20) % 2
    scaler = FrozenEstimator(StandardScaler().fit(X)) if frozen else StandardScaler()
    model = make_pipeline(scaler, AMPClassifier(classes=[0, 1], delta=1e-6)).fit(X, y)
    with pytest.warns(PrivacyWarning, match="No guarantee covers"):
        save_model(tmp_path / "model.npz", model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_model(tmp_path / "alone.npz", model[-1])
    assert load_model(tmp_path / "alone.npz").guarantees[""] == model[-1].guarantee_


def _moved(monkeypatch, make, neighbours):
    """How far two neighbours move all Gaussian releases of a fit on one path, in units of noise; and what is stated."""
    moves, tape, replayed = [], [], iter(())

    def _record(values, scale):
        tape.append((values.copy(), values))
        values += np.random.default_rng(len(tape)).normal(size=values.shape) * scale
        tape[-1] = (tape[-1][0], values.copy())

    def _replay(values, scale):
        before, released = next(replayed)
        moves.append(np.linalg.norm((values - before) / scale))
        values[...] = released

    for add, (args, options) in zip((_record, _replay), neighbours, strict=True):
        replayed = iter(tape)
        monkeypatch.setattr(_noise, "add_gaussian", add)
        with reproducible_noise(0):  # the same first weights of a network
            model = make().fit(*args, **options)
    return np.linalg.norm(moves), model.guarantee_.loss.mu


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("of_persons", [False, True])
def test_no_row_or_person_moves_all_releases_of_one_path_further_than_is_stated(seed, of_persons, monkeypatch):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    X, y, t = rng.normal(size=(12, 3)) * 10, rng.integers(0, 3, 12), rng.uniform(-2, 2, (12, 2))
    n = int(rng.integers(1, 8)) if of_persons else 1
    kept = 3 if of_persons else 1
    groups = np.repeat(range(4), 3)
    others = {"groups": np.r_[np.zeros(n, int), groups[kept:]]} if of_persons else {}
    options = {"groups": groups} if of_persons else {}
    X2, y2 = np.r_[-np.repeat(X[:1], n, 0), X[kept:]], np.r_[rng.integers(0, 3, n), y[kept:]]
    t2 = np.r_[np.repeat(-t[:1], n, 0), t[kept:]]
    shared = {"epsilon": float(10 ** rng.uniform(-1, 1)), "delta": 1e-4, "max_norm": float(10 ** rng.uniform(-2, 2))}
    for optimizer, hidden, preconditioner in (("sgd", (), True), ("adam", (2,), "auto"), ("sgd", (2, 3), False)):
        make = partial(
            DPSGDClassifier,
            **shared,
            classes=range(3),
            optimizer=optimizer,
            hidden_layer_sizes=hidden,
            n_epochs=2,
            preconditioner=preconditioner,
            batch_size=10**6,
            class_weight={0: 1.0, 1: 0.3, 2: 0.7},
        )
        moved, mu = _moved(monkeypatch, make, [((X, y), options), ((X2, y2), others)])
        assert 0 < moved <= mu
    for mechanism in ("descent", "moments"):
        make = partial(DPRidge, **shared, target_bounds=[(-1, 1.5)] * 2, mechanism=mechanism)
        moved, mu = _moved(monkeypatch, make, [((X, t), options), ((X2, t2), others)])
        assert 0 < moved <= mu
