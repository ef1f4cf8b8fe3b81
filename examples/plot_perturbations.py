"""
Output, objective and gradient perturbation
===========================================

Noise on the solution, in the problem, or on each step of the way? All three make a linear classifier whose weights may
be published: nobody can tell from them whether a row was this or another one. This example draws what each
costs over ``epsilon``, and how much of that is the choice of neighbours.
"""

# %%
# Ten classes of handwritten digits. Rows longer than ``max_norm``, a public bound, are clipped to it.
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
# *Output perturbation* minimises a loss, and adds noise as large as one row can move the minimum. *Objective
# perturbation* adds a random linear term first: where the rows agree, the loss is curved and the noise moves the
# minimum little; where nobody knows, it moves it far. *Gradient perturbation* adds noise to the gradient at each step.
# That a row is there or its place is blank, "row blank or not", is a weaker guarantee than "row replaced", at half the
# noise.
ax = None
for name, model in models:
    display = PrivacyUtilityDisplay.from_estimator(
        model, X, y, epsilons=[0.3, 1, 3, 10, 30], cv=3, n_repeats=2, label=name
    )
    ax = display.plot(ax=ax, public_data=True).ax_

# %%
# What the tables of one model look like: a tidy frame, one row for each fit.
display.frame().groupby("epsilon")["score"].agg(["mean", "std"]).round(3)

# %%
# The noise on the solution has a random length and a random direction. With a Gamma distribution of the length it is
# at most about as much as Gaussian noise of the same guarantee, if delta is far below epsilon. With ``delta=0`` it is
# the classic one of pure epsilon-DP.
model = ProductNoiseOutputPerturbation(epsilon=1.0, **known).fit(X, y)
model.guarantee_
