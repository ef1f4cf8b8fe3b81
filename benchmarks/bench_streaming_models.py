"""Models on a table that is never whole in memory, on a dask cluster of two processes, one of which is killed.

Run ``python benchmarks/bench_streaming_models.py``. It first writes the table to a folder, part by part. Models of one
pass are fitted on all of it, those of many on ``--iterative`` gigabytes; each is scaled, fitted and predicted. A row
of the table has the seconds of the fit, those beside a plain sum of the columns, the same of processor time, which
others on the machine change less, and the peak memory of each process so far. With ``--cold`` both read files that the
system does not hold in memory, with ``--rate`` no thread of a worker gets more than so many gigabytes in a second;
with more ``--threads`` a worker reads one part while it computes with another. With ``--parquet`` the parts are files
of parquet, of which dask makes a dataframe, and not of numpy. DPRidge is also fitted without a scaler before it, which
makes a copy of the rows. While AMPClassifier is fitted, a worker is killed. At the end coefficients are compared with
those of the fit in memory of a tenth of these, four parts at least, under equal noise. It fails if a process passes
``--peak``.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import measure  # pins the threads, those of workers, too
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPHistograms,
    DPRidge,
    DPSGDClassifier,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
)
from skdprp.testing import reproducible_noise

HIGH = 10.0


def write_part(path, n_rows, n_features, seed, compression):
    """Write random rows and, in the last column, labels that depend on them."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(0, HIGH, (n_rows, n_features + 1))
    scores = table[:, 0] - table[:, 1] + 0.3 * table[:, 2] - 0.15 * HIGH
    table[:, -1] = scores + rng.logistic(size=n_rows) > 0
    if compression is None:
        np.save(path, table)
    else:
        frame = pd.DataFrame(table, columns=[f"x{i}" for i in range(n_features)] + ["y"])
        frame.to_parquet(path, compression=compression, index=False)


def read_part(path, rate):
    """Read a part, and wait until a source of so many gigabytes a second would have brought it."""
    start = time.perf_counter()
    part = np.load(path)
    time.sleep(max(0.0, start + part.nbytes / 1e9 / rate - time.perf_counter()))
    return part


def lazy_table(paths, n_rows, n_columns, rate):
    """Return rows and labels as dask arrays, or dataframes, that the workers read."""
    if paths[0].suffix == ".parquet":
        table = dd.read_parquet(paths)
        return table.drop(columns="y"), table["y"]
    parts = [da.from_delayed(dask.delayed(read_part)(path, rate), (n_rows, n_columns), dtype=float) for path in paths]
    table = da.concatenate(parts)
    return table[:, :-1], table[:, -1]


def forget(paths):
    """Have the parts read from disk again."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def kill_later(client, seconds):
    """Kill a worker after some seconds."""
    process = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(seconds, os.kill, (process, signal.SIGKILL))
    timer.start()
    return timer


def peaks(client):
    """Peak memory of this process and of each worker so far."""
    return [measure.resident_gigabytes(), *client.run(measure.resident_gigabytes).values()]


def timed(call):
    """Return what a call returns, and how long it took."""
    start = time.perf_counter()
    returned = call()
    return returned, time.perf_counter() - start


def processor_seconds(client):
    """Processor time of this process and of the workers so far."""
    return time.process_time() + sum(client.run(time.process_time).values())


def main():
    """Print one row for each model, and how far coefficients are from those in memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--iterative", type=float, default=2.0, help="gigabytes for models of many passes")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--part", type=float, default=0.064, help="gigabytes of a part")
    parser.add_argument("--peak", type=float, default=2.0, help="gigabytes of a process above which the run fails")
    parser.add_argument("--cold", action="store_true", help="read from disk in each fit")
    parser.add_argument("--rate", type=float, default=np.inf, help="gigabytes a second for each thread of a worker")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--parquet", metavar="COMPRESSION", help="such as snappy, the default of pandas, zstd or none")
    parser.add_argument("--only", help="a model's name, of which alone there is a row")
    parser.add_argument("--folder", help="an existing one that the table is written to; by default a temporary one")
    options = parser.parse_args()
    measure.describe_machine()
    n_columns = options.features + 1
    n_rows = int(options.part * 1e9 / n_columns / 8)
    n_parts, n_iterative = (max(1, round(size / options.part)) for size in (options.gigabytes, options.iterative))
    cluster = {
        "n_workers": 2,
        "threads_per_worker": options.threads,
        "dashboard_address": ":0",
        "silence_logs": "CRITICAL",
    }
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as name,
        LocalCluster(**cluster) as local,
        Client(local) as client,
        PrivacyLedger() as ledger,
    ):
        kind = "npy" if options.parquet is None else "parquet"
        paths = [Path(name, f"{part:06}.{kind}") for part in range(n_parts)]
        write = dask.delayed(write_part)
        tasks = [write(path, n_rows, options.features, i, options.parquet) for i, path in enumerate(paths)]
        _, seconds = timed(lambda: dask.compute(*tasks))
        print(f"{n_parts * n_rows:,} rows of {options.features} columns, written in {seconds:.0f} s\n", flush=True)
        times = "s", "sums of columns", "sums, processor", "predicted in s"
        row = measure.table("model", "GB", *times, "accuracy", "peaks, GB", "releases")
        scaler = PublicScaler((0, HIGH))
        known = {"epsilon": 1.0, "delta": 1e-9}
        not_scaled = DPRidge(max_norm=2.5 * HIGH, target_bounds=(0, 1), **known)
        models = [
            (not_scaled, n_parts),
            (DPHistograms(bounds=(-0.5, 0.5), **known), n_parts),
            (DPPCA(5, max_norm=2.5, **known), n_parts),
            (DPRidge(max_norm=2.5, target_bounds=(0, 1), **known), n_parts),
            (AMPClassifier(max_norm=2.5, classes=[0, 1], **known), n_iterative),
            (ProductNoiseOutputPerturbation(max_norm=2.5, classes=[0, 1], **known), n_iterative),
            (DPSGDClassifier(max_norm=2.5, classes=[0, 1], **known), n_iterative),
        ]
        for model, number in models:
            if options.only not in (None, type(model).__name__):
                continue
            X, y = lazy_table(paths[:number], n_rows, n_columns, options.rate)
            forget(paths if options.cold else [])
            at_first = processor_seconds(client)
            _, plain = timed(X.sum(axis=0).compute)
            processor_plain = processor_seconds(client) - at_first
            n_before = len(ledger.entries)
            pipeline = make_pipeline(model) if model is not_scaled else make_pipeline(scaler, model)
            forget(paths if options.cold else [])
            killer = kill_later(client, 1.5 * plain) if isinstance(model, AMPClassifier) else None
            at_first = processor_seconds(client)
            _, seconds = timed(lambda: pipeline.fit(X, y))  # noqa: B023
            processor = processor_seconds(client) - at_first
            is_killed = " (a worker killed)" * bool(killer and not killer.is_alive())
            accuracy, predicted = None, None
            if hasattr(model, "predict"):
                # By themselves: dask may read the labels of parquet files in larger partitions than the rows.
                labels = np.asarray((y > 0.5).compute())
                found, predicted = timed((pipeline.predict(X) > 0.5).compute)
                accuracy = np.mean(found == labels)
            elif hasattr(model, "transform"):
                _, predicted = timed(pipeline.transform(X).sum(axis=0).compute)
            row(
                type(model).__name__ + ", not scaled" * (model is not_scaled) + is_killed,
                number * n_rows * options.features * 8 / 1e9,
                round(seconds),
                seconds / plain,
                None if killer else processor / processor_plain,
                predicted and round(predicted),
                accuracy and round(float(accuracy), 4),
                ", ".join(f"{peak:.2f}" for peak in peaks(client)),
                len(ledger.entries) - n_before,
            )
        highest = max(peaks(client))
        print()
        tenth = paths[: max(4, n_iterative // 10)]
        X, y = lazy_table(tenth, n_rows, n_columns, options.rate)
        in_memory = scaler.fit(X).transform(X.compute()), y.compute()
        for model, _ in models[3:]:
            fits = []
            for data in ((scaler.transform(X), y), in_memory):
                with reproducible_noise(0):
                    # In memory DPRidge may choose another mechanism.
                    options_ = {"mechanism": "moments"} if isinstance(model, DPRidge) else {}
                    fits.append(clone(model).set_params(**options_).fit(*data).coef_)
            off = np.abs(fits[0] - fits[1]).max() / np.abs(fits[1]).max()
            print(
                f"{type(model).__name__}: coefficients of {len(in_memory[1]):,} rows off those in memory by {off:.1e}"
            )
    sys.exit(highest > options.peak)


if __name__ == "__main__":
    main()
