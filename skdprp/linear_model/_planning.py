"""What a sketched regression will cost in accuracy: for planning, on public numbers or made-up data."""

import numpy as np


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
    table = np.column_stack([X, np.ones((len(X), int(fit_intercept))), y]).astype(np.float64)
    return float(np.sqrt(min(_least_squared_residual(table, column) for column in range(X.shape[1]))))


def _least_squared_residual(table, column):
    """Least squared residual of one column on the others, over the rows that may be left out."""
    others, target = np.delete(table, column, axis=1), table[:, column]
    U, singular, _ = np.linalg.svd(others, full_matrices=False)
    U = U[:, singular > singular.max(initial=0.0) * max(table.shape) * np.finfo(float).eps]  # others are rounding alone
    residual = target - U @ (U.T @ target)
    residual -= U @ (U.T @ residual)  # once more: rounding leaves a part in the span
    free = 1 - np.einsum("ij,ij->i", U, U)
    drop = np.divide(residual**2, free, out=np.zeros_like(free), where=free > 1e-9)
    return max(0.0, residual @ residual - drop.max())


def projection_expected_error(X, y, *, n_components, scale):
    """Compute the exact expected relative error of least squares on a noisy Gaussian projection.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, of full column rank.
    y : ndarray of shape (n_samples,)
        Targets.
    n_components : int
        Number n' of rows of S, at least d + 2.
    scale : float
        Standard deviation sigma of the noise.

    Returns
    -------
    float
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
    ``E (Z'Z)^-1 = G^-1 / (n' - d - 1)``. So ``E|X w - y|^2 = |X v - y|^2 + tau^2 tr(X'X G^-1) / (n' - d - 1)``.

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
    n_features = X.shape[1]
    _check_n_components(n_components, n_features)
    gram = X.T @ X
    regularised = gram + scale**2 * np.eye(n_features)
    ridge = np.linalg.solve(regularised, X.T @ y)
    least = np.sum((X @ np.linalg.lstsq(X, y)[0] - y) ** 2)
    variance = (y @ y - y @ X @ ridge) * np.trace(np.linalg.solve(regularised, gram)) / (n_components - n_features - 1)
    return float((np.sum((X @ ridge - y) ** 2) + variance) / least - 1)


def projection_error_bound(*, n_samples, n_features, n_components, scale, condition_number, r, mean_square):
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
    r : float
        Explained over unexplained sum of squares of y: ``|P y|^2 / |y - P y|^2``, P the projector on the columns of X.
    mean_square : float
        Mean square of the entries of X.

    Returns
    -------
    float
        ``r b^2 + (1 + r b) d / (n' - d - 1)`` with ``b = sigma^2 / (sigma^2 + n mean_square / kappa^2)``

    Raises
    ------
    ValueError
        If `n_components` is below d + 2.

    Notes
    -----
    Ours; it takes the place of the paper's theorem on projections and is not that theorem. Let p_i be the parts of y
    along the left singular vectors of X. In the notation of :func:`projection_expected_error`,
    ``|X v - y|^2 = |y - P y|^2 + sum p_i^2 b_i^2`` and ``tau^2 = |y - P y|^2 + sum p_i^2 b_i`` with
    ``b_i = sigma^2 / (s_i^2 + sigma^2)``, and the trace is at most d. No b_i is above b, as the least squared singular
    value is at least ``|X|_F^2 / (d kappa^2) = n mean_square / kappa^2``.

    Examples
    --------
    >>> from skdprp.linear_model import projection_error_bound
    >>> sizes = dict(n_samples=100_000, n_features=5, n_components=500, scale=22.4)
    >>> round(projection_error_bound(**sizes, condition_number=1.1, r=1.0, mean_square=1 / 3), 4)
    0.0106
    """
    _check_n_components(n_components, n_features)
    b = _shrinkage(scale**2, n_samples, condition_number, mean_square)
    return float(r * b**2 + (1 + r * b) * n_features / (n_components - n_features - 1))


def _check_n_components(n_components, n_features):
    """Refuse a projection to so few rows that the error has no mean."""
    if n_components < n_features + 2:
        raise ValueError(f"The error has no mean unless n_components >= n_features + 2 = {n_features + 2}.")


def _shrinkage(penalty, n_samples, condition_number, mean_square):
    """Largest share of a coefficient that ridge regression takes away."""
    return penalty / (penalty + n_samples * mean_square / condition_number**2)


def additive_error_bound(*, n_samples, n_features, scale, condition_number, r, mean_square, failure=0.01):
    """Bound the relative error of least squares on X with additive noise, with high probability.

    Parameters
    ----------
    n_samples, n_features : int
        Shape (n, d) of X.
    scale : float
        Standard deviation sigma of the noise.
    condition_number : float
        Ratio kappa of the largest to the least singular value of X.
    r : float
        Explained over unexplained sum of squares of y: ``|P y|^2 / |y - P y|^2``, P the projector on the columns of X.
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
    Ours; it takes the place of the paper's theorem on additive noise and is not that theorem. Let
    ``t = sqrt(2 ln(3 / failure))`` and ``p = (sqrt d + t) / sqrt n``. Except with probability `failure`, the noise N
    has its singular values within ``sqrt n (1 - p)`` and ``sqrt n (1 + p)``, and norm at most
    ``q = sqrt(d + 1) + sqrt d + t`` on the span of X and y. Then the objective ``|X v - y + sigma N v|^2`` is, at all
    v, within a factor 1 - eta and 1 + eta of that of ridge regression with penalty ``n sigma^2``, where
    ``eta = q / sqrt n + 2 p + p^2``. So w exceeds the least ridge objective, which is at most
    ``(1 + r b) |y - P y|^2``, by a share ``h = 2 eta / (1 - eta)`` at most. By how much w exceeds it bounds
    ``|X (w - v)|^2``, v the ridge solution, so that the relative error is at most

        (sqrt(1 + r b^2) + sqrt(h (1 + r b)))^2 - 1,  b = sigma^2 / (sigma^2 + mean_square / kappa^2).

    For large n it tends to ``r b^2``: unlike that of a projection it does not vanish.

    Examples
    --------
    >>> from skdprp.linear_model import additive_error_bound
    >>> sizes = dict(n_samples=10**12, n_features=5, scale=1.0)
    >>> round(additive_error_bound(**sizes, condition_number=1.1, r=1.0, mean_square=1 / 3), 2)
    0.64
    """
    root = np.sqrt(n_samples)
    t = np.sqrt(2 * np.log(3 / failure))
    p = (np.sqrt(n_features) + t) / root
    eta = (np.sqrt(n_features + 1) + np.sqrt(n_features) + t) / root + 2 * p + p**2
    if eta >= 1:
        return float("inf")
    b = _shrinkage(n_samples * scale**2, n_samples, condition_number, mean_square)
    return float((np.sqrt(1 + r * b**2) + np.sqrt(2 * eta / (1 - eta) * (1 + r * b))) ** 2 - 1)
