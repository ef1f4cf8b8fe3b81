"""Rows of persons: which belong together, and the weights by which a person counts as much as one row."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ._validation import without_values

MOST_ROWS = 2**31  # up to which rounding is priced whatever their number is, which is not public


@dataclass(frozen=True)
class Persons:
    """Persons that rows belong to: how many there are, and of each row which one it is of.

    `labels` are told by equality and never released; `counts` are the rows of each person.
    """

    labels: list
    codes: np.ndarray
    counts: np.ndarray

    @property
    def number(self):
        """Number of persons, which is public: that of rows is not."""
        return len(self.counts)

    @property
    def weights(self):
        """Weight of each row: ``1 / m`` of the m rows of its person, rounded down."""
        return shares(self.counts)[self.codes]

    def rows_of(self, chosen):
        """Indices of all rows of the persons with these codes."""
        is_chosen = np.zeros(self.number, dtype=bool)
        is_chosen[chosen] = True
        return np.flatnonzero(is_chosen[self.codes])


def shares(counts):
    """Weights of which as many as there are rows of a person add up to 1 at most, exactly.

    Notes
    -----
    The float before the nearest one of ``1 / m`` is below ``1 / m``, or it were nearer. So m of it are below 1 in real
    numbers, where ``m fl(1 / m)`` may be above. One row by itself has the weight 1.
    """
    return np.where(counts == 1, 1.0, np.nextafter(1.0 / counts, 0.0))


def roots(weights):
    """Factors of rows whose products are then weighted: their squares are at most the weights, as in `shares`."""
    return np.where(weights == 1.0, 1.0, np.nextafter(np.sqrt(weights), 0.0))


def persons_of(groups, n_rows):
    """Find the persons that rows belong to, from a label for each row.

    No error says how many rows there are, of which persons: labels and their number are not public.
    """
    labels = without_values(_labels, groups, name="groups")
    if labels.shape != (n_rows,):
        raise ValueError("groups should have one label for each row of X.")
    return _persons(labels)


def persons_in_parts(parts):
    """Find the persons that all rows belong to, which come in parts; return the weights of the rows of each, too."""
    labels = [without_values(_labels, part, name="groups") for part in parts]
    if not all(part.ndim == 1 for part in labels):
        raise ValueError("groups should have one label for each row of X.")
    for part in labels:
        _check(part)
    kinds = {part.dtype.kind for part in labels}
    persons = _persons(np.concatenate([part if len(kinds) == 1 else part.astype(object) for part in labels]))
    return persons, np.split(persons.weights, np.cumsum([len(part) for part in labels])[:-1])


def _persons(labels):
    if len(labels) >= MOST_ROWS:
        raise ValueError("There are more rows than rounding is priced for.")
    if without_values(are_missing, labels, name="groups"):
        raise ValueError("groups has missing labels: give each row that of its person, or one of its own.")
    _check(labels)
    if labels.dtype != object:
        known, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return Persons(known.tolist(), codes.reshape(-1), counts)
    places, codes = without_values(_places, labels, name="groups")
    return Persons(list(places), codes, np.bincount(codes))


def _check(labels):
    """Refuse labels of which one person may have two that are told apart, or which are none."""
    if labels.dtype.kind in "mM":
        raise ValueError("groups has dates or spans of time, which units tell apart: make them text.")
    # The third argument of `fit` is sample_weight elsewhere.
    if any((numbers % 1 > 0).any() for numbers in _floats(labels)):
        raise ValueError("groups has numbers that are not whole: it takes labels of persons, and no weights.")
    if any((np.abs(numbers) * np.finfo(numbers.dtype).eps >= 2).any() for numbers in _floats(labels)):
        raise ValueError("groups has floats that may stand for several whole numbers: read them as integers or text.")
    if labels.dtype == object and 0 < sum(isinstance(label, str) for label in labels) < len(labels):
        raise ValueError("groups has text beside other labels, such as '7' beside 7: make all of them text.")
    if labels.dtype == object:
        check_times(labels)


def _floats(labels):
    """Arrays of the floats among labels, one for each of their types."""
    if labels.dtype != object:
        return [labels] * (labels.dtype.kind == "f")
    floats = [one for one in labels if isinstance(one, float | np.floating)]
    return [np.array([one for one in floats if type(one) is kind]) for kind in set(map(type, floats))]


def _labels(groups):
    """One column of labels: of numbers or text as it is, otherwise of objects, so that 1 and "1" stay apart."""
    if isinstance(groups, np.ma.MaskedArray):
        groups = np.where(np.ma.getmaskarray(groups), None, groups.data)
    values = groups if isinstance(groups, np.ndarray) else np.asarray(groups, dtype=object)
    if isinstance(groups, list) and any(isinstance(label, tuple) for label in groups):  # of one length: two columns
        values = np.empty(len(groups), dtype=object)
        values[:] = groups
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dtype.kind in "biufSUmM":
        return values
    return np.fromiter(map(_of_python, values), object, len(values)) if values.ndim == 1 else values.astype(object)


def _of_python(label):
    """A scalar of Arrow as that of Python: of another type or dictionary, it equals none that has the same value."""
    if isinstance(label, tuple):
        return tuple(map(_of_python, label))
    return label.as_py() if hasattr(label, "as_py") else label


def check_times(labels, known=frozenset()):
    """Refuse times with and without a zone, and periods of several lengths: those of one person may differ.

    Return the kinds of times, with those that are known of earlier labels.
    """
    kinds = {*known, *map(_kind_of_time, labels)} - {None}
    if len(kinds) > 1:
        raise ValueError("groups has times with and without a zone, or periods of several lengths: make them text.")
    return kinds


def _kind_of_time(label):
    """Whether a time has a zone, and how long a period is; None for what is no time."""
    if isinstance(label, tuple):
        kinds = tuple(map(_kind_of_time, label))
        return kinds if any(kinds) else None
    if type(label).__name__ == "Period":
        return label.freqstr
    return ("time", label.tzinfo is None) if isinstance(label, datetime) else None


def are_missing(labels):
    """Whether some labels are None, or do not equal themselves."""
    if labels.dtype != object:
        return labels.dtype.kind in "fmM" and bool((labels != labels).any())
    return any(map(_is_missing, labels))


def _is_missing(label):
    """Whether a label is None or does not equal itself, as nan and NaT; pandas' NA does not even say.

    Or whether a part of it is missing: two tuples of equal numbers and nan would be two persons.
    """
    if label is None:
        return True
    if isinstance(label, tuple):
        return any(map(_is_missing, label))
    differs = label != label
    return type(differs).__name__ == "NAType" or bool(differs)


def _places(labels):
    """Labels in the order in which they come, and of each row the place of its own."""
    places = {}
    return places, np.array([places.setdefault(label, len(places)) for label in labels], dtype=np.intp)
