"""worst_neighbours: two data sets that an estimator's guarantee covers, and that are hard for it to hide."""

import warnings
from functools import singledispatch

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from .._adjacency import Relation
from .._errors import without_values
from ..guarantee import PrivacyWarning
from ..histograms import PrivateHistograms
from ..linear_model._base import PrivateLinearClassifier
from ..linear_model._mutual_information import MIDPRegressor
from ..linear_model._objective import AMPClassifier
from ..linear_model._ridge import DPRidge
from ..losses import SoftmaxLoss
from ..moments import PrivateMoments
from ..neural_network._dpsgd import DPSGDClassifier
from ..sketch._additive import AdditiveSketch
from ..sketch._sign import SignSketch

_SHARE_IN_DESCENT = 0.3  # of the two rows along the axis of the others: found by trying
_SIGN_STEPS = 50  # of the power method, which alternates between signs and directions: it ends in far fewer


class NoNeighbours(ValueError):
    """There are none of the kind that a guarantee covers, of the same number of rows."""


@singledispatch
def worst_neighbours(estimator, X, y=None):
    """Propose two neighbouring data sets on which an estimator is easy to attack.

    Parameters
    ----------
    estimator : estimator
        A fitted sketch, or a model of this library, fitted or not.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to start from, for regressors and moments: public ones or made up, as attacks release them again and again.
        For sketches, whose unit is one row, only the width counts; for classifiers the shape, on which penalty, delta
        and noise depend, and whether it is sparse.
    y : array-like of shape (n_samples,) or None, default=None
        Labels or targets, for models. Only the set of labels matters.

    Returns
    -------
    a, b : ndarray of shape (1, n_features), or tuples (X, y) or (X,)
        - For sketches, two rows at distance `max_change`, on either side of zero. They differ in the feature that moves
          the projection most; for ``adjacency="l2"`` in the direction, and for signs in the feature that moves most of
          them.
        - For classifiers, two tables with the labels of the given one. With ``adjacency="replace_one"`` both have its
          shape: the one has a row of norm `max_norm`, and the other its opposite. With "add_remove", the one has a row
          more than `X`. In the other this row is left out, which stands for a blank (see Notes). The other rows draw
          the weights to where such a row and its opposite are misclassified.
        - For moments, `X` and y. In the one, the last row has the largest possible norm; in the other, it is at a right
          angle to that row, or blank with "add_remove".
        - For a descent, the same, but instead of the right angle the last target is at the other end of its bounds.
        - For histograms of numbers, `X`. In the one, the last row is in the first cell of each column. In the other,
          all its values are missing; with "add_remove" it is left out, which stands for a blank.
        - For `MIDPRegressor`, `X` with one entry at plus `max_abs`, and at minus `max_abs`.

    Raises
    ------
    TypeError
        If nothing is known about such an estimator.
    ValueError
        If a model comes without labels, a classifier with no more rows than classes, or there are no such neighbours:
        of a sketch, any that differ; of a descent with an intercept and "add_remove", any with as many rows.

    See Also
    --------
    audit_epsilon : Attacks a release on two data sets.

    Notes
    -----
    A row that is left out stands for a blank, because a blank is in no sum and no batch. But it counts in the number of
    rows. If you give :func:`audit_epsilon` the estimator itself, it plans the fits to both tables (delta, penalty,
    steps, noise) for the number of rows of `a`. If you fit the two tables yourself, or in a pipeline, these may differ,
    which no guarantee covers. So pipelines are refused with such tables: audit the step alone, on the rows that reach
    it.

    The sensitivity of a classifier is the largest distance of two gradients ``s x`` and ``s' x'``. The slopes s of the
    loss are at most 1, and rows have norm at most R, so it is 2 R for a replaced row. (Slopes of the capped logistic
    loss are at most 1/2, and all distances are half as large.) Under the logistic loss, one row under two labels, or a
    row and its opposite by themselves, are only R apart, because their slopes add up to 1.

    Here the two rows are ``(u, v)`` and ``(-u, v)``. Most other rows lie on the second axis and have the other label.
    They make the second weight so large that both rows are misclassified, by v times this weight. As the number of rows
    grows in proportion to the penalty, v tends to 0, both slopes to 1, and the distance to 2 R. At ``C=1`` and R = 1 it
    is 1.4 R with 40 rows, 1.8 R with 400 and 1.96 R with 4000, and with the softmax the same share of its larger bound.
    The smoothed hinge attains its bound wherever all margins stay below 1 - h. For the capped logistic loss v is 0: the
    rows are at its boundary, up to noise, and the distance is 0.98 of its bound with 400 rows
    (``tests/test_audit.py::test_neighbours_of_classifiers_approach_the_sensitivity``).

    These pairs are worst for the gradient, to first order. They are not shown to be worst in four cases:

    - for the second derivative: these pairs hardly use its share of epsilon;
    - for a softmax of three or more classes, and for one-vs-rest: their bounds are sums over classes, and perhaps no
      pair attains the sum;
    - for networks;
    - for a descent with steps so short that the weights stay where they start: the slope there is 1/2, unless gradients
      are clipped.

    Pairs of sign sketches and of `MIDPRegressor` are good ones; no more is known of them.

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
    raise TypeError(
        f"No worst neighbours are known for {type(estimator).__name__}: give audit_epsilon two of your own."
    )


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


def _both_sides(step):
    return step[None] / 2, -step[None] / 2


def _longest_step(estimator, noise):
    """Change of a row that moves the projection most, in the norm of the noise."""
    if getattr(estimator, "adjacency", Relation.L1) == Relation.L2:
        W = np.concatenate([rows for _, rows in _rows_of(estimator.projection_)])
        # Largest in l2 is the first singular vector; in l1, signs s and direction W s in turn, which only ever grow.
        direction = np.linalg.svd(W, full_matrices=False)[0][:, 0]
        for _ in range(_SIGN_STEPS if noise == "laplace" else 0):
            moved = W @ np.sign(direction @ W)
            if not moved.any():
                raise ValueError("The projection is zero everywhere: no neighbours differ in what is released.")
            direction = moved / np.linalg.norm(moved)
    else:
        order = 1 if noise == "laplace" else 2
        direction = _largest_row(estimator.projection_, lambda rows: np.linalg.norm(rows, ord=order, axis=1))
    return estimator.max_change * direction


@worst_neighbours.register
def _of_additive_sketch(estimator: AdditiveSketch, X, y=None):
    check_is_fitted(estimator)
    return _both_sides(_longest_step(estimator, estimator.noise))


@worst_neighbours.register
def _of_sign_sketch(estimator: SignSketch, X, y=None):
    """Straddle zero in as many signs as one feature reaches, at the least norm if there is one.

    Laplace flips lose most from zero to one side: there the logarithm of their probability moves fastest.
    """
    check_is_fitted(estimator)
    if "flip_scale_" in estimator._noise_of_fit:
        step = _longest_step(estimator, "laplace")[None]
        return np.zeros_like(step), step
    direction = _largest_row(estimator.projection_, lambda rows: np.count_nonzero(rows, axis=1))
    a, b = _both_sides(estimator.max_change * direction)
    if direction.size == 1 and np.abs(a[0, 0]) < (getattr(estimator, "min_norm", None) or 0.0):  # on one side of zero
        least = estimator.min_norm * (1 + 2.0**-40)
        return np.array([[least]]), np.array([[least + estimator.max_change]])
    rest = (getattr(estimator, "min_norm", None) or 0.0) ** 2 - (estimator.max_change / 2) ** 2
    if rest > 0:  # norm that both rows still lack goes to a feature where they are equal
        other = int(np.flatnonzero(direction == 0)[0])
        a[0, other] = b[0, other] = np.sqrt(rest) * (1 + 2.0**-40)
    return a, b


def _arrays(X, y):
    if y is None:
        raise ValueError("Neighbours of a model need labels or targets: give y.")
    X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else without_values(np.array, X, dtype=np.float64)
    return X, np.asarray(y)


def _softmax_gradient(loss, margins, label):
    """Gradients of rows of a label, scored by the margins in the first class and by 0 in all others."""
    return loss.gradient(np.full(len(margins), label), np.outer(margins, np.eye(loss.n_classes)[0]))


def _helpers(loss, penalty, n_helpers, max_norm):
    """Norm r at which helpers give the largest weight u, and u; in equilibrium ``penalty u = n r pull(r u)``."""
    margins = np.linspace(0.01, 20, 2000)
    # The force with which a row on the right side, by these margins, moves the weights.
    if isinstance(loss, SoftmaxLoss):
        gradient = _softmax_gradient(loss, margins, 0)
        pull = gradient[:, 1] - gradient[:, 0]
    else:
        pull = -loss.gradient(1.0, margins)
    with np.errstate(divide="ignore"):
        norms = np.sqrt(penalty * margins / (n_helpers * pull))
    weights = np.where(norms <= max_norm, margins / norms, 0.0)
    return norms[weights.argmax()], weights.max()


def _share(loss, reach):
    """Share b at which ``(a, b)`` and ``(-a, b)``, both wrong by b times the reach, have the most distant gradients."""
    shares = np.linspace(0, 1, 200)
    # The gradient that a row on the wrong side, by these margins, has, as a share of the largest.
    margins = shares * reach
    if isinstance(loss, SoftmaxLoss):
        push = np.linalg.norm(_softmax_gradient(loss, margins, 1), axis=1) / loss.lipschitz
    else:
        push = -loss.gradient(1.0, -margins) / loss.lipschitz
    return shares[np.argmax(np.sqrt(1 - shares**2) * push)]


def _opposed(X, classes, *, replaced, one_vs_rest, max_norm, helper, share, n_blank, n_steady=0):
    """Helpers on one axis, and last a row ``max_norm (a, b)`` on their bad side, or ``max_norm (-a, b)``, or none."""
    n_rows, n_features = X.shape[0] + (not replaced), X.shape[1]
    axis = int(replaced and n_features > 1)
    if replaced and not axis:  # of one feature, only the intercept is left to the helpers
        helper = share = 0.0
    # One class draws all helpers, and the intercept with them; in one-vs-rest all classes are drawn by the other side.
    others, sign = (classes[-1], -1) if one_vs_rest else (classes[0], 1)
    rows, labels = np.zeros((n_rows, n_features)), np.full(n_rows, others, dtype=classes.dtype)
    labels[:n_blank], labels[-1] = np.resize(classes, n_blank), classes[-1]
    rows[n_blank : n_blank + n_steady, 0] = np.resize([max_norm, -max_norm], n_steady)
    rows[n_blank + n_steady : -1, axis] = sign * helper
    rows[-1, 0], rows[-1, axis] = max_norm * np.sqrt(1 - share**2), max_norm * (share if axis else 1.0)
    other = rows.copy() if replaced else rows[:-1]
    if replaced:
        other[-1, 0] *= -1
    return (_like(X, rows), labels), (_like(X, other), labels[: len(other)])


def _like(X, rows):
    return sp.csr_array(rows) if sp.issparse(X) else rows


def _public_facts(estimator, X, y):
    """Check the rows, and find their labels and whether a neighbour replaces one."""
    X, y = _arrays(X, y)
    classes = np.unique(y if estimator.classes is None else estimator.classes)
    replaced = estimator.adjacency == Relation.REPLACE_ONE
    if X.shape[0] - replaced < len(classes):
        raise ValueError(f"Neighbours need more rows than there are classes, {len(classes)}.")
    return X, classes, replaced


@worst_neighbours.register
def _of_classifier(estimator: PrivateLinearClassifier, X, y=None):
    X, classes, replaced = _public_facts(estimator, X, y)
    n_rows, max_norm, problem = X.shape[0], estimator.max_norm, estimator._problem(X.shape, X.dtype, len(classes))
    one_vs_rest = problem.n_outputs > 1
    # A row of zeros for each class, so that no label is missing; many where an intercept has to be held.
    n_blank = max(len(classes), n_rows // 2 * (one_vs_rest and estimator.fit_intercept))
    # Noise in the objective moves the weights: rows that cancel in pairs hold them where the slopes are extreme.
    n_steady = n_rows // 16 * 2 * (replaced and isinstance(estimator, AMPClassifier))
    n_helpers = max(n_rows - replaced - n_blank - n_steady, 1)
    helper, weight = _helpers(problem.row_loss, _penalty(estimator, X.shape, classes), n_helpers, max_norm)
    norms = {"max_norm": max_norm, "helper": helper, "share": _share(problem.row_loss, weight * max_norm)}
    counts = {"n_blank": n_blank, "n_steady": n_steady}
    return _opposed(X, classes, replaced=replaced, one_vs_rest=one_vs_rest, **norms, **counts)


def _penalty(estimator, shape, classes):
    """Penalty of a fit, which depends on the shape alone."""
    rows = np.zeros(shape)
    rows[0, 0] = estimator.max_norm  # a fit of zeros alone might warn, or stop at once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return 1 / clone(estimator).set_params(classes=classes).fit(rows, np.resize(classes, len(rows))).C_


@worst_neighbours.register
def _of_descent(estimator: DPSGDClassifier, X, y=None):
    """Take rows as long as they may be, or so long that their gradients are clipped to the full norm."""
    X, classes, replaced = _public_facts(estimator, X, y)
    # Without a bound on rows, gradients are clipped whatever their rows are: they had better be long.
    length = estimator._max_norm or 1e3 * estimator.max_grad_norm
    norms = {"max_norm": length, "helper": length, "share": _SHARE_IN_DESCENT, "n_blank": len(classes)}
    return _opposed(X, classes, replaced=replaced, one_vs_rest=False, **norms)


@worst_neighbours.register
def _of_moments(estimator: PrivateMoments, X, y=None):
    """Put a row last whose products are as far as they can be from those of another, or of a blank one."""
    X = X.toarray() if sp.issparse(X) else without_values(np.array, X, dtype=np.float64)
    y = None if estimator.target_bounds is None else _arrays(X, y)[1].astype(np.float64)
    columns = estimator._columns(X, y)
    descends = isinstance(estimator, DPRidge) and estimator._descends(X)
    if descends and columns.constant and estimator.adjacency == Relation.ADD_REMOVE:
        raise NoNeighbours(
            "No table of as many rows has a blank row, where the intercept has a gradient of its own: audit a descent "
            'with adjacency="replace_one", or with fit_intercept=False.'
        )
    one, other = np.zeros((2, X.shape[1]))
    one[0], target = columns.max_norm, columns.center  # that of a blank row
    if estimator.adjacency == Relation.REPLACE_ONE:
        # At a right angle, with the constant and targets at both ends of their bounds counted.
        rest = columns.constant**2 - 0.5 * bool(columns.n_targets)
        angle = 1.0 if descends else -rest
        other[0] = columns.max_norm * (angle if X.shape[1] > 1 else np.sign(angle))
        other[1:2] = columns.max_norm * np.sqrt(1 - angle**2)
        target = columns.low
    return _with_last(X, y, one, columns.high), _with_last(X, y, other, target)


def _with_last(X, y, row, target):
    """Rows and targets with another last one."""
    X = np.vstack([X[:-1], row])
    return (X,) if y is None else (X, np.concatenate([y[:-1], np.reshape(target, y[:1].shape)]))


@worst_neighbours.register
def _of_histograms(estimator: PrivateHistograms, X, y=None):
    """Have a row last whose numbers are in the first cell of each column, and the same missing, or no such row."""
    X = X.toarray() if sp.issparse(X) else without_values(np.array, X, dtype=np.float64)
    X[-1] = -np.finfo(np.float64).max
    if estimator.adjacency == Relation.ADD_REMOVE:
        return (X,), (X[:-1],)
    return (X,), (np.vstack([X[:-1], np.full_like(X[-1], np.nan)]),)


@worst_neighbours.register
def _of_regressor(estimator: MIDPRegressor, X, y=None):
    """Change the entry of the row with the largest target, in the column that is used least."""
    X, y = _arrays(X, y)
    dense = X.toarray() if sp.issparse(X) else X
    # The row that weighs most in S y, and the column in which the other entries hide a change least.
    entry = np.argmax(np.abs(y)), np.argmin((dense * dense).sum(axis=0))
    a, b = dense.copy(), dense.copy()
    a[entry], b[entry] = estimator.max_abs, -estimator.max_abs
    return (a, y), (b, y)
