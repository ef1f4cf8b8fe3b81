"""
Regression with protected entries
=================================

:class:`~skdprp.MIDPRegressor` protects single entries of X, and its epsilon is in bits: somebody who knows y and all
other entries learns at most epsilon bits about an entry. The target y has no protection. There are two mechanisms, and
the number of rows decides which is more accurate.
"""

# %%
# The rows have five features between -1 and 1. The target is a linear function of them plus noise.
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
# The mechanism ``"additive"`` adds noise to each entry, which shrinks the coefficients by the same factor for any
# number of rows. The mechanism ``"projection"`` releases random combinations of all rows with noise. It shrinks
# the coefficients less the more rows the table has.
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
# One bit is a weak guarantee: it may fully reveal a yes-or-no entry. The guarantee translates epsilon = 0.2 into what
# an attacker can find out about one entry.
model = MIDPRegressor(epsilon=0.2).fit(X, y)
print(model.guarantee_)
