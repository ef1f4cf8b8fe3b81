"""What is inside of an estimator, and whose class it is."""

import dis
import gc
import sys
from collections import UserList
from collections.abc import Mapping
from functools import cache, reduce
from numbers import Number
from pathlib import Path
from sysconfig import get_path
from types import CodeType, FunctionType, ModuleType
from weakref import ProxyTypes

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from .._calibration import marked
from .._validation import is_estimator
from ..guarantee import PrivacyGuarantee
from ._data_independent import is_in_library

_SAME_ROWS = (OneVsRestClassifier, MultiOutputClassifier, MultiOutputRegressor, VotingClassifier, VotingRegressor)
COMPOSITES = (Pipeline, FeatureUnion, ColumnTransformer, FixedThresholdClassifier, *_SAME_ROWS)
OWN_METHODS = "has methods that its class has not, and what they do to rows is not known: derive a class instead"
_PLAIN = (str, bytes, Number, np.ndarray, type, type(None))  # what holds no estimator of its own
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
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
        given = [(name, step) for name, step, columns in steps if not _selects_none(columns)]
        # A fit puts a transformer in the place of the word, which a candidate of a search still has.
        return [(name, "passthrough" if lets_pass(step) else step) for name, step in given]
    if kind is FixedThresholdClassifier:
        return [("estimator", getattr(estimator, "estimator_", estimator.estimator))]
    return list(enumerate(getattr(estimator, "estimators_", []))) if kind in _SAME_ROWS else []


def _selects_none(columns):
    """Whether a ColumnTransformer passes a step over, which it does where a mask is true for no column, too."""
    if isinstance(columns, UserList):  # of the remainder, before scikit-learn 1.7: it warns whoever looks into it
        return not len(columns)
    listed = columns.tolist() if hasattr(columns, "tolist") else columns
    return hasattr(listed, "__len__") and all(column is False for column in listed)


def lets_pass(step):
    """Whether a fit has put it in the place of the word that lets columns pass as they are."""
    return type(step) is FunctionTransformer and step.func is None and not has_own_methods(step)


def parts(estimator):
    """Names and estimators of what is inside, one after the other or side by side."""
    return estimator.steps if type(estimator) is Pipeline else branches(estimator)


def all_steps(estimator, path=""):
    """Yield the path, as in names of parameters, and the estimator of everything inside, and of itself."""
    for name, step in parts(estimator):
        yield from all_steps(step, f"{path}__{name}" if path else str(name))
    yield path, estimator


def stated_steps(estimator, *, frozen=None):
    """Yield all steps inside with a guarantee, as often as they stand there, and what they are frozen in, or None."""
    for _, step in all_steps(estimator):
        if type(step) is FrozenEstimator:
            yield from stated_steps(step.estimator, frozen=step.estimator)
        elif has_guarantee(step):
            yield step, frozen
        elif getattr(step, "best_estimator_", None) is not None:  # of a search, whose clones have what is frozen
            yield from stated_steps(step.best_estimator_, frozen=frozen)


def all_held(estimator, path, *, seen):
    """Yield the path and the estimator of all steps, and of all parameters: frozen ones, or fitted before."""
    if id(estimator) in seen:
        return
    seen.add(id(estimator))
    parameters = estimator.get_params(deep=False) if is_estimator(estimator) else {}
    in_parameters = [found for name, value in parameters.items() for found in _listed(name, value)]
    for name, part in [*parts(estimator), *in_parameters]:
        yield from all_held(part, f"{path}__{name}" if path else str(name), seen=seen)
    yield path, estimator


def _listed(path, value):
    """Yield the estimators in a value: in lists, in grids, and with the name and the columns of a transformer."""
    if is_estimator(value) and not isinstance(value, type):
        yield path, value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _listed(f"{path}__{name}", one)
    elif isinstance(value, list | tuple):
        is_named = isinstance(value, tuple) and value and isinstance(value[0], str)
        for one in value:
            yield from _listed(f"{path}__{value[0]}" if is_named else path, one)


def has_guarantee(estimator):
    """Whether an estimator states what it released; a frozen one only shows that of another."""
    stated = getattr(estimator, "guarantee_", None)
    return isinstance(stated, PrivacyGuarantee) and type(estimator) is not FrozenEstimator


def guarantee_shown(estimator):
    """Guarantee of an estimator with what audits have shown of it, and of all that it has found as a private search."""
    guarantee, best = estimator.guarantee_, getattr(estimator, "best_estimator_", None)
    if best is None or not is_of_library(estimator):
        return guarantee
    return reduce(marked, (step.guarantee_ for _, step in all_steps(best) if has_guarantee(step)), guarantee)


def won_otherwise(estimator):
    """Whether what a private search has found states something else than the search: it was fitted again, or set."""
    best = getattr(estimator, "best_estimator_", None)
    if best is None or not is_of_library(estimator):
        return False
    stated = [getattr(one, "_stated_guarantee", one.guarantee_) for _, one in all_steps(best) if has_guarantee(one)]
    return any(one != getattr(estimator, "_stated_guarantee", None) for one in stated)


def is_private(step):
    """Whether a step has a budget; of scikit-learn's, some have an epsilon that is none."""
    return hasattr(step, "epsilon") and not type(step).__module__.startswith("sklearn.")


def private_steps(estimator):
    """List everything with a budget that an estimator consists of, and itself."""
    return [step for _, step in all_steps(estimator) if is_private(step)]


def is_ensemble(estimator):
    """Whether an estimator fits clones of others to the same rows."""
    return type(estimator) in (FixedThresholdClassifier, *_SAME_ROWS)


def holds_private(estimator):
    """Whether parameters, attributes or functions of an estimator are, or hold, private estimators, at any depth."""
    held = _all_held_by(_held_by(estimator), seen={id(estimator): estimator})
    return any(has_guarantee(one) or is_of_library(one) for one in held)


def holds_own_code(estimator):
    """Whether parameters or attributes are, or hold, functions, classes or objects of no library, at any depth."""
    held = _all_held_by(_held_by(estimator), seen={id(estimator): estimator})
    return any(not _is_common(_module_of(one)) for one in held)


def _module_of(thing):
    """Name of the module that a function or a class, or the class of anything else, is of; "" for a weak proxy."""
    if isinstance(thing, FunctionType):
        return thing.__globals__.get("__name__")
    if type(thing) in ProxyTypes:  # which passes all that it is asked on to another object
        return ""
    return (thing if isinstance(thing, type) else type(thing)).__module__


def private_held_by(estimator):
    """List the fitted private estimators that parameters, attributes or functions of one are, or hold."""
    held = _all_held_by(_held_by(estimator), seen={id(estimator): estimator})
    return [one for one in held if has_guarantee(one)]


def fitted_before(estimator):
    """What parameters of an estimator are, or hold, that is fitted, or None: it clones those that it fits."""
    parameters = estimator.get_params(deep=False) if is_estimator(estimator) else vars(estimator)
    return fitted_among(parameters.values())


def fitted_among(things):
    """One of some things, or of what they hold at any depth, that is a fitted estimator; None if there is none."""
    return next(filter(_is_fitted, _all_held_by(list(things), seen={})), None)


def _is_fitted(thing):
    """Whether a thing is an estimator with attributes of a fit, as scikit-learn spells them, or says that it is one."""
    if not (is_estimator(thing) and hasattr(thing, "fit")):
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
        if _is_plain(one) or id(one) in seen:
            continue
        yield one
        seen[id(one)] = one
        found += _held_by(one)


def _is_plain(thing):
    """Whether a thing holds nothing; a number, text, array or class of the user may do anything to rows."""
    if isinstance(thing, np.ndarray) and thing.dtype.hasobject:
        return False
    return isinstance(thing, ModuleType) or (isinstance(thing, _PLAIN) and _is_common(_module_of(thing)))


def _held_by(thing):
    """List what an object with its class, a container, or a function or method refers to."""
    held = np.asarray(thing).ravel().tolist() if isinstance(thing, np.ndarray) else []  # which gc does not look into
    held += gc.get_referents(thing)  # in lists, closures, methods, partial functions and slots as well
    if not isinstance(thing, FunctionType):
        own = (kind for kind in type(thing).__mro__ if not _is_common(kind.__module__))
        return held + [value for kind in own for value in vars(kind).values()]
    held = [one for one in held if one is not thing.__globals__ and one is not thing.__builtins__]
    if _is_common(thing.__globals__.get("__name__")):
        return held
    return held + [one for code in _codes_in(thing.__code__) for one in _looked_up(code, thing.__globals__)]


def _is_common(module):
    """Whether a module, by its name, is of a library that holds no models of anybody."""
    package = str(module).partition(".")[0]
    if package not in sys.stdlib_module_names:
        return is_in_library(module)
    return _is_of_python(getattr(sys.modules.get(package), "__file__", None))  # a file of the user may hide it


@cache
def _is_of_python(file):
    """Whether a file is one of the standard library, or there is none, as of what is built in."""
    return file is None or (Path(file).is_relative_to(get_path("stdlib")) and "site-packages" not in file)


def _codes_in(code):
    """Yield the code of a function, and of functions, classes and generators within it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes_in(one)


def _looked_up(code, namespace):
    """List what code looks up: of all names of its module, those that it loads; of other modules, those it names."""
    steps = list(dis.get_instructions(code))
    found = [namespace[step.argval] for step in steps if step.opname in _LOADS and step.argval in namespace]
    found += [sys.modules.get(step.argval) for step in steps if step.opname == "IMPORT_NAME"]
    modules = {}
    for one in found:  # grows by what modules within modules are named
        if isinstance(one, ModuleType) and one.__name__ not in modules and not _is_common(one.__name__):
            modules[one.__name__] = one
            found += [vars(one)[name] for name in code.co_names if name in vars(one)]
    return found


def _library_class(kind):
    """First class of this library that a class derives from, if that is an estimator."""
    return next((one for one in kind.__mro__ if one.__module__.startswith("skdprp.") and hasattr(one, "fit")), None)


def _own_names(estimator):
    """Names that an estimator, its class and further bases of that add to what they have from this library."""
    kind = type(estimator)
    ours = _library_class(kind)
    names = {name for one in kind.__mro__ if one not in ours.__mro__ for name in vars(one)} - _RELEASES_NOTHING
    if type(kind) is not type(ours):  # which decides what a call of the class returns, as clones do
        names.add("metaclass")
    # scikit-learn puts methods for metadata routing into each class.
    added = {name for name in names if not (name.startswith("set_") and name.endswith("_request"))}
    return added | _own_methods(estimator)


def _own_methods(thing):
    """Names of what can be called in an object itself in the place of methods of its class.

    In an estimator also of what its class has not, and is neither a parameter nor from a fit: pipelines ask the object.
    """
    replaced = {name for name in vars(thing) if callable(getattr(type(thing), name, None))}
    if not is_estimator(thing):
        return replaced
    ours = _library_class(type(thing))  # of which a child's constructor may take methods as parameters
    parameters = thing.get_params(deep=False) if ours is None else ours._get_param_names()
    others = {name for name, value in vars(thing).items() if callable(value) and name not in parameters}
    return replaced | {name for name in others if not _is_of_fit(name)}


def _is_of_fit(name):
    """Whether an attribute is spelt as those that fits set: for others to read, or for the estimator alone."""
    return not name.startswith("__") and (name.endswith("_") or name.startswith("_"))


def has_own_methods(thing):
    """Whether an object, by itself, has methods besides those of its class, or in their place."""
    return bool(_own_methods(thing)) if hasattr(thing, "__dict__") else False


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
