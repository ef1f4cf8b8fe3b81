"""AMPClassifier: its calibrations meet its guarantee, and its solver hides nothing."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import FixedThresholdClassifier, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize

from skdprp import (
    AMPClassifier,
    DPSearchCV,
    DPSGDClassifier,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    compose,
    load_model,
    save_model,
)
from skdprp.linear_model import _objective
from skdprp.losses import CappedLogisticLoss, LogisticLoss, SoftmaxLoss
from skdprp.mechanisms import Published, gaussian_scale, published_product_noise_scale
from skdprp.mechanisms.objective_perturbation import (
    hessian_log_det,
    objective_perturbation_profile,
    product_perturbation_profile,
    softmax_perturbation_profile,
)
from skdprp.mechanisms.published import published_objective_perturbation

R = np.hypot(1.0, 0.3)  # norm of a row of norm 1 with its constant feature


def test_epsilon_too_small_for_c_says_which_c_would_do(three_classes):
    """The C that the error proposes works; a little more than the C it forbids does not."""
    X, y = three_classes
    for known in ({}, {"multi_class": "ovr"}, {"loss": "huber_hinge"}, {"noise": "product"}):
        with pytest.raises(ValueError, match=r"epsilon=0\.1 is too small for C=50") as error:
            AMPClassifier(epsilon=0.1, C=50, **known).fit(X, y)
        words = str(error.value).replace(",", " ").split()
        largest, proposed = float(words[words.index("below") + 1]), float(words[-8].removeprefix("C="))
        AMPClassifier(epsilon=0.1, C=proposed, **known).fit(X, y)
        with pytest.raises(ValueError, match="too small"):
            AMPClassifier(epsilon=0.1, C=1.02 * largest, **known).fit(X, y)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_amp_meets_its_guarantee(adjacency, epsilon, binary, three_classes):
    """The profile at the scales that the model reports is at most delta, and is not at smaller scales."""
    X, y = binary
    known = {"loss": "log_loss", "noise": "gaussian", "count_labels": False}
    model = AMPClassifier(epsilon=epsilon, adjacency=adjacency, **known).fit(X, y)
    assert model.delta_ == model.guarantee_.delta == 1 / 300**2
    log_det = hessian_log_det(LogisticLoss(), max_norm=R, penalty=1 / model.C_)
    known = {"lipschitz": R, "log_det": log_det, "adjacency": adjacency, "release_shift": epsilon / 300}
    for share, holds in ((1.0, True), (0.999, False)):
        delta = objective_perturbation_profile(epsilon, scale=share * model.scale_, **known)
        assert (delta <= model.delta_) == holds
    X, y = three_classes
    model = AMPClassifier(noise="gaussian", epsilon=epsilon, adjacency=adjacency).fit(X, y)
    log_det = hessian_log_det(SoftmaxLoss(3), max_norm=R, penalty=1 / model.C_)
    known = {"n_classes": 3, "max_norm": R, "log_det": log_det, "adjacency": adjacency, "release_shift": epsilon / 300}
    for share, holds in ((1.0, True), (0.999, False)):
        delta = softmax_perturbation_profile(epsilon, scale=share * model.scale_, **known)
        assert (delta <= model.delta_) == holds


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_amp_with_the_capped_loss_meets_its_guarantee(adjacency, epsilon, binary, three_classes):
    """The profile of half the slope is at most delta, and is not at smaller scales; three problems are three."""
    for (X, y), n_outputs in ((binary, 1), (three_classes, 3)):
        known = {"loss": "capped_log_loss", "noise": "gaussian", "adjacency": adjacency, "count_labels": False}
        model = AMPClassifier(epsilon=epsilon, **known).fit(X, y)
        log_det = hessian_log_det(CappedLogisticLoss(), max_norm=R, penalty=1 / model.C_)
        known = {"lipschitz": R / 2, "log_det": log_det, "adjacency": adjacency, "n_outputs": n_outputs}
        for share, holds in ((1.0, True), (0.999, False)):
            scale = share * model.scale_
            delta = objective_perturbation_profile(epsilon, scale=scale, release_shift=epsilon / 300, **known)
            assert (delta <= model.delta_) == holds


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_amp_with_product_noise_meets_its_guarantee(adjacency, binary, three_classes):
    """The profile, with the noise of the release, is at most delta; one-vs-rest problems share the budget evenly."""
    for (X, y), known, n_outputs in ((binary, {}, 1), (three_classes, {"multi_class": "ovr"}, 3)):
        model = AMPClassifier(loss="log_loss", noise="product", adjacency=adjacency, **known).fit(X, y)
        log_det = hessian_log_det(LogisticLoss(), max_norm=R, penalty=1 / model.C_)
        shift = 1 / 2000 / n_outputs
        sizes = {"n_dims": 9, "lipschitz": R, "log_det": log_det, "adjacency": adjacency, "release_shift": shift}
        for share, holds in ((1.0, True), (0.999, False)):
            delta = product_perturbation_profile(1 / n_outputs, scale=share * model.scale_, **sizes)
            assert (delta <= model.delta_ / n_outputs) == holds
        assert (model.guarantee_.loss is None) == (n_outputs > 1)
        # What the solver leaves of each problem is at most the shift, in units of the noise of the release.
        assert 2 * 300 * 1e-10 * model.C_ / model.release_scale_ <= shift * (1 + 1e-3)


SIZES = [(1, 2), (8, 2), (30, 2), (63, 2), (64, 2), (3, 3), (15, 4), (16, 4)]


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("n_features", "n_classes"), SIZES)
def test_the_smaller_noise_is_taken(n_features, n_classes, adjacency):
    """By the root mean square of a coordinate, of up to 64 weights; C suits the noise, and so it is more."""
    shape = (1000, n_features), np.dtype(float), n_classes
    auto, gaussian, product = (
        AMPClassifier(noise=noise, adjacency=adjacency)._calibration_of(*shape).fitted
        for noise in ("auto", "gaussian", "product")
    )
    n_weights = (n_features + 1) * (n_classes if n_classes > 2 else 1)
    less = product["scale_"] * np.sqrt(n_weights + 1) < gaussian["scale_"]
    assert auto == (product if n_weights <= 64 else gaussian)
    assert less or n_weights > 64
    assert auto["noise_"] == ("product" if n_weights <= 64 else "gaussian")
    assert auto["C_"] >= gaussian["C_"]


def test_noise_is_gaussian_where_product_noise_has_no_profile_of_all(three_classes):
    """Of one-vs-rest problems, and as published."""
    X, y = three_classes
    assert AMPClassifier(multi_class="ovr").fit(X, y).noise_ == "gaussian"
    with pytest.warns(PrivacyWarning, match="claims"):
        model = AMPClassifier(calibration="published").fit(X, y)
    assert model.noise_ == "gaussian"
    assert AMPClassifier(multi_class="ovr", noise="product").fit(X, y).noise_ == "product"


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("noise", ["gaussian", "product"])
def test_amp_with_a_count_of_labels_meets_its_guarantee(noise, adjacency, binary):
    """The profile pays for the count, and is above delta at a little less noise."""
    X, y = binary
    model = AMPClassifier(noise=noise, adjacency=adjacency, count_labels=True).fit(X, y)
    log_det = hessian_log_det(CappedLogisticLoss(), max_norm=R, penalty=1 / model.C_)
    sizes = {"lipschitz": R / 2, "log_det": log_det, "adjacency": adjacency}
    if noise == "gaussian":
        shift = 1 / gaussian_scale(1.0, model.delta_) / 10
        profile, sizes = objective_perturbation_profile, sizes | {"release_shift": 1 / 300, "count_shift": shift}
    else:
        sizes |= {"n_dims": 9, "release_shift": 1 / 2000, "count_epsilon": 1 / 50}
        profile = product_perturbation_profile
    for share, holds in ((1.0, True), (0.999, False)):
        assert (profile(1.0, scale=share * model.scale_, **sizes) <= model.delta_) == holds
    assert model.guarantee_.profile(1.0) <= model.delta_
    assert "count of labels, scale" in model.guarantee_.mechanism
    assert model.guarantee_.released.startswith("coef_, intercept_, class_prior_ (None unless labels are counted)")


@pytest.mark.parametrize("loss", ["log_loss", "capped_log_loss"])
@pytest.mark.parametrize("noise", ["gaussian", "product"])
def test_probabilities_start_from_the_share_of_the_labels(loss, noise, binary, silenced_noise):
    """Where the penalty leaves nothing else, they are that; and without the count, one half."""
    X, y = binary[0], (np.arange(300) < 60).astype(int)
    known = {"loss": loss, "noise": noise, "C": 1e-7, "epsilon": 8.0}
    counted = AMPClassifier(count_labels=True, **known).fit(X, y)
    assert counted.class_prior_ == pytest.approx(0.2, rel=1e-12)
    np.testing.assert_allclose(counted.predict_proba(X)[:, 1], 0.2, atol=1e-4)
    plain = AMPClassifier(count_labels=False, **known).fit(X, y)
    assert plain.class_prior_ is None
    np.testing.assert_allclose(plain.predict_proba(X)[:, 1], 0.5, atol=1e-4)
    weighted = AMPClassifier(count_labels=True, class_weight={0: 0.25}, **known).fit(X, y)
    assert weighted.class_prior_ == counted.class_prior_
    np.testing.assert_allclose(weighted.predict_proba(X)[:, 1], 0.5, atol=1e-4)
    without = AMPClassifier(count_labels=True, class_weight={0: 0}, **known).fit(X, y)
    assert without.predict_proba(X)[:, 1].min() > 0.99


def test_an_offset_is_no_intercept(binary, silenced_noise):
    """Of weights that are hardly penalised, the minimum is where it was: scores and probabilities are the same."""
    X, y = binary
    known = {"loss": "log_loss", "noise": "gaussian", "C": 5.0, "epsilon": 100.0, "max_norm": 2.0}
    counted, plain = (AMPClassifier(count_labels=count, **known).fit(X, y) for count in (True, False))
    np.testing.assert_allclose(counted.predict_proba(X), plain.predict_proba(X), atol=0.02)


@pytest.mark.parametrize("noise", ["gaussian", "product"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_labels_are_counted_where_that_pays(noise, adjacency):
    """From forty deviations of the noise on, by public facts, and never where there is no count."""
    deviation = 10 * gaussian_scale(1.0, 1e-6) if noise == "gaussian" else 50 * np.sqrt(2)
    rows = int(40 * deviation)
    for n, known, counts in (
        (rows + 1, {}, True),
        (rows - 1, {}, False),
        (rows - 1, {"threshold": "prior"}, True),
        (rows + 1, {"count_labels": False}, False),
        (rows + 1, {"loss": "huber_hinge"}, False),
    ):
        model = AMPClassifier(noise=noise, adjacency=adjacency, delta=1e-6, **known)
        calibration = model._calibration_of((n, 5), np.dtype(float), 2)
        assert (calibration.noise.count is not None) == counts
    for known in ({}, {"multi_class": "ovr"}):
        model = AMPClassifier(noise=noise, **known)
        assert model._calibration_of((10**6, 5), np.dtype(float), 3).noise.count is None


def test_thresholds(seeded):
    """At the share of the labels, or any other, of what is predicted; the default is a half."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) / 2
    y = np.where(rng.uniform(size=4000) < 1 / (1 + np.exp(3.5 - 3 * X[:, 0])), "yes", "no")
    known = {"epsilon": 10.0, "classes": ["no", "yes"]}
    for threshold in (0.5, 0.2, "prior"):
        model = AMPClassifier(threshold=threshold, **known).fit(X, y)
        at = model.class_prior_ if threshold == "prior" else threshold
        np.testing.assert_array_equal(model.predict(X) == "yes", model.predict_proba(X)[:, 1] > at)
    assert abs(model.class_prior_ - np.mean(y == "yes")) < 0.03  # ten deviations of the noise
    assert balanced_accuracy_score(y, model.predict(X)) > 0.65
    default = AMPClassifier(**known).fit(X, y)
    np.testing.assert_array_equal(default.predict(X) == "yes", default.decision_function(X) > 0)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"count_labels": True, "loss": "huber_hinge"}, "^count_labels=True needs two classes, a logistic loss"),
        ({"threshold": 0.3, "loss": "huber_hinge"}, "^threshold=0.3 needs two classes and a logistic loss"),
        ({"count_labels": True, "classes": [0, 1, 2]}, "^count_labels=True needs two classes, a logistic loss"),
        ({"threshold": "prior", "classes": [0, 1, 2]}, "^threshold='prior' needs two classes and a logistic loss"),
        ({"threshold": "prior", "count_labels": False}, "needs a count of labels"),
        ({"threshold": "prior", "calibration": "published"}, "needs a count of labels"),
        ({"count_labels": True, "calibration": "published"}, "an exact calibration"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1.0}, "threshold"),
        ({"threshold": "median"}, "threshold"),
        ({"count_labels": "prior"}, "count_labels"),
    ],
    ids=str,
)
def test_counts_and_thresholds_that_cannot_be_are_refused(known, message, binary):
    model = AMPClassifier(**known)
    with pytest.raises(ValueError, match=message):
        model.fit(*binary)
    assert not hasattr(model, "guarantee_")


@pytest.mark.parametrize("kind", [ProductNoiseOutputPerturbation, DPSGDClassifier])
def test_other_classifiers_have_a_threshold_too(kind, binary, tmp_path):
    """A rare class was never predicted by the winner of a search among them, and no file kept a threshold."""
    X, y = binary
    search = DPSearchCV(kind(epsilon=5.0, classes=[0, 1], threshold=0.2), {}, n_trials=0.5, epsilon=9.0).fit(X, y)
    for model in (kind(epsilon=5.0, classes=[0, 1], threshold=0.2).fit(X, y), search.best_estimator_):
        for threshold in (0.2, 0.7):
            model.threshold = threshold
            np.testing.assert_array_equal(model.predict(X), model.predict_proba(X)[:, 1] > threshold)
            save_model(tmp_path / "moved.npz", model)
            np.testing.assert_array_equal(load_model(tmp_path / "moved.npz").estimator.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="needs a count of labels"):
        model.set_params(threshold="prior").predict(X)
    with pytest.raises(ValueError, match=r"threshold=0\.2 needs two classes"):
        kind(classes=[0, 1, 2], threshold=0.2).fit(X, y)


def test_a_threshold_moves_after_the_fit(binary, tmp_path):
    """The parameter of now holds, in pipelines, searches and files; one of the fit stood in its place."""
    X, y = binary
    model = AMPClassifier(epsilon=2.0, classes=[0, 1], threshold="prior").fit(X, y)
    guarantee, probability = model.guarantee_, model.predict_proba(X)[:, 1]
    search = DPSearchCV(AMPClassifier(epsilon=2.0, classes=[0, 1]), {"max_norm": [1.0, 2.0]}).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), probability > model.prior_threshold_)
    for threshold in (0.1, 0.5, 0.9, np.float32(0.25)):
        model.threshold = threshold
        np.testing.assert_array_equal(model.predict(X), probability > float(threshold))
        if type(threshold) is float:
            piped = make_pipeline(FunctionTransformer(), model)
            save_model(tmp_path / "moved.npz", piped)
            np.testing.assert_array_equal(
                load_model(tmp_path / "moved.npz").estimator.predict(X), piped.predict(X), strict=True
            )
            search.best_estimator_.set_params(threshold=threshold)
            np.testing.assert_array_equal(search.predict(X), search.predict_proba(X)[:, 1] > threshold)
    assert model.guarantee_ is guarantee
    model.set_params(threshold="prior")
    np.testing.assert_array_equal(model.predict(X), probability > model.prior_threshold_)
    # Another meta-estimator has a threshold of its own, of the probabilities: it counts.
    fixed = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.2, response_method="predict_proba").fit(X, y)
    np.testing.assert_array_equal(fixed.predict(X), probability >= 0.2)


@pytest.mark.parametrize(
    ("known", "threshold", "message"),
    [
        ({"count_labels": False}, "prior", "needs a count of labels, and this fit made none"),
        ({"loss": "huber_hinge"}, 0.3, "two classes and a logistic loss"),
        ({"loss": "huber_hinge"}, "prior", "needs a count of labels"),
        ({"classes": [0, 1, 2]}, 0.3, "two classes and a logistic loss"),
        *(({}, threshold, "a number above 0 and below 1") for threshold in (0, 1.0, True, "median", None, np.nan)),
    ],
    ids=str,
)
def test_thresholds_that_cannot_be_after_the_fit_are_refused(known, threshold, message, binary):
    model = AMPClassifier(**known).fit(*binary)
    model.threshold = threshold
    with pytest.raises(ValueError, match=message):
        model.predict(binary[0])
    model.threshold = 0.5
    model.predict(binary[0])


def test_releases_with_product_noise_compose_exactly(binary):
    """Not as pairs, whose sums are 2 and twice delta."""
    pytest.importorskip("dp_accounting")
    model = AMPClassifier(noise="product").fit(*binary)
    total = compose(model.guarantee_, model.guarantee_)
    assert total.epsilon < 1.85 and total.delta == pytest.approx(2 * model.delta_)


@pytest.mark.parametrize("n_samples", [300, 10**6])
@pytest.mark.parametrize("C", ["auto", 1.0])
@pytest.mark.parametrize("noise", ["gaussian", "product"])
def test_release_noise_hides_what_the_solver_leaves(noise, C, n_samples):
    """Two solutions of the same exact minimiser are within the shift of the release that the guarantee counts."""
    model = AMPClassifier(noise=noise, C=C, epsilon=2.0, tol=1e-7)
    planned = model._calibration_of((n_samples, 5), np.dtype(float), 2)
    (profile,) = planned.guarantee.loss.profiles
    apart = 2 * n_samples * 1e-7 / planned.noise.penalty
    assert 0.95 < apart / planned.noise.release_scale / dict(profile.parameters)["release_shift"] <= 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("n_features", [20, 100])
def test_noise_of_the_release_is_small_for_any_number_of_rows(epsilon, n_features):
    """The error of the solver grows with the rows: shift and penalty follow, the latter far below their curvature."""
    for n_samples in 10 ** np.arange(4, 10):
        noise = AMPClassifier(epsilon=epsilon)._calibration_of((n_samples, n_features), np.dtype(float), 2).noise
        assert noise.release_scale < 0.02
        assert n_samples < 10**6 or noise.penalty < 0.1 * n_samples / 8 / n_features


@pytest.mark.parametrize("seed", range(40))
def test_the_linear_term_has_hardly_more_noise_than_was_planned(seed):
    """Of any number of rows up to 1e9, columns and classes; a release that takes the budget for itself would show."""
    rng = np.random.default_rng(seed)
    n_samples, n_features, n_classes = (
        int(10 ** rng.uniform(2, 9)),
        int(10 ** rng.uniform(0, 2.5)),
        (2, 3, 10)[seed % 3],
    )
    model = AMPClassifier(
        epsilon=float(10 ** rng.uniform(-2, 1.3)),
        delta=float(rng.choice([0.01, 1e-6, 1e-9, 1e-12])),
        noise=("gaussian", "auto")[seed % 2],
        adjacency=str(rng.choice(["replace_one", "add_remove"])),
        multi_class=str(rng.choice(["auto", "ovr"])) if n_classes > 2 else "auto",
    )
    plans, yield_plans = [], model._plans
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "_plans", lambda *facts: plans.extend(yield_plans(*facts)) or plans, raising=False)
        planned = model._calibration_of((n_samples, n_features), np.dtype(float), n_classes)
    of_coordinate = 1.0 if planned.noise.radius_law is None else np.sqrt(planned.problem.n_weights_each + 1)
    assert planned.noise.scale * of_coordinate <= 1.3 * min(plan.deviation for plan in plans)


@pytest.mark.parametrize("noise", ["gaussian", "product"])
def test_the_shift_of_the_release_is_nearly_the_best(noise, monkeypatch):
    """At a given C, by the noise of weights whose data has the usual curvature; b has at most twice its noise."""

    def of_weights(shift=None):
        with monkeypatch.context() as patch:
            if shift is not None:
                patch.setattr(_objective, "_balanced_shift", lambda *_: (shift, 1.0))
            found = AMPClassifier(noise=noise, C=1.0)._calibration_of((10**6, 20), np.dtype(float), 2).noise
        deviation = found.scale * (np.sqrt(22) if noise == "product" else 1.0)
        return float(np.hypot(deviation / (1 + 10**6 * 1.09 / 160), found.release_scale))

    of_others = [of_weights(shift) for shift in np.geomspace(1e-4, 0.1 if noise == "gaussian" else 0.03, 30)]
    assert 0.99 * min(of_others) < of_weights() < 1.5 * min(of_others) < 0.02 < 0.1 * max(of_others)


@pytest.mark.filterwarnings("ignore:This release has no guarantee:skdprp.PrivacyWarning")
def test_deltas_below_the_tail_of_product_noise_leave_the_choice_to_gaussian_noise(three_classes):
    """The choice ended in an error that asked for a delta between 0 and 0.5."""
    model = AMPClassifier(delta=1e-100).fit(*three_classes)
    assert model.noise_ == "gaussian" and model.guarantee_.epsilon == np.inf  # as of all sampled noise
    with pytest.raises(ValueError, match=re.escape("noise='product' needs a delta of at least 4e-87, got 1e-100")):
        AMPClassifier(delta=1e-100, noise="product").fit(*three_classes)


@pytest.mark.parametrize("known", [{}, {"multi_class": "ovr", "noise": "gaussian"}])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-60), (1e-7, 1e-12)])
def test_the_solver_is_asked_for_no_more_than_rounding_of_the_noise_allows(known, epsilon, delta, seeded):
    """Its gradient has a term of 1e9, and should have been as small as 1e-9: all fits failed, and were charged."""
    X, y = np.random.default_rng(0).normal(size=(12, 5)), np.arange(12) % 3
    for _ in range(8):
        model = AMPClassifier(epsilon=epsilon, delta=delta, classes=range(3), **known).fit(X, y)
    assert np.isfinite(model.coef_).all() and model.guarantee_.epsilon == epsilon


def test_published_amp(binary, three_classes):
    """H-F AMP: its scales, its penalty, and the true delta; one-vs-rest shares the budget."""
    for (X, y), n_outputs in ((binary, 1), (three_classes, 3)):
        with pytest.warns(PrivacyWarning, match="claims"):
            model = AMPClassifier(calibration="published", delta=1e-6).fit(X, y)
        known = published_objective_perturbation(1 / n_outputs, 1e-6 / n_outputs)
        assert model.scale_ == pytest.approx(known.scale * R)
        assert pytest.approx(known.least_penalty * R**2 / 4) == 1 / model.C_
        assert model.release_scale_ == pytest.approx(
            known.release_factor * np.sqrt(n_outputs) * 300 * 1e-10 * model.C_, rel=1e-2
        )
        assert model.guarantee_.epsilon == 1.0
        assert model.guarantee_.delta < 1e-6
        assert model.claimed_.delta == 1e-6


def test_published_amp_with_product_noise_has_no_guarantee(binary):
    with pytest.warns(PrivacyWarning, match="inf"):
        model = AMPClassifier(calibration="published", noise="product", epsilon=0.5).fit(*binary)
    epsilon, delta = 0.99 * 0.5 * (0.887 + 0.019 / 0.5**0.373), 0.99 / 300**2  # the part that is for the noise
    sigma = published_product_noise_scale(epsilon, delta, sensitivity=2 * R, n_dims=9)
    assert model.scale_ == pytest.approx(np.sqrt(2) * sigma)
    assert model.guarantee_.epsilon == np.inf


def test_published_amp_releases_with_product_noise(binary, three_classes, monkeypatch):
    """Step 6 of Algorithm 3: a radius and a direction for each problem, at the scale for epsilon2."""
    draws = []
    monkeypatch.setattr(
        "skdprp.linear_model._objective._noise.add_spherical",
        lambda values, scale, *, shape, power: draws.append((values.copy(), scale, shape, power)) or values.fill(7.0),
    )
    split = {"k": 1000.0, "epsilon2": 0.5, "epsilon3": 0.2, "delta2": 1e-7}
    for (X, y), n_outputs in ((binary, 1), (three_classes, 3)):
        model = AMPClassifier(calibration=Published(**split), noise="product", delta=1e-6)
        with pytest.warns(PrivacyWarning, match="inf"):
            model.fit(X, y)
        known = published_objective_perturbation(
            1.0, 1e-6, n_outputs=n_outputs, n_dims=X.shape[1] + 1, settings=Published(**split)
        )
        assert model.release_scale_ == pytest.approx(
            known.release_factor * np.sqrt(n_outputs) * len(X) * 1e-10 * model.C_, rel=1e-2
        )
        assert model.claimed_.delta == pytest.approx(known.claimed_delta)
        assert [draw[1:] for draw in draws] == [(model.release_scale_, 1, 2)] * n_outputs
        assert [draw[0].size for draw in draws] == [X.shape[1] + 1] * n_outputs
        assert (model.coef_ == 7.0).all() and "half-normal radius release noise" in model.guarantee_.mechanism
        draws.clear()


def test_published_amp_with_far_too_much_noise_has_a_guarantee(three_classes):
    """A delta that is too small for sampled noise to reach made it none."""
    with pytest.warns(PrivacyWarning, match=r"what is true is \(0.01, 1\..*e-67\)-DP"):
        AMPClassifier(calibration="published", epsilon=0.01, delta=1e-30).fit(*three_classes)


def test_published_amp_with_analytic_gaussian_noise(binary):
    """Less noise than by the tail bound, and still more than the guarantee takes."""
    with pytest.warns(PrivacyWarning):
        by_bound = AMPClassifier(calibration="published").fit(*binary)
        analytic = AMPClassifier(calibration=Published(analytic=True)).fit(*binary)
    assert analytic.scale_ < by_bound.scale_ and analytic.release_scale_ < by_bound.release_scale_
    assert by_bound.guarantee_.delta < analytic.guarantee_.delta < 1 / 300**2
    with pytest.raises(ValueError, match="Gaussian noise has epsilon2, epsilon3, delta2, analytic, and not k"):
        AMPClassifier(calibration=Published(k=10.0)).fit(*binary)


def test_accuracy_on_held_out_digits(seeded):
    """Ten classes: close to what is possible at epsilon = 10, far above chance at 1."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    scores = {}
    for epsilon in (1.0, 10.0):
        models = [AMPClassifier(epsilon=epsilon, adjacency="add_remove").fit(X_train, y_train) for _ in range(3)]
        scores[epsilon] = np.mean([model.score(X_test, y_test) for model in models])
    assert scores[1.0] > 0.6
    assert scores[10.0] > 0.88


def test_the_c_that_an_error_names_does():
    """Just above it the same error comes, and at it the fit succeeds."""
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    for epsilon in (0.1, 1.0, 5.0):
        with pytest.raises(ValueError, match="C must be below") as error:
            AMPClassifier(epsilon=epsilon, delta=1e-6, C=1e9).fit(X, y)
        largest = float(re.search(r"C must be below ([\d.e+-]+),", str(error.value)).group(1))
        assert pytest.approx(largest) == AMPClassifier(epsilon=epsilon, delta=1e-6, C=largest).fit(X, y).C_
        with pytest.raises(ValueError, match="C must be below"):
            AMPClassifier(epsilon=epsilon, delta=1e-6, C=1.03 * largest).fit(X, y)


@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_release_noise_hides_the_sampled_term_at_any_tol(calibration):
    """However small tol is, the noise of the release does not fall with it below what sampling of b leaves."""
    X, y = np.random.default_rng(0).normal(size=(100, 30)), np.arange(100) % 2
    scales = []
    for tol in (1e-8, 1e-10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            model = AMPClassifier(epsilon=1.0, calibration=calibration, tol=tol).fit(X, y)
        scales.append((model.release_scale_, model.scale_, model.guarantee_.delta))
    assert scales[0][0] > scales[1][0]
    assert scales[1][2] >= scales[0][2]


def test_weights_of_classes_are_assumed_public_and_only_their_ratio_moves_the_start(seeded):
    """Weights so small that products with shares are no floats made the start nan."""
    X, y = np.eye(8), [0, 1] * 4
    model = AMPClassifier(class_weight={0: 5e-324, 1: 5e-324}, count_labels=True).fit(X, y)
    assert np.isfinite(model.intercept_).all()
    assert any("class_weight" in text for text in model.guarantee_.assumptions)


def test_a_threshold_at_the_prior_is_that_of_the_weighted_classes(seeded):
    """Of one row in twenty, as heavy as the others together, nearly all rows were above the share by number."""
    rng, y = np.random.default_rng(0), np.arange(20_000) % 20 == 0
    X = normalize(np.column_stack([rng.normal(size=20_000) + y, np.ones(20_000)]))
    options = {"threshold": "prior", "epsilon": 10.0, "classes": [False, True]}
    shares = {}
    for name, weights in {"plain": None, "weighted": {False: 0.05}}.items():
        model = AMPClassifier(class_weight=weights, **options).fit(X, y)
        shares[name] = model.predict(X).mean()
        assert 0.04 < model.class_prior_ < 0.06
    assert model.prior_threshold_ == pytest.approx(model.class_prior_ / (0.05 + 0.95 * model.class_prior_))
    assert shares["weighted"] == pytest.approx(shares["plain"], abs=0.1)
