"""
Regression with private rows and targets
========================================

:class:`~skdprp.DPRidge` stands where ``Ridge`` stood, and hides each row with its target. What does that cost, and how
far can its weights be trusted?
"""

# %%
# The diabetes data of scikit-learn: ten measurements of 442 patients, and how far their disease had got a year later.
# That is few rows for a private model. The bounds are what a physician would expect of such quantities, and not the
# least and the largest value in the table: they are public.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline

from skdprp import DPRidge, PublicScaler

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
bounds = {
    "age": (18, 90),
    "sex": (1, 2),
    "bmi": (15, 50),
    "bp": (60, 140),  # mean blood pressure, mm Hg
    "s1": (100, 350),  # cholesterol, mg/dl
    "s2": (30, 250),  # of that, in low-density lipoproteins
    "s3": (20, 100),  # in high-density ones
    "s4": (1, 10),  # the first over the last
    "s5": (3, 7),  # logarithm of triglycerides
    "s6": (50, 150),  # blood sugar
}
target_bounds = (0, 400)


def scores(model):
    """R2 on other rows, of 20 splits; a private model has new noise in each."""
    model = make_pipeline(PublicScaler(bounds), model)
    splits = ShuffleSplit(20, test_size=0.25, random_state=0).split(X)
    return [model.fit(X.iloc[a], y.iloc[a]).score(X.iloc[b], y.iloc[b]) for a, b in splits]


# %%
# On the left, R2 against epsilon, with its standard deviation over splits and noise. A descent, which the default takes
# on a table of this size, loses little from epsilon = 3 on. The noise on moments hides a row in 78 sums of products,
# and so few rows need several times the epsilon for the same R2: moments are for larger tables. Below 0 the mean of
# all targets would be a better prediction.
#
# On the right, what a release of moments says of its weights: bars are two standard errors, of the noise and of the
# sample together. Computing them costs nothing. At epsilon = 3 they mostly show that no weight can be told from 0; at
# 30 a few can.
epsilons = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
print("epsilon     ", *(f"{epsilon:<13g}" for epsilon in epsilons))
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for mechanism, style in (("descent", "o-"), ("moments", "s--")):
    models = [DPRidge(target_bounds=target_bounds, epsilon=epsilon, mechanism=mechanism) for epsilon in epsilons]
    drawn = [scores(model) for model in models]
    left.errorbar(epsilons, np.mean(drawn, axis=1), np.std(drawn, axis=1), fmt=style, capsize=3, label=mechanism)
    print(f"{mechanism:<12}", *(f"{np.mean(some):6.2f} ± {np.std(some):.2f}" for some in drawn))
plain = scores(RidgeCV(np.logspace(-3, 2, 11)))
print(f"not private  {np.mean(plain):6.2f} ± {np.std(plain):.2f}")
left.axhline(np.mean(plain), color="0.3", linestyle=":", label="Ridge, not private")
left.set(xscale="log", xlabel="epsilon, one row replaced", ylabel="R² on other rows", ylim=(-0.5, 0.6))
left.xaxis.set_major_formatter("{x:g}")
left.legend(loc="lower right")

rows = PublicScaler(bounds).fit_transform(X)
places = np.arange(X.shape[1])
for epsilon, shift in ((3.0, -0.15), (30.0, 0.15)):
    model = DPRidge(target_bounds=target_bounds, epsilon=epsilon, mechanism="moments").fit(rows, y)
    label = f"epsilon = {epsilon:g}, one row replaced"
    right.errorbar(places + shift, model.coef_, 2 * model.coef_std_, fmt="o", capsize=3, label=label)
right.plot(places, RidgeCV(np.logspace(-3, 2, 11)).fit(rows, y).coef_, "k_", markersize=14, label="Ridge, not private")
right.axhline(0, color="0.7", linewidth=0.8)
right.set(xticks=places, xticklabels=list(bounds), ylabel="weight of a column, over its range", ylim=(-600, 800))
right.legend(ncols=2, loc="upper center", fontsize="small")

# %%
# Every penalty is paid for by the one release. A search over ``alpha`` that fits the rows again and again would pay for
# each fit: see :doc:`/guide/regression`.
coefs, intercepts = model.path(np.logspace(-2, 2, 5))
print(coefs.shape, model.guarantee_)
