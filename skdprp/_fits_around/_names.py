"""Names of fits, and of the steps of a pipeline: equal names are steps that do the same to rows."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import blake2b, sha256
from numbers import Number

import numpy as np

_STATED = ("guarantee_", "claimed_")
_STATED_OF_OTHERS = ("definition", "unit", "adjacency", "epsilon", "delta", "loss")  # all that they are told apart by
_PLAIN = {str, bytes, bool, int, float, complex, type(None), np.str_, np.float64, np.float32, np.int64}
_FITTED_IN_PLACE = {"Pipeline": "steps", "FeatureUnion": "transformer_list", "FrozenEstimator": "estimator"}
_NO_SETTINGS = ("n_jobs", "verbose")  # parameters that change nothing of what a step does to rows
_MOST_IN_A_SETTING = 100  # of more, a name tells how many they are


def names_of_steps(steps):
    """Names of steps of a pipeline, in pipelines within it as well: of private ones those of their fits.

    Of others their class, their parameters, and the names of what they consist of.
    """
    return [name for step in steps for name in _names_of_step(step)]


def _names_of_step(step):
    if step is None or type(step) is str:
        return [step or "passthrough"]
    if private := _name_of(step):
        return private
    package, kind = type(step).__module__.partition(".")[0], type(step).__name__
    name = "".join((kind if package == "sklearn" else f"{package}.{kind}").split())
    if name == "FunctionTransformer" and step.func is None:  # which a fit puts in the place of the word
        return ["passthrough"]
    if name == "Pipeline":
        return names_of_steps(member for _, member in step.steps)
    if name == "FrozenEstimator":
        return names_of_steps([step.estimator])
    if name in ("FeatureUnion", "ColumnTransformer"):
        members = step.transformer_list if name == "FeatureUnion" else branches_of_columns(step)
        within = ["+".join(names_of_steps([member])) for _, member in members]
        indices = getattr(step, "_transformer_to_input_indices", {})
        settings = [step.transformer_weights, *(indices.get(branch) for branch, _ in members)]
    else:
        within, settings = sorted(names_of_fits([step])), _settings_of(step)
    name += f":{_digest(_setting(settings))[:8]}" if settings else ""
    return [f"{name}({','.join(within)})" if within else name]


def _settings_of(step, depth=5):
    """Parameters of a step by which two of one class differ in what they do to rows."""
    with suppress(Exception):
        known = step.get_params(deep=False)
        return [[name, _setting(known[name], depth)] for name in sorted(known) if name not in _NO_SETTINGS]
    return []


def _setting(value, depth=5):
    """What is told of a parameter: the same before and after a fit, and in all processes."""
    kind = type(value)
    if kind in _PLAIN:
        return str(value)
    name, parts = kind.__qualname__, []
    if hasattr(value, "__qualname__"):  # of a function, or a class
        name = f"{value.__module__}.{value.__qualname__}"
    base = next((base for base in (list, tuple, dict) if issubclass(kind, base)), None)
    if not depth:
        return name
    if base is not None:
        n = base.__len__(value)
        parts = [n, *(base.items(value) if base is dict else base.__iter__(value))] if n <= _MOST_IN_A_SETTING else [n]
    elif kind is np.ndarray and value.dtype != object:
        parts = [value.dtype.str, value.shape, sha256(np.ascontiguousarray(value)).digest()]
    elif kind is partial:
        parts = [value.func, value.args, value.keywords]
    elif hasattr(kind, "get_params"):
        return [name, *_settings_of(value, depth - 1)]
    elif "<lambda>" in name:
        parts = [value.__code__.co_code, value.__code__.co_names, value.__code__.co_consts]
    return [name, *(_setting(part, depth - 1) for part in parts)]


def branches_of_columns(columns):
    """Names and members of a ColumnTransformer that its last fit gave some columns, and that do not drop them."""
    chosen, fitted = getattr(columns, "_transformer_to_input_indices", {}), getattr(columns, "transformers_", ())
    return [(name, one) for name, one, _ in fitted if len(chosen.get(name, ())) and not is_dropped(one)]


def is_dropped(step):
    """Whether it is the word by which a composite leaves columns out."""
    return type(step) is str and step == "drop"


def private_among(names):
    """Names of private fits within names of steps."""
    return set(re.findall("[0-9a-f]{32}", " ".join(names)))


def names_of_fits(steps):
    """Names of the fits of all private estimators among some, and of those that are fitted within them."""
    return [name for step in estimators_within(steps) for name in _name_of(step)]


def estimators_within(steps, *, is_frozen_too=True):
    """Yield all estimators among some things, and those that are fitted within them."""
    seen, left = set(), list(steps)
    while left:
        step = left.pop()
        if type(step) in _PLAIN or id(step) in seen:
            continue
        seen.add(id(step))
        kind = next((kind for kind in (list, tuple, dict) if issubclass(type(step), kind)), None)
        if kind is not None:  # of an object, which may be anything, nothing is asked
            left += dict.values(step) if kind is dict else kind.__iter__(step)
        elif hasattr(type(step), "fit"):
            yield step
            # Of parameters, clones are fitted: but those of a few composites are what was fitted.
            used = _FITTED_IN_PLACE.get(type(step).__name__) if is_frozen_too or not is_frozen(step) else None
            held = dict(getattr(step, "__dict__", {}))
            left += [value for name, value in held.items() if name == used or name.endswith("_")]


def is_frozen(step):
    """Whether fits leave an estimator as it was fitted before."""
    return type(step).__name__ == "FrozenEstimator"


def _name_of(step):
    """List the name of the last fit of an estimator, if it released something."""
    with suppress(Exception):
        if not is_frozen(step) and hasattr(stated := getattr(step, "guarantee_", None), "epsilon"):
            held = getattr(step, "__dict__", {})
            if named := held.get("_name_in_file") or held.get("_fit_name"):
                return [str(named)]
            # Those of a class of the user are told apart by what they state, and by the fits that they hold.
            facts = {fact: getattr(stated, fact, None) for fact in _STATED_OF_OTHERS}
            is_of_fit = getattr(stated, "per", None) == "fit"  # of the others, each transform may fit something
            within = estimators_within(held.values() if is_of_fit else ())
            fits = sorted(str(vars(one)["_fit_name"]) for one in within if "_fit_name" in vars(one))
            return [_digest([_numbers_of(facts, depth=8), fits])]
    return []


def name_of_fit(fitted):
    """Name of a fit that has just ended, which follows from what it has set, as all that is kept of it does."""
    known = {name: value for name, value in vars(fitted).items() if name.endswith("_") and name not in _STATED}
    stated = fitted.guarantee_.epsilon, fitted.guarantee_.delta
    return _digest([*stated, _numbers_of(known, depth=8)])


def _digest(facts):
    return blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def _numbers_of(value, depth):
    """Numbers and texts of a value, in order."""
    if type(value) in _PLAIN:  # mostly, and then fast
        return str(value)
    if isinstance(value, np.ndarray):
        is_plain = value.dtype != object
        value = (value.shape, sha256(np.ascontiguousarray(value)).hexdigest()) if is_plain else value.tolist()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name, None) for field in fields(value) if field.name != "guarantee"}
    if isinstance(value, Mapping):
        value = [(str(name), value[name]) for name in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [_numbers_of(one, depth - 1) for one in value] if depth else []
    return str(value) if isinstance(value, str | Number | np.generic) else ""
