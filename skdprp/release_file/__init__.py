"""Releases in files: sketches with their guarantee and what queries need, moments, and histograms of a table."""

from ._histograms import load_histograms, save_histograms
from ._moments import load_moments, save_moments
from ._sketches import Release, load_release, save_release

__all__ = [
    "Release",
    "load_histograms",
    "load_moments",
    "load_release",
    "save_histograms",
    "save_moments",
    "save_release",
]
