"""A private Gram matrix of the rows, and steps of descent that it preconditions."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches

from .._adjacency import Relation
from .._persons import roots
from .._rows import scale_rows
from .._sums import CompensatedSum, products
from ..linear_model._passes import StreamedRows
from ..moments import Columns, GaussianNoise, rounding_of_moments, rows_per_product

_CURVATURE = 0.25  # of the logistic loss, at most; half of that of the softmax loss
_SHARE = 0.2  # of mu^2, for the Gram matrix, where a row counts or is blank


@dataclass(frozen=True)
class Preconditioner:
    """Noise of the sum of products ``sum u u'`` of rows u of norm 1 at most, and the curvature `floor` added to it.

    Its standard deviation is `scale` on the diagonal, and ``scale / sqrt(2)`` beside it.
    """

    scale: float
    floor: float


def relative_scales(adjacency, n_steps):
    """Scales of a Gram matrix of rows of norm 1 and of each of T sums of gradients of norm 1, together as one release.

    They are in units of the scale that hides a move by 1.

    Notes
    -----
    Where a row counts or is blank, the squares of moves over scales add up to 1; where one is replaced, the steps have
    all of the budget, and the matrix is free. The proof is in the notes of :class:`~skdprp.DPSGDClassifier`.

    A person, the weights of whose rows add up to 1 at most, moves all of them together no further than a row does, see
    :func:`~skdprp.sensitivity.moments_sensitivity`.
    """
    if adjacency == Relation.REPLACE_ONE:
        return float(np.sqrt(8.0)), float(2 * np.sqrt(n_steps))
    return float(np.sqrt(1 / _SHARE)), float(np.sqrt(n_steps / (1 - _SHARE)))


def least_floor(scale, n_weights):
    """What noise of this scale adds to the curvature: the largest eigenvalue of a symmetric matrix of it."""
    return float(_CURVATURE * 2 * np.sqrt(n_weights) * scale)


def rounding_of_gram(network, n_samples):
    """Bound on what rounding does to the Gram matrix of rows and constant of norm 1."""
    return rounding_of_moments(n_samples, _columns(network))


def _columns(network):
    """Columns of the products, by their number alone: the constant is `network.bias` over the norm of rows."""
    return Columns(network.sizes[0], 1.0, intercept=True)


def release_preconditioner(update, preconditioner, problem, X, row_weights=None):
    """Release the Gram matrix of the rows with noise; return `update` of the mean gradients that it preconditions.

    The Gram matrix A bounds the curvature of a sum of logistic losses by A / 4. Noise makes its eigenvalues of any
    sign: those below zero are none, and the floor is more than the noise by itself makes. The step on a sum of
    gradients is ``(A / 4 + floor)^-1``, for each class alike, so that directions of different curvature are learnt in
    as many steps; where the floor is all that counts, steps are those of plain descent.
    """
    network = problem.network
    sums = X.sum(_products) if isinstance(X, StreamedRows) else _sum(X, network, row_weights)
    weights = np.append(np.ones(network.sizes[0]), network.bias) / problem.row_norm
    gram = GaussianNoise(preconditioner.scale).release(sums * np.outer(weights, weights))
    values, vectors = np.linalg.eigh(gram)
    curvature = _CURVATURE * np.maximum(values, 0.0) + preconditioner.floor
    inverse = (vectors / curvature) @ vectors.T * (problem.n_samples / problem.row_norm**2)
    return lambda gradient: update((inverse @ gradient.reshape(len(inverse), -1)).ravel())


def _sum(X, network, row_weights):
    """Sum the products of all columns of rows in memory, with their weights."""
    total, factors = CompensatedSum(), None if row_weights is None else roots(row_weights)
    for rows in gen_batches(X.shape[0], rows_per_product(_columns(network))):
        part, ones = X[rows], np.ones((rows.stop - rows.start, 1))
        if factors is not None:
            part = part.copy()  # what leaves a slice of an array is a view of it
            scale_rows(part, factors[rows])
            scale_rows(ones, factors[rows])
        total.add(products(part, ones))
    return total.value


def _products(X, codes, row_weights):
    """Sum the products of a block of rows, of all classes alike; `rounding_of_gram` counts such blocks."""
    return products(X, np.ones((X.shape[0], 1)))
