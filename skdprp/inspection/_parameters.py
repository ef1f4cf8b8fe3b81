"""Which parameters of an estimator set a privacy loss, who owns them, and the same estimator without privacy."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

_NEARLY_NO_NOISE = 100.0  # an epsilon: what makes columns of texts cannot be left out


def private_parameters(estimator):
    """Names of parameters that set a privacy loss; an `epsilon` of scikit-learn's own estimators is another."""
    parameters = estimator.get_params(deep=True)
    names = [name for name in parameters if name.rpartition("__")[2] == "epsilon"]
    # Epsilon of an SVR is the width of a tube.
    private = [name for name in names if not type(owner_of(estimator, name)).__module__.startswith("sklearn.")]
    # What a private search holds gets its budget from there.
    paths = [name.removesuffix("epsilon") for name in private]
    return [name for name in private if sum(name.startswith(path) for path in paths) == 1]


def holders_of(estimator, name):
    """List what holds the estimator whose parameter `name` is, the outermost first."""
    parameters, path = estimator.get_params(deep=True), name.split("__")[:-1]
    return [estimator, *(parameters["__".join(path[:end])] for end in range(1, len(path)))][: len(path)]


def check_is_not_searched(estimator, name):
    """Refuse a parameter that a search on the way to it sets, at whatever it is varied to."""
    parts = name.split("__")
    for depth, holder in enumerate(holders_of(estimator, name), start=1):
        if hasattr(holder, "_calibrate_for"):
            raise ValueError(f"{name} is a ratio of what a private search sets: vary the epsilon of the search.")
        grids = getattr(holder, "param_grid", None) or getattr(holder, "param_distributions", None) or {}
        searched = set().union(*([grids] if isinstance(grids, Mapping) else grids))
        varied = "__".join(parts[depth:])
        if any(varied == other or varied.startswith(f"{other}__") for other in searched):  # it, or a step that holds it
            raise ValueError(f"{name} is one that a search sets: vary another, or leave it out of the grid.")


def only(names, complaint):
    """Return the only one of some names, or complain of none or several."""
    if len(names) == 1:
        return names[0]
    found = f"several steps ({', '.join(names)})" if names else "no step"
    raise ValueError(f"{complaint.format(found)}: name the one to vary by param_name.")


def owner_of(estimator, name):
    """Return the estimator whose parameter `name` is, inside of another or itself."""
    path = name.rpartition("__")[0]
    return estimator.get_params(deep=True)[path] if path else estimator


def without_privacy(estimator, names):
    """Leave a private transformer out; put scikit-learn's linear model in the place of a private one.

    Of several private steps, transformers stay, with next to no noise: others may need what they make of texts.
    """
    if len(names) > 1:
        for name in names:
            owner = owner_of(estimator, name)
            is_model = is_classifier(owner) or is_regressor(owner)
            estimator = (
                without_privacy(estimator, [name])
                if is_model
                else clone(estimator).set_params(**{name: _NEARLY_NO_NOISE})
            )
        return estimator
    owner, path = owner_of(estimator, names[0]), names[0].rpartition("__")[0]
    model = FunctionTransformer(feature_names_out="one-to-one")  # an estimator of the user may take no "passthrough"
    if is_classifier(owner):
        # Scaled, or the solver of scikit-learn would not come to its end on columns of any unit.
        model = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000))
    elif is_regressor(owner):
        model = LinearRegression()
    return clone(estimator).set_params(**{path: model}) if path else model


def increasing(epsilons):
    """Return positive epsilons in ascending order, each once."""
    epsilons = np.unique(np.asarray(epsilons, dtype=np.float64))
    if epsilons.size == 0 or not (np.isfinite(epsilons).all() and epsilons[0] > 0):
        raise ValueError("epsilons must be positive finite numbers.")
    return epsilons
