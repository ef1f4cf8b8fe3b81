"""
Sign projections: how many signs a change can flip
==================================================

Figures 4 and 5 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): F, a bound on the probability that the sign of one Gaussian projection may differ between
neighbours, and N_+, a bound on the number of signs that do, for rows of norm m. Beside them is what is exact for a pair
of neighbours, as both bounds can be replaced by it: see *Published claims that do not hold* in the guide.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
Figure 4            F against r = beta / m      p = 2, 100, 10,000 and 1,000,000, against r and with simulations; and
                    for several p up to a       at r = 0.1 against p
                    million
Figure 5            N_+ against the norm, for   p = 1000, beta = 1, delta = 1e-6; k = 64, 256 and 1024, and the exact
                    several k                   quantile; the loss of a bit is not in the paper
==================  ==========================  ===================================================================
"""

# %%
# The published lemma takes F as a bound on the probability that *some* change of one coordinate flips the sign, that
# is, that the projection is at most beta times the largest entry of its vector w. Crosses are simulations of that, for
# rows spread evenly over all coordinates. A fixed pair of neighbours differs in a sign with the probability
# (2 / pi) asin(beta / (2 m)), which depends neither on p nor on the rows.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import DELTA, parse_arguments, save
from scipy.stats import binom

from skdprp.mechanisms.published import published_sign_change_probability, published_sign_changes
from skdprp.mechanisms.randomised_response import binomial_flip_epsilon, sign_change_probability

options = parse_arguments(full="more draws of the simulation")
draws = 1_000_000 if options.full else 100_000
N_FEATURES = 1000
rng = np.random.default_rng(0)
relative_changes = np.geomspace(0.01, 1, 16)
simulated_at = relative_changes[::3]


def some_change_flips(p, relative_change):
    """Share of draws of w in which a change of one coordinate can flip the sign of an even row of norm 1."""
    hits, size = 0, max(1, 2_000_000 // p)
    for start in range(0, draws, size):
        w = rng.standard_normal((min(size, draws - start), p))
        hits += np.sum(np.abs(w.sum(axis=1)) / np.sqrt(p) <= relative_change * np.abs(w).max(axis=1))
    return hits / draws


dimensions, sizes = (2, 100), (64, 256, 1024)
bound = {p: [published_sign_change_probability(r, p) for r in relative_changes] for p in (2, 100, 10**4, 10**6)}
simulated = {p: [some_change_flips(p, r) for r in simulated_at] for p in dimensions}
pair = [sign_change_probability(r) for r in relative_changes]
many_features = np.geomspace(10, 1e6, 11).astype(int)
by_features = [published_sign_change_probability(0.1, int(p)) for p in many_features]

# %%
# N_+ holds with probability 1 - delta. Exact is the quantile of the binomial distribution of the number of signs that
# differ. The loss that each bit may have follows: epsilon / N_+ as published, and exactly the largest with which the
# mixture of all randomised responses stays within (epsilon, delta).
norms = np.geomspace(1, 100, 13)
n_plus, quantile, loss = {}, {}, {}
for k in sizes:
    of_k = {"n_features": N_FEATURES, "n_components": k}
    n_plus[k] = np.array([published_sign_changes(DELTA, relative_change=1 / m, **of_k) for m in norms])
    changed = [sign_change_probability(1 / m) for m in norms]
    quantile[k] = binom.isf(DELTA, k, changed)
    loss[k] = np.array([binomial_flip_epsilon(1.0, DELTA, n_components=k, changed=q) for q in changed])

fig, axes = plt.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
for color, (p, curve) in enumerate(bound.items()):
    axes[0, 0].plot(relative_changes, curve, "--", color=f"C{color}", label=f"published F, p = {p}")
    if p in simulated:
        axes[0, 0].plot(simulated_at, simulated[p], "x", color=f"C{color}", label=f"simulated, even rows, p = {p}")
axes[0, 0].plot(relative_changes, pair, "k-", linewidth=2, label="exact, a pair of neighbours")
axes[0, 0].set(xscale="log", yscale="log", xlabel="r = beta / m", ylabel="probability that a sign differs")
axes[0, 0].set(ylim=(0.002, 1.4), title="Figure 4: F")
axes[0, 1].plot(many_features, by_features, "C1o--", label="published F, r = 0.1")
axes[0, 1].axhline(sign_change_probability(0.1), color="black", linewidth=2, label="exact, a pair of neighbours")
axes[0, 1].set(xscale="log", xlabel="features p", ylim=(0, 0.5), title="Figure 4: F by p")
for color, k in enumerate(sizes):
    axes[1, 0].plot(norms, n_plus[k], "o--", color=f"C{color}", label=f"published N_+, k = {k}")
    axes[1, 0].plot(norms, quantile[k], "-", color=f"C{color}", label=f"exact quantile, k = {k}")
    axes[1, 1].plot(norms, 1 / n_plus[k], "o--", color=f"C{color}", label=f"published, 1 / N_+, k = {k}")
    axes[1, 1].plot(norms, loss[k], "-", color=f"C{color}", label=f"exact mixture, k = {k}")
axes[1, 0].set(ylabel="signs that differ, at most", title=f"Figure 5: N_+, p = {N_FEATURES}, delta = {DELTA:g}")
axes[1, 1].set(ylabel="privacy loss allowed to each bit", title="Each bit, at epsilon = 1")
for ax in axes[1]:
    ax.set(xscale="log", yscale="log", xlabel="norm of the rows, at least m; beta = 1")
for ax in axes.flat:
    ax.legend(fontsize="x-small")
counts = {"m": norms}
for k in sizes:
    counts |= {f"N_+, k = {k}": n_plus[k], f"exact, k = {k}": quantile[k], f"loss of a bit, k = {k}": loss[k]}
columns = {"beta / m": relative_changes, "exact": pair, **{f"F, p = {p}": curve for p, curve in bound.items()}}
crosses = {"beta / m": simulated_at, **{f"simulated, p = {p}": shares for p, shares in simulated.items()}}
save(options, "ll_figures_4_5", fig, columns, counts=counts, simulated=crosses)
plt.show()

# %%
# F is below 0.4 at r = 0.1 even for a million features, as the paper says. For p = 2 the crosses are above their dashed
# line where beta / m is large: there F is no bound. For one pair of neighbours and a Gaussian projection F is a bound
# as long as beta / m is not near 2, but it is larger than necessary, and grows with p. The exact distribution does
# without F, and leaves each bit several times the loss, which means far fewer flips.
for p in dimensions:
    largest = published_sign_change_probability(simulated_at[-1], p)
    print(
        f"p = {p}, beta / m = {simulated_at[-1]:.2g}: F = {largest:.3f}, "
        f"simulated {simulated[p][-1]:.3f} (standard error {np.sqrt(0.25 / draws):.4f} at most)"
    )
print(
    "F at r = 0.1, p = 100 to a million:",
    *(f"{published_sign_change_probability(0.1, 10**i):.3f}" for i in range(2, 7)),
)
for k in sizes:
    i = np.argmin(np.abs(norms - 10))
    print(
        f"k = {k}, m = {norms[i]:.0f}: N_+ = {n_plus[k][i]:.0f}, exact {quantile[k][i]:.0f}; "
        f"loss of a bit {1 / n_plus[k][i]:.4f}, exact {loss[k][i]:.4f}"
    )
