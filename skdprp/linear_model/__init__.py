"""Private linear classifiers: drop-in replacements of LogisticRegression with a privacy guarantee.

Both read the same way: clip the rows, calibrate from public quantities, solve to the accuracy that the guarantee
assumes, release the weights.
"""

from ._objective import AMPClassifier
from ._output import ProductNoiseOutputPerturbation
from ._solver import SolverError

__all__ = ["AMPClassifier", "ProductNoiseOutputPerturbation", "SolverError"]
