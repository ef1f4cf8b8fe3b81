"""Pictures of privacy: what it costs in utility, and what a guarantee says at every epsilon."""

from ._profile import PrivacyProfileDisplay
from ._utility import PrivacyUtilityDisplay

__all__ = ["PrivacyProfileDisplay", "PrivacyUtilityDisplay"]
