"""
Private search: precision and recall of every sketch
====================================================

Figures 10 and 13 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): how well sketches find the nearest rows on MNIST, against epsilon, for projections with noise and
for flipped signs. Queries are sketched as the rows are. Right are the 50 rows with the largest cosine to the query,
precision is that of the 10 nearest sketches, recall that of the 100 nearest; beta = 1, the whole range of a pixel, and
delta = 1e-6.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
data, ``--data``    MNIST: 60,000 images, and   4500 of MNIST's 10,000 test images, and 500 others as queries;
                    10,000 as queries           ``--full``: 9500
data, without       none                        1597 small digits of scikit-learn, and 200 others as queries
k                   several                     64 and 256; 16 and 64 for the small digits
repetitions t       the best of several         1, 2 and 4, each in its curve
draws               10                          3; ``--full``: 10
epsilon             up to some 20               0.5 to 50: 9 values, 5 for the small digits; ``--full``: 13
curves              Raw-data, G, OPT, OPT-B,    also DP-RP-L, Analytic DP-RP-G, DP-SignRP, signs of DP-RP, and a
                    OPORP, SignOPORP            norm bound that is used exactly
Figure 11           CIFAR in grey               left out: the data were not available
==================  ==========================  ===================================================================

The paper's k and t are not legible in the text that we had.
"""

# %%
# Sketches with noise are compared by cosine, signs by how many agree, which is the same order. Both ask for nothing but
# the released sketches.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import (
    DELTA,
    MARKERS,
    noisy_sketches,
    parse_arguments,
    read_digits,
    release,
    right_rows,
    save,
    search_measures,
    sign_sketches,
    signs_of_projection,
)

from skdprp.similarity import best_n_repeats

options = parse_arguments(full="all rows instead of 5000, ten draws and more epsilons", data="MNIST, as t10k-*.gz")
X, _, name = read_digits(options.data)
X = X.astype(np.float32) if options.full else X[:5000].astype(np.float32)
n_queries, sizes = (500, (64, 256)) if options.data else (200, (16, 64))
RIGHT, FEW, MANY, MIN_NORM = 50, 10, 100, 2.5
draws = 10 if options.full else 3
epsilons = np.geomspace(0.5, 50, 13 if options.full else 9 if options.data else 5)
is_right = right_rows(X, n_queries, RIGHT)


def all_sketches(k, epsilon):
    """Return every sketch of the paper, and randomised response that makes use of the length of the rows."""
    bounded = signs_of_projection(k, epsilon, "rr", projection="gaussian", min_norm=MIN_NORM, delta=DELTA)
    signs = sign_sketches(k, epsilon, (1, 2, 4))
    return {**noisy_sketches(k, epsilon), **signs, f"DP-SignRP-RR, norm >= {MIN_NORM}": bounded}


def search(method, sketch):
    """Precision and recall, averaged over draws of the projection and of the noise."""
    sketches = (release(method, sketch, X, draw) for draw in range(draws))
    found = [search_measures(S, n_queries, is_right, FEW, MANY) for S in sketches]
    return {measure: np.mean([one[measure] for one in found]) for measure in found[0]}


results = [
    {"k": k, "method": method, "epsilon": epsilon, **search(method, sketch)}
    for k in sizes
    for epsilon in epsilons
    for method, sketch in all_sketches(k, epsilon).items()
    if k == sizes[0] or method != "Raw-data-G-OPT"  # which has no k
]

# %%
# Figure 10 has projections with noise, Figure 13 signs, with DP-OPORP and noise on the raw data to compare.
methods = list(dict.fromkeys(row["method"] for row in results))
chance = {"precision": RIGHT / is_right.shape[1], "recall": MANY / is_right.shape[1]}
# The two methods of SignOPORP with one t share their colour.
COLORS_AND_MARKERS = {
    len(group): [(f"C{i}", MARKERS[i % 7]) for i in group] for group in (range(7), [0, 1, 2, 3, *[4, 5, 6] * 2, 7])
}


def values_of(method, k, measure):
    """Return a curve."""
    k = sizes[0] if method == "Raw-data-G-OPT" else k
    return [row[measure] for row in results if (row["method"], row["k"]) == (method, k)]


def draw(group, title):
    """Draw precision and recall of some methods, one column for each k."""
    fig, axes = plt.subplots(2, len(sizes), figsize=(11, 7.5), layout="constrained", sharex=True, sharey="row")
    for k, column in zip(sizes, axes.T, strict=True):
        for measure, ax in zip(chance, column, strict=True):
            for method, (color, marker) in zip(group, COLORS_AND_MARKERS[len(group)], strict=True):
                line = "--" if "RR, t" in method else "-"
                ax.plot(epsilons, values_of(method, k, measure), line, color=color, marker=marker, label=method)
            if "Raw-data-G-OPT" not in group:
                ax.plot(epsilons, values_of("Raw-data-G-OPT", k, measure), "-.", color="grey", label="Raw-data-G-OPT")
            ax.axhline(chance[measure], color="grey", linestyle=":", label="chance")
            ax.set(xscale="log", ylim=(0, 1), ylabel=f"{measure} at {FEW if measure == 'precision' else MANY}")
        column[0].set_title(f"{title}, {name}, k = {k}")
        column[1].set_xlabel("epsilon, one pixel by its whole range")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return fig


figure_10 = draw([method for method in methods if "ign" not in method], "Projections with noise")
figure_13 = draw(["DP-OPORP", *(method for method in methods if "ign" in method)], "Signs")
save(options, "ll_retrieval", figure_10, results)
save(options, "ll_retrieval_signs", figure_13, results)
plt.show()

# %%
# OPT is above G: the exact calibration of the same mechanism. Rademacher (B) is above Gaussian, and OPORP equals it
# (with as many bins as features, as in the small digits, it loses nothing and is above). Smooth flips are above RR.
# SignOPORP is above OPORP where epsilon is small. How long depends on the repetitions: one sketch of as many bits has
# bins of few pixels, of which many are black in an image, and the bit of an empty bin is random. Four sketches of a
# quarter of the bits have few empty bins, at a quarter of epsilon for each: a small t is better where epsilon is small,
# and a large one where it is large, as the paper says. SignRP has to share its epsilon among k bits; a known lower
# bound of the norm helps RR there. Laplace noise on a dense projection has to hide the l1 norm of a row of W, which
# grows with k. How many pixels are not black, and how light they are, decides about the repetitions. Here this is
# counted in the data. For private rows one would have to guess it.
ink = {"n_nonzero": round(np.count_nonzero(X) / len(X)), "size": float(np.sqrt(np.mean(X[X > 0] ** 2)))}
for k in sizes:
    shape = {"n_features": X.shape[1], "n_components": k, **ink}
    print(f"best_n_repeats, k = {k:<5}", *(f"{best_n_repeats(epsilon, **shape):6}" for epsilon in epsilons))
    print(f"precision at k = {k:<7}", *(f"{epsilon:6.2g}" for epsilon in epsilons))
    for method in methods:
        print(f"{method:24}", *(f"{value:6.3f}" for value in values_of(method, k, "precision")))
