"""A fully connected network: its scores, and sums of clipped gradients that no single gradient is formed for."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_softmax
from sklearn.utils.extmath import row_norms

from .. import _noise
from ..losses import CappedLogisticLoss, LogisticLoss, SoftmaxLoss

FLOAT32_ROWS = 64  # summed in float32 at a time: more round off more, fewer take longer


# The function, in place, and its derivative as a function of its value.
ACTIVATIONS = {
    "relu": (lambda z: np.maximum(z, 0.0, out=z), lambda a: a > 0),
    "tanh": (lambda z: np.tanh(z, out=z), lambda a: 1 - a * a),
    "logistic": (lambda z: expit(z, out=z), lambda a: a * (1 - a)),
}


@dataclass(frozen=True)
class Network:
    """Layers of weights, each with a constant feature `bias`, and a logistic or softmax loss at the end.

    `sizes` are the widths: of the rows, of the hidden layers, and of the scores (one score for two classes). If it is
    `capped`, no derivative of a row's loss by its scores is longer than at scores of zero.
    """

    sizes: tuple[int, ...]
    activation: str
    bias: float
    capped: bool = False

    @property
    def shapes(self):
        """Shape of each layer's weights; the last row has those of the constant feature."""
        return [(n + 1, m) for n, m in pairwise(self.sizes)]

    @property
    def n_weights(self):
        """Number of all weights."""
        return sum(n * m for n, m in self.shapes)

    @property
    def lipschitz(self):
        """Largest norm of the derivative of one row's loss by its scores.

        That of the softmax loss is ``p - e_y``, with p the probabilities and e_y the unit vector of the label. Its norm
        tends to sqrt(2) where p puts all on another class; its entries add up to 0 as it is, so that leaving out the
        mean of the scores leaves its norm. It is ``sqrt(1 - 1 / K)`` where all K classes are as likely, to which a
        capped one is clipped; for the one score of two classes these are 1 and 1/2.
        """
        n_scores = self.sizes[-1]
        if n_scores == 1:
            return 0.5 if self.capped else float(LogisticLoss.lipschitz)
        return float(np.sqrt(1 - 1 / n_scores)) if self.capped else float(SoftmaxLoss.lipschitz)

    def layers(self, weights):
        """Views of a vector of all weights, one matrix for each layer."""
        ends = np.cumsum([n * m for n, m in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(weights, ends[:-1]), self.shapes, strict=True)]

    def initial_weights(self):
        """Zeros for a linear model, otherwise random weights that keep the size of what passes through them."""
        weights = np.zeros(self.n_weights)
        if len(self.sizes) == 2:
            return weights
        for layer in self.layers(weights):
            layer[:-1] = _noise.draw_gaussian(layer[:-1].shape, np.sqrt(1.0 / (len(layer) - 1)))
        return weights

    def forward(self, layers, X):
        """Outputs of all layers, the rows themselves first and their scores last."""
        apply, _ = ACTIVATIONS[self.activation]
        outputs = [X]
        for layer in layers:
            z = row_products(outputs[-1], layer[:-1])
            z += self.bias * layer[-1]
            outputs.append(apply(z) if layer is not layers[-1] else z)
        return outputs

    def backward(self, layers, outputs, gradient):
        """Derivatives of each row's loss by the sums of all layers, from the one by the scores."""
        _, derivative = ACTIVATIONS[self.activation]
        deltas = [gradient]
        for layer, output in zip(layers[:0:-1], outputs[-2:0:-1], strict=True):
            delta = row_products(deltas[0], layer[:-1].T)
            delta *= derivative(output)
            deltas.insert(0, delta)
        return deltas

    def loss_gradient(self, codes, scores):
        """Derivative of each row's loss by its scores, computed in float64.

        Capped, a row that is on the wrong side pulls no harder than one at score 0: by 1/2, of two classes.
        """
        scores = scores.astype(np.float64, copy=False)  # few numbers, whose exponentials float32 rounds off
        if scores.shape[1] == 1:
            loss = CappedLogisticLoss() if self.capped else LogisticLoss()
            return loss.gradient(2.0 * codes - 1.0, scores[:, 0])[:, None]
        gradient = SoftmaxLoss(scores.shape[1]).gradient(codes, scores)
        if self.capped:
            gradient *= clip_factors(row_norms(gradient, squared=True), self.lipschitz)[:, None]
        return gradient


def score(activation, layers, X):
    """Scores of rows, given weights and intercepts of each layer."""
    apply, _ = ACTIVATIONS[activation]
    *hidden, (coef, intercept) = layers
    for inner_coef, inner_intercept in hidden:
        X = apply(X @ inner_coef + inner_intercept)
    return X @ coef + intercept


def capped_log_probabilities(scores):
    """Logarithms of the probabilities of all K classes, from the scores of a capped model, for K above 2.

    Clipping a derivative holds back the rows that a score gets most wrong, so that the softmax p of the scores is not
    how frequent the classes are. Among rows of equal features let class y have the share q_y. Descent stays where
    ``sum_y q_y f_y (p - e_y) = 0`` with the factors ``f_y = min(1, c / |p - e_y|)`` and ``c = sqrt(1 - 1 / K)``, that
    is where ``q_y f_y`` is in proportion to p_y: so q_y is in proportion to ``p_y max(1, |p - e_y| / c)``. Of two
    classes it is what :class:`~skdprp.losses.CappedLogisticLoss` says. The likeliest class has ``f_y = 1``, as
    ``|p - e_y|^2 = |p|^2 + 1 - 2 p_y <= 1 - p_y``.
    """
    log_p = log_softmax(scores, axis=1)
    p = np.exp(log_p)
    squared_norms = (1 - p) ** 2 + np.maximum(row_norms(p, squared=True)[:, None] - p**2, 0.0)
    return log_softmax(log_p + np.log(np.maximum(squared_norms / (1 - 1 / p.shape[1]), 1.0)) / 2, axis=1)


def squared_gradient_norms(network, outputs, deltas):
    """Squared norm of each row's gradient by all weights: that of an outer product is the product of the norms.

    `outputs` went into each layer, `deltas` are the derivatives by its sums. Goodfellow, arXiv:1510.01799.
    """
    pairs = zip(outputs, deltas, strict=True)
    return sum((_squared_norms(a) + network.bias**2) * _squared_norms(d) for a, d in pairs)


def _squared_norms(rows):
    """In float64, where squares of float32 are exact and do not vanish."""
    return row_norms(rows.astype(np.float64, copy=False), squared=True)


def clip_factors(squared_norms, bound):
    """Factors that clip vectors to a norm of at most `bound`; 0 for those whose norm is no finite number."""
    factors = bound / np.sqrt(np.maximum(squared_norms, bound**2))
    return np.where(np.isfinite(squared_norms), factors, 0.0)


def add_clipped_gradients(total, network, weights, block, bound, dtype=np.float64):
    """Add the clipped gradients of a block of rows, times their weights, to `total`, in place.

    Gradients are computed in the precision of the rows, their norms in float64; products with dense rows are summed in
    `dtype`. A row whose gradient overflows adds nothing.
    """
    precision = block.X.dtype
    with np.errstate(all="ignore"):  # a warning would tell of a row
        layers = network.layers(weights.astype(precision, copy=False))
        outputs = network.forward(layers, block.X)
        gradient = network.loss_gradient(block.codes, outputs[-1]).astype(precision, copy=False)
        deltas = network.backward(layers, outputs, gradient)
        factors = clip_factors(squared_gradient_norms(network, outputs[:-1], deltas), bound)
    factors *= block.weights  # of 0 for rows of zeros that fill up the block, which have gradients too
    dropped = np.flatnonzero(factors == 0.0)
    for array in outputs[1:-1] + deltas if dropped.size else []:
        array[dropped] = 0.0  # 0 times what may be no finite number is not 0
    for layer, output, delta in zip(network.layers(total), outputs[:-1], deltas, strict=True):
        clipped = delta * factors[:, None]
        layer[-1] += network.bias * clipped.sum(axis=0)
        kind = np.float64 if sp.issparse(output) else dtype
        clipped, size = clipped.astype(kind, copy=False), len(clipped) if kind == np.float64 else FLOAT32_ROWS
        for start in range(0, len(clipped), size):
            rows = slice(start, start + size)
            layer[:-1] += output[rows].T @ clipped[rows]


def add_gradients(total, network, weights, block):
    """Add the gradients of rows of bounded norm to `total`, in place: of a capped model, none of which is clipped.

    How a row is rounded depends on where it lies; :func:`~skdprp.neural_network._plan.bounded_margin` prices it.
    """
    layer, added = (array.reshape(-1, network.sizes[-1]) for array in (weights, total))
    scores = block.X @ layer[:-1]
    scores += network.bias * layer[-1]
    change = network.loss_gradient(block.codes, scores)
    if block.weights is not None:
        change *= block.weights[:, None]
    added[:-1] += block.transposed @ change
    added[-1] += network.bias * change.sum(axis=0)


# Products of rows that round a row in one way, wherever it lies among the others. Linear algebra libraries sum the
# products of some rows of a block in another order than those of the others: the last ones, or those at which a thread
# ends. Another row at one place must not move how the others are rounded, for where rounding decides whether a
# rectified unit is on, their gradients jump by their whole length: no sensitivity could price that. Trials of the
# library's own products stay: an order fixed by construction, row by row, takes about five times as long.

_TRIED = 100  # numbers in the products of a row, besides five rows
_LINE = 64  # bytes: where a row starts in a line of memory may decide how it is summed


def row_products(X, W):
    """Multiply rows by a matrix, each row as if it were alone.

    By one product of matrices where trials of the same shapes rounded equal rows alike, otherwise row by row.
    """
    # scipy multiplies sparse rows one by one, in the order of their entries.
    if sp.issparse(X) or _rounds_rows_alike(X.shape, W.shape[1], X.dtype, W.flags.c_contiguous):
        return X @ W
    return np.matmul(_aligned(X)[:, None, :], W)[:, 0]


def forget_trials():
    """Forget how products were rounded: another number of threads may round them in another way."""
    _rounds_rows_alike.cache_clear()


@lru_cache
def _rounds_rows_alike(shape, width, dtype, in_rows):
    """Whether a product of matrices gives equal rows equal results; tried with sums that show their order."""
    if width == 1:  # one number shows little, and its rounding may depend on where the row lies in memory
        return False
    for trial in range(1, 6 + _TRIED // width):
        W = _numbers_of_many_sizes(shape[1] * width, 0.7 * trial).reshape(-1, width)
        row = _numbers_of_many_sizes(shape[1], trial).astype(dtype)
        products = np.tile(row, (shape[0], 1)) @ np.asarray(W, dtype, order="C" if in_rows else "F")
        if (products != products[0]).any():
            return False
    return True


def _numbers_of_many_sizes(size, frequency):
    """Numbers whose sums in two orders are rounded in two ways."""
    places = np.arange(size)
    return np.cos(frequency * places) * np.exp2(7.0 * places % 19 - 9)


def _aligned(X):
    """Copy of rows that all start at the beginning of a line of memory."""
    per_row = -(-X.shape[1] * X.itemsize // _LINE) * _LINE
    memory = np.empty(len(X) * per_row + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    lines = memory[start : start + len(X) * per_row].view(X.dtype).reshape(len(X), -1)[:, : X.shape[1]]
    lines[:] = X
    return lines
