"""Data larger than memory: chunks of a file, and dask on several processes, one of which is killed."""

import itertools
import os
import pickle
import re
import signal
import time
from functools import partial

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask.distributed import Client, LocalCluster, futures_of, wait
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer
from sklearn.utils import gen_batches

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, PrivacyLedger, iDPSignRP, transform_chunks
from skdprp.sketch._base import BaseSketch
from skdprp.testing import reproducible_noise

SKETCHES = [
    DPRandomProjection(8, random_state=0),
    DPRandomProjection(projection="identity", noise="laplace"),
    DPOPORP(8, random_state=0),
    DPSignRP(8, random_state=0),
    DPSignOPORP(12, output="packed", random_state=0),
    iDPSignRP(8, random_state=0),
]
every = pytest.mark.parametrize("sketch", SKETCHES, ids=repr)
synchronous = partial(dask.config.set, scheduler="synchronous")


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform(-1, 1, (50, 20))


def noise_of(sketch, S, X):
    """What was added to the projection of X."""
    return np.asarray(S) - sketch.projection_.project(X) / sketch.projection_.divisor


def all_distinct(vectors):
    return len(np.unique(vectors, axis=0)) == len(vectors)


# Chunks of a file


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_of_a_file_become_a_file(sketch, dtype, rows, tmp_path, silenced_noise):
    """Chunk by chunk, from a memmap to a memmap, is the same as at once."""
    np.save(tmp_path / "rows.npy", rows.astype(dtype))
    X = np.load(tmp_path / "rows.npy", mmap_mode="r")
    sketch = clone(sketch).fit(X)
    expected = sketch.transform(X)
    options = {"mode": "w+", "dtype": expected.dtype, "shape": expected.shape}
    out = np.lib.format.open_memmap(tmp_path / "sketches.npy", **options)
    assert transform_chunks(sketch, (X[part] for part in gen_batches(50, 7)), out=out) is out
    out.flush()
    assert np.allclose(np.load(tmp_path / "sketches.npy"), expected)
    assert np.allclose(transform_chunks(sketch, (sp.csr_array(X[part]) for part in gen_batches(50, 9))), expected)
    frames = (pd.DataFrame(X[part]).to_numpy() for part in gen_batches(50, 9))
    assert np.allclose(transform_chunks(sketch, frames, n_jobs=3), expected)


@pytest.mark.parametrize("backend", ["threading", "loky", None])
def test_every_backend_draws_noise_of_its_own(backend, rows):
    """Equal rows in all chunks, in two runs: no noise vector occurs twice, and all rows are there in order."""
    rows[:, 0] = np.arange(50) * 1e4
    sketch = DPRandomProjection(20, projection="identity").fit(rows)

    def run():
        chunks = (rows[part] for part in gen_batches(50, 10))
        if backend is None:
            return transform_chunks(sketch, chunks)
        with joblib.parallel_config(backend=backend, n_jobs=2):
            return transform_chunks(sketch, chunks)

    noise = np.vstack([noise_of(sketch, run(), rows) for _ in range(2)])
    assert np.abs(noise).max() < 100
    assert all_distinct(noise)
    assert not sketch.guarantee_.seeded


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_seeded_chunks_are_marked(n_jobs, rows):
    """Whether or not a seed reaches the threads, noise that can be drawn again is marked as such."""
    sketch, runs = DPRandomProjection(20, projection="identity").fit(rows), []
    for _ in range(2):
        with reproducible_noise(0):
            runs.append(transform_chunks(sketch, (rows[part] for part in gen_batches(50, 10)), n_jobs=n_jobs))
    assert sketch.guarantee_.seeded or all_distinct(np.vstack(runs))
    assert n_jobs > 1 or (runs[0] == runs[1]).all()


def test_chunks_are_taken_one_at_a_time(rows):
    """A chunk is released before the next one is read."""
    sketch, taken = DPOPORP(4, random_state=0).fit(rows), []
    out = np.zeros((50, 4))

    def chunks():
        for part in gen_batches(50, 10):
            taken.append(np.count_nonzero(out.any(axis=1)))
            yield rows[part]

    transform_chunks(sketch, chunks(), out=out)
    assert taken == [0, 10, 20, 30, 40]


def test_progress_goes_to_standard_error(rows, capsys):
    sketch = DPOPORP(4, random_state=0).fit(rows)
    transform_chunks(sketch, [rows] * 3, out=np.empty((150, 4)), verbose=True)
    transform_chunks(sketch, [rows] * 2, verbose=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.search(r"100 rows sketched in \d+ s of 150, \d+ s to go", shown.err)
    assert shown.err.count("\n") == 2


def test_what_has_no_place_for_sketches_is_refused_before_any_is_made():
    """The first chunk was released, and lost."""
    sketch, read_only = DPOPORP(4, random_state=0).fit(np.zeros((1, 6))), np.empty((20, 4))
    read_only.setflags(write=False)
    for out in (np.empty((20, 5)), np.empty(20), read_only, [[0.0] * 4] * 20):
        with PrivacyLedger() as ledger, pytest.raises((TypeError, ValueError), match="out has"):
            transform_chunks(sketch, [np.zeros((10, 6))] * 2, out=out)
        assert not ledger.entries


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_refused_chunk_says_how_far_it_went(n_jobs, rows):
    sketch, out = DPOPORP(4, random_state=0).fit(rows), np.zeros((50, 4))
    bad = rows.copy()
    bad[33, 0] = np.nan
    with pytest.raises(ValueError, match="NaN") as caught:
        transform_chunks(sketch, (bad[part] for part in gen_batches(50, 10)), out=out, n_jobs=n_jobs)
    done = np.count_nonzero(out.any(axis=1))
    assert caught.value.__notes__ == [f"The sketches of the first {done} rows are in out."]
    assert done == 30 if n_jobs == 1 else done <= 30
    assert (out.any(axis=1) == (np.arange(50) < done)).all()


@pytest.mark.parametrize(
    ("chunks", "out", "message"),
    [
        (1, np.empty((50, 5)), r"shape \(5,\)"),
        (1, np.empty((50, 4), np.float32), "float32"),
        (1, np.empty((40, 4)), "more rows than out"),
        (2, np.empty((110, 4)), "out has 110 rows, and the chunks 100"),
        (0, None, "no chunks"),
    ],
)
def test_an_output_of_the_wrong_size_is_refused(chunks, out, message, rows):
    sketch = DPOPORP(4, random_state=0).fit(rows)
    with pytest.raises(ValueError, match=message):
        transform_chunks(sketch, [rows] * chunks, out=out)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame])
def test_one_table_is_told_from_chunks(form, rows):
    """Its rows were taken for chunks, and the error said to reshape them."""
    with pytest.raises(ValueError, match="These are rows, and not chunks"):
        transform_chunks(DPOPORP(4, random_state=0).fit(rows), form(rows))


def test_chunks_under_a_stale_guarantee_are_refused(rows):
    sketch = DPOPORP(4, random_state=0).fit(rows).set_params(epsilon=9.0)
    with pytest.raises(ValueError, match="no guarantee holds"):
        transform_chunks(sketch, [rows])


# dask


def must_not_run(block):
    raise AssertionError("a chunk was computed")


def as_frame(rows, npartitions=4):
    return dd.from_pandas(pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])]), npartitions=npartitions)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_a_dask_array_stays_lazy_and_keeps_its_chunks(sketch, dtype, rows, silenced_noise):
    X = (10 * rows).astype(dtype)
    lazy = da.from_array(X, chunks=(12, 7))
    sketch = clone(sketch).fit(X)
    expected = sketch.transform(X)
    S = clone(sketch).fit_transform(lazy) if sketch.get_params().get("random_state") == 0 else sketch.transform(lazy)
    assert isinstance(S, da.Array)
    assert S.chunks == ((12, 12, 12, 12, 2), (expected.shape[1],))
    assert S.dtype == expected.dtype
    with synchronous():
        computed = S.compute()
    assert computed.dtype == expected.dtype
    assert np.allclose(computed, expected)


@every
def test_fit_and_transform_compute_nothing(sketch, rows):
    for lazy in (
        da.from_array(rows, chunks=10).map_blocks(must_not_run, dtype=float, meta=np.empty((0, 0))),
        as_frame(rows).map_partitions(must_not_run, meta=as_frame(rows)._meta),
    ):
        S = clone(sketch).fit(lazy).transform(lazy)
        with pytest.raises(AssertionError, match="was computed"), synchronous():
            S.compute()


@every
def test_a_dask_dataframe_becomes_a_dask_array(sketch, rows, silenced_noise):
    """Also with empty partitions, as a filter leaves them, and with its columns checked."""
    frame = as_frame(rows)
    kept = frame.map_partitions(lambda part: part[part.index >= 20], meta=frame._meta)
    sketch = clone(sketch).fit(frame)
    expected = sketch.transform(frame.compute().iloc[20:])
    assert list(sketch.feature_names_in_) == list(frame.columns)
    S = sketch.transform(kept)
    with synchronous():
        assert [len(part) for part in dask.compute(*S.to_delayed().ravel())] == [0, 6, 12, 12]
        assert np.allclose(S.compute(), expected)
    assert S.dtype == expected.dtype
    with pytest.raises(ValueError, match="feature names"):
        sketch.transform(frame[frame.columns[::-1]])


def test_sparse_chunks(rows, silenced_noise):
    X = np.where(rows > 0, rows, 0)
    sketch = DPOPORP(4, random_state=0).fit(X)
    lazy = da.from_array(X, chunks=(12, 20)).map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0)))
    with synchronous():
        assert np.allclose(sketch.transform(lazy).compute(), sketch.transform(X))


def test_chunks_of_unknown_length(rows, silenced_noise):
    sketch = DPOPORP(4, random_state=0).fit(rows)
    S = sketch.transform(as_frame(rows).to_dask_array())
    assert S.shape[1] == 4
    with synchronous():
        assert np.allclose(S.compute(), sketch.transform(rows))


def test_a_step_of_a_pipeline(rows, silenced_noise):
    X = da.from_array(rows, chunks=(10, 20))
    scaled = X.map_blocks(Normalizer().transform, dtype=float)
    sketch = DPOPORP(4, random_state=0)
    with synchronous():
        lazy = make_pipeline(sketch).fit_transform(scaled).compute()
    assert np.allclose(lazy, make_pipeline(Normalizer(), sketch).fit_transform(rows))


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_each_call_and_each_computation_is_a_release(kind, rows):
    X = da.from_array(rows, chunks=(10, 20)) if kind == "array" else as_frame(rows)
    sketch = DPRandomProjection(20, projection="identity").fit(X)
    S, T = sketch.transform(X), sketch.transform(X)
    with synchronous():
        releases = [*dask.compute(S, T), S.compute(), S.compute()]
    assert all_distinct(np.vstack([noise_of(sketch, release, rows) for release in releases]))


@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_what_is_computed_together_shares_one_release(kind, scheduler, rows):
    """A graph that uses the sketches twice draws them once."""
    X = da.from_array(rows, chunks=(10, 20)) if kind == "array" else as_frame(rows)
    S = DPOPORP(4, random_state=0).fit(X).transform(X)
    up, double, total = dask.compute(S + 1, S * 2, S.sum(axis=0), scheduler=scheduler)
    assert np.allclose(up - 1, double / 2)
    assert np.allclose(total, double.sum(axis=0) / 2)
    persisted = S.persist(scheduler=scheduler)
    assert (persisted.compute() == persisted.compute()).all()


def total(S):
    return dask.delayed(np.sum)(S)


def as_table(S):
    return dd.from_dask_array(S, columns=list("abcd"))


def blocks(S, **options):
    return list(S.to_delayed(**options).ravel())


NOTHING = pd.DataFrame(np.zeros((0, 4)), columns=list("abcd"))
to_frame = dask.delayed(partial(pd.DataFrame, columns=list("abcd")))
TOGETHER = {
    "array and its blocks": lambda S: [S, *blocks(S)],
    "sum and blocks": lambda S: [S.sum(axis=0), *blocks(S)],
    "sum and blocks as they are": lambda S: [S + 1, *blocks(S, optimize_graph=False)],
    "sum and what is made of blocks": lambda S: [S.sum(axis=0), *map(total, blocks(S))],
    "sum and bag": lambda S: [S.sum(axis=0), db.from_delayed([dask.delayed(list)(block) for block in blocks(S)])],
    "sum and frame": lambda S: [S + 1, as_table(S)],
    "sum and column of a frame": lambda S: [S + 1, as_table(S)["a"].sum()],
    "two frames": lambda S: [as_table(S)["a"] + 1, as_table(S).sum()],
    "sum and frame of blocks": lambda S: [S + 1, dd.from_delayed([*map(to_frame, blocks(S))], meta=NOTHING)],
    "array and what is made of it": lambda S: [S, total(S)],
    "sum and what is made of several": lambda S: [S + 1, dask.delayed(len)([S, S * 2])],
    "one thing made of two arrays": lambda S: [dask.delayed(np.add)(S, S + 1)],
    "array and what takes its sum": lambda S: [S, S.map_blocks(np.add, total(S), dtype=float)],
    "product in several chunks": lambda S: [S @ da.from_array(np.tile(np.eye(4), 3), chunks=(4, 4)), total(S)],
    "chunks of columns": lambda S: [S.rechunk({1: 2}) + 1, *blocks(S)],
    "a column, a frame, a bag and all blocks": lambda S: [
        S[:, 0],
        as_table(S).sum(),
        db.from_delayed(blocks(S)),
        *blocks(S),
    ],
}


@pytest.fixture
def released(monkeypatch):
    """How many rows were released, each time that they were, in all threads."""
    sizes, release = [], BaseSketch._release

    def count(self, X, *args):
        sizes.append(len(X))
        return release(self, X, *args)

    monkeypatch.setattr(BaseSketch, "_release", count)
    return sizes


@pytest.mark.filterwarnings("ignore:Computing mixed collections")
@pytest.mark.parametrize("together", TOGETHER)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_no_row_is_released_twice_in_one_computation(kind, together, rows, released):
    """Whatever collections are made of the sketches: dask would run a task once for each kind of them."""
    X = da.from_array(rows, chunks=(25, 20)) if kind == "array" else as_frame(rows, 2)
    collections = TOGETHER[together](DPOPORP(4, random_state=0).fit(X).transform(X))
    for is_persisted, is_optimized in itertools.product((False, True), repeat=2):
        scheduler = "synchronous" if is_persisted == is_optimized else "threads"  # each beside each of both
        released.clear()
        (dask.persist if is_persisted else dask.compute)(
            *collections, scheduler=scheduler, **({} if is_optimized else {"optimize_graph": False})
        )
        assert sum(released) == 50
    with dask.config.set({"optimization.fuse.ave-width": 10, "optimization.fuse.active": True}):
        released.clear()
        dask.compute(*collections, scheduler="synchronous")
        assert sum(released) == 50


def test_no_row_is_released_twice_while_it_is_stored(rows, released):
    X, out = da.from_array(rows, chunks=(10, 20)), np.empty((2, 50, 4))
    S = DPOPORP(4, random_state=0).fit(X).transform(X)
    with synchronous():
        dask.compute(da.store([S, S + 1], list(out), compute=False), S.sum(), total(S))
    assert sum(released) == 50
    assert np.allclose(out[0] + 1, out[1])


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_no_seed_reaches_a_chunk(scheduler, rows):
    """Inside the block, where noise in memory is seeded and marked, that of chunks is the kernel's."""
    X = da.from_array(rows, chunks=(10, 20))
    sketch = DPRandomProjection(20, projection="identity").fit(X)
    releases = []
    for _ in range(2):
        with reproducible_noise(0):
            releases.append(sketch.transform(X).compute(scheduler=scheduler))
    assert all_distinct(np.vstack(releases))
    assert not sketch.guarantee_.seeded


def test_a_lazy_release_keeps_the_sketch_of_its_call(rows):
    """What happens to the estimator before the computation does not change what was guaranteed."""
    X = da.from_array(rows, chunks=(10, 20))
    sketch = DPRandomProjection(projection="identity", epsilon=100.0, max_change=1e-4).fit(X)
    S = sketch.transform(X)
    sketch.set_params(epsilon=1e-6)
    with pytest.raises(ValueError, match="no guarantee holds"):
        sketch.transform(X)
    sketch.fit(X[:, :5])
    with synchronous():
        assert np.abs(noise_of(sketch.fit(X), S.compute(), rows)).max() < 1e-3


def test_bad_chunks_and_collections_are_refused(rows):
    rows[25] = np.inf
    X = da.from_array(rows, chunks=(10, 20))
    sketch = DPOPORP(4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="infinity"), synchronous():
        sketch.transform(X).compute()
    with pytest.raises(ValueError, match="20 features"):
        sketch.transform(X[:, :3])
    with pytest.raises(ValueError, match="two dimensions"):
        sketch.fit(X[0])
    with pytest.raises(ValueError, match="two dimensions"):
        sketch.fit(dask.delayed(rows))
    text = dd.from_pandas(pd.DataFrame({"name": ["secret", "other"]}), npartitions=1)
    with pytest.raises(ValueError, match="X has text") as caught:
        sketch.fit(text)
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="set_output"):
        DPOPORP(4, random_state=0).set_output(transform="pandas").fit(X).transform(X)


# Several processes


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    configuration = {
        "distributed.comm.timeouts.connect": "60s",
        "distributed.logging.distributed": "critical",
        "distributed.worker.multiprocessing-method": "forkserver",  # which imports distributed once for all workers
    }
    with (
        dask.config.set(configuration),
        LocalCluster(**options, silence_logs="CRITICAL") as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_workers_draw_noise_of_their_own(client, rows):
    """Equal rows in every chunk, on two processes that unpickled one estimator, also inside reproducible_noise."""
    X = da.zeros((400, 20), chunks=(20, 20))
    with reproducible_noise(0):
        sketch = DPRandomProjection(20, projection="identity").fit(X)
        S = sketch.transform(X).persist()
        wait(S)
        holders = {worker for workers in client.who_has(S).values() for worker in workers}
        noise = [S.compute(), sketch.transform(X).compute()]
    assert len(holders) == 2
    assert all_distinct(np.vstack(noise))


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_workers_release_no_row_twice(client, kind, rows):
    X = da.from_array(rows, chunks=(10, 20)) if kind == "array" else as_frame(rows, 5)
    sketch = DPRandomProjection(20, projection="identity").fit(X)

    def together(S):
        return [S + 1, dask.delayed(np.asarray)(S), *blocks(S)]

    for results in (
        dask.compute(*together(sketch.transform(X))),
        client.gather(client.compute(together(sketch.transform(X)))),
        dask.compute(*dask.persist(*together(sketch.transform(X)))),
    ):
        up, whole, *parts = results
        assert np.allclose(up - 1, whole)
        assert (np.vstack(parts) == whole).all()


def test_chunks_through_the_backend_of_a_cluster(client, rows):
    X = np.tile(rows, (4, 1))
    sketch = DPRandomProjection(20, projection="identity").fit(rows)
    with joblib.parallel_config(backend="dask"):
        noise = transform_chunks(sketch, [rows] * 4) - X
    assert np.abs(noise).max() < 100
    assert all_distinct(noise)


def test_a_stale_sketch_is_refused_on_a_worker(client, rows):
    """A pickled sketch still knows that it was changed."""
    stale = DPOPORP(4, random_state=0).fit(rows).set_params(epsilon=100.0)
    with pytest.raises(ValueError, match="no guarantee holds"):
        client.submit(pickle.loads(pickle.dumps(stale)).transform, rows).result()


def chunk_done(client, keys):
    """A key of `keys` whose result some worker holds, and the address of that worker."""
    while True:
        for key, workers in client.who_has().items():
            if key in keys and workers:
                return key, workers[0]
        time.sleep(0.01)


def test_a_worker_killed_half_way(client, tmp_path):
    """The result is complete; the rows that were lost are released anew, with noise of their own."""
    gate = tmp_path / "gate"

    def held_back(block):
        """Wait a second, or until there is a file; not a function of this module, which workers would import."""
        end = time.monotonic() + 1
        while time.monotonic() < end and not gate.exists():
            time.sleep(0.01)
        return block

    X = da.zeros((400, 20), chunks=(10, 20)).map_blocks(held_back, dtype=float)
    sketch = DPRandomProjection(20, projection="identity").fit(X)
    pids = client.run(os.getpid)
    S = sketch.transform(X).persist()
    futures = {future.key: future for future in futures_of(S)}
    key, victim = chunk_done(client, set(futures))
    before = futures[key].result()
    os.kill(pids[victim], signal.SIGKILL)
    assert sum(future.done() for future in futures.values()) < len(futures)
    gate.touch()
    complete = S.compute()
    assert complete.shape == (400, 20)
    assert np.isfinite(complete).all()
    assert all_distinct(np.vstack([complete, before]))
    assert pids[victim] not in client.run(os.getpid).values()


@pytest.mark.parametrize("n_jobs", [1, None])
def test_one_job_is_done_here_whatever_the_backend(n_jobs, rows):
    """That of dask takes all its threads: one buffer was sketched as often as it was filled, with its last rows."""
    sketch, buffer = DPRandomProjection(projection="identity", noise="laplace", epsilon=100.0).fit(rows), rows.copy()

    def _filled():
        for i in range(20):
            buffer[:] = 1000.0 * i
            yield buffer

    cluster = {"processes": False, "n_workers": 1, "threads_per_worker": 4, "dashboard_address": None}
    with Client(**cluster, silence_logs="CRITICAL"), joblib.parallel_config("dask", n_jobs=1):
        sketches = transform_chunks(sketch, _filled(), n_jobs=n_jobs)
    found = np.rint(sketches[:, 0].reshape(20, len(rows)) / 1000).astype(int)
    assert (found == np.arange(20)[:, None]).all()


class WithItsGenerator(BaseEstimator):
    """Adds noise of a generator of its own."""

    def __init__(self, generator):
        self.generator = generator

    def fit(self, X, y=None):
        """Learn nothing."""
        self.is_fitted_ = True
        return self

    def transform(self, X):
        """Return noisy rows."""
        return X + self.generator.normal(size=X.shape)


def test_copies_of_a_transformer_of_ones_own_draw_no_noise_in_other_processes(rows):
    """Each process had a copy of the generator, and all chunks one noise."""
    noisy = WithItsGenerator(np.random.default_rng(0))
    for transformer in (noisy, make_pipeline(FunctionTransformer(), noisy).fit(rows)):
        with joblib.parallel_config("loky", n_jobs=2):
            sketches = transform_chunks(transformer, [np.zeros((2, 3))] * 6)
        assert len(np.unique(sketches)) == sketches.size


def test_what_a_transformer_returns_is_not_the_buffer_that_is_filled_again():
    buffer = np.empty((2, 1))

    def _filled():
        for i in range(3):
            buffer[:] = i
            yield buffer

    for wrap in (np.asarray, partial(pd.DataFrame, copy=False)):
        released = transform_chunks(FunctionTransformer().fit(buffer), map(wrap, _filled()))
        assert released.ravel().tolist() == [0, 0, 1, 1, 2, 2]


def test_sparse_rows_of_other_transformers_become_dense():
    """They had no dimension, once they were made arrays."""
    rows = np.eye(4)
    encoder = FunctionTransformer(sp.csr_array, accept_sparse=True).fit(rows)
    assert np.array_equal(transform_chunks(encoder, [rows[:3], rows[3:]]), rows)
