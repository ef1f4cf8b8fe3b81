"""What the estimators ask of parameters and data, and the only import of scikit-learn's semi-private validators."""

import math
import pickle
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from copy import deepcopy
from decimal import localcontext
from fractions import Fraction
from functools import cache, wraps
from io import BytesIO
from itertools import pairwise
from numbers import Integral, Real
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from scipy import special
from sklearn import base, config_context
from sklearn.utils import _param_validation, extmath, validation
from sklearn.utils._param_validation import HasMethods, Options, StrOptions

from . import _recording
from ._digits import to_python
from ._lazy import computed, is_lazy

__all__ = [
    "FLOATS",
    "POSITIVE",
    "PRIVACY_CONSTRAINTS",
    "SKETCH_CONSTRAINTS",
    "TIMES",
    "HasMethods",
    "Interval",
    "Options",
    "PythonNumbersMixin",
    "Refusal",
    "StrOptions",
    "UncachedMixin",
    "_fit_context",
    "array_for_blocks",
    "canonical_csr",
    "check_collected",
    "clip_rows",
    "dense_frame",
    "float_type",
    "in_order",
    "is_frame",
    "low_and_high",
    "own_copy",
    "scale_rows",
    "silent",
    "validate_array",
    "validate_data",
    "validate_schema",
    "warn_at_caller",
    "without_values",
]


def silent(function):
    """Let no floating-point error or warning of numpy or scipy leave a function of rows: it would tell of a row.

    Nor do flags of decimals, which a comparison of cells may raise.

    The caller may have asked for them, by :func:`numpy.seterr` or :func:`scipy.special.seterr`; a thread begins with
    warnings of overflows. Nor does an error say how much memory was wanted: as much as there are rows, or nonzeros.
    """

    @wraps(function)
    def _silent(*args, **known):
        # To tell scipy.special is slow: only where it was told to do more than raise for want of memory, its default.
        told = {kind for kind, action in special.geterr().items() if action != "ignore"} - {"memory"}
        untold = special.errstate(**dict.fromkeys(told, "ignore")) if told else nullcontext()
        try:
            with np.errstate(all="ignore"), untold, localcontext():
                return function(*args, **known)
        except MemoryError as error:
            if type(error) is MemoryError:  # which has no words, or those of this library
                raise
        raise MemoryError(_NO_MEMORY)  # here and not in the handler, or the first error were its context

    return _silent


def _fit_context(**options):
    """Check the parameters before a fit as scikit-learn does, whatever its configuration: the noise rests on them."""

    def _checked(fit):
        fit_in_context = silent(base._fit_context(**options)(fit))

        @wraps(fit)
        def _fit(estimator, *args, **known):
            with config_context(skip_parameter_validation=False):
                return fit_in_context(estimator, *args, **known)

        return _fit

    return _checked


class Interval(_param_validation.Interval):
    """An interval of Python's numbers, which :class:`PythonNumbersMixin` makes of all that equal one; True is none."""

    def is_satisfied_by(self, val):
        """Whether a parameter is a number in the interval; of whole numbers, one that numpy can hold."""
        is_number = type(val) is float or (type(val) is int and abs(val) < 2**63)
        return is_number and super().is_satisfied_by(val)


class PythonNumbersMixin:
    """Hold every number as a plain Python one: what is computed from a float16 parameter is not computed in float16.

    And every text, as a type of its own may define what it is equal to.
    """

    @classmethod
    @cache  # or scikit-learn inspects the signature at each call of `get_params`: a quarter of a small fit
    def _get_param_names(cls):
        return super()._get_param_names()

    def __setattr__(self, name, value):
        with suppress(ValueError):  # what no float is equal to stays, for `Interval` to refuse
            value = str.__str__(value) if isinstance(value, str) else to_python(value)
        super().__setattr__(name, value)

    def __setstate__(self, state):
        super().__setstate__(state)
        for name, value in vars(self).copy().items():  # a state comes past `__setattr__`
            setattr(self, name, value)


class UncachedMixin:
    """Have a state equal to no other, so that caches, which know a result by what it comes from, do not know a release.

    A ``Pipeline(memory=...)`` gave the release of equal rows again, and another for a neighbour: that told them apart.
    A state also carries the open ledgers along, to workers of which no ancestor knows them.
    """

    def __getstate__(self):
        carried = {"_unlike_any_other": uuid4().hex, "_open_ledgers": list(_recording.open_journals())}
        return super().__getstate__() | carried

    def __setstate__(self, state):
        _recording.adopt(state.get("_open_ledgers", ()))
        carried = ("_unlike_any_other", "_open_ledgers")
        super().__setstate__({name: value for name, value in state.items() if name not in carried})


FLOATS = (np.float64, np.float32)
POSITIVE = [Interval(Real, 0, None, closed="neither")]

PRIVACY_CONSTRAINTS = {
    "epsilon": POSITIVE,
    "delta": [Interval(Real, 0, 1, closed="left")],
}

N_JOBS = [Interval(Integral, None, -1, closed="right"), Interval(Integral, 1, None, closed="left"), None]

SKETCH_CONSTRAINTS = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "max_change": [Interval(Real, 1e-100, 1e100, closed="both")],  # squares of rows on this scale stay in float64
    "max_nonzeros": [Interval(Integral, 1, None, closed="left"), None],
    "random_state": ["random_state"],
    "n_jobs": N_JOBS,
}

# Modules between a caller and a warning: what runs a fit, perhaps in a thread.
_MACHINERY = {"skdprp", "sklearn", "joblib", "contextlib", "functools", "threading", "concurrent", "multiprocessing"}

# Whose words about data are known: those that validate and convert them.
_CONVERTERS = {"skdprp", "sklearn", "numpy", "scipy", "narwhals", "pandas", "polars", "pyarrow"}

_MISSING = (
    "X contains NaN. Before the private step put SimpleImputer(strategy='constant', fill_value=0, "
    "keep_empty_features=True) or, for tables, make_table_preprocessor; values filled in must not come from the data."
)
CURE_OF_LABELS = (
    "drop the rows without a label beforehand, and look only at the label of each row to do so; the number of rows "
    "that have one is then assumed to be public. Or, for classes, make 'missing' a class of its own. (Private steps "
    "before a model may already be paid: privacy_report(model, X, y) looks for such labels before a fit.)"
)
_MASKED = "Data has masked cells: fill them by nan, or by constants that do not come from the data."
TIMES = "{} has dates or spans of time where numbers should be: make them days since a date that is not from the data."
_NO_MEMORY = "There is not enough memory for the data; how much was wanted is withheld, for it may tell of the rows."
_MOST_NAMES = 10  # that an error lists
_TEXT = "{} has text where numbers should be: encode it by categories that do not come from the data."
_WITHHELD = "{} cannot be read ({}; what it says is withheld, for it may quote the data)."
_QUOTES = ("Complex data not supported", "Expected 2D array")  # the rest of these is the array itself
_RESHAPE = ": one row or one column? Reshape your data by .reshape(1, -1) or .reshape(-1, 1)."
_SHAPE = re.compile(r"\(\d[\d, ]*\)")  # whose number of rows, of persons, is not public
_LENGTHS = ": X, y and what else has an entry for each row need the same number of rows."
_SAFE = re.compile(  # messages of scikit-learn and numpy that name shapes, types and columns, and no values
    r"Input (X |y )?contains infinity|Found (array|input variables) with|X has \d+ features|Feature names |"
    r"The feature names should match|Sparse data was passed|Only sparse matrices with|This \w+ estimator requires y|"
    r"Expected (2D input|a 2-dimensional container|sequence or array-like, got <class|unique column names)|"
    r"y should be a 1d array, got an|(float|int)\(\) argument must be|setting an array element with a sequence|"
    r"Unknown label type|Classification metrics can't handle|X has categories that are neither|X is damaged: "
)


class Refusal(ValueError):
    """Words about data that quote none of it."""


def without_values(function, *data, name="X", **options):
    """Call a function of data, such as a validator, and let no error quote the data, which go by `name`.

    Its error is not the context of the one that is raised, or a traceback would print it.
    """
    try:
        return silent(function)(*data, **options)
    except (MemoryError, _recording.RecordingError):  # which have no words of the data
        raise
    except Exception as error:
        kind, message = TypeError if isinstance(error, TypeError) else ValueError, _public(error, name)
    raise kind(message)  # here and not in the handler, or the first error were its context


@silent
def validate_data(estimator, X, y="no_validation", **options):
    """Validate as scikit-learn does, whatever its configuration, but make sparse rows canonical and quote no cell."""
    is_numeric = options.pop("y_numeric", False)  # whose errors quote y: it is checked here
    if getattr(getattr(y, "dtype", None), "kind", "") == "T":  # of which scikit-learn says that X cannot be read
        raise TypeError("y is an array of numpy's StringDType, which scikit-learn cannot read: give y.astype(str).")
    has_targets = y is not None and not isinstance(y, str)
    if has_targets and is_lazy(X) != is_lazy(y):  # a table that is shuffled has another order whenever it is computed
        lazy, other = ("X", "y") if is_lazy(X) else ("y", "X")
        cure = "compute them at once, X, y = dask.compute(X, y)."
        raise TypeError(f"{lazy} is a dask collection, and {other} is in memory: {cure}")
    X, y = _loaded(X=X, y=y)
    check_unmasked(y)
    if is_numeric and is_list(y):  # numpy would make texts of all numbers where one is a text
        y = without_values(np.asarray, y, name="y", dtype=object)
    elif is_numeric:
        y = _plain(y)
    with config_context(assume_finite=False):  # look for NaN whatever scikit-learn is told
        try:
            data, found = without_values(validation.validate_data, estimator, _canonical(X), y, **options), None
        except ValueError as error:
            if str(error) != _TEXT.format("X") or not is_frame(X):
                raise
            found = _text_in(X)
        if found:  # here and not in the handler, as in without_values
            raise ValueError(found)
        if not isinstance(data, tuple):
            return _bools_as_floats(data)
        X, y = data
        return _bools_as_floats(X), without_values(_numeric_targets, y, name="y") if is_numeric else y


def _bools_as_floats(X):
    """Convert the truth values of a frame of sparse columns, which scikit-learn returns as they are."""
    return X.astype(np.float64) if X.dtype == bool else X


def check_real(data, name):
    """Refuse dates, spans of time and complex numbers: of one of numpy's, ticks or the real part would be taken."""
    kinds = _kinds_of_cells(data)
    if _has_times(kinds):
        raise TypeError(TIMES.format(name))
    types = (getattr(kind, "type", kind) for kind in kinds)
    if any(isinstance(kind, type) and issubclass(kind, complex | np.complexfloating) for kind in types):
        raise ValueError("Complex data not supported")


def _numeric_targets(y):
    check_real(y, "y")
    y = y.astype(np.float64, copy=False)
    validation.assert_all_finite(y, input_name="y")
    return y


def _text_in(X):
    """Say which columns of a frame may hold the text: names and types are public, and only these are looked at."""
    names = [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if not holds_numbers(dtype)]
    shown = ", ".join(map(repr, names[:_MOST_NAMES])) + ", ..." * (len(names) > _MOST_NAMES)
    return (
        f"X has text where numbers should be. Columns that are not numeric: {shown}. Encode them by "
        "make_table_preprocessor(categories=...) or OneHotEncoder(categories=...) in a ColumnTransformer with "
        "sparse_threshold=0, by categories that do not come from the data."
    )


def holds_numbers(dtype):
    """Whether a column of a frame holds numbers or truth values; categories of numbers are none."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "iufbc"  # complex numbers are refused as such


def _loaded(**data):
    """Return data in memory, with a warning where they were dask collections, which need not fit in there."""
    data = {name: as_table(one) for name, one in data.items()}
    if not (lazy := [name for name, one in data.items() if is_lazy(one)]):
        return data.values()
    for name in lazy:
        warn_at_caller(f"{name} is a dask collection, of which this loads all rows into memory.", UserWarning)
    return computed(*data.values())


def as_table(X):
    """A batch of Arrow as a table: of the names of its columns scikit-learn knows nothing."""
    is_batch = type(X).__name__ == "RecordBatch" and hasattr(X, "schema")
    return sys.modules["pyarrow"].Table.from_batches([X]) if is_batch else X


def public_numbers(n_rows, n_columns):
    """Numbers in the place of those of rows in a plan: what follows may keep, print or refuse what it sees."""
    return np.sin(np.arange(1.0, 1.0 + n_rows * n_columns) ** 2).reshape(n_rows, n_columns)


def validate_schema(estimator, X, *, reset):
    """Take over, or compare, the number and the names of the columns of a table, whatever is in it."""
    check_collected(X)
    X, options = as_table(X), {"skip_check_array": True}
    if not is_frame(X):  # which has two dimensions anyway
        if not sp.issparse(X):
            _kinds_of_cells(X)
        options = {"dtype": None, "accept_sparse": True, "ensure_all_finite": False}
    without_values(validation.validate_data, estimator, X, reset=reset, **options)


def check_collected(X):
    """Refuse what polars has not computed yet, and would compute again at each look, and what Arrow reads once."""
    if type(X).__name__ == "LazyFrame" and hasattr(X, "collect_schema"):
        raise TypeError("X is a LazyFrame of polars: pass its rows, X.collect().")
    if hasattr(X, "read_all") and hasattr(X, "schema"):
        raise TypeError("X is a reader of Arrow: pass its rows, X.read_all(), or its batches to transform_chunks.")


def is_estimator(thing):
    """Whether a thing has parameters, as estimators have; `polars.col` has all attributes, and none can be called."""
    return hasattr(type(thing), "get_params") or callable(getattr(thing, "get_params", None))


def is_frame(X):
    """Whether X is a dataframe, of pandas, polars or dask, whose columns have types of their own."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def own_copy(X):
    """A copy of rows that a step may write into: frames copied as such share the objects in their cells."""
    written, nans = BytesIO(), []
    try:
        _PicklerOfRows(written, nans).dump(X)
        written.seek(0)
        unpickler = pickle.Unpickler(written)
        unpickler.persistent_load = nans.__getitem__
        return unpickler.load()
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # of cells that cannot be written out
        if is_frame(X) or hasattr(X, "iloc"):
            raise TypeError("X has cells that cannot be copied: turn them into text, numbers or lists.") from error
        return deepcopy(X)


class _PicklerOfRows(pickle.Pickler):
    """Leaves each nan what it is: a set, or the keys of a dict, have one object once, and two of its copies twice."""

    def __init__(self, file, nans):
        super().__init__(file)
        self.nans = nans

    def persistent_id(self, thing):
        """Return the place of a nan among those that are kept, and None for all else."""
        if type(thing) is not float or thing == thing:
            return None
        self.nans.append(thing)
        return len(self.nans) - 1


@silent
def validate_array(X, *, name="X", **options):
    """Validate rows that belong to no fitted width, as :func:`validate_data` does."""
    [X] = _loaded(**{name: X})
    options |= {"name": name, "input_name": name}
    with config_context(assume_finite=False):
        return _bools_as_floats(without_values(validation.check_array, _canonical(X), **options))


def _canonical(X):
    if type(X) is np.ndarray and X.dtype.kind in "biuf":
        return X
    if sp.issparse(X):
        return without_values(canonical_csr, X)
    check_collected(X)
    # numpy takes them for the number of their ticks, and what is missing for the least of all numbers, -2^63.
    kinds = _kinds_of_cells(X)
    if _has_times(kinds):
        raise TypeError(TIMES.format("X"))
    if is_frame(X) and any(getattr(kind, "kind", "") == "c" for kind in kinds):  # pandas would drop a part of each
        raise ValueError("Complex data not supported")
    return _plain(X)


def _plain(table):
    """Return a table of pandas without sparse columns that are filled otherwise than by 0, and without categories.

    Of polars, one without decimals: versions before 1.18 make float32 of them beside such columns.
    """
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(table, polars.DataFrame):
        kinds = zip(table.columns, table.dtypes, strict=True)
        decimals = [name for name, kind in kinds if isinstance(kind, polars.Decimal)]
        return table.with_columns(table[name].cast(polars.Float64) for name in decimals) if decimals else table
    if not (hasattr(table, "iloc") and table.ndim == 2):
        return table
    # SparseDtype alone has a fill value. pandas warns of several, and prints them; scikit-learn refuses all but 0.
    is_odd = any(getattr(dtype, "fill_value", 0) != 0 or lists_numbers(dtype) for dtype in table.dtypes)
    return _of_columns(_decoded, table) if is_odd else table


def dense_frame(X):
    """Return a dataframe of pandas without sparse columns."""
    return _of_columns(_dense, X)


def _of_columns(change, X):
    columns = [change(X.iloc[:, i]) for i in range(X.shape[1])]
    return sys.modules["pandas"].concat(columns, axis=1).set_axis(X.columns, axis=1)


def _dense(column):
    return column.sparse.to_dense() if hasattr(column.dtype, "fill_value") else column


def _decoded(column):
    """Return a column of categories that are numbers as floats, and any other as a dense one.

    Where one category is missing pandas makes floats of all rows, and whole numbers of these again: some overflow.
    """
    if not lists_numbers(column.dtype):
        return _dense(column)
    values = np.append(np.asarray(column.dtype.categories, dtype=np.float64), np.nan)  # the code of a missing one is -1
    return sys.modules["pandas"].Series(values[column.cat.codes], index=column.index)


def lists_numbers(dtype):
    """Whether a type of a column of pandas is of categories that are numbers or truth values."""
    return getattr(getattr(getattr(dtype, "categories", None), "dtype", None), "kind", "O") in "iufb"


def _kinds_of_cells(data):
    """Types of columns of a frame, or of an array, and of cells that may be anything; masked ones are refused."""
    check_unmasked(data)
    table = (
        data if hasattr(data, "dtype") or hasattr(data, "dtypes") else without_values(np.asarray, data, dtype=object)
    )
    is_frame = hasattr(table, "dtypes") and getattr(table, "ndim", 2) == 2  # which may have a column called dtype
    dtypes = list(table.dtypes) if is_frame else [table.dtype]
    holds_objects = any(getattr(dtype, "kind", "") == "O" for dtype in dtypes)
    cells = np.asarray(table, dtype=object).flat if holds_objects else ()
    kinds = {cell.dtype.type if type(cell) is np.ndarray else type(cell) for cell in cells}
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):  # of which numpy warns where they are masked
        raise ValueError(_MASKED)
    return {*dtypes, *kinds}


def is_list(data):
    """Whether data are a list or the like, of which numpy makes an array by what all cells have in common."""
    has_type = (
        hasattr(data, "dtype") or hasattr(data, "__array__") or isinstance(data, str | bytes | memoryview | Mapping)
    )
    return hasattr(data, "__len__") and hasattr(data, "__getitem__") and not has_type


def check_unmasked(data):
    """Refuse cells that are masked, also in lists of rows: numpy would take what lies under the mask."""
    if _is_masked(data):
        raise ValueError(_MASKED)


def _is_masked(data):
    return np.ma.is_masked(data) or (is_list(data) and any(map(np.ma.is_masked, data)))


def _has_times(kinds):
    """Whether types of cells or columns, of numpy, pandas or polars, are dates or spans of time."""
    return any(
        getattr(kind, "kind", None) in ("m", "M")
        or getattr(kind, "is_temporal", bool)()
        or (isinstance(kind, type) and issubclass(kind, np.datetime64 | np.timedelta64))
        for kind in kinds
    )


def canonical_csr(X):
    """Return sparse rows as CSR, each entry once and in the order of its column, whatever their format.

    What is computed from them is then a function of the rows as vectors, and not of how they are stored. Entries that
    are stored several times are summed exactly, and rounded once, to float64, unless they are whole numbers: any other
    sum would depend on the order, or on how a number is split. Entries of other types than `FLOATS` are left to be
    converted, and those that are not finite or not real to be refused, by the validation that follows. A view of X
    where it can be.
    """
    if X.ndim != 2 or X.dtype.kind == "c":
        return X
    rows = _stored_entries(X)  # whose flags are computed anew: those of X may say what is not so
    if not rows.has_canonical_format:
        # Places are sorted by column, in a copy, instead of values: scipy sorts fewer types than it holds.
        order = sp.csr_array((np.arange(rows.nnz), rows.indices.copy(), rows.indptr), shape=rows.shape)
        order.sort_indices()
        rows = _sum_repeated(sp.csr_array((rows.data[order.data], order.indices, rows.indptr), shape=rows.shape))
    ends = np.concatenate([rows.indptr[:-1], rows.indptr[1:] - 1])[np.tile(np.diff(rows.indptr) > 0, 2)]
    if not ((rows.indices[ends] >= 0) & (rows.indices[ends] < X.shape[1])).all():
        raise ValueError("X is damaged: an entry lies in a column that it does not have.")  # W has no row for it
    return sp.csr_matrix(rows) if isinstance(X, sp.spmatrix) else rows


def _stored_entries(X):
    """CSR of all entries as they are stored: nothing is summed, and no flag set."""
    if X.format in ("csr", "csc"):  # of which scipy believes what they say, and reads and writes beside them
        n_entries, lengths = min(len(X.indices), len(X.data)), np.diff(X.indptr)
        if X.indptr[0] != 0 or (lengths < 0).any() or X.indptr[-1] > n_entries:
            raise ValueError("X is damaged: its pointers are not those of its entries.")
        if X.format == "csc" and n_entries and not 0 <= X.indices.min() <= X.indices.max() < X.shape[0]:
            raise ValueError("X is damaged: an entry lies in a row that it does not have.")
    X = X.tocsr() if X.format == "csc" else X  # which keeps repeated entries apart, where others would sum them
    if X.format == "csr":
        size = X.indptr[-1]
        return sp.csr_array((X.data[:size], X.indices[:size], X.indptr), shape=X.shape)
    X = X.tocoo()
    order = np.argsort(X.row, kind="stable")
    pointers = np.append(0, np.cumsum(np.bincount(X.row, minlength=X.shape[0])))
    return sp.csr_array((X.data[order], X.col[order], pointers), shape=X.shape)


def _sum_repeated(X):
    """Sum what sorted rows hold several times."""
    # Where an entry begins: another column than before, or a row that is not empty.
    begins = np.diff(X.indices, prepend=-1) != 0
    begins[X.indptr[:-1][np.diff(X.indptr) > 0]] = True
    if begins.all():
        return X
    first, kind = np.flatnonzero(begins), X.dtype.kind if X.dtype.itemsize <= 8 else "O"
    # Whole numbers stay what they are: as floats those beyond 2^53 would be equal, in all rows, for one of two parts.
    types = {"b": np.bool_, "i": np.int64, "u": np.uint64}
    sums, lengths = X.data[first].astype(types.get(kind, np.float64)), np.diff(first, append=X.nnz)
    repeated = lengths > 1  # few as a rule: only these are summed in Python
    numbers = X.data[np.repeat(repeated, lengths)].tolist()
    ends = pairwise([0, *np.cumsum(lengths[repeated]).tolist()])
    try:
        sums[repeated] = [_exact_sum(numbers[start:stop], kind) for start, stop in ends]
    except OverflowError:
        raise ValueError("X has an entry that is stored in several parts, and is too large for 64 bits.") from None
    return sp.csr_array((sums, X.indices[first], np.append(0, np.cumsum(begins))[X.indptr]), shape=X.shape)


def _exact_sum(numbers, kind):
    """Sum in real numbers, rounded once to a float; of whole numbers, as they are; of truth values, if one is true.

    What is not finite stays so: a sum might hide that an entry is infinite.
    """
    floats = list(map(float, numbers)) if kind in ("f", "O") else []
    if not all(map(math.isfinite, floats)):
        return math.inf if any(map(math.isinf, floats)) else math.nan
    try:
        if kind == "f":
            return math.fsum(numbers)
        if kind in "iu":
            return sum(numbers)
        if kind == "b":
            return any(numbers)
        return float(sum(Fraction(*number.as_integer_ratio()) for number in numbers))
    except OverflowError:
        return math.inf


@silent
def clip_rows(X, max_norm, *, copy=True, out=None):
    """Clip rows, dense or CSR, to a norm of at most `max_norm`; return them in float64, row by row.

    Row by row, because linear algebra then rounds a row in one way in every block. Repeated entries are summed before
    norms are taken. Without `copy`, X itself is returned where it is all of that already, and nobody writes into it.
    A copy of dense rows begins `out`, if that is given. Rows that are not finite are refused.
    """
    given = X
    if sp.issparse(X):
        X = sp.csr_array((X.data.astype(np.float64), X.indices.copy(), X.indptr.copy()), shape=X.shape)
        X.sum_duplicates()
    elif copy or X.dtype != np.float64 or not X.flags.c_contiguous:
        X = _copied(X, out)
    norms = extmath.row_norms(X)
    # The computed norm may be below the true one: the sensitivity rests on the true one, so that the limit is less.
    limit = max_norm * (1 - (X.shape[1] + 8) * 2.0**-52)
    if (norms <= limit).all():
        return X
    is_huge = ~np.isfinite(norms)  # the squares overflow, and so may the norm itself
    if is_huge.any():
        with config_context(assume_finite=False):
            without_values(validation.assert_all_finite, X, input_name="X")
        X = _copied(X, out) if X is given else X
        # Exact but for numbers near 0; the other factor is then a normal number, with all its digits.
        scale_rows(X, np.where(is_huge, 2.0**-600, 1.0))
        norms = extmath.row_norms(X)
    factors = limit / np.where(is_huge, norms, np.maximum(norms, limit))
    if X is given:  # in one pass
        return np.multiply(X, factors[:, None], out=None if out is None else out[: len(X)])
    scale_rows(X, factors)
    return X


def _copied(X, out):
    if out is None:
        return X.astype(np.float64, order="C")
    out[: len(X)] = X
    return out[: len(X)]


def array_for_blocks(X, size):
    """Return an array for copies of dense rows, so many at a time: none of sparse ones.

    A new array for each block costs more than all that is computed with it, where memory goes back to the system at
    once, as in workers of dask.
    """
    return None if sp.issparse(X) else np.empty((min(size, X.shape[0]), X.shape[1]))


def scale_rows(X, factors):
    """Multiply each row by its factor, in place."""
    if sp.issparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr))
    else:
        X *= factors[:, None]


def number_of_rows(X):
    """Return how many rows an array, a sparse matrix, a frame or a list has."""
    if not hasattr(X, "shape"):
        return len(X)
    if not X.shape:
        raise TypeError("X is one number, and has no rows.")
    return X.shape[0]


def float_type(X, rows):
    """Return the type that rows came in: repeated entries of float32 are summed in float64."""
    return np.dtype(np.float32) if sp.issparse(X) and X.dtype == np.float32 else rows.dtype


def has_rows(X):
    """Whether a chunk is none that is known to be empty, such as what a filter leaves of a file."""
    return is_lazy(X) or getattr(X, "shape", (1,))[:1] != (0,)


def chunks_with_rows(chunks):
    """Leave out tuples of X, and of what belongs to it, that have no rows; where none has any, keep the last.

    It is refused as any table without rows is.
    """
    last, none_yet = [], True
    for chunk in chunks:
        last = [chunk]
        if has_rows(chunk[0]):
            none_yet = False
            yield chunk
    yield from last * none_yet


def in_given_type(X, rows):
    """Return validated rows in the type that they came in, on which the noise of a model may depend."""
    if (dtype := float_type(X, rows)) == rows.dtype:
        return rows
    limits = np.finfo(dtype)  # which sums of repeated entries are cut to, as no row is refused for them
    data = np.clip(rows.data, limits.min, limits.max).astype(dtype)
    return type(rows)((data, rows.indices, rows.indptr), shape=rows.shape)


def in_order(given, names, what, *, of_all=True):
    """Return values that are given by the names of columns in the order of the columns, None where there is none."""
    if names is None:
        raise ValueError(f"{what} go by names, but X has no names of columns: pass a DataFrame, or list them in order.")
    if of_all and (missing := [name for name in names if name not in given]):
        raise ValueError(f"{what} are missing for the columns {missing}.")
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"{what} are given for {unknown}, which X does not have.")
    return [given.get(name) for name in names]


def check_listed(given, whose):
    """Refuse what is no list of a parameter: an iterator, which reports and other fits cannot read again, or masks."""
    if isinstance(given, Iterator):
        raise TypeError(f"{whose} are an iterator, which can be read once: make it a list.")
    if _is_masked(given):
        raise ValueError(f"{whose} have masked entries, under which numpy keeps some number: give all of them.")


def low_and_high(pair, whose):
    """Check a low and a high number, and return them as floats."""
    check_listed(pair, whose)
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        raise ValueError(f"{whose} must be two numbers, low and high; got {pair!r}.") from None
    if low > high:
        raise ValueError(f"{whose} are {low:g} and {high:g}: low and high exchanged?")
    # Beyond that scale and offset are no floats, or leave nothing of the values.
    if not 1e-100 < high - low < 1e100:
        raise ValueError(f"{whose} must be finite, low below high by 1e-100 to 1e100; got {low:g} and {high:g}.")
    return low, high


def _public(error, name):
    """What an error says, if it is known to quote no data."""
    if isinstance(error, Refusal):
        return str(error)
    withheld = _WITHHELD.format(name, type(error).__name__)
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    # A cell, or a container of rows, may raise what begins as an error of a library that validates or converts it.
    if str(frame.f_globals.get("__name__")).partition(".")[0] not in _CONVERTERS:
        return withheld
    message = str(error)
    if missing := re.match(r"Input (\w+ )?contains NaN", message):  # what follows advises to learn from the rows
        return _MISSING if missing[1] == "X " else f"y contains NaN: {CURE_OF_LABELS}"
    if "NA is ambiguous" in message:
        return f"Missing cells are NA: make them nan in X; if they are in y, {CURE_OF_LABELS}"
    if message.startswith("Input should have at least 1 dimension"):  # and quotes it
        return "One number is given where there should be one for each row."
    if "convert string" in message or "bytes/strings" in message:
        return _TEXT.format(name)
    if message.startswith(_QUOTES):
        first = re.split("[:\\n]", message)[0]
        return first + _RESHAPE * first.startswith("Expected")
    if message.startswith("Found input variables with"):  # and with how many rows each
        return message.partition(":")[0] + _LENGTHS
    # Without columns, as the common checks of scikit-learn can read it.
    message = _SHAPE.sub(lambda shape: "(, 0)" if shape[0].endswith(", 0)") else "(n_samples, ...)", message)
    return message if _SAFE.match(message) or message == TIMES.format(name) else withheld


TELLS_NOBODY = ContextVar("tells_nobody", default=False)  # filters of warnings are those of all threads


def warn_at_caller(message, category):
    """Warn at the line that called into this library, through scikit-learn or not; in a thread, at its start."""
    if TELLS_NOBODY.get():
        return
    frame = sys._getframe(1)
    # A pipeline or a search lies between, and a count of frames to go up would differ with it.
    while str(frame.f_globals.get("__name__")).partition(".")[0] in _MACHINERY and frame.f_back:
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
