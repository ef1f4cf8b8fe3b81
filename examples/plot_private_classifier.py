"""
A private classifier in the place of LogisticRegression
=======================================================

:class:`~skdprp.AMPClassifier` learns a linear classifier whose weights may be published: nobody can tell from them
whether one row had been another one. This example draws what that costs, over ``epsilon``, and prints the guarantee.
"""

# %%
# Ten classes of handwritten digits. Rows need no scaling: those longer than ``max_norm``, a public bound, are cut to
# it.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from skdprp import AMPClassifier, ProductNoiseOutputPerturbation

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
model = AMPClassifier(epsilon=5.0, classes=range(10)).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.2f}")
print(model.guarantee_)

# %%
# Every fit is a release with fresh noise, so that the curves average a few. Noise on the objective costs much less than
# noise on the solution. "One row added or removed" is a weaker promise than "one row replaced", at half the noise.
epsilons = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
models = {
    "AMPClassifier, one row added or removed": AMPClassifier(adjacency="add_remove"),
    "AMPClassifier, one row replaced": AMPClassifier(),
    "output perturbation, one row replaced": ProductNoiseOutputPerturbation(),
}
fig, ax = plt.subplots(layout="constrained")
for name, classifier in models.items():
    scores = [
        [classifier.set_params(epsilon=epsilon).fit(X_train, y_train).score(X_test, y_test) for _ in range(5)]
        for epsilon in epsilons
    ]
    ax.errorbar(epsilons, np.mean(scores, axis=1), np.std(scores, axis=1), marker="o", capsize=3, label=name)

plain = LogisticRegression(C=10.0, max_iter=1000).fit(normalize(X_train), y_train).score(normalize(X_test), y_test)
ax.axhline(plain, color="black", linestyle="--", label="not private")
ax.axhline(0.1, color="grey", linestyle=":", label="chance")
ax.set(xscale="log", xlabel="epsilon of one row", ylabel="accuracy on held-out digits", ylim=(0, 1))
fig.legend(loc="outside upper center", ncols=2)
plt.show()
