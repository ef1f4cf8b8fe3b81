"""Reports over pipelines and searches, against what each costs by hand."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, RepeatedKFold, ShuffleSplit, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPSignOPORP,
    MIDPRegressor,
    compose,
    iDPSignRP,
    privacy_report,
    reproducible_noise,
)
from skdprp.accounting import gaussian_profile
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import gaussian_scale

X, Y = load_digits(n_class=2, return_X_y=True)
X = X / 16
N = len(X)
MODEL = AMPClassifier(epsilon=0.5, delta=1e-6)
SIGNS = DPSignOPORP(16, epsilon=0.7)
NOISY = DPOPORP(16, epsilon=1.0, delta=1e-6)


def statuses(report):
    return [step.status for step in report.steps]


def assert_gaussians(total, n_releases):
    """The total of equal Gaussian sketches is that of one with sqrt(n) times the sensitivity."""
    mu = np.sqrt(n_releases) / gaussian_scale(1.0, 1e-6)
    assert total.delta == pytest.approx(n_releases * 1e-6)
    assert gaussian_profile(total.epsilon, scale=1 / mu) <= total.delta
    assert gaussian_profile(total.epsilon * 0.9999, scale=1 / mu) > total.delta


def test_a_private_model_alone():
    report = privacy_report(MODEL.fit(X, Y))
    assert report.total == report.private == MODEL.guarantee_ and statuses(report) == ["private"]


def test_a_fixed_map_before_a_private_model_costs_nothing():
    report = privacy_report(make_pipeline(Normalizer(), MODEL).fit(X, Y))
    assert statuses(report) == ["fixed map", "private"]
    assert (report.total.epsilon, report.total.delta) == (0.5, 1e-6)


@pytest.mark.parametrize("step", [GaussianRandomProjection(8), FunctionTransformer(np.sqrt), "passthrough"])
def test_maps_that_learn_nothing_keep_the_guarantee(step):
    assert privacy_report(make_pipeline(step, MODEL).fit(X, Y)).total.epsilon == 0.5


@pytest.mark.parametrize("step", [StandardScaler(), PCA(8), SelectKBest(chi2, k=8)])
def test_a_map_that_was_fitted_on_the_rows_is_not_covered_nor_is_what_follows(step):
    report = privacy_report(make_pipeline(Normalizer(), step, MODEL).fit(X, Y))
    assert statuses(report) == ["fixed map", "not covered", "not covered"]
    assert report.total is None and report.private.epsilon == 0.5
    assert "learns from the rows" in report.not_covered[0]


def test_a_model_without_privacy_has_no_total():
    report = privacy_report(make_pipeline(Normalizer(), RidgeClassifier()).fit(X, Y))
    assert report.total is None and report.private is None and "none" in repr(report)


def test_what_follows_a_sketch_is_post_processing_but_for_labels():
    report = privacy_report(make_pipeline(SIGNS, StandardScaler(), RidgeClassifier()).fit(X, Y))
    assert statuses(report) == ["private", "post-processing", "post-processing"]
    assert (report.total.epsilon, report.total.delta) == (0.7, 0.0)
    assert report.steps[1].remark == "" and "labels" in report.steps[2].remark
    assert any("labels" in text for text in report.total.not_covered)


def test_a_private_model_on_sketches_protects_labels_and_adds_nothing_for_rows():
    report = privacy_report(make_pipeline(SIGNS, MODEL).fit(X, Y))
    assert report.total.epsilon == 0.7 and report.steps[1].guarantee.epsilon == 0.5
    assert "labels" in report.steps[1].remark


def test_two_sketches_of_the_same_rows_add_up_for_the_neighbours_they_share():
    report = privacy_report(make_pipeline(make_union(SIGNS, NOISY), RidgeClassifier()).fit(X, Y))
    assert report.total.adjacency == Adjacency("coordinate", 1.0) and report.total.delta == 1e-6
    assert 1.0 < report.total.epsilon < 1.7


def test_sketches_of_parts_of_the_columns_add_up_in_closed_form():
    columns = make_column_transformer((NOISY, slice(0, 32)), (NOISY, slice(32, 64)))
    report = privacy_report(make_pipeline(columns, RidgeClassifier()).fit(X, Y))
    assert statuses(report) == ["private", "private", "post-processing"]
    assert_gaussians(report.total, 2)


def test_columns_that_pass_beside_a_sketch_are_raw_rows():
    columns = make_column_transformer((NOISY, slice(0, 32)), remainder="passthrough")
    report = privacy_report(make_pipeline(columns, RidgeClassifier()).fit(X, Y))
    assert report.total is None and report.not_covered == ("ridgeclassifier learns from the rows without noise",)


def test_dropped_columns_are_not_released():
    columns = make_column_transformer((NOISY, slice(0, 32)))
    assert_gaussians(privacy_report(make_pipeline(columns, RidgeClassifier()).fit(X, Y)).total, 1)


def test_a_scaler_beside_a_sketch_is_not_covered():
    columns = make_column_transformer((NOISY, slice(0, 32)), (StandardScaler(), slice(32, 64)))
    report = privacy_report(make_pipeline(columns, MODEL).fit(X, Y))
    assert report.total is None and statuses(report) == ["private", "not covered", "not covered"]


def test_one_against_the_rest_pays_for_every_class():
    X3, Y3 = load_digits(n_class=3, return_X_y=True)
    report = privacy_report(OneVsRestClassifier(MODEL).fit(X3, Y3))
    assert len(report.steps) == 3 and report.total.delta == 3e-6
    assert report.total == compose(*[step.guarantee for step in report.steps])
    assert 0.5 < report.total.epsilon < 1.5


def test_a_search_over_sketches_releases_candidates_times_folds_and_the_refit():
    search = GridSearchCV(make_pipeline(NOISY, RidgeClassifier()), {"ridgeclassifier__alpha": [0.1, 1]}, cv=3)
    report = privacy_report(search.fit(X, Y))
    assert report.total is None and "held-out rows" in report.not_covered[0]
    assert report.steps[1].releases == 7 and "2 candidates x 3 folds + refit" in repr(report)
    assert_gaussians(report.private, 7)


def test_a_search_over_epsilon_adds_up_every_candidate():
    search = GridSearchCV(make_pipeline(SIGNS, RidgeClassifier()), {"dpsignoporp__epsilon": [0.1, 0.4]}, cv=4)
    report = privacy_report(search.fit(X, Y))
    best = search.best_params_["dpsignoporp__epsilon"]
    assert report.private.epsilon == pytest.approx(4 * 0.1 + 4 * 0.4 + best, rel=1e-12) and report.private.delta == 0
    assert "differ" in report.steps[1].remark


@pytest.mark.parametrize(
    ("cv", "n_train", "n_splits"),
    [(None, N - 72, 5), (3, N - 120, 3), (RepeatedKFold(n_splits=3, n_repeats=2), N - 120, 6)],
)
def test_a_search_over_a_private_model_knows_the_delta_of_its_folds(cv, n_train, n_splits):
    search = GridSearchCV(AMPClassifier(), {"epsilon": [0.5, 1.0]}, cv=cv).fit(X, Y)
    private = privacy_report(search).private
    assert private.delta == pytest.approx(2 * n_splits / n_train**2 + 1 / N**2, rel=1e-12)
    assert private.epsilon <= n_splits * 1.5 + search.best_params_["epsilon"]


def test_a_random_search_with_a_fixed_delta_needs_no_sizes():
    search = RandomizedSearchCV(MODEL, {"C": [0.1, 1.0, 2.0]}, n_iter=2, cv=ShuffleSplit(2), refit=True).fit(X, Y)
    assert privacy_report(search).private.delta == pytest.approx(5e-6)


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(AMPClassifier(), {"C": [0.1, 1.0]}, cv=ShuffleSplit(2)),
        GridSearchCV(MODEL, {"C": [0.1, 1.0]}, refit=False),
    ],
)
def test_a_search_whose_candidates_cannot_be_known_says_so(search):
    report = privacy_report(search.fit(X, Y))
    assert report.total is None and "does not follow" in report.not_covered[0]


def test_a_cross_validation_pays_for_every_fold():
    results = cross_validate(MODEL, X, Y, cv=4, return_estimator=True)
    report = privacy_report(results)
    assert report.total is None and report.private == compose(*[model.guarantee_ for model in results["estimator"]])
    assert report.steps[1].releases == 4 and report.private.delta == 4e-6
    with pytest.raises(ValueError, match="return_estimator=True"):
        privacy_report(cross_validate(MODEL, X, Y))


def test_an_unknown_meta_estimator_is_not_covered():
    report = privacy_report(CalibratedClassifierCV(MODEL).fit(X, Y))
    assert report.total is None and statuses(report) == ["not covered"]


def test_a_step_that_was_not_fitted_is_an_error():
    with pytest.raises(NotFittedError, match="DPOPORP is not fitted"):
        privacy_report(make_pipeline(DPOPORP(4), RidgeClassifier()))


def test_definitions_do_not_mix():
    individual = make_pipeline(make_union(iDPSignRP(8), NOISY), RidgeClassifier()).fit(X, Y)
    with pytest.raises(ValueError, match="different definitions"):
        privacy_report(individual)
    bits = privacy_report(MIDPRegressor(epsilon=0.3).fit(X, Y))
    assert repr(bits.total) == "0.3-MI-DP (bits)"


def test_seeded_noise_is_reported():
    with reproducible_noise(0):
        search = GridSearchCV(make_pipeline(SIGNS, RidgeClassifier()), {"dpsignoporp__epsilon": [0.1]}, cv=2).fit(X, Y)
    assert privacy_report(search).private.seeded


def test_report_shows_as_text_html_and_frame():
    report = privacy_report(make_pipeline(Normalizer(), MODEL).fit(X, Y))
    for text in (repr(report), report._repr_html_(), report.frame().to_string()):
        assert "ampclassifier" in text and "(0.5, 1e-06)-DP" in text
    assert "that its solver failed" in repr(report)
