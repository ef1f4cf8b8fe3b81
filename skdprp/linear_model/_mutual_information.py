"""Linear regression whose entries are protected in mutual information: MIDPRegressor."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .. import _noise
from .._adjacency import Relation, Unit
from .._calibration import Calibration, GuaranteeDisplayMixin, snapshot, take_over
from .._digits import printed_down, printed_up
from .._errors import silent, without_values
from .._lazy import by_chunks, computed
from .._rows import in_given_type
from .._validation import FLOATS, Interval, PythonNumbersMixin, StrOptions, UncachedMixin, _fit_context, validate_data
from ..guarantee import PARAMETERS_ARE_PUBLIC, Adjacency, Definition, PrivacyGuarantee
from ..mechanisms import information_scale
from ..mechanisms.gaussian_laplace import gaussian_epsilon
from ..mechanisms.mutual_information import information_delta, projected_entry_epsilon, sampled_information
from ..mechanisms.published import published_information_scale
from ._sketched_least_squares import clip_entries, column_residual, noisy_blocks, project, to_unit_size, triangle

_DELTA = 1e-5  # at which an epsilon is printed beside the bits
_NOT_COVERED = ("whether a call raised an error", "the running time", "targets, and rows passed to predict or score")


@dataclass(frozen=True)
class EntryNoise:
    """Standard deviation of the noise on entries and, for a projection, the number of rows of S."""

    scale: float
    n_components: int | None = None


class MIDPRegressor(GuaranteeDisplayMixin, PythonNumbersMixin, UncachedMixin, RegressorMixin, BaseEstimator):
    """Least squares on a noisy copy or a noisy random projection of the data (MI-DP).

    Protects single entries of X: somebody who knows all other entries and y learns at most `epsilon` bits about
    an entry from the release. It does **not** protect y, nor rows.

    Parameters
    ----------
    epsilon : float, default=0.5
        Bound on the mutual information between one entry and the release, in bits; at most 64, all that a float has.
        From 1 bit on, the release may fully reveal a yes-or-no entry.
    mechanism : {"projection", "additive"}, default="projection"
        "projection" releases ``S X + noise`` and ``S y``, with a Gaussian S of `n_components` rows, a
        Johnson-Lindenstrauss transform (JLT); "additive" releases ``X + noise`` and y.
    n_components : int or "auto", default="auto"
        Number n' of rows of S, at most the number of rows of X. "auto" is computed from n, d and `epsilon`:
        ``d + 2 + (d (n c)^2 / 18)^(1/3)`` with ``c = 2^(2 epsilon) - 1``, see Notes.
    calibration : {"exact", "published"}, default="exact"
        "published" sets the noise of a projection from the data as the paper does; the release is then not private,
        which a :class:`~skdprp.PrivacyWarning` and `guarantee_` say. Additive noise is the same in both.
    min_residual : float, default=0.0
        A public bound that allows a projection with less noise, though never with none: it is assumed that every column
        of X, clipped and with any one row left out, has at least this least-squares residual (a norm) on the other
        columns, y and, with `fit_intercept`, a constant column. If that is not so, the guarantee is void. Never compute
        it from the private data.
    max_abs : float, default=1.0
        Largest absolute value of an entry. Entries are clipped to it, in fit and in predict. A public choice.
    fit_intercept : bool, default=False
        Whether to add a constant column. It is public and gets no noise, so that the intercept is not shrunk. Without
        it y should be centred by a public constant, above all after :class:`~skdprp.PublicScaler`, which centres X.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Released coefficients.
    intercept_ : float
        Released intercept; 0 without `fit_intercept`.
    scale_ : float
        Standard deviation of the noise. Not there with the published calibration of a projection, where it would
        reveal more of the data.
    n_components_ : int
        Number of rows of S; for a projection only.
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of fit or sketch. Its field `mechanism` gives, for one entry, the (0, delta)-DP that
        follows from any MI-DP, and the (epsilon, 1e-5)-DP of this mechanism.
    claimed_ : PrivacyGuarantee
        What the published calibration of a projection claims; only with that.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    skdprp.mechanisms.information_scale : The exact calibration and its proof.
    skdprp.linear_model.projection_expected_error : Plans the number of rows of S.

    Notes
    -----
    There is no `random_state`: S has to be secret, or at least fresh. With `min_residual` above 0, privacy rests on S
    being unknown: the attacker may know one column of it, and with all of S could subtract the residuals. With a bound
    of 0, the noise alone suffices if S is drawn independently of the data and becomes known afterwards. It does not
    suffice for a fixed S, as a seed gives it, whose columns can be longer than sqrt(n'). So S and the noise are fresh
    kernel entropy at each release and are never stored. When X and y have at most n' columns, S is not drawn at all:
    the rows of ``S [X, y]`` are independent normal vectors with the Gram matrix of ``[X, y]`` as covariance, and are
    drawn from its triangular factor, in time n d^2 + n' d^2 instead of n' n d.

    Each call of `fit` or `sketch` is a new release. One after the other, two releases whose parameters were fixed
    before the first reveal at most the sum of their bits about an entry.

    Least squares on the release behave like ridge regression with a penalty of sigma^2 (projection) or n sigma^2
    (additive), where sigma is the noise at that mechanism. A projection with few rows needs less noise, but has fewer
    rows to learn from. The rule of `n_components` balances the two terms of
    :func:`~skdprp.linear_model.projection_error_bound`, ``b^2`` and ``d / n'``, for a well-conditioned X with entries
    spread evenly over their range and a signal as strong as the residual. It is ours, not the paper's.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, arXiv:1902.04688.
    .. [2] P. Cuff and L. Yu, "Differential Privacy as a Mutual Information Constraint", CCS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import MIDPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 5))
    >>> y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] + 0.1 * rng.normal(size=20_000)
    >>> model = MIDPRegressor(epsilon=0.5).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> model.guarantee_
    0.5-MI-DP (bits), one entry of at most 1.0
    """

    _parameter_constraints: dict = {
        "epsilon": [Interval(Real, 0, 64, closed="right")],
        "mechanism": [StrOptions({"projection", "additive"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "calibration": [StrOptions({"exact", "published"})],
        "min_residual": [Interval(Real, 0, None, closed="left")],
        "max_abs": [Interval(Real, 1e-50, 1e50, closed="both")],  # squares stay in float64
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        epsilon=0.5,
        mechanism="projection",
        n_components="auto",
        calibration="exact",
        min_residual=0.0,
        max_abs=1.0,
        fit_intercept=False,
    ):
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.n_components = n_components
        self.calibration = calibration
        self.min_residual = min_residual
        self.max_abs = max_abs
        self.fit_intercept = fit_intercept

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Release least-squares coefficients.

        Each call is a new release, with fresh noise and a fresh S: fitting the same rows twice costs their privacy
        twice.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. Entries beyond `max_abs` are clipped to it.
        y : array-like of shape (n_samples,)
            Targets. They are not protected.

        Returns
        -------
        self : object
            The fitted regressor.

        Raises
        ------
        ValueError
            If X or y is not finite, `n_components` exceeds the number of rows, `min_residual` cannot be true, or
            `epsilon` is so small that noise cannot be sampled well enough.
        """
        model = snapshot(self)
        X, y = validate_data(model, X, y, accept_sparse="csr", dtype=FLOATS, y_numeric=True)
        calibration = model._calibrate(X, "coef_ and intercept_")
        y, exponent = to_unit_size(y)
        # A noisy copy has as many rows as X; few with the same Gram matrix have the same least squares.
        with calibration.recorded(self) as entry:
            if calibration.noise.n_components is None:
                table = triangle(model._noisy_blocks(X, y, calibration))
            else:
                table = model._project(X, y, calibration)
        weights = np.ldexp(np.linalg.lstsq(table[:, :-1], table[:, -1])[0], exponent)
        model.coef_ = weights[: X.shape[1]].copy()
        model.intercept_ = float(weights[-1]) if model.fit_intercept else 0.0
        model._fitted_max_abs = model.max_abs
        calibration.publish(model, seeded=entry.was_seeded())
        take_over(self, model)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def sketch(self, X, y):
        """Release the noisy copy or projection of the data itself, for use with any regressor.

        Each call is a new release, in the place of an earlier fit: `guarantee_` describes the last release, and
        coefficients of a fit before it are dropped.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. Entries beyond `max_abs` are clipped to it.
        y : array-like of shape (n_samples,)
            Targets. They are not protected.

        Returns
        -------
        X_sketch : ndarray of shape (n_components, n_features) or (n_samples, n_features)
            ``S X + noise``, or ``X + noise`` if additive, in the dtype of X. With `fit_intercept` a last column
            follows, the sketch of a column of ones: regress on it without an intercept.
        y_sketch : ndarray of shape (n_components,) or (n_samples,)
            ``S y``, or y if additive.

        Raises
        ------
        ValueError
            If X or y is not finite, `n_components` exceeds the number of rows, `min_residual` cannot be true, or
            `epsilon` is so small that noise cannot be sampled well enough.
        """
        model = snapshot(self)
        rows, y = validate_data(model, X, y, accept_sparse="csr", dtype=FLOATS, y_numeric=True)
        X = in_given_type(X, rows)
        calibration = model._calibrate(X, "the sketch")
        with calibration.recorded(self) as entry:
            if calibration.noise.n_components is None:
                table = np.vstack(
                    [block.astype(X.dtype, copy=False) for block in model._noisy_blocks(X, y, calibration)]
                )
            else:
                y, exponent = to_unit_size(y)
                table = model._project(X, y, calibration)
                table[:, -1] = np.ldexp(table[:, -1], exponent)
                table = table.astype(X.dtype, copy=False)
        calibration.publish(model, seeded=entry.was_seeded())
        take_over(self, model)  # and drop coefficients of an earlier fit, whose guarantee was another
        return table[:, :-1], table[:, -1]

    @by_chunks
    @silent
    def predict(self, X):
        """Predict the target of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Entries beyond `max_abs` are clipped to it, as in fit.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples,)
        """
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return clip_entries(X, self._fitted_max_abs) @ self.coef_ + self.intercept_

    @silent
    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination of the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        y, predicted = computed(y, self.predict(X))
        return without_values(r2_score, y, predicted, sample_weight=sample_weight, name="y")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True
        return tags

    def _calibrate(self, X, released):
        """Noise and guarantee, from the shape of X alone; as published, from X itself, which is not private."""
        if self.min_residual > self.max_abs * np.sqrt(X.shape[0] - 1):
            raise ValueError(f"min_residual is more than columns of n_samples={X.shape[0]} entries can have.")
        if self.mechanism == "additive":  # one entry moves one number of the copy
            scale = information_scale(sampled_information(self.epsilon, n_changed=1), max_abs=self.max_abs)
            return Calibration(self._guarantee(scale, None, released), {"scale_": scale}, EntryNoise(scale))
        n_components = self._n_components(*X.shape)
        if self.calibration == "published":
            return self._calibrate_as_published(X, n_components)
        scale = information_scale(  # one entry moves a whole column of the projection
            sampled_information(self.epsilon, n_changed=n_components),
            max_abs=self.max_abs,
            n_components=n_components,
            min_residual=self.min_residual,
            n_samples=X.shape[0],
        )
        return Calibration(
            self._guarantee(scale, n_components, released),
            fitted={"n_components_": n_components, "scale_": scale},
            noise=EntryNoise(scale, n_components),
        )

    def _calibrate_as_published(self, X, n_components):
        residual = column_residual(X, self.max_abs)
        scale = published_information_scale(
            self.epsilon, n_components=n_components, residual=residual, max_abs=self.max_abs
        )
        entry = Adjacency(Relation.ENTRY, self.max_abs)
        return Calibration(
            PrivacyGuarantee(
                float("inf"),
                0.0,
                definition=Definition.MI_DP,
                unit="nothing",
                adjacency=entry,
                per="fit",
                mechanism="Gaussian projection with the published calibration, which depends on the data",
                source="none: Lemma 2 of the paper does not hold",
            ),
            fitted={"n_components_": n_components},  # the scale would tell more of the data
            noise=EntryNoise(scale, n_components),
            claimed=PrivacyGuarantee(
                self.epsilon,
                0.0,
                definition=Definition.CLAIMED_MI_DP,
                unit=Unit.ENTRY,
                adjacency=entry,
                per="fit",
                source="Showkatbakhsh, Karakus and Diggavi, ISIT 2018",
            ),
        )

    def _n_components(self, n_samples, n_features):
        if self.n_components == "auto":
            c = np.expm1(2 * self.epsilon * np.log(2))  # infinite where it overflows
            return int(min(n_samples, n_features + 2 + np.ceil(np.cbrt(n_features / 18) * (n_samples * c) ** (2 / 3))))
        if self.n_components > n_samples:
            raise ValueError(f"n_components={self.n_components} is more than the {n_samples} rows of X.")
        return self.n_components

    def _public_columns(self, y):
        """A column of ones for the intercept, and y: neither is protected."""
        ones = np.ones((len(y), int(self.fit_intercept)))
        return np.column_stack([ones, y.astype(np.float64, copy=False)])

    def _noisy_blocks(self, X, y, calibration):
        """Blocks of [X + noise, 1, y]."""
        scale = calibration.noise.scale
        return noisy_blocks(X, self._public_columns(y), max_abs=self.max_abs, scale=scale)

    def _project(self, X, y, calibration):
        """``[S X + noise, S 1, S y]``."""
        noise, public = calibration.noise, self._public_columns(y)
        return project(X, public, n_components=noise.n_components, max_abs=self.max_abs, scale=noise.scale)

    def _guarantee(self, scale, n_components, released):
        """State what holds of one release; `n_components` is None for additive noise."""
        mechanism, source = f"Gaussian noise, scale {printed_down(scale, 6)}", "Gaussian channel capacity"
        assumptions = (
            "y is not protected, and what y alone reveals about X is not part of epsilon",
            "the number of rows is public",
            PARAMETERS_ARE_PUBLIC,
        )
        if n_components is not None:
            mechanism = f"secret projection to {n_components} rows, {mechanism}"
            source = "proof in skdprp.mechanisms.information_scale"
            assumptions += ("S X is taken to be exact: its rounding to floats, far below the noise, is ignored",)
            if self.min_residual > 0:
                others = "the other columns and y" + " and the constant" * self.fit_intercept
                residual = f"the residual of each column on {others}, less any row,"
                assumptions += (f"{residual} is at least min_residual={self.min_residual}",)
        return PrivacyGuarantee(
            self.epsilon,
            0.0,
            definition=Definition.MI_DP,
            unit=Unit.ENTRY_BESIDE_TARGETS,
            adjacency=Adjacency(Relation.ENTRY, self.max_abs),
            per="fit",
            released=released,
            mechanism=f"{mechanism}; {self._implied(scale, n_components)}",
            assumptions=assumptions,
            not_covered=_NOT_COVERED,
            source=source,
        )

    def _implied(self, scale, n_components):
        """Say what differential privacy one release alone has, from its bits and, often more, from its mechanism."""
        loss = (n_components or 1) * _noise.SAMPLING_LOSS  # of the values that one entry moves
        delta = _DELTA * np.exp(-loss)
        if n_components is None:
            ideal = gaussian_epsilon(delta, scale=scale, sensitivity=2 * self.max_abs)
        else:
            ideal = projected_entry_epsilon(
                delta, scale=scale, n_components=n_components, max_abs=self.max_abs, min_residual=self.min_residual
            )
        by_bits = f"(0, {printed_up(information_delta(self.epsilon), digits=4)})-DP"
        by_mechanism = f"({printed_up(ideal + 2 * loss, digits=4)}, {_DELTA:g})-DP of one entry"
        return f"one release alone implies {by_bits} and {by_mechanism}"
