"""Releases in files: what goes in, what comes back, and what is refused."""

import dataclasses
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.random_projection import GaussianRandomProjection

from skdprp import (
    DPOPORP,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPSignOPORP,
    DPSignRP,
    __version__,
    iDPSignRP,
    load_histograms,
    load_moments,
    load_release,
    save_histograms,
    save_moments,
    save_release,
)
from skdprp.release_file import _sketches
from skdprp.release_file._file import checksum_of
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
    assert set(header) == public | {"description"}
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
        header, arrays = json.loads(file["header"].item()), {name: file[name] for name in ("sketches", "probe")}
    change(header, arrays)
    text = json.dumps(header)
    np.savez(path, header=text, checksum=checksum_of(text, arrays), **arrays)


def set_in_header(*keys, to):
    def change(header, arrays):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = to

    return change


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
        (set_in_header("guarantee", "loss", "mu", to=0.01), "privacy loss"),
        (set_in_header("guarantee", "loss", to=None), "privacy loss"),
        (set_in_header("guarantee", "trust", to="me"), "trust"),
        (set_in_header("fitted", "scale_", to=1.0), "scale_ was 1"),
        (set_in_header("fitted", to={}), "noise"),
        (set_in_header("projection", "seed", to=1), "come back"),
        (set_in_header("projection", "seed", to="1"), "come back"),
        (set_in_header("projection", "kind", to="RademacherProjection"), "projection"),
        (set_in_header("projection", "n_features", to=21), "come back|projection"),
        (set_in_header("projection", "n_features", to="many"), "str"),
        (set_in_header("projection", "n_features", to=0), "empty"),
        (set_in_header("projection", to=[]), "kind"),
        (set_in_header("projection", to={"parts": []}), "range"),
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
    with pytest.raises(ValueError, match="not a release"):
        load_release(path.with_suffix(".npy"))
    np.savez(path, sketches=rows)
    with pytest.raises(ValueError, match="not a release"):
        load_release(path)
    np.savez(path, header=np.array([{"pickled": "object"}]), checksum="", sketches=rows, probe=rows)
    with pytest.raises(ValueError, match="not a release"):
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


def test_files_of_sketches_are_no_moments(path, rows):
    sketch = DPOPORP(2).fit(rows)
    save_release(path, sketch.transform(rows), sketch)
    with pytest.raises(ValueError, match="not a release"):
        load_moments(path)
    save_moments(path, moments())
    with pytest.raises(ValueError, match="not a release"):
        load_release(path)


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


def test_files_of_moments_are_no_histograms(path):
    save_moments(path, moments())
    with pytest.raises(ValueError, match="do not match"):
        load_histograms(path)
    save_histograms(path, histograms())
    with pytest.raises(ValueError, match="do not match"):
        load_moments(path)
