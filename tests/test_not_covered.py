"""What every guarantee says that it does not cover."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid

import skdprp

X = np.random.default_rng(0).normal(size=(40, 8))
Y = np.arange(40) % 2
OPTIONS = {"adjacency", "calibration", "mechanism", "noise", "radius", "method", "batch_size"}


def variants(kind):
    """Estimators of a kind with all combinations of what decides on the mechanism, where they go together."""
    allowed = kind._parameter_constraints
    choices = {
        name: sorted(option for constraint in allowed[name] for option in getattr(constraint, "options", ()))
        for name in OPTIONS & allowed.keys()
    }
    for known in ParameterGrid({name: options for name, options in choices.items() if options}):
        yield kind(**known)


KINDS = [
    kind
    for kind in map(skdprp.__dict__.get, skdprp.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and "epsilon" in kind._parameter_constraints
]


def guarantees(estimator):
    """Guarantees of all that an estimator releases; none where its parameters do not go together."""
    for name in ("fit", "sketch"):
        try:
            if hasattr(estimator, name):
                getattr(estimator, name)(X, Y)
                yield estimator.guarantee_
        except ValueError:
            return


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_how_long_it_took_is_not_covered(kind):
    """Time is a release of its own, outside of every guarantee: steps of a solver, sizes of batches, zeros of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [guarantee for estimator in variants(kind) for guarantee in guarantees(estimator)]
    assert found
    for guarantee in found:
        assert guarantee.unit == "nothing" or any("how long" in fact for fact in guarantee.not_covered), guarantee
