"""Attacks on what the pages of the documentation say: of neighbours, of noise, and of mechanisms of one's own."""

import collections
import inspect
import itertools
import random
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attacks import X6
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import Normalizer

import skdprp
from skdprp import (
    DPOPORP,
    DPHistograms,
    DPSignOPORP,
    PrivacyGuarantee,
    PrivacyLedger,
    ProductNoiseOutputPerturbation,
    audit_epsilon,
    privacy_report,
    save_release,
    worst_neighbours,
)
from skdprp.guarantee import ROWS_ARE_READ_ALONE, TYPES_ARE_PUBLIC, Adjacency
from skdprp.mechanisms import classic_gaussian_scale, gaussian_profile, gaussian_scale, spherical_scale
from skdprp.metrics import dp_confusion_matrix
from skdprp.testing import reproducible_noise

GUIDE = Path(__file__).parents[1] / "doc" / "guide" / "sketches.rst"
GUIDE_PAGES = Path(__file__).parents[1] / "doc" / "guide"


# What the guide says of changes


def test_a_letter_for_another_is_as_far_as_the_guide_says():
    """The guide counts up to 6 trigrams for a letter; a capital I with a dot is two characters in lower case."""
    trigrams = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), norm=None, lowercase=False)
    one, other = trigrams.transform(["annaxschmidt", "anna\u0130schmidt"]).toarray()
    assert abs(one - other).sum() <= 6
    in_lower_case = clone(trigrams).set_params(lowercase=True)
    one, other = in_lower_case.transform(["annaxschmidt", "anna\u0130schmidt"]).toarray()
    assert abs(one - other).sum() == 7


def test_the_guide_counts_trigrams_of_an_analyzer_that_keeps_to_its_count():
    """It counts 6 for one character for another, of whatever trigrams; analyzer="char" makes one space of several tabs.

    A character in the middle of them keeps those around it, so that 3 trigrams go and 5 come. Within words, as
    "char_wb" has them, 6 is the most: tried of all short texts of a letter and two kinds of white space.
    """
    options = {"ngram_range": (3, 3), "norm": None, "lowercase": False}
    one, other = HashingVectorizer(analyzer="char", **options).transform(["a:\t\t\tanna", "a:\tx\tanna"]).toarray()
    assert abs(one - other).sum() == 8
    trigrams_of = HashingVectorizer(analyzer="char_wb", **options).build_analyzer()
    counts = {text: collections.Counter(trigrams_of("".join(text))) for text in itertools.product("a\t ", repeat=6)}
    for text, count in counts.items():
        for place, character in itertools.product(range(6), "a\t "):
            changed = counts[*text[:place], character, *text[place + 1 :]]
            assert (count - changed).total() + (changed - count).total() <= 6
    (line,) = [line for line in GUIDE.read_text().splitlines() if "trigrams of characters" in line]
    assert "char_wb" in line


@pytest.mark.parametrize("n", [2, 3, 4])
def test_letters_move_as_many_n_grams_as_the_guide_says(n):
    """A code point replaced moves 2n within words, white space included; one deleted moves 2n - 1."""
    count = HashingVectorizer(analyzer="char_wb", ngram_range=(n, n), norm=None, lowercase=False).build_analyzer()
    choose = random.Random(n)

    def distance(one, other):
        one, other = Counter(count(one)), Counter(count(other))
        return sum(abs(one[gram] - other[gram]) for gram in one | other)

    for _ in range(3000):
        text = "".join(choose.choices("ab ", k=choose.randrange(1, 9)))
        i, letter = choose.randrange(len(text)), choose.choice("abc \n")
        assert distance(text, text[:i] + letter + text[i + 1 :]) <= 2 * n
        assert distance(text, text[:i] + text[i + 1 :]) <= 2 * n - 1


def _line_of(words):
    [line] = [line for line in GUIDE.read_text().splitlines() if line.strip().startswith('"') and words in line]
    return line


@pytest.mark.filterwarnings("ignore")
def test_words_in_lower_case_move_words_beside_them():
    """How a sigma is written depends on what follows it: one word replaced moves four counts, and not two."""
    counts = HashingVectorizer(norm=None).transform(["ΑΣ'ΒΒ", "ΑΣ'11", "ΑΣ'"]).toarray()
    assert [int(np.abs(counts[0] - other).sum()) for other in counts[1:]] == [4, 3]
    assert "lowercase=False" in _line_of("occurrence of a word")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_tiny_numbers_leave_a_normalizer_longer_than_one(dtype):
    """Squares of tiny numbers round to 0, and those of sparse rows are divided by what is left: the page says so."""
    unit = np.sqrt(np.finfo(dtype).smallest_subnormal.astype(np.float64)) if dtype is np.float32 else 2.0**-537
    row = np.full((1, 10_000), 0.7 * unit, dtype=dtype)
    row[0, 0] = 1.2 * unit
    longest = sp.linalg.norm(Normalizer().fit_transform(sp.csr_matrix(row)).astype(np.float64))
    if longest <= 1 + 1e-6:
        pytest.skip("This version of scikit-learn squares them in another way.")
    assert "numbers whose squares are too small" in GUIDE.read_text(), f"a row of norm {longest:.1f} is not mentioned"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [2, 3, 5])
def test_ngrams_within_words_move_as_the_guide_says(n):
    """One code point replaced moves n and n n-grams at most, one inserted 2 n - 1."""
    rng = np.random.default_rng(n)
    ngrams = HashingVectorizer(analyzer="char_wb", ngram_range=(n, n), norm=None, lowercase=False).build_analyzer()
    letters = np.array(list("aab. \t\u3000\u00e9\u0301\x1c\u03a3"))
    for _ in range(2000):
        text = rng.choice(letters, rng.integers(1, 14))
        place, letter = rng.integers(len(text)), rng.choice(letters)
        replaced, inserted = text.copy(), np.insert(text, place, letter)
        replaced[place] = letter
        of_text, *others = (Counter(ngrams("".join(one))) for one in (text, replaced, inserted))
        moved = [((of_text - other).total(), (other - of_text).total()) for other in others]
        assert max(moved[0]) <= n
        assert sum(moved[1]) <= 2 * n - 1


# What pages say of noise and guarantees


def _words(page):
    return re.sub(r"\s+", " ", (GUIDE_PAGES / page).read_text())


def test_pages_do_not_say_that_gamma_noise_is_never_more_than_gaussian_noise():
    """It is up to three times as much, in mean squares, where delta is of the size of epsilon."""
    for n_dims in (1, 2, 14, 100):
        scale = spherical_scale(0.01, 0.01, n_dims=n_dims, shape=n_dims, power=1)
        assert scale**2 * (n_dims + 1) > gaussian_scale(0.01, 0.01) ** 2
    assert "spherical noise is never larger than Gaussian noise" not in _words("mechanisms.rst")
    assert "which never adds more noise than a Gaussian" not in _words("pitfalls.rst")
    assert "never more than Gaussian noise" not in ProductNoiseOutputPerturbation.__doc__


def test_the_guide_does_not_say_that_flips_leave_more_signs_right_than_noise():
    """From one change away from zero on, signs of Laplace noise are right more often than flips by levels."""
    laplace = DPOPORP(4, noise="laplace").fit(X6)
    gaussian = DPOPORP(4).fit(X6)
    for x, beats_smooth in ((1.0, True), (2.0, True), (3.0, True)):
        right = {
            method: DPSignOPORP(4, method=method).fit(X6).positive_probability([[x] * 4])[0, 0]
            for method in ("rr", "smooth")
        }
        assert (1 - np.exp(-x / laplace.scale_) / 2 > right["smooth"]) == beats_smooth
    with reproducible_noise(0):
        released = gaussian.transform(np.tile([40.0, 0, 0, 0, 0], (20_000, 1)))
    reached = np.abs(released).sum(axis=0).argmax()
    right = (np.sign(released[:, reached]) == np.sign(released[:, reached].mean())).mean()
    assert right > 0.9 > DPSignOPORP(4, method="rr").fit(X6).positive_probability([[40.0] * 4])[0, 0]
    assert "Randomised response on the signs leaves more of them right" not in _words("sketches.rst")


def test_the_guide_says_how_many_digits_of_what_was_asked_for_are_printed():
    """Those beyond the sixth of epsilon, or the third of a long delta, are rounded up."""
    printed = repr(DPOPORP(4, epsilon=1.2345678, delta=1.2345678e-6).fit(X6).guarantee_)
    is_as_written = "1.2345678," in printed and "1.2345678e-06" in printed
    says_so = "An epsilon or delta that you asked for is printed as you wrote it." in _words("composition.rst")
    assert is_as_written or not says_so


def test_the_guide_does_not_say_that_the_classic_calibration_fails_from_one_on():
    """Its proof ends there; the noise that it gives is enough for a while."""
    scale = classic_gaussian_scale(0.5, 1e-6) * 0.5  # of the formula at epsilon = 1
    assert gaussian_profile(1.0, scale=scale) < 1e-6 and gaussian_profile(5.0, scale=scale / 5) < 1e-6
    assert "does not hold from epsilon = 1 on" not in _words("mechanisms.rst")


# Examples of pages


def test_the_sum_of_the_page_on_own_mechanisms_moves_by_no_more_than_it_says():
    """Numbers of float32 were added up in float32, where one row of many moves the sum by 12 instead of 10."""
    page = (GUIDE_PAGES.parent / "own_mechanism.rst").read_text()
    code = "\n".join(re.findall(r"^(?:>>> |\.\.\. )(.*)$", page[page.index(">>> def private_sum") :], re.M)[:3])
    names = {"np": np, "add_gaussian": lambda values, scale: np.asarray(values, np.float64), "scale": 1.0}
    exec(code, names)  # of this library, without its noise
    rows, moved = np.full(2**23, 5.0, np.float32), []
    for rows[1] in range(4):
        sums = [names["private_sum"](np.concatenate([np.array([value], np.float32), rows])) for value in (0.0, 10.0)]
        moved.append(abs(sums[1] - sums[0]))
    assert max(moved) <= 10 * (1 + 2**-20)


class _Noiseless:
    """In the place of the mechanism: what it is given, without noise."""

    guarantee_ = PrivacyGuarantee(1.0, 1e-6)

    def __init__(self, *, max_change, **options):
        _Noiseless.max_change = max_change

    def fit(self, X):
        return self

    def transform(self, X):
        _Noiseless.sums = np.array(X, dtype=np.float64)
        return _Noiseless.sums


@pytest.mark.parametrize("where", ["page", "example"])
def test_estimators_on_own_mechanisms_pay_for_the_rounding_of_their_sums(where):
    """At 17 million rows of the worst kind DPMeans had a delta of 1.062e-6, and stated 1e-6."""
    rows = np.ones(2**20 + 2**21)
    rows[2**20 :] = 2.0**-33 * 1.001  # one rounding up each, if the sum is above 2^20, and hardly any below it
    if where == "page":
        page = (GUIDE_PAGES.parent / "own_mechanism.rst").read_text()
        start = page.index(">>> from dataclasses import replace")
        listing = page[start : page.index(">>> DPMeans().fit")]
        code, name, labels = "\n".join(re.findall(r"^(?:>>> |\.\.\. ?)(.*)$", listing, re.M)), "DPMeans", {}
        columns = [1.0, 1.0]
    else:
        code = (GUIDE_PAGES.parents[1] / "examples" / "plot_own_mechanism.py").read_text()
        code, name = code[: code.index("# %%\n# It is an estimator like any other")], "DPNearestCentroid"
        columns, labels = [1.0, 0.0], {"y": np.zeros(len(rows), int)}
    names = {"np": np, "PrivacyGuarantee": PrivacyGuarantee, "Adjacency": Adjacency}
    exec(code, names)
    names["DPRandomProjection"] = _Noiseless
    model, sums = names[name](), []
    for rows[0] in (-1.0, 1.0):
        model.fit(rows[:, None] * columns, **labels)
        sums.append(_Noiseless.sums.astype(object))
    moved = sum(float(difference) ** 2 for difference in (sums[1] - sums[0]).ravel()) ** 0.5
    assert moved <= _Noiseless.max_change
    assert moved >= _Noiseless.max_change * 0.99  # or the pair is not the worst one


@pytest.mark.parametrize("classes", [(0, 0, 1), (0, False, 1)])
def test_the_example_of_an_own_mechanism_refuses_repeated_classes(classes):
    """Rows of a class that is listed twice are in two sums: one row moves them by 2.8 max_norm, and not by 2."""
    code = (GUIDE_PAGES.parents[1] / "examples" / "plot_own_mechanism.py").read_text()
    names = {}
    exec(code[: code.index("# %%\n# It is an estimator like any other")], names)
    with pytest.raises(ValueError, match=r"once|repeat|twice|distinct"):
        names["DPNearestCentroid"](classes=classes).fit(X6, [0, 0, 1, 1, 0, 1])


def test_the_shape_of_the_noisy_confusion_matrix_of_the_page_does_not_depend_on_one_row():
    """A model that never predicts the rare class, and one held-out row that has it or not: (2, 2) against (1, 1)."""
    page = Path(__file__).parents[1] / "doc" / "publish.rst"
    if not page.exists():
        pytest.skip("the pages are not installed")
    [code] = re.findall(r"matrix = (dp_confusion_matrix\(.*\))", page.read_text())
    labels = np.array(["<=50K", ">50K"])

    class _Constant:
        classes_ = labels

        def predict(self, X):
            return np.full(len(X), labels[0])

    shapes = set()
    for last in labels:
        names = {"model": _Constant(), "X_test": np.zeros((50, 1)), "y_test": np.append(np.full(49, labels[0]), last)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shapes.add(eval(code, {"dp_confusion_matrix": dp_confusion_matrix, **names}).score.shape)
    assert len(shapes) == 1


@pytest.mark.parametrize("page", ["examples/plot_sparse_text.py", "doc/choose.rst"])
def test_pages_that_count_what_one_word_moves_say_that_some_words_are_several(page):
    """Those with hyphens or dots, such as array-like and numpy.linalg.svd, which are two and three tokens."""
    words = HashingVectorizer(norm=None, n_features=2**20)
    one, other = words.transform(["see the function below", "see the numpy.linalg.svd function below"]).sign().toarray()
    assert abs(one - other).sum() == 3
    text = re.sub(r"\s+#?\s*", " ", (Path(__file__).parents[1] / page).read_text(encoding="utf-8"))
    says = re.search(r"[^.]*(a word once more|a word by another)", text)
    assert says is None or "token" in text or "hyphen" in text


def test_the_command_and_the_package_do_not_rest_on_assertions_or_docstrings():
    """Python leaves both out where it is told to."""
    root = Path(inspect.getfile(PrivacyLedger)).parents[1]
    lines = [line for path in root.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [line for line in lines if re.match(r"\s*assert\b", line)]


def test_the_page_on_sketches_does_not_call_what_bits_hide_an_l1_distance():
    """Two rows at l1 distance 1.0 are told apart in 97 of 100 cases where bits are said to hide a change of 1.0."""
    zeros, spread = np.zeros((1, 64)), np.full((1, 64), 1 / 64)
    sketch = DPSignOPORP(64, epsilon=1.0, random_state=0).fit(zeros)
    assert sketch.guarantee_.hides == 1.0
    p, q = (sketch.positive_probability(sketch.projection_.project(row))[0] for row in (zeros, spread))
    of = (sketch.transform(np.repeat(row, 2000, axis=0)) > 0 for row in (zeros, spread))
    scores = [(bits * np.log(q / p) + ~bits * np.log((1 - q) / (1 - p))).sum(axis=1) for bits in of]
    assert ((scores[0] < 0).mean() + (scores[1] > 0).mean()) / 2 > 0.9
    page = Path(skdprp.__file__).parents[1] / "doc" / "guide" / "sketches.rst"
    text = re.sub(r"\s+", " ", page.read_text())
    assert "``guarantee_.hides`` is the l1 distance of two rows" not in text


def test_the_page_to_choose_from_tells_the_noise_of_mixed_tables():
    """It said 8.44 on each count of a category beside one column of numbers, where it is 14.1."""
    table = pd.DataFrame({"age": np.arange(1000.0), "town": ["York", "Hull"] * 500})
    scale = DPHistograms(delta=1e-6, categories={"town": ["York", "Hull"]}).fit(table).scale_
    page = Path(skdprp.__file__).parents[1] / "doc" / "choose.rst"
    assert scale < 1.05 * 5.97 * 2**0.5 or "5.97 sqrt(d) on each count of a category, and" not in page.read_text()


@pytest.mark.parametrize(
    "thing",
    [audit_epsilon, worst_neighbours, skdprp.audit.AuditResult.attach_to, save_release],
    ids=lambda f: f.__name__,
)
def test_who_attaches_what_an_audit_found_is_told_that_it_comes_from_the_rows_of_the_audit(thing):
    """`attach_to` writes a number into labels and files that comes from a and b by releases that nobody charges."""
    words = thing.__doc__.lower()
    assert any(word in words for word in ("invented", "made up", "public rows", "rows that are public", "audits have"))


@pytest.mark.parametrize(
    ("classes", "kind"), [((2**53, 2**53 + 1), "float64"), ((0.1, np.nextafter(0.1, 1).item()), "float32")]
)
def test_the_mechanism_of_the_example_counts_no_row_in_two_classes(classes, kind, monkeypatch):
    """Two labels that are one number to y: a row moved two pairs of sums, by 2.83, and 2.00001 was paid."""
    page = Path(skdprp.__file__).parents[1] / "examples" / "plot_own_mechanism.py"
    if not page.exists():
        pytest.skip("an installed copy has no examples")
    names = {"__name__": "example"}
    exec(page.read_text().split("# %%\n# It is an estimator")[0], names)
    taken = []
    monkeypatch.setattr(skdprp._noise, "add_gaussian", lambda values, scale: taken.append(np.array(values).ravel()))
    rows, changed = np.eye(4, 2), np.eye(4, 2) * [[-1], [1], [1], [1]]
    for table in (rows, changed):
        try:
            names["DPNearestCentroid"](classes=classes).fit(table, np.full(4, classes[0], kind))
        except ValueError:
            return
    assert np.linalg.norm(taken[0] - taken[1]) <= 2 * (1 + 1e-9)


@pytest.fixture
def centroid():
    source = (GUIDE_PAGES.parents[1] / "examples" / "plot_own_mechanism.py").read_text(encoding="utf-8")
    space = {}
    exec(source.split("# %%\n# It is an estimator")[0], space)
    return space["DPNearestCentroid"]


@pytest.mark.parametrize("odd", ["x", b"x"])
def test_one_label_of_the_example_of_an_own_mechanism_moves_no_more_than_its_sensitivity(centroid, odd, monkeypatch):
    """Of a list with one text numpy makes texts of all labels, and no row was of any class."""
    seen = []
    monkeypatch.setattr(skdprp._noise, "_add", lambda values, scale, rounded: seen.append(values.copy()))
    X, y = np.random.default_rng(0).uniform(size=(40, 3)), [0, 1] * 20
    try:
        for labels in (y, [*y[:-1], odd]):
            centroid().fit(X, labels)
    except (TypeError, ValueError):
        return  # whether a fit raised an error is not covered
    assert np.linalg.norm(seen[0] - seen[1]) <= 2.0001


@pytest.mark.parametrize("assumed", [ROWS_ARE_READ_ALONE, TYPES_ARE_PUBLIC])
def test_a_report_of_an_estimator_of_ones_own_assumes_that_no_row_decides_how_others_are_read(centroid, assumed):
    """Reports on estimators of this library say so; a numpy array of a list is of what all cells have in common."""
    model = centroid().fit(np.random.default_rng(0).uniform(size=(40, 3)), [0, 1] * 20)
    assert assumed in privacy_report(model).total.assumptions
