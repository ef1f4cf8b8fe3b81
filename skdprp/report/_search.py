"""What a search released of one row: all candidates in all folds, and the refit, as recorded when it was fitted."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from numbers import Number
from types import FunctionType

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, check_scoring, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)

from .._adjacency import Unit
from .._calibration import void_if_out_of_reach
from .._fits_around import fit_of, routed_in
from ..guarantee import Adjacency, Definition
from ._structure import all_steps, has_guarantee, has_own_constructor, has_own_methods, is_of_library

_SEARCHES = (GridSearchCV, RandomizedSearchCV)
_BY_PLACE = (KFold, RepeatedKFold, LeaveOneOut, LeavePOut, ShuffleSplit, TimeSeriesSplit, PredefinedSplit)
_BY_LABELS = (StratifiedKFold, RepeatedStratifiedKFold, StratifiedShuffleSplit)
_BY_GROUPS = (GroupKFold, GroupShuffleSplit)  # the first where it is shuffled, and does not even out numbers of rows
_HOLD_OUT_EACH_ROW = (GroupKFold, KFold, RepeatedKFold, LeaveOneOut, StratifiedKFold, RepeatedStratifiedKFold)
_PREDICT_ONCE = (type(make_scorer(accuracy_score)), type(check_scoring(LinearRegression())))
_NUMBERS_OF_MODELS = ("epsilon", "delta", "adjacency")
# On which more than numbers depends.
_WORDS_OF_MODELS = ("bounds", "calibration", "categories", "classes", "estimator", "noise", "param_grid", "radius")
_UNSET = object()

_UNKNOWN = "what the candidates guarantee does not follow from their parameters and the refit"
_NO_REFIT = "what the candidates guarantee is not known without a refit: search with refit=True"
_OTHER_SEARCH = "what it fitted was not recorded: use GridSearchCV or RandomizedSearchCV"
_OTHER_FIT = "its results, its folds and its refit are not those of one fit: fit it again"
_NOT_BY_SEARCH = (
    "{} was fitted after the search, or by workers inside of it: fit the search again, with n_jobs in the search alone"
)
_WATCHED = "callbacks may sketch rows again to score them: fit it without them"
_ANY_SCORER = "a scorer that is a function may sketch rows, or fit on them, any number of times: use make_scorer"
_NOT_RECORDED = "what {} guaranteed in each fold was not recorded: fit it in folds by hand and compose"
_SEED_WAS_LEFT = "noise of its folds may come from a seed that was left within its fit: fit a clone outside of seeds"
_N_UNKNOWN = "delta=None depends on the number of rows or persons of a fold, which is not known: give delta"
_BY_LABEL = "one label may move other rows between the folds of {}: set cv=KFold({}, shuffle=True)"
_BY_ROW = "one row may move others between the folds of {}: set cv=KFold({}, shuffle=True)"
_BY_PERSON = (
    "rows of one person, or their number, may move others between the folds of {}: set cv=GroupKFold({}, shuffle=True)"
)
_OWN_SPLITS = "its splitter has methods that its class has not, and where they put rows is not known"
_OTHER_GROUPS = "its fits ask for other groups than its splitter: a person may be in any of the folds"
_NOT_ROUTED = (
    "its fits got groups by the name of a step, and perhaps others than its splitter: let them ask for groups, by "
    "sklearn.set_config(enable_metadata_routing=True) and set_fit_request(groups=True)"
)
_MIXED = "some steps are private for persons and others for rows: give groups to all of them"
_POINT = "the name of a step has a point in it, as paths in a report do: rename it"
_DIFFER = "; guarantees differ, all of them imply this one"
_SCORES_ALONE = "score functions return a score, and publish nothing else of the labels and predictions they are given"
IN_A_SEARCH = "the search, its folds, scorers and results are as its last fit left them"
_IN_PARALLEL = "folds in other threads and processes, if any, had no seed for their noise"


class NotKnown(Exception):
    """What was released does not follow from what was recorded; the message says what to do about it."""


def is_search(estimator):
    """Whether an estimator is a fitted search."""
    return hasattr(estimator, "n_splits_") and "params" in getattr(estimator, "cv_results_", {})


def has_refit(search):
    """Whether the last fit of a search has made its best estimator: one without a refit leaves that of an earlier."""
    return hasattr(search, "best_estimator_") and bool(getattr(search, "refit", True))


def is_watched(estimator):
    """Whether callbacks of an estimator may score rows."""
    callbacks = getattr(estimator, "_skl_callbacks", ())
    kinds = {type(callback) for callback in callbacks}
    are_others = any(kind.__name__ != "ProgressBar" or not kind.__module__.startswith("sklearn.") for kind in kinds)
    return are_others or any(map(has_own_methods, callbacks))


def releases_of_search(search, refit, walk):
    """Return the lines and the guarantees of all that a search released of one row; raise NotKnown if nobody knows.

    `refit` is the report on its best estimator; `walk` reports on a candidate, which was fitted and thrown away.
    """
    _check_records(search, refit)
    cv = _splitter(search, [charge for group in refit.charges for charge in group]) if refit.charges else None
    try:
        candidates = [walk(candidate) for candidate in _candidates(search, refit, cv)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # parameters with which nothing can be fitted
        raise NotKnown(_UNKNOWN) from error
    if any(_coverage(candidate) != _coverage(refit) for candidate in candidates):
        raise NotKnown(_UNKNOWN)
    if not _states_as_much(candidates[search.best_index_], refit):
        raise NotKnown(_UNKNOWN)
    lines, charges = [], []
    # Of each step that releases something, what each candidate released at it: a fit of the refit's steps.
    groups_of_steps = zip(*(candidate.charges for candidate in candidates), strict=True)
    for line in refit.steps:
        if line.releases:
            groups = next(groups_of_steps)
            guarantees = [_in_each_fold(group[0], cv) for group in groups]
            # Also of a candidate whose fits failed: a solver may fail when the noise is drawn.
            counts = [_counts_in_folds(search, cv, group) for group in groups]
            in_folds = (one for one, (count, _) in zip(guarantees, counts, strict=True) for _ in range(count))
            refitted = _costliest(guarantees)  # the rows have chosen which
            charged = (*line.releases * [refitted], *in_folds)
            differ = _DIFFER if len(set(guarantees)) > 1 else ""
            calls = line.calls + sum(calls for _, calls in counts)
            line = replace(line, guarantee=refitted, releases=len(charged), calls=calls, remark=line.remark + differ)
            charges.append(charged)
        lines.append(line)
    return lines, tuple(charges)


def _in_each_fold(guarantee, cv):
    """Add what the guarantees of all folds together rest on."""
    given = guarantee.given and f"{guarantee.given} in each fold"
    what = "labels, which neighbours have in common" if type(cv) in _BY_LABELS else "places"
    if type(cv) in _BY_GROUPS:
        what = (
            "the set of labels in groups, which the splitter got as the fits did and neighbours have in common, labels "
            "of blank persons included,"
        )
    held_out = f"which rows {type(cv).__name__} holds out depends on {what} alone"
    of_search = (held_out, IN_A_SEARCH, _SCORES_ALONE, _IN_PARALLEL)
    return replace(guarantee, given=given, assumptions=(*guarantee.assumptions, *of_search))


def _check_records(search, refit):
    """Refuse a search that kept no records, or those of several fits."""
    if type(search) not in _SEARCHES:
        raise NotKnown(_OTHER_SEARCH)
    if not has_refit(search):
        raise NotKnown(_NO_REFIT)
    if not refit.is_known:
        raise NotKnown(refit.not_covered[-1])
    fit, is_seeded = fit_of(search), all(charge.seeded for group in refit.charges for charge in group)
    if fit is not None and fit.is_seeded and not is_seeded:  # some folds had seeds that the refit does not show
        raise NotKnown(_SEED_WAS_LEFT)
    results = search.cv_results_
    n_splits = len({name.partition("_")[0] for name in results if re.match(r"split\d+_", name)})
    # Attributes can be set: identity of the parameters, and the numbers of folds, show that they are of one fit.
    if results["params"][search.best_index_] is not search.best_params_ or n_splits != search.n_splits_:
        raise NotKnown(_OTHER_FIT)


def _coverage(part):
    """What is covered, step by step, and what is not."""
    return [(line.step, line.status) for line in part.steps], part.not_covered, part.is_known


def _states_as_much(best, refit):
    """Whether the best candidate, as it follows from parameters, has the guarantees of the refit, which had them."""
    pairs = [pair for groups in zip(best.charges, refit.charges, strict=True) for pair in zip(*groups, strict=True)]
    return all(
        (stated.epsilon, stated.definition) == (known.epsilon, known.definition)
        and stated.delta >= known.delta  # one that a model chooses is larger in a fold, which has fewer rows
        for stated, known in pairs
    )


def _splitter(search, charges):
    """Splitter of the folds, if it puts each row in the same folds of any two neighbours for which all charges hold."""
    fit = fit_of(search)
    cv = getattr(search, "_checked_cv_orig", None) if fit is None else fit.cv
    if cv is None:  # integers are stratified for most classifiers
        cv = check_cv(search.cv, np.arange(2), classifier=is_classifier(search.best_estimator_))
    if has_own_methods(cv):
        raise NotKnown(_OWN_SPLITS)
    kind, n_splits = type(cv), search.n_splits_
    if any(charge.unit == Unit.PERSON for charge in charges):
        if kind not in _BY_GROUPS or not getattr(cv, "shuffle", True):
            raise NotKnown(_BY_PERSON.format("a list" if kind.__name__.startswith("_") else kind.__name__, n_splits))
        if any(charge.unit != Unit.PERSON and not _is_of_distance(charge) for charge in charges):
            raise NotKnown(_MIXED)
        steps = [step for _, step in all_steps(search.best_estimator_) if has_guarantee(step) and is_of_library(step)]
        asked_for = {_name_of(step.get_metadata_routing().fit) for step in steps}
        if not asked_for - {None} or not all(routed_in(search, step) for step in steps):
            raise NotKnown(_NOT_ROUTED)
        if asked_for - {None, _name_of(cv.get_metadata_routing().split)}:
            raise NotKnown(_OTHER_GROUPS)
    # Neighbours at a distance have their labels, and so the splits by labels, in common; a replaced row has a new one.
    elif kind in _BY_LABELS and not any(map(_is_of_distance, charges)):
        raise NotKnown(_BY_LABEL.format(kind.__name__, n_splits))
    elif kind not in (*_BY_PLACE, *_BY_LABELS):
        raise NotKnown(_BY_ROW.format("a list" if kind.__name__.startswith("_") else kind.__name__, n_splits))
    if kind not in (LeaveOneOut, LeavePOut) and cv.get_n_splits() != n_splits:  # these two count the rows
        raise NotKnown(_OTHER_FIT)
    return cv


def _name_of(request):
    """Name under which a method asks for groups, or None if it does not."""
    asked = request.requests.get("groups")
    return "groups" if asked is True else asked or None


def _is_of_distance(guarantee):
    return guarantee.adjacency is not None and guarantee.adjacency.is_distance


def _counts_in_folds(search, cv, group):
    """How often one row is released in all folds of one candidate, and by how many calls all rows are.

    A fold trains on a row, or holds it out, or neither.

    `group` is what one fit releases: the rows may pass a step several times.
    A sketch is drawn once for each scorer, though scikit-learn lets scorers share predictions: not those that failed.
    """
    trained, held_out = len(group), 0  # a model releases nothing of what it predicts for held-out rows
    scorers = search.scorer_.values() if isinstance(search.scorer_, Mapping) else [search.scorer_]
    # Others may predict again, or fit.
    if any(type(scorer) not in _PREDICT_ONCE or has_own_methods(scorer) for scorer in scorers):
        raise NotKnown(_ANY_SCORER)
    if group[0].per == "transform":
        if is_watched(search):
            raise NotKnown(_WATCHED)
        trained += len(scorers) * any(name.startswith("mean_train_") for name in search.cv_results_)
        held_out = len(scorers)
    calls = search.n_splits_ * (trained + held_out)
    if type(cv) in _HOLD_OUT_EACH_ROW:
        n_repeats = getattr(cv, "n_repeats", 1)
        return (search.n_splits_ - n_repeats) * trained + n_repeats * held_out, calls
    # Which folds hold a row out, and which train on it, is not known.
    return search.n_splits_ * max(trained, held_out), calls


def _costliest(guarantees):
    """State what each of several guarantees implies."""
    if len(set(guarantees)) == 1:
        return guarantees[0]
    try:
        adjacency = reduce(Adjacency.narrower, (one.adjacency for one in guarantees))
    except ValueError as error:
        raise NotKnown(_UNKNOWN) from error
    # The largest of each covers every candidate at one point; of the losses, no one need be the largest everywhere.
    costliest = max(guarantees, key=lambda one: one.epsilon)
    return replace(
        costliest, delta=max(one.delta for one in guarantees), adjacency=adjacency, loss=None, hidden_changes=None
    )


def _candidates(search, refit, cv):
    """Yield the candidates with the guarantees that they had: those of the refit, but for parameters of their own."""
    best = search.best_estimator_
    if any("." in path for path, _ in all_steps(best)):  # a step could be taken for another one's
        raise NotKnown(_POINT)
    steps = dict(all_steps(best))
    fitted = {path: step for path, step in steps.items() if has_guarantee(step)}
    private = {path: step for path, step in fitted.items() if not _sees_released(path, refit)}
    fitted_with = {}
    for path, step in private.items():
        # A fit sets parameters of a clone and calls no constructor again, which a class of yours may expect.
        is_recorded = is_of_library(step) and not has_own_constructor(step)
        if is_of_library(step) and routed_in(search, step) is None:
            raise NotKnown(_NOT_BY_SEARCH.format(type(step).__name__))
        if not is_recorded or getattr(step, "_calibrated_for", None) is None:
            raise NotKnown(_NOT_RECORDED.format(type(step).__name__))
        fitted_with |= {f"{path}__{name}".removeprefix("__"): value for name, value in step._calibrated_for.items()}
    for own in _own_parameters(search, refit, private):
        candidate = clone(best).set_params(**fitted_with).set_params(**clone(own, safe=False))
        for path, step in all_steps(candidate):
            if step is private.get(path):  # which its clone is, too
                raise NotKnown(_UNKNOWN)
            if path in private:
                step.guarantee_ = _guarantee_in_a_fold(step, private[path], cv)
            elif path in fitted:
                step.guarantee_ = fitted[path].guarantee_
            elif hasattr(step, "_matches_parameters") and not any(name.startswith(f"{path}__") for name in own):
                vars(step).update(vars(steps[path]))  # as fitted, its map is that of other reports
        yield candidate


def _sees_released(name, refit):
    """Whether a step, or what a parameter belongs to or replaces, comes after a sketch of all that it sees."""
    names = name.split("__")
    for path in (".".join(names[: i + 1]) for i in range(len(names))):
        lines = [line for line in refit.steps if line.step == path or line.step.startswith(f"{path}.")]
        if lines and all(line.status == "post-processing" for line in lines):
            return True
    return False


def _own_parameters(search, refit, private):
    """Parameters of each candidate that may matter to a guarantee, but for those that all share with the refit."""
    grid = search.cv_results_["params"]
    own = [{} for _ in grid]
    for name in dict.fromkeys(name for params in grid for name in params):
        values = [params.get(name, _UNSET) for params in grid]
        if _sees_released(name, refit) or all(value is values[0] for value in values):
            continue
        path, _, parameter = name.rpartition("__")
        is_of_model = path in private and private[path].guarantee_.per == "fit"
        if is_of_model and parameter not in (*_NUMBERS_OF_MODELS, *_WORDS_OF_MODELS):
            continue  # the guarantee is the same whatever they are
        is_overwritten = name in search.best_params_ and any(value is _UNSET for value in values)
        if any(path.startswith(f"{one}__" if one else one) and path != one for one in private):  # of what one searches
            raise NotKnown(_UNKNOWN)
        if is_overwritten or (is_of_model and parameter in _WORDS_OF_MODELS) or not all(map(_is_plain, values)):
            raise NotKnown(_UNKNOWN)
        for params, value in zip(own, values, strict=True):
            params |= {} if value is _UNSET else {name: value}
    return own


def _is_plain(value):
    """Whether a value is none that could be set to something else since: an estimator could."""
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype != object
    return value is _UNSET or value is None or isinstance(value, str | bytes | Number | np.generic | FunctionType)


def _guarantee_in_a_fold(step, refitted, cv):
    """Guarantee of a step with these parameters in any fold; `refitted` is the same step of the refit."""
    known = refitted.guarantee_
    shown = {"seeded": known.seeded, "violation": known.violation, "mechanism": type(step).__name__}
    if known.per == "transform":  # calibrated from the number of features alone
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stated = clone(step).set_params(random_state=0).fit(np.zeros((1, refitted.n_features_in_))).guarantee_
        return replace(of_any_draw(stated), **shown)
    # Models are calibrated by numbers of rows that no record has: what they ask for is what they got.
    if known.definition is not Definition.DP:
        raise NotKnown(_NOT_RECORDED.format(type(step).__name__))
    if getattr(step, "calibration", "exact") != "exact":
        raise NotKnown(_UNKNOWN)
    if known.epsilon == np.inf:  # whatever the folds have, there is no guarantee
        return replace(known, **shown)
    delta = step.delta
    if delta is None:  # the largest 1 / n^2 of any fold; the refit knows the number of rows if its own was chosen so
        folds = (KFold, RepeatedKFold, LeaveOneOut)  # of persons, a splitter may take several for one
        if refitted._calibrated_for["delta"] is not None or type(cv) not in folds:
            raise NotKnown(_N_UNKNOWN)
        n_samples = round(known.delta**-0.5)
        held_out = 1 if type(cv) is LeaveOneOut else -(-n_samples // (cv.get_n_splits() // getattr(cv, "n_repeats", 1)))
        delta = 1.0 / max(n_samples - held_out, 2) ** 2
    stated = {"epsilon": step.epsilon, "delta": delta, "adjacency": Adjacency(step.adjacency)}
    stated = replace(known, **stated, **shown, loss=None, audited_epsilon=None)
    return void_if_out_of_reach(stated) if hasattr(refitted, "scale_") else stated


def of_any_draw(guarantee):
    """Guarantee of a sketch whatever its projection is: others round otherwise, and one of zeros loses nothing."""
    loss = guarantee.loss
    is_of_any_draw = loss is not None and (loss.mu > 0 or loss.profiles)
    loss = replace(loss, mu=loss.mu * (1 + 2.0**-30)) if is_of_any_draw else None
    return replace(guarantee, loss=loss, hidden_changes=None)
