"""Attacks on noise: audits through the public interface, seeds and tapes, floating-point numbers, fits in between."""

import asyncio
import contextlib
import contextvars
import copy
import gc
import itertools
import math
import pickle
import random
import sys
import threading
import time
import warnings
from collections import Counter
from fractions import Fraction
from functools import partial

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from attacks import (
    ELSEWHERE,
    LEAST,
    SPHERICAL,
    X6,
    X12,
    X12_UNIFORM,
    X24,
    X60,
    Y60,
    fitted_and_told,
    gaussian_delta,
    in_a_thread,
    small_sketch,
)
from scipy.special import ndtr, ndtri
from sketches import wide
from sklearn import config_context
from sklearn.base import clone

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    PrivacyLedger,
    PublicScaler,
    _noise,
    audit_epsilon,
    iDPSignRP,
    privacy_report,
    worst_neighbours,
)
from skdprp.mechanisms import add_gaussian, add_laplace, gaussian_scale
from skdprp.mechanisms.radial import add_spherical
from skdprp.mechanisms.randomised_response import flip_thresholds
from skdprp.testing import _private_checks, reproducible_noise
from skdprp.testing._tape import same_tape, tape_of

# Audits: noise as stated withstands them, less of it does not


TRIALS = 6_000
CONFIDENCE = 0.999  # of seeded noise, whose outcome is always this one: 1 - 1e-10 needs three times as many trials


ATTACKS = ["linear", "discriminant"]


def audit(release, first, second, delta, *, n_trials=TRIALS, rows_are_trials=True, distinguishers=ATTACKS):
    """Return a lower bound on epsilon at delta from an attack on two rows, always with the same noise."""
    options = {"rows_are_trials": rows_are_trials, "distinguishers": distinguishers, "n_jobs": 1}
    pair = first[None], second[None]
    with reproducible_noise(0):
        return audit_epsilon(release, *pair, delta=delta, confidence=CONFIDENCE, n_trials=n_trials, **options).epsilon


def rows(sketch):
    """Two rows at distance max_change, in the direction that moves the projection most."""
    return [row[0] for row in worst_neighbours(sketch, np.zeros((1, 8)))]


forks_beside_threads = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # on purpose
ADDITIVE = [
    DPRandomProjection(2, delta=0.05),
    DPRandomProjection(2, delta=0.05, projection="gaussian", adjacency="l2"),
    DPRandomProjection(projection="identity", delta=0.05),
    DPRandomProjection(2, projection="uniform", delta=0.05, calibration="kenthapadi"),
    DPRandomProjection(2, projection="very_sparse", density=0.9, delta=0.05),
    DPRandomProjection(2, projection="count_sketch", delta=0.05),
    DPRandomProjection(1, noise="laplace"),
    DPOPORP(2, delta=0.05),
    DPOPORP(2, noise="laplace"),
]
SIGNS = [
    DPSignRP(4),
    DPSignRP(4, method="rr", projection="gaussian"),
    DPSignOPORP(4),
    DPSignOPORP(4, method="rr"),
    DPSignOPORP(4, n_repeats=2),
    iDPSignRP(4, method="rr"),
    iDPSignRP(4, delta=0.05),
    iDPSignRP(4, delta=0.05, projection="very_sparse", density=0.9),
    DPSignRP(4, projection="very_sparse", density=0.9),
    iDPSignRP(4, method="rr", projection="oporp"),
]


def halved_flips(sketch):
    """Return the thresholds of twice the loss of one bit."""
    if isinstance(sketch, iDPSignRP):
        loss = np.log(2.0**64 / sketch.flip_thresholds_[1:] - 1)
        return np.append(np.uint64(0), (2.0**64 / (1 + np.exp(2 * loss))).astype(np.uint64))
    return flip_thresholds(2 * sketch.flip_epsilon_)


@wide
@forks_beside_threads
@pytest.mark.parametrize("sketch", ADDITIVE + SIGNS, ids=repr)
def test_audit_stays_below_the_guarantee_and_finds_too_little_noise(sketch):
    """The attack never proves a loss above epsilon; with half the noise, or twice the loss of a flip, it does."""
    sketch = clone(sketch).set_params(random_state=0).fit(np.ones((1, 8)))
    delta, (first, second) = sketch.guarantee_.delta, rows(sketch)
    assert audit(sketch.transform, first, second, delta) <= sketch.guarantee_.epsilon
    if hasattr(sketch, "scale_"):
        share = 4 if getattr(sketch, "calibration", "") == "kenthapadi" else 2
        sketch.scale_ = sketch._noise_of_fit["scale_"] = sketch.scale_ / share
    else:
        sketch.flip_thresholds_ = sketch._noise_of_fit["flip_thresholds_"] = halved_flips(sketch)
    assert audit(sketch.transform, first, second, delta) > sketch.guarantee_.epsilon


@wide
@forks_beside_threads
@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_audit_of_flips_with_a_least_norm(calibration):
    """With a least norm the bound holds over the draw of the projection; signs that are not flipped break it."""
    parameters = {"method": "rr", "projection": "gaussian", "delta": 0.05, "min_norm": 1.0, "max_change": 1.0}
    pair = np.zeros((2, 8))
    pair[:, :2] = [[1, 0.5], [1, -0.5]]

    def bound(flip_less):
        def agreement(row):
            sketch = DPSignRP(32, epsilon=1.0, calibration=calibration, **parameters).fit(pair)
            if flip_less:
                sketch.flip_thresholds_ = sketch._noise_of_fit["flip_thresholds_"] = flip_thresholds(40.0)
            return (sketch.transform(row) * np.sign(sketch.projection_.project(pair[:1]))).sum()

        itself = {"itself": lambda outputs: outputs[:, 0]}  # no trial has to teach it
        return audit(agreement, *pair, 0.05, n_trials=70, rows_are_trials=False, distinguishers=itself)

    assert bound(flip_less=False) <= 1.0 < bound(flip_less=True)


@wide
@forks_beside_threads
def test_audit_finds_noise_of_chi_radius(monkeypatch):
    """Noise of a uniform direction and a chi_1 radius, of the Gaussian scale, is caught at 64 components."""
    rng = np.random.default_rng(0)

    def chi_1(values, scale):
        direction = rng.normal(size=values.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        values += scale * np.abs(rng.normal(size=(len(values), 1))) * direction

    sketch = DPOPORP(16, delta=0.05, random_state=0).fit(np.ones((1, 8)))
    first, second = rows(sketch)
    centres = sketch.projection_.project(np.array([first, second]))

    def nearer(X):
        y = sketch.transform(X)
        return (np.linalg.norm(y - centres[0], axis=1) - np.linalg.norm(y - centres[1], axis=1))[:, None]

    assert audit(nearer, first, second, 0.05) <= 1.0
    monkeypatch.setattr(_noise, "add_gaussian", chi_1)
    assert audit(nearer, first, second, 0.05) > 1.0


@wide
@forks_beside_threads
@pytest.mark.parametrize("sketch", [DPOPORP(2, delta=0.05), DPOPORP(2, noise="laplace"), DPSignOPORP(2)], ids=repr)
def test_audit_finds_noise_that_two_rows_share(sketch, monkeypatch):
    """A row released beside a known one hides in its own noise; where the two share theirs, their difference tells."""
    sketch = clone(sketch).set_params(random_state=0).fit(np.ones((1, 8)))
    first, second = rows(sketch)

    def difference(X):
        both = np.empty((2 * len(X), X.shape[1]))
        both[::2], both[1::2] = X, 0.4 * first
        released = sketch.transform(both).astype(float)
        return released[::2] - released[1::2]

    assert audit(difference, first, second, sketch.guarantee_.delta, n_trials=33_000) <= 1.0
    honest = _noise.random_bytes
    width = 16 if getattr(sketch, "noise", None) == "laplace" else 4 if hasattr(sketch, "noise") else 2

    def shared(size):
        if size % (2 * width):
            return honest(size)
        once = np.frombuffer(honest(size // 2), np.uint8).reshape(-1, width)
        return np.repeat(once, 2, axis=0).tobytes()

    monkeypatch.setattr(_noise, "random_bytes", shared)
    assert audit(difference, first, second, sketch.guarantee_.delta, n_trials=33_000) > 1.0


@wide
@forks_beside_threads
def test_audit_finds_levels_without_margin():
    """On multiples of 0.1 rounding moves a level by two; the margin hides it, and without it the audit sees it."""
    sketch = DPSignOPORP(1, epsilon=1.0, max_change=0.1, random_state=0).fit(np.ones((1, 2)))
    signs = np.sign(sketch.projection_.project(np.eye(2)).ravel())
    grid = [(i, j) for i in range(-9, 10) for j in range(-9, 10)]
    rows = 0.1 * np.array(grid) * signs

    def levels(change):
        return np.ceil(np.abs(sketch.projection_.project(rows)).ravel() / change)

    def jumps(change):
        level = dict(zip(grid, levels(change), strict=True))
        pairs = [(c, (c[0] + 1, c[1])) for c in grid if (c[0] + 1, c[1]) in level]
        two = [(level[c], c, d) for c, d in pairs if abs(level[c] - level[d]) == 2]
        return [pair for _, *pair in sorted(two)]

    assert not jumps(sketch.component_change_[0])
    first, second = (0.1 * np.array(c) * signs for c in jumps(0.1)[0])
    assert audit(sketch.transform, first, second, 0.0) <= 1.0
    sketch.component_change_ = sketch._noise_of_fit["component_change_"] = np.array([0.1])
    assert audit(sketch.transform, first, second, 0.0) > 1.0


def low_bits(release):
    """Return the event of being near zero and no multiple of 2**-53, which floats near one exclude."""

    def event(X):
        y = release(X)
        return (np.abs(y) < 0.25) & (np.ldexp(y, 53) % 1 != 0)

    return event


@wide
@forks_beside_threads
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_last_bits_of_a_release_do_not_tell_rows_apart(noise, monkeypatch):
    """On the grid, no release near zero has low bits; with plain floating-point addition they give the row 0 away."""
    sketch = DPOPORP(1, noise=noise, random_state=0).fit(np.ones((1, 1)))
    zero, one = np.zeros(1), np.ones(1)
    assert not low_bits(sketch.transform)(np.zeros((10_000, 1))).any()

    standard = {"gaussian": lambda size: _noise.draw_gaussian(size, 1.0), "laplace": _noise._standard_laplace}[noise]
    monkeypatch.setitem(
        _noise._ROUNDED_TO, noise, lambda fractions, steps: fractions + steps * standard(fractions.size)
    )
    assert audit(low_bits(sketch.transform), zero, one, sketch.guarantee_.delta) > 1.0


def test_audits_of_any_sketch_refute_nothing(seeded):
    """Attacks on the pairs that are worst, always with the same noise."""
    choose = random.Random(0)
    for _ in range(12):
        options = {"epsilon": choose.uniform(0.2, 4.0), "random_state": 0}
        sketch = choose.choice(
            [
                DPOPORP(4, adjacency=choose.choice(["l1", "l2"]), delta=1e-2, **options),
                DPSignOPORP(4, adjacency=choose.choice(["coordinate", "l1", "l2"]), **options),
                DPSignRP(4, projection="gaussian", method=choose.choice(["smooth", "rr"]), delta=1e-2, **options),
            ]
        )
        sketch = fitted_and_told(sketch, 5)[0]
        a, b = worst_neighbours(sketch, np.zeros((1, 5)))
        result = audit_epsilon(sketch, a, b, confidence=CONFIDENCE, n_trials=330)
        assert not result.exceeds(sketch.guarantee_)


@pytest.mark.filterwarnings("error")
def test_an_audit_finds_out_a_release_without_any_noise():
    """Of many numbers that are the same in all trials a covariance overflowed: "Input contains NaN" was all it said."""
    rows = np.arange(240.0).reshape(40, 6) / 240
    neighbour = rows + np.eye(40, 6)
    assert audit_epsilon(np.ravel, rows, neighbour, n_trials=200).epsilon > 2


def test_an_audit_of_a_release_that_drifts_does_not_exceed_what_each_call_guarantees():
    """A public number of the call was added to a count: epsilon was at least 2.9 at a confidence of 1 - 1e-9, said an
    audit whose bound holds "whatever the release", as it had drawn all outputs of the one table before the other's.
    """
    rng, numbers = np.random.default_rng(0), itertools.count()

    def noisy_count(rows):
        return len(rows) + rng.laplace() + next(numbers) / 1000

    result = audit_epsilon(noisy_count, np.zeros((10, 1)), np.zeros((11, 1)), n_trials=4000, confidence=1 - 1e-9)
    assert not result.exceeds(PrivacyGuarantee(1.0, 0.0))


# How far noise reaches


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


@pytest.mark.filterwarnings("ignore:This release has no guarantee:skdprp.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [900.0, 1000.0, 1e4, 1e6])
def test_noise_before_a_sign_reaches_as_far_as_the_guarantee_says(epsilon):
    """Held fixed, the noise of a row at 1 never reached the sign that a neighbour at 0 has half of the time.

    At a printed (1000, 1e-06) a sign that nobody ever sees of one row has probability 1/2 for the other: delta is 1/2.
    """
    sketch = iDPSignRP(1, epsilon=epsilon, projection="oporp").fit([[0.0]])
    furthest = 1 / sketch.scale_  # the edge of where signs have noise, in standard deviations
    assert sketch.guarantee_.epsilon == math.inf or furthest <= -ndtri(LEAST)


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


@pytest.mark.parametrize(("epsilon", "delta"), [(1000.0, 1e-6), (1.0, 1e-300)])
def test_what_no_noise_that_can_be_sampled_reaches_is_stated_as_no_guarantee(epsilon, delta):
    with pytest.warns(UserWarning):
        sketch = DPOPORP(3, epsilon=epsilon, delta=delta).fit(X12_UNIFORM)
    assert sketch.guarantee_.epsilon == np.inf


# Floating-point numbers of the caller and of the rows


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


@pytest.mark.parametrize(
    "options",
    [
        {"array_api_dispatch": True},
        {"assume_finite": True, "skip_parameter_validation": True},
        {"transform_output": "pandas"},
        {"working_memory": 1, "enable_metadata_routing": True},
    ],
    ids=str,
)
def test_no_configuration_changes_what_reaches_the_noise(options):
    """Those of scikit-learn, for rows in any form, to the last bit."""
    for sketch in (DPOPORP(4), DPSignOPORP(4), DPRandomProjection(4, projection="gaussian")):
        sketch.fit(X24)
        for rows in (X24, X24.astype(np.float32), sp.csr_array(X24), X24.tolist()):
            tape = tape_of(lambda rows=rows, sketch=sketch: sketch.transform(rows))
            try:
                with config_context(**options):
                    other = tape_of(lambda rows=rows, sketch=sketch: sketch.transform(rows))
            except (ImportError, RuntimeError):  # the array API of scipy has to be on before it is imported
                return
            assert same_tape(tape, other, share=0)


def test_no_number_of_a_row_makes_a_warning():
    """Numbers beyond floats, subnormal ones and negative zeros, in arrays of several types, at fit and at transform."""
    values = [np.longdouble("1e4000"), np.longdouble("1e-4900"), np.longdouble(5e-324), np.longdouble(-0.0)]
    for value in values:
        rows = X24.astype(np.longdouble)
        rows[2, 2] = value
        for form in (rows, rows.astype(object), sp.csr_array(rows)):
            for sketch in (DPOPORP(4), DPSignOPORP(4), iDPSignRP(4)):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for release in (sketch.fit, lambda rows, sketch=sketch: sketch.fit(X24).transform(rows)):
                        try:
                            release(form)
                        except ValueError as error:
                            assert "infinity" in str(error) or "large" in str(error)


# Seeds and tapes that outlive their block


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside threads, on purpose
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_seed_holds_in_its_own_thread(elsewhere):
    """Threads that are started in a copy of the context, as all are under some configurations, drew from the seed."""
    with reproducible_noise(0):
        assert _noise.is_seeded()
        assert not elsewhere(_noise.is_seeded)


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


class LeftOpen:
    """Chunks whose iterator waits inside of a block of seeded noise after the last of them."""

    def __iter__(self):
        self._waiting = self._seeded()
        yield next(self._waiting)

    def _seeded(self):
        with reproducible_noise(0):
            yield X60, Y60
            yield None

    def close(self):
        """Leave the block."""
        self._waiting.close()


@pytest.mark.parametrize("model", [AMPClassifier(classes=[0, 1]), DPSGDClassifier(classes=[0, 1], n_epochs=3)])
def test_a_seed_that_chunks_leave_behind_marks_the_fit(model):
    chunks = LeftOpen()
    assert model.fit_chunks(chunks).guarantee_.seeded
    chunks.close()
    assert not model.fit(X60, Y60).guarantee_.seeded


# Noise of another fit


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


def test_no_release_is_recorded_under_the_guarantee_of_another_sketch():
    """Noise, projection and parameters that were set after the fit are refused; the guarantee, set by audits, is not.

    With the guarantee of a sketch of epsilon 0.01, one of epsilon 50 was reported, and entered into a ledger, at 0.01.
    """
    strong, weak = (DPOPORP(4, epsilon=epsilon).fit(X24) for epsilon in (0.01, 50.0))
    mu = weak.sensitivity_ / weak.scale_
    weak.guarantee_ = strong.guarantee_
    totals = []
    try:
        with PrivacyLedger() as ledger:
            weak.transform(X24)
        totals.append(ledger.total()[0].guarantee)
        totals.append(privacy_report(weak).private)
    except ValueError:
        pass
    assert all(total is None or gaussian_delta(total.epsilon, mu) <= total.delta * (1 + 1e-6) for total in totals)


def test_a_projection_is_copied_while_another_thread_computes_with_it():
    """What it computes on first use changed the dictionary that its state was made from: pickles of sketches failed."""
    projection = DPOPORP(4, random_state=0).fit(X6).projection_
    errors, end = [], time.monotonic() + 0.8

    def _copy():
        while time.monotonic() < end and not errors:
            try:
                copy.copy(projection)
            except RuntimeError as error:
                errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        (thread := threading.Thread(target=_copy)).start()
        while time.monotonic() < end and not errors:
            projection = DPOPORP(4, random_state=0).fit(X6).projection_
            projection = copy.copy(projection)  # of which nothing is computed yet
            projection.project(X6)
    except RuntimeError as error:
        errors.append(error)
    finally:
        thread.join()
        sys.setswitchinterval(before)
    assert not errors


def test_threads_never_release_under_the_guarantee_of_another_fit():
    """Fits with two epsilons, while others copy, pickle and release: the noise is always that of the guarantee."""
    rows, wrong, released = np.zeros((300, 16)), [], Counter()
    scales = {epsilon: DPOPORP(8, epsilon=epsilon).fit(rows).scale_ for epsilon in (0.1, 8.0)}
    shared, end = DPOPORP(8, epsilon=0.1, random_state=0).fit(rows), time.monotonic() + 60

    def _goes_on():
        return len(wrong) + sum(released.values()) < 60 and time.monotonic() < end

    def _fit():
        while _goes_on():
            shared.set_params(epsilon=next(epsilons)).fit(rows)

    def _use(copied):
        while _goes_on():
            try:
                own = copied(shared)
                noise = own.transform(rows).std()
            except (ValueError, RuntimeError):  # the last fit has not ended, or a parameter was set since
                continue
            released[copied.__name__] += 1
            if not 0.7 < noise / scales[own.guarantee_.epsilon] < 1.4:  # beyond some 20 standard deviations
                wrong.append((copied.__name__, noise, own.guarantee_))

    epsilons = iter(10**6 * [0.1, 8.0])
    copies = copy.copy, copy.deepcopy, lambda sketch: pickle.loads(pickle.dumps(sketch))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=_fit), *(threading.Thread(target=_use, args=(one,)) for one in copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong and sum(released.values()) > 0


def test_jobs_and_threads_share_no_noise():
    """Linear terms of one-vs-rest problems, drawn at once, and of fits in four threads are all different."""
    drawn, gaussian = [], _noise.draw_gaussian

    def keep(shape, scale):
        drawn.append(gaussian(shape, scale))
        return drawn[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_noise, "draw_gaussian", keep)
        estimator = AMPClassifier(delta=1e-6, multi_class="ovr", epsilon=5.0, n_jobs=2)
        joblib.Parallel(n_jobs=4, backend="threading")(
            joblib.delayed(estimator.__class__(**estimator.get_params()).fit)(X12, np.arange(12) % 3) for _ in range(4)
        )
    values = np.concatenate([part.ravel() for part in drawn])
    assert len(drawn) == 4 and len(np.unique(values)) == values.size


def test_tables_of_arrow_are_read_column_by_column_before_noise_by_hand():
    from skdprp.mechanisms import add_gaussian

    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [2**53 + 1, 1], "b": [0.5, 0.5]})
    for given in (table, table.to_batches()[0], table["a"], [table["a"], table["b"]]):
        with pytest.raises(ValueError, match="equal no float"):
            add_gaussian(given, 0.01)


@pytest.mark.parametrize("number", [np.complex128(3), np.array(3 + 0j)])
def test_noise_by_hand_does_not_warn_of_one_complex_number(number, recwarn):
    """Of numpy's complex numbers the imaginary part is dropped, with a warning that tells of the cell."""
    with contextlib.suppress(TypeError, ValueError):
        add_laplace([number, 1.0], 1.0)
    assert not [warning for warning in recwarn if "omplex" in str(warning.message)]
