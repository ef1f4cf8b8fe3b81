"""
Auditing a broken mechanism
===========================

A guarantee is a claim about every attack. One attack that does better refutes it. :func:`~skdprp.audit_epsilon` runs a
release many times on two neighbours, learns to tell its outputs apart on one half of them, and counts on the other half
how often it is right: that bounds epsilon from *below*, with a stated confidence.
"""

# %%
# Four releases of one number, which is 0, or 1 for a neighbour. All claim epsilon = 1. The first is the Laplace
# mechanism of the library. Then come three that went wrong: with half of the noise, a factor that is easily lost in a
# derivation; with one noise for two answers, each of which has the right distribution by itself; and the textbook's
# formula, as one would write it in numpy.
import matplotlib.pyplot as plt
import numpy as np

from skdprp import DPOPORP, DPRandomProjection, PrivacyGuarantee, PrivacyProfileDisplay, audit_epsilon

rng = np.random.default_rng()
mechanism = DPRandomProjection(projection="identity", noise="laplace", epsilon=1.0).fit([[0.0]])


def library(x):
    """Release the number by the library."""
    return mechanism.transform([[x]])[0, 0]


def half(x):
    """Add half of the noise."""
    return x + (library(0.0)) / 2


def reused(x):
    """Answer two questions, of which only the first depends on the secret, with one noise."""
    noise = library(0.0)
    return np.array([x + noise, noise])


def textbook(x):
    """Add floating-point noise to a floating-point number."""
    return x + rng.laplace(scale=1.0)


claim = PrivacyGuarantee(1.0, 0.0)
releases = (library, half, reused, textbook)
results = {release.__name__: audit_epsilon(release, 0.0, 1.0, n_trials=4000) for release in releases}
for name, result in results.items():
    print(f"{name:<10}epsilon is at least {result.epsilon:.2f}", "REFUTED" if result.exceeds(claim) else "")

# %%
# What passes the line is refuted. What does not is not proved by this: only this attack has failed. The textbook's
# formula is right for real numbers. But the sum of 1 and a small noise is rounded where the sum of 0 and the noise is
# not, and its last bits tell the two apart; the library releases on a grid that does not depend on the number.
fig, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.barh(list(results), [result.epsilon for result in results.values()], color="#0077BB")
ax.axvline(1.0, color="#CC3311", linestyle="--", label="claimed")
ax.invert_yaxis()
ax.set(xlabel="epsilon of the number, by the audit at least")
ax.legend()

# %%
# A sketch of the library, attacked in the same way. What the audit found becomes a part of the guarantee, and its
# display shows both: the attack must stay left of the curve.
sketch = DPOPORP(16, epsilon=1.0, delta=1e-5, random_state=0).fit(np.zeros((1, 64)))
u = np.zeros((1, 64))
v = u.copy()
v[0, 0] = 1.0
result = audit_epsilon(sketch, u, v, n_trials=20_000)
audited = result.attach_to(sketch.guarantee_)
audited

# %%
PrivacyProfileDisplay.from_guarantee(audited).plot()
