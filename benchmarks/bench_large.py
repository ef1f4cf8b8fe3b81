"""Sketch a matrix that is never whole: 16 million features by 200,000 sparse rows, in chunks, under 2 GB.

Run ``python benchmarks/bench_large.py``. The rows are made chunk by chunk, as they would be read from a file; progress
goes to stderr, the time and the peak memory of the process to stdout. It fails if the peak passes ``--gigabytes``.
"""

import argparse
import resource
import sys
import time

import measure  # pins the threads, so before numpy
import numpy as np
from measure import sparse

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP


def chunks(options):
    """Yield the first row of each chunk and the chunk, a CSR matrix."""
    for start in range(0, options.rows, options.chunk):
        size = min(options.chunk, options.rows - start)
        yield start, sparse(size, options.features, options.entries, seed=start)


def peak_gigabytes():
    """Peak of the resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak * 1024 / 1e9


def sketch_all(sketch, options):
    """Sketch every chunk, show progress on stderr, and return the sketches and the seconds spent on them."""
    released, spent = None, 0.0
    for start, X in chunks(options):
        if released is None:
            sketch.fit(X)
        begin = time.perf_counter()
        part = sketch.transform(X)
        spent += time.perf_counter() - begin
        if released is None:
            released = np.empty((options.rows, part.shape[1]), part.dtype)
        released[start : start + len(part)] = part
        print(f"\r{type(sketch).__name__}: {start + len(part)} of {options.rows} rows", end="", file=sys.stderr)
    print(file=sys.stderr)
    return released, spent


def main():
    """Print one row for each sketch; the peak memory is that of the process so far."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=16_000_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--entries", type=int, default=100, help="nonzero entries of a row")
    parser.add_argument("--chunk", type=int, default=10_000, help="rows in memory at a time")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="peak memory above which the run fails")
    options = parser.parse_args()
    measure.describe_machine()
    row = measure.table("sketch", "rows a second", "released, MB", "peak of the process, GB", "goal, GB")
    for sketch in (
        DPSignOPORP(256, output="packed", random_state=0),
        DPOPORP(256, random_state=0),
        DPRandomProjection(256, random_state=0),
    ):
        released, spent = sketch_all(sketch, options)
        row(
            type(sketch).__name__,
            round(options.rows / spent),
            released.nbytes / 1e6,
            peak_gigabytes(),
            options.gigabytes,
        )
        del released
    sys.exit(peak_gigabytes() > options.gigabytes)


if __name__ == "__main__":
    main()
