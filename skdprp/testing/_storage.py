"""Checks that a row is a vector: its release depends on its numbers, and on nothing else."""

from contextlib import suppress
from copy import deepcopy
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ..audit import audit_epsilon
from ._case import FAR, MANY, Case, dense, error_of
from ._contents import flat
from ._heard import use
from ._tape import SHARE_OF_NOISE, noise_in, same_tape, tape_of, without_noise


def _storage_is_irrelevant(case):
    release = released_of(case)
    whole = np.rint(np.interp(case.X, (case.X.min(), case.X.max()), (0, 255)))
    usual = noise_in(partial(release, case.X))
    for X, stores in ((case.X, _STORES), (whole, _WHOLE_STORES), (whole - 128, _SIGNED_STORES)):
        if X is not case.X and error_of(partial(release, X)) is not None:
            continue  # whole numbers may lie beyond what is accepted
        tape = tape_of(partial(release, X))
        for name, store in stores.items():
            with suppress(ImportError):
                stored = store(X)
                if name.startswith("CSR") and not get_tags(case.estimator).input_tags.sparse:
                    continue
                if X is not case.X and error_of(partial(release, stored)) is not None:
                    continue  # and so may their types
                other = tape_of(partial(release, stored))
                # What float32 rounds off may be paid for by more noise: the type of a table is public.
                alike = same_tape(tape, other or [], more_noise=2.0**-6) if tape else indistinct(release, X, stored)
                if not alike:
                    return (
                        f"releases something else of the same rows as {name}: bring rows to one form before all else."
                    )
                if X is case.X and _lacks_noise(usual, partial(release, stored)):
                    return f"releases rows as {name} without noise that they have as an array: add it to all numbers."
    return ""


def _lacks_noise(usual, function):
    """Whether numbers that a call returns do not follow the noise, which usual ones do in their place."""
    if usual is None:
        return False
    found = noise_in(function)
    if found is None or found.shape[1:] != usual.shape[1:]:
        return True
    return bool(np.any((found == 0) & (np.resize(usual, found.shape) != 0)))


def _one_row_sets_no_type(case):
    """Repeated entries of float32 are summed in float64: in one row they must not change the noise of all."""
    if not get_tags(case.estimator).input_tags.sparse:
        return ""
    release, X = released_of(case), sp.csr_array(case.X.astype(np.float32))
    first = X.indptr[1]
    twice = sp.csr_array(
        (
            np.concatenate([X.data[:first] / 2, X.data[:first] / 2, X.data[first:]]),
            np.concatenate([X.indices[:first], X.indices]),
            np.append(0, X.indptr[1:] + first),
        ),
        shape=X.shape,
    )
    tape, other = tape_of(lambda: release(X)), tape_of(lambda: release(twice))
    alike = same_tape(tape, other or []) if tape else indistinct(release, X, twice)
    return "" if alike else "releases something else of float32 rows if one has repeated entries: keep their type."


def released_of(case):
    """A function from rows to what is released of them, in numbers."""
    if case.at_transform:
        return lambda X: dense(case.fitted.transform(X))
    noisy = case.noisy  # which is found out by fits, none of them to be recorded
    return lambda X: flat(case.new(**case.public_seed).fit(X, *case.data[1:]), noisy)


def indistinct(release, a, b):
    """Whether audits find nothing by which to tell two releases apart."""
    attacks = ["nearer centre", "linear", "discriminant", "values"]
    return audit_epsilon(release, a, b, n_trials=200, confidence=1 - 1e-11, distinguishers=attacks).epsilon == 0


def _shuffled_csr(X):
    order = np.tile(np.arange(X.shape[1])[::-1], len(X))
    entries = np.take_along_axis(X, order.reshape(X.shape), axis=1).ravel()
    return sp.csr_array((entries, order, np.arange(len(X) + 1) * X.shape[1]), shape=X.shape)


def _csr_in_parts(X):
    """Each entry as four, of which three cancel."""
    parts = np.stack([np.full(X.shape, 2.0), X, -np.ones(X.shape), -np.ones(X.shape)], axis=2)
    columns = np.repeat(np.tile(np.arange(X.shape[1]), len(X)), 4)
    return sp.csr_array((parts.ravel(), columns, np.arange(len(X) + 1) * 4 * X.shape[1]), shape=X.shape)


def frame_of(X, index=None):
    """Return rows as a data frame of pandas, which is loaded here."""
    import pandas as pd

    return pd.DataFrame(X, index=index)


_STORES = {
    "an array in columns": np.asfortranarray,
    "an array with strides": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "float32": lambda X: X.astype(np.float32) if np.array_equal(X, X.astype(np.float32)) else X,
    "a list": lambda X: X.tolist(),
    "a frame": frame_of,
    "a frame with names that are in no order, some twice": lambda X: frame_of(X, index=np.arange(len(X))[::-1] // 2),
    "CSR": sp.csr_array,
    "CSR in another order": _shuffled_csr,
    "CSR of repeated entries": _csr_in_parts,
}
_WHOLE_STORES = {
    "uint8": lambda X: X.astype(np.uint8),
    "CSR of uint8": lambda X: sp.csr_array(X.astype(np.uint8)),
    "float16": lambda X: X.astype(np.float16),
}
_SIGNED_STORES = {"int8": lambda X: X.astype(np.int8)}


def _other_rows_are_irrelevant(case):
    if not case.at_transform:
        return ""
    X, release = case.X, released_of(case)
    # Others that are much larger show through the noise of the one, and an empty one may be left out, where accepted.
    larger, empty = FAR * X[1:], 0 * X[:1]
    strangers = next(
        (
            rows
            for rows in (np.vstack([larger, empty]), larger, np.vstack([X[1:], empty]))
            if error_of(partial(release, rows)) is None
        ),
        X[1:],
    )
    others = {
        "alone": X[:1],
        "first of others": np.vstack([X[:1], strangers]),
        "last": np.vstack([strangers[::-1], X[:1]]),
    }
    place = {"alone": 0, "first of others": 0, "last": -1, "first of very many": 0}
    usual = noise_in(partial(release, X))
    for n_rows in (1, 2, MANY):
        if _lacks_noise(usual, partial(release, np.resize(X, (n_rows, X.shape[1])))):
            return f"releases {n_rows} rows without noise that they have among others: add it to all numbers."
    released, tape = without_noise(lambda: release(X))
    tape = _by_row(tape, len(X))
    if tape:  # an audit takes too many calls
        others["first of very many"] = np.vstack([X[:1], np.resize(strangers, (MANY, X.shape[1]))])
    for name, rows in others.items():
        if len(release(rows)) != len(rows):
            return "releases more or fewer rows than it is given: which of them are left out tells of them."
        # Without noise, as rows may be put in another order after it.
        there, other = without_noise(lambda rows=rows: release(rows))
        other = _by_row(other, len(rows))
        if tape and other:
            alike = same_tape(_at(tape, 0), _at(other, place[name]))
            alike &= np.allclose(released[0], there[place[name]], rtol=SHARE_OF_NOISE, atol=SHARE_OF_NOISE)
        else:
            alike = indistinct(lambda data: release(data[0])[data[1]], (X, 0), (rows, place[name]))
        if not alike:
            return f"releases something else of a row that stands {name}: treat each row by itself."
    return ""


def _by_row(tape, n_rows):
    """What reaches the noise, a row at a time, where it has that form."""
    if not tape or any(values.size % n_rows for _, _, values in tape):
        return None
    return [(kind, scale, values.reshape(n_rows, -1)) for kind, scale, values in tape]


def _at(tape, row):
    return [(kind, scale, values[row]) for kind, scale, values in tape]


def _index_is_not_released(case):
    if not case.at_transform:
        return ""
    try:
        frame = frame_of(case.X, index=[f"person {i}" for i in range(len(case.X))])
    except ImportError:
        return ""
    for container in ("default", "pandas"):
        fitted = case.new()
        if container != "default" and not hasattr(fitted, "set_output"):
            continue
        fitted = fitted.set_output(transform=container) if container != "default" else fitted
        released = fitted.fit(frame, *case.data[1:]).transform(frame)
        if hasattr(released, "index") and list(released.index) != list(range(len(frame))):
            return (
                "releases the index of a table, which may name people: return frames numbered from 0, or derive from "
                "TransformerMixin with auto_wrap_output_keys=None."
            )
    return ""


def _rows_are_left_as_they_are(case):
    fresh = Case(case.estimator, case.given_X, case.given_y)  # none of whose rows were seen, and written over, before
    for name, store in {"an array": np.array, **_STORES}.items():
        with suppress(ImportError):
            if name.startswith("CSR") and (name != "CSR" or not get_tags(case.estimator).input_tags.sparse):
                continue
            X, *y = given = deepcopy([store(fresh.X), *fresh.data[1:], np.arange(len(fresh.X)) // 2])
            before = deepcopy(given)
            error_of(partial(_pass, fresh, X, *y))
            for what, old, new in zip(("rows", *("labels",) * (len(y) - 1), "groups"), before, given, strict=True):
                if not np.array_equal(dense(old), dense(new)):
                    return f"writes over the {what} of {name}, which others are yet to see: copy them before."
    return ""


def _pass(case, X, *y_and_groups):
    """Give rows to all methods."""
    *y, groups = y_and_groups
    fitted = case.fit(X, *y)
    use(fitted, (X, *y))
    for name in ("fit_transform", "fit_predict"):
        error_of(lambda name=name: getattr(case.new(), name)(X, *y))
    if has_fit_parameter(case.estimator, "groups"):
        case.new().fit(X, *y, groups=groups)


CHECKS = (
    _rows_are_left_as_they_are,
    _storage_is_irrelevant,
    _one_row_sets_no_type,
    _other_rows_are_irrelevant,
    _index_is_not_released,
)
