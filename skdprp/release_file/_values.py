"""Values of fitted estimators as JSON and arrays, and back: nothing is looked up by what a file says."""

import json
from collections import UserList
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from sklearn import compose, feature_selection, frozen, impute, model_selection, multiclass, multioutput, pipeline
from sklearn import decomposition as bases
from sklearn import preprocessing as of_scikit_learn
from sklearn.base import clone
from sklearn.utils import Bunch

from .. import decomposition, linear_model, moments, neural_network, preprocessing
from .._validation import is_estimator
from ..guarantee import PrivacyGuarantee
from ..histograms import CategoryCounts, DPHistograms, Histograms, NumberHistogram
from ..histograms._cells import Cells
from ..histograms._columns import Listed, Numbers, Unlisted
from ..mechanisms.published import Published
from ..model_selection import DPSearchCV
from ..model_selection._search import without_earlier_fits
from ..preprocessing._table import TableColumns
from ..report._structure import COMPOSITES, all_held, lets_pass, parts

_ESTIMATORS = (
    *(linear_model.AMPClassifier, linear_model.DPRidge, linear_model.MIDPRegressor),
    *(linear_model.ProductNoiseOutputPerturbation, neural_network.DPSGDClassifier, decomposition.DPPCA),
    *(moments.DPMoments, DPHistograms, DPSearchCV, preprocessing.DPBinner, preprocessing.DPScaler),
    *(preprocessing.PublicBinner, preprocessing.PublicScaler, TableColumns),
    *(pipeline.Pipeline, pipeline.FeatureUnion, compose.ColumnTransformer, frozen.FrozenEstimator),
    *(multiclass.OneVsRestClassifier, multioutput.MultiOutputClassifier, multioutput.MultiOutputRegressor),
    *(model_selection.FixedThresholdClassifier, impute.SimpleImputer),
    *(of_scikit_learn.Binarizer, of_scikit_learn.LabelBinarizer, of_scikit_learn.LabelEncoder),
    *(of_scikit_learn.MaxAbsScaler, of_scikit_learn.MinMaxScaler, of_scikit_learn.Normalizer),
    *(of_scikit_learn.OneHotEncoder, of_scikit_learn.OrdinalEncoder, of_scikit_learn.PolynomialFeatures),
    *(of_scikit_learn.RobustScaler, of_scikit_learn.StandardScaler, of_scikit_learn.QuantileTransformer),
    *(of_scikit_learn.PowerTransformer, of_scikit_learn.KBinsDiscretizer, of_scikit_learn.FunctionTransformer),
    *(bases.PCA, bases.TruncatedSVD, feature_selection.VarianceThreshold),
)
_RECORDS = (
    *(CategoryCounts, Cells, Histograms, Listed, NumberHistogram, Numbers, Published, Unlisted),
    *(moments.Columns, moments.GaussianNoise, moments.Moments),
)
_TYPES = (bool, int, float, str, np.float64, np.float32, np.int64, np.int32, np.uint8)
_PLAIN_ARRAYS = "biufUS"
_LEFT_OUT = ("_sklearn_output_config", "_skl_callbacks")  # which are for whoever set them


@dataclass(frozen=True)
class _Kind:
    """One kind of values: whether a value is one, what it is made of, and how it is made of that."""

    holds: Callable
    parts: Callable
    make: Callable


def _of(*types):
    return lambda value: type(value) in types


def _named(classes):
    return {kind.__name__: kind for kind in classes}


def _make_record(parts):
    name, facts = parts
    return _named(_RECORDS)[name](**facts)


def _held_by(estimator):
    """Parameters and fitted attributes, without what estimators had learnt that the last fit did not fit."""
    held = {name: value for name, value in vars(estimator).items() if name not in _LEFT_OUT}
    if type(estimator) is DPSearchCV:
        return without_earlier_fits(held)
    if type(estimator) not in COMPOSITES:
        return held
    fitted = {id(part) for _, part in parts(estimator)}
    if type(estimator) is compose.ColumnTransformer:
        # Of what is frozen and was given no column no clone is made, and no report speaks of it.
        reached = {name for name, _ in parts(estimator)}
        for name, step, *_ in [*estimator.transformers, ("remainder", estimator.remainder)]:
            is_held = name not in reached and is_estimator(step)
            if is_held and any(type(one) is frozen.FrozenEstimator for _, one in all_held(step, "", seen=set())):
                raise ValueError(f"{name} is frozen and was given no column, and a file would hold it: leave it out.")
    # A ColumnTransformer keeps what it was given in attributes, too; all else that others keep is of the last fit.
    names = held if type(estimator) is compose.ColumnTransformer else estimator.get_params(deep=False)
    return held | {name: _unless_fitted(held[name], fitted) for name in names if name in held}


def _unless_fitted(value, fitted):
    """A value with clones of all estimators in it but those of some ids, and functions that let columns pass."""
    if type(value) is dict:
        return {name: _unless_fitted(one, fitted) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_unless_fitted(one, fitted) for one in value)
    is_kept = not is_estimator(value) or id(value) in fitted or lets_pass(value)
    return value if is_kept else clone(value)


def _make_estimator(parts):
    """An estimator with its parameters and fitted attributes, none of which stands for a method of it."""
    name, held = parts
    kind = _named(_ESTIMATORS)[name]
    if type(held) is not dict:
        raise TypeError("parameters and attributes have names.")
    parameters = {name: held.pop(name) for name in kind._get_param_names() if name in held}
    estimator = kind(**parameters)
    for name in held:
        if not name.isidentifier() or name.startswith("__") or hasattr(kind, name):
            raise ValueError(f"{name} is no fitted attribute of {kind.__name__}.")
    vars(estimator).update(held)
    if hasattr(kind, "_parameter_constraints"):
        estimator._validate_params()
    return estimator


def _make_objects(parts):
    shape, values = parts
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects.reshape(shape)


_KINDS = {
    "float": _Kind(_of(float), str, float),  # which is not finite
    "tuple": _Kind(_of(tuple), list, tuple),
    "dict": _Kind(_of(dict), lambda value: [list(pair) for pair in value.items()], dict),
    "Bunch": _Kind(_of(Bunch), dict, lambda parts: Bunch(**parts)),
    "bytes": _Kind(_of(bytes), bytes.hex, bytes.fromhex),
    "slice": _Kind(_of(slice), lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    "range": _Kind(_of(range), lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    "type": _Kind(
        lambda value: isinstance(value, type) and value in _TYPES,
        lambda value: value.__name__,
        _named(_TYPES).__getitem__,
    ),
    "scalar": _Kind(lambda value: isinstance(value, np.generic), np.asarray, lambda parts: parts[()]),
    "dtype": _Kind(  # of plain numbers and texts, as an imputer keeps it
        lambda value: isinstance(value, np.dtype) and value.kind in _PLAIN_ARRAYS,
        lambda value: value.str,
        np.dtype,
    ),
    "objects": _Kind(
        lambda value: isinstance(value, np.ndarray) and value.dtype == object,
        lambda value: [list(value.shape), value.ravel().tolist()],
        _make_objects,
    ),
    "guarantee": _Kind(
        _of(PrivacyGuarantee),
        lambda value: json.dumps(value.to_dict(), allow_nan=False),
        lambda parts: PrivacyGuarantee.from_dict(json.loads(parts)),
    ),
    "record": _Kind(
        _of(*_RECORDS),
        lambda value: [type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}],
        _make_record,
    ),
    "estimator": _Kind(
        _of(*_ESTIMATORS),
        lambda value: [type(value).__name__, _held_by(value)],
        _make_estimator,
    ),
}


def described(value, arrays):
    """A value for JSON: plain ones and lists as they are, of others the kind and the parts; arrays are put aside.

    Raises
    ------
    TypeError
        If there is no such kind, as of functions and of estimators of other libraries.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and np.isfinite(value)):
        return value
    if type(value) is list:
        return [described(one, arrays) for one in value]
    if isinstance(value, UserList):  # before scikit-learn 1.7, of columns that none of the transformers takes
        return described(value.data, arrays)
    if isinstance(value, np.ndarray) and value.dtype.kind in _PLAIN_ARRAYS:
        name = f"array_{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    for name, kind in _KINDS.items():
        if kind.holds(value):
            return {name: described(kind.parts(value), arrays)}
    dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""  # and no cell, which a step may have learnt
    kind = f"{type(value).__name__}{dtype}"
    raise TypeError(f"A file of a model has no room for {kind}: save what follows it alone, such as model[-1].")


def restored(value, arrays):
    """The value that was described; arrays are taken out of `arrays`."""
    if isinstance(value, list):
        return [restored(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = value.items()
    return arrays.pop(parts) if kind == "array" else _KINDS[kind].make(restored(parts, arrays))
