"""
Tuning done wrong: what a search over a private model costs
===========================================================

``GridSearchCV`` over a private classifier fits it for every candidate and fold, and once more in the end. Each fit is a
release of its own, so that the budget is their sum and not the ``epsilon`` of one. And the choice among them looks at
held-out rows with no noise at all.
"""

# %%
# Three norms to clip rows to, four folds, and the refit: thirteen fits. Each row is held out in one fold of four, and
# so ten fits see it. That their sum is its price holds as long as the other rows stay in their folds whatever this one
# is: the split must go by place. ``cv=4`` would be stratified here, and look at labels.
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
    """Accuracy of the defaults, which look at no data."""
    model = AMPClassifier(epsilon=epsilon, max_norm=4.0, classes=range(10))
    return model.fit(X_train, y_train).score(X_test, y_test)


def search(epsilon):
    """Search with this epsilon in each of the fits."""
    model = AMPClassifier(epsilon=epsilon, classes=range(10))
    folds = KFold(4, shuffle=True)
    return GridSearchCV(model, grid, cv=folds, error_score="raise").fit(X_train, y_train)


def searched(epsilon):
    """Accuracy of what a search found."""
    return search(epsilon).score(X_test, y_test)


# %%
# The report counts them, and says what no guarantee covers: there is no total.
budget = 3.0
privacy_report(search(budget))

# %%
# Let the fits alone share the budget of 3, and forgive the search its choice: each gets 3 / 10. What looked like a gain
# of tuning was a larger budget that nobody counted.
settings = {
    "defaults, epsilon = 3": [default(budget) for _ in range(4)],
    f"search, {n_releases} fits of a row share epsilon = 3 (and the choice is free)": [
        searched(budget / n_releases) for _ in range(4)
    ],
    f"search at epsilon = 3 for each fit: {budget * n_releases:g} in all": [searched(budget) for _ in range(4)],
}
fig, ax = plt.subplots(figsize=(9, 2.6), layout="constrained")
ax.barh(list(settings), [np.mean(s) for s in settings.values()], xerr=[np.std(s) for s in settings.values()])
ax.invert_yaxis()
ax.set(xlabel="accuracy on test rows (mean and standard deviation of 4 fits)", xlim=(0, 1))
for name, scores in settings.items():
    print(f"{name:<68}{np.mean(scores):.3f}")

# %%
# Three ways out. Use the defaults: ``C="auto"`` is computed from the sizes and the budget alone. Search in private: how
# many candidates were tried stays secret, and that takes most of the price away.
private = DPSearchCV(AMPClassifier(classes=range(10)), grid, n_trials=3, epsilon=budget).fit(X_train, y_train)
print(f"private search: {private.score(X_test, y_test):.3f} under {private.guarantee_!r}")

# %%
# Or release a *sketch* of each row once, and search on that as long as you like: nothing that happens to a release
# costs anything.
sketch = DPSignOPORP(64, epsilon=budget, random_state=0)
S_train, S_test = sketch.fit_transform(X_train), sketch.transform(X_test)
tuned = GridSearchCV(LogisticRegression(max_iter=1000), {"C": np.logspace(-3, 0, 7)}, cv=4).fit(S_train, y_train)
print(f"sketched once, then 29 fits: {tuned.score(S_test, y_test):.3f} under {sketch.guarantee_!r} for a pixel")
