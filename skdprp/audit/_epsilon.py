"""audit_epsilon: choose an attack on some outputs, count its successes on others, bound epsilon."""

from collections.abc import Mapping
from numbers import Integral

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from .. import _noise
from ._distinguishers import BATTERY, battery
from ._result import AuditResult, clopper_pearson, epsilon_bound
from ._trials import join, trials_of

_CHUNKS = 32  # of the trials: enough for any number of jobs, and few enough to be worth their start
_TIE = 1e-9  # less than any bound that counts
_TRIED_ALONE = 4  # outputs, whose scores must be what they are among others
_TAIL = np.geomspace(1e-6, 0.5, 60)
_QUANTILES = np.unique(np.concatenate([np.linspace(0, 1, 201), _TAIL, 1 - _TAIL]))


def audit_epsilon(
    release,
    a,
    b,
    *,
    delta=None,
    confidence=0.99,
    n_trials=2000,
    distinguishers="auto",
    log_ratio=None,
    output=None,
    rows_are_trials=None,
    n_jobs=None,
    verbose=0,
):
    """Bound the epsilon of a release from below, by attacking it on two neighbouring data sets.

    Outputs of `a` and of `b` are drawn. On some of them a battery of distinguishers learns to tell the two apart, and
    the one that proves most is kept, with a threshold. On the others its hits and false alarms are counted, which
    bounds the probabilities of one event under `a` and under `b`, and so epsilon.

    Parameters
    ----------
    release : callable or estimator
        A function from a data set to numbers, or to arrays or lists of them, with fresh noise at each call, and calls
        that do not depend on each other. Or an estimator: sketches are fitted once, on `a`, unless they already are,
        and each trial is a call of `transform`. Any other estimator is cloned (pipelines without their `memory`) and
        fitted at each trial. Its weights (`coef_`) are taken as what it releases or, if it has none, the transformed
        data. Without weights, `output` is needed if there is no `transform`, or if the estimator or one of its steps
        has a guarantee for a fit. Clones copy a random generator or a seed that an estimator holds: if its noise comes
        from there, all trials have one noise, and the bound is wrong. Give a function instead. Generators of Python and
        numpy are refused among the parameters, at any depth; they are accepted only as ``random_state`` of this library
        and scikit-learn. Seeds, and generators of other packages, go unnoticed, and so do fits cached by anything but
        the `memory` of a pipeline.
    a, b : object
        Two neighbours: arrays, sparse matrices or what else `release` takes; for estimators with labels tuples (X, y).
        :func:`worst_neighbours` proposes some. Take rows that are public or made up: each trial is a release of them.
        With ``adjacency="add_remove"``, `b` may lack one row of `a`, which stands for a blank: classifiers, moments
        (ridge, components) and histograms (bins, scales) of this library are planned for the number of rows of `a`.
    delta : float or None, default=None
        Delta at which epsilon is bounded. None takes that of the guarantee of an estimator, and is 0 for
        functions.
    confidence : float, default=0.99
        Probability with which the bound holds.
    n_trials : int, default=2000
        Number of outputs drawn from each of `a` and `b`. No audit proves more than about ``log(n_trials / 10)``, which
        is 5.3 for 2000 trials.
    distinguishers : "auto", list of str, or dict of str to callable, default="auto"
        The attacks to choose from: all that apply; some of them by name; or your own scores, functions from outputs, an
        array of shape (n, n_values), to n numbers, larger for what looks more like an output of `b`. Each number
        depends on its own output only.
    log_ratio : callable or None, default=None
        Logarithm of the likelihood ratio of `b` to `a`, a score as above, where it is known: it joins the battery as
        "likelihood". Known by default for sketches with Gaussian or Laplace noise.
    output : callable or None, default=None
        What of a fitted estimator is released, or what of the transformed data is kept: of the sketch of a single row,
        a table with this one row. None is all of it.
    rows_are_trials : bool or None, default=None
        Whether `a` and `b` are single rows of which `release` takes many copies in one call, each row of the result
        being a trial of its own: then no two rows of one call may share noise. None does so for single rows and the
        sketches of this library, and not for a class that derives from one.
    n_jobs : int or None, default=None
        Number of joblib jobs. Functions run in threads, because copies of a random generator in several processes would
        draw the same noise. With seeded noise (:func:`~skdprp.testing.reproducible_noise`), which works in one thread
        only, `n_jobs` is ignored.
    verbose : int, default=0
        Progress messages of joblib.

    Returns
    -------
    AuditResult
        The bound, and the counts it rests on.

    Raises
    ------
    ValueError
        If there are fewer than 8 trials, the confidence is not in (0, 1), delta is not in [0, 1), a distinguisher is
        unknown or does not return one number for each output, by this output alone, outputs are not finite numbers of
        one shape, or an estimator is given data sets of different widths. If one whose fits cannot be planned for the
        number of rows of `a`, as a pipeline, is given different numbers of rows.
    TypeError
        If `release` can neither be called nor fitted, or it is not known what of it is released; or if `a` or `b` have
        labels and should not, or should and do not.

    See Also
    --------
    worst_neighbours : Proposes the two data sets.
    membership_inference_auc : Attacks one fitted classifier that need not be private.

    Notes
    -----
    A quarter of the outputs trains the distinguishers, unless all of them are known beforehand, and a quarter chooses
    the event S. On the others, of n outputs each, S is fixed, and the Clopper-Pearson bounds p on P_b(S) from below and
    q on P_a(S) from above each fail with probability at most ``(1 - confidence) / 2``. Then
    ``max(log((p - delta) / q), log((1 - q - delta) / (1 - p)))`` is a lower bound with the stated confidence, whatever
    the release is and however outputs are scored, one by one; the second term takes the complement of S. The roles of
    a and b are exchanged when that proved more on the quarter that chose.

    A bound below the guarantee proves nothing: the attacks may be bad, or the trials too few. Where delta is small,
    even noise of half the scale shows little of itself at that delta. Audit at a larger one that is guaranteed
    as well, ``delta=guarantee.profile(0.1)``, and compare with :meth:`skdprp.audit.AuditResult.exceeds`.

    References
    ----------
    .. [1] M. Jagielski, J. Ullman and A. Oprea, "Auditing Differentially Private Machine Learning: How Private is
       Private SGD?", NeurIPS 2020.
    .. [2] B. Bichsel, S. Steffen, I. Bogunovic and M. Vechev, "DP-Sniper: Black-Box Discovery of Differential Privacy
       Violations using Classifiers", S&P 2021.

    Examples
    --------
    A count with Laplace noise of half the scale that epsilon = 1 needs:

    >>> import numpy as np
    >>> from skdprp import PrivacyGuarantee, audit_epsilon
    >>> rng = np.random.default_rng(0)
    >>> def noisy_count(rows):
    ...     return len(rows) + rng.laplace(scale=0.5)
    >>> result = audit_epsilon(noisy_count, np.zeros((10, 1)), np.zeros((11, 1)))
    >>> result.exceeds(PrivacyGuarantee(1.0, 0.0))
    True
    """
    trials = trials_of(release, a, b, rows_are_trials=rows_are_trials, output=output)
    return audits_of(trials, [delta], confidence, n_trials, distinguishers, log_ratio, n_jobs, verbose)[0]


def audits_of(trials, deltas, confidence, n_trials, distinguishers, log_ratio=None, n_jobs=None, verbose=0):
    """Audit at some deltas by the same outputs, with an event for each; None is the delta of the trials."""
    for delta in deltas:
        _check(delta, confidence, n_trials)
    if not distinguishers and (log_ratio is None or not isinstance(distinguishers, Mapping)):
        raise ValueError("There is no distinguisher: name one, or leave distinguishers='auto'.")
    outputs = _draw(trials, n_trials, n_jobs, verbose)
    known, learners = _distinguishers(distinguishers, log_ratio, trials.known, outputs.shape[2:])
    train, choose, test = _split(outputs, trains=bool(learners))
    candidates, results = known | {name: learn(*train) for name, learn in learners.items()}, []
    for delta in (trials.delta or 0.0 if delta is None else delta for delta in deltas):
        # Score, threshold and side are chosen on outputs that trained none of them, and counted on others still: of an
        # event chosen on the outputs that count it, the confidence would be anything.
        events = (_best_event(name, score, choose, delta, confidence) for name, score in candidates.items())
        _, name, score, threshold, accuses_b = max(events, key=lambda event: event[0])
        in_a, in_b = (int(np.sum(side >= threshold)) for side in _scores_of_sides(score, test))
        hits, false_alarms = (in_b, in_a) if accuses_b else (in_a, in_b)
        n_tested = test.shape[1]
        result = AuditResult(
            epsilon=float(_bounds(hits, false_alarms, n_tested, delta, confidence)),
            delta=delta,
            confidence=confidence,
            n_trials=n_trials,
            n_tested=n_tested,
            distinguisher=name,
            accused="b" if accuses_b else "a",
            hits=hits,
            false_alarms=false_alarms,
        )
        results.append(result)
    return results


def _check(delta, confidence, n_trials):
    if not isinstance(n_trials, Integral):
        raise TypeError(f"n_trials must be an integer, got {n_trials!r}.")
    if n_trials < 8:
        raise ValueError(f"An audit needs at least 8 trials, got n_trials={n_trials}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
    if delta is not None and not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}.")


def _draw(trials, n_trials, n_jobs, verbose):
    """Draw outputs of both data sets, of shape (2, n_trials, rows, columns)."""
    sizes = [len(part) for part in np.array_split(np.arange(n_trials), min(_CHUNKS, n_trials))]
    # Seeded noise is of one thread: in others the noise were the kernel's, and no result the same twice.
    n_jobs, require = 1 if _noise.is_seeded() else n_jobs, "sharedmem" if trials.in_threads else None
    # In turns, a b b a: what drifts slowly from call to call does so under both.
    turns = [(side, size) for turn, size in enumerate(sizes) for side in ((0, 1) if turn % 2 else (1, 0))]
    chunks = Parallel(n_jobs=n_jobs, verbose=verbose, require=require)(
        delayed(trials.draw)((trials.a, trials.b)[side], size) for side, size in turns
    )
    of_a, of_b = ([chunk for chunk, (one, _) in zip(chunks, turns, strict=True) if one == side] for side in (0, 1))
    return join([*of_a, *of_b]).reshape(2, n_trials, *chunks[0].shape[1:])


def _split(outputs, trains):
    """A quarter to train scores on, if any is to be, a quarter to choose one with, and what had no part in either."""
    quarter = outputs.shape[1] // 4
    return np.split(outputs, [quarter * trains, quarter * (1 + trains)], axis=1)


def _distinguishers(distinguishers, log_ratio, known, shape):
    """Scores that are known, and those that outputs of a shape (rows, columns) have to teach; both by name."""
    flat_scores = {"likelihood": log_ratio} if log_ratio is not None else {}
    if isinstance(distinguishers, Mapping):
        return {name: _of_flat(score) for name, score in (flat_scores | dict(distinguishers)).items()}, {}
    available = known | {name: _of_flat(score) for name, score in flat_scores.items()}
    learners = battery(shape)
    if not isinstance(distinguishers, str):
        if unknown := set(distinguishers) - set(BATTERY) - set(available):
            known_to = ' "likelihood" takes `log_ratio`, or an estimator whose noise audit/_trials.py knows.'
            hint = known_to if "likelihood" in unknown else ""
            raise ValueError(f"Unknown distinguishers {sorted(unknown)}: choose from {[*BATTERY, *available]}.{hint}")
        available = {name: available[name] for name in distinguishers if name in available}
        learners = {name: BATTERY[name] for name in distinguishers if name in BATTERY}
    elif distinguishers != "auto":
        raise ValueError(f"distinguishers must be 'auto', a list of names or a dict, got {distinguishers!r}.")
    return available, learners


def _of_flat(score):
    """Make a score of arrays of shape (n, n_values) one of arrays of shape (n, rows, columns)."""

    def _score(outputs):
        flat = outputs.reshape(len(outputs), -1)
        scores = np.asarray(score(flat), dtype=np.float64)
        if scores.shape != (len(flat),):
            raise ValueError(f"A score must return one number for each output, got shape {scores.shape}.")
        # An event of all outputs together would be counted once for each.
        some = np.linspace(0, len(flat) - 1, _TRIED_ALONE).astype(int)
        alone = np.array([np.reshape(np.asarray(score(flat[[i]]), dtype=np.float64), -1)[0] for i in some])
        known = scores[np.isfinite(scores)]
        rounding = 1e-3 * np.ptp(known) + 1e-5 * np.abs(known).max() if known.size else 0.0
        if not np.allclose(alone, scores[some], rtol=0, atol=rounding, equal_nan=True):
            raise ValueError("A score must depend on its own output only: alone, some outputs have other scores.")
        return scores

    return _score


def _scores_of_sides(score, outputs):
    """Scores of outputs of both sides, in one call and shuffled: of a call for each, any mean would tell the side."""
    flat = outputs.reshape(-1, *outputs.shape[2:])
    order = check_random_state(0).permutation(len(flat))
    scores = np.empty(len(flat))
    scores[order] = score(flat[order])
    return scores.reshape(2, -1)


def _best_event(name, score, outputs, delta, confidence):
    """How good it is, name, score, threshold, and whether the event "score >= threshold" accuses b, not a."""
    scores = _scores_of_sides(score, outputs)
    pooled = np.unique(np.concatenate(scores))
    # Thresholds that no score lies between are the same event; of many, quantiles, dense where small deltas are seen.
    thresholds = pooled if len(pooled) <= len(_QUANTILES) else np.quantile(pooled, _QUANTILES, method="higher")
    counts_a, counts_b = (len(side) - np.searchsorted(np.sort(side), thresholds) for side in scores)
    n = outputs.shape[1]
    # Where so few outputs prove nothing at all, what is more often right comes first.
    merits = [
        _bounds(hits, false_alarms, n, delta, confidence) + _TIE * (hits - false_alarms) / n
        for hits, false_alarms in ((counts_a, counts_b), (counts_b, counts_a))
    ]
    accuses_b, best = np.unravel_index(np.argmax(merits), (2, len(thresholds)))
    return merits[accuses_b][best], name, score, thresholds[best], bool(accuses_b)


def _bounds(hits, false_alarms, n, delta, confidence):
    """Bounds on epsilon of events with these counts in n outputs each; two bounds share what may go wrong."""
    mistake = (1 - confidence) / 2
    return epsilon_bound(clopper_pearson(hits, n, mistake)[0], clopper_pearson(false_alarms, n, mistake)[1], delta)
