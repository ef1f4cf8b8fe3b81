"""Attacks on MIDPRegressor: leaks, optimal tests and audits, and last bits."""

import warnings

import numpy as np
import pytest
from attacks import X12, Y12
from scipy import stats
from sklearn.base import clone

from skdprp import (
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    MIDPRegressor,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    _noise,
    audit_epsilon,
)
from skdprp.linear_model import least_residual
from skdprp.linear_model._sketched_least_squares import noisy_blocks, triangle
from skdprp.mechanisms import gaussian_profile, information_scale
from skdprp.mechanisms.mutual_information import information_delta
from skdprp.testing import reproducible_noise

# Leaks, optimal tests and audits


def leaky_data(entry):
    """Column 0 is proportional to y but for its first entry, at which y is 0."""
    rng = np.random.default_rng(0)
    y = rng.uniform(-2, 2, 4000)
    y[0] = 0.0
    X = rng.uniform(-1, 1, (4000, 3))
    X[:, 0] = y / 2
    X[0, 0] = entry
    return X, y


def sketch_quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.sketch(X, y)


def read_entry(model, X, y):
    """Subtract from the projected column what is known of it; the entry and the noise remain."""
    sketch, targets = sketch_quietly(model, X, y)
    square = np.mean((sketch[:, 0] - targets / 2) ** 2) - vars(model).get("scale_", 0.0) ** 2
    return np.sqrt(max(0.0, square))


@pytest.mark.parametrize("entry", [0.4, 0.9])
def test_published_calibration_leaks_an_entry(entry, seeded):
    """The published noise is zero here, and the entry is read off within 10%; the exact noise hides it."""
    X, y = leaky_data(entry)
    model = MIDPRegressor(n_components=1000, epsilon=0.5, calibration="published", max_abs=1.0)
    readings = [read_entry(model, X, y) for _ in range(10)]
    assert np.abs(np.array(readings) / entry - 1).max() < 0.1
    assert model.claimed_.epsilon == 0.5
    closed = [read_entry(clone(model).set_params(calibration="exact"), X, y) for _ in range(50)]
    assert np.mean(np.abs(np.array(closed) / entry - 1) < 0.1) < 0.2


def test_a_true_bound_closes_the_leak():
    """No positive bound on residuals is true of that table, so that the sound calibration keeps its noise."""
    assert least_residual(*leaky_data(0.4)) < 1e-6


def distinguish(model, tables, y, trials):
    """Share of right guesses of the optimal test between two tables, from sketches of each."""
    right = 0
    covariances = []
    for X in tables:
        sketch_quietly(model, X, y)
        A = np.column_stack([X, y])
        scale = vars(model).get("scale_", 0.0)
        covariances.append(A.T @ A + np.diag([scale**2] * X.shape[1] + [0]))
    quadratic = np.linalg.inv(covariances[0]) - np.linalg.inv(covariances[1])
    log_volume = np.linalg.slogdet(covariances[0])[1] - np.linalg.slogdet(covariances[1])[1]
    for truth, X in enumerate(tables):
        for _ in range(trials):
            rows = np.column_stack(sketch_quietly(model, X, y))
            loss = np.einsum("ij,jk,ik->", rows, quadratic, rows) + len(rows) * log_volume
            right += (loss > 0) == truth
    return stats.binomtest(int(right), 2 * trials).proportion_ci(0.998)


def tables_with(entry_a, entry_b, *, leaky):
    rng = np.random.default_rng(1)
    y = rng.uniform(-2, 2, 300)
    y[0] = 0.0
    X = rng.uniform(-1, 1, (300, 2))
    X[:, 0] = y / 2 + (0 if leaky else 0.05) * X[:, 0]
    tables = [X.copy(), X.copy()]
    tables[0][0, 0], tables[1][0, 0] = entry_a, entry_b
    return tables, y


@pytest.mark.parametrize("leaky", [False, True])
def test_optimal_attack_on_a_projection(leaky, seeded):
    """The likelihood ratio of all the sketch guesses an entry as well as epsilon allows, not better.

    With the published calibration, and with a bound that is not true, the same attack succeeds.
    """
    tables, y = tables_with(0.1, 1.0, leaky=leaky)
    allowed = (1 + information_delta(0.2)) / 2
    true_bound = min(least_residual(X, y) for X in tables) * (1 - 1e-9)
    for bound in (0.0, true_bound):
        honest = MIDPRegressor(epsilon=0.2, n_components=20, min_residual=bound)
        assert distinguish(honest, tables, y, 80).low <= allowed
    for broken in ({"calibration": "published"}, {"min_residual": 8.0}):
        model = MIDPRegressor(epsilon=0.2, n_components=20, **broken)
        assert not leaky or distinguish(model, tables, y, 80).low > max(allowed, 0.95)


@pytest.mark.parametrize("broken", [False, True])
def test_audit_of_additive_noise(broken, monkeypatch, seeded):
    """No threshold beats the entry's (epsilon, delta); with two thirds of the noise, one does."""
    model = MIDPRegressor(epsilon=0.2, mechanism="additive").fit([[1.0]], [1.0])
    epsilon = 2.5
    delta = gaussian_profile(epsilon, scale=model.scale_, sensitivity=2.0)
    if broken:
        honest = _noise.add_gaussian
        monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: honest(values, scale / 1.5))

    def release(rows):
        return model.sketch(rows, np.ones(len(rows)))[0]

    options = {"n_trials": 400_000, "confidence": 1 - 1e-7, "distinguishers": ["linear"], "rows_are_trials": True}
    found = audit_epsilon(release, [[1.0]], [[-1.0]], delta=delta, **options).epsilon
    assert (found > epsilon) == broken
    assert found > 0.5 * epsilon


def test_audit_of_a_projected_entry():
    """A projected sign is guessed from its known column of S no better than the entry's epsilon allows."""
    n_components, epsilon = 20, 0.2
    scale = information_scale(epsilon, n_components=n_components)
    rng = np.random.default_rng(0)
    S = rng.normal(size=(n_components, 100_000))
    guesses = np.einsum("ij,ij->j", S, S + scale * rng.normal(size=S.shape)) > 0
    wins = stats.binomtest(int(guesses.sum()), guesses.size).proportion_ci(0.998)
    assert wins.low <= (1 + information_delta(epsilon)) / 2
    assert wins.high > 0.5 + 0.3 * information_delta(epsilon)


# Targets of any size


def sketched_targets(entry, target, n_rows):
    """Sketch of a column of targets of which two are not 0, where a column of X has one entry and a one."""
    rows, targets = np.zeros((n_rows, 1)), np.zeros(n_rows)
    rows[:2, 0], targets[:2] = (entry, 1), target
    return MIDPRegressor(epsilon=0.01, n_components=n_rows).sketch(rows, targets)[1]


def test_targets_near_the_end_of_floats_do_not_overflow_as_an_entry_says():
    """All sketched targets were nan or infinite for an entry of 1, and none was nan for one of 0, at 0.01 bits."""
    try:
        has_nan = [bool(np.isnan(sketched_targets(entry, 8e307, 500)).any()) for entry in (0.0, 1.0)]
    except ValueError:  # refused, whatever the entry is
        return
    assert has_nan[0] == has_nan[1]


def test_targets_near_zero_do_not_vanish_as_an_entry_says():
    """Mean squares of 2.1 and 1.1 least floats: a factor of the rows was applied to targets that have no digits."""
    try:
        least = np.nextafter(0, 1)
        squares = [np.mean((sketched_targets(entry, least, 4000) / least) ** 2) for entry in (0.0, 1.0)]
    except ValueError:
        return
    assert abs(squares[0] - squares[1]) < 0.5


@pytest.mark.parametrize("mechanism", ["projection", "additive"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("exponent", [-900, 900])
def test_releases_for_targets_of_any_size_are_those_of_targets_of_size_1(mechanism, fit_intercept, exponent):
    """To the last bit, times a power of two: no entry decides what overflows or vanishes on the way."""
    estimator, released = MIDPRegressor(mechanism=mechanism, fit_intercept=fit_intercept), []
    for power in (0, exponent):
        y = np.ldexp(Y12 + 0.1, power)
        with reproducible_noise(0):
            fitted = estimator.fit(X12, y)
            released.append([*fitted.coef_, fitted.intercept_, *estimator.sketch(X12, y)[1]])
    assert np.array_equal(np.ldexp(released[0], exponent), released[1])


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_extreme_targets_are_met_by_the_losses_that_are_stated(adjacency):
    """A printed pair is the loss at its epsilon, from tiny to huge targets, or there is no guarantee at all."""
    X, rng = np.eye(4)[[0, 1, 2, 3, 0, 1]], np.random.default_rng(1)
    y, t = np.arange(6) % 2, np.linspace(-1, 1, 6)
    for _ in range(5):
        known = {"epsilon": 10 ** rng.uniform(-3, 2.2), "delta": 10 ** rng.uniform(-60, -0.01), "adjacency": adjacency}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = [
                AMPClassifier(classes=[0, 1], noise="gaussian", **known).fit(X, y),
                ProductNoiseOutputPerturbation(classes=[0, 1], **known).fit(X, y),
                DPRidge(target_bounds=(-1, 1), mechanism="projection", n_components=20, **known).fit(X, t),
                DPMoments(**known).fit(X),
                DPHistograms(bounds=(0, 1), n_cells=16, **known).fit(X),
                DPBinner(2, categories=[0], bounds={}, n_cells=16, **known).fit(X),
            ]
        for guarantee in (model.guarantee_ for model in fitted):
            if guarantee.epsilon < np.inf:
                assert guarantee.loss.profile(guarantee.epsilon) <= guarantee.delta * (1 + 2.0**-48)


# Last bits of columns


def products_alone(numbers, factor):
    """Whether every number is what floats give for this factor times some other number."""
    near = numbers / factor
    candidates = np.stack([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
    return bool((candidates * factor == numbers).any(axis=0).all())


def test_no_last_bit_of_a_projection_without_noise_tells_an_entry():
    """A large min_residual needs no noise, and S X leaves as floats: multiples of the norm of a column, and no others.

    A norm of 24 where the entry is 0: one in eight products of another norm are no products of 24. So 200 of them told
    the entry with an error below 1e-10, where 0.25 bits were printed, and guesses that are right in 78.6 of 100.
    """
    told = []
    for value in (0.0, 1.0):
        rows = np.append(np.ones(576), value)[:, None]
        estimator = MIDPRegressor(epsilon=0.25, n_components=200, min_residual=23.9)
        try:
            told.append(products_alone(estimator.sketch(rows, np.zeros(577))[0][:, 0], 24.0))
        except ValueError:  # refused, whatever the entry is
            return
    unprotected = " ".join(estimator.guarantee_.assumptions).partition("last bits")[2]
    assert told[0] == told[1] or "S X" in unprotected


def multiples(numbers, factor):
    """Share of numbers that are a float times the factor, rounded."""
    spacing = np.spacing(np.abs(numbers))
    numbers = np.rint(numbers / spacing) * spacing
    near = numbers / factor
    candidates = [near + i * np.spacing(near) for i in (-1, 0, 1)]
    return np.mean(np.any([candidate * factor == numbers for candidate in candidates], axis=0))


def test_the_least_noise_of_a_projection_hides_the_last_bits_of_long_columns():
    """Noise of 2^-30 of min_residual is less than the last bit of S X where a column is 2^23 times as long as that.

    Which floats are multiples of the norm of the column tells an entry to 34 bits, where 30 are stated.
    """
    rng = np.random.default_rng(0)
    rows, targets = rng.choice([-0.97, 0.97], size=(2048, 1)), rng.normal(size=2048)
    shares = []
    for entry in (0.3, 0.3 + 2.0**-34):
        rows[0, 0] = entry
        norm = triangle(noisy_blocks(rows, targets[:, None], max_abs=1.0, scale=0.0))[0, 0]
        shares.append(norm)
    with reproducible_noise(0):
        model = MIDPRegressor(epsilon=30.0, n_components=1000, min_residual=1.001 * np.sqrt(1000) * 2.0**-30)
        sketch, _ = model.sketch(rows, targets)
    other, same = (multiples(sketch[:, 0], norm) for norm in shares)
    assert same - other < 0.05  # .15 where the last bits tell


def test_the_column_of_the_intercept_does_not_tell_an_entry_by_its_last_bits():
    """S 1 leaves without noise, and was computed by way of X: where that is constant, too, as floats times a root.

    Of 49 numbers all are such in every sketch for the one entry, and in 2 of 100 sketches for the other: a guess is
    right in 99 of 100 at 0.01 bits, where 55.9 were printed.
    """
    rows, shares = np.ones((49, 1)), []
    fitted = MIDPRegressor(epsilon=0.01, n_components=49, fit_intercept=True)
    with reproducible_noise(0):
        for entry in (1.0, 0.0):
            rows[0, 0] = entry
            sketches = [fitted.sketch(rows, np.zeros(49))[0] for _ in range(100)]
            shares.append(np.mean([multiples(sketch[:, 1], 7.0) == 1 for sketch in sketches]))
    assert abs(shares[1] - shares[0]) < information_delta(0.01) + 0.5  # seven standard deviations
