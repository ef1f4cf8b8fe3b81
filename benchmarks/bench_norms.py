"""How long rows should be that come before a private linear model: as the preprocessor makes them, or as bounds allow.

    python benchmarks/bench_norms.py --data DIR

prints a Markdown table of accuracy, or R² for numbers, on held-out rows: of models with their defaults on the rows of
``make_table_preprocessor``, and on the same columns at -1/2 to 1/2 with ``max_norm`` the norm of the longest row within
bounds, which clips none. Bounds of tables of scikit-learn are 0 and the next round number above the largest value: they
stand in for what is known of the quantities. Without a folder there are these tables alone.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from bench_tables import ADULT, ADULT_BOUNDS, DELTA
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from skdprp import AMPClassifier, DPRidge, DPSGDClassifier, make_table_preprocessor


def round_up(number):
    """Next number above with a single digit, which is 1, 2 or 5."""
    power = 10.0 ** np.floor(np.log10(number))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= number)


def bundled(load, n_columns=None):
    """Return the split and the bounds of a table of scikit-learn, or of its first columns."""
    X, y = load(return_X_y=True, as_frame=True)
    X = X.iloc[:, :n_columns]
    return problems.split_in_five(X, y), {"bounds": {name: (0, round_up(X[name].max())) for name in X}}


def read_tables(folder):
    """Return splits, what is known of columns, and bounds of targets, by names."""
    tables = {
        "iris": (*bundled(load_iris), None),
        "wine": (*bundled(load_wine), None),
        "breast_cancer": (*bundled(load_breast_cancer), None),
        "breast_cancer, 1 column": (*bundled(load_breast_cancer, 1), None),
        "diabetes": (problems.read_diabetes().split, {"bounds": problems.DIABETES_BOUNDS}, problems.PROGRESSION),
    }
    if folder is None:
        return tables
    import pandas as pd

    people = pd.read_csv(folder / ADULT)
    income = people.pop("income")
    listed = {name: sorted(people[name].unique()) for name in people if name not in ADULT_BOUNDS}
    known = {"bounds": ADULT_BOUNDS, "categories": listed}
    split = problems.split_in_five(people, income)
    homes, places = problems.split_in_five(*problems.housing(folder)), {"ocean_proximity": problems.PROXIMITIES}
    return tables | {
        "Adult": (split, known, None),
        "Adult, bins": (split, known | {"numbers": "bins"}, None),
        "California": (homes, {"bounds": problems.HOUSING_BOUNDS, "categories": places}, problems.PRICES),
        "California, bins": (
            homes,
            {"bounds": problems.HOUSING_BOUNDS, "categories": places, "numbers": "bins"},
            problems.PRICES,
        ),
        "California, numbers": (
            [part[list(problems.HOUSING_BOUNDS)] for part in homes[:2]] + list(homes[2:]),
            {"bounds": problems.HOUSING_BOUNDS},
            problems.PRICES,
        ),
    }


def as_bounds_allow(known):
    """Return the columns of a preprocessor without norms, and the norm of the longest row."""
    made = make_table_preprocessor(**known)["columns"]
    for name, transformer, _ in made.transformers:
        if name == "numbers" and known["numbers"] == "scaled":
            transformer.feature_range = (-0.5, 0.5)
    columns = ColumnTransformer(made.transformers, sparse_threshold=0)
    weight = 0.25 if known["numbers"] == "scaled" else 1
    return columns, (weight * len(known["bounds"]) + len(known.get("categories", {}))) ** 0.5


def models(target_bounds, y, epsilon):
    """Models with their defaults."""
    if target_bounds is not None:
        return [DPRidge(target_bounds=target_bounds, epsilon=epsilon, delta=DELTA)]
    given = {"epsilon": epsilon, "delta": DELTA, "classes": np.unique(y)}
    return [AMPClassifier(**given), DPSGDClassifier(**given)]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser, (ADULT, problems.HOUSING), "adult.csv and california_housing.csv")
    parser.add_argument("--draws", type=int, default=10, help="fits to average over (default: 10)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0], help="default: 0.1 1 10")
    args = parser.parse_args()
    measure.describe_machine()
    row = measure.table("table", "model", "epsilon", "rows as bounds allow", "rows as made", "difference")
    for name, ((X, X_test, y, y_test), known, target_bounds) in read_tables(args.data).items():
        known = {"numbers": "scaled"} | known
        columns, longest = as_bounds_allow(known)
        made = make_table_preprocessor(**known).fit(X)
        allowed = columns.fit(X)
        for epsilon in args.epsilon:
            for model in models(target_bounds, y, epsilon):
                scores = {}
                for kind, rows, options in (("allowed", allowed, {"max_norm": longest}), ("made", made, {})):
                    Z, Z_test = rows.transform(X), rows.transform(X_test)
                    fits = (clone(model).set_params(**options).fit(Z, y) for _ in range(args.draws))
                    scores[kind] = np.array([fit.score(Z_test, y_test) for fit in fits])
                cells = [f"{some.mean():.3f} ± {some.std() / args.draws**0.5:.3f}" for some in scores.values()]
                difference = scores["made"].mean() - scores["allowed"].mean()
                row(name, type(model).__name__, f"{epsilon:g}", *cells, f"{difference:+.3f}")


if __name__ == "__main__":
    main()
