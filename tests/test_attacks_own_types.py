"""Attacks by types that answer for themselves: parameters, cells and chunks that say now this and now that."""
# ruff: noqa: D102

import copy
import pickle
from collections import defaultdict, deque
from enum import Enum, IntEnum

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.utils._param_validation import InvalidParameterError

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPSGDClassifier,
    DPSignOPORP,
    DPSignRP,
    ProductNoiseOutputPerturbation,
    add_moments,
)
from skdprp.mechanisms import Published
from skdprp.random_projection import make_projection
from skdprp.testing import reproducible_noise

KNOWN = {"epsilon": 1.0, "delta": 1e-6}
LABELS = np.arange(100) % 2


def far(x):
    """Rows at zero but the first, which is as far as x."""
    X = np.zeros((100, 1))
    X[0] = x
    return X


class Sizes:
    """An array of layers that is empty the first times that it is asked."""

    def __init__(self, n_times):
        self.left = n_times

    def __len__(self):
        return len(np.asarray(self))

    def __getitem__(self, place):
        return np.asarray(self)[place]

    def __array__(self, dtype=None, copy=None):
        self.left -= 1
        return np.zeros(0, int) if self.left >= 0 else np.array([1])


# Once calibrated for rows of norm 1, and fitted on rows of any.
@pytest.mark.parametrize("n_times", range(16))
def test_layers_that_change_while_they_are_read_leave_no_row_unclipped(n_times):
    weights = []
    for x in (1e9, -1e9):
        model = DPSGDClassifier(**KNOWN, classes=[0, 1], hidden_layer_sizes=Sizes(n_times), preconditioner=False)
        model.fit(far(x), LABELS)
        weights.append(np.abs(model.coefs_[0]).max())
        assert len(model.coefs_) == 1 + np.size(model._calibrated_for["hidden_layer_sizes"])
    assert max(weights) < 1e3  # once 3923 steps of a row of 1e9


@pytest.mark.parametrize("kind", [deque, tuple, pd.Series, np.array])
def test_layers_may_be_listed_in_any_way(kind):
    """As before, and a search or a report finds them as they were given."""
    model = DPSGDClassifier(**KNOWN, hidden_layer_sizes=kind([4, 3]), n_epochs=1)
    model.fit(far(1.0), LABELS)
    assert [len(layer) for layer in model.coefs_] == [1, 4, 3] and type(model.hidden_layer_sizes) is type(kind([4, 3]))


class Chunks:
    """Chunks that set parameters of the estimator that begins to read them."""

    def __init__(self, parts, estimator, parameters):
        self.parts, self.estimator, self.parameters = parts, estimator, parameters

    def __iter__(self):
        self.estimator.set_params(**self.parameters)
        return iter(self.parts)


# Once a thousand constants, of which the sensitivity counted one.
@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (DPMoments(), {"fit_intercept": 1000}),
        (DPMoments(), {"epsilon": -1.0}),
        (DPPCA(), {"max_norm": 0.0}),
        (DPRidge(target_bounds=(-1, 1)), {"fit_intercept": 1000}),
        (AMPClassifier(classes=[0, 1]), {"max_norm": 0.0}),
        (DPSGDClassifier(classes=[0, 1]), {"epsilon": np.inf, "delta": 2.0}),
        (ProductNoiseOutputPerturbation(classes=[0, 1]), {"C": -1.0}),
    ],
    ids=repr,
)
def test_what_is_set_as_a_fit_begins_is_checked(model, parameters):
    parts = [(far(1.0), LABELS.astype(float))] if hasattr(model, "predict") else [far(1.0)]
    with pytest.raises(InvalidParameterError):
        model.fit_chunks(Chunks(parts, model, parameters))
    assert not hasattr(model, "guarantee_")


class Weights(dict):
    """Weights of classes that are checked as others than they are used as."""

    def values(self):
        return [1.0, 1.0]

    def items(self):
        return [(0, 1.0), (1, 1.0)]


@pytest.mark.parametrize("kind", [AMPClassifier, DPSGDClassifier, ProductNoiseOutputPerturbation])
def test_weights_of_classes_are_checked_as_they_are_used(kind):
    with pytest.raises(ValueError, match="from 0 to 1"):
        kind(**KNOWN, classes=[0, 1], class_weight=Weights({0: 1e6, 1: 1e6})).fit(far(1.0), LABELS)


class Word(str):
    """Text that once does not equal itself."""

    __hash__ = str.__hash__

    def __new__(cls, text, at):
        word = super().__new__(cls, text)
        word.at = at
        return word

    def __eq__(self, other):
        self.at -= 1
        return str.__eq__(self, other) is (self.at != 0)


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("text", ["replace_one", "add_remove"])
def test_a_word_that_equals_another_one_once_changes_no_noise(text, at):
    def _scale(word):
        model = DPSGDClassifier(**KNOWN, classes=[0, 1], adjacency=word, preconditioner=True)
        return model.fit(far(1.0), LABELS).scale_

    assert _scale(Word(text, at)) == _scale(text)


class Folded(str):
    """Text that is compared without regard to case."""

    def __eq__(self, other):
        return str.lower(self) == str.lower(other)

    def __hash__(self):
        return hash(str.lower(self))


class Alike(float):
    """Numbers that all equal each other."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def towns(first):
    return pd.DataFrame({"town": pd.Series([Folded(first)] + [Folded("York")] * 1999, dtype=object)})


# Once the first cell named all that equal it.
@pytest.mark.parametrize("listed", [None, {"town": ["York", "YORK"]}])
def test_one_cell_does_not_name_those_that_equal_it(listed, silenced_noise):
    counts = [
        DPHistograms(epsilon=1.0, delta=1e-6, categories=listed).fit(towns(first)).histograms_.counts("town")
        for first in ("York", "YORK")
    ]
    assert [one["York"] for one in counts] == [2000, 1999]
    assert counts[1].get("YORK", 1) == 1  # of one row, which is not named by itself
    numbers = pd.DataFrame({"n": pd.Series([Alike(0.5), Alike(1.0), Alike(1.5)] * 100, dtype=object)})
    found = DPHistograms(epsilon=1.0, delta=1e-6, categories={"n": [0.5, 1, 1.5]}).fit(numbers).histograms_.counts("n")
    assert [found[value] for value in (0.5, 1, 1.5)] == [100, 100, 100]


def test_bins_of_equal_cells_are_those_of_each():
    with reproducible_noise(0):
        binner = DPBinner(epsilon=1.0, delta=1e-6).fit(towns("YORK"))
    names = binner.get_feature_names_out().tolist()
    assert "town_York" in names and "town_YORK" not in names


@pytest.mark.parametrize("make", [lambda sketch: sketch, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
@pytest.mark.parametrize("kind", ["very_sparse", "count_sketch", "gaussian", "identity"])
def test_a_projection_that_noise_was_calibrated_for_cannot_be_changed(make, kind):
    """Once the density of a copy was, from which it drew another W: a sensitivity of 7.9, and noise for 1.9."""
    sketch = make(DPRandomProjection(4, projection=kind, epsilon=5.0, delta=1e-6).fit(np.eye(40)))
    before = sketch.projection_.project(np.eye(40))
    for name in ("density", "seed", "n_components", "n_features", "divisor", "max_entry", "parts"):
        with pytest.raises(AttributeError):
            setattr(sketch.projection_, name, 0.001)
    np.testing.assert_array_equal(sketch.projection_.project(np.eye(40)), before)


@pytest.mark.parametrize("kind", ["oporp", "count_sketch", "gaussian", "rademacher", "very_sparse", "identity"])
@pytest.mark.parametrize("width", [1, 5, 7, 9])
def test_a_projection_takes_rows_of_its_width_only(kind, width):
    projection = make_projection(kind, 6, 2, np.random.RandomState(0))
    with pytest.raises(ValueError, match="features"):
        projection.project(np.ones((3, width)))


def test_stacked_projections_cannot_be_changed():
    projection = DPSignOPORP(4, n_repeats=2).fit(np.eye(8)).projection_
    with pytest.raises(TypeError):
        projection.parts[0] = None
    with pytest.raises(AttributeError):
        projection.parts = ()


class Lying(float):
    """A number that says that it is another one, where it is used."""

    def __float__(self):
        return 1e4

    def __mul__(self, other):
        return 1e-9 * other

    __rmul__ = __mul__

    def __le__(self, other):
        return True

    __ge__ = __lt__ = __gt__ = __le__


def test_numbers_of_own_types_are_asked_once_what_they_are():
    """Once a weight of a class was checked as 1 and was 10^4, and a scale compared as it was and drew 1e-9 of noise."""
    for kind in (AMPClassifier, DPSGDClassifier):
        model = kind(**KNOWN, classes=[0, 1], class_weight={0: Lying(1.0), 1: Lying(1.0)})
        with reproducible_noise(0):
            found = model.fit(far(1.0), LABELS).coef_
        with reproducible_noise(0):
            np.testing.assert_array_equal(
                found, model.set_params(class_weight={0: 1.0, 1: 1.0}).fit(far(1.0), LABELS).coef_
            )
    sketch = DPOPORP(4, epsilon=0.1, noise="laplace").fit(np.zeros((1, 8)))
    sketch.scale_ = Lying(sketch.scale_)
    assert type(sketch.scale_) is float and np.abs(sketch.transform(np.zeros((500, 8)))).mean() > 5
    signs = DPSignRP(8, **KNOWN, min_norm=100.0, method="rr", projection="gaussian").fit(np.full((1, 8), 50.0))
    signs.min_norm = Lying(100.0)
    with pytest.raises(ValueError, match="norm below"):
        signs.transform(np.eye(1, 8))


class Empty(np.ndarray):
    """An array that says that it is empty."""

    size = 0


class Only:
    """An array of layers, of which nothing else is known, that is empty at first."""

    def __init__(self, n_times):
        self.left = n_times

    def __array__(self, dtype=None, copy=None):
        self.left -= 1
        return np.zeros(0, int) if self.left >= 0 else np.array([1])


@pytest.mark.parametrize("make", [lambda: np.array([1]).view(Empty), *(lambda n=n: Only(n) for n in range(8))])
def test_arrays_of_own_types_are_read_once(make):
    model = DPSGDClassifier(**KNOWN, classes=[0, 1], hidden_layer_sizes=make(), preconditioner=False)
    try:
        model.fit(far(1e9), LABELS)
    except InvalidParameterError:  # what has no length is no array to scikit-learn
        return
    assert np.abs(model.coefs_[0]).max() < 1e3


class Changing(Published):
    """A published setting that is another one each second time."""

    asked = 0

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        if name == "noise_multiplier" and value is not None:
            Changing.asked += 1
            return (100.0, 1e-4)[Changing.asked % 2]
        return value


def test_published_settings_are_read_once():
    model = DPSGDClassifier(**KNOWN, classes=[0, 1], preconditioner=False, calibration=Changing(noise_multiplier=100.0))
    model.fit(far(1.0), LABELS)
    assert model.noise_multiplier_ == pytest.approx(100.0)


def test_rows_wider_than_the_projection_are_not_released():
    """Once all columns beyond the last fell into the bin of the last."""
    for sketch in (DPOPORP(4, **KNOWN, noise="gaussian"), DPSignOPORP(4, epsilon=1.0), DPRandomProjection(4, **KNOWN)):
        sketch.fit(np.zeros((1, 4)))
        sketch.n_features_in_ = 10_004
        for rows in (np.zeros((1, 10_004)), sp.csr_array((1, 10_004))):
            with pytest.raises(ValueError, match="features"):
                sketch.transform(rows)


class Meta(type):
    """A type of types that says that its own are text."""

    def __hash__(cls):
        return hash(str)

    def __eq__(cls, other):
        return other is str or other is cls


class Any(str, metaclass=Meta):
    """Text that equals all others."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return True


class SameHash(Any):
    """And has the hash of another one."""

    def __hash__(self):
        return hash("a")


@pytest.mark.parametrize("listed", [None, {"c": ["a", "b"]}])
def test_no_type_says_of_itself_that_it_is_text(listed, silenced_noise):
    cells = pd.DataFrame({"c": pd.Series([SameHash("b")] + ["a"] * 999, dtype=object)})
    counts = DPHistograms(**KNOWN, categories=listed).fit(cells).histograms_.counts("c")
    assert counts["a"] == 999 and counts.get("b", 1) == 1


class Label(IntEnum):
    """Labels by name."""

    NO = 0
    YES = 1


class Share(float, Enum):
    """Weights by name."""

    HALF = 0.5


def test_members_of_enumerations_are_the_numbers_that_they_are():
    for classes in (list(Label), [0, 1]):
        model = AMPClassifier(**KNOWN, classes=classes, class_weight={Label.NO: Share.HALF}).fit(far(1.0), LABELS)
        assert model.classes_.tolist() == [0, 1]


def test_what_is_no_parameter_stays_as_it_is():
    kept = {"columns": pd.Index(["p"]), "log": defaultdict(list), "kind": Label.NO, "frame": pd.DataFrame({"u": [1]})}
    model = DPMoments(**KNOWN)
    vars(model).update(kept)
    model.fit(far(1.0))
    assert all(getattr(model, name) is value for name, value in kept.items())
    assert add_moments(model.moments_) == model.moments_
