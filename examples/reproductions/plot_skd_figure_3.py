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
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, read_digits, save
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skdprp import MIDPRegressor, PrivacyWarning

options = parse_arguments(full="more epsilons and repeats", data="MNIST, as t10k-*-ubyte.gz")
repeats = 10 if options.full else 3
X, digit, source = read_digits(options.data)
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
ax.set_title(f"{source}, 4 against 9, n = {len(X_train)}, d = {X.shape[1]}")
ax.legend(loc="center right")
save(options, "skd_figure_3", fig, {"epsilon": epsilons} | curves | {"not private": [reference] * len(epsilons)})
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
