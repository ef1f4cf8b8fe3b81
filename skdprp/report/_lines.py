"""The lines of a report, and how it is printed."""

import html
import textwrap
from dataclasses import dataclass

from .._printing import as_html, as_text, best_guess_line, given_sentence, method_line, neighbours_sentence, unit_line
from ..guarantee import PrivacyGuarantee

INFERRED = "inferred from the fitted object (a PrivacyLedger records releases as they happen)"
PLANNED = "what a fit will release; this report released none of it"
_DATA_INDEPENDENT = "data-independent"
_WIDTH, _LEAST_WIDTH = 120, 36  # of the text, and of guarantees in it where names of steps are long
_COLUMNS = ("step", "estimator", "status", "releases", "guarantee", "remark")


@dataclass(frozen=True)
class ReportedStep:
    """One line of a :class:`~skdprp.report.PrivacyReport`.

    Parameters
    ----------
    step : str
        Where the step is.
    estimator : str
        What it is.
    status : {"private", "post-processing", "data-independent", "not covered"}
        "private" steps randomise what private rows tell; "post-processing" sees only what they released; a
        "data-independent" step treats each row by itself and learns nothing.
    remark : str, default=""
        Why, or what else to know.
    guarantee : PrivacyGuarantee or None, default=None
        The guarantee of one release of a private step.
    releases : int, default=0
        How many such releases one row is in; 0 if that is not known.
    calls : int, default=0
        How many calls made releases, of this row or others: each is an entry of a ledger that was open.
    """

    step: str
    estimator: str
    status: str
    remark: str = ""
    guarantee: PrivacyGuarantee | None = None
    releases: int = 0
    calls: int = 0

    def cells(self):
        """Texts of the columns of the report.

        Returns
        -------
        tuple of str
        """
        counted = str(self.releases) if self.releases else ""
        guarantee = "" if self.guarantee is None else repr(self.guarantee)
        return self.step, self.estimator, self.status, counted, guarantee, self.remark


@dataclass(frozen=True)
class PrivacyReport:
    """What an estimator released and what that costs, step by step: see :func:`~skdprp.privacy_report`.

    Parameters
    ----------
    steps : tuple of ReportedStep
        The lines of the table.
    private : PrivacyGuarantee or None
        What all private steps cost one row together; None if there is none, if that is not known, or if a ledger counts
        other releases.
    not_covered : tuple of str
        What is released besides, under no guarantee.
    counted : str, default="inferred from the fitted object"
        How the releases were counted.
    is_plan : bool, default=False
        Whether it is about a fit to come.
    """

    steps: tuple[ReportedStep, ...]
    private: PrivacyGuarantee | None
    not_covered: tuple[str, ...]
    counted: str = INFERRED
    is_plan: bool = False

    @property
    def total(self):
        """What the whole guarantees: None as soon as something is not covered."""
        return None if self.not_covered else self.private

    def frame(self):
        """Return the table as a data frame.

        Returns
        -------
        DataFrame of pandas
        """
        import pandas as pd

        return pd.DataFrame([step.cells() for step in self.steps], columns=_COLUMNS)

    def __repr__(self):
        remarks = _remarks(step for step in self._printed() if step.remark)
        totals, facts = self._totals(), ({"remarks": remarks} if remarks else {}) | self._details()
        width = max(map(len, totals | facts)) + 2
        lines = _lines([_COLUMNS[:-1], *(step.cells()[:-1] for step in self._printed())])
        return "\n".join([as_text(totals, width), "", *lines, "", as_text(facts, width)])

    def _repr_html_(self):
        head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in _COLUMNS)
        rows = (
            "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in cells)
            for cells in (step.cells() for step in self._printed())
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><tr>{head}</tr>{body}</table>"
        return as_html("Privacy of the whole", self._totals()) + table + as_html("Details", self._details())

    def _printed(self):
        """All steps but the data-independent ones, of which a wide table has dozens that say the same."""
        return [step for step in self.steps if step.status != _DATA_INDEPENDENT]

    def _totals(self):
        """What holds of the whole, above the table."""
        totals = {"total": "none" if self.total is None else repr(self.total)}
        if self.not_covered:
            totals["private steps alone"] = "none" if self.private is None else repr(self.private)
        if self.total is not None:
            totals["best guess"] = best_guess_line(self.total)
        return totals if self.private is None else totals | {"unit": unit_line(self.private)}

    def _details(self):
        """What else is to be known of the whole, under the names that a printed guarantee has for it."""
        facts = {_DATA_INDEPENDENT: _remarks(step for step in self.steps if step.status == _DATA_INDEPENDENT)}
        uncovered = self.not_covered
        if self.private is not None:
            adjacency = self.private.adjacency
            facts["neighbours"] = neighbours_sentence(adjacency, self.private.unit) if adjacency else "not stated"
            facts["given"] = given_sentence(self.private)
            facts["released"] = self.private.released
            facts["assumed"] = self.private.assumptions
            uncovered += self.private.not_covered
        facts["not covered"] = tuple(dict.fromkeys(uncovered))
        if self.private is not None:
            facts["mechanism"] = method_line(self.private) or self.private.mechanism
            facts["counted"] = self.counted
        return {name: fact for name, fact in facts.items() if fact}


def _remarks(steps):
    """What else is to be known of steps, each remark once, after the names of its steps."""
    names = {}
    for step in steps:
        names.setdefault(step.remark, {})[step.step] = None
    return tuple(f"{', '.join(of_steps)}: {remark}" for remark, of_steps in names.items())


def _lines(table):
    """Lines of a table, of which the last column is wrapped."""
    *columns, _ = zip(*table, strict=True)
    widths = [max(map(len, column)) + 2 for column in columns]
    blank, left = " " * sum(widths), max(_WIDTH - sum(widths), _LEAST_WIDTH)
    for *cells, last in table:
        beside = "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        wrapped = textwrap.wrap(last, left, break_long_words=False, break_on_hyphens=False)
        yield (beside + f"\n{blank}".join(wrapped)).rstrip()
