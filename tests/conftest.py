"""Facilities shared by the tests."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run on all cores: threads of each would wait for one another

import numpy as np
import pytest
from hypothesis import settings
from scipy.special import expit, logit
from sklearn.datasets import load_digits, make_classification
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from skdprp import _noise
from skdprp._open_ledgers import open_journals
from skdprp.linear_model import _descent
from skdprp.sketch._base import BaseSketch
from skdprp.testing import reproducible_noise

settings.register_profile("same cases each time", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("same cases each time")


@pytest.fixture(autouse=True)
def every_ledger_is_closed():
    """Fail where a test leaves a ledger open: it would refuse the noise of others."""
    yield
    assert open_journals() == {}


@pytest.fixture(autouse=True)
def same_projections_each_time():
    """Draw what is public, as projections with random_state=None, from one stream in each test: a few draws warn."""
    check_random_state(None).seed(0)


@pytest.fixture(scope="session")
def digits():
    """Handwritten digits with pixels in [0, 1], and their labels."""
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="session")
def binary():
    """Rows of norm 1 in two classes."""
    X, y = make_classification(n_samples=300, n_features=8, n_informative=4, random_state=0)
    return normalize(X), y


@pytest.fixture(scope="session")
def three_classes():
    """Rows of norm 1 in three classes."""
    X, y = make_classification(n_samples=300, n_features=8, n_informative=5, n_classes=3, random_state=0)
    return normalize(X), y


@pytest.fixture
def seeded():
    """Noise that makes a test of chance come out the same each time."""
    with reproducible_noise(0):
        yield


@pytest.fixture
def short_descents(monkeypatch):
    """Have ridge regression take 10 steps, where 200 do the same for longer."""
    monkeypatch.setattr(_descent, "N_STEPS", 10)


@pytest.fixture
def silenced_noise(monkeypatch):
    """Turn all private noise off: what is left is the deterministic part of the estimators."""
    monkeypatch.setattr(_noise, "_add", lambda values, scale, kind: None)
    monkeypatch.setattr(_noise, "draw_gaussian", lambda shape, scale: np.zeros(shape))
    monkeypatch.setattr(_noise, "add_spherical", lambda values, scale, **law: None)
    monkeypatch.setattr(_noise, "draw_spherical", lambda n_dims, scale, **law: np.zeros(n_dims))
    monkeypatch.setattr(_noise, "flip", lambda levels, thresholds: np.zeros(levels.shape, dtype=bool))


@pytest.fixture
def noise_of(monkeypatch):
    """Return a function that leaves a share of the noise: of its scale, or of flips with log odds divided by it."""
    add, gaussian, spherical, flip = _noise._add, _noise.draw_gaussian, _noise.draw_spherical, _noise.flip

    def odds(thresholds, share):
        probability = thresholds * 2.0**-64
        return (2.0**64 * expit(logit(probability) / share)).astype(np.uint64)

    def leave(share):
        monkeypatch.setattr(_noise, "_add", lambda values, scale, kind: add(values, share * scale, kind))
        monkeypatch.setattr(_noise, "draw_gaussian", lambda shape, scale: gaussian(shape, share * scale))
        monkeypatch.setattr(_noise, "draw_spherical", lambda n, scale, **law: spherical(n, share * scale, **law))
        monkeypatch.setattr(_noise, "flip", lambda levels, thresholds: flip(levels, odds(thresholds, share)))

    return leave


@pytest.fixture
def states(monkeypatch):
    """Return a function that gives, for each released bit, its sign times its level, as `flip` receives them."""
    seen = []

    def keep(levels, thresholds):
        seen.append(levels.astype(np.int64))
        return np.zeros(levels.shape, dtype=bool)

    monkeypatch.setattr(_noise, "flip", keep)

    def states(sketch, X):
        seen.clear()
        signs = sketch.transform(X)
        return signs * np.vstack(seen)

    return states


@pytest.fixture
def pluses(monkeypatch):
    """Return a function that gives, for each released bit, how often of 2**64 times it is +1, in Python's integers."""
    seen = []

    def keep(levels, thresholds):
        seen.append(thresholds[levels].astype(object))
        return np.zeros(levels.shape, dtype=bool)

    monkeypatch.setattr(_noise, "flip", keep)

    def pluses(sketch, X):
        seen.clear()
        signs = sketch.transform(X)
        flipped = np.vstack(seen)
        return np.where(signs > 0, 2**64 - flipped, flipped)

    return pluses


@pytest.fixture
def released_rows(monkeypatch):
    """Of each release of a sketch its epsilon, the rows as they reach it, and their projections over the scale."""
    found, release = [], BaseSketch._release

    def noted(sketch, rows, dtype):
        projected = sketch.projection_.project(rows) / sketch.projection_.divisor
        found.append((sketch.epsilon, np.array(rows), projected / getattr(sketch, "scale_", 1.0)))
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", noted)
    return found


@pytest.fixture
def released_projections(monkeypatch):
    """Projections over the scale of the noise, of each release of a sketch."""
    found, release = [], BaseSketch._release

    def noted(sketch, rows, dtype):
        found.append(sketch.projection_.project(rows) / sketch.projection_.divisor / sketch.scale_)
        return release(sketch, rows, dtype)

    monkeypatch.setattr(BaseSketch, "_release", noted)
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def points(folder):
    """Write two clouds of points as CSV and as LIBSVM; return the CSV's lines."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 4)) + 4 * y[:, None]
    lines = ["a,b,kind,c,d"] + [
        f"{r[0]},{r[1]},{'yes' if k else 'no'},{r[2]},{r[3]}" for r, k in zip(X, y, strict=True)
    ]
    (folder / "points.csv").write_text("\n".join(lines))
    libsvm = [f"{k} 1:{r[0]} 2:{r[1]} 3:{r[2]} 4:{r[3]}" for r, k in zip(X, y, strict=True)]
    (folder / "points.svm").write_text("\n".join(libsvm))
    return lines
