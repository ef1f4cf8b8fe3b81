"""Attacks on checks and audits by estimators that are sound: none of them may be accused."""
# ruff: noqa: D101, D102

import math
import secrets

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import validate_data

from skdprp import DPOPORP, DPPCA, DPBinner, PrivacyGuarantee, PublicScaler, audit_epsilon
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.mechanisms import add_gaussian, add_laplace, gaussian_scale, laplace_scale
from skdprp.testing import _private_checks, _storage, check_private_estimator

KERNEL = secrets.SystemRandom()
LESS = 1 - 1e-9  # for the rounding of floats


class Released(BaseEstimator):
    """Release some numbers of a table at each fit."""

    delta, facts = 0.0, {}
    adjacency = Adjacency("replace_one")

    def __init__(self, *, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        epsilon = float(self.epsilon)
        if not 0 < epsilon < math.inf:
            raise ValueError("epsilon must be positive and finite.")
        try:
            X = validate_data(self, X, dtype=np.float64)
            y = None if y is None else np.asarray(y, dtype=np.int64)
            is_finite = np.isfinite(X).all()
        except (TypeError, ValueError):
            is_finite = False
        if not is_finite:
            raise ValueError("X must be a table of finite numbers, and y whole ones.")
        facts = {"released": "released_", "mechanism": "a choice", "assumptions": ("as many rows",)} | self.facts
        facts |= {"adjacency": self.adjacency, "per": "fit", "not_covered": ("the running time",)}
        guarantee = PrivacyGuarantee(epsilon, self.delta, **facts)
        with entry(guarantee, type(self).__name__) as release:
            self.released_ = np.atleast_1d(self.release(X, y, epsilon))
        self.guarantee_ = guarantee.mark_seeded() if release.seeded else guarantee
        return self


class ReleasedOfClasses(ClassifierMixin, Released):
    def fit(self, X, y):
        self.classes_ = np.arange(3)
        if not np.all(np.isin(y, self.classes_)):
            raise ValueError("y must be one of three labels.")
        return super().fit(X, y)

    def predict(self, X):
        try:
            X = validate_data(self, X, dtype=np.float64, reset=False)
        except (TypeError, ValueError):
            raise ValueError("X must be a table of finite numbers, as that of the fit.") from None
        return self.classes_[(X @ self.released_.reshape(3, -1).T).argmax(axis=1)]


class LargestCount(Released):
    """Which column has most positive numbers, by noise that is twice a count's: its exact loss is epsilon."""

    def release(self, X, y, epsilon):
        counts = np.count_nonzero(X > 0, axis=0).astype(float)
        return float(np.argmax(add_laplace(counts, laplace_scale(epsilon * LESS, 0.0, sensitivity=2.0))))


class LargestCountByNoiseOfItsOwn(Released):
    def release(self, X, y, epsilon):
        noise = [2 / epsilon * KERNEL.expovariate(1) * KERNEL.choice((-1, 1)) for _ in X.T]
        return float(np.argmax(np.count_nonzero(X > 0, axis=0) + noise))


class LikelyMedians(Released):
    """A median of each column out of some candidates, by the exponential mechanism: these are on no coarse grid."""

    def release(self, X, y, epsilon):
        candidates = np.linspace(-1, 1, 7) / math.pi
        utilities = [[-abs(np.count_nonzero(column > one) - len(X) / 2) for one in candidates] for column in X.T]
        odds = np.exp(epsilon / X.shape[1] / 2 * np.array(utilities) * LESS)
        return np.array([KERNEL.choices(candidates, one)[0] for one in odds])


class EmptyRow(Released):
    """Whether there is an empty row, by randomised response."""

    def release(self, X, y, epsilon):
        return float(bool(np.any(np.all(X == 0, axis=1))) ^ (KERNEL.random() < 1 / (1 + math.exp(epsilon)) / LESS))


class SumOfASample(Released):
    """The sum of a column of a secret sample: a rate of 1/10 needs less noise, log(1 + (exp(epsilon) - 1) * 10)."""

    delta, adjacency = 1e-3, Adjacency("add_remove")

    def release(self, X, y, epsilon):
        sample = X[[KERNEL.random() < 0.1 for _ in X], :1]
        scale = gaussian_scale(math.log1p(10 * math.expm1(epsilon)) * LESS, 10 * self.delta * LESS, sensitivity=1.0)
        return add_gaussian(np.rint(np.clip(sample, -1, 1) * 2**20).sum(axis=0), 2**20 * scale / LESS)


class SumOfNoisyCounts(Released):
    """How many numbers of a column are not 0, by noisy counts of both signs: a row may move both, and not the sum."""

    delta = 1e-3

    def release(self, X, y, epsilon):
        counts = np.array([np.count_nonzero(np.sign(X[:, 0]) == sign) for sign in (-1.0, 1.0)], dtype=float)
        scale = gaussian_scale(epsilon * LESS, self.delta * LESS, sensitivity=1.0)
        return add_gaussian(counts, scale / math.sqrt(2) / LESS).sum()


class LabelsAtRandom(ReleasedOfClasses):
    """Sums of rows, which are public, of labels by randomised response."""

    facts = {"unit": "one label", "given": "all rows"}

    def release(self, X, y, epsilon):
        kept = (math.exp(epsilon) - 1) / (math.exp(epsilon) + 2) * LESS
        y = np.array([label if KERNEL.random() < kept else KERNEL.randrange(3) for label in y])
        return np.concatenate([X[y == label].sum(axis=0) for label in self.classes_])


class MeansOfClasses(ReleasedOfClasses):
    """Means of the rows of each class, whose labels are public."""

    delta, facts = 1e-3, {"given": "the labels of all rows"}

    def release(self, X, y, epsilon):
        sums = np.stack([np.rint(np.clip(X[y == label], -1, 1) * 2**20).sum(axis=0) for label in self.classes_])
        moved = 2 * math.sqrt(X.shape[1]) * 2**20
        scale = gaussian_scale(epsilon * LESS, self.delta * LESS, sensitivity=moved) / LESS
        return (add_gaussian(sums, scale) / 2**20 / np.maximum(np.bincount(y, minlength=3), 1)[:, None]).ravel()


CLEAR = np.where(np.arange(3) == 0, 0.5, -0.5) + np.random.default_rng(0).uniform(-0.1, 0.1, (200, 3))


@pytest.mark.parametrize(
    ("estimator", "X"),
    [
        (LargestCount(), None),
        (LargestCount(), CLEAR),
        (LargestCountByNoiseOfItsOwn(), CLEAR),
        (LikelyMedians(epsilon=20.0), CLEAR),
        (EmptyRow(), None),
        (EmptyRow(epsilon=8.0), None),
        (SumOfASample(), None),
        (SumOfNoisyCounts(), None),
        (LabelsAtRandom(), None),
        (MeansOfClasses(), None),
    ],
    ids=lambda value: str(value) if isinstance(value, Released) else "clear" if value is not None else "usual",
)
def test_what_is_sound_keeps_the_contract(estimator, X, monkeypatch):
    """Choices were held to hide no more than all numbers that are chosen from, and to repeat their noise.

    So did samples that others draw, labels whose rows are public, and whatever is hidden by a large epsilon alone.
    """
    # Not audited once for each form of a table.
    monkeypatch.setattr(_storage, "indistinct", lambda release, a, b: release(a).shape == release(b).shape)
    check_private_estimator(estimator, X)


class LargestCountWithLittleNoise(Released):
    """Which count is the largest, and all of them, with noise for one."""

    def release(self, X, y, epsilon):
        counts = np.count_nonzero(X > 0, axis=0).astype(float)
        noisy = add_laplace(counts, laplace_scale(epsilon * LESS, 0.0, sensitivity=1.0))
        return np.append(noisy, np.argmax(noisy))


class LargestCountByASeed(Released):
    def release(self, X, y, epsilon):
        self._rng = getattr(self, "_rng", None) or np.random.default_rng(0)
        return float(np.argmax(np.count_nonzero(X > 0, axis=0) + self._rng.laplace(scale=2 / epsilon, size=X.shape[1])))


@pytest.mark.parametrize(
    ("estimator", "name", "said"),
    [
        (LargestCountWithLittleNoise(), "noise_is_enough", "two neighbours move what noise is added to"),
        (LargestCountByASeed(), "seeds_repeat_no_noise", "draws the same released_ in one clone and in another"),
    ],
)
def test_what_is_broken_among_them_is_caught(estimator, name, said):
    with pytest.raises(AssertionError, match=said):
        dict(_private_checks(estimator))[name]()


class Centred(TransformerMixin, Released):
    """Rows less their noisy mean, of which the mean alone is released."""

    def release(self, X, y, epsilon):
        scale = 2 * X.shape[1] / epsilon / len(X)
        noise = [scale * KERNEL.expovariate(1) * KERNEL.choice((-1, 1)) for _ in X.T]
        return np.clip(X, -1, 1).mean(axis=0) + noise

    def transform(self, X):
        return np.asarray(X) - self.released_


X = np.linspace(-0.9, 0.9, 30).reshape(10, 3)
B = np.where(np.arange(10)[:, None] == 0, -X, X)


@pytest.mark.parametrize(
    "model",
    [
        Centred(),
        make_pipeline(Centred()),
        make_pipeline(DPPCA(2, delta=1e-3)),
        make_pipeline(PublicScaler((-1, 1)), DPPCA(2, delta=1e-3)),
        make_column_transformer((DPBinner(delta=1e-3), [0, 1, 2])),
        make_pipeline(DPBinner(delta=1e-3), DPOPORP(2, delta=1e-3)),
    ],
    ids=lambda model: f"{type(model).__name__}, {model}"[:40].replace("\n", ""),
)
@pytest.mark.filterwarnings("ignore:The noise hides most:UserWarning")
def test_rows_that_a_fit_transforms_are_no_release(model):
    """An audit looked at the secret rows, transformed, and refuted a true guarantee: more than 2.4 of 1."""
    with pytest.raises(TypeError, match="Say by `output`"):
        audit_epsilon(model, X, B, n_trials=100)


def test_each_trial_has_noise_of_its_own_whatever_a_pipeline_remembers(tmp_path):
    """The fits of all trials came from the memory of the first: 500 hits of 500 refuted a true guarantee."""
    model = Pipeline([("centred", Centred()), ("as it is", "passthrough")], memory=str(tmp_path))
    result = audit_epsilon(
        model, X, B, n_trials=400, confidence=LESS, output=lambda fitted: fitted["centred"].released_
    )
    assert not result.exceeds(Centred().fit(X).guarantee_)
    assert model.memory == str(tmp_path) and not any(tmp_path.iterdir())
