"""The sketch of individual DP: what it guarantees, and that it is no more."""

import mpmath
import numpy as np
import pytest
from scipy import stats
from sketches import MARGIN, WHOLE, projection_matrix

from skdprp import _noise, iDPSignRP
from skdprp.mechanisms import gaussian_profile

PROJECTIONS = ["rademacher", "gaussian", "uniform", "very_sparse", "oporp"]


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_individual_randomised_response_is_exact(states, projection):
    """With A and N held as they are for u, no l1 (oporp: one-coordinate) neighbour has a loss above epsilon."""
    rng = np.random.default_rng(0)
    k, p, beta, epsilon = 16, 32, 0.5, 1.0
    sketch = iDPSignRP(k, epsilon=epsilon, max_change=beta, method="rr", projection=projection, random_state=0).fit(
        np.ones((1, p))
    )
    W, c = projection_matrix(sketch.projection_), sketch.component_change_
    worst, rows = 0, rng.normal(size=(200, p)) * rng.choice([0.01, 0.1, 1.0], size=(200, 1))
    for u, state in zip(rows, states(sketch, rows), strict=True):
        step = np.eye(p)[rng.integers(p)] if projection == "oporp" or rng.random() < 0.5 else rng.dirichlet(np.ones(p))
        x, y = u @ W, (u + beta * rng.choice([-1, 1]) * step) @ W
        held = np.abs(x) <= c
        assert np.array_equal(np.abs(state), np.where(held, held.sum(), 0))
        differ = (x > 0) != (y > 0)
        assert not np.any(differ & ~held)
        if held.any():
            t = int(sketch.flip_thresholds_[held.sum()])
            loss = differ.sum() * mpmath.log(mpmath.mpf(WHOLE - t) / t)
            assert loss <= epsilon
            worst = max(worst, loss)
    assert worst > 0.4 * epsilon


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_individual_gaussian_noise_covers_the_realised_shift(monkeypatch, projection):
    """With A and the noise held, the shift inside A over the noise released stays at the calibrated ratio or below.

    The noise is that of the longest row of W within A, which some coordinate reaches; the margin goes on top.
    """
    drawn = []

    def ones(values, scale):
        drawn.append(scale)
        values += scale

    monkeypatch.setattr(_noise, "add_gaussian", ones)
    rng = np.random.default_rng(0)
    k, p, beta, epsilon, delta = 16, 32, 0.5, 1.0, 1e-3
    options = {"epsilon": epsilon, "delta": delta, "max_change": beta, "projection": projection, "random_state": 0}
    sketch = iDPSignRP(k, **options).fit(np.ones((1, p)))
    W, c = projection_matrix(sketch.projection_), sketch.component_change_
    worst, rows = 0.0, rng.normal(size=(300, p)) * rng.choice([0.01, 0.1, 1.0], size=(300, 1))
    for u, released in zip(rows, sketch.transform(rows), strict=True):
        step = np.eye(p)[rng.integers(p)] if rng.random() < 0.5 else rng.dirichlet(np.ones(p))
        x, y = u @ W, (u + beta * rng.choice([-1, 1]) * step) @ W
        held = np.abs(x) <= c
        assert np.array_equal((x > 0)[~held], (y > 0)[~held])
        if held.any() and W[:, held].any():
            sigma = sketch.scale_ * beta * np.linalg.norm(W[:, held], axis=1).max() * MARGIN
            assert np.array_equal(released > 0, np.where(held, x + sigma > 0, x > 0))
            shift = np.linalg.norm((x - y)[held])
            assert gaussian_profile(epsilon, scale=sigma, sensitivity=shift) <= delta
            worst = max(worst, shift / sigma * sketch.scale_)
    assert 0.9 < worst <= 1
    assert set(drawn) == {sketch.scale_}


def test_individual_dp_is_not_dp(seeded):
    """A released sign that one row excludes is possible for its neighbour: no finite loss covers the pair."""
    sketch = iDPSignRP(1, epsilon=1.0, max_change=0.5, method="rr", random_state=0).fit(np.ones((1, 1)))
    sign = projection_matrix(sketch.projection_)[0, 0]
    far, near = (np.full((20_000, 1), sign * value) for value in (0.75, 0.40))
    assert np.all(sketch.transform(far) == 1)
    minus = np.sum(sketch.transform(near) == -1)
    assert stats.binomtest(int(minus), 20_000, 1 / (1 + np.e)).pvalue > 1e-6


@pytest.mark.parametrize("method", ["gaussian", "rr"])
def test_signs_that_no_change_can_flip_are_released(method):
    """Where N = 0, and outside A in general, the release is the sign of the projection."""
    X = 100 * np.random.default_rng(0).normal(size=(50, 30))
    sketch = iDPSignRP(8, method=method, max_change=0.01, random_state=0).fit(X)
    x = sketch.projection_.project(X)
    far = np.abs(x) > sketch.component_change_
    assert far.all(axis=1).any()
    assert np.array_equal(sketch.transform(X)[far] == 1, x[far] > 0)


@pytest.mark.parametrize("method", ["gaussian", "rr"])
def test_individual_guarantee_prints_under_its_own_name(method):
    """The guarantee names individual DP, held parameters, and says that it is not DP and has no total."""
    guarantee = iDPSignRP(2, method=method).fit(np.ones((1, 3))).guarantee_
    assert guarantee.definition == "individual DP"
    assert repr(guarantee).endswith("-individual DP per transform, l1 change of 1.0")
    for phrase in ("held fixed", "not differential privacy", "no total with other releases is stated"):
        assert phrase in " ".join(str(guarantee).split())


def test_gaussian_signs_near_a_point_of_the_grid_are_as_likely_as_on_it():
    """Rounding comes before the sign: moving x by a hundredth of a grid step moves no probability by a whole one."""
    sketch = iDPSignRP(1, epsilon=0.01, projection="gaussian", random_state=0).fit(np.ones((1, 1)))
    w = projection_matrix(sketch.projection_)[0, 0]
    step = _noise._grid(sketch.scale_) * abs(w)
    for noise in (-0.49, -0.3, 0.3, 0.49):
        signs = []
        for x in (-step / 100, step / 100):
            with pytest.MonkeyPatch.context() as patch:
                rounded = {_noise.GAUSSIAN: lambda fractions, steps, n=noise: np.rint(fractions + n)}
                patch.setattr(_noise, "_ROUNDED_TO", rounded)
                signs.append(sketch.transform(np.array([[x / w]]))[0, 0])
        assert signs[0] == signs[1]
