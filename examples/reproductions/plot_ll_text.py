"""
Private sketches of sparse text: accuracy of a support vector machine
=====================================================================

After Figures 12 and 14 of P. Li and X. Li, *Differential Privacy with Random Projections and Sign Random Projections*
(arXiv:2306.01751): accuracy of a linear support vector machine on private sketches of high-dimensional sparse rows,
against epsilon. The paper's WEBSPAM is not used: with ``--data DIR``, the character 3-grams of SMSSpamCollection stand
in for it, otherwise the pairs of inked pixels of scikit-learn's small digits (is the digit above four?). Our choice:
entries are 0 or 1, beta = 1 (whether a row has one certain 3-gram is hidden), delta = 1e-6, k = 256, and the *balanced*
accuracy, since 87% of the messages are no spam.
"""

# %%
# Hashing is a public map that was fitted on nothing, so that the guarantee of the sketch holds for the messages' sets
# of hashed 3-grams. One 3-gram is far less than a message: a whole message is not hidden.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import MARKERS, parse_arguments, published_sketches, read_text, save, svm_accuracy

options = parse_arguments(
    full="2^16 hashed features instead of 2^14, k = 512, more repeats: ten minutes", data="SMSSpamCollection"
)
X, y, name = read_text(options.data, 2**16 if options.full else 2**14)
k = 512 if options.full else 256
repeats = 10 if options.full else 5
C = 0.01
epsilons = np.geomspace(0.5, 50, 6)
print(f"{name}: {X.shape[0]} rows, {X.shape[1]} features, {X.nnz / X.shape[0]:.0f} nonzero in a row, k = {k}")

# %%
# Noise on the raw data would fill p columns: it is left out, as are the weakest of the retrieval figure. Accuracies are
# means over draws of the projection and of the noise.
shown = ("DP-RP-G", "DP-RP-G-OPT", "DP-RP-G-OPT-B", "DP-OPORP", "DP-SignRP-RR-smooth")
shown += ("DP-SignOPORP-RR", "DP-SignOPORP-RR-smooth")
scores = {(method, epsilon): [] for epsilon in epsilons for method in shown}
for draw in range(repeats):
    for method, epsilon in scores:
        sketch = published_sketches(k, epsilon, random_state=draw)[method]
        scores[method, epsilon].append(svm_accuracy(sketch.fit_transform(X), y, C=C))
results = [
    {"method": method, "epsilon": epsilon, "accuracy": np.mean(score), "deviation": np.std(score, ddof=1)}
    for (method, epsilon), score in scores.items()
]
reference = svm_accuracy(X, y, C=C)

fig, ax = plt.subplots(figsize=(9, 5), layout="constrained")
for method, marker in zip(shown, MARKERS, strict=False):
    ax.plot(
        epsilons,
        [row["accuracy"] for row in results if row["method"] == method],
        "--" if "Sign" in method else "-",
        marker=marker,
        label=method,
    )
ax.axhline(reference, color="black", linewidth=1, linestyle="-.", label="not private, all features")
ax.axhline(0.5, color="grey", linestyle=":", label="chance")
ax.set(
    xscale="log",
    xlabel="epsilon of one row: one feature, present or not",
    ylabel="balanced accuracy",
    ylim=(0.45, 1.02),
)
ax.set_title(f"Support vector machine on sketches, {name}, k = {k}")
ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
unprotected = {"method": "not private", "epsilon": np.inf, "accuracy": reference, "deviation": 0.0}
save(options, "ll_text", fig, [*results, unprotected])
plt.show()

# %%
# The order of the projections is that of the retrieval figure: OPT above G, Rademacher and OPORP above Gaussian and
# equal to each other, SignOPORP ahead where epsilon is small and behind where it is large. Smooth flips of SignOPORP
# are ahead of plain ones by little: most bins of such sparse rows add up to -1, 0 or 1, where their levels agree, and
# only long messages have more in a bin.
print("balanced accuracy", *(f"{epsilon:6.2g}" for epsilon in epsilons))
for method in shown:
    print(f"{method:24}", *(f"{row['accuracy']:6.3f}" for row in results if row["method"] == method))
deviation = np.sqrt(np.mean([row["deviation"] ** 2 for row in results]))
print(f"not private: {reference:.3f}; standard deviation over {repeats} draws of projection and noise: {deviation:.3f}")
