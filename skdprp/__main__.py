"""``python -m skdprp``: what sketches of a table are good for, or, after ``fit``, a private classifier of its rows."""

import argparse
import os
import re
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, DataDimensionalityWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from . import DPOPORP, AMPClassifier, DPSignOPORP, PublicScaler, privacy_report
from ._tables import check_features, check_labels, read_file, whole_number
from .linear_model import SolverError

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
SKETCHES = (DPOPORP, DPSignOPORP)
N_NEIGHBORS = 10
N_QUERIES = 500
_LISTED = "These numbers are public, and so are the names of columns and classes: the model has them.\n"
_NOT_LISTED = (
    "These numbers are public, and so are the names of columns: the model has them. Its classes are those of the rows,"
    "\nand the guarantee holds given the set of them; --classes THIS,THAT lists them in public instead.\n"
)
_TWO_NUMBERS = re.compile(r"(-?[\d.]+)\s*(?:-|,|;|\.\.)\s*(-?[\d.]+)")


class _OneLineParser(argparse.ArgumentParser):
    """Report errors in one line."""

    def error(self, message):
        """Print one line to standard error and exit with 2."""
        self.exit(2, f"skdprp: error: {message}\n")


def _positive(kind):
    """Return a parser of positive finite numbers of a kind, for argparse."""

    def _parse(text):
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value

    _parse.__name__ = f"positive {kind.__name__}"
    return _parse


def _named(text, form):
    """Split COLUMN=... at its last sign; a FILE that follows such a list is taken for a member of it."""
    column, _, value = text.rpartition("=")
    if not column:
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}; FILE goes first, before all options")
    return column, value


def _column_bounds(text):
    """Read COLUMN=LOW:HIGH; a name may contain both signs."""
    column, bounds = _named(text, "COLUMN=LOW:HIGH")
    try:
        low, high = map(float, bounds.split(":"))
    except ValueError:
        numbers = _TWO_NUMBERS.fullmatch(bounds)
        right = f"{column}={numbers[1]}:{numbers[2]}" if numbers else "COLUMN=LOW:HIGH"
        raise argparse.ArgumentTypeError(f"{text!r}: write {right}") from None
    if not low < high:
        raise argparse.ArgumentTypeError(f"{text!r}: LOW must be below HIGH; low and high exchanged?")
    return column, (low, high)


def _column_categories(text):
    """Read COLUMN=THIS,THAT; numbers in order if all are."""
    column, listed = _named(text, "COLUMN=THIS,THAT")
    return column, _listed(text, listed)


def _listed(text, listed):
    """Read THIS,THAT as numbers in order if all are, and as names otherwise."""
    names = listed.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: one is empty or there twice")
    try:
        return sorted({float(name) for name in names})
    except ValueError:
        return names


def _classes(text):
    """Read THIS,THAT as labels: whole numbers, truth values as tables have them, or names."""
    listed = _listed(text, text)
    are_names = isinstance(listed[0], str)
    classes = set(listed if are_names else map(whole_number, text.split(",")))  # exactly, beyond 2^53 too
    if None in classes:
        raise argparse.ArgumentTypeError(f"{text!r}: classes are names or whole numbers of at most 64 bits")
    if len(classes) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: there must be two classes or more")
    return [False, True] if classes == {"False", "True"} else sorted(classes)


def _column_fill(text):
    """Read COLUMN=VALUE."""
    column, value = _named(text, "COLUMN=VALUE")
    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r}: VALUE must be a finite number")
    return column, number


def _add_columns(parser, name, kind, metavar, text):
    """Add an option of many columns, also if given again; it takes words up to the next option."""
    parser.add_argument(name, type=kind, nargs="+", action="extend", default=[], metavar=metavar, help=text)


def _add_bounds(parser):
    _add_columns(
        parser,
        "--bounds",
        _column_bounds,
        "COLUMN=LOW:HIGH",
        "least and largest value of columns, known in public and not read off the file: they become -1/2 and 1/2, and"
        " values beyond are clipped",
    )
    _add_columns(
        parser,
        "--categories",
        _column_categories,
        "COLUMN=THIS,THAT",
        "what columns can hold, known in public and not read off the file: each becomes a column of 0 and 1, and other"
        " or missing values are 0 in all of them",
    )
    _add_columns(
        parser, "--fill", _column_fill, "COLUMN=VALUE", "public constants that stand for missing values of columns"
    )
    parser.add_argument(
        "--default-bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="bounds of all other columns"
    )


def _add_format(parser):
    parser.add_argument("--target", metavar="COLUMN", help="column of a CSV with the labels")
    parser.add_argument(
        "--n-features",
        type=_positive(int),
        metavar="N",
        help="number of features of a LIBSVM file, known in public and not read off the file",
    )
    parser.add_argument(
        "--zero-based", action="store_true", help="features of a LIBSVM file are numbered from 0 (default: from 1)"
    )


def _parser():
    parser = _OneLineParser(
        prog="python -m skdprp",
        usage="%(prog)s [FILE --target COLUMN --bounds COLUMN=LOW:HIGH ...] [options]",
        description="Sketch rows privately, train and search on the sketches, and show the utility against epsilon.",
        epilog="python -m skdprp fit --help: train a private classifier on a file, and save it.",
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="CSV with a header, or LIBSVM; default: handwritten digits"
    )
    _add_format(parser)
    parser.add_argument(
        "--max-change",
        type=_positive(float),
        default=1.0,
        help="unit of privacy: how much a row may change, in the units of the features or of their bounds (default: 1)",
    )
    _add_bounds(parser)
    parser.add_argument(
        "--center",
        type=float,
        default=0.0,
        help="public constant taken off every feature, so that signs tell something (default: 0)",
    )
    parser.add_argument(
        "--epsilon", type=_positive(float), nargs="+", default=EPSILONS, metavar="EPSILON", help="epsilons to try"
    )
    parser.add_argument(
        "--n-components", type=_positive(int), help="size of a sketch (default: the number of features, 256 at most)"
    )
    parser.add_argument("--random-state", type=int, default=0, help="seed of the public projection and of the split")
    parser.add_argument("--output", type=Path, default=Path("skdprp_utility.png"), help="where the figure goes")
    return parser


def _fit_parser():
    parser = _OneLineParser(
        prog="python -m skdprp fit",
        usage="%(prog)s FILE --target COLUMN --bounds COLUMN=LOW:HIGH ... [options]",
        description="Train a linear classifier that hides each row of a file among the others, and save it.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="private rows: CSV with a header, or LIBSVM")
    _add_format(parser)
    parser.add_argument(
        "--classes",
        type=_classes,
        metavar="THIS,THAT",
        help="what labels can be, known in public and not read off the file (default: those of the file; the guarantee"
        " then holds given the set of them)",
    )
    parser.add_argument("--epsilon", type=_positive(float), default=1.0, help="privacy of the model (default: 1)")
    parser.add_argument("--delta", type=_positive(float), help="failure of it (default: 1 / n_rows**2)")
    _add_bounds(parser)
    parser.add_argument(
        "--max-norm",
        type=_positive(float),
        help="longer rows are cut to it (default: the greatest length within bounds and categories, which cuts none)",
    )
    parser.add_argument("--test", type=Path, metavar="FILE", help="other rows with labels to count right answers on")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("skdprp_model.joblib"),
        help="where the model goes, for joblib.load (default: skdprp_model.joblib)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite a model that is there already")
    return parser


def read_digits():
    """Return handwritten digits, and their labels; pixels, known to be 0 to 16, come as -1/2 to 1/2."""
    X, y = load_digits(return_X_y=True)
    return X / 16 - 0.5, y


def utility(X, y, split):
    """Accuracy of a linear classifier, and share of neighbours with the label of the query.

    Parameters
    ----------
    X : {ndarray, CSR sparse} of shape (n_rows, n_features)
        Rows or their sketches.
    y : ndarray of shape (n_rows,)
        Labels.
    split : tuple of two ndarrays
        Indices of the training and the test rows; the first test rows are the queries.

    Returns
    -------
    accuracy, precision : float
    """
    train, test = split
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        accuracy = LogisticRegression(max_iter=300).fit(X[train], y[train]).score(X[test], y[test])
    similarity = cosine_similarity(X[test[:N_QUERIES]], X[train])
    nearest = np.argpartition(-similarity, min(N_NEIGHBORS, len(train)) - 1, axis=1)[:, :N_NEIGHBORS]
    return accuracy, np.mean(y[train][nearest] == y[test[:N_QUERIES], None])


def _sketches(options, n_features):
    n_components = options.n_components or min(256, n_features)
    public = {"max_change": options.max_change, "random_state": options.random_state}
    return {
        sketch.__name__: [sketch(n_components, epsilon=epsilon, **public) for epsilon in options.epsilon]
        for sketch in SKETCHES
    }


def _chance(y):
    """Accuracy of the most frequent label, and share of random rows with the label of the query."""
    shares = np.unique(y, return_counts=True)[1] / len(y)
    return shares.max(), np.sum(shares**2)


def _print_table(results, epsilons, reference, chance):
    names = list(results)
    print(f"{'':>14}" + "".join(f"{name:>22}" for name in names))
    print(f"{'epsilon':>14}" + f"{'accuracy':>13}{'search':>9}" * len(names))
    print(f"{'not private':>14}" + f"{reference[0]:>13.3f}{reference[1]:>9.3f}" * len(names))
    for i, epsilon in enumerate(epsilons):
        figures = "".join(f"{results[name][i][0]:>13.3f}{results[name][i][1]:>9.3f}" for name in names)
        print(f"{epsilon:>14g}{figures}")
    print(f"{'chance':>14}" + f"{chance[0]:>13.3f}{chance[1]:>9.3f}" * len(names))


def _plot(results, epsilons, reference, chance, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for panel, (ax, title) in enumerate(zip(axes, ["Classification", "Search"], strict=True)):
        for (name, figures), marker in zip(results.items(), "os", strict=True):
            ax.plot(epsilons, [figure[panel] for figure in figures], marker=marker, label=name)
        ax.axhline(reference[panel], color="black", linestyle="--", label="not private")
        ax.axhline(chance[panel], color="grey", linestyle=":", label="chance")
        ax.set(xscale="log", xlabel="epsilon of one row", title=title, ylim=(0, 1.02))
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], minor=False)
        ax.minorticks_off()
    axes[0].set_ylabel("share of right labels")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(results) + 2)
    figure.savefig(path, dpi=150)


def _picture_types():
    from matplotlib.backend_bases import FigureCanvasBase

    return FigureCanvasBase.get_supported_filetypes()


def _check_output(path, kind, types):
    """Refuse a file that cannot be written, or by its name is something else, such as the table."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: no such folder")
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ValueError(f"{path}: cannot be written")
    if path.suffix[1:] not in types:
        like = "png" if "png" in types else types[0]
        raise ValueError(f"{path}: not the name of a {kind}, like {path.stem or kind}.{like}")


def _read(options):
    if options.file is None:
        if _format(options) != (None, None, False, {}) or _scales(options):
            raise ValueError("--target, --n-features, --zero-based, bounds, categories and fills go with a FILE")
        X, y = read_digits()
        return X - options.center, y
    X, y = read_file(options.file, *_format(options))
    X = _checked(options.file, X, options)
    check_labels(options.file, y, rows_of_each_class=4)
    if _scales(options):
        return _preparation(options, X).fit_transform(X), y
    if options.center and sp.issparse(X):
        raise ValueError("--center would fill a sparse file")
    return (X if sp.issparse(X) else np.asarray(X) - options.center), y


def _format(options):
    return options.target, options.n_features, options.zero_based, dict(options.categories)


def _scales(options):
    return bool(options.bounds or options.categories or options.fill) or options.default_bounds is not None


def _introduce(X, y, options):
    print(f"{options.file or 'handwritten digits'}: {X.shape[0]} rows, {X.shape[1]} features, {len(set(y))} classes")
    units = "where 1 is the width of a column's bounds" if _scales(options) else "in the units of its features"
    print(f"What is hidden: a change of a row by {options.max_change:g}, {units} (--max-change).")
    if options.categories:
        print("A category is hidden as two columns: from one to another, each of them changes by 1.")
    if options.file and not _scales(options):
        print(
            "One number for all features means little where their units differ: give what is known of each by --bounds."
        )
    print("Labels are not hidden. Each sketch at each epsilon is one release of all rows; publishing several adds up.")
    print("accuracy: logistic regression on the sketches of 70% of the rows, right on the sketches of the others")
    print(f"search: share of the {N_NEIGHBORS} sketches nearest to a query's that have its label")
    print("These shares are computed from the rows, in part without noise: keep them with the rows, unless public.\n")


def _run(options):
    _check_output(options.output, "picture", _picture_types())
    X, y = _read(options)
    sketches = _sketches(options, X.shape[1])
    _introduce(X, y, options)
    split = train_test_split(np.arange(X.shape[0]), test_size=0.3, stratify=y, random_state=options.random_state)
    results = {
        name: [utility(sketch.fit_transform(X), y, split) for sketch in candidates]
        for name, candidates in sketches.items()
    }
    figures = results, options.epsilon, utility(X, y, split), _chance(y)
    _print_table(*figures)
    for name, candidates in sketches.items():
        print(f"\n{name} at epsilon = {options.epsilon[0]:g}\n{candidates[0].guarantee_}")
    _plot(*figures, options.output)
    print(f"\nwrote {options.output}")


def _check_columns(options, columns):
    """Refuse options of columns that are not there, or that have categories and numbers too."""
    listed = dict(options.categories)
    for option, named in (("bounds", options.bounds), ("categories", options.categories), ("fill", options.fill)):
        for name, _ in named:
            if name not in columns:
                raise ValueError(f"--{option}: no column {name!r}")
            if option != "categories" and name in listed:
                raise ValueError(f"--{option}: column {name!r} has categories already")


def _bounds(options, X):
    """Return bounds of each column without categories, in order; each needs some."""
    given, listed = dict(options.bounds), dict(options.categories)
    columns = list(getattr(X, "columns", range(X.shape[1])))
    _check_columns(options, columns)
    without = [name for name in columns if name not in given and name not in listed]
    if without and options.default_bounds is None:
        named = ", ".join(map(repr, without[:10])) + " ..." * (len(without) > 10)
        raise ValueError(f"no bounds for {named}: name them by --bounds, or give all others --default-bounds LOW HIGH")
    return {name: given.get(name, options.default_bounds) for name in columns if name not in listed}


def _preparation(options, X):
    """Return a map of rows that brings columns to one scale, by what is known in public alone."""
    bounds, fill, listed = _bounds(options, X), dict(options.fill), dict(options.categories)
    if not fill and not listed:
        return PublicScaler(list(bounds.values()))
    plain = [name for name in bounds if name not in fill]
    encoder = OneHotEncoder(categories=list(listed.values()), handle_unknown="ignore", sparse_output=False)
    maps = [
        (PublicScaler([bounds[name] for name in plain]), plain),
        *((_filled(value, bounds[name]), [name]) for name, value in fill.items()),
        (encoder, list(listed)),
    ]
    return make_column_transformer(*(step for step in maps if step[1]), sparse_threshold=0)


def _filled(value, bounds):
    return make_pipeline(
        SimpleImputer(strategy="constant", fill_value=value, keep_empty_features=True), PublicScaler([bounds])
    )


def _classifier(options, X):
    n_listed = len(dict(options.categories))
    max_norm = options.max_norm or ((X.shape[1] - n_listed) / 4 + n_listed) ** 0.5
    model = AMPClassifier(epsilon=options.epsilon, delta=options.delta, max_norm=max_norm, classes=options.classes)
    return make_pipeline(_preparation(options, X), model)


def _checked(path, X, options):
    _check_columns(options, list(getattr(X, "columns", ())))
    return check_features(path, X, dict(options.categories), dict(options.fill))


def _read_test(options, X, y):
    """Return other rows with the columns of X, in their order, and labels among the classes."""
    other, labels = read_file(options.test, *_format(options), options.classes)
    other = _checked(options.test, _columns_of(X, other, options), options)
    if options.classes is None and not set(labels) <= set(y):
        raise ValueError(f"{options.test}: some labels are not among those of {options.file}")
    return other, labels


def _columns_of(X, other, options):
    if sp.issparse(X):
        return other
    if missing := [name for name in X if name not in other]:
        raise ValueError(f"{options.test}: no column {missing[0]!r}, which {options.file} has")
    return other[list(X)]


def _count_right(model, path, X, y):
    chance = f"the most frequent label alone would be right on {_chance(y)[0]:.3f}"
    print(f"{path}: right on {model.score(X, y):.3f} of {len(y)} rows; {chance}")
    print("That share is computed from those rows without noise: keep it with them, unless they are public.\n")


def _fit(options):
    _check_output(options.output, "model", ("joblib",))
    if options.output.exists() and not options.force:
        raise ValueError(f"{options.output}: exists already; --force overwrites it")
    X, y = read_file(options.file, *_format(options), options.classes)
    X = _checked(options.file, X, options)
    if options.classes is None:
        check_labels(options.file, y)
    test = options.test and _read_test(options, X, y)
    model = _classifier(options, X)
    print(f"{options.file}: {X.shape[0]} rows, {X.shape[1]} features, {len(options.classes or set(y))} classes")
    print(_LISTED if options.classes else _NOT_LISTED)
    joblib.dump(model.fit(X, y), options.output)  # at once: what fails below must not cost the release
    if test:
        _count_right(model, options.test, *test)
    print(privacy_report(model).total)
    print(f"\nwrote {options.output}: one release of all rows; each run is one more, and those published add up")


def main(arguments=None):
    """Run the command; on bad input print one line to standard error and exit with 2.

    Parameters
    ----------
    arguments : list of str or None, default=None
        Command line; None takes it from the process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    fits = arguments[:1] == ["fit"]
    parser, run = (_fit_parser(), _fit) if fits else (_parser(), _run)
    options = parser.parse_args(arguments[fits:])
    warnings.simplefilter("ignore", DataDimensionalityWarning)
    try:
        run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as head, has enough; nothing is left to flush at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, SolverError) as error:
        parser.error(" ".join(str(error).split()))
    except ImportError as error:
        parser.error(f'{error.name} is missing: python -m pip install "skdprp[plot]"')


if __name__ == "__main__":
    sys.exit(main())
