"""Attacks on reports by fits after the one that is reported, which are refused half-way, or made by something else."""
# ruff: noqa: D101, D102

import copy
import gc
import multiprocessing
import pickle
import sys
import threading
import weakref
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from attacks import LAPLACE_SKETCH, X240, Y240, private_model, sketch
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyWarning,
    PublicScaler,
    load_model,
    load_release,
    make_table_preprocessor,
    privacy_report,
    save_model,
    save_release,
    set_budget,
)
from skdprp._fits_around import names_of_fits, names_of_steps
from skdprp.composition import loss_of_laplace_noise
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.mechanisms import add_laplace
from skdprp.testing import reproducible_noise

NANS = np.full((5, 4), np.nan)
X60, Y60 = X240[:60], np.arange(60) % 2


def refused(fit, *data):
    with pytest.raises((RuntimeError, ValueError)):
        fit(*data)


# Searches


@pytest.mark.parametrize("by_ledger", [False, True])
def test_a_second_fit_that_is_refused_leaves_the_splitter_of_the_results(by_ledger):
    """The worst row was in 19 sketches, and 11 were reported, by the places of KFold."""
    cv = ShuffleSplit(3, test_size=0.5, random_state=0)
    options = {"cv": cv, "scoring": ["accuracy", "f1", "recall"], "refit": "accuracy", "error_score": "raise"}
    model = make_pipeline(sketch(), LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [1.0, 2.0]}, **options)
    with PrivacyLedger() as ledger:
        search.fit(X60, Y60)
    known = {"ledger": ledger} if by_ledger else {}
    before = privacy_report(search, **known).private
    search.set_params(cv=KFold(3, shuffle=True))
    refused(search.fit, X60[:2], Y60[:2])
    after = privacy_report(search, **known).private
    assert after is None or after.epsilon == before.epsilon


@pytest.mark.parametrize("by_ledger", [False, True])
def test_a_second_fit_that_is_refused_makes_no_stratified_folds_folds_by_place(by_ledger):
    search = GridSearchCV(private_model(epsilon=0.1), {}, cv=StratifiedKFold(5, shuffle=True, random_state=0))
    with PrivacyLedger() as ledger:
        search.fit(X60, Y60)
    search.set_params(cv=KFold(5, shuffle=True))
    refused(search.fit, X60[:2], Y60[:2])
    assert privacy_report(search, **({"ledger": ledger} if by_ledger else {})).private is None


class FitsAgain(ClassifierMixin, BaseEstimator):
    """Fits what it holds, and no clone of it; then it may fail."""

    def __init__(self, held, *, fails=False):
        self.held, self.fails = held, fails

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.held.set_params(epsilon=0.01).fit(X, y)
        if self.fails:
            raise RuntimeError("after that")
        return self

    def predict(self, X):
        return self.held.predict(X)


def by_a_copy(search, duplicate):
    duplicate(search).set_params(estimator=FitsAgain(search.best_estimator_)).fit(X240, Y240)


def by_a_fit_that_fails(search):
    estimator = search.estimator
    search.set_params(estimator=FitsAgain(search.best_estimator_, fails=True))
    refused(search.fit, X240, Y240)
    search.set_params(estimator=estimator)


@pytest.mark.parametrize(
    "again",
    [
        partial(by_a_copy, duplicate=copy.deepcopy),
        partial(by_a_copy, duplicate=lambda search: pickle.loads(pickle.dumps(search))),
        by_a_fit_that_fails,
    ],
    ids=["deepcopy", "pickle", "failing fit"],
)
def test_a_winner_that_was_fitted_again_in_a_copy_of_its_search_or_in_a_later_fit_says_nothing_of_the_folds(again):
    """Folds at epsilon = 5 were reported at the .01 of that fit: .05 in all, of 25.01."""
    search = GridSearchCV(private_model(epsilon=5.0), {}, cv=KFold(3), error_score="raise").fit(X240, Y240)
    again(search)
    report = privacy_report(search)
    assert report.private is None and "was fitted after the search" in str(report)


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_folds_from_a_seed_are_known_wherever_it_is_left(in_a_thread):
    """Left in another thread, the folds were reported as private."""
    calls, seeds = [], []

    def enter_and_leave(rows):
        calls.append(len(rows))
        if len(calls) == 1:
            seeds.append(reproducible_noise(0))
            seeds[0].__enter__()
        if len(calls) == 5:  # the refit
            leave = partial(seeds[0].__exit__, None, None, None)
            thread = threading.Thread(target=leave)
            if in_a_thread:
                thread.start()
                thread.join()
            else:
                leave()
        return rows

    model = make_pipeline(FunctionTransformer(enter_and_leave), private_model())
    with PrivacyLedger() as ledger:
        search = GridSearchCV(model, {}, cv=KFold(2)).fit(X60, Y60)
    assert [one.guarantee.seeded for one in ledger.entries] == [True, True, False]
    report = privacy_report(search)
    assert report.private is None and "seed" in " ".join(report.not_covered)


def test_a_search_keeps_the_fit_around_any_number_of_others():
    """After 16 fits inside, folds were those of the last of them."""
    calls = []

    def metric(y, predicted):
        if not calls:
            calls.append(1)
            for _ in range(20):
                search.set_params(cv=KFold(2), scoring="accuracy").fit(X240[200:], Y240[200:])
            search.set_params(cv=stratified, scoring=scorer)
        return accuracy_score(y, predicted)

    scorer, stratified = make_scorer(metric), StratifiedKFold(3, shuffle=True)
    search = GridSearchCV(private_model(), {}, cv=stratified, scoring=scorer)
    search.fit(X60, Y60)
    assert calls and privacy_report(search).private is None
    assert len(search._fits_of_search) == 3  # with the last two inside: one had the results as the other began


def test_pickles_of_a_search_have_nothing_of_the_splits_of_earlier_fits():
    split = (X60[:, 0] > 0).astype(int)
    search = GridSearchCV(private_model(), {}, cv=PredefinedSplit(split)).fit(X60, Y60)
    search.set_params(cv=KFold(3, shuffle=True)).fit(X240[100:], Y240[100:])
    for copied in (pickle.loads(pickle.dumps(search)), copy.deepcopy(search)):
        assert [type(fit.cv) for fit in copied._fits_of_search] == [KFold]
        assert privacy_report(copied).private == privacy_report(search).private is not None


# Composites


def test_a_second_fit_that_is_refused_hides_no_column_that_is_given_twice():
    """The sketch of a column that it is given twice has a loss of 2, where 1 was reported."""
    twice, once = ([("sketch", LAPLACE_SKETCH, columns)] for columns in ([0, 0, 1], [0, 1, 2]))
    for given in (twice, [("sketch", LAPLACE_SKETCH, [0, -4, 1])]):
        columns = ColumnTransformer(given).fit(X60)
        assert "given a column several times" in str(privacy_report(columns))
        refused(columns.set_params(transformers=once).fit_transform, NANS)
        assert "given a column several times" in str(privacy_report(columns.set_params(transformers=given)))
    assert "several times" not in str(privacy_report(ColumnTransformer(once).fit(X60)))


def test_a_second_fit_that_is_refused_hides_no_column_that_is_counted_from_both_ends():
    """Columns 1 and -1 of two are one, and of three two: either way, the other one remains."""
    columns = ColumnTransformer([("sketch", LAPLACE_SKETCH, [1, -1])], sparse_threshold=0).fit(X60[:, :2])
    refused(columns.fit_transform, NANS[:, :3])
    assert privacy_report(columns).total is None


class OwnModel(ClassifierMixin, BaseEstimator):
    """Releases by an entry alone."""

    def fit(self, X, y):
        if np.isnan(X).any() or len(X) != len(y):
            raise ValueError("nan, or other rows")
        self.classes_, guarantee = np.array([0, 1]), PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("replace_one"))
        with entry(guarantee, "OwnModel"):
            self.count_ = add_laplace([np.sum(y)], scale=1.0)[0]
        self.guarantee_ = replace(guarantee, per="fit")
        return self

    def decision_function(self, X):
        return np.full(len(X), self.count_)


CONSTANT = "constant for a column of labels"
COLUMNS_OF_LABELS = np.c_[Y60, (np.arange(60) // 2) % 2, (np.arange(60) // 3) % 2]


class FailsLater(OwnModel):
    """Fails at the last of the labels that it is given in turn, when others have been released."""

    def fit(self, X, y):
        if X[0, 0] > 1e6 and y[-1]:
            raise ValueError("large")
        return super().fit(X, y)


@pytest.mark.parametrize("labels", [COLUMNS_OF_LABELS[:, :2], COLUMNS_OF_LABELS], ids=["two", "three"])
@pytest.mark.parametrize("member", [private_model(), OwnModel(), FailsLater()], ids=lambda one: type(one).__name__)
def test_a_second_fit_that_is_refused_hides_no_constant_column_of_labels(member, labels):
    model = OneVsRestClassifier(member).fit(X60, labels)
    assert CONSTANT in str(privacy_report(model))
    X = np.full((60, 4), 1e7) if type(member) is FailsLater else np.full((60, 4), np.nan)
    refused(model.fit, X, np.arange(60) % 3 if labels.shape[1] == 3 else Y60)
    assert CONSTANT in str(privacy_report(model))
    assert CONSTANT in str(privacy_report(pickle.loads(pickle.dumps(model))))
    model.fit(X60, np.arange(60) % 3)
    assert CONSTANT not in str(privacy_report(model)) and privacy_report(model).total is not None


def _report_after_a_refused_fit():
    model = OneVsRestClassifier(private_model()).fit(X60, COLUMNS_OF_LABELS)
    refused(model.fit, np.full((60, 4), np.nan), np.arange(60) % 3)
    return str(privacy_report(model))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_second_fit_that_is_refused_in_a_process_of_its_own_hides_no_constant_column_of_labels(start):
    with multiprocessing.get_context(start).Pool(1) as pool:
        assert CONSTANT in pool.apply(_report_after_a_refused_fit)


def test_one_against_the_rest_within_another_has_its_labels():
    model = OneVsRestClassifier(OneVsRestClassifier(private_model())).fit(X60, np.arange(60) % 3)
    assert privacy_report(model).total is not None


# Pipelines


def with_private_maps(kind):
    scaler = DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6)
    return {
        "bins": DPBinner(4, bounds=(-1, 1), epsilon=5.0, delta=1e-6),
        "components": DPPCA(1, epsilon=5.0, delta=1e-6),
        "union": FeatureUnion([("one", clone(scaler)), ("other", clone(scaler))]),
        "columns": ColumnTransformer([("some", scaler, [0, 1])]),
        "pipeline": make_pipeline(Normalizer(), scaler),
    }[kind]


def cheaper(steps):
    """A second time, with less epsilon."""
    return steps.set_params(**{name: 0.1 for name in steps.get_params() if name.endswith("epsilon")})


@pytest.mark.parametrize("kind", ["bins", "components", "union", "columns", "pipeline"])
def test_a_second_fit_that_is_refused_puts_no_new_bins_before_the_old_model(kind):
    """The model of bins of epsilon 5 was charged with those of .1 that were found before the labels were refused."""
    searched = DPSearchCV(private_model(), {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0)
    for model in (private_model(), searched):
        pipeline = make_pipeline(with_private_maps(kind), model).fit(X60, Y60)
        assert privacy_report(pipeline).total.epsilon > 4.0
        cheaper(pipeline[:-1])
        refused(pipeline.fit, X60, Y60 + 5)
        for one in (pipeline, copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
            assert privacy_report(one).total is None
            assert "another fit of what is before it" in str(privacy_report(one))
        assert privacy_report(pipeline.fit(X60, Y60)).total.epsilon < 2.0


SKETCH_OF_5 = DPOPORP(4, epsilon=5.0, random_state=0)
IN_COLUMNS = ColumnTransformer([("sketch", SKETCH_OF_5, [0, 1, 2, 3])], sparse_threshold=0)


@pytest.mark.parametrize("sketches", [SKETCH_OF_5, IN_COLUMNS, make_pipeline(IN_COLUMNS)], ids=repr)
def test_a_second_fit_that_is_refused_puts_no_new_sketch_before_the_old_model(sketches):
    """What the model had learned of a sketch of epsilon 5 was charged with another one of .1."""
    pipeline = make_pipeline(clone(sketches), private_model()).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon == 5.0
    pipeline.steps[0] = (pipeline.steps[0][0], cheaper(clone(sketches)))
    refused(pipeline.fit, X60, Y60 + 5)
    assert privacy_report(pipeline).total is None
    assert privacy_report(pipeline.fit(X60, Y60)).total.epsilon == 0.1


def test_a_search_behind_private_bins_plans_steps_that_are_behind_nothing():
    model = make_pipeline(DPPCA(2, delta=1e-6), private_model())
    search = DPSearchCV(model, {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0)
    assert privacy_report(make_pipeline(DPScaler(bounds=(-1, 1), delta=1e-6), search).fit(X60, Y60)).total.epsilon < 2.0


def test_what_a_clone_is_of_may_be_fitted_again():
    bins = DPScaler(bounds=(-1, 1), delta=1e-6)
    columns = ColumnTransformer([("bins", bins.fit(X60), [0, 1, 2, 3])], sparse_threshold=0)
    pipeline = make_pipeline(columns, private_model()).fit(X60, Y60)
    before = privacy_report(pipeline).total
    bins.fit(X60[:30])
    assert before == privacy_report(pipeline).total is not None


def test_steps_that_hold_themselves_or_ask_for_metadata_are_passed_by():
    """What looked for the fits before a model went round in circles, when its noise was drawn and charged."""
    scaler = DPScaler(bounds=(-1, 1), delta=1e-6)
    scaler.own_ = [scaler]
    scaler.own_.append(scaler.own_)
    with config_context(enable_metadata_routing=True):
        steps = scaler, Normalizer().set_transform_request(copy=False), private_model()
        assert privacy_report(make_pipeline(*steps).fit(X60, Y60)).total is not None


@dataclass
class Unset:
    value: object = field(init=False)


class OwnBins(TransformerMixin, BaseEstimator):
    """Keeps what it released in a frame, writes at each transform, and holds what cannot be read."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        bins = DPBinner(4, epsilon=self.epsilon, delta=1e-6, bounds=(-1, 1)).fit(X)
        self.table_, self.guarantee_ = pd.DataFrame(np.vstack(bins.bin_edges_)), bins.guarantee_
        self.n_rows_, self.kinds_ = 0, [Unset, Unset()]
        return self

    def transform(self, X):
        self.n_rows_ += len(X)
        return np.asarray(X)


class DuckBins:
    """The same methods, and no base class."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    fit, transform = OwnBins.fit, OwnBins.transform

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


@pytest.mark.parametrize("kind", [OwnBins, DuckBins])
def test_bins_of_the_user_that_are_found_anew_leave_the_model_behind_them_no_total(kind):
    pipeline = make_pipeline(kind(5.0), private_model()).fit(X60, Y60)
    pipeline.predict(X60)
    assert privacy_report(pipeline).total.epsilon > 4.0
    pipeline[0].epsilon = 0.1
    refused(pipeline.fit, X60, Y60 + 5)
    assert privacy_report(pipeline).total is None


class StatesByProperty(OwnBins):
    def fit(self, X, y=None):
        self.stated_ = OwnBins(self.epsilon).fit(X).guarantee_
        return self

    guarantee_ = property(lambda self: self.stated_)

    def transform(self, X):
        return np.asarray(X)


@pytest.mark.parametrize("steps", [[OwnBins(5.0), OwnBins(0.1)], [StatesByProperty(5.0)]], ids=["two", "property"])
def test_bins_of_the_user_are_told_apart_by_all_their_guarantees(steps):
    """Of two, one had afterwards the guarantee of the other, and what a property states was not looked for."""
    pipeline = make_pipeline(*steps, private_model()).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon > 4.0
    pipeline[0].epsilon = 0.1
    refused(pipeline.fit, X60, Y60 + 5)
    assert privacy_report(pipeline).total is None


class KeepsWords(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.words_, self.parts_ = [str(i) for i in range(300_000)], {"bins": DPBinner(4, delta=1e-6).fit(X)}
        return self

    def transform(self, X):
        return X


def test_estimators_in_a_dict_beside_many_words_are_found():
    pipeline = make_pipeline(KeepsWords(), private_model()).fit(X60, Y60)
    assert pipeline[-1]._fitted_behind == f"{__name__}.KeepsWords({pipeline[0].parts_['bins']._fit_name})"


class Holds(ClassifierMixin, BaseEstimator):
    """Holds the private model inside, as reports advise, and fits it or fails."""

    def fit(self, X, y):
        model = private_model().fit(X, y)
        self.model_, self.classes_, self.guarantee_ = model, model.classes_, model.guarantee_
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.parametrize(
    "last",
    [
        *(Holds(), OwnModel(), VotingClassifier([("own", Holds())]), OneVsRestClassifier(OwnModel())),
        FixedThresholdClassifier(OwnModel()),
        VotingClassifier([("fixed", FixedThresholdClassifier(OwnModel())), ("own", Holds())]),
        make_pipeline(Normalizer(), FixedThresholdClassifier(OwnModel())),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_by_ledger", [False, True])
def test_a_model_of_the_user_is_behind_what_it_was_fitted_behind(last, is_by_ledger, tmp_path):
    """Of it nothing was noted: 5.28 for a model behind a scaler of 5 was 1.04, once there was one of .1."""
    pipeline = make_pipeline(DPScaler(epsilon=5.0, delta=1e-6), clone(last))
    for _ in range(2):
        pipeline.fit(X60, Y60)
        assert privacy_report(pipeline).total.epsilon > 4.0
    cheaper(pipeline[:-1])
    if is_by_ledger:
        with PrivacyLedger() as ledger:
            ledger.limit(0.5, 1e-5)
            refused(pipeline.fit, X60, Y60)
    else:
        refused(pipeline.fit, X60, Y60[:30])
    for one in (pipeline, pickle.loads(pickle.dumps(pipeline))):
        assert privacy_report(one).total is None
    assert privacy_report(pipeline.fit(X60, Y60)).total.epsilon < 3.0


class Refuses(Holds):
    """Refuses an epsilon, or labels, before anything is released."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y):
        if self.epsilon < 0 or np.max(y) > 1:
            raise ValueError("epsilon or labels")
        return super().fit(X, y)


def two_of(kind):
    first, second = Refuses(), Refuses()
    if kind is MultiOutputClassifier:
        return MultiOutputClassifier(first), np.c_[Y60, 1 - Y60], np.c_[Y60, np.full(60, 7)]
    return VotingClassifier([("first", first), ("second", second)]), Y60, None


@pytest.mark.parametrize("kind", [MultiOutputClassifier, VotingClassifier])
def test_members_of_the_user_of_which_one_is_refused_stand_behind_what_they_were_fitted_behind(kind):
    """The first of the new members released something, and all old ones, which stayed, passed for new."""
    last, y, typo = two_of(kind)
    pipeline = make_pipeline(DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6), last).fit(X60, y)
    assert privacy_report(pipeline).total.epsilon > 4.0
    pipeline[0].set_params(epsilon=0.1)
    if typo is None:
        last.set_params(second__epsilon=-1.0)
    refused(pipeline.fit, X60, y if typo is None else typo)
    assert privacy_report(pipeline).total is None
    if typo is None:
        last.set_params(second__epsilon=1.0)
    assert privacy_report(pipeline.fit(X60, y)).total.epsilon < 4.0


@pytest.mark.parametrize("member", [private_model(), Holds()], ids=repr)
def test_members_that_workers_fit_again_have_a_total(member):
    """What the ensemble was fitted behind at first was noted of it, and workers note nothing."""
    ensemble = VotingClassifier([("one", member), ("other", clone(member))])
    pipeline = make_pipeline(DPScaler(bounds=(-1, 1), delta=1e-6), ensemble).fit(X60, Y60)
    before = privacy_report(pipeline).total.epsilon
    with parallel_config("threading"):
        ensemble.set_params(n_jobs=2)
        for _ in range(2):
            assert privacy_report(pipeline.fit(X60, Y60)).total.epsilon == before


def test_a_file_of_sketches_of_lazy_rows_has_the_total_of_a_sketch(tmp_path):
    """As in another process: it was the sketch that had released lazy rows, and not the one of the file."""
    da = pytest.importorskip("dask.array")
    sketched = DPOPORP(4, delta=1e-6).fit(X60)
    sketches = sketched.transform(da.from_array(X60, chunks=(30, 4))).compute()
    assert privacy_report(sketched).total is None
    save_release(tmp_path / "sketches.npz", sketches, sketched)
    assert privacy_report(load_release(tmp_path / "sketches.npz").estimator).total.epsilon == 1.0


@pytest.mark.filterwarnings("ignore:No guarantee covers:skdprp.PrivacyWarning")
@pytest.mark.parametrize(
    "learner", [DPPCA(3, delta=1e-6), DPRidge(delta=1e-6, target_bounds=(-1, 1), mechanism="moments"), DPBinner(4)]
)
def test_what_is_learnt_from_a_release_again_is_behind_what_the_release_was_behind(learner, tmp_path):
    """Learning from its own moments, which costs nothing, took away what they were behind."""
    pipeline = make_pipeline(DPScaler(epsilon=5.0, delta=1e-6), learner.set_params(delta=1e-6)).fit(X60, X60[:, 0])
    assert privacy_report(pipeline).total.epsilon > 4.0
    last = pipeline[-1]
    if type(last) is DPBinner:
        last.set_params(n_bins=3).fit_histograms(last.histograms_)
    else:
        last.fit_moments(last.moments_)
    assert privacy_report(pipeline).total.epsilon > 4.0
    cheaper(pipeline[0]).fit(X60)
    save_model(tmp_path / "model.npz", pipeline)
    for one in (pipeline, load_model(tmp_path / "model.npz").estimator):
        assert privacy_report(one).total is None


def test_frozen_models_behind_a_sketch_are_behind_what_is_frozen_before_them():
    scaler = DPScaler(epsilon=5.0, delta=1e-6)
    model = make_pipeline(scaler, private_model()).fit(X60, Y60)[-1]
    frozen = make_pipeline(DPOPORP(4, epsilon=0.1, delta=1e-6), FrozenEstimator(scaler), FrozenEstimator(model))
    assert privacy_report(frozen.fit(X60, Y60)).total.epsilon > 4.0
    cheaper(scaler).fit(X60)
    assert privacy_report(frozen).total is None


def test_a_winner_behind_the_winner_of_another_search_is_told_from_one_behind_a_third():
    """Names of all steps of all searches were left out."""
    known = {"n_trials": 1, "delta": 1e-6, "classes": [0, 1], "max_loss": 1.0}
    bins = make_pipeline(DPScaler(delta=1e-6), private_model())
    first = DPSearchCV(bins, {}, epsilon=5.0, **known).fit(X60, Y60)
    search = DPSearchCV(private_model(), {}, **known)
    pipeline = make_pipeline(FrozenEstimator(first.best_estimator_[0]), search).fit(X60, Y60)
    unrolled = make_pipeline(pipeline[0], search.best_estimator_)
    assert privacy_report(pipeline).total.epsilon > 4.0 and privacy_report(unrolled).total.epsilon > 4.0
    third = cheaper(first).fit(X60, Y60)
    pipeline.steps[0] = unrolled.steps[0] = (pipeline.steps[0][0], FrozenEstimator(third.best_estimator_[0]))
    assert privacy_report(pipeline).total is privacy_report(unrolled).total is None


class Delegates(TransformerMixin, BaseEstimator):
    """Shows what it holds, as FrozenEstimator does, but fits it."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner.fit(X)
        return self

    def transform(self, X):
        return self.inner.transform(X)

    def __getattr__(self, name):
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


@pytest.mark.parametrize(
    "inner", [DPPCA(2, delta=1e-6), DPBinner(4, delta=1e-6, bounds=(-1, 1)), sketch(1.0)], ids=repr
)
@pytest.mark.parametrize("other", [clone, lambda inner: inner, Delegates])
def test_what_a_step_of_the_user_fits_does_not_stand_elsewhere_as_well(inner, other):
    """It was fitted twice, at first for rows and then for persons: only its last fit was known, and charged twice."""
    inner = clone(inner)
    union = FeatureUnion([("one", other(inner)), ("other", Delegates(inner))]).fit(X60)
    report = privacy_report(union)
    assert (report.total is None) == (other is not clone)


def test_steps_of_the_user_are_told_apart_by_what_they_hold():
    """Two fits of one guarantee had one name."""
    last = private_model()
    pipeline = make_pipeline(Delegates(DPBinner(4, delta=1e-6, bounds=(-1, 1))), last).fit(X60, Y60)
    assert privacy_report(pipeline).total is not None
    refused(pipeline.fit, X60, Y60 + 5)
    assert privacy_report(pipeline).total is None


def test_steps_are_the_same_in_a_pipeline_of_their_own_or_frozen(tmp_path):
    fitted = make_pipeline(DPScaler(bounds=(-1, 1), delta=1e-6), PublicScaler((-1, 1)), private_model()).fit(X60, Y60)
    total = privacy_report(fitted).total.epsilon
    for i, part in enumerate((fitted[:-1], fitted[-1])):
        save_model(tmp_path / f"{i}.npz", part)
    loaded = [load_model(tmp_path / f"{i}.npz").estimator for i in range(2)]
    frozen = make_pipeline(FrozenEstimator(fitted[:-1]), private_model()).fit(X60, Y60)
    for one in (
        make_pipeline(fitted[:-1], fitted[-1]),
        make_pipeline(*loaded),
        make_pipeline(FrozenEstimator(fitted[:-1]), fitted[-1]),
        make_pipeline(*fitted[:-1], frozen[-1]),
    ):
        assert privacy_report(one).total.epsilon == total


def test_what_shows_the_guarantee_of_another_is_told_by_it():
    pipeline = make_pipeline(Delegates(DPScaler(epsilon=5.0, delta=1e-6)), private_model()).fit(X60, Y60)
    assert privacy_report(pipeline).private.epsilon > 4.0
    cheaper(pipeline[0].inner)
    refused(pipeline.fit, X60, Y60 + 5)
    assert privacy_report(pipeline).private is None


def test_a_sketch_and_the_model_behind_it_from_their_two_files_have_a_total(tmp_path):
    sketched, model = make_pipeline(clone(SKETCH_OF_5), private_model()).fit(X60, Y60)
    save_release(tmp_path / "sketches.npz", sketched.transform(X60), sketched)
    save_model(tmp_path / "model.npz", model)
    found = load_release(tmp_path / "sketches.npz").estimator, load_model(tmp_path / "model.npz").estimator
    assert privacy_report(make_pipeline(*found)).total.epsilon == 5.0
    assert names_of_fits(found[:1]) == names_of_fits([sketched]) != names_of_fits([found[0].fit(X60)])


def _name_of_bins():
    stated = PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("replace_one"), loss=loss_of_laplace_noise(1.0, 1.0))
    bins = OwnModel().fit(X60, Y60)
    bins.guarantee_ = stated
    return names_of_fits([bins])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fits_of_the_user_have_one_name_in_all_processes():
    """That of a profile was where it is in memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_name_of_bins) == _name_of_bins()


def test_a_fit_in_a_debugger_leaves_the_fit_around_it_its_variables():
    def trace(frame, event, _):
        if frame.f_globals.get("__name__") != "sklearn.pipeline" or frame.f_code.co_name != "fit":
            return None
        if event == "line":
            DPScaler(delta=1e-6, bounds=(-1, 1)).fit(X60)
        return trace

    pipeline = make_pipeline(Normalizer(), private_model())
    sys.settrace(trace)
    try:
        pipeline.fit(X60, Y60)
    finally:
        sys.settrace(None)
    assert hasattr(pipeline[-1], "coef_")


def test_columns_from_both_ends_beside_what_is_frozen_have_a_total_after_each_fit():
    frozen = FrozenEstimator(PublicScaler((-1, 1)).fit(X60[:, [1]]))
    branches = [("frozen", frozen, [1]), ("bins", DPBinner(4, delta=1e-6, bounds=(-1, 1)), [0, -1])]
    pipeline = make_pipeline(ColumnTransformer(branches, sparse_threshold=0), private_model())
    for _ in range(2):
        assert privacy_report(pipeline.fit(X60, Y60)).total is not None


def test_a_fit_in_a_pipeline_keeps_no_rows_in_memory():
    """Variables of the frames around it were looked at, and so kept as long as the fit, or the function around it."""
    kept = []

    def fit():
        rows = np.array(X60)
        kept.append(weakref.ref(rows))
        make_pipeline(FunctionTransformer(np.copy), DPScaler(bounds=(-1, 1), delta=1e-6), private_model()).fit(
            rows, Y60
        )
        del rows
        gc.collect()
        return kept[0]()

    assert fit() is None


class KeepsItsVariables(Holds):
    def fit(self, X, y):
        known = locals()
        del known["self"]
        super().fit(X, y)
        assert list(known) == ["X", "y", "__class__"]
        return self


def test_variables_of_a_fit_of_the_user_stay_what_they_are():
    """Until Python 3.13 locals() is one dict for all who ask, and it was emptied."""
    KeepsItsVariables().fit(X60, Y60)


def by_the_steps_before(pipeline):
    cheaper(pipeline[:-1]).fit(X60)


def by_another_pipeline(pipeline):
    make_pipeline(cheaper(pipeline[0]), LogisticRegression()).fit(X60, Y60)


def by_hand_of_what_is_frozen(pipeline):
    cheaper(pipeline[0].estimator).fit(X60)


def by_the_limit_of_a_ledger(pipeline):
    with PrivacyLedger() as ledger:
        ledger.limit(0.5, 1e-5)
        cheaper(pipeline[:-1])
        refused(pipeline.fit, X60, Y60)
        assert [one.estimator for one in ledger.entries] == ["DPScaler"]


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
@pytest.mark.parametrize(
    "again", [by_the_steps_before, by_another_pipeline, by_hand_of_what_is_frozen, by_the_limit_of_a_ledger]
)
def test_a_model_whose_bins_were_found_anew_has_no_total(again, tmp_path):
    scaler = DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6)
    scaler = FrozenEstimator(scaler.fit(X60)) if again is by_hand_of_what_is_frozen else scaler
    pipeline = make_pipeline(scaler, private_model()).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon > 4.0
    again(pipeline)
    save_model(tmp_path / "model.npz", pipeline)
    for one in (pipeline, load_model(tmp_path / "model.npz").estimator):
        assert privacy_report(one).total is None
    assert privacy_report(pipeline[-1]).total.epsilon == 1.0  # which is added to what stood before it


def ensemble(epsilon):
    return VotingClassifier([("model", private_model(epsilon=epsilon))], voting="soft")


@pytest.mark.parametrize(
    "before",
    [
        [ensemble(5.0)],
        [FeatureUnion([("ensemble", ensemble(5.0)), ("rows", Normalizer())])],
        [ensemble(5.0), Normalizer(), ensemble(1.0)],
        [DPScaler(epsilon=5.0, delta=1e-6), StandardScaler()],
    ],
    ids=["ensemble", "beside rows", "two", "not covered"],
)
@pytest.mark.parametrize("last", ["model", "search"])
def test_no_step_before_is_fitted_again_without_the_model_whatever_it_is(before, last):
    """Members of ensembles, and steps before one that is not covered, were not told from those of another fit."""
    searched = DPSearchCV(private_model(), {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0)
    last = {"model": private_model(), "search": searched}[last]
    pipeline = make_pipeline(*map(clone, before), last).fit(X60, Y60)
    for _ in range(2):
        assert privacy_report(pipeline).private.epsilon > 4.0
        pipeline.fit(X60, Y60)
    cheaper(pipeline[:-1])
    refused(pipeline.fit, X60, Y60 + 5)
    for one in (pipeline, pickle.loads(pickle.dumps(pipeline))):
        report = privacy_report(one)
        assert report.total is report.private is None and "another fit of what is before it" in str(report)
    cheap = pipeline.fit(X60, Y60)
    assert privacy_report(cheap).private.epsilon < 3.0


def test_what_is_frozen_behind_a_sketch_and_fitted_again_leaves_the_model_no_total():
    scaler = DPScaler(epsilon=5.0, delta=1e-6).fit(X60)
    pipeline = make_pipeline(DPOPORP(4, delta=1e-6), FrozenEstimator(scaler), private_model()).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon > 4.0
    cheaper(scaler).fit(X60)
    assert privacy_report(pipeline).total is None


def test_steps_that_another_thread_fits_while_the_model_is_fitted_leave_it_no_total(monkeypatch):
    """What it was fitted behind was noted as its fit ended, when that was another fit."""
    scaler, fit = DPScaler(epsilon=5.0, delta=1e-6), AMPClassifier._fit_calibrated

    def fit_meanwhile(self, *data):
        thread = threading.Thread(target=cheaper(scaler).fit, args=(X60,))
        thread.start()
        thread.join()
        return fit(self, *data)

    pipeline = make_pipeline(scaler, private_model())
    assert privacy_report(pipeline.fit(X60, Y60)).total.epsilon > 4.0
    scaler.set_params(epsilon=5.0)
    monkeypatch.setattr(AMPClassifier, "_fit_calibrated", fit_meanwhile)
    assert privacy_report(pipeline.fit(X60, Y60)).total is None


def test_a_winner_behind_private_bins_has_a_report_of_its_own_until_they_are_found_anew(tmp_path):
    model = make_pipeline(DPPCA(2, delta=1e-6), private_model())
    search = DPSearchCV(model, {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0)
    pipeline = make_pipeline(DPScaler(delta=1e-6), search).fit(X60, Y60)
    total = privacy_report(search).total
    assert privacy_report(search.best_estimator_).total == total is not None
    save_model(tmp_path / "model.npz", pipeline)
    loaded = load_model(tmp_path / "model.npz").estimator
    for one in (pipeline, loaded):
        assert privacy_report(one).total.epsilon > total.epsilon
        assert privacy_report(one[-1].best_estimator_).total is not None
    unrolled = make_pipeline(pipeline[0], search.best_estimator_)
    assert privacy_report(unrolled).total is not None
    cheaper(pipeline[0]).fit(X60)
    assert privacy_report(unrolled).total is privacy_report(pipeline).total is None
    frozen = make_pipeline(FrozenEstimator(search.best_estimator_[0]), private_model()).fit(X60, Y60)
    assert privacy_report(frozen).total is not None
    search.best_estimator_[0].set_params(epsilon=0.1).fit(X60)
    assert privacy_report(frozen).total is None


def test_a_model_keeps_nothing_that_follows_from_what_others_have_set_on_the_steps_before_it():
    """The name of what it was fitted behind was a digest of all attributes of those steps."""
    scaler = DPScaler(bounds=(-1, 1), delta=1e-6).fit(X60)
    behind = []
    for rows in (None, X60, X240):
        scaler.rows_ = rows
        behind.append(make_pipeline(FrozenEstimator(scaler), private_model()).fit(X60, Y60)[-1]._fitted_behind)
    assert len(set(behind)) == 1 and behind[0] == scaler._fit_name


# Clones that are the original


def itself(estimator):
    """Let clones of an estimator be the estimator."""
    estimator.__sklearn_clone__ = lambda: estimator
    return estimator


def test_a_report_on_a_search_writes_into_no_winner():
    """A winner of epsilon = 5 had the guarantee of the other candidate, of .001, once its search was reported."""
    model = itself(make_pipeline(private_model()))
    search = GridSearchCV(model, {"ampclassifier__epsilon": [5.0, 0.001]}, cv=KFold(3)).fit(X240, Y240)
    stated = search.best_estimator_[-1].guarantee_
    assert privacy_report(search).private is None
    assert search.best_estimator_[-1].guarantee_ is stated


class OwnPCA(DPPCA):
    def __sklearn_clone__(self):
        return self


@pytest.mark.parametrize(
    "act",
    [
        privacy_report,
        partial(set_budget, epsilon=1.0, delta=1e-6),
        lambda model, X, y: DPSearchCV(model, {}, n_trials=1, delta=1e-4).fit(X, y),
    ],
    ids=["report", "budget", "search"],
)
@pytest.mark.parametrize("step", [OwnPCA(2), PCA(2)])
def test_no_plan_fits_a_step_of_which_a_clone_is_the_step_itself(act, step):
    """It looked fitted afterwards, to public numbers."""
    model = make_pipeline(step, private_model())
    model = itself(model) if type(step) is PCA else model
    with pytest.raises(ValueError, match="is the estimator itself, which a plan would fit"):
        act(model, X240, Y240)
    assert not hasattr(step, "components_")


def test_no_plan_fits_a_model_that_only_a_call_of_a_library_leads_to():
    """A model of epsilon = 50 was fitted to the rows of a plan, under a limit of .01, and no ledger had it."""
    model = private_model(epsilon=50.0)

    class FitsByItsTransform(BaseEstimator):
        transform = staticmethod(partial(model.fit, y=Y60))

        def fit(self, X, y=None):
            return self

    pipeline = Pipeline([("fits", FitsByItsTransform()), ("model", private_model())])
    with PrivacyLedger() as ledger, pytest.raises(TypeError):
        ledger.limit(0.01, 1e-9)
        privacy_report(pipeline, X60, Y60)
    assert not ledger.entries and not hasattr(model, "coef_")


# Methods of a single object


def own(thing, **methods):
    vars(thing).update(methods)
    return thing


def mixed(rows):
    return rows + rows.sum(axis=0)


def test_splitters_scorers_and_steps_with_methods_of_their_own_are_not_known_by_their_class():
    """A splitter by labels passed for one by place, a scorer that sketched again for one that does not."""
    labels = StratifiedKFold(5, shuffle=True, random_state=0)
    assert privacy_report(GridSearchCV(private_model(), {}, cv=KFold(5)).fit(X60, Y60)).private is not None
    report = privacy_report(GridSearchCV(private_model(), {}, cv=own(KFold(5), split=labels.split)).fit(X60, Y60))
    assert report.private is None and "its splitter has methods" in str(report)
    scorer = make_scorer(accuracy_score)
    search = GridSearchCV(make_pipeline(sketch(), LogisticRegression()), {}, scoring=scorer, cv=KFold(3)).fit(X60, Y60)
    assert privacy_report(search).private is not None
    own(search.scorer_, _score=lambda *data, **known: 0.0)
    assert privacy_report(search).private is None
    for model in (make_pipeline(Normalizer(), private_model()), make_pipeline(Normalizer(), sketch())):
        assert privacy_report(model.fit(X60, Y60)).total is not None
        own(model[0], transform=mixed)
        report = privacy_report(model)
        assert report.total is None and "normalizer has methods that its class has not" in str(report)


# Fits of a search inside of its own fit


@pytest.mark.parametrize("is_seeded", [False, True])
def test_a_search_that_its_refit_fits_to_something_else_is_reported_as_it_was_before(is_seeded):
    """Its folds were by labels, or from a seed; the fit in between was to other rows, by place and without a seed."""
    searches, seeds = [], [reproducible_noise(0)]

    def refit(results):
        if len(searches) == 1:
            searches.append(None)
            if is_seeded:
                seeds[0].__exit__(None, None, None)
            searches[0].set_params(cv=KFold(3)).fit(np.zeros((12, 4)), np.arange(12) % 2)
        return 0

    cv = KFold(3) if is_seeded else StratifiedKFold(3)
    searches.append(GridSearchCV(private_model(), {}, cv=cv, refit=refit))
    if is_seeded:
        seeds[0].__enter__()
    report = privacy_report(searches[0].fit(X60, Y60))
    assert report.private is None


def test_scores_of_a_search_under_a_seed_mark_its_report_and_take_nothing_from_it():
    search = GridSearchCV(make_pipeline(sketch(), LogisticRegression()), {}, cv=KFold(3)).fit(X60, Y60)
    before = privacy_report(search).private
    with reproducible_noise(0):
        search.predict(X60)
    after = privacy_report(search).private
    assert after.epsilon == before.epsilon and after.seeded


def test_columns_and_labels_that_a_refused_fit_left_of_another_width_hide_nothing():
    columns = ColumnTransformer([("sketch", LAPLACE_SKETCH, [0, -4])]).fit(X60)
    refused(columns.fit_transform, np.full((5, 5), np.nan))
    assert "given a column several times" in str(privacy_report(columns))


@pytest.mark.parametrize("member", [private_model(), make_pipeline(Normalizer(), private_model())])
def test_a_refused_fit_to_as_many_classes_hides_no_columns_of_labels(member):
    labels = np.c_[Y60, (np.arange(60) // 2) % 2, np.arange(60) == 7].astype(int)
    model = OneVsRestClassifier(member).fit(X60, labels)
    assert "constant for a column of labels" in str(privacy_report(model))
    refused(model.fit, np.full((60, 4), np.nan), np.arange(60) % 3)
    assert privacy_report(model).total is None
    for fitted in (model.fit(X60, np.arange(60) % 3), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert privacy_report(fitted).total is not None


# Steps that two pipelines share, and models that were fitted elsewhere


def private_columns(remainder):
    return ColumnTransformer([("public", PublicScaler((-1, 1)), [0, 1])], remainder=remainder, sparse_threshold=0)


def by_another_pipeline(columns, last):
    make_pipeline(columns, clone(last)).fit(X60[:, :2], Y60)


def by_a_part(columns, last):
    make_pipeline(columns).fit_transform(X60[:, :2])


def by_a_refused_fit(columns, last):
    refused(make_pipeline(columns, last).fit, X60[:, :2], Y60[:30])


@pytest.mark.parametrize("again", [by_another_pipeline, by_a_part, by_a_refused_fit])
@pytest.mark.parametrize("kind", ["model", "votes", "search", "frozen before"])
def test_a_model_does_not_lose_what_it_was_fitted_behind_when_columns_are_none_later(again, kind, tmp_path):
    """Without the columns that the bins were of there were none to charge: 1.0 for 5.14, and two fits went well."""
    last = {
        "votes": VotingClassifier([("one", private_model())]),
        "search": DPSearchCV(private_model(), {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0),
    }.get(kind, private_model())
    remainder = DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6)
    if kind == "frozen before":
        remainder = make_pipeline(FrozenEstimator(DPScaler(epsilon=0.1, delta=1e-6).fit(X60[:, 2:])), remainder)
    columns = private_columns(remainder)
    pipeline = make_pipeline(columns, last).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon > 4.0
    again(columns, last)
    copies = [pickle.loads(pickle.dumps(pipeline)), copy.deepcopy(pipeline)]
    if kind == "model":
        with pytest.warns(PrivacyWarning, match="behind another fit"):
            save_model(tmp_path / "model.npz", pipeline)
        copies.append(load_model(tmp_path / "model.npz").estimator)
    for one in (pipeline, *copies):
        report = privacy_report(one)
        assert report.total is None and "behind another fit" in str(report.not_covered)
    assert privacy_report(make_pipeline(columns, last).fit(X60, Y60)).total.epsilon > 4.0


def test_tables_that_share_their_preprocessing_are_told_apart():
    table = pd.DataFrame({"age": np.arange(60.0), "town": ["a", "b", "c"] * 20, "income": X60[:, 0]})
    preprocessing = make_table_preprocessor(bounds={"age": (0, 100)}, numbers="scaled", epsilon=5.0)
    both = make_pipeline(preprocessing, private_model()).fit(table, Y60)
    assert privacy_report(both).total.epsilon > 4.0
    age = make_pipeline(preprocessing, private_model()).fit(table[["age"]], Y60)
    assert privacy_report(both).total is None is not privacy_report(age).total


def test_a_model_that_two_pipelines_share_is_of_the_last():
    """It was 1.0 behind a public scaler, where it had learnt from a private one of 5."""
    model = private_model()
    public = make_pipeline(PublicScaler((-1, 1)), model).fit(X60, Y60)
    before = privacy_report(public).total.epsilon
    private = make_pipeline(DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6), model).fit(X60, Y60)
    assert privacy_report(public).total is None
    assert privacy_report(private).total.epsilon > 4.0
    assert privacy_report(model).total.epsilon == before == privacy_report(public.fit(X60, Y60)).total.epsilon


@pytest.mark.parametrize(
    "last",
    [
        private_model(epsilon=50.0),
        DPSGDClassifier(epsilon=50.0, n_epochs=2, classes=[0, 1]),
        DPRidge(epsilon=50.0, delta=1e-6, target_bounds=(0, 1), mechanism="moments"),
        DPSearchCV(private_model(), {}, epsilon=50.0, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0),
        FixedThresholdClassifier(private_model(epsilon=50.0)),
        make_pipeline(DPScaler(bounds=(-1, 1), epsilon=20.0, delta=1e-6), private_model(epsilon=50.0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_model_of_the_rows_costs_something_behind_a_sketch(last, is_refused):
    """It had 0.1 for weights that were fitted to the rows at 50: what stands behind a sketch was free."""
    last = clone(last)
    model = make_pipeline(sketch(0.1), last)
    if is_refused:
        last.fit(X60, Y60)
        refused(model.fit, X60, Y60[:30])
    else:
        assert privacy_report(model.fit(X60, Y60)).total.epsilon == 0.1
        make_pipeline(Normalizer(), last).fit(X60, Y60)
    assert privacy_report(model).total is None
    assert privacy_report(model.fit(X60, Y60)).total.epsilon == 0.1


def test_a_winner_behind_a_sketch_that_is_fitted_to_the_rows_costs_something():
    search = DPSearchCV(private_model(), {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0)
    model = make_pipeline(sketch(0.1), search).fit(X60, Y60)
    unrolled = make_pipeline(model[0], search.best_estimator_)
    assert privacy_report(model).total.epsilon == privacy_report(unrolled).total.epsilon == 0.1
    search.best_estimator_.fit(X60, Y60)
    assert privacy_report(model).total is privacy_report(unrolled).total is None
    search.fit(X60, Y60)
    assert privacy_report(make_pipeline(model[0], search.best_estimator_)).total is None


def test_a_scaler_behind_a_sketch_that_is_fitted_to_the_rows_costs_something():
    scaler = DPScaler(bounds=(-1, 1), epsilon=20.0, delta=1e-6)
    sketched = make_pipeline(sketch(0.1), scaler, LogisticRegression()).fit(X60, Y60)
    assert privacy_report(sketched).total.epsilon == 0.1
    make_pipeline(scaler, private_model()).fit(X60, Y60)
    assert privacy_report(sketched).total is None


@pytest.mark.parametrize("is_loaded", [False, True])
def test_columns_of_which_sketches_had_more_in_an_earlier_fit_have_no_total(is_loaded, tmp_path):
    """A model of two sketches, of .1 and 5, had .1 when other rows had no columns for the second one."""
    cheap, dear = (DPOPORP(2, epsilon=epsilon, delta=1e-6) for epsilon in (0.1, 5.0))
    columns = ColumnTransformer([("cheap", cheap, [0, 1])], remainder=dear)
    pipeline = make_pipeline(columns, LogisticRegression()).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon > 4.0
    make_pipeline(columns, LogisticRegression()).fit(X60[:, :2], Y60)
    report = privacy_report(pickle.loads(pickle.dumps(pipeline)) if is_loaded else pipeline)
    assert report.total is None and "for other parameters" in str(report.not_covered)
    assert privacy_report(pipeline.fit(X60, Y60)).total.epsilon > 4.0


LEARNS = StandardScaler()  # from the rows, without noise


def searched():
    return DPSearchCV(private_model(), {}, n_trials=1, delta=1e-6, classes=[0, 1], max_loss=1.0)


@pytest.mark.parametrize("first", [PublicScaler((-1, 1)), Normalizer(), sketch(0.1)], ids=repr)
def test_a_model_that_has_learnt_from_a_step_without_noise_has_no_total_elsewhere(first):
    """In a loop over preprocessors: 1.0 was printed where one coefficient told 98 of 100 neighbours apart."""
    model = private_model()
    pipeline = make_pipeline(first, model).fit(X60, Y60)
    assert privacy_report(pipeline).total is not None
    make_pipeline(LEARNS, model).fit(X60, Y60)
    assert privacy_report(pipeline).total is None


@pytest.mark.parametrize("again", [by_another_pipeline, by_a_part, by_a_refused_fit])
@pytest.mark.parametrize(
    "last", [private_model(), VotingClassifier([("one", private_model())]), searched(), make_pipeline(private_model())]
)
@pytest.mark.parametrize("remainder", [LEARNS, make_pipeline(Normalizer(), LEARNS)])
def test_columns_without_a_step_that_learns_leave_the_model_of_it_without_a_total(again, last, remainder):
    """The step had no columns in the second fit, and nothing said that the model of the first had learnt from it."""
    columns, last = private_columns(remainder), clone(last)
    pipeline = make_pipeline(columns, last).fit(X60, Y60)
    assert privacy_report(pipeline).total is None
    again(columns, last)
    assert privacy_report(pipeline).total is privacy_report(copy.deepcopy(pipeline)).total is None


@pytest.mark.parametrize("rest", ["passthrough", LEARNS, DPOPORP(2, epsilon=5.0, delta=1e-6)], ids=repr)
@pytest.mark.parametrize("change", ["fewer columns", "none, and then fewer", "dropped"])
def test_columns_beside_sketches_that_another_fit_leaves_out_are_asked_for(rest, change):
    """A model that is not private had seen these columns: it was .1, for the sketches that were left."""
    columns = ColumnTransformer(
        [("sketch", DPOPORP(2, epsilon=0.1, delta=1e-6), slice(0, 2))], remainder=rest, sparse_threshold=0
    )
    pipeline = make_pipeline(columns, LogisticRegression()).fit(X60, Y60)
    if change == "dropped":
        columns.set_params(remainder="drop")
    if change.startswith("none"):
        columns.set_params(sketch="drop").fit_transform(X60[:, :2])
        columns.set_params(sketch=DPOPORP(2, epsilon=0.1, delta=1e-6))
    columns.fit_transform(X60 if change == "dropped" else X60[:, :2])
    assert privacy_report(pipeline).total is None


def test_a_model_is_not_free_behind_a_frozen_sketch_if_it_saw_the_rows_beside_it():
    """The sketch keeps its name, and the columns beside it, which have none, were no more: .1 for 50.1."""
    frozen = FrozenEstimator(DPOPORP(2, epsilon=0.1, delta=1e-6).fit(X60[:, :2]))
    columns = ColumnTransformer([("sketch", frozen, [0, 1])], remainder="passthrough", sparse_threshold=0)
    pipeline = make_pipeline(columns, private_model(epsilon=50.0)).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon > 50.0
    make_pipeline(columns, private_model(epsilon=50.0)).fit(X60[:, :2], Y60)
    assert privacy_report(pipeline).total is None


@pytest.mark.parametrize(
    "last",
    [
        GridSearchCV(private_model(epsilon=50.0), {}, cv=KFold(2)),
        StackingClassifier([("one", private_model(epsilon=50.0))], cv=2),
        OneVsOneClassifier(private_model(epsilon=50.0)),
    ],
    ids=repr,
)
def test_what_holds_models_of_the_rows_is_not_free_behind_a_sketch(last):
    last = clone(last)
    pipeline = make_pipeline(sketch(0.1), last).fit(X60, Y60)
    assert privacy_report(pipeline).total.epsilon == 0.1
    make_pipeline(Normalizer(), last).fit(X60, Y60)
    assert privacy_report(pipeline).total is None


def test_steps_of_a_winner_do_not_lose_what_their_search_was_behind():
    columns = private_columns(DPScaler(bounds=(-1, 1), epsilon=5.0, delta=1e-6))
    search = searched()
    make_pipeline(columns, search).fit(X60, Y60)
    unrolled = make_pipeline(columns, search.best_estimator_)
    assert privacy_report(unrolled).total.epsilon > 4.0
    make_pipeline(columns, private_model()).fit(X60[:, :2], Y60)
    assert privacy_report(unrolled).total is None


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    "last",
    [
        VotingClassifier([("one", private_model()), ("other", private_model())]),
        MultiOutputClassifier(private_model()),
        FeatureUnion([("one", DPPCA(2, delta=1e-6)), ("other", DPPCA(2, delta=1e-6))]),
        BaggingClassifier(private_model(), 4),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_workers_fit_behind_a_sketch_has_the_total_of_the_sketch(last, n_jobs):
    """Nobody tells a worker what is before its member, and it passed for fitted behind something else."""
    y = np.c_[Y60, 1 - Y60] if isinstance(last, MultiOutputClassifier) else Y60
    pipeline = make_pipeline(sketch(0.1), clone(last).set_params(n_jobs=n_jobs))
    with parallel_config("threading"):
        report = privacy_report(pipeline.fit(X60, y))
    assert report.total.epsilon == 0.1
    told = "was last fitted to what was released before it, and to nothing else"
    is_told = any(told in text for text in report.total.assumptions)
    assert is_told == (n_jobs == 2 and not isinstance(last, BaggingClassifier))  # of which the members are not listed


def negated(X, by=0.0):
    return by - X


def less_the_mean(X):
    return X - X.mean(axis=0)


def weighted(weight):
    union = FeatureUnion([("one", Normalizer()), ("other", PublicScaler((-1, 1)))])
    union.set_params(transformer_weights={"one": weight})
    return ColumnTransformer([("both", union, [0, 1])], sparse_threshold=0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FunctionTransformer(negated), FunctionTransformer(less_the_mean)),
        (FunctionTransformer(lambda X: -X), FunctionTransformer(lambda X: X - X.mean(axis=0))),
        (FunctionTransformer(negated, kw_args={"by": 1.0}), FunctionTransformer(negated, kw_args={"by": 2.0})),
        (PublicScaler((-1, 1)), PublicScaler((-9, 9))),
        (PublicScaler(np.array([-1, 1])), PublicScaler(np.array([-9, 9]))),
        (weighted(1.0), weighted(9.0)),
        (Normalizer(), type("Normalizer", (Normalizer,), {"__module__": "mine.own"})()),
    ],
    ids=["functions", "lambdas", "arguments", "tuples", "arrays", "weights", "packages"],
)
def test_steps_before_a_model_are_told_apart_by_what_they_do_to_rows(first, second):
    """A model that two pipelines share was behind the steps of either, if these were of one class."""
    last = private_model()
    pipeline, again = make_pipeline(first, last), make_pipeline(clone(first).set_params(), last)
    assert privacy_report(pipeline.fit(X60, Y60)).total is not None
    assert privacy_report(again.fit(X60, Y60)).total == privacy_report(pipeline).total
    make_pipeline(second, last).fit(X60, Y60)
    assert privacy_report(pipeline).total is None


def test_a_step_with_many_words_is_named_by_how_many_they_are():
    words = FunctionTransformer(negated, kw_args={str(i): i for i in range(100_000)})
    one = names_of_steps([words])
    words.kw_args["0"] = 1
    assert one == names_of_steps([words]) != names_of_steps([FunctionTransformer(negated)])


class HoldsItself(BaseEstimator):
    def __init__(self, own=None):
        self.own = own

    def fit(self, X, y=None):
        return self


def test_a_step_that_is_its_own_parameter_has_a_name():
    step = HoldsItself()
    step.own = [step, step]
    assert names_of_steps([step])[0].startswith(f"{__name__}.HoldsItself:")


def by_hand(model):
    model[-1].fit(X60, Y60)


def by_a_search(model):
    model.steps[-1] = ("last", GridSearchCV(model[-1], {}, cv=KFold(2)).fit(X60, Y60).best_estimator_)


def by_a_search_behind_the_rows(model):
    search = GridSearchCV(model[-1], {}, cv=KFold(2))
    model.steps[-1] = ("last", make_pipeline(Normalizer(), search).fit(X60, Y60)[-1].best_estimator_)


@pytest.mark.parametrize("again", [by_hand, by_a_search, by_a_search_behind_the_rows])
@pytest.mark.parametrize("last", [Holds(), private_model()], ids=repr)
def test_a_model_of_the_rows_is_not_free_behind_a_sketch_by_whatever_it_was_fitted(again, last):
    """Models of the user noted nothing where no pipeline fitted them."""
    model = make_pipeline(sketch(0.1), clone(last)).fit(X60, Y60)
    assert privacy_report(model).total.epsilon == 0.1
    again(model)
    assert privacy_report(model).total is None


def test_models_of_a_cross_validation_know_what_they_were_fitted_behind():
    pipeline = make_pipeline(DPScaler(bounds=(-1, 1), delta=1e-6), private_model())
    for one in cross_validate(pipeline, X60, Y60, cv=KFold(2), return_estimator=True)["estimator"]:
        assert one[-1]._fitted_behind == one[0]._fit_name
    with parallel_config("threading"):
        fits = cross_validate(pipeline, X60, Y60, cv=KFold(2), n_jobs=2, return_estimator=True)["estimator"]
    assert [one[-1]._fitted_behind for one in fits] == ["?", "?"]


class HidesAll(list):
    def __iter__(self):
        return iter(())


def test_lists_that_hide_what_they_hold_are_looked_into():
    step = HoldsItself()
    step.parts_ = HidesAll([DPScaler(delta=1e-6, bounds=(-1, 1)).fit(X60)])
    assert names_of_fits([step]) == [step.parts_[0]._fit_name]


def test_a_part_of_a_pipeline_has_a_total_that_names_what_is_not_a_part_of_it(tmp_path):
    pipeline = make_pipeline(DPScaler(bounds=(-1, 1), delta=1e-6), DPPCA(2, delta=1e-6), private_model()).fit(X60, Y60)
    told = "of the steps that this was fitted behind"
    assert not any(told in text for text in privacy_report(pipeline).total.assumptions)
    for part in (pipeline[1:], pipeline[-1], make_pipeline(Normalizer(), FrozenEstimator(pipeline[1])).fit(X60)[1:]):
        save_model(tmp_path / "model.npz", part)  # which would warn if there were no total
        for one in (part, load_model(tmp_path / "model.npz").estimator):
            assert any(told in text for text in privacy_report(one).total.assumptions)


@pytest.mark.parametrize("last", [VotingClassifier([("one", private_model())]), GridSearchCV(private_model(), {})])
def test_a_part_with_a_sketch_has_the_total_of_the_sketch(last):
    pipeline = make_pipeline(PublicScaler((-1, 1)), sketch(0.1), Normalizer(), clone(last)).fit(X60, Y60)
    for part in (pipeline, pipeline[1:]):
        assert privacy_report(part).total.epsilon == 0.1
    make_pipeline(Normalizer(), pipeline[-1]).fit(X60, Y60)
    for part in (pipeline, pipeline[1:]):
        assert privacy_report(part).total is None
