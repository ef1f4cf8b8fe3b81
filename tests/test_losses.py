"""The losses, their derivatives, and the bounds that the guarantees are made of."""

import mpmath
import numpy as np
import pytest

from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss, SoftmaxLoss, WeightedLoss

SCORES = np.linspace(-5, 5, 4001) + 1e-4


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss(), HuberHingeLoss(0.5)])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_binary_derivatives(loss, label):
    """Gradient and second derivative are those of the value, which has no jump."""
    y, step = np.full_like(SCORES, label), SCORES[1] - SCORES[0]
    value, gradient = loss.value(y, SCORES), loss.gradient(y, SCORES)
    np.testing.assert_allclose(
        np.diff(value), step * (gradient[1:] + gradient[:-1]) / 2, atol=step**2 * loss.smoothness
    )
    change = loss.hessian(y, SCORES)(np.ones_like(SCORES))
    np.testing.assert_allclose(np.diff(gradient), step * (change[1:] + change[:-1]) / 2, atol=step * loss.smoothness)
    assert np.all(change >= 0)


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss(), HuberHingeLoss(0.5)])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_binary_bounds_hold_and_are_attained(loss, label):
    """The slope has one sign and stays within the bound, the curvature too; both come as close as one likes."""
    scores = np.append(SCORES, [-50.0, 0.0, 50.0])
    y = np.full_like(scores, label)
    slope, curvature = -label * loss.gradient(y, scores), loss.hessian(y, scores)(np.ones_like(scores))
    assert slope.min() >= 0
    assert slope.max() == pytest.approx(loss.lipschitz, abs=1e-12)
    assert slope.max() <= loss.lipschitz
    assert curvature.max() == pytest.approx(loss.smoothness, abs=1e-12)
    assert curvature.max() <= loss.smoothness
    assert loss.hessian_rank * loss.hessian_trace == loss.smoothness


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_capped_logistic_loss_to_all_digits(label):
    """The logistic loss on the right side, its tangent at 0 on the other; slope and curvature from forty digits."""
    margins = np.array([-1e300, -710.0, -2.0, -1e-300, 0.0, 1e-300, 1e-8, 0.3, 30.0, 700.0])
    value, slope, curvature = [], [], []
    with mpmath.workdps(40):
        for margin in map(mpmath.mpf, margins.tolist()):
            s = 1 / (1 + mpmath.exp(max(margin, 0)))
            value.append(float(mpmath.log1p(mpmath.exp(-margin)) if margin >= 0 else mpmath.log(2) - margin / 2))
            slope.append(float(s))
            curvature.append(float(s * (1 - s)) if margin >= 0 else 0.0)
    loss, y = CappedLogisticLoss(), np.full(len(margins), label)
    np.testing.assert_allclose(loss.value(y, y * margins), value, rtol=1e-14)
    np.testing.assert_allclose(loss.gradient(y, y * margins), -y * slope, rtol=1e-14)
    np.testing.assert_allclose(loss.hessian(y, y * margins)(np.ones_like(y)), curvature, rtol=1e-14)


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss()])
def test_probabilities_are_those_at_which_the_score_is_best(loss):
    """No other score has a smaller expected loss: just below and just above it is larger."""
    for score in (-30.0, -3.0, -0.5, -1e-3, 0.0, 1e-3, 0.2, 4.0, 25.0):
        q, rest = np.exp(loss.log_probability(np.array([score, -score])))
        assert q + rest == pytest.approx(1.0, rel=1e-15)
        near = score + np.array([-1e-3, 0.0, 1e-3])
        ones = np.ones(3)
        slope = q * loss.gradient(ones, near) + rest * loss.gradient(-ones, near)
        assert slope[0] < 0 < slope[2]
        assert abs(slope[1]) <= 1e-15 * max(q, rest)


def test_capped_probabilities_to_all_digits():
    """2 p / (1 + 2 p) for p <= 1/2, where the probability itself leaves the floats too."""
    for score in (-1000.0, -800.0, -40.0, -1.0, 0.0, 1.0, 40.0, 1000.0):
        with mpmath.workdps(500):
            p = 1 / (1 + mpmath.exp(abs(mpmath.mpf(score))))
            q = 2 * p / (1 + 2 * p)
            exact = float(mpmath.log(q if score < 0 else 1 - q))
        assert CappedLogisticLoss().log_probability(np.array([score]))[0] == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("probability", [1e-9, 0.01, 0.3, 0.5, 0.8, 0.999])
def test_a_score_says_the_probability_that_it_is_for(loss, probability):
    score = loss.score_of(probability)
    assert np.exp(loss.log_probability(np.array([score])))[0] == pytest.approx(probability, rel=1e-12)


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss(), SoftmaxLoss(3)])
def test_weights_of_rows_multiply_all_of_a_loss(loss):
    """Value, slopes and curvature, and so they bring them nearer to 0."""
    rng, weights = np.random.default_rng(0), np.array([0.0, 0.3, 1.0])
    scores, change = rng.normal(size=(2, 3, 3) if isinstance(loss, SoftmaxLoss) else (2, 3))
    y = np.array([0, 1, 2]) if isinstance(loss, SoftmaxLoss) else np.array([1.0, -1.0, 1.0])
    weighted = WeightedLoss(loss, weights)
    for of_rows in (lambda one: one.value(y, scores), lambda one: one.gradient(y, scores)):
        np.testing.assert_allclose(of_rows(weighted).T, weights * of_rows(loss).T)
    np.testing.assert_allclose(weighted.hessian(y, scores)(change).T, weights * loss.hessian(y, scores)(change).T)


def test_huber_hinge_is_the_hinge_away_from_its_kink():
    """Within h of the kink it is the parabola that joins both ends."""
    h, z = 0.1, np.array([-1.0, 0.9, 0.95, 1.0, 1.1, 2.0])
    parabola = (1 - z) ** 2 / (4 * h) + (1 - z) / 2 + h / 4
    expected = np.where(z <= 1 - h, 1 - z, np.where(z >= 1 + h, 0.0, parabola))
    np.testing.assert_allclose(HuberHingeLoss(h).value(np.ones(6), z), expected, atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_softmax_derivatives(n_classes):
    """Gradient and second derivative are those of the value, by central differences."""
    rng, loss, step = np.random.default_rng(0), SoftmaxLoss(n_classes), 1e-5
    scores, change = rng.normal(size=(2, 50, n_classes))
    y = rng.integers(n_classes, size=50)
    ahead, behind = scores + step * change, scores - step * change
    slope = (loss.value(y, ahead) - loss.value(y, behind)) / (2 * step)
    np.testing.assert_allclose((loss.gradient(y, scores) * change).sum(axis=1), slope, atol=1e-9)
    curvature = (loss.gradient(y, ahead) - loss.gradient(y, behind)) / (2 * step)
    np.testing.assert_allclose(loss.hessian(y, scores)(change), curvature, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_softmax_bounds_hold_and_are_attained(n_classes):
    """The gradient is sqrt(2) long at a sure error; the trace is largest at equal scores, the eigenvalue at two."""
    loss = SoftmaxLoss(n_classes)
    scores = np.zeros((3, n_classes))
    scores[1, 0] = 800.0
    scores[2, 2:] = -800.0
    norms = np.linalg.norm(loss.gradient(np.array([1, 1, 1]), scores), axis=1)
    assert norms.max() == norms[1] == pytest.approx(loss.lipschitz)
    unit = np.eye(n_classes)
    multiply = loss.hessian(np.array([1, 1, 1]), scores)
    hessians = np.stack([multiply(np.tile(row, (3, 1))) for row in unit], axis=1)
    assert np.trace(hessians[0]) == pytest.approx(loss.hessian_trace)
    assert np.linalg.matrix_rank(hessians[0], tol=1e-9) == loss.hessian_rank
    assert np.linalg.eigvalsh(hessians[2]).max() == pytest.approx(loss.smoothness)


def test_losses_stay_finite():
    """Scores of any size give finite losses and gradients."""
    y, scores = np.array([1.0, -1.0]), np.array([-1e300, -1e300])
    for loss in (LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss()):
        assert np.all(np.isfinite(loss.value(y, scores)))
        assert np.all(np.isfinite(loss.gradient(y, scores)))


def exact_gradient(loss, y, score):
    """Derivative of the loss of one row by its scores, in many digits."""
    scores = [mpmath.mpf(one) for one in np.atleast_1d(score).tolist()]
    if isinstance(loss, SoftmaxLoss):
        powers = [mpmath.exp(one - max(scores)) for one in scores]
        return [one / mpmath.fsum(powers) - (k == y) for k, one in enumerate(powers)]
    margin = mpmath.mpf(y) * scores[0]
    if isinstance(loss, HuberHingeLoss):
        h = mpmath.mpf(loss.h)
        return [-y * min(max((1 + h - margin) / (2 * h), 0), 1)]
    return [-y / (1 + mpmath.exp(max(margin, 0) if isinstance(loss, CappedLogisticLoss) else margin))]


@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss(), *map(SoftmaxLoss, (3, 30))])
def test_rounding_of_derivatives_is_a_third_of_what_the_solver_counts_for_it(loss):
    """It counts (K + 17) u, u = 2^-53, see `Problem.gradient_error`."""
    draws, n_classes = np.random.default_rng(0), getattr(loss, "n_classes", None)
    size, n_counted = (400 if n_classes is None else (100, n_classes)), (n_classes or 2) + 17
    with mpmath.workdps(40):
        for spread in (1e-3, 1.0, 10.0, 100.0):
            scores = draws.normal(0, spread, size)
            y = draws.choice([-1.0, 1.0], size) if n_classes is None else draws.integers(0, n_classes, size[0])
            for found, label, score in zip(loss.gradient(y, scores), y, scores, strict=True):
                of_row = zip(np.atleast_1d(found).tolist(), exact_gradient(loss, label, score), strict=True)
                error = mpmath.sqrt(mpmath.fsum((one - exact) ** 2 for one, exact in of_row))
                assert error <= n_counted * mpmath.mpf(2) ** -53 / 3
