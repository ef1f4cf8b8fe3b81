"""What the entries of a ledger amount to: sums over releases of the same rows, the largest over disjoint ones."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

from .._adjacency import Unit
from .._digits import printed_up
from .._printing import AS_THEY_REACH_IT, as_html, as_text, neighbours_sentence
from ..guarantee import DISJOINT, FIXED_BEFORE, Definition, PrivacyGuarantee, composed

_NOTHING = (Fraction(0),) * 3  # of as many costs as anybody counts
_AS_NO_FLOAT = Fraction(2) ** 1024  # what an infinite cost counts as: no float is as large
_NOTHING_YET = "Nothing was released within its blocks; sketches of lazy rows are released when computed."
_NOT_COUNTED = (
    "releases outside of its blocks or on other machines, noise of other libraries that has no entry, and what is "
    "computed from the rows without noise, such as scores or steps before a release that are fitted on them"
)
_OF_PARTS = "saw parts of the rows, such as chunks, and those of disjoint parts do not add up"
_BASIC = "epsilons and deltas added up; of disjoint parts, the largest sums"
_COMPARED_THERE = f"neighbours are rows {AS_THEY_REACH_IT}: steps before it may move them further apart"
_EACH_ONCE = (
    "each release contains a row of the data set at most once; no other row and no label decides which rows and folds "
    "a release sees, or how a row was transformed"
)
_EACH_PERSON_ONCE = (
    "each release contains a person of the data set at most once; no other row and no label decides which persons and "
    "folds a release sees, or how a row was transformed"
)
USUAL_DIVISION = "rows"
CHUNKS = "transform_chunks "  # how a division of chunks begins, one for each call
MOST_PARTS = 20  # that are listed
WITHIN_A_ROW = (Unit.ROW, Unit.ENTRY, Unit.ENTRY_BESIDE_TARGETS)


@dataclass(frozen=True)
class Entry:
    """One release: what was guaranteed of it before its noise was drawn, and whose rows it saw.

    Parameters
    ----------
    id : str
        A name that no other entry has.
    time : str
        When it was written, in UTC.
    estimator : str
        Name of the class, or what the release was called.
    guarantee : PrivacyGuarantee
        The guarantee of the release.
    rows : tuple of (str, str)
        Declarations of which rows it saw, from the outermost: (division, part of it). Empty for all rows.
    """

    id: str
    time: str
    estimator: str
    guarantee: PrivacyGuarantee
    rows: tuple[tuple[str, str], ...] = ()


class PlannedEntry(Entry):
    """An entry of all that is planned, before any of it is paid."""


class Spent:
    """Exact costs of releases: added up for the same rows, the largest of the parts of each division.

    Where an addition is interrupted, and made again, the release counts twice rather than not at all.
    """

    def __init__(self):
        self.n_releases = 0
        self.costs = _NOTHING
        self._largest, self._parts = {}, {}

    def after(self, rows, costs):
        """What is spent with one release more, which is not counted yet."""
        if rows:
            division, part = rows[0]
            largest = self._largest.get(division, _NOTHING)
            within = self._parts.get((division, part), Spent()).after(rows[1:], costs)
            costs = [max(new, old) - old for new, old in zip(within, largest, strict=False)]
        added = (_AS_NO_FLOAT if more == math.inf else Fraction(more) for more in costs)
        return tuple(cost + more for cost, more in zip(self.costs, added, strict=False))

    def add(self, rows, costs):
        """Count a release."""
        before, self.costs = self.costs, self.after(rows, costs)
        if rows:
            division, part = rows[0]
            largest = zip(self._largest.get(division, _NOTHING), self.costs, before, strict=False)
            self._largest[division] = tuple(old + after - before for old, after, before in largest)
            self._parts.setdefault((division, part), Spent()).add(rows[1:], costs)
        self.n_releases += 1


def float_above(cost):
    """Float that is no less than an exact cost."""
    try:
        nearest = float(cost)
    except OverflowError:
        return math.inf
    return nearest if cost <= nearest else math.nextafter(nearest, math.inf)


def _terms(releases):
    """Guarantees that add up: of releases of all rows, and of all parts of each division."""
    terms = [guarantee for rows, guarantee in releases if not rows]
    divisions = {}
    for rows, guarantee in releases:
        if rows:
            division, part = rows[0]
            divisions.setdefault(division, {}).setdefault(part, []).append((rows[1:], guarantee))
    for parts in divisions.values():
        totals = [composed(_terms(part)) for part in parts.values()]
        if len(totals) > 1:
            totals = [composed(totals, disjoint=True)]
        terms += totals
    return terms


def same_neighbours(guarantee, other):
    """Whether one guarantee covers the neighbours of another."""
    if guarantee.definition != other.definition or not guarantee.covers_unit(other.unit):
        return False
    if None in (guarantee.adjacency, other.adjacency):
        return guarantee.adjacency == other.adjacency
    try:
        return guarantee.adjacency.narrower(other.adjacency) == other.adjacency
    except ValueError:
        return False


@dataclass(frozen=True)
class Total:
    """What all releases together guarantee to one kind of neighbours.

    Parameters
    ----------
    guarantee : PrivacyGuarantee or None
        Exact, if the parameters of each release were fixed before the first; None if there is no total.
    adaptive : PrivacyGuarantee or None
        What also holds if parameters, or whether to go on, depended on earlier releases; None if there is no total.
        Also None for MI-DP: if later bounds depend on the entry through earlier releases, their sum does not bound the
        mutual information of all releases.
    counts : dict of str to int
        How many releases of each estimator are in it.
    missing : dict of str to int
        How many releases of each estimator have no guarantee for these neighbours: then there is no total.
    neighbours : str
        The neighbours of the total.
    reason : str, default=""
        Why there is no total.
    n_of_parts : int, default=0
        How many of these releases saw a part of the rows, such as a chunk: those of disjoint parts do not add up.
    parts : str, default=""
        What the releases of each part add up to.
    """

    guarantee: PrivacyGuarantee | None
    adaptive: PrivacyGuarantee | None
    counts: dict
    missing: dict
    neighbours: str
    reason: str = ""
    n_of_parts: int = 0
    parts: str = ""

    def __str__(self):
        return repr(Totals([self]))

    def _repr_html_(self):
        return Totals([self])._repr_html_()

    def facts(self):
        """Return what is printed, by name."""
        facts = {"neighbours": self.neighbours, "releases": as_counts(self.counts)}
        if self.n_of_parts:
            facts["releases"] += f"; {self.n_of_parts} of these {_OF_PARTS}"
        if self.guarantee is None:
            return facts | {"total": f"none: {self.reason}"}
        facts["total"] = f"{self.guarantee!r}, for parameters that were fixed before the first release"
        facts["adaptive"] = "none: bounds on mutual information that depend on earlier releases do not add up"
        if self.adaptive is not None:
            how = self.adaptive.mechanism
            facts["adaptive"] = f"{self.adaptive!r}, where they depended on earlier releases ({how})"
            if self.parts:
                facts["parts"] = self.parts
        return facts


class Totals(tuple):
    """Totals by definition and neighbours, and what is spent of the limit: they print as text and HTML."""

    limit, limit_assumes = "", ()

    def __repr__(self):
        return "\n\n".join(map(as_text, self._facts())) or _NOTHING_YET

    def _repr_html_(self):
        return "".join(as_html("Spent", facts) for facts in self._facts()) or _NOTHING_YET

    def _facts(self):
        """Facts of each total, and at the end, each once, what they assume and what none of them counts."""
        limit = {"limit": self.limit} if self.limit else {}
        if not self:
            return [{"releases": "none yet", **limit, "not counted": _NOT_COUNTED}] if limit else []
        facts = [total.facts() for total in self]
        of_totals = [text for total in self if total.guarantee for text in total.guarantee.assumptions]
        assumed = dict.fromkeys([*of_totals, *self.limit_assumes])
        assumed.pop(_COMPARED_THERE, None)  # which is said above, and so is what is fixed, unless a release assumes it
        adaptive = [text for total in self if total.adaptive for text in total.adaptive.assumptions]
        if FIXED_BEFORE not in (*adaptive, *self.limit_assumes):
            assumed.pop(FIXED_BEFORE, None)
        last = {"assumed": (*assumed,)} if assumed else {}
        return [*facts[:-1], *(of_last | limit | last | {"not counted": _NOT_COUNTED} for of_last in facts[-1:])]


def totals(entries, delta, limit):
    """Return the total for each kind of neighbours that entries name."""
    kinds = {}
    for entry in entries:
        guarantee = entry.guarantee
        kinds.setdefault((guarantee.definition, guarantee.unit, guarantee.adjacency), guarantee)
    of_all = Totals(_total(entries, kind, delta, limit) for kind in kinds.values())
    if limit is not None:
        has_adaptive = all(total.adaptive for total in of_all)
        of_all.limit = limit.line(entries, has_adaptive=has_adaptive)
        # What has to hold for what a limit counts, also where no kind of neighbours has a total.
        guarantees = [entry.guarantee for entry in entries]
        units = dict.fromkeys(one.unit for one in guarantees)
        assumed = [text for one in guarantees for text in one.assumptions]
        assumed += [DISJOINT.format(unit) for unit in units if any(entry.rows for entry in entries)]
        assumed += [_EACH_PERSON_ONCE if unit == Unit.PERSON else _EACH_ONCE for unit in units]
        of_all.limit_assumes = tuple(assumed)
    return of_all


def _of_parts(entries):
    """Say what each part of the usual division has spent, so that one that is spelt in two ways is seen."""
    parts = dict.fromkeys(declared for entry in entries for declared in entry.rows if declared[0] == USUAL_DIVISION)
    texts = []
    for declared in list(parts)[:MOST_PARTS]:
        of_part = [entry for entry in entries if declared in entry.rows]
        rest = [tuple(other for other in entry.rows if other != declared) for entry in of_part]
        epsilon, delta = basic_sums(replace(entry, rows=rows) for entry, rows in zip(of_part, rest, strict=True))
        texts.append(f"{declared[1]} ({printed_up(epsilon, 6)}, {printed_up(delta)})")
    more = ", ..." * (len(parts) > MOST_PARTS)
    return f"{', '.join(texts)}{more}: sums of releases that name the part; others come on top" if texts else ""


def _total(entries, kind, delta, limit):
    covering = [entry for entry in entries if same_neighbours(entry.guarantee, kind)]
    missing = [entry for entry in entries if not same_neighbours(entry.guarantee, kind)]
    if kind.unit not in WITHIN_A_ROW:  # a patient may have rows in each part
        covering = [replace(entry, rows=()) for entry in covering]
    violated = [entry for entry in covering if entry.guarantee.violation]
    is_distance = kind.adjacency is not None and kind.adjacency.is_distance
    facts = {
        "counts": _counts(covering),
        "missing": _counts(missing),
        "n_of_parts": sum(bool(entry.rows) for entry in covering),
        "neighbours": neighbours_sentence(kind.adjacency, kind.unit) if kind.adjacency else "not stated",
    }
    reasons = []
    if violated:
        reasons.append(f"{as_counts(_counts(violated))} VIOLATED, as an audit has shown")
    if missing:
        reasons.append(f"{as_counts(_counts(missing))} without a guarantee for these neighbours")
    if kind.adjacency is None or not kind.definition.composes:
        reasons.append("neighbours are not stated, or guarantees of this definition do not add up")
    if reasons:
        return Total(None, None, **facts, reason="; ".join(reasons))
    exact = composed(_terms([(entry.rows, entry.guarantee) for entry in covering]), delta=delta)
    # The ledger sees neither where the rows of a release come from nor the maps that they pass before.
    each_once = _EACH_PERSON_ONCE if kind.unit == Unit.PERSON else _EACH_ONCE
    assumed = (each_once, _COMPARED_THERE) if is_distance else (each_once,)
    exact = replace(exact, assumptions=(*exact.assumptions, *assumed))
    adaptive = _adaptive(exact, covering, limit)
    if len(covering) > 1:
        exact = replace(exact, assumptions=tuple(dict.fromkeys([*exact.assumptions, FIXED_BEFORE])))
    return Total(exact, adaptive, **facts, parts=_of_parts(covering))


def _adaptive(exact, entries, limit):
    """State what does not need parameters that were fixed beforehand, if anything does."""
    if exact.definition is not Definition.DP:
        return None
    epsilon, delta = basic_sums(entries)
    method = exact.method and "basic composition"
    adaptive = replace(exact, epsilon=epsilon, delta=min(1.0, delta), loss=None, method=method, mechanism=_BASIC)
    # By basic composition the sums say as much as a limit, and to the last digit.
    is_less = limit is not None and limit.composition == "gaussian" and limit.epsilon < epsilon
    is_of_all = is_less and (limit.adjacency, limit.guarantee.unit) == (exact.adjacency, exact.unit)
    if is_of_all and limit.covers(entries):
        return replace(adaptive, epsilon=limit.epsilon, delta=limit.delta, method="", mechanism="the limit")
    return adaptive


def basic_sums(entries):
    """Sum of the epsilons and of the deltas of entries, rounded up."""
    spent = Spent()
    for entry in entries:
        spent.add(entry.rows, (entry.guarantee.epsilon, entry.guarantee.delta))
    return tuple(map(float_above, spent.costs[:2]))


def _counts(entries):
    return dict(Counter(entry.estimator for entry in entries))


def as_counts(counts):
    """Say how many releases there are of each estimator."""
    return ", ".join(f"{count} of {name}" for name, count in counts.items()) or "none"
