"""Private histograms of all columns of a table, in one release: quantiles, means, categories, missing values."""

from ._estimator import DPHistograms
from ._estimator import PrivateHistograms as PrivateHistograms
from ._release import CategoryCounts, Histograms, NumberHistogram

__all__ = ["CategoryCounts", "DPHistograms", "Histograms", "NumberHistogram"]
