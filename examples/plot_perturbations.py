"""
Output, objective and gradient perturbation
===========================================

A classifier can add noise to the solution, to the objective function, or to each step of the solver. With all three you
can publish the weights of a linear classifier. This example shows the accuracy of each against epsilon, and how much
the choice of neighbouring data sets matters.
"""

# %%
# The data are handwritten digits of ten classes. Rows whose norm is above ``max_norm`` are clipped to it. This bound
# does not come from the data.
from sklearn.datasets import load_digits

from skdprp import AMPClassifier, DPSGDClassifier, PrivacyUtilityDisplay, ProductNoiseOutputPerturbation

X, y = load_digits(return_X_y=True)
X = X / 16 - 0.5
known = {"max_norm": 4.0, "classes": range(10)}
models = [
    ("gradient", DPSGDClassifier(**known, adjacency="add_remove")),
    ("gradient", DPSGDClassifier(**known)),
    ("objective", AMPClassifier(**known)),
    ("output", ProductNoiseOutputPerturbation(**known)),
    ("output, delta = 0", ProductNoiseOutputPerturbation(**known, delta=0.0)),
]

# %%
# *Output perturbation* minimises the loss, and adds noise to the weights in proportion to how far one row can move
# them. *Objective perturbation* adds a random linear term to the loss and then minimises it. If the rows determine the
# weights well, the loss is strongly curved, and the random term moves the minimum little. *Gradient perturbation* adds
# noise to the gradient at each step. "Row blank or not" is another guarantee than "row replaced", and needs half the
# noise here.
ax = None
for name, model in models:
    display = PrivacyUtilityDisplay.from_estimator(
        model, X, y, epsilons=[0.3, 1, 3, 10, 30], cv=3, n_repeats=2, label=name
    )
    ax = display.plot(ax=ax, public_data=True).ax_

# %%
# ``frame`` has the scores of the last model as a dataframe, with one row for each fit:
display.frame().groupby("epsilon")["score"].agg(["mean", "std"]).round(3)

# %%
# The noise of output perturbation has a random length and a random direction. The length has a Gamma distribution. If
# delta is far below epsilon, this noise is at most about as large as Gaussian noise with the same guarantee. With
# ``delta=0`` it is the multivariate Laplace noise of pure epsilon-DP.
model = ProductNoiseOutputPerturbation(epsilon=1.0, **known).fit(X, y)
model.guarantee_
