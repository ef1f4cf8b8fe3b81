"""Private linear regression: DPRidge."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .. import _noise
from .._adjacency import Unit
from .._calibration import snapshot, take_over
from .._digits import printed_down, printed_up
from .._errors import silent, without_values
from .._lazy import by_chunks, computed, is_lazy
from .._persons import persons_of
from .._rows import clip_rows
from .._threads import one_blas_thread
from .._validation import FLOATS, Interval, StrOptions, validate_data
from ..composition import PrivacyLoss, Profile
from ..mechanisms import sampled_target, secret_projection_profile, secret_projection_scale
from ..mechanisms.secret_projection import project_secretly, secret_projection_n_changed
from ..moments import MOMENTS_CONSTRAINTS, GaussianNoise, PrivateMoments, n_additions
from ._descent import N_STEPS, descend, has_many_rows, plan_ridge_descent
from ._least_squares import NormalEquations

_UNIT_NORM = 1 + 2.0**-40  # of rows in units, with what floats add to it
_NO_PERSONS = "A secret projection hides one row, and not a person with several: choose another mechanism for groups."
_OF_MOMENTS = {"moments_", "alpha_", "coef_std_", "intercept_std_", "covariance_", "residual_std_"}
_NO_DESCENT = 'A descent has no penalty, and needs all rows in memory: choose mechanism="moments".'


@dataclass(frozen=True)
class ProjectionNoise:
    """A secret projection in the place of noise on the moments themselves: ``M = S U + N`` is released, of U the table.

    ``M'M / k - noise_scale^2 I`` estimates the moments.
    """

    noise_scale: float
    n_components: int

    @property
    def scale(self):
        """Standard deviation of what noise alone leaves on the diagonal; off it, 1 / sqrt(2) of that."""
        return float(np.sqrt(2 / self.n_components) * self.noise_scale**2)

    def release(self, sums):
        """Project, and take the moments of the projection."""
        projected = project_secretly(sums, scale=self.noise_scale, n_components=self.n_components)
        return projected.T @ projected / self.n_components - self.noise_scale**2 * np.eye(len(sums))


class DPRidge(RegressorMixin, PrivateMoments):
    """Private linear regression; rows and targets are protected.

    Replaces Ridge and LinearRegression. Rows of norm above `max_norm` and targets outside `target_bounds` are clipped,
    and predictions lie within these bounds, too.

    Parameters
    ----------
    target_bounds : tuple (low, high) or array-like of shape (n_targets, 2)
        Least and largest value of the targets, one pair for all or one for each. A public choice, **never read from the
        data**: of house prices, what hardly any house costs more than. Targets beyond are clipped; wider bounds need
        more noise.
    epsilon : float, default=1.0
        Privacy of one row and its targets: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus
        `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    alpha : float or "auto", default="auto"
        Penalty, as in Ridge, of regressions on moments. "auto" is computed from the released moments and what is known
        of their noise; a descent stops early instead. A penalty that suits data without noise, such as the 1.0 of
        Ridge, is far too small for noisy ones as a rule.
    max_norm : float, default=1.0
        Norm to which rows of larger norm are clipped, in fit and in predict. A public choice, never read from the data.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row with its targets in the place of one row. With "add_remove",
        the row is blank in the neighbour: another guarantee, which needs less noise. The number of places for rows is
        public in both.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    mechanism : {"auto", "descent", "moments", "projection"}, default="auto"
        "moments" releases sums of products of all columns once: one pass over the rows, any penalty afterwards by
        `path`, error bars. "descent" releases 200 noisy gradients: more accurate where rows are few or `epsilon` is
        small. "auto" takes a descent, unless there are so many rows that moments are as good, the rows come in chunks
        or are lazy, or `alpha` is a number. "projection" releases a secret random projection of the table with noise on
        all columns [3]_, and learns from its moments. This is less accurate; the larger `n_components`, the smaller the
        difference.
    n_components : int, default=5000
        Number of rows of a secret projection.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Private weights.
    intercept_ : float or ndarray of shape (n_targets,)
        Private intercept; 0 without `fit_intercept`.
    mechanism_ : {"descent", "moments", "projection"}
        What was done.
    columns_ : Columns
        The bounds that rows and targets were clipped to.
    moments_ : Moments
        What was released. This attribute and the next five are missing after a descent.
    alpha_ : float or ndarray of shape (n_targets,)
        Penalty used.
    coef_std_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Standard errors of the weights, of sampling, noise and shrinkage together. They are right on average over all
        weights, but say little about a single weight in a direction that the noise hides.
    intercept_std_ : float or ndarray of shape (n_targets,)
        That of the intercept.
    covariance_ : ndarray of shape (n_weights, n_weights) or (n_targets, n_weights, n_weights)
        Covariance of the errors of the weights, in the order of `coef_`, and of the intercept, which is last.
    residual_std_ : float or ndarray of shape (n_targets,)
        Standard deviation of the residuals: the square root of a sum of two, their estimated mean square and one
        standard deviation of the noise on that estimate.
    delta_ : float
        The value used.
    scale_ : float
        Standard deviation of the noise, in units in which no row has a norm above 1. For a descent, that of each sum of
        gradients, which are clipped to the norm that `guarantee_.mechanism` names: mostly less than 1.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPMoments : The release by itself, for this and other models under one guarantee.
    MIDPRegressor : Protects single entries of X in mutual information, and not rows.

    Notes
    -----
    ``GridSearchCV`` over `alpha` spends epsilon on every fit. With ``mechanism="moments"``, `path` costs nothing.

    The proof of a descent: gradients are clipped to norm c. One row blank or not moves their sum by at most c, one row
    replaced by at most 2 c. Each of the T sums is computed at weights that depend on the rows only through the earlier
    noisy sums. So all T together are one Gaussian release of sqrt(T) times that sensitivity: for one row replaced,
    ``mu = 2 c sqrt(T) / scale_``, and for one row blank or not half of it. The gradients of a person's rows have
    weights that add up to 1 at most, and so move a sum no further. The noise also covers what floats round off, a share
    of `scale_` that is far below what is printed.

    References
    ----------
    .. [1] Y.-X. Wang, "Revisiting Differentially Private Linear Regression: Optimal and Adaptive Prediction &
       Estimation in Unbounded Domain", UAI 2018, for ridge regression on noisy moments. The penalty is ours.
    .. [2] R. Bassily, A. Smith and A. Thakurta, "Private Empirical Risk Minimization: Efficient Algorithms and Tight
       Error Bounds", FOCS 2014, for noisy descent. Steps and clipping norm are ours.
    .. [3] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, for the projection; there it hides entries, here rows with their
       targets, see :func:`~skdprp.mechanisms.secret_projection_profile`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skdprp import DPRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DPRidge(target_bounds=(0, 350), epsilon=5.0, max_norm=0.3).fit(X, y)
    >>> bool(model.score(X, y) > 0.1)
    True
    >>> model.guarantee_
    (5.0, 5.12e-06)-DP, one row replaced
    """

    _parameter_constraints: dict = {
        "target_bounds": ["array-like"],
        **MOMENTS_CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "fit_intercept": ["boolean"],
        "mechanism": [StrOptions({"auto", "descent", "moments", "projection"})],
        "n_components": [Interval(Integral, 1, 10**6, closed="both")],
    }

    def __init__(
        self,
        *,
        target_bounds,
        epsilon=1.0,
        delta=None,
        alpha="auto",
        max_norm=1.0,
        adjacency="replace_one",
        fit_intercept=True,
        mechanism="auto",
        n_components=5000,
    ):
        self.target_bounds = target_bounds
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.max_norm = max_norm
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.mechanism = mechanism
        self.n_components = n_components

    def _fit_rows(self, X, y, groups):
        if not self._descends(X, groups):
            return super()._fit_rows(X, y, groups)
        if self.alpha != "auto" or is_lazy(X):
            raise ValueError(_NO_DESCENT)
        model = snapshot(self)
        model._calibrated_for = model.get_params(deep=False)
        X, y = model._validate(X, y, reset=True)
        persons = None if groups is None else persons_of(groups, X.shape[0])
        columns = model._columns(X, y)
        number, unit = (X.shape[0], Unit.ROW) if persons is None else (persons.number, Unit.PERSON)
        plan = model._plan(number, columns, unit)
        calibration = model._calibrate_descent(plan, number, unit)
        row_weights = None if persons is None else persons.weights
        X, others = columns.clip(X, y)
        # To norms of at most 1: of a row with its constant, and of all targets together.
        row_unit, target_unit = 1 / np.hypot(1, columns.constant), 1 / np.sqrt(columns.n_targets)
        X *= row_unit / columns.max_norm  # a copy of the rows already
        targets = others[:, -columns.n_targets :] / columns.reach * target_unit
        with calibration.recorded(self) as entry, one_blas_thread():
            weights = descend(X, columns.constant * row_unit, targets, plan, row_weights)
        weights *= row_unit / target_unit
        coefs, intercepts = in_units_of_data(columns, weights[:-1].T, columns.constant * weights[-1])
        model.coef_, model.intercept_ = _squeezed(coefs), _squeezed(intercepts)
        model.mechanism_, model.columns_ = "descent", columns
        calibration.publish(model, seeded=entry.was_seeded())
        take_over(self, model)
        return self

    def _fit_chunks(self, chunks):
        if self.mechanism == "descent":
            raise ValueError(_NO_DESCENT)
        return super()._fit_chunks(chunks)

    def path(self, alphas):
        """Solve for several penalties on the moments that were released, which costs no privacy.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Penalties, as in Ridge.

        Returns
        -------
        coefs : ndarray of shape (n_alphas, n_features) or (n_alphas, n_targets, n_features)
            Weights at each penalty.
        intercepts : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
            Intercepts.

        Raises
        ------
        ValueError
            If the fit was a descent, which has one solution, a penalty is negative, or there is none.
        """
        check_is_fitted(self)
        if self.mechanism_ == "descent":
            raise ValueError('A descent has one solution: fit with mechanism="moments".')
        alphas = np.asarray(alphas, dtype=np.float64)
        if alphas.ndim != 1 or not alphas.size or not (np.isfinite(alphas) & (alphas >= 0)).all():
            raise ValueError("alphas should be a list of finite numbers of at least 0, and not empty.")
        equations = NormalEquations.of(self.moments_)
        solutions = [
            in_units_of_data(self.columns_, *equations.solve_all(alpha / self.columns_.max_norm**2)) for alpha in alphas
        ]
        coefs, intercepts = map(np.array, zip(*solutions, strict=True))
        single = self.columns_.n_targets == 1
        return (coefs[:, 0], intercepts[:, 0]) if single else (coefs, intercepts)

    @by_chunks
    @silent
    def predict(self, X):
        """Predict the targets of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Those of norm above `max_norm` are clipped, as in fit.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples,) or (n_samples, n_targets)
            Predictions, within the bounds of the targets.
        """
        check_is_fitted(self)
        return self._within_bounds(self._scores(X))

    @silent
    def predict_interval(self, X, level=0.9):
        """Predict intervals that hold the targets of about a share `level` of all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        level : float, default=0.9
            Share of the targets, between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Ends of the intervals, within the bounds of the targets.

        Raises
        ------
        ValueError
            If the fit was a descent, which releases nothing that would tell, or `level` is no share.

        Notes
        -----
        Predictions plus and minus a multiple of `residual_std_`, as if residuals were normal. What noise and shrinkage
        do to predictions is part of these residuals.
        """
        check_is_fitted(self)
        if self.mechanism_ == "descent":
            raise ValueError(
                'Error bars need mechanism="moments": a descent does not release what they are computed from.'
            )
        if not 0 < level < 1:
            raise ValueError(f"level should be between 0 and 1, got {level}.")
        scores, width = self._scores(X), ndtri((1 + level) / 2) * self.residual_std_
        return self._within_bounds(scores - width), self._within_bounds(scores + width)

    @silent
    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        y, predicted = computed(y, self.predict(X))
        return without_values(r2_score, y, predicted, sample_weight=sample_weight, name="y")

    def _scores(self, X):
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return clip_rows(X, self.columns_.max_norm, copy=False) @ self.coef_.T + self.intercept_

    def _within_bounds(self, scores):
        return np.clip(scores, _squeezed(self.columns_.low), _squeezed(self.columns_.high))

    def _descends(self, X, groups=None):
        """Whether to descend, from the parameters, the width of the rows, and the number of rows or persons."""
        if self.mechanism != "auto":
            return self.mechanism == "descent"
        shape = X.shape if hasattr(X, "shape") else without_values(np.asarray, X, dtype=object).shape
        if self.alpha != "auto" or is_lazy(X) or len(shape) != 2 or not shape[0]:
            return False
        number = shape[0] if groups is None else persons_of(groups, shape[0]).number
        facts = {"n_samples": number, "n_weights": shape[1] + 1, "adjacency": self.adjacency}
        return not has_many_rows(self.epsilon, self._delta(number), **facts)

    def _plan(self, n_samples, columns, unit):
        return plan_ridge_descent(
            self.epsilon,
            self._delta(n_samples),
            n_samples=n_samples,
            n_weights=columns.n_features + 1,
            n_targets=columns.n_targets,
            adjacency=self.adjacency,
            unit=unit,
        )

    def _calibrate_descent(self, plan, n_samples, unit):
        return self._state(
            self._delta(n_samples),
            plan.scale,
            released="coef_ and intercept_, and the noisy sums of gradients that they were computed from",
            mechanism=f"Gaussian mechanism on {N_STEPS} sums of gradients clipped to norm {printed_up(plan.clip, 6)}, "
            f"scale {printed_down(plan.scale, 6)}",
            source="exact profile of the Gaussian mechanism; proof in the notes of skdprp.DPRidge",
            loss=plan.loss,
            noise=plan,
            unit=unit,
        )

    def _calibration_of(self, shape, dtype, n_targets, unit=Unit.ROW):
        if not self._descends(np.broadcast_to(0.0, shape)):
            return super()._calibration_of(shape, dtype, n_targets, unit)
        columns = self._columns(np.empty((1, shape[1])), np.empty((1, n_targets)))
        return self._calibrate_descent(self._plan(shape[0], columns, unit), shape[0], unit)

    def _calibrate(self, n_samples, columns, unit):
        """Noise and guarantee of one release, from the number of rows or persons and what the columns are."""
        if self.mechanism != "projection":
            return super()._calibrate(n_samples, columns, unit)
        if unit == Unit.PERSON:
            raise ValueError(_NO_PERSONS)
        delta, kind = self._delta(n_samples), {"max_norm": _UNIT_NORM, "adjacency": self.adjacency}
        kind["n_components"] = self.n_components
        n_changed = secret_projection_n_changed(
            scale=secret_projection_scale(self.epsilon, delta, **kind),
            n_components=self.n_components,
            n_dims=len(columns.weights),
            n_samples=n_samples,
            max_norm=_UNIT_NORM,
            n_additions=n_additions(columns),
        )
        scale = secret_projection_scale(*sampled_target(self.epsilon, delta, n_changed=n_changed), **kind)
        profile = Profile.of(secret_projection_profile, scale=scale, **kind)
        return self._state(
            delta,
            scale,
            released="coef_, intercept_ and moments_, and the projection of the table that they were computed from",
            mechanism=f"secret projection to {self.n_components} rows, Gaussian noise, scale {printed_down(scale, 6)}",
            source="exact profile; proof in skdprp.mechanisms.secret_projection_profile",
            loss=PrivacyLoss(profiles=(profile,), sampling=n_changed * _noise.SAMPLING_LOSS),
            noise=ProjectionNoise(scale, self.n_components),
            unit=unit,
        )

    def _learn(self, moments):
        """Solve the normal equations, and estimate the errors of the solution."""
        if not moments.columns.n_targets:
            raise ValueError("These moments have no targets: give target_bounds, and y, where they are released.")
        columns, equations = moments.columns, NormalEquations.of(moments)
        self.mechanism_ = "moments" if isinstance(moments.noise, GaussianNoise) else "projection"
        self.columns_ = columns
        suited, sizes = zip(*map(equations.penalty, range(columns.n_targets)), strict=True)
        is_given = self.alpha != "auto"
        penalties = [self.alpha / columns.max_norm**2] * columns.n_targets if is_given else suited
        coefs, intercepts = in_units_of_data(columns, *equations.solve_all(penalties))
        self.coef_, self.intercept_ = _squeezed(coefs), _squeezed(intercepts)
        self.alpha_ = _squeezed(np.array(penalties) * columns.max_norm**2)
        # Errors, in units of X and of each target.
        errors = map(equations.covariance, range(columns.n_targets), penalties, sizes)
        covariances, residuals = map(np.array, zip(*errors, strict=True))
        units = np.append(np.full(columns.n_features, 1 / columns.max_norm), np.ones(int(columns.intercept)))
        units = units * columns.reach[:, None]
        covariances *= units[:, :, None] * units[:, None, :]
        deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        self.covariance_, self.residual_std_ = _squeezed(covariances), _squeezed(np.sqrt(residuals) * columns.reach)
        self.coef_std_ = _squeezed(deviations[:, : columns.n_features])
        self.intercept_std_ = _squeezed(deviations[:, -1]) if columns.intercept else 0.0

    def __getattr__(self, name):
        """Say why an attribute is missing after a descent."""
        if name not in _OF_MOMENTS or vars(self).get("mechanism_") != "descent":
            return object.__getattribute__(self, name)  # which says why it is missing
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}: it has none after a descent, but with "
            "mechanism='moments' or 'projection'",
            name=name,
            obj=self,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        return tags


def in_units_of_data(columns, weights, intercepts):
    """Bring weights of unit rows and targets, of shape (n_targets, n_features), to those of X and y."""
    return weights * (columns.reach[:, None] / columns.max_norm), intercepts * columns.reach + columns.center


def _squeezed(values):
    """Of one target, its values alone: a number where there is one."""
    values = np.asarray(values)
    return (values[0] if values.ndim > 1 else float(values[0])) if len(values) == 1 else values
