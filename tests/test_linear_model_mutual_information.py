"""MIDPRegressor: its releases, what they may carry, and what it refuses."""

import os
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge

from skdprp import MIDPRegressor, PrivacyWarning
from skdprp.guarantee import Adjacency, Definition
from skdprp.linear_model import _sketched_least_squares
from skdprp.testing import reproducible_noise


def make_data(n=3000, d=4, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ np.linspace(1, -1, d) + noise * rng.normal(size=n)


def test_residual_of_the_published_calibration():
    X = np.array([[3.0, 0.5, 0.0], [0.5, -1.0, 0.2], [-0.25, 0.5, 0.1]])
    expected = np.sqrt(0.1**2)
    for table in (X, sp.csr_array(X), X.astype(np.float32)):
        assert _sketched_least_squares.column_residual(table, 1.0) == pytest.approx(expected)
    assert _sketched_least_squares.column_residual(X[:, :2], 1.0) == pytest.approx(np.sqrt(0.25 + 0.0625))


# The release


@pytest.mark.parametrize("wide", [False, True])
def test_projection_has_its_distribution(wide, seeded):
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


@pytest.mark.parametrize("n_components", [6, 40])
def test_no_bit_of_what_gets_no_noise_depends_on_an_entry(n_components):
    """S 1 and S y, by triangle and by blocks of S."""
    X, y = make_data(60, 5)
    model, released = MIDPRegressor(n_components=n_components, fit_intercept=True), set()
    for rows in (X, -X, np.zeros_like(X), np.ones_like(X), sp.csr_array(X)):
        with reproducible_noise(0):
            sketch, targets = model.sketch(rows, y)
        released.add((sketch[:, -1].tobytes(), targets.tobytes()))
    assert len(released) == 1


def test_the_columns_of_a_projection_belong_together(seeded):
    """The rows of all columns, those that are computed by themselves too, have one Gram matrix as covariance."""
    X, y = make_data(60, 3)
    X[:, 0] += 0.5
    model = MIDPRegressor(n_components=40, epsilon=60.0, fit_intercept=True)
    rows = np.vstack([np.column_stack(model.sketch(X, y)) for _ in range(500)])
    A = np.column_stack([np.clip(X, -1, 1), np.ones(60), y])
    normal = rows @ np.linalg.inv(np.linalg.cholesky(A.T @ A)).T
    assert np.allclose(normal.T @ normal / len(rows), np.eye(5), atol=6 * np.sqrt(2 / len(rows)))


def test_additive_release_has_its_distribution(seeded):
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
    assert (model.guarantee_.epsilon, model.guarantee_.definition) == (2.0, Definition.MI_DP)
    assert model.guarantee_.adjacency == Adjacency("entry", 1.0) and model.guarantee_.seeded


@pytest.mark.parametrize(("mechanism", "factor"), [("projection", 1), ("additive", 20_000)])
def test_noise_acts_like_ridge(mechanism, factor, seeded):
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
    assert (model.guarantee_.epsilon, model.guarantee_.definition) == (0.2, Definition.MI_DP)
    assert model.guarantee_.adjacency == Adjacency("entry", 1.0) and not model.guarantee_.seeded
    text = " ".join(str(model.guarantee_).split())
    assert "y is not protected" in text and "(0, 0.514)-DP" in text
    assert ("(5.049, 1e-05)-DP of one entry" in text) == (mechanism == "additive")
    assert not hasattr(model, "claimed_") and hasattr(model, "n_components_") == (mechanism == "projection")


@pytest.mark.parametrize(("fit_intercept", "constant"), [(False, ""), (True, " and the constant")])
def test_a_bound_on_residuals_is_an_assumption(fit_intercept, constant):
    X, y = make_data()
    model = MIDPRegressor(n_components=100, min_residual=5.0, fit_intercept=fit_intercept).fit(X, y)
    assert model.scale_ == pytest.approx(np.sqrt(75))
    residual = f"the residual of each column on the other columns and y{constant}, less any row"
    assert f"{residual}, is at least min_residual=5.0" in " ".join(str(model.guarantee_).split())


def test_published_calibration_has_no_guarantee():
    X, y = make_data()
    model = MIDPRegressor(calibration="published")
    with pytest.warns(PrivacyWarning, match="inf-MI-DP"):
        model.fit(X, y)
    assert model.guarantee_.epsilon == np.inf and model.claimed_.epsilon == 0.5
    assert model.claimed_.definition is Definition.CLAIMED_MI_DP and not hasattr(model, "scale_")
    model.set_params(calibration="exact").fit(X, y)
    assert model.guarantee_.epsilon == 0.5 and not hasattr(model, "claimed_")
    MIDPRegressor(calibration="published", mechanism="additive").fit(X, y)


@pytest.mark.parametrize("options", [{}, {"mechanism": "additive"}, {"min_residual": 3.0, "fit_intercept": True}])
def test_state_is_public_or_released(options):
    """Two data sets of one shape: everything but coefficients is equal, and nothing else is kept."""
    states = []
    for seed in range(2):
        model = pickle.loads(pickle.dumps(MIDPRegressor(**options).fit(*make_data(seed=seed))))
        released = ("coef_", "intercept_", "_fit_name")  # of which the last follows from the others
        states.append({name: value for name, value in vars(model).items() if name not in released})
    assert states[0] == states[1]
    assert set(states[0]) - set(MIDPRegressor().get_params()) <= {
        "_fitted_max_abs",
        "scale_",
        "n_components_",
        "guarantee_",
        *("_stated_guarantee", "_routed_in", "_fitted_behind"),
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
    """S in full has at least 16 MB here, and X in float64 24 MB; neither is ever there."""
    n = 3_000_000 // d
    X, y = 2 * np.random.default_rng(0).random((n, d), dtype=np.float32) - 1, np.zeros(n)
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
