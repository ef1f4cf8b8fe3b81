"""DPSGDClassifier as scikit-learn users meet it: what it learns, releases, keeps and refuses."""

import multiprocessing
import pickle
import sys
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdprp import DPSGDClassifier, PrivacyGuarantee, PrivacyWarning, _noise, compose
from skdprp.guarantee import Adjacency, Definition
from skdprp.mechanisms import (
    Published,
    published_product_noise_delta,
    published_product_noise_scale,
    sampled_target,
    spherical_profile,
    subsampled_gaussian_profile,
)
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon
from skdprp.mechanisms.noisy_steps import (
    amplified,
    composed_profile,
    descent_scale,
    product_descent_scale,
    sampled_steps_target,
)
from skdprp.mechanisms.published import published_product_descent
from skdprp.neural_network._network import score
from skdprp.testing import reproducible_noise

CONFIGURATIONS = [
    {},
    {"max_norm": 1.0, "n_epochs": 30},
    {"batch_size": 20, "n_epochs": 3},
    {"hidden_layer_sizes": (8,), "batch_size": 30, "n_epochs": 5, "epsilon": 4.0},
    {"hidden_layer_sizes": (4, 4), "batch_size": None, "n_epochs": 5},
    {"adjacency": "add_remove", "preconditioner": False},
    {"adjacency": "add_remove", "batch_size": 20, "n_epochs": 3},
]


@pytest.mark.parametrize("known", CONFIGURATIONS, ids=str)
def test_accounted_epsilon_never_passes_the_target(known):
    """The profile of what was released, sampling and rounding paid for, stays below delta."""
    X = np.random.default_rng(0).normal(size=(100, 4))
    model = DPSGDClassifier(**known).fit(X, np.arange(100) % 2)
    steps = {"rate": model.sampling_rate_, "n_steps": model.n_iter_, "adjacency": model.adjacency}
    assert model.guarantee_.adjacency == Adjacency(model.adjacency)
    assert model.guarantee_.loss.profile(model.epsilon) == pytest.approx(model.delta_, rel=0.02)
    assert model.guarantee_.epsilon == model.epsilon
    assert model.guarantee_.delta == model.delta_ == 1e-4
    assert subsampled_gaussian_profile(model.epsilon, scale=model.noise_multiplier_, **steps) <= model.delta_
    assert subsampled_gaussian_profile(model.epsilon, scale=0.99 * model.noise_multiplier_, **steps) > model.delta_


def test_fits_compose_with_each_other():
    """Two full-batch fits are one Gaussian release; with a sampled one the total is between the larger and the sum."""
    X, y = np.random.default_rng(0).normal(size=(100, 4)), np.arange(100) % 2
    full = DPSGDClassifier(n_epochs=20).fit(X, y).guarantee_
    assert full.loss.profile(1.0) == pytest.approx(full.delta, rel=1e-3)
    closed_form = gaussian_epsilon(2e-4, scale=1 / full.loss.mu, sensitivity=np.sqrt(2))
    assert compose(full, full).epsilon == pytest.approx(closed_form, rel=1e-3)
    sampled = DPSGDClassifier(n_epochs=2, batch_size=20).fit(X, y).guarantee_
    assert sampled.loss.profile(1.0) == pytest.approx(sampled.delta, rel=0.02)
    assert 1.0 < compose(full, sampled).epsilon < 2.0
    assert PrivacyGuarantee.from_dict(sampled.to_dict()) == sampled
    pair = DPSGDClassifier(n_epochs=2, noise="product").fit(X, y).guarantee_
    assert pair.loss is None


@pytest.mark.parametrize(("noise", "price"), [("gaussian", sampled_steps_target), ("product", sampled_target)])
def test_dependent_noise_is_priced_at_its_worst(noise, price):
    """The price of many values counts on their independence, which the coordinates of product noise do not have."""
    X = np.random.default_rng(0).normal(size=(50, 2000))
    model = DPSGDClassifier(noise=noise, n_epochs=40, delta=1e-6, max_norm=None).fit(X, np.arange(50) % 2)
    target = price(1.0, 1e-6, n_changed=40 * 2001)
    assert sampled_steps_target(1.0, 1e-6, n_changed=40 * 2001) != sampled_target(1.0, 1e-6, n_changed=40 * 2001)
    scale = {"gaussian": descent_scale, "product": partial(product_descent_scale, n_dims=2001)}[noise]
    assert model.noise_multiplier_ == pytest.approx(scale(*target, n_steps=40), rel=1e-9)


@pytest.mark.parametrize("known", CONFIGURATIONS[1:], ids=str)
def test_every_step_lies_on_a_public_grid(known, monkeypatch):
    """What a step releases is a multiple of a power of two that depends on the scale alone."""
    seen, add = [], _noise.add_gaussian

    def _record(values, scale):
        add(values, scale)
        seen.append(values / _noise._grid(scale))

    monkeypatch.setattr(_noise, "add_gaussian", _record)
    X = np.random.default_rng(0).normal(size=(100, 4))
    DPSGDClassifier(**known).fit(X, np.arange(100) % 2)
    seen = np.concatenate(seen)
    np.testing.assert_array_equal(seen, np.rint(seen))


TWO_CLASSES = np.random.default_rng(0).normal(size=(60, 8)), np.arange(60) % 2


def test_published_product_noise_keeps_apart_what_it_claims_and_what_is_true():
    X, y = TWO_CLASSES
    model = DPSGDClassifier(n_epochs=5, noise="product", calibration="published", epsilon=1.0, delta=1e-5)
    with pytest.warns(PrivacyWarning, match="what is true"):
        model.fit(X, y)
    assert (model.claimed_.epsilon, model.claimed_.delta) == (1.0, 1e-5)
    assert model.claimed_.definition is Definition.CLAIMED_DP
    assert model.claimed_.adjacency == Adjacency("replace_one")
    assert model.guarantee_.epsilon == 1.0 and model.guarantee_.delta > 1000 * 1e-5
    with pytest.warns(PrivacyWarning):
        model.fit(X, y)
    assert not hasattr(model.set_params(calibration="exact").fit(X, y), "claimed_")


def test_true_delta_of_published_product_noise_is_that_of_one_step():
    scale, true_delta, claimed_delta = published_product_descent(1.0, 1e-5, n_dims=784)
    step = spherical_profile(1.0, scale=scale, sensitivity=2.0, n_dims=784, shape=1, power=2)
    assert true_delta == pytest.approx(step, abs=0.05) and true_delta > 0.5
    assert claimed_delta == 1e-5
    assert published_product_descent(1.0, 1e-5, n_steps=5, n_dims=784)[1] > true_delta


def test_published_calibration_is_for_product_noise():
    with pytest.raises(ValueError, match="noise='product'"):
        DPSGDClassifier(calibration="published").fit(*TWO_CLASSES)


def test_steps_of_algorithm_4():
    """Initial epsilon and k, as in Table 12: the noise is for a distance of 2 C, whatever epsilon and delta."""
    steps = {"batch_size": 20, "n_epochs": 2, "max_norm": None, "max_grad_norm": 1.5, "delta": 1e-5}
    table = Published(step_epsilon=0.3, k=40_000.0)
    with pytest.warns(PrivacyWarning, match="what is true"):
        model = DPSGDClassifier(noise="product", calibration=table, epsilon=0.99, **steps).fit(*TWO_CLASSES)
    t = 0.3 * published_product_noise_scale(0.3, 1e-5, n_dims=9, k=40_000.0)
    assert model.scale_ == pytest.approx(np.sqrt(2) * 2 * 1.5 * t / 0.3, rel=1e-2)  # rounding has a margin
    step = amplified(0.3, published_product_noise_delta(0.3, k=40_000.0, n_dims=9), rate=1 / 3)
    claimed = composed_profile(0.99, step_epsilon=step[0], step_delta=step[1], n_steps=6)
    assert model.claimed_.delta == pytest.approx(claimed, rel=1e-6)
    known = {"scale": np.sqrt(2) * 2 * t / 0.3, "sensitivity": 2.0, "n_dims": 9, "shape": 1, "power": 2}
    step = amplified(0.3, spherical_profile(0.3, **known), rate=1 / 3)
    true = composed_profile(0.99, step_epsilon=step[0], step_delta=step[1], n_steps=6)
    assert model.guarantee_.delta == pytest.approx(true, rel=1e-6) and true > claimed


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_noise_multiplier_has_the_delta_that_it_has(adjacency):
    """What is given is the noise; the guarantee says what that gives at epsilon, and nothing else is claimed."""
    known = {"batch_size": 20, "n_epochs": 2, "adjacency": adjacency, "epsilon": 2.0}
    model = DPSGDClassifier(calibration=Published(noise_multiplier=1.3), **known).fit(*TWO_CLASSES)
    assert 1.3 <= model.noise_multiplier_ < 1.3 * 1.01
    delta = subsampled_gaussian_profile(2.0, scale=1.3, rate=1 / 3, n_steps=6, adjacency=adjacency)
    assert model.guarantee_.epsilon == 2.0
    assert delta <= model.guarantee_.delta <= delta * (1 + 1e-5) + 1e-10
    assert not hasattr(model, "claimed_")
    exact = DPSGDClassifier(delta=model.guarantee_.delta, **known).fit(*TWO_CLASSES)
    assert exact.noise_multiplier_ == pytest.approx(model.noise_multiplier_, rel=2e-3)


def test_a_delta_below_what_sampled_noise_reaches_is_rounded_up():
    """It would have made a strong guarantee none at all."""
    known = {"calibration": Published(noise_multiplier=1e4), "batch_size": None, "n_epochs": 5}
    model = DPSGDClassifier(**known).fit(*TWO_CLASSES)
    assert model.guarantee_.epsilon == 1.0 and 0 < model.guarantee_.delta < 1e-60


@pytest.mark.parametrize(
    "known, message",
    [
        ({"calibration": Published(k=10.0)}, "Gaussian noise of steps has noise_multiplier, and not k"),
        ({"calibration": Published(noise_multiplier=1.0), "preconditioner": True}, "preconditioner=False"),
        ({"noise": "product", "calibration": Published(k=10.0)}, "needs a step_epsilon"),
        ({"noise": "product", "calibration": Published(noise_multiplier=1.0)}, "has step_epsilon, k, and not noise"),
        ({"noise": "product", "calibration": "published", "adjacency": "add_remove"}, "replace_one"),
    ],
)
def test_published_settings_of_other_noise_are_refused(known, message):
    with pytest.raises(ValueError, match=message):
        DPSGDClassifier(**known).fit(*TWO_CLASSES)


@pytest.mark.parametrize("hidden", [(), (5,), (4, 3)])
def test_scores_are_those_of_mlp_classifier(hidden, three_classes, seeded):
    """The same weights in scikit-learn's network give the same probabilities."""
    X, y = three_classes
    ours = DPSGDClassifier(hidden_layer_sizes=hidden, batch_size=None, n_epochs=3, max_norm=None).fit(X, y)
    peer = MLPClassifier(hidden or (1,), max_iter=1).partial_fit(X, y, classes=ours.classes_)
    peer.coefs_, peer.intercepts_, peer.n_layers_ = ours.coefs_, ours.intercepts_, len(ours.coefs_) + 1
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(
        ours.decision_function(X), score("relu", zip(ours.coefs_, ours.intercepts_, strict=True), X)
    )


@pytest.mark.parametrize("known", [{}, {"max_norm": 0.7}, {"hidden_layer_sizes": (5,), "batch_size": None}], ids=str)
def test_sparse_and_float32_give_the_same_model(known, three_classes, silenced_noise):
    """CSR rows, repeated entries of them, and float32 only differ by rounding."""
    X, y = three_classes
    X = np.where(np.abs(X) > 0.2, X, 0)
    known = {"n_epochs": 20, "learning_rate": 1.0, "activation": "tanh"} | known
    dense = DPSGDClassifier(**known).fit(X, y)
    csr = sp.csr_matrix(X)
    halves = sp.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    for other in (csr, sp.csr_array(X), halves, X.astype(np.float32), csr.astype(np.float32), pd.DataFrame(X)):
        model = DPSGDClassifier(**known).fit(other, y)
        for ours, theirs in zip(model.coefs_, dense.coefs_, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        np.testing.assert_allclose(model.decision_function(other), dense.decision_function(X), atol=1e-6)
    assert halves.nnz == 2 * csr.nnz  # the caller's matrix is left alone


def fitted_weights(pickled, X, y):
    return pickle.loads(pickled).fit(X, y).coefs_[0].ravel()


@pytest.mark.parametrize("known", [{}, {"hidden_layer_sizes": (3,), "batch_size": 150}, {"noise": "product"}], ids=str)
def test_every_fit_has_noise_of_its_own(known, binary):
    """Refits, clones, unpickled copies and forked processes: no two fits agree in more than one weight or so."""
    X, y = binary
    model = DPSGDClassifier(n_epochs=2, **known)
    pickled = pickle.dumps(model)
    model.fit(X, y)  # calibrates once, before the fork
    with multiprocessing.get_context("fork").Pool(2) as pool:
        weights = pool.starmap(fitted_weights, [(pickled, X, y)] * 4)
    weights += [model.fit(X, y).coefs_[0].ravel() for _ in range(2)]
    weights += [clone(model).fit(X, y).coefs_[0].ravel(), fitted_weights(pickle.dumps(model), X, y)]
    agree = [np.mean(a == b) for a, b in combinations(weights, 2)]  # noisy sums lie on a grid
    assert len(weights) == 8
    assert max(agree) < 0.5


def test_seeded_noise_repeats_itself_and_says_so(binary):
    X, y = binary
    fits = []
    for _ in range(2):
        with reproducible_noise(0):
            fits.append(DPSGDClassifier(hidden_layer_sizes=(3,), batch_size=150, n_epochs=2).fit(X, y))
    np.testing.assert_array_equal(fits[0].coefs_[0], fits[1].coefs_[0])
    assert fits[0].guarantee_.seeded
    assert "seeded" in repr(fits[0].guarantee_)


# Behaviour


def test_nothing_of_the_rows_is_kept(binary):
    """What a fitted model holds is public, or released weights."""
    X, y = binary
    model = DPSGDClassifier(n_epochs=2).fit(X, y)
    fitted = {name for name in vars(model) if name not in model.get_params()}
    assert fitted == {
        *("coefs_", "intercepts_", "classes_", "guarantee_", "delta_", "scale_"),
        *("n_iter_", "sampling_rate_", "learning_rate_", "sensitivity_", "noise_multiplier_", "n_features_in_"),
        *("momentum_", "preconditioner_scale_"),
        *("_calibrated_for", "_stated_guarantee"),  # the parameters, and the guarantee once more
        *("_routed_in", "_fit_name", "_fitted_behind"),
    }
    assert model._calibrated_for == model.get_params()
    network = model.set_params(hidden_layer_sizes=(3,), batch_size=None).fit(X, y)
    assert not hasattr(network, "coef_")
    assert not hasattr(network, "intercept_")


def test_max_norm_bounds_the_gradients_of_linear_models(binary, three_classes):
    """Nothing is clipped then, whatever max_grad_norm is."""
    for X, y in (binary, three_classes):
        K = y.max() + 1
        model = DPSGDClassifier(max_norm=2.0, max_grad_norm=1e-3, n_epochs=1).fit(X, y)
        assert model.sensitivity_ == pytest.approx(np.hypot(2.0, 0.6) * (0.5 if K == 2 else np.sqrt(2 / 3)))
    network = DPSGDClassifier(max_norm=2.0, max_grad_norm=0.1, hidden_layer_sizes=(2,), batch_size=None, n_epochs=1)
    assert network.fit(X, y).sensitivity_ == 0.1


def test_rows_of_linear_models_are_clipped_by_default(binary, seeded):
    X, y = binary
    model = DPSGDClassifier(n_epochs=2).fit(X, y)
    np.testing.assert_allclose(model.decision_function(1e3 * X), model.decision_function(1e6 * X), rtol=1e-9)
    network = DPSGDClassifier(n_epochs=2, hidden_layer_sizes=(3,), batch_size=None).fit(X, y)
    assert not np.allclose(network.decision_function(1e3 * X), network.decision_function(1e6 * X))


@pytest.mark.parametrize("shares", [(0.2, 0.8), (0.7, 0.2, 0.1), (0.05, 0.05, 0.3, 0.6)], ids=str)
def test_probabilities_are_the_shares_of_labels_among_equal_rows(shares, silenced_noise):
    """Where descent has come to rest: the cap holds rows of rare labels back, and probabilities allow for it."""
    y = np.repeat(np.arange(len(shares)), np.rint(np.multiply(shares, 100)).astype(int))
    model = DPSGDClassifier(n_epochs=1500, learning_rate=2.0).fit(np.ones((100, 1)), y)
    np.testing.assert_allclose(model.predict_proba([[3.0]])[0], shares, atol=1e-6)
    assert not np.allclose(softmax(np.resize(model.decision_function([[3.0]]), len(shares))), shares, atol=1e-2)
    assert model.predict([[3.0]]) == np.argmax(shares)


def test_probabilities_of_rows_that_say_little_are_as_good_as_the_shares_of_classes():
    """Rows of norm 3, which clipped gradients have biased to a third of the truth; at a seed."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.uniform(-1, 1, (20_000, 2)), 8**0.5 * np.eye(40)[rng.integers(40, size=20_000)]])
    y = (rng.uniform(size=20_000) < expit(X[:, 0] / 2 - 1.2)).astype(int)
    with reproducible_noise(0):
        losses = {}
        for max_norm in ("auto", None):
            model = DPSGDClassifier(max_norm=max_norm, adjacency="add_remove").fit(X, y)
            losses[max_norm] = log_loss(y, model.predict_proba(X)) / log_loss(y, np.full(len(y), y.mean()))
    assert losses["auto"] < 1 < losses[None]


def test_scores_clip_rows_as_fit_does(binary, seeded):
    X, y = binary
    model = DPSGDClassifier(max_norm=0.5).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(100 * X), rtol=1e-9)


def test_one_hidden_layer_may_be_a_number(binary):
    model = DPSGDClassifier(hidden_layer_sizes=3, batch_size=None, n_epochs=1).fit(*binary)
    assert [coef.shape for coef in model.coefs_] == [(8, 3), (3, 1)]


def test_it_learns(digits):
    """Far above chance, at a seed: linear, and with a hidden layer."""
    X, y = digits
    with reproducible_noise(0):
        assert DPSGDClassifier(epsilon=3.0).fit(X / 4, y).score(X / 4, y) > 0.85
        network = DPSGDClassifier(epsilon=10.0, hidden_layer_sizes=(32,), batch_size=None, n_epochs=100)
        assert network.fit(X, y).score(X, y) > 0.8


def test_pipelines_searches_and_names(binary):
    X, y = binary
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    labels = np.array(["no", "yes"])[y]
    pipe = make_pipeline(Normalizer().set_output(transform="pandas"), DPSGDClassifier(n_epochs=5))
    search = GridSearchCV(pipe, {"dpsgdclassifier__epsilon": [0.1, 10.0]}, cv=2).fit(frame, labels)
    assert set(search.predict(frame)) <= {"no", "yes"}
    assert list(search.best_estimator_[-1].feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"hidden_layer_sizes": (3, 0)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": (3.5,)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": [[3]]}, "hidden_layer_sizes must be positive integers"),
        ({"classes": [0, 2]}, "y has labels that are not among"),
        ({"delta": 1.0}, "delta"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"max_norm": 0.0}, "max_norm"),
        ({"batch_size": 0}, "batch_size"),
        ({"epsilon": 1e-7, "n_epochs": 1000}, "too small"),
    ],
)
def test_errors_before_anything_is_drawn(known, message, binary, monkeypatch):
    """A refused fit has drawn no noise and set no attribute."""
    monkeypatch.setattr(_noise, "random_bytes", None)
    model = DPSGDClassifier(**known)
    with pytest.raises(ValueError, match=message):
        model.fit(*binary)
    assert not hasattr(model, "guarantee_")
    assert not hasattr(model, "coefs_")


def test_a_failed_refit_keeps_the_earlier_release_whole(binary):
    X, y = binary
    model = DPSGDClassifier(n_epochs=2).fit(X, y)
    before = (model.guarantee_, model.coefs_)
    with pytest.raises(ValueError, match="among"):
        model.set_params(classes=[0, 2]).fit(X, y)
    assert (model.guarantee_, model.coefs_) == before


def test_missing_accountant_is_named(binary, monkeypatch):
    """Sampling needs dp-accounting; the full batch does not."""
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    DPSGDClassifier(n_epochs=2).fit(*binary)
    with pytest.raises(ImportError, match=r'pip install "skdprp\[pld\]"'):
        DPSGDClassifier(batch_size=77, n_epochs=3).fit(*binary)
