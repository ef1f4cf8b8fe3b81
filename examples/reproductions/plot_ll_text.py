"""
Private sketches of sparse text: accuracy of a support vector machine
=====================================================================

Figures 12 and 14 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): accuracy of a linear support vector machine on private sketches of high-dimensional sparse rows,
against epsilon, at beta = 1 and delta = 1e-6.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
data, ``--data``    WEBSPAM, character          SMSSpamCollection, character 3-grams: 5574 messages, half to learn
                    3-grams: 10,000 documents   from; WEBSPAM not available
                    to learn from, as many to
                    test on
data, without       none                        pairs of inked pixels of scikit-learn's digits: above four?
p                   250,000                     4096, hashed; ``--full``: 16,384. 2016 pairs of pixels
entries             over the column's maximum   0 or 1, which is the same for a 3-gram that is there
k                   several                     64 and 256; ``--full``: 256 and 1024
repetitions t       the best of several         1, 2 and 4, each in its curve
draws               not said                    3, 1 of Raw-data; ``--full``: 10 and 3
epsilon             not said                    0.5 to 50: 6 values; 4 of the pairs of pixels unless ``--full``
accuracy            plain                       balanced, since 87% of the messages are no spam
==================  ==========================  ===================================================================

The paper's k and t are not legible in the text that we had.
"""

# %%
# Hashing learns nothing from the messages, so the guarantee of the sketch holds for their sets of hashed 3-grams. One
# 3-gram is far less than a message: a whole message is not hidden.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import (
    MARKERS,
    noisy_sketches,
    parse_arguments,
    read_text,
    release,
    save,
    sign_sketches,
    svm_accuracy,
)

options = parse_arguments(full="2^14 hashed features instead of 2^12, k = 1024, more draws", data="SMSSpamCollection")
X, y, name = read_text(options.data, 2**14 if options.full else 2**12)
sizes = (256, 1024) if options.full else (64, 256)
draws = {"Raw-data-G-OPT": 3 if options.full else 1}
C = 0.01
epsilons = np.geomspace(0.5, 50, 6 if options.data or options.full else 4)
print(f"{name}: {X.shape[0]} rows, {X.shape[1]} features, {X.nnz / X.shape[0]:.0f} nonzero in a row")

# %%
# Noise on the raw data fills p columns. Accuracies are means over draws of the projection and of the noise.
SHOWN = ("Raw-data-G-OPT", "DP-RP-G", "DP-RP-G-OPT", "DP-RP-G-OPT-B", "DP-OPORP", "DP-SignRP-RR-s")
results = []
for k in sizes:
    for epsilon in epsilons:
        sketches = {**noisy_sketches(k, epsilon), **sign_sketches(k, epsilon, (1, 2, 4))}
        for method, sketch in sketches.items():
            if (method in SHOWN or "OPORP" in method) and (k == sizes[0] or method != "Raw-data-G-OPT"):
                of_draws = range(draws.get(method, 10 if options.full else 3))
                scores = [svm_accuracy(release(method, sketch, X, draw), y, C=C) for draw in of_draws]
                results.append({"k": k, "method": method, "epsilon": epsilon, "accuracy": np.mean(scores)})
                results[-1]["deviation"] = np.std(scores, ddof=1) if len(scores) > 1 else np.nan
reference = svm_accuracy(X, y, C=C)


def values_of(method, k):
    """Return a curve."""
    k = sizes[0] if method == "Raw-data-G-OPT" else k
    return [row["accuracy"] for row in results if (row["method"], row["k"]) == (method, k)]


methods = list(dict.fromkeys(row["method"] for row in results))
noisy = [method for method in methods if "ign" not in method]
signs = [method for method in methods if "ign" in method]
fig, axes = plt.subplots(2, len(sizes), figsize=(11, 8.5), layout="constrained", sharex=True, sharey=True)
for k, column in zip(sizes, axes.T, strict=True):
    groups = zip((noisy, ["Raw-data-G-OPT", "DP-OPORP", *signs]), (range(5), [0, 4, 5, *[1, 2, 3] * 2]), strict=True)
    for ax, (group, colors) in zip(column, groups, strict=True):
        for i, method in zip(colors, group, strict=True):
            line = "--" if "RR, t" in method else "-"
            ax.plot(epsilons, values_of(method, k), line, color=f"C{i}", marker=MARKERS[i], label=method)
        ax.axhline(reference, color="black", linewidth=1, linestyle="-.", label="not private, all features")
        ax.axhline(0.5, color="grey", linestyle=":", label="chance")
        ax.set(xscale="log", ylabel="balanced accuracy", ylim=(0.45, 1.02))
    column[0].set_title(f"{name}, k = {k}")
    column[1].set_xlabel("epsilon, one 3-gram present or not")
for ax in axes[:, -1]:
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
unprotected = {"k": np.nan, "method": "not private", "epsilon": np.inf, "accuracy": reference, "deviation": np.nan}
save(options, "ll_text", fig, [*results, unprotected])
plt.show()

# %%
# The order of the projections is that of the retrieval figure: OPT above G, Rademacher and OPORP above Gaussian and
# about equal to each other, all above noise on the raw data unless epsilon is large. SignOPORP is ahead where epsilon
# is small, by its smooth flips. Where k is about the number of 3-grams of a message, few bins are empty, and
# repetitions cost more than they gain; with more bits than that they are worth their cost.
for k in sizes:
    print(f"accuracy at k = {k:<8}", *(f"{epsilon:6.2g}" for epsilon in epsilons))
    for method in methods:
        print(f"{method:24}", *(f"{value:6.3f}" for value in values_of(method, k)))
deviation = np.sqrt(np.nanmean([row["deviation"] ** 2 for row in results]))
print(f"not private: {reference:.3f}; standard deviation of a draw of projection and noise: {deviation:.3f}")
