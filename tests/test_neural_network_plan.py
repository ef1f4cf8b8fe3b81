"""The plan of a descent: its batches, its rounding, its noise; it depends on public quantities only."""

import numpy as np
import pytest
from scipy.stats import binom

from skdprp import DPSGDClassifier
from skdprp.mechanisms.noisy_steps import descent_scale
from skdprp.neural_network._dpsgd import DescentProblem
from skdprp.neural_network._network import Network
from skdprp.neural_network._plan import Plan, float32_margin, plan_rounding, sampling_rate


def rounding_of(dtype, n_samples, rate, bound=1.0, n_steps=100):
    problem = DescentProblem(n_samples, 10, Network((784, 128, 10), "relu", bias=1.0), bound, bound, np.dtype(dtype))
    return plan_rounding(problem, Plan(n_samples, rate, n_steps, 1.0), 1e-8)


def test_float32_sums_only_where_they_are_cheap():
    """Small batches of float32; neither all rows, nor large batches, nor a bound near what float32 loses."""
    assert rounding_of(np.float32, 8000, 0.025).dtype == np.float32
    for other in (
        rounding_of(np.float64, 8000, 0.025),
        rounding_of(np.float32, 8000, 1.0),
        rounding_of(np.float32, 8000, 0.2),
        rounding_of(np.float32, 8000, 0.025, bound=1e-4),
    ):
        assert (other.dtype, other.failure) == (np.float64, 0.0)


@pytest.mark.parametrize(("n_samples", "rate"), [(8000, 0.025), (200, 0.3), (10**6, 1e-5), (100, 0.01)])
def test_batches_are_too_large_for_float32_as_seldom_as_is_said(n_samples, rate):
    """The binomial tail of all steps, beyond the number of rows that the margin pays for, is paid out of delta."""
    found = rounding_of(np.float32, n_samples, rate)
    assert found.dtype == np.float32
    assert found.failure == 2.0**-40 * 1e-8
    log = np.log(100 / found.failure)
    largest = n_samples * rate + np.sqrt(2 * n_samples * rate * log) + log
    network = Network((784, 128, 10), "relu", bias=1.0)
    assert found.margin == pytest.approx(float32_margin(network, min(largest, n_samples), 1.0), rel=1e-12)
    assert 100 * binom.sf(np.floor(largest), n_samples, rate) <= found.failure


@pytest.mark.parametrize("known", [{"max_norm": 1e-40}, {"max_norm": 1e40}, {"max_grad_norm": 1e45}], ids=str)
def test_norms_beyond_float32_are_computed_in_float64(known, binary, silenced_noise):
    """The same weights as from rows in float64, where float32 has no such numbers."""
    X, y = binary[0].astype(np.float32), binary[1]
    short, long = (
        DPSGDClassifier(n_epochs=3, learning_rate=1.0, **known).fit(rows, y) for rows in (X, X.astype(float))
    )
    assert np.abs(long.coef_).max() > 0
    np.testing.assert_array_equal(short.coef_, long.coef_)


def test_float32_pays_for_its_rounding(binary):
    """By a little more noise, and by a share of delta where it is composed further."""
    X, y = binary
    known = {"hidden_layer_sizes": (5,), "batch_size": 30, "n_epochs": 3, "epsilon": 4.0}
    long, short = (DPSGDClassifier(**known).fit(X.astype(dtype), y) for dtype in (np.float64, np.float32))
    assert 1.0001 < short.scale_ / long.scale_ < 1.01
    assert long.guarantee_.loss.failure_probability == 0.0
    assert short.guarantee_.loss.failure_probability == 2.0**-40 * short.delta_
    assert short.guarantee_.loss.profile(4.0) <= short.delta_


@pytest.mark.parametrize(
    ("adjacency", "mu", "least", "most"), [("add_remove", 0.386, 1.01, 1.1), ("replace_one", 0.193, 1.0, 1.01)]
)
def test_automatic_batches_cost_next_to_nothing_in_noise(adjacency, mu, least, most):
    """A few percent more than all rows need where a row is blank or not, next to none where it is replaced."""
    n_steps, known = 244, {"adjacency": adjacency}
    rate = sampling_rate(mu, 8000, n_steps=n_steps, n_epochs="auto", **known)
    assert rate == pytest.approx(sampling_rate(mu, 8000, n_steps=None, n_epochs=rate * n_steps, **known))
    sampled, whole = (descent_scale(2.0, 1 / 8000**2, rate=p, n_steps=n_steps, **known) / p for p in (rate, 1.0))
    assert least < sampled / whole < most
    assert sampling_rate(1e-9, 8000, n_steps=50, n_epochs="auto", **known) == 64 / 8000
    assert sampling_rate(1e9, 8000, n_steps=50, n_epochs="auto", **known) == 1.0


def test_noise_of_a_replaced_row_is_twice_that_of_a_blank_one():
    """A row adds a vector of norm C or nothing; a row for another is a move by 2 C."""
    X, y = np.random.default_rng(0).normal(size=(100, 4)), np.arange(100) % 2
    for noise in ("gaussian", "product"):
        blank, replaced = (
            DPSGDClassifier(noise=noise, n_epochs=5, adjacency=adjacency, preconditioner=False).fit(X, y)
            for adjacency in ("add_remove", "replace_one")
        )
        assert replaced.scale_ == pytest.approx(2 * blank.scale_, rel=1e-6)
        assert replaced.sensitivity_ == blank.sensitivity_ == pytest.approx(np.hypot(1.0, 0.3) / 2)
    assert DPSGDClassifier().adjacency == "replace_one"
    with pytest.raises(ValueError, match="adjacency"):
        DPSGDClassifier(adjacency="l1").fit(X, y)


@pytest.mark.parametrize("n_epochs", ["auto", 2])
def test_the_smaller_epsilon_the_smaller_the_automatic_batch(n_epochs, binary):
    X, y = np.tile(binary[0], (10, 1)), np.tile(binary[1], 10)
    known = {"hidden_layer_sizes": (3,), "n_epochs": n_epochs}
    rates = [DPSGDClassifier(epsilon=epsilon, **known).fit(X, y).sampling_rate_ for epsilon in (0.3, 3.0)]
    assert 64 / 3000 <= rates[0] < rates[1] <= 1
    assert DPSGDClassifier(n_epochs=2).fit(X, y).sampling_rate_ == 1.0


@pytest.mark.parametrize("batch_size", [300, 301, 10**6, None])
def test_batches_of_all_rows_are_the_full_batch(batch_size, binary):
    X, y = binary
    model = DPSGDClassifier(batch_size=batch_size, n_epochs=5).fit(X, y)
    assert model.sampling_rate_ == 1.0
    assert model.n_iter_ == 5


def test_epochs_count_expected_uses_of_a_row(binary):
    X, y = binary
    model = DPSGDClassifier(batch_size=70, n_epochs=2).fit(X, y)
    assert model.sampling_rate_ == pytest.approx(70 / 300)
    assert model.n_iter_ == 9


def test_defaults_depend_on_public_quantities_only(three_classes):
    """Other values of the rows, the same plan."""
    X, y = three_classes
    plans = set()
    for scale in (1e-3, 1.0, 1e3):
        model = DPSGDClassifier().fit(scale * X, np.roll(y, 7))
        plans.add((model.n_iter_, model.learning_rate_, model.scale_, model.sampling_rate_))
    assert len(plans) == 1
