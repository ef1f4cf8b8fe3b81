"""Attacks on fits for persons with several rows, on their labels, and on what is stated and printed of them."""

import datetime
import datetime as dt
import itertools
import math
import pickle
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from attacks import X60, X200_UNIFORM, Y200_UNIFORM, shift_in_mu, total_of
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingRegressor
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, GroupKFold, GroupShuffleSplit, KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection, johnson_lindenstrauss_min_dim

from skdprp import (
    DPPCA,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    _noise,
    _persons,
    compose,
    metrics,
    privacy_report,
    set_budget,
)
from skdprp._calibration import snapshot
from skdprp.ledger import LedgerError, entry
from skdprp.linear_model import _base
from skdprp.metrics import dp_accuracy_score, dp_confusion_matrix, dp_r2_score, dp_roc_auc_score
from skdprp.testing import reproducible_noise
from skdprp.testing._tape import played_tapes, tape_of

pytestmark = pytest.mark.usefixtures("short_descents")

BOUNDS = (-1, 1)


def table(n_persons=60, most=5, d=3):
    """Rows, labels and groups of persons with 1 to `most` rows, in no order."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(n_persons), rng.integers(1, most + 1, n_persons)))
    X = rng.standard_normal((len(groups), d))
    return X, (X[:, 0] > 0).astype(int), groups


# What reaches the noise


@pytest.fixture
def on_one_path(monkeypatch):
    """Return a function that fits on two data sets along one course of releases; what they were before the noise."""
    found = []

    def fits(model, pair, size):
        def release(values, scale, *_, **__):
            found.append((values.ravel().copy(), scale))
            values[...] = np.random.default_rng(len(found)).standard_normal(values.shape) * scale * size

        def sample(number, rate):  # the last of the persons is in each
            drawn.append(rate)
            return np.flatnonzero(np.append(np.random.default_rng(len(drawn)).random(number - 1) < rate, True))

        monkeypatch.setattr(_noise, "_add", release)
        monkeypatch.setattr(
            _noise, "draw_gaussian", lambda shape, scale: np.random.default_rng(3).normal(0, scale, shape)
        )
        monkeypatch.setattr(_noise, "poisson_sample", sample)
        results = []
        for X, y, groups in pair:
            found.clear()
            drawn = []
            results.append((clone(model).fit(X, y, groups=groups), list(found)))
        return results

    return fits


def neighbours(rng, n_classes):
    """Two data sets of 40 persons, the last of whom has other rows, of any number and length, anywhere."""
    fixed = np.random.default_rng(7)
    others, whose = fixed.standard_normal((117, 3)), np.append(np.arange(39), fixed.integers(0, 39, 78))
    of_others, line = fixed.integers(0, n_classes, 117), rng.standard_normal(3)
    for sign in (1, -1):
        m, size = rng.choice([1, 2, 7, 300]), sign * 10.0 ** rng.uniform(-2, 12)
        if rng.random() < 0.5:  # all rows alike, and opposite to those of the other
            person, labels = np.tile(size * line, (m, 1)), np.zeros(m, int)
        else:
            person, labels = size * rng.standard_normal((m, 3)), rng.integers(0, n_classes, m)
        order = rng.permutation(117 + m)
        X, y = np.vstack([others, person])[order], np.append(of_others, labels)[order]
        yield sp.csr_array(X) if rng.random() < 0.3 else X, y, np.append(whose, np.full(m, 39))[order]


RELEASED = {
    "preconditioned": DPSGDClassifier(classes=[0, 1], preconditioner=True, n_epochs=6),
    "three classes": DPSGDClassifier(classes=[0, 1, 2], preconditioner=True, n_epochs=6, class_weight={0: 0.3}),
    "descent": DPSGDClassifier(classes=[0, 1], preconditioner=False, n_epochs=6),
    "clipped": DPSGDClassifier(classes=[0, 1], max_norm=None, n_epochs=6),
    "network": DPSGDClassifier(classes=[0, 1, 2], hidden_layer_sizes=(5,), batch_size=None, n_epochs=4),
    "moments": DPMoments(target_bounds=BOUNDS),
    "ridge": DPRidge(target_bounds=BOUNDS, mechanism="descent"),
    "components": DPPCA(1),
}


@pytest.mark.parametrize("name", RELEASED)
def test_all_releases_of_a_fit_together_lose_no_more_of_a_person_than_is_stated(name, on_one_path):
    """Sums of products and of gradients at each step, at weights far and near, against the mu of the guarantee."""
    rng = np.random.default_rng(1)
    for _ in range(8):
        pair = neighbours(rng, len(getattr(RELEASED[name], "classes", [0, 1])))
        (a, of_a), (b, of_b) = on_one_path(RELEASED[name], pair, 10.0 ** rng.uniform(-2, 3))
        assert a.guarantee_ == b.guarantee_ and [scale for _, scale in of_a] == [scale for _, scale in of_b]
        moves = [np.linalg.norm(one - other) / scale for (one, scale), (other, _) in zip(of_a, of_b, strict=True)]
        assert 0 < math.hypot(*moves) <= a.guarantee_.loss.mu


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-3, 1e6])
def test_a_step_on_a_sample_of_persons_moves_by_two_gradients_at_most(dtype, size, on_one_path):
    """A network whose gradients are clipped, in which a person of one row may have 300 in the other."""
    pytest.importorskip("dp_accounting")
    options = {"hidden_layer_sizes": (4, 3), "batch_size": 10, "n_epochs": 2, "max_grad_norm": size}
    model, rng = DPSGDClassifier(classes=[0, 1, 2], activation="tanh", **options), np.random.default_rng(2)
    for _ in range(3):
        pair = [(X.astype(dtype), y, groups) for X, y, groups in neighbours(rng, 3)]
        (fitted, of_a), (_, of_b) = on_one_path(model, pair, 1.0)
        assert len(of_a) == fitted.n_iter_ and fitted.sampling_rate_ == 0.25
        for (one, _), (other, _) in zip(of_a, of_b, strict=True):
            assert np.linalg.norm(one - other) <= 2 * fitted.sensitivity_ * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["moments", "descent", "preconditioned"])
def test_persons_with_any_number_of_rows_move_all_releases_no_further_than_stated(name, seed):
    """Of the moves that the guarantee is for, opposite persons need up to all, and others less."""
    rng = np.random.default_rng(seed)
    bounds = {"delta": 1e-5, "max_norm": 2.0}
    model = {
        "moments": DPMoments(target_bounds=(-1, 2), **bounds),
        "descent": DPRidge(target_bounds=(-1, 2), mechanism="descent", **bounds),
        "preconditioned": DPSGDClassifier(classes=[0, 1], n_epochs=4, preconditioner=True, **bounds),
    }[name]
    others = rng.standard_normal((20, 2)), rng.integers(0, 2, 20), 1 + rng.integers(0, 6, 20)
    one = rng.standard_normal(2)
    other = rng.choice([-1.0, 1.0]) * one if seed % 2 else rng.standard_normal(2)

    def _releases(row, label):
        n_rows = int(rng.integers(1, 9))
        X = np.vstack([np.tile(3 * row / np.linalg.norm(row), (n_rows, 1)), others[0]])
        data = X, np.append(np.full(n_rows, label), others[1]), np.append(np.zeros(n_rows, int), others[2])
        places = rng.permutation(len(X))
        X, y, groups = (part[places] for part in data)
        return tape_of(lambda: model.fit(sp.csr_array(X) if seed % 3 == 0 else X, y, groups=groups))

    a, b = _releases(one, 0), _releases(other, 1)
    squares = [np.sum((values - moved) ** 2) / scale**2 for (_, scale, values), (_, _, moved) in zip(a, b, strict=True)]
    n_others = len(squares) - (name == "preconditioned")  # steps at the first weights, which both have in common
    first = squares[0] if name == "preconditioned" else 0.0
    spent = first + n_others * squares[name == "preconditioned"]
    assert spent <= model.guarantee_.loss.mu**2


# Labels


DAYS = np.array(["2000-01-01", "2000-01-02", "2000-01-03"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    ("labels", "others"),
    [
        (np.array([17, 18, 19]), np.array(["17", "18", "A1"])),  # of pandas.read_csv, chunk by chunk
        (np.array([17, 18, 19]), ["17", "18", "A1"]),
        (DAYS.astype("datetime64[ns]"), DAYS.astype("datetime64[us]")),
        (DAYS.astype("datetime64[s]"), DAYS),
    ],
)
def test_a_person_in_two_chunks_is_found_or_its_labels_are_refused(labels, others):
    """Numbers in one chunk and text in the next, or days in two units: each person would count twice."""
    with pytest.raises((TypeError, ValueError), match=r"(?i)chunks|groups"):
        DPMoments(delta=1e-6).fit_chunks([(np.eye(3), None, labels), (np.eye(3), None, others)])


def test_labels_that_are_numbers_and_text_are_refused():
    """What pandas.read_csv makes, part by part, of many numbers and one word: 17 and "17" are one person."""
    with pytest.raises((TypeError, ValueError), match="groups"):
        DPMoments(delta=1e-6).fit(np.eye(3), groups=np.array([17, "17", "A1"], dtype=object))


@pytest.mark.parametrize("model", [DPSGDClassifier(classes=[0, 1]), DPRidge(target_bounds=BOUNDS)])
def test_weights_of_rows_by_position_are_not_taken_for_groups(model):
    """In scikit-learn the third argument of fit is sample_weight: classes would be two persons."""
    X, y, _ = table()
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="no weights"):
        model.fit(X, y, np.where(y == 1, 0.5, 1.0))
    assert not ledger.entries


@pytest.mark.parametrize("model", [DPSGDClassifier(classes=[0, 1]), DPRidge(target_bounds=BOUNDS)])
def test_no_error_says_how_many_rows_all_persons_have(model):
    X, y, groups = table()
    for arguments in ((X, y[:-1], groups), (X, y, groups[:-1]), (X[:-1], y, groups)):
        with pytest.raises(ValueError, match=r"samples|label") as error:
            model.fit(*arguments[:2], groups=arguments[2])
        assert not re.search(r"\d\d", str(error.value))


@pytest.mark.parametrize(
    ("model", "takes_labels"),
    [
        (DPSGDClassifier(classes=[0, 1]), True),
        (DPSGDClassifier(classes=[0, 1], preconditioner=True, n_epochs=20), True),
        (DPRidge(target_bounds=(0, 1)), True),
        (DPRidge(target_bounds=(0, 1), mechanism="moments"), True),
        (DPPCA(2), False),
        (DPMoments(), False),
    ],
)
def test_no_public_attribute_of_a_model_for_persons_tells_how_many_rows_they_have(model, takes_labels):
    """Scales, steps and deltas follow from the number of persons."""
    found = []
    for n_rows in (1, 300):
        groups = np.concatenate([np.zeros(n_rows, dtype=int), np.repeat(np.arange(1, 30), 3)])
        X = np.random.default_rng(0).uniform(-0.5, 0.5, (len(groups), 3))
        labels = [(X[:, 0] > 0).astype(int)] * takes_labels
        model.fit(X, *labels, groups=groups)
        released = [name for name, value in vars(model).items() if isinstance(value, np.ndarray | list)]
        public = {name: repr(value) for name, value in vars(model).items() if name not in (*released, "moments_")}
        learnt = ("alpha_", "residual_std_", "intercept_", "intercept_std_", "_fit_name")
        numbers = [name for name in learnt if name in public]
        found.append({name: value for name, value in public.items() if name not in numbers})
    assert found[0] == found[1]


# Folds and reports


@pytest.mark.parametrize("cv", [GroupKFold(4, shuffle=True, random_state=0), GroupShuffleSplit(4, random_state=0)])
def test_rows_of_one_person_move_no_other_between_folds(cv):
    """What totals of folds rest on: a person of one row replaced by one of thirty, anywhere among the others."""
    _, _, groups = table()
    rng = np.random.default_rng(1)
    others = groups[groups != 5]
    held_out = [
        [set(data[test]) - {5} for _, test in cv.split(data, groups=data)]
        for data in (rng.permutation(np.append(others, [5] * count)) for count in (1, 30))
    ]
    assert held_out[0] == held_out[1]


def routed_search(model, cv, grid=None, **known):
    """A search whose fits ask for groups."""
    X, y, _ = table()
    with config_context(enable_metadata_routing=True):
        return GridSearchCV(model, grid or {"max_norm": [1.0, 2.0]}, cv=cv).fit(X, y, **known)


def asking(groups=True, **parameters):
    """A model that asks for groups."""
    with config_context(enable_metadata_routing=True):
        return DPSGDClassifier(classes=[0, 1], n_epochs=3, **parameters).set_fit_request(groups=groups)


def test_no_person_is_in_more_fits_of_a_search_than_are_charged(monkeypatch):
    seen, find = [], _persons.persons_of

    def noted(groups, n_rows):
        seen.append(set(np.asarray(groups).tolist()))
        return find(groups, n_rows)

    monkeypatch.setattr(_base, "persons_of", noted)
    search = routed_search(asking(delta=1e-6), GroupKFold(4, shuffle=True), groups=table()[2])
    assert privacy_report(search).private.n_releases == max(sum(person in fit for fit in seen) for person in range(60))


def test_a_search_with_folds_by_one_grouping_and_privacy_by_another_has_no_total():
    """Folds by visit or by hospital: a patient is in each of them, or folds have fewer patients than is thought."""
    _, _, patients = table()
    for others in (np.arange(len(patients)), patients % 5):
        search = routed_search(asking("patient"), GroupKFold(4, shuffle=True), groups=others, patient=patients)
        assert privacy_report(search).private is None


def test_folds_of_persons_who_may_be_blank_have_no_total_or_say_that_their_labels_stay():
    """Without the rows of one of 60 persons, half of the others are in another fold: splitters know no blank ones."""
    model = asking(adjacency="add_remove", delta=1e-6)
    total = privacy_report(routed_search(model, GroupKFold(4, shuffle=True), groups=table()[2])).private
    assert total is None or any("GroupKFold" in text and "blank" in text for text in total.assumptions)


def test_a_plan_of_a_model_that_asks_for_groups_says_that_it_is_for_a_fit_without_them():
    """The delta of the fit is that of fewer persons than there are rows."""
    X, y, groups = table(20, 50)
    model = asking()
    planned, fitted = privacy_report(model, X, y).private, clone(model).fit(X, y, groups=groups).guarantee_
    assert fitted.delta <= planned.delta or "groups" in " ".join(planned.assumptions)


def test_a_search_over_persons_counts_each_fit_that_trains_on_one():
    """Each person is in two of three folds of each candidate, and in the refit."""
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(90, 3)), rng.uniform(-1, 1, 90), np.arange(90) % 25
    with config_context(enable_metadata_routing=True):
        model = DPRidge(target_bounds=(-1, 1), delta=1e-5).set_fit_request(groups=True)
        search = GridSearchCV(model, {"epsilon": [0.1, 0.5]}, cv=GroupKFold(3, shuffle=True))
        with PrivacyLedger() as ledger:
            search.fit(X, y, groups=groups)
    report = privacy_report(search)
    assert report.steps[1].releases == 5
    assert report.steps[1].calls == len(ledger.entries) == 7
    assert report.private.unit.startswith("one person")
    assert report.private.epsilon >= 0.5 + 2 * (0.1 + 0.5)
    assert report.private.delta >= 5 * max(entry.guarantee.delta for entry in ledger.entries)


MODELS = [DPSGDClassifier(epsilon=0.01, classes=[0, 1]), DPRidge(epsilon=0.01, target_bounds=(0, 1))]


@pytest.mark.parametrize("projection", [GaussianRandomProjection(eps=0.9), SparseRandomProjection(eps=0.9)])
@pytest.mark.parametrize("model", MODELS)
def test_width_of_what_persons_release_does_not_follow_from_their_number_of_rows(model, projection):
    """Persons may have any number of rows, which is private: a width that follows from it has no total.

    The last person has one row, or two, and the width that scikit-learn takes by itself is then another.
    """
    sizes = range(200, 2000)
    width = {n: johnson_lindenstrauss_min_dim(n, eps=projection.eps) for n in (*sizes, sizes.stop)}
    n_persons = next(n for n in sizes if width[n] != width[n + 1])
    seen = set()
    for n_rows in (n_persons, n_persons + 1):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n_rows, 200)), rng.integers(0, 2, n_rows)
        groups = np.minimum(np.arange(n_rows), n_persons - 1)
        fitted = make_pipeline(clone(projection), clone(model))
        fitted.fit(X, y, **{f"{type(model).__name__.lower()}__groups": groups})
        seen.add(fitted[-1].coef_.shape)
    assert len(seen) == 1 or total_of(fitted) is None


def test_persons_of_several_parts_pass_no_limit_by_one_part_each():
    groups = np.repeat(np.arange(30), 2)
    model = DPRidge(target_bounds=(-1, 1), delta=1e-6, mechanism="moments")
    with PrivacyLedger() as ledger:
        ledger.limit(1.5, 1e-5, unit="person")
        with ledger.part("first"):
            model.fit(X60[:30], X60[:30, 0], groups=groups[:30])
        with ledger.part("last"), pytest.raises(LedgerError):
            model.fit(X60[30:], X60[30:, 0], groups=groups[30:])
    assert len(ledger.entries) == 1


def _asks(random, step):
    return step.set_fit_request(groups=random.random() < 0.7)


def _prepared(random, depth=0):
    kind = random.randrange(5)
    if kind == 0:
        return PublicScaler((-1, 1))
    if kind == 1:
        return DPScaler(bounds=(-1, 1), epsilon=0.5, delta=1e-6)
    if kind == 2 and not depth:
        return FeatureUnion([("a", _prepared(random, 1)), ("b", _prepared(random, 1))])
    if kind == 3 and not depth:
        branches = [("a", _prepared(random, 1), [0, 1]), ("b", _prepared(random, 1), [2])]
        return ColumnTransformer(branches, sparse_threshold=0)
    return _asks(random, DPPCA(1, epsilon=random.choice([0.5, 1.0]), delta=1e-6))


def _routed(random):
    options = {"target_bounds": (-1, 1), "delta": 1e-6, "mechanism": "moments", "epsilon": random.choice([0.5, 2.0])}
    model = _asks(random, DPRidge(**options))
    if random.random() < 0.7:
        model = Pipeline([("before", _prepared(random)), ("model", model)])
    kind = random.randrange(4)
    if kind == 0:
        return VotingRegressor([("a", model), ("b", clone(model))])
    if kind == 1:
        return GridSearchCV(model, {}, cv=random.choice([GroupKFold(3, shuffle=True), KFold(3)]))
    return model


def test_no_total_of_routed_groups_is_for_persons_where_one_fit_was_for_rows_or_less_than_the_entries():
    """200 rows of 100 persons; each step asks for groups or does not."""
    persons, n_totals = np.repeat(np.arange(100), 2), 0
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(45):
            model = _routed(Random(seed))
            with PrivacyLedger() as ledger:
                try:
                    model.fit(X200_UNIFORM, X200_UNIFORM[:, 0], groups=persons)
                except TypeError:  # nothing asks for groups
                    continue
            guarantees = [one.guarantee for one in ledger.entries]
            if (total := privacy_report(model).private) is None:
                continue
            n_totals += 1
            assert "person" not in total.unit or all("person" in one.unit for one in guarantees)
            if not isinstance(model, GridSearchCV):
                assert compose(*guarantees).epsilon <= total.epsilon * (1 + 1e-9)
    assert n_totals > 20


_WRONG_ROWS = {  # of which scikit-learn and numpy tell the shape
    "no columns": lambda X: X[:, :0],
    "three dimensions": lambda X: X[:, :, None],
    "one dimension": lambda X: X[:, 0],
    "numbers": lambda X: X[0, 0],
    "ragged": lambda X: [*X.tolist()[1:], [1.0]],
    "texts": lambda X: np.full(X.shape, "a"),
    "complex": lambda X: X + 1j,
    "nan": lambda X: np.full_like(X, np.nan),
    "infinite": lambda X: np.full_like(X, np.inf),
}
_WRONG_TARGETS = _WRONG_ROWS | {"two columns": lambda X: X[:, :2], "one row": lambda X: X.T[:1]}
_OF_PERSONS = (DPRidge(target_bounds=(0, 1)), DPSGDClassifier(), DPMoments(target_bounds=(0, 1)), DPPCA(2))


def _what_fits_say(model, n, wrong_rows, wrong_targets):
    rows = np.random.default_rng(0).uniform(size=(n, 3))
    X = _WRONG_ROWS.get(wrong_rows, np.asarray)(rows)
    y = _WRONG_TARGETS.get(wrong_targets, lambda rows: rows[:, 0] > 0.5)(rows)
    calls = [lambda: clone(model).fit(X, y, groups=np.arange(n) // 10)]
    if hasattr(model, "fit_chunks"):
        calls.append(lambda: clone(model).fit_chunks([(X, y, np.arange(n) // 10)]))
    calls.append(lambda: privacy_report(clone(model), X, y, groups=np.arange(n) // 10))
    for call in calls:
        try:
            call()
        except (TypeError, ValueError) as error:
            yield f"{type(error).__name__}: {error}"
        else:
            yield "none"


@pytest.mark.parametrize("model", _OF_PERSONS, ids=lambda model: type(model).__name__)
def test_errors_do_not_tell_how_many_rows_persons_have(model):
    """Of persons only their number is public: fits printed "an array of shape (301, 2)"."""
    wrong = [(name, None) for name in _WRONG_ROWS] + [(None, name) for name in _WRONG_TARGETS]
    said = [[list(_what_fits_say(clone(model), n, *names)) for names in wrong] for n in (291, 297)]
    assert said[0] == said[1]
    assert sum(words[0] != "none" for words in said[0]) >= len(_WRONG_ROWS)


def _with_repeated_rows(k):
    """Rows of 40 persons, of whom the first has its row k times."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 3))
    places = np.r_[np.zeros(k - 1, dtype=int), np.arange(40)]
    return X[places], (X[places, 0] > 0).astype(int), places


def _numbers(thing, path="", found=None):
    """All that an object holds, by the paths to it."""
    found = {} if found is None else found
    if isinstance(thing, np.ndarray):
        found[path] = (thing.dtype.str, thing.shape, thing.strides, thing.ravel().tolist())
    elif isinstance(thing, list | tuple):
        found[path] = len(thing)
        for i, one in enumerate(thing):
            _numbers(one, f"{path}[{i}]", found)
    elif isinstance(thing, int | float | str | type | Callable) or thing is None:
        found[path] = thing
    else:
        for name, one in (thing if isinstance(thing, dict) else getattr(thing, "__dict__", {})).items():
            _numbers(one, f"{path}.{name}", found)
    return found


@pytest.mark.parametrize("kind", [np.float64, np.float32, sp.csr_matrix])
@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(classes=[0, 1], n_epochs=2, preconditioner=True),
        DPSGDClassifier(classes=[0, 1], n_epochs=2, batch_size=13, max_norm=None),
        DPSGDClassifier(classes=[0, 1], n_epochs=1, hidden_layer_sizes=(2,), batch_size=20, optimizer="adam"),
        DPRidge(target_bounds=(0, 1), mechanism="moments"),
        DPRidge(target_bounds=(0, 1), mechanism="descent"),
        DPPCA(),
    ],
    ids=lambda model: f"{type(model).__name__}",
)
def test_a_model_of_persons_holds_nothing_that_tells_how_many_rows_one_has(model, kind):
    """A person whose row stands there thrice has the mean of one: attributes, shapes, strides and types are equal."""
    held = []
    for k in (1, 3):
        X, y, groups = _with_repeated_rows(k)
        with reproducible_noise(0):
            held.append(_numbers(clone(model).fit(kind(X), y, groups=groups)))
    one, other = ({name: fact for name, fact in found.items() if "_unlike" not in name} for found in held)
    assert one.keys() == other.keys()
    for name, fact in one.items():
        if isinstance(fact, tuple):  # an array
            assert fact[:3] == other[name][:3]
            np.testing.assert_allclose(fact[3], other[name][3], rtol=1e-5, atol=1e-7)
        elif isinstance(fact, float):
            assert fact == pytest.approx(other[name], rel=1e-6), name
        else:
            assert fact == other[name], name


def test_scores_of_persons_do_not_tell_how_many_rows_one_has():
    """Means of equal rows are those of one, in all that a score says."""
    said = []
    for k in (1, 4):
        X, y, groups = _with_repeated_rows(k)
        predicted, known = (X[:, 1] > 0).astype(int), {"groups": groups}
        with reproducible_noise(0):
            scores = [
                dp_accuracy_score(y, predicted, **known),
                dp_confusion_matrix(y, predicted, labels=[0, 1], **known),
                dp_roc_auc_score(y, X[:, 0] + 0.5, pos_label=1, **known),
                dp_r2_score(X[:, 0], X[:, 1], target_bounds=(-1, 1), **known),
            ]
        said.append([(repr(one), np.round(one.released, 3).tolist()) for one in scores])
    assert said[0] == said[1]


@pytest.mark.parametrize("mechanism", ["moments", "descent"])
def test_a_budget_for_persons_is_what_reports_and_ledgers_say_of_the_fit(mechanism):
    """The number of persons sets the noise of each step, and all of them together meet the budget."""
    X, _, groups = _with_repeated_rows(30)
    model = make_pipeline(DPPCA(2, epsilon=0.5), DPRidge(target_bounds=(-1, 1), mechanism=mechanism))
    set_budget(model, X, X[:, 0], groups=groups, epsilon=0.7, delta=1e-5)
    with PrivacyLedger() as ledger:
        model.fit(X, X[:, 0], dppca__groups=groups, dpridge__groups=groups)
    total, entered = privacy_report(model).total, [entry.guarantee for entry in ledger.entries]
    assert "one person replaced" in repr(total)
    assert total.epsilon <= 0.7
    assert total.delta <= 1e-5
    assert compose(*entered, delta=1e-5).epsilon <= 0.7 * (1 + 1e-9)


def _fits():
    yield lambda X, y, groups: DPSGDClassifier(delta=1e-6, classes=[0, 1]).fit(X, y, groups=groups)
    yield lambda X, y, groups: DPSGDClassifier(classes=[0, 1], preconditioner=True).fit(X, y, groups=groups)
    yield lambda X, y, groups: DPRidge(target_bounds=(-3, 3)).fit(X, X[:, 0], groups=groups)
    yield lambda X, y, groups: DPRidge(target_bounds=(-3, 3), mechanism="moments").fit(X, X[:, 0], groups=groups)
    yield lambda X, y, groups: DPPCA(2).fit(X, groups=groups)


@pytest.mark.parametrize("fit", list(_fits()))
def test_copies_of_the_rows_of_persons_change_nothing_that_a_model_holds(fit):
    rng, held = np.random.default_rng(0), []
    rows = rng.normal(size=(40, 3))
    for counts in (np.ones(40, int), rng.integers(1, 9, 40), np.r_[300, np.ones(39, int)]):
        groups = np.repeat(np.arange(40), counts)
        with reproducible_noise(5), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model = fit(rows[groups], (rows[groups, 0] > 0).astype(int), groups)
        facts = {name: np.round(one, 6).tolist() for name, one in vars(model).items() if isinstance(one, np.ndarray)}
        held.append((facts, repr(model), repr(model.guarantee_), [str(one.message) for one in heard]))
        held[-1] += (len(pickle.dumps(model)),)
    assert held[0] == held[1] == held[2]


def _models_of_several_outputs(rng, n_classes):
    bounded = {"epsilon": 1.0, "delta": 1e-5, "max_norm": float(10.0 ** rng.uniform(-1, 1))}
    classes = {**bounded, "classes": range(n_classes), "class_weight": {0: 0.3}}
    bounds = [(-1.0, 1.0), (0.0, 5.0)]
    yield DPMoments(target_bounds=bounds, **bounded), False
    yield DPPCA(2, **bounded), False
    yield DPRidge(target_bounds=bounds, mechanism="descent", **bounded), False
    yield DPRidge(target_bounds=bounds, mechanism="moments", **bounded), False
    yield DPSGDClassifier(n_epochs=3, preconditioner=False, **classes), True
    yield DPSGDClassifier(n_epochs=3, preconditioner=True, **classes), True


def _row_of_any_size(rng):
    kinds = (
        rng.normal(size=3),
        np.zeros(3),
        1e200 * rng.normal(size=3),
        np.full(3, 5e-324),
        np.array([1.7e308, -1.7e308, 1.7e308]),
        10.0 * np.eye(3)[rng.integers(3)],
    )
    return kinds[rng.integers(len(kinds))]


@pytest.mark.parametrize("of_persons", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_no_row_and_no_person_of_any_size_moves_all_releases_further_than_mu(of_persons, seed):
    rng = np.random.default_rng(seed)
    for model, classifies in _models_of_several_outputs(rng, 3):

        def person(classifies=classifies):
            m = int(rng.integers(1, 4)) if of_persons else 1
            y = rng.integers(3, size=m) if classifies else rng.normal(scale=10, size=(m, 2))
            return np.array([_row_of_any_size(rng) for _ in range(m)]), y

        people = [person() for _ in range(6)]
        others = [*people[:-1], person()]

        def table(people):
            groups = np.repeat(np.arange(len(people)), [len(X) for X, _ in people])
            return np.concatenate([X for X, _ in people]), np.concatenate([y for _, y in people]), groups

        def fit(data, model=model):
            X, y, groups = data
            return model.fit(X, y, groups=groups) if of_persons else model.fit(X, y)

        assert shift_in_mu(model, fit, table(people), table(others)) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_pure_noise_of_a_minimiser_hides_rows_of_any_size(seed):
    rng = np.random.default_rng(seed)
    model = ProductNoiseOutputPerturbation(epsilon=0.7, delta=0, classes=range(3), class_weight={1: 0.2})
    X, y = np.array([_row_of_any_size(rng) for _ in range(12)]), rng.integers(3, size=12)
    others = np.vstack([X[:-1], _row_of_any_size(rng)])
    ((_, scale, one),), ((_, _, other),) = played_tapes(lambda data: model.fit(*data), (X, y), (others, y))
    assert np.linalg.norm(one - other) / scale <= 0.7


def _scalars_of_arrow(labels, kind=None):
    pyarrow = pytest.importorskip("pyarrow")
    return list(pyarrow.array(labels, kind))


def test_missing_labels_of_persons_are_refused_as_scalars_of_arrow_too():
    """A null scalar equals itself, and all rows without a person were those of one."""
    with pytest.raises(ValueError, match="missing"):
        DPMoments(delta=1e-3).fit(np.eye(4), groups=_scalars_of_arrow([1, 1, None, None]))


@pytest.mark.parametrize("kind", ["python", "int32"])
def test_a_person_in_two_chunks_is_found_or_refused_whatever_type_a_number_has(kind):
    """Scalars of Arrow equal no other numbers, so that one person counts as two, and moves twice as much."""
    again = [1, 2] if kind == "python" else _scalars_of_arrow([1, 2], kind)
    with pytest.raises(ValueError, match="in two chunks"):
        DPMoments(delta=1e-3).fit_chunks(
            [(np.eye(2), None, _scalars_of_arrow([1, 2], "int64")), (np.eye(2), None, again)]
        )


def test_persons_in_a_dictionary_column_of_several_chunks_are_told_by_their_names():
    """Scalars of two dictionaries differ, so that two persons are four."""
    pyarrow = pytest.importorskip("pyarrow")
    parts = [pyarrow.array(names).dictionary_encode() for names in (["a", "b"], ["b", "a"])]
    model = DPMoments(delta=1e-3).fit(np.eye(4), groups=list(pyarrow.chunked_array(parts)))
    assert model.moments_.n_samples == 2


@pytest.mark.parametrize(
    "labels",
    [
        [pd.Timestamp("2020"), pd.Timestamp("2020", tz="UTC")],
        [pd.Period("2020", "Y"), pd.Period("2020-01", "M")],
        [("a", datetime.datetime(2020, 1, 1)), ("a", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))],
    ],
)
def test_times_of_several_kinds_are_no_labels_of_persons(labels):
    """One person may have two that are told apart, in one table or in two chunks."""
    for data in (
        lambda model: model.fit(np.eye(2), groups=labels),
        lambda model: model.fit_chunks([(np.eye(1, 2), None, [label]) for label in labels]),
    ):
        with pytest.raises(ValueError, match="neither whole numbers nor text"):
            data(DPMoments(delta=1e-3))


def _searched_the_old_way(folds, persons, model, n_splits):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(len(persons), 2)), rng.uniform(size=len(persons))
    search = GridSearchCV(make_pipeline(PublicScaler((0, 1)), model), {}, cv=GroupKFold(n_splits, shuffle=True))
    with PrivacyLedger() as ledger:
        search.fit(X, y, groups=folds, dpridge__groups=persons)
    return search, ledger


@pytest.mark.parametrize("with_ledger", [False, True])
def test_folds_by_one_grouping_and_persons_by_another_have_no_total_without_routing_either(with_ledger):
    model = DPRidge(target_bounds=(0, 1), epsilon=1.0, delta=1e-5)
    search, ledger = _searched_the_old_way(np.arange(80) % 8, np.arange(80) // 4, model, 4)
    assert privacy_report(search, ledger=ledger if with_ledger else None).private is None


def test_folds_with_few_of_the_persons_state_no_delta_of_many():
    persons = np.arange(160) // 2
    model = DPRidge(target_bounds=(0, 1), epsilon=0.3)
    search, ledger = _searched_the_old_way(np.where(persons < 8, 0, 1), persons, model, 2)
    deltas = sorted(one.guarantee.delta for one in ledger.entries)
    assert deltas[-1] > 20 * deltas[0] and privacy_report(search).private is None


DAY, TIME = dt.date(2020, 5, 1), dt.datetime(2020, 5, 1)


VISITS = pl.Series([TIME] * 2)


def persons_in_two_chunks(one, other):
    chunks = [(np.eye(2), None, one), (np.eye(2), None, other)]
    return DPMoments(epsilon=1.0, delta=1e-6).fit_chunks(chunks).moments_.n_samples


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([DAY, DAY], [TIME, TIME]),
        (pl.Series([DAY, DAY]), VISITS),
        (pd.Series([DAY, DAY], dtype="date32[pyarrow]"), pd.Series([TIME, TIME])),
        (pa.array([DAY, DAY], pa.date32()), pa.array([DAY, DAY], pa.date64())),
        (np.array([np.datetime64("2020-05-01")] * 2, dtype=object), [DAY, DAY]),
        ([("ward", DAY)] * 2, [("ward", TIME)] * 2),
        ([("ward", 7)] * 2, [("ward", "7")] * 2),
        (VISITS, VISITS.dt.cast_time_unit("ns")),
        (pa.array([TIME] * 2, pa.timestamp("us")), pa.array([TIME] * 2, pa.timestamp("ns"))),
        (pa.array([dt.timedelta(1)] * 2, pa.duration("us")), pa.array([dt.timedelta(1)] * 2, pa.duration("ns"))),
        (VISITS.dt.replace_time_zone("Europe/Berlin"), VISITS),
    ],
)
def test_one_person_of_two_chunks_is_found_or_refused_whatever_kind_of_day_or_time_its_label_is(one, other):
    with pytest.raises((TypeError, ValueError)):
        persons_in_two_chunks(one, other)


def test_one_instant_is_one_person_in_any_zone_also_where_a_clock_was_set_back():
    utc = pd.Series(pd.to_datetime(["2020-10-25 01:30:00+00:00"] * 2))
    berlin = utc.dt.tz_convert("Europe/Berlin")
    with pytest.raises((TypeError, ValueError)):
        persons_in_two_chunks(utc, berlin)
    with pytest.raises((TypeError, ValueError)):
        DPMoments(epsilon=1.0, delta=1e-6).fit(np.eye(2), groups=np.array([utc[0], berlin[0]], dtype=object))


def test_days_beside_times_are_no_labels_of_persons():
    with pytest.raises((TypeError, ValueError)):
        DPMoments(epsilon=1.0, delta=1e-6).fit(np.eye(2), groups=np.array([DAY, TIME], dtype=object))
    with pytest.raises((TypeError, ValueError)):
        dp_accuracy_score([0, 1], [0, 1], groups=np.array([DAY, TIME], dtype=object))


@pytest.mark.parametrize("label", [b"\x01" * 15 + b"\x00", "a\x00"])
def test_zeros_at_the_end_of_a_label_make_no_other_person(label):
    with pytest.raises((TypeError, ValueError)):
        persons_in_two_chunks(np.array([label] * 2), [label] * 2)


@pytest.mark.parametrize("n_folds", [2, 4])
def test_folds_and_persons_of_two_groupings_have_no_total_where_routing_was_off_at_the_fit(n_folds):
    X, y = np.random.default_rng(0).uniform(size=(160, 2)), np.random.default_rng(1).uniform(size=160)
    person = np.arange(160) // 2
    others = np.where(person < 8, 0, 1) if n_folds == 2 else np.arange(160)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(PublicScaler((0, 1)), DPRidge(target_bounds=(0, 1)).set_fit_request(groups=True))
    cv = GroupKFold(n_folds, shuffle=True, random_state=0)
    search = GridSearchCV(model, {"dpridge__epsilon": [0.3]}, cv=cv).fit(X, y, groups=others, dpridge__groups=person)
    assert privacy_report(search).private is None


class _Tape:
    """Plays to a second fit what the first released; how far its sums are from those of the first."""

    def __init__(self):
        self.sums, self.released, self.moves, self.drawn = [], [], None, []
        self.add, self.draw = _noise.add_gaussian, _noise.draw_gaussian

    def add_gaussian(self, values, scale):
        exact = values.copy()
        if self.moves is None:
            self.add(values, scale)
            self.sums.append((exact, scale))
            self.released.append(values.copy())
            return
        known, same = self.sums[len(self.moves)]
        assert same == scale
        values[...] = self.released[len(self.moves)]
        self.moves.append(np.linalg.norm(exact - known) / scale)

    def draw_gaussian(self, shape, scale):
        if self.moves is None:
            self.drawn.append(self.draw(shape, scale))
            return self.drawn[-1].copy()
        return self.drawn.pop(0)

    def distance(self, monkeypatch, fit, a, b):
        with monkeypatch.context() as patched:
            patched.setattr(_noise, "add_gaussian", self.add_gaussian)
            patched.setattr(_noise, "draw_gaussian", self.draw_gaussian)
            model = fit(*a)
            self.moves = []
            fit(*b)
        return float(np.linalg.norm(self.moves)) / model.guarantee_.loss.mu


@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(classes=[0, 1, 2], n_epochs=6, preconditioner=True, class_weight={0: 0.3}),
        DPSGDClassifier(classes=[0, 1, 2], n_epochs=6, hidden_layer_sizes=(3, 2), max_norm=2.0, max_grad_norm=0.5),
        DPSGDClassifier(classes=[0, 1, 2], n_epochs=6, preconditioner=False, optimizer="adam"),
        DPRidge(target_bounds=(0, 2), mechanism="moments"),
        DPRidge(target_bounds=(0, 2), mechanism="descent"),
    ],
    ids=["preconditioned", "network", "adam", "moments", "descent"],
)
def test_a_person_with_other_rows_moves_all_releases_together_by_no_more_than_mu(monkeypatch, model):
    rng = np.random.default_rng(0)
    for _ in range(4):
        counts, d = rng.integers(1, 6, size=rng.integers(4, 15)), rng.integers(1, 4)
        groups = np.repeat(np.arange(len(counts)), counts)
        X, y = rng.normal(size=(len(groups), d)) * rng.choice([0.1, 30]), rng.integers(0, 3, len(groups))
        rest, n_new = groups > 0, rng.integers(1, 9)
        long = np.eye(d)[:1] * 30
        a = np.vstack([np.repeat(long, counts[0], 0), X[rest]]), np.append(np.zeros(counts[0]), y[rest]), groups
        b = np.vstack([np.repeat(-long, n_new, 0), X[rest]]), np.append(np.full(n_new, 2), y[rest])
        b = *b, np.append(np.zeros(n_new, int), groups[rest])
        assert _Tape().distance(monkeypatch, lambda X, y, g: sklearn.clone(model).fit(X, y, groups=g), a, b) <= 1


@pytest.mark.parametrize("n_rows", [2, 64])
def test_nothing_tells_how_many_rows_a_person_has(n_rows):
    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(-0.4, 0.4, (30, 3)), np.arange(30) % 2, np.arange(30)
    again = np.append(np.arange(30), np.zeros(n_rows - 1, int))
    for model in (DPSGDClassifier(classes=[0, 1], n_epochs=3, batch_size=10), DPRidge(target_bounds=(0, 1))):
        seen = []
        for rows in (np.arange(30), again):
            with reproducible_noise(0), warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                fitted = sklearn.clone(model).fit(X[rows], y[rows], groups=groups[rows])
            kinds = {name: (type(value), np.shape(value)) for name, value in vars(fitted).items()}
            seen.append((kinds, [str(one.message) for one in heard], str(privacy_report(fitted))))
        assert seen[0] == seen[1]


def test_no_error_of_a_fit_or_a_score_of_persons_tells_how_many_rows_there_are():
    n, rng = 12347, np.random.default_rng(0)
    X, y, groups = rng.uniform(size=(n, 2)), np.arange(n) % 2, np.arange(n) % 101
    missing = np.where(np.arange(n) == 7, np.nan, y)
    cases = [(X, y[:-1], groups), (X, y, groups[:-1]), (X[:, 0], y, groups), (X, missing, groups), (X[None], y, groups)]
    cases += [(X, y, groups + 0.5), (X, y, np.column_stack([groups, groups])), (X, y, missing)]
    calls = [
        lambda X, y, g: DPSGDClassifier(classes=[0, 1], n_epochs=2).fit(X, y, groups=g),
        lambda X, y, g: DPRidge(target_bounds=(0, 1)).fit(X, y, groups=g),
        lambda X, y, g: dp_accuracy_score(y, np.arange(n), groups=g),
        lambda X, y, g: privacy_report(DPRidge(target_bounds=(0, 1)), X, y, groups=g),
    ]
    n_refused = 0
    for case in cases:
        for call in calls:
            try:
                call(*case)
            except (TypeError, ValueError) as error:
                n_refused += 1
                while error is not None:
                    assert not re.search(r"1234\d|12,34\d", str(error))
                    error = error.__context__
    assert n_refused > 20


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_budget_of_persons_is_what_plan_limit_ledger_and_report_have(adjacency):
    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(size=(100, 4)), rng.uniform(size=100), np.arange(100) // 2
    steps = (
        DPPCA(2, adjacency=adjacency),
        FeatureUnion([("a", DPPCA(1, adjacency=adjacency)), ("b", PublicScaler((0, 1)))]),
    )
    model = make_pipeline(*steps, DPRidge(target_bounds=(0, 1), epsilon=2.0, adjacency=adjacency))
    with sklearn.config_context(enable_metadata_routing=True):
        for part in (steps[0], steps[1].transformer_list[0][1], model[-1]):
            part.set_fit_request(groups=True)
        plan = privacy_report(set_budget(model, X, y, groups=groups, epsilon=0.7, delta=1e-7), X, y, groups=groups)
        with PrivacyLedger() as ledger:
            ledger.limit(0.7, 1e-7, adjacency=adjacency, unit="person")
            with entry(plan):
                model.fit(X, y, groups=groups)
    total = privacy_report(model, ledger=ledger).total
    assert len(ledger.entries) == 1
    assert total.epsilon <= 0.7 and total.delta <= 1e-7


def test_wrappers_of_models_for_persons_have_the_total_of_a_ledger():
    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(size=(60, 3)), rng.uniform(size=(60, 2)), np.arange(60) // 2
    with sklearn.config_context(enable_metadata_routing=True):
        model = MultiOutputRegressor(DPRidge(target_bounds=(0, 1), delta=1e-6).set_fit_request(groups=True))
        with PrivacyLedger() as ledger:
            model.fit(X, y, groups=groups)
        total = privacy_report(model, ledger=ledger).total
    assert (total.epsilon, total.delta, total.unit) == (
        ledger.total()[0].guarantee.epsilon,
        ledger.total()[0].guarantee.delta,
        "one person (all of its rows)",
    )


def test_a_scaler_for_rows_before_a_model_for_persons_is_for_rows():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(60, 3)), rng.uniform(size=60)
    model = make_pipeline(DPScaler(delta=1e-6), DPRidge(target_bounds=(0, 1), delta=1e-6))
    assert privacy_report(model.fit(X, y, dpridge__groups=np.arange(60) // 2)).total.unit == "one row"


@pytest.fixture
def silenced(monkeypatch):
    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: None)
    monkeypatch.setattr(metrics, "add_laplace", lambda values, scale: np.asarray(values, dtype=float))


def n_persons(labels, others):
    chunks = [(np.eye(2), None, labels), (np.eye(2), None, others)]
    return DPMoments(epsilon=1, delta=1e-6).fit_chunks(chunks).moments_.n_samples


@pytest.mark.parametrize(
    "other", [lambda ids: ids.astype("<u8"), lambda ids: ids.tolist(), lambda ids: pl.Series(ids.tolist())]
)
def test_ids_of_64_bits_in_the_other_byte_order_are_the_same_persons(other):
    ids = np.array([2**63 + 5] * 2, ">u8")
    with pytest.raises(ValueError, match=r"groups|person"):
        n_persons(ids, other(ids))


@pytest.mark.parametrize(
    ("labels", "others"),
    [
        (np.array(["a", "b"], ">U3"), np.array(["a", "c"], "<U5")),
        (np.array([1, 2], ">i8"), [1, 3]),
        (np.array([True, False]), [1, 5]),
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "c"]),
        (pa.array([7, 8]).dictionary_encode(), np.array([7, 9])),
        (pd.Series([2**63 + 1, 3], dtype="UInt64"), [2**63 + 1, 4]),
    ],
)
def test_a_person_of_two_chunks_is_found_in_columns_of_two_kinds(labels, others):
    with pytest.raises(ValueError, match="person"):
        n_persons(labels, others)


def owned():
    """Rows of 1001 persons: the first one has all 1000 that are not 0."""
    return pd.DataFrame(
        {
            "id": np.arange(2000),
            "who": np.repeat(np.arange(1001), [1000] + [1] * 1000),
            "x": np.repeat([1.0, 0.0], 1000),
        }
    )


MOVES = {
    "shuffle": lambda rows: rows.shuffle("ward"),
    "sort_values": lambda rows: rows.sort_values("ward"),
    "set_index": lambda rows: rows.set_index("ward"),
}


def moved(move):
    dd = pytest.importorskip("dask.dataframe")
    table = owned().assign(ward=lambda rows: rows["who"] % 7, y=0.0, z=0.0)
    return MOVES[move](dd.from_pandas(table.sample(frac=1, random_state=0), npartitions=12))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("move", MOVES)
def test_labels_of_a_lazy_table_in_any_order_are_not_taken_for_those_of_rows_in_memory(move, silenced):
    rows = moved(move)
    X = rows[["x"]].compute().to_numpy()
    with pytest.raises((TypeError, ValueError), match=r"dask\.compute"):
        moments = DPMoments(epsilon=1, delta=1e-6, fit_intercept=False).fit(X, groups=rows["who"]).moments_
        assert moments.gram.item() <= 1.0  # all that one person adds; it was 49 to 72


@pytest.mark.filterwarnings("ignore")
def test_scores_of_persons_do_not_take_lazy_labels_in_another_order(silenced):
    rows = moved("shuffle")
    right = rows["x"].compute().to_numpy().astype(int)
    with pytest.raises((TypeError, ValueError), match=r"dask\.compute"):
        assert metrics.dp_accuracy_score(np.ones(2000, int), right, groups=rows["who"]).released[0] <= 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [Normalizer, lambda: make_pipeline(PublicScaler((-1, 1)), Normalizer())])
def test_no_step_before_a_model_of_persons_parts_lazy_rows_from_their_labels(first, silenced):
    """One person added 71 to 477 where 1 was hidden."""
    rows = moved("shuffle")
    ridge = DPRidge(target_bounds=(-1, 1), fit_intercept=False, mechanism="moments", epsilon=1, delta=1e-6)
    model = make_pipeline(first(), ridge)
    with pytest.raises((TypeError, ValueError), match=r"dask\.compute"):
        model.fit(rows[["x", "z"]], rows["y"], dpridge__groups=rows["who"])
        assert model[-1].moments_.gram[0, 0] <= 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model", [DPRidge(target_bounds=(0, 1), delta=1e-6), DPMoments(target_bounds=(0, 1), delta=1e-6)]
)
def test_targets_of_a_shuffle_are_not_taken_for_those_of_rows_in_memory(model):
    rows = moved("shuffle")
    with pytest.raises((TypeError, ValueError), match=r"dask\.compute"):
        model.fit(rows[["x"]].compute().to_numpy(), rows["x"])


def test_lazy_rows_with_lazy_labels_keep_their_weights(silenced):
    """Where both come from one shuffle."""
    rows = moved("shuffle")
    for model in (DPMoments(epsilon=1, delta=1e-6, fit_intercept=False), DPPCA(1, epsilon=1, delta=1e-6)):
        with suppress(ValueError):
            moments = model.fit(rows[["x"]], groups=rows["who"]).moments_
            assert moments.gram.item() <= 1.0


def test_copies_of_rows_of_a_person_change_neither_words_nor_releases():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(30, 3)) * 0.3, rng.uniform(size=30)
    y, labels = np.arange(30) % 2, np.array([f"p{i:02d}" for i in range(30)])

    def found(n_copies):
        rows = np.append(np.arange(30), np.full(n_copies, 7))
        one, groups = X[rows], labels[rows]
        with warnings.catch_warnings(record=True) as heard, reproducible_noise(3):
            warnings.simplefilter("always")
            values = [
                DPMoments().fit(one, groups=groups).moments_.values,
                DPRidge(target_bounds=(0, 1)).fit(one, t[rows], groups=groups).coef_,
                DPSGDClassifier(classes=[0, 1], batch_size=5).fit(one, y[rows], groups=groups).coef_,
                dp_accuracy_score(y[rows], y[rows], groups=groups).released,
            ]
        plan = repr(privacy_report(DPRidge(target_bounds=(0, 1)), one, t[rows], groups=groups))
        return [np.round(value, 9).tolist() for value in values], [str(one.message) for one in heard], plan

    assert found(3) == found(40)


def test_no_sum_over_folds_is_for_persons_where_only_a_fit_by_hand_was():
    """Without routing, GridSearchCV gives groups to the splitter alone: its fits are for rows."""
    from sklearn import config_context
    from sklearn.model_selection import GridSearchCV, GroupKFold

    from skdprp import privacy_report
    from skdprp.guarantee import Unit

    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(-0.5, 0.5, (60, 2)), rng.uniform(size=60), np.arange(60) // 3
    with config_context(enable_metadata_routing=True):
        model = DPRidge(target_bounds=(0, 1), delta=1e-6, mechanism="moments").set_fit_request(groups=True)
    cv = GroupKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(model, {"max_norm": [1.0, 2.0]}, cv=cv).fit(X, y, groups=groups)
    assert privacy_report(search).private is None
    with config_context(enable_metadata_routing=True):
        search.best_estimator_.fit(X, y, groups=groups)
    private = privacy_report(search).private
    assert private is None or private.unit is not Unit.PERSON


@pytest.mark.parametrize(
    "groups",
    [
        np.arange(60) // 3,
        (np.arange(60)[:, None] // 3),
        [2**63 + i // 3 for i in range(60)],
        [-(2**62) - i // 3 for i in range(60)],
        [2**53 + i for i in range(60)],
        np.array([True, 1, 0, False, 2, 3] * 10, dtype=object),
        np.array([np.str_("a"), "a", "b", "a ", "c", "d"] * 10, dtype=object),
        [["é", "e\u0301"][i % 2] + str(i // 6) for i in range(60)],
    ],
    ids=str,
)
def test_a_splitter_parts_no_rows_of_what_is_one_person_here(groups):
    from skdprp._persons import persons_of

    persons = persons_of(groups, 60)
    for cv in (GroupKFold(3, shuffle=True), GroupShuffleSplit(3)):
        for train, held_out in cv.split(np.zeros((60, 1)), None, groups):
            assert not set(persons.codes[train]) & set(persons.codes[held_out])


@pytest.mark.parametrize(
    "model",
    [
        DPRidge(target_bounds=(-1, 1), delta=1e-6),
        DPSGDClassifier(classes=[0, 1], delta=1e-6),
        FixedThresholdClassifier(DPSGDClassifier(classes=[0, 1], delta=1e-6)),
        make_pipeline(DPPCA(2, delta=1e-6), DPRidge(target_bounds=(-1, 1), delta=1e-6)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_no_person_spends_more_in_routed_folds_than_a_report_adds_up(model):
    from sklearn.base import clone

    groups, model = np.arange(200) // 2, clone(model)
    with sklearn.config_context(enable_metadata_routing=True), PrivacyLedger() as ledger:
        owner = model[-1] if hasattr(model, "steps") else getattr(model, "estimator", model)
        for step in {id(one): one for one in (owner, *(dict(getattr(model, "steps", {})).values()))}.values():
            step.set_fit_request(groups=True)
        name = next(name for name in model.get_params() if name.endswith("epsilon"))
        search = GridSearchCV(model, {name: [1.0, 2.0]}, cv=GroupKFold(3, shuffle=True, random_state=0))
        search.fit(X200_UNIFORM, Y200_UNIFORM, groups=groups)
        spent = np.zeros(200)
        folds = list(GroupKFold(3, shuffle=True, random_state=0).split(X200_UNIFORM, Y200_UNIFORM, groups))
        of_fits = np.reshape([one.guarantee.epsilon for one in ledger.entries], (7, -1)).sum(axis=1)
        for place, epsilon in enumerate(of_fits[:-1]):
            spent[folds[place % 3][0]] += epsilon
        private = privacy_report(search, ledger=ledger).private
    assert private.unit.startswith("one person")
    assert (spent + of_fits[-1]).max() <= private.epsilon * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore")
def test_no_error_of_a_fit_for_persons_tells_how_many_rows_there_are():
    """Of rows, labels and persons of which one is shorter, in any container."""
    n, m = 1237, 1231
    X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(n, 3))
    y, groups = (X[:, 0] > 0).astype(int), np.arange(n) // 3
    descent = DPSGDClassifier(classes=[0, 1], delta=1e-3, n_epochs=1)
    ridge = DPRidge(target_bounds=(0, 1), delta=1e-3)
    forms = np.asarray, np.ndarray.tolist, lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a)
    for to, sizes in itertools.product(forms, ((n, m, n), (n, n, m), (m, n, n))):
        given = [to(one[:size]) for one, size in zip((X, y, groups), sizes, strict=True)]
        calls = [
            *(lambda given, model=model: model.fit(*given[:2], groups=given[2]) for model in (descent, ridge)),
            lambda given: DPMoments(target_bounds=(0, 1)).fit_chunks([tuple(given)]),
            lambda given: dp_accuracy_score(given[1], y, groups=given[2]),
        ]
        for call in calls:
            try:
                call(given)
            except Exception as error:
                while error is not None:
                    assert not any(number in str(error) for number in ("1237", "1231", "1,237", "1,231"))
                    error = error.__cause__ or error.__context__


def _some_rows(rng, n, d, max_norm, bounds):
    """Rows and targets of one person, far beyond their bounds at times, and all alike at times."""
    X = rng.normal(size=(n, d)) * max_norm * rng.choice([0.1, 1, 1e6])
    if rng.random() < 0.4:
        X = rng.choice([0, 1e-300, 1e300, max_norm, -max_norm], (n, d))
    y = np.column_stack([rng.choice([low, high, high * 3 + 1e30, low * 3 - 1e30], n) for low, high in bounds])
    return (X[:1].repeat(n, axis=0), y[:1].repeat(n, axis=0)) if rng.random() < 0.5 else (X, y)


@pytest.mark.parametrize("seed", range(2))
def test_no_person_moves_moments_in_any_units_by_more_than_their_noise_is_for(seed):
    """Exact sums before the noise, of persons with one row or hundreds, beside norms and bounds of any size."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        d, max_norm = int(rng.integers(1, 7)), float(rng.choice([1.0, 1e-49, 1e49, 3.0]))
        bounds = [sorted(rng.normal(size=2) * 10.0 ** rng.uniform(-20, 20)) for _ in range(rng.integers(1, 3))]
        model = DPMoments(max_norm=max_norm, target_bounds=bounds, delta=1e-6, fit_intercept=bool(rng.integers(2)))
        sizes = rng.integers(1, int(rng.choice([2, 300])), 4)
        parts = [_some_rows(rng, n, d, max_norm, bounds) for n in sizes]
        other = [_some_rows(rng, int(rng.choice([1, 200])), d, max_norm, bounds), *parts[1:]]
        sums = []
        for table in (parts, other):
            X, y = (np.vstack(columns) for columns in zip(*table, strict=True))
            order, persons = rng.permutation(len(X)), np.repeat(np.arange(4), [len(rows) for rows, _ in table])
            fitted = snapshot(model)
            number, columns, total, unit, _ = fitted._sum(iter([(X[order], y[order], persons[order])]))
            sums.append(total)
        calibration = fitted._calibrate(number, columns, unit)
        moved = np.linalg.norm(sums[0] - sums[1])
        assert moved <= calibration.fitted["scale_"] * calibration.guarantee.loss.mu
