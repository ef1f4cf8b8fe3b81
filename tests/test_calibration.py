"""A fit stands on the parameters that it began with."""

import numpy as np
import pytest
from sklearn.base import clone

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPSGDClassifier,
    MIDPRegressor,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
)
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
        alone = vars(model.fit(X, y)).copy()

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
