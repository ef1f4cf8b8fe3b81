"""How well bits that hide a change are searched: digits, and the labels of the ten nearest.

Run ``python benchmarks/bench_signs.py``. Queries are sketches as well, and bits are compared by how many differ.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

from skdprp import DPSignOPORP, DPSignRP
from skdprp.similarity import HammingNeighbors

N_QUERIES, N_NEIGHBORS = 300, 10


def right_labels(sketch, X, y):
    """Share of the neighbours of a query that have its label; queries are sketches as well."""
    S = sketch.fit_transform(X)
    search = HammingNeighbors(N_NEIGHBORS).fit(S[N_QUERIES:])
    nearest = search.kneighbors(S[:N_QUERIES], return_distance=False)
    return (y[N_QUERIES:][nearest] == y[:N_QUERIES, None]).mean()


def sketches(n_bits):
    """Sign sketches by what they hide and how."""
    yield "DPSignOPORP, coordinate", DPSignOPORP(n_bits)
    yield "DPSignOPORP, l1", DPSignOPORP(n_bits, adjacency="l1")
    yield "DPSignOPORP, l2", DPSignOPORP(n_bits, adjacency="l2")
    yield "DPSignRP, l1", DPSignRP(n_bits)


def main():
    """Print the mean share for each sketch and epsilon, and its standard error, over draws of projection and flips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[5.0, 10.0, 20.0])
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    X = X / 16 - 0.5
    for name, sketch in sketches(options.bits):
        sketch.set_params(output="packed")
        shares = np.array(
            [
                [
                    right_labels(sketch.set_params(epsilon=epsilon, random_state=seed), X, y)
                    for seed in range(options.draws)
                ]
                for epsilon in options.epsilon
            ]
        )
        errors = shares.std(axis=1, ddof=1) / options.draws**0.5
        cells = (f"{mean:.3f} +- {error:.3f}" for mean, error in zip(shares.mean(axis=1), errors, strict=True))
        print(f"{name:<26}" + "  ".join(cells))


if __name__ == "__main__":
    main()
