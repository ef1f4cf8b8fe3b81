"""Steps that are known to treat each row by itself and to learn nothing: which they are, and which one it is."""

import hashlib
import pickle
from collections.abc import Mapping
from numbers import Real
from types import FunctionType

import numpy as np
import scipy.sparse as sp
from sklearn.compose import make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from ..preprocessing import PublicScaler

_PROJECTIONS = (GaussianRandomProjection, SparseRandomProjection)
# Whatever their parameters are. A class is known by its exact type: a subclass may fit what it likes.
_ROW_BY_ROW = (
    *_PROJECTIONS,
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    FunctionTransformer,
    HashingVectorizer,
    Normalizer,
    PolynomialFeatures,
)
_TRUST = {
    FunctionTransformer: "is trusted to treat each row by itself",
    PublicScaler: "its bounds are trusted to be public",
}
_SAFER_UNKNOWN = {OneHotEncoder: "ignore", OrdinalEncoder: "use_encoded_value"}
_NOT_THE_MAP = ("copy", "n_jobs", "verbose")  # parameters that change nothing of what comes out


def is_data_independent(estimator):
    """Whether an estimator is a map that was not fitted on the rows; subclasses may fit what they like."""
    kind = type(estimator)
    return (
        kind in _ROW_BY_ROW
        # Fitted, it scales as its attributes say, which may have been set to what was read off the rows.
        or (kind is PublicScaler and (not hasattr(estimator, "bounds_") or estimator._matches_parameters()))
        or (kind is SimpleImputer and _fills_with_a_constant(estimator))
        or (kind in _SAFER_UNKNOWN and _encodes_given_categories(estimator))
    )


def chooses_by_name(columns):
    """Whether columns are chosen without a look at the rows: one missing value may change the type of its column."""
    if type(columns) is make_column_selector:
        return columns.dtype_include is None and columns.dtype_exclude is None
    return not callable(columns)


def varies_in_zeros(estimator):
    """Whether a step may give sparse rows that have as many entries as the values say; most do of sparse rows."""
    if type(estimator) is OneHotEncoder:
        return estimator.sparse_output and (estimator.handle_unknown != "error" or estimator.drop is not None)
    return type(estimator) not in (OrdinalEncoder, GaussianRandomProjection) and estimator != "drop"


def remark_on(estimator):
    """Say what is trusted of a data-independent step, or how it may still show a value."""
    kind = type(estimator)
    if kind in _SAFER_UNKNOWN and estimator.handle_unknown == "error":
        drop = ", drop=None" if getattr(estimator, "drop", None) is not None else ""
        return f"its errors quote unknown values: use handle_unknown={_SAFER_UNKNOWN[kind]!r}{drop}"
    if kind is OneHotEncoder and (estimator.handle_unknown == "warn" or estimator.drop is not None):
        return 'it warns of unknown values: use handle_unknown="ignore", drop=None'
    if kind is Normalizer and estimator.norm != "max":
        return "learns nothing from the rows; it warns of an overflow where numbers are beyond 1e154"
    checks_inverse = kind is FunctionTransformer and estimator.check_inverse and estimator.inverse_func is not None
    if checks_inverse and estimator.func is not None:
        return f"{_TRUST[kind]}; it warns of rows that inverse_func does not give back: set check_inverse=False"
    return _TRUST.get(kind, "learns nothing from the rows")


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
    if not hasattr(encoder, "categories_"):
        return True
    # Parameters may have been set since the fit, in which it learned them from the rows.
    if getattr(encoder, "_infrequent_enabled", False) or len(encoder.categories) != len(encoder.categories_):
        return False
    return all(
        len(listed) == len(fitted) and all(map(_is_among, fitted, ({value} for value in listed)))
        for listed, fitted in zip(encoder.categories, encoder.categories_, strict=True)
    )


def _is_among(value, expected):
    """Whether a value is one of those expected; nan is equal to itself here."""
    return value in expected or (value != value and any(one != one for one in expected))


def map_label(name, thing):
    """Name a transformer, and by a digest what it does: those that do different things have different labels.

    A random projection that is not fitted raises ValueError, as nothing says which it will be.
    """
    return f"{name} ({hashlib.sha256(_spelled(thing).encode()).hexdigest()[:12]})"


def _spelled(thing):
    """Write out a value, so that equal texts mean equal values."""
    if hasattr(thing, "get_params"):
        return f"{type(thing).__module__}.{type(thing).__qualname__}{_spelled(_what_it_does(thing))}"
    if isinstance(thing, Mapping):
        return f"{{{sorted((_spelled(name), _spelled(value)) for name, value in thing.items())}}}"
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        if thing.size < 10_000:  # as the list of the same numbers is
            return _spelled(thing.tolist())
        return f"{thing.shape}{thing.dtype.str}" + hashlib.sha256(np.ascontiguousarray(thing)).hexdigest()
    if isinstance(thing, list | tuple | np.ndarray):
        return f"[{','.join(map(_spelled, thing))}]"
    if isinstance(thing, FunctionType):
        return _spelled_function(thing)
    return repr(float(thing)) if isinstance(thing, Real) and abs(thing) < 2**53 else _spelled_other(thing)


def _what_it_does(estimator):
    """Parameters that make a map what it is, or what it has drawn."""
    if type(estimator) in _PROJECTIONS:
        if not hasattr(estimator, "components_"):
            raise ValueError("Which random projection it is depends on its fit.")
        components = estimator.components_
        return [components.data, components.indices, components.indptr] if sp.issparse(components) else components
    parameters = estimator.get_params(deep=False)
    if "transformer_weights" in parameters:  # the branches are maps of their own
        columns = [columns for *_, columns in parameters.get("transformers", [])]
        return [parameters["transformer_weights"], columns]
    return {name: value for name, value in parameters.items() if name not in _NOT_THE_MAP}


def _spelled_function(function):
    """Write out a function by its place, its code and what it has captured."""
    code = function.__code__
    captured = [cell.cell_contents for cell in function.__closure__ or ()]
    facts = [code.co_filename, code.co_firstlineno, code.co_code.hex(), code.co_names, code.co_consts, captured]
    return f"{function.__module__}.{function.__qualname__}{_spelled([*facts, function.__defaults__])}"


def _spelled_other(thing):
    if thing is None or isinstance(thing, str | bytes | Real | type):
        return repr(thing)
    try:
        return pickle.dumps(thing, protocol=4).hex()
    except (pickle.PicklingError, TypeError, AttributeError):
        return repr(thing)
