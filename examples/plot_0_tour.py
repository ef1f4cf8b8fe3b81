"""
Five-minute tour
================

Private models, private sketches, what they guarantee and what they cost, on handwritten digits.
"""

# %%
# A private model
# ---------------
# :class:`~skdprp.AMPClassifier` replaces ``LogisticRegression``. You can publish its weights: epsilon bounds how well
# anybody can tell from them which of two candidates for a row was in the table. :class:`~skdprp.PublicScaler` maps the
# pixels, whose range is known to be 0 to 16, to values from -1/2 to 1/2. Then no row has a norm above 4, so
# ``max_norm=4`` clips no row.
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
# The guarantee prints itself, here and in notebooks. First read the unit of privacy, what is assumed, and what is not
# covered.
model.guarantee_

# %%
# A private sketch
# ----------------
# :class:`~skdprp.DPSignOPORP` replaces each row by 64 bits before any model sees it. You can publish the bits, and
# anything computed from them costs no further epsilon. They protect less than the model does: a change of one pixel,
# not a whole row.
sketch = DPSignOPORP(64, epsilon=5.0, random_state=0)
bits_train, bits_test = sketch.fit_transform(X_train), sketch.transform(X_test)
print(bits_test[0][:16])
print(f"accuracy {LogisticRegression(max_iter=1000).fit(bits_train, y_train).score(bits_test, y_test):.2f}")

# %%
# What does epsilon cost?
# -----------------------
# A curve of the score against epsilon on your own data answers this best. The curve is computed from the data without
# protection. So keep it to yourself, or draw it on public data that resemble yours.
import matplotlib.pyplot as plt

pipeline = make_pipeline(sketch, LogisticRegression(max_iter=1000))
options = {"epsilons": [0.3, 1, 3, 10, 30], "cv": 3, "n_repeats": 2}
fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
for ax, estimator in zip(axes, (AMPClassifier(max_norm=4.0, classes=range(10)), pipeline), strict=True):
    PrivacyUtilityDisplay.from_estimator(estimator, X, y, **options).plot(ax=ax, public_data=True)

# %%
# The two curves have different units of privacy, so each has its own axis. On the left the unit is a whole row of a
# table of 1797 rows. On the right it is one pixel of a row, and each row is sketched separately. :doc:`/choose` says
# which you need.
