"""What both commands take: how a file is read, and what is known of its columns without looking at it."""

import argparse
import math
import re
from pathlib import Path

from ._label_cells import number, whole_number
from ._tables import MISSING

_TWO_NUMBERS = re.compile(r"(-?[\d.]+)\s*(?:-|,|;|\.\.)\s*(-?[\d.]+)")


class _Update(argparse.Action):
    """Collect pairs in a dict, also if the option is given again."""

    def __call__(self, parser, namespace, values, option_string=None):
        """Add the pairs to those that are there."""
        setattr(namespace, self.dest, getattr(namespace, self.dest) | dict(values))


def positive(kind, below=math.inf):
    """Return a parser of positive finite numbers of a kind, for argparse."""

    def _parse(text):
        value = kind(text)
        if not 0 < value < below:
            raise ValueError
        return value

    _parse.__name__ = f"positive {kind.__name__}" + f" below {below}" * (below < math.inf)  # which argparse quotes
    return _parse


def threshold(text):
    """Read a probability, or "prior"."""
    if text == "prior":
        return text
    try:
        return positive(float, below=1)(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and below 1, and not prior") from None


def budget(text):
    """Read EPSILON or EPSILON:DELTA."""
    epsilon, colon, delta = text.partition(":")
    return positive(float)(epsilon), positive(float, below=1)(delta) if colon else budget.delta


budget.delta = 1e-5


def seed(text):
    """Read a seed."""
    if not 0 <= (value := int(text)) < 2**32:
        raise ValueError
    return value


def _named(text, form):
    """Split COLUMN=... at its last sign; a FILE that follows such a list is taken for a member of it."""
    column, _, value = text.rpartition("=")
    if not column:
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}; FILE goes first, before all options")
    return column, value


def low_and_high(text, column=""):
    """Read LOW:HIGH."""
    named = f"{column}=" * bool(column)
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        numbers = _TWO_NUMBERS.fullmatch(text)
        right = f"{named}{numbers[1]}:{numbers[2]}" if numbers else f"{'COLUMN=' * bool(column)}LOW:HIGH"
        raise argparse.ArgumentTypeError(f"{named + text!r}: write {right}") from None
    if not low < high:
        raise argparse.ArgumentTypeError(f"{named + text!r}: LOW must be below HIGH; low and high exchanged?")
    return low, high


def _column_bounds(text):
    """Read COLUMN=LOW:HIGH; a name may contain both signs."""
    column, bounds = _named(text, "COLUMN=LOW:HIGH")
    return column, low_and_high(bounds, column)


def _column_categories(text):
    """Read COLUMN=THIS,THAT, or COLUMN=@FILE with a line for each."""
    column, listed = _named(text, "COLUMN=THIS,THAT")
    if not listed.startswith("@"):
        return column, _truth_values(_listed(text, listed.split(",")))
    try:
        lines = Path(listed[1:]).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise argparse.ArgumentTypeError(f"{text!r}: no text in UTF-8 can be read from that file") from None
    return column, _truth_values(_listed(text, [line.strip() for line in lines if line.strip()]))


def _column_fill(text):
    """Read COLUMN=VALUE."""
    column, value = _named(text, "COLUMN=VALUE")
    filled = number(value)
    if filled is None or not math.isfinite(filled):
        raise argparse.ArgumentTypeError(f"{text!r}: VALUE must be a finite number")
    return column, filled


def _truth_values(listed):
    """Return truth values as such, as tables have them, in whatever case they are written."""
    return [False, True] if {str(name).lower() for name in listed} == {"false", "true"} else listed


def _listed(text, names):
    """Read names as numbers in order if all are."""
    if not names or not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: one is empty or there twice")
    numbers = {number(name) for name in names}
    if None in numbers and (missing := [name for name in names if name in MISSING]):
        raise argparse.ArgumentTypeError(
            f"{text!r}: a cell {missing[0]} is read as a missing value: write another word in the file, and list that"
        )
    return names if None in numbers else sorted(numbers)


def class_labels(text):
    """Read THIS,THAT as labels: whole numbers, truth values as tables have them, or names."""
    are_names = isinstance(_listed(text, text.split(","))[0], str)
    classes = set(text.split(",")) if are_names else set(map(whole_number, text.split(",")))  # exactly, beyond 2^53 too
    if None in classes:
        raise argparse.ArgumentTypeError(f"{text!r}: classes are names or whole numbers of at most 64 bits")
    if len(classes) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: there must be two classes or more")
    return _truth_values(sorted(classes))


def add_format(parser):
    """Add what tells a CSV from a LIBSVM file: the arguments do, and not the rows."""
    parser.add_argument("--target", metavar="COLUMN", help="column of a CSV with the labels")
    parser.add_argument(
        "--n-features",
        type=positive(int),
        metavar="N",
        help="number of features of a LIBSVM file, which is not read off the file",
    )
    parser.add_argument(
        "--zero-based", action="store_true", help="features of a LIBSVM file are numbered from 0 (default: from 1)"
    )


def add_columns(parser):
    """Add what columns can hold; each of these options takes words up to the next option, and may be given again."""
    for name, kind, metavar, text in (
        (
            "--bounds",
            _column_bounds,
            "COLUMN=LOW:HIGH",
            "least and largest value of columns, not read off the file: the model gets bins or numbers between them,"
            " and values beyond count as the nearer one",
        ),
        (
            "--categories",
            _column_categories,
            "COLUMN=THIS,THAT",
            "what columns can hold, not read off the file, or COLUMN=@FILE, a file with a line for each: each becomes a"
            " column of 0 and 1, and other or missing values are 0 in all of them",
        ),
        (
            "--fill",
            _column_fill,
            "COLUMN=VALUE",
            "public constants that stand for missing values of scaled columns (default: the middle of their bounds)",
        ),
    ):
        parser.add_argument(name, type=kind, nargs="+", action=_Update, default={}, metavar=metavar, help=text)
    parser.add_argument(
        "--default-bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="bounds of all other columns"
    )
    parser.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out, such as names"
    )
