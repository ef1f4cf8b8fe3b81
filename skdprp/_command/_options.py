"""What both commands take: how a file is read, and what is known of its columns without looking at it."""

import argparse
import math
import re

from ._labels import number, whole_number

_TWO_NUMBERS = re.compile(r"(-?[\d.]+)\s*(?:-|,|;|\.\.)\s*(-?[\d.]+)")


class _Update(argparse.Action):
    """Collect pairs in a dict, also if the option is given again."""

    def __call__(self, parser, namespace, values, option_string=None):
        """Add the pairs to those that are there."""
        setattr(namespace, self.dest, getattr(namespace, self.dest) | dict(values))


def positive(kind):
    """Return a parser of positive finite numbers of a kind, for argparse."""

    def _parse(text):
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value

    _parse.__name__ = f"positive {kind.__name__}"  # which argparse quotes
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
    """Read COLUMN=THIS,THAT."""
    column, listed = _named(text, "COLUMN=THIS,THAT")
    return column, _listed(text, listed)


def _column_fill(text):
    """Read COLUMN=VALUE."""
    column, value = _named(text, "COLUMN=VALUE")
    filled = number(value)
    if filled is None or not math.isfinite(filled):
        raise argparse.ArgumentTypeError(f"{text!r}: VALUE must be a finite number")
    return column, filled


def _listed(text, listed):
    """Read THIS,THAT as numbers in order if all are, and as names otherwise."""
    names = listed.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: one is empty or there twice")
    numbers = {number(name) for name in names}
    return names if None in numbers else sorted(numbers)


def class_labels(text):
    """Read THIS,THAT as labels: whole numbers, truth values as tables have them, or names."""
    are_names = isinstance(_listed(text, text)[0], str)
    classes = set(text.split(",")) if are_names else set(map(whole_number, text.split(",")))  # exactly, beyond 2^53 too
    if None in classes:
        raise argparse.ArgumentTypeError(f"{text!r}: classes are names or whole numbers of at most 64 bits")
    if len(classes) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: there must be two classes or more")
    return [False, True] if classes == {"False", "True"} else sorted(classes)


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
            "least and largest value of columns, not read off the file: they become -1/2 and 1/2, and values beyond are"
            " clipped",
        ),
        (
            "--categories",
            _column_categories,
            "COLUMN=THIS,THAT",
            "what columns can hold, not read off the file: each becomes a column of 0 and 1, and other or missing"
            " values are 0 in all of them",
        ),
        ("--fill", _column_fill, "COLUMN=VALUE", "public constants that stand for missing values of columns"),
    ):
        parser.add_argument(name, type=kind, nargs="+", action=_Update, default={}, metavar=metavar, help=text)
    parser.add_argument(
        "--default-bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="bounds of all other columns"
    )
