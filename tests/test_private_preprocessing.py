"""DPBinner and DPScaler: bins and ranges that follow from private histograms, and pipelines that begin with them."""

import pickle
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from many_fits import release_alone
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from skdprp import (
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPRidge,
    DPScaler,
    DPSearchCV,
    PrivacyLedger,
    PublicBinner,
    _noise,
    audit_epsilon,
    compose,
    privacy_report,
    set_budget,
)
from skdprp.mechanisms import thresholded_counts_profile
from skdprp.preprocessing._private_binner import _roundest

SURE = {"epsilon": 50.0, "delta": 0.1}


def table(n_rows=4000):
    """Numbers, one of them mostly zero, some missing; and names, some rare."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n_rows), "income": rng.lognormal(10, 1, n_rows)})
    frame["gain"] = np.where(rng.random(n_rows) < 0.8, 0.0, frame["income"] / 7)
    frame["town"] = rng.choice(["York", "Hull", "Leeds"], n_rows, p=[0.6, 0.3, 0.1])
    frame.loc[::7, "income"] = np.nan
    frame.loc[::5, "town"] = None
    frame.loc[3, "town"] = "Atlantis"
    return frame


@pytest.mark.parametrize("estimator", [DPHistograms(), DPBinner(4), DPScaler()], ids=repr)
@pytest.mark.parametrize("columns", [["age", "income"], ["age", "income", "gain", "town"]])
def test_a_printed_guarantee_has_the_numbers_of_its_profile(estimator, columns):
    """Recomputed from them delta is what is printed, but for what sampling costs and for their six digits."""
    X = table()[columns[: 2 if isinstance(estimator, DPScaler) else None]]
    guarantee = clone(estimator).set_params(delta=1e-6).fit(X).guarantee_
    numbers = re.search(
        r"scale (\S+), sensitivity ([\d.]+)(?:, unlisted .* of (\d) .* above (\S+))?$", guarantee.mechanism
    )
    scale, sensitivity, n_columns, threshold = (float(number or "inf") for number in numbers.groups())
    assert sensitivity >= guarantee.loss.mu * scale * (1 - 1e-12)
    assert (threshold < np.inf) == ("town" in X)
    known = {"scale": scale, "sensitivity": sensitivity, "threshold": threshold}
    n_columns = int(n_columns) if "town" in X else 1
    assert thresholded_counts_profile(1.0, n_columns=n_columns, **known) == pytest.approx(1e-6, rel=0.05)


# Bins


def test_without_noise_bins_are_equally_filled(silenced_noise):
    X = np.random.default_rng(0).normal(size=(10_000, 3)) * [1, 100, 1e-3] + [0, 5, 0]
    counts = np.asarray(DPBinner(10, sparse_output=False, **SURE).fit_transform(X)).sum(axis=0).reshape(3, 11)
    assert (counts[:, -1] == 0).all()
    assert np.abs(counts[:, :10] - 1000).max() < 150


def test_a_value_that_fills_bins_has_one_for_itself(silenced_noise):
    frame = table()
    binner = DPBinner(8, **SURE).fit(frame)
    names = [name for name in binner.get_feature_names_out() if name.startswith("gain")]
    assert names[0] == "gain_(-inf, 0]" and names[1].startswith("gain_(0, ") and names[-1] == "gain_unused_nan"
    rows = binner.transform(frame).toarray()[:, list(binner.get_feature_names_out()).index("gain_(-inf, 0]")]
    assert np.array_equal(rows, frame["gain"] == 0)


def test_each_row_has_a_single_one_for_each_column():
    """Missing values, names that nobody has seen and numbers beyond all others included: its norm is public."""
    frame = table()
    binner = DPBinner(delta=1e-6).fit(frame)
    later = frame.assign(age=[1e308, -1e308, np.nan, 0.0] * 1000, town=["Eboracum", None, 3, True] * 1000)
    for rows in (frame, later):
        encoded = binner.transform(rows)
        assert encoded.shape[1] == binner.n_bins_.sum() == len(binner.get_feature_names_out())
        norms = np.sqrt(encoded.multiply(encoded).sum(axis=1))
        assert np.array_equal(encoded.sum(axis=1), np.full(4000, 4.0)) and (norms == binner.max_norm_).all()
        assert np.isin(encoded.data, 1.0).all()
    names = binner.get_feature_names_out().tolist()
    found = binner.transform(later[:4]).toarray()[:, names.index("town_infrequent")]
    assert found.tolist() == [1, 0, 1, 1]
    ordinal = binner.set_params(encode="ordinal").fit(frame)
    assert np.linalg.norm(ordinal.transform(later), axis=1).max() <= ordinal.max_norm_


def test_bins_are_those_of_a_public_binner_with_the_released_edges():
    frame = table()[["age", "income", "gain"]]
    binner = DPBinner(6, delta=1e-6, sparse_output=False).fit(frame)
    public = PublicBinner(edges=list(binner.bin_edges_), sparse_output=False).fit(frame)
    is_used = [name.endswith("_nan") or "unused" not in name for name in binner.get_feature_names_out()]
    assert np.array_equal(binner.transform(frame)[:, is_used], public.transform(frame))
    assert not binner.transform(frame)[:, np.logical_not(is_used)].any()


def test_missing_values_have_a_bin_where_noise_tells_that_there_are_some():
    """Elsewhere they go where the median is, or the most frequent category: a weight of no row is noise alone."""
    frame = table(20_000)
    whole = frame.assign(income=frame["income"].fillna(20_000.0), town=frame["town"].fillna("York"))
    empty = pd.DataFrame([[None] * 4], columns=frame.columns).astype(frame.dtypes.replace("int64", "float64"))
    for encode in ("onehot", "ordinal"):
        binner = DPBinner(8, encode=encode, sparse_output=False, delta=1e-6)
        some, none = clone(binner).fit(frame), clone(binner).fit(whole)
        assert (some.missing_bins_ == some.n_bins_ - 1).tolist() == [False, True, False, True]
        assert (none.missing_bins_ < none.n_bins_ - 2).all()
        middle = pd.DataFrame({name: [none.histograms_.quantile(name, 0.5)] for name in ("age", "income", "gain")})
        middle["town"] = "York"
        assert np.array_equal(none.transform(empty), none.transform(middle))
        own, taken = some.transform(empty)[0], none.transform(empty)[0]
        if encode == "ordinal":
            assert own[[1, 3]].tolist() == [8, 21] and taken[[1, 3]].tolist() == none.missing_bins_[[1, 3]].tolist()
        else:
            names = some.get_feature_names_out()
            assert set(names[own == 1]) >= {"income_nan", "town_nan"}
            assert not {"income_nan", "town_nan"} & set(none.get_feature_names_out())
            assert not taken[[name.endswith("unused_nan") for name in none.get_feature_names_out()]].any()
    listed = DPBinner(categories={"town": ["York", "Hull", "Leeds"]}, delta=1e-6).fit(whole)
    assert listed.missing_bins_[-1] == 4 == listed.n_bins_[-1] - 1  # nothing is released of it


@pytest.mark.parametrize("encode", ["onehot", "ordinal"])
def test_no_row_and_no_noise_decides_how_many_columns_come_out(encode):
    """A model that follows is calibrated by their number: it must be known before the release."""
    constant = table().assign(age=40.0, gain=np.nan, town="York")
    for rows in (table(), constant, table(50)):
        for epsilon in (0.1, 1.0, 30.0):
            binner = DPBinner(7, max_categories=2, encode=encode, epsilon=epsilon, delta=1e-6).fit(rows)
            assert binner.n_bins_.tolist() == [8, 8, 8, 4]
            n_columns = 4 if encode == "ordinal" else 28
            assert binner.transform(rows).shape[1] == len(binner.get_feature_names_out()) == n_columns
            assert binner.max_norm_ == (np.sqrt(7**2 * 3 + 3**2) if encode == "ordinal" else 2.0)


def test_values_that_fill_bins_make_no_more_of_them_than_there_may_be(silenced_noise):
    """Each of them begins and ends a bin."""
    values = np.concatenate([np.repeat([3.0, 5.0, 9.0], 2000), np.linspace(0, 20, 4000)])[:, None]
    for n_bins in (1, 2, 3, 4, 6):
        assert len(DPBinner(n_bins, **SURE).fit(values).bin_edges_[0]) - 1 <= n_bins


def test_the_most_frequent_categories_have_bins(silenced_noise):
    names = pd.DataFrame({"town": np.repeat(["York", "Bath", "Hull", "Ely"], [900, 3000, 2000, 400])})
    binner = DPBinner(max_categories=2, **SURE).fit(names)
    assert binner.categories_ == [("Bath", "Hull")]
    assert binner.transform(names).sum(axis=0).tolist() == [3000, 2000, 1300, 0]


def test_a_name_of_one_row_has_no_bin():
    binner = DPBinner(delta=1e-12).fit(table())
    assert "Atlantis" not in binner.categories_[3] and set(binner.categories_[3]) >= {"York", "Hull"}
    assert binner.categories_[:3] == [None] * 3 and binner.bin_edges_[3] is None


def test_there_are_fewer_bins_where_noise_would_decide(silenced_noise):
    """Noise is taken off here, and its standard deviation counted on all the same."""
    X = np.random.default_rng(0).normal(size=(3000, 1))
    fits = [DPBinner(30, epsilon=epsilon, delta=1e-6).fit(X) for epsilon in (0.01, 0.1, 0.5, 2, 50)]
    counts = [len(fit.bin_edges_[0]) - 1 for fit in fits]
    assert counts == sorted(counts) and counts[0] == 1 and 3 < counts[2] < 30 and counts[-1] == 30
    fitted = DPBinner(30, epsilon=0.5, delta=1e-6).fit(X)
    filled = np.asarray(fitted.transform(X).sum(axis=0)).ravel()[: counts[2]]
    assert filled.min() > 2 * fitted.histograms_.columns[0].deviation


def test_a_table_of_few_rows_and_one_of_constants_have_one_bin_a_column():
    """And one for missing values."""
    for binner in (DPBinner().fit(np.arange(10.0)[:, None]), DPBinner(delta=1e-6).fit(np.full((50_000, 1), 7.0))):
        assert binner.bin_edges_[0].tolist() == [-np.inf, np.inf]


@given(st.floats(-1e9, 1e9), st.floats(0, 1e6), st.floats(0, 1e6))
def test_edges_are_the_roundest_that_would_do(low, left, right):
    middle = low + left
    high = middle + right
    number = _roundest(low, middle, high)
    assert low <= number <= high
    fewer = next(digits for digits in range(17) if number == 0 or float(f"{number:.{digits}e}") == number)
    for digits in range(fewer):
        assert not any(low <= float(f"{one:.{digits}e}") <= high for one in (low, middle, high))


def test_edges_between_whole_numbers_are_whole(silenced_noise):
    ages = np.repeat(np.arange(20.0, 60.0), 500)[:, None]
    edges = DPBinner(8, epsilon=2.0, delta=1e-6).fit(ages).bin_edges_[0][1:-1]
    assert np.array_equal(edges, np.rint(edges))


def test_rows_are_treated_one_by_one_in_every_form():
    frame = table(300)
    binner = DPBinner(6, sparse_output=False, delta=1e-6, epsilon=30).fit(frame)
    expected = binner.transform(frame)
    forms = {
        "nullable": frame.astype({"age": "Int64", "income": "Float64", "town": "string"}),
        "categories": frame.astype({"town": "category"}),
        "polars": pl.from_pandas(frame),
        "sparse": frame.assign(gain=pd.arrays.SparseArray(frame["gain"], fill_value=0.0)),
    }
    for name, form in forms.items():
        assert np.array_equal(binner.transform(form), expected), name
    order = np.random.default_rng(0).permutation(300)
    assert np.array_equal(binner.transform(frame.iloc[order]), expected[order])
    assert np.array_equal(np.vstack([binner.transform(frame[i : i + 1]) for i in range(20)]), expected[:20])
    wrapped = binner.set_output(transform="pandas").transform(frame)
    assert np.array_equal(wrapped, expected) and list(wrapped) == binner.get_feature_names_out().tolist()
    numbers = frame[["age", "gain"]].to_numpy()
    plain = DPBinner(6, delta=1e-6).fit(numbers)
    assert (plain.transform(sp.csr_array(numbers)) != plain.transform(numbers)).nnz == 0
    assert plain.get_feature_names_out()[-1] == "x1_unused_nan"


def test_names_that_look_alike_are_quoted():
    frame = pd.DataFrame({"c": ["nan", "1"] * 500})
    names = DPBinner(categories={"c": ["nan", "1", 1]}, epsilon=1.0)
    binner = names.fit(frame.assign(age=1.0))
    assert binner.get_feature_names_out()[:5].tolist() == ["c_'nan'", "c_'1'", "c_1", "c_infrequent", "c_nan"]


def test_listed_categories_cost_nothing():
    frame = table()
    listed = {"town": ["York", "Hull"]}
    without, beside = DPBinner(delta=1e-6).fit(frame.drop(columns="town")), DPBinner(categories=listed, delta=1e-6)
    assert beside.fit(frame).scale_ == without.scale_ and beside.threshold_ == float("inf")
    assert beside.categories_[3] == ("York", "Hull")
    with pytest.raises(ValueError, match="nothing is to be counted"):
        beside.fit(frame[["town"]])


def test_bins_follow_from_histograms_that_were_released():
    frame = table()
    release = DPHistograms(epsilon=3.0, delta=1e-6).fit(frame)
    with PrivacyLedger() as ledger:
        binner = DPBinner(5).fit_histograms(release.histograms_)
        scaler = DPScaler().fit_histograms(DPHistograms(delta=1e-6).fit(frame[["age"]]).histograms_)
    assert len(ledger.entries) == 1  # the histograms of one column
    assert binner.guarantee_.epsilon == 3.0 and binner.n_features_in_ == 4
    assert binner.transform(frame).shape == (4000, binner.n_bins_.sum())
    assert scaler.feature_names_in_.tolist() == ["age"]
    with pytest.raises(ValueError, match="columns of categories"):
        scaler.fit_histograms(release.histograms_)
    with pytest.raises(TypeError, match="Expected Histograms"):
        binner.fit_histograms(release)


@pytest.mark.parametrize("kind", [DPBinner, DPScaler])
def test_no_bound_is_read_without_noise(kind, monkeypatch):
    """With other counts behind the same released numbers a fit learns the same: of the rows it reads nothing else."""
    numbers = [np.random.default_rng(0).normal(size=(500, 2)), np.full((500, 2), 1e6)]
    released = np.random.default_rng(1).normal(1000, 300, 10**5)

    def replaced(values, scale):
        values[...] = released[: values.size]

    monkeypatch.setattr(_noise, "add_gaussian", replaced)
    fits = [kind(delta=1e-6).fit(X) for X in numbers]
    states = [
        {name: value for name, value in vars(fit).items() if isinstance(value, np.ndarray | list | tuple)}
        for fit in fits
    ]
    assert states[0].keys() == states[1].keys() and states[0]
    for name in states[0]:
        for one, other in zip(states[0][name], states[1][name], strict=True):
            np.testing.assert_array_equal(one, other)


def test_binners_are_copied_with_all_that_they_learned():
    frame = table()
    binner = DPBinner(delta=1e-6).fit(frame)
    again = pickle.loads(pickle.dumps(binner))
    assert (again.transform(frame) != binner.transform(frame)).nnz == 0
    assert not hasattr(clone(binner), "bin_edges_") and "bin" in binner._repr_html_()


def test_partitions_are_transformed_lazily():
    dask = pytest.importorskip("dask.dataframe")
    frame = table()
    lazy = dask.from_pandas(frame, npartitions=3)
    binner = DPBinner(6, delta=1e-6).fit(lazy)
    assert (binner.transform(lazy).compute() != binner.transform(frame)).nnz == 0


@pytest.mark.parametrize("change", [{"age": [np.inf]}, {"town": [(1, 2)]}, {"age": ["a secret"]}, {"more": [1.0]}])
def test_rows_that_cannot_be_transformed_are_refused_in_words_that_tell_nothing(change):
    frame = table()
    binner = DPBinner(delta=1e-6).fit(frame)
    with pytest.raises((ValueError, TypeError)) as caught:
        binner.transform(frame[:1].assign(**change))
    assert "secret" not in str(caught.value) and caught.value.__context__ is None


# Scales


def test_without_noise_ranges_are_quantiles_and_gaps_are_filled_by_medians(silenced_noise):
    X = np.random.default_rng(0).normal(size=(20_000, 2)) * [1, 1000] + [50, 0]
    X[::3, 1] = np.nan
    scaler = DPScaler((0.05, 0.95), feature_range=(-1, 1), **SURE).fit(X)
    expected = np.nanquantile(X, [0.05, 0.95], axis=0).T
    np.testing.assert_allclose(scaler.bounds_, expected, rtol=0.01)
    np.testing.assert_allclose(scaler.fill_, np.nanmedian(X, axis=0), rtol=0.01, atol=10)
    out = scaler.transform(X)
    assert out.min() == -1 and out.max() == 1 and np.linalg.norm(out, axis=1).max() <= scaler.max_norm_ == 2**0.5
    assert np.unique(out[::3, 1]).size == 1
    short = scaler.transform(X.astype(np.float32))
    assert short.dtype == np.float32 and np.abs(short).max() <= 1


def test_columns_that_are_constant_have_a_range():
    X = np.column_stack([np.zeros(20_000), np.full(20_000, 7.0), np.full(20_000, -1e6)])
    scaler = DPScaler(delta=1e-6).fit(X)
    assert np.isfinite(scaler.transform(X)).all() and (np.diff(scaler.bounds_) > 0).all()


def test_a_range_far_from_the_noise_is_found(seeded):
    X = np.tile(np.arange(1990.0, 2020.0), 2000)[:, None]
    low, high = DPScaler(delta=1e-6).fit(X).bounds_[0]
    assert 1985 <= low <= 1995 and 2014 <= high <= 2030


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"quantiles": (0.5, 0.1)}, [[1.0]], "low and high exchanged"),
        ({"quantiles": (0.5, 1.1)}, [[1.0]], "two levels from 0 to 1"),
        ({"feature_range": (0, 0)}, [[1.0]], "low below high"),
        ({}, pd.DataFrame({"a": ["x"]}), "columns of categories"),
        ({}, [["x"]], "text where numbers should be"),
    ],
)
def test_what_cannot_be_scaled_is_refused_before_anything_is_released(parameters, X, message):
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match=message):
        DPScaler(**parameters).fit(X)
    assert not ledger.entries


# Pipelines


def labels(frame):
    return np.where(frame["age"] > 50, "yes", "no")


def classifier(**parameters):
    return AMPClassifier(max_norm=2.0, delta=1e-6, classes=["no", "yes"], **parameters)


def test_a_pipeline_has_one_total_and_the_ledger_agrees():
    frame = table()
    with PrivacyLedger() as ledger:
        pipe = make_pipeline(DPBinner(epsilon=0.5, delta=1e-6), classifier(epsilon=1.0)).fit(frame, labels(frame))
    report = privacy_report(pipe)
    assert report.total.epsilon == compose(*(step.guarantee_ for step in pipe)).epsilon < 1.5
    assert [entry.guarantee for entry in ledger.entries] == [step.guarantee_ for step in pipe]
    assert ledger.total()[0].guarantee.epsilon == pytest.approx(report.total.epsilon)
    assert not report.not_covered


def test_two_binners_side_by_side_add_up_in_squares():
    frame = table()[["age", "gain"]]
    steps = [("a", DPBinner(epsilon=0.5, delta=1e-6), ["age"]), ("b", DPBinner(epsilon=0.5, delta=1e-6), ["gain"])]
    report = privacy_report(ColumnTransformer(steps, sparse_threshold=0).fit(frame))
    assert 0.5 < report.private.epsilon < 0.8 and report.private.method == "closed form"


def test_private_bins_before_a_public_model_are_not_covered():
    frame = table()
    report = privacy_report(make_pipeline(DPBinner(delta=1e-6), LogisticRegression()).fit(frame, labels(frame)))
    assert report.total is None and report.steps[-1].status == "not covered"


def test_bins_that_are_found_without_noise_are_not_covered():
    X = table()[["age", "gain"]]
    leaky = make_pipeline(KBinsDiscretizer(strategy="uniform"), classifier())
    report = privacy_report(leaky.fit(X, labels(X)))
    assert report.total is None and "use PublicBinner" in report.steps[0].remark


def test_searches_and_folds_count_every_fit_of_a_binner():
    X, y = table()[["age", "gain"]], labels(table())
    pipe = make_pipeline(DPBinner(epsilon=0.1, delta=1e-7), classifier(epsilon=0.1))
    with PrivacyLedger() as ledger:
        cross_validate(pipe, X, y, cv=KFold(3))
    assert len(ledger.entries) == 6
    with PrivacyLedger() as ledger:
        search = GridSearchCV(pipe, {"dpbinner__n_bins": [4, 8]}, cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert len(ledger.entries) == 14
    private = privacy_report(search).private
    assert private is not None and private.epsilon > 0.4


def test_regression_on_private_bins_composes_in_closed_form():
    frame = table()
    ridge = DPRidge(target_bounds=(18, 90), max_norm=2.0, delta=1e-6, mechanism="moments")
    pipe = make_pipeline(DPBinner(categories={"town": ["York"]}, delta=1e-6), ridge).fit(frame, frame["age"])
    total = privacy_report(pipe).total
    assert 1.2 < total.epsilon < 1.6 and total.method == "closed form"


POINTS = np.array([[0.05], [0.95]])
INLIERS = np.linspace(0, 1, 300)[:, None]
OUTLIER = np.append(INLIERS[:-1], [[1e6]], axis=0)
SIDES = (INLIERS[:, 0] > 0.5).astype(int)


def slope(pipe):
    """How the scores of a model grow from one end of the inliers to the other."""
    return np.diff(pipe.decision_function(POINTS))


def test_an_audit_of_a_pipeline_stays_below_its_total_and_catches_bins_that_are_read_off_the_rows(seeded, monkeypatch):
    """One row far from all others puts these into one bin, where bins are found without noise.

    Of seeded noise, whose outcome is always this one: a confidence of 1 - 1e-9 needs three times as many fits.
    """
    model = AMPClassifier(epsilon=0.5, delta=1e-3, classes=[0, 1])
    options = {"output": slope, "confidence": 0.999, "delta": 2e-3}
    options["distinguishers"] = {"slope": lambda outputs: outputs[:, 0]}
    pair = (INLIERS, SIDES), (OUTLIER, SIDES)
    private = make_pipeline(DPBinner(8, epsilon=0.5, delta=1e-3), model)
    assert audit_epsilon(private, *pair, n_trials=36, **options).epsilon <= 1.0  # 1.1 if all trials were told apart
    found = [KBinsDiscretizer(8, encode="onehot-dense", strategy="uniform").fit(X) for X, _ in pair]
    pair = [(bins.transform(X), y, bins.transform(POINTS)) for bins, (X, y) in zip(found, pair, strict=True)]
    release_alone(monkeypatch, AMPClassifier)

    def release(which):  # that of a pipeline, whose bins are the same in each fit
        rows, labels, points = pair[which]
        return np.diff(clone(model).fit(rows, labels).decision_function(points))

    del options["output"]
    assert audit_epsilon(release, 0, 1, n_trials=60, **options).epsilon > 1.0


def test_too_little_noise_of_bins_is_caught(noise_of, seeded):
    """In what bins follow from, of numbers and of categories that nobody listed, for a row that is there or not."""
    X = np.zeros((20, 2))
    X[-1] = np.nan
    binner = DPBinner(3, bounds=(-1, 1), n_cells=4, delta=0.35, adjacency="add_remove", categories=[1])
    options = {
        "output": lambda fitted: np.append(fitted.histograms_.columns[0].values, fitted.histograms_.columns[1].missing),
        "n_trials": 80,
        "distinguishers": {"missing": lambda outputs: -outputs[:, -2:].sum(axis=1)},  # all that differs
        "confidence": 0.999,  # of seeded noise
        "delta": clone(binner).fit(X).guarantee_.profile(0.25),
    }
    assert audit_epsilon(binner, X, X[:-1], **options).epsilon <= 0.25
    noise_of(0.3)
    assert audit_epsilon(binner, X, X[:-1], **options).epsilon > 0.25


@pytest.mark.parametrize(
    ("n_rows", "epsilon", "said"),
    [
        (
            300,
            0.2,
            "300 rows show: categories are named from a noisy count of 329 on and numbers without bounds have a",
        ),
        (1400, 0.1, "1400 rows show: numbers without bounds have a single bin"),
        (1500, 2.0, None),
    ],
)
def test_few_rows_are_told_that_noise_hides_them(n_rows, epsilon, said):
    """All columns had one bin, and models were at chance without a word; the noise and how many rows are public."""
    table = pd.DataFrame({"size": np.linspace(0, 1, n_rows), "town": ["Hull", "York"] * (n_rows // 2)})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        binner = DPBinner(epsilon=epsilon, delta=1e-6).fit(table)
    assert (len(binner.bin_edges_[0]) > 2) == (said is None)
    assert [said in str(one.message) and one.filename == __file__ for one in told] == [True] * (said is not None)


def test_a_search_tells_once_that_noise_hides_rows_and_no_trial_does():
    """Which candidates were drawn is secret, and so is what each of them would be told; how many may be is public."""
    table, labels = pd.DataFrame({"size": np.linspace(0, 1, 300), "town": ["Hull", "York"] * 150}), np.arange(300) % 2
    # A ridge on moments, whose loss adds up with that of bins in closed form: bins alone have something to tell.
    ridge = DPRidge(target_bounds=(0, 1), mechanism="moments")
    bins = DPBinner(bounds={"size": (0, 1)}, sparse_output=False)
    model, grid = make_pipeline(bins, ridge), {"dpbinner__epsilon": [0.02, 0.2, 20.0]}
    search = DPSearchCV(model, grid, n_trials=2, delta=1e-3, max_loss=1.0)
    heard = []
    for tell in (privacy_report, partial(set_budget, delta=1e-3), *[DPSearchCV.fit] * 4):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            tell(search, table, labels)
        heard.append([(str(one.message), one.filename) for one in told])
    [(first, place)] = heard[0]
    assert first.startswith("The noise hides most of what 240 rows show") and place == __file__
    assert first.endswith("It is so in 2 of 3 candidates.")
    assert heard == [[(first, place)]] * len(heard)


@pytest.mark.parametrize("plan", [partial(set_budget, epsilon=1.0, delta=1e-6), privacy_report])
def test_plans_tell_that_noise_hides_rows_before_it_is_paid_for(plan):
    def told_of(n_samples):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            plan(clone(model), table, labels, n_samples=n_samples)
        assert all(one.filename == __file__ for one in told)
        return [str(one.message).partition(":")[0] for one in told]

    table, labels = pd.DataFrame({"size": np.linspace(0, 1, 300), "town": ["Hull", "York"] * 150}), np.arange(300) % 2
    # A ridge on moments, whose loss adds up with that of bins in closed form.
    ridge = DPRidge(target_bounds=(0, 1), mechanism="moments")
    model = make_pipeline(DPBinner(epsilon=0.2, delta=1e-6, sparse_output=False), ridge)
    assert told_of(None) == told_of(300) == ["The noise hides most of what 300 rows show"]
    assert told_of(30_000) == []
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="hides most"):
        plan(model, table, labels)
    assert model[0].epsilon == 0.2, "whoever makes an error of the warning has the model as it was"


def test_no_trial_of_a_search_in_threads_tells_it_either():
    """Filters of warnings are those of all threads, and others put them back in the middle of a trial."""
    table, labels = pd.DataFrame({"size": np.linspace(0, 1, 300), "town": ["Hull", "York"] * 150}), np.arange(300) % 2
    bins = DPBinner(bounds={"size": (0, 1)}, epsilon=0.2, sparse_output=False)
    model = make_pipeline(bins, DPRidge(target_bounds=(0, 1), mechanism="moments"))
    search = DPSearchCV(model, {"dpridge__max_norm": [1.0, 2.0]}, n_trials=5, delta=1e-5, max_loss=1.0)
    with warnings.catch_warnings(record=True) as told, parallel_config(backend="threading", n_jobs=2):
        warnings.simplefilter("always")
        cross_validate(search, table, labels, cv=KFold(6))
    heard = [str(warning.message) for warning in told if "noise hides" in str(warning.message)]
    # Of the plan of each search at most, which tells it of all candidates.
    assert len(heard) <= 6 and all(text.endswith("in 2 of 2 candidates.") for text in heard)
