"""Speed of the sketches, as ratios to peers and to physical limits measured side by side in this process.

Run ``python benchmarks/bench_sketches.py``; ``--rows`` scales the data. Threads are pinned to one. Each figure is the
median over repeats of ours / theirs, the two timed in turn in processor time, beside the goal; the memory is the peak
of what our side allocates beyond X and the result.
"""

import argparse
import time
from typing import NamedTuple

import measure  # pins the threads, so before numpy
import numpy as np
import scipy.sparse as sp
from measure import dense, project, sparse
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, _noise
from skdprp._threads import in_threads
from skdprp.mechanisms.randomised_response import flip_thresholds
from skdprp.random_projection import make_projection


class Case(NamedTuple):
    """One comparison: `goal` bounds ours / theirs, `megabytes` the memory of ours; None is no goal."""

    what: str
    against: str
    ours: object
    theirs: object
    goal: float | None = None
    megabytes: float | None = None


def draw(kind, n_features, n_components):
    """Draw a projection, and its cached parts with it."""
    projection = make_projection(kind, n_features, n_components, np.random.RandomState(0))
    project(projection, sp.csr_array((1, n_features)))
    return projection


def count_sketch(projection, dtype):
    """Return OPORP as a plain scipy matrix: the count sketch that anybody would write first."""
    code = projection.code
    sign = np.where(code % 2, -1, 1).astype(dtype)
    return sp.csr_array((sign, code // 2, np.arange(len(code) + 1)), shape=(len(code), projection.n_components))


def noise_alone(shape):
    """Return a call that adds Gaussian noise to an array of this shape."""
    values = np.zeros(shape)
    return lambda: _noise.add_gaussian(values, 1.0)


def oporp_dense(n, p, k, dtype, gemm_goal):
    """OPORP of dense rows against reading them, scipy's count sketch and a dense product."""
    X, projection = dense(n, p, dtype), draw("oporp", p, k)
    S, W = count_sketch(projection, dtype), np.ones((p, k), dtype)
    name = f"OPORP, dense {np.dtype(dtype).name} {p} to {k}"

    def ours():
        project(projection, X)

    yield Case(name, "X.sum()", ours, X.sum, 4.5, 4)
    yield Case(name, "scipy X @ S", ours, lambda: X @ S, 0.3)
    yield Case(name, "BLAS X @ W", ours, lambda: X @ W, gemm_goal)


def additive_dense(n):
    """Releases of dense rows against a projection that is kept and the noise added to it."""
    X = dense(n, 784, np.float64)
    oporp, rp = (estimator(256, random_state=0).fit(X) for estimator in (DPOPORP, DPRandomProjection))
    W = rp.projection_.matrix
    yield Case(
        "DPOPORP, dense float64 784 to 256",
        "OPORP, then noise",
        lambda: oporp.transform(X),
        lambda: _noise.add_gaussian(oporp.projection_.project(X), 1.0),
        1.15,
        4,
    )
    yield Case(
        "DPRandomProjection, dense float64 784 to 256",
        "X @ W, then noise",
        lambda: rp.transform(X),
        lambda: _noise.add_gaussian(X @ W, 1.0),
        1.1,
        20,
    )


def very_sparse(n):
    """A very sparse W and dense rows against a dense product."""
    X, W, projection = dense(n, 4096, np.float64), np.ones((4096, 256)), draw("very_sparse", 4096, 256)
    yield Case("very sparse W, dense 4096 to 256", "BLAS X @ W", lambda: project(projection, X), lambda: X @ W, 0.6)


def csr(n, p=250_000, k=256):
    """Sketches of CSR rows of 200 entries against reading them, scipy and scikit-learn."""
    X = sparse(n, p, 200)
    few = X[: n // 10]
    sign = DPSignOPORP(k, output="packed", random_state=0).fit(X)
    rp = DPRandomProjection(k, random_state=0).fit(X)
    gaussian, sparse_rp = GaussianRandomProjection(k, random_state=0).fit(few), SparseRandomProjection(k).fit(X)
    oporp, rademacher = sign.projection_, rp.projection_
    S = count_sketch(oporp, np.float32)
    name, bound = "OPORP, CSR p=250k to 256", 10 + 4 * p / 1e6
    yield Case(name, "scipy X @ S", lambda: project(oporp, X), lambda: X @ S, 0.25, bound)
    yield Case(name, "reading X", lambda: project(oporp, X), lambda: (X.data.sum(), X.indices.max()), 5)
    name = "DPSignOPORP packed, CSR p=250k to 256"
    yield Case(
        name, "GaussianRandomProjection", lambda: sign.transform(few), lambda: gaussian.transform(few), 1 / 40, bound
    )
    yield Case(name, "SparseRandomProjection", lambda: sign.transform(X), lambda: sparse_rp.transform(X), 0.4)
    yield Case(
        "Rademacher W, CSR p=250k to 256",
        "GaussianRandomProjection",
        lambda: project(rademacher, few),
        lambda: gaussian.transform(few),
        0.4,
        100,
    )


def wide(n, p=16_000_000, k=512):
    """Sixteen million features: a dense matrix would have 33 GB in float32."""
    X, oporp, rademacher = sparse(n, p, 400), draw("oporp", p, k), draw("rademacher", p, k)
    sparse_rp = SparseRandomProjection(k, random_state=0).fit(X)
    yield Case(
        "Rademacher W, CSR p=16M to 512", "OPORP", lambda: project(rademacher, X), lambda: project(oporp, X), 30, 300
    )
    yield Case(
        "OPORP, CSR p=16M to 512", "SparseRandomProjection", lambda: project(oporp, X), lambda: sparse_rp.transform(X)
    )


def randomness(n):
    """Flips against Gaussian noise."""
    levels, thresholds, noise = np.ones((n, 256), np.uint8), flip_thresholds(1.0), noise_alone((n, 256))
    yield Case("sign flips", "Gaussian noise", lambda: _noise.flip(levels, thresholds), noise, 0.3)


def threads(n):
    """Two threads against one, in wall time: two equal parts of the work together, and in turn."""
    projection, X = draw("oporp", 250_000, 256), sparse(4 * n, 250_000, 200)
    parts, noises = (X[: 2 * n], X[2 * n :]), [noise_alone((n // 2, 256)) for _ in range(2)]
    for what, calls, goal in (
        ("OPORP, CSR p=250k to 256", [lambda part=part: project(projection, part) for part in parts], 1 / 1.6),
        ("Gaussian noise", noises, 1 / 1.8),
    ):
        yield Case(
            f"{what}, 2 threads",
            "1 thread",
            lambda calls=calls: in_threads(lambda call: call(), calls),
            lambda calls=calls: [call() for call in calls],
            goal,
        )
    one, two = (DPOPORP(256, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    for rows in (X, X[: n // 2]):
        name = f"DPOPORP, CSR p=250k to 256, {rows.shape[0]} rows, n_jobs=2"
        yield Case(name, "n_jobs=1", lambda rows=rows: two.transform(rows), lambda rows=rows: one.transform(rows))


def cases(n):
    """Every case, the data of one family at a time in memory."""
    for p, k, dtype, gemm_goal in ((784, 256, "f4", 0.65), (784, 256, "f8", 0.5), (4096, 512, "f4", 0.35)):
        yield from oporp_dense(n, p, k, np.dtype(dtype), gemm_goal)
    yield from additive_dense(n)
    yield from very_sparse(n // 2)
    yield from csr(n)
    yield from wide(n // 5)
    yield from randomness(n)


def main():
    """Print one row for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="rows of the dense data")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each comparison")
    options = parser.parse_args()
    measure.describe_machine()
    row = measure.table("what", "against", "ratio", "goal", "MB over X and result", "goal, MB")
    for case in cases(options.rows):
        *_, quotient = measure.compare(case.ours, case.theirs, options.repeats)
        row(case.what, case.against, quotient, case.goal, measure.peak_megabytes(case.ours), case.megabytes)
    for case in threads(options.rows):
        *_, quotient = measure.compare(case.ours, case.theirs, options.repeats, time.perf_counter)
        row(case.what, case.against, quotient, case.goal, None, None)


if __name__ == "__main__":
    main()
