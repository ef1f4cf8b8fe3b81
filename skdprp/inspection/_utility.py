"""Curves of scores against epsilon, over folds and draws of noise."""

import math
from functools import partial

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import FixedThresholdClassifier, check_cv, cross_validate
from sklearn.utils import _safe_indexing

from .._digits import as_given, printed_up
from .._validation import validate_array
from ..model_selection._budget import share_budget
from ..report import privacy_report
from ..report._structure import is_ensemble
from ._axes import EPSILON, TOTAL, axes_of, draw_level, epsilon_of, finish, legend_label, next_style
from ._parameters import (
    check_is_not_searched,
    holders_of,
    increasing,
    only,
    owner_of,
    private_parameters,
    without_privacy,
)
from ._stated import AS_PLANNED, hidden_by, is_of_all_released, said_of_unmet, times_spent

_SPREADS = ("both", "noise", "folds")


class PrivacyUtilityDisplay:
    """How well an estimator does at each epsilon, over folds and draws of noise.

    Make one by :meth:`from_estimator` or :meth:`from_cv_results`, then :meth:`plot` it; several on one axis by
    ``plot(ax=other.ax_)``.

    .. warning::
       Such a curve is computed from the data with no protection: **it is not private**, whatever the estimators are.
       Draw it on public data that resemble yours, or keep it as private as the data. To choose epsilon by it and
       then publish a model at that epsilon releases more than that model's guarantee says. Each epsilon is of one fit,
       for the rows that it was given: a row is in several folds, and by stratified ones a label moves other rows.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        The epsilons, increasing.
    scores : ndarray of shape (n_epsilons, n_repeats, n_folds)
        Score of each draw of the noise in each fold.
    label : str or None, default=None
        Name of the estimator.
    hides : str, default=""
        What its epsilon is for, shown beside the name: curves that hide different things are no contest.
    is_total : bool, default=False
        Whether the epsilons are those of several private steps or models together, which the axis says.
    spent : float, default=1.0
        Largest total of a fit, as a multiple of the total that was planned; infinite if one is not known. Above 1, the
        axis says that.
    parameter : str, default=""
        Name of the parameter that the epsilons are, if they are not of all that was released.
    score_name : str, default="score"
        What the scores are.
    reference_score : float or None, default=None
        Mean score without privacy.
    chance_score : float or None, default=None
        Mean score of a guess that does not look at the features.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where the last :meth:`plot` drew.
    figure_ : matplotlib Figure
        The figure of `ax_`.
    line_ : matplotlib Line2D
        The means.
    band_ : matplotlib PolyCollection
        The spread.

    See Also
    --------
    PrivacyProfileDisplay : What a guarantee says at other epsilons.

    Examples
    --------
    >>> import numpy as np
    >>> from skdprp.inspection import PrivacyUtilityDisplay
    >>> scores = np.array([[[0.5, 0.6], [0.6, 0.7]], [[0.8, 0.9], [0.8, 0.9]]])
    >>> display = PrivacyUtilityDisplay(epsilons=np.array([0.1, 1.0]), scores=scores, label="mine")
    >>> display.frame().groupby("epsilon")["score"].mean().round(3).to_dict()
    {0.1: 0.6, 1.0: 0.85}
    >>> display.plot().ax_.get_xscale()
    'log'
    """

    def __init__(
        self,
        *,
        epsilons,
        scores,
        label=None,
        hides="",
        is_total=False,
        spent=1.0,
        parameter="",
        score_name="score",
        reference_score=None,
        chance_score=None,
    ):
        self.epsilons = epsilons
        self.scores = scores
        self.label = label
        self.hides = hides
        self.is_total = is_total
        self.spent = spent
        self.parameter = parameter
        self.score_name = score_name
        self.reference_score = reference_score
        self.chance_score = chance_score

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        cv=None,
        scoring=None,
        n_repeats=3,
        n_jobs=None,
        param_name=None,
        delta=None,
        reference="auto",
        chance=True,
        label=None,
        verbose=0,
    ):
        """Fit and score an estimator at each epsilon, in every fold, with several draws of its noise.

        This looks at X and y as often as it fits, with no protection of what it returns.

        A :func:`~skdprp.privacy_report` on each fit says what its epsilon belongs to. If the epsilon is not the total
        of the fit (for instance because a scaler learns from the rows without noise), the axis shows the name of the
        parameter instead of a guarantee. If the total of several steps was planned, and a fit spent more, the axis says
        how much. It leaves out what scoring releases: a sketch releases the held-out rows of a fold each time that a
        scorer predicts them.

        Parameters
        ----------
        estimator : estimator
            A private estimator, or a Pipeline or another composite with one in it. It is cloned, never fitted itself.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        epsilons : array-like of float, default=(0.1, 0.3, 1.0, 3.0, 10.0)
            The epsilons to try.
        cv : int, splitter, iterable or None, default=None
            Folds, as in :func:`sklearn.model_selection.cross_val_score`.
        scoring : str, callable or None, default=None
            Score, as in :func:`sklearn.model_selection.cross_val_score`; None is the estimator's own.
        n_repeats : int, default=3
            Fits in each fold, each with fresh noise, and a fresh projection where its `random_state` is None.
        n_jobs : int or None, default=None
            Processes.
        param_name : str or None, default=None
            Parameter to vary, like ``"dpoporp__epsilon"``. None finds the only `epsilon` of a step that is not
            scikit-learn's own; where there are several private steps, or an ensemble fits several models, it varies the
            total of all of them, in the ratio of the epsilons that they have, by :func:`~skdprp.set_budget` for as many
            rows as each fold is fitted to. The total of all sketches in an ensemble cannot be set: name the parameter.
        delta : float or None, default=None
            Delta of that total, as :func:`~skdprp.set_budget` takes it, or of the only private step. None leaves it to
            them.
        reference : "auto", estimator or None, default="auto"
            What stands for no privacy. "auto" leaves a private transformer out, and puts LogisticRegression on columns
            scaled by their largest values, or LinearRegression, in the place of a private model. Where the total of
            several steps is varied, private transformers stay, each at an epsilon of 100.
        chance : bool, default=True
            Whether to score a guess that does not look at the features.
        label : str or None, default=None
            Name of the curve; None is the class of the private step, or the classes of all of them. Two of one class
            need names that tell their parameters.
        verbose : int, default=0
            Above 0, print a line for each epsilon when it is done.

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        TypeError
            If `estimator` is none, such as a list of several.
        ValueError
            If there is no such parameter, or several steps or models whose total :func:`~skdprp.set_budget` cannot set;
            if a search within sets the parameter itself; if `delta` is given and the private step has none; if a fold
            lists a row several times; or if an epsilon or `n_repeats` is not positive.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from skdprp import AMPClassifier
        >>> from skdprp.inspection import PrivacyUtilityDisplay
        >>> X, y = load_digits(return_X_y=True)
        >>> model = AMPClassifier(adjacency="add_remove", max_norm=50.0)
        >>> display = PrivacyUtilityDisplay.from_estimator(model, X, y, epsilons=[1.0, 100.0], cv=2, n_repeats=1)
        >>> display.scores.shape
        (2, 1, 2)
        >>> bool(display.chance_score < display.scores[0].mean() < display.scores[1].mean())
        True

        The total of two private steps:

        >>> from sklearn.pipeline import make_pipeline
        >>> from skdprp import DPPCA, DPSGDClassifier
        >>> steps = make_pipeline(DPPCA(8), DPSGDClassifier(batch_size=None, classes=range(10)))
        >>> options = {"epsilons": [1.0, 100.0], "cv": 2, "n_repeats": 1, "delta": 1e-6}
        >>> display = PrivacyUtilityDisplay.from_estimator(steps, X, y, **options)
        >>> display.label, display.hides, display.is_total
        ('DPPCA, DPSGDClassifier', 'one row replaced', True)
        """
        if not hasattr(estimator, "fit"):
            raise TypeError("One estimator at a call: draw the next by plot(ax=first.ax_), where first was plotted.")
        if n_repeats < 1:
            raise ValueError(f"n_repeats must be at least 1, got {n_repeats}.")
        names, epsilons = [param_name] if param_name else private_parameters(estimator), increasing(epsilons)
        if not names:
            only(names, f"{type(estimator).__name__} has {{}} with a privacy parameter `epsilon`")
        owners = [owner_of(estimator, name) for name in names]
        for name in names:
            check_is_not_searched(estimator, name)
        ensembles = [one for one in holders_of(estimator, names[0]) if is_ensemble(one)]
        are_several = any(type(one) is not FixedThresholdClassifier for one in ensembles)
        is_total = not param_name and (len(names) > 1 or are_several)
        if delta is not None and not is_total:
            of_step = names[0].removesuffix("epsilon") + "delta"
            if of_step not in estimator.get_params():
                raise ValueError(f"delta is of no use: {type(owners[0]).__name__} has none.")
            estimator = clone(estimator).set_params(**{of_step: delta})
        label = label or ", ".join(type(owner).__name__ for owner in owners)
        validate_array(y, name="y", ensure_2d=False, dtype=None, ensure_all_finite=False)  # or errors below quote it
        splits = list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y))
        places = np.arange(np.shape(y)[0])  # some may be listed from the end, or by a mask
        if any(len(np.unique(places[train])) < len(places[train]) for train, _ in splits):
            raise ValueError("A fold lists a row several times, and its noise is for one: give each row once.")
        score = partial(_fold_scores, X=X, y=y, scoring=scoring, n_jobs=n_jobs)
        if scoring is None:  # that of `score`
            scoring = "accuracy" if is_classifier(estimator) else "R²"
        if isinstance(reference, str):
            reference = without_privacy(estimator, names)
        if is_total:
            name, with_epsilon = "planned total epsilon", partial(_with_total, estimator, X, y, delta, names)
        else:
            name, with_epsilon = names[0], partial(_with_parameter, estimator, names[0])
        guess = DummyClassifier(strategy="prior") if is_classifier(estimator) else DummyRegressor()
        scores, reports = _vary(score, with_epsilon, splits, name, epsilons, n_repeats, label if verbose else None)
        told = {"is_total": is_total}
        if is_total:
            told["spent"] = max(times_spent(report, epsilon) for epsilon, report in reports)
            told["hides"] = hidden_by(reports, owners)
        elif all(is_of_all_released(report, owners[0]) for _, report in reports):
            told["hides"] = hidden_by(reports, owners) + said_of_unmet(reports, owners[0])
        else:
            told["parameter"] = names[0]
        return cls(
            epsilons=epsilons,
            scores=scores,
            label=label,
            **told,
            score_name=scoring.replace("_", " ") if isinstance(scoring, str) else "score",
            reference_score=None if reference is None else float(score(reference, splits)[0].mean()),
            chance_score=float(score(guess, splits)[0].mean()) if chance else None,
        )

    @classmethod
    def from_cv_results(
        cls,
        search,
        *,
        param_name=None,
        scoring="score",
        label=None,
        score_name=None,
        reference_score=None,
        chance_score=None,
    ):
        """Take the scores of a search over epsilon, such as GridSearchCV.

        The axis names the parameter, and no guarantee: a search records neither what its fits guaranteed nor what else
        they released. If there are several private steps, it varies one, and the total stays unknown.
        :meth:`from_estimator` varies the total, and reports on each fit.

        Where the search varied other parameters too, each epsilon has its best candidate by mean score, which flatters
        it a little.

        Parameters
        ----------
        search : fitted search, or dict
            A search with `cv_results_`, or these results.
        param_name : str or None, default=None
            Parameter that sets the privacy, like ``"dpoporp__epsilon"``; None finds the only `epsilon` among those
            searched.
        scoring : str, default="score"
            Name of the score in the results; other than "score" if the search had several.
        label : str or None, default=None
            Name of the curve; None is the class of the private step, or the name of the step if only results are given.
        score_name : str or None, default=None
            What the scores are; None is `scoring`.
        reference_score, chance_score : float or None, default=None
            Mean scores without privacy and by chance, which a search does not know.

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            If the search did not vary an epsilon, or varied several, or one that a search within sets itself; or if it
            has no such score.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn.pipeline import make_pipeline
        >>> from skdprp import DPSignOPORP
        >>> from skdprp.inspection import PrivacyUtilityDisplay
        >>> X, y = load_digits(return_X_y=True)
        >>> pipeline = make_pipeline(DPSignOPORP(64, random_state=0), LogisticRegression(max_iter=1000))
        >>> search = GridSearchCV(pipeline, {"dpsignoporp__epsilon": [1.0, 10.0]}, cv=2).fit(X / 16 - 0.5, y)
        >>> display = PrivacyUtilityDisplay.from_cv_results(search)
        >>> display.label, display.epsilons, display.scores.shape
        ('DPSignOPORP', array([ 1., 10.]), (2, 1, 2))
        """
        results = getattr(search, "cv_results_", search)
        if param_name is None:
            searched = [key.removeprefix("param_") for key in results if key.startswith("param_")]
            private = [name for name in searched if name.rpartition("__")[2] == "epsilon"]
            param_name = only(private, "The search varied {} with a parameter `epsilon`")
        epsilons = np.ma.filled(np.ma.asarray(results[f"param_{param_name}"]).astype(np.float64), np.nan)
        private = ~np.isnan(epsilons)  # of several grids, some may have candidates without an epsilon
        folds = [key for key in results if key.startswith("split") and key.endswith(f"_test_{scoring}")]
        if not folds:
            raise ValueError(f"The results have no scores of folds named {scoring!r}.")
        epsilons, scores = epsilons[private], np.column_stack([results[key] for key in folds])[private]
        # Of candidates with the same epsilon the one with the best mean counts, in all folds.
        best_first = np.argsort(-np.nan_to_num(scores.mean(axis=1), nan=-np.inf), kind="stable")
        epsilons, first = np.unique(epsilons[best_first], return_index=True)
        model = getattr(search, "best_estimator_", getattr(search, "estimator", None))
        searched = getattr(search, "estimator", model)
        varied = [] if searched is None else [params for params in results["params"] if param_name in params]
        for params in varied:
            others = {name: clone(value, safe=False) for name, value in params.items()}
            check_is_not_searched(clone(searched).set_params(**others), param_name)
        if label is None:
            label = param_name.rpartition("__")[0] if model is None else type(owner_of(model, param_name)).__name__
        return cls(
            epsilons=epsilons,
            scores=scores[best_first[first], None],
            label=label,
            parameter=param_name,
            score_name=score_name or scoring.replace("_", " "),
            reference_score=reference_score,
            chance_score=chance_score,
        )

    def plot(self, ax=None, *, label=None, spread="both", public_data=False, **line_options):
        """Draw the mean score against epsilon, with a band of one standard deviation.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure. Draw several displays on one axis to compare estimators, if their
            epsilons hide the same. A figure without a layout engine gets the constrained one, so that the legend and
            the labels are not cut off.
        label : str or None, default=None
            Name of the curve in the legend, beside what it hides; None is that of the display.
        spread : {"both", "noise", "folds"}, default="both"
            Width of the band: the standard deviation over all fits; over the draws of noise within a fold; or over the
            folds, the noise averaged out as far as `n_repeats` goes. The square of the first is the sum of the squares
            of the other two.
        public_data : bool, default=False
            Whether the data are public. Otherwise the plot says that it is not private.
        **line_options
            Passed on to ``ax.plot``.

        Returns
        -------
        PrivacyUtilityDisplay
            Itself, with `ax_`, `figure_`, `line_` and `band_`.

        Raises
        ------
        ValueError
            If `spread` is unknown, or is that of the noise when there was one draw.
        """
        width, described = self._spread(spread), self._describe(spread)  # which refuse, before anything is drawn
        ax = axes_of(ax)
        epsilon, of_what = self._of_what()
        label = legend_label(label or self.label, of_what, self.hides) or None
        style = next_style(ax, self.hides, epsilon) | {"label": label} | line_options
        mean = self.scores.mean(axis=(1, 2))
        (self.line_,) = ax.plot(self.epsilons, mean, **style)
        colour = self.line_.get_color()
        self.band_ = ax.fill_between(self.epsilons, mean - width, mean + width, color=colour, alpha=0.25, linewidth=0)
        draw_level(ax, self.reference_score, "not private", color=ax.xaxis.label.get_color(), linestyle="--")
        draw_level(ax, self.chance_score, "chance", color="0.5", linestyle=":")
        xlabel, ylabel = epsilon_of(ax, "epsilon of one release"), f"{self.score_name}\n{described}"
        finish(ax, xlabel=xlabel, ylabel=ylabel, is_public=public_data)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def frame(self):
        """Return the scores as a tidy table.

        Returns
        -------
        pandas.DataFrame
            One row for each fit, with the columns estimator, epsilon, draw, fold and score. What the epsilons are of,
            and of whom, the axis of :meth:`plot` says.
        """
        import pandas as pd

        epsilon, draw, fold = np.indices(self.scores.shape).reshape(3, -1)
        columns = {"estimator": self.label, "epsilon": self.epsilons[epsilon], "draw": draw, "fold": fold}
        return pd.DataFrame(columns | {"score": self.scores.ravel()})

    def _of_what(self):
        """What the epsilons are of, for the axis, and for the legend where that is not all that was released."""
        if self.parameter:
            return f"parameter {self.parameter}", "guarantees not known"
        if not self.is_total:
            return EPSILON, ""
        if self.spent <= AS_PLANNED:
            return TOTAL, ""
        if math.isinf(self.spent):
            return f"planned {TOTAL}\n(the total of some fits is not known)", "planned total, not known of all fits"
        times = f"spent up to {printed_up(self.spent)} times"
        return f"planned {TOTAL}\n(some fits {times} as much)", f"planned total, {times} as much"

    def _spread(self, spread):
        if spread not in _SPREADS:
            raise ValueError(f"spread must be one of {_SPREADS}, got {spread!r}.")
        if spread == "noise" and self.scores.shape[1] == 1:
            raise ValueError("There is one draw of noise for each fold: its spread cannot be told from that of folds.")
        return {
            "both": self.scores.std(axis=(1, 2)),
            "noise": np.sqrt(self.scores.var(axis=1).mean(axis=1)),
            "folds": self.scores.mean(axis=1).std(axis=1),
        }[spread]

    def _describe(self, spread):
        n_repeats, n_folds = self.scores.shape[1:]
        if n_repeats == n_folds == 1:
            return "one draw of noise"
        folds, draws = f"{n_folds} folds", f"{n_repeats} draws of noise"
        if n_repeats == 1:
            return f"mean ± std over {folds}, new noise in each"
        return "mean ± std over " + {"both": f"{folds} × {draws}", "noise": draws, "folds": folds}[spread]


def _fold_scores(model, splits, n_repeats=1, *, X, y, scoring, n_jobs):
    """Scores of clones of a model, of shape (n_repeats, n_folds), and the clones, fitted."""
    options = {"scoring": scoring, "n_jobs": n_jobs, "error_score": "raise", "return_estimator": True}
    # One call for all repeats: jobs that wait for no other, and noise that is fresh in each.
    results = cross_validate(model, X, y, cv=splits * n_repeats, **options)
    return results["test_score"].reshape(n_repeats, len(splits)), results["estimator"]


def _vary(score, with_epsilon, splits, name, epsilons, n_repeats, announce):
    """Score an estimator at each epsilon, and report on each fit beside its epsilon.

    `announce`, unless None, names the lines that say how far it is.
    """
    scores, reports = [], []
    for epsilon in map(float, epsilons):
        scores.append(np.empty((n_repeats, len(splits))))
        for model, places in with_epsilon(epsilon, splits):
            scores[-1][:, places], fitted = score(model, [splits[place] for place in places], n_repeats)
            reports += [(epsilon, privacy_report(one)) for one in fitted]
        if announce is not None:
            mean = f"{name} = {as_given(epsilon)}, mean score {scores[-1].mean():.4g}"
            print(f"{announce}, {len(scores)} of {len(epsilons)}: {mean}", flush=True)
    return np.array(scores), reports


def _with_parameter(estimator, name, epsilon, splits):
    """Yield a clone with an epsilon, and the places of the folds that it is for."""
    yield clone(estimator).set_params(**{name: epsilon}), list(range(len(splits)))


def _with_total(estimator, X, y, delta, names, epsilon, splits):
    """Yield a clone with a total epsilon for each kind of folds to fit to, and the places of those of that kind.

    The number of rows sets noise, and that of the classes of each output how many models an ensemble fits, and which.
    """
    kinds = []
    for train, _ in splits:
        outputs = np.atleast_2d(np.transpose(_safe_indexing(y, train))) if is_classifier(estimator) else ()
        kinds.append((len(train), *(len(np.unique(labels)) for labels in outputs)))
    for kind in dict.fromkeys(kinds):
        places = [place for place, one in enumerate(kinds) if one == kind]
        train = splits[places[0]][0]
        rows, labels = _safe_indexing(X, train), _safe_indexing(y, train)
        try:
            model = clone(estimator)
            share_budget(model, rows, labels, groups=None, epsilon=epsilon, delta=delta)  # the axis says what lacks
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The total of several releases ({', '.join(names)}) cannot be set: {error} Or name the one to vary by "
                "param_name."
            ) from error
        yield model, places
