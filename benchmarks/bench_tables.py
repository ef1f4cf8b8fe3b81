"""From a raw table to a private model under one budget, where neither bounds nor categories are known.

    python benchmarks/bench_tables.py --data DIR

prints Markdown tables: accuracy and AUC on adult.csv, and R² on california_housing.csv, on held-out rows, mean over
fresh noise and its standard error. A share of epsilon goes to DPBinner with its defaults, which is told nothing of the
columns. The model after it, with its defaults, has what is left of the total: both compose to (epsilon, 1e-6)-DP.
Predictions of prices are clipped to their public bounds. The goals are figures of DP-EBM of interpret-core 0.7.8.

Its accuracy and AUC on the same split, given plausible public bounds, come with ``--only peers`` where it is installed:

    pip install interpret-core pandas -e .

``--only time``, which needs no DIR, has the time of bins beside that of KBinsDiscretizer, in turn in one process, and
that of an import in a fresh interpreter beside that of scikit-learn's linear models.
"""

import argparse
import resource
import subprocess
import sys
import warnings
from functools import partial

import measure  # pins the threads, so before numpy
import numpy as np
import peers
import problems
from sklearn.base import clone
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.preprocessing import KBinsDiscretizer

from skdprp import AMPClassifier, DPBinner, DPRidge, DPSGDClassifier, PublicBinner, compose

ADULT = "adult.csv"
DELTA = 1e-6
ADJACENCIES = {"add_remove": "row blank or not", "replace_one": "row replaced"}
ADULT_BOUNDS = {
    "age": (15, 95),
    "fnlwgt": (0, 1_000_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "hr_per_week": (0, 100),
}
TIME_GOAL, IMPORT_GOAL = 1.2, 0.03  # of the time of KBinsDiscretizer, and seconds beyond scikit-learn's
GOALS = {"accuracy": 0.801, "AUC": 0.887, "R²": 0.616}


def read(folder, name, target):
    """Return columns and target of a table as it comes, split."""
    import pandas as pd

    table = pd.read_csv(folder / name)
    return problems.split_in_five(table.drop(columns=target), table[target])


def with_rest(model, released, y, epsilon):
    """Give a model the largest epsilon that composes with a release to a total of `epsilon`."""
    low, high, rows = 0.0, epsilon, np.ones((len(y), 2))  # its price does not depend on what is in them
    while high - low > 1e-3 * epsilon:
        middle = (low + high) / 2
        spent = compose(released, clone(model).set_params(epsilon=middle).fit(rows, y).guarantee_).epsilon
        low, high = (middle, high) if spent <= epsilon else (low, middle)
    return clone(model).set_params(epsilon=low)


def models_of_incomes(adjacency, max_norm):
    """Linear classifiers of this library with their defaults."""
    common = {"delta": DELTA / 2, "classes": ["<=50K", ">50K"], "adjacency": adjacency}
    return [DPSGDClassifier(**common), AMPClassifier(max_norm=max_norm, **common)]


def models_of_prices(adjacency, max_norm):
    """Ridge regression of this library with its defaults."""
    return [DPRidge(delta=DELTA / 2, target_bounds=problems.PRICES, max_norm=max_norm, adjacency=adjacency)]


def score_classes(model, X, y):
    """Accuracy and AUC."""
    return {"accuracy": model.score(X, y), "AUC": roc_auc_score(y, model.decision_function(X))}


def score_prices(model, X, y):
    """R² of predictions within the bounds."""
    return {"R²": r2_score(y, np.clip(model.predict(X), *problems.PRICES))}


def scores(binner, models, score, split, epsilon, draws):
    """Scores of fresh models on fresh bins, by the name of the model, and the mean number of columns."""
    X, X_test, y, y_test = split
    found, n_columns, rest = {}, [], {}
    for _ in range(draws):
        bins = clone(binner).fit(X)
        rows, rows_test = bins.transform(X), bins.transform(X_test)
        n_columns.append(rows.shape[1])
        for model in models(binner.adjacency, bins.max_norm_):
            name = type(model).__name__
            if name not in rest:
                rest[name] = with_rest(model, bins.guarantee_, y, epsilon)
            found.setdefault(name, []).append(score(clone(rest[name]).fit(rows, y), rows_test, y_test))
    return found, np.mean(n_columns)


def table_of(title, models, score, split, args):
    """Print one table."""
    kinds = ("accuracy", "AUC") if score is score_classes else ("R²",)
    print(f"\n{title}: {len(split[0])} rows to learn from, {len(split[1])} to test, delta = {DELTA:g}\n")
    row = measure.table("epsilon", "neighbours", "share of bins", "columns", "model", *kinds, "goals")
    for epsilon in args.epsilon:
        for adjacency, neighbours in ADJACENCIES.items():
            for share in args.share:
                binner = DPBinner(args.bins, epsilon=share * epsilon, delta=DELTA / 2, adjacency=adjacency)
                found, n_columns = scores(binner, models, score, split, epsilon, args.draws)
                for name, results in found.items():
                    values = [np.array([one[kind] for one in results]) for kind in kinds]
                    cells = [f"{some.mean():.4f} ± {some.std() / args.draws**0.5:.4f}" for some in values]
                    reached = all(some.mean() >= GOALS[kind] for some, kind in zip(values, kinds, strict=True))
                    verdict = ("reached" if reached else "NOT REACHED") if epsilon == 1 else None
                    row(f"{epsilon:g}", neighbours, f"{share:g}", f"{n_columns:.0f}", name, *cells, verdict)


def table_of_peer(split, args):
    """Print accuracy and AUC of DP-EBM, (epsilon, delta)-DP for one row more or less, as documented."""
    warnings.simplefilter("ignore")  # of numbers beyond their bounds, which it clips
    load = peers.peer(peers.load_boosting)
    if isinstance(load, str):
        print(load)
        return
    X, X_test, y, y_test = split
    kinds = {"feature_types": ["continuous" if name in ADULT_BOUNDS else "nominal" for name in X], "n_jobs": 1}
    options = {"feature_names": list(X), "privacy_bounds": ADULT_BOUNDS, "delta": DELTA, **kinds}
    row = measure.table("epsilon", "model", "accuracy", "AUC")
    for epsilon in args.epsilon:
        fits = (load[0](epsilon=epsilon, **options).fit(X, y == ">50K") for _ in range(args.draws))
        results = [
            (fit.score(X_test, y_test == ">50K"), roc_auc_score(y_test, fit.predict_proba(X_test)[:, 1]))
            for fit in fits
        ]
        row(
            f"{epsilon:g}",
            "DP-EBM",
            *(f"{np.mean(some):.4f} ± {np.std(some) / args.draws**0.5:.4f}" for some in zip(*results, strict=True)),
        )


def table_of_bins(rows, repeats):
    """Print the time that 100 columns take to be put into public bins."""
    print(f"\n{rows} rows of 100 columns put into ten bins each, median of {repeats}\n")
    row = measure.table(
        "encode", "PublicBinner, s", "KBinsDiscretizer, s", "ratio", "goal", "peak MB", "peer's peak MB"
    )
    X = measure.dense(rows, 100, np.float64)
    for encode in ("onehot", "ordinal"):
        peer_of_bins = KBinsDiscretizer(10, encode=encode, strategy="uniform", subsample=None)
        calls = [partial(model.fit(X).transform, X) for model in (PublicBinner((0, 1), encode=encode), peer_of_bins)]
        own, other, ratio = measure.compare(*calls, repeats)
        verdict = f"{TIME_GOAL} {'reached' if ratio <= TIME_GOAL else 'NOT REACHED'}"
        peaks = (f"{measure.peak_megabytes(call):.0f}" for call in calls)
        row(encode, f"{own:.2f}", f"{other:.2f}", f"{ratio:.2f}", verdict, *peaks)


def seconds_of(code):
    """Processor time of a fresh interpreter that runs some code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table_of_imports(repeats):
    """Print the time of imports, the least of some, with what is imported once a name is asked for."""
    print(f"\nProcessor time of an import, the least of {repeats} in turn\n")
    codes = "import sklearn.linear_model", "import skdprp", "from skdprp import AMPClassifier"
    times = np.min([[seconds_of(code) for code in codes] for _ in range(repeats)], axis=0)
    row = measure.table("code", "ms", "goal")
    for code, time in zip(codes, times, strict=True):
        is_reached = time <= times[0] + IMPORT_GOAL
        verdict = f"{1000 * (times[0] + IMPORT_GOAL):.0f} {'reached' if is_reached else 'NOT REACHED'}"
        row(code, f"{1000 * time:.0f}", verdict if code == codes[1] else None)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser, (ADULT, problems.HOUSING), "adult.csv and california_housing.csv")
    parser.add_argument("--draws", type=int, default=10, help="releases to average over (default: 10)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0], help="totals (default: 1)")
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 0.2, 0.3], help="shares of epsilon of the bins")
    parser.add_argument("--bins", type=int, default=DPBinner().n_bins, help="bins of a number at most")
    parser.add_argument("--only", choices=("adult", "housing", "peers", "time"), help="print one table only")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the timed bins (default: 1000000)")
    parser.add_argument("--repeats", type=int, default=5, help="timed calls (default: 5)")
    args = parser.parse_args()
    if args.data is None and args.only != "time":
        parser.error("--data names a folder with adult.csv and california_housing.csv")
    return args


def main():
    """Print the tables."""
    args = parse_arguments()
    measure.describe_machine()
    if args.only == "time":
        table_of_imports(args.repeats)
        table_of_bins(args.rows, args.repeats)
        return
    incomes = read(args.data, ADULT, "income")
    if args.only in (None, "adult"):
        table_of("Adult", models_of_incomes, score_classes, incomes, args)
    if args.only == "peers":
        table_of_peer(incomes, args)
    if args.only in (None, "housing"):
        prices = read(args.data, problems.HOUSING, "median_house_value")
        table_of("California", models_of_prices, score_prices, prices, args)


if __name__ == "__main__":
    main()
