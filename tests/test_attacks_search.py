"""Attacks on private searches: what two of them tell, which trial won, how many there were, and who failed."""
# ruff: noqa: D102

import pickle
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Normalizer, PolynomialFeatures

from skdprp import DPPCA, AMPClassifier, DPRidge, DPSearchCV, PrivacyLedger, compose, privacy_report
from skdprp.composition import PrivacyLoss, Profile, searched_profile
from skdprp.guarantee import Adjacency, PrivacyGuarantee
from skdprp.mechanisms import gaussian_scale, private_search_profile, private_search_trial

MODEL = AMPClassifier(classes=[0, 1])
FIT = {"epsilon": 4.0, "delta": 1e-6, "classes": [0, 1], "random_state": 0}


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
