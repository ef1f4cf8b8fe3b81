"""What the tests of mechanisms share: the Gaussian profile in fifty digits, losses, and sizes of every order."""

import mpmath
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from skdprp.composition import PrivacyLoss, Profile

# Stated deltas are upper bounds, to the last bit: 50 digits tell
mpmath.mp.dps = 50
SMALL = 1e-9


def precise_gaussian_profile(epsilon, mu):
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def loss_of(function, **parameters):
    return PrivacyLoss(profiles=(Profile.of(function, **parameters),))


def assert_bounds(stated, exact, small=SMALL):
    assert exact <= stated <= exact * (1 + small)


def sizes(low, high):
    """Positive numbers of every order of magnitude in a range."""
    return st.floats(np.log(low), np.log(high)).map(lambda log: float(np.exp(log)))


EPSILON, DELTA, SENSITIVITY = sizes(1e-3, 40.0), sizes(1e-14, 0.4), sizes(1e-3, 1e3)
ADJACENCY = st.sampled_from(["add_remove", "replace_one"])
few = settings(max_examples=25)
