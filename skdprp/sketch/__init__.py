"""Private sketches: transformers that replace each row by a private random projection.

Every estimator here reads the same way: draw a public projection from the shape of X, compute its sensitivity,
calibrate the mechanism, state the guarantee. Only `transform` looks at the values of X, and each call is a release.
"""

from ._additive import DPOPORP, DPRandomProjection
from ._individual import iDPSignRP
from ._sign import DPSignOPORP, DPSignRP

__all__ = ["DPOPORP", "DPRandomProjection", "DPSignOPORP", "DPSignRP", "iDPSignRP"]
