"""Parameter constraints shared by the estimators, and the only import of scikit-learn's semi-private validators."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["FLOATS", "POSITIVE", "PRIVACY_CONSTRAINTS", "SKETCH_CONSTRAINTS", "Interval", "StrOptions", "_fit_context"]

FLOATS = (np.float64, np.float32)
POSITIVE = [Interval(Real, 0, None, closed="neither")]

PRIVACY_CONSTRAINTS = {
    "epsilon": POSITIVE,
    "delta": [Interval(Real, 0, 1, closed="left")],
}

SKETCH_CONSTRAINTS = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "max_change": [Interval(Real, 1e-100, 1e100, closed="both")],  # squares of rows on this scale stay in float64
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}
