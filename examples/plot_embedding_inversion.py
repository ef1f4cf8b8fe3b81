"""
Embeddings: what a search finds, and what an attacker recovers
==============================================================

An *embedding* is a row of numbers that a model computes from an image or a text. Embeddings are released so that others
can search them. But anybody who has the model can also try to invert it, that is, to compute the image from its
embedding. Noise makes both the search and the inversion harder. This example measures both on the same release.

The model is public. It consists of the principal components of the first 600 digits, which count as public data here.
The other digits are private.
"""

# %%
# The embeddings have 24 numbers, and are clipped to a norm of 2. So any two rows have a distance of at most 4, and the
# guarantee can cover a whole row instead of one coordinate.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

from skdprp import DPRandomProjection
from skdprp.similarity import SketchNeighbors

X, y = load_digits(return_X_y=True)
public, private = X[:600] / 16, X[600:] / 16
labels_public, labels = y[:600], y[600:]
model = PCA(24, random_state=0).fit(public)
RADIUS = 2.0


def embed(images):
    """Embed images, and clip what is longer than the radius."""
    embedded = model.transform(images)
    return embedded * np.minimum(1, RADIUS / np.linalg.norm(embedded, axis=1, keepdims=True))


E, E_public = embed(private), embed(public)
queries, rows = E[:200], E[200:]
cosines = (queries / np.linalg.norm(queries, axis=1)[:, None]) @ (rows / np.linalg.norm(rows, axis=1)[:, None]).T
least = np.sort(cosines, axis=1)[:, -10, None]


# %%
# There are two units of privacy. ``max_change=2 * RADIUS`` protects a whole row: any row may be replaced by any other.
# ``max_change=0.5`` only protects changes of a row by a distance of at most 0.5, an eighth of the former.
def release(epsilon, max_change):
    """Fit a sketch that adds noise to the embeddings themselves, and release the rows."""
    sketch = DPRandomProjection(
        projection="identity", epsilon=epsilon, delta=1e-6, max_change=max_change, adjacency="l2"
    ).fit(rows)
    return sketch, sketch.transform(rows)


print(release(5.0, 2 * RADIUS)[0].guarantee_)
print(release(5.0, 0.5)[0].guarantee_)


# %%
# The attacker knows the model, the distribution of the noise, and the public images. She embeds the public images and
# adds noise of the same distribution. From these she learns to map noisy embeddings to images and to labels. Then she
# applies both maps to the released rows.
def attack(sketch, released):
    """Compute images and labels from released embeddings."""
    rehearsed = np.vstack([sketch.transform(E_public) for _ in range(5)])
    invert = Ridge(alpha=1.0).fit(rehearsed, np.tile(public, (5, 1)))
    guess = LogisticRegression(C=0.1, max_iter=2000).fit(rehearsed, np.tile(labels_public, 5))
    return invert.predict(released), guess.predict(released)


truth, mean = private[200:], public.mean(axis=0)
shown = {}
settings = [(1.0, 4.0), (20.0, 4.0), (5.0, 0.5), (20.0, 0.5), (100.0, 0.5)]
print("\n   max_change   epsilon   recall at 10   label guessed   image error   picked out of all")
for epsilon, max_change in settings:
    sketch, released = release(epsilon, max_change)
    found = SketchNeighbors(10).fit(released, sketch=sketch).kneighbors(queries, return_distance=False)
    recall = (np.take_along_axis(cosines, found, axis=1) >= least - 1e-9).mean()
    images, guessed = attack(sketch, released)
    # 1 is the error of guessing the mean public image for each row.
    error = np.sum((images - truth) ** 2) / np.sum((mean - truth) ** 2)
    # Somebody who has all images picks the one that is nearest to the computed image.
    distances = np.sum(images**2, axis=1)[:, None] - 2 * images @ truth.T + np.sum(truth**2, axis=1)
    picked = np.mean(distances.argmin(axis=1) == np.arange(len(truth)))
    scores = f"{recall:>15.2f}{np.mean(guessed == labels[200:]):>16.2f}{error:>14.2f}{picked:>20.3f}"
    print(f"{max_change:>13}{epsilon:>10}{scores}")
    shown[f"epsilon = {epsilon:g},\nl2 change of {max_change:g}"] = images
exact = model.inverse_transform(rows)
error = np.sum((exact - truth) ** 2) / np.sum((mean - truth) ** 2)
print(f"Without noise, the image error is {error:.2f}. Chance finds .10 of labels and {1 / len(truth):.3f} of images.")

# %%
# The figure shows eight private digits, their reconstruction from embeddings without noise, and what the attacker
# computes from each release.
panels = {"private": truth, "no noise": exact, **shown}
fig, axes = plt.subplots(len(panels), 8, figsize=(8, 1.1 * len(panels)), layout="constrained")
for line, (name, images) in zip(axes, panels.items(), strict=True):
    for ax, image in zip(line, images, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)

# %%
# If a whole row is protected at a small epsilon, the attacker learns next to nothing, and the search finds next to
# nothing. If the search finds something, so does the attacker: first which digit a row shows, and at a large epsilon
# which of all images it is. So noise does not make a release of embeddings harmless. The guarantee bounds how well any
# attack can distinguish two rows that differ by at most ``max_change``. This attack or a better one can recover larger
# differences.
