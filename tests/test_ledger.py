"""A ledger has an entry of every release, of all processes, and no limit is passed."""
# ruff: noqa: D101, D102

import contextlib
import html
import itertools
import json
import math
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent import futures
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPSGDClassifier,
    DPSignOPORP,
    MIDPRegressor,
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    _noise,
    _open_ledgers,
    compose,
    iDPSignRP,
    privacy_report,
    transform_chunks,
)
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import FIXED_BEFORE, Adjacency
from skdprp.ledger import LedgerError, UnrecordedNoiseError, _filter, entry
from skdprp.ledger._filter import budget, price
from skdprp.mechanisms import add_gaussian, add_laplace, add_spherical, gaussian_profile
from skdprp.mechanisms._numerics import rounded_up
from skdprp.report import PrivacyReport, ReportedStep
from skdprp.testing import reproducible_noise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 6))
Y = np.arange(24) % 2


def calls_of(pid):
    return Path(tempfile.gettempdir(), f"skdprp-calls-of-{pid}")


def count(name):
    """Note a call in the file of the process whose tests these are, or whose worker this is."""
    path = next(path for path in map(calls_of, (os.getpid(), os.getppid())) if path.exists())
    with open(path, "a") as file:
        file.write(f"{name}\n")


class CountedModel(AMPClassifier):
    def fit(self, X, y):
        count("CountedModel")
        return super().fit(X, y)


class CountedSketch(DPOPORP):
    def transform(self, X):
        count("CountedSketch")
        return super().transform(X)


@pytest.fixture
def counted():
    """Return a function that gives the calls so far, in order of names."""
    path = calls_of(os.getpid())
    path.touch()
    yield lambda: sorted(path.read_text().split())
    path.unlink()


MODEL = CountedModel(epsilon=0.5, delta=1e-6, classes=[0, 1])
SKETCHED = make_pipeline(CountedSketch(4), RidgeClassifier())
FOLDS = KFold(3)


def twice(model, rows, labels):
    return accuracy_score(labels, model.predict(rows)) + accuracy_score(labels, model.predict(rows))


class InterruptedModel(AMPClassifier):
    def fit(self, X, y):
        count("InterruptedModel")
        return super().fit(X, y)

    def _release(self, *data):
        super()._release(*data)
        raise KeyboardInterrupt


def interrupted():
    with pytest.raises(KeyboardInterrupt):
        InterruptedModel(classes=[0, 1]).fit(X, Y)


SHAPES = {
    "a fit": lambda: clone(MODEL).fit(X, Y),
    "the same fitted twice": lambda: clone(MODEL).fit(X, Y).fit(X, Y),
    "a pipeline": lambda: clone(SKETCHED).fit(X, Y).predict(X),
    "a union": lambda: make_union(CountedSketch(2), CountedSketch(3)).fit(X).transform(X),
    "a union of two workers": lambda: make_union(CountedSketch(2), CountedSketch(3), n_jobs=2).fit(X).transform(X),
    "a search": lambda: GridSearchCV(clone(MODEL), {"epsilon": [0.1, 1.0]}, cv=FOLDS).fit(X, Y),
    "a search of sketches": lambda: GridSearchCV(SKETCHED, {}, cv=FOLDS, return_train_score=True).fit(X, Y),
    "a search of two workers": lambda: GridSearchCV(MODEL, {"epsilon": [0.1, 1.0]}, cv=FOLDS, n_jobs=2).fit(X, Y),
    "a random search": lambda: RandomizedSearchCV(MODEL, {"epsilon": [0.1, 1.0]}, n_iter=2, cv=FOLDS).fit(X, Y),
    "a search that predicts twice": lambda: GridSearchCV(SKETCHED, {}, cv=FOLDS, scoring=twice).fit(X, Y),
    "cross validation": lambda: cross_validate(SKETCHED, X, Y, cv=FOLDS, scoring=twice),
    "cross validation by two workers": lambda: cross_validate(SKETCHED, X, Y, cv=FOLDS, scoring=twice, n_jobs=2),
    "predictions of folds": lambda: cross_val_predict(MODEL, X, Y, cv=FOLDS),
    "a search in each fold": lambda: cross_validate(GridSearchCV(MODEL, {}, cv=FOLDS), X, Y, cv=FOLDS, n_jobs=2),
    "a vote": lambda: VotingClassifier([("a", MODEL), ("b", SKETCHED)]).fit(X, Y).predict(X),
    "a vote of two workers": lambda: VotingClassifier([("a", MODEL), ("b", SKETCHED)], n_jobs=2).fit(X, Y),
    "a stack": lambda: StackingClassifier([("a", MODEL)], RidgeClassifier(), cv=FOLDS).fit(X, Y),
    "a bag": lambda: BaggingClassifier(CountedModel(), n_estimators=3, n_jobs=2, random_state=0).fit(X, Y),
    "one against the rest": lambda: OneVsRestClassifier(CountedModel(), n_jobs=2).fit(X, np.arange(24) % 3),
    "threads": lambda: Parallel(2, prefer="threads")(delayed(clone(MODEL).fit)(X, Y) for _ in range(4)),
    "functions of workers": lambda: Parallel(2)(delayed(fit_of_its_own)() for _ in range(4)),
    "chunks": lambda: transform_chunks(CountedSketch(4).fit(X), [X[:9], X[9:]]),
    "chunks in two threads": lambda: transform_chunks(CountedSketch(4).fit(X), [X[:9], X[9:]], n_jobs=2),
    "an interrupted fit": interrupted,
}


def fit_of_its_own():
    CountedModel(classes=[0, 1]).fit(X, Y)


@pytest.fixture(scope="module")
def warm_workers():
    """Workers that are older than any ledger."""
    Parallel(2)(delayed(os.getpid)() for _ in range(4))


@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_the_calls_that_publish(shape, counted, warm_workers):
    with PrivacyLedger() as ledger:
        SHAPES[shape]()
    assert sorted(entry.estimator for entry in ledger.entries) == counted()


PURE = PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("replace_one"))


def append(path, n):
    """Enter releases into a ledger that came with nothing but its path."""
    with PrivacyLedger(path):
        for _ in range(n):
            with entry(PURE):
                pass


def test_no_append_of_eight_processes_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # as no machine fails here
    path = tmp_path / "spent.jsonl"
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=append, args=(path, 100)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    entries = PrivacyLedger(path).entries
    assert len(entries) == len({entry.id for entry in entries}) == 800


def test_killed_in_mid_append(tmp_path):
    """Whatever a process was doing when it was killed, all entries that it had made can be read, and more be made."""
    path = tmp_path / "spent.jsonl"
    append(path, 0)
    fork = multiprocessing.get_context("fork")
    for _ in range(20):
        before = path.read_bytes().count(b"\n")
        process = fork.Process(target=append, args=(path, 10**6))
        process.start()
        while path.read_bytes().count(b"\n") < before + 11:  # one of them may end what was left of a line
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        n_entries = len(PrivacyLedger(path).entries)
    assert n_entries >= 200
    append(path, 1)
    assert len(PrivacyLedger(path).entries) == n_entries + 1


def test_no_line_that_fits_into_a_page_is_in_two(tmp_path):
    """A process that is killed in mid write has written whole pages, and a gap before a line is none of its own."""
    path = tmp_path / "spent.jsonl"
    append(path, 60)
    text = path.read_bytes()
    assert len(text) > 3 * 4096
    for line in re.finditer(rb"\{.*\n", text):
        assert line.start() // 4096 == (line.end() - 1) // 4096
    path.write_bytes(text + b" " * 300)
    append(path, 1)
    assert len(PrivacyLedger(path).entries) == 61


def spend(path, gate, releases):
    with PrivacyLedger(path) as ledger:
        gate.wait()
        for _ in range(20):
            try:
                with entry(PURE):
                    releases.put(1)
            except LedgerError:
                return
    raise AssertionError(f"Nothing stopped {ledger}.")


def test_a_limit_holds_when_eight_processes_race(tmp_path):
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        ledger.limit(5.2, delta=0.0)
    fork = multiprocessing.get_context("fork")
    gate, releases = fork.Barrier(8), fork.Queue()
    processes = [fork.Process(target=spend, args=(path, gate, releases)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    assert len(ledger.entries) == 10
    assert sum(releases.get(timeout=100) for _ in range(10)) == 10
    assert releases.empty()


def test_threads_that_are_older_than_the_ledger_are_seen():
    begin, done = threading.Event(), []

    def release():
        begin.wait()
        clone(MODEL.__class__.__base__(classes=[0, 1])).fit(X, Y)
        done.append(1)

    thread = threading.Thread(target=release)
    thread.start()
    with PrivacyLedger() as ledger:
        begin.set()
        thread.join()
    assert done
    assert len(ledger.entries) == 1


WORKER = """
import os, pickle, sys, time
from pathlib import Path
import numpy as np, skdprp
if os.fork():  # the worker is nobody's child
    os._exit(0)
os.setsid()
directory = Path(sys.argv[1])
(directory / "ready").touch()
for _ in range(1000):
    if (directory / "task").exists():
        model = pickle.loads((directory / "task").read_bytes())
        skdprp.AMPClassifier(classes=[0, 1]).fit(np.eye(4), [0, 1, 0, 1])
        model.fit(np.eye(4), [0, 1, 0, 1])
        (directory / "done").touch()
        break
    time.sleep(0.05)
"""


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_pickled_estimator_takes_the_ledger_along(tmp_path):
    """To a process that is older than the ledger and no child of its owner."""
    subprocess.run([sys.executable, "-c", WORKER, tmp_path], check=True)
    wait_for(tmp_path / "ready")
    with PrivacyLedger() as ledger:
        (tmp_path / "begun").write_bytes(pickle.dumps(AMPClassifier(classes=[0, 1])))
        (tmp_path / "begun").rename(tmp_path / "task")
        wait_for(tmp_path / "done")
    assert [entry.estimator for entry in ledger.entries] == ["AMPClassifier", "AMPClassifier"]


def test_a_pickle_that_outlives_its_ledger_writes_nowhere(tmp_path):
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        pickled = pickle.dumps(MODEL)
    copy = pickle.loads(pickled)
    AMPClassifier.fit(copy, X, Y)
    assert ledger.entries == ()


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes", "cluster"])
def test_chunks_of_dask_are_disjoint_and_each_computation_counts(scheduler):
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    options = {"scheduler": scheduler}
    with contextlib.ExitStack() as stack:
        if scheduler == "processes":  # begun once, where dask would begin others for each computation
            spawn = multiprocessing.get_context("spawn")
            options["pool"] = stack.enter_context(futures.ProcessPoolExecutor(1, mp_context=spawn))
        if scheduler == "cluster":  # whose workers are older than the ledger
            distributed = pytest.importorskip("distributed")
            options = {}
            stack.enter_context(distributed.Client(n_workers=1, threads_per_worker=1, dashboard_address=":0"))
        sketch = DPOPORP(4, epsilon=1.0, delta=1e-6).fit(X)
        with PrivacyLedger() as ledger, dask.config.set(**options):
            released = sketch.transform(da.from_array(X, chunks=(8, 6)))
            released.compute()
            assert len(ledger.entries) == 3
            assert ledger.total()[0].guarantee.epsilon == 1.0
            released.compute()
            dask.compute(released, released + 1)
    assert len(ledger.entries) == 9
    assert ledger.total()[0].adaptive.epsilon == pytest.approx(3.0)


def test_the_ledger_of_a_fork_is_its_parents():
    with PrivacyLedger() as ledger, multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(fit_of_nobody)
    assert len(ledger.entries) == 1


def fit_of_nobody():
    AMPClassifier(classes=[0, 1]).fit(X, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        AMPClassifier(classes=[0, 1]),
        ProductNoiseOutputPerturbation(classes=[0, 1]),
        DPSGDClassifier(n_epochs=2),
        MIDPRegressor(),
        MIDPRegressor(mechanism="additive"),
    ],
    ids=str,
)
def test_every_private_model_is_entered_before_its_noise_is_drawn(estimator, monkeypatch):
    with PrivacyLedger() as ledger:
        drawn, draw = [], _noise.random_bytes
        monkeypatch.setattr(_noise, "random_bytes", lambda n: (drawn.append(len(ledger.entries)), draw(n))[1])
        estimator.fit(X, Y)
        assert [entry.guarantee for entry in ledger.entries] == [estimator.guarantee_]
    assert set(drawn) == {1}


def test_a_sketch_of_a_regression_is_entered():
    with PrivacyLedger() as ledger:
        model = MIDPRegressor()
        model.sketch(X, Y)
    assert [entry.guarantee for entry in ledger.entries] == [model.guarantee_]


def test_seeded_noise_is_entered_as_such():
    with PrivacyLedger() as ledger, reproducible_noise(0):
        AMPClassifier(classes=[0, 1]).fit(X, Y)
        DPOPORP(2).fit(X).transform(X)
    assert [entry.guarantee.seeded for entry in ledger.entries] == [True, True]


def test_refused_rows_are_not_entered():
    with PrivacyLedger() as ledger:
        for estimator in (AMPClassifier(classes=[0, 1]), DPSGDClassifier(), MIDPRegressor()):
            with pytest.raises(ValueError, match="NaN"):
                estimator.fit(np.full((4, 2), np.nan), [0, 1, 0, 1])
        with pytest.raises(ValueError, match="NaN"):
            DPOPORP(2).fit(X).transform(np.full((4, 6), np.nan))
    assert ledger.entries == ()


# Noise of nobody


def test_noise_outside_of_an_entry_is_refused():
    with PrivacyLedger() as ledger:
        for add in (add_gaussian, add_laplace, partial(add_spherical, shape=1, power=2)):
            with pytest.raises(UnrecordedNoiseError, match="no entry"):
                add([1.0], scale=1.0)
        with entry(PURE, "mine"):
            add_laplace([1.0], scale=1.0)
        with pytest.raises(UnrecordedNoiseError):
            add_gaussian([1.0], scale=1.0)
    add_gaussian([1.0], scale=1.0)
    assert [(entry.estimator, entry.guarantee) for entry in ledger.entries] == [("mine", PURE)]


def test_releases_inside_of_an_entry_are_its_own():
    with PrivacyLedger() as ledger, entry(PURE, "outer"):
        DPOPORP(2, n_jobs=2).fit(X).transform(np.zeros((2**18, 6)))  # in two threads
    assert [entry.estimator for entry in ledger.entries] == ["outer"]


def planned():
    """A pipeline of two private steps, and the report on its fit to come."""
    model = make_pipeline(DPBinner(4, bounds=(-4, 4)), AMPClassifier(classes=[0, 1], noise="gaussian"))
    return model, privacy_report(model, X, Y)


def test_a_plan_is_one_entry_of_its_exact_total():
    model, plan = planned()
    with PrivacyLedger() as ledger:
        ledger.limit(plan.private.epsilon, plan.private.delta)
        with entry(plan):
            model.fit(X, Y)
    (released,) = ledger.entries
    assert (released.estimator, released.guarantee) == ("DPBinner + AMPClassifier", plan.private)
    assert sum(step.guarantee.epsilon for step in plan.steps if step.guarantee) > plan.private.epsilon
    report = privacy_report(model, ledger=ledger)
    assert report.private.epsilon == plan.private.epsilon
    assert report.counted == "by the ledger: one entry of DPBinner + AMPClassifier, as it was planned"


def test_a_plan_of_an_ensemble_of_one_is_one_entry_of_its_total():
    """The entry is for neighbours with the same set of labels, and the line of the one model is not."""
    model = OneVsRestClassifier(AMPClassifier(classes=[0, 1]))
    plan = privacy_report(model, X, Y)
    with PrivacyLedger() as ledger, entry(plan):
        model.fit(X, Y)
    report = privacy_report(model, ledger=ledger)
    assert report.total.epsilon == plan.total.epsilon == 1.0 and report.total.given
    assert report.counted == "by the ledger: one entry of AMPClassifier, as it was planned"


def test_no_report_calls_a_single_fit_planned():
    with PrivacyLedger() as ledger:
        model = AMPClassifier(classes=[0, 1]).fit(X, Y)
    assert privacy_report(model, ledger=ledger).counted == "by the ledger: 1 of AMPClassifier"


def test_what_a_plan_does_not_have_is_entered_by_itself():
    model, plan = planned()
    other = clone(model).set_params(ampclassifier__epsilon=0.5)
    weaker = clone(model).set_params(dpbinner__delta=1e-4)
    with PrivacyLedger() as ledger, entry(plan):
        fits = [partial(one.fit, X, Y) for one in (model, model, other, weaker)]
        for fit in fits:
            fit()
    names = [released.estimator for released in ledger.entries]
    assert names == ["DPBinner + AMPClassifier", *["DPBinner", "AMPClassifier"] * 3]
    assert [released.guarantee for released in ledger.entries[1:3]] == [model[0].guarantee_, model[1].guarantee_]
    with PrivacyLedger() as ledger, entry(plan):
        other.fit(X, Y)
    assert [released.estimator for released in ledger.entries[1:]] == ["AMPClassifier"]  # the bins were planned


def test_a_plan_holds_where_it_was_entered():
    """Not in threads, in other ledgers, for noise of nobody, or for a fit that began before."""
    model, plan = planned()
    with PrivacyLedger() as ledger, entry(plan):
        thread = threading.Thread(target=model.fit, args=(X, Y))
        thread.start()
        thread.join()
        with PrivacyLedger() as inner:
            model.fit(X, Y)
        with pytest.raises(UnrecordedNoiseError, match="no entry"):
            add_laplace([1.0], scale=1.0)
    assert [released.estimator for released in ledger.entries] == [
        "DPBinner + AMPClassifier",
        "DPBinner",
        "AMPClassifier",
    ]
    assert [released.estimator for released in inner.entries] == ["DPBinner", "AMPClassifier"]


def test_a_plan_that_is_not_known_is_not_entered():
    with pytest.raises(ValueError, match="has to be a private step"), entry(privacy_report(RidgeClassifier(), X, Y)):
        pass
    moving = make_pipeline(DPBinner(4, bounds=(-4, 4)), DPOPORP(2))
    with pytest.raises(ValueError, match="not known"), entry(privacy_report(moving, X)):
        pass


def test_a_plan_in_an_entry_belongs_to_that():
    model, plan = planned()
    with PrivacyLedger() as ledger, entry(plan.private, "outer"):
        planned_within(plan, model)
    assert [released.estimator for released in ledger.entries] == ["outer"]


def planned_within(plan, model):
    with entry(plan):
        model.fit(X, Y)


def test_a_plan_that_has_no_seed_does_not_cover_seeded_noise():
    model, plan = planned()
    refused = pytest.raises(UnrecordedNoiseError, match="seed")
    with PrivacyLedger() as ledger, entry(plan), reproducible_noise(0), refused:
        model.fit(X, Y)
    with PrivacyLedger() as ledger, reproducible_noise(0), entry(plan):
        model.fit(X, Y)
    assert [released.guarantee.seeded for released in ledger.entries] == [True]


def test_two_ledgers_both_have_it(tmp_path):
    with PrivacyLedger(tmp_path / "a") as outer:
        fit_of_nobody()
        with PrivacyLedger(tmp_path / "b") as inner:
            fit_of_nobody()
    assert (len(outer.entries), len(inner.entries)) == (2, 1)


# The file


def test_a_ledger_goes_on_where_it_ended(tmp_path):
    path = tmp_path / "spent.jsonl"
    append(path, 2)
    append(str(path), 1)
    assert len(PrivacyLedger(path).entries) == 3
    assert [json.loads(line).get("estimator") for line in path.read_text().splitlines()] == [None] + ["release"] * 3


def test_an_entry_tells_nothing_of_the_rows(tmp_path):
    lines = []
    for rows in (X, np.zeros_like(X)):
        with PrivacyLedger(tmp_path / f"{len(lines)}") as ledger:
            AMPClassifier(classes=[0, 1]).fit(rows + np.eye(24, 6), Y)
        line = json.loads(Path(ledger.path).read_text().splitlines()[1])
        lines.append({name: value for name, value in line.items() if name not in ("id", "time")})
    assert lines[0] == lines[1]
    assert set(lines[0]) == {"estimator", "guarantee", "rows"}


@pytest.mark.parametrize("damage", ["torn", "garbled", "headless"])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path, damage):
    path = tmp_path / "spent.jsonl"
    append(path, 3)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    damaged = {
        "torn": whole[:-5],
        "garbled": b"".join([*lines[:2], b"{]\n", *lines[3:]]),
        "headless": b"".join(lines[1:]),
    }[damage]
    path.write_bytes(damaged)
    expected = {"torn": "Line 4", "garbled": "Line 3", "headless": "no ledger"}[damage]
    with pytest.raises(LedgerError, match=expected):
        append(path, 1)
    assert path.read_bytes() == damaged


def test_lines_are_missed_while_a_ledger_is_open(tmp_path):
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        append(path, 3)
        assert len(ledger.entries) == 3
        path.write_bytes(cut := b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
        with pytest.raises(LedgerError, match="shorter"):
            fit_of_nobody()
        assert path.read_bytes() == cut


def test_another_file_is_not_taken_for_a_ledger(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1,2\n3,4\n")
    with pytest.raises(LedgerError, match="no ledger"), PrivacyLedger(path):
        fit_of_nobody()
    assert path.read_text() == "1,2\n3,4\n"


def test_a_full_disk_releases_nothing_and_tears_no_line(tmp_path, monkeypatch):
    path = tmp_path / "spent.jsonl"
    append(path, 1)
    before = path.read_bytes()
    write = os.write
    with PrivacyLedger(path):
        monkeypatch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:7]))
        model = AMPClassifier(classes=[0, 1])
        with pytest.raises(LedgerError, match="disk is full"):
            model.fit(X, Y)
        monkeypatch.undo()
    assert not hasattr(model, "coef_")
    assert path.read_bytes() == before


# Totals


def test_a_total_is_the_exact_composition():
    model = AMPClassifier(epsilon=0.3, delta=1e-6, classes=[0, 1])
    sketch = DPOPORP(4, epsilon=1.0, delta=1e-6, max_change=0.5).fit(X)
    with PrivacyLedger() as ledger:
        guarantees = [model.fit(X, Y).guarantee_ for _ in range(3)]
        sketch.transform(X)
    of_rows, of_changes = ledger.total()
    assert of_rows.guarantee is None
    assert of_rows.missing == {"DPOPORP": 1}
    assert of_changes.counts == {"AMPClassifier": 3, "DPOPORP": 1}
    exact = compose(*guarantees, sketch.guarantee_)
    *assumptions, once, compared, fixed = of_changes.guarantee.assumptions
    assert (*assumptions, fixed) == exact.assumptions
    assert of_changes.guarantee == replace(exact, assumptions=(*assumptions, once, compared, fixed))
    assert "at most once" in once
    assert "as they reach each release" in compared
    assert "fixed before the first release" in fixed and fixed not in of_changes.adaptive.assumptions
    assert of_changes.adaptive.epsilon == pytest.approx(1.9)
    assert of_changes.adaptive.epsilon >= 1.9 > exact.epsilon
    printed = " ".join(repr(ledger).split())
    assert "fixed before the first release" in printed
    assert "without a guarantee for these neighbours" in printed
    assumed = printed.partition("assumed - ")[2].partition(" not counted")[0].split(" - ")
    assert assumed == list(dict.fromkeys([*guarantees[0].assumptions, *sketch.guarantee_.assumptions, once]))
    assert printed.count("not counted") == ledger.total()._repr_html_().count("not counted") == 1
    assert "on other machines" in printed.partition("not counted")[2] and "scores" in printed
    assert ledger.total(delta=1e-3)[1].guarantee.epsilon == compose(*guarantees, sketch.guarantee_, delta=1e-3).epsilon


def test_definitions_do_not_add_up():
    with PrivacyLedger() as ledger:
        AMPClassifier(classes=[0, 1]).fit(X, Y)
        MIDPRegressor(epsilon=0.2).fit(X, Y)
    assert [total.guarantee for total in ledger.total()] == [None, None]
    assert [total.missing for total in ledger.total()] == [{"MIDPRegressor": 1}, {"AMPClassifier": 1}]


def test_parts_are_disjoint_and_divisions_are_not():
    with PrivacyLedger() as ledger:
        with ledger.part("train"):
            with entry(PURE), ledger.part("ignored: this is the release of train"):
                pass
            with ledger.part("young", division="age"), entry(PURE):
                pass
            with ledger.part("old", division="age"), entry(PURE):
                pass
        with ledger.part("test"), entry(PURE):
            pass
        with ledger.part("a", division="other"), entry(PURE):
            pass
        with entry(PURE):
            pass
    # train: one and the largest of two; test: one; a and all: one each
    assert ledger.total()[0].guarantee.epsilon == pytest.approx(2.0)
    assert ledger.total()[0].adaptive.epsilon == pytest.approx(2.0)


def test_a_total_of_parts_does_not_say_that_releases_of_one_part_saw_different_rows():
    with PrivacyLedger() as ledger:
        for _ in range(2):
            with ledger.part("train"), entry(PURE):
                pass
        with ledger.part("held-out"), entry(PURE):
            pass
    total = ledger.total()[0].guarantee
    assert (total.epsilon, total.n_releases, total.method) == (1.0, 3, "disjoint parts")
    about_rows = [text for text in total.assumptions if "in common" in text or "saw the same" in text]
    with_another = compose(compose(PURE, PURE), PURE, disjoint=True)  # two of three saw the same rows
    assert (*about_rows,) == tuple(text for text in with_another.assumptions if text != FIXED_BEFORE)
    assert about_rows[0].startswith("disjoint parts (of a division in a ledger, or chunks of one collection) have no ")
    of_parts = compose(compose(PURE, PURE, disjoint=True), PURE, disjoint=True)
    assert of_parts.assumptions == (*about_rows,)


def test_chunks_of_one_transform_are_disjoint():
    sketch = DPOPORP(4, epsilon=1.0, delta=1e-6).fit(X)
    with PrivacyLedger() as ledger:
        for n_jobs in (1, 2):
            transform_chunks(sketch, [X[:8], X[8:16], X[16:]], n_jobs=n_jobs)
    assert len(ledger.entries) == 6
    each = compose(*3 * [sketch.guarantee_], disjoint=True)
    total = ledger.total()[0].guarantee
    assert total == replace(compose(each, each), assumptions=total.assumptions)
    assert set(each.assumptions) < set(total.assumptions)


def test_releases_of_parts_of_the_rows_are_told_from_those_of_all():
    """Whoever reads of six releases sees that they do not all add up; for persons, who may be in each part, they do."""
    sketch = DPOPORP(4, epsilon=1.0, delta=1e-6).fit(X)
    with PrivacyLedger() as ledger:
        sketch.transform(X)
        assert "parts" not in str(ledger).partition("total")[0]
        for _ in range(2):
            transform_chunks(sketch, [X[:8], X[8:16], X[16:]])
        with ledger.part("train"), entry(PURE, "count"):
            pass
    [of_changes, of_rows] = ledger.total()
    assert of_changes.counts == {"DPOPORP": 7, "count": 1}
    of_parts = "of these saw parts of the rows, such as chunks, and those of disjoint parts do not add up"
    assert of_changes.facts()["releases"] == f"7 of DPOPORP, 1 of count; 7 {of_parts}"
    assert of_rows.facts()["releases"] == f"1 of count; 1 {of_parts}"
    of_person = replace(PURE, unit="person")
    with PrivacyLedger() as ledger, ledger.part("train"), entry(of_person, "count"):
        pass
    assert ledger.total()[0].facts()["releases"] == "1 of count"


def test_an_empty_ledger_spent_nothing():
    with PrivacyLedger() as ledger:
        pass
    assert (ledger.entries, ledger.total()) == ((), ())
    assert repr(ledger).startswith("Nothing was released")


# Limits


def gaussian(mu, delta=1e-6):
    loss = PrivacyLoss(mu=mu)
    return PrivacyGuarantee(loss.epsilon(delta), delta, adjacency=Adjacency("replace_one"), loss=loss)


def spent_at_most(ledger, guarantee, most=10**4):
    """How many releases a limit allows."""
    for number in range(most):
        try:
            with entry(guarantee):
                pass
        except LedgerError:
            return number
    raise AssertionError(f"{ledger} has no end.")


@pytest.mark.parametrize(
    ("epsilon", "limit", "allowed"), [(0.1, 1.0, 10), (0.3, 1.0, 3), (1.0, 1.0, 1), (1.01, 1.0, 0)]
)
def test_a_basic_limit_adds_up_epsilons(epsilon, limit, allowed):
    with PrivacyLedger() as ledger:
        ledger.limit(limit, delta=0.0)
        assert spent_at_most(ledger, PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency("replace_one"))) == allowed
        assert len(ledger.entries) == allowed


def test_a_limit_holds_where_each_epsilon_depends_on_the_bits_before():
    """The loss of randomised responses, on every path of bits: 1 is released as it is with odds of exp(epsilon)."""
    losses = {}
    for bits in itertools.product((0, 1), repeat=5):
        granted = []
        with PrivacyLedger() as ledger:
            ledger.limit(1.0, delta=0.0)
            for bit, before in zip(bits, (1, *bits), strict=False):
                epsilon = 0.5 if before else 0.25
                try:
                    with entry(PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency("replace_one"))):
                        granted.append((bit, epsilon))
                except LedgerError:
                    break
        losses[tuple(granted)] = sum(epsilon if bit else -epsilon for bit, epsilon in granted)
    assert {len(path) for path in losses} == {2, 3}  # when it stops depends on the bits, too
    assert (min(losses.values()), max(losses.values())) == (-1.0, 1.0)


def test_a_basic_limit_adds_up_deltas():
    with PrivacyLedger() as ledger:
        ledger.limit(100.0, 1e-5)
        assert spent_at_most(ledger, gaussian(0.1)) == 10


def test_a_gaussian_limit_allows_what_one_gaussian_is():
    """Less some hundredths for coins and sampling; and what it allows is within the limit, by exact composition."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-6, composition="gaussian")
        allowed = spent_at_most(ledger, gaussian(0.01))
        total = ledger.total(delta=1e-6)[0]
    ideal = 0.01**-2 * norm_ratio(1.0, 1e-6) ** 2
    assert 0.97 * ideal < allowed < ideal
    assert total.guarantee.epsilon <= 1.0
    assert total.adaptive.epsilon == pytest.approx(1.0)


def norm_ratio(epsilon, delta):
    return brentq(lambda mu: gaussian_profile(epsilon, scale=1 / mu) - delta, 1e-6, 10)


def test_parts_have_a_limit_each():
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0, composition="basic")
        with ledger.part("a"):
            assert spent_at_most(ledger, PURE) == 2
        with ledger.part("b"):
            assert spent_at_most(ledger, PURE) == 2
        assert spent_at_most(ledger, PURE) == 0


@pytest.mark.parametrize(
    "guarantee",
    [
        PrivacyGuarantee(0.1, 0.0, adjacency=Adjacency("add_remove")),
        PrivacyGuarantee(0.1, 0.0, adjacency=Adjacency("l1", 1.0)),
        PrivacyGuarantee(0.1, 0.0, definition="MI-DP (bits)", adjacency=Adjacency("entry", 1.0)),
        PrivacyGuarantee(0.1, 0.0),
    ],
    ids=repr,
)
def test_what_says_nothing_of_the_neighbours_is_refused(guarantee):
    with PrivacyLedger() as ledger:
        ledger.limit(10.0, delta=0.0)
        why = "it says nothing of the neighbours" if guarantee.adjacency else "the guarantee names no neighbours"
        with pytest.raises(LedgerError, match=why) as refused, entry(guarantee):
            raise AssertionError("It was released.")
    assert ledger.entries == ()
    assert "void" not in str(refused.value)


@pytest.mark.parametrize(
    ("guarantee", "why"),
    [
        (PURE.mark_seeded(), "its noise is seeded"),
        (replace(PURE, audited_epsilon=3.0), "an attack has refuted it"),
        (replace(PURE, adjacency=Adjacency("l1", 1.0), audited_epsilon=3.0), "an attack has refuted it"),
    ],
)
def test_what_is_void_is_refused_and_told_why(guarantee, why):
    with PrivacyLedger() as ledger:
        ledger.limit(10.0, delta=0.0)
        with pytest.raises(LedgerError, match=why) as refused, entry(guarantee):
            raise AssertionError("It was released.")
    assert "neighbours" not in str(refused.value) and ledger.entries == ()


@pytest.mark.parametrize(
    "sketch", [DPOPORP(4), DPSignOPORP(4, max_change=16.0), DPOPORP(4, adjacency="l2", max_change=2.0)], ids=repr
)
def test_a_sketch_is_refused_by_a_limit_for_rows_with_a_cure_that_works(sketch):
    sketch.fit(X)
    with PrivacyLedger() as ledger:
        ledger.limit(10.0, 1e-5)
        with pytest.raises(LedgerError, match="says nothing of the neighbours") as refused:
            sketch.transform(X)
    assert "ledger.limit(..., adjacency=sketch.guarantee_.adjacency)" in str(refused.value)
    with PrivacyLedger() as ledger:
        ledger.limit(10.0, 1e-5, adjacency=sketch.guarantee_.adjacency)
        sketch.transform(X)
        assert len(ledger.entries) == 1
        # A row that is replaced changes in any way, so that models count for the limit of a sketch.
        AMPClassifier(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, Y)
        assert len(ledger.entries) == 2


@pytest.mark.parametrize("adjacency", ["coordinate", "l1", "l2", "entry", Adjacency("coordinate")])
def test_a_limit_for_a_distance_says_of_which_size(adjacency):
    """Its bound was infinite, so that every sketch was refused."""
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=r"sketch\.guarantee_\.adjacency"):
        ledger.limit(1.0, delta=0.0, adjacency=adjacency)


def test_a_limit_is_fixed_before_the_first_release(tmp_path):
    path = tmp_path / "spent.jsonl"
    with PrivacyLedger(path) as ledger:
        ledger.limit(1.0, delta=0.0)
        ledger.limit(1.0, delta=0.0)
        with pytest.raises(LedgerError, match="fixed once"):
            ledger.limit(2.0, delta=0.0)
    with PrivacyLedger(path) as again:
        assert spent_at_most(again, PURE) == 2
        again.limit(1.0, delta=0.0)
    with PrivacyLedger() as late:
        with entry(PURE):
            pass
        with pytest.raises(LedgerError, match="before the first release"):
            late.limit(1.0, delta=0.0)
    with pytest.raises(LedgerError, match="open"):
        PrivacyLedger().limit(1.0, delta=0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": -1.0}, {"epsilon": float("inf")}, {"delta": 2.0}, {"composition": "gaussian"}, {"composition": "x"}],
)
def test_there_is_no_such_limit(wrong):
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=r"epsilon|composition"):
        ledger.limit(**{"epsilon": 1.0, "delta": 0.0, **wrong})


def test_a_refused_fit_learns_and_draws_nothing(monkeypatch):
    model = AMPClassifier(epsilon=2.0, classes=[0, 1])
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-2)
        monkeypatch.setattr(_noise, "random_bytes", None)
        with pytest.raises(LedgerError, match="pass the limit"):
            model.fit(X, Y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "guarantee_")


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
def test_a_refusal_says_what_is_left_and_that_is_what_fits(composition):
    """As much as is left fits, and a hundredth more does not; of other rows more may be left."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-4, composition=composition)
        with ledger.part("a"), entry(gaussian(0.1)):
            pass
        with ledger.part("b"), entry(gaussian(0.05)):
            pass
        for part in ("a", "b"):
            with ledger.part(part), pytest.raises(LedgerError, match="Left are") as refused:
                ledger.check(gaussian(2.0))
            left = re.search(r"epsilon = ([0-9.e-]+)", str(refused.value)).group(1)
            if composition == "basic":
                fits = [
                    PrivacyGuarantee(float(left) * more, 0.0, adjacency=Adjacency("replace_one"))
                    for more in (1.0, 1.01)
                ]
            else:
                mu = float(re.search(r"mu = ([0-9.e-]+)", str(refused.value)).group(1))
                assert PrivacyLoss(mu=mu).epsilon(1e-6) == pytest.approx(float(left), rel=0.02)
                fits = [gaussian(mu), gaussian(mu * 1.02)]
            with ledger.part(part):
                ledger.check(fits[0])
                with pytest.raises(LedgerError, match="pass the limit"):
                    ledger.check(fits[1])
    assert len(ledger.entries) == 2


def printed_limit(ledger):
    """The line of the limit, which text and HTML have, and totals that are asked for."""
    line = re.search(r"^limit  +(.*?)(?=^[a-z])", repr(ledger), re.MULTILINE | re.DOTALL).group(1)
    line = " ".join(line.split())
    assert html.escape(line) in ledger._repr_html_()
    assert line in " ".join(repr(ledger.total()).split())
    return line


def test_equal_names_are_one_part():
    """Members of an Enum of texts are equal to these, and print as others."""
    Clinic = Enum("Clinic", {"A": "a"}, type=str)
    with PrivacyLedger() as ledger:
        for name in (Clinic.A, "a", np.str_("a")):
            with ledger.part(name, division=name), entry(PURE):
                pass
    assert ledger.total()[0].adaptive.epsilon == 3 * PURE.epsilon


@pytest.mark.parametrize("name", [1, 1.0, True, None, b"train"])
def test_names_of_parts_are_text(name):
    """1 and 1.0 are equal, and would be two parts of a column that is of whole numbers or not, month by month."""
    with PrivacyLedger() as ledger:
        for names in ({"name": name}, {"name": "train", "division": name}):
            with pytest.raises(TypeError, match="is text"):
                ledger.part(**names)


def test_a_ledger_prints_what_is_spent_of_its_limit():
    """In numbers that are those of the limit: the exact total, which is less, leaves nothing."""
    with PrivacyLedger() as ledger:
        ledger.limit(3.0, 1e-5)
        added = "(3.0, 1e-05)-DP, one row replaced, epsilons and deltas added up as in the line adaptive; spent "
        assert printed_limit(ledger) == f"{added}(0.0, 0.0), left (3.0, 1e-05)"
        for spent, left in (("(1.5, 1e-06)", "(1.5, 9e-06)"), ("(3.0, 2e-06)", "(0.0, 8e-06)")):
            with entry(replace(PURE, epsilon=1.5, delta=1e-6)):
                pass
            assert printed_limit(ledger) == f"{added}{spent}, left {left}"
            assert repr(ledger.total()[0].adaptive).startswith(spent)
    assert "limit" not in repr(PrivacyLedger())


def test_a_limit_of_gaussian_noise_prints_what_is_left_of_it():
    """As a refusal does, and that is what fits."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-4, composition="gaussian")
        with entry(gaussian(0.1)):
            pass
        line = printed_limit(ledger)
        assert "squares of mu added up, unlike in the lines above" in line
        spent, most, left = map(float, re.findall(r"(?:mu =|of) ([0-9.]+)", line)[:3])
        assert spent == pytest.approx(0.1, rel=0.011) and spent**2 + left**2 == pytest.approx(most**2, rel=0.03)
        ledger.check(gaussian(left))
        with pytest.raises(LedgerError, match="pass the limit"):
            ledger.check(gaussian(left * 1.02))


def test_a_release_that_names_no_part_is_told_so_where_others_do():
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        with ledger.part("a"), entry(replace(PURE, epsilon=0.75)):
            pass
        with pytest.raises(
            LedgerError, match=r"It names no part, and counts for all rows: `with ledger.part\(NAME\):`"
        ):
            ledger.check(PURE)
        with ledger.part("a"), pytest.raises(LedgerError) as refused:
            ledger.check(PURE)
        assert "names no part" not in str(refused.value)
        with ledger.part("b"):
            ledger.check(PURE)


def test_a_limit_prints_what_is_left_for_each_part():
    """As much as is let pass there, and no more."""
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        for name in ("a", "b"):
            with ledger.part(name), entry(replace(PURE, epsilon={"a": 0.5, "b": 0.25}[name])):
                pass
        with entry(replace(PURE, epsilon=0.125)):
            pass
        parts = "(0.875, 0.0) for any part not listed, (0.375, 0.0) for a, (0.625, 0.0) for b"
        assert printed_limit(ledger).endswith(f"left (0.375, 0.0) for all rows, {parts}")
        for name, left in (("a", 0.375), ("b", 0.625), ("c", 0.875)):
            with ledger.part(name):
                ledger.check(replace(PURE, epsilon=left))
                with pytest.raises(LedgerError, match="pass the limit"):
                    ledger.check(replace(PURE, epsilon=left + 1e-6))


def test_a_total_of_totals_says_once_that_parameters_were_fixed():
    with PrivacyLedger() as ledger:
        for _ in range(2):
            with entry(compose(PURE, PURE)):
                pass
    assert ledger.total()[0].guarantee.assumptions.count(FIXED_BEFORE) == 1


def test_what_is_left_is_what_one_more_release_may_cost():
    """For all rows, and within the block of a part."""
    with PrivacyLedger() as ledger:
        assert ledger.left() is None
        ledger.limit(1.0, 1e-5)
        assert ledger.left() == (1.0, 1e-5)
        for _ in range(3):
            with ledger.part("a"), entry(replace(PURE, epsilon=0.1, delta=1e-6)):
                pass
        with ledger.part("b"), entry(replace(PURE, epsilon=0.2, delta=2e-6)):
            pass
        with ledger.part("b"):
            assert ledger.left() == (0.8, 8e-6)
        left = ledger.left()
        assert left == (0.7, 7e-6) and (left.epsilon, left.delta) == left
        ledger.check(replace(PURE, epsilon=left.epsilon, delta=left.delta))
        for more in ({"epsilon": left.epsilon + 1e-9}, {"delta": left.delta + 1e-14}):
            with pytest.raises(LedgerError, match="pass the limit"):
                ledger.check(replace(PURE, **{"epsilon": left.epsilon, "delta": left.delta} | more))
        with entry(replace(PURE, epsilon=left.epsilon, delta=left.delta)):
            pass
        assert ledger.left() == (0.0, 0.0)
    assert ledger.left() == (0.0, 0.0)


def test_what_is_left_of_squares_is_an_epsilon_of_gaussian_noise_at_the_delta_of_the_limit():
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-4, composition="gaussian")
        with entry(gaussian(0.1)):
            pass
        mu = norm_ratio(ledger.left().epsilon, 1e-4)
        ledger.check(gaussian(mu))
        with pytest.raises(LedgerError, match="pass the limit"):
            ledger.check(gaussian(1.02 * mu))
        assert 0 < ledger.left().delta < 1e-4


def test_of_a_limit_for_persons_the_same_is_left_of_each_part():
    """Each person may have rows in each."""
    of_persons = replace(PURE, unit="person", epsilon=0.25)
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 0.0, unit="person")
        for name in ("a", "b"):
            with ledger.part(name), entry(of_persons):
                pass
        with ledger.part("a"):
            assert ledger.left() == (0.5, 0.0)


def test_more_may_be_left_for_a_part_of_a_part_than_for_all_rows():
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        with ledger.part("a"), ledger.part("x", division="months"), entry(PURE):
            pass
    assert printed_limit(ledger).endswith("spent (0.5, 0.0), left (0.5, 0.0), of one part perhaps more")


def test_a_limit_for_rows_does_not_say_that_sums_over_persons_are_its_own():
    of_persons = replace(PURE, unit="person")
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, delta=0.0)
        for part in ("a", "b"):
            with ledger.part(part), entry(of_persons):
                pass
    assert ledger.total()[0].adaptive.epsilon == 1.0
    assert "added up; spent (0.5, 0.0), left (0.5, 0.0)" in printed_limit(ledger)


def test_a_pipeline_is_refused_as_a_whole_before_its_first_step_is_paid():
    """Its bins were, at each attempt: what is checked are the entries that a fit makes, and nothing is spent."""
    steps = DPBinner(4, bounds=(-3, 3), epsilon=0.2), AMPClassifier(epsilon=0.9, classes=[0, 1])
    model = make_pipeline(*steps)
    plan = privacy_report(model, X, Y)
    with PrivacyLedger() as ledger:
        ledger.check(plan)  # there is no limit
        ledger.limit(1.0, 1e-2)
        for _ in range(2):
            with pytest.raises(
                LedgerError, match=r"^DPBinner and AMPClassifier are not .* Left are epsilon = 1\.0 and"
            ):
                ledger.check(plan)
        assert ledger.entries == ()
        model.set_params(dpbinner__epsilon=0.1)
        ledger.check(privacy_report(model, X, Y))
        model.fit(X, Y)
        with pytest.raises(LedgerError, match=r"epsilon = 0\.0 and"):
            ledger.check(plan)
        assert [one.estimator for one in ledger.entries] == ["DPBinner", "AMPClassifier"]
        with pytest.raises(TypeError, match="a PrivacyReport or a PrivacyGuarantee, got Pipeline"):
            ledger.check(model)
        with pytest.raises(LedgerError, match=r"names no neighbours: pass adjacency=Adjacency\('replace_one'\)"):
            ledger.check(PrivacyGuarantee(0.1, 0.0))


def test_a_step_that_is_refused_says_that_those_before_it_are_paid_and_how_to_enter_all_at_once():
    model = make_pipeline(DPBinner(4, bounds=(-3, 3), epsilon=0.2), AMPClassifier(epsilon=0.9, classes=[0, 1]))
    paid, cure = "may already be paid", "`with skdprp.ledger.entry(privacy_report(model, X, y)): model.fit(X, y)`."
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-2)
        with pytest.raises(LedgerError, match="pass the limit") as first:
            AMPClassifier(epsilon=2.0, classes=[0, 1]).fit(X, Y)
        assert paid not in str(first.value)  # for nothing was
        with pytest.raises(LedgerError, match="AMPClassifier is not released") as second:
            model.fit(X, Y)
        with (
            pytest.raises(LedgerError, match=r"DPBinner \+ AMPClassifier is not released") as third,
            entry(privacy_report(model, X, Y)),
        ):
            raise AssertionError("It was released.")
    assert [one.estimator for one in ledger.entries] == ["DPBinner"]
    assert paid in str(second.value) and cure in str(second.value)
    assert paid not in str(third.value)  # it was entered at once


def test_a_plan_of_which_nobody_knows_what_it_releases_is_refused():
    plan = PrivacyReport(
        (ReportedStep("a", "Mine", "private", guarantee=PURE, calls=1),), None, ("it may do anything",)
    )
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="it may do anything"):
        ledger.check(plan)


def test_a_closed_ledger_checks_as_well(tmp_path):
    with PrivacyLedger(tmp_path / "spent.jsonl") as ledger:
        ledger.limit(1.0, delta=0.0)
    ledger.check(PURE)
    with pytest.raises(LedgerError, match="pass the limit"):
        PrivacyLedger(tmp_path / "spent.jsonl").check(PrivacyGuarantee(1.1, 0.0, adjacency=Adjacency("replace_one")))


# The prices of a filter


MODELS = [
    AMPClassifier(epsilon=0.5, classes=[0, 1]),
    AMPClassifier(epsilon=0.5, noise="product", classes=[0, 1]),
    ProductNoiseOutputPerturbation(epsilon=2.0, classes=[0, 1]),
    DPSGDClassifier(n_epochs=2, batch_size=8),
    ProductNoiseOutputPerturbation(delta=0, loss="huber_hinge", radius="gamma", classes=[0, 1]),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_price_dominates_the_profile(model):
    """Between the points where it is computed, too, and by no more than a few hundredths."""
    guarantee = clone(model).fit(X, Y).guarantee_
    ratio, coin, sampling = np.sqrt(price(guarantee).square), price(guarantee).coins, price(guarantee).sampling

    def dominating(epsilon, ratio):
        ideal = gaussian_profile(max(0.0, epsilon - 2 * sampling), scale=1 / ratio)
        return rounded_up(np.exp(sampling) * (coin + (1 - coin) * ideal))

    epsilons = np.linspace(0, 3, 397)
    profile = np.array([guarantee.profile(epsilon) for epsilon in epsilons])
    assert all(dominating(epsilon, ratio) >= delta for epsilon, delta in zip(epsilons, profile, strict=True))
    if guarantee.delta:
        assert any(dominating(epsilon, 0.9 * ratio) < delta for epsilon, delta in zip(epsilons, profile, strict=True))


def test_a_release_whose_profile_is_nearly_1_somewhere_is_priced_by_its_epsilon():
    """Product noise of four classes says next to nothing near epsilon = 0, where no Gaussian would do."""
    model = AMPClassifier(epsilon=8.0, delta=1e-6, classes=[0, 1, 2, 3])
    guarantee = model._calibration_of((1000, 1), np.dtype(float), 4).guarantee
    assert guarantee.profile(0.1) > 0.999
    assert price(guarantee) == price(replace(guarantee, loss=None)) and np.isfinite(price(guarantee).square)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0])
def test_a_pure_release_is_dominated_by_a_gaussian(epsilon):
    """By trade-off curves: that of randomised response is nowhere below that of the Gaussian, and touches it."""
    ratio = np.sqrt(price(PrivacyGuarantee(epsilon, 0.0)).square)
    alpha = np.linspace(0, 1, 10_001)[1:-1]
    response = np.maximum(1 - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - alpha))
    gaussian = norm.cdf(norm.isf(alpha) - ratio)
    assert (gaussian <= response + 1e-15).all()
    crossing = 1 / (1 + np.exp(epsilon))
    assert norm.cdf(norm.isf(crossing) - ratio) == pytest.approx(crossing, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_a_budget_is_within_its_limit(epsilon, delta):
    most = budget(epsilon, delta)

    def total(share):
        ideal = gaussian_profile(epsilon - 2 * most.sampling, scale=1 / np.sqrt(share * most.square))
        return np.exp(most.sampling) * (ideal + most.coins)

    assert total(1.0) <= delta < total(1.001)


# Reports


@pytest.mark.parametrize(
    "fit",
    [
        lambda: clone(MODEL_OF_REPORT).fit(X, Y),
        lambda: make_pipeline(DPOPORP(4), RidgeClassifier()).fit(X, Y),
        lambda: GridSearchCV(MODEL_OF_REPORT, {"epsilon": [0.1, 0.5]}, cv=FOLDS).fit(X, Y),
        lambda: GridSearchCV(make_pipeline(DPOPORP(4), RidgeClassifier()), {}, cv=FOLDS, return_train_score=True).fit(
            X, Y
        ),
        lambda: VotingClassifier([("a", make_pipeline(DPOPORP(4), RidgeClassifier()))]).fit(X, Y),
    ],
    ids=["model", "pipeline", "search", "search of sketches", "vote"],
)
def test_a_report_agrees_with_the_ledger_or_has_no_total(fit):
    with PrivacyLedger() as ledger:
        fitted = fit()
    inferred, recorded = privacy_report(fitted), privacy_report(fitted, ledger=ledger)
    assert "inferred" in inferred.counted
    assert recorded.counted.startswith("by the ledger: ")
    assert recorded.not_covered == inferred.not_covered
    assert (recorded.private, recorded.total) == (inferred.private, inferred.total)
    with PrivacyLedger() as another:
        fitted = fit()
        DPOPORP(2).fit(X).transform(X)
    assert privacy_report(fitted, ledger=another).total is None
    assert "follow from what was fitted" in privacy_report(fitted, ledger=another).not_covered[-1]


def test_a_report_says_what_to_do_with_a_ledger_that_has_other_releases_as_well():
    cure = "the ledger has other releases as well: leave `ledger=` out for this model, or read ledger.total() for all"
    binned = make_pipeline(DPBinner(3, bounds=(-3, 3)), AMPClassifier(delta=1e-6, classes=[0, 1]))
    fits = [lambda: clone(MODEL_OF_REPORT).fit(X, Y), lambda: clone(binned).fit(X, Y)]
    with PrivacyLedger() as ledger:
        fitted = [fit() for fit in fits]
        with entry(privacy_report(binned, X, Y)):
            fitted.append(clone(binned).fit(X, Y))
    for one in fitted:
        report = privacy_report(one, ledger=ledger)
        assert report.total is None and report.not_covered[-1].endswith(cure)
    with PrivacyLedger() as nothing:
        pass
    assert cure not in privacy_report(fitted[0], ledger=nothing).not_covered[-1]


def test_one_total_prints_as_text_and_as_html():
    with PrivacyLedger() as ledger, entry(PURE):
        pass
    (total,) = ledger.total()
    assert str(total) == repr(ledger) and total._repr_html_() == ledger._repr_html_()


MODEL_OF_REPORT = AMPClassifier(epsilon=0.5, delta=1e-6, classes=[0, 1])


def triangular_profile(epsilon, *, width):
    return max(0.0, 1e-6 * (1 - epsilon / width))


@pytest.mark.parametrize(
    "guarantee",
    [
        None,
        PrivacyGuarantee(1.0, 1e-6, loss=PrivacyLoss(profiles=(Profile.of(triangular_profile, width=9.0),))),
    ],
    ids=["none", "own profile"],
)
def test_what_could_not_be_read_again_is_not_written(guarantee):
    with PrivacyLedger() as ledger:
        with pytest.raises(LedgerError, match="nothing is released"), entry(guarantee):
            raise AssertionError("It was released.")
        assert ledger.entries == ()


class AtTheFirstStep:
    """A callback that makes a call at the first step of a fit."""

    def __init__(self, call):
        self.calls = [call]

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **known):
        while self.calls:
            self.calls.pop()()

    def on_fit_task_end(self, estimator, context, **known):
        pass

    teardown = setup


def descent_with(call):
    estimator = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=3)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    return estimator.set_callbacks(AtTheFirstStep(call))


def test_a_release_within_another_has_an_entry_of_its_own():
    with PrivacyLedger() as ledger:
        descent_with(fit_of_nobody).fit(X, Y)
    assert [entry.estimator for entry in ledger.entries] == ["DPSGDClassifier", "AMPClassifier"]


def test_a_seed_that_is_entered_after_the_release_was_is_refused():
    seed = reproducible_noise(0)
    with PrivacyLedger() as ledger, pytest.raises(UnrecordedNoiseError, match="seed"):
        try:
            descent_with(seed.__enter__).fit(X, Y)
        finally:
            seed.__exit__(None, None, None)
    assert len(ledger.entries) == 1


def test_without_neighbours_or_composition_there_is_no_total():
    with PrivacyLedger() as ledger:
        for _ in range(2):
            with entry(PrivacyGuarantee(1.0, 0.0)):
                pass
            iDPSignRP(2, max_change=100.0).fit(X).transform(X)
    assert [total.guarantee for total in ledger.total()] == [None, None]
    assert "not stated" in repr(ledger)


def test_the_limit_is_the_adaptive_total_where_it_is_less():
    with PrivacyLedger() as ledger:
        ledger.limit(1.0, 1e-3, composition="gaussian")
        assert spent_at_most(ledger, gaussian(0.05)) > 10
    total = ledger.total()[0]
    assert 1.0 <= total.adaptive.epsilon <= 1 + 2.0**-39
    assert 1e-3 <= total.adaptive.delta <= 1e-3 * (1 + 2.0**-39)


def test_to_look_at_a_ledger_that_is_not_there_makes_none(tmp_path):
    ledger = PrivacyLedger(tmp_path / "spent.jsonl")
    with pytest.raises(LedgerError, match="no ledger at"):
        _ = ledger.entries
    assert "not begun" in repr(ledger)
    assert list(tmp_path.iterdir()) == []


def test_noise_that_a_callback_draws_is_refused():
    """An entry is that of the fit, and not of what a callback publishes meanwhile."""
    with PrivacyLedger() as ledger, pytest.raises(UnrecordedNoiseError):
        descent_with(lambda: add_laplace([X[0, 0]], scale=1e-3)).fit(X, Y)
    assert len(ledger.entries) == 1


def leave_the_block(ledger):
    ledger.__exit__(None, None, None)


def test_a_fork_that_leaves_the_block_removes_no_entries_of_its_parent():
    """Those of a ledger without a path lie in a file that is removed at its end."""
    with PrivacyLedger() as ledger:
        child = multiprocessing.get_context("fork").Process(target=leave_the_block, args=(ledger,))
        child.start()
        child.join()
        fit_of_nobody()
    assert child.exitcode == 0
    assert len(ledger.entries) == 1


def test_a_part_is_entered_once_at_a_time():
    """A block that is its own outer one would be looked through for ever."""
    with PrivacyLedger() as ledger:
        part = ledger.part("a")
        with part, pytest.raises(RuntimeError, match="entered already"), part:
            pass
        with part, entry(PURE):
            pass
    assert [released.rows for released in ledger.entries] == [(("rows", "a"),)]


def test_nothing_is_left_of_ledgers_that_were_closed():
    """Neither markers nor what tells processes of them, while others are open."""
    with PrivacyLedger():
        with PrivacyLedger():
            pass
        assert len(_open_ledgers.open_journals()) == 1
    assert _open_ledgers.open_journals() == {}
    assert "SKDPRP_OPEN_LEDGERS" not in os.environ


def test_a_directory_of_markers_that_is_removed_while_it_is_looked_at_holds_none(monkeypatch, tmp_path):
    """The last ledger of another process was closed in between."""
    monkeypatch.setattr(_open_ledgers, "_is_safe", lambda directory: True)
    monkeypatch.setattr(_open_ledgers, "_markers", lambda: str(tmp_path / "removed"))
    assert _open_ledgers.open_journals() == {}


def test_a_directory_of_markers_that_is_removed_before_a_marker_is_in_it_is_made_again(monkeypatch, tmp_path):
    """Others remove it when the last ledger is closed, whatever one who opens another has done so far."""
    marker, is_safe, looked = tmp_path / f"markers-{os.geteuid()}" / "marker", _open_ledgers._is_safe, []

    def removed_first(directory):
        if len(looked) < 2:
            os.rmdir(directory)
        looked.append(directory)
        return is_safe(directory)

    monkeypatch.setattr(_open_ledgers, "_is_safe", removed_first)
    _open_ledgers._mark(str(marker), ("path", 1, 2))
    assert os.readlink(marker) == "1 2 path"
    assert len(looked) == 3


def test_a_printed_ledger_lists_what_each_part_has_spent():
    """A name that was spelt in two ways had a budget of its own, and nothing showed it."""
    with PrivacyLedger() as ledger:
        for part in ("train", "held-out", "heldout", "held-out"):
            with ledger.part(part), entry(PrivacyGuarantee(0.25, 0.0, adjacency=Adjacency("replace_one")), "score"):
                pass
    assert "train (0.25, 0.0), held-out (0.5, 0.0), heldout (0.25, 0.0)" in " ".join(repr(ledger).split())


def test_parts_add_up_for_one_kind_of_neighbours_and_in_each_division():
    """A row replaced costs 3.0 in part A, as it is there once and once not; 2.0 was printed."""
    with PrivacyLedger() as ledger:
        for relation, epsilon in (("add_remove", 1.0), ("replace_one", 1.0)):
            with ledger.part("A"), entry(PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency(relation)), "count"):
                pass
    assert "A (" not in repr(ledger)
    with PrivacyLedger() as ledger:
        with ledger.part("A", division="clinics"), ledger.part("May"), entry(replace(PURE, epsilon=5.0), "count"):
            pass
        with ledger.part("May"), entry(replace(PURE, epsilon=1.0), "count"):
            pass
    assert "parts May (6.0, 0.0): sums" in " ".join(repr(ledger).split())


def test_a_plan_without_a_total_warns_where_it_is_entered_or_checked():
    model = make_pipeline(StandardScaler(), AMPClassifier(classes=[0, 1]))
    plan = privacy_report(model, np.linspace(-1, 1, 40).reshape(20, 2), np.arange(20) % 2)
    with PrivacyLedger() as ledger:
        with pytest.warns(PrivacyWarning, match="standardscaler learns from the rows"):
            entry(plan)
        with pytest.warns(PrivacyWarning, match="standardscaler learns from the rows"):
            ledger.check(plan)


@pytest.mark.parametrize(
    ("stated", "warns"),
    [((0.01, 1e-6), True), ((1.0, 1e-9), True), ((1.0, 1e-6), False), ((0.9, 0.2), False), ((5.0, 0.0), True)],
)
def test_an_entry_that_states_less_than_what_is_released_in_it_warns(stated, warns, binary):
    """A limit of 1 let three fits of epsilon 5 pass within an entry of 0.01, without a word."""
    guarantee = PrivacyGuarantee(*stated, adjacency=Adjacency("replace_one"))
    model = AMPClassifier(epsilon=1.0, delta=1e-6, noise="gaussian", classes=[0, 1])
    with PrivacyLedger() as ledger, warnings.catch_warnings(record=True) as caught, entry(guarantee):
        warnings.simplefilter("always")
        model.fit(*binary)
    assert len(caught) == warns and len(ledger.entries) == 1
    assert all("has to cover all that is released in it" in str(one.message) for one in caught)


def test_a_ledger_that_is_not_to_be_created_is_refused_where_there_is_none(tmp_path, binary):
    path = tmp_path / "people.jsonl"
    with pytest.raises(LedgerError, match="There is no ledger"), PrivacyLedger(path, create=False):
        pytest.fail("it was opened")
    assert not path.exists()
    with PrivacyLedger(path) as ledger:
        AMPClassifier(classes=[0, 1]).fit(*binary)
    with PrivacyLedger(path, create=False) as ledger:
        AMPClassifier(classes=[0, 1]).fit(*binary)
    assert len(ledger.entries) == 2
    with pytest.raises(ValueError, match="give its path"):
        PrivacyLedger(create=False)


X60 = np.random.default_rng(0).normal(size=(60, 3))


Y60 = np.arange(60) % 2


PRICED_FINELY = [
    AMPClassifier(epsilon=1.0, delta=1e-4, noise="gaussian"),
    DPRidge(target_bounds=(0, 1), epsilon=4.0, delta=1e-4, mechanism="moments"),
]


@pytest.mark.parametrize("model", PRICED_FINELY, ids=lambda model: type(model).__name__)
def test_the_price_of_a_release_dominates_its_profile_between_the_cells_it_was_found_at(model):
    """A coin and Gaussian noise, with what sampling costs, tell no less than the release, wherever one looks."""
    guarantee = clone(model).fit(X60, Y60).guarantee_
    price = _filter.price(guarantee)
    for epsilon in np.geomspace(1e-3, 25, 20):
        delta = guarantee.profile(float(epsilon))
        noise = gaussian_profile(max(float(epsilon) - 2 * price.sampling, 0.0), scale=1 / math.sqrt(price.square))
        priced = math.exp(price.sampling) * (price.coins + (1 - price.coins) * noise)
        assert delta <= priced * (1 + 2.0**-31) or delta < 1e-60  # profiles are rounded up by 2^-32
