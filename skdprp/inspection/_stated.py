"""What reports on the fits of a curve say of its epsilons: of what they are, and what they hide."""

import math

from .._digits import as_given, printed_up
from .._printing import condition_and_marks, neighbours_of
from ..guarantee import Definition

_LARGE_DELTA = 0.01  # beside which an epsilon says little
AS_PLANNED = 1 + 1e-9  # times an epsilon: a total that is no more meets it, but for rounding
_DEFINITIONS = {Definition.INDIVIDUAL_DP: "individual DP", Definition.MI_DP: "in bits"}


def is_of_all_released(report, owner):
    """Whether all that a fit released is one release of a step, and its total is known."""
    releasing = [step.estimator for step in report.steps for _ in range(step.releases)]
    return report.total is not None and releasing == [type(owner).__name__]


def times_spent(report, epsilon):
    """Total of a fit as a multiple of the epsilon that was planned for it, infinite if it is not known."""
    return math.inf if report.total is None else report.total.epsilon / epsilon


def hidden_by(reports, owners):
    """Say what the totals of fits hide, whether some of their epsilons are claimed, and how large deltas are."""
    totals = [report.total for _, report in reports if report.total is not None]
    told = dict.fromkeys(map(in_short, totals))
    claimed = "as claimed" if any(map(_is_claimed, owners)) else ""
    delta = max([0.0, *(total.delta for total in totals)])
    large = f"delta up to {printed_up(delta)}" if delta > _LARGE_DELTA else ""
    return ", ".join(filter(None, [" or ".join(told), claimed, large]))


def said_of_unmet(reports, owner):
    """Say at which epsilons of a step fits guarantee nothing, or less than that; what is claimed need not be met."""
    if _is_claimed(owner):
        return ""
    unmet = {epsilon for epsilon, report in reports if report.total.epsilon > epsilon * AS_PLANNED}
    points = ", ".join(as_given(epsilon) for epsilon in sorted(unmet))
    return f", not guaranteed at epsilon = {points}" if points else ""


def in_short(guarantee):
    """Neighbours of a guarantee, its definition if that is another than differential privacy, conditions and marks."""
    told = ", ".join(filter(None, [neighbours_of(guarantee), _DEFINITIONS.get(guarantee.definition, "")]))
    return (told + condition_and_marks(guarantee)).removeprefix(", ")


def _is_claimed(owner):
    """Whether the epsilon of a step is what a paper claims; a noise multiplier claims nothing, and is exact."""
    calibration = getattr(owner, "calibration", "exact")
    return calibration == "published" or getattr(calibration, "noise_multiplier", 0) is None
