"""Speed of the search in packed bits, as ratios to scikit-learn's and FAISS's, measured side by side in this process.

Run ``python benchmarks/bench_search.py``; FAISS is optional (``python -m pip install faiss-cpu``), with one thread as
all others. Each figure is the median over repeats of ours / theirs, the two timed in turn, in processor time so that
other programs matter little. ``--data DIR`` takes, instead of random bits, sketches of the test images of MNIST,
repeated up to the number of rows.
"""

import argparse
import time
from pathlib import Path

import measure  # pins the threads, so before numpy
import numpy as np
from problems import read_idx
from sklearn.neighbors import NearestNeighbors

from skdprp import DPSignOPORP
from skdprp.similarity import HammingNeighbors


def random_bits(n_rows, n_bits):
    """Draw packed bits: the hardest case, all distances alike."""
    return np.random.default_rng(0).integers(0, 256, (n_rows, n_bits // 8), dtype=np.uint8)


def image_bits(folder, n_rows, n_bits):
    """Packed private sketches of images, each image sketched as often as it takes."""
    X = read_idx(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255 - 0.5
    sketch = DPSignOPORP(n_bits, epsilon=2.0, output="packed", random_state=0).fit(X)
    return sketch.transform(np.resize(X, (n_rows, 784)))


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
    measure.describe_machine()
    print(f"{options.rows} rows of {options.bits} bits, {options.neighbors} neighbours\n")
    row = measure.table("against", "queries", "ours, us a query", "theirs, us a query", "ratio")
    calls = [
        (name, n, lambda n=n: neighbors.kneighbors(queries[:n]), theirs, time.process_time)
        for name, n, theirs in peers(database, queries, options.neighbors, few=50)
    ]
    for _, _, ours, theirs, _ in calls:
        assert (ours()[0] == np.rint(theirs())).all()
    two = HammingNeighbors(options.neighbors, n_jobs=2).fit(database)
    one_thread, two_threads = (lambda model=model: model.kneighbors(queries) for model in (neighbors, two))
    calls.append(("one thread, ours with two, wall time", len(queries), two_threads, one_thread, time.perf_counter))
    for name, n, ours, theirs, clock in calls:
        mine, other, ratio = measure.compare(ours, theirs, options.repeats, clock)
        row(name, n, mine / n * 1e6, other / n * 1e6, ratio)


if __name__ == "__main__":
    main()
