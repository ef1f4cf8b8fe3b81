"""Sketches with additive noise: sensitivity, scale, distribution of the noise, unbiased estimates."""

from fractions import Fraction
from typing import ClassVar

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from scipy import stats
from sketches import ADDITIVE, MARGIN, offered, projection_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, PrivacyGuarantee
from skdprp.mechanisms import gaussian_scale
from skdprp.random_projection import make_projection
from skdprp.sketch._additive import AdditiveSketch
from skdprp.testing import reproducible_noise


@pytest.mark.parametrize("sketch", ADDITIVE, ids=repr)
def test_without_noise_a_sketch_is_its_projection(sketch, silenced_noise):
    """Dense, CSR, CSC, duplicated and read-only X all give X @ W / divisor, of the float type of X."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (7, 13)) * (rng.random((7, 13)) < 0.5) / 8
    sketch = clone(sketch).fit(X)
    expected = X @ projection_matrix(sketch.projection_) / sketch.projection_.divisor
    frozen = X.copy()
    frozen.setflags(write=False)
    halves = sp.coo_array(X)
    doubled = sp.csr_array(
        (np.tile(halves.data / 2, 2), (np.tile(halves.coords[0], 2), np.tile(halves.coords[1], 2))), shape=X.shape
    )
    for same in (X, frozen, np.asfortranarray(X), X[::-1][::-1], sp.csr_array(X), sp.csc_array(X), doubled):
        assert np.allclose(sketch.transform(same), expected, rtol=1e-12, atol=1e-12)
    single = sketch.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert np.allclose(single, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("adjacency", ["l1", "l2"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-6), (8.0, 1e-9)])
@pytest.mark.parametrize("estimator", [DPRandomProjection, DPOPORP])
def test_gaussian_scale_is_exact_for_an_independent_accountant(estimator, epsilon, delta, adjacency):
    """dp_accounting finds delta met at scale_, rounding margin included, and not met at 0.9999 of it."""
    sketch = estimator(4, epsilon=epsilon, delta=delta, adjacency=adjacency, random_state=0).fit(np.ones((1, 20)))

    def delta_of(scale):
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(GaussianDpEvent(scale / (sketch.sensitivity_ * MARGIN)))
        return accountant.get_delta(epsilon)

    def exact(scale):
        with mpmath.workdps(50):
            mu = mpmath.mpf(sketch.sensitivity_ * MARGIN) / scale
            upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            return mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower)

    assert exact(sketch.scale_ * (1 + 1e-9)) <= delta < exact(0.999999 * sketch.scale_)
    assert delta_of(1.001 * sketch.scale_) <= delta < delta_of(0.999 * sketch.scale_)


@pytest.mark.parametrize("epsilon", [1e-20, 1e-12, 1e-4, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("delta", [1e-100, 1e-18, 1e-9, 0.1, 0.9])
def test_gaussian_scale_is_exact_at_the_extremes(epsilon, delta):
    """At tiny and huge epsilon and delta the noise still meets its target, and a little less does not."""
    calibrated = gaussian_scale(epsilon, delta)

    def exact(scale):
        with mpmath.workdps(400):
            mu = 1 / mpmath.mpf(float(scale))
            upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            return mpmath.ncdf(upper) - mpmath.exp(epsilon) * mpmath.ncdf(lower)

    assert exact(calibrated * (1 + 1e-11)) <= delta < exact(calibrated * (1 - 1e-8))


def test_laplace_scale_is_exact():
    """scale_ times epsilon, less the loss of sampling, is the l1 sensitivity with its rounding margin."""
    sketch = DPRandomProjection(9, noise="laplace", epsilon=0.3, max_change=2.0).fit(np.ones((1, 20)))
    assert sketch.sensitivity_ == 2.0 * 3.0
    epsilon = 0.3 - 2 * 9 * 2.0**-31
    assert Fraction(sketch.scale_) * Fraction(epsilon) >= Fraction(6.0) * Fraction(MARGIN)
    assert sketch.scale_ * epsilon == pytest.approx(6.0 * MARGIN, rel=1e-15)


@pytest.mark.parametrize("estimator", [DPRandomProjection, DPOPORP])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_has_the_printed_scale(estimator, noise, seeded):
    """Released minus projected is noise of scale_: chi-square goodness of fit over 50 cells."""
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    sketch = estimator(8, noise=noise, random_state=0).fit(X)
    residual = sketch.transform(X) - sketch.projection_.project(X) / sketch.projection_.divisor
    expected = stats.norm if noise == "gaussian" else stats.laplace
    cells = np.bincount((50 * expected.cdf(residual.ravel() / sketch.scale_)).astype(int), minlength=50)
    assert stats.chisquare(cells).pvalue > 1e-6
    wrong = np.bincount((50 * expected.cdf(1.05 * residual.ravel() / sketch.scale_)).astype(int), minlength=50)
    assert stats.chisquare(wrong).pvalue < 1e-6


def test_published_calibrations_have_their_formulas():
    """Kenthapadi, the a-priori bound and the classic formula, as printed, with the rounding margin."""
    X, epsilon, delta, p, k = np.ones((1, 100)), 0.5, 1e-5, 100, 16
    gaussian = {"projection": "gaussian", "epsilon": epsilon, "delta": delta, "random_state": 0}
    kenthapadi = DPRandomProjection(k, calibration="kenthapadi", **gaussian).fit(X)
    W = projection_matrix(kenthapadi.projection_)
    assert kenthapadi.sensitivity_ == pytest.approx(np.linalg.norm(W, axis=1).max() / 4, rel=1e-9)
    factor = np.sqrt(2 * (np.log(1 / (2 * delta)) + epsilon)) / epsilon
    assert kenthapadi.scale_ == pytest.approx(kenthapadi.sensitivity_ * MARGIN * factor, rel=1e-12)
    bound = DPRandomProjection(k, calibration="kenthapadi_bound", max_change=3.0, **gaussian).fit(X)
    tail = np.log(2 * p / delta) / k
    factor = np.sqrt(1 + 2 * np.sqrt(tail) + 2 * tail) * np.sqrt(2 * (np.log(1 / delta) + epsilon)) / epsilon
    factor *= 1 + 16 * 2.0**-30 / epsilon  # the loss of sampling 16 values
    assert bound.scale_ == pytest.approx(3.0 * MARGIN * factor, rel=2e-9)
    classic = DPOPORP(k, calibration="classic", epsilon=epsilon, delta=delta).fit(X)
    assert classic.scale_ == pytest.approx(MARGIN * np.sqrt(2 * np.log(1.25 / delta)) / epsilon, rel=1e-12)


def variants_of_all():
    """Each sketch with each of its adjacencies and kinds of noise; one that has no choice has a class attribute."""
    for sketch in ADDITIVE:
        options = {"adjacency": ["l1", "l2"], "noise": ["gaussian", "laplace"]}
        taken = {name: options[name] for name in options.keys() & sketch.get_params().keys()}
        yield from (clone(sketch).set_params(**known) for known in ParameterGrid(taken))


@pytest.mark.parametrize("sketch", list(variants_of_all()), ids=repr)
def test_sensitivity_is_never_passed_and_is_reached(sketch, silenced_noise):
    """No neighbour moves a projection further than sensitivity_; the worst one does (l1 noise, l2 rows: a bound)."""
    X, adjacency, noise = np.random.default_rng(0).normal(size=(1, 13)), sketch.adjacency, sketch.noise
    sketch = clone(sketch).set_params(max_change=0.25).fit(X)
    W = projection_matrix(sketch.projection_)
    rng = np.random.default_rng(1)
    steps = np.vstack([np.eye(13), rng.normal(size=(200, 13)), np.linalg.svd(W)[0].T])
    steps /= np.linalg.norm(steps, 1 if adjacency == "l1" else 2, axis=1, keepdims=True)
    moved = np.linalg.norm(sketch.transform(X + 0.25 * steps) - sketch.transform(X), noise == "laplace" or 2, axis=1)
    moved = (
        np.abs(sketch.transform(X + 0.25 * steps) - sketch.transform(X)).sum(axis=1) if noise == "laplace" else moved
    )
    assert moved.max() <= sketch.sensitivity_ * MARGIN
    if (adjacency, noise) != ("l2", "laplace"):
        assert moved.max() >= sketch.sensitivity_ * (1 - 1e-9)


@pytest.mark.parametrize("projection", offered(DPRandomProjection))
def test_rounding_cannot_pass_the_sensitivity(projection, silenced_noise):
    """Rows so large that float64 would move their projections further than a change may are refused."""
    first, second = np.array([[0.0, 1e17], [9.0, 1e17]])
    sketch = DPRandomProjection(1, projection=projection, density=1.0, max_change=9.0).fit(first[None])
    for row in (first, second):
        with pytest.raises(ValueError, match="float64 is too coarse"):
            sketch.transform(row[None])


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "oporp", "raw"])
def test_inner_products_are_unbiased_with_the_known_variance(kind):
    """Over projections and noise, inner products of sketches have the mean and the variance of the formulas."""
    p, k, draws, rng = 12, 4, 1000, np.random.default_rng(0)
    u, v = rng.normal(size=(2, p))
    seeds = np.random.RandomState(0)
    make = {
        "rademacher": lambda: DPRandomProjection(k, random_state=seeds),
        # Calibrated before the draw: its noise has the same scale for every projection.
        "gaussian": lambda: DPRandomProjection(
            k, projection="gaussian", calibration="kenthapadi_bound", random_state=seeds
        ),
        "oporp": lambda: DPOPORP(k, random_state=seeds),
        "raw": lambda: DPRandomProjection(projection="identity"),
    }[kind]()
    make.set_params(epsilon=20.0, delta=1e-3)
    # Entries are independent: of features of their own, two rows have a projection of their own; bins have as many.
    n_fits, n_copies = {"raw": (1, draws), "oporp": (draws, 1)}.get(kind, (draws // 50, 50))
    X = np.vstack([u, v]) if kind == "raw" else np.vstack([np.kron(np.eye(n_copies), row) for row in (u, v)])
    products, scales = np.empty((n_fits, n_copies)), np.empty(n_fits)
    rows = np.repeat(X, n_copies, axis=0) if kind == "raw" else X
    with reproducible_noise(0), config_context(skip_parameter_validation=True, assume_finite=True):
        for i in range(n_fits):
            x, y = make.fit(X).transform(rows).reshape(2, n_copies, -1)
            products[i], scales[i] = (x * y).sum(axis=1), make.scale_
    uu, vv, uv, common = u @ u, v @ v, u @ v, np.sum(u**2 * v**2)
    spread = {
        "rademacher": (uu * vv + uv**2 - 2 * common) / k,
        "gaussian": (uu * vv + uv**2) / k,
        "oporp": (uu * vv + uv**2 - 2 * common) / k * (p - k) / (p - 1),
        "raw": 0.0,
    }[kind]
    size = p if kind == "raw" else k
    assert np.ptp(scales) == 0
    variance = scales[0] ** 2 * (uu + vv) + size * scales[0] ** 4 + spread
    squares = (products - uv) ** 2
    assert abs(products.mean() - uv) < 5 * products.std() / np.sqrt(draws)
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(draws)


@pytest.mark.parametrize("sketch", ADDITIVE, ids=repr)
def test_epsilon_below_what_sampling_can_keep_is_refused(sketch):
    """Values are sampled to a loss of 2**-31 each, and no guarantee may claim less."""
    with pytest.raises(ValueError, match="too small"):
        clone(sketch).set_params(epsilon=1e-10).fit(np.ones((1, 9)))


@pytest.mark.parametrize("adjacency", ["l1", "l2"])
@pytest.mark.parametrize("projection", ["rademacher", "very_sparse", "identity"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_gaussian_noise_hides_what_it_says(epsilon, projection, adjacency):
    """The best guess is right in 75 of 100 at that distance, but for the margin of rounding, and no more often."""
    sketch = DPRandomProjection(
        6, epsilon=epsilon, projection=projection, density=0.5, adjacency=adjacency, max_change=0.3, random_state=0
    ).fit(np.ones((1, 20)))
    reach = sketch.guarantee_.hides
    moved = sketch.sensitivity_ * (reach / 0.3 + 2.0**-10)
    guess = stats.norm.cdf(moved / (2 * sketch.scale_))
    assert 0.75 - 1e-6 < guess <= 0.75
    assert f"{adjacency} change of at most {reach:.3}"[:-1] in str(sketch.guarantee_)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_laplace_noise_hides_what_it_says(epsilon):
    sketch = DPOPORP(6, epsilon=epsilon, noise="laplace", max_change=0.3, random_state=0).fit(np.ones((1, 20)))
    loss = (sketch.guarantee_.hides + 0.3 * 2.0**-10) / sketch.scale_
    assert 1.3862 < loss < 2 * np.log(2)
    assert 0.2499 < 0.5 - np.exp(-loss / 2) / 2 < 0.25  # by which the best guess from one number is better than chance


@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(6, noise="laplace"),
        DPRandomProjection(6, noise="laplace", adjacency="l2"),
        DPSignOPORP(6, adjacency="l1"),
        DPSignRP(6, method="laplace"),
    ],
    ids=repr,
)
def test_laplace_noise_has_the_loss_of_one_number(sketch):
    """By its exact profile, and by the largest move, of one number or of several."""
    zeros = np.zeros((1, 20))
    guarantee = sketch.set_params(epsilon=2.0, random_state=0).fit(zeros).guarantee_
    assert guarantee.loss.method == "closed form" and guarantee.profile(2.0) == 0.0 < guarantee.profile(1.99)
    for epsilon in (0.0, 0.5, 1.5):
        exact = -np.expm1((epsilon - 2.0) / 2)
        assert exact * (1 - 1e-6) <= guarantee.profile(epsilon) <= exact * (1 + 2e-3) + 2e-3
    assert guarantee.guess_probability < PrivacyGuarantee(2.0, 0.0).guess_probability - 0.06


class OffersLaplaceAlone(AdditiveSketch):
    """A sketch that has its noise in the class, as one that offers no other."""

    adjacency, noise, delta = "l1", "laplace", 0.0
    max_nonzeros = n_jobs = None
    _parameter_constraints: ClassVar = DPOPORP._parameter_constraints

    def __init__(self, n_components=4, *, epsilon=1.0, max_change=0.1, random_state=0):
        self.n_components = n_components
        self.epsilon = epsilon
        self.max_change = max_change
        self.random_state = random_state

    def _draw_projection(self, n_features, random_state):
        return make_projection("count_sketch", n_features, self.n_components, random_state)


@pytest.mark.parametrize(("name", "other"), [("noise", "gaussian"), ("adjacency", "l2")])
def test_noise_that_the_class_fixes_is_not_changed_on_an_object_after_its_fit(name, other):
    """The release had Gaussian noise then, and the guarantee was for Laplace noise."""
    X = np.eye(6)
    sketch = OffersLaplaceAlone().fit(X)
    assert "Laplace" in sketch.guarantee_.mechanism
    setattr(sketch, name, other)
    with pytest.raises(ValueError, match="fit again"):
        sketch.transform(X)
