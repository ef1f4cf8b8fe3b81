"""Speed of the search in released rows, as ratios to scikit-learn's and FAISS's, measured side by side in this process.

Run ``python benchmarks/bench_search.py``; FAISS is optional (``python -m pip install faiss-cpu``), with one thread as
all others. Where it is installed it is what searches bits, and so it is compared with itself called directly; numpy is
what searches them without it. Plain queries are searched by numpy either way. ``--queries 1`` measures the latency of a
single query. Each figure is the median over repeats of ours / theirs, the two timed in turn, in processor time so that
other programs matter little. An index of FAISS's own takes a third longer where its rows begin in the middle of a line
of the cache, as in most runs.
``--data DIR`` takes, instead of random bits, sketches of the test images of MNIST, repeated up to the number of rows.
"""

import argparse
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import measure  # pins the threads, so before numpy
import numpy as np
from problems import read_idx
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from skdprp import DPRandomProjection, DPSignOPORP
from skdprp.similarity import HammingNeighbors, SketchNeighbors


def random_bits(n_rows, n_bits):
    """Draw packed bits: the hardest case, all distances alike."""
    return np.random.default_rng(0).integers(0, 256, (n_rows, n_bits // 8), dtype=np.uint8)


def image_bits(folder, n_rows, n_bits):
    """Packed private sketches of images, each image sketched as often as it takes."""
    X = read_idx(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255 - 0.5
    sketch = DPSignOPORP(n_bits, epsilon=2.0, output="packed", random_state=0).fit(X)
    return sketch.transform(np.resize(X, (n_rows, 784)))


@contextmanager
def without_faiss():
    """Have no FAISS to import."""
    before = sys.modules.get("faiss")
    sys.modules["faiss"] = None
    yield
    del sys.modules["faiss"]
    if before is not None:
        sys.modules["faiss"] = before


def comparisons(database, queries, n_neighbors, few):
    """Names, number of queries, and calls of ours and theirs: scikit-learn gets `few` queries, for it takes long."""
    with without_faiss():
        of_numpy = HammingNeighbors(n_neighbors).fit(database)
    bits = [np.unpackbits(some, axis=1).astype(bool) for some in (database, queries[:few])]
    brute = NearestNeighbors(n_neighbors=n_neighbors, metric="hamming", algorithm="brute").fit(bits[0])
    yield (
        ("bits, numpy", "scikit-learn brute hamming", few),
        lambda: of_numpy.kneighbors(queries[:few])[0],
        lambda: brute.kneighbors(bits[1])[0] * bits[0].shape[1],
    )
    # As long as the sketches in bytes, a fourth of their bits as numbers.
    rng, width = np.random.default_rng(0), 2 * database.shape[1]
    rows, Q = (rng.standard_normal((len(some), width)) for some in (database, queries))
    sketch = DPRandomProjection(projection="identity", max_change=1e-6).fit(rows)
    plain = SketchNeighbors(n_neighbors).fit(rows, sketch=sketch)
    cosine = NearestNeighbors(n_neighbors=n_neighbors, metric="cosine", algorithm="brute").fit(rows.astype(np.float32))
    single = Q.astype(np.float32)
    yield (
        ("plain queries", "scikit-learn brute cosine", len(Q)),
        lambda: plain.kneighbors(Q)[0],
        lambda: cosine.kneighbors(single)[0],
    )
    unit_rows, unit = (normalize(some).astype(np.float32) for some in (rows, Q))
    yield (
        ("plain queries", "numpy product, partition", len(Q)),
        lambda: plain.kneighbors(Q)[0],
        lambda: np.sort(np.partition(1 - unit @ unit_rows.T, n_neighbors, axis=1)[:, :n_neighbors], axis=1),
    )
    try:
        import faiss
    except ImportError:
        return
    faiss.omp_set_num_threads(1)
    index = faiss.IndexBinaryFlat(8 * database.shape[1])
    index.add(database)
    of_faiss = HammingNeighbors(n_neighbors).fit(database)
    for name, ours in (("bits, numpy", of_numpy), ("bits, FAISS", of_faiss)):
        yield (
            (name, "FAISS IndexBinaryFlat", len(queries)),
            lambda ours=ours: ours.kneighbors(queries)[0],
            lambda: index.search(queries, n_neighbors)[0],
        )
    products = faiss.IndexFlatIP(width)
    products.add(unit_rows)
    yield (
        ("plain queries", "FAISS IndexFlatIP", len(Q)),
        lambda: plain.kneighbors(Q)[0],
        lambda: 1 - products.search(unit, n_neighbors)[0],
    )


def main():
    """Print one line for each comparison, and what a second thread gains."""
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
    measure.describe_machine()
    print(f"{options.rows} rows of {options.bits} bits, {options.neighbors} neighbours\n")
    row = measure.table("ours", "against", "queries", "ours, us a query", "theirs, us a query", "ratio")
    for (name, peer, n), ours, theirs in comparisons(database, queries, options.neighbors, min(50, options.queries)):
        # Bits agree exactly, and posterior means are within the spacing of their grid of what they are means of.
        assert np.allclose(ours(), theirs(), atol=0.02 if name == "plain queries" else 1e-6)
        mine, other, ratio = measure.compare(ours, theirs, options.repeats, time.process_time)
        row(name, peer, n, mine / n * 1e6, other / n * 1e6, ratio)
    one, two = (HammingNeighbors(options.neighbors, n_jobs=n_jobs).fit(database) for n_jobs in (1, 2))
    calls = (lambda: two.kneighbors(queries)), (lambda: one.kneighbors(queries))
    mine, other, ratio = measure.compare(*calls, options.repeats, time.perf_counter)
    row("two threads, wall time", "one", len(queries), mine / len(queries) * 1e6, other / len(queries) * 1e6, ratio)


if __name__ == "__main__":
    main()
