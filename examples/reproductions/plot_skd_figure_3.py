"""
Sketched regression: handwritten 4 against 9
============================================

Figure 3 of M. Showkatbakhsh, C. Karakus and S. Diggavi, *Privacy-Utility Trade-off of Linear Regression under Random
Projections and Additive Noise* (ISIT 2018): tell two digits apart by least squares on labels of +1 and -1, from pixels
that are protected one by one, at 0.2 bits and several numbers of rows n.

==================  ==========================  ===================================================================
setting             paper                       here
==================  ==========================  ===================================================================
rows                4 and 9 of MNIST, 11,791    those of ``--data DIR``: with the training images 13,782, with the
                                                test images alone 1991; otherwise the small digits of scikit-learn, 361
pixels              300 of most energy          the same; 30 of the small ones
entries             not said                    from 0 to 1, ``max_abs=1``; no intercept
n                   1000 k, sampled             the same, k in steps of 1/2; 100 k of small digits
n'                  500 (log k + 1),            the same, natural log, at most the rows that are learnt from; 50 for 500
                    500 (k + 1) / 2, n          in small digits
partition           80% / 20%                   the same
epsilon             .2 bits                     the same
trials              10                          the same, each with its own sample and partition
sigma of            (13), read from the data,   the same, dashed; and the exact one, n' / (2^(2 epsilon) - 1), solid
projections         not private
==================  ==========================  ===================================================================
"""

# %%
# The pixels of most energy are chosen on the data, as in the paper, and their choice is not protected.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import SKETCHED_RULES, parse_arguments, read_digits, save, sketched_regressor
from sklearn.model_selection import train_test_split

from skdprp import PrivacyWarning

options = parse_arguments(full="no more than the default", data="MNIST, as *-ubyte.gz")
EPSILON, TRIALS = 0.2, 10
X, digit, source = read_digits(options.data)
UNIT, N_PIXELS = (1000, 300) if source == "MNIST" else (100, 30)
X, y = X[np.isin(digit, (4, 9))], np.where(digit[np.isin(digit, (4, 9))] == 9, 1.0, -1.0)
X = X[:, np.argsort((X**2).sum(axis=0))[-N_PIXELS:]]
sizes = np.unique(np.append(np.arange(UNIT, len(X) + 1, UNIT // 2), len(X) // 10 * 10))
warnings.simplefilter("ignore", PrivacyWarning)  # of fits as published: `guarantee_` says that they have none


def test_error(n, seed, **parameters):
    """Share of wrong signs on a fifth of n rows that are drawn; without parameters of least squares on the others."""
    rows = np.random.default_rng(seed).choice(len(X), n, replace=False)
    X_train, X_test, y_train, y_test = train_test_split(X[rows], y[rows], test_size=0.2, random_state=seed)
    if not parameters:
        coef = np.linalg.lstsq(X_train, y_train)[0]
    else:
        if "n_components" in parameters:
            parameters["n_components"] = min(parameters["n_components"], len(X_train))
        coef = sketched_regressor(EPSILON, **parameters).fit(X_train, y_train).coef_
    return np.mean(np.sign(X_test @ coef) != y_test)


rows = []
for n in sizes:
    settings = {"not private": {}, "additive": {"mechanism": "additive"}}
    for name, rule in SKETCHED_RULES.items():
        for calibration in ("exact", "published"):
            size = {"n_components": rule(n, n / UNIT, UNIT // 2)}
            settings[f"{name}, {calibration}"] = {"mechanism": "projection", "calibration": calibration} | size
    row = {"n": n}
    for name, parameters in settings.items():
        errors = [test_error(n, seed, **parameters) for seed in range(TRIALS)]
        row |= {name: np.mean(errors), f"{name}, deviation": np.std(errors)}
    rows.append(row)

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.plot(sizes, [row["not private"] for row in rows], color="grey", linestyle=":", label="not private")
ax.plot(sizes, [row["additive"] for row in rows], color="black", marker="^", label="additive")
for color, name in enumerate(SKETCHED_RULES):
    for calibration, style in {"exact": "o-", "published": "x--"}.items():
        label = f"{name}, {calibration}" + " (not private)" * (calibration == "published")
        ax.plot(sizes, [row[f"{name}, {calibration}"] for row in rows], f"C{color}{style}", label=label)
ax.set(xlabel="rows n, of which a fifth are tested", ylabel="share of wrong signs", ylim=(0, None))
ax.set_title(f"{source}, 4 against 9, {N_PIXELS} pixels, {EPSILON} bits for one pixel")
ax.legend()
save(options, "skd_figure_3", fig, rows)
plt.show()

# %%
# The unit is one pixel of one image. An image is hundreds of pixels that predict each other: at no epsilon does this
# protect an image as a whole.
for row in rows:
    print(", ".join(f"{name} {value:.4g}" for name, value in row.items() if "deviation" not in name))
deviations = [value for row in rows for name, value in row.items() if "deviation" in name]
print(f"standard deviations between trials: {min(deviations):.3f} to {max(deviations):.3f}")
