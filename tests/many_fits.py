"""Many fits of one classifier to few tables, as attacks need them: what is public of each is worked out once."""

from copy import copy

import numpy as np
import pytest

from skdprp.testing import reproducible_noise


def weights_of(fit):
    """All that a fit released: the weights of a linear model, or of all layers."""
    return [*fit.coefs_, *fit.intercepts_] if hasattr(fit, "coefs_") else [fit.coef_, fit.intercept_]


def release_alone(monkeypatch, kind):
    """Let fits of one model of a class, each time to the same few tables, do no more than release their weights.

    Rows are validated and noise is calibrated in the first fit to each table, which also shows, under a seed, that what
    is released without doing so again is the same in all bits. Noise of each fit is fresh, as it always is.
    """
    fit_all, fit_calibrated, known = kind.fit, kind._fit_calibrated, {}

    def release(model, calibration, classes, *data):
        vars(model).update(model._release(calibration, *data), classes_=classes, guarantee_=calibration.guarantee)
        return model

    def fit(self, X, y):
        table = id(X), id(y), "_problem" in vars(self)  # as audits set it, for rows that are blank
        if table not in known:
            one, facts = copy(self), []
            with pytest.MonkeyPatch.context() as patch, reproducible_noise(1):
                patch.setattr(kind, "_fit_calibrated", lambda *given: facts.append(given[3:]) or fit_calibrated(*given))
                fit_all(one, X, y)
            for _ in range(2):  # of which the first leaves rows and calibration as they are
                with reproducible_noise(1):
                    other = release(copy(self), *facts[0])
                assert all(map(np.array_equal, weights_of(one), weights_of(other)))
            known[table] = X, y, facts[0]  # which hold on to X and y: no other has their id
        return release(self, *known[table][-1])

    monkeypatch.setattr(kind, "fit", fit)
