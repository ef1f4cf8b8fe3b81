"""
Product noise: privacy of stochastic gradient descent against epochs
====================================================================

After Figure 7 of S. Liu, T. Ji, Z. Fang, L. Wei and P. Li, *Privacy Loss of Noise Perturbation via Concentration
Analysis of a Product Measure* (SIGMOD 2026, arXiv:2512.06253): epsilon of noisy gradient descent on random batches
against the number of epochs, at delta = 1e-5 and for one expected size of the noise. Number of parameters, sampling
rate and size of the noise are our choice: M = 1000, 1%, and Gaussian noise of 4 clipping norms. The paper composes by
a theorem that is unsound as printed; here every curve is composed soundly, so that what is wrong with the published one
is its single step.
"""

# %%
# One step guarantees (epsilon_0, delta_0) for every epsilon_0, by the profile of its noise. Sampling makes that
# (log(1 + p (e^epsilon_0 - 1)), p delta_0), T steps compose by the theorem of Kairouz, Oh and Viswanath, and the best
# epsilon_0 counts. For Gaussian noise there is something better: the distribution of the privacy loss of all steps
# together, by the accountant of dp-accounting.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import parse_arguments, save
from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq

from skdprp.mechanisms import gaussian_profile, published_product_noise_scale, spherical_profile
from skdprp.mechanisms.noisy_steps import amplified, composed_profile

options = parse_arguments(full="more epochs")
M, RATE, SIGMA, DELTA = 1000, 0.01, 4.0, 1e-5
STEPS = round(1 / RATE)
epochs = np.array([1, 2, 5, 10, 20, 50, 100] if options.full else [1, 2, 5, 10, 20])
epsilons_of_a_step = np.geomspace(0.03, 10, 60)


def published_delta(epsilon):
    """Claimed delta of one step: that for which the published calibration gives noise of this size."""

    def _excess(log_delta):
        return published_product_noise_scale(epsilon, np.exp(log_delta), n_dims=M) - SIGMA * np.sqrt(M)

    low, high = np.log(1e-14), np.log(0.5)
    if _excess(low) <= 0:
        return 1e-14
    return 1.0 if _excess(high) > 0 else float(np.exp(brentq(_excess, low, high)))


STEP_PROFILES = {
    "chi_1, as published (not private)": published_delta,
    "chi_1, exact": lambda e: spherical_profile(e, scale=np.sqrt(2 * M) * SIGMA, n_dims=M, shape=1, power=2),
    "Gamma radius, exact": lambda e: spherical_profile(
        e, scale=SIGMA * np.sqrt(M / (M * (M + 1))), n_dims=M, shape=M, power=1
    ),
    "Gaussian, exact": lambda e: gaussian_profile(e, scale=SIGMA),
}


def composed_epsilon(step_guarantees, n_steps):
    """Least epsilon of all steps, over the guarantees of one step; infinite if none reaches delta."""
    return min((_composed_epsilon(*guarantee, n_steps) for guarantee in step_guarantees), default=np.inf)


def _composed_epsilon(epsilon, delta, n_steps):
    step_epsilon, step_delta = amplified(epsilon, min(delta, 0.5), rate=RATE)

    def _excess(total):
        return composed_profile(total, step_epsilon=step_epsilon, step_delta=step_delta, n_steps=n_steps) - DELTA

    largest = n_steps * step_epsilon
    if _excess(largest) > 0:
        return np.inf
    return brentq(_excess, 0, largest, xtol=1e-3) if _excess(0) > 0 else 0.0


guarantees = {name: [(e, profile(e)) for e in epsilons_of_a_step] for name, profile in STEP_PROFILES.items()}
curves = {name: [composed_epsilon(steps, STEPS * n) for n in epochs] for name, steps in guarantees.items()}
step = privacy_loss_distribution.from_gaussian_mechanism(SIGMA, sampling_prob=RATE, value_discretization_interval=1e-3)
curves["Gaussian, exact, PLD accountant"] = [
    step.self_compose(int(STEPS * n)).get_epsilon_for_delta(DELTA) for n in epochs
]

# %%
# The left panel has the profiles of one step, before sampling.
STYLES = ["C1x--", "C1o-", "C0s-", "C6-", "C2D-"]
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for (name, steps), style in zip(guarantees.items(), STYLES, strict=False):
    wide = {"linewidth": 4, "alpha": 0.4} if name == "Gaussian, exact" else {"markevery": 5}
    left.plot(*zip(*steps, strict=True), style, label=name, **wide)
left.set(xscale="log", yscale="log", ylim=(1e-13, 3), xlabel="epsilon of one step", ylabel="delta of one step")
left.set_title(f"One step, M = {M}, expected squared norm {SIGMA**2 * M:g}")
for (name, curve), style in zip(curves.items(), STYLES, strict=True):
    wide = {"linewidth": 4, "alpha": 0.4} if name == "Gaussian, exact" else {}
    label = name + (": no epsilon" if np.isinf(curve).all() else "")
    right.plot(epochs, curve, style, label=label, **wide)
right.set(xscale="log", yscale="log", xlabel="epochs", ylabel="epsilon of all steps")
right.set_title(f"All steps, delta = {DELTA:g}, sampling rate {RATE:g}")
right.set_xticks(epochs, [str(n) for n in epochs])
right.minorticks_off()
fig.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=3)
deltas = {name: [delta for _, delta in steps] for name, steps in guarantees.items()}
save(
    options,
    "pn_figure_7",
    fig,
    {"epochs": epochs} | curves,
    step={"epsilon of one step": epsilons_of_a_step} | deltas,
)
plt.show()

# %%
# The published curve is the lowest, and void. The same noise, accounted for exactly, has no epsilon at all at this
# delta: a single step has a delta above 0.04 up to an epsilon of 10, as the left panel shows. With a Gamma radius,
# product noise is as good as Gaussian noise, step by step; but only Gaussian steps have an accountant for all of them
# together, which is why Gaussian noise is the one to use for anything composed.
for name, curve in curves.items():
    print(f"{name:36}", *(f"{epsilon:7.2f}" for epsilon in curve))
