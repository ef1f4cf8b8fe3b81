"""Differentially private random projections, compatible with scikit-learn."""

from . import similarity
from ._noise import reproducible_noise
from .guarantee import PrivacyGuarantee, PrivacyWarning
from .linear_model import MIDPRegressor
from .sketch import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, iDPSignRP

__version__ = "0.1.0.dev0"

__all__ = [
    "DPOPORP",
    "DPRandomProjection",
    "DPSignOPORP",
    "DPSignRP",
    "MIDPRegressor",
    "PrivacyGuarantee",
    "PrivacyWarning",
    "iDPSignRP",
    "reproducible_noise",
    "similarity",
]
