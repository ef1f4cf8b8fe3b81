"""Attacks on private searches: what two of them tell, which trial won, how many there were, and who failed."""
# ruff: noqa: D102

import pickle
from decimal import Decimal
from itertools import pairwise

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, PolynomialFeatures

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPScaler,
    DPSearchCV,
    PrivacyLedger,
    compose,
    privacy_report,
    set_budget,
)
from skdprp.composition import PrivacyLoss, Profile, searched_profile
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.mechanisms import gaussian_profile, gaussian_scale, private_search_profile, private_search_trial
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
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])
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
