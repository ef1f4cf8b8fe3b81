"""
Random projections: sensitivity and noise
=========================================

Figures 1 and 2 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): the optimal Gaussian noise against epsilon and against the sensitivity; how far a projection moves
when a row changes, by the distribution of its entries; and, beside them, the noise of each calibration and Laplace
noise.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
delta, beta         1e-6, 1                     the same
p, Figure 2         10 to 1000                  10, 20, 50, 100, 200, 500 and 1000
k, Figure 2         256 and 512                 the same
w                   Gaussian, uniform, very     the same, and OPORP
                    sparse with s = 1, 3, 10
draws               1 or more, not said         5; ``--full``: 50
calibrations        no figure                   Theorems 2.2, 3.1, 3.4, 3.5 and Laplace, p = 1000, k = 256
==================  ==========================  ===================================================================
"""

# %%
# Figure 1: sigma of the optimal Gaussian mechanism.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import DELTA, MARKERS, parse_arguments, save

from skdprp.mechanisms import classic_gaussian_scale, gaussian_scale, kenthapadi_scale, laplace_scale
from skdprp.mechanisms.gaussian_laplace import kenthapadi_bound_scale
from skdprp.random_projection import make_projection
from skdprp.sensitivity import gaussian_l1_sensitivity_bound, l1_sensitivity, l2_sensitivity

options = parse_arguments(full="ten times as many draws")
draws = 50 if options.full else 5
epsilons = np.geomspace(0.1, 100, 31)
sensitivities = np.linspace(0.1, 2, 20)
by_epsilon = {s: [gaussian_scale(epsilon, DELTA, sensitivity=s) for epsilon in epsilons] for s in (0.1, 0.5, 1.0, 2.0)}
by_sensitivity = {e: [gaussian_scale(e, DELTA, sensitivity=s) for s in sensitivities] for e in (0.5, 1.0, 5.0, 20.0)}

# %%
# Figure 2: sensitivity of x = W'u / sqrt(k) when the row u changes by 1 in l1 distance, the longest row of W over
# sqrt(k), for the W that is drawn.
KINDS = {
    "Gaussian (G)": {"kind": "gaussian"},
    "uniform": {"kind": "uniform"},
    "s = 1 (Rademacher, B)": {"kind": "rademacher"},
    "s = 3": {"kind": "very_sparse", "density": 1 / 3},
    "s = 10": {"kind": "very_sparse", "density": 1 / 10},
    "OPORP": {"kind": "oporp"},
}
dimensions = (10, 20, 50, 100, 200, 500, 1000)


def draw(name, p, k):
    """Return projections by some seeds."""
    seeds = map(np.random.RandomState, range(draws))
    return [make_projection(n_features=p, n_components=k, random_state=seed, **KINDS[name]) for seed in seeds]


moved = {
    (name, k): [np.mean([l2_sensitivity(W, "l1", 1.0) for W in draw(name, p, k)]) for p in dimensions]
    for name in KINDS
    for k in (256, 512)
}

# %%
# The scales that the calibrations give. Theorem 2.2 holds below epsilon = 1 only. The scale of Theorem 3.4, *Analytic*
# DP-RP-G, is fixed before a Gaussian projection is drawn; all others use the sensitivity of the projection that was
# drawn.
W = draw("Gaussian (G)", 1000, 256)
l2, l1 = (np.mean([f(w, "l1", 1.0) for w in W]) for f in (l2_sensitivity, l1_sensitivity))
curves = {
    "DP-RP-L": [2**0.5 * laplace_scale(epsilon, sensitivity=l1) for epsilon in epsilons],
    "Analytic DP-RP-G": [
        kenthapadi_bound_scale(epsilon, DELTA, max_change=1.0, n_features=1000, n_components=256)
        for epsilon in epsilons
    ],
    "classic": [
        classic_gaussian_scale(epsilon, DELTA, sensitivity=l2) if epsilon < 1 else np.nan for epsilon in epsilons
    ],
    "DP-RP-G": [kenthapadi_scale(epsilon, DELTA, sensitivity=l2) for epsilon in epsilons],
    "DP-RP-G-OPT": [gaussian_scale(epsilon, DELTA, sensitivity=l2) for epsilon in epsilons],
    "DP-RP-G-OPT-B, DP-OPORP": [gaussian_scale(epsilon, DELTA, sensitivity=1.0) for epsilon in epsilons],
}

fig, axes = plt.subplots(2, 3, figsize=(11, 7.5), layout="constrained")
for s, curve in by_epsilon.items():
    axes[0, 0].plot(epsilons, curve, label=f"sensitivity s = {s:g}")
axes[0, 0].set(xscale="log", yscale="log", xlabel="epsilon, l2 change of s", ylabel="sigma", title="Figure 1, left")
for epsilon, curve in by_sensitivity.items():
    axes[0, 1].plot(sensitivities, curve, label=f"epsilon = {epsilon:g}")
axes[0, 1].set(yscale="log", xlabel="sensitivity", ylabel="sigma", title="Figure 1, right")
for k, ax in zip((256, 512), axes[1], strict=False):
    for (name, marker), color in zip(zip(KINDS, MARKERS, strict=False), range(6), strict=True):
        hollow = {"markerfacecolor": "none", "markersize": 10} if name == "OPORP" else {}
        ax.plot(dimensions, moved[name, k], marker=marker, color=f"C{color}", label=name, **hollow)
    ax.set(xscale="log", xlabel="features p", ylabel="l2 sensitivity to an l1 change of 1", title=f"Figure 2, k = {k}")
for (name, curve), style in zip(curves.items(), ["-.", "-", ":", "--", "-", "-"], strict=True):
    axes[0, 2].plot(epsilons, curve, style, linewidth=2, label=name)
axes[0, 2].set(xscale="log", yscale="log", xlabel="epsilon, l1 change of 1", ylabel="standard deviation of the noise")
axes[0, 2].set_title("Calibrations, p = 1000, k = 256")
axes[1, 2].axis("off")
for ax in axes[0, :2]:
    ax.legend()
# The free panel has the legends of the panel above it, and of those beside it.
keys = (axes[0, 2], "Calibrations", "upper left"), (axes[1, 0], "Figure 2", "lower left")
for ax, title, place in keys:
    axes[1, 2].add_artist(axes[1, 2].legend(*ax.get_legend_handles_labels(), loc=place, title=title))
save(
    options,
    "ll_figures_1_2",
    fig,
    {"epsilon": epsilons} | {f"sigma, sensitivity {s:g}": curve for s, curve in by_epsilon.items()} | curves,
    by_sensitivity={"sensitivity": sensitivities} | {f"epsilon = {e:g}": c for e, c in by_sensitivity.items()},
    sensitivity={"p": dimensions} | {f"{name}, k = {k}": curve for (name, k), curve in moved.items()},
)
plt.show()

# %%
# Rademacher and OPORP have a sensitivity of exactly 1, whatever the draw: this is why they win. The analytic
# calibration is the least noise for each of them, since it inverts the exact privacy profile, and its gain grows with
# epsilon. Laplace noise on a dense projection has to hide an l1 norm that grows with the root of k: it is larger until
# epsilon is in the hundreds.
for k in (256, 512):
    print(f"sensitivity at p = 1000, k = {k}:", *(f"{name} {moved[name, k][-1]:.3f}" for name in KINDS))
for epsilon in (0.5, 5.0, 100.0):
    i = np.argmin(np.abs(epsilons - epsilon))
    print(
        f"noise at epsilon = {epsilons[i]:.2g}:", ", ".join(f"{name} {curve[i]:.3g}" for name, curve in curves.items())
    )
bound = gaussian_l1_sensitivity_bound(DELTA, n_features=1000, n_components=256)
print(f"l1 sensitivity at k = 256: {l1:.1f} drawn, at most {bound:.1f} by Lemma 3.7; sqrt(k) = 16")
crossing = next(e for e in np.geomspace(1, 1e5, 2000) if 2**0.5 * l1 / e < gaussian_scale(e, DELTA, sensitivity=l2))
print(f"Laplace noise is the smaller one from epsilon = {crossing:.0f} on")
