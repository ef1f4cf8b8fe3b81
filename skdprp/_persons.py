"""Rows of persons: which belong together, and the weights by which a person counts as much as one row."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from ._errors import Refusal, without_values
from ._lazy import is_lazy
from ._validation import is_frame, is_list

MOST_ROWS = 2**31  # up to which rounding is priced whatever their number is, which is not public
_NO_COLUMN = "groups should have one label for each row of X."
_MISSING = "groups has missing labels: give each row that of its person, or one of its own."
_NO_LABEL = "groups has labels that are neither whole numbers nor text: make all of them text, also dates and pairs."
# The third argument of `fit` is sample_weight elsewhere.
_FLOATS = (
    "groups has floats, which may be rounded: it takes labels of persons, and no weights. Read them as whole numbers, "
    "or as text."
)
_ROUNDED = "groups has whole numbers that numpy would round together: read them as text."
_LAZY = (
    "groups is a dask collection, and the rows are in memory: compute them at once, "
    "X, y, groups = dask.compute(X, y, groups)."
)
_MIXED = "groups has text beside other labels, such as '7' beside 7: make all of them text."


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
    if len(labels) != n_rows:
        raise ValueError(_NO_COLUMN)
    return _persons(labels)


def persons_in_parts(parts):
    """Find the persons that all rows belong to, which come in parts; return the weights of the rows of each, too."""
    labels = [without_values(_labels, part, name="groups") for part in parts]
    if len({part.dtype.kind in "UO" for part in labels if len(part)}) > 1:
        raise ValueError(_MIXED)
    is_one_type = len({part.dtype for part in labels}) == 1  # numpy makes floats of int64 and uint64 together
    persons = _persons(np.concatenate([part if is_one_type else part.astype(object) for part in labels]))
    return persons, np.split(persons.weights, np.cumsum([len(part) for part in labels])[:-1])


def _persons(labels):
    if len(labels) >= MOST_ROWS:
        raise ValueError("There are more rows than rounding is priced for.")
    if labels.dtype != object:
        known, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return Persons(known.tolist(), codes, counts)
    places = {label: code for code, label in enumerate(sorted(set(labels)))}
    codes = np.fromiter(map(places.__getitem__, labels), np.intp, len(labels))
    return Persons(list(places), codes, np.bincount(codes))


def _labels(groups):
    """Return an array of whole numbers, or of text or objects that are str: those of one person are equal in any table.

    Nothing else is a label: a date and a time, or numbers and text within pairs, may be of one person and not be equal.
    """
    cells = _cells(groups)
    if isinstance(cells, np.ndarray):
        return cells
    if not any(set(map(type, cells)) <= {kind} for kind in (int, str)):
        cells = [cell.as_py() if hasattr(cell, "as_py") else cell for cell in cells]
        if any(map(is_missing, cells)):
            raise Refusal(_MISSING)
        cells = list(map(_label, cells))
        if len(set(map(type, cells))) > 1:
            raise Refusal(_MIXED)
    if not cells or type(cells[0]) is int:
        least, most = min(cells, default=0), max(cells, default=0)
        if least < -(2**63) or most >= (2**64 if least >= 0 else 2**63):
            raise Refusal(_ROUNDED)  # by the splitters of scikit-learn
        return np.array(cells, dtype=np.uint64 if most >= 2**63 else np.int64)
    if any(label.endswith("\0") for label in set(cells)):  # which numpy leaves out
        raise Refusal("groups has text that ends in a zero character.")
    return np.array(cells, dtype=object)


def _cells(groups):
    """Return one column as an array of whole numbers or text or, with the types that its cells have, as a list.

    Numpy makes numbers of other types: of times of polars and Arrow by their units, and of what is masked.
    """
    if is_lazy(groups):
        raise Refusal(_LAZY)
    if is_frame(groups) and len(groups.columns) == 1:
        groups = groups[groups.columns[0]]
    if isinstance(groups, np.ma.MaskedArray):
        if np.ma.getmaskarray(groups).any():
            raise Refusal(_MISSING)
        groups = groups.data
    if not isinstance(getattr(groups, "dtype", None), np.dtype):
        for method in ("to_pylist", "to_list"):
            if hasattr(groups, method):
                return getattr(groups, method)()
    if is_list(groups):
        return list(groups)
    column = np.asarray(groups)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise Refusal(_NO_COLUMN)
    if column.dtype.kind in "biu":
        return column.astype(np.uint64 if column.dtype.kind == "u" else np.int64)
    if column.dtype.kind == "U":
        return column
    return list(column)  # of times, `tolist` would have the number of their ticks


def _label(cell):
    """Label as an int or a str of Python."""
    if type(cell) in (str, np.str_):  # others may print, or be told apart by a splitter, in another way
        return str.__str__(cell)
    if isinstance(cell, float | np.floating):
        raise Refusal(_FLOATS)
    if isinstance(cell, np.timedelta64) or not isinstance(cell, Integral | np.bool_):
        raise Refusal(_NO_LABEL)
    return int(cell)


def is_missing(cell):
    """Whether a cell is None or does not equal itself, as nan and NaT; pandas' NA does not even say."""
    differs = cell is None or cell != cell
    return type(differs).__name__ == "NAType" or bool(differs)
