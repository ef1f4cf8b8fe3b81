"""The check that nothing an estimator holds or says tells of a row."""

import math

import numpy as np

from .._adjacency import Relation
from ..audit._result import clopper_pearson, epsilon_bound
from ..guarantee import Definition
from ..mechanisms.mutual_information import information_delta
from ..report import privacy_report
from ._case import INTEGERS, SURE
from ._contents import fingerprints

_N_STEPS = 10_000  # fits: where these prove nothing, neither would any number that somebody waits for


def _attributes_hold_nothing_of_the_rows(case):
    here, there = neighbouring(case)
    # What differs between fits on the same data is noise, or time; what does not must not differ between neighbours.
    steady = [_steady(_state(case, data) for _ in range(3)) for data in (here, there)]
    # A name that one of them does not have is no less a difference: keys of a dictionary may be values of rows.
    suspects = [name for name in steady[0] | steady[1] if steady[0].get(name) != steady[1].get(name)]
    if not suspects:
        return ""
    # Noise may keep a number as it is, or a name away, again and again, but no more often than the guarantee allows.
    n_fits = _fits_that_prove(case.fitted.guarantee_)
    for name in suspects:
        value = steady[0].get(name)
        if all(_state(case, here).get(name) == value != _state(case, there).get(name) for _ in range(n_fits)):
            return (
                f"holds {name}, which tells one row from another in each of {n_fits} fits: keep what is public, "
                "or has gone through the mechanism."
            )
    return ""


def _state(case, data):
    """Everything that a fitted estimator holds, and says of itself."""
    fitted = case.new(**case.public_seed).fit(*data)
    if case.at_transform:
        fitted.transform(data[0])
    texts = {
        "its repr": repr(fitted),
        "its guarantee": str(fitted.guarantee_),
        "its report": repr(privacy_report(fitted)),
    }
    return fingerprints(fitted) | {name: ("str", text) for name, text in texts.items()}


def _steady(states):
    """What all of some states have in common."""
    first, *others = states
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def neighbouring(case):
    """The data, and data that a guarantee of any adjacency makes hard to tell from them."""
    X, adjacency = case.X.copy(), case.fitted.guarantee_.adjacency
    if adjacency is not None and adjacency.is_distance:
        row, column = np.unravel_index(np.abs(X).argmax(), X.shape)
        X[row, column] -= np.sign(X[row, column]) * min(adjacency.bound, np.abs(X[row, column]) / 2)
        return case.data, (X, *case.data[1:])
    # The row with most of the extremes of columns: whatever keeps a largest value keeps one of its numbers.
    extreme = (X.max(axis=0) == X) | (X.min(axis=0) == X)
    row = int(extreme.sum(axis=1).argmax())
    different = np.flatnonzero((X[row] != X).any(axis=1) & (True if case.y is None else case.y != case.y[row]))
    X[row] = X[different[0]]
    if case.y is None:
        return case.data, (X,)
    y = case.y.copy()
    y[row] = y[different[0]]
    return case.data, (X, y)


def _fits_that_prove(guarantee):
    """How many fits, all of which tell two neighbours apart, are too many for a guarantee."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if guarantee.definition in (Definition.MI_DP, Definition.CLAIMED_MI_DP):
        epsilon, delta = 0.0, information_delta(epsilon)
    if guarantee.adjacency is not None and guarantee.adjacency.relation is Relation.ADD_REMOVE:
        # One row for another is a row less and a row more.
        epsilon, delta = 2 * epsilon, delta * (1 + math.exp(min(epsilon, 700)))
    counts = np.arange(1, _N_STEPS)
    mistake = (1 - SURE) / 2
    bounds = epsilon_bound(
        clopper_pearson(counts, counts, mistake)[0], clopper_pearson(0 * counts, counts, mistake)[1], delta
    )
    return int(counts[np.argmax(bounds > epsilon)]) if bounds[-1] > epsilon else INTEGERS


CHECKS = (_attributes_hold_nothing_of_the_rows,)
