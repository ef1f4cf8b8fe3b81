"""Differentially private random projections and linear models, compatible with scikit-learn."""

import sys
from importlib import import_module

from . import _open_ledgers as _open_ledgers  # which sees the ancestors of this process while they are there
from ._version import __version__ as __version__

# Where public names are. A module is imported when it, or one of its names, is first asked for: all of them together
# take longer than scikit-learn's linear models.
_PLACES = {
    "audit": ("audit_epsilon", "membership_inference_auc", "worst_neighbours"),
    "decomposition": ("DPPCA",),
    "guarantee": ("PrivacyGuarantee", "PrivacyWarning", "compose"),
    "histograms": ("DPHistograms",),
    "inspection": ("PrivacyProfileDisplay", "PrivacyUtilityDisplay"),
    "ledger": ("PrivacyLedger",),
    "linear_model": ("AMPClassifier", "DPRidge", "MIDPRegressor", "ProductNoiseOutputPerturbation"),
    "model_selection": ("DPSearchCV", "set_budget"),
    "moments": ("DPMoments", "add_moments"),
    "neural_network": ("DPSGDClassifier",),
    "out_of_core": ("transform_chunks",),
    "preprocessing": ("DPBinner", "DPScaler", "PublicBinner", "PublicScaler", "make_table_preprocessor"),
    "release_file": (
        "load_histograms",
        "load_model",
        "load_moments",
        "load_release",
        "save_histograms",
        "save_model",
        "save_moments",
        "save_release",
    ),
    "report": ("privacy_report",),
    **dict.fromkeys(("composition", "losses", "mechanisms", "metrics", "random_projection", "sensitivity"), ()),
    "similarity": (),
    "testing": (),
    "sketch": ("DPOPORP", "DPRandomProjection", "DPSignOPORP", "DPSignRP", "iDPSignRP"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

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


def __getattr__(name):
    if name in _MODULE_OF:
        value = globals()[name] = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        return value
    if name in _PLACES:
        return import_module(f".{name}", __name__)
    # An import statement would replace the message of an AttributeError by its own.
    is_import = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
    public = [] if name.startswith("_") else [import_module(f".{module}", __name__) for module in _PLACES]
    listed = (module.__name__ for module in public if name in getattr(module, "__all__", ()))
    where = next((f": it is in {module}" for module in listed), "")
    error = ImportError if where and is_import else AttributeError
    raise error(f"module {__name__!r} has no attribute {name!r}{where}")


def __dir__():
    return sorted({*__all__, *_PLACES, "__version__"})
