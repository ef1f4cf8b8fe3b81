"""
Near-duplicates among text messages
===================================

Fraudulent messages are sent to many people, each with another name or number. Somebody who gets one wants to know
whether others got nearly the same message, but whoever collects messages cannot publish them. This example releases
noisy sketches of the words of each message instead. A sketch hides whether a message has any one word, and can still be
compared with other messages.
"""

# %%
# The messages are simulated. Half of them have random words, and half are copies of one of sixty frauds, with a few
# words changed in each copy. On the command line, ``--data DIR`` uses the 5574 real messages of SMSSpamCollection
# instead.
import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from skdprp import DPOPORP, DPSignOPORP
from skdprp.similarity import HammingNeighbors, SketchNeighbors, best_n_repeats

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with SMSSpamCollection; default: simulated messages")
folder = parser.parse_args().data
rng = np.random.default_rng(0)


def simulated_messages(n_messages, n_frauds):
    """Draw messages of 5 to 20 words, few of which are common; half repeat frauds, with one to three changes."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
    vocabulary = np.array(["".join(rng.choice(syllables, 3)) for _ in range(3000)])
    share = 1 / np.arange(10, 10 + len(vocabulary))

    def some_words(size):
        return rng.choice(vocabulary, size, p=share / share.sum())

    frauds = [some_words(rng.integers(12, 21)) for _ in range(n_frauds)]
    messages = [some_words(rng.integers(5, 21)) for _ in range(n_messages // 2)]
    for i in range(n_messages - n_messages // 2):
        message, n_changes = frauds[i % n_frauds].copy(), rng.integers(1, 4)
        message[rng.choice(len(message), n_changes, replace=False)] = some_words(n_changes)
        messages.append(message)
    return [" ".join(message) for message in messages]


if folder is None:
    messages = simulated_messages(4000, n_frauds=60)
else:
    lines = (folder / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    messages = sorted({line.split("\t", 1)[1] for line in lines})

# %%
# The words of a message are hashed to 4096 columns of zeros and ones. A hash does not depend on the data, but a
# vocabulary would. Adding or removing a word changes one column by 1, which is the unit of privacy, ``max_change=1``.
# Replacing a word changes two columns. A word with a hyphen or a dot in it is two tokens. Trigrams of characters would
# also find misspelt words, but there, replacing a letter changes up to six columns (:ref:`one-change`).
words = HashingVectorizer(n_features=4096, binary=True, norm=None, lowercase=False)
X = words.transform(messages)
order = rng.permutation(X.shape[0])
queries, rows = X[order[:500]], X[order[500:]]
cosines = (normalize(queries) @ normalize(rows).T).toarray()
alike = cosines >= 0.7
has_any = alike.any(axis=1)
print(
    f"{rows.shape[0]} messages of {rows.nnz / rows.shape[0]:.0f} words are released; of {len(has_any)} others, "
    f"{has_any.sum()} are nearly the same as one of them"
)

# %%
# Most messages have at most thirty words; we know this without these messages. With ``max_nonzeros=30``, a sketch warns
# of two kinds of useless releases: most bits of each row are random, because no word of the row affects them, or the
# noise hides all words at once.
useless = DPSignOPORP(512, epsilon=5.0, max_nonzeros=30), DPOPORP(4096, epsilon=0.1, noise="laplace", max_nonzeros=30)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for sketch in useless:
        sketch.fit(rows)
for warning in told:
    print(warning.message)

# %%
# A query without noise stays with the searcher, and is compared with noisy numbers, or with bits if only these may be
# published. If the query has to be private as well, it is sketched, too, and bits are compared with bits: few bits, in
# repetitions. We ask two questions about each search. If a query has near-duplicates, is one of them among the ten
# nearest? And does the distance of the nearest row tell whether a query has near-duplicates? The second answer is an
# AUC: how often a query with near-duplicates is nearer to a row than a query without.


results = {}


def report(epsilon, name, distances, nearest):
    """Print the share of queries that find a near-duplicate, and how well the distance tells that there is one."""
    found = np.take_along_axis(alike, nearest, axis=1).any(axis=1)[has_any].mean()
    apart = roc_auc_score(has_any, -distances[:, 0])
    print(f"epsilon = {epsilon:>4}, {name:<20} found {found:.2f}, told apart {apart:.2f}")
    results.setdefault(name, []).append((found, apart))


epsilons = (2.0, 5.0, 20.0)
for epsilon in epsilons:
    numbers = DPOPORP(4096, epsilon=epsilon, noise="laplace", random_state=0).fit(rows)
    search = SketchNeighbors(10).fit(numbers.transform(rows), sketch=numbers)
    report(epsilon, "plain queries", *search.kneighbors(queries))
    bits = DPSignOPORP(512, epsilon=epsilon, random_state=0).fit(rows)
    search = SketchNeighbors(10).fit(bits.transform(rows), sketch=bits)
    report(epsilon, "bits, plain queries", *search.kneighbors(queries))
    n_repeats = best_n_repeats(epsilon, n_features=4096, n_components=64, n_nonzero=15)
    bits = DPSignOPORP(64, epsilon=epsilon, n_repeats=n_repeats, output="packed", random_state=0).fit(rows)
    search = HammingNeighbors(10).fit(bits.transform(rows))
    report(epsilon, "bits with bits", *search.kneighbors(bits.transform(queries)))

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, values, title in zip(axes, (0, 1), ("share that finds a near-duplicate", "AUC of the distance"), strict=True):
    for (name, pairs), style in zip(results.items(), ("o-", "s--", "^:"), strict=True):
        ax.plot(epsilons, [pair[values] for pair in pairs], style, label=name)
    ax.set(xscale="log", xlabel="epsilon, one word added or removed", title=title)
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.minorticks_off()
axes[0].set_ylim(0, 1.03)
axes[1].axhline(0.5, color="grey", linestyle=":", label="chance")
axes[1].set_ylim(0.45, 1.03)
axes[1].legend(loc="lower right")
plt.show()

# %%
# Among the real messages, 41 of the 500 queries are nearly the same as a released one. At epsilon = 2, 5 and 20, plain
# queries find .73, .95 and 1.00 of these 41 in numbers and .54, .68 and .72 in 512 bits, and bits that are compared
# with bits find .04, .36 and .73, on average over three draws. An attacker finds
# the same: somebody who guesses a whole message can see whether a similar one was released. Only each single word is
# hidden:
print(repr(numbers.guarantee_))
