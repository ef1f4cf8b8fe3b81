"""Steps, batches, step lengths and precision of noisy gradient descent, from public quantities."""

from dataclasses import dataclass

import numpy as np

from .._adjacency import Relation, Unit
from ..linear_model._passes import block_rows
from ..mechanisms import gaussian_scale
from ..mechanisms._numerics import rows_that_differ
from ._network import FLOAT32_ROWS
from ._preconditioner import relative_scales
from ._steps import LARGEST_SCORE, block_size

# Share of the travel, common length of a step and the longest one: of a linear model, for two classes and for more, and
# of a network. Beyond the longest one descent overshoots, whatever the noise.
_TWO_CLASSES, _LINEAR, _NETWORK = (0.85, 10.0, 10.0), (1.1, 10.0, 10.0), (0.2, 2.5, 6.0)
_N_STEPS = 50, 300  # fewer are too long, more take time and gain nothing
_LINEAR_STEPS = 50, 80  # beyond which momentum travels further
_LARGEST_MOMENTUM, _STEPS_TO_GAIN_IT = 0.9, 8.0  # the latter times 1 / (1 - momentum)
_PRECONDITIONED_STEPS, _PRECONDITIONED_MOMENTUM = 30, 0.5  # in which directions of any curvature are learnt
_LEAST_SIGNAL = 0.4  # of a Gram matrix that is worth its release, see `gram_signal`
_FARTHEST = 2.0  # times the travel: the noise of directions with a curvature that is known does not grow with it
_MOST_PRECONDITIONED = 1000  # weights of a class, the square of which is kept
# The x of `sampling_rate`: what samples cost in noise.
_SAMPLED_SPREAD = {Relation.ADD_REMOVE: 2.0**-5, Relation.REPLACE_ONE: 2.0**-3}
_SMALLEST_BATCH = 64
_ADAM_RATE, _ADAM_DECAY = 0.01, 0.9  # whose steps have a length of their own, whatever the size of gradients
_LARGEST_MARGIN = 2.0**-7  # of sums in float32: the share of noise that they may cost
_FAILURE = 2.0**-40  # share of delta
_COMPENSATED = 4.0  # additions of vectors whose rounding errors are added up as well, however many they are


@dataclass(frozen=True)
class Plan:
    """How many steps, on which share of the rows (the probability with which a row is in a batch), how long."""

    n_samples: int
    rate: float
    n_steps: int
    learning_rate: float
    momentum: float = 0.0
    travel: float | None = None  # with a preconditioner, in place of the step length

    @property
    def is_preconditioned(self):
        """Whether steps are preconditioned by a Gram matrix of the rows."""
        return self.travel is not None

    @property
    def batch_size(self):
        """Expected number of rows of a batch, by which sums are divided."""
        return self.rate * self.n_samples


def plan_descent(
    problem,
    epsilon,
    delta,
    *,
    adjacency,
    batch_size,
    n_epochs,
    learning_rate,
    momentum,
    optimizer,
    preconditioner,
    noise,
):
    """Fill in what is "auto", from public facts alone; parameters are those of :class:`skdprp.DPSGDClassifier`.

    Constants were chosen on scikit-learn's digits and breast cancer data, on rows of MNIST, a9a and Adult, and on
    simulated ones: their accuracies are no independent check.

    Notes
    -----
    Steps of length eta on T noisy means of gradients of norm C move each weight by noise of standard deviation
    ``eta T sigma C / n``, where sigma calibrates a single release: how the travel ``eta T`` is cut into steps does not
    matter, as long as they are short enough. The best travel of linear models is found where this noise moves scores of
    rows of norm R by about 1, less for two classes, whose probabilities would be worse than those of the classes alone
    where rows say little; that of networks, whose rows have no known norm, is a fifth of that with C for R. Where steps
    would be too long or too many, momentum m lets a linear model travel ``1 / (1 - m)`` times as far.
    """
    n_samples, is_linear = problem.n_samples, len(problem.network.sizes) == 2
    share, step, longest = (_TWO_CLASSES if problem.n_classes == 2 else _LINEAR) if is_linear else _NETWORK
    mu = 1 / gaussian_scale(epsilon, delta, sensitivity=float(rows_that_differ(adjacency)))
    # Learning rate times steps, in units of 1 / R**2, of which curvature is a multiple.
    travel = share * n_samples * mu * problem.row_norm / problem.bound
    n_steps = int(np.clip(travel / step, *(_LINEAR_STEPS if is_linear else _N_STEPS))) if n_epochs == "auto" else None
    if batch_size == "auto" and is_linear:
        batch_size = None
    elif batch_size == "auto":
        least_rate = sampling_rate(mu, n_samples, adjacency=adjacency, n_steps=n_steps, n_epochs=n_epochs)
        batch_size = n_samples * least_rate
    # A batch of a given size is a sample of its share; one as large as the data set is no sample.
    rate = 1.0 if batch_size is None else float(min(batch_size / n_samples, 1.0))
    can_precondition = problem.network.capped and rate == 1 and (optimizer, noise) == ("sgd", "gaussian")
    if preconditioner == "auto":
        is_small = problem.network.sizes[0] < _MOST_PRECONDITIONED
        worth = is_small and gram_signal(problem, epsilon, delta, adjacency) >= _LEAST_SIGNAL
        preconditioner = can_precondition and learning_rate == "auto" and worth
    elif preconditioner and not can_precondition:
        raise ValueError(
            "A preconditioner is for linear models with max_norm, all rows at each step, Gaussian noise and "
            "optimizer='sgd'."
        )
    if preconditioner:
        n_steps = _PRECONDITIONED_STEPS if n_epochs == "auto" else n_epochs
        momentum = _PRECONDITIONED_MOMENTUM if momentum == "auto" else momentum
        learning_rate = 1.0 if learning_rate == "auto" else learning_rate
        farther = np.clip(_FARTHEST * gram_signal(problem, epsilon, delta, adjacency), 1.0, _FARTHEST)
        return Plan(n_samples, rate, n_steps, float(learning_rate), float(momentum), travel=float(farther * travel))
    n_steps = n_steps or int(np.ceil(n_epochs / rate))
    if momentum == "auto" and optimizer == "adam":
        momentum = _ADAM_DECAY
    elif momentum == "auto":
        gains = is_linear and learning_rate == "auto"
        largest = min(_LARGEST_MOMENTUM, 1 - _STEPS_TO_GAIN_IT / n_steps) if gains else 0.0
        momentum = float(np.clip(1 - n_steps * longest / travel, 0.0, max(largest, 0.0)))
    if learning_rate == "auto":
        length = min(travel * (1 - momentum) / n_steps, longest) / problem.row_norm**2
        learning_rate = _ADAM_RATE if optimizer == "adam" else length
    return Plan(n_samples, rate, n_steps, float(learning_rate), float(momentum))


def gram_signal(problem, epsilon, delta, adjacency):
    """How far the Gram matrix of the rows stands out of its noise.

    Of p weights a class its eigenvalues add up to n at most, so that n / p is a typical one; noise of scale s has
    eigenvalues of up to ``2 s sqrt(p)``. The former over half the latter is 1 where the largest begin to stand out.
    """
    p = problem.network.sizes[0] + 1
    scale = gaussian_scale(epsilon, delta) * relative_scales(adjacency, 1)[0]
    return float(problem.n_samples / (scale * p**1.5))


def sampling_rate(mu, n_samples, *, adjacency, n_steps, n_epochs):
    """Least share of the rows, for the batches of a network, that costs next to nothing in noise.

    `mu` is the norm of one gradient over the scale of the one Gaussian release that has the target. The number of steps
    is fixed, or, where that is None, the number of epochs is.

    Notes
    -----
    In the limit of many steps batches of a share p need a noise multiplier sigma with
    ``mu^2 = p^2 T (exp(1 / sigma^2) - 1)`` [1]_ where a row counts or not, and ``mu^2 = p^2 T sinh(1 / sigma^2)`` where
    it is replaced, whose losses are of both signs alike. With ``x = mu^2 / (p^2 T)``, the noise of all steps together
    is ``sqrt(x / log(1 + x))`` or ``sqrt(x / asinh(x))`` times that of all rows at each step. The share p at which x is
    1 / 32, or 1 / 8, costs 1% or 0.1% in the limit, and 2% to 5% or up to 1% by the exact accounting. With fewer rows
    accuracy falls; with more it does not rise, and time does. The numbers of features and classes do not enter: they
    change the noise of all shares alike. Linear models take all rows, which needs no further package and no delta above
    2^-40: samples are as accurate, and faster only where there are many rows. ``python benchmarks/bench_sgd.py --only
    batches`` measures both.

    References
    ----------
    .. [1] "Deep Learning with Gaussian Differential Privacy", arXiv:1911.11607, Theorem 5, for Poisson samples.
    """
    spread = _SAMPLED_SPREAD[adjacency]
    rate = mu / np.sqrt(spread * n_steps) if n_steps else mu**2 / (spread * n_epochs)
    return float(min(max(rate, _SMALLEST_BATCH / n_samples), 1.0))


@dataclass(frozen=True)
class Rounding:
    """In which type products of rows and derivatives are summed, and what that may round off.

    Between two neighbours rounding may move a sum of clipped gradients by the share `margin` of the clipping norm,
    unless some batch is unusually large, with probability `failure`. If `in_any_order`, that counts that a row may be
    rounded in another way at another place, while scores are at most `LARGEST_SCORE`: so blocks need no padding, rows
    may be read in passes, and weights are clipped after each step.
    """

    dtype: type
    margin: float
    failure: float
    in_any_order: bool = False


def plan_rounding(problem, plan, delta):
    """Sum in float32 where the rows have that type and it costs little noise, otherwise in float64.

    All rows of a linear model are multiplied at once, wherever they lie, if that costs next to nothing.

    Notes
    -----
    A sum may be off by half the margin for each neighbour: so a row moves it by ``1 + margin`` times the clipping norm
    at most, counting or not, and a replacement by twice that.

    The rows of a batch besides the one that neighbours differ in are as many as they are with the same probability for
    both, and independent of whether that row is in it. So if a step is private for every set of them up to some size,
    all steps are, but for the probability that some set is larger, which adds to delta once. For T batches of np rows
    on average it is at most ``T exp(-L)`` at a size of ``np + sqrt(2 np L) + L``, by Bernstein's inequality.
    """
    n_rows, failure = plan.n_samples, 0.0
    of_persons = problem.unit == Unit.PERSON
    if problem.network.capped and plan.rate == 1:
        margin = bounded_margin(problem.network, n_rows, of_persons=of_persons)
        if margin <= _LARGEST_MARGIN:
            return Rounding(np.float64, margin, failure, in_any_order=True)
    if plan.rate < 1:
        failure = _FAILURE * delta
        log = np.log(plan.n_steps / failure)
        n_rows = min(n_rows, plan.batch_size + np.sqrt(2 * plan.batch_size * log) + log)
    margin = float32_margin(problem.network, n_rows, problem.bound)
    # A person may have so many rows that what each loses below the normal numbers of float32 adds up.
    if problem.dtype == np.float32 and margin <= _LARGEST_MARGIN and not of_persons:
        return Rounding(np.float32, float(margin), failure)
    # float64 pays for all rows in one batch: nothing, and so nothing can fail.
    margin = float64_margin(problem.network, plan.n_samples, plan.batch_size, of_persons=of_persons)
    return Rounding(np.float64, margin, 0.0)


def float64_margin(network, n_samples, batch_size, *, of_persons=False):
    """Rounding margin of sums in float64.

    A sum of n vectors of norm C by blocks of B is off by ``(B + n / B) 2^-53 n C`` at most, for each neighbour; each
    of the vectors, its norm being computed from sums of as many squares as a layer is wide, by ``width 2^-52 C``.

    Of n persons, the weights of whose rows add up to n at most, up to 2^26 blocks add up by compensated sums, off by
    2^-52 of the sum of norms: how many they are does not matter.
    """
    size = block_size(batch_size)
    additions = size + (_COMPENSATED if of_persons else n_samples / size) + 8
    return 2.0**-52 * (n_samples * additions + _norm_errors(network))


def bounded_margin(network, n_samples, *, of_persons=False):
    """Rounding margin of the gradients of n rows of norm at most R in a capped model, multiplied in any order.

    With e = 2^-53 and weights of a norm of at most S / R, S being `LARGEST_SCORE`: the K scores of a row are sums of
    d + 2 products, off by ``(d + 2) e S`` together. The derivative moves by half of that at most, the largest second
    derivative of the losses, which a cap does not raise; computing it adds ``(K + 16) e``. Its gradient, of norm C at
    most, moves by R times that, the share ``1 / lipschitz`` of it in units of C. The sum of n gradients by blocks of B
    rows is off by ``(B + n / B + 8) e n C``. All of it once for each neighbour. Of persons, as in `float64_margin`.
    """
    size = block_rows(*network.sizes)
    derivative = (network.sizes[0] + 2) * LARGEST_SCORE / 2 + network.sizes[-1] + 16
    additions = size + (_COMPENSATED if of_persons else n_samples / size) + 8
    return 2.0**-52 * n_samples * (derivative / network.lipschitz + additions)


def float32_margin(network, n_rows, bound):
    """Rounding margin of sums in float32 of `FLOAT32_ROWS` rows each, which float64 adds up, for batches of `n_rows`.

    Each is off by ``(FLOAT32_ROWS + 2) 2^-24`` of the norms of its vectors. A derivative is rounded to float32 after it
    was clipped: by a share of 2^-24, and below the normal numbers by 2^-149, times at most sqrt(width) 2^128.
    """
    single = (n_rows + 1) * (FLOAT32_ROWS + 2) + 2 + 4 * max(network.sizes) / bound
    double = n_rows * (n_rows / FLOAT32_ROWS + 64) + _norm_errors(network)
    return 2.0**-23 * single + 2.0**-52 * double


def _norm_errors(network):
    """Rounding of a squared norm that is summed from as many squares as a layer is wide, and of its root."""
    return 2 * max(network.sizes) + 32
