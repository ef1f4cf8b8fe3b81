"""Accuracy and speed of DPRidge against Ridge, diffprivlib and DP-EBM.

    python benchmarks/bench_regression.py --data DIR

prints Markdown tables. First R² on held-out rows, mean over fresh noise and its standard error, of DPRidge as it is but
for the public bounds, of each of its mechanisms, and of Ridge without privacy; scaling, bounds and split are those of
`problems.py`. Then the same of peers with the same bounds, beside DPRidge in the same process. Last, the time of a fit
at a million rows as a ratio to Ridge's, timed in turn in one process. DIR holds california_housing.csv; without --data,
the diabetes table that comes with scikit-learn is all there is.

Peers are optional: one that cannot be imported is reported with its error. Each needs an environment of its own, where
`--only peers` is enough:

    pip install "scikit-learn==1.7.2" "diffprivlib==0.6.6" pandas -e .
    pip install interpret-core pandas -e .
"""

import argparse
import warnings
from functools import partial
from importlib.metadata import version

import measure  # pins the threads, so before numpy
import numpy as np
import peers
import problems
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from skdprp import DPMoments, DPRidge

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
ADJACENCIES = {"add_remove": "row blank or not", "replace_one": "row replaced"}
GOALS = {  # for a row blank or not
    "California": {0.1: 0.57, 0.3: 0.61, 1.0: 0.635, 3.0: 0.64},
    "diabetes": {0.1: 0.0, 0.3: 0.0, 1.0: 0.30, 3.0: 0.36},
}
AS_THEY_ARE, CLIPPED = range(2)
ROWS, FEATURES = 1_000_000, 50
TIME_GOAL = 1.5


class WithPublishedPenalty(DPRidge):
    """DPRidge on moments with the penalty of AdaSSP (Wang, UAI 2018): public but for the noisy least eigenvalue."""

    def fit(self, X, y):
        """Release moments, and solve with that penalty."""
        super().fit(X, y)
        gram, noise = self.moments_.gram, self.moments_.noise.scale / self.moments_.columns.weights[0] ** 2
        d, level = len(gram), 0.05
        least = max(np.linalg.eigvalsh(gram)[0] - noise * np.sqrt(np.log(6 / level)), 0.0)
        alpha = max(0.0, np.sqrt(d * np.log(2 * d**2 / level)) * noise - least)
        coefs, intercepts = self.path([alpha])
        self.coef_, self.intercept_ = coefs[0], intercepts[0]
        return self


def scores(model, problem, draws):
    """R² of fresh fits on held-out rows, of predictions as they are and clipped to the bounds of the targets."""
    X, X_test, y, y_test = problem.split
    predictions = [clone(model).fit(X, y).predict(X_test) for _ in range(draws)]
    return np.array(
        [[r2_score(y_test, p), r2_score(y_test, np.clip(p, *problem.target_bounds))] for p in predictions]
    ).T


def cell(values):
    """Mean of some scores and its standard error, as text."""
    mean, error = np.mean(values), np.std(values) / np.sqrt(len(values))
    return f"{mean:.3f} ± {error:.3f}" if mean > -100 else f"{mean:.2g} ± {error:.1g}"


def ridges(problem):
    """Return DPRidge with defaults, with each mechanism, and where no row is clipped; all but epsilon."""
    ours = DPRidge(target_bounds=problem.target_bounds, max_norm=problem.max_norm, delta=DELTA)
    models = {"DPRidge": ours}
    models |= {
        f"DPRidge, {name}": clone(ours).set_params(mechanism=name) for name in ("descent", "moments", "projection")
    }
    models["moments, penalty of AdaSSP"] = WithPublishedPenalty(**ours.get_params() | {"mechanism": "moments"})
    if problem.longest > problem.max_norm:
        models["DPRidge, no row clipped"] = clone(ours).set_params(max_norm=problem.longest)
    return models


def table_of_accuracy(name, problem, epsilons, draws):
    """Print R² for each of our models, pair of neighbours and epsilon, below that without privacy."""
    X, X_test, *_ = problem.split
    n_columns = clone(problem.columns).fit_transform(X).shape[1]
    print(f"\n{name}: {len(X)} rows to learn from, {len(X_test)} to test, {n_columns} columns\n")
    row = measure.table("neighbours", "model", *(f"epsilon = {epsilon:g}" for epsilon in epsilons))
    for label, score in zip(
        ("Ridge", "Ridge, predictions clipped"), scores(problem.pipeline(Ridge()), problem, 1), strict=True
    ):
        row("not private", label, *[f"{score[0]:.3f}"] * len(epsilons))
    for adjacency, neighbours in ADJACENCIES.items():
        for label, model in ridges(problem).items():
            by_epsilon = {
                epsilon: scores(
                    problem.pipeline(clone(model).set_params(epsilon=epsilon, adjacency=adjacency)), problem, draws
                )[AS_THEY_ARE]
                for epsilon in epsilons
            }
            row(neighbours, label, *map(cell, by_epsilon.values()))
            if adjacency == "add_remove" and label == "DPRidge" and name in GOALS:
                row(neighbours, "goal for DPRidge", *verdicts(GOALS[name], by_epsilon))


def verdicts(goals, by_epsilon):
    """Whether the mean of the scores reaches each goal, as text; None where there is none."""
    for epsilon, values in by_epsilon.items():
        goal = goals.get(epsilon)
        reached = goal is not None and np.mean(values) >= goal
        yield None if goal is None else f"{goal:.3f} {'reached' if reached else 'NOT REACHED'}"


def diffprivlib_model(load, problem, epsilon):
    """Pure epsilon-DP, for one row replaced: its noise follows the range of each product, at a fixed number of rows.

    The columns of a category have a constant sum; to leave one out did no better at the epsilons here.
    """
    return problem.pipeline(load[1](epsilon=epsilon, bounds_X=problem.column_bounds, bounds_y=problem.target_bounds))


def boosting_model(load, problem, epsilon):
    """(epsilon, delta)-DP, for one row more or less.

    Its noise is scaled to a histogram that moves by 1 and a sum of residuals that moves by the range of the targets, as
    they do where a row comes or goes; that the number of rows is public it assumes as well. It bins the numbers itself.
    """
    names = list(problem.split[0].columns)
    return load[1](
        feature_names=names,
        feature_types=["continuous" if name in problem.bounds else "nominal" for name in names],
        privacy_bounds=problem.bounds,
        privacy_target_min=problem.target_bounds[0],
        privacy_target_max=problem.target_bounds[1],
        epsilon=epsilon,
        delta=DELTA,
        n_jobs=1,
    )


PEERS = {
    "diffprivlib": (
        "diffprivlib",
        peers.load_diffprivlib,
        diffprivlib_model,
        "epsilon-DP, row replaced, as documented",
    ),
    "DP-EBM": (
        "interpret-core",
        peers.load_boosting,
        boosting_model,
        "(epsilon, 1e-6)-DP, row more or less, as documented",
    ),
}


def table_of_peers(data, epsilons, draws):
    """Print R² of the peers that are there, and of DPRidge."""
    found = {name: peers.peer(load) for name, (_, load, *_) in PEERS.items()}
    print(f"\nPeers with the same bounds, mean of {draws}\n")
    for name, model in found.items():
        package = PEERS[name][0]
        print(
            f"{name} could not be imported: `{model}`.\n"
            if isinstance(model, str)
            else f"{name} is {package} {version(package)}.\n"
        )
    row = measure.table("data", "model", "guarantee", *(f"epsilon = {epsilon:g}" for epsilon in epsilons))
    for title, problem in data.items():
        for name, (_, _, build, guarantee) in PEERS.items():
            # DP-EBM makes bins of its own, from the table as it is.
            if isinstance(found[name], str) or (name == "DP-EBM" and "bins" in title):
                continue
            all_scores = [scores(build(found[name], problem, epsilon), problem, draws) for epsilon in epsilons]
            row(title, name, guarantee, *(cell(pair[AS_THEY_ARE]) for pair in all_scores))
            row(title, f"{name}, predictions clipped", guarantee, *(cell(pair[CLIPPED]) for pair in all_scores))
        for adjacency, neighbours in ADJACENCIES.items():
            ours = [ridges(problem)["DPRidge"].set_params(epsilon=epsilon, adjacency=adjacency) for epsilon in epsilons]
            all_scores = [scores(problem.pipeline(model), problem, draws) for model in ours]
            guarantee = f"(epsilon, 1e-6)-DP, {neighbours}"
            row(title, "DPRidge", guarantee, *(cell(pair[AS_THEY_ARE]) for pair in all_scores))


def table_of_times(n, d, repeats):
    """Print the time of a fit and the memory it takes beyond the data, beside Ridge's."""
    print(f"\nOne fit of {n} rows, {d} features, median of {repeats}\n")
    row = measure.table(
        "dtype", "mechanism", "DPRidge, s", "Ridge, s", "ratio", "goal", "DPRidge, peak MB", "Ridge, peak MB"
    )
    for dtype in (np.float64, np.float32):
        X = measure.dense(n, d, dtype)
        y = (X.mean(axis=1) + np.random.default_rng(1).normal(0, 0.1, n)).astype(dtype)
        bare = Ridge(solver="cholesky")
        for epsilon in (1.0, 0.1):
            ours = DPRidge(target_bounds=(0, 1), max_norm=d**0.5, epsilon=epsilon, delta=DELTA).fit(X, y)
            passes = repeats if ours.mechanism_ == "moments" else 1  # a descent reads the rows 200 times
            fits = [partial(model.fit, X, y) for model in (ours, bare)]
            own, other, ratio = measure.compare(*fits, passes)
            peaks = [measure.peak_megabytes(fit) for fit in fits]
            verdict = f"{TIME_GOAL} {'reached' if ratio <= TIME_GOAL else 'NOT REACHED'}"
            row(
                np.dtype(dtype).name,
                f"{ours.mechanism_}, epsilon = {epsilon:g}",
                f"{own:.2f}",
                f"{other:.2f}",
                f"{ratio:.2f}",
                verdict if ours.mechanism_ == "moments" else None,
                *(f"{peak:.0f}" for peak in peaks),
            )


def table_of_sparse_moments(repeats):
    """Print the time of moments of sparse rows beside the product of matrices that they contain."""
    print(f"\nMoments of sparse rows, median of {repeats}\n")
    row = measure.table("rows", "columns", "entries of a row", "DPMoments, s", "X.T @ X, s", "ratio", "goal")
    for n, d, per_row in ((100_000, 2000, 20), (100_000, 10_000, 100)):
        X = measure.sparse(n, d, per_row, np.float64)
        own, other, ratio = measure.compare(partial(DPMoments().fit, X), lambda X=X: X.T @ X, repeats)
        verdict = f"{TIME_GOAL} {'reached' if ratio <= TIME_GOAL else 'NOT REACHED'}"
        row(str(n), str(d), str(per_row), f"{own:.2f}", f"{other:.2f}", f"{ratio:.2f}", verdict)


def parse_arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_data(parser, (problems.HOUSING,), "California housing")
    parser.add_argument("--draws", type=int, default=10, help="fits to average over (default: 10)")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS, help="privacy levels")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the timed fits (default: {ROWS})")
    parser.add_argument("--repeats", type=int, default=5, help="timed fits (default: 5)")
    parser.add_argument("--only", choices=("accuracy", "peers", "time"), help="print one part only")
    args = parser.parse_args()
    if min(args.draws, args.repeats) < 1 or min(args.epsilon) <= 0:
        parser.error("--draws and --repeats must be at least 1, and --epsilon above 0")
    return args


def main():
    """Print the tables."""
    warnings.simplefilter("ignore")  # peers warn of what their defaults do; the figures stand beside them
    args = parse_arguments()
    measure.describe_machine()
    data = problems.read_regressions(args.data)
    if args.only in (None, "accuracy"):
        print(f"R² on held-out rows, mean of {args.draws} ± standard error, delta = {DELTA:g}")
        for name, problem in data.items():
            table_of_accuracy(name, problem, args.epsilon, args.draws)
    if args.only in (None, "peers"):
        table_of_peers(data, args.epsilon, args.draws)
    if args.only in (None, "time"):
        table_of_times(args.rows, FEATURES, args.repeats)
        table_of_sparse_moments(args.repeats)


if __name__ == "__main__":
    main()
