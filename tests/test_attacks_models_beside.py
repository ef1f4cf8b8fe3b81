"""Attacks beside models: files of what was fitted before, last steps alone, curves of ensembles, the plan of a fit."""

import copy
import pickle
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    compose,
    load_model,
    privacy_report,
    save_model,
)
from skdprp._calibration import is_as_stated
from skdprp._command import main
from skdprp.audit._epsilon import clopper_pearson, epsilon_bound
from skdprp.inspection import PrivacyUtilityDisplay
from skdprp.testing import reproducible_noise

_X = np.random.default_rng(0).normal(size=(400, 4)).clip(-3, 3)
_Y = (_X[:, 0] > 0).astype(int)


def _model(epsilon=1.0):
    return AMPClassifier(epsilon=epsilon, delta=1e-6, classes=[0, 1], max_norm=2.0)


def _binner(epsilon=1.0):
    return DPBinner(4, epsilon=epsilon, delta=1e-6, sparse_output=False)


def _saved(model, folder):
    save_model(folder / "model.npz", model)
    return load_model(folder / "model.npz")


# Files


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_file_states_the_model_behind_a_threshold_and_not_the_one_that_it_was_made_of(tmp_path, is_marked):
    """Both have the path "estimator", of which the last one stands: a model of epsilon 5 was said to have 0.1."""
    before = _model(0.1).fit(_X, _Y)
    model = FixedThresholdClassifier(before.set_params(epsilon=5.0), threshold=0.3).fit(_X, _Y)
    if is_marked:
        model.estimator_.guarantee_ = replace(model.estimator_.guarantee_, audited_epsilon=6.0)
    saved = _saved(model, tmp_path)
    assert saved.estimator.estimator_.guarantee_ in saved.guarantees.values()


def test_a_file_holds_and_states_one_of_two_models_of_one_epsilon(tmp_path):
    """Two releases of epsilon 1 were in the file, and one was stated."""
    with PrivacyLedger() as ledger:
        model = FixedThresholdClassifier(_model().fit(_X, _Y)).fit(_X, _Y)
    saved = _saved(model, tmp_path)
    assert np.array_equal(saved.estimator.estimator_.coef_, model.estimator_.coef_)
    assert vars(saved.estimator.estimator).keys() == _model().get_params().keys()
    assert len(ledger.entries) == 2
    assert len(saved.guarantees) == 1


def test_no_file_has_a_guarantee_that_was_set_behind_a_threshold(tmp_path):
    """The same path hides the step that is refused elsewhere: 0.01 for a release of 1.0."""
    model = FixedThresholdClassifier(_model().fit(_X, _Y)).fit(_X, _Y)
    model.estimator_.guarantee_ = replace(model.estimator_.guarantee_, epsilon=0.01)
    with pytest.raises(ValueError, match="set after the fit"):
        save_model(tmp_path / "model.npz", model)


def test_a_file_of_a_model_behind_a_threshold_of_noise_from_a_seed_says_so(tmp_path):
    """The seed was in the report on the file, and in no guarantee of it."""
    before = _model().fit(_X, _Y)
    with reproducible_noise(0):
        model = FixedThresholdClassifier(before).fit(_X, _Y)
    saved = _saved(model, tmp_path)
    assert privacy_report(saved.estimator).total.seeded
    assert any(one.seeded for one in saved.guarantees.values())


@pytest.mark.parametrize("place", ["transformers", "remainder"])
def test_a_file_states_each_step_that_a_column_transformer_was_made_of(tmp_path, place):
    """All of `transformers` have one path, and the remainder has that of its clone: one guarantee of several stands."""
    given = [_binner(3.0).fit(_X[:, :2]), DPScaler(epsilon=0.2, delta=1e-6).fit(_X[:, 2:])]
    given[1].set_params(epsilon=0.4)
    columns = ColumnTransformer([("first", given[0], [0, 1]), ("second", given[1], [2, 3])], sparse_threshold=0)
    if place == "remainder":
        columns = ColumnTransformer([("first", PublicScaler((-3, 3)), [0, 1])], remainder=given[1], sparse_threshold=0)
    saved = _saved(make_pipeline(columns, _model()).fit(_X, _Y), tmp_path)
    held = [step for _, step, _ in saved.estimator[0].transformers_]
    held += (
        [saved.estimator[0].remainder] if place == "remainder" else [s for _, s, _ in saved.estimator[0].transformers]
    )
    released = [step.guarantee_ for step in held if hasattr(step, "guarantee_")]
    assert len(released) == (1 if place == "remainder" else 2)  # those of the last fit, and none of what was given
    stated = list(saved.guarantees.values())
    assert all(stated.count(one) >= released.count(one) for one in released)


@pytest.mark.parametrize(
    "values",
    [
        lambda fitted: {"dpbinner": [_binner(), fitted]},
        lambda fitted: [{"dpbinner": [_binner()]}, {"dpbinner": [fitted]}],
        lambda fitted: {"dpbinner": [make_pipeline(PublicScaler((-3, 3)), fitted)]},
        lambda fitted: {"dpbinner": np.array([fitted, "passthrough"], dtype=object)},
        lambda fitted: {"dpbinner__bounds": [None, {"first": [fitted]}]},
    ],
    ids=["value", "second grid", "step of a value", "array", "dictionary in a list"],
)
def test_no_search_has_candidates_that_hold_what_was_fitted_before(values):
    """best_params_ and files had the edges that bins of epsilon 3 found, under the guarantee of a search of 2."""
    steps = make_pipeline(_binner(), _model())
    search = DPSearchCV(steps, values(_binner(3.0).fit(_X)), n_trials=1, epsilon=2.0, delta=1e-4)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=r"fitted DPBinner.*clone"):
        search.fit(_X, _Y)
    assert not ledger.entries and not hasattr(search, "best_params_")


def test_a_file_of_a_search_has_nothing_of_what_was_fitted_after_it_and_is_in_its_grid(tmp_path):
    """Candidates of a grid, which best_params_ names, are no clones: bins of epsilon 3 beside a search of 2."""
    grid = {"dpbinner": [_binner(3.0)]}
    search = DPSearchCV(make_pipeline(_binner(), _model()), grid, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)
    grid["dpbinner"][0].fit(_X)
    saved = _saved(search, tmp_path)
    assert list(saved.guarantees.values()) == [search.guarantee_]
    assert not hasattr(saved.estimator.best_params_["dpbinner"], "bin_edges_")


def _search():
    return DPSearchCV(make_pipeline(_binner(), _model()), {}, n_trials=1, epsilon=2.0, delta=1e-4).fit(_X, _Y)


def _winner():
    return _search().best_estimator_


def test_no_file_or_total_of_a_search_has_a_winner_that_was_fitted_again(tmp_path):
    """Its bins and its model are two releases more, of weights that are in the file beside those of no other."""
    with PrivacyLedger() as ledger:
        search = _search()
        saved = _saved(search, tmp_path)
        search.best_estimator_.fit(_X, _Y)
    assert len(ledger.entries) == 3
    for again in (search, make_pipeline(PublicScaler((-3, 3)), search)):
        with pytest.raises(ValueError, match="best_estimator_ that was fitted again"):
            save_model(tmp_path / "model.npz", again)
    assert privacy_report(search).private is None and "fitted again" in repr(privacy_report(search))
    assert len(_saved(search.best_estimator_, tmp_path).guarantees) == 2
    assert saved.guarantees == {"": search.guarantee_} and privacy_report(saved.estimator).total.epsilon == 2.0


def test_a_file_of_one_against_the_rest_is_given_the_set_of_labels(tmp_path):
    """One label more makes three models of one, under guarantees that have no labels in common; reports say "given"."""
    model, y = OneVsRestClassifier(_model()), _Y + 1
    other = y.copy()
    other[0] = 0
    saved = [_saved(model.fit(_X, labels), tmp_path) for labels in (y, other)]
    assert [len(one.estimator.estimators_) for one in saved] == [1, 3]
    assert privacy_report(model).total.given == "the set of labels"
    assert all(one.given for one in saved[0].guarantees.values())
    assert not any("encoding of labels" in text for text in privacy_report(model).total.assumptions)


def test_steps_side_by_side_that_one_search_released_count_once(tmp_path):
    """Neither branch knew what the other one states: a search of 2 was counted as 3; two of them are 4 or less."""
    union = FeatureUnion([("bins", _binner()), ("scaled", DPScaler(epsilon=1.0, delta=1e-6))])
    search = DPSearchCV(make_pipeline(union, _model()), {}, n_trials=1, epsilon=2.0, delta=1e-4)
    winner, other = search.fit(_X, _Y).best_estimator_, clone(search).fit(_X, _Y).best_estimator_
    for model in (winner, _saved(winner, tmp_path).estimator):
        assert privacy_report(model).total.epsilon == 2.0
        assert sum(step.calls for step in privacy_report(model).steps) == 1
    both = FeatureUnion([("a", FrozenEstimator(winner[0])), ("b", FrozenEstimator(other[0]))])
    both = make_pipeline(both, FrozenEstimator(winner[1])).fit(_X, _Y)
    assert 3.0 < privacy_report(both).total.epsilon <= 4.0
    assert sum(step.calls for step in privacy_report(both).steps) == 2


def test_a_file_of_a_winner_keeps_what_audits_have_shown_of_each_step(tmp_path):
    """Steps after the first are stated anew, as the search was before: "VIOLATED" is lost of all but one."""
    winner = _winner()
    for step in winner:
        step.guarantee_ = replace(step.guarantee_, audited_epsilon=9.0)
    saved = _saved(winner, tmp_path)
    assert all(step.guarantee_.violation for step in winner)
    assert [bool(step.guarantee_.violation) for step in saved.estimator] == [True, True]


# Last steps


def test_the_last_step_of_a_private_pipeline_states_that_what_is_before_it_is_added_up():
    """Its weights tell what a step before it tells: epsilon is 0.8 at least, but for 1e-9, and 0.5 is stated."""
    # Half of the rows lie along one axis, and half along the other: one row decides which is the first component, and
    # so whether scores know the labels. The total of the pipeline, and a ledger, have both.
    n_of_each, n_trials = 2000, 120
    rows = np.zeros((2 * n_of_each + 1, 2))
    signs = np.tile([1.0, -1.0], n_of_each + 1)[: len(rows)]
    rows[: n_of_each + 1, 0], rows[n_of_each + 1 :, 1] = signs[: n_of_each + 1], signs[n_of_each + 1 :]
    labels = (signs > 0).astype(int)
    labels[n_of_each + 1 :] = np.tile([0, 0, 1, 1], n_of_each)[:n_of_each]  # which say nothing of the second axis
    other = rows.copy()
    other[0] = [0.0, 1.0]
    last = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1], count_labels=False)
    model = make_pipeline(DPPCA(1, epsilon=20.0, delta=1e-6), last)
    hits, false_alarms = (
        sum(abs(model.fit(X, labels)[-1].coef_[0, 0]) > 2.0 for _ in range(n_trials)) for X in (rows, other)
    )
    power, size = clopper_pearson(hits, n_trials, 5e-10)[0], clopper_pearson(false_alarms, n_trials, 5e-10)[1]
    stated, total = model[-1].guarantee_, privacy_report(model).total
    is_to_be_added = any("private ones whose guarantees are added to this one" in text for text in stated.assumptions)
    assert is_to_be_added or epsilon_bound(power, size, stated.delta) <= stated.epsilon
    assert not any("no preceding step was fitted" in text and "private" not in text for text in total.assumptions)
    assert epsilon_bound(power, size, total.delta) <= total.epsilon


# Curves


def test_a_curve_of_one_against_the_rest_is_of_the_total_of_its_models_or_names_one():
    """The axis said "epsilon, one row replaced" at 1.0, where the four models of a fit are four releases: 3.5."""
    pytest.importorskip("matplotlib").use("Agg")
    y = np.arange(len(_X)) % 4
    options = {"epsilons": [1.0], "cv": 2, "n_repeats": 1, "reference": None, "chance": False}
    with PrivacyLedger() as ledger:
        display = PrivacyUtilityDisplay.from_estimator(OneVsRestClassifier(_model()), _X, y, **options)
    assert len(ledger.entries) == 8
    assert 0.99 < compose(*(one.guarantee for one in ledger.entries[:4])).epsilon <= 1.0
    hidden = "one row replaced, given the set of labels"
    assert display.plot().ax_.get_xlabel().startswith(f"total epsilon of all private steps, {hidden}\n")
    sketches = OneVsRestClassifier(make_pipeline(DPOPORP(4), LogisticRegression()))
    with pytest.raises(ValueError, match=r"total of several releases.*param_name"):
        PrivacyUtilityDisplay.from_estimator(sketches, _X, y, **options)
    for model, step in ((OneVsRestClassifier(_model()), "estimator"), (sketches, "estimator__dpoporp")):
        display = PrivacyUtilityDisplay.from_estimator(model, _X, y, param_name=f"{step}__epsilon", **options)
        assert display.plot().ax_.get_xlabel().startswith(f"epsilon of one release of {step} alone, ")


def test_no_curve_of_a_search_is_named_after_the_epsilon_of_one_step_of_several():
    """Of bins at epsilon 5 and models at 0.1 the axis said "epsilon, one row replaced" at 0.1; the total is 4.9."""
    pytest.importorskip("matplotlib").use("Agg")
    model = make_pipeline(_binner(5.0), _model())
    search = GridSearchCV(model, {"ampclassifier__epsilon": [0.1, 1.0]}, cv=KFold(2, shuffle=True)).fit(_X, _Y)
    display = PrivacyUtilityDisplay.from_cv_results(search).plot()
    total = privacy_report(model.set_params(ampclassifier__epsilon=0.1), _X, _Y).total
    axis = display.ax_.get_xlabel().splitlines()[0]
    assert total.epsilon > display.epsilons[0] == 0.1
    assert axis == "epsilon of one release of ampclassifier alone, one row replaced"
    assert display.ax_.get_legend().get_texts()[0].get_text() == "AMPClassifier, one release alone, one row replaced"


# What held


def _composites(rng):
    """Yield pipelines at random, of public, private and frozen steps, unions, ensembles, winners and searches."""

    def _step(depth):
        kind = rng.integers(10 if depth < 2 else 6)
        epsilon = float(rng.choice([0.3, 1.0, 2.0]))
        leaves = [
            _binner(epsilon),
            DPScaler(epsilon=epsilon, delta=1e-6),
            DPPCA(2, epsilon=epsilon, delta=1e-6),
            PublicScaler((-3, 3)),
            Normalizer(),
            FunctionTransformer(np.abs),
        ]
        if kind < 6:
            return leaves[kind]
        if kind == 6:
            return make_pipeline(_step(depth + 1), _step(depth + 1))
        if kind == 7:
            return FeatureUnion([("a", _step(depth + 1)), ("b", _step(depth + 1))])
        if kind == 8:
            parts = [("a", _step(depth + 1), [0, 1])]
            return ColumnTransformer(parts, remainder=_step(depth + 1), sparse_threshold=0)
        return FrozenEstimator(_step(depth + 1).fit(_X))

    def _last(depth):
        kind = rng.integers(9 if depth < 2 else 3)
        epsilon = float(rng.choice([0.3, 1.0, 2.0]))
        if kind < 3:
            own = {"epsilon": epsilon, "delta": 1e-6, "classes": [0, 1]}
            return [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation][kind](**own)
        if kind == 3:
            return FixedThresholdClassifier(_last(2), threshold=0.4, response_method="predict_proba")
        if kind == 4:
            return VotingClassifier([("a", _last(depth + 1)), ("b", _last(depth + 1))])
        if kind == 5:
            return OneVsRestClassifier(_last(depth + 1))
        if kind == 6:
            return make_pipeline(_step(depth + 1), _last(depth + 1))
        if kind == 7:
            return DPSearchCV(make_pipeline(_binner(), _model()), {}, n_trials=1, epsilon=epsilon + 1, delta=1e-4)
        winner = _winner()
        return make_pipeline(*map(FrozenEstimator, winner)) if rng.random() < 0.5 else FrozenEstimator(winner)

    while True:
        yield lambda: make_pipeline(_step(0), _last(0))


def test_no_total_of_any_pipeline_is_less_than_what_a_ledger_has_and_no_plan_is_less_than_its_fit():
    """Frozen steps and winners included, which were fitted while the ledger was open."""
    n_tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in _composites(np.random.default_rng(3)):
            with PrivacyLedger() as ledger:
                try:
                    model = make()
                    planned = privacy_report(model, _X, _Y).private
                    model.fit(_X, _Y)
                except ValueError:  # what is frozen takes rows of another width
                    continue
            spent = privacy_report(model)
            if spent.private is not None:
                assert sum(step.calls for step in spent.steps) >= len(ledger.entries)
                assert spent.private.epsilon >= compose(*(one.guarantee for one in ledger.entries)).epsilon * (1 - 1e-9)
                assert planned.epsilon >= spent.private.epsilon * (1 - 1e-6)
            n_tried += 1
            if n_tried == 2:
                return


@pytest.mark.parametrize(
    "holder",
    [
        lambda: SelectFromModel(_model()),
        lambda: RFECV(_model(), cv=2),
        lambda: CalibratedClassifierCV(_model(), cv=2),
        lambda: StackingClassifier([("a", _model()), ("b", LogisticRegression())], cv=2),
        lambda: BaggingClassifier(_model(), n_estimators=2),
        lambda: OneVsOneClassifier(_model()),
        lambda: ClassifierChain(_model()),
    ],
)
def test_what_fits_private_models_as_often_as_it_likes_has_no_total(holder):
    """More entries are in a ledger than a report could count."""
    y = np.column_stack([_Y, _Y[::-1]]) if isinstance(holder(), ClassifierChain) else _Y
    report = privacy_report(holder().fit(_X, y))
    assert report.total is None
    assert report.private is None


@pytest.mark.parametrize("known", [["--private-bins"], ["--bounds", "a=-3:3", "b=0:5", "--categories", "c=x,y"]])
@pytest.mark.parametrize("target", [["--classes", "0,1,2"], ["--target-bounds", "0:3", "--numbers", "scaled"]])
def test_what_the_command_enters_before_a_fit_is_what_its_file_has_spent(tmp_path, known, target):
    """Also where the few rows of the plan are all alike, and missing, as none of those after them are."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=300).round(2), "b": rng.integers(0, 5, 300), "c": rng.choice(["x", "y"], 300)}
    )
    table.loc[:70, ["a", "c"]] = [np.nan, "x"]
    table.assign(y=rng.integers(0, 3, 300)).to_csv(tmp_path / "rows.csv", index=False)
    files = ["--output", tmp_path / "model.npz", "--ledger", tmp_path / "people.jsonl", "--delta", "1e-4"]
    with redirect_stdout(StringIO()):
        main(["fit", *map(str, [tmp_path / "rows.csv", "--target", "y", *known, *target, *files])])
    [entered] = [one.guarantee for one in PrivacyLedger(tmp_path / "people.jsonl").entries]
    spent = privacy_report(load_model(tmp_path / "model.npz").estimator).total
    facts = ("epsilon", "delta", "loss", "given", "adjacency", "unit")
    assert [getattr(entered, fact) for fact in facts] == [getattr(spent, fact) for fact in facts]


@pytest.mark.parametrize("form", [np.array, np.asfortranarray, sp.csr_array, sp.csc_array, lambda X: X.astype("f4")])
def test_a_public_scaler_makes_each_row_of_that_row_alone_and_writes_into_none(form):
    """Blocks end anywhere in the rows, and are written in place of a copy."""
    rng = np.random.default_rng(0)
    for shape in ((1, 20_000), (3, 7000), (257, 300), (6000, 3)):
        X = form(rng.normal(size=shape) * 10)
        before, limits = X.copy(), np.abs(rng.normal(size=(shape[1], 1))) * 20 * [-1, 1] + [-1e-3, 1e-3]
        scaler = PublicScaler(limits).fit(X)
        out, rows = scaler.transform(X), (X.toarray() if sp.issparse(X) else X)
        out = out.toarray() if sp.issparse(out) else out
        assert not abs(X - before).sum()
        for place in rng.integers(shape[0], size=2):
            assert np.array_equal(scaler.transform(rows[[place]])[0], out[place])


@pytest.mark.parametrize(
    "fitted", [_winner, lambda: DPRidge(target_bounds=(0, 1)).fit(_X, _Y), lambda: _binner().fit(_X)]
)
def test_copies_of_what_is_fitted_state_what_was_stated(fitted):
    """A copy, a deep copy and a pickle have what they state beside what they were fitted with; a clone has neither."""
    model = fitted()
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for one in copies:
        assert all(is_as_stated(step) for step in getattr(one, "named_steps", {"": one}).values())
        assert privacy_report(one).total.epsilon == privacy_report(model).total.epsilon
    assert not hasattr(clone(model), "guarantee_")
