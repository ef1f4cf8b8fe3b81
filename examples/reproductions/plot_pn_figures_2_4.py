"""
Product noise: how large it is
==============================

After Figures 2 to 4 of S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, *Privacy Loss of Noise Perturbation via Concentration
Analysis of a Product Measure* (SIGMOD 2026, arXiv:2512.06253): the expected squared norm of the noise against the
dimension M and against epsilon. Product noise is a random radius times a random direction; that of the paper has a
half-normal radius ("chi_1"). Beside the published calibration stands the exact one of the same noise, and that of a
Gamma radius, the default of :class:`~skdprp.ProductNoiseOutputPerturbation`.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
Figure 2            M from 14 to 100, epsilon   not as a mesh: M from 4 to 100,000 at epsilon = 1, and epsilon from .1
                    to 1, delta 1e-5, k = 1e5   to 10 at M = 784, with the least k at which Theorem 8 claims delta
Figure 3            epsilon .1, delta 1e-6,     the expected squared norms, printed, and not the histogram
                    M = 1e7, k = 1e5
Figure 4            epsilon .1, M from 1e4 to   the same, printed
                    1e10, k = 100 to 10,000
Corollaries 9, 10   f(M), the ratio to classic  printed
                    Gaussian noise
==================  ==========================  ===================================================================
"""

# %%
# E|n|^2 is sigma_M^2 for the chi_1 radius as published, s^2 / 2 for it calibrated exactly, M (M + 1) s^2 for the Gamma
# radius and M sigma^2 for Gaussian noise, all at (epsilon, 1e-5).
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, save

from skdprp.mechanisms import (
    classic_gaussian_scale,
    gaussian_scale,
    published_product_noise_delta,
    published_product_noise_scale,
    spherical_profile,
    spherical_scale,
)

options = parse_arguments(full="more dimensions and epsilons")
DELTA, M = 1e-5, 784
dimensions = np.geomspace(4, 100_000, 25 if options.full else 12).astype(int)
epsilons = np.geomspace(0.1, 10, 17 if options.full else 9)

NORMS = {
    "chi_1, published (not private)": lambda epsilon, m: published_product_noise_scale(epsilon, DELTA, n_dims=m) ** 2,
    "chi_1, exact": lambda epsilon, m: spherical_scale(epsilon, DELTA, n_dims=m, shape=1, power=2) ** 2 / 2,
    "Gaussian, analytic": lambda epsilon, m: m * gaussian_scale(epsilon, DELTA) ** 2,
    "Gamma, exact (default)": lambda epsilon, m: (
        m * (m + 1) * spherical_scale(epsilon, DELTA, n_dims=m, shape=m, power=1) ** 2
    ),
}
by_dimension = {name: np.array([norm(1.0, int(m)) for m in dimensions]) for name, norm in NORMS.items()}
by_epsilon = {name: np.array([norm(epsilon, M) for epsilon in epsilons]) for name, norm in NORMS.items()}


def true_delta(epsilon, m):
    """Least delta of the published noise at the epsilon it claims."""
    scale = np.sqrt(2) * published_product_noise_scale(epsilon, DELTA, n_dims=m)
    return spherical_profile(epsilon, scale=scale, n_dims=m, shape=1, power=2)


deltas = {epsilon: [true_delta(epsilon, int(m)) for m in dimensions] for epsilon in (0.1, 1.0, 4.0)}

# %%
# The right panel is what the published calibration costs: its true delta, where it claims the dotted line.
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.8), layout="constrained")
styles = dict(zip(NORMS, ["C1x--", "C1o-", "k-", "C0s-"], strict=True))
for name, style in styles.items():
    wide = {"linewidth": 4, "alpha": 0.4} if name.startswith("Gaussian") else {}
    left.plot(dimensions, by_dimension[name], style, label=name, **wide)
    middle.plot(epsilons, by_epsilon[name], style, label=name, **wide)
left.set(
    xscale="log", yscale="log", xlabel="dimension M", ylabel="expected squared norm of the noise", title="epsilon = 1"
)
middle.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="expected squared norm of the noise", title=f"M = {M}")
for (epsilon, curve), marker in zip(deltas.items(), "osD", strict=True):
    right.plot(dimensions, curve, marker=marker, label=f"true delta, epsilon = {epsilon:g}")
right.axhline(DELTA, color="black", linestyle=":", label="delta as claimed")
right.set(xscale="log", yscale="log", xlabel="dimension M", ylabel="delta", title="chi_1, published", ylim=(3e-6, 2))
right.legend(loc="center right")
fig.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4)
save(
    options,
    "pn_figures_2_4",
    fig,
    {"M": dimensions} | by_dimension,
    epsilon={"epsilon": epsilons} | by_epsilon,
    true_delta={"M": dimensions} | {f"epsilon = {epsilon:g}": curve for epsilon, curve in deltas.items()},
)
plt.show()

# %%
# As published, product noise is far smaller than Gaussian noise in high dimension: this is the paper's claim. It rests
# on a privacy loss that leaves out a Jacobian, M - 1 times the logarithm of the ratio of two norms. With it, the true
# delta is above 0.1 from a hundred dimensions on, and the same noise calibrated to what it claims is some hundred
# million times larger than Gaussian noise. The density of chi_1 noise is infinite at its centre, and that gives the
# centre away. What does hold is modest: noise with a Gamma radius is never larger than Gaussian noise, much smaller in
# few dimensions, and the same in many.
for m in (4, 25, 784, 100_000):
    i = np.argmin(np.abs(np.log(dimensions / m)))
    base = by_dimension["Gaussian, analytic"][i]
    figures = ", ".join(f"{name} {curve[i] / base:.3g}" for name, curve in by_dimension.items())
    print(f"M = {dimensions[i]}, epsilon = 1, relative to Gaussian: {figures}")

# %%
# The settings of the paper. Figure 3: squared norms at M = 10^7.
known = {"n_dims": 10**7, "k": 1e5}
norms = {
    "product": published_product_noise_scale(0.1, 1e-6, **known) ** 2,
    "classic Gaussian": 1e7 * classic_gaussian_scale(0.1, 1e-6, sensitivity=1.0) ** 2,
    "analytic Gaussian": 1e7 * gaussian_scale(0.1, 1e-6, sensitivity=1.0) ** 2,
}
print("Figure 3:", ", ".join(f"{name} {norm:.3g}" for name, norm in norms.items()))
for m in (10**4, 10**6, 10**8, 10**10):
    for k in (100.0, 1000.0, 10_000.0):
        claimed = published_product_noise_delta(0.1, k=k, n_dims=m)
        norm = published_product_noise_scale(0.1, 1e-5, n_dims=m, k=k) ** 2
        print(f"Figure 4: M = {m:.0e}, k = {k:g}: claimed delta {claimed:.3g}, squared norm {norm:.4g}")
for m in (10, 12, 14, 100, 10**6, 10**10):
    ratio = published_product_noise_scale(0.1, 1e-5, n_dims=m, k=1e5) ** 2
    print(
        f"Corollaries 9 and 10: f({m:.3g}) = {ratio / m / classic_gaussian_scale(0.1, 1e-5, sensitivity=1.0) ** 2:.4g}"
    )
print(f"limit of f: {1 / (4 * np.e * np.log(1.25e5)):.4g}")
