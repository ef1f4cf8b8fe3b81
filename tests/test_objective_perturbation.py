"""Objective perturbation: calibrations meet their profiles, and profiles bound exact densities."""

import itertools
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from profiles import assert_bounds, loss_of, precise_gaussian_profile
from scipy import signal, stats
from scipy.special import ndtr

from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss, SoftmaxLoss, WeightedLoss
from skdprp.mechanisms import gaussian_profile, objective_perturbation_scale
from skdprp.mechanisms.objective_perturbation import (
    hessian_log_det,
    objective_perturbation_profile,
    penalty_for_log_det,
    product_perturbation_profile,
    product_perturbation_scale,
    softmax_perturbation_profile,
    softmax_perturbation_scale,
)
from skdprp.sensitivity import minimiser_sensitivity

ADJACENCIES = ["add_remove", "replace_one"]
BINARY = [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss()]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("profile", "calibrate", "options"),
    [
        (objective_perturbation_profile, objective_perturbation_scale, {"lipschitz": 1.5, "release_shift": 1e-3}),
        (objective_perturbation_profile, objective_perturbation_scale, {"n_outputs": 4}),
        (softmax_perturbation_profile, softmax_perturbation_scale, {"n_classes": 3, "max_norm": 1.5}),
        (softmax_perturbation_profile, softmax_perturbation_scale, {"n_classes": 50, "release_shift": 1e-3}),
        (product_perturbation_profile, product_perturbation_scale, {"n_dims": 5, "n_vertices": 2}),
        (product_perturbation_profile, product_perturbation_scale, {"n_dims": 200}),
        (product_perturbation_profile, product_perturbation_scale, {"n_dims": 9, "release_shift": 1e-4}),
        (objective_perturbation_profile, objective_perturbation_scale, {"count_shift": 0.005, "release_shift": 1e-3}),
    ],
)
@pytest.mark.parametrize("delta", [1e-4, 1e-12])
def test_calibrations_are_exact(profile, calibrate, options, epsilon, delta, adjacency):
    """The calibrated noise meets the target; one part per million less does not."""
    known = {"log_det": epsilon / 20, "adjacency": adjacency, **options}
    scale = calibrate(epsilon, delta, **known)
    assert profile(epsilon, scale=scale, **known) <= delta < profile(epsilon, scale=0.999999 * scale, **known)


@pytest.mark.parametrize("scale", [0.7, 3.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_softmax_of_two_classes_is_gaussian(epsilon, scale):
    """With two classes the maximum is over one vertex, at distance sqrt(2)."""
    assert softmax_perturbation_profile(
        epsilon, scale=scale, n_classes=2, adjacency="add_remove", release_shift=0.01
    ) == pytest.approx(gaussian_profile(epsilon, scale=1, sensitivity=np.hypot(np.sqrt(2) / scale, 0.01)), rel=1e-8)


@pytest.mark.parametrize("n_classes", [3, 10])
def test_softmax_bound_lies_between_one_vertex_and_their_sum(n_classes):
    """The maximum over vertices is worse than one of them and better than their union bound."""
    one_row = softmax_perturbation_profile(1.0, scale=6.0, n_classes=n_classes, adjacency="add_remove")
    one_vertex = gaussian_profile(1.0, scale=6.0, sensitivity=np.sqrt(2))
    assert one_vertex < one_row < (n_classes - 1) * one_vertex
    replaced = softmax_perturbation_profile(1.0, scale=12.0, n_classes=n_classes)
    assert one_vertex < replaced < (n_classes**2 - 1) * one_vertex
    # With opposite rows and one label the loss is the one of a row added, at half the noise: no bound can be below it.
    assert one_row <= replaced <= 1.01 * one_row


def test_softmax_profile_by_monte_carlo():
    """One row added: the expectation over the maximum of correlated normals, by simulation to five deviations."""
    rng, epsilon, scale, shift = np.random.default_rng(0), 0.5, 2.0, 0.2
    z = rng.normal(size=(400_000, 5))
    loss = (z[:, 1:].max(axis=1) - z[:, 0]) / scale + 1 / scale**2 + shift * rng.normal(size=len(z)) + shift**2 / 2
    excess = -np.expm1(np.minimum(epsilon - loss, 0))
    exact = softmax_perturbation_profile(epsilon, scale=scale, n_classes=5, adjacency="add_remove", release_shift=shift)
    # The bound also pays for the release's loss being above epsilon by itself.
    exact -= ndtr(shift / 2 - epsilon / shift)
    assert abs(excess.mean() - exact) < 5 * excess.std() / np.sqrt(len(z))


@pytest.mark.parametrize("direction", ["same", "orthogonal", "opposite", "oblique"])
@pytest.mark.parametrize("shift", [0.05, 0.3])
def test_replaced_row_is_bounded_for_all_pairs_of_rows(direction, shift):
    """The integral over the largest vertex loss of any two rows, on a grid, stays below the profile."""
    angle = {"same": 0.0, "oblique": 1.0, "orthogonal": np.pi / 2, "opposite": np.pi}[direction]
    a, b = shift * np.array([1.0, 0.0]), shift * np.array([np.cos(angle), np.sin(angle)])
    grid = np.linspace(-7, 7, 1401)
    x, y = grid[:, None], grid
    density = np.exp(-(x**2 + y**2) / 2) / (2 * np.pi)
    loss = np.max([x * v[0] + y * v[1] + v @ v / 2 for v in (0 * a, a, b, a + b)], axis=0)
    for epsilon in (shift**2, 2 * shift, 5 * shift):
        exact = (density * -np.expm1(np.minimum(epsilon - loss, 0))).sum() * (grid[1] - grid[0]) ** 2
        assert exact <= objective_perturbation_profile(epsilon, scale=1.0, lipschitz=shift) * (1 + 1e-4)


def test_calibrations_refuse_what_leaves_no_room():
    """No epsilon is left once the log-determinant takes it all."""
    for calibrate, options in [
        (objective_perturbation_scale, {}),
        (softmax_perturbation_scale, {"n_classes": 3}),
        (product_perturbation_scale, {"n_dims": 3}),
    ]:
        with pytest.raises(ValueError, match=r"takes 0\.2 of epsilon=0\.1"):
            calibrate(0.1, 1e-5, log_det=0.2, **options)
    for adjacency, taken in (("add_remove", "1"), ("replace_one", "2")):
        with pytest.raises(ValueError, match=f"takes {taken} of epsilon"):
            objective_perturbation_scale(0.9, 1e-5, log_det=0.2, n_outputs=5, adjacency=adjacency)
    for calibrate, options in [(objective_perturbation_scale, {}), (softmax_perturbation_scale, {"n_classes": 3})]:
        with pytest.raises(ValueError, match="cannot meet delta=0"):
            calibrate(0.1, 0.0, **options)


@pytest.mark.parametrize("epsilon", [-3.0, -0.5, -1e-3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_bounds_that_pay_no_log_determinant_are_for_no_negative_epsilon(epsilon, adjacency):
    """There the other direction of two neighbours counts, which pays it."""
    known = {"scale": 5.0, "log_det": 2.0, "adjacency": adjacency}
    assert softmax_perturbation_profile(epsilon, n_classes=3, **known) == 1.0
    assert product_perturbation_profile(epsilon, n_dims=3, **known) == 1.0
    added = gaussian_profile(epsilon - 2.0, scale=5.0)
    binary = objective_perturbation_profile(epsilon, **known)
    assert binary == (added if adjacency == "add_remove" else 1.0)


def test_product_noise_is_pure_where_it_can_be():
    """Rows that move the minimiser by less than epsilon scales leave delta at 0."""
    assert product_perturbation_profile(1.0, scale=2.0, n_dims=4) == 0.0
    assert product_perturbation_profile(1.0, scale=1.999, n_dims=4) > 0.0
    assert product_perturbation_profile(1.0, scale=1.0, n_dims=4, adjacency="add_remove") == 0.0
    known = {"scale": 2.1, "n_dims": 4, "release_shift": 1e-3}  # beside which the release takes 0.02 of epsilon
    assert 0 < product_perturbation_profile(1.0, **known) < 2.0**-288 < product_perturbation_profile(0.96, **known)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("log_det", [0.0, 0.1])
def test_product_noise_is_pure_where_it_is_so_exactly(adjacency, log_det):
    """Within some units in the last place of the edge a rounded quotient called it pure, or left a loss unpaid."""
    draws = np.random.default_rng(0)
    for epsilon, lipschitz in draws.uniform(0.2, 3.0, (60, 2)).tolist():
        most = lipschitz * (2 if adjacency == "replace_one" else 1)
        for scale in most / (epsilon - log_det) * (1 + np.arange(-4, 5) * 2.0**-52):
            is_pure = Fraction(most) <= (Fraction(epsilon) - Fraction(log_det)) * Fraction(float(scale))
            known = {"scale": float(scale), "n_dims": 1, "lipschitz": lipschitz, "log_det": log_det}
            assert (product_perturbation_profile(epsilon, adjacency=adjacency, **known) == 0) == is_pure


def test_penalty_for_log_det_inverts_it():
    loss = SoftmaxLoss(5)
    penalty = penalty_for_log_det(loss, max_norm=2.0, log_det=0.3)
    assert hessian_log_det(loss, max_norm=2.0, penalty=penalty) == pytest.approx(0.3)


# Exact densities: the minimiser w has density f(-gradient of J at w) det(second derivative of J at w), f that of the
# perturbation. Two data sets share all rows but the last.


def _scores(loss, row, points):
    scores = sum(number * points[:, feature] for feature, number in enumerate(row))
    return scores if isinstance(getattr(loss, "loss", loss), SoftmaxLoss) else scores[:, 0]


def _gradient(loss, rows, labels, points, penalty):
    """Gradient of the risk at points of shape (n_points, n_features, n_scores), a vector for each."""
    gradient = penalty * points
    for row, label in zip(rows, labels, strict=True):
        slope = loss.gradient(np.full(len(points), label), _scores(loss, row, points)).reshape(len(points), -1)
        for feature, number in enumerate(row):
            gradient[:, feature] += number * slope
    return gradient.reshape(len(points), -1)


def _log_det(loss, rows, labels, points, penalty):
    """Log-determinant of the second derivative of the risk."""
    size, n_scores = points[0].size, points.shape[2]
    hessian = np.broadcast_to(penalty * np.eye(size), (len(points), size, size)).copy()
    for row, label in zip(rows, labels, strict=True):
        scores = _scores(loss, row, points)
        multiply = loss.hessian(np.full(len(points), label), scores)
        columns = [multiply(np.broadcast_to(e, scores.shape)) for e in np.eye(n_scores)]
        curvature = np.stack([c.reshape(len(points), -1) for c in columns], axis=-1)
        blocks = hessian.reshape(len(points), len(row), n_scores, len(row), n_scores)
        for (f, one), (g, other) in itertools.product(enumerate(row), repeat=2):
            blocks[:, f, :, g] += one * other * curvature
    if size == 2:  # in a tenth of the time
        return np.log(hessian[:, 0, 0] * hessian[:, 1, 1] - hessian[:, 0, 1] * hessian[:, 1, 0])
    return np.linalg.slogdet(hessian)[1]


def _risk_terms(*risk):
    return _gradient(*risk), _log_det(*risk)


def _log_density(terms, scale, power=2):
    """Of Gaussian noise, or of multivariate Laplace noise in two dimensions for a power of 1."""
    gradient, log_det = terms
    size = gradient.shape[1]
    if power == 1:
        return -np.linalg.norm(gradient, axis=1) / scale - np.log(2 * np.pi * scale**2) + log_det
    return -(gradient**2).sum(axis=1) / (2 * scale**2) - size * np.log(scale * np.sqrt(2 * np.pi)) + log_det


def _noise_of(power):
    return stats.norm if power == 2 else stats.laplace


def _log_masses(loss, data, edges, penalty, scale, power=2):
    """Of the cells between edges, for one weight, which falls as the perturbation grows. A cell tells less than it."""
    below = _noise_of(power).cdf(-_gradient(loss, *data, edges[:, None, None], penalty)[:, 0], scale=scale)
    return np.log(np.maximum(below[:-1] - below[1:], 1e-300))


def _exact_deltas(first, second, cell, epsilons):
    first, second = np.exp(first), np.exp(second)
    for p, q in ((first, second), (second, first)):
        assert p.sum() * cell == pytest.approx(1.0, abs=1e-2)  # the grid holds the whole distribution
        for epsilon in epsilons:
            excess = np.exp(epsilon) * q
            np.maximum(np.subtract(p, excess, out=excess), 0.0, out=excess)
            yield epsilon, excess.sum() * cell


def _neighbours(rows, labels, adjacency, other_row, other_label):
    if adjacency == "add_remove":
        return (rows, labels), (rows[:-1], labels[:-1])
    return (rows, labels), ([*rows[:-1], other_row], [*labels[:-1], other_label])


def _grid(n_dims, width, n):
    axis = np.linspace(-width, width, n)
    points = np.stack(np.meshgrid(*n_dims * [axis], indexing="ij"), axis=-1).reshape(-1, n_dims)
    return points, (axis[1] - axis[0]) ** n_dims


SHARES = np.array([0.0, 0.1, 0.3, 0.6, 0.9, 1.0])  # of the log-determinant: there no budget is left for it


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("power", [1, 2], ids=["laplace", "gaussian"])
def test_binary_densities_never_exceed_the_bound(loss, adjacency, n_features, case, power):
    """Exact delta of the minimiser of small binary problems, at several epsilons, both ways round."""
    rng = np.random.default_rng(case)
    rows = rng.normal(size=(4, n_features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    other = -rows[-1] if case == 0 else rows[0]
    pair = _neighbours(list(rows), [1.0, -1.0, 1.0, 1.0], adjacency, other, [1.0, -1.0, -1.0][case])
    penalty, shift = [(1.0, 2 / 3), (4.0, 1.0), (2.0, 1 / 2)][case]
    scale = loss.lipschitz / shift
    width, cell, first_share = ((5.5 if power == 2 else 9.0) * scale + 4) / penalty, 1.0, 0
    if n_features == 1:
        edges = np.linspace(-width, width, 10_001)
        first, second = (_log_masses(loss, data, edges, penalty, scale, power) for data in pair)
    else:
        points, cell = _grid(n_features, width, 301)
        first, second = (
            _log_density(_risk_terms(loss, *data, points[:, :, None], penalty), scale, power) for data in pair
        )
        first_share = 1 if isinstance(loss, LogisticLoss) else 3  # nearer to 0 a grid has too few digits for the bound
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
    profile = partial(product_perturbation_profile, n_dims=n_features) if power == 1 else objective_perturbation_profile
    epsilons = np.append(log_det * SHARES[first_share:], log_det + np.array([0.1, 0.25, 0.5, 1.0, 2.0]))
    for epsilon, delta in _exact_deltas(first, second, cell, epsilons):
        assert delta <= profile(epsilon, **known)


class From:
    """A loss of scores that start from an offset."""

    def __init__(self, loss, offset):
        self.loss, self.offset = loss, offset

    def gradient(self, y, score):
        """Derivative by the score."""
        return self.loss.gradient(y, score + self.offset)

    def hessian(self, y, score):
        """Second derivative, as a function."""
        return self.loss.hessian(y, score + self.offset)


def _joint_log_masses(loss, data, edges, penalty, scale, count, power):
    """Of a count of labels with noise, and of a fit whose scores start from what it says."""
    cells = 1.5 + np.linspace(-1, 1, 26) * 7 * count  # around half of three places for rows
    below = np.concatenate([[-np.inf], cells, [np.inf]]) - np.sum(np.equal(data[1], 1))
    masses = np.diff(_noise_of(power).cdf(below, scale=count))
    shares = np.clip(np.append(cells, cells[-1]) / 3, 0.1, 0.9)
    fits = [_log_masses(From(loss, loss.score_of(q)), data, edges, penalty, scale, power) for q in shares]
    return np.concatenate([np.log(max(mass, 1e-300)) + fit for mass, fit in zip(masses, fits, strict=True)])


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("count", [0.7, 3.0, 20.0])
@pytest.mark.parametrize("power", [1, 2], ids=["laplace", "gaussian"])
def test_fits_that_start_from_a_count_never_exceed_the_bound(loss, adjacency, count, power):
    """Exact delta of both releases, the second of which depends on the first."""
    exceeded = False
    for labels, other_label, penalty, shift in (
        ([1.0, -1.0, 1.0], -1.0, 1.0, 2 / 3),
        ([1.0, 1.0, -1.0], 1.0, 4.0, 1.0),
        ([-1.0, -1.0, 1.0], -1.0, 2.0, 0.5),
    ):
        pair = _neighbours([np.ones(1), -np.ones(1), np.ones(1)], labels, adjacency, -np.ones(1), other_label)
        scale = loss.lipschitz / shift
        edges = np.linspace(-1, 1, 1001) * ((5.5 if power == 2 else 9.0) * scale + 4) / penalty
        first, second = (_joint_log_masses(loss, data, edges, penalty, scale, count, power) for data in pair)
        log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
        known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
        profile = partial(product_perturbation_profile, n_dims=1) if power == 1 else objective_perturbation_profile
        paid = {"count_epsilon" if power == 1 else "count_shift": 1 / count}
        epsilons = np.append(log_det * SHARES, log_det + np.array([0.1, 0.25, 0.5, 1.0, 2.0]))
        for epsilon, delta in _exact_deltas(first, second, 1.0, epsilons):
            assert delta <= profile(epsilon, **known, **paid)
            exceeded |= delta > profile(epsilon, **known)
    assert exceeded or count > 1  # positive control: a count that is hardly hidden has to be paid for


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_several_problems_pay_a_count_in_either_half(adjacency):
    """Of a replaced row twice, through the data set without it."""
    known = {"scale": 6.0, "log_det": 0.02, "n_outputs": 3, "adjacency": adjacency}
    times = 1 if adjacency == "add_remove" else 2
    shift = np.hypot(times * np.sqrt(3) / 6, times * 0.4)
    expected = np.exp(0.06 * (times - 1)) * gaussian_profile(1 - times * 0.06, scale=1.0, sensitivity=shift)
    assert objective_perturbation_profile(1.0, count_shift=0.4, **known) == pytest.approx(expected, rel=1e-9)


class ByLabel:
    """A loss with a weight for each label; a row has one."""

    def __init__(self, loss, weights):
        self.loss, self.weights = loss, weights

    def _weighted(self, y):
        labels, places = np.unique(y, return_inverse=True)
        return WeightedLoss(self.loss, np.array([self.weights[label] for label in labels])[places])

    def gradient(self, y, score):
        """Derivative by the score."""
        return self._weighted(y).gradient(y, score)

    def hessian(self, y, score):
        """Second derivative, as a function."""
        return self._weighted(y).hessian(y, score)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("weights", [(1.0, 0.3), (0.2, 1.0), (0.0, 1.0), (0.5, 0.7)], ids=str)
@pytest.mark.parametrize("power", [1, 2], ids=["laplace", "gaussian"])
def test_densities_with_weights_never_exceed_the_bound(loss, adjacency, weights, power):
    """Rows of two labels have two weights, also the two of a replacement: the bound is that of rows of weight 1."""
    weighted = ByLabel(loss, {-1.0: weights[0], 1.0: weights[1]})
    for labels, other_label, penalty, shift in (
        ([1.0, -1.0, 1.0], -1.0, 1.0, 2 / 3),
        ([1.0, 1.0, -1.0], 1.0, 4.0, 1.0),
        ([-1.0, 1.0, 1.0], 1.0, 2.0, 0.5),
    ):
        pair = _neighbours([np.ones(1), -np.ones(1), np.ones(1)], labels, adjacency, -np.ones(1), other_label)
        scale = loss.lipschitz / shift
        edges = np.linspace(-1, 1, 10_001) * ((5.5 if power == 2 else 9.0) * scale + 4) / penalty
        first, second = (_log_masses(weighted, data, edges, penalty, scale, power) for data in pair)
        log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
        known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
        profile = partial(product_perturbation_profile, n_dims=1) if power == 1 else objective_perturbation_profile
        epsilons = np.append(log_det * SHARES, log_det + np.array([0.1, 0.25, 0.5, 1.0, 2.0]))
        assert all(delta <= profile(epsilon, **known) for epsilon, delta in _exact_deltas(first, second, 1.0, epsilons))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_softmax_densities_with_weights_never_exceed_the_bound(adjacency):
    loss, penalty, scale = SoftmaxLoss(3), 1.0, 2.0
    weighted = ByLabel(loss, {0: 0.3, 1: 1.0, 2: 0.6})
    pair = _neighbours([np.ones(1), -np.ones(1), np.ones(1)], [0, 1, 2], adjacency, -np.ones(1), 1)
    points, cell = _grid(3, (6 * scale + 4) / penalty, 45)
    first, second = (_log_density(_risk_terms(weighted, *data, points[:, None, :], penalty), scale) for data in pair)
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    epsilons = np.append(log_det * SHARES, log_det + np.array([0.1, 0.5, 1.0, 2.0]))
    for epsilon, delta in _exact_deltas(first, second, cell, epsilons):
        bound = softmax_perturbation_profile(epsilon, scale=scale, n_classes=3, log_det=log_det, adjacency=adjacency)
        assert delta <= bound


def test_a_weight_above_one_breaks_the_bound():
    """Positive control: rows of weight 3 exceed the profile of rows of weight 1."""
    loss, penalty, scale = LogisticLoss(), 1.0, 2.0
    pair = _neighbours([np.ones(1)] * 4, [1.0, -1.0, 1.0, 1.0], "replace_one", np.ones(1), -1.0)
    edges = np.linspace(-30, 30, 40_001)
    weighted = ByLabel(loss, {-1.0: 3.0, 1.0: 3.0})
    first, second = (_log_masses(weighted, data, edges, penalty, scale) for data in pair)
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    bound = objective_perturbation_profile(1.0, scale=scale, log_det=log_det)
    assert max(delta for _, delta in _exact_deltas(first, second, 1.0, [1.0])) > bound


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2, 0.25])
@pytest.mark.parametrize("log_det", [0.0, 0.1, 1.0])
def test_bound_of_a_replaced_row_is_attained(epsilon, log_det):
    """Scores in the linear part of the smoothed hinge: two Gaussians at twice the shift, whatever the log-determinant.

    Up to epsilon = mu^2 it costs nothing.
    """
    loss, penalty, scale = HuberHingeLoss(), 40.0, 2.0
    pair = ([np.ones(1)] * 2, [1.0, 1.0]), ([np.ones(1)] * 2, [1.0, -1.0])
    first, second = (_log_masses(loss, data, np.linspace(-0.5, 0.5, 20_001), penalty, scale) for data in pair)
    exact = max(delta for _, delta in _exact_deltas(first, second, 1.0, [epsilon]))
    assert exact == pytest.approx(gaussian_profile(epsilon, scale=scale, sensitivity=2.0), rel=1e-6)
    bound = objective_perturbation_profile(epsilon, scale=scale, log_det=log_det)
    assert bound == pytest.approx(gaussian_profile(epsilon, scale=scale, sensitivity=2.0), rel=1e-12)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("loss", "penalty"),
    [(LogisticLoss(), 0.5), (LogisticLoss(), 4.0), (CappedLogisticLoss(), 0.5), (HuberHingeLoss(), 40.0)],
)
@pytest.mark.parametrize(("shift", "power"), [(0.02, 2), (0.3, 2), (2.0, 2), (0.003, 1), (0.02, 1), (0.05, 1)])
def test_inexact_minimisers_never_exceed_the_bound(loss, penalty, adjacency, shift, power):
    """Released with noise are points as far apart as the solver may leave them; and the minimisers, too."""
    scale, edges = 1.5, np.linspace(-7, 7, 141)
    pair = _neighbours([np.ones(1)] * 3, [1.0, -1.0, 1.0], adjacency, np.ones(1), -1.0)
    joint = []
    for data, side in zip(pair, (shift / 2, -shift / 2), strict=True):
        minimiser = _log_masses(loss, data, np.linspace(-1, 1, 2002) * (9 * scale + 4) / penalty, penalty, scale, power)
        release = np.log(np.diff(stats.norm.cdf(edges - side)))
        joint.append(np.add.outer(minimiser, release).ravel())
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
    epsilons = np.append(known["log_det"] * SHARES, known["log_det"] + np.array([0.1, 0.5, 1.0]))
    exact = list(_exact_deltas(*joint, 1.0, epsilons))
    profile = partial(product_perturbation_profile, n_dims=1) if power == 1 else objective_perturbation_profile
    assert all(delta <= profile(e, **known, release_shift=shift) for e, delta in exact)
    if penalty == 40 and power == 2:  # in the linear part of the hinge: what the release adds must be paid
        assert max(delta for e, delta in exact if e == 0) > profile(0.0, **known)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: type(loss).__name__)
def test_joint_densities_of_two_problems_never_exceed_the_bound(loss, adjacency):
    """Two problems on the same rows, each with its own labels and perturbation, released together."""
    points, cell = _grid(1, 7.0, 1401)
    penalty, scale, rows = 4.0, 3.0, [np.ones(1), -np.ones(1), np.ones(1)]
    log_density = {0: 0.0, 1: 0.0}
    for labels, other_label in (([1.0, -1.0, 1.0], -1.0), ([-1.0, 1.0, -1.0], 1.0)):
        pair = _neighbours(rows, labels, adjacency, np.ones(1), other_label)
        for side, data in enumerate(pair):
            one = _log_density(_risk_terms(loss, *data, points[:, :, None], penalty), scale)
            log_density[side] = np.add.outer(log_density[side], one).ravel()
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency, "n_outputs": 2}
    epsilons = np.append(2 * log_det * SHARES, 2 * log_det + np.array([0.1, 0.5, 1]))
    for epsilon, delta in _exact_deltas(log_density[0], log_density[1], cell**2, epsilons):
        assert delta <= objective_perturbation_profile(epsilon, **known)


def test_binary_bound_is_nearly_attained():
    """A row far from the others' solution has a nearly constant slope: the bound is within a few percent of exact."""
    points, cell = _grid(1, 120.0, 40_001)
    rows, labels = [np.ones(1)] * 60, [1.0] * 59 + [-1.0]
    pair = _neighbours(rows, labels, "replace_one", np.ones(1), 1.0)
    loss, penalty, scale = LogisticLoss(), 0.5, 3.0
    first, second = (_log_density(_risk_terms(loss, *data, points[:, :, None], penalty), scale) for data in pair)
    exact = max(delta for _, delta in _exact_deltas(first, second, cell, [0.5]))
    assert exact > 0.2 * gaussian_profile(0.5, scale=scale, sensitivity=1.0)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("case", range(2))
def test_softmax_densities_never_exceed_the_bound(adjacency, case):
    """Exact delta of the minimiser of three-class problems with one feature: three weights."""
    loss, (penalty, scale) = SoftmaxLoss(3), [(1.0, 2.0), (3.0, 1.5)][case]
    rows, labels = [np.ones(1), -np.ones(1), np.ones(1)], [0, 1, 2]
    pair = _neighbours(rows, labels, adjacency, [-np.ones(1), np.ones(1)][case], [2, 0][case])
    points, cell = _grid(3, (6 * scale + 4) / penalty, 45)
    first, second = (_log_density(_risk_terms(loss, *data, points[:, None, :], penalty), scale) for data in pair)
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    epsilons = np.append(log_det * SHARES, log_det + np.array([0.1, 0.5, 1.0, 2.0]))
    for epsilon, delta in _exact_deltas(first, second, cell, epsilons):
        bound = softmax_perturbation_profile(epsilon, scale=scale, n_classes=3, log_det=log_det, adjacency=adjacency)
        assert delta <= bound


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_bounds_below_the_log_determinant_pay_none_of_it(epsilon, adjacency):
    """Near 0: of a row added or removed the total variation, of one replaced the same bound as without curvature."""
    split = min(0.0, epsilon / 2 - 0.04)
    for profile, options, scale in (
        (objective_perturbation_profile, {}, 5 / np.sqrt(2)),
        (softmax_perturbation_profile, {"n_classes": 4}, 5.0),
        (product_perturbation_profile, {"n_dims": 6, "n_vertices": 2}, 5 / np.sqrt(14)),
    ):
        known = {"scale": scale, "log_det": 5.0, **options}

        def one_row(epsilon, profile=profile, known=known):
            return profile(epsilon, **known | {"log_det": 0.0, "adjacency": "add_remove"})

        chained = -np.expm1(split) + np.exp(split) * (one_row(-split) + one_row(epsilon - split))
        expected = one_row(0.0) if adjacency == "add_remove" else chained
        assert profile(epsilon, adjacency=adjacency, **known) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("above", [0.0, 0.01, 0.05, 0.1, 0.5])
def test_bounds_above_the_log_determinant_are_split_at_no_negative_epsilon(above):
    """One row replaced at once: the bound of one row, at a split that is at least 0, or the one that pays nothing."""
    for profile, options, scale in (
        (softmax_perturbation_profile, {"n_classes": 4}, 5.0),
        (product_perturbation_profile, {"n_dims": 6, "n_vertices": 2}, 5 / np.sqrt(14)),
    ):
        known = {"scale": scale, **options}

        def one_row(epsilon, profile=profile, known=known):
            return profile(epsilon, adjacency="add_remove", **known)

        def chained(split, rest, one_row=one_row):
            return one_row(split) + np.exp(split) * one_row(rest - split)

        expected = min(chained(max(0.0, above / 2 - 0.04), above), chained(0.0, 0.15 + above))
        assert profile(0.15 + above, log_det=0.15, **known) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("shift", [0.01, 0.3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_release_of_a_softmax_is_paid_near_zero(adjacency, shift):
    """Two classes are a Gaussian mechanism: its shift with the release's, and what the release's own leaves below 0."""
    known = {"n_classes": 2, "scale": 5.0, "log_det": 2.0, "adjacency": adjacency, "release_shift": shift}
    mu, split = np.sqrt(2) / 5, 0.0 if adjacency == "add_remove" else -0.04
    last = gaussian_profile(-split, scale=1.0, sensitivity=np.hypot(mu, shift))
    last += gaussian_profile(-split, scale=1.0, sensitivity=shift)
    expected = last
    if adjacency == "replace_one":
        expected = -np.expm1(split) + np.exp(split) * (gaussian_profile(-split, scale=1.0, sensitivity=mu) + last)
    assert softmax_perturbation_profile(0.0, **known) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_release_beside_product_noise_takes_twenty_deviations(epsilon, adjacency):
    """Where the log-determinant is paid: the profile without it, that much before epsilon."""
    known = {"scale": 5 / np.sqrt(14), "n_dims": 6, "log_det": 0.05, "adjacency": adjacency}
    shift = epsilon / 2000
    shifted = product_perturbation_profile(epsilon - 20 * shift - shift**2 / 2, **known)
    assert product_perturbation_profile(epsilon, release_shift=shift, **known) == pytest.approx(shifted, rel=5e-3)
    assert product_perturbation_profile(epsilon, release_shift=shift, **known) >= product_perturbation_profile(
        epsilon, **known
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise", ["gaussian", "product"])
def test_no_density_of_what_is_released_exceeds_the_bound_at_any_shift(noise, adjacency, seed):
    """One weight; the solver stops on one side of the minimum of a table, and on the other of its neighbour's."""
    rng = np.random.default_rng(seed)
    loss = (LogisticLoss(), CappedLogisticLoss())[seed % 2]
    penalty, scale = 10 ** rng.uniform(-0.3, 1), 10 ** rng.uniform(-0.2, 0.8)
    # Of product noise 20 times the shift is paid.
    shift, deviation = (
        10 ** (rng.uniform(-2, 0) - 1.3 * (noise == "product")),
        10 ** rng.uniform(-1.5, 0) * scale / penalty,
    )
    others = [(rng.uniform(-1, 1), rng.choice([-1.0, 1.0])) for _ in range(2)]
    reach = (40 if noise == "product" else 12) * scale / penalty + 3 / penalty + 12 * deviation
    edges = np.linspace(-reach, reach, 2**15)
    cell, law = edges[1] - edges[0], stats.norm(scale=scale) if noise == "gaussian" else stats.laplace(scale=scale)
    places = edges[:-1] + cell / 2

    def released(rows, off):
        slopes = penalty * edges + sum(x * loss.gradient(label, edges * x) for x, label in rows)
        masses = -np.diff(law.cdf(-slopes))  # of weights, which the linear term is a decreasing function of
        return signal.fftconvolve(masses, stats.norm.pdf(places - off, scale=deviation) * cell, "same")

    one = released([*others, (1.0, 1.0)], shift * deviation / 2)
    rows = [*others, (1.0, -1.0)] if adjacency == "replace_one" else others
    two = released(rows, -shift * deviation / 2)
    assert one.sum() == pytest.approx(1, abs=1e-6) and two.sum() == pytest.approx(1, abs=1e-6)
    known = {"scale": scale, "lipschitz": loss.lipschitz, "adjacency": adjacency, "release_shift": shift}
    known["log_det"] = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    profile = objective_perturbation_profile
    if noise == "product":
        profile = partial(product_perturbation_profile, n_dims=1)
    for epsilon in (0.0, 0.1, 0.3, 1.0, 2.0):
        for first, second in ((one, two), (two, one)):
            assert np.maximum(first - np.exp(epsilon) * second, 0).sum() <= profile(epsilon, **known) + 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_bound_of_the_capped_loss_is_attained(adjacency, epsilon):
    """Rows on the wrong side, or at scores near 0, pull by 1/2: two Gaussians at half the logistic loss's shift."""
    loss, scale, rows, labels = CappedLogisticLoss(), 1.0, [np.ones(1)] * 42, [1.0] * 41 + [-1.0]
    if adjacency == "add_remove":  # the last row is wrong wherever the noise is as usual
        penalty, reach, shift = 1.0, 12.0, 0.5
        pair = (rows, labels), (rows[:-1], labels[:-1])
    else:  # either label pulls by nearly 1/2 where the penalty holds the weight near 0
        penalty, reach, shift = 400.0, 0.025, 1.0
        pair = (rows[:1], [1.0]), (rows[:1], [-1.0])
    first, second = (_log_masses(loss, data, np.linspace(-reach, reach, 40_001), penalty, scale) for data in pair)
    exact = max(delta for _, delta in _exact_deltas(first, second, 1.0, [epsilon]))
    assert exact == pytest.approx(gaussian_profile(epsilon, scale=scale, sensitivity=shift), rel=0.02)
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    known = {"lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
    assert exact <= objective_perturbation_profile(epsilon, scale=scale, **known)


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss()], ids=lambda loss: type(loss).__name__)
def test_less_noise_breaks_the_bound(loss):
    """Positive control: densities with a quarter of the noise exceed the profile, so that the tests above can fail."""
    points, cell = _grid(1, 60.0, 40_001)
    rows = [np.ones(1)] * 4
    pair = _neighbours(rows, [1.0, -1.0, 1.0, 1.0], "replace_one", np.ones(1), -1.0)
    penalty, scale = 1.0, 2.0 * loss.lipschitz
    first, second = (_log_density(_risk_terms(loss, *data, points[:, :, None], penalty), scale / 4) for data in pair)
    log_det = hessian_log_det(loss, max_norm=1.0, penalty=penalty)
    bound = objective_perturbation_profile(1.0, scale=scale, lipschitz=loss.lipschitz, log_det=log_det)
    assert max(delta for _, delta in _exact_deltas(first, second, cell, [1.0])) > bound


@pytest.mark.parametrize(
    "loss", [LogisticLoss(), CappedLogisticLoss(), SoftmaxLoss(4)], ids=["logistic", "capped", "softmax"]
)
def test_log_determinant_of_one_row(loss):
    """One row of norm R adds at most the bound, which equal scores attain at a point of no other curvature."""
    penalty, row = 0.7, np.array([1.2, 0.9])
    points = np.zeros((1, 2, getattr(loss, "n_classes", 1)))
    label = 1
    without = _risk_terms(loss, [], [], points, penalty)[1]
    added = _risk_terms(loss, [row], [label], points, penalty)[1] - without
    bound = hessian_log_det(loss, max_norm=1.5, penalty=penalty)
    assert added[0] == pytest.approx(bound)


def test_minimiser_sensitivity_counts_rows_outputs_and_the_solver():
    """Twice for a replaced row, sqrt(n) for n problems, and two gradients for the solver."""
    known = {"max_norm": 2.0, "penalty": 4.0}
    assert minimiser_sensitivity(LogisticLoss(), adjacency="add_remove", **known) == 0.5
    assert minimiser_sensitivity(LogisticLoss(), adjacency="replace_one", n_outputs=4, **known) == 2.0
    assert minimiser_sensitivity(LogisticLoss(), adjacency="add_remove", accuracy=0.5, **known) == 0.75
    assert minimiser_sensitivity(SoftmaxLoss(3), adjacency="add_remove", **known) == pytest.approx(np.sqrt(0.5))


def precise_gaussians(epsilon, *shifts):
    mu = mpmath.sqrt(sum(mpmath.mpf(shift) ** 2 for shift in shifts))
    return precise_gaussian_profile(epsilon, mu) if mu else max(mpmath.mpf(0), -mpmath.expm1(epsilon))


def bounds_of_a_replaced_row(epsilon, mu, log_det, release_shift, count_shift):
    """At once, and through the data set without the row."""
    half, left = mpmath.hypot(release_shift / 2, count_shift), epsilon - log_det - mu**2
    square, release_shift = mu**2 + half**2, mpmath.hypot(release_shift, count_shift)

    def removed(x):
        return precise_gaussians(x, mu, half) + precise_gaussians(x, half)

    tail = mpmath.ncdf(release_shift / 2 - left / release_shift) if release_shift else 0
    yield precise_gaussians(epsilon - log_det, 2 * mu, release_shift) + tail if left >= 0 else mpmath.mpf(1)
    a = min(mpmath.mpf(0), (epsilon - square) / 2)
    yield -mpmath.expm1(a) + mpmath.exp(a) * (removed(-a) + removed(epsilon - a))


def bounds_of_an_added_row(epsilon, mu, log_det, release_shift, count_shift):
    release_shift = mpmath.hypot(release_shift, count_shift)
    yield precise_gaussians(epsilon - log_det, mu, release_shift)
    yield precise_gaussians(0, mu, release_shift) + precise_gaussians(0, release_shift)


objective_bounds = {"replace_one": bounds_of_a_replaced_row, "add_remove": bounds_of_an_added_row}


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("release_shift", "count_shift"), [(0.0, 0.0), (0.01, 0.0), (0.01, 0.02), (0.0, 0.2)])
def test_stated_deltas_of_objective_perturbation_are_upper_bounds(adjacency, release_shift, count_shift):
    shifts = {"release_shift": release_shift, "count_shift": count_shift}
    known = {"scale": 7.3, "log_det": 0.1, "adjacency": adjacency, **shifts}
    bounds = objective_bounds[adjacency]
    for epsilon in (0.0, 0.004, 0.02, 0.08, 0.1, 0.11, 0.13, 0.2, 0.5, 1.0, 3.0):
        exact = min(
            bounds(mpmath.mpf(epsilon), 1 / mpmath.mpf(7.3), mpmath.mpf(0.1), *map(mpmath.mpf, shifts.values()))
        )
        assert_bounds(loss_of(objective_perturbation_profile, **known).profile(epsilon), exact)


@mpmath.workdps(30)
def precise_softmax_profile(epsilon, ratio, n_classes):
    """Expectation over the largest of the other classes' normals, by adaptive quadrature."""

    def integrand(largest):
        a = ratio * largest + ratio**2 - epsilon
        excess = mpmath.ncdf(a / ratio) - mpmath.exp(ratio**2 / 2 - a) * mpmath.ncdf(a / ratio - ratio)
        return excess * (n_classes - 1) * mpmath.npdf(largest) * mpmath.ncdf(largest) ** (n_classes - 2)

    return mpmath.quad(integrand, range(-12, 26, 2), method="gauss-legendre")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_stated_deltas_of_the_softmax_are_upper_bounds(epsilon):
    loss = loss_of(softmax_perturbation_profile, scale=3.0, n_classes=4, adjacency="add_remove")
    assert_bounds(loss.profile(epsilon), precise_softmax_profile(mpmath.mpf(epsilon), 1 / mpmath.mpf(3), 4), small=1e-8)
