"""Privacy profiles: the exact delta of a mechanism at every epsilon, and their numerics.

A profile is a function ``(epsilon, *, scale, sensitivity) -> delta``; its inverse, the calibration
``(epsilon, delta, *, sensitivity) -> scale``, is in :mod:`skdprp.mechanisms`. A
:class:`PrivacyLoss` is a profile as a value that adds up when releases are made together.
"""

from ._additive import gaussian_epsilon, gaussian_profile, laplace_profile
from ._composition import PrivacyLoss, Profile, approximate_profile, largest_profile
from ._information import gaussian_information, information_delta, pinsker_delta, projected_entry_epsilon
from ._objective import objective_perturbation_profile, product_perturbation_profile, softmax_perturbation_profile
from ._signs import randomised_response_profile
from ._spherical import check_spherical, spherical_profile
from ._subsampled import amplified, composed_profile, subsampled_gaussian_profile

__all__ = [
    "PrivacyLoss",
    "Profile",
    "amplified",
    "approximate_profile",
    "check_spherical",
    "composed_profile",
    "gaussian_epsilon",
    "gaussian_information",
    "gaussian_profile",
    "information_delta",
    "laplace_profile",
    "largest_profile",
    "objective_perturbation_profile",
    "pinsker_delta",
    "product_perturbation_profile",
    "projected_entry_epsilon",
    "randomised_response_profile",
    "softmax_perturbation_profile",
    "spherical_profile",
    "subsampled_gaussian_profile",
]
