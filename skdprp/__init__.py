"""Differentially private random projections and linear models, compatible with scikit-learn."""

from . import similarity
from ._noise import reproducible_noise
from .guarantee import PrivacyGuarantee, PrivacyWarning, compose
from .linear_model import AMPClassifier, DPSGDClassifier, MIDPRegressor, ProductNoiseOutputPerturbation
from .report import privacy_report
from .sketch import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, iDPSignRP

__version__ = "0.1.0.dev0"

__all__ = [
    "DPOPORP",
    "AMPClassifier",
    "DPRandomProjection",
    "DPSGDClassifier",
    "DPSignOPORP",
    "DPSignRP",
    "MIDPRegressor",
    "PrivacyGuarantee",
    "PrivacyWarning",
    "ProductNoiseOutputPerturbation",
    "compose",
    "iDPSignRP",
    "privacy_report",
    "reproducible_noise",
    "similarity",
]
