"""Audits refuse estimators whose clones would copy a generator, and share those of others between threads."""

import functools
import os
from collections import OrderedDict
from copy import deepcopy
from functools import partial
from random import Random, SystemRandom

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import Bunch

from skdprp import DPMoments, DPRidge, DPSearchCV, DPSignRP, PrivacyLedger, audit_epsilon
from skdprp.testing import _private_checks


def halved_with_noise(X, rng=None):
    return X / 2 if rng is None else X / 2 + rng.normal()


class WithItsGenerator(BaseEstimator):
    """Randomised response by a generator of its own."""

    def __init__(self, generator=None):
        self.generator = generator

    def fit(self, X, y=None):
        """Release one bit, at epsilon = 1."""
        is_true = self.generator.uniform() < 0.731
        self.coef_, self.intercept_ = np.array([[float((X[0, 0] > 0.5) == is_true)]]), np.zeros(1)
        return self


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_an_estimator_with_a_generator_is_refused_and_a_function_that_fits_it_is_not_accused(make):
    """Clones copy the generator: all trials had one noise, and an epsilon of 3.8 was shown of one that is 1-DP."""
    a, b = np.zeros((1, 1)), np.ones((1, 1))
    for model in (WithItsGenerator(make(3)), make_pipeline(StandardScaler(), WithItsGenerator(make(3)))):
        with pytest.raises(ValueError, match="holds a random generator"):
            audit_epsilon(model, a, b, output=lambda fitted: fitted.coef_)
    generator = make(3)
    shared = make_pipeline(PCA(1, random_state=generator), WithItsGenerator(generator))
    held = [generator], {"rng": generator}, partial(halved_with_noise, rng=generator), generator.bytes
    hidden = (WithItsGenerator([functools.cache(lambda: 0), np.exp, value]) for value in held)
    for model in (shared, *hidden, *(FunctionTransformer(halved_with_noise, kw_args={"rng": value}) for value in held)):
        with pytest.raises(ValueError, match="holds a random generator"):
            audit_epsilon(model, a, b, output=lambda fitted: fitted.coef_)
    by_hand = audit_epsilon(lambda X: WithItsGenerator(generator).fit(X).coef_, a, b, confidence=1 - 1e-9)
    assert by_hand.epsilon <= 1.0


class WithNoiseOfItsModule(DPMoments):
    """Draws from a generator of its parameters, as a subclass of a model of this library."""

    def __init__(self, epsilon=1.0, delta=1e-6, rng=None):
        super().__init__(epsilon=epsilon, delta=delta)
        self.rng = rng


class CountsThreads(WithItsGenerator):
    """Notes in which process it is fitted."""

    def fit(self, X, y=None):
        """Release the number of the process."""
        self.coef_, self.intercept_ = np.array([[float(os.getpid())]]), np.zeros(1)
        return self


def test_estimators_of_others_are_fitted_in_one_process_and_subclasses_of_ours_are_none_of_ours():
    a, b = np.zeros((2, 1)), np.eye(2, 1)
    with pytest.raises(ValueError, match="holds a random generator"):
        audit_epsilon(WithNoiseOfItsModule(rng=np.random.default_rng(0)), a, b)
    pids = set()
    score = {"process": lambda outputs: pids.update(outputs.ravel()) or outputs[:, 0]}
    audit_epsilon(CountsThreads(), a, b, n_trials=40, n_jobs=2, distinguishers=score)
    assert pids <= {os.getpid(), 0}


class HasNoParameters:
    """A transformer that is none of scikit-learn's."""

    def __init__(self, generator):
        self.generator = generator

    def fit(self, X, y=None):
        """Learn nothing."""
        return self

    def transform(self, X):
        """Add noise."""
        return X + self.generator.laplace()


class CopiesItself(HasNoParameters, BaseEstimator):
    """Its generator is no parameter."""

    def __init__(self):
        super().__init__(np.random.default_rng(0))

    def __sklearn_clone__(self):
        return deepcopy(self)


class MakesItInFit(TransformerMixin, BaseEstimator):
    """Its generator is made by a fit, and no clone has it; a deep copy has."""

    def fit(self, X, y=None):
        """Make it."""
        self.rng_ = np.random.default_rng()
        return self

    def transform(self, X):
        """Add noise."""
        return X + self.rng_.laplace()


class MakesItInInit(BaseEstimator):
    """Each clone has a new generator, of the same state if it is seeded."""

    def __init__(self, seed=None):
        self.seed = seed
        self.rng = np.random.default_rng(seed)

    def fit(self, X, y=None):
        """Release a number."""
        self.coef_, self.intercept_ = np.array([[X[0, 0] + self.rng.laplace()]]), np.zeros(1)
        return self


def predict_with(X, model):
    return model.transform(X)


class OfItsOwn(Random):
    """Keeps another state than the class that it derives from, and tells it."""

    def __init__(self, state=1):
        super().__init__()
        self.state = state

    def random(self):
        """Draw a number."""
        self.state = 16807 * self.state % (2**31 - 1)
        return self.state / 2**31

    def getstate(self):
        """Return the state."""
        return self.state

    def setstate(self, state):
        """Set the state."""
        self.state = state


RNG = np.random.default_rng(0)
NOISY = partial(halved_with_noise, rng=RNG)
FITTED = MakesItInFit().fit(np.zeros((4, 1)))
FROZEN = FrozenEstimator(FITTED)
IN_A_FIELD = np.zeros(2, dtype=[("size", float), ("held", object)])
IN_A_FIELD["held"] = RNG
GRID = {"rng": [[NOISY]]}


@pytest.mark.parametrize(
    "estimator",
    [
        SelectKBest(NOISY, k=1),
        FunctionTransformer(inverse_func=NOISY),
        FunctionTransformer(kw_args={"held": np.array([None, RNG], dtype=object)}),
        FunctionTransformer(kw_args={"held": IN_A_FIELD}),
        FunctionTransformer(kw_args={"held": OrderedDict(model=FITTED)}),
        FunctionTransformer(kw_args={"held": Bunch(random_state=RNG)}),
        FunctionTransformer(kw_args={"held": (np.array([RNG]),)}),
        FunctionTransformer(FITTED.transform),
        FunctionTransformer(FROZEN.transform),
        FunctionTransformer(partial(predict_with, model=FROZEN)),
        MakesItInInit(seed=1),
        FunctionTransformer(kw_args={"held": OfItsOwn()}),
        FunctionTransformer(stats.laplace(scale=1.0).rvs),
        FunctionTransformer(np.random.permutation),
        TransformedTargetRegressor(func=np.negative, inverse_func=HasNoParameters(RNG).transform),
        FeatureUnion([("noisy", HasNoParameters(RNG))]),
        Pipeline([("copy", FunctionTransformer()), ("noisy", HasNoParameters(RNG))]),
        make_pipeline(CopiesItself()),
        GridSearchCV(WithNoiseOfItsModule(), GRID),
        RandomizedSearchCV(WithNoiseOfItsModule(), [{"epsilon": stats.uniform()}, GRID]),
        GridSearchCV(LogisticRegression(), {}, scoring=make_scorer(NOISY)),
        DPSearchCV(make_pipeline(FunctionTransformer(NOISY), DPRidge(target_bounds=(0, 2))), {}),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_generator_is_found_wherever_clones_copy_it(estimator):
    """Only two parameters of scikit-learn's classes were looked at, and true guarantees were refuted in others."""
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="holds a random generator"):
        audit_epsilon(estimator, (X, y), (X, y), output=lambda fitted: 0.0)


def test_private_checks_refuse_it_too():
    """They audited it, and its guarantee was refuted by noise that clones shared."""
    checks = dict(_private_checks(WithNoiseOfItsModule(rng=RNG)))
    with pytest.raises(AssertionError, match="holds a random generator"):
        checks["audit_refutes_nothing"]()


X, Y = (part[50:] for part in load_iris(return_X_y=True))
STATE = np.random.RandomState(0)
C_BETWEEN = {"C": stats.loguniform(0.1, 1)}


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(FunctionTransformer(halved_with_noise, kw_args={"rng": None}), PCA(1, random_state=STATE)),
        RandomizedSearchCV(
            LogisticRegression(),
            {"C": stats.loguniform(0.1, 1)},
            n_iter=1,
            cv=KFold(2, shuffle=True, random_state=STATE),
        ),
        make_pipeline(FrozenEstimator(MLPClassifier(max_iter=1, random_state=STATE).fit(X, Y))),
        make_pipeline(FunctionTransformer(np.exp), PCA(1)),
        make_pipeline(FunctionTransformer(stats.norm.cdf), FROZEN, FITTED),
        FunctionTransformer(predict_with, kw_args={"model": FROZEN}),  # which clones share
        FunctionTransformer(kw_args={"held": SystemRandom}),
        MakesItInInit(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_what_is_drawn_in_public_is_allowed(estimator):
    audit_epsilon(estimator, (X, Y), (X, Y), n_trials=8, output=lambda fitted: 0.0)


class OfNoiseOfItsOwn(DPSignRP):
    """Counts its releases, and holds a generator or none."""

    calls = 0

    def __init__(self, *, delta=1e-3, epsilon=1.0, min_norm=1.0, output="sign", random_state=None, generator=None):
        known = {"delta": delta, "epsilon": epsilon, "min_norm": min_norm, "output": output}
        super().__init__(1, method="rr", projection="gaussian", max_change=2.0, random_state=random_state, **known)
        self.generator = generator

    def transform(self, X):
        """Release the signs of rows."""
        OfNoiseOfItsOwn.calls += 1
        return super().transform(X)


def test_one_release_is_one_trial_where_the_projection_is_drawn_anew(seeded):
    """Each trial looked at two, and an epsilon of 1.8 was shown of one sign that is 1-DP."""
    a, b = np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]])
    before = OfNoiseOfItsOwn.calls
    audit_epsilon(OfNoiseOfItsOwn(), a, b, n_trials=8)
    assert OfNoiseOfItsOwn.calls - before == 16
    with PrivacyLedger() as ledger:  # projections are public, and no noise without an entry
        audit_epsilon(OfNoiseOfItsOwn(), a, b, n_trials=8)
    assert len(ledger.entries) == 16
    sketch = DPSignRP(1, delta=1e-3, max_change=2.0, min_norm=1.0, method="rr", projection="gaussian")
    result = audit_epsilon(sketch, a, b, n_trials=300, confidence=0.99)
    assert result.epsilon > 0.5 and not result.exceeds(clone(sketch).fit(a).guarantee_)
    with pytest.raises(ValueError, match="holds a random generator"):  # each trial clones it
        audit_epsilon(OfNoiseOfItsOwn(generator=RNG), a, b)
