"""Files that somebody made to harm whoever reads them: each is refused by its name, at the price of its size."""

import json
import tracemalloc
from copy import copy
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPHistograms,
    DPRidge,
    load_histograms,
    load_model,
    load_moments,
    load_release,
    save_histograms,
    save_model,
    save_moments,
    save_release,
)
from skdprp.release_file._file import checksum_of

X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 3))
READERS = {"sketches": load_release, "moments": load_moments, "counts": load_histograms, "model": load_model}
NEVER = [-1, float("nan"), {"type": "int"}]  # what no fact is, but for
ALLOWED = {("sketches", "parameters", "n_jobs", "-1")}
HUGE = [10**9, 10**15, 10**400, {"range": [0, 10**12, 1]}, {"slice": [0, 10**12, 1]}, {"objects": [[10**6] * 2, []]}]
SIZES = [
    ("sketches", "parameters", "n_components"),
    ("sketches", "projection", "n_features"),
    ("sketches", "projection", "n_components"),
    ("moments", "columns", "n_features"),
    ("moments", "columns", "intercept"),
    ("counts", "columns", 0, "n_cells"),
    ("model", "model", "estimator", 1, "dict"),
    ("model", "model", "estimator", 1),
]
MANY = ["x" * 10**5, [0] * 10**4, [[]] * 10**4, {str(i): i for i in range(10**3)}]
OTHER_ARRAYS = {
    "none of it": lambda array: array[:0],
    "more dimensions": lambda array: array[None, None],
    "another type": lambda array: np.full(array.shape, b"x"),
    "texts": lambda array: np.full(array.shape, "xy"),
    "nan": lambda array: np.full(array.shape, np.nan),
    "infinity": lambda array: np.full(array.shape, -np.inf),
    "beyond": lambda array: np.full(array.shape, np.iinfo(np.uint64).max),
    "wide": lambda array: np.zeros((0, 10**12)),
    "a pickle": lambda array: np.full(max(array.size, 1), Touch(), dtype=object),
}
TOUCHED = "touched.txt"


class Touch:
    """Writes a file where somebody unpickles it."""

    def __reduce__(self):
        return Path.touch, (Path(TOUCHED),)


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    """Header and arrays of a file of each kind."""
    folder, y = tmp_path_factory.mktemp("files"), X[:, 0]
    sketch = DPOPORP(3, random_state=0).fit(X)
    save_release(folder / "sketches.npz", sketch.transform(X[:5]), sketch)
    save_moments(folder / "moments.npz", DPRidge(target_bounds=(-1, 1), mechanism="moments").fit(X, y).moments_)
    save_histograms(folder / "counts.npz", DPHistograms(n_cells=64).fit(X).histograms_)
    save_model(folder / "model.npz", AMPClassifier(classes=[False, True]).fit(X, y > 0))
    files = {}
    for kind in READERS:
        with np.load(folder / f"{kind}.npz") as file:
            arrays = dict(file)
        del arrays["checksum"]
        files[kind] = json.loads(arrays.pop("header").item()), arrays
    return files


def places(facts, depth=2):
    """Where facts are in a header, by the keys that lead there."""
    for key in facts if isinstance(facts, dict) and depth else ():
        yield (key,)
        yield from ((key, *rest) for rest in places(facts[key], depth - 1))


def with_other(facts, place, value):
    """Facts in which a value stands at a place."""
    if not place:
        return value
    facts = copy(facts)
    facts[place[0]] = with_other(facts[place[0]], place[1:], value)
    return facts


def hostile_files(files):
    """Yield what each file is, its kind, its header and its arrays, with a checksum that fits."""
    for kind, (facts, arrays) in files.items():
        for place, value in product(places(facts), NEVER):
            if (kind, *place, str(value)) not in ALLOWED:
                yield (kind, *place, value), kind, with_other(facts, place, value), arrays
        for name, (how, change) in product(arrays, OTHER_ARRAYS.items()):
            if kind != "model" or how in ("a pickle", "wide"):  # a model may have learnt any numbers
                yield (kind, name, how), kind, facts, arrays | {name: change(arrays[name])}
        yield (kind, "without arrays"), kind, facts, {}
        yield (kind, "of another kind"), kind, *files["moments" if kind != "moments" else "model"]
    for (kind, *place), value in product(SIZES, HUGE + MANY):
        facts, arrays = files[kind]
        yield (kind, *place, str(value)[:20]), kind, with_other(facts, place, value), arrays


def test_hostile_files_are_refused_by_their_name_at_the_price_of_their_size(whole_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, n_files, faults = tmp_path / "hostile.npz", 0, []
    for what, kind, facts, arrays in hostile_files(whole_files):
        header = json.dumps(facts)
        plain = {name: array for name, array in arrays.items() if array.dtype != object}
        np.savez(path, header=header, checksum=checksum_of(header, plain), **arrays)
        n_files += 1
        tracemalloc.start()
        try:
            READERS[kind](path)
            faults.append((what, "was read"))
        except ValueError as error:
            if str(path) not in str(error):
                faults.append((what, f"does not say which file: {error}"))
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        if peak > 3 * path.stat().st_size + 2 * 10**7:
            faults.append((what, f"took {peak:,} bytes"))
    assert not faults
    assert n_files > 400
    assert not Path(TOUCHED).exists()


def test_whole_files_are_read_from_the_same_parts(whole_files, tmp_path):
    for kind, (facts, arrays) in whole_files.items():
        header = json.dumps(facts)
        np.savez(tmp_path / "whole.npz", header=header, checksum=checksum_of(header, arrays), **arrays)
        READERS[kind](tmp_path / "whole.npz")
