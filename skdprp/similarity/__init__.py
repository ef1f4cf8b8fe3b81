"""Inner products, distances, angles and neighbours of rows from their private sketches, with the noise accounted for.

Everything here is computed from released sketches and public parameters only, which costs no privacy, but for
:func:`inner_product_variance` and :func:`cosine_variance`: they take the rows themselves, and what they return tells of
them. Estimates of inner
products, squared norms, squared distances and angles are unbiased, so they may fall outside the range of the true
value. All compare *different* rows, whose sketches have noise of their own: a sketch compared with itself shares its
noise, and only :func:`squared_norms` accounts for that. Both sides need the same projection: the same fitted estimator,
or the same integer `random_state`. Lazy sketches, those of dask collections, have to be computed first.
"""

from ._estimates import (
    angle_variance,
    angles,
    best_n_components,
    best_n_repeats,
    bit_correlation,
    cosine_variance,
    cosines,
    hamming_distances,
    inner_product_variance,
    inner_products,
    squared_distances,
    squared_norms,
)
from ._neighbors import SketchNeighbors
from ._search import HammingNeighbors

__all__ = [
    "HammingNeighbors",
    "SketchNeighbors",
    "angle_variance",
    "angles",
    "best_n_components",
    "best_n_repeats",
    "bit_correlation",
    "cosine_variance",
    "cosines",
    "hamming_distances",
    "inner_product_variance",
    "inner_products",
    "squared_distances",
    "squared_norms",
]
