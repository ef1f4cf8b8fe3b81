"""
Five-minute tour
================

Private models, private sketches, what they guarantee and what they cost, on handwritten digits.
"""

# %%
# A private model
# ---------------
# :class:`~skdprp.AMPClassifier` takes the place of LogisticRegression. Its weights may be published: nobody can tell
# from them whether one row of the table had been another. ``max_norm`` is a bound on the length of a row that
# does not come from the data: pixels are 0 to 16, and :class:`~skdprp.PublicScaler` brings them to -1/2 to 1/2 by
# that alone.
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdprp import AMPClassifier, DPSignOPORP, PrivacyUtilityDisplay, PublicScaler

X, y = load_digits(return_X_y=True)
X = PublicScaler((0, 16)).fit_transform(X)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = AMPClassifier(epsilon=5.0, max_norm=4.0, classes=range(10)).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.2f}")

# %%
# What it guarantees is a value that shows itself, here and in notebooks. Read the unit, what is assumed and what is not
# covered first.
model.guarantee_

# %%
# A private sketch
# ----------------
# :class:`~skdprp.DPSignOPORP` replaces each row by 64 bits before anything else sees it. The bits may be published, and
# all that is computed from them is free. They hide less than the model does: a change of one pixel, not of a whole row.
sketch = DPSignOPORP(64, epsilon=5.0, random_state=0)
bits_train, bits_test = sketch.fit_transform(X_train), sketch.transform(X_test)
print(bits_test[0][:16])
print(f"accuracy {LogisticRegression(max_iter=1000).fit(bits_train, y_train).score(bits_test, y_test):.2f}")

# %%
# What does epsilon cost?
# -----------------------
# The curve of your own data says more than any rule. It is computed from the data, so that it is not private itself:
# draw it where the data is, or on public data like yours.
import matplotlib.pyplot as plt

pipeline = make_pipeline(sketch, LogisticRegression(max_iter=1000))
options = {"epsilons": [0.3, 1, 3, 10, 30], "cv": 3, "n_repeats": 2}
fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
for ax, estimator in zip(axes, (AMPClassifier(max_norm=4.0, classes=range(10)), pipeline), strict=True):
    PrivacyUtilityDisplay.from_estimator(estimator, X, y, **options).plot(ax=ax, public_data=True)

# %%
# The two curves are not about the same guarantee, and so have an axis each. On the left a whole row is hidden among
# 1797; on the right one pixel of a row, and each row stands alone. :doc:`/choose` says which you need.
