"""Peak memory and time of a run over more data than memory holds: sparse rows with 16 million features, in chunks.

Run ``python benchmarks/bench_out_of_core.py``: 200,000 rows of 400 entries, read from chunks in a folder that it writes
first, sketched into a memmap with progress on standard error. One thread.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import scipy.sparse as sp

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, transform_chunks

N_FEATURES, PER_ROW, CHUNK = 16_000_000, 400, 5000


def write_chunks(folder, n_rows):
    """Write CSR chunks of random rows."""
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, n_rows, CHUNK)):
        size = min(CHUNK, n_rows - start)
        indices = np.sort(rng.integers(0, N_FEATURES, (size, PER_ROW), dtype=np.int32), axis=1).ravel()
        values = rng.uniform(-1, 1, size * PER_ROW).astype(np.float32)
        starts = np.arange(size + 1, dtype=np.int32) * PER_ROW
        X = sp.csr_array((values, indices, starts), shape=(size, N_FEATURES))
        sp.save_npz(folder / f"{number:05}.npz", X, compressed=False)


def read_chunks(folder):
    """Read one chunk after the other."""
    return map(sp.load_npz, sorted(folder.glob("*.npz")))


def main():
    """Print time and peak memory of each sketch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--n-components", type=int, default=512)
    parser.add_argument("--sketch", choices=["DPOPORP", "DPSignOPORP", "DPRandomProjection"], default="DPOPORP")
    options = parser.parse_args()
    kind = {"DPOPORP": DPOPORP, "DPSignOPORP": DPSignOPORP, "DPRandomProjection": DPRandomProjection}[options.sketch]
    packed = {"output": "packed"} if kind is DPSignOPORP else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_chunks(folder, options.rows)
        sketch = kind(options.n_components, random_state=0, **packed).fit(next(read_chunks(folder)))
        width = sketch.get_feature_names_out().size
        shape, dtype = (options.rows, width), np.uint8 if packed else np.float32
        out = np.lib.format.open_memmap(folder / "sketches.npy", mode="w+", dtype=dtype, shape=shape)
        start = time.perf_counter()
        transform_chunks(sketch, read_chunks(folder), out=out, verbose=True)
        duration = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        files = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
        print(f"{options.sketch}({options.n_components}): {options.rows} rows of {N_FEATURES} features, {files:.2f} GB")
        print(f"{duration:.0f} s, peak {peak:.2f} GB with everything loaded and the memmap's pages counted")


if __name__ == "__main__":
    main()
