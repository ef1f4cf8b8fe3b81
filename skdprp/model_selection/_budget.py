"""One budget for all private steps of a pipeline."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from .._adjacency import Unit
from .._digits import with_python_numbers
from .._errors import warn_at_caller
from .._lazy import is_lazy, stand_in
from ..guarantee import MAY_PROVE_LESS, PrivacyWarning
from ..report import report_before_fit
from ..report._rehearsal import (
    PublicFacts,
    Rehearsal,
    check_methods,
    has_price,
    not_priced,
    own_parts,
    rehearse,
    takes_groups,
)
from ..report._structure import is_of_library, is_private, may_release_more

_DIGITS = 2.0**-20  # to which a total meets its target
_MOST_ATTEMPTS = 20
_BASIC = (
    "The epsilons of all steps add up to the total, as dp-accounting is not installed: after 'python -m pip install"
    " dp-accounting' each step gets more."
)
_FOR_A_ROW = "groups are given, but the budget is for one row, and not for one person with all of its rows."
_TAKE_GROUPS = (
    "Instead of private bins, give bounds, edges or categories of all columns; DPSGDClassifier, DPRidge, DPPCA and "
    "DPMoments take groups."
)
_KNOWN = "sklearn", "skdprp"  # libraries whose estimators are known to release nothing, or what they guarantee
_NO_CHANGE = 1 - 2.0**-50  # of shares of a delta, which add up to no more than that


@dataclass(frozen=True)
class Budget:
    """What the private steps of an estimator share, of which only a clone is touched before all is known."""

    rehearsal: Rehearsal
    shares: tuple[float, ...]

    @classmethod
    def of(cls, estimator, facts):
        """Share it in the ratio of the epsilons that the steps have now."""
        rehearsal = rehearse(estimator, facts)
        if not rehearsal.steps:
            raise ValueError(f"{type(estimator).__name__} holds no private step.")
        for step in rehearsal.steps:  # a subclass may release more than it is calibrated for
            if step.calibrate is None or may_release_more(step.estimator):
                raise not_priced(step.estimator)
        epsilons = [step.estimator.epsilon for step in rehearsal.steps]
        rounded = _NO_CHANGE if len(epsilons) > 1 else 1.0
        return cls(rehearsal, tuple(epsilon / sum(epsilons) * rounded for epsilon in epsilons))

    def report(self, epsilon, delta):
        """Report on the estimator as it will be fitted if all steps together are given a target."""
        for step, share in zip(self.rehearsal.steps, self.shares, strict=True):
            step.estimator.set_params(epsilon=epsilon * share, delta=delta * share)
        return report_before_fit(self.rehearsal)

    def largest_target(self, epsilon, delta, start=1.0):
        """Raise what the steps share, from a multiple of epsilon on, until all guarantee (epsilon, delta)."""
        if len(self.shares) == 1:  # whose noise is calibrated to this very target
            return epsilon
        shared, safe, slope, before = start * epsilon, 0.0, 1.0, None
        for _ in range(_MOST_ATTEMPTS):
            total = self.report(shared, delta).private
            if total is None or total.epsilon == np.inf:  # at whatever they share
                break
            if total.epsilon <= epsilon:
                safe = max(safe, shared)
                if total.epsilon >= epsilon * (1 - _DIGITS):
                    break
            # By secants of logarithms, as totals grow nearly as their parts do.
            point = np.log(shared), np.log(min(max(total.epsilon, epsilon / 2), 2 * epsilon))
            if before is not None and point[0] != before[0]:
                slope = min(max((point[1] - before[1]) / (point[0] - before[0]), 0.5), 2.0)
            before = point
            shared = float(np.exp(point[0] + (np.log(epsilon * (1 - _DIGITS / 2)) - point[1]) / slope))
        return safe or epsilon  # at which they add up to it

    def set_targets(self, estimator, epsilon, delta):
        """Give the steps of the estimator that was cloned for this their shares of a target; return it."""
        for step, share in zip(self.rehearsal.steps, self.shares, strict=True):
            prefix = f"{step.path}__" if step.path else ""
            estimator.set_params(**{f"{prefix}epsilon": epsilon * share, f"{prefix}delta": delta * share})
        return estimator


@with_python_numbers
def set_budget(estimator, X, y=None, *, groups=None, n_samples=None, epsilon=1.0, delta=None):
    """Set epsilon and delta of every private step, so that what all guarantee together is one target.

    Parameters
    ----------
    estimator : estimator
        A private model, or a Pipeline with private steps. The ratio of the epsilons that they have now is kept.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows as `fit` will see them. Only their number and types are used, which are public. A few rows pass through the
        steps before the model, which shows how many columns there will be.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), or None, default=None
        Labels or targets, of which the number of classes or targets is used.
    groups : array-like of shape (n_samples,) or None, default=None
        The person of each row, where each step that takes `groups` will be given them. Only their number is used.
    n_samples : int or None, default=None
        Number of rows at the fit, where `X` and `y` have a few of them only, as of a table that is read in parts.
    epsilon : float, default=1.0
        Privacy of one row, or person, in all steps together: with a neighbour, an outcome is at most exp(epsilon) times
        as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`. None is 1 / n**2, where n is the number of rows, or of persons if
        `groups` are given. If the only step is a sketch, None leaves its delta as it is.

    Returns
    -------
    estimator
        The same, with new parameters. Nothing is released.

    Raises
    ------
    TypeError
        If there are several private steps, and one of them, such as a sketch, does not state before a fit what it will
        guarantee for rows.
    ValueError
        If there is no private step, a parameter does not fit the others, or an estimator of another library than
        scikit-learn may learn from the rows: what it releases is not known before its fit.

    See Also
    --------
    privacy_report : States after the fit what all steps guarantee together: no more than this target, if each step
        returns as many columns as planned.

    Warns
    -----
    PrivacyWarning
        If a step is not private, so that there is no total, whatever the budget; or if `groups` are given and a private
        step takes none, so that the total is for one row.
    UserWarning
        If the noise of private bins hides most of what so many rows show: do not fit, but list categories and give
        bounds. Also if the epsilons of the steps add up, because dp-accounting is not installed.

    Notes
    -----
    Each step is assumed to return as many columns as it does for the first 64 rows. ``PCA()`` or a OneHotEncoder may
    return another number in the fit. Then the total may miss the target: with ``noise="product"``, fewer columns cost
    more. Give such steps a number of columns, or their categories; ``privacy_report(model)`` says after the fit what
    holds.

    Each step gets its share of `delta`, and epsilon in the ratio given, scaled up until the exact composition of all,
    see :func:`~skdprp.compose`, reaches the target. Without dp-accounting, the exact total is known only if every step
    is a Gaussian mechanism, which `AMPClassifier` is not. Otherwise the epsilons are chosen so that their plain sum is
    the target, and a warning says so.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdprp import DPPCA, DPRidge, privacy_report, set_budget
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(DPPCA(8, epsilon=1.0, max_norm=80.0), DPRidge(epsilon=2.0, target_bounds=(0, 9)))
    >>> set_budget(model, X, y, epsilon=3.0, delta=1e-6)["dpridge"].epsilon > 2.0
    True
    >>> total = privacy_report(model.fit(X, y)).private
    >>> round(total.epsilon, 4), round(total.delta, 10)
    (3.0, 1e-06)
    """
    report = share_budget(
        estimator, X, y, groups=groups, n_samples=n_samples, epsilon=epsilon, delta=delta, warns_of_noise=True
    )
    if report.total is None:
        warn_at_caller(f"The budget is of the private steps alone: {'; '.join(report.not_covered)}.", PrivacyWarning)
    return estimator


def share_budget(estimator, X, y, *, groups, epsilon, delta, n_samples=None, warns_of_noise=False):
    """Set a budget, and return what a fit will release, which may have no total."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"A budget is set for an estimator, a model or a Pipeline, not for {_described(estimator)}.")
    if not isinstance(epsilon, Real) or not epsilon > 0:
        raise ValueError(f"No budget has this epsilon, which must be a positive number: {epsilon!r}.")
    if not (delta is None or (isinstance(delta, Real) and 0 <= delta < 1)):
        raise ValueError(f"No budget has this delta, which must be None or a number from 0 to below 1: {delta!r}.")
    private = _private_parts(estimator)
    path, step = next(iter(private.items()), ("", None))
    if len(private) == 1 and not has_price(step):
        if hasattr(type(step), "_calibrate_for") and delta is None:  # a search, and no sketch
            delta = PublicFacts.of(X, y, n_samples).default_delta
        if "epsilon" not in step.get_params(deep=False):
            raise not_priced(step)
        check_methods(estimator)
        prefix = f"{path}__" if path else ""
        params = {f"{prefix}epsilon": epsilon} | ({} if delta is None else {f"{prefix}delta": delta})
        planned = clone(estimator).set_params(**params)
        facts = PublicFacts.of(stand_in(X)) if is_lazy(X) else PublicFacts.of(X, y, n_samples, groups)
        rehearsal = rehearse(planned, facts)
        report = report_before_fit(rehearsal)
        # The delta of a sketch may have to be what it is.
        _check_total(estimator, report, epsilon, 1.0 if delta is None else delta)
        if warns_of_noise:
            rehearsal.warn_of_noise()
        estimator.set_params(**params)
        return report
    facts = PublicFacts.of(X, y, n_samples, groups)
    delta = facts.default_delta if delta is None else delta
    budget = Budget.of(estimator, facts)
    shared = budget.largest_target(epsilon, delta)
    report = budget.report(shared, delta)
    _check_total(estimator, report, epsilon, delta)
    if budget.rehearsal.has_groups and report.private.unit != Unit.PERSON:
        without = [step for step in budget.rehearsal.steps if not takes_groups(step.estimator)]
        named = ", ".join(f"{type(step.estimator).__name__} ({step.path})" for step in without)
        warn_at_caller(f"{_FOR_A_ROW} These steps take no groups: {named}. {_TAKE_GROUPS}", PrivacyWarning)
    if MAY_PROVE_LESS in report.private.method:
        warn_at_caller(_BASIC, UserWarning)
    if warns_of_noise:
        budget.rehearsal.warn_of_noise()
    budget.set_targets(estimator, shared, delta)
    return report


def _described(thing):
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__


def _private_parts(estimator):
    """Private estimators by the name of the parameter that they are, and "" for itself; none within one of them."""
    parts, closed = {}, []
    for name, part in sorted({"": estimator, **estimator.get_params()}.items()):
        if any(name.startswith(prefix) for prefix in closed):
            continue
        if is_private(part):
            parts[name] = part
        if is_private(part) or isinstance(part, FrozenEstimator):
            closed.append(f"{name}__" if name else "")
    return parts


def _check_total(estimator, report, epsilon, delta):
    """Refuse what does not keep to a budget, or may release what nobody knows of."""
    others = [part for part in own_parts(estimator) if type(part).__module__.partition(".")[0] not in _KNOWN]
    others = [type(part).__name__ for part in others if not is_of_library(part)]
    if others and report.total is None:  # or it sees only what was released
        raise ValueError(f"{others[0]} is of no library that is known here: a fit of it may release anything.")
    total = report.private
    if total is None or total.epsilon > epsilon or total.delta > delta:
        asked = f"epsilon = {epsilon}" if delta == 1 else f"{(epsilon, delta)}"
        no_total = "; ".join(("they would have no guarantee", *report.not_covered))
        found = no_total if total is None else f"they would have {total!r}"
        raise ValueError(f"The budget cannot be set to {asked}: together {found}. Set epsilon of each step by hand.")
