"""Principal components from private moments."""

from numbers import Integral

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from ._errors import silent
from ._lazy import LazyTransformerMixin, by_chunks
from ._recording import in_plan
from ._rows import clip_rows, float_type
from ._validation import FLOATS, Interval, public_numbers, validate_array, validate_data
from .moments import MOMENTS_CONSTRAINTS, PrivateMoments

__all__ = ["DPPCA"]


class DPPCA(ClassNamePrefixFeaturesOutMixin, LazyTransformerMixin, PrivateMoments):
    """Private principal components: directions of largest variance, under a guarantee for rows.

    Replaces PCA. The components are private. What `transform` returns is not: it is computed from each row without
    noise, for a private step that follows.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None keeps all. `explained_variance_` shows how many can be distinguished from noise. If
        you use it to choose the settings of a second release, the exact total of the two does not hold: use the
        *adaptive* total of a ledger.
    epsilon : float, default=1.0
        Privacy of one row: with a neighbour, an outcome is at most exp(epsilon) times as probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    max_norm : float, default=1.0
        Norm to which rows of larger norm are clipped, in fit and in transform. A public choice, never read from the
        data.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row in the place of one row. With "add_remove", the row is blank
        in the neighbour: another guarantee, which needs less noise. The number of places for rows is public in both.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Private directions, of norm 1, by falling variance.
    explained_variance_ : ndarray of shape (n_components,)
        Estimated variance of the rows along each component: that of the noise is subtracted, and 0 means that the
        component cannot be distinguished from noise.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the estimated variance of all features.
    mean_ : ndarray of shape (n_features,)
        Private mean of each feature.
    n_components_ : int
        Number of components.
    moments_ : Moments
        What was released; all else follows from it.
    delta_ : float
        The value used.
    scale_ : float
        Standard deviation of the noise on each entry of the diagonal of the moments, in units in which no row has a
        norm above 1.
    guarantee_ : PrivacyGuarantee
        The guarantee of this fit.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    DPMoments : The release by itself, from which other models follow at no cost.

    Notes
    -----
    Of d features, noise of standard deviation s on each entry of a covariance matrix makes an eigenvalue t of it
    ``t + d s^2 / t`` on average, with ``t - d s^2 / t`` as the variance along the eigenvector that comes out [2]_. With
    l the noisy eigenvalue, the latter is ``sqrt(l^2 - 4 d s^2)``: what `explained_variance_` says, or 0 below the edge
    ``2 s sqrt(d)`` of what noise alone makes.

    References
    ----------
    .. [1] C. Dwork, K. Talwar, A. Thakurta and L. Zhang, "Analyze Gauss: Optimal Bounds for Privacy-Preserving
       Principal Component Analysis", STOC 2014.
    .. [2] F. Benaych-Georges and R. R. Nadakuditi, "The Eigenvalues and Eigenvectors of Finite, Low Rank Perturbations
       of Large Random Matrices", Advances in Mathematics 227, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdprp import DPPCA
    >>> X = load_digits().data / 16 - 0.5
    >>> pca = DPPCA(2, epsilon=5.0, max_norm=4.0).fit(X)
    >>> pca.transform(X).shape
    (1797, 2)
    >>> pca.guarantee_
    (5.0, 3.1e-07)-DP, one row replaced
    """

    _released = "components_, explained_variance_, mean_ and moments_, from which they follow"

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        **MOMENTS_CONSTRAINTS,
    }

    def __init__(self, n_components=None, *, epsilon=1.0, delta=None, max_norm=1.0, adjacency="replace_one"):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.max_norm = max_norm
        self.adjacency = adjacency

    def _learn(self, moments):
        """Find the eigenvectors of the noisy covariance matrix."""
        if not moments.columns.intercept:
            raise ValueError("These moments have no means: release them with fit_intercept=True.")
        n_features, mean = moments.columns.n_features, moments.mean
        values, vectors = np.linalg.eigh(moments.gram / moments.n_samples - np.outer(mean, mean))
        values, vectors = values[::-1], vectors[:, ::-1]
        # Of the noise beside the diagonal, in the units of a covariance.
        deviation = moments.noise.scale / np.sqrt(2) / moments.columns.weights[0] ** 2 / moments.n_samples
        edge = 2 * deviation * np.sqrt(n_features)
        explained = np.sqrt(np.where(values > edge, values**2 - edge**2, 0.0))
        n_components = self._n_components(n_features)
        components = vectors[:, :n_components].T
        # Each with the sign by which its largest entry is positive.
        largest = np.take_along_axis(components, np.abs(components).argmax(axis=1, keepdims=True), axis=1)
        self.components_ = components * np.where(largest < 0, -1.0, 1.0)
        self.explained_variance_ = explained[:n_components]
        total = max(values.sum(), explained.sum(), np.finfo(float).tiny)
        self.explained_variance_ratio_ = self.explained_variance_ / total
        self.mean_, self.n_components_ = mean, n_components

    def _n_components(self, n_features):
        n_components = n_features if self.n_components is None else self.n_components
        if n_components > n_features:
            raise ValueError(f"n_components={n_components} is more than the {n_features} features of X.")
        return n_components

    def _calibrate(self, n_samples, columns, unit):
        self._n_components(columns.n_features)  # before anything is released
        return super()._calibrate(n_samples, columns, unit)

    @by_chunks
    @silent
    def transform(self, X):
        """Project rows on the components. What is returned is **not private**: it is made of each row as it is.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array, dask dataframe} of shape (n_samples, n_features)
            Rows. Those of norm above `max_norm` are clipped, as in fit.

        Returns
        -------
        {ndarray, dask array} of shape (n_samples, n_components)
            In the type of X, if that is float32 or float64; lazy for a dask collection.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        clipped = clip_rows(rows, self.moments_.columns.max_norm)
        projected = clipped @ self.components_.T - self.mean_ @ self.components_.T
        if in_plan():
            projected = public_numbers(*projected.shape)
        return projected.astype(float_type(X, rows), copy=False)

    @silent
    def inverse_transform(self, X):
        """Return rows whose projections are given, as far as the components span them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Projections.

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            If X has not as many columns as there are components.
        """
        check_is_fitted(self)
        projected = validate_array(X, accept_sparse="csr", dtype=FLOATS)
        if projected.shape[1] != self.n_components_:
            raise ValueError(f"X has {projected.shape[1]} columns, and there are {self.n_components_} components.")
        return projected @ self.components_ + self.mean_

    @property
    def _n_features_out(self):
        return self.n_components_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
