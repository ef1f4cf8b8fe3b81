"""What an estimator fixes before it draws any noise: the noise, and what is true of it."""

from dataclasses import dataclass, field

from ._validation import warn_at_caller
from .guarantee import PrivacyGuarantee, PrivacyWarning


@dataclass(frozen=True)
class Calibration:
    """Noise and guarantee of one fit, computed from public facts alone.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        What is true.
    fitted : dict of str to object
        Public fitted attributes by their names, such as ``scale_``.
    mechanism : object
        Public numbers that the release needs, where those of `fitted` are not enough.
    claimed : PrivacyGuarantee or None
        What was published, where it differs.
    """

    guarantee: PrivacyGuarantee
    fitted: dict = field(default_factory=dict)
    mechanism: object = None
    claimed: PrivacyGuarantee | None = None

    def publish(self, estimator, *, seeded):
        """Set on an estimator what holds of it from now on; warn where less holds than was published."""
        vars(estimator).pop("claimed_", None)
        for name, value in self.fitted.items():
            setattr(estimator, name, value)
        estimator.guarantee_ = self.guarantee.mark_seeded() if seeded else self.guarantee
        if self.claimed is not None:
            estimator.claimed_ = self.claimed
            warn_at_caller(
                f"The published calibration claims {self.claimed!r}; what is true is {estimator.guarantee_!r}, see "
                "guarantee_.",
                PrivacyWarning,
            )
