"""Membership inference against one fitted classifier."""

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from ._trials import copied, labelled


def membership_inference_auc(classifier, members, non_members):
    """Measure how well a classifier's confidence tells the rows it was trained on from others.

    The attacker knows the label of a row and asks the classifier about it: the more confident it is of the true label,
    the more it looks like a row of the training data.

    Parameters
    ----------
    classifier : estimator
        A fitted scikit-learn classifier with `predict_proba` or `decision_function`; it need not be private.
    members : tuple of array-like of shape (n_members, n_features) and (n_members,)
        Rows X and labels y that it was fitted on.
    non_members : tuple of array-like of shape (n_others, n_features) and (n_others,)
        Rows and labels of the same source that it was not fitted on.

    Returns
    -------
    float
        Area under the curve of the attack, or 0.5 if it is worse than a coin ("tailored AUC"): an attacker who knows no
        better tosses one. 1 means that every member is told from every other row.

    Raises
    ------
    TypeError
        If `members` or `non_members` is no tuple (X, y).
    ValueError
        If this is no classifier with one of these methods, or a label is not one of its classes.

    See Also
    --------
    audit_epsilon : Bounds epsilon itself, from many fits.

    Notes
    -----
    Under (epsilon, delta)-DP for one row, an attack on one row has at each false-alarm rate q a power of at most
    ``exp(epsilon) q + delta``. A value near 0.5 proves no such thing: this is one weak attack on one fit.

    References
    ----------
    .. [1] R. Shokri, M. Stronati, C. Song and V. Shmatikov, "Membership Inference Attacks Against Machine Learning
       Models", S&P 2017.
    .. [2] S. Yeom, I. Giacomelli, M. Fredrikson and S. Jha, "Privacy Risk in Machine Learning: Analyzing the Connection
       to Overfitting", CSF 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skdprp.audit import membership_inference_auc
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 5)), rng.integers(2, size=400)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    >>> bool(membership_inference_auc(tree, (X[:200], y[:200]), (X[200:], y[200:])) > 0.7)
    True
    """
    check_is_fitted(classifier)
    inside, outside = (_confidence(classifier, *labelled(data)) for data in (members, non_members))
    is_member = np.repeat([1, 0], [len(inside), len(outside)])
    return max(float(roc_auc_score(is_member, np.concatenate([inside, outside]))), 0.5)


def _confidence(classifier, X, y):
    """How sure the classifier is of the true label of each row."""
    has_scores = hasattr(classifier, "predict_proba") or hasattr(classifier, "decision_function")
    if not has_scores or not hasattr(classifier, "classes_"):
        raise ValueError("A classifier with predict_proba or decision_function is needed.")
    X, y = copied(X), column_or_1d(y)
    check_consistent_length(X, y)
    # Labels above all classes would point beside them, and are found out in the next line.
    codes = np.searchsorted(classifier.classes_, y).clip(max=len(classifier.classes_) - 1)
    if not np.array_equal(classifier.classes_[codes], y):
        raise ValueError("There are labels that the classifier does not know.")
    if hasattr(classifier, "predict_proba"):
        return np.take_along_axis(classifier.predict_proba(X), codes[:, None], axis=1).ravel()
    scores = classifier.decision_function(X)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    # By how much the score of the true label exceeds the best of the others.
    true = np.take_along_axis(scores, codes[:, None], axis=1).ravel()
    others = scores.copy()
    np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
    return true - others.max(axis=1)
