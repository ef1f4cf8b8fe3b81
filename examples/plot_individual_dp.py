"""
Individual DP is not DP
=======================

:class:`~skdprp.iDPSignRP` releases most signs of a projection as they are, and randomises only those that a change of
the row could flip. At small epsilon its sketches are far more useful than those of any differentially private sketch.
This example shows the price: a single bit can tell with certainty that a row is not the one that an attacker suspected.
"""

# %%
# Rows u and v differ in one coordinate by ``max_change``. An attacker knows both rows and the projection, and wants to
# know which row was sketched. We make many sketches of each row to estimate the probabilities of their bits.
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
# In the left panel, each bit has nearly the same probability for both rows: the odds of a bit differ by a factor of at
# most exp(epsilon / 16), and those of all bits together by at most exp(epsilon). In the right panel, some bits are
# always negative or always positive for one row, and random for the other. If such a bit has the sign that is
# impossible for the first row, the sketch is of the second row.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for ax, (name, (of_u, of_v)) in zip(axes, shares.items(), strict=True):
    ax.bar(np.arange(n_components) - 0.2, of_u, width=0.4, color="#0077BB", label="row u")
    ax.bar(np.arange(n_components) + 0.2, of_v, width=0.4, color="#EE7733", label="its neighbour")
    ax.set(title=f"{name}, epsilon = 1, l1 change of 1", xlabel="bit", ylim=(0, 1))
axes[0].set_ylabel("probability of a positive sign")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)

# %%
of_u, of_v = shares["iDPSignRP"]
fixed = ((of_u == 0) | (of_u == 1)) & (of_v > 0.01) & (of_v < 0.99)
print("bits that are certain for u and not for its neighbour:", np.flatnonzero(fixed))

# %%
# So the printed guarantee has another name, and states its limits:
print(individual.guarantee_)
