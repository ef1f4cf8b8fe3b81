"""Dask collections in the place of rows: lazy predictions, nothing loaded without a word, nothing released twice."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    DPSGDClassifier,
    MIDPRegressor,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    PublicScaler,
    _validation,
)
from skdprp._lazy import SAME_ORDER, check_same_order, compute_joined, partitions

dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 4))
FRAME = pd.DataFrame(X, columns=list("abcd"))
TWO, THREE = np.where(X[:, 0] > 0, "yes", "no"), RNG.integers(3, size=300)
MODELS = [
    (AMPClassifier(), TWO),
    (AMPClassifier(), THREE),
    (AMPClassifier(threshold="prior"), TWO),
    (ProductNoiseOutputPerturbation(), TWO),
    (DPSGDClassifier(), THREE),
    (DPRidge(target_bounds=(-1, 1)), X[:, 1]),
    (DPRidge(target_bounds=(-1, 1)), X[:, 1:3]),
    (MIDPRegressor(), X[:, 1]),
    (DPPCA(2), None),
    (DPScaler(), None),
]
METHODS = "predict", "decision_function", "predict_proba", "predict_log_proba", "transform"


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


class Counted:
    """Something large, of which the class knows how many there are, and were at most."""

    alive = most = 0

    def __init__(self, value):
        self.value = value
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self):
        Counted.alive -= 1


@pytest.mark.parametrize("n_tasks", [1, 8, 9, 64, 600])
def test_few_results_of_partitions_are_held_at_once(n_tasks):
    """Some of each level of a tree; without a function that joins them, all."""
    tasks = [dask.delayed(Counted)(number) for number in range(n_tasks)]
    Counted.most = 0
    results = compute_joined(tasks, lambda parts: Counted(sum(part.value for part in parts)))
    assert sum(one.value for one in results) == n_tasks * (n_tasks - 1) // 2
    assert Counted.most <= 8 * (1 + np.ceil(np.log(n_tasks + 1) / np.log(8)))
    results = compute_joined(tasks)
    assert [one.value for one in results] == list(range(n_tasks)) and Counted.most >= n_tasks


@pytest.mark.parametrize(("model", "y"), MODELS, ids=lambda part: repr(part)[:40])
def test_predictions_of_dask_collections_are_lazy(model, y):
    """Of arrays cut both ways, of dataframes and of parts of unknown length: as in memory, in the types they say."""
    frame = dd.from_pandas(FRAME, npartitions=3)
    for rows, lazies in ((X, [da.from_array(X, chunks=(110, 3)), frame.to_dask_array()]), (FRAME, [frame])):
        model.fit(rows, y)
        for lazy in lazies:
            for name in filter(lambda name: hasattr(model, name), METHODS):
                expected, given = getattr(model, name)(rows), getattr(model, name)(lazy)
                assert isinstance(given, da.Array) and given.dtype == expected.dtype
                values = pickle.loads(pickle.dumps(given)).compute()
                assert values.dtype == expected.dtype and values.shape == expected.shape
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
                else:
                    assert np.array_equal(values, expected)
    if y is not None:
        model.fit(X, y)
        assert model.score(da.from_array(X, chunks=110), da.from_array(y, chunks=110)) == model.score(X, y)


def test_lazy_predictions_are_those_of_the_model_as_it_was():
    model, lazy = AMPClassifier().fit(X, TWO), da.from_array(X, chunks=100)
    expected, given = model.predict_proba(X), model.predict_proba(lazy)
    model.fit(X, TWO[::-1])
    np.testing.assert_allclose(given.compute(), expected)
    assert not np.allclose(model.predict_proba(lazy).compute(), expected)


def test_dataframes_are_not_made_of_lazy_rows():
    model = DPPCA(2).fit(X).set_output(transform="pandas")
    with pytest.raises(ValueError, match="pandas"):
        model.transform(da.from_array(X))


@pytest.mark.parametrize("model", [MIDPRegressor(), DPRidge(target_bounds=(-1, 1))])
def test_what_loads_all_rows_says_so(model):
    """Whatever takes no partitions; and DPRidge takes them."""
    lazy = da.from_array(X, chunks=100), da.from_array(X[:, 1], chunks=100)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(*lazy)
    loaded = [str(warning.message) for warning in seen if "into memory" in str(warning.message)]
    if isinstance(model, DPRidge):
        assert not loaded
    else:
        assert [message[:2] for message in loaded] == ["X ", "y "]
        assert all(warning.filename == __file__ for warning in seen)


def lazy_sketches(**known):
    return DPOPORP(4).fit(X).transform(da.from_array(X, **known))


@pytest.mark.parametrize(
    "passed_on",
    [
        lambda S: S,
        lambda S: S[:, :3] + 1,
        lambda S: dask.optimize(S)[0],
        lambda S: PublicScaler((-1, 1)).fit(S).transform(S),
        lambda S: dd.from_dask_array(S, columns=list("efgh")),
        lambda S: da.from_delayed(dask.delayed(np.asarray)(S), shape=S.shape, dtype=S.dtype),
    ],
    ids=["as it is", "computed with", "optimised", "scaled", "frame", "delayed"],
)
def test_lazy_sketches_are_not_released_again_by_a_model(passed_on):
    """Each pass over them would draw their noise anew; persisted, they are what they are."""
    S = lazy_sketches(chunks=(100, 4))
    with pytest.raises(ValueError, match="persist or compute"):
        DPMoments().fit(passed_on(S))
    with pytest.raises(ValueError, match="persist or compute"):
        DPHistograms().fit(passed_on(S))
    moments = make_pipeline(PublicScaler((-1, 1)), DPMoments()).fit(passed_on(S.persist()))[-1].moments_
    assert moments.n_samples == 300


def tables_of_dask():
    """One table in orders that dask chooses, with each number twice; the last was computed before."""
    n = 3000
    table = dd.from_pandas(pd.DataFrame({"town": np.arange(n) % 97, "x": np.arange(n) / n, "y": np.arange(n) / n}), 6)
    towns = dd.from_pandas(pd.DataFrame({"town": np.arange(97), "size": 1.0}), 3)
    shuffled = table.shuffle("town", shuffle_method="disk")  # by the order in which partitions end
    return [shuffled, table.merge(towns, on="town"), table.sort_values("town"), table, shuffled.persist()]


def test_targets_of_a_shuffled_table_are_those_of_their_rows():
    """Columns were shuffled each by themselves: most rows had the target of another, and one row changed two."""
    scaler = PublicScaler((0, 1), feature_range=(0, 1))
    for table in tables_of_dask():
        for X in (table[["x"]], scaler.fit_transform(table[["x"]])):
            rows, targets = dask.compute(*partitions(X, table["y"]))
            for part, of_part in zip(rows, targets, strict=True):
                assert np.array_equal(np.asarray(part)[:, 0], of_part.to_numpy())


def test_files_are_read_once_for_scaled_rows_and_their_targets():
    """Scaled rows were optimised before their targets: each partition was read for both."""
    n_read = []

    def read(part):
        n_read.append(part)
        return pd.DataFrame({"x": np.linspace(0, 1, 50), "y": np.linspace(0, 1, 50)})

    table = dd.from_map(read, range(4), meta=pd.DataFrame({"x": [0.0], "y": [0.0]}))
    pipeline = make_pipeline(PublicScaler((0, 1)), DPRidge(max_norm=1.0, target_bounds=(0, 1)))
    with dask.config.set(scheduler="synchronous"):
        pipeline.fit(table[["x"]], table["y"])
    assert sorted(n_read) == [0, 1, 2, 3]


def test_predictions_read_the_columns_that_they_use():
    """Of a wide table all columns were read, as a fit needs to that shares them with its targets."""
    read_columns = []

    def read(part, columns=None):
        read_columns.append(columns)
        return FRAME if columns is None else FRAME[columns]

    table = dd.from_map(read, range(2), meta=FRAME[:0])
    X, y = table[["a", "c"]], table["b"]
    for steps in (
        [],
        [PublicScaler((-1, 1))],
        [DPPCA(1)],
        [DPScaler(bounds=(-1, 1)), PublicScaler((-1, 1))],
        [DPBinner()],
    ):
        pipeline = make_pipeline(*steps, DPRidge(target_bounds=(-1, 1))).fit(X, y)
        assert read_columns == [None] * 2 * sum(hasattr(step, "epsilon") for step in pipeline)  # once in each fit
        for compute in (pipeline.predict, getattr(pipeline[0], "transform", pipeline.predict)):
            read_columns.clear()
            compute(X).compute()
            assert read_columns == [["a", "c"]] * 2
        read_columns.clear()


@pytest.mark.filterwarnings("ignore:Computing mixed collections")
def test_predictions_are_compared_with_targets_of_their_rows():
    """Scores of a shuffled table compared predictions with the targets of other rows: these were shuffled once more."""
    numbers = pd.DataFrame({"x": np.linspace(0, 1, 1000)})
    model = DPRidge(target_bounds=(0, 1)).fit(numbers, numbers["x"])
    for table in tables_of_dask()[:3]:
        with pytest.raises(ValueError, match=r"from a shuffle.*persist\(\) the table"):
            model.score(table[["x"]], table["y"])
    for table in tables_of_dask()[3:]:
        expected = model.score(*(table[columns].compute() for columns in (["x"], "y")))
        assert model.score(table[["x"]], table["y"]) == expected


def test_columns_that_are_shuffled_by_themselves_are_refused():
    *shuffled, as_it_is, persisted = tables_of_dask()
    scaler, ridge = PublicScaler((0, 1)), DPRidge(target_bounds=(0, 1))
    moments, classifier = DPMoments(max_norm=1.0, target_bounds=(0, 1)), AMPClassifier(classes=[0, 1])

    def fits(table):
        X, y, town = table[["x"]], table["y"], table["town"]
        yield lambda: ridge.fit(X.to_dask_array(), y)
        yield lambda: classifier.fit(X.to_dask_array(), (y > 0.5).astype(int).to_dask_array())
        yield lambda: moments.fit(X, y, groups=town)
        yield lambda: ridge.fit(X, table.sort_values("x")["y"])
        yield lambda: fitted.score(scaler.fit_transform(X), y.to_dask_array())

    fitted = clone(ridge).fit(np.eye(1), [1.0])
    for table in shuffled:
        for fit in fits(table):
            with PrivacyLedger() as ledger, pytest.raises(ValueError, match=r"from a shuffle.*persist\(\) the table"):
                fit()
            assert ledger.entries == ()
    for table in (as_it_is, persisted):
        for fit in list(fits(table))[:3]:
            fit()
    with_targets = ridge.fit(as_it_is[["x"]], as_it_is["y"]).guarantee_.assumptions
    assert SAME_ORDER in with_targets and SAME_ORDER not in DPPCA(1).fit(as_it_is[["x"]]).guarantee_.assumptions


def test_shuffled_tables_are_not_sketched_chunk_by_chunk():
    """A row may be in one chunk when that is computed, and in another one with the next: both were disjoint parts."""
    *shuffled, as_it_is, persisted = tables_of_dask()
    sketch = DPOPORP(1, random_state=0).fit(as_it_is[["x"]])
    of_arrays = DPOPORP(1, random_state=0).fit(np.eye(1))
    for table in shuffled:
        with pytest.raises(ValueError, match=r"from a shuffle.*persist\(\) the table"):
            of_arrays.transform(table[["x"]].to_dask_array())
        for X in (table[["x"]], table.repartition(npartitions=4)[["x"]]):
            with pytest.raises(ValueError, match=r"from a shuffle.*persist\(\) the table"):
                sketch.transform(X)
    for table in (as_it_is, persisted):
        assert sketch.transform(table[["x"]]).compute().shape == (3000, 1)


def test_rows_that_a_bag_has_grouped_are_not_sketched_chunk_by_chunk():
    """As those of a merge: five persons of 4000 were sketched twice, under a total for one release."""
    bag = pytest.importorskip("dask.bag")
    log = bag.from_sequence([{"person": place // 2} for place in range(60)], npartitions=4)
    groups = log.groupby(lambda visit: visit["person"]).map(lambda group: {"x": float(len(group[1]))})
    table = groups.to_dataframe(meta={"x": float})
    sketch = DPOPORP(1, random_state=0).fit(table)
    for rows in (table, table.repartition(npartitions=3)):
        with pytest.raises(ValueError, match=r"from a shuffle.*persist\(\) the table"):
            sketch.transform(rows)


def test_arrays_in_other_chunks_or_by_given_places_are_in_one_order():
    """They were refused as if a merge had put them into an order of its own."""
    array = da.from_array(X, chunks=(100, 2))
    places = np.random.default_rng(0).permutation(300)
    with dask.config.set({"array.rechunk.method": "p2p"}):
        tables = [array.rechunk((60, 4)), array[places], da.shuffle(array, [[*range(150, 300)], [*range(150)]], axis=0)]
    for table in tables:
        assert any("p2p" in str(key) or "shuffle" in str(key) for key in dict(table.__dask_graph__()))
        check_same_order(table, array[:, 2])


def test_rows_and_targets_that_are_loaded_are_computed_together():
    shuffled = tables_of_dask()[0]
    regressor = MIDPRegressor(max_abs=1.0)
    with pytest.warns(UserWarning, match="loads all rows"), pytest.raises(ValueError, match="from a shuffle"):
        regressor.fit(shuffled[["x"]].to_dask_array(), shuffled["y"])
    seen = []

    def kept(X, y, **options):
        seen.append((np.asarray(X)[:, 0], np.asarray(y)))
        return np.asarray(X), np.asarray(y)

    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="loads all rows"):
        patch.setattr(_validation.validation, "validate_data", lambda _, X, y, **options: kept(X, y))
        _validation.validate_data(regressor, shuffled[["x"]], shuffled["y"])
    assert np.array_equal(*seen[0])


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean"])
def test_nullable_columns_of_dask_are_taken_as_those_of_pandas(dtype, silenced_noise):
    """The types of dask's own example of such a column have a missing value in it."""
    frame = pd.DataFrame({name: pd.array(np.arange(6) % 2, dtype=dtype) for name in "ab"})
    lazy = dd.from_pandas(frame, 2)
    for sketch in (DPOPORP(2, random_state=0), DPRandomProjection(2, random_state=0)):
        lazily = sketch.fit(lazy).transform(lazy).compute()
        assert np.array_equal(lazily, sketch.fit(frame).transform(frame))


@pytest.mark.parametrize("dtype", [np.float16, ">f8", object, ">i4"])
def test_arrays_of_dask_of_odd_types_are_taken_as_those_of_numpy(dtype, silenced_noise):
    rows = (np.arange(12).reshape(6, 2) / 16).astype(dtype)
    sketch = DPOPORP(2, random_state=0).fit(rows)
    lazily = sketch.fit(da.from_array(rows, chunks=(3, 2))).transform(da.from_array(rows, chunks=(3, 2))).compute()
    assert np.array_equal(lazily, sketch.transform(rows)) and lazily.dtype == sketch.transform(rows).dtype
