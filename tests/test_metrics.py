"""Scores with noise: what neighbours move, what is released and stated of it, and how near it is."""

import itertools
import multiprocessing
import pickle
import warnings
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attacks import in_fork
from scipy.stats import laplace
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score, roc_auc_score

from skdprp import PrivacyLedger, audit_epsilon, compose, metrics
from skdprp.mechanisms import add_laplace
from skdprp.metrics import dp_accuracy_score, dp_confusion_matrix, dp_r2_score, dp_roc_auc_score
from skdprp.testing import reproducible_noise

RNG = np.random.default_rng(0)
LABELS = RNG.integers(3, size=400)
PREDICTED = np.where(RNG.uniform(size=400) < 0.8, LABELS, RNG.integers(3, size=400))
PROBABILITY = 1 / (1 + np.exp(-RNG.normal(loc=LABELS - 1.0)))
TARGETS = RNG.uniform(-1, 3, size=400)
GUESSES = TARGETS + RNG.normal(scale=0.5, size=400)
PERSONS = RNG.integers(90, size=400)
SCORES = {
    "accuracy": (lambda y, guess, **known: dp_accuracy_score(y, guess, **known), LABELS, PREDICTED),
    "matrix": (lambda y, guess, **known: dp_confusion_matrix(y, guess, labels=[0, 1, 2], **known), LABELS, PREDICTED),
    "area": (lambda y, guess, **known: dp_roc_auc_score(y, guess, pos_label=2, **known), LABELS, PROBABILITY),
    "r2": (lambda y, guess, **known: dp_r2_score(y, guess, target_bounds=(-1, 3), **known), TARGETS, GUESSES),
}
LARGE = [2**60, 2**60 + 1]
L1 = {"accuracy": 1, "matrix": 2, "area": 2, "r2": 2}
each_score = pytest.mark.parametrize("name", SCORES)


@pytest.fixture
def noise_of(monkeypatch):
    """What reaches the noise, and its scale, of a call; nothing is added to it."""
    given = []

    def add_none(sums, scale):
        given.append((np.array(sums, dtype=np.float64), scale))
        return given[-1][0].copy()

    monkeypatch.setattr(metrics, "add_laplace", add_none)

    def noise_of(call, *args, **known):
        call(*args, **known)
        return given.pop()

    return noise_of


ODD = [0, 1, 2, 7, "1", None, np.nan, np.inf, -np.inf, 1e308, pd.NA, (), [1], True, 2**70, 1.0]


@pytest.mark.parametrize("with_persons", [False, True])
@each_score
def test_no_neighbour_moves_the_sums_by_more_than_the_noise_hides(name, with_persons, noise_of):
    """All pairs of what one of three rows may be, in exact arithmetic: l1 distance over scale is epsilon at most."""
    call, *_ = SCORES[name]
    numbers = [0.0, -1.0, 3.0, 1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 0.3]
    numbers = [0.0, 1.0, 0.25, 0.7, np.nan, None, 1e-9] if name == "area" else numbers
    rows = list(itertools.product(ODD if name in ("accuracy", "matrix", "area") else numbers, numbers))
    if name in ("accuracy", "matrix"):
        rows = list(itertools.product(ODD, ODD))
    groups = ["ann", "bob", "bob", "cem"] if with_persons else None
    sums = []
    for label, guess in rows:
        y, guesses = [0, *[label] * (1 + with_persons), 1], [1, *[guess] * (1 + with_persons), 0.0]
        found, scale = noise_of(call, y, guesses, epsilon=1.0, groups=groups)
        sums.append(tuple(Fraction(number) for number in found))
    distances = [  # of those that differ: most rows count as one of a few
        sum(abs(a - b) for a, b in zip(one, other, strict=True)) for one, other in itertools.combinations(set(sums), 2)
    ]
    assert max(distances) / Fraction(scale) <= 1
    if not with_persons:  # and no less noise would do
        assert max(distances) / Fraction(scale) > 1 - Fraction(1, 10**6)


@each_score
def test_a_person_with_other_rows_moves_the_sums_as_a_row_does(name, noise_of):
    call, y, guess = SCORES[name]
    rng = np.random.default_rng(1)
    for _ in range(200):
        sums = []
        for _ in range(2):  # persons 1 and 2 are the same, person 0 has rows of its own, as many as it likes
            own, rest = rng.integers(len(y), size=rng.integers(1, 30)), slice(0, 5)
            places = np.r_[own, np.arange(len(y))[rest]]
            groups = [0] * len(own) + [1, 1, 1, 2, 2]
            found, scale = noise_of(call, y[places], guess[places], groups=groups)
            sums.append(found)
        assert sum(map(Fraction, abs(sums[0] - sums[1]))) <= Fraction(scale)


@each_score
def test_the_order_and_the_storage_of_rows_do_not_matter(name, noise_of):
    call, y, guess = SCORES[name]
    for groups in (None, PERSONS):
        expected, _ = noise_of(call, y, guess, groups=groups)
        order = np.random.default_rng(2).permutation(len(y))
        moved = None if groups is None else groups[order]
        assert np.array_equal(expected, noise_of(call, y[order], guess[order], groups=moved)[0])
        for store in (list, tuple, pd.Series, lambda rows: rows[:, None], lambda rows: np.array(rows, dtype=object)):
            assert np.array_equal(expected, noise_of(call, store(y), store(guess), groups=groups)[0])
    shuffled = pd.Series(guess, index=order)  # rows are matched by place
    assert np.array_equal(noise_of(call, y, guess)[0], noise_of(call, pd.Series(y), shuffled)[0])


@pytest.mark.parametrize("other", ODD, ids=repr)
@each_score
def test_no_row_of_a_list_changes_what_others_count(name, other, noise_of):
    """In an array of numpy, one text would make texts of all labels."""
    if name == "r2" and not isinstance(other, float):
        return
    call, y, guess = SCORES[name]
    guesses = [0.5 if name == "area" else 2, *guess[:9].tolist()]
    before, _ = noise_of(call, [2, *y[:9].tolist()], guesses)
    after, _ = noise_of(call, [other, *y[:9].tolist()], guesses)
    assert abs(after - before).sum() / metrics._POINTS ** (name == "r2") <= L1[name]


def test_without_noise_scores_are_those_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(metrics, "add_laplace", lambda sums, scale: np.array(sums, dtype=np.float64))
    assert dp_accuracy_score(LABELS, PREDICTED).score == pytest.approx(accuracy_score(LABELS, PREDICTED), rel=1e-12)
    matrix = dp_confusion_matrix(LABELS, PREDICTED, labels=[2, 0, 1]).score
    assert np.array_equal(matrix, confusion_matrix(LABELS, PREDICTED, labels=[2, 0, 1]))
    in_bins = np.searchsorted(1 / (1 + np.exp(-np.linspace(-6, 6, 25))), PROBABILITY, side="right")
    area = dp_roc_auc_score(LABELS, PROBABILITY, pos_label=2).score
    assert area == pytest.approx(roc_auc_score(LABELS == 2, in_bins), rel=1e-12)
    assert abs(area - roc_auc_score(LABELS == 2, PROBABILITY)) < 0.02
    score = dp_r2_score(TARGETS, GUESSES, target_bounds=(-1, 3))
    assert score.score == pytest.approx(r2_score(TARGETS, GUESSES), abs=1e-5)
    assert score.released[0] / 400 == pytest.approx(np.mean((TARGETS - GUESSES) ** 2), rel=1e-4)


def test_targets_beyond_their_bounds_are_those_bounds(noise_of):
    call = partial(dp_r2_score, target_bounds=(0, 1))
    targets, guess = RNG.uniform(-1, 2, size=50), RNG.uniform(size=50)
    assert np.array_equal(noise_of(call, targets, guess)[0], noise_of(call, targets.clip(0, 1), guess)[0])


def test_a_share_of_one_has_a_sampling_error():
    assert all(dp_accuracy_score([1] * 50, [1] * 50, epsilon=90.0).sampling_error > 0.01 for _ in range(3))


def test_masked_labels_are_missing(noise_of):
    labels = np.ma.array([1, 1, 0], mask=[True, False, False])
    assert noise_of(dp_accuracy_score, labels, labels)[0] == 2


def test_each_person_counts_once(monkeypatch):
    monkeypatch.setattr(metrics, "add_laplace", lambda sums, scale: np.array(sums, dtype=np.float64))
    table = pd.DataFrame({"person": PERSONS, "right": LABELS == PREDICTED, "label": LABELS, "guess": PREDICTED})
    score = dp_accuracy_score(LABELS, PREDICTED, groups=PERSONS)
    assert score.score == pytest.approx(table.groupby("person")["right"].mean().mean(), abs=1e-6)
    weights = 1 / table.groupby("person")["right"].transform("size").to_numpy()
    expected = confusion_matrix(LABELS, PREDICTED, sample_weight=weights)
    assert dp_confusion_matrix(LABELS, PREDICTED, labels=range(3), groups=PERSONS).score == pytest.approx(
        expected, abs=1e-4
    )
    found = dp_r2_score(TARGETS, GUESSES, target_bounds=(-1, 3), groups=PERSONS).score
    assert found == pytest.approx(r2_score(TARGETS, GUESSES, sample_weight=weights), abs=1e-4)


@each_score
def test_the_noise_is_laplace_noise_of_the_printed_scale(name):
    """The mean of n absolute values of it, over its scale, is a Gamma variate by n: six deviations and more."""
    call, y, guess = SCORES[name]
    n = 1200 if name == "accuracy" else 400
    draws = np.array([call(y, guess, epsilon=0.5).released.ravel() for _ in range(n)])
    if name == "r2":
        draws = draws / np.array([16.0, 4.0, 16.0])  # in units of the width of the bounds
    noise = draws - np.median(draws, axis=0)
    scale = float(L1[name]) / 0.5
    assert abs(abs(noise).mean() / scale - 1) < 7 / noise.size**0.5 + 3 / n**0.5
    assert call(y, guess, epsilon=0.5).guarantee.mechanism.startswith(f"Laplace mechanism, scale {scale:g}")


def test_noise_errors_are_those_of_draws(seeded):
    """A quarter is three standard deviations of what 200 seeded draws of Laplace noise are estimated to deviate by."""
    for name in SCORES:
        call, y, guess = SCORES[name]
        scores = [call(y, guess, epsilon=20.0) for _ in range(200)]
        found = np.array([one.score for one in scores]).std(axis=0).mean()
        assert found == pytest.approx(np.mean([one.noise_error for one in scores]), rel=0.25)


def test_density_ratios_of_a_tiny_case_are_within_epsilon_and_reach_it():
    """Of two counts, on the grid of the noise: by the distribution function of Laplace, in both orders."""
    steps = np.arange(-40, 40) / 64
    scale = 1 / 1.5
    probabilities = [laplace.cdf(steps + 1 / 64, at, scale) - laplace.cdf(steps, at, scale) for at in (0.0, 1.0)]
    ratios = np.log(probabilities[0] / probabilities[1])
    assert ratios.max() <= 1.5 + 1e-12
    assert ratios.max() > 1.5 - 1e-9
    assert dp_accuracy_score([0], [0], epsilon=1.5).guarantee.epsilon == 1.5


@each_score
def test_an_audit_finds_no_more_than_is_stated_and_catches_half_the_noise(name, noise_of, monkeypatch, seeded):
    """Two calls that differ in one row, told apart by the likelihood; half the noise is that of twice the epsilon.

    What is released is made of the sums with noise, and of nothing else of the rows: many draws of these are audited.
    """
    call, y, guess = SCORES[name]
    a, b = (y[:4].copy(), guess[:4].copy()), (y[:4].copy(), guess[:4].copy())
    first_rows = {
        "accuracy": ((0, 0), (0, 1)),
        "matrix": ((0, 0), (1, 2)),
        "area": ((2, 0.5), (0, 0.5)),
        "r2": ((-1.0, -1.0), (3.0, -1.0)),
    }[name]
    for (labels, predicted), (label, prediction) in zip((a, b), first_rows, strict=True):
        labels[0], predicted[0] = label, prediction

    def bound(epsilon, n_trials):
        (sums, scale), (sums_of_b, _) = (noise_of(call, *rows, epsilon=epsilon) for rows in (a, b))
        audited = audit_epsilon(
            lambda copies: add_laplace(copies, scale),
            *np.array([[sums], [sums_of_b]]),
            rows_are_trials=True,
            n_trials=n_trials,
            confidence=1 - 1e-10,
            distinguishers={"likelihood": lambda out: abs(out - sums).sum(axis=1) - abs(out - sums_of_b).sum(axis=1)},
        )
        return audited.epsilon

    assert 0.3 < bound(2.0, 2000) <= 2.0
    assert bound(4.0, 8000) > 2.0
    monkeypatch.setattr(metrics, "add_laplace", lambda sums, scale: np.arange(1.0, 1 + np.size(sums)))
    assert np.array_equal(*(call(*rows).released for rows in (a, b)))


@each_score
def test_each_call_is_one_release_with_noise_of_its_own(name):
    call, y, guess = SCORES[name]
    n_draws = 5  # of an accuracy, which is one number on a grid, two agree once in some thousand times
    with PrivacyLedger() as ledger:
        first, second = call(y, guess, epsilon=0.5), call(y, guess, epsilon=0.5)
    assert len({call(y, guess, epsilon=0.5).released.tobytes() for _ in range(n_draws)}) > 1
    assert len(ledger.entries) == 2
    assert ledger.total()[0].guarantee.epsilon == pytest.approx(1.0)
    assert ledger.entries[0].guarantee == first.guarantee
    assert compose(first.guarantee, second.guarantee).epsilon == pytest.approx(1.0)
    in_children = multiprocessing.RawArray("d", 2 * n_draws * first.released.size)
    draws = np.frombuffer(in_children).reshape(2, n_draws, -1)
    for draw in draws:
        child = lambda: np.copyto(draw, [call(y, guess).released.ravel() for _ in range(n_draws)])  # noqa: B023, E731
        assert in_fork(child) == 0
    assert not np.array_equal(*draws)


def test_a_limit_refuses_a_score_before_it_is_drawn():
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon=0.7, delta=0.0)
        dp_accuracy_score(LABELS, PREDICTED, epsilon=0.5)
        with pytest.raises(Exception, match="limit"):
            dp_accuracy_score(LABELS, PREDICTED, epsilon=0.5)
    assert len(ledger.entries) == 1


@each_score
def test_seeded_noise_guarantees_nothing(name):
    call, y, guess = SCORES[name]
    with reproducible_noise(0):
        first = call(y, guess)
    with reproducible_noise(0):
        assert np.array_equal(first.released, call(y, guess).released)
    assert first.guarantee.seeded
    assert "seeded" in repr(first).lower()


@each_score
def test_a_score_prints_what_it_is_and_goes_through_pickle(name):
    call, y, guess = SCORES[name]
    for groups, unit in ((None, "row"), (PERSONS, "person")):
        score = call(y, guess, groups=groups)
        assert f"1.0-DP, one {unit} replaced" in repr(score)
        assert "assumed" in str(score)
        assert "<table>" in score._repr_html_()
        again = pickle.loads(pickle.dumps(score))
        assert np.array_equal(again.released, score.released)
        assert again.guarantee == score.guarantee
    # With the noise of few persons there may be nobody of a class, and no area.
    assert (name == "matrix") or np.array_equal(float(score), score.score, equal_nan=True)
    has_both = name in ("accuracy", "area")
    score = call(y, guess, epsilon=10.0)
    assert has_both == (score.sampling_error is not None) == (score.standard_error > score.noise_error)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf, 1e-10, 200.0, 1e12, True, "1"])
@each_score
def test_an_epsilon_that_no_noise_has_is_refused(name, epsilon):
    call, y, guess = SCORES[name]
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="epsilon"):
        call(y, guess, epsilon=epsilon)
    assert not ledger.entries


@each_score
def test_epsilon_is_a_number_of_any_type(name):
    call, y, guess = SCORES[name]
    assert call(y, guess, epsilon=np.float32(0.1)).guarantee.epsilon == float(np.float32(0.1))
    assert call(y, guess, epsilon=np.int8(3)).guarantee.epsilon == 3


@each_score
def test_what_is_no_column_of_rows_is_refused(name):
    call, y, guess = SCORES[name]
    for labels, predicted in (
        (y, guess[:-1]),
        (y[:0], guess[:0]),
        (y, np.column_stack([guess, guess])),
        (np.column_stack([y, y]), guess),
        (y, np.array("2020-01-01", "M8[D]") + np.arange(len(y))),
    ):
        with PrivacyLedger() as ledger, pytest.raises(ValueError):
            call(labels, predicted)
        assert not ledger.entries
    with pytest.raises(TypeError, match="sparse"):
        call(sp.csr_array(y[:, None]), guess)
    with pytest.raises(ValueError, match="groups"):
        call(y, guess, groups=PERSONS[:-1])


def test_dask_collections_are_refused():
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="dask"):
        dp_accuracy_score(dask_array.from_array(LABELS), PREDICTED)


@pytest.mark.parametrize("cell", ["Jekyll", None, pd.NA, np.ma.masked, 1j, np.complex128(1), [2.0, 3.0], 10**400, "3"])
def test_a_cell_that_is_no_number_raises_and_warns_of_nothing(cell, noise_of):
    """It counts as the middle of the bounds, and as a large error or a probability of 0."""
    call, y, guess = SCORES["r2"]
    before, _ = noise_of(call, y[:9].tolist(), guess[:9].tolist())
    for labels, predicted in (([cell, *y[1:9]], guess[:9].tolist()), (y[:9].tolist(), [cell, *guess[1:9]])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            after, _ = noise_of(call, labels, predicted)
        assert abs(after - before).sum() / metrics._POINTS <= 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(cell, int):
            with pytest.raises(ValueError, match="probabilities"):
                dp_roc_auc_score([1], [cell], pos_label=1)
        else:
            assert noise_of(dp_roc_auc_score, [1], [cell], pos_label=1)[0][26] == 1


def _of_arrow(values):
    return pytest.importorskip("pyarrow").array(values)


def _of_polars(values):
    return pytest.importorskip("polars").Series(values)


@pytest.mark.parametrize(
    "store",
    [
        list,
        lambda values: pd.Series(values, dtype="Int64"),
        lambda values: pd.Series(values, dtype="UInt64"),
        lambda values: pd.Series(values, dtype="Int64").array,
        lambda values: pd.Series(values, dtype=pd.CategoricalDtype(LARGE)),
        lambda values: pd.Categorical(values, categories=LARGE),
        lambda values: pd.Series(values, dtype="Int64").to_frame(),
        lambda values: np.array(values, dtype=object)[:, None],
        _of_arrow,
        _of_polars,
        lambda values: _of_polars(values).to_frame(),
    ],
)
@each_score
def test_a_missing_label_makes_no_floats_of_all_others(name, store, noise_of):
    """Beyond 2**53 these would be rounded, and equal none of what is predicted."""
    if name == "r2":
        return
    labels = [LARGE[1 - i % 2] for i in range(100)]
    guess = [0.5] * 100 if name == "area" else labels
    call = {
        "accuracy": dp_accuracy_score,
        "matrix": partial(dp_confusion_matrix, labels=LARGE),
        "area": partial(dp_roc_auc_score, pos_label=LARGE[1]),
    }[name]
    before, _ = noise_of(call, store(labels), guess)
    after, _ = noise_of(call, store([None, *labels[1:]]), guess)
    assert 1 <= abs(after - before).sum() <= L1[name]
    assert before.sum() == 100


def test_the_sampling_error_of_an_area_is_that_of_samples(seeded):
    """Also where scores are of two kinds, for which a formula from the area alone has half of it."""
    rng = np.random.default_rng(0)
    areas, stated = [], []
    for _ in range(400):
        y = np.arange(500) < 450
        log_odds = np.where(y, rng.normal(1.5, 0.7, 500), np.where(rng.uniform(size=500) < 0.3, 4.0, -2.0))
        score = dp_roc_auc_score(y, 1 / (1 + np.exp(-log_odds)), pos_label=True, epsilon=90.0)
        areas.append(score.score)
        stated.append(score.sampling_error)
    assert np.mean(stated) == pytest.approx(np.std(areas), rel=0.25)


def test_other_log_odds_tell_apart_what_is_much_alike():
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 2
    alike = 1 / (1 + np.exp(-(0.05 * rng.normal(size=4000) + 0.05 * (y - 0.5) + 0.25)))
    exact = roc_auc_score(y, alike)
    found = [
        dp_roc_auc_score(y, alike, pos_label=1, epsilon=90.0, **known).score
        for known in ({}, {"log_odds": (-0.5, 0.5)})
    ]
    coarse = dp_roc_auc_score(y, alike, pos_label=1, epsilon=90.0)
    assert found[0] < exact - 0.1 and coarse.score - 0.01 < exact < coarse.score + coarse.tie_error + 0.01
    assert abs(found[1] - exact) < 0.02
    for refused in ((1, -1), (0, np.inf), "no", 3.0):
        with pytest.raises(ValueError, match="log_odds"):
            dp_roc_auc_score(y, alike, pos_label=1, log_odds=refused)


@pytest.mark.parametrize("labels", [[], [0, 0], [0, np.nan], [1, True], [[0, 1]]])
def test_labels_are_listed_once_each(labels):
    with pytest.raises((TypeError, ValueError)):
        dp_confusion_matrix(LABELS, PREDICTED, labels=labels)


@pytest.mark.parametrize("bounds", [(1, 0), (0, np.inf), (0, 0), "0", (0, 1, 2)])
def test_bounds_of_targets_are_two_numbers(bounds):
    with pytest.raises(ValueError):
        dp_r2_score(TARGETS, GUESSES, target_bounds=bounds)


def test_labels_of_text_and_missing_ones_are_compared_as_they_are(seeded):
    y = pd.Series(["a", "b", None, "b"], dtype="string")
    matrix = dp_confusion_matrix(y, ["a", "b", "b", "a"], labels=["a", "b"], epsilon=90.0).score
    assert matrix.round().tolist() == [[1, 0], [1, 1]]
    assert dp_accuracy_score(y, y, epsilon=90.0).score == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: dp_accuracy_score(np.array(["a", "b"]), [0, 1]),
        lambda: dp_accuracy_score([True, False], pd.Series(["a", "b"])),
        lambda: dp_accuracy_score([b"a", b"b"], ["a", "b"]),
        lambda: dp_confusion_matrix(["a", "b"], ["a", "b"], labels=[0, 1]),
        lambda: dp_confusion_matrix([0, 1], ["a", "b"], labels=[0, 1]),
        lambda: dp_roc_auc_score(["a", "b"], [0.5, 0.5], pos_label=1),
    ],
)
def test_numbers_beside_text_are_refused_before_anything_is_charged(call):
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="none would be equal"):
        call()
    assert not ledger.entries


def test_scores_of_a_decision_function_are_no_probabilities():
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="decision_function"):
        dp_roc_auc_score([0, 1], [-1.5, 0.2], pos_label=1)
    assert not ledger.entries
    assert dp_roc_auc_score([0, 1], np.float32([1 + 1e-7, -1e-8]), pos_label=1).released.shape == (2, 26)


def test_scores_are_formatted_as_numbers():
    score = dp_accuracy_score([1] * 99, [1] * 99, epsilon=50.0)
    assert f"{score:.1f}" == "1.0"
    assert f"{score}" == str(score)
    assert "[[" in repr(dp_confusion_matrix([0, 1], [0, 1], labels=[0, 1]))


def test_noise_that_leaves_nothing_gives_no_score(seeded):
    """A class without rows has a negative count about half of the time."""
    scores = [dp_roc_auc_score([0] * 5, [0.5] * 5, pos_label=1, epsilon=1.0).score for _ in range(60)]
    assert np.isnan(scores).any()
    scores = [dp_r2_score([0.5] * 5, [0.5] * 5, target_bounds=(0, 1), epsilon=1.0).score for _ in range(60)]
    assert np.isnan(scores).any()


def test_targets_in_whole_points_move_their_sums_by_no_more_than_the_page_says():
    """|t - t'| + |t^2 - t'^2| in points of 2^-20, rounded: the largest of all pairs with some of the targets."""
    points = np.arange(-(2**19), 2**19 + 1, dtype=np.float64)
    squares = np.rint(points**2 / 2**20)
    for place in [0, 1, 2**18, 2**19 - 1, 2**19, 2**20 - 1, 2**20, *range(7, 2**20, 99_991)]:
        moved = abs(points - points[place]) + abs(squares - squares[place])
        assert moved.max() <= 2**20


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "int64[pyarrow]", "category", object, None])
@pytest.mark.parametrize("groups", [None, np.arange(40) // 2])
def test_no_cell_of_a_column_moves_a_score_by_more_than_its_noise_hides(dtype, groups, noise_of):
    if dtype == "int64[pyarrow]":
        pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2 if dtype == "boolean" else 3, 40)
    labels = labels.astype(bool) if dtype == "boolean" else labels
    guess = np.where(rng.uniform(size=40) < 0.8, labels, 1)
    cells = [None, True, False] if dtype == "boolean" else [None, 0, 1, 2, *([0.5, "x", b"0"] * (dtype is object))]
    calls = [
        lambda y: dp_accuracy_score(y, guess, groups=groups),
        lambda y: dp_confusion_matrix(guess, y, labels=[0, 1, 2], groups=groups),
        lambda y: dp_roc_auc_score(y, guess / 2, pos_label=1, groups=groups),
    ]
    for largest, call in zip((1, 2, 2), calls, strict=True):
        columns = [[cell, *labels[1:].tolist()] for cell in cells]
        columns = columns if dtype is None else [pd.Series(column, dtype=dtype) for column in columns]
        sums = [noise_of(call, column)[0] / (1.0 if groups is None else metrics._POINTS) for column in columns]
        assert max(abs(a - b).sum() for a, b in itertools.combinations(sums, 2)) <= largest


def test_a_score_has_the_loss_of_its_noise():
    """Totals of several, and the best guess, are those of Laplace noise, and not of any pure release."""
    one = dp_accuracy_score([0, 1] * 50, [0, 1] * 50, epsilon=1.0).guarantee
    assert one.profile(1.0) == 0.0 and one.profile(0.5) == pytest.approx(-np.expm1(-0.25), rel=1e-6)
    assert one.guess_probability == pytest.approx(1 - np.exp(-0.5) / 2, rel=1e-6)
    small = dp_accuracy_score([0, 1] * 50, [0, 1] * 50, epsilon=0.1).guarantee
    known, pure = (compose(*[score] * 100, delta=1e-6).epsilon for score in (small, replace(small, loss=None)))
    assert 4.0 < known < 0.99 * pure


def test_probabilities_of_two_classes_are_no_column():
    with pytest.raises(ValueError, match=r"y_score must be one column of labels or numbers, such as predict_proba"):
        dp_roc_auc_score([0, 1], np.full((2, 2), 0.5), pos_label=1)


def test_a_score_raises_no_flag_of_decimals():
    """A decimal beside a float raises one, and would tell that a row holds it."""
    cells = np.array([Decimal("0.1"), 1.0, 0.0, Decimal("1e-999999")], dtype=object)
    with localcontext() as context:
        context.clear_flags()
        dp_accuracy_score(cells, np.array([0.1, 1.0, 0.0, 2.0]), epsilon=1.0)
        dp_r2_score(cells, np.array([0.1, 1.0, 0.0, 2.0]), target_bounds=(0, 1), epsilon=1.0)
        assert not any(context.flags.values())
