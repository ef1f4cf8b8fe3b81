"""The private linear classifiers as scikit-learn users meet them."""

import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler, normalize

from skdprp import AMPClassifier, DPSGDClassifier, PrivacyWarning, ProductNoiseOutputPerturbation
from skdprp.linear_model import SolverError
from skdprp.linear_model._erm import PerturbedRisk, clip_rows, minimise
from skdprp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss
from skdprp.mechanisms import gaussian_profile, published_product_noise_scale, spherical_profile
from skdprp.mechanisms.objective_perturbation import (
    hessian_log_det,
    objective_perturbation_profile,
    product_perturbation_profile,
    softmax_perturbation_profile,
)
from skdprp.mechanisms.published import published_objective_perturbation
from skdprp.testing import reproducible_noise

BOTH = [AMPClassifier, ProductNoiseOutputPerturbation]
R = np.hypot(1.0, 0.3)  # norm of a row of norm 1 with its constant feature


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(n_samples=300, n_features=8, n_informative=4, random_state=0)
    return normalize(X), y


@pytest.fixture(scope="module")
def three_classes():
    X, y = make_classification(n_samples=300, n_features=8, n_informative=5, n_classes=3, random_state=0)
    return normalize(X), y


@pytest.fixture(scope="module")
def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("estimator", BOTH)
def test_without_noise_it_is_logistic_regression(estimator, binary, three_classes, silenced_noise):
    """Same objective as LogisticRegression, to the tolerance."""
    for X, y in (binary, three_classes):
        model = estimator(C=0.02, fit_intercept=False).fit(X, y)
        peer = LogisticRegression(C=0.02, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
        np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-6)
        np.testing.assert_array_equal(model.predict(X), peer.predict(X))


@pytest.mark.parametrize("estimator", BOTH)
def test_the_intercept_is_a_penalised_constant_feature(estimator, binary, silenced_noise):
    """It equals the weight of an extra column of 0.3, times 0.3."""
    X, y = binary
    model = estimator(C=0.1).fit(X, y)
    peer = LogisticRegression(C=0.1, fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(np.column_stack([X, np.full(len(X), 0.3)]), y)
    np.testing.assert_allclose(model.coef_, peer.coef_[:, :-1], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, 0.3 * peer.coef_[:, -1], atol=1e-6)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("loss", ["log_loss", "huber_hinge"])
def test_one_vs_rest_solves_each_class(estimator, loss, three_classes, silenced_noise):
    """Each row of coef_ is the binary problem of that class; the jobs make no difference."""
    X, y = three_classes
    known = {"C": 0.005, "loss": loss, "multi_class": "ovr", "epsilon": 20.0}
    model, parallel = (estimator(n_jobs=jobs, **known).fit(X, y) for jobs in (None, 2))
    for k in range(3):
        one = estimator(**known).fit(X, y == k)
        np.testing.assert_allclose(model.coef_[k], one.coef_[0], atol=1e-10)
    np.testing.assert_array_equal(model.coef_, parallel.coef_)
    if loss == "log_loss":
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("estimator", BOTH)
def test_probabilities_need_log_loss(estimator, binary):
    model = estimator(loss="huber_hinge").fit(*binary)
    assert not hasattr(model, "predict_proba")
    assert hasattr(estimator(), "predict_proba")


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
def test_sparse_and_float32_give_the_same_model(estimator, multi_class, three_classes, silenced_noise):
    """CSR rows, repeated entries of them, and float32 only differ by rounding."""
    X, y = three_classes
    X = np.where(np.abs(X) > 0.2, X, 0)
    known = {"C": 0.02, "multi_class": multi_class}
    dense = estimator(**known).fit(X, y)
    csr = sp.csr_matrix(X)
    halves = sp.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    for other in (csr, sp.csr_array(X), halves, X.astype(np.float32), csr.astype(np.float32)):
        model = estimator(**known).fit(other, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-6)
        np.testing.assert_allclose(model.decision_function(other), dense.decision_function(X), atol=1e-6)
    assert halves.nnz == 2 * csr.nnz  # the caller's matrix is left alone


def test_sparse_rows_are_never_densified(monkeypatch, three_classes):
    X, y = three_classes

    def refuse(self, *args, **kwargs):
        raise AssertionError("densified")

    csr = sp.csr_matrix(X)
    for kind in (sp.csr_matrix, sp.csr_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    AMPClassifier().fit(csr, y).predict(csr)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_rows_are_clipped(make):
    """Norms end below max_norm, repeated entries counted as their sum; shorter rows stay as they are."""
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e200, 1e200]])
    clipped = clip_rows(make(rows), 1.0)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    assert np.all(np.linalg.norm(clipped, axis=1) <= 1.0)
    np.testing.assert_allclose(clipped[:3], [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], rtol=1e-11)
    repeated = sp.csr_matrix((np.ones(4), [0, 0, 0, 0], [0, 4]), shape=(1, 2))
    assert np.linalg.norm(clip_rows(repeated, 1.0).toarray()) <= 1.0


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.parametrize("label", [None, 1, b"a"])
def test_a_label_of_another_type_is_refused_at_any_place(estimator, place, label):
    """The first label decided for all which error came, and whether one did."""
    y = np.array(["a", "b"] * 3, dtype=object)
    y[place] = label
    with pytest.raises(ValueError, match="Unknown label type: labels are numbers"):
        estimator(delta=1e-6).fit(np.eye(6), y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
def test_whole_labels_beyond_integers_raise_no_warning(estimator):
    assert estimator(delta=1e-6).fit(np.eye(6), [2.0**70, 1] * 3).classes_.tolist() == [1, 2.0**70]


@pytest.mark.parametrize("max_norm", [1e-50, 1e-16, 1.0, 1e50])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_of_all_finite_lengths_end_just_below_the_norm(make, max_norm):
    """Exactly: rows near the end of the floats, whose norm itself may overflow, and near the squares that do."""
    rng = np.random.default_rng(0)
    directions = rng.uniform(0.5, 1, size=(200, 5)) * rng.choice([-1.0, 1.0], size=(200, 5))
    lengths = np.r_[2.0 ** rng.uniform(505, 520, 60), 2.0 ** rng.uniform(170, 1023, 80), [np.finfo(float).max] * 60]
    clipped = clip_rows(make(directions * lengths[:, None]), max_norm)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    squares = [sum(Fraction(value) ** 2 for value in row) for row in clipped.tolist()]
    assert max(squares) <= Fraction(max_norm) ** 2
    assert min(squares) >= (Fraction(max_norm) * (1 - Fraction(1, 2**47))) ** 2
    assert np.linalg.norm(clipped, axis=1).max() <= max_norm


@pytest.mark.parametrize("estimator", BOTH)
def test_data_of_any_scale_need_no_normalizer(estimator, silenced_noise, binary):
    """Rows ten times too long give the model of normalised rows, in prediction too."""
    X, y = binary
    model, other = estimator(C=0.1).fit(X, y), estimator(C=0.1).fit(10 * X, y)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-8)
    np.testing.assert_allclose(other.decision_function(10 * X), model.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("estimator", BOTH)
def test_max_norm_only_sets_the_unit(estimator):
    """Scales, and C, depend on max_norm as the units say."""
    X, y = np.eye(4), [0, 0, 1, 1]
    one, ten = (estimator(max_norm=m).fit(m * X, y) for m in (1.0, 10.0))
    assert pytest.approx(one.C_ / 100, rel=1e-6) == ten.C_
    # The linear term has the unit of a gradient, the noise on the output that of weights.
    unit = 10.0 if estimator is AMPClassifier else 0.1
    assert ten.scale_ == pytest.approx(unit * one.scale_, rel=1e-6)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    "labels", [["spam", "ham"], [True, False], [7, -3], [1.0, 2.0], np.array(["a", "b"], dtype=object)]
)
def test_any_labels(estimator, labels, breast_cancer, silenced_noise):
    X, codes = breast_cancer
    y = np.asarray(labels)[codes]
    model = estimator(C=1.0, epsilon=100.0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert model.score(X, y) > 0.9
    np.testing.assert_array_equal(estimator(C=1.0, epsilon=100.0, classes=labels).fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize("estimator", BOTH)
def test_public_classes_may_be_absent_from_the_data(estimator, binary):
    """A class without rows still has weights, and the guarantee says that the labels were given."""
    X, y = binary
    model = estimator(classes=[0, 1, 2]).fit(X, y)
    assert model.coef_.shape == (3, 8)
    assert model.predict_proba(X).shape == (300, 3)


@pytest.mark.parametrize("estimator", [*BOTH, DPSGDClassifier])
def test_labels_that_are_read_off_the_rows_condition_the_guarantee(estimator, binary):
    """A class of one row shows that it is there, unless `classes` lists it: a neighbour without it has others."""
    X, y = binary
    alone = np.where(np.arange(300) == 7, 2, y)
    found = [estimator(max_norm=1.0).fit(X, labels) for labels in (y, alone)]
    listed = [estimator(max_norm=1.0, classes=range(3)).fit(X, labels) for labels in (y, alone)]
    assert [len(model.classes_) for model in found + listed] == [2, 3, 3, 3]
    for model in found:
        assert model.guarantee_.given == "the set of labels"
        assert repr(model.guarantee_).endswith("one row replaced, given the set of labels")
        assert not any("labels" in fact for fact in model.guarantee_.assumptions)
    for model in listed:
        assert model.guarantee_.given == ""
        assert repr(model.guarantee_).endswith("one row replaced")
        assert "the labels listed in classes do not come from the data" in model.guarantee_.assumptions


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(300)}, "one class"),
        ({"classes": [0]}, "one class"),
        ({"classes": [0, 2]}, "not among `classes`"),
        ({"X": np.zeros((300, 8))}, "zero"),
        ({"X": sp.csr_matrix((300, 8))}, "zero"),
        ({"X": np.full((300, 8), np.nan)}, "NaN"),
        ({"X": np.full((300, 8), np.inf)}, "infinity"),
        ({"loss": "huber_hinge", "multi_class": "multinomial"}, "log_loss"),
        ({"y": np.linspace(0, 1, 300)}, "Unknown label type"),
        ({"calibration": "published", "adjacency": "add_remove"}, "replace_one"),
    ],
)
def test_errors(estimator, change, message, binary):
    data = {"X": binary[0], "y": binary[1]} | {name: change[name] for name in ("X", "y") if name in change}
    with pytest.raises(ValueError, match=message):
        estimator(**{name: change[name] for name in change.keys() - data.keys()}).fit(**data)


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


@pytest.mark.parametrize(
    ("estimator", "change", "message"),
    [
        (AMPClassifier, {"calibration": "published", "C": 1.0}, "C of at most"),
        (AMPClassifier, {"calibration": "published", "multi_class": "multinomial"}, "ovr"),
        (ProductNoiseOutputPerturbation, {"calibration": "published"}, "chi1"),
        (ProductNoiseOutputPerturbation, {"delta": 0, "radius": "chi1"}, "delta=0"),
        (ProductNoiseOutputPerturbation, {"delta": 0, "radius": "gaussian"}, "delta=0"),
        (ProductNoiseOutputPerturbation, {"radius": "gaussian", "calibration": "published"}, "analytic"),
    ],
)
def test_errors_of_calibrations(estimator, change, message, three_classes):
    with pytest.raises(ValueError, match=message):
        estimator(**change).fit(*three_classes)


@pytest.mark.parametrize("estimator", BOTH)
def test_sample_weight_is_refused(estimator, binary):
    with pytest.raises(TypeError):
        estimator().fit(*binary, sample_weight=np.ones(300))


@pytest.mark.parametrize("estimator", BOTH)
def test_a_solver_that_falls_short_releases_nothing(estimator, binary):
    """The error has no number from the data, and there are no weights."""
    model = estimator(max_iter=1)
    with pytest.raises(SolverError, match="max_iter=1"):
        model.fit(*binary)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHingeLoss()])
def test_the_solver_reaches_its_tolerance(loss):
    """On problems of all sizes, penalties and perturbations; the kinks of the hinge make no cycles."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n, d = rng.integers(10, 100), rng.integers(1, 10)
        X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1)
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if seed % 2 else np.where(X[:, 0] > 0, 1.0, -1.0)
        norm = np.linalg.norm(X, axis=1).max()
        perturbation = rng.normal(size=d + 1) * rng.choice([0, 1, 10]) * norm
        penalty = 10 ** rng.uniform(-2, 2) * norm**2
        risk = PerturbedRisk(X, y, loss, penalty=penalty, intercept=0.3 * norm, perturbation=perturbation)
        weights = minimise(risk, 1e-10 * n * norm, 100)
        assert np.linalg.norm(risk.gradient(weights, risk.scores(weights))) <= 1e-10 * n * norm


@pytest.mark.parametrize("estimator", BOTH)
def test_extreme_rows_are_solved(estimator):
    """Huge, tiny and constant features, separable labels, one row of a class: the tolerance is reached all the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * np.array([1e12, 1e-12, 1.0, 0.0, 1e-3])
    y = np.arange(200) == 7
    for loss in ("log_loss", "huber_hinge"):
        for max_norm in (1e-50, 1e-3, 1e3, 1e50):
            model = estimator(loss=loss, max_norm=max_norm, epsilon=100.0).fit(X, y)
            assert np.all(np.isfinite(model.coef_))


# Guarantees


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_amp_meets_its_guarantee(adjacency, epsilon, binary, three_classes):
    """The profile at the scales that the model reports is at most delta, and is not at smaller scales."""
    X, y = binary
    model = AMPClassifier(epsilon=epsilon, adjacency=adjacency).fit(X, y)
    assert model.delta_ == model.guarantee_.delta == 1 / 300**2
    log_det = hessian_log_det(LogisticLoss(), max_norm=R, penalty=1 / model.C_)
    known = {"lipschitz": R, "log_det": log_det, "adjacency": adjacency, "release_shift": epsilon / 300}
    for share, holds in ((1.0, True), (0.999, False)):
        delta = objective_perturbation_profile(epsilon, scale=share * model.scale_, **known)
        assert (delta <= model.delta_) == holds
    X, y = three_classes
    model = AMPClassifier(epsilon=epsilon, adjacency=adjacency).fit(X, y)
    log_det = hessian_log_det(SoftmaxLoss(3), max_norm=R, penalty=1 / model.C_)
    known = {"n_classes": 3, "max_norm": R, "log_det": log_det, "adjacency": adjacency, "release_shift": epsilon / 300}
    for share, holds in ((1.0, True), (0.999, False)):
        delta = softmax_perturbation_profile(epsilon, scale=share * model.scale_, **known)
        assert (delta <= model.delta_) == holds


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_amp_with_product_noise_meets_its_guarantee(adjacency, binary, three_classes):
    """The noise of the release takes one percent; one-vs-rest problems share the rest evenly."""
    for (X, y), known, n_outputs in ((binary, {}, 1), (three_classes, {"multi_class": "ovr"}, 3)):
        model = AMPClassifier(noise="product", adjacency=adjacency, **known).fit(X, y)
        log_det = hessian_log_det(LogisticLoss(), max_norm=R, penalty=1 / model.C_)
        for share, holds in ((1.0, True), (0.999, False)):
            delta = product_perturbation_profile(
                0.99 / n_outputs,
                scale=share * model.scale_,
                n_dims=9,
                lipschitz=R,
                log_det=log_det,
                adjacency=adjacency,
            )
            assert (delta <= 0.99 * model.delta_ / n_outputs) == holds
        accuracy = np.sqrt(n_outputs) * 300 * 1e-10
        release = gaussian_profile(0.01, scale=model.release_scale_, sensitivity=2 * accuracy * model.C_)
        assert release <= 0.01 * model.delta_


def test_release_noise_hides_what_the_solver_leaves(binary):
    """Two solutions of the same exact minimiser are at most epsilon / 300 deviations of the release noise apart."""
    model = AMPClassifier(epsilon=2.0, tol=1e-7).fit(*binary)
    assert 2 * 300 * 1e-7 * model.C_ / model.release_scale_ <= 2.0 / 300


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("radius", ["gamma", "gaussian", "chi1"])
def test_output_perturbation_meets_its_guarantee(adjacency, radius, binary, three_classes):
    """The sensitivity is that of the minimiser and the solver; the scale is the least that meets delta."""
    rows = 2 if adjacency == "replace_one" else 1
    for (X, y), factor, n_dims in ((binary, 1.0, 9), (three_classes, np.sqrt(2), 27)):
        model = ProductNoiseOutputPerturbation(adjacency=adjacency, radius=radius).fit(X, y)
        assert model.sensitivity_ == pytest.approx(rows * factor * R * model.C_, rel=1e-6)
        assert model.sensitivity_ > rows * factor * R * model.C_
        for share, holds in ((1.0, True), (0.9999, False)):
            known = {"scale": share * model.scale_, "sensitivity": model.sensitivity_}
            if radius == "gaussian":
                delta = gaussian_profile(1.0, **known)
            else:
                law = {"shape": n_dims, "power": 1} if radius == "gamma" else {"shape": 1, "power": 2}
                delta = spherical_profile(1.0, n_dims=n_dims, **law, **known)
            assert (delta <= model.delta_) == holds


def test_output_perturbation_can_be_pure(binary):
    model = ProductNoiseOutputPerturbation(delta=0, epsilon=0.7, classes=[0, 1]).fit(*binary)
    assert repr(model.guarantee_) == "0.7-DP, one row replaced"
    assert model.scale_ == pytest.approx(model.sensitivity_ / 0.7)


def test_gamma_radius_has_less_noise_than_gaussian(binary):
    """For nine weights, less than two thirds of the mean squared noise."""
    gamma, gaussian = (
        ProductNoiseOutputPerturbation(radius=radius, C=0.1).fit(*binary).scale_ for radius in ("gamma", "gaussian")
    )
    assert 9 * 10 * gamma**2 < 0.67 * 9 * gaussian**2


def test_published_product_noise_is_the_papers_and_says_what_is_true():
    """At 784 weights the claimed delta of 1e-5 is .73 in truth."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 784)), np.arange(20) % 2
    model = ProductNoiseOutputPerturbation(
        radius="chi1", calibration="published", delta=1e-5, fit_intercept=False, C=0.1
    )
    with pytest.warns(PrivacyWarning, match="what is true"):
        model.fit(X, y)
    sigma = published_product_noise_scale(1.0, 1e-5, sensitivity=2 * 0.1, n_dims=784)
    assert model.scale_ == pytest.approx(np.sqrt(2) * sigma, rel=1e-12)
    assert 0.72 <= model.guarantee_.delta <= 0.74
    assert (model.claimed_.epsilon, model.claimed_.delta) == (1.0, 1e-5)
    assert "as claimed" in repr(model.claimed_)
    model.set_params(calibration="exact").fit(X, y)
    assert not hasattr(model, "claimed_")
    assert model.guarantee_.delta == 1e-5


def test_published_gaussian_output_noise(binary):
    with pytest.warns(PrivacyWarning):
        model = ProductNoiseOutputPerturbation(
            radius="gaussian", calibration="published", epsilon=0.5, delta=1e-5, C=0.1
        ).fit(*binary)
    assert model.scale_ == pytest.approx(2 * R * 0.1 * np.sqrt(2 * np.log(1.25e5)) / 0.5)
    assert model.guarantee_.delta < 1e-5


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


@pytest.mark.parametrize("estimator", BOTH)
def test_the_guarantee_is_stated_in_full(estimator, binary):
    text = " ".join(str(estimator(epsilon=0.5, adjacency="add_remove").fit(*binary).guarantee_).split())
    for fact in (
        "one row blank or not, given the set of labels",
        "differ at one place: a row and its label in the one, a blank in the other",
        "coef_ and intercept_",
        "perturbation",
        "number of rows, blank ones included, is public, and sets C_, delta_ and the noise",
    ):
        assert fact in text
    text = " ".join(str(estimator(classes=[0, 1]).fit(*binary).guarantee_).split())
    for fact in (
        "one row replaced",
        "differ in one row and its label, at the same place",
        "number of rows is public, and sets C_, delta_ and the noise",
        "labels listed in classes do not come from the data",
    ):
        assert fact in text
    assert "given the set" not in text
    with reproducible_noise(0):
        seeded = estimator().fit(*binary)
    assert seeded.guarantee_.seeded
    assert not estimator().fit(*binary).guarantee_.seeded


@pytest.mark.parametrize("estimator", BOTH)
def test_everything_fitted_but_the_weights_depends_on_public_facts_only(estimator, three_classes):
    """Other rows and labels of the same shape change coef_ and intercept_, and nothing else."""
    X, y = three_classes
    rng = np.random.default_rng(1)
    one, other = estimator().fit(X, y), estimator().fit(rng.normal(size=X.shape), rng.permutation(y))
    released = {"coef_", "intercept_"}
    for name in vars(one).keys() - released - {"classes_"}:
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.classes_, other.classes_)
    assert released < vars(one).keys() == vars(other).keys()


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHingeLoss()])
def test_auto_c_leaves_most_of_epsilon_to_the_noise(loss, binary):
    """The log-determinant takes at most an eighth, at any epsilon."""
    name = "log_loss" if isinstance(loss, LogisticLoss) else "huber_hinge"
    for epsilon in (0.01, 0.1, 1.0, 10.0, 100.0):
        model = AMPClassifier(epsilon=epsilon, loss=name).fit(*binary)
        assert hessian_log_det(loss, max_norm=R, penalty=1 / model.C_) <= 0.12501 * epsilon


# With the rest of scikit-learn


@pytest.mark.parametrize("estimator", BOTH)
def test_model_selection(estimator, breast_cancer, seeded):
    X, y = breast_cancer
    pipe = make_pipeline(Normalizer(), estimator(epsilon=20.0))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.7
    name = f"{estimator.__name__.lower()}__"
    search = GridSearchCV(pipe, {f"{name}epsilon": [0.5, 20.0], f"{name}C": [0.05, "auto"]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].guarantee_.epsilon == search.best_params_[f"{name}epsilon"]
    calibrated = CalibratedClassifierCV(estimator(epsilon=20.0), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(X), 2)


@pytest.mark.parametrize("estimator", BOTH)
def test_clone_and_pickle(estimator, binary):
    """A pickled model predicts alike; a clone has parameters and no weights."""
    model = estimator(epsilon=2.0).fit(*binary)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(binary[0]), model.decision_function(binary[0]))
    assert copy.guarantee_ == model.guarantee_
    assert not hasattr(clone(model), "coef_")


@pytest.mark.parametrize("estimator", BOTH)
def test_feature_names(estimator, binary):
    X = pd.DataFrame(binary[0], columns=[f"f{i}" for i in range(8)])
    model = estimator().fit(X, pd.Series(binary[1]))
    assert list(model.feature_names_in_) == list(X.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


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


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_huge_rows_keep_their_direction(form):
    """Rows whose squares overflow are clipped like any other."""
    X = np.array([[3e200, 4e200], [3.0, 4.0], [0.1, 0.2]])
    clipped = clip_rows(form(X), 1.0)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    assert np.allclose(clipped, [[0.6, 0.8], [0.6, 0.8], [0.1, 0.2]])


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
    for tol in (1e-10, 1e-12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            model = AMPClassifier(epsilon=1.0, calibration=calibration, tol=tol).fit(X, y)
        scales.append((model.release_scale_, model.scale_, model.guarantee_.delta))
    assert scales[0][0] > scales[1][0]
    assert scales[1][2] >= scales[0][2]
