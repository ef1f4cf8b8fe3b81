"""What reaches the noise of this library, and the same again without it."""

from contextlib import contextmanager
from functools import partial

import numpy as np

from .._noise import SeededBlock, last_seeded_draw

SHARE_OF_NOISE = 2.0**-10  # what rounding may move, and what counts as no noise at all
_LARGE = 8.0  # scales of noise


class Tape(list):
    """What noise would have been added to, as (kind, scale, values), in order.

    `n_undisturbed` says before how many of them, from the first one on, no other noise had been drawn.
    """

    def __init__(self):
        super().__init__()
        self._drawn, self.n_undisturbed = last_seeded_draw(), 0

    def take(self, kind, scale, values):
        """Record values that are released without noise."""
        self.n_undisturbed += last_seeded_draw() == self._drawn
        self.append((kind, scale, values.copy()))


class Played(Tape):
    """A tape that has what another one recorded released again, whatever reaches the noise."""

    def __init__(self, recorded):
        super().__init__()
        self.recorded = recorded

    def take(self, kind, scale, values):
        """Record values, and write over them those that were recorded in their place, if they are as many."""
        place = len(self)
        super().take(kind, scale, values)
        if place < len(self.recorded) and self.recorded[place][2].shape == values.shape:
            values[...] = self.recorded[place][2]


@contextmanager
def taped(tape=None):
    """Record what noise is added to and leave it without, in a `with` block that repeats all other draws.

    In this thread alone: whatever is released elsewhere meanwhile has its noise. Seeded estimators use no other thread.
    """
    with SeededBlock(0, tape=Tape() if tape is None else tape) as block:  # which marks what is released without noise
        yield block.tape


def tape_of(function):
    """What reaches the noise in a call, or None if none of this library's noise is drawn."""
    return without_noise(function)[1]


def played_tapes(function, usual, other):
    """What reaches the noise in calls with usual data, and with other data if the same numbers are released."""
    tape = tape_of(partial(function, usual)) or Tape()
    with taped(Played(tape)) as played:
        function(other)
    return tape, played


def without_noise(function):
    """What a call returns without this library's noise, and what reaches that, or None if none is drawn."""
    with taped() as tape:
        returned = function()
    return returned, tape or None


def noise_in(function):
    """How far each number that a call returns follows this library's noise, None if it draws none, or that of bits.

    All noise is 0 in one call, and in another one as large as it hardly ever is.
    """
    tape = tape_of(function)
    if not tape or any(kind == "flip" for kind, _, _ in tape):
        return None
    returned = []
    for size in (0.0, _LARGE):
        with taped(Played([(kind, scale, values + size * scale) for kind, scale, values in tape])):
            returned.append(np.asarray(function(), dtype=np.float64))
    return np.subtract(*returned)


def same_tape(a, b, *, share=SHARE_OF_NOISE, more_noise=0.0):
    """Whether noise is added to the same numbers, up to a share of it, at the same scales, up to some noise more."""
    return len(a) == len(b) and all(
        kind == other_kind and abs(scale - other_scale) <= more_noise * scale and _near(values, others, share * scale)
        for (kind, scale, values), (other_kind, other_scale, others) in zip(a, b, strict=True)
    )


def _near(a, b, distance):
    """Whether no number differs by more than a distance; at none, infinities are equal, too."""
    if a.shape != b.shape or distance == 0:
        return np.array_equal(a, b)
    return bool(np.all(np.abs(a - b) <= distance))
