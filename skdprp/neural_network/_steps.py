"""The steps of noisy gradient descent, on blocks of one shape: all rows, or a secret sample of them."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .. import _noise
from ._network import add_clipped_gradients, try_products_again

_LARGEST_BLOCK, _LARGE_BLOCK, _SMALLEST_BLOCK = 1024, 256, 32


@dataclass(frozen=True)
class Block:
    """Some rows and their classes, filled up with zeros to a fixed number.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (block_size, n_features)
        Rows.
    codes : ndarray of int of shape (block_size,)
        Their classes.
    n_rows : int
        How many of them are rows of the data.
    """

    X: np.ndarray | sp.csr_array
    codes: np.ndarray
    n_rows: int


def block_size(batch_size):
    """Rows of a block, from the expected number of rows of a batch.

    Parameters
    ----------
    batch_size : float
        Expected number.

    Returns
    -------
    int
    """
    if batch_size > 2 * _LARGEST_BLOCK:
        return _LARGEST_BLOCK
    return int(np.clip(2 ** np.ceil(np.log2(batch_size)), _SMALLEST_BLOCK, _LARGE_BLOCK))


def blocks(X, codes, size, rows=None):
    """Cut rows into blocks of one shape, so that the arithmetic of a row is the same wherever it lies.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.
    codes : ndarray of int of shape (n_samples,)
        Their classes.
    size : int
        Rows of a block.
    rows : ndarray of int or None, default=None
        Which rows; None for all.

    Yields
    ------
    Block
    """
    n_rows = X.shape[0] if rows is None else len(rows)
    for start in range(0, n_rows, size):
        chosen = slice(start, min(start + size, n_rows))
        chosen = chosen if rows is None else rows[chosen]
        part = codes[chosen]
        yield Block(_fill_up(X[chosen], size), np.pad(part, (0, size - len(part))), len(part))


def _fill_up(X, size):
    if X.shape[0] == size:
        return X
    if sp.issparse(X):
        indptr = np.pad(X.indptr, (0, size - X.shape[0]), mode="edge")
        return sp.csr_array((X.data, X.indices, indptr), shape=(size, X.shape[1]))
    filled = np.zeros((size, X.shape[1]), X.dtype)
    filled[: X.shape[0]] = X
    return filled


def batches(X, codes, *, rate, n_steps):
    """Rows of each step: all of them, or a fresh Poisson sample, which is secret.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.
    codes : ndarray of int of shape (n_samples,)
        Their classes.
    rate : float
        Probability with which each row is in a batch.
    n_steps : int
        Number of batches.

    Yields
    ------
    iterable of Block
    """
    size = block_size(rate * X.shape[0])
    whole = list(blocks(X, codes, size)) if rate == 1.0 else None
    for _ in range(n_steps):
        yield whole if rate == 1.0 else blocks(X, codes, size, _noise.poisson_sample(X.shape[0], rate))


def noisy_descent(problem, release, X, codes, *, update, add_noise):
    """Descend, each step from a noisy sum of clipped gradients.

    Parameters
    ----------
    problem : DescentProblem
        What is public of the problem.
    release : Descent
        Plan and noise.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.
    codes : ndarray of int of shape (n_samples,)
        Their classes.
    update : callable
        From a noisy mean gradient to what is taken off the weights.
    add_noise : callable
        Adds noise of the scale it is given, in place.

    Yields
    ------
    ndarray of shape (n_weights,)
        The weights after each step: everything since the last noise is computed from noisy sums alone.
    """
    plan, network = release.plan, problem.network
    try_products_again()
    weights = network.initial_weights()
    for batch in batches(X, codes, rate=plan.rate, n_steps=plan.n_steps):
        gradient = np.zeros_like(weights)
        for block in batch:
            add_clipped_gradients(gradient, network, weights, block, problem.bound, release.dtype)
        add_noise(gradient, release.scale)
        gradient /= plan.batch_size
        weights = weights - update(gradient)
        yield weights


class Average:
    """Running mean of arrays.

    Examples
    --------
    >>> from skdprp.neural_network._steps import Average
    >>> mean = Average()
    >>> mean.add(1.0)
    >>> mean.add(2.0)
    >>> mean.value
    1.5
    """

    def __init__(self):
        self.value, self.n_added = 0.0, 0

    def add(self, array):
        """Add one more array."""
        self.n_added += 1
        change = array - self.value
        change /= self.n_added
        self.value = self.value + change


def _plain(learning_rate):
    return lambda gradient: learning_rate * gradient


def _adam(learning_rate, decay=0.9, square_decay=0.999):
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
