"""
Sign projections: flips by level and by projection
==================================================

After Figures 6 to 9 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): the probability that a sign is flipped, by randomised response (RR) and by the smooth rule; the
levels L_j = ceil(abs(x_j) / c_j) of real rows, where c_j is how far a change of beta in one coordinate moves
projection j; and P_+, the probability that a sign is released unflipped, averaged over rows and signs. Data: with
``--data DIR`` MNIST, otherwise the small digits of scikit-learn. Which rows and sizes the paper used is not known to
us. Pixels are shifted by 1/2, a public constant, since signs of uncentred rows say little.
"""

# %%
# The smooth rule flips a sign of level L with probability 1 / (1 + exp(L epsilon')): the further from zero, the rarer.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import MARKERS, parse_arguments, read_digits, save

from skdprp import DPSignOPORP, DPSignRP
from skdprp.mechanisms import flip_probability
from skdprp.random_projection import make_projection
from skdprp.sensitivity import component_sensitivity

options = parse_arguments(full="all rows instead of 1000, and more epsilons", data="MNIST, as t10k-*-ubyte.gz")
X, _, name = read_digits(options.data)
X = X[: len(X) if options.full else 1000] - 0.5
N_COMPONENTS = 64 if options.data else 16
epsilons = np.geomspace(0.5, 50, 15 if options.full else 8)
flips = {epsilon: flip_probability(np.arange(1, 41), epsilon) for epsilon in (0.05, 0.2, 1.0)}

# %%
# Levels are properties of the projection alone, so they are computed from it here: this is not a release.
KINDS = ("gaussian", "uniform", "very_sparse", "rademacher", "oporp")
levels = {}
for kind in KINDS:
    W = make_projection(kind, X.shape[1], N_COMPONENTS, np.random.RandomState(0))
    change = component_sensitivity(W, 1.0)
    levels[kind] = np.ceil(np.abs(W.project(X)) / np.where(change > 0, change, np.inf))

# %%
# P_+ is measured on released sketches, against the signs of the projection. Only OPORP may give each bit the whole
# epsilon; the others share it among k bits, because one coordinate reaches all of them.
released = {kind: DPSignRP(N_COMPONENTS, projection=kind, random_state=0) for kind in KINDS[:-1]}
released["oporp"] = DPSignOPORP(N_COMPONENTS, random_state=0)


def unflipped(sketch, epsilon):
    """Share of released signs that are those of the projection."""
    signs = sketch.set_params(epsilon=epsilon).fit_transform(X)
    return np.mean(signs == np.where(sketch.projection_.project(X) > 0, 1, -1))


kept = {
    (kind, method): [unflipped(sketch.set_params(method=method), epsilon) for epsilon in epsilons]
    for kind, sketch in released.items()
    for method in ("smooth", "rr")
}

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
for (epsilon, curve), marker in zip(flips.items(), MARKERS, strict=False):
    (line,) = left.plot(np.arange(1, 41), curve, marker=marker, markevery=4, label=f"smooth, epsilon' = {epsilon:g}")
    left.axhline(curve[0], linestyle="--", color=line.get_color(), label=f"RR, epsilon' = {epsilon:g}")
left.set(xscale="log", yscale="log", xlabel="level L", ylabel="probability of a flip", ylim=(1e-4, 1))
left.set_title("A sign of one level")
left.legend(loc="lower left")
for (kind, level), style in zip(levels.items(), [":", "--", "-.", "-", "-"], strict=True):
    middle.plot(np.sort(level.ravel()), np.linspace(0, 1, level.size), style, linewidth=2, label=kind)
middle.set(
    xscale="log", xlabel="level L_j", ylabel="share of signs at or below", title=f"Levels of {name}, k = {N_COMPONENTS}"
)
middle.legend(loc="lower right")
for (kind, marker), color in zip(zip(KINDS, MARKERS, strict=False), range(len(KINDS)), strict=True):
    right.plot(epsilons, kept[kind, "smooth"], marker=marker, color=f"C{color}", label=f"{kind}, smooth")
    right.plot(
        epsilons, kept[kind, "rr"], linestyle="--", color=f"C{color}", label=f"{kind}, RR" if kind == "oporp" else None
    )
right.plot([], [], "k--", label="others, RR")
right.axhline(0.5, color="grey", linestyle=":")
right.set(xscale="log", xlabel="epsilon of one row", ylabel="P_+: share of signs not flipped", ylim=(0.48, 1.02))
right.set_title(f"Released sketches of {name}, k = {N_COMPONENTS}")
right.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
columns = {f"{kind}, {method}": curve for (kind, method), curve in kept.items()}
shares = np.linspace(0, 1, 101)
quantiles = {kind: np.quantile(level, shares) for kind, level in levels.items()}
save(
    options,
    "ll_figures_6_9",
    fig,
    {"epsilon": epsilons} | columns,
    flips={"level": range(1, 41)} | {f"epsilon' = {epsilon:g}": curve for epsilon, curve in flips.items()},
    levels={"share of signs at or below": shares} | quantiles,
)
plt.show()

# %%
# A Rademacher matrix has the highest levels of the dense ones, since its largest entry is no larger than its typical
# one; so its signs are flipped least. OPORP has the lowest levels, as a bin adds up few features, and still keeps most
# signs, because it need not divide epsilon by k; what it loses at large epsilon are bins that add up to zero. Where a
# projection adds up many features, like p = 784 in 64 bins, the smooth rule gains most over RR.
for kind in KINDS:
    print(f"{kind}: median level {np.median(levels[kind]):.0f}, mean {levels[kind].mean():.1f}")
