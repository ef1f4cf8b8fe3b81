"""The contract of private estimators, as checks for yours and ours, and seeded noise for tests.

They call an estimator in a fixed set of ways and find faults that show there; passing them proves nothing. Each check
fails an estimator of the test suite that is broken in one way. What can be said for certain is asserted as it is; where
noise decides, an estimator that keeps its guarantee fails a check less than once in 10^9 runs, except the kinds that
the notes name.
"""

import warnings
from functools import partial

from .._noise import reproducible_noise
from . import _audits, _freshness, _guarantees, _leaks, _refusals, _storage
from ._case import Case

__all__ = [
    "check_private_estimator",
    "parametrize_with_private_checks",
    "reproducible_noise",
]

_MODULES = (_refusals, _guarantees, _freshness, _leaks, _storage, _audits)
_CHECKS = {check.__name__[1:]: check for module in _MODULES for check in module.CHECKS}


def check_private_estimator(estimator, X=None, y=None, *, neighbours=None, weakened=None, audit_options=None):
    """Look for faults of a private estimator, on a fixed set of tables and calls.

    Passing proves nothing: see the notes, which say what is done.

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
        :func:`~skdprp.worst_neighbours` knows, or else some that the guarantee's adjacency names, as far as such rows
        are accepted. Rows at a distance are as far apart as it says, in the column of the largest number alone (for an
        l2 distance also in all columns at once), on either side of zero, and at zero. Otherwise one row is another row
        of the table, or zero if rows are added and removed; where noise is not drawn by this library, it is also one
        far beyond all others.
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
    **Passing proves nothing.** The checks call the estimator in a fixed set of ways on a fixed set of tables, and
    compare what happens. They find a fault only if it shows there: one that needs another table, method, option or
    number of rows passes, and so does one that they do not look for. The proof of a guarantee is yours.

    The tables are the rows `X`, and tables made of them: in another order; nearly all rows alike; one row empty and one
    2^20 (or else 2^10) times as long; all larger; a column of zeros; the signs of all numbers; all positive; all
    negative; only zeros and ones; whole numbers. Targets are also rounded, of one sign, and with one that is far off;
    labels also of one class, and with one that no other row has. Each check takes some of these tables, and leaves out
    those that are refused:

    - **Refusals.** `fit` with an epsilon of 0, -1 and nan, and a delta below 0, above 1 and nan; rows with one nan or
      inf. For sixteen kinds of faulty rows and labels: do errors of fit, transform and predict say the same of two
      tables with the same fault, and does a failed fit leave what was released before?
    - **Parameters.** Each number as float64, float32, float16, int64 or int8, and 255 as uint8: same guarantee and same
      noise? Numbers that `set_params` changes after the fit, also in lists, tuples, dictionaries and arrays: same
      guarantee and, of a release by transform, the same release?
    - **The guarantee.** Does it have its facts, a profile that decreases, and a copy by JSON and pickle? Do the report
      of a fit, of two side by side, of a pipeline and of a search, and an open ledger, charge the fit and the
      transform? Do predict and score of what releases at its fit draw no noise, and predict and transform the same
      again? Does `fit_transform` add this library's noise to the numbers that fit and transform add it to?
    - **Noise.** Is it new in each call, copy, pickle, thread, fork and fold, and under equal seeds of numpy, of Python,
      of `random_state` and of parameters named seed? Outputs are compared as a whole: if only a part repeats, it
      passes. Do rows, columns and classes get different noise, also with ``n_jobs=2``? Do no two of 600 rows share
      noise? Are 10,000 equal rows released as different numbers (not asked if bits are released)? Does every number
      that transform and `fit_transform` release vary? If :func:`~skdprp.testing.reproducible_noise` seeds the noise, is
      the guarantee marked as seeded?
    - **What is kept and said.** Attributes of the fitted object, what a pickle of it has, its repr, its report, and the
      warnings, prints and logs of fit, transform and predict, in the thread that calls: are they the same where rows,
      or the weight or group of one row, are others and all released numbers are replayed from a first fit? Do they have
      a number of the rows, or a sum of equal rows, with all digits? Does the pickle have names of an index or of
      groups? Do warnings point at the line that calls?
    - **Rows.** Are they left as they are given? Is the same released of them as arrays of several orders, lists, frames
      (also with unsorted and repeated names), CSR of several forms, float32 and, of whole numbers, uint8, int8 and
      float16? Is the release of a row the same alone, first, last, beside larger and empty ones and, if this library
      draws the noise, as the first of 10,000? Do all numbers follow this library's noise, in each of these forms and
      of 1, 2 and 10,000 rows? Has what transform returns no index?
    - **Sensitivity.** If all that was released so far is the same for two tables, does the next noise have the same
      scale for both, and is it added to as many numbers? For estimators of other packages, two neighbours are compared:
      one of them has another row, target or label, which may be empty or far off at any place of the table, or have a
      large `sample_weight`, or which moves the median, or the mean past nearly all rows. Take all values to which
      Gaussian or Laplace noise is added before any noise of another kind is drawn: do they, together, differ between
      the neighbours by no more than all this noise together hides?
    - **Audits** of one or a few pairs of neighbours: `neighbours`, or those described there.

    The replays, scales and moves are compared where all noise is drawn by this library. For other noise, only what
    comes out of several calls is compared, and neither its scale nor its sensitivity. For bits, nothing is replayed.

    **What is sound, and may fail.** The checks are made for estimators that add noise to all that they release, and
    that hide a row with its label. Others may keep their guarantee and fail a check:

    - Releases that hardly vary, such as choices among candidates, or numbers that are 0 below a threshold. Equal
      releases are taken for repeated noise, or for no noise: choose rows and an epsilon with which releases vary. If
      epsilon is above 6 (or 3, where rows are added or removed), what is the same in 64 fits is taken to have no noise.
    - Estimators that add noise to more numbers than they release, if the proof of their guarantee needs the rest to
      stay hidden. For instance, they add noise to counts, and release only the largest of them, or only the sum.
    - Secret samples of the rows: no replay repeats them.
    - Noise whose scale depends on the rows, as with smooth sensitivity; and noise added to more or to fewer values,
      depending on the rows, as when only cells that have rows are counted.
    - Guarantees for other units, such as one label. And guarantees whose `given` says that neighbours have more in
      common than the set of labels that occur. The checks change all of a row and its label.

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
        error, reason = None, "has no PrivacyGuarantee in guarantee_ after fit."
        try:
            reason = check(case) if case.has_guarantee else reason
        except Exception as raised:
            error, reason = (
                raised,
                f"raises {raised!r} in this check: accept its rows, or pass other X, y or neighbours.",
            )
    if reason:
        raise AssertionError(f"{name}: {type(case.estimator).__name__} {reason}") from error
