"""What the benchmarks share: pinned threads, interleaved timing, peak memory, Markdown tables, synthetic rows.

Import it before numpy: it pins the threads of BLAS and OpenMP to one.
"""

import os
import platform
import resource
import sys
import time
import tracemalloc

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from threadpoolctl import threadpool_info


def describe_machine():
    """Print versions, the processor's load, and the threads of every pool."""
    pools = {f"{pool['internal_api']} {pool['version'] or ''} {pool['num_threads']}" for pool in threadpool_info()}
    print(
        f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, "
        f"Python {sys.version.split()[0]}, {platform.machine()} with {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}; threads: main 1, {', '.join(sorted(pools))}\n"
    )


def compare(ours, theirs, repeats, clock=time.thread_time):
    """Median durations of two calls, and median of their quotient, timed alternately in processor time of this thread.

    Another clock is for work outside this thread.
    """
    ours(), theirs()
    durations = []
    for _ in range(repeats):
        start = clock()
        ours()
        middle = clock()
        theirs()
        end = clock()
        durations.append((middle - start, end - middle, (middle - start) / (end - middle)))
    return np.median(durations, axis=0).tolist()


def seconds(call, repeats, clock=time.thread_time):
    """Least processor time of this thread over repeats of a call, after one that is not counted."""
    call()
    durations = []
    for _ in range(repeats):
        start = clock()
        call()
        durations.append(clock() - start)
    return min(durations)


def peak_megabytes(call):
    """Peak of what numpy allocates during a call, beyond what it returns."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    returned = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - before - getattr(returned, "nbytes", 0)) / 1e6


def resident_gigabytes():
    """Peak of the resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak * 1024 / 1e9


def table(*columns):
    """Print the head of a Markdown table and return a function that prints one row."""

    def row(*cells):
        print("|", " | ".join(_cell(cell) for cell in cells), "|", flush=True)

    row(*columns)
    row(*["---"] * len(columns))
    return row


def _cell(value):
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def dense(n, p, dtype):
    """Uniform dense rows."""
    return np.random.default_rng(0).uniform(size=(n, p)).astype(dtype)


def sparse(n, p, per_row, dtype=np.float32, seed=0):
    """CSR rows with a given number of random entries each, or a few less: none is stored in parts."""
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.integers(0, p, (n, per_row), dtype=np.int32), axis=1).ravel()
    data = rng.random(n * per_row, dtype=dtype)
    X = sp.csr_array((data, indices, np.arange(n + 1, dtype=np.int32) * per_row), shape=(n, p))
    X.sum_duplicates()
    return X


def project(projection, X):
    """Project block by block as `transform` does, without noise, and keep nothing."""
    size = projection.rows_per_block(X)
    slices = [slice(start, min(start + size, X.shape[0])) for start in range(0, X.shape[0], size)]
    for _ in projection.project_blocks(X, slices):
        pass
