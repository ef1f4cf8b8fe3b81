"""
Tuning done wrong: what a search over a private model costs
===========================================================

``GridSearchCV`` over a private classifier fits it for each candidate and fold, and once more in the end. Each fit is a
release, so the search costs the sum of the epsilons of all fits that a row is in, and not the ``epsilon`` of one fit.
And it chooses the best candidate by held-out rows without any noise.
"""

# %%
# The search has three candidates for ``max_norm``, four folds and the refit, which makes thirteen fits. Each row is
# held out in one fold of four, so it is in ten of these fits, and their epsilons add up. This holds only if the split
# depends on the positions of rows alone, so that changing a row moves no other row to another fold. ``cv=4`` would
# split by labels here (stratified).
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

from skdprp import AMPClassifier, DPSearchCV, DPSignOPORP, privacy_report

X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
grid = {"max_norm": [1.0, 2.0, 4.0]}
n_releases = len(grid["max_norm"]) * 3 + 1


def default(epsilon):
    """Return the accuracy of the defaults, which do not depend on the rows."""
    model = AMPClassifier(epsilon=epsilon, max_norm=4.0, classes=range(10))
    return model.fit(X_train, y_train).score(X_test, y_test)


def search(epsilon):
    """Search with this epsilon in each of the fits."""
    model = AMPClassifier(epsilon=epsilon, classes=range(10))
    folds = KFold(4, shuffle=True)
    return GridSearchCV(model, grid, cv=folds, error_score="raise").fit(X_train, y_train)


def searched(epsilon):
    """Return the accuracy of the model that a search found."""
    return search(epsilon).score(X_test, y_test)


# %%
# The report counts the fits. There is no total, because no guarantee covers the choice.
budget = 3.0
privacy_report(search(budget))

# %%
# Now let the ten fits of a row share a total epsilon of 3, so each gets 0.3, and ignore that the choice is not covered.
# The search is then less accurate than the defaults. The search with epsilon = 3 for each fit only looks better because
# it spends 30 in all.
settings = {
    "defaults, epsilon = 3": [default(budget) for _ in range(4)],
    f"search, {n_releases} fits of a row share epsilon = 3 (choice not counted)": [
        searched(budget / n_releases) for _ in range(4)
    ],
    f"search at epsilon = 3 for each fit: {budget * n_releases:g} in all": [searched(budget) for _ in range(4)],
}
fig, ax = plt.subplots(figsize=(9, 2.6), layout="constrained")
ax.barh(list(settings), [np.mean(s) for s in settings.values()], xerr=[np.std(s) for s in settings.values()])
ax.invert_yaxis()
ax.set(
    xlabel="accuracy on test rows (mean and standard deviation of 4 fits)",
    xlim=(0, 1),
    title="epsilon of one row, replaced",
)
for name, scores in settings.items():
    print(f"{name:<68}{np.mean(scores):.3f}")

# %%
# There are three alternatives. First, use the defaults: ``C="auto"`` is computed from the shape of the table, epsilon
# and delta alone. Second, use a private search. It keeps secret how many candidates it tried, and therefore costs much
# less.
private = DPSearchCV(AMPClassifier(classes=range(10)), grid, n_trials=3, epsilon=budget).fit(X_train, y_train)
print(f"private search: {private.score(X_test, y_test):.3f} under {private.guarantee_!r}")

# %%
# Third, release a *sketch* of each row once, and search on the sketches as often as you like. Anything computed from a
# release costs no further epsilon. But this guarantee protects one pixel, and not a whole row.
sketch = DPSignOPORP(64, epsilon=budget, random_state=0)
S_train, S_test = sketch.fit_transform(X_train), sketch.transform(X_test)
tuned = GridSearchCV(LogisticRegression(max_iter=1000), {"C": np.logspace(-3, 0, 7)}, cv=4).fit(S_train, y_train)
print(f"sketched once, then 29 fits: {tuned.score(S_test, y_test):.3f} under {sketch.guarantee_!r}")
