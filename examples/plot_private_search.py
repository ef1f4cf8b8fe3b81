"""
Nearest-neighbour search on sketches
====================================

A data holder publishes one sketch of each row. Anybody may then search them; whoever sends a query sketches it with the
same public projection and noise of their own.
"""

# %%
# The projection is public: both sides get it from the same ``random_state``.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdprp import DPOPORP, DPSignOPORP
from skdprp.similarity import cosines, hamming_distances

X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
database, queries, labels, wanted = train_test_split(X, y, test_size=300, random_state=0, stratify=y)


def precision_at_10(similarity):
    """Share of the ten nearest rows that show the digit of the query."""
    nearest = np.argsort(-similarity, axis=1)[:, :10]
    return np.mean(labels[nearest] == wanted[:, None])


def search_real(epsilon):
    """Search by cosine on noisy projections."""
    sketch = DPOPORP(64, epsilon=epsilon, random_state=0).fit(database)
    return precision_at_10(cosines(sketch.transform(queries), sketch.transform(database)))


def search_bits(epsilon):
    """Search by Hamming distance on packed bits: eight bytes a row."""
    sketch = DPSignOPORP(64, epsilon=epsilon, output="packed", random_state=0).fit(database)
    return precision_at_10(-hamming_distances(sketch.transform(queries), sketch.transform(database)))


epsilons = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
fig, ax = plt.subplots(layout="constrained")
ax.plot(epsilons, [search_real(epsilon) for epsilon in epsilons], marker="o", label="DPOPORP, 64 numbers")
ax.plot(epsilons, [search_bits(epsilon) for epsilon in epsilons], marker="s", label="DPSignOPORP, 64 bits")
ax.axhline(precision_at_10(cosines(queries, database)), color="black", linestyle="--", label="not private")
ax.axhline(0.1, color="grey", linestyle=":", label="chance")
ax.set(xscale="log", xlabel="epsilon of one row", ylabel="precision at 10", ylim=(0, 1))
fig.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What was released, in full.
print(DPSignOPORP(64, epsilon=5.0, output="packed", random_state=0).fit(database).guarantee_)
