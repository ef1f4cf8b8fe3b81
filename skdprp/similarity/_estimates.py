"""Inner products, distances and angles of rows, estimated from their sketches."""

import numpy as np
from scipy.special import erfc, erfcx
from scipy.stats import hypergeom

from .._adjacency import Relation
from ..mechanisms import flip_probability
from ..mechanisms.randomised_response import binomial_flip_epsilon, sign_change_probability

_MOST_BITS = 12  # logarithm of the largest number of bits that `best_n_components` tries first
_SPREAD = 512  # numbers of nonzeros in a bin that are told apart: of more, they hardly vary


def as_array(S):
    """Return sketches as an array. Estimates look at them several times, and lazy ones would have other noise each."""
    if hasattr(S, "__dask_graph__"):
        raise TypeError("These sketches are lazy, and each computation of them is a release: compute them first.")
    return np.asarray(S)


def is_release(X):
    """Whether X is what `load_release` returns."""
    return hasattr(X, "sketches") and hasattr(X, "estimator")


def _pair(S, T, kinds, what):
    """Return two sketches of a kind as arrays, or refuse them."""
    S, T = as_array(S), as_array(T)
    if S.ndim != 2 or T.ndim != 2 or S.shape[1] != T.shape[1]:
        raise ValueError(f"The sketches need two dimensions and the same width, got shapes {S.shape} and {T.shape}.")
    if S.dtype.name not in kinds or T.dtype.name not in kinds:
        raise ValueError(f"This needs {what}, got {S.dtype} and {T.dtype}.")
    return S, T


def _real_pair(S, T):
    S, T = _pair(S, T, {"float32", "float64"}, "real-valued sketches")
    return S.astype(np.float64, copy=False), T.astype(np.float64, copy=False)


def inner_products(S, T):
    """Estimate the inner products of different rows.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_components)
        Sketches of rows u, from `DPRandomProjection` or `DPOPORP`.
    T : ndarray of shape (n_others, n_components)
        Sketches of rows v by the same projection, with noise of their own.

    Returns
    -------
    ndarray of shape (n_rows, n_others)
        Unbiased estimates of ``<u, v>``; see :func:`inner_product_variance`.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Theorems 3.8 to 3.10.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import inner_products
    >>> inner_products(np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]]))
    array([[1.]])
    """
    S, T = _real_pair(S, T)
    return S @ T.T


def squared_norms(S, *, noise_variance):
    """Estimate the squared norms of rows.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_components)
        Sketches.
    noise_variance : float
        Variance of the noise of one component: ``scale_**2`` of Gaussian, ``2 * scale_**2`` of Laplace noise.

    Returns
    -------
    ndarray of shape (n_rows,)
        Unbiased estimates of ``|u|^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import squared_norms
    >>> squared_norms(np.array([[3.0, 4.0]]), noise_variance=2.0)
    array([21.])
    """
    S, _ = _real_pair(S, S)
    # Noise is independent of the projection and adds its own squares, whose mean is known.
    return np.einsum("ij,ij->i", S, S) - S.shape[1] * noise_variance


def squared_distances(S, T, *, noise_variance):
    """Estimate the squared distances of different rows.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_components)
        Sketches of rows u.
    T : ndarray of shape (n_others, n_components)
        Sketches of rows v by the same projection, with noise of their own.
    noise_variance : float
        Variance of the noise of one component: ``scale_**2`` of Gaussian, ``2 * scale_**2`` of Laplace noise.

    Returns
    -------
    ndarray of shape (n_rows, n_others)
        Unbiased estimates of ``|u - v|^2``: the noise adds ``2 k noise_variance``, which is taken off.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import squared_distances
    >>> squared_distances(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0]]), noise_variance=1.0)
    array([[21.]])
    """
    norms = squared_norms(S, noise_variance=noise_variance)[:, None] + squared_norms(T, noise_variance=noise_variance)
    return norms - 2 * inner_products(S, T)


def cosines(S, T):
    """Estimate the cosines of different rows by normalising their sketches.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_components)
        Sketches of rows u.
    T : ndarray of shape (n_others, n_components)
        Sketches of rows v by the same projection, with noise of their own.

    Returns
    -------
    ndarray of shape (n_rows, n_others)
        Cosines of the sketches, which noise shrinks towards 0; see :func:`cosine_variance`.

    References
    ----------
    .. [1] P. Li and X. Li, "OPORP: One Permutation + One Random Projection", arXiv:2302.03505.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import cosines
    >>> cosines(np.array([[3.0, 4.0]]), np.array([[5.0, 0.0]]))
    array([[0.6]])
    """
    # Of the sketches themselves: norms freed of their noise may be negative.
    norms = np.outer(*(np.sqrt(squared_norms(rows, noise_variance=0.0)) for rows in (S, T)))
    return np.divide(inner_products(S, T), norms, out=np.zeros_like(norms), where=norms > 0)


def hamming_distances(S, T):
    """Count the bits in which sign sketches differ.

    Parameters
    ----------
    S : ndarray of shape (n_rows, n_features_out)
        Sign sketches: int8 signs, or bits packed in uint8.
    T : ndarray of shape (n_others, n_features_out)
        Sign sketches by the same projection, in the same form.

    Returns
    -------
    ndarray of int, shape (n_rows, n_others)

    Raises
    ------
    ValueError
        If `S` and `T` are no sign sketches, or differ in form or width.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import hamming_distances
    >>> hamming_distances(np.array([[0b1100]], dtype=np.uint8), np.array([[0b1010]], dtype=np.uint8))
    array([[2]])
    """
    S = as_array(S)
    S, T = _pair(S, T, {"uint8"} if S.dtype == np.uint8 else {"int8"}, "sign sketches of one form")
    if S.dtype == np.uint8:
        # Row by row, or all differences of all pairs would be in memory at once.
        return np.stack([np.bitwise_count(T ^ row).sum(axis=1, dtype=np.int64) for row in S])
    return (S.shape[1] - S.astype(np.int64) @ T.T) // 2  # equal signs add 1 to the product, others -1


def _odds(flip_epsilon):
    """``2 E / (E - 1)^2`` of E = exp(flip_epsilon), which is ``1 / (2 sinh(flip_epsilon / 2)^2)``."""
    with np.errstate(over="ignore"):  # of bits that are never flipped the odds are 0
        return 0.5 / np.sinh(np.asarray(flip_epsilon) / 2) ** 2


def angles(distances, *, n_components, flip_epsilon):
    """Estimate the angles of rows from the Hamming distances of their sign sketches by randomised response.

    Parameters
    ----------
    distances : ndarray of int
        Hamming distances of sketches from :class:`~skdprp.DPSignRP` with ``method="rr"``.
    n_components : int
        Number k of bits of a sketch.
    flip_epsilon : float
        Privacy loss of one bit, ``flip_epsilon_``; infinity if no bit was flipped.

    Returns
    -------
    ndarray of float64, shape of `distances`
        Unbiased estimates of the angles for a Gaussian projection, in radians; see :func:`angle_variance`.

    Notes
    -----
    Bits flipped by the smooth method cannot be debiased: how often depends on the rows.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Theorem 4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import angles
    >>> angles(np.array([64]), n_components=128, flip_epsilon=2.0).round(4)
    array([1.5708])
    """
    agreement = 1 - np.asarray(distances) / n_components
    odds = _odds(flip_epsilon)
    # Bits agree in the share 1 - angle / pi before the flips, and (1 + 2 odds) times closer to 1/2 after them.
    return np.pi * (1 - ((1 + 2 * odds) * agreement - odds))


def angle_variance(angle, *, n_components, flip_epsilon):
    """Variance of the estimate of :func:`angles` for a Gaussian projection.

    Parameters
    ----------
    angle : float or ndarray
        True angle theta, in radians.
    n_components : int
        Number k of bits of a sketch.
    flip_epsilon : float
        Privacy loss of one bit.

    Returns
    -------
    float or ndarray
        ``(theta (pi - theta) + 2 pi^2 E / (E - 1)^2 + 4 pi^2 E^2 / (E - 1)^4) / k`` with E = exp(flip_epsilon).

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Theorem 4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.similarity import angle_variance
    >>> round(float(angle_variance(np.pi / 2, n_components=100, flip_epsilon=np.inf)), 6)
    0.024674
    """
    odds = _odds(flip_epsilon)
    return (angle * (np.pi - angle) + np.pi**2 * odds + np.pi**2 * odds**2) / n_components


def best_n_components(epsilon, *, angle=np.pi / 3, delta=0.0, min_norm=None, max_change=1.0):
    """Choose the number of bits that estimates an angle best when they share one epsilon.

    Parameters
    ----------
    epsilon : float
        Privacy loss of a sketch by :class:`~skdprp.DPSignRP` with ``method="rr"``.
    angle : float, default=pi/3
        The angle that matters, in radians.
    delta : float, default=0.0
        As in :class:`~skdprp.DPSignRP`: with `min_norm`, above 0.
    min_norm : float or None, default=None
        Least l2 norm of a row, as in :class:`~skdprp.DPSignRP`. Far from zero few signs change, so that each bit has
        more than epsilon / k.
    max_change : float, default=1.0
        l1 distance of neighbours, which counts with `min_norm` only.

    Returns
    -------
    int
        The k that minimises :func:`angle_variance` at the loss that each of k bits may have: epsilon / k, or with delta
        what the exact distribution of the loss of all bits allows, and with `min_norm` of those of them whose signs
        differ; then to within 5% of k, and of at most 8192.

    Examples
    --------
    >>> from skdprp.similarity import best_n_components
    >>> best_n_components(20.0)
    6
    >>> best_n_components(20.0, delta=1e-6, min_norm=10.0)
    49
    """
    if min_norm is not None and delta == 0:
        raise ValueError("A least norm needs delta > 0.")
    if delta == 0:
        # With more bits than epsilon the flips of all cost more than one more bit brings: larger k are never best.
        k = np.arange(1, int(np.ceil(epsilon)) + 2)
        return int(k[np.argmin(angle_variance(angle, n_components=k, flip_epsilon=epsilon / k))])
    changed = 1.0 if min_norm is None else sign_change_probability(max_change / min_norm)

    def _variance(k):
        loss = binomial_flip_epsilon(epsilon, delta, n_components=k, changed=changed)
        return angle_variance(angle, n_components=k, flip_epsilon=loss)

    # It falls, with waves where one sign more may differ, and rises in the end: so all powers of 2, then what is near.
    coarse = min((2**i for i in range(_MOST_BITS + 1)), key=_variance)
    return min(np.unique(np.geomspace(max(1, coarse / 2), 2 * coarse, 33).round().astype(int)).tolist(), key=_variance)


def bit_correlation(
    epsilon,
    *,
    n_features,
    n_components,
    n_repeats=1,
    n_nonzero=None,
    size=1.0,
    adjacency="coordinate",
    method="auto",
):
    """Correlation of two sketches of one row by :class:`~skdprp.DPSignOPORP`: what a bit tells of its row.

    It is 1 where the bits of both are the same, and 0 where all are random. ``sqrt(k)`` times it is by how many
    standard deviations more bits agree than of unrelated rows. The parameters are those of :func:`best_n_repeats`.

    Returns
    -------
    float
        ``E[(1 - 2 f)^2]``, f the probability that a sign is flipped, by its level or its distance from zero, over what
        is in a bin.

    Raises
    ------
    ValueError
        If there is no such method or adjacency, or the method does not hide such changes; or if `n_nonzero` is negative
        or more than `n_features`.

    Notes
    -----
    Of P = b k / t padded features b come to a bin, and of the z nonzeros of a row m, which is hypergeometric. Their
    signed sum is normal with variance ``m size^2`` in units of `max_change`, which gives the level. A bin without any
    is a random bit. It is exact for rows whose nonzeros are normal.

    Laplace flips have ``1 - 2 f = 1 - e^(-|x| / b)`` at a sum x, with ``b = t / epsilon``, and sqrt(n_features) times
    that for "l2". Of a normal x with the standard deviation s it is ``1 - 2 erfcx(y) + erfcx(2 y)``, with
    ``y = s / (b sqrt(2))`` [1]_, to within 3e-7, as no sign is flipped less often than ``e^-16 / 2``.

    References
    ----------
    .. [1] NIST Digital Library of Mathematical Functions, 7.2 and 7.6.1.

    Examples
    --------
    >>> from skdprp.similarity import bit_correlation
    >>> round(bit_correlation(100.0, n_features=784, n_components=256, n_nonzero=150), 2)
    0.47
    >>> round(bit_correlation(100.0, n_features=784, n_components=256, n_nonzero=150, adjacency="l1"), 2)
    0.46
    """
    of_levels = adjacency == Relation.COORDINATE
    if adjacency not in (Relation.COORDINATE, Relation.L1, Relation.L2):
        raise ValueError(f'adjacency should be "coordinate", "l1" or "l2", got {adjacency!r}.')
    if method == "auto":
        method = "smooth" if of_levels else "laplace"
    if method not in (("smooth", "rr", "laplace") if of_levels else ("laplace",)):
        raise ValueError(f"method={method!r} is none of DPSignOPORP that hides a change in {adjacency}.")
    bins = n_components // n_repeats
    length, nonzero = -(-n_features // bins), n_features if n_nonzero is None else n_nonzero
    if not 0 <= nonzero <= n_features:
        raise ValueError(f"n_nonzero={n_nonzero} is not between 0 and n_features={n_features}.")
    mean = length * nonzero / (bins * length)
    spread = 12 * np.sqrt(mean) + 12
    counts = np.arange(max(0, int(mean - spread)), min(length, nonzero, int(mean + spread)) + 1)
    share = hypergeom.pmf(counts, bins * length, nonzero, length)
    if len(counts) > _SPREAD:
        counts, share = np.array([mean]), np.ones(1)
    counts, share = counts[counts > 0], share[counts > 0]
    if not len(counts):
        return 0.0
    if method == "laplace":
        scale = n_repeats / epsilon * (np.sqrt(n_features) if adjacency == Relation.L2 else 1.0)
        # E[(1 - e^-|a z|)^2] of standard normal z, with E[e^-|a z|] = 2 e^(a^2 / 2) Phi(-a) = erfcx(a / sqrt(2)) [1].
        y = size * np.sqrt(counts) / scale / np.sqrt(2)
        # Near 0 that cancels, and is 2 y^2 - 8 y^3 / sqrt(pi) + 7 y^4 to within 5 y^3 of itself.
        near_zero, exact = y**2 * (2 - 8 * y / np.sqrt(np.pi) + 7 * y**2), 1 - 2 * erfcx(y) + erfcx(2 * y)
        return float(share @ np.where(y < 1e-3, near_zero, exact))
    # E[g(L)] = sum_l (g(l + 1) - g(l)) P(|x| > l), with g(0) = 0: a sum that ends where no level is reached.
    scale = size * np.sqrt(counts)
    levels = np.arange(1 if method == "rr" else 1 + int(min(9 * scale.max(), 20 * n_repeats / epsilon, 2**16)))
    kept = (1 - 2 * flip_probability(np.append(levels, len(levels)), epsilon / n_repeats)) ** 2
    return float(share @ (erfc(levels / (np.sqrt(2) * scale[:, None])) @ np.diff(kept)))


def best_n_repeats(
    epsilon, *, n_features, n_components, n_nonzero=None, size=1.0, adjacency="coordinate", method="auto"
):
    """Choose how many independent sketches share the bits of :class:`~skdprp.DPSignOPORP`.

    A bin of one sketch of k bits holds few features. If all of them are zero in a row, its bit is random and tells
    nothing; with t sketches of k / t bits each bin holds t times as many, but each bit has epsilon / t only. So few
    repeats are best where epsilon is small, or where rows are dense, and more where it is large and rows are sparse.

    Parameters
    ----------
    epsilon : float
        Privacy loss of one row in one release.
    n_features : int
        Number p of features.
    n_components : int
        Number k of bits.
    n_nonzero : int or None, default=None
        How many features of a row are not zero, as far as is known without the data; None stands for all.
    size : float, default=1.0
        Root mean square of these features, in units of `max_change`.
    adjacency : {"coordinate", "l1", "l2"}, default="coordinate"
        As in :class:`~skdprp.DPSignOPORP`.
    method : {"auto", "smooth", "rr", "laplace"}, default="auto"
        As in :class:`~skdprp.DPSignOPORP`.

    Returns
    -------
    int
        The smallest divisor t of k at which :func:`bit_correlation` is largest, to within 1%.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Section 4.4, on multiple repetitions.

    Examples
    --------
    >>> from skdprp.similarity import best_n_repeats
    >>> [best_n_repeats(epsilon, n_features=784, n_components=256, n_nonzero=150) for epsilon in (1.0, 5.0, 20.0)]
    [1, 2, 4]
    >>> best_n_repeats(20.0, n_features=784, n_components=256)
    1
    >>> best_n_repeats(20.0, n_features=784, n_components=256, n_nonzero=150, adjacency="l1")
    4
    """
    divisors = [t for t in range(1, n_components + 1) if n_components % t == 0]
    rows = {"n_features": n_features, "n_components": n_components, "n_nonzero": n_nonzero, "size": size}
    flips = {"adjacency": adjacency, "method": method}
    found = [bit_correlation(epsilon, n_repeats=t, **rows, **flips) for t in divisors]
    return divisors[int(np.argmax(np.array(found) >= 0.99 * max(found)))]


def inner_product_variance(u, v, *, projection, noise_variance):
    """Variance of the estimate of :func:`inner_products`, over the draws of the projection and the noise.

    It plans a sketch, for rows like those to come: that of rows which are private is not to be released.

    Parameters
    ----------
    u, v : ndarray of shape (n_features,)
        The rows themselves, and not their sketches.
    projection : Projection
        ``projection_`` of the sketch; only its kind and shape matter.
    noise_variance : float or ndarray
        Variance sigma^2 of the noise of one component: ``scale_**2`` of Gaussian, ``2 * scale_**2`` of Laplace noise.

    Returns
    -------
    float or ndarray
        ``sigma^2 (|u|^2 + |v|^2) + k sigma^4 + f (|u|^2 |v|^2 + <u, v>^2 + (m - 3) sum_i u_i^2 v_i^2)`` with m the
        fourth moment of the entries of W and f its `variance_factor`, 1 / k for dense projections.

    References
    ----------
    .. [1] P. Li and X. Li, "Differential Privacy with Random Projections and Sign Random Projections",
       arXiv:2306.01751, Theorems 3.8 to 3.10.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> from skdprp.similarity import inner_product_variance
    >>> W = make_projection("identity", 4, None, None)
    >>> float(inner_product_variance(np.ones(4), np.ones(4), projection=W, noise_variance=0.5))
    5.0
    """
    uu, vv, uv = u @ u, v @ v, u @ v
    of_noise = noise_variance * (uu + vv) + projection.n_components * noise_variance**2
    # The draws of W and of the noise are independent: their variances add up.
    of_projection = uu * vv + uv**2 + (projection.fourth_moment - 3) * (u**2 @ v**2)
    return of_noise + projection.variance_factor * of_projection


def cosine_variance(u, v, *, projection, noise_variance):
    """Variance of the estimate of :func:`cosines`, over the draws of the projection and of Gaussian noise.

    It plans a sketch, for rows like those to come: that of rows which are private is not to be released. To divide by
    the norms takes most of the variance off where rows are alike and noise is small.

    Parameters
    ----------
    u, v : ndarray of shape (n_features,)
        The rows themselves, and not their sketches.
    projection : Projection
        ``projection_`` of the sketch; only its kind and shape matter.
    noise_variance : float
        Variance sigma^2 of the Gaussian noise of one component, ``scale_**2``.

    Returns
    -------
    float
        To first order in 1 / k. Without noise it is ``f ((1 - rho^2)^2 + (m - 3) sum_i m_i^2)`` for rows of norm 1 with
        cosine rho, where ``m_i = u_i v_i - rho (u_i^2 + v_i^2) / 2``, m is the fourth moment of the entries of W and f
        its `variance_factor`, 1 / k for dense projections [1]_.

    Notes
    -----
    With sketches x and y, ``x'y / sqrt(x'x y'y)`` moves, to first order, by ``d = dx'y - a dx'x - c dy'y`` over
    ``sqrt(B C)``, where ``B = |u|^2 + k sigma^2``, ``C = |v|^2 + k sigma^2``, ``a = <u, v> / (2 B)`` and
    ``c = <u, v> / (2 C)``. Of the projection d is a quadratic form of a column of W, with the matrix
    ``M = (u v' + v u') / 2 - a u u' - c v v'`` and the variance ``2 |M|^2 + (m - 3) sum_i M_ii^2``; of the noise it has
    the variance ``sigma^2 (|v - 2 a u|^2 + |u - 2 c v|^2) + k sigma^4 (1 + 2 a^2 + 2 c^2)``.

    References
    ----------
    .. [1] P. Li and X. Li, "OPORP: One Permutation + One Random Projection", arXiv:2302.03505.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> from skdprp.similarity import cosine_variance
    >>> u, v = np.ones(1000), np.append(-np.ones(200), np.ones(800))
    >>> W = make_projection("rademacher", 1000, 64, np.random.RandomState(0))
    >>> round(64 * float(cosine_variance(u, v, projection=W, noise_variance=0.0)), 3)
    0.408
    """
    uu, vv, uv, size = u @ u, v @ v, u @ v, projection.n_components * noise_variance
    a, c = uv / (2 * (uu + size)), uv / (2 * (vv + size))
    # |M|^2 of the outer products u u', v v' and (u v' + v u') / 2, whose inner products are products of uu, vv and uv.
    squared = (uu * vv + uv**2) / 2 + (a * uu) ** 2 + (c * vv) ** 2 - 2 * uv * (a * uu + c * vv) + 2 * a * c * uv**2
    diagonal = u * v - a * u**2 - c * v**2
    of_projection = projection.variance_factor * (2 * squared + (projection.fourth_moment - 3) * (diagonal @ diagonal))
    moved = vv - 4 * a * uv + 4 * a**2 * uu + uu - 4 * c * uv + 4 * c**2 * vv
    of_noise = noise_variance * (moved + size * (1 + 2 * a**2 + 2 * c**2))
    return (of_projection + of_noise) / ((uu + size) * (vv + size))
