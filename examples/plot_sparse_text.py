"""
Sparse rows in a million dimensions
===================================

Each text is a set of words, hashed to a million columns, so each row has some hundred nonzeros. OPORP and its signs
need one addition for each nonzero, for any number of columns. They turn a row into 512 numbers or 64 bytes.
"""

# %%
# The texts are the documentation of functions in numpy, scipy and scikit-learn, which are installed with this library.
# The task is to predict which of the three packages a text comes from.
import inspect
from importlib import import_module
from time import perf_counter

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from skdprp import DPOPORP, DPSignOPORP, PrivacyUtilityDisplay
from skdprp.similarity import HammingNeighbors, SketchNeighbors

modules = {
    "numpy": ["numpy", "numpy.linalg", "numpy.ma", "numpy.fft", "numpy.random"],
    "scipy": ["scipy.stats", "scipy.signal", "scipy.special", "scipy.optimize", "scipy.linalg", "scipy.ndimage"],
    "sklearn": ["sklearn.metrics", "sklearn.linear_model", "sklearn.ensemble", "sklearn.datasets", "sklearn.utils"],
}


def documentation(names):
    """Return the long docstrings of what the modules hold, each once."""
    members = [member for name in names for _, member in inspect.getmembers(import_module(name), callable)]
    return sorted({text for text in map(inspect.getdoc, members) if text and len(text) > 300})


texts = {library: documentation(names) for library, names in modules.items()}
y = np.repeat(list(texts), [len(part) for part in texts.values()])
print({library: len(part) for library, part in texts.items()})

# %%
# The hash does not depend on the data, unlike a vocabulary or idf weights that are learnt from the rows. A row only
# says which tokens occur, each with the random sign that the hash gives it. A token is a sequence of two or more
# letters, digits or underscores, so ``numpy.linalg.svd`` is three tokens. One more or one fewer occurrence of a token
# changes one coordinate by at most 1. This is the unit of privacy, ``max_change=1``. Replacing one occurrence by one of
# another token changes up to two coordinates.
words = HashingVectorizer(norm=None, n_features=2**20, lowercase=False)
documents = [text for part in texts.values() for text in part]
X = words.transform(documents).sign()
print(f"{X.shape[0]} rows, {X.shape[1]} columns, {X.nnz / X.shape[0]:.0f} nonzeros in a row")
for sketch in (DPOPORP(512, random_state=0), DPSignOPORP(512, output="packed", random_state=0)):
    sketch.fit(X)
    start = perf_counter()
    released = sketch.transform(X)
    print(f"{type(sketch).__name__:<12}{perf_counter() - start:.2f} s, {released[0].nbytes} bytes for each row")

# %%
# A query is the first forty words of a text, and the search should find this text among the first ten. The query is the
# searcher's own and needs no noise. Noisy numbers find more than bits, and more components are better:
# ``SketchNeighbors`` learns from the release how components are distributed, so components without a word hardly count.
# Counting the bits that differ finds next to nothing. Most bits of a short query are random, because none of its words
# affects them.
rng = np.random.default_rng(0)
wanted = rng.choice(len(y), 300, replace=False)
beginnings = words.transform([" ".join(documents[i].split()[:40]) for i in wanted]).sign()
numbers = DPOPORP(4096, epsilon=5.0, noise="laplace", random_state=0).fit(X)
bits = DPSignOPORP(512, epsilon=5.0, output="packed", random_state=0).fit(X)
of_bits = bits.transform(X)
searches = {
    "numbers": (SketchNeighbors(10).fit(numbers.transform(X), sketch=numbers), beginnings),
    "bits": (SketchNeighbors(10).fit(of_bits, sketch=bits), beginnings),
    "bits, counted": (HammingNeighbors(10).fit(of_bits), bits.transform(beginnings)),
}
for name, (search, queries) in searches.items():
    nearest = search.kneighbors(queries, return_distance=False)
    print(f"{name}: recall at 10 is {(nearest == wanted[:, None]).any(axis=1).mean():.2f}")

# %%
# For learning, bits are better at small epsilon, and numbers at large epsilon.
options = {"epsilons": [1, 3, 10, 30, 100], "cv": StratifiedKFold(3, shuffle=True, random_state=0), "n_repeats": 1}
ax = None
for sketch in (DPOPORP(512, random_state=0), DPSignOPORP(512, random_state=0)):
    pipeline = make_pipeline(sketch, LinearSVC(C=0.001))
    display = PrivacyUtilityDisplay.from_estimator(pipeline, X, y, **options)
    ax = display.plot(ax=ax, public_data=True).ax_
