"""Persons with several rows: labels and weights, what a person may move, and what is never told of the rows."""

import enum
import json
import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import skdprp
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
    DPSignOPORP,
    MIDPRegressor,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    _noise,
    _persons,
    add_moments,
    audit_epsilon,
    compose,
    load_moments,
    make_table_preprocessor,
    privacy_report,
    save_moments,
    set_budget,
)
from skdprp._adjacency import Unit
from skdprp._persons import persons_in_parts, persons_of, roots, shares
from skdprp._sums import CompensatedSum
from skdprp.guarantee import Adjacency, PrivacyWarning
from skdprp.ledger import LedgerError, entry
from skdprp.mechanisms import Published, gaussian_profile
from skdprp.moments import rounding_of_moments
from skdprp.neural_network import _steps
from skdprp.neural_network._network import Network, add_clipped_gradients, add_gradients
from skdprp.neural_network._plan import bounded_margin, float64_margin
from skdprp.neural_network._preconditioner import relative_scales
from skdprp.testing import check_private_estimator, reproducible_noise

PERSON = "one person (all of its rows)"
BOUNDS = (-1, 1)


def table(n_persons=200, seed=0, d=4, most=6):
    """Rows, labels, targets and groups of persons with 1 to `most` rows, in no order."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n_persons), rng.integers(1, most + 1, n_persons)))
    X = rng.standard_normal((len(groups), d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] > 0).astype(int), np.clip(X[:, 0], -1, 1), groups


FITS = {
    "descent": (DPSGDClassifier(classes=[0, 1]), 1),
    "three classes": (DPSGDClassifier(classes=[0, 1, 2]), 1),
    "preconditioned": (DPSGDClassifier(classes=[0, 1], preconditioner=True, class_weight={0: 0.5}), 1),
    "clipped": (DPSGDClassifier(classes=[0, 1], max_norm=None, n_epochs=5), 1),
    "network": (DPSGDClassifier(classes=[0, 1], hidden_layer_sizes=(3,), batch_size=None, n_epochs=3), 1),
    "product": (DPSGDClassifier(classes=[0, 1], noise="product", n_epochs=3), 1),
    "moments": (DPMoments(target_bounds=BOUNDS), 2),
    "ridge": (DPRidge(target_bounds=BOUNDS), 2),
    "ridge on moments": (DPRidge(target_bounds=BOUNDS, mechanism="moments", adjacency="add_remove"), 2),
    "components": (DPPCA(2), 2),
}


def released(model):
    """All that a fit released, as one vector."""
    parts = [model.coefs_, model.intercepts_] if hasattr(model, "coefs_") else []
    parts += [[model.moments_.values]] if hasattr(model, "moments_") else []
    parts += [[model.coef_, model.intercept_]] if hasattr(model, "coef_") else []
    return np.concatenate([np.ravel(array) for part in parts for array in part])


# Weights and labels


@pytest.mark.parametrize("m", [*range(1, 300), 10**6, 2**31 - 1, 2**40 + 1])
def test_weights_of_a_person_add_up_to_one_at_most(m):
    [weight] = shares(np.array([m]))
    [root] = roots(np.array([weight]))
    assert 1 - Fraction(2) ** -51 < m * Fraction(float(weight)) <= 1
    assert 1 - Fraction(2) ** -49 < m * Fraction(float(root)) ** 2 <= m * Fraction(float(weight))
    assert m != 1 or weight == root == 1


def test_a_weight_to_the_nearest_float_would_add_up_to_more():
    assert any(m * Fraction(1.0 / m) > 1 for m in range(1, 100))


LABELS = {
    "numbers": np.array([3, 1, 3, 2]),
    "text": np.array(["b", "a", "b", "c"]),
    "list": ["b", "a", "b", "c"],
    "mixed": [3, True, np.uint8(3), np.int64(2)],
    "other byte order": np.array([2**63 + 3, 1, 2**63 + 3, 2], dtype=">u8"),
    "column": np.array([[3], [1], [3], [2]]),
    "nullable": pd.Series([3, 1, 3, 2], dtype="Int64", index=[7, 7, 8, 9]),
    "strings": pd.Series(["b", "a", "b", "c"], dtype="string"),
    "objects": pd.Series(["b", "a", "b", "c"], dtype=object),
    "categories": pd.Series(["b", "a", "b", "c"], dtype="category"),
    "frame": pd.DataFrame({"person": [3, 1, 3, 2]}),
    "large": np.array([2**64 - 1, 0, 2**64 - 1, 2**64 - 2], dtype=np.uint64),
    "polars": pl.Series(["b", "a", "b", "c"]),
    "frame of polars": pl.DataFrame({"person": [3, 1, 3, 2]}),
    "arrow": pa.chunked_array([["b", "a"], ["b", "c"]]),
    "scalars of arrow": list(pa.array([3, 1, 3, 2])),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_kind_say_which_rows_belong_together(name):
    persons = persons_of(LABELS[name], 4)
    assert persons.number == 3 and len(set(persons.labels)) == 3
    assert persons.codes[0] == persons.codes[2] and len(set(persons.codes.tolist())) == 3
    assert persons.weights.tolist() == [np.nextafter(0.5, 0), 1.0, np.nextafter(0.5, 0), 1.0]


TIMES = pd.to_datetime(["2020-01-01", "2021-01-01", "2020-01-01"])
NO_LABELS = {
    "times": TIMES,
    "times of numpy": TIMES.to_numpy(),
    "times of polars": pl.Series(TIMES),
    "times of arrow": pa.array(TIMES),
    "dates": [one.date() for one in TIMES],
    "ticks": list(TIMES.to_numpy() - TIMES.to_numpy()[0]),
    "pairs": [("x", 1), ("y", 2), ("x", 1)],
    "index of pairs": pd.MultiIndex.from_tuples([("x", 1), ("y", 2), ("x", 1)]),
    "bytes": np.array([b"b", b"a", b"b"]),
    "decimals": [Decimal(3), Decimal(1), Decimal(3)],
    "complex": np.array([3j, 1j, 3j]),
    "masked times": np.ma.array(TIMES.to_numpy()),
    "enumerated text": [*enum.Enum("Patient", {"A": "a", "B": "b", "C": "c"}, type=str)],
    "lists": [["secret"], ["secret"], ["other"]],
}


@pytest.mark.parametrize("name", NO_LABELS)
def test_labels_are_whole_numbers_or_text(name):
    """Of others, two of one person may not be equal: a date and a time, 7 and "7" in pairs, bytes that end in zeros."""
    with pytest.raises((TypeError, ValueError), match="neither whole numbers nor text") as error:
        persons_of(NO_LABELS[name], 3)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([7, "7", 8], "text beside other labels"),
        ([0.5, 0.5, 1.0], "no weights"),
        ([3.0, 1.0, 3.0], "may be rounded"),
        (["a", "a\0", "b"], "ends in a zero character"),
        ([2**60, 2**60 + 1, 1.0], "may be rounded"),  # an array of them has floats
        ([2**63, -1, 2**63 + 1], "would round together"),
        ([2**64, 2**64 + 1, 1], "would round together"),
    ],
)
def test_labels_that_others_may_read_as_those_of_another_person_are_refused(labels, reason):
    for cells in (labels, np.array(labels, dtype=object), pd.Series(labels, dtype=object)):
        with pytest.raises(ValueError, match=reason):
            persons_of(cells, 3)


@pytest.mark.parametrize(
    "labels",
    [
        ["secret", None, "secret"],
        [1.0, math.nan, 1.0],
        np.array([77.0, np.nan, 1.0]),
        pd.Series([77, None, 1], dtype="Int64"),
        pd.Series(["secret", None, "a"], dtype="string"),
        pl.Series([77, None, 77]),
        pa.array(["secret", None, "a"]),
        np.ma.masked_array([77, 1, 2], mask=[False, True, False]),
    ],
)
def test_missing_labels_are_refused_without_a_word_of_the_others(labels):
    with pytest.raises(ValueError, match="missing") as error:
        persons_of(labels, 3)
    assert "secret" not in str(error.value) and "77" not in str(error.value)


@pytest.mark.parametrize("labels", [["secret"], ["secret"] * 4, np.zeros((3, 2)), "secret", 5, sp.csr_array((3, 1))])
def test_labels_of_another_length_are_refused_without_their_number(labels):
    with pytest.raises(ValueError, match="one label for each row of X") as error:
        persons_of(labels, 3)
    assert not set("0123456789") & set(str(error.value))


def test_more_rows_than_rounding_is_priced_for_are_refused(monkeypatch):
    monkeypatch.setattr(_persons, "MOST_ROWS", 4)
    assert persons_of([1, 1, 2], 3).number == 2
    with pytest.raises(ValueError, match="more rows than rounding is priced for"):
        persons_of([1, 1, 2, 2], 4)


def test_persons_in_several_parts_have_all_of_their_rows_counted():
    persons, weights = persons_in_parts([np.array(["a", "b"]), np.array([], dtype="U1"), ["b", "long name"]])
    assert persons.number == 3
    half = np.nextafter(0.5, 0)
    assert [part.tolist() for part in weights] == [[1.0, half], [], [half, 1.0]]


# The lemma: a person moves a sum no further than a row


def contribution(rows, function):
    """Mean of what rows add, as fits compute it."""
    [share] = shares(np.array([len(rows)]))
    return sum(share * function(row) for row in rows)


def moments_of_row(row):
    return np.outer(row, row)


def gradients_of_row(row):
    """Products and clipped gradients at several weights, over their scales: all that a descent releases of a row."""
    gram, step = relative_scales("replace_one", 3)
    u, label = row[:-1], np.sign(row[-1] or 1.0)
    weights = np.array([[0.0, 0.0], [3.0, -1.0], [-20.0, 5.0]])
    derivatives = np.tanh(weights @ u - label).clip(-1, 1)
    return np.concatenate([np.outer(u, u).ravel() / gram, (derivatives[:, None] * u / step).ravel()])


ROW = st.tuples(*[st.floats(-1, 1)] * 3).map(lambda row: np.array(row) / max(1.0, np.linalg.norm(row)))
PERSONS = st.lists(ROW, min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("function", "furthest"),
    [(moments_of_row, math.sqrt(2)), (gradients_of_row, 1.0), (lambda row: row, 2.0)],
    ids=["moments", "descent", "gradients"],
)
@given(one=PERSONS, other=PERSONS)
def test_two_persons_are_no_further_apart_than_two_of_their_rows(function, furthest, one, other):
    between = [contribution(rows, function) for rows in (one, other)]
    moved = np.linalg.norm(between[0] - between[1])
    points = [*(function(row) for row in one), *(function(row) for row in other), np.zeros_like(between[0])]
    assert moved <= max(np.linalg.norm(a - b) for a in points for b in points) * (1 + 1e-12)
    assert moved <= furthest * (1 + 1e-9)
    # In l1, too: it is a fact of norms.
    assert np.abs(between[0] - between[1]).sum() <= max(np.abs(a - b).sum() for a in points for b in points) + 1e-12


def test_persons_who_count_for_each_row_would_be_further_apart():
    """Positive control: what weights are for."""
    a, b = [np.array([1.0, 0.0])] * 3, [np.array([0.0, 1.0])]
    assert np.linalg.norm(sum(map(moments_of_row, a)) - sum(map(moments_of_row, b))) > 2 * math.sqrt(2)


def test_the_sum_of_moments_is_the_sum_of_the_means_of_persons():
    X, _, y, groups = table()
    model = DPMoments(target_bounds=BOUNDS)
    number, columns, sums, unit, _ = clone(model)._sum([(X, y, groups)])
    assert (number, unit) == (200, Unit.PERSON)
    clipped, others = columns.clip(X, y)
    u = np.hstack([clipped, others]) * columns.weights
    exact = np.zeros_like(sums)
    for person in range(200):
        mine = u[groups == person]
        exact += mine.T @ mine / len(mine)
    assert np.linalg.norm(sums - exact) <= rounding_of_moments(200, columns) < 1e-8
    assert np.allclose(clone(model).fit(X, y, groups=groups).moments_.n_samples, 200)


def test_a_replaced_person_moves_the_sums_as_far_as_the_noise_is_for_and_no_further():
    """Attained by persons of one or many rows at a right angle, whatever their numbers of rows are."""
    X, _, _, groups = table()
    for n_a, n_b in ((1, 1), (5, 1), (3, 40)):
        sums = []
        for axis, count in ((0, n_a), (1, n_b)):
            row = np.eye(4)[[axis]]
            data = np.vstack([X, np.repeat(row, count, axis=0)]), None, np.append(groups, [200] * count)
            sums.append(DPMoments(fit_intercept=False)._sum([data])[2])
        assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(math.sqrt(2), rel=1e-9)


# Nothing tells of the number of rows


@pytest.mark.parametrize("name", FITS)
def test_what_is_planned_and_stated_depends_on_the_number_of_persons_alone(name, silenced_noise):
    model, target = FITS[name]
    data = table()
    X, y, groups = data[0], data[target], data[3]
    if name == "three classes":
        y = groups % 3
    rng = np.random.default_rng(1)
    copies = rng.permutation(np.repeat(np.arange(len(X)), np.repeat(7, 200)[groups]))  # each row of a person 7 times
    once, often = (clone(model).fit(X[rows], y[rows], groups=groups[rows]) for rows in (np.arange(len(X)), copies))
    public = (
        "scale_",
        "delta_",
        "guarantee_",
        "n_iter_",
        "learning_rate_",
        "momentum_",
        "sampling_rate_",
        "mechanism_",
    )
    for fact in (*public, "preconditioner_scale_", "noise_multiplier_"):
        assert getattr(once, fact, None) == getattr(often, fact, None), fact
    assert once.guarantee_.delta == 1 / 200**2
    assert np.allclose(released(once), released(often), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FITS)
def test_persons_of_one_row_are_rows(name, seeded):
    model, target = FITS[name]
    data = table(most=1)
    X, y = data[0], data[target]
    if name == "three classes":
        y = np.arange(200) % 3
    fits = []
    for known in ({}, {"groups": data[3]}):
        with reproducible_noise(0):
            fits.append(clone(model).fit(X, y, **known))
    assert np.allclose(released(fits[0]), released(fits[1]), rtol=1e-6, atol=1e-6)
    assert fits[0].guarantee_.unit == "one row" and fits[1].guarantee_.unit == PERSON
    assert fits[0].scale_ == pytest.approx(fits[1].scale_, rel=1e-6)


@pytest.mark.parametrize("name", FITS)
def test_the_order_of_rows_and_the_names_of_persons_do_not_matter(name, silenced_noise):
    model, target = FITS[name]
    data = table()
    X, y, groups = data[0], data[target], data[3]
    if name == "three classes":
        y = groups % 3
    order = np.random.default_rng(2).permutation(len(X))
    names = np.array([f"person {(7 * i) % 200}" for i in range(200)], dtype=object)
    a, b = clone(model).fit(X, y, groups=groups), clone(model).fit(X[order], y[order], groups=names[groups[order]])
    assert np.allclose(released(a), released(b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FITS)
def test_no_label_is_kept(name):
    model, target = FITS[name]
    data = table()
    labels = np.array([f"patient-{i:05d}" for i in range(200)])[data[3]]
    y = data[3] % 3 if name == "three classes" else data[target]
    fitted = clone(model).fit(data[0], y, labels)
    assert b"patient" not in pickle.dumps(fitted) and "patient" not in repr(vars(fitted)) + str(fitted.guarantee_)
    assert not any(len(labels) in np.shape(value) for value in vars(fitted).values() if isinstance(value, np.ndarray))
    assert pickle.loads(pickle.dumps(fitted)).guarantee_ == fitted.guarantee_
    assert not hasattr(clone(fitted), "guarantee_")


def test_rounding_does_not_grow_with_the_number_of_rows_of_a_person():
    """On both sides: a plain sum of so many blocks is further off than what is priced."""
    rng = np.random.default_rng(0)
    terms = rng.uniform(0.5, 1.0, 30_000) / 30_000
    exact, plain, compensated = math.fsum(terms), 0.0, CompensatedSum()
    for term in terms.tolist():
        plain += term
        compensated.add(term)
    assert abs(compensated.value - exact) <= 2.0**-52 < abs(plain - exact)
    network = Network((4, 1), "relu", 0.3, capped=True)
    for margin in (bounded_margin(network, 100, of_persons=True), float64_margin(network, 100, 100, of_persons=True)):
        assert 0 < margin < 2.0**-20


@pytest.mark.parametrize("of_persons", [False, True])
def test_sums_of_gradients_of_persons_are_as_exact_as_priced(of_persons):
    rng = np.random.default_rng(0)
    n, n_persons = 20_000, 50
    X = rng.standard_normal((n, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    codes, persons = rng.integers(0, 2, n), persons_of(rng.integers(0, n_persons, n), n)
    network, weights = Network((4, 1), "relu", 0.3, capped=True), rng.standard_normal(5) * 50
    unit = Unit.PERSON if of_persons else Unit.ROW
    share = persons.weights if of_persons else np.ones(n)
    parts = _steps.bounded_blocks(X, codes, share, n_scores=1)
    found = _steps._sum_up(lambda total, block: add_gradients(total, network, weights, block), parts, 5, unit)
    scores = [math.fsum([*(x * w for x, w in zip(row, weights[:4], strict=True)), 0.3 * weights[4]]) for row in X]
    change = network.loss_gradient(codes, np.array(scores)[:, None])[:, 0] * share
    exact = [math.fsum(change * column) for column in (*X.T, np.full(n, 0.3))]
    number = n_persons if of_persons else n
    bound = network.lipschitz * math.hypot(1, 0.3)
    assert np.linalg.norm(found - exact) <= bound * bounded_margin(network, number, of_persons=of_persons) / 2


def test_sums_of_clipped_gradients_of_persons_are_as_exact_as_priced():
    rng = np.random.default_rng(0)
    n, n_persons, bound = 2000, 20, 0.5
    X, codes, persons = rng.standard_normal((n, 3)), rng.integers(0, 2, n), persons_of(rng.integers(0, n_persons, n), n)
    network = Network((3, 2, 1), "tanh", 1.0)
    weights = rng.standard_normal(network.n_weights)

    def summed(unit, shares, rows=np.s_[:]):
        add = partial(add_clipped_gradients, network=network, weights=weights, bound=bound)
        blocks = _steps.padded_blocks(X[rows], codes[rows], 32, row_weights=shares[rows])
        return _steps._sum_up(add, list(blocks), len(weights), unit)

    # The gradient of each row, in its block: all other blocks would add zeros.
    blocks = [np.s_[i // 32 * 32 : i // 32 * 32 + 32] for i in range(n)]
    rows = [summed(Unit.ROW, 1.0 * (np.arange(n) == i), block) for i, block in enumerate(blocks)]
    exact = [math.fsum(column) for column in np.transpose(rows * persons.weights[:, None])]
    found = summed(Unit.PERSON, persons.weights)
    assert 0 < np.linalg.norm(found - exact) <= bound * float64_margin(network, n_persons, 32, of_persons=True) / 2


# Samples are of persons


def test_a_batch_has_all_rows_of_a_person_or_none():
    X, y, _, groups = table(50)
    persons, seen = persons_of(groups, len(X)), np.zeros(50)
    rows_of = SimpleNamespace(X=np.arange(len(X))[:, None].astype(float))
    n_steps = 4000
    for batch in _steps.batches(rows_of.X, y, persons.weights, rate=0.3, n_steps=n_steps, persons=persons):
        rows = np.concatenate([block.X[: block.n_rows, 0] for block in batch] or [[]]).astype(int)
        drawn, counts = np.unique(persons.codes[rows], return_counts=True)
        assert (counts == persons.counts[drawn]).all() and len(set(rows.tolist())) == len(rows)
        seen[drawn] += 1
    # Of binomial counts, off by 7 standard deviations less than once in 10^10 times.
    assert (np.abs(seen - 0.3 * n_steps) < 7 * math.sqrt(0.21 * n_steps)).all()


def test_batches_of_persons_are_accounted_for_by_their_number():
    X, y, _, groups = table(300)
    pytest.importorskip("dp_accounting")
    options = {"hidden_layer_sizes": (3,), "batch_size": 60, "n_epochs": 2, "delta": 1e-5, "classes": [0, 1]}
    of_persons = DPSGDClassifier(**options).fit(X.astype(np.float32), y, groups=groups)
    of_rows = DPSGDClassifier(**options).fit(X[:300], y[:300])
    assert of_persons.sampling_rate_ == of_rows.sampling_rate_ == 0.2
    assert of_persons.scale_ == pytest.approx(of_rows.scale_, rel=1e-6)
    assert "each person at probability" in of_persons.guarantee_.mechanism


# Data in every form


def test_moments_of_chunks_partitions_and_formats_are_the_same(tmp_path, silenced_noise):
    X, _, y, groups = table()
    order = np.argsort(groups, kind="stable")
    X, y, groups = X[order], y[order], groups[order]
    model, cut = DPMoments(target_bounds=BOUNDS), int(np.flatnonzero(groups == 90)[0])
    whole = clone(model).fit(X, y, groups=groups).moments_
    stored = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    stored[:] = X
    others = {
        "sparse": clone(model).fit(sp.csr_array(X), y, groups=groups.tolist()),
        "frame": clone(model).fit(pd.DataFrame(X), pd.Series(y), groups=pd.Series(groups, dtype="Int64")),
        "float32": clone(model).fit(X.astype(np.float32).astype(np.float64), y, groups=groups),
        "memmap": clone(model).fit(stored, y, groups=groups),
        "chunks": clone(model).fit_chunks((X[part], y[part], groups[part]) for part in (slice(cut), slice(cut, None))),
        "no targets": clone(model).set_params(target_bounds=None).fit_chunks([(X, None, groups)]),
    }
    for name, fitted in others.items():
        size = len(fitted.moments_.values)
        expected = DPMoments().fit(X, groups=groups).moments_.values if name == "no targets" else whole.values
        assert np.allclose(fitted.moments_.values, expected, atol=1e-4 if name == "float32" else 1e-9), (name, size)
        assert fitted.guarantee_.unit == PERSON and fitted.moments_.n_samples == 200


def test_lazy_rows_of_a_person_may_be_in_many_partitions(silenced_noise):
    da = pytest.importorskip("dask.array")
    X, _, y, groups = table()
    lazy = [da.from_array(array, chunks=(100, *array.shape[1:])) for array in (X, y, groups)]
    model = DPMoments(target_bounds=BOUNDS)
    whole, parts = clone(model).fit(X, y, groups=groups).moments_, clone(model).fit(*lazy).moments_
    assert np.allclose(whole.values, parts.values, atol=1e-9) and parts.n_samples == 200
    with pytest.raises(TypeError, match="groups is not"):
        clone(model).fit(*lazy[:2], groups=groups)
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, person=[f"p{i}" for i in groups])
    frame = dd.from_pandas(frame, npartitions=3)
    fitted = clone(model).fit(frame[list("abcd")], frame["y"], frame["person"])
    assert np.allclose(whole.values, fitted.moments_.values, atol=1e-9)
    assert fitted.moments_.n_samples == 200


def test_a_person_in_two_chunks_is_refused_and_so_are_chunks_of_both_kinds():
    X, _, _, groups = table()
    with pytest.raises(ValueError, match="rows in two chunks"):
        DPMoments().fit_chunks([(X, None, groups), (X[:3], None, groups[:3])])
    with pytest.raises(ValueError, match="others have none"):
        DPMoments().fit_chunks([(X, None, groups), X])


@pytest.mark.parametrize("name", ["descent", "clipped", "ridge"])
def test_descents_take_rows_in_every_form(name, silenced_noise):
    model, target = FITS[name]
    data = table()
    X, y, groups = data[0], data[target], data[3]
    dense = released(clone(model).fit(X, y, groups=groups))
    for rows, labels in (
        (sp.csr_array(X), list(map(str, groups))),
        (pd.DataFrame(X), pd.Series(groups, dtype="Int64")),
    ):
        assert np.allclose(released(clone(model).fit(rows, y, labels)), dense, atol=1e-6)
    assert np.allclose(released(clone(model).fit(X.astype(np.float32), y, groups=groups)), dense, atol=1e-2)


# Guarantees, ledgers, reports


def of_unit(unit, relation="replace_one", epsilon=1.0):
    return PrivacyGuarantee(epsilon, 0.0, unit=unit, adjacency=Adjacency(relation))


def test_a_guarantee_says_whose_it_is():
    guarantee = DPMoments(epsilon=2.0, delta=1e-6).fit(np.eye(3), groups=[1, 1, 2]).guarantee_
    assert repr(guarantee) == "(2.0, 1e-06)-DP, one person replaced"
    assert "all rows of one person" in str(guarantee) and PERSON in str(guarantee)
    assert "the number of persons is public" in str(guarantee)
    assert "one person blank or not" in repr(of_unit(PERSON, "add_remove"))
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
    with pytest.raises(ValueError, match="Persons are replaced, or blank"):
        PrivacyGuarantee(1.0, 0.0, unit=PERSON, adjacency=Adjacency("l1", 1.0))


def test_a_total_is_for_persons_only_if_each_release_is():
    assert compose(of_unit(PERSON), of_unit(PERSON)).unit == PERSON
    assert compose(of_unit(PERSON), of_unit("one row")).unit == "one row"
    assert compose(of_unit("one row"), of_unit(PERSON)).unit == "one row"
    assert compose(of_unit("one row"), of_unit(PERSON), disjoint=True).unit == "one row"
    sketch = PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("l1", 1.0))
    total = compose(of_unit(PERSON), sketch)
    assert (total.unit, total.adjacency) == ("one row", Adjacency("l1", 1.0))


@pytest.mark.parametrize("other", ["one row", "one entry of X"])
def test_a_person_that_may_be_blank_covers_no_row_that_may_be(other):
    with pytest.raises(ValueError, match="Give groups to all fits, or to none"):
        compose(of_unit(PERSON, "add_remove"), of_unit(other, "add_remove"))


def test_a_ledger_has_a_total_for_persons_only_if_each_release_is_for_them():
    X, y, _, groups = table()
    model = DPSGDClassifier(classes=[0, 1], n_epochs=3)
    with PrivacyLedger() as ledger:
        clone(model).fit(X, y, groups=groups)
        [total] = ledger.total()
        assert total.guarantee.unit == PERSON and "all rows of one person" in repr(total.facts())
        assert "each release contains a person of the data set at most once" in repr(ledger)
        with ledger.part("some"):  # a person may have rows in two parts
            clone(model).fit(X, y, groups=groups)
        with ledger.part("others"):
            clone(model).fit(X, y, groups=groups)
        assert ledger.total()[0].guarantee.n_releases == 3
        clone(model).fit(X, y)
        totals = {total.neighbours: total.guarantee for total in ledger.total()}
    by_unit = {guarantee.unit for guarantee in totals.values() if guarantee is not None}
    assert len(totals) == 2 and by_unit == {"one row"} and None in totals.values()


def test_a_limit_for_rows_counts_releases_for_persons_and_says_nothing_of_these():
    X, y, _, groups = table()
    model = DPSGDClassifier(classes=[0, 1], n_epochs=3, epsilon=0.4, delta=1e-6)
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-5, composition="gaussian")
        for _ in range(3):
            clone(model).fit(X, y, groups=groups)
        with pytest.raises(LedgerError, match="would pass the limit"):
            for _ in range(30):
                clone(model).fit(X, y, groups=groups)
        [total] = ledger.total()
    assert total.adaptive.unit == PERSON and total.adaptive.mechanism != "the limit"


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
def test_a_limit_for_persons_refuses_releases_for_rows_and_takes_no_parts_of_rows_for_disjoint(composition, tmp_path):
    X, y, _, groups = table()
    model = DPSGDClassifier(classes=[0, 1], n_epochs=3, epsilon=0.4, delta=1e-6)
    ledger = PrivacyLedger(tmp_path / "ledger.jsonl")
    with ledger:
        ledger.limit(1.0, 1e-5, unit="person", composition=composition)
        with pytest.raises(LedgerError, match="says nothing of the neighbours"):
            clone(model).fit(X, y)
        with pytest.raises(LedgerError, match="would pass the limit"):
            for part in range(30):
                with ledger.part(str(part)):
                    clone(model).fit(X, y, groups=groups)
    with ledger:
        ledger.limit(1.0, 1e-5, unit="person", composition=composition)  # the same again, as it was read
        with pytest.raises(LedgerError, match="A limit is fixed once"):
            ledger.limit(1.0, 1e-5, composition=composition)
        [total] = ledger.total()
        assert total.adaptive.unit == PERSON and len(ledger.entries) >= 2
        assert (total.adaptive.mechanism == "the limit") == (composition == "gaussian")
        with pytest.raises(ValueError, match="unit is"):
            ledger.limit(1.0, delta=0.0, unit="one row")


def test_a_report_is_for_persons_only_if_each_step_is():
    X, y, _, groups = table()
    with config_context(enable_metadata_routing=True):
        descent = DPSGDClassifier(classes=[0, 1], n_epochs=3).set_fit_request(groups=True)
        alone = make_pipeline(Normalizer(), clone(descent)).fit(X, y, groups=groups)
        both = make_pipeline(DPPCA(2).set_fit_request(groups=True), clone(descent)).fit(X, y, groups=groups)
        mixed = make_pipeline(DPPCA(2).set_fit_request(groups=False), clone(descent)).fit(X, y, groups=groups)
        scaled = make_pipeline(DPScaler(bounds=(-1, 1)), clone(descent)).fit(X, y, groups=groups)
    for model, unit in ((alone, PERSON), (both, PERSON), (mixed, "one row"), (scaled, "one row")):
        report = privacy_report(model)
        total = report.total
        assert total.unit == unit and f"one {unit.split()[1]} replaced" in repr(total)
        assert re.search(
            rf"neighbours +data sets that differ in {'all rows of one person' * (unit == PERSON)}", repr(report)
        )
    with pytest.raises(TypeError):  # nobody asked for groups
        make_pipeline(Normalizer(), DPSGDClassifier()).fit(
            X, y, dpsgdclassifier__groups=groups, normalizer__groups=groups
        )
    legacy = make_pipeline(Normalizer(), DPSGDClassifier(classes=[0, 1], n_epochs=3))
    assert privacy_report(legacy.fit(X, y, dpsgdclassifier__groups=groups)).total.unit == PERSON


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_folds_have_a_total_for_persons_where_all_of_their_rows_move_together(delta):
    X, y, _, groups = table()
    with config_context(enable_metadata_routing=True):
        model = DPSGDClassifier(classes=[0, 1], n_epochs=3, delta=delta).set_fit_request(groups=True)

    def report_on(cv, **known):
        with config_context(enable_metadata_routing=True):
            return privacy_report(GridSearchCV(model, {"max_norm": [1.0, 0.5]}, cv=cv).fit(X, y, **known))

    good = report_on(GroupKFold(4, shuffle=True, random_state=0), groups=groups)
    if delta is None:  # a splitter may take several persons for one, so that a fold has fewer than are left out
        assert good.private is None and "give delta" in repr(good)
    else:
        assert good.private.unit == PERSON and good.private.n_releases == 2 * 3 + 1
        assert good.private.epsilon <= 7.0 and good.private.delta == pytest.approx(7e-6)
    for cv in (KFold(4), GroupKFold(4)):
        none = report_on(cv, groups=groups)
        assert none.private is None and "set cv=GroupKFold(4, shuffle=True)" in repr(none)
    of_rows = report_on(KFold(4))
    assert of_rows.private.unit == "one row"
    assert report_on(GroupShuffleSplit(3), groups=groups).private is None or delta is not None


def test_moments_of_persons_stay_those_of_persons(tmp_path):
    X, _, y, groups = table()
    moments = DPMoments(target_bounds=BOUNDS, delta=1e-6).fit(X, y, groups=groups).moments_
    save_moments(tmp_path / "moments.npz", moments)
    loaded = load_moments(tmp_path / "moments.npz")
    assert loaded == moments and loaded.guarantee.unit == PERSON and "200 persons" in repr(loaded)
    assert DPRidge(target_bounds=BOUNDS).fit_moments(loaded).guarantee_.unit == PERSON
    others = DPMoments(target_bounds=BOUNDS, delta=1e-6).fit(X, y, groups=groups).moments_
    assert add_moments(others, loaded, disjoint=True).guarantee.unit == PERSON
    with pytest.raises(ValueError, match="not added to those of persons"):
        add_moments(moments, DPMoments(target_bounds=BOUNDS).fit(X, y).moments_)


@pytest.mark.parametrize(
    "model",
    [
        AMPClassifier(),
        ProductNoiseOutputPerturbation(),
        DPSearchCV(DPSGDClassifier(classes=[0, 1]), {"max_norm": [1.0]}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_mechanisms_that_hide_one_row_refuse_groups(model):
    X, y, _, groups = table()
    with PrivacyLedger() as ledger, pytest.raises(TypeError, match="takes no groups"):
        model.fit(X, y, groups=groups)
    assert not ledger.entries


PRIVATE = {name: getattr(skdprp, name) for name in skdprp.__all__}
PRIVATE = {name: kind for name, kind in PRIVATE.items() if "epsilon" in getattr(kind, "_parameter_constraints", ())}


@pytest.mark.parametrize("name", sorted(PRIVATE.keys() - {"DPMoments", "DPPCA", "DPRidge", "DPSGDClassifier"}))
def test_all_others_refuse_groups(name):
    X, y, _, groups = table()
    options = {"estimator": AMPClassifier(), "param_grid": {}} if name == "DPSearchCV" else {}
    with PrivacyLedger() as ledger, pytest.raises(TypeError, match="groups"):
        PRIVATE[name](**options).fit(X, y, groups=groups)
    assert not ledger.entries


def test_units_compose_where_one_includes_the_other():
    """A person and a row of it, a row and a change within it, and of changes the narrower one."""
    X, y, _, groups = table()
    person, row = DPMoments(delta=1e-6).fit(X, groups=groups), DPMoments(delta=1e-6).fit(X)
    assert compose(person.guarantee_, row.guarantee_).unit == "one row"
    spread, coordinate = DPOPORP(4, delta=1e-6).fit(X), DPSignOPORP(4).fit(X)
    for wider, narrower in ((person, spread), (row, spread), (row, coordinate), (spread, coordinate)):
        total = compose(wider.guarantee_, narrower.guarantee_)
        assert (total.unit, total.adjacency) == ("one row", narrower.guarantee_.adjacency)
    blank = DPMoments(delta=1e-6, adjacency="add_remove").fit(X)
    entry = MIDPRegressor().fit(X, y)
    for other in (blank, entry):
        with pytest.raises(ValueError, match="do not compose"):
            compose(row.guarantee_, other.guarantee_)


def test_what_cannot_hide_a_person_refuses_groups():
    X, _, y, groups = table()
    with pytest.raises(ValueError, match="hides one row"):
        DPRidge(target_bounds=BOUNDS, mechanism="projection").fit(X, y, groups=groups)
    search = DPSearchCV(DPRidge(target_bounds=BOUNDS), {}, max_loss=4.0)
    for fit in (DPBinner(3, bounds=BOUNDS).fit, search.fit):
        with pytest.raises(TypeError, match="groups"):
            fit(X, y, groups=groups)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("groups", [[1, 2], [None] * 3, [math.nan, 1, 2]])
def test_a_refused_fit_releases_nothing(name, groups):
    model, target = FITS[name]
    X, y = np.eye(3), [[0, 1, 1], [0.0, 0.5, 1.0]][target - 1]
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="groups"):
        clone(model).fit(X, y, groups=groups)
    assert not ledger.entries


# Attacks


def of_pairs(fit):
    """A fit whose persons have two rows each, by their places."""

    def fit_pairs(self, X, y=None, groups=None):
        return fit(self, X, y, np.arange(X.shape[0] if hasattr(X, "shape") else len(X)) // 2)

    return fit_pairs


# Its batches are random, of noise whose scale is given: finding it takes longer than all checks.
SAMPLED = {"hidden_layer_sizes": (4,), "batch_size": 10, "calibration": Published(noise_multiplier=3.0)}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The published calibration:skdprp.PrivacyWarning")
@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(n_epochs=3, classes=[0, 1]),
        DPSGDClassifier(n_epochs=3, classes=[0, 1], preconditioner=True),
        DPSGDClassifier(n_epochs=1, classes=[0, 1], **SAMPLED),
        DPMoments(),
        DPRidge(target_bounds=BOUNDS),
    ],
)
def test_fits_of_persons_keep_the_contract(model, monkeypatch, short_descents):
    """With few trials: some are audited below, and 200 would not find a tenth of the noise of the others."""
    kind = next(kind for kind in type(model).__mro__ if "fit" in vars(kind))
    monkeypatch.setattr(kind, "fit", of_pairs(kind.fit))
    assert clone(model).fit(np.eye(4), [0, 1, 0, 1]).guarantee_.unit == PERSON
    check_private_estimator(model, audit_options={"n_trials": 8})


# Steps so short that all scores stay near zero, where the gradients of all rows are as long as they may be.
BUDGET = {"epsilon": 2.0, "delta": 0.3}
STEPS = BUDGET | {"n_epochs": 6, "classes": [0, 1], "learning_rate": 0.01}
ATTACKED = {
    "descent": DPSGDClassifier(**STEPS, preconditioner=False),
    "preconditioned": DPSGDClassifier(**STEPS, preconditioner=True),
    "moments": DPMoments(**BUDGET, target_bounds=BOUNDS),
}


def found_along_axes(model, guarantee):
    """Audit what is released along the axis of each of 100 persons: with three rows, or with five the other way."""
    has_three, y = np.resize([True, True, False, False], 100), np.resize([1, 0], 100)
    persons = np.repeat(np.arange(100), np.where(has_three, 3, 5))
    X = np.diag(np.where(has_three, 1.0, -1.0))[persons]
    if isinstance(model, DPMoments):
        y = np.ones(100)
        lines = [clone(model).fit(X, y[persons], persons).moments_.values[:100, 100:].sum(axis=1) for _ in range(12)]
    else:
        lines = [(2 * y - 1) * clone(model).fit(X, y[persons], persons).coef_[0] for _ in range(12)]
    three, five = (np.concatenate([line[chosen] for line in lines]) for chosen in (has_three, ~has_three))
    options = {"delta": guarantee.profile(0.5), "n_trials": 600, "n_jobs": 1, "confidence": 0.999}
    return audit_epsilon(next, iter(three), iter(five), distinguishers={"line": lambda lines: -lines[:, 0]}, **options)


@pytest.mark.parametrize("name", ATTACKED)
def test_half_of_the_noise_of_a_person_is_caught(name, noise_of, monkeypatch):
    """A person with three rows replaced by one with five: nothing is wrong, but with half the noise, or no weights.

    Of seeded noise, whose outcome is always this one.
    """
    model = ATTACKED[name]
    guarantee = clone(model).fit(np.eye(100), np.arange(100) % 2, groups=np.arange(100)).guarantee_
    assert guarantee.unit == PERSON and "100" not in repr(guarantee)
    for left, weighted in ((1.0, True), (0.5, True), (1.0, False)):
        with monkeypatch.context() as patch, reproducible_noise(0):
            noise_of(left)
            if not weighted:
                patch.setattr(_persons, "shares", lambda counts: np.ones(len(counts)))
            result = found_along_axes(model, guarantee)
        assert result.exceeds(guarantee) == (left < 1 or not weighted), (left, weighted, result)


@pytest.mark.parametrize("fit", ["moments", "gradients", "ridge"])
def test_all_persons_of_up_to_three_rows_on_a_grid_are_as_far_apart_as_the_noise_is_for(
    fit, monkeypatch, short_descents
):
    """Two-sided, by enumeration: the largest distance of what reaches the noise first is that of two rows."""
    steps = []
    monkeypatch.setattr(_noise, "_add", lambda values, scale, rounded: steps.append((values.ravel().copy(), scale)))
    places = [(0.0, 0.0), *((math.cos(angle), math.sin(angle)) for angle in np.arange(8) * math.pi / 4)]
    if fit == "moments":
        model, rows, most = DPMoments(delta=1e-3, fit_intercept=False), [(*place, 0) for place in places], 3
    else:
        rows, most = [(*place, label) for place in places for label in (0, 1)], 2
        descent = DPSGDClassifier(n_epochs=1, preconditioner=False, classes=[0, 1], delta=1e-3)
        model = descent if fit == "gradients" else DPRidge(target_bounds=(0, 1), delta=1e-3)
    found = []
    for person in [person for m in range(1, most + 1) for person in combinations_with_replacement(rows, m)]:
        X = np.array([*person, rows[0]])
        clone(model).fit(X[:, :2], X[:, 2].astype(int), groups=[*([0] * len(person)), 1])
        found.append(steps[0])
        n_steps = len(steps)
        steps.clear()
    values, scales = np.array([value for value, _ in found]), {scale for _, scale in found}
    furthest = max(np.linalg.norm(values - value, axis=1).max() for value in values)
    exact = {"moments": math.sqrt(2), "gradients": 2 * 0.5 * math.hypot(1, 0.3), "ridge": 2 * 0.2}[fit]
    assert furthest == pytest.approx(exact, rel=1e-9) and len(scales) == 1
    # The profile of the Gaussian release that all steps are together, at the distance that was found.
    [scale] = scales
    assert 0.99e-3 < gaussian_profile(1.0, scale=scale, sensitivity=math.sqrt(n_steps) * furthest) <= 1e-3


def test_weights_of_rows_are_no_persons():
    """The third argument of `fit` is `sample_weight` elsewhere: weights of two sizes made two persons."""
    for model in (DPSGDClassifier(classes=[0, 1]), DPMoments(target_bounds=(0, 1))):
        with pytest.raises(ValueError, match="no weights"):
            model.fit(np.eye(4), [0, 1, 0, 1], np.array([1.0, 0.5, 1.0, 0.5]))


def test_persons_of_an_empty_partition_are_none():
    """Labels of rows that X does not have counted as persons."""
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    lengths, rows = (2, 0, 2), pd.DataFrame(np.ones((6, 2), dtype=int), columns=["a", "b"])
    X = dd.from_delayed([dask.delayed(rows[:n]) for n in lengths], meta=rows[:0])
    groups = dd.from_delayed([dask.delayed(rows["a"][:2]) for _ in lengths], meta=rows["a"][:0])
    with pytest.raises(ValueError, match="same partitions"):
        DPMoments(delta=1e-6).fit(X, groups=groups)


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, lambda weights: np.array(weights, dtype=object)])
def test_weights_of_rows_are_no_persons_in_whatever_they_come(kind):
    """The third argument of `fit` is sample_weight elsewhere: as a Series they were two persons."""
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2)), np.arange(40) % 2
    with pytest.raises(ValueError, match="labels of persons, and no weights"):
        DPSGDClassifier(classes=[0, 1]).fit(X, y, kind(np.where(y == 1, 0.5, 1.0)))


@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(classes=[0, 1], batch_size=8, n_epochs=3),
        DPSGDClassifier(classes=[0, 1]),
        DPRidge(target_bounds=(0, 1)),
        DPRidge(target_bounds=(0, 1), mechanism="moments"),
        DPMoments(),
    ],
    ids=str,
)
def test_a_plan_for_persons_is_what_a_fit_with_their_groups_guarantees(model):
    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(-1, 1, (60, 3)), np.arange(60) % 2, rng.integers(0, 17, 60)
    pipeline = make_pipeline(PublicScaler((-1.0, 1.0)), model)
    targets = () if isinstance(model, DPMoments) else (y,)
    set_budget(pipeline, X, *targets, groups=groups, epsilon=0.7, delta=1e-4)
    plan = privacy_report(pipeline, X, *targets, groups=groups)
    with PrivacyLedger() as ledger:
        ledger.limit(0.7, 1e-4, unit="person")
        ledger.check(plan)
        with entry(plan):
            pipeline.fit(X, *targets, **{f"{pipeline.steps[-1][0]}__groups": groups})
    (released,) = ledger.entries
    assert (released.guarantee, plan.private.unit) == (plan.private, PERSON)
    assert plan.private.loss == pipeline[-1].guarantee_.loss
    assert "each step that takes groups is given those given here" in plan.private.assumptions


def test_what_is_assumed_of_groups_is_not_said_of_labels():
    """Labels are those of y: a person may have rows with several of them."""
    X, y, _, groups = table()
    guarantee = DPSGDClassifier(classes=[0, 1], n_epochs=2).fit(X, y, groups=groups).guarantee_
    (of_groups,) = (text for text in guarantee.assumptions if "groups" in text)
    assert of_groups == "in `groups`, all rows of a person have the same entry, and no two persons share one"


def test_a_budget_for_persons_warns_of_steps_that_take_no_groups():
    """Private bins are of rows, and so was the total of a budget that was asked for persons."""
    rows = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (300, 2)), columns=["age", "hours"])
    y, groups, bounds = np.arange(300) % 2, np.arange(300) // 3, {"age": (0, 1), "hours": (0, 1)}
    model = DPSGDClassifier(classes=[0, 1])
    with pytest.warns(PrivacyWarning, match=r"not for one person.*DPBinner \(.*\)\. .* give bounds") as warned:
        budgeted = set_budget(
            make_pipeline(DPBinner(3, bounds=bounds), model), rows, y, groups=groups, epsilon=1.0, delta=1e-4
        )
    assert [one.filename for one in warned] == [__file__]
    assert privacy_report(budgeted, rows, y, groups=groups).private.unit == "one row"
    # The cure that it tells, of which there is no warning, which would be an error here.
    cured = make_pipeline(make_table_preprocessor(bounds), model)
    set_budget(cured, rows, y, groups=groups, epsilon=1.0, delta=1e-4)
    assert privacy_report(cured, rows, y, groups=groups).private.unit == PERSON


def test_plans_for_persons_need_a_step_that_takes_groups_and_all_rows():
    X, y, groups = np.zeros((6, 2)), np.arange(6) % 2, [1, 1, 2, 2, 3, 3]
    model = DPSGDClassifier(classes=[0, 1])
    with pytest.raises(ValueError, match="No private step takes groups"):
        privacy_report(AMPClassifier(classes=[0, 1]), X, y, groups=groups)
    with pytest.raises(ValueError, match="one label for each row"):
        privacy_report(model, X, y, groups=groups[:5])
    with pytest.raises(ValueError, match="leave n_samples out"):
        privacy_report(model, X, y, groups=groups, n_samples=100)
    with pytest.raises(ValueError, match="fit to come"):
        privacy_report(model, groups=groups)
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-2, unit="person")
        with pytest.raises(LedgerError, match="Give groups to the fit, and to its plan"):
            ledger.check(privacy_report(model, X, y))


IDS = np.array([2**24 + 1, 1])
SHORT = {
    "numpy": IDS.astype(np.float32),
    "whole floats": IDS.astype(float),
    "objects": IDS.astype(float).astype(object),
    "masked": np.ma.array(IDS, dtype=np.float32),
    "pandas": pd.Series(IDS.astype(np.float32), dtype="Float32"),
    "arrow in pandas": pd.Series(IDS.astype(np.float32), dtype=pd.ArrowDtype(pa.float32())),
    "categories": pd.Series(IDS.astype(np.float32)).astype("category"),
    "polars": pl.Series(IDS).cast(pl.Float32),
    "arrow": pa.array(IDS.astype(np.float32)),
    "scalars of arrow": list(pa.array(IDS.astype(np.float32))),
}


@pytest.mark.parametrize("name", SHORT)
def test_floats_that_may_have_been_rounded_are_no_labels(name):
    """Persons 2**24 and 2**24 + 1 are one in a chunk of short floats, and two in another: each sum moved by two."""
    with pytest.raises(ValueError, match="floats, which may be rounded"):
        persons_of(SHORT[name], 2)
