"""What the reproductions share: command line, data, colours, sketches by their published names, measures, output."""

import argparse
import gzip
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_svmlight_files, make_classification
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import PolynomialFeatures, normalize
from sklearn.svm import LinearSVC

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    ProductNoiseOutputPerturbation,
    iDPSignRP,
)

# Distinguishable without colour vision: M. Okabe and K. Ito, "Color Universal Design", 2008.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
MARKERS = "osD^vPX*"
DELTA = 1e-6  # that of all experiments of [LL]
MEASURES = ("accuracy", "l2 error", "relative l2 error", "false-positive rate")
DRAWN = ("accuracy", "relative l2 error", "false-positive rate")


def parse_arguments(*, full, data=None):
    """Parse the command line, and set the colours of figures; `data` says what is in the folder, if any is read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--output", type=Path, help="folder for the pictures (PNG) and their numbers (CSV)")
    need = f"folder with {data}; default: data bundled with scikit-learn" if data else "not needed: data are made up"
    parser.add_argument("--data", type=Path, help=need)
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=COLORS)
    plt.rcParams["legend.fontsize"] = "small"
    return parser.parse_args()


def save(options, name, figure, rows, **more):
    """Write a picture and its numbers, if a folder was named: columns by name, or a dict for each line."""
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        figure.savefig(options.output / f"{name}.png", dpi=150)
        for table, numbers in {name: rows, **{f"{name}_{key}": value for key, value in more.items()}}.items():
            pd.DataFrame(numbers).to_csv(options.output / f"{table}.csv", index=False)


def sketched_regressor(epsilon, mechanism, n_components="auto", calibration="exact"):
    """Regressor of Showkatbakhsh et al., for entries between -1 and 1."""
    return MIDPRegressor(
        epsilon=epsilon,
        mechanism=mechanism,
        n_components=n_components,
        calibration=calibration,
        min_residual=0.0,
        max_abs=1.0,
        fit_intercept=False,
    )


# The number of rows n' of a projection of n rows, k units of rows of which each has `base` rows of n' at first.
SKETCHED_RULES = {
    "logarithmic": lambda n, k, base: int(base * (np.log(k) + 1)),
    "linear": lambda n, k, base: int(base * (k + 1) / 2),
    "full": lambda n, k, base: int(n),
}


def draw_regressions(n, d, ratios, seed=0):
    """Draw entries spread evenly over [-1, 1], and targets whose r(y) is as asked for.

    Returned are X, the targets by r(y), the same two as a triangular factor of [X, y], which has their Gram matrix, and
    f(X) of the paper.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    signal, noise = X @ rng.normal(size=d), rng.normal(size=n)
    noise -= X @ np.linalg.solve(X.T @ X, X.T @ noise)
    noise *= np.linalg.norm(signal) / np.linalg.norm(noise)
    targets = {r: signal + noise / r for r in ratios}
    triangle = np.linalg.qr(np.column_stack([X, *targets.values()]), mode="r")
    squares = X**2
    residual = np.sqrt((squares.sum(axis=0) - squares.max(axis=0)).min())
    return X, targets, triangle[:, :d], dict(zip(ratios, triangle[:, d:].T, strict=True)), residual


def output_perturbation(
    radius, *, calibration="exact", delta=None, loss="log_loss", multi_class="auto", epsilon=1.0, C=1.0
):
    """Return output perturbation of rows of norm 1, without intercept."""
    return ProductNoiseOutputPerturbation(
        epsilon=epsilon,
        delta=delta,
        C=C,
        loss=loss,
        multi_class=multi_class,
        radius=radius,
        calibration=calibration,
        max_norm=1.0,
        adjacency="replace_one",
        fit_intercept=False,
        tol=1e-10,
        classes=None,
        class_weight=None,
        threshold=0.5,
    )


def objective_perturbation(noise, *, calibration="exact", loss="log_loss"):
    """Return objective perturbation of rows of norm 1, at its least penalty, without intercept."""
    return AMPClassifier(
        epsilon=1.0,
        delta=None,
        C="auto",
        loss=loss,
        multi_class="auto",
        noise=noise,
        count_labels=False,
        threshold=0.5,
        calibration=calibration,
        max_norm=1.0,
        adjacency="replace_one",
        fit_intercept=False,
        tol=1e-10,
        classes=None,
        class_weight=None,
    )


def _read_idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def read_digits(folder):
    """Read digits with pixels from 0 to 1: MNIST, with its training set if that is there, or the small ones."""
    if folder is None:
        X, y = load_digits(return_X_y=True)
        return X / 16, y, "small digits"
    parts = [part for part in ("train", "t10k") if (folder / f"{part}-images-idx3-ubyte.gz").exists()]
    if not parts:
        raise FileNotFoundError(f"{folder} has no t10k-images-idx3-ubyte.gz.")
    images = [_read_idx(folder / f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for part in parts]
    labels = [_read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8) for part in parts]
    return np.vstack(images) / 255, np.concatenate(labels), "MNIST"


def read_text(folder, n_features):
    """Read sparse rows of zeros and ones with two classes.

    Which character 3-grams a text message has, hashed, and whether it is spam; without a folder, which pairs of pixels
    of the small digits are both inked, and whether the digit is above four.
    """
    if folder is None:
        X, y = load_digits(return_X_y=True)
        pairs = PolynomialFeatures(interaction_only=True, include_bias=False).fit_transform(X > 7)[:, 64:]
        return sp.csr_array(pairs.astype(float)), (y > 4).astype(int), "pairs of inked pixels"
    lines = (folder / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    labels, messages = zip(*(line.split("\t", 1) for line in lines), strict=True)
    hashing = HashingVectorizer(
        analyzer="char", ngram_range=(3, 3), n_features=n_features, binary=True, norm=None, alternate_sign=False
    )
    return hashing.transform(messages), (np.array(labels) == "spam").astype(int), "3-grams of text messages"


def noisy_projection(k, epsilon, projection, *, noise="gaussian", calibration="analytic", density="auto"):
    """Return a projection with noise, for beta = 1 and delta = 1e-6."""
    return DPRandomProjection(
        k,
        epsilon=epsilon,
        delta=DELTA,
        max_change=1.0,
        adjacency="l1",
        projection=projection,
        density=density,
        noise=noise,
        calibration=calibration,
    )


def noisy_oporp(k, epsilon):
    """Return DP-OPORP, for beta = 1 and delta = 1e-6."""
    return DPOPORP(
        k, epsilon=epsilon, delta=DELTA, max_change=1.0, adjacency="l1", noise="gaussian", calibration="analytic"
    )


def signs_of_projection(k, epsilon, method, *, projection="rademacher", min_norm=None, delta=0.0):
    """Return DP-SignRP, for beta = 1."""
    return DPSignRP(
        k,
        epsilon=epsilon,
        delta=delta,
        max_change=1.0,
        adjacency="l1",
        method=method,
        min_norm=min_norm,
        projection=projection,
        density="auto",
        calibration="exact",
    )


def signs_of_oporp(k, epsilon, method, n_repeats):
    """Return DP-SignOPORP with t repetitions, for beta = 1."""
    return DPSignOPORP(
        k,
        epsilon=epsilon,
        max_change=1.0,
        adjacency="coordinate",
        method=method,
        n_repeats=n_repeats,
    )


def individual_signs(k, epsilon, method, projection):
    """Return iDP-SignRP or iDP-SignOPORP, for beta = 1 and delta = 1e-6."""
    return iDPSignRP(
        k, epsilon=epsilon, delta=DELTA, max_change=1.0, method=method, projection=projection, density="auto"
    )


def noisy_sketches(k, epsilon):
    """Return the projections with noise of [LL] by their names there."""
    return {
        "Raw-data-G-OPT": noisy_projection(k, epsilon, "identity"),
        "DP-RP-L": noisy_projection(k, epsilon, "gaussian", noise="laplace"),
        "Analytic DP-RP-G": noisy_projection(k, epsilon, "gaussian", calibration="kenthapadi_bound"),
        "DP-RP-G": noisy_projection(k, epsilon, "gaussian", calibration="kenthapadi"),
        "DP-RP-G-OPT": noisy_projection(k, epsilon, "gaussian"),
        "DP-RP-G-OPT-B": noisy_projection(k, epsilon, "rademacher"),
        "DP-OPORP": noisy_oporp(k, epsilon),
    }


def sign_sketches(k, epsilon, repeats):
    """Return the sign sketches of [LL] by their names there; -s stands for -smooth, and t for the repetitions."""
    return {
        "signs of DP-RP-G-OPT-B": noisy_projection(k, epsilon, "rademacher"),
        "DP-SignRP-RR": signs_of_projection(k, epsilon, "rr"),
        "DP-SignRP-RR-s": signs_of_projection(k, epsilon, "smooth"),
        **{f"DP-SignOPORP-RR, t = {t}": signs_of_oporp(k, epsilon, "rr", t) for t in repeats},
        **{f"DP-SignOPORP-RR-s, t = {t}": signs_of_oporp(k, epsilon, "smooth", t) for t in repeats},
    }


def release(name, sketch, X, draw):
    """Release a sketch of each row, by a projection of its own; its signs alone are post-processing."""
    sketches = sketch.set_params(random_state=draw).fit_transform(X)
    return np.sign(sketches) if name.startswith("signs of") else sketches


def nearest(rows, n_queries, size):
    """Find the rows with the largest cosine to each of the first ones: their places among the others, nearest first."""
    rows = rows.astype(np.float32)
    found = NearestNeighbors(n_neighbors=size, metric="cosine").fit(rows[n_queries:])
    return found.kneighbors(rows[:n_queries], return_distance=False)


def search_measures(rows, n_queries, is_right, few, many):
    """Precision among the few nearest rows of each query, and recall among the many."""
    found = np.take_along_axis(is_right, nearest(rows, n_queries, many), axis=1)
    return {"precision": found[:, :few].mean(), "recall": (found.sum(axis=1) / is_right.sum(axis=1)).mean()}


def right_rows(rows, n_queries, size):
    """Whether each row is among those with the largest cosine to a query."""
    is_right = np.zeros((n_queries, rows.shape[0] - n_queries), bool)
    np.put_along_axis(is_right, nearest(rows, n_queries, size), True, axis=1)
    return is_right


def svm_accuracy(rows, y, *, C):
    """Balanced accuracy, on half of the rows, of a support vector machine that learns from the others."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    # With fewer columns than rows the primal problem is the smaller one.
    model = LinearSVC(C=C, class_weight="balanced", dual=rows.shape[1] > len(train), tol=1e-3)
    return balanced_accuracy_score(y[test], model.fit(rows[train], y[train]).predict(rows[test]))


def _synthetic(n_samples, n_features):
    """Draw Synthetic-H, smaller: the generator and its parameters are those of the code of Iyengar et al. (2019)."""
    return make_classification(n_samples, n_features, n_informative=10, n_redundant=0, class_sep=2.0, random_state=1)


def linear_problems(options):
    """Return X_train, X_test, y_train, y_test by the name of a problem, rows of unit norm; without data, small ones."""
    X, y, name = read_digits(options.data)
    if options.data is None:
        size = (1500, 200)
        problems = {name: train_test_split(X, y, test_size=0.25, random_state=0)}
    else:
        n_train = 8000 if options.full else 4000
        size = (10_000, 2000) if options.full else (5000, 1000)
        adult = load_svmlight_files([str(options.data / part) for part in ("a9a", "a9a.t")], n_features=123)
        problems = {name: (X[:n_train], X[-2000:], y[:n_train], y[-2000:]), "a9a": (*adult[::2], *adult[1::2])}
    X, y = _synthetic(*size)
    problems[f"Synthetic-H, {size[1]} features"] = train_test_split(X, y, test_size=0.2, random_state=0)
    return {key: (normalize(a), normalize(b), *labels) for key, (a, b, *labels) in problems.items()}


def false_positive_rate(y, predicted):
    """Share of rows without a class that are given it: of the larger of two labels, else the mean over classes."""
    classes = np.unique(y)
    return np.mean([np.mean(predicted[y != c] == c) for c in (classes[-1:] if len(classes) == 2 else classes)])


def compare_models(options, name, title, models, styles, penalty, epsilons, loss):
    """Fit private models to each problem, and draw, save and print how far they are from the same without noise.

    `penalty` gives C from the name of the problem and the number of rows, or "auto". Without ``--full``, every second
    of `epsilons` is taken, and the hinge loss not on digits, where it tells each of ten classes from the rest.
    """
    rows, data = [], linear_problems(options)
    if loss == "huber_hinge" and not options.full:
        data = {problem: parts for problem, parts in data.items() if len(np.unique(parts[2])) == 2}
    for problem, (X, X_test, y, y_test) in data.items():
        exact = cache(lambda C, loss, multi_class, X=X, y=y: _without_noise(C, loss, multi_class).fit(X, y))
        for method, model in models.items():
            for epsilon in epsilons if options.full else epsilons[::2]:
                model = clone(model).set_params(epsilon=epsilon, C=penalty(problem, len(y)))
                draws = range(10 if options.full else 5)
                measures = [_measure(model.fit(X, y), exact, X_test, y_test) for _ in draws]
                means = {key: np.mean([measure[key] for measure in measures]) for key in measures[0]}
                deviations = {f"deviation of {key}": np.std([each[key] for each in measures]) for key in MEASURES}
                rows.append({"data": problem, "method": method, "epsilon": epsilon, **means, **deviations})
    problems = list(dict.fromkeys(row["data"] for row in rows))
    size = (max(9, 1 + 4 * len(problems)), 9)  # the legend is as wide as two columns
    fig, axes = plt.subplots(3, len(problems), figsize=size, layout="constrained", squeeze=False)
    for problem, column in zip(problems, axes.T, strict=True):
        _draw_problem(column, [row for row in rows if row["data"] == problem], styles)
        column[0].set_title(problem)
    for ax, measure in zip(axes[:, 0], DRAWN, strict=True):
        ax.set_ylabel(measure)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, title=title)
    save(options, name, fig, rows)
    line = "{epsilon:<7.3g}  {method:31}  accuracy {accuracy:.3f} +- {deviation of accuracy:.3f}"
    line += "  l2 error {l2 error:.2g}, relative {relative l2 error:.2g}  FPR {false-positive rate:.3f} "
    line += "+- {deviation of false-positive rate:.3f}  true delta {true delta:.2g}"
    for problem in problems:
        own = [row for row in rows if row["data"] == problem]
        first = "{data}, not private: accuracy {not private:.3f}  FPR {not private FPR:.3f}"
        print(first.format(**own[0]), "epsilon", *(line.format(**row) for row in own), "", sep="\n")


def _measure(model, exact, X, y):
    published_objective = isinstance(model, AMPClassifier) and model.calibration != "exact"
    bare = exact(model.C_, model.loss_, "ovr" if published_objective else model.multi_class)
    predicted, error = model.predict(X), np.linalg.norm(model.coef_ - bare.coef_)
    return {  # the true delta is 1 where nothing is proved
        "accuracy": np.mean(predicted == y),
        "l2 error": error,
        "relative l2 error": error / np.linalg.norm(bare.coef_),
        "false-positive rate": false_positive_rate(y, predicted),
        "true delta": model.guarantee_.delta if np.isfinite(model.guarantee_.epsilon) else 1.0,
        "not private": np.mean(bare.predict(X) == y),
        "not private FPR": false_positive_rate(y, bare.predict(X)),
    }


def _without_noise(C, loss, multi_class):
    """Return the model of the same penalty at an epsilon at which noise does not matter."""
    return output_perturbation("gamma", delta=0, epsilon=1e9, C=C, loss=loss, multi_class=multi_class)


def _draw_problem(column, rows, styles):
    for ax, measure in zip(column, DRAWN, strict=True):
        for name, style in styles.items():
            points = [(row["epsilon"], row[measure]) for row in rows if row["method"] == name]
            ax.plot(*zip(*points, strict=True), style, label=name)
        ax.set(xscale="log")
    ceiling = max(row["not private"] for row in rows)
    column[0].axhline(ceiling, color="black", linewidth=1, linestyle="-.", label="without noise, best of the penalties")
    column[1].set(yscale="log")
    column[2].set(xlabel="epsilon, one row", ylim=(0, None))
