"""Attacks on sketches: what is said of their use, odd parameters, losses, maps before them, and counts of releases."""

import copy
import itertools
import pickle
import random
import warnings
from collections import Counter
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomTreesEmbedding, VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSearchCV,
    DPSignOPORP,
    DPSignRP,
    PublicScaler,
    audit_epsilon,
    compose,
    iDPSignRP,
    privacy_report,
    save_release,
    worst_neighbours,
)
from skdprp.sketch._base import BaseSketch

# What is said of their use


def fitted_and_told(sketch, n_features):
    """Fit a sketch; also return what fit said of rows that are lost in the noise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sketch.fit(np.zeros((1, n_features)))
    return sketch, next((str(one.message) for one in caught if "lost in the noise" in str(one.message)), "")


@pytest.mark.parametrize("seed", [287, 5])
def test_rows_are_said_to_be_lost_on_average_over_their_signs(seed):
    """All three features may meet in one bin, whose noise no other draw has: the average is not one over draws."""
    options = {"n_components": 16, "projection": "count_sketch", "adjacency": "l2", "epsilon": 5.29, "max_nonzeros": 3}
    sketch, message = fitted_and_told(DPRandomProjection(**options, random_state=seed), 3)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    moved = np.linalg.norm(sketch.projection_.project(signs) / sketch.projection_.divisor, axis=1)
    assert ndtr(moved / sketch.scale_ / 2).mean() <= 0.75 if message else seed != 287
    assert not message or "average over the signs of these numbers" in message


# What steps are handed beside the rows


def test_what_a_step_is_handed_at_fit_beside_the_rows_is_at_least_assumed_to_be_none_of_them():
    """Weights that are a column of the rows reach a tree behind a sketch as they are, and it keeps their sum.

    A report cannot see what a fit was handed. But a total that says nothing of it is for rows that differ by the l1
    distance that is printed, and the tree tells these apart each time.
    """
    X, y, sums, reports = np.random.default_rng(0).uniform(size=(60, 6)), np.arange(60) % 2, [], []
    for number in (0.2, 1.2):
        X[0, 0] = number
        model = make_pipeline(DPOPORP(4, epsilon=0.1, random_state=0), DecisionTreeRegressor(max_depth=1))
        model.fit(X, y, decisiontreeregressor__sample_weight=X[:, 0])
        sums.append(model[-1].tree_.weighted_n_node_samples[0])
        reports += [privacy_report(model), privacy_report(model, X, y)]
    assert sums[1] - sums[0] == pytest.approx(1.0)
    for report in reports:
        stated = () if report.total is None else report.total.assumptions + report.total.not_covered
        assert report.total is None or any("weight" in text or "given anything" in text for text in stated)


@pytest.mark.parametrize(
    "behind", [make_pipeline, lambda *steps: make_pipeline(steps[0], FeatureUnion([("f", steps[1])]))]
)
def test_what_goes_on_from_an_earlier_fit_is_not_covered_behind_a_sketch(behind):
    """A forest kept the tree that it had learnt from the rows themselves, beside one of their sketches."""
    X = np.random.default_rng(0).uniform(size=(60, 4))
    forest = RandomTreesEmbedding(2, warm_start=True).fit(X).set_params(n_estimators=4)
    model = behind(DPRandomProjection(projection="identity", epsilon=0.1), forest)
    for report in (privacy_report(model, X), privacy_report(model.fit(X)), privacy_report(clone(model).fit(X))):
        assert report.total is None and any("warm_start=False" in step.remark for step in report.steps)
        assert report.private is not None
    forest.set_params(warm_start=False)
    assert privacy_report(model.fit(X)).total.epsilon == pytest.approx(0.1)


@pytest.mark.parametrize("sketch", [DPOPORP(4), DPSignOPORP(4), iDPSignRP(4), DPRandomProjection(4, adjacency="l2")])
def test_a_projection_that_was_set_after_the_fit_is_refused(sketch):
    """To share the projection of another sketch was to release under a guarantee for its own."""
    X, fitted = np.random.default_rng(0).uniform(size=(5, 6)), clone(sketch).set_params(random_state=0).fit(np.eye(6))
    for copied in (fitted, pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), copy.copy(fitted)):
        assert copied.transform(X).shape == (5, 4)
    S, fitted.projection_ = fitted.transform(X), clone(sketch).set_params(random_state=1).fit(np.eye(6)).projection_
    for go_on in (lambda: fitted.transform(X), lambda: save_release("never", S, fitted)):
        with pytest.raises(ValueError, match="projection_ was set after the fit"):
            go_on()


@pytest.mark.parametrize(
    "hand", [lambda X: KMeans(2, init=X[:2], n_init=1), lambda X: GaussianMixture(2, means_init=X[:2])]
)
def test_arrays_that_a_step_behind_a_sketch_is_made_with_are_assumed_to_be_no_rows(hand):
    """As those that a function is handed are: first centres are rows as they are, and stay with the step."""
    X = np.random.default_rng(0).uniform(size=(60, 4))
    model = make_pipeline(DPRandomProjection(projection="identity", epsilon=0.1), hand(X)).fit(X)
    for report in (privacy_report(model), privacy_report(model, X)):
        stated = () if report.total is None else report.total.assumptions
        assert report.total is None or any("given anything" in text for text in stated)


# Odd parameters that are legal, or are to be refused


def test_neighbours_of_one_feature_have_the_least_norm():
    """One feature has room for two rows of the least norm, one change apart: there is no other feature for the rest."""
    sketch = DPSignRP(1, epsilon=1.0, delta=1e-4, method="rr", projection="gaussian", min_norm=20.0, random_state=0)
    a, b = worst_neighbours(sketch.fit(np.zeros((1, 1))), np.zeros((3, 1)))
    assert min(np.abs(a).min(), np.abs(b).min()) >= 20
    assert np.abs(a - b).sum() <= 1


def test_a_projection_of_zeros_has_no_neighbours_that_differ():
    """As the documentation says, that is a ValueError, and no rows of NaN."""
    sketch = DPRandomProjection(
        2, projection="very_sparse", density=1e-12, noise="laplace", adjacency="l2", random_state=0
    ).fit(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"neighbour|differ"):
        worst_neighbours(sketch, np.zeros((2, 3)))


@pytest.mark.parametrize("epsilon", [5e-324, 10**400], ids=["least", "beyond"])
@pytest.mark.parametrize("kind", [DPOPORP, DPSignOPORP, DPSignRP, iDPSignRP])
def test_epsilons_at_the_ends_of_floats_are_taken_or_refused(kind, epsilon):
    """An epsilon that no float can share among bits, or hold, is a ValueError and no arithmetic one."""
    sketch = kind(4, epsilon=epsilon)
    try:
        sketch.fit(np.zeros((1, 6)))
    except ValueError:
        return
    assert sketch.guarantee_.epsilon == sketch.epsilon


# Losses


def probabilities(sketch, rows):
    """Probability out of 2**64 with which each bit of a row is released as +1, exactly."""
    x = sketch.projection_.project(rows)
    levels, thresholds = sketch._flips(x.copy())
    flipped = thresholds[levels][0].tolist()
    return [2**64 - flip if positive else flip for positive, flip in zip(x[0] > 0, flipped, strict=True)]


def loss(one, other):
    """Largest logarithm of a ratio of two probabilities of a bit, or of its complement."""
    ratios = [abs(float(np.log(np.longdouble(p)) - np.log(np.longdouble(q)))) for p, q in zip(one, other, strict=True)]
    rest = [
        abs(float(np.log(np.longdouble(2**64 - p)) - np.log(np.longdouble(2**64 - q))))
        for p, q in zip(one, other, strict=True)
    ]
    return sum(map(max, ratios, rest))


@pytest.mark.parametrize("seed", range(4))
def test_no_neighbours_lose_more_than_epsilon(seed):
    """Of signs by any method, at the ends of scales, on the grid of changes and off it, in any format."""
    choose, rng, compared = random.Random(seed), np.random.default_rng(seed), 0
    for _ in range(60):
        n_features, k = choose.choice([1, 3, 20]), choose.choice([1, 2, 8])
        epsilon, change = 10 ** choose.uniform(-6, 2.5), choose.choice([10 ** choose.uniform(-3, 3), 1e-100, 1e100])
        options = {"epsilon": epsilon, "max_change": change, "random_state": choose.randrange(5)}
        method = choose.choice(["smooth", "rr", "laplace"])
        if choose.random() < 0.5:
            sketch = DPSignOPORP(k, method=method, n_repeats=choose.choice([1, k]), **options)
        else:
            kind, adjacency = choose.choice(["gaussian", "very_sparse"]), choose.choice(["l1", "coordinate"])
            sketch = DPSignRP(k, method=method, projection=kind, adjacency=adjacency, **options)
        sketch = fitted_and_told(sketch, n_features)[0]
        row = np.round(rng.normal(size=n_features) * choose.choice([0, 1, 50])) * change
        other = row.copy()
        other[choose.randrange(n_features)] += choose.choice([-1, 1]) * change
        if sum(abs(Fraction(u) - Fraction(v)) for u, v in zip(row, other, strict=True)) > Fraction(change):
            continue
        rows = row[None], other[None]
        if choose.random() < 0.5:
            rows = map(sp.csr_array, rows)
        assert loss(*(probabilities(sketch, one) for one in rows)) <= epsilon * (1 + 1e-9)
        compared += 1
    assert compared > 20


# Maps before them, and what they are given


def test_maps_that_differ_in_what_they_leave_out_are_not_the_same():
    """Rows as they leave one column transformer are at other distances than as they leave the other."""
    X, totals = np.random.default_rng(0).uniform(size=(20, 4)), []
    scaled = ("a", PublicScaler((0, 1)), [0, 1])
    for transformers, rest in (([scaled], "drop"), ([scaled], "passthrough"), ([scaled, ("b", "drop", [2])], "drop")):
        columns = ColumnTransformer(transformers, remainder=rest, sparse_threshold=0)
        sketch = DPSignOPORP(2, adjacency="l1", random_state=0)
        totals.append(privacy_report(make_pipeline(columns, sketch).fit(X)).total)
    for one, other in ((0, 1), (1, 2)):
        with pytest.raises(ValueError, match="different neighbours"):
            compose(totals[one], totals[other])


@pytest.mark.parametrize("narrow", ["float32", "Float32", "float16", "Sparse[float32]"])
@pytest.mark.parametrize("wide", ["int32", "int64", "UInt64", "object"])
def test_whole_numbers_beside_narrow_floats_keep_all_digits(wide, narrow):
    """Rows one apart stay one apart: in float32 they would be equal, or 64 apart."""
    frame = pd.DataFrame({"a": pd.Series([2**30 + 1], dtype=wide), "b": pd.Series([1.5], dtype=narrow)})
    sketch = DPRandomProjection(projection="identity", max_change=1e3).fit(frame)
    assert sketch.project_queries(frame)[0, 0] == 2**30 + 1


@pytest.mark.parametrize("n", [2, 3, 4])
def test_letters_move_as_many_n_grams_as_the_guide_says(n):
    """A code point replaced moves 2n within words, white space included; one deleted moves 2n - 1."""
    count = HashingVectorizer(analyzer="char_wb", ngram_range=(n, n), norm=None, lowercase=False).build_analyzer()
    choose = random.Random(n)

    def distance(one, other):
        one, other = Counter(count(one)), Counter(count(other))
        return sum(abs(one[gram] - other[gram]) for gram in one | other)

    for _ in range(3000):
        text = "".join(choose.choices("ab ", k=choose.randrange(1, 9)))
        i, letter = choose.randrange(len(text)), choose.choice("abc \n")
        assert distance(text, text[:i] + letter + text[i + 1 :]) <= 2 * n
        assert distance(text, text[:i] + text[i + 1 :]) <= 2 * n - 1


# How often they release


def composed(choose, depth):
    """A model with sketches at random places."""

    def sketch():
        kind = choose.choice([DPOPORP, DPSignOPORP, DPSignRP])
        return kind(4, epsilon=choose.uniform(0.1, 2.0), random_state=choose.choice([None, 0]))

    def front():
        return choose.choice(
            [
                sketch,
                lambda: FeatureUnion([("a", sketch()), ("b", sketch())]),
                lambda: ColumnTransformer([("a", sketch(), [0, 1]), ("b", sketch(), [1, 2])], sparse_threshold=0),
            ]
        )()

    if depth and choose.random() < 0.6:
        first, second = composed(choose, depth - 1), composed(choose, depth - 1)
        return choose.choice(
            [
                lambda: VotingClassifier([("a", first), ("b", second)]),
                lambda: OneVsRestClassifier(first),
                lambda: make_pipeline(VotingClassifier([("a", first), ("b", second)]), LogisticRegression()),
            ]
        )()
    return make_pipeline(FunctionTransformer(), front(), LogisticRegression())


@pytest.mark.parametrize("seed", range(10))
def test_reports_count_each_release(seed, monkeypatch):
    """Before a fit and after it, a report has at least as many releases of each sketch as there were."""
    released, release = Counter(), BaseSketch._release

    def counted(sketch, X, dtype):
        released[sketch.guarantee_.epsilon] += 1
        return release(sketch, X, dtype)

    monkeypatch.setattr(BaseSketch, "_release", counted)
    X, y = np.random.default_rng(0).normal(size=(30, 6)), np.arange(30) % 3
    model, reports = composed(random.Random(seed), 2), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(TypeError, ValueError):  # which has no price before a fit
            reports.append(privacy_report(model, X, y))
        assert not released
        reports.append(privacy_report(model.fit(X, y)))
    for report in reports:
        if report.private is None:
            continue
        stated = Counter()
        for step in report.steps:
            if step.guarantee is not None:
                stated[step.guarantee.epsilon] += step.releases
        assert all(stated[epsilon] >= count for epsilon, count in released.items())


def test_a_search_over_a_frozen_sketch_of_another_definition_is_refused():
    """Individual differential privacy is none of the trials of a private search."""
    X, y = np.random.default_rng(0).normal(size=(100, 6)), np.arange(100) % 2
    frozen = FrozenEstimator(iDPSignRP(4, epsilon=0.1, delta=1e-7).fit(X))
    model = make_pipeline(frozen, AMPClassifier(classes=[0, 1], delta=1e-7))
    with pytest.raises(ValueError, match="privacy"):
        DPSearchCV(model, {"ampclassifier__C": [0.1, 1.0]}).fit(X, y)


def test_audits_of_any_sketch_refute_nothing():
    """Attacks on the pairs that are worst, at a confidence of 1 - 1e-10 each."""
    choose = random.Random(0)
    for _ in range(12):
        options = {"epsilon": choose.uniform(0.2, 4.0), "random_state": 0}
        sketch = choose.choice(
            [
                DPOPORP(4, adjacency=choose.choice(["l1", "l2"]), delta=1e-2, **options),
                DPSignOPORP(4, adjacency=choose.choice(["coordinate", "l1", "l2"]), **options),
                DPSignRP(4, projection="gaussian", method=choose.choice(["smooth", "rr"]), delta=1e-2, **options),
            ]
        )
        sketch = fitted_and_told(sketch, 5)[0]
        a, b = worst_neighbours(sketch, np.zeros((1, 5)))
        result = audit_epsilon(sketch, a, b, confidence=1 - 1e-10, n_trials=1000)
        assert not result.exceeds(sketch.guarantee_)


@pytest.mark.parametrize("kind", [DPOPORP, DPSignRP, PublicScaler])
def test_complex_columns_are_refused_beside_nullable_ones(kind):
    """Pandas took the real parts, with a warning: two rows that differ in the other part were one."""
    frame = pd.DataFrame({"a": np.array([1 + 2j, 0.5]), "b": pd.array([1, 0], dtype="Int64")})
    with pytest.raises(ValueError, match="Complex data"):
        (kind((0, 1)) if kind is PublicScaler else kind(2)).fit(frame)
