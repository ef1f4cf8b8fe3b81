"""scikit-learn's own checks of the linear models, with noise and without."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)
from test_common import deterministic_twin

from skdprp import AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation

# Some checks ask for accuracy on a few rows, of norms above 1.
EASY = {"epsilon": 1e6, "max_norm": 10.0}
ESTIMATORS = [
    AMPClassifier(**EASY),
    AMPClassifier(**EASY, loss="huber_hinge", adjacency="add_remove"),
    AMPClassifier(**EASY, noise="product", multi_class="ovr"),
    ProductNoiseOutputPerturbation(**EASY),
    ProductNoiseOutputPerturbation(**EASY, loss="huber_hinge", radius="gaussian"),
    DPSGDClassifier(**EASY),
    DPSGDClassifier(**EASY, noise="product", n_epochs=20, learning_rate=0.1),
]
SAMPLED = DPSGDClassifier(epsilon=1e3, hidden_layer_sizes=(16,), n_epochs=20, batch_size=10, learning_rate=0.5)
COMPARE_LABELS = dict.fromkeys(  # which noise may or may not change
    ["check_supervised_y_2d", "check_classifier_data_not_an_array"],
    "compares the predictions of two fits; each has its own noise",
)


def fails_by_design(estimator):
    """Name the checks that fail, or may, because of the noise, and why, and the one that asks for n_iter_."""
    return fails_always(estimator) | COMPARE_LABELS


def fails_always(estimator):
    """Name those that fail whatever the noise."""
    reason = "compares two releases of the same rows; each has its own noise"
    return {"check_fit_idempotent": reason} | demand_iterations(estimator)


def demand_iterations(estimator):
    """Name the check that asks for n_iter_, where there is a solver."""
    reason = "how many steps the solver took depends on the data: it is not released"
    return {"check_non_transformer_estimators_n_iter": reason} if hasattr(estimator, "max_iter") else {}


@parametrize_with_checks([*ESTIMATORS, SAMPLED], expected_failed_checks=fails_always)
def test_checks_with_noise(estimator, check, seeded):
    if check.func.__name__ in COMPARE_LABELS:
        pytest.skip(COMPARE_LABELS[check.func.__name__])
    check(estimator)


@parametrize_with_checks(
    [deterministic_twin(estimator) for estimator in ESTIMATORS], expected_failed_checks=demand_iterations
)
def test_checks_without_noise(estimator, check, silenced_noise):
    check(estimator)


@pytest.mark.parametrize("check", [check_dataframe_column_names_consistency, check_param_validation])
@pytest.mark.parametrize("estimator", [*ESTIMATORS, SAMPLED], ids=repr)
def test_checks_outside_the_suite(estimator, check, silenced_noise):
    check(type(estimator).__name__, clone(estimator))
