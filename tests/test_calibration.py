"""A fit stands on the parameters that it began with, and what it leaves belongs together wherever it is interrupted."""

import copy
import pickle
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import mpmath
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skdprp
from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    DPSignRP,
    MIDPRegressor,
    PrivacyGuarantee,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    load_release,
    privacy_report,
    save_model,
    save_release,
)
from skdprp._calibration import reached_delta, snapshot, void_if_out_of_reach
from skdprp.linear_model import _mutual_information, _objective, _output
from skdprp.neural_network import _dpsgd
from skdprp.testing import reproducible_noise

# An estimator, the module of its calibration, and what that calls between its first look at a parameter and its last.
CASES = {
    "AMPClassifier": (AMPClassifier(), _objective, "sampled_target"),
    "product noise": (AMPClassifier(noise="product"), _objective, "sampled_target"),
    "published": (AMPClassifier(calibration="published"), _objective, "published_objective_perturbation"),
    "ProductNoiseOutputPerturbation": (ProductNoiseOutputPerturbation(), _output, "sampled_target"),
    "DPSGDClassifier": (DPSGDClassifier(n_epochs=2), _dpsgd, "sampled_steps_target"),
    "MIDPRegressor": (MIDPRegressor(), _mutual_information, "sampled_information"),
}


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
@pytest.mark.parametrize("case", CASES)
def test_parameters_that_are_set_during_a_fit_are_of_the_next(case, monkeypatch):
    """Otherwise noise for an epsilon of 1 went out under a guarantee with one of 0.01."""
    model, module, name = CASES[case]
    model = clone(model)
    X = np.random.default_rng(0).uniform(-0.3, 0.3, (60, 3))
    y, calibrate = (X[:, 0] > 0).astype(int), getattr(module, name)
    with reproducible_noise(0):
        alone = vars(clone(model).fit(X, y))

    def _meanwhile(*args, **known):
        model.set_params(epsilon=0.01)
        return calibrate(*args, **known)

    monkeypatch.setattr(module, name, _meanwhile)
    with reproducible_noise(0):
        together = vars(model.fit(X, y))
    assert together["epsilon"] == 0.01
    for attribute, value in alone.items():
        if attribute != "epsilon":
            np.testing.assert_array_equal(together[attribute], value)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 5.0, 100.0])
def test_tails_that_are_never_sampled_are_a_share_of_delta_at_most(epsilon):
    """Of 2^32 numbers ``2^32 (1 + e^epsilon) 2^-288``; it was taken as up to 1.37 times less."""
    least = float(mpmath.mpf(2) ** (32 - 288 + 33) * (1 + mpmath.exp(epsilon)))
    for delta, is_reached in ((least * (1 + 1e-9), True), (least * (1 - 1e-9), False)):
        guarantee = PrivacyGuarantee(epsilon, delta)
        assert (void_if_out_of_reach(guarantee) == guarantee) == is_reached
    assert least < reached_delta(epsilon, 0.0) < least * (1 + 2e-6)
    assert void_if_out_of_reach(PrivacyGuarantee(epsilon, reached_delta(epsilon, 0.0))).epsilon == epsilon


@pytest.mark.parametrize("model", [AMPClassifier(), DPSGDClassifier(n_epochs=2), MIDPRegressor()], ids=repr)
def test_a_refit_that_fails_leaves_the_earlier_release_as_it_was(model):
    """The number of features too: the weights of the earlier fit still belong to it."""
    X = np.random.default_rng(0).uniform(-0.3, 0.3, (60, 3))
    y = (X[:, 0] > 0).astype(int)
    model = clone(model).fit(X, y)
    before = vars(model).copy()
    with pytest.raises(ValueError, match="is too small"):
        model.set_params(epsilon=1e-12).fit(X[:, :2], y)
    assert vars(model) == before | {"epsilon": 1e-12}


@pytest.mark.parametrize(
    "estimator", [DPOPORP(2), DPOPORP(2, noise="laplace"), AMPClassifier(), DPSGDClassifier(n_epochs=2)], ids=str
)
def test_an_epsilon_beyond_what_samples_of_noise_reach_has_no_guarantee(estimator):
    """The tails of up to 2^32 numbers, below 2^-288 each, count by then; what is released is as it was asked for."""
    X, y = np.eye(6), np.arange(6) % 2
    assert clone(estimator).set_params(epsilon=100.0).fit(X, y).guarantee_.epsilon == 100.0
    with pytest.warns(PrivacyWarning, match="no guarantee"):
        guarantee = clone(estimator).set_params(epsilon=1e4).fit(X, y).guarantee_
    assert guarantee.epsilon == np.inf
    assert guarantee.profile(1e6) == 1.0


@pytest.mark.parametrize(
    "fit",
    [lambda X, y: AMPClassifier(epsilon=1e4).fit_chunks([(X, y)]), lambda X, y: DPMoments(epsilon=1e4).fit(X)],
    ids=["chunks", "moments"],
)
def test_a_release_without_a_guarantee_warns_whatever_else_is_assumed_of_it(fit):
    """The warning was lost where assumptions were added to a calibration."""
    with pytest.warns(PrivacyWarning, match="no guarantee"):
        assert fit(np.eye(6), np.arange(6) % 2).guarantee_.epsilon == np.inf


PACKAGE = Path(skdprp.__file__).parent
ENDS = {"publish", "take_over", "_drop_others", "fit", "_fit", "_fit_calibrated", "_fit_rows", "_fit_chunks", "sketch"}


def at_each_instruction(see, function):
    """Call a function and let `see` look at each instruction of those that end a fit; it may interrupt there."""

    def _trace(frame, event, arg):
        if frame.f_code.co_name not in ENDS or PACKAGE not in Path(frame.f_code.co_filename).parents:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            see(frame.f_code, frame.f_lineno)
        return _trace

    before = sys.gettrace()
    sys.settrace(_trace)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)


def mixtures(model, fit):
    """Fit again with another epsilon: what stands beside what at each instruction, and once it was interrupted.

    Interrupted is each line with each state in which it finds the model. Arrays, and what was released as a whole, tell
    by their identity which fit they are of. Also returned is the number of instructions.
    """
    before, found, places, n_instructions = vars(model).copy(), set(), {}, 0

    def _fit_again(see):
        vars(model).clear()
        vars(model).update(before, epsilon=2.0)
        at_each_instruction(see, lambda: fit(model))

    def _state():
        now = {name: value for name, value in vars(model).items() if name.endswith("_") and not np.isscalar(value)}
        is_older = tuple((name, before.get(name) is value) for name, value in now.items() if value is not None)
        if len({older for _, older in is_older}) > 1:
            found.add(is_older)
        return is_older

    def _look(code, line):
        nonlocal n_instructions
        n_instructions += 1
        places[code, line, _state()] = None

    def _interrupt(place, code, line):
        if (code, line) == place[:2] and _state() == place[2]:
            sys.settrace(None)
            raise KeyboardInterrupt

    _fit_again(_look)
    for place in places:
        _fit_again(partial(_interrupt, place))
        _state()
    return found, n_instructions


ROWS = np.random.default_rng(0).uniform(-0.4, 0.4, (40, 3))
INTERRUPTED = [
    AMPClassifier(),
    ProductNoiseOutputPerturbation(),
    DPSGDClassifier(n_epochs=1),
    MIDPRegressor(),
    DPRidge(target_bounds=(-1, 1)),
    DPRidge(target_bounds=(-1, 1), mechanism="moments"),
    DPMoments(),
    DPHistograms(bounds=(-1, 1), n_cells=8),
    DPSearchCV(DPRidge(target_bounds=(-1, 1), mechanism="moments"), {}, n_trials=0.5, max_loss=4.0),
    DPOPORP(2),
    DPSignRP(2),
]


@pytest.mark.parametrize("model", INTERRUPTED, ids=lambda model: type(model).__name__)
def test_wherever_a_fit_is_interrupted_no_weights_stand_beside_the_guarantee_of_others(model, short_descents):
    classifies = hasattr(model, "classes") and not isinstance(model, DPSearchCV)
    y = (ROWS[:, 0] > 0).astype(int) if classifies else ROWS[:, 0]
    found, number = mixtures(clone(model).fit(ROWS, y), lambda one: one.fit(ROWS, y))
    assert found == set() and number > 50


def test_a_sketch_that_was_interrupted_leaves_no_weights_of_the_fit_before():
    model = MIDPRegressor(n_components=20).fit(ROWS, ROWS[:, 0])
    found, number = mixtures(model, lambda one: one.sketch(ROWS, ROWS[:, 0]))
    assert found == set() and number > 50


def test_weights_that_are_set_one_by_one_are_caught(monkeypatch):
    def _one_by_one(estimator, fitted):
        for name, value in vars(fitted).items():
            setattr(estimator, name, value)

    monkeypatch.setattr("skdprp.linear_model._base.take_over", _one_by_one)
    monkeypatch.setattr(__name__ + ".ENDS", {"_one_by_one"})
    monkeypatch.setattr(__name__ + ".PACKAGE", Path(__file__).parent)
    y = ROWS[:, 0] > 0
    found, _ = mixtures(AMPClassifier().fit(ROWS, y), lambda one: one.fit(ROWS, y))
    assert found


def audited(guarantee):
    return replace(guarantee, audited_epsilon=0.5, violation="it leaks")


def fitted_privately(kind):
    """An estimator that states a guarantee, by each of the ways in which one is stated."""
    y = (ROWS[:, 0] > 0).astype(int)
    columns = {"bounds": (-1, 1), "epsilon": 9.0}
    if kind == "moments":
        return DPRidge(target_bounds=(0, 1)).fit_moments(
            DPMoments(target_bounds=(0, 1), epsilon=9.0).fit(ROWS, y).moments_
        )
    if kind == "histograms":
        return DPBinner().fit_histograms(DPHistograms(**columns).fit(ROWS).histograms_)
    if kind == "search":
        candidates = {"max_norm": [1.0, 2.0]}
        return DPSearchCV(AMPClassifier(classes=[0, 1]), candidates, epsilon=9.0, delta=1e-3).fit(ROWS, y)
    return {
        "sketch": DPOPORP(4, epsilon=9.0),
        "model": AMPClassifier(epsilon=9.0, classes=[0, 1]),
        "counts": DPHistograms(**columns),
    }[kind].fit(ROWS, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sketch", "model", "moments", "histograms", "counts", "search"])
def test_only_audits_and_seeds_change_what_is_stated_of_a_fit(kind, tmp_path):
    """A guarantee that is set to any other is in no total and no file; nothing that voids it is lost."""
    fitted, path = fitted_privately(kind), tmp_path / "file.npz"
    stated = fitted.guarantee_

    def save(estimator):
        if kind == "sketch":
            return save_release(path, estimator.transform(ROWS), estimator)
        return save_model(path, estimator)

    for same in (fitted, pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        save(same)
        assert privacy_report(same).private is not None
    for marked in (audited(stated), stated.mark_seeded()):
        fitted.guarantee_ = marked
        save(fitted)
        assert privacy_report(fitted).private.violation or privacy_report(fitted).private.seeded
    for other in (replace(stated, epsilon=0.1), replace(stated, per=None), replace(audited(stated), delta=1e-9), None):
        fitted.guarantee_ = other
        with pytest.raises(ValueError, match=r"was set after the fit|no private model"):
            save(fitted)
        if other is not None:
            report = privacy_report(fitted)
            assert report.private is None and "was set after the fit" in report.not_covered[0]
            assert privacy_report(make_pipeline(PublicScaler((0, 1)), fitted)).private is None
    fitted.guarantee_ = stated
    assert privacy_report(fitted).private is not None


def test_no_mark_that_a_file_or_a_seed_left_is_taken_off(tmp_path):
    sketch = DPOPORP(2).fit(ROWS)
    with reproducible_noise(0):
        sketch.transform(ROWS)
    sketch.guarantee_ = replace(sketch.guarantee_, seeded=False)
    with pytest.raises(ValueError, match="was set after the fit"):
        sketch.transform(ROWS)
    sketch = DPOPORP(2).fit(ROWS)
    sketch.guarantee_ = audited(sketch.guarantee_)
    save_release(tmp_path / "release.npz", sketch.transform(ROWS), sketch)
    loaded = load_release(tmp_path / "release.npz").estimator
    assert loaded.guarantee_.violation and len(loaded.transform(ROWS)) == len(ROWS)
    loaded.guarantee_ = replace(loaded.guarantee_, violation="", audited_epsilon=None)
    with pytest.raises(ValueError, match="was set after the fit"):
        loaded.transform(ROWS)


@pytest.mark.filterwarnings("ignore")
def test_a_fit_states_anew_whatever_stood_there():
    """Nothing of an earlier fit is compared with what the next one states, also from a release of another."""
    y = (ROWS[:, 0] > 0).astype(int)
    moments = DPMoments(target_bounds=(0, 1), epsilon=9.0).fit(ROWS, y).moments_
    model = DPRidge(target_bounds=(0, 1), epsilon=1.0).fit(ROWS, y)
    model.guarantee_ = replace(model.guarantee_, epsilon=0.1)
    assert privacy_report(model.fit(ROWS, y)).private.epsilon == 1.0
    assert privacy_report(model.fit_moments(moments)).private.epsilon == 9.0


@pytest.mark.parametrize("kind", ["moments", "histograms"])
def test_what_audits_show_of_an_estimator_is_known_of_what_is_made_of_its_release(kind):
    X = np.linspace(-1, 1, 60).reshape(20, 3)
    if kind == "moments":
        released, attribute = DPMoments(delta=1e-5, target_bounds=(-1, 1)).fit(X, X[:, 0]), "moments_"
        learner = DPRidge(target_bounds=(-1, 1)).fit_moments
    else:
        released, attribute, learner = DPHistograms(delta=1e-5).fit(X), "histograms_", DPBinner(4).fit_histograms
    before = getattr(released, attribute)
    shown = replace(released.guarantee_, violation="epsilon is at least 9", audited_epsilon=9.0)
    released.guarantee_ = shown
    after = getattr(released, attribute)
    made = learner(after)
    assert made.guarantee_.violation == shown.violation and made.guarantee_.audited_epsilon == 9.0
    assert privacy_report(made).total is None
    assert not learner(before).guarantee_.violation
    assert not getattr(released.fit(X, X[:, 0]), attribute).guarantee.violation


def test_what_is_written_into_a_parameter_during_a_fit_reaches_it_no_more():
    """A network whose list of layers was emptied took rows as a linear model does, which are clipped before."""
    model = DPSGDClassifier(hidden_layer_sizes=[4], class_weight={0: 0.5}, classes=np.array([0, 1]))
    twin = snapshot(model)
    model.hidden_layer_sizes.clear()
    model.class_weight[0] = 1.0
    model.classes[0] = 7
    assert (twin.hidden_layer_sizes, twin.class_weight, twin.classes.tolist()) == ([4], {0: 0.5}, [0, 1])
