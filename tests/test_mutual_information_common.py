"""scikit-learn's own checks of MIDPRegressor, with noise and without."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from skdprp import MIDPRegressor, _noise
from skdprp.linear_model import _sketched_least_squares

pytestmark = [
    # Its release has no guarantee and says so; here only its interface is checked.
    pytest.mark.filterwarnings("ignore:The published calibration:skdprp.guarantee.PrivacyWarning"),
    # Some checks fit with names and predict without, or the other way round.
    pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning"),
]

ESTIMATORS = [
    MIDPRegressor(),
    MIDPRegressor(fit_intercept=True, max_abs=10.0, min_residual=2.0),
    MIDPRegressor(mechanism="additive"),
    MIDPRegressor(calibration="published"),
]


class SilentMIDPRegressor(MIDPRegressor):
    """Claims to be deterministic and accurate, so that no check is left out."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.regressor_tags.poor_score = False
        return tags


@pytest.fixture
def without_randomness(monkeypatch):
    """Silence the noise, and put a fixed isometry in the place of S: fits are least squares on the clipped rows."""
    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: None)
    monkeypatch.setattr(
        _sketched_least_squares,
        "_secret_columns",
        lambda n_components, start, stop: np.eye(n_components, stop - start, -start),
    )


def fails_by_design(estimator):
    """Name the checks that fail because of the noise, and why; without noise they pass."""
    releases = {"check_fit_idempotent": "compares two releases of the same rows; each has its own noise"}
    compare_two_fits = ["check_regressor_data_not_an_array", "check_regressors_int", "check_supervised_y_2d"]
    return releases | dict.fromkeys(compare_two_fits, "compares the predictions of two fits; each has its own noise")


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=fails_by_design)
def test_checks_with_noise(estimator, check, seeded):
    check(estimator)


@parametrize_with_checks([SilentMIDPRegressor(**estimator.get_params()) for estimator in ESTIMATORS])
def test_checks_without_noise(estimator, check, without_randomness):
    check(estimator)


@pytest.mark.parametrize("check", [check_dataframe_column_names_consistency, check_param_validation])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_checks_outside_the_suite(estimator, check, without_randomness):
    check(type(estimator).__name__, clone(estimator))
