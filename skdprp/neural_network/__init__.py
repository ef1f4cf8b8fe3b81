"""Private classifiers by noisy gradient descent: linear models and networks.

Fit reads from top to bottom: plan the steps from public quantities, calibrate the noise for all of them together, and
take each step from a noisy sum of clipped gradients.
"""

from ._dpsgd import DPSGDClassifier

__all__ = ["DPSGDClassifier"]
