"""The limit of a ledger: a budget that no entry passes."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from .._adjacency import Unit
from .._digits import printed_down, printed_up
from ..guarantee import Adjacency, Definition, PrivacyGuarantee
from . import _filter
from ._journal import LedgerError
from ._totals import MOST_PARTS, USUAL_DIVISION, PlannedEntry, Spent, float_above, same_neighbours

_ROUNDED_OFF = Fraction(2) ** -39  # of a limit that is spent, this much may seem to be left
LIMIT_FOR_SKETCHES = "ledger.limit(..., adjacency=sketch.guarantee_.adjacency)"  # of the fitted sketch
_PAID_BEFORE = (
    "If it is a step of a pipeline, those before it may already be paid: enter a pipeline at once, `with "
    "skdprp.ledger.entry(privacy_report(model, X, y)): model.fit(X, y)`. In a search or a cross-validation pass "
    "error_score='raise', or scikit-learn goes on with scores of nan."
)
_NAMES_NO_PART = "It names no part, and counts for all rows: `with ledger.part(NAME):` where it sees one part alone."
_ROUNDING = 1 + Fraction(2) ** -40  # of sums: ten times 0.1 is 1.0
_SQUARED = 1 - 2.0**-40  # of a square root, which is rounded to nearest


class Left(NamedTuple):
    """What is left of a limit.

    Attributes
    ----------
    epsilon, delta : float
        Largest ones of one more release, rounded down to nine digits. Where squares of ratios are added up, that
        epsilon is of Gaussian noise, at the delta of the limit, and delta is what may be added to that of its noise.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Limit:
    """What all releases together may cost, fixed before the first."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    composition: str
    unit: Unit = Unit.ROW
    # By the entries that were looked at before, so that an append does not price all of them again.
    _spent: Spent = field(default_factory=Spent, init=False, repr=False, compare=False)

    @property
    def guarantee(self):
        """What was set."""
        return PrivacyGuarantee(self.epsilon, self.delta, unit=self.unit, adjacency=self.adjacency)

    def to_dict(self):
        """Return numbers and strings, for JSON."""
        adjacency = {"relation": self.adjacency.relation, "bound": repr(self.adjacency.bound)}
        adjacency["after"] = self.adjacency.after
        facts = {"epsilon": self.epsilon, "delta": self.delta, "composition": self.composition, **adjacency}
        return facts if self.unit == Unit.ROW else facts | {"unit": self.unit}

    @classmethod
    def from_dict(cls, facts):
        """Rebuild a limit."""
        adjacency = Adjacency(facts["relation"], float(facts["bound"]), facts["after"])
        unit = Unit(facts.get("unit", Unit.ROW))
        return cls(facts["epsilon"], facts["delta"], adjacency, facts["composition"], unit)

    def check(self, entries, *new):
        """Refuse entries that would pass the limit together with the others, which are never fewer than before.

        New ones are of the same rows.
        """
        for one in new:
            if reason := self._refusal(one.guarantee):
                raise LedgerError(f"{one.estimator} is not released: {reason}")
        for entry in entries[self._spent.n_releases :]:
            self._spent.add(self._rows_of(entry), self.costs(entry))
        added = Spent()
        for one in new:
            added.add((), self.costs(one))
        if new and not self._allows(self._spent.after(self._rows_of(new[0]), added.costs)):
            names, spent = " and ".join(one.estimator for one in new), " and ".join(repr(one.guarantee) for one in new)
            cure = " Inside `with skdprp.ledger.entry(plan):` their exact total counts." * (len(new) > 1)
            if entries and not isinstance(new[0], PlannedEntry):
                cure = f" {_PAID_BEFORE}"
            if not new[0].rows and any(map(self._rows_of, entries)):
                cure = f" {_NAMES_NO_PART}{cure}"
            left = self._left(self._spent, self._rows_of(new[0]))
            if self.composition == "basic":
                said = f"epsilon = {printed_down(left[0], 6)} and delta = {printed_down(left[1], 6)}"
            else:
                said = f"Gaussian noise of {self._left_of_noise(left, new[0].guarantee.delta or self.delta)}"
            raise LedgerError(
                f"{names} {'is' if len(new) == 1 else 'are'} not released: with {spent}, all releases together would "
                f"pass the limit, {self.guarantee!r} by {self.composition} composition. Left are {said}.{cure}"
            )

    def covers(self, entries):
        """Whether all entries are within the limit, as those of a file that nobody else wrote to are."""
        return self._allows(self._spent_by(entries).costs) and not any(
            self._refusal(entry.guarantee) for entry in entries
        )

    def line(self, entries, *, has_adaptive=True):
        """Say what entries have spent of it, and what is left for a release of all rows."""
        spent = self._spent_by(entries)
        left, parts = self._left(spent, ()), dict.fromkeys(filter(None, map(self._rows_of, entries)))
        more = ", of one part perhaps more" * bool(parts)
        given = " and ".join(dict.fromkeys(entry.guarantee.given for entry in entries if entry.guarantee.given))
        stated = replace(self.guarantee, given=given)
        costs = [float_above(cost) for cost in spent.costs]
        if self.composition == "basic":
            # A person may have rows in each part, so that the sums over persons are others than those over rows.
            as_adaptive = " as in the line adaptive" * (
                has_adaptive and all(entry.guarantee.unit == self.unit for entry in entries)
            )
            if 0 < len(parts) <= MOST_PARTS and all(rows[1:] == () and rows[0][0] == USUAL_DIVISION for rows in parts):
                others = self._left(spent, ((USUAL_DIVISION, None),))  # of a part that nobody has named yet
                more = f" for all rows, {_printed(others)} for any part not listed"
                more += "".join(f", {_printed(self._left(spent, rows))} for {rows[0][1]}" for rows in parts)
            left = _printed(left)
            spent = f"({printed_up(costs[0], 6)}, {printed_up(costs[1])})"
            sums = f"epsilons and deltas added up{as_adaptive}"
            return f"{stated!r}, {sums}; spent {spent}, left {left}{more}"
        spent, most = math.sqrt(costs[0]) / _SQUARED, math.sqrt(self._most[0]) * _SQUARED
        return (
            f"{stated!r}, squares of mu added up, unlike in the lines above; spent mu = {printed_up(spent)} of "
            f"{printed_down(most)}, left {self._left_of_noise(left, self.delta)}{more}"
        )

    def left(self, entries, rows):
        """What entries have left for one more release of some rows."""
        left = self._left(self._spent_by(entries), rows if self.unit == Unit.ROW else ())
        if self.composition == "gaussian":
            left = self._epsilon_left(left, self.delta), left[1]
        return Left(*(float(printed_down(one, 9)) for one in left))

    def _spent_by(self, entries):
        spent = Spent()
        for entry in entries:
            spent.add(self._rows_of(entry), self.costs(entry))
        return spent

    def _left(self, spent, rows):
        """What is left for some rows, from parameters of earlier releases alone."""
        # A cost of twice the limit makes the part of these rows the largest: the rest of the sum is what counts here.
        most = self._most
        after = spent.after(rows, [2 * one for one in most])
        left = [3 * one - cost for one, cost in zip(most, after, strict=False)]
        return [-float_above(-more) if more > one * _ROUNDED_OFF else 0.0 for more, one in zip(left, most, strict=True)]

    def _epsilon_left(self, left, delta):
        mu = math.sqrt(left[0]) * _SQUARED
        return _filter.epsilon_of_gaussian(mu, delta) if mu else 0.0

    def _left_of_noise(self, left, delta):
        """Say how little noise is left, and which epsilon it has at a delta."""
        mu, epsilon = math.sqrt(left[0]) * _SQUARED, self._epsilon_left(left, delta)
        as_epsilon = f"(epsilon = {printed_down(epsilon)} at delta = {delta:.6g})"
        return f"mu = {printed_down(mu)} {as_epsilon} and a delta of {printed_down(left[1])}"

    def _refusal(self, guarantee):
        """Say why a release does not count for the limit, whatever is left of it; "" if it does."""
        if guarantee.seeded:
            return f"its noise is seeded, so that {guarantee!r} does not hold."
        if guarantee.violation:
            return f"an attack has refuted it, {guarantee!r}."
        if same_neighbours(guarantee, self.guarantee):
            return ""
        if guarantee.adjacency is None:
            size = f", {self.adjacency.bound}" * self.adjacency.is_distance
            named = f"adjacency=Adjacency('{self.adjacency.relation}'{size})"
            return f"the guarantee names no neighbours: pass {named}, if it holds for these."
        cure = ""
        if guarantee.definition == Definition.DP and guarantee.adjacency and guarantee.adjacency.is_distance:
            cure = f" A limit for such releases: {LIMIT_FOR_SKETCHES}."
        elif self.unit == Unit.PERSON:
            cure = (
                " Give groups to the fit, and to its plan, privacy_report(model, X, y, groups=...). Private bins take "
                "none: give bounds, edges or categories of the columns in their place."
            )
        return f"with {guarantee!r} it says nothing of the neighbours of the limit, {self.guarantee!r}.{cure}"

    def _rows_of(self, entry):
        """Which rows an entry saw; all, where a person may have rows in each part."""
        return entry.rows if self.unit == Unit.ROW else ()

    def costs(self, entry):
        """What an entry costs, as sums of which the limit is one."""
        guarantee = entry.guarantee
        return (guarantee.epsilon, guarantee.delta) if self.composition == "basic" else _filter.price(guarantee)

    @property
    def _most(self):
        """What all costs may sum up to."""
        if self.composition == "basic":
            return [Fraction(most) * _ROUNDING for most in (self.epsilon, self.delta)]
        return [*map(Fraction, _filter.budget(self.epsilon, self.delta))]

    def _allows(self, costs):
        return _filter.fits(costs, self._most)


def _printed(left):
    """Print an epsilon and a delta that are left."""
    return f"({printed_down(left[0], 6)}, {printed_down(left[1])})"
