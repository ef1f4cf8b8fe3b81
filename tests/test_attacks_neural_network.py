"""Attacks on noisy descent: canaries and worst neighbours, callbacks, seeds, and steps along any path."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from attacks import X12, Y12, Spy
from many_fits import release_alone
from scipy.stats import norm
from sklearn.base import clone

from skdprp import (
    DPPCA,
    DPBinner,
    DPMoments,
    DPRidge,
    DPSGDClassifier,
    _noise,
    audit_epsilon,
    mechanisms,
    worst_neighbours,
)
from skdprp.neural_network import _network
from skdprp.neural_network._network import Network, add_clipped_gradients
from skdprp.neural_network._steps import PaddedBlock
from skdprp.testing import reproducible_noise
from skdprp.testing._tape import tape_of

N_CANARIES, N_FITS = 1000, 40
OPEN = {"epsilon": 2.0, "delta": 0.1, "classes": [0, 1], "max_norm": None}  # gradients of long rows are clipped
ATTACKED = {
    "one step": DPSGDClassifier(**OPEN, n_epochs=1),
    "two steps": DPSGDClassifier(**OPEN, n_epochs=2),
    "four steps": DPSGDClassifier(**OPEN, n_epochs=4),
    "random batches": DPSGDClassifier(**OPEN, n_epochs=1, batch_size=500),
    "product": DPSGDClassifier(**OPEN, n_epochs=1, noise="product"),
    "blank, one step": DPSGDClassifier(**OPEN, n_epochs=1, adjacency="add_remove"),
    "blank, random batches": DPSGDClassifier(**OPEN, n_epochs=1, batch_size=500, adjacency="add_remove"),
}


def canary_attack(model, n_fits=N_FITS, dtype=np.float64):
    """Lower bound on epsilon from rows along an axis each, of one label or of another, or there or blank: their weights
    are the statistics.

    A step so short that all scores stay near zero leaves each canary a gradient along its axis of norm C at every step.
    The weight after one step or two is the sum of the steps, in which the likelihood ratio grows: no attack is better.
    Blank rows are zero. Seeded: the outcome is always this one.
    """
    signs = np.resize([1.0, 1.0, -1.0, -1.0], N_CANARIES)
    there = np.resize([True, False], N_CANARIES)
    is_replaced = model.adjacency == "replace_one"
    length, labels = 1e3 * (there | is_replaced), np.where(there | (not is_replaced), signs, -signs) > 0
    X = sp.diags_array(length, format="csr") if dtype == np.float64 else np.diag(length).astype(dtype)
    model = clone(model).set_params(learning_rate=1e-7 * N_CANARIES)
    with reproducible_noise(0), pytest.MonkeyPatch.context() as patch:
        release_alone(patch, type(model))
        weights = [signs * model.fit(X, labels).coef_[0] for _ in range(n_fits)]
    held, absent = (iter(np.concatenate([w[chosen] for w in weights])) for chosen in (there, ~there))
    known = {"delta": model.delta, "n_trials": n_fits * N_CANARIES // 2, "confidence": 0.999, "n_jobs": 1}
    score = {"likelihood": lambda weights: -weights[:, 0]}  # of a row that is not there

    def release(rows):  # as many weights as are asked for
        return np.fromiter(absent if rows[0, 0] else held, float, len(rows))

    sides = np.zeros((1, 1)), np.ones((1, 1))
    return audit_epsilon(release, *sides, rows_are_trials=True, distinguishers=score, **known).epsilon


# Canaries


# What is found of epsilon = 2, by 15,000 rows of the one kind and as many of the other, and of one step by 28,500.
FOUND = {
    "one step": 1.7,
    "two steps": 1.6,
    "four steps": 1.5,
    "random batches": 1.4,
    "product": 1.6,
    "blank, one step": 1.7,
    "blank, random batches": 1.4,
}


@pytest.mark.parametrize("name", ATTACKED)
def test_a_canary_finds_most_of_epsilon_and_never_more(name):
    """The better the attack, the closer."""
    n_fits = 76 if FOUND[name] == 1.7 else N_FITS
    assert FOUND[name] < canary_attack(ATTACKED[name], n_fits=n_fits) <= 2.0


def test_a_canary_of_float32_rows_stays_below_epsilon():
    """Sums in float32, with the price of what they round."""
    assert 1.3 < canary_attack(ATTACKED["random batches"], dtype=np.float32) <= 2.0


@pytest.mark.parametrize("name", ["one step", "four steps", "random batches", "product"])
def test_gradients_that_are_not_clipped_are_caught(name, monkeypatch):
    """Positive control: without clipping the canary is seen."""
    monkeypatch.setattr(_network, "clip_factors", lambda squared_norms, bound: np.ones_like(squared_norms))
    assert canary_attack(ATTACKED[name], n_fits=5) > 2.0


@pytest.mark.parametrize("name", ATTACKED)
def test_half_the_noise_of_a_canary_is_caught(name, noise_of):
    """Positive control, at the calibration of the noise."""
    noise_of(0.5)
    assert canary_attack(ATTACKED[name], n_fits=10) > 2.0


def test_a_fifth_less_noise_is_caught(noise_of):
    noise_of(0.8)
    assert canary_attack(ATTACKED["one step"]) > 2.0


# Fits by default


# Rows of bounded norm, whose gradients are as long as they may be from the start; and clipped ones.
BUDGET = {"epsilon": 2.0, "delta": 0.3}  # near mu = 2, where fewest trials show that half of the noise is too little
PAIRS = {
    "bounded rows": (DPSGDClassifier(**BUDGET, n_epochs=2, max_norm=1.0, preconditioner=False), 2, 104),
    "bounded rows, blank, three classes": (
        DPSGDClassifier(**BUDGET, n_epochs=2, max_norm=1.0, adjacency="add_remove"),
        3,
        96,
    ),
    "preconditioned": (DPSGDClassifier(**BUDGET, n_epochs=2, preconditioner=True), 2, 108),
    "preconditioned, blank": (
        DPSGDClassifier(**BUDGET, n_epochs=2, preconditioner=True, adjacency="add_remove"),
        2,
        152,
    ),
    "clipped gradients": (DPSGDClassifier(**BUDGET, n_epochs=2, max_norm=None), 2, 104),
}


@pytest.mark.parametrize("name", PAIRS)
def test_half_the_noise_of_a_fit_by_default_is_caught(name, noise_of, monkeypatch):
    """With the default steps, on the neighbours that are worst; with all of the noise nothing is wrong.

    Of seeded noise, whose outcome is always this one: a confidence of .999 needs half the fits of one of 1 - 1e-6.
    """
    model, n_classes, n_trials = PAIRS[name]
    a, b = worst_neighbours(model, np.zeros((100, 2)), np.arange(100) % n_classes)
    guarantee = clone(model).fit(*a).guarantee_
    release_alone(monkeypatch, type(model))
    options = {"delta": guarantee.profile(0.5), "n_trials": n_trials, "distinguishers": ["membership"]}
    for left in (1.0, 0.5):
        noise_of(left)
        with reproducible_noise(0):
            result = audit_epsilon(model, a, b, confidence=0.999, **options)
        assert result.exceeds(guarantee) == (left < 1)


def test_a_row_of_every_batch_is_caught(monkeypatch):
    """Positive control: accounting for samples while taking all rows."""
    monkeypatch.setattr(_noise, "poisson_sample", lambda n, rate: np.arange(n))
    assert canary_attack(ATTACKED["random batches"], n_fits=20) > 2.0


# Callbacks


def test_callbacks_of_a_descent_see_neither_rows_nor_weights():
    """Nothing but the number of features is there before the end of a fit."""
    estimator = DPSGDClassifier(delta=1e-6, classes=[0, 1])
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    spy = Spy()
    estimator.set_callbacks(spy).fit(X12, Y12)
    assert set(spy.shown) <= {"n_features_in_"}


class Leave(Spy):
    """A callback that leaves a context at the end of the last step."""

    def __init__(self, context, n_steps):
        super().__init__()
        self.context, self.left = context, n_steps

    def on_fit_task_end(self, estimator, context, **known):
        """Count the steps."""
        self.left -= 1
        if self.left == 0:
            self.context.__exit__(None, None, None)


def test_a_descent_whose_seed_ends_before_it_is_marked_as_seeded():
    """Noise of all steps came from a seed that a callback has left by the time the guarantee is stated."""
    estimator = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=5)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    weights = []
    for _ in range(2):
        context = reproducible_noise(0)
        context.__enter__()
        weights.append(estimator.set_callbacks(Leave(context, 5)).fit(X12, Y12).coef_)
    assert estimator.guarantee_.seeded or not np.array_equal(*weights)


class Widen(Spy):
    """A callback that has rows of any length counted as they are."""

    def setup(self, estimator, context):
        """Set a norm that no row has: the noise was calibrated before."""
        estimator.set_params(max_norm=1e6)


def test_a_callback_does_not_set_the_norm_to_which_rows_are_clipped():
    """Noise for rows of norm 1 was added to gradients of rows of norm 1000."""
    estimator = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=2, max_norm=1.0)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    weights = []
    for callbacks in ([], [Widen()]):
        with reproducible_noise(0):
            weights.append(estimator.set_callbacks(*callbacks).fit(1000 * X12, Y12).coef_)
    assert np.array_equal(*weights)


class Within(Leave):
    """A callback that enters a context before the first step, and leaves it after the last."""

    def on_fit_task_begin(self, estimator, context, **known):
        """Enter, once."""
        if self.left == self.n_steps:
            self.n_steps = None
            self.context.__enter__()

    def __init__(self, context, n_steps):
        super().__init__(context, n_steps)
        self.n_steps = n_steps


def test_a_descent_whose_seed_is_there_for_its_steps_alone_is_marked_as_seeded():
    """There is no seed when the fit begins, nor when it ends, and all of the noise came from one."""
    estimator = DPSGDClassifier(delta=1e-6, classes=[0, 1], n_epochs=5)
    if not hasattr(estimator, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    weights = [estimator.set_callbacks(Within(reproducible_noise(0), 5)).fit(X12, Y12).coef_ for _ in range(2)]
    assert estimator.guarantee_.seeded or not np.array_equal(*weights)


# Steps


def test_products_and_gradients_of_one_row_move_no_further_together_than_is_paid_for():
    """What reaches the noise of a first step, for rows, norms, types and weights of classes of all sizes."""
    rng, largest = np.random.default_rng(3), 0.0
    for _ in range(120):
        n_rows, n_classes = int(rng.integers(2, 8)), int(rng.integers(2, 5))
        max_norm = float(10 ** rng.uniform(-50, 50)) if rng.random() < 0.5 else 1.0
        one = rng.normal(size=(n_rows, int(rng.integers(1, 6)))) * max_norm * 10 ** rng.uniform(-3, 3)
        one[0] *= 10 ** rng.choice([0.0, 5.0, 200.0])
        other, labels = one.copy(), rng.integers(0, n_classes, n_rows)
        other[0] = -one[0] if rng.random() < 0.6 else rng.normal(size=one.shape[1]) * max_norm * rng.choice([0, 10])
        others = np.append(rng.integers(0, n_classes), labels[1:]) if rng.random() < 0.5 else labels
        weights = {0: 1.0} | {label: float(rng.choice([0, 1e-300, 0.3, 1])) for label in range(1, n_classes)}
        descent = DPSGDClassifier(
            classes=range(n_classes),
            max_norm=max_norm,
            preconditioner=bool(rng.random() < 0.7),
            n_epochs=1,
            delta=1e-6,
            class_weight=weights if rng.random() < 0.5 else None,
        )
        form = [np.asarray, np.asfortranarray, sp.csr_array][rng.integers(3)]
        first, second = (tape_of(partial(descent.fit, form(rows), y)) for rows, y in ((one, labels), (other, others)))
        assert [(kind, scale) for kind, scale, _ in first] == [(kind, scale) for kind, scale, _ in second]
        moves = [np.linalg.norm((a - b) / scale) for (_, scale, a), (_, _, b) in zip(first, second, strict=True)]
        largest = max(largest, np.linalg.norm(moves) / descent.guarantee_.loss.mu)
    assert 0.99 < largest <= 1


@pytest.fixture
def moves(monkeypatch):
    """Collect all sums before their noise, in units of its scale; what is released instead is the same each time."""
    sums = []

    def _release(values, scale):
        sums.append(np.array(values, dtype=np.float64).ravel() / scale)
        values[...] = np.random.default_rng(len(sums)).normal(size=values.shape) * _release.size

    _release.size = 1.0
    monkeypatch.setattr(_noise, "add_gaussian", _release)

    def _moves(fit):
        sums.clear()
        return fit().guarantee_, np.concatenate(sums)

    _moves.release = _release
    return _moves


@pytest.mark.parametrize("size", [1e-3, 1e4, 1e200])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, np.float32, sp.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(delta=1e-6, classes=[0, 1, 2], n_epochs=9, preconditioner=True),
        DPSGDClassifier(delta=1e-6, classes=[0, 1, 2], n_epochs=9, max_norm=None),
        DPSGDClassifier(delta=1e-6, classes=[0, 1, 2], n_epochs=9, class_weight={0: 0.2}, optimizer="adam"),
        DPRidge(delta=1e-6, target_bounds=(-1, 2), mechanism="descent"),
        DPMoments(delta=1e-6, target_bounds=(-1, 2)),
    ],
)
def test_all_steps_on_any_path_move_no_further_than_is_printed(moves, short_descents, model, form, size):
    """Of two neighbours at the same weights, whatever these are, all sums together lie within mu of the loss."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    moves.release.size = size
    for row, label, other, other_label in [
        ([1e30, 0, 0], 0, [-1e30, 0, 0], 1),
        ([0, 1e3, 0], 1, [0, 1e3, 0], 2),
        ([5e-40, 0, 0], 2, [1, 1, 1], 2),
        ([1, -1, 0], -9, [1, 1, 0], 9),
    ]:
        (a, b), (c, d) = (X.copy(), y.copy()), (X.copy(), y.copy())
        a[7], c[7] = row, other
        is_model = isinstance(model, DPSGDClassifier)
        b[7], d[7] = (np.clip([label, other_label], 0, 2)) if is_model else (label, other_label)
        guarantee, one = moves(lambda a=a, b=b: model.fit(form(a), b))
        _, two = moves(lambda c=c, d=d: model.fit(form(c), d))
        assert np.linalg.norm(one - two) <= guarantee.loss.mu * (1 + 1e-12)


@pytest.mark.parametrize("model", [DPMoments(delta=1e-6), DPPCA(delta=1e-6), DPBinner(delta=1e-6)])
def test_streams_in_other_chunks_move_no_further(moves, model):
    """One row replaced, in chunks of other sizes, sparse or not: rounding and order are within what is printed."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(1, 4)), 900, axis=0)
    other = X.copy()
    X[3], other[3] = [1e3, 0, 0, 0], [0, -1e3, 0, 0]
    guarantee, one = moves(lambda: model.fit(X))
    for cuts, form in [([100], np.asarray), ([1, 2, 899], sp.csr_array), ([450, 450, 800], np.asfortranarray)]:
        parts = [form(part) for part in np.split(other, cuts) if len(part)]
        _, two = moves(lambda parts=parts: model.fit_chunks(parts))
        assert 0 < np.linalg.norm(one - two) <= guarantee.loss.mu * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_step_on_a_secret_sample_is_what_an_integral_says(adjacency):
    """One step, by the integral of the densities of both neighbours, from both sides."""
    pytest.importorskip("dp_accounting")
    for scale, rate, epsilon in ((0.7, 0.05, 0.5), (2.0, 0.5, 1.0), (5.0, 0.9, 0.1)):
        x = np.linspace(-12 * scale - 2, 12 * scale + 2, 200_001)
        blank, one, other = (norm.pdf(x, center, scale) for center in (0.0, 1.0, -1.0))
        p = (1 - rate) * blank + rate * one
        q = (1 - rate) * blank + rate * other if adjacency == "replace_one" else blank
        exact = max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))) * (x[1] - x[0])
        profile = mechanisms.subsampled_gaussian_profile(epsilon, scale=scale, rate=rate, adjacency=adjacency)
        assert exact * (1 - 1e-6) <= profile <= exact * 1.01 + 1e-11


@pytest.mark.parametrize("seed", range(3))
def test_one_row_of_any_size_adds_no_more_than_a_clipped_gradient(seed):
    """Rows, weights, constants and bounds from 1e-200 to 1e200: the sum moves by the bound, or by nothing."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        hidden = [int(n) for n in rng.integers(1, 4, size=rng.integers(0, 3))]
        sizes = (int(rng.integers(1, 4)), *hidden, int(rng.choice([1, 3])))
        network = Network(sizes, str(rng.choice(["relu", "tanh", "logistic"])), float(10 ** rng.uniform(-50, 2)))
        bound = float(10 ** rng.uniform(-50, 50))
        weights = rng.normal(size=network.n_weights) * 10.0 ** rng.uniform(-200, 200, size=network.n_weights)
        rows = rng.choice([-1.0, 1.0], size=(2, sizes[0])) * 10.0 ** rng.uniform(-50, 49, size=(2, sizes[0]))
        codes = rng.integers(0, max(sizes[-1], 2), size=2)
        for weighed in ([1.0, 0.0], [0.0, 1.0]):
            total = np.zeros(network.n_weights)
            add_clipped_gradients(total, network, weights, PaddedBlock(rows, codes, 2, np.array(weighed)), bound)
            assert np.isfinite(total).all()
            largest = np.abs(total).max() or 1.0
            assert np.linalg.norm(total / largest) * largest <= bound * (1 + 1e-14)
