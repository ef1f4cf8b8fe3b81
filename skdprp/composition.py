"""Composition: the privacy loss of several releases together."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from ._digits import to_python, with_python_numbers
from ._noise import SAMPLING_LOSS
from .mechanisms._numerics import bisect, fourier_error, rounded_up
from .mechanisms.gaussian_laplace import gaussian_epsilon, gaussian_profile, laplace_profile

__all__ = ["PrivacyLoss", "Profile"]

_NEGLIGIBLE = 1e-16  # of a delta: what a grid leaves out, far below all that anybody asks for
_LARGEST_REACH = 700.0  # exp of more overflows
_ROUND_UP = 1 + 2.0**-50  # more than what one sum or square root rounds off
_TAILS = 2.0**-288  # probability beyond the last sample of one number, see `_noise`
_MOST_DOTS = 513  # of a profile, which are connected
_GAP = 2.0**-9  # of a profile: by what share of it a chord between two dots may lie above
_FINEST, _COARSEST = 2.0**-9, 2.0**-17  # steps of the grid: of the smallest loss, of all losses together


@with_python_numbers
def approximate_profile(epsilon, *, epsilon0, delta0=0.0):
    """Bound the profile of any (epsilon0, delta0)-DP release, as well as this fact alone allows [1]_.

    .. [1] P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015,
       Theorem 3.3.
    """
    if epsilon >= epsilon0:
        return delta0
    # (e^epsilon0 - e^epsilon) / (1 + e^epsilon0), written so that nothing overflows.
    bounded = -np.expm1(epsilon - epsilon0) / (1 + np.exp(-epsilon0))
    return float(delta0 + (1 - delta0) * bounded)


@dataclass(frozen=True)
class Profile:
    """A privacy profile with its parameters: a value that can be called, compared and written down.

    Parameters
    ----------
    function : callable
        A profile ``(epsilon, **parameters) -> delta`` for epsilon >= 0, which holds for both orders of two neighbours.
    parameters : tuple of (str, value)
        Its parameters.

    Examples
    --------
    >>> from skdprp.composition import Profile, approximate_profile
    >>> pure = Profile.of(approximate_profile, epsilon0=1.0)
    >>> pure(2.0)
    0.0
    """

    function: Callable
    parameters: tuple[tuple[str, float | str], ...]

    @classmethod
    def of(cls, function, **parameters):
        """Build a profile from keywords."""
        return cls(function, tuple(sorted(parameters.items())))

    def __post_init__(self):
        parameters = tuple((name, to_python(value)) for name, value in self.parameters)
        object.__setattr__(self, "parameters", parameters)

    @with_python_numbers
    def __call__(self, epsilon):
        """Delta at `epsilon`, rounded up."""
        return rounded_up(self.function(epsilon, **dict(self.parameters)))


@dataclass(frozen=True)
class PrivacyLoss:
    """The worst privacy loss of a release, in a form that adds up when releases are made together.

    Parameters
    ----------
    mu : float, default=0.0
        Sensitivity over scale of a Gaussian mechanism; 0 for none. Those of several add in squares.
    profiles : tuple of Profile, default=()
        What else is part of the release.
    sampling : float, default=0.0
        Number of sampled values that neighbours change, times what sampling may cost each of them, see
        :func:`skdprp.mechanisms.sampled_target`.
    failure_probability : float, default=0.0
        Probability that the rest does not hold. Those of several releases are added up, for they need not be
        independent: one public projection may be unlucky for all of them.

    Notes
    -----
    Composition is exact: Gaussian with Gaussian in closed form [1]_, any two others as the convolution of their privacy
    loss distributions [2]_, computed by dp-accounting on a grid. A distribution is rebuilt from its profile by
    connecting the dots [3]_, which never lies below the true one. A bound on a profile that is not convex in e^epsilon
    is first replaced by the largest convex function below it: profiles are convex, so the true one is not above that.

    References
    ----------
    .. [1] J. Dong, A. Roth and W. Su, "Gaussian Differential Privacy", JRSS B 2022, Corollary 3.3.
    .. [2] Y. Zhu, J. Dong and Y.-X. Wang, "Optimal Accounting of Differential Privacy via Characteristic Function",
       AISTATS 2022, Theorem 10.
    .. [3] V. Doroshenko et al., "Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions",
       PoPETs 2022, Algorithm 1.

    Examples
    --------
    >>> from skdprp.composition import PrivacyLoss
    >>> once = PrivacyLoss(mu=0.3)
    >>> f"{(once + once).profile(1.0):.2e} {once.profile(0.5):.2e}"
    '2.12e-03 7.57e-03'
    """

    mu: float = 0.0
    profiles: tuple[Profile, ...] = ()
    sampling: float = 0.0
    failure_probability: float = 0.0

    def __post_init__(self):
        for name in ("mu", "sampling", "failure_probability"):
            if not getattr(self, name) >= 0:  # nan is not, either
                raise ValueError(f"{name} must be at least 0, got {self!r}.")
            object.__setattr__(self, name, to_python(getattr(self, name)))

    def __add__(self, other):
        """Loss of two releases together; the second may depend on the first."""
        self, other = self._with_failures_apart(), other._with_failures_apart()
        return PrivacyLoss(
            mu=float(np.hypot(self.mu, other.mu)) * _ROUND_UP,
            profiles=self.profiles + other.profiles,
            sampling=(self.sampling + other.sampling) * _ROUND_UP,
            failure_probability=(self.failure_probability + other.failure_probability) * _ROUND_UP,
        )

    @property
    def method(self):
        """How it is computed: "closed form" if there is one, else "privacy loss distribution"."""
        return "closed form" if len(self.profiles) + (self.mu > 0) <= 1 else "privacy loss distribution"

    @with_python_numbers
    def profile(self, epsilon):
        """Bound delta at `epsilon`.

        Parameters
        ----------
        epsilon : float
            Epsilon of the guarantee, in nats, at least 0.

        Returns
        -------
        float
            A delta such that the releases together are (epsilon, delta)-DP, rounded up.

        Raises
        ------
        ImportError
            If there is no closed form and dp-accounting is not installed.
        """
        delta = self._within_reach(epsilon)
        reach = max(0, math.ceil(min(_LARGEST_REACH, epsilon)))  # in this order nan is no number beyond it
        tails = self._never_sampled(reach)  # of all epsilons up to the next whole number, so that deltas decrease there
        if delta and delta + tails > delta:  # if it is 0, tails are assumed away in print
            delta += tails
            # What tails may add grows with epsilon, while delta decreases: at a smaller one both may be less.
            for smaller in range(1, reach):
                if self._never_sampled(smaller) >= delta:
                    break
                delta = min(delta, self._within_reach(smaller) + self._never_sampled(smaller))
        return float(min(1.0, delta))

    @with_python_numbers
    def epsilon(self, delta):
        """Bound epsilon at `delta`, to about one part in 10^12.

        Parameters
        ----------
        delta : float
            Delta of (epsilon, delta)-DP.

        Returns
        -------
        float
            An epsilon such that the releases together are (epsilon, delta)-DP; infinite if there is none.

        Raises
        ------
        ImportError
            If there is no closed form and dp-accounting is not installed.
        ValueError
            If delta is nan or negative.
        """
        if not delta >= 0:  # nan as well
            raise ValueError(f"delta must be between 0 and 1, got {delta}.")
        return _epsilon_of(self, delta)

    def _one_by_one(self):
        """Profiles that this one is the largest of: each is composed once for many values, and not anew for each."""
        losses = self._largest_of()
        return [profile for loss in losses for profile in loss._one_by_one()] if losses else [self.profile]

    def _largest_of(self):
        """Losses of disjoint parts, of which this one is the largest and nothing else; none of another one."""
        is_largest = len(self.profiles) == 1 and self.profiles[0].function == largest_profile
        if not is_largest or self != PrivacyLoss(profiles=self.profiles):
            return ()
        return dict(self.profiles[0].parameters)["losses"]

    def _with_failures_apart(self):
        """The same loss, with what draws in disjoint parts fail to hide beside it: other releases may share a draw."""
        losses = [loss._with_failures_apart() for loss in self._largest_of()]
        failures = [np.exp(loss.sampling) * loss.failure_probability for loss in losses]
        if not any(failures):
            return self
        losses = tuple(dict.fromkeys(replace(loss, failure_probability=0.0) for loss in losses))
        largest = Profile.of(largest_profile, losses=losses)
        return PrivacyLoss(profiles=(largest,), failure_probability=max(failures) * _ROUND_UP)

    def _within_reach(self, epsilon):
        """Delta of sampled noise but for tails that are not sampled exactly."""
        # As in sampled_target: P~ <= e^s P <= e^s (e^eps Q + delta) <= e^(eps + 2 s) Q~ + e^s delta.
        delta = self._ideal_profile(epsilon - 2 * self.sampling) + self.failure_probability
        return float(np.exp(self.sampling) * delta * _ROUND_UP)

    def _never_sampled(self, epsilon):
        """Bound what tails add to a delta, beyond which one of two neighbours is never released."""
        n_sampled = 1 + self.sampling / SAMPLING_LOSS
        return bool(self.sampling) * n_sampled * _TAILS * (1 + math.exp(min(epsilon, _LARGEST_REACH)))

    def _ideal_profile(self, epsilon):
        """Delta of noise that is sampled exactly, at any epsilon, also a negative one."""
        if self.method == "privacy loss distribution":
            distribution = _distribution(self)
            delta = 1.0 if distribution is None else max(0.0, distribution.get_delta_for_epsilon(epsilon))
            # The grid is rounded up, its Fourier transform is not.
            return float(min(1.0, delta + fourier_error(len(self.profiles))))
        profile = self.profiles[0] if self.profiles else Profile.of(gaussian_profile, scale=1.0, sensitivity=self.mu)
        return profile(epsilon) if epsilon >= 0 else _mirrored(-epsilon, profile(-epsilon))


@with_python_numbers
def loss_of_laplace_noise(epsilon, n_values):
    """Loss of sampled values with Laplace noise that is calibrated for an epsilon, or of what follows from them."""
    profile = Profile.of(laplace_profile, scale=1.0, sensitivity=epsilon)
    return PrivacyLoss(profiles=(profile,), sampling=n_values * SAMPLING_LOSS)


@with_python_numbers
def largest_profile(epsilon, *, losses):
    """Profile of releases of which a neighbour changes one at most: the largest of all."""
    return max(loss.profile(epsilon) for loss in losses)


def _mirrored(epsilon, delta):
    """Profile at -epsilon, from that at epsilon: the hockey-stick divergence of the other order of two neighbours."""
    return -np.expm1(-epsilon) + np.exp(-epsilon) * delta


@lru_cache(maxsize=256)  # of reports that are printed again
def _epsilon_of(loss, delta):
    return max(_least_epsilon(profile, delta) for profile in loss._one_by_one())


def _least_epsilon(profile, delta):
    """Invert a profile, rounding up; infinite where delta is not reached."""
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while profile(high) > delta:
        low, high = high, 2 * high
        if high > 2.0**40:  # a floor of the profile lies above delta: no epsilon is large enough
            return float("inf")
    return bisect(lambda epsilon: profile(epsilon) <= delta, low, high, digits=2.0**-40)


@lru_cache(maxsize=32)
def _distribution(loss):
    """Privacy loss distribution of a composition, never below the true one; None if too large for its grid."""
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError as error:
        raise ImportError('Exact composition needs dp-accounting: python -m pip install "skdprp[pld]"') from error
    reaches = [_reach(profile) for profile in loss.profiles]
    gaussian_reach = gaussian_epsilon(_NEGLIGIBLE, scale=1.0, sensitivity=loss.mu) if loss.mu else 0.0
    # Next to no privacy: a grid would need more points than memory has, and delta = 1 is all that is worth saying.
    if gaussian_reach > _LARGEST_REACH or any(
        profile(_LARGEST_REACH) > 1 - fourier_error(1) for profile in loss.profiles
    ):
        return None
    step = _grid_step(np.array([*reaches, gaussian_reach]))
    # Equal releases are composed at once, by a power of one Fourier transform.
    counts = Counter(zip(loss.profiles, reaches, strict=True))
    parts = [_from_profile(*part, step).self_compose(count) for part, count in counts.items()]
    if loss.mu:
        gaussian = privacy_loss_distribution.from_gaussian_mechanism
        parts.append(gaussian(1.0 / loss.mu, value_discretization_interval=step))
    try:
        return reduce(lambda total, part: total.compose(part), parts)
    except IndexError:  # of dp-accounting, which may cut all off where next to no loss is finite
        return None


def _grid_step(reaches):
    """Step of the grid: fine for the smallest loss, and no finer than the likely reach of all together needs."""
    positive = reaches[reaches > 0]
    # Mean of losses of +-reach under epsilon-DP, and Hoeffding's bound on how far beyond it their sum gets.
    likely = reaches @ np.tanh(reaches / 2) + np.sqrt(-2 * np.log(_NEGLIGIBLE) * (reaches @ reaches))
    return max(_FINEST * positive.min(initial=1.0), _COARSEST * min(reaches.sum(), likely))


# Of releases that are made again and again, in one composition and in another.
@lru_cache(maxsize=256)
def _reach(profile):
    """Epsilon from which on a profile is constant, or negligible, or where we stop to look."""
    floor = max(_NEGLIGIBLE, profile(_LARGEST_REACH) * (1 + 1e-9))  # above the limit, or it were never reached
    return min(PrivacyLoss(profiles=(profile,)).epsilon(floor) * (1 + 1e-9), _LARGEST_REACH)


@lru_cache(maxsize=256)
def _dots(profile, reach):
    """Epsilons up to a reach, closest where a profile bends, mirrored to negative ones; the convex profile there."""
    profiles = PrivacyLoss(profiles=(profile,))._one_by_one()
    deltas, gaps = {}, []

    def _add(epsilon):
        deltas[epsilon] = max(profile(epsilon) for profile in profiles)

    def _halve(low, high):
        middle = (low + high) / 2
        _add(middle)
        chord = deltas[low] + (deltas[high] - deltas[low]) / (1 + np.exp(middle - low))  # which is one of exp(epsilon)
        # Of a delta that is small beside all that is asked for, by what share says little.
        heappush(gaps, ((deltas[middle] - chord) / (deltas[middle] + 1e-9), low, middle, high))

    ends = np.linspace(0.0, reach, 17).tolist()
    for end in ends:
        _add(end)
    for low, high in pairwise(ends):
        _halve(low, high)
    while len(deltas) < _MOST_DOTS and gaps[0][0] < -_GAP:
        _, low, middle, high = heappop(gaps)
        _halve(low, middle)
        _halve(middle, high)
    epsilons, deltas = np.array(sorted(deltas.items())).T
    both = np.append(-epsilons[:0:-1], epsilons)
    return both, _convex_minorant(np.exp(both), np.append(_mirrored(epsilons, deltas)[:0:-1], deltas))


@lru_cache(maxsize=64)
def _from_profile(profile, reach, step):
    """Connect the dots of a profile, on a grid of a step."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    both, convex = _dots(profile, reach)
    grid = np.arange(-int(reach / step), int(np.ceil(reach / step)) + 1)
    # Linear in exp(epsilon), as the chords of a profile are; rounding must not make it rise.
    dots = np.interp(np.exp(grid * step), np.exp(both), convex)
    dots = np.minimum.accumulate(np.clip(dots, 0.0, 1.0))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, dots)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _convex_minorant(x, y):
    """Largest convex function on the points x that is nowhere above y."""
    hull = []  # from left to right, as in Andrew's monotone chain
    for point in zip(x.tolist(), y.tolist(), strict=True):  # numbers of Python, in a third of the time
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (point[0] - x1) < (point[1] - y1) * (x1 - x0):
                break
            hull.pop()  # the middle lies above the chord, or on it
        hull.append(point)
    return np.interp(x, *zip(*hull, strict=True))
