"""Time and memory of MIDPRegressor, against least squares that is not private.

Run ``python benchmarks/bench_sketched_regression.py``; ``--rows``, ``--features`` and ``--components`` scale it. One
thread. The peak is that of the whole process, data included.
"""

import argparse
import os
import resource
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from skdprp import MIDPRegressor


def peak_megabytes():
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(name, call):
    """Print the duration of a call, and the peak of the process after it."""
    start = time.perf_counter()
    call()
    print(f"{name:<36}{time.perf_counter() - start:8.2f} s   peak {peak_megabytes():7.0f} MB")


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
    print(f"{'data, float64':<36}{'':>12}peak {peak_megabytes():7.0f} MB")
    report("projection", lambda: MIDPRegressor(n_components=options.components).fit(X, y))
    report("additive", lambda: MIDPRegressor(mechanism="additive").fit(X, y))
    wide = sp.random_array((options.rows // 50, 100 * options.features), density=0.002, format="csr", rng=rng)
    model = MIDPRegressor(n_components=min(1000, options.rows // 50))
    report("sketch, sparse, 100 times wider", lambda: model.sketch(wide, y[: wide.shape[0]]))
    report("LinearRegression, not private", lambda: LinearRegression(fit_intercept=False).fit(X, y))


if __name__ == "__main__":
    main()
