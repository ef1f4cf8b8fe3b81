"""Counts of unlisted names: what a threshold costs, against exact divergences of tiny tables."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from skdprp import _noise
from skdprp.composition import PrivacyLoss
from skdprp.mechanisms import gaussian_profile, gaussian_scale, thresholded_counts_profile, thresholded_counts_scale
from skdprp.mechanisms.thresholded_counts import add_thresholded_noise, name_probability, shift_of_epsilon

TARGETS = [(0.1, 1e-8), (1.0, 1e-6), (1.0, 0.05), (8.0, 1e-5)]


def exact_delta(epsilon, *, scale, threshold, alone, alone_there, squared):
    """Hockey-stick divergence of two tables, the one with so many names of a single row, the other with others.

    A name of a single row is released above the threshold, and nobody else could release it. What both have is
    Gaussian, at a squared distance of `squared`, given that no such name is released.
    """
    q = ndtr((1 - threshold) / scale)
    p, p_there = 1 - (1 - q) ** alone, 1 - (1 - q) ** alone_there
    mu = np.sqrt(squared) / scale

    if not mu:
        return p + max(0.0, (1 - p) - np.exp(epsilon) * (1 - p_there))
    start = mu / 2 + (epsilon + np.log1p(-p_there) - np.log1p(-p)) / mu  # from where on the one density is larger
    return p + (1 - p) * ndtr(mu - start) - np.exp(epsilon) * (1 - p_there) * ndtr(-start)


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("rest", [0.0, 7.0])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_no_pair_of_tables_exceeds_the_profile(epsilon, delta, replaced, rest, n_columns):
    """Each column has the name of a single row in the one, in the other, in both or in none; and one comes near."""
    squared = (rest + n_columns) * (1 + replaced)
    scale, threshold = thresholded_counts_scale(epsilon, delta, sensitivity=squared**0.5, n_columns=n_columns)
    worst = 0.0
    for alone in range(n_columns + 1):
        for there in range(n_columns + 1):
            if replaced or not (alone and there):
                pair = {"alone": alone, "alone_there": there, "squared": squared - alone - there}
                worst = max(worst, exact_delta(epsilon, scale=scale, threshold=threshold, **pair))
    bound = thresholded_counts_profile(
        epsilon, scale=scale, threshold=threshold, sensitivity=squared**0.5, n_columns=n_columns
    )
    assert worst <= bound <= delta
    assert bound > 0.999 * delta
    assert bound <= 1.3 * worst + 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_less_noise_or_a_lower_threshold_miss_the_target(epsilon, delta):
    known = {"sensitivity": 2.0, "n_columns": 2}
    scale, threshold = thresholded_counts_scale(epsilon, delta, **known)
    for less, lower in ((scale * (1 - 1e-6), threshold), (scale, 1 + (threshold - 1) * (1 - 1e-6))):
        assert thresholded_counts_profile(epsilon, scale=less, threshold=lower, **known) > delta * (1 - 1e-8)


def test_without_unlisted_names_it_is_the_gaussian_mechanism():
    assert thresholded_counts_scale(1.0, 1e-6, sensitivity=2.0, n_columns=0) == (
        gaussian_scale(1.0, 1e-6, sensitivity=2.0),
        float("inf"),
    )
    known = {"scale": 9.0, "sensitivity": 2.0}
    many = thresholded_counts_profile(1.0, threshold=1e9, **known)
    assert gaussian_profile(1.0, **known) <= many <= gaussian_profile(1.0, **known) * (1 + 1e-8)


def test_a_threshold_without_noise_above_it_hides_nothing():
    assert thresholded_counts_profile(1.0, scale=2.0, threshold=-1e9, sensitivity=2.0) == 1.0
    assert shift_of_epsilon(1.0) == float("inf")


@pytest.mark.parametrize("n_columns", [1, 4, 1000])
def test_the_probability_of_a_name_is_that_of_its_noise(n_columns):
    for z in (0.5, 3.0, 6.0, 20.0):
        exact = -np.expm1(n_columns * np.log1p(-norm.sf(z)))
        found = name_probability(scale=2.0, threshold=1 + 2 * z, n_columns=n_columns)
        assert exact * (1 - 1e-9) < exact <= found <= exact * (1 + 1e-8) or exact == found == 0


def test_the_loss_of_a_release_adds_up_with_others():
    """A failure probability and a shift in what sampling costs: never less than the profile says."""
    known = {"scale": 9.0, "threshold": 30.0}
    p = name_probability(**known, n_columns=2)
    loss = PrivacyLoss(mu=2 / 9, sampling=shift_of_epsilon(p) / 2, failure_probability=p)
    for epsilon in (0.1, 0.5, 1.0):
        profile = thresholded_counts_profile(epsilon, **known, sensitivity=2.0, n_columns=2)
        assert profile * (1 - 1e-9) <= loss.profile(epsilon) <= profile * (1 + 1e-8)
        twice = (loss + loss).profile(epsilon)
        assert gaussian_profile(epsilon, scale=9.0, sensitivity=8**0.5) + 2 * p <= twice < 1.2 * twice


def test_a_rounded_count_above_the_threshold_was_above_it(monkeypatch):
    """On a grid of about 1 / 1024 of the scale, rounding may raise a count by half a step."""
    counts = np.linspace(28.0, 32.0, 40_001)

    def round_to_grid(values, scale):
        step = _noise._grid(scale)
        values[:] = np.rint(values / step) * step

    monkeypatch.setattr(_noise, "add_gaussian", round_to_grid)
    for scale in (5.0, 7.9, 8.0, 300.0):
        noisy, is_released = add_thresholded_noise(counts, scale, 30.0)
        assert (counts[is_released] >= 30.0).all()
        assert is_released[counts > 30.0 + 2.0**-9 * scale].all()
        assert np.abs(noisy - counts).max() <= 2.0**-11 * scale


def test_noise_is_that_of_its_scale(seeded):
    noisy, is_released = add_thresholded_noise(np.zeros(100_000), 5.0, 10.0)
    assert abs(noisy.std() / 5 - 1) < 0.02
    assert abs(is_released.mean() - norm.sf(2)) < 0.003


def test_names_that_nobody_listed_need_a_delta():
    with pytest.raises(ValueError, match="delta=0: list them"):
        thresholded_counts_scale(1.0, 0.0, sensitivity=1.0)
