"""The steps of noisy gradient descent, on blocks of one shape: all rows, or a secret sample of them."""

from dataclasses import dataclass
from functools import partial
from itertools import repeat

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from .. import _noise
from .._adjacency import Unit
from .._sums import CompensatedSum
from ..linear_model._passes import StreamedRows, block_rows
from ._network import add_clipped_gradients, add_gradients, forget_trials

LARGEST_SCORE = 2.0**12  # up to which the rounding of scores is priced; weights are projected to it
LARGEST_PADDED_BLOCK, _LARGE_BLOCK, _SMALLEST_BLOCK = 1024, 256, 32  # the first where there are many of them


@dataclass(frozen=True)
class PaddedBlock:
    """Some rows, their classes and weights, filled up with zeros to a fixed number; `n_rows` are rows of the data."""

    X: np.ndarray | sp.csr_array
    codes: np.ndarray
    n_rows: int
    weights: np.ndarray


def block_size(batch_size):
    """Rows of a block, from the expected number of rows of a batch."""
    if batch_size > 2 * LARGEST_PADDED_BLOCK:
        return LARGEST_PADDED_BLOCK
    return int(np.clip(2 ** np.ceil(np.log2(batch_size)), _SMALLEST_BLOCK, _LARGE_BLOCK))


def padded_blocks(X, codes, size, rows=None, row_weights=None):
    """Cut all rows, or those with indices `rows`, into blocks of one shape; without weights each weighs 1.

    So the arithmetic of a row is the same wherever it lies: no other row decides how its gradient is rounded.
    """
    n_rows = X.shape[0] if rows is None else len(rows)
    for start in range(0, n_rows, size):  # none for a sample without rows, which gen_batches refuses
        chosen = slice(start, min(start + size, n_rows))
        chosen = chosen if rows is None else rows[chosen]
        block, part = X[chosen], codes[chosen]
        weights = np.ones(len(part)) if row_weights is None else row_weights[chosen]
        padding = 0, size - len(part)
        if padding[1] and sp.issparse(X):
            indptr = np.pad(block.indptr, padding, mode="edge")
            block = sp.csr_array((block.data, block.indices, indptr), shape=(size, X.shape[1]))
        elif padding[1]:
            filled = np.zeros((size, X.shape[1]), X.dtype)
            filled[: len(part)] = block
            block = filled
        yield PaddedBlock(block, np.pad(part, padding), len(part), np.pad(weights, padding))


@dataclass(frozen=True)
class BoundedBlock:
    """Some rows of bounded norm, their classes, their weights or None, and the transpose of the rows."""

    X: np.ndarray | sp.csr_array
    codes: np.ndarray
    weights: np.ndarray | None
    transposed: np.ndarray | sp.csc_array | sp.csr_array


def bounded_blocks(X, codes, row_weights=None, *, n_scores):
    """Cut all rows into blocks that fit the cache, where rounding is priced wherever a row lies."""
    for rows in gen_batches(X.shape[0], block_rows(X.shape[1], n_scores)):
        part = X[rows]
        # The transpose of CSR is CSC, whose products with many columns are slower than those of CSR.
        is_slow = sp.issparse(part) and n_scores > 1
        weights = None if row_weights is None else row_weights[rows]
        yield BoundedBlock(part, codes[rows], weights, part.T.tocsr() if is_slow else part.T)


def batches(X, codes, row_weights=None, *, rate, n_steps, persons=None):
    """Rows of each step: all of them, or those of a fresh Poisson sample of rows or of persons, which is secret."""
    number = X.shape[0] if persons is None else persons.number
    size = block_size(rate * number)
    known = {"row_weights": row_weights}
    whole = list(padded_blocks(X, codes, size, **known)) if rate == 1.0 else None  # cut once, for every step
    for _ in range(n_steps):
        if rate == 1.0:
            yield whole
            continue
        sample = _noise.poisson_sample(number, rate)
        yield padded_blocks(X, codes, size, sample if persons is None else persons.rows_of(sample), **known)


def noisy_descent(problem, descent, X, codes, row_weights=None, *, persons=None, update, add_noise):
    """Descend, each step from a noisy sum of clipped gradients; yield the weights after each.

    Since the last noise they are computed from noisy sums alone. `update` takes a noisy mean gradient, and returns what
    is taken off the weights. The weights of the rows of each of some persons add up to 1 at most. `StreamedRows` have
    codes and weights of their own.
    """
    plan, network, rounding = descent.plan, problem.network, descent.rounding
    if isinstance(X, StreamedRows):
        parts = repeat(X, plan.n_steps)
    elif rounding.in_any_order:
        add = add_gradients
        parts = repeat(list(bounded_blocks(X, codes, row_weights, n_scores=network.sizes[-1])), plan.n_steps)
    else:
        forget_trials()  # the number of threads may be another than at the last fit
        add = partial(add_clipped_gradients, bound=problem.bound, dtype=rounding.dtype)
        parts = batches(X, codes, row_weights, rate=plan.rate, n_steps=plan.n_steps, persons=persons)
    weights = network.initial_weights()
    for batch in parts:
        if isinstance(X, StreamedRows):
            gradient = batch.sum(partial(_gradients, network=network, weights=weights))
        else:
            gradient = _sum_up(partial(add, network=network, weights=weights), batch, len(weights), problem.unit)
        add_noise(gradient, descent.scale)  # once for each step: all that follows sees noisy sums alone
        gradient /= plan.batch_size  # as expected: the size of a sample is secret
        weights = weights - update(gradient)
        if rounding.in_any_order:
            weights = _projected(weights, LARGEST_SCORE / problem.row_norm)
        yield weights


def _gradients(X, codes, row_weights, *, network, weights):
    """Sum of the gradients of a block of rows."""
    total = np.zeros(len(weights))
    add_gradients(total, network, weights, BoundedBlock(X, codes, row_weights, X.T))
    return total


def _sum_up(add, batch, n_weights, unit):
    """Sum the gradients of all blocks; of persons without rounding that grows with the number of their rows."""
    gradient = np.zeros(n_weights)
    if unit == Unit.ROW:
        for block in batch:
            add(gradient, block=block)
        return gradient
    total = CompensatedSum()
    total.add(gradient)  # a sample may have no rows
    for block in batch:
        part = np.zeros(n_weights)
        add(part, block=block)
        total.add(part)
    return total.value


def _projected(weights, largest_norm):
    """Clip weights to a norm; after an overflow begin anew, for products with infinity tell what rows store."""
    norm = np.linalg.norm(weights)
    return weights * min(1.0, largest_norm / norm) if 0 < norm < np.inf else np.zeros_like(weights)


def _plain(learning_rate, momentum):
    """Take off a multiple of the gradient, and a share of what was taken off last."""
    move = 0.0

    def _update(gradient):
        nonlocal move
        move = momentum * move + learning_rate * gradient
        return move

    return _update


def _adam(learning_rate, decay=0.9, square_decay=0.999):
    """Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, Algorithm 1."""
    mean, mean_square, n_steps = 0.0, 0.0, 0

    def _update(gradient):
        nonlocal mean, mean_square, n_steps
        n_steps += 1
        mean = decay * mean + (1 - decay) * gradient
        mean_square = square_decay * mean_square + (1 - square_decay) * gradient**2
        deviation = np.sqrt(mean_square / (1 - square_decay**n_steps))
        return learning_rate * mean / (1 - decay**n_steps) / (deviation + 1e-8)

    return _update


UPDATES = {"sgd": _plain, "adam": _adam}
