"""Checks that no two releases share noise."""

import copy
import math
import multiprocessing
import os
import pickle
import random
import threading
from contextlib import suppress
from functools import partial
from itertools import combinations

import numpy as np
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.utils import gen_batches

from .._noise import reproducible_noise
from ._case import BITS, INTEGERS, MANY, NUMBERS, dense, error_of, needed
from ._contents import numbers_in
from ._tape import SHARE_OF_NOISE

_N_ROWS, _N_DRAWS = 600, 24  # of a transform at once, and how often: 24 numbers have more than 10^23 orders
_N_OTHERS = 8  # releases of other data
_IMPROBABLE = math.log(1e12)  # one in so many
_PAIRS = 2**18  # of numbers that are compared at a time: a table may release tens of thousands


def _draws(case, releasing, n_draws):
    """Releases of an object, by name: so many, or as many as chance seldom repeats."""
    return case.sequence(partial(case.again, releasing), n_draws)


def _shared(case, sequences_of, fit=None):
    """Say which two of some sequences of releases have the same numbers, and not by chance, if any.

    The function takes how many releases are in each, and returns the sequences by name. Choices, rounded numbers and
    bits may hardly vary: where two sequences are equal, longer ones decide, beside releases by a fit of their own each.
    """
    if not any(_equal(sequences_of(None))):
        return ""
    fresh = case.sequence(lambda: case.release((fit or case.fit)()), INTEGERS)
    for first, second, name, values in _equal(sequences_of(INTEGERS)):
        if not _may_be_chance(values, fresh.get(name, values)):
            return f"draws the same {name} in {first} and in {second}"
    return ""


def _equal(sequences):
    """Yield which two sequences have the same numbers, under which name, and these numbers."""
    for (first, a), (second, b) in combinations(sequences.items(), 2):
        for name in a.keys() & b.keys():
            if np.array_equal(a[name], b[name]):
                yield first, second, name, a[name]


def _may_be_chance(values, fresh):
    """Whether two sequences of the same numbers may be independent draws, as those of so many fits of their own are."""
    draws = values.reshape(len(values), -1)
    if np.any(draws != draws[0]):  # all orders of one of them are equally likely
        return _log_orders(draws) <= _IMPROBABLE
    return _log_places(2 * len(draws), draws[0], fresh) <= _IMPROBABLE


def _log_orders(draws):
    """Logarithm of the number of orders in which some draws can stand, of which equal ones are no two."""
    counts = np.unique(draws, axis=0, return_counts=True)[1]
    return gammaln(len(draws) + 1) - gammaln(counts + 1).sum()


def _log_places(n_draws, value, fresh):
    """Logarithm of one in how many ways, to place equal values among all draws, puts one in each of so many of them."""
    n_others, n_alike = len(fresh), np.count_nonzero(np.all(fresh.reshape(len(fresh), -1) == value, axis=1))
    return gammaln([n_others + n_draws + 1, n_alike + 1]).sum() - gammaln([n_alike + n_draws + 1, n_others + 1]).sum()


def _fresh(reason, cure="draw its noise from the kernel (os.urandom, secrets) whenever it is used, and keep none."):
    return f"{reason}: {cure}" if reason else ""


def _calls_share_no_noise(case):
    releasing = case.fit()
    return _fresh(_shared(case, lambda n: {f"call {i}": _draws(case, releasing, n) for i in (1, 2, 3)}))


def _copies_share_no_noise(case):
    original = case.fit()
    copies = {"a deep copy": copy.deepcopy(original)}
    with suppress(pickle.PicklingError, AttributeError):  # a class that is in no module
        copies["a pickle"] = pickle.loads(pickle.dumps(original))
    copies["the original"] = original
    return _fresh(_shared(case, lambda n: {name: _draws(case, one, n) for name, one in copies.items()}))


def _seeds_repeat_no_noise(case):
    names = case.estimator.get_params(deep=False)
    seeds = {name: 1 for name in names if name in case.public_seed or "seed" in name}  # 0 may count as none

    def _draw(n_draws):
        # Noise of numpy or Python follows these seeds, and so would that of an attacker who guesses them.
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        return _draws(case, case.new(**seeds).fit(*case.data), n_draws)

    kept = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        names = "one clone", "another of the same seeds"
        return _fresh(_shared(case, lambda n: {name: _draw(n) for name in names}, lambda: case.new().fit(*case.data)))
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


def _threads_share_no_noise(case):
    # A fit shares no object with another thread's, a transform may.
    fitted = case.fit()

    def _draw_in_threads(n_draws):
        sequences = {}

        def _draw(name):
            sequences[name] = _draws(case, fitted if case.at_transform else case.new(**case.public_seed), n_draws)

        threads = [threading.Thread(target=_draw, args=(name,)) for name in ("one thread", "another")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sequences

    if len(_draw_in_threads(1)) < 2:
        return "fails in a thread where it works in the main one: hold no state of a thread."
    return _fresh(_shared(case, _draw_in_threads))


def _processes_share_no_noise(case):
    if not hasattr(os, "fork"):
        return ""
    # A fork inherits every generator and every buffer as they are.
    forked, releasing = multiprocessing.get_context("fork"), case.fit()

    def _draw_in_process(n_draws):
        parent, child = forked.Pipe()
        process = forked.Process(target=lambda: child.send(_draws(case, releasing, n_draws)))
        process.start()
        child.close()
        try:
            return parent.recv()
        finally:
            process.join()

    def _draw_in_processes(n_draws):
        sequences = {name: _draw_in_process(n_draws) for name in ("a forked process", "another")}
        return {**sequences, "their parent": _draws(case, releasing, n_draws)}

    try:
        return _fresh(_shared(case, _draw_in_processes))
    except EOFError:
        return "fails in a forked process where it works in its parent: hold no state of a process."


def _folds_share_no_noise(case):
    if case.at_transform:  # what they release is drawn in transform, whoever calls it
        return ""
    at_least = max(len(values) for values in case.sequence(case.release).values())
    everything = np.arange(len(case.X))

    def _draw_in_folds(n_draws):
        n_draws = n_draws or at_least
        options = {"cv": [(everything, everything)] * (2 * n_draws), "scoring": lambda *ignored: 0.0}
        new = case.new(**case.public_seed)
        fitted = cross_validate(new, case.X, case.y, return_estimator=True, **options)["estimator"]
        releases = [case.release(one) for one in fitted]
        halves = {"some folds": releases[:n_draws], "others": releases[n_draws:]}
        return {
            half: {name: np.stack([one[name] for one in part]) for name in part[0]} for half, part in halves.items()
        }

    return _fresh(_shared(case, _draw_in_folds))


def _rows_and_classes_share_no_noise(case):
    reason = _shared_noise(case, _N_ROWS)
    if not reason and "n_jobs" in case.estimator.get_params(deep=False):
        reason = _shared_noise(case, len(case.X), n_jobs=2)
    if not reason and case.at_transform:
        rows = np.repeat(case.X[:1], MANY, axis=0)
        one = dense(case.fitted.transform(rows[:1]))
        if needed(one) != BITS:  # which would take too many draws
            # So many numbers that chance seldom repeats any, of rows that are all equal; if it did, more decide.
            n_draws = math.ceil(2 * needed(one) / one.size)
            if _repeated(case, rows, n_draws).size and _repeat_more_than_chance(case, rows):
                reason = "draws one noise for several of very many rows"
    return _fresh(reason, "draw noise for each number.")


def _repeated(case, rows, n_draws):
    """Draws, of shape (n_draws, n_columns), that several of some rows have in common."""
    draws = np.stack([dense(case.fitted.transform(rows)) for _ in range(n_draws)], axis=1)
    same, counts = np.unique(draws.reshape(len(rows), -1), axis=0, return_counts=True)
    return same[counts > 1].reshape(-1, *draws.shape[1:])


def _repeat_more_than_chance(case, rows):
    repeated = _repeated(case, rows, INTEGERS)
    if len(repeated) == 1 and np.all(repeated == repeated[0, 0]):  # it may be all that is ever drawn
        fresh = np.stack([dense(case.fit().transform(rows[:1])) for _ in range(INTEGERS)])
        return _log_places(2 * INTEGERS, repeated[0, 0], fresh) > _IMPROBABLE
    return any(_log_orders(draws) > _IMPROBABLE + 2 * math.log(len(rows)) for draws in repeated)


def _shared_noise(case, n_rows, **parameters):
    """Say which rows or columns share their noise, if any; of transforms, of so many rows."""
    if case.at_transform:
        # More rows than a block of noise has, and no two that stand apart as the blocks do are always the same.
        data, other = case.X[np.random.default_rng(0).integers(len(case.X), size=(2, n_rows))]
    else:
        data, other = case.data, (case.X[np.arange(len(case.X)) // 2], *case.data[1:])  # rows that stand twice
    release = partial(_released, case, case.fit(**parameters) if case.at_transform else case.new(**parameters))
    first = release(data)
    whole = any(needed(values) > NUMBERS for values in first.values())
    draws = [first, *(release(data) for _ in range(2 * INTEGERS if whole else _N_DRAWS))]
    # Of shape (draws, rows, columns): many releases of some data by name, and a few of others.
    shapes = {name: (*values.shape[:1], -1) for name, values in first.items() if values.ndim}
    here, there = (
        {name: np.stack([one[name] for one in some]).reshape(len(some), *shape) for name, shape in shapes.items()}
        for some in (draws, [release(other) for _ in range(_N_OTHERS)])
    )
    for name in here:
        for axis, what in ((1, "rows"), (2, "columns")):
            if _shares(np.moveaxis(here[name], axis, 2), np.moveaxis(there[name], axis, 2)):
                return f"draws one noise for several {what} of {name}"
    return ""


def _every_number_has_noise(case):
    """Each released number varies: of empty rows, of rows beyond all bounds, and of `fit_transform`, too."""
    if not case.at_transform:
        return ""
    # Of rows far from zero bits are hardly ever flipped, and all are of empty ones, where these are accepted.
    empty = (np.zeros_like(case.X), *case.data[1:])
    of_bits = [empty] if error_of(lambda: case.fitted.transform(empty[0])) is None else []
    for data in [case.data, *case.odd, *of_bits]:
        calls = {
            "transform": lambda data=data: case.fitted.transform(data[0]),
            "fit_transform": lambda data=data: case.new(**case.public_seed).fit_transform(*data),
        }
        for name, call in calls.items():
            first = _numbers(call())
            if len(first) != len(data[0]):  # other checks ask for a release of each row
                continue
            is_of_bits = needed(first) == BITS
            if is_of_bits != (data is empty):
                continue
            n_draws = math.ceil(2 * BITS / len(first)) if is_of_bits else 2 * needed(first)
            draws = np.stack([first, *(_numbers(call()) for _ in range(n_draws))])
            same = draws == (first[0] if is_of_bits else first)  # those of a bit in all rows, and of any other number
            constant = np.all(same, axis=(0, 1) if is_of_bits else 0)
            if is_of_bits:  # up to seven at the end fill the last byte, and are 0
                constant[-7:] &= np.logical_or.accumulate(np.any(draws, axis=(0, 1))[::-1])[:7][::-1]
            if np.any(constant):
                return _fresh(f"{name} returns numbers that are the same each time", "add noise to every number.")
    return ""


def _numbers(output):
    """What a transform returned as an array, of packed bits each bit by itself."""
    values = dense(output)
    return np.unpackbits(values, axis=1) if values.dtype == np.uint8 else values


def _released(case, estimator, data):
    if case.at_transform:
        return {"transform": dense(estimator.transform(data))}
    numbers = numbers_in(clone(estimator).fit(*data), case.noisy)
    return {name: numbers[name] for name in case.noisy}


def _shares(here, there):
    """Whether the difference of two parts has no noise, but tells of the data: of numbers along the last axis.

    Numbers that share no noise rise and fall together by chance, as if the draws of one of them were shuffled: less
    often than once in the number of orders in which its draws can stand. Bits that are hardly ever flipped have few.
    What follows from one noisy count, such as the ends of a cell, may rise and fall together as well: in draws of other
    data they hardly ever stand all apart in another way.
    """
    here, there = here.astype(np.float64), there.astype(np.float64)
    n_draws, n_rows, n_parts = here.shape
    centre, nothing = here.mean(axis=0), SHARE_OF_NOISE * here.std(axis=0)
    # Of the number of orders, draws no further apart than this are the same: 1, 2, ... counts those of each group.
    ordered, place = np.sort(here, axis=0), np.arange(n_draws)[:, None, None]
    is_apart = np.diff(ordered, axis=0, prepend=ordered[:1]) > 2 * math.sqrt(n_draws) * nothing
    same = place - np.maximum.accumulate(np.where(is_apart, place, 0), axis=0) + 1
    enough = math.lgamma(n_draws + 1) - np.log(same).sum(axis=0) > math.log(1e11 * n_rows * n_parts**2)
    for row, parts in enumerate(map(np.flatnonzero, enough)):
        noise = here[:, row, parts] - centre[row, parts]
        squares, moved = np.sum(noise**2, axis=0), (centre - there)[:, row]
        for some in gen_batches(max(len(parts), 1), max(_PAIRS // max(len(parts), 1), 1)):
            own = squares[some, None]
            silent = own + squares - 2 * noise[:, some].T @ noise <= SHARE_OF_NOISE**2 * np.minimum(own, squares)
            first, second = np.nonzero(np.triu(silent, 1 + some.start))
            first, second = parts[some][first], parts[second]
            if np.any(np.all(np.abs(moved[:, first] - moved[:, second]) > nothing[row, first], axis=0)):
                return True
    return False


def _seeded_noise_is_marked(case):
    def _draw_with(seed, n_draws):
        with reproducible_noise(seed):
            releasing = case.new(**case.public_seed).fit(*case.data)
            return _draws(case, releasing, n_draws), releasing.guarantee_

    if _draw_with(0, 1)[1].seeded:
        return ""
    once_more, other = (
        _shared(case, lambda n, seeds=seeds: {i: _draw_with(seed, n)[0] for i, seed in enumerate(seeds)})
        for seeds in ((0, 0), (0, 1))
    )
    # Noise that the seed repeats, and another seed does not, is what it seeds.
    if once_more and not other:
        return "is not marked where reproducible_noise seeds it: `with entry(...) as release`, see release.seeded."
    return ""


CHECKS = (
    _calls_share_no_noise,
    _copies_share_no_noise,
    _seeds_repeat_no_noise,
    _threads_share_no_noise,
    _processes_share_no_noise,
    _folds_share_no_noise,
    _rows_and_classes_share_no_noise,
    _every_number_has_noise,
    _seeded_noise_is_marked,
)
