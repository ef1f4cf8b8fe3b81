"""
Sketched regression: error against epsilon
==========================================

After Figure 2 of M. Showkatbakhsh, C. Karakus and S. Diggavi, *Privacy-Utility Trade-off of Linear Regression under
Random Projections and Additive Noise* (ISIT 2018): by how much the sum of squared residuals exceeds the least possible
one, for additive noise and for projections, at several epsilons. Its exact data are not known to us; these are made up.
"""

# %%
# Data: entries spread evenly over [-1, 1], and a target that they explain to one half.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, save

from skdprp import MIDPRegressor, PrivacyWarning
from skdprp.linear_model import least_residual
from skdprp.mechanisms.mutual_information import information_delta

options = parse_arguments(full="half a million rows, and more epsilons")
n, d, repeats = 500_000 if options.full else 20_000, 10, 30
epsilons = np.geomspace(0.02, 2, 9 if options.full else 6)

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (n, d))
signal = X @ rng.normal(size=d)
y = signal + signal.std() * rng.normal(size=n)
least = np.sum((y - X @ np.linalg.lstsq(X, y)[0]) ** 2)

# %%
# Three ways to calibrate a projection to the same epsilon. "exact" needs nothing but n' and the bound on entries.
# "bound" may use less noise if the residuals are known to be large; here the largest true bound is computed from the
# data, which is allowed only because they are made up. "published" uses f(X), which is larger: it leaves the other
# columns and y out of account, although they are projected by the same matrix and help to subtract what should hide the
# entry. It is not private.
n_components = n // 40
settings = {
    "additive": {"mechanism": "additive"},
    "projection, n' auto, exact": {},
    f"projection, n' = {n_components}, exact": {"n_components": n_components},
    f"projection, n' = {n_components}, bound": {
        "n_components": n_components,
        "min_residual": least_residual(X, y) * (1 - 1e-9),
    },
    f"projection, n' = {n_components}, published (not private)": {
        "n_components": n_components,
        "calibration": "published",
    },
}
styles = ["k^-", "C0o-", "C1o-", "C2s-", "C1x--"]


def relative_error(**parameters):
    """Median over releases of the excess over the least sum of squares, as a share of it."""
    models = [MIDPRegressor(**parameters).fit(X, y) for _ in range(repeats)]
    return np.median([np.sum((y - model.predict(X)) ** 2) for model in models]) / least - 1


warnings.simplefilter("ignore", PrivacyWarning)
errors = {
    name: [relative_error(epsilon=epsilon, **setting) for epsilon in epsilons] for name, setting in settings.items()
}

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
for (name, curve), style in zip(errors.items(), styles, strict=True):
    ax.plot(epsilons, curve, style, label=name)
ax.set(xscale="log", yscale="log", xlabel="epsilon in bits", ylabel="relative error of the sum of squares")
ax.set_title(f"MI-DP regression, n = {n}, d = {d}")
ax.legend()
save(options, "skd_figure_2", fig, {"epsilon": epsilons} | errors)
plt.show()

# %%
# What the epsilons mean: the largest total variation between the releases of two values of one entry. From one bit on,
# an entry of one bit may be lost entirely.
for i, epsilon in enumerate(epsilons):
    curves = ", ".join(f"{curve[i]:.3g}" for curve in errors.values())
    print(f"epsilon = {epsilon:.3f} bits, total variation up to {information_delta(epsilon):.3f}: {curves}")
