"""Speed of the search in packed bits, as ratios to scikit-learn's and FAISS's, measured side by side in this process.

Run ``python benchmarks/bench_search.py``; FAISS is optional (``python -m pip install faiss-cpu``), with one thread as
all others. Each figure is the median over repeats of ours / theirs, the two timed in turn, in processor time so that
other programs matter little. ``--data DIR`` takes, instead of random bits, sketches of the test images of MNIST,
repeated up to the number of rows.
"""

import argparse
import gzip
import os
import platform
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from sklearn.neighbors import NearestNeighbors

from skdprp import DPSignOPORP
from skdprp.similarity import HammingNeighbors


def random_bits(n_rows, n_bits):
    """Draw packed bits: the hardest case, all distances alike."""
    return np.random.default_rng(0).integers(0, 256, (n_rows, n_bits // 8), dtype=np.uint8)


def image_bits(folder, n_rows, n_bits):
    """Packed private sketches of images, each image sketched as often as it takes."""
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16)
    X = pixels.reshape(-1, 784) / 255 - 0.5
    sketch = DPSignOPORP(n_bits, epsilon=2.0, output="packed", random_state=0).fit(X)
    return sketch.transform(np.resize(X, (n_rows, 784)))


def seconds(call, clock):
    """Duration of a call, and what it returned."""
    start = clock()
    result = call()
    return clock() - start, result


def compare(ours, theirs, repeats, clock=time.process_time):
    """Median durations of both, and median of their quotient; distances must be the same."""
    durations = []
    for _ in range(repeats):
        (mine, (found, _)), (other, expected) = seconds(ours, clock), seconds(theirs, clock)
        assert (found == np.rint(expected)).all()
        durations.append((mine, other, mine / other))
    return np.median(durations, axis=0)


def peers(database, queries, n_neighbors, few):
    """Name, number of queries and call of each peer: scikit-learn gets `few` queries, for it takes long."""
    bits = [np.unpackbits(some, axis=1).astype(bool) for some in (database, queries[:few])]
    brute = NearestNeighbors(n_neighbors=n_neighbors, metric="hamming", algorithm="brute").fit(bits[0])
    yield "scikit-learn brute hamming", few, lambda: brute.kneighbors(bits[1])[0] * bits[0].shape[1]
    try:
        import faiss
    except ImportError:
        return
    faiss.omp_set_num_threads(1)
    index = faiss.IndexBinaryFlat(8 * database.shape[1])
    index.add(database)
    yield "FAISS IndexBinaryFlat", len(queries), lambda: index.search(queries, n_neighbors)[0]


def main():
    """Print one line for each peer, and what a second thread gains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with t10k-images-idx3-ubyte.gz")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--bits", type=int, default=512)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    size = options.rows + options.queries, options.bits
    S = image_bits(options.data, *size) if options.data else random_bits(*size)
    queries, database = S[: options.queries], S[options.queries :]
    neighbors = HammingNeighbors(options.neighbors).fit(database)
    print(f"numpy {np.__version__}, Python {platform.python_version()}, {platform.machine()}, one thread")
    print(f"{options.rows} rows of {options.bits} bits, {options.queries} queries, {options.neighbors} neighbours")
    print(f"{'against':30}{'queries':>8}{'ours, us':>10}{'theirs, us':>12}{'ratio':>9}  a query")
    for name, n, call in peers(database, queries, options.neighbors, few=50):
        mine, other, ratio = compare(lambda n=n: neighbors.kneighbors(queries[:n]), call, options.repeats)
        print(f"{name:30}{n:>8}{mine / n * 1e6:10.0f}{other / n * 1e6:12.0f}{ratio:9.4f}", flush=True)
    two = HammingNeighbors(options.neighbors, n_jobs=2).fit(database)
    *_, gain = compare(
        lambda: neighbors.kneighbors(queries),
        lambda: two.kneighbors(queries)[0],
        options.repeats,
        clock=time.perf_counter,
    )
    print(f"two threads are {gain:.2f} times as fast as one, by the clock on the wall")


if __name__ == "__main__":
    main()
