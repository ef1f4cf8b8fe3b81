"""
Near-duplicates among text messages
===================================

Fraud goes round with another name or number in each message. Who gets one wants to know whether others had nearly the
same; who collects messages cannot publish them. What is released here are noisy sketches of the words of each message:
they hide whether it has any one word, and still tell which other one it is nearly the same as.
"""

# %%
# The messages are made up: half of them chatter, half one of sixty frauds, with a few words changed in each. On a
# command line, ``--data DIR`` takes the 5574 real ones of SMSSpamCollection instead.
import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from skdprp import DPOPORP, DPSignOPORP
from skdprp.similarity import HammingNeighbors, SketchNeighbors, best_n_repeats

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, help="folder with SMSSpamCollection; default: messages that are made up")
folder = parser.parse_args().data
rng = np.random.default_rng(0)


def made_up_messages(n_messages, n_frauds):
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
    messages = made_up_messages(4000, n_frauds=60)
else:
    lines = (folder / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    messages = sorted({line.split("\t", 1)[1] for line in lines})

# %%
# Which words a message has is hashed to 4096 columns: a hash does not depend on the data, and a vocabulary would. One
# word more or less is one column changed by 1, ``max_change=1``, and a word for another is two of them. Of trigrams of
# characters, which find words that are misspelt, a letter for another would be six (:ref:`one-change`).
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
# Most messages have at most thirty words. Told so, by a number that does not come from these messages, a sketch says
# which releases cannot work: most bits of a row may be reached by none of its words, or the noise may hide all words at
# once.
useless = DPSignOPORP(512, epsilon=5.0, max_nonzeros=30), DPOPORP(4096, epsilon=0.1, noise="laplace", max_nonzeros=30)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for sketch in useless:
        sketch.fit(rows)
for warning in told:
    print(warning.message)

# %%
# A query without noise, which must stay with the searcher, is scored against noisy numbers. If the query has to be
# hidden as well, it is a sketch itself, and bits are compared with bits: few of them, in repetitions.
# Both answer two questions. Are the nearest ten rows the right ones, where there are any? And does the distance of the
# nearest tell whether there are any: how often is a message that has some nearer than one that has none?


def report(name, distances, nearest):
    """Print how many queries find what is nearly the same, and how well the distance tells that there is any."""
    found = np.take_along_axis(alike, nearest, axis=1).any(axis=1)[has_any].mean()
    print(f"{name:<32} found {found:.2f}, told apart {roc_auc_score(has_any, -distances[:, 0]):.2f}")


for epsilon in (2.0, 5.0, 20.0):
    numbers = DPOPORP(4096, epsilon=epsilon, noise="laplace", random_state=0).fit(rows)
    search = SketchNeighbors(10).fit(numbers.transform(rows), sketch=numbers)
    report(f"epsilon = {epsilon:>4}, plain queries", *search.kneighbors(queries))
    n_repeats = best_n_repeats(epsilon, n_features=4096, n_components=64, n_nonzero=15)
    bits = DPSignOPORP(64, epsilon=epsilon, n_repeats=n_repeats, output="packed", random_state=0).fit(rows)
    search = HammingNeighbors(10).fit(bits.transform(rows))
    report(f"epsilon = {epsilon:>4}, bits with bits", *search.kneighbors(bits.transform(queries)))

# %%
# Among the real messages, where 41 of the 500 queries are nearly the same as a released one, plain queries find .73,
# .95 and 1.00 of these, and bits .04, .36 and .73, on average over three draws. What is found here an attacker finds
# too: who guesses a whole message sees whether one like it was released. What is hidden is any one word of it:
print(repr(numbers.guarantee_))
