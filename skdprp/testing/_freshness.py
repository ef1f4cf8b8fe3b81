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
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.utils import gen_batches

from .._noise import reproducible_noise
from ._case import BITS, INTEGERS, MANY, NUMBERS, dense, error_of, needed
from ._contents import numbers_in
from ._tape import SHARE_OF_NOISE

_N_ROWS, _N_DRAWS = 600, 24  # of a transform at once, and how often: 24 numbers have more than 10^23 orders
_N_OTHERS = 8  # releases of other data
_PAIRS = 2**18  # of numbers that are compared at a time: a table may release tens of thousands


def _draws(case, releasing):
    """As many releases of an object as chance cannot repeat, by name."""
    return case.sequence(partial(case.again, releasing))


def _alike(sequences):
    """Say which two of some sequences of releases have the same numbers, if any."""
    for (first, a), (second, b) in combinations(sequences.items(), 2):
        for name in a.keys() & b.keys():
            if np.array_equal(a[name], b[name]):
                return f"draws the same {name} in {first} and in {second}"
    return ""


def _fresh(reason, cure="draw its noise from the kernel (os.urandom, secrets) whenever it is used, and keep none."):
    return f"{reason}: {cure}" if reason else ""


def _calls_share_no_noise(case):
    releasing = case.new().fit(*case.data)
    return _fresh(_alike({f"call {i}": _draws(case, releasing) for i in (1, 2, 3)}))


def _copies_share_no_noise(case):
    original = case.new().fit(*case.data)
    copies = {"a deep copy": copy.deepcopy(original)}
    with suppress(pickle.PicklingError, AttributeError):  # a class that is in no module
        copies["a pickle"] = pickle.loads(pickle.dumps(original))
    return _fresh(_alike({name: _draws(case, one) for name, one in {"the original": original, **copies}.items()}))


def _seeds_repeat_no_noise(case):
    _ = case.at_transform or case.noisy  # which is found out by fits, none of them to be seeded
    sequences, names = {}, case.estimator.get_params(deep=False)
    seeds = {name: 1 for name in names if name in case.public_seed or "seed" in name}  # 0 may count as none
    # Noise of numpy or Python follows these seeds, and so would that of an attacker who guesses them.
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        for name in ("one clone", "another of the same seeds"):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            sequences[name] = _draws(case, case.new(**seeds).fit(*case.data))
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
    return _fresh(_alike(sequences))


def _threads_share_no_noise(case):
    # A fit shares no object with another thread's, a transform may.
    sequences, shared = {}, case.new().fit(*case.data)

    def _draw(name):
        sequences[name] = _draws(case, shared if case.at_transform else case.new())

    threads = [threading.Thread(target=_draw, args=(name,)) for name in ("one thread", "another")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(sequences) < len(threads):
        return "fails in a thread where it works in the main one: hold no state of a thread."
    return _fresh(_alike(sequences))


def _processes_share_no_noise(case):
    if not hasattr(os, "fork"):
        return ""
    # A fork inherits every generator and every buffer as they are.
    forked, releasing = multiprocessing.get_context("fork"), case.new().fit(*case.data)
    sequences = {}
    for name in ("a forked process", "another"):
        parent, child = forked.Pipe()
        process = forked.Process(target=lambda child=child: child.send(_draws(case, releasing)))
        process.start()
        child.close()
        try:
            sequences[name] = parent.recv()
        except EOFError:
            return "fails in a forked process where it works in its parent: hold no state of a process."
        finally:
            process.join()
    return _fresh(_alike({**sequences, "their parent": _draws(case, releasing)}))


def _folds_share_no_noise(case):
    if case.at_transform:  # what they release is drawn in transform, whoever calls it
        return ""
    n_draws = max(len(values) for values in case.sequence(case.release).values())
    everything = np.arange(len(case.X))
    options = {"cv": [(everything, everything)] * (2 * n_draws), "scoring": lambda *ignored: 0.0}
    fitted = cross_validate(case.new(), case.X, case.y, return_estimator=True, **options)["estimator"]
    releases = [case.release(one) for one in fitted]
    halves = {"some folds": releases[:n_draws], "others": releases[n_draws:]}
    return _fresh(
        _alike(
            {half: {name: np.stack([one[name] for one in part]) for name in part[0]} for half, part in halves.items()}
        )
    )


def _rows_and_classes_share_no_noise(case):
    reason = _shared_noise(case, _N_ROWS)
    if not reason and "n_jobs" in case.estimator.get_params(deep=False):
        reason = _shared_noise(case, len(case.X), n_jobs=2)
    if not reason and case.at_transform:
        rows = np.repeat(case.X[:1], MANY, axis=0)
        one = dense(case.fitted.transform(rows[:1]))
        if needed(one) != BITS:  # which would take too many draws
            # So many numbers that chance repeats none, of rows that are all equal.
            n_draws = math.ceil(2 * needed(one) / one.size)
            draws = np.hstack([dense(case.fitted.transform(rows)) for _ in range(n_draws)])
            if len({row.tobytes() for row in draws}) < MANY:
                reason = "draws one noise for several of very many rows"
    return _fresh(reason, "draw noise for each number.")


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
    noise, moved = np.moveaxis(here - centre, 0, 1), centre - there
    for rows in gen_batches(n_rows, max(_PAIRS // n_parts**2, 1)):
        squares = np.sum(noise[rows] ** 2, axis=1)[:, None]
        for some in gen_batches(n_parts, max(_PAIRS // n_parts, 1)):
            own = np.moveaxis(squares[:, :, some], 1, 2)
            apart = own + squares - 2 * np.moveaxis(noise[rows, :, some], 1, 2) @ noise[rows]
            silent = apart <= SHARE_OF_NOISE**2 * np.minimum(own, squares)
            silent &= enough[rows, some, None] & enough[rows, None]
            row, first, second = np.nonzero(np.triu(silent, 1 + some.start))
            row, first = row + rows.start, first + some.start
            if np.any(np.all(np.abs(moved[:, row, first] - moved[:, row, second]) > nothing[row, first], axis=0)):
                return True
    return False


def _seeded_noise_is_marked(case):
    _ = case.at_transform or case.noisy  # which is found out by fits, none of them to be seeded
    sequences = []
    for seed in (0, 0, 1):
        with reproducible_noise(seed):
            releasing = case.new(**case.public_seed).fit(*case.data)
            sequences.append(_draws(case, releasing))
    once, again, other = sequences
    # Noise that the seed repeats, and another seed does not, is what it seeds.
    if _alike({0: once, 1: again}) and not _alike({0: once, 1: other}) and not releasing.guarantee_.seeded:
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
