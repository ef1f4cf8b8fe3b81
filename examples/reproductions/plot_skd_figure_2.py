"""
Sketched regression: error against epsilon
==========================================

Figure 2 of M. Showkatbakhsh, C. Karakus and S. Diggavi, *Privacy-Utility Trade-off of Linear Regression under Random
Projections and Additive Noise* (ISIT 2018): the relative error eta, the sum of squared residuals over the least
possible one, of additive noise and of projections to n' rows, at n = 10,000 and several epsilons.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
X                   uniform on [-1, 1], d=800,  the same
                    n = 10,000
n'                  logarithmic, linear, full   the same, at k = 10: 3302, 5500 and 10,000
y                   not given                   a signal as strong as the noise, and one ten times as strong
epsilon             not given in the text       from .05 to 4 bits
trials              not given                   projections: their expectation; additive noise: one fit, 5 under
                                                ``--full``
sigma of            (13), read from the data,   the same, dashed; and the exact one, n' / (2^(2 epsilon) - 1), solid
projections         not private
==================  ==========================  ===================================================================
"""

# %%
# The expected error of a projection has a closed form, and depends on ``X'X``, ``X'y`` and ``y'y`` only: the triangular
# factor of [X, y] stands for the data.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import SKETCHED_RULES, draw_regressions, parse_arguments, save, sketched_regressor

from skdprp.linear_model import projection_expected_error, relative_error
from skdprp.mechanisms import information_scale
from skdprp.mechanisms.mutual_information import information_delta
from skdprp.mechanisms.published import published_information_scale

options = parse_arguments(full="more epsilons, 5 trials")
N, N_FEATURES = 10_000, 800
epsilons = np.geomspace(0.05, 4, 13 if options.full else 5)
trials = 5 if options.full else 1

X, targets, triangle, triangle_targets, residual = draw_regressions(N, N_FEATURES, (1.0, 10.0))


def additive_error(r, epsilon):
    """Mean eta of releases with additive noise."""
    models = [sketched_regressor(epsilon, "additive").fit(X, targets[r]) for _ in range(trials)]
    return np.mean([relative_error(triangle, triangle_targets[r], model.coef_) for model in models])


curves, sizes, scales = [], [], []  # a scale for each curve and epsilon
for name, rule in SKETCHED_RULES.items():
    size = {"n_components": rule(N, N / 1000, 1000), "max_abs": 1.0}
    scales.append([information_scale(epsilon, **size) for epsilon in epsilons])
    scales.append([published_information_scale(epsilon, residual=residual, **size) for epsilon in epsilons])
    curves += [f"{name}, exact", f"{name}, published"]
    sizes += 2 * [size["n_components"]]

rows = []
for r, target in triangle_targets.items():
    errors = 1 + projection_expected_error(triangle, target, n_components=np.array(sizes)[:, None], scale=scales)
    for epsilon, column in zip(epsilons, errors.T, strict=True):
        row = {"r(y)": r, "epsilon": epsilon, "additive": additive_error(r, epsilon)}
        rows.append(row | dict(zip(curves, column, strict=True)))

fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for ax, r in zip(axes, targets, strict=True):
    part = [row for row in rows if row["r(y)"] == r]
    ax.plot(epsilons, [row["additive"] for row in part], color="black", marker="^", label="additive")
    for color, name in enumerate(SKETCHED_RULES):
        for calibration, style in {"exact": "o-", "published": "x--"}.items():
            label = f"{name}, {calibration}" + " (not private)" * (calibration == "published")
            ax.plot(epsilons, [row[f"{name}, {calibration}"] for row in part], f"C{color}{style}", label=label)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="epsilon in bits, one entry",
        ylabel="relative error eta",
        title=f"r(y) = {r:g}",
    )
axes[0].legend()
fig.suptitle(f"MI-DP regression, n = {N}, d = {N_FEATURES}")
save(options, "skd_figure_2", fig, rows)
plt.show()

# %%
# As the paper says, fewer rows n' are better for small epsilons and more rows for large ones, where the error saturates
# at what a regression on n' rows costs. Additive noise does not saturate: with the weak signal it is the best from one
# bit or so on, with the strong one from nearly three, but such an epsilon hides little. Below that, projections with n'
# far below n are better, most of all with a strong signal; with n' = n they are not. An epsilon in bits bounds the
# total variation distance between the releases of two values of one entry: from one bit on the bound is 1, and an entry
# that is 0 or 1 may be revealed entirely.
for row in rows:
    values = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
    print(f"{values}; total variation up to {information_delta(row['epsilon']):.3f}")
