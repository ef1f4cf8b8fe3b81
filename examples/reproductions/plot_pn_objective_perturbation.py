"""
Product noise: objective perturbation
=====================================

After the objective-perturbation part of Figures 5, 6 and 10 to 14 and Tables 2, 3 and 6 to 11 of S. Liu, T. Ji, Z.
Fang, L. Wei and P. Li, *Privacy Loss of Noise Perturbation via Concentration Analysis of a Product Measure* (SIGMOD
2026, arXiv:2512.06253): accuracy, distance from the weights without noise and false-positive rate of logistic
regression and of the Huber-hinge support vector machine. With ``--data DIR``, on MNIST and a9a (Adult), otherwise on
the small digits of scikit-learn; both with made-up rows in high dimension. The paper's other data sets are not
available here, and its penalties and splits are not known to us: each calibration uses its own rule for the penalty
(``C="auto"``), rows have unit norm, delta is 1 / n^2, neighbours differ in one row replaced. We take 4000 test digits
of MNIST to learn from (8000 with ``--full``) and 2000 others to test, all of a9a, and 5000 made-up rows of 1000
features (10,000 of 2000). The distance is relative to the norm of the weights without noise at the same penalty; a
strong penalty makes it small by itself.
"""

# %%
# "Published Gaussian" is approximate minima perturbation without hyperparameters (H-F AMP, Iyengar et al. 2019),
# "published product" the same with the paper's half-normal radius.
import warnings

import matplotlib.pyplot as plt
from _reproduction import compare_models, parse_arguments

from skdprp import AMPClassifier, PrivacyWarning

options = parse_arguments(
    full="larger data, more epsilons and repeats: a quarter of an hour", data="MNIST (t10k-*.gz), a9a and a9a.t"
)
CALIBRATIONS = {
    "chi_1, published (not private)": {"noise": "product", "calibration": "published"},
    "Gaussian, published (H-F AMP)": {"calibration": "published"},
    "Gamma, exact": {"noise": "product"},
    "Gaussian, exact (default)": {},
}
STYLES = dict(zip(CALIBRATIONS, ("C1x--", "C6^:", "C2o-", "C0s-"), strict=True))
warnings.simplefilter("ignore", PrivacyWarning)


def reproduce(loss):
    """Compare the calibrations for one loss."""
    models = {name: AMPClassifier(loss=loss, **calibration) for name, calibration in CALIBRATIONS.items()}
    name, title = f"pn_objective_perturbation_{loss}", f"Objective perturbation, {loss}"
    compare_models(options, name, title, models, STYLES, lambda n: "auto")


reproduce("log_loss")
plt.show()

# %%
# The same for the Huber hinge, where classes are told apart one against the rest.
reproduce("huber_hinge")
plt.show()

# %%
# For the published product noise nothing is proved: its true delta is printed as 1. The published Gaussian calibration
# hides half of what it should in one step, and far more than it has to in the others: its true delta, printed above, is
# below what it claims by many orders of magnitude. The exact profile needs much less noise, which is the gap between
# the two Gaussian curves; with many classes the exact calibration also has the softmax, which needs one budget where
# one-vs-rest needs one for each class. With the Huber hinge all are one against the rest: Gaussian noise hides the ten
# problems together, noise with a Gamma radius each with a tenth of the budget. So most of what the published product
# noise seems to win over the published Gaussian on digits is there without it, under a guarantee that holds.
