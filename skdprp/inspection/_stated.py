"""What reports on the fits of a curve say of its epsilons: of what they are, and what they hide."""

import math

from .._digits import printed_up
from .._label import condition_and_marks, neighbours_of
from ..guarantee import Definition
from ..report._walk import KEEP_LABELS, given_the_labels

_LARGE_DELTA = 0.01  # beside which an epsilon says little
AS_PLANNED = 1 + 1e-9  # times an epsilon: a total that is no more meets it, but for rounding
_DEFINITIONS = {Definition.INDIVIDUAL_DP: "individual DP", Definition.MI_DP: "in bits"}


def is_of_all_released(report, epsilon, owner):
    """Whether all that a fit released is one release of a step, of at most this epsilon or claimed to have it."""
    releasing = [step.estimator for step in report.steps for _ in range(step.releases)]
    if report.total is None or releasing != [type(owner).__name__]:
        return False
    return is_claimed(owner) or report.total.epsilon <= epsilon * AS_PLANNED


def times_spent(report, epsilon):
    """Total of a fit as a multiple of the epsilon that was planned for it, infinite if it is not known."""
    return math.inf if report.total is None else report.total.epsilon / epsilon


def is_claimed(owner):
    """Whether the epsilon of a step is what a paper claims; a noise multiplier claims nothing, and is exact."""
    calibration = getattr(owner, "calibration", "exact")
    return calibration == "published" or getattr(calibration, "noise_multiplier", 0) is None


def hidden_by(reports, owners, holders, *, alone):
    """What the guarantees hide that an epsilon is of: those of some steps alone, or else of all that fits released."""
    ensembles = [holder for holder in holders if isinstance(holder, KEEP_LABELS)]
    told, deltas = {}, [0.0]
    for report in reports:
        own, of_all = _stated_by(report, owners), report.private
        if of_all is not None and not alone:
            own = [of_all]
        for ensemble in ensembles if alone else ():
            own = [given_the_labels(one, ensemble) for one in own]
        for one in own:
            told.setdefault(in_short(one), None)
            deltas.append(one.delta)
    claimed = "as claimed" if any(map(is_claimed, owners)) else ""
    delta = f"delta up to {printed_up(max(deltas))}" if max(deltas) > _LARGE_DELTA else ""
    return ", ".join(filter(None, [" or ".join(told), claimed, delta]))


def in_short(guarantee):
    """Neighbours of a guarantee, its definition if that is another than differential privacy, conditions and marks."""
    told = ", ".join(filter(None, [neighbours_of(guarantee), _DEFINITIONS.get(guarantee.definition, "")]))
    return (told + condition_and_marks(guarantee)).removeprefix(", ")


def _stated_by(report, owners):
    """Guarantees in a report of steps of the classes of some."""
    kinds = {type(owner).__name__ for owner in owners}
    return [line.guarantee for line in report.steps if line.guarantee and line.estimator in kinds]


def not_met(reports, owner):
    """Epsilons at which releases of a step guarantee more than that; what is claimed need not be met."""
    stated = ((epsilon, one.epsilon) for epsilon, report in reports for one in _stated_by(report, [owner]))
    return [] if is_claimed(owner) else [asked for asked, met in stated if met > asked * AS_PLANNED]


def said_of_unmet(epsilons):
    """Say at which epsilons fits guarantee nothing, or less than that."""
    points = ", ".join(f"{epsilon:g}" for epsilon in sorted(set(epsilons)))
    return f", not guaranteed at epsilon = {points}" if points else ""
