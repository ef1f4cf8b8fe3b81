"""What a private search for a classifier finds by accuracy and by log loss, on rows that it has not seen.

Run ``python benchmarks/bench_search_scoring.py --data DIR``, where DIR holds california_housing.csv and adult.csv.
Candidates are AMPClassifier on three choices of columns with two bounds on norms. Each figure is the mean over fresh
splits and searches, with its standard error. Of the houses, one in twelve costs more than 400,000.
"""

import argparse
from pathlib import Path

import measure  # noqa: F401  # pins the threads, so before numpy
import numpy as np
import pandas as pd
from problems import HOUSING, add_data
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer

from skdprp import AMPClassifier, DPSearchCV, PublicBinner, PublicScaler, make_table_preprocessor

ADULT = "adult.csv"
EPSILONS, SCORINGS, N_TRIALS = (1.0, 5.0), ("accuracy", "neg_log_loss"), 10
OF_HOUSES = {
    **{"median_income": (0, 15), "housing_median_age": (0, 60), "latitude": (32, 42), "longitude": (-125, -114)},
    **{"total_rooms": (0, 10_000), "total_bedrooms": (0, 2000), "population": (0, 5000), "households": (0, 2000)},
}
OF_PEOPLE = {
    **{"age": (0, 120), "hr_per_week": (0, 100), "education_num": (0, 16)},
    **{"capital_gain": (0, 100_000), "capital_loss": (0, 5000)},
}


def columns_of_table(table, bounds, few):
    """All columns as numbers, all in bins, and a few only."""
    listed = {name: sorted(table[name].unique()) for name in table if name not in bounds}
    rest = [name for name in table if name not in few]
    return (
        *(make_table_preprocessor(bounds, categories=listed, numbers=numbers) for numbers in ("scaled", "bins")),
        make_table_preprocessor({name: bounds[name] for name in few}, drop=rest),
    )


def read_problems(directory):
    """Rows, labels and three choices of columns of each problem, by its name."""
    problems = {}
    if directory is not None:
        houses = pd.read_csv(Path(directory, HOUSING))
        is_dear = (houses.pop("median_house_value") > 400_000).astype(int)
        problems["houses"] = houses, is_dear, columns_of_table(houses, OF_HOUSES, ["housing_median_age", "population"])
        people = pd.read_csv(Path(directory, ADULT)).drop(columns="fnlwgt")
        is_rich = (people.pop("income") == ">50K").astype(int)
        problems["adult"] = people, is_rich, columns_of_table(people, OF_PEOPLE, list(OF_PEOPLE))
    X, y = load_breast_cancer(return_X_y=True)
    bounds = [(0, 2 * largest) for largest in X.max(axis=0)]
    problems["breast cancer"] = X, y, (PublicScaler(bounds), PublicBinner(bounds, n_bins=8), Normalizer())
    X, y = load_digits(return_X_y=True)
    problems["digits"] = X, y, (PublicScaler((0, 16)), PublicBinner((0, 16), n_bins=4), Normalizer())
    return problems


def scores_of(scoring, problem, epsilon, draw):
    """Log loss, AUC and accuracy of what one search finds."""
    X, y, columns = problem
    classes = np.unique(y)
    model = Pipeline([("columns", columns[0]), ("model", AMPClassifier(classes=classes))])
    grid = {"columns": columns, "model__max_norm": [1.0, 3.0]}
    X, X_test, y, y_test = train_test_split(X, y, random_state=draw)
    search = DPSearchCV(
        model, grid, n_trials=N_TRIALS, epsilon=epsilon, delta=1e-6, scoring=scoring, classes=classes
    ).fit(X, y)
    probability = search.predict_proba(X_test)
    score = probability[:, 1] if len(classes) == 2 else probability
    return (
        log_loss(y_test, probability),
        roc_auc_score(y_test, score, multi_class="ovr"),
        np.mean(search.predict(X_test) == y_test),
    )


def main():
    """Print a line for each problem, epsilon and scoring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, files=(HOUSING, ADULT), what=f"{HOUSING} and {ADULT}")
    parser.add_argument("--draws", type=int, default=20, help="searches for each figure")
    options = parser.parse_args()
    print(f"{'data':<14}  epsilon  {'scoring':<13}  {'log loss':<15}  {'AUC':<15}  accuracy")
    for name, problem in read_problems(options.data).items():
        for epsilon in EPSILONS:
            for scoring in SCORINGS:
                scores = np.array([scores_of(scoring, problem, epsilon, draw) for draw in range(options.draws)])
                mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
                figures = "  ".join(f"{m:.3f} +- {e:.3f}" for m, e in zip(mean, error, strict=True))
                print(f"{name:<14}  {epsilon:<7}  {scoring:<13}  {figures}", flush=True)


if __name__ == "__main__":
    main()
