"""Labels from files: in a type that no single cell decides, and refused with errors that quote none."""

import re
from decimal import Decimal

import numpy as np

from .._errors import CURE_OF_LABELS

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
_TRUTH_VALUES = {form(word) for word in ("true", "false") for form in (str, str.title, str.upper)}


def number(text):
    """Read a number, or return None; what Python alone takes for one, such as 1_0, is text in a table."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def whole_number(text):
    """Read a whole number of at most 64 bits exactly, also if it is written as 1.0 or 1e0; None for all other texts."""
    if not _NUMBER.fullmatch(text.strip()) or not (value := Decimal(text.strip())).is_finite():
        return None
    if value.adjusted() > 18 or value != value.to_integral_value():
        return None
    return int(value) if -(2**63) <= value < 2**63 else None


def read_labels(path, cells, classes=None, listed_by="--classes"):
    """Return labels as the classes that they are, or else in a type that follows from the set of those written."""
    if any(cell is None or cell != cell for cell in cells):
        raise ValueError(f"{path}: some labels are missing: {CURE_OF_LABELS.rstrip('.')}")
    cells = list(map(str, cells))
    written = sorted(set(cells))
    numbers = {cell: whole_number(cell) for cell in written}
    if classes is not None:  # by what they mean as classes of that type
        meaning = {int: whole_number, bool: str.lower, str: str}[type(classes[0])]
        known = {meaning(str(label)): label for label in classes}
        if not {*map(meaning, written)} <= set(known):
            untold = " (check the spelling; which ones is not told, because it would reveal rows)"
            raise ValueError(f"{path}: some labels are not among {listed_by}{untold}")
        labels = {cell: known[meaning(cell)] for cell in written}
    # Or else by how they are written: whole or real numbers, truth values as tables have them, or names.
    elif None not in numbers.values():
        labels = numbers
    elif all(_NUMBER.fullmatch(cell.strip()) for cell in written):
        labels = {cell: float(cell) for cell in written}
    elif set(written) <= _TRUTH_VALUES:
        labels = {cell: cell.lower() == "true" for cell in written}
    else:
        labels = {cell: cell for cell in written}
    return np.array([labels[cell] for cell in cells])


def check_labels(path, y, rows_of_each_class=1):
    """Raise ValueError with the file unless there are two classes or more, with so many rows each."""
    if y.dtype.kind == "f":
        raise ValueError(f"{path}: the labels are real numbers, or beyond 64 bits; this command needs classes")
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < rows_of_each_class:
        some = f"at least {rows_of_each_class} rows, to learn from and to score on"
        each = f", and each class needs {some}" * (rows_of_each_class > 1)
        raise ValueError(f"{path}: there must be two classes or more{each}")
