"""What the sketches refuse, and that nothing is released then."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sketches import EVERY, VARIANTS, binomial_sketch, every, with_entries_twice
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdprp import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, _noise, iDPSignRP


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
        (DPSignRP(2, delta=1e-6), "min_norm"),
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
