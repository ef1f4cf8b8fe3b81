"""Secret projections of rows: the profile against its definition, both neighbours' densities, and what floats cost."""

from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import ADJACENCY, assert_bounds, few, loss_of, sizes
from scipy import stats
from scipy.linalg import eigh
from scipy.special import gamma, gammainc, gammaincc, roots_legendre
from scipy.stats import chi2

from skdprp import PrivacyGuarantee, _noise, audit_epsilon, compose
from skdprp.composition import PrivacyLoss, Profile
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import gaussian_profile, sampled_target, secret_projection_profile, secret_projection_scale
from skdprp.mechanisms._numerics import rounded_up
from skdprp.mechanisms.secret_projection import project_secretly, secret_projection_n_changed
from skdprp.testing import reproducible_noise

FALSE_ALARM = 1e-10
nodes_and_weights = cache(roots_legendre)


def stated(epsilon, gain, n_components, adjacency):
    """What a guarantee states, and the gain that its scale has to the last bit."""
    scale = float(gain**-0.5)
    loss = loss_of(secret_projection_profile, scale=scale, n_components=n_components, adjacency=adjacency)
    return loss.profile(epsilon), 1 / mpmath.mpf(scale) ** 2


# The profile, by its definition


def precise_row_more_or_less(epsilon, gain, n_components):
    """Differences of two tails of chi-square with 120 digits."""
    with mpmath.workdps(120):
        epsilon, a = mpmath.mpf(epsilon), mpmath.mpf(n_components) / 2
        above = [(epsilon + a * mpmath.log1p(gain)) * share / gain for share in (1, 1 + gain)]
        below = [max((a * mpmath.log1p(gain) - epsilon) * share / gain, 0) for share in (1 + gain, 1)]
        more, more_without = (mpmath.gammainc(a, x, regularized=True) for x in above)
        less, less_with = (mpmath.gammainc(a, 0, x, regularized=True) for x in below)
        return max(more - mpmath.exp(epsilon) * more_without, less - mpmath.exp(epsilon) * less_with)


def upper_gammas(n, x):
    """Incomplete Gamma functions of 1, ..., n from x on: whole numbers by their recurrence."""
    found, power = [mpmath.exp(-x)], mpmath.exp(-x)
    for j in range(1, n):
        power *= x
        found.append(j * found[-1] + power)
    return found


def precise_row_replaced(epsilon, gain, n_components):
    """Exact for an even k: the density of the difference of two Gamma variates is a finite sum there.

    At a loss l it is ``exp(l / 2) c |l|^n K(|l| (2 + s) / (2 s))``, K the Bessel function of order n + 1/2.
    """
    with mpmath.workdps(120):
        epsilon, a, delta = mpmath.mpf(epsilon), n_components // 2, mpmath.mpf(0)
        rate, n = (2 + gain) / (2 * gain), a - 1
        rates = rate - 0.5, rate + 0.5
        above = [upper_gammas(a, r * epsilon) for r in rates]
        for j in range(a):
            weight = mpmath.factorial(n + j) / (mpmath.factorial(j) * mpmath.factorial(n - j)) / (2 * rate) ** j
            parts = [gammas[a - j - 1] / r ** (a - j) for r, gammas in zip(rates, above, strict=True)]
            delta += weight * (parts[0] - mpmath.exp(epsilon) * parts[1])
        return delta * ((1 + gain) / gain**2) ** a / (2 * rate) ** a / mpmath.factorial(n)


CASES = [
    (k, gain, share)
    for k, gain in [
        (1, 0.01), (1, 3.0), (2, 1e-9), (2, 1e6), (3, 0.2), (7, 30.0), (50, 0.3), (51, 1e-4), (400, 0.02), (1000, 1e-6),
        (1000, 0.5), (5000, 0.004), (5001, 1.0), (10**6, 1e-5), (10**6, 0.003),
    ]
    for share in (0.0, 1e-6, 0.1, 1.0, 3.0, 10.0)
]  # fmt: skip


@pytest.mark.parametrize(("n_components", "gain", "share"), CASES)
def test_a_row_more_or_less_costs_two_tails_of_chi_square(n_components, gain, share):
    """To an epsilon of many times the size of all losses: both sides, to the last bit."""
    epsilon = share * gain * np.sqrt(n_components) / (1 + gain)
    delta, gain = stated(epsilon, gain, n_components, "add_remove")
    assert_bounds(delta, precise_row_more_or_less(epsilon, gain, n_components))


@pytest.mark.parametrize(("n_components", "gain", "share"), [case for case in CASES if case[0] in (2, 50, 400, 1000)])
def test_a_replaced_row_costs_the_difference_of_two_chi_squares(n_components, gain, share):
    epsilon = share * gain * np.sqrt(n_components) / np.sqrt(1 + gain)
    delta, gain = stated(epsilon, gain, n_components, "replace_one")
    assert_bounds(delta, precise_row_replaced(epsilon, gain, n_components))


@pytest.mark.parametrize("gain", [1e-6, 0.3, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 2.0])
def test_two_components_have_a_closed_form(epsilon, gain):
    """A difference of two exponential variates: delta is ``s / (2 + s) exp(-epsilon / s)``."""
    exact = gain / (2 + gain) * np.exp(-epsilon / gain)
    delta = secret_projection_profile(epsilon, scale=gain**-0.5, n_components=2)
    assert delta == pytest.approx(max(exact, 2.0**-960), rel=1e-9)


@pytest.mark.parametrize("n_components", [1, 3, 17, 1000])
@pytest.mark.parametrize("gain", [0.05, 0.7, 10.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 2.0])
def test_a_replaced_row_by_integration_of_both_tails(n_components, gain, share):
    """``P[(1 + s) X - Y > t] - e^epsilon P[X - (1 + s) Y > t]``, t the statistic at which the loss is epsilon."""
    epsilon, a = share * gain * np.sqrt(n_components) / np.sqrt(1 + gain), n_components / 2
    nodes, weights = nodes_and_weights(2000)
    low, high = max(0.0, np.sqrt(a) - 9), np.sqrt(a) + 9
    root = low + (high - low) / 2 * (1 + nodes)
    square, t = root**2, epsilon * (1 + gain) / gain
    density = stats.chi(n_components).pdf(np.sqrt(2) * root) * np.sqrt(2)
    with_row = gammaincc(a, (t + square) / (1 + gain))
    without = gammaincc(a, t + (1 + gain) * square)
    exact = (high - low) / 2 * (weights * density) @ (with_row - np.exp(epsilon) * without)
    assert secret_projection_profile(epsilon, scale=gain**-0.5, n_components=n_components) == pytest.approx(
        exact, rel=1e-8, abs=1e-12
    )


@pytest.mark.parametrize("n_components", [1, 2, 7, 1000, 10**5, 10**6])
@pytest.mark.parametrize("mu", [1e-8, 1e-3, 1.0, 5.0])
def test_total_variation_of_a_replaced_row(n_components, mu):
    """At epsilon = 0 the ratio of two chi-squares decides; its logarithm has the density ``c cosh(l / 2)^-k``."""
    delta, gain = stated(0.0, mu / np.sqrt(n_components), n_components, "replace_one")
    a, reach = mpmath.mpf(n_components) / 2, mpmath.log1p(gain)
    log_c = mpmath.loggamma(2 * a) - 2 * mpmath.loggamma(a)
    points = [min(reach, 40 / mpmath.sqrt(a)) * j / 4 for j in range(5)]
    exact = 2 * mpmath.quad(lambda x: mpmath.exp(log_c - 2 * a * mpmath.log(2 * mpmath.cosh(x / 2))), points)
    assert_bounds(delta, exact)


def test_the_profile_is_that_of_a_simulation():
    """Of the sum of squares of 50 variables, by its loss; the formula gives .3718."""
    k, gain, epsilon, n_draws = 50, 0.3, 0.5, 400_000
    delta = secret_projection_profile(epsilon, scale=gain**-0.5, n_components=k, adjacency="add_remove")
    assert f"{delta:.4f}" == "0.3718"
    loss = (gain * np.random.default_rng(0).chisquare(k, n_draws) - k * np.log1p(gain)) / 2
    simulated = np.mean(np.maximum(0, -np.expm1(epsilon - loss)))
    assert abs(simulated - delta) < np.sqrt(np.log(2 / FALSE_ALARM) / (2 * n_draws))  # Hoeffding


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_many_components_are_a_gaussian_mechanism(adjacency):
    """Of mu = s sqrt(k / 2) for a row more, and sqrt(2) times that for a replaced one, in the limit of many."""
    k, mu = 10**6, 0.3
    scale = (mu / np.sqrt(k / (2 if adjacency == "add_remove" else 1))) ** -0.5
    delta = secret_projection_profile(0.5, scale=scale, n_components=k, adjacency=adjacency)
    assert delta == pytest.approx(gaussian_profile(0.5, scale=1.0, sensitivity=mu), rel=1e-2)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_negative_epsilon_is_that_of_the_other_order(adjacency):
    """For a row more the two orders have profiles of their own, whose maximum it is."""
    known = {"scale": 2.0, "n_components": 30, "adjacency": adjacency}
    expected = 1 - np.exp(-0.4) * (1 - secret_projection_profile(0.4, **known))
    assert secret_projection_profile(-0.4, **known) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_ends_of_the_profile(adjacency):
    known = {"n_components": 5, "adjacency": adjacency}
    assert secret_projection_profile(1.0, scale=0.0, **known) == 1.0
    assert secret_projection_profile(1.0, scale=1.0, max_norm=0.0, **known) == 0.0
    assert secret_projection_profile(1.0, scale=0.0, max_norm=0.0, **known) == 0.0
    for epsilon, scale in [(np.inf, 1.0), (1.0, 1e160), (1e300, 1.0), (1.0, np.inf)]:
        assert 0 < secret_projection_profile(epsilon, scale=scale, **known) < 1e-280
    assert secret_projection_profile(1.0, scale=1e-150, **known) == pytest.approx(1.0, abs=1e-12)
    for n_components in (0, -1, np.nan, 10**6 + 1):
        with pytest.raises(ValueError, match="n_components must be between 1 and"):
            secret_projection_profile(1.0, scale=1.0, n_components=n_components)


# Neighbours, by the densities of all numbers that are released


@cache
def directions(n_components, n_dims):
    """Directions of a release of at most four numbers, and weights that add up to the area of their sphere.

    Of two rows that are opposite, which have the same density, one stands for both.
    """
    if n_components * n_dims == 2:
        angle = np.arange(2000) * 2 * np.pi / 4000
        unit = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return unit.reshape(-1, n_components, n_dims), np.full(2000, 4 * np.pi / 4000)
    nodes, weights = roots_legendre(40)
    height, first, second = np.meshgrid((1 + nodes) * np.pi / 4, *2 * [np.arange(20) * np.pi / 20], indexing="ij")
    unit = np.stack(
        [
            np.cos(height) * np.cos(first),
            np.cos(height) * np.sin(first),
            np.sin(height) * np.cos(second),
            np.sin(height) * np.sin(second),
        ],
        axis=-1,
    )
    weight = (weights * np.pi / 4)[:, None, None] * np.sin(2 * height) / 2 * (np.pi / 10) ** 2
    return unit.reshape(-1, n_components, n_dims), weight.ravel()


def exact_delta(epsilon, table, other, scale, n_components):
    """Integrate the density of the one release, less e^epsilon times that of the other one, where that is positive.

    On a ray from the origin both fall like exp(-q r^2 / 2), and are equal at one radius at most.
    """
    n_dims = table.shape[1]
    unit, weights = directions(n_components, n_dims)
    covariances = [Z.T @ Z + scale**2 * np.eye(n_dims) for Z in (table, other)]
    q, q_other = (np.einsum("nij,jk,nik->n", unit, np.linalg.inv(cov), unit) for cov in covariances)
    logs = [-n_components * np.linalg.slogdet(2 * np.pi * cov)[1] / 2 for cov in covariances]
    rest, a = epsilon + logs[1] - logs[0], n_components * n_dims / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.maximum(0, np.nan_to_num(rest / (q_other - q)))

    def mass(log_factor, rate):
        share = np.where(q_other > q, gammaincc(a, rate * square), gammainc(a, rate * square))
        share = np.where(q_other == q, float(rest < 0), share)
        return np.exp(log_factor) * gamma(a) / 2 * (2 / rate) ** a * share

    return weights @ (mass(logs[0], q) - np.exp(epsilon) * mass(logs[1], q_other))


def random_row(rng, n_dims):
    row = rng.normal(size=n_dims)
    return row / np.linalg.norm(row) * rng.choice([1.0, rng.uniform()])


@pytest.mark.parametrize(
    ("n_components", "n_dims", "n_pairs", "error"), [(1, 2, 100, 1e-6), (2, 1, 100, 1e-9), (2, 2, 20, 1e-3)]
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_neighbouring_tables_exceed_the_profile(n_components, n_dims, n_pairs, error, adjacency):
    """Rows of any norm, in tables of none to two others, in both orders."""
    rng = np.random.default_rng(0)
    for _ in range(n_pairs):
        epsilon, scale = rng.choice([0.0, 0.1, 0.5, 1.5]), rng.choice([0.4, 1.0, 2.0])
        common = np.array([random_row(rng, n_dims) for _ in range(rng.integers(3))]).reshape(-1, n_dims)
        last = np.zeros(n_dims) if adjacency == "add_remove" else random_row(rng, n_dims)
        pair = [np.vstack([common, row]) for row in (random_row(rng, n_dims), last)]
        least = max(0.0, np.linalg.eigvalsh(common.T @ common).min()) * rng.integers(2)
        bound = secret_projection_profile(
            epsilon, scale=scale, n_components=n_components, adjacency=adjacency, min_eigenvalue=float(least)
        )
        for tables in (pair, pair[::-1]):
            assert exact_delta(epsilon, *tables, scale, n_components) <= bound * (1 + error) + 1e-12


@pytest.mark.parametrize(("n_components", "tolerance"), [(1, 1e-6), (2, 1e-3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("least", [0.0, 0.5])
def test_the_worst_neighbours_attain_the_profile(n_components, tolerance, epsilon, least):
    """A row of norm 1 more, or one for another at a right angle, in a table that hides it no more than was assumed."""
    common = np.sqrt(least) * np.eye(2)
    x, y, blank = (np.vstack([common, row]) for row in ([0.6, 0.8], [-0.8, 0.6], [0.0, 0.0]))
    known = {"scale": 0.8, "n_components": n_components, "min_eigenvalue": least}
    replaced = exact_delta(epsilon, x, y, 0.8, n_components)
    assert secret_projection_profile(epsilon, **known) == pytest.approx(replaced, rel=tolerance)
    both = [exact_delta(epsilon, *tables, 0.8, n_components) for tables in ((x, blank), (blank, x))]
    added = secret_projection_profile(epsilon, **known, adjacency="add_remove")
    assert added == pytest.approx(max(both), rel=tolerance)


# Calibration


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("n_components", [1, 2, 100, 5000, 10**6])
@pytest.mark.parametrize(
    "epsilon, delta", [(0.0, 0.4), (1e-6, 1e-3), (0.01, 1e-12), (1.0, 1e-6), (1.0, 1e-200), (30.0, 0.01), (600.0, 1e-9)]
)
def test_scale_is_exact(epsilon, delta, n_components, adjacency):
    """The calibrated noise meets the target; one part per million less does not."""
    known = {"n_components": n_components, "adjacency": adjacency}
    scale = secret_projection_scale(epsilon, delta, **known)
    assert rounded_up(secret_projection_profile(epsilon, scale=scale, **known)) <= delta
    assert secret_projection_profile(epsilon, scale=scale * (1 - 1e-6), **known) > delta


@few
@given(sizes(0.01, 10.0), sizes(1e-12, 0.1), st.integers(1, 3000), ADJACENCY, sizes(1e-3, 1e3), st.floats(0.1, 0.99))
def test_an_assumed_eigenvalue_takes_its_share_of_the_noise(epsilon, delta, k, adjacency, max_norm, share):
    """The variance of the noise and the eigenvalue add up to what is needed, until none but the least is left."""
    known = {"n_components": k, "adjacency": adjacency, "max_norm": max_norm}
    needed = secret_projection_scale(epsilon, delta, **known)
    least = share * needed**2
    scale = secret_projection_scale(epsilon, delta, **known, min_eigenvalue=least)
    assert secret_projection_profile(epsilon, scale=scale, **known, min_eigenvalue=least) <= delta
    assert scale**2 == pytest.approx(needed**2 - least, rel=1e-9)
    enough = float(1.01 * needed**2)
    scale = secret_projection_scale(epsilon, delta, **known, min_eigenvalue=enough)
    assert scale == 2.0**-10 * np.sqrt(enough)


def test_delta_of_zero_is_no_target():
    with pytest.raises(ValueError, match="delta=0"):
        secret_projection_scale(1.0, 0.0, n_components=10)


def test_no_noise_where_rows_are_blank():
    assert secret_projection_scale(1.0, 1e-6, n_components=10, max_norm=0.0) == 0.0


def test_a_guarantee_is_stored_and_composed():
    """By the name of its profile; two releases cost more than one and less than the sum of both."""
    loss = PrivacyLoss(profiles=(Profile.of(secret_projection_profile, scale=12.0, n_components=1000, max_norm=1.0),))
    guarantee = PrivacyGuarantee(loss.epsilon(1e-6), 1e-6, adjacency=Adjacency("replace_one"), loss=loss)
    assert PrivacyGuarantee.from_dict(guarantee.to_dict()) == guarantee
    total = compose(guarantee, guarantee, delta=1e-6)
    mu = 12.0**-2 * np.sqrt(1000)
    assert guarantee.epsilon < total.epsilon < 2 * guarantee.epsilon
    assert total.loss.profile(1.0) == pytest.approx(gaussian_profile(1.0, scale=1.0, sensitivity=mu * 2**0.5), rel=0.1)


# The release


@pytest.fixture
def gram():
    """Of three columns, of which one is the sum of the others."""
    Z = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    Z = np.column_stack([Z, Z.sum(axis=1)])
    return Z.T @ Z


def test_rows_have_the_covariance_of_the_mechanism(gram, monkeypatch):
    """A factor of all but the half of the noise that is added on the grid."""
    added = []
    monkeypatch.setattr(_noise, "draw_gaussian", lambda shape, scale: np.eye(*shape))
    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: added.append(scale))
    before = gram.copy()
    factor = project_secretly(gram, scale=0.7, n_components=3)
    assert np.array_equal(gram, before)
    total = factor.T @ factor + added[0] ** 2 * np.eye(3)
    np.testing.assert_allclose(total, gram + 0.7**2 * np.eye(3), rtol=1e-11)
    assert added[0] == pytest.approx(0.7 / np.sqrt(2), rel=1e-11) and 2 * added[0] ** 2 >= 0.7**2


def test_released_rows_are_normal(gram, seeded):
    released = project_secretly(gram, scale=0.7, n_components=20_000)
    inverse = np.linalg.inv(np.linalg.cholesky(gram + 0.7**2 * np.eye(3)))
    white = released @ inverse.T
    assert all(stats.kstest(column, "norm").pvalue > FALSE_ALARM for column in white.T)
    assert stats.kstest((white**2).sum(axis=1), stats.chi2(3).cdf).pvalue > FALSE_ALARM
    signs = (np.sign(white[:, :1] * white[:, 1:]) > 0).sum(axis=0)
    assert all(stats.binomtest(int(count), len(white)).pvalue > FALSE_ALARM for count in signs)


def test_released_numbers_are_fresh_and_on_a_public_grid(gram):
    """Two draws of sixty numbers agree less than once in 2^60: no number has a probability above 1/2."""
    once, again = (project_secretly(gram, scale=0.7, n_components=20) for _ in range(2))
    assert not np.array_equal(once, again)
    assert np.array_equal(once * 2.0**12, np.rint(once * 2.0**12))
    assert once.shape == (20, 3) and once.flags.c_contiguous


def test_a_gram_matrix_that_noise_cannot_hide_is_refused(gram):
    """By a message that has no number of it."""
    for wrong, message in [(np.nan * gram, "is not finite"), (gram * np.inf, "is not finite"), (-gram, "too large")]:
        with pytest.raises(ValueError, match=message):
            project_secretly(wrong, scale=0.1, n_components=2)
    with pytest.raises(ValueError, match="no scale of noise"):
        project_secretly(gram, scale=0.0, n_components=2)


@pytest.mark.parametrize("scale", [0.5, 20.0])
def test_floats_are_as_close_to_real_numbers_as_is_paid_for(scale, monkeypatch):
    """The distance of the product from one of real numbers, with the same variates, in units of the noise."""
    rng, n, d, k = np.random.default_rng(0), 300, 4, 7
    Z, G = rng.uniform(-0.5, 0.5, (n, d)), rng.normal(size=(k, d))
    Z[:, 3] = Z[:, 0]  # of a singular table a factor is far from that of a table next to it
    added = []
    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: added.append(scale))
    monkeypatch.setattr(_noise, "draw_gaussian", lambda shape, scale: np.eye(d))
    factor = mpmath.matrix(project_secretly(Z.T @ Z, scale=scale, n_components=d))
    monkeypatch.setattr(_noise, "draw_gaussian", lambda shape, scale: G)
    product = mpmath.matrix(project_secretly(Z.T @ Z, scale=scale, n_components=k))
    exact = mpmath.matrix(Z).T * mpmath.matrix(Z) + mpmath.mpf(added[0]) ** 2 * mpmath.eye(d)
    # The exact factor that is closest: the polar part of the one of floats, times the root.
    nearest = factor * mpmath.inverse(mpmath.sqrtm(factor.T * factor)) * mpmath.sqrtm(exact)
    distance = mpmath.mnorm(product - mpmath.matrix(G) * nearest, "f") / added[0]
    n_changed = secret_projection_n_changed(scale=scale, n_components=k, n_dims=d, n_samples=n)
    paid = (n_changed - k * d) * _noise.SAMPLING_LOSS
    assert 0 < 21 * distance + distance**2 / 2 < paid < 1e-3


def test_what_floats_cost_is_little_and_grows_with_all_that_rounds():
    known = {"scale": 5.0, "n_components": 1000, "n_dims": 50, "n_samples": 10**6, "n_additions": 4500}
    cost = secret_projection_n_changed(**known)
    assert 50_000 < cost < 150_000
    for name in set(known) - {"scale"}:
        assert secret_projection_n_changed(**known | {name: 2 * known[name]}) > cost
    assert secret_projection_n_changed(**known | {"scale": 2.5}) > cost
    assert secret_projection_n_changed(**known, max_norm=2.0) > cost
    del known["n_additions"]
    assert secret_projection_n_changed(**known) == secret_projection_n_changed(**known, n_additions=10**6) > cost
    with pytest.raises(ValueError, match="by blocks"):
        secret_projection_n_changed(**known | {"n_samples": 10**9})
    with pytest.raises(ValueError, match="Without noise"):
        secret_projection_n_changed(**known | {"scale": 0.0})


def test_a_calibrated_release_withstands_an_attack_that_half_of_the_noise_does_not():
    """The best statistic for two orthogonal rows, of which one replaces the other, and nothing else in the table."""
    k, epsilon, delta = 20, 1.0, 1e-5
    target = {"n_components": k, "adjacency": "replace_one"}
    n_changed = secret_projection_n_changed(
        scale=secret_projection_scale(epsilon, delta, **target), n_components=k, n_dims=2, n_samples=1
    )
    scale = secret_projection_scale(*sampled_target(epsilon, delta, n_changed=n_changed), **target)
    claim = PrivacyGuarantee(epsilon, delta, adjacency=Adjacency("replace_one"))

    def audit(share):
        def attack(copies):  # released rows are independent: of many, some are what one trial releases
            M = project_secretly(np.outer(copies[0], copies[0]), scale=share * scale, n_components=k * len(copies))
            return np.sum((M[:, 0] ** 2 - M[:, 1] ** 2).reshape(-1, k), axis=1)

        options = {"delta": delta, "n_trials": 3600, "rows_are_trials": True}
        options["distinguishers"] = {"itself": lambda outputs: outputs[:, 0]}
        with reproducible_noise(0):
            return audit_epsilon(attack, np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), **options)

    assert not audit(1.0).exceeds(claim)
    assert audit(0.5).exceeds(claim)


@pytest.mark.parametrize("k", [1, 3])
def test_no_two_rows_are_told_apart_better_by_a_secret_projection_than_its_profile_says(k):
    """Densities of all pairs of rows in a plane, with others beside them, integrated on a grid."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    length = np.sqrt(chi2.isf(1e-16, k))
    radius = (nodes + 1) * length / 2
    u, mass = radius**2, weights * length * radius * chi2.pdf(radius**2, k)

    def delta(one, other, epsilon):
        ratios = eigh(one, other, eigvals_only=True)
        loss = -k / 2 * np.log(ratios).sum() + (ratios[0] - 1) / 2 * u[:, None] + (ratios[1] - 1) / 2 * u
        return float(mass @ -np.expm1(np.minimum(epsilon - loss, 0.0)) @ mass)

    rng = np.random.default_rng(k)
    for size, epsilon in ((0.3, 0.5), (1.0, 1.0), (3.0, 2.0)):
        stated = {
            adjacency: secret_projection_profile(
                epsilon, scale=1.0, max_norm=size**0.5, n_components=k, adjacency=adjacency
            )
            for adjacency in ("replace_one", "add_remove")
        }
        for _ in range(8):
            z, w = (v / np.linalg.norm(v) * (size * rng.uniform() ** 0.3) ** 0.5 for v in rng.normal(size=(2, 2)))
            others = rng.normal(size=(2, 2)) * rng.choice([0.0, 0.5])
            rest = np.eye(2) + others @ others.T
            with_z, with_w = rest + np.outer(z, z), rest + np.outer(w, w)
            assert delta(with_z, with_w, epsilon) <= stated["replace_one"] + 1e-5
            assert max(delta(with_z, rest, epsilon), delta(rest, with_z, epsilon)) <= stated["add_remove"] + 1e-5


@pytest.mark.parametrize("point", [(5, 5.0, 16.0), (5, 90.0, 14.0), (100, 20.0, 15.5), (100, 700.0, 12.5)])
def test_a_profile_of_a_secret_projection_ends_however_large_its_noise_is(point):
    n_components, epsilon, octaves = point
    delta = secret_projection_profile(epsilon, scale=2.0**octaves, n_components=n_components, max_norm=1.0)
    assert 0 <= delta < 1e-6
