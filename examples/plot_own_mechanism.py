"""
Your own mechanism
==================

You bring a statistic and a bound on how far one row can move it. The library brings the noise, the exact calibration
and the guarantee. Here a nearest-centroid classifier becomes private in fifty lines, and passes the checks for private
estimators.
"""

# %%
# The classifier needs the sum of the rows of each class, and their number. Rows are clipped to a norm of R =
# ``max_norm``, and the numbers of rows are multiplied by R. Suppose that one row is replaced. If the new row has the
# same class, one sum moves by at most 2 R. If it has another class, two sums and two counts move by at most R each. In
# both cases all numbers together move by a Euclidean distance of at most 2 R, which is the sensitivity.
#
# ``DPRandomProjection(projection="identity")`` releases a vector of known sensitivity. It adds exactly calibrated
# Gaussian noise, whose randomness comes from the operating system, and rounds to a grid, so that rounding reveals
# nothing.
from dataclasses import replace

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdprp import DPRandomProjection, PrivacyProfileDisplay, PrivacyUtilityDisplay
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.testing import check_private_estimator


class DPNearestCentroid(ClassifierMixin, BaseEstimator):
    """Predict the class whose noisy mean is nearest."""

    def __init__(self, *, epsilon=1.0, delta=1e-6, max_norm=1.0, classes=(0, 1)):
        self.epsilon = epsilon
        self.delta = delta
        self.max_norm = max_norm
        self.classes = classes

    def fit(self, X, y):
        """Release the sum and the number of the rows of each class."""
        # Of a list of numbers and one text, numpy would make texts of all, which equal none of the classes.
        X, y = self._checked(X, np.asarray(y, dtype=object))
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("classes lists a label more than once: its rows would be released as often.")
        norm = float(self.max_norm)
        with np.errstate(over="ignore"):  # a warning would tell of a row
            X = X * np.minimum(1, norm / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300))
        table = np.column_stack([X, np.full(len(X), norm)])
        is_of = np.array([y == label for label in self.classes])
        is_of &= is_of.cumsum(axis=0) == 1  # one class at most, even if two labels become equal in the type of y
        sums = np.stack([table[rows].sum(axis=0) for rows in is_of])
        # Replacing a row moves the sums by 2 * norm; the rest pays for the rounding of the norms and of the sums.
        change = 2 * norm * (1 + (len(X) ** 2 + X.shape[1] + 8) * 2.0**-52)
        mechanism = DPRandomProjection(
            projection="identity", adjacency="l2", max_change=change, epsilon=self.epsilon, delta=self.delta
        )
        guarantee = replace(
            mechanism.fit(sums.reshape(1, -1)).guarantee_,
            adjacency=Adjacency("replace_one"),
            per="fit",
            released="the sums and the numbers of the rows of each class",
            assumptions=(
                "the number of rows, max_norm and classes are public",
                "no preceding step was fitted on the rows",
                "no row decides which others are there, or their order",
            ),
            not_covered=("whether a fit raised an error", "the running time"),
        )
        with entry(guarantee, "DPNearestCentroid"):  # into the open ledgers, before any noise is drawn
            noisy = mechanism.transform(sums.reshape(1, -1)).reshape(sums.shape)
        self.classes_ = np.asarray(self.classes)
        self.centroids_ = noisy[:, :-1] / np.maximum(noisy[:, -1:] / norm, 1)
        self.guarantee_ = guarantee
        return self

    def predict(self, X):
        """Predict the label of each row."""
        check_is_fitted(self)
        return self.classes_[pairwise_distances_argmin(self._checked(X, reset=False), self.centroids_)]

    def _checked(self, *data, **options):
        """Validate, with errors that quote no value; look for nan whatever scikit-learn is told to assume."""
        try:
            with config_context(assume_finite=False):
                return validate_data(self, *data, dtype=np.float64, **options)
        except (TypeError, ValueError):
            raise ValueError("X has to be a table of finite numbers, and y a label for each row.") from None


# %%
# It is an estimator like any other. It has a parameter ``epsilon``, so the displays can vary it.
X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
model = DPNearestCentroid(max_norm=4.0, classes=range(10))
display = PrivacyUtilityDisplay.from_estimator(model, X, y, epsilons=[0.05, 0.1, 0.3, 1, 3], cv=3)
display.plot(public_data=True)

# %%
# ``check_private_estimator`` calls it on a fixed set of tables, and looks for faults in its errors, its warnings, its
# attributes and its releases. A check that fails says what to do; passing proves nothing.
check_private_estimator(DPNearestCentroid())

# %%
# The guarantee comes from the mechanism, and has the delta at every epsilon. You only state the unit of privacy, and
# what is released, assumed and not covered.
model.fit(X, y).guarantee_

# %%
PrivacyProfileDisplay.from_estimator(model).plot()
