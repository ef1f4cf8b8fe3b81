"""
Three calibrations of Gaussian noise
====================================

How much Gaussian noise makes a release (epsilon, delta)-DP? Textbooks give the *classic* formula. Papers on sketches
use a formula of Kenthapadi and others. The *analytic* calibration computes the smallest noise that meets the target.
All three guarantee the same, with different amounts of noise.
"""

# %%
# All three are functions of epsilon, delta and the sensitivity, which is 1 here. The classic formula is proved only for
# epsilon below 1, and the library refuses it for any other.
import matplotlib.pyplot as plt
import numpy as np

from skdprp import DPOPORP, PrivacyProfileDisplay
from skdprp.mechanisms import classic_gaussian_scale, gaussian_profile, gaussian_scale, kenthapadi_scale

delta = 1e-6
calibrations = {"analytic": gaussian_scale, "Kenthapadi": kenthapadi_scale, "classic": classic_gaussian_scale}
try:
    classic_gaussian_scale(2.0, delta)
except ValueError as error:
    print(error)

# %%
# The left panel shows the standard deviation of the noise. The right panel shows the exact delta of each calibration at
# the epsilon on the axis. Analytic noise meets the target exactly. The other two add so much noise that their delta is
# far below the target.
fig, (noise, failure) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for (name, calibration), style in zip(calibrations.items(), ("-", "--", ":"), strict=True):
    epsilons = np.geomspace(0.05, 0.999 if name == "classic" else 20, 60)
    scales = [calibration(epsilon, delta) for epsilon in epsilons]
    deltas = [gaussian_profile(epsilon, scale=scale) for epsilon, scale in zip(epsilons, scales, strict=True)]
    noise.loglog(epsilons, scales, style, label=name)
    failure.loglog(epsilons, deltas, style, label=name)
noise.set(
    xlabel="epsilon, l2 change of 1",
    ylabel="standard deviation of the noise",
    title="noise for sensitivity 1",
)
failure.set(
    xlabel="epsilon, l2 change of 1",
    ylabel="delta that holds",
    title=f"asked for: delta = {delta:g}",
    ylim=(1e-14, 1e-4),
)
for ax in (noise, failure):
    ax.xaxis.set_major_formatter("{x:g}")
fig.legend(*noise.get_legend_handles_labels(), loc="outside upper center", ncols=3)

# %%
# A privacy profile shows the delta of a release at every epsilon. The curve of the analytic calibration passes through
# the target; that of Kenthapadi's calibration lies to its left, because it has more noise.
analytic = DPOPORP(64, epsilon=2.0, delta=delta).fit(np.zeros((1, 256)))
kenthapadi = DPOPORP(64, epsilon=2.0, delta=delta, calibration="kenthapadi").fit(np.zeros((1, 256)))
display = PrivacyProfileDisplay.from_estimator(analytic, label="analytic").plot()
PrivacyProfileDisplay.from_estimator(kenthapadi, label="Kenthapadi").plot(ax=display.ax_)

# %%
# Near epsilon = 1, the other two calibrations add this much more noise than the analytic one:
for name in ("Kenthapadi", "classic"):
    print(f"{name}: {calibrations[name](0.99, delta) / gaussian_scale(0.99, delta) - 1:.0%} more")
