"""Attacks on sketches that were held elsewhere before: frozen behind maps, and fitted to rows that are written over."""

import time

import numpy as np
import pytest
import scipy.fft
from scipy.special import log_ndtr, ndtr
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdprp import DPOPORP, AMPClassifier, DPScaler, PrivacyLedger, PublicScaler, privacy_report
from skdprp.inspection import PrivacyUtilityDisplay
from skdprp.ledger import UnrecordedNoiseError, entry
from skdprp.mechanisms import add_laplace
from skdprp.sketch._base import BaseSketch

Y = np.arange(24) % 2


@pytest.fixture
def released(monkeypatch):
    """Projections over the scale of the noise, of each release of a sketch."""
    found, release = [], BaseSketch._release

    def noted(sketch, rows, dtype):
        found.append(sketch.projection_.project(rows) / sketch.projection_.divisor / sketch.scale_)
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", noted)
    return found


def sketch():
    return DPOPORP(8, random_state=0)


def assert_true(found, fit, a, b):
    """What is printed of private steps bounds what Gaussian noise of their sketches loses of two data sets."""
    releases = []
    for rows in (a, b):
        found.clear()
        model = fit(rows.copy())
        releases.append(list(found))
    mu = np.sqrt(sum(np.square(one - other).sum() for one, other in zip(*releases, strict=True)))
    total = privacy_report(model).private
    if total is not None and not any("that it has written over are not passed again" in t for t in total.assumptions):
        delta = ndtr(mu / 2 - total.epsilon / mu) - np.exp(total.epsilon + log_ndtr(-mu / 2 - total.epsilon / mu))
        assert delta <= total.delta, (delta, total)


def frozen_behind_a_map(rows):
    front = make_pipeline(sketch(), PCA(2)).fit(rows)
    scaler = PublicScaler((0, 100), feature_range=(0, 1))
    return make_pipeline(scaler, FrozenEstimator(front), LogisticRegression()).fit(rows, Y)


def test_what_was_frozen_before_it_stood_behind_a_map_did_not_see_rows_as_they_leave_that_map(released):
    """Its own fit sketched rows that are 50 apart, and is charged as one of rows that are half apart."""
    a = np.full((24, 8), 50.0)
    b = a.copy()
    b[0, 0] = 100.0  # half apart as rows leave the scaler
    assert_true(released, frozen_behind_a_map, a, b)


def written_over():
    return make_pipeline(FunctionTransformer(scipy.fft.dct, kw_args={"overwrite_x": True}), sketch())


def transformed_after_a_fit(rows):
    model = written_over().fit(rows)
    model.transform(rows)
    return model


def frozen_after_a_fit(rows):
    return make_pipeline(FrozenEstimator(written_over().fit(rows)), LogisticRegression()).fit(rows, Y)


@pytest.mark.parametrize("fit", [transformed_after_a_fit, frozen_after_a_fit])
def test_rows_that_a_fit_wrote_over_are_not_transformed_under_a_total_for_rows_that_left_the_map_once(fit, released):
    """Rows are 1 apart as they leave the map once, and were sketched after they had left it twice."""
    a = np.full((24, 8), 0.5)
    b = a.copy()
    b[0] += scipy.fft.idct(np.eye(8)[0])
    assert_true(released, fit, a, b)


X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(24, 6))
BESIDE_WHAT_IS_FROZEN = {
    "a model": lambda: make_pipeline(
        FrozenEstimator(DPScaler(epsilon=5.0, delta=1e-6).fit(X)), AMPClassifier(classes=[0, 1], delta=1e-6)
    ),
    "a sketch": lambda: make_pipeline(
        FeatureUnion([("a", FrozenEstimator(DPOPORP(4, epsilon=5.0).fit(X))), ("b", DPOPORP(4))]), RidgeClassifier()
    ),
}


@pytest.mark.parametrize("kind", BESIDE_WHAT_IS_FROZEN)
def test_a_curve_says_that_its_epsilon_is_not_that_of_what_is_frozen_beside(kind):
    """At an epsilon of 0.1 on the axis, the report on the same pipeline has a total of 4.85."""
    pytest.importorskip("matplotlib").use("Agg")
    model = BESIDE_WHAT_IS_FROZEN[kind]()
    options = {"epsilons": [0.1, 1.0], "cv": KFold(2, shuffle=True), "n_repeats": 1, "chance": False}
    display = PrivacyUtilityDisplay.from_estimator(model, X, Y, reference=None, **options).plot()
    varied = [name for name in model.get_params() if name.endswith("epsilon") and "frozen" not in name]
    total = privacy_report(model.set_params(**dict.fromkeys(varied, 0.1)).fit(X, Y)).total
    assert total.epsilon <= 0.1 or "alone" in display.ax_.get_xlabel(), (total, display.ax_.get_xlabel())


def planned_sketch():
    model = make_pipeline(DPOPORP(4, random_state=0), LogisticRegression())
    return model, privacy_report(model, X, Y)


def test_noise_of_no_release_of_a_plan_is_refused_however_long_the_ledger_has_been_open():
    """Numbers at an epsilon of 100 leave a block whose limit is 1, and the ledger has the plan alone."""
    _, plan = planned_sketch()
    for _ in range(8):  # ledgers of other processes, opened or closed in between, have all noise looked at
        with PrivacyLedger() as ledger:
            ledger.limit(1.0, 1e-6, adjacency=plan.private.adjacency)
            time.sleep(0.2)
            with entry(plan), pytest.raises(UnrecordedNoiseError):
                add_laplace([42.0], scale=0.01)
