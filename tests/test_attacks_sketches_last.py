"""Attacks on what carries sketches: wrong estimators that the contract let pass, files, frames, dask, and routing."""
# ruff: noqa: D101, D102

import re
import warnings
from collections import Counter
from dataclasses import replace
from secrets import randbits

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import log_ndtr, ndtr
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils.validation import validate_data

from skdprp import (
    DPOPORP,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    PublicScaler,
    compose,
    iDPSignRP,
    load_release,
    privacy_report,
    save_release,
    transform_chunks,
)
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.sketch._base import BaseSketch
from skdprp.testing import _private_checks
from skdprp.testing._tape import same_tape, tape_of

X = np.random.default_rng(0).normal(size=(24, 6))


# Estimators of others that break a rule which the contract lists


def finite(estimator, X, **options):
    """Validate as a careful third party does: no error quotes a value."""
    try:
        X = validate_data(estimator, X, dtype=np.float64, **options)
    except (TypeError, ValueError):
        raise ValueError("X has to be a table of numbers.") from None
    X = X.toarray() if sp.issparse(X) else X
    if not np.isfinite(X).all():
        raise ValueError("X has to be finite.")
    return X


class Means(BaseEstimator):
    """Means of columns between -bound and bound, which keep the contract."""

    def __init__(self, *, epsilon=1.0, delta=1e-6, bound=1.0):
        self.epsilon = epsilon
        self.delta = delta
        self.bound = bound

    def fit(self, X, y=None):
        X = self.looked_at(finite(self, X))
        sums = np.clip(X, -self.bound, self.bound).sum(axis=0)
        options = {"epsilon": self.epsilon, "delta": self.delta, "max_change": self.sensitivity(X)}
        mechanism = DPRandomProjection(projection="identity", adjacency="l2", **options).fit([sums])
        facts = {"released": "the mean of each column", "mechanism": "Gaussian mechanism", "not_covered": ()}
        guarantee = replace(
            mechanism.guarantee_, adjacency=Adjacency("replace_one"), per="fit", hidden_changes=None, loss=None, **facts
        )
        with entry(guarantee, type(self).__name__):
            means = self.with_noise(mechanism, sums) / len(X)
        self.means_, self.guarantee_ = means, guarantee
        return self

    def looked_at(self, X):
        return X

    def sensitivity(self, X):
        return 2 * float(self.bound) * X.shape[1] ** 0.5

    def with_noise(self, mechanism, sums):
        return mechanism.transform([sums])[0]


class Noisy(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Rows with noise at each call of transform, which keep the contract."""

    def __init__(self, *, epsilon=1.0, max_change=1.0):
        self.epsilon = epsilon
        self.max_change = max_change

    def fit(self, X, y=None):
        X = finite(self, X, accept_sparse="csr")
        options = {"epsilon": self.epsilon, "max_change": self.max_change}
        self.mechanism_ = DPRandomProjection(projection="identity", **options).fit(np.zeros((1, X.shape[1])))
        self.guarantee_ = self.mechanism_.guarantee_
        return self

    def transform(self, X):
        return self.with_noise(self.looked_at(finite(self, X, accept_sparse="csr", reset=False)))

    def looked_at(self, X):
        return X

    def with_noise(self, X):
        return self.mechanism_.transform(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Sums(RegressorMixin, Means):
    """Predicts the sum of the means, and keeps the contract."""

    def predict(self, X):
        return np.full(len(finite(self, X, reset=False)), self.means_.sum())


class QuotesTheLargest(Means):
    def looked_at(self, X):
        if np.abs(X).max() > 100:
            raise ValueError(f"An entry is {np.abs(X).max():.6g}, above 100: scale X.")
        return X


class QuotesTheMeanOfRows(Noisy):
    def looked_at(self, X):
        if np.abs(X).max() > 100:
            raise ValueError(f"The mean is {X.mean():.6g}: scale X.")
        return X


class QuotesTheMeanTarget(Sums):
    def fit(self, X, y=None):
        if np.ndim(y) > 1:
            raise ValueError(f"Targets in one column are wanted, whose mean would be {np.mean(y):.6g}.")
        return super().fit(X)


class CountsRowsThatAreNotFinite(Means):
    def fit(self, X, y=None):
        if isinstance(X, np.ndarray) and X.dtype == np.float64 and not np.isfinite(X).all():
            raise ValueError(f"{(~np.isfinite(X)).sum()} numbers are not finite.")
        return super().fit(X)


class WarnsOfEmptyRows(Means):
    def looked_at(self, X):
        if not X.any(axis=1).all():
            warnings.warn("Some rows are empty.", stacklevel=3)
        return X


class KeepsABatch(Means):
    def looked_at(self, X):
        self._batch = X[np.random.default_rng().permutation(len(X))[:10]]
        return X


class KeepsAnExample(Means):
    def looked_at(self, X):
        self.example_ = X[randbits(32) % len(X)].copy()
        return X


class KeepsATarget(Sums):
    def fit(self, X, y=None):
        self._target = float(y[randbits(32) % len(y)])
        return super().fit(X)


class KeepsTheMeanOfSomeRows(Noisy):
    def fit(self, X, y=None):
        super().fit(X)
        rows = finite(self, X, accept_sparse="csr")
        self._centre = rows[np.random.default_rng().permutation(len(rows))[:20]].mean(axis=0)
        return self


class CountsWhatItClips(Means):
    def looked_at(self, X):
        self.n_clipped_ = int((np.abs(X) > self.bound).sum())
        return X


class CountsEmptyRows(Means):
    def looked_at(self, X):
        self.n_empty_ = int((~X.any(axis=1)).sum())
        return X


class DropsEmptyRows(Noisy):
    def looked_at(self, X):
        return X[X.any(axis=1)]


class ClipsByTheParameterOfNow(Noisy):
    """A row is within max_norm, and so two are 2 max_norm apart, while the noise is that of the fit."""

    def __init__(self, *, epsilon=1.0, max_norm=0.5):
        self.epsilon = epsilon
        self.max_norm = max_norm

    @property
    def max_change(self):
        return 2 * self.max_norm

    def looked_at(self, X):
        norms = np.abs(X).sum(axis=1, keepdims=True)
        return X * np.minimum(1, self.max_norm / np.where(norms > 0, norms, 1))


class StatesTheDeltaOfNow(Means):
    @property
    def guarantee_(self):
        if not hasattr(self, "_stated"):
            raise AttributeError
        return self._stated if self.delta == self._stated.delta else replace(self._stated, delta=float(self.delta))

    @guarantee_.setter
    def guarantee_(self, guarantee):
        self._stated = guarantee


class DrawsOppositeNoise(Means):
    """The first half of the columns and the other one have the same noise, with opposite signs: sums have none."""

    def with_noise(self, mechanism, sums):
        half = len(sums) // 2
        noise = DPRandomProjection(projection="identity", **self.options(mechanism)).fit(np.zeros((1, half)))
        drawn = noise.transform(np.zeros((1, half)))[0]
        return sums + np.concatenate([drawn, -drawn])

    def options(self, mechanism):
        names = ("epsilon", "delta", "max_change", "adjacency")
        return {name: getattr(mechanism, name) for name in names}


class OwnNoise(Noisy):
    """Noise of its own, of which the contract sees what comes out; it keeps the contract."""

    def with_noise(self, X):
        with entry(self.guarantee_, type(self).__name__):
            noise = np.random.default_rng(randbits(256)).normal(size=X.shape)
            return np.rint((X + self.scale() * noise) * 256) / 256  # the lowest bits of a float tell of a row

    def scale(self):
        return self.mechanism_.scale_


class DrawsTheNoiseOfNow(OwnNoise):
    def scale(self):
        return 4.3 * self.max_change / self.epsilon


class DropsEmptyRowsFromItsNoise(OwnNoise):
    def looked_at(self, X):
        return X[X.any(axis=1)]


class CentresByOtherRows(OwnNoise):
    """On rows alone, among others, and last."""

    def looked_at(self, X):
        return X - X.mean(axis=0)


OF_FRESH_NOISE = ("calls", "copies", "folds", "processes", "seeds", "threads", "types")  # which all of them pass


def complaint_about(estimator):
    """What the first check of the contract that fails says, of those that one of these might not pass."""
    for name, check in _private_checks(estimator):
        if not name.startswith(OF_FRESH_NOISE):
            try:
                check()
            except AssertionError as error:
                return str(error)
    return ""


@pytest.mark.parametrize("estimator", [Means(), Sums(), Noisy(), OwnNoise()], ids=lambda one: type(one).__name__)
def test_what_the_wrong_ones_derive_from_passes(estimator):
    """Each of them differs from one of these in one thing only."""
    assert complaint_about(estimator) == ""


def test_the_contract_catches_noise_with_two_signs():
    """Columns that share their noise with opposite signs: an audit tells their sums apart."""
    assert "epsilon >=" in complaint_about(DrawsOppositeNoise())


@pytest.mark.parametrize(
    "estimator",
    [
        # Errors are compared between data whose largest entry and mean differ: reversed rows have the same ones.
        QuotesTheLargest(),
        QuotesTheMeanOfRows(),
        QuotesTheMeanTarget(),
        CountsRowsThatAreNotFinite(),
        # What differs between fits is no noise if it has the numbers of a row.
        KeepsABatch(),
        KeepsAnExample(),
        KeepsATarget(),
        KeepsTheMeanOfSomeRows(),
        # Some data have an empty row, and one beyond all bounds.
        CountsWhatItClips(),
        CountsEmptyRows(),
        WarnsOfEmptyRows(),
        DropsEmptyRows(),
        DropsEmptyRowsFromItsNoise(),
        # All numbers among the parameters are set after a fit, also where fit releases.
        ClipsByTheParameterOfNow(),
        DrawsTheNoiseOfNow(),
        StatesTheDeltaOfNow(),
        # Other rows are so large that the noise of the one in question does not hide them.
        CentresByOtherRows(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_contract_catches_what_it_says_that_it_checks(estimator):
    """Errors, attributes, parameters after the fit, shared noise and other rows are on its list."""
    assert complaint_about(estimator) != ""


# Distances are those of rows as they reach a sketch


def neighbours_in(guarantee):
    """Who the neighbours are, as it is printed."""
    return " ".join(re.search(r"^neighbours(.*?)^\w", str(guarantee), re.DOTALL | re.MULTILINE)[1].split())


def gaussian_delta(epsilon, mu):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def test_the_guarantee_of_a_sketch_in_a_pipeline_does_not_speak_of_the_rows_that_enter_it():
    """One coordinate that changes by 1 moves the rows behind the scaler by 100: delta is near 1 where 1e-6 is printed.

    A ledger says "as they reach each release", and a report names the scaler. The guarantee of the sketch itself, which
    `pipeline[-1].guarantee_` prints and a release file has, speaks of rows at a distance, and assumes of earlier steps
    only that they were not fitted on the rows.
    """
    pipeline = make_pipeline(PublicScaler((0, 1), feature_range=(0, 100)), DPOPORP(4)).fit(np.abs(X))
    sketch, rows = pipeline[-1], np.zeros((2, 6))
    rows[1, 0] = 1.0
    apart = np.linalg.norm(np.diff(sketch.project_queries(pipeline[:-1].transform(rows)), axis=0))
    stated = sketch.guarantee_
    assert stated.delta <= 1e-6 and gaussian_delta(stated.epsilon, apart / sketch.scale_) > 0.999
    assert re.search("as they (reach|leave)", neighbours_in(stated))


def test_guarantees_of_sketches_that_saw_differently_scaled_rows_have_no_total_for_rows(tmp_path):
    """Reports on both pipelines do not compose; the guarantees of their sketches in files did, for rows 1 apart."""
    maps = [PublicScaler((0, 1), feature_range=(0, high)) for high in (1, 100)]
    pipelines = [make_pipeline(scaler, DPOPORP(4)).fit(np.abs(X)) for scaler in maps]
    with pytest.raises(ValueError, match="different neighbours"):
        compose(*(privacy_report(pipeline).total for pipeline in pipelines))
    released = []
    for pipeline in pipelines:
        save_release(tmp_path / "release.npz", pipeline.transform(np.abs(X)), pipeline[-1])
        released.append(load_release(tmp_path / "release.npz").guarantee)
    try:
        total = compose(*released)
    except ValueError:
        return
    assert re.search("as they (reach|leave)", neighbours_in(total))


# Attributes that were set after the fit


def test_no_release_is_recorded_under_the_guarantee_of_another_sketch():
    """Noise, projection and parameters that were set after the fit are refused; the guarantee, set by audits, is not.

    With the guarantee of a sketch of epsilon 0.01, one of epsilon 50 was reported, and entered into a ledger, at 0.01.
    """
    strong, weak = (DPOPORP(4, epsilon=epsilon).fit(X) for epsilon in (0.01, 50.0))
    mu = weak.sensitivity_ / weak.scale_
    weak.guarantee_ = strong.guarantee_
    totals = []
    try:
        with PrivacyLedger() as ledger:
            weak.transform(X)
        totals.append(ledger.total()[0].guarantee)
        totals.append(privacy_report(weak).private)
    except ValueError:
        pass
    assert all(total is None or gaussian_delta(total.epsilon, mu) <= total.delta * (1 + 1e-6) for total in totals)


# Files


@pytest.mark.parametrize(
    "sketch",
    [
        DPRandomProjection(projection="identity"),
        DPOPORP(8, noise="laplace"),
        DPRandomProjection(16),
        DPRandomProjection(8, projection="count_sketch"),
    ],
    ids=lambda sketch: sketch.get_params().get("projection", "oporp"),
)
def test_no_file_states_a_guarantee_of_plain_counts(sketch, tmp_path):
    """Plain projections are off the grid of the noise, says a comment; those of whole numbers are on it.

    All of 40 rows of counts are multiples of 2^6 steps of the grid or more, which noise is less than once in 10^500.
    """
    counts = np.random.default_rng(0).integers(0, 9, size=(40, 30)).astype(float)
    sketch = clone(sketch).fit(counts)
    save_release(tmp_path / "released.npz", sketch.transform(counts), sketch)
    with pytest.raises(ValueError, match="does not release"):
        save_release(tmp_path / "plain.npz", sketch.project_queries(counts), sketch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(np.int8(4), epsilon=np.array(0.5), delta=np.float32(1e-6)),
        DPOPORP(4, noise=np.str_("laplace")),
        DPRandomProjection(4, projection="very_sparse", density=1e-12),
        DPSignRP(4, projection="very_sparse", density=1e-12, adjacency="coordinate"),
        DPSignRP(64, method="rr", projection="gaussian", delta=1e-6, min_norm=1e-3, calibration="published"),
        DPSignOPORP(12, n_repeats=3, adjacency="l2"),
        DPSignOPORP(4, epsilon=1e300, output="packed"),
        DPOPORP(4, epsilon=1e4),
        iDPSignRP(4, projection="oporp", method="rr"),
    ],
    ids=repr,
)
def test_odd_sketches_come_back_with_the_text_that_was_stated_of_them(sketch, tmp_path):
    """Scalars of numpy, projections of zeros, epsilons that no noise reaches, packed bits and published bounds."""
    sketch = clone(sketch).fit(X)
    save_release(tmp_path / "release.npz", sketch.transform(X), sketch)
    assert str(load_release(tmp_path / "release.npz").guarantee) == str(sketch.guarantee_)


# Frames


def test_sketches_stand_beside_other_columns_of_their_own_rows():
    """A sketch numbers its rows from 0, and pandas joins branches by the index: shuffled rows met others' sketches."""
    order = np.random.default_rng(0).permutation(len(X))
    frame = pd.DataFrame(X, columns=list("abcdef"), index=order)
    sketch = DPRandomProjection(projection="identity", epsilon=10.0, delta=1e-6, max_change=1e-6)
    columns = ColumnTransformer([("plain", "passthrough", ["a"]), ("sketch", sketch, ["a"])])
    try:
        joined = columns.set_output(transform="pandas").fit_transform(frame).to_numpy()
    except ValueError:
        return
    assert np.allclose(joined[:, 0], X[:, 0]) and np.allclose(joined[:, 1], X[:, 0], atol=1e-3)


# What held


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
        S = DPOPORP(4).fit(X).transform(da.from_array(X, chunks=(8, 6)))
        other = OF_LAZY_SKETCHES[made](da, S)
        assert not ledger.entries
        dask.compute(S, other, (S, other), scheduler="sync")
    assert len(ledger.entries) == 3


def weighted():
    return LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


def search_of(model, grid=None, **options):
    scoring = get_scorer("accuracy").set_score_request(sample_weight=True)  # no score of a pipeline's own before 1.7
    return GridSearchCV(model, grid or {}, cv=KFold(3), scoring=scoring, **options)


ROUTED = {
    "search": lambda: search_of(
        make_pipeline(DPOPORP(4), weighted()), {"logisticregression__C": [1, 2]}, return_train_score=True
    ),
    "frozen": lambda: search_of(make_pipeline(FrozenEstimator(DPOPORP(4).fit(X)), weighted())),
    "union": lambda: search_of(make_pipeline(make_union(DPOPORP(4), DPOPORP(4)), weighted())),
    "columns": lambda: search_of(
        make_pipeline(ColumnTransformer([("a", DPOPORP(2), [0, 1]), ("b", DPOPORP(2), [0, 2])]), weighted())
    ),
    "votes": lambda: make_pipeline(
        VotingClassifier([(name, make_pipeline(DPOPORP(4), weighted())) for name in "ab"]), weighted()
    ),
}


@pytest.mark.parametrize("model", ROUTED)
def test_rows_are_sketched_as_often_as_a_report_says_where_metadata_are_routed(model, monkeypatch):
    """Weights that are routed through searches, unions and ensembles, to fits and to scores."""
    counts, released = Counter(), BaseSketch.transform

    def transform(self, rows):
        counts.update(rows[:, 0].tolist())
        return released(self, rows)

    monkeypatch.setattr(BaseSketch, "transform", transform)
    with config_context(enable_metadata_routing=True), PrivacyLedger() as ledger:
        fitted = ROUTED[model]()
        fitted.fit(X, np.arange(24) % 2, sample_weight=np.ones(24))
    report = privacy_report(fitted, ledger=ledger)
    assert sum(step.releases for step in report.steps) == max(counts.values())
    assert report.private is not None and "see its total" not in str(report.not_covered)


def chain(error):
    while error is not None:
        yield f"{error!r} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__


SECRET = "s3cr3t"


class Unreadable:
    def __float__(self):
        raise ValueError(SECRET)


def with_cell(cell, form=np.asarray):
    rows = X.astype(object)
    rows[3, 2] = cell
    return form(rows)


FAULTY = {
    "text": with_cell(SECRET),
    "a list": with_cell(SECRET).tolist(),
    "a frame": with_cell(SECRET, pd.DataFrame),
    "an object": with_cell(Unreadable()),
    "ragged": [*X[:-1].tolist(), [777.5]],
    "records": np.array([(SECRET, 1.0)] * 9, dtype=[("a", "U9"), ("b", "f8")]),
    "dictionaries": [{SECRET: 1}] * 9,
    "huge": with_cell(777e300, lambda rows: rows.astype(float)),
    "integers": [[10**400] * 6] * 9,
}


@pytest.mark.parametrize("fault", FAULTY)
def test_no_link_of_the_chain_of_an_error_quotes_a_cell(fault):
    """Causes, suppressed contexts and notes, of what sketches alone, in chunks and in pipelines refuse."""
    sketches = DPOPORP(4).fit(X), DPSignRP(4, method="rr", projection="gaussian", delta=1e-6, min_norm=0.1).fit(X)
    pipeline = make_pipeline(PublicScaler((-9, 9)), DPOPORP(4)).fit(X)
    for sketch in sketches:
        for refuse in (
            sketch.transform,
            clone(sketch).fit_transform,
            lambda rows, sketch=sketch: transform_chunks(sketch, [X[:8], rows]),
            pipeline.transform,
        ):
            try:
                refuse(FAULTY[fault])
            except Exception as error:
                assert not any(SECRET in text or "777" in text for text in chain(error))


@pytest.mark.parametrize(
    "options",
    [
        {"array_api_dispatch": True},
        {"assume_finite": True, "skip_parameter_validation": True},
        {"transform_output": "pandas"},
        {"working_memory": 1, "enable_metadata_routing": True},
    ],
    ids=str,
)
def test_no_configuration_changes_what_reaches_the_noise(options):
    """Those of scikit-learn, for rows in any form, to the last bit."""
    for sketch in (DPOPORP(4), DPSignOPORP(4), DPRandomProjection(4, projection="gaussian")):
        sketch.fit(X)
        for rows in (X, X.astype(np.float32), sp.csr_array(X), X.tolist()):
            tape = tape_of(lambda rows=rows, sketch=sketch: sketch.transform(rows))
            try:
                with config_context(**options):
                    other = tape_of(lambda rows=rows, sketch=sketch: sketch.transform(rows))
            except (ImportError, RuntimeError):  # the array API of scipy has to be on before it is imported
                return
            assert same_tape(tape, other, share=0)


def test_no_number_of_a_row_makes_a_warning():
    """Numbers beyond floats, subnormal ones and negative zeros, in arrays of several types, at fit and at transform."""
    values = [np.longdouble("1e4000"), np.longdouble("1e-4900"), np.longdouble(5e-324), np.longdouble(-0.0)]
    for value in values:
        rows = X.astype(np.longdouble)
        rows[2, 2] = value
        for form in (rows, rows.astype(object), sp.csr_array(rows)):
            for sketch in (DPOPORP(4), DPSignOPORP(4), iDPSignRP(4)):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for release in (sketch.fit, lambda rows, sketch=sketch: sketch.fit(X).transform(rows)):
                        try:
                            release(form)
                        except ValueError as error:
                            assert "infinity" in str(error) or "large" in str(error)
