"""The limit of a ledger: a budget that no entry passes."""

from dataclasses import dataclass

from ..guarantee import Adjacency, PrivacyGuarantee
from . import _filter
from ._journal import LedgerError
from ._totals import basic_sums, over_rows, same_neighbours

_ROUNDING = 1 + 2.0**-40  # of sums: ten times 0.1 is 1.0


@dataclass(frozen=True)
class Limit:
    """What all releases together may cost, fixed before the first."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    composition: str

    @property
    def guarantee(self):
        """What holds of all releases, however each depends on those before."""
        return PrivacyGuarantee(
            self.epsilon * _ROUNDING, min(1.0, self.delta * _ROUNDING), adjacency=self.adjacency, mechanism="the limit"
        )

    def to_dict(self):
        """Return numbers and strings, for JSON."""
        adjacency = {"relation": self.adjacency.relation, "bound": repr(self.adjacency.bound)}
        return {"epsilon": self.epsilon, "delta": self.delta, "composition": self.composition, **adjacency}

    @classmethod
    def from_dict(cls, facts):
        """Rebuild a limit."""
        adjacency = Adjacency(facts["relation"], float(facts["bound"]))
        return cls(facts["epsilon"], facts["delta"], adjacency, facts["composition"])

    def check(self, entries, new):
        """Refuse an entry that would pass the limit together with the others."""
        if not same_neighbours(new.guarantee, self.guarantee) or new.guarantee.seeded:
            raise LedgerError(
                f"{new.estimator} is not released: {new.guarantee!r} says nothing of the neighbours of the limit, "
                f"{self.guarantee!r}."
            )
        if self.composition == "basic":
            epsilon, delta = basic_sums([*entries, new])
            is_within = epsilon <= self.guarantee.epsilon and delta <= self.guarantee.delta
        else:
            spent = over_rows(
                [*entries, new], _filter.added, _filter.largest, lambda entry: _filter.price(entry.guarantee)
            )
            is_within = spent.fits(_filter.budget(self.epsilon, self.delta))
        if not is_within:
            raise LedgerError(
                f"{new.estimator} is not released: with {new.guarantee!r}, all releases together would pass the limit, "
                f"{self.guarantee!r} by {self.composition} composition."
            )
