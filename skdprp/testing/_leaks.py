"""Checks that nothing an estimator holds or says tells of a row, and neither does the size of its noise."""

import math
import pickle
import sys
from contextlib import suppress
from functools import partial
from inspect import signature
from itertools import product

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags

from .._adjacency import Relation
from ..audit._result import clopper_pearson, epsilon_bound
from ..guarantee import Definition
from ..mechanisms.mutual_information import information_delta
from ..report import privacy_report
from ._case import INTEGERS, SURE, dense, error_of
from ._contents import fingerprints, numbers_in
from ._heard import heard, use
from ._storage import frame_of
from ._tape import Played, played_tapes, taped

_N_ALIKE = 3  # fits that agree, before any more are made
_DIGITS = 1 - 2.0**-10 / math.pi  # makes numbers with so many digits that three fits hold one of them by no chance
_ERROR = 2.0**-44  # relative, of sums and means of equal numbers
_PERSON = "person 5ac396e1 "  # which begins names that nothing else has
_NUMBERED = 0x5AC3_96E1_7B2D << 16  # labels of people from here on, whose upper six bytes chance seldom writes
_N_STEPS = 10_000  # fits: where these prove nothing, neither would any number that somebody waits for


def _attributes_hold_nothing_of_the_rows(case):
    cure = "keep what is public, or has gone through the mechanism."
    # What differs between fits on the same data is noise, or time; what does not must not differ between neighbours.
    first, *others = (_state(case, case.data) for _ in range(_N_ALIKE))
    kept = {name: one for name, one in first.items() if all(other.get(name) == one for other in others)}
    noise = first.keys() - kept.keys()
    n_fits = 0
    for data in (_nearly_all_alike(case), *case.odd, *_rare(case)):
        state = _state(case, data)
        # A name that one of them does not have is no less a difference: keys of a dictionary may be values of rows.
        for name in [name for name in kept | state if name not in noise and kept.get(name) != state.get(name)]:
            # Noise may keep a number as it is, or a name away, again and again, but no more often than is guaranteed.
            n_fits = n_fits or _fits_that_prove(case.fitted.guarantee_)
            value = kept.get(name)
            kept_in = partial(_state_of, case, name)
            here, there = _nearest(
                case, case.data, data, lambda data, kept_in=kept_in, value=value: kept_in(data) == value
            )
            if all(kept_in(here) == value != kept_in(there) for _ in range(n_fits)):
                return f"holds {name}, which tells one row from another in each of {n_fits} fits: {cure}"
    held = _held_numbers(case)
    return f"holds numbers of a row, with all their digits, in {held[0]}: {cure}" if held else ""


def _everything_follows_from_releases(case):
    """If fits to other rows release the same numbers, all that they hold, say and return is the same, too.

    Asked where all noise is of this library: a tape plays the numbers of one fit in place of the releases of another.
    """
    if case.fitted.guarantee_.definition is not Definition.DP:
        return ""
    tables = (_nearly_all_alike(case), *case.odd, *case.unlike, *case.one_class, *_rare(case))
    for usual, others in ((case.data, tables), *_with_weights_or_groups(case)):
        with taped() as recorded:
            if error_of(lambda usual=usual: _played_once(case, usual)) is not None:
                continue  # weights or groups may be refused
        if not recorded or any(kind == "flip" for kind, *_ in recorded):
            continue  # noise of its own, or bits: these are not played
        played = partial(_state_played, case, recorded)
        (first, tape), (again, _) = played(usual), played(usual)
        for data in others:
            if error_of(lambda data=data: _played_once(case, data)) is not None:
                continue
            other, other_tape = played(data)
            if _layout(tape) != _layout(other_tape):
                continue  # other checks ask what noise depends on
            for name in sorted(first.keys() | other.keys()):
                if first.get(name) == again.get(name) != other.get(name) and all(
                    # What is seldom other by itself, as a time in whole seconds is, tells of no row.
                    played(usual, [name])[0].get(name) != played(data, [name])[0].get(name)
                    for _ in range(INTEGERS)
                ):
                    return (
                        f"holds, says or returns {name}, which differs where the rows do and all that was released is "
                        "the same: let all else follow from what was released."
                    )
    return ""


def _with_weights_or_groups(case):
    """Data with weights or groups, as far as `fit` takes any, and others in which those of one row differ."""
    places = np.arange(len(case.X))
    for name, usual in (("sample_weight", np.ones(len(places))), ("groups", places // 2)):
        if name in signature(case.estimator.fit).parameters:
            other = np.where(places == 1, usual[-1] + (name == "sample_weight"), usual)
            data = case.data if len(case.data) > 1 else (case.X, None)
            yield (*data, {name: usual}), [(*data, {name: other})]


def _layout(tape):
    """Kind, scale and shape of each release."""
    return [(kind, scale, values.shape) for kind, scale, values in tape]


def _played_once(case, data):
    """A fit, and what a transform returns if that is the release: both ways to have it."""
    *data, known = data if isinstance(data[-1], dict) else (*data, {})
    fitted = case.new(**case.public_seed).fit(*data, **known)
    if not case.at_transform:
        use(fitted, data)
        return fitted, {}
    by_fit = case.new(**case.public_seed).fit_transform(*data)
    return fitted, {"transform": dense(fitted.transform(data[0])), "fit_transform": dense(by_fit)}


def _state_played(case, recorded, data, names=None):
    """What a fit holds (or at least some names of it), and a transform returns, that release a record; their tape."""
    with taped(Played(recorded)) as tape, heard() as said:
        fitted, returned = _played_once(case, data)
    held = fingerprints(fitted, names)
    return said | held | {name: values.tobytes() for name, values in returned.items()}, list(tape)


def _held_numbers(case):
    """Names of what a fit on rows all alike holds of them: what is drawn from such rows at random is no noise."""
    X, *y = _nearly_all_alike(case)
    X, numbers, names = X * _DIGITS, X[0] * _DIGITS, None
    if is_regressor(case.estimator) and not case.by_distance:  # else targets are public, or labels
        y = [y[0] * _DIGITS]
        numbers = np.append(numbers, y[0][0])
    for _ in range(_N_ALIKE):
        with suppress(Exception):  # such rows need not be accepted
            fitted = case.fit(X, *y)
            if case.at_transform:
                fitted.transform(X)
            found = {name for name, held in numbers_in(fitted).items() if _has_sums_of(numbers, held, len(X))}
            names = found if names is None else names & found
        if not names:
            return []
    return sorted(names)


def _has_sums_of(numbers, held, n_rows):
    """Whether one of the numbers, summed over some of so many rows alike, or its mean, is held."""
    with np.errstate(all="ignore"):
        times = held.reshape(-1, 1) * n_rows / numbers[numbers != 0]
        whole = np.rint(times)
        is_sum = (np.abs(times - whole) <= _ERROR * np.abs(whole)) & (np.abs(whole) <= n_rows**2) & (whole != 0)
        return bool(is_sum.any())


def _names_of_people_are_kept_nowhere(case):
    """The index of a table, and labels that say whose rows are whose, name people: no pickle holds them."""
    places = range(len(case.X))
    people = np.array([f"{_PERSON}{i}" for i in places], dtype=object), _NUMBERED + np.arange(len(places))
    given = [{}]
    if "groups" in signature(case.estimator.fit).parameters:
        given += [{"groups": groups} for groups in people]
    for index, groups in product(people, given):
        with suppress(ImportError):
            tables = [frame_of(part, index=index) for part in case.data]
            data = [tables[0], *(table.squeeze(axis=1) for table in tables[1:])]
            fitted = case.new()
            with suppress(TypeError, ValueError):  # what takes no frame, or no groups, keeps none
                fitted.fit(*data, **groups)
                use(fitted, data)
            if any(name in held for held in _pickled(fitted) for name in _WRITTEN):
                return "holds names of people, of an index or of groups, in what a pickle of it has: keep none of them."
    return ""


def _pickled(fitted):
    with suppress(Exception):  # another check asks for pickles
        yield pickle.dumps(fitted)


# A name as text is pickled and as arrays of texts are, and a number as both are: what all of them have.
_WRITTEN = (
    _PERSON.encode(),
    _PERSON.encode(f"utf-32-{sys.byteorder[0]}e"),
    (_NUMBERED >> 16).to_bytes(6, sys.byteorder),
)


def _scales_tell_nothing_of_the_rows(case):
    guarantee = case.fitted.guarantee_
    if guarantee.definition is Definition.INDIVIDUAL_DP or not math.isfinite(guarantee.epsilon):  # as audits leave them
        return ""
    for data in (_nearly_all_alike(case), *case.strange):
        # Of other randomness, which no tape repeats, scales may depend: not so that they differ each time.
        if all(_scales_differ(case, data) for _ in range(INTEGERS)):
            return (
                "draws noise of another scale, or for more numbers, where the rows are others and all that was "
                "released before is the same: take bounds from what is public, and none from the rows."
            )
    return ""


def _scales_differ(case, data):
    """Whether noise has other scales, or sizes, than of usual data, although the same was released before."""
    tape, other = played_tapes(case.released, case.data, data)
    for (kind, scale, values), (other_kind, other_scale, others) in zip(tape, other, strict=False):
        if (kind, scale, values.shape) != (other_kind, other_scale, others.shape):
            return True
        if kind == "flip" and not np.array_equal(values, others):
            return False  # bits are not played: on what is released, all that follows may depend
    return len(tape) != len(other)


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


def _rare(case):
    """Data with what one row alone has, as far as accepted: a label, unless labels are in common, and no number."""
    tables, found = [], case.fitted.guarantee_
    if is_classifier(case.estimator) and not found.given:
        rare = case.y.max() + 1 if case.y.dtype.kind in "iuf" else f"no {case.y[1]}"
        labels = case.y.tolist()
        tables.append((case.X, np.array([labels[0], rare, *labels[2:]])))
    if get_tags(case.estimator).input_tags.allow_nan:
        X = case.X.copy()
        X[1, 0] = np.nan
        tables.append((X, *case.data[1:]))
    return [data for data in tables if error_of(lambda data=data: case.fit(*data)) is None]


def _nearest(case, here, there, is_kept):
    """Two neighbours on the way between data: what all of their fits hold apart, fits of two on the way hold apart."""
    while (middle := _halfway(case, here, there)) is not None:
        if all(is_kept(middle) for _ in range(_N_ALIKE)):
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


def _state_of(case, name, data):
    """What a fitted estimator holds, or says of itself, under a name."""
    return _state(case, data, [name]).get(name)


def _state(case, data, names=None):
    """Everything that a fitted estimator holds, or at least some names of it, and says of itself."""
    with heard() as said:
        fitted = case.new(**case.public_seed).fit(*data)
        use(fitted, data)
    texts = {
        "its repr": repr(fitted),
        "its guarantee": str(fitted.guarantee_),
        "its report": repr(privacy_report(fitted)),
    }
    return said | fingerprints(fitted, names) | {name: ("str", text) for name, text in texts.items()}


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


CHECKS = (
    _attributes_hold_nothing_of_the_rows,
    _everything_follows_from_releases,
    _names_of_people_are_kept_nowhere,
    _scales_tell_nothing_of_the_rows,
)
