"""Reports on what a fit will release, against those on what it did."""

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyLedger,
    PublicScaler,
    iDPSignRP,
    privacy_report,
    set_budget,
)
from skdprp._recording import in_plan
from skdprp.report._rehearsal import PublicFacts, rehearse
from skdprp.testing import reproducible_noise

TABLE = pd.DataFrame({"size": np.linspace(0, 1, 300), "town": ["Hull", "Leeds", "York"] * 100})
BEFORE_A_FIT = [
    make_pipeline(Normalizer(), DPOPORP(4, random_state=0), LogisticRegression()),
    make_pipeline(DPSignOPORP(4, random_state=0), AMPClassifier()),
    FeatureUnion([("first", DPOPORP(4, random_state=0)), ("second", iDPSignRP(4, random_state=1))]),
    OneVsRestClassifier(make_pipeline(DPPCA(3), AMPClassifier())),
    OneVsRestClassifier(AMPClassifier(classes=[0, 1])),
    VotingClassifier([("plain", AMPClassifier()), ("scaled", make_pipeline(PublicScaler((-1, 1)), AMPClassifier()))]),
    FixedThresholdClassifier(AMPClassifier(), threshold=0.3),
    make_pipeline(StandardScaler(), DPSGDClassifier(n_epochs=2)),
    make_pipeline(PublicScaler((-1, 1)), DPSearchCV(AMPClassifier(), {"max_norm": [1.0, 2.0]}, n_trials=2)),
    DPRidge(target_bounds=(0, 1)),
    MultiOutputRegressor(DPRidge(target_bounds=(0, 1))),
    MultiOutputClassifier(AMPClassifier()),
    DPMoments(),
    LogisticRegression(),
    # After a sketch, what learns is post-processing, and prices nothing.
    make_pipeline(DPOPORP(4, random_state=0), LinearDiscriminantAnalysis()),
    make_pipeline(DPOPORP(4, random_state=0), SelectKBest(k="all"), AMPClassifier()),
    make_pipeline(DPOPORP(4, random_state=0), StackingClassifier([("one", LogisticRegression())])),
]


def facts_of(report):
    """What a report says of the releases."""
    return report.steps, report.not_covered, report.private and (report.private.epsilon, report.private.delta)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", BEFORE_A_FIT, ids=repr)
def test_the_price_before_a_fit_is_what_the_fit_costs(estimator, n_classes, binary):
    n_classes = 2 if isinstance(estimator, FixedThresholdClassifier) else n_classes
    X, y = binary[0], np.arange(len(binary[1])) % n_classes
    y = np.column_stack([y, binary[1]]) if isinstance(estimator, MultiOutputClassifier | MultiOutputRegressor) else y
    given = X.copy()
    with PrivacyLedger() as ledger:
        before = privacy_report(estimator, X, y)
    assert ledger.entries == () and not any(name.endswith("_") for name in vars(estimator))
    np.testing.assert_array_equal(X, given)
    fitted = clone(estimator).fit(X, y)
    assert facts_of(before) == facts_of(privacy_report(fitted))
    assert facts_of(privacy_report(fitted, X, y)) == facts_of(before)
    assert "released none of it" in before.counted


def test_the_price_of_a_table_follows_from_a_few_rows(binary):
    last = AMPClassifier(epsilon=0.7, classes=["no", "yes"], noise="gaussian")
    model = make_pipeline(DPBinner(5, epsilon=0.3), last)
    before = privacy_report(model, TABLE[:10], n_samples=300)
    assert facts_of(before) == facts_of(privacy_report(model, TABLE, n_samples=None))
    after = privacy_report(clone(model).fit(TABLE, np.tile(["no", "yes"], 150)))
    assert facts_of(before) == facts_of(after)
    assert privacy_report(model, TABLE[:10], n_samples=30_000).total.delta == 2 / 30_000**2


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
def test_several_labels_a_row_are_a_model_each(binary):
    X, y = binary[0], np.column_stack([binary[1], np.arange(len(binary[1])) % 2])
    for columns in (y, np.column_stack([y, y[:, :1]])):
        for labels in (columns, sp.csr_array(columns)):
            model = OneVsRestClassifier(AMPClassifier(delta=1e-6, noise="gaussian"))
            before = privacy_report(model, X, labels)
            assert before.total is None and facts_of(before) == facts_of(privacy_report(model.fit(X, labels)))
    set_budget(model, X, y, epsilon=1.0, delta=1e-6).fit(X, y)
    assert 1 - 1e-6 <= privacy_report(model).private.epsilon <= 1.0


def test_a_sketch_is_priced_whatever_its_projection_will_be(binary):
    """A projection of zeros loses nothing, and the next one does."""
    sketch = DPRandomProjection(1, projection="very_sparse", density=0.1, delta=1e-6)
    model = FeatureUnion([("first", sketch), ("second", sketch)])
    prices = {privacy_report(model, binary[0]).private.epsilon for _ in range(20)}
    costs = [privacy_report(clone(model).fit(binary[0])).private.epsilon for _ in range(20)]
    assert min(prices) >= max(costs)


def test_texts_are_priced(binary):
    texts = pd.DataFrame({"text": ["one row", "another"] * 150})
    model = make_pipeline(FunctionTransformer(first_column), HashingVectorizer(n_features=8), AMPClassifier())
    before = privacy_report(model, texts, binary[1])
    assert facts_of(before) == facts_of(privacy_report(model.fit(texts, binary[1])))


def first_column(frame):
    return frame.iloc[:, 0]


def test_a_search_on_what_was_sketched_costs_nothing_more(binary):
    X, y = binary
    sketch, search = DPOPORP(4, epsilon=2.0), GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3)
    plan = privacy_report(make_pipeline(sketch, search), X, y)
    assert (plan.total.epsilon, plan.total.delta) == (2.0, 1e-6)


def test_what_a_report_before_a_fit_does_not_know_is_an_error(binary):
    X, y = binary
    fitted = TunedThresholdClassifierCV(LogisticRegression().fit(X, y), cv="prefit", refit=False)
    with pytest.raises(ValueError, match="TunedThresholdClassifierCV holds what was fitted before"):
        privacy_report(make_pipeline(DPOPORP(4), fitted), X, y)
    with pytest.raises(ValueError, match="GridSearchCV is reported after its fit"):
        privacy_report(make_pipeline(GridSearchCV(make_pipeline(DPPCA(2), KMeans(2)), {}), AMPClassifier()), X, y)
    for n_samples in (0, -3, 2.5, True, "7", 10**400):
        with pytest.raises(ValueError, match="n_samples is a number of rows"):
            privacy_report(AMPClassifier(), X, y, n_samples=n_samples)
    assert privacy_report(AMPClassifier(), X, y, n_samples=np.int8(100)).total.delta == 1e-4
    with pytest.raises(ValueError, match="Give y, of all rows"):
        privacy_report(AMPClassifier(), X[:8], y[:8], n_samples=300)
    with pytest.raises(ValueError, match="The 'method' parameter of DPSignRP"):
        privacy_report(FeatureUnion([("signs", DPSignRP(4, method="gaussian"))]), X)
    with pytest.raises(ValueError, match="Give y, of all rows: AMPClassifier lists no classes"):
        privacy_report(AMPClassifier(), X)
    with pytest.raises(ValueError, match="Give y, of all rows: OneVsRestClassifier lists no classes"):
        privacy_report(OneVsRestClassifier(AMPClassifier()), X)
    with pytest.raises(ValueError, match="GridSearchCV is reported after its fit"):
        privacy_report(GridSearchCV(AMPClassifier(), {}), X, y)
    with pytest.raises(TypeError, match="MIDPRegressor does not say before a fit"):
        privacy_report(MIDPRegressor(), X, y)
    with pytest.raises(TypeError, match="X is a dask collection"):
        privacy_report(AMPClassifier(), dask.array.from_array(X), y)
    with pytest.raises(ValueError, match="n_samples and groups are for a report on a fit to come"):
        privacy_report(AMPClassifier(), n_samples=10)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="X is for what an estimator will release"):
        privacy_report(AMPClassifier(), X, y, ledger=ledger)
    with pytest.raises(NotFittedError, match=r"is not fitted.*privacy_report"):
        privacy_report(AMPClassifier())


def _in_a_union(*steps):
    return FeatureUnion([("one", make_pipeline(*steps))])


def _in_columns(*steps):
    return ColumnTransformer([("one", make_pipeline(*steps), [0, 1, 2])])


def _of_a_frozen(sketch, *steps):
    return make_pipeline(FrozenEstimator(sketch.fit(np.eye(4))), *steps)


@pytest.mark.parametrize("within", [make_pipeline, _in_a_union, _in_columns, _of_a_frozen])
@pytest.mark.parametrize("output", ["numbers", "sign", "packed"])
def test_what_follows_a_sketch_sees_public_numbers_in_a_plan(within, output):
    """A function saw sketches of the first rows at each plan, with new noise under one projection."""
    rng, y, seen = np.random.default_rng(0), np.arange(40) % 2, []

    def kept(rows):
        seen.append(np.array(rows))
        return rows

    if output == "numbers":
        sketch = DPOPORP(3, delta=1e-6, random_state=0)
    else:
        sketch = DPSignOPORP(3, random_state=0, output=output)
    for _ in range(2):  # plans of two tables
        model = make_pipeline(
            within(sketch, FunctionTransformer(kept)), FunctionTransformer(kept), LogisticRegression()
        )
        privacy_report(model, rng.uniform(-0.3, 0.3, (40, 4)), y)
    assert len(seen) >= 4 and all(np.array_equal(rows, seen[0]) for rows in seen)
    real = sketch.fit_transform(rng.uniform(-0.3, 0.3, (40, 4)))
    assert seen[0].dtype == real.dtype and seen[0].shape == real.shape and not np.array_equal(seen[0], real)


@pytest.mark.parametrize("within", [make_pipeline, _in_a_union, _in_columns, _of_a_frozen])
@pytest.mark.parametrize(
    "private",
    [
        DPPCA(3, max_norm=1.0),
        DPScaler(bounds=(-1, 1), n_cells=64),
        DPBinner(encode="ordinal", epsilon=99.0, bounds=(-1, 1), n_cells=64),
    ],
)
def test_what_follows_a_private_transformer_sees_public_numbers_before_a_fit(within, private):
    """A step that refused some rows behind noise that nobody paid for: in 10 of 60 plans, or none."""
    rng, y, seen = np.random.default_rng(0), np.arange(40) % 2, []

    def kept(rows):
        if in_plan():
            seen.append(np.array(rows))
        return rows

    for _ in range(2):
        steps = (clone(private), FunctionTransformer(kept))
        last = DPRidge(target_bounds=(0, 1), max_norm=2.0, mechanism="moments")  # whose losses add up in no time
        model = make_pipeline(within(*steps), FunctionTransformer(kept), last)
        X = rng.uniform(-0.3, 0.3, (40, 4))
        privacy_report(model, X, y)
        if within in (make_pipeline, _in_a_union):
            DPSearchCV(model, {}, n_trials=1e-9, max_loss=1.0).fit(X, y)
    assert len(seen) >= 4
    for rows in seen:  # of bins, some columns of a frozen one have fewer than others
        bins = np.arange(len(rows))[:, None] % (rows.max(axis=0) + 1)
        assert np.array_equal(rows, bins if type(private) is DPBinner else seen[0][: len(rows)])


@pytest.mark.parametrize("private", [DPPCA(3, max_norm=1.0), DPScaler(), DPBinner(), DPBinner(categories=["x0"])])
def test_what_a_private_transformer_learns_before_a_fit_is_not_of_the_rows(private, silenced_noise):
    """Names of bins and components were those of the first rows, and chose how many columns came to the model."""
    rng, y, learnt = np.random.default_rng(0), np.arange(40) % 2, []

    for least in (-0.3, 0.1):
        facts = PublicFacts.of(pd.DataFrame(rng.uniform(least, 0.3, (40, 3)), columns=["x0", "x1", "x2"]), y)
        first = rehearse(make_pipeline(private, AMPClassifier(classes=[0, 1])), facts).estimator[0]
        learnt.append({name: repr(value) for name, value in vars(first).items() if name[-1] == "_"})
    assert learnt[0].keys() & {"components_", "bounds_", "bin_edges_"} and learnt[0] == learnt[1]


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
@pytest.mark.parametrize("categories", [None, ["x0", "x1", "x2", "x3"]])
def test_a_plan_refuses_no_step_for_want_of_what_the_noise_of_few_rows_hides(categories):
    """Of 64 rows every bin but one was empty, so that a step that leaves out constant columns had none to keep."""
    frame, y = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 4))).add_prefix("x"), np.arange(300) % 2
    binner = DPBinner(categories=categories, epsilon=0.1)
    model = make_pipeline(binner, VarianceThreshold(), AMPClassifier(classes=[0, 1], max_norm=2.0))
    assert 0.1 < set_budget(model, frame, y, epsilon=2.0)["ampclassifier"].epsilon < 2.0


def test_a_plan_within_seeded_noise_leaves_a_frozen_sketch_as_it_was():
    """It was marked as seeded, though nothing was released."""
    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 6)), np.arange(40) % 2
    frozen = DPOPORP(3, delta=1e-6, random_state=0).fit(X)
    with reproducible_noise(0):
        privacy_report(make_pipeline(FrozenEstimator(frozen), LogisticRegression()), X, y)
    assert not frozen.guarantee_.seeded


def test_columns_that_a_function_chooses_by_the_rows_have_no_plan():
    """It chose none of the few rows, and a column of all: 1.45 was spent where 1 was set."""
    X = pd.DataFrame({"a": np.r_[np.zeros(64), np.full(36, 0.5)], "b": np.linspace(0.0, 1.0, 100)})
    y = np.arange(100) % 2

    def that_vary(rows):
        return [name for name in rows if rows[name].nunique() > 64] if len(rows) > 64 else []

    private = DPPCA(1, epsilon=1.0, max_norm=2.0)
    model = make_pipeline(
        ColumnTransformer([("pca", private, that_vary)], remainder="passthrough"), AMPClassifier(classes=[0, 1])
    )
    for plan in (privacy_report, set_budget):
        with pytest.raises(ValueError, match="chooses columns by the rows"):
            plan(model, X, y)
    chosen = clone(model).set_params(columntransformer__transformers=[("pca", private, make_column_selector("a|b"))])
    assert set_budget(chosen, X, y, epsilon=1.0, delta=1e-6)["ampclassifier"].epsilon < 1.0


def test_a_plan_does_not_tell_that_an_entry_is_stored_in_two_parts():
    """Sums of repeated entries of float32 are float64: a plan had other noise, and no trial of a search matched it."""
    X, y = sp.csr_array(np.full((100, 5), 0.25, dtype=np.float32)), np.arange(100) % 2
    data, indices = np.r_[X.data, np.float32(0.0)], np.r_[X.indices, np.int32(4)]
    in_parts = sp.csr_array((data, indices, np.r_[X.indptr[:-1], len(data)]), shape=X.shape)
    assert in_parts.nnz == X.nnz + 1 and (in_parts.toarray() == X.toarray()).all()
    model = DPSGDClassifier(classes=[0, 1], max_norm=None, n_epochs=2)
    plans = [privacy_report(model, rows[::-1], y) for rows in (X, in_parts)]
    assert plans[0].total == plans[1].total and "noise" in str(plans[0])
    assert str(plans[0]) == str(plans[1])
    search = DPSearchCV(model, {}, n_trials=1, epsilon=4.0, delta=1e-6, test_size=0.01, random_state=0)
    assert search.fit(in_parts[::-1], y).best_params_ == {}


def test_plans_in_threads_leave_warnings_and_prints_as_they_were():
    """Each put back what it had found, and the last one found everything silenced."""
    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 6)), np.arange(40) % 2
    before = list(warnings.filters), sys.stdout
    with ThreadPoolExecutor(4) as pool:
        plans = [pool.submit(privacy_report, make_pipeline(DPPCA(2), AMPClassifier()), X, y) for _ in range(12)]
    assert len({plan.result().total.epsilon for plan in plans}) == 1
    assert (list(warnings.filters), sys.stdout) == before


KNOWN = AMPClassifier(delta=1e-5, classes=[0, 1])


@pytest.mark.parametrize(
    "model",
    [
        StackingClassifier([("private", KNOWN)], final_estimator=KNOWN, cv=3),
        RFE(KNOWN),
        SelectFromModel(KNOWN),
        make_pipeline(SelectKBest(k=2), KNOWN),
    ],
    ids=lambda model: type(model).__name__,
)
def test_plans_say_which_step_needs_labels_first(model):
    """They said that X could not be read, or that y was not passed."""
    X, y = np.random.default_rng(0).normal(size=(120, 4)), np.arange(120) % 2
    for plan in (privacy_report, partial(set_budget, epsilon=1.0)):
        with pytest.raises(ValueError, match="learns from labels before the last step"):
            plan(model, X, y)


def test_what_is_frozen_is_planned_alone_as_in_a_pipeline():
    X, y = np.random.default_rng(0).normal(size=(120, 4)), np.arange(120) % 2
    frozen = FrozenEstimator(clone(KNOWN).fit(X, y))
    totals = [privacy_report(model, X, y).total for model in (frozen, make_pipeline(frozen))]
    assert totals[0] == totals[1] and totals[0].epsilon == 1.0
    with pytest.raises(NotFittedError):
        privacy_report(FrozenEstimator(KNOWN), X, y)


@pytest.mark.parametrize("ask", [privacy_report, partial(set_budget, epsilon=1.0)])
def test_rows_and_targets_of_different_numbers_are_refused_before_anything_is_spent(ask):
    X = np.linspace(-1, 1, 60).reshape(20, 3)
    for model, y in ((DPRidge(target_bounds=(0, 9)), X[:3, 0]), (AMPClassifier(classes=[0, 1]), [])):
        with pytest.raises(ValueError, match=r"^X and y need the same number of rows\.$"):
            ask(make_pipeline(DPScaler(bounds=(-1, 1)), model), X, y)
    with pytest.raises(ValueError, match="y is one value"):
        ask(DPRidge(target_bounds=(0, 9)), X, 3)
    # A few rows and a few targets that are like all.
    plan = privacy_report(DPRidge(target_bounds=(0, 9)), X[:5], X[:3, 0], n_samples=20)
    assert plan.private.delta == 1 / 20**2
