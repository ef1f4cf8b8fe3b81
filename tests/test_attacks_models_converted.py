"""What one row does to the others on the way to a model, where rows, labels and targets are converted: nothing."""

from contextlib import suppress
from fractions import Fraction
from inspect import signature
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.ndimage
import scipy.sparse as sp
import scipy.special
import scipy.stats
from sklearn.base import clone
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import (
    GaussianRandomProjection,
    SparseRandomProjection,
    johnson_lindenstrauss_min_dim,
)

from skdprp import (
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRidge,
    DPSGDClassifier,
    PublicBinner,
    PublicScaler,
    make_table_preprocessor,
    privacy_report,
)
from skdprp.report._data_independent import is_data_independent

polars = pytest.importorskip("polars")

BIG = 2**53  # from where on floats are not all whole numbers
MODELS = [DPSGDClassifier(epsilon=0.01, classes=[0, 1]), DPRidge(epsilon=0.01, target_bounds=(0, 1))]
KNOTS = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
TAKES_MISSING = "handle_missing" in signature(SplineTransformer).parameters


def total_of(model):
    return privacy_report(model).total


@pytest.mark.parametrize("projection", [GaussianRandomProjection(eps=0.9), SparseRandomProjection(eps=0.9)])
@pytest.mark.parametrize("model", MODELS)
def test_width_of_what_persons_release_does_not_follow_from_their_number_of_rows(model, projection):
    """Persons may have any number of rows, which is private: a width that follows from it has no total.

    The last person has one row, or two, and the width that scikit-learn takes by itself is then another.
    """
    sizes = range(200, 2000)
    width = {n: johnson_lindenstrauss_min_dim(n, eps=projection.eps) for n in (*sizes, sizes.stop)}
    n_persons = next(n for n in sizes if width[n] != width[n + 1])
    seen = set()
    for n_rows in (n_persons, n_persons + 1):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n_rows, 200)), rng.integers(0, 2, n_rows)
        groups = np.minimum(np.arange(n_rows), n_persons - 1)
        fitted = make_pipeline(clone(projection), clone(model))
        fitted.fit(X, y, **{f"{type(model).__name__.lower()}__groups": groups})
        seen.add(fitted[-1].coef_.shape)
    assert len(seen) == 1 or total_of(fitted) is None


@pytest.mark.skipif(not TAKES_MISSING, reason="splines take missing values from scikit-learn 1.9 on")
@pytest.mark.parametrize("extrapolation", ["continue", "periodic", "error", "constant", "linear"])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_missing_value_of_a_spline_is_not_a_value_of_another_row(extrapolation, sparse_output):
    """A step without a warning in its report treats each row by itself: one row replaced moves no other row.

    Sparse splines put the least value of all rows in the place of a missing one, in all columns but the first.
    """
    known = {"knots": KNOTS, "extrapolation": extrapolation, "sparse_output": sparse_output, "degree": 1}
    splines = SplineTransformer(handle_missing="zeros", **known)
    seen = []
    for value in (0.05, 0.95):
        X = np.full((50, 2), 0.5)
        X[1:, 1], X[0, 1] = np.nan, value
        model = make_pipeline(clone(splines), DPRidge(target_bounds=(0, 1), epsilon=1.0, delta=1e-6))
        rows = model.fit(X, X[:, 0])[0].transform(X)
        seen.append((rows.toarray() if sp.issparse(rows) else rows)[1:])
    assert np.array_equal(*seen) or total_of(model) is None


@pytest.mark.filterwarnings("ignore:This release has no guarantee")
@pytest.mark.parametrize("n_targets", [1, 2])
def test_text_among_targets_moves_no_other_target(n_targets):
    """Numpy makes a text of every number of a list in which one is a text, with fewer digits than it had.

    A list with a text is refused, or each of its cells is read by itself.
    """
    n, number, sums = 4000, np.float16(0.7), []
    for first in (number, "0.7"):
        y = [first, *[number] * (n - 1)]
        y = y if n_targets == 1 else [[one, 0.5] for one in y]
        model = DPMoments(epsilon=1e9, delta=1e-6, target_bounds=(0, 1), fit_intercept=False)
        try:
            moments = model.fit(np.ones((n, 1)), y).moments_
        except (TypeError, ValueError):
            return
        sums.append(moments.cross[0, 0])
    assert model.scale_ < 1e-3
    assert abs(sums[0] - sums[1]) < 0.05  # of one target by itself 0.0002, and of all of them 0.8


@pytest.mark.parametrize("model", [AMPClassifier(epsilon=0.01, delta=1e-3), DPSGDClassifier(epsilon=0.01, delta=1e-3)])
def test_type_of_classes_of_chunks_follows_from_the_set_of_labels(model):
    """One row of a chunk does not decide of which type all classes are, as long as the set of labels is the same."""
    X, all_labels, seen = np.eye(6), [0, 1, 2**63] * 2, set()
    for first in ([0, 1, 0, 1, 0, 2**63], [0, 1, 0, 1, 0, 1]):
        fitted = clone(model).fit_chunks([(X, first), (X, all_labels)])
        seen.add((fitted.classes_.dtype, *fitted.classes_.tolist()))
    assert len(seen) == 1


@pytest.mark.parametrize("zero", [0.0, np.float16(0), np.float64(0)])
def test_type_of_classes_of_several_outputs_is_assumed_or_follows_from_the_sets_of_labels(zero):
    """One row with 0.0 for 0 changes the type of the classes of all outputs: where it does, the report says so."""
    X, seen = np.random.default_rng(0).normal(size=(40, 2)), set()
    for first in (0, zero):
        y = [[first, 1], *([i % 2, i // 2 % 2] for i in range(39))]
        model = MultiOutputClassifier(AMPClassifier(epsilon=0.01, delta=1e-5)).fit(X, y)
        seen.add(tuple(classes.dtype for classes in model.classes_))
    assert len(seen) == 1 or "equal labels have the same type" in " ".join(privacy_report(model).private.assumptions)


@pytest.mark.parametrize(
    ("given", "categories"),
    [
        (polars.Series("a", [True, False] * 20, dtype=polars.Boolean), [0, 1]),
        (pd.Series([1, 2] * 20, dtype=pd.CategoricalDtype([1, 2, 3])), [1, 2, 3]),
        (pd.Series([1, 2] * 20, dtype=pd.CategoricalDtype([1, 2, 3])), [1.0, 2.5, 3.0]),
    ],
)
def test_one_missing_category_changes_neither_names_nor_other_rows(given, categories):
    """The type of such a column is the same with a missing value and without, and so is all that is made of it."""
    frame, seen = (polars.DataFrame if isinstance(given, polars.Series) else pd.DataFrame), []
    for first in (given[0], None):
        values = [first, *given.to_list()[1:]]
        again = type(given)("a", values, dtype=given.dtype) if frame is polars.DataFrame else None
        table = frame({"a": pd.Series(values, dtype=given.dtype) if again is None else again})
        preprocessor = make_table_preprocessor(categories={"a": categories}).fit(table)
        seen.append((list(preprocessor.get_feature_names_out()), preprocessor.transform(table)[1:].tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (scipy.special.softmax, {}),
        (scipy.special.log_softmax, {}),
        (np.flip, {}),
        (np.flipud, {}),
        (scipy.ndimage.gaussian_filter, {"sigma": 1.0}),
        (scipy.stats.mstats.winsorize, {"limits": 0.1}),
    ],
)
def test_function_of_a_library_that_looks_at_all_rows_is_not_covered(function, known):
    """These are over all rows, or move rows away from their labels, unless they are told otherwise."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    step = FunctionTransformer(function, kw_args=known)
    model = make_pipeline(step, DPRidge(target_bounds=(0, 1), delta=1e-6)).fit(X, np.linspace(0, 1, 30))
    assert total_of(model) is None


def test_other_form_of_a_label_changes_no_class():
    """A label of a list is the class that it equals, in whatever form one row has it."""
    forms = {0: [0.0, -0.0, False, np.int8(0), np.uint64(0), np.float16(-0.0), np.bool_(False), np.array(0)]}
    forms["a"] = [np.str_("a"), "a\0", np.array("a")]
    X, n_tried = np.random.default_rng(0).normal(size=(8, 2)), 0
    for (low, others), high in zip(forms.items(), (1, "b"), strict=True):
        seen = set()
        for form, place in product([low, *others], (0, 6)):
            y = [low, high] * 4
            y[place] = form
            model = AMPClassifier(epsilon=5.0, delta=1e-3).fit(X, y)
            facts = model.classes_.dtype, *map(repr, model.classes_), model.guarantee_.given, model.scale_
            seen.add(facts)
            n_tried += 1
        assert len(seen) == 1
    assert n_tried == 26


def test_odd_target_moves_no_other_target():
    """Of arrays of objects and of columns with a type, and of lists of numbers, each target is converted by itself."""
    numbers = [0.1, np.float32(0.3), 2**70 + 1, BIG + 1, True, np.longdouble(1) / 3, Fraction(1, 7), 0.5]
    odd = [0, -0.0, np.float16(0.3), np.int8(-3), 2**64 - 1, 2**80, np.bool_(0), Fraction(1, 9), np.longdouble("0.3")]
    X = np.eye(8)

    def _objects(values):
        made = np.empty(8, dtype=object)
        made[:] = values
        return made

    def _read(y):
        return DPMoments(target_bounds=(0, 1))._validate(X, y, reset=True)[1]

    containers = [list, tuple, _objects, lambda values: pd.Series(values, dtype=object)]
    containers += [lambda values, t=t: pd.Series(list(map(float, values)), dtype=t) for t in ("Float64", "Float32")]
    for make, value in product(containers, odd):
        assert np.array_equal(_read(make(numbers))[1:], _read(make([value, *numbers[1:]]))[1:])


def test_missing_whole_number_rounds_no_other_category():
    """Categories beyond 2^53 are told apart with a missing value among them as without one."""
    values = [BIG + 1] * 300 + [BIG + 3] * 200
    for first, make in product((BIG + 1, None), (DPHistograms, DPBinner)):
        ids = pd.Series([first, *values[1:]], dtype=pd.CategoricalDtype([BIG, BIG + 1, BIG + 2, BIG + 3, BIG + 4]))
        released = make(epsilon=50.0, delta=1e-6).fit(pd.DataFrame({"id": ids})).histograms_.counts("id")
        assert set(released) == {BIG + 1, BIG + 3}  # of noise with a standard deviation below 1


def test_missing_value_changes_no_type_of_public_steps():
    """Noise may depend on the type of rows, which a missing value therefore leaves as it is."""
    frames = [polars.DataFrame, pd.DataFrame]
    types = [
        (getattr(polars, t) for t in ("Int8", "Int16", "Int64", "UInt64", "Float32", "Boolean")),
        ("Int8", "Int64", "UInt64", "Float32", "Float64", "boolean"),
    ]
    steps = [PublicScaler((0, 200), fill=0.0), PublicBinner((0, 200), n_bins=7, sparse_output=False)]
    for frame, of_frame in zip(frames, types, strict=True):
        series = polars.Series if frame is polars.DataFrame else pd.Series
        for dtype, step in product(of_frame, steps):
            base = [True, False, True] if "ool" in str(dtype) else [1, 2, 100]
            tables = [frame({"a": series(one, dtype=dtype)}) for one in (base, [None, *base[1:]])]
            seen = {step.fit(X).transform(Z)[1:].tobytes() for X, Z in product(tables, tables)}
            assert len(seen) == 1


@pytest.mark.filterwarnings("ignore")  # of numbers beyond all floats
def test_one_row_moves_no_other_row_of_steps_that_a_report_vouches_for():
    """Of 300 steps with parameters at random, whatever the rows hold."""
    rng, n_worked = np.random.default_rng(0), 0

    def _any(*values):
        return values[rng.integers(len(values))]

    def _step(d):
        listed = [sorted({float(x) for x in rng.integers(-2, 3, 3)}) for _ in range(d)]
        knots = np.sort(rng.normal(size=(4, d)), axis=0)
        extrapolation = _any("error", "constant", "linear", "continue", "periodic")
        return _any(
            Binarizer(threshold=_any(0.0, 0.5)),
            Normalizer(norm=_any("l1", "l2", "max")),
            PolynomialFeatures(degree=_any(1, 2, (2, 3)), order=_any("C", "F")),
            SplineTransformer(knots=knots, degree=_any(0, 1, 3), extrapolation=extrapolation, sparse_output=True),
            OneHotEncoder(categories=listed, handle_unknown="ignore", sparse_output=_any(True, False)),
            OrdinalEncoder(categories=listed, handle_unknown="use_encoded_value", unknown_value=_any(-1, np.nan)),
            GaussianRandomProjection(1, random_state=0),
        )

    for _ in range(300):
        d, n_rows = int(rng.integers(1, 4)), _any(2, 5, 40)
        step, place = _step(d), rng.integers(n_rows)
        cells = [np.nan, np.inf, 1e308, 5e-324, -0.0, 0.0, 1.0, -1.0, 100.0, *rng.normal(size=9)]
        a = rng.choice(cells[_any(0, 4, 5) :], (n_rows, d))
        b, kept = a.copy(), np.arange(n_rows) != place
        b[place] = rng.choice(cells[4:], d)
        seen = []
        assert is_data_independent(step)
        for fitted_on, X in product((a, b), (a, b)):
            with suppress(ValueError):
                rows = clone(step).fit(fitted_on).transform(X)
                seen.append((rows.toarray() if sp.issparse(rows) else rows)[kept])
        n_worked += bool(seen)
        assert all(np.array_equal(seen[0], one, equal_nan=True) for one in seen)
    assert n_worked > 100
