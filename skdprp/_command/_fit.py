"""``python -m skdprp fit``: a private linear model of the rows of a file, saved."""

import textwrap
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score, recall_score, roc_auc_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline

from ..guarantee import PrivacyWarning
from ..ledger import entry
from ..ledger._ledger import thrown_away
from ..linear_model import AMPClassifier, DPRidge
from ..model_selection import set_budget
from ..neural_network import DPSGDClassifier
from ..preprocessing import make_table_preprocessor
from ..preprocessing._table import SHARE_OF_LONGEST
from ..release_file import save_model
from ..report import privacy_report
from ._columns import bounds_of, check_options, columns_of, filled, known_columns, preparation, read_rows
from ._label_cells import check_labels
from ._ledger import add_ledger, check_ledger, ledger_of
from ._options import add_columns, add_format, class_labels, low_and_high, positive, threshold
from ._output import check_new, writing
from ._tables import describe_unusual

_LISTED = "These numbers are public, and so are the names of columns and of classes: the model has them.\n"
_NOT_LISTED = (
    "These numbers are public, and so are the names of columns: the model has them. Its classes are those of the rows,"
    "\nand the guarantee holds given the set of them; --classes THIS,THAT lists them without looking at the rows.\n"
)
_SHARE_OF_BINS = 0.2  # of epsilon, where bins are found: the best on Adult and California
_NO_NOISE = 1e3  # an epsilon at which bins are those of the rows
_MOST_NUMBERS = 50  # that are taken for classes


def add_command(commands):
    """Add this command and its options."""
    text = "train a linear model that hides each row of a file among the others, and save it"
    usage = "%(prog)s FILE --target COLUMN (--bounds COLUMN=LOW:HIGH ... | --private-bins) [options]"
    models = "AMPClassifier for two classes, DPSGDClassifier for more, DPRidge for a number"
    unit = "each row is protected by itself: of several rows a person, make one row first"
    parser = commands.add_parser("fit", help=text, description=f"{text}: {models}; {unit}", usage=usage)
    parser.set_defaults(run=run)
    parser.add_argument("file", type=Path, metavar="FILE", help="private rows: CSV with a header, or LIBSVM")
    add_format(parser)
    parser.add_argument(
        "--classes",
        type=class_labels,
        metavar="THIS,THAT",
        help="what labels can be, not read off the file (default: those of the file; the guarantee then holds given the"
        " set of them)",
    )
    parser.add_argument(
        "--target-bounds",
        type=low_and_high,
        metavar="LOW:HIGH",
        help="predict a number, by ridge regression: least and largest value that it can have, not read off the file",
    )
    parser.add_argument(
        "--epsilon", type=positive(float), default=1.0, help="privacy of all that is released (default: 1)"
    )
    parser.add_argument(
        "--delta", type=positive(float, below=1), help="what is added to the bound by epsilon (default: 1 / n_rows**2)"
    )
    add_columns(parser)
    _add_model(parser)
    parser.add_argument("--test", type=Path, metavar="FILE", help="other rows with labels to score the model on")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("skdprp_model.npz"),
        help="where the model goes, for skdprp.load_model (default: skdprp_model.npz)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite a model that is there already")
    add_ledger(parser)


def _add_model(parser):
    """Add the options of the features and of the model that learns from them."""
    parser.add_argument(
        "--private-bins",
        action="store_true",
        help="find bins of all columns of numbers, between bounds where some are given, and frequent categories of all"
        " others that are not listed, for a fifth of epsilon",
    )
    parser.add_argument(
        "--numbers",
        choices=("bins", "scaled"),
        help="whether columns with bounds are put into 20 bins, of which the model learns a curve, or scaled (default:"
        " scaled for a number to predict without --private-bins, else bins)",
    )
    parser.add_argument(
        "--max-norm",
        type=positive(float),
        help="longer rows are clipped to it (default: 1, which rows of a CSV have; 0.35 of the greatest length within"
        " bounds for LIBSVM)",
    )
    parser.add_argument(
        "--threshold",
        type=threshold,
        metavar="SHARE",
        help="of two classes, the probability of the one that is last in sorted order from which it is predicted, not"
        " chosen by these rows; prior is the share of that class, which is counted with noise (default: 0.5)",
    )


def run(options):
    """Read and check everything, fit once, save, and say what holds."""
    if options.classes and options.target_bounds:
        raise ValueError("--classes are of labels, and --target-bounds of numbers: give one of them")
    check_options(options, options.file, options.test, are_bounded=True)
    if options.threshold and options.target_bounds:
        raise ValueError("--threshold is for two classes, and --target-bounds are of numbers: give one of them")
    scaled = options.target_bounds and not options.private_bins
    options.numbers = options.numbers or ("scaled" if scaled else "bins")
    if options.fill and options.numbers == "bins":
        raise ValueError("--fill goes with --numbers scaled: bins have one for missing values")
    check_ledger(options)
    read = [path for path in (options.file, options.test) if path is not None and Path(path).exists()]
    check_new(options, "model", "npz", *read)  # last of what is known without rows: --force is no cure of the others
    X, y = _read(options.file, options, classes=options.classes)
    test = None
    if options.test:  # before the fit: a mistake in there costs no release
        labels = {"classes": options.classes}
        if not (options.classes or options.target_bounds):  # in the type of the classes, whatever their own cells are
            labels = {"classes": np.unique(y).tolist(), "listed_by": f"those of {options.file}"}
        test = _read(options.test, options, **labels, like=X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The noise hides most")  # which is said below, in words of the command
        model = set_budget(_pipeline(X, y, options), X, y, epsilon=options.epsilon, delta=options.delta)
        _introduce(X, y, options)
        plan = privacy_report(model, X, y)
        # One entry: epsilons of bins and model are fixed before, so that their exact total counts, and a ledger that
        # cannot know it would add them up. And bins are not paid for a model that is refused.
        with ledger_of(options) as ledger, entry(plan):
            model.fit(X, y)
    with writing(options.output):  # at once: what fails below must not cost the release
        save_model(options.output, model)
    if _found(X, options):
        bins = model[0]["columns"].named_transformers_["remainder"]
        if hidden := bins._few_rows_show(X.shape[0], bins.scale_, bins.threshold_):
            print(f"{hidden}\nGive --bounds and --categories, and --numbers scaled.\n")
    if test:
        _print_scores(options, {"private": model, **_references(model, X, y, options)}, *test)
    print(privacy_report(model).total)
    if ledger is not None:
        print(f"\n{options.ledger}: all that was released\n{ledger.total()!r}")
    print(f"\nwrote {options.output}: if you fit these rows again, the epsilons of both fits add up")


def _read(path, options, **labels):
    """Return features, and labels or targets, of a file."""
    X, y = read_rows(path, options, unnamed="find" if options.private_bins else "refuse", **labels)
    if options.target_bounds:
        if y.dtype.kind not in "if" or not np.isfinite(y).all():
            raise ValueError(f"{path}: the targets must be numbers, as --target-bounds are given")
        return X, y.astype(np.float64)
    if options.classes is None and path == options.file:
        if y.dtype.kind == "f" or (y.dtype.kind == "i" and len(np.unique(y)) > _MOST_NUMBERS):
            raise ValueError(
                f"{path}: the labels are real numbers, beyond 64 bits, or more than {_MOST_NUMBERS}: to predict a"
                " number give --target-bounds LOW:HIGH, and to predict classes list them by --classes"
            )
        check_labels(path, y)
    return X, y


def _pipeline(X, y, options):
    """Return a model after all that its rows need, from the options and the set of labels alone."""
    if sp.issparse(X):
        columns, longest = preparation(options, X), SHARE_OF_LONGEST * X.shape[1] ** 0.5 / 2
    else:
        bounds, longest = bounds_of(options, X), 1.0
        fill = filled(options, bounds) if options.numbers == "scaled" else "middle"
        columns = make_table_preprocessor(
            bounds,
            categories=options.categories,
            epsilon=_SHARE_OF_BINS if _found(X, options) else None,
            numbers=options.numbers,
            fill=fill,
        )
    shared = {"epsilon": 1 - _SHARE_OF_BINS, "max_norm": options.max_norm or longest}
    if options.target_bounds:
        return make_pipeline(columns, DPRidge(target_bounds=options.target_bounds, **shared))
    if options.threshold:
        shared["threshold"] = options.threshold
    if len(options.classes or set(y)) <= 2:
        return make_pipeline(columns, AMPClassifier(classes=options.classes, **shared))
    if options.threshold:
        raise ValueError("--threshold is for two classes, and there are more")
    # Its log loss is smaller on iris, the digits, California and four columns of Adult, at epsilon 1 and 5.
    return make_pipeline(columns, DPSGDClassifier(classes=options.classes, **shared))


def _found(X, options):
    """Columns of which bins are found privately: those with bounds, too, unless they are scaled."""
    named = {*options.categories, *(bounds_of(options, X) if options.numbers == "scaled" else ())}
    return [name for name in columns_of(X) if name not in named] if options.private_bins else []


def _introduce(X, y, options):
    kinds = "a number to predict" if options.target_bounds else f"{len(options.classes or set(y))} classes"
    print(f"{options.file}: {X.shape[0]} rows, {X.shape[1]} features, {kinds}")
    print(_NOT_LISTED if options.classes is None and options.target_bounds is None else _LISTED)
    print("One row is protected. If a person has several rows, combine them into one row first.")
    found = _found(X, options)
    if found:
        names = [name for name in found if X[name].dtype == object]
        numbers = [name for name in found if name not in names]
        print("Bins of these columns are found privately; whether they hold numbers or names is taken to be public.")
        print("Leave out by --drop what hardly repeats, such as identifiers, dates and names of persons:")
        for kind, of_kind in (("numbers", numbers), ("names", names)):
            print(textwrap.fill(f"{kind}: {', '.join(of_kind) or 'none'}", 100, subsequent_indent="    "))
        print()


def _references(model, X, y, options):
    """Return models without privacy: of the same columns, of bins found without noise, and one that learns nothing."""
    if options.target_bounds:
        plain, constant = Ridge(alpha=0.1), DummyRegressor()
    else:
        plain, constant = LogisticRegression(C=10, max_iter=1000), DummyClassifier()
        plain = plain if len(np.unique(y)) > 1 else clone(constant)  # classes may be listed that no row has
    references = {"not private": make_pipeline(model[0], clone(plain).fit(model[0].transform(X), y))}
    if "columns__remainder__epsilon" in model[0].get_params():  # bins were found with noise
        exact = clone(model[0]).set_params(columns__remainder__epsilon=_NO_NOISE)
        with warnings.catch_warnings(), thrown_away():  # only scores of it are shown, which are not private anyway
            warnings.simplefilter("ignore", PrivacyWarning)  # it has no guarantee, and is said to have none
            exact.fit(X)
        references = {"same bins": references["not private"], "not private": make_pipeline(exact, clone(plain))}
        references["not private"][-1].fit(exact.transform(X), y)
    return references | {"constant": constant.fit(X, y)}


def _scores(model, X, y, options):
    """Return R² and RMSE, or scores of classes; of more than two, the AUC is the mean of each against the rest."""
    if options.target_bounds:
        found = model.predict(X)
        return {"R²": r2_score(y, found), "RMSE": root_mean_squared_error(y, found)}
    predicted, of_label, areas = model.predict(X), np.full(len(y), 1e-15), []
    for label, of_class in zip(model.classes_, model.predict_proba(X).T, strict=True):
        is_label = y == label
        of_label[is_label] = np.maximum(of_class[is_label], 1e-15)  # which is what a class has that a model lacks
        if is_label.any() and not is_label.all():
            areas.append(roc_auc_score(is_label, of_class))
    return {
        "accuracy": accuracy_score(y, predicted),
        "AUC": np.mean(areas) if areas else np.nan,
        "log loss": -np.mean(np.log(of_label)),
        "balanced": recall_score(y, predicted, labels=np.unique(y), average="macro"),
    }


def _print_scores(options, models, X, y):
    scores = {name: _scores(model, X, y, options) for name, model in models.items()}
    kinds = list(scores["private"])
    print(f"{options.test}: {len(y)} rows\n{'':>12}" + "".join(f"{kind:>12}" for kind in kinds))
    for name, found in scores.items():
        print(f"{name:>12}" + "".join(f"{found[kind]:>12.4g}" for kind in kinds))
    if "same bins" in models:
        print("same bins: a model without noise on the private bins; not private: one on bins without noise as well")
        print("On scaled numbers, or with listed categories, both may be better: --numbers scaled, --categories")
    if "balanced" in kinds:
        print("balanced: the mean share of the rows of each class that are predicted; --threshold prior raises it")
    if options.threshold:
        print("Only the private model has the --threshold: the others predict the class that is more probable")
    if not sp.issparse(X):
        for line in describe_unusual(X, *known_columns(models["private"])):
            print(f"{options.test}: {line}")
    print(
        "These figures are computed from the rows without noise, as are all models but the first:\n"
        "keep them with the rows, unless those are public.\n"
    )
