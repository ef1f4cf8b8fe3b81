"""Privacy guarantees: values that state in full what holds of a release, add up, and can be shown."""

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from ._adjacency import Relation, Unit
from ._digits import to_python, with_python_numbers
from ._printing import (
    as_html,
    as_markdown,
    as_text,
    guarantee_facts,
    guarantee_line,
    neighbours_sentence,
    unit_line,
    violation_line,
)
from .composition import PrivacyLoss, Profile, approximate_profile, largest_profile
from .mechanisms import (
    gaussian_profile,
    randomised_response_profile,
    searched_profile,
    secret_projection_profile,
    spherical_profile,
    subsampled_gaussian_profile,
)
from .mechanisms.gaussian_laplace import laplace_profile
from .mechanisms.mutual_information import information_delta
from .mechanisms.noisy_steps import composed_profile
from .mechanisms.objective_perturbation import (
    objective_perturbation_profile,
    product_perturbation_profile,
    softmax_perturbation_profile,
)

__all__ = ["Adjacency", "Definition", "PrivacyGuarantee", "PrivacyWarning", "compose"]

# A change of one coordinate is a change in l1 of that size, that is one in l2, and any change of a row replaces it.
_NESTED = (Relation.COORDINATE, Relation.L1, Relation.L2, Relation.REPLACE_ONE)
# Scales and releases are of the type of the rows, which one value may change; an encoder keeps that of each column.
TYPES_ARE_PUBLIC = (
    "the number, names and types of the columns that a private step gets are public (for a list, the type of its numpy "
    "array)"
)
# Where a reader guesses the types of a column part by part, one odd cell makes "1.0" of each "1" in its part. One label
# may exchange a fifth of the rows of a stratified split, and so may one row more of a person in any split of rows.
ROWS_ARE_READ_ALONE = (
    "no row decides which others are there, in which order, or how they are read (do not stratify; give readers the "
    "types)"
)
# What a private step released decides what those behind it see: only the total of all holds then.
ONLY_PRIVATE_STEPS_FITTED = (
    "no preceding step was fitted on these rows, except private ones; the guarantee of each such fit is added to this "
    "one"
)
# Of labels that an ensemble has encoded, which follow from the set of labels: it states that instead.
LABELS_ARE_PUBLIC = "the labels listed in classes, and any encoding of labels, do not come from the data"
# In one wording for all estimators, so that a total prints it once.
PARAMETERS_ARE_PUBLIC = "parameters such as bounds, max_norm, max_change and class_weight do not come from the data"
NOT_COVERED = ("whether a fit raised an error", "the running time", "rows and labels passed to a fitted estimator")
_ASSUMED_OF_PERSONS = (
    "in `groups`, all rows of a person have the same entry, and no two persons share one",
    "no row moves from one person to another: that would change two persons",
)
DISJOINT = (
    "disjoint parts (of a division in a ledger, or chunks of one collection) have no unit ({}) in common, and the "
    "values in a row do not decide its part"
)
# Of totals of which a number is smaller than the sums of epsilons and deltas imply.
FIXED_BEFORE = "the parameters of all releases, and how many there are, were fixed before the first release"
MAY_PROVE_LESS = " (dp-accounting is not installed: with it, pip install dp-accounting, epsilon may be smaller)"
# What a file may name: never a function looked up by what the file says.
_PROFILES = {
    profile.__name__: profile
    for profile in (
        approximate_profile,
        composed_profile,
        gaussian_profile,
        laplace_profile,
        largest_profile,
        objective_perturbation_profile,
        product_perturbation_profile,
        randomised_response_profile,
        searched_profile,
        secret_projection_profile,
        softmax_perturbation_profile,
        spherical_profile,
        subsampled_gaussian_profile,
    )
}


def assumed_of_unit(unit, adjacency):
    """List what is assumed of the number of rows or persons: one text for all models, which a total says once.

    A blank row stands where none counts, so that the number of places for rows is the same for neighbours.
    """
    is_person = unit == Unit.PERSON
    blank = ", blank ones included," * (adjacency == Relation.ADD_REMOVE)
    units = "persons" if is_person else "rows"
    is_public = f"the number of {units}{blank} is public; delta_, the noise and other settings may follow from it"
    return (is_public, *_ASSUMED_OF_PERSONS * is_person)


class Definition(StrEnum):
    """What kind of privacy is guaranteed; guarantees of different definitions never compose.

    The values are what is printed, and what each means never changes.

    Examples
    --------
    >>> from skdprp.guarantee import Definition
    >>> [definition.value for definition in Definition][:3]
    ['DP', 'individual DP', 'MI-DP (bits)']
    """

    DP = "DP"
    """Differential privacy."""
    INDIVIDUAL_DP = "individual DP"
    """Individual differential privacy of the released data set: no differential privacy. No total of it is stated."""
    MI_DP = "MI-DP (bits)"
    """A bound in bits on the mutual information between one entry and the release, given all else."""
    CLAIMED_DP = "DP as claimed, not as proved"
    """What a publication claims, where its proof does not hold."""
    CLAIMED_MI_DP = "MI-DP (bits) as claimed, not as proved"
    """What a publication claims, where its proof does not hold."""

    @property
    def composes(self):
        """Whether guarantees of this definition add up."""
        return self in (Definition.DP, Definition.MI_DP)


class PrivacyWarning(UserWarning):
    """A release whose true guarantee is another one than its parameters ask for."""


@dataclass(frozen=True)
class Adjacency:
    """Which pairs of inputs a guarantee is about: the neighbours.

    Parameters
    ----------
    relation : {"coordinate", "l1", "l2", "replace_one", "add_remove", "entry"}
        How two neighbours differ.
    bound : float, default=inf
        By how much at most.
    after : str, default=""
        Data-independent transformers that rows pass before they are compared. "" if none was stated: rows at a distance
        are compared as they reach the release, whatever they passed before.

    Raises
    ------
    ValueError
        If the relation is none of these, or the bound negative.

    Examples
    --------
    >>> from skdprp.guarantee import Adjacency
    >>> print(Adjacency("coordinate", 0.5))
    rows that differ in one coordinate, by at most 0.5, as they reach each release
    >>> Adjacency("l1", 1.0).narrower(Adjacency("coordinate", 0.5))
    Adjacency(relation='coordinate', bound=0.5, after='')
    """

    relation: str
    bound: float = float("inf")
    after: str = ""

    def __post_init__(self):
        object.__setattr__(self, "bound", to_python(self.bound))
        if not isinstance(self.after, str):
            raise TypeError(f"after must be a text, got {self.after!r}.")
        if self.relation not in list(Relation) or not (_is_number(self.bound) and self.bound >= 0):
            raise ValueError(f"There are no such neighbours: {self.relation!r} with bound {self.bound!r}.")
        object.__setattr__(self, "relation", Relation(self.relation))
        object.__setattr__(self, "bound", abs(self.bound))  # or -0.0 would be printed

    def __str__(self):
        return neighbours_sentence(self)

    @property
    def is_distance(self):
        """Whether neighbours are close to each other, so that a map of the rows changes what they are."""
        return self.relation.is_distance

    def narrower(self, other):
        """Return the pairs that are neighbours in both senses.

        Parameters
        ----------
        other : Adjacency
            The other sense.

        Returns
        -------
        Adjacency

        Raises
        ------
        ValueError
            If neither sense contains the other.
        """
        # Distances are measured after the same transformers, or they are not nested; a replaced row is one anywhere.
        distances = [one for one in (self, other) if one.is_distance]
        relations = {self.relation, other.relation}
        nested = len(relations) == 1 or relations <= set(_NESTED)
        if not nested or len({one.after for one in distances}) > 1:
            mixed = relations == {Relation.REPLACE_ONE, Relation.ADD_REMOVE}
            cure = ' Fit all with adjacency="add_remove", or all with "replace_one".' * mixed
            raise ValueError(f"Guarantees for different neighbours do not compose: {self}, and {other}.{cure}")
        relation = self.relation if len(relations) == 1 else min(relations, key=_NESTED.index)
        return Adjacency(relation, min(self.bound, other.bound), distances[0].after if distances else "")


@dataclass(frozen=True)
class PrivacyGuarantee:
    """A privacy guarantee, with everything it needs to be true.

    The section "How to read a printed guarantee" of :doc:`/guide/threat` explains each line that it prints.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats; of "MI-DP (bits)", a bound on mutual information, in bits.
    delta : float
        How much more likely an event may be than epsilon allows; 0 for a pure guarantee.
    definition : Definition or str, default=Definition.DP
        What kind of privacy. Guarantees of different definitions never compose.
    unit : str, default="one row"
        Whose data are protected: "one row" (or "row"), or "one person (all of its rows)" (or "person") where a fit was
        given `groups`. It does not say how much of them: the unit of a sketch is "one row", too, and `adjacency` says
        that only a bounded change of the row is hidden. A program has to look at both. A guarantee for one person
        replaced implies the same for one row replaced, see :func:`compose`. Any other text, such as "one household", is
        a unit of its own.
    adjacency : Adjacency or None, default=None
        Which pairs of inputs it is about: with `unit`, what is hidden.
    per : {"fit", "transform"} or None, default=None
        At which call it happens anew, and costs privacy anew: each fit of a private model, each transform of a sketch.
        None if it was not stated, and for a total.
    given : str, default=""
        What both neighbours have in common besides, because it was read off the data: "the set of labels", for
        instance. Printed with the numbers.
    released : str, default=""
        What may be published under this guarantee.
    mechanism : str, default=""
        The mechanism and the scale of its noise; of a total, those of its parts.
    method : str, default=""
        How a total was computed: "closed form" (Gaussian noise only), "privacy loss distribution", "basic composition"
        (the sum of all epsilons and of all deltas) or "disjoint parts". "" for what is no total.
    n_releases : int, default=1
        How many releases it is a total of.
    assumptions : tuple of str, default=()
        What must hold for the guarantee to be true.
    not_covered : tuple of str, default=()
        What the guarantee does not cover, such as what the running time reveals.
    source : str, default=""
        Where it is proved.
    loss : PrivacyLoss or None, default=None
        The privacy loss at every epsilon; None if no more is known than `epsilon` and `delta`. Its delta at `epsilon`
        may be slightly above `delta`, which was derived for this one epsilon.
    audited_epsilon : float or None, default=None
        The largest epsilon that an attack has shown to be needed at `delta`, if one was run.
    violation : str, default=""
        What an attack has found although this guarantee rules it out: the guarantee is void then. An `audited_epsilon`
        above `epsilon` is such a finding. "" if there is none.
    seeded : bool, default=False
        Whether the noise came from a seed: such a release is not private.
    hidden_changes : float or None, default=None
        The largest distance of two rows for which the best guess between them is right with probability at most 3/4,
        divided by the bound of `adjacency`. None if it was not stated. See `hides`.

    Raises
    ------
    ValueError
        If epsilon or what was audited is negative or nan, delta no probability, or not 0 for MI-DP; if there is no
        such definition, `per` is something else, or there are no releases.
    TypeError
        If `adjacency` is no Adjacency, or `assumptions` or `not_covered` no tuple of texts.

    Examples
    --------
    >>> from skdprp.guarantee import Adjacency, PrivacyGuarantee
    >>> PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one"), given="the set of labels")
    (1.0, 1e-06)-DP, one row replaced, given the set of labels
    >>> PrivacyGuarantee(5.0, 0.0, adjacency=Adjacency("l1", 1.0), per="transform")
    5.0-DP per transform, l1 change of 1.0
    >>> PrivacyGuarantee(0.2, 0.0, definition="MI-DP (bits)", adjacency=Adjacency("entry", 1.0))
    0.2-MI-DP (bits), one entry of at most 1.0

    A line names the size of a change, and not the rows in which it is one; the text in full says where they are
    compared:

    >>> print(Adjacency("l2", 1.0))
    rows at l2 distance at most 1.0, as they reach each release
    >>> print(Adjacency("l2", 1.0, after="publicscaler"))
    rows at l2 distance at most 1.0, as they leave publicscaler

    Long numbers are printed with few digits, rounded up; the attributes keep them all:

    >>> PrivacyGuarantee(1.4032566772702921, 2e-6)
    (1.40326, 2e-06)-DP, neighbours not stated
    """

    epsilon: float
    delta: float
    definition: Definition = Definition.DP
    unit: str = Unit.ROW
    adjacency: Adjacency | None = None
    per: Literal["fit", "transform"] | None = None
    given: str = ""
    released: str = ""
    mechanism: str = ""
    method: str = ""
    n_releases: int = 1
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    source: str = ""
    loss: PrivacyLoss | None = None
    audited_epsilon: float | None = None
    violation: str = ""
    seeded: bool = False
    hidden_changes: float | None = None

    def __post_init__(self):
        for name in ("epsilon", "delta", "audited_epsilon", "hidden_changes"):
            number = to_python(getattr(self, name))
            if not (_is_number(number) or (number is None and name in ("audited_epsilon", "hidden_changes"))):
                raise TypeError(f"{name} must be a number, got {number!r}.")
            if isinstance(number, int) and not _equals_float(number):
                raise ValueError(f"{name} equals no float: round it first, a bound of privacy up.")
            object.__setattr__(self, name, abs(number) if number == 0 else number)  # or -0.0 would be printed
        object.__setattr__(self, "seeded", to_python(self.seeded))
        if not isinstance(self.seeded, bool):
            raise TypeError(f"seeded must be True or False, got {self.seeded!r}.")
        for name in ("assumptions", "not_covered"):
            given = getattr(self, name)
            texts = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
            if not all(isinstance(text, str) for text in texts):
                raise TypeError(f"{name} must be a tuple of texts, got {given!r}.")
            object.__setattr__(self, name, texts)
        for name in ("unit", "given", "released", "mechanism", "method", "source", "violation"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a text, got {getattr(self, name)!r}.")
        if not isinstance(self.loss, PrivacyLoss | None):
            raise TypeError(f"loss must be a PrivacyLoss or None, got {self.loss!r}.")
        object.__setattr__(self, "n_releases", to_python(self.n_releases))
        if type(self.n_releases) is not int or self.n_releases < 1:
            raise ValueError(f"n_releases must be a whole number of at least 1, got {self.n_releases!r}.")
        object.__setattr__(self, "definition", Definition(self.definition))
        with suppress(ValueError):  # others are named by whoever states the guarantee
            object.__setattr__(self, "unit", Unit(self.unit))
        if not isinstance(self.adjacency, Adjacency | None):
            raise TypeError(
                f'adjacency must be an Adjacency or None, such as Adjacency("replace_one"), got {self.adjacency!r}.'
            )
        if self.unit == Unit.PERSON and self.adjacency is not None and self.adjacency.is_distance:
            raise ValueError(f"Persons are replaced, or blank, and not {self.adjacency}.")
        if self.per not in ("fit", "transform", None):
            raise ValueError(f'per must be "fit", "transform" or None, got {self.per!r}.')
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):
            raise ValueError(f"No guarantee has epsilon={self.epsilon!r} and delta={self.delta!r}.")
        if self.audited_epsilon is not None and not self.audited_epsilon >= 0:
            raise ValueError(f"No audit shows that epsilon is at least {self.audited_epsilon!r}.")
        if self.hidden_changes is not None and not self.hidden_changes >= 0:
            raise ValueError(f"No guarantee hides {self.hidden_changes!r} changes.")
        if self.definition is Definition.MI_DP and self.delta:
            raise ValueError(f"MI-DP has no delta, got {self.delta!r}.")
        # A file, or a user, may state what an attack has shown and not that it refutes the guarantee.
        if self.audited_epsilon is not None and self.audited_epsilon > self.epsilon and not self.violation:
            object.__setattr__(self, "violation", violation_line(self.audited_epsilon, self.epsilon, self.delta))

    def __repr__(self):
        return guarantee_line(self)

    def __str__(self):
        return as_text(guarantee_facts(self))

    def _repr_html_(self):
        return as_html("Privacy", guarantee_facts(self))

    def covers_unit(self, unit):
        """Whether this guarantee implies one for another unit, with the same numbers.

        Parameters
        ----------
        unit : str
            The other unit.

        Returns
        -------
        bool
            True if both units are equal. Also true if this guarantee is for one person replaced, and `unit` is one row:
            replacing one row, which still belongs to its person, is a special case of replacing all rows of that
            person. False for one row if a person may be blank: making one row blank is not a special case of making a
            whole person blank.

        Examples
        --------
        >>> from skdprp.guarantee import Adjacency, PrivacyGuarantee
        >>> unit = "one person (all of its rows)"
        >>> PrivacyGuarantee(1.0, 0.0, unit=unit, adjacency=Adjacency("replace_one")).covers_unit("one row")
        True
        """
        is_replaced = self.adjacency is not None and self.adjacency.relation is Relation.REPLACE_ONE
        return self.unit == unit or ((self.unit, unit) == (Unit.PERSON, Unit.ROW) and is_replaced)

    @property
    def guess_probability(self):
        """Probability of the best guess between two neighbours that were equally likely before the release.

        Half of one plus the total variation distance, rounded up: nobody, whatever else they know, is right more often.
        1 if the noise was seeded or the guarantee violated, None for definitions that do not bound it.

        Examples
        --------
        >>> from skdprp.guarantee import PrivacyGuarantee
        >>> round(PrivacyGuarantee(1.0, 0.0).guess_probability, 3)
        0.731
        """
        if self.seeded or self.violation:
            return 1.0
        if self.definition is Definition.MI_DP:
            return _guess(information_delta(self.epsilon))
        if self.definition is not Definition.DP:
            return None
        try:
            return _guess(self.profile(0.0))
        except ImportError:  # without dp-accounting, what follows from epsilon and delta alone
            return _guess(self._implied_delta(0.0))

    @property
    def hides(self):
        """Distance within which the best guess between two rows is right with probability 3/4 at most.

        A distance of the kind that `adjacency` names, in the units of the rows as they reach the release. `epsilon`
        says how well a change of the size in `adjacency` is hidden; this number says up to which size a change is
        hidden so well that the best guess is right with probability 3/4 at most. 0 if no change is; None if it was not
        stated, if neighbours are not defined by a distance, or if the guarantee is void.

        Examples
        --------
        >>> from skdprp import DPOPORP
        >>> for epsilon in (1.0, 10.0):
        ...     sketch = DPOPORP(4, epsilon=epsilon, noise="laplace", max_change=0.5).fit([[0.0] * 8])
        ...     print(f"{sketch.guarantee_.hides:.3f}")
        0.693
        0.069
        """
        is_distance = self.adjacency is not None and self.adjacency.is_distance
        if self.hidden_changes is None or not is_distance or self.seeded or self.violation:
            return None
        return self.hidden_changes * self.adjacency.bound if self.hidden_changes else 0.0

    @with_python_numbers
    def profile(self, epsilon):
        """Bound delta at any other epsilon, for noise that was not seeded.

        Parameters
        ----------
        epsilon : float
            Epsilon of the guarantee, in nats, at least 0.

        Returns
        -------
        float
            A delta such that the release is (epsilon, delta)-DP as well, rounded up.

        Raises
        ------
        ValueError
            If this is a guarantee of another definition than DP, or `epsilon` is negative.
        ImportError
            If the profile of a composition needs dp-accounting, which is not installed.

        Examples
        --------
        >>> from skdprp import DPOPORP
        >>> guarantee = DPOPORP(2, epsilon=1.0, delta=1e-6).fit([[0.0, 1.0]]).guarantee_
        >>> [f"{guarantee.profile(epsilon):.1e}" for epsilon in (0.5, 1.0, 2.0)]
        ['1.9e-03', '1.0e-06', '1.1e-18']
        """
        if self.definition is not Definition.DP:
            raise ValueError(f"Only differential privacy has a privacy profile, not {self.definition}.")
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon}.")
        # Both hold, and neither is always the smaller: a stated epsilon may be less than what the loss alone proves.
        implied = self._implied_delta(epsilon)
        return implied if self.loss is None else min(implied, self.loss.profile(epsilon))

    def _implied_delta(self, epsilon):
        """Delta at another epsilon that follows from epsilon and delta alone."""
        if epsilon >= self.epsilon:
            return self.delta
        return Profile.of(approximate_profile, epsilon0=self.epsilon, delta0=self.delta)(epsilon)

    def to_dict(self):
        """Return all facts as numbers, strings, lists and dictionaries, for JSON.

        Returns
        -------
        dict
            Which :meth:`from_dict` turns back into this guarantee. "protected" and "neighbours" say in words what
            "unit" and "adjacency" say together: the unit of a sketch is "one row", of which it hides a bounded change.

        Examples
        --------
        >>> from skdprp.guarantee import Adjacency, PrivacyGuarantee
        >>> facts = PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("coordinate", 0.5)).to_dict()
        >>> facts["epsilon"], facts["protected"]
        (1.0, 'a bounded change within one row')
        """
        facts = {field.name: getattr(self, field.name) for field in fields(self)}  # asdict would take profiles apart
        facts["definition"] = self.definition.value
        facts["assumptions"], facts["not_covered"] = list(self.assumptions), list(self.not_covered)
        if self.adjacency is not None:
            facts["adjacency"] = asdict(self.adjacency) | {"relation": self.adjacency.relation.value}
        facts["loss"] = None if self.loss is None else _loss_to_dict(self.loss)
        return _finite(facts | _in_words(self))

    @classmethod
    def from_dict(cls, facts):
        """Rebuild a guarantee.

        Parameters
        ----------
        facts : dict
            What :meth:`to_dict` returned, perhaps by way of JSON.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError
            If the dictionary does not describe a guarantee, or if its words ("protected", "neighbours") contradict its
            unit and adjacency.

        Examples
        --------
        >>> import json
        >>> from skdprp.guarantee import PrivacyGuarantee
        >>> guarantee = PrivacyGuarantee(1.0, 1e-6, assumptions=("n is public",))
        >>> PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
        True
        """
        try:
            adjacency, loss, audited = facts["adjacency"], facts["loss"], facts.get("audited_epsilon")
            hidden = facts.get("hidden_changes")
            words = {name: facts[name] for name in ("protected", "neighbours") if name in facts}
            if adjacency is not None:
                bound = adjacency["bound"]  # spelled out if infinite; a whole number is printed as one
                adjacency = Adjacency(**adjacency | {"bound": bound if type(bound) is int else _float(bound)})
            guarantee = cls(
                **{
                    **{name: fact for name, fact in facts.items() if name not in words},
                    "epsilon": _float(facts["epsilon"]),
                    "audited_epsilon": None if audited is None else _float(audited),
                    "hidden_changes": None if hidden is None else _float(hidden),
                    "assumptions": _texts(facts["assumptions"]),
                    "not_covered": _texts(facts["not_covered"]),
                    "adjacency": adjacency,
                    "loss": None if loss is None else _loss_from_dict(loss),
                }
            )
            # A file of anybody may have something else than a text, a number or a truth value.
            told = guarantee.unit, guarantee.given, guarantee.released, guarantee.mechanism, guarantee.method
            _texts([*told, guarantee.source, guarantee.violation])
            count = guarantee.n_releases
            if type(count) is not int or count < 1 or type(guarantee.seeded) is not bool:
                raise TypeError("its number of releases, or whether it is seeded, is no such thing")
            for name, said in words.items():  # which earlier files do not have
                if said != (stated := _in_words(guarantee)[name]):
                    raise TypeError(f"it says {name}: {said!r}, where its unit and adjacency say {stated!r}")
        except (KeyError, TypeError) as error:
            raise ValueError(f"This dictionary does not describe a guarantee: {error}.") from error
        return guarantee

    def to_markdown(self):
        """Return the privacy label as a Markdown table, for model cards.

        Returns
        -------
        str

        Examples
        --------
        >>> from skdprp.guarantee import Adjacency, PrivacyGuarantee
        >>> print(PrivacyGuarantee(1.0, 1e-6, adjacency=Adjacency("replace_one")).to_markdown().splitlines()[2])
        | guarantee | (1.0, 1e-06)-DP, one row replaced |
        """
        return as_markdown(guarantee_facts(self))

    def mark_seeded(self):
        """Return this guarantee, marked as void because its noise was seeded.

        Returns
        -------
        PrivacyGuarantee

        Examples
        --------
        >>> from skdprp.guarantee import Adjacency, PrivacyGuarantee
        >>> PrivacyGuarantee(1.0, 0.0, adjacency=Adjacency("replace_one")).mark_seeded()
        1.0-DP, one row replaced [seeded: not private]
        """
        return replace(self, seeded=True)


@with_python_numbers
def compose(*guarantees, delta=None, disjoint=False):
    """Add up the guarantees of several releases.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        The guarantee of each release. A later one may depend on what the earlier ones released, see Notes.
    delta : float or None, default=None
        Delta at which the total is stated; None for the sum of all deltas. A larger one may give a much
        smaller epsilon, also where all deltas are 0.
    disjoint : bool, default=False
        Whether no two releases have a unit in common (a row, or a person with all of its rows), and the values in a row
        do not decide which release it is in. The total is then that of the weakest release.

    Returns
    -------
    PrivacyGuarantee
        The total, for the neighbours that all guarantees have in common. If some guarantees are for one person replaced
        and others for one row replaced, the total is for one row replaced. Its `method` says how it was computed: by a
        closed form, if there is one; otherwise numerically with dp-accounting (``pip install dp-accounting``), and
        without it by basic composition. `method` then says if dp-accounting may prove a smaller epsilon. The method is
        also basic composition where nothing else proves more, and always for mutual information.

    Notes
    -----
    Which rows a release reads may depend on earlier releases, unless a guarantee assumes otherwise. The parameters of
    the mechanisms may not: they must be fixed before the first release. This assumption is needed for every total that
    claims more than the plain sums of epsilons and deltas: a smaller epsilon, or a better profile or best guess. It is
    needed for every total of mutual information, too, which is a mean over what may be released: the sum of the bits
    that were chosen in one run bounds nothing. Deltas that include the draw of a public projection are added up, for
    several sketches may share one.

    A sketch does not know which maps its rows passed before. So neighbours at a distance are rows as they reach each
    release: behind a scaler that multiplies by 100, a change of 1 is one of 0.01 of what enters it. A total for rows as
    they enter a pipeline is that of :func:`~skdprp.privacy_report`, which knows the maps.

    Raises
    ------
    TypeError
        If something is no guarantee.
    ValueError
        If the guarantees have different definitions or units, are of a definition without totals (individual
        DP, claims that are not proved), or have no neighbours in common; if there are none; or if `delta` is no
        probability.

    References
    ----------
    .. [1] C. Dwork and A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Theorem 3.16 for the
       basic composition; the exact one is that of :class:`skdprp.composition.PrivacyLoss`.
    .. [2] F. McSherry, "Privacy Integrated Queries", SIGMOD 2009, Theorem 4 for disjoint rows.

    Examples
    --------
    >>> from skdprp import DPOPORP, compose
    >>> once = DPOPORP(2, epsilon=1.0, delta=1e-6).fit([[0.0, 1.0]]).guarantee_
    >>> total = compose(once, once)
    >>> round(total.epsilon, 3), total.delta
    (1.403, 2e-06)
    >>> compose(once, once, disjoint=True)
    (1.0, 1e-06)-DP, l1 change of 1.0
    """
    for guarantee in guarantees:
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(
                f"compose takes guarantees one by one, such as estimator.guarantee_, got {type(guarantee).__name__}."
            )
    total = composed(guarantees, delta=delta, disjoint=disjoint)
    if disjoint or len(guarantees) == 1:
        return total
    if total.definition is Definition.DP and total.loss is None:  # the sums, and nothing that is less
        return total
    return replace(total, assumptions=_union([total.assumptions, (FIXED_BEFORE,)]))


def composed(guarantees, *, delta=None, disjoint=False):
    """Add up the guarantees of releases whose parameters are known to be fixed before the first: see `compose`."""
    if len(guarantees) == 1 and delta is None:  # nothing to add up, whatever its definition is
        return guarantees[0]
    if delta is not None and not 0 <= delta <= 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta}.")
    if not guarantees:
        raise ValueError("A composition needs at least one guarantee.")
    definitions = {guarantee.definition for guarantee in guarantees}
    if len(definitions) > 1:
        raise ValueError(f"Guarantees of different definitions do not compose: {', '.join(sorted(definitions))}.")
    if not guarantees[0].definition.composes:
        raise ValueError(f"Guarantees of this definition do not compose: {guarantees[0].definition}.")
    unit = _common_unit(guarantees)
    total = _total(guarantees, delta, disjoint=disjoint)
    assumed = [(DISJOINT.format(unit),)] * disjoint  # once, also where parts have parts
    return replace(
        guarantees[0],
        unit=unit,
        adjacency=_common_adjacency(guarantees),
        per=None,
        given=_given(guarantees, disjoint=disjoint),
        released=_joined(guarantee.released for guarantee in guarantees),
        mechanism=_joined(guarantee.mechanism for guarantee in guarantees),
        n_releases=sum(guarantee.n_releases for guarantee in guarantees),
        assumptions=_union([*(guarantee.assumptions for guarantee in guarantees), *assumed]),
        not_covered=_union(guarantee.not_covered for guarantee in guarantees),
        source=_joined(guarantee.source for guarantee in guarantees),
        hidden_changes=None,
        audited_epsilon=None,  # an attack on one release says nothing about the total, but for what follows
        violation=_joined(map(_violation_of_part, guarantees)),
        seeded=any(guarantee.seeded for guarantee in guarantees),
        **total,
    )


def _given(guarantees, *, disjoint):
    """Say of what each fact is given: of its own rows and labels, which need not be those of the others."""
    facts = [guarantee.given for guarantee in guarantees if guarantee.given]
    if disjoint or len(facts) > 1:
        of_each = " of each part" if disjoint else " of each release"
        facts = [fact.removesuffix(of_each) + of_each for fact in facts]
    return _joined(facts, " and ")


def _common_unit(guarantees):
    """Unit that all guarantees hold for: a row, where some are for replaced persons and some for rows."""
    units = dict.fromkeys(guarantee.unit for guarantee in guarantees)
    for unit in units:
        if all(guarantee.covers_unit(unit) for guarantee in guarantees):
            return unit
    cure = " Give groups to all fits, or to none." * (Unit.PERSON in units)
    raise ValueError(f"Guarantees for different units do not compose: {', '.join(sorted(units))}.{cure}")


def _common_adjacency(guarantees):
    first, *others = (guarantee.adjacency for guarantee in guarantees)
    for other in others:
        if first is None or other is None:
            raise ValueError("A guarantee that names no neighbours cannot be composed.")
        first = first.narrower(other)
    return first


def _violation_of_part(guarantee):
    """Say that what was shown of one release is not about the total."""
    is_of_its_own_part = guarantee.method and guarantee.audited_epsilon is None
    return guarantee.violation and f"{'' if is_of_its_own_part else 'of one of these releases, '}{guarantee.violation}"


def loss_of(guarantee):
    """Privacy loss of a release, or the worst one where only epsilon and delta are known."""
    if guarantee.loss is not None:
        return guarantee.loss
    profile = Profile.of(approximate_profile, epsilon0=guarantee.epsilon)
    return PrivacyLoss(profiles=(profile,), failure_probability=guarantee.delta)


def _total(guarantees, delta, *, disjoint):
    add_up, basic = (max, "disjoint parts") if disjoint else (sum_up, "basic composition")
    basic_epsilon = add_up(guarantee.epsilon for guarantee in guarantees)
    if guarantees[0].definition is not Definition.DP:
        return {"epsilon": basic_epsilon, "delta": 0.0, "loss": None, "method": basic}
    basic_delta = min(1.0, add_up(guarantee.delta for guarantee in guarantees))
    if not disjoint:
        loss = sum((loss_of(guarantee) for guarantee in guarantees), start=PrivacyLoss())
        return _stated(basic_epsilon, basic_delta, loss, at=delta, method=loss.method, basic=basic)
    losses = tuple(dict.fromkeys(map(loss_of, guarantees)))
    # A neighbour changes one of the releases, and nobody knows which: of each epsilon counts the weakest at it.
    loss = losses[0] if len(losses) == 1 else PrivacyLoss(profiles=(Profile.of(largest_profile, losses=losses),))
    return _stated(basic_epsilon, basic_delta, loss, at=delta, method=basic, basic=basic)


def _stated(basic_epsilon, basic_delta, loss, *, at, method, basic):
    """State a loss at one delta; by the basic pair where nothing can compute the loss, or where it proves no more."""
    delta = basic_delta if at is None else at
    total = {"epsilon": basic_epsilon, "delta": delta, "loss": loss, "method": basic}
    if basic_epsilon == math.inf:  # no loss is known of that release, and none is looked for
        return total | {"loss": None}
    try:
        epsilon = loss.epsilon(delta)
    except ImportError:
        if delta < basic_delta:  # the sum of epsilons holds at the sum of deltas, and at no smaller one
            raise
        return total | {"loss": None, "method": basic + MAY_PROVE_LESS * (delta > 0)}
    # Grids round a loss up, so that the exact composition may come out above the sums.
    if delta >= basic_delta and epsilon >= basic_epsilon:
        return total
    return total | {"epsilon": epsilon, "method": method}


def sum_up(values):
    """Sum, rounded up."""
    values = list(values)
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    # fsum rounds to nearest: whether that was down, fractions tell exactly.
    if math.isinf(total) or sum(map(Fraction, values)) <= Fraction(total):
        return total
    return math.nextafter(total, math.inf)


def _guess(distance):
    """Probability of the best guess, rounded up, at a total variation distance."""
    return min(1.0, sum_up([0.5, distance / 2]))


def _joined(texts, between="; "):
    """Join texts, each once."""
    return between.join(dict.fromkeys(text for text in texts if text))


def _union(tuples):
    return tuple(dict.fromkeys(text for texts in tuples for text in texts))


def _loss_to_dict(loss):
    profiles = [
        {"function": profile.function.__name__, "parameters": dict(map(_plain, profile.parameters))}
        for profile in loss.profiles
    ]
    return {field.name: getattr(loss, field.name) for field in fields(loss)} | {"profiles": profiles}


def _in_words(guarantee):
    """Say what is protected, as it is printed: files have these words, so that whoever changes them reads both."""
    adjacency = guarantee.adjacency
    neighbours = neighbours_sentence(adjacency, guarantee.unit) if adjacency else "not stated"
    return {"protected": unit_line(guarantee), "neighbours": neighbours}


def _finite(facts):
    """Spell out infinity, which JSON has no number for."""
    if isinstance(facts, dict):
        return {name: _finite(value) for name, value in facts.items()}
    if isinstance(facts, list):
        return list(map(_finite, facts))
    return "inf" if facts == float("inf") else facts


def _plain(parameter):
    name, value = parameter
    return name, [_loss_to_dict(loss) for loss in value] if name == "losses" else value


def _is_number(found):
    return isinstance(found, int | float) and not isinstance(found, bool)


def _equals_float(number):
    try:
        return float(number) == number
    except OverflowError:
        return False


def _float(found):
    """Read a number, or a text that spells out an infinite one."""
    if isinstance(found, bool) or (isinstance(found, str) and found != "inf"):
        raise TypeError(f"{found!r} is no number")
    try:
        return float(found)
    except OverflowError:
        raise TypeError("a number of it is too large for a float") from None


def _texts(found):
    if not isinstance(found, list | tuple) or not all(isinstance(text, str) for text in found):
        raise TypeError("some of what it says is no text")
    return tuple(found)


def _loss_from_dict(facts):
    numbers = {name: _float(value) for name, value in dict(**facts).items() if name != "profiles"}
    return PrivacyLoss(**numbers, profiles=tuple(_profile_from_dict(**profile) for profile in facts["profiles"]))


def _profile_from_dict(function, parameters):
    if function not in _PROFILES:
        raise ValueError(f"There is no privacy profile called {function!r}.")
    parameters = {name: float(value) if value == "inf" else value for name, value in dict(**parameters).items()}
    if "losses" in parameters:
        parameters |= {"losses": tuple(_loss_from_dict(loss) for loss in parameters["losses"])}
    return Profile.of(_PROFILES[function], **parameters)
