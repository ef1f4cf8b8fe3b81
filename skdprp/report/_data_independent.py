"""Steps that are known to treat each row by itself and to learn nothing: which they are, and which one it is."""

import builtins
import hashlib
import io
import marshal
import pickle
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from numbers import Number
from operator import attrgetter
from types import CellType, CodeType, FunctionType
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from scipy import special
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from .._validation import is_estimator
from ..decomposition import DPPCA
from ..preprocessing import DPBinner, DPScaler, PublicBinner, PublicScaler
from ..preprocessing._table import TableColumns

# What each has drawn at random, and nothing else, makes it the map that it is.
_DRAWN = {
    GaussianRandomProjection: ("components_",),
    SparseRandomProjection: ("components_",),
    RBFSampler: ("random_weights_", "random_offset_"),
}
# Whatever their parameters are. A class is known by its exact type: a subclass may fit what it likes.
_ROW_BY_ROW = (
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    FunctionTransformer,
    HashingVectorizer,
    Normalizer,
    PolynomialFeatures,
)
# Of this library: their warnings and errors tell of no row.
PUBLIC = (PublicBinner, PublicScaler, TableColumns)
_PRIVATE = (DPBinner, DPPCA, DPScaler)  # whose fit is a release; what they transform has no zeros that vary
_TYPES_OF_COLUMNS = "the types that its columns come in, which a missing value may change, are trusted to be public"
_TRUST = {
    FeatureHasher: "trusted to be given rows, and no dataframe, whose columns it would take for rows",
    FunctionTransformer: "is trusted to treat each row by itself, and to publish nothing",
    OneHotEncoder: _TYPES_OF_COLUMNS,
    OrdinalEncoder: _TYPES_OF_COLUMNS,
    PublicBinner: "you state that its edges do not come from the rows",
    PublicScaler: "you state that its bounds do not come from the rows",
    # Small integers of polars are float32 with a missing value, and int8 without: noise may depend on the type.
    SimpleImputer: "the types of numbers that it gives, which a missing value may change, are trusted to be public",
}
_PROJECTIONS = (GaussianRandomProjection, SparseRandomProjection)
_CALLED = ("analyzer", "preprocessor", "tokenizer")  # of a HashingVectorizer, which may be functions
_SAFER_UNKNOWN = {OneHotEncoder: "ignore", OrdinalEncoder: "use_encoded_value"}
# Parameters of fillna; and of universal functions and clip, which leave the other cells as memory has them.
_FROM_OTHER_ROWS = ("limit", "method", "where")
_NOT_THE_MAP = ("copy", "n_jobs", "verbose")  # parameters that change nothing of what comes out
# What their functions and classes do follows from their names; all others may be defined anew under the same name, and
# functions may do what a file says.
_LIBRARIES = ("builtins", "functools", "math", "numpy", "operator", "pandas", "re", "scipy", "skdprp", "sklearn")
# Functions of libraries that make each cell, or row, of itself, beside universal functions. All others may look at all
# rows, or do along an axis what depends on the type of all: one missing cell may change how numpy sums or sorts.
_OF_EACH_ROW = {
    "builtins": {"abs", "round"},
    "numpy": {
        *("angle", "around", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "astype", "clip"),
        *("copy", "fix", "i0", "imag", "nan_to_num", "real", "round", "sinc"),
    },
    "operator": {"abs", "neg", "pos"},
    "pandas": {"abs", "clip", "copy", "fillna", "isna", "isnull", "notna", "notnull", "round"},
    "scipy": {"csc_array", "csc_matrix", "csr_array", "csr_matrix"},
    "sklearn": {"add_dummy_feature", "binarize", "normalize"},
}
# Labels of what cannot be written out, by its id; with it, as an id is free for another thing once its own is gone.
OWN_LABELS = ContextVar("own_labels")


class TakenFromRows(int):
    """A number that a step of a plan has in the place of a word, for what it would take from the number of rows."""


def is_data_independent(estimator):
    """Whether an estimator is a map that was not fitted on the rows; subclasses may fit what they like."""
    kind = type(estimator)
    if kind in _ROW_BY_ROW:
        return not (kind is FunctionTransformer and _may_look_at_all_rows(estimator))
    # Fitted, the others do as their attributes say, which may have been set to what was read off the rows.
    if kind in PUBLIC:
        try:
            return estimator._matches_parameters()
        except ValueError:  # the parameters have been changed to nonsense
            return False
    if kind is RBFSampler:
        return estimator.gamma != "scale" and getattr(estimator, "_gamma", estimator.gamma) == estimator.gamma
    if kind in _PROJECTIONS:  # "auto" takes the width from the number of rows
        width = estimator.n_components
        return width == getattr(estimator, "n_components_", width) != "auto" and not isinstance(width, TakenFromRows)
    return (
        (kind is SplineTransformer and _has_given_knots(estimator))
        or (kind is SimpleImputer and _fills_with_a_constant(estimator))
        or (kind in _SAFER_UNKNOWN and _encodes_given_categories(estimator))
    )


def writes_into_rows(estimator):
    """Whether a step may write what it makes over the rows that it is given, as its arguments say.

    So do those of functions that it calls, and of the candidates that it chooses from.
    """
    known = list(estimator.get_params(deep=False).items()) if is_estimator(estimator) else []
    for _, value in known:  # grows by what is listed in a parameter: keywords, and grids of parameters
        for one in value if isinstance(value, list | tuple) else [value]:
            while isinstance(one, partial):
                known += one.keywords.items()
                one = one.func
            known += one.items() if isinstance(one, Mapping) else ()
    for name, value in known:
        name, listed = str(name).rpartition("__")[2], value if isinstance(value, list | tuple | np.ndarray) else [value]
        if name == "out" and any(one is not None for one in listed):
            return True
        flags = [bool(one) for one in listed if isinstance(one, bool | np.bool_ | int)]
        if (name.startswith("copy") and not all(flags)) or (name.startswith(("overwrite", "inplace")) and any(flags)):
            return True
    return False


def checks_inverse(estimator):
    """Whether a step passes rows through its function once more, to see if another one gives them back."""
    if type(estimator) is not FunctionTransformer or estimator.func is None:
        return False
    return estimator.check_inverse and estimator.inverse_func is not None


def chooses_by_name(columns, *, are_public):
    """Whether columns are chosen without a look at the rows: one missing value may change the type of its column.

    Where names are not public, noise may have chosen them: then their number must not depend on what they are.
    """
    if not are_public and isinstance(columns, slice):
        return not any(isinstance(end, str) for end in (columns.start, columns.stop))
    if type(columns) is make_column_selector:
        return are_public and columns.dtype_include is None and columns.dtype_exclude is None
    return not callable(columns)


def varies_in_zeros(estimator):
    """Whether a step may give sparse rows that have as many entries as the values say; most do of sparse rows."""
    if type(estimator) is OneHotEncoder:
        return estimator.sparse_output and (estimator.handle_unknown != "error" or estimator.drop is not None)
    if type(estimator) is SplineTransformer:
        return estimator.sparse_output
    is_even = type(estimator) in (OrdinalEncoder, GaussianRandomProjection, RBFSampler, PublicBinner, *_PRIVATE)
    return not is_even and estimator != "drop"


def has_zeros(estimator):
    """Whether a step gives sparse rows of which each has a zero, whatever its values are."""
    if type(estimator) is not OneHotEncoder or isinstance(estimator.categories, str) or not estimator.sparse_output:
        return False
    is_whole = (estimator.drop, estimator.min_frequency, estimator.max_categories) == (None, None, None)
    return is_whole and any(len(listed) > 1 for listed in estimator.categories)


def remark_on(estimator):
    """Say what is trusted of a data-independent step, or how it may still show a value."""
    kind = type(estimator)
    if kind in _SAFER_UNKNOWN and estimator.handle_unknown == "error":
        drop = ", drop=None" if getattr(estimator, "drop", None) is not None else ""
        return f"its errors quote unknown values: use handle_unknown={_SAFER_UNKNOWN[kind]!r}{drop}"
    if kind is OneHotEncoder and (estimator.handle_unknown == "warn" or estimator.drop is not None):
        return 'it warns of unknown values: use handle_unknown="ignore", drop=None'
    if any(callable(getattr(estimator, name, None)) for name in _CALLED):
        return _TRUST[FunctionTransformer]
    if checks_inverse(estimator):
        return f"{_TRUST[kind]}; it warns of rows that inverse_func does not give back: set check_inverse=False"
    return _TRUST.get(kind, "learns nothing from the rows")


def _may_look_at_all_rows(transformer):
    """Whether a function is one of a library that is not known to make each row of that row alone."""
    function, known = transformer.func, transformer.kw_args or {}
    while type(function) is partial and not function.args:
        function, known = function.func, function.keywords | known
    # A method without a module is of the library of the class or object that it is of.
    owners = function, getattr(function, "__objclass__", None), getattr(function, "__self__", None), type(function)
    modules = (getattr(one, "__module__", None) for one in owners)
    library = next((module.partition(".")[0] for module in modules if isinstance(module, str)), "")
    # Own functions are trusted, and the report says so; of this library, a report asks what they hold.
    if function is None or library not in _LIBRARIES or library == "skdprp":
        return False
    if type(function) is np.vectorize:  # which takes the type of all rows from the first one, unless it is told
        return function.otypes is None or function.signature is not None or bool(function.excluded)
    if "axis" in known or not known.keys().isdisjoint(_FROM_OTHER_ROWS):
        return True
    is_of_cells = isinstance(function, np.ufunc) and function.signature is None and function.nout == 1
    return not is_of_cells and getattr(function, "__name__", "") not in _OF_EACH_ROW.get(library, ())


def _has_given_knots(splines):
    """Whether splines are told all knots, and were so when they were fitted."""
    if isinstance(splines.knots, str) or skips_missing(splines):
        return False
    if not hasattr(splines, "bsplines_"):
        return True
    try:  # from the parameters alone, which may have been changed since
        told = clone(splines).fit(np.zeros((2, splines.n_features_in_))).bsplines_
    except ValueError:
        return False
    return len(told) == len(splines.bsplines_) and all(map(_are_alike, told, splines.bsplines_))


def skips_missing(splines):
    """Whether splines take missing values, for which scikit-learn takes the least of a column if they are sparse."""
    return getattr(splines, "handle_missing", "error") != "error"


def _are_alike(spline, other):
    return spline.k == other.k and np.array_equal(spline.t, other.t) and np.array_equal(spline.c, other.c)


def calls_own_function(estimator):
    """Whether a data-independent step may call a function that is of no library."""
    if type(estimator) not in (FunctionTransformer, HashingVectorizer):
        return False
    return not all(map(_is_plain, estimator.get_params(deep=False).values()))


def is_handed_arrays(estimator):
    """Whether a function is called with arrays beside the rows, which may be of the same rows."""
    held = [getattr(estimator, name, None) or {} for name in ("kw_args", "inv_kw_args")]
    values = [value for one in held for value in one.values()]
    for name in ("func", "inverse_func"):
        function = getattr(estimator, name, None)
        while isinstance(function, partial):
            values += [*function.args, *function.keywords.values()]
            function = function.func
    return any(isinstance(value, list | tuple | dict) or hasattr(value, "shape") for value in values)


def _is_plain(value):
    """Whether a value is or holds no function, but those of libraries, and nothing that could hide one."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype != object and _is_of_library(value)
    if value is None or isinstance(value, str | bytes | Number):
        return _is_of_library(value)
    # A function of a library stands there under its own name: what wraps one, or is bound to one, may say so too.
    module = getattr(value, "__module__", None)
    places = (builtins, np, special) if module is None else (sys.modules.get(module),) * is_in_library(module)
    for place in places:  # universal functions and methods of builtin types name no module
        with suppress(AttributeError):
            if attrgetter(getattr(value, "__qualname__", value.__name__))(place) is value:
                return True
    return False


def _fills_with_a_constant(imputer):
    """Whether an imputer fills in what it is told, in every column, and was told so when it was fitted."""
    if imputer.strategy != "constant" or not imputer.keep_empty_features or imputer.add_indicator:
        return False
    # By default numbers are filled with 0 and texts with a word; what it fills in at transform are its statistics_.
    told = {0, "missing_value"} if imputer.fill_value is None else {imputer.fill_value}
    filled = getattr(imputer, "statistics_", [])
    return getattr(imputer, "indicator_", None) is None and all(_is_among(value, told) for value in filled)


def _encodes_given_categories(encoder):
    """Whether an encoder is told all categories, and counts none of them; and so it was when it was fitted."""
    if isinstance(encoder.categories, str) or encoder.min_frequency is not None or encoder.max_categories is not None:
        return False
    if lists_huge_numbers(encoder):
        return False
    if not hasattr(encoder, "categories_"):
        return True
    # Parameters may have been set since the fit, in which it learned them from the rows.
    if keeps_counts(encoder) or len(encoder.categories) != len(encoder.categories_):
        return False
    return all(
        len(listed) == len(fitted) and all(map(_is_among, fitted, ({value} for value in listed)))
        for listed, fitted in zip(encoder.categories, encoder.categories_, strict=True)
    )


def keeps_counts(encoder):
    """Whether an encoder has counted categories, in this fit or in one before, of which scikit-learn leaves them."""
    return getattr(encoder, "_infrequent_enabled", False) or hasattr(encoder, "_infrequent_indices")


def lists_huge_numbers(encoder):
    """Whether categories are numbers that some floats stand for together, so that other rows may say which it is."""
    values = (value for listed in encoder.categories for value in np.asarray(listed, dtype=object).flat)
    return any(isinstance(value, Number) and 2**53 <= abs(value) < np.inf for value in values)


def _is_among(value, expected):
    """Whether a value is one of those expected; nan is equal to itself here."""
    return value in expected or (value != value and any(one != one for one in expected))


def map_label(name, thing):
    """Name a transformer, and by a digest what it does: those that do different things have different labels.

    What cannot be written out in full, as a function that is of no library, has a label of its own, which is the same
    within one report only. A random projection that is not fitted raises ValueError, as nothing says which it will be.
    """
    return f"{name} (map {hashlib.sha256(_spelled(thing).encode()).hexdigest()[:12]})"


def _spelled(thing):
    """Write out a value, so that equal texts mean equal values."""
    if is_estimator(thing) and _is_of_library(thing):
        return f"{type(thing).__module__}.{type(thing).__qualname__}{_spelled(_what_it_does(thing))}"
    if type(thing) is dict:
        return f"{{{sorted((_spelled(name), _spelled(value)) for name, value in thing.items())}}}"
    if type(thing) is np.ndarray and thing.dtype != object:
        return f"{thing.shape}{thing.dtype!r}" + hashlib.sha256(np.ascontiguousarray(thing)).hexdigest()
    if type(thing) in (list, tuple, np.ndarray):
        return f"{type(thing).__name__}[{','.join(map(_spelled, thing))}]"
    # A mask [True, False] takes other columns than places [1, 0] do: equal numbers of two types are two values.
    return repr(thing) if type(thing) in (bool, int, float, str, bytes) else _pickled(thing)


def _what_it_does(estimator):
    """Parameters that make a map what it is, or what it has drawn."""
    if type(estimator) in _DRAWN:
        drawn = [getattr(estimator, name, None) for name in _DRAWN[type(estimator)]]
        if drawn[0] is None:
            raise ValueError("Which random projection it is depends on its fit.")
        return [[one.data, one.indices, one.indptr] if sp.issparse(one) else one for one in drawn]
    if type(estimator) is PublicScaler and estimator.__sklearn_is_fitted__():
        # As floats, whatever the parameters are.
        return [estimator.bounds_, estimator.feature_range_, estimator.fill_]
    if type(estimator) is PublicBinner and estimator.__sklearn_is_fitted__():
        return [estimator.bin_edges_, estimator._fitted_as]
    parameters = estimator.get_params(deep=False)
    if "transformer_weights" in parameters:  # the branches are maps of their own, but for "drop" and "passthrough"
        branches = parameters.get("transformers", parameters.get("transformer_list"))
        steps = [(name, _word(step), *columns) for name, step, *columns in branches]
        return [parameters["transformer_weights"], steps, _word(parameters.get("remainder"))]
    return {name: value for name, value in parameters.items() if name not in _NOT_THE_MAP}


def _word(step):
    return step if isinstance(step, str) else ""


class _Pickler(pickle.Pickler):
    """Writes out functions by what they do, and no class that may be defined anew under the same name."""

    def reducer_override(self, thing):
        """Write a function, or what it holds, by what it does, and anything else of no library by a label."""
        if isinstance(thing, FunctionType):
            # What one of no library does may depend on a file that it reads, or on what a name in a text is by now.
            if not is_in_library(thing.__globals__.get("__name__")):
                return str, (_own_label(thing),)
            facts = [thing.__code__, thing.__closure__, thing.__defaults__, thing.__kwdefaults__]
            return str, (f"{thing.__module__}.{thing.__qualname__}{_pickled(facts, owner=thing)}",)
        if isinstance(thing, CodeType):
            return str, (marshal.dumps(thing, 2).hex(),)  # later versions write equal code in several ways
        if isinstance(thing, CellType):
            return list, ([thing.cell_contents],)
        return NotImplemented if _is_of_library(thing) else (str, (_own_label(thing),))


def _pickled(thing, *, owner=None):
    written = io.BytesIO()
    try:
        with warnings.catch_warnings():  # of modules in which a function is looked for that names none
            warnings.simplefilter("ignore")
            _Pickler(written, protocol=4).dump(thing)
    except (pickle.PicklingError, AttributeError, RecursionError, TypeError, ValueError):
        return _own_label(thing if owner is None else owner)
    return hashlib.sha256(written.getvalue()).hexdigest()


def _own_label(thing):
    return OWN_LABELS.get({}).setdefault(id(thing), (uuid4().hex, thing))[0]


def _is_of_library(thing):
    """Whether a class or function, or the class of anything else, is one of a library."""
    return is_in_library((thing if hasattr(thing, "__qualname__") else type(thing)).__module__)


def is_in_library(module):
    """Whether a module, by its name, is of a library that is known here."""
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES
