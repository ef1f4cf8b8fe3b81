"""
Product noise: output perturbation
==================================

Figures 5 and 10 to 13 and Tables 6 to 9 of S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, *Privacy Loss of Noise
Perturbation via Concentration Analysis of a Product Measure* (SIGMOD 2026, arXiv:2512.06253): accuracy with its
standard deviation, distance from the weights without noise and false-positive rate of logistic regression and of the
Huber-hinge support vector machine.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
data                Adult, KDDCup99, MNIST,     with ``--data DIR`` a9a (Adult by 123 columns, its own split) and the
                    Synthetic-H, Real-sim,      test images of MNIST (4000 and 2000; 8000 under ``--full``), otherwise
                    RCV1; 80% / 20%             small digits; Synthetic-H with 5000 rows of 1000 features, 10,000 of
                                                2000 under ``--full``
Lambda              1e-2 for Adult, KDDCup99;   the same, of an objective divided by n: C = 1 / (n Lambda)
                    1e-4 for the others
L, k, delta         1, 1000, 1 / n^2            the same: rows have unit norm, no intercept
epsilon             1e-4 to 1e-1, 7 values      the same under ``--full``, otherwise every second
trials              10                          10 under ``--full``, otherwise 5
noise               product, classic and        the same, and product noise with a Gamma radius, our default, and with
                    analytic Gaussian,          the paper's radius at the guarantee that it claims
                    multivariate Laplace
classes             not said                    one softmax for more than two; one against the rest for the hinge, which
                                                is there on digits under ``--full`` only
distance            absolute                    the same as printed; in the figure relative to the weights without noise
==================  ==========================  ===================================================================

KDDCup99, Real-sim and RCV1 are left out: scikit-learn has loaders of two, for those who have a network.
"""

# %%
# "chi_1" is the paper's product noise. Theorem 8 does not claim 1 / n^2 for it at k = 1000, but more: 1e-4 for a
# hundred dimensions. What is true is printed below.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import compare_models, linear_problems, output_perturbation, parse_arguments

from skdprp import PrivacyWarning
from skdprp.mechanisms import Published

options = parse_arguments(full="larger data, more epsilons and trials", data="MNIST (t10k-*.gz), a9a and a9a.t")
NOISES = {
    "product, k = 1000 (not private)": {"radius": "chi1", "calibration": Published(k=1000.0)},
    "classic Gaussian": {"radius": "gaussian", "calibration": "published"},
    "analytic Gaussian": {"radius": "gaussian"},
    "multivariate Laplace, delta = 0": {"radius": "gamma", "delta": 0.0},
    "Gamma radius (default)": {"radius": "gamma"},
    "product, exact": {"radius": "chi1"},
}
STYLES = dict(zip(NOISES, ("C1x--", "C6v:", "C6^:", "C2D-", "C0s-", "C1o-"), strict=True))
EPSILONS = tuple(10.0 ** np.arange(-4, -0.9, 0.5))
warnings.simplefilter("ignore", PrivacyWarning)


def penalty(problem, n):
    """C of the paper's Lambda."""
    return 1 / (n * (1e-2 if "a9a" in problem else 1e-4))


def reproduce(loss):
    """Compare the noises for one loss."""
    models = {name: output_perturbation(loss=loss, **noise) for name, noise in NOISES.items()}
    title = f"Output perturbation, {loss}"
    compare_models(options, f"pn_output_perturbation_{loss}", title, models, STYLES, penalty, EPSILONS, loss)


reproduce("log_loss")
plt.show()

# %%
# The same for the Huber hinge, where classes are told apart one against the rest.
reproduce("huber_hinge")
plt.show()

# %%
# Corollary 2: noise n on the weights raises the mean loss of L-Lipschitz rows by at most L times its norm, so that the
# mean excess is at most L E|n|. This is an upper bound, and holds for any noise. The corollary states it as an
# equation, which is false.
for problem, (X, _, y, _) in linear_problems(options).items():
    if len(np.unique(y)) == 2:
        signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
        C = penalty(problem, len(y))
        bare = output_perturbation("gamma", epsilon=1e9, C=C).fit(X, y)
        for epsilon in EPSILONS[::2]:
            noisy = output_perturbation(**NOISES["product, k = 1000 (not private)"], epsilon=epsilon, C=C)
            fits = [noisy.fit(X, y).coef_[0] for _ in range(10)]
            losses = [np.logaddexp(0, -signs * (X @ coef)).mean() for coef in (bare.coef_[0], *fits)]
            size = np.mean([np.linalg.norm(coef - bare.coef_[0]) for coef in fits])
            print(
                f"{problem}, epsilon {epsilon:g}: excess of the mean loss {np.mean(losses[1:]) - losses[0]:.3g}, "
                f"mean norm of the noise {size:.3g}"
            )

# %%
# As in the paper, product noise as published is the most accurate, and varies least between fits (Observations 1 and
# 2). Its guarantee does not hold: the true delta, printed above, is orders of magnitude above 1 / n^2. With the noise
# that this guarantee really needs, the same radius leaves models at chance. Gamma and analytic Gaussian noise hide what
# they claim to hide, and hardly differ in these dimensions; multivariate Laplace noise costs more, and has delta = 0.
