"""The steps of noisy gradient descent."""

import numpy as np

from ._batches import batches
from ._network import add_clipped_gradients
from ._products import try_products_again


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
    >>> from skdprp.linear_model._descent_loop import Average
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
