"""Axes over epsilon: curves of their own colours and markers, levels, legends, and whose privacy an axis says."""

import textwrap

import numpy as np

from .._digits import printed_up

# Five colours that differ for every kind of colour vision, on white and on black, and as many markers and more, so
# that colour is never the only sign; from P. Tol's "vibrant" scheme.
_COLOURS = ("#0077BB", "#EE7733", "#009988", "#CC3311", "#EE3377")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_CURVE, _LEVEL = "privacy curve", "score without a curve"
EPSILON, TOTAL = "epsilon", "total epsilon of all private steps"
# In lines that narrow axes have room for. Splits may look at labels, and a row is in several folds.
_CAVEAT = (
    "computed from the data without protection:\nthis curve is not private;\n"
    "each epsilon is of one fit, for the rows of its fold"
)
_MOST_TICKS = 12
_WIDTH = 78  # characters of a line, which a figure of the usual size has room for


def axes_of(ax):
    """Return an axis, or that of a new figure for None."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Plots need matplotlib: python -m pip install "skdprp[plot]"') from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def next_style(ax, hides, epsilon=EPSILON):
    """Colour and marker of the next curve on an axis, which other displays may have drawn on, and what it says."""
    drawn = len(curves(ax))
    colour, marker = _COLOURS[drawn % len(_COLOURS)], MARKERS[drawn % len(MARKERS)]
    return {"color": colour, "marker": marker, "markersize": 5, "gid": f"{_CURVE}: {epsilon}: {hides}"}


def curves(ax):
    """Return the curves on an axis, whose identifiers say of what their epsilons are, and what they hide."""
    return [line for line in ax.lines if (line.get_gid() or "").startswith(_CURVE)]


def epsilon_of(ax, otherwise):
    """Say whose privacy the epsilons of an axis are about: two curves of a row and of a pixel are no contest."""
    # What is hidden comes last: marks and units of one's own may hold the same characters.
    names, hidden = map(set, zip(*(line.get_gid().split(": ", 2)[1:] for line in curves(ax)), strict=True))
    name = names.pop() if len(names) == 1 else EPSILON
    if len(hidden) > 1 or names - {EPSILON, TOTAL}:
        name = f"{name}, for what each curve says"
    elif any(hidden):
        name = f"{name}, {hidden.pop()}"
    elif name == EPSILON:
        name = otherwise
    return "\n".join(map(_wrap, name.splitlines()))


def legend_label(*parts):
    """Name of a curve in a legend, which leaves out what begins with an underscore."""
    return _wrap(", ".join(filter(None, parts)).lstrip("_"))


def _wrap(line):
    return textwrap.fill(line, _WIDTH, break_long_words=False, break_on_hyphens=False)


def draw_level(ax, score, label, **style):
    """Draw a horizontal line, unless it is there already; only the first of a name is in the legend."""
    levels = [line for line in ax.lines if line.get_gid() == f"{_LEVEL}: {label}"]
    if score is None or any(np.allclose(line.get_ydata(), score) for line in levels):
        return
    ax.axhline(score, gid=f"{_LEVEL}: {label}", label="_" * bool(levels) + label, zorder=1, **style)


def finish(ax, *, xlabel, ylabel, is_public=True):
    """Label an axis over epsilon, with ticks at the points of its curves where they are few and apart.

    What it says of a curve that is not public stays, whatever is drawn after.
    """
    if not is_public or _CAVEAT in ax.get_xlabel():
        xlabel = f"{xlabel}\n{_CAVEAT}"
    figure = ax.figure.canvas.figure
    if figure.get_layout_engine() is None:  # the legend and a label of two lines would be cut off
        figure.set_layout_engine("constrained")
    ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    # Ticks where the points are, as long as their labels do not overlap: at 6% of the width or more.
    low, high = ax.get_xlim()
    points = np.unique(np.concatenate([line.get_xdata() for line in curves(ax)]))
    apart = 1 < len(points) <= _MOST_TICKS and np.diff(np.log(points)).min() > 0.06 * np.log(high / low)
    ax.xaxis.set_major_locator(_locator(points if apart else None, subs=(1, 2, 5) if high < 300 * low else (1,)))
    ax.xaxis.set_minor_locator(_locator([] if apart else None, subs=(2, 5)))
    # Those at points are guarantees, of which nothing is rounded down.
    ax.xaxis.set_major_formatter((lambda x, _: f"{float(printed_up(x, 6)):g}") if apart else "{x:g}")
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
