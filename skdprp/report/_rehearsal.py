"""What an estimator will guarantee once it is fitted, from what is public of the rows: nothing is released."""

import os
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from numbers import Integral
from threading import RLock

import numpy as np
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer
from sklearn.random_projection import BaseRandomProjection, johnson_lindenstrauss_min_dim
from sklearn.utils import get_tags

from .._adjacency import Unit
from .._calibration import state_guarantee
from .._errors import CURE_OF_LABELS, TELLS_NOBODY, warn_at_caller, without_values
from .._labels import encode, of_one_type
from .._lazy import is_lazy
from .._persons import is_missing, persons_of
from .._recording import PlanBlock
from .._rows import float_type, number_of_rows
from .._validation import FLOATS, is_estimator, is_frame, own_copy, validate_array, validate_data
from ..ledger._ledger import thrown_away
from ._data_independent import PUBLIC, TakenFromRows, is_in_library
from ._search import of_any_draw
from ._structure import (
    OWN_METHODS,
    all_held,
    all_steps,
    branches,
    fitted_before,
    has_guarantee,
    has_own_constructor,
    has_own_methods,
    is_of_library,
    is_private,
)
from ._walk import Flow, walk

_FEW_ROWS = 64  # which show how wide rows are after a step
_NEEDS_LABELS = (
    "{} learns from labels before the last step, and what it will release, or let through, is not known before a fit: "
    "report on it after its fit"
)
_SAMPLE = f"The sample of at most {_FEW_ROWS} rows that shows the width after {{}}"
LAZY = "X is a dask collection, of which the number of rows is not known: give a few rows, as X.head(), and n_samples."
_NOT_PRICED = (
    "does not say before a fit what it will guarantee for rows. DP models and DP transformers of this library do; a "
    "sketch hides a change within a row. Sketch once, then search and learn on the sketches, which costs nothing more."
)
_RECORDED = (
    "{} is reported after its fit, which records folds and candidates: before, nobody knows what it will cost, and no "
    "budget can be set. Use DPSearchCV instead, which searches under one epsilon and delta that are fixed before; or "
    "set the budget of the model without a search. Where it searches over a sketch, sketch once, then search and learn "
    "on the sketches, which costs nothing more."
)
_FITTED_BEFORE = (
    "{} holds what was fitted before, {}, which a fit to come may publish: pass clone(model), or report it after that "
    "fit."
)
_NO_CLONE = "A clone of {} is the estimator itself, which a plan would fit to a few rows: report on it after its fit."
_MOST_SAMPLES = 2**53
_ONE_AT_A_TIME = [RLock()]  # of two that silence warnings, the first to end would let those of the other be heard
_NO_LABELS = "Give y, of all rows: {} lists no classes, and takes them from it."


@dataclass(frozen=True)
class PublicFacts:
    """What is public of rows and of their labels or targets."""

    head: object  # a few rows, of which widths and types are used
    n_samples: int
    n_targets: int = 0
    n_classes: tuple[int, ...] = ()  # of each target, if those are labels
    has_all_labels: bool = True
    n_persons: int = 0  # where steps that take groups are given some
    labels: object = None  # which are refused as a fit would, before anything is spent

    @classmethod
    def of(cls, X, y=None, n_samples=None, groups=None):
        """Collect them from rows, labels and persons."""
        if is_lazy(X):
            raise TypeError(LAZY)
        if groups is not None:
            if n_samples is not None:
                raise ValueError("groups are those of all rows: leave n_samples out.")
            return replace(cls.of(X, y), n_persons=persons_of(groups, number_of_rows(X)).number)
        is_whole = n_samples is None
        if is_whole:
            n_samples = number_of_rows(X)
        if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or not 0 < n_samples < _MOST_SAMPLES:
            raise ValueError(f"n_samples is a number of rows, got {n_samples!r}.")
        n_samples = int(n_samples)
        if y is None:
            return cls(_head(X), n_samples)
        y = y.toarray() if hasattr(y, "toarray") else y
        labels = without_values(np.asarray, without_values(of_one_type, y, name="y"), name="y")
        if not labels.ndim:
            raise ValueError("y is one value, where there should be one for each row.")
        if is_whole and len(labels) != n_samples:
            raise ValueError("X and y need the same number of rows.")  # which is not told: of persons, it is secret
        columns = labels.reshape(len(labels), -1).T
        if any(without_values(_has_missing, column, name="y") for column in columns):
            raise ValueError(f"y contains NaN: {CURE_OF_LABELS}")
        n_classes = tuple(len(without_values(np.unique, column, name="y")) for column in columns)
        return cls(_head(X), n_samples, len(columns), n_classes, len(labels) >= n_samples, labels=y)

    @property
    def default_delta(self):
        """The delta of steps that are given none, of the number of rows or persons."""
        return 1.0 / max(self.n_persons or self.n_samples, 2) ** 2

    def n_outputs(self, step):
        """Number of classes or targets of a private step."""
        if not self.n_targets and (is_regressor(step) or getattr(step, "target_bounds", None) is not None):
            raise ValueError(f"Give y: {type(step).__name__} takes as many targets as it has.")
        if not is_classifier(step):
            return self.n_targets
        if self.labels is not None and is_of_library(step) and (step.classes is not None or self.has_all_labels):
            y = without_values(of_one_type, self.labels, name="y")
            _, y = validate_data(clone(step), np.zeros((len(y), 1)), y)
            encode(y, step.classes)  # which refuses labels that the fit would refuse
        if step.classes is None and not (self.n_classes and self.has_all_labels):
            raise ValueError(_NO_LABELS.format(type(step).__name__))
        return self.n_classes[0] if step.classes is None else len(step.classes)


@dataclass(frozen=True)
class PrivateStep:
    """A private step that is not fitted yet, and how to calibrate it to the rows that will reach it."""

    path: str
    estimator: object
    calibrate: Callable | None  # None for a sketch, which states its guarantee from its first few rows on
    n_samples: int | None = None  # rows, or persons, that a step which is no search is calibrated for

    def state_guarantee(self):
        """State what it will guarantee, with its parameters as they are."""
        if self.calibrate is not None:
            self.estimator._validate_params()
            state_guarantee(self.estimator, self.calibrate().guarantee, of_a_fit=False)
        elif not (is_of_library(self.estimator) and has_guarantee(self.estimator)):  # others may count the few rows
            raise not_priced(self.estimator)
        elif not isinstance(
            getattr(self.estimator, "random_state", None), Integral
        ):  # the fit draws another projection
            stated = of_any_draw(self.estimator.guarantee_)
            state_guarantee(self.estimator, replace(stated, mechanism=type(self.estimator).__name__), of_a_fit=False)


@dataclass(frozen=True)
class Rehearsal:
    """A clone of an estimator in which all that stands before a model has seen a few rows, and its private steps."""

    estimator: object
    steps: tuple[PrivateStep, ...]
    has_groups: bool = False

    def hidden_by_noise(self):
        """Say what so many rows cannot show through the noise of the first step that hides most, or nothing."""
        known = [step for step in self.steps if hasattr(step.estimator, "_hidden_by_noise")]
        said = (step.estimator._hidden_by_noise(step.n_samples, **step.calibrate().noise) for step in known)
        return next(filter(None, said), "")

    def warn_of_noise(self):
        """Warn of noise that hides most of the rows, as the fit will, with the parameters as they are."""
        if hidden := self.hidden_by_noise():
            warn_at_caller(hidden, UserWarning)


def not_priced(step):
    """Say that a step cannot be calibrated before a fit."""
    return TypeError(f"{type(step).__name__} {_NOT_PRICED}")


if hasattr(os, "register_at_fork"):  # a thread that holds it is not there in a forked child
    os.register_at_fork(after_in_child=lambda: _ONE_AT_A_TIME.__setitem__(0, RLock()))


@contextmanager
def in_private():
    """Run what tells nobody how often it runs: no warnings, and no other processes, which entries would not reach."""
    with _ONE_AT_A_TIME[0], warnings.catch_warnings(), parallel_config(backend="sequential"):
        warnings.simplefilter("ignore")
        token = TELLS_NOBODY.set(True)  # another thread may undo the filter at any time
        try:
            yield
        finally:
            TELLS_NOBODY.reset(token)


def rehearse(estimator, facts):
    """Find all private steps of an estimator, and pass a few rows through what stands before a model."""
    _check_holds_no_fits(estimator)
    model, watched = clone(estimator), []
    originals = {id(part) for part in own_parts(estimator)}
    for part in own_parts(model):
        if id(part) in originals:
            raise ValueError(_NO_CLONE.format(type(part).__name__))
    check_methods(estimator)
    for step in own_parts(model):
        if is_private(step) and is_of_library(step):
            if has_own_constructor(step):  # which derives parameters from others: those of a clone may be none of a fit
                raise not_priced(step)
            step._validate_params()  # whose errors are of public parameters
            if hasattr(step, "_check_output"):  # what a fit refuses before it spends anything
                step._check_output()
        elif is_private(step) and not has_price(step):  # would release numbers of the few rows
            raise not_priced(step)
        if type(step) is ColumnTransformer and any(map(is_private, own_parts(step))):
            # A function that chooses by the rows may choose other columns of the few rows.
            chosen = [columns for _, _, columns in step.transformers]
            if any(callable(columns) and type(columns) is not make_column_selector for columns in chosen):
                raise ValueError(
                    "A function chooses columns by the rows, of which a plan sees a few: name the columns."
                )
        # The steps of an outermost pipeline are passed one by one, by its memory.
        if getattr(step, "memory", None) is not None and not (step is model and type(step) is Pipeline):
            raise ValueError(f"{type(step).__name__} would cache the few rows that show its width: memory=None.")
        if isinstance(step, BaseRandomProjection) and step.n_components == "auto":
            # A width by the number of rows, which is not that of the few.
            width = johnson_lindenstrauss_min_dim(facts.n_samples, eps=step.eps)
            step.set_params(n_components=TakenFromRows(width))
        if "_skl_callbacks" in getattr(step, "__dict__", {}):  # which would see what is thrown away
            watched.append((step, vars(step).pop("_skl_callbacks")))
    with in_private(), thrown_away(), PlanBlock():  # of what is fitted only widths are kept
        steps = tuple(_pass_steps(model, "", facts))
    for step, callbacks in watched:  # which a fit will have
        step._skl_callbacks = callbacks
    if facts.n_persons and not any(takes_groups(step.estimator) for step in steps):
        raise ValueError("No private step takes groups: DPSGDClassifier, DPRidge, DPPCA and DPMoments do.")
    return Rehearsal(model, steps, bool(facts.n_persons))


def check_methods(estimator):
    """Refuse objects with methods of their own: a plan is of a clone, which has none, but for those of frozen ones."""
    for part in filter(has_own_methods, (part for _, part in all_held(estimator, "", seen=set()))):
        raise ValueError(f"{type(part).__name__} {OWN_METHODS}.")


def has_price(step):
    """Whether the class of a step says what a fit will release: an object may only hand on what another one says."""
    return hasattr(type(step), "_calibration_of")


def own_parts(thing):
    """Yield estimators among the parameters of an estimator, at any depth, and itself.

    None of what is frozen, which clones share, and none of what a DPSearchCV clones and rehearses itself.
    """
    if isinstance(thing, list | tuple):
        for one in thing:
            yield from own_parts(one)
    elif is_estimator(thing) and not isinstance(thing, type | FrozenEstimator):
        yield thing
        if not (is_of_library(thing) and hasattr(thing, "_calibrate_for")):
            yield from own_parts(list(thing.get_params(deep=False).values()))


def _check_holds_no_fits(estimator):
    """Refuse what clones would forget, but for composites and models of this library, which fit clones themselves."""
    if type(estimator) is FrozenEstimator or is_of_library(estimator):
        return
    parts = [part for _, part in (*getattr(estimator, "steps", ()), *branches(estimator)) if hasattr(part, "fit")]
    if not parts and (fitted := fitted_before(estimator)) is not None:
        raise ValueError(_FITTED_BEFORE.format(type(estimator).__name__, type(fitted).__name__))
    for part in parts:
        _check_holds_no_fits(part)


def _pass_steps(model, path, facts, *, is_released=False):
    """Yield the private steps of a model, which gets the rows of `facts`, or what was released of them."""
    if type(model) is Pipeline:
        *front, (last_name, last) = model.steps
        for name, step in front:
            if hasattr(step, "fit"):
                try:
                    _refuse_searches(step, is_released)
                    facts = replace(facts, head=fit_transform(step, facts.head))
                except (TypeError, ValueError):
                    if not is_released:
                        raise
                    continue  # what needs labels, say, is post-processing, and prices nothing
                yield from _of_fitted(step, _joined(path, name), facts)
                is_released = is_released or walk(step, "", Flow()).flow.released
        yield from _pass_steps(last, _joined(path, last_name), facts, is_released=is_released)
    elif members := list(_members(model, facts)):
        for name, member, of_member in members:
            yield from _pass_steps(member, _joined(path, name), of_member, is_released=is_released)
    elif is_of_library(model) and hasattr(model, "_calibrate_for"):
        yield PrivateStep(path, model, partial(model._calibrate_for, replace(facts, n_persons=0)))  # it takes no groups
    elif hasattr(model, "transform") or (is_private(model) and get_tags(model).input_tags.categorical):
        _refuse_searches(model, is_released)
        if not is_released or is_private(model):
            model.fit(facts.head) if is_private(model) else _fit(model, facts.head, "X")
            yield from _of_fitted(model, path, facts)
    elif is_private(model):
        rows = validate_array(facts.head, accept_sparse="csr", dtype=FLOATS, ensure_all_finite="allow-nan")
        yield _private_step(model, path, rows.shape[1], float_type(facts.head, rows), facts)
    else:
        _refuse_searches(model, is_released)


def _refuse_searches(model, is_released):
    """Refuse searches that see rows."""
    for _, step in all_steps(model):
        if isinstance(step, GridSearchCV | RandomizedSearchCV) and not is_released:
            raise ValueError(_RECORDED.format(type(step).__name__))


def fit_transform(step, X, name=_SAMPLE):
    """Pass rows through a step; errors of other libraries would show them, and have what they are by name."""
    if type(step) is FrozenEstimator:
        return without_values(step.transform, X)
    if type(step) is Pipeline:
        for one in [one for _, one in step.steps if hasattr(one, "fit")]:
            X = fit_transform(one, X, name)
        return X
    if is_of_library(step) or type(step) in PUBLIC:
        return step.fit(X).transform(X)
    name = name.format(type(step).__name__)
    return without_values(_fit(step, X, name).transform, X, name=name)


def _fit(step, X, name):
    """Fit a step of another library to a few rows, without labels; say so if it needs some."""
    if type(step) is FrozenEstimator:
        return without_values(step.fit, X, None, name=name)
    if get_tags(step).target_tags.required:
        raise ValueError(_NEEDS_LABELS.format(type(step).__name__))
    try:
        return without_values(step.fit, X, name=name)
    except (TypeError, ValueError):
        if not _lacks_labels(step, X):
            raise
    raise ValueError(_NEEDS_LABELS.format(type(step).__name__))


def _lacks_labels(step, X):
    """Whether a step that could not be fitted needs labels, which not all say by their tags."""
    parts = list(own_parts(step))
    if any(get_tags(part).target_tags.required for part in parts):
        return True
    if len(parts) > 1 or not is_in_library(type(step).__module__):  # nothing within may be fitted to learn that
        return False
    try:
        clone(step).fit(X, np.arange(number_of_rows(X)) % 2)
    except Exception:
        return False
    return True


def _of_fitted(step, path, facts):
    """Yield what is private in a step that has seen the few rows, which left it as `facts` have them."""
    head = facts.head
    types = set(head.dtypes if is_frame(head) else [getattr(head, "dtype", None)])
    dtype = np.dtype(np.float32 if types == {np.dtype(np.float32)} else np.float64)
    for within, one in all_steps(step, path):
        if is_private(one) or has_guarantee(one):
            yield _private_step(one, within, getattr(one, "n_features_in_", None), dtype, facts)


def _private_step(step, path, n_features, dtype, facts):
    if not has_price(step):
        return PrivateStep(path, step, None)
    of_persons = facts.n_persons and takes_groups(step)
    n_samples, unit = (facts.n_persons, (Unit.PERSON,)) if of_persons else (facts.n_samples, ())
    calibrate = partial(step._calibration_of, (n_samples, n_features), dtype, facts.n_outputs(step), *unit)
    return PrivateStep(path, step, calibrate, n_samples)


def _members(model, facts):
    """Yield what an ensemble will fit to the same rows, by the name of the parameter that it is a clone of.

    The ensemble has them from here on, as after its fit.
    """
    kind = type(model)
    if kind is FixedThresholdClassifier:
        yield "estimator", model.estimator, facts
    if kind in (VotingClassifier, VotingRegressor):
        named = [(name, member) for name, member in model.estimators if member != "drop"]
        model.estimators_ = [member for _, member in named]
        encoded = replace(facts, labels=None)
        yield from ((name, member, encoded) for name, member in named)
    if kind in (OneVsRestClassifier, MultiOutputClassifier, MultiOutputRegressor):
        of_members = list(_facts_of_members(kind, facts))
        model.estimators_ = [clone(model.estimator) for _ in of_members]
        if kind is OneVsRestClassifier and facts.n_targets > 1:  # which its multilabel_ says
            model.label_binarizer_ = LabelBinarizer().fit(np.tri(facts.n_targets, dtype=int))
        yield from (("estimator", *pair) for pair in zip(model.estimators_, of_members, strict=True))


def _facts_of_members(kind, facts):
    """Yield what is public of the labels that each of the members gets."""
    if kind is not OneVsRestClassifier:
        for target in range(facts.n_targets):
            yield replace(facts, n_targets=1, n_classes=facts.n_classes[target : target + 1], labels=None)
        return
    if not (facts.n_classes and facts.has_all_labels):
        raise ValueError(_NO_LABELS.format(kind.__name__))
    # One problem for each of more than two classes, or for each column of several labels.
    n_problems = facts.n_targets if facts.n_targets > 1 else max(facts.n_classes[0], 1)
    for _ in range(1 if facts.n_targets == 1 and n_problems == 2 else n_problems):
        yield replace(facts, n_targets=1, n_classes=(2,), labels=None)


def _joined(path, name):
    return f"{path}__{name}" if path else name


def _has_missing(labels):
    if labels.dtype == object:
        return any(map(is_missing, labels))
    return labels.dtype.kind in "fmM" and bool((labels != labels).any())


def takes_groups(step):
    """Whether a private step protects persons where its fit is given their rows; others refuse groups."""
    return "groups" in signature(step.fit).parameters


def _head(X):
    """A few rows, in whatever they come."""
    rows = X.tocsr() if sp.issparse(X) else getattr(X, "iloc", X)
    return own_copy(rows[:_FEW_ROWS])
