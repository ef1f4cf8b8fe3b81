"""Accuracy and speed of the private linear classifiers against LogisticRegression and diffprivlib.

    python benchmarks/bench_linear_model.py --data DIR

prints, for each data set, epsilon and adjacency, the accuracy on held-out rows of AMPClassifier with default parameters
(mean over fresh noise), of the non-private LogisticRegression, and of diffprivlib's where it is installed. `--loss`
takes another loss, `--grid` adds the best accuracy over a grid of C, `--output` adds ProductNoiseOutputPerturbation.
Then it times a fit against LogisticRegression at the same C and tolerance. `--only` names the data sets. DIR holds a9a
and a9a.t in svmlight format, and the ten thousand MNIST test images and labels as gzipped idx files; without --data,
the sets bundled with scikit-learn are used.
"""

import argparse
import time
import warnings

import measure  # pins the threads, so before numpy
import numpy as np
import problems
from problems import mean_score
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skdprp import AMPClassifier, ProductNoiseOutputPerturbation

EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
GRID = 2.0 ** np.arange(-8, 5)
GOALS = {
    ("a9a", 0.1, "add_remove"): 0.824,
    ("a9a", 1.0, "add_remove"): 0.847,
    ("a9a", 0.1, "replace_one"): 0.800,
    ("a9a", 1.0, "replace_one"): 0.844,
    ("mnist", 1.0, "add_remove"): 0.840,
    ("mnist", 1.0, "replace_one"): 0.740,
    ("mnist", 10.0, "replace_one"): 0.890,
}


def score_of_diffprivlib(epsilon, split, draws):
    """Mean accuracy of the peer, as text."""
    try:
        from diffprivlib.models import LogisticRegression as Peer
    except ImportError:
        return "not installed"
    X, X_test, *labels = split
    dense = [part.toarray() if issparse(part) else part for part in (X, X_test)]
    return f"{mean_score(Peer(epsilon=epsilon, data_norm=1.0), (*dense, *labels), draws)[0]:.3f}"


def best_on_grid(private, split, draws):
    """Best mean accuracy over a grid of C, where the guarantee allows it."""
    best = (0.0, np.nan)
    for C in GRID:
        try:
            score, _ = mean_score(AMPClassifier(**private, C=C), split, draws)
        except ValueError:
            continue
        best = max(best, (score, C))
    return best


def compare(name, split, args):
    """Print one line for each epsilon and adjacency."""
    X, X_test, y, y_test = split
    ceiling = LogisticRegression(C=10.0, max_iter=10_000).fit(X, y).score(X_test, y_test)
    print(f"\n{name}: {X.shape[0]} rows, {X.shape[1]} features, {len(np.unique(y))} classes")
    for adjacency in ("add_remove", "replace_one"):
        for epsilon in args.epsilon:
            private = {"epsilon": epsilon, "adjacency": adjacency, "loss": args.loss}
            ours, error = mean_score(AMPClassifier(**private), split, args.draws)
            goal = GOALS.get((name, epsilon, adjacency))
            line = f"  {adjacency:11s} epsilon {epsilon:<5g} ours {ours:.3f} +- {error:.3f}, non-private {ceiling:.3f}"
            line += f", diffprivlib {score_of_diffprivlib(epsilon, split, args.draws)}"
            if args.output:
                score, _ = mean_score(ProductNoiseOutputPerturbation(**private), split, args.draws)
                line += f", output perturbation {score:.3f}"
            if args.grid:
                best, C = best_on_grid(private, split, args.draws)
                line += f", best C {C:g}: {best:.3f} ({ours - best:+.3f})"
            line += "" if goal is None else f"; goal {goal:.3f} {'reached' if ours >= goal else 'NOT REACHED'}"
            print(line, flush=True)


def time_fits(name, split, loss):
    """Print the fit-time ratio to LogisticRegression at the same C and tolerance."""
    X, _, y, _ = split
    for tol in (1e-4, 1e-6, 1e-10):
        for epsilon in (1.0, 10.0):
            ours = AMPClassifier(epsilon=epsilon, tol=tol, loss=loss)
            peer = LogisticRegression(C=ours.fit(X, y).C_, tol=tol, max_iter=10_000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fits = (lambda model=model: model.fit(X, y) for model in (ours, peer))
                mine, other, ratio = measure.compare(*fits, 3, time.perf_counter)
            print(
                f"  {name} C {ours.C_:<8.3g} tol {tol:<7g} ours {mine:.3f} s, LogisticRegression {other:.3f} s, "
                f"ratio {ratio:.2f}",
                flush=True,
            )


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser)
    parser.add_argument("--draws", type=int, default=10, help="fits to average over (default: 10)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS, help="privacy levels")
    parser.add_argument("--loss", default="auto", help="loss of the private classifiers (default: auto)")
    parser.add_argument("--only", nargs="+", default=["a9a", "mnist", "breast_cancer", "digits"], help="data sets")
    parser.add_argument("--grid", action="store_true", help="also find the best C on a grid")
    parser.add_argument("--output", action="store_true", help="also score ProductNoiseOutputPerturbation")
    parser.add_argument("--no-times", action="store_true", help="leave out the fit times")
    args = parser.parse_args()
    if args.draws < 1 or min(args.epsilon) <= 0:
        parser.error("--draws must be at least 1, and --epsilon above 0")
    return args


if __name__ == "__main__":
    arguments = parse_arguments()
    sets = {name: split for name, split in problems.read_data(arguments.data).items() if name in arguments.only}
    print(f"Accuracy on held-out rows, loss {arguments.loss}, otherwise default parameters, delta = 1 / n^2")
    for set_name, parts in sets.items():
        compare(set_name, parts, arguments)
    if not arguments.no_times:
        print("\nTime of a fit")
        for set_name, parts in sets.items():
            time_fits(set_name, parts, arguments.loss)
