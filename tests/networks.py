"""What the tests of noisy descent share: networks of every shape, and the sum of their clipped gradients."""

import numpy as np

from skdprp.neural_network._network import Network, add_clipped_gradients
from skdprp.neural_network._steps import padded_blocks

NETWORKS = [
    Network((6, 1), "relu", bias=0.3),
    Network((6, 3), "relu", bias=0.3),
    Network((6, 5, 1), "relu", bias=1.0),
    Network((6, 7, 4, 3), "relu", bias=1.0),
    Network((6, 5, 3), "tanh", bias=1.0),
    Network((6, 5, 3), "logistic", bias=1.0),
]


def random_weights(network, seed=1):
    return np.random.default_rng(seed).normal(size=network.n_weights)


def clipped_sum(network, weights, X, codes, bound, size=64):
    total = np.zeros(network.n_weights)
    for block in padded_blocks(X, codes, size):
        add_clipped_gradients(total, network, weights, block, bound)
    return total
