"""Fits of searches, which tell of their folds and of their winner."""

import weakref
from dataclasses import dataclass
from uuid import uuid4

from sklearn import get_config

from ._frames import frames_around


@dataclass
class FitOfSearch:
    """One fit of a search, by a name that the winner gets, too."""

    name: str
    candidates: list  # those of its results, an object that no other fit of the search has
    cv: object  # the splitter, which a later fit that is refused replaces in the search
    is_known: bool  # whether that was the splitter of the folds
    is_seeded: bool = False


class _Fits(list):
    """Fits of a search. Pickles have the one that its results are of: others may be of other rows."""

    def __init__(self, search, fits):
        super().__init__(fits)
        self._search = weakref.ref(search)

    def __reduce__(self):
        search = self._search()
        fit = fit_of(search) if hasattr(search, "cv_results_") else None
        return list, ([] if fit is None else [fit],)


def note_fit(estimator, *, is_seeded, of_a_fit):
    """Note what a fit is a part of.

    Each search around it gets to know its fit, and so does the estimator: a winner that was fitted again, by hand or in
    another search, tells nothing of the folds of its search. `of_a_fit` is False for what is stated of an estimator
    between its fits; `is_seeded` says whether its noise had a seed.
    """
    around = list(_searches_around())
    fits = [(_fit_that_goes_on(search, known, around), known) for search, known in around]
    for fit, _ in fits:
        fit.is_seeded |= is_seeded
    if of_a_fit:
        # A winner that asks for groups got them from the search, as the fits of the folds did, if metadata are routed.
        is_routed = get_config().get("enable_metadata_routing", False)
        estimator._routed_in = {fit.name: is_routed for fit, known in fits if "params" in known["results"]}


def _searches_around():
    """Yield the searches of scikit-learn that are fitted around this call, with the variables of that method."""
    for frame in frames_around():
        shared = frame.f_code.co_cellvars
        if "all_candidate_params" in shared and "results" in shared:  # a look at variables takes longer
            known = frame.f_locals
            if hasattr(known.get("self"), "_run_search"):
                yield known["self"], known


def _fit_that_goes_on(search, known, around):
    """Return the fit of a search that goes on, which the search keeps until another one that is not inside of it."""
    fits, candidates = vars(search).get("_fits_of_search", ()), known["all_candidate_params"]
    fit = next((one for one in fits if one.candidates is candidates), None)
    if fit is None:
        cv = getattr(search, "_checked_cv_orig", known.get("cv_orig"))
        # If folds were fitted elsewhere, a function that chooses the winner may have fitted the search in between.
        is_known = "params" not in known["results"] or not callable(search.refit)
        fit = FitOfSearch(uuid4().hex, candidates, cv, is_known)
        kept = [known["all_candidate_params"] for _, known in around]
        kept += [search.cv_results_["params"]] if hasattr(search, "cv_results_") else []
        still = [one for one in fits if any(one.candidates is other for other in kept)]
        search._fits_of_search = _Fits(search, [*still, fit])
    return fit


def fit_of(search):
    """Return the fit that the results of a search are of, or None if nothing private of this library was fitted."""
    fits, candidates = vars(search).get("_fits_of_search", ()), search.cv_results_["params"]
    return next((fit for fit in fits if fit.candidates is candidates), None)


def routed_in(search, estimator):
    """Whether a search routed metadata to an estimator as it fitted its winner, None if that was not its last fit."""
    fit = fit_of(search)
    return None if fit is None or not fit.is_known else getattr(estimator, "_routed_in", {}).get(fit.name)
