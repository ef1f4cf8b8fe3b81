"""Reports over pipelines and searches, against what each costs by hand."""

import dataclasses
import functools
import html
import re

import numpy as np
import pandas as pd
import polars
import pytest
from public import DATA_INDEPENDENT, PRIVATE, SKETCHES, unlisted
from scipy import special
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import RFE, RFECV, SelectKBest, chi2, f_classif
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPScaler,
    DPSignOPORP,
    MIDPRegressor,
    PublicBinner,
    PublicScaler,
    compose,
    iDPSignRP,
    load_model,
    privacy_report,
    save_model,
)
from skdprp._printing import guarantee_facts
from skdprp.audit import AuditResult
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import gaussian_profile, gaussian_scale
from skdprp.report import _data_independent
from skdprp.report._data_independent import is_data_independent, map_label
from skdprp.report._structure import holds_private
from skdprp.testing import reproducible_noise

X, Y = load_digits(n_class=2, return_X_y=True)
X = X / 16
MODEL = AMPClassifier(epsilon=0.5, delta=1e-6)
SIGNS = DPSignOPORP(16, epsilon=0.7)
NOISY = DPOPORP(16, epsilon=1.0, delta=1e-6)


def unwrapped(report):
    """What a report prints, in one line."""
    return " ".join(repr(report).split())


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
    assert statuses(report) == ["private"]
    *assumptions, once, _, _, alone, unchosen = report.total.assumptions
    assert "each further fit is one release more" in once and "no store or hook" in alone
    assert MODEL.guarantee_.assumptions == tuple(assumptions) and "no search" in unchosen
    stated = dataclasses.replace(MODEL.guarantee_, per=None, assumptions=report.total.assumptions)
    assert report.total == report.private == stated


def test_a_total_says_once_that_further_fits_are_releases():
    """A second fit leaves no trace: the same total was stated for both. Sketches release at transform, and say that."""
    again = "each further fit is one release more"
    model = make_pipeline(DPPCA(2, epsilon=0.5, delta=1e-6), clone(MODEL))
    for report in (privacy_report(model, X, Y), privacy_report(model.fit(X, Y).fit(X, Y))):
        assert report.total.epsilon <= 1.0 and " ".join(repr(report).split()).count(again) == 1
        assert report.total.to_markdown().count(again) == 1
    sketched = privacy_report(make_pipeline(NOISY, RidgeClassifier()).fit(X, Y)).total.to_markdown()
    assert again not in sketched and sketched.count("is one release more") == 1


def test_a_fixed_map_before_a_private_model_costs_nothing():
    report = privacy_report(make_pipeline(Normalizer(), MODEL).fit(X, Y))
    assert statuses(report) == ["data-independent", "private"]
    assert (report.total.epsilon, report.total.delta) == (0.5, 1e-6)


CONSTANT = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)


@pytest.mark.parametrize(
    "step", [GaussianRandomProjection(8), RBFSampler(gamma=0.1), FunctionTransformer(np.sqrt), CONSTANT]
)
def test_maps_that_learn_nothing_keep_the_guarantee(step):
    assert privacy_report(make_pipeline(step, MODEL).fit(X, Y)).total.epsilon == 0.5


@pytest.mark.parametrize("step", [StandardScaler(), SimpleImputer(), PCA(8), SelectKBest(chi2, k=8)])
def test_a_map_that_was_fitted_on_the_rows_is_not_covered_nor_is_what_follows(step):
    report = privacy_report(make_pipeline(Normalizer(), step, MODEL).fit(X, Y))
    assert statuses(report) == ["data-independent", "not covered", "not covered"]
    assert report.total is None and report.private.epsilon == 0.5
    assert "learns from the rows" in report.not_covered[0]


def test_a_model_without_privacy_has_no_total():
    report = privacy_report(make_pipeline(Normalizer(), RidgeClassifier()).fit(X, Y))
    assert report.total is None and report.private is None and "none" in repr(report)


def test_what_follows_a_sketch_is_post_processing_but_for_labels():
    report = privacy_report(make_pipeline(SIGNS, StandardScaler(), RidgeClassifier()).fit(X, Y))
    assert statuses(report) == ["private", "post-processing", "post-processing"]
    assert (report.total.epsilon, report.total.delta) == (0.7, 0.0)
    assert "labels" in report.steps[1].remark and "labels" in report.steps[2].remark
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
    columns = make_column_transformer((NOISY, slice(0, 32)), remainder="passthrough", sparse_threshold=0)
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
    total = compose(*[step.guarantee for step in report.steps])
    assert set(total.assumptions) < set(report.total.assumptions) and report.total.given == "the set of labels"
    facts = {"assumptions": total.assumptions, "given": total.given}
    assert dataclasses.replace(report.total, **facts) == total
    assert 0.5 < report.total.epsilon < 1.5


def test_a_fixed_threshold_is_post_processing():
    """It is public, and what it is a threshold of follows from the released weights."""
    report = privacy_report(FixedThresholdClassifier(MODEL, threshold=0.3).fit(X, Y))
    assert [step.step for step in report.steps] == ["fixedthresholdclassifier.estimator"]
    assert (report.total.epsilon, report.total.delta) == (0.5, 1e-6)


def test_a_search_over_sketches_releases_candidates_times_folds_and_the_refit():
    search = GridSearchCV(make_pipeline(NOISY, RidgeClassifier()), {"ridgeclassifier__alpha": [0.1, 1]}, cv=3)
    report = privacy_report(search.fit(X, Y))
    assert report.total is None and "held-out rows" in report.not_covered[0]
    assert report.steps[1].releases == 7 and "2 candidates x 3 folds + refit" in repr(report)
    assert_gaussians(report.private, 7)


def test_a_search_over_epsilon_adds_up_every_candidate():
    search = GridSearchCV(make_pipeline(SIGNS, RidgeClassifier()), {"dpsignoporp__epsilon": [0.1, 0.4]}, cv=4)
    report = privacy_report(search.fit(X, Y))
    assert report.private.epsilon == pytest.approx(4 * 0.1 + 4 * 0.4 + 0.4, rel=1e-12) and report.private.delta == 0
    assert "differ" in report.steps[1].remark
    assert report.total is None and any("scores" in reason for reason in report.not_covered)


def test_an_unknown_meta_estimator_is_not_covered():
    report = privacy_report(CalibratedClassifierCV(MODEL).fit(X, Y))
    assert report.total is None and statuses(report) == ["not covered"]


def test_a_step_that_was_not_fitted_is_an_error():
    with pytest.raises(NotFittedError, match="DPOPORP is not fitted"):
        privacy_report(make_pipeline(DPOPORP(4), RidgeClassifier()))


def test_definitions_do_not_mix():
    report = privacy_report(make_pipeline(make_union(iDPSignRP(8), NOISY), RidgeClassifier()).fit(X, Y))
    assert report.total is None and "different definitions" in report.not_covered[0]
    alone = privacy_report(make_pipeline(iDPSignRP(8), RidgeClassifier()).fit(X, Y))
    assert alone.total.definition == "individual DP"
    bits = privacy_report(MIDPRegressor(epsilon=0.3).fit(X, Y))
    assert repr(bits.total) == "0.3-MI-DP (bits), one entry of at most 1.0"


def test_seeded_noise_is_reported():
    with reproducible_noise(0):
        search = GridSearchCV(make_pipeline(SIGNS, RidgeClassifier()), {"dpsignoporp__epsilon": [0.1]}, cv=2).fit(X, Y)
    assert privacy_report(search).private.seeded


def test_report_shows_as_text_html_and_frame():
    report = privacy_report(make_pipeline(Normalizer(), MODEL).fit(X, Y))
    for text in (repr(report), report._repr_html_(), report.frame().to_string()):
        assert "ampclassifier" in text and "(0.5, 1e-06)-DP" in text
    assert "released coef_, intercept_" in unwrapped(report)
    assert "given both neighbours have the set of labels in common" in unwrapped(report)


def test_all_data_independent_steps_are_printed_in_one_line_with_what_is_to_be_known_of_them():
    steps = {f"step{number}": Normalizer() for number in range(3)} | {"scaler": PublicScaler((0, 1)), "model": MODEL}
    report = privacy_report(Pipeline(list(steps.items())).fit(X, Y))
    assert statuses(report) == ["data-independent"] * 4 + ["private"]
    _, table, details = repr(report).split("\n\n")
    assert len(table.splitlines()) == 2 and table.splitlines()[1].startswith("model")
    assert " ".join(details.split()).startswith(
        "remarks - model: anew at each call of fit "
        f"data-independent - step0, step1, step2: learns nothing from the rows{WARNS}{SPREADS} "
        "- scaler: you state that its bounds do not come from the rows neighbours "
    )


def test_a_printed_report_is_no_wider_than_120_columns_and_loses_nothing():
    """Remarks were a column of the table, which was some 300 characters wide."""
    columns = make_column_transformer((make_pipeline(StandardScaler(), DPPCA(2)), [0, 1, 2]), (DPBinner(4), [4, 5]))
    search = GridSearchCV(
        make_pipeline(PublicScaler((0, 1)), NOISY, RidgeClassifier()), {"dpoporp__epsilon": [1.0, 2.0]}, cv=KFold(3)
    )
    for model in (make_pipeline(columns, AMPClassifier()), make_pipeline(DPScaler(bounds=(-1, 1)), SIGNS), search):
        report = privacy_report(model.fit(X, Y))
        _, table, details = repr(report).split("\n\n")
        assert max(map(len, repr(report).splitlines())) <= 120
        shown = [step for step in report.steps if step.status != "data-independent"]
        names = [re.escape(step.step) for step in shown]
        assert re.findall(r"^\S+", table, flags=re.MULTILINE)[1:] == [step.step for step in shown]
        for step, text in zip(shown, re.split(rf"^(?:{'|'.join(names)}) ", table, flags=re.MULTILINE)[1:], strict=True):
            assert " ".join(text.split()) == " ".join(" ".join(step.cells()[1:-1]).split())
        told = " ".join(details.split())
        for step in shown:
            names, remark = re.escape(step.step), re.escape(step.remark)
            assert not remark or re.search(rf"- ([\w., ]+, )?{names}(, [\w., ]+)?: {remark}", told)
            assert html.escape(step.remark) in report._repr_html_()


def test_the_total_is_printed_first_and_nothing_twice():
    """Of two private steps, each of which assumes and leaves out what the other does."""
    report = privacy_report(make_pipeline(DPScaler(bounds=(-1, 1)), clone(MODEL)).fit(X, Y))
    text, page = repr(report), report._repr_html_()
    assert text.startswith(f"total {' ' * (text.index('(') - 6)}{report.total!r}\n")
    assert page.index(">total</th>") < page.index(">step</th>") < page.index(">assumed</th>")
    items = [" ".join(item.split()) for item in re.findall(r" - (.+(?:\n {4,}[^- ].*)*)", text)]
    assert len(items) > 8 and len(set(items)) == len(items)
    for once in ("is public", "raised an error", "the running time", "no preceding step was fitted on"):
        assert sum(once in item for item in items if "types" not in item) == 1


@pytest.mark.parametrize("step", [FunctionTransformer(np.square), PolynomialFeatures(2), Normalizer()])
def test_after_a_fixed_map_neighbours_are_rows_as_they_leave_it(step):
    report = privacy_report(make_pipeline(step, NOISY, RidgeClassifier()).fit(X, Y))
    name = type(step).__name__.lower()
    assert report.total.adjacency == Adjacency("l1", 1.0, after=map_label(name, step))
    assert f"as they leave {name}" in unwrapped(report)
    assert privacy_report(make_pipeline(step, MODEL).fit(X, Y)).total.adjacency == Adjacency("replace_one")


def test_distances_before_and_after_a_map_do_not_compose():
    union = make_union(NOISY, make_pipeline(FunctionTransformer(lambda Z: 100 * Z), NOISY))
    report = privacy_report(make_pipeline(union, RidgeClassifier()).fit(X, Y))
    assert report.total is None and report.private is None and "different neighbours" in report.not_covered[0]


def test_a_model_that_keeps_its_rows_is_not_covered_though_it_needs_no_fit():
    members = [("a", MIDPRegressor(epsilon=0.3)), ("b", GaussianProcessRegressor())]
    assert privacy_report(VotingRegressor(members).fit(X[:50], Y[:50])).total is None


def test_columns_chosen_in_view_of_the_rows_are_not_covered():
    columns = make_column_transformer((NOISY, lambda Z: np.flatnonzero(Z.var(axis=0) > 0.05)))
    report = privacy_report(make_pipeline(columns, RidgeClassifier()).fit(X, Y))
    assert (
        report.total is None
        and "columntransformer chooses columns in view of the rows: list them" in report.not_covered[0]
    )


@pytest.mark.parametrize(
    ("choice", "is_covered"),
    [({"pattern": "^a"}, True), ({"dtype_include": "float"}, False), ({"dtype_exclude": "int"}, False)],
)
def test_columns_are_chosen_by_name_and_not_by_type(choice, is_covered):
    rows = pd.DataFrame(X[:, 20:23], columns=["a", "ab", "b"])
    columns = make_column_transformer((PublicScaler((0, 16)), make_column_selector(**choice)), sparse_threshold=0)
    report = privacy_report(make_pipeline(columns, MODEL).fit(rows, Y))
    assert (report.total is not None) == is_covered == ("list them" not in "".join(report.not_covered))


@pytest.mark.parametrize(
    ("step", "cure"),
    [
        (OneHotEncoder(categories=[[0, 1]], handle_unknown="warn"), "drop=None"),
        (OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore", drop="first"), "drop=None"),
        (OneHotEncoder(categories=[[0, 1]], drop="first"), "drop=None"),
        (OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"), ""),
        (FunctionTransformer(np.square, np.sqrt), "check_inverse=False"),
        (FunctionTransformer(np.square, np.sqrt, check_inverse=False), ""),
        (FunctionTransformer(np.square), ""),
        (FunctionTransformer(None, np.sqrt), ""),
    ],
)
def test_warnings_of_a_row_are_remarked_on(step, cure):
    remark = privacy_report(step).steps[0].remark
    assert ((" warns" in remark or "quote" in remark) == bool(cure)) and cure in remark
    assert "warnings and errors of it may tell of a row" in remark
    assert "warnings" not in privacy_report(PublicScaler((0, 1))).steps[0].remark


def test_the_guarantee_of_a_model_after_a_sketch_is_for_labels_if_they_may_differ():
    for model, remark in (
        (AMPClassifier(classes=[0, 1]), "its guarantee is for the labels"),
        (MIDPRegressor(epsilon=0.3), "its guarantee is not one for labels"),
    ):
        assert privacy_report(make_pipeline(NOISY, model).fit(X, Y)).steps[1].remark == remark


def test_a_trusted_function_is_an_assumption():
    report = privacy_report(make_pipeline(FunctionTransformer(np.sqrt), MODEL).fit(X, Y))
    assert (
        "functiontransformer: transforms rows one by one, and equal rows alike however they are stored; "
        "no row decides the output type; dask rows have a fixed order" in report.total.assumptions
    )


def halved(values):
    return values / 2


def test_functions_are_assumed_to_apply_no_model_on_either_side_of_a_sketch():
    """What they load from a file nobody sees, and it leaves with what they return."""
    assumption = "functiontransformer: applies no model that was fitted on these rows"
    for steps in ((FunctionTransformer(halved), NOISY), (NOISY, FunctionTransformer(halved))):
        assert assumption in privacy_report(make_pipeline(*steps).fit(X, Y)).total.assumptions
    assert (
        assumption not in privacy_report(make_pipeline(NOISY, FunctionTransformer(np.sign)).fit(X, Y)).total.assumptions
    )


def halved_by(table, column):
    return table.select(column(polars.Float64) / 2)


def halved_by_polars(table):
    return table.select(polars.col(polars.Float64) / 2)


def test_functions_may_use_what_has_every_attribute():
    """As `polars.col` does, which was asked whether it is fitted, and for its parameters."""
    table = polars.DataFrame(X)
    plain = make_pipeline(FunctionTransformer(halved_by_polars), clone(MODEL))
    given = make_pipeline(FunctionTransformer(halved_by, kw_args={"column": polars.col}), clone(MODEL))
    for report in (privacy_report(plain, table, Y), *(privacy_report(one.fit(table, Y)) for one in (plain, given))):
        assert report.total.epsilon == MODEL.epsilon


@pytest.mark.parametrize("name", ["released", "rows"])
def test_names_of_steps_mean_nothing(name):
    pipeline = Pipeline([(name, StandardScaler()), ("model", MODEL)]).fit(X, Y)
    assert privacy_report(pipeline).total is None and statuses(privacy_report(pipeline)) == ["not covered"] * 2


def test_labels_that_a_step_before_the_model_has_seen_are_not_protected_by_it():
    report = privacy_report(make_pipeline(SIGNS, SelectKBest(f_classif, k=4), MODEL).fit(X, Y))
    assert "void for the labels: selectkbest" in report.steps[2].remark


def test_a_search_on_released_sketches_is_post_processing():
    search = GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0]}, cv=3)
    report = privacy_report(make_pipeline(NOISY, search).fit(X, Y))
    assert statuses(report) == ["private", "post-processing"]
    assert_gaussians(report.total, 1)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (OneVsRestClassifier(MODEL), {"estimator__C": [0.1, 1.0]}),
        (GridSearchCV(MODEL, {"C": [0.1, 1.0]}, cv=KFold(2)), {"estimator__tol": [1e-8]}),
        (MODEL, {"epsilon": [-5.0, 1.0]}),
        (make_pipeline(NOISY, RidgeClassifier()), {"dpoporp__noise": ["gaussian", "wrong"]}),
        (AMPClassifier(delta=1e-6, epsilon=0.5), {"calibration": ["exact", "published"]}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_search_with_a_candidate_of_unknown_guarantee_states_no_sum(model, grid):
    report = privacy_report(GridSearchCV(model, grid, cv=KFold(3)).fit(X, Y))
    assert report.total is None and report.private is None and "does not follow" in report.not_covered[0]


def test_a_report_leaves_the_parameters_of_a_search_alone():
    own = DPOPORP(8, epsilon=2.0)
    search = GridSearchCV(make_pipeline(NOISY, RidgeClassifier()), {"dpoporp": [own], "dpoporp__epsilon": [1.0]}, cv=3)
    privacy_report(search.fit(X, Y))
    assert not hasattr(own, "guarantee_") and own.epsilon == 2.0


def test_reports_look_into_frozen_estimators_and_not_into_other_results():
    assert privacy_report(FrozenEstimator(make_pipeline(NOISY, RidgeClassifier()).fit(X, Y))).total.epsilon == 1.0
    assert privacy_report(RFECV(RidgeClassifier(), cv=2, step=32).fit(X, Y)).total is None


def test_columns_of_none_are_skipped():
    columns = make_column_transformer((NOISY, slice(0, 64)), (StandardScaler(), []))
    assert_gaussians(privacy_report(make_pipeline(columns, RidgeClassifier()).fit(X, Y)).total, 1)


@pytest.mark.parametrize("thing", [3, None, [1, 2]])
def test_what_is_no_estimator_is_refused(thing):
    with pytest.raises(TypeError, match="Reports are about estimators"):
        privacy_report(thing)


def test_a_loaded_model_is_no_estimator_and_the_error_says_where_that_is(tmp_path):
    save_model(tmp_path / "model.npz", AMPClassifier(classes=[0, 1]).fit(X[:, :4], Y))
    saved = load_model(tmp_path / "model.npz")
    with pytest.raises(TypeError, match=r"not SavedModel: pass saved\.estimator\."):
        privacy_report(saved)


def audited(estimator, hits):
    """Attach the result of an audit in which an attack was right so often."""
    counts = {"n_tested": 1000, "hits": hits, "false_alarms": 100, "distinguisher": "linear", "accused": "b"}
    result = AuditResult(0.0, 0.0, 0.99, n_trials=2000, **counts)
    estimator.guarantee_ = result.attach_to(estimator.guarantee_)
    return estimator


@pytest.mark.parametrize("hits", [100, 950])
def test_a_step_that_an_audit_refuted_is_not_covered(hits):
    pipeline = make_pipeline(clone(SIGNS), RidgeClassifier()).fit(X, Y)
    audited(pipeline[0], hits)
    report = privacy_report(pipeline)
    assert (report.total is None) == ("not covered" in statuses(report)) == (hits == 950)
    for text in (repr(report), report._repr_html_(), report.frame().to_string()):
        assert ("VIOLATED by an audit" in text) == (" [VIOLATED: epsilon is at least 2." in text) == (hits == 950)
    assert bool(report.private.violation) == (hits == 950)


def test_a_refuted_step_voids_what_it_is_part_of():
    union = make_union(clone(SIGNS), clone(NOISY)).fit(X, Y)
    audited(union.transformer_list[0][1], 950)
    report = privacy_report(make_pipeline(FrozenEstimator(union), RidgeClassifier()).fit(X, Y))
    assert report.total is None and statuses(report)[:2] == ["not covered", "private"]
    assert "dpsignoporp is VIOLATED by an audit: epsilon is at least 2." in report.not_covered[0]
    assert "VIOLATED" in repr(report.private)


def test_class_is_no_estimator():
    with pytest.raises(TypeError, match=r"AMPClassifier\(\)\.fit"):
        privacy_report(AMPClassifier)


def test_search_without_refit_is_told_to_refit():
    report = privacy_report(GridSearchCV(MODEL, {"C": [0.1, 1.0]}, refit=False, cv=2).fit(X, Y))
    assert report.total is None and "search with refit=True" in repr(report)


class Mystery(BaseEstimator):
    """An estimator that the report does not know."""


WARNS = "; warnings and errors of it may tell of a row"
SPREADS = "; one change before it may move several coordinates after it"


@pytest.mark.parametrize(
    ("step", "remark"),
    [
        (StandardScaler(), "learns from the rows without noise; use PublicScaler or DPScaler"),
        (OneHotEncoder(), "learns from the rows without noise; list its categories, or use DPBinner"),
        (OneHotEncoder(categories=[[0, 1]], min_frequency=2), "leave out min_frequency and max_categories"),
        (SimpleImputer(strategy="constant"), "set keep_empty_features=True"),
        (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), "leave out add_indicator"),
        (SimpleImputer(), 'set strategy="constant", keep_empty_features=True'),
        (CountVectorizer(), "use HashingVectorizer"),
        (PCA(), "learns from the rows without noise"),
        (KBinsDiscretizer(), "learns from the rows without noise; use PublicBinner or DPBinner"),
        (SplineTransformer(), "learns from the rows without noise; give its knots"),
        (RBFSampler(gamma="scale"), "learns from the rows without noise; give its gamma as a number"),
        (RBFSampler(), f"learns nothing from the rows{WARNS}{SPREADS}"),
        (Nystroem(), "learns from the rows without noise; use RBFSampler"),
        (TunedThresholdClassifierCV(MODEL), "learns from the rows without noise; use FixedThresholdClassifier"),
        (RFE(MODEL), "keeps the last: a PrivacyLedger counts them all"),
        (SplineTransformer(knots=[[0], [1]]), f"learns nothing from the rows{WARNS}{SPREADS}"),
        (Mystery(), "may learn from the rows without noise"),
        (Normalizer(), f"learns nothing from the rows{WARNS}{SPREADS}"),
        (OneHotEncoder(categories=[[0, 1]]), "move several coordinates after it"),
        (FeatureHasher(), "move several coordinates after it"),
        (OrdinalEncoder(categories=[[0, 1]]), f"use handle_unknown='use_encoded_value'{WARNS}"),
        (PublicScaler((0, 1)), "you state that its bounds do not come from the rows"),
        (PublicBinner((0, 1)), f"you state that its edges do not come from the rows{SPREADS}"),
        (PublicBinner((0, 1), encode="ordinal"), "you state that its edges do not come from the rows"),
        (
            SimpleImputer(strategy="constant", keep_empty_features=True),
            f"the types of numbers that it gives, which a missing value may change, are trusted to be public{WARNS}",
        ),
        (HashingVectorizer(), f"learns nothing from the rows{WARNS}{SPREADS}"),
        (
            HashingVectorizer(tokenizer=str.split),
            f"is trusted to treat each row by itself, and to publish nothing{WARNS}{SPREADS}",
        ),
    ],
)
def test_remarks_name_the_cure(step, remark):
    """The ends are compared, so that a remark without a cure has none."""
    assert privacy_report(step).steps[0].remark.endswith(remark)


def test_a_sketch_after_a_private_map_is_told_which_step_to_move():
    """It was told to "put it first", and nobody knew which."""
    report = privacy_report(make_pipeline(DPScaler(bounds=(-1, 1)), DPOPORP(2), RidgeClassifier()).fit(X, Y))
    cure = "put dpoporp before dpscaler, or a data-independent step in place of dpscaler"
    assert report.total is None and report.not_covered[0].endswith(cure) and report.steps[1].remark.endswith(cure)
    for cured in ((DPOPORP(2), DPScaler(bounds=(-1, 1))), (PublicScaler((0, 1)), DPOPORP(2))):
        assert privacy_report(make_pipeline(*cured, RidgeClassifier()).fit(X, Y)).total is not None


def test_maps_of_what_was_released_move_nothing_private():
    model = make_pipeline(DPOPORP(2), Normalizer(), RidgeClassifier()).fit(X, Y)
    remark = privacy_report(model).steps[1].remark
    assert "several coordinates" not in remark and "warnings" not in remark


def test_names_of_facts_are_those_of_the_guarantee():
    """What no step covers and what the guarantee leaves out stand under one name."""
    report = privacy_report(make_pipeline(StandardScaler(), MODEL).fit(X, Y))
    facts, (totals, _, printed) = report._details(), repr(report).split("\n\n")
    assert set(facts) - {"counted"} <= set(guarantee_facts(report.private))
    assert "standardscaler learns from the rows without noise" in facts["not covered"]
    assert "the running time" in facts["not covered"] and totals.startswith(
        "total                none\nprivate steps alone  ("
    )
    assert max(map(len, printed.splitlines())) <= 100


class _LearnedBounds(PublicScaler):
    def fit(self, X, y=None):
        self.bounds = np.column_stack([X.min(axis=0), X.max(axis=0) + 1])
        return super().fit(X)


class _LearnedCategories(OneHotEncoder):
    def fit(self, X, y=None):
        self.categories = [np.unique(column) for column in X.T]
        return super().fit(X)


FITTED = clone(MODEL).set_params(classes=[0, 1]).fit(X, Y)


@dataclasses.dataclass(slots=True)
class _Scores:
    by: object

    def __call__(self, rows):
        return self.by.predict_proba(rows)


def _closure(model):
    return lambda rows: model.predict_proba(rows)


@pytest.mark.parametrize(
    "function",
    [
        FITTED.predict_proba,
        lambda rows: FITTED.predict_proba(rows),
        lambda rows, by=FITTED: by.predict_proba(rows),
        _closure(FITTED),
        _Scores(FITTED),
        functools.partial(_Scores.__call__, _Scores(np.array([FITTED, None]))),
    ],
)
def test_no_total_where_a_function_applies_a_private_model(function):
    """Which may have been fitted on the same rows, wherever the function has it from."""
    step = FunctionTransformer(function)
    assert holds_private(step) and not holds_private(FunctionTransformer(_closure(StandardScaler())))
    if not isinstance(function, functools.partial):
        report = privacy_report(make_pipeline(step, MODEL).fit(X, Y))
        assert report.total is report.private is None and "compose()" in report.not_covered[0]


class _Centring(FunctionTransformer):
    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


class _Widest(make_column_selector):
    def __call__(self, table):
        return list(table.columns[table.max() > 0.9])


LISTED = [list(range(17))] * X.shape[1]
KNOTS = np.tile([[0], [8], [16]], X.shape[1])


@pytest.mark.parametrize("extrapolation", ["constant", "linear", "continue", "periodic"])
def test_splines_of_given_knots_are_data_independent(extrapolation):
    splines = SplineTransformer(knots=KNOTS, degree=2, extrapolation=extrapolation)
    for one, is_covered in ((splines, True), (SplineTransformer(3, knots="uniform"), False)):
        report = privacy_report(make_pipeline(one, MODEL).fit(16 * X, Y))
        assert (report.total is not None) == is_covered
        assert report.steps[0].status == ("data-independent" if is_covered else "not covered")


@pytest.mark.parametrize(
    "step",
    [
        _LearnedBounds((0, 1)),
        _LearnedCategories(categories=LISTED, handle_unknown="ignore"),
        _Centring(),
        make_column_transformer((PublicScaler((0, 1)), _Widest())),
    ],
)
def test_subclasses_may_learn_whatever_they_inherit_from(step):
    rows = pd.DataFrame(X) if hasattr(step, "transformers") else X
    report = privacy_report(make_pipeline(step, MODEL).fit(rows, Y))
    assert report.total is None and re.search("learns? from the rows|in view of the rows", report.not_covered[0])


CHANGED_LATER = [
    (OneHotEncoder(handle_unknown="ignore"), {"categories": LISTED}),
    (OneHotEncoder(categories=LISTED, handle_unknown="ignore", min_frequency=50), {"min_frequency": None}),
    (SimpleImputer(), {"strategy": "constant", "keep_empty_features": True}),
    (SimpleImputer(add_indicator=True), {"strategy": "constant", "fill_value": 0.0, "add_indicator": False}),
    (SplineTransformer(4), {"knots": np.tile([[0], [0.5], [1]], X.shape[1])}),
    (SplineTransformer(4), {"knots": [[0], [1]]}),
    (RBFSampler(gamma="scale"), {"gamma": 1.0}),
    (SplineTransformer(knots=KNOTS), {"degree": 1}),
    (PublicScaler((0, 1)), {"feature_range": (-5, 5)}),
    (PublicScaler((0, 1)), {"bounds": (0, 2)}),
    (PublicScaler((0, 1)), {"bounds": [(0, 1)]}),
    (PublicScaler((0, 1)), {"fill": 0.5}),
    (PublicBinner((0, 1)), {"n_bins": 5}),
    (PublicBinner((0, 1)), {"edges": [0, 1]}),
    (PublicBinner((0, 1)), {"bounds": None, "edges": [0, 1]}),
    (PublicBinner((0, 1)), {"encode": "ordinal"}),
    (PublicBinner((0, 1)), {"missing": "error"}),
]


def test_what_each_step_of_the_library_does_is_listed():
    """Whether a step is a map, what is trusted of it, and whether its zeros tell of the values."""
    assert not unlisted(DATA_INDEPENDENT, _data_independent.PUBLIC), "add it to PUBLIC of report/_data_independent.py"
    assert not unlisted(DATA_INDEPENDENT, _data_independent._TRUST), "say in _TRUST what its parameters are trusted for"
    changed = {(type(step).__name__, name) for step, known in CHANGED_LATER for name in known}
    named = {(kind.__name__, name) for kind in DATA_INDEPENDENT for name in kind._parameter_constraints}
    of_form = {("PublicBinner", "dtype"), ("PublicBinner", "sparse_output")}  # which change no number
    assert named - of_form <= changed, "add each of its parameters to CHANGED_LATER of tests/test_report.py"
    steps = {kind for kind in PRIVATE - SKETCHES if hasattr(kind, "transform")}
    new = "add it to _PRIVATE of report/_data_independent.py, or leave it out here if its zeros tell of the values"
    assert not unlisted(steps, _data_independent._PRIVATE), new


@pytest.mark.parametrize(("step", "changed"), CHANGED_LATER)
def test_parameters_that_were_changed_after_fit_do_not_make_a_map_fixed(step, changed):
    pipeline = make_pipeline(clone(step), clone(MODEL)).fit((16 * X).astype(int), Y)
    pipeline[0].set_params(**changed)
    assert privacy_report(pipeline).total is None and statuses(privacy_report(pipeline))[0] == "not covered"


def test_listed_categories_that_the_type_of_the_rows_has_changed_are_not_fixed():
    encoder = OneHotEncoder(categories=[[0.5, 1.0]], handle_unknown="ignore")
    totals = [privacy_report(make_pipeline(encoder, MODEL).fit(Y[:, None].astype(t), Y)).total for t in (int, float)]
    assert totals[0] is None and totals[1].epsilon == 0.5


@pytest.mark.parametrize("encoder", [OneHotEncoder(categories=LISTED), OrdinalEncoder(categories=LISTED)])
def test_encoders_that_quote_unknown_values_are_remarked_on(encoder):
    report = privacy_report(make_pipeline(encoder, MODEL).fit((16 * X).astype(int), Y))
    assert report.total.epsilon == 0.5 and "its errors quote unknown values" in report.steps[0].remark


def test_missing_is_a_category_and_a_fill_value_as_good_as_another():
    rows = np.array([[np.nan, 1.0], [2.0, np.nan]] * 10)
    filled = SimpleImputer(strategy="constant", fill_value=np.nan, keep_empty_features=True)
    encoder = OneHotEncoder(categories=[[2.0, np.nan], [1.0, np.nan]], handle_unknown="ignore")
    report = privacy_report(make_pipeline(filled, encoder, MODEL).fit(rows, [0, 1] * 10))
    assert report.total.epsilon == 0.5


def total_after(step):
    return privacy_report(make_pipeline(step, DPOPORP(2)).fit(X, Y)).total


def scaled(factor):
    return FunctionTransformer(lambda Z: factor * Z)


ALL = slice(0, X.shape[1])


@pytest.mark.parametrize(
    ("step", "other"),
    [
        (PublicScaler((0, 1)), PublicScaler((0, 2))),
        (PublicScaler((0, 1)), PublicScaler((0, 1), fill="middle")),
        (PublicBinner((0, 1)), PublicBinner((0, 2))),
        (PublicBinner((0, 1)), PublicBinner((0, 1), encode="ordinal")),
        (scaled(1), scaled(100)),
        (scaled(3), scaled(3)),  # equal code may read a file, or call what does
        (FunctionTransformer(np.sqrt), FunctionTransformer(np.square)),
        (GaussianRandomProjection(8, random_state=0), GaussianRandomProjection(8, random_state=1)),
        (RBFSampler(random_state=0), RBFSampler(random_state=1)),
        (RBFSampler(gamma=1.0, random_state=0), RBFSampler(gamma=2.0, random_state=0)),
        (PolynomialFeatures(2), PolynomialFeatures(1)),
        (*(make_column_transformer((Normalizer(), columns), sparse_threshold=0) for columns in ([0, 1], [2, 3])),),
        (make_union("passthrough"), make_union("passthrough", "passthrough")),
        (
            make_column_transformer(("passthrough", ALL), sparse_threshold=0),
            make_column_transformer(("passthrough", ALL), ("passthrough", ALL), sparse_threshold=0),
        ),
        (
            FeatureUnion([("a", Normalizer())]),
            FeatureUnion([("a", Normalizer())], transformer_weights={"a": 1000.0}),
        ),
        (
            ColumnTransformer([("a", "passthrough", ALL)], sparse_threshold=0),
            ColumnTransformer([("a", "passthrough", ALL)], sparse_threshold=0, transformer_weights={"a": 1000.0}),
        ),
    ],
)
def test_distances_after_different_maps_do_not_compose(step, other):
    one, two = total_after(step), total_after(other)
    assert one.adjacency != two.adjacency
    with pytest.raises(ValueError, match="different neighbours"):
        compose(one, two)


@pytest.mark.parametrize(
    ("step", "same"),
    [
        (PublicScaler((0, 1)), PublicScaler(np.array([0.0, 1.0]))),
        (PublicScaler((0, 1), fill=0.5), PublicScaler((0, 1), fill="middle")),
        (PublicBinner((0, 1), n_bins=2), PublicBinner(edges=[0, 0.5, 1])),
        (FunctionTransformer(np.square), FunctionTransformer(np.square)),
        (GaussianRandomProjection(8, random_state=0), GaussianRandomProjection(8, random_state=0)),
        (RBFSampler(random_state=0), RBFSampler(random_state=0)),
        (HashingVectorizer(), HashingVectorizer()),
    ],
)
def test_the_same_map_has_the_same_label(step, same):
    assert map_label("a", step.fit(X)) == map_label("a", same.fit(X)) != map_label("b", same)


def test_one_function_is_one_map_within_a_report():
    fitted = make_pipeline(scaled(3), make_union(clone(NOISY), clone(NOISY)), RidgeClassifier()).fit(X, Y)
    assert privacy_report(fitted).private.adjacency.bound == 1.0


def test_a_search_over_maps_before_a_sketch_has_no_common_neighbours():
    def searched(name, values, model):
        pipeline = make_pipeline(PublicScaler((0, 1)), *model)
        return privacy_report(GridSearchCV(pipeline, {name: values}, cv=KFold(2)).fit(X, Y))

    sketched = [clone(NOISY), RidgeClassifier()]
    wider = [(-0.5, 0.5), (-500, 500)]
    report = searched("publicscaler__feature_range", wider, sketched)
    assert report.private is None and "does not follow" in report.not_covered[0]
    assert searched("dpoporp__epsilon", [0.5, 1.0], sketched).private.adjacency.bound == 1.0
    assert searched("publicscaler__feature_range", wider, [clone(MODEL)]).private.epsilon > 0.5


def test_a_search_after_an_unseeded_random_projection_has_no_common_neighbours():
    pipeline = make_pipeline(GaussianRandomProjection(8), DPOPORP(2), RidgeClassifier())
    report = privacy_report(GridSearchCV(pipeline, {"dpoporp__epsilon": [0.5, 1.0]}, cv=2).fit(X, Y))
    assert report.private is None and "does not follow" in report.not_covered[0]


@pytest.mark.parametrize("epsilons", [[0.7], [0.5, 0.7]])
def test_a_search_with_a_refuted_refit_is_refuted(epsilons):
    pipeline = make_pipeline(clone(SIGNS), RidgeClassifier())
    search = GridSearchCV(pipeline, {"dpsignoporp__epsilon": epsilons}, cv=2).fit(X, Y)
    audited(search.best_estimator_[0], 950)
    report = privacy_report(search)
    assert report.private.violation and report.private.guess_probability == 1.0
    assert any("VIOLATED by an audit" in text for text in report.not_covered)
    assert report.steps[1].status == "not covered"


@pytest.mark.parametrize("fold", [0, 1])
def test_a_refuted_fold_shows_in_its_line(fold):
    results = cross_validate(make_pipeline(clone(SIGNS), RidgeClassifier()), X, Y, cv=2, return_estimator=True)
    audited(results["estimator"][fold][0], 950)
    step = privacy_report(results).steps[1]
    assert step.status == "not covered" and step.guarantee.violation
    assert "VIOLATED by an audit" in step.remark


@pytest.mark.parametrize(
    ("encoder", "threshold", "is_covered"),
    [
        (OneHotEncoder(categories=LISTED[:2], handle_unknown="ignore"), 0.3, False),
        (make_pipeline(Binarizer(), OneHotEncoder(categories=LISTED[:2], handle_unknown="ignore")), 1.0, False),
        (OneHotEncoder(categories=LISTED[:2], drop="first"), 0.3, False),
        (OneHotEncoder(categories=LISTED[:2], handle_unknown="ignore"), 0, True),
        (OneHotEncoder(categories=LISTED[:2], handle_unknown="ignore", sparse_output=False), 0.3, True),
        (OneHotEncoder(categories=LISTED[:2]), 0.3, True),
        (make_pipeline(PublicScaler((0, 16)), GaussianRandomProjection(1)), 0.3, True),
        (make_column_transformer((PublicScaler((0, 16)), [0, 1]), sparse_threshold=0), 0.3, True),
        (make_union(OneHotEncoder(categories=LISTED[:2]), OneHotEncoder(categories=LISTED[:2])), 0.3, True),
        (make_union(OneHotEncoder(categories=LISTED[:2]), PublicScaler((0, 16))), 0.3, False),
        (PublicScaler((0, 16)), 0.3, False),
        (PublicBinner((0, 16)), 0.3, True),
        (SplineTransformer(knots=KNOTS[:, :2]), 0.3, True),
        (make_union(SplineTransformer(knots=KNOTS[:, :2], sparse_output=True)), 0.3, False),
        (PublicBinner((0, 16), encode="ordinal"), 0.3, True),
        (PublicScaler((0, 16)), 0, True),
    ],
)
def test_a_column_transformer_that_keeps_how_many_values_were_zero_is_not_covered(encoder, threshold, is_covered):
    columns = make_column_transformer((encoder, [0, 1]), sparse_threshold=threshold)
    report = privacy_report(make_pipeline(columns, MODEL).fit((16 * X).astype(int), Y))
    assert (report.total is not None) == is_covered == ("sparse_output_" not in "".join(report.not_covered))
    assert report.private.epsilon == 0.5


def sketch_of_another_pipeline_too(sketch):
    pipeline = make_pipeline(sketch, RidgeClassifier()).fit(X, Y)
    make_pipeline(sketch.set_params(epsilon=0.1), RidgeClassifier()).fit(X, Y)
    return pipeline


def step_that_was_fitted_again(sketch):
    pipeline = make_pipeline(sketch, RidgeClassifier()).fit(X, Y)
    pipeline[0].set_params(epsilon=0.1).fit(X[:1])
    return pipeline


def frozen_sketch_that_was_fitted_again(sketch):
    pipeline = make_pipeline(FrozenEstimator(sketch.fit(X)), RidgeClassifier()).fit(X, Y)
    sketch.set_params(epsilon=0.1).fit(X[:1])
    return pipeline


def sketch_that_was_refuted_and_fitted_again(sketch):
    pipeline = make_pipeline(sketch, RidgeClassifier()).fit(X, Y)
    sketch.guarantee_ = dataclasses.replace(sketch.guarantee_, audited_epsilon=300.0)
    sketch.fit(X[:1])
    return pipeline


@pytest.mark.parametrize(
    "fitted",
    [
        sketch_of_another_pipeline_too,
        step_that_was_fitted_again,
        frozen_sketch_that_was_fitted_again,
        sketch_that_was_refuted_and_fitted_again,
    ],
)
def test_a_sketch_that_was_fitted_again_is_not_charged_for_its_last_fit(fitted):
    """Pipelines share their steps: a classifier of rows released at 100 was reported at the 0.1 of a later fit."""
    report = privacy_report(fitted(DPOPORP(4, epsilon=100.0, random_state=0)))
    assert report.total is None
    assert "fit a clone" in repr(report)


def test_a_sketch_that_was_fitted_again_alike_is_charged():
    pipeline = make_pipeline(DPOPORP(4), RidgeClassifier()).fit(X, Y).fit(X, Y)
    assert privacy_report(pipeline).total.epsilon == 1.0


@pytest.mark.parametrize("function", [special.softmax, np.cumsum, np.sort])
@pytest.mark.parametrize("axis", [{}, {"axis": 0}, {"axis": 1}])
def test_functions_along_an_axis_are_not_known(function, axis):
    assert not is_data_independent(FunctionTransformer(function, kw_args=axis))
    assert is_data_independent(FunctionTransformer(lambda rows: function(rows, axis=1)))


@pytest.mark.parametrize(
    "union", [make_union, lambda *steps: make_column_transformer(*((step, [0]) for step in steps))]
)
def test_report_says_that_it_takes_the_configuration_of_the_fit_for_that_of_now(union):
    """With frames of pandas columns are joined by what the index says, which a report after the fit cannot see."""
    frame = pd.DataFrame({"u": [0.5, 0.25, 0.0]})
    with_sketch = union(DPOPORP(1), PublicScaler((0.0, 1.0)))
    configured = "set_config(transform_output=...) was the same at the fit as now"
    with config_context(transform_output="pandas"):
        with_sketch.fit(frame)
    assert any(configured in text for text in privacy_report(with_sketch).private.assumptions)
    told = clone(with_sketch).set_output(transform="default").fit(frame)
    assert not any(configured in text for text in privacy_report(told).private.assumptions)
    sketches = union(DPOPORP(1), DPSignOPORP(1)).fit(frame)
    assert not any(configured in text for text in privacy_report(sketches).private.assumptions)


@pytest.mark.parametrize("columns", [[], (), [False] * 8, np.zeros(8, bool), pd.Series([False] * 8)])
def test_a_step_that_is_given_no_column_is_passed_over(columns, binary):
    X, _ = binary
    both = ColumnTransformer([("none", DPOPORP(4), columns), ("some", DPOPORP(4, random_state=0), slice(0, 4))])
    assert [one.step for one in privacy_report(both.fit(X)).steps if one.guarantee] == ["columntransformer.some"]
