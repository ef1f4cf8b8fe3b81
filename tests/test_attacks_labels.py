"""Attacks on labels: what one of them does to the set of labels, to their type, and to what is warned of."""

import contextlib
import enum
import warnings
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import pytest
from attacks import X12, X24_HALF, X240, Y12, Y24, private_model, sketch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import VotingClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from skdprp import (
    AMPClassifier,
    DPMoments,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    MIDPRegressor,
    PrivacyGuarantee,
    ProductNoiseOutputPerturbation,
    compose,
    privacy_report,
    set_budget,
)
from skdprp.guarantee import Adjacency
from skdprp.ledger import entry
from skdprp.mechanisms import add_laplace
from skdprp.metrics import dp_accuracy_score, dp_confusion_matrix, dp_r2_score, dp_roc_auc_score
from skdprp.testing import reproducible_noise

# What all rows have in common


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
def test_no_warning_counts_the_labels_where_classes_are_listed(kind):
    """One label more, 13 of 24 in place of 12, and scikit-learn warns of many unique classes."""
    rows, labels = np.tile(X12, (2, 1)), np.arange(24) % 12
    labels[0] = 12
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(classes=range(24), delta=1e-6, epsilon=5.0).fit(rows, labels)
    assert not caught


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
def test_the_sign_of_a_zero_label_is_not_in_the_set_of_labels(kind):
    """-0.0 equals 0.0, so that the set of labels is the same; which of them `classes_` has depends on one row."""
    signs = set()
    for label in (0.0, -0.0):
        fitted = kind(delta=1e-6).fit(X12[:6], np.array([label, 0.0, 0.0, 1.0, 1.0, 1.0]))
        signs.add(bool(np.signbit(fitted.classes_[0])))
    assert len(signs) == 1


def test_releases_of_different_rows_have_no_set_of_labels_in_common():
    """Neighbours with the same labels in all may differ in the labels of a part, which its classes_ show for sure."""
    parts = [
        private_model().set_params(classes=None).fit(X12[rows], Y12[rows]).guarantee_
        for rows in (slice(6), slice(6, 12))
    ]
    assert compose(*parts, disjoint=True).given not in ("", parts[0].given)


def test_a_guarantee_that_leaves_labels_out_protects_none_after_a_sketch():
    """MIDPRegressor protects entries of X and says that y is not protected."""
    report = privacy_report(make_pipeline(sketch(), MIDPRegressor()).fit(X12, Y12))
    assert "its guarantee is for the labels" not in report.steps[1].remark


@pytest.mark.parametrize("label", [0, 1])
def test_no_label_that_all_rows_have_puts_a_constant_in_the_place_of_a_private_model(label):
    """One-vs-rest takes a constant for a column of labels that are all equal, and warns: one row decides that."""
    kinds, totals = set(), []
    for last in (label, 1 - label):
        labels = np.column_stack([np.full(12, label), Y12])
        labels[0, 0] = last
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = OneVsRestClassifier(private_model()).fit(X12, labels)
        kinds.add(tuple(type(part) for part in fitted.estimators_))
        totals.append(privacy_report(fitted).total)
    assert len(kinds) == 1 or all(total is None or "each" in total.given for total in totals)


def released_by_gaussian(**known):
    """Return a private model whose guarantees add up in closed form."""
    return ProductNoiseOutputPerturbation(radius="gaussian", delta=1e-6, **known)


def test_no_warning_counts_the_labels_of_several_outputs():
    """A label more than half as many as rows, and scikit-learn warns of many unique classes, which are public here."""
    rows, labels = np.tile(X12, (2, 1)), np.tile(np.arange(24) % 12, (2, 1)).T
    labels[0, 0] = 12
    fitted = MultiOutputClassifier(released_by_gaussian(classes=range(24)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(rows, labels)
    total = privacy_report(fitted).total
    assert not caught or total is None or "set of labels" in total.given


def test_several_outputs_have_no_set_of_labels_in_common():
    """The labels of all outputs are {0, 1, 2} for both neighbours, those of the first one for one of them only."""
    totals, seen = [], []
    for first in (2, 0):
        labels = np.column_stack([Y12, np.arange(12) % 3])
        labels[0, 0] = first
        fitted = MultiOutputClassifier(released_by_gaussian()).fit(X12, labels)
        seen.append([part.tolist() for part in fitted.classes_])
        totals.append(privacy_report(fitted).total)
    assert seen[0] == seen[1] or totals == [None, None] or "each" in totals[0].given


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
def test_the_labels_of_all_rows_are_no_list_of_classes(kind):
    """With classes=y the model had the label of each row among its parameters, in its repr and in its pickle."""
    with pytest.raises(ValueError, match="classes"):
        kind(delta=1e-6, classes=Y12).fit(X12, Y12)


class Randomised(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Each row in [-1, 1], with as much noise as hides it among all others: of its label nothing is said."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        """State what is guaranteed at each transform."""
        self.scale_ = 2 * X.shape[1] / self.epsilon
        self.guarantee_ = PrivacyGuarantee(
            self.epsilon, 0.0, adjacency=Adjacency("replace_one"), per="transform", released="rows", mechanism="Laplace"
        )
        return self

    def transform(self, X):
        """Release rows."""
        with entry(self.guarantee_, "Randomised"):
            return add_laplace(np.clip(X, -1, 1), self.scale_)


def test_labels_as_they_are_are_in_no_total_for_a_row_that_is_replaced_with_its_label():
    """Behind rows that were randomised a model has counts of labels, which one that is replaced changes for certain."""
    other = np.where(np.arange(24) == 0, 1, Y24)
    one, two = (make_pipeline(Randomised(), GaussianNB()).fit(X24_HALF, labels) for labels in (Y24, other))
    assert list(one[-1].class_count_) != list(two[-1].class_count_)
    total = privacy_report(one).total
    assert total is None or total.adjacency.is_distance or "label" in total.given, repr(total)


# The type of the classes


class Name(str):
    """Text with more to it."""


def test_a_label_leaves_as_text_and_not_as_the_object_that_a_row_holds():
    """Equal texts may be objects of different classes; the first row with a label lends its own to classes_."""
    kinds = set()
    for label in ("a", Name("a")):
        labels = np.array(["a", "b"] * 6, dtype=object)
        labels[0] = label
        kinds.add(type(AMPClassifier(delta=1e-6).fit(X12, labels).classes_[0]))
    assert len(kinds) == 1


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
@pytest.mark.parametrize(("label", "other", "equal"), [(0, 1, 0.0), (False, True, 0), ("a", "b", "a\0")])
def test_the_type_of_one_label_is_not_that_of_the_classes(kind, label, other, equal):
    """A list with one 0.0 for 0, 0 for False, or a text that ends in a zero, has the same labels and another type."""
    types, sets = set(), []
    for first in (label, equal):
        fitted = kind(delta=1e-6).fit(X12, [first, other, *[label, other] * 5])
        types.add(fitted.classes_.dtype)
        sets.append(fitted.classes_.tolist())
    assert len(types) == 1 or sets[0] != sets[1]


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([0, 1.0], np.int64),
        ([False, True], np.int64),
        ([False, 1], np.int64),
        ([2**53 + 1, 1.0], np.int64),
        ([2**64 - 1, 1.0], np.uint64),
        ([2**70, 1], np.float64),
        (["a", "bc\0"], "<U2"),
        (np.array([False, True]), bool),
        (np.array([0.0, 1.0]), float),
        (np.array([0, 1], dtype=np.int8), np.int8),
    ],
)
def test_classes_have_the_type_of_an_array_and_of_a_list_what_holds_its_values(labels, dtype):
    """A label of 2^53 + 1 would be read as 2^53 where another is 1.0."""
    y = np.tile(labels, 6) if isinstance(labels, np.ndarray) else labels * 6
    classes = AMPClassifier(delta=1e-6).fit(X12, y).classes_
    assert classes.dtype == dtype
    assert set(classes.tolist()) == {label.rstrip("\0") if isinstance(label, str) else label for label in labels}


@pytest.mark.parametrize("labels", [["a", 1], [True, "b"], [2**64 + 1, 1.0]])
def test_a_list_of_labels_that_no_type_holds_is_refused(labels):
    """Numbers beside strings would be strings, and large ones beside 1.0 other numbers."""
    with pytest.raises(ValueError, match="Unknown label type"):
        AMPClassifier(delta=1e-6).fit(X12, labels * 6)


@pytest.mark.parametrize("wrap", [lambda final: VotingClassifier([("a", final)]), OneVsRestClassifier])
@pytest.mark.parametrize(
    ("label", "other", "equal", "dtype"),
    [(0.0, 1.0, -0.0, float), ("a", "b", Name("a"), object), (0, 1, 0.0, None)],
)
def test_an_ensemble_keeps_equal_labels_as_one_row_has_them(wrap, label, other, equal, dtype):
    """The sign of a zero, the class of a text and the type of a number reach classes_, as they did in our own."""
    seen = set()
    for place in range(-1, 6):
        labels = [label, other] * 6
        labels[2 * place] = equal if place >= 0 else label
        labels = labels if dtype is None else np.array(labels, dtype=dtype)
        fitted = wrap(private_model()).fit(X12, labels)
        first = fitted.classes_[0]
        seen.add((type(first), fitted.classes_.dtype, str(first)))
    total = privacy_report(fitted).total
    assert len(seen) == 1 or total is None or any("equal labels have the same" in fact for fact in total.assumptions)


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
def test_the_unit_of_one_date_is_not_that_of_the_classes(kind):
    """Dates in a list, one of them in hours: the set of labels is the same, and the type of classes_ another one."""
    types = set()
    for unit in ("D", "h"):
        dates = np.array(["2020-01-01", "2021-01-01"] * 6, dtype="M8[D]")
        labels = [np.datetime64(dates[0], unit), *dates[1:]]
        try:
            types.add(kind(delta=1e-6).fit(X12, labels).classes_.dtype)
        except (TypeError, ValueError):  # refused, whatever the unit is
            types.add(None)
    assert len(types) == 1


@pytest.mark.parametrize("label", [np.array(0.0), np.float64(0.0)], ids=["array", "number"])
def test_a_label_in_an_array_of_its_own_does_not_set_the_type_of_the_classes(label):
    """Whole numbers of a list became integers, but not if one of them was an array without dimensions."""
    labels = [0.0, 1.0] * 6
    labels[2] = label
    assert DPSGDClassifier(delta=1e-6).fit(X12, labels).classes_.dtype == np.int64


def test_zeros_at_the_end_of_a_label_do_not_set_the_type_of_the_classes():
    """Polars makes texts of a fixed length of a column: one that ends in a zero made all longer, and stayed equal."""
    series = pytest.importorskip("polars").Series
    plain, other = (DPSGDClassifier(delta=1e-6).fit(X12, series([one, "b", "a"] * 4)).classes_ for one in ("a", "a\0"))
    assert plain.dtype == other.dtype or len(other) == 3  # another label, which is public then


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


def test_chunks_of_several_containers_have_one_set_of_labels():
    """Zeros at the end of a label were lost in lists and kept in object arrays: of one row, a class of its own."""
    X, found = np.linspace(0, 1, 9)[:, None], []
    for of_second in (["a", "a", "a"], ["a", "c\0", "a"]):
        labels = ["a", "c\0", "a"], np.array(of_second, dtype=object), ["c\0", "a", "a"]
        chunks = [(X[3 * place : 3 * place + 3], part) for place, part in enumerate(labels)]
        model = AMPClassifier(delta=1e-3, multi_class="ovr").fit_chunks(chunks)
        found.append((model.classes_.tolist(), model.coef_.shape))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "fit",
    [
        lambda X: DPMoments(target_bounds=(0, 1)).fit(X),
        lambda X: DPMoments(target_bounds=(0, 1)).fit_chunks([X]),
        lambda X: DPRidge(target_bounds=(0, 1)).fit(X, 3),
        lambda X: AMPClassifier(classes=["a", "b"]).fit(X, pd.Series(["a", "b", None, "a"], dtype="string")),
    ],
)
def test_what_is_wrong_with_y_is_not_said_of_X(fit):
    """Rows that can be read are not blamed for targets that are missing or no column."""
    with pytest.raises((TypeError, ValueError)) as error:
        fit(np.eye(4))
    assert not str(error.value).startswith("X cannot be read")


class _Letter(enum.StrEnum):
    A = "a"


@pytest.mark.parametrize(
    ("odd", "rest"),
    [
        (-0.0, np.arange(40.0) % 2),
        (_Letter.A, np.array(["a", "b"] * 20, dtype=object)),
        (np.str_("a"), ["a", "b"] * 20),
    ],
    ids=["zero", "enum", "numpy"],
)
def test_how_one_label_is_spelt_decides_no_class(odd, rest):
    X, found = np.zeros((40, 2)), []
    for place in (None, 0, 38):
        y = rest.copy()
        if place is not None:
            y[place] = odd
        classes = DPSGDClassifier(epsilon=1.0).fit(X, y).classes_
        found.append((classes.dtype, [(type(one), str(one)) for one in classes.tolist()]))
    assert found[0] == found[1] == found[2]


def test_one_target_that_is_text_moves_no_other_target_of_any_sequence():
    """Of a list cells are read one by one, of a deque numpy made texts of all."""
    from collections import deque

    n, value, released = 20_000, np.float16(0.552), []
    for last in (value, str(value)):
        with reproducible_noise(0):
            ridge = DPRidge(target_bounds=(-1, 1), mechanism="moments", delta=1e-6)
            released.append(ridge.fit(np.ones((n, 1)), deque([value] * (n - 1) + [last])).moments_.values)
    assert np.abs(released[0] - released[1]).max() < 0.1  # 1.96 before


def test_a_masked_row_of_any_sequence_is_refused():
    """Rows in a deque were not looked at."""
    from collections import deque

    rows = deque([np.ma.array([0.5], mask=[True])] + [[0.1]] * 49)
    with pytest.raises(ValueError, match="mask"):
        DPRidge(target_bounds=(-1, 1)).fit(rows, [0.1] * 50)


@pytest.mark.parametrize("form", [list, lambda cells: np.array([*cells, None], dtype=object)[:-1], pd.Series])
@pytest.mark.parametrize("model", [DPRidge(target_bounds=(0, 1)), DPMoments(target_bounds=(0, 1)), MIDPRegressor()])
def test_a_complex_target_in_an_array_without_dimensions_is_not_warned_of(model, form):
    """`np.real_if_close` gives arrays of no dimension, of complex numbers where one is negative."""
    told = []
    for last in (0.01, -0.01):
        targets = form([np.real_if_close(np.emath.sqrt(number)) for number in (0.25, 0.5, last)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.suppress(TypeError, ValueError):
                model.fit(np.eye(3), targets)
        told.append([warning.category.__name__ for warning in caught if "Complex" in warning.category.__name__])
    assert told[0] == told[1]


SECRETS = ["SECRETX7", b"SECRETX7", 987654.25, Decimal("987654.25"), complex(1, 987654.25), np.datetime64("1987-06-05")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("secret", SECRETS, ids=[type(one).__name__ for one in SECRETS])
def test_neither_an_error_nor_a_warning_quotes_an_odd_cell(secret):
    """In labels, groups and rows, of fits, plans, budgets and scores."""
    X, y = X240[:12], [0, 1] * 6
    odd = [*y[:3], secret, *y[4:]]
    persons = [*range(3), secret, *range(4, 12)]
    cells = X.astype(object)
    cells[3, 0] = secret
    descent = DPSGDClassifier(classes=[0, 1], delta=1e-3, n_epochs=1)
    ridge = DPRidge(target_bounds=(0, 1), delta=1e-3, mechanism="moments")
    calls = [
        *(
            lambda model=model: model.fit(X, odd)
            for model in (private_model(), ridge, ProductNoiseOutputPerturbation())
        ),
        *(lambda model=model: model.fit(cells, y) for model in (private_model(), ridge, descent)),
        lambda: DPSearchCV(private_model(), {"max_norm": [1.0]}, n_trials=1, delta=1e-3).fit(cells, odd),
        lambda: descent.fit(X, y, groups=persons),
        lambda: privacy_report(private_model(), X, odd),
        lambda: privacy_report(descent, X, y, groups=persons),
        lambda: set_budget(private_model(), X, odd),
        lambda: dp_accuracy_score(odd, y, groups=persons),
        lambda: dp_confusion_matrix(odd, y, labels=[0, 1]),
        lambda: dp_roc_auc_score(y, odd, pos_label=1),
        lambda: dp_r2_score(odd, y, target_bounds=(0, 1)),
    ]
    for call in calls:
        said = []
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                call()
            except Exception as error:
                while error is not None:
                    said.append(f"{error} {error!r}")
                    error = error.__cause__ or error.__context__
        said += [str(one.message) for one in heard]
        assert not [text for text in said if any(part in text for part in ("SECRET", "98765", "1987"))]
