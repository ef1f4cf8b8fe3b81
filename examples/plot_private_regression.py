"""
Regression with private rows and targets
========================================

:class:`~skdprp.DPRidge` replaces ``Ridge``, and protects each row with its target. This example shows how much accuracy
that costs, and how accurate the weights are.
"""

# %%
# Districts of California in the census of 1990, and the median value of a house there: R. K. Pace and R. Barry, "Sparse
# Spatial Autoregressions", Statistics and Probability Letters, 1997. This example comes with five thousand of them;
# ``python plot_private_regression.py --data california_housing.csv`` uses the whole table, of 20,640 districts. The
# bounds follow from what is known about the state and about a census, and not from the values in the table. So they are
# public.
import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline

from skdprp import DPRidge, PublicScaler

bounds = {
    "longitude": (-125, -114),
    "latitude": (32, 42),
    "housing_median_age": (0, 60),
    "total_rooms": (0, 10_000),
    "population": (0, 6000),
    "households": (0, 2000),
    "median_income": (0, 15),  # in 10,000 dollars
}
target_bounds = (0, 500_000)
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--data", default="california_sample.csv.gz")
table = pd.read_csv(parser.parse_known_args()[0].data)
X, y = table[list(bounds)], table["median_house_value"].astype(float)


def scores(model):
    """R2 on other rows, of 10 splits; a private model has new noise in each."""
    model = make_pipeline(PublicScaler(bounds), model)
    splits = ShuffleSplit(10, test_size=0.25, random_state=0).split(X)
    return [model.fit(X.iloc[a], y.iloc[a]).score(X.iloc[b], y.iloc[b]) for a, b in splits]


# %%
# The left panel shows R² against epsilon, with its standard deviation over splits and noise. Noisy gradient descent is
# the default for a table of this size. At a small epsilon it is more accurate than moments, which need noise on 45 sums
# of products.
#
# The right panel shows the weights that are computed from moments. The bars are two standard errors, which include the
# noise and the sample. They are computed from the released moments and cost nothing. At epsilon = 1 they usually show
# the sign of the largest weight, and at epsilon = 10 those of most weights.
epsilons = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
print("epsilon     ", *(f"{epsilon:<13g}" for epsilon in epsilons))
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for mechanism, style in (("descent", "o-"), ("moments", "s--")):
    models = [DPRidge(target_bounds=target_bounds, epsilon=epsilon, mechanism=mechanism) for epsilon in epsilons]
    drawn = [scores(model) for model in models]
    left.errorbar(epsilons, np.mean(drawn, axis=1), np.std(drawn, axis=1), fmt=style, capsize=3, label=mechanism)
    print(f"{mechanism:<12}", *(f"{np.mean(some):6.2f} ± {np.std(some):.2f}" for some in drawn))
plain = scores(RidgeCV(np.logspace(-3, 2, 11)))
print(f"not private  {np.mean(plain):6.2f} ± {np.std(plain):.2f}")
left.axhline(np.mean(plain), color="0.3", linestyle=":", label="Ridge, not private")
left.set(xscale="log", xlabel="epsilon, one row replaced", ylabel="R² on other rows", ylim=(-0.2, 0.7))
left.xaxis.set_major_formatter("{x:g}")
left.legend(loc="lower right")

rows = PublicScaler(bounds).fit_transform(X)
places = np.arange(X.shape[1])
for epsilon, shift in ((1.0, -0.15), (10.0, 0.15)):
    model = DPRidge(target_bounds=target_bounds, epsilon=epsilon, mechanism="moments").fit(rows, y)
    label = f"epsilon = {epsilon:g}, one row replaced"
    right.errorbar(places + shift, model.coef_, 2 * model.coef_std_, fmt="o", capsize=3, label=label)
right.plot(places, RidgeCV(np.logspace(-3, 2, 11)).fit(rows, y).coef_, "k_", markersize=14, label="Ridge, not private")
right.axhline(0, color="0.7", linewidth=0.8)
right.set(ylabel="weight of a column, over its range")
right.set_xticks(places, [name.replace("_", " ") for name in bounds], rotation=35, ha="right", rotation_mode="anchor")
right.yaxis.set_major_formatter("{x:,.0f}")
right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="small", frameon=False)

# %%
# A single release of moments is enough for any number of penalties. A search over ``alpha`` would fit the rows again
# for each candidate and fold, and each fit is a release: see :doc:`/guide/regression`.
coefs, intercepts = model.path(np.logspace(-2, 2, 5))
print(coefs.round(-3), repr(model.guarantee_), sep="\n")
