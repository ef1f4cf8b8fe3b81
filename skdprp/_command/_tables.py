"""Tables from files: read, checked, and refused with errors that name the file and the column, and quote no cell."""

import gzip
import warnings
import zlib

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from ._labels import number, read_labels

_NO_NAMES = {"", "nan", "na", "n/a", "null", "none", "inf", "infinity", "true", "false"}


def read_file(path, *, target=None, n_features=None, zero_based=False, as_text=(), classes=None, listed_by="--classes"):
    """Read features, as they are, and labels from a CSV with a header or from a LIBSVM file, plain or gzipped.

    The arguments say which of them it is, and not the rows; those do not set the number of features either. Columns in
    `as_text` come cell by cell as they are written; labels come as the `classes` that they are, if those are given.
    """
    if (target is None) == (n_features is None):
        raise ValueError(f"{path}: give --target COLUMN for a CSV, or --n-features N for a LIBSVM file")
    try:
        if target is None:
            X, y = _read_libsvm(path, n_features, zero_based)
        else:
            X, y = _read_csv(path, target, as_text)
        return X, read_labels(path, y.tolist(), classes, listed_by)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: neither CSV nor LIBSVM text in UTF-8") from None
    except (EOFError, zlib.error):
        raise ValueError(f"{path}: damaged, or cut off") from None


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


def _read_csv(path, target, as_text):
    import pandas as pd

    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
        header = next((line for line in file if line.strip()), "").strip("\r\n")
    if not header.strip():
        raise ValueError(f"{path}: the file is empty")
    separator = max(",;\t", key=header.count)
    try:
        columns = list(pd.read_csv(path, sep=separator, nrows=0, index_col=False).columns)
        if columns[0] == "Unnamed: 0":
            print(f"{path}: the first column has no name, so it numbers the rows and is left out")
            columns = columns[1:]
        _check_header(path, columns, target)
        with warnings.catch_warnings():
            # Rows with more cells than the header has warn, and would say how many columns there are, and which.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # As text, no cell has a say in the type of the others: 1 would become 1.0 beside a missing one.
            texts = dict.fromkeys([*as_text, target], str)
            table = pd.read_csv(path, sep=separator, index_col=False, low_memory=False, dtype=texts)[columns]
    except (pd.errors.ParserError, pd.errors.ParserWarning):
        raise ValueError(f"{path}: not a CSV with a header and as many cells in each row") from None
    if len(table) == 0:
        raise ValueError(f"{path}: there are no rows")
    return table.drop(columns=target), table[target].to_numpy()


def _check_header(path, columns, target):
    """Refuse a first line that may be a row: it would go into the model and into messages as names of columns."""
    if not (_are_names(columns) or _are_names([column for column in columns if column != target])):
        told = f"the first line must hold the names of the {len(columns)} columns, and some of it is no name"
        raise ValueError(f"{path}: {told} but a number or empty")
    if target not in columns:
        raise ValueError(f"{path}: no column {target!r} among the {len(columns)}")


def _are_names(columns):
    """Whether all columns have names; the numbers from 0 or 1 on will do."""
    numbers = [[str(i + start) for i in range(len(columns))] for start in (0, 1)]
    return columns in numbers or all(map(_is_name, columns))


def _is_name(text):
    """Whether a cell of the first line can be the name of a column, and not a value: those need not be numbers."""
    word = text.strip().lower()
    try:
        float(word)
    except ValueError:
        return any(map(str.isalpha, word)) and word not in _NO_NAMES and not word.startswith("unnamed: ")
    return False


def check_features(path, X, categories, fill):
    """Return X as float64, but for columns with categories; only those with a value to fill may lack some."""
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


def _checked(column, listed, filled):
    """Return a column of categories as numbers if those are, and as text otherwise; any other column as float64."""
    from pandas.api.types import is_numeric_dtype

    name, missing = column.name, column.isna()
    if listed:
        if isinstance(listed[0], float):  # what is infinite is another value, which encoders refuse
            cells = _as_numbers(column).astype(np.float64).replace([-np.inf, np.inf], np.nan)
        else:
            cells = column.astype(object)
        if not cells.isin(listed).any():
            raise ValueError(f"column {name!r} holds none of its --categories")
        return cells
    if not is_numeric_dtype(column):  # for a cell of text, or for a whole number beyond 64 bits
        column = _as_numbers(column)
    if not column.isna().equals(missing):
        raise ValueError(
            f"column {name!r} holds text where numbers should be: list what it can be, without looking at the file, by"
            f" --categories {name}=THIS,THAT, or drop it"
        )
    if np.isinf(column).any():
        raise ValueError(f"column {name!r} has infinite values")
    if missing.any() and not filled:
        raise ValueError(f"column {name!r} has missing values: name a public constant for them by --fill {name}=VALUE")
    return column.astype(np.float64)


def _as_numbers(column):
    """Return a column as numbers, with nan for all else, and infinity for whole numbers beyond floats."""
    import pandas as pd

    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:
        return column.map(lambda cell: number(str(cell)), na_action="ignore").astype(np.float64)
