"""Every sketch: what it prints, how it behaves as an estimator, and what leaves no trace."""

import pickle
import tracemalloc
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import test_attacks_noise
import test_common
import test_release_file
import test_rows
from public import SKETCHES, unlisted
from sketches import ADDITIVE, EVERY, VARIANTS, binomial_sketch, every, with_entries_twice
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import DataDimensionalityWarning, NotFittedError
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from skdprp import (
    DPOPORP,
    DPHistograms,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    PublicScaler,
    _noise,
    iDPSignRP,
    privacy_report,
)
from skdprp.mechanisms.randomised_response import flip_thresholds
from skdprp.sketch import _base
from skdprp.sketch._additive import AdditiveSketch
from skdprp.testing import reproducible_noise

LISTS = {
    "EVERY of tests/sketches.py": EVERY,
    "VARIANTS of tests/sketches.py, by its name in a paper or that of the class": VARIANTS.values(),
    "SKETCHES of tests/test_common.py": test_common.SKETCHES,
    "EXACT of tests/test_rows.py, or DENSE if dense and sparse rows round in two ways": test_rows.EXACT
    + test_rows.DENSE,
    "SIGNS of tests/test_attacks_noise.py, or ADDITIVE": test_attacks_noise.ADDITIVE + test_attacks_noise.SIGNS,
    "SKETCHES of tests/test_release_file.py": test_release_file.SKETCHES,
}


@pytest.mark.parametrize("name", LISTS)
def test_every_sketch_is_listed_where_sketches_are_tested(name):
    assert not unlisted(SKETCHES, LISTS[name]), f"add it to {name}"


def test_every_additive_sketch_is_listed():
    additive = {kind for kind in SKETCHES if issubclass(kind, AdditiveSketch)}
    assert not unlisted(additive, ADDITIVE), "add it to ADDITIVE of tests/sketches.py"


# Under individual DP, and beside a least norm, it is not known what else is hidden.
HIDING = [one for one in EVERY if not isinstance(one, iDPSignRP) and getattr(one, "min_norm", None) is None]


@pytest.mark.parametrize("sketch", HIDING, ids=repr)
def test_how_much_of_a_row_is_hidden_is_stated(sketch):
    sketch = clone(sketch).fit(np.ones((1, 9)))
    assert sketch.guarantee_.hidden_changes > 0, "give hidden_changes to _guarantee"
    assert sketch._mean_squared_loss(1) < np.inf, "fill in _mean_squared_loss, without which max_nonzeros never warns"


@pytest.mark.parametrize("sketch", EVERY, ids=repr)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.longdouble])
def test_other_numbers_are_read_as_float64(sketch, dtype, silenced_noise):
    """Booleans, integers, half and extended precision give the sketch of the same numbers in float64."""
    X = np.random.default_rng(0).integers(0, 2, (5, 9))
    X[:, 0] = 1
    sketch = clone(sketch).fit(X)
    assert np.array_equal(sketch.transform(X.astype(dtype)), sketch.transform(X.astype(np.float64)))


OF_LAPLACE = {"DP-RP-L", "DP-RP-L's signs", "DP-OPORP's signs"}
PURE = {*OF_LAPLACE, *(name for name in VARIANTS if "RR" in name and "least" not in name)}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_published_variant_prints_its_own_guarantee(name):
    """Each named variant is one call away, and prints epsilon, delta, unit, adjacency, release and assumptions."""
    X = np.full((3, 16), 0.5)
    sketch = clone(VARIANTS[name]).fit(X)
    assert sketch.transform(X).shape == (3, 16 if name.startswith("Raw") else 8)
    guarantee = sketch.guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 0.0 if name in PURE else 1e-6), "PURE lists those of delta 0"
    assert guarantee.definition == ("individual DP" if name.startswith("iDP") else "DP")
    assert (
        "\nunit        a bounded change within one row\n" in str(guarantee)
        and max(map(len, str(guarantee).splitlines())) <= 100
    )
    text = " ".join(str(guarantee).split())
    assert ("one coordinate, by at most 1.0" if "SignOPORP-RR" in name else "l1 distance at most 1.0") in text
    assert "anew at each call of transform" in text
    assert "the projection is public and does not depend on the data" in text
    assert "whether a row is refused (too large for float64, or outside an assumed bound)" in text
    assert ("includes the draw" in text) == (name.startswith("Analytic") or name.endswith("least norm"))


@every
def test_threads_change_nothing_but_speed(sketch, monkeypatch, silenced_noise):
    """Two threads give what one gives, under any backend that the caller has chosen."""
    X = np.random.default_rng(0).normal(size=(3000, 9)) + 2
    sketch = clone(sketch).fit(X)
    expected = sketch.transform(X)
    monkeypatch.setattr(_base, "_PARALLEL_ENTRIES", 1)
    assert np.allclose(sketch.set_params(n_jobs=2).transform(X), expected, rtol=1e-12, atol=1e-12)
    with joblib.parallel_config("loky", n_jobs=2, max_nbytes=None):
        released = sketch.set_params(n_jobs=None).transform(X)
    assert np.allclose(released, expected, rtol=1e-12, atol=1e-12)


@every
def test_tables_come_back_as_tables(sketch):
    """Pandas and polars tables, with the names of the sketch's own features."""
    X = pd.DataFrame(np.full((5, 9), 2.0), columns=list("abcdefghi"))
    sketch = clone(sketch).fit(X)
    names = [f"{type(sketch).__name__.lower()}{j}" for j in range(4)]
    assert list(sketch.feature_names_in_) == list("abcdefghi")
    assert list(sketch.get_feature_names_out()) == names
    for output, table in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        released = sketch.set_output(transform=output).transform(X)
        assert isinstance(released, table)
        assert list(released.columns) == names


INDICES = {
    "names": pd.Index(["alice", "bob", "carol", "dan", "eve"], name="patient"),
    "numbers": pd.Index([8314, 17, 17, 3, 99]),
    "times": pd.date_range("2001-02-03", periods=5),
    "several": pd.MultiIndex.from_tuples([("a", i) for i in range(5)]),
}
TABLES = {
    "sketch": lambda sketch: sketch,
    "pipeline": lambda sketch: make_pipeline(PublicScaler((0, 4)), sketch),
    "before a step": lambda sketch: make_pipeline(sketch, StandardScaler()),
    "union": lambda sketch: make_union(sketch, make_pipeline(PublicScaler((0, 4)), clone(sketch))),
    "columns": lambda sketch: make_column_transformer((sketch, list("abcdefgh")), (clone(sketch), list("bcdefghi"))),
}


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("asked", ["set_output", "configuration"])
def test_the_index_of_the_rows_is_not_released(form, index, asked):
    """It may say whose rows they are."""
    X = pd.DataFrame(np.full((5, 9), 2.0), columns=list("abcdefghi"), index=INDICES[index])
    X.attrs = {"source": "the clinic"}
    estimator = TABLES[form](DPOPORP(4, random_state=0))
    with config_context(transform_output="pandas" if asked == "configuration" else "default"):
        estimator = estimator.set_output(transform="pandas") if asked == "set_output" else estimator
        for released in (estimator.fit_transform(X), estimator.transform(X)):
            assert isinstance(released, pd.DataFrame)
            assert released.index.equals(pd.RangeIndex(5))
            assert released.index.name is None and released.attrs == {}
            assert released.notna().all(axis=None) and len(released.columns) in (4, 8)


@pytest.mark.parametrize("index", [[1, 0, 2, 3, 4], [4.0, 1.0, 2.0, 3.0, 0.0]], ids=str)
def test_sketches_that_a_union_would_put_beside_other_rows_are_refused(index):
    """Frames with the same labels are joined by them, in whatever order."""
    X = pd.DataFrame(np.full((5, 9), 2.0), columns=list("abcdefghi"), index=index)
    sketch = DPOPORP(4).fit(X)
    assert sketch.transform(X).shape == (5, 4)
    sketch.set_output(transform="pandas")
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="in another order"):
        sketch.transform(X)
    assert not ledger.entries
    for same in (X.reset_index(drop=True), X.sort_index(), X.iloc[1:4]):
        assert sketch.transform(same).index.equals(pd.RangeIndex(len(same)))


def test_a_report_has_no_total_where_a_union_may_join_sketches_to_other_rows():
    """Frames that have some labels in common are joined there, and there only: rows 3 to 5 had other rows' sketches."""
    X = pd.DataFrame(np.full((6, 9), 2.0), columns=list("abcdefghi"), index=range(3, 9))
    union, rows = make_union(DPOPORP(4), PublicScaler((0, 4))), X.reset_index(drop=True)
    assert len(clone(union).set_output(transform="pandas").fit_transform(X)) == 9
    for container, are_joined in (("pandas", True), ("default", False)):
        model = make_pipeline(clone(union).set_output(transform=container), DPHistograms(bounds=(-9, 9)))
        report = privacy_report(model.fit(rows))
        assert (report.total is None) == are_joined == ("numbered from 0" in str(report))


@every
def test_fit_reads_only_the_shape(sketch):
    """Other values of the same width leave the same fitted state, byte for byte."""
    rng = np.random.default_rng(0)
    first, second = (clone(sketch).fit(X) for X in (rng.normal(size=(3, 9)), np.zeros((7, 9))))
    assert first._fit_name != second._fit_name  # which is drawn
    second._fit_name = first._fit_name
    assert pickle.dumps(vars(first)) == pickle.dumps(vars(second))


def test_nothing_of_an_earlier_fit_is_left():
    """Names of columns would be asked of rows that have none, and a scale would stand for noise that is not drawn."""
    sketch = iDPSignRP(2, random_state=0).fit(pd.DataFrame(np.ones((3, 9)), columns=list("abcdefghi")))
    sketch.set_params(method="rr").fit(np.ones((3, 9))).transform(np.ones((3, 9)))
    assert not hasattr(sketch, "feature_names_in_") and not hasattr(sketch, "scale_")


@every
def test_releasing_leaves_no_trace(sketch):
    """Transform adds nothing to the estimator: its pickle is small, the same as before, and rebuilds the projection."""
    X = np.random.default_rng(0).normal(size=(500, 40)) + 2
    sketch = clone(sketch).fit(X)
    before = pickle.dumps(vars(sketch))
    sketch.transform(X)
    assert pickle.dumps(vars(sketch)) == before
    after = pickle.dumps(sketch)
    restored = pickle.loads(after)
    assert len(after) < 4000 + sketch.__dict__.get("flip_thresholds_", np.empty(0)).nbytes
    assert np.array_equal(restored.projection_.project(X), sketch.projection_.project(X))
    assert restored.guarantee_ == sketch.guarantee_


@every
def test_random_state_draws_the_projection_only(sketch):
    """Equal random_state gives equal projections and other noise; another random_state, another projection."""
    X = np.random.default_rng(0).normal(size=(500, 40)) + 2
    one, two, other = clone(sketch).fit(X), clone(sketch).fit(X), clone(sketch).set_params(random_state=7).fit(X)
    assert np.array_equal(one.projection_.project(X), two.projection_.project(X))
    assert not np.array_equal(one.projection_.project(X), other.projection_.project(X))
    if not isinstance(sketch, iDPSignRP):
        assert not np.array_equal(one.transform(X), two.transform(X))


@every
def test_seeded_noise_marks_the_guarantee(sketch):
    """A release in a seeded block repeats itself and voids the guarantee, until the next fit."""
    X = np.random.default_rng(0).normal(size=(50, 40)) + 2
    sketch = clone(sketch).fit(X)
    released = []
    for _ in range(2):
        with reproducible_noise(5):
            released.append(sketch.transform(X))
    assert np.array_equal(*released)
    assert "seeded: not private" in str(sketch.guarantee_)
    assert "seeded" not in repr(sketch.fit(X).guarantee_)
    with reproducible_noise(5):
        assert "seeded: not private" in repr(sketch.fit(X).guarantee_)


@every
def test_html_shows_the_guarantee(sketch):
    """The representation in a notebook of a fitted sketch holds its guarantee."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    assert repr(sketch.guarantee_) in sketch._repr_html_()


@pytest.mark.parametrize("estimator", [DPOPORP, DPRandomProjection])
def test_sixteen_million_features_fit_in_memory(estimator):
    """A projection of 16 million features takes under 1 GB, where W whole would take 33 GB."""
    p = 16_000_000
    X = sp.csr_array((np.ones(8), np.arange(8) * 1_999_999, [0, 3, 8]), shape=(2, p))
    tracemalloc.start()
    try:
        assert estimator(256, random_state=0).fit(X).transform(X).shape == (2, 256)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sketch", [s for s in EVERY if s.get_params().get("n_repeats") != 2], ids=repr)
def test_more_components_than_features_warn(sketch):
    """A sketch larger than the data warns as scikit-learn's projections do, and is released; the identity does not."""
    with pytest.warns(DataDimensionalityWarning, match="larger than the data"):
        released = clone(sketch).fit_transform(np.full((2, 3), 2.0))
    assert released.shape == (2, 4)
    assert DPRandomProjection(4, projection="identity").fit_transform(np.ones((2, 3))).shape == (2, 3)


@pytest.mark.filterwarnings("ignore:This release has no guarantee:skdprp.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [1e-6, 50.0, 1e4])
@every
def test_extreme_epsilon_is_finite(sketch, epsilon):
    """Tiny and huge epsilon calibrate to finite noise and release finite sketches."""
    X = np.full((3, 9), 2.0)
    sketch = clone(sketch).set_params(epsilon=epsilon).fit(X)
    assert np.isfinite(sketch.transform(X)).all()
    thresholds = getattr(sketch, "flip_thresholds_", flip_thresholds(1.0))
    assert np.all(thresholds[1:] >= 1)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # scikit-learn compares with 1e100
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(8, random_state=0),
        DPOPORP(8, noise="laplace", random_state=0),
        DPRandomProjection(8, projection="very_sparse", density=0.3, random_state=0),
        DPSignRP(7, random_state=0),
        DPSignOPORP(9, n_repeats=3, random_state=0),
    ],
    ids=repr,
)
def test_parameters_of_a_coarse_type_are_calibrated_in_float64(sketch):
    """In half precision the price of sampling would be rounded away, and the noise come out too small."""
    names = {"epsilon", "max_change", "density"} & set(sketch.get_params())
    coarse = {name: np.float16(value) for name, value in {"epsilon": 0.3, "max_change": 0.7, "density": 0.3}.items()}
    fitted = [
        clone(sketch).set_params(**{name: as_type(coarse[name]) for name in names}).fit(np.zeros((1, 20)))
        for as_type in (np.float16, float)
    ]
    for name in ("scale_", "flip_epsilon_", "sensitivity_"):
        half, double = (float(getattr(one, name, 0)) for one in fitted)
        assert half == double


@pytest.fixture
def no_release(monkeypatch):
    """Fail the test if any private randomness is drawn."""

    def drawn(size):
        pytest.fail("noise was drawn")

    monkeypatch.setattr(_noise, "random_bytes", drawn)


@every
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((2, 9), np.nan), "NaN"),
        (np.full((2, 9), np.inf), "infinity"),
        (np.full((2, 9), 1e300), "float64 is too coarse"),
        (np.full((2, 9), 1e18), "float64 is too coarse"),
        (sp.csr_array(np.full((2, 9), 1e300)), "float64 is too coarse"),
        (np.ones((2, 8)), "8 features"),
        (np.ones((0, 9)), "0 sample"),
        (np.ones(9), "1D array"),
    ],
)
def test_rows_outside_the_domain_release_nothing(sketch, X, message, no_release):
    """NaN, infinity, rows too large for float64 and other shapes raise before any noise is drawn."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match=message):
            sketch.transform(X)


@every
@pytest.mark.parametrize("epsilon", [0, -1.0, np.nan])
def test_epsilon_is_positive(sketch, epsilon):
    """An epsilon that is not positive is refused."""
    with pytest.raises(ValueError, match="epsilon"):
        clone(sketch).set_params(epsilon=epsilon).fit(np.ones((1, 9)))


@pytest.mark.parametrize("sketch", [s for s in EVERY if "delta" in s.get_params()], ids=repr)
@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, np.nan])
def test_delta_is_a_probability_below_one(sketch, delta):
    """A delta outside [0, 1) is refused, whether it is used or not."""
    with pytest.raises(ValueError, match="delta"):
        clone(sketch).set_params(delta=delta).fit(np.ones((1, 9)))


@pytest.mark.parametrize("max_change", [0.0, 5e-324, 1e-200, 1e200, np.inf])
@every
def test_max_change_stays_within_float64(sketch, max_change):
    """Changes whose squares or whose noise leave float64 are refused."""
    with pytest.raises(ValueError, match="max_change"):
        clone(sketch).set_params(max_change=max_change).fit(np.ones((1, 9)))


def test_tiny_entries_do_not_escape_the_domain(no_release):
    """A row whose squares underflow is either on the scale of max_change or refused."""
    sketch = DPSignOPORP(1, max_change=1e-100).fit(np.ones((1, 3)))
    with pytest.raises(ValueError, match="float64 is too coarse"):
        sketch.transform(np.full((1, 3), 1e-80))


STORAGE = [
    np.asarray,
    np.asfortranarray,
    sp.csr_array,
    sp.coo_matrix,
    lambda X: sp.csr_array((X.ravel(), np.arange(9), [0, 9]), shape=(1, 9)),
    with_entries_twice,
]


@pytest.mark.parametrize("form", STORAGE)
@pytest.mark.parametrize("row", [[1.0], [-1.0, 0.25, 0.0, 0.25], [0.5] * 9])
@every
def test_the_domain_ends_where_rounding_may_pass_its_margin(sketch, row, form):
    """A row of n numbers is refused where (n + 1) 2^-53 of its l1 norm is more than a quarter of the margin."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    row = np.pad(row, (0, 9 - len(row)))[None]
    margin = 2.0**-10 if sketch.get_params().get("min_norm") is None else 2.0**-16
    largest = 2.0**51 * sketch.max_change * margin / ((np.count_nonzero(row) + 1) * np.abs(row).sum())
    assert sketch.transform(form((1 - 1e-12) * largest * row)).shape == (1, 4)
    with pytest.raises(ValueError, match="float64 is too coarse"):
        sketch.transform(form((1 + 1e-12) * largest * row))


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_no_large_entry_hides_in_a_sum(sketch, dtype, silenced_noise):
    """Entries that cancel are summed exactly, so that nothing between them is lost; a sum too large is refused."""
    sketch, place = clone(sketch).fit(np.ones((1, 9))), (np.array([0, 1, 0]), np.array([0, 3]))
    row = sp.csr_array((np.array([2**60, 1, -(2**60)], dtype), *place), shape=(1, 9))
    assert np.array_equal(sketch.transform(row), sketch.transform(np.eye(9, dtype=dtype)[[1]]))
    row = sp.csr_array((np.array([2**60, 1, -(2**59)], dtype), *place), shape=(1, 9))
    with pytest.raises(ValueError, match="float64 is too coarse"):
        sketch.transform(row)


@pytest.mark.parametrize(
    ("sketch", "message"),
    [
        (DPOPORP(2, delta=0.0), "delta=0"),
        (iDPSignRP(2, delta=0.0), "delta=0"),
        (DPOPORP(2, calibration="classic"), "analytic"),
        (DPRandomProjection(2, calibration="kenthapadi", delta=0.5), "analytic"),
        (DPRandomProjection(2, calibration="kenthapadi_bound"), "gaussian"),
        (DPRandomProjection(2, calibration="kenthapadi_bound", projection="gaussian", adjacency="l2"), "l1"),
        (DPSignOPORP(4, n_repeats=3), "multiple of n_repeats"),
        (DPSignRP(2, min_norm=1.0), "delta > 0"),
        (DPSignRP(2, delta=1e-6, min_norm=1.0, method="rr"), "gaussian"),
        (DPSignRP(2, delta=1e-6, min_norm=1.0, projection="gaussian"), "rr"),
        (DPSignRP(2, min_norm=1.0, projection="gaussian", method="rr"), "delta > 0"),
    ],
    ids=repr,
)
def test_parameters_without_a_guarantee_are_refused(sketch, message):
    """Combinations for which nothing is proved raise at fit, with the way out in the message."""
    with pytest.raises(ValueError, match=message):
        sketch.fit(np.ones((1, 9)))


def test_rows_below_min_norm_release_nothing(no_release):
    """One row below the assumed norm refuses all of them, dense or sparse."""
    sketch, X = binomial_sketch(), np.zeros((2, 1000))
    X[0, 0], X[1, 0] = 2.0, np.nextafter(1.0, 0)
    for rows in (X, sp.csr_array(X), X.astype(np.float64)):
        with pytest.raises(ValueError, match="below min_norm"):
            sketch.transform(rows)


@every
def test_unfitted_sketches_release_nothing(sketch, no_release):
    """Transform before fit is an error."""
    with pytest.raises(NotFittedError):
        clone(sketch).transform(np.ones((1, 9)))


@pytest.mark.parametrize(
    ("sketch", "change"),
    [
        (DPOPORP(2, noise="laplace"), {"noise": "gaussian"}),
        (DPOPORP(2), {"epsilon": 0.1}),
        (VARIANTS["DP-SignRP-RR, least norm"], {"min_norm": 1e-9}),
        (VARIANTS["DP-SignRP-RR, least norm"], {"method": "smooth"}),
        (iDPSignRP(2, projection="oporp"), {"projection": "rademacher"}),
    ],
    ids=repr,
)
def test_parameters_changed_after_fit_release_nothing(sketch, change, no_release):
    """A calibration for other parameters is not used: the guarantee would be false."""
    sketch = clone(sketch).fit(np.ones((1, 9)))
    with pytest.raises(ValueError, match="fit again"):
        sketch.set_params(**change).transform(np.ones((1, 9)))


@every
def test_a_failed_refit_releases_nothing(sketch):
    """After a fit that failed, the parameters of the last good one do not revive it on the new projection."""
    sketch = clone(sketch).fit(np.ones((2, 20)))
    good = sketch.get_params()
    with pytest.raises(ValueError, match=r"epsilon|NaN"):
        sketch.set_params(epsilon=-1.0).fit(np.ones((2, 50)))
    with pytest.raises(ValueError, match="NaN"):
        sketch.set_params(**good).fit(np.full((2, 50), np.nan))
    with pytest.raises(ValueError, match="fit again"):
        sketch.transform(np.ones((2, 50)))
