"""Sphinx configuration."""

import subprocess
import sys
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

import skdprp

project = "skdprp"
author = "The skdprp developers"
copyright = "2026, The skdprp developers"
version = release = skdprp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated/unreleased.rst", "peers.md"]  # the last two are parts of pages
default_role = "literal"  # single backticks in docstrings name parameters
autosummary_generate = True
templates_path = ["_templates"]
# What a class has from its own package, down to the mixins of scikit-learn and the exceptions of Python.
_FOREIGN = (
    "ClassNamePrefixFeaturesOutMixin, ClassifierMixin, RegressorMixin, BaseEstimator, BaseException, "
    "StrEnum, ReprEnum, Enum, str, object"
)
_ROUTING = "get_metadata_routing, set_fit_request, set_score_request, set_predict_request, set_transform_request"
autodoc_default_options = {"members": True, "inherited-members": _FOREIGN, "exclude-members": _ROUTING}
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
# Every reference must resolve; the objects of other projects have their pages elsewhere, and the build is offline.
nitpicky = True
nitpick_ignore_regex = [
    (".*", r"(collections|sklearn|numpy|scipy|pandas|matplotlib|joblib)\..*"),
    ("py:(mod|class)", r"skdprp\.(\w+\.)?_.*"),  # private: named in passing, and in signatures
    ("py:class", r"skdprp\.moments\.PrivateMoments"),  # the base of what is documented
]
# Methods inherited from scikit-learn refer to labels and terms of its own site. The API names objects in full.
suppress_warnings = ["ref.ref", "ref.term", "autosummary.import_cycle"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
# What is copied can be pasted into a notebook: no prompts, no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_title = "skdprp"
html_favicon = "_static/icon.svg"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skdprp", "image_light": "_static/icon.svg", "image_dark": "_static/icon.svg", "alt_text": ""},
    "navigation_with_keys": False,
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}
_ALONE = (
    "architecture attacks choose cite coming_from faq get_started own_mechanism papers performance publish results "
    "review scale stories whats_new"
)
html_sidebars = {page: [] for page in _ALONE.split()}
# A first model first, then regression and sketches, what they cost, how it works inside, and attacks.
_LESSONS = """
    0_tour private_classifier table private_regression tuning_costs classification_on_sketches private_retrieval
    sparse_text text_messages three_sketches gaussian_calibrations perturbations midp_regression own_mechanism audit
    seed_attack individual_dp embedding_inversion
"""
_REPRODUCTIONS = sorted(path.name for path in Path(__file__).parents[1].glob("examples/reproductions/plot_*.py"))
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "ignore_pattern": "^_",  # what examples share is no example
    "within_subsection_order": ExplicitOrder([*(f"plot_{name}.py" for name in _LESSONS.split()), "*", *_REPRODUCTIONS]),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "image_srcset": ["2x"],  # sharp on screens of small pixels, and when one zooms on a phone
    "thumbnail_size": (600, 330),
    "write_computation_times": False,
    "show_signature": False,
    "ignore_repr_types": r"skdprp\.inspection|matplotlib",
    "doc_module": ("skdprp",),
    "backreferences_dir": "generated/backreferences",
    "reference_url": {"skdprp": None},
}


def write_unreleased_changes(app):
    """Collect the fragments of changelog.d, which the page on what's new includes."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", release, "--date", "not released"]
    root = Path(app.srcdir).parent
    notes = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    target = Path(app.srcdir, "generated", "unreleased.rst")
    target.parent.mkdir(exist_ok=True)
    target.write_text(notes)


def drop_references_to_scikit_learn(app, what, name, obj, options, lines):
    """Leave out the paragraph of an inherited docstring that names an example of scikit-learn, which is not here."""
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(text for text in paragraphs if ":ref:`sphx_glr_" not in text).split("\n")


def setup(app):
    """Register what is written before pages are read, and what is left out of them."""
    app.connect("builder-inited", write_unreleased_changes)
    app.connect("autodoc-process-docstring", drop_references_to_scikit_learn)
