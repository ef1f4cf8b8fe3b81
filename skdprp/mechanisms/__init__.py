"""From (epsilon, delta, sensitivity) to the scale of the noise, rounded to the private side.

Every calibration has its profile in :mod:`skdprp.accounting`: ``profile(calibration(epsilon, delta)) <= delta``.
"""

from ._additive import (
    classic_gaussian_scale,
    gaussian_scale,
    kenthapadi_bound_scale,
    kenthapadi_scale,
    laplace_scale,
    published_product_noise_scale,
    spherical_scale,
)
from ._calibration import sampled_target
from ._descent import descent_scale, product_descent_scale, published_product_descent, sampled_steps_target
from ._information import information_scale, published_information_scale, sampled_information
from ._objective import (
    PublishedPerturbation,
    objective_perturbation_scale,
    product_perturbation_scale,
    published_objective_perturbation,
    softmax_perturbation_scale,
)
from ._signs import (
    binomial_flip_epsilon,
    flip_probability,
    flip_thresholds,
    integer_thresholds,
    published_sign_change_probability,
    published_sign_changes,
    sign_change_probability,
)

__all__ = [
    "PublishedPerturbation",
    "binomial_flip_epsilon",
    "classic_gaussian_scale",
    "descent_scale",
    "flip_probability",
    "flip_thresholds",
    "gaussian_scale",
    "information_scale",
    "integer_thresholds",
    "kenthapadi_bound_scale",
    "kenthapadi_scale",
    "laplace_scale",
    "objective_perturbation_scale",
    "product_descent_scale",
    "product_perturbation_scale",
    "published_information_scale",
    "published_objective_perturbation",
    "published_product_descent",
    "published_product_noise_scale",
    "published_sign_change_probability",
    "published_sign_changes",
    "sampled_information",
    "sampled_steps_target",
    "sampled_target",
    "sign_change_probability",
    "softmax_perturbation_scale",
    "spherical_scale",
]
