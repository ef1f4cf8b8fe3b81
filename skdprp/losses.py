"""Convex losses of a linear score, with the bounds on their derivatives that sensitivities are made of.

A loss is a function of a label and a score; every method works on all rows at once, on arrays of shape (n_samples,), or
(n_samples, n_classes) for the scores of the softmax. The bounds hold for rows of unit norm: for rows of norm R,
gradients scale with R and second derivatives with R**2.
"""

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logit, softmax

from ._digits import to_python

__all__ = ["CappedLogisticLoss", "HuberHingeLoss", "LogisticLoss", "SoftmaxLoss", "WeightedLoss"]


class LogisticLoss:
    """Logistic loss of a label of -1 or +1, ``log(1 + exp(-y score))``.

    Attributes
    ----------
    lipschitz : float
        Largest norm of the derivative by the score.
    smoothness : float
        Largest second derivative.
    hessian_rank, hessian_trace : int, float
        Bounds on the rank and the trace of the second derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.losses import LogisticLoss
    >>> LogisticLoss().gradient(np.array([-1.0, 1.0]), np.zeros(2))
    array([ 0.5, -0.5])
    """

    lipschitz = 1.0
    smoothness = 0.25
    hessian_rank = 1
    hessian_trace = 0.25

    def value(self, y, score):
        """Loss of each row."""
        margin = y * score
        # exp of what is at most 0 does not overflow, and log1p keeps the digits of a small loss.
        return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)

    def gradient(self, y, score):
        """Derivative of the loss of each row by its score; its sign is that of ``-y``."""
        return -y * expit(-y * score)

    def hessian(self, y, score):
        """Second derivative of the loss of each row, as a function that multiplies a change of the scores by it."""
        probability = expit(score)
        curvature = probability * (1.0 - probability)
        return lambda change: curvature * change

    def log_probability(self, score):
        """Logarithm of the probability of the label +1 at which this score has the least expected loss."""
        return log_expit(score)

    def score_of(self, probability):
        """Score that says this probability of the label +1."""
        return float(logit(probability))


class CappedLogisticLoss:
    """Logistic loss of a label of -1 or +1 whose slope stops growing at the wrong side, where a row is pulled by 1/2.

    With the margin z = y score it is ``log(1 + exp(-z))`` for z >= 0 and its tangent ``log(2) - z / 2`` below. Rows
    pull half as hard as under the logistic loss at most, and just as hard where the weights are 0.

    Attributes
    ----------
    lipschitz : float
        Largest norm of the derivative by the score, 1 / 2.
    smoothness : float
        Largest second derivative, 1 / 4; it jumps to 0 at z = 0, where it is taken from the right.
    hessian_rank, hessian_trace : int, float
        Bounds on the rank and the trace of the second derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.losses import CappedLogisticLoss
    >>> CappedLogisticLoss().gradient(np.ones(3), np.array([-4.0, 0.0, 4.0])).round(3)
    array([-0.5  , -0.5  , -0.018])
    """

    lipschitz = 0.5
    smoothness = 0.25
    hessian_rank = 1
    hessian_trace = 0.25

    def value(self, y, score):
        """Loss of each row."""
        margin = y * score
        return np.log1p(np.exp(-np.maximum(margin, 0.0))) + np.maximum(-margin, 0.0) / 2

    def gradient(self, y, score):
        """Derivative of the loss of each row by its score; its sign is that of ``-y``."""
        return -y * expit(-np.maximum(y * score, 0.0))

    def hessian(self, y, score):
        """Second derivative of the loss of each row, as a function that multiplies a change of the scores by it."""
        margin = y * score
        slope = expit(-margin)
        curvature = np.where(margin >= 0, slope * (1.0 - slope), 0.0)
        return lambda change: curvature * change

    def log_probability(self, score):
        """Logarithm of the probability of the label +1 at which this score has the least expected loss.

        If +1 has probability q, the expected loss ``q loss(score) + (1 - q) loss(-score)`` has the derivative
        ``(1 - q) p - q / 2`` at scores of at most 0, with ``p = 1 / (1 + exp(-score))``. This is 0 at
        ``q = 2 p / (1 + 2 p) = 2 / (3 + exp(-score))``, at most 1/2. Above 0 it is the same for the other label.
        """
        log_rarer = np.log(2.0) - np.logaddexp(np.log(3.0), np.abs(score))
        return np.where(score < 0, log_rarer, np.log1p(-np.exp(log_rarer)))

    def score_of(self, probability):
        """Score that says this probability of the label +1."""
        # The inverse of `log_probability`: its rarer label has 2 / (3 + exp(size)).
        size = float(np.log(2.0 / min(probability, 1 - probability) - 3.0))
        return -size if probability < 0.5 else size


class HuberHingeLoss:
    """Hinge loss of a label of -1 or +1, rounded off by a parabola within `h` of its kink.

    With the margin z = y score it is 0 for z > 1 + h, ``1 - z`` for z < 1 - h and ``(1 + h - z)**2 / (4 h)`` between.

    Parameters
    ----------
    h : float, default=0.1
        Half the width of the parabola.

    Attributes
    ----------
    lipschitz : float
        Largest norm of the derivative by the score.
    smoothness : float
        Largest second derivative, ``1 / (2 h)``.
    hessian_rank, hessian_trace : int, float
        Bounds on the rank and the trace of the second derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.losses import HuberHingeLoss
    >>> HuberHingeLoss().value(np.ones(3), np.array([0.0, 1.0, 2.0])).round(3)
    array([1.   , 0.025, 0.   ])
    """

    lipschitz = 1.0
    hessian_rank = 1

    def __init__(self, h=0.1):
        self.h = to_python(h)
        self.smoothness = self.hessian_trace = 1 / (2 * self.h)

    def value(self, y, score):
        """Loss of each row."""
        shortfall = 1 + self.h - y * score  # of the margin, to where the loss is 0
        within = np.clip(shortfall, 0.0, 2 * self.h)
        return within**2 / (4 * self.h) + (np.maximum(shortfall, 2 * self.h) - 2 * self.h)

    def gradient(self, y, score):
        """Derivative of the loss of each row by its score; its sign is that of ``-y``, or 0."""
        return -y * np.clip((1 + self.h - y * score) / (2 * self.h), 0.0, 1.0)

    def hessian(self, y, score):
        """Second derivative of the loss of each row, as a function that multiplies a change of the scores by it."""
        curvature = np.where(np.abs(1 - y * score) < self.h, self.smoothness, 0.0)
        return lambda change: curvature * change


class SoftmaxLoss:
    """Multinomial logistic loss of a label from 0 to K - 1, ``log(sum_k exp(score_k)) - score_y``.

    Parameters
    ----------
    n_classes : int
        Number K of classes.

    Attributes
    ----------
    lipschitz : float
        Largest l2 norm of the gradient by the K scores, sqrt(2).
    smoothness : float
        Largest eigenvalue of the second derivative, 1 / 2.
    hessian_rank, hessian_trace : int, float
        Bounds on the rank and the trace of the second derivative, ``K - 1`` and ``1 - 1 / K``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.losses import SoftmaxLoss
    >>> SoftmaxLoss(4).gradient(np.array([2]), np.zeros((1, 4)))
    array([[ 0.25,  0.25, -0.75,  0.25]])
    """

    lipschitz = np.sqrt(2.0)
    smoothness = 0.5

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.hessian_rank = n_classes - 1
        self.hessian_trace = 1 - 1 / n_classes

    def value(self, y, score):
        """Loss of each row."""
        return -log_softmax(score, axis=1)[np.arange(len(y)), y]  # several times as fast as logsumexp

    def gradient(self, y, score):
        """Gradient of the loss of each row by its scores: the probabilities, less one for the label."""
        gradient = softmax(score, axis=1)
        gradient[np.arange(len(y)), y] -= 1.0
        return gradient

    def hessian(self, y, score):
        """Second derivative of the loss of each row, as a function that multiplies a change of the scores by it."""
        probability = softmax(score, axis=1)

        def _multiply(change):
            weighted = probability * change
            return weighted - probability * weighted.sum(axis=1, keepdims=True)

        return _multiply


class WeightedLoss:
    """A loss in which each row has a weight between 0 and 1.

    Its bounds are those of the loss. A weight w brings each derivative of a row's loss between 0 and what it was: for a
    score, slopes between -L and 0 to slopes between -w L and 0, and the second derivative to w times it. So all that is
    said of gradients between 0 and an extreme one holds as it is, also where the two rows of a replacement have two
    weights; and so does what is said of rank, trace and determinant of second derivatives.

    Parameters
    ----------
    loss : LogisticLoss, CappedLogisticLoss, HuberHingeLoss or SoftmaxLoss
        Loss of a row of weight 1.
    weights : ndarray of shape (n_samples,)
        Weights of the rows, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.losses import LogisticLoss, WeightedLoss
    >>> WeightedLoss(LogisticLoss(), np.array([1.0, 0.1])).gradient(np.array([-1.0, 1.0]), np.zeros(2))
    array([ 0.5 , -0.05])
    """

    def __init__(self, loss, weights):
        self.loss, self.weights = loss, weights

    def _of_scores(self, values):
        """Multiply values of each row, of one score or of several, by its weight."""
        return values * (self.weights if values.ndim == 1 else self.weights[:, None])

    def value(self, y, score):
        """Loss of each row."""
        return self._of_scores(self.loss.value(y, score))

    def gradient(self, y, score):
        """Derivative of the loss of each row by its scores."""
        return self._of_scores(self.loss.gradient(y, score))

    def hessian(self, y, score):
        """Second derivative of the loss of each row, as a function that multiplies a change of the scores by it."""
        multiply = self.loss.hessian(y, score)
        return lambda change: self._of_scores(multiply(change))
