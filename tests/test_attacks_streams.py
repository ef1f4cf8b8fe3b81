"""Attacks on models of rows beyond memory: partitions that are computed anew, chunks that change, sums of parts."""

import pickle
import re
import sys
import traceback
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attacks import X200_UNIFORM, Y200_UNIFORM
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    transform_chunks,
)
from skdprp.ledger import UnrecordedNoiseError
from skdprp.mechanisms import add_laplace
from skdprp.testing import reproducible_noise

dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")

N = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32).astype(float)
Y = (X[:, 0] + RNG.logistic(size=N) > 0).astype(int)


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def merged(rows):
    sizes = dd.from_pandas(pd.DataFrame({"who": np.arange(1001), "size": 0.0}), npartitions=3)
    return rows.merge(sizes, on="who")


# What leaves the order of the rows in a partition to chance.
MOVES = {
    "shuffle": lambda rows: rows.shuffle("who"),
    "merge": merged,
    "set_index": lambda rows: rows.set_index("key"),
    "sort_values": lambda rows: rows.sort_values("key"),
    "read": lambda rows: rows.map_partitions(lambda part: part.sample(frac=1)),  # as a query without an order
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("move", ["shuffle", "merge", "read"])
def test_rows_that_were_shuffled_keep_the_weights_of_their_persons(move, silenced_noise):
    """Labels of persons that were computed before the rows, in another order, gave one person dozens of weights of 1.

    Person 0 has 1000 rows of norm 1, others one of zeros: all rows of one person add up to 1 at most, or are refused.
    """
    table = pd.DataFrame({"who": np.repeat(np.arange(1001), [1000] + [1] * 1000), "x": np.repeat([1.0, 0.0], 1000)})
    table["key"] = table["who"] % 7
    rows = MOVES[move](dd.from_pandas(table.sample(frac=1, random_state=0), npartitions=12))
    with suppress(ValueError):
        release = DPMoments(delta=1e-6, fit_intercept=False).fit(rows[["x"]], groups=rows["who"]).moments_
        assert release.n_samples == 1001
        assert release.gram.item() <= 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("form", "move"), [*(("frames", move) for move in MOVES), ("arrays", "shuffle"), ("scaled", "shuffle")]
)
def test_rows_that_were_shuffled_keep_their_targets(form, move, silenced_noise):
    """Targets that were computed in another order than the rows make one row that is replaced two that are."""
    table = pd.DataFrame({"who": np.arange(600) % 31, "key": np.arange(600) % 7, "x": np.linspace(-1, 1, 600)})
    rows = MOVES[move](dd.from_pandas(table.assign(y=table["x"]), npartitions=6))
    model, given = DPRidge(target_bounds=(-1, 1), delta=1e-6, mechanism="moments"), (rows[["x"]], rows["y"])
    if form == "arrays":
        given = [part.to_dask_array() for part in given]
    if form == "scaled":
        model = make_pipeline(PublicScaler((-1, 1), feature_range=(-1, 1)), model)
    with suppress(ValueError):
        moments = (model.fit(*given)[-1] if form == "scaled" else model.fit(*given)).moments_
        np.testing.assert_allclose(moments.cross, moments.gram)


@pytest.mark.filterwarnings("ignore")
def test_rows_that_were_shuffled_keep_their_labels_in_each_pass():
    """Labels that were computed in another order than the rows taught nothing, and a row moved two gradients."""
    table = pd.DataFrame({"x": np.tile([-1.0, 1.0], 1500), "y": np.tile([0, 1], 1500), "who": np.arange(3000) % 31})
    rows, model = dd.from_pandas(table, npartitions=12).shuffle("who"), DPSGDClassifier(n_epochs=3, classes=[0, 1])
    with suppress(ValueError):
        with reproducible_noise(0):
            given = clone(model).fit(rows[["x"]], rows["y"]).coef_
        with reproducible_noise(0):
            expected = clone(model).fit(table[["x"]], table["y"]).coef_
        np.testing.assert_allclose(given, expected, atol=1e-8)


class Passes:
    """Chunks of which a function of the number of the pass makes the rows and the labels."""

    def __init__(self, rows_of):
        self.rows_of, self.number = rows_of, 0

    def __iter__(self):
        self.number += 1  # the first time, nothing is read
        return iter([self.rows_of(self.number)])


MODELS = [
    DPSGDClassifier(n_epochs=3, preconditioner=False, classes=[0, 1]),
    DPSGDClassifier(n_epochs=3, preconditioner=True, classes=[0, 1]),
    AMPClassifier(delta=1e-6, classes=[0, 1]),
    ProductNoiseOutputPerturbation(classes=[0, 1]),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_noise_of_a_later_pass_is_no_part_of_the_release_of_the_model(model):
    """Bare noise on the rows, from the second pass on: the entry of the model says nothing of it."""
    chunks = Passes(lambda number: (add_laplace(X.copy(), scale=4.0) if number > 2 else X, Y))
    with PrivacyLedger(), pytest.raises(UnrecordedNoiseError):
        clone(model).fit_chunks(chunks)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_lazy_sketches_among_chunks_are_released_by_no_pass(model):
    """A solver of many passes released each of them more than a thousand times."""
    lazy = DPOPORP(3).fit(X).transform(da.from_array(X, chunks=(200, 3)))
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="which each pass over them would release again"):
        clone(model).fit_chunks([(lazy, Y)])
    assert ledger.entries == ()


@pytest.mark.parametrize("model", MODELS[:2], ids=repr)
def test_as_many_rows_of_other_labels_in_a_later_pass_are_refused(model):
    """Passes over samples of the rows, in which one row may be several: their number is the same, and labels tell."""
    chunks = Passes(lambda number: (X, Y if number < 3 else np.roll(Y, 1) | Y))
    with pytest.raises(ValueError, match="same in each"):
        clone(model).fit_chunks(chunks)


FORMS = [
    lambda part: part,
    lambda part: part.astype(np.float32),
    sp.csr_matrix,
    sp.coo_array,
    lambda part: part.tolist(),
    np.asfortranarray,
    lambda part: part.astype(">f8"),
    lambda part: part.astype(object),
]
LABELS = [
    lambda part: part,
    lambda part: part.astype(float),
    lambda part: part.astype(np.uint64),
    lambda part: part.tolist(),
    lambda part: pd.Series(part, dtype="Int64"),
    lambda part: part.astype(np.int8),
    lambda part: part.astype(bool),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [*MODELS, DPRidge(target_bounds=(0, 1), delta=1e-6, mechanism="moments")], ids=repr)
def test_forms_and_types_of_parts_change_no_bit_of_a_release(model):
    """Dense and sparse parts, of all types, one label each or both, and empty ones: the grid hides what is rounded."""
    sizes, chunks, start = [1, 90, 0, 3, 100, 7, 150, 49], [], 0
    for place, size in enumerate(sizes):
        rows, labels = X[start : start + size], Y[start : start + size]
        chunks.append((FORMS[place % len(FORMS)](rows) if size else rows, LABELS[place % len(LABELS)](labels)))
        start += size
    order = np.argsort(Y, kind="stable")  # one part has all of a label
    fits = [[(X, Y)], chunks, chunks[::-1], [(X[order[:200]], Y[order[:200]]), (X[order[200:]], Y[order[200:]])]]
    with reproducible_noise(0):
        expected = clone(model).fit(X, Y)
    for parts in fits:
        with reproducible_noise(0):
            given = clone(model).fit_chunks(parts)
        assert np.array_equal(given.coef_, expected.coef_) and np.array_equal(given.intercept_, expected.intercept_)
        stated, of_passes = given.guarantee_, {text for text in given.guarantee_.assumptions if "every pass" in text}
        assert set(stated.assumptions) - of_passes == set(expected.guarantee_.assumptions)
        assert replace(stated, assumptions=expected.guarantee_.assumptions) == expected.guarantee_


def lazy(values, size):
    """Parts of unknown lengths."""
    parts = [dask.delayed(values[start : start + size]) for start in range(0, len(values), size)]
    shape = (np.nan, *values.shape[1:])
    arrays = [da.from_delayed(part, shape, dtype=values.dtype) for part in parts]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def changed(values, place, value, dtype=float):
    values = values.astype(dtype)
    values[place] = value
    return values


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (lazy(X, 133), lazy(np.append(Y, [1] * 9), 137)),
        (da.from_array(X, chunks=(133, 3)), lazy(np.append(Y, [1] * 9), 137)),
        (lazy(changed(X, (5, 1), "98765.4321 m", object), 133), lazy(Y, 133)),
        (lazy(changed(X, (5, 1), np.inf), 133), lazy(Y, 133)),
        (lazy(X, 133), lazy(changed(Y, 9, "98765.4321 m", object), 133)),
        (lazy(np.hstack([X, X]), 133)[:, :4].map_blocks(lambda part: part[:, :2], dtype=float), lazy(Y, 133)),
    ],
    ids=["lengths", "one is known", "text", "infinite", "text of a label", "widths"],
)
@pytest.mark.parametrize("model", [MODELS[0], MODELS[2], DPRidge(target_bounds=(0, 1))], ids=repr)
def test_errors_of_partitions_quote_neither_cells_nor_lengths(model, rows, labels):
    with pytest.raises((ValueError, TypeError)) as refused:
        clone(model).fit(rows, labels)
    error, told = refused.value, ""
    while error is not None:
        told += "".join(traceback.format_exception_only(error))
        error = error.__cause__ or error.__context__
    assert not re.search(r"98765|\b(400|409|133|137|134|135|1|2)\b(?! features)", told.replace("dim", "")), told


MODEL = AMPClassifier(delta=1e-6, classes=[0, 1]).fit(X, Y)
RIDGE = DPRidge(target_bounds=(-1, 1), delta=1e-6).fit(X, Y)


def framed(S):
    return dd.from_dask_array(S, columns=list("abc"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "compute",
    [
        lambda S: MODEL.score(S, (S[:, 0] > 0).astype(int)),
        lambda S: MODEL.score(framed(S), (framed(S)["a"] > 0).astype(int)),
        lambda S: RIDGE.score(framed(S), framed(S)["a"]),
        lambda S: dask.compute(MODEL.predict(S), MODEL.predict_proba(S), S),
        lambda S: dask.compute(MODEL.predict(framed(S)), MODEL.decision_function(S), framed(S)),
        lambda S: dask.compute(PublicScaler((-1, 1)).fit(framed(S)).transform(framed(S)), S + 1, RIDGE.predict(S)),
    ],
)
def test_what_models_say_of_lazy_sketches_in_one_computation_is_one_release(compute):
    sketches = DPOPORP(3).fit(X).transform(da.from_array(X, chunks=(200, 3)))
    with PrivacyLedger() as ledger:
        compute(sketches)
    assert len(ledger.entries) == 2


def test_no_instruction_leaves_weights_of_one_pass_beside_another_guarantee():
    """An interruption at each of the last instructions of a second fit: old or new, or none, but never one of each."""

    def fit(estimator, number):
        seen = iter(range(10**6))

        def trace(frame, event, argument):
            if not frame.f_code.co_filename.endswith(("_calibration.py", "_base.py")):
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and next(seen) == number:
                raise KeyboardInterrupt
            return trace

        previous = sys.gettrace()
        sys.settrace(trace)
        try:
            estimator.fit_chunks([(X[:40], Y[:40]), (X[40:80], Y[40:80])])
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(previous)
        return next(seen)

    model = DPSGDClassifier(n_epochs=1, preconditioner=False, classes=[0, 1])
    total = fit(clone(model), -1)
    for number in range(total - 60, total):
        estimator = clone(model).set_params(epsilon=10.0).fit_chunks([(X[:40], Y[:40])])
        weights, guarantee = estimator.coefs_, estimator.guarantee_
        fit(estimator.set_params(epsilon=0.1), number)
        found = getattr(estimator, "coefs_", None), getattr(estimator, "guarantee_", None)
        assert (found[0] is weights) == (found[1] is guarantee)
        assert found[1] is not None or found[0] is None


def _fitted_to_streams():
    rows, labels, targets = (da.from_array(one, chunks=50) for one in (X200_UNIFORM, Y200_UNIFORM, X200_UNIFORM[:, 0]))
    rows = rows.rechunk((50, 3))
    for model in (AMPClassifier(classes=[0, 1]), DPSGDClassifier(classes=[0, 1], n_epochs=1)):
        yield model.fit(rows, labels)
    yield DPRidge(target_bounds=(-1, 1)).fit(rows, targets)
    for learner in (DPPCA(2), DPHistograms(bounds=(-1, 1)), DPScaler(bounds=(-1, 1)), DPMoments()):
        yield learner.fit(rows)
        yield learner.fit_chunks([X200_UNIFORM[:100], X200_UNIFORM[100:]])


def test_no_pickle_of_what_was_fitted_to_a_stream_has_a_number_of_its_rows():
    """Neither parts nor graphs of dask are kept."""
    n_checked = 0
    for fitted in _fitted_to_streams():
        written = pickle.dumps(fitted)
        assert not any(number.tobytes() in written for number in X200_UNIFORM[[0, 77, 199]].ravel())
        n_checked += 1
    assert n_checked == 11


# Passes over chunks


class _Counting:
    """Chunks that count how often they are read, as a progress bar does."""

    def __init__(self, X, y):
        self.X, self.y, self.n_passes = X, y, 0

    def __iter__(self):
        self.n_passes += 1
        yield self.X, self.y


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_how_often_a_solver_read_the_chunks_is_said_not_to_be_covered(delta):
    """Of one row replaced there were 4 passes and not 2, in each fit, where 0.1 is printed."""
    model = ProductNoiseOutputPerturbation(classes=[0, 1], epsilon=0.1, delta=delta)
    X, y = np.full((30, 1), 1e-6), np.arange(30) % 2
    chunks = [_Counting(rows, y) for rows in (X, np.append([[1.0]], X[1:], axis=0))]
    for one in chunks:
        model.fit_chunks(one)
    is_covered = "how many passes over the rows a solver made" not in model.guarantee_.not_covered
    assert not is_covered or chunks[0].n_passes == chunks[1].n_passes


def test_an_empty_chunk_is_passed_over():
    """The chunks before it were released, and lost with the error: to go on was to pay for them twice."""
    X = np.random.default_rng(0).uniform(size=(30, 4))
    sketch, chunks = DPOPORP(2).fit(X), [X[:10], X[:0], X[10:]]
    assert transform_chunks(sketch, chunks).shape == (30, 2)
    assert DPScaler(delta=1e-3).fit_chunks(chunks).histograms_.n_samples == 30
