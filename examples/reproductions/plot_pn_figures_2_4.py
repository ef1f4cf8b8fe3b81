"""
Product noise: how large it is
==============================

Figures 2 to 4 and 9 of S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, *Privacy Loss of Noise Perturbation via Concentration
Analysis of a Product Measure* (SIGMOD 2026, arXiv:2512.06253): the squared norm of the noise against the dimension M,
epsilon and the tuning parameter k, and the delta that is claimed for it. Product noise is a random radius times a
random direction; that of the paper has a half-normal radius ("chi_1"). Beside the published calibration stands the
exact one of the same noise, and that of a Gamma radius, the default of
:class:`~skdprp.ProductNoiseOutputPerturbation`.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
Figure 2            M from 14 to 100, epsilon   the same, by lines at three M in the place of a mesh
                    to 1, delta 1e-5, k = 1e5
Figure 3            epsilon .1, delta 1e-6,     the same; norms are drawn by their chi-square distributions, 100,000
                    M = 1e7, k = 1e5, a         times, a million times under ``--full``
                    million draws
Figure 4            epsilon .1, M from 1e4 to   the same; delta of Gaussian noise is 1e-5
                    1e10, k = 100 to 10,000
Figure 9            epsilon .1, k = 1000,       the same
                    M = 1e6 and 1e8
Corollaries 9, 10   f(M), the ratio to classic  printed
                    Gaussian noise
true delta          none                        M from 4 to 100,000, epsilon from .1 to 10, with the least k at which
                                                Theorem 8 claims delta = 1e-5
==================  ==========================  ===================================================================
"""

# %%
# E|n|^2 is sigma_M^2 for the chi_1 radius as published, s^2 / 2 for the same radius with exact calibration, M (M + 1)
# s^2 for the Gamma radius and M sigma^2 for Gaussian noise, all at (epsilon, 1e-5).
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
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 4.4), layout="constrained")
styles = dict(zip(NORMS, ["C1x--", "C1o-", "k-", "C0s-"], strict=True))
for name, style in styles.items():
    wide = {"linewidth": 4, "alpha": 0.4} if name.startswith("Gaussian") else {}
    left.plot(dimensions, by_dimension[name], style, label=name, **wide)
    middle.plot(epsilons, by_epsilon[name], style, label=name, **wide)
left.set(
    xscale="log", yscale="log", xlabel="dimension M", ylabel="expected squared norm of the noise", title="epsilon = 1"
)
middle.set(
    xscale="log",
    yscale="log",
    xlabel="epsilon, l2 change of 1",
    ylabel="expected squared norm of the noise",
    title=f"M = {M}",
)
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
# As published, product noise is far smaller than Gaussian noise in high dimension: this is the paper's claim. Its proof
# leaves out a term of the privacy loss (a Jacobian): M - 1 times the logarithm of the ratio of two norms. With this
# term, the true delta is above 0.1 from a hundred dimensions on, and the same noise calibrated to what it claims is
# some hundred million times larger than Gaussian noise. The density of chi_1 noise is infinite at its centre, so
# outputs near the centre reveal it. What does hold is modest: noise with a Gamma radius is hardly larger than Gaussian
# noise anywhere here, much smaller in few dimensions, and the same in many.
for m in (4, 25, 784, 100_000):
    i = np.argmin(np.abs(np.log(dimensions / m)))
    base = by_dimension["Gaussian, analytic"][i]
    figures = ", ".join(f"{name} {curve[i] / base:.3g}" for name, curve in by_dimension.items())
    print(f"M = {dimensions[i]}, epsilon = 1, relative to Gaussian: {figures}; true delta {deltas[1.0][i]:.3g}")

# %%
# The figures of the paper, of noise that is not private. In Figure 2, the norms of both Gaussian noises grow with M,
# that of product noise hardly does.
K, GAUSSIAN = 1e5, {"classic Gaussian": classic_gaussian_scale, "analytic Gaussian": gaussian_scale}
below_1 = np.geomspace(0.01, 0.99, 12)


def product_norm(epsilon, m, k):
    """E|n|^2 of product noise at a given k."""
    return published_product_noise_scale(epsilon, DELTA, n_dims=m, k=k) ** 2


figure_2 = {
    f"{name}, M = {m}": [m * scale(e, DELTA, sensitivity=1.0) ** 2 for e in below_1]
    for name, scale in GAUSSIAN.items()
    for m in (14, 50, 100)
} | {f"product, M = {m}": [product_norm(e, m, K) for e in below_1] for m in (14, 50, 100)}

rng = np.random.default_rng(0)
draws, m = 1_000_000 if options.full else 100_000, 10**7
figure_3 = {"product": product_norm(0.1, m, K) * rng.chisquare(1, draws)}
figure_3 |= {name: scale(0.1, 1e-6, sensitivity=1.0) ** 2 * rng.chisquare(m, draws) for name, scale in GAUSSIAN.items()}

large = [10**exponent for exponent in (4, 6, 8, 10)]
figure_4 = {
    k: [(published_product_noise_delta(0.1, k=k, n_dims=m), product_norm(0.1, m, k)) for m in large]
    for k in (100.0, 1000.0, 10_000.0)
}


def approximate_delta(q, m, k=1000.0, epsilon=0.1):
    """(19), an upper bound of (12) in closed form."""
    lam2 = epsilon**2 / (2 * k ** (2 / q) * ((q + 3) / 2) ** (1 + 2 / q) / np.exp(1 + 1 / q))
    share = (1 + lam2 * (q + 1)) / np.sqrt((m - q - 1.5) * (q + 0.75))
    return 2 * np.exp(-lam2 / 2) * np.sqrt(m - 1) / (k * np.sqrt(np.pi)) * share


shares = np.append(np.linspace(0.02, 0.98, 49), 0.5)
figure_9 = {
    m: [(published_product_noise_delta(0.1, k=1000.0, n_dims=m, q=s * m), approximate_delta(s * m, m)) for s in shares]
    for m in (10**6, 10**8)
}

fig, axes = plt.subplots(2, 3, figsize=(11, 7.5), layout="constrained")
for (name, curve), style in zip(
    figure_2.items(), [f"{c}{line}" for c in ("C0", "C2", "C1") for line in ("-", "--", ":")], strict=True
):
    axes[0, 0].plot(below_1, curve, style, label=name)
axes[0, 0].set(
    xscale="log", yscale="log", xlabel="epsilon, l2 change of 1", ylabel="expected squared norm", title="Figure 2"
)
axes[0, 0].set_ylim(bottom=1e-5)  # below the lines is the legend
axes[0, 0].legend(loc="lower left", fontsize="x-small")
for (name, squares), color in zip(figure_3.items(), ("C1", "C0", "C2"), strict=True):
    axes[0, 1].hist(squares, bins=200, density=True, histtype="stepfilled", alpha=0.6, color=color, label=name)
axes[0, 1].set(yscale="log", xlabel="squared norm", ylabel="density", title="Figure 3, M = 1e7, epsilon = 0.1")
axes[0, 1].legend()
for (k, pairs), marker in zip(figure_4.items(), "osD", strict=True):
    claims, norms = zip(*pairs, strict=True)
    axes[0, 2].plot(large, claims, f"C1{marker}--", label=f"k = {k:g}")
    axes[1, 0].plot(large, norms, f"C1{marker}--", label=f"product, k = {k:g}")
for (name, scale), color in zip(GAUSSIAN.items(), ("C0", "C2"), strict=True):
    axes[1, 0].plot(large, [m * scale(0.1, DELTA, sensitivity=1.0) ** 2 for m in large], color=color, label=name)
axes[0, 2].set(xscale="log", yscale="log", xlabel="M", ylabel="delta, as claimed", title="Figure 4a, epsilon = 0.1")
axes[1, 0].set(xscale="log", yscale="log", xlabel="M", ylabel="expected squared norm", title="Figure 4b")
for (m, pairs), ax in zip(figure_9.items(), axes[1, 1:], strict=True):
    order = np.argsort(shares)
    for values, style, label in zip(np.transpose(pairs)[:, order], ("C1-", "k--"), ("(12)", "(19)"), strict=True):
        ax.plot(shares[order] * m, values, style, label=label)
    ax.set(yscale="log", xlabel="q", ylabel="delta, as claimed", title=f"Figure 9, M = {m:.0e}")
for ax in axes.flat[2:]:
    ax.legend()
columns = {
    f"{name}, M = {m:.0e}": np.transpose(pairs)[i]
    for m, pairs in figure_9.items()
    for i, name in ((0, "(12)"), (1, "(19)"))
}
save(options, "pn_figures_2_9", fig, {"epsilon": below_1} | figure_2, figure_9={"q / M": shares} | columns)
plt.show()

# %%
# As in the paper, but for Figure 2 at M = 14, where analytic Gaussian noise is the smaller one for small epsilons. In
# Figure 3, squared norms of product noise are below those of the others by a factor of 72 and more, in Figure 4 they
# hardly depend on k, and (12) is the least near q = M / 2, where it is flat. Kurtosis and skewness of the squared norm
# are those of a chi-square of nu degrees of freedom, 3 + 12 / nu and sqrt(8 / nu): 15 and 2.83 for nu = 1.
for m in (14, 50, 100):
    product, analytic = figure_2[f"product, M = {m}"], figure_2[f"analytic Gaussian, M = {m}"]
    above = [f"{e:.2g}" for e, is_above in zip(below_1, np.greater(product, analytic), strict=True) if is_above]
    print(f"Figure 2: M = {m}: product noise above analytic Gaussian noise at epsilon", ", ".join(above) or "none")
for name, squares in figure_3.items():
    z = (squares - squares.mean()) / squares.std()
    size = f"mean {squares.mean():.3g}, standard deviation {squares.std():.2g}"
    print(f"Figure 3: squared norm of {name}: {size}, kurtosis {np.mean(z**4):.2f}, skewness {np.mean(z**3):.2f}")
for k, pairs in figure_4.items():
    for m, (claimed, norm) in zip(large, pairs, strict=True):
        print(f"Figure 4: M = {m:.0e}, k = {k:g}: claimed delta {claimed:.3g}, squared norm {norm:.4g}")
for m, pairs in figure_9.items():
    least = [f"{values.min():.4g} at {shares[values.argmin()]:.2f}" for values in np.transpose(pairs)]
    middle = ", ".join(f"{value:.4g}" for value in pairs[-1])
    print(f"Figure 9: M = {m:.0e}: (12) and (19) at q = M / 2: {middle}; least, and its q / M: {', '.join(least)}")
for m in (10, 12, 14, 100, 10**6, 10**10):
    ratio = product_norm(0.1, m, K)
    print(
        f"Corollaries 9 and 10: f({m:.3g}) = {ratio / m / classic_gaussian_scale(0.1, DELTA, sensitivity=1.0) ** 2:.4g}"
    )
print(f"limit of f: {1 / (4 * np.e * np.log(1.25e5)):.4g}")
