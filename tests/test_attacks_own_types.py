"""Attacks by types that answer for themselves: parameters, cells and chunks that say now this and now that."""
# ruff: noqa: D102

import copy
import pickle
from collections import deque

import numpy as np
import pandas as pd
import pytest
from sklearn.utils._param_validation import InvalidParameterError

from skdprp import (
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPHistograms,
    DPMoments,
    DPRandomProjection,
    DPRidge,
    DPSGDClassifier,
    DPSignOPORP,
    ProductNoiseOutputPerturbation,
)
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
