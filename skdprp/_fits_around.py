"""Fits of scikit-learn inside of which an estimator is fitted: what reports need to know of them, and no result has."""

import multiprocessing
import sys
from dataclasses import dataclass
from uuid import uuid4

from sklearn import get_config

_MOST_FITS = 15  # that a search keeps besides the last: some may go on inside of another


def note_fits_around(estimator, *, is_seeded, of_a_fit):
    """Note in a search, and in an estimator that it fits, which fit of the search that was; so for OneVsRestClassifier.

    A winner that was fitted again, by hand or in another search, tells nothing of the folds of its search. `of_a_fit`
    is False for what is stated of an estimator between its fits; `is_seeded` says whether its noise had a seed.
    """
    fits = [(_fit_that_goes_on(search, known), known) for search, known in _searches_around()]
    for fit, _ in fits:
        fit.is_seeded |= is_seeded
    if not of_a_fit:
        return
    # A winner that asks for groups got them from the search, as the fits of the folds did, if metadata are routed.
    is_routed = get_config().get("enable_metadata_routing", False)
    estimator._routed_in = {fit.name: is_routed for fit, known in fits if "params" in known["results"]}
    if labels := _labels_of_one_vs_rest():
        estimator._labels_of_one_vs_rest = labels


def _labels_of_one_vs_rest():
    """Return a name for the labels of a OneVsRestClassifier that fits its members around this call, or None."""
    if multiprocessing.parent_process() is not None:  # a fork has a copy of it
        return None
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "fit" and frame.f_globals.get("__name__") == "sklearn.multiclass":
            labels = getattr(frame.f_locals["self"], "label_binarizer_", None)
            if labels is not None and not hasattr(labels, "_name_for_members"):
                labels._name_for_members = uuid4().hex
            return getattr(labels, "_name_for_members", None)
    return None


def has_its_labels(model, member):
    """Whether a OneVsRestClassifier has the labels by which it fitted a member, as far as that is known."""
    name = getattr(member, "_labels_of_one_vs_rest", None)
    return name is None or name == getattr(getattr(model, "label_binarizer_", None), "_name_for_members", None)


def _searches_around():
    """Yield the searches of scikit-learn that are fitted around this call, with the variables of that method."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if {"all_candidate_params", "results"} <= {*frame.f_code.co_cellvars}:  # a look at variables takes longer
            known = frame.f_locals
            if hasattr(known.get("self"), "_run_search"):
                yield known["self"], known


@dataclass
class FitOfSearch:
    """One fit of a search, by a name that the winner gets, too."""

    name: str
    candidates: list  # those of its results, an object that no other fit of the search has
    cv: object  # the splitter, which a later fit that is refused replaces in the search
    is_known: bool  # whether that was the splitter of the folds
    is_seeded: bool = False


def _fit_that_goes_on(search, known):
    """Return the fit of a search that goes on, which the search keeps."""
    fits, candidates = vars(search).setdefault("_fits_of_search", []), known["all_candidate_params"]
    fit = next((one for one in fits if one.candidates is candidates), None)
    if fit is None:
        cv = getattr(search, "_checked_cv_orig", known.get("cv_orig"))
        # If folds were fitted elsewhere, a function that chooses the winner may have fitted the search in between.
        is_known = "params" not in known["results"] or not callable(search.refit)
        fit = FitOfSearch(uuid4().hex, candidates, cv, is_known)
        search._fits_of_search = [*fits[-_MOST_FITS:], fit]
    return fit


def fit_of(search):
    """Return the fit that the results of a search are of, or None if nothing private of this library was fitted."""
    fits, candidates = vars(search).get("_fits_of_search", ()), search.cv_results_["params"]
    return next((fit for fit in fits if fit.candidates is candidates), None)


def routed_in(search, estimator):
    """Whether a search routed metadata to an estimator as it fitted its winner, None if that was not its last fit."""
    fit = fit_of(search)
    return None if fit is None or not fit.is_known else getattr(estimator, "_routed_in", {}).get(fit.name)
