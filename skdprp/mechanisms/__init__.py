"""Mechanisms, one file each: the privacy profile, the calibration and the noise, side by side.

Every calibration is rounded to the private side: ``profile(calibration(epsilon, delta)) <= delta``.
"""

from ._numerics import sampled_target
from .gaussian_laplace import (
    add_gaussian,
    add_laplace,
    classic_gaussian_scale,
    gaussian_profile,
    gaussian_scale,
    kenthapadi_scale,
    laplace_profile,
    laplace_scale,
)
from .mutual_information import information_scale
from .noisy_steps import subsampled_gaussian_profile
from .objective_perturbation import (
    objective_perturbation_profile,
    objective_perturbation_scale,
    product_perturbation_profile,
    softmax_perturbation_profile,
)
from .private_search import private_search_profile, private_search_trial, searched_profile
from .published import Published, published_product_noise_delta, published_product_noise_scale
from .radial import add_spherical, spherical_profile, spherical_scale
from .randomised_response import flip_probability, randomised_response_profile
from .secret_projection import secret_projection_profile, secret_projection_scale
from .thresholded_counts import thresholded_counts_profile, thresholded_counts_scale

# What the guide teaches, and where printed guarantees are proved. The rest of each file is for the estimators.
__all__ = [
    "Published",
    "add_gaussian",
    "add_laplace",
    "add_spherical",
    "classic_gaussian_scale",
    "flip_probability",
    "gaussian_profile",
    "gaussian_scale",
    "information_scale",
    "kenthapadi_scale",
    "laplace_profile",
    "laplace_scale",
    "objective_perturbation_profile",
    "objective_perturbation_scale",
    "private_search_profile",
    "private_search_trial",
    "product_perturbation_profile",
    "published_product_noise_delta",
    "published_product_noise_scale",
    "randomised_response_profile",
    "sampled_target",
    "searched_profile",
    "secret_projection_profile",
    "secret_projection_scale",
    "softmax_perturbation_profile",
    "spherical_profile",
    "spherical_scale",
    "subsampled_gaussian_profile",
    "thresholded_counts_profile",
    "thresholded_counts_scale",
]
