"""``python -m skdprp``: how well a private classifier and private sketches of a file do, at several epsilons."""

import textwrap
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from .._digits import as_given
from ..inspection import PrivacyUtilityDisplay
from ..linear_model import AMPClassifier
from ..neural_network import DPSGDClassifier
from ..preprocessing import make_table_preprocessor
from ..release_file._file import replace_file
from ..sketch import DPOPORP, DPSignOPORP
from ._columns import are_described, bounds_of, check_options, preparation, read_rows
from ._label_cells import check_labels
from ._options import add_columns, add_format, positive, seed
from ._output import check_output, writing

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)

_N_NEIGHBORS = 10
_SCORES = {"accuracy": ("accuracy", "accuracy"), "roc_auc": ("AUC", "area under the ROC curve")}  # in short, and whole
_MOSTLY_ONE = 0.75  # the share of the most frequent label, from which on accuracy says little
_WIDTH_OF_PANEL = 46  # characters of a title
_N_QUERIES = 500  # the time of a search is that many times the number of rows


def add_command(commands):
    """Add this command and its options."""
    text = (
        "train a private classifier, sketch rows privately, train and search on the sketches, and draw all by epsilon"
    )
    usage = "%(prog)s [FILE --target COLUMN --bounds COLUMN=LOW:HIGH ...] [options]"
    needed = "labels must be of two classes or more, and each class needs 4 rows or more, to learn from and to score on"
    parser = commands.add_parser("utility", help=text, description=f"{text}; {needed}", usage=usage)
    parser.set_defaults(run=run)
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="CSV with a header, or LIBSVM; default: handwritten digits"
    )
    add_format(parser)
    parser.add_argument(
        "--max-change",
        type=positive(float),
        default=1.0,
        help="unit of privacy: how much a row may change, in the units of the features or of their bounds (default: 1)",
    )
    add_columns(parser)
    parser.add_argument(
        "--center",
        type=float,
        default=0.0,
        help="public constant taken off every feature, so that signs tell something (default: 0)",
    )
    parser.add_argument(
        "--epsilon", type=positive(float), nargs="+", default=EPSILONS, metavar="EPSILON", help="epsilons to try"
    )
    parser.add_argument(
        "--scoring",
        choices=tuple(_SCORES),
        default="accuracy",
        help="score of the models: roc_auc, the area under the ROC curve, where classes are rare, which models of any"
        " accuracy may never predict; of more than two classes the mean of each against the rest (default: accuracy)",
    )
    parser.add_argument(
        "--n-components", type=positive(int), help="size of a sketch (default: the number of features, 256 at most)"
    )
    parser.add_argument("--random-state", type=seed, default=0, help="seed of the public projection and of the split")
    parser.add_argument("--output", type=Path, default=Path("skdprp_utility.png"), help="where the figure goes")


def run(options):
    """Score a classifier and two sketches at each epsilon, print tables and guarantees, and draw the curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5.5), layout="constrained")
    check_output(options.output, "picture", figure.canvas.get_supported_filetypes())
    rows, X, y = _read(options)
    n_neighbors = min(_N_NEIGHBORS, X.shape[0] // 2)  # of the rows to learn from, which are more than half
    _introduce(X, y, n_neighbors, options)
    classifier = AMPClassifier if len(set(y)) == 2 else DPSGDClassifier  # as `fit` chooses
    prepared = _preparation_of_model(rows, options)
    scoring = "roc_auc_ovr" if options.scoring == "roc_auc" and len(set(y)) > 2 else options.scoring
    score, score_name = _SCORES[options.scoring]
    model = _curve(make_pipeline(prepared, classifier()), scoring, rows, y, options)
    _print_table([[model]], [classifier.__name__], [score])
    if options.scoring == "accuracy" and model.chance_score > _MOSTLY_ONE:
        print("Most rows have the same label: --scoring roc_auc shows more.")
    print("\nThe table of the sketches follows. It takes longer.", flush=True)
    sketches = [
        sketch(
            options.n_components or min(256, X.shape[1]),
            max_change=options.max_change,
            random_state=options.random_state,
        )
        for sketch in (DPOPORP, DPSignOPORP)
    ]
    learners = [
        (LogisticRegression(max_iter=300), scoring),
        (KNeighborsClassifier(n_neighbors, metric="cosine"), _share_of_neighbours),
    ]
    learnt, found = (
        [_curve(make_pipeline(sketch, learner), scoring, X, y, options) for sketch in sketches]
        for learner, scoring in learners
    )
    _print_table(list(zip(learnt, found, strict=True)), [curve.label for curve in learnt], [score, "search"])
    first = options.epsilon[0]
    fitted = make_pipeline(prepared, classifier(epsilon=first)).fit(rows, y)[-1]
    for private in (fitted, *(sketch.set_params(epsilon=first).fit(X, y) for sketch in sketches)):
        print(f"\n{type(private).__name__} at epsilon = {as_given(first)}\n{private.guarantee_}")
    unit = _unit_of_sketches(options)
    panels = [
        ("A private classifier\nunit of privacy: one row and its label", score_name, [model]),
        (f"Logistic regression on private sketches\n{unit}", score_name, learnt),
        (f"Search in private sketches\n{unit}", "share of neighbours with the label", found),
    ]
    for part, panel in zip(figure.subfigures(1, 3), panels, strict=True):
        _draw(part, *panel, public_data=options.file is None)
    with writing(options.output):
        replace_file(options.output, lambda path: figure.savefig(path, dpi=150))
    print(f"\nwrote {options.output}")


def _unit_of_sketches(options):
    """Say in lines of a title whose privacy a sketch protects."""
    of_width = " of the width of its bounds" * are_described(options)
    change = f"a change of one column of a row by {as_given(options.max_change)}{of_width}"
    if options.file is None and options.max_change == 1:
        change = "one pixel, by its whole range"
    return textwrap.fill(f"unit of privacy: {change}", _WIDTH_OF_PANEL)


def _draw(part, title, score_name, curves, *, public_data):
    """Draw curves of one score in a part of the figure."""
    part.suptitle(title)
    ax = part.subplots()
    for curve in curves:
        curve.score_name = score_name
        curve.plot(ax, public_data=public_data)
    ax.set_ylim(0, 1.02)


def _read(options):
    """Return rows for a model, rows for sketches, on one scale as far as columns are described, and labels."""
    if options.file is None:
        if options.target or options.n_features or options.zero_based or are_described(options):
            raise ValueError("--target, --n-features, --zero-based, bounds, categories and fills go with a FILE")
        X, y = load_digits(return_X_y=True)
        X = X / 16 - 0.5 - options.center  # pixels are 0 to 16
        return X, X, y
    check_options(options, options.file)
    if options.center and options.n_features:
        raise ValueError("--center would fill a sparse file")
    X, y = read_rows(options.file, options, unnamed="refuse" if are_described(options) else "keep")
    check_labels(options.file, y, rows_of_each_class=4)  # so that each is among the rows to learn from, and the others
    table = X
    if are_described(options):
        X = preparation(options, X).fit_transform(X)
    elif not sp.issparse(X):
        X = np.asarray(X)
    X = X - options.center if options.center else X
    return table if _is_described_table(table, options) else X, X, y


def _is_described_table(rows, options):
    return are_described(options) and hasattr(rows, "columns")


def _preparation_of_model(rows, options):
    """Prepare a table as `fit` does, and other rows by norm 1, the default max_norm, whatever their units are."""
    if not _is_described_table(rows, options):
        return Normalizer()
    return make_table_preprocessor(bounds_of(options, rows), categories=options.categories)


def _introduce(X, y, n_neighbors, options):
    print(f"{options.file or 'handwritten digits'}: {X.shape[0]} rows, {X.shape[1]} features, {len(set(y))} classes")
    units = "where 1 is the width of a column's bounds" if are_described(options) else "in the units of its features"
    print("A private model hides one row and its label; the number of rows and the set of labels are not hidden.")
    change = as_given(options.max_change)
    print(f"A private sketch hides a change of one column of a row by {change}, {units} (--max-change).")
    print("It hides no label.")
    if options.categories:
        print("From one category to another two columns change by 1 each: DPOPORP hides both from --max-change 2 on,")
        print("DPSignOPORP one of them from --max-change 1 on.")
    if options.file and not are_described(options):
        print(
            "One number for all features means little where their units differ: give what is known of each by --bounds."
        )
    print("Each model, and each sketch of all rows, is a release: the epsilons of all releases add up.")
    score, _ = _SCORES[options.scoring]
    print(
        f"{score}: learnt from 70% of the rows, measured on the others; for sketches by a logistic regression on them"
    )
    print("not private: a logistic regression, and a search, on the same rows without noise")
    print(f"search: of the {n_neighbors} sketches nearest to that of a query, the share with the label of the query")
    print("These numbers are computed from the rows, in part without noise: keep them with the rows, unless public.")


def _curve(estimator, scoring, X, y, options):
    """Return how well an estimator does at each epsilon that learns from some rows, on others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near chance there is little to converge to
        return PrivacyUtilityDisplay.from_estimator(
            estimator,
            X,
            y,
            epsilons=options.epsilon,
            cv=StratifiedShuffleSplit(1, test_size=0.3, random_state=options.random_state),  # the same for all curves
            scoring=scoring,
            n_repeats=1,
        )


def _share_of_neighbours(model, X, y):
    """Mean share of the neighbours of a query that have its label: the probability that the classifier gives to it."""
    shares = model.predict_proba(X[:_N_QUERIES])
    return shares[np.arange(len(shares)), np.searchsorted(model.classes_, y[:_N_QUERIES])].mean()


def _print_table(groups, names, scores):
    """Print the scores of each group of curves side by side, in a line for each epsilon."""
    curves = [curve for group in groups for curve in group]
    lines = {"not private": [curve.reference_score for curve in curves]}
    for i, epsilon in enumerate(curves[0].epsilons):
        lines[as_given(epsilon)] = [curve.scores[i, 0, 0] for curve in curves]
    lines["chance"] = [curve.chance_score for curve in curves]
    print(f"\n{'':>14}" + "".join(f"{name:>22}" for name in names))
    print(f"{'epsilon':>14}" + "".join(f"{score:>{22 // len(scores)}}" for score in scores) * len(groups))
    for name, figures in lines.items():
        print(f"{name:>14}" + "".join(f"{figure:>{22 // len(scores)}.3f}" for figure in figures))
