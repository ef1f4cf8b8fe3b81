"""Recall of a search in sketches of dense rows or of answers, and what a plain row tells of which sketch is its own.

Run ``python benchmarks/bench_dense_search.py``. The rows are digits, 64 pixels between -1/2 and 1/2, of which 1497 are
released and 300 are queries; or with ``--rows housing`` eight numbers of each of the districts in the gallery's sample,
or with ``--rows mnist --data DIR`` the 784 pixels of MNIST, also between -1/2 and 1/2. Each sketch has
``max_change=1``, which hides one pixel or number. With ``--rows answers --data DIR`` the rows are the first 5300 of
a9a, up to 14 answers of a person, each of which is a 1 in one of 123 columns, and ``max_change=2`` hides one answer. A
released row counts as found if its cosine with the query is at least that of the tenth nearest.

An attacker has the plain rows. *Own sketch nearest* is the share of released rows of which the nearest sketch, by
``SketchNeighbors``, is their own. *Membership* is the area under the curve of that attacker's guess which of 300
released and 300 other rows were released, by the distance to the nearest sketch. Both are simple attacks: others may do
better. Figures are means over draws of the projection and the noise, with the largest standard error of a line.
"""

import argparse
from functools import partial
from pathlib import Path

import measure  # pins the threads, so before numpy
import numpy as np
import pandas as pd
from problems import HOUSING_BOUNDS, PRICES, add_data, read_adult, read_digits
from scipy.optimize import brentq
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from skdprp import DPOPORP, DPSignOPORP, PublicScaler
from skdprp.similarity import HammingNeighbors, SketchNeighbors, cosines

N_QUERIES, N_NEIGHBORS = 300, 10
SAMPLE = Path(__file__).parents[1] / "examples" / "california_sample.csv.gz"


def digits():
    """Pixels between -1/2 and 1/2."""
    return load_digits().data / 16 - 0.5


def mnist(folder):
    """More pixels, between -1/2 and 1/2."""
    return np.concatenate(read_digits(folder)[:2]) - 0.5


def answers(folder):
    """A 1 in the column of each answer."""
    return read_adult(folder)[0][:5300].toarray()


def housing():
    """Eight numbers of a district, scaled by public bounds."""
    bounds = HOUSING_BOUNDS | {"median_house_value": PRICES}
    return PublicScaler(bounds).fit_transform(pd.read_csv(SAMPLE)[list(bounds)])


SKETCHES = {
    "bits": DPSignOPORP,
    "numbers, Laplace": partial(DPOPORP, noise="laplace"),
    "numbers, Gaussian": DPOPORP,
}


def epsilon_of_guess(name, row, guess):
    """Epsilon with which the best guess at one change is right with this probability."""

    def excess(epsilon):
        return SKETCHES[name](1, epsilon=epsilon).fit(row).guarantee_.guess_probability - guess

    return brentq(excess, 1e-3, 100.0, xtol=1e-4)


def nearest_by_sketches(sketch, S, queries):
    """Nearest released rows of queries that are sketches too, with noise of their own."""
    Q = sketch.transform(queries)
    if S.dtype == np.int8:
        return HammingNeighbors(N_NEIGHBORS).fit(S).kneighbors(Q, return_distance=False)
    return np.argsort(-cosines(Q, S), axis=1, kind="stable")[:, :N_NEIGHBORS]


def nearest_by_signs(sketch, S, queries):
    """Nearest released bits of the signs of the queries' projections, without noise."""
    signs = np.where(sketch.project_queries(queries) > 0, np.int8(1), np.int8(-1))
    return HammingNeighbors(N_NEIGHBORS).fit(S).kneighbors(signs, return_distance=False)


def measured(sketch, rows, queries, exact):
    """Recalls by plain queries, by their signs and by sketches of them, the share of own sketches, membership."""
    least = np.sort(exact, axis=1)[:, -N_NEIGHBORS, None] - 1e-9

    def recall(found):
        return (np.take_along_axis(exact, found, axis=1) >= least).mean()

    S = sketch.fit(rows).transform(rows)
    search = SketchNeighbors(N_NEIGHBORS).fit(S, sketch=sketch)
    outside, found = search.kneighbors(queries)
    inside, own = search.kneighbors(rows, 1)
    scores = -np.concatenate([inside[:N_QUERIES, 0], outside[:, 0]])
    return (
        recall(found),
        recall(nearest_by_signs(sketch, S, queries)) if S.dtype == np.int8 else np.nan,
        recall(nearest_by_sketches(sketch, S, queries)),
        (own[:, 0] == np.arange(len(rows))).mean(),
        roc_auc_score(np.repeat([1, 0], N_QUERIES), scores),
    )


def main():
    """Print a table of recalls and attacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", choices=["digits", "housing", "mnist", "answers"], default="digits")
    add_data(parser)
    parser.add_argument("--components", type=int, nargs="+", default=[64])
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0, 10.0, 20.0])
    given.add_argument("--guess", type=float, nargs="+", help="best guesses instead, each by an epsilon of its own")
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    of_files = {"mnist": partial(mnist, options.data), "answers": partial(answers, options.data)}
    if options.rows in of_files and options.data is None:
        parser.error(f"--rows {options.rows} goes with --data")
    max_change = 2.0 if options.rows == "answers" else 1.0
    X = ({"digits": digits, "housing": housing} | of_files)[options.rows]()
    X = X[np.random.default_rng(0).permutation(len(X))]
    queries, rows = X[:N_QUERIES], X[N_QUERIES:]
    exact = normalize(queries) @ normalize(rows).T
    if options.guess:
        settings = [(name, epsilon_of_guess(name, rows[:1], guess)) for guess in options.guess for name in SKETCHES]
    else:
        settings = [(name, epsilon) for epsilon in options.epsilon for name in SKETCHES]
    print(f"{len(rows)} rows of {rows.shape[1]} numbers, {N_QUERIES} queries, {options.draws} draws\n")
    recalls = ("plain queries", "signs of queries", "sketched queries")
    columns = ("best guess", "hides", *recalls, "own sketch nearest", "membership", "error")
    row = measure.table("released", "components", "epsilon", *columns)
    for n_components in options.components:
        for name, epsilon in settings:
            known = {"epsilon": epsilon, "max_change": max_change}
            sketch = [SKETCHES[name](n_components, random_state=i, **known) for i in range(options.draws)]
            of_draws = np.array([measured(each, rows, queries, exact) for each in sketch])
            error = np.nanmax(of_draws.std(axis=0, ddof=1)) / options.draws**0.5
            of_one_change = sketch[0].guarantee_.guess_probability, sketch[0].guarantee_.hides
            row(name, n_components, epsilon, *of_one_change, *of_draws.mean(axis=0), error)


if __name__ == "__main__":
    main()
