"""What bounds of some columns are worth where the bins of all others are found privately.

    python benchmarks/bench_bounds.py --data DIR

prints Markdown tables of AUC and R² on held-out rows, mean over fresh noise of all steps and its standard error, under
one total for bins and model: with nothing given, and numbers put into private bins or scaled privately; with the bounds
and categories of some columns, put into private bins or scaled; and with those columns put into 20 public bins of equal
width. All models learn from all columns. Classes are
predicted as numbers, too, 0 and 1, and numbers as classes, those above a round number. Bounds of tumours are 0 and the
next round number above the largest value: they stand in for what is known. Without a folder there are the tables of
scikit-learn alone.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from bench_norms import bundled
from bench_tables import ADULT, DELTA
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdprp import AMPClassifier, DPBinner, DPRidge, DPScaler, make_table_preprocessor, set_budget

N_BINS = 20
SHARE_OF_BINS = 0.2
HOMES = {"median_income": (0, 15), "latitude": (32, 42), "longitude": (-125, -114), "housing_median_age": (0, 60)}
PEOPLE = {"age": (0, 120), "hr_per_week": (0, 100)}


def read_tables(folder):
    """Return splits, bounds and categories of some columns, bounds of the target, and where its upper class begins."""
    split, known = bundled(load_breast_cancer)
    tumours, patients = (
        dict(list(some.items())[:n]) for some, n in ((known["bounds"], 10), (problems.DIABETES_BOUNDS, 5))
    )
    tables = {
        "breast_cancer": (split, {"bounds": tumours}, (0, 1), 0.5),
        "diabetes": (problems.read_diabetes().split, {"bounds": patients}, problems.PROGRESSION, 140),
    }
    if folder is None:
        return tables
    import pandas as pd

    homes, people = pd.read_csv(folder / problems.HOUSING), pd.read_csv(folder / ADULT)
    prices, incomes = homes.pop("median_house_value"), people.pop("income") == ">50K"
    places = {"ocean_proximity": problems.PROXIMITIES}
    large = {
        "California": (
            problems.split_in_five(homes, prices),
            {"bounds": HOMES, "categories": places},
            problems.PRICES,
            200_000,
        ),
        "Adult": (problems.split_in_five(people, incomes.astype(float)), {"bounds": PEOPLE}, (0, 1), 0.5),
    }
    few = {
        f"{name}, 3000 rows": ((X[:3000], X_test, y[:3000], y_test), *known)
        for name, ((X, X_test, y, y_test), *known) in large.items()
    }
    return large | few | tables


def scaled_privately(X):
    """Scale numbers between private quantiles, and bin text."""
    numbers = [name for name in X if X[name].dtype.kind in "biuf"]
    text = [name for name in X if name not in numbers]
    share = SHARE_OF_BINS / (1 + bool(text))
    bins = [("text", DPBinner(N_BINS, epsilon=share, sparse_output=False), text)] if text else []
    columns = ColumnTransformer([("numbers", DPScaler(epsilon=share), numbers), *bins], sparse_threshold=0)
    return make_pipeline(columns, Normalizer())


def preprocessors(X, bounds, categories=None):
    """Preprocessors by what is given, and what becomes of it."""
    edges = {name: np.linspace(*pair, N_BINS + 1) for name, pair in bounds.items()}
    kinds = {
        "nothing given": {},
        "bounds": {"bounds": bounds, "categories": categories},
        "bounds, scaled": {"bounds": bounds, "categories": categories, "numbers": "scaled"},
        "equal width": {"edges": edges, "categories": categories},
    }
    made = {
        kind: make_table_preprocessor(**given, n_bins=N_BINS, epsilon=SHARE_OF_BINS) for kind, given in kinds.items()
    }
    return {"nothing given, scaled": scaled_privately(X), **made}


def scores(columns, split, target_bounds, above, epsilon, draws):
    """AUC of classes above a number, and R² of numbers, over fresh fits of all steps."""
    X, X_test, y, y_test = split
    shared = {"epsilon": 1 - SHARE_OF_BINS}
    to_classes = AMPClassifier(classes=[False, True], **shared)
    to_numbers = DPRidge(target_bounds=target_bounds, **shared)
    total = {"epsilon": epsilon, "delta": DELTA}
    found = []
    for model, target in ((to_classes, y > above), (to_numbers, y)):
        planned = set_budget(make_pipeline(clone(columns), model), X, target, **total)
        fits = (clone(planned).fit(X, target) for _ in range(draws))
        if model is to_classes:
            found.append([roc_auc_score(y_test > above, fit.decision_function(X_test)) for fit in fits])
        else:
            found.append([r2_score(y_test, np.clip(fit.predict(X_test), *target_bounds)) for fit in fits])
    return found


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser, (ADULT, problems.HOUSING), "adult.csv and california_housing.csv")
    parser.add_argument("--draws", type=int, default=10, help="fits to average over (default: 10)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 3.0], help="default: 0.5 1 3")
    parser.add_argument("--only", nargs="+", help="names of tables (default: all)")
    args = parser.parse_args()
    measure.describe_machine()
    row = measure.table("table", "epsilon", "given", "AMPClassifier, AUC", "DPRidge, R²")
    for name, (split, known, target_bounds, above) in read_tables(args.data).items():
        if args.only is not None and name not in args.only:
            continue
        for epsilon in args.epsilon:
            for kind, columns in preprocessors(split[0], **known).items():
                found = scores(columns, split, target_bounds, above, epsilon, args.draws)
                row(
                    name,
                    f"{epsilon:g}",
                    kind,
                    *(f"{np.mean(some):.3f} ± {np.std(some) / args.draws**0.5:.3f}" for some in found),
                )


if __name__ == "__main__":
    main()
