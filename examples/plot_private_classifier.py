"""
A private classifier on a table of your own
===========================================

This example starts with a CSV file whose columns have different units. It ends with a model whose weights can be
published, and a report of its guarantee. :class:`~skdprp.AMPClassifier` replaces ``LogisticRegression``; the step to
think about is the scaling.
"""

# %%
# The table has measurements of cell nuclei.
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdprp import AMPClassifier, PrivacyUtilityDisplay, PublicScaler, privacy_report

with TemporaryDirectory() as folder:
    path = Path(folder, "cells.csv")
    load_breast_cancer(as_frame=True).frame.to_csv(path, index=False)
    table = pd.read_csv(path)
X, y = table.drop(columns="target"), table["target"]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

# %%
# Scale by bounds that do not come from the data
# ----------------------------------------------
# All columns should have about the same scale. A ``StandardScaler`` would do that by means and variances of private
# rows, which no guarantee covers. The report finds such a step:
privacy_report(make_pipeline(StandardScaler(), AMPClassifier(max_norm=5.0, classes=[0, 1])).fit(X_train, y_train))

# %%
# Use what is known of such measurements without the table: a radius is at most 40 micrometres, an area at most 4000
# square micrometres, and a ratio is between 0 and 1. :class:`~skdprp.PublicScaler` takes such bounds, and never looks
# at the values of the table. Most of these measurements are near their lower bound. So the lower bound is mapped to 0,
# which gives rows of small norm. There are 30 columns between 0 and 1, so no norm is above 5.5. With most values near
# 0, few norms should be above 1.5, at which the model clips them here.
sizes = {"radius": 40, "texture": 50, "perimeter": 300, "area": 4000}
errors = {"radius error": 4, "texture error": 5, "perimeter error": 30, "area error": 400}
bounds = {column: (0, errors.get(column, sizes.get(column.split()[-1], 1))) for column in X}
scaler = PublicScaler(bounds, feature_range=(0, 1))
model = make_pipeline(scaler, AMPClassifier(epsilon=3.0, max_norm=1.5, classes=[0, 1])).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.2f}; always the larger class {max(y.mean(), 1 - y.mean()):.2f}")
privacy_report(model)

# %%
# What epsilon costs here
# -----------------------
# 569 rows are few for a private model. At small epsilon, the model orders the rows by risk far better than its accuracy
# at a threshold of one half suggests. The area under the ROC curve measures this order. The curves are computed from
# the rows without noise, so keep them as private as the rows.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for ax, scoring in zip(axes, ("accuracy", "roc_auc"), strict=True):
    display = PrivacyUtilityDisplay.from_estimator(
        model, X, y, epsilons=[0.3, 1, 3, 10, 30], n_repeats=3, scoring=scoring
    )
    display.plot(ax=ax)

# %%
# The figure in numbers:
display.frame().groupby("epsilon")["score"].describe().round(2)
