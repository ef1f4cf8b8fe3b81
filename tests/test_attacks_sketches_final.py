"""Attacks on what sketches have beside them: branches that write, what is frozen, indices that get lost, and files."""
# ruff: noqa: D101, D102

import json
import pickle
import random
import warnings
from collections import Counter
from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.fft
from joblib import Memory
from scipy.special import log_ndtr, ndtr
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures, binarize, normalize

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
    DPSearchCV,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyGuarantee,
    ProductNoiseOutputPerturbation,
    PublicBinner,
    PublicScaler,
    compose,
    iDPSignRP,
    load_model,
    privacy_report,
    save_model,
    save_release,
    transform_chunks,
)
from skdprp.similarity import SketchNeighbors
from skdprp.sketch._base import BaseSketch

X = np.random.default_rng(0).uniform(-0.3, 0.3, size=(24, 6))
Y = np.arange(24) % 2


def gaussian_delta(epsilon, mu):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


@pytest.fixture
def sketched(monkeypatch):
    """Rows as they reach each release of a sketch."""
    rows, release = [], BaseSketch._release

    def released(sketch, X, dtype):
        rows.append(np.array(X))
        return release(sketch, X, dtype)

    monkeypatch.setattr(BaseSketch, "_release", released)
    return rows


# Branches that write over the rows which the next one sketches


def of_function(function, **known):
    return lambda: FunctionTransformer(function, kw_args=known)


WRITERS = {
    "normalize": of_function(normalize, copy=False),
    "binarize": of_function(binarize, copy=False),
    "dct": of_function(scipy.fft.dct, overwrite_x=True),
    "a frozen pipeline": lambda: FrozenEstimator(make_pipeline(Normalizer(copy=False)).fit(np.eye(2))),
    "a function of one's own": lambda: FunctionTransformer(lambda rows: np.multiply(rows, 1000, out=rows)),
}


def beside_a_sketch(writer):
    """A private model on what a branch makes of rows, and on their sketches."""
    sketch = DPOPORP(2, max_change=2e-3, random_state=0)
    return make_pipeline(make_union(WRITERS[writer](), sketch), AMPClassifier(classes=[0, 1], delta=1e-6))


@pytest.mark.parametrize("writer", WRITERS)
def test_no_total_is_stated_where_a_branch_has_written_over_the_rows_that_the_next_one_sketches(writer, sketched):
    """Normalizer(copy=False) is refused a total; functions that write, and frozen pipelines of it, are not."""
    rows = np.full((24, 2), 1e-3) + np.random.default_rng(0).uniform(0, 1e-4, size=(24, 2))
    model = beside_a_sketch(writer).fit(rows.copy(), Y)
    report = privacy_report(model)
    moved = max(np.abs(one - rows).max() for one in sketched)
    said = any("writes" in text or "write over" in text for text in getattr(report.private, "assumptions", ()))
    assert moved == 0 or report.private is None or said


def test_neighbours_of_a_pipeline_are_not_told_apart_by_its_sketch_for_certain():
    """Rows .002 apart leave `normalize` 2 apart, and the sketch beside it: mu is 167 where epsilon 1.7 is printed."""
    a = np.full((24, 2), 1e-3)
    a[0] = 1e-3, 0
    b = a.copy()
    b[0] = 0, 1e-3
    model = beside_a_sketch("normalize").fit(a.copy(), Y)
    total, sketch = privacy_report(model).total, model[0].transformer_list[1][1]
    if total is None:
        return
    assert total.adjacency.bound >= np.abs(a - b).sum() and not total.adjacency.after
    means = [np.mean([model[0].transform(rows.copy())[0, 2:] for _ in range(20)], axis=0) for rows in (a, b)]
    mu = np.linalg.norm(means[0] - means[1]) / sketch.scale_ - 10  # far more than means of 20 draws are off
    assert mu <= 0 or gaussian_delta(total.epsilon, mu) <= total.delta


@pytest.mark.filterwarnings("ignore:.*ll-conditioned matrix")
def test_private_models_beside_one_that_writes_over_their_rows_have_no_sum(monkeypatch):
    """RidgeClassifier(copy_X=False) subtracts the means of all rows: one row moves all those that the next model sees.

    With copy=False, of steps that have that name for it, the sum is refused.
    """
    seen, fit = [], AMPClassifier.fit

    def fitted(model, X, y):
        seen.append(np.array(X))
        return fit(model, X, y)

    monkeypatch.setattr(AMPClassifier, "fit", fitted)
    for first in (0.0, 1e9):
        rows = X.copy()
        rows[0, 0] = first
        members = [("a", RidgeClassifier(copy_X=False)), ("b", AMPClassifier(classes=[0, 1], delta=1e-6))]
        voting = VotingClassifier(members).fit(rows, Y)
    assert np.array_equal(seen[0][1:], seen[1][1:]) or privacy_report(voting).private is None


# Sums of private steps, one of which is not known


class ReleasesTwice(DPOPORP):
    def transform(self, X):
        return (super().transform(X) + super().transform(X)) / 2


class SaysNotWhen(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.guarantee_ = replace(DPOPORP(3, epsilon=50.0).fit(X).guarantee_, per=None)
        return self

    def transform(self, X):
        return X


def fitted_again():
    union = make_union(DPOPORP(3, epsilon=50.0), DPSignOPORP(3, epsilon=0.1, adjacency="l1"))
    union.fit_transform(X)
    return union.set_params(dpoporp__epsilon=0.2)


UNKNOWN = {
    "a sketch that was fitted before": fitted_again,
    "a subclass of a sketch": lambda: make_union(ReleasesTwice(3, epsilon=50.0), DPSignOPORP(3, epsilon=0.1)),
    "one that does not say when it releases": lambda: make_union(SaysNotWhen(), DPSignOPORP(3, epsilon=0.1)),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_sum_of_private_steps_leaves_none_of_them_out(kind):
    """It is said to be None if it is not known, and is .1 where one of two private steps released at 50.

    Of sketches that were given lazy rows, or whose guarantee was set after the fit, there is none.
    """
    union = UNKNOWN[kind]()
    union.fit_transform(X)
    report = privacy_report(union)
    assert report.total is None and (report.private is None or report.private.epsilon >= 50)


# What is frozen


def with_frozen_scaler(**options):
    scaler = DPScaler(epsilon=50.0, delta=1e-6).fit(X)
    for name, value in options.items():
        setattr(scaler, name, value)
    return make_pipeline(FrozenEstimator(scaler), AMPClassifier(classes=[0, 1], delta=1e-6)).fit(X, Y)


def test_a_file_names_the_guarantee_of_each_private_step_frozen_ones_too(tmp_path):
    """Guarantees are said to be those of all private steps: of a scaler of epsilon 50 that is frozen there is none."""
    model = with_frozen_scaler()
    save_model(tmp_path / "model.npz", model)
    saved, report = load_model(tmp_path / "model.npz"), privacy_report(model)
    assert len(saved.guarantees) == sum(step.releases for step in report.steps) == 2
    assert compose(*saved.guarantees.values()).epsilon >= report.total.epsilon


def test_no_file_has_a_frozen_step_with_the_guarantee_of_another(tmp_path):
    """A guarantee that was set after the fit is refused, but where the step is frozen."""
    strong = DPScaler(epsilon=0.01, delta=1e-6).fit(X).guarantee_
    with pytest.raises(ValueError, match="set after the fit"):
        save_model(tmp_path / "model.npz", with_frozen_scaler(guarantee_=strong))


def test_a_frozen_model_below_another_threshold_is_a_private_model(tmp_path):
    """It is refused with "holds no private model", which it does."""
    frozen = FrozenEstimator(AMPClassifier(classes=[0, 1], delta=1e-6).fit(X, Y))
    save_model(tmp_path / "model.npz", FixedThresholdClassifier(frozen).fit(X, Y))


# Files of sketches


def test_no_file_states_a_guarantee_of_plain_counts_that_float32_rounds_above_the_grid(tmp_path):
    """Populations of 131,072 or more lie 1/64 apart in float32, which is more than the grid: none is looked at.

    All of 1000 are multiples of 64 such steps, which noise of 4 is less than once in 10^1000.
    """
    counts = np.random.default_rng(0).integers(2**17, 2**18, size=(200, 5)).astype(np.float32)
    sketch = DPRandomProjection(projection="identity").fit(counts)
    save_release(tmp_path / "released.npz", sketch.transform(counts), sketch)
    with pytest.raises(ValueError, match="does not release"):
        save_release(tmp_path / "plain.npz", counts, sketch)


# What held: guarantees that were set after the fit


FITTED = {
    "logistic": lambda: AMPClassifier(epsilon=5.0, classes=[0, 1], delta=1e-6).fit(X, Y),
    "output": lambda: ProductNoiseOutputPerturbation(epsilon=5.0, classes=[0, 1], delta=1e-6).fit(X, Y),
    "ridge": lambda: DPRidge(epsilon=5.0, target_bounds=(0, 1)).fit(X, Y),
    "entries": lambda: MIDPRegressor().fit(X, Y / 2),
    "directions": lambda: DPPCA(2, epsilon=5.0).fit(X),
    "moments": lambda: DPMoments(epsilon=5.0).fit(X),
    "counts": lambda: DPHistograms(epsilon=5.0).fit(X),
    "bins": lambda: DPBinner(epsilon=5.0).fit(X),
    "scales": lambda: DPScaler(epsilon=5.0).fit(X),
    "search": lambda: DPSearchCV(AMPClassifier(classes=[0, 1]), {"max_norm": [0.5, 1.0]}, epsilon=5.0, delta=1e-3).fit(
        X, Y
    ),
}
COPIES = {
    "itself": lambda model, path: model,
    "a pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "a copy": lambda model, path: copy(model),
    "a deep copy": lambda model, path: deepcopy(model),
    "a file": lambda model, path: save_model(path, model) or load_model(path).estimator,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FITTED)
def test_no_copy_of_a_model_is_reported_or_saved_under_the_guarantee_of_another(kind, tmp_path):
    """Pickles, copies and files keep what was stated, and what is set afterwards is no guarantee of theirs."""
    fitted = FITTED[kind]()
    for made in COPIES.values():
        model = made(fitted, tmp_path / "model.npz")
        assert privacy_report(model).private is not None
        model = copy(model)
        model.guarantee_ = replace(model.guarantee_, epsilon=0.01, loss=None)
        for reported in (model, FrozenEstimator(model), make_pipeline(PublicScaler((-1, 1)).fit(X), model)):
            assert privacy_report(reported).private is None
        with pytest.raises(ValueError, match="set after the fit"):
            save_model(tmp_path / "other.npz", model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(4, epsilon=0.3),
        DPSignOPORP(3, epsilon=0.1),
        DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=0.1),
        iDPSignRP(4),
        DPRandomProjection(4, projection="very_sparse", density=1e-12),
        DPOPORP(4, epsilon=1e4),
    ],
    ids=repr,
)
def test_a_guarantee_that_comes_back_from_json_is_the_one_that_was_stated(sketch):
    """Digits of losses, infinite numbers and sentences are those of before, and nothing true is refused."""
    sketch = clone(sketch).fit(X)
    sketch.guarantee_ = PrivacyGuarantee.from_dict(json.loads(json.dumps(sketch.guarantee_.to_dict())))
    sketch.transform(X + 1)
    assert privacy_report(sketch).steps[0].releases == 1


# What held: counts, maps, caches, searches


def composed(choose, depth, new):
    """A model with sketches at random places, each with an epsilon of its own."""

    def front(depth):
        further = [
            new,
            new,
            lambda: FunctionTransformer(),
            lambda: PublicScaler((-9, 9), feature_range=(-9, 9)),
            lambda: make_union(front(depth - 1), front(depth - 1)),
            lambda: ColumnTransformer(
                [("a", front(depth - 1), [0, 1]), ("b", front(depth - 1), [0, 2, 3])], sparse_threshold=0
            ),
            lambda: make_pipeline(front(depth - 1), front(depth - 1)),
            lambda: FrozenEstimator(front(depth - 1).fit(X, Y)),
            lambda: VotingClassifier([("a", model(depth - 1)), ("b", model(depth - 1))]),
        ]
        return choose.choice(further if depth else further[:4])()

    def model(depth):
        further = [
            lambda: make_pipeline(front(depth), LogisticRegression()),
            lambda: VotingClassifier([("a", model(depth - 1)), ("b", model(depth - 1))]),
            lambda: OneVsRestClassifier(model(depth - 1)),
            lambda: FrozenEstimator(model(depth - 1).fit(X, Y)),
            lambda: GridSearchCV(
                model(depth - 1),
                {},
                cv=choose.choice(
                    [KFold(2), ShuffleSplit(2), RepeatedKFold(n_splits=2, n_repeats=2), StratifiedKFold(2)]
                ),
                return_train_score=choose.choice([True, False]),
            ),
        ]
        return choose.choice(further if depth else further[:1])()

    return model(depth)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
def test_no_row_is_sketched_more_often_than_is_charged_wherever_a_sketch_stands(seed, monkeypatch):
    """Of 1381 models with a sum, as deep as 3, none had a row in more releases, and 1329 in as many as were charged."""
    choose, made, released, release = random.Random(seed), [], Counter(), BaseSketch._release
    places = {round(float(row[0]), 9): place for place, row in enumerate(X)}

    def counted(sketch, rows, dtype):
        for value in rows[:, 0]:  # sketches of sketches are no releases of rows
            if round(float(value), 9) in places:
                released[sketch.epsilon, places[round(float(value), 9)]] += 1
        return release(sketch, rows, dtype)

    def new():
        made.append(1 + len(made) / 64)
        return choose.choice([DPOPORP, DPSignOPORP])(3, epsilon=made[-1], random_state=choose.choice([None, 0]))

    monkeypatch.setattr(BaseSketch, "_release", counted)
    try:
        report = privacy_report(composed(choose, 2, new).fit(X, Y))
    except (ValueError, AttributeError):  # of what does not go together
        return
    if report.private is not None:
        charged = Counter()
        for step in report.steps:
            if step.releases:
                charged[step.guarantee.epsilon] += step.releases
        assert all(count <= charged[epsilon] for (epsilon, _), count in released.items())


MAPS = {
    "branches that change places": lambda which: ColumnTransformer(
        [("a", ["passthrough", "drop"][which], [0]), ("b", ["drop", "passthrough"][which], [1])], sparse_threshold=0
    ),
    "slices": lambda which: ColumnTransformer([("a", "passthrough", slice(which, which + 2))], sparse_threshold=0),
    "weights": lambda which: make_union(FunctionTransformer()).set_params(
        transformer_weights={"functiontransformer": 1.0 + which}
    ),
    "functions": lambda which: FunctionTransformer([np.exp, np.sinh][which]),
    "arguments": lambda which: FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 1 + which}),
    "norms": lambda which: Normalizer(["l1", "l2"][which]),
    "products": lambda which: PolynomialFeatures(2, interaction_only=bool(which)),
    "edges": lambda which: PublicBinner([[-0.1 - which / 10, 0.1]] * 6),
    "fills": lambda which: PublicScaler((-1, 1), fill=which / 2),
}


@pytest.mark.filterwarnings("ignore:n_components=2 is more than")
@pytest.mark.parametrize("kind", MAPS)
def test_sketches_behind_maps_that_differ_have_no_total(kind):
    """Whatever it is in which two maps differ, distances are those of rows as they leave the one or the other."""
    totals = [
        privacy_report(make_pipeline(MAPS[kind](which), DPSignOPORP(2, adjacency="l1", random_state=0)).fit(X)).total
        for which in (0, 1, 1)
    ]
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*totals[:2])
    assert compose(*totals[1:]).n_releases == 2


def test_no_cache_of_joblib_gives_a_release_again(tmp_path):
    """Methods, functions and sketches as arguments, for equal rows: a second release is one."""
    memory, sketch = Memory(tmp_path, verbose=0), DPOPORP(4, random_state=0).fit(X)
    for again in (
        lambda: memory.cache(sketch.transform)(X),
        lambda: memory.cache(DPOPORP.transform)(sketch, X),
        lambda: memory.cache(transform_chunks)(sketch, [X]),
    ):
        assert not np.array_equal(again(), again())


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
        ridge = DPRidge(epsilon=1e3, delta=1e-3, target_bounds=(0, 1), max_norm=2.0)
        model = make_pipeline(PublicScaler((0, 1)), ridge)
        reads.clear()
        assert np.allclose(model.fit(table[["a", "b"]], table["y"])[-1].coef_, [1, 0], atol=0.1)


def test_sketches_of_any_size_and_noise_can_be_searched():
    """Densities of components of one row, of one number, of noise that hides all and of noise that hides nothing."""
    rng = np.random.default_rng(0)
    for n, p, k in ((1, 1, 1), (2, 5, 3), (3, 3, 8), (40, 64, 16)):
        rows = rng.normal(size=(n, p))
        for epsilon in (1e-6, 0.01, 1.0, 1e4, 1e8):
            for change in (1e-30, 1.0, 1e30):
                for sketch in (
                    DPOPORP(k, epsilon=epsilon, max_change=change),
                    DPOPORP(k, epsilon=epsilon, max_change=change, noise="laplace"),
                    DPSignOPORP(k, epsilon=epsilon, max_change=change, output="packed"),
                ):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        sketches = sketch.fit(rows * change).transform(rows * change)
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")
                        found = SketchNeighbors(n_neighbors=1).fit(sketches, sketch=sketch)
                        assert np.isfinite(found.kneighbors(rows * change)[0]).all()
