"""Scores of predictions for held-out rows with noise, to publish in the place of those of :mod:`sklearn.metrics`.

Each score follows from a few sums over rows, in which Laplace noise hides one row. With `groups` it hides one person,
of which the mean over its rows counts. Sums are of whole points, and exact in whatever order rows come.
"""

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real

import numpy as np
import scipy.sparse as sp

from ._adjacency import Relation, Unit
from ._calibration import void_if_out_of_reach
from ._digits import printed_down, printed_up, with_python_numbers
from ._errors import silent, without_values
from ._lazy import is_lazy
from ._persons import persons_of
from ._printing import as_html, as_text, guarantee_facts
from ._validation import low_and_high
from .composition import loss_of_laplace_noise
from .guarantee import ROWS_ARE_READ_ALONE, TYPES_ARE_PUBLIC, Adjacency, PrivacyGuarantee, assumed_of_unit
from .ledger import entry
from .mechanisms import add_laplace, laplace_scale, sampled_target

__all__ = ["PrivateScore", "dp_accuracy_score", "dp_confusion_matrix", "dp_r2_score", "dp_roc_auc_score"]

_POINTS = 2.0**20  # of the largest share of a row: sums of whole points are exact
_ROUNDING = 1e-6  # of probabilities, in float32 too
_N_BINS = 26  # of probabilities, with one on either side of the log odds that they divide
_ASSUMED = (
    "each prediction is of its own row: the model was not fitted to these rows, and treats rows one by one",
    "what the model has learnt from other rows of the same people is public, or has a guarantee of its own",
    "labels, pos_label, log_odds and target_bounds do not come from the data",
    "each further call is one release more",
    "the probability of noise beyond 200 scales, below 2**-288 for each number, counts as zero",
)


@dataclass(frozen=True, eq=False)
class PrivateScore:
    """A score with noise, how far off it may be, and what it guarantees.

    Attributes
    ----------
    name : str
        Which score it is.
    score : float or ndarray
        The score; nan if the noise leaves nothing to compute it from.
    noise_error : float
        Standard deviation of the score by the noise alone, to first order; for an array, that of each number in it.
    sampling_error : float or None
        Standard error that comes from the held-out rows being a sample, estimated from the released numbers; with
        `groups` an upper estimate. None if they do not determine it.
    tie_error : float or None
        By how much an area may be too small, or too large, because rows in one bin count as ties, estimated from the
        noisy counts; None for other scores.
    guarantee : PrivacyGuarantee
        The guarantee of all that is released here.
    released : ndarray
        The noisy sums, from which all else is computed at no cost.
    """

    name: str
    score: float | np.ndarray
    noise_error: float
    sampling_error: float | None
    guarantee: PrivacyGuarantee
    released: np.ndarray
    tie_error: float | None = None

    @property
    def standard_error(self):
        """Standard error by the noise and because rows are a sample; nan if `sampling_error` is not known."""
        return np.nan if self.sampling_error is None else float(np.hypot(self.noise_error, self.sampling_error))

    def __float__(self):
        return float(self.score)

    def __format__(self, spec):
        return format(float(self), spec) if spec else str(self)

    def __repr__(self):
        return f"{self.name}: {self._in_short()}; {self.guarantee!r}"

    def __str__(self):
        return as_text(self._facts())

    def _repr_html_(self):
        return as_html("Score", self._facts())

    def _facts(self):
        return {"score": f"{self.name}: {self._in_short()}", **guarantee_facts(self.guarantee)}

    def _in_short(self):
        if np.ndim(self.score):
            return f"{np.round(self.score, 1).tolist()}, noise {self.noise_error:.3g} in each number"
        errors = {"noise": self.noise_error, "sampling": self.sampling_error, "ties up to": self.tie_error}
        told = ", ".join(f"{of_what} {error:.2g}" for of_what, error in errors.items() if error is not None)
        return f"{self.score:.4g} ({told})"


@silent
def dp_accuracy_score(y_true, y_pred, *, epsilon=1.0, groups=None):
    """Release which share of labels is predicted rightly, as :func:`sklearn.metrics.accuracy_score` without noise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of rows that the model was not fitted to.
    y_pred : array-like of shape (n_samples,)
        Predictions. A label that is missing is predicted wrongly.
    epsilon : float, default=1.0
        Privacy loss for one row, or for one person.
    groups : array-like of shape (n_samples,) or None, default=None
        Which person each row belongs to; then the score is the mean over persons of the accuracy of each.

    Returns
    -------
    PrivateScore
        `released` is the number of rows or persons that are predicted rightly.

    Raises
    ------
    TypeError
        If labels are a sparse matrix or lazy.
    ValueError
        If there are no rows or not as many labels as predictions, if labels are not one column, or are dates or times,
        or all are text where numbers are predicted, or if epsilon is not positive, or so large (about 100) that the
        tails of the noise, which the sampler does not reach, would matter. Nothing is released then.

    Notes
    -----
    A row replaced changes the number of rows predicted rightly by 1 at most. A person replaced changes the sum over
    persons of the shares of their rows predicted rightly, each between 0 and 1, by 1 at most. Laplace noise of scale
    1 / epsilon hides that.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.metrics import dp_accuracy_score
    >>> y_true = np.arange(1000) % 2
    >>> score = dp_accuracy_score(y_true, np.where(np.arange(1000) < 800, y_true, 1 - y_true), epsilon=1.0)
    >>> abs(score.score - 0.8) < 0.05, round(score.noise_error, 4)
    (True, 0.0014)
    >>> score.guarantee
    1.0-DP, one row replaced
    """
    labels, predicted = _cells(y_true, "y_true"), _cells(y_pred, "y_pred")
    persons = _check_rows(labels, predicted, groups)
    _check_kinds(labels, predicted, "y_true", "y_pred")
    is_right = np.fromiter(map(_are_equal, labels, predicted), dtype=bool, count=len(labels))
    noisy, noise, guarantee = _release_counts(
        np.where(is_right, 0, -1), 1, persons, "accuracy", epsilon=epsilon, sensitivity=1.0, n_changed=1
    )
    number = len(labels) if persons is None else persons.number
    score = float(noisy[0]) / number
    share = (min(max(score, 0.0), 1.0) * number + 1) / (number + 2)  # noise may leave none right or none wrong
    return PrivateScore("accuracy", score, noise / number, (share * (1 - share) / number) ** 0.5, guarantee, noisy)


@silent
def dp_confusion_matrix(y_true, y_pred, *, labels, epsilon=1.0, groups=None):
    """Release how many rows of each label have each prediction, as :func:`sklearn.metrics.confusion_matrix` does.

    Recall, precision and all that is a function of the counts follow at no cost. Numbers are not whole, and may be
    negative: to set those to 0 would add rows that do not exist.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of rows that the model was not fitted to.
    y_pred : array-like of shape (n_samples,)
        Predictions.
    labels : array-like of shape (n_labels,)
        Labels in the order of rows and columns, which do not come from the data. Rows with other labels are not
        counted. If you misspell a label here, its counts are noise alone, and cost the same epsilon.
    epsilon : float, default=1.0
        Privacy loss for one row, or for one person.
    groups : array-like of shape (n_samples,) or None, default=None
        Which person each row belongs to; then the rows of a person count together as one.

    Returns
    -------
    PrivateScore
        `score` is of shape (n_labels, n_labels), true labels by rows.

    Raises
    ------
    TypeError
        If labels are a sparse matrix or lazy.
    ValueError
        As of :func:`dp_accuracy_score`, or if `labels` lists one twice or none.

    Notes
    -----
    A row replaced leaves one cell and enters another, which changes the counts by 2 in all. The rows of a person add up
    to 1 at most, so that a person replaced changes them by 2 at most. Laplace noise of scale 2 / epsilon hides that.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.metrics import dp_confusion_matrix
    >>> y_true, y_pred = np.arange(1000) % 2, np.arange(1000) % 4 == 3
    >>> matrix = dp_confusion_matrix(y_true, y_pred, labels=[0, 1], epsilon=1.0)
    >>> bool(abs(matrix.score - [[500, 0], [250, 250]]).max() < 60), round(matrix.noise_error, 2)
    (True, 2.83)
    >>> recall = matrix.score[1, 1] / matrix.score[1].sum()
    >>> bool(abs(recall - 0.5) < 0.1)
    True
    """
    known = _places_of(labels)
    true, predicted = _cells(y_true, "y_true"), _cells(y_pred, "y_pred")
    persons = _check_rows(true, predicted, groups)
    _check_kinds(true, known, "y_true", "labels")
    _check_kinds(predicted, known, "y_pred", "labels")
    rows, columns = _places(true, known), _places(predicted, known)
    places = np.where((rows >= 0) & (columns >= 0), rows * len(known) + columns, -1)
    noisy, noise, guarantee = _release_counts(
        places, len(known) ** 2, persons, "confusion matrix", epsilon=epsilon, sensitivity=2.0, n_changed=2
    )
    matrix = noisy.reshape(len(known), len(known))
    return PrivateScore("confusion matrix", matrix, noise, None, guarantee, matrix)


@silent
def dp_roc_auc_score(y_true, y_score, *, pos_label, log_odds=(-6.0, 6.0), epsilon=1.0, groups=None):
    """Release the area under the ROC curve, from counts of both classes in bins of probabilities.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of rows that the model was not fitted to.
    y_score : array-like of shape (n_samples,)
        Probabilities of the positive class, such as ``model.predict_proba(X)[:, 1]``. NaN, None and other cells without
        a number count as 0.
    pos_label : object
        The positive label; all others are negative.
    log_odds : (float, float), default=(-6.0, 6.0)
        Log odds ``log(p / (1 - p))`` between which 24 bins of equal width tell probabilities apart. If nearly all rows
        are in one or two of them, the area is about 1/2 whatever the model is, and `tie_error` is large. So give other
        limits if you expect probabilities below .0025, or that all differ by less than a factor of two, and do not look
        at the rows.
    epsilon : float, default=1.0
        Privacy loss for one row, or for one person.
    groups : array-like of shape (n_samples,) or None, default=None
        Which person each row belongs to; then the rows of a person count together as one.

    Returns
    -------
    PrivateScore
        `released` are the counts, of shape (2, 26): of negative rows and of positive ones in the bins of log odds, the
        first and the last of which are open.

    Raises
    ------
    TypeError
        If labels are a sparse matrix or lazy.
    ValueError
        As of :func:`dp_accuracy_score`, or if `y_score` has numbers that are no probabilities, such as those of
        ``decision_function``, or `log_odds` are not two numbers, the lower one first.

    Notes
    -----
    A row replaced changes the counts by 2 in all, as in :func:`dp_confusion_matrix`. The area is the probability that a
    random positive row has a larger score than a random negative one. Two rows in one bin count as one half;
    `tie_error` estimates how much this may change the area. The standard error of sampling is that of [1]_, computed
    from the counts.

    References
    ----------
    .. [1] E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the Areas under Two or More Correlated
       Receiver Operating Characteristic Curves: A Nonparametric Approach", Biometrics 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.metrics import dp_roc_auc_score
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.integers(2, size=2000)
    >>> y_score = 1 / (1 + np.exp(-rng.normal(loc=2 * y_true - 1)))
    >>> area = dp_roc_auc_score(y_true, y_score, pos_label=1, epsilon=1.0)
    >>> abs(area.score - 0.92) < 0.1, area.released.shape
    (True, (2, 26))
    """
    labels, scores = _cells(y_true, "y_true"), _numbers(y_score, "y_score")
    persons, known = _check_rows(labels, scores, groups), _places_of([pos_label])
    _check_kinds(labels, known, "y_true", "pos_label")
    if ((scores < -_ROUNDING) | (scores > 1 + _ROUNDING)).any():
        raise ValueError("y_score must be probabilities, such as predict_proba(X)[:, 1], and no decision_function.")
    is_positive = _places(labels, known) + 1
    edges = 1 / (1 + np.exp(-np.linspace(*low_and_high(log_odds, "log_odds"), _N_BINS - 1)))
    bins = np.searchsorted(edges, np.nan_to_num(scores, nan=0.0), side="right")
    noisy, noise, guarantee = _release_counts(
        is_positive * _N_BINS + bins, 2 * _N_BINS, persons, "area", epsilon=epsilon, sensitivity=2.0, n_changed=2
    )
    counts = noisy.reshape(2, _N_BINS)
    negative, positive = counts
    n_negative, n_positive = negative.sum(), positive.sum()
    below = np.cumsum(negative) - negative / 2
    above = n_positive - np.cumsum(positive) + positive / 2
    area = float(positive @ below / (n_positive * n_negative))
    # Its derivatives by the counts.
    slopes = np.array([(above / n_positive - area) / n_negative, (below / n_negative - area) / n_positive])
    if not min(n_negative, n_positive) > 0:
        area, slopes = np.nan, slopes * np.nan
    # Each row has the variance of its place among those of the other class.
    sampling = float(max((counts * slopes**2).sum(), 0.0) ** 0.5)
    noise *= float(np.linalg.norm(slopes))
    ties = float(max(np.prod(counts, axis=0).sum() / np.prod(counts.sum(axis=1)) / 2, 0.0))
    return PrivateScore("area under the ROC curve", area, noise, sampling, guarantee, counts, ties)


@silent
def dp_r2_score(y_true, y_pred, *, target_bounds, epsilon=1.0, groups=None):
    """Release which share of the variance of a target is predicted, from three sums.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Targets of rows that the model was not fitted to, which are clipped to their bounds. NaN, None or another cell
        without a number counts as the middle.
    y_pred : array-like of shape (n_samples,)
        Predictions. Errors are clipped to the width of the bounds, which makes R² too high where they are larger.
    target_bounds : (float, float)
        Bounds of the target, which do not come from the data.
    epsilon : float, default=1.0
        Privacy loss for one row, or for one person.
    groups : array-like of shape (n_samples,) or None, default=None
        Which person each row belongs to; then of each person the mean over its rows counts.

    Returns
    -------
    PrivateScore
        `released` are the sums of squared errors, of targets less the middle of the bounds, and of their squares, in
        units of the target, all with noise; the first, divided by the number of rows, is the mean squared error.

    Raises
    ------
    TypeError
        If targets are a sparse matrix or lazy.
    ValueError
        As of :func:`dp_accuracy_score`, or if `target_bounds` are not two numbers, the lower one first.

    Notes
    -----
    In units of the width of the bounds, a squared error is between 0 and 1, and a target t, less the middle, between
    -1/2 and 1/2. A row replaced changes the first sum by 1 at most. It changes the others by ``|t - t'| + |t^2 -
    t'^2|``. For ``|t| >= |t'|`` this is largest at ``|t| = 1/2``, where it is ``3/4 + |t'| - t'^2`` at most, and that
    at ``|t'| = 1/2``: so by 1. The same holds in whole points of 2^-20, to which t and its square are rounded. The
    mean of a person is in the convex hull of its rows, where distances are no larger; rounded down, three sums change
    by 3 points more. Laplace noise of scale 2 / epsilon hides 2, and for persons that of (2 + 2^-18) / epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.metrics import dp_r2_score
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.uniform(size=5000)
    >>> score = dp_r2_score(y_true, y_true + rng.normal(scale=0.1, size=5000), target_bounds=(0, 1), epsilon=1.0)
    >>> abs(score.score - 0.88) < 0.2, score.released.shape
    (True, (3,))
    """
    low, high = low_and_high(target_bounds, "target_bounds")
    targets, predicted = _numbers(y_true, "y_true"), _numbers(y_pred, "y_pred")
    persons = _check_rows(targets, predicted, groups)
    width, middle = high - low, low + (high - low) / 2
    targets = np.where(np.isnan(targets), middle, targets)
    targets = targets.clip(low, high)
    errors = np.nan_to_num((targets - predicted) / width, nan=1.0).clip(-1.0, 1.0)
    targets = np.rint(((targets - middle) / width).clip(-0.5, 0.5) * _POINTS) / _POINTS
    points = np.rint(np.column_stack([errors**2, targets, targets**2]) * _POINTS)
    if persons is not None:  # the mean over the rows of a person, rounded down, is within the same bounds
        points = np.column_stack([np.bincount(persons.codes, column) // persons.counts for column in points.T])
    sensitivity = 2.0 if persons is None else 2.0 + 4 / _POINTS
    noisy, noise, guarantee = _release(
        points.sum(axis=0),
        len(points),
        persons,
        "R²",
        epsilon=epsilon,
        sensitivity=sensitivity,
        n_changed=3,
        unit=_POINTS,
    )
    squared_errors, total, squares = noisy
    variance = squares - total**2 / len(points)
    score, by_variance = float(1 - squared_errors / variance), squared_errors / variance**2
    slopes = np.array([-1 / variance, -2 * total / len(points) * by_variance, by_variance])
    if not variance > 0:
        score, slopes = np.nan, slopes * np.nan
    noisy *= width ** np.array([2, 1, 2])
    return PrivateScore("R²", score, noise * float(np.linalg.norm(slopes)), None, guarantee, noisy)


def _cells(y, name):
    """Labels one by one, as Python compares them: in an array, one row would change the type of all others.

    An array of numpy has a type of its own. Of others one missing cell would make floats of whole numbers.
    """
    if is_lazy(y) or sp.issparse(y):
        raise TypeError(f"{name} is a {'sparse matrix' if sp.issparse(y) else 'dask collection'}: give an array.")
    if len(getattr(y, "shape", ())) == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]  # of polars as well
    dtype = getattr(y, "dtype", None)
    if len(getattr(y, "shape", (0,))) != 1:
        raise ValueError(f"{name} must be one column of labels or numbers, such as predict_proba(X)[:, 1].")
    if getattr(dtype, "kind", "O") in "mMV":
        raise ValueError(f"{name} must be a column of labels or numbers, and no times.")
    if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):  # of pandas
        known = [*dtype.categories.tolist(), None]  # of places from 0, and of -1
        return [known[place] for place in getattr(y, "cat", y).codes]
    listed = next((getattr(y, to_list) for to_list in ("to_pylist", "to_list", "tolist") if hasattr(y, to_list)), None)
    return without_values(list if listed is None else lambda _: listed(), y, name=name)


def _numbers(y, name):
    """A column of numbers, nan for each cell that is none: an error would tell of it."""
    if getattr(getattr(y, "dtype", None), "kind", "") in ("S", "U", "T"):
        raise ValueError(f"{name} must be a column of numbers, and is text.")
    if isinstance(y, np.ndarray) and not isinstance(y, np.ma.MaskedArray) and y.dtype.kind in "biuf" and y.ndim == 1:
        return y.astype(np.float64)
    cells = _cells(y, name)
    return np.fromiter(map(_number_of, cells), dtype=np.float64, count=len(cells))


def _number_of(cell):
    if not isinstance(cell, Real | Decimal | np.bool_):  # numbers without an order would warn of it
        return np.nan
    try:
        return float(cell)
    except OverflowError:
        return np.inf if cell > 0 else -np.inf
    except Exception:
        return np.nan


def _check_rows(y_true, y_pred, groups):
    """Check that there are as many predictions as labels; return the persons that rows belong to."""
    if not len(y_true) == len(y_pred) > 0:
        raise ValueError("There must be one prediction for each label, and at least one.")
    return None if groups is None else persons_of(groups, len(y_true))


def _check_kinds(cells, others, name, other_name):
    """Refuse numbers where all others are text, which would equal nothing."""
    kinds, other_kinds = (set(map(_kind_of, set(map(type, one)))) - {""} for one in (cells, others))
    if kinds and other_kinds and not kinds & other_kinds:
        raise ValueError(f"{name} has {min(kinds)}, and {other_name} {min(other_kinds)}: none would be equal.")


def _kind_of(type_of_cell):
    if issubclass(type_of_cell, str):
        return "text"
    if issubclass(type_of_cell, bytes):
        return "bytes"
    return "numbers" if issubclass(type_of_cell, Real | Decimal | np.bool_) else ""


def _are_equal(label, other):
    """Whether two labels are equal, which missing ones are to nothing, and neither are cells that do not say so."""
    try:
        return label is not None and bool(label == other)
    except Exception:
        return False


def _places_of(labels):
    """Place of each listed label, from 0."""
    labels = _cells(labels, "labels")
    known = {label: place for place, label in enumerate(labels)}
    if not 0 < len(known) == len(labels) or not all(map(_are_equal, labels, labels)):
        raise ValueError("labels must list at least one label, each once.")
    return known


def _places(cells, known):
    """Place of each label among those that are known, -1 for others."""

    def place_of(cell):
        """Place of a label, which need not be one that can be looked up."""
        try:
            return known.get(cell, -1)
        except Exception:  # what has no hash is no label
            return -1

    return np.fromiter(map(place_of, cells), dtype=np.int64, count=len(cells))


def _release_counts(places, n_places, persons, name, *, epsilon, sensitivity, n_changed):
    """Release how many rows are at each place, where those of a person count together as one."""
    is_counted = places >= 0
    if persons is None:
        counts = np.bincount(places[is_counted], minlength=n_places)
        return _release(
            counts, len(places), None, name, epsilon=epsilon, sensitivity=sensitivity, n_changed=n_changed, unit=1.0
        )
    pairs, n_rows = np.unique(persons.codes[is_counted] * n_places + places[is_counted], return_counts=True)
    shares = n_rows * _POINTS // persons.counts[pairs // n_places]
    counts = np.bincount(pairs % n_places, shares, minlength=n_places)
    return _release(
        counts,
        persons.number,
        persons,
        name,
        epsilon=epsilon,
        sensitivity=sensitivity,
        n_changed=n_places,  # a person may have rows at all of them
        unit=_POINTS,
    )


@with_python_numbers
def _release(sums, number, persons, name, *, epsilon, sensitivity, n_changed, unit):
    """Release sums of `number` rows or persons, each of `unit` at most; return the standard deviation of noise, too."""
    if not isinstance(epsilon, Real) or isinstance(epsilon, bool) or not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}.")
    target = sampled_target(epsilon, 0.0, n_changed=n_changed)
    scale = laplace_scale(*target, sensitivity=sensitivity)
    unit_of_privacy = Unit.ROW if persons is None else Unit.PERSON
    guarantee = PrivacyGuarantee(
        epsilon,
        0.0,
        unit=unit_of_privacy,
        adjacency=Adjacency(Relation.REPLACE_ONE),
        released=f"the {name} with noise, and the noisy sums that it follows from",
        loss=loss_of_laplace_noise(target[0], n_changed),
        mechanism=f"Laplace mechanism, scale {printed_down(scale, 6)}, l1 sensitivity {printed_up(sensitivity, 8)}",
        assumptions=(
            *assumed_of_unit(unit_of_privacy, Relation.REPLACE_ONE),
            *_ASSUMED,
            TYPES_ARE_PUBLIC,
            ROWS_ARE_READ_ALONE,
        ),
        not_covered=("whether a call raised an error", "the running time"),
        source="Dwork et al. 2006; sensitivities in skdprp.metrics",
    )
    if void_if_out_of_reach(guarantee).epsilon > epsilon:
        raise ValueError(f"epsilon={epsilon:g} is so large that tails of the noise count that are not sampled exactly.")
    with entry(guarantee, name) as block:
        noisy = add_laplace(sums, scale * unit) / unit
    return noisy, 2**0.5 * scale, guarantee.mark_seeded() if block.seeded else guarantee
