"""What is counted of each column of a table: numbers in cells, or categories, listed or not; and missing values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from .._errors import TIMES, without_values
from .._validation import (
    FLOATS,
    check_listed,
    dense_frame,
    holds_numbers,
    in_order,
    is_frame,
    low_and_high,
    validate_array,
)
from ._cells import Cells, column_norm, column_norm_squared, half_sums

N_PUBLIC = 2**32  # rows that nobody has: so many that no noise is seen beside them
_BLOCK_ROWS = 2**13  # of which a few columns, and all that is computed of one, stay in the cache
_N_PLACES, _N_NAMES = 2**12, 2**6  # that these are spread over
# By identity: a metaclass may say what its types are equal to.
_KNOWN_TYPES = set(map(id, (str, bytes, bool, int, float, type(None), *np.sctypeDict.values())))
_TEXTS_OF_ARROW = ("string", "large_string", "dictionary")
_NO_CATEGORY = "X has categories that are neither text nor finite numbers nor truth values."


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: how many are in each cell, and last how many are missing."""

    cells: Cells

    @property
    def norm_squared(self):
        """Largest squared norm of what one value adds to the sums."""
        return column_norm_squared(len(self.cells))

    @property
    def n_changed(self):
        """Number of released values that one row may change."""
        return len(self.cells) + 1

    def count(self, values):
        """Count values, of which nan are missing."""
        missing = np.isnan(values)
        counts = np.bincount(self.cells.place(values[~missing]), minlength=len(self.cells))
        return np.append(counts, np.count_nonzero(missing))

    def public_counts(self):
        """Counts of values that nobody has, evenly spread."""
        return self.count(np.linspace(*(self.cells.bounds or (-1.0, 1.0)), _N_PLACES)) * (N_PUBLIC // _N_PLACES)

    def sums(self, counts):
        """What is released of counts: of missing ones as many as weigh no more than another, for less noise."""
        return np.append(half_sums(counts[:-1]), column_norm(len(self.cells)) * counts[-1])


@dataclass(frozen=True)
class Listed:
    """A column of listed categories: how many are in each, in none of them, and missing; or nothing of it at all."""

    categories: tuple
    is_counted: bool = True

    @property
    def norm_squared(self):
        """Squared norm of what one value adds to the sums."""
        return float(self.is_counted)

    @property
    def n_changed(self):
        """Number of released values that one row may change."""
        return 2 * self.is_counted

    def count(self, cells):
        """Count cells, of which None are missing."""
        n_bins = len(self.categories) + 2
        return np.bincount(codes(cells, self.categories), minlength=n_bins)

    def public_counts(self):
        """Counts of values that nobody has, as many of each category."""
        n_bins = len(self.categories) + 2
        return np.full(n_bins, N_PUBLIC // n_bins)

    def sums(self, counts):
        """What is released of counts."""
        return counts[: len(counts) * self.is_counted].astype(np.float64)


@dataclass(frozen=True)
class Unlisted:
    """A column of categories that nobody has listed: how many are in each that occurs, by its key."""

    norm_squared = 1.0  # of what one value adds to the counts
    n_changed = 2

    def count(self, cells):
        """Count cells by their keys."""
        counts, cells = Counter(), _of_known_types(cells)
        for (_, cell), number in Counter(zip(map(type, cells), cells, strict=True)).items():
            counts[key_of(category(cell))] += number
        return counts

    def public_counts(self):
        """Counts of values that nobody has, as many of each of some texts."""
        return Counter({key_of(str(number)): N_PUBLIC // _N_NAMES for number in range(_N_NAMES)})

    def sums(self, counts):
        """What is released of counts under whatever noise: the number of missing values."""
        return np.array([counts[key_of(None)]], dtype=np.float64)


def category(cell):
    """Return what a cell names as plain text, number or truth value, or None if it is missing; refuse all else."""
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, Real) and cell != cell):
        return None
    if isinstance(cell, str | bytes):
        return str.__str__(cell) if isinstance(cell, str) else bytes(cell)  # of members of an Enum, too
    if isinstance(cell, np.timedelta64):  # which numpy has for a whole number, of a unit that it does not tell
        raise TypeError(_NO_CATEGORY)
    # Columns of whole numbers become floats where one is missing: they name the same.
    if isinstance(cell, Integral) or (isinstance(cell, float | np.floating) and float(cell).is_integer()):
        return int(cell)
    if isinstance(cell, float | np.floating):
        if np.isinf(cell):  # in the words of scikit-learn, which says so of numbers
            raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
        return float(cell)
    raise TypeError(_NO_CATEGORY)


def _of_known_types(cells):
    """Name cells of types of their own one by one: equality, which they may define, might join several."""
    if set(map(id, map(type, cells))) <= _KNOWN_TYPES:
        return cells
    return [cell if id(type(cell)) in _KNOWN_TYPES else category(cell) for cell in cells]


def key_of(name):
    """Tell apart what Python takes for equal, as True and 1, and sort types by themselves."""
    return type(name).__name__, name


def codes(cells, categories):
    """Return the number of the category of each cell, then one for all others and one for what is missing."""
    places = {key_of(name): place for place, name in enumerate(categories)} | {key_of(None): len(categories) + 1}
    cells = _of_known_types(cells)
    kinds, found = list(map(type, cells)), {}
    for pair in set(zip(kinds, cells, strict=True)):
        found[pair] = places.get(key_of(category(pair[1])), len(categories))
    return np.fromiter(map(found.__getitem__, zip(kinds, cells, strict=True)), np.intp, len(cells))


def columns_of(X, n_features, names, *, bounds, categories, n_cells, counts_listed):
    """Say how each column of a table is counted, from its types, which are public, and from parameters."""
    go_by_names = isinstance(bounds, Mapping) or categories is not None
    if names is None and go_by_names and is_frame(X) and list(X.columns) != list(range(n_features)):
        raise ValueError(
            "bounds and categories go by the names of columns, and those of X are no text: make them text, "
            "X.columns = X.columns.astype(str)."
        )
    names = range(n_features) if names is None else list(names)
    dtypes = list(X.dtypes) if is_frame(X) else []
    if any(map(holds_times, dtypes)):
        raise TypeError(TIMES.format("X"))
    are_numbers = [True] * n_features
    if is_frame(X):
        are_numbers = list(map(holds_numbers, dtypes))
    elif hasattr(X, "to_pylist"):  # a table of Arrow
        are_numbers = [not str(kind).startswith(_TEXTS_OF_ARROW) for kind in X.schema.types]
    if categories is not None and not isinstance(categories, Mapping):
        categories = dict.fromkeys(np.asarray(categories, dtype=object).ravel().tolist())
    listed = dict(zip(names, in_order(categories or {}, names, "categories", of_all=False), strict=True))
    is_category = {
        name: name in (categories or {}) or not number for name, number in zip(names, are_numbers, strict=True)
    }
    limits = dict.fromkeys(names)
    if isinstance(bounds, Mapping):
        limits = dict(zip(names, in_order(bounds, names, "bounds", of_all=False), strict=True))
        if wrong := [name for name in bounds if is_category[name]]:
            raise ValueError(
                f"bounds are given for the columns {wrong}, which hold categories and no numbers: convert those of type"
                " object."
            )
    elif bounds is not None:
        limits = dict.fromkeys(names, bounds)
    columns = []
    for name in names:
        if not is_category[name]:
            pair = None if limits[name] is None else low_and_high(limits[name], f"bounds of column {name!r}")
            columns.append(Numbers(Cells(pair, n_cells)))
        else:
            columns.append(Unlisted() if listed[name] is None else Listed(_names(listed[name], name), counts_listed))
    return tuple(columns)


def holds_times(dtype):
    """Whether a column of a frame holds dates or spans of time."""
    return getattr(dtype, "kind", "O") in "mM" or getattr(dtype, "is_temporal", bool)()


def _names(given, column):
    """Listed categories as plain values, in the order of the list."""
    check_listed(given, f"categories of column {column!r}")
    try:
        names = [category(name) for name in given if not isinstance(given, str)]
        is_list = None not in names and len(set(map(key_of, names))) == len(names) > 0
    except (TypeError, ValueError):
        is_list = False
    if not is_list:
        raise ValueError(f"categories of column {column!r} must be different texts, numbers or truth values, or None.")
    return tuple(names)


def read(X, columns):
    """Return the number of rows, and the values of each column: floats with nan, or lists of cells."""
    numbers = [place for place, column in enumerate(columns) if type(column) is Numbers]
    values, n_rows = [None] * len(columns), None
    if numbers:
        is_array = len(numbers) == len(columns) and not is_frame(X)
        chosen = X if is_array else without_values(_select, X, numbers)
        rows = validate_array(chosen, accept_sparse="csr", dtype=FLOATS, ensure_all_finite="allow-nan")
        rows = (rows.toarray() if sp.issparse(rows) else rows).astype(np.float64, copy=False)
        n_rows = rows.shape[0]
        for place, column in zip(numbers, rows.T, strict=True):
            values[place] = column
    for place, column in enumerate(columns):
        if type(column) is not Numbers:
            values[place] = without_values(_cells_of, X, place)
            n_rows = len(values[place])
    if not n_rows:
        raise ValueError("There are no rows.")
    return n_rows, values


def count(X, columns):
    """Return the number of rows of a table, and what is counted of each column."""
    n_rows, values = read(X, columns)
    total, n_cells = None, max(len(column.cells) if type(column) is Numbers else 0 for column in columns)
    for rows in gen_batches(n_rows, max(_BLOCK_ROWS, 4 * n_cells)):  # more rows than counts, which are added up
        counts = [without_values(column.count, some[rows]) for column, some in zip(columns, values, strict=True)]
        total = joined_counts([total, (rows.stop - rows.start, counts)])
    return total


def joined_counts(parts):
    """Join parts of a table, of which each has a number of rows and counts of all columns, or is None without rows."""
    parts = [part for part in parts if part is not None]
    if len(parts) < 2:
        return next(iter(parts), None)
    numbers, counts = zip(*parts, strict=True)
    return sum(numbers), [sum(some[1:], start=some[0]) for some in zip(*counts, strict=True)]


def _select(X, places):
    if hasattr(X, "iloc"):
        chosen = X.iloc[:, places]  # of which scikit-learn warns if some columns are sparse and others are not
        return dense_frame(chosen) if any(hasattr(dtype, "fill_value") for dtype in chosen.dtypes) else chosen
    if is_frame(X):
        return X[:, places]
    return X.tocsc()[:, places] if sp.issparse(X) else _array(X)[:, places]


def _cells_of(X, place):
    """Cells of one column as a list, with None or nan where a value is missing."""
    if is_frame(X):
        column = X.iloc[:, place] if hasattr(X, "iloc") else X[:, place]
        return column.tolist() if hasattr(column, "tolist") else column.to_list()
    if hasattr(X, "to_pylist"):  # a table of Arrow, where numpy makes floats of a column if one number is missing
        return X.columns[place].to_pylist()
    return (validate_array(X, accept_sparse="csr").toarray() if sp.issparse(X) else _array(X))[:, place].tolist()


def _array(X):
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":  # of which `tolist` would have the number of their ticks
        raise TypeError(TIMES.format("X"))
    return X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
