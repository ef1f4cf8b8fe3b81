"""MI-DP regression: calibrations against integration, leaks, attacks, and what a release may carry."""

import os
import pickle
import tracemalloc
import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge

from skdprp import MIDPRegressor, PrivacyWarning, _noise, audit_epsilon, mechanisms
from skdprp.linear_model import (
    _sketched_least_squares,
    additive_error_bound,
    least_residual,
    projection_error_bound,
    projection_expected_error,
)
from skdprp.mechanisms import gaussian_profile, information_scale
from skdprp.mechanisms.gaussian_laplace import gaussian_epsilon
from skdprp.mechanisms.mutual_information import (
    gaussian_information,
    information_delta,
    pinsker_delta,
    projected_entry_epsilon,
    sampled_information,
)
from skdprp.mechanisms.published import published_information_scale
from skdprp.testing import reproducible_noise

EPSILONS = [0.01, 0.2, 0.5, 1.0, 3.0]


def make_data(n=3000, d=4, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ np.linspace(1, -1, d) + noise * rng.normal(size=n)


def binary_information(amplitude):
    """Bits about an equiprobable sign in ``sign * amplitude + N(0, 1)``, by integration."""

    def loss(z):
        return stats.norm.pdf(z) * np.logaddexp(0, -2 * amplitude * (amplitude + z)) / np.log(2)

    return 1 - quad(loss, -12, 12, epsabs=1e-12, limit=200)[0]


def sketch_quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.sketch(X, y)


# Calibrations and conversions


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sizes", [{}, {"max_abs": 7.0}, {"n_components": 300, "max_abs": 0.1}])
def test_scale_is_exact(epsilon, sizes):
    """The calibrated noise lets at most epsilon bits through; one part per million less does not."""
    scale = information_scale(epsilon, **sizes)
    assert gaussian_information(scale=scale, **sizes) <= epsilon
    assert gaussian_information(scale=scale * (1 - 1e-6), **sizes) > epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_residual_takes_its_share_of_the_noise(epsilon):
    """The variance of the noise and the squared residual add up to what is needed."""
    needed = information_scale(epsilon, n_components=50)
    residual = 0.9 * needed
    scale = information_scale(epsilon, n_components=50, min_residual=residual)
    assert gaussian_information(scale=scale, n_components=50, min_residual=residual) <= epsilon
    assert scale == pytest.approx(needed * np.sqrt(0.19), rel=1e-9)
    assert information_scale(epsilon, n_components=50, min_residual=1.01 * needed) == 0.0


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_input_attains_the_bound(epsilon):
    """Mutual information of a Gaussian entry of power one, integrated from its densities, is epsilon."""
    scale = information_scale(epsilon)
    spread = np.hypot(1, scale)
    entropy = quad(lambda x: -stats.norm.pdf(x, 0, spread) * stats.norm.logpdf(x, 0, spread), -14 * spread, 14 * spread)
    conditional = 0.5 * np.log(2 * np.pi * np.e * scale**2)
    assert (entropy[0] - conditional) / np.log(2) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounded_input_stays_below_the_bound(epsilon):
    """A sign, the worst input within [-1, 1] at much noise, reveals at most epsilon, and nearly that if small."""
    bits = binary_information(1 / information_scale(epsilon))
    assert bits <= epsilon
    assert epsilon >= 0.5 or bits >= 0.95 * epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 0.5])
@pytest.mark.parametrize("n_components", [3, 200])
def test_projected_sign_stays_below_the_bound(epsilon, n_components):
    """Information about a sign in ``t s + noise`` given s, averaged over the chi distribution of its norm."""
    scale = information_scale(epsilon, n_components=n_components)
    lengths = stats.chi(n_components).ppf((np.arange(30) + 0.5) / 30)
    bits = np.mean([binary_information(length / scale) for length in lengths])
    assert 0.8 * epsilon < bits <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_information_delta_is_the_root(epsilon):
    """The binary symmetric channel of that total variation carries epsilon bits; slightly less variation, fewer."""

    def bits(delta):
        return 1 - stats.entropy([(1 + delta) / 2, (1 - delta) / 2], base=2)

    delta = information_delta(epsilon)
    assert delta <= pinsker_delta(epsilon) + 1e-15
    if epsilon >= 1:
        assert delta == 1.0
    else:
        assert bits(0.99999 * delta) < epsilon <= bits(delta) + 1e-12
        assert delta == pytest.approx(brentq(lambda t: bits(t) - epsilon, 1e-6, 1 - 1e-12, xtol=1e-13), rel=1e-8)


@pytest.mark.parametrize("epsilon", np.exp(np.random.default_rng(0).uniform(-50, 0, 60)))
def test_information_delta_is_an_upper_bound(epsilon):
    """To the last bit, and by a part in 10^12 at most."""
    with mpmath.workdps(50):

        def bits(delta):
            return 1 + sum(p * mpmath.log(p, 2) for p in ((1 + delta) / 2, (1 - delta) / 2))

        delta = mpmath.mpf(information_delta(epsilon))
        assert bits(delta * (1 - mpmath.mpf(10) ** -12)) < mpmath.mpf(epsilon) <= bits(delta)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
@pytest.mark.parametrize("n_components", [1, 10, 1000])
def test_projected_entry_epsilon_is_its_formula(delta, n_components):
    """Half of delta for the norm of the column, half for the noise; rounded up, by a part in 10^9 at most."""
    known = {"scale": 3.0, "max_abs": 0.7, "min_residual": 2.0, "n_components": n_components}
    epsilon = projected_entry_epsilon(delta, **known)
    with mpmath.workdps(40):
        k, guess = mpmath.mpf(n_components) / 2, stats.chi2(n_components).isf(delta / 2) / 2
        square = mpmath.findroot(lambda x: mpmath.gammainc(k, x, regularized=True) - mpmath.mpf(delta) / 2, guess)
        shift = float(mpmath.mpf(1.4) * mpmath.sqrt(2 * square / 13))
    exact = gaussian_epsilon(delta / 2, scale=1.0, sensitivity=shift)
    assert exact <= epsilon <= exact * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("n_changed", [1, 1000, 10**6])
def test_bits_that_sampling_may_add_are_paid(epsilon, n_changed):
    """The bound on sampled noise, at what ideal noise may let through, is epsilon."""
    loss = n_changed * 2.0**-31
    ideal = sampled_information(epsilon, n_changed=n_changed) * np.log(2)
    sampled = np.exp(loss) * ideal + 2 * loss + np.expm1(loss) * 2 / np.e
    assert sampled == pytest.approx(epsilon * np.log(2), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-12, 0.2, 0.6])
def test_conversions_agree_for_little_information(epsilon):
    assert 0.9 * pinsker_delta(epsilon) < information_delta(epsilon) <= pinsker_delta(epsilon)
    assert epsilon > 1e-6 or information_delta(epsilon) == pytest.approx(np.sqrt(2 * epsilon * np.log(2)), rel=1e-9)


@pytest.mark.parametrize("amplitude", [0.1, 1.0, 2.0])
def test_information_bounds_the_total_variation(amplitude):
    """For Gaussian noise the total variation is known: 2 Phi(a) - 1 is below what its information allows."""
    total_variation = 2 * stats.norm.cdf(amplitude) - 1
    assert 0.75 * information_delta(binary_information(amplitude)) < total_variation
    assert total_variation <= information_delta(binary_information(amplitude))


@pytest.mark.parametrize("scale", [0.1, 1.0, 1.7691, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_gaussian_epsilon_inverts_the_profile(scale, delta):
    epsilon = gaussian_epsilon(delta, scale=scale, sensitivity=2.0)
    assert gaussian_profile(epsilon, scale=scale, sensitivity=2.0) <= delta
    assert epsilon == 0 or gaussian_profile(epsilon * (1 - 1e-6), scale=scale, sensitivity=2.0) > delta


def test_additive_entry_epsilon_is_known():
    """At 0.2 bits, one entry is (5.05, 1e-5)-DP."""
    assert gaussian_epsilon(1e-5, scale=information_scale(0.2), sensitivity=2.0) == pytest.approx(5.05, abs=0.01)
    assert gaussian_epsilon(1e-5, scale=0.0) == np.inf


@pytest.mark.parametrize("n_components", [1, 10, 1000])
def test_projected_entry_epsilon_covers_the_mixture(n_components):
    """The Gaussian profile averaged over the norm of the column of S, by integration, stays below delta."""
    scale = information_scale(0.3, n_components=n_components)
    epsilon = projected_entry_epsilon(1e-3, scale=scale, n_components=n_components)
    norm = stats.chi(n_components)

    def mixture(epsilon):
        def integrand(s):
            return norm.pdf(s) * gaussian_profile(epsilon, scale=scale, sensitivity=2 * s)

        return quad(integrand, norm.ppf(1e-12), norm.isf(1e-14), points=[norm.isf(1e-3)], limit=400)[0]

    assert mixture(epsilon) <= 1e-3 < mixture(0.3 * epsilon)


def channel_information(rows):
    """Bits about which of two equiprobable rows an outcome comes from."""
    return stats.entropy(rows.mean(axis=0), base=2) - np.mean([stats.entropy(row, base=2) for row in rows])


@pytest.mark.parametrize("n_values", [2, 30])
def test_sampled_information_covers_any_sampling_error(n_values, monkeypatch):
    """Channels with probabilities off by the sampling loss may carry more than the ideal ones, within the target."""
    loss = 0.01
    monkeypatch.setattr(mechanisms.mutual_information, "SAMPLING_LOSS", loss)
    constant = 1.0 - np.exp(loss) * mechanisms.mutual_information.sampled_information(1.0, n_changed=1)
    rng = np.random.default_rng(0)
    excess, margin = [], []
    for _ in range(200):
        ideal = rng.dirichlet(np.full(n_values, 0.5), 2)
        sampled = ideal * np.exp(loss / 2 * np.sign(ideal - ideal.mean(axis=0)))
        bits = channel_information(sampled / sampled.sum(axis=1, keepdims=True))
        excess.append(bits - channel_information(ideal))
        margin.append(np.exp(loss) * channel_information(ideal) + constant - bits)
    assert max(excess) > 0 and min(margin) > 0 and constant < 5 * loss


def test_published_scale():
    assert published_information_scale(0.5, n_components=25, residual=3.0, max_abs=2.0) == pytest.approx(91**0.5)
    assert published_information_scale(0.5, n_components=25, residual=5.0) == 0.0


def test_residual_of_the_published_calibration():
    X = np.array([[3.0, 0.5, 0.0], [0.5, -1.0, 0.2], [-0.25, 0.5, 0.1]])
    expected = np.sqrt(0.1**2)
    for table in (X, sp.csr_array(X), X.astype(np.float32)):
        assert _sketched_least_squares.column_residual(table, 1.0) == pytest.approx(expected)
    assert _sketched_least_squares.column_residual(X[:, :2], 1.0) == pytest.approx(np.sqrt(0.25 + 0.0625))


# The release


@pytest.mark.parametrize("wide", [False, True])
def test_projection_has_its_distribution(wide):
    """Rows are independent normal vectors with the Gram matrix as covariance, by triangle and by blocks of S."""
    X, y = make_data(300, 3)
    X = np.hstack([X, np.zeros((300, 40))]) if wide else X
    model = MIDPRegressor(n_components=40, epsilon=3.0)
    draws = [np.column_stack(model.sketch(X, y)) for _ in range(200)]
    rows = np.vstack(draws)[:, [0, 1, 2, -1]]
    A = np.column_stack([X[:, :3], y])
    covariance = A.T @ A + np.diag([model.scale_**2] * 3 + [0])
    normal = rows @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    assert stats.kstest(normal.ravel(), "norm").pvalue > 1e-6
    assert np.allclose(normal.T @ normal / len(rows), np.eye(4), atol=6 * np.sqrt(2 / len(rows)))
    assert abs(np.mean(normal[1:] * normal[:-1])) < 6 / np.sqrt(4 * len(rows))


def test_additive_release_has_its_distribution():
    X, y = make_data()
    model = MIDPRegressor(mechanism="additive", max_abs=0.5)
    noisy, targets = model.sketch(X, y)
    noise = (noisy - np.clip(X, -0.5, 0.5)) / model.scale_
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-6 and np.array_equal(targets, y)
    assert model.scale_ == pytest.approx(0.5)


@pytest.mark.parametrize("mechanism", ["projection", "additive"])
def test_fit_is_least_squares_on_the_sketch(mechanism):
    """With the same seeded noise, fit and a regression on the sketch agree."""
    X, y = make_data()
    model = MIDPRegressor(mechanism=mechanism, fit_intercept=True, epsilon=2.0)
    with reproducible_noise(0):
        sketch, targets = model.sketch(X, y)
    with reproducible_noise(0):
        model.fit(X, y)
    weights = LinearRegression(fit_intercept=False).fit(sketch, targets).coef_
    assert np.allclose([*model.coef_, model.intercept_], weights)
    assert repr(model.guarantee_) == "2.0-MI-DP (bits), one entry of at most 1.0 [seeded: not private]"


@pytest.mark.parametrize(("mechanism", "factor"), [("projection", 1), ("additive", 20_000)])
def test_noise_acts_like_ridge(mechanism, factor):
    """In the limit the coefficients are those of ridge regression; the intercept is not shrunk."""
    X, y = make_data(20_000)
    model = MIDPRegressor(mechanism=mechanism, n_components=4000, fit_intercept=True).fit(X, y + 5)
    ridge = Ridge(alpha=factor * model.scale_**2).fit(X, y + 5)
    assert np.allclose(model.coef_, ridge.coef_, atol=0.1)
    assert abs(model.intercept_ - ridge.intercept_) < 0.2


@pytest.mark.parametrize("mechanism", ["projection", "additive"])
def test_containers_and_dtypes_agree(mechanism):
    X, y = make_data(400)
    X[X < 0.3] = 0
    X[0, 0] = 9.0  # clipped
    fits = []
    for table in (X, sp.csr_matrix(X), sp.csr_array(X), sp.csc_array(X), pd.DataFrame(X), X.astype(np.float32)):
        with reproducible_noise(1):
            fits.append(MIDPRegressor(mechanism=mechanism, epsilon=3.0, n_components=40).fit(table, y))
    predictions = [fit.predict(pd.DataFrame(X) if hasattr(fit, "feature_names_in_") else X) for fit in fits]
    assert all(np.allclose(p, predictions[0], atol=1e-4) for p in predictions)
    single = MIDPRegressor(mechanism=mechanism, n_components=40).sketch(X.astype(np.float32), y)
    assert single[0].dtype == np.float32


def test_repeated_sparse_entries_are_summed_before_clipping():
    repeated = sp.csr_array((np.array([0.8, 0.8]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert np.array_equal(_sketched_least_squares.clip_entries(repeated, 1.0).toarray(), [[1.0, 0.0]])
    assert repeated.nnz == 2


# What a release carries


@pytest.mark.parametrize("mechanism", ["projection", "additive"])
def test_guarantee_says_what_holds(mechanism):
    X, y = make_data()
    model = MIDPRegressor(epsilon=0.2, mechanism=mechanism).fit(X, y)
    assert repr(model.guarantee_) == "0.2-MI-DP (bits), one entry of at most 1.0"
    text = " ".join(str(model.guarantee_).split())
    assert "y is not protected" in text and "(0, 0.514)-DP" in text
    assert ("(5.049, 1e-05)-DP of one entry" in text) == (mechanism == "additive")
    assert not hasattr(model, "claimed_") and hasattr(model, "n_components_") == (mechanism == "projection")


def test_a_bound_on_residuals_is_an_assumption():
    X, y = make_data()
    model = MIDPRegressor(n_components=100, min_residual=5.0).fit(X, y)
    assert model.scale_ == pytest.approx(np.sqrt(75))
    assert "min_residual=5.0" in " ".join(str(model.guarantee_).split())


def test_published_calibration_has_no_guarantee():
    X, y = make_data()
    model = MIDPRegressor(calibration="published")
    with pytest.warns(PrivacyWarning, match="inf-MI-DP"):
        model.fit(X, y)
    assert model.guarantee_.epsilon == np.inf and model.claimed_.epsilon == 0.5
    assert "claimed" in repr(model.claimed_) and not hasattr(model, "scale_")
    model.set_params(calibration="exact").fit(X, y)
    assert model.guarantee_.epsilon == 0.5 and not hasattr(model, "claimed_")
    MIDPRegressor(calibration="published", mechanism="additive").fit(X, y)


@pytest.mark.parametrize("options", [{}, {"mechanism": "additive"}, {"min_residual": 3.0, "fit_intercept": True}])
def test_state_is_public_or_released(options):
    """Two data sets of one shape: everything but coefficients is equal, and nothing else is kept."""
    states = []
    for seed in range(2):
        model = pickle.loads(pickle.dumps(MIDPRegressor(**options).fit(*make_data(seed=seed))))
        states.append({name: value for name, value in vars(model).items() if name not in ("coef_", "intercept_")})
    assert states[0] == states[1]
    assert set(states[0]) - set(MIDPRegressor().get_params()) <= {
        "scale_",
        "n_components_",
        "guarantee_",
        "n_features_in_",
    }


@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_texts_do_not_depend_on_the_data(calibration):
    texts = set()
    for seed in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = MIDPRegressor(calibration=calibration).fit(*make_data(seed=seed))
        texts.add((str(model.guarantee_), *(str(warning.message) for warning in caught)))
    assert len(texts) == 1


def sketch_in_fork(model, X, y):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, model.sketch(X, y)[0].tobytes())
        os._exit(0)
    os.wait()
    return os.read(read, 10**6)


# Forking a process that has run threads warns on newer Pythons; the child here only draws and exits.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("mechanism", ["projection", "additive"])
def test_randomness_is_never_shared(mechanism):
    X, y = make_data(40)
    model = MIDPRegressor(mechanism=mechanism, n_components=20).fit(X, y)
    copies = [model, model, clone(model), pickle.loads(pickle.dumps(model))]
    sketches = [copy.sketch(X, y)[0].tobytes() for copy in copies] + [sketch_in_fork(model, X, y) for _ in range(2)]
    assert len(set(sketches)) == 6
    assert len({tuple(copy.fit(X, y).coef_) for copy in copies}) == 4


def test_secret_projection_is_fresh():
    """Without noise, S y still differs between calls: S has no seed."""
    X, y = make_data(40)
    model = MIDPRegressor(n_components=20)
    assert not np.intersect1d(model.sketch(X, y)[1], model.sketch(X, y)[1]).size
    assert "random_state" not in model.get_params()


# Attacks


def leaky_data(entry):
    """Column 0 is proportional to y but for its first entry, at which y is 0."""
    rng = np.random.default_rng(0)
    y = rng.uniform(-2, 2, 4000)
    y[0] = 0.0
    X = rng.uniform(-1, 1, (4000, 3))
    X[:, 0] = y / 2
    X[0, 0] = entry
    return X, y


def read_entry(model, X, y):
    """Subtract from the projected column what is known of it; the entry and the noise remain."""
    sketch, targets = sketch_quietly(model, X, y)
    square = np.mean((sketch[:, 0] - targets / 2) ** 2) - vars(model).get("scale_", 0.0) ** 2
    return np.sqrt(max(0.0, square))


@pytest.mark.parametrize("entry", [0.4, 0.9])
def test_published_calibration_leaks_an_entry(entry, seeded):
    """The published noise is zero here, and the entry is read off within 10%; the exact noise hides it."""
    X, y = leaky_data(entry)
    model = MIDPRegressor(n_components=1000, epsilon=0.5, calibration="published", max_abs=1.0)
    readings = [read_entry(model, X, y) for _ in range(10)]
    assert np.abs(np.array(readings) / entry - 1).max() < 0.1
    assert model.claimed_.epsilon == 0.5
    closed = [read_entry(clone(model).set_params(calibration="exact"), X, y) for _ in range(50)]
    assert np.mean(np.abs(np.array(closed) / entry - 1) < 0.1) < 0.2


def test_a_true_bound_closes_the_leak():
    """No positive bound on residuals is true of that table, so that the sound calibration keeps its noise."""
    assert least_residual(*leaky_data(0.4)) < 1e-6


def distinguish(model, tables, y, trials):
    """Share of right guesses of the optimal test between two tables, from sketches of each."""
    right = 0
    covariances = []
    for X in tables:
        sketch_quietly(model, X, y)
        A = np.column_stack([X, y])
        scale = vars(model).get("scale_", 0.0)
        covariances.append(A.T @ A + np.diag([scale**2] * X.shape[1] + [0]))
    quadratic = np.linalg.inv(covariances[0]) - np.linalg.inv(covariances[1])
    log_volume = np.linalg.slogdet(covariances[0])[1] - np.linalg.slogdet(covariances[1])[1]
    for truth, X in enumerate(tables):
        for _ in range(trials):
            rows = np.column_stack(sketch_quietly(model, X, y))
            loss = np.einsum("ij,jk,ik->", rows, quadratic, rows) + len(rows) * log_volume
            right += (loss > 0) == truth
    return stats.binomtest(int(right), 2 * trials).proportion_ci(0.998)


def tables_with(entry_a, entry_b, *, leaky):
    rng = np.random.default_rng(1)
    y = rng.uniform(-2, 2, 300)
    y[0] = 0.0
    X = rng.uniform(-1, 1, (300, 2))
    X[:, 0] = y / 2 + (0 if leaky else 0.05) * X[:, 0]
    tables = [X.copy(), X.copy()]
    tables[0][0, 0], tables[1][0, 0] = entry_a, entry_b
    return tables, y


@pytest.mark.parametrize("leaky", [False, True])
def test_optimal_attack_on_a_projection(leaky):
    """The likelihood ratio of all the sketch guesses an entry as well as epsilon allows, not better.

    With the published calibration, and with a bound that is not true, the same attack succeeds.
    """
    tables, y = tables_with(0.1, 1.0, leaky=leaky)
    allowed = (1 + information_delta(0.2)) / 2
    true_bound = min(least_residual(X, y) for X in tables) * (1 - 1e-9)
    for bound in (0.0, true_bound):
        honest = MIDPRegressor(epsilon=0.2, n_components=20, min_residual=bound)
        assert distinguish(honest, tables, y, 200).low <= allowed
    for broken in ({"calibration": "published"}, {"min_residual": 8.0}):
        model = MIDPRegressor(epsilon=0.2, n_components=20, **broken)
        assert not leaky or distinguish(model, tables, y, 200).low > max(allowed, 0.95)


def test_a_true_bound_is_exactly_enough():
    """With the largest true bound the worst entry gets its epsilon bits, and no entry more."""
    X, y = make_data(30, 3)
    bound = least_residual(X, y)
    scale = information_scale(0.9, n_components=20, min_residual=bound)
    assert 0 < scale < 0.95 * information_scale(0.9, n_components=20)
    bits = [gaussian_information(scale=scale, n_components=20, min_residual=r) for r in residuals_by_brute_force(X, y)]
    assert max(bits) == pytest.approx(0.9, abs=1e-6) and min(bits) < 0.88


@pytest.mark.parametrize("broken", [False, True])
def test_audit_of_additive_noise(broken, monkeypatch):
    """No threshold beats the entry's (epsilon, delta); with two thirds of the noise, one does."""
    model = MIDPRegressor(epsilon=0.2, mechanism="additive").fit([[1.0]], [1.0])
    epsilon = 2.5
    delta = gaussian_profile(epsilon, scale=model.scale_, sensitivity=2.0)
    if broken:
        honest = _noise.add_gaussian
        monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: honest(values, scale / 1.5))

    def release(rows):
        return model.sketch(rows, np.ones(len(rows)))[0]

    options = {"n_trials": 400_000, "confidence": 1 - 1e-7, "distinguishers": ["linear"], "rows_are_trials": True}
    found = audit_epsilon(release, [[1.0]], [[-1.0]], delta=delta, **options).epsilon
    assert (found > epsilon) == broken
    assert found > 0.5 * epsilon


def test_audit_of_a_projected_entry():
    """A projected sign is guessed from its known column of S no better than the entry's epsilon allows."""
    n_components, epsilon = 20, 0.2
    scale = information_scale(epsilon, n_components=n_components)
    rng = np.random.default_rng(0)
    S = rng.normal(size=(n_components, 100_000))
    guesses = np.einsum("ij,ij->j", S, S + scale * rng.normal(size=S.shape)) > 0
    wins = stats.binomtest(int(guesses.sum()), guesses.size).proportion_ci(0.998)
    assert wins.low <= (1 + information_delta(epsilon)) / 2
    assert wins.high > 0.5 + 0.3 * information_delta(epsilon)


# Planning


def residuals_by_brute_force(X, y, fit_intercept=False):
    """Yield the residual of each column on all else, less each row."""
    for j in range(X.shape[1]):
        others = np.column_stack([np.delete(X, j, axis=1), np.ones((len(X), int(fit_intercept))), y])
        for i in range(len(X)):
            A, target = np.delete(others, i, axis=0), np.delete(X[:, j], i)
            yield np.linalg.norm(target - A @ np.linalg.lstsq(A, target)[0])


def test_least_residual_matches_brute_force():
    X, y = make_data(25, 3)
    X[4, 1], X[7, 0] = 1.0, -1.0
    for fit_intercept in (False, True):
        expected = min(residuals_by_brute_force(X, y, fit_intercept))
        assert least_residual(X, y, fit_intercept=fit_intercept) == pytest.approx(expected, rel=1e-9)


def relative_errors(model, X, y, repeats):
    least = np.sum((y - LinearRegression(fit_intercept=False).fit(X, y).predict(X)) ** 2)
    return np.array([np.sum((y - model.fit(X, y).predict(X)) ** 2) / least - 1 for _ in range(repeats)])


@pytest.mark.parametrize("n_components", [30, 200])
def test_expected_error_of_a_projection(n_components, seeded):
    """The mean over many releases is the exact expectation, and below the bound from four numbers."""
    X, y = make_data(2000)
    model = MIDPRegressor(n_components=n_components, epsilon=1.0)
    errors = relative_errors(model, X, y, 400)
    expected = projection_expected_error(X, y, n_components=n_components, scale=model.scale_)
    assert abs(errors.mean() - expected) < 5 * errors.std() / np.sqrt(400)
    sizes = {"n_components": n_components, "scale": model.scale_}
    bound = projection_error_bound(n_samples=2000, n_features=4, **sizes, **public_numbers(X, y))
    assert expected <= bound < 2 * expected


def public_numbers(X, y):
    fitted = LinearRegression(fit_intercept=False).fit(X, y).predict(X)
    return {
        "condition_number": np.linalg.cond(X),
        "r": np.sum(fitted**2) / np.sum((y - fitted) ** 2),
        "mean_square": np.mean(X**2),
    }


def test_bound_of_additive_noise():
    """Twenty releases stay below a bound that fails in 1%; without its term for finite n it is what they come to."""
    X, y = make_data(40_000, noise=1.0)
    model = MIDPRegressor(mechanism="additive", epsilon=1.0)
    errors = relative_errors(model, X, y, 20)
    numbers = public_numbers(X, y) | {"n_features": 4, "scale": model.scale_}
    assert errors.max() <= additive_error_bound(n_samples=40_000, **numbers) < 10 * errors.mean()
    assert additive_error_bound(n_samples=10**16, **numbers) == pytest.approx(errors.mean(), rel=0.1)
    assert additive_error_bound(n_samples=9, n_features=4, scale=1.0, **public_numbers(X, y)) == np.inf


def test_expected_error_needs_enough_rows():
    with pytest.raises(ValueError, match="no mean"):
        projection_expected_error(*make_data(20), n_components=5, scale=1.0)


def test_projection_beats_additive_noise():
    """Fewer rows need less noise: at n = 20,000 and 0.5 bits the projection has the smaller error."""
    X, y = make_data(20_000)
    additive, projection = (
        relative_errors(MIDPRegressor(mechanism=mechanism), X, y, 5).mean() for mechanism in ("additive", "projection")
    )
    assert 3 * projection < additive


# Errors and resources


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_components": 41}, "more than the 40 rows"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 64.1}, "epsilon"),
        ({"epsilon": 1e-9}, "too small"),
        ({"max_abs": 0.0}, "max_abs"),
        ({"min_residual": -1.0}, "min_residual"),
        ({"min_residual": np.nan}, "min_residual"),
        ({"mechanism": "laplace"}, "mechanism"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "sketch"])
def test_bad_parameters(options, match, method):
    with pytest.raises(ValueError, match=match):
        getattr(MIDPRegressor(**options), method)(*make_data(40))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("method", ["fit", "sketch"])
def test_data_that_is_not_finite(bad, method):
    X, y = make_data(40)
    for row in (X[3], y[3:4]):
        good, row[0] = row[0], bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            getattr(MIDPRegressor(), method)(X, y)
        row[0] = good


def test_sketch_alone_does_not_fit():
    X, y = make_data(40)
    model = MIDPRegressor()
    model.sketch(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_extreme_epsilons_stay_finite():
    X, y = make_data(100)
    for epsilon in (1e-6, 40.0, 64.0):
        for mechanism in ("projection", "additive"):
            assert np.isfinite(MIDPRegressor(epsilon=epsilon, mechanism=mechanism).fit(X, y).coef_).all()


@pytest.mark.parametrize("mechanism", ["projection", "additive"])
@pytest.mark.parametrize("d", [20, 300])
def test_memory_does_not_grow_with_the_rows(mechanism, d):
    """S in full has at least 32 MB here, and X in float64 48 MB; neither is ever there."""
    n = 6_000_000 // d
    X, y = np.random.default_rng(0).uniform(-1, 1, (n, d)).astype(np.float32), np.zeros(n)
    model = MIDPRegressor(mechanism=mechanism, n_components=200)
    model.fit(X[:300], y[:300])
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6


def test_a_sketch_does_not_relabel_the_coefficients_of_a_fit():
    """Coefficients released under one guarantee are gone when another release takes their place."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (200, 3)), np.arange(200.0)
    model = MIDPRegressor(epsilon=5.0).fit(X, y)
    model.set_params(epsilon=0.1).sketch(X, y)
    assert model.guarantee_.epsilon == 0.1 and "sketch" in model.guarantee_.released
    assert not hasattr(model, "coef_") and not hasattr(model, "intercept_")
    assert "coef_" in model.fit(X, y).guarantee_.released and hasattr(model, "coef_")


def test_a_bound_that_cannot_be_true_is_refused():
    X, y = np.ones((40, 2)), np.ones(40)
    with pytest.raises(ValueError, match="min_residual is more than"):
        MIDPRegressor(min_residual=np.sqrt(39.1)).fit(X, y)
