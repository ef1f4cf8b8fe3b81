"""Recall of a search in released text messages by plain queries, against the messages' own nearest by cosine.

Run ``python benchmarks/bench_text_search.py --data DIR``, with SMSSpamCollection in DIR. Hashed words, present or not,
are released with ``max_change=1``, which hides one word; 500 messages that are not released are the queries. A message
counts as found if its cosine is at least that of the tenth nearest. Means and standard deviations are over draws of
the projection and the noise.

With ``--near-duplicates``, counts of words are released instead, one row for each different message; the queries are
those of 60 other messages that have a cosine of at least .7 to a released one. The table has the share that finds such
a row among the first ten.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np
from problems import add_data
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from skdprp import DPOPORP, DPSignOPORP
from skdprp.similarity import HammingNeighbors, SketchNeighbors

N_QUERIES, N_NEIGHBORS = 500, 10
NEAR, N_NEAR, N_FEATURES = 0.7, 60, 4096


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


def near_duplicates(texts):
    """Return counts of words of different messages, and those of others which have a near-duplicate among them."""
    counts = HashingVectorizer(n_features=N_FEATURES, norm=None, lowercase=False)
    X = np.unique(counts.transform(texts).toarray(), axis=0)
    X = X[X.any(axis=1)]
    X = X[np.random.default_rng(0).permutation(len(X))]
    units = normalize(csr_array(X))
    cosines = (units @ units.T).toarray()
    np.fill_diagonal(cosines, 0.0)
    queries = np.flatnonzero(cosines.max(axis=1) >= NEAR)[:N_NEAR]
    rows = np.setdiff1d(np.arange(len(X)), queries)
    cosines = cosines[np.ix_(queries, rows)]
    has_one = cosines.max(axis=1) >= NEAR
    return csr_array(X[rows]), csr_array(X[queries[has_one]]), cosines[has_one]


def print_near_duplicates(texts, n_draws):
    """Print how many queries find a near-duplicate among the first ten rows."""
    rows, queries, cosines = near_duplicates(texts)
    print(f"{rows.shape[0]} messages, with a word {rows.max():g} times at most; {queries.shape[0]} queries\n")
    row = measure.table("epsilon", "SketchNeighbors", "deviation", "inner products", "deviation")
    for epsilon in (1.0, 2.0, 3.0, 5.0, 8.0):
        found = []
        for draw in range(n_draws):
            sketch = DPOPORP(N_FEATURES, epsilon=epsilon, noise="laplace", random_state=draw).fit(rows)
            S = sketch.transform(rows)
            plain = np.argsort(-sketch.project_queries(queries) @ S.T, axis=1, kind="stable")[:, :N_NEIGHBORS]
            neighbors = SketchNeighbors(N_NEIGHBORS).fit(S, sketch=sketch)
            likely = neighbors.kneighbors(queries, return_distance=False)
            found.append(
                [(np.take_along_axis(cosines, of, axis=1) >= NEAR).any(axis=1).mean() for of in (likely, plain)]
            )
        (ours, plain), (spread, plain_spread) = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
        row(epsilon, ours, spread, plain, plain_spread)


def main():
    """Print a table of recalls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data(parser, ("SMSSpamCollection",), "SMSSpamCollection")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--near-duplicates", action="store_true", help="the share of near-duplicates that are found")
    options = parser.parse_args()
    if options.data is None:
        parser.error("it needs --data")
    lines = (options.data / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t", 1)[1] for line in lines]
    if options.near_duplicates:
        print_near_duplicates(texts, options.draws)
        return
    words = HashingVectorizer(n_features=N_FEATURES, binary=True, norm=None)
    X = words.transform(texts)
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
