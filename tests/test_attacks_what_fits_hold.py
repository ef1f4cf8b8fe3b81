"""Attacks on sketches, limits, bins and threads: where what was computed lies, what is refused, and what noise is."""

import gc
import os
import threading
import types
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import ThreadpoolController

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    PrivacyLedger,
    PublicScaler,
    _threads,
    compose,
    iDPSignRP,
    make_table_preprocessor,
    privacy_report,
)
from skdprp._threads import one_blas_thread
from skdprp.composition import PrivacyLoss, Profile, approximate_profile
from skdprp.guarantee import Adjacency
from skdprp.ledger import LedgerError, entry
from skdprp.ledger._filter import price
from skdprp.linear_model import _objective
from skdprp.mechanisms import gaussian_scale, randomised_response_profile, sampled_target
from skdprp.mechanisms.objective_perturbation import hessian_log_det
from skdprp.random_projection import make_projection

REPLACED = Adjacency("replace_one")
SECRETS = 0.7312345678912345 / np.array([1.0, 3.0, 7.0, 11.0])


def _table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=50), "b": rng.integers(0, 9, 50), "c": rng.choice(["x", "y"], 50)})


@pytest.mark.parametrize(
    ("where", "container"),
    [("remainder", "pandas"), ("union", "polars"), ("columns", "pandas"), ("chunks", "polars"), ("pipeline", "polars")],
)
def test_bins_that_a_dataframe_cannot_hold_enter_no_ledger(where, container):
    """Wherever the output is configured, one-hot bins are refused before anything is drawn or entered."""
    X, sparse = _table(), DPBinner(epsilon=1.0, delta=1e-6)
    if where == "remainder":
        model = make_table_preprocessor({"a": (-3, 3)}, epsilon=1.0)
        model[1].remainder.set_output(transform=container)
    elif where == "union":
        model = make_union(sparse, DPBinner(delta=1e-6, sparse_output=False)).set_output(transform=container)
    elif where == "columns":
        model = make_column_transformer((sparse, ["a", "b"])).set_output(transform=container)
    elif where == "chunks":
        model = sparse.set_output(transform=container)
    else:
        columns = make_table_preprocessor({"a": (-3, 3)}, epsilon=1.0)
        model = make_pipeline(columns, AMPClassifier(classes=[0, 1])).set_output(transform=container)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="sparse_output=False"):
        model.fit_chunks([X, X]) if where == "chunks" else model.fit(X, np.arange(50) % 2)
    assert not ledger.entries


def _reached(thing):
    """Floats and arrays that can be reached from an object, and those whose memory they are views of."""
    skipped = (types.ModuleType, types.FrameType, type, types.FunctionType, types.BuiltinFunctionType, types.CodeType)
    seen, todo = {id(thing)}, [thing]
    while todo:
        one = todo.pop()
        yield one
        others = [*gc.get_referents(one), getattr(one, "base", None), getattr(one, "__dict__", None)]
        for other in others:
            if other is not None and id(other) not in seen and not isinstance(other, skipped):
                seen.add(id(other))
                todo.append(other)


@pytest.mark.parametrize(
    "models",
    [
        (DPRandomProjection(2), DPOPORP(2), DPSignRP(2), DPSignOPORP(2), iDPSignRP(2)),
        (DPMoments(delta=1e-6, max_norm=2.0), DPPCA(2, delta=1e-6), DPHistograms(delta=1e-6), DPScaler(delta=1e-6)),
        (DPRidge(target_bounds=(0, 1), delta=1e-6), AMPClassifier(delta=1e-6), DPSGDClassifier(delta=1e-6, n_epochs=5)),
    ],
    ids=["sketches", "sums", "models"],
)
def test_nothing_that_a_fit_holds_leads_to_a_row(models):
    """No number of a row is reached from a fitted estimator, nor is it in the memory that an attribute is a view of."""
    X = np.random.default_rng(0).uniform(size=(50, 4))
    X[7] = SECRETS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = [model.fit(X, np.arange(50) % 2) for model in models]
    for one in _reached(fitted):
        if isinstance(one, float) or (isinstance(one, np.ndarray) and one.dtype.kind == "f" and one.size):
            assert not (np.abs(np.subtract.outer(one, SECRETS)) < 1e-14).any()


def test_sketches_are_no_views_of_larger_memory():
    """What is released is an array of its own: no block with plain projections lies behind it."""
    for n_rows in (1, 3000):
        X = np.random.default_rng(0).uniform(-1, 1, (n_rows, 4))
        for sketch in (DPOPORP(3), DPRandomProjection(3), DPSignRP(3), DPSignOPORP(3)):
            assert sketch.fit(X).transform(X).base is None


def test_an_array_that_was_a_parameter_can_change_without_harm():
    """A parameter that is an array of no dimensions is a number from then on: the domain is that of the guarantee."""
    change = np.array(1.0)
    sketch = DPOPORP(2, max_change=change).fit(np.eye(4))
    change[...] = 1e9
    assert sketch.max_change == sketch.guarantee_.adjacency.bound == 1.0
    with pytest.raises(ValueError, match="too coarse"):
        sketch.transform(np.eye(4) * 1e17)


@pytest.mark.parametrize("density", [1e-300, 1e-18, 1 - 2.0**-53])
def test_very_sparse_projections_of_any_density_are_what_noise_is_for(density):
    """Gaps between entries that overflow leave a W whose entries and norms are those stated."""
    for n_features, n_components in ((1, 5), (50, 64), (300, 9)):
        kind = {"projection": "very_sparse", "density": density}
        sketch = DPRandomProjection(n_components, random_state=0, **kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sketch.fit(np.zeros((1, n_features)))
        W = sketch.projection_.project(np.eye(n_features))
        assert set(np.unique(np.abs(W))) <= {0.0, sketch.projection_.max_entry}
        assert np.linalg.norm(W, axis=1).max() / np.sqrt(n_components) <= sketch.sensitivity_


def test_signs_of_distant_rows_differ_as_often_as_stated():
    """Over draws of W, the mean delta of the two worst rows is that of the binomial mixture."""
    eps, delta, n_draws, h = 2.0, 1e-2, 600, np.arcsin(0.15)
    known = {"method": "rr", "projection": "gaussian", "min_norm": 1.0, "max_change": 0.3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sketch = DPSignRP(256, epsilon=eps, delta=delta, random_state=0, **known).fit(np.zeros((1, 5)))
    rows = np.array([[np.cos(h), 0, 0, 0, np.sin(h)], [np.cos(h), 0, 0, 0, -np.sin(h)]])
    projections = [make_projection("gaussian", 5, 256, np.random.RandomState(i)) for i in range(n_draws)]
    differ = np.array([np.count_nonzero(np.diff(W.project(rows) > 0, axis=0)) for W in projections])
    share = 2 * h / np.pi
    assert abs(differ.mean() - 256 * share) < 4 * np.sqrt(256 * share * (1 - share) / n_draws)
    deltas = [randomised_response_profile(eps, epsilon0=sketch.flip_epsilon_, n_bits=int(n)) for n in differ]
    assert abs(np.mean(deltas) - delta) < 4 * np.std(deltas) / np.sqrt(n_draws)


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-5), (0.4, 1e-8)])
def test_a_limit_by_squares_holds_for_profiles_that_no_gaussian_dominates(epsilon, delta):
    """Releases that count by their epsilon, filled up by what is left, compose to no more than the limit."""
    wild = PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=95.0),))
    releases = [PrivacyGuarantee(epsilon / 40, delta / 50, adjacency=REPLACED, loss=wild)] * 3
    releases += [PrivacyGuarantee(epsilon / 30, 0.0, adjacency=REPLACED)] * 4
    assert np.isfinite(price(releases[0]).square)
    with PrivacyLedger() as ledger:
        ledger.limit(epsilon, delta, composition="gaussian")
        entered = []
        for one in releases:
            try:
                with entry(one):
                    entered.append(one)
            except LedgerError:
                break
        left = ledger.left().epsilon * (1 - 1e-9)
        last = PrivacyLoss(mu=1 / gaussian_scale(left, delta))
        with entry(PrivacyGuarantee(left, delta, adjacency=REPLACED, loss=last)):
            entered.append(PrivacyGuarantee(left, delta, adjacency=REPLACED, loss=last))
    assert len(entered) > 3
    exact = [replace(one, loss=None) if one.loss is wild else one for one in entered]
    assert compose(*exact, delta=delta).epsilon <= epsilon


@pytest.mark.parametrize("seed", range(2))
def test_the_noise_of_a_fit_is_that_of_its_profile(seed):
    """Whatever is planned from public numbers, penalty, scale and shift of the release meet the stated target."""
    rng = np.random.default_rng(seed)
    for _ in range(6):
        n_classes, n_rows, n_features = (
            int(rng.choice([2, 10])),
            int(10 ** rng.uniform(2, 9)),
            int(rng.integers(1, 300)),
        )
        known = {"epsilon": float(10 ** rng.uniform(-2, 2)), "delta": float(10 ** rng.uniform(-20, -3))}
        known |= {"adjacency": str(rng.choice(["replace_one", "add_remove"])), "noise": "gaussian"}
        model = AMPClassifier(classes=list(range(n_classes)), **known)
        model.n_features_in_ = n_features
        calibration = model._calibration_of((n_rows, n_features), np.dtype(float), n_classes)
        noise, problem = calibration.noise, calibration.problem
        shift = _objective._distance_of_solutions(problem, noise.penalty, noise.scale) / noise.release_scale
        facts = model._mechanism(problem, "gaussian", noise.count)[2]
        log_det = hessian_log_det(problem.row_loss, max_norm=problem.row_norm, penalty=noise.penalty)
        target = sampled_target(known["epsilon"], known["delta"], n_changed=_objective._n_noisy(problem))
        profile = model._mechanism(problem, "gaussian", noise.count)[0]
        found = profile(target[0], scale=noise.scale, log_det=log_det, release_shift=float(shift), **facts)
        assert found <= target[1] * (1 + 1e-9)


@pytest.mark.parametrize(("fitted_with", "set_later"), [(0.9, 0), (0.3, 1.0)])
def test_a_threshold_set_after_the_fit_does_not_take_back_what_values_have_decided(fitted_with, set_later):
    """Sparse output at a threshold of 0, or dense one at 1, is of a fit at another one: no report trusts it."""
    X = _table()
    encoder = OneHotEncoder(categories=[["x", "y"]], handle_unknown="ignore")
    steps = [("names", encoder, ["c"]), ("numbers", PublicScaler({"a": (-3, 3), "b": (0, 8)}), ["a", "b"])]
    columns = ColumnTransformer(steps, sparse_threshold=fitted_with)
    model = make_pipeline(columns, AMPClassifier(delta=1e-6, classes=[0, 1])).fit(X, np.arange(50) % 2)
    assert privacy_report(model).total is None
    assert model[0].sparse_output_ == (fitted_with == 0.9)
    assert privacy_report(model.set_params(columntransformer__sparse_threshold=set_later)).total is None


@pytest.fixture
def threads_of_blas():
    """Two threads of BLAS, and how many there are."""
    pools = ThreadpoolController().select(user_api="blas")
    if not pools.lib_controllers:
        pytest.skip("There is no BLAS whose threads are known.")
    with pools.limit(limits=2):
        yield lambda: [one.num_threads for one in pools.lib_controllers]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="There are no forks.")
def test_a_process_that_a_thread_forks_within_a_release_of_the_main_one_gives_its_blas_back(threads_of_blas):
    """The child, whose only thread was in no release, gives back all threads of BLAS at the end of its own first one.

    Whether BLAS takes them from a thread that was not the main one before the fork is up to BLAS.
    """
    before, status = threads_of_blas(), []

    def _fork():
        pid = os.fork()
        if not pid:
            given = []
            with one_blas_thread():
                _threads._BLAS._set = given.append
            os._exit(given != [numbers])
        status.append(os.waitpid(pid, 0)[1])

    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = _threads._BLAS.numbers  # of the BLAS that was loaded at the first release of all
        thread = threading.Thread(target=_fork)
        thread.start()
        thread.join()
    assert status == [0]
    assert threads_of_blas() == before
