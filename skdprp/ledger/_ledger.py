"""PrivacyLedger, and the entries that releases make."""

import json
import math
import os
import sys
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from numbers import Real
from tempfile import mkstemp
from threading import Lock
from uuid import uuid4

from sklearn.preprocessing import FunctionTransformer

from .._errors import warn_at_caller
from .._fits_around import note_fits_before, note_release
from .._noise import is_seeded, last_seeded_draw
from .._open_ledgers import ledger_of, mark_open, n_forks, open_journals, process_itself
from .._recording import Block, EntryBlock, current_entry, in_plan, innermost
from ..guarantee import LABELS_ARE_PUBLIC, Adjacency, Definition, PrivacyGuarantee, PrivacyWarning
from ._journal import Journal, LedgerError, begin, existing, is_interrupted
from ._limit import LIMIT_FOR_SKETCHES, Limit
from ._totals import USUAL_DIVISION, Entry, PlannedEntry, same_neighbours, totals

_ONE_BLOCK = (
    "A ledger without a file is for one block of the process that made it. A second block, or that of a worker, would "
    "know nothing of what the first released, nor of its limit: name a file, PrivacyLedger(path)."
)
_TRIALS_ARE_SECRET = (
    "Code of your own releases something in a trial of a search, and its entries would tell how many trials there "
    "were, which is secret. Release it before the search, and give the step what came out."
)
# Whose functions publish nothing by themselves. Of Python's own those that a package of the user's cannot be called by.
_LIBRARIES = {"contextlib", "dask", "functools", "joblib", "numpy", "pandas", "polars", "scipy", "skdprp", "sklearn"}
_HAND_ON = {
    *("contextlib", "joblib.parallel", "sklearn.compose._column_transformer", "sklearn.pipeline"),
    *("sklearn.utils._set_output", "sklearn.utils.parallel", "skdprp._errors", "skdprp._recording"),
    *("skdprp.out_of_core", __name__),
}
_CALLS_FUNCTIONS = FunctionTransformer.__module__  # whatever it calls below, which may be a method of a library


class _Book:
    """A journal, read as entries and a limit."""

    def __init__(self, identity):
        self.journal = Journal(identity)
        self._known = []  # what each line but the first, which is the header, says

    @property
    def limit(self):
        """What was fixed before the first release, if anything was."""
        return next((one for one in self._known[:1] if isinstance(one, Limit)), None)

    @property
    def entries(self):
        """What was released."""
        return self._known[self.limit is not None :]

    def _catch_up(self, lines):
        for index in range(len(self._known), len(lines) - 1):
            try:
                facts = json.loads(lines[index + 1])
                if not index and "limit" in facts:
                    one = Limit.from_dict(facts["limit"])
                else:
                    guarantee = PrivacyGuarantee.from_dict(facts["guarantee"])
                    known = facts["id"], facts["time"], str(facts["estimator"])
                    one = Entry(*known, guarantee, tuple(map(tuple, facts["rows"])))
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise self.journal.damaged(index + 2, repr(error)) from None
            self._known[index : index + 1] = [one]  # once, even if what interrupted this did so

    def _look(self, lines):
        self._catch_up(lines)
        return tuple(self.entries), self.limit

    def read(self):
        """Return all entries and the limit."""
        return self.journal.read(self._look)

    def take(self):
        """Return all entries and the limit, and remove the file."""
        return self.journal.take(self._look)

    def check(self, entry):
        """Refuse an entry that cannot be written, or would pass the limit."""
        _facts_of(entry)
        self.journal.write(lambda lines, append: self._check(lines, entry))  # no two threads add up at once

    def _check(self, lines, entry):
        self._catch_up(lines)
        if self.limit is not None:
            self.limit.check(self.entries, entry)

    def append(self, entry):
        """Write an entry, unless it would pass the limit; check and write under one lock."""
        facts = _facts_of(entry)
        if self.limit is not None and getattr(entry.guarantee.loss, "profiles", ()):
            self.limit.costs(entry)  # that of a wide search takes seconds, in which nobody else need wait

        def _append(lines, append):
            self._check(lines, entry)
            append(facts)

        self.journal.write(_append)

    def set_limit(self, limit):
        """Write a limit, before any entry; the same again is nothing new."""

        def _set(lines, append):
            self._catch_up(lines)
            if self.limit == limit:
                return
            if self._known:
                raise LedgerError(
                    "A limit is fixed once, before the first release: one that is chosen after it may depend on it."
                )
            append({"limit": limit.to_dict()})

        self.journal.write(_set)


def _facts_of(entry):
    if not isinstance(entry.estimator, str):
        raise LedgerError(f"The name of a release is a string, not {entry.estimator!r}: nothing is released.")
    facts = {"id": entry.id, "time": entry.time, "estimator": entry.estimator, "rows": list(map(list, entry.rows))}
    return facts | {"guarantee": _readable(entry.guarantee)}


@lru_cache(maxsize=64)
def _readable(guarantee):
    """Facts of a guarantee, for JSON, which are refused if nobody could read them."""
    if not isinstance(guarantee, PrivacyGuarantee):
        raise LedgerError(f"An entry needs a PrivacyGuarantee, got {type(guarantee).__name__}: nothing is released.")
    facts = guarantee.to_dict()
    try:
        if PrivacyGuarantee.from_dict(json.loads(json.dumps(facts, allow_nan=False))) == guarantee:
            return facts
        why = "it comes out as another"
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error)
    raise LedgerError(f"{guarantee!r} cannot be written to a ledger ({why}): nothing is released.")


_BOOKS = {}  # marker -> book: what was read is kept while a ledger is open, and read anew when it is opened again


def _books(journals):
    """Books of open ledgers, by what tells their journals from other files."""
    for closed in {*_BOOKS}.difference(journals):
        _BOOKS.pop(closed, None)
    return {journal: _BOOKS.setdefault(marker, _Book(journal)) for marker, journal in journals.items()}


def entry(guarantee, estimator="release"):
    """Enter a release into every open ledger, and then draw the noise of it inside a `with` block.

    The estimators of this library do so themselves. Releases inside the block belong to this entry, also if a function
    that is called there opens an entry. Only a second ``with entry(...)`` in the same function is an entry of its own.

    Parameters
    ----------
    guarantee : PrivacyGuarantee or PrivacyReport
        The guarantee of the release; or the report on a fit to come, ``privacy_report(model, X, y)``, of whose total
        one entry is made. Then each release of the plan belongs to it once, and all others have entries of their own.
    estimator : str, default="release"
        What it is called; a plan has the names of its steps.

    Returns
    -------
    context manager
        Its `seeded`, within the block, says whether noise is drawn from a seed: then state ``guarantee.mark_seeded()``.

    Raises
    ------
    LedgerError
        If an entry cannot be written, or would pass a limit. Nothing may be released then.
    ValueError
        If it is not known what the plan releases, or it has no private step.

    Warns
    -----
    PrivacyWarning
        If the plan has no total: a ledger counts its private steps, and nothing that others learn from the rows. Or if
        an estimator inside releases more than the guarantee states, or it is for other neighbours or given something.

    Examples
    --------
    >>> from skdprp import PrivacyGuarantee, PrivacyLedger
    >>> from skdprp.guarantee import Adjacency
    >>> from skdprp.ledger import entry
    >>> from skdprp.mechanisms import add_laplace
    >>> count = 42
    >>> with PrivacyLedger() as ledger:
    ...     with entry(PrivacyGuarantee(0.5, 0.0, adjacency=Adjacency("replace_one")), "count"):
    ...         noisy_count = add_laplace([count], scale=4.0)
    >>> [released.estimator for released in ledger.entries]
    ['count']

    A pipeline whose total is 1.0 is within a limit of 1.0, although the epsilons of its steps add up to more:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdprp import AMPClassifier, DPBinner, privacy_report, set_budget
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(DPBinner(4), AMPClassifier(classes=[0, 1, 2]))
    >>> plan = privacy_report(set_budget(model, X, y, epsilon=1.0, delta=1e-4), X, y)
    >>> with PrivacyLedger() as ledger:
    ...     ledger.limit(epsilon=1.0, delta=1e-4)
    ...     with entry(plan):
    ...         _ = model.fit(X, y)
    >>> [(released.estimator, released.guarantee) for released in ledger.entries]
    [('DPBinner + AMPClassifier', (1.0, 0.0001)-DP, one row replaced)]
    """
    if isinstance(guarantee, PrivacyGuarantee) or not hasattr(guarantee, "steps"):
        return _StatedRelease(guarantee, estimator, absorbs=True)
    return _PlannedRelease(guarantee)


def _is_of_libraries(block, frame):
    """Whether libraries alone have a part in a release below a block, and no function or class of the user."""
    names = [str(below.f_globals.get("__name__")) for below in block.frames_down_to(frame)]
    return _CALLS_FUNCTIONS not in names and all(name.partition(".")[0] in _LIBRARIES for name in names)


class _ThrownAway(EntryBlock):
    """Estimators draw noise that is thrown away with what it was added to, of which no ledger needs an entry.

    What functions and classes of the user release may be published where nobody sees it: it needs entries as anywhere
    else, but for what a search tries, which refuses it.
    """

    def __init__(self, *, is_searched):
        super().__init__(frozenset(), seeded=is_seeded(), absorbs=True)
        self._is_searched = is_searched or getattr(current_entry(), "_is_searched", False)
        self.stamp = None  # as if ledgers were opened in between: of each it is asked if it knows of noise by hand

    def takes(self, estimator, guarantee, frame):
        """Return all open journals for a release of an estimator, for others None."""
        if _is_of_libraries(self, frame):
            return frozenset(open_journals().values())
        if self._is_searched:
            raise LedgerError(_TRIALS_ARE_SECRET)
        return None


def thrown_away(*, is_searched=False):
    """Block for noise of estimators that is thrown away with what it was added to."""
    return _ThrownAway(is_searched=is_searched)


def _unless_closed(identity, enter, new):
    """Enter a release into a ledger, unless another thread has closed it in between."""
    try:
        enter(new)
    except LedgerError:
        if identity in open_journals().values():
            raise


class Release(EntryBlock):
    """An entry, which is written when the block begins.

    `absorbs` tells whether releases inside are its own. Those of an estimator, that a callback makes for instance, have
    their own entries.
    """

    _kind_of_entry = Entry

    def __init__(self, guarantee, estimator, *, absorbs=False, in_plans=True):
        super().__init__(frozenset(), seeded=False, absorbs=absorbs)
        self._guarantee, self._estimator, self._in_plans = guarantee, estimator, in_plans
        self._last_seeded_draw = last_seeded_draw()

    def __enter__(self):
        self._begin(sys._getframe(1))
        return self

    def was_seeded(self):
        """Whether noise was drawn from a seed since the block was made, which a callback may have entered and left."""
        return last_seeded_draw() != self._last_seeded_draw

    def _begin(self, frame):
        note_release()
        guarantee, outer = self._guarantee, current_entry()
        if is_seeded() and isinstance(guarantee, PrivacyGuarantee):
            guarantee = self._guarantee = guarantee.mark_seeded()
        books = _books(open_journals())
        self.written = frozenset(books)
        self.seeded = getattr(guarantee, "seeded", False)
        missing = self.written
        # A release in a function below belongs to the outer one, but for ledgers that were opened since.
        within = None if outer is None or outer.is_of(frame) else outer.takes(self._estimator, guarantee, frame)
        if within is not None:
            if in_plan() and not self._in_plans:  # whoever holds it may publish it, and no ledger has it
                raise TypeError(f"{self._estimator} is fitted inside of another step: report on it after its fit.")
            missing, self.absorbs = self.written - within, True
            self.seeded = outer.seeded and (self.seeded or not missing)
        self._write(missing, books)
        note_fits_before()  # where a ledger refuses a release, the step is what it was
        self._enter(frame)

    def _write(self, missing, books):
        time, todo = datetime.now(UTC).isoformat(timespec="seconds"), []
        for identity in missing:
            own = _rows_in(identity[0], current_rows())
            todo.append((identity, self._kind_of_entry(uuid4().hex, time, self._estimator, self._guarantee, own)))
        for identity, new in todo[1:] and todo:  # what one refuses is entered into none
            _unless_closed(identity, books[identity].check, new)
        for identity, new in todo:
            _unless_closed(identity, books[identity].append, new)


class _StatedRelease(Release):
    """An entry of a guarantee that a user states, for all that is released inside."""

    def takes(self, estimator, guarantee, frame):
        """Return the journals of this entry, with a warning where it states less than a release inside."""
        stated = self._guarantee
        if isinstance(stated, PrivacyGuarantee) and isinstance(guarantee, PrivacyGuarantee):
            if same_neighbours(guarantee, stated):
                is_less = guarantee.epsilon > stated.epsilon or guarantee.delta > stated.delta
                has_profile = guarantee.definition is Definition.DP
                is_missed = is_less and not (has_profile and guarantee.profile(stated.epsilon) <= stated.delta)
            else:  # from a guarantee for a distance one for rows may follow
                inside, around = ((one.adjacency and one.adjacency.is_distance) for one in (guarantee, stated))
                is_missed = not inside or around or guarantee.definition != stated.definition
            if is_missed or (guarantee.given and guarantee.given != stated.given):
                warn_at_caller(
                    f"{estimator} is {guarantee!r}, and the entry around it {stated!r}: an entry has to cover all that "
                    "is released in it. Ignore this where it does, as where the rows inside are a random part of all.",
                    PrivacyWarning,
                )
        return super().takes(estimator, guarantee, frame)


class ReleaseOfTrials(Release):
    """One entry for all that estimators release in the trials of a search; what code of the user releases is refused.

    An entry for each time that it is called would tell how many trials there were. The noise of the search itself is
    drawn inside of `noise_of_its_own`.
    """

    def _begin(self, frame):
        super()._begin(frame)
        self._entered_in, self.written, self.stamp = self.written, frozenset(), None

    def takes(self, estimator, guarantee, frame):
        """Return the journals of this entry for a release of an estimator."""
        if not _is_of_libraries(self, frame):
            raise LedgerError(_TRIALS_ARE_SECRET)
        return self._journals()

    def noise_of_its_own(self):
        """Block for noise that this entry accounts for."""
        block = EntryBlock(frozenset(), seeded=self.seeded, absorbs=False)  # its stamp before a look at who is open
        block.written = self._journals()
        return block

    def _journals(self):
        """Journals of this entry, also of ledgers opened since: one entry for each trial would count them."""
        books = _books(open_journals())
        self._write(frozenset(books) - self._entered_in, books)
        self._entered_in |= frozenset(books)
        return self._entered_in


class _PlannedRelease(Release):
    """One entry for all releases of a plan, whose noise was fixed before the first: its exact total is what holds."""

    _kind_of_entry = PlannedEntry

    def __init__(self, plan):
        planned = _planned(plan)
        if not planned or not plan.is_plan:
            raise ValueError("To enter, there has to be a private step in the report on a fit to come: pass X to it.")
        _warn_of_no_total(plan)
        super().__init__(_as_it_reaches_them(plan.private), " + ".join(estimator for estimator, _ in planned))
        self._left, self._lock = [*planned], Lock()
        # An ensemble encodes labels by their set, which its total is given: what its members assume of labels holds.
        of_steps = {text for step in plan.steps if step.guarantee for text in step.guarantee.assumptions}
        self._assumed = frozenset(plan.private.assumptions) | (of_steps & {LABELS_ARE_PUBLIC})
        self._rows, self._entered_in = (), frozenset()

    def __enter__(self):
        self._rows = current_rows()
        self._begin(sys._getframe(1))
        # Noise that no release of the plan draws belongs to no entry, as is looked up when some is drawn.
        self._entered_in, self.written, self.stamp = self.written, frozenset(), object()
        return self

    def takes(self, estimator, guarantee, frame):
        """Return the journals that the plan was entered in for a release of it that was not made yet, else None."""
        if guarantee.violation or current_rows() != self._rows or not self._assumed.issuperset(guarantee.assumptions):
            return None
        with self._lock:
            for planned in self._left:
                if planned[0] == estimator and _covers(planned[1], guarantee):
                    self._left.remove(planned)
                    return self._entered_in
        return None


def _as_it_reaches_them(guarantee):
    """A guarantee for neighbours as they reach each release: only a report knows of maps before."""
    return replace(guarantee, adjacency=guarantee.adjacency and replace(guarantee.adjacency, after=""))


def _covers(planned, guarantee):
    """Whether the total of a plan holds for a release, of which the projection may round less than others may."""
    if _priced(planned) != _priced(guarantee):
        return False
    if planned.loss is None or guarantee.loss is None:
        return planned.loss is guarantee.loss
    return planned.loss.mu >= guarantee.loss.mu and replace(planned.loss, mu=guarantee.loss.mu) == guarantee.loss


def _priced(guarantee):
    """All that a total depends on but the loss."""
    kind = guarantee.definition, guarantee.unit, _as_it_reaches_them(guarantee).adjacency, guarantee.given
    return *kind, guarantee.epsilon, guarantee.delta


_ROWS = ContextVar("block of which rows releases see", default=None)


class Rows(Block):
    """Releases see some rows only: (path of the ledger, or "" for all; division; part) from the outermost.

    `are_all` tells whether that is the whole of it, whatever blocks are around, as of a chunk that is handed to a
    sketch. What is released on another way, as by a function or where the chunk is converted, may see other rows.
    """

    def __init__(self, parts, *, are_all):
        super().__init__(_ROWS)
        self.parts, self.are_all = tuple(parts), are_all


def _hands_on(frame):
    """Whether a frame does no more with a chunk than to hand it to the next step, or to release it."""
    name = str(frame.f_globals.get("__name__"))
    return name in _HAND_ON or name.startswith("skdprp.sketch.")


def current_rows():
    """Return which rows releases see here, in the form of :class:`Rows`."""
    parts, frame = (), sys._getframe(1)
    for block in innermost(_ROWS):
        if block.are_all and not all(_hands_on(below) for below in block.frames_down_to(frame)):
            continue
        parts = (*block.parts, *parts)
        if block.are_all:
            break
    return parts


def _rows_in(path, rows):
    """Which rows those are to the ledger of one path."""
    own = tuple(dict.fromkeys((division, part) for of, division, part in rows if of in ("", path)))
    if len(dict(own)) < len(own):
        raise LedgerError(
            f"Rows are declared to be of two parts of one division, {own}, which have no row in common: name another "
            "division for parts of a part. Nothing is released."
        )
    return own


def _warn_of_no_total(plan):
    """Say that a plan has steps without privacy, which no ledger counts."""
    if getattr(plan, "total", plan) is None:
        known = "; ".join(plan.not_covered)
        warn_at_caller(f"The plan has no total, and its private steps alone are counted: {known}.", PrivacyWarning)


def _planned(releases):
    """Names and guarantees of what a report, or a guarantee, says will be released."""
    if isinstance(releases, PrivacyGuarantee):
        return [("release", releases)]
    if not hasattr(releases, "steps") or not hasattr(releases, "private"):
        raise TypeError(f"A plan is a PrivacyReport or a PrivacyGuarantee, got {type(releases).__name__}.")
    private = [step for step in releases.steps if step.guarantee is not None]
    if private and releases.private is None:
        raise ValueError(f"It is not known what all of this releases: {'; '.join(releases.not_covered)}.")
    return [(step.estimator, step.guarantee) for step in private for _ in range(step.calls)]


_OPEN = set()  # ledgers, which are open until their blocks are left, whether or not anybody else refers to them


class PrivacyLedger:
    """Record every release while it is open, by all processes that belong to this one.

    Each release (a fit of a private model, a transform of a sketch) is a line of a file, written before its noise is
    drawn: a record cannot count too little.

    Parameters
    ----------
    path : str, path or None, default=None
        File of JSON lines, which is continued if it exists: one for each data set, for as long as anything is released
        of it. None keeps the entries of one block, and cannot be opened again.
    create : bool, default=True
        Whether to begin a file that is not there. False refuses it: a wrong path would be a ledger without a limit.

    Attributes
    ----------
    entries : tuple of Entry
        All releases, with `id`, `time`, `estimator`, `guarantee` and `rows`.

    Raises
    ------
    LedgerError
        If the file is no ledger, damaged, or not there and not to be made: nothing is changed, and nothing released.
    NotImplementedError
        On Windows, whose files have other locks.

    Notes
    -----
    The ledger records releases of this process in all its threads, of processes that it starts or has started, and of
    other processes of this machine that receive a pickled estimator of this library while the ledger is open, such as
    dask workers. It does not record releases of other machines, nor those after the block. Where noise is drawn outside
    of an entry while a ledger is open, by a function of :mod:`skdprp.mechanisms` for instance, an error says so, and
    nothing is released: see :func:`skdprp.ledger.entry`.

    An entry says what is guaranteed, of which estimator, when, and for which declared parts of the rows. It has no
    value, name or label from the rows, but numbers that follow from how many rows, columns and classes there are.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skdprp import AMPClassifier, PrivacyLedger
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AMPClassifier(epsilon=0.1, delta=1e-6, max_norm=8.0, classes=[0, 1, 2], noise="gaussian")
    >>> with PrivacyLedger() as ledger:
    ...     for _ in range(3):
    ...         _ = model.fit(X, y)
    >>> len(ledger.entries)
    3
    >>> print(ledger.total()[0].guarantee)  # doctest: +ELLIPSIS
    guarantee   (0.179462, 3e-06)-DP, one row replaced...
    """

    def __init__(self, path=None, *, create=True):
        if path is None and not create:
            raise ValueError("create=False is for a file: give its path.")
        self._create = create
        self.path = None if path is None else os.path.realpath(os.fsdecode(path))  # wherever it is opened again
        self._open, self._identity, self._name = ExitStack(), None, None
        self._maker = process_itself(os.getpid())
        self._claims = {}  # of the block that has it open, or is about to
        self._kept = (), None  # entries and limit of a file that is removed, None before

    def __enter__(self):
        claim = object()
        if self._claims.setdefault("block", claim) is not claim:  # at once: another thread may be about to open it
            raise LedgerError("This ledger is open already: make one of the same path for each block.")
        with ExitStack() as stack:
            stack.callback(self._claims.clear)
            path = self.path
            if path is None:
                if self._identity is not None or self._maker != process_itself(os.getpid()):
                    raise LedgerError(_ONE_BLOCK)
                descriptor, path = mkstemp(prefix="skdprp-ledger-", suffix=".jsonl")
                os.close(descriptor)
                path = os.path.realpath(path)
                stack.push(partial(self._keep, path, os.getpid(), n_forks()))
            elif not self._create and not (os.path.exists(path) and os.path.getsize(path)):
                raise LedgerError(f"There is no ledger {path}: PrivacyLedger(path) begins one, and set its limit.")
            identity = begin(path)
            _Book(identity).read()  # a file that is no ledger is refused before anything is released
            self._identity, self._kept = identity, None
            self._name = stack.enter_context(mark_open(identity))
            _OPEN.add(self)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error):
        _OPEN.discard(self)
        self._open.__exit__(*(error or (None, None, None)))

    def _keep(self, path, owner, n_forks_before, *error):
        """Remove a file of this block only, once it is closed, and keep what was in it.

        Not in a forked child that leaves the block, nor where an interruption left it open, nor where forked children
        go on that an error has left it to. A file that was not removed is read when somebody asks.
        """
        is_left_to_children = error[0] is not None and n_forks() > n_forks_before
        is_open = path in {journal[0] for journal in open_journals().values()}
        if os.getpid() == owner and not is_left_to_children and not is_open:
            kept = _Book(existing(path)).take()
            self._kept = self._kept or kept  # of the block before, where this one was not begun

    def __repr__(self):
        return repr(self.total()) if self._is_readable() else f"PrivacyLedger({self.path!r}), not begun"

    def _repr_html_(self):
        return self.total()._repr_html_() if self._is_readable() else repr(self)

    def _is_readable(self):
        return self.path is None or self._identity is not None or os.path.exists(self.path)

    def _book(self):
        """Return what was read of it, or None where it is not open."""
        journals = open_journals()
        return _books(journals)[self._identity] if self._name in map(ledger_of, journals) else None

    def _read(self):
        # What a handler of a signal reads without the lock changes nothing that other threads have read under it.
        if (book := self._book()) and not is_interrupted():
            return book.read()
        if self.path is None and self._kept:
            return self._kept
        return _Book(self._identity or existing(self.path)).read()

    @property
    def entries(self):
        """All releases, in the order of their entries."""
        return self._read()[0]

    def total(self, delta=None):
        """Compose all releases, for each kind of neighbours that they name.

        Parameters
        ----------
        delta : float or None, default=None
            Delta at which exact totals are stated; None for the sum of all deltas.

        Returns
        -------
        tuple of Total
            Each with `guarantee`, which is exact and holds where the parameters of every release were fixed before the
            first; and `adaptive`, which holds as well where they, or whether to go on, depended on earlier releases:
            the sum of all epsilons and all deltas, or the limit; None for MI-DP. Where a release says nothing of the
            neighbours, was refuted by an audit, or has a definition that does not add up, both are None. Each
            prints as text and as HTML, and so do all together, with what is spent of the limit.
        """
        entries, limit = self._read()
        return totals(entries, delta, limit)

    def limit(self, epsilon, delta, *, adjacency="replace_one", unit="row", composition="basic"):
        """Refuse, from now on, each release that would pass a budget: a privacy filter.

        All releases together then guarantee the limit, even if later ones depend on earlier ones. A sum may exceed the
        limit by one part in 10^12, because ten times the float 0.1 is slightly more than 1.0. Totals show the sum as it
        is.

        Parameters
        ----------
        epsilon, delta : float
            Budget of all releases together. At ``delta=0`` every release with a delta is refused, as of most models.
        adjacency : str or Adjacency, default="replace_one"
            Neighbours that the budget is for. Releases that say nothing of them are refused. For sketches it is
            ``sketch.guarantee_.adjacency`` of the fitted sketch, since a change within a row has a size.
        unit : {"row", "person"}, default="row"
            Whose neighbours these are. Releases for persons that are replaced, by fits with `groups`, count for rows as
            well; releases for rows are refused where the budget is for persons.
        composition : {"basic", "gaussian"}, default="basic"
            What is added up. "basic": epsilons and deltas. "gaussian", for many releases and delta > 0: squares of mu,
            see :doc:`/guide/ledger`. Not for :class:`~skdprp.DPSearchCV`: by squares of mu a search costs far more. A
            limit of (3, 1e-5) then refuses even a single search with epsilon = 1 and the default `n_trials`; with
            "basic" it allows three, each with delta = 1e-6.

        Raises
        ------
        LedgerError
            If something was released already, or another limit is set: one chosen after a release may depend on it.
        ValueError
            If there is no such budget.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skdprp import AMPClassifier, PrivacyLedger
        >>> X, y = load_iris(return_X_y=True)
        >>> model = AMPClassifier(epsilon=0.4, delta=1e-6, max_norm=8.0, classes=[0, 1, 2])
        >>> with PrivacyLedger() as ledger:
        ...     ledger.limit(1.0, 1e-5)
        ...     for month in range(3):
        ...         model.fit(X, y)
        Traceback (most recent call last):
            ...
        skdprp.ledger.LedgerError: AMPClassifier is not released: with (0.4, 1e-06)-DP, one row replaced...
        """
        adjacency = adjacency if isinstance(adjacency, Adjacency) else Adjacency(adjacency)
        if unit not in ("row", "person"):
            raise ValueError(f'unit is "row" or "person", got {unit!r}.')
        if adjacency.is_distance and math.isinf(adjacency.bound):
            raise ValueError(f"A limit for a change within a row says how large that is: {LIMIT_FOR_SKETCHES}.")
        if not isinstance(epsilon, Real) or not isinstance(delta, Real):
            raise ValueError(f"A limit has numbers for epsilon and delta, got {epsilon!r} and {delta!r}.")
        budget = PrivacyGuarantee(epsilon, delta, unit=unit, adjacency=adjacency)
        if not math.isfinite(budget.epsilon):
            raise ValueError(f"A limit is finite, got epsilon={epsilon}.")
        if composition not in ("basic", "gaussian") or (composition == "gaussian" and not 0 < delta < 1):
            raise ValueError('composition is "basic", or "gaussian" with 0 < delta < 1.')
        if not (book := self._book()):
            raise LedgerError("Set the limit of a ledger that is open: `with PrivacyLedger(...) as ledger:`.")
        book.set_limit(Limit(budget.epsilon, budget.delta, adjacency, composition, budget.unit))

    def left(self):
        """Say what is left of the limit for one more release of all rows, or of the part whose block this is in.

        Returns
        -------
        left : Left or None
            Its `epsilon` and `delta` are the largest of one more release, rounded down; with
            ``composition="gaussian"`` `epsilon` is of Gaussian noise, at the delta of the limit. None without a limit.

        Raises
        ------
        LedgerError
            If the file cannot be read.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skdprp import AMPClassifier, PrivacyLedger
        >>> X, y = load_iris(return_X_y=True)
        >>> model = AMPClassifier(epsilon=0.4, delta=1e-6, max_norm=8.0, classes=[0, 1, 2])
        >>> with PrivacyLedger() as ledger:
        ...     ledger.limit(1.0, 1e-5)
        ...     _ = model.fit(X, y)
        ...     print(ledger.left())
        ...     _ = model.set_params(epsilon=ledger.left().epsilon).fit(X, y)
        Left(epsilon=0.6, delta=9e-06)
        """
        entries, limit = self._read()
        return limit and limit.left(entries, _rows_in(self._path_of_rows, current_rows()))

    @property
    def _path_of_rows(self):
        """Path by which blocks of parts know this ledger."""
        return self._identity[0] if self._identity else self.path

    def check(self, planned):
        """Refuse, before anything is spent, what would pass the limit; nothing is entered, and nothing is reserved.

        Without this a pipeline with several private steps may be refused at its second step, when the first has spent
        its epsilon.

        Parameters
        ----------
        planned : PrivacyReport or PrivacyGuarantee
            What is to be released: ``privacy_report(model, X, y)`` before the fit, which will make an entry for each
            private step; or the guarantee of one release.

        Raises
        ------
        LedgerError
            If all of it together would pass the limit, with what is left; or the file cannot be read.
        TypeError
            If it is neither a report nor a guarantee.
        ValueError
            If the report does not know what is released.

        Warns
        -----
        PrivacyWarning
            If the plan has no total.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.pipeline import make_pipeline
        >>> from skdprp import AMPClassifier, DPBinner, PrivacyLedger, privacy_report
        >>> X, y = load_iris(return_X_y=True)
        >>> model = make_pipeline(DPBinner(4, epsilon=0.2), AMPClassifier(epsilon=0.9, classes=[0, 1, 2]))
        >>> with PrivacyLedger() as ledger:
        ...     ledger.limit(1.0, 1e-3)
        ...     ledger.check(privacy_report(model, X, y))
        Traceback (most recent call last):
            ...
        skdprp.ledger.LedgerError: DPBinner and AMPClassifier are not released: with ... Left are epsilon = 1.0...
        >>> len(ledger.entries)
        0
        """
        releases = _planned(planned)
        _warn_of_no_total(planned)
        entries, limit = self._read()
        if limit is None:
            return
        rows, seeded = _rows_in(self._path_of_rows, current_rows()), is_seeded()
        new = [
            PlannedEntry("", "", estimator, guarantee.mark_seeded() if seeded else guarantee, rows)
            for estimator, guarantee in releases
        ]
        replace(limit).check(entries, *new)  # with sums of its own: others may be adding up those of this one

    def part(self, name, *, division=USUAL_DIVISION):
        """Declare that what is released in a `with` block sees one part of the rows only.

        The parts of a division have no row in common, and which rows are in which does not depend on what is in them.
        So a row is in the releases of at most one part.

        Parameters
        ----------
        name : str
            Name of the part, such as "train".
        division : str, default="rows"
            Name of the division. Parts of different divisions may have rows in common. A release inside the blocks of
            two parts of one division is refused: for parts of a part, name another division.

        Returns
        -------
        context manager
            Of this thread. Threads and processes that it starts are not told, and count for all rows.

        Raises
        ------
        TypeError
            If a name is no text: 1 and 1.0 are one number, and would be two parts.
        LedgerError
            If the ledger is not open.
        """
        if not (isinstance(name, str) and isinstance(division, str)):
            raise TypeError('The name of a part, and of its division, is text, such as f"clinic {number:d}".')
        if self._identity is None:
            raise LedgerError("Name the parts of a ledger that is open: `with PrivacyLedger(...) as ledger:`.")
        # The text itself: members of an Enum that are equal to it print as another.
        return Rows([(self._identity[0], *map(str.__str__, (division, name)))], are_all=False)
