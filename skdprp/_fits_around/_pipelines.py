"""What an estimator is fitted behind: steps of pipelines, by their names."""

from contextlib import suppress

from ._frames import frames_of_fits, variables
from ._names import estimators_within, names_of_steps

NOBODY_KNOWS = "?"  # in the place of names, what an estimator is fitted behind in a worker
_FITS = ("fit", "fit_predict", "fit_transform")


def note_fits_before():
    """Note of each object of a class of the user within whose fit something is released what it is fitted behind.

    Private estimators of this library do that themselves, as their fits begin. Composites of several consist of others,
    of which a refused fit leaves some as they were.
    """
    fits, is_whole = _fits_around()
    for i, (fitted, _) in enumerate(fits):
        if _is_of_users(fitted) or type(fitted).__name__ == "FixedThresholdClassifier":
            with suppress(Exception):  # it may refuse that, and nothing may fail beside a release
                fitted._fitted_behind = _behind(fits[i:], is_whole=is_whole)


def _is_of_users(fitted):
    is_of_sklearn = type(fitted).__module__.startswith("sklearn.")
    return not is_of_sklearn and not any(one.__module__.startswith("skdprp.") for one in type(fitted).__mro__)


def fits_before():
    """Names of the steps before the one whose fit begins, in all pipelines of scikit-learn around it."""
    fits, is_whole = _fits_around()
    return _behind(fits, is_whole=is_whole)


def _behind(fits, *, is_whole):
    return " ".join(name for _, names in reversed(fits) for name in names) if is_whole else NOBODY_KNOWS


def was_behind(estimator):
    """Names of the steps that an estimator was last fitted behind, or None if it notes none."""
    noted = getattr(estimator, "__dict__", {}).get("_fitted_behind")  # as some pass on what others have
    return None if noted is None else str(noted).split()


def holds_fits_behind_others(estimator, names):
    """Whether something within an estimator is known to have been fitted behind other steps than these in a row."""
    notes = known_notes(estimators_within([estimator], is_frozen_too=False))
    return not all(any(note[i : i + len(names)] == names for i in range(len(note) + 1)) for note in notes)


def known_notes(estimators):
    """List the names of the steps that each of some estimators was last fitted behind, where it is known."""
    return [note for note in map(was_behind, estimators) if note not in (None, [NOBODY_KNOWS])]


def _fits_around():
    """List what is fitted around this, from within, each with the names of the steps before it in a pipeline.

    And say whether that is all: around a call that a composite has a worker make, the composite is not. Nor is anything
    around `fit_chunks`, for which there is no pipeline.
    """
    fits, before_last, has_chunks, is_whole = [], [], False, True
    for frame in frames_of_fits():
        module, method = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        called = f"{module}.{frame.f_code.co_qualname}"
        has_chunks |= module.startswith("skdprp.") and method == "fit_chunks"
        if called == "sklearn.utils.parallel._FuncWrapper.__call__":
            is_whole = False
        elif called == "joblib.parallel.Parallel.__call__":  # which has the call made here, and not elsewhere
            is_whole = True
        elif module == "sklearn.pipeline" and method in (*_FITS, "_fit"):
            pipeline, place = variables(frame, "self", "step_idx")
            if not hasattr(pipeline, "steps"):  # but is a FeatureUnion
                continue
            if method == "_fit":  # all steps but the last, for another of these methods
                before_last.append(pipeline)
            elif not any(pipeline is other for other in before_last):
                place = len(pipeline.steps) - 1
            if place is not None:
                *before, fitted = (step for _, step in pipeline.steps[: place + 1])
                fits.append((fitted, names_of_steps(before)))
        elif module.startswith("sklearn.") and method.startswith("_fit_"):  # a function that fits one member
            estimator, transformer = variables(frame, "estimator", "transformer")
            if (fitted := transformer if estimator is None else estimator) is not None:
                fits.append((fitted, []))
        elif method in _FITS and frame.f_code.co_argcount:  # by hand, or of a winner
            (fitted,) = variables(frame, frame.f_code.co_varnames[0])
            if hasattr(type(fitted), method) and _is_of_users(fitted):
                fits.append((fitted, []))
    return fits, is_whole and not has_chunks
