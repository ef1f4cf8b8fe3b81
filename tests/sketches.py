"""What the tests of sketches share: sketches of every kind, and the exact loss of bits."""

import re
from copy import copy
from fractions import Fraction
from functools import cache
from math import prod

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, iDPSignRP, random_projection
from skdprp.random_projection import DenseProjection, make_projection

wide = pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataDimensionalityWarning")
MARGIN = 1 + 2.0**-10
WHOLE = 2**64
KINDS = re.findall(r"\w+", re.search(r"kind : \{(.*)\}", make_projection.__doc__)[1])  # of projections
DENSE = [kind for kind in KINDS if issubclass(random_projection._KINDS.get(kind, object), DenseProjection)]
EVERY = [
    DPRandomProjection(4, random_state=0),
    DPRandomProjection(4, projection="gaussian", noise="laplace", random_state=0),
    DPOPORP(4, random_state=0),
    DPSignRP(4, random_state=0),
    DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=1.0, max_change=0.1, random_state=0),
    DPSignRP(4, method="laplace", delta=1e-3, random_state=0),
    DPSignOPORP(4, random_state=0),
    DPSignOPORP(4, method="rr", n_repeats=2, random_state=0),
    DPSignOPORP(4, adjacency="l1", random_state=0),
    DPSignOPORP(4, adjacency="l2", n_repeats=2, random_state=0),
    iDPSignRP(4, random_state=0),
    iDPSignRP(4, method="rr", projection="oporp", random_state=0),
]
every = pytest.mark.parametrize("sketch", EVERY, ids=repr)


def offered(kind):
    """Projections that a class of sketches has as options."""
    return sorted(option for one in kind._parameter_constraints.get("projection", ()) for option in one.options)


def projection_matrix(projection):
    """W whole, by multiplying the identity."""
    return projection.project(np.eye(projection.n_features))


def probability_of_plus(state, thresholds):
    """Out of 2**64, for a bit of the given sign times level."""
    flipped = int(thresholds[abs(state)])
    return WHOLE - flipped if state > 0 else flipped


def exact_losses(before, after, thresholds):
    """Twice 2**-100 of the worst log-ratio of each pair of rows, as Python integers rounded up."""

    @cache
    def loss(a, b):
        p, q = probability_of_plus(a, thresholds), probability_of_plus(b, thresholds)
        with mpmath.workdps(50):
            worst = max(mpmath.log(mpmath.mpf(p) / q), mpmath.log(mpmath.mpf(WHOLE - p) / (WHOLE - q)))
            return int(mpmath.ceil(worst * 2**100))

    def total(first, second):
        return max(
            sum(loss(int(a), int(b)) for a, b in zip(u[u != v], v[u != v], strict=True))
            for u, v in zip(first, second, strict=True)
        )

    return Fraction(max(total(before, after), total(after, before)), 2**100)


def exact_losses_of_bits(before, after):
    """Largest loss of pairs of rows, in either order: by how often of 2**64 times each bit is +1."""

    def worst(u, v):
        # Of two probabilities p and q of +1 the worse event has p / q, or (1 - p) / (1 - q): exact in integers.
        p, q = u[u != v], v[u != v]
        return mpmath.mpf(prod(np.where(p > q, p, WHOLE - p))) / prod(np.where(p > q, q, WHOLE - q))

    u, v = np.vstack([before, after]), np.vstack([after, before])
    events = (np.where(u > v, one, WHOLE - one).astype(float) for one in (u, v))
    losses = np.subtract(*map(np.log, events)).sum(axis=1)  # to some 13 digits, which leave few that may be the largest
    largest = losses >= losses.max() - 1e-9 * max(1.0, losses.max())
    with mpmath.workdps(50):
        return mpmath.log(max(worst(*pair) for pair in zip(u[largest], v[largest], strict=True)))


def binomial_sketch(**options):
    parameters = {"method": "rr", "projection": "gaussian", "delta": 1e-6, "min_norm": 1.0, "max_change": 0.1}
    return DPSignRP(256, **(parameters | options)).fit(np.ones((1, 1000)))


ADDITIVE = [
    *[DPRandomProjection(6, projection=kind, random_state=0) for kind in offered(DPRandomProjection)],
    DPOPORP(6, random_state=0),
    DPOPORP(5, noise="laplace", adjacency="l2", random_state=0),
]
VARIANTS = {
    "Raw-data-G-OPT": DPRandomProjection(projection="identity"),
    "DP-RP-G": DPRandomProjection(8, projection="gaussian", calibration="kenthapadi"),
    "Analytic DP-RP-G": DPRandomProjection(8, projection="gaussian", calibration="kenthapadi_bound"),
    "Analytic DP-RP-G, exact": DPRandomProjection(8, projection="gaussian", calibration="analytic_bound"),
    "DP-RP-G-OPT": DPRandomProjection(8, projection="gaussian"),
    "DP-RP-G-OPT-B": DPRandomProjection(8),
    "DP-RP-L": DPRandomProjection(8, projection="gaussian", noise="laplace"),
    "DP-OPORP": DPOPORP(8),
    "count-sketch": DPRandomProjection(8, projection="count_sketch"),
    "DP-SignRP-RR": DPSignRP(8, method="rr"),
    "DP-SignRP-RR, least norm": DPSignRP(8, method="rr", projection="gaussian", min_norm=1.0, delta=1e-6),
    "DP-SignRP-RR-smooth": DPSignRP(8),
    "DP-SignRP with delta": DPSignRP(8, delta=1e-6),
    "DP-RP-L's signs": DPSignRP(8, method="laplace", projection="gaussian"),
    "DP-SignRP-RR-smooth, s = 3": DPSignRP(8, projection="very_sparse", density=1 / 3),
    "DP-SignOPORP-RR": DPSignOPORP(8, method="rr"),
    "DP-SignOPORP-RR-smooth": DPSignOPORP(8),
    "DP-SignOPORP-RR-smooth, repeated": DPSignOPORP(8, n_repeats=4),
    "DP-OPORP's signs": DPSignOPORP(8, adjacency="l1", n_repeats=4),
    "iDP-SignRP-G": iDPSignRP(8),
    "iDP-SignRP-G, s = 3": iDPSignRP(8, projection="very_sparse", density=1 / 3),
    "iDP-SignRP-RR": iDPSignRP(8, method="rr"),
    "iDP-SignOPORP-G": iDPSignRP(8, projection="oporp"),
    "iDP-SignOPORP-RR": iDPSignRP(8, method="rr", projection="oporp"),
}


def computed(sketch, X):
    """What a sketch computes of rows before it draws any noise."""
    seen, sketch = [], copy(sketch)

    def randomise(x):
        seen.append(x.copy())
        return type(sketch)._randomise(sketch, x)

    sketch._randomise = randomise
    sketch.transform(X)
    return np.vstack(seen)


def with_entries(form, data, row, column, shape):
    """Sparse rows with entries as they are given, which scipy would sum."""
    if form is sp.coo_array:
        return form((data, (row, column)), shape=shape)
    inner, outer, size = (row, column, shape[1]) if form is sp.csc_array else (column, row, shape[0])
    order = np.argsort(outer, kind="stable")
    return form((data[order], inner[order], np.searchsorted(outer[order], np.arange(size + 1))), shape=shape)


def with_entries_twice(X, form=sp.csr_array):
    """Rows with each number as a sum of three, far larger or of no sense in their own type; truths are there twice."""
    X = sp.coo_array(X)
    large = np.full(X.nnz, 100 if X.dtype.itemsize == 1 else 2**60, X.dtype)
    parts = [X.data, X.data] if X.dtype == bool else [large, X.data, -large]
    row, column = (np.tile(index, len(parts)) for index in (X.row, X.col))
    return with_entries(form, np.concatenate(parts), row, column, X.shape)
