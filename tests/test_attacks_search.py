"""Attacks on private searches: what two of them tell, which trial won, how many there were, and who failed."""
# ruff: noqa: D102

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from decimal import Decimal
from itertools import pairwise, product

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from joblib import Memory
from scipy.stats import norm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import GaussianRandomProjection

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    compose,
    privacy_report,
    set_budget,
)
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.mechanisms import (
    gaussian_profile,
    gaussian_scale,
    private_search_profile,
    private_search_trial,
    searched_profile,
)
from skdprp.testing import reproducible_noise

MODEL = AMPClassifier(classes=[0, 1])
FIT = {"epsilon": 4.0, "delta": 1e-6, "classes": [0, 1], "random_state": 0}
RIDGE = DPRidge(target_bounds=(0, 1), mechanism="moments")  # whose losses add up in no time
FIT_RIDGE = {"epsilon": 4.0, "delta": 1e-6, "max_loss": 1.0, "random_state": 0}


def stated(n_trials, epsilon, delta):
    """Noise of a score, and what a search says whose trials are Gaussian."""
    *target, distance = private_search_trial(epsilon, delta, n_trials=n_trials)
    scale = gaussian_scale(*target)
    facts = {"n_trials": n_trials, "trial_distance": distance, "losses": (PrivacyLoss(mu=1 / scale),)}
    loss = PrivacyLoss(profiles=(Profile.of(searched_profile, **facts),))
    return scale, PrivacyGuarantee(epsilon, delta, adjacency=Adjacency("replace_one"), per="fit", loss=loss)


def losses_of_winners(n_trials, scale, share, base):
    """Probabilities of winners with their scores, and their losses, where one row decides who is right about it.

    The row is held out: one candidate, drawn with some probability, scores 1 more for it than for its neighbour, the
    other 1 less.
    """
    scores, step = np.linspace(-9 * scale, 9 * scale, 8001, retstep=True)
    laws = []
    for first, second in ((base * scale + 1, 0.0), (base * scale, 1.0)):
        drawn = [share * norm.pdf(scores, first, scale), (1 - share) * norm.pdf(scores, second, scale)]
        below = share * norm.cdf(scores, first, scale) + (1 - share) * norm.cdf(scores, second, scale)
        wins = n_trials * np.exp(n_trials * (below - 1)) / -np.expm1(-n_trials)
        laws.append(np.concatenate([one * wins * step for one in drawn]))
    one, other = (np.maximum(law, 1e-300) for law in laws)
    return one, np.log(one / other)


def delta_of_two(probabilities, losses, epsilon, grid=2.0**-9):
    """Least delta of two releases, losses rounded down."""
    steps = np.floor(losses / grid).astype(int)
    of_one = np.bincount(steps - steps.min(), weights=probabilities)
    of_two = np.convolve(of_one, of_one)
    total = (np.arange(of_two.size) + 2 * steps.min()) * grid
    return np.sum(of_two[total > epsilon] * -np.expm1(epsilon - total[total > epsilon]))


@pytest.mark.parametrize(("n_trials", "share", "base"), [(3.0, 0.3, -2.0), (10.0, 0.3, -1.0), (100.0, 0.01, -0.5)])
def test_two_searches_add_up_to_what_the_winners_of_both_tell(n_trials, share, base):
    """A composition that takes a search for one of its trials said less of two than holds of one."""
    scale, guarantee = stated(n_trials, 1.0, 1e-6)
    total = compose(guarantee, guarantee)
    winners = losses_of_winners(n_trials, scale, share, base)
    assert total.epsilon > guarantee.epsilon and guarantee.loss.epsilon(1e-6) > 1 - 1e-6
    for epsilon in (0.5 * total.epsilon, total.epsilon):
        assert delta_of_two(*winners, epsilon) <= (guarantee.loss + guarantee.loss).profile(epsilon) + 1e-9


def hockey_stick(laws, epsilon):
    """Least delta of two laws on the same outcomes, in both orders."""
    orders = (laws, laws[::-1])
    return max(mpmath.fsum(max(p - mpmath.exp(epsilon) * q, 0) for p, q in zip(*pair, strict=True)) for pair in orders)


@pytest.mark.parametrize("n_trials", [0.01, 1.0, 30.0, 1000.0])
@mpmath.workdps(40)
def test_no_enumerated_search_leaks_more_than_its_profile_with_many_trials_or_few(n_trials):
    """Trials with ties, with results that only one neighbour can have, and with odds from 1e-3 to 20."""
    rng = np.random.default_rng(0)
    for spread in np.repeat([1e-3, 0.1, 3.0], 8).tolist():
        weights = rng.dirichlet(np.ones(4))
        other = weights * np.exp(spread * rng.choice([-1, 1], 4)) * np.append(rng.random(3) < 0.9, [True])
        trials = [[mpmath.mpf(one) / mpmath.fsum(row) for one in row] for row in (weights.tolist(), other.tolist())]
        below = [[mpmath.fsum(row[:i]) for i in range(5)] for row in trials]
        among = [[mpmath.expm1(n_trials * one) / mpmath.expm1(n_trials) for one in row] for row in below]
        winners = [[high - low for low, high in pairwise(row)] for row in among]
        distance, known = (float(hockey_stick(trials, at)) * (1 + 1e-12) for at in (0.0, spread / 2))
        facts = {"trial_epsilon": spread / 2, "trial_delta": known, "trial_distance": min(1.0, distance)}
        for beyond in (0.0, spread / 4, spread):
            for epsilon in (beyond, n_trials * distance + beyond):
                bound = private_search_profile(epsilon, n_trials=n_trials, **facts)
                assert hockey_stick(winners, epsilon) <= bound * (1 + 1e-9) + 1e-30


def test_a_seed_that_everybody_knows_tells_neither_which_trial_won_nor_how_many_there_were(binary):
    """Random features of a step without a seed of its own were the draws of numpy's generator, trial after trial."""
    X, y = binary
    features = RBFSampler(gamma=1.0, n_components=5)
    kept, after, won = np.random.get_state(), set(), []  # noqa: NPY002
    try:
        np.random.seed(0)  # noqa: NPY002
        public = [features.fit(X).random_weights_ for _ in range(60)]
        for _ in range(6):
            np.random.seed(0)  # noqa: NPY002
            search = DPSearchCV(make_pipeline(features, MODEL), {}, n_trials=6, **FIT).fit(X, y)
            won.append(search.best_estimator_[0].random_weights_)
            after.add(np.random.random())  # noqa: NPY002
    finally:
        np.random.set_state(kept)  # noqa: NPY002
    assert not any(np.array_equal(one, weights) for one in won for weights in public)
    assert len(after) == 1


def test_steps_for_other_processes_enter_no_trials_in_a_ledger(binary):
    """The entry of a search did not reach the workers of a union, whose fits told the number of trials."""
    union = FeatureUnion([("two", DPPCA(2)), ("one", DPPCA(1))], n_jobs=2)
    with PrivacyLedger() as ledger:
        DPSearchCV(make_pipeline(union, MODEL), {}, n_trials=2, **FIT).fit(*binary)
    assert [one.estimator for one in ledger.entries] == ["DPSearchCV"]


def test_a_held_out_row_that_a_step_refuses_is_refused_before_any_trial(binary):
    """A finite row whose square is infinite decided, without noise, that a model that learned nothing is released."""
    X, y = binary[0].copy(), binary[1]
    held_out = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)[1]
    X[held_out[0]] = 1e155
    model = make_pipeline(PolynomialFeatures(2), MODEL)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="contains infinity"):
        DPSearchCV(model, {}, n_trials=2, **FIT).fit(X, y)
    assert ledger.entries == ()


def test_candidates_of_a_search_that_find_labels_are_reported_as_such(binary):
    """Folds of some candidates hold given the set of labels, whichever candidate the refit is."""
    inner = DPSearchCV(AMPClassifier(), {}, n_trials=1, epsilon=3.0, delta=1e-6, random_state=0)
    for grid in ({"estimator__classes": [None, [0, 1]]}, {"estimator": [AMPClassifier(), MODEL]}):
        for order in (1, -1):
            listed = {name: values[::order] for name, values in grid.items()}
            private = privacy_report(GridSearchCV(inner, listed, cv=KFold(2)).fit(*binary)).private
            assert private is None or "the set of labels" in private.given


class Counts:
    """A callback that counts the fits it is set up for."""

    n_fits = 0

    def setup(self, estimator, context):
        self.n_fits += 1

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **known):
        pass

    on_fit_task_end = on_fit_task_begin


def test_the_winner_holds_no_callback_that_saw_all_trials(binary):
    """Callbacks are shared by clones: a pickled winner told how many trials there were."""
    model = make_pipeline(Normalizer(), MODEL)
    if not hasattr(model, "set_callbacks"):
        pytest.skip("this scikit-learn has no callbacks")
    search = DPSearchCV(model.set_callbacks(Counts()), {}, n_trials=20, **FIT).fit(*binary)
    winner = pickle.loads(pickle.dumps(search.best_estimator_))
    assert all(one.n_fits <= 1 for one in getattr(winner, "_skl_callbacks", ()))


def test_two_fitted_searches_cost_more_than_each(binary):
    """In a ledger, which adds up what estimators state."""
    X, y = binary
    options = {"n_trials": 10, "epsilon": 1.0, "delta": 1e-6, "max_loss": 1.0}
    search = DPSearchCV(DPRidge(target_bounds=(0, 1), mechanism="moments"), {}, **options)
    with PrivacyLedger() as ledger:
        search.fit(X, y)
        search.fit(X, y)
    (total,) = ledger.total()
    assert 1.0 < total.guarantee.epsilon <= 2.0


# What trials see


def shift_in_place(X):
    X -= 1.0
    return X


def test_no_trial_sees_rows_that_another_one_has_changed(binary):
    """A function that changes rows in place told which trial won: exact deltas were up to 700 times what was stated."""
    X, y = binary[0].copy(), binary[1]
    seen = []

    def look(X):
        seen.append((len(X), X[0, 0], X[-1, -1]))
        return X

    model = make_pipeline(FunctionTransformer(shift_in_place), FunctionTransformer(look), MODEL)
    with reproducible_noise(0):
        DPSearchCV(model, {}, n_trials=6, **FIT).fit(X, y)
    of_fits = [rows for rows in seen if rows[0] == max(seen)[0]]
    assert len(of_fits) > 4  # of four trials at least
    assert len(set(of_fits)) == 1
    assert np.array_equal(X, binary[0])


def test_what_one_candidate_does_in_place_no_other_one_sees(binary):
    """Steps of scikit-learn that copy no rows left them to all later trials, binarised twice: as zeros."""
    X, y = np.abs(binary[0]) * 10, binary[1]
    seen = []

    def look(X):
        seen.append((len(X), float(X.sum())))
        return X

    model = make_pipeline(Binarizer(threshold=3.0, copy=False), FunctionTransformer(look), MODEL)
    with reproducible_noise(0):
        DPSearchCV(model, {}, n_trials=6, **FIT).fit(X, y)
    n_rows = max(seen)[0]
    assert {total for size, total in seen if size == n_rows} - {0.0} and len(set(seen)) == 3


def test_a_budget_changes_no_row(binary):
    """The few rows that pass the steps before the model were a view of all: a step without copies changed these."""
    X, y = binary[0].copy(), binary[1]
    set_budget(make_pipeline(FunctionTransformer(shift_in_place), MODEL), X, y)
    set_budget(make_pipeline(Normalizer(copy=False), MODEL), X, y)
    assert np.array_equal(X, binary[0])


def mixed_table(X):
    table = pd.DataFrame(X[:, :2].copy(), columns=["a", "b"])  # before version 3 a cell that is set is one of X
    table["c"] = pd.Series(np.where(X[:, 0] > 0, "p", "q"), dtype=object)
    return table


@pytest.mark.parametrize("odd", [{"a": np.inf}, {"c": Decimal(1)}, {"c": ("p",)}])
def test_a_row_that_private_bins_refuse_is_refused_before_any_trial(odd, binary):
    """Texts beside numbers: one infinite cell, and a model that learned nothing was released, without any noise."""
    table = mixed_table(binary[0])
    fitted_on = train_test_split(np.arange(len(table)), test_size=0.2, random_state=0)[0]
    for name, cell in odd.items():
        table.at[fitted_on[50], name] = cell
    with PrivacyLedger() as ledger, pytest.raises((TypeError, ValueError)):
        DPSearchCV(make_pipeline(DPBinner(3), RIDGE), {}, n_trials=2, **FIT_RIDGE).fit(table, binary[1])
    assert ledger.entries == ()


@pytest.mark.parametrize("missing", [False, True])
def test_private_steps_side_by_side_are_searched_on_what_each_of_them_takes(missing, binary):
    """The tags of what holds them said no texts, and nothing missing."""
    table = mixed_table(binary[0])
    if missing:
        table.loc[50:60, "a"] = np.nan
    columns = [("numbers", DPScaler(), ["a", "b"]), ("texts", DPBinner(sparse_output=False), ["c"])]
    model = make_pipeline(ColumnTransformer(columns, sparse_threshold=0), RIDGE)
    assert DPSearchCV(model, {}, n_trials=1, **FIT_RIDGE).fit(table, binary[1]).best_params_ == {}


REST = [("some", DPScaler(), ["a", "b"]), ("rest", PolynomialFeatures(2), ["c"])]
BESIDE = [
    (ColumnTransformer(REST[:1], remainder="passthrough", sparse_threshold=0), np.nan),
    (ColumnTransformer(REST, sparse_threshold=0), 1e160),
    (FeatureUnion([("all", "passthrough"), ("some", DPScaler())]), np.nan),
    (make_pipeline(ColumnTransformer(REST[:1], remainder="passthrough", sparse_threshold=0)), np.nan),
]


@pytest.mark.parametrize(("beside", "odd"), BESIDE)
def test_a_row_that_what_stands_beside_a_private_step_lets_through_is_refused_before_any_trial(beside, odd, binary):
    """One missing value in a column that the scaler does not see failed all trials of the model behind both."""
    table = pd.DataFrame(binary[0][:, :3].copy(), columns=["a", "b", "c"])
    table.loc[train_test_split(np.arange(len(table)), test_size=0.2, random_state=0)[0][50], "c"] = odd
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=r"NaN|infinity"):
        DPSearchCV(make_pipeline(beside, RIDGE), {}, n_trials=2, **FIT_RIDGE).fit(table, binary[1])
    assert ledger.entries == ()


@pytest.mark.parametrize(("listed", "grid"), [([0, 1], {}), (None, {"classes": [[0, 1]]})])
def test_a_label_that_a_candidate_does_not_list_fails_no_trial(listed, grid, binary):
    """The search listed it, and so took it; one row with it failed every trial, and its neighbours none."""
    y, known = binary[1].copy(), FIT | {"classes": [0, 1, 2]}
    y[train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)[0][3]] = 2
    won = []
    for labels in (binary[1], y):
        try:
            won.append(DPSearchCV(AMPClassifier(classes=listed), grid, n_trials=2, **known).fit(binary[0], labels))
        except ValueError:
            won.append(None)
    assert (won[0] is None) == (won[1] is None)
    assert won[0] is None or all(search.best_params_ is not None for search in won)


FAR = [[1.7e308] * 3, [-1.7e308, 1.7e308, 0.0], [1e-320, -0.0, 5e-324]]
SEARCHED = [
    RIDGE,
    DPRidge(target_bounds=(0, 1)),
    MODEL,
    DPSGDClassifier(classes=[0, 1], hidden_layer_sizes=(2,), n_epochs=1),
    ProductNoiseOutputPerturbation(classes=[0, 1]),
    make_pipeline(DPPCA(2), PolynomialFeatures(2), RIDGE),
    make_pipeline(DPScaler(bounds=(-5, 5), n_cells=64), RIDGE),
]


@pytest.mark.parametrize("model", SEARCHED)
def test_no_finite_row_fails_a_private_fit_or_is_predicted_nothing(model, binary):
    """Rows that decide which trials fail, of either type of floats: without noise that would tell of them."""
    for row, dtype in product(FAR, (np.float64, np.float32)):
        X, y = binary[0][:, :3].astype(dtype), binary[1].astype(float if "Ridge" in repr(model) else int)
        X[7] = np.clip(row, np.finfo(dtype).min, np.finfo(dtype).max)
        assert np.isfinite(clone(model).fit(X, y).predict(X)).all()


@pytest.mark.parametrize(
    "model", [MODEL, ProductNoiseOutputPerturbation(classes=[0, 1]), DPSGDClassifier(classes=[0, 1])]
)
def test_one_row_among_zeros_does_not_decide_whether_trials_fail(model):
    """A model that refuses rows of zeros fails in each trial, but for one row that is none."""
    rows, y = np.zeros((100, 3)), np.arange(100) % 2
    won = []
    for value in (0.0, 1.0):
        rows[train_test_split(np.arange(100), test_size=0.2, random_state=0)[0][0], 0] = value
        won.append(DPSearchCV(model, {}, n_trials=1, **FIT).fit(rows, y).best_params_)
    assert won == [{}, {}]


class Locked(list):
    """A list that can be copied, and not be pickled."""

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle what holds a lock")

    def __deepcopy__(self, memo):
        return Locked(self)


def test_no_trial_sees_lists_that_another_one_has_changed_in_the_cells_of_a_frame(binary):
    """A deep copy of a Series has the same lists in it, and a tokeniser may write into them; the user has them, too.

    Nor does one cell that cannot be written out bring that about for all.
    """
    seen, y = set(), binary[1]

    def with_pairs(tokens):
        seen.add(len(tokens))
        tokens += [one + other for one, other in pairwise(tokens)]
        return tokens

    texts = pd.Series([["fine" if label else "poor", "day"] for label in y], dtype=object)
    one_locked = texts.map(list)
    one_locked[7] = Locked(one_locked[7])
    model = make_pipeline(HashingVectorizer(analyzer=with_pairs, n_features=8), MODEL)
    for rows in (texts.tolist(), texts.to_numpy(), texts, one_locked):
        seen.clear()
        given = deepcopy(rows[0])
        with reproducible_noise(0):
            try:
                DPSearchCV(model, {}, n_trials=3, **FIT).fit(rows, y)
            except TypeError:  # refused, before any trial
                continue
        assert seen == {2} and rows[0] == given


SUMS = []


def note_sum(X):
    SUMS.append((len(X), float(np.sum(X))))
    return X


def test_no_trial_writes_into_the_cache_that_the_next_one_reads(binary, tmp_path):
    """A cache of a pipeline may map its files into memory such that they can be written to."""
    X, y = binary
    cache = Memory(tmp_path, mmap_mode="r+", verbose=0)
    steps = Normalizer(), FunctionTransformer(shift_in_place), FunctionTransformer(note_sum), RIDGE
    SUMS.clear()
    with reproducible_noise(0):
        search = DPSearchCV(make_pipeline(*steps, memory=cache), {}, n_trials=4, **FIT_RIDGE).fit(X, y)
    assert search.best_params_ == {}
    assert len(set(SUMS)) == 3  # few rows, those that are fitted on, and those held out


def stated_within(thing, seen):
    """All guarantees that attributes, lists and records hold, at any depth."""
    if isinstance(thing, PrivacyGuarantee):
        return [thing]
    if id(thing) in seen:
        return []
    seen[id(thing)] = thing
    held = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
    return [one for part in (*held, *getattr(thing, "__dict__", {}).values()) for one in stated_within(part, seen)]


def test_the_winner_holds_no_guarantee_of_a_single_trial(binary):
    """At any depth: of a release within a step that others learn from, for instance."""
    cells = {"bounds": (-5, 5), "n_cells": 64}
    bins, scaled = DPBinner(3, sparse_output=False, **cells), DPScaler(**cells)
    union = FeatureUnion([("some", DPPCA(2)), ("bins", bins), ("scaled", scaled)])
    search = DPSearchCV(make_pipeline(union, RIDGE), {}, n_trials=1, **FIT_RIDGE).fit(*binary)
    found = stated_within(search.best_estimator_, {})
    assert found and all(one is search.guarantee_ for one in found)
    of_bins = search.best_estimator_[0].transformer_list[1][1].histograms_
    assert DPBinner(2).fit_histograms(of_bins).guarantee_.loss == search.guarantee_.loss


# Budgets and calibrations


def below(x, y):
    """Largest convex function below points, at these."""
    hull = []
    for here in range(len(x)):
        while len(hull) > 1:
            left, last = hull[-2:]
            if (y[last] - y[left]) * (x[here] - x[last]) < (y[here] - y[last]) * (x[last] - x[left]):
                break
            hull.pop()
        hull.append(here)
    return np.interp(x, x[hull], y[hull])


def delta_of(losses, epsilon, n_points=2001):
    """Delta of Gaussian losses and another one together, by an integral over the Gaussian loss."""
    mu = np.sqrt(sum(loss.mu**2 for loss in losses))
    sampling, failure = (sum(getattr(loss, name) for loss in losses) for name in ("sampling", "failure_probability"))
    (profile,) = (one for loss in losses for one in loss.profiles)
    ends = np.linspace(0, 3 * epsilon + 1, n_points)
    deltas = np.array([profile(end) for end in ends])
    mirrored = -np.expm1(-ends) + np.exp(-ends) * deltas
    odds = np.exp(np.append(-ends[:0:-1], ends))
    convex = below(odds, np.append(mirrored[:0:-1], deltas))
    drawn = mu**2 / 2 + mu * np.linspace(-9, 9, 20_001)
    left = epsilon - 2 * sampling - drawn
    of_the_other = np.where(left > -ends[-1], np.interp(np.exp(left), odds, convex), -np.expm1(left))
    mean = np.trapezoid(of_the_other * norm.pdf(drawn, mu**2 / 2, mu), drawn)
    return mean * np.exp(sampling) + failure


def test_a_budget_is_what_the_steps_lose_together(binary):
    """By another composition than that of the library: an integral instead of convolutions on a grid."""
    rows, (epsilon, delta) = mixed_table(binary[0]), (0.2, 1e-3)
    pipe = set_budget(make_pipeline(DPBinner(3, epsilon=0.3), MODEL), rows, binary[1], epsilon=epsilon, delta=delta)
    pipe.fit(rows, binary[1])
    losses = [step.guarantee_.loss for step in pipe]
    assert 0.99 * delta < delta_of(losses, epsilon) <= delta
    assert privacy_report(pipe).total.epsilon <= epsilon


def test_a_sketch_beside_a_private_model_in_an_ensemble_has_no_budget(binary):
    """The budget went to the sketch alone, and both together cost 1.4 times as much, without a word."""
    beside = ColumnTransformer([("sketch", DPOPORP(4), [0, 1]), ("rows", "passthrough", [2])])
    with pytest.raises((TypeError, ValueError)):
        set_budget(make_pipeline(beside, OneVsRestClassifier(MODEL)), *binary, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_trials"),
    [(0.3, 1e-5, 1000.0), (1.0, 1e-4, 1000.0), (10.0, 6e-3, 600.0), (0.01, 0.07, 423.0), (1.0, 1e-6, 1000.0)],
)
def test_gaussian_trials_keep_to_the_distance_that_they_are_given_also_if_there_are_many(epsilon, delta, n_trials):
    """Where next to nothing of epsilon is left to a trial, delta had been left over, and was given to its noise."""
    *target, distance = private_search_trial(epsilon, delta, n_trials=n_trials)
    needed = gaussian_profile(0.0, scale=gaussian_scale(*target))
    assert needed <= distance
    trial = {"trial_epsilon": target[0], "trial_delta": target[1], "trial_distance": needed}
    assert private_search_profile(epsilon, n_trials=n_trials, **trial) <= delta


SKETCHED = ColumnTransformer([("sketch", DPOPORP(4), [0, 1]), ("rows", "passthrough", [2])], sparse_threshold=0)
HIDDEN = [
    make_pipeline(SKETCHED, BaggingClassifier(MODEL, n_estimators=2)),
    make_pipeline(SKETCHED, CalibratedClassifierCV(MODEL, cv=2)),
    make_pipeline(SKETCHED, RFE(MODEL)),
    make_pipeline(SKETCHED, GridSearchCV(MODEL, {}, cv=KFold(2))),
    make_pipeline(FeatureUnion([("sketch", DPOPORP(4)), ("chosen", SelectFromModel(MODEL))]), LogisticRegression()),
    make_pipeline(
        FeatureUnion([("sketch", DPOPORP(4)), ("before", FrozenEstimator(DPOPORP(2)))]), LogisticRegression()
    ),
]


@pytest.mark.parametrize("model", HIDDEN)
def test_a_budget_of_a_sketch_is_that_of_all_that_releases_rows_beside_it(model, binary):
    """Of models in what is known to no report, and of a frozen sketch: the budget was that of the one sketch in sight.

    All together cost up to 2.3 times as much, without a word.
    """
    X, model = binary[0][:, :3], deepcopy(model)
    for step in getattr(model[0], "transformer_list", ()):
        if isinstance(step[1], FrozenEstimator):
            step[1].estimator.fit(X)
    with pytest.raises((TypeError, ValueError)):
        set_budget(model, X, binary[1], epsilon=1.0, delta=1e-6)


def test_one_against_the_rest_is_two_releases_for_labels_of_two_columns(binary):
    """Of two classes it is one; columns were taken for classes, and a budget of 1 cost 1.4."""
    X, y = binary[0], np.column_stack([binary[1], binary[1][::-1]])
    model = set_budget(OneVsRestClassifier(DPSGDClassifier(classes=[0, 1])), X, y, epsilon=1.0, delta=1e-6)
    before = privacy_report(model, X, y)
    with PrivacyLedger() as ledger:
        model.fit(X, y)
    after, (total,) = privacy_report(model), ledger.total()
    assert total.guarantee.epsilon <= 1.0 and total.guarantee.delta <= 1e-6
    assert after.private.epsilon <= before.private.epsilon
    assert (before.total is None) == (after.total is None)


def test_a_search_before_the_last_step_has_no_price_before_its_fit(binary):
    """It was that of its folds of a few rows: of 9 releases instead of 22."""
    X, y = binary[0][:20], binary[1][:20]
    search = GridSearchCV(make_pipeline(DPPCA(2, delta=1e-6), KMeans(2, n_init=1)), {}, cv=LeaveOneOut())
    for model in (make_pipeline(search, RIDGE), make_pipeline(FeatureUnion([("searched", search)]), RIDGE)):
        with pytest.raises((TypeError, ValueError)):
            privacy_report(model, X, y)


def test_the_price_of_a_random_projection_is_that_of_any_draw(binary):
    """A draw of zeros tells nothing, and costs nothing; another one is drawn at the fit."""
    sketch = DPRandomProjection(1, projection="very_sparse", density=0.02)
    model = make_pipeline(FeatureUnion([("one", sketch), ("other", sketch)]), LogisticRegression())
    seeds = {f"featureunion__{name}__random_state": 0 for name in ("one", "other")}
    planned = [privacy_report(clone(model), binary[0], binary[1]).total for _ in range(20)]
    assert all(total is None or total.epsilon > 1.4 for total in planned)
    assert privacy_report(model.set_params(**seeds), binary[0], binary[1]).total is not None


# Rows that say in which type they are computed, and budgets by another count


SAMPLED = DPSGDClassifier(classes=[0, 1], max_norm=None, batch_size=50, n_epochs=2, epsilon=1.0, delta=1e-6)


def stored_in_parts(X, place):
    """The same rows, of which one has an entry that is stored as two halves."""
    rows = sp.csr_matrix(X)
    first, ends = rows.indptr[place], rows.indptr.copy()
    ends[place + 1 :] += 1
    halves = np.insert(rows.data, first, rows.data[first] / 2)
    halves[first + 1] /= 2
    return sp.csr_matrix((halves, np.insert(rows.indices, first, rows.indices[first]), ends), shape=rows.shape)


def test_how_one_row_is_stored_fails_no_trial(binary):
    """Parts of a float32 entry are summed in float64, for which all trials were planned, and each was float32."""
    X, y = binary[0].astype(np.float32), binary[1]
    place = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)[0][3]
    stored = stored_in_parts(X, place)
    assert np.array_equal(stored.toarray(), X)
    for rows in (sp.csr_matrix(X), stored):
        assert DPSearchCV(SAMPLED, {}, n_trials=1, **FIT).fit(rows, y).best_params_ == {}


@pytest.mark.parametrize("limits", [{"batch_size": 50}, {}])
def test_a_plan_of_rows_that_are_stored_in_parts_is_that_of_the_rows(limits, binary):
    """It printed the noise of a descent in float64, which tells how one of the first rows is stored."""
    X, y = binary[0].astype(np.float32), binary[1]
    model = DPSGDClassifier(classes=[0, 1], max_norm=None, n_epochs=2, delta=1e-6, **limits)
    planned = [privacy_report(model, rows, y).private for rows in (sp.csr_matrix(X), stored_in_parts(X, 3))]
    fitted = privacy_report(clone(model).fit(stored_in_parts(X, 3), y)).private
    assert len({(one.mechanism, one.loss) for one in (*planned, fitted)}) == 1


def test_the_budget_of_gaussian_steps_is_theirs_by_the_exact_profile(binary):
    """At deltas near 1 and next to 0, where the total may be an epsilon of 0."""
    X, y = binary[0], binary[1] * 1.0
    steps = DPPCA(2, epsilon=0.1), DPScaler(epsilon=3.0, bounds=(-5, 5), n_cells=64), RIDGE
    for epsilon, delta in ((1e-3, 0.5), (1.0, 0.999), (50.0, 1e-30), (0.1, 1e-3)):
        model = set_budget(make_pipeline(*map(clone, steps)), X, y, epsilon=epsilon, delta=delta).fit(X, y)
        total, losses = privacy_report(model).total, [step.guarantee_.loss for step in model]
        with mpmath.workdps(40):
            mu = mpmath.sqrt(mpmath.fsum(mpmath.mpf(loss.mu) ** 2 for loss in losses))
            sampling, failed = (
                sum(getattr(one, name) for one in losses) for name in ("sampling", "failure_probability")
            )
            left = total.epsilon - 2 * sampling
            lost = mpmath.ncdf(mu / 2 - left / mu) - mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
            assert lost * mpmath.exp(sampling) + failed <= total.delta <= delta and total.epsilon <= epsilon


def test_no_text_of_a_table_decides_what_a_plan_says():
    """Categories found with noise of the first rows, at each plan anew: columns are as many whichever are found."""
    y, stated = np.arange(64) % 2, set()
    model = make_pipeline(DPBinner(delta=1e-3, sparse_output=False), clone(RIDGE).set_params(delta=1e-6))
    for n_rare in (10, 11, 12, 40) * 3:
        table = pd.DataFrame({"text": np.array(["rare"] * n_rare + ["often"] * (64 - n_rare), dtype=object)})
        stated.add(privacy_report(model, table, y).private)
    assert len(stated) == 1


def test_searches_in_threads_tell_nobody_of_their_trials_and_leave_warnings_as_they_were():
    """The first to end put back the filters that it had found: trials of the others warned, as many as there were."""
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 3)), np.arange(60) % 2
    model = make_pipeline(GaussianRandomProjection(4, random_state=0), AMPClassifier(delta=1e-6))  # each fit warns
    search = DPSearchCV(model, {}, n_trials=20, epsilon=4.0, classes=[0, 1])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: clone(search).fit(X, y), range(4)))
        assert warnings.filters == before
    assert not [warning for warning in heard if issubclass(warning.category, DataDimensionalityWarning)]


def test_candidates_whose_solver_may_fail_are_refused_before_any_trial(binary):
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="'tol' parameter of AMPClassifier"):
        DPSearchCV(AMPClassifier(), {"tol": [1e-10, 9e-11]}, **FIT).fit(*binary)
    assert not ledger.entries


def test_no_label_decides_that_a_solver_of_a_search_over_penalties_ends():
    """A smoothed hinge at a large C: in 100 steps one label of 200 let it end; C=1e4 won 66 of 120, or none."""
    rng, rows, labels = np.random.default_rng(103), np.zeros((250, 10)), np.arange(250) % 2
    fitted_on = train_test_split(np.arange(250), test_size=0.2, random_state=0)[0]
    rows[fitted_on] = rng.random((200, 10)) < 0.5
    scores = rows[fitted_on] @ rng.normal(size=10)
    labels[fitted_on] = scores > np.median(scores)
    hinge = ProductNoiseOutputPerturbation(loss="huber_hinge", max_norm=4.0)
    for _ in range(2):
        search = DPSearchCV(hinge, {"C": [1e5]}, n_trials=1e-9, **FIT | {"epsilon": 9.0})
        assert search.fit(rows, labels).best_params_ == {"C": 1e5}
        labels[fitted_on[0]] = 1 - labels[fitted_on[0]]


def test_a_row_that_a_step_after_a_private_one_refuses_decides_nothing_but_an_error():
    """A value that is missing has a bin of its own, which the next step did not know, and no candidate with it won.

    Before the trials nothing is told of it: the bins are noise, and nobody had paid for it. Held out, it scores 0.
    """
    X = np.random.default_rng(0).uniform(0, 1, (400, 2))
    y, encoder = (X[:, 0] > 0.5).astype(int), OneHotEncoder(categories=[[0.0, 1.0, 2.0, 3.0]] * 2)
    binner = DPBinner(4, bounds=(0, 1), encode="ordinal", n_cells=16)
    model = make_pipeline(binner, encoder, AMPClassifier(classes=[0, 1], max_norm=2**0.5))
    search = DPSearchCV(model, {}, n_trials=1, **FIT).fit(X, y)
    fitted_on, held_out = train_test_split(np.arange(400), test_size=0.2, random_state=0)
    X[held_out[-1], 0] = np.nan
    assert search.fit(X, y).best_params_ == {}
    X[fitted_on[-1], 0] = np.nan
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="A trial failed, and the search with it"):
        search.fit(X, y)
    assert len(ledger.entries) == 1
