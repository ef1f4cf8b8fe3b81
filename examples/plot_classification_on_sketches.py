"""
Classification on sketches, and a search over epsilon done right
================================================================

Each row is privatised before any model sees it. A search over ``epsilon`` draws the trade-off of privacy and utility of
a data set; a search over anything else comes after, on sketches that are released once.
"""

# %%
# The unit of privacy is one pixel over its whole range, 0 to 16. Scaling and centring use these public bounds, nothing
# read from the data.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skdprp import DPOPORP, DPSignOPORP, PrivacyUtilityDisplay

X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
model = LogisticRegression(C=0.1, max_iter=1000)

# %%
# First choose epsilon
# --------------------
# Any search that varies an ``epsilon`` can be drawn. Mind what such a search releases: inside the pipeline, every fold
# of every candidate sketches its rows anew. Use it for *planning*, if you hold the rows, or on public data that
# resemble them. Its curve is not private.
reference = cross_val_score(model, X, y, cv=3).mean()
ax = None
for sketch in (DPOPORP(64, random_state=0), DPSignOPORP(64, random_state=0)):
    pipeline = make_pipeline(sketch, model)
    grid = {f"{pipeline.steps[0][0]}__epsilon": [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    display = PrivacyUtilityDisplay.from_cv_results(
        search, score_name="accuracy", reference_score=reference, chance_score=0.1
    )
    ax = display.plot(ax=ax).ax_

# %%
# Signs win here, because one pixel moves one bit only, and most of them are far from zero; from epsilon = 5 on they
# have said all they can. Noisy sums go on to gain.
#
# Then sketch once, and tune freely
# ---------------------------------
# All that happens to a released sketch is post-processing: the whole search below costs no more than the sketch.
sketch = DPSignOPORP(64, epsilon=5.0, random_state=0)
S = sketch.fit_transform(X)
tuned = GridSearchCV(model, {"C": np.logspace(-3, 0, 4)}, cv=3).fit(S, y)
print(f"{tuned.best_score_:.3f} with {tuned.best_params_}")
sketch.guarantee_
