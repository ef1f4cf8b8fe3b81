"""Fits of scikit-learn inside of which something is released: what reports need to know of them, and no result has."""

import re
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from hashlib import blake2b, sha256
from numbers import Number
from uuid import uuid4

import numpy as np
from sklearn import get_config

_FITS = ("fit", "fit_predict", "fit_transform")
_STATED = ("guarantee_", "claimed_")
_STATED_OF_OTHERS = ("definition", "unit", "adjacency", "epsilon", "delta", "loss")  # all that they are told apart by
NOBODY_KNOWS = "?"  # in the place of names, what an estimator is fitted behind in a worker
_PLAIN = {str, bytes, bool, int, float, complex, type(None), np.str_, np.float64, np.float32, np.int64}
_FITTED_IN_PLACE = {"Pipeline": "steps", "FeatureUnion": "transformer_list", "FrozenEstimator": "estimator"}
_NO_SETTINGS = ("n_jobs", "verbose")  # parameters that change nothing of what a step does to rows
_MOST_IN_A_SETTING = 100  # of more, a name tells how many they are

# Composites that fit clones of their members: a fit that is refused leaves members of an earlier one


def note_release():
    """Note in what is fitted around a release what reports have to know of the fit that its members are of."""
    for frame in _frames_of_fits():
        module, method = frame.f_globals.get("__name__"), frame.f_code.co_name
        with suppress(AttributeError):  # there are no labels, or no members, yet
            if module == "sklearn.multiclass" and method == "fit":
                (model,) = _variables(frame, "self")
                labels = model.label_binarizer_
                labels._name_of_labels = model._fit_of_labels = getattr(labels, "_name_of_labels", uuid4().hex)
                _note_earlier(model.estimators_)
            if module == "sklearn.compose._column_transformer" and method == "fit_transform":
                (columns,) = _variables(frame, "self")
                columns._width_of_fit = columns.n_features_in_
                columns._branches_of_fits = sorted({*_branches_of_fits(columns), *_branches_to_fit(columns)})
                _note_earlier([member for _, member, _ in columns.transformers_])


def _note_earlier(members):
    """Note that members are of an earlier fit than the one that goes on, if there are any."""
    for member in members:
        # Not "drop", nor what is frozen, of which a clone is the same object.
        if hasattr(type(member), "fit") and not _is_frozen(member):
            member._is_of_earlier_fit = True


def _has_earlier(members):
    return any("_is_of_earlier_fit" in getattr(member, "__dict__", ()) for member in members)


def _branches_to_fit(columns):
    """Names of the branches of a ColumnTransformer that the fit that goes on gives some columns."""
    steps = {name: step for name, step, _ in columns.transformers} | {"remainder": columns.remainder}
    chosen = columns._transformer_to_input_indices
    return {name for name, step in steps.items() if not _is_dropped(step) and len(chosen.get(name, ()))}


def _is_dropped(step):
    return type(step) is str and step == "drop"


def has_lost_branches(columns):
    """Whether some branch of a ColumnTransformer had columns in an earlier fit and has none now, or is dropped."""
    return bool({*_branches_of_fits(columns)} - {name for name, _ in branches_of_columns(columns)})


def _branches_of_fits(columns):
    return getattr(columns, "_branches_of_fits", [])


def has_width_of_members(columns):
    """Whether a ColumnTransformer has as many columns as in the fit that its members are of, as far as was noted."""
    members = [member for _, member, _ in columns.transformers_]
    is_noted = getattr(columns, "_width_of_fit", None) == columns.n_features_in_
    return is_noted and not _has_earlier(members)


def has_labels_of_members(model):
    """Whether a OneVsRestClassifier has the labels to which it fitted its members, as far as that was noted.

    A fit that is refused leaves its labels beside the members of an earlier one. Workers note nothing.
    """
    noted = getattr(model, "_fit_of_labels", None)
    has_others = noted is not None and noted != getattr(model.label_binarizer_, "_name_of_labels", None)
    return not has_others and not _has_earlier(model.estimators_)


# Pipelines


def note_fits_before():
    """Note of each object of a class of the user within whose fit something is released what it is fitted behind.

    Private estimators of this library do that themselves, as their fits begin. Composites of several consist of others,
    of which a refused fit leaves some as they were.
    """
    fits, is_whole = _fits_around()
    for i, (fitted, _) in enumerate(fits):
        if _is_of_users(fitted) or type(fitted).__name__ == "FixedThresholdClassifier":
            with suppress(Exception):  # it may refuse that, and nothing may fail beside a release
                fitted._fitted_behind = _behind(fits[i:], is_whole=is_whole)


def _is_of_users(fitted):
    is_of_sklearn = type(fitted).__module__.startswith("sklearn.")
    return not is_of_sklearn and not any(one.__module__.startswith("skdprp.") for one in type(fitted).__mro__)


def fits_before():
    """Names of the steps before the one whose fit begins, in all pipelines of scikit-learn around it."""
    fits, is_whole = _fits_around()
    return _behind(fits, is_whole=is_whole)


def _behind(fits, *, is_whole):
    return " ".join(name for _, names in reversed(fits) for name in names) if is_whole else NOBODY_KNOWS


def was_behind(estimator):
    """Names of the steps that an estimator was last fitted behind, or None if it notes none."""
    noted = getattr(estimator, "__dict__", {}).get("_fitted_behind")  # as some pass on what others have
    return None if noted is None else str(noted).split()


def private_among(names):
    """Names of private fits within names of steps."""
    return set(re.findall("[0-9a-f]{32}", " ".join(names)))


def holds_fits_behind_others(estimator, names):
    """Whether something within an estimator is known to have been fitted behind other steps than these in a row."""
    notes = [was_behind(one) for one in _estimators_within([estimator], is_frozen_too=False)]
    known = [note for note in notes if note not in (None, [NOBODY_KNOWS])]
    return not all(any(note[i : i + len(names)] == names for i in range(len(note) + 1)) for note in known)


def _fits_around():
    """List what is fitted around this, from within, each with the names of the steps before it in a pipeline.

    And say whether that is all: around a call that a composite has a worker make, the composite is not. Nor is anything
    around `fit_chunks`, for which there is no pipeline.
    """
    fits, before_last, has_chunks, is_whole = [], [], False, True
    for frame in _frames_of_fits():
        module, method = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        called = f"{module}.{frame.f_code.co_qualname}"
        has_chunks |= module.startswith("skdprp.") and method == "fit_chunks"
        if called == "sklearn.utils.parallel._FuncWrapper.__call__":
            is_whole = False
        elif called == "joblib.parallel.Parallel.__call__":  # which has the call made here, and not elsewhere
            is_whole = True
        elif module == "sklearn.pipeline" and method in (*_FITS, "_fit"):
            pipeline, place = _variables(frame, "self", "step_idx")
            if not hasattr(pipeline, "steps"):  # but is a FeatureUnion
                continue
            if method == "_fit":  # all steps but the last, for another of these methods
                before_last.append(pipeline)
            elif not any(pipeline is other for other in before_last):
                place = len(pipeline.steps) - 1
            if place is not None:
                *before, fitted = (step for _, step in pipeline.steps[: place + 1])
                fits.append((fitted, names_of_steps(before)))
        elif module.startswith("sklearn.") and method.startswith("_fit_"):  # a function that fits one member
            estimator, transformer = _variables(frame, "estimator", "transformer")
            if (fitted := transformer if estimator is None else estimator) is not None:
                fits.append((fitted, []))
        elif method in _FITS and frame.f_code.co_argcount:  # by hand, or of a winner
            (fitted,) = _variables(frame, frame.f_code.co_varnames[0])
            if hasattr(type(fitted), method) and _is_of_users(fitted):
                fits.append((fitted, []))
    return fits, is_whole and not has_chunks


def names_of_steps(steps):
    """Names of steps of a pipeline: of private ones those of their fits.

    Of others their class, their parameters, and the names of what they consist of.
    """
    return list(map(_name_of_step, steps))


def _name_of_step(step):
    if step is None or type(step) is str:
        return step or "passthrough"
    if private := _name_of(step):
        return private[0]
    package, kind = type(step).__module__.partition(".")[0], type(step).__name__
    name = "".join((kind if package == "sklearn" else f"{package}.{kind}").split())
    if name == "FunctionTransformer" and step.func is None:  # which a fit puts in the place of the word
        return "passthrough"
    if name in _FITTED_IN_PLACE:
        members = getattr(step, _FITTED_IN_PLACE[name])
        within = names_of_steps([members] if _is_frozen(step) else [member for _, member in members])
        settings = _setting(getattr(step, "transformer_weights", None))
    elif name == "ColumnTransformer":
        names, members = zip(*branches_of_columns(step), strict=True) if branches_of_columns(step) else ((), ())
        within = names_of_steps(members)
        settings = _setting([step.transformer_weights, *(step._transformer_to_input_indices[one] for one in names)])
    else:
        within, settings = sorted(names_of_fits([step])), _settings_of(step)
    name += f":{_digest(settings)[:8]}" if settings not in ([], "None") else ""
    return f"{name}({','.join(within)})" if within else name


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
    name, parts = getattr(value, "__qualname__", kind.__qualname__), []
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
    return [(name, one) for name, one, _ in fitted if len(chosen.get(name, ())) and not _is_dropped(one)]


def names_of_fits(steps):
    """Names of the fits of all private estimators among some, and of those that are fitted within them."""
    return [name for step in _estimators_within(steps) for name in _name_of(step)]


def _estimators_within(steps, *, is_frozen_too=True):
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
            used = _FITTED_IN_PLACE.get(type(step).__name__) if is_frozen_too or not _is_frozen(step) else None
            held = dict(getattr(step, "__dict__", {}))
            left += [value for name, value in held.items() if name == used or name.endswith("_")]


def _is_frozen(step):
    return type(step).__name__ == "FrozenEstimator"


def _name_of(step):
    """List the name of the last fit of an estimator, if it released something."""
    with suppress(Exception):
        if not _is_frozen(step) and hasattr(stated := getattr(step, "guarantee_", None), "epsilon"):
            held = getattr(step, "__dict__", {})
            facts = {fact: getattr(stated, fact, None) for fact in _STATED_OF_OTHERS}
            # Those of a class of the user have no name: those of one guarantee have the same.
            names = held.get("_name_in_file"), held.get("_fit_name")
            return [str(next(filter(None, names), None) or _digest(_numbers_of(facts, depth=8)))]
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


# Searches


@dataclass
class FitOfSearch:
    """One fit of a search, by a name that the winner gets, too."""

    name: str
    candidates: list  # those of its results, an object that no other fit of the search has
    cv: object  # the splitter, which a later fit that is refused replaces in the search
    is_known: bool  # whether that was the splitter of the folds
    is_seeded: bool = False


class _Fits(list):
    """Fits of a search. Pickles have the one that its results are of: others may be of other rows."""

    def __init__(self, search, fits):
        super().__init__(fits)
        self._search = weakref.ref(search)

    def __reduce__(self):
        search = self._search()
        fit = fit_of(search) if hasattr(search, "cv_results_") else None
        return list, ([] if fit is None else [fit],)


def note_fit(estimator, *, is_seeded, of_a_fit):
    """Note what a fit is a part of.

    Each search around it gets to know its fit, and so does the estimator: a winner that was fitted again, by hand or in
    another search, tells nothing of the folds of its search. `of_a_fit` is False for what is stated of an estimator
    between its fits; `is_seeded` says whether its noise had a seed.
    """
    around = list(_searches_around())
    fits = [(_fit_that_goes_on(search, known, around), known) for search, known in around]
    for fit, _ in fits:
        fit.is_seeded |= is_seeded
    if of_a_fit:
        # A winner that asks for groups got them from the search, as the fits of the folds did, if metadata are routed.
        is_routed = get_config().get("enable_metadata_routing", False)
        estimator._routed_in = {fit.name: is_routed for fit, known in fits if "params" in known["results"]}


def _variables(frame, *names):
    """Variables of a function of scikit-learn by their names, or None."""
    known = frame.f_locals
    found = [known.get(name) for name in names]
    # A copy that the frame keeps: rows in it would stay in memory as long. A debugger writes it back into the frame.
    if sys.version_info < (3, 13) and frame.f_trace is None:
        known.clear()
    return found


def _frames_around():
    """Yield the frames around this call; in a fork, those of its own, before which it has copies of others."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process":
            return
        yield frame


def _frames_of_fits():
    return (frame for frame in _frames_around() if frame.f_code.co_name.startswith(("fit", "_fit", "__call__")))


def _searches_around():
    """Yield the searches of scikit-learn that are fitted around this call, with the variables of that method."""
    for frame in _frames_around():
        shared = frame.f_code.co_cellvars
        if "all_candidate_params" in shared and "results" in shared:  # a look at variables takes longer
            known = frame.f_locals
            if hasattr(known.get("self"), "_run_search"):
                yield known["self"], known


def _fit_that_goes_on(search, known, around):
    """Return the fit of a search that goes on, which the search keeps until another one that is not inside of it."""
    fits, candidates = vars(search).get("_fits_of_search", ()), known["all_candidate_params"]
    fit = next((one for one in fits if one.candidates is candidates), None)
    if fit is None:
        cv = getattr(search, "_checked_cv_orig", known.get("cv_orig"))
        # If folds were fitted elsewhere, a function that chooses the winner may have fitted the search in between.
        is_known = "params" not in known["results"] or not callable(search.refit)
        fit = FitOfSearch(uuid4().hex, candidates, cv, is_known)
        kept = [known["all_candidate_params"] for _, known in around]
        kept += [search.cv_results_["params"]] if hasattr(search, "cv_results_") else []
        still = [one for one in fits if any(one.candidates is other for other in kept)]
        search._fits_of_search = _Fits(search, [*still, fit])
    return fit


def fit_of(search):
    """Return the fit that the results of a search are of, or None if nothing private of this library was fitted."""
    fits, candidates = vars(search).get("_fits_of_search", ()), search.cv_results_["params"]
    return next((fit for fit in fits if fit.candidates is candidates), None)


def routed_in(search, estimator):
    """Whether a search routed metadata to an estimator as it fitted its winner, None if that was not its last fit."""
    fit = fit_of(search)
    return None if fit is None or not fit.is_known else getattr(estimator, "_routed_in", {}).get(fit.name)
