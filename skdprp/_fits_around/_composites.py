"""Composites that fit clones of their members: a fit that is refused leaves members of an earlier one."""

from contextlib import suppress
from uuid import uuid4

from ._frames import frames_of_fits, variables
from ._names import branches_of_columns, is_dropped, is_frozen


def note_release():
    """Note in what is fitted around a release what reports have to know of the fit that its members are of."""
    for frame in frames_of_fits():
        module, method = frame.f_globals.get("__name__"), frame.f_code.co_name
        with suppress(AttributeError):  # there are no labels, or no members, yet
            if module == "sklearn.multiclass" and method == "fit":
                (model,) = variables(frame, "self")
                labels = model.label_binarizer_
                labels._name_of_labels = model._fit_of_labels = getattr(labels, "_name_of_labels", uuid4().hex)
                _note_earlier(model.estimators_)
            if module == "sklearn.compose._column_transformer" and method == "fit_transform":
                (columns,) = variables(frame, "self")
                columns._width_of_fit = columns.n_features_in_
                columns._branches_of_fits = sorted({*_branches_of_fits(columns), *_branches_to_fit(columns)})
                _note_earlier([member for _, member, _ in columns.transformers_])


def _note_earlier(members):
    """Note that members are of an earlier fit than the one that goes on, if there are any."""
    for member in members:
        # Not "drop", nor what is frozen, of which a clone is the same object.
        if hasattr(type(member), "fit") and not is_frozen(member):
            member._is_of_earlier_fit = True


def _has_earlier(members):
    return any("_is_of_earlier_fit" in getattr(member, "__dict__", ()) for member in members)


def _branches_to_fit(columns):
    """Names of the branches of a ColumnTransformer that the fit that goes on gives some columns."""
    steps = {name: step for name, step, _ in columns.transformers} | {"remainder": columns.remainder}
    chosen = columns._transformer_to_input_indices
    return {name for name, step in steps.items() if not is_dropped(step) and len(chosen.get(name, ()))}


def has_lost_branches(columns):
    """Whether some branch of a ColumnTransformer had columns in an earlier fit and has none now, or is dropped."""
    return bool({*_branches_of_fits(columns)} - {name for name, _ in branches_of_columns(columns)})


def _branches_of_fits(columns):
    return getattr(columns, "_branches_of_fits", [])


def has_width_of_members(columns):
    """Whether a ColumnTransformer has as many columns as in the fit that its members are of, as far as was noted."""
    members = [member for _, member, _ in columns.transformers_]
    is_noted = getattr(columns, "_width_of_fit", None) == columns.n_features_in_
    return is_noted and not _has_earlier(members)


def has_labels_of_members(model):
    """Whether a OneVsRestClassifier has the labels to which it fitted its members, as far as that was noted.

    A fit that is refused leaves its labels beside the members of an earlier one. Workers note nothing.
    """
    noted = getattr(model, "_fit_of_labels", None)
    has_others = noted is not None and noted != getattr(model.label_binarizer_, "_name_of_labels", None)
    return not has_others and not _has_earlier(model.estimators_)
