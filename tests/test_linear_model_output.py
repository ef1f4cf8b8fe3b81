"""ProductNoiseOutputPerturbation: its calibrations meet its guarantee, or say what is true."""

import numpy as np
import pytest
from sklearn.base import clone

from skdprp import PrivacyWarning, ProductNoiseOutputPerturbation
from skdprp.guarantee import Adjacency, Definition
from skdprp.mechanisms import (
    Published,
    gaussian_profile,
    published_product_noise_delta,
    published_product_noise_scale,
    spherical_profile,
)

R = np.hypot(1.0, 0.3)  # norm of a row of norm 1 with its constant feature


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("radius", ["gamma", "gaussian", "chi1"])
def test_output_perturbation_meets_its_guarantee(adjacency, radius, binary, three_classes):
    """The sensitivity is that of the minimiser and the solver; the scale is the least that meets delta."""
    rows = 2 if adjacency == "replace_one" else 1
    for (X, y), factor, n_dims in ((binary, 1.0, 9), (three_classes, np.sqrt(2), 27)):
        model = ProductNoiseOutputPerturbation(loss="log_loss", adjacency=adjacency, radius=radius).fit(X, y)
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
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (0.7, 0.0)
    assert model.guarantee_.definition is Definition.DP and model.guarantee_.adjacency == Adjacency("replace_one")
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
    assert model.claimed_.definition is Definition.CLAIMED_DP
    model.set_params(calibration="exact").fit(X, y)
    assert not hasattr(model, "claimed_")
    assert model.guarantee_.delta == 1e-5


def test_published_tuning_parameter_is_no_target(binary):
    """At the k of the paper's experiments Theorem 8 claims a delta of its own; what is true is in the guarantee."""
    with pytest.warns(PrivacyWarning):
        model = ProductNoiseOutputPerturbation(
            radius="chi1", calibration=Published(k=1000.0), epsilon=0.1, delta=1e-9, C=0.1
        ).fit(*binary)
    known = {"k": 1000.0, "n_dims": 9}
    sigma = published_product_noise_scale(0.1, 1e-9, sensitivity=2 * R * 0.1, **known)
    assert model.scale_ == pytest.approx(np.sqrt(2) * sigma, rel=1e-6)
    assert model.claimed_.delta == published_product_noise_delta(0.1, **known) > 1e-5
    true = spherical_profile(0.1, scale=model.scale_, sensitivity=2 * R * 0.1, n_dims=9, shape=1, power=2)
    assert model.guarantee_.delta == pytest.approx(true, rel=1e-6)
    assert clone(model).calibration == model.calibration


@pytest.mark.parametrize(
    "known, message",
    [
        (
            {"radius": "gaussian", "epsilon": 0.5, "calibration": Published(k=10.0)},
            "has no settings, .*k",
        ),
        ({"radius": "chi1", "calibration": Published(epsilon2=0.1)}, "has k, alpha, and not epsilon2"),
        ({"radius": "chi1", "calibration": {"k": 10.0}}, "'calibration' parameter"),
    ],
)
def test_settings_of_other_noise_are_refused(binary, known, message):
    with pytest.raises(ValueError, match=message):
        ProductNoiseOutputPerturbation(**known).fit(*binary)


def test_published_gaussian_output_noise(binary):
    with pytest.warns(PrivacyWarning):
        model = ProductNoiseOutputPerturbation(
            radius="gaussian", calibration="published", epsilon=0.5, delta=1e-5, C=0.1
        ).fit(*binary)
    assert model.scale_ == pytest.approx(2 * R * 0.1 * np.sqrt(2 * np.log(1.25e5)) / 0.5)
    assert model.guarantee_.delta < 1e-5
