"""Arguments of the command, and what it printed."""

import re

FIT = ["fit", "points.csv", "--target", "kind"]
SPARSE_FIT = ["fit", "points.svm", "--n-features", "4", "--default-bounds", "-8", "8"]
BOUNDS = ["--bounds", "a=-3:7", "b=-3:7", "--default-bounds", "-4", "8"]


def printed(text):
    """Return the figures of the printed table by the first word of their line."""
    rows = re.findall(r"^ +(not private|chance|[\d.]+)((?: +[\d.]+)+)$", text, flags=re.MULTILINE)
    return {name: [float(figure) for figure in figures.split()] for name, figures in rows}


def printed_scores(text, head):
    """Return the figures of the printed table of scores by the name of the model."""
    rows = re.findall(
        r"^ +(private|same bins|not private|constant)((?: +\S+)+)$", text.split(head)[1], flags=re.MULTILINE
    )
    return {name: [float(figure) for figure in figures.split()] for name, figures in rows}
