"""worst_neighbours: two data sets that an estimator's guarantee covers, and that are hard for it to hide."""

from functools import singledispatch

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from .._params import without_values
from ..linear_model._base import PrivateLinearClassifier
from ..linear_model._descent import DPSGDClassifier
from ..linear_model._mutual_information import MIDPRegressor
from ..sketch._additive import AdditiveSketch
from ..sketch._sign import SignSketch

_LARGEST_GRAM = 1000
_SIGN_STEPS = 50


@singledispatch
def worst_neighbours(estimator, X, y=None):
    """Propose two neighbouring data sets on which an estimator is easy to attack.

    Parameters
    ----------
    estimator : estimator
        A fitted sketch, or a linear model of this library, fitted or not.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to start from. Of sketches, whose unit is one row, only the width counts.
    y : array-like of shape (n_samples,) or None, default=None
        Labels or targets, for models.

    Returns
    -------
    a, b : ndarray of shape (1, n_features), or tuples (X, y)
        For sketches, two rows at distance `max_change`, on either side of zero: along the feature, or for
        ``adjacency="l2"`` the direction, that moves the projection most; for signs, that moves most of them. For
        classifiers, `X` with a row of length `max_norm` in the direction that X uses least, under one label and under
        another (``adjacency="replace_one"``), or there and not there ("add_remove"). For
        `MIDPRegressor`, `X` with one entry at plus and at minus `max_abs`.

    Raises
    ------
    TypeError
        If nothing is known about such an estimator.
    ValueError
        If a model comes without labels, or a sketch has no neighbours that differ.

    See Also
    --------
    audit_epsilon : Attacks a release on two data sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import DPOPORP, audit_epsilon, worst_neighbours
    >>> X = np.zeros((5, 8))
    >>> sketch = DPOPORP(4, epsilon=1.0, random_state=0).fit(X)
    >>> a, b = worst_neighbours(sketch, X)
    >>> float(np.abs(a - b).sum())
    1.0
    >>> audit_epsilon(sketch, a, b, confidence=1 - 1e-9).exceeds(sketch.guarantee_)
    False
    """
    raise TypeError(f"No worst neighbours are known for {type(estimator).__name__}.")


def _rows_of(projection):
    """The matrix W, some rows at a time, with the index of the first."""
    for rows in gen_batches(projection.n_features, max(1, 2**22 // projection.n_components)):
        units = sp.csr_array(sp.eye_array(projection.n_features, format="csr")[rows])
        yield rows.start, projection.project(units)


def _largest_row(projection, size):
    """Unit vector of the feature whose row of W is largest in some sense."""
    sizes = np.concatenate([size(rows) for _, rows in _rows_of(projection)])
    unit = np.zeros(projection.n_features)
    unit[sizes.argmax()] = 1.0
    return unit


def _leading_direction(projection, noise):
    """Unit l2 vector that moves the projection most, in the norm of the noise; for l1, by alternating signs."""
    W = np.concatenate([rows for _, rows in _rows_of(projection)])
    direction = np.linalg.svd(W, full_matrices=False)[0][:, 0]
    for _ in range(_SIGN_STEPS if noise == "laplace" else 0):
        direction = W @ np.sign(direction @ W)
        direction /= np.linalg.norm(direction)
    return direction


def _both_sides(step):
    return step[None] / 2, -step[None] / 2


@worst_neighbours.register
def _of_additive_sketch(estimator: AdditiveSketch, X, y=None):
    check_is_fitted(estimator)
    if estimator.adjacency == "l2":
        direction = _leading_direction(estimator.projection_, estimator.noise)
    else:
        order = 1 if estimator.noise == "laplace" else 2
        direction = _largest_row(estimator.projection_, lambda rows: np.linalg.norm(rows, ord=order, axis=1))
    return _both_sides(estimator.max_change * direction)


@worst_neighbours.register
def _of_sign_sketch(estimator: SignSketch, X, y=None):
    """Straddle zero in as many signs as one feature reaches, at the least norm if there is one."""
    check_is_fitted(estimator)
    direction = _largest_row(estimator.projection_, lambda rows: np.count_nonzero(rows, axis=1))
    a, b = _both_sides(estimator.max_change * direction)
    rest = (getattr(estimator, "min_norm", None) or 0.0) ** 2 - (estimator.max_change / 2) ** 2
    if rest > 0:
        other = int(np.flatnonzero(direction == 0)[0])
        a[0, other] = b[0, other] = np.sqrt(rest) * (1 + 2.0**-40)
    return a, b


def _least_used_direction(X):
    """Unit vector along which the rows of X have least sum of squares; along a feature where X is wide or sparse."""
    if sp.issparse(X) or X.shape[1] > _LARGEST_GRAM:
        unit = np.zeros(X.shape[1])
        unit[np.argmin(np.asarray(X.multiply(X).sum(axis=0) if sp.issparse(X) else (X * X).sum(axis=0)).ravel())] = 1.0
        return unit
    return np.linalg.eigh(X.T @ X)[1][:, 0]


def _with_row(X, row):
    return sp.csr_array(sp.vstack([X, row[None]])) if sp.issparse(X) else np.vstack([X, row])


def _arrays(X, y):
    if y is None:
        raise ValueError("Neighbours of a model need labels or targets: give y.")
    X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else without_values(np.array, X, dtype=np.float64)
    return X, np.asarray(y)


@worst_neighbours.register
def _of_classifier(estimator: PrivateLinearClassifier, X, y=None):
    X, y = _arrays(X, y)
    classes = np.unique(y if estimator.classes is None else np.asarray(estimator.classes))
    canary = estimator.max_norm * _least_used_direction(X)
    if estimator.adjacency == "add_remove":
        return (_with_row(X, canary), np.append(y, classes[:1])), (X, y)
    X = _with_row(X[:-1], canary)
    return (X, np.append(y[:-1], classes[:1])), (X, np.append(y[:-1], classes[-1:]))


@worst_neighbours.register
def _of_descent(estimator: DPSGDClassifier, X, y=None):
    """With a row that is as long as it may be, or so long that its gradient is shortened to the full norm."""
    X, y = _arrays(X, y)
    classes = np.unique(y if estimator.classes is None else np.asarray(estimator.classes))
    length = 1e3 * estimator.max_grad_norm if estimator.max_norm is None else estimator.max_norm
    canary = length * _least_used_direction(X)
    if estimator.adjacency == "add_remove":
        return (_with_row(X, canary), np.append(y, classes[:1])), (X, y)
    X = _with_row(X[:-1], canary)
    return (X, np.append(y[:-1], classes[:1])), (X, np.append(y[:-1], classes[-1:]))


@worst_neighbours.register
def _of_regressor(estimator: MIDPRegressor, X, y=None):
    """Change the entry of the row with the largest target, in the column that is used least."""
    X, y = _arrays(X, y)
    dense = X.toarray() if sp.issparse(X) else X
    entry = np.argmax(np.abs(y)), np.argmin((dense * dense).sum(axis=0))
    a, b = dense.copy(), dense.copy()
    a[entry], b[entry] = estimator.max_abs, -estimator.max_abs
    return (a, y), (b, y)
