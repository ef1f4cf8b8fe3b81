"""Checks that no two releases share noise."""

import copy
import multiprocessing
import os
import pickle
import random
import threading
from contextlib import suppress
from functools import partial
from itertools import combinations

import numpy as np
from sklearn.model_selection import cross_validate

from .._noise import reproducible_noise
from ._case import INTEGERS, NUMBERS, dense, needed
from ._contents import numbers_in
from ._tape import SHARE_OF_NOISE


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
    sequences = {}
    # Noise of numpy or Python follows these seeds, and so would that of an attacker who guesses them.
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        for name in ("one clone", "another of the same seeds"):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            sequences[name] = _draws(case, case.new(**case.public_seed).fit(*case.data))
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
    # Rows that stand twice, and rows that do not: shared noise cancels in differences, and only data are left.
    here, there = (_samples(case, data) for data in (case.data, (case.X[np.arange(len(case.X)) // 2], *case.data[1:])))
    for name in here:
        for axis, what in ((1, "rows"), (2, "columns")):
            if _shares(np.moveaxis(here[name], axis, 1), np.moveaxis(there[name], axis, 1)):
                return _fresh(f"draws one noise for several {what} of {name}", "draw noise for each number.")
    return ""


def _samples(case, data):
    """Many releases of some data by name, of shape (draws, rows, columns)."""
    fitted = case.fitted

    def _once():
        if case.at_transform:
            return {"transform": dense(fitted.transform(data[0]))}
        numbers = numbers_in(case.new().fit(*data))
        return {name: numbers[name] for name in case.noisy}

    first = _once()
    whole = any(needed(values) > NUMBERS for values in first.values())
    releases = [first, *(_once() for _ in range(INTEGERS if whole else INTEGERS // 4))]
    shapes = {name: (len(releases), *values.shape[:1], -1) for name, values in first.items() if values.ndim}
    return {name: np.stack([one[name] for one in releases]).reshape(shape) for name, shape in shapes.items()}


def _shares(here, there):
    """Whether the difference of the first part and another has no noise, but tells of the data."""
    differences = [(draws[:, 1:] - draws[:, :1]).astype(np.float64) for draws in (here, there)]
    spread = here.std(axis=0).max()
    silent = np.max([one.std(axis=0) for one in differences], axis=(0, 2)) <= SHARE_OF_NOISE * spread
    moved = np.abs(differences[0].mean(axis=0) - differences[1].mean(axis=0)).max(axis=1) > SHARE_OF_NOISE * spread
    return bool(np.any(silent & moved)) and spread > 0


def _seeded_noise_is_marked(case):
    sequences = []
    for seed in (0, 0, 1):
        with reproducible_noise(seed):
            releasing = case.new(**case.public_seed).fit(*case.data)
            sequences.append(_draws(case, releasing))
    once, again, other = sequences
    # Noise that the seed repeats, and another seed does not, is what it seeds.
    if _alike({0: once, 1: again}) and not _alike({0: once, 1: other}) and not releasing.guarantee_.seeded:
        return "is not marked where reproducible_noise seeds it: if _noise is seeded, guarantee_.mark_seeded()."
    return ""


CHECKS = (
    _calls_share_no_noise,
    _copies_share_no_noise,
    _seeds_repeat_no_noise,
    _threads_share_no_noise,
    _processes_share_no_noise,
    _folds_share_no_noise,
    _rows_and_classes_share_no_noise,
    _seeded_noise_is_marked,
)
