"""
Sign projections: how many signs a change can flip
==================================================

After Figures 4 and 5 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): F, a bound on the probability that the sign of one Gaussian projection differs between neighbours,
and N_+, a bound on the number of signs that do, both for rows of norm m at least. Beside them is what is exact for a
pair of neighbours, as both bounds can be replaced by it: see *Published claims that do not hold* in the guide. The
parameters are our choice.
"""

# %%
# The published lemma takes F as a bound on the probability that *some* change of one coordinate flips the sign, that
# is, that the projection is at most beta times the largest entry of its vector w. Crosses are simulations of that, for
# rows spread evenly over all coordinates. A fixed pair of neighbours differs in a sign with the probability
# (2 / pi) asin(beta / (2 m)), which depends neither on p nor on the rows.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, save
from scipy.stats import binom

from skdprp.mechanisms.published import published_sign_change_probability, published_sign_changes
from skdprp.mechanisms.randomised_response import binomial_flip_epsilon, sign_change_probability

options = parse_arguments(full="more draws of the simulation, and more values of k")
draws = 1_000_000 if options.full else 100_000
DELTA, RELATIVE_CHANGE, N_FEATURES = 1e-6, 0.1, 1000
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


dimensions = (2, 100)
bound = {p: [published_sign_change_probability(r, p) for r in relative_changes] for p in (2, 100, 10_000)}
simulated = {p: [some_change_flips(p, r) for r in simulated_at] for p in dimensions}
pair = [sign_change_probability(r) for r in relative_changes]

# %%
# N_+ holds with probability 1 - delta. Exact is the quantile of the binomial distribution of the number of signs that
# differ. The loss that each bit may have follows: epsilon / N_+ as published, and what keeps the whole mixture of
# randomised responses within (epsilon, delta).
sizes = 2 ** np.arange(5, 13 if options.full else 11)
changed = sign_change_probability(RELATIVE_CHANGE)
n_plus = [
    published_sign_changes(DELTA, relative_change=RELATIVE_CHANGE, n_features=N_FEATURES, n_components=k) for k in sizes
]
quantile = binom.isf(DELTA, sizes, changed)
loss = [binomial_flip_epsilon(1.0, DELTA, n_components=int(k), changed=changed) for k in sizes]

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
for color, (p, curve) in enumerate(bound.items()):
    left.plot(relative_changes, curve, "--", color=f"C{color}", label=f"published F, p = {p}")
    if p in simulated:
        left.plot(simulated_at, simulated[p], "x", color=f"C{color}", label=f"simulated, even rows, p = {p}")
left.plot(relative_changes, pair, "k-", linewidth=2, label="exact, a pair of neighbours")
left.set(xscale="log", yscale="log", xlabel="beta / m", ylabel="probability that a sign differs", ylim=(0.002, 1.4))
left.set_title("F: one sign")
left.legend()
middle.plot(sizes, sizes, ":", color="grey", label="all k signs")
middle.plot(sizes, n_plus, "C1o--", label="published N_+")
middle.plot(sizes, quantile, "ks-", label="exact quantile")
right.plot(sizes, 1 / sizes, ":", color="grey", label="1 / k, no norm needed")
right.plot(sizes, 1 / np.array(n_plus), "C1o--", label="published, 1 / N_+")
right.plot(sizes, loss, "ks-", label="exact mixture (default)")
title = f"beta / m = {RELATIVE_CHANGE:g}, p = {N_FEATURES}, delta = {DELTA:g}"
middle.set(ylabel="signs that differ, at most", title=f"N_+: {title}")
right.set(ylabel="privacy loss allowed to each bit", title="Each bit, at epsilon = 1")
for ax in (middle, right):
    ax.set(xscale="log", yscale="log", xlabel="bits k")
    ax.set_xticks(sizes[::2], [str(k) for k in sizes[::2]])
    ax.minorticks_off()
    ax.legend()
counts = {"k": sizes, "N_+": n_plus, "exact quantile": quantile, "exact loss of a bit": loss}
columns = {"beta / m": relative_changes, "exact": pair, **{f"F, p = {p}": curve for p, curve in bound.items()}}
crosses = {"beta / m": simulated_at, **{f"simulated, p = {p}": shares for p, shares in simulated.items()}}
save(options, "ll_figures_4_5", fig, columns, counts=counts, simulated=crosses)
plt.show()

# %%
# For p = 2 the crosses are above their dashed line where beta / m is large: there F is no bound. In a Gaussian
# projection it is one for a pair of neighbours as long as beta / m is not near 2, but a needlessly large one that grows
# with p. The exact distribution needs none of it, and leaves each bit several times the loss, which means far fewer
# flips.
for p in dimensions:
    largest = published_sign_change_probability(simulated_at[-1], p)
    print(
        f"p = {p}, beta / m = {simulated_at[-1]:.2g}: F = {largest:.3f}, "
        f"simulated {simulated[p][-1]:.3f} (standard error {np.sqrt(0.25 / draws):.4f} at most)"
    )
i = list(sizes).index(256)
print(
    f"k = 256: N_+ = {n_plus[i]:.0f}, exact {quantile[i]:.0f}; loss of a bit {1 / n_plus[i]:.4f}, exact {loss[i]:.4f}"
)
