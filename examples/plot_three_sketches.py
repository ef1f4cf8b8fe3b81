"""
Three sketches side by side
===========================

This example compares a dense random projection, a sparse one (OPORP) and the signs of OPORP, all with 256 components
and the same epsilon: how accurately they estimate the similarity of two rows, and how long they take.
"""

# %%
# The rows have 4096 dimensions and norm 1, and come in pairs with random angles between them. The unit of privacy is a
# change of one coordinate by 0.1.
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
# Sketches of numbers are compared by their cosine, and bits by the share of bits that agree.
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
fig.suptitle("unit of privacy: one coordinate changed by 0.1")

# %%
# Noise on numbers makes the estimated cosines too small, because it increases the norm of each sketch, but not the
# inner product of two. (:func:`~skdprp.similarity.squared_distances` and similar functions correct for that.) A bit
# contains little information at any epsilon, but needs little noise: a change of 0.1 can only flip the sign of a sum
# that is near zero. So bits are more accurate at small epsilon, and numbers at large epsilon. OPORP is as accurate as
# the dense projection, in a fraction of the time.
