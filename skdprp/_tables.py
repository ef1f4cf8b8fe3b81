"""Tables from files: read, checked, and refused with errors that name the file and the column, and quote no cell."""

import gzip
import re
import warnings
import zlib
from decimal import Decimal

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
_NO_NAMES = {"", "nan", "na", "n/a", "null", "none", "inf", "infinity", "true", "false"}


def _first_line(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
        return next((line for line in file if line.strip()), "").strip("\r\n")


def read_file(path, target=None, n_features=None, zero_based=False, listed=(), classes=None):
    """Read features and labels from a CSV with a header or from a LIBSVM file.

    The arguments say which of them it is, and not the rows; those do not set the number of features either.

    Parameters
    ----------
    path : Path
        The file, plain or gzipped.
    target : str or None, default=None
        Column of a CSV with the labels.
    n_features : int or None, default=None
        Number of features of a LIBSVM file, where labels come first.
    zero_based : bool, default=False
        Whether the features of a LIBSVM file are numbered from 0.
    listed : collection of str, default=()
        Columns of a CSV that come as text, cell by cell: no cell has a say in the type of the others.
    classes : list of int, list of bool, list of str or None, default=None
        What labels can be, if it is known in public: they come in that type.

    Returns
    -------
    X : DataFrame or CSR sparse of shape (n_rows, n_features)
        Features, as they are: `check_features` makes numbers of them.
    y : ndarray of shape (n_rows,)
        Labels.

    Raises
    ------
    ValueError
        If the file cannot be used; the message does not quote its data.
    """
    if (target is None) == (n_features is None):
        raise ValueError(f"{path}: give --target COLUMN for a CSV, or --n-features N for a LIBSVM file")
    try:
        if target is None:
            X, y = _read_libsvm(path, n_features, zero_based)
        else:
            X, y = _read_csv(path, target, listed)
        return X, _labels(path, y.tolist(), classes)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: neither CSV nor LIBSVM text in UTF-8") from None
    except (EOFError, zlib.error):
        raise ValueError(f"{path}: damaged, or cut off") from None


def _labels(path, cells, classes):
    """Return labels in a type that is public, or follows from the set of those written, and from no cell alone."""
    if any(cell is None or cell != cell for cell in cells):
        raise ValueError(f"{path}: some labels are missing")
    cells = list(map(str, cells))
    read = _by_themselves if classes is None else _as_listed
    labels = read(path, sorted(set(cells)), classes)
    return np.array([labels[cell] for cell in cells])


def _by_themselves(path, written, _):
    """Return labels by how they are written: whole or real numbers, truth values as tables have them, or names."""
    numbers = {cell: whole_number(cell) for cell in written}
    if None not in numbers.values():
        return numbers
    if all(_NUMBER.fullmatch(cell.strip()) for cell in written):
        return {cell: float(cell) for cell in written}
    if set(written) <= {form(word) for word in ("true", "false") for form in (str, str.title, str.upper)}:
        return {cell: cell.lower() == "true" for cell in written}
    return {cell: cell for cell in written}


def _as_listed(path, written, classes):
    """Return labels as the classes that they are: by number if those are numbers, by name otherwise."""
    key = whole_number if type(classes[0]) is int else str
    known = {key(str(label)): label for label in classes}
    if not {key(cell) for cell in written} <= set(known):
        raise ValueError(f"{path}: some labels are not among --classes")
    return {cell: known[key(cell)] for cell in written}


def whole_number(text):
    """Read a whole number of at most 64 bits exactly, also if it is written as 1.0 or 1e0.

    Parameters
    ----------
    text : str
        A cell.

    Returns
    -------
    int or None
        None for all other texts.
    """
    if not _NUMBER.fullmatch(text.strip()) or not (value := Decimal(text.strip())).is_finite():
        return None
    if value.adjusted() > 18 or value != value.to_integral_value():
        return None
    return int(value) if -(2**63) <= value < 2**63 else None


def _read_libsvm(path, n_features, zero_based):
    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError):
        last = n_features - zero_based
        numbers = f"numbered from {last - n_features + 1} to {last}"
        raise ValueError(f"{path}: not a valid LIBSVM file of {n_features} features, {numbers}") from None
    if (abs(y) >= 2.0**53).any():  # read as float64, which rounds whole numbers from there on
        raise ValueError(f"{path}: the labels of a LIBSVM file must be below 2^53")
    return X, y


def _is_name(text):
    """Whether a cell of the first line can be the name of a column, and not a value: those need not be numbers."""
    word = text.strip().lower()
    try:
        float(word)
    except ValueError:
        return any(map(str.isalpha, word)) and word not in _NO_NAMES and not word.startswith("unnamed: ")
    return False


def _are_names(columns):
    """Whether all columns have names; the numbers from 0 or 1 on will do."""
    numbers = [[str(i + start) for i in range(len(columns))] for start in (0, 1)]
    return columns in numbers or all(map(_is_name, columns))


def _check_header(path, columns, target):
    """Refuse a first line that may be a row: it would go into the model and into messages as names of columns."""
    if not (_are_names(columns) or _are_names([column for column in columns if column != target])):
        told = f"the first line must hold the names of the {len(columns)} columns, and some of it is no name"
        raise ValueError(f"{path}: {told} but a number or empty")
    if target not in columns:
        raise ValueError(f"{path}: no column {target!r} among the {len(columns)}")


def _columns(path, separator):
    """Return the names of the columns, without a first one that has none and numbers the rows."""
    import pandas as pd

    columns = list(pd.read_csv(path, sep=separator, nrows=0, index_col=False).columns)
    if columns[0] != "Unnamed: 0":
        return columns
    print(f"{path}: the first column has no name, so it numbers the rows and is left out")
    return columns[1:]


def _read_table(path, separator, listed):
    """Read a CSV; its rows have no say in how many columns there are, and which."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(path, sep=separator, index_col=False, low_memory=False, dtype=dict.fromkeys(listed, str))


def _read_csv(path, target, listed):
    import pandas as pd

    header = _first_line(path)
    if not header.strip():
        raise ValueError(f"{path}: the file is empty")
    separator = max(",;\t", key=header.count)
    try:
        columns = _columns(path, separator)
        _check_header(path, columns, target)
        table = _read_table(path, separator, [*listed, target])[columns]
    except (pd.errors.ParserError, pd.errors.ParserWarning):
        raise ValueError(f"{path}: not a CSV with a header and as many cells in each row") from None
    if len(table) == 0:
        raise ValueError(f"{path}: there are no rows")
    return table.drop(columns=target), table[target].to_numpy()


def check_features(path, X, categories, fill):
    """Return X as float64, but for columns with categories; only those with a value to fill may lack some.

    Parameters
    ----------
    path : Path
        The file, for errors.
    X : DataFrame or CSR sparse of shape (n_rows, n_features)
        Features.
    categories : dict of str to list
        What columns of categories can hold: text, or float64.
    fill : dict of str to float
        What stands for missing values, by column.

    Returns
    -------
    DataFrame or CSR sparse of shape (n_rows, n_features)

    Raises
    ------
    ValueError
        With the file and the column, and without data.
    """
    if X.shape[1] == 0:
        raise ValueError(f"{path}: there is no column of features")
    if sp.issparse(X):
        if not np.isfinite(X.data).all():
            raise ValueError(f"{path}: some features are missing or infinite")
        return X
    try:
        return X.apply(lambda column: _checked(column, categories.get(column.name), column.name in fill))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _matched(column, listed):
    """Return cells as numbers if the categories are, and as text otherwise."""
    import pandas as pd

    numeric = isinstance(listed[0], float)
    cells = pd.to_numeric(column, errors="coerce").astype(np.float64) if numeric else column.astype(object)
    if not cells.isin(listed).any():
        raise ValueError(f"column {column.name!r} holds none of its --categories")
    return cells


def _checked(column, listed, filled):
    from pandas.api.types import is_numeric_dtype

    if listed:
        return _matched(column, listed)
    name = column.name
    if not is_numeric_dtype(column):
        raise ValueError(
            f"column {name!r} holds text where numbers should be: list in public what it can be, by"
            f" --categories {name}=THIS,THAT, or drop it"
        )
    if np.isinf(column).any():
        raise ValueError(f"column {name!r} has infinite values")
    if column.isna().any() and not filled:
        raise ValueError(f"column {name!r} has missing values: name a public constant for them by --fill {name}=VALUE")
    return column.astype(np.float64)


def check_labels(path, y, rows_of_each_class=1):
    """Raise ValueError with the file unless there are two classes or more, with so many rows each."""
    if y.dtype.kind == "f":
        raise ValueError(f"{path}: the labels are real numbers, or beyond 64 bits; this command needs classes")
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < rows_of_each_class:
        each = f", and each needs at least {rows_of_each_class} rows" * (rows_of_each_class > 1)
        raise ValueError(f"{path}: there must be two classes or more{each}")
