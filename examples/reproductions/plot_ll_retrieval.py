"""
Private search: precision and recall of every sketch
====================================================

After Figures 10 and 13 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): how well sketches find the nearest rows on MNIST, against epsilon, for projections with noise and
for flipped signs. With ``--data DIR`` the rows are those of MNIST, otherwise the small digits of scikit-learn. Our
choice, because the paper's settings are not known to us: pixels from 0 to 1 that are not normalised, beta = 1 (the
whole range of one pixel is hidden), delta = 1e-6, k = 256 components (64 for the small digits), queries and rows both
sketched privately, means of 3 draws; right are the 50 rows with the largest cosine to the query.
"""

# %%
# Precision is the share of the 10 sketches nearest to the query's that are right, recall the share of the right rows
# among the 100 nearest. Sketches with noise are compared by cosine, signs by the number that agree. Both ask for
# nothing but the released sketches.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import MARKERS, nearest, parse_arguments, published_sketches, read_digits, save

from skdprp import DPSignRP

options = parse_arguments(full="all rows instead of 5000, and more epsilons", data="MNIST, as t10k-*.gz")
X, _, name = read_digits(options.data)
X = X.astype(np.float32) if options.full else X[:5000].astype(np.float32)
n_queries, k = (500, 256) if options.data else (200, 64)
RIGHT, FEW, MANY, DRAWS, MIN_NORM = 50, 10, 100, 3, 2.5
epsilons = np.geomspace(0.5, 50, 13 if options.full else 9)


right_rows = nearest(X, n_queries, RIGHT)
is_right = np.zeros((n_queries, len(X) - n_queries), bool)
np.put_along_axis(is_right, right_rows, True, axis=1)


def precision_and_recall(sketch):
    """Search among released sketches."""
    found = np.take_along_axis(is_right, nearest(sketch.fit_transform(X), n_queries, MANY), axis=1)
    return found[:, :FEW].mean(), found.sum(axis=1).mean() / RIGHT


def all_sketches(epsilon):
    """Every sketch of the paper, and randomised response that makes use of the length of the rows."""
    bounded = DPSignRP(k, method="rr", projection="gaussian", epsilon=epsilon, delta=1e-6, min_norm=MIN_NORM)
    return {**published_sketches(k, epsilon), f"DP-SignRP-RR, norm >= {MIN_NORM}": bounded}


def search(sketch):
    """Precision and recall, averaged over draws of the projection and of the noise."""
    found = [precision_and_recall(sketch.set_params(random_state=draw)) for draw in range(DRAWS)]
    return dict(zip(("precision", "recall"), np.mean(found, axis=0), strict=True))


results = [
    {"method": method, "epsilon": epsilon, **search(sketch)}
    for epsilon in epsilons
    for method, sketch in all_sketches(epsilon).items()
]

# %%
# The left column has projections with noise (Figure 10), the right one signs, with DP-OPORP to compare (Figure 13).
# Given the public bound that no image is shorter than 2.5 (the sketch refuses shorter ones), randomised response on a
# Gaussian projection needs fewer flips; the paper's own bound N_+ comes out as all k signs here and gains nothing.
methods = list(dict.fromkeys(row["method"] for row in results))
groups = [[m for m in methods if "Sign" not in m], ["DP-OPORP", *(m for m in methods if "Sign" in m)]]
chance = {"precision": RIGHT / is_right.shape[1], "recall": MANY / is_right.shape[1]}
fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained", sharex=True, sharey="row")
for column, (group, title) in enumerate(zip(groups, ("Projections with noise", "Signs"), strict=True)):
    for row, measure in enumerate(chance):
        ax = axes[row, column]
        for color, method in enumerate(group):
            values = [r[measure] for r in results if r["method"] == method]
            same = {"color": "C6", "marker": "X", "linestyle": "--" if column else "-"} if method == "DP-OPORP" else {}
            ax.plot(
                epsilons, values, label=method, alpha=0.9, **{"color": f"C{color}", "marker": MARKERS[color], **same}
            )
        ax.axhline(chance[measure], color="grey", linestyle=":", label="chance")
        ax.set(xscale="log", ylim=(0, 1), ylabel=f"{measure} at {FEW if measure == 'precision' else MANY}")
    axes[0, column].set_title(f"{title}, {name}, k = {k}")
    axes[1, column].set_xlabel("epsilon of one row: one pixel, its whole range")
    axes[0, column].legend(loc="upper left")
save(options, "ll_retrieval", fig, results)
plt.show()

# %%
# OPT is above G: the exact calibration of the same mechanism. Rademacher (B) is above Gaussian, and OPORP equals it
# (with as many bins as features, as in the small digits, it loses nothing and is above). Smooth flips are above RR, by
# far for SignRP. SignOPORP is above OPORP where epsilon is small, and below it where it is large, since signs lose
# information even if none is flipped. SignRP has to share its epsilon among k bits; to know a least length helps RR
# there, on MNIST less than smooth flips do. Laplace noise on a dense projection has to hide the l1 norm of a row of W,
# which grows with k.
print("precision", *(f"{epsilon:8.2g}" for epsilon in epsilons))
for method in methods:
    print(f"{method:24}", *(f"{row['precision']:8.3f}" for row in results if row["method"] == method))
