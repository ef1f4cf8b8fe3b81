"""Private linear models, where LogisticRegression and LinearRegression stood.

The classifiers read the same way: clip the rows, calibrate from public quantities, solve to the accuracy that the
guarantee assumes, release the weights. The regressor solves least squares on a private sketch.
"""

from ._erm import SolverError
from ._mutual_information import MIDPRegressor
from ._objective import AMPClassifier
from ._output import ProductNoiseOutputPerturbation
from ._planning import (
    additive_error_bound,
    least_residual,
    perturbation_error_bound,
    projection_error_bound,
    projection_expected_error,
    regularisation_error_bound,
    relative_error,
)
from ._ridge import DPRidge

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
