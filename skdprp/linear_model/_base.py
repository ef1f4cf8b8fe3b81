"""What the private classifiers share, networks among them: the order of a fit, public facts, prediction."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from numbers import Real

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import _noise
from .._adjacency import Unit
from .._calibration import GuaranteeDisplayMixin, snapshot, take_over
from .._errors import silent, without_values
from .._labels import checked_labels, encode, joined, of_one_type, weights_of_classes
from .._lazy import by_chunks, computed, is_lazy, stand_in
from .._persons import persons_of
from .._rows import clip_rows, in_given_type
from .._threads import one_blas_thread
from .._validation import (
    FLOATS,
    N_JOBS,
    POSITIVE,
    Interval,
    PythonNumbersMixin,
    StrOptions,
    UncachedMixin,
    _fit_context,
    validate_data,
)
from ..guarantee import (
    LABELS_ARE_PUBLIC,
    NOT_COVERED,
    ONLY_PRIVATE_STEPS_FITTED,
    PARAMETERS_ARE_PUBLIC,
    Adjacency,
    Definition,
    PrivacyGuarantee,
    assumed_of_unit,
)
from ..mechanisms import Published
from ._erm import BINARY_LOSSES, Problem, constant_feature
from ._passes import SAME_ROWS, Chunks, Partitions, StreamedRows

THRESHOLD = Interval(Real, 0, 1, closed="neither")
CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]  # the second to be refused with the reason

CLASSIFIER_CONSTRAINTS = {
    "epsilon": POSITIVE,
    "delta": [Interval(Real, 0, 1, closed="left"), None],
    "C": [*POSITIVE, StrOptions({"auto"})],
    "loss": [StrOptions({"auto", *BINARY_LOSSES})],
    "multi_class": [StrOptions({"auto", "multinomial", "ovr"})],
    "calibration": [StrOptions({"exact", "published"}), Published],
    "max_norm": [Interval(Real, 1e-50, 1e50, closed="both")],  # fourth powers of norms stay in float64
    "adjacency": [StrOptions({"replace_one", "add_remove"})],
    "fit_intercept": ["boolean"],
    "tol": [Interval(Real, 1e-10, None, closed="left")],  # below, rounding is all that is left of a gradient
    "classes": ["array-like", None],
    "class_weight": CLASS_WEIGHT,
    "threshold": [THRESHOLD],
    "n_jobs": N_JOBS,
}

LEAST_PENALTY = 0.05  # of C="auto", for rows of norm 1: it matters from epsilon = 100 or so on, where noise does not


def _has_probabilities(estimator):
    estimator = _as_fitted(estimator)
    if getattr(estimator, "loss", "log_loss") != "huber_hinge":
        return True
    raise AttributeError(f"Probabilities need loss='log_loss' or 'capped_log_loss', got {estimator.loss!r}.")


def _as_fitted(estimator):
    """Copy an estimator with the parameters of its fit, by which it predicts: those set since are for the next fit."""
    twin = object.__new__(type(estimator))
    fitted = vars(estimator).copy()
    vars(twin).update(fitted | fitted.get("_calibrated_for", {}))
    return twin


def _check_memory(problem):
    """Refuse a fit that takes more memory than can be had at all, before anything is spent."""
    try:
        np.empty(problem.n_numbers)  # takes none of it; systems that promise any size find out later
    except (MemoryError, ValueError):  # more than there is, or than numpy can count
        raise MemoryError(
            f"A fit with {problem.n_classes:,} classes takes {problem.n_numbers / 2**27:,.1f} GiB. Nothing is released."
            " Use fewer classes or features; DPSGDClassifier takes the rows in blocks."
        ) from None


def _rows_and_labels(model, X, y):
    """Validate the rows and labels of one part; the first tells the number and the names of the columns."""
    y, is_first = without_values(of_one_type, y, name="y"), not hasattr(model, "n_features_in_")
    return validate_data(model, X, y, accept_sparse="csr", dtype=FLOATS, reset=is_first, ensure_min_samples=0)


@silent
def _rows_of_each_label(model, X, y):
    """Return the different labels of a part, and how many rows have each: exact numbers, which are never released."""
    return np.unique(checked_labels(_rows_and_labels(model, X, y)[1]), return_counts=True)


def _read(model, classes, X, y):
    """Return the validated rows of a part, and the index of the class of each."""
    X, y = _rows_and_labels(model, X, y)
    return X, encode(y, classes)[1] if len(y) else np.empty(0, np.intp)


class PrivateClassifier(GuaranteeDisplayMixin, PythonNumbersMixin, UncachedMixin, ClassifierMixin, BaseEstimator, ABC):
    """Fit a classifier of public shape under a privacy guarantee, and predict with it."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, **unsupported):
        """Release private weights.

        Each call is a new release, with fresh noise: fitting the same rows twice costs their privacy twice.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Those of norm above `max_norm` are clipped to it. Partitions of a dask collection are computed anew in
            each of several passes, on the scheduler in use, and gradients are summed where they lie.
        y : array-like of shape (n_samples,), or a dask collection beside one
            Labels: numbers, truth values or strings, no dates. Without `classes`, the guarantee holds given the set of
            those found here. True and False in a list then become the labels 1 and 0; in a boolean array they stay True
            and False.
        **unsupported : dict
            Nothing; `sample_weight` and `groups` are refused with the reason.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        TypeError
            If there are weights of rows.
        ValueError
            If X is not finite, y has one class or labels outside `classes`, or a parameter does not fit the
            others, such as a `C` that is too large for `epsilon`.
        MemoryError
            If there are more classes than memory: one softmax of all classes takes some numbers for each of them and
            each row. Nothing is released then.
        SolverError
            If a solver misses the accuracy that the guarantee assumes in 10,000 steps; a few are usual. Nothing is
            released then. The guarantee does not cover that it happened, and assumes that no row decides about it.
        """
        return self._fit(X, y, None, unsupported)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks):
        """Release private weights from a table that comes in chunks, in many passes and under one guarantee.

        Parameters
        ----------
        chunks : list or other iterable of (X, y)
            Rows and their labels, as `fit` takes them, read anew in each pass: slices of a memmap, or an object whose
            ``__iter__`` reads a file from its beginning, but no generator. The order and the size of the chunks make no
            difference beyond rounding, which the guarantee counts.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        TypeError
            If the chunks can be read once only, or are no pairs.
        ValueError
            As `fit`; if there are no chunks, or others in a later pass; or if all rows are needed in memory, as
            :class:`~skdprp.DPSGDClassifier` needs them for networks, batches, ``max_norm=None`` and very many rows.
        SolverError
            As `fit`, if the model has a solver.
        """
        return self._fit_passes(Chunks(chunks))

    def _fit(self, X, y, groups, unsupported):
        """Fit rows in memory, or hand others to `_fit_passes`; `DPSGDClassifier` alone is given groups."""
        if "groups" in unsupported:
            raise TypeError(
                f"{type(self).__name__}.fit takes no groups: its guarantee is for one row. To protect persons with "
                "several rows use DPSGDClassifier, and bounds and categories instead of private bins before it "
                "(bins that come before this step may already be paid)."
            )
        if unsupported:
            raise TypeError(
                f"{type(self).__name__}.fit takes no {', '.join(unsupported)}. With weights of rows, the noise that is "
                "needed would depend on the data: use class_weight, a weight of at most 1 for each label that does not "
                "come from the data."
            )
        if is_lazy(X):
            if groups is not None:
                raise TypeError(
                    "groups are not taken beside a dask collection: the rows of a person may lie in several partitions,"
                    " and each step has to know how many there are. Compute them at once: X, y, groups = "
                    "dask.compute(X, y, groups)."
                )
            return self._fit_passes(Partitions(X, y), like=stand_in(X))
        model = snapshot(self)
        parameters = model.get_params(deep=False)  # asked now: a callback of DPSGDClassifier may set others
        y = without_values(of_one_type, y, name="y")  # whose errors would quote labels
        rows, y = validate_data(model, X, y, accept_sparse="csr", dtype=FLOATS)
        X = in_given_type(X, rows)  # which matters to networks alone: rows of linear models are clipped in float64
        classes, codes = encode(y, model.classes)
        class_weights = weights_of_classes(model.class_weight, classes)
        data = X, codes, class_weights
        if groups is None:
            calibration = model._calibration_of(X.shape, X.dtype, len(classes))
        else:  # The number of persons is public, that of their rows is not: noise and guarantee follow from the first.
            persons = persons_of(groups, X.shape[0])
            calibration = model._calibration_of((persons.number, X.shape[1]), X.dtype, len(classes), Unit.PERSON)
            data = *data, persons
        _check_memory(calibration.problem)
        return self._fit_calibrated(model, parameters, calibration, classes, *data)

    def _fit_passes(self, source, like=None):
        """Fit rows that are read anew in each pass; all that is validated before the first is `like` them."""
        model = snapshot(self)
        parameters = model.get_params(deep=False)
        if like is not None:
            validate_data(model, like, accept_sparse="csr", dtype=FLOATS)
        parts = [part for part in source.map(partial(_rows_of_each_label, model)) if len(part[0])]
        if not parts:
            raise ValueError("There are no rows.")
        labels, counts = map(list, zip(*parts, strict=True))
        if len({found.dtype.kind in "OU" for found in labels}) > 1:
            raise ValueError("Labels are text in one part of y and not in another: make all of them text or numbers.")
        classes, codes = encode(joined(labels), model.classes)
        counts = np.bincount(codes, np.concatenate(counts), minlength=len(classes)).astype(np.int64)
        class_weights = weights_of_classes(model.class_weight, classes)
        shape = int(counts.sum()), model.n_features_in_
        rows = StreamedRows(source, partial(_read, model, classes), *shape, counts, class_weights)
        calibration = model._calibration_of(shape, np.dtype(np.float64), len(classes))
        if calibration.in_memory:
            raise ValueError(calibration.in_memory)
        assumptions = (*calibration.guarantee.assumptions, SAME_ROWS)
        calibration = replace(calibration, guarantee=replace(calibration.guarantee, assumptions=assumptions))
        return self._fit_calibrated(model, parameters, calibration, classes, rows, None, class_weights)

    def _fit_calibrated(self, model, parameters, calibration, classes, *data):
        """Release by the data as it was calibrated, and take all over from a snapshot at once.

        A `Calibration` has the guarantee, or none where tails of the noise would count that are not sampled exactly;
        `publish` sets it on the snapshot, with the attributes in `fitted`.

        `data` are what `_release` takes besides: rows, the index of the class of each, class weights, and for some also
        persons.
        """
        # The entry stands if `_release` raises: that it did may tell of the rows. One thread is for speed alone.
        with calibration.recorded(self) as entry, one_blas_thread():
            vars(model).update(model._release(calibration, *data))
        model.classes_, model._calibrated_for = classes, parameters  # the latter for predictions, reports and searches
        calibration.publish(model, seeded=entry.was_seeded())
        take_over(self, model)
        return self

    def _calibration_of(self, shape, dtype, n_targets, *unit):
        """What `fit` would fix for rows of a shape and a type, and so many classes: nothing is spent.

        `n_targets` is the number of classes here; reports and searches call other models by that name, too.
        Shape and type are all that noise and guarantee may depend on, so that they are the same for neighbours.
        """
        if self.threshold != 0.5 and (n_targets != 2 or getattr(self, "loss", "") == "huber_hinge"):
            raise ValueError(
                f"threshold={self.threshold!r} needs two classes and a logistic loss. Of more classes the most "
                "probable one is predicted; weigh the columns of predict_proba to predict rare ones more often."
            )
        problem = self._problem(shape, dtype, n_targets, *unit)
        # Far below 1 / n: to publish one of n rows as it is would be (0, 1 / n)-DP. A single row counts as two.
        delta = self.delta if self.delta is not None else 1.0 / max(problem.n_samples, 2) ** 2
        try:
            calibration = self._calibrate(problem, delta)
            return replace(calibration, problem=calibration.problem or problem)
        except (ArithmeticError, _noise.ScaleError) as error:  # such as overflows, of public numbers alone
            parameters = self.get_params(deep=False).items()
            numbers = ", ".join(f"{name}={value}" for name, value in parameters if type(value) in (int, float))
            raise ValueError(
                f"Noise cannot be calibrated in floats for {numbers}: one is too extreme. {error}"
            ) from error

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        return tags

    def _guarantee(self, epsilon, delta, *, mechanism, source, assumptions=(), loss=None, unit=Unit.ROW):
        """State what holds of one fit."""
        labels = () if self.classes is None else (LABELS_ARE_PUBLIC,)
        return PrivacyGuarantee(
            epsilon,
            delta,
            unit=unit,
            adjacency=Adjacency(self.adjacency),
            per="fit",
            given="the set of labels" if self.classes is None else "",
            released=f"{self._weights}, the parameters, the scales of the noise and the class labels",
            mechanism=mechanism,
            assumptions=(
                *assumed_of_unit(unit, self.adjacency),
                *labels,
                PARAMETERS_ARE_PUBLIC,
                *assumptions,
                ONLY_PRIVATE_STEPS_FITTED,
            ),
            not_covered=(*NOT_COVERED, "how many passes over the rows a solver made"),
            source=source,
            loss=loss,
        )

    def _claim(self, delta, source, unit=Unit.ROW):
        """State what a paper claims."""
        return PrivacyGuarantee(
            self.epsilon,
            delta,
            definition=Definition.CLAIMED_DP,
            unit=unit,
            adjacency=Adjacency(self.adjacency),
            per="fit",
            source=source,
        )

    @by_chunks
    @silent
    def decision_function(self, X):
        """Score each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Those of norm above `max_norm` are clipped, as in fit, where it is set.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples,) or (n_samples, n_classes)
            Scores of the second of two classes, or of each class.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        scores = _as_fitted(self)._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @by_chunks
    @silent
    def predict(self, X):
        """Predict the label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples,)

        Raises
        ------
        ValueError
            If `threshold` was set after the fit to something else than a number between 0 and 1 (or "prior", where
            labels were counted); or to another number than 0.5, where there are more than two classes or no
            probabilities.
        """
        check_is_fitted(self)
        # Once, as another thread may set it. It is post-processing: the one of now holds, and not that of the fit.
        threshold = self.threshold
        if isinstance(threshold, str) and threshold == "prior":
            threshold = getattr(self, "prior_threshold_", None)
            if threshold is None:
                raise ValueError(
                    "threshold='prior' needs a count of labels, and this fit made none: set threshold to a number, or "
                    "fit AMPClassifier with count_labels=True."
                )
        elif not isinstance(threshold, Real) or not 0 < threshold < 1:
            raise ValueError(
                f"threshold must be a number above 0 and below 1, or 'prior' if labels were counted, got {threshold!r}."
            )
        elif threshold != 0.5 and (len(self.classes_) != 2 or getattr(self, "loss_", "") == "huber_hinge"):
            raise ValueError(f"threshold={threshold!r} needs two classes and a logistic loss: leave it at 0.5.")
        if threshold != 0.5:
            return self.classes_[(self.predict_log_proba(X)[:, 1] > np.log(float(threshold))).astype(int)]
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_if(_has_probabilities)
    @by_chunks
    @silent
    def predict_log_proba(self, X):
        """Estimate the logarithm of the probability of each class, if the loss is logistic.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples, n_classes)
            In the order of `classes_`. Finite also where the probability is below all floats.
        """
        return _as_fitted(self)._log_probabilities(self.decision_function(X))

    @available_if(_has_probabilities)
    @by_chunks
    @silent
    def predict_proba(self, X):
        """Estimate the probability of each class, if the loss is logistic.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples, n_classes)
            In the order of `classes_`. One-vs-rest probabilities are normalised.
        """
        return np.exp(self.predict_log_proba(X))

    @silent
    def score(self, X, y, sample_weight=None):
        """Return the share of rows whose label is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        y, predicted = computed(y, self.predict(X))
        return without_values(accuracy_score, y, predicted, sample_weight=sample_weight, name="y")

    def _log_probabilities(self, scores):
        """Logarithms of the probabilities of all classes, from the scores of `decision_function`."""
        return log_expit(np.column_stack([-scores, scores])) if scores.ndim == 1 else log_softmax(scores, axis=1)

    @abstractmethod
    def _problem(self, shape, dtype, n_classes):
        """Collect what is public of the problem, from the shape and the type of the rows.

        At least `n_samples`, `n_classes`, and `n_numbers` that a fit has in memory. What takes groups is given the unit
        as well.
        """

    @abstractmethod
    def _calibrate(self, problem, delta):
        """Return the `Calibration` for a target of (epsilon, delta): noise and guarantee, from public facts alone."""

    @abstractmethod
    def _release(self, calibration, X, codes, class_weights):
        """Clip the rows, learn and add noise; return the fitted attributes that are released, by their names.

        `X` may be `StreamedRows`, which have codes of their own: `codes` is None then. What takes groups is given the
        persons as well.
        """

    @abstractmethod
    def _scores(self, X):
        """Scores of validated rows, of shape (n_samples, 1) or (n_samples, n_classes)."""


class PrivateLinearClassifier(PrivateClassifier):
    """Fit a regularised linear classifier under a privacy guarantee, and predict with it."""

    _weights = "coef_, intercept_"

    def _log_probabilities(self, scores):
        if self._is_multinomial(len(self.coef_)):
            return super()._log_probabilities(scores)
        loss = BINARY_LOSSES[self.loss_]()
        if scores.ndim == 1:
            return loss.log_probability(np.column_stack([-scores, scores]))
        # Relative to the largest, so that scores far below zero do not become 0 / 0.
        return log_softmax(loss.log_probability(scores), axis=1)

    def _problem(self, shape, dtype, n_classes):  # the dtype matters to networks alone
        multinomial, loss = self._is_multinomial(n_classes), self.loss
        if loss == "auto":  # the capped one, of which there is no softmax, and no paper
            loss = "capped_log_loss" if self.calibration == "exact" and not multinomial else "log_loss"
        return Problem(
            *shape,
            n_classes,
            loss,
            multinomial=multinomial,
            max_norm=self.max_norm,
            constant=constant_feature(self.fit_intercept, self.max_norm),
            tol=self.tol,
        )

    def _is_multinomial(self, n_classes):
        """Whether one softmax covers all classes; two classes always have one score."""
        has_softmax = self.loss in ("auto", "log_loss")
        if self.multi_class == "multinomial" and not has_softmax:
            raise ValueError(f"multi_class='multinomial' needs loss='log_loss': use 'auto' or 'ovr' for {self.loss!r}.")
        return n_classes > 2 and self.multi_class != "ovr" and has_softmax

    def _clipped(self, X, codes, class_weights):
        """Return the rows, each clipped to a norm of at most `max_norm`, rounding included, and weights; X stays."""
        if codes is None:  # X are `StreamedRows`, which have codes and weights of their own
            return X.clipped(self.max_norm), None
        return clip_rows(X, self.max_norm, copy=False), None if class_weights is None else class_weights[codes]

    def _scores(self, X):
        return clip_rows(X, self.max_norm, copy=False) @ self.coef_.T + self.intercept_
