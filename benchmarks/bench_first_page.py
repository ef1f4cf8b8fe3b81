"""The numbers and the figures of README.rst and of the first pages of the site.

    python benchmarks/bench_first_page.py --output doc/_static --data DIR

prints means and standard deviations of the examples' scores over ten splits, each with new noise, and draws accuracy
and AUC of a private classifier of the *Adult* rows against epsilon, in a light and a dark version. The tables are the
samples in examples/; with ``--data``, a folder with adult.csv and california_housing.csv, the whole tables as well.
"""

import argparse
import warnings
from pathlib import Path

import measure  # noqa: F401  pins the threads, so before numpy
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

from skdprp import (
    AMPClassifier,
    DPRidge,
    DPSignOPORP,
    PublicScaler,
    make_table_preprocessor,
    set_budget,
)
from skdprp.similarity import HammingNeighbors

EXAMPLES = Path(__file__).parents[1] / "examples"
CLASSES = ["<=50K", ">50K"]
KNOWN_OF_PEOPLE = {"age": (0, 120), "hr_per_week": (0, 100)}
KNOWN_OF_HOUSES = {
    "bounds": {
        "median_income": (0, 15),
        "housing_median_age": (0, 60),
        "latitude": (32, 42),
        "longitude": (-125, -114),
    },
    "categories": {"ocean_proximity": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"]},
}
COUNTS = {"total_rooms": (0, 10_000), "total_bedrooms": (0, 2000), "population": (0, 6000), "households": (0, 2000)}
RATIOS = {"rooms of a household": (0, 15), "persons of a household": (0, 8), "bedrooms of a room": (0, 1)}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def splits(table, target, n=10):
    """Yield rows to learn from and rows to score, with their targets."""
    table = table.copy()
    y = table.pop(target)
    for seed in range(n):
        yield train_test_split(table, y, test_size=0.25, random_state=seed)


def plain(model, *, bins=False):
    """Return a pipeline without privacy: numbers in quantile bins, or scaled, and the categories that are found."""
    numbers = KBinsDiscretizer(20, quantile_method="averaged_inverted_cdf") if bins else StandardScaler()
    categories = OneHotEncoder(handle_unknown="ignore")
    by_type = make_column_selector(dtype_exclude="number")
    numbers = make_pipeline(SimpleImputer(strategy="median"), numbers)
    return make_pipeline(make_column_transformer((categories, by_type), remainder=numbers), model)


def classifier_scores(people, epsilon):
    """Return accuracy and AUC in each split, of a private classifier or, at an infinite epsilon, of a plain one.

    A private one is followed by the accuracy and the AUC of a plain one on the same private bins.
    """
    scores = []
    for X_train, X_test, y_train, y_test in splits(people, "income"):
        bare = LogisticRegression(max_iter=2000)
        if np.isinf(epsilon):
            fitted = [plain(bare, bins=True).fit(X_train, y_train)]
        else:
            columns = make_table_preprocessor(KNOWN_OF_PEOPLE, epsilon=0.2)
            pipeline = make_pipeline(columns, AMPClassifier(epsilon=0.8, classes=CLASSES))
            set_budget(pipeline, X_train, y_train, epsilon=epsilon, delta=1e-6).fit(X_train, y_train)
            on_bins = bare.fit(pipeline[0].transform(X_train), y_train)
            fitted = [pipeline, make_pipeline(FrozenEstimator(pipeline[0]), FrozenEstimator(on_bins))]
        scores.append([score for model in fitted for score in accuracy_and_auc(model, X_test, y_test)])
    return np.array(scores)


def accuracy_and_auc(model, X, y):
    """Return both scores of a classifier of incomes."""
    return model.score(X, y), roc_auc_score(y == CLASSES[1], model.predict_proba(X)[:, 1])


def with_ratios(houses):
    """Add columns that are computed row by row."""
    return houses.assign(
        **{
            "rooms of a household": houses["total_rooms"] / houses["households"],
            "persons of a household": houses["population"] / houses["households"],
            "bedrooms of a room": houses["total_bedrooms"] / houses["total_rooms"],
        }
    )


def regressor_scores(houses, model, more=None):
    """Return R² in each split, of a regression of house values on five columns and `more` within public bounds."""
    bounds = KNOWN_OF_HOUSES["bounds"] | (more or {})
    columns = make_table_preprocessor(bounds, categories=KNOWN_OF_HOUSES["categories"], numbers="scaled")
    used = [*bounds, *KNOWN_OF_HOUSES["categories"], "median_house_value"]
    return scores_of_splits(make_pipeline(columns, model), with_ratios(houses)[used])


def scores_of_splits(pipeline, houses):
    """Return R² of a regression of house values in each split."""
    return [
        pipeline.fit(X_train, y_train).score(X_test, y_test)
        for X_train, X_test, y_train, y_test in splits(houses, "median_house_value")
    ]


def search_scores(epsilon):
    """Return, for ten projections, the share of the ten nearest sketches that show the digit of the query.

    At an infinite epsilon it is that of the ten nearest images.
    """
    X, y = load_digits(return_X_y=True)
    shares = []
    for seed in range(10):
        sketch = make_pipeline(PublicScaler((0, 16)), DPSignOPORP(64, epsilon=epsilon, random_state=seed))
        rows, search = (X, NearestNeighbors) if np.isinf(epsilon) else (sketch.fit_transform(X), HammingNeighbors)
        nearest = search(n_neighbors=10).fit(rows[300:]).kneighbors(rows[:300], return_distance=False)
        shares.append((y[300:][nearest] == y[:300, None]).mean())
    return shares


def show(name, scores):
    """Print a mean and a standard deviation for each score."""
    columns = np.reshape(scores, (len(scores), -1))
    print(f"{name:<56}", *(f"{column.mean():.3f} ± {column.std():.3f}" for column in columns.T))


def draw(people, folder):
    """Draw accuracy and AUC against epsilon, for light and for dark pages."""
    import matplotlib.pyplot as plt

    curves = [classifier_scores(people, epsilon) for epsilon in EPSILONS]
    for epsilon, scores in zip(EPSILONS, curves, strict=True):
        show(f"figure, epsilon = {epsilon:g}: accuracy, AUC", scores[:, :2])
    reference = classifier_scores(people, np.inf).mean(axis=0)
    chance = max(people["income"].value_counts(normalize=True)), 0.5
    for theme, style, colours in (
        ("light", "default", ("#005f99", "#b34700")),
        ("dark", "dark_background", ("#66bbee", "#ff9955")),
    ):
        with plt.style.context(style), plt.rc_context({"font.size": 15, "savefig.transparent": theme == "dark"}):
            figure, axes = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained")
            for i, (ax, name) in enumerate(zip(axes, ("accuracy", "area under the ROC curve"), strict=True)):
                scores = np.array([curve[:, i] for curve in curves])
                mean, deviation = scores.mean(axis=1), scores.std(axis=1)
                ax.fill_between(EPSILONS, mean - deviation, mean + deviation, color=colours[0], alpha=0.25, linewidth=0)
                ax.plot(EPSILONS, mean, "o-", color=colours[0])
                ax.axhline(reference[i], color=colours[1], linestyle="--")
                ax.axhline(chance[i], color="0.5", linestyle=":")
                room = 0.03 * (reference[i] - chance[i])
                ax.text(0.1, reference[i] + room, "not private", color=colours[1])
                ax.text(10, mean[2] - 2 * room, "private", color=colours[0], ha="right", va="top")
                guess = "always the larger class" if i == 0 else "chance"
                ax.text(10, chance[i] + room, guess, color="0.5", ha="right")
                ax.set(xscale="log", xlabel="epsilon, one row replaced")
                ax.set_title(name, fontsize="medium")
                ax.set_ylim(chance[i] - 5 * room, reference[i] + 5 * room)
                ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
                ax.minorticks_off()
            figure.savefig(folder / f"classifier_{theme}.png", dpi=150)
            plt.close(figure)


def main(options):
    """Print the table, and draw the figures where they are asked for."""
    warnings.filterwarnings("ignore", "Bins whose width")  # of the columns that are mostly zero, without privacy
    people, houses = (pd.read_csv(EXAMPLES / f"{name}_sample.csv.gz") for name in ("adult", "california"))
    tables = {"sample": (people, houses)}
    if options.data:
        whole = (pd.read_csv(options.data / f"{name}.csv") for name in ("adult", "california_housing"))
        tables["whole table"] = tuple(whole)
    for name, (people_, houses_) in tables.items():
        people_ = people_.drop(columns="fnlwgt", errors="ignore")
        scores = classifier_scores(people_, 1.0)
        show(f"Adult, {name}, (1, 1e-6): accuracy, AUC", scores[:, :2])
        show("  not private, on the same bins", scores[:, 2:])
        show("  not private", classifier_scores(people_, np.inf))
        private = DPRidge(target_bounds=(0, 500_000), epsilon=1.0, delta=1e-6)
        show(f"California, {name}, five columns, (1, 1e-6): R²", regressor_scores(houses_, private))
        show("  with four counts", regressor_scores(houses_, private, COUNTS))
        show("  with three ratios", regressor_scores(houses_, private, RATIOS))
        show("  five columns, not private", regressor_scores(houses_, Ridge(alpha=0.1)))
        show("  all columns, not private", scores_of_splits(plain(Ridge()), houses_))
    show("digits, search of 64 bits, epsilon = 5 of a pixel", search_scores(5.0))
    show("  not private", search_scores(np.inf))
    if options.output:
        draw(people_, options.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with adult.csv and california_housing.csv")
    parser.add_argument("--output", type=Path, help="folder for the figures")
    main(parser.parse_args())
