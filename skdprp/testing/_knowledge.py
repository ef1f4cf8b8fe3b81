"""The check that nothing an estimator holds or says tells of a row."""

import math

import numpy as np
from sklearn.base import is_classifier

from .._adjacency import Relation
from ..audit._result import clopper_pearson, epsilon_bound
from ..guarantee import Definition
from ..mechanisms.mutual_information import information_delta
from ..report import privacy_report
from ._case import INTEGERS, SURE
from ._contents import fingerprints

_N_ALIKE = 3  # fits that agree, before any more are made
_N_STEPS = 10_000  # fits: where these prove nothing, neither would any number that somebody waits for


def _attributes_hold_nothing_of_the_rows(case):
    ends = case.data, _nearly_all_alike(case)
    # What differs between fits on the same data is noise, or time; what does not must not differ between neighbours.
    steady = []
    for data in ends:
        first, *others = (_state(case, data) for _ in range(_N_ALIKE))
        steady.append({name: one for name, one in first.items() if all(other.get(name) == one for other in others)})
    # A name that one of them does not have is no less a difference: keys of a dictionary may be values of rows.
    suspects = [name for name in steady[0] | steady[1] if steady[0].get(name) != steady[1].get(name)]
    if not suspects:
        return ""
    # Noise may keep a number as it is, or a name away, again and again, but no more often than the guarantee allows.
    n_fits = _fits_that_prove(case.fitted.guarantee_)
    for name in suspects:
        value = steady[0].get(name)
        here, there = _nearest(case, *ends, lambda state, name=name, value=value: state.get(name) == value)
        if all(_state(case, here).get(name) == value != _state(case, there).get(name) for _ in range(n_fits)):
            return (
                f"holds {name}, which tells one row from another in each of {n_fits} fits: keep what is public, "
                "or has gone through the mechanism."
            )
    return ""


def _nearly_all_alike(case):
    """As many rows, which are one of the data again and again: its largest number, medians and counts are others'."""
    lengths = np.abs(case.X[1:-1]).sum(axis=1)
    # Neither the first, nor the last, nor the largest, nor one of zeros, of which some say that they tell nothing.
    row = 1 + int(np.where(lengths > 0, lengths, np.inf).argmin())
    X = np.repeat(case.X[[row]], len(case.X), axis=0)
    if case.by_distance:
        return (X if np.any(X != case.X) else X / 2, *case.data[1:])
    if case.y is None:
        return (X,)
    y = np.full_like(case.y, case.y[row])
    if is_classifier(case.estimator):  # which may ask for a row of each
        classes, first = np.unique(case.y, return_index=True)
        y[first] = classes
    return X, y


def _nearest(case, here, there, is_kept):
    """Two neighbours on the way between data: what all of their fits hold apart, fits of two on the way hold apart."""
    while (middle := _halfway(case, here, there)) is not None:
        if all(is_kept(_state(case, middle)) for _ in range(_N_ALIKE)):
            here = middle
        else:
            there = middle
    return here, there


def _halfway(case, here, there):
    """Data between two, with half of the rows that differ, or of the entries; None if the two are neighbours."""
    if not case.by_distance:
        return _half_of(here, there)
    one, other = here[0].ravel(), there[0].ravel()
    X = _half_of([one], [other])
    if not X:  # the mean, if they differ by more than a bound and have numbers between them
        mean = (one + other) / 2
        is_between = np.any((mean != one) & (mean != other))
        X = (mean,) if is_between and np.abs(one - other).max() > case.fitted.guarantee_.adjacency.bound else None
    return (X[0].reshape(here[0].shape), *here[1:]) if X else None


def _half_of(here, there):
    """Parts of which half of what differs is that of others; None if no more than one place differs."""
    places = np.flatnonzero(
        np.any([(a != b).reshape(len(a), -1).any(axis=1) for a, b in zip(here, there, strict=True)], axis=0)
    )
    if len(places) < 2:
        return None
    middle = tuple(part.copy() for part in here)
    for part, other in zip(middle, there, strict=True):
        part[places[: len(places) // 2]] = other[places[: len(places) // 2]]
    return middle


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
