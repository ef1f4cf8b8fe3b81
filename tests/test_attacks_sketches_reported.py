"""Attacks on what is said of sketches: in warnings, in reports on nested estimators, and after a second fit."""

import contextlib
import warnings
from collections import Counter
from dataclasses import replace
from random import Random

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import chdtri
from scipy.stats import binom
from sketches import computed, wide
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    iDPSignRP,
    privacy_report,
)
from skdprp.mechanisms import gaussian_profile
from skdprp.sketch._base import BaseSketch

X = np.random.default_rng(0).normal(size=(12, 8))
Y = np.arange(12) % 2
PLACE = {value: place for place, row in enumerate(X) for value in row}
NOISY = DPOPORP(4, delta=1e-6)
VOTED = VotingClassifier([("a", make_pipeline(NOISY, RidgeClassifier()))])


@pytest.fixture
def released(monkeypatch):
    """How often each row of X was released, by its place: sketched, or learned from by a private model."""
    counts = Counter()

    def counting(method, n_before):
        def count(*given):
            places = (PLACE.get(row[0]) for row in np.asarray(given[n_before]))
            counts.update(place for place in places if place is not None)
            return method(*given)

        return count

    monkeypatch.setattr(BaseSketch, "_release", counting(BaseSketch._release, 1))
    monkeypatch.setattr(AMPClassifier, "_release", counting(AMPClassifier._release, 2))
    return counts


# Whole rows


def guess_of_a_row_and_none(sketch, n_nonzeros):
    """Probability of the best guess between a row of some numbers of max_change and one of zeros, by alike bits."""
    row = np.zeros((1, sketch.n_features_in_))
    row[0, :n_nonzeros] = sketch.max_change
    plus = sketch.positive_probability(sketch.projection_.project(row))[0]
    told, kept = (plus != 0.5).sum(), plus.max()  # all other bits are coins for both rows
    agree = np.arange(told + 1)
    return 0.5 + abs(binom.pmf(agree, told, kept) - binom.pmf(agree, told, 0.5)).sum() / 4


@wide
@pytest.mark.parametrize(("epsilon", "n_repeats", "n_nonzeros"), [(1.0, 1, 21), (1.0, 1, 200), (2.0, 4, 100)])
def test_rows_of_many_numbers_are_not_said_to_be_hidden_where_one_number_is(epsilon, n_repeats, n_nonzeros):
    """Any change of one coordinate is hidden by alike flips: of rows of 200 numbers, guessed at .999, it was said."""
    options = {"epsilon": epsilon, "n_repeats": n_repeats, "random_state": 0}
    sketch = DPSignOPORP(512, method="rr", max_nonzeros=n_nonzeros, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sketch.fit(np.zeros((1, 4096)))
    assert guess_of_a_row_and_none(sketch, n_nonzeros) > 0.8
    assert not any("Rows are lost in the noise" in str(warning.message) for warning in caught)


# One call that releases twice


@pytest.mark.parametrize(
    "model",
    [
        VOTED,
        make_pipeline(VOTED),
        make_pipeline(FunctionTransformer(), VOTED),
        make_pipeline(GridSearchCV(make_pipeline(NOISY, PCA(1)), {}, cv=KFold(3))),
    ],
)
def test_fit_transform_is_charged_for_all_that_it_releases(model, released):
    """An ensemble, or a search, that comes last sketches rows to fit and again to transform: one of them was charged.

    Of a sketch, and of pipelines and unions of sketches, `fit_transform` is one release.
    """
    model = clone(model)
    with PrivacyLedger() as ledger:
        model.fit_transform(X, Y)
    report = privacy_report(model)
    assert len(ledger.entries) >= max(released.values())
    said = report.private is None or any("fit_transform" in text for text in report.private.assumptions)
    assert said or sum(step.releases for step in report.steps) >= max(released.values())


def test_a_second_fit_does_not_heal_what_was_released_before():
    """An audit refuted the sketch of a pipeline; fitted once more with the same parameters it had a total again."""
    pipeline = make_pipeline(clone(NOISY), RidgeClassifier()).fit(X, Y)
    pipeline[0].guarantee_ = replace(pipeline[0].guarantee_, audited_epsilon=3.0)
    assert privacy_report(pipeline).total is None
    pipeline[0].fit(X[:1])
    assert privacy_report(pipeline).total is None


# What held, of estimators within estimators


class Compositions:
    """Estimators of scikit-learn around sketches and private models, at random and the same each time."""

    def __init__(self, seed):
        self.random = Random(seed)

    def _several(self, name, depth, most, make):
        return [(f"{name}{i}", make(depth - 1)) for i in range(self.random.randint(1, most))]

    def transformer(self, depth):
        """One that releases something, or passes rows on as they are."""
        sketches = NOISY, DPSignOPORP(4), DPRandomProjection(4, noise="laplace"), DPSignRP(4, method="laplace")
        sketch, choice = clone(self.random.choice(sketches)), self.random.random()
        if depth <= 0 or choice < 0.4:
            return sketch
        if choice < 0.5:
            return FunctionTransformer()
        if choice < 0.65:
            return FeatureUnion(self._several("u", depth, 3, self.transformer))
        if choice < 0.8:
            branches = self._several("c", depth, 2, self.transformer)
            columns = [(name, step, self.random.choice([slice(0, 8), [0, 1, 2]])) for name, step in branches]
            return ColumnTransformer(columns, remainder=self.random.choice(["drop", sketch]))
        if choice < 0.9:
            return Pipeline(self._several("s", depth, 3, self.transformer))
        if choice < 0.95:
            return FeatureUnion([("v", VotingClassifier(self._several("v", depth, 2, self.model)))])
        return FrozenEstimator(self.transformer(depth - 1).fit(X, Y))

    def model(self, depth):
        """One that predicts labels."""
        choice = self.random.random()
        if depth <= 0 or choice < 0.2:
            return self.random.choice([RidgeClassifier(), AMPClassifier(delta=1e-6, classes=[0, 1])])
        if choice < 0.6:
            return Pipeline([*self._several("s", depth, 2, self.transformer), ("m", self.model(depth - 1))])
        if choice < 0.7:
            return VotingClassifier(self._several("v", depth, 2, self.model))
        if choice < 0.9:
            return self.random.choice([OneVsRestClassifier, FixedThresholdClassifier])(self.model(depth - 1))
        return GridSearchCV(self.model(depth - 1), {}, cv=KFold(3))


@wide
@pytest.mark.parametrize("seed", range(2))
def test_estimators_within_estimators_are_charged_what_they_release_and_not_more_than_planned(seed, released):
    """Of more than two thousand of these no report on a fit was below the releases of one row, nor a plan below it."""
    compositions, n_known = Compositions(seed), 0
    for i in range(20):
        released.clear()
        planned = None
        try:
            estimator = compositions.model(3) if i % 2 else compositions.transformer(3)
            with contextlib.suppress(TypeError, ValueError):  # a search has no price before its fit, for instance
                planned = privacy_report(estimator, X, Y).private
            estimator.fit(X, Y)
        except (AttributeError, ValueError):  # where columns are asked for, say, that are not there after a sketch
            continue
        report = privacy_report(estimator)
        if (stated := report.private) is not None:
            n_known += 1
            assert sum(step.releases for step in report.steps) >= max(released.values(), default=0)
            if planned is not None:
                assert planned.epsilon >= stated.epsilon * (1 - 1e-9) and planned.delta >= stated.delta * (1 - 1e-9)
    assert n_known >= 8


# What held, of numbers


@wide
def test_neighbours_of_additive_sketches_in_any_two_forms_are_within_their_noise():
    """Rows on multiples of max_change, and large ones, in units near both ends of what is allowed."""
    rng = np.random.default_rng(0)
    forms = np.asarray, np.asfortranarray, sp.csr_matrix, sp.coo_array, pd.DataFrame
    kinds = "rademacher", "gaussian", "uniform", "very_sparse", "identity", "count_sketch"
    for _ in range(50):
        adjacency, beta, p = rng.choice(["l1", "l2"]), rng.choice([0.1, 1 / 3, 1e-90, 1e98]), rng.integers(1, 14)
        sketch = DPRandomProjection(rng.integers(1, 12), projection=rng.choice(kinds), random_state=rng.integers(99))
        sketch.set_params(adjacency=adjacency, noise=rng.choice(["gaussian", "laplace"]), max_change=beta)
        sketch.set_params(epsilon=rng.choice([0.01, 1.0, 60.0])).fit(np.zeros((1, p)))
        step = rng.choice([-1.0, 1.0], p) if rng.random() < 0.5 else np.eye(p)[rng.integers(p)]
        step *= (1 - 1e-9) * beta / np.linalg.norm(step, 1 if adjacency == "l1" else 2)
        row = beta * (rng.integers(-6, 7, p) if rng.random() < 0.5 else rng.normal(size=p) * 2.0 ** rng.integers(34))
        one, other = (
            computed(sketch, forms[rng.integers(len(forms))](np.vstack([beta * rng.normal(size=(3, p)), u])))[-1]
            for u in (row, row + step)
        )
        moved = abs(one - other) / sketch.projection_.divisor
        if sketch.scale_ == 0 or sketch.noise == "laplace":
            assert moved.sum() <= sketch.epsilon * sketch.scale_
        elif moved.any():
            mu = float(np.linalg.norm(moved / sketch.scale_))
            assert gaussian_profile(sketch.epsilon, scale=1.0, sensitivity=mu) <= sketch.delta


@wide
@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "uniform", "very_sparse", "oporp"])
def test_signs_that_individual_privacy_leaves_alone_are_those_of_all_neighbours(projection):
    """Each change of one coordinate, of rows on half multiples of max_change, in units near both ends."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        p, beta = rng.integers(1, 12), rng.choice([0.1, 1 / 3, 1e-80, 1e70])
        sketch = iDPSignRP(rng.integers(1, 10), projection=projection, max_change=beta, random_state=rng.integers(99))
        sketch.fit(np.zeros((1, p)))
        row = rng.integers(-4, 5, p) * beta / 2
        changes = (1 - 1e-9) * beta * np.vstack([np.zeros(p), np.eye(p), -np.eye(p)])
        x = sketch.projection_.project(row + changes)
        may_flip = abs(x[:1]) <= sketch.component_change_
        assert ((x > 0) == (x[:1] > 0))[:, ~may_flip[0]].all()
        moved = np.linalg.norm((x - x[:1])[:, may_flip[0]], axis=1)
        assert moved.max() <= sketch._sensitivity_within(may_flip)[0]


@pytest.mark.parametrize("n_components", [1, 3, 256, 10**4, 10**6])
def test_quantiles_of_the_rows_of_a_gaussian_projection_are_above_the_exact_ones(n_components):
    """The share of delta for the draw, down to 1e-9 / 2^11 over a billion features, as the calibration rounds it."""
    with mpmath.workdps(40):
        for tail in (0.4, 1e-3, 1e-9, 5e-13, 5e-22):
            quantile = float(chdtri(n_components, tail) * (1 + 2.0**-36))
            assert mpmath.gammainc(mpmath.mpf(n_components) / 2, mpmath.mpf(quantile) / 2, regularized=True) <= tail
