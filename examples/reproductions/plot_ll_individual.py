"""
Individual privacy: signs that no change can flip
=================================================

Figures 15 and 16 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): search and classification with iDP-SignRP against epsilon, at beta = 1 and delta = 1e-6, beside
sketches under differential privacy.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
data, ``--data``    MNIST and WEBSPAM           test images of MNIST and SMSSpamCollection, as in the figures on
                                                search and on text
data, without       none                        small digits of scikit-learn, and their pairs of inked pixels
k                   several                     64 and 256; 16 and 64 for the small digits
epsilon             below 0.1 to some 20        0.01 to 20
draws               10                          2; ``--full``: 10
projections         Rademacher                  also Gaussian, uniform and very sparse (s = sqrt(p)) in one line
pixels              0 to 1                      the same
==================  ==========================  ===================================================================

**This is not differential privacy.** iDP-SignRP randomises only those signs that a change could flip. Which ones these
are depends on the row, and a neighbour can give a sketch that the row itself never gives. :class:`~skdprp.iDPSignRP`
guarantees *individual* DP of one released data set, with the noise held fixed: the curves below are not at equal
guarantees.
"""

# %%
# Search: the 50 rows with the largest cosine are right, precision is that of the 10 most similar sketches and recall
# that of the 100 most similar ones. Classification: a support vector machine that learns from half of the sketches.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import (
    MARKERS,
    individual_signs,
    parse_arguments,
    read_digits,
    read_text,
    release,
    right_rows,
    save,
    search_measures,
    signs_of_oporp,
    signs_of_projection,
    svm_accuracy,
)

options = parse_arguments(full="all rows, ten draws", data="MNIST (t10k-*.gz) and SMSSpamCollection")
X, _, digits = read_digits(options.data)
X = X.astype(np.float32) if options.full else X[:5000].astype(np.float32)
text, y, text_name = read_text(options.data, 2**12)
n_queries, sizes = (500, (64, 256)) if options.data else (200, (16, 64))
RIGHT, FEW, MANY = 50, 10, 100
MEASURES = {"precision": f"precision at {FEW}", "recall": f"recall at {MANY}", "accuracy": "balanced accuracy"}
draws = range(10 if options.full else 2)
epsilons = np.geomspace(0.01, 20, 6)
is_right = right_rows(X, n_queries, RIGHT)


def measures(sketches, of_text):
    """Precision, recall and accuracy of sketches of both data sets."""
    return search_measures(sketches, n_queries, is_right, FEW, MANY) | {"accuracy": svm_accuracy(of_text, y, C=0.01)}


def mean(found):
    """Mean of each measure over draws."""
    return {measure: np.mean([one[measure] for one in found]) for measure in found[0]}


def measured(name, sketch):
    """Mean over draws of the projection and of the noise."""
    return mean([measures(*(release(name, sketch, rows, draw) for rows in (X, text))) for draw in draws])


# %%
# Both methods of the paper, on a Rademacher projection and on OPORP; two sketches under DP; and signs that are not
# flipped at all, which is what every individual curve tends to.
def all_sketches(k, epsilon):
    """Return sketches by their names in the paper."""
    return {
        "iDP-SignRP-G": individual_signs(k, epsilon, "gaussian", "rademacher"),
        "iDP-SignRP-RR": individual_signs(k, epsilon, "rr", "rademacher"),
        "iDP-SignOPORP-G": individual_signs(k, epsilon, "gaussian", "oporp"),
        "iDP-SignOPORP-RR": individual_signs(k, epsilon, "rr", "oporp"),
        "DP-SignOPORP-RR-s, t = 2": signs_of_oporp(k, epsilon, "smooth", 2),
        "DP-SignRP-RR-s": signs_of_projection(k, epsilon, "smooth"),
    }


results = [
    {"k": k, "method": method, "epsilon": epsilon, **measured(method, sketch)}
    for k in sizes
    for epsilon in epsilons
    for method, sketch in all_sketches(k, epsilon).items()
]


def plain_signs(rows, k, draw):
    """Signs of a Rademacher projection, not private."""
    sketch = signs_of_projection(k, 1.0, "smooth").set_params(random_state=draw).fit(rows)
    return np.where(sketch.projection_.project(rows) > 0, 1, -1)


reference = {k: mean([measures(plain_signs(X, k, draw), plain_signs(text, k, draw)) for draw in draws]) for k in sizes}
kinds = {
    kind: measured(kind, individual_signs(sizes[1], 0.1, "gaussian", kind))
    for kind in ("rademacher", "gaussian", "uniform", "very_sparse")
}

fig, axes = plt.subplots(len(sizes), 3, figsize=(11, 7.5), layout="constrained", sharex=True)
for k, row in zip(sizes, axes, strict=True):
    for measure, ax in zip(MEASURES, row, strict=True):
        for method, marker in zip(all_sketches(k, 1.0), MARKERS, strict=False):
            values = [r[measure] for r in results if (r["method"], r["k"]) == (method, k)]
            ax.plot(epsilons, values, "-" if method[0] == "i" else "--", marker=marker, label=method)
        ax.axhline(reference[k][measure], color="black", linewidth=1, linestyle="-.", label="signs of RP, not private")
        ax.set(xscale="log", ylabel=MEASURES[measure], ylim=(0.45 if measure == "accuracy" else 0, 1))
        ax.set_title(f"{text_name if measure == 'accuracy' else digits}, k = {k}")
for ax in axes[-1]:
    ax.set_xlabel("epsilon, one coordinate\n(solid: individual DP, dashed: DP)")
fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
unprotected = [{"k": k, "method": "signs of RP", "epsilon": np.inf, **values} for k, values in reference.items()]
save(options, "ll_individual", fig, [*results, *unprotected])
plt.show()

# %%
# The individual curves of SignRP hardly depend on epsilon: where a projection adds up many features, few signs are near
# zero. That is not a better trade of privacy for utility, but a guarantee that leaves most signs alone. A bin of OPORP
# adds up few features, so nearly all signs may flip, and the curves rise with epsilon as those under DP do. They can
# end above the signs of RP: few features share a bin, and an empty bin always gives -1, which is information about the
# row; :class:`~skdprp.DPSignOPORP` gives a random bit instead.
for k in sizes:
    for measure in MEASURES:
        print(f"{measure} at k = {k:<10}"[:24], *(f"{epsilon:6.2g}" for epsilon in epsilons))
        for method in all_sketches(k, 1.0):
            values = (r[measure] for r in results if (r["method"], r["k"]) == (method, k))
            print(f"{method:24}", *(f"{value:6.3f}" for value in values))
        print(f"signs of RP: {reference[k][measure]:.3f}")
print(
    f"precision of iDP-SignRP-G at k = {sizes[1]}, epsilon = 0.1:",
    *(f"{n} {m['precision']:.3f}" for n, m in kinds.items()),
)
print(individual_signs(sizes[0], 0.1, "gaussian", "rademacher").fit(X).guarantee_)
