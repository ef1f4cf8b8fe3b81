"""What a sketched regression will cost in accuracy: for planning, on public numbers or made-up data."""

import numpy as np


def least_residual(X, y, *, fit_intercept=False):
    """Compute the largest `min_residual` that may be promised about given data.

    This reads the data: a promise made from it leaks. It is for public data of the same kind, and for simulations.

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
    others, target = np.delete(table, column, axis=1), table[:, column]
    U, singular, _ = np.linalg.svd(others, full_matrices=False)
    U = U[:, singular > singular.max(initial=0.0) * max(table.shape) * np.finfo(float).eps]
    residual = target - U @ (U.T @ target)
    residual -= U @ (U.T @ residual)
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
        ``(1 + sigma^2 kappa^2 r / (n mean_square)) (n' - 1) / (n' - d - 1) - 1``

    Raises
    ------
    ValueError
        If `n_components` is below d + 2.

    Notes
    -----
    Ours; it takes the place of the paper's theorem on projections and is not that theorem. In the expected error of
    :func:`projection_expected_error` the trace is at most d, and both ``|X v - y|^2`` and tau^2 are at most the least
    ridge objective, itself at most ``|X v* - y|^2 + sigma^2 |v*|^2`` at the least-squares solution v*. Finally
    ``|v*|^2 <= |P y|^2 / s_min^2`` and ``s_min^2 >= |X|_F^2 / (d kappa^2) = n mean_square / kappa^2``.

    Examples
    --------
    >>> from skdprp.linear_model import projection_error_bound
    >>> sizes = dict(n_samples=100_000, n_features=5, n_components=500, scale=22.4)
    >>> round(projection_error_bound(**sizes, condition_number=1.1, r=1.0, mean_square=1 / 3), 3)
    0.029
    """
    _check_n_components(n_components, n_features)
    shrinkage = scale**2 * condition_number**2 * r / (n_samples * mean_square)
    return float((1 + shrinkage) * (n_components - 1) / (n_components - n_features - 1) - 1)


def _check_n_components(n_components, n_features):
    if n_components < n_features + 2:
        raise ValueError(f"The error has no mean unless n_components >= n_features + 2 = {n_features + 2}.")


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
        Bound on ``|X w - y|^2 / min_v |X v - y|^2 - 1`` for the least-squares solution w on ``(X + noise, y)``; infinite
        if n is too small for one.

    Notes
    -----
    Ours; it takes the place of the paper's theorem on additive noise and is not that theorem. Let
    ``t = sqrt(2 ln(3 / failure))``, ``s- = sqrt n - sqrt d - t``, ``s+ = sqrt n + sqrt d + t`` and
    ``q = sqrt(d + 1) + sqrt d + t``. Except with probability `failure`, the noise N has its singular values in [s-, s+],
    and is shorter than q on the span of X and y, of dimension d + 1. Write u for ``X v - y``; then

        |u + sigma N v|^2 = |u|^2 + 2 sigma u'N v + sigma^2 |N v|^2,
        2 sigma |u'N v| <= eta |u|^2 + sigma^2 q^2 |v|^2 / eta.

    With eta = q / s- below 1 the left side is at least ``(1 - eta) |u|^2``, as ``q^2 / eta <= s-^2``. At the
    least-squares solution v* it is at most ``(1 + eta) |u*|^2 + sigma^2 (s+^2 + q s-) |v*|^2``. The minimiser w of the
    left side satisfies both. Last, ``|v*|^2 <= |u*|^2 r kappa^2 / (n mean_square)``. For large n the bound tends to
    ``sigma^2 kappa^2 r / mean_square``: unlike that of a projection it does not vanish.

    Examples
    --------
    >>> from skdprp.linear_model import additive_error_bound
    >>> sizes = dict(n_samples=10**9, n_features=5, scale=1.0)
    >>> round(additive_error_bound(**sizes, condition_number=1.1, r=1.0, mean_square=1 / 3), 2)
    3.63
    """
    t = np.sqrt(2 * np.log(3 / failure))
    lowest, highest = np.sqrt(n_samples) - np.sqrt(n_features) - t, np.sqrt(n_samples) + np.sqrt(n_features) + t
    q = np.sqrt(n_features + 1) + np.sqrt(n_features) + t
    if q >= lowest:
        return float("inf")
    eta = q / lowest
    shrinkage = scale**2 * condition_number**2 * r / (n_samples * mean_square)
    return float((1 + eta + (highest**2 + q * lowest) * shrinkage) / (1 - eta) - 1)
