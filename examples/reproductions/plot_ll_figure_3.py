"""
Random projections: variance of inner products
==============================================

Figure 3 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): R, the variance of the inner product of two rows of norm 1 estimated from the raw data with noise,
over that from noisy projections. Above 1 it pays to project.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
rows                norm 1                      the same; and norm 18, with the opposite result
p                   1000, 10,000                the same
k / p               .01, .05, .1, .5            the same
horizontal axis     sigma                       sigma, and the epsilon that has it at delta = 1e-6 and beta = 1
R                   by (23), the limit of       by Theorems 3.8 to 3.10 for one pair of rows, drawn, and measured
                    large p
==================  ==========================  ===================================================================
"""

# %%
# The noise on raw data adds up over p features, and the noise on a projection over k components only. But the
# projection itself adds variance, in proportion to 1 / k and to the squared norms of both rows. Which of the two is
# better depends on sigma divided by the norm.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import DELTA, noisy_oporp, noisy_projection, parse_arguments, save
from sklearn.preprocessing import normalize

from skdprp.mechanisms import gaussian_scale
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon
from skdprp.random_projection import make_projection
from skdprp.similarity import inner_product_variance, inner_products

options = parse_arguments(full="more draws of the check")
draws = 5000 if options.full else 1000
rng = np.random.default_rng(0)
SHARES = (0.01, 0.05, 0.1, 0.5)
sigmas = np.geomspace(0.01, 10, 25)


def ratio_in_the_limit(p, k, sigma):
    """R of the paper, (23): for rows of norm 1, and large p."""
    return (2 * sigma**2 + p * sigma**4) / (2 * sigma**2 + k * sigma**4 + 1 / k)


def variance(kind, rows, k, sigma):
    """Variances of the estimated inner product, over the draws of the projection and the noise, by formula."""
    projection = make_projection(kind, rows.shape[1], k, np.random.RandomState(0))
    return inner_product_variance(*rows, projection=projection, noise_variance=sigma**2)


def ratios(rows, k, kind="oporp"):
    """R of two rows, for each sigma."""
    return variance("identity", rows, None, sigmas) / variance(kind, rows, k, sigmas)


def needed_epsilon(rows, k):
    """Find the epsilon up to which projecting pays: where R of OPORP falls to 1."""
    above = ratios(rows, k) > 1
    return gaussian_epsilon(DELTA, scale=float(np.interp(0, *crossing(rows, k)))) if above.any() else 0.0


def crossing(rows, k):
    """Logarithm of R where it passes 1, and the sigmas on both sides."""
    logs = np.log(ratios(rows, k))
    i = np.flatnonzero(logs > 0)[0]
    return logs[i - 1 : i + 1], sigmas[i - 1 : i + 1]


curves = {}
pairs = {p: normalize(rng.uniform(0, 1, (2, p))) for p in (1000, 10_000)}
for p, rows in pairs.items():
    for share in SHARES:
        k = int(share * p)
        curves[p, k] = {"R of (23)": ratio_in_the_limit(p, k, sigmas), "OPORP": ratios(rows, k)}

# %%
# The check: squared deviations from the true inner product, averaged over releases. Each is by a projection of its own;
# the raw data have none, so that one call releases them many times.
u = pairs[1000]


def mean_square(releases):
    """Mean squared deviation of the estimates from pairs of sketches."""
    return np.mean([(inner_products(S[:1], S[1:])[0, 0] - u[0] @ u[1]) ** 2 for S in releases])


checks = []
for epsilon in (5.0, 50.0):
    raw = noisy_projection(u.shape[1], epsilon, "identity").fit_transform(np.tile(u, (draws, 1)))
    of_raw, sigma = mean_square(np.split(raw, draws)), gaussian_scale(epsilon, DELTA)
    for k in (10, 100):
        sketches = (noisy_oporp(k, epsilon).set_params(random_state=draw) for draw in range(draws))
        formula = variance("identity", u, None, sigma) / variance("oporp", u, k, sigma)
        measured = of_raw / mean_square(sketch.fit_transform(u) for sketch in sketches)
        checks.append({"k": k, "epsilon": epsilon, "R": formula, "measured": measured})

fig, axes = plt.subplots(1, 3, figsize=(11, 4.4), layout="constrained", sharey=True)
for ax, (p, rows) in zip(axes, [*pairs.items(), (1000, 18 * pairs[1000])], strict=True):
    norm = np.linalg.norm(rows[0])
    for color, share in enumerate(SHARES):
        k = int(share * p)
        own = curves[p, k]["OPORP"] if norm < 2 else ratios(rows, k)
        ax.plot(sigmas, own, color=f"C{color}", label=f"k / p = {share:g}")
        if norm < 2:
            ax.plot(sigmas, curves[p, k]["R of (23)"], "k:", linewidth=1)
    ax.axhline(1, color="grey", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="sigma, the standard deviation of the noise")
    ax.set_title(f"p = {p}, rows of norm {norm:.0f}")
    of_epsilon = ax.secondary_xaxis(-0.2)
    shown = [0.5, 1, 10, 100, 1000]
    of_epsilon.set_xticks([gaussian_scale(epsilon, DELTA) for epsilon in shown], [f"{epsilon:g}" for epsilon in shown])
    of_epsilon.set_xlabel(f"epsilon of that noise, delta = {DELTA:g}, beta = 1")
axes[0].set_ylabel("R: variance from raw data / from OPORP")
axes[0].legend()
columns = {f"p = {p}, k = {k}, {name}": curve for (p, k), both in curves.items() for name, curve in both.items()}
save(options, "ll_figure_3", fig, {"sigma": sigmas} | columns, measured=checks)
plt.show()

# %%
# For rows of norm 1, R comes near p / k where sigma is large, and stays above 1 down to a sigma of a tenth and less:
# short sketches win, by far, wherever epsilon is not close to a hundred. (23), dotted, is what the formula comes to.
# For rows that are eighteen times as long, the variance of the projection is eighteen to the fourth times as large,
# and raw data with noise are the better choice from an epsilon of a few on: R depends on sigma over the norm of rows.
for p, rows in pairs.items():
    for norm in (1, 18):
        limits = ", ".join(f"k = {int(s * p)}: {needed_epsilon(norm * rows, int(s * p)):.3g}" for s in SHARES)
        print(f"p = {p}, rows of norm {norm}: projecting pays up to epsilon, {limits}")
print(f"sigma below 0.1 needs epsilon = {gaussian_epsilon(DELTA, scale=0.1):.1f}")
print(f"measured by {draws} draws:")
for row in checks:
    print("k = {k}, epsilon = {epsilon:g}: R by formula {R:.3g}, measured {measured:.3g}".format(**row))
