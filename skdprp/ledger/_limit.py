"""The limit of a ledger: a budget that no entry passes."""

from dataclasses import dataclass, field
from fractions import Fraction

from .._adjacency import Unit
from ..guarantee import Adjacency, PrivacyGuarantee
from . import _filter
from ._journal import LedgerError
from ._totals import Spent, same_neighbours

_ROUNDING = 1 + Fraction(2) ** -40  # of sums: ten times 0.1 is 1.0


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

    def check(self, entries, new):
        """Refuse an entry that would pass the limit together with the others, which are never fewer than before."""
        if not self._admits(new.guarantee):
            raise LedgerError(
                f"{new.estimator} is not released: {new.guarantee!r} for {new.guarantee.unit} is void, or says nothing "
                f"of the neighbours of the limit, {self.guarantee!r} for {self.guarantee.unit}."
            )
        for entry in entries[self._spent.n_releases :]:
            self._spent.add(self._rows_of(entry), self.costs(entry))
        if not self._allows(self._spent.after(self._rows_of(new), self.costs(new))):
            raise LedgerError(
                f"{new.estimator} is not released: with {new.guarantee!r}, all releases together would pass the limit, "
                f"{self.guarantee!r} by {self.composition} composition."
            )

    def covers(self, entries):
        """Whether all entries are within the limit, as those of a file that nobody else wrote to are."""
        spent = Spent()
        for entry in entries:
            spent.add(self._rows_of(entry), self.costs(entry))
        return self._allows(spent.costs) and all(self._admits(entry.guarantee) for entry in entries)

    def _admits(self, guarantee):
        return same_neighbours(guarantee, self.guarantee) and not (guarantee.seeded or guarantee.violation)

    def _rows_of(self, entry):
        """Which rows an entry saw; all, where a person may have rows in each part."""
        return entry.rows if self.unit == Unit.ROW else ()

    def costs(self, entry):
        """What an entry costs, as sums of which the limit is one."""
        guarantee = entry.guarantee
        return (guarantee.epsilon, guarantee.delta) if self.composition == "basic" else _filter.price(guarantee)

    def _allows(self, costs):
        if self.composition == "basic":
            return _filter.fits(costs, [Fraction(most) * _ROUNDING for most in (self.epsilon, self.delta)])
        return _filter.fits(costs, _filter.budget(self.epsilon, self.delta))
