"""Private models beside the strongest of other libraries: DP-EBM of interpret-core, diffprivlib and Opacus.

    python benchmarks/bench_peer_models.py --data DIR > doc/peer_models.md

prints a Markdown table of accuracy and AUC, or R², on held-out rows, the guarantee and the neighbours as each library
states them, and the time of a fit at epsilon = 1. DIR holds adult.csv, california_housing.csv, a9a, a9a.t and the ten
thousand MNIST test images. Peers are optional; an environment in which all of them run:

    pip install "scikit-learn==1.7.2" diffprivlib interpret-core opacus pandas -e .

All have the same rows: unit norm for a9a, MNIST and the digits; for the tables the same public bounds and categories,
of which DP-EBM makes bins of its own. Parameters are defaults; Opacus, which has none for a linear model, takes 10
passes at a sampling rate of 1/20, clipping at 1, and the better of two learning rates on the rows held out.
"""

import argparse
import time
import warnings

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from bench_peers import dense, peer
from bench_regression import boosting_model, diffprivlib_model
from bench_tables import ADULT, ADULT_BOUNDS, read
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdprp import AMPClassifier, DPRidge, DPSGDClassifier, ProductNoiseOutputPerturbation, make_table_preprocessor

EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-6
REPLACED = "one row replaced"
PASSES, STEPS = 10, 20


class OpacusLinear:
    """Softmax regression by Opacus, as scikit-learn's classifiers are used."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def fit(self, X, y):
        """Train at each learning rate."""
        import torch
        from opacus import PrivacyEngine

        torch.set_num_threads(1)
        self.classes_, labels = np.unique(y, return_inverse=True)
        rows = torch.utils.data.TensorDataset(torch.tensor(dense(X)).float(), torch.tensor(labels))
        self.candidates = []
        for rate in (2.0, 8.0):
            model = torch.nn.Linear(X.shape[1], len(self.classes_))
            model, optimizer, batches = PrivacyEngine(accountant="prv").make_private_with_epsilon(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=rate),
                data_loader=torch.utils.data.DataLoader(rows, batch_size=len(labels) // STEPS),
                target_epsilon=self.epsilon,
                target_delta=DELTA,
                epochs=PASSES,
                max_grad_norm=1.0,
            )
            loss = torch.nn.CrossEntropyLoss()
            for _ in range(PASSES):
                for batch, classes in batches:
                    optimizer.zero_grad()
                    loss(model(batch), classes).backward()
                    optimizer.step()
            self.candidates.append(model)
        return self

    def predict_proba(self, X, y):
        """Return probabilities of the candidate that is best on these rows."""
        import torch

        with torch.no_grad():
            found = [model(torch.tensor(dense(X)).float()).softmax(dim=1).numpy() for model in self.candidates]
        return max(found, key=lambda shares: np.mean(self.classes_[shares.argmax(axis=1)] == y))


def load_opacus():
    """Opacus, with PyTorch."""
    import opacus

    return opacus


def load_diffprivlib():
    """Logistic and linear regression of diffprivlib."""
    from diffprivlib.models import LinearRegression
    from diffprivlib.models import LogisticRegression as PrivateLogisticRegression

    return PrivateLogisticRegression, LinearRegression


def load_boosting():
    """DP-EBM of interpret-core, for classes and for numbers."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    return DPExplainableBoostingClassifier, DPExplainableBoostingRegressor


def score_classes(model, X, y):
    """Accuracy, and for two classes AUC."""
    shares = model.predict_proba(X, y) if isinstance(model, OpacusLinear) else model.predict_proba(X)
    accuracy = np.mean(np.asarray(model.classes_)[np.argmax(shares, axis=1)] == y)
    return (accuracy, roc_auc_score(y, shares[:, 1])) if len(model.classes_) == 2 else (accuracy,)


def score_numbers(model, X, y):
    """R² of predictions within the bounds."""
    return (1 - np.mean((y - np.clip(model.predict(X), *problems.PRICES)) ** 2) / np.var(y),)


def classifiers(split):
    """Yield library, name, guarantee, neighbours, a function of epsilon that makes a model, and the rows it takes."""
    ours = {"delta": DELTA, "classes": np.unique(split[2])}
    yield "skdprp", "DPSGDClassifier", "(ε, 1e-6)-DP", REPLACED, lambda e: DPSGDClassifier(epsilon=e, **ours), split
    yield "skdprp", "AMPClassifier", "(ε, 1e-6)-DP", REPLACED, lambda e: AMPClassifier(epsilon=e, **ours), split
    pure = ours | {"delta": 0.0}
    yield (
        *("skdprp", "ProductNoiseOutputPerturbation", "ε-DP", REPLACED),
        lambda e: ProductNoiseOutputPerturbation(epsilon=e, **pure),
        split,
    )
    if not isinstance(found := peer(load_diffprivlib), str):
        rows = (dense(split[0]), dense(split[1]), *split[2:])
        yield (
            *("diffprivlib", "LogisticRegression", "ε-DP", "not stated"),
            lambda e: found[0](epsilon=e, data_norm=1.0),
            rows,
        )
    if not isinstance(peer(load_opacus), str):
        yield "Opacus", "softmax by DP-SGD", "(ε, 1e-6)-DP", "one row more or less", OpacusLinear, split
    yield "scikit-learn", "LogisticRegression", "none", "", lambda e: LogisticRegression(max_iter=1000), split


def adult_models(folder):
    """Yield what :func:`classifiers` does for rows of the table, and DP-EBM on the table itself."""
    X, X_test, y, y_test = read(folder, ADULT, "income")
    split = X.drop(columns="fnlwgt"), X_test.drop(columns="fnlwgt"), y, y_test
    bounds = {name: bounds for name, bounds in ADULT_BOUNDS.items() if name != "fnlwgt"}
    texts = {name: sorted(set(split[0][name]) | set(split[1][name])) for name in split[0] if name not in bounds}
    columns = make_table_preprocessor(bounds, categories=texts).fit(split[0])
    yield from classifiers((columns.transform(split[0]), columns.transform(split[1]), *split[2:]))
    if not isinstance(found := peer(load_boosting), str):
        names = list(split[0])
        options = {
            "feature_names": names,
            "feature_types": ["continuous" if name in bounds else "nominal" for name in names],
            "privacy_bounds": bounds,
            "delta": DELTA,
            "n_jobs": 1,
        }
        yield (
            *("interpret-core", "DP-EBM", "(ε, 1e-6)-DP", "one row more or less"),
            lambda e: found[0](epsilon=e, **options),
            split,
        )


def housing_models(folder):
    """Yield regressions of the prices of houses."""
    problem = problems.read_housing(folder)
    ours = {"delta": DELTA, "target_bounds": problem.target_bounds, "max_norm": problem.max_norm}
    yield (
        *("skdprp", "DPRidge", "(ε, 1e-6)-DP", REPLACED),
        lambda e: problem.pipeline(DPRidge(epsilon=e, **ours)),
        problem.split,
    )
    if not isinstance(found := peer(load_boosting), str):
        yield (
            *("interpret-core", "DP-EBM", "(ε, 1e-6)-DP", "one row more or less"),
            lambda e: boosting_model(found[1], problem, e),
            problem.split,
        )
    if not isinstance(linear := peer(load_diffprivlib), str):
        yield (
            *("diffprivlib", "LinearRegression", "ε-DP", "not stated"),
            lambda e: diffprivlib_model(linear[1], problem, e),
            problem.split,
        )
    yield "scikit-learn", "Ridge", "none", "", lambda e: make_pipeline(problem.columns, Ridge()), problem.split


def tasks(folder):
    """Name every data set, with its models and its score."""
    digits = problems.unit_rows(train_test_split(*problems.load_digits(return_X_y=True), test_size=0.3, random_state=0))
    yield "adult.csv", adult_models(folder), score_classes
    yield "california_housing.csv", housing_models(folder), score_numbers
    yield "digits", classifiers(digits), score_classes
    for name, split in problems.read_data(folder).items():
        yield name, classifiers(split), score_classes


def main(options):
    """Print the table."""
    warnings.simplefilter("ignore")  # of peers, of which each warns of something in every fit
    measure.describe_machine()
    head = ("data", "library", "model", "guarantee", "neighbours", *(f"ε = {e:g}" for e in EPSILONS), "s")
    row = measure.table(*head)
    for data, models, score in tasks(options.data):
        for library, name, guarantee, neighbours, make, (X, X_test, y, y_test) in models:
            cells, seconds = [], []
            for epsilon in EPSILONS:
                found = []
                for _ in range(options.draws):
                    start = time.process_time()
                    model = make(epsilon).fit(X, y)
                    seconds.append((epsilon, time.process_time() - start))
                    found.append(score(model, X_test, y_test))
                cells.append(" / ".join(f"{mean:.3f}" for mean in np.mean(found, axis=0)))
            took = np.median([second for epsilon, second in seconds if epsilon == 1])
            row(data, library, name, guarantee, neighbours, *cells, f"{took:.2g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    files = (*problems.FILES, ADULT, problems.HOUSING)
    problems.add_data(parser, files, "a9a, MNIST, adult.csv and california_housing.csv")
    parser.add_argument("--draws", type=int, default=3, help="fits to average over (default: 3)")
    main(parser.parse_args())
