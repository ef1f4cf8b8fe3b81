"""
Sketched regression: error against the number of rows
=====================================================

Figure 1 of M. Showkatbakhsh, C. Karakus and S. Diggavi, *Privacy-Utility Trade-off of Linear Regression under Random
Projections and Additive Noise* (ISIT 2018): the relative error eta, the sum of squared residuals over the least
possible one, of additive noise and of projections to n' rows, at 0.5 bits.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
X                   uniform on [-1, 1], d=800   the same
n                   1000 k, k = 1, ..., 20      the same under ``--full``; otherwise k = 1, 2, 5, 10
n'                  1000 (log k + 1), 1000      the same; log is the natural one (the base is not given), and n' is
                    (k + 1) / 2, n              rounded down
y                   not given                   a signal as strong as the noise, and one ten times as strong: r(y) = 1
                                                and 10, which changes the verdict
trials              5                           projections: their expectation, and single fits beside it at r(y) = 1;
                                                additive noise: 5 trials under ``--full``, otherwise one
sigma of            (13), read from the data,   the same, dashed; and the exact one, n' / (2^(2 epsilon) - 1), solid
projections         not private
==================  ==========================  ===================================================================
"""

# %%
# A projection is a regression on normal rows whose expected error has a closed form, see
# :func:`~skdprp.linear_model.projection_expected_error`. It and eta depend on ``X'X``, ``X'y`` and ``y'y`` only: the
# triangular factor of [X, y] stands for the data.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import SKETCHED_RULES, draw_regressions, parse_arguments, save, sketched_regressor

from skdprp.linear_model import perturbation_error_bound, projection_expected_error, relative_error
from skdprp.mechanisms import information_scale
from skdprp.mechanisms.published import published_information_scale

options = parse_arguments(full="k from 1 to 20, 5 trials")
EPSILON, N_FEATURES = 0.5, 800
ks = range(1, 21) if options.full else (1, 2, 5, 10)
trials = 5 if options.full else 1


def measured(X, y, triangle, target, **parameters):
    """Mean eta of releases of the data, computed on their triangular factor."""
    models = [sketched_regressor(EPSILON, **parameters).fit(X, y) for _ in range(trials)]
    return np.mean([relative_error(triangle, target, model.coef_) for model in models])


rows = []
for k in ks:
    n = 1000 * k
    X, targets, triangle, triangle_targets, residual = draw_regressions(n, N_FEATURES, (1.0, 10.0))
    singular = np.linalg.svd(triangle, compute_uv=False)
    settings = {}  # n' and sigma of each curve
    for name, rule in SKETCHED_RULES.items():
        size = {"n_components": rule(n, k, 1000), "max_abs": 1.0}
        scale = published_information_scale(EPSILON, residual=residual, **size)
        settings[f"{name}, exact"] = size["n_components"], information_scale(EPSILON, **size)
        settings[f"{name}, published"] = size["n_components"], scale
    sizes, scales = zip(*settings.values(), strict=True)
    for (r, y), target in zip(targets.items(), triangle_targets.values(), strict=True):
        row = {"n": n, "r(y)": r, "additive": measured(X, y, triangle, target, mechanism="additive")}
        errors = 1 + projection_expected_error(triangle, target, n_components=sizes, scale=scales)
        row |= dict(zip(settings, errors, strict=True))
        for name, rule in SKETCHED_RULES.items() if r == 1 else ():
            size = rule(n, k, 1000)
            row[f"{name}, exact, measured"] = measured(
                X, y, triangle, target, mechanism="projection", n_components=size
            )
        # Theorem 1, at a failure so likely that its own free parameter counts for nothing.
        noise = {"scale": information_scale(EPSILON), "largest_singular": singular[0], "failure": 1.0}
        kappa = singular[0] / singular[-1]
        row["kappa Delta"] = kappa * noise["scale"] / singular[0] * (np.sqrt(n) + np.sqrt(N_FEATURES))
        row["Theorem 1"] = perturbation_error_bound(
            n_samples=n, n_features=N_FEATURES, condition_number=kappa, r=r, **noise
        )
        rows.append(row)

fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for ax, r in zip(axes, (1.0, 10.0), strict=True):
    part = [row for row in rows if row["r(y)"] == r]
    sizes = [row["n"] for row in part]
    ax.plot(sizes, [row["additive"] for row in part], color="black", marker="^", label="additive")
    for color, name in enumerate(SKETCHED_RULES):
        for calibration, style in {"exact": "-", "published": "--"}.items():
            label = f"{name}, {calibration}" + " (not private)" * (calibration == "published")
            ax.plot(sizes, [row[f"{name}, {calibration}"] for row in part], f"C{color}{style}", label=label)
        if r == 1:
            ax.plot(sizes, [row[f"{name}, exact, measured"] for row in part], f"C{color}o")
    ax.set(yscale="log", xlabel="rows n", ylabel="relative error eta", title=f"r(y) = {r:g}")
axes[0].legend()
fig.suptitle(f"MI-DP regression at {EPSILON} bits, d = {N_FEATURES}; dots are fits")
save(options, "skd_figure_1", fig, rows)
plt.show()

# %%
# At this d projections are not always better. With few rows additive noise is better: it keeps all rows, which matters
# more than that it shrinks the weights more. With more rows projections are better, most of all with a strong signal.
# How much depends on the calibration: where n' is far below n, the published one adds next to no noise, and its errors
# at r(y) = 10 are a small part of those of the exact one; that is the large gain of the figure, and it has no
# guarantee. Theorem 1, on additive noise, says nothing anywhere in this figure: it needs a kappa Delta below 1.
for row in rows:
    print(", ".join(f"{name} {value:.4g}" for name, value in row.items()))
