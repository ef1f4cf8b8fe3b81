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
from sklearn.model_selection import KFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedKFold, check_cv
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.random_projection import BaseRandomProjection
from sklearn.utils import get_tags

from .guarantee import Adjacency, PrivacyGuarantee, compose, label_html

_SAME_ROWS = (OneVsRestClassifier, MultiOutputClassifier, MultiOutputRegressor, VotingClassifier, VotingRegressor)
_FROM_SHAPE_ALONE = (BaseRandomProjection, PolynomialFeatures)
_K_FOLDS = (KFold, StratifiedKFold, RepeatedKFold, RepeatedStratifiedKFold)
_SCORES = "scores, and what is chosen by them, are computed from held-out rows without noise"
_FIXED = "learns nothing from the rows"
_LEARNED = "learns from the rows without noise"
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
        What all private steps cost together; None if there is none.
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
        facts = [f"{name}: {fact}" for name, fact in self._conclusions().items()]
        return "\n".join(line.rstrip() for line in [*lines, "", *facts])

    def _repr_html_(self):
        head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in _COLUMNS)
        rows = (
            "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in step.cells())
            for step in self.steps
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>" + label_html("Privacy of the whole", self._conclusions())

    def _conclusions(self):
        facts = {"total": "none" if self.total is None else repr(self.total)}
        if self.not_covered:
            facts["not covered"] = "; ".join(self.not_covered)
            facts["private steps alone"] = "none" if self.private is None else repr(self.private)
        if self.private is not None:
            facts["unit"] = self.private.unit
            facts["neighbours"] = str(self.private.adjacency)
            facts["outside it"] = "; ".join(self.private.not_covered)
            facts["computed by"] = self.private.mechanism.partition(":")[0]
        return facts


@dataclass(frozen=True)
class _Part:
    """A walk through a part of an estimator: its lines, the guarantees it adds, and what it lets through."""

    steps: tuple = ()
    charges: tuple = ()
    not_covered: tuple = ()
    flow: str = "rows"  # what comes out: "rows", "released" or, of a map learned from rows, its name

    def __add__(self, other):
        return _Part(
            self.steps + other.steps,
            self.charges + other.charges,
            self.not_covered + other.not_covered,
            other.flow,
        )


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
    NotFittedError
        If a private step was not fitted.
    ValueError
        If the guarantees of the private steps do not compose, or a dictionary holds no estimators.

    Notes
    -----
    What comes after a private sketch is post-processing and costs nothing, but learns from labels as they are. Steps
    that learn from rows without noise are not covered, nor is what follows them: their private successors assume rows
    that reach them by a map that was not fitted on them. The columns of a ColumnTransformer are composed as if a change
    could reach all of them. A search releases candidates times folds, and the refit; a row is in all of these, or in
    all but one of each candidate's folds. Its scores are not covered.

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
    part = _of_results(estimator) if isinstance(estimator, Mapping) else _walk(estimator, "", "rows")
    private = compose(*part.charges) if part.charges else None
    return PrivacyReport(part.steps, private, tuple(dict.fromkeys(part.not_covered)))


def _walk(estimator, name, flow):
    """Report on one estimator that sees `flow`."""
    name = name or type(estimator).__name__.lower()
    if isinstance(estimator, str) or estimator is None:
        return _Part(flow="released" if estimator == "drop" else flow)
    if hasattr(estimator, "cv_results_"):
        return _of_search(estimator, name, flow)
    if isinstance(estimator, Pipeline):
        return _in_sequence(estimator.steps, flow)
    branches = _branches(estimator)
    return _side_by_side(branches, name, flow) if branches else _of_step(estimator, name, flow)


def _in_sequence(steps, flow):
    part = _Part(flow=flow)
    for name, step in steps:
        part += _walk(step, name, part.flow)
    return part


def _side_by_side(branches, name, flow):
    """Compose branches that all see the same rows; what comes out is as private as the least private of them."""
    part, flows = _Part(flow=flow), []
    for branch, step in branches:
        part += _walk(step, f"{name}.{branch}", flow)
        flows.append(part.flow)
    learned = [out for out in flows if out not in ("rows", "released")]
    return replace(part, flow=(learned or ["rows"] if "rows" in flows or learned else ["released"])[0])


def _of_step(estimator, name, flow):
    kind = type(estimator).__name__
    if hasattr(estimator, "guarantee_"):
        return _of_private_step(estimator, name, flow)
    if _is_private(estimator):
        raise NotFittedError(f"{kind} is not fitted, or its last fit failed: its guarantee is known after fit.")
    if flow == "released":
        needs_labels = get_tags(estimator).target_tags.required
        remark = "learns from the labels as they are" if needs_labels else ""
        return _Part((ReportedStep(name, kind, "post-processing", remark),), flow=flow)
    if flow == "rows" and (not get_tags(estimator).requires_fit or isinstance(estimator, _FROM_SHAPE_ALONE)):
        remark = "is trusted to treat each row by itself" if kind == "FunctionTransformer" else _FIXED
        return _Part((ReportedStep(name, kind, "fixed map", remark),), flow=flow)
    return _Part((ReportedStep(name, kind, "not covered", _LEARNED),), not_covered=(f"{name} {_LEARNED}",), flow=name)


def _of_private_step(estimator, name, flow):
    kind, guarantee = type(estimator).__name__, estimator.guarantee_
    out = "released" if hasattr(estimator, "transform") else flow
    if flow == "released":
        remark = "of rows, post-processing; its guarantee is for the labels" if hasattr(estimator, "predict") else ""
        return _Part((ReportedStep(name, kind, "post-processing", remark, guarantee),), flow=flow)
    if flow != "rows":
        remark = f"assumes rows that no step was fitted on, but {flow} was"
        return _Part((ReportedStep(name, kind, "not covered", remark, guarantee, 1),), (guarantee,), flow=flow)
    remark = "once for each row at each call of transform" if out == "released" else "once for each call of fit"
    return _Part((ReportedStep(name, kind, "private", remark, guarantee, 1),), (guarantee,), flow=out)


def _of_results(results):
    """Report on a cross-validation: every fold is a release of its own."""
    if "estimator" not in results:
        raise ValueError("A cross-validation is reported from its estimators: cross_validate(return_estimator=True).")
    folds = [_walk(estimator, "", "rows") for estimator in results["estimator"]]
    return _repeated(folds, "cross-validation", f"{len(folds)} folds")


def _repeated(folds, name, count):
    """Add up fits of the same steps: the lines of one of them, with the number of releases of all."""
    last = "; guarantees differ, this is the last" if len({_guarantees(fold) for fold in folds}) > 1 else ""
    lines = tuple(
        replace(step, releases=step.releases * len(folds), remark=step.remark + (last if step.releases else ""))
        for step in folds[-1].steps
    )
    head = ReportedStep(name, count, "not covered", _SCORES)
    charges = tuple(charge for fold in folds for charge in fold.charges)
    uncovered = tuple(text for fold in folds for text in fold.not_covered)
    return _Part((head, *lines), charges, (*uncovered, f"{name}: {_SCORES}"), folds[-1].flow)


def _guarantees(part):
    return tuple(repr(charge) for charge in part.charges)


def _of_search(search, name, flow):
    """Report on candidates x folds, as their parameters promise, and on the refit."""
    refit = _walk(search.best_estimator_, "", flow) if hasattr(search, "best_estimator_") else None
    candidates, n_splits = search.cv_results_["params"], search.n_splits_
    folds = [_of_candidate(search, params, refit, flow) for params in candidates for _ in range(n_splits)]
    count = f"{len(candidates)} candidates x {n_splits} folds" + (" + refit" if refit is not None else "")
    return _repeated(folds + ([refit] if refit is not None else []), name, count)


def _of_candidate(search, params, refit, flow):
    """Walk a candidate that was fitted and thrown away: what it promises follows from its parameters."""
    candidate = clone(search.estimator).set_params(**params)
    references = dict(_private_steps(search.best_estimator_)) if refit is not None else {}
    for path, step in _private_steps(candidate):
        promise = _promise(step, references.get(path), search)
        if promise is None:
            return replace(_UNKNOWN, not_covered=(_UNKNOWN.not_covered[0].format(type(step).__name__),))
        step.guarantee_ = promise
    return _walk(candidate, "", flow)


_UNKNOWN = _Part(not_covered=("what the {} of a candidate promises does not follow from its parameters and the refit",))


def _private_steps(estimator, path=""):
    """Yield the path and the step of everything of this library inside."""
    for name, step in _branches(estimator):
        yield from _private_steps(step, f"{path}.{name}")
    if _is_private(estimator):
        yield path, estimator


def _branches(estimator):
    if isinstance(estimator, Pipeline):
        return estimator.steps
    if isinstance(estimator, FeatureUnion):
        return estimator.transformer_list
    if isinstance(estimator, ColumnTransformer):
        unfitted = [*estimator.transformers, ("remainder", estimator.remainder)]
        return [branch[:2] for branch in getattr(estimator, "transformers_", unfitted)]
    if isinstance(estimator, _SAME_ROWS):
        return list(enumerate(getattr(estimator, "estimators_", [])))
    return []


def _is_private(estimator):
    return type(estimator).__module__.startswith("skdprp.") and hasattr(estimator, "epsilon")


def _promise(step, reference, search):
    """Guarantee of a step with these parameters, or None; `reference` is the same step of the refit."""
    if type(step) is not type(reference) or getattr(step, "calibration", "") == "published":
        return None
    if hasattr(step, "transform"):  # fitted from the number of features alone
        promise = clone(step).fit(np.zeros((1, reference.n_features_in_))).guarantee_
        return replace(promise, seeded=reference.guarantee_.seeded)
    known = reference.guarantee_
    if known.definition != "DP":
        return known if step.get_params() == reference.get_params() else None
    delta = step.delta if step.delta is not None else _delta_of_folds(reference, search)
    adjacency = Adjacency(getattr(step, "adjacency", known.adjacency.relation))
    return None if delta is None else replace(known, epsilon=step.epsilon, delta=delta, adjacency=adjacency, loss=None)


def _delta_of_folds(reference, search):
    """Largest delta = 1 / n^2 of any fold, or None; the refit knows the number of rows."""
    k = search.cv if isinstance(search.cv, _K_FOLDS) else check_cv(search.cv) if _is_count(search.cv) else None
    if reference.delta is not None or k is None or "n_resources" in search.cv_results_:
        return None
    n_samples = round(reference.delta_**-0.5)
    n_splits = k.cvargs["n_splits"] if hasattr(k, "cvargs") else k.n_splits
    return 1.0 / max(n_samples - -(-n_samples // n_splits), 2) ** 2


def _is_count(cv):
    return cv is None or isinstance(cv, Integral)
