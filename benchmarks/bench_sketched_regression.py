"""Time and memory of MIDPRegressor, against least squares that is not private.

Run ``python benchmarks/bench_sketched_regression.py``; ``--rows``, ``--features`` and ``--components`` scale it. One
thread. The peak is that of the whole process, data included.
"""

import argparse
import time

import measure  # pins the threads, so before numpy
import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from skdprp import MIDPRegressor


def report(row, name, call):
    """Print the duration of a call, and the peak of the process after it."""
    start = time.perf_counter()
    call()
    row(name, time.perf_counter() - start, measure.resident_gigabytes())


def main():
    """Fit both mechanisms, then a sparse and a wide table, then the peer, which copies the data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--components", type=int, default=5000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (options.rows, options.features))
    y = X.sum(axis=1)
    measure.describe_machine()
    row = measure.table("fit", "seconds", "peak of the process, GB")
    row("none, data in float64", None, measure.resident_gigabytes())
    report(row, "projection", lambda: MIDPRegressor(n_components=options.components).fit(X, y))
    report(row, "additive", lambda: MIDPRegressor(mechanism="additive").fit(X, y))
    wide = sp.random_array((options.rows // 50, 100 * options.features), density=0.002, format="csr", rng=rng)
    model = MIDPRegressor(n_components=min(1000, options.rows // 50))
    report(row, "sketch, sparse, 100 times wider", lambda: model.sketch(wide, y[: wide.shape[0]]))
    report(row, "LinearRegression, not private", lambda: LinearRegression(fit_intercept=False).fit(X, y))


if __name__ == "__main__":
    main()
