"""Releases in files: sketches and what queries need, moments, histograms of a table, and private models."""

from ._histograms import load_histograms, save_histograms
from ._models import SavedModel, load_model, save_model
from ._moments import load_moments, save_moments
from ._sketches import Release, load_release, save_release

__all__ = [
    "Release",
    "SavedModel",
    "load_histograms",
    "load_model",
    "load_moments",
    "load_release",
    "save_histograms",
    "save_model",
    "save_moments",
    "save_release",
]
