"""Differentially private random projections and linear models, compatible with scikit-learn."""

from . import similarity
from ._noise import reproducible_noise
from .guarantee import PrivacyGuarantee, PrivacyWarning, compose
from .linear_model import AMPClassifier, MIDPRegressor, ProductNoiseOutputPerturbation
from .out_of_core import transform_chunks
from .publishing import load_release, save_release
from .report import privacy_report
from .sketch import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, iDPSignRP

__version__ = "0.1.0.dev0"

__all__ = [
    "DPOPORP",
    "AMPClassifier",
    "DPRandomProjection",
    "DPSignOPORP",
    "DPSignRP",
    "MIDPRegressor",
    "PrivacyGuarantee",
    "PrivacyWarning",
    "ProductNoiseOutputPerturbation",
    "compose",
    "iDPSignRP",
    "load_release",
    "privacy_report",
    "reproducible_noise",
    "save_release",
    "similarity",
    "transform_chunks",
]
