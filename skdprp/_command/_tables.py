"""Tables from files: read, checked, and refused with errors that name the file and the column, and quote no cell."""

import bz2
import gzip
import lzma
import re
import warnings
import zlib
from contextlib import contextmanager
from numbers import Real

import numpy as np
from sklearn.datasets import load_svmlight_file

from ._label_cells import number, read_labels

_CURE = (
    "give --bounds COLUMN=LOW:HIGH or --categories COLUMN=THIS,THAT, not looked up in the file, or --default-bounds LOW"
    " HIGH for all others; leave columns out by --drop COLUMN; or use `python -m skdprp fit FILE --private-bins`, which"
    " finds bins of all others"
)
# What is no value, as pandas has it.
MISSING = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
]
_MANY = 0.2  # of the cells of a column, from which on somebody should know
_NO_NAMES = {"", "nan", "na", "n/a", "null", "none", "inf", "infinity", "true", "false"}


_OPEN = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # which pandas reads by these names, too
_PACKED = (".7z", ".rar", ".tar", ".tbz", ".tgz", ".zip", ".zst")  # of several files, or of libraries besides


def check_file(path):
    """Refuse a file that cannot be opened, or is packed in a way that is not read here."""
    if path.suffix in _PACKED:
        raise ValueError(f"{path}: unpack it first; of compressed files those that end in {', '.join(_OPEN)} are read")
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def read_file(path, *, target=None, n_features=None, zero_based=False, as_text=(), classes=None, listed_by="--classes"):
    """Read features, as they are, and labels from a CSV with a header or from a LIBSVM file, plain or compressed.

    The arguments say which of them it is, and not the rows; those do not set the number of features either. Columns in
    `as_text` come cell by cell as they are written; labels come as the `classes` that they are, if those are given.
    """
    if (target is None) == (n_features is None):
        raise ValueError(f"{path}: give --target COLUMN for a CSV, or --n-features N for a LIBSVM file")
    with _reading(path):
        if target is None:
            X, y = _read_libsvm(path, n_features, zero_based)
        else:
            table = _read_csv(path, [*as_text, target], target)
            X, y = table.drop(columns=target), table[target].to_numpy()
        return X, read_labels(path, y.tolist(), classes, listed_by)


def read_features(path, columns, numbers, categories):
    """Read columns of a CSV as a fit has had them: numbers as float64, categories as listed, and all others as text."""
    with _reading(path):
        table = _read_csv(path, [name for name in columns if name not in numbers])
    cure = "if its values are not known, give it with empty cells"
    faults = [f"no column {name!r}, which the model takes; {cure}" for name in columns if name not in table]
    X = table[[name for name in columns if name in table]]
    converted = {}
    for name, column in X.items():
        if name in categories:
            converted[name] = _as_listed(column, categories[name])
        elif name not in numbers:
            converted[name] = column.astype(object)
        elif (found := _numbers(column)) is None:
            faults.append(f"column {name!r} holds text, and the model takes numbers there")
        elif np.isinf(found).any():
            faults.append(f"column {name!r} has infinite values")
        else:
            converted[name] = found
    _raise(path, faults)
    return type(X)(converted, index=X.index, columns=X.columns)


@contextmanager
def _reading(path):
    """Say in one line why a file could not be read."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: neither CSV nor LIBSVM text in UTF-8") from None
    except (EOFError, zlib.error, lzma.LZMAError):
        raise ValueError(f"{path}: damaged, or cut off") from None


def _read_libsvm(path, n_features, zero_based):
    try:
        with _OPEN.get(path.suffix, open)(path, "rb") as file:
            X, y = load_svmlight_file(file, n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError):
        last = n_features - zero_based
        numbers = f"numbered from {last - n_features + 1} to {last}"
        raise ValueError(f"{path}: not a valid LIBSVM file of {n_features} features, {numbers}") from None
    if (abs(y) >= 2.0**53).any():  # read as float64, which rounds whole numbers from there on
        raise ValueError(f"{path}: the labels of a LIBSVM file must be below 2^53")
    return X, y


def _read_csv(path, as_text, target=None):
    import pandas as pd

    with _OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8-sig") as file:
        header = next((line for line in file if line.strip()), "").strip(" \r\n")
    if not header.strip():
        raise ValueError(f"{path}: the file is empty")
    separator = max(",;\t", key=re.sub('"[^"]*"', "", header).count)  # a quoted name may hold some
    try:
        columns = list(pd.read_csv(path, sep=separator, nrows=0, index_col=False).columns)
        if columns[0] == "Unnamed: 0":
            print(f"{path}: the first column has no name, so it numbers the rows and is left out")
            columns = columns[1:]
        # The first line may be a row, which would go into the model and into messages as names of columns.
        if not (_are_names(columns) or _are_names([column for column in columns if column != target])):
            told = f"the first line must hold the names of the {len(columns)} columns, and some of it is no name"
            raise ValueError(f"{path}: {told} but a number or empty")
        if target is not None and target not in columns:
            raise ValueError(f"{path}: no column {target!r} among the {len(columns)} that the first line names")
        with warnings.catch_warnings():
            # Rows with more cells than the header has warn, and would say how many columns there are, and which.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # As text, no cell has a say in the type of the others: 1 would become 1.0 beside a missing one.
            texts = dict.fromkeys(as_text, str)
            options = {"index_col": False, "low_memory": False, "dtype": texts}
            options |= {"keep_default_na": False, "na_values": MISSING}
            if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
                # Others round numbers of 17 digits in one way among whole numbers, and in another beside a 0.5.
                options["float_precision"] = "round_trip"
            table = pd.read_csv(path, sep=separator, **options)
            # One number beyond 2^63 may make objects of whole numbers, or texts of empty cells: such columns are text.
            others = [name for name in table if not (name in texts or pd.api.types.is_numeric_dtype(table[name]))]
            odd = [
                name
                for name in others
                if pd.api.types.infer_dtype(table[name]) == "integer" or table[name].isin(MISSING).any()
            ]
            if odd:
                table = pd.read_csv(path, sep=separator, **options | {"dtype": texts | dict.fromkeys(odd, str)})
            if len(table) != _number_of_lines(path, separator, header if all(map(_is_name, columns)) else None) - 1:
                raise ValueError(
                    f"{path}: a quote is not closed, or a cell holds a line end: write each row in one line"
                )
            table = table[columns]
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        if "out of memory" in str(error):
            raise MemoryError from None
        raise ValueError(f"{path}: not a CSV with a header and as many cells in each row") from None
    if len(table) == 0:
        raise ValueError(f"{path}: there are no rows")
    return table


def _number_of_lines(path, separator, header):
    """Count the lines that are not blank; -1 if carriage returns end some of them only.

    A quote that is not closed takes the rows that follow into its cell, and a carriage return within a cell begins a
    row: one row would decide which others there are. A header that is repeated makes text of all numbers; one of
    numbers, which is None here, may be a row as well.
    """
    blank = " \t\r\n".replace(separator, "")
    n_lines, n_headers, ends = 0, 0, set()
    with _OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        for line in file:
            n_lines += bool(line.strip(blank))
            n_headers += line.strip("\ufeff \r\n") == header
            ends.add(line[-1])
    if n_headers > 1:
        raise ValueError(f"{path}: a later line repeats the first one, which names the columns: delete it")
    return -1 if ends >= {"\r", "\n"} else n_lines


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


def check_sparse(path, X, faults=()):
    """Return sparse rows of numbers."""
    faults = [*faults, *["some features are missing or infinite"] * (not np.isfinite(X.data).all())]
    _raise(path, faults)
    return X


def check_features(path, X, categories, bounded, *, unnamed="refuse", faults=()):
    """Return a table with columns of numbers as float64, and of categories as they are listed.

    Columns that are neither are refused, or found: as numbers if there is no text in them. What is kept, and not
    brought to bounds, may lack no value. One message tells what is wrong with all columns, and quotes no cell.
    """
    if X.shape[1] == 0:
        _raise(path, [*faults, "there is no column of features"])
    checked, faults, unknown = {}, list(faults), []
    for name, column in X.items():
        try:
            if name in categories:
                checked[name] = _as_listed(column, categories[name])
                if not checked[name].isin(categories[name]).any():
                    raise ValueError(f"column {name!r} holds none of its --categories")
            elif name in bounded:
                checked[name] = _as_numbers(column, takes_missing=unnamed != "keep")
            elif unnamed == "find":
                checked[name] = column.astype(object) if _numbers(column) is None else _as_numbers(column)
            else:
                unknown.append(f"no {'categories' if _numbers(column) is None else 'bounds'} for {name!r}")
        except ValueError as fault:
            faults.append(str(fault))
    _raise(path, [*faults, *unknown, *[_CURE] * bool(unknown)])
    return type(X)(checked, index=X.index, columns=X.columns)


def describe_unusual(X, bounds, categories):
    """Say of which columns many cells tell a model nothing: missing, beyond their bounds, or in no listed category."""
    for name, column in X.items():
        shares = {"missing": column.isna().mean()}
        if name in bounds:
            low, high = bounds[name]
            shares["beyond the bounds"] = ((column < low) | (column > high)).mean()
        if name in categories:
            shares["none of the listed categories"] = (column.notna() & ~column.isin(categories[name])).mean()
        for what, share in shares.items():
            if share > _MANY:
                yield f"column {name!r}: {share:.0%} of the cells are {what}"


def _raise(path, faults):
    if faults:
        raise ValueError("\n".join(f"{path}: {fault}" for fault in faults))


def _as_listed(column, listed):
    """Return a column of categories as numbers or truth values if those are listed, and as text otherwise."""
    if isinstance(listed[0], bool):
        values = {form(word): word == "true" for word in ("true", "false") for form in (str, str.title, str.upper)}
        return column.map(values).astype(object)
    if isinstance(listed[0], Real):  # what is infinite is another value, which encoders refuse
        return _coerced(column).replace([-np.inf, np.inf], np.nan)
    return column.astype(object)


def _as_numbers(column, *, takes_missing=True):
    """Return a column as float64."""
    numbers, name = _numbers(column), column.name
    if numbers is None:
        raise ValueError(
            f"column {name!r} holds text where numbers should be: list what it can be, without looking at the file, by"
            f" --categories {name}=THIS,THAT, or leave it out by --drop {name}"
        )
    if np.isinf(numbers).any():
        raise ValueError(f"column {name!r} has infinite values")
    if numbers.isna().any() and not takes_missing:
        raise ValueError(f"column {name!r} has missing values: give its --bounds, or leave it out by --drop {name}")
    return numbers


def _numbers(column):
    """Return a column as float64, or None if it holds text."""
    from pandas.api.types import is_numeric_dtype

    if is_numeric_dtype(column):
        return column.astype(np.float64)
    # For a cell of text, for a whole number beyond 64 bits, or for truth values of which some are missing.
    cells = column.map(lambda cell: float(cell) if isinstance(cell, bool) else cell)
    numbers = _coerced(cells)
    return numbers if numbers.isna().equals(column.isna()) else None


def _coerced(column):
    """Return a column as float64, with nan for all that is no number: each cell is read by itself."""
    return column.map(lambda cell: number(str(cell)), na_action="ignore").astype(np.float64)
