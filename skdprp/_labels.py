"""Labels of classes: read in a type that follows from their values, encoded, and weighted; errors quote none."""

import math
from contextlib import suppress
from numbers import Real

import numpy as np
from sklearn.utils import column_or_1d

from ._errors import warn_at_caller

_MANY = 100  # classes, of which nobody has said that they are
_NUMBERS = bool | int | float | np.bool_ | np.integer | np.floating
_PAID = "Private steps before this one may already be paid; privacy_report(model, X, y) checks labels before a fit."
_NO_LABELS = (
    "Unknown label type: labels are numbers, truth values or strings, none missing and all of one type, which arrays "
    f"of objects have after y.astype(bool), y.astype(int) or y.astype(str). {_PAID}"
)


def of_one_type(y):
    """Return labels of a list in a type that follows from their values: one row may hold 0.0 for 0, or True for 1.

    Whole numbers and truth values get the first type that holds them all, strings one that is as long as the longest.
    What has a type of its own has one for all rows: it is returned as it is, and so is what holds no labels.
    """
    if hasattr(y, "dtype") or hasattr(y, "__array__"):
        return y
    cells = np.asarray(y, dtype=object)
    kinds = set(map(type, cells.flat))
    if any(issubclass(kind, np.ndarray) for kind in kinds):  # without dimensions, of a type of its own
        cells = np.array([c[()] if isinstance(c, np.ndarray) else c for c in cells.flat], object).reshape(cells.shape)
        kinds = set(map(type, cells.flat))
    if any(issubclass(kind, np.timedelta64) for kind in kinds):  # an integer to numpy, of a unit of its own
        raise ValueError(_NO_LABELS)
    if any(issubclass(kind, str) for kind in kinds):
        if not all(issubclass(kind, str) for kind in kinds):  # numpy would make strings of numbers
            raise ValueError(_NO_LABELS)
        # To numpy, strings that differ in zeros at the end are equal.
        return np.array([str.__str__(cell).rstrip("\0") for cell in cells.flat]).reshape(cells.shape)
    if not all(issubclass(kind, _NUMBERS) for kind in kinds) or not all(cell // 1 == cell for cell in cells.flat):
        return y
    whole = np.array([int(cell) for cell in cells.flat], dtype=object).reshape(cells.shape)
    for dtype in (np.int64, np.uint64, np.float64):
        with suppress(OverflowError):
            if ((labels := whole.astype(dtype)).astype(object) == whole).all():
                return labels
    raise ValueError(_NO_LABELS)


def checked_labels(y):
    """Return labels of a type that classes have, checked without scikit-learn's warnings, which count labels."""
    if y.dtype.kind in "OSVmM" and not all(issubclass(kind, str) for kind in set(map(type, y))):
        raise ValueError(_NO_LABELS)
    if y.dtype.kind == "f" and (y != np.trunc(y)).any():
        raise ValueError(
            "Unknown label type: continuous. A classifier needs labels of classes; to predict a number use DPRidge."
        )
    if y.dtype.kind == "O":  # text of a class of its own may hold more, and classes_ would take it from one row
        return np.array([str.__str__(label).rstrip("\0") for label in y], dtype=object)  # as of a list
    return y + 0.0 if y.dtype.kind == "f" else y  # one row would decide between 0.0 and -0.0


def _of_list(public_classes):
    has_text = isinstance(public_classes, list | tuple) and any(isinstance(one, str) for one in public_classes)
    try:
        return checked_labels(column_or_1d(of_one_type(public_classes) if has_text else public_classes))
    except ValueError as error:
        raise ValueError(f"`classes`: {error}") from None


def encode(y, public_classes):
    """Return the classes, sorted, and the index of the class of each row."""
    y = checked_labels(y)
    if isinstance(public_classes, str | set | frozenset):
        raise TypeError(f"`classes` must be a list of labels, got a {type(public_classes).__name__}.")
    listed = y if public_classes is None else _of_list(public_classes)
    classes = np.unique(listed)
    if classes.dtype.kind == "U":  # as long as the longest class: zeros at the end of one label count as none
        classes = np.array(classes.tolist())
    if listed is not y and len(classes) < len(listed):  # as y does: parameters would show the label of each row
        raise ValueError("`classes` lists a label more than once: list each label once, and do not take them from y.")
    if len(classes) < 2:
        raise ValueError(
            "A classifier needs at least two classes: y has only one class, or `classes` does. List all possible "
            "labels in `classes`, without looking at y."
        )
    if listed is y and len(classes) > _MANY:  # which follows from the set of labels, unlike how many rows have each
        warn_at_caller(
            f"y has {len(classes)} different labels, and each is a class: to predict a number use DPRidge; otherwise "
            "list them in `classes`.",
            UserWarning,
        )
    if (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(
            "`classes` are numbers and y is text, or the other way round: list the labels as they are in y."
        )
    known = classes
    if classes.dtype != y.dtype and np.result_type(classes, y).kind == "f" and (np.abs(classes) >= 2.0**53).any():
        known, y = classes.astype(object), y.astype(object)  # floats, by which two types are compared, are too few
    codes = np.searchsorted(known, y).clip(max=len(classes) - 1)  # of other labels anything, which is found below
    if not np.array_equal(known[codes], y):
        raise ValueError(
            "y has labels that are not among `classes`: check the spelling there, and list all possible labels. "
            f"{_PAID}"
        )
    return classes, codes


def joined(labels):
    """Return labels of all parts in one type; that of whole numbers in several follows from the set of their values."""
    kinds = {found.dtype.kind for found in labels}
    if len(kinds) == 1 or not kinds <= set("iuf"):
        return np.concatenate(labels)
    return np.asarray(of_one_type([label for found in labels for label in found.tolist()]))


def _weight(given):
    """Return a weight as a float, or nan: truth values are no weights."""
    try:
        return float(given) if isinstance(given, Real) and type(given) is not bool else math.nan
    except OverflowError:
        return math.inf


def weights_of_classes(class_weight, classes):
    """Public weight of each class, or None if all are 1."""
    if class_weight is None:
        return None
    if class_weight == "balanced":
        raise ValueError(
            "class_weight='balanced' would be computed from the labels: give weights that do not come from the data, "
            "such as {label: 0.1} for a label that is known to be ten times as frequent."
        )
    known = {label: _weight(given) for label, given in class_weight.items()}  # each is asked once what it is
    # nan fails the comparison. Above 1 a row would weigh more than the noise is made for.
    if not all(0 <= weight <= 1 for weight in known.values()):
        raise ValueError(
            f"class_weight must have weights from 0 to 1, each an int or a float, got {class_weight!r}: divide larger "
            "ones by the largest."
        )
    labels = classes.tolist()
    if not set(class_weight) <= set(labels):
        raise ValueError("class_weight has a label that is not among the classes.")
    weights = np.array([known.get(label, 1.0) for label in labels])
    if not weights.any():
        raise ValueError("class_weight is 0 for all classes: nothing is left to learn from.")
    return weights
