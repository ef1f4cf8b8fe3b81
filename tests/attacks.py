"""What the attacks share: rows and labels, private steps, what they said of them, ledgers, threads and forks."""

import contextlib
import contextvars
import multiprocessing
import os
import sys
import threading
import warnings
from contextvars import Context
from functools import partial, wraps

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import log_ndtr, ndtr
from sklearn.pipeline import FeatureUnion, make_pipeline

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    PrivacyLedger,
    load_model,
    privacy_report,
    save_model,
)
from skdprp import _open_ledgers as open_ledgers
from skdprp.guarantee import Adjacency
from skdprp.ledger import LedgerError, UnrecordedNoiseError, _ledger, entry
from skdprp.mechanisms import add_laplace
from skdprp.testing._tape import played_tapes

# Rows by how many they are, and their labels


X6 = np.random.default_rng(0).normal(size=(6, 5))
X12 = np.random.default_rng(0).normal(size=(12, 8))
X12_4 = np.random.default_rng(0).normal(size=(12, 4))
X12_UNIFORM = np.random.default_rng(0).uniform(size=(12, 4))
Y12 = np.arange(12) % 2
X24 = np.random.default_rng(0).normal(size=(24, 6))
X24_POSITIVE = np.random.default_rng(0).uniform(0.01, 0.3, size=(24, 6))
X24_SMALL = np.random.default_rng(0).uniform(-0.3, 0.3, size=(24, 6))
X24_HALF = np.random.default_rng(0).uniform(-0.5, 0.5, size=(24, 6))
Y24 = np.arange(24) % 2
X60 = np.random.default_rng(0).standard_normal((60, 3))
Y60 = (X60[:, 0] > 0).astype(int)
TARGETS60 = np.clip(X60[:, 0], -1, 1)
X200 = np.random.default_rng(0).normal(size=(200, 3))
Y200 = (X200[:, 0] > 0).astype(int)
X200_UNIFORM = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
Y200_UNIFORM = (X200_UNIFORM[:, 0] > 0).astype(int)
THREE_CLASSES = np.digitize(X200_UNIFORM[:, 0], [-0.3, 0.3])
X240 = np.random.default_rng(0).uniform(-1, 1, size=(240, 4))
Y240 = (X240[:, 0] > 0).astype(int)
X400 = np.random.default_rng(0).normal(size=(400, 4)).clip(-3, 3)
Y400 = (X400[:, 0] > 0).astype(int)
WORDS = np.array([["flu"], ["cold"]] * 50, dtype=object)
WORDS[17] = "HIV"
IS_FLU = (WORDS[:, 0] == "flu").astype(int)
LEAST = 5e-324


def objects(values, dtype=object):
    return pd.Series(values, dtype=dtype)


def illnesses(n_rare):
    """Names of illnesses, of which one is rare."""
    X = np.random.default_rng(0).choice(["flu", "cold"], (200, 1)).astype(object)
    X[:n_rare] = "HIV"
    return X, (X[:, 0] == "flu").astype(int)


def mixed_table(X):
    table = pd.DataFrame(X[:, :2].copy(), columns=["a", "b"])  # before version 3 a cell that is set is one of X
    table["c"] = pd.Series(np.where(X[:, 0] > 0, "p", "q"), dtype=object)
    return table


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def stored_in_parts(X, place):
    """The same rows, of which one has an entry that is stored as two halves."""
    rows = sp.csr_matrix(X)
    first, ends = rows.indptr[place], rows.indptr.copy()
    ends[place + 1 :] += 1
    halves = np.insert(rows.data, first, rows.data[first] / 2)
    halves[first + 1] /= 2
    return sp.csr_matrix((halves, np.insert(rows.indices, first, rows.indices[first]), ends), shape=rows.shape)


def shift_in_place(X):
    X -= 1.0
    return X


# Sketches


LAPLACE_SKETCH = DPOPORP(2, epsilon=1.0, noise="laplace")
UNION = FeatureUnion([("numbers", DPOPORP(4, delta=1e-6)), ("bits", DPSignOPORP(4))])


def sketch(epsilon=1.0):
    """Return a sketch of this epsilon."""
    return DPOPORP(4, epsilon=epsilon, delta=1e-6)


def seeded_sketch(n_components=2, **options):
    return DPOPORP(n_components, random_state=0, **options)


def sketch_of_8():
    return DPOPORP(8, random_state=0)


def small_sketch(**parameters):
    return DPOPORP(2, random_state=0, **parameters).fit(np.zeros((1, 4)))


def bits_of_a_coordinate(**options):
    """A sketch whose loss is that of as many bits as a feature of the drawn projection reaches."""
    parameters = {"projection": "very_sparse", "density": 0.05, "adjacency": "coordinate", "epsilon": 4.0} | options
    return DPSignRP(16, **parameters)


def perhaps_without_delta(**options):
    """A sketch that has a delta where its projection makes the Laplace flips of a delta fewer, and none elsewhere."""
    return DPSignRP(256, projection="very_sparse", method="laplace", delta=1e-6, **options)


# Private steps and models, and noise


SPHERICAL = {"shape": 2.0, "power": 1.0}
BINARY_AMP = AMPClassifier(classes=[0, 1])
RIDGE = DPRidge(target_bounds=(0, 1), mechanism="moments")  # whose losses add up in no time


def amp(**options):
    return AMPClassifier(classes=[0, 1], delta=1e-6, **options)


def private_model(**options):
    """Return a private model whose labels are public."""
    return AMPClassifier(delta=1e-6, classes=[0, 1], **options)


def model_of_norm_2(epsilon=1.0):
    return AMPClassifier(epsilon=epsilon, delta=1e-6, classes=[0, 1], max_norm=2.0)


def model_with(**parameters):
    return AMPClassifier(delta=1e-5, **parameters)


def binary_model(**parameters):
    return AMPClassifier(**{"delta": 1e-5, "classes": [0, 1]} | parameters)


def binner_of_3():
    return DPBinner(3, bounds=(-1, 1), delta=1e-5)


def binner_of_4(epsilon=1.0):
    return DPBinner(4, bounds=(-3, 3), epsilon=epsilon, delta=1e-6, sparse_output=False)


def scaler_of_5():
    return DPScaler(epsilon=5.0, bounds=(-3, 3), delta=1e-6)


def fitted_search():
    return DPSearchCV(make_pipeline(binner_of_4(), model_of_norm_2()), {}, n_trials=1, epsilon=2.0, delta=1e-4).fit(
        X400, Y400
    )


def winner_of_a_search():
    return fitted_search().best_estimator_


def saved_and_loaded(model, folder):
    save_model(folder / "model.npz", model)
    return load_model(folder / "model.npz")


class Spy:
    """A callback that keeps what it is shown."""

    def __init__(self):
        self.shown = []

    def setup(self, estimator, context):
        """Do nothing."""

    def on_fit_task_begin(self, estimator, context, **known):
        """Keep names of attributes and arguments."""
        self.shown += [name for name in vars(estimator) if name.endswith("_")] + list(known)

    on_fit_task_end = on_fit_task_begin

    def teardown(self, estimator, context):
        """Do nothing."""


class Log(Spy):
    """A callback that writes down the weights that it is shown, and may then fail as its server does."""

    def __init__(self, fails_at=None):
        super().__init__()
        self.fails_at = fails_at

    def on_fit_task_begin(self, estimator, context, **known):
        """Do nothing."""

    def on_fit_task_end(self, estimator, context, **known):
        """Keep what the last step holds."""
        last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        if {"coef_", "components_", "mean_"} & set(vars(last)):
            self.shown.append(last)
            if getattr(last, "epsilon", None) == self.fails_at:
                raise ConnectionError


def same_numbers(values, scale, **_):
    """Write the same numbers, whatever they would have been with noise."""
    values[...] = 1000 * np.abs(np.sin(np.arange(1.0, values.size + 1))).reshape(values.shape)


# What is said of them


def fitted_and_told(sketch, n_features):
    """Fit a sketch; also return what fit said of rows that are lost in the noise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sketch.fit(np.zeros((1, n_features)))
    return sketch, next((str(one.message) for one in caught if "lost in the noise" in str(one.message)), "")


def total_of(model):
    return privacy_report(model).total


def charged(report):
    """Releases of one row that a report counts; infinitely many where it states no sum."""
    return np.inf if report.private is None else sum(step.releases for step in report.steps)


def n_moved(step, rows, neighbours):
    """Count rows other than the first, which alone was replaced, that a step gives otherwise."""
    one, other = (dense(step.transform(X)) for X in (rows, neighbours))
    return int((one[1:] != other[1:]).any(axis=1).sum())


def gaussian_delta(epsilon, mu):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def is_true_of(found, fit, a, b):
    """Whether what is printed of private steps bounds what Gaussian noise of their sketches loses of two data sets."""
    releases = []
    for rows in (a, b):
        found.clear()
        model = fit(rows)
        releases.append([projected for _, _, projected in found])
    mu = np.sqrt(sum(np.square(one - other).sum() for one, other in zip(*releases, strict=True)))
    private = privacy_report(model).private
    if private is None or any("write" in text for text in private.assumptions):
        return True
    return mu == 0 or gaussian_delta(private.epsilon, mu) <= private.delta


def assert_true(found, fit, a, b):
    """What is printed of private steps bounds what Gaussian noise of their sketches loses of two data sets."""
    releases = []
    for rows in (a, b):
        found.clear()
        model = fit(rows.copy())
        releases.append(list(found))
    mu = np.sqrt(sum(np.square(one - other).sum() for one, other in zip(*releases, strict=True)))
    total = privacy_report(model).private
    if total is not None and not any("that it has written over are not passed again" in t for t in total.assumptions):
        delta = ndtr(mu / 2 - total.epsilon / mu) - np.exp(total.epsilon + log_ndtr(-mu / 2 - total.epsilon / mu))
        assert delta <= total.delta, (delta, total)


# Ledgers


PURE = PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("replace_one"))
REFUSALS = (LedgerError, UnrecordedNoiseError)


def publish(done=None):
    """Release a number, and note that it was released."""
    with entry(PURE):
        add_laplace([1.0], scale=4.0)
    if done is not None:
        done.append(1)


def publish_once(_):
    with contextlib.suppress(*REFUSALS):
        publish()
        return 1
    return 0


def as_a_fresh_process():
    """Forget in a forked child what a process that starts anew does not know."""
    open_ledgers._OWN.clear()
    open_ledgers._TOLD.clear()
    _ledger._BOOKS.clear()


def publish_as_a_fresh_process():
    as_a_fresh_process()
    try:
        publish()
    except (*REFUSALS, OSError, ValueError):
        os._exit(0)
    os._exit(1)


def leaves_with(act, line, *, code=""):
    """Leave a block with something done before one line of that; return the ledger, and whether there was such a line.

    Counted are lines of the ledger and its journal, or of functions of one name.
    """
    n_lines = 0

    def trace(frame, event, _):
        nonlocal n_lines
        if not frame.f_code.co_filename.endswith(("_ledger.py", "_journal.py")):
            return None
        n_lines += event == "line" and frame.f_code.co_name.startswith(code)
        if n_lines == line and event == "line":
            n_lines += 1
            act()
        return trace

    ledger, before = PrivacyLedger(), sys.gettrace()
    try:
        with ledger:
            publish()
            sys.settrace(trace)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return ledger, n_lines > line


def in_a_context_of_its_own(test):
    """Run a test where no other is told which entry it left open."""

    @wraps(test)
    def _test(*args, **known):
        return Context().run(test, *args, **known)

    return _test


class Interruption(BaseException):
    """What the handler of a signal raises, such as one that limits the time of a fit."""


# Threads and forks


def in_fork(function, *args, seconds=120):
    """Run a function in a forked child, and return its exit status: negative where it had to be killed."""
    process = multiprocessing.get_context("fork").Process(target=function, args=args)
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode


def in_a_fork(function):
    child = os.fork()
    if not child:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def in_a_thread(function):
    told = []
    thread = threading.Thread(target=lambda: told.append(function()))
    thread.start()
    thread.join()
    return told[0]


def in_a_thread_with_this_context(function):
    return in_a_thread(partial(contextvars.copy_context().run, function))


ELSEWHERE = [in_a_thread, in_a_thread_with_this_context, in_a_fork]


def shift_in_mu(estimator, fit, one, other):
    """How far neighbours move all that gets Gaussian noise, if the same numbers are released, in units of mu."""
    tapes = played_tapes(fit, one, other)
    assert len(tapes[0]) == len(tapes[1]) > 0
    squares = [np.sum(((v - w) / scale) ** 2) for (_, scale, v), (_, _, w) in zip(*tapes, strict=True)]
    return np.sqrt(np.sum(squares)) / estimator.guarantee_.loss.mu
