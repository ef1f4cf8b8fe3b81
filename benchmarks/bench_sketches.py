"""Speed of the sketches, as ratios to peers and to physical limits measured side by side in this process.

Run ``python benchmarks/bench_sketches.py``; ``--rows`` scales the data. Threads are pinned to one. Each figure is the
median over repeats of ours / theirs, the two timed in turn.
"""

import argparse
import os
import sys
import time
import tracemalloc

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import scipy.sparse as sp
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, _noise
from skdprp.mechanisms import flip_thresholds
from skdprp.random_projection import make_projection


def ratio(ours, theirs, repeats):
    """Median of the quotient of two durations, timed alternately."""
    quotients = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        quotients.append((middle - start) / (time.perf_counter() - middle))
    return float(np.median(quotients[1:]))


def peak_memory(call, X, output_bytes):
    """Peak of the memory that a call allocates beyond its output, in MB."""
    tracemalloc.start()
    call(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - output_bytes) / 1e6


def dense(n, p, dtype):
    """Uniform dense rows."""
    return np.random.default_rng(0).uniform(size=(n, p)).astype(dtype)


def sparse(n, p, per_row, dtype=np.float32):
    """CSR rows with a given number of random entries each."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, p, (n, per_row), dtype=np.int32), axis=1).ravel()
    data = rng.uniform(size=n * per_row).astype(dtype)
    return sp.csr_array((data, indices, np.arange(n + 1, dtype=np.int32) * per_row), shape=(n, p))


def oporp_matrix(sketch, dtype):
    """Return the projection as a plain scipy matrix: the count sketch that anybody would write first."""
    code, k = sketch.projection_.code, sketch.projection_.n_components
    sign = np.where(code < k, 1, -1).astype(dtype)
    return sp.csr_array((sign, code % k, np.arange(len(code) + 1)), shape=(len(code), k))


def noise_alone(shape):
    """Return a call that adds Gaussian noise to an array of this shape."""
    values = np.zeros(shape)
    return lambda: _noise.add_gaussian(values, 1.0)


def project_rows(projection, X):
    """Project block by block as `transform` does, without noise."""
    size = projection.rows_per_block(X)
    for start in range(0, X.shape[0], size):
        projection.project(X[start : start + size])


def bench_dense(n, repeats):
    """OPORP and dense projections of dense rows."""
    for p, k, dtype, gemm_goal in (
        (784, 256, np.float32, 0.65),
        (784, 256, np.float64, 0.5),
        (4096, 512, np.float32, 0.35),
    ):
        X = dense(n, p, dtype)
        name = f"OPORP {n}x{p}->{k} {np.dtype(dtype).name}"
        sketch = DPOPORP(k, random_state=0).fit(X)
        S, W = oporp_matrix(sketch, dtype), np.ones((p, k), dtype)
        yield name, "X.sum()", ratio(lambda s=sketch, X=X: project_rows(s.projection_, X), X.sum, repeats), 4.5
        yield (
            name,
            "scipy X @ S",
            ratio(lambda s=sketch, X=X: project_rows(s.projection_, X), lambda X=X, S=S: X @ S, repeats),
            0.3,
        )
        yield (
            name,
            "BLAS X @ W",
            ratio(lambda s=sketch, X=X: project_rows(s.projection_, X), lambda X=X, W=W: X @ W, repeats),
            gemm_goal,
        )
    X = dense(n, 784, np.float64)
    noise = noise_alone((n, 256))
    sketch = DPOPORP(256, random_state=0).fit(X)
    yield (
        "DPOPORP dense",
        "OPORP + noise",
        ratio(lambda: sketch.transform(X), lambda: (project_rows(sketch.projection_, X), noise()), repeats),
        1.15,
    )
    rp = DPRandomProjection(256, random_state=0).fit(X)
    W = rp.projection_.matrix
    yield (
        "DPRandomProjection dense",
        "X @ W + noise",
        ratio(lambda: rp.transform(X), lambda: (X @ W, noise()), repeats),
        1.1,
    )
    vs = make_projection("very_sparse", 4096, 256, np.random.RandomState(0))
    X, W = dense(n // 2, 4096, np.float64), np.ones((4096, 256))
    yield (
        "very sparse W, dense X",
        "BLAS X @ W",
        ratio(lambda: project_rows(vs, X), lambda: X @ W, repeats),
        0.6,
    )


def bench_sparse(n, repeats):
    """OPORP and sign sketches of CSR rows with 250 thousand features."""
    X = sparse(n, 250_000, 200)
    sketch = DPOPORP(256, random_state=0).fit(X)
    S = oporp_matrix(sketch, np.float32)
    yield (
        "OPORP csr p=250k",
        "scipy X @ S",
        ratio(lambda: project_rows(sketch.projection_, X), lambda: X @ S, repeats),
        0.25,
    )
    yield (
        "OPORP csr p=250k",
        "reading X",
        ratio(lambda: project_rows(sketch.projection_, X), lambda: (X.data.sum(), X.indices.max()), repeats),
        5,
    )
    sign = DPSignOPORP(256, output="packed", random_state=0).fit(X)
    few = X[: n // 10]
    gaussian = GaussianRandomProjection(256, random_state=0).fit(few)
    yield (
        "DPSignOPORP packed",
        "GaussianRandomProjection",
        ratio(lambda: sign.transform(few), lambda: gaussian.transform(few), repeats),
        1 / 40,
    )
    very_sparse = SparseRandomProjection(256, random_state=0).fit(X)
    yield (
        "DPSignOPORP packed",
        "SparseRandomProjection",
        ratio(lambda: sign.transform(X), lambda: very_sparse.transform(X), repeats),
        0.4,
    )
    rp = DPRandomProjection(256, random_state=0).fit(few)
    yield (
        "DPRandomProjection csr",
        "GaussianRandomProjection",
        ratio(lambda: rp.transform(few), lambda: gaussian.transform(few), repeats),
        0.4,
    )


def bench_noise(n, repeats):
    """Flips and Gaussian noise."""
    levels = np.ones((n, 256), np.uint8)
    thresholds = flip_thresholds(1.0)
    noise = noise_alone((n, 256))
    yield "flips", "Gaussian noise", ratio(lambda: _noise.flip(levels, thresholds), noise, repeats), 0.3
    rng, values = np.random.default_rng(0), np.zeros((n, 256))

    def _ziggurat():
        for row in range(0, n, 64):
            values[row : row + 64] += rng.standard_normal((64, 256))[: n - row]

    yield "Gaussian noise", "numpy ziggurat", ratio(noise, _ziggurat, repeats), None


def bench_wide(n, repeats):
    """Sixteen million features: the dense matrix would have 31 GB."""
    X = sparse(n, 16_000_000, 400)
    oporp, rademacher = (
        make_projection(kind, X.shape[1], 512, np.random.RandomState(0)) for kind in ("oporp", "rademacher")
    )
    yield (
        "Rademacher csr p=16M",
        "OPORP",
        ratio(lambda: project_rows(rademacher, X), lambda: project_rows(oporp, X), repeats),
        30,
    )
    yield "Rademacher csr p=16M", "MB over output", peak_memory(lambda X: project_rows(rademacher, X), X, 0), 300
    yield "OPORP csr p=16M", "MB over output", peak_memory(lambda X: project_rows(oporp, X), X, 0), 10


def main():
    """Print one line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="rows of the dense data")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each comparison")
    options = parser.parse_args()
    print(f"numpy {np.__version__}, Python {sys.version.split()[0]}, one thread, {options.rows} rows")
    print(f"{'what':32}{'against':28}{'ratio':>9}{'goal':>9}")
    for bench, share in ((bench_dense, 1), (bench_sparse, 1), (bench_noise, 1), (bench_wide, 0.2)):
        for what, against, figure, goal in bench(int(options.rows * share), options.repeats):
            print(f"{what:32}{against:28}{figure:9.3f}{goal if goal is None else round(goal, 3)!s:>9}", flush=True)


if __name__ == "__main__":
    main()
