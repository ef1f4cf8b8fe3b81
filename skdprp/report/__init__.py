"""Privacy reports: what the steps of a pipeline, a search or a cross-validation release, and what all cost together."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from .._validation import is_estimator
from ..guarantee import (
    DISJOINT,
    ROWS_ARE_READ_ALONE,
    TYPES_ARE_PUBLIC,
    PrivacyGuarantee,
    compose,
    composed,
)
from ..ledger import PrivacyLedger
from ..ledger._totals import CHUNKS, WITHIN_A_ROW, as_counts, same_neighbours
from ._data_independent import OWN_LABELS
from ._lines import INFERRED, PLANNED, PrivacyReport, ReportedStep
from ._rehearsal import PublicFacts, rehearse
from ._search import IN_A_SEARCH, is_watched
from ._structure import all_held, is_of_library, private_held_by, stated_steps
from ._walk import Flow, of_cross_validation, walk

__all__ = ["PrivacyReport", "ReportedStep", "privacy_report"]

_BESIDE = "returns rows beside their sketches: leave these columns out, or sketch them as well"
_OTHERS_AS_WELL = (
    "the ledger has other releases as well: leave `ledger=` out for this model, or read ledger.total() for all"
)
_AS_FITTED = (
    "each step was last fitted behind those before it, and neither these nor any parameters changed since the fit",
    "no step was given anything computed from these rows, except rows as they leave the step before it, and labels",
    "nothing but these steps published anything of the rows: no store or hook, and no method that was set on an object",
    "no search or cross-validation has chosen steps, parameters or rows (if one has, report on that)",
)
AS_PLANNED = (
    "the fit has these steps and parameters",
    "the fit is given rows and labels like those given here",
    "no step is given anything computed from these rows, except rows as they leave the step before it, and labels",
    "nothing but these steps publishes anything of the rows: no store or hook, and no method that is set on an object",
    "each step returns as many columns as it did for the few rows that were tried for this report",
)
NO_GROUPS = "no step is given groups"
_TWICE = (
    "a private step stands in two places, and is known by its last fit or call alone: give each place a step of its own"
)
_WATCHED = "callbacks publish nothing of what they see, and neither do pickles, which hold them"
_THESE_GROUPS = "each step that takes groups is given those given here"


def privacy_report(estimator, X=None, y=None, *, groups=None, n_samples=None, ledger=None):
    """Report what a fitted estimator released, what is covered by a guarantee, and what all of it costs.

    Parameters
    ----------
    estimator : estimator or dict
        An estimator, Pipeline, FeatureUnion, ColumnTransformer, one-vs-rest, multi-output or voting ensemble, a
        classifier with a fixed threshold, a GridSearchCV or RandomizedSearchCV, or the result of
        ``cross_validate(..., return_estimator=True)``; fitted, or with `X` not yet.
    X : {array-like, sparse matrix} of shape (n_samples, n_features) or None, default=None
        Rows like those that a fit will see, to report what that fit will release and cost; nothing is released now.
        Used are their number, and a few rows that show how many columns each step returns. None reports on the fit that
        has been made.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None, default=None
        Labels or targets beside `X`. The number of targets is used. If a model lists no `classes`, their number is
        taken from `y`, which then has to hold the labels of all `n_samples` rows.
    groups : array-like of shape (n_samples,) or None, default=None
        The person of each row of `X`, where each step that takes `groups` will be given them: its guarantee is then for
        one person. Only the number of persons is used.
    n_samples : int or None, default=None
        Number of rows at the fit, where `X` has a few of them only.
    ledger : PrivacyLedger or None, default=None
        A ledger that was open during the fit and during no other release. It has counted the releases; a report alone
        can only infer their number. There is a total only if both agree.

    Returns
    -------
    PrivacyReport
        With a table of all steps; ``total``, the composed guarantee, or None if something is not covered; and
        ``private``, the composed guarantee of the private steps alone, or None if it is not known.

    Raises
    ------
    TypeError
        If `estimator` is neither an estimator nor a dictionary, or the guarantee of a private step cannot be computed
        before a fit.
    NotFittedError
        If a private step was not fitted, and there is no `X`.
    ValueError
        If a dictionary holds no estimators, or if `X` is given and `y` is missing where classes are taken from it, or
        has another number of rows.

    Warns
    -----
    UserWarning
        Before a fit, if the noise of private bins hides most of what so many rows show.

    Notes
    -----
    **Before a fit**, with `X`, a clone is calibrated as that fit would calibrate it, and the total is what the fit will
    cost. A few rows pass through the steps before the models, which shows how many columns there will be; the noise of
    this trial is thrown away. The guarantee of a GridSearchCV cannot be computed before its fit, nor that of an
    estimator that is calibrated by more than the shape of the rows.

    **Steps after a private sketch** are post-processing and cost nothing. They may learn from labels, which a sketch
    does not protect. There are two exceptions. A step that is frozen, or has an already fitted estimator as a
    parameter, may have learnt from the rows themselves: such a step is not post-processing. And a step that was once
    fitted to the rows may still hold attributes of that fit, such as ``oob_decision_function_``. The total assumes that
    none does: use a clone.

    **Steps before a private one.** Steps that learn from rows without noise are not covered, nor are the steps after
    them: a private step assumes that no step before it was fitted on its rows without noise. Data-independent steps are
    :class:`~skdprp.PublicScaler`, :class:`~skdprp.PublicBinner` and those of scikit-learn that are known to treat each
    row by itself. Code of your own in them (a function, a number or an array of your own class) is assumed to apply no
    model of these rows and to publish nothing, and the report prints this. The branches of a ColumnTransformer are
    composed as if one change could reach all of them. There is no total if a branch with a sketch is given the same
    column several times.

    **Several releases.** Their total assumes that the parameters of all were fixed before the first, as one call of
    `fit` makes sure of. If you have put a pipeline together from steps that were fitted one after the other, and chose
    a parameter of one after you saw another, only the sum of epsilons and deltas holds. There is no total if a private
    step was fitted behind other steps than are before it now: also if one of these that is private was fitted since, or
    parameters of another were set. A second fit that was refused, for its labels for instance, leaves the model of the
    first behind the bins of the second; and of two pipelines that share a step, the second to be fitted has changed
    what the first consists of. Fit the pipeline again, or give each a clone. Nor is there a total if a private step
    behind a sketch was fitted to something else than its output, outside of the pipeline for instance: it may have seen
    the rows themselves. Steps that are not private do not note what they were fitted behind, nor do members that
    workers fit; the total assumes, in print, that nothing has changed for them.

    **How often a row is sketched.** A Pipeline, a FeatureUnion and a ColumnTransformer sketch a row once with each
    sketch in them. Another step with a sketch in it (a voting ensemble, a search, a frozen estimator) sketches it once
    more, if it passes rows on: it was fitted on them, and then transforms the same rows. The report counts both. There
    is no total if

    - a step is now "drop" or "passthrough": a private step may have been there at the fit;
    - ``memory=`` caches what was released, or is of a class of your own, which sees the rows, or prints them, as a
      ``joblib.Memory`` does unless it has ``verbose=0``;
    - `transform` returns rows as they are, beside sketches;
    - an estimator that is not known here holds private ones, or a function applies them;
    - a sketch was given lazy rows in this process: each step that reads the sketches computes them again, with new
      noise;
    - a sketch was fitted earlier with other parameters. This does not matter if a clone of it is fitted, as in a
      ColumnTransformer or an ensemble;
    - the same private estimator is used as two steps, or as one and within a step of yours: only its last fit or call
      is known. This does not matter if it is a sketch of this library that none of yours holds, or if both steps hold
      the same frozen estimator and it releases at its fit.

    **Rows that are written over.** A step may write over its rows if it, or an estimator in it, has a parameter such as
    ``copy=False``. There is no total if the same rows are used again: in branches, in a search, or in a
    FunctionTransformer that checks its inverse. Your own functions and classes are assumed not to write over rows; the
    report prints this assumption.

    **Persons.** The total is for one person, with all rows of that person, if each private step had `groups` at its
    fit; before a fit, if `groups` are given here. If some step had none, the total is for one row.

    **Own estimators.** Classes are known by their exact type, because a subclass may learn or release anything. An
    estimator of yours that does not derive from one of this library is trusted: its ``guarantee_`` is charged once for
    each fit or for each transform, as its ``per`` says.

    **Sketches after data-independent steps.** Neighbours are then rows as these steps return them, and totals of
    several reports compose only if the steps are the same. A FunctionTransformer with a function of yours counts as
    another step in each report, because the function may read a file that has changed.

    **Searches** are reported as they were recorded at their fit. The sum for one row contains all candidates in all
    folds, and the refit. The refit is charged as the costliest candidate, because the rows have chosen which one it is.
    If the split holds out each row once, as ``KFold`` does, a model is charged in each fold that trained on the row. A
    sketch is charged once in each of these folds, and once for each scorer in the fold that scored the row; with
    ``return_train_score=True`` also once for each scorer in each fold that trained on it. With other splits, such as
    ``ShuffleSplit``, it is not known which folds trained on a row: all folds are charged as if they had trained on it,
    or scored it if that costs more. A candidate whose fits failed is charged as well: they may have failed after their
    release. The scores are not covered. Fits are added up only under these conditions:

    - Replacing one row moves no other to another fold. This holds for splits by position, such as
      ``KFold(5, shuffle=True)``. It does not hold for stratified splits, such as ``cv=5`` and ``cv=None`` for
      classifiers: one label may move many rows. For sketches alone, stratified splits are accepted, because they follow
      from the labels, the number of rows and `random_state`, which are equal for two neighbours of a sketch.
    - With `groups`, all rows of a person are in one fold, and which fold that is does not depend on how many they are:
      ``GroupKFold(5, shuffle=True)`` and ``GroupShuffleSplit``.
    - The scorer predicts once, as those of ``make_scorer`` do. Any other function may sketch a row, or fit on it, any
      number of times.
    - What each candidate guarantees can be computed from its parameters and from the report on the refit.
    - The split and the scorer are known. A result of :func:`~sklearn.model_selection.cross_validate` contains neither:
      ``GridSearchCV(model, {}, cv=KFold(5))`` does the same and records both.

    A step whose guarantee was violated by an audit that is attached to it, ``step.guarantee_ =
    result.attach_to(step.guarantee_)``, is not covered. Nor is one whose guarantee was set to anything else.

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

    What a fit to a million rows like these will cost, before it is spent:

    >>> model = AMPClassifier(delta=1e-6, classes=[0, 1])
    >>> plan = privacy_report(model, X[:5], n_samples=1_000_000)
    >>> plan.private.epsilon, plan.counted
    (1.0, 'what a fit will release; this report released none of it')

    A search by places, each row in two of three folds and in the refit:

    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> search = GridSearchCV(AMPClassifier(delta=1e-6), {"max_norm": [30.0, 60.0]}, cv=KFold(3, shuffle=True))
    >>> report = privacy_report(search.fit(X, y))
    >>> report.steps[1].releases, report.private.delta
    (5, 5e-06)
    """
    if isinstance(estimator, type):
        raise TypeError(f"Reports are about fitted estimators, not their class: {estimator.__name__}().fit(X, y).")
    if not isinstance(estimator, Mapping) and not is_estimator(estimator):
        cure = ": pass saved.estimator" * hasattr(getattr(estimator, "estimator", None), "get_params")
        raise TypeError(
            f"Reports are about estimators and results of cross_validate, not {type(estimator).__name__}{cure}."
        )
    if not isinstance(ledger, PrivacyLedger | None):
        raise TypeError(f"ledger must be a PrivacyLedger, got {type(ledger).__name__}.")
    if X is None:
        if n_samples is not None or groups is not None:
            raise ValueError("n_samples and groups are for a report on a fit to come: give X, or a few rows like it.")
        return _report(estimator, _AS_FITTED, ledger=ledger)
    if ledger is not None or isinstance(estimator, Mapping):
        raise ValueError("X is for what an estimator will release: leave it out in a report on what was released.")
    rehearsal = rehearse(estimator, PublicFacts.of(X, y, n_samples, groups))
    report = report_before_fit(rehearsal)
    rehearsal.warn_of_noise()
    return report


def report_before_fit(rehearsal):
    """Report on what the private steps of a rehearsal will release, with their parameters as they are."""
    for step in rehearsal.steps:
        step.state_guarantee()
    as_planned = (*AS_PLANNED, _THESE_GROUPS if rehearsal.has_groups else NO_GROUPS)
    return replace(_report(rehearsal.estimator, as_planned, is_plan=True), counted=PLANNED, is_plan=True)


def _report(estimator, as_known, *, ledger=None, is_plan=False):
    """Report on an estimator whose private steps state what they released, or by a plan will release."""
    labels = OWN_LABELS.set({})
    try:
        part = of_cross_validation(estimator) if isinstance(estimator, Mapping) else walk(estimator, "", Flow())
    finally:
        OWN_LABELS.reset(labels)
    private, not_covered = None, part.not_covered
    fitted = estimator.get("estimator", ()) if isinstance(estimator, Mapping) else [estimator]
    if any(is_watched(one) for root in fitted for _, one in all_held(root, "", seen=set())):
        as_known += (_WATCHED,)
    if any(map(_may_have_been_fitted_again, *_places(fitted))):
        part, not_covered = replace(part, is_known=False), (*not_covered, _TWICE)
    # A sketch of some columns says nothing of the others, and who publishes what transform returns publishes these too.
    sketches = any(charge.per == "transform" for group in part.charges for charge in group)
    if sketches and hasattr(estimator, "transform") and not (part.flow.released or part.flow.learned):
        not_covered += (f"{type(estimator).__name__.lower()} {_BESIDE}",)
    if part.charges and part.is_known:
        try:
            charges = [charge for group in part.charges for charge in group]
            given = " and ".join(dict.fromkeys(charge.given for charge in charges if charge.given))
            # A plan fixes all parameters, unless what is frozen was released before it.
            total = composed(charges) if is_plan and not part.frozen else compose(*charges)
            private = replace(total, per=None, given=given)  # all releases are of the same labels
        except ValueError as error:
            not_covered += (str(error),)
    if private is not None:
        of_all = (TYPES_ARE_PUBLIC, ROWS_ARE_READ_ALONE)  # which estimators of others may leave unsaid
        assumptions = dict.fromkeys([*private.assumptions, *of_all, *part.assumed, *as_known])
        private = replace(private, assumptions=tuple(assumptions))
    counted = INFERRED
    if ledger is not None:
        entries, are_chunks = _chunks_together(ledger.entries)
        counted, disagreement = _compare(part.steps, private, entries)
        not_covered += disagreement
        if disagreement:
            private = None  # the ledger has what it does not add up
        counted += ", all chunks of one call as one" * are_chunks
        if private is not None and are_chunks:
            private = replace(private, assumptions=(*private.assumptions, DISJOINT.format(private.unit)))
    return PrivacyReport(part.steps, private, tuple(dict.fromkeys(not_covered)), counted)


def _places(fitted):
    """All steps whose guarantee may be of the last of several fits or calls, and for each what it is frozen in.

    What a step of the user holds may be what it fits.
    """
    stated, steps, frozen_in = [one for estimator in fitted for one in stated_steps(estimator)], {}, {}
    held = [one for step, _ in stated if not is_of_library(step) for one in private_held_by(step)]
    for step, frozen in [*stated, *((one, None) for one in held)]:
        if step.guarantee_.per != "transform" or not is_of_library(step) or any(step is one for one in held):
            steps[id(step)] = step
            frozen_in.setdefault(id(step), []).append(frozen)
    return steps.values(), frozen_in.values()


def _may_have_been_fitted_again(step, frozen_in):
    """Whether a step stands in several places, and what was released for one of them may not be what it states now.

    The fit before the last may have had other parameters, or rows instead of persons. What is frozen, and stands once
    in it, was fitted for all places at once; but a guarantee of a transform may be of the last call alone.
    """
    first = frozen_in[0]
    if len(frozen_in) == 1:
        return False
    if first is None or any(other is not first for other in frozen_in) or step.guarantee_.per == "transform":
        return True
    return sum(one is step for one, _ in stated_steps(first)) > 1


def _chunks_together(entries):
    """Entries of a ledger, of the chunks of one call only as many as one of them has; and whether there are any."""
    kept, counts = [], Counter()
    for entry in entries:
        division = entry.rows[-1][0] if entry.rows else ""
        if division.startswith(CHUNKS) and entry.guarantee.unit in WITHIN_A_ROW:  # others may be in several chunks
            release = (entry.estimator, _stated(entry.guarantee), entry.rows[:-1], division)
            counts[release, entry.rows[-1]] += 1
            if counts[release, entry.rows[-1]] <= counts[release]:
                continue  # as many are kept of another chunk, of which no row is in this one
            counts[release] += 1
        kept.append(entry)
    return kept, bool(counts)


def _compare(steps, private, entries):
    """Say what the entries of a ledger count, and what a report does not know of that."""
    inferred, recorded, releases, of_searches = Counter(), Counter(), Counter(), []
    calls = [step.estimator for step in steps for _ in range(step.calls)]
    if private is not None and len(entries) == 1:  # of a plan, which has its total
        planned, (only,) = " + ".join(calls), entries
        stated = (only.estimator, _stated(only.guarantee))
        is_release = any(stated == (step.estimator, _stated(step.guarantee)) for step in steps if step.calls)
        if stated == (planned, _stated(private)) and not is_release:
            return f"by the ledger: one entry of {planned}, as it was planned", ()
    for entry in entries:
        recorded[entry.estimator] += 1
        releases[entry.estimator, _stated(entry.guarantee)] += 1
    for step in steps:
        if step.calls:
            inferred[step.estimator] += step.calls
            if IN_A_SEARCH in step.guarantee.assumptions:
                of_searches.append((step.estimator, _stated(step.guarantee)))
            else:
                releases[step.estimator, _stated(step.guarantee)] -= step.calls
    counted = f"by the ledger: {as_counts(recorded)}"
    if inferred != recorded:
        cure = "what the ledger has is in its total()"
        if inferred < recorded or (len(entries) > 1 and recorded[" + ".join(calls)]):  # the latter, of a plan
            cure = _OTHERS_AS_WELL
        return counted, (f"{as_counts(inferred)} follow from what was fitted: {cure}",)
    # Of candidates in folds a line says what the costliest guarantees, and so no more is known than that.
    if min(releases.values(), default=0) < 0 or not all(
        any(name == known and _implies(guarantee, stated) for known, stated in of_searches)
        for (name, guarantee), count in releases.items()
        if count
    ):
        return counted, ("what the ledger has guarantees something else than what was fitted: see its total()",)
    return counted, ()


def _stated(guarantee):
    """What an entry and a report both say of a release; only a report knows of maps before it."""
    adjacency = guarantee.adjacency and replace(guarantee.adjacency, after="")
    known = {
        "definition": guarantee.definition,
        "unit": guarantee.unit,
        "adjacency": adjacency,
        "given": guarantee.given,
    }
    void = {"seeded": guarantee.seeded, "violation": guarantee.violation}
    return PrivacyGuarantee(guarantee.epsilon, guarantee.delta, **known, **void)


def _implies(guarantee, other):
    is_less = guarantee.epsilon <= other.epsilon and guarantee.delta <= other.delta
    is_void = guarantee.seeded > other.seeded or guarantee.violation not in ("", other.violation)
    is_given_more = guarantee.given not in other.given  # which adds that it is in each fold
    return is_less and not is_void and not is_given_more and same_neighbours(guarantee, other)
