"""Private moments: what is released, of tables in all forms, and what is refused."""

import copy
import itertools
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context

from skdprp import DPPCA, DPMoments, _noise, _sums, add_moments, audit_epsilon, compose, moments
from skdprp._sums import CompensatedSum
from skdprp.guarantee import Adjacency
from skdprp.mechanisms import gaussian_profile
from skdprp.moments import Columns, GaussianNoise, rounding_of_moments
from skdprp.sensitivity import moments_sensitivity
from skdprp.testing import reproducible_noise

BOUNDS = (-2.0, 6.0)


def table(n_rows=300, n_features=4, n_targets=1):
    """Rows of which some are longer than 1, and targets of which some are out of bounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) / 2
    return X, np.squeeze(2 + 3 * rng.normal(size=(n_rows, n_targets)), axis=1) if n_targets == 1 else rng.normal(
        size=(n_rows, n_targets)
    )


def clipped(X, y):
    """Rows and targets within their bounds, the latter less the middle of these."""
    low, high = BOUNDS
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), np.clip(y, low, high) - (low + high) / 2


def reached(monkeypatch):
    """Record what reaches the noise, with its scale."""
    seen = []
    monkeypatch.setattr(_noise, "_add", lambda values, scale, rounded: seen.append((values.copy(), scale)))
    return seen


def test_the_moments_are_those_of_clipped_rows_and_targets(silenced_noise):
    X, y = table()
    rows, targets = clipped(X, y)
    moments = DPMoments(target_bounds=BOUNDS).fit(X, y).moments_
    np.testing.assert_allclose(moments.gram, rows.T @ rows, rtol=1e-12)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.cross[:, 0], rows.T @ targets, rtol=1e-11)
    assert moments.n_samples == len(X)


@pytest.mark.parametrize("intercept", [True, False])
def test_several_targets_have_bounds_of_their_own(silenced_noise, intercept):
    X, _ = table()
    Y = np.random.default_rng(1).uniform(-3, 3, (len(X), 2))
    moments = DPMoments(target_bounds=[(-1, 1), (0, 5)], fit_intercept=intercept).fit(X, Y).moments_
    rows, _ = clipped(X, Y[:, 0])
    centers = np.array([0, 2.5]) * intercept
    assert np.array_equal(moments.columns.center, centers)
    np.testing.assert_allclose(moments.cross, rows.T @ (np.clip(Y, [-1, 0], [1, 5]) - centers), rtol=1e-11)
    assert (moments.mean is None) == (not intercept)


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array, pd.DataFrame, np.asfortranarray, lambda X: X[:, ::-1]])
@pytest.mark.parametrize("groups", [None, np.arange(300) // 2])
def test_rows_are_not_written_to(as_given, groups):
    """They are clipped and weighted in copies, and read where they are if neither changes them."""
    X, y = table()
    for factor in (1.0, 1e-3):
        given, targets = as_given(X * factor), y.copy()
        before = given.copy()
        DPMoments(target_bounds=BOUNDS).fit(given, targets, groups=groups)
        assert not np.any(np.asarray(abs(given - before).sum())) and np.array_equal(targets, y)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("as_given", [np.asarray, np.float32, sp.csr_array, pd.DataFrame])
def test_one_entry_that_is_not_finite_is_refused(monkeypatch, entry, as_given):
    """By the norm of its row, in any block; rows whose squares overflow are not."""
    monkeypatch.setattr(moments, "_BLOCK_ENTRIES", 50)
    X, y = table()
    X[17] = 1e30 if as_given is np.float32 else 1e200
    DPMoments(target_bounds=BOUNDS).fit(as_given(X), y)
    for place in (0, 17, 299):
        damaged = X.copy()
        damaged[place, 2] = entry
        with config_context(assume_finite=True), pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
            DPMoments(target_bounds=BOUNDS).fit(as_given(damaged), y)


def test_rows_of_all_lengths_have_a_norm_of_at_most_one_in_all_units():
    """Which the sensitivity rests on, exactly: at the corners of the bounds, and far beyond them."""
    for d, m, intercept in itertools.product([1, 3, 20], [0, 1, 3], [True, False]):
        columns = Columns(d, 0.7, intercept, low=(-1.5,) * m, high=(4.0,) * m)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, d)) * 10.0 ** rng.integers(-3, 200, (200, 1))
        y = rng.choice([-1.5, 4.0, 1e300, -1e300, 0.3], (200, m)) if m else None
        rows = np.hstack(columns.clip(X, y)) * columns.weights
        assert 0.999 < np.linalg.norm(rows, axis=1).max() <= 1 + 2.0**-48


def test_noise_is_calibrated_on_the_exact_profile(monkeypatch):
    """The scale is the least whose profile, of all that is released and rounded, is within delta."""
    X, y = table()
    for adjacency, rows in (("add_remove", 1), ("replace_one", 2)):
        seen = reached(monkeypatch)
        model = DPMoments(epsilon=0.7, delta=1e-5, target_bounds=BOUNDS, adjacency=adjacency).fit(X, y)
        ((values, scale),) = seen
        assert values.shape == (6 * 7 // 2,)
        assert scale == model.scale_
        assert gaussian_profile(0.7, scale=scale, sensitivity=rows**0.5) < 1e-5
        assert gaussian_profile(0.7, scale=scale * (1 - 1e-6), sensitivity=rows**0.5) > 1e-5
        assert model.guarantee_.adjacency == Adjacency(adjacency)
        assert 0.999e-5 < model.guarantee_.profile(0.7) <= 1e-5
    assert DPMoments().fit(X).delta_ == 1 / len(X) ** 2


def test_no_neighbours_are_further_apart_than_the_sensitivity(monkeypatch):
    """What reaches the noise: found near the bound, and never above it."""
    rng = np.random.default_rng(0)
    X, y = table(20)
    for adjacency in ("replace_one", "add_remove"):
        distances = []
        for trial in range(80):
            here, there = X.copy(), X.copy()
            targets = y.copy(), y.copy()
            direction = rng.normal(size=4)
            here[0], targets[0][0] = 5 * direction, 100.0
            if adjacency == "add_remove":
                there[0], targets[1][0] = 0.0, 2.0  # blank but for the constant, which is public
            else:
                # At right angles with the constant counted: the targets at both ends, and the rows almost apart.
                other = -direction if trial % 2 else rng.normal(size=4)
                there[0], targets[1][0] = 5 * other, rng.choice([-100.0, 2.0, 100.0])
            seen = reached(monkeypatch)
            for rows, its_targets in ((here, targets[0]), (there, targets[1])):
                DPMoments(target_bounds=BOUNDS, adjacency=adjacency).fit(rows, its_targets)
            distances.append(np.linalg.norm(seen[0][0] - seen[1][0]))
        bound = moments_sensitivity(adjacency=adjacency)
        assert 0.9 * bound < max(distances) <= bound


def test_the_noise_on_the_diagonal_has_twice_the_variance_of_that_beside_it(monkeypatch):
    """Exactly, of each entry; and in 5,330 draws on the diagonal, and in 5,200 of each row beside it.

    8 standard deviations of an estimated variance are .16 of it.
    """
    zeros, is_diagonal = np.zeros((30, 40)), np.eye(41, dtype=bool)
    with monkeypatch.context() as patch:
        patch.setattr(_noise, "add_gaussian", lambda values, scale: values.fill(scale))
        fitted = DPMoments(delta=1e-3).fit(zeros)
    shares = fitted.moments_.values / fitted.scale_
    np.testing.assert_allclose(shares, np.where(is_diagonal, 1.0, np.sqrt(0.5)), rtol=1e-12)
    with reproducible_noise(0):
        fits = [DPMoments(delta=1e-3).fit(zeros) for _ in range(130)]
    values = np.array([one.moments_.values for one in fits])
    variances = values.var(axis=0, ddof=1) / fits[0].scale_ ** 2
    np.testing.assert_allclose(variances[is_diagonal].mean(), 1.0, rtol=8 * np.sqrt(2 / 5330))
    np.testing.assert_allclose(variances[~is_diagonal].reshape(41, 40).mean(axis=1), 0.5, rtol=8 * np.sqrt(2 / 5200))
    assert np.array_equal(values, values.transpose(0, 2, 1))


# Forms


def forms(X, y):
    dask = pytest.importorskip("dask")
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X).rename(columns=str).assign(y=y)
    parts = dd.from_pandas(frame, npartitions=3)
    dask.config.set(scheduler="synchronous")
    return {
        "columns first": (np.asfortranarray(X), y),
        "list": (X.tolist(), y.tolist()),
        "CSR": (sp.csr_array(X), y),
        "frame": (frame.drop(columns="y"), frame["y"]),
        "dask array": (da.from_array(X, chunks=(70, 3)), da.from_array(y, chunks=110)),
        "many partitions": (da.from_array(X, chunks=(3, 3)), da.from_array(y, chunks=3)),
        "dask frame": (parts.drop(columns="y"), parts["y"]),
    }


def test_tables_in_all_forms_have_the_same_moments(silenced_noise):
    """Up to the rounding that is priced."""
    X, y = table()
    whole = DPMoments(target_bounds=BOUNDS).fit(X, y).moments_
    for name, data in forms(X, y).items():
        moments = DPMoments(target_bounds=BOUNDS).fit(*data).moments_
        assert np.linalg.norm(moments.values - whole.values) <= 2 * rounding_of_moments(len(X), whole.columns), name
        assert moments.n_samples == len(X)
    for cuts in ([100], [1, 2, 299], [7 * i for i in range(1, 40)]):
        chunks = zip(np.split(X, cuts), np.split(y, cuts), strict=True)
        moments = DPMoments(target_bounds=BOUNDS).fit_chunks(chunks).moments_
        assert np.linalg.norm(moments.values - whole.values) <= 2 * rounding_of_moments(len(X), whole.columns)


def test_chunks_without_targets(silenced_noise):
    X, _ = table()
    whole, parts = DPMoments().fit(X), DPMoments().fit_chunks(np.split(X, 3))
    np.testing.assert_allclose(parts.moments_.values, whole.moments_.values, rtol=1e-12)
    assert parts.guarantee_ == whole.guarantee_


def test_chunks_without_rows_change_nothing_wherever_they_are(silenced_noise):
    X, y = table()
    model = DPMoments(target_bounds=BOUNDS)
    whole, none = model.fit(X, y).moments_, (X[:0], y[:0])
    for chunks in ([none, (X, y)], [(X, y), none], [none, none, (X, y), none]):
        assert model.fit_chunks(chunks).moments_ == whole
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.fit_chunks([none, none])


def test_names_of_features_are_those_of_the_first_chunk_and_of_all():
    frame = pd.DataFrame(table()[0], columns=list("abcd"))
    model = DPMoments().fit_chunks([frame[:100], frame[100:]])
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        DPMoments().fit_chunks([frame[:100], frame[100:].rename(columns={"a": "e"})])


def test_float32_is_summed_in_float64(silenced_noise):
    X = table(5000)[0].astype(np.float32)
    exact = DPMoments().fit(X.astype(np.float64)).moments_.values
    np.testing.assert_allclose(DPMoments().fit(X).moments_.values, exact, rtol=1e-13)


@pytest.mark.parametrize("with_groups", [True, False])
def test_rows_that_are_copied_block_by_block_have_the_moments_of_all_at_once(with_groups, silenced_noise, monkeypatch):
    """Of seven rows each: in another order or type, beside other columns, or too long."""
    X, y = table()
    X, groups = X.astype(np.float32).astype(float), np.arange(300) // 2 if with_groups else None
    model = DPMoments(target_bounds=BOUNDS)
    whole = model.fit(X, y, groups=groups).moments_
    monkeypatch.setattr(moments, "rows_per_product", lambda *args, **options: 7)
    for rows in (np.column_stack([X, y])[:, :-1], np.asfortranarray(X), X, X.astype(np.float32)):
        given = rows.copy(order="K")
        found = model.fit(rows, y, groups=groups).moments_
        assert np.linalg.norm(found.values - whole.values) <= 2 * rounding_of_moments(len(X), whole.columns)
        assert np.array_equal(rows, given)


def test_rounding_is_within_what_is_priced():
    """Against exact sums, of rows of very different sizes in many chunks."""
    X = np.random.default_rng(0).normal(size=(2000, 3)) * 10.0 ** np.random.default_rng(1).uniform(-8, 0, (2000, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_noise, "_add", lambda values, scale, rounded: None)
        moments = DPMoments(fit_intercept=False).fit_chunks(np.split(X, 500)).moments_
    rows = np.longdouble(X) / np.maximum(1, np.sqrt((np.longdouble(X) ** 2).sum(axis=1, keepdims=True)))
    error = np.linalg.norm((moments.values - rows.T @ rows).astype(float))
    assert 0 < error < rounding_of_moments(len(X), moments.columns) < 1e-6


@pytest.mark.parametrize("expanded", [1, 1000, 2**18])
def test_sparse_rows_in_several_blocks_and_groups_of_columns_have_the_moments_of_dense_ones(expanded, monkeypatch):
    """Also where rows or columns are empty or full, entries repeat and are in no order."""
    rng = np.random.default_rng(0)
    X = sp.random(500, 600, 0.02, random_state=rng, format="lil")
    X[:, 5], X[7], X[:, 9], X[8] = 0.5, 0.1, 0.0, 0.0
    X = X.tocoo()
    order = rng.permutation(2 * X.nnz)
    data, row, column = (np.tile(values, 2)[order] for values in (X.data, X.row, X.col))
    by_row = np.argsort(row, kind="stable")
    ends = np.searchsorted(row[by_row], np.arange(501))
    unsorted = sp.csr_array((data[by_row], column[by_row], ends), shape=X.shape)
    monkeypatch.setattr(_sums, "_EXPANDED", expanded)
    monkeypatch.setattr(moments, "rows_per_product", lambda *args, **options: 200)
    y = rng.normal(size=(500, 2))
    model = DPMoments(target_bounds=BOUNDS)
    _, _, found, *_ = model._sum([(unsorted, y, None)])
    _, _, exact, *_ = DPMoments(target_bounds=BOUNDS)._sum([(unsorted.toarray(), y, None)])
    assert np.array_equal(found, found.T)
    assert np.linalg.norm(found - exact) <= 500 * (2 * (600 + 16) + 204) * 2.0**-52


def test_noise_is_that_of_the_triangle_packed_row_by_row():
    """One draw for each entry of it, and the same on both sides of the diagonal."""
    for size in (1, 2, 63, 64, 65, 200):
        A = np.random.default_rng(size).normal(size=(size, size))
        A += A.T
        rows, columns = np.triu_indices(size)
        stretch = np.where(rows == columns, 1.0, np.sqrt(2.0))
        packed = A[rows, columns] * stretch
        with reproducible_noise(0):
            _noise.add_gaussian(packed, 3.0)
        with reproducible_noise(0):
            values = GaussianNoise(3.0).release(A)
        assert np.array_equal(values[rows, columns], packed / stretch)
        assert np.array_equal(values, values.T)


def test_a_compensated_sum_keeps_what_each_addition_rounds_off():
    total = CompensatedSum()
    for term in (1.0, *[2.0**-53] * 8, 2.0**60, -(2.0**60), -1.0):
        total.add(np.array([term]))
    assert total.value == 2.0**-50


def test_a_compensated_sum_takes_parts_without_rows_and_writes_to_none():
    """A part without rows is a 0 of no shape, wherever it stands."""
    arrays = [np.arange(6.0).reshape(2, 3), 0.1 * np.arange(6.0).reshape(3, 2).T, np.full((2, 3), 1e-20)]
    for place, parts in itertools.product(range(4), (arrays, arrays[::-1], [arrays[1], arrays[0]])):
        total, given = CompensatedSum(), [part.copy(order="K") for part in parts]
        for part in given:
            part.setflags(write=False)
        for part in [*given[:place], 0.0, *given[place:]]:
            total.add(part)
        assert np.allclose(total.value, sum(parts), rtol=1e-15)
        assert all(map(np.array_equal, parts, given))
    assert CompensatedSum().value == 0.0


# Audits


def epsilon_between_grids(n_samples):
    """An epsilon for which noise for so many rows has another grid than noise for one row less, and what it is of.

    The scales are 10^-13 of each other apart, on two sides of a power of two.
    """

    def scale(epsilon, n):
        model = DPMoments(epsilon=epsilon, delta=0.01, adjacency="add_remove")
        return model._calibration_of((n, 1), float, 0).fitted["scale_"]

    least, most = 0.01, 1.0
    power = 2.0 ** np.ceil(np.log2(scale(most, n_samples)))
    while least < (middle := (least + most) / 2) < most:
        least, most = (middle, most) if scale(middle, n_samples) >= power else (least, middle)
    assert scale(least, n_samples) >= power > scale(least, n_samples - 1)
    return least


def test_an_audit_of_moments_with_a_row_left_out_finds_a_quarter_of_the_noise_and_refutes_nothing(noise_of, seeded):
    """A row that is left out stands for a blank one: noise is that of all places, in its last bits, too."""
    model = DPMoments(epsilon=epsilon_between_grids(3), delta=0.01, adjacency="add_remove")
    X = np.ones((3, 1))
    guarantee = model.fit(X).guarantee_
    audit = partial(audit_epsilon, model, X, X[:2], n_trials=80, confidence=0.999)
    of_line = {"delta": guarantee.profile(0.25), "distinguishers": ["likelihood"]}
    for options in (of_line, {"distinguishers": ["lowest bits"]}):
        assert not audit(**options).exceeds(guarantee)
    noise_of(0.25)
    assert audit(**of_line).exceeds(guarantee)


# Sums of releases


def test_released_moments_add_up():
    X, y = table()
    parts = [
        DPMoments(epsilon=e, delta=1e-6, target_bounds=BOUNDS).fit(X[half], y[half])
        for e, half in ((0.5, slice(100)), (1.0, slice(100, None)))
    ]
    both = add_moments(*(part.moments_ for part in parts))
    assert both.n_samples == len(X)
    assert both.noise.scale == pytest.approx(np.hypot(parts[0].scale_, parts[1].scale_))
    np.testing.assert_array_equal(both.values, parts[0].moments_.values + parts[1].moments_.values)
    assert both.guarantee == compose(*(part.guarantee_ for part in parts))
    disjoint = add_moments(*(part.moments_ for part in parts), disjoint=True)
    assert disjoint.guarantee.epsilon == 1.0


def test_moments_of_different_columns_do_not_add_up():
    X, y = table()
    here = DPMoments(target_bounds=BOUNDS).fit(X, y).moments_
    for other in (DPMoments().fit(X), DPMoments(target_bounds=(0, 1)).fit(X, y), DPMoments(max_norm=2.0).fit(X)):
        with pytest.raises(ValueError, match="same columns and bounds"):
            add_moments(here, other.moments_)
    for same in (here, copy.deepcopy(here), pickle.loads(pickle.dumps(here))):
        with pytest.raises(ValueError, match="added twice"):
            add_moments(here, same)
    with pytest.raises(ValueError, match="at least one"):
        add_moments()
    with pytest.raises(TypeError, match="not int"):
        add_moments(here, 5)


def test_a_release_that_is_in_two_sums_is_refused():
    """Its noise was counted as two draws: of ``2 a + b`` the scale is sqrt(5) of each, and sqrt(3) was stated."""
    a, b, c, d = (DPMoments(delta=1e-6).fit(np.eye(3)).moments_ for _ in range(4))
    both, alone = add_moments(a, b), add_moments(a)
    for again in (copy.deepcopy(both), pickle.loads(pickle.dumps(both)), DPPCA().fit_moments(both).moments_):
        in_other_order = replace(a, values=a.values.astype(a.values.dtype.newbyteorder()))
        for one in (a, b, add_moments(b, c), add_moments(b, a), alone, add_moments(alone, c), both, in_other_order):
            with pytest.raises(ValueError, match="added twice, alone or within sums"):
                add_moments(again, one)
    together = add_moments(both, add_moments(c, d))
    assert together.n_samples == 12 and len(together.releases) == 4
    assert together.noise.scale == pytest.approx(2 * a.noise.scale)
    assert together != add_moments(c, d) and both == copy.deepcopy(both)
    assert together.releases == add_moments(d, c, b, a).releases


# Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_bounds": (1, 0)}, "low below high"),
        ({"target_bounds": (0, np.inf)}, "finite"),
        ({"target_bounds": (0, np.nan)}, "finite"),
        ({"target_bounds": (-1e308, 1e308)}, "finite"),
        ({"target_bounds": (0, 1e-60)}, "too close or too far"),
        ({"target_bounds": (-1e60, 1e60)}, "too close or too far"),
        ({"target_bounds": (0, 1e60), "fit_intercept": False}, "too close or too far"),
        ({"target_bounds": (0, 1, 2)}, "low, high"),
        ({"target_bounds": [(0, 1), (0, 1)]}, "one pair for each of the 1 targets"),
        ({"target_bounds": ("a", "b")}, "target_bounds"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"max_norm": 0}, "max_norm"),
        ({"adjacency": "l2"}, "adjacency"),
        ({"epsilon": 1e-12}, "too small"),
    ],
)
def test_what_has_no_guarantee_is_refused(options, message):
    X, y = table(20)
    model = DPMoments(**{"target_bounds": BOUNDS} | options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "moments_")


def test_a_chunk_that_is_refused_releases_nothing():
    X, y = table(20)
    broken = X.copy()
    broken[3, 1] = np.nan
    model = DPMoments(target_bounds=BOUNDS)
    with pytest.raises(ValueError, match="NaN"):
        model.fit_chunks([(X, y), (broken, y)])
    with pytest.raises(ValueError, match="no rows"):
        model.fit_chunks([])
    with pytest.raises(ValueError, match="different numbers of targets"):
        model.fit_chunks([(X, y), (X, np.stack([y, y], axis=1))])
    assert vars(model) == vars(DPMoments(target_bounds=BOUNDS))


def test_lazy_rows_need_lazy_targets():
    da = pytest.importorskip("dask.array")
    X, y = table()
    with pytest.raises(TypeError, match="y or groups is not"):
        DPMoments(target_bounds=BOUNDS).fit(da.from_array(X), y)


def test_a_pickle_has_the_release():
    model = DPMoments(target_bounds=BOUNDS).fit(*table())
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.moments_.values, model.moments_.values)
    assert copy.moments_.guarantee == model.guarantee_ == model.moments_.guarantee
