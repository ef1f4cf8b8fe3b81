"""Privacy reports: what the steps of a pipeline, a search or a cross-validation release, and what all cost together."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.model_selection import KFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedKFold, check_cv
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import BaseRandomProjection

from ._fixed_maps import chooses_by_name, is_fixed_map, map_label, remark_on, varies_in_zeros
from ._label import RELEASED_AT, as_html, wrap
from .guarantee import Adjacency, Definition, PrivacyGuarantee, compose

_SAME_ROWS = (OneVsRestClassifier, MultiOutputClassifier, MultiOutputRegressor, VotingClassifier, VotingRegressor)
_SPREADING = (
    AdditiveChi2Sampler,
    BaseRandomProjection,
    FeatureHasher,
    FunctionTransformer,
    HashingVectorizer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
)
_CURES = (
    (
        (MaxAbsScaler, MinMaxScaler, PowerTransformer, QuantileTransformer, RobustScaler, StandardScaler),
        "use PublicScaler",
    ),
    (SimpleImputer, 'set strategy="constant", keep_empty_features=True'),
    (CountVectorizer, "use HashingVectorizer"),
)
_K_FOLDS = (KFold, StratifiedKFold, RepeatedKFold, RepeatedStratifiedKFold)
_SCORES = "scores, and what is chosen by them, are computed from held-out rows without noise"
_LEARNED = "learns from the rows without noise"
_MAY_LEARN = "may learn from the rows without noise"
_SPREADS = "; one change before it may move several coordinates after it"
_DENSITY = "keeps whether most values were zero in sparse_output_: set sparse_threshold=0"
_LABELS = "sees what was released; labels, if it uses any, as they are"
_UNKNOWN = "what the candidates promise does not follow from their parameters and the refit"
_NO_REFIT = "what the candidates promise is not known without a refit: search with refit=True"
_VIOLATED = "VIOLATED by an audit"
_ONCE = "no row is twice in a training set"
_COLUMNS = ("step", "estimator", "status", "releases", "guarantee", "remark")


@dataclass(frozen=True)
class ReportedStep:
    """One line of a :class:`~skdprp.report.PrivacyReport`.

    Parameters
    ----------
    step : str
        Where the step is.
    estimator : str
        What it is.
    status : {"private", "post-processing", "fixed map", "not covered"}
        "private" steps randomise what private rows tell; "post-processing" sees only what they released; a "fixed map"
        treats each row by itself and learns nothing.
    remark : str, default=""
        Why, or what else to know.
    guarantee : PrivacyGuarantee or None, default=None
        What one release of a private step promises.
    releases : int, default=0
        How many such releases were made.
    """

    step: str
    estimator: str
    status: str
    remark: str = ""
    guarantee: PrivacyGuarantee | None = None
    releases: int = 0

    def cells(self):
        """Texts of the columns of the report.

        Returns
        -------
        tuple of str
        """
        counted = str(self.releases) if self.releases else ""
        guarantee = "" if self.guarantee is None else repr(self.guarantee)
        return self.step, self.estimator, self.status, counted, guarantee, self.remark


@dataclass(frozen=True)
class PrivacyReport:
    """What an estimator released and what that costs, step by step: see :func:`~skdprp.privacy_report`.

    Parameters
    ----------
    steps : tuple of ReportedStep
        The lines of the table.
    private : PrivacyGuarantee or None
        What all private steps cost together; None if there is none, or if that is not known.
    not_covered : tuple of str
        What is released besides, under no guarantee.
    """

    steps: tuple[ReportedStep, ...]
    private: PrivacyGuarantee | None
    not_covered: tuple[str, ...]

    @property
    def total(self):
        """What the whole promises: None as soon as something is not covered."""
        return None if self.not_covered else self.private

    def frame(self):
        """Return the table as a data frame.

        Returns
        -------
        DataFrame of pandas
        """
        import pandas as pd

        return pd.DataFrame([step.cells() for step in self.steps], columns=_COLUMNS)

    def __repr__(self):
        table = [_COLUMNS, *(step.cells() for step in self.steps)]
        widths = [max(len(cells[i]) for cells in table) for i in range(len(_COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table]
        facts = [wrap(f"{name}: {fact}", indent=4) for name, fact in self._conclusions().items()]
        return "\n".join(line.rstrip() for line in [*lines, "", *facts])

    def _repr_html_(self):
        head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in _COLUMNS)
        rows = (
            "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in step.cells())
            for step in self.steps
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>" + as_html("Privacy of the whole", self._conclusions())

    def _conclusions(self):
        """What holds of the whole, under the names that a printed guarantee has for it."""
        facts = {"total": "none" if self.total is None else repr(self.total)}
        uncovered = self.not_covered
        if self.not_covered:
            facts["private steps alone"] = "none" if self.private is None else repr(self.private)
        if self.private is not None:
            facts["unit"] = self.private.unit
            facts["neighbours"] = str(self.private.adjacency)
            facts["given"] = self.private.given
            facts["released"] = self.private.released
            facts["assumed"] = "; ".join(self.private.assumptions)
            facts["mechanism"] = self.private.mechanism.partition(":")[0]
            uncovered += self.private.not_covered
        facts["not covered"] = "; ".join(uncovered)
        return {name: fact for name, fact in facts.items() if fact}


@dataclass(frozen=True)
class _Flow:
    """What reaches a step: rows by way of fixed maps, rows that something was fitted on, or what was released."""

    maps: tuple[tuple[str, object], ...] = ()
    learned: str = ""
    released: bool = False
    labels_used_by: str = ""


@dataclass(frozen=True)
class _Part:
    """A walk through a part of an estimator: its lines, the guarantees it adds up, and what it lets through."""

    steps: tuple[ReportedStep, ...] = ()
    charges: tuple[PrivacyGuarantee, ...] = ()
    not_covered: tuple[str, ...] = ()
    flow: _Flow = _Flow()

    def __add__(self, other):
        steps, charges = self.steps + other.steps, self.charges + other.charges
        return _Part(steps, charges, self.not_covered + other.not_covered, other.flow)


def privacy_report(estimator):
    """Report what a fitted estimator released, what is covered by a guarantee, and what all of it costs.

    Parameters
    ----------
    estimator : estimator or dict
        An estimator, Pipeline, FeatureUnion, ColumnTransformer, one-vs-rest, multi-output or voting ensemble, a
        parameter search, or the result of ``cross_validate(..., return_estimator=True)``; fitted.

    Returns
    -------
    PrivacyReport
        With a table of all steps; ``total``, the composed guarantee, or None if something is not covered; and
        ``private``, the composed guarantee of the private steps alone.

    Raises
    ------
    TypeError
        If `estimator` is neither an estimator nor a dictionary.
    NotFittedError
        If a private step was not fitted.
    ValueError
        If a dictionary holds no estimators.

    Notes
    -----
    What comes after a private sketch is post-processing and costs nothing, but may learn from labels as they are. Steps
    that learn from rows without noise are not covered, nor is what follows them: their private successors assume rows
    that reach them by a map that was not fitted on them. Fixed maps are :class:`~skdprp.PublicScaler` and those of
    scikit-learn that are known to treat each row by itself. The columns of a ColumnTransformer are composed as if a
    change could reach all of them.

    A search releases candidates times folds, and the refit, which is charged as the dearest candidate: the choice
    depends on the rows. In each fold a row is sketched once for fitting or once for each scorer, or both where training
    rows are scored as well. The scores are not covered.

    A step whose guarantee was violated by an audit that is attached to it, ``step.guarantee_ =
    result.attach_to(step.guarantee_)``, is not covered.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdprp import AMPClassifier, privacy_report
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), AMPClassifier(delta=1e-6)).fit(X, y)
    >>> report = privacy_report(model)
    >>> print(report.total, report.private.epsilon)
    None 1.0
    >>> report.not_covered
    ('standardscaler learns from the rows without noise',)
    """
    if isinstance(estimator, type):
        raise TypeError(f"Reports are about fitted estimators, not their class: {estimator.__name__}().fit(X, y).")
    if not isinstance(estimator, Mapping) and not hasattr(estimator, "get_params"):
        raise TypeError(f"Reports are about estimators and results of cross_validate, not {type(estimator).__name__}.")
    part = _of_results(estimator) if isinstance(estimator, Mapping) else _walk(estimator, "", _Flow())
    not_covered = part.not_covered
    private = None
    if part.charges and not {_UNKNOWN, _NO_REFIT} & set(not_covered):
        try:
            private = replace(compose(*part.charges), per=None)
        except ValueError as error:
            not_covered += (str(error),)
    return PrivacyReport(part.steps, private, tuple(dict.fromkeys(not_covered)))


def _walk(estimator, name, flow):
    """Report on one estimator that sees `flow`."""
    if estimator is None or isinstance(estimator, str):
        return _Part(flow=_Flow(released=True) if estimator == "drop" else flow)
    if isinstance(estimator, FrozenEstimator):
        return _walk(estimator.estimator, name, flow)
    if _is_search(estimator) and not flow.released:
        return _of_search(estimator, name or _kind(estimator).lower(), flow)
    if isinstance(estimator, Pipeline):
        return _in_sequence(estimator.steps, name, flow)
    branches = _branches(estimator)
    name = name or _kind(estimator).lower()
    return _side_by_side(estimator, branches, name, flow) if branches else _of_step(estimator, name, flow)


def _kind(estimator):
    return type(estimator).__name__


def _is_search(estimator):
    return hasattr(estimator, "n_splits_") and "params" in getattr(estimator, "cv_results_", {})


def _is_private(estimator):
    return type(estimator).__module__.startswith("skdprp.") and hasattr(estimator, "epsilon")


def _in_sequence(steps, prefix, flow):
    part = _Part(flow=flow)
    for name, step in steps:
        part += _walk(step, f"{prefix}.{name}" if prefix else name, part.flow)
    return part


def _branches(estimator):
    """Names and estimators of what sees the same rows side by side; fitted where `estimator` is."""
    if isinstance(estimator, FeatureUnion):
        return estimator.transformer_list
    if isinstance(estimator, ColumnTransformer):
        unfitted = [*estimator.transformers, ("remainder", estimator.remainder, None)]
        branches = getattr(estimator, "transformers_", unfitted)
        return [(name, step) for name, step, columns in branches if np.size(columns) or isinstance(columns, slice)]
    if isinstance(estimator, _SAME_ROWS):
        return list(enumerate(getattr(estimator, "estimators_", [])))
    return []


def _side_by_side(estimator, branches, name, flow):
    """Compose branches that all see the same rows; what comes out is as private as the least private of them."""
    part, flows = _Part(flow=flow), []
    for branch, step in branches:
        part += _walk(step, f"{name}.{branch}", flow)
        flows.append(part.flow)
    if _chooses_columns(estimator):
        return replace(part, not_covered=(*part.not_covered, f"{name} {_LEARNED}"), flow=_Flow(learned=name))
    if _keeps_density(estimator, branches) and not flow.released:
        part = replace(part, not_covered=(*part.not_covered, f"{name} {_DENSITY}"))
    learned = next((out.learned for out in flows if out.learned), "")
    maps = tuple(dict.fromkeys(step for out in flows for step in out.maps))
    if isinstance(estimator, FeatureUnion | ColumnTransformer):  # weights and repeated columns change distances
        maps += ((name, estimator),)
    labels = next((out.labels_used_by for out in flows if out.labels_used_by), "")
    return replace(part, flow=_Flow(maps, learned, all(out.released for out in flows), labels))


def _keeps_density(estimator, branches):
    """Whether the share of zeros in the rows decides if a column transformer gives sparse output, now and later."""
    if getattr(estimator, "sparse_threshold", 0) == 0:
        return False
    steps = [step for _, branch in branches for step in _all_steps(branch)]
    return any(map(varies_in_zeros, steps))


def _all_steps(estimator):
    """Yield an estimator and everything inside of it."""
    inside = estimator.steps if isinstance(estimator, Pipeline) else _branches(estimator)
    for _, step in inside:
        yield from _all_steps(step)
    yield estimator


def _chooses_columns(estimator):
    """Whether a function chooses the columns in view of the rows, and not by their names and types."""
    columns = [columns for _, _, columns in getattr(estimator, "transformers", [])]
    return any(not chooses_by_name(choice) for choice in columns)


def _of_step(estimator, name, flow):
    if hasattr(estimator, "guarantee_"):
        return _of_private_step(estimator, name, flow)
    if _is_private(estimator):
        raise NotFittedError(f"{_kind(estimator)} is not fitted, or its last fit failed: its guarantee is unknown.")
    if is_fixed_map(estimator):
        remark = remark_on(estimator)
        remark += _SPREADS * (isinstance(estimator, _SPREADING) and not flow.released)
        step = ReportedStep(name, _kind(estimator), "post-processing" if flow.released else "fixed map", remark)
        return _Part((step,), flow=replace(flow, maps=(*flow.maps, (name, estimator))))
    if flow.released:
        step = ReportedStep(name, _kind(estimator), "post-processing", _LABELS)
        return _Part((step,), flow=replace(flow, labels_used_by=flow.labels_used_by or name))
    learned = _LEARNED if type(estimator).__module__.startswith("sklearn.") else _MAY_LEARN
    step = ReportedStep(name, _kind(estimator), "not covered", "; ".join(filter(None, (learned, _cure(estimator)))))
    return _Part((step,), not_covered=(f"{name} {learned}",), flow=_Flow(learned=name))


def _cure(estimator):
    """What to do about a step that learns from the rows; "" where there is no general answer."""
    if isinstance(estimator, OneHotEncoder | OrdinalEncoder):
        listed = not isinstance(estimator.categories, str)
        return "leave out min_frequency and max_categories" if listed else "list its categories"
    if isinstance(estimator, SimpleImputer) and estimator.strategy == "constant":
        if not estimator.keep_empty_features:
            return "drops columns that are empty: set keep_empty_features=True"
        return "leave out add_indicator"
    return next((cure for kinds, cure in _CURES if isinstance(estimator, kinds)), "")


def _of_private_step(estimator, name, flow):
    kind, guarantee, is_sketch = _kind(estimator), estimator.guarantee_, hasattr(estimator, "transform")
    if flow.released:
        return _Part((ReportedStep(name, kind, "post-processing", _on_labels(is_sketch, flow), guarantee),), flow=flow)
    guarantee = _after_maps(guarantee, flow.maps)
    status = "not covered" if flow.learned or guarantee.violation else "private"
    remark = _remark(guarantee, flow, RELEASED_AT["transform" if is_sketch else "fit"])
    violated = (f"{name} is {_VIOLATED}: {guarantee.violation}",) if guarantee.violation else ()
    out = _Flow(released=True) if is_sketch and not flow.learned else flow
    return _Part((ReportedStep(name, kind, status, remark, guarantee, 1),), (guarantee,), violated, out)


def _remark(guarantee, flow, otherwise):
    if guarantee.violation:
        return _VIOLATED
    return f"assumes rows that no step was fitted on, but {flow.learned} was" if flow.learned else otherwise


def _on_labels(is_sketch, flow):
    """Say what the guarantee of a private step after a sketch is worth."""
    if is_sketch:
        return ""
    if flow.labels_used_by:
        return f"its guarantee is void for the labels: {flow.labels_used_by} saw them"
    return "its guarantee is for the labels"


def _after_maps(guarantee, maps):
    """State a guarantee of rows that passed fixed maps: distances are those of the rows that leave them."""
    if not maps:
        return guarantee
    assumption = f"{', '.join(name for name, _ in maps)}: fixed maps that treat each row by itself"
    adjacency = guarantee.adjacency
    if adjacency is not None and adjacency.is_distance:
        adjacency = replace(adjacency, after=", ".join(map_label(*one) for one in maps))
    return replace(guarantee, adjacency=adjacency, assumptions=(*guarantee.assumptions, assumption))


def _of_results(results):
    """Report on a cross-validation: every fold is a release of its own."""
    if not results.get("estimator"):
        raise ValueError("A cross-validation is reported from its estimators: cross_validate(return_estimator=True).")
    n_scorers = sum(name.startswith("test_") for name in results)
    scorings = n_scorers + (1 if any(name.startswith("train_") for name in results) else 0)
    folds = [_times(_walk(estimator, "", _Flow()), scorings) for estimator in results["estimator"]]
    return _repeated(folds, "cross-validation", f"{len(folds)} folds")


def _times(part, scorings):
    """Charge sketches as often as one row may be sketched in a fold, to be fitted on or to be scored."""
    charges = tuple(charge for charge in part.charges for _ in range(scorings if _is_sketch(charge) else 1))
    steps = tuple(
        replace(step, releases=step.releases * scorings) if _is_sketch(step.guarantee) else step for step in part.steps
    )
    return replace(part, charges=charges, steps=steps)


def _is_sketch(guarantee):
    return guarantee is not None and guarantee.per == "transform"


def _repeated(folds, name, count):
    """Add up fits of the same steps: the worst line of each, or the last, with the number of releases of all."""
    last = (
        "; guarantees differ, this is the worst or the last" if len({_guarantees(fold) for fold in folds}) > 1 else ""
    )
    lines = [
        replace(worst, releases=_total_releases(folds, i), remark=worst.remark + last * bool(worst.releases))
        for i, worst in enumerate(_worst(folds, i) for i in range(len(folds[-1].steps)))
    ]
    head = ReportedStep(name, count, "not covered", _SCORES)
    charges = tuple(replace(one, assumptions=(*one.assumptions, _ONCE)) for fold in folds for one in fold.charges)
    uncovered = tuple(text for fold in folds for text in fold.not_covered)
    return _Part((head, *lines), charges, (*uncovered, f"{name}: {_SCORES}"), _Flow(learned=name))


def _worst(folds, i):
    """Line of a violated or uncovered fit of a step, or of its last fit."""
    lines = [fold.steps[i] for fold in reversed(folds) if i < len(fold.steps)]
    return max(
        lines, key=lambda line: (bool(line.guarantee and line.guarantee.violation), line.status == "not covered")
    )


def _total_releases(folds, i):
    return sum(fold.steps[i].releases for fold in folds if i < len(fold.steps))


def _guarantees(part):
    return tuple((charge.epsilon, charge.delta, charge.definition) for charge in part.charges)


def _of_search(search, name, flow):
    """Report on candidates x folds, as their parameters promise, and on the refit."""
    results, n_splits = search.cv_results_, search.n_splits_
    refit = _walk(search.best_estimator_, "", flow) if hasattr(search, "best_estimator_") else None
    count = f"{len(results['params'])} candidates x {n_splits} folds" + (" + refit" if refit is not None else "")
    candidates = [_of_candidate(search, params, refit, flow) for params in results["params"]]
    dearest = _dearest(candidates, refit)
    if dearest is None:
        unknown = _UNKNOWN if search.refit else _NO_REFIT
        uncovered = (unknown, f"{name}: {_SCORES}")
        return _Part((ReportedStep(name, count, "not covered", unknown),), (), uncovered, _Flow(learned=name))
    if "n_resources" in results:  # the rows choose which candidates go on
        candidates = [dearest] * len(candidates)
    scorings = _n_scorers(search) + int(search.return_train_score)
    folds = [_times(candidate, scorings) for candidate in candidates for _ in range(n_splits)]
    last = [] if refit is None else [replace(refit, charges=dearest.charges)]
    return _repeated(folds + last, name, count)


def _n_scorers(search):
    """How often a row may be sketched to be scored."""
    return len(search.scorer_) if isinstance(search.scorer_, Mapping) else 1


def _dearest(candidates, refit):
    """Return a part that costs as much as any candidate; None if that cannot be said."""
    if None in candidates:
        return None
    first = candidates[0] if refit is None else refit
    if any(len(one.charges) != len(first.charges) for one in candidates):
        return None
    try:
        weakest = tuple(map(_weakest, zip(*(one.charges for one in candidates), strict=True)))
    except ValueError:  # their neighbours are not the same
        return None
    return replace(first, charges=weakest)


def _weakest(guarantees):
    """State the weakest of several guarantees: all of them imply it."""
    if len(set(guarantees)) == 1:
        return guarantees[0]
    epsilon, delta = max(one.epsilon for one in guarantees), max(one.delta for one in guarantees)
    adjacency = guarantees[0].adjacency
    for one in guarantees:
        adjacency = adjacency.narrower(one.adjacency)
    violation = next((one.violation for one in guarantees if one.violation), "")
    return replace(guarantees[0], epsilon=epsilon, delta=delta, adjacency=adjacency, loss=None, violation=violation)


def _of_candidate(search, params, refit, flow):
    """Walk a candidate that was fitted and thrown away, by what its parameters promise; None if that is not known."""
    if refit is None and search.refit:
        return None
    candidate = clone(search.estimator).set_params(**clone(params, safe=False))
    references = dict(_private_steps(search.best_estimator_)) if refit is not None else {}
    try:
        for path, step in _private_steps(candidate):
            step.guarantee_ = _promise(step, references[path], search)
        return _walk(candidate, "", flow)
    except (KeyError, ValueError):  # NotFittedError is a ValueError
        return None


def _private_steps(estimator, path=""):
    """Yield the path and the step of everything of this library inside."""
    steps = estimator.steps if isinstance(estimator, Pipeline) else _branches(estimator)
    for name, step in steps:
        yield from _private_steps(step, f"{path}.{name}")
    if _is_private(estimator):
        yield path, estimator


def _promise(step, reference, search):
    """Guarantee of a step with these parameters; `reference` is the same step of the refit."""
    if type(step) is not type(reference) or getattr(step, "calibration", "") == "published":
        raise ValueError("The guarantee depends on more than the parameters.")
    known = reference.guarantee_
    if hasattr(step, "transform"):  # fitted from the number of features alone
        promise = clone(step).set_params(random_state=0).fit(np.zeros((1, reference.n_features_in_))).guarantee_
        return replace(promise, seeded=known.seeded, violation=known.violation)
    if known.definition is not Definition.DP:
        if step.get_params() != reference.get_params():
            raise ValueError("The guarantee depends on more than the parameters.")
        return known
    delta = step.delta if step.delta is not None else _delta_of_folds(reference, search)
    adjacency = Adjacency(getattr(step, "adjacency", known.adjacency.relation))
    return replace(known, epsilon=step.epsilon, delta=delta, adjacency=adjacency, loss=None)


def _delta_of_folds(reference, search):
    """Largest delta = 1 / n^2 of any fold; the refit knows the number of rows."""
    is_count = search.cv is None or isinstance(search.cv, Integral)
    cv = check_cv(search.cv) if is_count else search.cv
    if reference.delta is not None or not isinstance(cv, _K_FOLDS) or "n_resources" in search.cv_results_:
        raise ValueError("The number of rows of a fold is not known.")
    n_samples = round(reference.delta_**-0.5)
    n_splits = cv.cvargs["n_splits"] if hasattr(cv, "cvargs") else cv.n_splits
    return 1.0 / max(n_samples - -(-n_samples // n_splits), 2) ** 2
