"""Checks by attacks on two neighbours."""

import math
from functools import partial
from inspect import signature

import numpy as np
from sklearn.base import clone, is_regressor

from .._adjacency import Relation
from .._noise import GAUSSIAN, LAPLACE
from ..audit import worst_neighbours
from ..audit._epsilon import audits_of
from ..audit._neighbours import NoNeighbours
from ..audit._trials import trials_of
from ..composition import PrivacyLoss, Profile
from ..guarantee import Definition
from ..mechanisms import gaussian_profile
from ..mechanisms.gaussian_laplace import laplace_profile
from ..mechanisms.mutual_information import information_delta
from ._case import FAR, NEAR, SURE, error_of
from ._contents import flat
from ._tape import played_tapes, tape_of

_ROUNDED_DOWN = 1 - 2.0**-32  # as calibrations round noise up
_MOST_TOGETHER = 16  # numbers with Laplace noise whose delta is computed together


def _audit_refutes_nothing(case):
    """No attack shows more than is guaranteed."""
    guarantee = case.fitted.guarantee_
    for result in _audits(case, case.estimator):
        if result.exceeds(guarantee):
            cure = "Look for a sensitivity that is too small."
            return f"does not keep {guarantee!r}, as an attack shows: {result!r}. {cure}"
    return ""


def _noise_is_enough(case):
    """The numbers that noise is added to are no further apart, between neighbours, than all of it can hide.

    This is exact, where the noise is that of this library; the classes of this library have proofs and audits of their
    own. Later numbers may follow from what was released before, so that both neighbours release the same here. Noise
    that is drawn before, and not added to any number, might hide more.
    """
    guarantee = case.fitted.guarantee_
    if guarantee.definition is not Definition.DP or not math.isfinite(guarantee.epsilon):
        return ""
    if not isinstance(error_of(lambda: worst_neighbours(case.fit(), *case.data)), TypeError):
        return ""
    pairs = [*_pairs_of_stranger(case), *_pairs_beyond_bounds(case), *_pairs_at_all_places(case)]
    for pair in [*pairs, *_pairs_of_order(case), *_pairs_of_weights(case)]:
        moves = _moves(*played_tapes(partial(_release_of, case), *pair))
        normal, others = (np.concatenate([[0.0], *moves[kind]]) for kind in (GAUSSIAN, LAPLACE))
        mu, sums = np.linalg.norm(normal), np.abs(others).sum()
        if guarantee.delta == 0 and not mu:
            exceeds = sums * _ROUNDED_DOWN > guarantee.epsilon
        else:  # also at a smaller epsilon, of which it speaks by its loss
            at = [(share * guarantee.epsilon, guarantee.profile(share * guarantee.epsilon)) for share in (1.0, 0.5)]
            exceeds = any(_least_delta(epsilon, mu, np.abs(others)) > delta for epsilon, delta in at)
        if exceeds:
            return (
                f"does not keep {guarantee!r}, if all numbers that noise is added to can be computed from what is "
                f"released: two neighbours move them by {max(mu, sums):.6g} times its scale. Look for a sensitivity "
                "that is too small, for rows that are not clipped to the bounds that it is computed from, or for "
                "several releases that spend the same epsilon."
            )
    return ""


def _least_delta(epsilon, mu, moves):
    """Bound from below the delta of Gaussian noise and of all moves under Laplace noise."""
    alone = [gaussian_profile(epsilon, scale=1.0, sensitivity=mu) if mu else 0.0]
    if not moves.any():
        return alone[0]
    alone.append(laplace_profile(epsilon, scale=1.0, sensitivity=moves.max()))
    # The largest moves together, less what the computation is off by.
    largest = sorted(moves[moves > 0])[-_MOST_TOGETHER:]
    profiles = tuple(Profile(laplace_profile, (("scale", 1.0), ("sensitivity", move))) for move in largest)
    try:
        return max(*alone, PrivacyLoss(mu=mu, profiles=profiles).profile(epsilon) * (1 - 2.0**-10) - 2.0**-30)
    except ImportError:  # without dp-accounting each is asked alone
        return max(alone)


def _moves(tape, other):
    """How far two neighbours are apart, in scales of the noise, by kind of noise."""
    moves = {GAUSSIAN: [], LAPLACE: []}
    for (kind, scale, one), (*others, values) in zip(
        tape[: tape.n_undisturbed], other[: other.n_undisturbed], strict=False
    ):
        if [kind, scale] != others or one.shape != values.shape or kind not in moves or not scale:
            break  # other checks ask what noise depends on
        moves[kind].append((one - values).ravel() / scale)
    return moves


def _pairs_beyond_bounds(case):
    """Neighbours of which one has a row, a target or both beyond all usual bounds, or both have, on either side."""
    if case.by_distance:
        return []
    adjacency, row = case.fitted.guarantee_.adjacency, -2
    is_replaced = adjacency is not None and adjacency.relation is Relation.REPLACE_ONE
    usual, empty, pairs = _with_another(case, row), _with_row(case, row, 0 * case.X[row]), []
    for distance in (FAR, NEAR):
        far = case.beyond(row, distance)
        opposite, beyond = (_with_row(case, row, sign * far) for sign in (-1, 1))
        pairs += [(usual, beyond)]
        pairs += [(opposite, beyond), (empty, beyond)] if is_replaced else []
        if case.y is not None:
            labels = [_with_label(case, row, sign * distance) for sign in (1, -1)]
            pairs += [(usual, (case.X, labels[0]))] if is_regressor(case.estimator) else []
            pairs += [[(X, y) for y in labels] for X in (case.X, beyond[0])] if is_replaced else []
    if case.at_transform:
        pairs = [tuple(data[0][[row]] for data in pair) for pair in pairs]
    return _accepted(partial(_release_of, case), pairs)


def _pairs_at_all_places(case):
    """Neighbours that differ far in a row, for each of the rows: some may count more than others."""
    if case.by_distance or case.at_transform:
        return []
    opposite = 0 if _adds_and_removes(case) else -1
    for distance in (FAR, NEAR, 1.0):
        far = [case.beyond(row, distance) for row in range(len(case.X))]
        pairs = [tuple(_with_row(case, row, sign * one) for sign in (opposite, 1)) for row, one in enumerate(far)]
        if _accepted(partial(_release_of, case), pairs[:1]):
            return pairs
    return []


def _pairs_of_order(case):
    """Neighbours of which one row decides where the middle of all rows is, or on which side of their mean most are."""
    if case.by_distance or case.at_transform:
        return []
    n_rows = len(case.X) - 1 + len(case.X) % 2
    row = case.X[np.abs(case.X).max(axis=1).argmax()]
    halves = np.where(np.arange(n_rows) % 2, -1.0, 1.0)  # one more of the first
    opposite, pairs = 0.0 if _adds_and_removes(case) else -1.0, []
    for shares in (halves, np.append(np.full(n_rows - 1, 2.0**-8), 1.0)):
        tables = [np.outer(np.append(shares[:-1], last), row) for last in (shares[-1], opposite)]
        pairs += [tuple((X, *y) for X in tables) for y in _targets_of_order(case, halves)]
    return _accepted(partial(_release_of, case), pairs)


def _targets_of_order(case, halves):
    """Labels or targets as they are, those that go with two halves of the rows, and all alike."""
    if case.y is None:
        return [()]
    size = np.abs(case.y).max() if is_regressor(case.estimator) else 1
    first, last = (_with_label(case, slice(None), sign * size)[: len(halves)] for sign in (1, -1))
    return [(case.y[: len(halves)],), (np.where(halves > 0, first, last),), (first,)]


def _pairs_of_weights(case):
    """Neighbours that differ in a row of an enormous weight, where `fit` takes weights."""
    if case.by_distance or case.at_transform or "sample_weight" not in signature(case.estimator.fit).parameters:
        return []
    row, pairs = -2, []
    data = [data if len(data) > 1 else (*data, None) for data in (case.data, _with_another(case, row))]
    for weight in (FAR, NEAR):
        weights = np.ones(len(case.X))
        weights[row] = weight
        pairs.append(tuple((*one, {"sample_weight": weights}) for one in data))
    return _accepted(partial(_release_of, case), pairs)


def _adds_and_removes(case):
    return getattr(case.fitted.guarantee_.adjacency, "relation", None) is Relation.ADD_REMOVE


def _release_of(case, data):
    if case.at_transform:
        return case.fitted.transform(data)
    *data, known = data if isinstance(data[-1], dict) else (*data, {})
    return case.new(**case.public_seed).fit(*data, **known)


def _with_label(case, row, target):
    """Labels or targets with another one in a row: a target, or the first or the last class, by its sign."""
    y = case.y.copy()
    y[row] = target if is_regressor(case.estimator) else np.unique(case.y)[0 if target > 0 else -1]
    return y


def _audit_catches_the_weakened(case):
    """An attack that finds nothing is worth what it finds where there is something."""
    results = list(_audits(case, case.weakened))
    if not any(result.exceeds(case.fitted.guarantee_) for result in results):
        return f"passes an audit when it is weakened ({results!r}): give neighbours that are worse, or more n_trials."
    return ""


def _audits(case, estimator):
    """Yield attacks on an estimator; none where audits say nothing about its kind of guarantee."""
    guarantee = case.fitted.guarantee_
    if guarantee.definition is Definition.INDIVIDUAL_DP or not math.isfinite(guarantee.epsilon):  # nothing exceeds it
        return
    release = clone(estimator).set_params(**case.public_seed)  # neighbours are worst for one projection
    options = {"n_trials": 10_000 if case.at_transform else 200}
    try:
        pair = worst_neighbours(case.fit(), *case.data)
        pairs = [case.neighbours or pair]
    except NoNeighbours:
        pairs = [case.neighbours] if case.neighbours else []
    except TypeError:  # none of this library
        pairs = [case.neighbours] if case.neighbours else _pairs_of_stranger(case)
        if not case.neighbours and tape_of(partial(_release_of, case, pairs[0][0])) is None:
            pairs += _pairs_beyond_bounds(case)[:1]  # of noise of this library, the check above asks more
        if case.at_transform:
            release = clone(estimator).fit(*case.data).transform
            options = {"n_trials": 40_000, "rows_are_trials": all(len(data) == 1 for pair in pairs for data in pair)}
        else:
            options["output"] = lambda fitted: flat(fitted, case.noisy)
    if not pairs:
        return
    options |= case.audit_options
    deltas = [options.pop("delta")] if "delta" in options else _deltas(guarantee)
    options.setdefault("confidence", 1 - (1 - SURE) / (len(pairs) * len(deltas)))
    taken = {name: options.pop(name) for name in ("output", "rows_are_trials") if name in options}
    for pair in pairs:
        trials = trials_of(release, *pair, **taken)
        attacks = [*trials.known, "nearer centre", "linear", "discriminant", "values", "lowest bits"]
        yield from audits_of(trials, deltas, **{"distinguishers": attacks} | options)


def _deltas(guarantee):
    """Deltas to audit at: a small one hides much that attacks can show at smaller epsilons."""
    if guarantee.definition is Definition.DP:
        return sorted({guarantee.profile(guarantee.epsilon / 4) if guarantee.delta else 0.0, guarantee.delta})
    if guarantee.definition is Definition.MI_DP:
        return [information_delta(guarantee.epsilon)]  # bits bound how far apart two distributions are
    return [None]


def _pairs_of_stranger(case):
    """Neighbours that the adjacency of a guarantee names: single rows where these are released by themselves."""
    X = case.X
    # The row with most of the extremes of columns, or the largest number: whatever a statistic is of, it counts.
    row = int(((X.max(axis=0) == X) | (X.min(axis=0) == X)).sum(axis=1).argmax())
    if case.by_distance:
        row = int(np.abs(X).max(axis=1).argmax())
        adjacency, unit = case.fitted.guarantee_.adjacency, np.eye(X.shape[1])[np.abs(X[row]).argmax()]
        rest, largest = X[row] * (1 - unit), X[row] * unit
        bound = 2 * np.abs(largest).sum() if math.isinf(adjacency.bound) else adjacency.bound
        # All the way across zero; to zero, which some take for nothing to hide; and for l2 along all axes at once.
        rows = [
            (rest - bound / 2 * unit, rest + bound / 2 * unit),
            (rest + np.clip(largest, -bound, bound), rest),
        ]
        if adjacency.relation is Relation.L2:
            step = np.where(X[row] < 0, -bound, bound) / (2 * math.sqrt(X.shape[1]))
            rows.append((-step, step))
        pairs = [tuple(_with_row(case, row, one) for one in pair) for pair in rows]
    else:
        pairs = [(case.data, _with_another(case, row))]
    if case.at_transform:
        pairs = [tuple(data[0][[row]] for data in pair) for pair in pairs]
        return _accepted(case.fitted.transform, pairs) or pairs
    return _accepted(lambda data: case.fit(*data), pairs) or pairs


def _with_another(case, row):
    """Data with another row in the place of one: the farthest from it, of another label, or a blank."""
    if _adds_and_removes(case):
        return _with_row(case, row, np.zeros(case.X.shape[1]))
    others = np.abs(case.X - case.X[row]).sum(axis=1)
    other = int((others if case.y is None else np.where(case.y == case.y[row], -1, others)).argmax())
    place = np.arange(len(case.X))
    place[row] = other
    return tuple(part[place] for part in case.data)


def _with_row(case, row, numbers):
    """Data with other numbers in a row."""
    X = case.X.copy()
    X[row] = numbers
    return X, *case.data[1:]


def _accepted(release, pairs):
    """Pairs of which both can be released."""
    return [pair for pair in pairs if all(error_of(partial(release, data)) is None for data in pair)]


CHECKS = (
    _noise_is_enough,
    _audit_refutes_nothing,
    _audit_catches_the_weakened,
)
