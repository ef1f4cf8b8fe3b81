"""scikit-learn's own checks, with noise and without."""

import sys

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, PublicScaler, iDPSignRP

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning"),
    # Some checks fit with names and transform without, or the other way round.
    pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning"),
]

ESTIMATORS = [
    DPRandomProjection(),
    DPRandomProjection(2, projection="gaussian", noise="laplace"),
    DPRandomProjection(2, projection="very_sparse", adjacency="l2"),
    DPRandomProjection(projection="identity", calibration="kenthapadi"),
    DPOPORP(2),
    DPOPORP(noise="laplace", adjacency="l2"),
    DPSignRP(),
    DPSignRP(2, method="rr", output="packed"),
    DPSignOPORP(),
    DPSignOPORP(4, method="rr", output="packed"),
    iDPSignRP(),
    iDPSignRP(4, method="rr", projection="oporp", max_change=100.0),
]


def deterministic_twin(estimator):
    """Return the estimator in a class that claims to be deterministic, so that no check is left out."""

    def tags(self):
        tags = type(estimator).__sklearn_tags__(self)
        tags.non_deterministic = False
        return tags

    name = f"Silent{type(estimator).__name__}"
    if not hasattr(sys.modules[__name__], name):
        twin = type(name, (type(estimator),), {"__sklearn_tags__": tags, "__module__": __name__})
        setattr(sys.modules[__name__], name, twin)
    return getattr(sys.modules[__name__], name)(**estimator.get_params())


def fails_by_design(estimator):
    """Name the checks that fail because of the noise, and why, for the tests and the site; without noise they pass."""
    reason = "compares two releases of the same rows; each has its own noise"
    return {"check_estimators_pickle": reason, "check_fit_idempotent": reason}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=fails_by_design)
def test_checks_with_noise(estimator, check, seeded):
    check(estimator)


@parametrize_with_checks([deterministic_twin(estimator) for estimator in ESTIMATORS])
def test_checks_without_noise(estimator, check, silenced_noise):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_dataframe_column_names_consistency,
        check_param_validation,
        check_set_output_transform,
        check_set_output_transform_polars,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
)
@pytest.mark.parametrize("estimator", [*ESTIMATORS, PublicScaler((-1, 1))], ids=repr)
def test_checks_outside_the_suite(estimator, check, silenced_noise):
    check(type(estimator).__name__, clone(estimator))


def test_frames_of_a_scaler_keep_the_index():
    check_set_output_transform_pandas("PublicScaler", PublicScaler((-1, 1)))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_frames_of_sketches_keep_all_but_the_index(estimator, silenced_noise):
    """scikit-learn expects the index of the rows, which may name people; nothing else differs from what it expects."""
    with pytest.raises(AssertionError, match=r"DataFrame\.index are different"):
        check_set_output_transform_pandas(type(estimator).__name__, clone(estimator))
