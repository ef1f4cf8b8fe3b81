"""Private linear models."""

from ._mutual_information import MIDPRegressor
from ._planning import additive_error_bound, least_residual, projection_error_bound, projection_expected_error

__all__ = [
    "MIDPRegressor",
    "additive_error_bound",
    "least_residual",
    "projection_error_bound",
    "projection_expected_error",
]
