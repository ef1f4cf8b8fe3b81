"""What the entries of a ledger amount to: sums over releases of the same rows, the largest over disjoint ones."""

from collections import Counter
from dataclasses import dataclass, replace

from .._digits import printed_up
from .._label import as_html, as_text
from ..guarantee import PrivacyGuarantee, compose, sum_up

_BASIC = "all epsilons and all deltas added up, the largest over disjoint rows"


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
        What holds of it.
    rows : tuple of (str, str)
        Declarations of which rows it saw, from the outermost: (division, part of it). Empty for all rows.
    """

    id: str
    time: str
    estimator: str
    guarantee: PrivacyGuarantee
    rows: tuple[tuple[str, str], ...] = ()


def over_rows(entries, add, largest, value):
    """Fold the values of entries: added up for the same rows, the largest of the parts of each division."""
    return add(terms_over_rows([(entry.rows, value(entry)) for entry in entries], add, largest))


def terms_over_rows(costs, add, largest):
    """Costs that add up: of releases of all rows, and of the costliest part of each division."""
    own = [cost for rows, cost in costs if not rows]
    divisions = {}
    for rows, cost in costs:
        if rows:
            division, part = rows[0]
            divisions.setdefault(division, {}).setdefault(part, []).append((rows[1:], cost))
    for parts in divisions.values():
        own.append(largest([add(terms_over_rows(part, add, largest)) for part in parts.values()]))
    return own


def same_neighbours(guarantee, other):
    """Whether one guarantee covers the neighbours of another."""
    if (guarantee.definition, guarantee.unit) != (other.definition, other.unit) or None in (
        guarantee.adjacency,
        other.adjacency,
    ):
        return guarantee.definition == other.definition and guarantee.adjacency == other.adjacency
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
        What holds as well where parameters, or whether to go on, depended on earlier releases.
    counts : dict of str to int
        How many releases of each estimator are in it.
    missing : dict of str to int
        How many releases of each estimator say nothing of these neighbours: then there is no total.
    """

    guarantee: PrivacyGuarantee | None
    adaptive: PrivacyGuarantee | None
    counts: dict
    missing: dict
    neighbours: str

    def facts(self):
        """Return what is printed, by name."""
        facts = {"neighbours": self.neighbours, "releases": as_counts(self.counts)}
        if self.missing:
            return facts | {"total": f"none: {as_counts(self.missing)} say nothing of these neighbours"}
        if self.guarantee is None:
            return facts | {"total": "none: neighbours are not stated, or guarantees of this definition do not add up"}
        return facts | {
            "total": f"{self.guarantee!r}, for parameters that were fixed before the first release",
            "adaptive": f"{_pair(self.adaptive)}, where they depended on earlier releases ({self.adaptive.mechanism})",
        }


class Totals(tuple):
    """Totals by definition and neighbours, which print as text and HTML."""

    def __repr__(self):
        return "\n\n".join(as_text(total.facts()) for total in self) or "Nothing was released."

    def _repr_html_(self):
        return "".join(as_html("Spent", total.facts()) for total in self) or "Nothing was released."


def totals(entries, delta, limit):
    """Return the total for each kind of neighbours that entries name."""
    kinds = {}
    for entry in entries:
        guarantee = entry.guarantee
        kinds.setdefault((guarantee.definition, guarantee.unit, guarantee.adjacency), guarantee)
    return Totals(_total(entries, kind, delta, limit) for kind in kinds.values())


def _total(entries, kind, delta, limit):
    covering = [entry for entry in entries if same_neighbours(entry.guarantee, kind)]
    missing = [entry for entry in entries if not same_neighbours(entry.guarantee, kind)]
    facts = {
        "counts": _counts(covering),
        "missing": _counts(missing),
        "neighbours": str(kind.adjacency or "not stated"),
    }
    if missing or kind.adjacency is None or not kind.definition.composes:
        return Total(None, None, **facts)
    guarantees = [(entry.rows, entry.guarantee) for entry in covering]
    exact = compose(*terms_over_rows(guarantees, lambda terms: compose(*terms), _of_disjoint), delta=delta)
    epsilon, spent = basic_sums(covering)
    adaptive = replace(exact, epsilon=epsilon, delta=min(1.0, spent), loss=None, mechanism=_BASIC)
    if limit is not None and limit.adjacency == kind.adjacency and limit.epsilon < epsilon:
        most = limit.guarantee
        adaptive = replace(adaptive, epsilon=most.epsilon, delta=most.delta, mechanism=most.mechanism)
    return Total(exact, adaptive, **facts)


def _of_disjoint(totals):
    distinct = list(dict.fromkeys(totals))
    return distinct[0] if len(distinct) == 1 else compose(*distinct, disjoint=True)


def basic_sums(entries):
    """Sum of the epsilons and of the deltas of entries, rounded up."""

    def _sum(pairs):
        return tuple(sum_up(pair[i] for pair in pairs) for i in (0, 1))

    def _largest(pairs):
        return tuple(max(pair[i] for pair in pairs) for i in (0, 1))

    return over_rows(entries, _sum, _largest, lambda entry: (entry.guarantee.epsilon, entry.guarantee.delta))


def _counts(entries):
    return dict(Counter(entry.estimator for entry in entries))


def as_counts(counts):
    """Say how many releases there are of each estimator."""
    return ", ".join(f"{count} of {name}" for name, count in counts.items()) or "none"


def _pair(guarantee):
    epsilon, delta = printed_up(guarantee.epsilon, digits=6), printed_up(guarantee.delta)
    return f"({epsilon}, {delta})-{guarantee.definition}" if guarantee.delta else f"{epsilon}-{guarantee.definition}"
