"""A noisy count of the labels of one class: where scores start from, and a threshold."""

from dataclasses import dataclass

import numpy as np

from .. import _noise
from .._digits import with_python_numbers
from .gaussian_laplace import gaussian_scale

_SHARE_OF_SQUARES, _SHARE_OF_EPSILON = 0.01, 0.02  # of the squared shift of all, and of epsilon
_LEAST_ROWS = 40.0  # for each standard deviation of the count
_FROM_THE_EDGE = 2.0  # standard deviations between an estimated count and none or all


@dataclass(frozen=True)
class LabelCount:
    """Noise of the number of rows of the second of two classes, among `n_samples`.

    One row that is added, taken away or replaced changes the number by 1 at most, and floats hold it exactly. With
    Gaussian noise it is a Gaussian mechanism of the shift ``1 / scale``, with Laplace noise (1 / scale, 0)-DP. What is
    computed from it, the offset of a fit that follows, or a threshold, may be as public as it is.
    """

    n_samples: int
    scale: float
    is_gaussian: bool

    @property
    def deviation(self):
        """Standard deviation of the noise."""
        return self.scale * (1.0 if self.is_gaussian else np.sqrt(2))

    @property
    def pays(self):
        """Whether the rows are so many that the count tells more than its price, by public numbers."""
        return self.n_samples >= _LEAST_ROWS * self.deviation

    @property
    def profile_argument(self):
        """What a profile of a fit beside it takes."""
        return {"count_shift" if self.is_gaussian else "count_epsilon": 1 / self.scale}

    @property
    def least_share(self):
        """Share of either class to which estimates are clipped: the noise hides smaller ones."""
        return min(max(_FROM_THE_EDGE * self.deviation, 0.5) / self.n_samples, 0.5)

    def release(self, number):
        """Release the share of the second class, from the number of its rows."""
        count = np.array([number], dtype=np.float64)
        add_noise = _noise.add_gaussian if self.is_gaussian else _noise.add_laplace
        add_noise(count, self.scale)
        return float(np.clip(count[0] / self.n_samples, self.least_share, 1 - self.least_share))


@with_python_numbers
def gaussian_label_count(epsilon, delta, *, n_samples):
    """Count that takes a hundredth of the squared shift of a Gaussian mechanism at the target of the whole fit."""
    # Squares of shifts add up: noise for a sensitivity of 10, where the count moves by 1, takes a hundredth.
    return LabelCount(
        n_samples, gaussian_scale(epsilon, delta, sensitivity=1 / np.sqrt(_SHARE_OF_SQUARES)), is_gaussian=True
    )


@with_python_numbers
def laplace_label_count(epsilon, *, n_samples):
    """Count that takes a fiftieth of epsilon."""
    return LabelCount(n_samples, float(1 / (_SHARE_OF_EPSILON * epsilon)), is_gaussian=False)
