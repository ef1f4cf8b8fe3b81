"""The contract of private estimators, as checks for yours and ours, and seeded noise for tests.

A check states a fact and can fail: each is caught out by an estimator of the test suite that is broken in one way. What
can be said for certain is asserted as it is; where noise decides, a check fails an estimator that keeps its guarantee
less than once in 10^9 runs.
"""

import warnings
from functools import partial

from .._noise import reproducible_noise
from . import _audits, _freshness, _guarantees, _knowledge, _refusals, _storage
from ._case import Case

__all__ = [
    "check_private_estimator",
    "parametrize_with_private_checks",
    "reproducible_noise",
]

_MODULES = (_refusals, _guarantees, _freshness, _knowledge, _storage, _audits)
_CHECKS = {check.__name__[1:]: check for module in _MODULES for check in module.CHECKS}


def check_private_estimator(estimator, X=None, y=None, *, neighbours=None, weakened=None, audit_options=None):
    """Check that an estimator keeps the contract of private estimators.

    Parameters
    ----------
    estimator : estimator
        Any estimator with `fit`, `transform` or `predict`, and a ``guarantee_`` after fit that says by its `per` at
        which of the calls noise is drawn. It need not be of this library. A moderate epsilon, of about 1, is best: the
        less noise there is, the less of it can be checked.
    X : array-like of shape (n_samples, n_features) or None, default=None
        Rows that it accepts, at least 8. None takes 40 rows of 6 numbers between -0.75 and 0.75.
    y : array-like of shape (n_samples,) or None, default=None
        Their labels or targets. None takes some for classifiers and regressors.
    neighbours : tuple (a, b) or None, default=None
        Two neighbours to audit on, as :func:`~skdprp.audit_epsilon` takes them. None takes those that
        :func:`~skdprp.worst_neighbours` knows, or else some that the guarantee's adjacency names: as far apart as it
        says, on either side of zero, and at zero, as far as such rows are accepted.
    weakened : estimator or None, default=None
        The same with too little noise, which the audit has to catch: it shows what the audit is worth.
    audit_options : dict or None, default=None
        Further arguments of :func:`~skdprp.audit_epsilon`, such as `n_trials` and `distinguishers`.

    Raises
    ------
    AssertionError
        If a check fails. The message names it and says what to do.

    See Also
    --------
    parametrize_with_private_checks : The same for pytest, one by one.

    Notes
    -----
    Passing is no proof of privacy: no test can see that a sensitivity was computed wrongly for a pair of neighbours
    that it does not try. What is checked:

    - parameters without a guarantee are refused, and so are rows that are not finite, under every configuration;
    - the guarantee states its facts, survives JSON and pickling, and does not depend on the type of a parameter;
    - a report charges what was released, and an open ledger has an entry of it;
    - no noise is shared between calls, copies, clones, threads, processes, folds, rows, columns and classes, and no
      seed but :func:`~skdprp.testing.reproducible_noise` repeats it, which is marked;
    - no attribute, pickle, text, error or warning tells of a row, not even of one that is empty or 2^20 times as long
      as others, where such rows are accepted; no pickle has names of people, of an index or of groups; no attribute has
      numbers of rows with all their digits, even if chance chose the rows; warnings point at the line that called;
    - a fit that fails releases nothing; no number among the parameters, set after the fit, changes the guarantee or,
      where each call of transform is a release, what is released;
    - rows, labels and groups are left as they are given;
    - what is released of rows does not depend on how they are stored; where each call of transform is a release, nor
      on other rows, much larger or empty, on their place or on the index of their table, and each row has its release;
    - the scale of the first noise does not depend on the rows, and no later one on more than what was released before;
    - of classes that are not of this library, the first numbers that noise is added to are no further apart, between
      two neighbours, than that noise hides, also where one has a row or a target 2^20 times as large;
    - an audit refutes nothing.

    For estimators whose noise is that of this library, what reaches the noise is compared itself; for others, audits
    look at what comes out, and the scale of noise is not checked.

    Examples
    --------
    >>> from skdprp import DPOPORP
    >>> from skdprp.testing import check_private_estimator
    >>> check_private_estimator(DPOPORP(4, delta=0.1))
    """
    options = {"neighbours": neighbours, "weakened": weakened, "audit_options": audit_options}
    for _, check in _private_checks(estimator, X, y, **options):
        check()


def _private_checks(estimator, X=None, y=None, *, neighbours=None, weakened=None, audit_options=None):
    """Yield the checks of :func:`check_private_estimator`, which takes the same: a name, and what raises without it."""
    case = Case(estimator, X, y, neighbours, weakened, audit_options or {})
    for name, check in _CHECKS.items():
        if name != "audit_catches_the_weakened" or weakened is not None:
            yield name, partial(_run, name, check, case)


def parametrize_with_private_checks(estimators):
    """Parametrise a test by all checks of some estimators: pytest shows each by its name.

    Parameters
    ----------
    estimators : list of estimator or of tuple (estimator, options)
        What to check; options are a dict of the other arguments of :func:`check_private_estimator`.

    Returns
    -------
    decorator
        For a test with the argument ``check``.

    Examples
    --------
    >>> from skdprp import DPOPORP
    >>> from skdprp.testing import parametrize_with_private_checks
    >>> @parametrize_with_private_checks([DPOPORP(4, delta=0.1)])
    ... def test_contract(check):
    ...     check()
    """
    import pytest

    cases = [case if isinstance(case, tuple) else (case, {}) for case in estimators]
    checks = [
        pytest.param(check, id=f"{estimator!r}-{name}")
        for estimator, options in cases
        for name, check in _private_checks(estimator, **options)
    ]
    return pytest.mark.parametrize("check", checks)


def _run(name, check, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = check(case) if case.has_guarantee else "has no PrivacyGuarantee in guarantee_ after fit."
    if reason:
        raise AssertionError(f"{name}: {type(case.estimator).__name__} {reason}")
