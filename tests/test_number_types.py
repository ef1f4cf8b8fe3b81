"""The type of a number changes nothing: a calibration is that of the same number as a float of Python."""

import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from types import ModuleType

import numpy as np
import pytest
from public import PRIVATE, unlisted
from sklearn.base import clone

import skdprp
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
    PrivacyGuarantee,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    _digits,
    compose,
    composition,
    iDPSignRP,
    sensitivity,
)
from skdprp._digits import printed_down, printed_up
from skdprp.guarantee import Adjacency
from skdprp.losses import HuberHingeLoss
from skdprp.mechanisms import sampled_target
from skdprp.random_projection import make_projection
from skdprp.testing import reproducible_noise


def defined_in(module):
    """What a module defines and gives to others."""
    own = {name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
    return {name: thing for name, thing in own.items() if not name.startswith("_")}


# All files of mechanisms as one: functions that no page teaches get their numbers from the estimators.
MECHANISMS = {"sampled_target": sampled_target}
for file in iter_modules(skdprp.mechanisms.__path__, "skdprp.mechanisms."):
    if file.name != "skdprp.mechanisms._numerics":
        MECHANISMS |= defined_in(import_module(file.name))
mechanisms = ModuleType("mechanisms")
vars(mechanisms).update(MECHANISMS)

# Numbers that float16 holds exactly and arithmetic in it does not keep.
EPSILON, DELTA, A, B = 0.7001953125, 0.0003108978271484375, 1.2998046875, 0.89990234375
PROJECTION = make_projection("gaussian", 6, 4, np.random.RandomState(0))
SPHERICAL = {"n_dims": 6, "shape": 6, "power": 1.0}
TARGET = {"epsilon": EPSILON, "delta": DELTA}
STEPS = {"rate": 0.0999755859375, "n_steps": 100}
LOSS = composition.PrivacyLoss(mu=0.25)
# Beside all that begins with add_, what adds noise or returns no number.
SAMPLERS = {"check_spherical", "project_secretly"} | {name for name in MECHANISMS if name.startswith("add_")}

# Valid arguments of every public function that takes numbers.
ARGUMENTS = {
    composition: {
        "approximate_profile": {"epsilon": 0.5, "epsilon0": EPSILON, "delta0": DELTA},
        "largest_profile": {"epsilon": EPSILON, "losses": (LOSS,)},
        "loss_of_laplace_noise": {"epsilon": EPSILON, "n_values": 100},
    },
    mechanisms: {
        "amplified": TARGET | {"rate": 0.0999755859375},
        "composed_profile": {"epsilon": A, "step_epsilon": 0.0999755859375, "step_delta": DELTA, "n_steps": 20},
        "gaussian_label_count": TARGET | {"n_samples": 100},
        "laplace_label_count": {"epsilon": EPSILON, "n_samples": 100},
        "gaussian_epsilon": {"delta": DELTA, "scale": 3.69921875, "sensitivity": A},
        "gaussian_information": {"scale": A, "max_abs": B, "n_components": 100, "min_residual": 3.30078125},
        "gaussian_profile": {"epsilon": EPSILON, "scale": 3.69921875, "sensitivity": A},
        "information_delta": {"epsilon": EPSILON},
        "laplace_profile": {"epsilon": EPSILON, "scale": A, "sensitivity": A},
        "name_probability": {"scale": 3.69921875, "threshold": 17.703125, "n_columns": 3},
        "objective_perturbation_profile": {
            "epsilon": EPSILON,
            "scale": 3.69921875,
            "lipschitz": A,
            "log_det": 0.0999755859375,
            "release_shift": 0.00299835205078125,
        },
        "pinsker_delta": {"epsilon": EPSILON},
        "private_search_profile": {"epsilon": EPSILON, "n_trials": 3.30078125, "trial_epsilon": 0.5}
        | {"trial_delta": DELTA, "trial_distance": 0.0999755859375},
        "private_search_trial": TARGET | {"n_trials": 3.30078125},
        "product_perturbation_profile": {
            "epsilon": EPSILON,
            "scale": 3.69921875,
            "n_dims": 6,
            "lipschitz": A,
            "log_det": 0.0999755859375,
        },
        "projected_entry_epsilon": {
            "delta": DELTA,
            "scale": 17.703125,
            "n_components": 100,
            "max_abs": A,
            "min_residual": B,
        },
        "randomised_response_profile": {"epsilon": EPSILON, "epsilon0": 0.0999755859375, "n_bits": 100, "changed": B},
        "softmax_perturbation_profile": {
            "epsilon": EPSILON,
            "scale": 3.69921875,
            "n_classes": 3,
            "max_norm": A,
            "log_det": 0.0999755859375,
            "release_shift": 0.00299835205078125,
        },
        "secret_projection_n_changed": {"scale": 3.69921875, "n_components": 100, "n_dims": 6, "n_samples": 99}
        | {"max_norm": A},
        "secret_projection_profile": {"epsilon": EPSILON, "scale": 3.69921875, "n_components": 100, "max_norm": A}
        | {"min_eigenvalue": B},
        "spherical_profile": {"epsilon": EPSILON, "scale": A, "sensitivity": B, **SPHERICAL},
        "subsampled_gaussian_profile": {"epsilon": EPSILON, "scale": A, "sensitivity": B, **STEPS},
        "analytic_bound_scale": TARGET | {"max_change": A, "n_features": 100, "n_components": 64},
        "binomial_flip_epsilon": TARGET | {"n_components": 100, "changed": 0.0999755859375},
        "classic_gaussian_scale": TARGET | {"sensitivity": A},
        "descent_scale": TARGET | STEPS,
        "flip_probability": {"level": 3, "epsilon": EPSILON},
        "flip_thresholds": {"epsilon": EPSILON},
        "gaussian_l1_sensitivity_bound": {"delta": DELTA, "max_change": A, "n_features": 100, "n_components": 64},
        "gaussian_l2_sensitivity_bound": {"delta": DELTA, "max_change": A, "n_features": 100, "n_components": 64},
        "gaussian_scale": TARGET | {"sensitivity": A},
        "hessian_log_det": {"loss": HuberHingeLoss(B), "max_norm": A, "penalty": 3.69921875},
        "hidden_flip_epsilon": {"n_bits": 100},
        "information_scale": {"epsilon": EPSILON, "max_abs": A, "n_components": 100, "min_residual": B},
        "integer_thresholds": {"probability": 0.0999755859375},
        "kenthapadi_bound_scale": TARGET | {"max_change": A, "n_features": 100, "n_components": 64},
        "kenthapadi_scale": TARGET | {"sensitivity": A},
        "laplace_flip_thresholds": {"values": 0.0999755859375},
        "laplace_scale": {"epsilon": EPSILON, "sensitivity": A},
        "local_flip_probability": {"level": A, "epsilon": EPSILON},
        "objective_perturbation_scale": TARGET | {"lipschitz": A, "log_det": 0.0999755859375},
        "penalty_for_log_det": {"loss": HuberHingeLoss(B), "max_norm": A, "log_det": 0.0999755859375},
        "product_descent_scale": TARGET | {"rate": 0.0999755859375, "n_steps": 10, "n_dims": 6},
        "product_perturbation_scale": TARGET | {"n_dims": 6, "lipschitz": A, "log_det": 0.0999755859375},
        "published_composition": {"step_epsilon": EPSILON, "step_delta": DELTA, "n_steps": 10, "slack": DELTA},
        "published_information_scale": {"epsilon": EPSILON, "n_components": 100, "residual": A, "max_abs": B},
        "published_objective_perturbation": TARGET
        | {"lipschitz": A, "smoothness": B, "max_norm": A, "n_outputs": 3, "n_dims": 6},
        "published_product_descent": TARGET | {"rate": 0.0999755859375, "n_steps": 10, "n_dims": 6},
        "published_product_noise_delta": {"epsilon": EPSILON, "k": 1000.0, "n_dims": 100},
        "published_product_noise_scale": TARGET | {"sensitivity": A, "n_dims": 100},
        "published_rademacher_sign_change_probability": {"relative_change": 0.0999755859375},
        "published_sign_change_probability": {"relative_change": 0.0999755859375, "n_features": 100},
        "published_sign_changes": {
            "delta": DELTA,
            "relative_change": 0.0999755859375,
            "n_features": 100,
            "n_components": 64,
        },
        "sampled_information": {"epsilon": EPSILON, "n_changed": 100},
        "sampled_steps_target": TARGET | {"n_changed": 100},
        "sampled_target": TARGET | {"n_changed": 100},
        "searched_profile": {"epsilon": A, "n_trials": 3.30078125, "trial_distance": 0.0999755859375}
        | {"losses": (LOSS,)},
        "secret_projection_scale": TARGET | {"n_components": 100, "max_norm": A, "min_eigenvalue": B},
        "shift_of_epsilon": {"probability": DELTA},
        "sign_change_probability": {"relative_change": 0.0999755859375},
        "softmax_perturbation_scale": TARGET | {"n_classes": 3, "max_norm": A, "log_det": 0.0999755859375},
        "thresholded_counts_profile": {"epsilon": EPSILON, "scale": 3.69921875, "threshold": 17.703125}
        | {"sensitivity": A, "n_columns": 3},
        "thresholded_counts_scale": TARGET | {"sensitivity": A, "n_columns": 3},
        "spherical_scale": TARGET | {"sensitivity": A, **SPHERICAL},
    },
    sensitivity: {
        "component_sensitivity": {"projection": PROJECTION, "max_change": A},
        "l1_sensitivity": {"projection": PROJECTION, "adjacency": "l1", "max_change": A},
        "l2_sensitivity": {"projection": PROJECTION, "adjacency": "l2", "max_change": A},
        "histograms_sensitivity": {"norms_squared": A},
        "moments_sensitivity": {"max_norm": A, "accuracy": 0.00299835205078125},
        "minimiser_sensitivity": {
            "loss": HuberHingeLoss(B),
            "max_norm": A,
            "penalty": 3.69921875,
            "adjacency": "replace_one",
            "n_outputs": 3,
            "accuracy": 0.00299835205078125,
        },
    },
}
CASES = [(module, name) for module, functions in ARGUMENTS.items() for name in functions]
CLASSES = {"LabelCount", "PrivacyLoss", "Profile", "Published", "PublishedPerturbation"}
FLOATS = [np.float16, np.float32, np.float64, np.longdouble, Fraction, Decimal, lambda x: np.array(x, np.float32)]
INTEGERS = [np.int8, np.int64, np.uint8, lambda n: np.array(n, np.int16)]


def number_like(value, real, integer):
    """The same number as another type; whatever is none, as it is."""
    if isinstance(value, float):
        return real(value)
    return integer(value) if isinstance(value, int) else value


def assert_identical(found, expected):
    """Equal to the last bit, and of the same types."""
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_identical(one, other)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    else:
        assert found == expected


def test_every_function_of_numbers_is_listed():
    """Also for tests/test_mechanisms.py, which calls them by these arguments."""
    new = "add its arguments to ARGUMENTS of tests/test_number_types.py, or its name to SAMPLERS if it adds noise"
    assert set(ARGUMENTS[composition]) == set(defined_in(composition)) - CLASSES, new
    assert set(ARGUMENTS[mechanisms]) == set(MECHANISMS) - CLASSES - SAMPLERS, new
    assert set(ARGUMENTS[sensitivity]) == set(defined_in(sensitivity)), new


@pytest.mark.parametrize(("module", "name"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_functions_do_not_depend_on_the_type_of_a_number(module, name):
    """Called with other types first, which leave nothing of their precision to those who ask later."""
    function, arguments = getattr(module, name), ARGUMENTS[module][name]
    kinds = [(real, INTEGERS[i % len(INTEGERS)]) for i, real in enumerate(FLOATS)]
    found = [function(**{key: number_like(value, *kind) for key, value in arguments.items()}) for kind in kinds]
    expected = function(**arguments)
    for one in found:
        assert_identical(one, expected)


def test_totals_do_not_depend_on_the_type_of_delta():
    """Equal to the sum of all deltas in float32, and less."""
    part = PrivacyGuarantee(1.0, 5e-7, adjacency=Adjacency("replace_one"))
    less = np.float32(1e-6)
    assert float(less) < 1e-6 and less == np.float32(part.delta + part.delta)
    assert compose(part, part, delta=less) == compose(part, part, delta=float(less))
    assert compose(part, part, delta=less).epsilon == float("inf")


def test_bounds_of_a_loss_do_not_depend_on_the_type_of_its_width():
    assert HuberHingeLoss(np.float16(B)).smoothness == HuberHingeLoss(B).smoothness


def test_thresholds_of_short_probabilities_are_rounded_up_in_float64():
    short = np.array([0.0999755859375, 0.25], np.float16)
    assert np.array_equal(mechanisms.integer_thresholds(short), mechanisms.integer_thresholds(short.astype(float)))
    assert (mechanisms.integer_thresholds(short) > (short.astype(float) * 2.0**64).astype(np.uint64)).all()


def test_losses_do_not_depend_on_the_type_of_a_number():
    """Also where a profile is made without :meth:`Profile.of`, and where epsilon is only compared."""
    short = composition.Profile(mechanisms.laplace_profile, (("scale", np.float32(A)),))
    assert type(short.parameters[0][1]) is float
    for loss in (LOSS, composition.PrivacyLoss(profiles=(short,))):
        assert loss.profile(np.float16(EPSILON)) == loss.profile(EPSILON)
        assert loss.epsilon(np.float16(DELTA)) == loss.epsilon(DELTA)
    below = np.float32(0.7)  # less than 0.7, and equal to it in float32
    guarantee = PrivacyGuarantee(0.7, 0.0)
    assert guarantee.profile(below) == guarantee.profile(float(below)) > 0


@pytest.mark.parametrize("number", [Fraction(1, 3), Decimal("0.1"), np.longdouble(1) / 3, Decimal("nan")])
def test_numbers_that_are_no_floats_are_refused(number):
    """Whether to round up or down depends on what they bound."""
    with pytest.raises(ValueError, match="is no float: round it"):
        mechanisms.gaussian_scale(number, 1e-6)
    if float(number) < 1:
        with pytest.raises(ValueError, match="'epsilon' parameter of DPOPORP must be a float"):
            DPOPORP(2, epsilon=number).fit(np.ones((1, 4)))


def test_a_printed_bound_is_that_of_the_number_itself():
    assert printed_up(np.float32(0.1)) == "0.101" and printed_down(np.float16(0.1)) == "0.0999"


# Estimators: each number given as another type

X, Y = np.random.default_rng(0).uniform(-1, 1, (40, 6)) / 4, np.arange(40) % 3
SKETCH = {"n_components": 4, "epsilon": EPSILON, "max_change": A, "random_state": 0}
LINEAR = {"epsilon": EPSILON, "max_norm": A, "tol": 5.960464477539063e-08}
REGRESSION = {"target_bounds": (-B, B), "epsilon": EPSILON, "delta": DELTA, "max_norm": A, "n_components": 100}
ESTIMATORS = [
    DPRandomProjection(**SKETCH, delta=DELTA),
    DPRandomProjection(**SKETCH, delta=DELTA, projection="gaussian", calibration="kenthapadi_bound"),
    DPRandomProjection(**SKETCH, delta=DELTA, adjacency="l2", calibration="classic"),
    DPRandomProjection(**SKETCH, delta=DELTA, projection="very_sparse", density=B, calibration="kenthapadi"),
    DPRandomProjection(**SKETCH, noise="laplace"),
    DPOPORP(**SKETCH, delta=DELTA),
    DPOPORP(**SKETCH, noise="laplace", adjacency="l2"),
    DPSignRP(**SKETCH),
    DPSignRP(**SKETCH, method="rr", projection="gaussian", delta=DELTA, min_norm=3.30078125),
    DPSignRP(**SKETCH, method="rr", projection="gaussian", delta=DELTA, min_norm=3.30078125, calibration="published"),
    DPSignOPORP(**SKETCH, n_repeats=2),
    DPSignRP(**SKETCH, projection="very_sparse", density=B),
    iDPSignRP(**SKETCH, delta=DELTA),
    iDPSignRP(**SKETCH, delta=DELTA, projection="very_sparse", density=B),
    iDPSignRP(**SKETCH, method="rr", projection="oporp"),
    AMPClassifier(**LINEAR),
    AMPClassifier(**LINEAR, delta=DELTA, C=0.0999755859375, multi_class="ovr"),
    AMPClassifier(**LINEAR, delta=DELTA, loss="capped_log_loss"),
    AMPClassifier(**LINEAR, delta=DELTA, noise="product", adjacency="add_remove"),
    AMPClassifier(**LINEAR, delta=DELTA, calibration="published"),
    AMPClassifier(**LINEAR, delta=DELTA, noise="product", calibration="published"),
    ProductNoiseOutputPerturbation(**LINEAR),
    ProductNoiseOutputPerturbation(**LINEAR, delta=DELTA, C=0.0999755859375, loss="huber_hinge"),
    ProductNoiseOutputPerturbation(**LINEAR, delta=DELTA, radius="chi1"),
    ProductNoiseOutputPerturbation(**LINEAR, delta=DELTA, radius="gaussian", calibration="published"),
    DPSGDClassifier(epsilon=EPSILON, delta=DELTA, max_grad_norm=A, n_epochs=3, learning_rate=B),
    DPSGDClassifier(epsilon=EPSILON, max_norm=A, batch_size=8, n_epochs=2, hidden_layer_sizes=3, noise="product"),
    MIDPRegressor(epsilon=EPSILON, max_abs=0.2000732421875),
    MIDPRegressor(epsilon=EPSILON, n_components=10, max_abs=0.2000732421875, min_residual=0.0999755859375),
    MIDPRegressor(epsilon=EPSILON, mechanism="additive", max_abs=0.2000732421875),
    MIDPRegressor(epsilon=EPSILON, calibration="published", n_components=10),
    DPMoments(epsilon=EPSILON, delta=DELTA, max_norm=A),
    DPPCA(3, epsilon=EPSILON, delta=DELTA, max_norm=A),
    DPHistograms(epsilon=EPSILON, delta=DELTA, bounds=(-B, B), n_cells=8, categories=[0]),
    DPBinner(3, epsilon=EPSILON, delta=DELTA, bounds=(-B, B), n_cells=8, sparse_output=False),
    DPScaler(epsilon=EPSILON, delta=DELTA, bounds=(-B, B), n_cells=8),
    DPRidge(**REGRESSION),
    DPRidge(**REGRESSION, alpha=B),
    DPRidge(**REGRESSION, mechanism="projection"),
    DPSearchCV(
        DPRidge(**REGRESSION), {}, epsilon=EPSILON, delta=DELTA, n_trials=B, max_loss=A, test_size=0.25, random_state=0
    ),
]


def released(estimator):
    """All that a fit, and a release of a sketch, sets or returns."""
    rows = 20 * X if getattr(estimator, "min_norm", None) else X
    with reproducible_noise(0), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        estimator.fit(rows, Y)
        facts = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
        if "best_estimator_" in facts:
            facts["best_estimator_"] = facts["best_estimator_"].coef_
        return facts | ({"release": estimator.transform(rows)} if hasattr(estimator, "transform") else {})


@cache
def released_as_given(estimator):
    return released(clone(estimator))


def with_numbers_like(estimator, real, integer):
    parameters = estimator.get_params(deep=False)
    changed = {name: number_like(value, real, integer) for name, value in parameters.items() if type(value) is not bool}
    return clone(estimator).set_params(**changed)


def test_every_private_estimator_is_listed():
    assert not unlisted(PRIVATE, ESTIMATORS), "add it to ESTIMATORS of tests/test_number_types.py"


@pytest.mark.parametrize("kind", [(np.float16, np.int8), (np.float32, np.int64), (np.longdouble, np.uint8)], ids=str)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_estimators_do_not_depend_on_the_type_of_a_number(estimator, kind):
    found, expected = released(with_numbers_like(estimator, *kind)), released_as_given(estimator)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name != "projection_":
            np.testing.assert_equal(found[name], value)


def test_the_domain_of_a_sketch_does_not_depend_on_the_type_of_its_bound():
    """In float16 the largest row that a bound allows is infinite."""
    for max_change in (A, np.float16(A)):
        sketch = DPOPORP(2, max_change=A).fit(np.ones((1, 4))).set_params(max_change=max_change)
        with pytest.raises(ValueError, match="so large that float64"):
            sketch.transform(np.full((1, 4), 1e15))


def test_clones_and_copies_keep_the_numbers():
    """What was pickled with a number of NumPy, too."""
    sketch = DPOPORP(2, epsilon=np.float32(A))
    vars(sketch)["epsilon"] = np.float32(A)
    again = pickle.loads(pickle.dumps(sketch))
    assert clone(again).epsilon == A and type(again.epsilon) is float


# What any number may be, what is no number, and what has a message of its own.
UNBOUNDED = {"epsilon", "delta", "threshold", "losses", "adjacency", "shape", "power"}
BOUNDED = [
    (getattr(mechanisms, name), parameter)
    for name in ARGUMENTS[mechanisms]
    if name.endswith(("_profile", "_scale")) and not name.startswith("published_")  # formulas without a proof
    for parameter in signature(getattr(mechanisms, name)).parameters
    if parameter not in UNBOUNDED
]


def test_what_each_number_may_be_is_listed():
    """By the name of the argument: functions refuse a number beyond it."""
    new = "name it in _UNBOUNDED or _LARGEST of skdprp/_digits.py, or in UNBOUNDED here if it may be any number"
    assert {name for _, name in BOUNDED} <= _digits._LARGEST.keys(), new


@pytest.mark.parametrize("value", [-1.0, -1e-300, np.nan])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        *BOUNDED,
        (mechanisms.binomial_flip_epsilon, "changed"),
        (mechanisms.amplified, "rate"),
        (mechanisms.private_search_trial, "n_trials"),
        (mechanisms.private_search_trial, "trial_distance"),
    ],
    ids=lambda part: getattr(part, "__name__", part if isinstance(part, str) else ""),
)
def test_what_is_no_scale_or_probability_is_refused(function, name, value):
    """A negative sensitivity came out as a delta of 2e-308."""
    with pytest.raises(ValueError, match=f"{name} must be between [012] and"):
        function(**ARGUMENTS[mechanisms][function.__name__] | {name: value})
