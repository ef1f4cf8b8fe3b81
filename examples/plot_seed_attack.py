"""
A seed attack
=============

Noise protects only as long as nobody can draw it again. Noise from a seed, such as ``random_state=42`` or the time of
day, can be drawn again: an attacker tries seeds until the result makes sense. So no estimator of this library has a
parameter that seeds its noise. :func:`~skdprp.testing.reproducible_noise` seeds it for tests and figures only. Here it
plays the part of the mistake.
"""

# %%
# Each pixel of a digit is released with strong Gaussian noise. The seed of the noise is kept secret.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skdprp import DPRandomProjection
from skdprp.testing import reproducible_noise

digit = load_digits().data[:1]
seeded = DPRandomProjection(projection="identity", epsilon=0.5, max_change=16.0)
with reproducible_noise(seed=1789):
    release = seeded.fit_transform(digit)
seeded.guarantee_

# %%
# The attacker draws the noise of each seed from 0 to 1999 and subtracts it from the release. Pixels are numbers from 0
# to 16, and only one seed gives such numbers for all pixels.


def without_noise(seed):
    """Subtract the noise of a seed from the release."""
    with reproducible_noise(seed):
        return release - seeded.transform(np.zeros_like(release))


found = [seed for seed in range(2000) if np.all(np.abs(without_noise(seed) - 8) <= 8.1)]
print("seeds that make sense:", found)

# %%
# The attack recovers the row exactly. Noise from the operating system has no seed to try.
unseeded = DPRandomProjection(projection="identity", epsilon=0.5, max_change=16.0).fit(digit)
pictures = {
    "the row": digit,
    "released, seeded noise": release,
    "after the attack": without_noise(found[0]),
    "released, unseeded noise": unseeded.transform(digit),
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    ax.set_title(title, fontsize="medium")
    ax.set(xticks=[], yticks=[])
print("largest error of the attack:", np.abs(pictures["after the attack"] - digit).max().round(2))
unseeded.guarantee_
