"""Public cells of numbers, and the sums over them that are released: whole numbers, for no rounding errors."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import fft
from scipy.signal import fftconvolve

_LOWEST, _HIGHEST = -20, 40  # powers of two between which numbers of any size have cells
_FINE, _FINE_BITS, _BITS = range(12), 10, 8  # years, ages, coordinates and counts to 4096 are fine, others are to 0.4%
_LEAST = np.finfo(np.float64).tiny
_UNIT = 2**12  # of which all coefficients are multiples
_DIGIT = 2**12
MOST_CELLS = 2**16
_TRAILING = 52 - _FINE_BITS  # bits that no cell of floats depends on
_LEAST_KEY = (1023 + _LOWEST << _FINE_BITS) - 1  # leading bits of numbers below all edges but that of 0


@dataclass(frozen=True)
class Cells:
    """Cells of one column, which begin at their edge: of equal width between bounds, or of floats of any size.

    Those of equal width have a power of two as their width, and as many begin within the bounds as `n_cells` at most.
    Without bounds a cell holds the numbers that share the sign, the exponent and the first 8 bits of the mantissa, or
    10 of numbers between 1 and 4096; one holds 0 alone. What lies beyond the outermost cells is in these.
    """

    bounds: tuple[float, float] | None = None
    n_cells: int = 4096

    def __post_init__(self):
        if not isinstance(self.n_cells, int) or not 2 <= self.n_cells <= MOST_CELLS:
            raise ValueError(f"n_cells={self.n_cells!r:.30} is no number of cells.")
        _edges(self)  # before any row is looked at: floats may have no such cells

    @property
    def edges(self):
        """Where cells begin, ndarray."""
        return _edges(self)

    def __len__(self):
        return len(_edges(self))

    def place(self, values):
        """Return the number of the cell of each value; values are no nan."""
        if self.bounds is None:  # looked up, which is several times as fast as to search for the edges
            of_bits, of_zero = _tables()
            is_below, sizes = values < 0, np.abs(values)
            # Cells begin at their edge: numbers below 0 share a cell up to the one with other leading bits.
            keys = (sizes.view(np.int64) - is_below >> _TRAILING) - _LEAST_KEY
            places = of_bits[is_below.view(np.int8), np.clip(keys, 0, of_bits.shape[1] - 1)]
            places[~is_below & (sizes < _LEAST)] = of_zero
            return places
        edges = _edges(self)
        width = edges[1] - edges[0]  # a power of two, so that quotients are exact
        values = np.clip(values, edges[0], edges[-1])
        places = np.floor(values / width)
        if width > 1:  # or quotients of numbers below 0 are below 0, too
            places[(places == 0) & (values < 0)] = -1
        places -= edges[0] / width
        return places.astype(np.intp)


@lru_cache(maxsize=64)
def _edges(cells):
    if cells.bounds is None:
        edges = _edges_of_floats()
    else:
        (low, high), n_cells = cells.bounds, cells.n_cells
        width = np.ldexp(1.0, int(np.ceil(np.log2((high - low) / n_cells))))
        while np.floor(high / width) - np.floor(low / width) >= n_cells:
            width *= 2
        edges = np.arange(np.floor(low / width), np.floor(high / width) + 1) * width
        if not (np.diff(edges) > 0).all():
            raise ValueError(f"Between the bounds {low} and {high} floats have no {n_cells} cells: choose fewer.")
    edges.setflags(write=False)
    return edges


def _edges_of_floats():
    parts = []
    for exponent in range(_LOWEST, _HIGHEST):
        steps = 2 ** (_FINE_BITS if exponent in _FINE else _BITS)
        parts.append(np.ldexp(1 + np.arange(steps) / steps, exponent))
    positive = np.concatenate(parts)
    return np.concatenate([-positive[::-1], [0.0, _LEAST], positive])  # with a cell that 0 has for itself


@lru_cache(maxsize=1)
def _tables():
    """Cells of all numbers that share leading bits, by these: of numbers above 0, of those below, and of 0."""
    keys = np.arange(_LEAST_KEY, _LEAST_KEY + (_HIGHEST - _LOWEST << _FINE_BITS) + 1)
    above, below = ((keys + side << _TRAILING).view(np.float64) for side in (0, 1))
    above[0] = _LEAST
    edges = _edges_of_floats()[1:]
    tables = [edges.searchsorted(numbers, side="right") for numbers in (above, -below, [0.0])]
    return np.stack(tables[:2]), tables[2][0]


@lru_cache(maxsize=64)
def coefficients(size):
    """Coefficients of the square root of prefix sums, ``binom(2k, k) / 4^k``, as multiples of 1 / 4096."""
    k = np.arange(1, size)
    exact = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k)))
    return np.rint(_UNIT * exact)


@lru_cache(maxsize=64)
def column_norm(size):
    """Norm of the first column of the matrix of these coefficients, the largest of all, rounded down to a 1 / 4096."""
    return float(np.floor(np.sqrt(np.sum(coefficients(size) ** 2))) / _UNIT)


@lru_cache(maxsize=64)
def column_norm_squared(size):
    """Square of the norm of the first column: exact, as a sum of squares of whole numbers below 2^53."""
    return float(np.sum(coefficients(size) ** 2)) / _UNIT**2


def half_sums(counts):
    """Multiply whole counts by the matrix C whose square are prefix sums; exact for fewer than 2^36 rows.

    Notes
    -----
    Sums of products of whole numbers are whole, so that what the Fourier transform rounds off is taken off again as
    long as it is below 1/2. Of transforms of 2^m numbers x and y it is below ``|x| |y|`` times ``((1 + e)^(3 m)
    (1 + sqrt(5) e)^(3 m + 1) (1 + b)^(3 m) - 1)``, e = 2^-53 and b of that size (C. Percival, "Rapid Multiplication
    modulo the Sum and Difference of Highly Composite Numbers", Math. Comp. 2003, Theorem 5.1). Digits below 2^12 of
    counts in 2^16 cells have norms below 2^20, coefficients below 2^13.1, which makes 2^-12; what is above the first
    digit of fewer than 2^36 counts has a norm below 2^24, and that makes 2^-8. Other orders of the same operations,
    and twiddle factors with more errors, have a factor of 100 and more to spare.
    """
    upper, lower = (np.rint(_convolve(coefficients, digits)) for digits in np.divmod(counts.astype(np.float64), _DIGIT))
    return (lower + _DIGIT * upper) / _UNIT  # below 2^48, in units of 1 / 4096: exact


def _convolve(series, values):
    """Convolve values with the first numbers of a series, and return as many."""
    n_points = _n_points(len(values))
    return fft.irfft(fft.rfft(values, n_points) * _transform(series, len(values)), n_points)[: len(values)]


@lru_cache(maxsize=8)
def _transform(series, size):
    return fft.rfft(series(size), _n_points(size))


def _n_points(size):
    return 2 ** int(np.ceil(np.log2(2 * size)))


@lru_cache(maxsize=16)
def _other_half(size):
    """Coefficients of the matrix that makes prefix sums of what C makes of counts."""
    given, inverse = coefficients(size) / _UNIT, np.ones(1)
    while len(inverse) < size:  # Newton's iteration for a reciprocal of a power series
        length = min(2 * len(inverse), size)
        error = -fftconvolve(given[:length], inverse)[:length]
        error[0] += 2
        inverse = fftconvolve(inverse, error)[:length]
    return np.cumsum(inverse)


def prefix_sums(halves):
    """Sums of the counts of the first cells, from noisy ``C counts``."""
    return _convolve(_other_half, halves)


@lru_cache(maxsize=64)
def noise_of_sums(size):
    """Largest standard deviation of noise on prefix sums, for noise of 1 on what is released."""
    return float(np.linalg.norm(_other_half(size)))
