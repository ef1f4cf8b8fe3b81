"""Private linear models, which replace LogisticRegression and LinearRegression.

The classifiers read the same way: calibrate from public quantities, clip the rows, solve to the accuracy that the
guarantee assumes, release the weights with noise. DPRidge solves least squares on noisy moments, or descends;
MIDPRegressor solves them on a private sketch.
"""

from ._erm import SolverError
from ._mutual_information import MIDPRegressor
from ._objective import AMPClassifier
from ._output import ProductNoiseOutputPerturbation
from ._ridge import DPRidge
from ._sketch_error import (
    additive_error_bound,
    least_residual,
    perturbation_error_bound,
    projection_error_bound,
    projection_expected_error,
    regularisation_error_bound,
    relative_error,
)

__all__ = [
    "AMPClassifier",
    "DPRidge",
    "MIDPRegressor",
    "ProductNoiseOutputPerturbation",
    "SolverError",
    "additive_error_bound",
    "least_residual",
    "perturbation_error_bound",
    "projection_error_bound",
    "projection_expected_error",
    "regularisation_error_bound",
    "relative_error",
]
