"""How neighbours differ: the one place where these words are spelled out for code that compares them."""

from enum import StrEnum


class Unit(StrEnum):
    """What is protected, in the guarantees of models; others name their own."""

    ROW = "one row"
    PERSON = "one person (all of its rows)"
    ENTRY = "one entry of X"
    ENTRY_BESIDE_TARGETS = "one entry of X; y is not protected"

    @classmethod
    def _missing_(cls, value):
        return {"row": cls.ROW, "person": cls.PERSON, "one person": cls.PERSON}.get(value)

    def __repr__(self):
        return str.__repr__(self)


class Relation(StrEnum):
    """How two neighbouring inputs differ; each is equal to the word that users write for it."""

    COORDINATE = "coordinate"
    L1 = "l1"
    L2 = "l2"
    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"
    ENTRY = "entry"

    __repr__ = str.__repr__

    @property
    def is_distance(self):
        """Whether neighbours are close to each other, so that a map of the rows changes what they are."""
        return self not in (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
