"""A private search for the best of several pipelines."""

import math
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, is_dataclass, replace
from functools import reduce
from importlib.util import find_spec
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from .. import _noise
from .._calibration import Calibration, GuaranteeDisplayMixin, marked, snapshot, take_over
from .._digits import printed_down, printed_up
from .._errors import silent, warn_at_caller, without_values
from .._labels import encode, of_one_type
from .._lazy import is_lazy
from .._open_ledgers import UnrecordedNoiseError
from .._recording import PlanBlock
from .._validation import (
    FLOATS,
    POSITIVE,
    HasMethods,
    Interval,
    PythonNumbersMixin,
    StrOptions,
    UncachedMixin,
    _fit_context,
    as_table,
    check_collected,
    is_estimator,
    is_frame,
    own_copy,
    validate_array,
    validate_data,
)
from ..composition import PrivacyLoss, Profile
from ..guarantee import Adjacency, Definition, PrivacyGuarantee, loss_of, sum_up
from ..histograms import PrivateHistograms
from ..ledger import LedgerError
from ..ledger._ledger import ReleaseOfTrials, thrown_away
from ..mechanisms import gaussian_scale, private_search_trial, sampled_target, searched_profile
from ..report import AS_PLANNED, NO_GROUPS
from ..report._data_independent import is_data_independent
from ..report._rehearsal import (
    PublicFacts,
    fit_transform,
    has_price,
    in_private,
    not_priced,
    own_parts,
)
from ..report._structure import (
    all_steps,
    fitted_among,
    guarantee_shown,
    has_guarantee,
    holds_private,
    is_ensemble,
    is_private,
    private_steps,
)
from ..report._walk import FITTED_AS_COUNTED
from ._budget import Budget

_ROUND_UP = 1 + 2.0**-50
_STEP = 1 + 2.0**-7  # by which the distance of a trial is raised at least, where it is too small for a candidate
_FROZEN = (
    "A candidate holds a frozen {}, which was fitted before, perhaps on rows that the search holds out and charges for "
    "their score alone. Put it before the search, make_pipeline(FrozenEstimator(...), DPSearchCV(...)), of which "
    "privacy_report adds up both; or leave it unfrozen, and each trial fits it anew."
)
_FITTED_IN_GRID = (
    "param_grid holds a fitted {}, and best_params_ and files of this search would publish what it has learnt: give a "
    "new one, such as clone(...) of it. Each trial fits it anew in any case."
)
_FITTED_WITHIN = (
    "`estimator` holds a fitted {} of which no clone is made, as a FrozenEstimator or a function does, and pickles and "
    "files of this search would publish what it has learnt: put it before the search, or a new one in its place."
)
_WITHOUT_EFFECT = (
    "{} in param_grid would change nothing: the search sets epsilon and delta of the only private step itself. Leave "
    "it out, or best_params_ would name an epsilon that no fit had."
)
_FAILED = (
    "A trial failed, and the search with it: {}, of the candidate {}. Nothing is released, but epsilon is spent. Fit "
    "that candidate by itself to rows that are not private, and see what it refuses."
)
_NEEDS_ACCOUNTING = (
    "Candidates have several private steps: dp-accounting, which is not installed, finds a smaller loss of them "
    "together, and so allows more trials, after python -m pip install dp-accounting."
)
_BEFORE = "X, as it comes to {},"
_POINTS = 2.0**20  # of the score of one row: sums of whole points are exact
_LOSSES = ("neg_log_loss", "neg_mean_squared_error")
_LAZY = "X is a dask collection, and a search holds rows out by their places: compute X and y."
_LARGEST_LOG_LOSS = 4.0  # that of a probability of 0.02
_THE_LABELS = "the set of labels"
_NOT_COVERED = (
    "the running time",
    "which error a fit raised, and of which candidate",
    "what steps print",
    "what code in the same process can find out, such as the number of trials",
)


@dataclass(frozen=True)
class _Candidate:
    """A candidate with its parameters, and its private steps; `guarantees` and `total` are those of a trial."""

    params: dict
    estimator: object
    budget: Budget
    unlisted: tuple[str, ...] = ()  # where steps are that list no classes, and are given those of y
    ratio: float = 1.0  # of the epsilon that its steps share to their total
    guarantees: tuple[PrivacyGuarantee, ...] = ()
    total: PrivacyGuarantee | None = None

    def with_target(self, epsilon, delta):
        """Give it what a trial may cost."""
        shared = self.budget.largest_target(epsilon, delta, self.ratio)
        report = self.budget.report(shared, delta)
        guarantees, total = _guarantees(self.budget.rehearsal.estimator), report.total
        if total is None or not all(
            one.per == "fit" and one.definition is Definition.DP and one.adjacency and not one.adjacency.is_distance
            for one in guarantees
        ):
            reasons = "; ".join(report.not_covered) or "a search is for models of rows"
            raise ValueError(f"A trial has to be private from end to end: {reasons}.")
        if total.epsilon > epsilon or total.delta > delta:
            cure = " That epsilon is too large: lower the epsilon of the search." * (total.epsilon == float("inf"))
            raise ValueError(f"No noise of a candidate guarantees {(epsilon, delta)}: it has {total!r}.{cure}")
        estimator = self.budget.set_targets(self.estimator, shared, delta)
        return replace(self, ratio=shared / epsilon, estimator=estimator, guarantees=guarantees, total=total)


@dataclass(frozen=True)
class _Score:
    """Mean score of rows, each between 0 and 1, with Gaussian noise: one row changes the sum by 1 at most."""

    scoring: str
    max_loss: float
    scale: float = 0.0

    def with_target(self, epsilon, delta):
        """Give it what a trial may cost, which is no more for a row that is held out than for one that is not."""
        return replace(self, scale=gaussian_scale(*sampled_target(epsilon, delta, n_changed=1)))

    @property
    def loss(self):
        """Privacy loss of one score."""
        return PrivacyLoss(mu=1 / self.scale, sampling=_noise.SAMPLING_LOSS)

    def points(self, model, X, y):
        """Score rows that a model was not fitted on, by whole points; all that is not a number scores 0."""
        scores = self._of_each_row(model, X, y)
        points = np.rint(np.nan_to_num(scores, nan=0.0).clip(0.0, 1.0) * _POINTS)
        return np.array([points.sum()])  # of integers below 2^53

    def released(self, points, n_rows):
        """Mean score of so many rows with noise, which is added to their points."""
        _noise.add_gaussian(points, self.scale * _POINTS)
        return float(points[0] / _POINTS / n_rows)

    def _of_each_row(self, model, X, y):
        """Scores of rows, of which those score 0 that a model fails on by themselves."""
        try:
            return self._of_rows(model, own_copy(X), y)
        except Exception:  # of some rows: each moves the sum by 1 at most
            is_scored = np.zeros(len(y), dtype=bool)
            for place in range(len(y)):
                copies = [place] * min(len(y), 2)  # of one row alone, some functions make a vector
                with suppress(Exception):
                    self._of_rows(model, _taken(X, copies), y[copies])
                    is_scored[place] = True
        if not is_scored.any():
            return np.zeros(len(y))
        # With another row in their places, as the others would be rounded in another way one by one. Where these fail
        # together the search ends.
        places = np.where(is_scored, np.arange(len(y)), is_scored.argmax())
        return np.where(is_scored, self._of_rows(model, _taken(X, places), y[places]), 0.0)

    def _of_rows(self, model, X, y):
        if self.scoring == "accuracy":
            return (model.predict(X) == y).astype(np.float64)
        if self.scoring == "neg_mean_squared_error":
            return 1 - (model.predict(X) - y) ** 2 / self.max_loss
        places = np.searchsorted(model.classes_, y)
        return 1 + np.log(model.predict_proba(X)[np.arange(len(y)), places]) / self.max_loss

    def printed(self, mean):
        """A mean score as scikit-learn has it: greater is better, and losses are negative."""
        return mean if self.scoring == "accuracy" else (mean - 1) * self.max_loss


def _options_of_rows(estimators):
    """How to check rows as the first steps of some estimators will; empty where one takes texts."""
    firsts = [step for estimator in estimators for step in _first_steps(estimator)]
    leaves = [step for estimator in estimators for _, step in all_steps(estimator)]
    if not all(get_tags(step).input_tags.two_d_array for step in firsts):
        return {}
    takes_nan = any(get_tags(step).input_tags.allow_nan for step in leaves if hasattr(step, "transform"))
    takes_numbers = all(
        type(step).__module__.startswith("skdprp.") and not get_tags(step).input_tags.categorical for step in firsts
    )
    dtype = FLOATS if takes_numbers else None  # others may take categories
    return {"accept_sparse": True, "dtype": dtype, "ensure_all_finite": "allow-nan" if takes_nan else True}


def _first_steps(estimator):
    """Find the steps that get the rows as they are."""
    if type(estimator) is Pipeline:
        first = next((step for _, step in estimator.steps if hasattr(step, "fit")), None)
        yield from () if first is None else _first_steps(first)
    elif type(estimator) is FeatureUnion:
        for _, step in estimator.transformer_list:
            yield from _first_steps(step) if hasattr(step, "fit") else ()
    else:
        yield estimator


def _best_has(method):
    """Whether what was found, or else what is searched, has a method."""

    def _check(search):
        getattr(getattr(search, "best_estimator_", search.estimator), method)
        return True

    return _check


class DPSearchCV(GuaranteeDisplayMixin, PythonNumbersMixin, UncachedMixin, MetaEstimatorMixin, BaseEstimator):
    """Search the best of several private models, and publish it with its score under one guarantee.

    Replaces GridSearchCV. A trial draws one of the candidates, fits it to some of the rows and scores it on the others,
    with noise. How many trials are run is drawn as well and stays secret, and only the best is released: the epsilon of
    the search grows slowly with the number of trials, see :doc:`/guide/search`.

    Parameters
    ----------
    estimator : estimator
        A private model, or a Pipeline of data-independent steps and private ones that ends in it. No private estimator
        in it may be frozen. Put a private step that was fitted earlier before the search:
        ``make_pipeline(FrozenEstimator(step), DPSearchCV(...))``. The search sets epsilon, delta and adjacency of all
        private steps. The epsilons that the steps of one pipeline have now are the ratio in which they share what a
        trial may cost, as in :func:`~skdprp.set_budget`. ``noise="auto"`` becomes ``"gaussian"``.
    param_grid : dict or list of dict
        Names of parameters and lists of values, as in GridSearchCV, from which each trial draws a candidate, all with
        equal probability. A public choice. Steps and whole models may be values, but none that is fitted.
        Distributions are listed first, by ParameterSampler for instance.
    n_trials : float, default=10
        Mean m of a Poisson variable. The number of trials is drawn from it given that it is not 0: it is
        ``m / (1 - exp(-m))`` on average, hardly more than m from 5 on. At epsilon = 1, the Gaussian noise of a trial is
        about 1.3, 2 and 3 times that of a single fit for m = 3, 10 and 20; the noise of AMPClassifier grows more.
    epsilon : float, default=1.0
        Privacy of one row in the search as a whole: with a neighbour, an outcome is at most exp(epsilon) times as
        probable, plus `delta`.
    delta : float or None, default=None
        The probability that is added, see `epsilon`; None is 1 / n_samples**2.
    scoring : {"accuracy", "neg_log_loss", "neg_mean_squared_error"} or None, default=None
        What is best. None is accuracy for classifiers and the squared error for regressors. Where one class is rare,
        a model that never predicts it has a high accuracy, and may win: take "neg_log_loss" then. It needs more rows,
        as its noise is larger compared with what tells models apart, see :doc:`/guide/search`.
    max_loss : float or None, default=None
        Largest loss of one row that counts: a public bound, to which larger ones are clipped. None is 4 for the log
        loss; the squared error has no default. Choose it so that few rows have a larger loss: the noise grows with it.
        `best_score_` counts clipped losses, and `score` losses that are not clipped.
    test_size : float, default=0.2
        Share of the rows that models are scored on, and not fitted on.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        With "replace_one", the neighbour has another row, with any label, in the place of one row. With "add_remove",
        that place is empty and adds nothing, which a row of zeros would.
    classes : array-like or None, default=None
        All labels that there may be, if they do not come from the data. None takes those of the model; if it lists none
        either, the guarantee holds given the set of labels in y.
    random_state : int, RandomState instance or None, default=None
        Seed of the split, which is public: it goes by the places of the rows alone. Candidates and noise have no seed.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, as it was fitted in its trial: a fit to all rows would be one more release.
    best_params_ : dict
        Its parameters, as in `param_grid`. Those that the search sets itself, such as epsilon and adjacency of steps,
        stand in `best_estimator_`: an epsilon here is a share of what a trial may cost, and no epsilon of a fit.
    best_score_ : float
        Its noisy score, by which it won. As the best of several noisy scores, it is too high on average.
    classes_ : ndarray of shape (n_classes,)
        Labels, for classifiers.
    scale_ : float
        Standard deviation of the noise of each score.
    delta_ : float
        The value used.
    guarantee_ : PrivacyGuarantee
        The guarantee of the search. The private steps of `best_estimator_` state the guarantee of the whole search,
        too, because it has chosen them.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Names of the features, when X has string names.

    See Also
    --------
    set_budget : One budget for the private steps of one pipeline.

    Notes
    -----
    The guarantee is that of :func:`~skdprp.mechanisms.private_search_profile`, for trials each of which is a draw from
    one distribution: the candidate, the fitted model and the noisy score. Which rows are held out follows from their
    number and the seed, so that a row is either fitted on or scored, and a trial has the larger of the two losses.

    There is no `cv_results_`: the scores of losers are not released, nor which they were, nor how many. A trial that
    fails ends the search with an error, and nothing is released: if it lost instead, one row that a fit does not take
    could decide who wins. Failures after the epsilon is spent are rare: before the first trial, the steps before the
    model of each candidate are fitted once, and these fits are thrown away. Rows that a step does not take raise an
    error there. If the score of a row is NaN, it counts as the worst score that one row can have. Where steps have
    ``random_state=None``, each trial draws them anew, from seeds that nobody knows.

    There is no `n_jobs`: the number of processes at work would tell the number of trials. The running time and counters
    of the process tell it, too, and are not covered. What trials print or warn of would also tell it: `verbose` of
    steps is set to 0, callbacks and caches are left out, and warnings are silenced, in all threads while a search runs;
    searches in several threads wait for each other. If another thread changes the warning filters of Python meanwhile,
    warnings of trials may be heard.

    Rates, penalties and bounds have defaults that need no search. A choice of features or of families is worth a
    search.

    References
    ----------
    .. [1] A. Koskela, R. Redberg and Y.-X. Wang, "Privacy Profiles for Private Selection", arXiv:2402.06701.
    .. [2] N. Papernot and T. Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from skdprp import DPSearchCV, DPSGDClassifier, PublicBinner
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(Normalizer(), DPSGDClassifier(classes=range(10), max_norm=1.0))
    >>> grid = {"normalizer": [Normalizer(), PublicBinner((0, 16), n_bins=4)]}
    >>> search = DPSearchCV(model, grid, n_trials=5, epsilon=3.0, classes=range(10)).fit(X, y)
    >>> search.guarantee_
    (3.0, 3.1e-07)-DP, one row replaced
    >>> search.score(X, y) > 0.3
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "param_grid": [dict, list],
        "n_trials": [Interval(Real, 1e-9, 1000, closed="both")],
        "epsilon": POSITIVE,
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "scoring": [StrOptions({"accuracy", *_LOSSES}), None],
        "max_loss": [Interval(Real, 1e-100, 1e100, closed="both"), None],
        "test_size": [Interval(Real, 0, 1, closed="neither")],
        "adjacency": [StrOptions({"replace_one", "add_remove"})],
        "classes": ["array-like", None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        n_trials=10,
        epsilon=1.0,
        delta=None,
        scoring=None,
        max_loss=None,
        test_size=0.2,
        adjacency="replace_one",
        classes=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_trials = n_trials
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.max_loss = max_loss
        self.test_size = test_size
        self.adjacency = adjacency
        self.classes = classes
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **unsupported):
        """Search, and release the best model that was found.

        Each call is a new release, with fresh noise: searching the same rows twice costs their privacy twice.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as the estimator takes them.
        y : array-like of shape (n_samples,)
            Labels or targets.
        **unsupported : dict
            Nothing; `groups` and `sample_weight` are refused with the reason.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        TypeError
            If a candidate cannot tell before a fit what it will guarantee, or there is more than X and y.
        ValueError
            If X or y is not finite or of the wrong shape, a candidate is not private from end to end, or a parameter
            does not fit the others, before anything is spent; or a trial fails, after that. Nothing is released.

        Warns
        -----
        UserWarning
            If the noise of private bins in a trial hides most of what so many rows show, and of how many candidates:
            plans say so before anything is spent.
        """
        if unsupported:
            names = " and no ".join(unsupported)
            raise TypeError(f"DPSearchCV.fit takes no {names}: its guarantee is for one row, and each row counts once.")
        model = snapshot(self)
        model._calibrated_for = model.get_params(deep=False)
        model.classes = model._listed_classes()
        X = as_table(X)
        y = model._validate(X, y)
        delta = model._delta_for(len(y))
        # By places alone: a split that looked at labels would move other rows if one is replaced.
        options = {"test_size": model.test_size, "random_state": model.random_state}
        X, X_held_out, y, y_held_out = train_test_split(X, y, **options)
        facts = replace(
            PublicFacts.of(X, n_samples=len(y)), n_targets=1, n_classes=(len(getattr(model, "classes_", ())),)
        )
        with thrown_away(is_searched=True):
            calibration, candidates, score = model._plan(facts, len(y_held_out), delta)
        if hidden := model._hidden_by_noise(None, **calibration.noise):  # as trials are not heard
            warn_at_caller(hidden, UserWarning)
        with in_private(), thrown_away(is_searched=True), PlanBlock():
            for candidate in candidates:
                _check_rows(clone(candidate.estimator), own_copy(X), own_copy(X_held_out))
        released = ReleaseOfTrials(calibration.guarantee, type(self).__name__)
        with released, in_private(), _noise.global_generators_left_alone():
            with released.noise_of_its_own():
                n_trials = _noise.poisson_above_zero(model.n_trials)
            trials = (_trial(candidates, score, released, X, y, X_held_out, y_held_out) for _ in range(n_trials))
            best, mean, model.best_estimator_ = max(trials, key=lambda trial: trial[1])
        calibration.publish(model, seeded=released.was_seeded())
        model.best_params_, model.best_score_ = best.params, score.printed(mean)
        won = [step for _, step in all_steps(model.best_estimator_) if has_guarantee(step)]
        for step in won:
            _state_anew(step, model)
        for path, step in all_steps(model.best_estimator_):
            if path in best.unlisted:  # a clone that is fitted to other rows would take the labels of y for a list
                step.classes, step._calibrated_for = None, step._calibrated_for | {"classes": None}
        take_over(self, model)
        return self

    def _validate(self, X, y):
        """Check rows as their first step will, and labels or targets, which are returned."""
        if is_lazy(X):
            raise TypeError(_LAZY)
        classifies = is_classifier(self.estimator)
        y = without_values(of_one_type, y, name="y") if classifies else y
        if options := _options_of_rows([self._candidate(params) for params in self._combinations()]):
            _, y = validate_data(self, X, y, y_numeric=not classifies, **options)
        else:  # of texts only how many there are, which have no columns to take over
            _, y = validate_data(BaseEstimator(), np.zeros((_num_samples(X), 1)), y, y_numeric=not classifies)
        if not classifies:
            return y
        self.classes_, codes = encode(y, self.classes)
        return self.classes_[codes]

    def _listed_classes(self):
        """Labels that are listed here, or else in the model."""
        listed = (getattr(step, "classes", None) for step in (self, *private_steps(self.estimator)))
        return next((classes for classes in listed if classes is not None), None)

    def _calibrate_for(self, facts):
        """What `fit` would fix for rows of which these facts are public: nothing is spent."""
        model = snapshot(self)
        model.classes = model._listed_classes()
        if model.classes is not None:
            facts = replace(facts, n_classes=(len(model.classes),))
        n_held_out = math.ceil(model.test_size * facts.n_samples)  # as train_test_split has it
        if n_held_out == facts.n_samples:
            raise ValueError(f"test_size={model.test_size} leaves none of {n_held_out} rows to fit to.")
        fitted = replace(facts, n_samples=facts.n_samples - n_held_out, n_targets=1)
        return model._plan(fitted, n_held_out, model._delta_for(facts.n_samples))[0]

    def _delta_for(self, n_samples):
        return 1.0 / max(n_samples, 2) ** 2 if self.delta is None else self.delta

    def _plan(self, facts, n_held_out, delta):
        """Calibrate a search for rows to fit to and rows to score on; return what fit needs, too."""
        candidates, score, distance = self._candidates(facts), self._score(), None
        while True:
            try:
                target = private_search_trial(self.epsilon, delta, n_trials=self.n_trials, trial_distance=distance)
            except ValueError as error:
                if find_spec("dp_accounting") or max(len(candidate.guarantees) for candidate in candidates) < 2:
                    raise
                raise ValueError(f"{error} {_NEEDS_ACCOUNTING}") from None
            candidates = [candidate.with_target(*target[:2]) for candidate in candidates]
            score = score.with_target(*target[:2])
            # A trial draws one of the candidates: its distance is their mean, of a row that is fitted on.
            distances = [candidate.total.profile(0.0) for candidate in candidates]
            needed = min(max(sum_up(distances) / len(distances) * _ROUND_UP, score.loss.profile(0.0)), 1.0)
            if needed <= target[2]:
                return self._calibrate(delta, target, candidates, score, n_held_out), candidates, score
            # The longer the distance, the less epsilon is left to a trial, and the shorter the distance that it needs.
            distance = min(float(np.sqrt(target[2] * needed)) * _STEP, 1.0)

    def _candidate(self, params):
        return clone(self.estimator).set_params(**clone(params, safe=False))

    def _combinations(self):
        """All combinations of parameters in the grid."""
        combinations = list(ParameterGrid(self.param_grid))
        if not combinations:
            raise ValueError("param_grid has no candidate: {} has one, the estimator as it is.")
        return combinations

    def _candidates(self, facts):
        """All candidates, which are public."""
        found = []
        for params in self._combinations():
            candidate = _plain(self._candidate(params))
            self._check_candidate(params, candidate)
            for step in private_steps(candidate):
                self._set_up(step)
            budget = Budget.of(candidate, facts)
            private = {path: step for path, step in all_steps(candidate) if is_private(step)}
            unlisted = {path: step for path, step in private.items() if getattr(step, "classes", self) is None}
            for step in unlisted.values():  # of a part of the rows, each would find a set of its own
                step.set_params(classes=getattr(self, "classes_", None))
            found.append(_Candidate(params, candidate, budget, tuple(unlisted)))
        if (fitted := fitted_among([clone(self.estimator)])) is not None and not is_data_independent(fitted):
            raise ValueError(_FITTED_WITHIN.format(type(fitted).__name__))
        return found

    def _check_candidate(self, params, candidate):
        """Refuse a candidate that cannot be scored, or whose fits could not be counted."""
        if self._scoring() == "neg_log_loss" and not hasattr(candidate, "predict_proba"):
            raise ValueError("scoring='neg_log_loss' is for models that have probabilities: not all candidates do.")
        if any(is_ensemble(step) for _, step in all_steps(candidate)):
            raise ValueError("A search takes no ensembles, whose members it cannot reach: search for one model.")
        for _, step in all_steps(candidate):
            if type(step) is FrozenEstimator and holds_private(step):
                raise ValueError(_FROZEN.format(type(step.estimator).__name__))
        if (fitted := fitted_among(params.values())) is not None:
            raise ValueError(_FITTED_IN_GRID.format(type(fitted).__name__))
        if len(private_steps(candidate)) == 1 and (idle := _targets_in(params, candidate)):
            raise ValueError(_WITHOUT_EFFECT.format(", ".join(idle)))

    def _set_up(self, step):
        """Give a private step of a candidate the neighbours and the classes of the search."""
        if not has_price(step):
            raise not_priced(step)
        step.set_params(adjacency=self.adjacency)
        if getattr(step, "noise", "") == "auto":  # that of a radius tells neighbours apart by a longer distance
            step.set_params(noise="gaussian")
        listed, classes = getattr(step, "classes", None), getattr(self, "classes_", self.classes)
        if listed is not None and classes is not None and not set(np.asarray(classes).tolist()) <= set(listed):
            # A row with another label would decide that its fits fail.
            kind = type(step).__name__
            raise ValueError(f"A candidate lists fewer classes than the search: {kind} of {list(listed)}.")
        if self.classes is not None and getattr(step, "classes", self) is None:
            step.set_params(classes=self.classes)

    def _scoring(self):
        default = "accuracy" if is_classifier(self.estimator) else "neg_mean_squared_error"
        return default if self.scoring is None else self.scoring

    def _score(self):
        """What models are scored by."""
        scoring, max_loss = self._scoring(), self.max_loss
        if (scoring == "neg_mean_squared_error") == is_classifier(self.estimator):
            raise ValueError(f"scoring={scoring!r} is not for a {get_tags(self.estimator).estimator_type}.")
        if scoring == "neg_mean_squared_error" and max_loss is None:
            raise ValueError(
                "max_loss is needed: the largest squared error of one row that counts, a public bound, such as "
                "200_000**2 for targets in (0, 500_000)."
            )
        return _Score(scoring, _LARGEST_LOG_LOSS if max_loss is None else max_loss)

    def _calibrate(self, delta, target, candidates, score, n_held_out):
        """State what holds of the search."""
        totals = [candidate.total for candidate in candidates]
        losses = tuple(dict.fromkeys([score.loss, *map(loss_of, totals)]))  # of a row that is held out, or fitted on
        profile = Profile.of(searched_profile, n_trials=self.n_trials, trial_distance=target[2], losses=losses)
        given = [total.given for total in totals if total.given]
        if is_classifier(self.estimator) and self.classes is None:
            given.append(_THE_LABELS)
        union = {
            fact: tuple(dict.fromkeys(text for total in totals for text in getattr(total, fact)))
            for fact in ("assumptions", "not_covered")
        }
        # A trial that is fitted otherwise has failed, and fits each step once.
        assumed = [text for text in union["assumptions"] if text not in (*AS_PLANNED, NO_GROUPS, FITTED_AS_COUNTED)]
        trial_epsilon, trial_delta = printed_up(target[0]), printed_up(target[1])
        guarantee = PrivacyGuarantee(
            self.epsilon,
            delta,
            adjacency=reduce(Adjacency.narrower, (total.adjacency for total in totals)),
            per="fit",
            given=" and ".join(dict.fromkeys(given)),
            released="best_estimator_, best_params_ and best_score_",
            mechanism=f"best of a secret number of trials of {len(candidates)} candidate{'s' * (len(candidates) > 1)}, "
            f"Poisson of mean {self.n_trials} given that it is not 0; each ({trial_epsilon}, {trial_delta})-DP; "
            f"Gaussian noise, scale {printed_down(score.scale, 6)}, on the sum of its scores of rows, each from 0 to 1",
            assumptions=(
                *assumed,
                "candidates, bounds and random_state were not chosen by looking at the rows",
                "functions in steps do the same each time they are called, and publish nothing",
            ),
            not_covered=tuple(dict.fromkeys([*union["not_covered"], *_NOT_COVERED])),
            source="proof in skdprp.mechanisms.private_search_profile",
            loss=PrivacyLoss(profiles=(profile,)),
        )
        scale = score.scale / n_held_out * (1.0 if score.scoring == "accuracy" else score.max_loss)
        hidden = list(filter(None, (candidate.budget.rehearsal.hidden_by_noise() for candidate in candidates)))
        noise = {"hidden": f"{hidden[0]} It is so in {len(hidden)} of {len(candidates)} candidates." if hidden else ""}
        return Calibration(guarantee, fitted={"delta_": delta, "scale_": scale}, noise=noise)

    def _hidden_by_noise(self, n_samples, hidden):
        """Say what so many rows cannot show through the noise of a trial, as plans ask any private step."""
        return hidden

    def __setattr__(self, name, value):
        """Write what audits show of a search into the winner as well, which may go on without it."""
        super().__setattr__(name, value)
        if name == "guarantee_" and isinstance(value, PrivacyGuarantee) and "best_estimator_" in vars(self):
            for _, step in all_steps(self.best_estimator_):
                if has_guarantee(step):
                    step.guarantee_ = marked(step.guarantee_, value)

    def __getstate__(self):
        return without_earlier_fits(super().__getstate__())

    def _sk_visual_block_(self):
        """Show what it found, or was given, without what that had learnt before, in a block of scikit-learn."""
        name = "best_estimator_" if hasattr(self, "best_estimator_") else "estimator"
        shown = self.best_estimator_ if name == "best_estimator_" else clone(self.estimator)
        return FeatureUnion([(name, shown)])._sk_visual_block_()

    def _shown_guarantee(self):
        return guarantee_shown(self)

    @silent
    def predict(self, X):
        """Predict by the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._of_best("predict", X)

    @available_if(_best_has("predict_proba"))
    @silent
    def predict_proba(self, X):
        """Estimate the probability of each class by the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self._of_best("predict_proba", X)

    @available_if(_best_has("predict_log_proba"))
    @silent
    def predict_log_proba(self, X):
        """Estimate the logarithm of the probability of each class by the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self._of_best("predict_log_proba", X)

    @available_if(_best_has("decision_function"))
    @silent
    def decision_function(self, X):
        """Score each row by the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._of_best("decision_function", X)

    def _of_best(self, method, X):
        check_is_fitted(self)
        if options := _options_of_rows([self.best_estimator_]):
            names = list(getattr(self, "feature_names_in_", ()))
            check_collected(X)
            if names and is_frame(X) and {*names} < {*X.columns}:  # and in another order alone it is refused
                X = X[names]
            validate_data(self, X, reset=False, **options)
        return without_values(getattr(self.best_estimator_, method), X)

    @silent
    def score(self, X, y):
        """Score the best model on other rows, as `scoring` says and without noise.

        For regressors it is minus the mean squared error, as R² is no mean over rows: ``best_estimator_.score`` has R².

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels or targets.

        Returns
        -------
        float
        """
        scoring = self._scoring()
        if scoring == "neg_log_loss":
            return -without_values(log_loss, y, self.predict_proba(X), labels=self.classes_, name="y")
        predicted = self.predict(X)
        if scoring == "accuracy":
            return without_values(accuracy_score, y, predicted, name="y")
        return -without_values(mean_squared_error, y, predicted, name="y")

    def __sklearn_tags__(self):
        tags, searched = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = searched.estimator_type
        tags.classifier_tags = deepcopy(searched.classifier_tags)
        tags.regressor_tags = deepcopy(searched.regressor_tags)
        tags.input_tags.sparse = searched.input_tags.sparse
        tags.target_tags.required = True
        tags.non_deterministic = True
        return tags


def without_earlier_fits(attributes):
    """Attributes of a search without what its parameters, or callbacks of them, had learnt before.

    Trials are fitted to clones of them, which in scikit-learn have the callbacks of the original, and all these keep.
    """
    given = {"estimator", "param_grid", "best_params_", "_calibrated_for"} & attributes.keys()
    return attributes | {name: _clone(attributes[name]) for name in given}


def _clone(value):
    """Clone the estimators in a value, in grids and dicts too, which scikit-learn copies with all that is in them."""
    if isinstance(value, dict):
        return {name: _clone(one) for name, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        cloned = np.empty_like(value)
        cloned.flat = [_clone(one) for one in value.flat]
        return cloned
    if type(value) is list:
        return [_clone(one) for one in value]
    return _without_callbacks(clone(value, safe=False))


def _without_callbacks(value):
    if is_estimator(value) and not isinstance(value, type):
        for part in own_parts(value):
            vars(part).pop("_skl_callbacks", None)
    return value


def _targets_in(params, candidate):
    """Names of parameters that are an epsilon or a delta of a private step."""
    owners = candidate.get_params(deep=True) | {"": candidate}
    named = {name: name.rpartition("__") for name in params}
    return [
        name for name, (path, _, last) in named.items() if last in ("epsilon", "delta") and is_private(owners[path])
    ]


def _plain(estimator):
    """Leave out steps that let rows pass, and what would tell how many trials there were: caches, callbacks, prints."""
    for part in list(own_parts(_without_callbacks(estimator))):
        if type(part) is Pipeline:
            part.set_params(memory=None)
        if (verbose := part.get_params(deep=False).get("verbose")) is not None:
            part.set_params(verbose=0 if type(verbose) is int else False)
    if type(estimator) is Pipeline:
        kept = [(name, step) for name, step in estimator.steps if step is not None and step != "passthrough"]
        estimator.set_params(steps=kept)
    return estimator


def _in_a_row(model):
    """Steps that rows pass one after the other, those of pipelines within pipelines included."""
    if type(model) is not Pipeline:
        return [model]
    return [one for _, step in model.steps for one in _in_a_row(step)]


def _check_rows(model, X, X_held_out):
    """Refuse rows that a step does not take before anything is paid: a trial with them would fail.

    What is behind a private transformer sees public numbers, or what it refuses would tell what nobody has paid for.
    """
    for step in _in_a_row(model):
        if any(is_private(one) for _, one in all_steps(step)):
            takes = get_tags(step).input_tags
            options = {"accept_sparse": "csr", "dtype": FLOATS}
            if type(step) in (ColumnTransformer, FeatureUnion):  # which let some columns pass that nobody looks at
                X, X_held_out = _passed(step, X, X_held_out)
                continue
            for rows in (X, X_held_out):
                if isinstance(step, PrivateHistograms):
                    step._count([rows])
                elif takes.two_d_array and not takes.categorical:
                    validate_array(rows, ensure_all_finite="allow-nan" if takes.allow_nan else True, **options)
            if not hasattr(step, "transform"):
                return
        X, X_held_out = _passed(step, X, X_held_out)


def _passed(step, X, X_held_out):
    """Rows to fit to and rows to score on after a step."""
    name = _BEFORE.format(type(step).__name__)
    passed = fit_transform(step, X, name), without_values(step.transform, X_held_out, name=name)
    if [*map(_num_samples, passed)] != [_num_samples(X), _num_samples(X_held_out)]:
        raise ValueError(
            f"{type(step).__name__} makes other rows than it gets. A step that takes texts needs one column of them, "
            "and not a frame."
        )
    return passed


def _guarantees(estimator):
    """What all private steps guarantee."""
    return tuple(step.guarantee_ for _, step in all_steps(estimator) if has_guarantee(step))


def _taken(X, places):
    """A copy of some rows, in whatever they come."""
    return own_copy(_safe_indexing(X.tocsr() if sp.issparse(X) else X, places))


def _trial(candidates, score, released, X, y, X_held_out, y_held_out):
    """Draw a candidate, fit it to some rows and score it on the others.

    What fails is raised and not ranked, or the winner would tell of the row that made others fail.
    """
    # Steps with random_state=None draw from these: from a stream that is known, they would tell which trial it was.
    with released.noise_of_its_own():
        _noise.reseed_global_generators()
        candidate = candidates[_noise.uniform_index(len(candidates))]
    model = clone(candidate.estimator)
    # A step may write into the rows, and the next trial would see how many were before it.
    X, y, X_held_out = map(own_copy, (X, y, X_held_out))
    try:
        model.fit(X, y)
        points = score.points(model, X_held_out, y_held_out)
        with released.noise_of_its_own():
            mean, reason = score.released(points, len(y_held_out)), None
    except (UnrecordedNoiseError, LedgerError):
        raise
    except Exception as error:  # whose words may quote the data
        reason = f"{type(error).__name__} in a fit"
    if reason is None and list(map(_facts, _guarantees(model))) != list(map(_facts, candidate.guarantees)):
        reason = "other guarantees than were planned"
    if reason is not None:  # raised here and not in the handler, or the first error were its context
        raise ValueError(_FAILED.format(reason, candidate.params))
    return candidate, mean, model


def _facts(guarantee):
    return guarantee.epsilon, guarantee.delta, guarantee.adjacency, guarantee.definition, guarantee.per, guarantee.loss


def _state_anew(step, search):
    """State of a step what holds of the search, in the place of what held of a single fit in one of its trials."""
    guarantee = search.guarantee_
    for name, value in vars(step).copy().items():
        if isinstance(value, PrivacyGuarantee) and name in ("guarantee_", "_stated_guarantee"):
            setattr(step, name, guarantee)
        elif is_dataclass(value) and isinstance(getattr(value, "guarantee", None), PrivacyGuarantee):
            setattr(step, name, replace(value, guarantee=guarantee))
