"""Classifiers on rows that are read anew in each pass: the fit in memory, whatever the pieces, and one release."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from test_linear_model_erm import EVERY, exact_gradient_norm, rows_that_nearly_cancel

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    privacy_report,
)
from skdprp.ledger import UnrecordedNoiseError
from skdprp.linear_model import _erm
from skdprp.linear_model._erm import Problem, minimisers
from skdprp.linear_model._passes import SAME_ROWS, Chunks, StreamedRows
from skdprp.mechanisms import add_laplace
from skdprp.testing import check_private_estimator, reproducible_noise

dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 4))
FEW = X[:340]  # in nine parts of 40, one more than are joined at once
TWO = (X[:, 0] + RNG.logistic(size=1000) > 0).astype(int)
LABELS = {"two": TWO, "three": TWO + (X[:, 1] > 1), "text": np.array(["no", "yes"])[TWO]}
MODELS = [
    AMPClassifier(delta=1e-6),
    AMPClassifier(delta=1e-6, noise="gaussian", loss="huber_hinge"),
    AMPClassifier(delta=1e-6, multi_class="ovr", fit_intercept=False),
    ProductNoiseOutputPerturbation(),
    DPSGDClassifier(n_epochs=2, preconditioner=False),
    DPSGDClassifier(n_epochs=2, preconditioner=True),
]
CLOSE = {"rtol": 1e-7, "atol": 1e-8}  # where solvers stop is within 1e-10 of the norms of all rows, over the penalty


def cut(X, y, size):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


class ReadAnew:
    """Chunks of a file, opened in each pass."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        table = np.load(self.path, mmap_mode="r")
        return ((table[i : i + 170, :-1], table[i : i + 170, -1]) for i in range(0, len(table), 170))


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


CASES = [(model, labels) for model in MODELS for labels in LABELS if labels != "text" or model in MODELS[::5]]  # alike


@pytest.mark.parametrize(("model", "labels"), CASES, ids=str)
def test_whatever_the_pieces_the_fit_is_that_in_memory(model, labels, silenced_noise, tmp_path):
    X, y = FEW, LABELS[labels][: len(FEW)]
    expected = clone(model).fit(X, y)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=y), npartitions=2)
    pieces = {
        "a chunk": cut(X, y, 340),
        "chunks": cut(X, y, 100),
        "rows": [*cut(X[:3], y[:3], 1), (X[3:], y[3:])],
    }
    if labels != "three":  # whose rows are read as those of two classes are
        pieces |= {
            "the other way": cut(X, y, 100)[::-1],
            "sparse": cut(sp.csr_array(X), y, 200),
            "lists": [(rows.tolist(), some.tolist()) for rows, some in cut(X, y, 200)],
            "none": [(X[:0], y[:0]), *cut(X, y, 250)],
        }
    if labels == "two":
        np.save(tmp_path / "table.npy", np.column_stack([X, y]))
        pieces["file"] = ReadAnew(tmp_path / "table.npy")
    fits = {name: clone(model).fit_chunks(chunks) for name, chunks in pieces.items()}
    fits["dask array"] = clone(model).fit(da.from_array(X, chunks=(150, 3)), da.from_array(y, chunks=120))
    if labels != "three":
        fits["many partitions"] = clone(model).fit(da.from_array(X, chunks=(40, 4)), da.from_array(y, chunks=40))
    fits["dask frame"] = clone(model).fit(frame[list("abcd")], frame["y"])
    for name, fit in fits.items():
        np.testing.assert_allclose(fit.coef_, expected.coef_, err_msg=name, **CLOSE)
        np.testing.assert_allclose(fit.intercept_, expected.intercept_, err_msg=name, **CLOSE)
        assumptions = (*expected.guarantee_.assumptions, SAME_ROWS)
        assert fit.guarantee_ == replace(expected.guarantee_, assumptions=assumptions)
        assert np.array_equal(fit.classes_, expected.classes_)
    assert fits["dask frame"].feature_names_in_.tolist() == list("abcd")
    assert hasattr(fits["chunks"], "feature_names_in_") is False


@pytest.mark.parametrize("model", MODELS[:1] + MODELS[-1:], ids=repr)
def test_rows_that_are_copied_block_by_block_are_those_in_memory(model, silenced_noise, monkeypatch):
    """Of two or three rows each: in another order or type, beside other columns, or too long."""
    expected = clone(model).fit(FEW, LABELS["two"][:340]).coef_
    wider = np.column_stack([FEW, LABELS["two"][:340]])
    for name in ("skdprp.linear_model._passes.block_rows", "skdprp.neural_network._preconditioner.rows_per_product"):
        monkeypatch.setattr(name, lambda *sizes: 3)
    for rows in (wider[:, :-1], np.asfortranarray(FEW), FEW):
        given = rows.copy(order="K")
        found = clone(model).fit_chunks(cut(rows, LABELS["two"][:340], 50)).coef_
        np.testing.assert_allclose(found, expected, **CLOSE)
        assert np.array_equal(rows, given)
    exact = clone(model).fit_chunks(cut(FEW.astype(np.float32).astype(float), LABELS["two"][:340], 50)).coef_
    found = clone(model).fit_chunks(cut(FEW.astype(np.float32), LABELS["two"][:340], 50)).coef_
    np.testing.assert_allclose(found, exact, rtol=1e-4)


@pytest.mark.parametrize("labels", ["two", "three"])
@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
def test_many_weights_need_products_in_the_place_of_a_matrix(labels, multi_class, silenced_noise, monkeypatch):
    y, model = LABELS[labels], AMPClassifier(delta=1e-6, multi_class=multi_class)
    with_matrix = clone(model).fit_chunks(cut(X, y, 300)).coef_
    monkeypatch.setattr(_erm, "_MOST_FOR_HESSIAN", 0)
    np.testing.assert_allclose(clone(model).fit_chunks(cut(X, y, 300)).coef_, with_matrix, **CLOSE)


def test_weights_of_classes_and_counts_of_labels_are_those_in_memory(silenced_noise):
    known = {"class_weight": {0: 0.3}, "threshold": "prior", "epsilon": 5.0, "loss": "log_loss"}
    for model in (AMPClassifier(**known), DPSGDClassifier(class_weight={0: 0.3}, n_epochs=5)):
        parts, whole = clone(model).fit_chunks(cut(X, TWO, 300)), clone(model).fit(X, TWO)
        np.testing.assert_allclose(parts.coef_, whole.coef_, **CLOSE)
        np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), **CLOSE)
        assert getattr(parts, "class_prior_", None) == getattr(whole, "class_prior_", None)
        assert getattr(parts, "prior_threshold_", None) == getattr(whole, "prior_threshold_", None)


@pytest.mark.parametrize(("loss", "multinomial"), EVERY)
@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("with_matrix", [True, False])
def test_true_gradients_of_chunks_are_within_the_stated_accuracy(loss, multinomial, size, with_matrix, monkeypatch):
    """In exact arithmetic, of rows that nearly cancel, in whatever chunks and in blocks of a few rows."""
    rng = np.random.default_rng(size)
    rows, codes = rows_that_nearly_cancel(rng, 8, 6, 1e-5), rng.integers(2 + multinomial, size=8)
    problem = Problem(8, 6, 3 if multinomial else 2, loss, multinomial, 1.0, 0.3, 1e-9)
    monkeypatch.setattr(_erm, "_MOST_FOR_HESSIAN", 1000 * with_matrix)
    monkeypatch.setattr("skdprp.linear_model._passes.block_rows", lambda *sizes: 4)
    streamed = StreamedRows(
        Chunks(cut(rows, codes, size)), lambda X, y: (X, y), *rows.shape, np.bincount(codes), None, max_norm=1.0
    )
    b = rng.normal(size=problem.weights_shape)
    b *= 3.0 * (1 - 2.0**-40) / np.linalg.norm(b)
    for penalty in (1e-2, 1.0):
        known = {"penalty": penalty, "perturbation": b, "largest_perturbation": 3.0, "n_jobs": None}
        weights = minimisers(problem, streamed, None, **known)
        found = exact_gradient_norm(problem, rows, codes, weights, penalty, b)
        assert found <= problem.gradient_error(penalty, 3.0)


# One release


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_noise_is_drawn_once_and_by_whoever_asked(model):
    """As in memory, draw by draw, in one entry of a ledger; another fit has other noise, and an entry of its own."""
    lazy = da.from_array(X, chunks=300), da.from_array(TWO, chunks=300)
    with reproducible_noise(0):
        expected = clone(model).fit(X, TWO).coef_
    for fit in (lambda fitted: fitted.fit_chunks(cut(X, TWO, 300)), lambda fitted: fitted.fit(*lazy)):
        with PrivacyLedger() as ledger, dask.config.set(scheduler="threads"):
            with reproducible_noise(0):
                np.testing.assert_allclose(fit(clone(model)).coef_, expected, **CLOSE)
            assert len(ledger.entries) == 1
            fresh = fit(clone(model))
            assert len(ledger.entries) == 2 and not np.allclose(fresh.coef_, expected, **CLOSE)
            assert not fresh.guarantee_.seeded


def test_a_report_counts_one_release():
    model = make_pipeline(PublicScaler((-3, 3)), AMPClassifier())
    rows, y = da.from_array(X, chunks=300), da.from_array(TWO, chunks=300)
    report = privacy_report(model.fit(rows, y))
    in_memory = privacy_report(make_pipeline(PublicScaler((-3, 3)), AMPClassifier()).fit(X, TWO)).total
    assert set(report.total.assumptions) == {*in_memory.assumptions, SAME_ROWS} and report.total.epsilon == 1.0
    assert replace(report.total, assumptions=()) == replace(in_memory, assumptions=())
    assert np.array_equal(model.predict(rows).compute(), model.predict(X))


@pytest.mark.parametrize("model", [AMPClassifier(), DPSGDClassifier(n_epochs=3)], ids=repr)
def test_what_fails_in_the_middle_releases_nothing(model, monkeypatch):
    """Nothing is left of an earlier fit's guarantee beside new weights, and nothing of the failed one."""
    passes = []

    class Failing:
        def __iter__(self):
            passes.append(1)
            if len(passes) > 3:
                raise OSError("The disk is gone.")
            return iter(cut(X, TWO, 300))

    fitted = clone(model).fit(X, TWO)
    before = pickle.dumps((fitted.coef_, fitted.guarantee_))
    with pytest.raises(OSError, match="disk"):
        fitted.fit_chunks(Failing())
    assert pickle.dumps((fitted.coef_, fitted.guarantee_)) == before


@pytest.fixture
def in_chunks(monkeypatch):
    """Let `fit` of classifiers take two chunks of whatever it is given."""

    def fit(self, X, y):
        return self.fit_chunks([(X[:7], y[:7]), (X[7:], y[7:])])

    for model in (AMPClassifier, DPSGDClassifier):
        monkeypatch.setattr(model, "fit", fit)


@pytest.mark.parametrize("model", [AMPClassifier(noise="gaussian"), DPSGDClassifier(n_epochs=2)], ids=repr)
def test_chunks_keep_the_contract(model, in_chunks):
    """With few trials of an audit: the noise is that in memory, as the first test of this part says."""
    check_private_estimator(model, audit_options={"n_trials": 8})


# Faults


def test_chunks_that_cannot_be_read_again_are_refused():
    with pytest.raises(TypeError, match="read once"):
        AMPClassifier().fit_chunks(part for part in cut(X, TWO, 300))
    for chunks in ([X], [(X,)], [(X, TWO, TWO)]):
        with pytest.raises(TypeError, match=r"tuple \(X, y\)"):
            AMPClassifier().fit_chunks(chunks)
    with pytest.raises(ValueError, match="no rows"):
        AMPClassifier(classes=[0, 1]).fit_chunks([])
    with pytest.raises(ValueError, match="no rows"):
        AMPClassifier(classes=[0, 1]).fit_chunks([(X[:0], TWO[:0])])


def with_nan():
    rows = X.copy()
    rows[700, 2] = np.nan
    return rows


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        (cut(with_nan(), TWO, 300), "NaN"),
        ([*cut(X, TWO, 300), (X[:, :3], TWO)], "features"),
        ([*cut(X, TWO, 300), (X, TWO[:10])], "inconsistent"),
        ([*cut(X, TWO, 300), (X, LABELS["text"])], "text in one part"),
        ([*cut(X, TWO, 300), (X, TWO + 0.5)], "continuous"),
        (cut(X, np.zeros(1000), 300), "two classes"),
        ([(pd.DataFrame(X, columns=list("abcd")), TWO), (pd.DataFrame(X, columns=list("abce")), TWO)], "names"),
    ],
)
def test_chunks_that_do_not_fit_are_refused_before_anything_is_released(chunks, message):
    with PrivacyLedger() as ledger:
        model = AMPClassifier()
        with pytest.raises(ValueError, match=message):
            model.fit_chunks(chunks)
    assert ledger.entries == () and not hasattr(model, "coef_")


def test_labels_that_are_not_listed_are_refused():
    with pytest.raises(ValueError, match="not among"):
        AMPClassifier(classes=[0, 2]).fit_chunks(cut(X, TWO, 300))


def test_rows_that_get_fewer_are_refused():
    class Shrinking:
        n_left = 1000

        def __iter__(self):
            self.n_left -= 100
            return iter(cut(X[: self.n_left], TWO[: self.n_left], 300))

    with pytest.raises(ValueError, match="not those of the pass before"):
        AMPClassifier().fit_chunks(Shrinking())


class Changing:
    """Rows that are others in each pass."""

    def __init__(self, change):
        self.change, self.n_passes = change, 0

    def __iter__(self):
        self.n_passes += 1
        return iter([self.change(self.n_passes)])


def test_rows_of_other_classes_in_a_later_pass_are_refused():
    """A sample with replacement has as many rows each time, and one row several times."""
    chunks = Changing(lambda n_passes: (X, np.roll(TWO, n_passes) if n_passes < 3 else np.full_like(TWO, TWO[0])))
    with pytest.raises(ValueError, match="not those of the pass before"):
        DPSGDClassifier(n_epochs=5).fit_chunks(chunks)
    fitted = DPSGDClassifier(n_epochs=5).fit_chunks(cut(X, TWO, 300))
    assert any("the same rows in every pass, each row once" in text for text in fitted.guarantee_.assumptions)
    assert not any("every pass" in text for text in DPSGDClassifier(n_epochs=5).fit(X, TWO).guarantee_.assumptions)


def test_noise_of_an_iterable_of_chunks_needs_an_entry_of_its_own():
    def release(n_passes):
        if n_passes > 1:
            add_laplace(np.zeros(1), 1.0)
        return X, TWO

    with PrivacyLedger(), pytest.raises(UnrecordedNoiseError):
        AMPClassifier().fit_chunks(Changing(release))


@pytest.mark.parametrize(
    "known", [{"hidden_layer_sizes": (3,)}, {"batch_size": 50}, {"max_norm": None}], ids=lambda known: next(iter(known))
)
def test_what_needs_all_rows_in_memory_says_so(known):
    pytest.importorskip("dp_accounting")
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="in memory"):
        DPSGDClassifier(**known).fit(da.from_array(X, chunks=300), da.from_array(TWO, chunks=300))
    assert ledger.entries == ()


def test_groups_and_labels_in_memory_beside_dask_are_refused():
    rows, y = da.from_array(X, chunks=300), da.from_array(TWO, chunks=300)
    with pytest.raises(TypeError, match="several partitions"):
        DPSGDClassifier().fit(rows, y, groups=y)
    with pytest.raises(TypeError, match="make all of them one"):
        AMPClassifier().fit(rows, TWO)
    with pytest.raises(ValueError, match="same rows"):
        AMPClassifier().fit(rows, y[:-1])


def test_lazy_sketches_are_not_released_in_each_pass():
    sketches = DPOPORP(4).fit(X).transform(da.from_array(X, chunks=(300, 4)))
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="persist or compute"):
        AMPClassifier().fit(sketches, da.from_array(TWO, chunks=300))
    assert ledger.entries == ()


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_is_killed_costs_time_and_no_second_release(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    parts, fatal = [slice(0, 400), slice(400, 1000)], tmp_path / "fatal"
    passes, whole = [], StreamedRows.sum

    def rows_of(rows):  # within the test: workers do not import its module, which costs each a second
        if fatal.exists():
            fatal.unlink()
            os._exit(1)
        return rows

    def kill_in_the_third_pass(self, function):
        passes.append(1)
        if len(passes) == 3:
            fatal.touch()
        return whole(self, function)

    monkeypatch.setattr(StreamedRows, "sum", kill_in_the_third_pass)
    read = dask.delayed(rows_of, pure=False)
    lengths = [part.stop - part.start for part in parts]
    rows = [da.from_delayed(read(X[part]), (n, 4), dtype=float) for part, n in zip(parts, lengths, strict=True)]
    lazy = da.concatenate(rows), da.from_array(TWO, chunks=[lengths])
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": "CRITICAL"}
    with reproducible_noise(0):
        expected = AMPClassifier().fit(X, TWO).coef_
    with (
        dask.config.set(scheduler="distributed"),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        PrivacyLedger() as ledger,
        reproducible_noise(0),
    ):
        coef = AMPClassifier().fit(*lazy).coef_
    assert len(passes) > 3 and not fatal.exists()
    assert len(ledger.entries) == 1
    np.testing.assert_allclose(coef, expected, **CLOSE)
