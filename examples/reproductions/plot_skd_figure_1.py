"""
Sketched regression: error against the number of rows
=====================================================

After Figure 1 of M. Showkatbakhsh, C. Karakus and S. Diggavi, *Privacy-Utility Trade-off of Linear Regression under
Random Projections and Additive Noise* (ISIT 2018): by how much the sum of squared residuals exceeds the least possible
one, for additive noise and for projections to n' rows, at one epsilon. Its exact data and rules for n' are not known to
us: the data are made up, and n' grows like log n, like sqrt n, or as ``n_components="auto"`` does, like n^(2/3).
"""

# %%
# Data: entries spread evenly over [-1, 1], and a target that they explain to one half.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, save

from skdprp import MIDPRegressor, PrivacyWarning

EPSILON, N_FEATURES = 0.5, 10
RULES = {
    "n' ~ log n": lambda n: round(20 * np.log(n)),
    "n' ~ sqrt n": lambda n: round(5 * np.sqrt(n)),
    "n' auto": lambda n: "auto",
}

options = parse_arguments(full="up to a million rows")
sizes = np.geomspace(1000, 1_000_000 if options.full else 100_000, 7 if options.full else 5).astype(int)
repeats = 30


def make_data(n, seed=0):
    """Draw a regression problem whose signal is as strong as its noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, N_FEATURES))
    signal = X @ rng.normal(size=N_FEATURES)
    return X, signal + signal.std() * rng.normal(size=n)


def relative_error(X, y, **parameters):
    """Median over releases of the excess over the least sum of squares, as a share of it."""
    least = np.sum((y - X @ np.linalg.lstsq(X, y)[0]) ** 2)
    models = [MIDPRegressor(epsilon=EPSILON, **parameters).fit(X, y) for _ in range(repeats)]
    return np.median([np.sum((y - model.predict(X)) ** 2) for model in models]) / least - 1


# %%
# The published calibration subtracts f(X)^2 from the variance of the noise. Here f(X)^2 is near n / 3: as soon as n' is
# less than that, no noise is left. Its curves, dashed, are what a projection costs without any noise, and their
# guarantee is void: :class:`~skdprp.MIDPRegressor` warns and says so in ``guarantee_``.
warnings.simplefilter("ignore", PrivacyWarning)
rows = []
for n in sizes:
    X, y = make_data(n)
    row = {"n": n, "additive": relative_error(X, y, mechanism="additive")}
    for name, rule in RULES.items():
        for calibration in ("exact", "published"):
            row[f"{name}, {calibration}"] = relative_error(X, y, n_components=rule(n), calibration=calibration)
    rows.append(row)

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.plot(sizes, [row["additive"] for row in rows], color="black", marker="^", label="additive")
for color, name in enumerate(RULES):
    for calibration, style in {"exact": "o-", "published": "x--"}.items():
        label = f"{name}, {calibration}" + " (not private)" * (calibration == "published")
        ax.plot(sizes, [row[f"{name}, {calibration}"] for row in rows], style, color=f"C{color}", label=label)
ax.set(xscale="log", yscale="log", xlabel="rows n", ylabel="relative error of the sum of squares")
ax.set_title(f"MI-DP regression at {EPSILON} bits, d = {N_FEATURES}")
ax.legend()
save(options, "skd_figure_1", fig, rows)
plt.show()

# %%
# The error of additive noise does not go away with more rows: it acts like a ridge penalty of n sigma^2, which grows as
# fast as the data. That of a projection is sigma^2, proportional to n', so that what noise costs falls to zero when n'
# grows slower than n; what fewer rows cost is near d / n', which hardly falls for n' ~ log n. That projections win is
# the point of the paper, and it survives with the sound calibration. What does not survive are the dashed curves; the
# price of their removal is highest where rows are few.
print(*rows[0], sep=", ")
for row in rows:
    print(", ".join(f"{value:.3g}" for value in row.values()))
