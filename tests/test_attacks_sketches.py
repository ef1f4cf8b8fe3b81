"""Attacks on sketches through what an outside user can reach: each once told more than the guarantee, or tried to."""
# ruff: noqa: D101, D102

import asyncio
import collections
import contextlib
import contextvars
import copy
import datetime
import decimal
import gc
import itertools
import json
import math
import os
import pickle
import queue
import re
import secrets
import signal
import threading
import traceback
import types
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from joblib import parallel_config
from scipy.special import gammaln, ndtr, ndtri
from sketches import EVERY, WHOLE, computed, exact_losses_of_bits, wide
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.utils.validation import validate_data

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    PublicScaler,
    _noise,
    audit_epsilon,
    compose,
    iDPSignRP,
    load_release,
    privacy_report,
    save_release,
    similarity,
    transform_chunks,
)
from skdprp.composition import PrivacyLoss, Profile
from skdprp.mechanisms import (
    add_gaussian,
    add_laplace,
    classic_gaussian_scale,
    flip_probability,
    gaussian_profile,
    gaussian_scale,
    kenthapadi_scale,
    objective_perturbation_profile,
    product_perturbation_profile,
    sampled_target,
    softmax_perturbation_profile,
    spherical_profile,
)
from skdprp.mechanisms.radial import add_spherical
from skdprp.mechanisms.randomised_response import (
    binomial_flip_epsilon,
    randomised_response_profile,
    sign_change_probability,
)
from skdprp.random_projection import make_projection
from skdprp.release_file._file import checksum_of
from skdprp.sensitivity import l1_sensitivity, l2_sensitivity
from skdprp.sketch._base import DRAW, BaseSketch
from skdprp.testing import _private_checks, reproducible_noise

SECRET = 8675309.0
SPHERICAL = {"shape": 2.0, "power": 1.0}
LEAST = 5e-324


# What leaves beside the numbers


@pytest.mark.parametrize("sketch", [DPOPORP(2), DPSignRP(2), iDPSignRP(2)], ids=repr)
@pytest.mark.parametrize("globally", [False, True])
def test_names_of_rows_do_not_leave_with_their_sketches(sketch, globally):
    """A released frame has the index of the rows, which may be names of people, unless the guarantee says so."""
    rows = pd.DataFrame(np.eye(3), columns=list("abc"), index=["alice", "bob", "carol"])
    with sklearn.config_context(transform_output="pandas" if globally else "default"):
        sketch = clone(sketch) if globally else clone(sketch).set_output(transform="pandas")
        released = sketch.fit(rows).transform(rows)
    told = any("index" in fact for fact in sketch.guarantee_.not_covered)
    assert told or not set(released.index) & set(rows.index)


@pytest.mark.parametrize(
    "estimator",
    [
        DPRandomProjection(4),
        DPRandomProjection(projection="identity", max_change=1e6),
        DPOPORP(4, max_change=1e6),
        DPSignRP(4),
        DPSignOPORP(4, max_change=10.0),
        iDPSignRP(4),
        PublicScaler((0, 100)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("mode", ["raise", "warn"])
def test_floating_point_errors_of_the_caller_do_not_tell_rows_apart(estimator, mode):
    """Under np.seterr(all="raise"), rows 0 and 5e-324 differ for sure: one underflows, before there is noise."""
    estimator = clone(estimator).fit(np.zeros((1, 4)))
    seen = []
    for first in (0.0, LEAST):
        with np.errstate(all=mode), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                estimator.transform([[first, 0.0, 0.0, 0.0]])
                failed = ""
            except FloatingPointError as error:
                failed = str(error)
        seen.append((failed, any("underflow" in str(warning.message) for warning in caught)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("add_noise", "law"), [(add_gaussian, {}), (add_laplace, {}), (add_spherical, SPHERICAL)])
@pytest.mark.parametrize(("number", "scale"), [(LEAST, 4096.0), (1e-310, 4096.0), (1e-50, 1.0)])
def test_floating_point_errors_of_the_caller_do_not_tell_numbers_apart(add_noise, law, number, scale):
    """Under np.seterr(under="raise"), the public mechanisms failed for a number next to zero, and never for zero."""
    failed = []
    for value in (0.0, number):
        with np.errstate(all="raise"):
            try:
                add_noise([value, 1.0], scale, **law)
                failed.append("")
            except FloatingPointError as error:
                failed.append(str(error))
    assert failed[0] == failed[1]


@pytest.mark.parametrize("estimator", [DPOPORP(2), PublicScaler((0, 1))], ids=repr)
def test_warnings_of_pandas_quote_no_value(estimator):
    """Sparse columns with two fill values make pandas warn, and print what the columns are filled with."""
    columns = {
        "a": pd.arrays.SparseArray([1.0, SECRET], fill_value=SECRET),
        "b": pd.arrays.SparseArray([0.0, SECRET], fill_value=0.0),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):
            clone(estimator).fit(pd.DataFrame(columns))
    assert not any("8675309" in str(warning.message) for warning in caught)


# Parameters that nobody has checked


@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(2, adjacency="replace_one"),
        DPOPORP(2, noise="laplace", adjacency="entry"),
        DPRandomProjection(2, adjacency="add_remove"),
        DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=-1.0),
    ],
    ids=repr,
)
def test_parameters_are_checked_whatever_scikit_learn_is_told(sketch):
    """skip_parameter_validation=True: noise for a change of 1.0 was printed as that of one row replaced.

    A negative min_norm made the probability that a sign differs negative, so that no bit was flipped.
    """
    with sklearn.config_context(skip_parameter_validation=True), pytest.raises(ValueError):
        clone(sketch).fit(np.ones((3, 4)))


# A delta over the draw of the projection


def rows_that_differ_in_every_sign(sketch):
    """Two rows at l1 distance 1, of norm min_norm or more, on both sides of zero in each projection of one drawn W."""
    W = sketch.projection_.matrix
    step = np.linalg.lstsq(W.T, np.ones(W.shape[1]), rcond=None)[0]
    step *= 0.499 / abs(step).sum()
    far = np.linalg.svd(W.T, full_matrices=True)[2][-1] * sketch.min_norm * 1.01
    return far + step, far - step


def drawn(delta, random_state):
    sketch = DPSignRP(
        64, method="rr", projection="gaussian", min_norm=1e4, delta=delta, random_state=random_state, epsilon=1.0
    )
    return sketch.fit(np.ones((1, 96)))


def test_the_rows_of_the_attack_differ_in_every_sign(silenced_noise):
    """They are neighbours within the domain; for the W that they were made for, all 64 bits differ."""
    sketch = drawn(1e-9, 0)
    rows = np.array(rows_that_differ_in_every_sign(sketch))
    assert abs(rows[0] - rows[1]).sum() <= 1.0
    released = sketch.transform(rows)
    assert (released[0] == -released[1]).all()


@pytest.mark.parametrize(
    ("delta", "draws", "random_state"), [(1e-60, 2**128, None), (1e-12, 2**32, 0), (1e-9, 2**32, 0)]
)
def test_delta_is_not_below_the_chance_of_one_seed(delta, draws, random_state):
    """W is one of 2^128, and from an integer one of 2^32: rows may be the worst for one of them without knowing it.

    Their exact delta is 1 / draws times that of 64 differing bits: 3.0e-41 for a printed 1e-60, 1.6e-10 for 1e-12.
    """
    try:
        sketch = drawn(delta, random_state)
    except ValueError:
        return
    of_these_rows = randomised_response_profile(1.0, epsilon0=sketch.flip_epsilon_, n_bits=64)
    assert of_these_rows / draws <= sketch.guarantee_.delta


@pytest.mark.parametrize(
    "sketch",
    [
        DPSignRP(64, method="rr", projection="gaussian", min_norm=10.0),
        DPRandomProjection(64, projection="gaussian", calibration="analytic_bound"),
        DPRandomProjection(64, projection="gaussian", calibration="kenthapadi_bound"),
    ],
    ids=repr,
)
def test_a_delta_over_the_draw_of_a_projection_is_one_that_seeds_can_have(sketch):
    """The guarantee says what is taken as random."""
    with pytest.raises(ValueError, match=r"delta=9\.9e-10 .* 2\*\*32"):
        clone(sketch).set_params(delta=9.9e-10).fit(np.ones((1, 96)))
    guarantee = clone(sketch).set_params(delta=1e-9).fit(np.ones((1, 96))).guarantee_
    assert DRAW in guarantee.assumptions


def rows_that_differ_in_every_sign_of(sketches):
    """Two rows as :func:`rows_that_differ_in_every_sign`, for each W of several."""
    W = np.hstack([sketch.projection_.matrix for sketch in sketches])
    Q, R = np.linalg.qr(W, mode="complete")
    step = Q[:, : W.shape[1]] @ np.linalg.solve(R[: W.shape[1]].T, np.ones(W.shape[1]))
    step *= 0.499 / abs(step).sum()
    far = Q[:, -1] * sketches[0].min_norm * 1.01
    return np.array([far + step, far - step])


def test_rows_that_are_made_for_seeds_are_excluded(silenced_noise):
    """Rows of 1000 numbers can be the worst for a hundred W of 8 columns at once, and not for one of 2^32 seeds alone.

    So their exact delta over integer seeds is 7.6e-9 for a printed 1e-9, which nothing that was assumed excluded.
    """
    options = {"method": "rr", "projection": "gaussian", "min_norm": 1e4, "delta": 1e-9}
    sketches = [DPSignRP(8, random_state=seed, **options).fit(np.ones((1, 1000))) for seed in range(60)]
    rows = rows_that_differ_in_every_sign_of(sketches)
    assert abs(rows[0] - rows[1]).sum() <= 1.0
    worst = sum((np.prod(sketch.transform(rows), axis=0) == -1).all() for sketch in sketches)
    of_these_rows = randomised_response_profile(1.0, epsilon0=sketches[0].flip_epsilon_, n_bits=8)
    guarantee = sketches[0].guarantee_
    assert worst * of_these_rows / 2**32 > guarantee.delta
    assert "not by what the generator makes of any seeds" in " ".join(guarantee.assumptions)


# Rows whose rounding exceeds the noise


def numbers_that_double_a_rounding(times):
    """Numbers whose running sum, begun at 0 or at 1, ends at -2**(times - 1) or at as much above zero.

    In each binade the lower sum has an odd last bit, so that the upper one, half a step above, rounds up to the next.
    """
    numbers, low, high = [], 0.0, 1.0
    for exponent in range(53, 53 + times):
        numbers.append(2.0**exponent + 2.0 ** (exponent - 52) - low)
        low, high = low + numbers[-1], high + numbers[-1]
    return [*numbers, -low, (low - high) / 2]


@pytest.mark.parametrize("n_entries", [46340, 46341, 65536, 92681])
@pytest.mark.parametrize("sketch", [DPOPORP(1), DPOPORP(1, noise="laplace"), DPSignOPORP(1)], ids=repr)
def test_rows_of_very_many_entries_are_checked_as_others_are(sketch, n_entries):
    """From 46341 entries in a sparse row on, their number squared has more than 31 bits, and no row was refused.

    The two rows differ by 1 in one coordinate, and their sums by 2^40: noise of scale 4.2 lay around -5.5e11 or 5.5e11,
    and one bit of epsilon = 1 was positive with probability 1.1e-7 or 1 - 1.1e-7.
    """
    sketch = clone(sketch).set_params(random_state=0).fit(sp.csr_array((1, n_entries)))
    numbers = numbers_that_double_a_rounding(40)
    rows = np.full((2, n_entries), 2.0**-10)
    rows[:, 0], rows[:, 1 : 1 + len(numbers)] = [LEAST, 1.0], numbers
    rows *= 1 - 2 * (sketch.projection_.code & 1)
    assert abs(rows[0] - rows[1]).sum() <= 1.0
    for form in (sp.csr_array, sp.csc_array, np.asarray):
        try:
            before = computed(sketch, form(rows))
        except ValueError:
            continue
        assert abs(before[0] - before[1]) <= 1.001


# Released more often than it was told


def lazy_sketches():
    da = pytest.importorskip("dask.array")
    X = da.from_array(np.ones((40, 6)), chunks=(10, 6))
    return DPOPORP(4, random_state=0).fit(X).transform(X)


def array_and_frame(S):
    import dask
    import dask.dataframe as dd

    array, frame = dask.compute(S, dd.from_dask_array(S))
    return array, frame.to_numpy()


def function_of_two_arrays(S):
    import dask

    first, second = dask.delayed(lambda *both: both)(S, S + 1).compute()
    return first, second - 1


def array_and_its_sum(S):
    import dask

    array, total = dask.compute(S, dask.delayed(np.sum)(S))
    return array.sum(), total


def column_of_a_frame(S):
    frame = S.to_dask_dataframe(columns=list("abcd"))
    frame = frame.assign(e=S[:, 0]).compute()
    return frame.a, frame.e


def optimised_together(S):
    import dask

    first, second = dask.compute(*dask.optimize(S, S + 1))
    return first, second - 1


@pytest.mark.filterwarnings("ignore:Computing mixed collections")  # dask says that it may be slow
@pytest.mark.parametrize(
    "compute", [array_and_frame, function_of_two_arrays, array_and_its_sum, column_of_a_frame, optimised_together]
)
def test_one_computation_of_dask_releases_each_row_once(compute):
    """Dask optimises collections of each kind apart: one compute drew noise two or three times for every row."""
    pytest.importorskip("dask.dataframe")
    first, second = compute(lazy_sketches())
    assert np.allclose(first, second)


def test_a_graph_that_waits_for_another_releases_no_row_again():
    """What dask binds to another collection is the same by what it says, but each row was released twice.

    The guide says that one compute is one release whatever is made of the sketches.
    """
    pytest.importorskip("dask.array")
    import dask
    from dask.graph_manipulation import bind

    S = lazy_sketches()
    try:
        first, second = dask.compute(S, bind(S, S.sum()))
    except (NotImplementedError, TypeError, ValueError):
        return
    assert np.array_equal(first, second)


def test_dask_copies_no_lazy_sketches_but_what_is_made_of_them():
    """A clone releases rows again, and so does what is bound; those who omit the sketches copy the rest alone."""
    pytest.importorskip("dask.array")
    import dask
    from dask.graph_manipulation import bind, clone, wait_on

    S = lazy_sketches()
    for copied in (clone, partial(bind, parents=S.sum()), lambda S: clone(S + 1), lambda S: bind(S.T, S.sum())):
        with pytest.raises(ValueError, match="omit them, or persist them"):
            copied(S)
    later = clone(S + 1, omit=S), bind(S + 1, S.sum(), omit=S), wait_on(S) + 1
    first, *others = dask.compute(S + 1, *later)
    assert all(np.array_equal(first, other) for other in others)
    kept = S.persist()
    assert np.array_equal(*dask.compute(kept, clone(kept)))


def lazy_rows():
    """Twenty rows in one chunk, and a list that each computation of them extends by what it has read."""
    da, reads = pytest.importorskip("dask.array"), []

    def read(block):
        reads.extend(block[:, 0].tolist())
        return block

    rows = np.random.default_rng(0).normal(size=(20, 6))
    return da.from_array(rows, chunks=(20, 6)).map_blocks(read, meta=np.empty((0, 0))), reads


@pytest.mark.filterwarnings("ignore:The .numpy.may_share_memory. function is not implemented by Dask:FutureWarning")
@pytest.mark.parametrize(
    "later",
    [
        [LogisticRegression()],
        [StandardScaler(), LogisticRegression()],
        [VotingClassifier([(name, KNeighborsClassifier(1)) for name in "abcdefgh"])],
        [GridSearchCV(LogisticRegression(), {}, cv=KFold(3, shuffle=True, random_state=0))],
    ],
    ids=["model", "scaler", "voting", "search"],
)
def test_reports_charge_each_computation_of_lazy_sketches(later):
    """Steps after a sketch of dask rows computed it anew whenever they looked, and the report charged one release.

    A hundred nearest neighbours that vote keep a hundred draws of each row: two rows at distance 1, which (1.0, 1e-06)
    allows to be told apart with probabilities .12 against .33 at most, had .12 against .88.
    """
    X, reads = lazy_rows()
    model = make_pipeline(DPOPORP(4, random_state=0), *map(clone, later)).fit(X, np.arange(20) % 2)
    report = privacy_report(model)
    assert report.private is None or len(reads) <= 20 * report.steps[0].releases


def test_reports_of_sketches_of_lazy_rows_say_what_to_do():
    """Even fitted again on rows in memory: the lazy sketches of before can be computed as often as anybody likes."""
    X, _ = lazy_rows()
    sketch = DPOPORP(4, random_state=0).fit(X)
    sketch.transform(X)
    for fitted in (sketch, pickle.loads(pickle.dumps(sketch)), sketch.fit(np.ones((1, 6)))):
        report = privacy_report(fitted)
        assert report.total is None and report.private is None
        assert "compute or persist the sketches" in report.not_covered[0]
    assert privacy_report(clone(sketch).fit(X)).total.epsilon == 1.0


@pytest.mark.parametrize(
    ("sketch", "estimate"),
    [
        (DPOPORP(4), similarity.inner_products),
        (DPOPORP(4), similarity.cosines),
        (DPOPORP(4), partial(similarity.squared_distances, noise_variance=1.0)),
        (DPOPORP(4), lambda S, _: similarity.squared_norms(S, noise_variance=1.0)),
        (DPSignOPORP(4), similarity.hamming_distances),
        (DPSignOPORP(4), lambda S, T: similarity.HammingNeighbors(1).fit(S).kneighbors(T)),
    ],
    ids=["inner", "cosines", "distances", "norms", "hamming", "neighbours"],
)
def test_estimates_from_lazy_sketches_release_no_row_again(sketch, estimate):
    """Estimates cost no privacy, it is said; but norms and products were of two or three draws of each row."""
    X, reads = lazy_rows()
    sketch = clone(sketch).fit(X)
    with contextlib.suppress(TypeError, ValueError):  # it may as well refuse what is not computed
        estimate(sketch.transform(X), sketch.transform(np.ones((2, 6))))
    assert len(reads) <= 20


def fill_array(buffer, values):
    buffer[:] = values


def fill_frame(buffer, values):
    buffer.iloc[:, :] = values


def fill_sparse(buffer, values):
    buffer.data[:] = values.ravel()


FILLED = {np.asarray: fill_array, pd.DataFrame: fill_frame, sp.csr_array: fill_sparse}


@pytest.mark.parametrize("form", FILLED)
@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_rows_in_a_reused_buffer_are_sketched_once(form, n_jobs):
    """A generator fills one array again and again; with two jobs the last chunks were sketched several times."""

    def chunks():
        buffer = form(np.ones((5, 6)))
        for chunk in range(8):
            FILLED[form](buffer, np.repeat(np.arange(5 * chunk, 5 * chunk + 5.0)[:, None], 6, axis=1))
            yield buffer

    sketch = DPRandomProjection(projection="identity", epsilon=100.0, max_change=0.01).fit(np.zeros((1, 6)))
    with parallel_config("threading", n_jobs=2):  # holds where n_jobs is None
        released = transform_chunks(sketch, chunks(), n_jobs=n_jobs)
    assert np.allclose(released, np.arange(40.0)[:, None], atol=0.4)


def test_an_interrupted_run_says_how_many_rows_are_out():
    """Who stops a long run by hand has to know where to go on: a row that is sketched again is released again."""

    def chunks():
        yield np.zeros((5, 6))
        yield np.zeros((5, 6))
        raise KeyboardInterrupt

    out = np.full((20, 4), np.nan)
    with pytest.raises(KeyboardInterrupt) as caught:
        transform_chunks(DPOPORP(4).fit(np.zeros((1, 6))), chunks(), out=out)
    assert np.isfinite(out).all(axis=1).sum() == 10
    assert any("10 rows" in note for note in getattr(caught.value, "__notes__", ()))


@pytest.mark.parametrize("columns", [[0] * 5, [0, 1, 0, 1, 0], [0, -3, 0, -3, 0]])
@pytest.mark.parametrize("sketch", [DPOPORP(5, noise="laplace"), DPSignOPORP(5), DPOPORP(5)], ids=repr)
def test_columns_that_are_taken_more_than_once_are_no_change_of_one_coordinate(sketch, columns):
    """A column transformer may give a sketch a column five times: 5.0 was lost where the report said 1.0.

    The report named the distance of the rows of the table, and not of those that reach the sketch.
    """
    transformer = ColumnTransformer([("sketch", clone(sketch), columns)]).fit(np.eye(3))
    fitted, total = transformer.named_transformers_["sketch"], privacy_report(transformer).total
    rows = np.array([[0.0, 0.0, 0.0], [0.999, 0.0, 0.0]])
    moved = abs(np.diff(computed(fitted, rows[:, columns]), axis=0)[0])
    covered = moved.max() <= 1.0 and moved.sum() <= 1.0
    assert covered or total is None or total.adjacency.after or total.epsilon > 1.0 or total.adjacency.bound < 0.4


@pytest.mark.parametrize("columns", [[0, 0], [0, -3], (0, 0), np.array([2, 1, 2])], ids=repr)
@pytest.mark.parametrize("branch", [DPOPORP(1), make_pipeline(FunctionTransformer(), DPSignRP(1))], ids=repr)
def test_reports_name_the_branch_that_is_given_a_column_twice(branch, columns):
    """Whatever else is in the branch: no total, also of the private steps alone, and what to do."""
    report = privacy_report(ColumnTransformer([("twice", clone(branch), columns)]).fit(np.eye(3)))
    assert report.total is None and report.private is None
    assert report.not_covered[0].startswith("columntransformer.twice is given a column several times")


@pytest.mark.parametrize("columns", [[0, 1], [-1, 0], slice(0, 2), slice("a", "b"), [True, True, False], ["a", "c"]])
def test_reports_charge_a_column_in_two_branches_twice(columns):
    """Each branch is given it once, at the distance that its guarantee is for."""
    X, sketch = pd.DataFrame(np.eye(3), columns=list("abc")), DPOPORP(1, noise="laplace")
    both = ColumnTransformer([("first", sketch, columns), ("second", clone(sketch), ["a"])]).fit(X)
    total = privacy_report(both).total
    assert (total.epsilon, total.n_releases) == (2.0, 2)


# Noise that is shared, or of another calibration


def test_a_cached_pipeline_does_not_tell_whether_a_row_has_changed(tmp_path):
    """Pipeline(memory=...) gave the same noise again for the same rows, and other noise for a neighbour."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 6)), np.arange(20) % 2
    steps = DPOPORP(4, random_state=0), LogisticRegression()
    first, second = (make_pipeline(*steps, memory=str(tmp_path)).fit(X, y)[-1].coef_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_a_fit_in_another_thread_does_not_change_the_noise_of_a_transform(monkeypatch):
    """While rows were released for epsilon = 1, a second thread fitted for 100: later blocks had next to no noise."""
    X = np.zeros((8192, 64))
    sketch = DPOPORP(4, epsilon=1.0, random_state=0).fit(X[:1])
    scale, random_bytes, once = sketch.scale_, _noise.random_bytes, []

    def refit():
        sketch.set_params(epsilon=100.0).fit(X[:1])

    def random_bytes_while_refitting(size):
        if not once:
            once.append(threading.Thread(target=refit))
            once[0].start()
            once[0].join()
        return random_bytes(size)

    monkeypatch.setattr(_noise, "random_bytes", random_bytes_while_refitting)
    released = sketch.transform(X)
    assert (abs(released.reshape(64, -1)).mean(axis=1) > scale / 2).all()


@pytest.mark.parametrize("sketch", EVERY, ids=repr)
def test_no_array_of_a_fitted_sketch_can_be_written_to(sketch):
    """The noise is calibrated for what they hold; a copy or a pickle has arrays of its own, which are no different."""
    fitted = clone(sketch).fit(np.ones((1, 64)))
    fitted.transform(np.full((1, 64), 9.0))
    for held in (fitted, copy.copy(fitted), copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        held.transform(np.full((1, 64), 9.0))
        projections = getattr(held.projection_, "parts", [held.projection_])
        assert isinstance(projections, tuple) or len(projections) == 1
        for owner in (held, *projections):
            arrays = [value for value in vars(owner).values() if isinstance(value, np.ndarray)]
            sparse = [value for value in vars(owner).values() if sp.issparse(value)]
            arrays += [array for W in sparse for array in (W.data, W.indices, W.indptr)]
            assert not any(array.flags.writeable for array in arrays)


def test_who_works_with_a_very_sparse_matrix_does_not_change_the_sketch():
    """Each has a CSR array of its own, to which new arrays may be given instead of writing to those that it has."""
    X = sp.csr_array(np.ones((1, 64)))
    sketch = DPRandomProjection(16, projection="very_sparse", density=0.1, random_state=0).fit(X)
    with reproducible_noise(0):
        before = sketch.transform(X)
    W = sketch.projection_.matrix
    W.data = W.data * 1000
    with contextlib.suppress(ValueError):
        sketch.projection_.matrix.data *= 1000
    with reproducible_noise(0):
        assert np.array_equal(sketch.transform(X), before)


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "uniform"])
def test_who_works_with_the_public_matrix_does_not_change_the_sketch(kind):
    """Scaling projection_.matrix in place, to look at it, scaled what was released, and not its noise."""
    X = np.ones((1, 64))
    sketch = DPRandomProjection(16, projection=kind, random_state=0).fit(X)
    with reproducible_noise(0):
        before = sketch.transform(X)
    with contextlib.suppress(ValueError):
        W = sketch.projection_.matrix
        W *= 1000
    with reproducible_noise(0):
        assert np.array_equal(sketch.transform(X), before)


# What the documentation says of neighbours


def test_a_letter_for_another_is_as_far_as_the_guide_says():
    """The guide counts up to 6 trigrams for a letter; a capital I with a dot is two characters in lower case."""
    trigrams = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), norm=None, lowercase=False)
    one, other = trigrams.transform(["annaxschmidt", "anna\u0130schmidt"]).toarray()
    assert abs(one - other).sum() <= 6
    in_lower_case = clone(trigrams).set_params(lowercase=True)
    one, other = in_lower_case.transform(["annaxschmidt", "anna\u0130schmidt"]).toarray()
    assert abs(one - other).sum() == 7


GUIDE = Path(__file__).parents[1] / "doc" / "guide" / "sketches.rst"


def test_the_guide_counts_trigrams_of_an_analyzer_that_keeps_to_its_count():
    """It counts 6 for one character for another, of whatever trigrams; analyzer="char" makes one space of several tabs.

    A character in the middle of them keeps those around it, so that 3 trigrams go and 5 come. Within words, as
    "char_wb" has them, 6 is the most: tried of all short texts of a letter and two kinds of white space.
    """
    options = {"ngram_range": (3, 3), "norm": None, "lowercase": False}
    one, other = HashingVectorizer(analyzer="char", **options).transform(["a:\t\t\tanna", "a:\tx\tanna"]).toarray()
    assert abs(one - other).sum() == 8
    trigrams_of = HashingVectorizer(analyzer="char_wb", **options).build_analyzer()
    counts = {text: collections.Counter(trigrams_of("".join(text))) for text in itertools.product("a\t ", repeat=6)}
    for text, count in counts.items():
        for place, character in itertools.product(range(6), "a\t "):
            changed = counts[*text[:place], character, *text[place + 1 :]]
            assert (count - changed).total() + (changed - count).total() <= 6
    (line,) = [line for line in GUIDE.read_text().splitlines() if "trigrams of characters" in line]
    assert "char_wb" in line


# What held


def with_repeated_offsets():
    X = sp.dia_array((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])), shape=(2, 2))
    X.offsets = np.array([0, 0])
    return X, [[4, 0], [0, 6]]


def with_lists_out_of_order():
    X = sp.lil_array((1, 3))
    X.rows[0], X.data[0] = [2, 0, 2], [1.0, 2.0, 4.0]
    return X, [[2, 0, 5]]


def with_flags_that_lie():
    X = sp.csr_array((np.array([1.5, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    X.has_sorted_indices = X.has_canonical_format = True
    return X, [[2, 5.5]]


def with_large_numbers_of_another_byte_order():
    data = np.array([2**60, 7, -(2**60)], dtype=">i8")
    return sp.csr_array((data, np.zeros(3, int), np.array([0, 3])), shape=(1, 2)), [[7, 0]]


def with_python_integers():
    data = np.array([2**80, 3, -(2**80)], dtype=object)
    return sp.csr_array((data, np.zeros(3, int), np.array([0, 3])), shape=(1, 2)), [[3, 0]]


def with_repeated_blocks():
    return sp.bsr_array((np.ones((2, 1, 1)), np.array([0, 0]), np.array([0, 2])), shape=(1, 1)), [[2]]


@pytest.mark.parametrize(
    "rows",
    [
        with_repeated_offsets,
        with_lists_out_of_order,
        with_flags_that_lie,
        with_large_numbers_of_another_byte_order,
        with_python_integers,
        with_repeated_blocks,
    ],
)
def test_sparse_rows_made_by_hand_are_the_vectors_that_they_sum_to(rows):
    """Entries that scipy itself would sum in another order, in another type, or not at all."""
    X, expected = rows()
    sketch = DPRandomProjection(projection="identity", max_change=10.0).fit(X)
    assert np.array_equal(computed(sketch, X), expected)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"a": pd.array([0, 2**24 + 1], dtype="Int64"), "b": np.array([0, 1], "f4")}, 2**24 + 1),
        ({"a": np.array([0, 2**24 + 1]), "b": np.array([False, True])}, 2**24 + 1),
        ({"a": pd.arrays.SparseArray([0, 2**24 + 1]), "b": np.array([0, 1], "f4")}, 2**24 + 1),
        ({"a": pd.Categorical([3, 2**24 + 1]), "b": np.array([0, 1], "f4")}, 2**24 + 1),
        ({"a": pd.array([0, 2**53 + 1], dtype="Int64")}, 2.0**53),
    ],
)
def test_columns_of_mixed_types_are_rounded_once_to_float64(columns, expected):
    """No conversion by way of float32 or of a common type, which would round more than the domain allows for."""
    rows = pd.DataFrame(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sketch = DPRandomProjection(projection="identity", max_change=1e6).fit(rows)
        assert computed(sketch, rows)[1, 0] == expected


def profile_in_sixty_digits(epsilon, mu):
    with mpmath.workdps(60):
        epsilon, mu, root = mpmath.mpf(epsilon), mpmath.mpf(mu), mpmath.sqrt(2)
        upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return (mpmath.erfc(-upper / root) - mpmath.exp(epsilon) * mpmath.erfc(-lower / root)) / 2


def test_gaussian_scales_far_from_where_anybody_uses_them_are_private():
    """Epsilon from 1e-6 to 1e6, delta from 1e-300 to within 1e-14 of 1: no scale is short, in sixty digits."""
    rng = np.random.default_rng(1)
    for case in range(200):
        epsilon, sensitivity = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-20, 20)
        delta = 1 - 10 ** rng.uniform(-14, -1) if case % 5 == 0 else 10 ** rng.uniform(-300, -0.0001)
        scale = gaussian_scale(epsilon, delta, sensitivity=sensitivity)
        assert profile_in_sixty_digits(epsilon, mpmath.mpf(sensitivity) / mpmath.mpf(scale)) <= delta


def losses_of_bits(flip_epsilon, n_bits):
    keep = 1 / (1 + math.exp(-flip_epsilon))
    return {
        (2 * kept - n_bits) * flip_epsilon: math.comb(n_bits, kept) * keep**kept * (1 - keep) ** (n_bits - kept)
        for kept in range(n_bits + 1)
    }


def test_totals_of_sign_sketches_are_not_below_the_exact_ones():
    """All combinations of losses of up to three sketches of few bits, against the privacy loss distributions."""
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(3)
    for _ in range(6):
        fitted = [
            kind(int(rng.integers(2, 9)), epsilon=10 ** rng.uniform(-2, 1.3)).fit(np.ones((1, 9)))
            for kind in rng.choice([DPSignRP, DPSignOPORP], rng.integers(2, 4))
        ]
        losses = {0.0: 1.0}
        for sketch in fitted:
            bits = losses_of_bits(sketch.flip_epsilon_, sketch.n_components if type(sketch) is DPSignRP else 1)
            pairs = [(a + b, p * q) for a, p in losses.items() for b, q in bits.items()]
            losses = {}
            for loss, probability in pairs:
                losses[loss] = losses.get(loss, 0.0) + probability
        for delta in (1e-9, 1e-3, 0.3):
            total = compose(*(sketch.guarantee_ for sketch in fitted), delta=delta)
            exact = sum(-p * math.expm1(total.epsilon - loss) for loss, p in losses.items() if loss > total.epsilon)
            assert exact <= total.delta * (1 + 1e-12)


# Noise that does not reach as far as the guarantee says


@pytest.mark.filterwarnings("ignore:This release has no guarantee:skdprp.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [100, 500, 1000, 1e6])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_reaches_as_far_as_the_guarantee_says(noise, epsilon):
    """No sampled Gaussian is beyond 38.5 standard deviations, and no Laplace beyond 745 scales, but for infinity.

    A neighbour that lies further away than that releases what the other never does, so that no epsilon holds: of the
    (1000, 1e-06) that DPOPORP printed delta is at least .95, of (2000, 1e-06) and of a pure 1000 all but 1e-70 of 1.
    """
    sketch = DPOPORP(1, epsilon=epsilon, noise=noise, random_state=0).fit([[0.0]])
    if sketch.guarantee_.epsilon == math.inf:  # it says that it has none
        return
    moved = sketch.sensitivity_ / sketch.scale_
    if noise == "gaussian":
        never_for_the_other = ndtr(moved + ndtri(LEAST))
    else:
        beyond = moved + math.log(LEAST)
        never_for_the_other = 1 - math.exp(-beyond) / 2 if beyond > 0 else math.exp(beyond) / 2
    assert never_for_the_other <= sketch.guarantee_.delta + 2.0**-96


@pytest.mark.parametrize(("add_noise", "scale"), [(add_gaussian, gaussian_scale(1.0, 1e-6)), (add_laplace, 1.0)])
@pytest.mark.parametrize("form", [list, np.array])
def test_integers_are_not_rounded_apart_before_their_noise(add_noise, scale, form):
    """Sums of 64-bit integers that differ by 1 became floats that differ by 256, 60 standard deviations of epsilon = 1.

    A parameter that no float equals is refused; a number that is to be hidden was rounded without a word.
    """
    released = []
    for value in (2**60 + 128, 2**60 + 129):
        try:
            with reproducible_noise(0):
                released.append(add_noise(form([value]), scale)[0])
        except (TypeError, ValueError):
            return
    assert abs(released[0] - released[1]) <= 1.0


# Rows that leave as they are


@pytest.mark.parametrize(
    "joined",
    [
        ColumnTransformer([("s", DPOPORP(2), [0, 1])], remainder="passthrough", sparse_threshold=0),
        ColumnTransformer([("s", DPOPORP(2), [0, 1]), ("r", PublicScaler((-9, 9)), [2, 3])], sparse_threshold=0),
        make_union(DPOPORP(2), FunctionTransformer()),
        make_pipeline(make_union(DPOPORP(2), FunctionTransformer()), FunctionTransformer()),
    ],
    ids=["remainder", "scaled", "union", "pipeline"],
)
def test_columns_that_leave_beside_a_sketch_have_no_total(joined):
    """A sketch of some columns joined with others as they are: the report printed (1.0, 1e-06) for the whole.

    Nothing was listed as not covered, and transform gives these columns out; the guide tells how to join them.
    """
    rows = np.random.default_rng(0).uniform(-4, 4, (20, 4))
    released = clone(joined).fit(rows).transform(rows)
    assert np.allclose(np.corrcoef(released[:, -1], rows[:, -1]), 1.0)
    assert privacy_report(clone(joined).fit(rows)).total is None


def test_one_line_says_that_neighbours_are_compared_after_a_map():
    """Each column twice, and one coordinate of a row is two of those that reach the sketch, at a loss of 2.0.

    The report knows, but `total` was printed as 1.0-DP, one coordinate changed by 1.0.
    """
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    twice = make_union("passthrough", "passthrough")
    total = privacy_report(make_pipeline(twice, DPSignOPORP(6, random_state=0)).fit(rows)).total
    assert abs(np.diff(twice.fit_transform(rows), axis=0)).sum() == 2.0
    assert total is None or "leave" in repr(total) or "featureunion" in repr(total)


def test_a_file_does_not_take_rows_for_sketches_without_noise(tmp_path):
    """Where W is zero there is no noise, and all sketches are zero; the file took any rows for such sketches."""
    rows = np.random.default_rng(0).normal(size=(4, 3))
    sketch = DPRandomProjection(3, projection="very_sparse", density=1e-9, random_state=0).fit(rows)
    assert sketch.scale_ == 0
    with pytest.raises(ValueError):
        save_release(tmp_path / "rows.npz", rows, sketch)


def frames_of_polars(buffer):
    return pytest.importorskip("polars").DataFrame({name: buffer[i] for i, name in enumerate("abc")})


def frames_of_arrow(buffer):
    pyarrow = pytest.importorskip("pyarrow")
    columns = (pd.arrays.ArrowExtensionArray(pyarrow.chunked_array([pyarrow.array(row)])) for row in buffer)
    return pd.DataFrame(dict(enumerate(columns)))


@pytest.mark.parametrize("frame_of", [frames_of_polars, frames_of_arrow])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_in_frames_of_a_reused_buffer_are_sketched_once(frame_of, n_jobs):
    """Frames of polars and of Arrow are views of a NumPy array, and their copies too: rows were released three times.

    Of 40 rows in 8 chunks, with two jobs, the last chunk stood at three places, and the others were not there.
    """

    def chunks():
        buffer = np.ones((3, 5))
        for chunk in range(8):
            buffer[:] = np.arange(5 * chunk, 5 * chunk + 5.0)
            yield frame_of(buffer)

    sketch = DPRandomProjection(projection="identity", epsilon=100, max_change=0.1).fit(np.zeros((1, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of columns
        released = transform_chunks(sketch, chunks(), n_jobs=n_jobs)
    assert np.allclose(released, np.arange(40.0)[:, None], atol=0.45)


# Guarantees of other noise


def small_sketch(**parameters):
    return DPOPORP(2, random_state=0, **parameters).fit(np.zeros((1, 4)))


class RowsThatRefit:
    """Rows during whose conversion the sketch is fitted anew, as another thread may do."""

    def __init__(self, sketch):
        self.sketch = sketch

    def __array__(self, dtype=None, copy=None):
        self.sketch.set_params(epsilon=0.01).fit(np.zeros((1, 4)))
        return np.zeros((8, 4))


def test_a_release_is_entered_with_the_guarantee_of_its_own_noise():
    """A fit during a transform does not change its noise, but what was entered: .01 for a release with 100."""
    sketch = small_sketch(epsilon=100.0)
    with PrivacyLedger() as ledger:
        sketch.transform(RowsThatRefit(sketch))
    assert ledger.entries[0].guarantee.epsilon == 100.0


# Numbers of small types


@pytest.mark.parametrize("n_repeats", [1, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.bool_])
def test_projections_of_small_integers_move_as_far_as_their_sensitivity(dtype, n_repeats):
    """One more moved a bin of negative sign by 255, where l1_sensitivity says 1: the product was taken in uint8.

    Laplace noise for epsilon = 1 then tells the two rows apart but for a share of 2^-184, and add_laplace takes no
    notice, for the projection is one of float64.
    """
    W = make_projection("oporp", 16, 4, np.random.RandomState(0), n_repeats=n_repeats)
    least = 0 if dtype is np.bool_ else np.iinfo(dtype).min
    rows = np.full((17, 16), least, dtype)
    rows[np.arange(16), np.arange(16)] += dtype(1)
    projected = W.project(rows)
    if dtype is not np.int64:  # which floats do not hold
        assert np.array_equal(projected, W.project(rows.astype(np.float64)))
    moved = abs(projected[:16] - projected[16]).sum(axis=1).max() / W.divisor
    assert moved <= l1_sensitivity(W, "l1", 1.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64, np.int8, np.float16, np.float32])
def test_flip_probabilities_are_those_of_the_levels_whatever_type_these_have(dtype):
    """In an unsigned type -1 is 255: the probability was 1.0 at level 1, and a coin at level 0, an infinite loss.

    Of float16 levels, such as np.ceil makes of float16 rows, 1100 and 1101 at epsilon = .01 lost .0156.
    """
    levels = np.arange(100)
    assert np.array_equal(flip_probability(levels.astype(dtype), 0.3), flip_probability(levels, 0.3))


@pytest.mark.parametrize(("level", "epsilon"), [(1, 746.0), (2, 1e6), (2**16, 0.1), (1, 740.0)])
def test_no_flip_probability_is_below_what_floats_hold(level, epsilon):
    """It was 0 from a loss of 746 on: a sign that is never flipped has no privacy, and 746 was asked for."""
    exact = 1 / (1 + mpmath.exp(mpmath.mpf(level) * mpmath.mpf(epsilon)))
    assert exact <= mpmath.mpf(float(flip_probability(level, epsilon))) <= 1e-300


@pytest.mark.parametrize("n_changed", [-1, -(2**31), math.nan])
def test_no_number_of_values_is_negative(n_changed):
    """Sampling gave privacy then: a target of (1.5, 2e-6) for (1, 1e-6)."""
    with pytest.raises(ValueError, match="n_changed must be between 0 and inf"):
        sampled_target(1.0, 1e-6, n_changed=n_changed)


@pytest.mark.parametrize("add_noise", [add_gaussian, add_laplace, partial(add_spherical, **SPHERICAL)])
@pytest.mark.parametrize("form", [list, np.array, partial(np.array, dtype=object), pd.Series])
def test_errors_of_the_public_mechanisms_quote_no_value(add_noise, form):
    """A cell that is no number left in the error, as it did once from estimators: could not convert string to float."""
    with pytest.raises((TypeError, ValueError)) as caught:
        add_noise(form(["8675309 Elm Street", "1.0"]), 1.0)
    assert "8675309" not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__context__ is None or "8675309" not in str(caught.value.__context__)


@pytest.mark.parametrize("sensitivity", [l1_sensitivity, l2_sensitivity])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove", "entry", "L1", None])
def test_no_sensitivity_is_computed_for_neighbours_that_it_does_not_know(sensitivity, adjacency):
    """Whatever is not "l1" was taken for "l2": one row for another moved a projection by 1.0, it was said."""
    W = make_projection("oporp", 16, 4, np.random.RandomState(0))
    with pytest.raises(ValueError):
        sensitivity(W, adjacency, 1.0)


@pytest.mark.parametrize("sketch", [DPSignRP(7), DPSignOPORP(9, n_repeats=9, epsilon=2.0)], ids=repr)
def test_the_loss_of_a_bit_is_not_printed_as_less_than_it_is(sketch):
    """Numbers that nobody asked for are rounded up, says the guide; of a seventh the mechanism printed 0.142857."""
    fitted = clone(sketch).fit(np.ones((1, 64)))
    printed = re.search(r"loss (\S+) per bit", fitted.guarantee_.mechanism)[1]
    assert decimal.Decimal(printed) >= decimal.Decimal(fitted.flip_epsilon_)


@pytest.mark.parametrize("epsilon", np.geomspace(0.1, 10, 12).tolist())
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_is_not_printed_as_more_than_it_is(noise, epsilon):
    """A scale is printed from below and a sensitivity from above, both to six digits."""
    sketch = DPRandomProjection(7, epsilon=epsilon, noise=noise, random_state=0).fit(np.ones((1, 64)))
    scale, sensitivity = map(float, re.search(r"scale (\S+), sensitivity (\S+)$", sketch.guarantee_.mechanism).groups())
    assert (1 - 1e-5) * sketch.scale_ <= scale <= sketch.scale_
    assert sketch.sensitivity_ <= sensitivity <= (1 + 1e-5) * sketch.sensitivity_


# Noise that is off while the contract is checked


def bystander():
    """A function that releases two rows, and says whether they left without noise."""
    X = np.arange(8.0).reshape(2, 4)
    sketch = DPOPORP(4, epsilon=0.1, random_state=0).fit(X)
    return lambda: np.array_equal(sketch.transform(X), sketch.projection_.project(X))


def in_a_thread(function):
    told = []
    thread = threading.Thread(target=lambda: told.append(function()))
    thread.start()
    thread.join()
    return told[0]


def in_a_fork(function):
    child = os.fork()
    if not child:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def in_a_thread_with_this_context(function):
    return in_a_thread(partial(contextvars.copy_context().run, function))


ELSEWHERE = [in_a_thread, in_a_thread_with_this_context, in_a_fork]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside threads, on purpose
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_seed_holds_in_its_own_thread(elsewhere):
    """Threads that are started in a copy of the context, as all are under some configurations, drew from the seed."""
    with reproducible_noise(0):
        assert _noise.is_seeded()
        assert not elsewhere(_noise.is_seeded)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside threads, on purpose
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_releases_elsewhere_have_noise_while_the_contract_is_checked(elsewhere):
    """Checks compare what reaches the noise, and to this end they took it off, for the whole process.

    Of 178 releases of another thread during one check_private_estimator, 29 were the projected rows themselves, under
    a guarantee of epsilon = 0.1; a process that was forked meanwhile never drew any noise again.
    """
    release, bare = bystander(), []

    class Watched(DPOPORP):
        def transform(self, X):
            bare.append(elsewhere(release))
            return super().transform(X)

    with contextlib.suppress(AssertionError):
        dict(_private_checks(Watched(4)))["storage_is_irrelevant"]()
    assert bare and not any(bare)


def test_two_contracts_that_are_checked_at_once_leave_the_noise_on(monkeypatch):
    """The second one began while the noise was off, and put that back when it ended: no release had noise any more.

    Two threads with check_private_estimator did this at the first or second time, and nothing said so.
    """
    for sampler in ("_add", "add_spherical", "flip"):
        monkeypatch.setattr(_noise, sampler, getattr(_noise, sampler))  # which this test puts back, whatever happens
    second_has_begun, first_has_ended = threading.Event(), threading.Event()

    class First(DPOPORP):
        def transform(self, X):
            if not second_has_begun.is_set():
                thread.start()
                second_has_begun.wait(60)
            return super().transform(X)

    class Second(DPOPORP):
        def transform(self, X):
            if not second_has_begun.is_set():
                second_has_begun.set()
                first_has_ended.wait(60)
            return super().transform(X)

    def check(estimator):
        with contextlib.suppress(AssertionError):
            dict(_private_checks(estimator))["storage_is_irrelevant"]()

    thread = threading.Thread(target=check, args=(Second(4),))
    check(First(4))
    first_has_ended.set()
    thread.join()
    assert not bystander()()


# What the contract of private estimators overlooks


KEPT = {
    "the keys of a dictionary": lambda X: dict.fromkeys(X.ravel().tolist(), True),
    "a list of the large ones": lambda X: [value for value in X.ravel().tolist() if value > 0.7],
    "a method of a list": lambda X: X.ravel().tolist().index,
    "a function": lambda X: lambda i: X[i],
}


@pytest.mark.parametrize("kept", KEPT)
def test_the_contract_sees_rows_wherever_an_estimator_keeps_them(kept):
    """Its check of attributes compared parts that two neighbours have in common, and looked into no function.

    So check_private_estimator passed who keeps a whole column as the keys of a dictionary, as a vocabulary is kept.
    """

    class Keeping(DPOPORP):
        def transform(self, X):
            released = super().transform(X)
            self.kept_ = KEPT[kept](np.asarray(X))
            return released

    check = dict(_private_checks(Keeping(4)))["attributes_hold_nothing_of_the_rows"]
    with pytest.raises(AssertionError, match="kept_"):
        check()


# What held as well


def stored(S):
    import dask.array as da

    first, second = np.empty(S.shape), np.empty(S.shape)
    da.store([S, S + 1], [first, second])
    return first, second - 1


def blocks_that_are_delayed(S):
    import dask

    whole, *blocks = dask.compute(S, *S.to_delayed().ravel())
    return whole, np.vstack(blocks)


def arrays_of_delayed_blocks(S):
    import dask
    import dask.array as da

    parts = [da.from_delayed(block, (10, 4), float) for block in S.to_delayed(optimize_graph=False).ravel()]
    return dask.compute(S, da.concatenate(parts))


def other_chunks(S):
    import dask

    whole, rechunked, product = dask.compute(S, S.rechunk((7, 3)), S.T @ S)
    assert np.allclose(whole.T @ whole, product)
    return whole, rechunked


def nested_in_containers(S):
    import dask
    import dask.dataframe as dd

    result, frame = dask.compute({"a": [S, (S + 1, 2)]}, dd.from_dask_array(S).repartition(npartitions=2))
    assert np.array_equal(result["a"][0], frame.to_numpy())
    return result["a"][0], result["a"][1][0] - 1


@pytest.mark.filterwarnings("ignore:Computing mixed collections")  # dask says that it may be slow
@pytest.mark.parametrize(
    "compute", [stored, blocks_that_are_delayed, arrays_of_delayed_blocks, other_chunks, nested_in_containers]
)
def test_whatever_else_one_computation_makes_of_lazy_sketches_is_one_release(compute):
    """Stores, delayed blocks before and after they are optimised, other chunks, containers."""
    pytest.importorskip("dask.dataframe")
    first, second = compute(lazy_sketches())
    assert np.allclose(first, second)


def exact_delta(epsilon, mu, flips):
    """Delta of Gaussian noise and flipped bits together, (epsilon0, number of bits) each: a mixture over the bits."""
    losses, weights = np.zeros(1), np.ones(1)
    for flip_epsilon, n_bits in flips:
        more = losses_of_bits(flip_epsilon, n_bits)
        losses = np.add.outer(losses, list(more)).ravel()
        weights = np.multiply.outer(weights, list(more.values())).ravel()
    return weights @ [gaussian_profile(float(epsilon - loss), scale=1.0, sensitivity=mu) for loss in losses]


@pytest.mark.parametrize(
    ("mu", "flips"),
    [
        (0.01, [(4.0, 2)]),
        (5.0, [(1e-4, 3), (0.5, 4)]),
        (0.3, [(0.07, 9)]),
        (1e-3, [(1e-3, 5), (2.0, 1)]),
        (3.0, [(12.0, 1), (1e-5, 2)]),
    ],
)
def test_totals_of_gaussian_noise_and_flipped_bits_are_not_below_the_exact_ones(mu, flips):
    """Losses five orders apart, and epsilons from 0 to beyond the likely ones."""
    pytest.importorskip("dp_accounting")
    bits = [Profile.of(randomised_response_profile, epsilon0=loss, n_bits=n_bits) for loss, n_bits in flips]
    total = PrivacyLoss(mu=mu, profiles=tuple(bits))
    for epsilon in np.linspace(0, 6 * mu + sum(math.prod(flip) for flip in flips), 6):
        exact, bound = exact_delta(epsilon, mu, flips), total.profile(epsilon)
        assert exact * (1 - 1e-9) - 1e-15 <= bound <= 1.01 * exact + 1e-9


def with_an_entry_outside():
    X = sp.csr_array(np.array([[8675309.0, 1.0]]))
    X.indices[1] = 8675309
    return X


class Raises:
    """A cell that raises what begins as an error of a library that quotes no values."""

    def __float__(self):
        raise ValueError("Found array with 8675309")


STRANGE = [
    np.full((1, 1, 2), SECRET),
    SECRET,
    b"8675309",
    sp.coo_array(np.array([SECRET, 0.0])),
    [{8675309, 1}],
    {"a": [8675309], "b": [1]},
    [[complex(8675309, 1), 1]],
    sp.csr_array([[8675309 + 1j, 1]]),
    [[b"n8675309", 1]],
    [[10**400 + 8675309, 1]],
    [[decimal.Decimal("sNaN8675309"), 1]],
    np.array([[np.array([8675309, 1]), 1]], dtype=object),
    [[8675309], [1, 8675309]],
    pd.DataFrame({"a": pd.arrays.IntervalArray.from_tuples([(0, 8675309)]), "b": 1}),
    pd.DataFrame({"a": pd.PeriodIndex(["8675-09"], freq="M"), "b": 1}),
    pd.DataFrame({"a": pd.Categorical(["n8675309"]), "b": 1}),
    pd.DataFrame([[8675309, "n8675309"]], columns=["a", "a"]),
    pd.Series([SECRET, 1.0]),
    [[datetime.timedelta(8675309), 1]],
    with_an_entry_outside(),
    [[Raises(), 1]],
]


@pytest.mark.parametrize("X", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_what_is_no_table_of_numbers_is_refused_and_not_quoted(X, method):
    """Neither in the error nor in those that it came from, nor in a warning."""
    sketch = DPOPORP(2).fit(np.ones((1, 2)))
    with warnings.catch_warnings(record=True) as caught, pytest.raises((TypeError, ValueError)) as error:
        warnings.simplefilter("always")
        getattr(sketch, method)(X)
    said = [str(warning.message) for warning in caught]
    said += [str(one) for one in (error.value, error.value.__cause__, error.value.__context__)]
    assert not any("8675" in text for text in said)


# Seeds and tapes that outlive their block


def in_a_context_that_was_copied():
    with reproducible_noise(0):
        inside = contextvars.copy_context()
    return inside.run(_noise.is_seeded)


def in_a_task_that_began_inside():
    async def serve(is_left):
        await is_left.wait()
        return _noise.is_seeded()

    async def main():
        is_left = asyncio.Event()
        with reproducible_noise(0):
            task = asyncio.create_task(serve(is_left))
        is_left.set()
        return await task

    return asyncio.run(main())


def in_a_thread_that_came_later():
    def enter():
        with reproducible_noise(0):
            kept.append(contextvars.copy_context())

    for _ in range(20):  # a new thread mostly has the name of one that has ended
        kept = []
        in_a_thread(enter)
        if in_a_thread(partial(kept[0].run, _noise.is_seeded)):
            return True
    return False


def seeded_numbers(seed):
    with reproducible_noise(seed):
        yield from range(3)


def after_two_generators():
    for _ in zip(seeded_numbers(0), seeded_numbers(1), strict=False):
        pass
    gc.collect()
    return _noise.is_seeded()


def after_a_generator_that_another_thread_closed():
    numbers = seeded_numbers(0)
    next(numbers)

    def close():
        with contextlib.suppress(ValueError):
            numbers.close()

    in_a_thread(close)
    return _noise.is_seeded()


@pytest.mark.parametrize(
    "later",
    [
        in_a_context_that_was_copied,
        in_a_task_that_began_inside,
        in_a_thread_that_came_later,
        after_two_generators,
        after_a_generator_that_another_thread_closed,
    ],
)
def test_a_seed_ends_with_its_block(later):
    """Whatever copied the context inside drew from the seed for good, and so did a thread of the same name.

    Two generators in step, zip(figure(0), figure(1)), left the main thread seeded: all noise later was that of
    default_rng(0), which a guarantee tells, and add_gaussian does not.
    """
    assert not contextvars.copy_context().run(later)  # in which a seed that is left behind stays


def test_noise_is_on_again_when_the_contract_has_been_checked():
    """Callbacks run in a copy of the context in which they were made, and there the tape had no end.

    Of an estimator that makes a task in `transform`, whatever the task released after the check left without noise.
    """
    contexts = []

    class Serving(DPOPORP):
        def transform(self, X):
            contexts.append(contextvars.copy_context())
            return super().transform(X)

    with contextlib.suppress(AssertionError):
        dict(_private_checks(Serving(4)))["storage_is_irrelevant"]()
    values = np.full(8, 0.125)
    assert contexts and not any(np.array_equal(context.run(add_gaussian, values, 1.0), values) for context in contexts)


def test_no_release_without_noise_goes_unmarked():
    """A generator that began in a seed before a check, and ended in it, took the mark away and left the noise off.

    Rows left as their projection, under a guarantee of epsilon = 0.1 that said nothing of a seed.
    """
    X = np.arange(8.0).reshape(2, 4)
    sketch = DPOPORP(4, epsilon=0.1, random_state=0).fit(X)
    seeded, unmarked = [], []

    class Dropping(DPOPORP):
        def transform(self, X_of_the_check):
            seeded.clear()
            is_bare = np.array_equal(sketch.transform(X), sketch.projection_.project(X))
            unmarked.append(is_bare and not sketch.guarantee_.seeded)
            return super().transform(X_of_the_check)

    def check():
        seeded.append(seeded_numbers(0))
        next(seeded[0])
        with contextlib.suppress(AssertionError):
            dict(_private_checks(Dropping(4)))["storage_is_irrelevant"]()

    contextvars.copy_context().run(check)
    assert unmarked and not any(unmarked)


# Rows that are scaled twice, and signs that are never flipped


def test_lazy_rows_pass_the_transform_of_a_subclass_once():
    """Chunks were released by the transform of the subclass, which had been passed already.

    Rows were multiplied by 10000, and neighbours 100 times as far apart as the noise is calibrated for.
    """
    da = pytest.importorskip("dask.array")
    rows = np.ones((4, 2))

    class InCents(DPRandomProjection):
        def transform(self, X):
            return super().transform(X * 100)

    sketch = InCents(projection="identity", max_change=1e-3, epsilon=100).fit(rows)
    with contextlib.suppress(NotImplementedError, TypeError):
        assert np.allclose(sketch.transform(da.from_array(rows, chunks=2)).compute(), sketch.transform(rows), atol=0.01)


@pytest.mark.filterwarnings("ignore:This release has no guarantee:skdprp.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [900.0, 1000.0, 1e4, 1e6])
def test_noise_before_a_sign_reaches_as_far_as_the_guarantee_says(epsilon):
    """Held fixed, the noise of a row at 1 never reached the sign that a neighbour at 0 has half of the time.

    At a printed (1000, 1e-06) a sign that nobody ever sees of one row has probability 1/2 for the other: delta is 1/2.
    """
    sketch = iDPSignRP(1, epsilon=epsilon, projection="oporp").fit([[0.0]])
    furthest = 1 / sketch.scale_  # the edge of where signs have noise, in standard deviations
    assert sketch.guarantee_.epsilon == math.inf or furthest <= -ndtri(LEAST)


# Numbers that are no log-determinant and no number of problems


@pytest.mark.parametrize(
    ("profile", "known"),
    [
        (objective_perturbation_profile, {"log_det": -0.5}),
        (objective_perturbation_profile, {"log_det": math.nan}),
        (objective_perturbation_profile, {"n_outputs": 0}),
        (softmax_perturbation_profile, {"n_classes": 10, "log_det": -5.0}),
        (softmax_perturbation_profile, {"n_classes": 1}),
        (partial(product_perturbation_profile, n_dims=3), {"log_det": -5.0}),
        (partial(product_perturbation_profile, n_dims=3), {"n_vertices": 0}),
    ],
)
def test_no_log_determinant_gives_privacy(profile, known):
    """As no number of sampled values does; those of a penalty below 0 are negative, and delta was 0.0 for some."""
    with pytest.raises(ValueError):
        profile(1.0, scale=3.0, **known)


# What dask makes of lazy sketches, which held as well


def sketches_and_their_bag(S):
    import dask
    import dask.bag

    parts = dask.bag.from_delayed(list(S.to_delayed(optimize_graph=False).ravel()))
    whole, rows = dask.compute(S, parts.map(lambda row: row).filter(len), scheduler="sync")
    return whole, np.vstack(rows)


def sketches_and_their_factors(S):
    import dask
    import dask.array as da

    whole, u, s, v = dask.compute(S, *da.linalg.svd(S))
    return whole, (u * s) @ v


def sketches_with_their_neighbours(S):
    import dask
    import dask.array as da

    around = da.overlap.overlap(S, depth={0: 2}, boundary="none")
    return dask.compute(S, da.overlap.trim_internal(around, {0: 2}, boundary="none"))


def frame_joined_with_itself(S):
    import dask.dataframe as dd

    frame = dd.from_dask_array(S, columns=list("abcd")).reset_index()
    joined = dd.merge(frame, frame, on="index").compute().sort_values("index")
    return joined[["a_x", "d_x"]].to_numpy(), joined[["a_y", "d_y"]].to_numpy()


@pytest.mark.filterwarnings("ignore:Computing mixed collections")  # dask says that it may be slow
@pytest.mark.parametrize(
    "compute",
    [sketches_and_their_bag, sketches_and_their_factors, sketches_with_their_neighbours, frame_joined_with_itself],
)
def test_no_algorithm_of_dask_releases_a_row_again(compute):
    """Bags of delayed blocks, decompositions, overlapping chunks, and frames that are joined with themselves."""
    pytest.importorskip("dask.dataframe")
    first, second = compute(lazy_sketches())
    assert np.allclose(first, second)


# Sketches that are not private, by others, which the contract let pass


class Stranger(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A sketch that is private as long as its parts are: rows with noise, which a sketch inside of it draws."""

    def __init__(self, *, epsilon=1.0, max_change=1.0):
        self.epsilon = epsilon
        self.max_change = max_change

    def validated(self, X, **options):
        try:
            X = validate_data(self, X, dtype=np.float64, **options)
        except (TypeError, ValueError):
            raise ValueError("X has to be a table of numbers.") from None
        if not np.isfinite(X).all():
            raise ValueError("X has to be finite.")
        return X

    def fit(self, X, y=None):
        X = self.validated(X)
        options = {"epsilon": self.epsilon, "max_change": self.max_change}
        self.mechanism_ = DPRandomProjection(projection="identity", **options).fit(np.zeros((1, X.shape[1])))
        self.guarantee_ = self.mechanism_.guarantee_
        self.learn(X)
        return self

    def transform(self, X):
        return self.with_noise(self.validated(X, reset=False))

    def learn(self, X):
        pass

    def with_noise(self, X):
        return self.mechanism_.transform(X)

    def noise(self, shape):
        return self.mechanism_.transform(np.zeros(shape))


def contract_of(estimator, name):
    return dict(_private_checks(estimator))[name]


class KeepsTheLargest(Stranger):
    def learn(self, X):
        self.largest_ = float(X.max())


class ScalesByTheLargest(Stranger):
    def learn(self, X):
        self.scale_ = float(np.abs(X).max())

    def with_noise(self, X):
        return super().with_noise(X / self.scale_)


class KeepsMedians(Stranger):
    def learn(self, X):
        self.medians_ = np.median(X, axis=0)


@pytest.mark.parametrize("kind", [KeepsTheLargest, ScalesByTheLargest, KeepsMedians])
def test_the_contract_sees_what_a_sketch_learns_from_its_rows(kind):
    """Its neighbours differed in one of six entries of the same size, so that the largest number stayed what it was.

    So check_private_estimator passed a sketch that scales all rows by the largest number of its fit, and keeps it.
    """
    with pytest.raises(AssertionError, match="tells one row from another"):
        contract_of(kind(), "attributes_hold_nothing_of_the_rows")()


def with_attributes(thing, **attributes):
    vars(thing).update(attributes)
    return thing


KEPT_OUT_OF_SIGHT = {
    "a queue of the last rows": lambda X: collections.deque(X.tolist(), maxlen=10),
    "a view of memory": memoryview,
    "a generator": lambda X: (row for row in X.tolist()),
    "a read-only dictionary": lambda X: types.MappingProxyType({"first": X[-1, 0]}),
    "a queue of threads": lambda X: [one := queue.SimpleQueue(), one.put(X[-1, 0])][:1],
    "a class": lambda X: type("Kept", (), {"first": X[-1, 0]}),
    "an attribute of a list": lambda X: with_attributes(type("Labelled", (list,), {})(), first=X[-1, 0]),
    "an object in an array": lambda X: np.array([with_attributes(types.SimpleNamespace(), first=X[-1, 0])]),
    "an attribute that is also a part of pickles": lambda X: with_attributes(
        type("Kept", (), {})(), arguments=X[-1, 0]
    ),
}


@pytest.mark.parametrize("kept", KEPT_OUT_OF_SIGHT)
def test_the_contract_sees_rows_in_what_it_cannot_look_into(kept):
    """What is no list, has no attributes and is not pickled by its state passed for empty."""

    class Keeping(Stranger):
        def learn(self, X):
            self.kept_ = KEPT_OUT_OF_SIGHT[kept](X)

    with pytest.raises(AssertionError, match="kept_"):
        contract_of(Keeping(), "attributes_hold_nothing_of_the_rows")()


class KeepsOnItsClass(Stranger):
    def learn(self, X):
        type(self).kept_ = X[-1]


KEPT_ELSEWHERE = {}


class KeepsBehindAProperty(Stranger):
    @property
    def kept_(self):
        return KEPT_ELSEWHERE.get("row")

    def learn(self, X):
        KEPT_ELSEWHERE["row"] = X[-1].tolist()


@pytest.mark.parametrize("kind", [KeepsOnItsClass, KeepsBehindAProperty])
def test_the_contract_sees_attributes_that_a_sketch_has_from_its_class(kind):
    """Only what lies in the object itself was looked at, and not what its class gives it."""
    with pytest.raises(AssertionError, match="kept_"):
        contract_of(kind(), "attributes_hold_nothing_of_the_rows")()


class KeepsSigns(Stranger):
    def with_noise(self, X):
        return np.copysign(super().with_noise(X), X)


class KeepsZeros(Stranger):
    def with_noise(self, X):
        return np.where(X == 0, 0.0, super().with_noise(X))


class KeepsWholeParts(Stranger):
    def with_noise(self, X):
        return np.floor(X) + super().with_noise(X - np.floor(X)) % 1


class QuarterOfTheNoise(Stranger):
    def with_noise(self, X):
        return super().with_noise(4 * X) / 4


class NowAndThenWithoutNoise(Stranger):
    def with_noise(self, X):
        is_plain = np.array([secrets.randbelow(50) == 0 for _ in X])
        return np.where(is_plain[:, None], X, super().with_noise(X))


@pytest.mark.parametrize("kind", [KeepsSigns, KeepsZeros, KeepsWholeParts, QuarterOfTheNoise, NowAndThenWithoutNoise])
def test_the_contract_audits_a_sketch_on_neighbours_that_tell_its_rows(kind):
    """Two entries of one sign, 3/8 apart where 1 was to be hidden, stood for all neighbours, at one small epsilon.

    So it passed sketches of sparse rows with noise on their nonzeros only, and one with epsilon 4.5 that says 1. At a
    quarter of that epsilon a delta of 2 in 100 is allowed, so that one row in 50 could leave as it is.
    """
    with pytest.raises(AssertionError, match="does not keep"):
        contract_of(kind(), "audit_refutes_nothing")()


class SharesNoiseInPairs(Stranger):
    def with_noise(self, X):
        noise = self.noise(X.shape)
        noise[2::2] = noise[1:-1:2]
        return X + noise


class SharesNoiseOfBlocks(Stranger):
    def with_noise(self, X):
        return X + np.resize(self.noise((64, X.shape[1])), X.shape)


@pytest.mark.parametrize("kind", [SharesNoiseInPairs, SharesNoiseOfBlocks])
def test_the_contract_sees_noise_that_any_two_rows_share(kind):
    """The first of 40 rows was compared with the others, and none of these with each other, or beyond one block."""
    with pytest.raises(AssertionError, match="one noise for several rows"):
        contract_of(kind(), "rows_and_classes_share_no_noise")()


@pytest.mark.parametrize("sketch", [DPSignOPORP(8, epsilon=30.0), DPSignRP(8, max_change=1e-4)], ids=repr)
def test_the_contract_takes_bits_that_are_hardly_ever_flipped_for_no_shared_noise(sketch):
    """It says that it fails whoever keeps a guarantee less than once in 10^9 runs, and failed these each time."""
    contract_of(sketch, "rows_and_classes_share_no_noise")()


@pytest.mark.filterwarnings("error")
def test_an_audit_finds_out_a_release_without_any_noise():
    """Of many numbers that are the same in all trials a covariance overflowed: "Input contains NaN" was all it said."""
    rows = np.arange(240.0).reshape(40, 6) / 240
    neighbour = rows + np.eye(40, 6)
    assert audit_epsilon(np.ravel, rows, neighbour, n_trials=200).epsilon > 2


STORED_IN_FULL = {
    "fractions": lambda row: np.array([row], object),
    "sparse long doubles": lambda row: sp.csr_array(np.array([row], np.longdouble)),
}


@pytest.mark.parametrize("stored", STORED_IN_FULL)
@pytest.mark.parametrize("max_change", [1e-100, 1 / 3, 9.0, 1e100])
def test_neighbours_in_real_numbers_are_as_far_apart_as_their_noise_expects(stored, max_change, silenced_noise):
    """Exact fractions and long doubles, exactly `max_change` apart, as large as rows may be before they are refused."""
    rng, n_compared, bound = np.random.default_rng(0), 0, Fraction(max_change)
    options = {"max_change": max_change, "random_state": 0}
    sketches = DPOPORP(2, **options), DPRandomProjection(3, projection="gaussian", noise="laplace", **options)
    for sketch in sketches:
        sketch.fit(np.zeros((1, 3)))
    for size in 4.0 ** np.arange(22):
        row = [Fraction(number) * bound for number in size * rng.normal(size=3)]
        neighbour = [number + sign * bound / 3 for number, sign in zip(row, (1, -1, 1), strict=True)]
        for sketch in sketches:
            try:
                here, there = (sketch.transform(STORED_IN_FULL[stored](one))[0] for one in (row, neighbour))
            except ValueError:
                continue
            n_compared += 1
            distance = np.linalg.norm((here - there) / max_change, 1 if sketch.noise == "laplace" else 2)
            assert distance * max_change <= sketch.sensitivity_ * (1 + 2.0**-10)
    assert n_compared > 30


# Sketches in other units


@pytest.mark.parametrize("unit", [1e-100, 1e-90, 1e80, 1e100])
def test_cosines_do_not_depend_on_the_unit_of_the_rows(unit):
    """Products of two squared norms leave the floats from units of 1e-81 down and 1e77 up: all cosines were 0.

    Sketches take such units, as `max_change` is from 1e-100 to 1e100, and so do the other estimates.
    """
    S, T = unit * np.array([[3.0, 4.0]]), unit * np.array([[5.0, 0.0], [-6.0, -8.0]])
    assert np.allclose(similarity.cosines(S, T), [[0.6, -1.0]])


# What held, of mechanisms


STEP = 2.0**-5
ENDS = np.pi / 2 * np.sinh(np.arange(-3.6, 3.6, STEP))  # the tanh of which crowds at both ends of an interval
END_WEIGHTS = STEP * np.hypot(np.pi / 2, ENDS) / np.cosh(ENDS) ** 2
FROM_LOW, FROM_HIGH = 2 / (1 + np.exp(-2 * ENDS)), 2 / (1 + np.exp(2 * ENDS))  # of an interval of length 2


def spherical_delta(epsilon, d, n_dims, shape, power):
    """Mean of (1 - e^(epsilon - loss))+ over radius and cosine: no distribution function, and nothing subtracted."""
    k, gap, half_degree = shape / power, n_dims - shape, (n_dims - 3) / 2
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    panels = np.linspace(-np.sqrt(160 / k) - 80 / k, min(np.sqrt(160 / k), np.log(5 + 200 / k)), 401)
    w = (panels[:-1, None] + np.diff(panels)[:, None] * (1 + nodes) / 2).ravel()  # of ln(radius^power / k)
    weights = np.outer(np.diff(panels), node_weights / 2).ravel()
    weights *= np.exp(k * (w - np.exp(w)) + k * np.log(k) - gammaln(k))
    w, weights = w[weights > 1e-18, None], weights[weights > 1e-18]
    r = np.exp((w + np.log(k)) / power)
    low, high = np.full_like(r, -700.0), np.full_like(r, 600 / power)  # ln of the distance to the other centre, over r
    for _ in range(100):
        middle = (low + high) / 2
        is_less = gap * middle + r**power * np.expm1(power * middle) < epsilon
        low, high = np.where(is_less, middle, low), np.where(is_less, high, middle)
    nearest = r * np.exp(high)  # at which the loss is epsilon
    least = np.clip((nearest - abs(r - d)) * (nearest + abs(r - d)) / (2 * r * d), 0, 2 - 2.0**-50)  # of 1 - cosine
    half = 1 - least / 2
    plus, minus = half * FROM_LOW, least + half * FROM_HIGH
    distance = np.sqrt((r - d) ** 2 + 2 * r * d * minus)
    loss = gap * np.log(distance / r) + distance**power - r**power
    density = np.exp(
        half_degree * np.log(plus * minus / 4) - 2 * gammaln(half_degree + 1) + gammaln(2 * half_degree + 2)
    )
    return weights @ (half / 2 * density * -np.expm1(np.minimum(epsilon - loss, 0.0)) @ END_WEIGHTS)


@pytest.mark.parametrize(
    ("n_dims", "shape", "power"),
    [(3, 1.5, 0.5), (14, 14, 1), (40, 1, 2), (40, 39, 4), (128, 1.2, 0.5), (129, 129, 1), (500, 1, 3), (500, 250, 1)],
)
def test_profiles_of_spherical_noise_are_not_below_a_direct_integral(n_dims, shape, power):
    """Shapes between those that estimators use, and poles in many dimensions; in 578 random cases none was below."""
    radius = (shape / power) ** (1 / power)
    for epsilon, d in [(0.0, 0.01 * radius), (0.3, radius / n_dims**0.5), (4.0, radius)]:
        stated = spherical_profile(epsilon, scale=1.0, sensitivity=d, n_dims=n_dims, shape=shape, power=power)
        exact = spherical_delta(epsilon, d, n_dims, shape, power)
        assert exact * (1 - 1e-5) <= stated <= exact * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize("relative_change", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("n_features", [2, 30])
def test_signs_of_drawn_projections_differ_as_often_as_their_delta_counts(relative_change, n_features):
    """The worst rows: of the least norm, on both sides of a coordinate. Of other generators it was known."""
    rows = np.zeros((2, n_features))
    rows[:, 0] = relative_change / 2, -relative_change / 2
    rows[:, -1] = np.sqrt(1 - relative_change**2 / 4)
    q, counts = sign_change_probability(relative_change), []
    for seed in range(40):
        projected = make_projection("gaussian", n_features, 1024, np.random.RandomState(seed)).project(rows)
        counts.append((projected[0] * projected[1] < 0).sum())
    assert abs(sum(counts) - 40 * 1024 * q) < 5 * np.sqrt(40 * 1024 * q * (1 - q))
    assert np.var(counts) < 2.5 * 1024 * q * (1 - q)  # of 40 independent binomials, but once in 10^6


# What held, of tables and of searches


LARGEST = {"int8": 127, "int32": 2**31 - 1, "int64": 2**53 - 1, "uint32": 2**32 - 1}
LARGEST |= {"float32": float(np.float32(0.1)), "float64": 0.1}


def of_pandas(columns, kind="{}"):
    return pd.DataFrame({str(i): pd.Series([value], dtype=kind.format(name)) for i, (name, value) in columns})


def of_polars(columns):
    polars = pytest.importorskip("polars")
    kinds = {name: getattr(polars, name.capitalize().replace("int", "Int").replace("Uint", "UInt")) for name in LARGEST}
    return polars.DataFrame({str(i): polars.Series([value], dtype=kinds[name]) for i, (name, value) in columns})


def of_arrow(columns):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({str(i): arrow.array([value], getattr(arrow, name)()) for i, (name, value) in columns})


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("table_of", [of_pandas, partial(of_pandas, kind="Sparse[{}]"), of_polars, of_arrow])
def test_columns_of_any_two_types_are_rounded_once_to_float64(table_of):
    """Whatever the type that both have in common in that library: the largest integers, and a tenth."""
    sketch = DPRandomProjection(projection="identity", max_change=1e9).fit(np.zeros((1, 2)))
    for pair in itertools.product(LARGEST.items(), repeat=2):
        assert computed(sketch, table_of(list(enumerate(pair)))).tolist() == [[float(value) for _, value in pair]]


def rows_with_names(n_rows=24):
    return np.column_stack([np.arange(n_rows) / n_rows, np.random.default_rng(0).uniform(-1, 1, (n_rows, 3))])


def searched(*steps, **options):
    model = make_pipeline(*steps, LogisticRegression())
    return GridSearchCV(model, {"logisticregression__C": [1.0, 2.0]}, cv=KFold(2), **options)


@pytest.mark.parametrize(
    ("model", "n_releases"),
    [
        (VotingClassifier([("a", searched(DPOPORP(3))), ("b", make_pipeline(DPOPORP(3), LogisticRegression()))]), 6),
        (OneVsRestClassifier(searched(DPOPORP(3))), 15),
        (make_pipeline(VotingClassifier([("a", searched(DPOPORP(3)))]), LogisticRegression()), 6),
        (searched(make_union(DPOPORP(3), DPSignOPORP(3)), return_train_score=True), 14),
        (searched(ColumnTransformer([("a", DPOPORP(2), [0, 1]), ("b", DPOPORP(2), [0, 2])])), 10),
    ],
)
def test_searches_within_ensembles_are_charged_for_the_row_that_was_sketched_most(model, n_releases, monkeypatch):
    """Rows are known by their first number wherever they are sketched: in folds, refits, and what passes them on."""
    X, counts, release = rows_with_names(), collections.Counter(), DPOPORP._release

    def counted(sketch, rows, dtype):
        counts.update(np.asarray(rows)[:, 0].tolist())
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", counted)
    fitted = clone(model).fit(X, np.arange(24) % 3)
    charged = sum(step.releases for step in privacy_report(fitted).steps)
    assert charged == max(counts.values()) == n_releases


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (make_pipeline(DPOPORP(3), LogisticRegression()), {"logisticregression__C": [1.0, 2.0]}),
        (
            FixedThresholdClassifier(AMPClassifier(classes=[0, 1]), response_method="predict_proba"),
            {"threshold": [-1, 2]},
        ),
    ],
    ids=["sketch", "threshold"],
)
def test_the_winner_of_a_search_is_not_reported_as_if_nobody_had_searched(model, grid):
    """Of 21 labels 1 and 20 labels 0, or one of them changed, the better threshold is -1 or 2, for sure.

    The report on `best_estimator_` stated epsilon = 1.0, listed nothing that is not covered, and assumed nothing of how
    the parameters were chosen. Of the sketch a row had been released seven times, at 2.62 in all.
    """
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (41, 3)), np.arange(41) % 2 == 0
    search = GridSearchCV(clone(model), grid, cv=KFold(3)).fit(X, y.astype(int))
    total = privacy_report(search.best_estimator_).total
    assert total is None or any("chosen" in text and "search" in text for text in total.assumptions)


def test_a_ledger_does_not_say_that_nothing_was_released_of_lazy_sketches():
    """They were made in its block, as sketches in memory are released there, and computed after it: no word of that."""
    da = pytest.importorskip("dask.array")
    rows = da.from_array(np.ones((8, 6)), chunks=(4, 6))
    sketch = DPOPORP(4, random_state=0).fit(rows)
    with warnings.catch_warnings(record=True) as caught, PrivacyLedger() as ledger:
        warnings.simplefilter("always")
        sketches = sketch.transform(rows)
    assert sketches.compute(scheduler="sync").shape == (8, 4)
    assert caught or ledger.entries or "lazy" in str(ledger.total())


# Plans, and what other processes do


def test_what_follows_lazy_sketches_sees_public_numbers_in_a_plan():
    """A step that makes a dask array of its rows has the next one sketch them in a context of its own, out of the plan.

    So each plan released the first 64 rows anew to what came next, which may keep or print what it sees.
    """
    da = pytest.importorskip("dask.array")
    X, y, seen = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 6)), np.arange(40) % 2, []

    def kept(rows):
        seen.append(np.array(rows))
        return seen[-1]

    model = make_pipeline(
        FunctionTransformer(da.from_array), DPOPORP(3, random_state=0), FunctionTransformer(kept), LogisticRegression()
    )
    for rows in (X, -X):
        with contextlib.suppress(TypeError, ValueError):  # it may as well refuse
            privacy_report(model, rows, y)
    assert all(np.array_equal(rows, seen[0]) for rows in seen)


@pytest.mark.parametrize("output", ["sign", "packed"])
def test_a_plan_shows_bits_of_both_kinds(output):
    """Packed ones were all 255, or whatever a platform makes of -1: a step that drops what is constant had no plan."""
    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 16)), np.arange(40) % 2
    sketch = DPSignOPORP(16, output=output, random_state=0)
    model = make_pipeline(make_pipeline(sketch, VarianceThreshold()), LogisticRegression())
    planned = privacy_report(model, X, y).total
    assert planned.epsilon == privacy_report(model.fit(X, y)).total.epsilon


def test_a_total_of_sketches_that_another_process_made_lazy_says_what_it_assumes():
    """A union with n_jobs has its parts transform in workers, and nothing here knew that the rows were lazy.

    Each computation of them is a release, and the report stated a total of one, of rows that are "not sketched again".
    """
    da = pytest.importorskip("dask.array")
    sketch = DPOPORP(3, random_state=0).fit(np.ones((1, 6)))
    pickle.loads(pickle.dumps(sketch)).transform(da.from_array(np.ones((4, 6))))  # as a worker does
    total = privacy_report(make_union(sketch)).total
    assert total is None or any("comput" in text for text in total.assumptions)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_plans_can_plan_as_well():
    """Plans are made one at a time: in the child the other thread was gone, and its lock held for good."""
    planning, ended = threading.Event(), threading.Event()

    def waits(rows):
        planning.set()
        ended.wait(30)
        return rows

    X, y = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 6)), np.arange(40) % 2
    steps = DPOPORP(3, random_state=0), LogisticRegression()
    other = threading.Thread(target=privacy_report, args=(make_pipeline(FunctionTransformer(waits), *steps), X, y))
    other.start()
    try:
        assert planning.wait(30)
        if not (child := os.fork()):
            signal.alarm(3)  # which ends it, if it waits
            try:
                privacy_report(make_pipeline(*steps), X, y)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        other.join()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(3),
        DPRandomProjection(3, projection="very_sparse", adjacency="l2"),
        DPSignRP(4, method="rr", projection="gaussian", min_norm=0.5, max_change=0.1, delta=1e-6),
        DPSignOPORP(8, output="packed"),
    ],
    ids=repr,
)
def test_the_price_of_sketches_before_a_fit_is_that_after_it_and_of_a_ledger(sketch):
    """Wherever they stand: in ensembles that pass rows on, in unions of unions, frozen, and after maps."""
    X, two = np.random.default_rng(0).uniform(-3, 3, (60, 6)), np.arange(60) % 2
    in_pipeline = make_pipeline(clone(sketch), LogisticRegression())
    branches = [("a", clone(sketch), [0, 1, 2, 3]), ("b", clone(sketch), [2, 3, 4, 5])]
    models = [
        VotingClassifier([("a", in_pipeline), ("b", clone(in_pipeline))]),
        OneVsRestClassifier(in_pipeline),
        make_pipeline(make_union(make_union(clone(sketch), clone(sketch)), sketch), LogisticRegression()),
        make_pipeline(ColumnTransformer(branches, sparse_threshold=0), LogisticRegression()),
        make_pipeline(FrozenEstimator(clone(sketch).fit(np.eye(6))), LogisticRegression()),
        make_pipeline(PolynomialFeatures(), sketch, LogisticRegression()),
    ]
    for model in models:
        y = np.arange(60) % 3 if isinstance(model, OneVsRestClassifier) else two
        planned = privacy_report(model, X, y).total
        with PrivacyLedger() as ledger:
            model.fit(X, y)
        prices = [planned, privacy_report(model).total, ledger.total()[0].guarantee]
        assert np.ptp([price.epsilon for price in prices]) <= 1e-6 * planned.epsilon
        assert len({f"{price.delta:.9g}" for price in prices}) == len({price.n_releases for price in prices}) == 1


# The worst rows and targets


def stored(rows, form):
    """Rows as they are, by columns, sparse, or sparse with each entry in two halves, all the same vectors."""
    if form == "halves":
        row, column = map(np.tile, np.nonzero(rows), (2, 2))
        return sp.coo_array((rows[row, column] / 2, (row, column)), shape=rows.shape)
    return {"rows": np.ascontiguousarray, "columns": np.asfortranarray, "sparse": sp.csr_array}[form](rows)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize(
    "sketch",
    [DPSignOPORP(33), DPSignOPORP(34, n_repeats=2)]
    + [DPSignRP(33, projection=kind) for kind in ("rademacher", "gaussian", "uniform", "very_sparse")],
    ids=repr,
)
def test_levels_of_the_largest_rows_move_by_one_in_whatever_form_either_neighbour_comes(sketch, monkeypatch):
    """Rows at the edge of the domain or on multiples of the change, which is made where some column of W is largest."""
    levels, rng = [], np.random.default_rng(0)

    def recorded(of_bits, thresholds):
        levels.append(of_bits.astype(int))
        return np.zeros(of_bits.shape, bool)

    monkeypatch.setattr(_noise, "flip", recorded)
    for max_change, n_features in [(0.1, 17), (3e-3, 257)]:
        sketch.set_params(max_change=max_change, random_state=int(rng.integers(2**31))).fit(np.zeros((1, n_features)))
        W = abs(sketch.projection_.project(np.eye(n_features)))
        largest = 2.0**41 * max_change / (n_features + 1)
        for is_on_grid in (False, True):
            rows = rng.standard_normal((200, n_features))
            rows *= 0.999 * largest / abs(rows).sum(axis=1, keepdims=True)
            if is_on_grid:
                rows = max_change * rng.integers(-5, 6, rows.shape)
            place = np.arange(200), W.argmax(axis=0)[rng.integers(0, W.shape[1], 200)]
            neighbours = rows.copy()
            neighbours[place] += max_change * rng.choice([-1, 1], 200)
            moved = zip(rows[place], neighbours[place], strict=True)
            near = [abs(Fraction(other) - Fraction(one)) <= Fraction(max_change) for one, other in moved]
            for form, other_form in [("rows", "sparse"), ("columns", "rows"), ("sparse", "halves")]:
                levels.clear()
                signs = [
                    sketch.transform(stored(*pair)) for pair in [(rows[near], form), (neighbours[near], other_form)]
                ]
                one, other = np.split(np.vstack(levels), 2)
                assert (abs(one - other) <= 1)[signs[0] == signs[1]].all()
                assert (np.maximum(one, other) <= 1)[signs[0] != signs[1]].all()


@pytest.mark.parametrize("calibrate", [kenthapadi_scale, classic_gaussian_scale])
def test_closed_forms_far_from_where_anybody_uses_them_are_private(calibrate):
    """Epsilon from 1e-7 to 1e5, delta from 1e-250 to within 1e-15 of where they end: the exact delta is less."""
    rng, most = np.random.default_rng(2), 0.5 if calibrate is kenthapadi_scale else 1.0
    with mpmath.workdps(60):
        for _ in range(150):
            epsilon = 10 ** rng.uniform(-7, 5 if calibrate is kenthapadi_scale else -1e-6)
            delta = rng.choice([most * 10 ** rng.uniform(-250, -0.01), most - 10 ** rng.uniform(-15, -1)])
            mu = 1 / mpmath.mpf(calibrate(epsilon, delta))
            upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            assert mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower) <= delta


# Signs flipped as by Laplace noise, and by how many bits a coordinate reaches


def bits_of_a_coordinate(**options):
    """A sketch whose loss is that of as many bits as a feature of the drawn projection reaches."""
    parameters = {"projection": "very_sparse", "density": 0.05, "adjacency": "coordinate", "epsilon": 4.0} | options
    return DPSignRP(16, **parameters)


def perhaps_without_delta(**options):
    """A sketch that has a delta where its projection makes the Laplace flips of a delta fewer, and none elsewhere."""
    return DPSignRP(256, projection="very_sparse", method="laplace", delta=1e-6, **options)


@wide
@pytest.mark.parametrize(("drawn", "n_features"), [(bits_of_a_coordinate, 50), (perhaps_without_delta, 23)])
def test_a_report_before_a_fit_holds_for_whatever_projection_the_fit_draws(drawn, n_features):
    """The clone that was priced had a projection of its own, and the guarantee of it was stated for the fit to come.

    "1.0-DP" was said of what then was (1.0, 1e-06)-DP, and "right in at most 82.2 of 100" of 88.8.
    """
    X = np.zeros((10, n_features))
    deltas = {(g.profile(1.0), g.profile(2.0)) for g in (drawn(random_state=i).fit(X).guarantee_ for i in range(20))}
    for total in (privacy_report(drawn(), X).total for _ in range(8)):
        assert total is None or all(
            total.profile(epsilon) >= max(of_draws)
            for epsilon, of_draws in zip((1.0, 2.0), zip(*deltas, strict=True), strict=True)
        )


@wide
def test_the_sketches_of_a_search_are_charged_for_the_projections_that_they_had(monkeypatch):
    """The candidates were charged for the projection of another seed, whose features reach five bits and not three.

    The fewer bits share epsilon, the more likely is a loss near it.
    """
    X, y, recorded = np.random.default_rng(0).normal(size=(20, 40)), np.arange(20) % 2, []
    sketch = bits_of_a_coordinate(density=0.1, random_state=4)
    reached = [bits_of_a_coordinate(density=0.1, random_state=i).fit(X).projection_.n_reached() for i in (0, 4)]
    assert reached[0] > reached[1]
    release = BaseSketch._release
    monkeypatch.setattr(BaseSketch, "_release", lambda *args: recorded.append(args[0].guarantee_) or release(*args))
    report = privacy_report(GridSearchCV(make_pipeline(sketch, LogisticRegression()), {}, cv=KFold(2)).fit(X, y))
    assert len(recorded) == 5  # of which a row is in three
    stated = report.private
    assert stated is None or stated.profile(6.0) >= compose(*recorded[:3]).profile(6.0) * (1 - 1e-9)


@wide
def test_folds_that_had_a_delta_are_not_reported_without_one(monkeypatch):
    """Each fit draws a projection: that of the refit, and of the seed that was asked, need no delta, others did."""
    X, y, recorded = np.random.default_rng(0).normal(size=(20, 23)), np.arange(20) % 2, []
    release = BaseSketch._release
    monkeypatch.setattr(BaseSketch, "_release", lambda *args: recorded.append(args[0].guarantee_) or release(*args))
    for _ in range(6):
        recorded.clear()
        search = GridSearchCV(make_pipeline(perhaps_without_delta(), LogisticRegression()), {}, cv=KFold(3))
        stated = privacy_report(search.fit(X, y)).private
        assert stated is None or stated.delta >= max(guarantee.delta for guarantee in recorded)


@wide
@pytest.mark.parametrize("method", ["smooth", "rr", "laplace"])
def test_bits_that_a_coordinate_does_not_reach_are_the_same_whatever_the_format(method, pluses):
    """Epsilon is shared by the bits that it reaches: a rounding elsewhere, on the edge of a level, would be a loss."""
    rng = np.random.default_rng(0)
    sketch = DPSignRP(
        64, projection="very_sparse", density=0.13, method=method, adjacency="coordinate", epsilon=0.5, random_state=1
    ).fit(np.zeros((1, 30)))
    W = sketch.projection_.matrix.toarray()
    X = np.vstack(
        [rng.integers(-9, 10, (60, 30)) * 0.1, rng.normal(size=(60, 30)) * 10.0 ** rng.integers(0, 6, (60, 30))]
    )
    changed = rng.integers(0, 30, len(X))
    Y = X.copy()
    Y[np.arange(len(X)), changed] -= rng.choice([-0.9, 0.9], len(X))
    before = pluses(sketch, X)
    for stored in (np.asfortranarray(Y), sp.csr_array(Y), sp.coo_array(Y)):
        differ = before != pluses(sketch, stored)
        assert differ.any() and not (differ & (W[changed] == 0)).any()
        assert exact_losses_of_bits(before, np.where(differ, pluses(sketch, stored), before)) <= 0.5
    alone = np.vstack([pluses(sketch, row[None]) for row in Y])
    assert np.array_equal(alone, pluses(sketch, Y))


@wide
@pytest.mark.parametrize(
    "sketch",
    [
        DPSignOPORP(8, adjacency="l1", n_repeats=2, random_state=0),
        DPSignOPORP(8, adjacency="l2", random_state=0),
        DPSignRP(8, method="laplace", projection="gaussian", random_state=0),
        DPSignRP(8, method="laplace", delta=0.2, random_state=0),
    ],
    ids=repr,
)
def test_rows_that_nearly_leave_float64_lose_no_more_by_laplace_flips(sketch, pluses):
    """Numbers that cancel, as large as the domain allows: each sum is rounded, and so is each quotient by the scale."""
    rng, beta = np.random.default_rng(0), 1 / 3
    sketch = clone(sketch).set_params(max_change=beta).fit(np.zeros((1, 12)))
    first = np.repeat(rng.normal(size=(40, 6)), 2, axis=1) * np.where(np.arange(12) % 2, -1, 1)
    first *= 0.99 * beta * 2.0**41 / 13 / np.abs(first).sum(axis=1, keepdims=True)
    first += rng.normal(size=first.shape)
    steps = np.vstack([np.eye(12), rng.normal(size=(28, 12))])
    steps *= 0.99 * beta / np.linalg.norm(steps, 2 if sketch.adjacency == "l2" else 1, axis=1, keepdims=True)
    second = first + steps
    assert ((first - second) != 0).any(axis=1).all()
    # Of epsilon, or with a delta of what every bit may lose.
    most = 8 * binomial_flip_epsilon(1.0, 0.2, n_components=8, changed=1.0) if sketch.guarantee_.delta else 1.0
    assert exact_losses_of_bits(pluses(sketch, first), pluses(sketch, second)) <= most


@wide
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("method", ["smooth", "rr", "laplace"])
def test_profiles_of_a_coordinate_are_not_below_the_sum_over_all_outputs(method, delta, pluses):
    """At every epsilon, in exact integers: all bits that the fullest row of W reaches change their sign, or leave 0."""
    sketch = DPSignRP(
        7, projection="very_sparse", density=0.4, method=method, adjacency="coordinate", delta=delta, random_state=2
    ).fit(np.zeros((1, 5)))
    unit = np.eye(5)[(sketch.projection_.matrix.toarray() != 0).sum(axis=1).argmax()]
    for start in (-0.4999 * unit, 0 * unit, 0.3 * np.ones(5)):
        u, v = (pluses(sketch, row[None])[0] for row in (start, start + 0.9998 * unit))
        outputs = list(itertools.product([True, False], repeat=7))
        p, q = (
            [math.prod(int(w if s else WHOLE - w) for s, w in zip(signs, bits, strict=True)) for signs in outputs]
            for bits in (u, v)
        )
        for epsilon in (0.0, 0.5, 0.9, 1.0, 1.2):
            factor = Fraction(math.exp(epsilon) * (1 + 2.0**-50))
            exact = max(
                sum(max(Fraction(0), a - factor * b) for a, b in zip(*pair, strict=True)) for pair in ((p, q), (q, p))
            )
            assert exact / WHOLE**7 <= sketch.guarantee_.profile(epsilon)


# What is hidden, what files bring, and two draws of one sketch


def distance_over_all_outputs(before, after):
    """Total variation distance of the bits of two rows, of which each has a probability of its own."""
    p = q = np.ones(1)
    for a, b in zip(before / WHOLE, after / WHOLE, strict=True):
        p, q = np.append(p * a, p * (1 - a)), np.append(q * b, q * (1 - b))
    return abs(p - q).sum() / 2


@wide
@pytest.mark.parametrize(
    "sketch",
    [
        DPSignOPORP(12, method="rr", random_state=0),
        DPSignRP(12, method="rr", adjacency="coordinate", projection="very_sparse", density=0.03, random_state=0),
    ],
    ids=repr,
)
def test_any_change_is_not_said_to_be_hidden_where_any_change_of_one_coordinate_is(sketch, pluses):
    """A row and its negative are told apart by the majority of their bits, of which one coordinate reaches few."""
    sketch = clone(sketch).set_params(epsilon=1.0).fit(np.zeros((1, 60)))
    row = np.random.default_rng(0).normal(size=(1, 60))
    one_changed = row - 1e6 * np.eye(60)[:1]
    assert sketch.guarantee_.hides == math.inf
    assert distance_over_all_outputs(pluses(sketch, row)[0], pluses(sketch, one_changed)[0]) <= 0.5
    assert distance_over_all_outputs(pluses(sketch, row)[0], pluses(sketch, -row)[0]) > 0.5
    assert "any change," not in " ".join(str(sketch.guarantee_).split())


def test_the_distance_that_is_hidden_is_that_of_rows_as_they_leave_a_map():
    """Of a map that makes rows 100 times as long the line on neighbours told so, that on what is hidden did not."""
    model = make_pipeline(PublicScaler([(0.0, 0.01)] * 4), DPOPORP(2, noise="laplace")).fit(np.zeros((3, 4)))
    stated = " ".join(str(privacy_report(model).private).split())
    assert "leave publicscaler" in re.search(r"hides (.*?) the best guess", stated)[1]


def forged_guarantee(path, sketch, **facts):
    """A file of a release whose guarantee says something else, under the checksum that goes with it."""
    rows = np.zeros((2, 8))
    save_release(path, sketch.fit(rows).transform(rows), sketch)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").item())
    del arrays["checksum"]
    header["guarantee"] |= facts
    text = json.dumps(header)
    np.savez(path, header=text, checksum=checksum_of(text, arrays), **arrays)
    return path


NO_LOSS = {"mu": 0.0, "sampling": 0.0, "failure_probability": 0.0, "profiles": []}
MANY_BITS = {"function": "randomised_response_profile", "parameters": {"epsilon0": 1.0, "n_bits": 10_000}}


@wide
@pytest.mark.parametrize(
    ("sketch", "loss"),
    [
        (DPSignOPORP(256, n_repeats=256, random_state=0), NO_LOSS | {"mu": 1e-9}),
        (DPSignOPORP(8, random_state=0), NO_LOSS | {"profiles": [MANY_BITS]}),
    ],
    ids=["less", "long"],
)
def test_a_file_does_not_bring_a_loss_of_its_own(sketch, loss, tmp_path):
    """Compared at one epsilon, at which both deltas were below 1e-12: 50.0 of 100 came back in the place of 51.3.

    Of the other loss as many bits are summed up as the file says, in the square of their number: of 10^7, for hours.
    """
    with pytest.raises(ValueError, match="loss"):
        load_release(forged_guarantee(tmp_path / "a.npz", sketch, loss=loss))


def test_a_file_leaves_out_nothing_of_what_its_guarantee_rests_on(tmp_path):
    """Once for each fit, nothing assumed and everything covered: so it came back, and was printed."""
    facts = {"assumptions": [], "not_covered": [], "per": "fit"}
    path = forged_guarantee(tmp_path / "a.npz", DPSignOPORP(8, random_state=0), **facts)
    try:
        guarantee = load_release(path).guarantee
    except ValueError:
        return
    assert guarantee.per == "transform" and guarantee.assumptions and guarantee.not_covered


@wide
def test_a_small_file_cannot_ask_for_a_large_spectral_norm(tmp_path):
    """Of W with one row and k columns, its k x k products were made and decomposed: of k = 60,000 in 29 GB."""
    sketch, row = DPRandomProjection(1000, adjacency="l2", random_state=0), np.zeros((1, 1))
    save_release(tmp_path / "a.npz", sketch.fit(row).transform(row), sketch)
    with pytest.raises(ValueError, match="max_projection_size"):
        load_release(tmp_path / "a.npz", max_projection_size=2**18)


# What held, of signs in whatever form, and of deltas of many bits


FORMS = (np.asfortranarray, sp.csr_matrix, sp.csc_array, sp.coo_array, partial(np.array, dtype=">f8"), np.asarray)


@wide
@pytest.mark.parametrize("adjacency", ["coordinate", "l1", "l2"])
def test_neighbours_among_other_rows_and_in_any_two_forms_lose_epsilon_at_most(adjacency, pluses):
    """Rows on multiples of max_change, and as large as the domain allows: each neighbour among rows of its own."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        repeats, epsilon, beta = rng.choice([1, 4]), rng.choice([0.05, 1.0, 40.0]), rng.choice([0.1, 1 / 3, 1e50])
        sketch = DPSignOPORP(8, adjacency=adjacency, n_repeats=repeats)
        if adjacency != "l2" and rng.random() < 0.6:
            method, kind = rng.choice(["smooth", "rr", "laplace"]), rng.choice(["gaussian", "very_sparse"])
            sketch = DPSignRP(8, adjacency=adjacency, method=method, projection=kind)
        sketch.set_params(epsilon=epsilon, max_change=beta, random_state=rng.integers(99)).fit(np.zeros((1, 9)))
        step = {"coordinate": np.eye(9)[rng.integers(9)], "l1": rng.normal(size=9), "l2": rng.choice([-1.0, 1.0], 9)}
        step = (1 - 1e-9) * beta * step[adjacency] / np.linalg.norm(step[adjacency], 2 if adjacency == "l2" else 1)
        row = (
            rng.integers(-6, 7, 9) * beta if rng.random() < 0.5 else rng.normal(size=9) * beta * 2.0 ** rng.integers(34)
        )
        bits = []
        for one in (row, row + step):
            n_before, form = rng.integers(4), FORMS[rng.integers(len(FORMS))]
            bits.append(pluses(sketch, form(np.vstack([*rng.normal(size=(n_before, 9)), one])))[-1])
        assert exact_losses_of_bits(bits[:1], bits[1:]) <= epsilon


def test_deltas_of_many_bits_far_from_where_anybody_uses_them_are_private():
    """Epsilon from 1e-6 to 300, delta from 1e-300 to within 1e-14 of 1: the sum over all numbers of flips is less."""
    rng = np.random.default_rng(0)
    with mpmath.workdps(60):
        for _ in range(200):
            n_bits, epsilon = int(rng.choice([1, 2, 5, 17, 64])), 10 ** rng.uniform(-6, 2.5)
            delta = rng.choice([10 ** rng.uniform(-300, -1), rng.uniform(0, 1), 1 - 10 ** rng.uniform(-14, -1)])
            loss = mpmath.mpf(binomial_flip_epsilon(epsilon, delta, n_components=n_bits, changed=1.0))
            kept, exact = 1 / (1 + mpmath.exp(-loss)), mpmath.mpf(0)
            for n_kept in range(n_bits + 1):
                left = 1 - mpmath.exp(min(epsilon - (2 * n_kept - n_bits) * loss, 0))
                exact += mpmath.binomial(n_bits, n_kept) * kept**n_kept * (1 - kept) ** (n_bits - n_kept) * left
            assert exact <= delta


def drawn_anew(sketch, X, told):
    """The first fits of a sketch by each of many states, and the second ones, by what they tell: (first, second)."""
    for seed in range(200):
        one = clone(sketch).set_params(random_state=np.random.RandomState(seed))
        pair = tuple(told(one.fit(X).guarantee_) for _ in range(2))
        yield np.random.RandomState(seed), pair


@wide
def test_a_sketch_that_stands_twice_in_a_union_is_charged_for_both_of_its_projections():
    """A union clones nothing: the second W was zero, and so a loss of 0 was charged for the first one, too."""
    X, sketch = np.ones((5, 4)), DPRandomProjection(2, projection="very_sparse", density=0.05)
    draws = drawn_anew(sketch, X, lambda guarantee: guarantee.profile(0.0))
    state, (first, _) = next(draw for draw in draws if draw[1][0] > 2 * draw[1][1])
    sketch.set_params(random_state=state)
    union = make_union(sketch, sketch)
    union.fit_transform(X)
    assert (stated := privacy_report(union).private) is None or stated.profile(0.0) >= first


@wide
def test_a_sketch_fitted_again_does_not_hide_what_only_its_last_projection_does():
    """Fitted, released and fitted again with the same parameters: the report had the distance of the other W."""
    X, sketch = np.ones((5, 40)), bits_of_a_coordinate(epsilon=1.0)
    draws = drawn_anew(sketch, X, lambda guarantee: guarantee.hides)
    state, (first, second) = next(draw for draw in draws if draw[1][0] < draw[1][1])
    sketch.set_params(random_state=state).fit_transform(X)
    assert privacy_report(sketch).private.hides == first
    assert sketch.fit(X).guarantee_.hides == second > first
    stated = privacy_report(sketch).private
    assert stated is None or stated.hides is None or stated.hides <= first
