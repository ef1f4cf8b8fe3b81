"""Attacks on scores with noise: what one row does to all others, what warns, quotes or is stated of them."""

import itertools
import threading
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

import skdprp
from skdprp import AMPClassifier, DPRidge, DPSearchCV, PrivacyLedger, metrics, privacy_report
from skdprp.ledger import entry
from skdprp.metrics import dp_accuracy_score, dp_confusion_matrix, dp_r2_score, dp_roc_auc_score
from skdprp.model_selection._search import _Score
from skdprp.testing._tape import played_tapes

ASTHMA, OTHER = 999000011000001105, 999000031000000107  # codes of 18 digits, as SNOMED CT has them
ROWS = 400
LABELS = np.where(np.arange(ROWS) % 2, ASTHMA, OTHER)


def _polars(cells):
    polars = pytest.importorskip("polars")
    return polars.Series(cells, dtype=polars.Int64)


def _pyarrow(cells):
    return pytest.importorskip("pyarrow").array(cells)


def _arrow(cells):
    pytest.importorskip("pyarrow")
    return pd.Series(cells, dtype="int64[pyarrow]")


WHOLE_NUMBERS = {
    "Int64": lambda cells: pd.Series(cells, dtype="Int64"),
    "int64[pyarrow]": _arrow,
    "category": lambda cells: pd.Series(cells, dtype="Int64").astype("category"),
    "frame": lambda cells: pd.DataFrame({"label": pd.Series(cells, dtype="Int64")}),
    "polars": _polars,
    "pyarrow": _pyarrow,
}
ON_LABELS = {
    "accuracy": lambda y: dp_accuracy_score(y, LABELS),
    "matrix": lambda y: dp_confusion_matrix(y, LABELS, labels=[ASTHMA, OTHER]),
    "area": lambda y: dp_roc_auc_score(y, np.full(ROWS, 0.5), pos_label=ASTHMA),
}


each_score = pytest.mark.parametrize(
    "score",
    [
        dp_accuracy_score,
        lambda y, guess, **known: dp_confusion_matrix(y, guess, labels=[0, 1], **known),
        lambda y, guess, **known: dp_roc_auc_score(y, guess, pos_label=1, **known),
        lambda y, guess, **known: dp_r2_score(y, guess, target_bounds=(0, 1), **known),
    ],
    ids=["accuracy", "matrix", "area", "r2"],
)


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


def _l1(one, other):
    return sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(one.ravel(), other.ravel(), strict=True))


@pytest.mark.parametrize("kind", WHOLE_NUMBERS)
@pytest.mark.parametrize("name", ON_LABELS)
def test_a_label_that_is_missing_changes_the_counts_by_no_more_than_its_own_row(name, kind, noise_of):
    """The column has one type in both tables; numpy makes floats of all its labels, and rounds those above 2^53."""
    column, labels = WHOLE_NUMBERS[kind], LABELS.tolist()
    (full, scale), (one_missing, _) = (
        noise_of(ON_LABELS[name], column([*labels[:-1], last])) for last in (labels[-1], None)
    )
    assert _l1(full, one_missing) <= Fraction(scale)


@pytest.mark.parametrize("odd", [np.ma.masked, np.complex128(0.5)], ids=["masked", "complex"])
@pytest.mark.parametrize("store", [list, lambda cells: pd.Series(cells, dtype=object)], ids=["list", "objects"])
def test_no_warning_tells_of_a_cell(store, odd):
    """Numpy warns of a masked cell that becomes nan, and of the part of a complex one that is lost."""
    cells, rest = store([0.1, 0.2, odd]), [0.0, 0.5, 1.0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in (
            lambda: dp_r2_score(cells, rest, target_bounds=(0, 1)),
            lambda: dp_r2_score(rest, cells, target_bounds=(0, 1)),
            lambda: dp_roc_auc_score([0, 1, 0], cells, pos_label=1),
        ):
            try:
                call()
            except (TypeError, ValueError):  # that it refuses them is not covered
                continue
    assert not caught


@pytest.mark.parametrize("epsilon", [111.0, 1000.0, 1e4])
@each_score
def test_an_epsilon_beyond_the_reach_of_sampled_noise_is_not_stated(score, epsilon):
    """Largest noise is 745 scales; where one row counts for more, neighbours release nothing that both may."""
    try:
        guarantee = score([0.0, 1.0], [0.0, 1.0], epsilon=epsilon).guarantee
    except ValueError:
        return
    assert guarantee.epsilon == np.inf


@each_score
def test_noise_errors_of_persons_are_those_of_draws(score, seeded):
    rng = np.random.default_rng(0)
    y, persons = rng.integers(2, size=900).astype(float), rng.integers(300, size=900)
    guess = np.where(rng.uniform(size=900) < 0.8, y, 1 - y)
    scores = [score(y, guess, epsilon=4.0, groups=persons) for _ in range(100)]
    found = np.array([one.score for one in scores]).std(axis=0).mean()
    assert found == pytest.approx(np.mean([one.noise_error for one in scores]), rel=0.4)


def test_targets_on_the_whole_grid_move_their_sums_by_one_at_most():
    """The largest l1 distance of two points is that of a sum with signs, of which the extremes are found one by one."""
    points = np.arange(-(2**19), 2**19 + 1)
    squares = np.rint((points * 2.0**-20) ** 2 * 2.0**20).astype(np.int64)
    assert max(np.ptp(points + squares), np.ptp(points - squares)) == 2**20


def test_persons_of_up_to_two_rows_move_the_sums_of_r2_by_less_than_the_noise_hides(noise_of):
    """Means are rounded down, which moves them by a point more than rows: the scale has four."""
    places = [0, 1, 2, 400, 724, 2**19, 2**19 + 1, 2**20 - 1, 2**20]
    rows = [(place, place + error) for place in places for error in (0, 1, 2**20 - 1, 2**20)]
    sums = []
    for own in itertools.chain.from_iterable(itertools.combinations_with_replacement(rows, m) for m in (1, 2)):
        y, guess = np.array([*own, (2**19, 2**19)]).T * 2.0**-20
        found, scale = noise_of(dp_r2_score, y, guess, target_bounds=(0, 1), groups=[0] * len(own) + [1])
        sums.append(found)
    signs = np.array(list(itertools.product((1, -1), repeat=3)))
    largest = np.ptp(signs @ np.array(sums).T, axis=1).max()
    assert largest == 2**21 + 1  # one more than two rows
    assert Fraction(largest) <= Fraction(scale)


@pytest.mark.parametrize("seed", range(20))
def test_shares_of_persons_are_rounded_down_and_add_up_to_one_at_most(seed, noise_of):
    """By whole numbers, of persons with up to forty rows."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(5), rng.integers(1, 41, size=5))
    labels, guesses = rng.integers(4, size=(2, len(codes)))
    found, scale = noise_of(dp_confusion_matrix, labels, guesses, labels=[2, 0, 1], groups=codes)
    expected = []
    for true, guessed in itertools.product([2, 0, 1], repeat=2):
        counts = np.bincount(codes[(labels == true) & (guesses == guessed)], minlength=5).tolist()
        expected.append(sum(n * 2**20 // m for n, m in zip(counts, np.bincount(codes).tolist(), strict=True)))
    assert found.tolist() == expected
    assert sum(expected) <= 5 * 2**20
    assert scale >= 2 * 2**20


NUMBERS = {
    "Int64": ([None, 0, 1, 2**53 + 1, 2**62 + 1], lambda cells: pd.Series(cells, dtype="Int64")),
    "Float32": ([None, 0.0, 1.0, 0.1, np.inf], lambda cells: pd.Series(cells, dtype="Float32")),
    "category": ([None, 0, 1, 3], lambda cells: pd.Series(pd.Categorical(cells, categories=[0, 1, 3]))),
    "objects": ([None, 0, 1.5, 2**70, "0.5", np.float16(0.1), True], lambda cells: pd.Series(cells, dtype=object)),
    "list": ([None, 0, 1.5, 2**70, "0.5", np.longdouble(1) / 3, b"0.25"], list),
    "texts": (["0", "1", "nan", "-inf"], lambda cells: np.array(cells, dtype="U9")),
    "masked": ([0.0, 1.0, 0.1], lambda cells: np.ma.array(cells, mask=[cell == 0.1 for cell in cells])),
}


def test_scores_of_a_plan_and_of_threads_have_entries_of_their_own():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    y = rows[:, 0] > 0
    model = AMPClassifier(classes=[False, True], epsilon=1.0, delta=1e-6)
    found = []
    with PrivacyLedger() as ledger:
        with entry(privacy_report(model, rows, y)):
            model.fit(rows, y)
            dp_accuracy_score(y, y, epsilon=2.0)
        threads = [threading.Thread(target=lambda: found.append(dp_accuracy_score(y, y).released[0])) for _ in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [(one.estimator, one.guarantee.epsilon) for one in ledger.entries][:2] == [
        ("AMPClassifier", 1.0),
        ("accuracy", 2.0),
    ]
    assert len(ledger.entries) == 11
    assert len(set(found)) > 1


class _Column(DPRidge):
    def predict(self, X):
        """Predict a column, of which rows of targets would make a square."""
        return super().predict(X)[:, None]


def test_a_search_takes_no_model_whose_predictions_have_another_shape():
    """Each row would count as often as there are rows."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    search = DPSearchCV(_Column(target_bounds=(-1, 1)), {}, max_loss=1.0)
    with pytest.raises(TypeError, match="does not say before a fit"):
        search.fit(rows, rows[:, 0].clip(-1, 1))


@pytest.mark.parametrize("store", [np.asarray, np.float32, pd.DataFrame, lambda rows: rows.tolist()])
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "neg_mean_squared_error"])
def test_a_held_out_row_changes_no_score_of_other_rows(scoring, store):
    """To the last point, whatever it is: scores are of whole points of each row by itself."""
    rows = np.random.default_rng(0).normal(size=(67, 3)).clip(-3, 3)
    is_number = scoring == "neg_mean_squared_error"
    model = DPRidge(target_bounds=(-1, 1)) if is_number else AMPClassifier(classes=[0, 1])
    y = rows[:, 0].clip(-1, 1) if is_number else (rows[:, 0] > 0).astype(int)
    model.fit(store(rows), y)

    def points(held_out):
        scores = _Score(scoring, 4.0)._of_each_row(model, store(held_out), y)
        return np.rint(np.nan_to_num(scores, nan=0.0).clip(0, 1) * 2**20)

    before = points(rows)
    for place, value in itertools.product((0, 7, 66), (0.0, 1e-310, 3e38, -1e20)):
        other = rows.copy()
        other[place] = value
        assert np.flatnonzero(points(other) != before).tolist() in ([], [place])


# Budgets that cannot be kept


@pytest.mark.parametrize("epsilon", [1e-320, 1e-100, 1e-20, 112.0, 1000, True, "1", None, np.nan, -1.0])
@pytest.mark.parametrize(
    "score",
    [
        lambda epsilon: dp_accuracy_score([1, 0], [1, 1], epsilon=epsilon, groups=["a", "a"]),
        lambda epsilon: dp_confusion_matrix([1, 0], [1, 1], labels=[0, 1], epsilon=epsilon),
        lambda epsilon: dp_roc_auc_score([1, 0], [0.5, 0.5], pos_label=1, epsilon=epsilon),
        lambda epsilon: dp_r2_score([0.1, 0.2], [0.1, 0.2], target_bounds=(0, 1), epsilon=epsilon),
    ],
    ids=["accuracy", "matrix", "area", "R2"],
)
def test_no_score_is_released_at_an_epsilon_that_cannot_be_guaranteed(score, epsilon):
    with pytest.raises((TypeError, ValueError)):
        score(epsilon)


def test_no_row_or_person_moves_the_sums_of_a_score_further_than_its_noise_is_for(monkeypatch):
    taken = []
    monkeypatch.setattr(
        skdprp._noise, "add_laplace", lambda values, scale: taken.append((np.array(values, dtype=float).ravel(), scale))
    )
    rng = np.random.default_rng(0)
    scores = {
        "accuracy": lambda d, **known: dp_accuracy_score(d[0], d[1], **known),
        "matrix": lambda d, **known: dp_confusion_matrix(d[0], d[1], labels=[0, 1], **known),
        "area": lambda d, **known: dp_roc_auc_score(d[0], d[2], pos_label=1, **known),
        "r2": lambda d, **known: dp_r2_score(d[3], d[4], target_bounds=(-1, 1), **known),
    }

    def person(m):
        labels = rng.choice(3, m), rng.choice(3, m), rng.choice([0, 1e-9, 0.5, 0.99, 1, np.nan], m)
        return *labels, rng.choice([-5, -1, 0.3, 1, np.nan], m), rng.choice([-9, -1, 0.3, 9, np.inf], m)

    for _ in range(25):
        for is_person in (False, True):
            sizes = rng.integers(1, 6, 4) if is_person else np.ones(4, int)
            some = [person(m) for m in sizes]
            others = [person(int(rng.integers(1, 6)) if is_person else 1), *some[1:]]
            for name, score in scores.items():
                for people in (some, others):
                    known = {"groups": np.repeat(np.arange(4), [len(one[0]) for one in people])} if is_person else {}
                    guarantee = score([np.concatenate([one[i] for one in people]) for i in range(5)], **known).guarantee
                (a, scale), (b, _) = taken[-2:]
                assert np.abs(a - b).sum() / scale <= guarantee.epsilon, name


_ODD = [None, np.nan, np.inf, -np.inf, 1e308, 2**60 + 1, -0.0, True, "1", b"a", (1,), [1], 1j, object(), pd.NA, pd.NaT]


_SCORES = {
    "accuracy": dp_accuracy_score,
    "matrix": partial(dp_confusion_matrix, labels=[0, 1, 2]),
    "area": partial(dp_roc_auc_score, pos_label=1),
    "r2": partial(dp_r2_score, target_bounds=(-1.0, 2.5)),
}


@pytest.mark.parametrize("name", _SCORES)
@pytest.mark.parametrize("of_persons", [False, True])
def test_no_odd_cell_of_one_row_or_person_moves_a_score_by_more_than_epsilon(name, of_persons):
    rng = np.random.default_rng(0)
    y_true = rng.integers(3, size=6).tolist()
    y_pred = (rng.integers(3, size=6) if name in ("accuracy", "matrix") else rng.uniform(size=6)).tolist()
    for odd in _ODD:
        for place in (0, 1):
            columns = [y_true, y_pred]
            columns[place] = [*columns[place][:-1], odd]
            groups, more = ([0, 0, 1, 1, 2, 2], [2]) if of_persons else (None, [])
            fewer = None if groups is None else [*groups, *more]
            others = [[*column, *column[-len(more) :]] if more else column for column in columns]

            def score(data):
                return _SCORES[name](data[0], data[1], epsilon=1.0, groups=data[2])

            try:
                tapes = played_tapes(score, (y_true, y_pred, groups), (*others, fewer))
            except ValueError as error:  # of what is no probability, or text among numbers
                assert "nothing" not in str(error)
                continue
            moved = sum(np.abs(v - w).sum() / scale for (_, scale, v), (_, _, w) in zip(*tapes, strict=True))
            assert moved <= 1


def test_no_odd_cell_of_a_row_or_person_moves_the_sums_of_a_score_by_more_than_epsilon():
    rng = np.random.default_rng(0)
    odd = [0, 1, None, np.nan, "a", b"1", True, np.float32(1), 10**400, -np.inf, (1,), [1], {}, pd.NA, pd.NaT, 1j]
    scores = [
        lambda data: dp_accuracy_score(*data[:2], groups=data[2]),
        lambda data: dp_confusion_matrix(*data[:2], labels=[0, 1, "a"], groups=data[2]),
        lambda data: dp_r2_score(*data[:2], target_bounds=(-1, 3), groups=data[2]),
    ]

    def cells(values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column

    for groups in (None, [0, 0, 1, 1, 2, 2, 2, 3]):  # a person with all of its rows
        rows = [4] if groups is None else [4, 5, 6]
        for one in odd:
            y, found = rng.integers(0, 3, 8).tolist(), rng.integers(0, 2, 8).tolist()
            others = [list(y), list(found)]
            for column in others:
                for row in rows:
                    column[row] = one if rng.random() < 0.7 else odd[rng.integers(len(odd))]
            for score in scores:
                tapes = played_tapes(score, (cells(y), cells(found), groups), (*map(cells, others), groups))
                moved = sum(np.abs(a[2] - b[2]).sum() / a[1] for a, b in zip(*tapes, strict=True))
                assert moved <= 1 + 1e-9
