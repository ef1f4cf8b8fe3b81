"""
Classification on sketches, and a search over epsilon done right
================================================================

Here each row is sketched before any model sees it. A search over ``epsilon`` shows the trade-off of privacy and
accuracy, for planning. All other parameters are searched afterwards, on sketches that are released once.
"""

# %%
# The unit of privacy is a change of one pixel by its whole range, 0 to 16. Scaling and centring use this known range
# and nothing that was read from the data.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdprp import DPOPORP, DPSignOPORP, PrivacyUtilityDisplay

X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
model = LogisticRegression(C=0.1, max_iter=1000)

# %%
# First choose epsilon
# --------------------
# :class:`~skdprp.PrivacyUtilityDisplay` fits a pipeline at each ``epsilon`` to each fold, which makes many releases. So
# use it for *planning* only, and keep the curve to yourself, or use public data that resemble yours. The curve is not
# private.
ax = None
for sketch in (DPOPORP(64, random_state=0), DPSignOPORP(64, random_state=0)):
    display = PrivacyUtilityDisplay.from_estimator(
        make_pipeline(sketch, model), X, y, epsilons=[0.5, 1.0, 2.0, 5.0, 10.0, 20.0], cv=3, n_repeats=1
    )
    ax = display.plot(ax=ax).ax_

# %%
# Signs are more accurate here at small epsilon, because hiding the sign of a number needs less noise than hiding the
# number. From epsilon = 5 on, a larger epsilon hardly improves the signs, because hardly any are flipped. Noisy numbers
# still improve.
#
# Then sketch once, and tune freely
# ---------------------------------
# Everything computed from a released sketch is post-processing. So the whole search below costs no more than the
# sketch.
sketch = DPSignOPORP(64, epsilon=5.0, random_state=0)
S = sketch.fit_transform(X)
tuned = GridSearchCV(model, {"C": np.logspace(-3, 0, 4)}, cv=3).fit(S, y)
print(f"{tuned.best_score_:.3f} with {tuned.best_params_}")
sketch.guarantee_
