"""Attacks on steps that write over the rows which others see, within pipelines, unions and ensembles."""
# ruff: noqa: D101, D102

import numpy as np
import pandas as pd
import pytest
import scipy.fft
import scipy.sparse as sp
from attacks import (
    X24_POSITIVE,
    X24_SMALL,
    Y24,
    amp,
    assert_true,
    dense,
    gaussian_delta,
    is_true_of,
    seeded_sketch,
    sketch_of_8,
)
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, binarize, normalize

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSignOPORP,
    DPSignRP,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    iDPSignRP,
    privacy_report,
)
from skdprp.sketch._base import BaseSketch


def percent(rows):
    rows *= 100
    return rows


WRITING_MAPS = {
    "a function of one's own": lambda: FunctionTransformer(percent, inverse_func=lambda rows: rows / 100),
    "dct": lambda: FunctionTransformer(scipy.fft.dct, inverse_func=scipy.fft.idct, kw_args={"overwrite_x": True}),
}


def fitted_and_transformed(model, rows):
    model.fit_transform(rows.copy())
    return model


@pytest.mark.filterwarnings("ignore:The provided functions are not strictly inverse")
@pytest.mark.parametrize("kind", WRITING_MAPS)
def test_a_check_of_the_inverse_does_not_pass_rows_through_a_map_before_they_are_sketched(kind, released_rows):
    """FunctionTransformer checks on a view: with a total of epsilon 1 rows are 100 apart, where 1 is printed."""
    a = np.full((24, 6), 0.5)
    b = a.copy()
    apart = WRITING_MAPS[kind]().func(np.eye(6), **(WRITING_MAPS[kind]().kw_args or {}))
    b[0, 0] += 1 / np.abs(apart[0]).sum()  # 1 apart as rows leave the map
    assert is_true_of(
        released_rows,
        lambda rows: fitted_and_transformed(make_pipeline(WRITING_MAPS[kind](), seeded_sketch(6)), rows),
        a,
        b,
    )


def percent_of_a_column(table):
    table["rate"] = table["rate"] * 100
    return table


SCORED = {
    "two scorers": {"scoring": ["accuracy", "roc_auc"], "refit": "roc_auc"},
    "scores of training rows": {"return_train_score": True},
}


@pytest.mark.parametrize("scored", SCORED)
def test_rows_that_are_scored_twice_are_not_written_over_in_between(scored, released_rows):
    """The second scorer gets rows that are 100 times as far apart as they leave the map, and nothing says so."""
    a = pd.DataFrame({"rate": np.linspace(0, 0.05, 24), "other": np.linspace(0, 1, 24)})
    b = a.copy()
    b.loc[0, "rate"] += 0.01  # 1 as rows leave the map
    model = make_pipeline(FunctionTransformer(percent_of_a_column), seeded_sketch(), LogisticRegression())
    assert is_true_of(
        released_rows, lambda rows: GridSearchCV(model, {}, cv=KFold(2), **SCORED[scored]).fit(rows.copy(), Y24), a, b
    )


class OwnScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    def fit(self, rows, y=None):
        return self

    def transform(self, rows):
        rows *= 1000
        return rows


WITHIN = {
    "a search": lambda: GridSearchCV(make_pipeline(Normalizer(copy=False), LogisticRegression()), {}, cv=KFold(2)),
    "a transformer of one's own": lambda: make_pipeline(OwnScaler(), LogisticRegression()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WITHIN)
def test_no_sum_is_stated_where_what_is_within_a_member_writes_over_the_rows_of_the_next(kind, released_rows):
    """Normalizer(copy=False) is refused a sum, and is not within a search; the sketch beside it has a mu of 167."""
    a = np.full((24, 2), 1e-3) + np.random.default_rng(0).uniform(0, 1e-4, size=(24, 2))
    b = a.copy()
    a[0], b[0] = (1e-3, 0), (0, 1e-3)
    members = [("a", WITHIN[kind]()), ("b", make_pipeline(seeded_sketch(max_change=2e-3), LogisticRegression()))]
    assert is_true_of(released_rows, lambda rows: VotingClassifier(members).fit(rows.copy(), Y24), a, b)


class OwnPrivateScaler(OwnScaler):
    epsilon = 1.0

    def fit(self, rows, y=None):
        self.guarantee_ = DPScaler(epsilon=self.epsilon, delta=1e-6).fit(rows.copy()).guarantee_
        return self


def test_no_total_is_stated_where_a_private_step_of_ones_own_writes_over_the_rows_of_a_sketch(released_rows):
    """With a total of epsilon 1.9 for changes of 1, the sketch has rows of which such a change is 1000."""
    a = X24_POSITIVE.copy()
    b = a.copy()
    b[0, 0] += 1.0
    assert is_true_of(
        released_rows,
        lambda rows: make_pipeline(make_union(OwnPrivateScaler(), seeded_sketch()), amp()).fit(rows.copy(), Y24),
        a,
        b,
    )


INNER = {
    "a selector": lambda: make_pipeline(SelectFromModel(RidgeClassifier(copy_X=False)), LogisticRegression()),
    "a search": lambda: GridSearchCV(RidgeClassifier(copy_X=False), {}, cv=KFold(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", INNER)
def test_no_sum_is_stated_of_a_model_whose_rows_had_their_means_taken_off_within_a_member(kind, monkeypatch):
    """One row moves all those that AMPClassifier sees, under a sum of epsilon 1 for one row replaced."""
    seen, fit = [], AMPClassifier.fit
    monkeypatch.setattr(AMPClassifier, "fit", lambda model, rows, y: seen.append(np.array(rows)) or fit(model, rows, y))
    for first in (0.0, 1e9):
        rows = X24_POSITIVE.copy()
        rows[0, 0] = first
        voting = VotingClassifier([("a", INNER[kind]()), ("b", amp())]).fit(rows, Y24)
    assert np.array_equal(seen[0][1:], seen[1][1:]) or privacy_report(voting).private is None


def selected_by(model, grid, weights):
    return SelectFromModel(GridSearchCV(model, grid, cv=KFold(2)), importance_getter=f"best_estimator_.{weights}coef_")


RESCALED = Pipeline([("n", Normalizer()), ("l", LogisticRegression())])
HELD = {
    "a grid": selected_by(RidgeClassifier(), {"copy_X": [True, False]}, ""),
    "what is in a grid": selected_by(RESCALED, {"n": [Normalizer(copy=False)]}, "named_steps.l."),
    "a stack": StackingClassifier([("r", make_pipeline(Normalizer(), RidgeClassifier(copy_X=False)))], cv=KFold(2)),
    "bags": BaggingClassifier(make_pipeline(Normalizer(copy=False), LogisticRegression()), bootstrap=False),
}


@pytest.mark.parametrize("kind", HELD)
def test_what_writes_is_found_at_any_depth_of_what_a_branch_holds(kind):
    is_selector = isinstance(HELD[kind], SelectFromModel)
    first = make_pipeline(HELD[kind], LogisticRegression()) if is_selector else HELD[kind]
    report = privacy_report(VotingClassifier([("a", first), ("b", amp())]).fit(X24_POSITIVE.copy(), Y24))
    assert report.private is None and any("may write over rows" in text for text in report.not_covered)


class OwnRidge(RidgeClassifier):
    def fit(self, rows, y):
        rows *= 1000
        return super().fit(rows, y)


def test_an_estimator_of_ones_own_within_a_member_is_trusted_in_print():
    members = [("a", make_pipeline(SelectFromModel(OwnRidge()), LogisticRegression())), ("b", amp())]
    private = privacy_report(VotingClassifier(members).fit(X24_POSITIVE.copy(), Y24)).private
    assert "votingclassifier.0.selectfrommodel: does not write over the rows that it is given" in private.assumptions


@pytest.mark.parametrize("shape", ["row", "search", "branch"])
def test_of_each_function_of_ones_own_it_is_said_once_that_it_does_not_write_over_rows(shape):
    model = make_pipeline(
        FunctionTransformer(percent), FunctionTransformer(np.tanh), seeded_sketch(), LogisticRegression()
    )
    whole = {
        "row": model,
        "search": GridSearchCV(model, {"dpoporp__epsilon": [0.5, 1.0]}, cv=KFold(2), scoring=["accuracy", "roc_auc"]),
        "branch": VotingClassifier([("a", model), ("b", LogisticRegression())]),
    }[shape].set_params(**{"refit": "accuracy"} if shape == "search" else {})
    said = [
        text for text in privacy_report(whole.fit(X24_POSITIVE.copy(), Y24)).private.assumptions if "write over" in text
    ]
    prefix = "votingclassifier.0." * (shape == "branch")
    assert said == [f"{prefix}functiontransformer-1: does not write over the rows that it is given"]


@pytest.mark.parametrize("shape", ["search", "branch"])
def test_what_is_written_over_behind_a_sketch_leaves_the_rows_and_the_sum_as_they_are(shape):
    model = make_pipeline(seeded_sketch(), Normalizer(copy=False), RidgeClassifier(copy_X=False))
    whole = {
        "search": GridSearchCV(model, {}, cv=KFold(2), return_train_score=True),
        "branch": VotingClassifier([("a", model), ("b", amp())]),
    }[shape]
    assert privacy_report(whole.fit(X24_POSITIVE.copy(), Y24)).private is not None


@pytest.mark.parametrize("is_only_in_a_candidate", [True, False])
def test_a_map_that_writes_over_rows_has_no_sum_in_a_search(is_only_in_a_candidate):
    model = make_pipeline(Normalizer(copy=is_only_in_a_candidate), seeded_sketch(), LogisticRegression())
    search = GridSearchCV(model, {"normalizer__copy": [True, False]} if is_only_in_a_candidate else {}, cv=KFold(2))
    assert privacy_report(search.fit(X24_POSITIVE.copy(), Y24)).private is None
    assert privacy_report(model.fit(X24_POSITIVE.copy(), Y24)).private is not None  # rows pass it once


LEFT_ALONE = [
    *(amp(max_norm=0.1), ProductNoiseOutputPerturbation(classes=[0, 1], max_norm=0.1), DPMoments(max_norm=0.1)),
    *(
        DPRidge(target_bounds=(0, 1), max_norm=0.1),
        DPPCA(2, max_norm=0.1),
        DPHistograms(),
        DPBinner(4, bounds=(0, 4)),
        DPScaler(bounds=(0, 4)),
    ),
    *(PublicScaler((0.1, 0.2)), PublicBinner([[0.1]] * 6), DPRandomProjection(projection="identity"), seeded_sketch(4)),
    *(DPSignRP(4), DPSignRP(4, method="laplace"), DPSignOPORP(4, n_repeats=2), iDPSignRP(4)),
]
FORMS = [np.array, np.asfortranarray, pd.DataFrame, sp.csr_matrix]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", LEFT_ALONE, ids=lambda estimator: repr(estimator)[:60])
def test_no_step_of_this_library_writes_over_the_rows_that_it_is_given(estimator):
    """In any form, by any method: 477 calls left all rows as they were."""
    for form in FORMS:
        rows = form(X24_POSITIVE.copy())
        before = rows.toarray() if sp.issparse(rows) else np.array(rows)
        try:
            fitted = clone(estimator).fit(rows, Y24)
        except (TypeError, ValueError):  # of those that take no sparse rows
            continue
        for method in ("transform", "predict", "predict_proba", "project_queries"):
            getattr(fitted, method, lambda rows: None)(rows)
        assert np.array_equal(rows.toarray() if sp.issparse(rows) else np.array(rows), before)


@pytest.mark.parametrize("makes", [FeatureUnion, ColumnTransformer])
def test_no_branch_writes_into_the_rows_that_the_next_one_sketches(makes):
    """Rows of 1 / d, at distance 1 from zeros, were made ones by a step with copy=False, and sketched as ones."""
    d = 16
    nothing = make_pipeline(Binarizer(copy=False), ColumnTransformer([("none", "drop", slice(0, d))]))
    branches = [("first", nothing), ("second", DPOPORP(d, epsilon=100.0, noise="laplace", random_state=0))]
    if makes is ColumnTransformer:
        branches = [(name, step, slice(0, d)) for name, step in branches]
    model = makes(branches, **{"sparse_threshold": 0} if makes is ColumnTransformer else {})
    rows = np.full((2, d), 1 / d)
    released = dense(model.fit(rows.copy()).transform(rows.copy()))
    report = privacy_report(model)
    assert (report.total is None and report.private is None) or np.abs(released).max() < 0.5


@pytest.fixture
def sketched(monkeypatch):
    """Rows as they reach each release of a sketch."""
    rows, release = [], BaseSketch._release

    def released(sketch, X, dtype):
        rows.append(np.array(X))
        return release(sketch, X, dtype)

    monkeypatch.setattr(BaseSketch, "_release", released)
    return rows


def of_function(function, **known):
    return lambda: FunctionTransformer(function, kw_args=known)


WRITERS = {
    "normalize": of_function(normalize, copy=False),
    "binarize": of_function(binarize, copy=False),
    "dct": of_function(scipy.fft.dct, overwrite_x=True),
    "a frozen pipeline": lambda: FrozenEstimator(make_pipeline(Normalizer(copy=False)).fit(np.eye(2))),
    "a function of one's own": lambda: FunctionTransformer(lambda rows: np.multiply(rows, 1000, out=rows)),
}


def beside_a_sketch(writer):
    """A private model on what a branch makes of rows, and on their sketches."""
    sketch = DPOPORP(2, max_change=2e-3, random_state=0)
    return make_pipeline(make_union(WRITERS[writer](), sketch), AMPClassifier(classes=[0, 1], delta=1e-6))


@pytest.mark.parametrize("writer", WRITERS)
def test_no_total_is_stated_where_a_branch_has_written_over_the_rows_that_the_next_one_sketches(writer, sketched):
    """Normalizer(copy=False) is refused a total; functions that write, and frozen pipelines of it, are not."""
    rows = np.full((24, 2), 1e-3) + np.random.default_rng(0).uniform(0, 1e-4, size=(24, 2))
    model = beside_a_sketch(writer).fit(rows.copy(), Y24)
    report = privacy_report(model)
    moved = max(np.abs(one - rows).max() for one in sketched)
    said = any("writes" in text or "write over" in text for text in getattr(report.private, "assumptions", ()))
    assert moved == 0 or report.private is None or said


def test_neighbours_of_a_pipeline_are_not_told_apart_by_its_sketch_for_certain():
    """Rows .002 apart leave `normalize` 2 apart, and the sketch beside it: mu is 167 where epsilon 1.7 is printed."""
    a = np.full((24, 2), 1e-3)
    a[0] = 1e-3, 0
    b = a.copy()
    b[0] = 0, 1e-3
    model = beside_a_sketch("normalize").fit(a.copy(), Y24)
    total, sketch = privacy_report(model).total, model[0].transformer_list[1][1]
    if total is None:
        return
    assert total.adjacency.bound >= np.abs(a - b).sum() and not total.adjacency.after
    means = [np.mean([model[0].transform(rows.copy())[0, 2:] for _ in range(20)], axis=0) for rows in (a, b)]
    mu = np.linalg.norm(means[0] - means[1]) / sketch.scale_ - 10  # far more than means of 20 draws are off
    assert mu <= 0 or gaussian_delta(total.epsilon, mu) <= total.delta


@pytest.mark.filterwarnings("ignore:.*ll-conditioned matrix")
def test_private_models_beside_one_that_writes_over_their_rows_have_no_sum(monkeypatch):
    """RidgeClassifier(copy_X=False) subtracts the means of all rows: one row moves all those that the next model sees.

    With copy=False, of steps that have that name for it, the sum is refused.
    """
    seen, fit = [], AMPClassifier.fit

    def fitted(model, X, y):
        seen.append(np.array(X))
        return fit(model, X, y)

    monkeypatch.setattr(AMPClassifier, "fit", fitted)
    for first in (0.0, 1e9):
        rows = X24_SMALL.copy()
        rows[0, 0] = first
        members = [("a", RidgeClassifier(copy_X=False)), ("b", AMPClassifier(classes=[0, 1], delta=1e-6))]
        voting = VotingClassifier(members).fit(rows, Y24)
    assert np.array_equal(seen[0][1:], seen[1][1:]) or privacy_report(voting).private is None


def written_over():
    return make_pipeline(FunctionTransformer(scipy.fft.dct, kw_args={"overwrite_x": True}), sketch_of_8())


def transformed_after_a_fit(rows):
    model = written_over().fit(rows)
    model.transform(rows)
    return model


def frozen_after_a_fit(rows):
    return make_pipeline(FrozenEstimator(written_over().fit(rows)), RidgeClassifier()).fit(rows, Y24)


@pytest.mark.parametrize("fit", [transformed_after_a_fit, frozen_after_a_fit])
def test_rows_that_a_fit_wrote_over_are_not_transformed_under_a_total_for_rows_that_left_the_map_once(
    fit, released_projections
):
    """Rows are 1 apart as they leave the map once, and were sketched after they had left it twice."""
    a = np.full((24, 8), 0.5)
    b = a.copy()
    b[0] += scipy.fft.idct(np.eye(8)[0])
    assert_true(released_projections, fit, a, b)
