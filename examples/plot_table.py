"""
From a raw table to a private model
===================================

A raw table has numbers of unknown range and categories that nobody has listed. One epsilon covers everything that is
learnt from it: bins, categories and the model.
"""

# %%
# This example comes with four thousand rows of the *Adult* data: B. Becker and R. Kohavi, UCI Machine Learning
# Repository, 1996, licence CC BY 4.0. The scores below are for these rows. ``python plot_table.py --data adult.csv``
# uses the whole table, of 30,162 rows; its accuracy is about .84 and its AUC .90.
import argparse

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdprp import AMPClassifier, make_table_preprocessor, privacy_report, set_budget

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--data", default="adult_sample.csv.gz")
table = pd.read_csv(parser.parse_known_args()[0].data)
income = table.pop("income")
X, X_test, y, y_test = train_test_split(table, income, test_size=0.2, random_state=0)

# %%
# :func:`~skdprp.make_table_preprocessor` gets no information about the columns. So it finds bins of numbers, frequent
# categories and bins for missing values, all in one private release. All prepared rows have norm 1, the default
# ``max_norm`` of the model, and the model has one weight for each bin. :func:`~skdprp.set_budget` divides epsilon and
# delta between both steps, so that the total is (1, 1e-6)-differentially private.
classifier = AMPClassifier(epsilon=0.7, classes=["<=50K", ">50K"])
model = make_pipeline(make_table_preprocessor(epsilon=0.3), classifier)
model = set_budget(model, X, y, epsilon=1.0, delta=1e-6).fit(X, y)
print(f"accuracy {model.score(X_test, y_test):.3f}, always the first class {(y_test == '<=50K').mean():.3f}")
print(f"AUC {roc_auc_score(y_test == '>50K', model.predict_proba(X_test)[:, 1]):.3f}")

# %%
# The report says what was released, and states the total:
print(privacy_report(model))

# %%
# You can publish the weights of the bins, and so this figure, too. A larger weight means that a value makes the higher
# income more likely.
names, weights = model[0].get_feature_names_out(), classifier.coef_[0]
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, column in zip(axes, ["age", "education"], strict=True):
    curve = {
        name.removeprefix(f"{column}_"): weight
        for name, weight in zip(names, weights, strict=True)
        if name.startswith(f"{column}_") and "unused" not in name and not name.startswith("education_num")
    }
    ax.bar(list(curve), list(curve.values()))
    ax.axhline(0, color="0.3", linewidth=0.8)
    ax.set_title(column)
axes[0].set_ylabel("weight")
fig.suptitle(repr(privacy_report(model).total))
plt.show()
