"""
Auditing a broken mechanism
===========================

A guarantee bounds how often any attack can succeed. So a single attack that succeeds more often than this bound
refutes it. :func:`~skdprp.audit_epsilon` runs a release many times on two neighbouring inputs. On one half of the
outputs it learns how to tell the two apart, and on the other half it counts how often it is right. The result is a
*lower* bound on epsilon, with a stated confidence.
"""

# %%
# Here are four releases of one number. The number is 0, or 1 for the neighbour, and all four releases claim epsilon =
# 1. The first is the Laplace mechanism of the library. The other three are wrong. ``half`` adds half of the noise, a
# factor that is easily lost in a derivation. ``reused`` adds the same noise to two answers, each of which has the right
# distribution by itself. ``textbook`` is the formula of a textbook, as one would write it in numpy. Each release takes
# a column of numbers and treats every row by itself, so that one call makes many trials (``rows_are_trials=True``).
import matplotlib.pyplot as plt
import numpy as np

from skdprp import DPOPORP, DPRandomProjection, PrivacyGuarantee, PrivacyProfileDisplay, audit_epsilon

rng = np.random.default_rng()
mechanism = DPRandomProjection(projection="identity", noise="laplace", epsilon=1.0).fit([[0.0]])


def library(x):
    """Release each number by the library."""
    return mechanism.transform(x)


def half(x):
    """Add half of the noise."""
    return x + library(np.zeros_like(x)) / 2


def reused(x):
    """Answer two questions, of which only the first depends on the secret, with one noise."""
    noise = library(np.zeros_like(x))
    return np.hstack([x + noise, noise])


def textbook(x):
    """Add floating-point noise to floating-point numbers."""
    return x + rng.laplace(scale=1.0, size=x.shape)


claim = PrivacyGuarantee(1.0, 0.0)
releases = (library, half, reused, textbook)
results = {
    release.__name__: audit_epsilon(release, [[0.0]], [[1.0]], n_trials=4000, rows_are_trials=True)
    for release in releases
}
for name, result in results.items():
    print(f"{name:<10}epsilon is at least {result.epsilon:.2f}", "REFUTED" if result.exceeds(claim) else "")

# %%
# A bar beyond the red line refutes the claim. A shorter bar proves nothing: only this attack has failed. The formula of
# the textbook is right for real numbers. But 1 plus a small noise is rounded to fewer bits than 0 plus the noise, so
# the last bits tell the two numbers apart. The library releases numbers on a grid that does not depend on the input.
fig, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.barh(list(results), [result.epsilon for result in results.values()], color="#0077BB")
ax.axvline(1.0, color="#CC3311", linestyle="--", label="claimed")
ax.invert_yaxis()
ax.set(xlabel="lower bound on epsilon, one number changed by 1")
ax.legend()

# %%
# The next audit attacks a sketch of the library in the same way. ``attach_to`` adds the result to the guarantee. The
# display shows both: the point of the attack must stay to the left of the curve of the guarantee.
sketch = DPOPORP(16, epsilon=1.0, delta=1e-5, random_state=0).fit(np.zeros((1, 64)))
u = np.zeros((1, 64))
v = u.copy()
v[0, 0] = 1.0
result = audit_epsilon(sketch, u, v, n_trials=20_000)
audited = result.attach_to(sketch.guarantee_)
audited

# %%
PrivacyProfileDisplay.from_guarantee(audited).plot()
