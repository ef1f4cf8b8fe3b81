"""Attacks on the contract by rules of its own page, on releases of odd tables, and on what pages say of changes."""
# ruff: noqa: D101, D102

import random
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from attacks import X24_HALF, same_numbers
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted, validate_data

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPScaler,
    PrivacyGuarantee,
    PrivacyLedger,
    PublicScaler,
    _noise,
    add_moments,
    load_moments,
    make_table_preprocessor,
    privacy_report,
    save_moments,
)
from skdprp._noise import is_seeded
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.mechanisms import add_gaussian, add_laplace, add_spherical, gaussian_profile
from skdprp.random_projection import make_projection
from skdprp.testing import _leaks, _private_checks, check_private_estimator
from skdprp.testing._audits import _pairs_of_stranger
from skdprp.testing._case import Case
from skdprp.testing._contents import fingerprints
from skdprp.testing._tape import tape_of

FAR = np.vstack([np.full((1, 6), 1e6), X24_HALF[1:]])  # a neighbour of X24_HALF


def total_of(fitted):
    """Epsilon and delta that a report prints of a fit."""
    return privacy_report(fitted).total.epsilon, privacy_report(fitted).total.delta


@pytest.fixture
def wrong_in_every_call(monkeypatch):
    """Ask eight pairs of calls, in place of 64, whether they differ, and four fits of each neighbour what they keep."""
    monkeypatch.setattr(_leaks, "INTEGERS", 8)
    monkeypatch.setattr(_leaks, "_fits_that_prove", lambda guarantee: 4)


def assert_caught(estimator, name):
    """Assert that a check of the contract fails an estimator."""
    with pytest.raises(AssertionError, match=f"^{name}: "):
        dict(_private_checks(estimator))[name]()


def finite(estimator, X, **options):
    """Rows as careful code reads them: no error quotes a value."""
    try:
        with config_context(assume_finite=False):
            return validate_data(estimator, X, dtype=np.float64, **options)
    except (TypeError, ValueError):
        raise ValueError("X has to be a table of finite numbers, and y a number for each row.") from None


class Means(BaseEstimator):
    """Means of columns between -1 and 1, as on the page about mechanisms of one's own; what is broken overrides it."""

    def __init__(self, *, epsilon=1.0, delta=1e-6):
        self.epsilon, self.delta = epsilon, delta

    def fit(self, X, y=None):
        self._release(finite(self, X))
        return self

    def _release(self, X):
        sums = self._clipped(X).sum(axis=0)
        known = {"epsilon": self.epsilon, "delta": self.delta, "max_change": self._sensitivity(X.shape[1])}
        mechanism = DPRandomProjection(projection="identity", adjacency="l2", **known).fit(np.zeros((1, X.shape[1])))
        facts = {"adjacency": Adjacency("replace_one"), "per": "fit", "released": "means", "hidden_changes": None}
        guarantee = replace(mechanism.guarantee_, **facts)
        with entry(guarantee, type(self).__name__):
            means = mechanism.transform([sums])[0] / len(X)
        extra = self._extra(X, means)
        self.means_, self.guarantee_ = means, guarantee
        for name, value in extra.items():
            setattr(self, name, value)

    def _clipped(self, X):
        return np.clip(X, -1, 1)

    def _sensitivity(self, n_columns):
        return 2 * n_columns**0.5

    def _extra(self, X, means):
        return {}


class NoisyRows(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Rows between -1 and 1 with Laplace noise, any of which may be replaced; what is broken overrides it."""

    def __init__(self, *, epsilon=1.0, bounds=(-1.0, 1.0)):
        self.epsilon, self.bounds = epsilon, bounds

    def fit(self, X, y=None):
        vars(self).pop("guarantee_", None)
        epsilon, (low, high) = float(self.epsilon), map(float, self.bounds)
        if not 0 < epsilon < np.inf:
            raise ValueError("epsilon has to be positive and finite.")
        extra = self._extra(np.clip(self._read(X), -10, 10))
        self.bounds_, self.scale_ = (low, high), 1.001 * (high - low) * self.n_features_in_ / epsilon
        facts = {"per": "transform", "released": "noisy rows", "mechanism": "Laplace mechanism"}
        self.guarantee_ = PrivacyGuarantee(epsilon, 0.0, adjacency=Adjacency("replace_one"), **facts)
        for name, value in extra.items():
            setattr(self, name, value)
        return self

    def transform(self, X):
        check_is_fitted(self, "guarantee_")
        rows = self._read(X, reset=False)
        if is_seeded():
            self.guarantee_ = self.guarantee_.mark_seeded()
        with entry(self.guarantee_, type(self).__name__):
            return self._noisy(rows)

    def _noisy(self, rows):
        return add_laplace(self._clipped(rows), self.scale_)

    def _clipped(self, rows):
        return np.clip(rows, *self.bounds_)

    def _read(self, X, **options):
        return finite(self, X, **options)

    def _extra(self, X):
        return {}


class Products(RegressorMixin, Means):
    """Sums of rows times targets between -1 and 1."""

    def fit(self, X, y):
        X, y = finite(self, X, y=y, y_numeric=True)
        self._release(np.clip(X, -1, 1) * self._targets(np.asarray(y, dtype=np.float64))[:, None])
        return self

    def _targets(self, y):
        return np.clip(y, -1, 1)

    def _clipped(self, X):
        return X  # of rows and of targets that are

    def predict(self, X):
        check_is_fitted(self)
        return finite(self, X, reset=False) @ self.means_


BROKEN = {  # checks that fail one that derives from means, or from products
    *("noise_is_enough", "everything_follows_from_releases"),
    *("attributes_hold_nothing_of_the_rows", "names_of_people_are_kept_nowhere"),
}


@pytest.mark.parametrize("estimator", [Means(), NoisyRows(), Products()], ids=lambda one: type(one).__name__)
def test_what_the_broken_ones_here_derive_from_keeps_the_contract(estimator):
    """Each of them differs from one of these in one thing only, and no audit has to catch any of them.

    Other means pass all checks in test_contract.py: these, and products, pass those that what derives from them fails.
    """
    if isinstance(estimator, NoisyRows):
        check_private_estimator(estimator, audit_options={"n_trials": 8})
        return
    for name in BROKEN:
        dict(_private_checks(estimator))[name]()


# A bound that is not made true


class MeansThatAreNotClipped(Means):
    def _clipped(self, X):
        return X


class ProductsOfAnyTargets(Products):
    def _targets(self, y):
        return y


class RowsThatAreNotClipped(NoisyRows):
    def _clipped(self, rows):
        return rows.copy()


def test_the_contract_does_not_pass_means_that_are_not_clipped():
    """One row of a million moves them by 3,000 standard deviations of their noise; the contract has such rows."""
    near, far = (np.array([MeansThatAreNotClipped().fit(X).means_ for _ in range(50)]) for X in (X24_HALF, FAR))
    assert total_of(MeansThatAreNotClipped().fit(FAR)) == (1.0, 1e-6)
    assert np.abs(near).max() < 100 < 1000 < far.min()
    assert_caught(MeansThatAreNotClipped(), "noise_is_enough")


def test_the_contract_does_not_pass_sums_of_any_targets():
    """One target of a million moves them as far."""
    y = np.linspace(-1, 1, 24)
    near, far = (
        np.array([np.abs(ProductsOfAnyTargets().fit(X24_HALF, targets).means_).max() for _ in range(50)])
        for targets in (y, np.append(y[:-1], 1e6))
    )
    assert near.max() < 100 < 1000 < far.min()
    assert_caught(ProductsOfAnyTargets(), "noise_is_enough")


def test_the_contract_does_not_pass_rows_that_are_not_clipped_where_any_may_be_replaced():
    """A row of a million is told from any of the data."""
    fitted = RowsThatAreNotClipped().fit(X24_HALF)
    assert np.abs(fitted.transform(X24_HALF)).max() < 1000 < fitted.transform(FAR)[0].min()
    assert_caught(RowsThatAreNotClipped(), "noise_is_enough")


class MeansOfHalfTheSensitivity(Means):
    def _sensitivity(self, n_columns):
        return n_columns**0.5


class MeansOfTheSensitivityOfOneColumn(Means):
    def _sensitivity(self, n_columns):
        return 2.0


@pytest.mark.parametrize("kind", [MeansOfHalfTheSensitivity, MeansOfTheSensitivityOfOneColumn])
def test_the_contract_sees_a_sensitivity_that_is_wrong_for_the_neighbours_that_it_tries(kind):
    """Its own neighbours have an exact delta of 1e-4 and more at epsilon = 1, where 1e-6 is printed."""
    case = Case(kind())
    ((one, other),) = _pairs_of_stranger(case)
    ((_, scale, sums),), ((_, _, others),) = (tape_of(lambda data=data: case.fit(*data)) for data in (one, other))
    assert gaussian_profile(1.0, scale=scale, sensitivity=np.linalg.norm(sums - others)) > 1e-4
    assert total_of(case.fit()) == (1.0, 1e-6)
    assert_caught(kind(), "noise_is_enough")


class BoundsOfNow(NoisyRows):
    def _clipped(self, rows):
        return np.clip(rows, *self.bounds)


def test_the_contract_sets_pairs_of_numbers_after_the_fit_as_well():
    """Rows that are clipped to what a parameter is now have the noise of the fit: a loss of 999 under epsilon = 1."""
    fitted = BoundsOfNow().fit(X24_HALF).set_params(bounds=(-1000.0, 1000.0))
    move = np.abs(fitted._clipped(np.full((1, 6), 1e3)) - fitted._clipped(np.full((1, 6), -1e3))).sum()
    assert move / fitted.scale_ > 900
    assert total_of(fitted) == (1.0, 0.0)
    assert_caught(BoundsOfNow(), "parameters_set_after_fit_change_nothing")


# Numbers of rows that count as noise, or that no check asks for


class KeepsTheSumOfWeights(Means):
    def fit(self, X, y=None, sample_weight=None):
        self._weight = None if sample_weight is None else float(np.sum(sample_weight))
        return super().fit(X)


class KeepsTheRowsOfEachPerson(Means):
    def fit(self, X, y=None, groups=None):
        self.rows_of_each_ = None if groups is None else np.unique(groups, return_counts=True)[1]
        return super().fit(X)


class KeepsWhoseRowsAreWhose(Means):
    def fit(self, X, y=None, groups=None):
        self.codes_ = None if groups is None else np.unique(groups, return_inverse=True)[1]
        return super().fit(X)


@pytest.mark.usefixtures("wrong_in_every_call")
@pytest.mark.parametrize(
    "kind, known, one, other",
    [
        (KeepsTheSumOfWeights, "sample_weight", np.ones(24), np.append(np.ones(23), 2.0)),
        (KeepsTheRowsOfEachPerson, "groups", np.arange(24) // 2, np.append(np.arange(22) // 2, [11, 12])),
        (KeepsWhoseRowsAreWhose, "groups", np.arange(24) // 2, np.append(np.arange(22) // 2, [10, 11])),
    ],
)
def test_the_contract_fits_with_weights_and_with_persons_as_well(kind, known, one, other):
    """What is kept of them is the same each time, and another for a neighbour."""
    first, again, changed = (fingerprints(kind().fit(X24_HALF, **{known: given})) for given in (one, one, other))
    kept = {name for name, value in first.items() if "means" not in name and again.get(name) == value}
    assert any(changed.get(name) != first[name] for name in kept)
    assert_caught(kind(), "everything_follows_from_releases")


class TellsWhetherAllArePositive(Means):
    def _extra(self, X, means):
        return {"is_positive_": bool((X > 0).all())}


def test_the_contract_has_a_table_without_a_number_that_is_not_positive():
    """One row decides it."""
    positive = np.abs(X24_HALF) + 0.1
    found = [
        TellsWhetherAllArePositive().fit(X).is_positive_ for X in (positive, np.vstack([positive[1:], FAR[:1] * 0]))
    ]
    assert found == [True, False]
    assert_caught(TellsWhetherAllArePositive(), "everything_follows_from_releases")


class KeepsWhatItPredicted(Products):
    def predict(self, X):
        self._last = finite(self, X, reset=False)
        return super().predict(X)


class KeepsItsScore(Products):
    def score(self, X, y, sample_weight=None):
        self.score_ = super().score(X, y)
        return self.score_


@pytest.mark.usefixtures("wrong_in_every_call")
@pytest.mark.parametrize(
    "kind, call, name",
    [
        (KeepsWhatItPredicted, "predict", "attributes_hold_nothing_of_the_rows"),
        (KeepsItsScore, "score", "everything_follows_from_releases"),
    ],
)
def test_the_contract_looks_at_what_a_model_holds_after_it_was_used(kind, call, name):
    """On the rows that it was fitted to, as anybody does."""
    y = np.linspace(-1, 1, 24)
    fitted = kind().fit(X24_HALF, y)
    before = fingerprints(fitted)
    getattr(fitted, call)(*(X24_HALF, y)[: 1 + (call == "score")])
    added = {name: value for name, value in fingerprints(fitted).items() if before.get(name) != value}
    getattr(fitted, call)(*(-X24_HALF, y)[: 1 + (call == "score")])
    assert added
    assert all(fingerprints(fitted)[name] != value for name, value in added.items())
    assert_caught(kind(), name)


class KeepsTheNamesOfTargets(Products):
    def fit(self, X, y):
        self.names_ = list(y.index) if isinstance(y, pd.Series) else None
        return super().fit(X, y)


class KeepsWholeNumbersOfPersons(Means):
    def fit(self, X, y=None, groups=None):
        try:
            self.persons_ = None if groups is None else np.unique(np.asarray(groups, dtype=np.int64))
        except (TypeError, ValueError):
            raise ValueError("groups are whole numbers.") from None
        return super().fit(X)


@pytest.mark.parametrize("kind", [KeepsTheNamesOfTargets, KeepsWholeNumbersOfPersons])
def test_the_contract_looks_for_names_of_people_wherever_they_are_given(kind):
    """In the index of targets, and in labels of persons that are numbers."""
    names = np.arange(24) + 10**6
    if kind is KeepsWholeNumbersOfPersons:
        fitted = kind().fit(X24_HALF, groups=names)
    else:
        fitted = kind().fit(X24_HALF, pd.Series(np.linspace(-1, 1, 24), index=names))
    assert list(names) in [list(value) for value in vars(fitted).values() if isinstance(value, list | np.ndarray)]
    assert_caught(kind(), "names_of_people_are_kept_nowhere")


# Zeros of sparse rows


@pytest.mark.parametrize("bounds, feature_range", [((1, 5), (0.2, 1.0)), ((5, 10), (1, 2)), ((-4, -2), (-2, -1))])
def test_zeros_outside_of_public_bounds_leave_alike_whether_they_are_stored_or_not(bounds, feature_range):
    """Or sketches of the same row are 9 standard deviations of their noise apart under a total of epsilon = 1."""
    rows = np.where(np.arange(40_000).reshape(1, -1) % 100, 0.0, np.mean(bounds))
    stored = sp.csr_array((rows.ravel(), np.arange(rows.size), [0, rows.size]), shape=rows.shape)
    unstored = sp.csr_array(rows)
    assert np.array_equal(stored.toarray(), unstored.toarray())
    scaler = PublicScaler(bounds, feature_range=feature_range).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(scaler, DPOPORP(64, random_state=0)).fit(rows)
    assert total_of(model) == (1.0, 1e-6)
    try:
        left = [scaler.transform(form) for form in (stored, unstored)]
    except ValueError:  # which is a way to have them alike
        return
    projected = model[-1].project_queries(np.vstack([one.toarray() for one in left]))
    assert np.linalg.norm(projected[0] - projected[1]) / model[-1].scale_ == 0


# What holds


ODD = {
    "f": [np.nan, 0.0, -0.0, 1e308, -1e300, 5e-324, 3.0, -7.5, 2.0**53 + 2],
    "i": [0, -1, 2**62, -(2**62), 7, 50, 2**53 + 1],
    "s": [None, "red", "REDDER", "", "x" * 200, "é", "nan", "1"],
    "narrow": [np.float32(one) for one in (np.nan, 0.0, -0.0, 3e38, 1e-45, 2.5)],
}
LISTED = {"s": ["red", "green", "blue"]}
BOUNDS = {"f": (-3, 3), "i": (0, 50), "narrow": (-3, 3)}  # without which bins take ten times as long to find


FITS = {
    "histograms": lambda: DPHistograms(delta=1e-6, categories=LISTED),
    "bins": lambda: DPBinner(4, delta=1e-6, categories=LISTED),
    "scaler": lambda: DPScaler(delta=1e-6),
    "ridge": lambda: make_pipeline(DPScaler(delta=1e-6, bounds=(-50, 50)), DPRidge(target_bounds=(0, 1), delta=1e-6)),
    "classifier": lambda: make_pipeline(
        DPBinner(4, delta=1e-6, bounds=BOUNDS, categories=LISTED), AMPClassifier(classes=[0, 1], delta=1e-6)
    ),
    "columns": lambda: make_pipeline(
        make_column_transformer(
            (DPBinner(3, delta=1e-6, bounds={"f": (-3, 3), "i": (0, 50)}), ["f", "i"]),
            (PublicScaler((-3, 3), fill="middle"), ["narrow"]),
            sparse_threshold=0,
        ),
        AMPClassifier(classes=[0, 1], delta=1e-6),
    ),
}
FORMS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "categorical": lambda frame: frame.assign(s=pd.Categorical(frame.s, categories=[*LISTED["s"], *ODD["s"][2:]])),
    "array": lambda frame: frame[["f", "i", "narrow"]].astype(float).to_numpy(),
    "CSR": lambda frame: sp.csr_array(frame[["f", "i", "narrow"]].astype(float).to_numpy()),
}


def _told_of(fit, rows, y, others):
    """All that a fit holds, says and predicts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit().fit(rows, y)
        methods = [getattr(fitted, name) for name in ("predict", "transform") if hasattr(fitted, name)]
        outputs = [method(others) for method in methods]
    outputs = [one.toarray() if sp.issparse(one) else np.asarray(one) for one in outputs]
    said = [str(warning.message) for warning in caught], repr(fitted), repr(privacy_report(fitted))
    held = {name: value for name, value in fingerprints(fitted).items() if "_unlike_any_other" not in name}
    return [(one.dtype.str, one.shape, one.tolist()) for one in outputs], said, held


@pytest.mark.parametrize("name", FITS)
def test_one_odd_row_changes_nothing_but_what_is_released(name, monkeypatch):
    """If the same is released of two tables that differ in one row, fits hold, say and predict the same."""
    for kind in ("add_gaussian", "add_laplace", "add_spherical"):
        monkeypatch.setattr(_noise, kind, same_numbers)
    generator = np.random.default_rng(0)
    forms = ["array", "CSR"] if name in ("scaler", "ridge") else ["pandas", "polars"]
    forms += ["categorical"] * (name in ("histograms", "bins", "classifier"))
    for case in range(3):
        one, others = (
            pd.DataFrame(
                {
                    "f": generator.normal(size=40).round(3),
                    "i": generator.integers(0, 50, 40),
                    "s": generator.choice(LISTED["s"], 40),
                    "narrow": generator.normal(size=40).astype(np.float32),
                }
            )
            for _ in range(2)
        )
        other, row = one.copy(), int(generator.integers(40))
        for column in generator.permutation(one.columns)[: generator.integers(1, 5)]:
            other.loc[row, column] = ODD[column][generator.integers(len(ODD[column]))]
        assert (one.dtypes == other.dtypes).all()
        labels = generator.integers(0, 2, 40)
        changed = np.where(np.arange(40) == row, 1 - labels, labels)
        form = FORMS[forms[case % len(forms)]]
        assert _told_of(FITS[name], form(one), labels, form(others)) == _told_of(
            FITS[name], form(other), changed, form(others)
        )


def test_one_character_moves_as_many_ngrams_as_the_page_says():
    """Within words: n and n where one is replaced, 2n - 1 in all where one comes or goes; white space of any kind."""
    draw, letters = random.Random(0), "ab \t\n\u00a0\u3000\u200b\x1c\x85'-.\u00e9\u0301cdefg "
    for n in (2, 3, 4, 5):
        known = {"analyzer": "char_wb", "ngram_range": (n, n), "norm": None, "lowercase": False}
        ngrams_of = HashingVectorizer(**known).build_analyzer()
        for _ in range(600):
            text = draw.choices(letters, k=draw.randint(1, 12))
            place, letter = draw.randrange(len(text)), draw.choice(letters)
            before, after = text[:place], text[place + 1 :]
            for changed, in_all, of_each in (
                ([*before, letter, *after], 2 * n, n),
                ([*before, *after], 2 * n - 1, n),
                ([*before, letter, *text[place:]], 2 * n - 1, n),
            ):
                ngrams, others = (Counter(ngrams_of("".join(one))) for one in (text, changed))
                gone, come = (ngrams - others).total(), (others - ngrams).total()
                assert gone + come <= in_all
                assert max(gone, come) <= of_each


def test_one_answer_moves_a_prepared_row_as_far_as_the_page_says():
    """At most 2 / sqrt(c), and sqrt(2 / c) in l2, c being the columns that always have a bin or a listed category."""
    generator = np.random.default_rng(0)
    numbers, words = [0.0, 5.0, 10.0, -3.0, 1e9, np.nan, 7.3], np.array(["a", "b", "zz", None], dtype=object)
    for n_numbers in range(1, 5):
        for n_words in range(4):
            bounds = {f"number {i}": (0, 10) for i in range(n_numbers)}
            listed = {f"word {i}": ["a", "b", "d"] for i in range(n_words)}
            values = dict.fromkeys(bounds, numbers) | dict.fromkeys(listed, words)
            one = pd.DataFrame({name: generator.choice(some, 60) for name, some in values.items()})
            other = one.copy()
            for row in range(60):
                column = generator.choice(one.columns)
                other.loc[row, column] = generator.choice(values[column])
            columns = make_table_preprocessor(bounds=bounds, categories=listed or None).fit(one)
            moved = np.abs(columns.transform(one) - columns.transform(other))
            moved = moved.toarray() if sp.issparse(moved) else moved
            assert moved.sum(axis=1).max() <= 2 / np.sqrt(n_numbers) * (1 + 1e-12)
            assert np.sqrt(np.square(moved).sum(axis=1)).max() <= np.sqrt(2 / n_numbers) * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "uniform", "very_sparse", "count_sketch", "oporp"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_no_change_moves_a_projection_by_more_than_the_sensitivity(kind, noise):
    """By the matrix that queries are projected with: its rows, its spectral norm, and the worst signs found."""
    generator = np.random.default_rng(0)
    for width, k in [(1, 3), (5, 2), (17, 16), (100, 7), (40, 64)]:
        for adjacency in ("l1", "l2"):
            known = {"adjacency": adjacency, "noise": noise, "max_change": 0.37, "random_state": 1}
            sketch = DPOPORP(k, **known) if kind == "oporp" else DPRandomProjection(k, projection=kind, **known)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                W = sketch.fit(np.zeros((1, width))).project_queries(np.eye(width))
            norms = {"gaussian": np.linalg.norm(W, axis=1), "laplace": np.abs(W).sum(axis=1)}[noise]
            reached = norms.max()
            if adjacency == "l2" and noise == "gaussian":
                reached = np.linalg.norm(W, 2)
            elif adjacency == "l2":
                signs = np.sign(generator.normal(size=(200, W.shape[1])))
                for _ in range(20):
                    signs = np.where(signs @ W.T @ W >= 0, 1.0, -1.0)
                reached = max(reached, np.linalg.norm(signs @ W.T, axis=1).max())
            assert 0.37 * reached <= sketch.sensitivity_ * (1 + 1e-9)


def test_sums_and_files_of_moments_keep_the_marks_of_each(tmp_path):
    """In either order, and what is learnt from them, too."""
    marked, other = (DPMoments(delta=1e-6, target_bounds=(0, 1)).fit(X24_HALF, np.arange(24) / 24) for _ in range(2))
    marked.guarantee_ = replace(marked.guarantee_, violation="epsilon is at least 3", audited_epsilon=3.0)
    save_moments(tmp_path / "moments.npz", marked.moments_)
    loaded = load_moments(tmp_path / "moments.npz")
    sums = [add_moments(marked.moments_, other.moments_), add_moments(other.moments_, loaded)]
    for moments in (marked.moments_, loaded, *sums):
        model = DPRidge(target_bounds=(0, 1)).fit_moments(moments)
        assert "epsilon is at least 3" in moments.guarantee.violation
        assert privacy_report(model).total is None


class StatedAtEachTransform(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A row replaced moves all of its numbers, each between 0 and 1."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def _stated(self, X):
        return PrivacyGuarantee(X.shape[1] / self.scale, 0.0, adjacency=Adjacency("replace_one"), per="transform")

    def fit(self, X, y=None):
        self.guarantee_ = self._stated(X)
        return self

    def transform(self, X):
        self.guarantee_ = self._stated(X)
        with entry(self.guarantee_, "StatedAtEachTransform"):
            return add_laplace(np.clip(X, 0.0, 1.0), self.scale)


def _first(X):
    return X[:, :1]


def test_a_step_that_is_frozen_in_two_places_and_stated_at_each_transform_is_not_reported_by_its_last():
    rows = np.random.default_rng(0).uniform(size=(100, 5))
    step = FrozenEstimator(StatedAtEachTransform().fit(rows))
    union = make_union(step, make_pipeline(FunctionTransformer(_first), step))
    model = make_pipeline(union, LogisticRegression())
    with PrivacyLedger() as ledger:
        total = privacy_report(model.fit(rows, np.arange(100) % 2)).total
    assert total is None or total.epsilon >= sum(one.guarantee.epsilon for one in ledger.entries) == 6.0


def test_norms_of_projections_are_those_of_what_they_project():
    """Rows, columns, both norms and the reach, of 200 draws of seven kinds."""
    rng = np.random.RandomState(0)
    kinds = ["rademacher", "gaussian", "uniform", "very_sparse", "count_sketch", "oporp", "identity"]
    for i in range(200):
        n_features, n_components = rng.choice([1, 2, 3, 16, 63, 65, 200]), rng.choice([1, 2, 7, 9, 64, 65, 129])
        kind, density = kinds[i % 7], rng.choice([1.0, 0.3, 0.01])
        n_components = n_features if kind == "identity" else n_components
        options = {"density": density} if kind == "very_sparse" else {}
        W = make_projection(kind, int(n_features), int(n_components), rng, **options)
        matrix = W.project(np.eye(n_features))
        assert np.allclose(matrix, W.project(sp.csr_array(np.eye(n_features))), rtol=1e-13, atol=1e-13)
        least = 1 - 1e-13
        assert W.row_norm(1) >= abs(matrix).sum(axis=1).max() * least
        assert W.row_norm(2) >= np.linalg.norm(matrix, axis=1).max() * least
        assert W.spectral_norm() >= np.linalg.norm(matrix, 2) * least
        assert (W.column_max() >= abs(matrix).max(axis=0) * least).all()
        assert W.n_reached() >= (matrix != 0).sum(axis=1).max()


BIG = 2**60 + 128  # and the number after it are 256 apart as floats


FRAMES = {
    "pandas": lambda number: pd.DataFrame({"a": [number], "b": [0.5]}),
    "pandas unsigned": lambda number: pd.DataFrame({"a": [number], "b": np.array([5], np.uint64)}),
    "polars": lambda number: pl.DataFrame({"a": [number], "b": [0.5]}),
    "polars unsigned": lambda number: pl.DataFrame({"a": [number], "b": pl.Series([5], dtype=pl.UInt64)}),
    "arrow": lambda number: pa.table({"a": [number], "b": [0.5]}),
    "batch": lambda number: pa.table({"a": [number], "b": [0.5]}).to_batches()[0],
    "nullable": lambda number: pd.DataFrame({"a": pd.array([number], "Int64"), "b": [0.5]}),
    "list": lambda number: [number, 0.5],
    "arrays": lambda number: [np.array([number]), np.array([0.5])],
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("add", [add_laplace, add_gaussian])
def test_no_column_of_a_frame_rounds_the_whole_numbers_of_another(kind, add):
    """A count and the next one were 256 apart, with noise of scale 2."""
    with pytest.raises(ValueError, match="equal no float"):
        add(FRAMES[kind](BIG), 2.0)


@pytest.mark.parametrize(
    "add", [add_laplace, add_gaussian, lambda values, scale: add_spherical(values, scale, shape=2, power=1)]
)
def test_what_is_under_a_mask_is_not_released(add):
    masked = np.ma.array([120.0, 5e6], mask=[False, True])
    lazy = pytest.importorskip("dask.array").from_array(masked, chunks=1)
    for values in (lazy, [[masked]]):
        with pytest.raises(ValueError, match="mask"):
            add(values, 1.0)
    with pytest.raises((ValueError, TypeError), match="mask"):
        add(np.ma.array([120.0, 5e6], mask=[False, True]), 1.0)
