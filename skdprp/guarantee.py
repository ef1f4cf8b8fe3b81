"""What a release promises: a value that states its guarantee in full."""

from dataclasses import dataclass, fields, replace


class PrivacyWarning(UserWarning):
    """A release whose true guarantee is another one than its parameters ask for."""


@dataclass(frozen=True)
class PrivacyGuarantee:
    """A privacy guarantee, with everything it needs to be true.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats; of "MI-DP (bits)", a bound on mutual information, in bits.
    delta : float
        Probability-like slack of the bound; 0 for a pure guarantee.
    definition : str, default="DP"
        What kind of privacy: "DP" is differential privacy, "MI-DP (bits)" bounds the mutual information between one
        entry and the release, given all else. Guarantees of different definitions never compose.
    unit : str, default="one row"
        What is protected.
    adjacency : str, default=""
        Which pairs of inputs cannot be told apart.
    released : str, default=""
        What may be published under this guarantee.
    mechanism : str, default=""
        The mechanism and the scale of its noise.
    assumptions : tuple of str, default=()
        What must hold for the guarantee to be true.
    source : str, default=""
        Where it is proved.
    seeded : bool, default=False
        Whether the noise came from a seed: such a release is not private.

    Examples
    --------
    >>> from skdprp.guarantee import PrivacyGuarantee
    >>> PrivacyGuarantee(1.0, 1e-6)
    (1.0, 1e-06)-DP
    >>> PrivacyGuarantee(0.5, 0.0, definition="individual DP")
    0.5-individual DP
    >>> PrivacyGuarantee(0.2, 0.0, definition="MI-DP (bits)")
    0.2-MI-DP (bits)
    """

    epsilon: float
    delta: float
    definition: str = "DP"
    unit: str = "one row"
    adjacency: str = ""
    released: str = ""
    mechanism: str = ""
    assumptions: tuple[str, ...] = ()
    source: str = ""
    seeded: bool = False

    def __repr__(self):
        bound = f"({self.epsilon}, {self.delta})" if self.delta else f"{self.epsilon}"
        return f"{bound}-{self.definition}" + " [seeded: not private]" * self.seeded

    def __str__(self):
        facts = {"guarantee": repr(self)} | {
            field.name: getattr(self, field.name) for field in fields(self)[3:-1] if getattr(self, field.name)
        }
        facts["assumptions"] = "; ".join(self.assumptions) or "none"
        return "\n".join(f"{name:<12}{fact}" for name, fact in facts.items())

    def mark_seeded(self):
        """Return this guarantee, marked as void because its noise was seeded.

        Returns
        -------
        PrivacyGuarantee

        Examples
        --------
        >>> from skdprp.guarantee import PrivacyGuarantee
        >>> PrivacyGuarantee(1.0, 0.0).mark_seeded()
        1.0-DP [seeded: not private]
        """
        return replace(self, seeded=True)
