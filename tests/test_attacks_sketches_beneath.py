"""Attacks beneath sketches: on the maps that rows pass before, on transformers of one's own, and on plans."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.signal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer
from sklearn.utils.validation import check_is_fitted, validate_data

from skdprp import DPOPORP, DPMoments, DPScaler, DPSignOPORP, PrivacyLedger, PublicScaler, privacy_report
from skdprp._noise import is_seeded
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.ledger import entry
from skdprp.mechanisms import add_laplace
from skdprp.moments import accuracy
from skdprp.sensitivity import moments_sensitivity
from skdprp.sketch._base import BaseSketch
from skdprp.testing import check_private_estimator, reproducible_noise

Y = np.arange(24) % 2


# Maps before a sketch


@pytest.mark.parametrize(("largest", "dtype"), [(1e300, np.float64), (9.96921e36, np.float32)])
@pytest.mark.parametrize(
    ("function", "known"),
    [
        (scipy.signal.detrend, {"axis": 1}),
        (scipy.signal.savgol_filter, {"window_length": 5, "polyorder": 2, "deriv": 2}),
    ],
)
def test_a_huge_row_does_not_change_the_signs_of_all_others(function, known, largest, dtype):
    """Least squares for all rows at once are scaled by the largest number of any row, which rounds the others anew."""
    rng, zigzag = np.random.default_rng(0), np.array([1.0, -1.0] * 4)
    lines = rng.uniform(-5, 5, (200, 1)) + rng.uniform(-1, 1, (200, 1)) * np.arange(8.0)
    tables = [np.vstack([size * zigzag, lines[1:]]).astype(dtype) for size in (1e3, largest)]
    steps = FunctionTransformer(function, kw_args=known), PublicScaler((-1, 1)), DPSignOPORP(8, random_state=0)
    model = make_pipeline(*steps).fit(tables[0])
    with np.errstate(over="ignore"):
        one, other = (model[:-1].transform(rows).astype(np.float64) for rows in tables)
    assert np.array_equal(one[0], other[0])
    total = privacy_report(model).total
    if total is not None:
        a, b = (model[-1].positive_probability(model[-1].projection_.project(rows)) for rows in (one, other))
        loss = float(np.maximum(np.log(a / b), np.log((1 - a) / (1 - b))).sum())
        assert loss <= total.epsilon


# Transformers of one's own


class Noisy(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Rows with Laplace noise, and what is wrong with them."""

    def __init__(self, *, epsilon=1.0, max_change=1.0):
        self.epsilon, self.max_change = epsilon, max_change

    def fit(self, X, y=None):
        """State the guarantee, by parameters alone."""
        vars(self).pop("guarantee_", None)
        epsilon, max_change = float(self.epsilon), float(self.max_change)
        if not 0 < epsilon < np.inf:
            raise ValueError("epsilon has to be positive and finite.")
        self._read(X, reset=True)
        self.scale_, adjacency = 1.001 * max_change / epsilon, Adjacency("l1", max_change)
        facts = {"per": "transform", "released": "noisy rows", "mechanism": "Laplace mechanism"}
        self.guarantee_ = PrivacyGuarantee(epsilon, 0.0, adjacency=adjacency, **facts)
        return self

    def transform(self, X):
        """Release rows."""
        check_is_fitted(self, "guarantee_")
        rows = self._read(X, reset=False)
        if is_seeded():
            self.guarantee_ = self.guarantee_.mark_seeded()
        with entry(self.guarantee_, type(self).__name__):
            return self._spoiled(rows, add_laplace(np.clip(rows, -10, 10), self.scale_))

    def _read(self, X, *, reset):
        try:
            rows = validate_data(self, X, dtype=np.float64, reset=reset)
        except (TypeError, ValueError):
            raise ValueError("X has to be a table of finite numbers.") from None
        if not np.isfinite(rows).all():
            raise ValueError("X has to be finite.")
        return rows

    def _spoiled(self, rows, noisy):
        return noisy


class WithAColumnAsItIs(Noisy):
    """One column has no noise."""

    def _spoiled(self, rows, noisy):
        noisy[:, 5] = rows[:, 5]
        return noisy


class WithEmptyRowsAsTheyAre(Noisy):
    """Rows of zeros have no noise."""

    def _spoiled(self, rows, noisy):
        noisy[~rows.any(axis=1)] = 0.0
        return noisy


class InOrder(Noisy):
    """The order of what is released is that of the rows."""

    def _spoiled(self, rows, noisy):
        return noisy[np.argsort(rows[:, 0])]


class PlainAtTheFit(Noisy):
    """What a pipeline fits and transforms at once has no noise."""

    def fit_transform(self, X, y=None):
        """Return rows as they are."""
        super().fit_transform(X)
        return self._read(X, reset=False)


def test_the_transformer_that_the_wrong_ones_derive_from_passes():
    """Its noise is that of its guarantee."""
    check_private_estimator(Noisy())


@pytest.mark.parametrize("kind", [WithAColumnAsItIs, WithEmptyRowsAsTheyAre, InOrder, PlainAtTheFit])
def test_the_contract_catches_what_is_released_beside_the_noise(kind):
    """Numbers without any noise tell two neighbours apart for certain."""
    with pytest.raises(AssertionError):
        check_private_estimator(kind())


# Plans


def test_a_plan_does_not_take_what_an_audit_has_refuted():
    """Without the plan, the ledger has no total."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (24, 6))
    sketch, plan = DPOPORP(4, random_state=0).fit(X), privacy_report(DPOPORP(4, random_state=0), X)
    sketch.guarantee_ = replace(sketch.guarantee_, audited_epsilon=3.0, violation="epsilon is at least 3.0")
    with PrivacyLedger() as ledger, entry(plan):
        sketch.transform(X)
    assert all(total.guarantee is None or total.guarantee.violation for total in ledger.total())


# What held


class OwnRows(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A step of one's own that releases rows, under the guarantee that it is told."""

    def __init__(self, relation="l1"):
        self.relation = relation

    def fit(self, X, y=None):
        """State the guarantee."""
        adjacency = Adjacency("l1", 1.0) if self.relation == "l1" else Adjacency("replace_one")
        self.guarantee_ = PrivacyGuarantee(1.0, 0.0, adjacency=adjacency, per="transform")
        return self

    def transform(self, X):
        """Release rows."""
        return SEEN.release(X, 3)


class Seen(list):
    """What reaches each release, and numbers that are the same whatever that is."""

    def release(self, rows, n_columns):
        """Note the rows, and return numbers that they do not decide."""
        self.append(np.array(rows, dtype=np.float64))
        return np.random.default_rng(len(self)).normal(size=(len(rows), n_columns))


SEEN = Seen()


def models_of_ones_own(rng):
    """Yield composites of sketches and steps of one's own, any of which may stand behind another."""

    def step(depth):
        kinds = [OwnRows(), OwnRows("replace_one"), DPOPORP(3, random_state=0), PublicScaler((-1, 1)), Normalizer()]
        choice = rng.integers(8) if depth else rng.integers(5)
        if choice < 5:
            return kinds[choice]
        if choice == 5:
            return FeatureUnion([("a", step(depth - 1)), ("b", step(depth - 1))])
        if choice == 6:
            return make_pipeline(step(depth - 1), step(depth - 1))
        return VotingClassifier([("a", make_pipeline(step(depth - 1), GaussianNB()))])

    while True:
        yield make_pipeline(*(step(2) for _ in range(rng.integers(1, 4))), LogisticRegression())


@pytest.mark.parametrize("seed", range(2))
def test_steps_of_ones_own_and_sketches_release_rows_as_often_as_is_charged(seed, monkeypatch):
    """Calls that see other rows of another table are releases; what is learnt behind them is the same."""
    monkeypatch.setattr(BaseSketch, "_release", lambda sketch, X, dtype: SEEN.release(X, sketch._n_features_out))
    monkeypatch.setattr("skdprp.sketch._base.warn_at_caller", lambda message, category: None)  # of few columns
    rng = np.random.default_rng(seed)
    tables, n_totals = rng.uniform(-1, 1, (2, 24, 4)), 0
    for model, _ in zip(models_of_ones_own(rng), range(40), strict=False):
        calls, fitted = [], []
        for rows in tables:
            SEEN.clear()
            with reproducible_noise(0):
                fitted.append(copy.deepcopy(model).fit(rows, Y))
            calls.append(list(SEEN))
        report = privacy_report(fitted[0])
        if report.private is not None:
            released = sum(not np.array_equal(one, other) for one, other in zip(*calls, strict=True))
            assert released <= sum(line.calls for line in report.steps), model
        if report.total is not None:
            n_totals += 1
            assert np.array_equal(fitted[0][-1].coef_, fitted[1][-1].coef_), model
    assert n_totals > 5


@pytest.mark.parametrize("grouped", [False, True])
def test_no_two_rows_and_no_two_persons_move_moments_further_than_their_sensitivity(grouped):
    """Rows of the largest norm, beyond it and of none, of persons with any number of rows, dense and sparse."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(150):
        d, norm, bounds = rng.integers(1, 5), 10.0 ** rng.integers(-2, 3), (None, (-1.0, 7.0))[rng.integers(2)]
        others, sums = rng.normal(size=(6, d)) * norm, []
        for _ in range(2):
            n_rows = rng.choice([1, 2, 7, 50]) if grouped else 1
            rows = rng.normal(size=(n_rows, d)) * norm
            kind = rng.integers(3)
            if kind < 2:
                rows = np.tile(np.eye(d)[[0, -1][kind]] * norm * rng.choice([-1.0, 1.0, 1e100]), (n_rows, 1))
            X, y = np.vstack([others, rows]), np.append(np.zeros(6), np.full(n_rows, rng.choice([-1e9, 0.0, 1e9])))
            groups = np.append(np.arange(6), np.full(n_rows, 6)) if grouped else None
            model = DPMoments(max_norm=float(norm), target_bounds=bounds)
            n_samples, columns, total, *_ = model._sum([(X, None if bounds is None else y, groups)])
            sums.append(total)
        bound = moments_sensitivity(accuracy=accuracy(n_samples, columns))
        worst = max(worst, np.linalg.norm(sums[0] - sums[1]) / bound)
    assert 0.9 < worst <= 1


def test_sketches_behind_a_private_scaler_have_no_total_and_rows_of_ones_own_do():
    """Neighbours at a distance move with the scaler, those with another row do not."""
    X = np.random.default_rng(0).uniform(-1, 1, (24, 4))
    scaler = DPScaler(bounds=(-1, 1), n_cells=4, delta=1e-6)
    assert privacy_report(make_pipeline(scaler, DPOPORP(3), GaussianNB()).fit(X, Y)).total is None
    total = privacy_report(make_pipeline(scaler, OwnRows("replace_one"), GaussianNB()).fit(X, Y)).total
    assert total.epsilon > 1 and total.given == "all labels"
