"""
Regression with protected entries
=================================

:class:`~skdprp.MIDPRegressor` protects single entries of the table, in bits: somebody who knows everything else learns
at most epsilon bits about an entry. The target y has no protection. There are two mechanisms; which is better depends
on how many rows there are.
"""

# %%
# Rows in the cube from -1 to 1, five features, and a target with some noise of its own.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from skdprp import MIDPRegressor

rng = np.random.default_rng(0)
weights = np.array([1.0, -1.0, 0.5, 0.0, 0.25])


def table(n_samples):
    """Draw rows and targets."""
    X = rng.uniform(-1, 1, (n_samples, 5))
    return X, X @ weights + 0.3 * rng.normal(size=n_samples)


# %%
# Additive noise shrinks the coefficients by the same factor however many rows there are; a secret projection to few
# rows needs noise that does not grow with the table, so that its shrinkage fades as the table grows.
X_test, y_test = table(20_000)
epsilons = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
for ax, n_samples in zip(axes, (300, 3000, 30_000), strict=True):
    X, y = table(n_samples)
    for mechanism, style in (("projection", "o-"), ("additive", "s--")):
        scores = [
            [MIDPRegressor(epsilon=epsilon, mechanism=mechanism).fit(X, y).score(X_test, y_test) for _ in range(5)]
            for epsilon in epsilons
        ]
        ax.errorbar(epsilons, np.mean(scores, axis=1), np.std(scores, axis=1), fmt=style, capsize=3, label=mechanism)
    ax.axhline(LinearRegression().fit(X, y).score(X_test, y_test), color="0.3", linestyle="--", label="not private")
    ax.set(xscale="log", title=f"{n_samples} rows", xlabel="bits about an entry", ylim=(-0.1, 1))
    ax.xaxis.set_major_formatter("{x:g}")
axes[0].set_ylabel("R² on other rows")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)

# %%
# A bit is a lot. The guarantee translates it into what an attacker can do with one entry.
model = MIDPRegressor(epsilon=0.2).fit(X, y)
print(model.guarantee_)
