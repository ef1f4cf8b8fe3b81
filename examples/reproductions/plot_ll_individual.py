"""
Individual privacy: signs that no change can flip
=================================================

After Figures 15 and 16 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): search and classification with iDP-SignRP against epsilon, beside SignOPORP. With ``--data DIR`` the
rows are those of MNIST (search) and character 3-grams of SMSSpamCollection, which stand in for WEBSPAM
(classification), otherwise scikit-learn's small digits and their pairs of inked pixels. Settings are ours: those of the
retrieval and the text figure, with pixels shifted by 1/2 before signs are taken.

**This is not differential privacy.** iDP-SignRP randomises only those signs that a change could flip. Which ones these
are depends on the row, and a neighbour can give a sketch that the row itself never gives. :class:`~skdprp.iDPSignRP`
guarantees *individual* DP of one released data set, with the noise held fixed: the curves below are not at equal
guarantees.
"""

# %%
# Search: the share of the 10 most similar sketches that are among the 50 rows with the largest cosine.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import MARKERS, nearest, parse_arguments, read_digits, read_text, save, svm_accuracy

from skdprp import DPSignOPORP, DPSignRP, iDPSignRP

options = parse_arguments(full="all rows, more epsilons", data="MNIST (t10k-*.gz) and SMSSpamCollection")
X, _, digits = read_digits(options.data)
X = X - 0.5 if options.full else X[:5000] - 0.5
text, y, text_name = read_text(options.data, 2**14)
n_queries, RIGHT, FEW = 200, 50, 10
SIZES = {"precision": min(256, X.shape[1]), "accuracy": 256}
epsilons = np.geomspace(0.1, 20, 9 if options.full else 5)
right_rows = nearest(X, n_queries, RIGHT)


def precision(sketches):
    """Share of the rows found that are right."""
    found = nearest(sketches, n_queries, FEW)
    return np.mean([np.isin(few, right).mean() for few, right in zip(found, right_rows, strict=True)])


def accuracy(sketches):
    """Balanced accuracy of a support vector machine."""
    return svm_accuracy(sketches, y, C=0.01)


# %%
# Both methods of the paper, on a Rademacher projection and on OPORP; two sketches under DP; and signs that are not
# flipped at all, which is what every individual curve tends to.
sketches = {
    "iDP-SignRP-G": iDPSignRP(random_state=0),
    "iDP-SignRP-RR": iDPSignRP(method="rr", random_state=0),
    "iDP-SignOPORP-G": iDPSignRP(projection="oporp", random_state=0),
    "iDP-SignOPORP-RR": iDPSignRP(projection="oporp", method="rr", random_state=0),
    "DP-SignOPORP-RR-smooth": DPSignOPORP(random_state=0),
    "DP-SignRP-RR-smooth": DPSignRP(random_state=0),
}
results = [
    {
        "method": method,
        "epsilon": epsilon,
        "definition": "individual DP" if method[0] == "i" else "DP",
        "precision": precision(sketch.set_params(epsilon=epsilon, n_components=SIZES["precision"]).fit_transform(X)),
        "accuracy": accuracy(sketch.set_params(n_components=SIZES["accuracy"]).fit_transform(text)),
    }
    for method, sketch in sketches.items()
    for epsilon in epsilons
]


def plain_signs(rows, size):
    """Signs of a Rademacher projection, not private."""
    return np.where(DPSignRP(size, random_state=0).fit(rows).projection_.project(rows) > 0, 1, -1)


reference = {
    "precision": precision(plain_signs(X, SIZES["precision"])),
    "accuracy": accuracy(plain_signs(text, SIZES["accuracy"])),
}
titles = {
    "precision": f"Search, {digits}, k = {SIZES['precision']}",
    "accuracy": f"Classification, {text_name}, k = 256",
}
labels = {"precision": f"precision at {FEW}", "accuracy": "balanced accuracy"}
fig, axes = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
for ax, measure in zip(axes, titles, strict=True):
    for method, marker in zip(sketches, MARKERS, strict=False):
        values = [row[measure] for row in results if row["method"] == method]
        ax.plot(epsilons, values, "-" if method[0] == "i" else "--", marker=marker, label=method)
    ax.axhline(reference[measure], color="black", linewidth=1, linestyle="-.", label="signs of RP, not private")
    ax.set(
        xscale="log", xlabel="epsilon (solid: individual DP, dashed: DP)", ylabel=labels[measure], title=titles[measure]
    )
    ax.set_ylim(0.45 if measure == "accuracy" else 0, 1)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
unprotected = {"method": "signs of RP", "epsilon": np.inf, "definition": "not private", **reference}
save(options, "ll_individual", fig, [*results, unprotected])
plt.show()

# %%
# The individual curves of SignRP hardly depend on epsilon, and on MNIST not at all: where a projection adds up many
# features, few signs are near zero. That is not a better trade of privacy for utility, but a guarantee that leaves most
# signs alone. A bin of OPORP adds up few features, nearly all of its signs may flip, and its curves rise with epsilon
# as those under DP do. They can end above the signs of RP: few features share a bin, and an empty bin comes out as -1,
# which tells something, where :class:`~skdprp.DPSignOPORP` tosses a coin.
for measure in titles:
    print(measure, *(f"{epsilon:6.2g}" for epsilon in epsilons))
    for method in sketches:
        print(f"{method:24}", *(f"{row[measure]:6.3f}" for row in results if row["method"] == method))
    print(f"signs of RP: {reference[measure]:.3f}")
print(sketches["iDP-SignRP-G"].guarantee_)
