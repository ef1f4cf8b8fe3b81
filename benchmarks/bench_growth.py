"""How the time of each kernel grows with the rows, the features, the components and the entries of a row.

Run ``python benchmarks/bench_growth.py``. Each size is doubled in turn, the others kept; printed is the exponent of the
least-squares line through the logarithms of size and time, beside that of the arithmetic, which it should not pass.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np
from measure import dense, project, seconds, sparse

from skdprp import _noise
from skdprp.mechanisms.randomised_response import flip_thresholds
from skdprp.random_projection import make_projection


def on_dense(kind):
    """Return what makes a call that projects dense rows."""
    return lambda n, p, k: projection_of(kind, dense(n, p, np.float64), k)


def on_csr(kind):
    """Return what makes a call that projects CSR rows of `nnz` entries."""
    return lambda n, p, k, nnz: projection_of(kind, sparse(n, p, nnz), k)


def projection_of(kind, X, k):
    """Return a call that projects X."""
    projection = make_projection(kind, X.shape[1], k, np.random.RandomState(0))
    return lambda: project(projection, X)


def gaussian_noise(n, k):
    """Noise on each component."""
    values = np.zeros((n, k))
    return lambda: _noise.add_gaussian(values, 1.0)


def sign_flips(n, k):
    """A flip of each component."""
    levels, thresholds = np.ones((n, k), np.uint8), flip_thresholds(1.0)
    return lambda: _noise.flip(levels, thresholds)


# Sizes to start from, and the exponents of the arithmetic: a bin for each number of a row, k signs for each entry.
KERNELS = (
    ("oporp dense", on_dense("oporp"), {"n": 1000, "p": 1024, "k": 64}, {"n": 1, "p": 1, "k": 1}),
    ("oporp csr", on_csr("oporp"), {"n": 2000, "p": 100_000, "k": 64, "nnz": 100}, {"n": 1, "p": 0, "k": 1, "nnz": 1}),
    ("rademacher dense", on_dense("rademacher"), {"n": 1000, "p": 1024, "k": 64}, {"n": 1, "p": 1, "k": 1}),
    (
        "rademacher csr",
        on_csr("rademacher"),
        {"n": 200, "p": 1_000_000, "k": 64, "nnz": 100},
        {"n": 1, "p": 0, "k": 1, "nnz": 1},
    ),
    ("very sparse dense", on_dense("very_sparse"), {"n": 500, "p": 1024, "k": 64}, {"n": 1, "p": 1, "k": 1}),
    ("gaussian noise", gaussian_noise, {"n": 1000, "k": 64}, {"n": 1, "k": 1}),
    ("sign flips", sign_flips, {"n": 4000, "k": 64}, {"n": 1, "k": 1}),
)


def exponent(kernel, sizes, name, doublings, repeats):
    """Fit the exponent of one size, and return it with the times in milliseconds."""
    factors = 2 ** np.arange(doublings + 1)
    times = [seconds(kernel(**sizes | {name: int(sizes[name] * factor)}), repeats) for factor in factors]
    return float(np.polyfit(np.log(factors), np.log(times), 1)[0]), [1000 * time for time in times]


def main():
    """Print one row for each kernel and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--doublings", type=int, default=3, help="how many times each size is doubled")
    parser.add_argument("--repeats", type=int, default=7, help="repeats of each measurement, of which the least counts")
    options = parser.parse_args()
    measure.describe_machine()
    row = measure.table("kernel", "size doubled", "exponent", "of the arithmetic", "milliseconds")
    for kind, kernel, sizes, arithmetic in KERNELS:
        for name in sizes:
            fitted, times = exponent(kernel, sizes, name, options.doublings, options.repeats)
            span = f"{sizes[name]} to {sizes[name] * 2**options.doublings}"
            milliseconds = ", ".join(f"{time:.3g}" for time in times)
            row(kind, f"{name}, {span}", fitted, arithmetic[name], milliseconds)


if __name__ == "__main__":
    main()
