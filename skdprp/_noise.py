"""Private randomness: the only place where it is drawn.

Every bit comes from the kernel at the moment it is used. Nothing is kept between two draws, so that threads, forked
processes, pickles and clones cannot share noise. Functions work on blocks that fit the cache.
"""

import os
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri

_BLOCK = 1 << 14
_LOW_63 = np.uint64(2**63 - 1)
_SEEDED = ContextVar("seeded noise of this context: (process id, generator)", default=None)


def _seeded_generator():
    process, generator = _SEEDED.get() or (None, None)
    return generator if process == os.getpid() else None


def is_seeded():
    """Whether noise drawn here comes from a seed, which makes it no protection at all."""
    return _seeded_generator() is not None


@contextmanager
def reproducible_noise(seed):
    """Draw noise from a seed inside a `with` block: for tests and figures, never for private data.

    The seed holds in this thread and this process only: other threads, worker processes and forked children keep
    drawing from the kernel. Guarantees of releases made inside the block are marked as seeded.

    Parameters
    ----------
    seed : int
        Seed of the stand-in for the kernel's entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp import DPOPORP, reproducible_noise
    >>> X = np.eye(4)
    >>> with reproducible_noise(0):
    ...     sketch = DPOPORP(2, random_state=0).fit(X)
    >>> sketch.guarantee_
    (1.0, 1e-06)-DP [seeded: not private]
    """
    token = _SEEDED.set((os.getpid(), np.random.default_rng(seed)))
    try:
        yield
    finally:
        _SEEDED.reset(token)


def random_bytes(size):
    """Return `size` fresh bytes from the kernel."""
    generator = _seeded_generator()
    return os.urandom(size) if generator is None else generator.bytes(size)


def _random_words(size):
    return np.frombuffer(random_bytes(8 * size), np.uint64)


def _tail_and_sign(size):
    """Uniform tail probabilities in (0, 1/2], and floats that carry an independent random sign."""
    words = _random_words(size)
    return ((words & _LOW_63) + 0.5) * 2.0**-64, words.view(np.float64)


def _standard_gaussian(size):
    tail, sign = _tail_and_sign(size)
    return np.copysign(ndtri(tail), sign)


def _standard_laplace(size):
    tail, sign = _tail_and_sign(size)
    return np.copysign(np.log(2.0 * tail), sign)


def _add(values, scale, standard_noise):
    flat = values.reshape(-1)
    if not np.may_share_memory(flat, values):
        raise ValueError("Noise is added in place: the array must be contiguous.")
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        block += scale * standard_noise(block.size)


def add_gaussian(values, scale):
    """Add independent Gaussian noise of standard deviation `scale` to a contiguous float64 array, in place."""
    _add(values, scale, _standard_gaussian)


def add_laplace(values, scale):
    """Add independent Laplace noise of scale `scale` to a contiguous float64 array, in place."""
    _add(values, scale, _standard_laplace)


def gaussian(shape, scale):
    """Draw Gaussian noise of standard deviation `scale` that is not itself released."""
    return scale * _standard_gaussian(int(np.prod(shape))).reshape(shape)


def _standard_gamma(shape):
    """One Gamma variate by its inverse cdf: the uniform has 63 bits in both tails."""
    tail, sign = _tail_and_sign(1)
    return float((gammaincinv if np.signbit(sign[0]) else gammainccinv)(shape, tail[0]))


def spherical(n_dims, scale, *, shape, power):
    """Draw one vector with a random direction and the radius ``scale * Gamma(shape / power)^(1 / power)``.

    Parameters
    ----------
    n_dims : int
        Dimension M.
    scale : float
        Scale s of the radius, see :func:`skdprp.mechanisms.spherical_scale`.
    shape, power : float
        Parameters (a, b) of the radius, see :func:`skdprp.accounting.spherical_profile`.

    Returns
    -------
    ndarray of float64, shape (n_dims,)
    """
    vector = np.zeros(n_dims)
    add_gaussian(vector, 1.0)
    norm = np.linalg.norm(vector)
    if norm == 0.0:  # no direction: once in 2**53 draws in one dimension
        return spherical(n_dims, scale, shape=shape, power=power)
    vector *= scale * _standard_gamma(shape / power) ** (1 / power) / norm
    return vector


def flip(levels, thresholds):
    """Draw independent Booleans, true with probability ``thresholds[levels] / 2**64``.

    Parameters
    ----------
    levels : ndarray of unsigned int
        Index of each entry into the thresholds.
    thresholds : ndarray of uint64
        Integer thresholds, so that no probability is lost to rounding.

    Returns
    -------
    ndarray of bool, shape of `levels`

    Notes
    -----
    One random byte decides against the top byte of the threshold; only a tie, once in 256, draws 64 more bits against
    the other 56 of the threshold.
    """
    top = (thresholds >> np.uint64(56)).astype(np.uint8)
    first = np.frombuffer(random_bytes(levels.size), np.uint8).reshape(levels.shape)
    boundary = np.take(top, levels)
    flips = first < boundary
    tie = np.flatnonzero(first == boundary)
    rest = thresholds[levels.reshape(-1)[tie]] << np.uint64(8)
    flips.reshape(-1)[tie] = _random_words(tie.size) < rest
    return flips
