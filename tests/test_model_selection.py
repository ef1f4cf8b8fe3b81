"""One budget for a pipeline, and a private search: what is released, what it guarantees, and attacks that it stops."""
# ruff: noqa: D102

import json
import math
import pickle
import sys
import warnings
from functools import cache, partial
from itertools import product

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.utils import check_random_state

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    MIDPRegressor,
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    audit_epsilon,
    compose,
    load_model,
    make_table_preprocessor,
    privacy_report,
    save_model,
    set_budget,
)
from skdprp._calibration import Calibration
from skdprp.composition import PrivacyLoss
from skdprp.guarantee import Adjacency
from skdprp.inspection._parameters import private_parameters
from skdprp.mechanisms import private_search_trial
from skdprp.model_selection import _search
from skdprp.report import _rehearsal
from skdprp.report._structure import private_steps
from skdprp.testing import reproducible_noise

RIDGE = DPRidge(target_bounds=(-1, 1), mechanism="moments")
SEARCHED = {"n_trials": 2, "random_state": 0}


@pytest.fixture(scope="module")
def regression():
    """Rows of norm below 1 and targets between -1 and 1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (200, 3))
    return X, X.sum(axis=1).clip(-1, 1)


# What a fit will guarantee


@pytest.mark.parametrize(
    "estimator",
    [
        AMPClassifier(),
        AMPClassifier(loss="huber_hinge", adjacency="add_remove", classes=[0, 1, 2, 3]),
        AMPClassifier(noise="product", C=0.01),
        ProductNoiseOutputPerturbation(delta=0),
        DPSGDClassifier(n_epochs=2),
        DPSGDClassifier(n_epochs=2, hidden_layer_sizes=(4,), batch_size=20),
        DPMoments(),
        DPMoments(target_bounds=(0, 3)),
        DPPCA(2),
        DPRidge(target_bounds=(0, 3)),
        DPRidge(target_bounds=(0, 3), mechanism="moments", delta=1e-5),
        DPRidge(target_bounds=(0, 3), mechanism="projection"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_said_before_a_fit_holds_after_it(estimator, dtype, three_classes):
    X, y = three_classes[0].astype(dtype), three_classes[1]
    n_outputs = len(getattr(estimator, "classes", None) or np.unique(y)) if hasattr(estimator, "classes") else 1
    before = clone(estimator)._calibration_of(X.shape, X.dtype, n_outputs).guarantee
    assert before == clone(estimator).fit(X, y).guarantee_


# One budget


def test_one_estimator_gets_the_whole_budget(binary):
    model = set_budget(AMPClassifier(), *binary, epsilon=0.5, delta=1e-5)
    assert (model.epsilon, model.delta) == (0.5, 1e-5)
    assert set_budget(AMPClassifier(), *binary).delta == 1 / 300**2
    sketched = set_budget(make_pipeline(Normalizer(), DPOPORP(4), LogisticRegression()), *binary, epsilon=3.0)
    assert sketched["dpoporp"].epsilon == 3.0
    assert set_budget(make_pipeline(DPOPORP(4), SVR(epsilon=0.5)), *binary, epsilon=3.0)["svr"].epsilon == 0.5


PIPELINES = [
    make_pipeline(DPPCA(4), DPRidge(target_bounds=(0, 1))),
    make_pipeline(DPPCA(4, epsilon=0.2), DPSGDClassifier(epsilon=0.8)),
    make_pipeline(PublicBinner((-1, 1), n_bins=2), DPPCA(4), AMPClassifier()),
    make_pipeline(
        ColumnTransformer([("first", DPPCA(2), slice(0, 4)), ("rest", PublicScaler((-1, 1)), slice(4, 8))]),
        make_pipeline(Normalizer(), DPRidge(target_bounds=(0, 1))),
    ),
]


@pytest.mark.filterwarnings("ignore:The budget is of the private steps alone")
@pytest.mark.parametrize("pipeline", PIPELINES, ids=repr)
def test_the_report_after_the_fit_is_the_budget(pipeline, binary):
    pipeline = clone(pipeline)
    before = [step.epsilon for step in private_steps(pipeline)]
    assert set_budget(pipeline, *binary, epsilon=2.0, delta=1e-5) is pipeline
    after = [step.epsilon for step in private_steps(pipeline)]
    np.testing.assert_allclose(np.divide(after, before), after[0] / before[0], rtol=1e-12)
    assert sum(after) > 2.0  # than by adding up
    total = privacy_report(pipeline.fit(*binary)).private
    assert 2.0 * (1 - 1e-6) <= total.epsilon <= 2.0 and 1e-5 * (1 - 1e-12) <= total.delta <= 1e-5


@pytest.mark.parametrize(
    "model",
    [AMPClassifier(classes=[0, 1]), make_pipeline(DPBinner(4), AMPClassifier(classes=[0, 1], noise="gaussian"))],
)
def test_a_budget_of_a_few_rows_and_the_number_of_all_is_that_of_all(model, binary):
    """As of a table that is read in parts: their default delta is of the number of all rows, too."""
    X, y = binary
    few, every = (set_budget(clone(model), *some) for some in ((X, y), (np.tile(X, (9, 1)), np.tile(y, 9))))
    known = set_budget(clone(model), X[:64], y[:64], n_samples=9 * len(X))
    assert repr(known) == repr(every) != repr(few)
    with pytest.raises(ValueError, match="n_samples"):
        set_budget(clone(model), X, y, n_samples=0)
    with pytest.raises(ValueError, match="leave n_samples out"):
        set_budget(clone(model), X, y, n_samples=900, groups=np.arange(len(X)))


def test_without_the_accountant_a_budget_says_what_to_install(binary, monkeypatch):
    """Where epsilons are summed up, and nowhere else: two Gaussian steps compose in closed form."""
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    # No other test asks for 1.7: totals that were computed before are known.
    with pytest.warns(UserWarning, match="add up to the total.*pip install dp-accounting") as caught:
        summed = set_budget(clone(PIPELINES[2]), *binary, epsilon=1.7, delta=1e-5)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert sum(step.epsilon for step in private_steps(summed)) <= 1.7
    exact = set_budget(clone(PIPELINES[0]), *binary, epsilon=1.7, delta=1e-5)
    assert sum(step.epsilon for step in private_steps(exact)) > 1.7


def test_a_budget_reads_nothing_but_what_is_public(binary):
    X, y = binary
    models = [set_budget(clone(PIPELINES[1]), rows, y, epsilon=2.0) for rows in (X, X[::-1] / 2)]
    assert str(models[0]) == str(models[1])
    with PrivacyLedger() as ledger:
        set_budget(clone(PIPELINES[0]), X, y, epsilon=2.0)
    assert ledger.entries == ()


def test_lazy_rows_are_refused(binary):
    rows = dask.array.from_array(binary[0])
    for function in (partial(set_budget, AMPClassifier()), DPSearchCV(AMPClassifier(), {}).fit):
        with pytest.raises(TypeError, match="X is a dask collection"):
            function(rows, binary[1])


def test_a_search_without_privacy_has_no_budget_and_is_told_of_one_that_has(binary):
    search = GridSearchCV(AMPClassifier(), {"max_norm": [1.0, 2.0]})
    with pytest.raises(ValueError, match="Use DPSearchCV instead"):
        set_budget(search, *binary, epsilon=1.0)
    searched = DPSearchCV(search.estimator, search.param_grid)
    assert set_budget(searched, *binary, epsilon=2.0).epsilon == 2.0


def test_without_a_total_there_is_no_budget(binary):
    with pytest.raises(ValueError, match="holds no private step"):
        set_budget(LogisticRegression(), *binary)
    with pytest.raises(TypeError, match="DPOPORP does not say before a fit"):
        set_budget(make_pipeline(DPOPORP(4), AMPClassifier()), *binary)
    with pytest.raises(ValueError, match="The budget cannot be set to"):
        set_budget(make_pipeline(DPPCA(4), AMPClassifier(noise="product", calibration="published")), *binary)
    for wrong in ({"epsilon": 0.0}, {"epsilon": np.nan}, {"epsilon": "1"}, {"epsilon": None}, {"delta": 1.0}):
        with pytest.raises(ValueError, match="No budget has"):
            set_budget(AMPClassifier(), *binary, **wrong)


def test_a_budget_without_a_total_says_why(binary):
    """It was set in silence, and the report after the fit had no total."""
    with pytest.warns(PrivacyWarning, match="standardscaler learns from the rows"):
        set_budget(make_pipeline(StandardScaler(), AMPClassifier(classes=[0, 1])), *binary)


# What a search releases


@pytest.mark.parametrize(("verbose", "value"), [("dpsgdclassifier__verbose", 1), ("verbose", True)])
def test_nothing_that_is_printed_counts_trials(verbose, value, binary, capfd):
    """Each trial printed its steps: how many trials there were, and of which candidates, which is secret."""
    model = make_pipeline(Normalizer(), DPSGDClassifier(n_epochs=2)).set_params(**{verbose: value})
    search = DPSearchCV(model, {"dpsgdclassifier__n_epochs": [2, 3]}, classes=[0, 1], n_trials=3).fit(*binary)
    assert capfd.readouterr().out == ""
    assert search.best_estimator_.get_params()[verbose] == type(value)(0)


def test_a_search_is_one_release_that_states_one_guarantee(binary):
    X, y = binary
    search = DPSearchCV(make_pipeline(DPPCA(4), DPSGDClassifier()), {"dppca__n_components": [2, 4]}, **SEARCHED)
    with PrivacyLedger() as ledger:
        search.set_params(epsilon=2.0, delta=1e-5).fit(X, y)
    guarantee = search.guarantee_
    assert [(one.estimator, one.guarantee) for one in ledger.entries] == [("DPSearchCV", guarantee)]
    assert (guarantee.epsilon, guarantee.delta, guarantee.given) == (2.0, 1e-5, "the set of labels")
    assert 1e-5 * (1 - 1e-4) <= guarantee.loss.profile(2.0) <= 1e-5 and guarantee.per == "fit"
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
    errors = [text for text in guarantee.not_covered if "a fit raised" in text]
    assert errors == ["whether a fit raised an error", "which error a fit raised, and of which candidate"]
    assert not any("further fit" in text for text in guarantee.assumptions)  # a search fits as often as it will
    report = privacy_report(search, ledger=ledger)
    assert report.total.epsilon == 2.0 and [step.releases for step in report.steps] == [1]
    # A part of what was chosen has no guarantee of its own.
    steps = search.best_estimator_
    assert [steps[0].guarantee_, steps[0].moments_.guarantee, steps[1].guarantee_] == 3 * [guarantee]


def test_searches_compose_by_the_loss_of_their_trials(regression):
    """Far below the sum of their epsilons, as the loss of a Gaussian trial is known at every epsilon."""
    search = DPSearchCV(RIDGE, {}, epsilon=1.0, delta=1e-6, n_trials=3, max_loss=4.0).fit(*regression)
    assert 1.0 < compose(search.guarantee_, search.guarantee_).epsilon < 1.99
    # What it is composed as is what it says at every delta, and not the loss of one of its trials.
    for delta in (1e-3, 1e-6, 1e-9):
        assert search.guarantee_.loss.profile(search.guarantee_.loss.epsilon(delta)) <= delta
    assert [search.guarantee_.profile(epsilon) > 0 for epsilon in (0.0, 1.0, 2.0)] == [True, True, True]


def test_a_step_may_be_left_out(binary):
    """As in GridSearchCV, by a word: which one won is in its parameters."""
    model = Pipeline([("scale", Normalizer()), ("model", AMPClassifier(classes=[0, 1]))])
    search = DPSearchCV(model, {"scale": ["passthrough", Normalizer()]}, n_trials=3, delta=1e-6).fit(*binary)
    assert (len(search.best_estimator_) == 1) == (search.best_params_["scale"] == "passthrough")
    assert privacy_report(search).total.epsilon == 1.0


def test_trials_draw_from_no_stream_that_others_see(regression):
    """Which draw a random map is would tell which trial won, and the next draw how many there were."""
    X, y = regression
    model = make_pipeline(RBFSampler(gamma=1.0, n_components=5), RIDGE)
    check_random_state(None).seed(0)
    expected = [RBFSampler(gamma=1.0, n_components=5).fit(X).random_weights_ for _ in range(40)]
    check_random_state(None).seed(0)
    search = DPSearchCV(model, {}, n_trials=5, delta=1e-6, max_loss=4.0, random_state=0)
    drawn = search.fit(X, y).best_estimator_[0].random_weights_
    after = RBFSampler(gamma=1.0, n_components=5).fit(X).random_weights_
    assert not any(np.array_equal(drawn, weights) for weights in expected)
    assert np.array_equal(after, expected[2])  # before the trials one saw how wide rows become, and one all rows


def test_a_row_that_a_step_does_not_take_is_refused_before_any_trial(binary):
    """Also one that is held out: its error would decide which trials fail, without any noise."""
    X, y = np.abs(binary[0]) + 1.0, binary[1]
    fitted, held_out = _search.train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    model = make_pipeline(FunctionTransformer(np.log), AMPClassifier(classes=[0, 1], max_norm=3.0))
    search = DPSearchCV(model, {}, n_trials=2, delta=1e-6, epsilon=5.0, random_state=0)
    for place in (fitted[20], held_out[0]):
        rows = X.copy()
        rows[place, 0] = -1.0
        with PrivacyLedger() as ledger, pytest.raises(ValueError, match="X contains NaN"):
            search.fit(rows, y)
        assert ledger.entries == ()
    assert search.fit(X, y).best_params_ == {}


def test_a_display_varies_the_budget_of_the_search(binary):
    search = make_pipeline(Normalizer(), DPSearchCV(AMPClassifier(), {}, n_trials=1))
    assert private_parameters(search) == ["dpsearchcv__epsilon"]
    assert private_parameters(search[-1]) == ["epsilon"]


@pytest.mark.parametrize(
    "model", [AMPClassifier(), make_pipeline(DPPCA(2), AMPClassifier(multi_class="ovr", noise="gaussian"))]
)
def test_a_clone_of_a_winner_does_not_take_labels_of_the_rows_for_a_list(model):
    """Its `classes` were the labels in y, and a refit to other rows said nothing of the set of labels."""
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 3
    winner = DPSearchCV(model, {}, n_trials=1, epsilon=5.0).fit(X, y).best_estimator_
    fitted = winner if isinstance(winner, AMPClassifier) else winner[-1]
    assert fitted.classes is None and list(fitted.classes_) == [0, 1, 2] and "set of labels" in fitted.guarantee_.given
    assert "warning" not in repr(privacy_report(winner)) and winner.predict(X).shape == (200,)
    refitted = clone(winner).fit(X[y < 2], y[y < 2])
    assert "set of labels" in (refitted if isinstance(refitted, AMPClassifier) else refitted[-1]).guarantee_.given
    listed = DPSearchCV(model, {}, n_trials=1, epsilon=5.0, classes=[0, 1, 2]).fit(X, y).best_estimator_
    assert list((listed if isinstance(listed, AMPClassifier) else listed[-1]).classes) == [0, 1, 2]


def test_a_search_has_the_interface_of_scikit_learn(three_classes, seeded):
    X, y = three_classes
    names = np.array(["ham", "spam", "eggs"])[y]
    search = DPSearchCV(AMPClassifier(), [{"max_norm": [1.0]}, {"loss": ["log_loss"]}], epsilon=20.0, **SEARCHED)
    search.fit(pd.DataFrame(X).add_prefix("column"), names)
    assert list(search.classes_) == ["eggs", "ham", "spam"] and search.n_features_in_ == 8
    assert search.feature_names_in_[0] == "column0" and search.best_params_ in ({"max_norm": 1.0}, {"loss": "log_loss"})
    rows = pd.DataFrame(X).add_prefix("column")
    assert search.predict_proba(rows).shape == search.decision_function(rows).shape == (300, 3)
    np.testing.assert_allclose(np.exp(search.predict_log_proba(rows)), search.predict_proba(rows))
    assert search.score(rows, names) == np.mean(search.predict(rows) == names) > 0.5
    assert abs(search.best_score_ - search.score(rows, names)) < 0.2
    assert not {"cv_results_", "n_splits_", "refit_time_", "n_trials_"} & set(vars(search))
    with pytest.raises(AttributeError):
        DPSearchCV(RIDGE, {}).predict_proba  # noqa: B018


def test_scores_are_those_of_scikit_learn_but_for_noise_and_clipping(binary, regression, silenced_noise):
    X, y = binary
    for scoring in ("accuracy", "neg_log_loss"):
        search = DPSearchCV(AMPClassifier(), {}, scoring=scoring, n_trials=1, epsilon=9.0, random_state=0).fit(X, y)
        *_, held_out, _, labels = _search.train_test_split(X, X, y, test_size=0.2, random_state=0)
        assert search.best_score_ == pytest.approx(search.score(held_out, labels), abs=1e-5)
    X, y = regression
    search = DPSearchCV(RIDGE, {}, n_trials=1, max_loss=4.0, random_state=0).fit(X, y)
    *_, held_out, _, targets = _search.train_test_split(X, X, y, test_size=0.2, random_state=0)
    assert search.best_score_ == pytest.approx(search.score(held_out, targets), abs=1e-5)
    clipped = DPSearchCV(RIDGE, {}, n_trials=1, max_loss=1e-9, random_state=0).fit(X, y)
    assert clipped.best_score_ == pytest.approx(-1e-9, rel=0.1)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "neg_mean_squared_error"])
def test_one_row_moves_a_sum_of_scores_by_one_at_most(scoring, monkeypatch):
    """Whatever a model says of it, also where that is no number."""
    sums = []
    monkeypatch.setattr(_search._noise, "add_gaussian", lambda values, scale: sums.append(values[0] / scale))

    class Says:
        classes_ = np.arange(2)

        def predict(self, X):
            return X[:, 0]

        def predict_proba(self, X):
            return np.column_stack([1 - X[:, 0], X[:, 0]])

    rows = np.append(np.full(9, 0.5), [0.0])
    for says in (0.0, 1.0, 0.5, np.nan, np.inf, -np.inf, 1e300):
        rows[-1] = says
        with np.errstate(all="ignore"):
            score = _search._Score(scoring, 0.5, scale=2.0)
            score.released(score.points(Says(), rows[:, None], np.ones(10, dtype=int)), 10)
    assert np.ptp(sums) <= 1 / 2.0 and all(one * 2.0**21 == np.rint(one * 2.0**21) for one in sums)


def test_the_noise_of_a_trial_is_that_of_its_target(regression):
    """Of a fit as well as of a score: each row is in one of the two."""
    X, y = regression
    search = DPSearchCV(RIDGE, {}, n_trials=10, epsilon=1.0, delta=1e-6, max_loss=4.0, random_state=0).fit(X, y)
    trial_epsilon, trial_delta, distance = private_search_trial(1.0, 1e-6, n_trials=10)
    fit = clone(RIDGE).set_params(epsilon=trial_epsilon, delta=trial_delta).fit(X[:160], y[:160])
    assert search.best_estimator_.scale_ == fit.scale_
    score = _search._Score("accuracy", 1.0).with_target(trial_epsilon, trial_delta)
    assert search.scale_ == pytest.approx(score.scale * 4.0 / 40, rel=1e-12)
    assert score.loss.profile(trial_epsilon) <= trial_delta and score.loss.profile(0.0) <= distance


def test_candidates_of_several_families_share_one_trial(binary):
    X, y = binary
    models = [AMPClassifier(epsilon=3.0), DPSGDClassifier(), make_pipeline(DPPCA(4), DPSGDClassifier())]
    pipeline = make_pipeline(Normalizer(), models[0])
    grid = {"ampclassifier": models}
    search = DPSearchCV(pipeline, grid, epsilon=2.0, n_trials=3, adjacency="add_remove", random_state=0).fit(X, y)
    assert search.guarantee_.adjacency.relation == "add_remove" and search.best_params_["ampclassifier"] in models
    assert models[0].epsilon == 3.0  # what was given stays as it is
    assert search.delta_ * 0.9 <= search.guarantee_.loss.profile(2.0) <= search.delta_
    spent, *_ = private_search_trial(2.0, search.delta_, n_trials=3)
    assert all(step.epsilon <= spent for step in private_steps(search.best_estimator_))


def test_a_search_takes_what_its_first_step_takes(binary, seeded):
    X, y = binary
    fit = {"n_trials": 1, "epsilon": 5.0, "classes": [0, 1], "random_state": 0}
    model = make_pipeline(Normalizer(), AMPClassifier())
    for rows in (X.tolist(), X.astype(np.float32), sp.csr_matrix(X), sp.coo_array(X), pd.DataFrame(X)):
        assert DPSearchCV(model, {}, **fit).fit(rows, list(y)).best_params_ == {}
    colours = pd.DataFrame({"colour": np.array(["red", "blue"], dtype=object)[y], "size": X[:, 0]})
    columns = ColumnTransformer(
        [
            ("size", PublicScaler((-1, 1)), ["size"]),
            ("colour", OneHotEncoder(categories=[["blue", "red"]], handle_unknown="ignore"), ["colour"]),
        ],
        sparse_threshold=0,
    )
    search = DPSearchCV(make_pipeline(columns, AMPClassifier()), {}, **fit).fit(colours, y)
    assert search.score(colours, y) > 0.9 and search.guarantee_.given == ""
    fit["classes"] = None  # those of the model are as public
    assert DPSearchCV(AMPClassifier(classes=[0, 1]), {}, **fit).fit(X, y).guarantee_.given == ""
    assert DPSearchCV(AMPClassifier(), {"classes": [[0, 1]]}, **fit).fit(X, y).guarantee_.given == "the set of labels"
    texts = np.array(["a cold day", "a warm night"], dtype=object)[y]
    model = make_pipeline(HashingVectorizer(n_features=64), AMPClassifier())
    assert DPSearchCV(model, {}, **fit).fit(list(texts), y).score(list(texts), y) > 0.9


def test_missing_values_reach_a_step_that_fills_them(binary):
    X, y = binary[0].copy(), binary[1]
    X[0, 0] = np.nan
    model = make_pipeline(PublicScaler((-1, 1), fill=0.0), AMPClassifier())
    assert DPSearchCV(model, {}, **SEARCHED).fit(X, y).predict(X).shape == (300,)
    with pytest.raises(ValueError, match="X contains NaN"):
        DPSearchCV(AMPClassifier(), {}, **SEARCHED).fit(X, y)


# What is refused, and what fails


@pytest.mark.parametrize(
    ("estimator", "options", "error", "message"),
    [
        (make_pipeline(StandardScaler(), AMPClassifier()), {}, ValueError, "standardscaler learns from the rows"),
        (make_pipeline(DPPCA(2), LogisticRegression()), {}, ValueError, "logisticregression learns from the rows"),
        (make_pipeline(DPOPORP(4), AMPClassifier()), {}, TypeError, "DPOPORP does not say before a fit"),
        (MIDPRegressor(), {"max_loss": 1.0}, TypeError, "MIDPRegressor does not say before a fit"),
        (LogisticRegression(), {}, ValueError, "holds no private step"),
        (AMPClassifier(noise="product", calibration="published"), {}, ValueError, "No noise of a candidate guarantees"),
        (RIDGE, {}, ValueError, "max_loss is needed"),
        (RIDGE, {"scoring": "accuracy"}, ValueError, "scoring='accuracy' is not for a regressor"),
        (AMPClassifier(), {"scoring": "neg_mean_squared_error"}, ValueError, "is not for a classifier"),
        (AMPClassifier(C=100.0), {}, ValueError, "is too small for C=100.0"),
        (AMPClassifier(), {"n_trials": 0}, ValueError, "'n_trials' parameter"),
        (AMPClassifier(), {"param_grid": []}, ValueError, "param_grid has no candidate"),
        (AMPClassifier(), {"classes": [0, 2]}, ValueError, "y has labels that are not among"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_searched_is_refused_before_anything_is_released(estimator, options, error, message, binary):
    with PrivacyLedger() as ledger, pytest.raises(error, match=message):
        DPSearchCV(estimator, **{"param_grid": {}, "n_trials": 2} | options).fit(*binary)
    assert ledger.entries == ()


CALLS = []


def fails_later(X):
    """Take rows where they are looked at before the trials, and fail in each of those."""
    CALLS.append(len(X))
    if len(CALLS) > 3:
        raise ArithmeticError("row 3 is odd")
    return X


@pytest.mark.parametrize("others", [[], [FunctionTransformer()]])
@pytest.mark.parametrize("model", [AMPClassifier(), DPRidge(target_bounds=np.array([2, 4]))])
def test_a_trial_that_fails_ends_the_search_and_nothing_is_released(model, others, binary):
    """If it lost instead, who wins would tell of a row that makes some fail. Its price is paid, no row is quoted."""
    options = {"max_loss": 1.0} if is_regressor(model) else {}
    failing = make_pipeline(FunctionTransformer(fails_later), model)
    grid = {"functiontransformer": [FunctionTransformer(fails_later), *others]}
    search = DPSearchCV(failing, grid, n_trials=60, **options)
    CALLS.clear()
    with (
        PrivacyLedger() as ledger,
        pytest.raises(ValueError, match=r"failed, .*: ArithmeticError in") as error,
    ):
        search.fit(*binary)
    assert vars(search).keys() == vars(clone(search)).keys() and len(ledger.entries) == 1
    assert "odd" not in str(error.value) and error.value.__context__ is None


def test_held_out_rows_that_pass_one_by_one_and_fail_together_end_the_search(binary):
    """If all scored 0 instead, one row that makes the others fail would move the score of every model by all of it."""
    held_out = len(train_test_split(binary[1], test_size=0.2)[1])
    n_rows = []

    def _fails_together(X):
        n_rows.append(len(X))
        if len(n_rows) > 3 and len(X) == held_out:  # not where rows are looked at before the trials
            raise ArithmeticError("row 3 is odd")
        return X

    model = make_pipeline(FunctionTransformer(_fails_together), AMPClassifier())
    search = DPSearchCV(model, {}, n_trials=5)
    with (
        PrivacyLedger() as ledger,
        pytest.raises(ValueError, match=r"failed, .*: ArithmeticError in") as error,
    ):
        search.fit(*binary)
    assert n_rows[-held_out - 1 :] == [2] * held_out + [held_out]
    assert vars(search).keys() == vars(clone(search)).keys() and len(ledger.entries) == 1
    assert "odd" not in str(error.value) and error.value.__context__ is None


def test_a_fit_that_guarantees_something_else_than_was_planned_ends_the_search(binary):
    """As where a step before it leaves more columns of many rows than it does of few."""
    wider = FunctionTransformer(lambda X: X if len(X) <= _rehearsal._FEW_ROWS else np.hstack([X, X]))
    with pytest.raises(ValueError, match=r"A trial failed, .*: other guarantees than were planned"):
        DPSearchCV(make_pipeline(wider, AMPClassifier()), {}, **SEARCHED).fit(*binary)


def test_nothing_is_said_of_trials(binary, capsys):
    """Warnings of fits would tell of candidates, and their number."""
    noisy = FunctionTransformer(lambda X: warnings.warn("I was tried", stacklevel=1) or X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPSearchCV(make_pipeline(noisy, AMPClassifier()), {}, **SEARCHED).fit(*binary)
    assert [str(one.message) for one in caught if "tried" in str(one.message)] == []
    assert capsys.readouterr().out == ""


def test_a_search_in_a_search_is_charged_for_each_fold(binary):
    inner = DPSearchCV(AMPClassifier(classes=[0, 1]), {}, delta=1e-6, classes=[0, 1], **SEARCHED)
    search = GridSearchCV(inner, {"epsilon": [0.5, 1.0]}, cv=KFold(2)).fit(*binary)
    report = privacy_report(search)
    assert report.steps[1].releases == 2 * 1 + 1 and report.private.epsilon <= 0.5 + 1.0 + 1.0


def test_seeded_searches_are_marked_and_repeat(binary):
    def fitted():
        with reproducible_noise(3):
            return DPSearchCV(AMPClassifier(), {"max_norm": [1.0, 2.0]}, **SEARCHED).fit(*binary)

    one, other = fitted(), fitted()
    assert one.guarantee_.seeded and one.best_params_ == other.best_params_ and one.best_score_ == other.best_score_
    np.testing.assert_array_equal(one.best_estimator_.coef_, other.best_estimator_.coef_)


# Attacks: one held-out row decides which of two candidates is right about it


@cache
def calibration_of_says(epsilon, delta, adjacency):
    facts = {"adjacency": Adjacency(adjacency), "per": "fit", "loss": PrivacyLoss()}
    return Calibration(PrivacyGuarantee(epsilon, delta, **facts))


class Says(RegressorMixin, BaseEstimator):
    """Predict one value, whatever the rows are: as private as anybody asks for, and fitted at once."""

    _parameter_constraints: dict = {}

    def __init__(self, value=1.0, epsilon=1.0, delta=0.0, adjacency="replace_one"):
        self.value = value
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency

    @classmethod
    def _get_param_names(cls):  # known, as thousands of clones are made
        return ["adjacency", "delta", "epsilon", "value"]

    def _calibration_of(self, shape, dtype, n_outputs):
        return calibration_of_says(self.epsilon, self.delta, self.adjacency)

    def fit(self, X, y):
        self.guarantee_ = self._calibration_of(X.shape, X.dtype, 1).guarantee
        return self

    def predict(self, X):
        return np.full(len(X), self.value)


CLAIM = PrivacyGuarantee(2.0, 0.1)


def audited(n_trials=46, of_each_search=20):
    """Attack a search by the target of the one row that models are scored on, and by which one won.

    Of seeded noise, whose outcome is always this one: a lower confidence accuses sooner.
    """
    options = {"test_size": 0.05, "random_state": 0}
    known = {"epsilon": 2.0, "delta": 0.1, "n_trials": of_each_search, "max_loss": 1.0}
    search = DPSearchCV(Says(), {"value": [1.0, 0.0]}, **known, **options)
    held_out = _search.train_test_split(np.arange(20), **options)[1]
    pair = [(np.zeros((20, 1)), np.isin(np.arange(20), held_out) * target) for target in (1.0, 0.0)]
    known = {
        "output": lambda fitted: np.array([[fitted.best_params_["value"]]]),
        "distinguishers": {"winner": np.ravel},
    }
    return audit_epsilon(search, *pair, delta=0.1, confidence=0.9, n_trials=n_trials, **known)


def test_an_attack_finds_nothing(seeded):
    assert not audited().exceeds(CLAIM)


def test_an_attack_catches_the_noise_of_a_single_fit(seeded, monkeypatch):
    """Each trial as private as the search is said to be: the best of many tells more."""
    monkeypatch.setattr(
        _search, "private_search_trial", lambda epsilon, delta, n_trials, trial_distance: (epsilon, delta, 1.0)
    )
    assert audited().exceeds(CLAIM)


def test_an_attack_catches_scores_without_noise(seeded, monkeypatch):
    monkeypatch.setattr(_search._Score, "with_target", lambda self, *ignored: self)
    monkeypatch.setattr(_search._Score, "loss", PrivacyLoss())
    assert audited(40, of_each_search=8).exceeds(CLAIM)


def test_private_branches_of_columns_are_searched_and_rows_that_they_refuse_are_refused_before():
    """A ColumnTransformer with a private branch: text goes to it, and what no branch takes fails before any trial."""
    X = pd.DataFrame({"age": np.arange(400.0) % 90, "town": ["York", "Hull"] * 200})
    y = np.arange(400) % 2
    columns = ColumnTransformer([("public", PublicBinner((0, 90)), ["age"]), ("private", DPBinner(), ["town"])])
    # Moments, whose loss adds up with that of bins in closed form.
    model = make_pipeline(columns, DPRidge(target_bounds=(0, 1), max_norm=2**0.5, mechanism="moments"))
    grid = {"columntransformer__private__max_categories": [2, 5]}
    search = DPSearchCV(model, grid, n_trials=2, epsilon=50.0, delta=1e-5, max_loss=1.0).fit(X, y)
    assert search.guarantee_.epsilon == 50.0
    grid = {"columntransformer__scaler__quantiles": [(0.05, 0.95), (0, 1)]}
    for branches in (
        [("public", PublicBinner((0, 90)), ["age"]), ("scaler", DPScaler(), ["income"])],
        [("public", PublicBinner((0, 90)), ["income"]), ("scaler", DPScaler(), ["age"])],
    ):
        for wrong in (np.inf, -np.inf):
            table = X.assign(income=np.where(np.arange(400) == 7, wrong, 1.0))
            model.set_params(columntransformer=ColumnTransformer(branches))
            with PrivacyLedger() as ledger, pytest.raises(ValueError, match="infinity"):
                DPSearchCV(model, grid, epsilon=50.0, delta=1e-5, max_loss=1.0).fit(table, y)
            assert not ledger.entries


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize(
    "of",
    [
        lambda sketch: ColumnTransformer([("sketch", sketch, slice(0, 3))]),
        lambda sketch: FixedThresholdClassifier(make_pipeline(sketch, LogisticRegression())),
        lambda sketch: VotingClassifier([("one", make_pipeline(sketch, LogisticRegression()))]),
        lambda sketch: sketch,
    ],
    ids=["columns", "threshold", "voting", "sketch"],
)
def test_a_budget_is_that_of_the_next_fit_also_where_there_has_been_one(of, is_fitted):
    """What a fit leaves are clones: one of these got the epsilon, and the next fit released with the old one."""
    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 3)), np.arange(40) % 2
    model = of(DPOPORP(2, epsilon=8.0, delta=1e-6))
    if is_fitted:
        model.fit(X, y)
    set_budget(model, X, y, epsilon=1.0)
    assert privacy_report(clone(model).fit(X, y)).private.epsilon == 1.0


def test_a_budget_of_moments_with_targets_needs_them():
    X = np.random.default_rng(0).uniform(size=(40, 6))
    model = make_pipeline(DPPCA(2), DPMoments(target_bounds=(0, 1)))
    with pytest.raises(ValueError, match="Give y"):
        set_budget(model, X, epsilon=1.0, delta=1e-6)


def test_no_budget_is_shared_with_a_subclass_that_may_release_more():
    """The report leaves it out, and so the others were given all of the budget: the next fit cost 1.8 for 1."""

    class Derived(AMPClassifier):
        def another(self):
            return 1

    X, y = np.random.default_rng(0).uniform(size=(40, 4)), np.arange(40) % 2
    model = make_pipeline(DPPCA(2, epsilon=1.0, delta=1e-6), Derived(delta=1e-6, classes=[0, 1]))
    with pytest.raises(TypeError, match="Derived does not say before a fit"):
        set_budget(model, X, y, epsilon=1.0, delta=1e-6)


class OfOthers(ClassifierMixin, BaseEstimator):
    """A private model of another library, which says what it released once it is fitted."""

    def __init__(self, budget=2.0):
        self.budget = budget

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.guarantee_ = PrivacyGuarantee(self.budget, 0.0, adjacency=Adjacency("replace_one"), per="fit")
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class AnotherOneVsRest(OneVsRestClassifier):
    """A subclass that does as it likes."""


@pytest.mark.parametrize(
    "other",
    [OfOthers(), AnotherOneVsRest(LogisticRegression()), BaggingClassifier(OfOthers(), n_estimators=2)],
    ids=lambda other: type(other).__name__,
)
def test_no_budget_is_set_where_another_library_may_release_more(other):
    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 4)), np.arange(40) % 2
    with pytest.raises(ValueError, match="a fit of it may release anything"):
        set_budget(make_pipeline(DPPCA(2), other), X, y, epsilon=1.0, delta=1e-6)
    sketched = make_pipeline(DPOPORP(2, delta=1e-6), other)  # of which it sees sketches alone
    assert set_budget(sketched, X, y, epsilon=1.0)[0].epsilon == 1.0


def test_as_many_rows_are_planned_to_be_held_out_as_are():
    """By arithmetic, as a search of 10^10 rows has a plan, too."""
    for n_samples, test_size in product((2, 3, 7, 10, 100, 1001), (0.1, 0.2, 0.3, 1 / 3, 0.5)):
        held_out = train_test_split(np.arange(n_samples), test_size=test_size, random_state=0)[1]
        assert math.ceil(test_size * n_samples) == len(held_out)
    search = DPSearchCV(AMPClassifier(), {}, classes=[0, 1], epsilon=1.0, delta=1e-6)
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (5, 3))
    assert privacy_report(search, rows, n_samples=10**10).total.epsilon == 1.0
    with pytest.raises(ValueError, match="leaves none of 1 rows to fit to"):
        privacy_report(search, rows, n_samples=1)


def test_steps_of_a_winner_are_counted_once_and_those_of_two_twice(tmp_path):
    """A report on the best pipeline counted the search for each of its steps: 3.3 for 2, also of the file of it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 3))
    y = (X[:, 0] > 0).astype(int)
    pipeline = make_pipeline(DPBinner(3, bounds=(-1, 1)), DPSGDClassifier(classes=[0, 1]))
    known = {"epsilon": 2.0, "delta": 1e-6, "n_trials": 0.5, "classes": [0, 1]}
    searches = [DPSearchCV(pipeline, {}, **known).fit(X, y) for _ in range(2)]
    best, other = (search.best_estimator_ for search in searches)
    save_model(tmp_path / "best.npz", best)
    for found in (best, pickle.loads(pickle.dumps(best)), load_model(tmp_path / "best.npz").estimator):
        total = privacy_report(found).total
        assert (total.epsilon, total.delta) == (2.0, 1e-6)
        assert [step.releases for step in privacy_report(found).steps] == [1, 0]
    assert best[0].guarantee_ == other[-1].guarantee_
    assert privacy_report(make_pipeline(best[0], other[-1])).total is None  # which has learnt from other bins
    mixed = make_union(best[0], other[0])  # neither of which is fitted again
    assert privacy_report(mixed).total.epsilon > 2.0
    save_model(tmp_path / "mixed.npz", mixed)
    assert privacy_report(load_model(tmp_path / "mixed.npz").estimator).total.epsilon > 2.0
    best[-1].fit(best[0].transform(X), y)  # one release more
    assert privacy_report(best).total.epsilon > 2.0


@pytest.mark.parametrize("epsilon", [20.0, 100.0])
def test_searches_of_steps_with_hardly_any_noise_have_a_profile(epsilon):
    """The distance of a trial was 1.0078 there, of which no profile is known: nothing could be printed or composed."""
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    pipeline = make_pipeline(DPBinner(3, bounds=(-1, 1)), DPSGDClassifier(classes=[0, 1], n_epochs=1))
    search = DPSearchCV(pipeline, {}, epsilon=epsilon, delta=1e-6, n_trials=1.5, classes=[0, 1])
    guarantee = search.fit(X, (X[:, 0] > 0).astype(int)).guarantee_
    assert guarantee.profile(epsilon) <= 1e-6 < guarantee.profile(epsilon / 2)
    assert guarantee.profile(0.0) <= 1.0


def test_a_grid_may_put_steps_into_the_place_of_none():
    """Rows were checked as what follows would take them: text was refused, though all candidates encode it."""
    table = pd.DataFrame({"size": np.linspace(-1, 1, 400), "town": ["Hull", "York"] * 200})
    known = {"bounds": {"size": (-1, 1)}, "categories": {"town": ["Hull", "York"]}}
    columns = [make_table_preprocessor(**known, numbers=numbers) for numbers in ("bins", "scaled")]
    model = Pipeline([("columns", "passthrough"), ("ridge", DPRidge(target_bounds=(-1, 1)))])
    search = DPSearchCV(model, {"columns": columns}, n_trials=2, epsilon=3.0, delta=1e-5, max_loss=4.0)
    assert search.fit(table, table["size"].to_numpy()).predict(table).shape == (400,)
    with pytest.raises(ValueError, match="text where numbers should be"):
        clone(search).set_params(param_grid={"ridge__max_norm": [1.0]}).fit(table, table["size"].to_numpy())


def test_an_empty_grid_is_refused_by_its_name():
    X = pd.DataFrame({"a": ["x", "y"] * 20})
    with pytest.raises(ValueError, match="param_grid has no candidate"):
        DPSearchCV(AMPClassifier(classes=[0, 1]), []).fit(X, [0, 1] * 20)
