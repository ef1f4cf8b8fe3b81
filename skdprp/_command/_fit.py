"""``python -m skdprp fit``: a private linear classifier of the rows of a file, saved."""

from pathlib import Path

import joblib
import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline

from ..linear_model import AMPClassifier
from ..report import privacy_report
from ._columns import preparation, read_rows
from ._labels import check_labels
from ._options import add_columns, add_format, class_labels, positive
from ._output import check_output, write

_LISTED = "These numbers are public, and so are the names of columns and classes: the model has them.\n"
_NOT_LISTED = (
    "These numbers are public, and so are the names of columns: the model has them. Its classes are those of the rows,"
    "\nand the guarantee holds given the set of them; --classes THIS,THAT lists them without looking at the rows.\n"
)


def add_command(commands):
    """Add this command and its options."""
    text = "train a linear classifier that hides each row of a file among the others, and save it"
    usage = "%(prog)s FILE --target COLUMN --bounds COLUMN=LOW:HIGH ... [options]"
    parser = commands.add_parser("fit", help=text, description=text, usage=usage)
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
    parser.add_argument("--epsilon", type=positive(float), default=1.0, help="privacy of the model (default: 1)")
    parser.add_argument(
        "--delta", type=positive(float), help="probability with which it may fail (default: 1 / n_rows**2)"
    )
    add_columns(parser)
    parser.add_argument(
        "--max-norm",
        type=positive(float),
        help="longer rows are clipped to it (default: the greatest length within bounds and categories, which clips"
        " none)",
    )
    parser.add_argument("--test", type=Path, metavar="FILE", help="other rows with labels to count right answers on")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("skdprp_model.joblib"),
        help="where the model goes, for joblib.load (default: skdprp_model.joblib)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite a model that is there already")


def run(options):
    """Read and check everything, fit once, save, and say what holds."""
    check_output(options.output, "model", ("joblib",))
    if options.output.exists() and not options.force:
        raise ValueError(f"{options.output}: exists already; --force overwrites it")
    X, y = read_rows(options.file, options, classes=options.classes)
    if options.classes is None:
        check_labels(options.file, y)
    test = options.test and _read_test(X, y, options)  # before the fit: a mistake in there costs no release
    model = make_pipeline(preparation(options, X), _classifier(X, options))
    print(f"{options.file}: {X.shape[0]} rows, {X.shape[1]} features, {len(options.classes or set(y))} classes")
    print(_LISTED if options.classes else _NOT_LISTED)
    model.fit(X, y)
    write(options.output, lambda path: joblib.dump(model, path))  # at once: what fails below must not cost the release
    if test:
        _count_right(model, options.test, *test)
    print(privacy_report(model).total)
    print(f"\nwrote {options.output}: one release of all rows; each run is one more, and those published add up")


def _read_test(X, y, options):
    """Return other rows with the columns of X, and labels in the type of the classes, whatever their own cells are."""
    if options.classes:
        return read_rows(options.test, options, classes=options.classes, like=X)
    classes, source = np.unique(y).tolist(), f"those of {options.file}"
    return read_rows(options.test, options, classes=classes, listed_by=source, like=X)


def _classifier(X, options):
    # The scaled columns are in [-1/2, 1/2], and of the columns of 0 and 1 of each category one is 1.
    n_listed = len(options.categories)
    longest = ((X.shape[1] - n_listed) / 4 + n_listed) ** 0.5
    return AMPClassifier(
        epsilon=options.epsilon, delta=options.delta, max_norm=options.max_norm or longest, classes=options.classes
    )


def _count_right(model, path, X, y):
    chance = DummyClassifier(strategy="most_frequent").fit(X, y).score(X, y)
    print(
        f"{path}: right on {model.score(X, y):.3f} of {len(y)} rows; the most frequent label alone would be right on"
        f" {chance:.3f}"
    )
    print("That share is computed from those rows without noise: keep it with them, unless they are public.\n")
