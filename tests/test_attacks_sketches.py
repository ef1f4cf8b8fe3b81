"""Attacks on sketches: neighbours that lose the most, draws of the projection, what is hidden, parameters."""
# ruff: noqa: D101, D102

import contextlib
import copy
import datetime
import decimal
import itertools
import math
import pickle
import random
import re
import sys
import threading
import warnings
from fractions import Fraction
from functools import partial
from itertools import product
from random import Random

import dask.array as da
import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from attacks import X6, X24, fitted_and_told
from joblib import parallel_config
from scipy.special import chdtri, ndtr
from scipy.stats import binom, norm
from sketches import EVERY, WHOLE, computed, exact_losses_of_bits, projection_matrix, wide
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.utils._param_validation import InvalidParameterError

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPMoments,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    PublicScaler,
    _noise,
    iDPSignRP,
    load_release,
    privacy_report,
    save_release,
    similarity,
    transform_chunks,
    worst_neighbours,
)
from skdprp.mechanisms import gaussian_profile
from skdprp.mechanisms.randomised_response import (
    binomial_flip_epsilon,
    randomised_response_profile,
    sign_change_probability,
)
from skdprp.random_projection import make_projection
from skdprp.similarity import SketchNeighbors, _search, inner_product_variance
from skdprp.sketch._base import DRAW
from skdprp.testing import reproducible_noise

SECRET_TEXT = "s3cr3t"


# A delta over the draw of the projection


def rows_that_differ_in_every_sign(sketch):
    """Two rows at l1 distance 1, of norm min_norm or more, on both sides of zero in each projection of one drawn W."""
    W = sketch.projection_.matrix
    step = np.linalg.lstsq(W.T, np.ones(W.shape[1]), rcond=None)[0]
    step *= 0.499 / abs(step).sum()
    far = np.linalg.svd(W.T, full_matrices=True)[2][-1] * sketch.min_norm * 1.01
    return far + step, far - step


def drawn(delta, random_state):
    sketch = DPSignRP(
        64, method="rr", projection="gaussian", min_norm=1e4, delta=delta, random_state=random_state, epsilon=1.0
    )
    return sketch.fit(np.ones((1, 96)))


def test_the_rows_of_the_attack_differ_in_every_sign(silenced_noise):
    """They are neighbours within the domain; for the W that they were made for, all 64 bits differ."""
    sketch = drawn(1e-9, 0)
    rows = np.array(rows_that_differ_in_every_sign(sketch))
    assert abs(rows[0] - rows[1]).sum() <= 1.0
    released = sketch.transform(rows)
    assert (released[0] == -released[1]).all()


@pytest.mark.parametrize(
    ("delta", "draws", "random_state"), [(1e-60, 2**128, None), (1e-12, 2**32, 0), (1e-9, 2**32, 0)]
)
def test_delta_is_not_below_the_chance_of_one_seed(delta, draws, random_state):
    """W is one of 2^128, and from an integer one of 2^32: rows may be the worst for one of them without knowing it.

    Their exact delta is 1 / draws times that of 64 differing bits: 3.0e-41 for a printed 1e-60, 1.6e-10 for 1e-12.
    """
    try:
        sketch = drawn(delta, random_state)
    except ValueError:
        return
    of_these_rows = randomised_response_profile(1.0, epsilon0=sketch.flip_epsilon_, n_bits=64)
    assert of_these_rows / draws <= sketch.guarantee_.delta


@pytest.mark.parametrize(
    "sketch",
    [
        DPSignRP(64, method="rr", projection="gaussian", min_norm=10.0),
        DPRandomProjection(64, projection="gaussian", calibration="analytic_bound"),
        DPRandomProjection(64, projection="gaussian", calibration="kenthapadi_bound"),
    ],
    ids=repr,
)
def test_a_delta_over_the_draw_of_a_projection_is_one_that_seeds_can_have(sketch):
    """The guarantee says what is taken as random."""
    with pytest.raises(ValueError, match=r"delta=9\.9e-10 .* 2\*\*32"):
        clone(sketch).set_params(delta=9.9e-10).fit(np.ones((1, 96)))
    guarantee = clone(sketch).set_params(delta=1e-9).fit(np.ones((1, 96))).guarantee_
    assert DRAW in guarantee.assumptions


def rows_that_differ_in_every_sign_of(sketches):
    """Two rows as :func:`rows_that_differ_in_every_sign`, for each W of several."""
    W = np.hstack([sketch.projection_.matrix for sketch in sketches])
    Q, R = np.linalg.qr(W, mode="complete")
    step = Q[:, : W.shape[1]] @ np.linalg.solve(R[: W.shape[1]].T, np.ones(W.shape[1]))
    step *= 0.499 / abs(step).sum()
    far = Q[:, -1] * sketches[0].min_norm * 1.01
    return np.array([far + step, far - step])


def test_rows_that_are_made_for_seeds_are_excluded(silenced_noise):
    """Rows of 1000 numbers can be the worst for a hundred W of 8 columns at once, and not for one of 2^32 seeds alone.

    So their exact delta over integer seeds is 7.6e-9 for a printed 1e-9, which nothing that was assumed excluded.
    """
    options = {"method": "rr", "projection": "gaussian", "min_norm": 1e4, "delta": 1e-9}
    sketches = [DPSignRP(8, random_state=seed, **options).fit(np.ones((1, 1000))) for seed in range(60)]
    rows = rows_that_differ_in_every_sign_of(sketches)
    assert abs(rows[0] - rows[1]).sum() <= 1.0
    worst = sum((np.prod(sketch.transform(rows), axis=0) == -1).all() for sketch in sketches)
    of_these_rows = randomised_response_profile(1.0, epsilon0=sketches[0].flip_epsilon_, n_bits=8)
    guarantee = sketches[0].guarantee_
    assert worst * of_these_rows / 2**32 > guarantee.delta
    assert "not by what the generator makes of any seeds" in " ".join(guarantee.assumptions)


@pytest.mark.parametrize("relative_change", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("n_features", [2, 30])
def test_signs_of_drawn_projections_differ_as_often_as_their_delta_counts(relative_change, n_features):
    """The worst rows: of the least norm, on both sides of a coordinate. Of other generators it was known."""
    rows = np.zeros((2, n_features))
    rows[:, 0] = relative_change / 2, -relative_change / 2
    rows[:, -1] = np.sqrt(1 - relative_change**2 / 4)
    q, counts = sign_change_probability(relative_change), []
    for seed in range(40):
        projected = make_projection("gaussian", n_features, 1024, np.random.RandomState(seed)).project(rows)
        counts.append((projected[0] * projected[1] < 0).sum())
    assert abs(sum(counts) - 40 * 1024 * q) < 5 * np.sqrt(40 * 1024 * q * (1 - q))
    assert np.var(counts) < 2.5 * 1024 * q * (1 - q)  # of 40 independent binomials, but once in 10^6


@pytest.mark.parametrize("n_components", [1, 3, 256, 10**4, 10**6])
def test_quantiles_of_the_rows_of_a_gaussian_projection_are_above_the_exact_ones(n_components):
    """The share of delta for the draw, down to 1e-9 / 2^11 over a billion features, as the calibration rounds it."""
    with mpmath.workdps(40):
        for tail in (0.4, 1e-3, 1e-9, 5e-13, 5e-22):
            quantile = float(chdtri(n_components, tail) * (1 + 2.0**-36))
            assert mpmath.gammainc(mpmath.mpf(n_components) / 2, mpmath.mpf(quantile) / 2, regularized=True) <= tail


# Neighbours that lose the most


def stored(rows, form):
    """Rows as they are, by columns, sparse, or sparse with each entry in two halves, all the same vectors."""
    if form == "halves":
        row, column = map(np.tile, np.nonzero(rows), (2, 2))
        return sp.coo_array((rows[row, column] / 2, (row, column)), shape=rows.shape)
    return {"rows": np.ascontiguousarray, "columns": np.asfortranarray, "sparse": sp.csr_array}[form](rows)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize(
    "sketch",
    [DPSignOPORP(33), DPSignOPORP(34, n_repeats=2)]
    + [DPSignRP(33, projection=kind) for kind in ("rademacher", "gaussian", "uniform", "very_sparse")],
    ids=repr,
)
def test_levels_of_the_largest_rows_move_by_one_in_whatever_form_either_neighbour_comes(sketch, monkeypatch):
    """Rows at the edge of the domain or on multiples of the change, which is made where some column of W is largest."""
    levels, rng = [], np.random.default_rng(0)

    def recorded(of_bits, thresholds):
        levels.append(of_bits.astype(int))
        return np.zeros(of_bits.shape, bool)

    monkeypatch.setattr(_noise, "flip", recorded)
    for max_change, n_features in [(0.1, 17), (3e-3, 257)]:
        sketch.set_params(max_change=max_change, random_state=int(rng.integers(2**31))).fit(np.zeros((1, n_features)))
        W = abs(sketch.projection_.project(np.eye(n_features)))
        largest = 2.0**41 * max_change / (n_features + 1)
        for is_on_grid in (False, True):
            rows = rng.standard_normal((200, n_features))
            rows *= 0.999 * largest / abs(rows).sum(axis=1, keepdims=True)
            if is_on_grid:
                rows = max_change * rng.integers(-5, 6, rows.shape)
            place = np.arange(200), W.argmax(axis=0)[rng.integers(0, W.shape[1], 200)]
            neighbours = rows.copy()
            neighbours[place] += max_change * rng.choice([-1, 1], 200)
            moved = zip(rows[place], neighbours[place], strict=True)
            near = [abs(Fraction(other) - Fraction(one)) <= Fraction(max_change) for one, other in moved]
            for form, other_form in [("rows", "sparse"), ("columns", "rows"), ("sparse", "halves")]:
                levels.clear()
                signs = [
                    sketch.transform(stored(*pair)) for pair in [(rows[near], form), (neighbours[near], other_form)]
                ]
                one, other = np.split(np.vstack(levels), 2)
                assert (abs(one - other) <= 1)[signs[0] == signs[1]].all()
                assert (np.maximum(one, other) <= 1)[signs[0] != signs[1]].all()


@wide
@pytest.mark.parametrize("method", ["smooth", "rr", "laplace"])
def test_bits_that_a_coordinate_does_not_reach_are_the_same_whatever_the_format(method, pluses):
    """Epsilon is shared by the bits that it reaches: a rounding elsewhere, on the edge of a level, would be a loss."""
    rng = np.random.default_rng(0)
    sketch = DPSignRP(
        64, projection="very_sparse", density=0.13, method=method, adjacency="coordinate", epsilon=0.5, random_state=1
    ).fit(np.zeros((1, 30)))
    W = sketch.projection_.matrix.toarray()
    X = np.vstack(
        [rng.integers(-9, 10, (60, 30)) * 0.1, rng.normal(size=(60, 30)) * 10.0 ** rng.integers(0, 6, (60, 30))]
    )
    changed = rng.integers(0, 30, len(X))
    Y = X.copy()
    Y[np.arange(len(X)), changed] -= rng.choice([-0.9, 0.9], len(X))
    before = pluses(sketch, X)
    for stored in (np.asfortranarray(Y), sp.csr_array(Y), sp.coo_array(Y)):
        differ = before != pluses(sketch, stored)
        assert differ.any() and not (differ & (W[changed] == 0)).any()
        assert exact_losses_of_bits(before, np.where(differ, pluses(sketch, stored), before)) <= 0.5
    alone = np.vstack([pluses(sketch, row[None]) for row in Y])
    assert np.array_equal(alone, pluses(sketch, Y))


@wide
@pytest.mark.parametrize(
    "sketch",
    [
        DPSignOPORP(8, adjacency="l1", n_repeats=2, random_state=0),
        DPSignOPORP(8, adjacency="l2", random_state=0),
        DPSignRP(8, method="laplace", projection="gaussian", random_state=0),
        DPSignRP(8, method="laplace", delta=0.2, random_state=0),
    ],
    ids=repr,
)
def test_rows_that_nearly_leave_float64_lose_no_more_by_laplace_flips(sketch, pluses):
    """Numbers that cancel, as large as the domain allows: each sum is rounded, and so is each quotient by the scale."""
    rng, beta = np.random.default_rng(0), 1 / 3
    sketch = clone(sketch).set_params(max_change=beta).fit(np.zeros((1, 12)))
    first = np.repeat(rng.normal(size=(40, 6)), 2, axis=1) * np.where(np.arange(12) % 2, -1, 1)
    first *= 0.99 * beta * 2.0**41 / 13 / np.abs(first).sum(axis=1, keepdims=True)
    first += rng.normal(size=first.shape)
    steps = np.vstack([np.eye(12), rng.normal(size=(28, 12))])
    steps *= 0.99 * beta / np.linalg.norm(steps, 2 if sketch.adjacency == "l2" else 1, axis=1, keepdims=True)
    second = first + steps
    assert ((first - second) != 0).any(axis=1).all()
    # Of epsilon, or with a delta of what every bit may lose.
    most = 8 * binomial_flip_epsilon(1.0, 0.2, n_components=8, changed=1.0) if sketch.guarantee_.delta else 1.0
    assert exact_losses_of_bits(pluses(sketch, first), pluses(sketch, second)) <= most


@wide
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("method", ["smooth", "rr", "laplace"])
def test_profiles_of_a_coordinate_are_not_below_the_sum_over_all_outputs(method, delta, pluses):
    """At every epsilon, in exact integers: all bits that the fullest row of W reaches change their sign, or leave 0."""
    sketch = DPSignRP(
        7, projection="very_sparse", density=0.4, method=method, adjacency="coordinate", delta=delta, random_state=2
    ).fit(np.zeros((1, 5)))
    unit = np.eye(5)[(sketch.projection_.matrix.toarray() != 0).sum(axis=1).argmax()]
    for start in (-0.4999 * unit, 0 * unit, 0.3 * np.ones(5)):
        u, v = (pluses(sketch, row[None])[0] for row in (start, start + 0.9998 * unit))
        outputs = list(itertools.product([True, False], repeat=7))
        p, q = (
            [math.prod(int(w if s else WHOLE - w) for s, w in zip(signs, bits, strict=True)) for signs in outputs]
            for bits in (u, v)
        )
        for epsilon in (0.0, 0.5, 0.9, 1.0, 1.2):
            factor = Fraction(math.exp(epsilon) * (1 + 2.0**-50))
            exact = max(
                sum(max(Fraction(0), a - factor * b) for a, b in zip(*pair, strict=True)) for pair in ((p, q), (q, p))
            )
            assert exact / WHOLE**7 <= sketch.guarantee_.profile(epsilon)


FORMS = (np.asfortranarray, sp.csr_matrix, sp.csc_array, sp.coo_array, partial(np.array, dtype=">f8"), np.asarray)


@wide
@pytest.mark.parametrize("adjacency", ["coordinate", "l1", "l2"])
def test_neighbours_among_other_rows_and_in_any_two_forms_lose_epsilon_at_most(adjacency, pluses):
    """Rows on multiples of max_change, and as large as the domain allows: each neighbour among rows of its own."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        repeats, epsilon, beta = rng.choice([1, 4]), rng.choice([0.05, 1.0, 40.0]), rng.choice([0.1, 1 / 3, 1e50])
        sketch = DPSignOPORP(8, adjacency=adjacency, n_repeats=repeats)
        if adjacency != "l2" and rng.random() < 0.6:
            method, kind = rng.choice(["smooth", "rr", "laplace"]), rng.choice(["gaussian", "very_sparse"])
            sketch = DPSignRP(8, adjacency=adjacency, method=method, projection=kind)
        sketch.set_params(epsilon=epsilon, max_change=beta, random_state=rng.integers(99)).fit(np.zeros((1, 9)))
        step = {"coordinate": np.eye(9)[rng.integers(9)], "l1": rng.normal(size=9), "l2": rng.choice([-1.0, 1.0], 9)}
        step = (1 - 1e-9) * beta * step[adjacency] / np.linalg.norm(step[adjacency], 2 if adjacency == "l2" else 1)
        row = (
            rng.integers(-6, 7, 9) * beta if rng.random() < 0.5 else rng.normal(size=9) * beta * 2.0 ** rng.integers(34)
        )
        bits = []
        for one in (row, row + step):
            n_before, form = rng.integers(4), FORMS[rng.integers(len(FORMS))]
            bits.append(pluses(sketch, form(np.vstack([*rng.normal(size=(n_before, 9)), one])))[-1])
        assert exact_losses_of_bits(bits[:1], bits[1:]) <= epsilon


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


# What is said to be hidden


def distance_over_all_outputs(before, after):
    """Total variation distance of the bits of two rows, of which each has a probability of its own."""
    p = q = np.ones(1)
    for a, b in zip(before / WHOLE, after / WHOLE, strict=True):
        p, q = np.append(p * a, p * (1 - a)), np.append(q * b, q * (1 - b))
    return abs(p - q).sum() / 2


@wide
@pytest.mark.parametrize(
    "sketch",
    [
        DPSignOPORP(12, method="rr", random_state=0),
        DPSignRP(12, method="rr", adjacency="coordinate", projection="very_sparse", density=0.03, random_state=0),
    ],
    ids=repr,
)
def test_any_change_is_not_said_to_be_hidden_where_any_change_of_one_coordinate_is(sketch, pluses):
    """A row and its negative are told apart by the majority of their bits, of which one coordinate reaches few."""
    sketch = clone(sketch).set_params(epsilon=1.0).fit(np.zeros((1, 60)))
    row = np.random.default_rng(0).normal(size=(1, 60))
    one_changed = row - 1e6 * np.eye(60)[:1]
    assert sketch.guarantee_.hides == math.inf
    assert distance_over_all_outputs(pluses(sketch, row)[0], pluses(sketch, one_changed)[0]) <= 0.5
    assert distance_over_all_outputs(pluses(sketch, row)[0], pluses(sketch, -row)[0]) > 0.5
    assert "any change," not in " ".join(str(sketch.guarantee_).split())


def test_the_distance_that_is_hidden_is_that_of_rows_as_they_leave_a_map():
    """Of a map that makes rows 100 times as long the line on neighbours told so, that on what is hidden did not."""
    model = make_pipeline(PublicScaler([(0.0, 0.01)] * 4), DPOPORP(2, noise="laplace")).fit(np.zeros((3, 4)))
    stated = " ".join(str(privacy_report(model).private).split())
    assert "leave publicscaler" in re.search(r"hides (.*?) the best guess", stated)[1]


@pytest.mark.parametrize("seed", [287, 5])
def test_rows_are_said_to_be_lost_on_average_over_their_signs(seed):
    """All three features may meet in one bin, whose noise no other draw has: the average is not one over draws."""
    options = {"n_components": 16, "projection": "count_sketch", "adjacency": "l2", "epsilon": 5.29, "max_nonzeros": 3}
    sketch, message = fitted_and_told(DPRandomProjection(**options, random_state=seed), 3)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    moved = np.linalg.norm(sketch.projection_.project(signs) / sketch.projection_.divisor, axis=1)
    assert ndtr(moved / sketch.scale_ / 2).mean() <= 0.75 if message else seed != 287
    assert not message or "average over the signs of these numbers" in message


def _distance_of_bits(one, other):
    """Total variation distance of independent bits."""
    bits = np.array(list(itertools.product([0, 1], repeat=len(one))))
    of_each = [np.prod(np.where(bits, p, 1 - p), axis=1) for p in (one, other)]
    return np.abs(of_each[0] - of_each[1]).sum() / 2


_SIGNS = [
    *(DPSignRP(5, method=method, adjacency=one, delta=0.01, random_state=0)
      for method in ("smooth", "rr", "laplace") for one in ("coordinate", "l1")),
    *(DPSignOPORP(6, method=method, n_repeats=2, random_state=0) for method in ("smooth", "rr", "laplace")),
    *(DPSignOPORP(6, adjacency=one, random_state=0) for one in ("l1", "l2")),
]  # fmt: skip
_NUMBERS = [
    *(DPRandomProjection(4, projection=kind, adjacency=one, density=0.5, random_state=0)
      for kind in ("gaussian", "very_sparse", "count_sketch") for one in ("l1", "l2")),
    *(DPOPORP(4, adjacency=one, random_state=0) for one in ("l1", "l2")),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sketch", [*_SIGNS, *_NUMBERS], ids=repr)
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_no_change_that_is_hidden_is_guessed(sketch, epsilon):
    """Rows as far apart as `hides` says: the best guess, computed exactly, is right with probability 3/4 at most."""
    rng, p = np.random.default_rng(0), 5
    sketch = sketch.set_params(epsilon=epsilon, max_change=0.3).fit(np.zeros((1, p)))
    hidden, projection = min(sketch.guarantee_.hides, 300.0), sketch.projection_
    order = 2 if sketch.adjacency == "l2" else 1
    steps = [*np.eye(p), *(() if sketch.adjacency == "coordinate" else rng.normal(size=(10, p)))]
    for step in steps:
        step = step * hidden / np.linalg.norm(step, order) * (1 - 1e-12)
        for row in (-step / 2, np.zeros(p), 0.3 * rng.integers(-3, 4, p), rng.normal(size=p)):
            x = projection.project(np.stack([row, row + step]))
            if hasattr(sketch, "positive_probability"):
                distance = _distance_of_bits(*sketch.positive_probability(x))
            else:
                distance = 2 * ndtr(np.linalg.norm(x[0] - x[1]) / projection.divisor / 2 / sketch.scale_) - 1
            assert (1 + distance) / 2 <= 0.75 + 1e-12


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


def test_rows_are_not_said_to_be_lost_in_noise_that_is_not_there():
    """No noise is needed where W is zero, and none hides the row."""
    for seed in range(40):
        sketch = DPRandomProjection(1, projection="very_sparse", max_nonzeros=1, random_state=seed)
        messages = messages_of_fit(sketch, 2)
        if not projection_matrix(sketch.projection_).any():
            break
    assert not projection_matrix(sketch.projection_).any() and not any("75 of 100" in one for one in messages)


# Parameters and attributes


@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(2, adjacency="replace_one"),
        DPOPORP(2, noise="laplace", adjacency="entry"),
        DPRandomProjection(2, adjacency="add_remove"),
        DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=-1.0),
    ],
    ids=repr,
)
def test_parameters_are_checked_whatever_scikit_learn_is_told(sketch):
    """skip_parameter_validation=True: noise for a change of 1.0 was printed as that of one row replaced.

    A negative min_norm made the probability that a sign differs negative, so that no bit was flipped.
    """
    with sklearn.config_context(skip_parameter_validation=True), pytest.raises(ValueError):
        clone(sketch).fit(np.ones((3, 4)))


@pytest.mark.parametrize("sketch", EVERY, ids=repr)
def test_no_array_of_a_fitted_sketch_can_be_written_to(sketch):
    """The noise is calibrated for what they hold; a copy or a pickle has arrays of its own, which are no different."""
    fitted = clone(sketch).fit(np.ones((1, 64)))
    fitted.transform(np.full((1, 64), 9.0))
    for held in (fitted, copy.copy(fitted), copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        held.transform(np.full((1, 64), 9.0))
        projections = getattr(held.projection_, "parts", [held.projection_])
        assert isinstance(projections, tuple) or len(projections) == 1
        for owner in (held, *projections):
            arrays = [value for value in vars(owner).values() if isinstance(value, np.ndarray)]
            sparse = [value for value in vars(owner).values() if sp.issparse(value)]
            arrays += [array for W in sparse for array in (W.data, W.indices, W.indptr)]
            assert not any(array.flags.writeable for array in arrays)


def test_who_works_with_a_very_sparse_matrix_does_not_change_the_sketch():
    """Each has a CSR array of its own, to which new arrays may be given instead of writing to those that it has."""
    X = sp.csr_array(np.ones((1, 64)))
    sketch = DPRandomProjection(16, projection="very_sparse", density=0.1, random_state=0).fit(X)
    with reproducible_noise(0):
        before = sketch.transform(X)
    W = sketch.projection_.matrix
    W.data = W.data * 1000
    with contextlib.suppress(ValueError):
        sketch.projection_.matrix.data *= 1000
    with reproducible_noise(0):
        assert np.array_equal(sketch.transform(X), before)


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "uniform"])
def test_who_works_with_the_public_matrix_does_not_change_the_sketch(kind):
    """Scaling projection_.matrix in place, to look at it, scaled what was released, and not its noise."""
    X = np.ones((1, 64))
    sketch = DPRandomProjection(16, projection=kind, random_state=0).fit(X)
    with reproducible_noise(0):
        before = sketch.transform(X)
    with contextlib.suppress(ValueError):
        W = sketch.projection_.matrix
        W *= 1000
    with reproducible_noise(0):
        assert np.array_equal(sketch.transform(X), before)


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
    ("sketch", "name", "value"),
    [
        (DPOPORP(4), "scale_", 1e-9),
        (DPRandomProjection(4, noise="laplace"), "scale_", 1e-9),
        (DPSignOPORP(4), "flip_thresholds_", np.array([2**63, 1], np.uint64)),
        (DPSignOPORP(4), "component_change_", np.full(4, 1e-9)),
        (DPSignOPORP(4, adjacency="l1"), "flip_scale_", 1e-9),
    ],
)
def test_noise_that_was_set_after_the_fit_is_refused(sketch, name, value):
    """As another `projection_` is: or rows are released nearly without noise, under the guarantee of the fit."""
    sketch = clone(sketch).fit(X6)
    setattr(sketch, name, value)
    with pytest.raises((ValueError, AttributeError)):
        sketch.transform(X6)


@pytest.mark.parametrize(
    "sketch",
    [DPSignOPORP(4, epsilon=0.1), DPSignOPORP(4, n_repeats=2), DPSignRP(4), DPSignRP(4, method="rr")],
    ids=repr,
)
def test_a_scale_of_flips_that_another_fit_has_left_decides_nothing(sketch, tmp_path):
    """A thread that fits other parameters may leave it for a moment: signs were released without a flip."""
    sketch = clone(sketch).set_params(random_state=0).fit(X6)
    with reproducible_noise(0):
        released, probabilities = sketch.transform(X6), sketch.positive_probability([[-2.0], [0.5]])
    sketch.flip_scale_ = 1e-9
    with reproducible_noise(0):
        again = sketch.transform(X6)
    assert np.array_equal(released, again)
    assert np.array_equal(probabilities, sketch.positive_probability([[-2.0], [0.5]]))
    a, b = worst_neighbours(sketch, X6)
    assert np.abs(a - b).sum() > 0.5
    save_release(tmp_path / "released.npz", released, sketch)
    assert load_release(tmp_path / "released.npz").guarantee.epsilon == sketch.epsilon


class SlowRows:
    """Rows in slow storage: an array once somebody else has done something."""

    def __init__(self, X, meanwhile):
        self.X, self.meanwhile, self.shape, self.dtype = X, meanwhile, X.shape, X.dtype

    def __len__(self):
        return len(self.X)

    def __array__(self, dtype=None, copy=None):
        self.meanwhile()
        return np.array(self.X, dtype=dtype)


def test_a_fit_that_another_one_overtakes_keeps_what_that_has_stated():
    """A release at epsilon = 20 was taken for one of the fit that began before it and ended after it, at 0.1."""
    sketch = DPSignOPORP(4, epsilon=0.1, random_state=0)
    sketch.fit(SlowRows(X6, lambda: sketch.set_params(epsilon=20.0).fit(X6).set_params(epsilon=0.1)))
    assert sketch.guarantee_.epsilon == 0.1 and sketch._was_fitted_otherwise
    assert privacy_report(sketch).total is None


def test_a_fit_that_another_one_overtakes_keeps_that_a_copy_has_released_lazy_rows():
    def _release_by_a_copy():
        lazy = da.from_array(X6, chunks=(2, X6.shape[1]))
        copy.deepcopy(sketch.fit(X6)).transform(lazy).compute(scheduler="synchronous")

    sketch = DPSignOPORP(4, random_state=0)
    sketch.fit(SlowRows(X6, _release_by_a_copy))
    assert privacy_report(sketch).total is None


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


@pytest.mark.parametrize(
    "sketch",
    [DPOPORP(4), DPRandomProjection(projection="identity"), DPSignRP(4), DPSignOPORP(4, output="packed"), iDPSignRP(4)],
    ids=lambda sketch: type(sketch).__name__,
)
def test_no_sketch_is_a_view_of_another_array(sketch):
    """Of rows of either type of floats: an array beneath, such as that of the rows, would be at hand as `base`."""
    for rows in (X24, X24.astype(np.float32)):
        assert sketch.fit(rows).transform(rows).base is None


# What errors and warnings quote


SECRET = 8675309.0


@pytest.mark.parametrize("estimator", [DPOPORP(2), PublicScaler((0, 1))], ids=repr)
def test_warnings_of_pandas_quote_no_value(estimator):
    """Sparse columns with two fill values make pandas warn, and print what the columns are filled with."""
    columns = {
        "a": pd.arrays.SparseArray([1.0, SECRET], fill_value=SECRET),
        "b": pd.arrays.SparseArray([0.0, SECRET], fill_value=0.0),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):
            clone(estimator).fit(pd.DataFrame(columns))
    assert not any("8675309" in str(warning.message) for warning in caught)


def with_an_entry_outside():
    X = sp.csr_array(np.array([[8675309.0, 1.0]]))
    X.indices[1] = 8675309
    return X


class Raises:
    """A cell that raises what begins as an error of a library that quotes no values."""

    def __float__(self):
        raise ValueError("Found array with 8675309")


STRANGE = [
    np.full((1, 1, 2), SECRET),
    SECRET,
    b"8675309",
    sp.coo_array(np.array([SECRET, 0.0])),
    [{8675309, 1}],
    {"a": [8675309], "b": [1]},
    [[complex(8675309, 1), 1]],
    sp.csr_array([[8675309 + 1j, 1]]),
    [[b"n8675309", 1]],
    [[10**400 + 8675309, 1]],
    [[decimal.Decimal("sNaN8675309"), 1]],
    np.array([[np.array([8675309, 1]), 1]], dtype=object),
    [[8675309], [1, 8675309]],
    pd.DataFrame({"a": pd.arrays.IntervalArray.from_tuples([(0, 8675309)]), "b": 1}),
    pd.DataFrame({"a": pd.PeriodIndex(["8675-09"], freq="M"), "b": 1}),
    pd.DataFrame({"a": pd.Categorical(["n8675309"]), "b": 1}),
    pd.DataFrame([[8675309, "n8675309"]], columns=["a", "a"]),
    pd.Series([SECRET, 1.0]),
    [[datetime.timedelta(8675309), 1]],
    with_an_entry_outside(),
    [[Raises(), 1]],
]


@pytest.mark.parametrize("X", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_what_is_no_table_of_numbers_is_refused_and_not_quoted(X, method):
    """Neither in the error nor in those that it came from, nor in a warning."""
    sketch = DPOPORP(2).fit(np.ones((1, 2)))
    with warnings.catch_warnings(record=True) as caught, pytest.raises((TypeError, ValueError)) as error:
        warnings.simplefilter("always")
        getattr(sketch, method)(X)
    said = [str(warning.message) for warning in caught]
    said += [str(one) for one in (error.value, error.value.__cause__, error.value.__context__)]
    assert not any("8675" in text for text in said)


def chain(error):
    while error is not None:
        yield f"{error!r} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__


class Unreadable:
    def __float__(self):
        raise ValueError(SECRET_TEXT)


def with_cell(cell, form=np.asarray):
    rows = X24.astype(object)
    rows[3, 2] = cell
    return form(rows)


FAULTY = {
    "text": with_cell(SECRET_TEXT),
    "a list": with_cell(SECRET_TEXT).tolist(),
    "a frame": with_cell(SECRET_TEXT, pd.DataFrame),
    "an object": with_cell(Unreadable()),
    "ragged": [*X24[:-1].tolist(), [777.5]],
    "records": np.array([(SECRET_TEXT, 1.0)] * 9, dtype=[("a", "U9"), ("b", "f8")]),
    "dictionaries": [{SECRET_TEXT: 1}] * 9,
    "huge": with_cell(777e300, lambda rows: rows.astype(float)),
    "integers": [[10**400] * 6] * 9,
}


@pytest.mark.parametrize("fault", FAULTY)
def test_no_link_of_the_chain_of_an_error_quotes_a_cell(fault):
    """Causes, suppressed contexts and notes, of what sketches alone, in chunks and in pipelines refuse."""
    sketches = DPOPORP(4).fit(X24), DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=0.1).fit(X24)
    pipeline = make_pipeline(PublicScaler((-9, 9)), DPOPORP(4)).fit(X24)
    for sketch in sketches:
        for refuse in (
            sketch.transform,
            clone(sketch).fit_transform,
            lambda rows, sketch=sketch: transform_chunks(sketch, [X24[:8], rows]),
            pipeline.transform,
        ):
            try:
                refuse(FAULTY[fault])
            except Exception as error:
                assert not any(SECRET_TEXT in text or "777" in text for text in chain(error))


# Rows in chunks and buffers


def fill_array(buffer, values):
    buffer[:] = values


def fill_frame(buffer, values):
    buffer.iloc[:, :] = values


def fill_sparse(buffer, values):
    buffer.data[:] = values.ravel()


FILLED = {np.asarray: fill_array, pd.DataFrame: fill_frame, sp.csr_array: fill_sparse}


@pytest.mark.parametrize("form", FILLED)
@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_rows_in_a_reused_buffer_are_sketched_once(form, n_jobs):
    """A generator fills one array again and again; with two jobs the last chunks were sketched several times."""

    def chunks():
        buffer = form(np.ones((5, 6)))
        for chunk in range(8):
            FILLED[form](buffer, np.repeat(np.arange(5 * chunk, 5 * chunk + 5.0)[:, None], 6, axis=1))
            yield buffer

    sketch = DPRandomProjection(projection="identity", epsilon=100.0, max_change=0.01).fit(np.zeros((1, 6)))
    with parallel_config("threading", n_jobs=2):  # holds where n_jobs is None
        released = transform_chunks(sketch, chunks(), n_jobs=n_jobs)
    assert np.allclose(released, np.arange(40.0)[:, None], atol=0.4)


def test_an_interrupted_run_says_how_many_rows_are_out():
    """Who stops a long run by hand has to know where to go on: a row that is sketched again is released again."""

    def chunks():
        yield np.zeros((5, 6))
        yield np.zeros((5, 6))
        raise KeyboardInterrupt

    out = np.full((20, 4), np.nan)
    with pytest.raises(KeyboardInterrupt) as caught:
        transform_chunks(DPOPORP(4).fit(np.zeros((1, 6))), chunks(), out=out)
    assert np.isfinite(out).all(axis=1).sum() == 10
    assert any("10 rows" in note for note in getattr(caught.value, "__notes__", ()))


def frames_of_polars(buffer):
    return pytest.importorskip("polars").DataFrame({name: buffer[i] for i, name in enumerate("abc")})


def frames_of_arrow(buffer):
    pyarrow = pytest.importorskip("pyarrow")
    columns = (pd.arrays.ArrowExtensionArray(pyarrow.chunked_array([pyarrow.array(row)])) for row in buffer)
    return pd.DataFrame(dict(enumerate(columns)))


@pytest.mark.parametrize("frame_of", [frames_of_polars, frames_of_arrow])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_in_frames_of_a_reused_buffer_are_sketched_once(frame_of, n_jobs):
    """Frames of polars and of Arrow are views of a NumPy array, and their copies too: rows were released three times.

    Of 40 rows in 8 chunks, with two jobs, the last chunk stood at three places, and the others were not there.
    """

    def chunks():
        buffer = np.ones((3, 5))
        for chunk in range(8):
            buffer[:] = np.arange(5 * chunk, 5 * chunk + 5.0)
            yield frame_of(buffer)

    sketch = DPRandomProjection(projection="identity", epsilon=100, max_change=0.1).fit(np.zeros((1, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of columns
        released = transform_chunks(sketch, chunks(), n_jobs=n_jobs)
    assert np.allclose(released, np.arange(40.0)[:, None], atol=0.45)


# Search and estimates


@pytest.mark.parametrize("unit", [1e-100, 1e-90, 1e80, 1e100])
def test_cosines_do_not_depend_on_the_unit_of_the_rows(unit):
    """Products of two squared norms leave the floats from units of 1e-81 down and 1e77 up: all cosines were 0.

    Sketches take such units, as `max_change` is from 1e-100 to 1e100, and so do the other estimates.
    """
    S, T = unit * np.array([[3.0, 4.0]]), unit * np.array([[5.0, 0.0], [-6.0, -8.0]])
    assert np.allclose(similarity.cosines(S, T), [[0.6, -1.0]])


def test_sketches_of_any_size_and_noise_can_be_searched():
    """Densities of components of one row, of one number, of noise that hides all and of noise that hides nothing."""
    rng = np.random.default_rng(0)
    for n, p, k in ((1, 1, 1), (2, 5, 3), (3, 3, 8), (40, 64, 16)):
        rows = rng.normal(size=(n, p))
        for epsilon in (1e-6, 1.0, 1e8):
            for change in (1e-30, 1.0, 1e30) if n == 2 else (1.0,):
                for sketch in (
                    DPOPORP(k, epsilon=epsilon, max_change=change),
                    DPOPORP(k, epsilon=epsilon, max_change=change, noise="laplace"),
                    DPSignOPORP(k, epsilon=epsilon, max_change=change, output="packed"),
                ):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        sketches = sketch.fit(rows * change).transform(rows * change)
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")
                        found = SketchNeighbors(n_neighbors=1).fit(sketches, sketch=sketch)
                        assert np.isfinite(found.kneighbors(rows * change)[0]).all()


# Fits in another thread


def test_a_sketch_that_is_fitted_again_meanwhile_releases_under_the_guarantee_of_its_noise():
    rows, stop = np.ones((2, 6)), threading.Event()
    sketch = DPOPORP(4, random_state=0).fit(rows)

    def fits():
        for place in range(10**9):
            if stop.is_set():
                return
            change = [1.0, 50.0][place % 2]
            sketch.set_params(max_change=change, noise=["gaussian", "laplace"][place % 2]).fit(rows * 0)

    before, thread = sys.getswitchinterval(), threading.Thread(target=fits)
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        with PrivacyLedger() as ledger:
            sizes = []
            for _ in range(4000):
                try:
                    sizes.append(np.abs(sketch.transform(np.zeros((1000, 6)))).mean())
                except ValueError as refused:
                    assert "fit again" in str(refused)
                if len(sizes) == 40:
                    break
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)
    stated = [one.guarantee.adjacency.bound for one in ledger.entries]
    # Means of 4000 sizes: of Gaussian noise of scale 4.23 they are 3.4, of Laplace noise of scale 50 they are 50.
    assert [1.0 if size < 13 else 50.0 for size in sizes] == stated


def test_searches_with_and_without_faiss_find_what_sorting_all_distances_does():
    rng = np.random.default_rng(0)
    for _ in range(60):
        width, n_rows, n_queries = (int(rng.integers(1, most)) for most in (40, 300, 40))
        S, Q = (rng.integers(0, 4, (n, width)).astype(np.uint8) for n in (n_rows, n_queries))
        k = int(rng.integers(1, n_rows + 1))
        distances = np.bitwise_count(Q[:, None] ^ S[None]).sum(axis=2, dtype=int)
        expected = np.argsort(distances, axis=1, kind="stable")[:, :k]
        for arranged in (_search._Words(S), _search.arrange(S)):
            found, places = arranged.search(Q, k, 2)
            assert np.array_equal(places, expected)
            assert np.array_equal(found, np.take_along_axis(distances, expected, axis=1))


@pytest.mark.parametrize(("kind", "p", "k"), [("count_sketch", 10, 4), ("oporp", 10, 4), ("oporp", 4, 9)])
def test_variances_of_inner_products_are_those_of_many_draws(kind, p, k):
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(2, p))
    draws = [make_projection(kind, p, k, np.random.RandomState(seed)) for seed in range(800)]
    found = [np.prod(W.project(np.vstack([u, v])), axis=0).sum() for W in draws]
    variance = inner_product_variance(u, v, projection=draws[0], noise_variance=0.0)
    assert np.mean(found) == pytest.approx(u @ v, abs=4 * np.sqrt(variance / 800) + 1e-9)
    assert np.var(found) == pytest.approx(variance, rel=0.35, abs=1e-12)


SIGNS = {k: np.array(list(product([-1, 1], repeat=k))) for k in range(1, 9)}


@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")  # more than there are features
@pytest.mark.parametrize("seed", range(4))
def test_no_neighbours_of_any_projection_move_further_than_noise_or_flips_are_for(seed):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        p, k, t = (int(rng.integers(1, top)) for top in (8, 7, 3))
        known = {"epsilon": float(10 ** rng.uniform(-2, 1.2)), "max_change": float(10 ** rng.uniform(-3, 3))}
        kinds = ("rademacher", "gaussian", "uniform", "very_sparse", "identity", "count_sketch")
        sketches = [
            DPOPORP(k, noise=noise, adjacency=norm) for noise in ("laplace", "gaussian") for norm in ("l1", "l2")
        ]
        sketches += [
            DPRandomProjection(k, projection=kind, adjacency=norm, noise=noise)
            for kind, norm, noise in product(kinds, ("l1", "l2"), ("laplace", "gaussian"))
        ]
        sketches += [
            DPSignOPORP(k * t, n_repeats=t, adjacency=norm, method="laplace") for norm in ("coordinate", "l1", "l2")
        ]
        sketches += [DPSignRP(k, projection=kind, method="laplace") for kind in kinds[:4]]
        for sketch in sketches:
            sketch.set_params(random_state=int(rng.integers(10**6)), **known).fit(np.zeros((1, p)))
            W = sketch.projection_.project(np.eye(p))
            if hasattr(sketch, "flip_scale_"):
                W, noise = W / sketch.flip_scale_, "laplace"
            else:
                W, noise = W / sketch.projection_.divisor / (sketch.scale_ or 1.0), sketch.noise
            if noise == "laplace" and sketch.adjacency != "l2":
                loss = np.abs(W).sum(axis=1).max() * sketch.max_change
            elif noise == "laplace":
                if W.shape[1] > 8:
                    continue
                loss = np.sqrt(((SIGNS[W.shape[1]] @ W.T) ** 2).sum(axis=1)).max() * sketch.max_change
            else:
                moved = np.sqrt((W**2).sum(axis=1)).max() if sketch.adjacency == "l1" else np.linalg.norm(W, 2)
                assert (
                    gaussian_profile(sketch.epsilon, scale=1.0, sensitivity=moved * sketch.max_change) <= sketch.delta
                )
                continue
            assert loss <= sketch.epsilon


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_no_signs_of_laplace_flips_lose_more_than_is_stated():
    rng = np.random.default_rng(0)
    for kind in ("oporp", "gaussian", "very_sparse", "rademacher") * 5:
        k, p = np.sort(rng.integers(1, 6, 2))
        epsilon, beta = np.exp(rng.uniform(-3, 3)), np.exp(rng.normal())
        options = {"epsilon": float(epsilon), "max_change": float(beta), "adjacency": "l1"}
        if kind == "oporp":
            sketch = DPSignOPORP(int(k), **options)
        else:
            sketch = DPSignRP(int(k), method="laplace", projection=kind, density=0.5, **options)
        sketch.fit(np.zeros((1, p)))
        change = rng.dirichlet(np.ones(p)) * rng.choice([-1, 1], p) * beta
        for row in (-change / 2, rng.normal(size=p) * beta, rng.normal(size=p) * 100 * beta):
            plus = [sketch.positive_probability(sketch.projection_.project(u[None]))[0] for u in (row, row + change)]
            signs = np.array(list(itertools.product([False, True], repeat=int(k))))
            one, other = (np.prod(np.where(signs, q, 1 - q), axis=1) for q in plus)
            for at in (0.0, epsilon / 2, epsilon):
                delta = np.maximum(one - np.exp(at) * other, 0.0).sum()
                assert delta <= sketch.guarantee_.profile(at) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "uniform", "very_sparse", "oporp"])
def test_signs_left_alone_are_those_of_neighbours_and_others_move_within_their_noise(projection):
    rng = np.random.default_rng(0)
    for max_change, method in itertools.product((1e-6, 0.1, 7.0, 1e5), ("gaussian", "rr")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sketch = iDPSignRP(12, max_change=max_change, method=method, projection=projection).fit(np.zeros((1, 9)))
        grid = rng.integers(-3, 4, (40, 9)) * max_change
        rows = np.concatenate([grid, rng.normal(size=(40, 9)) * max_change * 10])
        moves = np.zeros_like(rows)
        moves[np.arange(len(rows)), rng.integers(9, size=len(rows))] = max_change
        x, other = sketch.projection_.project(rows), sketch.projection_.project(rows + moves)
        may_flip = np.abs(x) <= sketch.component_change_
        assert not (((x > 0) != (other > 0)) & ~may_flip).any()
        if method == "gaussian":
            moved = np.linalg.norm(np.where(may_flip, x - other, 0.0), axis=1)
            assert (moved <= sketch._sensitivity_within(may_flip)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_bits_of_any_sign_sketch_lose_no_more_than_epsilon():
    rng = np.random.default_rng(1)
    for _ in range(60):
        p, k, t = (int(rng.integers(1, high)) for high in (8, 6, 3))
        epsilon, beta = (float(10 ** rng.uniform(-2, high)) for high in (0.7, 2))
        adjacency = str(rng.choice(["coordinate", "l1", "l2"]))
        sketch = DPSignOPORP(k * t, epsilon=epsilon, max_change=beta, adjacency=adjacency, n_repeats=t)
        if adjacency != "l2" and rng.random() < 0.5:
            sketch = DPSignRP(
                k,
                epsilon=epsilon,
                max_change=beta,
                adjacency=adjacency,
                method=str(rng.choice(["smooth", "rr", "laplace"])),
                projection=str(rng.choice(["gaussian", "very_sparse"])),
            )
        sketch.fit(np.zeros((1, p)))
        U = np.rint(rng.normal(size=(50, p)) * 3) * beta * rng.choice([1, 0.3])
        change = rng.dirichlet(np.full(p, 0.3), 50) * rng.choice([-1, 1], (50, p))
        if adjacency == "coordinate":
            change = np.eye(p)[rng.integers(0, p, 50)] * rng.choice([-1, 1], (50, 1))
        elif adjacency == "l2":
            change = np.sign(change) / np.sqrt(p)
        a, b = (sketch.positive_probability(sketch.projection_.project(rows)) for rows in (U, U + change * beta))
        loss = np.maximum(abs(np.log(a / b)), abs(np.log((1 - a) / (1 - b)))).sum(axis=1)
        assert loss.max() <= epsilon * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
def test_bits_with_a_delta_lose_no_more_over_all_outcomes():
    rng = np.random.default_rng(5)
    for _ in range(60):
        p, k = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        epsilon, delta, beta = float(10 ** rng.uniform(-1.5, 1)), float(10 ** rng.uniform(-6, -0.3)), 1.0
        sketch = DPSignRP(
            k,
            epsilon=epsilon,
            delta=delta,
            adjacency=str(rng.choice(["coordinate", "l1"])),
            method=str(rng.choice(["smooth", "rr", "laplace"])),
            projection=str(rng.choice(["rademacher", "gaussian", "very_sparse"])),
        ).fit(np.zeros((1, p)))
        for _ in range(10):
            u = rng.normal(size=p) * 10 ** rng.uniform(-2, 1)
            v = u + np.eye(p)[rng.integers(p)] * beta * rng.choice([-1, 1])
            P = Q = np.ones(1)
            for a, b in sketch.positive_probability(sketch.projection_.project(np.array([u, v]))).T:
                P, Q = np.append(P * a, P * (1 - a)), np.append(Q * b, Q * (1 - b))
            found = [np.maximum(one - np.exp(epsilon) * other, 0).sum() for one, other in ((P, Q), (Q, P))]
            assert max(found) <= delta * (1 + 1e-6) + 1e-13


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize(
    "sketch",
    [
        DPSignOPORP(6, epsilon=3.0, n_repeats=2),
        DPSignOPORP(6, epsilon=3.0, adjacency="l2"),
        DPSignRP(6, epsilon=3.0, projection="gaussian", method="laplace", delta=1e-3),
        DPSignRP(6, epsilon=3.0, projection="very_sparse", density=0.3, adjacency="coordinate"),
        DPSignRP(6, epsilon=3.0, method="rr", delta=1e-6),
    ],
)
def test_profiles_and_hidden_changes_of_bits_hold_over_all_outcomes(sketch):
    """Of neighbours on a grid, around zero and at random; and at the distance that is hidden."""
    rng, sketch = np.random.default_rng(0), sketch.set_params(random_state=0).fit(np.zeros((1, 5)))
    relation, guarantee = sketch.guarantee_.adjacency.relation, sketch.guarantee_

    def _outcomes(row):
        x = sketch.projection_.project(row[None])[0]
        found = np.ones(1)
        for plus, minus in zip(sketch.positive_probability(x), sketch.positive_probability(-x), strict=True):
            found = np.concatenate([found * plus, found * (minus if plus != 0.5 else 0.5)])
        return found

    def _pair(size):
        row = rng.normal(size=5) * rng.choice([0.0, 0.3, 1.0])
        row = np.round(row) if rng.random() < 0.3 else row
        change = rng.normal(size=5) if relation == "l2" else rng.dirichlet(np.ones(5)) * rng.choice([-1, 1], 5)
        if relation == "coordinate":
            change = np.eye(5)[rng.integers(5)] * rng.choice([-1, 1])
        change *= size / (np.linalg.norm(change) if relation == "l2" else np.abs(change).sum())
        return _outcomes(row), _outcomes(row + change)

    for _ in range(100):
        one, other = _pair(1.0)
        for epsilon in (0.0, 1.0, 2.5, 3.0):
            found = np.maximum(one - np.exp(epsilon) * other, 0).sum()
            assert found <= guarantee.profile(epsilon) * (1 + 1e-9) + 1e-12
        one, other = _pair(min(guarantee.hides, 1e6))
        assert np.maximum(one - other, 0).sum() <= 0.5 + 1e-12


def _distances(U, V, order):
    """Exact sums of the powers of differences of floats."""
    return [
        sum(abs(Fraction(a) - Fraction(b)) ** order for a, b in zip(u, v, strict=True))
        for u, v in zip(U.tolist(), V.tolist(), strict=True)
    ]


def _neighbours(rng, p, adjacency, max_change, size):
    """Rows of several kinds and sizes, and neighbours at the full distance or just below it."""
    kinds = (rng.normal(size=(12, p)) * size, rng.integers(-int(size), int(size) + 1, (12, p)))
    U = kinds[rng.integers(2)] * max_change
    V = U.copy()
    if adjacency == "coordinate" or rng.random() < 0.4:
        V[np.arange(12), rng.integers(0, p, 12)] += rng.choice([-1, 1, 0.5], 12) * max_change
    elif adjacency == "l1":
        V += rng.dirichlet(np.full(p, 0.3), 12) * rng.choice([-1, 1], (12, p)) * max_change
    else:
        d = rng.normal(size=(12, p))
        V += d / np.linalg.norm(d, axis=1, keepdims=True) * max_change * (1 - 1e-15)
    order = 2 if adjacency == "l2" else 1
    near = np.array([one <= Fraction(max_change) ** order for one in _distances(U, V, order)])
    return U[near], V[near]


def _chances(sketch, rows):
    """Whole numbers out of 2**64 in which each bit is positive."""
    sketch._check_domain(rows)
    x = sketch.projection_.project(rows)
    is_positive = x > 0
    levels, thresholds = sketch._flips(x)
    flipped = thresholds[levels].astype(object)
    return np.where(is_positive, 2**64 - flipped, flipped)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize("seed", range(2))
def test_no_bits_of_neighbours_of_any_size_lose_more_than_their_sketch_states(seed):
    """Sums of exact losses of all bits, on grids of the change and far out, where sums round."""
    rng, n_checked = np.random.default_rng(seed), 0
    for _ in range(25):
        p, k, size = int(rng.integers(1, 24)), int(rng.integers(1, 20)), float(rng.choice([1, 50, 1e6, 1e8]))
        known = {
            "epsilon": float(10 ** rng.uniform(-3, 1.3)),
            "max_change": float(rng.choice([1.0, 0.3, 1 / 3, 1e-90])),
        }
        known["random_state"] = int(rng.integers(2**31))
        adjacency = str(rng.choice(["coordinate", "l1", "l2"]))
        if adjacency != "l2" and rng.random() < 0.5:
            method, kind = (
                rng.choice(["smooth", "rr", "laplace"]),
                rng.choice(["rademacher", "gaussian", "very_sparse"]),
            )
            sketch = DPSignRP(k, adjacency=adjacency, method=str(method), projection=str(kind), **known)
        else:
            repeats = int(rng.choice([d for d in range(1, k + 1) if k % d == 0]))
            sketch = DPSignOPORP(k, adjacency=adjacency, n_repeats=repeats, **known)
        sketch.fit(np.zeros((1, p)))
        U, V = _neighbours(rng, p, adjacency, known["max_change"], size)
        if not len(U):
            continue
        one, other = _chances(sketch, U), _chances(sketch, sp.csr_array(V))
        logs = [[np.log(part.astype(float)) for part in (p, 2**64 - p)] for p in (one, other)]
        losses = np.maximum(*(abs(a - b) for a, b in zip(*logs, strict=True))).sum(axis=1)
        assert losses.max() <= known["epsilon"] * (1 + 1e-12)
        n_checked += len(U)
    assert n_checked > 100


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
@pytest.mark.parametrize("seed", range(2))
def test_no_projections_of_neighbours_of_any_size_are_further_apart_than_their_noise_is_for(seed):
    """Distances in units of the noise against the stated loss, dense beside sparse, float32 rows among them."""
    rng, n_checked = np.random.default_rng(seed), 0
    for _ in range(30):
        p, k, size = int(rng.integers(2, 24)), int(rng.integers(1, 20)), float(rng.choice([1, 50, 1e6, 1e8]))
        noise, adjacency = str(rng.choice(["gaussian", "laplace"])), str(rng.choice(["l1", "l2"]))
        known = {"noise": noise, "adjacency": adjacency, "max_change": float(rng.choice([1.0, 1 / 3, 1e-90, 1e90]))}
        known |= {"epsilon": float(10 ** rng.uniform(-3, 1.3)), "random_state": int(rng.integers(2**31))}
        kind = str(rng.choice(["oporp", "rademacher", "gaussian", "identity", "count_sketch"]))
        sketch = DPOPORP(k, **known) if kind == "oporp" else DPRandomProjection(k, projection=kind, **known)
        sketch.fit(np.zeros((1, p)))
        U, V = _neighbours(rng, p, adjacency, known["max_change"], size)
        if not len(U):
            continue
        x, y = (sketch.projection_.project(rows) / sketch.projection_.divisor for rows in (U, sp.csr_array(V)))
        moved = abs(x - y) / sketch.scale_
        loss = sketch.guarantee_.loss
        if noise == "gaussian":
            assert np.linalg.norm(moved, axis=1).max() <= loss.mu
        else:
            assert moved.sum(axis=1).max() <= dict(loss.profiles[0].parameters)["sensitivity"]
        n_checked += len(U)
    assert n_checked > 100


@pytest.mark.parametrize("kind", ["gaussian", "uniform"])
def test_no_number_of_a_projection_comes_twice(kind):
    """The draw of W counts as one of independent numbers: no word serves two features, blocks or halves."""
    W = make_projection(kind, 300, 257, np.random.RandomState(1)).matrix
    assert len(np.unique(W)) == W.size
    assert abs(np.corrcoef(W[:, :40].T) - np.eye(40)).max() < 0.4
    assert abs(np.corrcoef(W[:40]) - np.eye(40)).max() < 0.4


@pytest.mark.parametrize("exponent", [70, 330, -160])
def test_a_search_finds_the_same_in_any_units_that_a_sketch_takes(exponent):
    """Float32 holds squares up to 2**128 and down to 2**-149: beyond, rows were found by chance or not at all."""
    rng = np.random.default_rng(0)
    X, unit = rng.integers(-2, 3, (120, 16)).astype(float), 2.0**exponent
    found = []
    for scale in (1.0, unit):
        sketch = DPOPORP(16, epsilon=40.0, noise="laplace", max_change=scale, random_state=0).fit(X)
        with reproducible_noise(0):
            released = sketch.transform(X * scale)
        found.append(SketchNeighbors(1).fit(released, sketch=sketch).kneighbors(X * scale))
    np.testing.assert_array_equal(*[indices for _, indices in found])


def with_another_constructor(kind, **known):
    """A class whose constructor gives all but the number of components."""

    class Own(kind):
        def __init__(self, n_components=8):
            super().__init__(n_components, epsilon=0.5, random_state=0, **known)
            self.n_components = n_components

    return Own()


@pytest.mark.parametrize(
    ("kind", "known", "name", "other"),
    [
        (DPOPORP, {"noise": "laplace"}, "noise", "gaussian"),
        (DPOPORP, {}, "adjacency", "l2"),
        (DPSignOPORP, {}, "max_change", 0.05),
        (iDPSignRP, {"projection": "gaussian"}, "max_change", 1e-3),
        (iDPSignRP, {}, "epsilon", 8.0),
    ],
)
def test_what_a_constructor_sets_by_itself_is_a_parameter_of_the_release(kind, known, name, other):
    """Only parameters that it takes were compared: Laplace noise became Gaussian noise, under an epsilon of Laplace."""
    rows = np.random.default_rng(0).uniform(-1, 1, (20, 8))
    sketched = with_another_constructor(kind, **known).fit(rows)
    usual = getattr(sketched, name)
    setattr(sketched, name, other)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="a parameter was changed after it"):
        sketched.transform(rows)
    assert not ledger.entries
    sketched.fit_transform(rows)
    setattr(sketched, name, usual)
    assert privacy_report(sketched.fit(rows)).total is None
    assert privacy_report(with_another_constructor(kind, **known).fit(rows)).total is not None


class HidesItsNoise(AMPClassifier):
    def __init__(self, epsilon=1.0):
        super().__init__(epsilon=epsilon, noise="typo")


class HidesItsNorm(AMPClassifier):
    def __init__(self, epsilon=1.0):
        super().__init__(epsilon=epsilon, max_norm=0.0)


class HasItsNoise(AMPClassifier):
    noise = "typo"

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon


class SketchHasItsMethod(DPSignOPORP):
    method = "typo"

    def __init__(self, n_components=8):
        super().__init__(n_components)
        del self.method


class HasItsNorm(DPMoments):
    max_norm = -1.0

    def __init__(self, epsilon=1.0):
        super().__init__(epsilon=epsilon)
        del self.max_norm


@pytest.mark.parametrize(
    "wrong",
    [
        HasItsNoise(),
        SketchHasItsMethod(),
        HasItsNorm(),
        with_another_constructor(DPOPORP, noise="typo"),
        with_another_constructor(DPSignOPORP, max_change=np.nan),
        HidesItsNoise(),
        HidesItsNorm(),
    ],
    ids=[
        "noise of a class",
        "method of a class of sketches",
        "norm of a class",
        "noise of a sketch",
        "change of a sketch",
        "noise of a model",
        "norm of a model",
    ],
)
def test_what_only_the_constructor_of_a_base_class_takes_is_checked_as_well(wrong):
    """The name of no noise was a KeyError of a sketch, and another noise in what a model printed."""
    with PrivacyLedger() as ledger, pytest.raises(InvalidParameterError, match="must be"):
        wrong.fit(np.eye(8), np.arange(8) % 2)
    assert not ledger.entries


class TakesAll(DPOPORP):
    def __init__(self, *args, **known):
        super().__init__(*args, **known)


class TakesOne(TakesAll):
    def __init__(self, n_components=8):
        super().__init__(n_components, epsilon=0.5)


def test_a_constructor_between_may_take_anything():
    """Parameters of all classes were asked for, and scikit-learn refuses that of one with *args."""
    sketched = TakesOne().fit(np.eye(8))
    assert sketched.transform(np.eye(8)).shape == (8, 8)
    sketched.noise = "laplace"
    with pytest.raises(ValueError, match="a parameter was changed after it"):
        sketched.transform(np.eye(8))


class HoldsASketch(TransformerMixin, BaseEstimator):
    def __init__(self, sketch):
        self.sketch = sketch

    def fit(self, X, y=None):
        self.sketch_ = clone(self.sketch).fit(X)
        self.guarantee_ = self.sketch_.guarantee_
        return self

    def transform(self, X):
        return self.sketch_.transform(X)


def test_a_step_of_the_user_is_assumed_to_have_released_nothing_before_its_last_fit():
    """It keeps nothing of earlier fits: 8.0 was released, and 1.0 printed without a word of that."""
    model = HoldsASketch(DPSignOPORP(4, epsilon=8.0, random_state=0))
    rows = np.random.default_rng(0).uniform(-1, 1, (20, 8))
    model.fit_transform(rows)
    report = privacy_report(model.set_params(sketch__epsilon=1.0).fit(rows))
    assert any("released after its last fit" in text for text in report.total.assumptions)
