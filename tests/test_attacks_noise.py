"""Audits through the public interface: noise as stated withstands them, less of it does not."""

import numpy as np
import pytest
from sklearn.base import clone

from skdprp import (
    DPOPORP,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    _noise,
    audit_epsilon,
    iDPSignRP,
    worst_neighbours,
)
from skdprp.mechanisms.randomised_response import flip_thresholds

TRIALS = 100_000
MISTAKE = 1e-7
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # fork beside threads, on purpose
]


def audit(release, first, second, delta, *, n_trials=TRIALS, rows_are_trials=True):
    """Return a lower bound on epsilon at delta, which fails with probability `MISTAKE`, from an attack on two rows."""
    options = {"rows_are_trials": rows_are_trials, "distinguishers": ["linear", "discriminant"]}
    pair = first[None], second[None]
    return audit_epsilon(release, *pair, delta=delta, confidence=1 - MISTAKE, n_trials=n_trials, **options).epsilon


def rows(sketch):
    """Two rows at distance max_change, in the direction that moves the projection most."""
    return [row[0] for row in worst_neighbours(sketch, np.zeros((1, 8)))]


ADDITIVE = [
    DPRandomProjection(2, delta=0.05),
    DPRandomProjection(2, delta=0.05, projection="gaussian", adjacency="l2"),
    DPRandomProjection(projection="identity", delta=0.05),
    DPRandomProjection(2, projection="uniform", delta=0.05, calibration="kenthapadi"),
    DPRandomProjection(2, projection="very_sparse", density=0.9, delta=0.05),
    DPRandomProjection(2, projection="count_sketch", delta=0.05),
    DPRandomProjection(1, noise="laplace"),
    DPOPORP(2, delta=0.05),
    DPOPORP(2, noise="laplace"),
]
SIGNS = [
    DPSignRP(4),
    DPSignRP(4, method="rr", projection="gaussian"),
    DPSignOPORP(4),
    DPSignOPORP(4, method="rr"),
    DPSignOPORP(4, n_repeats=2),
    iDPSignRP(4, method="rr"),
    iDPSignRP(4, delta=0.05),
    iDPSignRP(4, delta=0.05, projection="very_sparse", density=0.9),
    DPSignRP(4, projection="very_sparse", density=0.9),
    iDPSignRP(4, method="rr", projection="oporp"),
]


@pytest.mark.parametrize("sketch", ADDITIVE + SIGNS, ids=repr)
def test_audit_stays_below_the_guarantee_and_finds_too_little_noise(sketch):
    """The attack never proves a loss above epsilon; with half the noise, or twice the loss of a flip, it does."""
    sketch = clone(sketch).set_params(random_state=0).fit(np.ones((1, 8)))
    delta, (first, second) = sketch.guarantee_.delta, rows(sketch)
    assert audit(sketch.transform, first, second, delta) <= sketch.guarantee_.epsilon
    if hasattr(sketch, "scale_"):
        share = 4 if getattr(sketch, "calibration", "") == "kenthapadi" else 2
        sketch.scale_ = sketch._noise_of_fit["scale_"] = sketch.scale_ / share
    else:
        sketch.flip_thresholds_ = sketch._noise_of_fit["flip_thresholds_"] = halved_flips(sketch)
    assert audit(sketch.transform, first, second, delta) > sketch.guarantee_.epsilon


def halved_flips(sketch):
    """Return the thresholds of twice the loss of one bit."""
    if isinstance(sketch, iDPSignRP):
        loss = np.log(2.0**64 / sketch.flip_thresholds_[1:] - 1)
        return np.append(np.uint64(0), (2.0**64 / (1 + np.exp(2 * loss))).astype(np.uint64))
    return flip_thresholds(2 * sketch.flip_epsilon_)


@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_audit_of_flips_with_a_least_norm(calibration):
    """With a least norm the bound holds over the draw of the projection; signs that are not flipped break it."""
    parameters = {"method": "rr", "projection": "gaussian", "delta": 0.05, "min_norm": 1.0, "max_change": 1.0}
    pair = np.zeros((2, 8))
    pair[:, :2] = [[1, 0.5], [1, -0.5]]

    def bound(flip_less):
        def agreement(row):
            sketch = DPSignRP(32, epsilon=1.0, calibration=calibration, **parameters).fit(pair)
            if flip_less:
                sketch.flip_thresholds_ = sketch._noise_of_fit["flip_thresholds_"] = flip_thresholds(40.0)
            return (sketch.transform(row) * np.sign(sketch.projection_.project(pair[:1]))).sum()

        return audit(agreement, *pair, 0.05, n_trials=300, rows_are_trials=False)

    assert bound(flip_less=False) <= 1.0 < bound(flip_less=True)


def test_audit_finds_noise_of_chi_radius(monkeypatch):
    """Noise of a uniform direction and a chi_1 radius, of the Gaussian scale, is caught at 64 components."""

    def chi_1(values, scale):
        direction = np.random.default_rng().normal(size=values.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        values += scale * np.abs(np.random.default_rng().normal(size=(len(values), 1))) * direction

    sketch = DPOPORP(16, delta=0.05, random_state=0).fit(np.ones((1, 8)))
    first, second = rows(sketch)
    centres = sketch.projection_.project(np.array([first, second]))

    def nearer(X):
        y = sketch.transform(X)
        return (np.linalg.norm(y - centres[0], axis=1) - np.linalg.norm(y - centres[1], axis=1))[:, None]

    assert audit(nearer, first, second, 0.05) <= 1.0
    monkeypatch.setattr(_noise, "add_gaussian", chi_1)
    assert audit(nearer, first, second, 0.05) > 1.0


@pytest.mark.parametrize("sketch", [DPOPORP(2, delta=0.05), DPOPORP(2, noise="laplace"), DPSignOPORP(2)], ids=repr)
def test_audit_finds_noise_that_two_rows_share(sketch, monkeypatch):
    """A row released beside a known one hides in its own noise; where the two share theirs, their difference tells."""
    sketch = clone(sketch).set_params(random_state=0).fit(np.ones((1, 8)))
    first, second = rows(sketch)

    def difference(X):
        both = np.empty((2 * len(X), X.shape[1]))
        both[::2], both[1::2] = X, 0.4 * first
        released = sketch.transform(both).astype(float)
        return released[::2] - released[1::2]

    assert audit(difference, first, second, sketch.guarantee_.delta) <= 1.0
    honest = _noise.random_bytes
    width = 16 if getattr(sketch, "noise", None) == "laplace" else 4 if hasattr(sketch, "noise") else 2

    def shared(size):
        if size % (2 * width):
            return honest(size)
        once = np.frombuffer(honest(size // 2), np.uint8).reshape(-1, width)
        return np.repeat(once, 2, axis=0).tobytes()

    monkeypatch.setattr(_noise, "random_bytes", shared)
    assert audit(difference, first, second, sketch.guarantee_.delta) > 1.0


def test_audit_finds_levels_without_margin():
    """On multiples of 0.1 rounding moves a level by two; the margin hides it, and without it the audit sees it."""
    sketch = DPSignOPORP(1, epsilon=1.0, max_change=0.1, random_state=0).fit(np.ones((1, 2)))
    signs = np.sign(sketch.projection_.project(np.eye(2)).ravel())
    grid = [(i, j) for i in range(-9, 10) for j in range(-9, 10)]
    rows = 0.1 * np.array(grid) * signs

    def levels(change):
        return np.ceil(np.abs(sketch.projection_.project(rows)).ravel() / change)

    def jumps(change):
        level = dict(zip(grid, levels(change), strict=True))
        pairs = [(c, (c[0] + 1, c[1])) for c in grid if (c[0] + 1, c[1]) in level]
        two = [(level[c], c, d) for c, d in pairs if abs(level[c] - level[d]) == 2]
        return [pair for _, *pair in sorted(two)]

    assert not jumps(sketch.component_change_[0])
    first, second = (0.1 * np.array(c) * signs for c in jumps(0.1)[0])
    assert audit(sketch.transform, first, second, 0.0) <= 1.0
    sketch.component_change_ = sketch._noise_of_fit["component_change_"] = np.array([0.1])
    assert audit(sketch.transform, first, second, 0.0) > 1.0


def low_bits(release):
    """Return the event of being near zero and no multiple of 2**-53, which floats near one exclude."""

    def event(X):
        y = release(X)
        return (np.abs(y) < 0.25) & (np.ldexp(y, 53) % 1 != 0)

    return event


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_last_bits_of_a_release_do_not_tell_rows_apart(noise, monkeypatch):
    """On the grid, no release near zero has low bits; with plain floating-point addition they give the row 0 away."""
    sketch = DPOPORP(1, noise=noise, random_state=0).fit(np.ones((1, 1)))
    zero, one = np.zeros(1), np.ones(1)
    assert not low_bits(sketch.transform)(np.zeros((10_000, 1))).any()

    standard = {"gaussian": lambda size: _noise.gaussian(size, 1.0), "laplace": _noise._standard_laplace}[noise]
    monkeypatch.setattr(
        _noise, f"_rounded_to_{noise}", lambda fractions, steps: fractions + steps * standard(fractions.size)
    )
    assert audit(low_bits(sketch.transform), zero, one, sketch.guarantee_.delta) > 1.0
