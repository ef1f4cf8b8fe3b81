"""Releases in files: what goes in, what comes back, and what is refused."""

import copy
import dataclasses
import json
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import public
import pytest
import scipy.sparse as sp
from public import ESTIMATORS, PRIVATE, unlisted
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

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
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    MIDPRegressor,
    PrivacyWarning,
    ProductNoiseOutputPerturbation,
    __version__,
    _noise,
    add_moments,
    iDPSignRP,
    load_histograms,
    load_model,
    load_moments,
    load_release,
    make_table_preprocessor,
    privacy_report,
    save_histograms,
    save_model,
    save_moments,
    save_release,
)
from skdprp.mechanisms.published import Published
from skdprp.release_file import _sketches, _values
from skdprp.release_file._file import checksum_of, replace_file
from skdprp.release_file._values import described
from skdprp.testing import reproducible_noise

SKETCHES = [
    DPRandomProjection(8),
    DPRandomProjection(8, projection="gaussian", noise="laplace", adjacency="l2", n_jobs=2),
    DPRandomProjection(8, projection="very_sparse", density=0.4),
    DPRandomProjection(8, projection="uniform", calibration="kenthapadi"),
    DPRandomProjection(projection="identity", epsilon=np.float64(0.3)),
    DPOPORP(7),
    DPOPORP(np.int64(8), max_change=1e-3, random_state=np.random.RandomState(1)),
    DPSignRP(9),
    DPSignRP(8, method="rr", projection="gaussian", delta=1e-6, min_norm=0.1, max_change=0.01, output="packed"),
    DPSignOPORP(12, n_repeats=3, random_state=5),
    DPSignOPORP(13, output="packed"),
    iDPSignRP(8),
    iDPSignRP(8, method="rr", projection="oporp", output="packed"),
]
every = pytest.mark.parametrize("sketch", SKETCHES, ids=lambda sketch: type(sketch).__name__)
IS_SECRET = 0.7310585786300049  # a value that stands out, eight bytes long


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform(-1, 1, (30, 20))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "release.npz"


@every
def test_a_release_comes_back(sketch, rows, path):
    sketch = clone(sketch).fit(rows)
    S = sketch.transform(rows)
    save_release(path, S, sketch)
    release = load_release(path)
    assert release.sketches.dtype == S.dtype
    assert (release.sketches == S).all()
    assert release.guarantee == sketch.guarantee_
    assert str(release.guarantee) == str(sketch.guarantee_)
    assert release.version == __version__
    assert "sketches" not in repr(release)
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.guarantee = None


@every
def test_queries_are_sketched_by_the_same_projection(sketch, rows, path, silenced_noise, monkeypatch):
    """Without noise, and with the check of its grid off, sketches of one row are equal on both sides."""
    monkeypatch.setattr(_sketches, "_can_be_released", lambda values, estimator: True)
    sketch = clone(sketch).fit(rows)
    save_release(path, sketch.transform(rows), sketch)
    release = load_release(path)
    queries = np.random.default_rng(1).uniform(-1, 1, (9, 20))
    assert np.allclose(release.estimator.transform(queries), sketch.transform(queries))
    assert release.estimator.guarantee_ == sketch.guarantee_
    parameters = sketch.get_params() | {"random_state": None}
    assert release.estimator.get_params() == parameters


def test_the_sketch_of_a_release_keeps_what_audits_have_shown(rows, path):
    sketch = DPOPORP(8).fit(rows)
    S = sketch.transform(rows)
    sketch.guarantee_ = dataclasses.replace(sketch.guarantee_, audited_epsilon=5.0)
    save_release(path, S, sketch)
    release = load_release(path)
    assert release.estimator.guarantee_ == release.guarantee and "VIOLATED" in repr(release.estimator.guarantee_)


def test_descriptions_come_back(rows, path):
    """Any text up to a bound, also with what would break a line or a format; without, there is none."""
    sketch = DPOPORP(8).fit(rows)
    S = sketch.transform(rows)
    for words in ("pixels / 16 - 0.5, one row a digit\n\x00\"'{}", "é 数 \U0001f512", "x" * 10_000, ""):
        save_release(path, S, sketch, description=words)
        assert load_release(path).description == words
    assert repr("pixels") in repr(dataclasses.replace(load_release(path), description="pixels"))
    save_release(path, S, sketch)
    assert load_release(path).description == ""


def test_a_release_without_a_description_is_read(rows, path):
    """As files were before there was a place for them."""
    saved(path, rows)
    forge(path, lambda header, arrays: header.pop("description"))
    assert load_release(path).description == ""


@pytest.mark.parametrize("words", [None, b"bytes", 3, ["list"], "x" * 10_001])
def test_descriptions_out_of_bounds_are_not_saved(words, rows, path):
    sketch = DPOPORP(8).fit(rows)
    with pytest.raises(ValueError, match=r"string of at most 10,000 characters"):
        save_release(path, sketch.transform(rows), sketch, description=words)
    assert not path.exists()


def test_queries_have_noise_of_their_own(rows, path):
    sketch = DPRandomProjection(projection="identity").fit(rows)
    save_release(path, sketch.transform(rows), sketch)
    release = load_release(path)
    assert not (release.sketches == release.estimator.transform(rows)).all(axis=1).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 1e9])
def test_sketches_of_any_size_are_on_their_grid(dtype, magnitude, rows, path):
    X = (magnitude * rows).astype(dtype)
    sketch = DPOPORP(8, max_change=magnitude / 3e4).fit(X)
    save_release(path, sketch.transform(X), sketch)
    assert load_release(path).sketches.dtype == dtype


def test_frames_keep_their_names(rows, path):
    frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(20)])
    sketch = DPOPORP(8).set_output(transform="pandas").fit(frame)
    save_release(path, sketch.transform(frame), sketch)
    estimator = load_release(path).estimator
    assert list(estimator.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        estimator.transform(frame[frame.columns[::-1]])


def test_a_seeded_release_is_saved_as_what_it_is(rows, path):
    with reproducible_noise(0):
        sketch = DPOPORP(8).fit(rows)
        S = sketch.transform(rows)
    save_release(path, S, sketch)
    release = load_release(path)
    assert release.guarantee.seeded
    assert not release.estimator.guarantee_.seeded
    for estimator in (release.estimator, pickle.loads(pickle.dumps(release.estimator)), release.estimator.fit(rows)):
        save_release(path, S, estimator)
        assert load_release(path).guarantee.seeded


@every
def test_nothing_private_is_in_the_file(sketch, rows, path):
    """No value of the rows and no state of a generator is there; what is there is on this list."""
    rows[3, 4] = IS_SECRET
    sketch = clone(sketch).fit(rows)
    save_release(path, sketch.transform(rows), sketch)
    with zipfile.ZipFile(path) as file:
        content = b"".join(file.read(name) for name in file.namelist())
        assert {name.removesuffix(".npy") for name in file.namelist()} == {"header", "checksum", "sketches", "probe"}
    for value in rows.ravel():
        assert value.tobytes() not in content
        assert repr(float(value)).encode("utf-32-le") not in content
    for row in rows.astype(np.float32):
        for start in range(0, len(row), 2):  # four bytes of one value may be there by chance
            assert row[start : start + 2].tobytes() not in content
    header = json.loads(np.load(path)["header"].item())
    public = {"format", "version", "sketch", "parameters", "feature_names", "projection", "fitted", "guarantee"}
    assert set(header) == public | {"description", "fit"}  # of which the last is drawn
    assert set(header["parameters"]) == set(sketch.get_params())
    assert header["parameters"]["random_state"] is None
    assert set(header["fitted"]) <= {"scale_", "sensitivity_", "flip_epsilon_"}


# Refusals


def saved(path, rows, sketch=None):
    sketch = (DPOPORP(8) if sketch is None else sketch).fit(rows)
    save_release(path, sketch.transform(rows), sketch)


def forge(path, change):
    """Change a file and give it the checksum that goes with it."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").item())
    del arrays["checksum"]
    change(header, arrays)
    text = json.dumps(header)
    np.savez(path, header=text, checksum=checksum_of(text, arrays), **arrays)


def set_in_header(*keys, to):
    def change(header, arrays):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = to

    return change


def larger_change_as_an_earlier_file_says_it(header, arrays):
    """Files of before have no words for what is protected."""
    del header["guarantee"]["protected"], header["guarantee"]["neighbours"]
    header["guarantee"]["adjacency"]["bound"] = 9.0


def set_array(name, change):
    def apply(header, arrays):
        arrays[name] = change(arrays[name])

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in_header("format", to=2), "format"),
        (set_in_header("sketch", to="PCA"), "PCA"),
        (set_in_header("sketch", to="DPSignOPORP"), "unexpected keyword"),
        (set_in_header("parameters", "epsilon", to=0.1), "epsilon"),
        (set_in_header("parameters", "epsilon", to=-1.0), "epsilon"),
        (set_in_header("parameters", "max_change", to=0.5), "adjacency"),
        (set_in_header("parameters", "n_components", to=9), "projection"),
        (set_in_header("parameters", "colour", to="red"), "colour"),
        (set_in_header("guarantee", "epsilon", to=0.1), "epsilon"),
        (set_in_header("guarantee", "delta", to=0.0), "delta"),
        (set_in_header("guarantee", "definition", to="better DP"), "Definition"),
        (set_in_header("guarantee", "adjacency", "bound", to=9.0), "adjacency"),
        (larger_change_as_an_earlier_file_says_it, "adjacency"),
        (set_in_header("guarantee", "protected", to="one row with its label or target"), "protected"),
        (set_in_header("guarantee", "neighbours", to="data sets that differ in one row"), "neighbours"),
        (set_in_header("guarantee", "loss", "mu", to=0.01), "privacy loss"),
        (set_in_header("guarantee", "loss", to=None), "privacy loss"),
        (set_in_header("guarantee", "hidden_changes", to=9.0), "not hidden"),
        (set_in_header("guarantee", "hidden_changes", to="inf"), "not hidden"),
        (set_in_header("guarantee", "trust", to="me"), "trust"),
        (set_in_header("fitted", "scale_", to=1.0), "scale_ was 1"),
        (set_in_header("fitted", to={}), "noise"),
        (set_in_header("projection", "seed", to=1), "come back"),
        (set_in_header("projection", "seed", to="1"), "come back"),
        (set_in_header("projection", "kind", to="RademacherProjection"), "projection"),
        (set_in_header("projection", "n_features", to=21), "come back|projection"),
        (set_in_header("projection", "n_features", to="many"), "no shape"),
        (set_in_header("projection", "n_features", to=0), "no shape"),
        (set_in_header("projection", to=[]), "get"),
        (set_in_header("projection", to={"parts": []}), "repetitions"),
        (set_in_header("feature_names", to=["a"]), "feature names"),
        (set_in_header("description", to=None), "description"),
        (set_in_header("description", to="x" * 10_001), "description"),
        (set_array("sketches", lambda S: S[:, :7]), "shape"),
        (set_array("sketches", lambda S: S[0]), "shape"),
        (set_array("sketches", lambda S: S.astype(np.int8)), "dtype"),
        (set_array("sketches", lambda S: S + 1e-9), "does not release"),
        (set_array("sketches", lambda S: np.full_like(S, np.inf)), "does not release"),
        (set_array("probe", lambda S: S + 1), "come back"),
        (set_array("probe", lambda S: S[:3]), "come back"),
        (lambda header, arrays: header.pop("guarantee"), "guarantee"),
    ],
)
def test_parts_that_do_not_match_are_refused(change, message, rows, path):
    saved(path, rows)
    forge(path, lambda header, arrays: None)
    load_release(path)
    forge(path, change)
    with pytest.raises(ValueError, match=rf"release\.npz: the parts of this release do not match.*({message})"):
        load_release(path)


@pytest.mark.parametrize(
    ("sketch", "bad"),
    [
        (DPSignOPORP(13, output="packed"), lambda S: S | 1),
        (DPSignOPORP(13), lambda S: S * 0),
    ],
)
def test_bits_that_cannot_be_are_refused(sketch, bad, rows, path):
    sketch = clone(sketch).fit(rows)
    with pytest.raises(ValueError, match="does not release"):
        save_release(path, bad(sketch.transform(rows)), sketch)
    assert not path.exists()


def test_parts_of_two_files_do_not_make_a_third(rows, path):
    saved(path, rows)
    with np.load(path) as file:
        first = dict(file)
    saved(path, rows)
    with np.load(path) as file:
        np.savez(path, **dict(file) | {"sketches": first["sketches"]})
    with pytest.raises(ValueError, match="checksum"):
        load_release(path)


def test_damaged_files_are_refused(rows, path):
    saved(path, rows)
    whole = path.read_bytes()
    at = whole.index(np.load(path)["sketches"].tobytes()[:64])
    flipped = whole[: at + 5] + bytes([whole[at + 5] ^ 1]) + whole[at + 6 :]
    for content in (b"", whole[:100], whole[: len(whole) // 2], flipped, b"text"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"release\.npz"):
            load_release(path)
    np.save(path.with_suffix(".npy"), rows)
    with pytest.raises(ValueError, match=r"not a file that skdprp\.load_release reads"):
        load_release(path.with_suffix(".npy"))
    np.savez(path, sketches=rows)
    with pytest.raises(ValueError, match="not a file that"):
        load_release(path)
    np.savez(path, header=np.array([{"pickled": "object"}]), checksum="", sketches=rows, probe=rows)
    with pytest.raises(ValueError, match="not a file that"):
        load_release(path)
    with pytest.raises(FileNotFoundError):
        load_release(path.with_name("other.npz"))


def test_what_is_no_release_is_not_saved(rows, path):
    sketch = DPOPORP(8).fit(rows)
    S = sketch.transform(rows)
    for estimator, sketches, message in (
        (GaussianRandomProjection(8).fit(rows), S, "no sketch of skdprp"),
        (DPOPORP(8).fit(rows).set_params(epsilon=0.1), S, "no guarantee holds"),
        (sketch, S[:, :5], "shape"),
        (sketch, S[0], "shape"),
        (sketch, S.astype(int), "dtype"),
        (sketch, sketch.projection_.project(rows), "does not release"),
        (sketch, np.full_like(S, np.nan), "does not release"),
    ):
        with pytest.raises(ValueError, match=message):
            save_release(path, sketches, estimator)
    with pytest.raises(NotFittedError):
        save_release(path, S, DPOPORP(8))
    assert not path.exists()


def test_pipeline_is_refused_with_what_to_do(tmp_path):
    pipeline = make_pipeline(Normalizer(), DPOPORP(2)).fit(np.eye(3))
    with pytest.raises(TypeError, match=r"pipeline\[-1\], and say in description"):
        save_release(tmp_path / "rows.npz", pipeline.transform(np.eye(3)), pipeline)
    assert not list(tmp_path.iterdir())


# Moments


def moments(**options):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3))
    return DPMoments(target_bounds=(-1, 1), delta=1e-3, **options).fit(X, X[:, 0]).moments_


@pytest.mark.parametrize("intercept", [True, False])
def test_moments_come_back(path, intercept):
    release = moments(fit_intercept=intercept)
    save_moments(path, release, description="flats")
    loaded = load_moments(path)
    assert loaded == release
    assert DPRidge(target_bounds=(0, 1)).fit_moments(loaded).guarantee_ == release.guarantee


def test_moments_keep_the_names_of_features(path):
    release = DPMoments().fit(pd.DataFrame(np.eye(2), columns=["a", "b"])).moments_
    save_moments(path, release)
    assert load_moments(path).columns.names == ("a", "b")


def test_sums_of_moments_keep_which_releases_they_are_made_of(path):
    """In files of moments and of models; of files that were written before, each is one release."""
    one, other, third = moments(), moments(), moments()
    both = add_moments(one, other)
    save_moments(path, both)
    loaded = load_moments(path)
    save_model(path, DPRidge(target_bounds=(-1, 1)).fit_moments(both))
    for again in (loaded, load_model(path).estimator.moments_):
        assert again == both and again.releases == both.releases
        assert add_moments(again, third).n_samples == 150
        with pytest.raises(ValueError, match="added twice"):
            add_moments(again, add_moments(other, third))
    save_moments(path, one)
    rewritten(path, lambda facts, values: ({name: facts[name] for name in facts if name != "releases"}, values))
    assert load_moments(path) == one
    with pytest.raises(ValueError, match="added twice"):
        add_moments(load_moments(path), both)


def test_what_is_no_moments_is_not_saved(path):
    X = np.eye(3)
    projected = DPRidge(target_bounds=(0, 1), mechanism="projection", n_components=9).fit(X, X[0]).moments_
    for wrong in (X, DPMoments().fit(X), projected, None):
        with pytest.raises(TypeError, match="Expected Moments with Gaussian noise"):
            save_moments(path, wrong)
    with pytest.raises(ValueError, match="description"):
        save_moments(path, moments(), description=3)
    assert not path.exists()


def rewritten(path, change):
    """Write the file again with other parts, and a checksum that fits them."""
    with np.load(path) as file:
        facts, values = json.loads(file["header"].item()), file["values"]
    facts, values = change(facts, values)
    header = json.dumps(facts)
    np.savez(path, header=header, checksum=checksum_of(header, {"values": values}), values=values)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts, values: (facts | {"format": 9}, values),
        lambda facts, values: (facts | {"noise_scale": -1.0}, values),
        lambda facts, values: (facts | {"n_samples": 0}, values),
        lambda facts, values: (facts | {"columns": facts["columns"] | {"n_features": 7}}, values),
        lambda facts, values: (facts | {"columns": facts["columns"] | {"color": "red"}}, values),
        lambda facts, values: (facts | {"guarantee": {}}, values),
        lambda facts, values: (facts | {"releases": "ab"}, values),
        lambda facts, values: (facts | {"releases": [1]}, values),
        lambda facts, values: (facts | {"releases": ["AB" * 32]}, values),
        lambda facts, values: (facts | {"releases": ["ab" * 32, "ab" * 32]}, values),
        lambda facts, values: (facts, np.triu(values)),
        lambda facts, values: (facts, values * np.inf),
        lambda facts, values: (facts, values.astype(np.float32)),
    ],
)
def test_parts_of_moments_that_do_not_match_are_refused(path, change):
    save_moments(path, moments())
    with np.errstate(invalid="ignore"):
        rewritten(path, change)
    with pytest.raises(ValueError, match="do not match"):
        load_moments(path)


# Histograms


TABLE = pd.DataFrame(
    {
        "size": np.linspace(0, 1, 200),
        "age": np.arange(200.0) % 50,
        "town": ["York", "Hull"] * 100,
        "kind": [True, b"one"] * 100,
        "sort": [1.5, 2, None, "x"] * 50,
    }
)


def histograms(**options):
    options = {"bounds": {"age": (0, 120)}, "categories": {"kind": [True, 1, b"one"]}, "epsilon": 8.0} | options
    return DPHistograms(**options).fit(TABLE).histograms_


@pytest.mark.parametrize("table", [TABLE, TABLE[["size", "age"]].to_numpy()], ids=["frame", "array"])
def test_histograms_come_back(path, table):
    release = DPHistograms(epsilon=8.0, delta=1e-3).fit(table).histograms_
    save_histograms(path, release, description="flats")
    loaded = load_histograms(path)
    assert loaded == release and repr(loaded) == repr(release)
    binner, expected = DPBinner(4).fit_histograms(loaded), DPBinner(4).fit_histograms(release)
    assert (binner.transform(table) != expected.transform(table)).nnz == 0
    assert binner.guarantee_ == expected.guarantee_


def test_listed_categories_come_back_with_their_types(path):
    save_histograms(path, histograms())
    loaded = load_histograms(path)
    assert [type(name) for name in loaded.column("kind").categories] == [bool, int, bytes]
    assert loaded.column("age").cells.bounds == (0, 120)


def test_columns_of_which_nothing_was_released_come_back(path):
    binner = DPBinner(categories={"kind": [True, b"one"]}).fit(TABLE)
    save_histograms(path, binner.histograms_)
    assert load_histograms(path) == binner.histograms_ and load_histograms(path).column("kind").counts is None


def test_what_is_no_histograms_is_not_saved(path):
    for wrong in (TABLE, DPHistograms().fit(TABLE), moments(), None):
        with pytest.raises(TypeError, match="Expected Histograms"):
            save_histograms(path, wrong)
    with pytest.raises(ValueError, match="description"):
        save_histograms(path, histograms(), description="x" * 10_001)
    assert not path.exists()


def with_column(place, **facts):
    return lambda whole, values: (
        whole | {"columns": [one | facts if i == place else one for i, one in enumerate(whole["columns"])]},
        values,
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda facts, values: (facts | {"format": 9}, values),
        lambda facts, values: (facts | {"noise_scale": 0.0}, values),
        lambda facts, values: (facts | {"n_samples": -1}, values),
        lambda facts, values: (facts | {"names": ["a"]}, values),
        lambda facts, values: (facts | {"guarantee": {}}, values),
        lambda facts, values: (facts, values[:-1]),
        lambda facts, values: (facts, np.append(values, 0.0)),
        lambda facts, values: (facts, values * np.nan),
        lambda facts, values: (facts, values.astype(np.float32)),
        with_column(1, n_cells=10),
        with_column(1, bounds=[0, 100]),
        with_column(2, categories=[["os", "York"]]),
        with_column(3, has=[False, False, False]),
    ],
)
def test_parts_of_histograms_that_do_not_match_are_refused(path, change):
    save_histograms(path, histograms())
    rewritten(path, change)
    with pytest.raises(ValueError, match="do not match"):
        load_histograms(path)


# Models

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize(("steps", "least", "most"), [(0, 0.3, 0.7), (2**24, 0.05, 0.45), (2**25, 0, 0)])
def test_released_numbers_are_saved_whatever_their_type_leaves_of_the_noise(steps, least, most, noise, tmp_path):
    """In float32, numbers above 2^24 steps of the grid are even multiples of it, as those of whole numbers are."""
    sketch = DPRandomProjection(projection="identity", noise=noise).fit(np.zeros((1, 8), np.float32))
    grid = _noise._grid(sketch.scale_)
    released = sketch.transform(np.full((64, 8), steps * grid, np.float32))
    assert released.dtype == np.float32 and least <= (released.astype(float) % (2 * grid) != 0).mean() <= most
    save_release(tmp_path / "release.npz", released, sketch)
    assert (load_release(tmp_path / "release.npz").sketches == released).all()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda sketch: pickle.loads(pickle.dumps(sketch))])
def test_seeded_sketches_of_a_copy_are_saved_as_such(copied, tmp_path):
    """They have the noise of a seed, whichever copy of the fit is given beside them; another fit is another one."""
    sketch, rows = DPOPORP(2).fit(np.eye(4)), np.eye(4)
    with reproducible_noise(0):
        seeded = copied(sketch).transform(rows)
    save_release(tmp_path / "release.npz", seeded, sketch)
    assert load_release(tmp_path / "release.npz").guarantee.seeded
    save_release(tmp_path / "release.npz", sketch.fit(rows).transform(rows), sketch)
    assert not load_release(tmp_path / "release.npz").guarantee.seeded


X, TARGETS = RNG.uniform(-0.5, 0.5, (120, 4)), RNG.uniform(-1, 1, 120)
LABELS = np.where(X[:, 0] > 0, "yes", "no")
PEOPLE = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(town=["Hull", "York"] * 60)
BINARY = AMPClassifier(classes=["no", "yes"], delta=1e-6)
MODELS = [
    (BINARY, X, LABELS),
    (AMPClassifier(classes=[0, 1, 2], calibration=Published()), X, np.arange(120) % 3),
    (ProductNoiseOutputPerturbation(classes=[True, False]), X, X[:, 0] > 0),
    (DPSGDClassifier(classes=[3, 7], n_epochs=2), X, 3 + 4 * (X[:, 0] > 0)),
    (DPSGDClassifier(classes=["no", "yes"], hidden_layer_sizes=(3,), n_epochs=2), X, LABELS),
    (DPRidge(target_bounds=(-1, 1)), X, TARGETS),
    (DPRidge(target_bounds=[(-1, 1), (-2, 2)], mechanism="moments"), X, np.c_[TARGETS, X[:, 0]]),
    (MIDPRegressor(), X, TARGETS),
    (DPPCA(2), X, None),
    (DPMoments(), X, None),
    (DPScaler(), X, None),
    (DPBinner(categories={"town": ["Hull", "York"]}), PEOPLE, None),
    (DPHistograms(), PEOPLE, None),
    (
        make_pipeline(
            make_table_preprocessor({"a": (-1, 1), "b": (-1, 1)}, categories={"town": ["Hull"]}, epsilon=0.5), BINARY
        ),
        PEOPLE,
        LABELS,
    ),
    (make_pipeline(StandardScaler(), PCA(2), Normalizer(), BINARY), X, LABELS),
    (OneVsRestClassifier(AMPClassifier(classes=[0, 1])), X, np.arange(120) % 3),
    (FixedThresholdClassifier(BINARY, threshold=0.4, pos_label="yes"), X, LABELS),
    (make_pipeline(make_column_transformer((DPPCA(2), [0, 1, 2]), remainder="passthrough"), BINARY), X, LABELS),
    (
        DPSearchCV(make_pipeline(Normalizer(), BINARY), {"ampclassifier__max_norm": [0.5, 1.0]}, n_trials=2),
        X,
        LABELS,
    ),
]


def test_every_model_is_listed():
    """Files name what they may hold, and never look up a class by what a file says."""
    read = "add it to _ESTIMATORS of skdprp/release_file/_values.py, and what it keeps that is no number to _RECORDS"
    assert not unlisted(ESTIMATORS - public.SKETCHES, _values._ESTIMATORS), read
    assert not unlisted(PRIVATE - public.SKETCHES, MODELS), "add it to MODELS of tests/test_release_file.py"


@pytest.fixture
def model(path):
    saved = clone(BINARY).fit(X, LABELS)
    save_model(path, saved, description="points")
    return saved


@pytest.mark.filterwarnings("ignore::skdprp.PrivacyWarning")
@pytest.mark.parametrize(("model", "rows", "y"), MODELS, ids=lambda one: type(one).__name__)
def test_a_model_comes_back_and_does_as_it_did(model, rows, y, path):
    model = clone(model).fit(rows, y)
    save_model(path, model, description="whose rows")
    saved = load_model(path)
    assert saved.version == __version__ and saved.description == "whose rows"
    before, after = {}, {}
    assert described(saved.estimator, after) == described(model, before)  # parameters, attributes and guarantees
    assert after.keys() == before.keys()
    for name, array in before.items():
        assert after[name].dtype == array.dtype
        np.testing.assert_array_equal(after[name], array)
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(model, method):
            results = [getattr(one, method)(rows) for one in (saved.estimator, model)]
            np.testing.assert_array_equal(*(one.toarray() if sp.issparse(one) else one for one in results))
    assert repr(saved.estimator) == repr(model)
    assert saved.guarantees and all(isinstance(path, str) for path in saved.guarantees)


def test_guarantees_of_a_saved_model_go_by_the_paths_of_its_steps(path):
    pipeline = make_pipeline(DPPCA(2, epsilon=0.5, delta=1e-6), clone(BINARY)).fit(X, LABELS)
    save_model(path, pipeline)
    guarantees = load_model(path).guarantees
    assert guarantees == {"dppca": pipeline[0].guarantee_, "ampclassifier": pipeline[1].guarantee_}


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (OneVsRestClassifier(make_pipeline(DPScaler(), AMPClassifier(classes=[0, 1]))), np.arange(120) % 3),
        (MultiOutputClassifier(AMPClassifier(classes=[0, 1])), np.c_[np.arange(120) % 2, np.arange(120) % 3 % 2]),
        (MultiOutputClassifier(OneVsRestClassifier(AMPClassifier())), np.c_[np.arange(120) % 2, np.arange(120) % 3]),
    ],
)
def test_members_of_an_ensemble_are_given_what_a_report_on_it_says(model, y, path):
    """Which labels occur decides how an ensemble encodes them, and how many members it has."""
    save_model(path, model.fit(X, y))
    total = privacy_report(model).total
    assert total.given and {one.given for one in load_model(path).guarantees.values()} == {total.given}


def test_a_seeded_model_is_saved_as_what_it_is(path):
    with reproducible_noise(0):
        save_model(path, clone(BINARY).fit(X, LABELS))
    assert load_model(path).guarantees[""].seeded


class Unknown(StandardScaler):
    """Of a library that no file knows."""


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (clone(BINARY), NotFittedError, "not fitted"),
        (StandardScaler().fit(X), ValueError, "holds no private model"),
        (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, LABELS), ValueError, "holds no private model"),
        (make_pipeline(FunctionTransformer(np.tanh), clone(BINARY)).fit(X, LABELS), TypeError, "ufunc"),
        (make_pipeline(Unknown(), clone(BINARY)).fit(X, LABELS), TypeError, "Unknown"),
        (make_pipeline(DPOPORP(2), clone(BINARY)).fit(X, LABELS), TypeError, "DPOPORP"),
    ],
)
def test_what_no_file_has_room_for_is_not_saved(estimator, error, message, path):
    with pytest.raises(error, match=message):
        save_model(path, estimator)
    assert not path.exists()


def of_model(header):
    return header["model"]["estimator"][1]["dict"]


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("model"),
        lambda header: header.update(model=[1, 2]),
        lambda header: header.update(model={"type": "Popen"}),
        lambda header: header["model"].update(estimator=["Popen", {"dict": []}]),
        lambda header: header["model"].update(estimator=["LogisticRegression", {"dict": []}]),
        lambda header: header["model"].update(estimator=["StandardScaler", {"dict": [["scale_", 1.0]]}]),
        lambda header: of_model(header).append(["predict", "of mine"]),
        lambda header: of_model(header).append(["__class__", "of mine"]),
        lambda header: of_model(header).append(["two words", 1]),
        lambda header: of_model(header).append(["more_", {"array": "array_0"}]),
        lambda header: of_model(header).append(["more_", {"array": "sketches"}]),
        lambda header: of_model(header).append(["more_", {"eval": "1"}]),
        lambda header: of_model(header).append(["more_", {"record": ["Popen", {"dict": []}]}]),
        lambda header: of_model(header).append(["more_", {"guarantee": "{}"}]),
        lambda header: of_model(header).append(["more_", {"objects": [[10**9], []]}]),
        lambda header: of_model(header).insert(0, ["epsilon", -1.0]) or of_model(header).pop(1),
    ],
)
def test_headers_of_models_that_do_not_match_are_refused(change, model, path):
    forge(path, lambda header, arrays: None)
    assert load_model(path).estimator.predict(X).tolist() == model.predict(X).tolist()
    forge(path, lambda header, arrays: change(header))
    with pytest.raises(ValueError, match=r"release\.npz: the parts of this release do not match"):
        load_model(path)


def test_an_array_that_belongs_to_nothing_is_refused(model, path):
    forge(path, lambda header, arrays: arrays.update(array_99=np.zeros(3)))
    with pytest.raises(ValueError, match="belong to no part"):
        load_model(path)


def test_another_version_of_scikit_learn_is_named_where_its_steps_are_used(path):
    with pytest.warns(PrivacyWarning, match="No guarantee covers .* standardscaler learns from the rows"):
        save_model(path, make_pipeline(StandardScaler(), clone(BINARY)).fit(X, LABELS))
    forge(path, lambda header, arrays: header.update({"scikit-learn": "0.9"}))
    with pytest.warns(UserWarning, match="was saved by scikit-learn 0.9"):
        load_model(path)


# Files of anybody


def files_of_all_kinds(folder):
    """Write one file of each kind; return its path and how it is read."""
    sketch = DPOPORP(3, random_state=0).fit(X)
    save_release(folder / "sketches.npz", sketch.transform(X[:5]), sketch)
    save_moments(folder / "moments.npz", DPMoments().fit(X).moments_)
    save_histograms(folder / "counts.npz", DPHistograms(n_cells=64).fit(X).histograms_)
    save_model(folder / "model.npz", clone(BINARY).fit(X, LABELS))
    readers = {"sketches": load_release, "moments": load_moments, "counts": load_histograms, "model": load_model}
    return {folder / f"{name}.npz": read for name, read in readers.items()}


def test_no_row_is_in_a_file_of_any_kind(tmp_path):
    """Rows of few digits would be there by chance: these have all of theirs."""
    for path in files_of_all_kinds(tmp_path):
        with zipfile.ZipFile(path) as file:
            content = b"".join(file.read(name) for name in file.namelist())
        assert path.stat().st_size > 1000
        for value in X.ravel():
            assert value.tobytes() not in content and repr(float(value)).encode("utf-32-le") not in content


def test_a_file_of_another_kind_is_refused_by_the_name_of_what_reads_it(tmp_path):
    """Also those of moments and histograms, whose arrays have the same name."""
    files = files_of_all_kinds(tmp_path)
    for path, own in files.items():
        for read in {*files.values()} - {own}:
            with pytest.raises(ValueError, match=rf"{path.name}: {read.__name__} does not .* skdprp\.{own.__name__}\."):
                read(path)


@pytest.mark.parametrize("read", [load_release, load_moments, load_histograms, load_model])
def test_a_table_is_refused_by_the_name_of_what_does_not_read_it(read, tmp_path):
    (tmp_path / "table.csv").write_text("age,income\n31,40\n")
    with pytest.raises(ValueError, match=rf"table\.csv: not a file that skdprp\.{read.__name__} reads"):
        read(tmp_path / "table.csv")


def content_of(release):
    """What was read, to compare."""
    if hasattr(release, "estimator"):
        return str(release.guarantees) if hasattr(release, "guarantees") else release.sketches.tobytes()
    return release


def test_files_with_a_few_bytes_changed_are_refused_or_read_as_before(tmp_path):
    """Also cut short, or with bytes repeated: never another error, and never another content."""
    rng = np.random.default_rng(0)
    for path, read in files_of_all_kinds(tmp_path).items():
        original, content = path.read_bytes(), content_of(read(path))
        for _ in range(100):
            data, kind = bytearray(original), rng.integers(4)
            place, length = rng.integers(len(data)), rng.integers(1, 9)
            if kind == 0:
                data[place : place + length] = rng.bytes(len(data[place : place + length]))
            elif kind == 1:
                del data[place:]
            elif kind == 2:
                del data[place : place + length]
            else:
                data[place:place] = data[place : place + 40 * length]
            path.write_bytes(bytes(data))
            try:
                assert content_of(read(path)) == content
            except ValueError as error:
                assert str(path) in str(error)


def zipped(path, members, **options):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members:
            file.writestr(name, data, **options)


def npy_of(shape, dtype="<f8", data=b""):
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\x05\x06" + bytes(18)),
        lambda path: path.write_bytes(pickle.dumps([1, 2])),
        lambda path: path.write_bytes(npy_of((3,), data=bytes(24))),
        lambda path: np.savez_compressed(path, header="{}", checksum="", values=np.zeros(10**6)),
        lambda path: np.savez(path, header=np.array([{}], dtype=object), checksum="", values=np.zeros(1)),
        lambda path: zipped(path, [("header.npy", npy_of((10**15,))), ("checksum.npy", npy_of(()))]),
        lambda path: zipped(path, [("header.npy", npy_of((2**62, 4))), ("checksum.npy", npy_of(()))]),
        lambda path: zipped(path, [("header.npy", npy_of((-1,)))]),
        lambda path: zipped(path, [("header.npy", npy_of((10**15,), "<U0"))]),
        lambda path: zipped(path, [("header.npy", npy_of((0, 10**15)))]),
        lambda path: zipped(path, [("header.npy", npy_of((1,), "|O", bytes(8)))]),
        lambda path: zipped(path, [("header.npy", npy_of((), "<f8", bytes(8)))] * 2),
        lambda path: zipped(path, [("header.npy", b"\x93NUMPY\x03\x00" + bytes(99))]),
        lambda path: np.savez(path, header="[" * 10**6, checksum=checksum_of("[" * 10**6, {})),
        lambda path: np.savez(path, header="[" * 9000, checksum=checksum_of("[" * 9000, {})),
        lambda path: np.savez(path, header="9" * 9000, checksum=checksum_of("9" * 9000, {})),
    ],
)
def test_hostile_files_are_refused_by_their_name(write, path):
    write(path)
    for read in (load_release, load_moments, load_histograms, load_model):
        with pytest.raises(ValueError, match=r"release\.npz"):
            read(path)


def test_a_forged_loss_or_facts_of_a_guarantee_are_not_taken_over(path):
    """It was compared at one point, where many bits lose next to nothing, and evaluated whatever its parameters."""
    rows = np.full((2, 300), 0.5)
    sketch = DPSignOPORP(256, n_repeats=256, random_state=0).fit(rows)
    save_release(path, sketch.transform(rows), sketch)
    forge(path, lambda header, arrays: header["guarantee"].update(assumptions=[], not_covered=[], per="fit"))
    assert load_release(path).guarantee == sketch.guarantee_
    for loss in ({"mu": 1e-9, "profiles": []}, {"profiles": []}, {"mu": 1e-9}):
        forge(path, lambda header, arrays, loss=loss: header["guarantee"]["loss"].update(loss))
        with pytest.raises(ValueError, match="the privacy loss is not that of the mechanism"):
            load_release(path)
    save_release(path, sketch.transform(rows), sketch)
    many = {"n_bits": 10**9}
    forge(path, lambda header, _: header["guarantee"]["loss"]["profiles"][0]["parameters"].update(many))
    with pytest.raises(ValueError, match="the privacy loss is not that of the mechanism"):
        load_release(path)


@pytest.mark.parametrize(
    ("sketch", "n_components"),
    [
        (DPRandomProjection(1, adjacency="l2", random_state=0), 60_000),
        (DPSignRP(1, delta=1e-6, random_state=0), 500_000),
    ],
)
def test_a_narrow_projection_cannot_ask_for_hours(sketch, n_components, path):
    rows = np.full((1, 1), 0.5)
    save_release(path, sketch.fit(rows).transform(rows), sketch)
    load_release(path)
    for part in ("projection", "parameters"):
        forge(path, lambda header, _, part=part: header[part].update(n_components=n_components))
    with pytest.raises(ValueError, match="raise max_projection_size"):
        load_release(path)


@pytest.mark.parametrize("sketch", [DPOPORP(4), DPRandomProjection(4), DPRandomProjection(4, adjacency="l2")])
def test_a_small_file_cannot_ask_for_a_large_projection(sketch, rows, path):
    sketch = sketch.fit(rows)
    save_release(path, sketch.transform(rows), sketch)
    with pytest.raises(ValueError, match="raise max_projection_size"):
        load_release(path, max_projection_size=300)
    assert load_release(path, max_projection_size=1000).guarantee == sketch.guarantee_
    for change in ({"n_features": 10**12}, {"n_components": 10**8}):
        forge(path, lambda header, arrays, change=change: header["projection"].update(change))
        with pytest.raises(ValueError, match="raise max_projection_size"):
            load_release(path)


# Faults while writing


def test_a_write_that_fails_leaves_the_older_file(path):
    path.write_text("older")

    def fails(part):
        part.write_text("half")
        raise OSError(28, "No space left on device", str(part))

    with pytest.raises(OSError, match=rf"No space left on device: '{path}'"):
        replace_file(path, fails)
    assert path.read_text() == "older" and list(path.parent.iterdir()) == [path]


def test_a_file_is_replaced_at_once_and_keeps_its_mode_and_its_links(path):
    path.write_text("older")
    path.chmod(0o640)
    link = path.with_name("link.npz")
    link.symlink_to(path)

    def dump(part):
        assert path.read_text() == "older" and part.parent == path.parent and part.suffix == ".npz"
        part.write_text("newer")

    replace_file(link, dump)
    assert link.is_symlink() and path.read_text() == "newer" and path.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(pipe, lambda target: target.write_text("hello"))
    assert os.read(reader, 10) == b"hello" and pipe.is_fifo()
    os.close(reader)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        save_moments(tmp_path / "nowhere" / "moments.npz", DPMoments().fit(X).moments_)


def test_a_sketch_that_was_fitted_otherwise_before_states_no_guarantee_of_a_file(path):
    """The sketches were released at an epsilon of 9, and the file said 0.1."""
    rows = np.zeros((3, 8))
    sketch = DPSignOPORP(8, epsilon=9.0).fit(rows)
    released = sketch.transform(rows)
    sketch.set_params(epsilon=0.1).fit(rows)
    with pytest.raises(ValueError, match=r"of an earlier fit.*fit a clone"):
        save_release(path, released, sketch)
    assert not path.exists()
