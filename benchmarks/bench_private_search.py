"""What a private search finds, and what it costs, as R^2 on rows that it has not seen.

Run ``python benchmarks/bench_private_search.py --data DIR``, where DIR holds california_housing.csv. Candidates are
ridge regressions of the median value of houses on numbers and on public bins of them. Each figure is the mean over
fresh fits, with its standard error: of each candidate by itself with all of epsilon, which somebody has who knows the
best one, and of searches of so many trials that release a model with the same guarantee.
"""

import argparse
from functools import partial

import measure  # noqa: F401  # pins the threads, so before numpy
from problems import HOUSING, add_data, mean_score, read_regressions
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline

from skdprp import DPRidge, DPSearchCV

EPSILONS, N_TRIALS = (0.1, 0.3, 1.0, 3.0), (3, 10)
QUARTER = 1 / 16  # squared error of a prediction that is off by a quarter of the range of the targets


class Search(DPSearchCV):
    """A private search that is scored by R^2, as its candidates are."""

    def score(self, X, y):
        """Coefficient of determination."""
        return r2_score(y, self.predict(X))


def main():
    """Print a line for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data(parser, files=(HOUSING,), what=HOUSING)
    parser.add_argument("--draws", type=int, default=20, help="fits for each figure")
    options = parser.parse_args()
    problems = read_regressions(options.data)
    if options.data is not None:
        del problems["diabetes"]
    problem = next(iter(problems.values()))
    low, high = problem.target_bounds
    model = Pipeline([("columns", problem.columns), ("model", DPRidge(target_bounds=(low, high), delta=1e-6))])
    grids = {name: {"columns": [one.columns], "model__max_norm": [one.max_norm]} for name, one in problems.items()}
    searched = partial(Search, model, list(grids.values()), delta=1e-6, max_loss=QUARTER * (high - low) ** 2)
    print("epsilon  " + "  ".join(f"{name:<16}" for name in [*grids, *(f"search, {m} trials" for m in N_TRIALS)]))
    for epsilon in EPSILONS:
        scores = []
        for grid in grids.values():
            alone = model.set_params(**{name: values[0] for name, values in grid.items()}, model__epsilon=epsilon)
            scores.append(mean_score(alone, problem.split, options.draws))
        scores += [mean_score(searched(epsilon=epsilon, n_trials=m), problem.split, options.draws) for m in N_TRIALS]
        figures = (f"{f'{mean:.3f} +- {error:.3f}':<16}" for mean, error in scores)
        print(f"{epsilon:<7}  " + "  ".join(figures), flush=True)


if __name__ == "__main__":
    main()
