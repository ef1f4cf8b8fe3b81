"""Attacks on sketches: what goes on behind them, what pages say of changes, how well changes are hidden."""

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdprp import (
    DPOPORP,
    DPRandomProjection,
    DPSignOPORP,
    DPSignRP,
    PrivacyLedger,
    PublicScaler,
    iDPSignRP,
    privacy_report,
)
from skdprp.testing._tape import tape_of

PAGE = Path(__file__).parents[1] / "doc" / "guide" / "sketches.rst"
# scikit-learn warns of few steps; that a sketch has more numbers than the rows is wanted here
pytestmark = pytest.mark.filterwarnings("ignore")


# What goes on from an earlier fit


def _forest_of_plain_rows(X, y):
    return RandomForestClassifier(1, bootstrap=False, warm_start=True).fit(X, y).set_params(n_estimators=2)


def _descent_of_plain_rows(X, y):
    return SGDClassifier(warm_start=True, max_iter=1).fit(X, y)


@pytest.mark.parametrize("fitted", [_forest_of_plain_rows, _descent_of_plain_rows])
@pytest.mark.parametrize("before", [True, False], ids=["plan", "report"])
@pytest.mark.parametrize("inner", [True, False], ids=["inner", "plain"])
def test_what_goes_on_from_a_fit_to_plain_rows_is_no_post_processing(fitted, before, inner):
    """A step with warm_start=True keeps what it learned before: a pipeline fits it as it is, and clones nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(60, 1)), np.arange(60) % 2
    step = fitted(X, y)
    step = make_pipeline(PublicScaler((0, 1)), step) if inner else step
    pipeline = make_pipeline(DPRandomProjection(projection="identity", epsilon=0.1), step)
    report = privacy_report(pipeline, X, y) if before else privacy_report(pipeline.fit(X, y))
    assert report.total is None or "warm_start" in " ".join(report.total.assumptions)


def test_a_warm_start_shows_what_was_learned_of_plain_rows():
    """The first tree is that of the plain rows, also after the fit to their sketches: this is why."""
    thresholds = set()
    for value in (1.0, 2.0):
        X, y = np.linspace(-1, 0.5, 60)[:, None], np.zeros(60, int)
        X[0], y[0] = value, 1
        forest = _forest_of_plain_rows(X, y)
        make_pipeline(DPRandomProjection(projection="identity", epsilon=0.1), forest).fit(X, y)
        thresholds.add(float(forest.estimators_[0].tree_.threshold.max()))
    assert thresholds == {0.75, 1.25}


# What the guide says of changes


def _line_of(words):
    [line] = [line for line in PAGE.read_text().splitlines() if line.strip().startswith('"') and words in line]
    return line


def test_words_in_lower_case_move_words_beside_them():
    """How a sigma is written depends on what follows it: one word replaced moves four counts, and not two."""
    counts = HashingVectorizer(norm=None).transform(["ΑΣ'ΒΒ", "ΑΣ'11", "ΑΣ'"]).toarray()
    assert [int(np.abs(counts[0] - other).sum()) for other in counts[1:]] == [4, 3]
    assert "lowercase=False" in _line_of("occurrence of a word")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_tiny_numbers_leave_a_normalizer_longer_than_one(dtype):
    """Squares of tiny numbers round to 0, and those of sparse rows are divided by what is left: the page says so."""
    unit = np.sqrt(np.finfo(dtype).smallest_subnormal.astype(np.float64)) if dtype is np.float32 else 2.0**-537
    row = np.full((1, 10_000), 0.7 * unit, dtype=dtype)
    row[0, 0] = 1.2 * unit
    longest = sp.linalg.norm(Normalizer().fit_transform(sp.csr_matrix(row)).astype(np.float64))
    if longest <= 1 + 1e-6:
        pytest.skip("This version of scikit-learn squares them in another way.")
    assert "numbers whose squares are too small" in PAGE.read_text(), f"a row of norm {longest:.1f} is not mentioned"


@pytest.mark.parametrize("n", [2, 3, 5])
def test_ngrams_within_words_move_as_the_guide_says(n):
    """One code point replaced moves n and n n-grams at most, one inserted 2 n - 1."""
    rng = np.random.default_rng(n)
    ngrams = HashingVectorizer(analyzer="char_wb", ngram_range=(n, n), norm=None, lowercase=False).build_analyzer()
    letters = np.array(list("aab. \t\u3000\u00e9\u0301\x1c\u03a3"))
    for _ in range(3000):
        text = rng.choice(letters, rng.integers(1, 14))
        place, letter = rng.integers(len(text)), rng.choice(letters)
        replaced, inserted = text.copy(), np.insert(text, place, letter)
        replaced[place] = letter
        of_text, *others = (Counter(ngrams("".join(one))) for one in (text, replaced, inserted))
        moved = [((of_text - other).total(), (other - of_text).total()) for other in others]
        assert max(moved[0]) <= n
        assert sum(moved[1]) <= 2 * n - 1


# Damaged rows


def test_damaged_columns_are_refused():
    """A row number beyond the rows is refused before scipy writes beside its memory: a process may die of it."""
    code = """
import numpy as np, scipy.sparse as sp
from skdprp import DPOPORP
X = sp.csc_matrix(np.ones((2, 3)))
X.indices[1] = 2_000
try:
    DPOPORP(2).fit(X)
except ValueError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n"


# How well changes are hidden


def _distance_of_bits(one, other):
    """Total variation distance of independent bits."""
    bits = np.array(list(itertools.product([0, 1], repeat=len(one))))
    of_each = [np.prod(np.where(bits, p, 1 - p), axis=1) for p in (one, other)]
    return np.abs(of_each[0] - of_each[1]).sum() / 2


_SIGNS = [
    *(DPSignRP(5, method=method, adjacency=one, delta=0.01, random_state=0)
      for method in ("smooth", "rr", "laplace") for one in ("coordinate", "l1")),
    *(DPSignOPORP(6, method=method, n_repeats=2, random_state=0) for method in ("smooth", "rr", "laplace")),
    *(DPSignOPORP(6, adjacency=one, random_state=0) for one in ("l1", "l2")),
]  # fmt: skip
_NUMBERS = [
    *(DPRandomProjection(4, projection=kind, adjacency=one, density=0.5, random_state=0)
      for kind in ("gaussian", "very_sparse", "count_sketch") for one in ("l1", "l2")),
    *(DPOPORP(4, adjacency=one, random_state=0) for one in ("l1", "l2")),
]  # fmt: skip


@pytest.mark.parametrize("sketch", [*_SIGNS, *_NUMBERS], ids=repr)
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_no_change_that_is_hidden_is_guessed(sketch, epsilon):
    """Rows as far apart as `hides` says: the best guess, computed exactly, is right with probability 3/4 at most."""
    rng, p = np.random.default_rng(0), 5
    sketch = sketch.set_params(epsilon=epsilon, max_change=0.3).fit(np.zeros((1, p)))
    hidden, projection = min(sketch.guarantee_.hides, 300.0), sketch.projection_
    order = 2 if sketch.adjacency == "l2" else 1
    steps = [*np.eye(p), *(() if sketch.adjacency == "coordinate" else rng.normal(size=(10, p)))]
    for step in steps:
        step = step * hidden / np.linalg.norm(step, order) * (1 - 1e-12)
        for row in (-step / 2, np.zeros(p), 0.3 * rng.integers(-3, 4, p), rng.normal(size=p)):
            x = projection.project(np.stack([row, row + step]))
            if hasattr(sketch, "positive_probability"):
                distance = _distance_of_bits(*sketch.positive_probability(x))
            else:
                distance = 2 * ndtr(np.linalg.norm(x[0] - x[1]) / projection.divisor / 2 / sketch.scale_) - 1
            assert (1 + distance) / 2 <= 0.75 + 1e-12


# The same rows in other clothes


def _forms(X):
    yield from (np.asfortranarray(X), X.tolist(), X.astype(object), X.astype(np.longdouble), X.astype(">f8"))
    yield np.repeat(X, 2, axis=1)[:, ::2]
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array, sp.bsr_array, sp.dia_array):
        yield kind(X)
    stored = sp.csr_matrix(np.ones(X.shape))
    stored.data = X.ravel().copy()  # also zeros, and both kinds of them
    yield stored
    halves = np.concatenate([X.ravel() / 2 + 64, X.ravel() / 2, np.full(X.size, -64.0)])
    places = [np.tile(index.ravel(), 3) for index in np.indices(X.shape)]
    order = np.random.default_rng(0).permutation(halves.size)
    yield sp.coo_matrix((halves[order], [place[order] for place in places]), shape=X.shape)


@pytest.mark.parametrize(
    "sketch",
    [
        DPOPORP(3, random_state=0),
        DPRandomProjection(3, projection="very_sparse", density=0.5, random_state=0),
        DPRandomProjection(projection="identity"),
        DPSignOPORP(3, max_change=0.1, random_state=0),
        iDPSignRP(3, projection="oporp", method="rr", random_state=0),
    ],
    ids=repr,
)
def test_rows_in_any_form_reach_the_noise_alike(sketch):
    """Dense or sparse, in any order, with stored zeros and entries in parts: the last bit is the same."""
    X = np.random.default_rng(0).integers(-64, 64, (30, 6)) / 16
    X[::3, ::2] = -0.0
    sketch.fit(X)
    plain = tape_of(lambda: sketch.transform(X))
    for form in _forms(X):
        other = tape_of(lambda form=form: sketch.transform(form))
        assert all(np.array_equal(a[2], b[2]) for a, b in zip(plain, other, strict=True))


# One release of each chunk, however dask fuses what uses it


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
