"""Attacks on the contract of private estimators: noise that is off meanwhile, and what it overlooks."""
# ruff: noqa: D101, D102

import collections
import contextlib
import contextvars
import copy
import logging
import queue
import secrets
import sys
import threading
import tracemalloc
import types
import warnings
from dataclasses import replace
from secrets import randbits

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attacks import ELSEWHERE, X24_HALF, Y24, same_numbers
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

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
    DPSignOPORP,
    DPSignRP,
    PrivacyGuarantee,
    _noise,
    privacy_report,
)
from skdprp._noise import is_seeded
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.mechanisms import add_gaussian, add_laplace
from skdprp.testing import _freshness, _leaks, _private_checks, _storage, check_private_estimator
from skdprp.testing._contents import fingerprints

# Noise that is off while the contract is checked


def bystander():
    """A function that releases two rows, and says whether they left without noise."""
    X = np.arange(8.0).reshape(2, 4)
    sketch = DPOPORP(4, epsilon=0.1, random_state=0).fit(X)
    return lambda: np.array_equal(sketch.transform(X), sketch.projection_.project(X))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside threads, on purpose
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_releases_elsewhere_have_noise_while_the_contract_is_checked(elsewhere, monkeypatch):
    """Checks compare what reaches the noise, and to this end they took it off, for the whole process.

    Of 178 releases of another thread during one check_private_estimator, 29 were the projected rows themselves, under
    a guarantee of epsilon = 0.1; a process that was forked meanwhile never drew any noise again.
    """
    release, bare = bystander(), []
    monkeypatch.setattr(_storage, "_STORES", {"a list": _storage._STORES["a list"]})  # each is one more time

    class Watched(DPOPORP):
        def transform(self, X):
            bare.append(elsewhere(release))
            return super().transform(X)

    with contextlib.suppress(AssertionError):
        dict(_private_checks(Watched(4)))["storage_is_irrelevant"]()
    assert bare and not any(bare)


def test_two_contracts_that_are_checked_at_once_leave_the_noise_on(monkeypatch):
    """The second one began while the noise was off, and put that back when it ended: no release had noise any more.

    Two threads with check_private_estimator did this at the first or second time, and nothing said so.
    """
    for sampler in ("_add", "add_spherical", "flip"):
        monkeypatch.setattr(_noise, sampler, getattr(_noise, sampler))  # which this test puts back, whatever happens
    second_has_begun, first_has_ended = threading.Event(), threading.Event()

    class First(DPOPORP):
        def transform(self, X):
            if not second_has_begun.is_set():
                thread.start()
                second_has_begun.wait(60)
            return super().transform(X)

    class Second(DPOPORP):
        def transform(self, X):
            if not second_has_begun.is_set():
                second_has_begun.set()
                first_has_ended.wait(60)
            return super().transform(X)

    def check(estimator):
        with contextlib.suppress(AssertionError):
            dict(_private_checks(estimator))["storage_is_irrelevant"]()

    thread = threading.Thread(target=check, args=(Second(4),))
    check(First(4))
    first_has_ended.set()
    thread.join()
    assert not bystander()()


def test_noise_is_on_again_when_the_contract_has_been_checked():
    """Callbacks run in a copy of the context in which they were made, and there the tape had no end.

    Of an estimator that makes a task in `transform`, whatever the task released after the check left without noise.
    """
    contexts = []

    class Serving(DPOPORP):
        def transform(self, X):
            contexts.append(contextvars.copy_context())
            return super().transform(X)

    with contextlib.suppress(AssertionError):
        dict(_private_checks(Serving(4)))["storage_is_irrelevant"]()
    values = np.full(8, 0.125)
    assert contexts and not any(np.array_equal(context.run(add_gaussian, values, 1.0), values) for context in contexts)


# What the contract overlooks


FEW_FITS = 0.01  # an epsilon at which fewer fits prove that neighbours are told apart than at 1


@pytest.fixture
def wrong_in_every_call(monkeypatch):
    """Ask eight pairs of calls, in place of 64, whether they differ, of what differs by no chance."""
    monkeypatch.setattr(_leaks, "INTEGERS", 8)


@pytest.fixture
def kept_in_every_fit(monkeypatch):
    """Ask four fits of each neighbour, in place of some thirty, whether they keep what no noise ever changes."""
    monkeypatch.setattr(_leaks, "_fits_that_prove", lambda guarantee: 4)


KEPT = {
    "the keys of a dictionary": lambda X: dict.fromkeys(X.ravel().tolist(), True),
    "a list of the large ones": lambda X: [value for value in X.ravel().tolist() if value > 0.7],
    "a method of a list": lambda X: X.ravel().tolist().index,
    "a function": lambda X: lambda i: X[i],
}


@pytest.mark.usefixtures("kept_in_every_fit")
@pytest.mark.parametrize("kept", KEPT)
def test_the_contract_sees_rows_wherever_an_estimator_keeps_them(kept):
    """Its check of attributes compared parts that two neighbours have in common, and looked into no function.

    So check_private_estimator passed who keeps a whole column as the keys of a dictionary, as a vocabulary is kept.
    """

    class Keeping(DPOPORP):
        def transform(self, X):
            released = super().transform(X)
            self.kept_ = KEPT[kept](np.asarray(X))
            return released

    with pytest.raises(AssertionError, match="kept_"):
        contract_of(Keeping(4, epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows")()


def contract_of(estimator, name):
    return dict(_private_checks(estimator))[name]


class Stranger(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A sketch that is private as long as its parts are: rows with noise, which a sketch inside of it draws."""

    def __init__(self, *, epsilon=1.0, max_change=1.0):
        self.epsilon = epsilon
        self.max_change = max_change

    def validated(self, X, **options):
        try:
            X = validate_data(self, X, dtype=np.float64, **options)
        except (TypeError, ValueError):
            raise ValueError("X has to be a table of numbers.") from None
        if not np.isfinite(X).all():
            raise ValueError("X has to be finite.")
        return X

    def fit(self, X, y=None):
        X = self.validated(X)
        options = {"epsilon": self.epsilon, "max_change": self.max_change}
        self.mechanism_ = DPRandomProjection(projection="identity", **options).fit(np.zeros((1, X.shape[1])))
        self.guarantee_ = self.mechanism_.guarantee_
        self.learn(X)
        return self

    def transform(self, X):
        return self.with_noise(self.validated(X, reset=False))

    def learn(self, X):
        pass

    def with_noise(self, X):
        return self.mechanism_.transform(X)

    def noise(self, shape):
        return self.mechanism_.transform(np.zeros(shape))


class KeepsTheLargest(Stranger):
    def learn(self, X):
        self.largest_ = float(X.max())


class ScalesByTheLargest(Stranger):
    def learn(self, X):
        self.scale_ = float(np.abs(X).max())

    def with_noise(self, X):
        return super().with_noise(X / self.scale_)


class KeepsMedians(Stranger):
    def learn(self, X):
        self.medians_ = np.median(X, axis=0)


@pytest.mark.parametrize("kind", [KeepsTheLargest, ScalesByTheLargest, KeepsMedians])
def test_the_contract_sees_what_a_sketch_learns_from_its_rows(kind):
    """Its neighbours differed in one of six entries of the same size, so that the largest number stayed what it was.

    So check_private_estimator passed a sketch that scales all rows by the largest number of its fit, and keeps it.
    """
    with pytest.raises(AssertionError, match="tells one row from another"):
        contract_of(kind(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows")()


def with_attributes(thing, **attributes):
    vars(thing).update(attributes)
    return thing


KEPT_OUT_OF_SIGHT = {
    "a queue of the last rows": lambda X: collections.deque(X.tolist(), maxlen=10),
    "a view of memory": memoryview,
    "a generator": lambda X: (row for row in X.tolist()),
    "a read-only dictionary": lambda X: types.MappingProxyType({"first": X[-1, 0]}),
    "a queue of threads": lambda X: [one := queue.SimpleQueue(), one.put(X[-1, 0])][:1],
    "a class": lambda X: type("Kept", (), {"first": X[-1, 0]}),
    "an attribute of a list": lambda X: with_attributes(type("Labelled", (list,), {})(), first=X[-1, 0]),
    "an object in an array": lambda X: np.array([with_attributes(types.SimpleNamespace(), first=X[-1, 0])]),
    "an attribute that is also a part of pickles": lambda X: with_attributes(
        type("Kept", (), {})(), arguments=X[-1, 0]
    ),
}


@pytest.mark.usefixtures("kept_in_every_fit")
@pytest.mark.parametrize("kept", KEPT_OUT_OF_SIGHT)
def test_the_contract_sees_rows_in_what_it_cannot_look_into(kept):
    """What is no list, has no attributes and is not pickled by its state passed for empty."""

    class Keeping(Stranger):
        def learn(self, X):
            self.kept_ = KEPT_OUT_OF_SIGHT[kept](X)

    with pytest.raises(AssertionError, match="kept_"):
        contract_of(Keeping(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows")()


class KeepsOnItsClass(Stranger):
    def learn(self, X):
        type(self).kept_ = X[-1]


KEPT_ELSEWHERE = {}


class KeepsBehindAProperty(Stranger):
    @property
    def kept_(self):
        return KEPT_ELSEWHERE.get("row")

    def learn(self, X):
        KEPT_ELSEWHERE["row"] = X[-1].tolist()


@pytest.mark.parametrize("kind", [KeepsOnItsClass, KeepsBehindAProperty])
def test_the_contract_sees_attributes_that_a_sketch_has_from_its_class(kind):
    """Only what lies in the object itself was looked at, and not what its class gives it."""
    with pytest.raises(AssertionError, match="kept_"):
        contract_of(kind(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows")()


class KeepsSigns(Stranger):
    def with_noise(self, X):
        return np.copysign(super().with_noise(X), X)


class KeepsZeros(Stranger):
    def with_noise(self, X):
        return np.where(X == 0, 0.0, super().with_noise(X))


class KeepsWholeParts(Stranger):
    def with_noise(self, X):
        return np.floor(X) + super().with_noise(X - np.floor(X)) % 1


class QuarterOfTheNoise(Stranger):
    def with_noise(self, X):
        return super().with_noise(4 * X) / 4


class NowAndThenWithoutNoise(Stranger):
    def with_noise(self, X):
        is_plain = np.array([secrets.randbelow(50) == 0 for _ in X])
        return np.where(is_plain[:, None], X, super().with_noise(X))


@pytest.mark.parametrize("kind", [KeepsSigns, KeepsZeros, KeepsWholeParts, QuarterOfTheNoise, NowAndThenWithoutNoise])
def test_the_contract_audits_a_sketch_on_neighbours_that_tell_its_rows(kind):
    """Two entries of one sign, 3/8 apart where 1 was to be hidden, stood for all neighbours, at one small epsilon.

    So it passed sketches of sparse rows with noise on their nonzeros only, and one with epsilon 4.5 that says 1. At a
    quarter of that epsilon a delta of 2 in 100 is allowed, so that one row in 50 could leave as it is.
    """
    with pytest.raises(AssertionError, match="does not keep"):
        contract_of(kind(), "audit_refutes_nothing")()


class SharesNoiseInPairs(Stranger):
    def with_noise(self, X):
        noise = self.noise(X.shape)
        noise[2::2] = noise[1:-1:2]
        return X + noise


class SharesNoiseOfBlocks(Stranger):
    def with_noise(self, X):
        return X + np.resize(self.noise((64, X.shape[1])), X.shape)


@pytest.mark.parametrize("kind", [SharesNoiseInPairs, SharesNoiseOfBlocks])
def test_the_contract_sees_noise_that_any_two_rows_share(kind):
    """The first of 40 rows was compared with the others, and none of these with each other, or beyond one block."""
    with pytest.raises(AssertionError, match="one noise for several rows"):
        contract_of(kind(), "rows_and_classes_share_no_noise")()


@pytest.mark.parametrize("sketch", [DPSignOPORP(8, epsilon=30.0), DPSignRP(8, max_change=1e-4)], ids=repr)
def test_the_contract_takes_bits_that_are_hardly_ever_flipped_for_no_shared_noise(sketch):
    """It says that it fails whoever keeps a guarantee less than once in 10^9 runs, and failed these each time."""
    contract_of(sketch, "rows_and_classes_share_no_noise")()


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
        sums = self.sums(X, y)
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

    def clipped(self, X):
        return np.clip(X, -float(self.bound), float(self.bound))

    def sums(self, X, y):
        return self.clipped(X).sum(axis=0)

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


class OwnNoise(Noisy):
    """Noise of its own, of which the contract sees what comes out; it keeps the contract."""

    def with_noise(self, X):
        with entry(self.guarantee_, type(self).__name__):
            noise = np.random.default_rng(randbits(256)).normal(size=X.shape)
            return np.rint((X + self.scale() * noise) * 256) / 256  # the lowest bits of a float tell of a row

    def scale(self):
        return self.mechanism_.scale_


OF_FRESH_NOISE = ("calls", "copies", "folds", "processes", "seeds", "threads", "types")  # which all of them pass


@pytest.mark.parametrize("kind", [Means, Sums, Noisy, OwnNoise])
def test_what_the_wrong_ones_derive_from_passes(kind, monkeypatch):
    """Each of them differs from one of these in one thing only, and fails one of the checks that this one passes.

    All checks pass other means, other rows with noise of this library, and other noise of fits, in test_contract.py.
    """
    names = {name for wrong, name in [*LISTED, *UNTRIED, *AUDITED] if isinstance(wrong, kind)}
    if kind is OwnNoise:  # all others, too, but a few audits for the forms of a table
        names = [name for name, _ in _private_checks(kind()) if not name.startswith((*OF_FRESH_NOISE, "audit"))]
        stores = {name: _storage._STORES[name] for name in ("an array in columns", "a frame", "CSR")}
        monkeypatch.setattr(_storage, "_STORES", stores)
        monkeypatch.setattr(_storage, "_WHOLE_STORES", {})
        monkeypatch.setattr(_storage, "_SIGNED_STORES", {})
    assert names
    for name in names:
        contract_of(kind(), name)()


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


class ClipsNothing(Means):
    """Has noise of its own, of which only what comes out is compared."""

    def sums(self, X, y):
        return X.sum(axis=0)

    def with_noise(self, mechanism, sums):
        return _with_normal(sums, np.random.default_rng(randbits(256)), mechanism.scale_)


AUDITED = [(DrawsOppositeNoise(), "audit_refutes_nothing"), (ClipsNothing(), "audit_refutes_nothing")]


@pytest.mark.parametrize(("estimator", "name"), AUDITED, ids=[type(one).__name__ for one, _ in AUDITED])
def test_the_contract_catches_what_an_audit_shows(estimator, name):
    """Columns that share their noise with opposite signs, whose sums have none, and rows beyond all bounds."""
    with pytest.raises(AssertionError, match="epsilon >="):
        contract_of(estimator, name)()


class NoisyRows(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Rows with Laplace noise, and what is wrong with them."""

    def __init__(self, *, epsilon=1.0, max_change=1.0):
        self.epsilon, self.max_change = epsilon, max_change

    def fit(self, X, y=None):
        """State the guarantee, by parameters alone."""
        vars(self).pop("guarantee_", None)
        epsilon, max_change = float(self.epsilon), float(self.max_change)
        if not 0 < epsilon < np.inf:
            raise ValueError("epsilon has to be positive and finite.")
        self._read(X, reset=True)
        self.scale_, adjacency = 1.001 * max_change / epsilon, Adjacency("l1", max_change)
        facts = {"per": "transform", "released": "noisy rows", "mechanism": "Laplace mechanism"}
        self.guarantee_ = PrivacyGuarantee(epsilon, 0.0, adjacency=adjacency, **facts)
        return self

    def transform(self, X):
        """Release rows."""
        check_is_fitted(self, "guarantee_")
        rows = self._read(X, reset=False)
        if is_seeded():
            self.guarantee_ = self.guarantee_.mark_seeded()
        with entry(self.guarantee_, type(self).__name__):
            return self._spoiled(rows, add_laplace(np.clip(rows, -10, 10), self.scale_))

    def _read(self, X, *, reset):
        try:
            rows = validate_data(self, X, dtype=np.float64, reset=reset)
        except (TypeError, ValueError):
            raise ValueError("X has to be a table of finite numbers.") from None
        if not np.isfinite(rows).all():
            raise ValueError("X has to be finite.")
        return rows

    def _spoiled(self, rows, noisy):
        return noisy


def _signs(numbers):
    return np.where(numbers > 0, 1, -1).astype(np.int8)


class NoisySigns(NoisyRows):
    """Signs of noisy numbers."""

    def _spoiled(self, rows, noisy):
        return _signs(noisy)


@pytest.mark.parametrize("kind", [NoisyRows, NoisySigns])
def test_the_transformer_that_the_wrong_ones_derive_from_passes(kind):
    """Its noise is that of its guarantee; no audit has to catch any of them."""
    check_private_estimator(kind(), audit_options={"n_trials": 8})


class WithAColumnAsItIs(NoisyRows):
    """One column has no noise."""

    def _spoiled(self, rows, noisy):
        noisy[:, 5] = rows[:, 5]
        return noisy


class WithEmptyRowsAsTheyAre(NoisyRows):
    """Rows of zeros have no noise."""

    def _spoiled(self, rows, noisy):
        noisy[~rows.any(axis=1)] = 0.0
        return noisy


class InOrder(NoisyRows):
    """The order of what is released is that of the rows."""

    def _spoiled(self, rows, noisy):
        return noisy[np.argsort(rows[:, 0])]


class PlainAtTheFit(NoisyRows):
    """What a pipeline fits and transforms at once has no noise."""

    def fit_transform(self, X, y=None):
        """Return rows as they are."""
        super().fit_transform(X)
        return self._read(X, reset=False)


class SignsOfEmptyRowsAsTheyAre(NoisyRows):
    """Rows of zeros have no noise."""

    def _spoiled(self, rows, noisy):
        return np.where(rows.any(axis=1)[:, None], _signs(noisy), np.int8(-1))


class PlainSignsAtTheFit(NoisySigns):
    """What a pipeline fits and transforms at once has no noise."""

    def fit_transform(self, X, y=None):
        """Return signs as they are."""
        super().fit_transform(X)
        return _signs(self._read(X, reset=False))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (WithAColumnAsItIs, "every_number_has_noise"),
        (WithEmptyRowsAsTheyAre, "every_number_has_noise"),
        (InOrder, "everything_follows_from_releases"),
        (PlainAtTheFit, "every_number_has_noise"),
        (SignsOfEmptyRowsAsTheyAre, "every_number_has_noise"),
        (PlainSignsAtTheFit, "every_number_has_noise"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_the_contract_catches_what_is_released_beside_the_noise(kind, name):
    """Numbers without any noise tell two neighbours apart for certain."""
    with pytest.raises(AssertionError, match=f"^{name}: "):
        contract_of(kind(), name)()


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


class MarksWhatItClips(Means):
    def fit(self, X, y=None):
        super().fit(X)
        self.means_ = np.where(np.abs(finite(self, X)).max(axis=0) > self.bound, np.inf, self.means_)
        return self


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


LISTED = [
    # Errors are compared between data whose largest entry and mean differ: reversed rows have the same ones.
    (QuotesTheLargest(), "errors_tell_nothing_of_the_rows"),
    (QuotesTheMeanOfRows(), "errors_tell_nothing_of_the_rows"),
    (QuotesTheMeanTarget(), "errors_tell_nothing_of_the_rows"),
    (CountsRowsThatAreNotFinite(), "errors_tell_nothing_of_the_rows"),
    # What differs between fits is no noise if it has the numbers of a row.
    (KeepsABatch(), "attributes_hold_nothing_of_the_rows"),
    (KeepsAnExample(), "attributes_hold_nothing_of_the_rows"),
    (KeepsATarget(), "attributes_hold_nothing_of_the_rows"),
    (KeepsTheMeanOfSomeRows(), "attributes_hold_nothing_of_the_rows"),
    # Some data have an empty row, and one beyond all bounds.
    (CountsWhatItClips(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows"),
    (MarksWhatItClips(), "everything_follows_from_releases"),
    (CountsEmptyRows(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows"),
    (WarnsOfEmptyRows(), "warnings_point_at_the_caller"),
    (DropsEmptyRows(), "scales_tell_nothing_of_the_rows"),
    (DropsEmptyRowsFromItsNoise(), "other_rows_are_irrelevant"),
    # All numbers among the parameters are set after a fit, also where fit releases.
    (ClipsByTheParameterOfNow(), "parameters_set_after_fit_change_nothing"),
    (DrawsTheNoiseOfNow(), "parameters_set_after_fit_change_nothing"),
    (StatesTheDeltaOfNow(), "parameters_set_after_fit_change_nothing"),
    # Other rows are so large that the noise of the one in question does not hide them.
    (CentresByOtherRows(), "other_rows_are_irrelevant"),
]


@pytest.mark.usefixtures("wrong_in_every_call")
@pytest.mark.parametrize(
    ("estimator", "name"), LISTED, ids=lambda one: one if isinstance(one, str) else type(one).__name__
)
def test_the_contract_catches_what_it_says_that_it_checks(estimator, name):
    """Errors, attributes, parameters after the fit, shared noise and other rows are on its list."""
    with pytest.raises(AssertionError, match=f"^{name}: "):
        contract_of(estimator, name)()


def _released(sums, name, **known):
    """Release sums with the noise that an l2 sensitivity asks for, and return them with their guarantee."""
    mechanism = DPRandomProjection(projection="identity", adjacency="l2", **known).fit([sums])
    facts = {"adjacency": Adjacency("replace_one"), "per": "fit", "released": "sums", "assumptions": ()}
    guarantee = replace(mechanism.guarantee_, **facts)
    with entry(guarantee, name):
        return mechanism.transform([sums])[0], guarantee


class SumsOfClasses(ClassifierMixin, BaseEstimator):
    """Sums of the rows of each class that occurs, as scikit-learn names them."""

    def __init__(self, *, epsilon=1.0, delta=1e-6):
        self.epsilon, self.delta = epsilon, delta

    def fit(self, X, y):
        X, y = self._read(X, y)
        classes, rows = np.unique(y), np.clip(X, -1, 1)
        sums = np.concatenate([rows[y == label].sum(axis=0) for label in classes])
        known = {"epsilon": self.epsilon, "delta": self.delta, "max_change": 2 * X.shape[1] ** 0.5}
        noisy, guarantee = _released(sums, "SumsOfClasses", **known)
        self.classes_, self.sums_, self.guarantee_ = classes, noisy.reshape(len(classes), -1), guarantee
        return self

    def predict(self, X):
        """Predict the class of the largest product."""
        check_is_fitted(self)
        return self.classes_[(self._read(X, reset=False) @ self.sums_.T).argmax(axis=1)]

    def _read(self, *data, **options):
        try:
            with config_context(assume_finite=False):
                return validate_data(self, *data, dtype=np.float64, **options)
        except (TypeError, ValueError):
            raise ValueError("X has to be a table of finite numbers, and y a label for each row.") from None


def test_the_contract_does_not_take_the_labels_that_occur_for_public_ones():
    """Without a word of it in the guarantee, and in the report: one row alone may have a label."""
    one, other = (SumsOfClasses().fit(X24_HALF, y) for y in (Y24, np.where(np.arange(24) == 0, 2, Y24)))
    assert one.sums_.shape != other.sums_.shape
    assert not privacy_report(one).total.given
    with pytest.raises(AssertionError, match=r"^attributes_hold_nothing_of_the_rows: "):
        contract_of(SumsOfClasses(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows")()


class Clusters(ClusterMixin, BaseEstimator):
    """Noisy means of the rows around two public points, and labels of the rows, as clusterers of scikit-learn have."""

    def __init__(self, *, epsilon=1.0, delta=1e-6):
        self.epsilon, self.delta = epsilon, delta

    def fit(self, X, y=None):
        X = np.clip(self._read(X), -1, 1)
        is_high = X.sum(axis=1) > 0
        sums = np.concatenate([np.append(X[part].sum(axis=0), part.sum()) for part in (is_high, ~is_high)])
        known = {"epsilon": self.epsilon, "delta": self.delta, "max_change": 2 * (X.shape[1] + 1) ** 0.5}
        noisy, guarantee = _released(sums, "Clusters", **known)
        noisy = noisy.reshape(2, -1)
        self.cluster_centers_ = noisy[:, :-1] / np.maximum(noisy[:, -1:], 1)
        self.labels_, self.guarantee_ = self._labels(X), guarantee
        return self

    def predict(self, X):
        """Predict the nearer mean of each row."""
        check_is_fitted(self)
        return self._labels(np.clip(self._read(X, reset=False), -1, 1))

    def _labels(self, X):
        return np.square(X[:, None] - self.cluster_centers_).sum(axis=2).argmin(axis=1)

    _read = SumsOfClasses._read


def test_the_contract_does_not_take_labels_of_rows_for_noise_because_they_vary():
    """Two equal rows have equal labels, whatever the noise is: another row in the place of one shows."""
    tables = [np.vstack([[[one] * 6, [0.4] * 6], X24_HALF / 5]) for one in (0.4, -0.4)]
    labels = [np.array([Clusters(epsilon=5.0).fit(rows).labels_[:2] for _ in range(100)]) for rows in tables]
    differ = [np.count_nonzero(found[:, 0] != found[:, 1]) for found in labels]
    assert differ[0] == 0 < differ[1]
    with pytest.raises(AssertionError, match=r"^everything_follows_from_releases: "):
        contract_of(Clusters(), "everything_follows_from_releases")()


# Estimators of others whose faults show in other tables, or in other calls, than those that were tried


class TwoReleases(Means):
    """Sums of clipped rows and of their squares, each for half of the epsilon and delta, in one entry."""

    def fit(self, X, y=None):
        X = self.looked_at(finite(self, X))
        parts = self.parts(np.clip(X, -1, 1), X)
        half = {"epsilon": self.epsilon * self.share(), "delta": self.delta / 2, "adjacency": "l2"}
        first, second = (
            DPRandomProjection(projection="identity", max_change=change, **half).fit([sums]) for sums, change in parts
        )
        facts = {"adjacency": Adjacency("replace_one"), "per": "fit", "released": "sums", "not_covered": ()}
        whole = PrivacyGuarantee(float(self.epsilon), float(self.delta), mechanism="Gaussian mechanism", **facts)
        seeded = is_seeded()
        with entry(whole, type(self).__name__):
            self.sums_ = first.transform([parts[0][0]])[0]
            self.squares_ = second.transform([parts[1][0]])[0]
        self.guarantee_ = whole.mark_seeded() if seeded else whole
        return self

    def parts(self, clipped, X):
        d = X.shape[1] ** 0.5
        return (clipped.sum(axis=0), 2 * d), (np.square(clipped).sum(axis=0), d)

    def share(self):
        return 0.5


class SquaresWhatIsNotClipped(TwoReleases):
    def parts(self, clipped, X):
        sums, (_, change) = super().parts(clipped, X)
        return sums, (np.square(X).sum(axis=0), change)


class ScalesTheSecondByTheLargest(TwoReleases):
    def parts(self, clipped, X):
        sums, (squares, change) = super().parts(clipped, X)
        return sums, (squares, change * max(np.abs(clipped).max() ** 2, 0.01))


class SpendsTheEpsilonTwice(TwoReleases):
    def share(self):
        return 1.0


class NeedsLessForOneSign(Means):
    def sensitivity(self, X):
        return super().sensitivity(X) / (2 if X.min() >= 0 else 1)


class NeedsLessForFewClasses(ClassifierMixin, Means):
    def __init__(self, *, epsilon=1.0, delta=1e-6, bound=1.0, classes=(0, 1, 2)):
        super().__init__(epsilon=epsilon, delta=delta, bound=bound)
        self.classes = classes

    def fit(self, X, y):
        y = np.asarray(y)
        if y.ndim != 1 or len(y) != len(X) or not np.isin(y.astype(str), np.array(self.classes, dtype=str)).all():
            raise ValueError("y has to be one of classes for each row.")
        self._n_found = len(np.unique(y))
        super().fit(X)
        del self._n_found
        self.classes_ = np.array(self.classes)
        return self

    def sensitivity(self, X):
        return super().sensitivity(X) * (self._n_found / len(self.classes)) ** 0.5

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(finite(self, X, reset=False)))


class WarnsOfConstantColumns(Means):
    def looked_at(self, X):
        if (X[0] == X).all(axis=0).any():
            warnings.warn("Some columns are constant.", stacklevel=3)
        return X


class WarnsOfOneSign(Means):
    def looked_at(self, X):
        if X.min() >= 0:
            warnings.warn("Centre X.", stacklevel=3)
        return X


class WarnsOfPositiveTargets(Sums):
    def fit(self, X, y=None):
        super().fit(X)
        if np.min(y) >= 0:
            warnings.warn("A log link suits these targets.", stacklevel=2)
        return self


class WarnsOfOneSignByNoiseOfItsOwn(OwnNoise):
    def looked_at(self, X):
        if X.min() >= 0:
            warnings.warn("Centre X.", stacklevel=3)
        return X


class PrintsWhatItClips(Means):
    def looked_at(self, X):
        print(f"{(np.abs(X) > self.bound).sum()} numbers are clipped.")
        return X


class LogsTheLargest(Means):
    def looked_at(self, X):
        logging.getLogger("means").debug("largest %g", X.max())
        return X


class LogsToHandlersOfItsOwn(Means):
    """By a logger that passes nothing on to the root."""

    def looked_at(self, X):
        log = logging.getLogger("means.alone")
        log.propagate = False
        log.addHandler(logging.NullHandler())
        log.info("largest %g", X.max())
        return X


class WritesTheLargestOfItsOwnNoise(OwnNoise):
    def looked_at(self, X):
        sys.stderr.write(f"largest {np.abs(X).max():.3g}\n")
        return X


class KeepsAPeriod(Means):
    def fit(self, X, y=None):
        index = getattr(X, "index", None)
        self.period_ = () if index is None or callable(index) else (index.min(), index.max())
        return super().fit(X)


class KeepsTheLastGroup(Means):
    def fit(self, X, y=None, groups=None):
        self.last_ = None if groups is None else max(groups)
        return super().fit(X)


class CentresImages(NoisyRows):
    def _read(self, X, *, reset):
        rows = finite(self, X, reset=reset)
        return (rows if getattr(X, "dtype", None) != np.uint8 else X - np.uint8(128) + np.uint8(0)) - 128.0 * (
            getattr(X, "dtype", None) != np.uint8
        )


class ClipsToAListOfNow(NoisyRows):
    def __init__(self, *, epsilon=1.0, max_change=1.0, bounds=None):
        super().__init__(epsilon=epsilon, max_change=max_change)
        self.bounds = bounds

    def transform(self, X):
        low, high = np.transpose(self.bounds)
        return super().transform(np.clip(self._read(X, reset=False), low / 2, high / 2))


class WeighsByAListOfNow(NoisyRows):
    def __init__(self, *, epsilon=1.0, max_change=1.0, weights=None):
        super().__init__(epsilon=epsilon, max_change=max_change)
        self.weights = weights

    def transform(self, X):
        return super().transform(self._read(X, reset=False) * self.weights)


class MultipliesInTheTypeOfTheBound(Means):
    def sensitivity(self, X):
        return 2 * self.bound * X.shape[1] ** 0.5


class RepeatsItsNoiseAfterAThousandRows(NoisyRows):
    def _spoiled(self, rows, noisy):
        noise = noisy - np.clip(rows, -10, 10)
        return np.clip(rows, -10, 10) + np.resize(noise[:1000], noise.shape)


class CentresVeryMany(NoisyRows):
    def _read(self, X, *, reset):
        rows = super()._read(X, reset=reset)
        return rows - rows.mean(axis=0) if len(rows) > 1000 else rows


class SortsByIndex(NoisyRows):
    def transform(self, X):
        return super().transform(X.sort_index() if isinstance(X, pd.DataFrame) else X)


class DropsNamesThatStandTwice(Means):
    def fit(self, X, y=None):
        return super().fit(X[~X.index.duplicated()] if isinstance(X, pd.DataFrame) else X)


class ScoresWithNoise(Means):
    def score(self, X, y=None):
        """Return a noisy mean square."""
        square = np.square(finite(self, X, reset=False) - self.means_).mean()
        return -float(add_laplace(np.array([square]), 1e-3)[0])


class ClipsInPlaceAtOnce(Noisy):
    def fit_transform(self, X, y=None):
        if isinstance(X, np.ndarray) and X.flags.writeable and X.dtype == np.float64:
            np.clip(X, -0.5, 0.5, out=X)
        return self.fit(X).transform(X)


class Medians(Means):
    """With the noise of means."""

    def looked_at(self, X):
        return np.tile(np.median(np.clip(X, -float(self.bound), float(self.bound)), axis=0), (len(X), 1))


class CountsAboveTheMean(Means):
    """As if one row decided on itself alone."""

    def looked_at(self, X):
        X = np.clip(X, -float(self.bound), float(self.bound))
        return (X.mean(axis=0) < X).astype(np.float64)


class WeighsTheFirstMost(Means):
    """By weights of mean 1, as if none were larger."""

    def sums(self, X, y):
        weights = 0.9 ** np.arange(len(X))
        return weights / weights.mean() @ self.clipped(X)


class SumsASampleThatIsKnown(Means):
    """With the noise of a sample that nobody knows, but everybody can draw it."""

    def sums(self, X, y):
        return self.clipped(X)[np.random.RandomState(0).random_sample(len(X)) < 0.1].sum(axis=0)

    def sensitivity(self, X):
        return super().sensitivity(X) / 4


class WeighsAsItIsTold(Means):
    """As if all weights were 1."""

    def fit(self, X, y=None, sample_weight=None):
        self.weights = 1.0 if sample_weight is None else np.asarray(sample_weight)[:, np.newaxis]
        return super().fit(X)

    def sums(self, X, y):
        return np.sum(self.weights * self.clipped(X), axis=0)


class ScalesRobustly(Sums):
    """Clips rows less their median, which one row moves, and sums them by targets, that may have one sign."""

    def looked_at(self, X):
        low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
        return (X - middle) / (high - low + 1e-9)

    def sums(self, X, y):
        return np.clip(y, -1, 1) @ self.clipped(X)


class QuotesUnknownLabels(NeedsLessForFewClasses):
    def fit(self, X, y):
        y = np.asarray(y)
        if y.ndim == 1 and y.dtype.kind in "iu" and not np.isin(y, self.classes).all():
            raise ValueError(f"Labels {np.setdiff1d(y, self.classes).tolist()} are not in classes.")
        return super().fit(X, y)

    def sensitivity(self, X):
        return Means.sensitivity(self, X)


class QuotesTheLargestTarget(Sums):
    def fit(self, X, y=None):
        if np.asarray(y).dtype.kind == "f" and np.ndim(y) == 1 and np.abs(y).max() > 10:
            raise ValueError(f"The largest target is {np.abs(y).max():.6g}: scale y.")
        return super().fit(X)


class SeededByAParameter(Means):
    def __init__(self, *, epsilon=1.0, delta=1e-6, bound=1.0, seed=None):
        super().__init__(epsilon=epsilon, delta=delta, bound=bound)
        self.seed = seed

    def with_noise(self, mechanism, sums):
        if self.seed is None:
            return super().with_noise(mechanism, sums)
        return sums + mechanism.scale_ * np.random.default_rng(self.seed).normal(size=sums.shape)


class OneNoiseForAllJobs(Means):
    def __init__(self, *, epsilon=1.0, delta=1e-6, bound=1.0, n_jobs=None):
        super().__init__(epsilon=epsilon, delta=delta, bound=bound)
        self.n_jobs = n_jobs

    def with_noise(self, mechanism, sums):
        """Jobs that are other processes begin with copies of one generator."""
        halves, in_jobs = np.array_split(sums, 2), self.n_jobs not in (None, 1)
        first = np.random.default_rng(randbits(256))
        generators = [copy.deepcopy(first), copy.deepcopy(first)] if in_jobs else [first, first]
        return np.concatenate([_with_normal(*job, mechanism.scale_) for job in zip(halves, generators, strict=True)])


def _with_normal(sums, generator, scale):
    return np.rint((sums + scale * generator.normal(size=sums.shape)) * 256) / 256


UNTRIED = [
    (SquaresWhatIsNotClipped(), "noise_is_enough"),
    (SpendsTheEpsilonTwice(), "noise_is_enough"),
    (Medians(), "noise_is_enough"),
    (CountsAboveTheMean(), "noise_is_enough"),
    (WeighsTheFirstMost(), "noise_is_enough"),
    (SumsASampleThatIsKnown(), "noise_is_enough"),
    (WeighsAsItIsTold(), "noise_is_enough"),
    (ScalesRobustly(), "noise_is_enough"),
    (ScalesTheSecondByTheLargest(), "scales_tell_nothing_of_the_rows"),
    (NeedsLessForOneSign(), "scales_tell_nothing_of_the_rows"),
    (NeedsLessForFewClasses(), "scales_tell_nothing_of_the_rows"),
    (WarnsOfConstantColumns(), "warnings_point_at_the_caller"),
    (WarnsOfOneSign(), "warnings_point_at_the_caller"),
    (WarnsOfPositiveTargets(), "warnings_point_at_the_caller"),
    (WarnsOfOneSignByNoiseOfItsOwn(), "warnings_point_at_the_caller"),
    (PrintsWhatItClips(), "everything_follows_from_releases"),
    (LogsTheLargest(), "everything_follows_from_releases"),
    (LogsToHandlersOfItsOwn(), "everything_follows_from_releases"),
    (WritesTheLargestOfItsOwnNoise(epsilon=FEW_FITS), "attributes_hold_nothing_of_the_rows"),
    (KeepsAPeriod(), "names_of_people_are_kept_nowhere"),
    (KeepsTheLastGroup(), "names_of_people_are_kept_nowhere"),
    (CentresImages(), "storage_is_irrelevant"),
    (ClipsToAListOfNow(bounds=[(-10, 10)] * 6), "parameters_set_after_fit_change_nothing"),
    (WeighsByAListOfNow(weights=[1.0] * 6), "parameters_set_after_fit_change_nothing"),
    (MultipliesInTheTypeOfTheBound(), "types_of_parameters_are_irrelevant"),
    (RepeatsItsNoiseAfterAThousandRows(), "rows_and_classes_share_no_noise"),
    (SeededByAParameter(), "seeds_repeat_no_noise"),
    (OneNoiseForAllJobs(), "rows_and_classes_share_no_noise"),
    (CentresVeryMany(), "other_rows_are_irrelevant"),
    (SortsByIndex(), "storage_is_irrelevant"),
    (DropsNamesThatStandTwice(), "storage_is_irrelevant"),
    (ScoresWithNoise(), "ledgers_have_every_release"),
    (ClipsInPlaceAtOnce(), "rows_are_left_as_they_are"),
    (QuotesUnknownLabels(), "errors_tell_nothing_of_the_rows"),
    (QuotesTheLargestTarget(), "errors_tell_nothing_of_the_rows"),
]


@pytest.mark.usefixtures("wrong_in_every_call")
@pytest.mark.parametrize(("estimator", "name"), UNTRIED, ids=[type(one).__name__ for one, _ in UNTRIED])
def test_the_contract_catches_what_shows_in_other_tables_and_calls(estimator, name):
    """Later releases, tables of one sign, prints, other names, small types, very many rows: none was looked at."""
    with pytest.raises(AssertionError, match=name):
        contract_of(estimator, name)()


class RefusesConstantColumns(Means):
    def looked_at(self, X):
        if (np.ptp(X, axis=0) == 0).any():
            raise ValueError("Some columns are constant.")
        return X


def test_what_raises_within_a_check_is_named_with_it():
    """It ended the checks with an error of its own, which named no check."""
    with pytest.raises(
        AssertionError, match="attributes_hold_nothing_of_the_rows: RefusesConstantColumns raises Value"
    ):
        contract_of(RefusesConstantColumns(), "attributes_hold_nothing_of_the_rows")()


@pytest.mark.parametrize("kind", [TwoReleases, QuotesUnknownLabels], ids=lambda kind: kind.__name__)
def test_what_these_derive_from_passes_where_they_fail(kind):
    """Two releases of half the epsilon each are no more than is guaranteed, and neither are public classes."""
    for name in ("noise_is_enough", "scales_tell_nothing_of_the_rows", "ledgers_have_every_release"):
        contract_of(kind(), name)()


# What ours hold beside what they release


def arrays_of(thing, depth=4):
    """Yield the arrays that an object holds, and those that they are views of."""
    if isinstance(thing, np.ndarray):
        while isinstance(thing, np.ndarray):
            yield thing
            thing = thing.base
    elif depth:
        parts = vars(thing).values() if hasattr(thing, "__dict__") else thing if isinstance(thing, list | tuple) else ()
        for part in parts:
            yield from arrays_of(part, depth - 1)


OF_RELEASES = [DPMoments(), DPPCA(2), DPBinner(4), DPScaler(), DPHistograms()]
OF_RELEASES += [DPRidge(target_bounds=(0, 1), mechanism=name) for name in ("moments", "projection", "descent")]


@pytest.mark.parametrize(
    "model", OF_RELEASES, ids=lambda model: f"{type(model).__name__}{model.get_params().get('mechanism', '')}"
)
def test_all_that_a_model_holds_follows_from_what_it_released(model, monkeypatch):
    """Where that is the same, so is all else, and what arrays are views of, whatever the rows are."""
    for name in ("add_gaussian", "add_laplace", "add_spherical"):
        monkeypatch.setattr(_noise, name, same_numbers)
    others = X24_HALF[::-1] * 7
    others[3], others[7] = 0.0, 1e8
    fits = [clone(model).set_params(delta=1e-6).fit(rows, y) for rows, y in ((X24_HALF, Y24), (others, 1 - Y24 / 3))]
    one, other = map(fingerprints, fits)
    unlike = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    assert unlike <= {"_unlike_any_other"}  # a name that each state has, for caches
    arrays = [list(arrays_of(fit)) for fit in fits]
    assert arrays[0]
    for one, other in zip(*arrays, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_array_of_a_model_is_a_view_of_what_is_no_release():
    """All numbers beneath differ between fits to the same rows, or are those of a fit to others."""
    model = AMPClassifier(delta=1e-6, classes=[0, 1])
    *alike, others = (list(arrays_of(clone(model).fit(rows, Y24))) for rows in (*[X24_HALF] * 5, X24_HALF[::-1] / 2))
    assert others
    for *fits, other in zip(*alike, others, strict=True):
        known = np.all(np.array(fits) == fits[0], axis=0)
        assert np.array_equal(fits[0][known], other[known])


def test_the_check_of_shared_noise_takes_no_memory_in_the_square_of_what_is_released():
    """Of 16385 values a column, and three columns, it wanted matrices of 19 GB: the kernel killed `DPScaler()`."""
    rng = np.random.default_rng(0)
    here, there = rng.normal(size=(40, 1, 2500)), rng.normal(size=(2, 1, 2500))
    tracemalloc.start()
    assert not _freshness._shares(here, there)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * here.nbytes  # 32 MB; one square of 2500 numbers has 50 MB


@pytest.mark.parametrize("sketch", [DPSignOPORP(12, output="packed"), DPSignRP(9, output="packed", epsilon=5.0)])
def test_bits_that_fill_the_last_byte_need_no_noise(sketch):
    """Of twelve bits in two bytes four are always 0, and were taken for numbers without noise."""
    dict(_private_checks(sketch))["every_number_has_noise"]()
