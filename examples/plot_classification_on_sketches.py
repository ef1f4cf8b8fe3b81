"""
Classification on sketches, searched over epsilon
=================================================

Each row is privatised before any model sees it. A grid search over ``epsilon`` then draws the trade-off of privacy and
utility of this data set.

Mind what such a search releases. Inside the pipeline, every fold of every candidate sketches its rows anew: the search
below is a *planning* tool, run by whoever holds the rows. To tune a model on sketches that are already published,
sketch once and search on the result, which costs nothing more; the last lines do that.
"""

# %%
# The unit of privacy is one pixel over its whole range, 0 to 16. Scaling and centring use these public bounds, nothing
# read from the data.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skdprp import DPOPORP, DPSignOPORP

X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
epsilons = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]

# %%
# One search for each sketch.
model = LogisticRegression(C=0.1, max_iter=1000)
searches = {}
for sketch in (DPOPORP(64, random_state=0), DPSignOPORP(64, random_state=0)):
    pipeline = make_pipeline(sketch, model)
    step = pipeline.steps[0][0]
    searches[type(sketch).__name__] = GridSearchCV(pipeline, {f"{step}__epsilon": epsilons}, cv=3).fit(X, y)

plain = cross_val_score(model, X, y, cv=3).mean()

# %%
# Signs win at small epsilon, because one pixel moves one bit only; noisy sums win when the noise is small.
fig, ax = plt.subplots(layout="constrained")
for name, search in searches.items():
    scores, spread = search.cv_results_["mean_test_score"], search.cv_results_["std_test_score"]
    ax.errorbar(epsilons, scores, spread, marker="o", capsize=3, label=name)
ax.axhline(plain, color="black", linestyle="--", label="not private")
ax.axhline(0.1, color="grey", linestyle=":", label="chance")
ax.set(xscale="log", xlabel="epsilon of one row", ylabel="accuracy, 3 folds", ylim=(0, 1))
fig.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# Sketch once, then tune freely: all that happens to a released sketch is post-processing.
sketch = DPSignOPORP(64, epsilon=5.0, random_state=0)
S = sketch.fit_transform(X)
tuned = GridSearchCV(model, {"C": np.logspace(-3, 0, 4)}, cv=3).fit(S, y)
print(f"{tuned.best_score_:.3f} with {tuned.best_params_}, for rows released once under {sketch.guarantee_!r}")
