"""Data with faults, in pairs that have the same fault and other values."""

import math

import numpy as np
from sklearn.base import is_regressor

from ._case import FAR

_SECRETS = "the first secret", "the second one"


def printed(error):
    """What a traceback prints of an error, of those before it and within it, and of notes."""
    texts = []
    while error is not None:
        texts.append((type(error).__name__, str(error), *getattr(error, "__notes__", ())))
        within = [one for one in getattr(error, "exceptions", ()) if isinstance(one, Exception)]
        texts += [text for one in within for text in printed(one)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return texts


def faults(case):
    """Yield pairs of data with the same fault and other values: what is symmetric in the rows differs, too."""
    X = case.X
    # Rows of the data, as others might not be accepted: each of the shorter ones twice, with another mean and maximum.
    shorter = np.argsort(np.abs(X).max(axis=1))[: len(X) // 2]
    twice = np.resize(shorter[::-1], len(X))
    other = X[twice]
    for name, spoil in _SPOILED_ROWS.items():
        yield name, *((spoil(rows, i), *case.data[1:]) for i, rows in enumerate((X, other)))
    if case.y is None:
        return
    y = np.asarray(case.y)
    other = y[twice] if is_regressor(case.estimator) else y[::-1]  # which has all classes
    for name, spoil in _SPOILED_LABELS.items():
        yield name, (X, spoil(y, 0)), (X, spoil(other, 1))


def _with_cell(rows, i, cell):
    rows = rows.astype(object if isinstance(cell, str) or cell is None else None)
    rows[: i + 1, i % rows.shape[1]] = cell  # in so many rows, as a count tells of the others
    return rows


def _with_label(y, number, text):
    y = y.copy() if y.dtype.kind in "iuf" else y.astype(object)
    y[0] = text if y.dtype == object else number
    return y


_SPOILED_ROWS = {
    "text in a cell": lambda rows, i: _with_cell(rows, i, _SECRETS[i]),
    "None in a cell": lambda rows, i: _with_cell(rows, i, None),
    "NaN in a cell": lambda rows, i: _with_cell(rows, i, math.nan),
    "an infinite cell": lambda rows, i: _with_cell(rows, i, (math.inf, -math.inf)[i]),
    "complex rows": lambda rows, i: rows * (1 + 1j),
    "one row": lambda rows, i: rows[i],
    "rows of several lengths": lambda rows, i: [*rows[:-1].tolist(), rows[-1].tolist()[:-1]],
    "three dimensions": lambda rows, i: rows[:, :, None],
    "text": lambda rows, i: _SECRETS[i],
    "huge rows": lambda rows, i: rows * 1e300,
}


_SPOILED_LABELS = {
    "labels that are text and numbers": lambda y, i: np.asarray([_SECRETS[i], *y[1:].tolist()], dtype=object),
    "labels that are missing": lambda y, i: np.asarray([math.nan, *y[1:].tolist()], dtype=object),
    "labels with fractions": lambda y, i: np.linspace(0, 1, len(y)) ** (1 + i),
    "labels of several columns": lambda y, i: np.column_stack([y, y[::-1]]),
    "too few labels": lambda y, i: y[:-1],
    "one label or target unlike all others": lambda y, i: _with_label(y, (i + 1) * FAR, _SECRETS[i]),
}
