"""What the sketch of `MIDPRegressor` will cost in accuracy: for planning, on public numbers or simulated data."""

import numpy as np
from scipy.linalg import lstsq
from sklearn.utils import column_or_1d

from .._validation import validate_array


def _checked(X, y):
    """Rows and targets in float64, finite; errors quote none of them, though they are meant to be public."""
    y = validate_array(y, name="y", dtype=np.float64, ensure_2d=False)
    return validate_array(X, dtype=np.float64), y


def least_residual(X, y, *, fit_intercept=False):
    """Compute the largest `min_residual` that is true of given data.

    This reads the data: a bound computed so leaks. It is for public data of the same kind, and for simulations.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, already within the bound on entries.
    y : ndarray of shape (n_samples,)
        Targets.
    fit_intercept : bool, default=False
        Whether a constant column is projected too.

    Returns
    -------
    float
        Least norm, over columns j and rows i, of the least-squares residual of column j on the other columns, y and a
        constant column if any, with row i left out.

    Notes
    -----
    Leaving row i out of a regression lowers its residual sum of squares by ``e_i^2 / (1 - h_i)``, with residual e_i and
    leverage h_i; it is 0 where the leverage is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.linear_model import least_residual
    >>> X = np.random.default_rng(0).uniform(-1, 1, (3000, 4))
    >>> least_residual(X, X.sum(axis=1)) < 1e-6
    True
    >>> bool(30 < least_residual(X, np.ones(3000)) < 32)
    True
    """
    X, y = _checked(X, y)
    table = np.column_stack([X, np.ones((len(X), int(fit_intercept))), y])
    squares = []  # of the residuals of each column on the others, over the rows that may be left out
    for column in range(X.shape[1]):
        others, target = np.delete(table, column, axis=1), table[:, column]
        U, singular, _ = np.linalg.svd(others, full_matrices=False)
        # The other columns of U are rounding alone.
        U = U[:, singular > singular.max(initial=0.0) * max(table.shape) * np.finfo(float).eps]
        residual = target - U @ (U.T @ target)
        residual -= U @ (U.T @ residual)  # once more: rounding leaves a part in the span
        free = 1 - np.einsum("ij,ij->i", U, U)
        drop = np.divide(residual**2, free, out=np.zeros_like(free), where=free > 1e-9)
        squares.append(max(0.0, residual @ residual - drop.max()))
    return float(np.sqrt(min(squares)))


def projection_expected_error(X, y, *, n_components, scale):
    """Compute the exact expected relative error of least squares on a noisy Gaussian projection.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, of full column rank.
    y : ndarray of shape (n_samples,)
        Targets.
    n_components : int or array-like of int
        Number n' of rows of S, at least d + 2.
    scale : float or array-like
        Standard deviation sigma of the noise. Of several sizes or scales, each by each as numpy broadcasts, the errors
        take hardly longer than one.

    Returns
    -------
    float or ndarray
        ``E|X w - y|^2 / min_v |X v - y|^2 - 1`` for the least-squares solution w on ``(S X + noise, S y)``.

    Raises
    ------
    ValueError
        If `n_components` is below d + 2: the expectation is infinite.

    Notes
    -----
    Ours. The rows of the sketch are independent normal vectors: a regression of S y on normal regressors of covariance
    ``G = X'X + sigma^2 I``, whose coefficients are those of ridge regression, v, and whose residual variance is
    ``tau^2 = y'y - y'X v``. Given the regressors Z, w has mean v and covariance ``tau^2 (Z'Z)^-1``, and
    ``E (Z'Z)^-1 = G^-1 / (n' - d - 1)``. So ``E|X w - y|^2 = |X v - y|^2 + tau^2 tr(X'X G^-1) / (n' - d - 1)``. Let s_i
    be the singular values of X, p_i the parts of y along its left singular vectors, e the rest of y and
    ``b_i = sigma^2 / (s_i^2 + sigma^2)``. Then ``|X v - y|^2 = |e|^2 + sum p_i^2 b_i^2``,
    ``tau^2 = |e|^2 + sum p_i^2 b_i``, and the trace is ``sum 1 - b_i``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.linear_model import projection_expected_error
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (1000, 4))
    >>> y = X.sum(axis=1) + rng.normal(size=1000)
    >>> round(projection_expected_error(X, y, n_components=45, scale=0.0), 12)
    0.1
    """
    X, y = _checked(X, y)
    y, n_features = column_or_1d(y), X.shape[1]
    _check_n_components(np.min(n_components), n_features)
    U, singular, _ = np.linalg.svd(X, full_matrices=False)
    parts = U.T @ y
    least, squares = np.sum((y - U @ parts) ** 2), parts**2
    with np.errstate(divide="ignore", over="ignore"):  # without noise, and with noise alone
        shrinkage = 1 / (1 + (singular / np.asarray(scale, dtype=float)[..., None]) ** 2)
    ridge = least + shrinkage**2 @ squares
    residual_variance = least + shrinkage @ squares
    trace = np.sum(1 - shrinkage, axis=-1)
    error = (ridge + residual_variance * trace / (np.asarray(n_components) - n_features - 1)) / least - 1
    return error if np.ndim(error) else float(error)


def _least_squares(X, y):
    """Return the least sum of squared residuals."""
    # By a QR decomposition, in a third of the time of the singular values that numpy computes.
    coef = lstsq(X, y, cond=np.finfo(float).eps * max(X.shape), lapack_driver="gelsy")[0]
    return np.sum((X @ coef - y) ** 2)


def projection_error_bound(
    *, n_samples, n_features, n_components, scale, condition_number, signal_to_noise, mean_square
):
    """Bound the expected relative error of least squares on a noisy Gaussian projection.

    Parameters
    ----------
    n_samples, n_features : int
        Shape (n, d) of X.
    n_components : int
        Number n' of rows of S, at least d + 2.
    scale : float
        Standard deviation sigma of the noise.
    condition_number : float
        Ratio kappa of the largest to the least singular value of X.
    signal_to_noise : float
        Explained over unexplained sum of squares of y: ``|P y|^2 / |y - P y|^2``, P the projector on the columns of X.
        It is the square of the r(y) of :func:`perturbation_error_bound`.
    mean_square : float
        Mean square of the entries of X.

    Returns
    -------
    float
        ``s b^2 + (1 + s b) d / (n' - d - 1)`` with ``b = sigma^2 / (sigma^2 + n mean_square / kappa^2)``, s
        `signal_to_noise`.

    Raises
    ------
    ValueError
        If `n_components` is below d + 2.

    Notes
    -----
    Ours, not the paper's theorem on projections, which is :func:`regularisation_error_bound`. Let p_i be the parts of y
    along the left singular vectors of X. In the notation of :func:`projection_expected_error`,
    ``|X v - y|^2 = |y - P y|^2 + sum p_i^2 b_i^2`` and ``tau^2 = |y - P y|^2 + sum p_i^2 b_i`` with
    ``b_i = sigma^2 / (s_i^2 + sigma^2)``, and the trace is at most d. No b_i is above b, as the least squared singular
    value is at least ``|X|_F^2 / (d kappa^2) = n mean_square / kappa^2``.

    Examples
    --------
    >>> from skdprp.linear_model import projection_error_bound
    >>> sizes = dict(n_samples=100_000, n_features=5, n_components=500, scale=22.4)
    >>> round(projection_error_bound(**sizes, condition_number=1.1, signal_to_noise=1.0, mean_square=1 / 3), 4)
    0.0106
    """
    _check_n_components(n_components, n_features)
    b = _shrinkage(scale**2, n_samples, condition_number, mean_square)
    return float(signal_to_noise * b**2 + (1 + signal_to_noise * b) * n_features / (n_components - n_features - 1))


def _check_n_components(n_components, n_features):
    """Refuse a projection to so few rows that the error has no mean."""
    if not n_components >= n_features + 2:
        raise ValueError(f"The error has no mean unless n_components >= n_features + 2 = {n_features + 2}.")


def _shrinkage(penalty, n_samples, condition_number, mean_square):
    """Largest share of a coefficient that ridge regression takes away."""
    return penalty / (penalty + n_samples * mean_square / condition_number**2)


def additive_error_bound(*, n_samples, n_features, scale, condition_number, signal_to_noise, mean_square, failure=0.01):
    """Bound the relative error of least squares on X with additive noise, with high probability.

    Parameters
    ----------
    n_samples, n_features : int
        Shape (n, d) of X.
    scale : float
        Standard deviation sigma of the noise.
    condition_number : float
        Ratio kappa of the largest to the least singular value of X.
    signal_to_noise : float
        Explained over unexplained sum of squares of y: ``|P y|^2 / |y - P y|^2``, P the projector on the columns of X.
        It is the square of the r(y) of :func:`perturbation_error_bound`.
    mean_square : float
        Mean square of the entries of X.
    failure : float, default=0.01
        Probability that the bound fails.

    Returns
    -------
    float
        Bound on ``|X w - y|^2 / min_v |X v - y|^2 - 1`` for the least-squares solution w on ``(X + noise, y)``;
        infinite if n is too small for one.

    Notes
    -----
    Ours, not the paper's theorem on additive noise, which is :func:`perturbation_error_bound`. Let
    ``t = sqrt(2 ln(3 / failure))`` and ``p = (sqrt d + t) / sqrt n``. Except with probability `failure`, the noise N
    has its singular values within ``sqrt n (1 - p)`` and ``sqrt n (1 + p)``, and norm at most
    ``q = sqrt(d + 1) + sqrt d + t`` on the span of X and y. Then the objective ``|X v - y + sigma N v|^2`` is, at all
    v, within a factor 1 - eta and 1 + eta of that of ridge regression with penalty ``n sigma^2``, where
    ``eta = q / sqrt n + 2 p + p^2``. So w exceeds the least ridge objective, which is at most
    ``(1 + s b) |y - P y|^2``, s `signal_to_noise`, by a share ``h = 2 eta / (1 - eta)`` at most. By how much w exceeds
    it bounds ``|X (w - v)|^2``, v the ridge solution, so that the relative error is at most

        (sqrt(1 + s b^2) + sqrt(h (1 + s b)))^2 - 1,  b = sigma^2 / (sigma^2 + mean_square / kappa^2).

    For large n it tends to ``s b^2``: unlike that of a projection it does not vanish.

    Examples
    --------
    >>> from skdprp.linear_model import additive_error_bound
    >>> sizes = dict(n_samples=10**12, n_features=5, scale=1.0)
    >>> round(additive_error_bound(**sizes, condition_number=1.1, signal_to_noise=1.0, mean_square=1 / 3), 2)
    0.64
    """
    root = np.sqrt(n_samples)
    t = np.sqrt(2 * np.log(3 / failure))
    p = (np.sqrt(n_features) + t) / root
    eta = (np.sqrt(n_features + 1) + np.sqrt(n_features) + t) / root + 2 * p + p**2
    if eta >= 1:
        return float("inf")
    b = _shrinkage(n_samples * scale**2, n_samples, condition_number, mean_square)
    spread = 2 * eta / (1 - eta) * (1 + signal_to_noise * b)
    return float((np.sqrt(1 + signal_to_noise * b**2) + np.sqrt(spread)) ** 2 - 1)


def relative_error(X, y, coef):
    """Compute eta: the sum of squared residuals of given weights, over the least possible one.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of shape (n_samples,)
        Targets.
    coef : ndarray of shape (n_features,)
        Weights, such as ``MIDPRegressor.coef_``.

    Returns
    -------
    float
        ``|X coef - y|^2 / min_v |X v - y|^2``, at least 1 up to rounding; (5) of [1]_.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.linear_model import relative_error
    >>> relative_error(np.eye(3)[:, :2], np.ones(3), np.array([1.0, 0.0]))
    2.0
    """
    X, y = _checked(X, y)
    return float(np.sum((X @ coef - y) ** 2) / _least_squares(X, y))


def perturbation_error_bound(*, n_samples, n_features, scale, largest_singular, condition_number, r, failure=0.01):
    """Bound the relative error of least squares on X with additive noise, by the theory of perturbations.

    Parameters
    ----------
    n_samples, n_features : int
        Shape (n, d) of X.
    scale : float
        Standard deviation sigma of the noise.
    largest_singular : float
        Largest singular value of X.
    condition_number : float
        Ratio kappa of the largest to the least singular value of X.
    r : float
        r(y), explained over unexplained norm of y: ``|P y| / |y - P y|``, P the projector on the columns of X.
    failure : float, default=0.01
        Probability that the bound fails.

    Returns
    -------
    float
        Bound on eta, see :func:`relative_error`: ``(1 + h / (1 - h) (kappa + r))^2`` with ``h = kappa (Delta + t)``,
        ``Delta = (sqrt n + sqrt d) sigma / largest_singular`` and
        ``t = sqrt(2 ln(2 / failure)) sigma / largest_singular``; infinite from h = 1 on, where the theorem says
        nothing.

    Notes
    -----
    Theorem 1 of [1]_, where ``1 + r`` would do in the place of ``kappa + r``. Let the largest singular value of X be 1,
    and N the noise: its spectral norm is at most Delta + t except with probability `failure` [2]_, so that
    ``|N u| <= h |X u|`` for all u. Let v be the least squares solution and e its residual, of norm 1, so that
    ``|X v| = r``. The solution on ``A = X + N`` is ``w = v + u`` with ``A u = P (e - N v)``, P the projector on the
    columns of A. Both column spaces have dimension d, so that the norm of P on what is orthogonal to X is that of
    ``1 - P`` on the columns of X: ``|(1 - P) X u| = |(1 - P) N u| <= h |X u|``. Hence ``|P e| <= h``,
    ``|A u| <= h + h r``, ``|X u| <= |A u| + h |X u|`` and ``|X w - y| <= 1 + |X u| <= 1 + h / (1 - h) (1 + r)``.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, Theorem 1.
    .. [2] M. Rudelson and R. Vershynin, "Non-asymptotic theory of random matrices: extreme singular values", ICM 2010.

    Examples
    --------
    With entries spread evenly over [-1, 1] a singular value is about sqrt(n / 3), so that Delta is about 1.7 sigma,
    however many the rows are: at 0.5 bits the theorem says nothing.

    >>> from skdprp.linear_model import perturbation_error_bound
    >>> sizes = dict(n_samples=10**6, n_features=10, largest_singular=577.0, condition_number=1.01, r=1.0)
    >>> perturbation_error_bound(**sizes, scale=1.0)
    inf
    >>> round(perturbation_error_bound(**sizes, scale=0.02), 2)
    1.15
    """
    t = np.sqrt(2 * np.log(2 / failure))
    h = condition_number * (np.sqrt(n_samples) + np.sqrt(n_features) + t) * scale / largest_singular
    return float((1 + h / (1 - h) * (condition_number + r)) ** 2) if h < 1 else float("inf")


def regularisation_error_bound(*, scale, singular_values, r, distortion):
    """Bound the relative error of least squares on a noisy Gaussian projection, by that of ridge regression.

    Parameters
    ----------
    scale : float
        Standard deviation sigma of the noise.
    singular_values : array-like of shape (n_features,)
        Singular values s of X, all above 0.
    r : float
        r(y), explained over unexplained norm of y: ``|P y| / |y - P y|``, P the projector on the columns of X.
    distortion : float
        delta of the theorem, at least 0: what the projection adds to the root of the least ridge objective. It holds
        for n' rows with probability ``1 - c1 exp(-c2 n' delta^2)`` from ``delta = sqrt(c0 d / n')`` on, with constants
        that the paper does not give; the square of 1 + delta has a mean of about ``1 + d / (n' - d - 1)``.

    Returns
    -------
    float
        Bound on eta, see :func:`relative_error`: ``(1 + delta)^2 (1 + l1) (1 + l2)^2`` with
        ``l1 = sigma^2 max_i (s_i / (s_i^2 + sigma^2))^2 r^2`` and ``l2 = sigma^2 / (s_min^2 + sigma^2) r``.

    Notes
    -----
    Theorem 2 of [1]_, but for its noise, which is not private. With the residual of norm one, the ridge solution v of
    penalty sigma^2 has ``|X v - y| <= 1 + l2`` and ``sigma^2 |v|^2 <= l1``, each a sum over singular vectors; and the
    least squares solution on the projection exceeds the ridge objective of v, at most
    ``(1 + l1) |X v - y|^2``, by a factor (1 + delta)^2 at most.

    References
    ----------
    .. [1] M. Showkatbakhsh, C. Karakus and S. Diggavi, "Privacy-Utility Trade-off of Linear Regression under Random
       Projections and Additive Noise", ISIT 2018, Theorem 2.

    Examples
    --------
    >>> from skdprp.linear_model import regularisation_error_bound
    >>> regularisation_error_bound(scale=0.0, singular_values=[3.0, 4.0], r=5.0, distortion=0.5)
    2.25
    """
    s, penalty = np.asarray(singular_values, dtype=float), scale**2
    l1 = penalty * np.max(s / (s**2 + penalty)) ** 2 * r**2
    l2 = penalty / (s.min() ** 2 + penalty) * r
    return float((1 + distortion) ** 2 * (1 + l1) * (1 + l2) ** 2)
