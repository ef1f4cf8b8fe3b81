"""Checks by attacks on two neighbours."""

import math

import numpy as np
from sklearn.base import clone

from ..audit import audit_epsilon, worst_neighbours
from ..audit._trials import trials_of
from ..guarantee import Definition
from ..mechanisms.mutual_information import information_delta
from ._case import SURE
from ._contents import flat
from ._knowledge import neighbouring


def _audit_refutes_nothing(case):
    """No attack shows more than is guaranteed."""
    guarantee = case.fitted.guarantee_
    result = _audit(case, case.estimator)
    if result is not None and result.exceeds(guarantee):
        return f"does not keep {guarantee!r}, as an attack shows: {result!r}. Look for a sensitivity that is too small."
    return ""


def _audit_catches_the_weakened(case):
    """An attack that finds nothing is worth what it finds where there is something."""
    result = _audit(case, case.weakened)
    if result is None or not result.exceeds(case.fitted.guarantee_):
        return f"passes an audit when it is weakened ({result!r}): give neighbours that are worse, or more n_trials."
    return ""


def _audit(case, estimator):
    """Attack an estimator on two neighbours; None where audits say nothing about its kind of guarantee."""
    guarantee = case.fitted.guarantee_
    if guarantee.definition is Definition.INDIVIDUAL_DP:
        return None
    options = {"confidence": SURE, "n_trials": 10_000 if case.at_transform else 200}
    if not math.isfinite(guarantee.epsilon):  # nothing exceeds it
        return None
    if guarantee.definition is Definition.DP:
        # A small delta hides much: what attacks can show is at smaller epsilons.
        options["delta"] = guarantee.profile(guarantee.epsilon / 4) if guarantee.delta else 0.0
    if guarantee.definition is Definition.MI_DP:
        options["delta"] = information_delta(guarantee.epsilon)  # bits bound how far apart two distributions are
    options |= case.audit_options
    release, known = clone(estimator).set_params(**case.public_seed), {}  # neighbours are worst for one projection
    try:
        pair = worst_neighbours(case.fit(), *case.data)
        pair = case.neighbours or pair
        known = trials_of(release, *pair).known
    except TypeError:  # none of this library
        pair = case.neighbours or _pair_of_stranger(case)
        if case.at_transform:
            release = clone(estimator).fit(*case.data).transform
            options.setdefault("rows_are_trials", len(pair[0]) == len(pair[1]) == 1)
        else:
            options.setdefault("output", lambda fitted: flat(fitted, case.noisy))
    options.setdefault("distinguishers", [*known, "nearer centre", "linear", "discriminant", "values", "lowest bits"])
    return audit_epsilon(release, *pair, **options)


def _pair_of_stranger(case):
    """Neighbours that the adjacency of a guarantee names."""
    here, there = neighbouring(case)
    if case.at_transform:
        row = np.flatnonzero((here[0] != there[0]).any(axis=1))
        return here[0][row], there[0][row]
    return (here, there) if len(here) > 1 else (here[0], there[0])


CHECKS = (
    _audit_refutes_nothing,
    _audit_catches_the_weakened,
)
