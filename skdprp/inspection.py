"""Pictures of privacy: what it costs in utility, and what a guarantee says at every epsilon."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, check_cv, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from ._calibration import SET_LATER, is_as_stated, within_reach
from ._digits import printed_down, printed_up
from ._label import condition_and_marks, neighbours_of
from .guarantee import Definition
from .model_selection import set_budget
from .report import privacy_report
from .report._structure import guarantee_shown, is_ensemble, is_of_library
from .report._walk import KEEP_LABELS, given_the_labels

__all__ = ["PrivacyProfileDisplay", "PrivacyUtilityDisplay"]

# Five colours that differ for every kind of colour vision, on white and on black, and as many markers and more, so
# that colour is never the only sign; from P. Tol's "vibrant" scheme.
_COLOURS = ("#0077BB", "#EE7733", "#009988", "#CC3311", "#EE3377")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_CURVE, _LEVEL, _TARGET = "privacy curve", "score without a curve", "guarantee as stated"
_CAVEAT = "computed from the data without protection:\nthis curve is not private"  # two lines, for narrow axes
_SPREADS = ("both", "noise", "folds")
_MOST_TICKS = 12
_LEAST_DELTA = 1e-12
_LARGE_DELTA = 0.01  # beside which an epsilon says little
_EPSILON, _TOTAL, _ALONE = "epsilon", "total epsilon of all private steps", "epsilon of one release of {} alone"
_AS_PLANNED = 1 + 1e-9  # times an epsilon: a total that is no more meets it, but for rounding
_WIDTH = 78  # characters of a line, which a figure of the usual size has room for
_DEFINITIONS = {Definition.INDIVIDUAL_DP: "individual DP", Definition.MI_DP: "in bits"}
_NEARLY_NO_NOISE = 100.0  # an epsilon: what makes columns of texts cannot be left out


def _axes(ax):
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Plots need matplotlib: python -m pip install "skdprp[plot]"') from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _next_style(ax, hides, epsilon=_EPSILON):
    """Colour and marker of the next curve on an axis, which other displays may have drawn on, and what it says."""
    drawn = len(_curves(ax))
    colour, marker = _COLOURS[drawn % len(_COLOURS)], _MARKERS[drawn % len(_MARKERS)]
    return {"color": colour, "marker": marker, "markersize": 5, "gid": f"{_CURVE}: {hides}: {epsilon}"}


def _curves(ax):
    """Return the curves on an axis, whose identifiers say what their epsilons hide, and of what they are."""
    return [line for line in ax.lines if (line.get_gid() or "").startswith(_CURVE)]


def _epsilon_of(ax, otherwise):
    """Say whose privacy the epsilons of an axis are about: two curves of a row and of a pixel are no contest."""
    hidden, names = map(set, zip(*(line.get_gid().split(": ", 2)[1:] for line in _curves(ax)), strict=True))
    name = names.pop() if len(names) == 1 else _EPSILON
    if len(hidden) > 1 or names - {_EPSILON, _TOTAL}:
        name = f"{name}, for what each curve says"
    elif any(hidden):
        name = f"{name}, {hidden.pop()}"
    elif name == _EPSILON:
        name = otherwise
    return "\n".join(map(_wrap, name.splitlines()))


def _wrap(line):
    return textwrap.fill(line, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _draw_level(ax, score, label, **style):
    """Draw a horizontal line, unless it is there already; only the first of a name is in the legend."""
    levels = [line for line in ax.lines if line.get_gid() == f"{_LEVEL}: {label}"]
    if score is None or any(np.allclose(line.get_ydata(), score) for line in levels):
        return
    ax.axhline(score, gid=f"{_LEVEL}: {label}", label="_" * bool(levels) + label, zorder=1, **style)


def _finish(ax, **labels):
    """Label an axis over epsilon, with ticks at the points of its curves where they are few and apart."""
    figure = ax.figure.canvas.figure
    if figure.get_layout_engine() is None:  # the legend and a label of two lines would be cut off
        figure.set_layout_engine("constrained")
    ax.set(xscale="log", **labels)
    # Ticks where the points are, as long as their labels do not overlap: at 6% of the width or more.
    low, high = ax.get_xlim()
    points = np.unique(np.concatenate([line.get_xdata() for line in _curves(ax)]))
    apart = 1 < len(points) <= _MOST_TICKS and np.diff(np.log(points)).min() > 0.06 * np.log(high / low)
    ax.xaxis.set_major_locator(_locator(points if apart else None, subs=(1, 2, 5) if high < 300 * low else (1,)))
    ax.xaxis.set_minor_locator(_locator([] if apart else None, subs=(2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    # The legend is above the axis, off the curves, in as many columns as its width has room for.
    handles = sorted(ax.get_legend_handles_labels()[0], key=lambda handle: _LEVEL in (handle.get_gid() or ""))
    for layout in ({"ncols": 2}, {"ncols": 2, "fontsize": "small"}, {"fontsize": "small"}):
        legend = ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, **layout)
        if legend.get_window_extent().width <= ax.get_window_extent().width:
            break


def _locator(points, subs):
    from matplotlib.ticker import FixedLocator, LogLocator

    return LogLocator(subs=subs) if points is None else FixedLocator(points)


def _private_parameters(estimator):
    """Names of parameters that set a privacy loss; an `epsilon` of scikit-learn's own estimators is another."""
    parameters = estimator.get_params(deep=True)
    names = [name for name in parameters if name.rpartition("__")[2] == "epsilon"]
    # Epsilon of an SVR is the width of a tube.
    private = [name for name in names if not type(_owner(estimator, name)).__module__.startswith("sklearn.")]
    # What a private search holds gets its budget from there.
    paths = [name.removesuffix("epsilon") for name in private]
    return [name for name in private if sum(name.startswith(path) for path in paths) == 1]


def _holders(estimator, name):
    """List what holds the estimator whose parameter `name` is, the outermost first."""
    parameters, path = estimator.get_params(deep=True), name.split("__")[:-1]
    return [estimator, *(parameters["__".join(path[:end])] for end in range(1, len(path)))][: len(path)]


def _check_is_not_searched(estimator, name):
    """Refuse a parameter that a search on the way to it sets, at whatever it is varied to."""
    parts = name.split("__")
    for depth, holder in enumerate(_holders(estimator, name), start=1):
        if hasattr(holder, "calibrate_for"):
            raise ValueError(f"{name} is a ratio of what a private search sets: vary the epsilon of the search.")
        grids = getattr(holder, "param_grid", None) or getattr(holder, "param_distributions", None) or {}
        searched = set().union(*([grids] if isinstance(grids, Mapping) else grids))
        if _is_set_with(searched, "__".join(parts[depth:])):
            raise ValueError(f"{name} is one that a search sets: vary another, or leave it out of the grid.")


def _is_set_with(names, name):
    """Whether a parameter is set with those of some names: it is one, or of a step that is put in place."""
    return any(name == other or name.startswith(f"{other}__") for other in names)


def _is_of_all(report, epsilon, owner):
    """Whether all that a fit released is one release of a step, of at most this epsilon or claimed to have it."""
    releasing = [step.estimator for step in report.steps for _ in range(step.releases)]
    if report.total is None or releasing != [type(owner).__name__]:
        return False
    return _is_claimed(owner) or report.total.epsilon <= epsilon * _AS_PLANNED


def _times_spent(report, epsilon):
    """Total of a fit as a multiple of the epsilon that was planned for it, infinite if it is not known."""
    return math.inf if report.total is None else report.total.epsilon / epsilon


def _step(estimator, name):
    """Name of the step whose parameter `name` is."""
    return name.rpartition("__")[0] or type(estimator).__name__


def _only(names, complaint):
    if len(names) == 1:
        return names[0]
    found = f"several steps ({', '.join(names)})" if names else "no step"
    raise ValueError(f"{complaint.format(found)}: name the one to vary by param_name.")


def _owner(estimator, name):
    """Return the estimator whose parameter `name` is, inside of another or itself."""
    path = name.rpartition("__")[0]
    return estimator.get_params(deep=True)[path] if path else estimator


def _is_claimed(owner):
    """Whether the epsilon of a step is what a paper claims; a noise multiplier claims nothing, and is exact."""
    calibration = getattr(owner, "calibration", "exact")
    return calibration == "published" or getattr(calibration, "noise_multiplier", 0) is None


def _hidden(reports, owners, holders, *, alone):
    """What the guarantees hide that an epsilon is of: those of some steps alone, or else of all that fits released."""
    ensembles = [holder for holder in holders if isinstance(holder, KEEP_LABELS)]
    told, deltas = {}, [0.0]
    for report in reports:
        own, of_all = _stated_by(report, owners), report.private
        if of_all is not None and not alone:
            own = [of_all]
        for ensemble in ensembles if alone else ():
            own = [given_the_labels(one, ensemble) for one in own]
        for one in own:
            told.setdefault(_in_short(one), None)
            deltas.append(one.delta)
    claimed = "as claimed" if any(map(_is_claimed, owners)) else ""
    delta = f"delta up to {printed_up(max(deltas))}" if max(deltas) > _LARGE_DELTA else ""
    return ", ".join(filter(None, [" or ".join(told), claimed, delta]))


def _in_short(guarantee):
    """Neighbours of a guarantee, its definition if that is another than differential privacy, conditions and marks."""
    told = ", ".join(filter(None, [neighbours_of(guarantee), _DEFINITIONS.get(guarantee.definition, "")]))
    return (told + condition_and_marks(guarantee)).removeprefix(", ")


def _stated_by(report, owners):
    """Guarantees in a report of steps of the classes of some."""
    kinds = {type(owner).__name__ for owner in owners}
    return [line.guarantee for line in report.steps if line.guarantee and line.estimator in kinds]


def _not_met(reports, owner):
    """Epsilons at which releases of a step guarantee more than that; what is claimed need not be met."""
    stated = ((epsilon, one.epsilon) for epsilon, report in reports for one in _stated_by(report, [owner]))
    return [] if _is_claimed(owner) else [asked for asked, met in stated if met > asked * _AS_PLANNED]


def _out_of_reach(epsilons, report, owner):
    """Epsilons at which the noise that a step would need cannot be sampled; the report on it is of another epsilon."""
    if _is_claimed(owner):
        return []
    unsampled = partial(replace, loss=None, hidden_changes=None)
    stated = [unsampled(one, epsilon=float(at)) for one in _stated_by(report, [owner]) for at in epsilons]
    return [one.epsilon for one in stated if within_reach(one).epsilon > one.epsilon]


def _said_of_unmet(epsilons):
    """Say at which epsilons fits guarantee nothing, or less than that."""
    points = ", ".join(f"{epsilon:g}" for epsilon in sorted(set(epsilons)))
    return f", not guaranteed at epsilon = {points}" if points else ""


def _without_privacy(estimator, names):
    """Leave a private transformer out; put scikit-learn's linear model in the place of a private one.

    Of several private steps, transformers stay, with next to no noise: others may need what they make of texts.
    """
    if len(names) > 1:
        for name in names:
            owner = _owner(estimator, name)
            is_model = is_classifier(owner) or is_regressor(owner)
            estimator = (
                _without_privacy(estimator, [name])
                if is_model
                else clone(estimator).set_params(**{name: _NEARLY_NO_NOISE})
            )
        return estimator
    owner, path = _owner(estimator, names[0]), names[0].rpartition("__")[0]
    model = "passthrough"
    if is_classifier(owner):
        # Scaled, or the solver of scikit-learn would not come to its end on columns of any unit.
        model = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000))
    elif is_regressor(owner):
        model = LinearRegression()
    return clone(estimator).set_params(**{path: model}) if path else model


def _increasing(epsilons):
    epsilons = np.unique(np.asarray(epsilons, dtype=np.float64))
    if epsilons.size == 0 or not (np.isfinite(epsilons).all() and epsilons[0] > 0):
        raise ValueError("epsilons must be positive finite numbers.")
    return epsilons


class PrivacyUtilityDisplay:
    """How well an estimator does at each epsilon, over folds and draws of noise.

    Make one by :meth:`from_estimator` or :meth:`from_cv_results`, then :meth:`plot` it; several on one axis by
    ``plot(ax=other.ax_)``.

    .. warning::
       Such a curve is computed from the data with no protection: **it is not private**, whatever the estimators are.
       Draw it on public data that resemble yours, or keep it as private as the data. To choose epsilon by it and
       then publish a model at that epsilon releases more than that model's guarantee says.

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
    step : str, default=""
        Name of a step of one release of which the epsilons are, if more was released, or may have been. The axis says
        that they are of it alone.
    parameter : str, default=""
        Name of the parameter that the epsilons are, if nothing is known of what was guaranteed.
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
        step="",
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
        self.step = step
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

        A :func:`~skdprp.privacy_report` on each fit says what its epsilon is of. If it guarantees no more than one
        release of a step alone, because a scaler learns without noise, say, then the axis names that step. If the
        total of several was planned, and a fit spent more, the axis says how much.

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
            Fits in each fold, each with fresh noise, and a fresh projection unless its `random_state` is an integer.
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
            if a search within sets the parameter itself; if `delta` is given and the private step has none; or if an
            epsilon or `n_repeats` is not positive.

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
        >>> from skdprp import DPBinner, DPSGDClassifier
        >>> steps = make_pipeline(DPBinner(4), DPSGDClassifier(max_norm=8.0, classes=range(10)))
        >>> options = {"epsilons": [1.0, 100.0], "cv": 2, "n_repeats": 1, "delta": 1e-6}
        >>> display = PrivacyUtilityDisplay.from_estimator(steps, X, y, **options)
        >>> display.label, display.hides, display.is_total
        ('DPBinner, DPSGDClassifier', 'one row replaced', True)
        """
        if not hasattr(estimator, "fit"):
            raise TypeError("One estimator at a call: draw the next by plot(ax=first.ax_), where first was plotted.")
        if n_repeats < 1:
            raise ValueError(f"n_repeats must be at least 1, got {n_repeats}.")
        names, epsilons = [param_name] if param_name else _private_parameters(estimator), _increasing(epsilons)
        if not names:
            _only(names, f"{type(estimator).__name__} has {{}} with a privacy parameter `epsilon`")
        owners = [_owner(estimator, name) for name in names]
        for name in names:
            _check_is_not_searched(estimator, name)
        ensembles = [one for one in _holders(estimator, names[0]) if is_ensemble(one)]
        are_several = any(type(one) is not FixedThresholdClassifier for one in ensembles)
        is_total = not param_name and (len(names) > 1 or are_several)
        if delta is not None and not is_total:
            of_step = names[0].removesuffix("epsilon") + "delta"
            if of_step not in estimator.get_params():
                raise ValueError(f"delta is of no use: {type(owners[0]).__name__} has none.")
            estimator = clone(estimator).set_params(**{of_step: delta})
        label = label or ", ".join(type(owner).__name__ for owner in owners)
        splits = list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y))
        score = partial(_fold_scores, X=X, y=y, scoring=scoring, n_jobs=n_jobs)
        if scoring is None:  # that of `score`
            scoring = "accuracy" if is_classifier(estimator) else "R²"
        if isinstance(reference, str):
            reference = _without_privacy(estimator, names)
        if is_total:
            name, with_epsilon = "planned total epsilon", partial(_with_total, estimator, X, y, delta, names)
        else:
            name, with_epsilon = names[0], partial(_with_parameter, estimator, names[0])
        guess = DummyClassifier(strategy="prior") if is_classifier(estimator) else DummyRegressor()
        scores, reports = _vary(score, with_epsilon, splits, name, epsilons, n_repeats, label if verbose else None)
        is_of_all = is_total or all(_is_of_all(report, epsilon, owners[0]) for epsilon, report in reports)
        unmet = "" if is_total else _said_of_unmet(_not_met(reports, owners[0]))
        return cls(
            epsilons=epsilons,
            scores=scores,
            label=label,
            hides=_hidden([report for _, report in reports], owners, _holders(estimator, names[0]), alone=not is_of_all)
            + unmet,
            is_total=is_total,
            spent=max(_times_spent(report, epsilon) for epsilon, report in reports) if is_total else 1.0,
            step="" if is_of_all else _step(estimator, names[0]),
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

        What the epsilons hide is told if the search has a refit, which records it, and did not vary it. Without a refit
        nobody knows what else each fit released: the axis says that epsilon is of one release of a step alone. It says
        so as well where candidates differ in more than numbers and parameters of that step.

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
            param_name = _only(private, "The search varied {} with a parameter `epsilon`")
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
        owner = None if model is None else _owner(model, param_name)
        searched = getattr(search, "estimator", model)
        varied = [] if searched is None else [params for params in results["params"] if param_name in params]
        for params in varied:
            others = {name: clone(value, safe=False) for name, value in params.items()}
            _check_is_not_searched(clone(searched).set_params(**others), param_name)
        if label is None:
            label = param_name.rpartition("__")[0] if owner is None else type(owner).__name__
        best = search.best_params_.get(param_name) if hasattr(search, "best_estimator_") else None
        # What else a search varies may change what a candidate guarantees, and only the refit states that.
        is_known = best is not None and is_of_library(owner) and set().union(*results["params"]) == {param_name}
        told = {"parameter": param_name}
        if is_known:
            report = privacy_report(search.best_estimator_)
            is_of_all = _is_of_all(report, best, owner)
            hides = _hidden([report], [owner], _holders(model, param_name), alone=not is_of_all)
            hides += _said_of_unmet([*_not_met([(best, report)], owner), *_out_of_reach(epsilons, report, owner)])
            told = {"hides": hides, "step": "" if is_of_all else _step(model, param_name)}
        return cls(
            epsilons=epsilons,
            scores=scores[best_first[first], None],
            label=label,
            **told,
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
        ax = _axes(ax)
        epsilon, of_what = self._of_what()
        named = _wrap(", ".join(filter(None, (label or self.label, of_what, self.hides)))) or None
        style = _next_style(ax, self.hides, epsilon) | {"label": named} | line_options
        mean = self.scores.mean(axis=(1, 2))
        (self.line_,) = ax.plot(self.epsilons, mean, **style)
        colour = self.line_.get_color()
        self.band_ = ax.fill_between(self.epsilons, mean - width, mean + width, color=colour, alpha=0.25, linewidth=0)
        _draw_level(ax, self.reference_score, "not private", color=ax.xaxis.label.get_color(), linestyle="--")
        _draw_level(ax, self.chance_score, "chance", color="0.5", linestyle=":")
        caveat = "" if public_data else f"\n{_CAVEAT}"
        _finish(ax, xlabel=_epsilon_of(ax, "epsilon of one release") + caveat, ylabel=f"{self.score_name}\n{described}")
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
        if self.step:
            return _ALONE.format(self.step), "one release alone"
        if not self.is_total:
            return _EPSILON, ""
        if self.spent <= _AS_PLANNED:
            return _TOTAL, ""
        if math.isinf(self.spent):
            return f"planned {_TOTAL}\n(the total of some fits is not known)", "planned total, not known of all fits"
        times = f"spent up to {printed_up(self.spent)} times"
        return f"planned {_TOTAL}\n(some fits {times} as much)", f"planned total, {times} as much"

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
            mean = f"{name} = {epsilon:g}, mean score {scores[-1].mean():.4g}"
            print(f"{announce}, {len(scores)} of {len(epsilons)}: {mean}", flush=True)
    return np.array(scores), reports


def _with_parameter(estimator, name, epsilon, splits):
    """Yield a clone with an epsilon, and the places of the folds that it is for."""
    yield clone(estimator).set_params(**{name: epsilon}), list(range(len(splits)))


def _with_total(estimator, X, y, delta, names, epsilon, splits):
    """Yield a clone with a total epsilon for each kind of folds to fit to, and the places of those of that kind.

    The number of rows sets noise, and that of the classes of each output how many models an ensemble fits, and which.
    """
    classes = is_classifier(estimator)
    kinds = [(len(train), *(_n_classes(_safe_indexing(y, train)) if classes else ())) for train, _ in splits]
    for kind in dict.fromkeys(kinds):
        places = [place for place, one in enumerate(kinds) if one == kind]
        train = splits[places[0]][0]
        rows, labels = _safe_indexing(X, train), _safe_indexing(y, train)
        try:
            model = set_budget(clone(estimator), rows, labels, epsilon=epsilon, delta=delta)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The total of several releases ({', '.join(names)}) cannot be set: {error} Or name the one to vary by "
                "param_name."
            ) from error
        yield model, places


def _n_classes(y):
    """Number of classes of each output."""
    return [len(np.unique(labels)) for labels in np.atleast_2d(np.transpose(y))]


class PrivacyProfileDisplay:
    """The delta of a guarantee at each epsilon, its target, and the bound that an audit has found.

    A guarantee (epsilon, delta) is one point of a curve: at a smaller epsilon the same release has a larger delta. A
    sound audit lies left of the curve; one that does not refutes the guarantee.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        Where the profile was computed, increasing.
    deltas : ndarray of shape (n_epsilons,)
        The profile.
    target : tuple of two floats
        The guarantee as stated: epsilon, delta.
    audited_epsilon : float or None, default=None
        Lower bound on epsilon, at the delta of the target, by an audit.
    label : str or None, default=None
        Name of the guarantee.
    void : str, default=""
        What a guarantee is given, and its mark if it was seeded or violated: they follow every other name that
        :meth:`plot` is told.
    hides : str, default=""
        What the epsilon is for, in few words, named on its axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where the last :meth:`plot` drew.
    figure_ : matplotlib Figure
        The figure of `ax_`.
    line_ : matplotlib Line2D
        The profile.

    See Also
    --------
    PrivacyUtilityDisplay : What epsilon costs on your data.

    Examples
    --------
    >>> from skdprp import DPOPORP, PrivacyProfileDisplay
    >>> sketch = DPOPORP(2, epsilon=1.0, delta=1e-6).fit([[0.0, 1.0]])
    >>> display = PrivacyProfileDisplay.from_estimator(sketch, epsilons=[0.5, 1.0, 2.0])
    >>> [f"{delta:.1e}" for delta in display.frame()["delta"]]
    ['1.9e-03', '1.0e-06', '1.1e-18']
    >>> display.plot().ax_.get_yscale()
    'log'
    """

    def __init__(self, *, epsilons, deltas, target, audited_epsilon=None, label=None, void="", hides=""):
        self.epsilons = epsilons
        self.deltas = deltas
        self.target = target
        self.audited_epsilon = audited_epsilon
        self.label = label
        self.void = void
        self.hides = hides

    @classmethod
    def from_guarantee(cls, guarantee, *, epsilons=None, label=None):
        """Compute the profile of a guarantee.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            ``guarantee_`` of a fitted estimator, or what `compose` returned.
        epsilons : array-like of float or None, default=None
            Where to compute; None is 121 values from a twentieth to three times the guarantee's epsilon, with it among
            them.
        label : str or None, default=None
            Name; None is the guarantee's repr.

        Returns
        -------
        PrivacyProfileDisplay

        Raises
        ------
        ValueError
            If `epsilons` is None and the guarantee's is infinite, an epsilon is not positive, or the guarantee is none
            of differential privacy.
        """
        if epsilons is None:
            epsilons = guarantee.epsilon * np.append(1.0, np.geomspace(0.05, 3.0, 120))
        epsilons = _increasing(epsilons)
        return cls(
            epsilons=epsilons,
            deltas=np.array([guarantee.profile(float(epsilon)) for epsilon in epsilons]),
            target=(guarantee.epsilon, guarantee.delta),
            audited_epsilon=guarantee.audited_epsilon,
            label=f"{label}, {_in_short(guarantee)}" if label else repr(guarantee),
            void=condition_and_marks(guarantee),
            hides=neighbours_of(guarantee),
        )

    @classmethod
    def from_estimator(cls, estimator, *, epsilons=None, label=None):
        """Compute the profile of the guarantee of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `guarantee_`.
        epsilons : array-like of float or None, default=None
            Where to compute, see :meth:`from_guarantee`.
        label : str or None, default=None
            Name; None is the class of the estimator and the guarantee's repr.

        Returns
        -------
        PrivacyProfileDisplay

        Raises
        ------
        TypeError
            If it is a Pipeline, or no estimator.
        NotFittedError
            If it has no guarantee.
        ValueError
            If its guarantee was set after the fit.
        """
        if isinstance(estimator, Pipeline):
            raise TypeError(
                "The guarantee of a Pipeline depends on all its steps: pass privacy_report(pipeline).total to "
                "from_guarantee, or the private step alone, pipeline[-1]."
            )
        check_is_fitted(estimator, "guarantee_", msg="%(name)s has no guarantee_: it is not fitted, or not private.")
        if not is_as_stated(estimator):
            raise ValueError(f"{SET_LATER}.")
        guarantee = guarantee_shown(estimator)
        display = cls.from_guarantee(guarantee, epsilons=epsilons, label=label)
        if not label:
            display.label = f"{type(estimator).__name__}, {guarantee!r}"
        return display

    def plot(self, ax=None, *, label=None, **line_options):
        """Draw delta against epsilon, with the target as a large marker and the audited bound as an arrow to the right.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure. Draw several displays on one axis to compare guarantees.
        label : str or None, default=None
            Name of the curve in the legend; None is the one of the display.
        **line_options
            Passed on to ``ax.plot``.

        Returns
        -------
        PrivacyProfileDisplay
            Itself, with `ax_`, `figure_` and `line_`.
        """
        ax = _axes(ax)
        # The scale ends at the least positive delta: of this target, and of those that are on the axis already.
        targets = [line.get_ydata()[0] for line in ax.lines if line.get_gid() == _TARGET]
        floor = min(delta for delta in (_LEAST_DELTA, self.target[1], *targets) if delta > 0)
        # In parts of the diagonal, and off the markers of curves that may coincide with this one.
        drawn = len(_curves(ax))
        apart = 0.2 * (drawn % len(_MARKERS) + 0.5) / len(_MARKERS), 0.2
        named = _wrap(", ".join(filter(None, (label, self.hides)))) + self.void if label else self.label
        style = _next_style(ax, self.hides) | {"label": named, "markevery": apart} | line_options
        # A delta of 0 has no place on a logarithmic scale: the curve leaves it at the bottom.
        (self.line_,) = ax.plot(self.epsilons, np.maximum(self.deltas, np.finfo(float).tiny), **style)
        at_target = {"color": self.line_.get_color(), "linestyle": "none", "clip_on": False, "zorder": 3}
        hollow = {"marker": style["marker"], "markersize": 10, "markerfacecolor": "none"}
        epsilon, delta = self.target
        ax.plot(epsilon, max(delta, floor), gid=_TARGET, **hollow, **at_target)
        if self.audited_epsilon is not None:
            audited = f"audited: epsilon at least {printed_down(self.audited_epsilon)}"
            ax.plot(self.audited_epsilon, max(delta, floor), marker=">", markersize=9, label=audited, **at_target)
        ax.set(yscale="log", ylim=(floor, 1))
        _finish(ax, xlabel=_epsilon_of(ax, "epsilon"), ylabel="delta (large markers: the guarantee as stated)")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def frame(self):
        """Return the profile as a tidy table.

        Returns
        -------
        pandas.DataFrame
            One row for each epsilon, with the columns guarantee, epsilon and delta.
        """
        import pandas as pd

        return pd.DataFrame({"guarantee": self.label, "epsilon": self.epsilons, "delta": self.deltas})
