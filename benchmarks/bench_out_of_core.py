"""Speed and peak memory on more data than memory is to hold: sparse rows with 16 million features, in chunks of a file.

Run ``python benchmarks/bench_out_of_core.py``. It first writes the chunks to a folder, then reads one after the other
and sketches it into a memmap, with progress on stderr. It fails if the peak memory of the process, with everything
loaded and the memmap's pages counted, passes ``--gigabytes``.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import measure  # pins the threads, so before numpy
import numpy as np
import scipy.sparse as sp

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, transform_chunks


def write_chunks(folder, options):
    """Write CSR chunks of random rows."""
    for start in range(0, options.rows, options.chunk):
        size = min(options.chunk, options.rows - start)
        X = measure.sparse(size, options.features, options.entries, seed=start)
        sp.save_npz(folder / f"{start:012}.npz", X, compressed=False)


def read_chunks(folder):
    """Read one chunk after the other."""
    return map(sp.load_npz, sorted(folder.glob("*.npz")))


def sketch_file(sketch, folder, n_rows):
    """Sketch all chunks into a memmap, and return it with the seconds it took."""
    first = next(read_chunks(folder))[:1]
    one = sketch.fit(first).transform(first)
    shape = n_rows, one.shape[1]
    out = np.lib.format.open_memmap(folder / "sketches.npy", mode="w+", dtype=one.dtype, shape=shape)
    start = time.perf_counter()
    transform_chunks(sketch, read_chunks(folder), out=out, verbose=True)
    return out, time.perf_counter() - start


def main():
    """Print one row for each sketch; the peak memory is that of the process so far."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=16_000_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--entries", type=int, default=400, help="nonzero entries of a row")
    parser.add_argument("--components", type=int, default=512)
    parser.add_argument("--chunk", type=int, default=5000, help="rows in memory at a time")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="peak memory above which the run fails")
    options = parser.parse_args()
    measure.describe_machine()
    row = measure.table("sketch", "seconds", "rows a second", "GB read", "GB written", "peak of the process, GB")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_chunks(folder, options)
        gigabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
        for sketch in (
            DPSignOPORP(options.components, output="packed", random_state=0),
            DPOPORP(options.components, random_state=0),
            DPRandomProjection(options.components, random_state=0),
        ):
            out, seconds = sketch_file(sketch, folder, options.rows)
            speed, written = round(options.rows / seconds), out.nbytes / 1e9
            row(type(sketch).__name__, round(seconds), speed, gigabytes, written, measure.resident_gigabytes())
            del out
    sys.exit(measure.resident_gigabytes() > options.gigabytes)


if __name__ == "__main__":
    main()
