"""Accuracy, AUC, R², fit time, noise and sketch speed beside DP-EBM, diffprivlib, Opacus and OpenDP, in one run.

    python benchmarks/bench_peers.py --data DIR > doc/peers.md

prints two tables in Markdown, after versions, machine and command. DIR holds adult.csv, california_housing.csv, a9a,
a9a.t and the ten thousand MNIST test images and labels; without --data, sets bundled with scikit-learn are used. Peers
are optional: one that cannot be imported is reported with its error. Some need an environment of their own:

    pip install "scikit-learn==1.7.2" "diffprivlib==0.6.6" interpret-core opacus opendp pandas -e .

Threads are pinned to one, and durations are processor time: of a fit, the mean over those that are scored at epsilon 1;
of others, the least over repeats taken in turn with the others of the same group, which other work on the machine
disturbs least.
"""

import argparse
import platform
import time
import warnings
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

import measure  # pins the threads, so before numpy
import numpy as np
import peers
import problems
from bench_noise import load_opendp
from bench_tables import ADULT, ADULT_BOUNDS, read
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPRidge,
    DPSGDClassifier,
    DPSignOPORP,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    _noise,
)

EPSILONS = (0.1, 1.0, 10.0)
ROWS = 10_000
NEIGHBOURS = {"replace_one": "row replaced", "add_remove": "row blank or not"}
PACKAGES = ("skdprp", "scikit-learn", "numpy", "scipy", "interpret-core", "diffprivlib", "opacus", "opendp")
LOADERS = {
    "diffprivlib": peers.load_diffprivlib,
    "interpret-core": peers.load_boosting,
    "Opacus": peers.load_opacus,
    "OpenDP": peers.load_theil_sen,
    "noise of OpenDP": load_opendp,
}


@dataclass(frozen=True)
class Problem:
    """Rows to learn from and to test, and as a table what they were made of, with public bounds of its numbers."""

    columns: tuple
    table: tuple | None = None
    bounds: dict | None = None
    regression: problems.Regression | None = None

    @property
    def delta(self):
        """Delta of those who have one: as the defaults of this library."""
        return len(self.columns[2]) ** -2.0

    @property
    def kinds(self):
        """What kind of feature each column of the table is, for DP-EBM."""
        return ["continuous" if name in self.bounds else "nominal" for name in self.table[0]]


def read_problems(folder):
    """All data sets by name, of classes with rows of unit norm."""
    split = train_test_split(*load_digits(return_X_y=True), test_size=0.3, random_state=0)
    digits = {"digits": Problem(problems.unit_rows(split))}
    if folder is None:
        return digits
    prices = problems.read_housing(folder)
    found = {name: Problem(split) for name, split in problems.read_data(folder).items()}
    X, X_test, y, y_test = prices.split
    columns = prices.columns.fit_transform(X), prices.columns.transform(X_test), y, y_test
    housing = Problem(columns, prices.split, problems.HOUSING_BOUNDS, prices)
    return {"adult": read_incomes(folder)} | found | digits | {"california_housing": housing}


def read_incomes(folder):
    """Adult income as a table, and on public bins and categories."""
    X, X_test, y, y_test = read(folder, ADULT, "income")
    texts = [name for name in X if name not in ADULT_BOUNDS]
    steps = [
        ("numbers", PublicBinner(edges=problems.INCOME_EDGES), list(problems.INCOME_EDGES)),
        ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
    ]
    binned = ColumnTransformer(steps, sparse_threshold=1.0).fit(X)
    columns = problems.unit_rows((binned.transform(X), binned.transform(X_test), y, y_test))
    return Problem(columns, (X, X_test, y, y_test), ADULT_BOUNDS)


def of_classes(problem, found):
    """Yield library, name, stated guarantee, how to build the model for an epsilon, and the rows that it takes."""
    classes, rows = np.unique(problem.columns[2]), tuple(map(dense, problem.columns))
    for model in (DPSGDClassifier, AMPClassifier):
        for adjacency, neighbours in NEIGHBOURS.items():
            build = partial(model, classes=classes, adjacency=adjacency)
            yield "skdprp", model.__name__, f"(epsilon, 1/n²)-DP, {neighbours}", build, problem.columns
    build = partial(ProductNoiseOutputPerturbation, classes=classes, delta=0)
    yield "skdprp", "ProductNoiseOutputPerturbation", "epsilon-DP, row replaced", build, problem.columns
    if len(classes) == 2 and problem.table and not isinstance(found["interpret-core"], str):
        options = {"feature_types": problem.kinds, "privacy_bounds": problem.bounds, "delta": problem.delta}
        build = partial(found["interpret-core"][0], feature_names=list(problem.table[0]), n_jobs=1, **options)
        yield "interpret-core", "DP-EBM", "(epsilon, 1/n²)-DP, row more or less", build, problem.table
    if not isinstance(found["diffprivlib"], str):
        build = partial(found["diffprivlib"][0], data_norm=1.0)
        yield "diffprivlib", "LogisticRegression", "epsilon-DP", build, rows
    if not isinstance(found["Opacus"], str):
        build = partial(peers.OpacusClassifier, found["Opacus"], delta=problem.delta)
        yield "Opacus", f"linear, SGD(lr={peers.RATE:g})", "(epsilon, 1/n²)-DP, row more or less", build, rows
    yield "scikit-learn", "LogisticRegression", "none", lambda epsilon: LogisticRegression(C=10, max_iter=10_000), rows


def of_prices(problem, found):
    """The same for prices of houses."""
    target_bounds, of_table = problem.regression.target_bounds, {"bounds": problem.bounds}
    for adjacency, neighbours in NEIGHBOURS.items():
        options = {"max_norm": problem.regression.max_norm, "adjacency": adjacency, "delta": problem.delta}
        build = partial(DPRidge, target_bounds=target_bounds, **options)
        yield "skdprp", "DPRidge", f"(epsilon, 1/n²)-DP, {neighbours}", build, problem.columns
    if not isinstance(found["interpret-core"], str):
        low, high = target_bounds
        options = {"privacy_bounds": problem.bounds, "privacy_target_min": low, "privacy_target_max": high}
        options |= {"feature_types": problem.kinds, "feature_names": list(problem.table[0]), "delta": problem.delta}
        build = partial(found["interpret-core"][1], n_jobs=1, **options)
        yield "interpret-core", "DP-EBM", "(epsilon, 1/n²)-DP, row more or less", build, problem.table
    if not isinstance(found["diffprivlib"], str):
        build = partial(found["diffprivlib"][1], bounds_X=problem.regression.column_bounds, bounds_y=target_bounds)
        yield "diffprivlib", "LinearRegression", "epsilon-DP", build, problem.columns
    if not isinstance(found["OpenDP"], str):
        of_table = {"bounds": problem.bounds, "target_bounds": target_bounds}
        build = partial(peers.TheilSenRegressor, found["OpenDP"], "median_income", **of_table)
        yield "OpenDP", "LinearRegression, of median_income", "epsilon-DP, row more or less", build, problem.table
    yield "scikit-learn", "Ridge", "none", lambda epsilon: Ridge(), problem.columns


def dense(part):
    """Rows as an array, which some peers need."""
    return part.toarray() if issparse(part) else part


def scores_of_classes(model, X, y):
    """Accuracy, and AUC where there are two classes."""
    if len(np.unique(y)) > 2:
        return (model.score(X, y),)
    return model.score(X, y), roc_auc_score(y, model.predict_proba(X)[:, 1])


def scores_of_prices(model, X, y):
    """R² of predictions within the bounds of prices."""
    return (r2_score(y, np.clip(model.predict(X), *problems.PRICES)),)


def model_rows(data, found, draws):
    """Yield a row for each data set and model, with its scores for each epsilon and the time of a fit."""
    for name, problem in data.items():
        contenders, score = (of_prices, scores_of_prices) if problem.regression else (of_classes, scores_of_classes)
        for library, model, guarantee, build, (X, X_test, y, y_test) in contenders(problem, found):
            cells = []
            for epsilon in EPSILONS:
                start = time.process_time()
                fits = [build(epsilon=epsilon).fit(X, y) for _ in range(1 if guarantee == "none" else draws)]
                if epsilon == 1:
                    duration = (time.process_time() - start) / len(fits)
                scores = np.array([score(fit, X_test, y_test) for fit in fits])
                cells.append(
                    " / ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(scores.mean(0), scores.std(0), strict=True))
                )
            yield name, library, model, guarantee, *cells, f"{duration:.2f} s"


def least_times(calls, repeats):
    """Least processor time of each call, all taken in turn."""
    durations = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            durations[name].append(time.process_time() - start)
    return {name: min(times) for name, times in durations.items()}


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
        mechanism = diffprivlib[2](epsilon=1.0, delta=1e-5, sensitivity=1.0)
        what = (numbers, "diffprivlib", "GaussianAnalytic, one value at a time", "(epsilon, delta)-DP, as documented")
        calls[what] = lambda: [mechanism.randomise(value) for value in few]
    for what, seconds in least_times(calls, repeats).items():
        size = len(values) if what[0] == array else len(few)
        yield "Gaussian noise, values per second", *what, f"{size / seconds / 1e6:.3g} million"


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
            yield f"time to sketch to {k}", name, *who, guarantee, f"{seconds * 1000:.0f} ms"


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
    found, data = {name: peers.peer(load) for name, load in LOADERS.items()}, read_problems(options.data)
    flags = "--data DIR " * (options.data is not None) + f"--draws {options.draws}"
    flags += f" --rows {options.rows}" * (options.rows != ROWS)
    print(
        f"From `python benchmarks/bench_peers.py {flags}`, one thread of {processor()}, Python "
        f"{platform.python_version()}; {versions()}. Scores are on held-out rows, mean ± standard deviation of "
        f"{options.draws} fits: for two classes accuracy / AUC, for more classes accuracy, for a number R². The column "
        "*guarantee, as stated* is what the library itself states; n is the number of training rows.\n"
    )
    for name, error in found.items():
        if isinstance(error, str):
            print(f"{name} could not be imported: `{error}`.\n")
    epsilons = [f"epsilon = {epsilon:g}" for epsilon in EPSILONS]
    row = measure.table("data", "library", "model", "guarantee, as stated", *epsilons, "time of a fit")
    for cells in model_rows(data, found, options.draws):
        row(*cells)
    print()
    row = measure.table("task", "data", "library", "estimator", "guarantee", "figure")
    for cells in chain(noise_rows(found["diffprivlib"], found["noise of OpenDP"], 5), sketch_rows(options.rows, 9)):
        row(*cells)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    files = (ADULT, problems.HOUSING, *problems.FILES)
    problems.add_data(parser, files, "adult.csv, california_housing.csv, a9a and MNIST")
    parser.add_argument("--draws", type=int, default=5, help="fits to average over (default: 5)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to sketch (default: {ROWS})")
    warnings.simplefilter("ignore")  # peers warn of what their defaults do; the figures stand beside them
    report(parser.parse_args())


if __name__ == "__main__":
    main()
