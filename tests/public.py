"""What lists of estimators are compared with: the public estimators, by what they are."""

import inspect

from sklearn.base import BaseEstimator

import skdprp
from skdprp.linear_model._base import PrivateClassifier
from skdprp.preprocessing._base import DataIndependentTransformer
from skdprp.sketch._base import BaseSketch

ESTIMATORS = {
    kind
    for kind in (getattr(skdprp, name) for name in skdprp.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
}
PRIVATE = {kind for kind in ESTIMATORS if "epsilon" in kind._parameter_constraints}
CLASSIFIERS = {kind for kind in PRIVATE if issubclass(kind, PrivateClassifier)}
SKETCHES = {kind for kind in PRIVATE if issubclass(kind, BaseSketch)}
DATA_INDEPENDENT = {kind for kind in ESTIMATORS if issubclass(kind, DataIndependentTransformer)}


def unlisted(kinds, listed):
    """Names of the classes of which none is in a list of classes, of estimators, or of tuples that begin with one."""
    firsts = [one[0] if isinstance(one, tuple) else one for one in listed]
    return sorted(kind.__name__ for kind in kinds - {one if inspect.isclass(one) else type(one) for one in firsts})
