"""Differentially private random projections and linear models, compatible with scikit-learn."""

from . import similarity
from ._version import __version__ as __version__
from .audit import audit_epsilon, membership_inference_auc, worst_neighbours
from .decomposition import DPPCA
from .guarantee import PrivacyGuarantee, PrivacyWarning, compose
from .histograms import DPHistograms
from .inspection import PrivacyProfileDisplay, PrivacyUtilityDisplay
from .ledger import PrivacyLedger
from .linear_model import AMPClassifier, DPRidge, MIDPRegressor, ProductNoiseOutputPerturbation
from .model_selection import DPSearchCV, set_budget
from .moments import DPMoments, add_moments
from .neural_network import DPSGDClassifier
from .out_of_core import transform_chunks
from .preprocessing import DPBinner, DPScaler, PublicBinner, PublicScaler, make_table_preprocessor
from .release_file import (
    load_histograms,
    load_model,
    load_moments,
    load_release,
    save_histograms,
    save_model,
    save_moments,
    save_release,
)
from .report import privacy_report
from .sketch import DPOPORP, DPRandomProjection, DPSignOPORP, DPSignRP, iDPSignRP

__all__ = [
    "DPOPORP",
    "DPPCA",
    "AMPClassifier",
    "DPBinner",
    "DPHistograms",
    "DPMoments",
    "DPRandomProjection",
    "DPRidge",
    "DPSGDClassifier",
    "DPScaler",
    "DPSearchCV",
    "DPSignOPORP",
    "DPSignRP",
    "MIDPRegressor",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PrivacyProfileDisplay",
    "PrivacyUtilityDisplay",
    "PrivacyWarning",
    "ProductNoiseOutputPerturbation",
    "PublicBinner",
    "PublicScaler",
    "add_moments",
    "audit_epsilon",
    "compose",
    "iDPSignRP",
    "load_histograms",
    "load_model",
    "load_moments",
    "load_release",
    "make_table_preprocessor",
    "membership_inference_auc",
    "privacy_report",
    "save_histograms",
    "save_model",
    "save_moments",
    "save_release",
    "set_budget",
    "similarity",
    "transform_chunks",
    "worst_neighbours",
]
