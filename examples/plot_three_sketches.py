"""
Three sketches side by side
===========================

A dense random projection, a sparse one (OPORP) and its signs, all at 256 components and the same epsilon: how well do
they keep the similarity of two rows, and how long do they take?
"""

# %%
# Rows on the unit sphere of 4096 dimensions, in pairs of every angle. One coordinate may change by 0.1: that is the
# unit of privacy.
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP
from skdprp.similarity import cosines, hamming_distances

rng = np.random.default_rng(0)
n_pairs, n_features, k = 400, 4096, 256
angle = rng.uniform(0, np.pi, n_pairs)
U = rng.normal(size=(n_pairs, n_features))
U /= np.linalg.norm(U, axis=1, keepdims=True)
V = rng.normal(size=(n_pairs, n_features))
V -= np.sum(U * V, axis=1, keepdims=True) * U
V /= np.linalg.norm(V, axis=1, keepdims=True)
V = np.cos(angle)[:, None] * U + np.sin(angle)[:, None] * V

# %%
# Real sketches compare by the cosine, bits by the share that agree.
public = {"max_change": 0.1, "random_state": 0}


def compare(sketch):
    """Return the estimated cosine of each pair, and the seconds that two calls of transform took."""
    sketch.fit(U)
    start = perf_counter()
    S, T = sketch.transform(U), sketch.transform(V)
    seconds = perf_counter() - start
    if S.dtype == np.int8:
        return np.cos(np.pi * np.diag(hamming_distances(S, T)) / k), seconds
    return np.diag(cosines(S, T)), seconds


sketches = [DPRandomProjection, DPOPORP, DPSignOPORP]
fig, axes = plt.subplots(2, 3, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for row, epsilon in zip(axes, (10.0, 100.0), strict=True):
    for ax, kind in zip(row, sketches, strict=True):
        estimate, seconds = compare(kind(k, epsilon=epsilon, **public))
        ax.plot([-1, 1], [-1, 1], color="0.6", linewidth=1)
        ax.plot(np.cos(angle), estimate, ".", markersize=3)
        ax.set_title(f"{kind.__name__}, epsilon = {epsilon:g}", fontsize="medium")
        error = np.sqrt(np.mean((estimate - np.cos(angle)) ** 2))
        print(f"{kind.__name__:<20} epsilon {epsilon:>5g}  error {error:.3f}  {1000 * seconds:6.1f} ms")
fig.supxlabel("cosine of two rows")
fig.supylabel("cosine estimated from their sketches")

# %%
# Noise on sums shrinks the cosines: it adds to the length of every sketch, and not to the agreement of two
# (:func:`~skdprp.similarity.squared_distances` and the like take that off where it matters). Bits cannot say more than
# one of two things however large epsilon is, but need little noise: of the sums of 16 coordinates, a change of one by
# 0.1 can turn the sign of those near zero only. So bits win at small epsilon, and numbers where the noise is small.
# OPORP keeps as much as the dense projection, in a fraction of its time.
