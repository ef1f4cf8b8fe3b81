"""
Individual DP is not DP
=======================

:class:`~skdprp.iDPSignRP` releases most signs of a projection untouched and adds noise only where a change of the row
could flip them. Its sketches are far more useful at small epsilon than those of any private sketch. This example shows
what is given up for it: one look at one bit can rule a candidate out with certainty.
"""

# %%
# Two rows that differ in one coordinate by ``max_change``. An attacker knows both, and the projection, and wants to
# know which of them was sketched. We watch many sketches of each, in order to see the probabilities.
import matplotlib.pyplot as plt
import numpy as np

from skdprp import DPSignRP, iDPSignRP

n_components, n_trials = 16, 4000
u = np.full(64, 0.4)
v = u.copy()
v[0] -= 1.0


def plus_probability(sketch, row):
    """Share of sketches of one row with a positive sign, for each bit."""
    return np.mean(sketch.transform(np.tile(row, (n_trials, 1))) > 0, axis=0)


public = {"epsilon": 1.0, "max_change": 1.0, "random_state": 1}
private, individual = (kind(n_components, **public).fit([u]) for kind in (DPSignRP, iDPSignRP))
shares = {type(s).__name__: [plus_probability(s, u), plus_probability(s, v)] for s in (private, individual)}

# %%
# Left, the probabilities of the two rows are nearly the same for every bit: their odds differ by a factor of
# exp(epsilon / 16) at most, and all bits together by exp(epsilon). Right, there are bits that are always negative, or
# always positive, for one row and random for the other: an impossible sign tells them apart.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for ax, (name, (of_u, of_v)) in zip(axes, shares.items(), strict=True):
    ax.bar(np.arange(n_components) - 0.2, of_u, width=0.4, color="#0077BB", label="row u")
    ax.bar(np.arange(n_components) + 0.2, of_v, width=0.4, color="#EE7733", label="its neighbour")
    ax.set(title=f"{name}, epsilon = 1", xlabel="bit", ylim=(0, 1))
axes[0].set_ylabel("probability of a positive sign")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)

# %%
of_u, of_v = shares["iDPSignRP"]
fixed = ((of_u == 0) | (of_u == 1)) & (of_v > 0.01) & (of_v < 0.99)
print("bits that are certain for u and not for its neighbour:", np.flatnonzero(fixed))

# %%
# So the library prints another name, and says what the guarantee is about.
print(individual.guarantee_)
