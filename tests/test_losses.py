"""The losses, their derivatives, and the bounds that the guarantees are made of."""

import numpy as np
import pytest

from skdprp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss

SCORES = np.linspace(-5, 5, 4001) + 1e-4


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHingeLoss(), HuberHingeLoss(0.5)])
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


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHingeLoss(), HuberHingeLoss(0.5)])
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
    for loss in (LogisticLoss(), HuberHingeLoss()):
        assert np.all(np.isfinite(loss.value(y, scores)))
        assert np.all(np.isfinite(loss.gradient(y, scores)))
