"""Probabilities of AMPClassifier with default parameters: are they right, and what do labels cost that are counted?

    python benchmarks/bench_classifiers.py --data DIR

prints Markdown tables of held-out rows: accuracy, AUC, the log loss over that of the share of each class, the expected
calibration error in ten bins of equal size, and balanced accuracy at threshold="prior", means over fresh noise. There
is one line for `count_labels=False` and one for the default; "counted" says whether its rule found it worth while. DIR
holds a9a and a9a.t; without --data, a9a is left out. `--noise` takes another distribution.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

from skdprp import AMPClassifier

EPSILONS = (0.1, 0.3, 1.0, 10.0)


def read(folder):
    """Tables of two classes."""
    tables = {} if folder is None else {"a9a": problems.unit_rows(problems.read_adult(folder))}
    return tables | {
        "breast cancer": problems.unit_rows(problems.read_adult(None)),
        "weak signal": problems.unit_rows(problems.weak_signal(14_000)),
        "2.5% positives": problems.rare_class(),
    }


def calibration_error(y, probability, n_bins=10):
    """Expected calibration error: mean distance of probabilities and shares, in bins of as many rows each."""
    bins = np.array_split(np.argsort(probability), n_bins)
    return sum(len(rows) * abs(y[rows].mean() - probability[rows].mean()) for rows in bins) / len(y)


def scores(model, split):
    """Accuracy, AUC, relative log loss, calibration error and balanced accuracy of one fit, and whether it counted."""
    X, X_test, y, y_test = split
    y_test = (y_test == y.max()).astype(int)
    fit = clone(model).fit(X, y)
    probability, share = fit.predict_proba(X_test)[:, 1], np.mean(y == y.max())
    threshold = share if fit.class_prior_ is None else fit.class_prior_  # the true one, where none is released
    return (
        np.mean((probability > 0.5) == y_test),
        roc_auc_score(y_test, probability),
        log_loss(y_test, probability) / log_loss(y_test, np.full(len(y_test), share)),
        calibration_error(y_test, probability),
        balanced_accuracy_score(y_test, probability > threshold),
        fit.class_prior_ is not None,
    )


def compare(name, split, args):
    """Print one table."""
    print(f"\n{name}: {split[0].shape[0]} rows, {split[0].shape[1]} features\n")
    kinds = "accuracy", "AUC", "log loss / prior's", "calibration error", "balanced at prior"
    row = measure.table("epsilon", "neighbours", "count_labels", "counted", *kinds)
    for epsilon in args.epsilon:
        for adjacency in ("replace_one", "add_remove"):
            for count_labels in (False, "auto"):
                known = {"epsilon": epsilon, "adjacency": adjacency, "noise": args.noise}
                model = AMPClassifier(count_labels=count_labels, **known)
                *found, counted = np.array([scores(model, split) for _ in range(args.draws)]).T
                cells = [f"{one.mean():.3f} ± {one.std() / args.draws**0.5:.3f}" for one in found]
                row(f"{epsilon:g}", adjacency, count_labels, "yes" if counted.all() else "no", *cells)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser, files=("a9a", "a9a.t"), what="a9a")
    parser.add_argument("--draws", type=int, default=10, help="fits to average over (default: 10)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS, help="privacy levels")
    parser.add_argument("--noise", default="auto", help="distribution of the linear term (default: auto)")
    parser.add_argument("--only", nargs="+", help="names of tables (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse_arguments()
    for table_name, table in read(arguments.data).items():
        if arguments.only is None or table_name in arguments.only:
            compare(table_name, table, arguments)
