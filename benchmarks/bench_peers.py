"""Accuracy, fit time, noise and sketch speed beside diffprivlib, OpenDP and what is not private, in one run.

    python benchmarks/bench_peers.py --data DIR > doc/peers.md

prints one table in Markdown, after versions, machine and command. DIR holds a9a, a9a.t and the ten thousand MNIST test
images and labels; without --data, sets bundled with scikit-learn are used. Peers are optional: one that cannot be
imported is reported with its error. diffprivlib 0.6.6 needs an environment of its own:

    pip install "scikit-learn==1.7.2" "diffprivlib==0.6.6" opendp -e .

Threads are pinned to one. Durations are processor time, and the least over repeats taken in turn with the others of the
same group: other work on the machine, which empties caches, disturbs that least.
"""

import argparse
import platform
import time
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from bench_noise import load_opendp
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdprp import DPOPORP, AMPClassifier, DPRandomProjection, DPSignOPORP, ProductNoiseOutputPerturbation, _noise

EPSILONS = (0.1, 1.0, 10.0)
ROWS = 10_000
NOT_PRIVATE = ("scikit-learn", "LogisticRegression", "none")
PACKAGES = ("skdprp", "scikit-learn", "numpy", "scipy", "diffprivlib", "opendp")


def peer(load):
    """Return what `load` imports, or the error that stops it, as text."""
    try:
        return load()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def load_diffprivlib():
    """Logistic regression and the Gaussian mechanism of diffprivlib."""
    from diffprivlib.mechanisms import GaussianAnalytic
    from diffprivlib.models import LogisticRegression as PrivateLogisticRegression

    return PrivateLogisticRegression, GaussianAnalytic


def least_times(calls, repeats):
    """Least processor time of each call, all taken in turn."""
    durations = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            durations[name].append(time.process_time() - start)
    return {name: min(times) for name, times in durations.items()}


def dense(X):
    """Return X as an array, which diffprivlib needs."""
    return X.toarray() if issparse(X) else X


def at_one(figure):
    """Cells of a figure that was measured at epsilon = 1 only."""
    return [figure if epsilon == 1.0 else None for epsilon in EPSILONS]


def classifiers(epsilon, diffprivlib):
    """Return the private classifiers at one epsilon, by their library, name and guarantee."""
    models = {
        ("skdprp", "AMPClassifier", "(epsilon, 1/n²)-DP"): AMPClassifier(epsilon=epsilon),
        ("skdprp", "ProductNoiseOutputPerturbation", "epsilon-DP"): ProductNoiseOutputPerturbation(
            epsilon=epsilon, delta=0
        ),
    }
    if not isinstance(diffprivlib, str):
        who = ("diffprivlib", "LogisticRegression", "epsilon-DP, as documented")
        models[who] = diffprivlib[0](epsilon=epsilon, data_norm=1.0)
    return models


def mean_score(model, X, X_test, y, y_test, draws):
    """Mean and standard deviation of the accuracy over fits with fresh noise."""
    scores = [model.fit(X, y).score(X_test, y_test) for _ in range(draws)]
    return f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"


def accuracy_rows(data, diffprivlib, draws):
    """Yield a row for each data set and classifier, with an accuracy for each epsilon."""
    for name, (X, X_test, y, y_test) in data.items():
        by_epsilon = [classifiers(epsilon, diffprivlib) for epsilon in EPSILONS]
        for who in by_epsilon[0]:
            rows = (dense(X), dense(X_test)) if who[0] == "diffprivlib" else (X, X_test)
            scores = [mean_score(models[who], *rows, y, y_test, draws) for models in by_epsilon]
            yield "accuracy", name, *who, *scores
        bare = LogisticRegression(C=10.0, max_iter=10_000).fit(X, y).score(X_test, y_test)
        yield "accuracy", name, *NOT_PRIVATE, *[f"{bare:.3f}"] * len(EPSILONS)


def fit_rows(data, diffprivlib, repeats):
    """Yield the time of a fit at epsilon = 1, for each data set and classifier."""
    for name, (X, _, y, _) in data.items():
        models = classifiers(1.0, diffprivlib) | {NOT_PRIVATE: LogisticRegression(max_iter=1000)}
        rows = {who: dense(X) if who[0] == "diffprivlib" else X for who in models}
        calls = {who: partial(model.fit, rows[who], y) for who, model in models.items()}
        for who, seconds in least_times(calls, repeats).items():
            yield "time of a fit", name, *who, *at_one(f"{seconds:.2f} s")


def noise_rows(diffprivlib, opendp, repeats):
    """Yield how many values per second get Gaussian noise, for each library."""
    values, few = np.zeros(1_000_000), [0.0] * 10_000
    rng = np.random.default_rng(0)
    array, numbers = f"array of {len(values):,}", f"list of {len(few):,}"
    calls = {
        (array, "skdprp", "kernel entropy, rounded to a public grid", "(epsilon, delta)-DP"): lambda: (
            _noise.add_gaussian(values, 1.0)
        ),
        (array, "numpy", "PCG64, plain floating point", "none"): lambda: values + rng.standard_normal(len(values)),
    }
    if not isinstance(opendp, str):
        calls[numbers, "OpenDP", "make_gaussian", "zCDP, as documented"] = lambda: opendp(few)
    if not isinstance(diffprivlib, str):
        mechanism = diffprivlib[1](epsilon=1.0, delta=1e-5, sensitivity=1.0)
        what = (numbers, "diffprivlib", "GaussianAnalytic, one value at a time", "(epsilon, delta)-DP, as documented")
        calls[what] = lambda: [mechanism.randomise(value) for value in few]
    for what, seconds in least_times(calls, repeats).items():
        size = len(values) if what[0] == array else len(few)
        yield "Gaussian noise, values per second", *what, *at_one(f"{size / seconds / 1e6:.3g} million")


def sketch_rows(n, repeats):
    """Yield the time to sketch rows of MNIST's shape, and wide sparse ones."""
    for name, X, k in (
        (f"{n} x 784 dense", measure.dense(n, 784, np.float64), 256),
        (f"{n // 5} x 250,000, 200 nonzero each", measure.sparse(n // 5, 250_000, 200), 256),
    ):
        sketches = {
            ("skdprp", "DPOPORP"): DPOPORP(k, random_state=0),
            ("skdprp", "DPSignOPORP, packed bits"): DPSignOPORP(k, output="packed", random_state=0),
            ("skdprp", "DPRandomProjection"): DPRandomProjection(k, random_state=0),
            ("scikit-learn", "GaussianRandomProjection"): GaussianRandomProjection(k, random_state=0),
            ("scikit-learn", "SparseRandomProjection"): SparseRandomProjection(k, random_state=0),
        }
        calls = {who: partial(sketch.fit(X).transform, X) for who, sketch in sketches.items()}
        for who, seconds in least_times(calls, repeats).items():
            guarantee = repr(sketches[who].guarantee_) if who[0] == "skdprp" else "none"
            yield f"time to sketch to {k}", name, *who, guarantee, *at_one(f"{seconds * 1000:.0f} ms")


def versions():
    """Versions of the packages that are installed."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def processor():
    """Name of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def report(options):
    """Measure everything, and print each row as it is known."""
    diffprivlib, opendp = peer(load_diffprivlib), peer(load_opendp)
    data = problems.read_data(options.data)
    flags = "--data DIR " * (options.data is not None) + f"--draws {options.draws}"
    flags += f" --rows {options.rows}" * (options.rows != ROWS)
    print(
        f"From `python benchmarks/bench_peers.py {flags}`, one thread of {processor()}, Python "
        f"{platform.python_version()}; {versions()}. Accuracy is that on held-out rows, mean ± standard deviation of "
        f"{options.draws} fits, default parameters, rows of unit norm. Times, and what is done per second, are of the "
        "processor and at epsilon = 1; the scale of the noise is 1, but for diffprivlib.\n"
    )
    for name, error in {"diffprivlib": diffprivlib, "OpenDP": opendp}.items():
        if isinstance(error, str):
            print(f"{name} could not be imported: `{error}`.\n")
    row = measure.table(
        "task", "data", "library", "estimator", "guarantee", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS)
    )
    for cells in chain(
        accuracy_rows(data, diffprivlib, options.draws),
        fit_rows(data, diffprivlib, 3),
        noise_rows(diffprivlib, opendp, 5),
        sketch_rows(options.rows, 9),
    ):
        row(*cells)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser)
    parser.add_argument("--draws", type=int, default=5, help="fits to average over (default: 5)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to sketch (default: {ROWS})")
    warnings.simplefilter("ignore")  # peers warn of what their defaults do; the figures stand beside them
    report(parser.parse_args())


if __name__ == "__main__":
    main()
