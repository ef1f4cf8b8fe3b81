"""What the estimators ask of parameters and data, and the only import of scikit-learn's semi-private validators."""

import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache, wraps
from io import BytesIO
from numbers import Integral, Real
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from sklearn import base, config_context
from sklearn.utils import _param_validation, validation
from sklearn.utils._param_validation import HasMethods, Options, StrOptions

from . import _open_ledgers
from ._digits import to_python
from ._errors import TEXT, TIMES, silent, warn_at_caller, without_values
from ._lazy import computed, is_lazy
from ._rows import canonical_csr

__all__ = [
    "FLOATS",
    "POSITIVE",
    "PRIVACY_CONSTRAINTS",
    "SKETCH_CONSTRAINTS",
    "HasMethods",
    "Interval",
    "Options",
    "PythonNumbersMixin",
    "StrOptions",
    "UncachedMixin",
    "_fit_context",
    "check_collected",
    "dense_frame",
    "in_order",
    "is_frame",
    "low_and_high",
    "own_copy",
    "validate_array",
    "validate_data",
    "validate_schema",
]


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

    @classmethod
    @cache
    def _param_names_of_constructors(cls):
        """Names of the parameters of all constructors: a child may set some that its own does not take."""
        names = set(cls._get_param_names())
        for kind in cls.__mro__:
            if issubclass(kind, PythonNumbersMixin) and "__init__" in vars(kind):
                with suppress(RuntimeError):  # scikit-learn takes no *args, which name none
                    names.update(kind._get_param_names())
        return names

    def _parameters_held(self):
        """Parameters of all constructors, as they are in the object or, where none has set them, in its class."""
        return {name: getattr(self, name) for name in self._param_names_of_constructors() if hasattr(self, name)}

    def _validate_params(self):
        """Check parameters as scikit-learn does, and those that only the constructor of a base class takes."""
        known = self.get_params(deep=False) | self._parameters_held()
        constraints = type(self)._parameter_constraints  # an object might hold some of its own
        _param_validation.validate_parameter_constraints(constraints, known, type(self).__name__)

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
        carried = {"_unlike_any_other": uuid4().hex, "_open_ledgers": list(_open_ledgers.open_journals())}
        return super().__getstate__() | carried

    def __setstate__(self, state):
        _open_ledgers.adopt(state.get("_open_ledgers", ()))
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


_MASKED = "Data has masked cells: fill them by nan, or by constants that do not come from the data."
_MOST_NAMES = 10  # that an error lists


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
            if str(error) != TEXT.format("X") or not is_frame(X):
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
