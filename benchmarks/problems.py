"""The problems of the benchmarks: a9a, MNIST and California housing from a folder, or sets of scikit-learn."""

import argparse
import gzip
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, normalize

from skdprp import PublicBinner, PublicScaler

FILES = ("a9a", "a9a.t", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
HOUSING = "california_housing.csv"
N_BINS = 15  # of a number

# Public ranges: the borders of the state, houses of up to sixty years, the ends of the census' scales of incomes (in
# 10,000 dollars) and of prices; districts of up to a few thousand people.
HOUSING_BOUNDS = {
    "longitude": (-125, -114),
    "latitude": (32, 42),
    "housing_median_age": (0, 60),
    "total_rooms": (0, 10_000),
    "population": (0, 6000),
    "households": (0, 2000),
    "median_income": (0, 15),
}
PROXIMITIES = ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"]
PRICES = (0, 500_000)
# What adults may have: age in years, sex, body mass index, mean arterial pressure, total, low and high density
# cholesterol, the ratio of the first to the last, the logarithm of triglycerides, blood sugar.
DIABETES_BOUNDS = {
    "age": (18, 90),
    "sex": (1, 2),
    "bmi": (15, 50),
    "bp": (60, 140),
    "s1": (100, 350),
    "s2": (30, 250),
    "s3": (20, 100),
    "s4": (1, 10),
    "s5": (3, 7),
    "s6": (50, 200),
}
PROGRESSION = (0, 350)
# Ages at which school, work and pensions begin, hours of part and full time, grades of schools, and round sums.
INCOME_EDGES = {
    "age": list(range(20, 90, 5)),
    "education_num": list(range(2, 17)),
    "hr_per_week": list(range(10, 80, 5)),
    "capital_gain": [1, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 10_000, 15_000, 20_000, 50_000],
    "capital_loss": [1, 1000, 1500, 1600, 1700, 1800, 1900, 2000, 2100, 2200, 2400, 3000],
}


def add_data(parser, files=FILES, what="a9a and MNIST"):
    """Add the option that names the folder."""
    folder = partial(_folder, files=files)
    parser.add_argument("--data", type=folder, help=f"folder with {what}; default: bundled data")


def _folder(text, files):
    folder = Path(text)
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise argparse.ArgumentTypeError(f"{folder} has no {', '.join(missing)}")
    return folder


def read_adult(folder):
    """Adult income, 123 binary features, sparse; without a folder, two kinds of tumours."""
    if folder is None:
        X, y = load_breast_cancer(return_X_y=True)
        return train_test_split(StandardScaler().fit_transform(X), y, test_size=0.3, random_state=0)
    X, y = load_svmlight_file(str(folder / "a9a"), n_features=123)
    X_test, y_test = load_svmlight_file(str(folder / "a9a.t"), n_features=123)
    return X, X_test, y, y_test


def read_idx(path, offset):
    """Bytes of a gzipped idx file after its header."""
    with gzip.open(path) as file:
        return np.frombuffer(file.read()[offset:], np.uint8)


def read_digits(folder):
    """Eight thousand digits of MNIST to learn from, two thousand to test; without a folder, the small ones."""
    if folder is None:
        return train_test_split(*load_digits(return_X_y=True), test_size=0.3, random_state=0)
    X = read_idx(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255.0
    y = read_idx(folder / "t10k-labels-idx1-ubyte.gz", 8)
    return X[:8000], X[8000:], y[:8000], y[8000:]


def rare_class(n_rows=30_000, n_test=20_000):
    """Twenty numbers, five of which say a little about a class of 2.5% of the rows; simulated."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + n_test, 20)) / 20**0.5
    log_odds = 1.6 * X[:, :5] @ [3, -3, 2, 2, -2] - 5.3
    y = (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return X[:n_rows], X[n_rows:], y[:n_rows], y[n_rows:]


def weak_signal(n_samples):
    """Two numbers that say a little, beside seven categories that say nothing, one-hot: rows of norm 3 at most."""
    rng = np.random.default_rng(0)
    numbers = rng.uniform(-1, 1, (2 * n_samples, 2))
    categories = np.eye(10)[rng.integers(10, size=(2 * n_samples, 7))].reshape(len(numbers), -1)
    y = rng.uniform(size=len(numbers)) < 1 / (1 + np.exp(1.3 - numbers @ [0.7, -0.5]))
    X, y = np.hstack([numbers, categories]), y.astype(int)
    return X[:n_samples], X[n_samples:], y[:n_samples], y[n_samples:]


def bin_incomes(folder):
    """Adult income as a raw table on public bins and categories, one-hot, rows of unit norm."""
    import pandas as pd

    table = pd.read_csv(folder / "adult.csv")
    y = table.pop("income").str.contains(">50K").to_numpy(int)
    texts = [name for name in table if name not in INCOME_EDGES and name != "fnlwgt"]
    steps = [
        ("numbers", PublicBinner(edges=INCOME_EDGES), list(INCOME_EDGES)),
        ("texts", OneHotEncoder(sparse_output=True), texts),
    ]
    X = normalize(ColumnTransformer(steps, sparse_threshold=1.0).fit_transform(table))
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:24_000], order[24_000:]
    return X[train], X[test], y[train], y[test]


def unit_rows(split):
    """Bring the rows of a problem to unit norm."""
    X, X_test, *labels = split
    return normalize(X), normalize(X_test), *labels


def read_data(folder):
    """All data sets, rows of unit norm."""
    names = ("breast_cancer", "digits") if folder is None else ("a9a", "mnist")
    return {name: unit_rows(read(folder)) for name, read in zip(names, (read_adult, read_digits), strict=True)}


@dataclass(frozen=True)
class Regression:
    """A table to learn a number from, and what is public of it: how columns are made, and how large they can be.

    All bounds are plausible public ranges, written down by what is known of the quantities and not chosen on the data;
    the split is 80 to 20 by a fixed permutation. `max_norm` follows from the bounds alone: if each column were spread
    evenly over them, some 97 of 100 rows would be shorter. `longest` is the norm that no row can exceed.
    """

    split: tuple
    columns: BaseEstimator
    column_bounds: tuple
    max_norm: float
    longest: float
    target_bounds: tuple
    bounds: dict

    def pipeline(self, model):
        """Put a model after the columns."""
        return make_pipeline(self.columns, model)


def read_regressions(folder):
    """California housing, by numbers and by public bins, and diabetes; without a folder, diabetes alone."""
    problems = {} if folder is None else {"California": read_housing(folder), "California, bins": bin_housing(folder)}
    return problems | {"diabetes": read_diabetes()}


def read_housing(folder):
    """Seven numbers at their scale, and a category at half of theirs."""
    steps = [
        ("numbers", PublicScaler(HOUSING_BOUNDS), list(HOUSING_BOUNDS)),
        ("category", OneHotEncoder(categories=[PROXIMITIES]), ["ocean_proximity"]),
    ]
    return Regression(
        split=split_in_five(*housing(folder)),
        columns=ColumnTransformer(steps, transformer_weights={"category": 0.5}, sparse_threshold=0),
        column_bounds=(np.repeat([-0.5, 0.0], (7, 5)), np.full(12, 0.5)),
        max_norm=1.1,
        longest=2**0.5,
        target_bounds=PRICES,
        bounds=HOUSING_BOUNDS,
    )


def bin_housing(folder):
    """Fifteen bins of equal width for each number, and a category: eight ones in each row."""
    # Rounding takes the ends, -1/2 and 14 1/2, to the even numbers 0 and 14.
    bins = make_pipeline(
        PublicScaler(HOUSING_BOUNDS, feature_range=(-0.5, N_BINS - 0.5)),
        FunctionTransformer(np.rint),
        OneHotEncoder(categories=[range(N_BINS)] * len(HOUSING_BOUNDS)),
    )
    steps = [
        ("bins", bins, list(HOUSING_BOUNDS)),
        ("category", OneHotEncoder(categories=[PROXIMITIES]), ["ocean_proximity"]),
    ]
    n_columns = N_BINS * len(HOUSING_BOUNDS) + len(PROXIMITIES)
    return Regression(
        split=split_in_five(*housing(folder)),
        columns=ColumnTransformer(steps, sparse_threshold=0),
        column_bounds=(np.zeros(n_columns), np.ones(n_columns)),
        max_norm=8**0.5,
        longest=8**0.5,
        target_bounds=PRICES,
        bounds=HOUSING_BOUNDS,
    )


def housing(folder):
    """Districts of California in 1990 and what a house there costs; one column, with missing values, is left out."""
    import pandas as pd

    table = pd.read_csv(folder / HOUSING, usecols=[*HOUSING_BOUNDS, "ocean_proximity", "median_house_value"])
    return table.drop(columns="median_house_value"), table["median_house_value"].to_numpy()


def read_diabetes():
    """Ten measurements of patients, and how their disease went on."""
    return Regression(
        split=split_in_five(*load_diabetes(return_X_y=True, as_frame=True, scaled=False)),
        columns=PublicScaler(DIABETES_BOUNDS),
        column_bounds=(np.full(10, -0.5), np.full(10, 0.5)),
        max_norm=1.2,
        longest=10**0.5 / 2,
        target_bounds=PROGRESSION,
        bounds=DIABETES_BOUNDS,
    )


def split_in_five(X, y):
    """Four fifths of the rows to learn from and one to test, by a fixed permutation."""
    order, y = np.random.default_rng(0).permutation(len(y)), np.asarray(y)
    train, test = np.split(order, [int(0.8 * len(y))])
    return X.iloc[train], X.iloc[test], y[train], y[test]


def mean_score(model, split, draws):
    """Mean score over fresh fits, and its standard error."""
    X, X_test, y, y_test = split
    scores = [clone(model).fit(X, y).score(X_test, y_test) for _ in range(draws)]
    return np.mean(scores), np.std(scores) / np.sqrt(draws)
