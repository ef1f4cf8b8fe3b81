"""Public randomness: random projections that multiply any X and rebuild themselves from a seed.

A projection is ``x = W' u / divisor`` for each row u, with W of shape (n_features, n_components). W is public and
never whole in memory unless it is small. All arithmetic is in float64.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from sklearn.utils import gen_batches

from ._kernels import (
    SIGNS_OF_BYTE,
    bin_sums_of_dense,
    bin_sums_of_sparse,
    philox,
    product_with_signs,
    read_only,
    rows_of,
    uniform,
)

__all__ = ["Projection", "make_projection"]

_CACHED_ENTRIES = 2**22  # of a dense W: 32 MB in memory
_BLOCK_ENTRIES = 2**20
_CACHE_BYTES = 2**18
_BLOCK_BYTES = 2**20  # what a kernel writes and reads again
_ENTRIES_PER_PASS = 2**22  # of a wide X or its projection that share one pass over W, which is dear
_MAX_BLOCKS = 64  # of the features of a wide sparse X: each costs a pass over the output
_ROUND_UP = 1 + 2.0**-40  # norms bound sensitivities: what the sums in float64 may have lost goes on top


def make_projection(kind, n_features, n_components, random_state, *, density="auto", n_repeats=1):
    """Draw a public projection.

    Parameters
    ----------
    kind : {"rademacher", "gaussian", "uniform", "very_sparse", "identity", "oporp", "count_sketch"}
        Distribution of W.
    n_features, n_components : int
        Shape (p, k) of W. The identity has k = p.
    random_state : RandomState instance
        Draws the seed of the projection.
    density : "auto" or float, default="auto"
        Share 1 / s of nonzero entries of "very_sparse"; "auto" is 1 / sqrt(p).
    n_repeats : int, default=1
        Number of independent projections of n_components / n_repeats components each, side by side.

    Returns
    -------
    Projection

    Raises
    ------
    ValueError
        If `n_components` is not a multiple of `n_repeats`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.random_projection import make_projection
    >>> W = make_projection("oporp", 6, 2, np.random.RandomState(0))
    >>> W.project(np.ones((1, 6))).shape
    (1, 2)
    """
    if n_repeats > 1:
        if n_components % n_repeats:
            raise ValueError(f"n_components={n_components} is not a multiple of n_repeats={n_repeats}.")
        size = n_components // n_repeats
        parts = [make_projection(kind, n_features, size, random_state, density=density) for _ in range(n_repeats)]
        return StackedProjection(parts)
    if kind == "identity":
        return IdentityProjection(n_features, n_features, seed=0)
    # W is drawn from a seed of its own, and not from the state: it can be made again, and any rows of it alone.
    seed = int.from_bytes(random_state.bytes(16), "little")
    if kind == "very_sparse":
        density = n_features**-0.5 if density == "auto" else float(density)
        return VerySparseProjection(n_features, n_components, seed, density=density)
    return _KINDS[kind](n_features, n_components, seed)


class Projection(ABC):
    """A public matrix W of shape (n_features, n_components), given by its seed.

    Parameters
    ----------
    n_features, n_components : int
        Shape of W.
    seed : int
        128-bit key of the generator that W comes from.

    Attributes
    ----------
    divisor : float
        Normalisation of the projection, sqrt(n_components) for the dense and the sparse ones.
    max_entry : float
        Largest absolute entry of W.
    fourth_moment : float
        Expectation of the fourth power of an entry of W of variance 1; of a nonzero one for OPORP.
    """

    def __init__(self, n_features, n_components, seed):
        vars(self).update(n_features=n_features, n_components=n_components, seed=seed)

    def __setattr__(self, name, value):
        raise AttributeError("A projection cannot be changed: the noise of a sketch is calibrated for it.")

    def __delattr__(self, name):
        raise AttributeError("A projection cannot be changed: the noise of a sketch is calibrated for it.")

    def __repr__(self):
        return f"{type(self).__name__}{self.n_features, self.n_components}"

    def __getstate__(self):
        """Keep what defines W; what is computed from it comes back on use."""
        return {
            name: value
            for name, value in vars(self).copy().items()  # other threads may add to it
            if not isinstance(getattr(type(self), name, None), cached_property)
        }

    @property
    def divisor(self):
        """Normalisation sqrt(k) of ``x = W' u / sqrt(k)``."""
        return np.sqrt(self.n_components)

    @property
    def variance_factor(self):
        """Factor of the variance of an inner product that is due to the draw of W."""
        return 1 / self.n_components

    def project(self, X):
        """Multiply rows by W.

        Parameters
        ----------
        X : ndarray or CSR sparse of shape (n_rows, n_features)
            Rows. Entries of sparse ones are summed in the order in which they are stored.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_components)
            ``X @ W``, not divided by `divisor`; C-contiguous and fresh.

        Raises
        ------
        ValueError
            If X has another number of columns than W has rows.
        """
        self._check_width(X)
        return self._project_sparse(rows_of(X, slice(0, X.shape[0]))) if sp.issparse(X) else self._project_dense(X)

    def _check_width(self, X):
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the projection has {self.n_features}.")

    def project_blocks(self, X, slices):
        """Multiply rows by W, block by block.

        Parameters
        ----------
        X : ndarray or CSR sparse of shape (n_rows, n_features)
            Rows, of float32 or float64.
        slices : list of slice
            The blocks, both ends of each given and within X; of `rows_per_block` rows they fit the cache.

        Yields
        ------
        rows : slice
            The block.
        x : ndarray of float64, shape (n_rows of the block, n_components)
            ``X[rows] @ W``, free to be overwritten, which the next block may do too.
        """
        return ((rows, self.project(rows_of(X, rows))) for rows in slices)

    @abstractmethod
    def _project_sparse(self, X):
        """Multiply a CSR array of float64 by W."""

    @abstractmethod
    def _project_dense(self, X):
        """Multiply an array by W."""

    @abstractmethod
    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""

    @abstractmethod
    def row_norm(self, order):
        """Largest norm of a row W_i.

        Parameters
        ----------
        order : {1, 2}
            l1 or l2 norm.

        Returns
        -------
        float
        """

    def row_norm_within(self, components):
        """Largest l2 norm of a row W_i over some components, for each of several choices of them.

        Parameters
        ----------
        components : ndarray of bool, shape (n_choices, n_components)
            Which components count.

        Returns
        -------
        ndarray of float64, shape (n_choices,)
            Infinite where it is not computed: where W is too large to be kept, or `column_max` says as much.
        """
        return np.full(len(components), np.inf)

    def _largest_within(self, squares, components):
        """`row_norm_within` for the squared entries of W, in batches of bounded size."""
        batches = gen_batches(len(components), max(1, _BLOCK_ENTRIES // self.n_features))
        largest = [(squares @ components[batch].T.astype(np.float64)).max(axis=0) for batch in batches]
        return np.sqrt(np.concatenate(largest)) * _ROUND_UP

    def n_reached(self, n_nonzeros=1):
        """Number of components that so many features reach together, at most."""
        return self.n_components

    @property
    def _is_small(self):
        return self.n_features * self.n_components <= _CACHED_ENTRIES

    @abstractmethod
    def spectral_norm(self):
        """Largest l2 norm of ``W' u`` over the unit ball."""

    def norm_from_l2_to_l1(self):
        """Bound of the l1 norm of ``W' u`` over the unit ball of l2: the exact one is NP-hard to compute."""
        return np.sqrt(self.n_components) * self.spectral_norm() * _ROUND_UP

    @abstractmethod
    def column_max(self):
        """Largest absolute entry of each column w_j, shape (n_components,)."""


class IdentityProjection(Projection):
    """The data itself: W = I, k = p."""

    divisor = 1.0
    max_entry = 1.0
    fourth_moment = 1.0
    variance_factor = 0.0

    def n_reached(self, n_nonzeros=1):
        """Number of components that so many features reach together: one each."""
        return n_nonzeros

    def _project_sparse(self, X):
        return X.toarray(order="C")

    def _project_dense(self, X):
        # Makes -0.0 a 0.0, as sparse rows have none: what is computed of a row does not depend on how it is stored.
        return np.add(X, 0.0, dtype=np.float64, order="C")

    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""
        return max(1, _BLOCK_ENTRIES // self.n_features)

    def row_norm(self, order):
        """Largest norm of a row W_i."""
        return 1.0

    def spectral_norm(self):
        """Largest l2 norm of ``W' u`` over the unit ball."""
        return 1.0

    def column_max(self):
        """Largest absolute entry of each column w_j."""
        return np.ones(self.n_components)


class OPORPProjection(Projection):
    """One permutation and one random projection: each feature goes, with a random sign, to one of k equal bins.

    The p features, padded to a multiple of k, are permuted and cut into k bins of equal length; each bin is summed
    with Rademacher signs, in the order of the features. Zeros do not change a sum, so that dense and sparse rows have
    the same sums to the last bit.

    References
    ----------
    .. [1] P. Li and X. Li, "OPORP: One Permutation + One Random Projection", arXiv:2302.03505.
    """

    divisor = 1.0
    max_entry = 1.0
    fourth_moment = 1.0

    def __init__(self, n_features, n_components, seed):
        super().__init__(n_features, n_components, seed)
        # `code` has 31 bits for the place of a padded feature, and for twice its bin: they would wrap without a word.
        if n_components > 2**30 or n_components * self.bin_length >= 2**31:
            raise ValueError("OPORP has at most 2**30 components, and fewer than 2**31 features.")

    @property
    def bin_length(self):
        """Number of padded features in each bin."""
        return -(-self.n_features // self.n_components)

    @property
    def variance_factor(self):
        """Less than 1 / k by (P - k) / (P - 1), P the padded number of features: the bins are of equal length."""
        padded = self.n_components * self.bin_length
        return (padded - self.n_components) / (max(padded - 1, 1) * self.n_components)

    @cached_property
    def code(self):
        """``2 * bin + (sign < 0)`` of each feature, int32 of shape (n_features,)."""
        rng = np.random.Generator(np.random.Philox(key=self.seed))
        # Equal bins, and not a bin drawn for each feature: the variance is smaller, see `variance_factor`.
        position = rng.permutation(np.arange(self.n_components * self.bin_length, dtype=np.int32))[: self.n_features]
        code = position // np.int32(self.bin_length)
        code *= 2
        code += rng.integers(0, 2, self.n_features, dtype=np.uint8)
        return read_only(code)

    def _project_sparse(self, X):
        out = np.empty((X.shape[0], self.n_components))
        for rows, block in self.project_blocks(X, list(gen_batches(X.shape[0], self.rows_per_block(X)))):
            out[rows] = block
        return out

    _project_dense = _project_sparse

    def project_blocks(self, X, slices):
        """Multiply rows by W, block by block, in one workspace."""
        self._check_width(X)
        bin_sums = bin_sums_of_sparse if sp.issparse(X) else bin_sums_of_dense
        return bin_sums(X, slices, self.code, self.n_components)

    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""
        per_row = max(self.n_components, 2 * X.nnz // max(1, X.shape[0])) if sp.issparse(X) else self.n_features
        return max(1, _BLOCK_BYTES // (16 * per_row))

    def n_reached(self, n_nonzeros=1):
        """Number of components that so many features reach together, at most: one each."""
        return min(n_nonzeros, np.count_nonzero(self.column_max()))

    def row_norm(self, order):
        """Largest norm of a row W_i."""
        return 1.0

    def spectral_norm(self):
        """Root of the number of features in the fullest bin, padding left out."""
        return np.sqrt(np.bincount(self.code >> 1).max()) * _ROUND_UP

    def norm_from_l2_to_l1(self):
        """Largest l1 norm of ``W' u`` over the unit ball of l2: bins share no feature."""
        return np.sqrt(self.n_features) * _ROUND_UP

    def column_max(self):
        """Largest absolute entry of each column w_j."""
        return np.ones(self.n_components)


class CountSketchProjection(OPORPProjection):
    """A count-sketch with bins of variable length: each feature goes to a bin of its own choice, with a random sign.

    A change moves it as it moves :class:`OPORPProjection`, but bins of unequal length have a larger variance: see
    `variance_factor`.

    References
    ----------
    .. [1] M. Charikar, K. Chen and M. Farach-Colton, "Finding Frequent Items in Data Streams", Theoretical Computer
       Science 312, 2004.
    """

    @property
    def variance_factor(self):
        """Factor of the variance of an inner product that is due to the draw of W."""
        return 1 / self.n_components

    @cached_property
    def code(self):
        """``2 * bin + (sign < 0)`` of each feature, int32 of shape (n_features,)."""
        rng = np.random.Generator(np.random.Philox(key=self.seed))
        return read_only(rng.integers(0, 2 * self.n_components, self.n_features, dtype=np.int32))

    def column_max(self):
        """Largest absolute entry of each column w_j: bins may be empty."""
        return np.minimum(np.bincount(self.code >> 1, minlength=self.n_components), 1.0)


class StackedProjection(Projection):
    """Independent projections of the same features, side by side."""

    def __init__(self, parts):
        super().__init__(parts[0].n_features, sum(part.n_components for part in parts), seed=None)
        vars(self).update(parts=tuple(parts))

    @property
    def divisor(self):
        """Normalisation of the parts, times sqrt(n_repeats)."""
        # An inner product of the whole is then the mean of those of the parts.
        return self.parts[0].divisor * np.sqrt(len(self.parts))

    @property
    def fourth_moment(self):
        """That of the parts."""
        return self.parts[0].fourth_moment

    @property
    def variance_factor(self):
        """That of the parts over their number: the estimate is their mean."""
        return self.parts[0].variance_factor / len(self.parts)

    @property
    def max_entry(self):
        """Largest absolute entry of any part."""
        return max(part.max_entry for part in self.parts)

    def _project_sparse(self, X):
        return np.hstack([part.project(X) for part in self.parts])

    _project_dense = _project_sparse

    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""
        return min(part.rows_per_block(X) for part in self.parts)

    def n_reached(self, n_nonzeros=1):
        """Bound: the features that reach most components of each part need not be the same."""
        return sum(part.n_reached(n_nonzeros) for part in self.parts)

    def row_norm(self, order):
        """Bound: the largest rows of the parts need not belong to one feature."""
        return float(np.linalg.norm([part.row_norm(order) for part in self.parts], order))

    def spectral_norm(self):
        """Bound: the parts need not be largest at one row."""
        return float(np.linalg.norm([part.spectral_norm() for part in self.parts])) * _ROUND_UP

    def norm_from_l2_to_l1(self):
        """Bound: the parts need not be largest at one row."""
        return sum(part.norm_from_l2_to_l1() for part in self.parts) * _ROUND_UP

    def column_max(self):
        """Largest absolute entry of each column w_j."""
        return np.concatenate([part.column_max() for part in self.parts])


class VerySparseProjection(Projection):
    """Entries ``sqrt(s) * {-1 with probability 1/(2s), 0, +1 with probability 1/(2s)}``, density = 1/s.

    References
    ----------
    .. [1] P. Li, T. Hastie and K. Church, "Very Sparse Random Projections", KDD 2006.
    """

    def __init__(self, n_features, n_components, seed, *, density):
        super().__init__(n_features, n_components, seed)
        vars(self).update(density=density)

    @property
    def max_entry(self):
        """The only absolute value of a nonzero entry, sqrt(s)."""
        return self.density**-0.5

    @property
    def fourth_moment(self):
        """Expectation of the fourth power of an entry, s."""
        return 1 / self.density

    @property
    def matrix(self):
        """W as a CSR array of its own, whose entries are not to be written to."""
        return sp.csr_array((self._matrix.data, self._matrix.indices, self._matrix.indptr), shape=self._matrix.shape)

    @cached_property
    def _matrix(self):
        """W: the gaps between nonzero entries are geometric."""
        rng = np.random.Generator(np.random.Philox(key=self.seed))
        size = self.n_features * self.n_components
        # So many gaps pass `size` except with probability below 1e-40.
        n_gaps = int(size * self.density + 14 * np.sqrt(size * self.density) + 100)
        gaps = np.minimum(rng.geometric(self.density, n_gaps), size + 1)  # or their sum would overflow
        # Entries are numbered row by row of W: one step of the walk for each that is not zero.
        position = np.cumsum(gaps) - 1
        position = position[: np.searchsorted(position, size)]
        value = self.max_entry * rng.choice(np.array([-1.0, 1.0]), len(position))
        start = np.searchsorted(position, np.arange(0, size + 1, self.n_components))
        shape = (self.n_features, self.n_components)
        return read_only(sp.csr_array((value, position % self.n_components, start), shape=shape))

    @cached_property
    def _transpose(self):
        return read_only(self._matrix.T.tocsr())

    def _project_dense(self, X):
        # Faster than ``X @ W`` on blocks that fit the cache.
        return np.ascontiguousarray((self._transpose @ X.astype(np.float64, copy=False).T).T)

    def _project_sparse(self, X):
        return (X @ self._matrix).toarray()

    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""
        return 1024 if sp.issparse(X) else max(1, _CACHE_BYTES // (8 * self.n_features))

    def n_reached(self, n_nonzeros=1):
        """Largest number of nonzeros in a row W_i for each feature, up to all components that any feature reaches."""
        largest = int(np.diff(self._matrix.indptr).max())
        return min(n_nonzeros * largest, np.count_nonzero(np.bincount(self._matrix.indices)))

    def row_norm(self, order):
        """Largest norm of a row W_i."""
        return self.max_entry * float(self.n_reached()) ** (1 / order) * _ROUND_UP

    def row_norm_within(self, components):
        """Largest l2 norm of a row W_i over some components, infinite if W is large."""
        return (
            self._largest_within(self._matrix**2, components) if self._is_small else super().row_norm_within(components)
        )

    def spectral_norm(self):
        """Largest l2 norm of ``W' u`` over the unit ball."""
        return _root_of_largest_eigenvalue((self._transpose @ self._matrix).toarray())

    def column_max(self):
        """Largest absolute entry of each column w_j."""
        return self.max_entry * (np.diff(self._transpose.indptr) > 0)


class DenseProjection(Projection):
    """A matrix of independent entries, made on demand by a counter-based generator.

    Row i of W comes from the counters that start with i, so any rows can be made alone.
    """

    @property
    def _words_per_row(self):
        """Random 64-bit words that make one row of W."""
        return self.n_components

    @staticmethod
    @abstractmethod
    def _entries(words):
        """Map words of shape (n_rows, words per row) to entries of W."""

    @cached_property
    def matrix(self):
        """W whole, float64 of shape (n_features, n_components)."""
        return read_only(self.rows(np.arange(self.n_features)))

    def rows(self, features):
        """Make the rows of W of some features, which are sorted."""
        return self._entries(self._words(features)[:, : self._words_per_row])[:, : self.n_components]

    def _words(self, features):
        return philox(features, -(-self._words_per_row // 2), self.seed)

    def _blocks(self):
        """W in blocks of rows that together hold about 8 MB of float64 at a time."""
        if self._is_small:
            return [self.matrix]
        batches = gen_batches(self.n_features, max(1, _BLOCK_ENTRIES // self.n_components))
        return (self.rows(np.arange(batch.start, batch.stop)) for batch in batches)

    def _project_dense(self, X):
        if self._is_small:
            return X.astype(np.float64, copy=False) @ self.matrix
        out, start = np.zeros((X.shape[0], self.n_components)), 0
        for block in self._blocks():
            stop = start + len(block)
            out += X[:, start:stop].astype(np.float64) @ block
            start = stop
        return out

    def _project_sparse(self, X):
        """Sort the entries by feature, and make the rows of W in use block by block."""
        if self._is_small:
            return X @ self.matrix
        # Only the rows of W that some row of X uses are made.
        features, rank = np.unique(X.indices, return_inverse=True)
        columns = sp.csr_array((X.data, rank, X.indptr), shape=(X.shape[0], len(features))).tocsc()
        out = np.zeros((X.shape[0], self.n_components))
        # Blocks at fixed places: if they moved with the features in use, one row would change the rounding of another.
        size = max(_BLOCK_ENTRIES // self.n_components, self.n_features // _MAX_BLOCKS, 1)
        ends = np.append(np.flatnonzero(np.diff(features // size)) + 1, len(features))
        for start, stop in pairwise([0, *ends] if len(features) else []):
            out += columns[:, start:stop] @ self.rows(features[start:stop])
        return out

    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""
        if not self._is_small:
            entries = max(X.nnz, X.shape[0] * self.n_components) if sp.issparse(X) else X.shape[0] * 1024
            return max(1, X.shape[0] * _ENTRIES_PER_PASS // max(entries, 1))
        # Fewer rows than 64 would leave the product of matrices idle.
        return max(64, _BLOCK_ENTRIES // max(self.n_components, 1 if sp.issparse(X) else self.n_features))

    def row_norm(self, order):
        """Largest norm of a row W_i."""
        return max(np.linalg.norm(block, order, axis=1).max() for block in self._blocks()) * _ROUND_UP

    def row_norm_within(self, components):
        """Largest l2 norm of a row W_i over some components, infinite if W is large."""
        return (
            self._largest_within(self.matrix**2, components) if self._is_small else super().row_norm_within(components)
        )

    def spectral_norm(self):
        """Largest l2 norm of ``W' u`` over the unit ball."""
        return _root_of_largest_eigenvalue(sum(block.T @ block for block in self._blocks()))

    def column_max(self):
        """Largest absolute entry of each column w_j."""
        return np.max([np.abs(block).max(axis=0) for block in self._blocks()], axis=0)


class RademacherProjection(DenseProjection):
    """Entries -1 and +1 with equal probability."""

    max_entry = 1.0
    fourth_moment = 1.0

    @property
    def _words_per_row(self):
        return -(-self.n_components // 64)

    def _project_sparse(self, X):
        if self._is_small:
            return super()._project_sparse(X)
        few, n_bytes = max(1, _BLOCK_ENTRIES // (8 * self.n_components)), -(-self.n_components // 8)
        return product_with_signs(
            X, lambda features: self._words(features).view(np.uint8)[:, :n_bytes], self.n_components, few
        )

    def rows_per_block(self, X):
        """How many rows of X `project_blocks` handles best at a time."""
        if sp.issparse(X) and not self._is_small:  # each row makes its own rows of W: there is no pass to share
            return max(1, _BLOCK_ENTRIES // (8 * self.n_components))
        return super().rows_per_block(X)

    @staticmethod
    def _entries(words):
        return np.take(SIGNS_OF_BYTE, np.ascontiguousarray(words).view(np.uint8), axis=0).reshape(len(words), -1)

    def row_norm(self, order):
        """Largest norm of a row W_i."""
        return float(self.n_components) if order == 1 else np.sqrt(self.n_components)

    row_norm_within = Projection.row_norm_within  # the root of the number of components, as `column_max` says

    def column_max(self):
        """Largest absolute entry of each column w_j."""
        return np.ones(self.n_components)


class GaussianProjection(DenseProjection):
    """Standard normal entries."""

    max_entry = 8.3  # beyond the quantile of 2**-53, the smallest probability that a word gives
    fourth_moment = 3.0

    @staticmethod
    def _entries(words):
        return ndtri(uniform(words))


class UniformProjection(DenseProjection):
    """Entries uniform on [-sqrt(3), sqrt(3)], of variance 1."""

    max_entry = np.sqrt(3)
    fourth_moment = 1.8

    @staticmethod
    def _entries(words):
        return np.sqrt(3) * (2 * uniform(words) - 1)


def _root_of_largest_eigenvalue(gram):
    return np.sqrt(np.linalg.eigvalsh(gram)[-1]) * _ROUND_UP


_KINDS = {
    "rademacher": RademacherProjection,
    "gaussian": GaussianProjection,
    "uniform": UniformProjection,
    "oporp": OPORPProjection,
    "count_sketch": CountSketchProjection,
}
