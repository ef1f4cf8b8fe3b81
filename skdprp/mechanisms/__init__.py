"""Mechanisms, one file each: the privacy profile, the calibration and the noise, side by side.

Every calibration is rounded to the private side: ``profile(calibration(epsilon, delta)) <= delta``.
"""

from ._numerics import sampled_target
from .gaussian_laplace import (
    add_gaussian,
    add_laplace,
    classic_gaussian_scale,
    gaussian_epsilon,
    gaussian_profile,
    gaussian_scale,
    kenthapadi_bound_scale,
    kenthapadi_scale,
    laplace_profile,
    laplace_scale,
)
from .mutual_information import (
    gaussian_information,
    information_delta,
    information_scale,
    pinsker_delta,
    projected_entry_epsilon,
    sampled_information,
)
from .noisy_steps import (
    amplified,
    composed_profile,
    descent_scale,
    product_descent_scale,
    sampled_steps_target,
    subsampled_gaussian_profile,
)
from .objective_perturbation import (
    objective_perturbation_profile,
    objective_perturbation_scale,
    product_perturbation_profile,
    product_perturbation_scale,
    softmax_perturbation_profile,
    softmax_perturbation_scale,
)
from .published import (
    PublishedPerturbation,
    published_information_scale,
    published_objective_perturbation,
    published_product_descent,
    published_product_noise_scale,
    published_sign_change_probability,
    published_sign_changes,
)
from .radial import add_spherical, spherical_profile, spherical_scale
from .randomised_response import (
    binomial_flip_epsilon,
    flip_probability,
    flip_thresholds,
    integer_thresholds,
    randomised_response_profile,
    sign_change_probability,
)

__all__ = [
    "PublishedPerturbation",
    "add_gaussian",
    "add_laplace",
    "add_spherical",
    "amplified",
    "binomial_flip_epsilon",
    "classic_gaussian_scale",
    "composed_profile",
    "descent_scale",
    "flip_probability",
    "flip_thresholds",
    "gaussian_epsilon",
    "gaussian_information",
    "gaussian_profile",
    "gaussian_scale",
    "information_delta",
    "information_scale",
    "integer_thresholds",
    "kenthapadi_bound_scale",
    "kenthapadi_scale",
    "laplace_profile",
    "laplace_scale",
    "objective_perturbation_profile",
    "objective_perturbation_scale",
    "pinsker_delta",
    "product_descent_scale",
    "product_perturbation_profile",
    "product_perturbation_scale",
    "projected_entry_epsilon",
    "published_information_scale",
    "published_objective_perturbation",
    "published_product_descent",
    "published_product_noise_scale",
    "published_sign_change_probability",
    "published_sign_changes",
    "randomised_response_profile",
    "sampled_information",
    "sampled_steps_target",
    "sampled_target",
    "sign_change_probability",
    "softmax_perturbation_profile",
    "softmax_perturbation_scale",
    "spherical_profile",
    "spherical_scale",
    "subsampled_gaussian_profile",
]
