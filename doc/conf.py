"""Sphinx configuration."""

import skdprp

project = "skdprp"
author = "The skdprp developers"
copyright = "2026, The skdprp developers"
version = release = skdprp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": False}
numpydoc_show_class_members = False
# Methods inherited from scikit-learn refer to labels and terms of its own site.
suppress_warnings = ["ref.ref", "ref.term"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_show_sourcelink = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "ignore_pattern": "^_",  # what examples share is no example
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
}
