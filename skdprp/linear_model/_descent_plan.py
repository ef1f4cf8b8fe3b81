"""Steps, batches and step lengths of noisy gradient descent, from public quantities."""

from dataclasses import dataclass

import numpy as np

from ..mechanisms import gaussian_scale

# Share of the travel, common length of a step and the longest one: of a linear model, and of a network.
_LINEAR, _NETWORK = (1.0, 10.0, 16.0), (0.2, 2.5, 6.0)
_N_STEPS = 50, 300
_BATCH_FACTOR = 12
_ADAM_RATE = 0.01


@dataclass(frozen=True)
class Plan:
    """How many steps, on which share of the rows, how long.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    rate : float
        Probability with which a row is in the batch of a step; 1 for all rows.
    n_steps : int
        Number of steps.
    learning_rate : float
        Factor of the mean gradient.
    """

    n_samples: int
    rate: float
    n_steps: int
    learning_rate: float

    @property
    def batch_size(self):
        """Expected number of rows of a batch, by which sums are divided."""
        return self.rate * self.n_samples


def plan_descent(problem, epsilon, delta, *, batch_size, n_epochs, learning_rate, optimizer):
    """Fill in what is "auto".

    Chosen on scikit-learn's digits and breast cancer data, and on rows of MNIST and a9a: their accuracies are no
    independent check.

    Parameters
    ----------
    problem : DescentProblem
        Public facts.
    epsilon, delta : float
        Target.
    batch_size, n_epochs, learning_rate, optimizer
        As :class:`skdprp.DPSGDClassifier` has them.

    Returns
    -------
    Plan

    Notes
    -----
    Steps of length eta on T noisy means of gradients of norm C move each weight by noise of standard deviation
    ``eta T sigma C / n``, where sigma calibrates a single release: how the travel ``eta T`` is cut into steps does not
    matter, as long as they are short enough. The best travel of linear models is found where this noise is about 1 / C,
    so that it moves scores of rows of norm C by about 1; that of networks a fifth of it.
    """
    n_samples, is_linear = problem.n_samples, len(problem.network.sizes) == 2
    share, step, longest = _LINEAR if is_linear else _NETWORK
    if batch_size == "auto":
        batch_size = None if is_linear else _BATCH_FACTOR * np.sqrt(n_samples)
    rate = 1.0 if batch_size is None else float(min(batch_size / n_samples, 1.0))
    travel = share * n_samples / gaussian_scale(epsilon, delta)
    n_steps = int(np.clip(travel / step, *_N_STEPS)) if n_epochs == "auto" else int(np.ceil(n_epochs / rate))
    if learning_rate == "auto":
        learning_rate = _ADAM_RATE if optimizer == "adam" else min(travel / n_steps, longest) / problem.bound**2
    return Plan(n_samples, rate, n_steps, float(learning_rate))
