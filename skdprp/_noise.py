"""Private randomness: the only place where it is drawn.

Every bit comes from the kernel at the moment it is used. Nothing is kept between two draws, so that threads, forked
processes, pickles and clones cannot share noise. Functions work on blocks that fit the cache.

Noise of released numbers is rounded so that floating point leaks nothing. Let g be a power of two between 2^-11 and
2^-10 of the scale, and x / g = s + f with s an integer and |f| <= 1/2: all exact in floating point. Released is

    g (s + round(f + N / g)) = g round((x + N) / g),

a rounding of the real-valued mechanism x + N, on a grid that does not depend on x. What is left is the error of the
computed f + N / g, which moves the boundaries between the values of the rounding. It is below 2^-33 as long as |N| is
below 37.5 standard deviations (Gaussian) or 200 scales (Laplace), so that each value has its probability to within a
factor exp(2^-31), `SAMPLING_LOSS`; beyond, all probabilities together are under 2^-288 for each released number.

Most roundings of Gaussian noise are known from the first 16 bits of a word, which say between which two numbers N lies:
both ends round to the same value. Where they do not, the other bits of the word are drawn, and N is computed. What is
released is what the whole word would have given. Of few values whole words are drawn at once.
"""

import math
import os
import random
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import partial
from threading import RLock, get_ident

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri
from sklearn.utils import check_random_state

from ._recording import Block, check_recorded, innermost

_BLOCK = 1 << 15  # values at a time, which stay in the cache with what is drawn for them
_LOW_63 = np.uint64(2**63 - 1)
_DIGITS = Context(prec=200, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_EXACT_SHAPE = 2.0**14  # of Gamma variates: up to it scipy has quantiles to 2^-40 of the largest, far beyond they jump
_DEEP = 2.0**-17  # tails below, of which a word of 64 bits has left fewer than 46, draw another word
_GRID_BITS = 10  # the grid is 2^-10 of the scale, or less: a finer one costs privacy in sampling, a coarser one utility
GAUSSIAN, LAPLACE = "gaussian", "laplace"  # kinds of noise, as tapes name them
_EDGE_MARGIN = np.float32(2.0**-8)  # see _rounded_to_gaussian
_FEW = 2048  # values, of which each by itself takes less time than all by cells
SAMPLING_LOSS = 2.0**-31  # see above: the loss by rounding of each value that is released
_SCALES = 2.0**-500, 2.0**500  # of which all values up to 2**500 are multiples of a normal float, up to a fraction
_SEEDED = ContextVar("innermost block of seeded noise", default=None)
_LAST_SEEDED = ContextVar("last seeded draw of this context, by a name that no other draw has", default=b"")


def _here():
    """Name this thread of this process: forks inherit a context, and threads where they are started in a copy of it."""
    return os.getpid(), get_ident()


class SeededBlock(Block):
    """Noise is drawn from a seed, or left out where there is a tape: see `testing._tape`."""

    def __init__(self, seed, *, tape=None):
        super().__init__(_SEEDED)
        self.generator, self.tape, self._owner = np.random.default_rng(seed), tape, _here()

    def holds(self):
        """Whether it is not left, in its thread: also where it waits in a generator, such as a fixture of a test."""
        return self.is_entered() and self._owner == _here()


def _tape():
    """Return what takes that which noise would be added to, and then gets none, or None: see `testing._tape`."""
    return next((block.tape for block in innermost(_SEEDED) if block.tape is not None), None)


def is_seeded():
    """Whether noise drawn here comes from a seed, which makes it no protection at all."""
    return next(innermost(_SEEDED), None) is not None


def last_seeded_draw():
    """Name of the last draw of this context that came from a seed: another one later tells that there was one since.

    Whether there is a seed before a release and after it would not tell: a callback may enter and leave one meanwhile.
    """
    return _LAST_SEEDED.get()


@contextmanager
def reproducible_noise(seed):
    """Draw noise from a seed inside a `with` block: for tests and figures, never for private data.

    The seed holds in this thread and this process only: other threads, worker processes and forked children keep
    drawing from the kernel. Guarantees of releases made inside the block are marked as seeded.

    Parameters
    ----------
    seed : int
        Seed of the stand-in for the kernel's entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import DPOPORP
    >>> from skdprp.testing import reproducible_noise
    >>> X = np.eye(4)
    >>> with reproducible_noise(0):
    ...     sketch = DPOPORP(2, random_state=0).fit(X)
    >>> sketch.guarantee_
    (1.0, 1e-06)-DP per transform, l1 change of 1.0 [seeded: not private]
    """
    with SeededBlock(seed):
        yield


def random_bytes(size):
    """Return `size` fresh bytes from the kernel, for a release that every open ledger knows of."""
    seeded = next(innermost(_SEEDED), None)
    check_recorded(seeded=seeded is not None)
    if seeded is None:
        return os.urandom(size)  # no buffer is read ahead: two processes would share what is in it after a fork
    _LAST_SEEDED.set(os.urandom(16))
    return seeded.generator.bytes(size)


def _random_words(size):
    return np.frombuffer(random_bytes(8 * size), np.uint64)


def _tail_and_sign(size):
    """Uniform tail probabilities in (0, 1/2], exact to 46 bits however small, and floats with independent signs."""
    return _split(_random_words(size))


def _split(words):
    """Tail probabilities and signs of uniform words, those deep in the tail refined by further words."""
    tail = ((words & _LOW_63) + 0.5) * 2.0**-64
    deep = np.flatnonzero(tail < _DEEP)
    if deep.size:  # once in 2**16: given this, the tail is uniform below 2**-17
        tail[deep] = 2 * _DEEP * _tail_and_sign(deep.size)[0]
    return tail, words.view(np.float64)  # of which only the sign is used: the bit that the tail leaves out


def _gaussian_quantile(tail, sign):
    return np.copysign(ndtri(tail), sign)


def _standard_laplace(size):
    tail, sign = _tail_and_sign(size)
    return np.copysign(np.log(2.0 * tail), sign)


class ScaleError(ValueError):
    """A scale of noise that floats cannot sample."""


def check_scale(scale):
    """Refuse a scale whose grid leaves the normal floats, or in units of which values would: they came out as nan."""
    if not _SCALES[0] <= scale <= _SCALES[1]:
        raise ScaleError(
            f"{scale:.3g} is no scale of noise that floats can sample, from {_SCALES[0]:.3g} to {_SCALES[1]:.3g}: "
            "choose another epsilon or penalty, or another unit for the data."
        )
    return scale


def _grid(scale):
    """Power of two between 2^-11 and 2^-10 of the scale."""
    return np.ldexp(1.0, np.frexp(check_scale(scale))[1] - 1 - _GRID_BITS)


# Standard Gaussian noise at the ends of 2^16 cells of equal probability.
_POSITIVE_EDGES = -ndtri(np.arange(1, 2**15 + 1) * 2.0**-16)
_EDGES = np.concatenate([[-np.inf], -_POSITIVE_EDGES, _POSITIVE_EDGES[-2::-1], [np.inf]]).astype(np.float32)


def _rounded_to_gaussian(fractions, steps):
    """Rounded sums of fractions and Gaussian noise of a standard deviation of so many steps, at most 2048.

    Noise at the ends of a cell but the outermost is below 4.18 * 2048 steps, of which float32 rounds off less than
    3 * 2^-24: together with fractions less than half of `_EDGE_MARGIN`.
    """
    if fractions.size < _FEW:
        return np.rint(fractions + steps * _gaussian_quantile(*_tail_and_sign(fractions.size)))
    cells = np.frombuffer(random_bytes(2 * fractions.size), np.uint16)
    index, short, steps_short = cells.astype(np.intp), fractions.astype(np.float32), np.float32(steps)
    low, high = np.take(_EDGES[:-1], index, mode="clip"), np.take(_EDGES[1:], index, mode="clip")
    for bound, margin in ((low, -_EDGE_MARGIN), (high, _EDGE_MARGIN)):
        bound *= steps_short
        bound += short
        bound += margin
        np.rint(bound, out=bound)
    rounded, undecided = low.astype(np.float64), np.flatnonzero(low != high)
    # The first 16 bits of the words of a cell: a sign, and a tail probability that grows towards the middle.
    cell = cells[undecided]
    words = np.where(cell < 2**15, cell | np.uint16(2**15), ~cell).astype(np.uint64) << np.uint64(48)
    words |= _random_words(undecided.size) >> np.uint64(16)
    rounded[undecided] = np.rint(fractions[undecided] + steps * _gaussian_quantile(*_split(words)))
    return rounded


def _rounded_to_laplace(fractions, steps):
    """Rounded sums of fractions and Laplace noise of a scale of so many steps."""
    return np.rint(fractions + steps * _standard_laplace(fractions.size))


_ROUNDED_TO = {GAUSSIAN: _rounded_to_gaussian, LAPLACE: _rounded_to_laplace}


def _add_on_grid(values, rounded, grid):
    """Add noise and round to the grid: in place, as if x + N were a real number; `rounded` adds it to fractions."""
    with np.errstate(over="raise"):  # nothing is released then
        values /= grid
    whole = np.rint(values)
    values -= whole
    whole += rounded(values)
    whole += 0.0  # makes -0.0 of x and N both between -g/2 and 0 a 0.0, which does not tell the sign of x
    np.multiply(whole, grid, out=values)


def _flat_view(values):
    flat = values.reshape(-1)
    if not np.may_share_memory(flat, values):
        raise ValueError("Noise is added in place: the array must be contiguous.")
    return flat


def _add(values, scale, kind):
    if (tape := _tape()) is not None:
        return tape.take(kind, scale, values)
    if not values.size:  # as of a column without any category
        return
    flat = _flat_view(values)
    if scale == 0:  # no neighbour changes these values, and they are released all the same
        return check_recorded(seeded=False)
    grid, rounded = _grid(scale), _ROUNDED_TO[kind]
    n_blocks = round(flat.size / _BLOCK)  # a short last one would cost as much
    for block in np.array_split(flat, n_blocks) if n_blocks > 1 else [flat]:
        _add_on_grid(block, partial(rounded, steps=scale / grid), grid)


def add_gaussian(values, scale):
    """Release a float64 array with Gaussian noise of standard deviation `scale`, in place; refuse one not contiguous.

    The release lies on a public grid of about scale / 1024; its privacy is that of the real-valued mechanism, up to a
    loss of 2 * SAMPLING_LOSS for each value that differs between neighbours.
    """
    _add(values, scale, GAUSSIAN)


def add_laplace(values, scale):
    """Release a contiguous float64 array with Laplace noise of scale `scale`, in place and on a grid as Gaussian."""
    _add(values, scale, LAPLACE)


def draw_gaussian(shape, scale):
    """Draw Gaussian noise of standard deviation `scale` that is not itself released: full floats, on no grid."""
    return scale * _gaussian_quantile(*_tail_and_sign(int(np.prod(shape)))).reshape(shape)


def _standard_gamma(shape):
    """One Gamma variate by its inverse cdf, of a large shape a sum of some: uniforms have 63 bits in both tails."""
    n_parts = 2 ** max(0, math.ceil(math.log2(shape / _EXACT_SHAPE)))  # which divides exactly
    tail, sign = _tail_and_sign(n_parts)
    inverses = ((gammaincinv if is_lower else gammainccinv)(shape / n_parts, tail) for is_lower in (True, False))
    return float(np.where(np.signbit(sign), *inverses).sum())


def draw_spherical(n_dims, scale, *, shape, power):
    """Draw one vector with a random direction and the radius ``scale * Gamma(shape / power)^(1 / power)``."""
    vector = draw_gaussian(n_dims, 1.0)  # whose direction is uniform
    norm = np.linalg.norm(vector)
    if norm == 0.0:  # no direction: once in 2**53 draws in one dimension
        return draw_spherical(n_dims, scale, shape=shape, power=power)
    vector *= scale * _standard_gamma(shape / power) ** (1 / power) / norm
    return vector


def add_spherical(values, scale, *, shape, power):
    """Release a contiguous float64 array with one draw of spherical noise over all its entries, in place, on a grid.

    The grid is that of Gaussian noise of the same size. A value of the rounding keeps its probability to within
    exp(SAMPLING_LOSS) where the density of the noise varies little over a step, which holds for ``shape=values.size``;
    near the pole of densities with a smaller shape this is not derived.
    """
    if (tape := _tape()) is not None:
        return tape.take(repr({"shape": shape, "power": power}), scale, values)
    flat = _flat_view(values)
    if scale == 0:  # as in `_add`
        return check_recorded(seeded=False)
    grid = _grid(scale * (shape / power) ** (1 / power) / np.sqrt(flat.size))
    noise = draw_spherical(flat.size, scale, shape=shape, power=power) / grid
    _add_on_grid(flat, lambda fractions: np.rint(fractions + noise), grid)


def flip(levels, thresholds):
    """Draw independent Booleans, true with probability ``thresholds[levels] / 2**64``: integers lose none to rounding.

    One random byte decides against the top byte of the threshold; only a tie, once in 256, draws 64 more bits against
    the other 56 of the threshold.
    """
    if (tape := _tape()) is not None:
        # What decides about a bit is its threshold; flipping none keeps what the signs tell of the data.
        tape.take("flip", 0.0, np.where(levels >= 0, thresholds[levels], 0))
        return np.zeros(levels.shape, dtype=bool)
    top = (thresholds >> np.uint64(56)).astype(np.uint8)
    first = np.frombuffer(random_bytes(levels.size), np.uint8).reshape(levels.shape)
    boundary = np.take(top, levels)
    flips = first < boundary
    tie = np.flatnonzero(first == boundary)
    rest = thresholds[levels.reshape(-1)[tie]] << np.uint64(8)
    flips.reshape(-1)[tie] = _random_words(tie.size) < rest
    return flips


def poisson_sample(size, rate):
    """Draw the indices below `size` that a Poisson sample holds: each with probability `rate` < 1, rounded down."""
    return np.flatnonzero(_random_words(size) < np.uint64(int(rate * 2.0**64)))


def poisson_above_zero(mean):
    """Draw a Poisson variable given that it is not 0: each value has its probability to within 2^-380."""
    uniform = int.from_bytes(random_bytes(48), "little")
    mean = Decimal.from_float(float(mean))  # which signals nothing, whatever the caller's context traps
    with localcontext(_DIGITS) as context:  # nor does what follows, as it would under traps of the caller's
        at_zero = context.exp(-mean)
        needed = (1 - at_zero) * (2 * uniform + 1) / 2**385
        count, probability, total = 0, at_zero, Decimal(0)
        while not count or total < needed:  # of tiny means, floats of 200 digits have none left
            count += 1
            probability *= mean / count
            total += probability
    return count


_LEFT_ALONE = [RLock()]  # while one thread has generators to itself, that others share


if hasattr(os, "register_at_fork"):  # a thread that holds it is not there in a forked child
    os.register_at_fork(after_in_child=lambda: _LEFT_ALONE.__setitem__(0, RLock()))


@contextmanager
def global_generators_left_alone():
    """Restore the generators of numpy and Python that others share: what they draw next would tell of draws inside.

    One thread at a time: another that restores them would have the draws of this one come from a known state.
    """
    with _LEFT_ALONE[0]:
        of_numpy, state = check_random_state(None), random.getstate()
        kept = of_numpy.get_state()
        try:
            yield
        finally:
            of_numpy.set_state(kept)
            random.setstate(state)


def reseed_global_generators():
    """Give the generators of numpy and Python that others share a seed that nobody knows."""
    check_random_state(None).seed(np.frombuffer(random_bytes(32), np.uint32))
    random.seed(random_bytes(32))


def uniform_index(size):
    """Draw an index below `size`, each with exactly the same probability."""
    word = int.from_bytes(random_bytes(8), "little")
    return word % size if word < 2**64 // size * size else uniform_index(size)
