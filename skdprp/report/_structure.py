"""What is inside of an estimator, and whose class it is."""

import gc
from numbers import Number
from types import FunctionType, ModuleType

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline

from ..guarantee import PrivacyGuarantee

_SAME_ROWS = (OneVsRestClassifier, MultiOutputClassifier, MultiOutputRegressor, VotingClassifier, VotingRegressor)
COMPOSITES = (Pipeline, FeatureUnion, ColumnTransformer, *_SAME_ROWS)
_PLAIN = (str, bytes, Number, type, ModuleType, type(None))  # what holds no estimator of its own
# What every class statement leaves in a class, whatever it defines.
_RELEASES_NOTHING = {
    "__init__",
    "__module__",
    "__qualname__",
    "__doc__",
    "__abstractmethods__",
    "__firstlineno__",
    "__static_attributes__",
    "_abc_impl",
    "_sklearn_auto_wrap_output_keys",
}


def branches(estimator):
    """Names and estimators of what sees the same rows side by side; fitted where `estimator` is."""
    kind = type(estimator)
    if kind is FeatureUnion:
        return estimator.transformer_list
    if kind is ColumnTransformer:
        unfitted = [*estimator.transformers, ("remainder", estimator.remainder, None)]
        steps = getattr(estimator, "transformers_", unfitted)
        return [(name, step) for name, step, columns in steps if np.size(columns) or isinstance(columns, slice)]
    return list(enumerate(getattr(estimator, "estimators_", []))) if kind in _SAME_ROWS else []


def parts(estimator):
    """Names and estimators of what is inside, one after the other or side by side."""
    return estimator.steps if type(estimator) is Pipeline else branches(estimator)


def all_steps(estimator, path=""):
    """Yield the path, as in names of parameters, and the estimator of everything inside, and of itself."""
    for name, step in parts(estimator):
        yield from all_steps(step, f"{path}__{name}" if path else str(name))
    yield path, estimator


def has_guarantee(estimator):
    """Whether an estimator states what it released; a frozen one only shows that of another."""
    stated = getattr(estimator, "guarantee_", None)
    return isinstance(stated, PrivacyGuarantee) and type(estimator) is not FrozenEstimator


def holds_private(estimator):
    """Whether parameters, attributes or functions of an estimator are, or hold, private estimators, at any depth."""
    held = _all_held_by(_held_by(estimator), seen={id(estimator): estimator})
    return any(has_guarantee(one) or is_of_library(one) for one in held)


def holds_fitted(estimator):
    """Whether parameters of an estimator are, or hold, estimators that are fitted: it clones those that it fits."""
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else vars(estimator)
    return any(map(_is_fitted, _all_held_by(list(parameters.values()), seen={})))


def _is_fitted(thing):
    """Whether a thing is an estimator with attributes of a fit, as scikit-learn spells them, or says that it is one."""
    if not (hasattr(thing, "fit") and hasattr(thing, "get_params")):
        return False
    if any(name.endswith("_") and not name.startswith("__") for name in getattr(thing, "__dict__", ())):
        return True
    # Those of scikit-learn that learn nothing are always fitted, by what they say.
    is_other = type(thing).__module__.partition(".")[0] not in ("sklearn", "skdprp")
    return is_other and hasattr(thing, "__sklearn_is_fitted__") and bool(thing.__sklearn_is_fitted__())


def _all_held_by(found, *, seen):
    """Yield what was found and what it refers to, at any depth."""
    while found:
        one = found.pop()
        if isinstance(one, _PLAIN) or id(one) in seen:
            continue
        yield one
        seen[id(one)] = one
        found += _held_by(one)


def _held_by(thing):
    """List what an object, a container, or a function or method refers to."""
    if isinstance(thing, np.ndarray):
        return thing.ravel().tolist() if thing.dtype == object else []
    held = gc.get_referents(thing)  # in lists, closures, methods, partial functions and slots as well
    if not isinstance(thing, FunctionType):
        return held
    # Of all names of its module, those that it looks up.
    looked_up = [thing.__globals__[name] for name in thing.__code__.co_names if name in thing.__globals__]
    return looked_up + [one for one in held if one is not thing.__globals__ and one is not thing.__builtins__]


def _library_class(kind):
    """First class of this library that a class derives from, if that is an estimator."""
    return next((one for one in kind.__mro__ if one.__module__.startswith("skdprp.") and hasattr(one, "fit")), None)


def _own_names(estimator):
    """Names that an estimator, its class and further bases of that add to what they have from this library."""
    kind = type(estimator)
    inherited = _library_class(kind).__mro__
    names = {name for one in kind.__mro__ if one not in inherited for name in vars(one)} - _RELEASES_NOTHING
    # scikit-learn puts methods for metadata routing into each class.
    added = {name for name in names if not (name.startswith("set_") and name.endswith("_request"))}
    return added | {name for name in vars(estimator) if callable(getattr(kind, name, None))}


def is_of_library(estimator):
    """Whether an estimator is a private one of this library, perhaps with another constructor."""
    # PublicScaler and PublicBinner are of this library, and not private.
    is_ours = hasattr(estimator, "epsilon") and _library_class(type(estimator)) is not None
    return is_ours and not _own_names(estimator)


def has_own_constructor(estimator):
    """Whether a private estimator of this library has another constructor."""
    kind = type(estimator)
    return kind.__init__ is not _library_class(kind).__init__


def may_release_more(estimator):
    """Whether an estimator inherits a guarantee of this library, and adds to what was proved to keep it."""
    is_private = hasattr(estimator, "epsilon") or has_guarantee(estimator)
    return is_private and _library_class(type(estimator)) is not None and bool(_own_names(estimator))
