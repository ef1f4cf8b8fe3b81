"""Fits of scikit-learn inside of which something is released: what reports need to know of them, and no result has."""

from ._composites import has_labels_of_members, has_lost_branches, has_width_of_members, note_release
from ._names import name_of_fit, names_of_fits, names_of_steps, private_among
from ._pipelines import NOBODY_KNOWS, fits_before, holds_fits_behind_others, known_notes, note_fits_before, was_behind
from ._searches import fit_of, note_fit, routed_in

__all__ = [
    "NOBODY_KNOWS",
    "fit_of",
    "fits_before",
    "has_labels_of_members",
    "has_lost_branches",
    "has_width_of_members",
    "holds_fits_behind_others",
    "known_notes",
    "name_of_fit",
    "names_of_fits",
    "names_of_steps",
    "note_fit",
    "note_fits_before",
    "note_release",
    "private_among",
    "routed_in",
    "was_behind",
]
