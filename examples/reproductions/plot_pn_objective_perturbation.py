"""
Product noise: objective perturbation
=====================================

Figures 6 and 14 and Tables 2, 3, 10 and 11 of S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, *Privacy Loss of Noise
Perturbation via Concentration Analysis of a Product Measure* (SIGMOD 2026, arXiv:2512.06253): accuracy with its
standard deviation, distance from the weights without noise and false-positive rate of logistic regression and of the
Huber-hinge support vector machine.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
data                MNIST, Synthetic-H,         with ``--data DIR`` the test images of MNIST (4000 and 2000; 8000 under
                    Real-sim, RCV1              ``--full``) and a9a, otherwise small digits; 5000 simulated rows of
                                                1000 features (10,000 of 2000)
split, Lambda       without hyperparameters     the same: Lambda is the least that a calibration needs (``C="auto"``)
                    (H-F)
delta               1 / n^2                     the same; rows have unit norm, no intercept
epsilon             1e-2 to 10, 7 values        the same under ``--full``, otherwise every second
trials              10                          10 under ``--full``, otherwise 5
noise               product, Gaussian (H-F      the same; and both noises at their exact calibration
                    AMP), analytic Gaussian
                    (H-F)
classes             not said                    one against the rest; one softmax for exact calibrations, but for the
                                                hinge, which is there on digits under ``--full`` only
distance            absolute                    the same as printed; in the figure relative to the weights without noise
                                                at the same penalty, which a strong penalty makes small by itself
==================  ==========================  ===================================================================

Real-sim and RCV1 are left out.
"""

# %%
# H-F AMP is approximate minima perturbation without hyperparameters, by Iyengar et al. (2019). Product noise as
# published is Algorithm 3 of the paper, with the least k at which Theorem 8 claims delta.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import compare_models, objective_perturbation, parse_arguments

from skdprp import PrivacyWarning
from skdprp.mechanisms import Published

options = parse_arguments(full="larger data, more epsilons and trials", data="MNIST (t10k-*.gz), a9a and a9a.t")
CALIBRATIONS = {
    "product (not private)": {"noise": "product", "calibration": "published"},
    "Gaussian (H-F AMP)": {"noise": "gaussian", "calibration": "published"},
    "analytic Gaussian (H-F AMP)": {"noise": "gaussian", "calibration": Published(analytic=True)},
    "Gamma, exact": {"noise": "product", "calibration": "exact"},
    "Gaussian, exact": {"noise": "gaussian", "calibration": "exact"},
}
STYLES = dict(zip(CALIBRATIONS, ("C1x--", "C6^:", "C3v:", "C2o-", "C0s-"), strict=True))
EPSILONS = tuple(10.0 ** np.arange(-2, 1.1, 0.5))
warnings.simplefilter("ignore", PrivacyWarning)


def reproduce(loss):
    """Compare the calibrations for one loss."""
    models = {name: objective_perturbation(loss=loss, **calibration) for name, calibration in CALIBRATIONS.items()}
    name, title = f"pn_objective_perturbation_{loss}", f"Objective perturbation, {loss}"
    compare_models(options, name, title, models, STYLES, lambda problem, n: "auto", EPSILONS, loss)


reproduce("log_loss")
plt.show()

# %%
# The same for the Huber hinge, where classes are told apart one against the rest.
reproduce("huber_hinge")
plt.show()

# %%
# For the published product noise nothing is proved: its true delta is printed as 1. In one of its steps the published
# Gaussian calibration hides only half of what it should. In the others it adds far more noise than necessary, so its
# true delta is many orders of magnitude below its claim. Analytic Gaussian noise in the same split is the strongest
# baseline of the paper; the exact profile of all steps together needs much less noise than either. With many classes
# the exact calibration also has the softmax, which needs one budget where one-vs-rest needs one for each class. So
# Gaussian noise, too, reaches much of what the published product noise seems to gain, with a guarantee that holds.
