"""Attacks on lazy rows of dask: how often they are released, in which order they come, and what is said of them."""

import contextlib
import pickle
import warnings
from collections import Counter
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
import pytest
from attacks import UNION, X12, X24, X200_UNIFORM, sketch, total_of
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPSignOPORP,
    PrivacyLedger,
    PublicScaler,
    _noise,
    privacy_report,
    set_budget,
    similarity,
)


def lazy_rows():
    """Twenty rows in one chunk, and a list that each computation of them extends by what it has read."""
    da, reads = pytest.importorskip("dask.array"), []

    def read(block):
        reads.extend(block[:, 0].tolist())
        return block

    rows = np.random.default_rng(0).normal(size=(20, 6))
    return da.from_array(rows, chunks=(20, 6)).map_blocks(read, meta=np.empty((0, 0))), reads


# One computation releases each row once


def lazy_sketches():
    da = pytest.importorskip("dask.array")
    X = da.from_array(np.ones((40, 6)), chunks=(10, 6))
    return DPOPORP(4, random_state=0).fit(X).transform(X)


def array_and_frame(S):
    import dask
    import dask.dataframe as dd

    array, frame = dask.compute(S, dd.from_dask_array(S))
    return array, frame.to_numpy()


def function_of_two_arrays(S):
    import dask

    first, second = dask.delayed(lambda *both: both)(S, S + 1).compute()
    return first, second - 1


def array_and_its_sum(S):
    import dask

    array, total = dask.compute(S, dask.delayed(np.sum)(S))
    return array.sum(), total


def column_of_a_frame(S):
    frame = S.to_dask_dataframe(columns=list("abcd"))
    frame = frame.assign(e=S[:, 0]).compute()
    return frame.a, frame.e


def optimised_together(S):
    import dask

    first, second = dask.compute(*dask.optimize(S, S + 1))
    return first, second - 1


@pytest.mark.filterwarnings("ignore:Computing mixed collections")  # dask says that it may be slow
@pytest.mark.parametrize(
    "compute", [array_and_frame, function_of_two_arrays, array_and_its_sum, column_of_a_frame, optimised_together]
)
def test_one_computation_of_dask_releases_each_row_once(compute):
    """Dask optimises collections of each kind apart: one compute drew noise two or three times for every row."""
    pytest.importorskip("dask.dataframe")
    first, second = compute(lazy_sketches())
    assert np.allclose(first, second)


def test_a_graph_that_waits_for_another_releases_no_row_again():
    """What dask binds to another collection is the same by what it says, but each row was released twice.

    The guide says that one compute is one release whatever is made of the sketches.
    """
    pytest.importorskip("dask.array")
    import dask
    from dask.graph_manipulation import bind

    S = lazy_sketches()
    try:
        first, second = dask.compute(S, bind(S, S.sum()))
    except (NotImplementedError, TypeError, ValueError):
        return
    assert np.array_equal(first, second)


def test_dask_copies_no_lazy_sketches_but_what_is_made_of_them():
    """A clone releases rows again, and so does what is bound; those who omit the sketches copy the rest alone."""
    pytest.importorskip("dask.array")
    import dask
    from dask.graph_manipulation import bind, clone, wait_on

    S = lazy_sketches()
    for copied in (clone, partial(bind, parents=S.sum()), lambda S: clone(S + 1), lambda S: bind(S.T, S.sum())):
        with pytest.raises(ValueError, match="omit them, or persist them"):
            copied(S)
    later = clone(S + 1, omit=S), bind(S + 1, S.sum(), omit=S), wait_on(S) + 1
    first, *others = dask.compute(S + 1, *later)
    assert all(np.array_equal(first, other) for other in others)
    kept = S.persist()
    assert np.array_equal(*dask.compute(kept, clone(kept)))


@pytest.mark.parametrize(
    ("sketch", "estimate"),
    [
        (DPOPORP(4), similarity.inner_products),
        (DPOPORP(4), similarity.cosines),
        (DPOPORP(4), partial(similarity.squared_distances, noise_variance=1.0)),
        (DPOPORP(4), lambda S, _: similarity.squared_norms(S, noise_variance=1.0)),
        (DPSignOPORP(4), similarity.hamming_distances),
        (DPSignOPORP(4), lambda S, T: similarity.HammingNeighbors(1).fit(S).kneighbors(T)),
    ],
    ids=["inner", "cosines", "distances", "norms", "hamming", "neighbours"],
)
def test_estimates_from_lazy_sketches_release_no_row_again(sketch, estimate):
    """Estimates cost no privacy, it is said; but norms and products were of two or three draws of each row."""
    X, reads = lazy_rows()
    sketch = clone(sketch).fit(X)
    with contextlib.suppress(TypeError, ValueError):  # it may as well refuse what is not computed
        estimate(sketch.transform(X), sketch.transform(np.ones((2, 6))))
    assert len(reads) <= 20


def stored_side_by_side(S):
    import dask.array as da

    first, second = np.empty(S.shape), np.empty(S.shape)
    da.store([S, S + 1], [first, second])
    return first, second - 1


def blocks_that_are_delayed(S):
    import dask

    whole, *blocks = dask.compute(S, *S.to_delayed().ravel())
    return whole, np.vstack(blocks)


def arrays_of_delayed_blocks(S):
    import dask
    import dask.array as da

    parts = [da.from_delayed(block, (10, 4), float) for block in S.to_delayed(optimize_graph=False).ravel()]
    return dask.compute(S, da.concatenate(parts))


def other_chunks(S):
    import dask

    whole, rechunked, product = dask.compute(S, S.rechunk((7, 3)), S.T @ S)
    assert np.allclose(whole.T @ whole, product)
    return whole, rechunked


def nested_in_containers(S):
    import dask
    import dask.dataframe as dd

    result, frame = dask.compute({"a": [S, (S + 1, 2)]}, dd.from_dask_array(S).repartition(npartitions=2))
    assert np.array_equal(result["a"][0], frame.to_numpy())
    return result["a"][0], result["a"][1][0] - 1


@pytest.mark.filterwarnings("ignore:Computing mixed collections")  # dask says that it may be slow
@pytest.mark.parametrize(
    "compute",
    [stored_side_by_side, blocks_that_are_delayed, arrays_of_delayed_blocks, other_chunks, nested_in_containers],
)
def test_whatever_else_one_computation_makes_of_lazy_sketches_is_one_release(compute):
    """Stores, delayed blocks before and after they are optimised, other chunks, containers."""
    pytest.importorskip("dask.dataframe")
    first, second = compute(lazy_sketches())
    assert np.allclose(first, second)


def test_lazy_rows_pass_the_transform_of_a_subclass_once():
    """Chunks were released by the transform of the subclass, which had been passed already.

    Rows were multiplied by 10000, and neighbours 100 times as far apart as the noise is calibrated for.
    """
    da = pytest.importorskip("dask.array")
    rows = np.ones((4, 2))

    class InCents(DPRandomProjection):
        def transform(self, X):
            return super().transform(X * 100)

    sketch = InCents(projection="identity", max_change=1e-3, epsilon=100).fit(rows)
    with contextlib.suppress(NotImplementedError, TypeError):
        assert np.allclose(sketch.transform(da.from_array(rows, chunks=2)).compute(), sketch.transform(rows), atol=0.01)


def sketches_and_their_bag(S):
    import dask
    import dask.bag

    parts = dask.bag.from_delayed(list(S.to_delayed(optimize_graph=False).ravel()))
    whole, rows = dask.compute(S, parts.map(lambda row: row).filter(len), scheduler="sync")
    return whole, np.vstack(rows)


def sketches_and_their_factors(S):
    import dask
    import dask.array as da

    whole, u, s, v = dask.compute(S, *da.linalg.svd(S))
    return whole, (u * s) @ v


def sketches_with_their_neighbours(S):
    import dask
    import dask.array as da

    around = da.overlap.overlap(S, depth={0: 2}, boundary="none")
    return dask.compute(S, da.overlap.trim_internal(around, {0: 2}, boundary="none"))


def frame_joined_with_itself(S):
    import dask.dataframe as dd

    frame = dd.from_dask_array(S, columns=list("abcd")).reset_index()
    joined = dd.merge(frame, frame, on="index").compute().sort_values("index")
    return joined[["a_x", "d_x"]].to_numpy(), joined[["a_y", "d_y"]].to_numpy()


@pytest.mark.filterwarnings("ignore:Computing mixed collections")  # dask says that it may be slow
@pytest.mark.parametrize(
    "compute",
    [sketches_and_their_bag, sketches_and_their_factors, sketches_with_their_neighbours, frame_joined_with_itself],
)
def test_no_algorithm_of_dask_releases_a_row_again(compute):
    """Bags of delayed blocks, decompositions, overlapping chunks, and frames that are joined with themselves."""
    pytest.importorskip("dask.dataframe")
    first, second = compute(lazy_sketches())
    assert np.allclose(first, second)


def test_a_ledger_does_not_say_that_nothing_was_released_of_lazy_sketches():
    """They were made in its block, as sketches in memory are released there, and computed after it: no word of that."""
    da = pytest.importorskip("dask.array")
    rows = da.from_array(np.ones((8, 6)), chunks=(4, 6))
    sketch = DPOPORP(4, random_state=0).fit(rows)
    with warnings.catch_warnings(record=True) as caught, PrivacyLedger() as ledger:
        warnings.simplefilter("always")
        sketches = sketch.transform(rows)
    assert sketches.compute(scheduler="sync").shape == (8, 4)
    assert caught or ledger.entries or "lazy" in str(ledger.total())


def delayed_sums(S):
    import dask

    return dask.delayed(sum)([dask.delayed(np.sum)(S), dask.delayed(np.max)(S)])


def frame_means(S):
    import dask.dataframe as dd

    return dd.from_dask_array(S, columns=list("abcd")).mean()


OF_LAZY_SKETCHES = {
    "delayed blocks": lambda da, S: list(S.to_delayed(optimize_graph=False).ravel()),
    "optimised delayed blocks": lambda da, S: list(S.to_delayed(optimize_graph=True).ravel()),
    "made anew": lambda da, S: da.Array(S.dask, S.name, S.chunks, dtype=S.dtype),
    "delayed sums": lambda da, S: delayed_sums(S),
    "a frame": lambda da, S: frame_means(S),
    "stacked": lambda da, S: da.vstack([S, S]).T @ da.vstack([S, S]),
    "places": lambda da, S: S.vindex[[0, 5], [0, 1]],
    "a mask": lambda da, S: S[S[:, 0] > 0],
    "percentiles": lambda da, S: da.percentile(S[:, 0], 50),
    "running sums": lambda da, S: da.cumsum(S, axis=0),
    "overlapping": lambda da, S: da.map_overlap(lambda block: block, S, depth=1, boundary="none", dtype=float),
    "block by block": lambda da, S: da.map_blocks(lambda a, b: a + b, S, S, dtype=float),
    "other chunks": lambda da, S: S.rechunk((5, 3)),
    "a store": lambda da, S: da.store([S, S + 1], [np.empty((24, 4)), np.empty((24, 4))], compute=False),
}


@pytest.mark.filterwarnings("ignore:Computing mixed collections")
@pytest.mark.parametrize("made", OF_LAZY_SKETCHES)
def test_a_ledger_has_each_chunk_once_whatever_is_computed_beside_it(made):
    """Lazy sketches, what is made of them, and both again in a tuple: one computation, one entry for each chunk."""
    da = pytest.importorskip("dask.array")
    pytest.importorskip("dask.dataframe")
    import dask

    with PrivacyLedger() as ledger:
        S = DPOPORP(4).fit(X24).transform(da.from_array(X24, chunks=(8, 6)))
        other = OF_LAZY_SKETCHES[made](da, S)
        assert not ledger.entries
        dask.compute(S, other, (S, other), scheduler="sync")
    assert len(ledger.entries) == 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("width", [None, 1, 100])
@pytest.mark.parametrize("lazy", ["array", "narrow chunks", "frame"])
def test_each_chunk_is_released_once_for_all_that_is_computed_of_it(width, lazy):
    """Sums, means, slices and delayed functions of one lazy sketch share one draw, whatever is fused."""
    dask = pytest.importorskip("dask")
    import dask.array as da

    X = np.random.default_rng(0).uniform(size=(12, 4))
    if lazy == "frame":
        frames, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
        rows = frames.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3) * 2
    else:
        rows = da.from_array(X, chunks=(4, 4 if lazy == "array" else 2)) + 1
    sketch = DPOPORP(2, random_state=0).fit(rows)
    options = {} if width is None else {"optimization.fuse.ave-width": width, "optimization.fuse.active": True}
    with dask.config.set({"scheduler": "sync", **options}), PrivacyLedger() as ledger:
        S = sketch.transform(rows)
        results = dask.compute(S, S.sum(), S[:, 0], dask.delayed(np.sum)(S), *S.to_delayed().ravel())
    assert len(ledger.entries) == 3
    assert ledger.total()[0].guarantee.epsilon <= 1.0
    released, total, first, delayed_total, *chunks = results
    assert np.array_equal(released, np.vstack(chunks))
    assert np.array_equal(first, released[:, 0])
    assert total == pytest.approx(released.sum())
    assert delayed_total == pytest.approx(released.sum())


# Reports and plans


@pytest.mark.filterwarnings("ignore:The .numpy.may_share_memory. function is not implemented by Dask:FutureWarning")
@pytest.mark.parametrize(
    "later",
    [
        [LogisticRegression()],
        [StandardScaler(), LogisticRegression()],
        [VotingClassifier([(name, KNeighborsClassifier(1)) for name in "abcdefgh"])],
        [GridSearchCV(LogisticRegression(), {}, cv=KFold(3, shuffle=True, random_state=0))],
    ],
    ids=["model", "scaler", "voting", "search"],
)
def test_reports_charge_each_computation_of_lazy_sketches(later):
    """Steps after a sketch of dask rows computed it anew whenever they looked, and the report charged one release.

    A hundred nearest neighbours that vote keep a hundred draws of each row: two rows at distance 1, which (1.0, 1e-06)
    allows to be told apart with probabilities .12 against .33 at most, had .12 against .88.
    """
    X, reads = lazy_rows()
    model = make_pipeline(DPOPORP(4, random_state=0), *map(clone, later)).fit(X, np.arange(20) % 2)
    report = privacy_report(model)
    assert report.private is None or len(reads) <= 20 * report.steps[0].releases


def test_reports_of_sketches_of_lazy_rows_say_what_to_do():
    """Even fitted again on rows in memory: the lazy sketches of before can be computed as often as anybody likes."""
    X, _ = lazy_rows()
    sketch = DPOPORP(4, random_state=0).fit(X)
    sketch.transform(X)
    for fitted in (sketch, pickle.loads(pickle.dumps(sketch)), sketch.fit(np.ones((1, 6)))):
        report = privacy_report(fitted)
        assert report.total is None and report.private is None
        assert "compute or persist the sketches" in report.not_covered[0]
    assert privacy_report(clone(sketch).fit(X)).total.epsilon == 1.0


def test_a_total_of_sketches_that_another_process_made_lazy_says_what_it_assumes():
    """A union with n_jobs has its parts transform in workers, and nothing here knew that the rows were lazy.

    Each computation of them is a release, and the report stated a total of one, of rows that are "not sketched again".
    """
    da = pytest.importorskip("dask.array")
    sketch = DPOPORP(3, random_state=0).fit(np.ones((1, 6)))
    pickle.loads(pickle.dumps(sketch)).transform(da.from_array(np.ones((4, 6))))  # as a worker does
    total = privacy_report(make_union(sketch)).total
    assert total is None or any("comput" in text for text in total.assumptions)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_lazy_rows_that_other_processes_were_given_have_no_total(n_jobs):
    """A union marks the sketches that get lazy rows, but copies of them in other processes: its report had a total."""
    da = pytest.importorskip("dask.array")
    union = clone(UNION).set_params(n_jobs=n_jobs).fit(X24)
    with PrivacyLedger() as ledger:
        lazy = union.transform(da.from_array(X24, chunks=(12, 6)))
        for _ in range(2):
            lazy.compute()
    assert len(ledger.entries) == 8
    for fitted in (union, union.fit(X24)):
        report = privacy_report(fitted)
        assert report.total is None and report.private is None


def test_what_follows_lazy_sketches_sees_public_numbers_in_a_plan():
    """A step that makes a dask array of its rows has the next one sketch them in a context of its own, out of the plan.

    So each plan released the first 64 rows anew to what came next, which may keep or print what it sees.
    """
    da = pytest.importorskip("dask.array")
    X, y, seen = np.random.default_rng(0).uniform(-0.3, 0.3, (40, 6)), np.arange(40) % 2, []

    def kept(rows):
        seen.append(np.array(rows))
        return seen[-1]

    model = make_pipeline(
        FunctionTransformer(da.from_array), DPOPORP(3, random_state=0), FunctionTransformer(kept), LogisticRegression()
    )
    for rows in (X, -X):
        with contextlib.suppress(TypeError, ValueError):  # it may as well refuse
            privacy_report(model, rows, y)
    assert all(np.array_equal(rows, seen[0]) for rows in seen)


def test_lazy_rows_do_not_make_a_budget_larger():
    """Of dask rows nothing was checked: a frozen sketch of epsilon 3 beside one of 1 kept to a budget of 1."""
    rows = pytest.importorskip("dask.array").from_array(X12)
    union = FeatureUnion([("new", sketch()), ("old", FrozenEstimator(sketch(3.0).fit(X12)))])
    with suppress(ValueError, TypeError):
        set_budget(union, rows, epsilon=1.0)
        assert privacy_report(union.fit(X12)).private.epsilon <= 1.0


# The order of rows


def test_rows_that_come_in_another_order_each_time_keep_their_targets(monkeypatch):
    """Of a lazy table that is read once for rows and targets, in whatever forms both are."""
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    import pandas as pd

    def _read(part):
        a = np.random.default_rng().permutation(np.arange(1, 51) + 50 * part) / 100
        return pd.DataFrame({"a": a, "b": -a, "y": a})

    def _table():
        return dd.from_delayed([dask.delayed(_read)(part) for part in range(2)], meta=_read(0).iloc[:0])

    monkeypatch.setattr(_noise, "add_gaussian", lambda values, scale: None)
    scaler = PublicScaler((-10, 10), feature_range=(-10, 10))
    forms = [
        lambda table: (table[["a", "b"]], table["y"]),
        lambda table: (scaler.fit(table[["a", "b"]]).transform(table[["a", "b"]]), table["y"]),
        lambda table: (table[["a", "b"]].values, table["y"]),
        lambda table: (table[["a", "b"]].to_dask_array(lengths=True).rechunk((25, 2)), table["y"].to_dask_array()),
        lambda table: (table[["a", "b"]].optimize(), table["y"]),
        lambda table: (table[table.a > 0.3][["a", "b"]], table[table.a > 0.3]["y"]),
        lambda table: (table[["a", "b"]].repartition(npartitions=1), table["y"].repartition(npartitions=1)),
    ]
    for form in forms:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y = form(_table())
            try:
                moments = DPMoments(delta=1e-5, max_norm=10, target_bounds=(0, 2), fit_intercept=False).fit(X, y)
            except ValueError as error:  # or the pair is refused
                assert "same rows" in str(error) or "same partitions" in str(error)
                continue
        moments = moments.moments_
        assert moments.cross[0, 0] == pytest.approx(moments.gram[0, 0], rel=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["disk", "tasks"])
def test_rows_that_a_scaler_has_read_by_itself_are_not_joined_with_targets_of_another_shuffle(method, tmp_path):
    """What `transform` returns is optimised, which renames tasks: shuffles are found in it all the same."""
    pd, dask = pytest.importorskip("pandas"), pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(X200_UNIFORM, columns=list("aby")).assign(k=np.arange(200) % 7, g=np.arange(200) // 2)
    table.to_csv(tmp_path / "rows.csv", index=False)
    other = dd.from_pandas(table[["k"]].drop_duplicates().assign(z=1.0), npartitions=2)
    with dask.config.set({"dataframe.shuffle.method": method}):
        for source in (dd.from_pandas(table, npartitions=3), dd.read_csv(tmp_path / "rows.csv", blocksize=2000)):
            for moved in (source.shuffle("k"), source.merge(other, on="k"), source.sort_values("a")):
                rows = moved[["a", "b"]]
                scaled = PublicScaler((-1, 1)).fit(rows).transform(rows)
                for given in ({"y": moved["y"]}, {"groups": moved["g"]}):
                    bounds = (-1, 1) if "y" in given else None
                    with pytest.raises(ValueError, match="shuffle"):
                        DPMoments(max_norm=2.0, target_bounds=bounds).fit(scaled, **given)


@pytest.mark.filterwarnings("ignore:y is a dask collection:UserWarning")
def test_lazy_rows_in_any_order_are_not_taken_for_rows_in_one():
    """A step makes an array of a shuffled frame, in another order each time, and x of one person meets y of another."""
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0] * 10, "k": range(30), "y": [0, 1, 1] * 10})
    shuffled = dd.from_pandas(table, npartitions=3).shuffle("k")
    model = make_pipeline(Normalizer(), AMPClassifier(delta=1e-6, classes=[0, 1]))
    try:
        total = total_of(model.fit(shuffled[["x"]], shuffled["y"]))
    except (TypeError, ValueError):
        return
    assert total is None or any("order" in text for text in total.assumptions)


@pytest.mark.filterwarnings("ignore:This release has no guarantee")
def test_lazy_rows_that_were_scaled_lie_beside_their_own_targets():
    """After shuffles, sorts, joins, repartitions and unseeded samples, with one pass over the table."""
    pytest.importorskip("dask.dataframe")
    import dask.dataframe as dd

    n, reads = 240, Counter()
    base = pd.DataFrame({"a": np.random.default_rng(0).permutation(n) / n, "b": np.arange(n) % 7 / 7.0})
    base["y"], base["k"] = base["a"], np.arange(n) % 13
    names = pd.DataFrame({"k": np.arange(13), "z": np.arange(13)})

    def load(part):
        reads[part] += 1
        return base.iloc[part * 40 : (part + 1) * 40]

    for changed in (
        lambda table: table,
        lambda table: table.shuffle("k"),
        lambda table: table.sort_values("a"),
        lambda table: table.merge(dd.from_pandas(names, npartitions=3), on="k"),
        lambda table: table.drop_duplicates(subset=["a"], split_out=3),
        lambda table: table.repartition(npartitions=4),
        lambda table: table.sample(frac=0.5),
    ):
        table = changed(dd.from_map(load, range(6), meta=base.iloc[:0]))
        ridge = DPRidge(epsilon=1e5, delta=1e-3, target_bounds=(0, 1), max_norm=2.0)
        model = make_pipeline(PublicScaler((0, 1)), ridge)
        reads.clear()
        assert np.allclose(model.fit(table[["a", "b"]], table["y"])[-1].coef_, [1, 0], atol=0.1)


# Rows that are drawn anew


@pytest.mark.parametrize("n_parts", [1, 4])  # in the first case all is one task, which depends on no other
def test_rows_that_a_bag_draws_anew_each_time_are_in_no_more_releases_than_a_ledger_counts(n_parts):
    """Each chunk was of a sample of its own, and they counted as parts without a row in common."""
    bag = pytest.importorskip("dask.bag")
    pytest.importorskip("dask.bag.random")
    drawn = bag.random.sample(
        bag.from_sequence([{"x": float(place)} for place in range(400)], npartitions=n_parts), 300
    )
    table = drawn.to_dataframe(meta={"x": float}).repartition(npartitions=4)
    sketch = DPOPORP(1, random_state=0).fit(table)
    seen = []
    kept = table.map_partitions(lambda rows: seen.extend(rows["x"]) or rows, meta=table._meta)
    with PrivacyLedger() as ledger:
        try:
            for part in sketch.transform(kept).to_delayed().ravel():
                part.compute()
        except ValueError as refused:
            assert "persist()" in str(refused)
            return
        spent = ledger.total()[0].adaptive.epsilon
    assert max(Counter(seen).values()) <= spent


@pytest.mark.parametrize("first", ["none", "scaler", "bins", "components"])
@pytest.mark.filterwarnings("ignore")
def test_rows_of_a_shuffled_table_keep_their_targets_behind_each_step(first, silenced_noise):
    from sklearn.pipeline import make_pipeline

    from skdprp import DPPCA, DPBinner, DPScaler

    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    n = 400
    table = pd.DataFrame({"a": np.arange(n) % 2 * 1.0, "k": np.arange(n) % 17})
    table["b"], table["y"] = 1 - table["a"], 2 * table["a"] - 1
    rows = dd.from_pandas(table, npartitions=4).shuffle("k", shuffle_method="disk")
    steps = {
        "none": [],
        "scaler": [DPScaler(bounds=(0, 1))],
        "bins": [DPBinner(2, bounds=(0, 1))],
        "components": [DPPCA(2)],
    }[first]
    ridge = DPRidge(target_bounds=(-1, 1), mechanism="moments", delta=1e-6)
    products = []
    for X, y in ((rows[["a", "b"]], rows["y"]), (table[["a", "b"]], table["y"])):
        model = make_pipeline(*steps, ridge).fit(X, y)
        products.append(np.abs(model[-1].moments_.values[:-1, -1]).max())
    assert products[0] == pytest.approx(products[1], rel=1e-6)
