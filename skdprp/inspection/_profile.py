"""The curve of a guarantee: its delta at each epsilon."""

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._calibration import SET_LATER, is_as_stated
from .._digits import printed_down
from .._printing import condition_and_marks, neighbours_of
from ..report._structure import guarantee_shown
from ._axes import MARKERS, axes_of, curves, epsilon_of, finish, legend_label, next_style
from ._parameters import increasing
from ._stated import in_short

_LEAST_DELTA = 1e-12
_TARGET = "guarantee as stated"


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
            Where to compute; None is 241 values from a twentieth to three times the guarantee's epsilon, with it among
            them.
        label : str or None, default=None
            Name; None is the guarantee's repr.

        Returns
        -------
        PrivacyProfileDisplay

        Raises
        ------
        ValueError
            If `epsilons` is None and the guarantee's is 0 or infinite, an epsilon is not positive, or the guarantee is
            none of differential privacy.
        """
        if epsilons is None:
            if not 0 < guarantee.epsilon < np.inf:
                raise ValueError(f"Say at which epsilons to draw {guarantee!r}: epsilons=[...].")
            epsilons = guarantee.epsilon * np.append(1.0, np.geomspace(0.05, 3.0, 240))
        epsilons = increasing(epsilons)
        return cls(
            epsilons=epsilons,
            deltas=np.array([guarantee.profile(float(epsilon)) for epsilon in epsilons]),
            target=(guarantee.epsilon, guarantee.delta),
            audited_epsilon=guarantee.audited_epsilon,
            label=f"{label}, {in_short(guarantee)}" if label else repr(guarantee),
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
        ax = axes_of(ax)
        # The scale ends at the least positive delta: of this target, and of those that are on the axis already.
        targets = [line.get_ydata()[0] for line in ax.lines if line.get_gid() == _TARGET]
        floor = min(delta for delta in (_LEAST_DELTA, self.target[1], *targets) if delta > 0)
        # In parts of the diagonal, and off the markers of curves that may coincide with this one.
        drawn = len(curves(ax))
        apart = 0.2 * (drawn % len(MARKERS) + 0.5) / len(MARKERS), 0.2
        named = legend_label(label, self.hides) + self.void if label else self.label
        # Between two points the delta is at most that of the first: a straight line could pass below the profile.
        steps = {"drawstyle": "steps-post", "label": named, "markevery": apart}
        style = next_style(ax, self.hides) | steps | line_options
        # A delta of 0 has no place on a logarithmic scale: the curve leaves it at the bottom.
        (self.line_,) = ax.plot(self.epsilons, np.maximum(self.deltas, np.finfo(float).tiny), **style)
        at_target = {"color": self.line_.get_color(), "linestyle": "none", "zorder": 3}
        hollow = {"marker": style["marker"], "markersize": 10, "markerfacecolor": "none"}
        epsilon, delta = self.target
        # An epsilon of 0 has no place on the axis, and would stretch the figure.
        ax.plot(epsilon, max(delta, floor), gid=_TARGET, clip_on=epsilon == 0, **hollow, **at_target)
        if self.audited_epsilon is not None:
            shown = self.audited_epsilon > 0
            audited = f"epsilon at least {printed_down(self.audited_epsilon)}" if shown else "nothing shown"
            known = {"marker": ">", "markersize": 9, "clip_on": not shown, "label": f"audited: {audited}"}
            ax.plot(self.audited_epsilon, max(delta, floor), **known, **at_target)
        ax.set(yscale="log", ylim=(floor, 1))
        finish(ax, xlabel=epsilon_of(ax, "epsilon"), ylabel="delta (large markers: the guarantee as stated)")
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
