"""Attacks on what sketches say of whole rows and hidden distances, on counts of releases, and on profiles of bits."""

import re
import warnings
from collections import Counter
from dataclasses import replace
from random import Random

import mpmath
import numpy as np
import pytest
from scipy.stats import norm
from sketches import projection_matrix, wide
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline

from skdprp import (
    DPOPORP,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    iDPSignRP,
    load_release,
    privacy_report,
    save_release,
)
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.randomised_response import randomised_response_profile
from skdprp.sketch._base import BaseSketch

X = np.random.default_rng(0).normal(size=(24, 6))
PLACE = {value: place for place, row in enumerate(X) for value in row}


# Whole rows


def messages_of_fit(sketch, n_features):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sketch.fit(np.zeros((1, n_features)))
    return [str(warning.message) for warning in caught]


def is_said_of_every_row(message):
    """Whether a warning bounds a guess about any row, and not one on average over what the projection may be."""
    return "75 of 100" in message and not re.search("average|draws of|most rows|chosen without", message)


def row_that_fits(sketch, n_nonzeros):
    """Largest numbers of alternate signs, so that all of them add up in one component, or along a singular vector."""
    W = projection_matrix(sketch.projection_)
    if sketch.get_params().get("projection"):
        row = np.sign(np.linalg.svd(W, full_matrices=False)[0][:, 0])
        for _ in range(20):
            row = np.sign(W @ (W.T @ row))
    else:
        row = np.sign(W[:, 0])
    assert np.count_nonzero(row) <= n_nonzeros
    return sketch.max_change * row[None]


def guess_of_a_row_and_zeros(sketch, row):
    """Probability of the best guess between a row and one of zeros, of which Laplace noise may move one number only."""
    moved = abs(sketch.projection_.project(row)[0]) / (sketch.projection_.divisor * sketch.scale_)
    if sketch.noise == "gaussian":
        return norm.cdf(np.linalg.norm(moved) / 2)
    assert np.count_nonzero(moved) == 1
    return 1 - np.exp(-moved.max() / 2) / 2


@wide
@pytest.mark.parametrize(
    ("sketch", "n_features"),
    [
        (DPOPORP(64, epsilon=1.0, max_nonzeros=16), 1024),
        (DPOPORP(64, epsilon=0.26, noise="laplace", max_nonzeros=16), 1024),
        (DPRandomProjection(64, epsilon=0.24, max_nonzeros=250), 250),
    ],
    ids=repr,
)
def test_rows_that_fit_the_projection_are_not_said_to_be_hidden(sketch, n_features):
    """On average over draws of W a guess was right in 75 of 100: of rows made for W, which is public, in 90 to 98."""
    sketch = clone(sketch).set_params(random_state=0)
    messages = messages_of_fit(sketch, n_features)
    row = row_that_fits(sketch, sketch.max_nonzeros)
    assert guess_of_a_row_and_zeros(sketch, row) > 0.85
    assert not any(map(is_said_of_every_row, messages))


@wide
def test_a_row_of_ones_is_not_said_to_be_hidden_by_few_components():
    """Nobody need make a row for W where components are few: of seeds as they come some let a row of ones be seen."""
    told, guesses = [], []
    for seed in range(60):
        sketch = DPOPORP(4, epsilon=0.204, max_nonzeros=400, random_state=seed)
        told += messages_of_fit(sketch, 400)
        guesses.append(guess_of_a_row_and_zeros(sketch, np.ones((1, 400))))
    assert max(guesses) > 0.78
    assert not any(map(is_said_of_every_row, told))


@wide
def test_rows_that_are_refused_are_not_said_to_be_hidden():
    """A row of zeros is shorter than any least norm: that it is refused tells it from all others, for certain."""
    sketch = DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=1.0, max_change=0.6, epsilon=0.3)
    messages = messages_of_fit(sketch.set_params(max_nonzeros=5, random_state=0), 9)
    with pytest.raises(ValueError, match="below min_norm"):
        sketch.transform(np.zeros((1, 9)))
    assert sketch.transform(np.repeat([[0.6, 0.0]], [5, 4], axis=1)).shape == (1, 4)
    assert not any("or none" in message for message in messages)


# What held, of distances and profiles


@wide
def test_no_two_rows_within_what_noise_hides_are_told_apart_better():
    """Of 60,000 such pairs, under all calibrations and projections, the largest distance was .4999990 of .5."""
    rng, random, largest = np.random.default_rng(0), Random(0), 0.0
    kinds = "rademacher", "gaussian", "uniform", "very_sparse", "identity", "count_sketch"
    for i in range(90):
        p, adjacency, seed = random.randint(1, 8), random.choice(["l1", "l2"]), random.randrange(99)
        sketch = DPRandomProjection(random.choice([1, 2, 6]), projection=random.choice(kinds), random_state=seed)
        if i % 3 == 0:
            adjacency = "l1"
            sketch.set_params(projection="gaussian", calibration=random.choice(["analytic_bound", "kenthapadi_bound"]))
        sketch.set_params(epsilon=random.choice([0.01, 0.3, 1.5]), delta=random.choice([1e-6, 0.01, 0.3]))
        sketch.set_params(adjacency=adjacency, max_change=random.choice([1.0, 0.3])).fit(np.zeros((1, p)))
        if sketch.scale_ == 0:
            assert sketch.guarantee_.hides == np.inf
            continue
        W, reach = projection_matrix(sketch.projection_), sketch.guarantee_.hides * (1 - 1e-9)
        steps = np.vstack([np.eye(p), np.linalg.svd(W)[0].T if adjacency == "l2" else rng.normal(size=(4, p))])
        steps *= reach / np.linalg.norm(steps, 1 if adjacency == "l1" else 2, axis=1)[:, None]
        row = rng.normal(size=p) * random.choice([0, 1, 30])
        moved = sketch.projection_.project(row + steps) - sketch.projection_.project(row[None])
        mu = np.linalg.norm(moved, axis=1).max() / (sketch.projection_.divisor * sketch.scale_)
        largest = max(largest, 2 * norm.cdf(mu / 2) - 1)
    assert 0.49 < largest <= 0.5


def exact_profile(epsilon, epsilon0, n_bits):
    """Delta of as many flipped bits, as a sum of 45 digits from its largest term to both sides."""
    with mpmath.workdps(45):
        epsilon, epsilon0 = mpmath.mpf(epsilon), mpmath.mpf(epsilon0)
        kept, odds = 1 / (1 + mpmath.exp(-epsilon0)), mpmath.exp(epsilon0)
        least = max(0, int(mpmath.floor((n_bits + epsilon / epsilon0) / 2)) + 1)
        if least > n_bits:
            return mpmath.mpf(0)
        start = min(n_bits, max(least, int((n_bits + 1) * kept)))
        first = mpmath.binomial(n_bits, start) * kept**start * (1 - kept) ** (n_bits - start)

        def terms(ks, ratio):
            probability = first
            for k in ks:
                probability *= ratio(k)
                yield probability * -mpmath.expm1(epsilon - (2 * k - n_bits) * epsilon0)
                if probability < first * mpmath.mpf(10) ** -60:
                    return

        above = terms(range(start, n_bits + 1), lambda k: mpmath.mpf(n_bits - k + 1) / k * odds if k > start else 1)
        below = terms(range(start - 1, least - 1, -1), lambda k: mpmath.mpf(k + 1) / ((n_bits - k) * odds))
        return sum(above) + sum(below)


@pytest.mark.parametrize("n_bits", [1, 5, 64, 1000, 20_000])
def test_profiles_of_many_bits_are_those_of_a_sum_with_many_digits(n_bits):
    """Of 776, of up to a million bits, none was below by more than 3e-13 of itself, where 2e-10 is added."""
    random = Random(n_bits)
    for _ in range(6):
        epsilon0 = 10 ** random.uniform(-6, 1)
        spread = n_bits**0.5 * epsilon0
        epsilon = max(0.0, n_bits * np.tanh(epsilon0 / 2) * epsilon0 + spread * random.uniform(-5, 10))
        exact = exact_profile(epsilon, epsilon0, n_bits)
        computed = randomised_response_profile(epsilon, epsilon0=epsilon0, n_bits=n_bits)
        assert rounded_up(computed) >= exact
        assert computed <= max(exact * (1 + mpmath.mpf(2) ** -32), 1e-300)


# What held, of files and reports


def sketch_at_random(random):
    """One of any parameters, of which many do not go together."""
    numbers = {
        "n_components": random.choice([1, 3, np.int8(6), np.uint16(40)]),
        "epsilon": random.choice([0.1, 5, np.float32(0.3), np.float16(2.5), 1e-3, 30]),
        "max_change": random.choice([1, 0.3, np.float32(0.7)]),
        "max_nonzeros": random.choice([None, np.int32(3)]),
        "delta": random.choice([0.0, 1e-6, 0.01, 1e-12]),
        "min_norm": random.choice([None, 0.01]),
        "density": random.choice(["auto", 0.1, 1.0]),
        "n_repeats": random.choice([1, np.int8(3)]),
        "adjacency": random.choice(["l1", "l2", "coordinate"]),
        "method": random.choice(["auto", "smooth", "rr", "laplace", "gaussian"]),
        "projection": random.choice(["rademacher", "gaussian", "very_sparse", "identity", "count_sketch", "oporp"]),
        "noise": random.choice(["gaussian", "laplace"]),
        "calibration": random.choice(["analytic", "analytic_bound", "kenthapadi_bound", "classic", "exact"]),
        "output": random.choice(["sign", "packed"]),
    }
    sketch = random.choice([DPOPORP, DPRandomProjection, DPSignRP, DPSignOPORP, iDPSignRP])()
    return sketch.set_params(**{name: value for name, value in numbers.items() if name in sketch.get_params()})


@wide
def test_sketches_of_any_parameters_come_back_from_files_with_what_was_stated_of_them(tmp_path):
    """Of 475 files of sketches that could be fitted none was refused, nor had another guarantee, or projection."""
    random, n_written = Random(0), 0
    for i in range(150):
        rows = X.astype(np.float32) if i % 2 else X
        try:
            sketch = sketch_at_random(random).fit(rows)
        except ValueError:  # of parameters that do not go together
            continue
        save_release(tmp_path / "rows.npz", sketch.transform(rows), sketch)
        release = load_release(tmp_path / "rows.npz")
        assert release.guarantee == sketch.guarantee_ == release.estimator.guarantee_
        assert np.array_equal(release.estimator.project_queries(rows), sketch.project_queries(rows))
        n_written += 1
    assert n_written > 20


BITS = make_pipeline(DPSignOPORP(4), LogisticRegression())
UNION = FeatureUnion([("numbers", DPOPORP(4, delta=1e-6)), ("bits", DPSignOPORP(4))])
THREE, LABELS = np.arange(24) % 3, (np.arange(24)[:, None] >> np.arange(3)) % 2


@wide
@pytest.mark.parametrize(
    ("model", "y", "n_releases"),
    [
        (OneVsRestClassifier(BITS), THREE, 3),
        (OneVsRestClassifier(BITS), LABELS, 3),
        (MultiOutputClassifier(OneVsRestClassifier(BITS)), LABELS[:, :2], 2),
        (MultiOutputClassifier(make_pipeline(UNION, RidgeClassifier())), LABELS, 6),
        (VotingClassifier([("a", OneVsRestClassifier(BITS)), ("b", BITS), ("c", "drop")]), THREE, 4),
        (make_pipeline(UNION, OneVsRestClassifier(BITS)), THREE, 2),
    ],
)
def test_sketches_within_models_of_several_classes_are_charged_for_each_before_and_after_a_fit(
    model, y, n_releases, monkeypatch
):
    """Of nearly 400 compositions, with several classes or targets, none was charged less than one row was released."""
    released, release = Counter(), BaseSketch._release

    def counting(sketch, rows, dtype):
        places = (PLACE.get(row[0]) for row in np.asarray(rows))
        released.update(place for place in places if place is not None)
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", counting)
    planned = privacy_report(clone(model), X, y)
    assert not released
    report = privacy_report(clone(model).fit(X, y))
    for stated in (planned, report):
        assert sum(step.releases for step in stated.steps) == n_releases >= max(released.values())
    assert planned.private.epsilon >= report.private.epsilon * (1 - 1e-9)
    assert planned.private.delta >= report.private.delta * (1 - 1e-9)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_lazy_rows_that_other_processes_were_given_have_no_total(n_jobs):
    """A union marks the sketches that get lazy rows, but copies of them in other processes: its report had a total."""
    da = pytest.importorskip("dask.array")
    union = clone(UNION).set_params(n_jobs=n_jobs).fit(X)
    with PrivacyLedger() as ledger:
        lazy = union.transform(da.from_array(X, chunks=(12, 6)))
        for _ in range(2):
            lazy.compute()
    assert len(ledger.entries) == 8
    for fitted in (union, union.fit(X)):
        report = privacy_report(fitted)
        assert report.total is None and report.private is None


def test_a_violation_that_follows_a_failed_fit_is_not_forgotten_by_the_next():
    """The fit that failed had taken down what was stated before the audit, and the next took down nothing."""
    sketch = DPOPORP(3, delta=1e-6, random_state=0).fit(X)
    with pytest.raises(ValueError):
        sketch.fit([[np.nan] * 6])
    sketch.guarantee_ = replace(sketch.guarantee_, audited_epsilon=9.0)
    sketch.fit(X)
    assert privacy_report(make_pipeline(sketch, LogisticRegression())).total is None
    again = DPOPORP(3, delta=1e-6, random_state=0).fit(X)
    with pytest.raises(ValueError):
        again.fit([[np.nan] * 6])
    assert not again.fit(X)._was_fitted_otherwise


def test_rows_are_not_said_to_be_lost_in_noise_that_is_not_there():
    """No noise is needed where W is zero, and none hides the row."""
    for seed in range(40):
        sketch = DPRandomProjection(1, projection="very_sparse", max_nonzeros=1, random_state=seed)
        messages = messages_of_fit(sketch, 2)
        if not projection_matrix(sketch.projection_).any():
            break
    assert not projection_matrix(sketch.projection_).any() and not any("75 of 100" in one for one in messages)
