"""The walk through an estimator: what reaches each step, what it releases, and what is left for those after it."""

from dataclasses import dataclass, field, replace
from numbers import Integral, Number

import numpy as np
from joblib import Memory
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, Nystroem, RBFSampler
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import BaseRandomProjection, GaussianRandomProjection, SparseRandomProjection

from .._calibration import is_as_stated
from .._fits_around import (
    NOBODY_KNOWS,
    has_labels_of_members,
    has_lost_branches,
    has_width_of_members,
    holds_fits_behind_others,
    known_notes,
    names_of_steps,
    private_among,
    was_behind,
)
from .._lazy import SAME_ORDER, output_container
from .._printing import RELEASED_AT
from ..guarantee import (
    LABELS_ARE_PUBLIC,
    ROWS_ARE_READ_ALONE,
    TYPES_ARE_PUBLIC,
    Definition,
    PrivacyGuarantee,
)
from ..mechanisms import searched_profile
from ..preprocessing import PublicBinner
from ._data_independent import (
    PUBLIC,
    calls_own_function,
    checks_inverse,
    chooses_by_name,
    has_zeros,
    is_data_independent,
    is_handed_arrays,
    is_in_library,
    keeps_counts,
    lists_huge_numbers,
    map_label,
    remark_on,
    skips_missing,
    varies_in_zeros,
    writes_into_rows,
)
from ._lines import ReportedStep
from ._search import NotKnown, has_refit, is_search, is_watched, releases_of_search
from ._structure import (
    COMPOSITES,
    OWN_METHODS,
    all_held,
    branches,
    fitted_before,
    guarantee_shown,
    has_guarantee,
    has_own_methods,
    holds_own_code,
    holds_private,
    is_ensemble,
    is_of_library,
    may_release_more,
    private_held_by,
    won_otherwise,
)

_SPREADING = (
    AdditiveChi2Sampler,
    BaseRandomProjection,
    FeatureHasher,
    FunctionTransformer,
    HashingVectorizer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    RBFSampler,
    SplineTransformer,
)
_CURES = (
    (
        (MaxAbsScaler, MinMaxScaler, PowerTransformer, QuantileTransformer, RobustScaler, StandardScaler),
        "use PublicScaler or DPScaler",
    ),
    (FunctionTransformer, "if it does not, call it in a function of your own, which is trusted"),
    (SimpleImputer, 'set strategy="constant", keep_empty_features=True'),
    (CountVectorizer, "use HashingVectorizer"),
    (KBinsDiscretizer, "use PublicBinner or DPBinner"),
    (SplineTransformer, "give its knots"),
    (RBFSampler, "give its gamma as a number"),
    ((GaussianRandomProjection, SparseRandomProjection), "give its n_components as a number"),
    (Nystroem, "use RBFSampler"),
    (TunedThresholdClassifierCV, "use FixedThresholdClassifier"),
)
_SCORES = "scores, and what is chosen by them, are computed from held-out rows without noise"
_SKETCH_ONCE = "; sketch once, and search on the sketches: nothing that is computed from them costs more"
_LEARNED = "learns from the rows without noise"
_ROW_BY_ROW = (
    "transforms rows one by one, and equal rows alike however they are stored; no row decides the output type; "
    "dask rows have a fixed order"
)
_WRITES = "may write over rows that others see, or that it sees again: set copy=True, or do not overwrite"
_WRITES_TO_CHECK = "may write over rows when it checks its inverse: set check_inverse=False"
_NOT_AGAIN = "{}: rows that it has written over are not passed again, to a fit or to a transform"
_FROZEN_AFTER = "was fitted before it came behind {}, and sketched other rows then: put what is frozen first"
_WRITES_NONE = "{}: does not write over the rows that it is given"
_MAY_LEARN = "may learn from the rows without noise"
_MAY_MIX = "may make a row of other rows, too"
_WARNS = "; warnings and errors of it may tell of a row"
_SPREADS = "; one change before it may move several coordinates after it"
_CHOOSES = "chooses columns in view of the rows: list them"
_DENSITY = "keeps whether most values were zero in sparse_output_: set sparse_threshold=0 and fit again"
_THE_LABELS = "the set of labels"
_ALIKE = "equal labels have the same type, and zeros the same sign: classes_ keeps each as one row has it"
_CONSTANT = (
    "takes a constant for a column of labels that are all equal: use MultiOutputClassifier over a model with classes"
)
_OF_EARLIER_LABELS = "takes a constant for a column of labels, or its last fit was refused: fit it again"
_LABELS_IN_COMMON = "all labels"
_LABELS = "sees what was released; labels, if it uses any, as they are"
_VIOLATED = "VIOLATED by an audit"
_INHERITS = "inherits a guarantee and may release more: hold the private estimator inside, do not derive from it"
_PER_WHAT = 'releases at each fit or at each transform, it does not say at which: state per="fit" or per="transform"'
_WON_WITH_IT = "was released by the search that is counted above"
_SET_LATER = "has a guarantee_ that was set after the fit, and is not what was stated of its noise: fit it again"
WON_OTHERWISE = (
    "has a best_estimator_ that was fitted again since the search, which is one more release: save and report that by "
    "itself, and compose() its total with the guarantee_ of the search"
)
_FITTED_AGAIN = "may have released rows before its last fit, for other parameters: fit a clone for each purpose"
_LAZY = "released lazy rows, anew at each computation: compute or persist the sketches, then learn from those"
_TWICE = (
    "is given a column several times, or by numbers from both ends, so that one change may be several: list each "
    "column once, from one end"
)
_MOVING = (
    "is for rows at a distance as they leave {map}, which each fit changes: put {step} before {map}, or a "
    "data-independent step in place of {map}"
)
_OTHER_MAPS = "was fitted behind another fit of what is before it: fit the pipeline again, or give each pipeline clones"
_MORE_BEFORE = (
    "of the steps that this was fitted behind, and that are not a part of it, none was fitted on these rows, except "
    "private ones, whose guarantees are added to this one"
)
_SAW_RELEASED = "{}: was last fitted to what was released before it, and to nothing else"
_AGAIN = "may sketch rows again within its fit: fit it without transform_input and callbacks"
_UNRECORDED = (
    "cross_validate records neither folds nor scorers: report GridSearchCV(model, {}, cv=KFold(5, shuffle=True))"
)
_TAKEN_OUT = "may have been set after the fit, in place of a step that released rows: leave the step out and fit again"
_HIDES = "holds private estimators, and how often it has them release a row is not known"
_APPLIES_NONE = "{}: applies no model that was fitted on these rows"
_PUBLISHES_NONE = "{}: publishes nothing of what it is given"
_HANDED_NONE = "{}: is handed nothing that comes from these rows"
_AS_WIDE = "{}: how many columns come out does not depend on what was released before"
_SAME_COLUMNS = "{}: rows of all that this is composed with have the same columns, in one order and of the same types"
_INDEX = "{}: the index of a frame is public, which the frames that it returns have"
_CONFIGURED = "{}: set_config(transform_output=...) was the same at the fit as now"
_NOT_PICKLED = (
    "{}: neither pickles nor diagrams of it are published, which hold what its parameters had learnt before, as no "
    "file of save_model does"
)
_JOINS = (
    "joins sketches, whose rows are numbered from 0, to columns of other rows where the index of a frame says so: "
    'set_output(transform="default")'
)
_ELIMINATES = "fits its estimator anew at each elimination, and keeps the last: a PrivacyLedger counts them all"
_APPLIES = (
    "applies private estimators, and on which rows they were fitted is not known: let them see the rows before, report"
    " the steps after them, and compose() the guarantees if both are of the same rows"
)
_FITTED_BEFORE = "holds what was fitted before, perhaps on the rows without noise: have it fitted in its place"
_KEEPS = "has a best_estimator_ of an earlier fit, perhaps to the rows without noise: fit it with refit=True"
_KEEP_NOTHING = "steps that see only what was released were last fitted to that, and keep nothing of earlier fits"
_GOES_ON = "goes on from earlier fits, perhaps to the rows without noise: set warm_start=False"
_CACHE = "caches what was released, which shows whether rows were equal: set memory=None"
_OTHER_MEMORY = "has a memory that sees the rows, and is not known here: give it the name of a folder, or joblib.Memory"
_SHOWN = "has a memory that prints rows and labels as it is called: set verbose=0 in joblib.Memory"
_OTHER_WEIGHTS = (
    "has transformer_weights, or a sparse_threshold, of a class of your own, and what that does is not known"
)
_OTHER_WORD = "is a text of a class of your own, which may be fitted"
_OTHER_CONTAINER = "puts rows into a container of your own, of which nothing is known here"
_ONCE = (
    "rows that were sketched are not sketched again: each transform, predict or score of them is one release more, "
    "also within the fit_transform of an ensemble, a search or a FrozenEstimator, and so is each time that dask "
    "computes the sketches"
)
_ALL_SINCE = "{}: all rows that it has released, it released after its last fit"
FITTED_AS_COUNTED = (
    "each step was fitted to these rows as often as is counted here: each further fit is one release more"
)
_DIFFER = "; guarantees differ, this is the last"


@dataclass(frozen=True)
class Flow:
    """What reaches a step: rows as they leave some maps, rows that something was fitted on, or what was released."""

    maps: tuple[tuple[str, object], ...] = ()
    before: tuple[str, ...] = ()  # names of the steps before, in all pipelines around
    fitted_map: str = ""
    learned: str = ""
    released: bool = False
    labels_used_by: str = ""
    searches: tuple[PrivacyGuarantee, ...] = ()  # stated of steps before or beside that won one
    is_shared: bool = False  # others see the same rows, or they come again
    is_frozen: bool = False  # it reaches what was fitted before, elsewhere


@dataclass(frozen=True)
class Part:
    """A walk through a part of an estimator: its lines, the guarantees it adds up, and what it lets through."""

    steps: tuple[ReportedStep, ...] = ()
    charges: tuple[tuple[PrivacyGuarantee, ...], ...] = ()  # one tuple for each line with releases, in order
    not_covered: tuple[str, ...] = ()
    flow: Flow = field(default_factory=Flow)
    is_known: bool = True
    assumed: tuple[str, ...] = ()  # of steps that see only what was released
    frozen: bool = False  # some of it was released before, and the parameters of the rest may follow from that

    @property
    def sketches(self):
        """Whether a step of it releases rows at each transform."""
        return any(charge.per == "transform" for group in self.charges for charge in group)

    def __add__(self, other):
        return Part(
            self.steps + other.steps,
            self.charges + other.charges,
            self.not_covered + other.not_covered,
            other.flow,
            self.is_known and other.is_known,
            self.assumed + other.assumed,
            self.frozen or other.frozen,
        )


def walk(estimator, name, flow, *, passes_on=False):
    """Report on one estimator that sees `flow`, and whose fit passes rows on to another step or not."""
    if isinstance(estimator, str) and type(estimator) is not str:  # which may have methods of a step
        return replace(_uncovered(name, type(estimator).__name__, _OTHER_WORD), is_known=False)
    if estimator is None or isinstance(estimator, str):
        return Part(flow=Flow(released=True) if estimator == "drop" else flow)
    part = _of_estimator(estimator, name, flow, passes_on=passes_on)
    if not flow.released and output_container(estimator) not in ("default", "pandas", "polars"):
        part = replace(part, not_covered=(*part.not_covered, f"{name} {_OTHER_CONTAINER}"), is_known=False)
    part = replace(part, flow=replace(part.flow, is_shared=flow.is_shared))
    part = _as_fitted(part, estimator, name or type(estimator).__name__.lower(), flow)
    if has_own_methods(estimator) and not flow.released:
        uncovered = f"{name or type(estimator).__name__.lower()} {OWN_METHODS}"
        part = replace(part, not_covered=(*part.not_covered, uncovered), is_known=False)
    # What fits and transforms at once has not sketched the rows before; a frozen one was fitted before.
    within = estimator.estimator if type(estimator) is FrozenEstimator else estimator
    if not passes_on or type(estimator) in _FIT_TRANSFORM or has_guarantee(within):
        return part
    # A fit sketched the rows, and they are sketched again to be passed on: each sketch is charged once more.
    charges = tuple((*group, group[0]) if group[0].per == "transform" else group for group in part.charges)
    steps, groups = [], iter(charges)
    for line in part.steps:
        if line.releases:
            releases = len(next(groups))
            line = replace(line, releases=releases, calls=line.calls + releases - line.releases)
        steps.append(line)
    return replace(part, steps=tuple(steps), charges=charges)


def _as_fitted(part, estimator, name, flow):
    """Compare what is before a step with what it was fitted behind, as far as that was noted.

    A second fit of a pipeline that is refused, or of another pipeline that shares a step, may leave a model behind new
    bins, or without those that it was fitted on.
    """
    behind, now = was_behind(estimator), list(flow.before)
    if behind == [NOBODY_KNOWS]:
        return replace(part, assumed=(*part.assumed, _SAW_RELEASED.format(name))) if flow.released else part
    if behind is None:
        # What is frozen, and may not be behind what was released, is charged.
        is_as_fitted = not flow.released or bool(part.charges) or not holds_fits_behind_others(estimator, now)
    elif behind == now or not (behind or flow.released):  # what was fitted by itself is charged
        is_as_fitted = True
    else:
        is_part = len(behind) > len(now) and behind[len(behind) - len(now) :] == now
        # What is frozen was fitted elsewhere: the private steps before it there have to be before it here.
        is_as_fitted = is_part or (flow.is_frozen and private_among(behind) <= private_among(now))
        part = replace(part, assumed=(*part.assumed, _MORE_BEFORE))
    if behind is not None and has_guarantee(estimator) and not is_of_library(estimator):
        # What a step of the user holds, and did not clone, may have been fitted since for another place.
        notes = known_notes(private_held_by(estimator))
        is_as_fitted &= all(note[: len(behind)] == behind for note in notes)
        if any(note != behind for note in notes):
            part = replace(part, assumed=(*part.assumed, _MORE_BEFORE))
    if is_as_fitted:
        return part
    return replace(part, not_covered=(*part.not_covered, f"{name} {_OTHER_MAPS}"), is_known=False)


def _of_estimator(estimator, name, flow, *, passes_on):
    if type(estimator) is FrozenEstimator:
        part = _of_frozen(estimator, name, flow)
        return replace(part, frozen=bool(part.charges))
    if type(estimator) is Pipeline:
        return _of_pipeline(estimator, name, flow, passes_on=passes_on)
    name = name or type(estimator).__name__.lower()
    if is_search(estimator) and not flow.released:
        return _of_search(estimator, name, flow)
    steps = branches(estimator)
    return _of_branches(estimator, steps, name, flow) if steps else _of_leaf(estimator, name, flow)


def _of_frozen(estimator, name, flow):
    if flow.released:
        # After a sketch, too, it may have been fitted on the rows themselves.
        part = walk(estimator.estimator, name, Flow(before=flow.before, is_frozen=True))
        saw_labels = name if part.charges or part.not_covered else ""
        return replace(part, flow=replace(flow, labels_used_by=flow.labels_used_by or saw_labels))
    part = walk(estimator.estimator, name, replace(flow, is_frozen=True))
    part = replace(part, flow=replace(part.flow, is_frozen=False))
    # A sketch by itself releases nothing at its fit, what has one within has released the rows of that fit.
    if flow.maps and part.sketches and not has_guarantee(estimator.estimator):
        reason = _FROZEN_AFTER.format(", ".join(map_name for map_name, _ in flow.maps))
        part = replace(part, not_covered=(*part.not_covered, f"{name} {reason}"), is_known=False)
    return part


def _of_member(step, name, flow, *, passes_on):
    """Report on a step of which no fit kept a record: a word in its place may have been set after the fit."""
    part = walk(step, name, flow, passes_on=passes_on)
    if flow.released or not (step is None or isinstance(step, str)):
        return part
    line = ReportedStep(name, str(step), "not covered", _TAKEN_OUT)
    return replace(part, steps=(line,), not_covered=(f"{name} {_TAKEN_OUT}",), is_known=False)


def _of_pipeline(pipeline, prefix, flow, *, passes_on):
    part, reasons = Part(flow=flow), ()
    if not (flow.released or _is_memory_of_joblib(pipeline.memory)):
        reasons += (_OTHER_MEMORY,)
    elif not flow.released and getattr(pipeline.memory, "store_backend", None) and pipeline.memory._verbose:
        reasons += (_SHOWN,)
    for place, (name, step) in enumerate(pipeline.steps, start=1):
        if place == len(pipeline.steps) and pipeline.memory is not None and part.charges:  # the last is not cached
            reasons += (_CACHE,)
        passed_on = passes_on or place < len(pipeline.steps)
        before = names_of_steps([step for _, step in pipeline.steps[: place - 1]])
        reached = replace(part.flow, before=(*flow.before, *before))
        part += _of_member(step, f"{prefix}.{name}" if prefix else name, reached, passes_on=passed_on)
    sketches = part.sketches
    if sketches and (getattr(pipeline, "transform_input", None) or is_watched(pipeline)):
        reasons += (_AGAIN,)
    uncovered = tuple(f"{prefix or 'pipeline'} {reason}" for reason in reasons)
    return replace(part, not_covered=part.not_covered + uncovered, is_known=part.is_known and not reasons)


def _is_memory_of_joblib(memory):
    """Whether a memory calls what fits and transforms with the rows that it is given, or recalls it, and no more."""
    if memory is None or type(memory) is str:
        return True
    store = getattr(memory, "store_backend", None)
    is_own = type(memory) is not Memory or not (store is None or type(store).__module__.startswith("joblib."))
    return not (is_own or has_own_methods(memory) or has_own_methods(store))


def _of_branches(estimator, steps, name, flow):
    """Compose branches that all see the same rows; what comes out is as private as the least private of them."""
    part, flows, searches = _each_branch(estimator, steps, name, flow)
    released = all(out.released for out in flows)
    part = _with_members(_with_frames(part, estimator, name, released=released), estimator, name)
    columns = [columns for _, _, columns in getattr(estimator, "transformers", [])]
    if not all(chooses_by_name(one, are_public=not flow.fitted_map) for one in columns):
        return replace(part, not_covered=(*part.not_covered, f"{name} {_CHOOSES}"), flow=Flow(learned=name))
    # Models that are not private have not noted what they saw of these.
    if released and type(estimator) is ColumnTransformer and has_lost_branches(estimator):
        part = replace(part, not_covered=(*part.not_covered, f"{name} {_FITTED_AGAIN}"), is_known=False)
    if not (flow.released or _has_plain_numbers(estimator)):
        part = replace(part, not_covered=(*part.not_covered, f"{name} {_OTHER_WEIGHTS}"), is_known=False)
    if _density_tells(estimator, steps, flows):
        part = replace(part, not_covered=(*part.not_covered, f"{name} {_DENSITY}"))
    maps = tuple(dict.fromkeys(step for out in flows for step in out.maps))
    if isinstance(estimator, FeatureUnion | ColumnTransformer):  # weights and repeated columns change distances
        maps += ((name, estimator),)
    words = {fact: next(filter(None, (getattr(out, fact) for out in flows)), "") for fact in _WORDS}
    if type(estimator) not in _FIT_TRANSFORM and not released:  # predictions leave it, and each fit has its own
        maps, words["fitted_map"] = (*maps, (name, estimator)), words["fitted_map"] or name
    return replace(part, flow=Flow(maps, released=released, searches=searches, **words))


def _has_plain_numbers(composite):
    """Whether what rows are multiplied by, and their share of zeros is compared to, is of Python or numpy."""
    kinds = {bool, int, float, np.ndarray, *np.sctypeDict.values()}
    weights = getattr(composite, "transformer_weights", None)
    values = [] if weights is None else weights.values() if type(weights) is dict else [weights]
    values = [*values, getattr(composite, "sparse_threshold", 0.0)]
    return all(type(one) in kinds and np.asarray(one).dtype.kind in "biuf" for one in values)


def _each_branch(estimator, steps, name, flow):
    """Add up the branches; return what they cost, what leaves each, and the searches that they state."""
    part, flows, searches = Part(flow=flow), [], flow.searches
    of_branch = _of_member if type(estimator) is FeatureUnion else walk
    for branch, step in steps:
        # What one branch states of a search, the next does not count again.
        seen = replace(flow, searches=searches, is_shared=True)
        added = of_branch(step, f"{name}.{branch}", seen, passes_on=type(estimator) in _FIT_TRANSFORM)
        searches = tuple({id(one): one for one in (*searches, *added.flow.searches)}.values())
        if added.charges and _takes_a_column_twice(estimator, branch):
            added = replace(added, not_covered=(*added.not_covered, f"{name}.{branch} {_TWICE}"), is_known=False)
        part += added
        flows.append(part.flow)
    return part, flows, searches


def _takes_a_column_twice(estimator, branch):
    """Whether a branch of columns takes one twice, by whatever names or numbers: distances are of rows with each once.

    A later fit that was refused has replaced the indices, and left the branches.
    """
    if not isinstance(estimator, ColumnTransformer) or not hasattr(estimator, "transformers_"):
        return False
    chosen = [estimator._transformer_to_input_indices.get(branch, ())]
    fitted = {name: columns for name, _, columns in estimator.transformers_}
    columns = fitted.get(branch, ())
    if not isinstance(columns, str | slice | Number) and np.asarray(columns).dtype.kind != "b":
        # Counted from the start and from the end, they depend on the width.
        is_from_both_ends = len({one < 0 for one in columns if isinstance(one, Integral)}) > 1
        if is_from_both_ends and not has_width_of_members(estimator):
            return True
        chosen.append([one % estimator.n_features_in_ if is_from_both_ends else one for one in columns])
    return any(len(set(some)) < len(some) for some in chosen)


def _with_frames(part, estimator, name, *, released):
    """Add what holds of sketches that a composite puts into a frame, which has the index of those given."""
    if not part.sketches:
        return part
    is_configured = "transform" in getattr(estimator, "_sklearn_output_config", {})
    assumed = (_CONFIGURED.format(name),) * (not is_configured and not released)
    if output_container(estimator) != "pandas":
        return replace(part, assumed=part.assumed + assumed)
    part = replace(part, assumed=(*part.assumed, *assumed, _INDEX.format(name)))
    # Where some labels are in common, which makes more rows than there were: a ColumnTransformer refuses them.
    if isinstance(estimator, FeatureUnion) and not released:
        return replace(part, not_covered=(*part.not_covered, f"{name} {_JOINS}"), is_known=False)
    return part


def _with_members(part, estimator, name):
    """Add what holds of a composite that fits clones of its members, or encodes labels for them."""
    assumed, not_covered, charges = part.assumed, part.not_covered, part.charges
    if type(estimator) is not FeatureUnion and fitted_before(estimator) is not None:  # of which it fitted clones
        assumed += (_NOT_PICKLED.format(name),)
    if is_ensemble(estimator) and charges:  # some compute labels of dask by themselves
        assumed += (SAME_ORDER,)
    if isinstance(estimator, KEEP_LABELS):
        charges = tuple(tuple(given_the_labels(charge, estimator) for charge in group) for group in charges)
    if type(estimator) is OneVsRestClassifier:
        if _is_multilabel(estimator):
            not_covered += (f"{name} {_CONSTANT}",)
        elif hasattr(estimator, "estimators_") and not has_labels_of_members(estimator):
            not_covered += (f"{name} {_OF_EARLIER_LABELS}",)
    return replace(part, assumed=assumed, not_covered=not_covered, charges=charges)


def _is_multilabel(estimator):
    """Whether labels had several columns, by all members: those of a fit that was refused may be of another kind."""
    n_classes = len(getattr(estimator, "classes_", ()))  # none in a plan
    n_members = 1 if n_classes == 2 else n_classes
    if getattr(estimator, "multilabel_", False) or (n_classes and n_members != len(estimator.estimators_)):
        return True
    return len(set(map(type, getattr(estimator, "estimators_", ())))) > 1


def _density_tells(estimator, steps, flows):
    """Whether the share of zeros in the rows may decide if a column transformer gives sparse output, now and later."""
    threshold = getattr(estimator, "sparse_threshold", 0)
    varying = any(_may_be_sparse(step) for (_, step), out in zip(steps, flows, strict=True) if not out.released)
    # At a threshold of 1, whether there are any zeros decides, unless some entry is stored in several parts.
    is_sparse = threshold == 1 and any(has_zeros(step) for _, step in steps)
    is_sparse = is_sparse and all(_stores_entries_whole(step) for _, step in steps)
    is_public = (threshold == 0 or is_sparse) and getattr(estimator, "sparse_output_", is_sparse) == is_sparse
    return varying and not is_public


_WORDS = ("fitted_map", "learned", "labels_used_by")
# The first two keep the labels that they find, the last one warns if there are many, whatever their members list.
KEEP_LABELS = (OneVsRestClassifier, VotingClassifier, MultiOutputClassifier)
_FIT_TRANSFORM = (Pipeline, FeatureUnion, ColumnTransformer)  # other composites fit, and then transform the same rows


def given_the_labels(guarantee, ensemble):
    """State a guarantee for neighbours with the same set of labels; those at a distance have the same labels anyway."""
    if guarantee.adjacency is not None and guarantee.adjacency.is_distance:
        return guarantee
    given = dict.fromkeys([guarantee.given or _THE_LABELS, _THE_LABELS])
    of_output = " of each output" * isinstance(ensemble, MultiOutputClassifier)
    assumptions = dict.fromkeys([*guarantee.assumptions, _ALIKE])
    assumptions.pop(LABELS_ARE_PUBLIC, None)  # the ensemble encodes them by their set, which is given
    return replace(
        guarantee, given=" and ".join(f"{fact}{of_output}" for fact in given), assumptions=tuple(assumptions)
    )


def _may_be_sparse(step):
    """Whether what leaves a step may be sparse, with more or fewer entries as the values say."""
    if type(step) is Pipeline:
        return _may_be_sparse(step.steps[-1][1])
    if type(step) is ColumnTransformer and step.sparse_threshold == 0:
        return False
    within = branches(step)
    return any(_may_be_sparse(branch) for _, branch in within) if within else varies_in_zeros(step)


def _stores_entries_whole(step):
    """Whether sparse rows that leave a step have each entry once: those of a function may be as it likes."""
    held = [type(one) for _, one in all_held(step, "", seen=set()) if not isinstance(one, str)]
    return all(is_in_library(kind.__module__) and kind is not FunctionTransformer for kind in held)


def _of_leaf(estimator, name, flow):
    """Report on a step without branches, and on whether it writes over the rows that it is given."""
    part = _of_step(estimator, name, flow)
    if flow.released:
        return part
    held = [one for _, one in all_held(estimator, "", seen=set())] if flow.is_shared else [estimator]
    if checks_inverse(estimator) and writes_into_rows(estimator):
        reason = _WRITES_TO_CHECK
    elif flow.is_shared and any(map(writes_into_rows, held)):
        reason = _WRITES
    else:
        # In a row of steps, those of others write over what only they are given.
        is_own = flow.is_shared and not all(is_in_library(type(one).__module__) for one in held)
        told = (_WRITES_NONE.format(name), _PUBLISHES_NONE.format(name))
        trusted = told * (is_own or any(map(_calls_own_code, held)))
        trusted += (_NOT_AGAIN.format(name),) * writes_into_rows(estimator)
        return replace(part, assumed=(*part.assumed, *trusted))
    return replace(part, not_covered=(*part.not_covered, f"{name} {reason}"), is_known=False)


def _of_step(estimator, name, flow):
    kind = type(estimator).__name__
    is_fitted = fitted_before(estimator) is not None
    keeps = is_search(estimator) and hasattr(estimator, "best_estimator_") and not has_refit(estimator)
    if flow.released and (is_fitted or keeps or getattr(estimator, "warm_start", False)):
        part = _uncovered(name, kind, _FITTED_BEFORE if is_fitted else _KEEPS if keeps else _GOES_ON)
        onward = replace(flow, labels_used_by=flow.labels_used_by or name) if is_fitted else part.flow
        return replace(part, flow=onward, is_known=not holds_private(estimator))
    # What sees only released rows may inherit, learn and release what it likes: that is post-processing.
    if may_release_more(estimator) and not flow.released:
        return replace(_uncovered(name, kind, _INHERITS), is_known=False)
    if has_guarantee(estimator):
        return _of_private_step(estimator, name, flow)
    if is_of_library(estimator):
        raise NotFittedError(
            f"{kind} is not fitted, or its last fit failed. To see what a fit will release, pass the rows and, for a "
            "model, y: privacy_report(model, X, y)."
        )
    # A function learns nothing: rows that were released may be mixed by it.
    if is_data_independent(estimator) or (flow.released and type(estimator) is FunctionTransformer):
        if holds_private(estimator):  # a function, or a method of one, that was fitted before
            return replace(_uncovered(name, kind, _APPLIES), is_known=False)
        if is_fitted:  # and what it sees was not released
            return _uncovered(name, kind, _FITTED_BEFORE)
        remark = remark_on(estimator)
        remark += _WARNS * (not flow.released and type(estimator) not in PUBLIC)
        is_one_hot = type(estimator) is PublicBinner and estimator.encode == "onehot"  # of which one value is several
        remark += _SPREADS * ((is_one_hot or isinstance(estimator, _SPREADING)) and not flow.released)
        status = "post-processing" if flow.released else "data-independent"
        step = ReportedStep(name, kind, status, remark)
        assumed = (_APPLIES_NONE.format(name),) if flow.released and _calls_own_code(estimator) else ()
        assumed += (_HANDED_NONE.format(name),) if is_handed_arrays(estimator) else ()
        return Part((step,), flow=replace(flow, maps=(*flow.maps, (name, estimator))), assumed=assumed)
    if flow.released:
        step = ReportedStep(name, kind, "post-processing", _LABELS)
        assumed = () if is_in_library(type(estimator).__module__) else (_APPLIES_NONE.format(name),)
        assumed += (_KEEP_NOTHING,)  # as fits of scikit-learn leave what others have set, such as oob_score_
        return Part((step,), flow=replace(flow, labels_used_by=flow.labels_used_by or name), assumed=assumed)
    if type(estimator) is RFE and holds_private(estimator):  # ranks are of weights that were released
        return replace(_uncovered(name, kind, _ELIMINATES), is_known=False)
    learned = _LEARNED if type(estimator).__module__.startswith("sklearn.") else _MAY_LEARN
    learned = _MAY_MIX if type(estimator) is FunctionTransformer else learned
    part = _uncovered(name, kind, learned, _cure(estimator))
    if holds_private(estimator):
        part = replace(part, not_covered=(*part.not_covered, f"{name} {_HIDES}"), is_known=False)
    return part


def _calls_own_code(step):
    """Whether a data-independent step may call what is of no library: a function, or methods of a number of its own."""
    return type(step) not in COMPOSITES and (calls_own_function(step) or holds_own_code(step))


def _uncovered(name, kind, reason, cure=""):
    remark = "; ".join(filter(None, (reason, cure)))
    line = ReportedStep(name, kind, "not covered", remark)
    return Part((line,), not_covered=(f"{name} {reason}",), flow=Flow(learned=name))


def _cure(estimator):
    """What to do about a step that learns from the rows; "" where there is no general answer."""
    if isinstance(estimator, OneHotEncoder | OrdinalEncoder):
        listed = not isinstance(estimator.categories, str)
        if listed and lists_huge_numbers(estimator):
            return "list numbers beyond 2**53 as texts"
        if listed and keeps_counts(estimator) and estimator.min_frequency is estimator.max_categories is None:
            return "keeps what an earlier fit has counted: fit a new one, such as a clone"
        return "leave out min_frequency and max_categories" if listed else "list its categories, or use DPBinner"
    if isinstance(estimator, SimpleImputer) and estimator.strategy == "constant":
        if not estimator.keep_empty_features:
            return "drops columns that are empty: set keep_empty_features=True"
        return "leave out add_indicator"
    if isinstance(estimator, SplineTransformer) and not isinstance(estimator.knots, str) and skips_missing(estimator):
        return 'set handle_missing="error", after an imputer of constants'
    if isinstance(estimator, COMPOSITES) and type(estimator) not in COMPOSITES:
        base = next(kind for kind in COMPOSITES if isinstance(estimator, kind))
        return f"use {base.__name__} of scikit-learn itself"
    return next((cure for kinds, cure in _CURES if isinstance(estimator, kinds)), "")


def _of_private_step(estimator, name, flow):
    """Charge a private step once: each of its fits, or each of its transforms, is a release."""
    kind, guarantee, transforms = type(estimator).__name__, guarantee_shown(estimator), hasattr(estimator, "transform")
    if not is_as_stated(estimator):
        return replace(_uncovered(name, kind, _SET_LATER), is_known=False)
    if won_otherwise(estimator):
        return replace(_uncovered(name, kind, WON_OTHERWISE), is_known=False)
    if flow.released:
        remark = "" if transforms else _on_labels(guarantee, flow)
        assumed = () if is_of_library(estimator) else (_KEEP_NOTHING,)
        return Part((ReportedStep(name, kind, "post-processing", remark, guarantee),), flow=flow, assumed=assumed)
    per = guarantee.per or (None if transforms else "fit")  # a model releases its weights, and nothing at predict
    if per is None:
        return replace(_uncovered(name, kind, _PER_WHAT), is_known=False)
    guarantee = _after_maps(replace(guarantee, per=per), flow.maps)
    remark, reasons, is_known = RELEASED_AT[per], (), True
    # What it released before, under another guarantee, nobody has written down.
    if getattr(estimator, "_was_fitted_otherwise", False):
        return replace(_uncovered(name, kind, _FITTED_AGAIN), is_known=False)
    if getattr(estimator, "_released_lazily", False):
        return replace(_uncovered(name, kind, _LAZY), is_known=False)
    if guarantee.violation:
        remark, reasons = _VIOLATED, (f"{name} is {_VIOLATED}: {guarantee.violation}",)
    elif flow.learned:
        remark = f"its guarantee does not hold after {flow.learned}, which is not covered"
    # Neighbours at a distance are so as they leave the transformers, and one that is fitted moves with the rows; a row
    # replaced before it is a row replaced after it.
    elif flow.fitted_map and not (guarantee.adjacency and not guarantee.adjacency.is_distance):
        remark, is_known = _MOVING.format(map=flow.fitted_map, step=name), False
        reasons = (f"{name} {remark}",)
    status = "not covered" if reasons or flow.learned else "private"
    once = _ONCE if per == "transform" else FITTED_AS_COUNTED
    if per == "transform" and not is_of_library(estimator):  # which keeps what it stated of fits before
        guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, _ALL_SINCE.format(name)))
    charge = replace(guarantee, assumptions=(*guarantee.assumptions, once))
    if per == "transform" and guarantee.adjacency is not None and not guarantee.adjacency.is_distance:
        # It has not seen the labels that belong to the rows, and steps after it may use them as they are.
        charge = replace(charge, given=" and ".join(filter(None, [charge.given, _LABELS_IN_COMMON])))
    if per == "transform":
        flow = flow if flow.learned else Flow(released=True)
    elif transforms:  # once fitted, it is a map that later rows pass as they pass any other
        flow = replace(flow, maps=(*flow.maps, (name, estimator)), fitted_map=flow.fitted_map or name)
    # The steps of a winner state one object, that of the search, which released all of them at once.
    stated = getattr(estimator, "_stated_guarantee", None)
    if stated is not None and any(one is stated for one in flow.searches):
        line = ReportedStep(name, kind, status, remark if reasons else _WON_WITH_IT, guarantee)
        return Part((line,), (), reasons, flow, is_known)
    profiles = () if stated is None or stated.loss is None else stated.loss.profiles
    if any(one.function is searched_profile for one in profiles):
        flow = replace(flow, searches=(*flow.searches, stated))
    line = ReportedStep(name, kind, status, remark, guarantee, releases=1, calls=1)
    return Part((line,), ((charge,),), reasons, flow, is_known)


def _on_labels(guarantee, flow):
    """Say what the guarantee of a private model after a sketch is worth: the labels of its neighbours may differ."""
    if guarantee.definition is not Definition.DP or guarantee.adjacency is None or guarantee.adjacency.is_distance:
        return "its guarantee is not one for labels"
    if flow.labels_used_by:
        return f"its guarantee is void for the labels: {flow.labels_used_by} saw them"
    return "its guarantee is for the labels"


def _after_maps(guarantee, maps):
    """State a guarantee of rows that passed maps: distances are those of the rows that leave them."""
    if not maps:
        return guarantee
    mapped = [f"{', '.join(name for name, _ in maps)}: {_ROW_BY_ROW}"]
    functions = [name for name, step in maps if _calls_own_code(step)]
    if functions:  # what a function applies can be hidden from any search of it
        mapped.append(_APPLIES_NONE.format(", ".join(functions)))
        if any(has_guarantee(step) for _, step in maps):  # or noise of one release would calibrate the next
            mapped.append(_AS_WIDE.format(", ".join(functions)))
    adjacency = guarantee.adjacency
    if adjacency is not None and adjacency.is_distance:
        # Who states a guarantee may name maps within, which come after those before it.
        passed = [*(map_label(*one) for one in maps), *filter(None, [adjacency.after])]
        adjacency = replace(adjacency, after=", ".join(passed))
        mapped.append(_SAME_COLUMNS.format(", ".join(name for name, _ in maps)))
    assumptions = dict.fromkeys([*guarantee.assumptions, *mapped, TYPES_ARE_PUBLIC, ROWS_ARE_READ_ALONE])
    return replace(guarantee, adjacency=adjacency, assumptions=tuple(assumptions))


def _of_search(search, name, flow):
    """Report on all candidates in all folds and on the refit, if what they released was recorded."""
    flow = replace(flow, is_shared=True)  # by fits, and by scorers
    is_refitted = has_refit(search)
    refit = walk(search.best_estimator_, "", flow) if is_refitted else Part(flow=flow)
    count = f"{len(search.cv_results_['params'])} candidates x {search.n_splits_} folds" + " + refit" * is_refitted
    scores = _SCORES + _SKETCH_ONCE * refit.sketches
    head = ReportedStep(name, count, "not covered", scores)
    try:
        lines, charges = releases_of_search(search, refit, lambda candidate: walk(candidate, "", flow))
        reasons, is_known = refit.not_covered, True
    except NotKnown as reason:
        head, lines, charges = replace(head, remark=str(reason)), (), ()
        reasons, is_known = (f"{name}: {reason}", *refit.not_covered), False
    uncovered = (*reasons, f"{name}: {scores}")
    return Part((head, *lines), charges, uncovered, Flow(learned=name), is_known, refit.assumed, refit.frozen)


def of_cross_validation(results):
    """Report on the estimators of a cross-validation, one line for a step of all; what a row paid is not known."""
    if not results.get("estimator"):
        raise ValueError("A cross-validation is reported from its estimators: cross_validate(return_estimator=True).")
    name, folds = "cross-validation", [walk(estimator, "", Flow()) for estimator in results["estimator"]]
    lines = []
    for i in range(len(folds[-1].steps)):
        fits = [fold.steps[i] for fold in folds if i < len(fold.steps)]
        # The last of the worst, violated or uncovered: max keeps the first of equals.
        worst = max(
            reversed(fits),
            key=lambda line: (bool(line.guarantee and line.guarantee.violation), line.status == "not covered"),
        )
        remark = worst.remark + _DIFFER * (len({line.guarantee for line in fits}) > 1)
        lines.append(replace(worst, releases=0, remark=remark))
    head = ReportedStep(name, f"{len(folds)} folds", "not covered", _UNRECORDED)
    uncovered = (text for fold in folds for text in fold.not_covered)
    return Part((head, *lines), (), (*uncovered, f"{name}: {_UNRECORDED}", f"{name}: {_SCORES}"), is_known=False)
