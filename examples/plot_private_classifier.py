"""
A private classifier on a table of your own
===========================================

A CSV file with columns of different units, a model whose weights may be published, and the report of what that
guarantees. :class:`~skdprp.AMPClassifier` replaces ``LogisticRegression``. What needs thought is the scaling.
"""

# %%
# Measurements of cell nuclei, as a CSV file.
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
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

# %%
# Scale by bounds that do not come from the data
# ----------------------------------------------
# Columns should reach the model at about the same size. A ``StandardScaler`` would see to that, by means and variances
# of private rows. The report finds it:
privacy_report(make_pipeline(StandardScaler(), AMPClassifier(max_norm=5.0, classes=[0, 1])).fit(X_train, y_train))

# %%
# What is public is what such measurements can be: a radius in micrometres is not above 40, an area not above 4000, and
# a ratio is between 0 and 1. :class:`~skdprp.PublicScaler` takes such bounds; the largest values of the table never
# enter. Most of these measurements lie near their lower bound, so that it goes to 0, and rows are short.
sizes = {"radius": 40, "texture": 50, "perimeter": 300, "area": 4000}
errors = {"radius error": 4, "texture error": 5, "perimeter error": 30, "area error": 400}
bounds = {column: (0, errors.get(column, sizes.get(column.split()[-1], 1))) for column in X}
scaler = PublicScaler(bounds, feature_range=(0, 1))
model = make_pipeline(scaler, AMPClassifier(epsilon=3.0, max_norm=1.5, classes=[0, 1])).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.2f}, of the larger class {max(y.mean(), 1 - y.mean()):.2f}")
privacy_report(model)

# %%
# What epsilon costs here
# -----------------------
# 569 rows are few to hide among. At small epsilon the order of the rows by risk, which the area under the ROC curve
# measures, is far better than the accuracy at a threshold of one half. The curves are computed from the rows, and are
# as private as they are.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for ax, scoring in zip(axes, ("accuracy", "roc_auc"), strict=True):
    display = PrivacyUtilityDisplay.from_estimator(
        model, X, y, epsilons=[0.3, 1, 3, 10, 30], n_repeats=3, scoring=scoring
    )
    display.plot(ax=ax)

# %%
# In numbers, one row for each fit:
display.frame().groupby("epsilon")["score"].describe().round(2)
