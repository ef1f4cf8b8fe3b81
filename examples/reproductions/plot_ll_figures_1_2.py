"""
Random projections: sensitivity and noise
=========================================

After Figures 1 and 2 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): how far a projection moves when a row changes, by the distribution of its entries, and how much
Gaussian noise hides that, by calibration. Sizes, delta and the number of draws are our choice.
"""

# %%
# Sensitivity of x = W'u / sqrt(k) when the row u changes by 1 in l1 distance: the longest row of W over sqrt(k), for
# the W that is drawn. Bars span the draws.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import MARKERS, parse_arguments, save

from skdprp.mechanisms import classic_gaussian_scale, gaussian_scale, kenthapadi_scale
from skdprp.mechanisms.gaussian_laplace import kenthapadi_bound_scale
from skdprp.random_projection import make_projection
from skdprp.sensitivity import l2_sensitivity

options = parse_arguments(full="10,000 features instead of 1000, and more draws")
n_features, draws = (10_000, 20) if options.full else (1000, 5)
DELTA, N_COMPONENTS = 1e-6, 256
NAMES = {
    "gaussian": "Gaussian (G)",
    "uniform": "uniform",
    "very_sparse": "very sparse",
    "rademacher": "Rademacher (B)",
    "oporp": "OPORP",
}
sizes = 2 ** np.arange(4, 11)


def sensitivities(kind, k):
    """Sensitivity of each draw of a projection."""
    seeds = [np.random.RandomState(draw) for draw in range(draws)]
    return np.array([l2_sensitivity(make_projection(kind, n_features, k, seed), "l1", 1.0) for seed in seeds])


moved = {kind: np.array([sensitivities(kind, k) for k in sizes]) for kind in NAMES}

# %%
# Standard deviation of the noise of one component at k = 256. "classic" is the textbook formula, which is valid below
# epsilon = 1 only; "a priori" is Analytic DP-RP-G, fixed before a Gaussian projection is drawn; all others use the
# sensitivity of the projection that was drawn. "analytic" is OPT.
epsilons = np.geomspace(0.1, 20, 24)
gaussian = moved["gaussian"][list(sizes).index(N_COMPONENTS)].mean()
curves = {
    "G, a priori (Analytic DP-RP-G)": [
        kenthapadi_bound_scale(epsilon, DELTA, max_change=1.0, n_features=n_features, n_components=N_COMPONENTS)
        for epsilon in epsilons
    ],
    "G, classic": [
        classic_gaussian_scale(epsilon, DELTA, sensitivity=gaussian) if epsilon < 1 else np.nan for epsilon in epsilons
    ],
    "G, Kenthapadi (DP-RP-G)": [kenthapadi_scale(epsilon, DELTA, sensitivity=gaussian) for epsilon in epsilons],
    "G, analytic (DP-RP-G-OPT)": [gaussian_scale(epsilon, DELTA, sensitivity=gaussian) for epsilon in epsilons],
    "B or OPORP, analytic": [gaussian_scale(epsilon, DELTA, sensitivity=1.0) for epsilon in epsilons],
}

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for (kind, name), marker in zip(NAMES.items(), MARKERS, strict=False):
    center = moved[kind].mean(axis=1)
    spread = [center - moved[kind].min(axis=1), moved[kind].max(axis=1) - center]
    hollow = {"markerfacecolor": "none", "markersize": 10} if kind == "oporp" else {}
    left.errorbar(sizes, center, spread, marker=marker, capsize=3, label=name, **hollow)
left.set(xscale="log", yscale="log", xlabel="components k", ylabel="l2 sensitivity to an l1 change of 1")
left.set_title(f"Sensitivity, p = {n_features} features")
left.set_xticks(sizes, [str(k) for k in sizes], minor=False)
left.set_yticks([1, 1.5, 2, 3, 4], ["1", "1.5", "2", "3", "4"])
left.minorticks_off()
left.legend()
for (name, curve), style in zip(curves.items(), ["-", ":", "--", "-", "-"], strict=True):
    right.plot(epsilons, curve, style, linewidth=2, label=name)
right.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="standard deviation of the noise")
right.set_title(f"Noise, delta = {DELTA:g}, k = {N_COMPONENTS}")
right.legend()
save(
    options,
    "ll_figures_1_2",
    fig,
    {"epsilon": epsilons} | curves,
    sensitivity={"k": sizes} | {kind: values.mean(axis=1) for kind, values in moved.items()},
)
plt.show()

# %%
# Rademacher and OPORP have a sensitivity of exactly 1, whatever the draw: this is why they win. A Gaussian matrix comes
# near it as k grows; a very sparse one pays for its large entries where k is small. The analytic calibration is the
# least noise for each of them, since it inverts the exact privacy profile. Its gain grows with epsilon.
for epsilon in (0.5, 5.0):
    i = np.argmin(np.abs(epsilons - epsilon))
    figures = ", ".join(f"{name} {curve[i]:.3g}" for name, curve in curves.items())
    print(f"epsilon = {epsilons[i]:.2g}: {figures}")
