r"""
Sign projections: which signs a change may flip
===============================================

Figures 6 to 9 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): the smooth and the local flipping probability; P_+ = Pr(beta max_i \|w_i\| >= \|w'u\|), the
probability that some change of one coordinate by beta flips the sign of a projection, with its approximations; and the
levels L_j = ceil(\|w_j'u\| / (beta max_i \|w_ij\|)), the higher of which are flipped less often.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
u                   uniform on [-1, 1]          the same, one row for each p
p                   10 to 1000                  10, 30, 100, 300 and 1000
beta                1 and 0.1                   the same
w                   Gaussian, uniform, very     the same
                    sparse with s = 1, 3, 10
draws               ten million                 20,000; ``--full``: 400,000
Figure 9            k = 512, p = 100, 1000      the same
==================  ==========================  ===================================================================
"""

# %%
# Figure 6. x is a component in units of the largest change, so that its level is ceil(\|x\|). A neighbour can flip
# only the signs of level 1. If only these were flipped, as with the local probability, a sign that is never flipped
# would reveal that the component is far from zero. The smooth probability falls by a factor of at most exp(epsilon')
# from one level to the next.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import MARKERS, parse_arguments, save

from skdprp.mechanisms import flip_probability
from skdprp.mechanisms.published import (
    local_flip_probability,
    published_rademacher_sign_change_probability,
    published_sign_change_probability,
)
from skdprp.random_projection import make_projection
from skdprp.sensitivity import component_sensitivity

options = parse_arguments(full="twenty times as many draws")
draws = 400_000 if options.full else 20_000
KINDS = {
    "Gaussian": {"kind": "gaussian"},
    "uniform": {"kind": "uniform"},
    "s = 1 (Rademacher)": {"kind": "rademacher"},
    "s = 3": {"kind": "very_sparse", "density": 1 / 3},
    "s = 10": {"kind": "very_sparse", "density": 1 / 10},
}
DIMENSIONS, BETAS = (10, 30, 100, 300, 1000), (1.0, 0.1)
rows = {p: np.random.default_rng(0).uniform(-1, 1, (1, p)) for p in DIMENSIONS}
x = np.linspace(-6, 6, 601)
levels_of_x = np.maximum(np.ceil(np.abs(x)), 1)
flips = {
    "local (not private)": local_flip_probability(levels_of_x, 1.0),
    "smooth": flip_probability(levels_of_x, 1.0),
}


# %%
# Figures 7 and 8, and 9: each column of a wide projection is a draw of w.
def projected(p, name, k, seed):
    """Return w'u for k draws of w, and its largest change for beta = 1."""
    W = make_projection(n_features=p, n_components=k, random_state=np.random.RandomState(seed), **KINDS[name])
    return np.abs(W.project(rows[p]))[0], component_sensitivity(W, 1.0)


def share_that_may_flip(p, name):
    """P_+ for each beta, by simulation."""
    hits, size = np.zeros(len(BETAS)), 20_000
    for seed in range(draws // size):
        value, change = projected(p, name, size, seed)
        hits += [np.sum(beta * change >= value) for beta in BETAS]
    return hits / draws


simulated = {(name, p): share_that_may_flip(p, name) for name in KINDS for p in DIMENSIONS}
relative = {(beta, p): beta / np.linalg.norm(rows[p]) for beta in BETAS for p in DIMENSIONS}
bound = {key: published_sign_change_probability(r, key[1]) for key, r in relative.items()}
approximation = {key: published_rademacher_sign_change_probability(r) for key, r in relative.items()}
levels = {}
for p in (100, 1000):
    for name in KINDS:
        value, change = projected(p, name, 512, 0)
        levels[name, p] = np.ceil(value / np.where(change > 0, change, np.inf))

fig, axes = plt.subplots(2, 3, figsize=(11, 7.5), layout="constrained")
for (name, curve), color in zip(flips.items(), ("green", "red"), strict=True):
    axes[0, 0].plot(x, curve, color=color, linewidth=2, label=name)
axes[0, 0].set(xlabel="projection over its largest change", ylabel="probability of a flip", title="Figure 6")
axes[0, 0].set_title("Figure 6: a sign is flipped, epsilon' = 1")
axes[0, 0].set_ylim(top=0.36)
axes[0, 0].legend(loc="upper right")
for (i, beta), ax in zip(enumerate(BETAS), axes[0, 1:], strict=True):
    for (name, color), marker in zip({name: f"C{j}" for j, name in enumerate(KINDS)}.items(), MARKERS, strict=False):
        ax.plot(DIMENSIONS, [simulated[name, p][i] for p in DIMENSIONS], marker=marker, color=color, label=name)
    ax.plot(DIMENSIONS, [bound[beta, p] for p in DIMENSIONS], "k--", label="(32), bound F for Gaussian")
    ax.plot(DIMENSIONS, [approximation[beta, p] for p in DIMENSIONS], "k:", label="(31), for Rademacher")
    ax.set(xscale="log", yscale="log", xlabel="features p", ylabel="P_+: a change may flip the sign")
    ax.set_title(f"Figures 7 and 8: beta = {beta:g}")
for p, ax in zip((100, 1000), axes[1], strict=False):
    for (name, of_p), level in levels.items():
        if of_p == p:
            share = np.bincount(level.astype(int), minlength=50)[:50] / 512
            ax.plot(np.arange(1, 50), share[1:], drawstyle="steps-mid", label=name)
    ax.set(xlabel="level L_j", ylabel="share of the 512 signs", title=f"Figure 9: p = {p}")
    ax.set_xlim(0, 12 if p == 100 else 50)
axes[1, 2].axis("off")  # it has the legends of the panels above it and beside it
for ax, title, place in ((axes[0, 1], "Figures 7 and 8", "upper left"), (axes[1, 0], "Figure 9", "lower left")):
    axes[1, 2].add_artist(axes[1, 2].legend(*ax.get_legend_handles_labels(), loc=place, title=title))
columns = [
    {"beta": beta, "p": p, "(31)": approximation[beta, p], "(32)": bound[beta, p]}
    | {name: simulated[name, p][i] for name in KINDS}
    for i, beta in enumerate(BETAS)
    for p in DIMENSIONS
]
histograms = [{"p": p, "w": name, "mean L": level.mean()} for (name, p), level in levels.items()]
save(options, "ll_figures_6_9", fig, columns, flips={"x": x} | flips, levels=histograms)
plt.show()

# %%
# Both approximations are as close as the paper says, and a Rademacher matrix is the best of all: its largest entry is
# no larger than its typical one, so that the fewest signs may flip and levels are highest. But approximations are not
# bounds: for a row with a single nonzero entry, smaller than beta, P_+ is 1 for every w.
for row in columns:
    of_w = (f"{key} {value:.3f}" for key, value in row.items() if key not in ("beta", "p"))
    print("beta = {beta:g}, p = {p:>4}:".format(**row), *of_w)
for p in (100, 1000):
    print(f"mean level, p = {p}:", *(f"{name} {levels[name, p].mean():.2f}" for name in KINDS))
