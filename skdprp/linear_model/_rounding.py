"""In which precision gradients are summed, and how far rounding may move their sum."""

from dataclasses import dataclass

import numpy as np

from ._batches import block_size
from ._network import FLOAT32_ROWS

_LARGEST_SLACK = 2.0**-7  # of sums in float32: the share of noise that they may cost
_FAILURE = 2.0**-40


@dataclass(frozen=True)
class Rounding:
    """How products of rows and derivatives are summed.

    Parameters
    ----------
    dtype : type
        float32 or float64.
    slack : float
        Share of the clipping norm by which rounding may move a sum of clipped gradients between two neighbours.
    failure : float
        Probability with which some batch is too large for that.
    """

    dtype: type
    slack: float
    failure: float


def plan_rounding(problem, plan, delta):
    """Sum in float32 where the rows have that type and it costs little noise, otherwise in float64.

    Parameters
    ----------
    problem : DescentProblem
        Public facts.
    plan : Plan
        Steps and batches.
    delta : float
        Slack of the target.

    Returns
    -------
    Rounding

    Notes
    -----
    A sum may be off by half the slack for each neighbour: so a row moves it by ``1 + slack`` times the clipping norm at
    most, counting or not, and a replacement by twice that.

    The rows of a batch besides the one that neighbours differ in are as many as they are with the same probability for
    both, and independent of whether that row is in it. So if a step is private for every set of them up to some size,
    all steps are, but for the probability that some set is larger, which adds to delta once. For T batches of np rows
    on average it is at most ``T exp(-L)`` at a size of ``np + sqrt(2 np L) + L``, by Bernstein's inequality.
    """
    n_rows, failure = plan.n_samples, 0.0
    if plan.rate < 1:
        failure = _FAILURE * delta
        log = np.log(plan.n_steps / failure)
        n_rows = min(n_rows, plan.batch_size + np.sqrt(2 * plan.batch_size * log) + log)
    slack = float32_slack(problem.network, n_rows, problem.bound)
    if problem.dtype == np.float32 and slack <= _LARGEST_SLACK:
        return Rounding(np.float32, float(slack), failure)
    return Rounding(np.float64, float64_slack(problem.network, plan.n_samples, plan.batch_size), 0.0)


def float64_slack(network, n_samples, batch_size):
    """Slack of sums in float64.

    A sum of n vectors of norm C by blocks of B is off by ``(B + n / B) 2^-53 n C`` at most, for each neighbour; each
    of the vectors, its norm being computed from sums of as many squares as a layer is wide, by ``width 2^-52 C``.

    Parameters
    ----------
    network : Network
        The network.
    n_samples : int
        Number of rows.
    batch_size : float
        Expected number of rows of a batch.

    Returns
    -------
    float
    """
    size = block_size(batch_size)
    additions = size + n_samples / size + 8
    return 2.0**-52 * (n_samples * additions + _norm_errors(network))


def float32_slack(network, n_rows, bound):
    """Slack of sums in float32 of `FLOAT32_ROWS` rows each, which float64 adds up.

    Each is off by ``(FLOAT32_ROWS + 2) 2^-24`` of the norms of its vectors. A derivative is rounded to float32 after it
    was shortened: by a share of 2^-24, and below the normal numbers by 2^-149, times at most sqrt(width) 2^128.

    Parameters
    ----------
    network : Network
        The network.
    n_rows : float
        Number of rows of a batch, at most, besides the one that neighbours differ in.
    bound : float
        Clipping norm C.

    Returns
    -------
    float
    """
    single = (n_rows + 1) * (FLOAT32_ROWS + 2) + 2 + 4 * max(network.sizes) / bound
    double = n_rows * (n_rows / FLOAT32_ROWS + 64) + _norm_errors(network)
    return 2.0**-23 * single + 2.0**-52 * double


def _norm_errors(network):
    return 2 * max(network.sizes) + 32
