"""scikit-learn's own checks of every estimator, with noise and without."""

import sys
import warnings

import numpy as np
import public
import pytest
import scipy.sparse as sp
from public import unlisted
from sklearn.base import TransformerMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    estimator_checks_generator,
    parametrize_with_checks,
)

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    iDPSignRP,
    load_model,
    save_model,
)
from skdprp.linear_model import _sketched_least_squares
from skdprp.mechanisms import Published

pytestmark = pytest.mark.usefixtures("short_descents")

SKETCHES = [
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
# Some checks ask for accuracy on a few rows, of norms above 1.
EASY = {"epsilon": 100.0, "max_norm": 10.0}
# Without any randomness, a secret projection is a table of zeros.
PROJECTED = DPRidge(target_bounds=(-300, 300), **EASY, mechanism="projection")
ESTIMATORS = [
    *SKETCHES,
    AMPClassifier(**EASY, noise="gaussian"),
    AMPClassifier(**EASY, noise="gaussian", loss="huber_hinge", adjacency="add_remove"),
    AMPClassifier(**EASY, loss="capped_log_loss"),
    AMPClassifier(**EASY, noise="product", multi_class="ovr"),
    ProductNoiseOutputPerturbation(**EASY),
    ProductNoiseOutputPerturbation(**EASY, loss="huber_hinge", radius="gaussian"),
    # Published product noise is not defined below four weights, which some checks have.
    AMPClassifier(**EASY, noise="gaussian", multi_class="ovr", calibration=Published(epsilon2=1.0, analytic=True)),
    DPSGDClassifier(**EASY, n_epochs=10),
    DPSGDClassifier(**EASY, noise="product", n_epochs=10, learning_rate=0.2),
    DPSGDClassifier(**EASY, n_epochs=10, calibration=Published(noise_multiplier=0.1)),
    MIDPRegressor(),
    MIDPRegressor(fit_intercept=True, max_abs=10.0, min_residual=2.0),
    MIDPRegressor(mechanism="additive"),
    MIDPRegressor(calibration="published"),
    DPMoments(),
    DPPCA(2, **EASY),
    DPHistograms(),  # without bounds there are 2^16 cells, which those below read as they read few
    DPBinner(bounds=(-300, 300), n_cells=16),
    DPBinner(3, bounds=(-3, 3), encode="ordinal", n_cells=16),
    DPScaler(bounds=(-300, 300), epsilon=10.0),
    DPRidge(target_bounds=(-300, 300), **EASY),
    DPRidge(target_bounds=(-300, 300), **EASY, mechanism="moments"),
    PROJECTED,
    DPSearchCV(AMPClassifier(noise="gaussian", max_norm=10.0), {}, epsilon=100.0, n_trials=1, random_state=0),
    DPSearchCV(
        DPRidge(target_bounds=(-300, 300), max_norm=10.0, mechanism="moments"),
        {},
        epsilon=100.0,
        n_trials=1,
        max_loss=1e4,
        random_state=0,
    ),
]
# Its batches are random whether or not there is noise, whose scale is given: finding it takes longer than a fit.
SAMPLED = DPSGDClassifier(
    epsilon=100.0,
    hidden_layer_sizes=(8,),
    n_epochs=6,
    batch_size=60,
    learning_rate=2.0,
    calibration=Published(noise_multiplier=0.34),
)
SCALERS = [
    PublicScaler((-1, 1)),
    PublicScaler((-3, 3), feature_range=(-1, 1)),
    PublicScaler((-3, 3), fill="middle"),
]
BINNERS = [
    PublicBinner((-3, 3), n_bins=4),
    PublicBinner((-3, 3), sparse_output=False, dtype=np.float32),
    PublicBinner(edges=[-1, 0, 2], encode="ordinal", missing="error"),
]


def test_every_estimator_is_listed():
    new = "add it to ESTIMATORS of tests/test_common.py, or to SCALERS or BINNERS if it is data-independent"
    assert not unlisted(public.ESTIMATORS, ESTIMATORS + SCALERS + BINNERS), new


TWO_RELEASES = "compares two releases of the same rows; each has its own noise"
TWO_FITS = "compares the predictions of two fits; each has its own noise"


def fails_by_noise(estimator):
    """Name the checks that noise makes fail, and why; without noise they pass."""
    # Whose releases of a few rows seldom differ: all values are in one bin, or nothing is compared.
    steady = DPMoments | DPHistograms | DPBinner
    checks = {} if isinstance(estimator, steady) else {"check_fit_idempotent": TWO_RELEASES}
    if isinstance(estimator, tuple(map(type, SKETCHES))):
        checks["check_estimators_pickle"] = TWO_RELEASES
    if is_regressor(estimator):
        checks |= dict.fromkeys(
            ["check_regressor_data_not_an_array", "check_regressors_int", "check_supervised_y_2d"], TWO_FITS
        )
    return checks


def may_fail_by_noise(estimator):
    """Name the checks that compare labels, which noise may or may not change."""
    names = ["check_supervised_y_2d", "check_classifier_data_not_an_array"] if is_classifier(estimator) else []
    return dict.fromkeys(names, TWO_FITS)


def fails_always(estimator):
    """Name the checks that ask for large weights of classes, and equal states of a search."""
    if isinstance(estimator, DPSearchCV):
        return {"check_estimators_overwrite_params": "compares pickles of a private estimator, which are never alike"}
    if not hasattr(estimator, "class_weight"):
        return {}
    return {"check_class_weight_classifiers": "gives a class a weight of 1000; the noise is for weights of at most 1"}


def fails_by_design(estimator):
    """Name all checks that fail, or may, and why: the site lists them."""
    return fails_by_noise(estimator) | may_fail_by_noise(estimator) | fails_always(estimator)


def deterministic_twin(estimator):
    """Return the estimator in a class that claims to be deterministic and accurate, so that no check is left out."""

    def tags(self):
        tags = type(estimator).__sklearn_tags__(self)
        tags.non_deterministic = False
        if is_regressor(estimator):
            tags.regressor_tags.poor_score = False
        return tags

    name = f"Silent{type(estimator).__name__}"
    if not hasattr(sys.modules[__name__], name):
        twin = type(name, (type(estimator),), {"__sklearn_tags__": tags, "__module__": __name__})
        setattr(sys.modules[__name__], name, twin)
    return getattr(sys.modules[__name__], name)(**estimator.get_params(deep=False))


@pytest.fixture
def without_randomness(silenced_noise, monkeypatch):
    """Silence the noise, and put a fixed isometry in the place of S: regressions are least squares on clipped rows."""
    monkeypatch.setattr(
        _sketched_least_squares,
        "_secret_columns",
        lambda n_components, start, stop: np.eye(n_components, stop - start, -start),
    )


@pytest.fixture
def expected_warnings(request):
    """Ignore what checks provoke: of names in fit alone or not there, and of what an estimator says of itself."""
    estimator = request.getfixturevalue("estimator") if "estimator" in request.fixturenames else SCALERS[0]
    with warnings.catch_warnings():
        if not is_classifier(estimator):
            warnings.filterwarnings("ignore", "X (has|does not have valid) feature names", UserWarning)
        if isinstance(estimator, tuple(map(type, SKETCHES))):
            warnings.simplefilter("ignore", DataDimensionalityWarning)
        if getattr(estimator, "calibration", "exact") != "exact":
            warnings.filterwarnings("ignore", "The published calibration", PrivacyWarning)
        yield


def check_or_fail(estimator, check, failing):
    """Run a check, which has to fail where that is expected: marked so, pytest would format each of its tracebacks."""
    if check.func.__name__ in failing:
        with pytest.raises((AssertionError, AttributeError, ValueError)):
            check(estimator)
    else:
        check(estimator)


@parametrize_with_checks([*ESTIMATORS, SAMPLED])
def test_checks_with_noise(estimator, check, seeded, expected_warnings):
    if check.func.__name__ in may_fail_by_noise(estimator):
        pytest.skip(TWO_FITS)
    check_or_fail(estimator, check, fails_by_noise(estimator) | fails_always(estimator))


# Which scikit-learn leaves out, or asks less in, where noise and low scores are tagged; all others pass with noise.
EXACT = {
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_pipeline_consistency",
    "check_regressors_train",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
}.union(*map(fails_by_design, ESTIMATORS))


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        (twin, check)
        for twin in (deterministic_twin(estimator) for estimator in ESTIMATORS if estimator is not PROJECTED)
        for _, check in estimator_checks_generator(twin)
        if check.func.__name__ in EXACT
    ],
    ids=lambda thing: thing.func.__name__ if hasattr(thing, "func") else repr(thing),
)
def test_checks_without_noise(estimator, check, without_randomness, expected_warnings):
    check_or_fail(estimator, check, fails_always(estimator))


@parametrize_with_checks([*SCALERS, *BINNERS])
def test_checks(estimator, check):
    check(estimator)


OF_ALL = [check_dataframe_column_names_consistency, check_param_validation]
OF_TRANSFORMERS = [
    check_set_output_transform,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
]


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        (estimator, check)
        for estimator in [*ESTIMATORS, SAMPLED, SCALERS[0], *BINNERS]
        for check in OF_ALL + OF_TRANSFORMERS * isinstance(estimator, TransformerMixin)
    ],
    ids=lambda thing: getattr(thing, "__name__", repr(thing)),
)
def test_checks_outside_the_suite(estimator, check, without_randomness, expected_warnings):
    check(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", [SCALERS[0], *BINNERS[1:]], ids=repr)
def test_frames_of_scalers_and_binners_keep_the_index(estimator, expected_warnings):
    check_set_output_transform_pandas(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", SKETCHES, ids=repr)
def test_frames_of_sketches_keep_all_but_the_index(estimator, silenced_noise, expected_warnings):
    """scikit-learn expects the index of the rows, which may name people; nothing else differs from what it expects."""
    with pytest.raises(AssertionError, match=r"DataFrame\.index are different"):
        check_set_output_transform_pandas(type(estimator).__name__, clone(estimator))


SET_LATER = {
    "max_norm": 0.1,
    "max_abs": 0.1,
    "multi_class": "ovr",
    "loss": "huber_hinge",
    "hidden_layer_sizes": (2,),
    "activation": "tanh",
    "fit_intercept": False,
    "target_bounds": (-0.1, 0.1),
    "bounds": (-9, 9),
    "classes": [5, 6, 7],
    "mechanism": "moments",
}


@pytest.mark.parametrize(
    "estimator", [one for one in ESTIMATORS if not isinstance(one, tuple(map(type, SKETCHES)))], ids=repr
)
def test_what_is_set_after_a_fit_is_for_the_next_one(estimator):
    """Predictions, scores and probabilities are those of the fit, and so are transformed rows."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (60, 4)), np.arange(60) % 3
    with warnings.catch_warnings(action="ignore"):
        fitted = clone(estimator).fit(X, X.sum(axis=1) if is_regressor(estimator) else y)

    def tell(name):
        told = getattr(fitted, name)(X)
        return told.toarray() if sp.issparse(told) else told

    names = ["transform", "predict", "decision_function", "predict_log_proba"]
    told = {name: tell(name) for name in names if hasattr(fitted, name)}
    for name in fitted.get_params().keys() & SET_LATER.keys():
        before = fitted.get_params()[name]
        fitted.set_params(**{name: SET_LATER[name]})
        for method, expected in told.items():
            np.testing.assert_array_equal(tell(method), expected, err_msg=f"{method} after {name}")
        fitted.set_params(**{name: before})


def test_a_model_whose_loss_is_set_after_its_fit_keeps_or_lacks_probabilities(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (60, 4)), np.arange(60) % 2
    hinge = AMPClassifier(loss="huber_hinge").fit(X, y).set_params(loss="log_loss")
    assert not hasattr(hinge, "predict_proba")
    model = AMPClassifier(max_norm=1.0).fit(X, y)
    expected = model.predict_proba(X)
    save_model(tmp_path / "model.npz", model.set_params(max_norm=0.01, loss="huber_hinge"))
    np.testing.assert_array_equal(load_model(tmp_path / "model.npz").estimator.predict_proba(X), expected)
