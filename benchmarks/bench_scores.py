"""How far private scores are from those of scikit-learn, whether their error bars say so, and how long they take.

Run ``python benchmarks/bench_scores.py``. Rows are simulated: two classes of which one is as frequent as the other or
rare, and a regression. Of each score, means over tables and draws of noise: that of scikit-learn, the private one, its
standard deviation by the noise, and `noise_error`. Then the time on a million rows, divided by that of scikit-learn.
"""

import measure  # pins the threads, so before numpy
import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score, roc_auc_score

from skdprp import AMPClassifier
from skdprp.metrics import dp_accuracy_score, dp_confusion_matrix, dp_r2_score, dp_roc_auc_score

N_TABLES, N_DRAWS, EPSILON = 10, 50, 1.0


def classes_of(rng, n_rows, offset):
    """Rows of five numbers, one of which tells the probability of the positive class."""
    rows = rng.normal(size=(n_rows, 5)) / 2
    return rows, rng.uniform(size=n_rows) < 1 / (1 + np.exp(offset - 2 * rows[:, 0]))


def of_classes(n_rows, offset):
    """Yield scores of a private model on held-out rows: name, that of scikit-learn, private ones."""
    for seed in range(N_TABLES):
        rows, labels = classes_of(np.random.default_rng(seed), 2 * n_rows, offset)
        model = AMPClassifier(epsilon=1.0, delta=1e-6, classes=[False, True]).fit(rows[:n_rows], labels[:n_rows])
        y, probability = labels[n_rows:], model.predict_proba(rows[n_rows:])[:, 1]
        predicted = probability > 0.5
        private = [dp_accuracy_score(y, predicted, epsilon=EPSILON) for _ in range(N_DRAWS)]
        yield "accuracy", accuracy_score(y, predicted), private
        private = [dp_roc_auc_score(y, probability, pos_label=True, epsilon=EPSILON) for _ in range(N_DRAWS)]
        yield "area under the ROC curve", roc_auc_score(y, probability), private


def of_targets(n_rows):
    """Yield R² of predictions that are off by a fifth of the width of the bounds."""
    for seed in range(N_TABLES):
        rng = np.random.default_rng(seed)
        y = rng.uniform(size=n_rows)
        predicted = y + rng.normal(scale=0.2, size=n_rows)
        private = [dp_r2_score(y, predicted, target_bounds=(0, 1), epsilon=EPSILON) for _ in range(N_DRAWS)]
        yield "R²", r2_score(y, predicted), private


def print_errors(title, scores):
    """Print the means over tables of each score."""
    found = {}
    for name, exact, private in scores:
        of_draws = [exact, np.mean([one.score for one in private]), np.std([one.score for one in private])]
        found.setdefault(name, []).append([*of_draws, np.mean([one.noise_error for one in private])])
    for name, of_tables in found.items():
        exact, private, noise, stated = np.mean(of_tables, axis=0)
        print(f"{title:32}{name:26}{exact:8.4f}{private:9.4f}{noise:8.4f}{stated:8.4f}")


def print_times(n_rows=1_000_000):
    """Print how long each score takes."""
    rng = np.random.default_rng(0)
    y, predicted = rng.integers(2, size=(2, n_rows))
    targets, probability = rng.uniform(size=(2, n_rows))
    calls = {
        "accuracy": (lambda: dp_accuracy_score(y, predicted), lambda: accuracy_score(y, predicted)),
        "confusion matrix": (
            lambda: dp_confusion_matrix(y, predicted, labels=[0, 1]),
            lambda: confusion_matrix(y, predicted, labels=[0, 1]),
        ),
        "area under the ROC curve": (
            lambda: dp_roc_auc_score(y, probability, pos_label=1),
            lambda: roc_auc_score(y, probability),
        ),
        "R²": (
            lambda: dp_r2_score(targets, probability, target_bounds=(0, 1)),
            lambda: r2_score(targets, probability),
        ),
    }
    print(f"\n{n_rows} rows: seconds, and times scikit-learn")
    for name, (private, plain) in calls.items():
        ours, _, ratio = measure.compare(private, plain, repeats=5)
        print(f"{name:26}{ours:8.3f}{ratio:8.2f}")


if __name__ == "__main__":
    print(f"epsilon = {EPSILON:g}                     score                       exact  private   noise  stated")
    print_errors("2000 rows, classes alike", of_classes(2000, 0.0))
    print_errors("10000 rows, one class in 50", of_classes(10_000, 4.5))
    print_errors("2000 rows, a regression", of_targets(2000))
    print_times()
