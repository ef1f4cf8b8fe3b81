"""
Sketched regression: handwritten 4 against 9
============================================

After Figure 3 of M. Showkatbakhsh, C. Karakus and S. Diggavi, *Privacy-Utility Trade-off of Linear Regression under
Random Projections and Additive Noise* (ISIT 2018): tell two digits apart by least squares on the sign of the class,
from pixels protected one by one. With ``--data DIR`` the digits are those of MNIST, otherwise the small ones of
scikit-learn. What else the paper did is not known to us.
"""

# %%
# Pixels are known to be between 0 and a maximum. Shifted by half of it, a public constant, entries are at most 1/2 in
# absolute value: half the noise of a range of [0, 1] that is bounded by 1.
import argparse
import csv
import gzip
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skdprp import MIDPRegressor, PrivacyWarning

parser = argparse.ArgumentParser(description="Accuracy on handwritten 4 against 9.")
parser.add_argument("--full", action="store_true", help="more epsilons and repeats")
parser.add_argument("--data", type=Path, help="folder with MNIST: t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz")
parser.add_argument("--output", type=Path, help="folder for skd_figure_3.png and skd_figure_3.csv")
options = parser.parse_args()
repeats = 10 if options.full else 3


def read_idx(path, header):
    """Read the bytes of a gzipped IDX file behind its header."""
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def read_mnist(folder):
    """Return MNIST: the training set if it is there, with the test set or else alone the latter."""
    parts = [name for name in ("train", "t10k") if (folder / f"{name}-images-idx3-ubyte.gz").exists()]
    images = [read_idx(folder / f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 784) for name in parts]
    labels = [read_idx(folder / f"{name}-labels-idx1-ubyte.gz", 8) for name in parts]
    return np.vstack(images) / 255, np.concatenate(labels)


if options.data:
    X, digit = read_mnist(options.data)
else:
    X, digit = load_digits(return_X_y=True)
    X = X / 16
X, y = X[np.isin(digit, (4, 9))] - 0.5, np.where(digit[np.isin(digit, (4, 9))] == 9, 1.0, -1.0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
print(f"{len(X_train)} rows to learn from, {X.shape[1]} pixels")

# %%
# Both calibrations of a projection, and additive noise. Pixels at the border are nearly constant: after the shift each
# has a sum of squares of n / 4, which the published calibration takes for what hides an entry. The constant column and
# the other border pixels are projected by the same matrix and give it away.
settings = {
    "additive": {"mechanism": "additive"},
    "projection, exact": {},
    "projection, published (not private)": {"calibration": "published"},
}
styles = ["k^-", "C0o-", "C0x--"]
epsilons = np.geomspace(0.05, 8, 9 if options.full else 5)


def accuracy(**parameters):
    """Mean over releases of the share of right signs on the test rows."""
    models = [
        MIDPRegressor(max_abs=0.5, fit_intercept=True, **parameters).fit(X_train, y_train) for _ in range(repeats)
    ]
    return np.mean([np.mean(np.sign(model.predict(X_test)) == y_test) for model in models])


warnings.simplefilter("ignore", PrivacyWarning)
curves = {name: [accuracy(epsilon=epsilon, **setting) for epsilon in epsilons] for name, setting in settings.items()}
reference = np.mean(np.sign(Ridge(alpha=1.0).fit(X_train, y_train).predict(X_test)) == y_test)

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
for (name, curve), style in zip(curves.items(), styles, strict=True):
    ax.plot(epsilons, curve, style, label=name)
ax.axhline(reference, color="black", linestyle="--", label="not private, ridge")
ax.axhline(0.5, color="grey", linestyle=":", label="chance")
ax.set(xscale="log", xlabel="epsilon in bits, of one pixel", ylabel="share of right signs", ylim=(0.4, 1.02))
ax.set_title(f"{'MNIST' if options.data else 'Small digits'}, 4 against 9, n = {len(X_train)}, d = {X.shape[1]}")
ax.legend(fontsize="small", loc="lower right")
if options.output:
    options.output.mkdir(parents=True, exist_ok=True)
    fig.savefig(options.output / "skd_figure_3.png", dpi=150)
    with open(options.output / "skd_figure_3.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epsilon", *curves])
        writer.writerows(zip(epsilons, *curves.values(), strict=True))
plt.show()

# %%
# With few more rows than pixels, as here, additive noise is not worse than a projection: it is a strong ridge penalty,
# which such a problem needs anyway, and it keeps all rows. Projections win where n is far larger than d.
#
# The unit is one pixel of one image. An image is hundreds of pixels that predict each other: at no epsilon does this
# protect an image as a whole.
print(f"not private: {reference:.3f}")
for i, epsilon in enumerate(epsilons):
    print(f"epsilon = {epsilon:.3f} bits: " + ", ".join(f"{name} {curve[i]:.3f}" for name, curve in curves.items()))
