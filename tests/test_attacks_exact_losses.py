"""Attacks on steps in two places, profiles against exact densities, compositions, networks, and what a limit leaves."""

import itertools
import math
import re
import warnings
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from attacks import X200_UNIFORM, Y200_UNIFORM
from scipy.signal import fftconvolve
from scipy.special import expit, gammaln, log_ndtr, logsumexp, ndtr
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import validate_data

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    DPSignOPORP,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    _noise,
    compose,
    privacy_report,
)
from skdprp import composition as C
from skdprp.composition import PrivacyLoss, Profile, approximate_profile, loss_of_laplace_noise
from skdprp.guarantee import FIXED_BEFORE, Adjacency
from skdprp.ledger import LedgerError, entry
from skdprp.losses import CappedLogisticLoss, HuberHingeLoss, LogisticLoss
from skdprp.mechanisms import add_laplace, gaussian_profile, laplace_profile, randomised_response_profile
from skdprp.mechanisms.objective_perturbation import (
    objective_perturbation_profile,
    penalty_for_log_det,
    product_perturbation_profile,
)

REPLACED = Adjacency("replace_one")


class NoisyRows(TransformerMixin, BaseEstimator):
    """Laplace noise on the numbers of a row, which are from 0 to 1: another row moves all of them."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def _states(self, n_columns):
        return PrivacyGuarantee(n_columns / self.scale, 0.0, adjacency=REPLACED, per="transform")

    def fit(self, X, y=None):
        """State what a row pays at each transform: as much for each number."""
        self.guarantee_ = self._states(validate_data(self, X).shape[1])
        return self

    def transform(self, X):
        """Release rows."""
        with entry(self._states(X.shape[1]), "NoisyRows"):
            return add_laplace(np.clip(X, 0.0, 1.0), self.scale)


def first_column(rows):
    return rows[:, :1]


@pytest.mark.parametrize("before", [FunctionTransformer(first_column), DPPCA(1, delta=1e-6)], ids=["function", "PCA"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_step_of_ones_own_that_sketches_rows_of_two_widths_in_two_places_is_not_reported_by_its_last_fit(
    before, is_frozen
):
    """Its first release has an epsilon of 5, of five columns; the report counts 1 for each of both."""
    rows = np.random.default_rng(0).uniform(size=(100, 5))
    step = NoisyRows().fit(rows)
    union = make_union(FrozenEstimator(step) if is_frozen else step, make_pipeline(before, step))
    model = make_pipeline(union, LogisticRegression())
    with PrivacyLedger() as ledger:
        model.fit(rows, (rows[:, 0] > 0.5).astype(int))
    total = privacy_report(model).total
    assert total is None or total.epsilon >= ledger.total()[0].guarantee.epsilon


def test_a_step_that_is_frozen_within_a_grid_search_and_fitted_again_beside_it_is_not_reported_by_its_last_fit():
    """Released at an epsilon of 50, and then of 1: the private steps alone are said to have 3.7."""
    with PrivacyLedger() as ledger:
        step = DPScaler(bounds=(-1, 1), epsilon=50.0, delta=1e-6).fit(X200_UNIFORM)
        step.set_params(epsilon=1.0)
        searched = make_pipeline(FrozenEstimator(step), AMPClassifier(classes=[0, 1], delta=1e-6))
        model = Pipeline([("step", step), ("search", GridSearchCV(searched, {}, cv=KFold(2)))])
        model.fit(X200_UNIFORM, Y200_UNIFORM)
    private = privacy_report(model).private
    assert private is None or private.epsilon >= ledger.total()[0].guarantee.epsilon


# What held: profiles, against exact densities of problems with one weight


def density(loss, rows, penalty, weights, scale, *, offset=0.0, is_gaussian=True):
    """Density of the minimiser under a random linear term, for rows (number, label)."""
    slope, curvature = penalty * weights, np.full_like(weights, penalty)
    for x, label in rows:
        labels, scores = np.full_like(weights, label), x * weights + offset
        slope = slope + x * loss.gradient(labels, scores)
        curvature = curvature + x * x * loss.hessian(labels, scores)(np.ones_like(weights))
    if is_gaussian:
        return np.exp(-(slope**2) / 2 / scale**2) / np.sqrt(2 * np.pi) / scale * curvature
    return np.exp(-abs(slope) / scale) / 2 / scale * curvature


@pytest.mark.parametrize("is_gaussian", [True, False])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss()], ids=["logistic", "capped"])
def test_a_fit_whose_offset_is_any_function_of_a_noisy_count_loses_no_more_than_its_profile(
    loss, adjacency, is_gaussian
):
    rng, largest = np.random.default_rng(0), 0.0
    for log_det in (0.02, 0.3):
        penalty = penalty_for_log_det(loss, max_norm=1.0, log_det=log_det)
        scale, count_scale = loss.lipschitz / rng.uniform(0.2, 1.2), 1 / rng.uniform(0.2, 1.2)
        rows = [(1.0, -1.0)] * int(rng.integers(2))
        one = [*rows, (1.0, 1.0)]
        other = [*rows, (-1.0, -1.0)] if adjacency == "replace_one" else rows
        reach = (2 * loss.lipschitz + (9 if is_gaussian else 30) * scale) / penalty
        weights, steps = np.linspace(-reach, reach, 6001, retstep=True)
        z, step = np.linspace(-9.0, 9.0, 91, retstep=True)
        epsilons, deltas = np.array([0.0, log_det + 0.2, 1.0]), np.zeros((2, 3))
        for at in z:
            shifted = at - 1 / count_scale
            chances = [np.exp(-(u**2) / 2 if is_gaussian else -abs(u)) for u in (shifted, at)]
            known = {"scale": scale, "offset": -4 * np.tanh(2 * at), "is_gaussian": is_gaussian}
            p, q = (
                chance * density(loss, some, penalty, weights, **known)
                for chance, some in zip(chances, (one, other), strict=True)
            )
            p, q = (some * steps * step / (np.sqrt(2 * np.pi) if is_gaussian else 2.0) for some in (p, q))
            for i, epsilon in enumerate(epsilons):
                deltas[:, i] += [np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))]
        known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "adjacency": adjacency}
        for epsilon, delta in zip(epsilons, deltas.max(axis=0), strict=True):
            if is_gaussian:
                profile = objective_perturbation_profile(epsilon, **known, count_shift=1 / count_scale)
            else:
                profile = product_perturbation_profile(epsilon, **known, n_dims=1, count_epsilon=1 / count_scale)
            largest = max(largest, delta / profile)
    assert 0.2 < largest < 1.001


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", [LogisticLoss(), CappedLogisticLoss(), HuberHingeLoss()])
def test_three_problems_of_one_row_lose_no_more_together_than_their_profile(loss, adjacency):
    """The losses of each, rounded down, are convolved."""
    step, reach, n_points = 0.004, 16.0, 2**16
    log_det, scale = 0.05, loss.lipschitz * 1.5
    penalty = penalty_for_log_det(loss, max_norm=1.0, log_det=log_det)
    bound = (2 * loss.lipschitz + 12 * scale) / penalty
    weights, width = np.linspace(-bound, bound, 40_001, retstep=True)
    spectra = np.ones((2, n_points // 2 + 1), complex)
    for k in range(3):
        one = [(1.0, 1.0 if k == 0 else -1.0)]
        other = [(-1.0, 1.0 if k == 0 else -1.0)] if adjacency == "replace_one" else []
        p, q = (density(loss, rows, penalty, weights, scale) for rows in (one, other))
        seen = (p > 1e-290) & (q > 1e-290)
        for spectrum, (a, b) in zip(spectra, ((p, q), (q, p)), strict=True):
            places = np.floor((np.log(a[seen] / b[seen]) + reach) / step).astype(int).clip(0)
            spectrum *= np.fft.rfft(np.bincount(places, a[seen] * width, minlength=n_points), n_points)
    losses = np.arange(n_points) * step - 3 * reach
    for epsilon in (0.0, 0.4, 1.0):
        excess = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
        delta = max(float(np.fft.irfft(spectrum, n_points) @ excess) for spectrum in spectra)
        known = {"scale": scale, "lipschitz": loss.lipschitz, "log_det": log_det, "n_outputs": 3}
        assert delta <= objective_perturbation_profile(epsilon, **known, adjacency=adjacency) * 1.001


def test_no_step_of_a_network_moves_further_by_another_person_than_its_noise_is_for(monkeypatch):
    """Rows of numbers from the least to the largest of float32, persons of several rows, batches, and any weights."""
    rng, sums, size = np.random.default_rng(4), [], [1.0]

    def _release(values, scale):
        sums.append(np.array(values, dtype=np.float64).ravel() / scale)
        values[...] = np.random.default_rng(len(sums)).normal(size=values.shape) * size[0]

    def _draw(shape, scale):
        return scale * np.random.default_rng(7).normal(size=shape)

    def _sample(number, rate):
        return np.flatnonzero(np.random.default_rng(len(sums)).random(number) < rate)

    monkeypatch.setattr(_noise, "add_gaussian", _release)
    monkeypatch.setattr(_noise, "poisson_sample", _sample)
    monkeypatch.setattr(_noise, "draw_gaussian", _draw)
    odd, largest = np.array([0, 1e-45, 1e-30, 1, -1e3, 1e19, 3e38, -3e38], dtype=np.float32), 0.0
    for place in range(21):
        n_rows, n_classes = 4 * int(rng.integers(1, 15)), int(rng.integers(2, 4))  # halves of one rate: calibrated once
        model = DPSGDClassifier(
            hidden_layer_sizes=[(5,), (3, 7), ()][place % 3],
            activation=["relu", "tanh", "logistic"][rng.integers(3)],
            max_norm=None,
            n_epochs=2,
            batch_size=None if rng.random() < 0.5 else n_rows // 2,
            classes=range(n_classes),
            delta=1e-5,
            learning_rate=float(10 ** rng.uniform(-2, 2)),
        )
        size[0] = [1e-3, 1.0, 1e6][rng.integers(3)]
        rows, labels = rng.normal(size=(n_rows, 2)).astype(np.float32), rng.integers(0, n_classes, n_rows)
        persons = np.arange(n_rows) // 2
        released = []
        for n_more in (0, 3):
            these, others = rows.copy(), labels.copy()
            these[:2], others[:2] = rng.choice(odd, (2, 2)), rng.integers(0, n_classes, 2)
            these = np.vstack([these, rng.choice(odd, (n_more, 2))])
            more = np.zeros(n_more, dtype=int)
            others, groups = np.append(others, more), np.append(persons, more)
            sums.clear()
            model.fit(these, others, groups=groups)
            released.append([*sums])
        moves = [np.linalg.norm(a - b) for a, b in zip(*released, strict=True)]
        largest = max(largest, max(moves) * model.scale_ / model.sensitivity_ / 2)
    assert 0.5 < largest < 1 + 2.0**-7


def test_what_a_limit_says_is_left_for_a_part_is_what_it_lets_pass():
    rng, numbers = np.random.default_rng(0), r"\(([\d.e+-]+), ([\d.e+-]+)\)"
    for _ in range(12):
        limit = float(10 ** rng.uniform(-1, 1)), float(10 ** rng.uniform(-8, -3))
        with PrivacyLedger() as ledger:
            ledger.limit(*limit)
            for _ in range(rng.integers(1, 5)):
                epsilon, delta = limit[0] * rng.uniform(0.02, 0.3), limit[1] * rng.uniform(0, 0.3)
                rows = ledger.part(["train", "test"][rng.integers(2)]) if rng.random() < 0.7 else nullcontext()
                try:
                    with rows, entry(PrivacyGuarantee(epsilon, delta, adjacency=REPLACED)):
                        pass
                except LedgerError:
                    continue
            text = " ".join(repr(ledger).split())
            left = [("", *re.search(f"left {numbers}", text).groups())]
            left += [(n, e, d) for e, d, n in re.findall(f", {numbers} for (any part not listed|train|test)", text)]
            for name, epsilon, _ in left:
                with ledger.part(name) if name else nullcontext():
                    fits = [PrivacyGuarantee(float(epsilon) * more, 0.0, adjacency=REPLACED) for more in (1.0, 1.002)]
                    ledger.check(fits[0])
                    if fits[0].epsilon > 0:
                        with pytest.raises(LedgerError):
                            ledger.check(fits[1])


@pytest.mark.parametrize(("epsilon", "count"), [(0.01, 1000), (0.01, 10_000), (0.3, 1000), (1.0, 500), (20.0, 5)])
def test_many_equal_responses_compose_to_no_less_than_their_binomial(epsilon, count):
    pytest.importorskip("dp_accounting")
    ones = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(ones + 1) - gammaln(count - ones + 1)
    logs = logs - ones * np.log1p(np.exp(-epsilon)) - (count - ones) * np.log1p(np.exp(epsilon))
    losses = (2 * ones - count) * epsilon
    total = compose(*[PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency("replace_one"))] * count)
    for deviations in range(8):
        at = count * epsilon * np.tanh(epsilon / 2) + deviations * epsilon * count**0.5
        beyond = losses > at
        if beyond.any():
            exact = np.exp(logsumexp(logs[beyond] + np.log(-np.expm1(at - losses[beyond]))))
            assert exact <= total.loss.profile(float(at))


def _gaussian(epsilon, mu):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("seed", range(6))
def test_responses_and_a_normal_of_any_sizes_compose_to_no_less_than_all_their_outcomes(seed):
    """Ratios from 1e-6 to 16, and epsilons from 1e-5 to 50 beside each other."""
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(seed)
    mu, sizes = float(10 ** rng.uniform(-6, 1.2)), (10 ** rng.uniform(-5, 1.7, rng.integers(1, 5))).tolist()
    loss = PrivacyLoss(mu=mu, profiles=tuple(Profile.of(approximate_profile, epsilon0=size) for size in sizes))
    losses, shares = np.zeros(1), np.ones(1)
    for size in sizes:
        losses = np.append(losses + size, losses - size)
        shares = np.append(shares / (1 + np.exp(-size)), shares / (1 + np.exp(size)))
    for epsilon in (0.0, float(max(sizes)), float(rng.uniform(0, sum(sizes) + mu**2 + 3 * mu))):
        exact = shares @ [_gaussian(epsilon - one, mu) for one in losses]
        assert exact <= loss.profile(epsilon) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 10.0, 20.0, 38.0, 60.0])
def test_deltas_of_sampled_noise_fall_and_are_never_below_what_tails_tell(mu):
    """Noise never passes 38.5 deviations, so that neighbours have outputs of their own."""
    loss = PrivacyLoss(mu=mu, sampling=2 * 2.0**-31)
    deltas = [loss.profile(float(epsilon)) for epsilon in (*range(0, 120, 3), 500, 699, 700, 701, 1e4, 1e9, np.inf)]
    assert all(one >= other for one, other in pairwise(deltas))
    assert min(deltas) >= np.exp(log_ndtr(mu - 38.5)) * (1 - 1e-9)


def _exact_delta(epsilons, deltas, epsilon):
    """Delta of randomised responses and coins together, by enumeration (Kairouz, Oh and Viswanath)."""
    losses, weights = np.zeros(1), np.ones(1)
    for one in epsilons:
        p = 1 / (1 + math.exp(-one))
        losses, weights = np.concatenate([losses + one, losses - one]), np.concatenate([p * weights, (1 - p) * weights])
    with np.errstate(over="ignore"):
        stick = float(weights @ np.maximum(0.0, -np.expm1(epsilon - losses)))
    return 1 - math.prod(1 - delta for delta in deltas) * (1 - stick)


@pytest.mark.parametrize("seed", range(3))
def test_totals_of_pairs_of_any_size_are_not_below_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    epsilons = [float(rng.choice([0, 1e-6, 1e-3, 0.1, 1, 5, 20])) for _ in range(rng.integers(2, 6))]
    deltas = [float(rng.choice([0, 1e-12, 1e-6, 0.01, 0.5])) for _ in epsilons]
    pairs = zip(epsilons, deltas, strict=True)
    total = compose(*(PrivacyGuarantee(*pair, adjacency=Adjacency("replace_one")) for pair in pairs))
    assert _exact_delta(epsilons, deltas, total.epsilon) <= total.delta + 1e-14
    for epsilon in rng.uniform(0, sum(epsilons), 3):
        assert _exact_delta(epsilons, deltas, epsilon) <= total.profile(epsilon) + 1e-14


@pytest.mark.parametrize(
    "guarantee",
    [
        PrivacyGuarantee(0.0, 0.0),
        PrivacyGuarantee(1.0, 1.0),
        PrivacyGuarantee(math.inf, 0.0),
        PrivacyGuarantee(1e5, 0.0),
    ],
)
def test_guarantees_at_the_ends_compose_and_come_back(guarantee):
    one = replace(guarantee, adjacency=Adjacency("replace_one"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = compose(one, one)
    assert total.epsilon >= one.epsilon or total.delta == 1
    assert PrivacyGuarantee.from_dict(one.to_dict()) == one
    assert total.profile(0.5) >= one.profile(0.5)


def lower_bound(shifts, step, epsilons):
    """Delta of Laplace noise on numbers that move by so many scales, losses rounded down."""
    start, pmf = 0, np.ones(1)
    for shift in shifts:
        n = int(np.ceil(shift / step))
        ends = np.arange(-n - 1, n + 2) * step
        below = np.where(ends <= -shift, 0.0, np.where(ends > shift, 1.0, np.exp(-(shift - ends) / 2) / 2))
        start, pmf = start - n - 1, fftconvolve(pmf, np.diff(below))
    losses = (start + np.arange(len(pmf))) * step
    return [float(pmf[losses > e] @ -np.expm1(e - losses[losses > e])) for e in epsilons]


def test_numbers_that_share_a_move_have_no_larger_delta_than_one_that_makes_it():
    rng = np.random.default_rng(0)
    for _ in range(20):
        shifts = rng.dirichlet(np.ones(rng.integers(2, 6)) * rng.choice([0.3, 1.0, 5.0])) * rng.uniform(0.1, 8.0)
        total = shifts.sum()
        for epsilon in np.linspace(0.0, 0.99 * total, 5):
            [delta] = lower_bound(shifts, total / 2**11, [epsilon])
            assert delta <= laplace_profile(epsilon, scale=1.0, sensitivity=total) + 1e-12


def test_totals_of_laplace_noise_are_no_less_than_their_convolution():
    rng = np.random.default_rng(1)
    for _ in range(2):
        shifts = np.exp(rng.uniform(np.log(0.02), np.log(4), rng.integers(2, 6)))
        loss = sum((loss_of_laplace_noise(shift, 1) for shift in shifts), PrivacyLoss())
        epsilons = np.linspace(0, 0.9 * shifts.sum(), 4)
        for delta, epsilon in zip(lower_bound(shifts, shifts.sum() / 2**13, epsilons), epsilons, strict=True):
            assert loss.profile(epsilon) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_no_composed_profile_of_dots_is_below_the_exact_one(seed):
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(seed)
    mus = 10 ** rng.uniform(-2, 0.7, 3)
    profiles = [Profile.of(gaussian_profile, scale=1.0, sensitivity=float(mu)) for mu in mus[:2]]
    loss, total = PrivacyLoss(mu=float(mus[2]), profiles=tuple(profiles)), math.hypot(*mus)
    for epsilon in map(float, rng.uniform(0, total**2 / 2 + 4 * total, 3)):
        assert loss.profile(epsilon) >= gaussian_profile(epsilon, scale=1.0, sensitivity=total)
    flip, count = float(10 ** rng.uniform(-3, 0)), int(rng.integers(2, 200))
    flips = PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=flip),) * count)
    ones = np.arange(count + 1)
    for epsilon in map(float, rng.uniform(0, count * flip, 3)):
        excess = -np.expm1(np.minimum(epsilon - (2 * ones - count) * flip, 0))
        assert flips.profile(epsilon) >= math.fsum(binom.pmf(ones, count, 1 / (1 + math.exp(-flip))) * excess)


def _jumps(epsilon, *, epsilon0):
    return 1e-6 if epsilon >= epsilon0 else 0.5


@pytest.mark.parametrize("epsilon0", [0.1, 1 / 3, 0.77, 2.7])
def test_a_profile_that_jumps_is_composed_in_finite_time(epsilon0):
    loss = PrivacyLoss(profiles=(Profile.of(_jumps, epsilon0=epsilon0),))
    total = loss + PrivacyLoss(mu=0.3)
    assert total.profile(epsilon0 + 0.5) >= 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_compositions_of_flips_are_not_below_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    epsilons, numbers = np.exp(rng.uniform(-4, 2, 3)), rng.choice([1, 2, 8], 3)
    losses, probabilities = np.zeros(1), np.ones(1)
    for epsilon, n in zip(epsilons, numbers, strict=True):
        flipped = np.arange(n + 1)
        losses = np.add.outer(losses, epsilon * (2 * flipped - n)).ravel()
        chances = binom.pmf(flipped, n, 1 / (1 + np.exp(-epsilon)))
        probabilities = np.multiply.outer(probabilities, chances).ravel()
    profiles = [
        Profile.of(randomised_response_profile, epsilon0=float(epsilon), n_bits=int(n))
        for epsilon, n in zip(epsilons, numbers, strict=True)
    ]
    loss = PrivacyLoss(profiles=tuple(profiles))
    for epsilon in rng.uniform(0, losses.max(), 10):
        exact = -(probabilities * np.expm1(np.minimum(epsilon - losses, 0))).sum()
        assert loss.profile(float(epsilon)) >= exact * (1 - 1e-9)


def test_totals_of_unequal_pure_releases_are_no_less_than_their_sum_over_all_outcomes():
    rng = np.random.default_rng(0)
    for _ in range(3):
        epsilons = np.exp(rng.uniform(np.log(1e-3), np.log(5), rng.integers(2, 7)))
        total = sum(
            (PrivacyLoss(profiles=(Profile.of(approximate_profile, epsilon0=float(one)),)) for one in epsilons),
            PrivacyLoss(),
        )
        for epsilon in (0.0, float(epsilons.max()), float(epsilons.sum() / 2)):
            exact = 0.0
            for signs in itertools.product((-1, 1), repeat=len(epsilons)):
                loss = float(np.dot(signs, epsilons))
                if loss > epsilon:
                    exact += np.prod(1 / (1 + np.exp(-np.multiply(signs, epsilons)))) * -np.expm1(epsilon - loss)
            assert total.profile(epsilon) >= exact * (1 - 1e-12)


DELTA23 = {"delta": 1e-5}


BINARY23 = {**DELTA23, "classes": [0, 1]}


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_dots_of_profiles_are_connected_above_them(epsilon):
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-0.5, 0.5, (60, 3)), np.arange(60) % 2
    pure = ProductNoiseOutputPerturbation(epsilon=epsilon, delta=0.0, classes=[0, 1]).fit(X, y)
    sampled = DPRidge(target_bounds=(0, 1), mechanism="projection", n_components=60, epsilon=epsilon, **DELTA23)
    for model in (pure, sampled.fit(X, y)):
        (profile,) = model.guarantee_.loss.profiles
        reach = C._reach(profile)
        distribution = C._from_profile(profile, reach, C._grid_step(np.array([reach, 0.0])))
        points = rng.uniform(0, reach, 60)
        found = np.array([distribution.get_delta_for_epsilon(float(one)) for one in points])
        assert (found >= np.array([profile(float(one)) for one in points]) * (1 - 1e-9) - 1e-15).all()


ONE_ROW = np.zeros((1, 8))


@pytest.mark.parametrize("n_releases", [2, 3])
@pytest.mark.parametrize("sketch", [DPSignOPORP(4), DPOPORP(4, noise="laplace")])
def test_a_best_guess_below_what_the_sum_implies_assumes_parameters_fixed_before(sketch, n_releases):
    """Of epsilons that add up, the guess and the profile are those of exact composition all the same."""
    total = compose(*n_releases * [sketch.fit(ONE_ROW).guarantee_])
    implied = PrivacyGuarantee(total.epsilon, total.delta).guess_probability
    assert total.guess_probability >= implied or FIXED_BEFORE in total.assumptions


def test_no_choice_of_a_later_release_beats_the_guesses_that_are_printed_without_an_assumption():
    """Laplace noise, then one bit where it says little, and two smaller ones where it says much."""

    def _right(pair, keeps):
        joint = [pair]
        for kept in keeps:
            joint = [(a * u, b * v) for a, b in joint for u, v in ((kept, 1 - kept), (1 - kept, kept))]
        return sum(map(max, joint)) / 2

    ends = np.linspace(0, 1, 1001)  # between the numbers of two neighbours, one scale apart
    own, other = -np.diff(np.exp(-ends)) / 2, np.diff(np.exp(ends - 1)) / 2
    cells = [(0.5, np.exp(-1) / 2), (np.exp(-1) / 2, 0.5), *zip(own, other, strict=True)]
    one, two = [1 / (1 + np.exp(-1.0))], 2 * [1 / (1 + np.exp(-0.6))]
    right = sum(max(_right(cell, one), _right(cell, two)) for cell in cells)
    first = DPOPORP(4, noise="laplace").fit(ONE_ROW).guarantee_
    bits = {epsilon: DPSignOPORP(4, epsilon=epsilon, method="rr").fit(ONE_ROW).guarantee_ for epsilon in (1.0, 0.6)}
    totals = compose(first, bits[1.0]), compose(first, bits[0.6], bits[0.6])
    assumes = all(FIXED_BEFORE in total.assumptions for total in totals)
    assert assumes or right <= max(total.guess_probability for total in totals)


def test_laplace_totals_are_never_below_the_exact_ones():
    """Whichever dots stand for a profile: losses of cells are put at their lower ends, which gives a lower bound."""
    for size, n_times in ((0.07, 6), (0.9, 3), (2.5, 2)):
        step, n = size / 4000, 4000
        losses = np.arange(-n, n + 1) * step
        masses = np.zeros(2 * n + 1)
        masses[-1], masses[0] = 0.5, 0.5 * np.exp(-size)
        masses[:-1] += 0.5 * np.diff(np.exp((losses - size) / 2))
        width = n_times * 2 * n + 1
        together = np.fft.irfft(np.fft.rfft(masses, width + 1) ** n_times, width + 1)[:width]
        of_all = np.arange(-n_times * n, n_times * n + 1) * step
        total = PrivacyLoss(profiles=n_times * (Profile.of(laplace_profile, scale=1.0, sensitivity=size),))
        for epsilon in np.linspace(0, n_times * size, 7):
            exact = together @ np.maximum(-np.expm1(epsilon - of_all), 0)
            assert total.profile(float(epsilon)) >= exact - 1e-12


def test_gaussian_profiles_that_are_composed_on_a_grid_are_never_below_the_closed_form():
    """Of scales that differ a hundredfold, at epsilons in the body and in the tail."""
    for scales in ((0.6, 20.0), (3.0,) * 7, (1.0, 8.0, 40.0)):
        total = PrivacyLoss(
            mu=0.3, profiles=tuple(Profile.of(gaussian_profile, scale=scale, sensitivity=1.0) for scale in scales)
        )
        mu = float(np.sqrt(0.09 + sum(scale**-2 for scale in scales)))
        for epsilon in (0.0, 0.01, 0.3, 1.0, 2.0, 3 * mu):
            exact = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
            assert total.profile(epsilon) >= exact * (1 - 1e-9)


def _of_bits(epsilon0, n_bits):
    profile = Profile.of(randomised_response_profile, epsilon0=epsilon0, n_bits=n_bits)
    return PrivacyGuarantee(epsilon0 * n_bits, 0.0, adjacency=REPLACED, loss=PrivacyLoss(profiles=(profile,)))


def _of_noise(mu):
    delta = gaussian_profile(6 * mu + mu**2, scale=1.0, sensitivity=mu) * 1.001
    return PrivacyGuarantee(6 * mu + mu**2, delta, adjacency=REPLACED, loss=PrivacyLoss(mu=mu))


def _exact(epsilon, mu, bits):
    """Delta of Gaussian noise and independent bits, summed over all outcomes of the bits."""
    losses, shares = np.zeros(1), np.ones(1)
    for epsilon0, n in bits:
        kept = np.arange(n + 1)
        losses = np.add.outer(losses, (2 * kept - n) * epsilon0).ravel()
        shares = np.multiply.outer(shares, binom.pmf(kept, n, expit(epsilon0))).ravel()
    return sum(
        p * gaussian_profile(epsilon - x, scale=1.0, sensitivity=mu) for x, p in zip(losses, shares, strict=True)
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_total_over_disjoint_parts_and_of_all_rows_is_no_less_than_that_of_any_row(seed):
    """One part has bits, another noise, a third both; all rows have bits and noise besides."""
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(seed)
    mu, other_mu, shared = 10 ** rng.uniform(-2, 0.3, 3)
    bits, more, common = ((float(10 ** rng.uniform(-1, 0.5)), int(rng.integers(1, 4))) for _ in range(3))
    parts = [(0.0, [bits]), (mu, []), (other_mu, [more])]
    guarantees = [_of_bits(*bits), _of_noise(mu), compose(_of_noise(other_mu), _of_bits(*more))]
    total = compose(compose(*guarantees, disjoint=True), _of_noise(shared), _of_bits(*common))
    for epsilon in (0.0, 1.0, total.epsilon):
        exact = max(_exact(epsilon, np.hypot(own, shared), [*some, common]) for own, some in parts)
        assert exact <= total.profile(epsilon) * (1 + 1e-9)
