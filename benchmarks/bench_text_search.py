"""Recall of a search in released text messages by plain queries, against the messages' own nearest by cosine.

Run ``python benchmarks/bench_text_search.py --data DIR``, with SMSSpamCollection in DIR. Hashed words, present or not,
are released with ``max_change=1``, which hides one word; 500 messages that are not released are the queries. A message
counts as found if its cosine is at least that of the tenth nearest. Means and standard deviations are over draws of
the projection and the noise.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np
from problems import add_data
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from skdprp import DPOPORP, DPSignOPORP
from skdprp.similarity import HammingNeighbors, SketchNeighbors

N_QUERIES, N_NEIGHBORS = 500, 10


def searches(epsilon, n_components, rows, queries, draw):
    """Yield what is released and how it is searched, and the nearest rows that are found."""
    noisy = DPOPORP(n_components, epsilon=epsilon, noise="laplace", random_state=draw).fit(rows)
    S, projected = noisy.transform(rows), noisy.project_queries(queries)
    norms = np.sqrt(np.maximum((S**2).sum(axis=1) - n_components * 2 * noisy.scale_**2, 1.0))
    for name, divisor in (("inner products", 1.0), ("the same over debiased norms", norms)):
        yield f"numbers, {name}", np.argsort(-projected @ S.T / divisor, axis=1, kind="stable")[:, :N_NEIGHBORS]
    neighbors = SketchNeighbors(N_NEIGHBORS).fit(S, sketch=noisy)
    yield "numbers, SketchNeighbors", neighbors.kneighbors(queries, return_distance=False)
    signs = DPSignOPORP(n_components, epsilon=epsilon, output="packed", random_state=draw).fit(rows)
    released = signs.transform(rows)
    neighbors = SketchNeighbors(N_NEIGHBORS).fit(released, sketch=signs)
    yield "bits, SketchNeighbors", neighbors.kneighbors(queries, return_distance=False)
    neighbors = HammingNeighbors(N_NEIGHBORS).fit(released)
    yield "bits, HammingNeighbors", neighbors.kneighbors(signs.transform(queries), return_distance=False)
    without_noise = normalize(noisy.project_queries(rows)), normalize(projected)
    scores = without_noise[1] @ without_noise[0].T
    yield "projections without noise", np.argsort(-scores, axis=1, kind="stable")[:, :N_NEIGHBORS]


def main():
    """Print a table of recalls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data(parser, ("SMSSpamCollection",), "SMSSpamCollection")
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    if options.data is None:
        parser.error("it needs --data")
    lines = (options.data / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    words = HashingVectorizer(n_features=4096, binary=True, norm=None)
    X = words.transform([line.split("\t", 1)[1] for line in lines])
    order = np.random.default_rng(0).permutation(X.shape[0])
    queries, rows = X[order[:N_QUERIES]], X[order[N_QUERIES:]]
    cosines = (normalize(queries) @ normalize(rows).T).toarray()
    least = np.sort(cosines, axis=1)[:, -N_NEIGHBORS, None] - 1e-9
    print(f"{rows.shape[0]} messages, {rows.nnz / rows.shape[0]:.1f} words each, {N_QUERIES} queries\n")
    row = measure.table("released, searched by", "components", "epsilon", "recall at 10", "deviation")
    for n_components in (2048, 4096):
        for epsilon in (5.0, 20.0):
            recalls = {}
            for draw in range(options.draws):
                for name, found in searches(epsilon, n_components, rows, queries, draw):
                    hits = np.take_along_axis(cosines, found, axis=1) >= least
                    recalls.setdefault(name, []).append(hits.mean())
            for name, values in recalls.items():
                row(name, n_components, epsilon, np.mean(values), np.std(values, ddof=1))


if __name__ == "__main__":
    main()
