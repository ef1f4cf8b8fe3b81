"""Which entry noise is drawn for: blocks that hold while a `with` statement runs, and the check before each draw."""

import os
import sys
import weakref
from contextlib import nullcontext
from contextvars import ContextVar
from inspect import CO_VARARGS
from types import MethodType

from . import _open_ledgers
from ._open_ledgers import UnrecordedNoiseError


class _Entered:
    """One time that a block was entered: links of these never close to a ring, whatever order blocks are left in."""

    __slots__ = ("block", "frame", "outer", "process", "way_out")

    def __init__(self, block, outer, frame, way_out):
        self.block, self.outer, self.frame, self.process = block, outer, frame, os.getpid()
        self.way_out = way_out

    def is_left(self):
        """Whether the block was left since, or its entering or leaving was interrupted."""
        is_abandoned = self.way_out is not None and self.way_out() is None
        return self.frame is None or self.block._entered is not self or is_abandoned


class _WayOut:
    """Method `__exit__` of a block, a new object for each `with` statement, which alone holds it until it ends.

    An interruption may come before the first instruction of the method: that the object is gone tells so.
    """

    def __get__(self, block, kind):
        if block is None:  # as an ExitStack asks
            return kind._leave
        way_out = MethodType(kind._leave, block)
        if not block.is_entered():
            block._way_out = weakref.ref(way_out)
        return way_out


class Block:
    """What holds while a `with` block of a function runs, and nowhere else.

    A context variable alone would hold where the block does not run: in the caller of a generator that waits inside of
    it, in tasks and forks that began in it and outlive it, and for good where two generators leave in the order in
    which they entered. So a block holds in its process, while it is not left, below the frame that entered it.
    """

    __exit__ = _WayOut()

    def __init__(self, variable):
        self._variable = variable
        self._entered = self._way_out = None

    def __enter__(self):
        self._enter(sys._getframe(1))
        return self

    def _enter(self, frame):
        if self.is_entered():
            raise RuntimeError("This block is entered already: make one for each `with`.")
        is_watched = self._way_out is not None and self._way_out() is not None
        entered = _Entered(self, self._variable.get(), _holder(frame), self._way_out if is_watched else None)
        self._variable.set(entered)
        self._entered = entered

    def _leave(self, *error):
        self._entered.frame = None
        while (entered := self._variable.get()) is not None and entered.is_left():  # also those left out of order
            self._variable.set(entered.outer)

    def is_entered(self):
        """Whether it was entered and not left, here or elsewhere."""
        return self._entered is not None and not self._entered.is_left()

    def is_of(self, frame):
        """Whether it was entered in that very frame."""
        return self._entered.frame is _holder(frame)

    def frames_down_to(self, frame):
        """Yield frames from one that runs below the block up to that which entered it, which is not among them."""
        while frame is not None and frame is not self._entered.frame:
            yield frame
            frame = frame.f_back

    def holds(self):
        """Whether this block runs here and now."""
        if not self.is_entered() or self._entered.process != os.getpid():
            return False
        frame = sys._getframe(1)
        while frame is not None and frame is not self._entered.frame:
            # This library handles no signals, and most frames are of it.
            if not str(frame.f_globals.get("__name__")).startswith("skdprp.") and _interrupts(frame):
                return False
            frame = frame.f_back
        return frame is not None


def _holder(frame):
    """Frame that a block is entered in, which an ExitStack may do for it."""
    while frame.f_globals.get("__name__") == "contextlib":
        frame = frame.f_back
    return frame


def _interrupts(frame):
    """Whether a frame is of a handler of a signal, which is given the frame it interrupts: nobody there called it."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)]
    arguments = map(frame.f_locals.get, names) if names else ()
    return any(
        value is frame.f_back
        for argument in arguments
        for value in (argument if type(argument) is tuple else (argument,))
    )


def innermost(variable):
    """Blocks that hold here, from the innermost."""
    entered = variable.get()
    while entered is not None:
        if not entered.is_left() and entered.block.holds():
            yield entered.block
        entered = entered.outer


_ENTRY = ContextVar("block of the innermost entry", default=None)


class EntryBlock(Block):
    """Noise is drawn that an entry accounts for, in the journals it was written to.

    `absorbs` tells whether releases inside are its own.
    """

    def __init__(self, written, *, seeded, absorbs):
        super().__init__(_ENTRY)
        self.written, self.seeded, self.absorbs = written, seeded, absorbs
        self.stamp = _open_ledgers.stamp()  # before anybody looks which ledgers are open

    def takes(self, estimator, guarantee, frame):
        """Return the journals in which a release of a frame below belongs to this entry, or None if it does not."""
        return self.written if self.absorbs else None


def current_entry():
    """Return the block of the entry that noise drawn here belongs to, or None."""
    entry = next(innermost(_ENTRY), None)
    return None if entry is None or entry.written is None else entry


def outside_of_entries():
    """Block for what is called within a release and is no part of it, such as a callback."""
    return EntryBlock(None, seeded=False, absorbs=False)


def handed_on(entry):
    """Block for another thread that draws noise of an entry of this one."""
    if entry is None:
        return nullcontext()
    block = EntryBlock(entry.written, seeded=entry.seeded, absorbs=entry.absorbs)
    block.stamp = entry.stamp
    return block


_PLAN = ContextVar("innermost block of a plan", default=None)


class PlanBlock(Block):
    """An estimator is tried on a few rows, to see how wide they become: sketches inside hold nothing of them."""

    def __init__(self):
        super().__init__(_PLAN)


def in_plan():
    """Whether what is released here is thrown away with what follows it."""
    return next(innermost(_PLAN), None) is not None


def check_recorded(*, seeded):
    """Refuse noise that an open ledger knows nothing of, or not that it has a seed."""
    entry = current_entry()
    stamp = None if entry is None else _open_ledgers.stamp()
    if entry is not None and entry.stamp == stamp and entry.seeded >= seeded:
        return  # no ledger was opened since it was written
    journals = set(_open_ledgers.open_journals().values())
    if not journals <= (frozenset() if entry is None else entry.written):
        raise UnrecordedNoiseError(
            "Noise is drawn for a release that an open ledger has no entry of: publish by an estimator, or inside "
            "`with skdprp.ledger.entry(guarantee):`, in the function that draws it."
        )
    if journals and seeded and not entry.seeded:
        raise UnrecordedNoiseError("A seed was entered after the release was: its entry says nothing of it.")
    if entry is not None:
        entry.stamp = stamp
