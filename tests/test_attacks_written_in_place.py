"""Attacks on models by parameters, rows and buffers that are written to in place while a fit goes on."""

import fcntl
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import HalvingGridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    MIDPRegressor,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    privacy_report,
)
from skdprp.guarantee import FIXED_BEFORE
from skdprp.mechanisms import subsampled_gaussian_profile
from skdprp.testing import reproducible_noise

KNOWN = {"delta": 1e-6, "classes": [0, 1]}


def table(seed=0, n=120):
    """Rows of a norm below 1 and their labels, which say something of each other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.4, 0.4, (n, 3))
    return X, (X[:, 0] > 0).astype(int)


# Once the row was not clipped, and its sign stood in the weights, which were as small as the row was large.
def test_a_list_of_layers_that_is_written_to_during_a_fit_leaves_no_row_unclipped(tmp_path):
    """Another thread appends to the list while the fit waits for a ledger: noise was calibrated for rows of norm 1."""
    X, y, sizes = np.zeros((1000, 1)), np.arange(1000) % 2, []
    X[-1] = 1e12
    model = DPSGDClassifier(**KNOWN, hidden_layer_sizes=sizes)
    path = tmp_path / "ledger"
    with PrivacyLedger(path), open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=model.fit, args=(X, y))
        thread.start()
        time.sleep(0.2)
        sizes.append(8)
        fcntl.flock(file, fcntl.LOCK_UN)
        thread.join()
    assert len(model.coefs_) == 2 or np.abs(model.coefs_[0]).max() > 1e-9


class Passes:
    """Chunks whose iterator does something as the second pass begins."""

    def __init__(self, parts, change):
        self.parts, self.change, self.n_passes = parts, change, 0

    def __iter__(self):
        self.n_passes += 1
        if self.n_passes == 2:
            self.change()
        yield from self.parts


@pytest.mark.parametrize("kind", ["layers", "weights", "classes"])
def test_a_parameter_that_chunks_write_to_in_the_second_pass_changes_nothing(kind):
    """What noise and guarantee rest on was read before: later passes see no list or dictionary of the caller."""
    X, y = table()
    layers, weights, classes = [], {0: 1.0, 1: 0.5}, [0, 1]
    make = {
        "layers": lambda: DPSGDClassifier(**KNOWN, hidden_layer_sizes=layers),
        "weights": lambda: AMPClassifier(**KNOWN, class_weight=weights),
        "classes": lambda: AMPClassifier(delta=1e-6, classes=classes),
    }[kind]

    def _write():
        layers.append(8)
        weights[1] = 1e9
        classes.append(7)

    fitted = []
    for change in (lambda: None, _write):
        chunks = Passes([(1000 * X[:60], y[:60]), (1000 * X[60:], y[60:])], change)
        with reproducible_noise(0):
            model = make().fit_chunks(chunks)
        fitted.append((model.coef_, model.intercept_))
    assert all(np.array_equal(one, other) for one, other in zip(*fitted, strict=True))


@pytest.mark.parametrize("model", [DPRidge(target_bounds=[0.0, 1.0], delta=1e-6), DPMoments(target_bounds=[0.0, 1.0])])
def test_bounds_that_a_generator_writes_to_between_chunks_are_those_of_the_first(model):
    """Targets of the second chunk are clipped to the bounds that the noise is for, and not to others."""
    X, y = table()
    bounds = [0.0, 1.0]

    def _chunks(bound):
        yield X[:60], y[:60]
        bounds[1] = bound
        yield X[60:], 1e6 * y[60:]

    released = []
    for bound in (1.0, 1e6):
        bounds[1] = 1.0
        with reproducible_noise(0):
            released.append(model.set_params(target_bounds=bounds).fit_chunks(_chunks(bound)).moments_)
    assert released[0].columns == released[1].columns
    np.testing.assert_array_equal(released[0].values, released[1].values)


def test_bounds_of_histograms_that_a_generator_writes_to_change_no_cell():
    """Cells are those of the first chunk, whose bounds the guarantee was calibrated for."""
    X, _ = table()
    bounds = [-1.0, 1.0]

    def _chunks():
        yield X[:60]
        bounds[:] = [-1e6, 1e6]
        yield X[60:]

    model = DPHistograms(bounds=bounds, delta=1e-6).fit_chunks(_chunks())
    assert {column.cells.bounds for column in model.histograms_.columns} == {(-1.0, 1.0)}


@pytest.mark.parametrize(
    "model",
    [
        AMPClassifier(**KNOWN),
        ProductNoiseOutputPerturbation(**KNOWN),
        DPSGDClassifier(**KNOWN),
        DPRidge(target_bounds=(0, 1), delta=1e-6, mechanism="moments"),
        DPMoments(target_bounds=(0, 1), delta=1e-6),
    ],
)
def test_chunks_in_one_buffer_are_those_of_arrays_of_their_own(model):
    """A reader fills one array again and again: nothing of a chunk is looked at once the next one is there."""
    X, y = table()
    buffer, labels = np.empty((40, 3)), np.empty(40, dtype=int)

    class _Filled:
        def __iter__(self):
            for start in (0, 40, 80):
                buffer[:], labels[:] = X[start : start + 40], y[start : start + 40]
                yield buffer, labels

    fitted = []
    for chunks in ([(X[start : start + 40], y[start : start + 40]) for start in (0, 40, 80)], _Filled()):
        with reproducible_noise(0):
            model.fit_chunks(chunks)
        fitted.append(model.moments_.values if hasattr(model, "moments_") else model.coef_)
    assert np.array_equal(*fitted)


@pytest.mark.parametrize("n_jobs", [2, None])
@pytest.mark.parametrize("kind", [AMPClassifier, ProductNoiseOutputPerturbation])
def test_one_class_after_the_other_reads_the_chunks(kind, n_jobs):
    """Threads, of `n_jobs` or of the caller's configuration, filled one buffer at the same time."""
    X, _ = table()
    y, buffer, readers = np.arange(len(X)) % 3, np.empty((40, 3)), set()

    class _Filled:
        def __iter__(self):
            readers.add(threading.get_ident())
            for start in (0, 40, 80):
                buffer[:] = X[start : start + 40]
                yield buffer, y[start : start + 40]

    model = kind(**KNOWN | {"classes": [0, 1, 2]}, multi_class="ovr", n_jobs=n_jobs)
    with parallel_config(backend="threading", n_jobs=2), reproducible_noise(0):
        of_buffer = clone(model).fit_chunks(_Filled()).coef_
    with reproducible_noise(0):
        in_order = clone(model).fit_chunks([(X[start : start + 40], y[start : start + 40]) for start in (0, 40, 80)])
    assert readers == {threading.get_ident()}
    assert np.array_equal(of_buffer, in_order.coef_)


@pytest.mark.parametrize(
    "model",
    [
        AMPClassifier(**KNOWN),
        AMPClassifier(**KNOWN, multi_class="ovr", n_jobs=2),
        DPSGDClassifier(**KNOWN),
        DPRidge(target_bounds=(0, 1), delta=1e-6),
        DPRidge(target_bounds=(0, 1), delta=1e-6, mechanism="projection", n_components=40),
        MIDPRegressor(n_components=20),
        DPSearchCV(AMPClassifier(**KNOWN), {"max_norm": [1.0]}, epsilon=1.0, delta=1e-6, n_trials=1),
    ],
)
def test_no_fit_writes_into_rows_or_labels_that_it_is_given(model):
    """Rows of norms below the limit are used as they are, others are clipped in a copy: both stand as they were."""
    for factor in (1.0, 1e3):
        X, y = table()
        X *= factor
        kept = X.copy(), y.copy()
        model.fit(X, y)
        assert np.array_equal(X, kept[0])
        assert np.array_equal(y, kept[1])


class Append:
    """A callback that writes into the parameters of a fit before its first step and at each."""

    def setup(self, estimator, context):
        """Write."""
        self._write(estimator)

    def teardown(self, estimator, context):
        """Leave all as it is."""

    def on_fit_task_begin(self, estimator, context, **known):
        """Write."""
        self._write(estimator)

    def on_fit_task_end(self, estimator, context, **known):
        """Write."""
        self._write(estimator)

    def _write(self, estimator):
        estimator.hidden_layer_sizes.append(8)
        estimator.class_weight[1] = 1e9


def test_a_callback_that_writes_into_a_list_of_layers_widens_no_row():
    """Rows were clipped and weights read before any callback is called."""
    if not hasattr(DPSGDClassifier, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    X, y = table()
    weights = []
    for callbacks in ([], [Append()]):
        model = DPSGDClassifier(**KNOWN, hidden_layer_sizes=[], class_weight={1: 0.5}, n_epochs=3)
        with reproducible_noise(0):
            weights.append(model.set_callbacks(*callbacks).fit(1000 * X, y).coefs_[0])
    assert np.array_equal(*weights)


def test_a_search_that_halves_by_epsilon_has_no_total_and_a_ledger_has_each_fit():
    """Epsilon as the resource of a search: candidates of all rounds cost what none of their parameters says."""
    X, y = table()
    search = HalvingGridSearchCV(
        AMPClassifier(**KNOWN),
        {"C": [0.01, 0.001]},
        resource="epsilon",
        min_resources=1,
        max_resources=2,
        factor=2,
        cv=KFold(2),
    )
    with PrivacyLedger() as ledger:
        search.fit(X, y)
    spent = sorted(one.guarantee.epsilon for one in ledger.entries)
    assert spent == [1.0] * 4 + [2.0] * 3
    assert privacy_report(search).private is None


@pytest.mark.parametrize("kind", ["vote", "pipeline"])
def test_a_total_with_what_was_frozen_before_says_that_parameters_were_fixed(kind):
    """Whoever froze a model may have looked at it before choosing the next epsilon: the exact total assumes not."""
    X, y = table()
    if kind == "vote":
        frozen = FrozenEstimator(AMPClassifier(**KNOWN, epsilon=2.0).fit(X, y))
        model = VotingClassifier([("before", frozen), ("now", AMPClassifier(**KNOWN))])
    else:
        model = make_pipeline(FrozenEstimator(DPPCA(2, epsilon=2.0, delta=1e-6).fit(X)), AMPClassifier(**KNOWN))
    total = privacy_report(model.fit(X, y)).total
    assert total.epsilon < 3.0
    assert FIXED_BEFORE in total.assumptions


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_step_on_nearly_all_rows_costs_no_less_than_on_half_and_no_more_than_on_all(adjacency):
    """Rates next to 1, where one sample is nearly all rows, and next to 0: deltas grow with the rate."""
    for epsilon in (0.01, 1.0, 4.0):
        deltas = [
            subsampled_gaussian_profile(epsilon, scale=1.3, rate=rate, adjacency=adjacency)
            for rate in (1e-6, 0.5, 1 - 1e-9, 1.0)
        ]
        slack = 2.0**-39
        assert all(one <= other + slack for one, other in pairwise(deltas[:3]))
        assert deltas[2] >= deltas[3] * (1 - 1e-8)
