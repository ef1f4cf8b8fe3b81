"""Private models in files: what they learnt, what holds of it, and all that predictions need."""

from dataclasses import dataclass
from itertools import count

import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._calibration import SET_LATER, is_as_stated
from .._errors import warn_at_caller
from ..guarantee import PrivacyWarning
from ..report import privacy_report
from ..report._structure import all_held, all_steps, branches, guarantee_shown, has_guarantee, won_otherwise
from ..report._walk import KEEP_LABELS, WON_OTHERWISE, given_the_labels
from ._file import check_description, read, write
from ._values import described, restored


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A private model that was read from a file.

    Parameters
    ----------
    guarantees : dict of str to PrivacyGuarantee
        The guarantee of each of its private steps, by their paths; "" is the model itself. If two have the same path,
        one is "path (2)".
    description : str
        Description by the person who saved it; nothing checks that.
    version : str
        The skdprp that wrote the file.
    estimator : estimator
        The fitted model, or the Pipeline that ends in one: it predicts as it did when it was saved.
    """

    guarantees: dict
    description: str
    version: str
    estimator: BaseEstimator


def save_model(path, estimator, *, description=""):
    """Write a fitted private model, or a Pipeline that ends in one, to one file without pickles.

    Parameters
    ----------
    path : str or Path
        The file, by custom with the suffix .npz; replaced when the new one is complete.
    estimator : estimator
        A fitted private model or transformer of this package, or a Pipeline, ColumnTransformer or other composite of
        them and of scalers and encoders of scikit-learn.
    description : str, default=""
        Public words for the recipient, up to 10,000 characters: what a row is, what is predicted, whom to ask. No
        guarantee covers them: write nothing that was read off the rows.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    OSError
        If the file cannot be written; an older one stands as it was.
    TypeError
        If the estimator holds what no file has room for, such as a function, or a step of another library.
    ValueError
        If none of its steps is private, the guarantee of one was set after the fit, the winner that a search holds was
        fitted again, or `description` is no such string.

    Warns
    -----
    PrivacyWarning
        If no guarantee covers all that the file will hold, as where a step learnt from the rows without noise.

    See Also
    --------
    load_model : Reads it back.
    save_release : Sketches, and what queries need to compare with them.

    Notes
    -----
    The file holds parameters and fitted attributes as JSON and arrays, the guarantee of each private step, and the
    version. What steps without privacy learnt, as a StandardScaler, is in it as it is in the estimator, and no
    guarantee covers it: see :func:`~skdprp.privacy_report`. If a parameter is an estimator of which the fit made
    clones, as the `estimator` of an ensemble, what it had learnt before is left out. Callbacks are left out, too. A
    private transformer that stands in two pipelines was fitted for each, and both files state its last fit alone: give
    each pipeline a clone.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from skdprp import AMPClassifier, load_model, save_model
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(Normalizer(), AMPClassifier(epsilon=2.0, delta=1e-6, classes=[0, 1])).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder, "tumours.npz"), model, description="malignant is 0")
    ...     saved = load_model(Path(folder, "tumours.npz"))
    >>> saved.guarantees
    {'ampclassifier': (2.0, 1e-06)-DP, one row replaced}
    >>> bool((saved.estimator.predict(X) == model.predict(X)).all())
    True
    """
    check_is_fitted(estimator)
    check_description(description)
    if not _guarantees_of(estimator):
        raise ValueError(f"{type(estimator).__name__} holds no private model or transformer of this package.")
    arrays, released = {}, {}
    # Paths of the steps that one search released, which reports count once: their guarantees are one object.
    for place, step in all_steps(estimator):
        if has_guarantee(step):
            released.setdefault(id(getattr(step, "_stated_guarantee", step)), []).append(place)
    facts = {
        "model": described(estimator, arrays),
        "released together": [places for places in released.values() if len(places) > 1],
        "scikit-learn": sklearn.__version__,
        "description": description,
    }
    if not_covered := privacy_report(estimator).not_covered:
        reasons = "; ".join(not_covered)
        warn_at_caller(f"No guarantee covers all that this file holds, as {reasons}.", PrivacyWarning)
    write(path, facts, arrays)


def load_model(path):
    """Read a private model back, and refuse a file that is damaged or holds anything else.

    Parameters
    ----------
    path : str or Path
        A file written by :func:`save_model`.

    Returns
    -------
    SavedModel

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    ValueError
        If the file holds no model, is of an unknown format, was damaged, or its parts do not fit each other.

    Notes
    -----
    Nothing is unpickled, and no class is made but estimators of this package and a few of scikit-learn. The checksum
    finds damage, not forgery: anybody who can write the file can write another model, guarantee and checksum.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdprp import DPRidge, load_model, save_model
    >>> model = DPRidge(target_bounds=(0, 1)).fit([[0.5, 0.5], [0.5, -0.5]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder, "line.npz"), model)
    ...     saved = load_model(Path(folder, "line.npz"))
    >>> bool((saved.estimator.coef_ == model.coef_).all()), saved.estimator.guarantee_ == model.guarantee_
    (True, True)
    """
    return read(path, "load_model", None, _rebuild)


def _guarantees_of(estimator):
    """Guarantees of all that is private in a file, by their paths; refuse those that were set after the fit."""
    held, private = list(all_held(estimator, "", seen=set())), {}
    for path, step in held:
        if not has_guarantee(step):
            continue
        if not is_as_stated(step):
            raise ValueError(f"{path or type(step).__name__}: {SET_LATER}.")
        if won_otherwise(step):
            raise ValueError(f"{path or type(step).__name__} {WON_OTHERWISE}.")
        # What was fitted has the path of the parameter that it is a clone of, which may have been fitted before.
        paths = (f"{path} ({number})" if number > 1 else path for number in count(1))
        private[next(one for one in paths if one not in private)] = step
    guarantees = {path: guarantee_shown(step) for path, step in private.items()}
    for _, ensemble in held:  # what is within comes first, as in a report
        if isinstance(ensemble, KEEP_LABELS):
            members = {id(one) for _, member in branches(ensemble) for _, one in all_held(member, "", seen=set())}
            for path in [path for path, step in private.items() if id(step) in members]:
                guarantees[path] = given_the_labels(guarantees[path], ensemble)
    return guarantees


def _rebuild(facts, **arrays):
    if "model" not in facts:
        raise ValueError("it holds no model.")
    estimator = restored(facts["model"], arrays)
    if arrays:
        raise ValueError("some arrays belong to no part of the model.")
    check_is_fitted(estimator)
    if not (guarantees := _guarantees_of(estimator)):
        raise ValueError("it holds no private model.")
    steps = dict(all_steps(estimator))
    for first, *others in facts["released together"]:
        for path in others:
            if steps[path]._stated_guarantee != steps[first]._stated_guarantee:
                raise ValueError("what was released together has one guarantee.")
            steps[path]._stated_guarantee = steps[first]._stated_guarantee  # audits have marked each by itself
    if not isinstance(facts["scikit-learn"], str):
        raise TypeError("the version of scikit-learn is no text.")
    foreign = [type(step) for _, step in all_steps(estimator) if type(step).__module__.startswith("sklearn.")]
    if foreign and facts["scikit-learn"] != sklearn.__version__:
        warn_at_caller(
            f"{foreign[0].__name__} was saved by scikit-learn {facts['scikit-learn']}, and this is "
            f"{sklearn.__version__}: compare a few predictions with those of before.",
            UserWarning,
        )
    return SavedModel(guarantees, facts["description"], facts["version"], estimator)
