"""Objects in pipelines that have methods of their own, which see the rows: no total is less than a ledger has."""

import itertools
from contextlib import suppress

import numpy as np
import pytest
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer

from skdprp import AMPClassifier, DPBinner, DPRidge, DPScaler, PrivacyLedger, PublicScaler, privacy_report, set_budget
from skdprp.report import _walk

X = np.random.default_rng(0).uniform(-1, 1, (30, 3))
Y = (X[:, 0] > 0).astype(int)
CALLS = ("fit", "fit_predict", "fit_transform")
BESIDE = 8.0  # the epsilon of what methods release


def model_of(epsilon=1.0):
    return AMPClassifier(epsilon=epsilon, delta=1e-6, classes=[0, 1])


def pipelines():
    """Pipelines of known classes, each with a total."""
    scaler = DPScaler(bounds=(-1, 1), delta=1e-6)
    return [
        make_pipeline(PublicScaler((-1, 1)), DPRidge(target_bounds=(0, 1), delta=1e-6)),
        make_pipeline(scaler, Normalizer(), OneVsRestClassifier(model_of())),
        make_pipeline(make_union(PublicScaler((-1, 1)), Normalizer()), FixedThresholdClassifier(model_of())),
        make_pipeline(FrozenEstimator(PublicScaler((-1, 1)).fit(X)), VotingClassifier([("one", model_of())])),
        make_pipeline(make_pipeline(PublicScaler((-1, 1))), DPBinner(4, bounds=(-1, 1), delta=1e-6)),
    ]


def with_method(part, name):
    """Give an object a method that releases a model of the rows, and then does what it did, or nothing."""
    own = getattr(part, name, None)

    def _method(*rows, **known):
        if rows and np.ndim(rows[0]) == 2 and len(rows[0]) == len(X):
            model_of(BESIDE).fit(rows[0], Y)
        if own is not None:
            return own(*rows, **known)
        return part.fit(*rows).predict(rows[0]) if name == "fit_predict" else rows[0]

    setattr(part, name, _method)


def inside(pipeline):
    """List a pipeline and all in it that may be asked for a method."""
    return [pipeline, *(one for one in pipeline.get_params().values() if hasattr(one, "get_params"))]


def what_stands_before(pipeline, call):
    """Total, or None, of a plan, a pipeline of which the budget was set, and a total; and what a ledger has."""
    totals = []
    with suppress(TypeError, ValueError):
        totals.append(privacy_report(pipeline, X, Y).total)
    with suppress(TypeError, ValueError):
        totals.append(set_budget(pipeline, X, Y, epsilon=1.0, delta=1e-5))
    with PrivacyLedger() as ledger, suppress(AttributeError, TypeError, ValueError):
        getattr(pipeline, call)(X, Y)
    with suppress(AttributeError, TypeError, ValueError):  # of what is not fitted
        totals.append(privacy_report(pipeline).total)
    return totals, [one.guarantee.epsilon for one in ledger.entries]


def totals_beside(name):
    """Yield what there is of totals and budgets, for each call of each pipeline in which a method released a model."""
    places = [(number, place) for number, one in enumerate(pipelines()) for place in range(len(inside(one)))]
    for call, (number, place) in itertools.product(CALLS, places):
        pipeline = pipelines()[number]
        with_method(inside(pipeline)[place], name)
        totals, spent = what_stands_before(pipeline, call)
        if BESIDE in spent:
            yield any(totals)


@pytest.mark.parametrize("name", [*CALLS, "transform"])
def test_no_total_misses_what_a_method_of_an_object_releases(name):
    are_totals = list(totals_beside(name))
    assert are_totals and not any(are_totals)


def test_what_looks_for_no_methods_misses_them(monkeypatch):
    monkeypatch.setattr(_walk, "has_own_methods", lambda thing: False)
    assert any(totals_beside("fit_predict"))


@pytest.mark.parametrize("pipeline", pipelines(), ids=repr)
def test_pipelines_without_methods_of_their_own_have_totals(pipeline):
    totals, spent = what_stands_before(pipeline, "fit")
    assert len(totals) == 3 and all(totals) and BESIDE not in spent
