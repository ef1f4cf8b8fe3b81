"""
Random projections: variance of inner products
==============================================

After Figure 3 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): R, the variance of the inner product of two rows estimated from the raw data with noise, over that
from noisy projections. Above 1 it pays to project. The rows here are our choice, uniform with p = 1000 features.
"""

# %%
# Noise on raw data adds up over p features, that on a projection over k components only; the projection has a variance
# of its own. Which of the two wins depends on epsilon.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, save

from skdprp import DPOPORP, DPRandomProjection
from skdprp.similarity import inner_product_variance, inner_products

options = parse_arguments(full="more draws of the check")
draws = 5000 if options.full else 1000
rng = np.random.default_rng(0)
p = 1000
u, v = rng.uniform(0, 1, (2, p))
epsilons = np.geomspace(0.5, 50, 15)
sizes = (32, 128, 512)


def variance(sketch, epsilon):
    """Variance of the estimated inner product, over the draws of the projection and the noise, by formula."""
    sketch.set_params(epsilon=epsilon).fit(u[None])
    return inner_product_variance(u, v, projection=sketch.projection_, noise_variance=sketch.scale_**2)


def measured(make_sketch):
    """Squared deviation from the true inner product, averaged over draws of both."""
    estimates = []
    for draw in range(draws):
        S = make_sketch(draw).fit_transform(np.stack([u, v]))
        estimates.append(inner_products(S[:1], S[1:])[0, 0])
    return np.mean((np.array(estimates) - u @ v) ** 2)


raw = np.array([variance(DPRandomProjection(projection="identity"), epsilon) for epsilon in epsilons])
families = {"Gaussian (G-OPT)": "gaussian", "Rademacher (G-OPT-B)": "rademacher", "OPORP": "oporp"}


def make(kind, k, **parameters):
    """Return a sketch with a projection of the kind."""
    return DPOPORP(k, **parameters) if kind == "oporp" else DPRandomProjection(k, projection=kind, **parameters)


ratios = {
    (name, k): raw / [variance(make(kind, k, random_state=0), epsilon) for epsilon in epsilons]
    for name, kind in families.items()
    for k in sizes
}
checks = {}
for epsilon in epsilons[[4, 9]]:
    base = measured(lambda draw, e=epsilon: DPRandomProjection(projection="identity", epsilon=e))
    for k in sizes:
        own = measured(lambda draw, e=epsilon, k=k: DPOPORP(k, epsilon=e, random_state=draw))
        checks[epsilon, k] = base / own

# %%
# Lines are formulas, crosses OPORP as released, over draws of the projection and of the noise.
fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
for color, k in enumerate(sizes):
    for (name, kind), style in zip(families.items(), [":", "--", "-"], strict=True):
        ax.plot(
            epsilons,
            ratios[name, k],
            style,
            color=f"C{color}",
            linewidth=1 + (kind == "oporp"),
            label=f"k = {k}, {name}",
        )
    points = [(epsilon, checks[epsilon, size]) for epsilon, size in checks if size == k]
    ax.plot(*zip(*points, strict=True), linestyle="none", marker="x", markersize=9, color=f"C{color}")
ax.axhline(1, color="grey", linewidth=1)
ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="R: variance from raw data / from projections")
ax.set_title(f"Inner product of two rows, p = {p}, delta = 1e-6, max_change = 1")
ax.legend(fontsize="x-small", ncols=1)
columns = {f"{name}, k = {k}": curve for (name, k), curve in ratios.items()}
crosses = [{"epsilon": epsilon, "k": k, "R of OPORP, measured": ratio} for (epsilon, k), ratio in checks.items()]
save(options, "ll_figure_3", fig, {"epsilon": epsilons} | columns, measured=crosses)
plt.show()

# %%
# Where noise dominates, R comes near p / k: short sketches win. Where epsilon is large the variance of the projection
# remains and noise on the raw data is the better choice. OPORP and Rademacher coincide up to the factor (P - k) / (P -
# 1) of bins of equal length (P is the padded p), and are above Gaussian projections, whose sensitivity is larger.
for (epsilon, k), ratio in checks.items():
    formula = ratios["OPORP", k][list(epsilons).index(epsilon)]
    print(f"epsilon = {epsilon:.2g}, k = {k}: R by formula {formula:.3g}, measured over {draws} draws {ratio:.3g}")
