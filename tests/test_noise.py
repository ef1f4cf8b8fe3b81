"""Private randomness: its distribution, and that it is never shared."""

import inspect
import io
import multiprocessing
import os
import pickle
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import joblib
import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import factorial, factorial2
from sklearn.base import clone
from sklearn.utils import check_random_state

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSGDClassifier,
    DPSignOPORP,
    ProductNoiseOutputPerturbation,
    _noise,
    iDPSignRP,
)
from skdprp.testing import reproducible_noise
from skdprp.testing._tape import taped

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning"),
    pytest.mark.filterwarnings(
        "ignore:This process:DeprecationWarning"
    ),  # fork beside threads: the child draws and exits
]

SIZE = 300_000
FALSE_ALARM = 1e-10  # of each test of chance, of which there are many in each run


def exact_gaussian_tail(z):
    return mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2


def exact_laplace_tail(z):
    return mpmath.exp(-mpmath.mpf(z)) / 2


def gaussian_moment(order):
    return 0 if order % 2 else factorial2(order - 1)


def laplace_moment(order):
    return 0 if order % 2 else factorial(order)


@dataclass(frozen=True)
class Law:
    """Noise of scale 1: how it is drawn, its law and its moments; if by an inverse cdf, also its tail, and how far."""

    draw: Callable
    law: object
    moment: Callable
    tail: Callable | None = None
    farthest: float = 0.0


# Of each kind of noise that is released on a grid. The sampler of a kind is add_ and its name.
LAWS = {
    "gaussian": Law(partial(_noise.draw_gaussian, scale=1.0), stats.norm, gaussian_moment, exact_gaussian_tail, 37.5),
    "laplace": Law(_noise._standard_laplace, stats.laplace, laplace_moment, exact_laplace_tail, 200.0),
}
each_kind = pytest.mark.parametrize("kind", LAWS)


def test_every_kind_of_noise_on_the_grid_is_listed():
    assert LAWS.keys() == _noise._ROUNDED_TO.keys(), "add its law to LAWS of tests/test_noise.py"


@each_kind
def test_additive_noise_has_its_law(kind):
    assert stats.kstest(LAWS[kind].draw(SIZE), LAWS[kind].law.cdf).pvalue > FALSE_ALARM


@each_kind
def test_additive_noise_has_its_scale(kind):
    """On its grid, of a scale far above the steps."""
    values = np.zeros(SIZE)
    ON_GRID[kind](values, 7.5)
    assert stats.kstest(values, LAWS[kind].law(scale=7.5).cdf).pvalue > FALSE_ALARM


@each_kind
def test_additive_noise_has_its_tails(kind):
    """Counts beyond the 1e-3 quantiles are binomial, on both sides."""
    noise, law = LAWS[kind].draw(10**6), LAWS[kind].law
    for beyond in (noise < law.ppf(1e-3), noise > law.isf(1e-3)):
        assert stats.binomtest(int(beyond.sum()), len(noise), 1e-3).pvalue > FALSE_ALARM


@each_kind
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_additive_noise_has_its_moments(kind, order, seeded):
    """A mean of so many powers is nearly normal; its tails are not, which one value of the fourth powers makes up."""
    noise, (moment, of_square) = LAWS[kind].draw(10**6), map(LAWS[kind].moment, (order, 2 * order))
    assert abs((noise**order).mean() - moment) < 6 * np.sqrt((of_square - moment**2) / len(noise))


def words_from(monkeypatch, *draws):
    """Let the kernel return the given words, one tuple a draw."""
    draws = iter(np.array(words, dtype=np.uint64).tobytes() for words in draws)
    monkeypatch.setattr(_noise, "random_bytes", lambda size: next(draws)[:size])


def test_inverse_cdf_reaches_both_ends(monkeypatch):
    """A word deep in the tail is refined by further ones, of which the last decides how far it reaches."""
    first, refined = (0, 2**63, 2**47, 2**63 - 1, 2**64 - 1), ((2**47 - 1, 2**62), (2**62,))
    words_from(monkeypatch, first, *refined)
    tail, sign = _noise._tail_and_sign(5)
    assert np.allclose(tail * 2.0**17, [2.0**-17, 0.5, 1, 2**16, 2**16], rtol=1e-9, atol=0)
    assert (np.signbit(sign) == [False, True, False, False, True]).all()


@pytest.mark.parametrize("kind", [kind for kind, law in LAWS.items() if law.tail is not None])
@pytest.mark.parametrize("steps", [1024.0, 1500.3, 2047.9])
def test_boundaries_of_the_grid_are_where_they_should_be(kind, steps, monkeypatch):
    """At the exact tail probability of a boundary, the computed noise is within 2**-33 grid steps of it."""
    rng = np.random.default_rng(0)
    boundaries = np.rint(np.append(np.arange(20), rng.uniform(0, LAWS[kind].farthest * steps, 300))) + 0.5
    with mpmath.workdps(40):
        tails = np.array([float(LAWS[kind].tail(boundary / steps)) for boundary in boundaries])
    monkeypatch.setattr(_noise, "_tail_and_sign", lambda size: (tails, np.ones(size)))
    computed = steps * LAWS[kind].draw(len(tails))
    assert np.abs(np.abs(computed) - boundaries).max() < 2.0**-33


def whole_word_noise(steps, rest, monkeypatch):
    """Noise of the words of all cells, with `rest` for all but their first 16 bits."""
    monkeypatch.setattr(_noise, "_random_words", lambda size: np.full(size, 2**62, np.uint64))
    tail = np.append(np.arange(2**15), np.arange(2**15)[::-1]).astype(np.uint64)  # its first 15 bits
    words = (np.repeat([2**15, 0], 2**15).astype(np.uint64) | tail) << np.uint64(48) | np.uint64(rest)
    return steps * _noise._gaussian_quantile(*_noise._split(words))


def rounded_by_first_bits(fractions, steps, rest, monkeypatch):
    """Rounded sums with the noise of the same words, and how many of them were drawn to the end."""
    rests = [rest << 16, 2**62]  # what a word deep in the tail is refined by comes last
    drawn = []

    def _words(size):
        drawn.append(size)
        return np.full(size, rests[len(drawn) - 1], np.uint64)

    monkeypatch.setattr(_noise, "random_bytes", lambda size: np.arange(2**16, dtype=np.uint16).tobytes())
    monkeypatch.setattr(_noise, "_random_words", _words)
    return _noise._rounded_to_gaussian(fractions, steps), drawn[0]


# A boundary of the rounding on either end of a cell is the worst place for it.
@pytest.mark.parametrize("rest", [0, 2**48 - 1, 0x123456789ABC])
@pytest.mark.parametrize("steps", [1024.0, 1500.3, 2047.99, 1 / 3])
@pytest.mark.parametrize("beside", [None, -(2.0**-30), 2.0**-30])
def test_sixteen_bits_decide_what_the_whole_word_would(rest, steps, beside, monkeypatch):
    """The same rounding for every cell, with a boundary anywhere or next to the noise."""
    noise = whole_word_noise(steps, rest, monkeypatch)
    fractions = np.random.default_rng(0).uniform(-0.5, 0.5, 2**16) if beside is None else np.rint(noise) - noise
    if beside is not None:
        fractions += np.copysign(0.5 - abs(beside), -fractions) + beside
    assert np.abs(fractions).max() <= 0.5
    released, n_words = rounded_by_first_bits(fractions, steps, rest, monkeypatch)
    np.testing.assert_array_equal(released, np.rint(fractions + noise))
    assert beside is not None or n_words < 2**14


def test_the_margin_at_the_ends_of_a_cell_is_needed(monkeypatch):
    """Control: without it float32 takes noise at an end of its cell for noise beyond a boundary beside it."""
    monkeypatch.setattr(_noise, "_EDGE_MARGIN", np.float32(0.0))
    noise = whole_word_noise(2047.99, 0, monkeypatch)
    fractions = np.rint(noise) - noise
    fractions += np.copysign(0.5 - 2.0**-30, -fractions) + 2.0**-30
    released, _ = rounded_by_first_bits(fractions, 2047.99, 0, monkeypatch)
    assert (released != np.rint(fractions + noise)).sum() > 1000


ON_GRID = {kind: getattr(_noise, f"add_{kind}") for kind in _noise._ROUNDED_TO}
ROUNDED = ON_GRID | {
    "spherical": lambda values, scale: _noise.add_spherical(values, scale, shape=max(values.size, 1), power=1)
}


@pytest.mark.parametrize("add", ON_GRID.values(), ids=ON_GRID)
@pytest.mark.parametrize("scale", [1.0, 0.37, 1e-90, 1e90])
def test_support_does_not_depend_on_the_values(add, scale):
    """Whatever is released, it is a multiple of one power of two between 2**-11 and 2**-10 of the scale."""
    grid = _noise._grid(scale)
    assert scale / 2048 < grid <= scale / 1024
    rng = np.random.default_rng(0)
    for values in (
        np.zeros(1000),
        scale * rng.uniform(-9, 9, 1000),
        np.full(1000, scale / 3),
        np.full(1000, 1e6 * scale),
    ):
        add(values, scale)
        steps = values / grid
        assert (steps == np.rint(steps)).all()
        assert len(np.unique(steps)) > 500


@pytest.mark.parametrize(("shape", "power"), [(60, 1), (60, 2), (1, 2)])
def test_support_of_spherical_noise_does_not_depend_on_the_values(shape, power):
    rng = np.random.default_rng(0)
    grid = _noise._grid(2.0 * (shape / power) ** (1 / power) / np.sqrt(60))
    for values in (np.zeros((3, 20)), rng.uniform(-9, 9, (3, 20)), np.full((3, 20), 1 / 3)):
        released = values.copy()
        with _noise.reproducible_noise(0):  # a radius of shape 1 may be as small as a step
            _noise.add_spherical(released, 2.0, shape=shape, power=power)
        steps = released / grid
        assert (steps == np.rint(steps)).all()
        assert len(np.unique(steps)) > 50


@pytest.mark.parametrize("add", ROUNDED.values(), ids=ROUNDED)
def test_a_released_zero_does_not_tell_the_sign_of_the_value(add):
    released = np.full(200_000, -1e-300)
    with _noise.reproducible_noise(0):
        add(released, 1.0)
    zeros = released[released == 0]
    assert len(zeros) > 20
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize("n_at_once", [SIZE, _noise._FEW - 1])
@pytest.mark.parametrize("fraction", [0.0, 0.25, -0.49])
def test_release_is_the_rounding_of_the_real_sum(fraction, n_at_once):
    """A value between two points of a coarse grid keeps its mean and its share of each point."""
    scale = 1 / 3
    released = np.full(SIZE, fraction)
    for start in range(0, SIZE, n_at_once):
        some = released[start : start + n_at_once]
        _noise._add_on_grid(some, partial(_noise._rounded_to_gaussian, steps=scale), 1.0)
    assert (released == np.rint(released)).all()
    at_most = stats.norm(fraction, scale).cdf(np.arange(-1, 2) + 0.5)  # -1, 0 and 1
    for point, share in enumerate(at_most, start=-1):
        assert stats.binomtest(int((released <= point).sum()), SIZE, share).pvalue > FALSE_ALARM


NO_SCALES = [-1.0, 1e-320, 1e-300, 0.999 * 2.0**-500, 1.001 * 2.0**500, 1e300, np.inf, np.nan]


@pytest.mark.parametrize("scale", NO_SCALES)
def test_noise_that_floats_cannot_hold_is_refused(scale):
    """Below, the grid or values in units of it leave the normal floats: a value came out as nan, or as it is."""
    for add in ROUNDED.values():
        with pytest.raises(ValueError, match="no scale of noise that floats can sample"):
            add(np.ones(1), scale)


@pytest.mark.parametrize("scale", [2.0**-500, 2.0**500])
def test_noise_at_the_end_of_its_scales(scale):
    """Values as large as a sketch may pass on are released as the grid has them."""
    for add in ON_GRID.values():
        released = np.array([0.0, -1e100, 1e150, 1e-300, *[scale] * 5])
        add(released, scale)
        steps = released / _noise._grid(scale)
        assert np.isfinite(released).all() and (steps == np.rint(steps)).all()
        assert len(np.unique(released[-5:])) > 1  # two of five share a point of the grid once in some hundred times


def added(add, size, **options):
    values = np.zeros(size)
    add(values, 1.0, **options)
    return values


# By the function that draws, which is the first word.
EVERY_DRAW = {
    "add_gaussian": lambda: added(_noise.add_gaussian, 9),
    "add_gaussian to many": lambda: added(_noise.add_gaussian, 9 * _noise._FEW),
    "add_laplace": lambda: added(_noise.add_laplace, 9),
    "add_spherical": lambda: added(_noise.add_spherical, 9, shape=9, power=1),
    "draw_gaussian": lambda: _noise.draw_gaussian((3, 3), 1.0),
    "draw_spherical": lambda: _noise.draw_spherical(9, 1.0, shape=9, power=1),
    "flip": lambda: _noise.flip(np.zeros(9, dtype=np.uint16), np.array([2**63], dtype=np.uint64)),
    "poisson_above_zero": lambda: _noise.poisson_above_zero(3.0),
    "poisson_sample": lambda: _noise.poisson_sample(9, 0.5),
    "uniform_index": lambda: _noise.uniform_index(3),
}


@pytest.mark.parametrize("draw", EVERY_DRAW.values(), ids=EVERY_DRAW)
def test_all_draws_are_of_the_operating_system_and_of_nothing_else(draw, monkeypatch):
    """The same entropy makes the same draws, and no other generator moves."""
    others = [check_random_state(None).get_state, random.getstate]  # that all functions share
    states, entropy, drawn = [state() for state in others], np.random.default_rng(0).bytes(2**20), []
    for _ in range(2):
        stream = io.BytesIO(entropy)
        monkeypatch.setattr(os, "urandom", stream.read)
        drawn.append(draw())
        assert stream.tell() > 0
    np.testing.assert_equal(*drawn)
    np.testing.assert_equal([state() for state in others], states)


def test_values_too_large_for_their_grid_are_refused():
    """In units of the grid they are infinite: nan would come out."""
    with pytest.raises(FloatingPointError, match="overflow"):
        _noise.add_gaussian(np.array([0.0, 1e300]), 1e-100)


def test_values_without_sensitivity_need_no_noise():
    values = np.full(5, 0.1)
    _noise.add_gaussian(values, 0.0)
    assert (values == 0.1).all()


def test_noise_is_added_to_every_entry_and_to_the_array_itself():
    values = np.full((300, 401), 5.0)
    _noise.add_gaussian(values, 1e-3)
    assert (values != 5.0).mean() > 0.99 and abs(values.mean() - 5.0) < 1e-4
    with pytest.raises(ValueError, match="contiguous"):
        _noise.add_gaussian(np.zeros((4, 4))[:, :2], 1.0)


@pytest.mark.parametrize("threshold", [0, 1, 2**56 - 1, 2**57 + 12345, 2**63, 2**64 - 1])
def test_flip_compares_sixty_four_bits(threshold, monkeypatch):
    """With chosen random bits: a tie of the first byte is decided by the other fifty-six."""
    thresholds = np.array([threshold], dtype=np.uint64)
    top, rest = threshold >> 56, threshold & (2**56 - 1)
    levels = np.zeros(1, dtype=np.uint8)
    for first in {max(top - 1, 0), top, min(top + 1, 255)}:
        for second in {max(rest - 1, 0), rest}:
            draws = iter([bytes([first]), (second << 8).to_bytes(8, "little")])
            monkeypatch.setattr(_noise, "random_bytes", lambda size, draws=draws: next(draws)[:size])
            assert bool(_noise.flip(levels, thresholds)[0]) == ((first << 56) + second < threshold)


@pytest.mark.parametrize("probability", [0.001, 1 / 256, 0.3, 0.5])
def test_flip_has_its_probability(probability):
    thresholds = np.array([0, int(probability * 2**64)], dtype=np.uint64)
    levels = np.repeat(np.array([0, 1], dtype=np.uint16), SIZE).reshape(2, SIZE)
    never, sometimes = _noise.flip(levels, thresholds)
    assert not never.any()
    assert stats.binomtest(int(sometimes.sum()), SIZE, probability).pvalue > FALSE_ALARM


def test_flips_of_one_call_are_independent():
    """Runs of neighbouring flips, and the decisions on ties, show no correlation."""
    flips = _noise.flip(np.zeros(10**6, dtype=np.uint8), np.array([2**63 + 2**55], dtype=np.uint64))
    both = int((flips[1:] & flips[:-1]).sum())
    p = (0.5 + 2**-9) ** 2
    assert abs(both - 10**6 * p) < 8 * np.sqrt(10**6 * p)  # seven standard deviations, as neighbours share a flip


def drawn_in_threads(n_threads):
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(_noise.random_bytes(16))) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return drawn


def drawn_in_fork():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, _noise.random_bytes(16))
        os._exit(0)
    os.wait()
    return os.read(read, 16)


def test_bytes_are_never_shared():
    draws = [_noise.random_bytes(16) for _ in range(100)] + drawn_in_threads(20) + [drawn_in_fork() for _ in range(5)]
    assert len(set(draws)) == 125


def test_seed_stays_in_its_thread_and_process():
    with reproducible_noise(0):
        first = _noise.random_bytes(16)
        elsewhere = [*drawn_in_threads(3), drawn_in_fork(), drawn_in_fork()]
    with reproducible_noise(0):
        again = _noise.random_bytes(16)
        next_ = _noise.random_bytes(16)
    assert first == again
    assert len({first, next_, *elsewhere}) == 7
    assert not _noise.is_seeded()


def test_seed_ends_with_its_block_even_on_error():
    with pytest.raises(KeyError), reproducible_noise(0):
        assert _noise.is_seeded()
        raise KeyError
    assert not _noise.is_seeded() and _noise.random_bytes(16) != _noise.random_bytes(16)


def test_seeded_blocks_nest():
    with reproducible_noise(1):
        _noise.random_bytes(8)
        with reproducible_noise(2):
            inner = _noise.random_bytes(8)
        outer = _noise.random_bytes(8)
    with reproducible_noise(1):
        _noise.random_bytes(8)
        assert _noise.random_bytes(8) == outer != inner


@pytest.mark.parametrize(
    "estimator",
    [
        DPRandomProjection(projection="identity", noise="laplace", epsilon=1e306),
        DPSGDClassifier(epsilon=1e305),
        AMPClassifier(C=1e-305),
        AMPClassifier(C=1e-310),
        ProductNoiseOutputPerturbation(C=1e-310, radius="gaussian"),
        ProductNoiseOutputPerturbation(C=1e-290, max_norm=1e-50),
        ProductNoiseOutputPerturbation(C=1e250, max_norm=1e50),
    ],
    ids=repr,
)
def test_noise_that_floats_cannot_hold_is_refused_before_a_release(estimator):
    """A Laplace scale below 1e-300 released nan, a sensitivity that vanishes in floats no noise at all."""
    with pytest.raises(ValueError, match="no scale of noise that floats can sample"):
        estimator.fit(np.ones((6, 3)), [0, 1] * 3)
    assert not hasattr(estimator, "guarantee_")


# The identity of the noise

NOISES = [
    DPRandomProjection(16, projection="identity"),
    DPOPORP(16, noise="laplace"),
    DPSignOPORP(256),
    iDPSignRP(256),
]
noises = pytest.mark.parametrize("sketch", NOISES, ids=repr)


def fitted(sketch, n_features=16):
    return clone(sketch).set_params(random_state=0).fit(np.zeros((1, n_features)))


def pure_noise(sketch, n_rows=40):
    """Release rows of zeros: what comes back is noise."""
    return sketch.transform(np.zeros((n_rows, 16)))


def assert_no_row_twice(*releases):
    rows = np.vstack(releases)
    assert len(np.unique(rows, axis=0)) == len(rows)


def in_forked_child(function):
    """Return what `function` returns in a forked child of this process."""
    context = multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    process = context.Process(target=lambda: child.send(function()))
    process.start()
    result = parent.recv()
    process.join()
    return result


@noises
def test_no_noise_is_drawn_twice(sketch):
    """Rows, calls, copies, clones, refits, threads, forked children and worker processes share no noise vector."""
    sketch = fitted(sketch)
    releases = [pure_noise(sketch, 2000), pure_noise(sketch)]
    releases += [pure_noise(pickle.loads(pickle.dumps(sketch))) for _ in range(2)]
    releases += [pure_noise(fitted(sketch)), pure_noise(sketch.fit(np.zeros((1, 16))))]
    threads = [threading.Thread(target=lambda: releases.append(pure_noise(sketch))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    releases += [in_forked_child(lambda: pure_noise(sketch)) for _ in range(2)]
    releases.append(pure_noise(sketch))
    assert len(releases) == 13
    assert_no_row_twice(*releases)


def test_worker_processes_share_no_noise():
    """Joblib's processes, each with its own copy of one sketch, draw different noise."""
    sketch = fitted(NOISES[0])
    releases = joblib.Parallel(n_jobs=2, backend="loky")(
        joblib.delayed(sketch.transform)(np.zeros((40, 16))) for _ in range(4)
    )
    assert_no_row_twice(*releases)


def test_raw_fork_shares_no_noise():
    """Parent and child of os.fork draw different noise, whatever state they had before."""
    sketch = fitted(NOISES[0])
    pure_noise(sketch)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writer, pure_noise(sketch, 4).tobytes())
        finally:
            os._exit(0)
    mine = pure_noise(sketch, 4)
    theirs = np.frombuffer(os.read(reader, mine.nbytes)).reshape(mine.shape)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    assert_no_row_twice(mine, theirs)


@noises
def test_the_audit_of_identity_catches_seeded_noise(sketch):
    """Two seeded releases are the same, so that the tests above can fail."""
    sketch = fitted(sketch)
    releases = []
    for _ in range(2):
        with reproducible_noise(0):
            releases.append(pure_noise(sketch))
    with pytest.raises(AssertionError):
        assert_no_row_twice(*releases)


@noises
def test_seeded_noise_stays_in_its_block(sketch):
    """After the block, in other threads and in forked children, noise comes from the kernel even inside the block."""
    sketch, releases = fitted(sketch), []
    for _ in range(2):
        with reproducible_noise(0):
            thread = threading.Thread(target=lambda: releases.append(pure_noise(sketch)))
            thread.start()
            thread.join()
            releases.append(in_forked_child(lambda: pure_noise(sketch)))
            assert in_forked_child(_noise.is_seeded) is False
            assert _noise.is_seeded()
        releases.append(pure_noise(sketch))
    with pytest.raises(ZeroDivisionError), reproducible_noise(0):
        1 / 0  # noqa: B018
    assert not _noise.is_seeded()
    assert_no_row_twice(*releases)


def test_seeded_noise_never_reaches_the_threads_of_a_release(monkeypatch):
    """A large release inside the block stays in its thread: it repeats itself with any n_jobs."""
    monkeypatch.setattr("skdprp.sketch._base._PARALLEL_ENTRIES", 1)
    sketch = fitted(NOISES[0])
    releases = []
    for n_jobs in (1, 2):
        with reproducible_noise(0):
            releases.append(pure_noise(sketch.set_params(n_jobs=n_jobs), 20_000))
    assert np.array_equal(*releases)


def test_nested_seeds_are_independent():
    """An inner block draws from its own seed and gives the outer one back where it was."""
    sketch = fitted(NOISES[0])
    with reproducible_noise(0):
        outer = np.vstack([pure_noise(sketch), pure_noise(sketch)])
    with reproducible_noise(0):
        begin = pure_noise(sketch)
        with reproducible_noise(1):
            inner = pure_noise(sketch)
        end = pure_noise(sketch)
    assert np.array_equal(outer, np.vstack([begin, end]))
    assert_no_row_twice(outer, inner)


def added_by(name, **law):
    """What a sampler adds to 300 numbers."""
    values = np.ones(300)
    getattr(_noise, name)(values, 1.0, **law)
    return values - 1.0


# What releases values, by the noise of 300; and what draws numbers for others to release.
SAMPLERS = {
    "add_gaussian": partial(added_by, "add_gaussian"),
    "add_laplace": partial(added_by, "add_laplace"),
    "add_spherical": partial(added_by, "add_spherical", shape=300, power=1),
    "flip": lambda: _noise.flip(np.zeros(300, np.uint8), np.array([2**62], np.uint64)),
}
DRAWS = {"draw_gaussian", "draw_spherical", "poisson_above_zero", "poisson_sample", "uniform_index"}
NO_SAMPLERS = {
    "check_scale",
    "global_generators_left_alone",
    "reseed_global_generators",
    "here",
    "is_seeded",
    "last_seeded_draw",
    "random_bytes",
    "reproducible_noise",
}


def test_every_sampler_is_listed():
    public = {
        name
        for name, thing in vars(_noise).items()
        if inspect.isfunction(thing) and thing.__module__ == _noise.__name__ and not name.startswith("_")
    }
    # No check sees it otherwise.
    new = (
        "put it on the tape and in SAMPLERS; in DRAWS if others release what it draws, in NO_SAMPLERS if it draws none"
    )
    assert public - NO_SAMPLERS - DRAWS == set(SAMPLERS), new
    drawn = {name.split()[0] for name in EVERY_DRAW}
    assert drawn == public - NO_SAMPLERS, "call it in EVERY_DRAW of tests/test_noise.py"


samplers = pytest.mark.parametrize("name", SAMPLERS)


@samplers
def test_every_sampler_is_known_to_the_tape(name):
    """On a tape are the values as they came, once, and no byte is drawn for them."""
    with taped() as tape:
        before = _noise.last_seeded_draw()
        assert not SAMPLERS[name]().any()
        assert _noise.last_seeded_draw() == before
    [(_, _, values)] = tape
    assert tape.n_undisturbed == 1
    assert values.shape == (300,) and (values == values[0]).all()


@samplers
def test_every_sampler_is_silenced(name, silenced_noise):
    """Tests that leave noise out leave out that of all samplers."""
    assert not SAMPLERS[name]().any()


@samplers
def test_a_share_of_the_noise_of_every_sampler_is_left(name, noise_of):
    """Tests that take half of the noise away take it from all samplers: of a very small share, nothing is seen."""
    assert SAMPLERS[name]().any()
    noise_of(2.0**-40)
    assert np.abs(SAMPLERS[name]()).max() < 2.0**-20
