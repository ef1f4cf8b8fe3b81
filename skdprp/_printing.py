"""How guarantees, audits and reports are printed: as one line, as text, as Markdown and as HTML."""

import html
import math
import re
import textwrap
from fractions import Fraction

from ._adjacency import Relation, Unit
from ._digits import printed_down, printed_up

# (in one line, as a sentence) of each relation between two neighbours
_NEIGHBOURS = {
    Relation.COORDINATE: ("one coordinate changed by {}", "rows that differ in one coordinate, by at most {}"),
    Relation.L1: ("l1 change of {}", "rows at l1 distance at most {} (covers one coordinate changed by that much)"),
    Relation.L2: ("l2 change of {}", "rows at l2 distance at most {}"),
    Relation.REPLACE_ONE: (
        "one row replaced",
        "data sets that differ in one row and its label or target, in the same position",
    ),
    Relation.ADD_REMOVE: (
        "one row blank or not",
        "data sets that differ in one position: a row and its label or target in the one, a blank in the other",
    ),
    Relation.ENTRY: (
        "one entry of at most {}",
        "any value of one entry, of absolute value at most {}; all others and y are known",
    ),
}
_NEIGHBOURS_OF_PERSONS = {
    Relation.REPLACE_ONE: (
        "one person replaced",
        "data sets that differ in all rows of one person, however many in each, and their labels or targets",
    ),
    Relation.ADD_REMOVE: (
        "one person blank or not",
        "data sets that differ in one person: all of its rows and their labels or targets in the one, a blank in the "
        "other",
    ),
}
_NEIGHBOURS_OF_OTHERS = {
    Relation.REPLACE_ONE: ("{unit} replaced", "data sets that differ in {unit}, which another one replaces"),
    Relation.ADD_REMOVE: ("{unit} blank or not", "data sets that differ in {unit}, which is blank in the other"),
}
# Whoever states a distance may not know the maps before: a change of 1 in what enters a scaler may leave it as 100.
AS_THEY_REACH_IT = "as they reach each release"
RELEASED_AT = {
    "fit": "anew at each call of fit",
    "transform": "anew at each call of transform (with dask: each time that the sketches are computed)",
}
_DIGEST = re.compile(r" \(map [0-9a-f]{12}\)")  # by which reports tell maps of one name apart: too long for one line
_CELL = "text-align:left;vertical-align:top"
_FRAME = (
    "display:inline-block;border:2px solid currentColor;border-radius:4px;padding:.4em .8em;margin:.3em 0;"
    "max-width:46em;font-size:90%"
)


def wrap(text, indent):
    """Wrap a line at 100 columns, the lines after the first indented."""
    return textwrap.fill(
        text, width=100, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def as_html(title, facts):
    """Return a framed table of facts as HTML, in the colours of the page around it; names and texts are escaped."""
    rows = ""
    for name, fact in facts.items():
        if isinstance(fact, str):
            cell = html.escape(fact)
        else:
            items = "".join(f"<li>{html.escape(text)}</li>" for text in _each_once(fact))
            cell = f"<ul style='margin:0;padding-left:1.2em'>{items}</ul>"
        rows += (
            f"<tr><th style='{_CELL};padding-right:1em'>{html.escape(name)}</th><td style='{_CELL}'>{cell}</td></tr>"
        )
    return f"<div style='{_FRAME}'><strong>{html.escape(title)}</strong><table>{rows}</table></div>"


def as_markdown(facts):
    """Return facts as a table in Markdown, for model cards."""
    rows = ["| Privacy | |", "| --- | --- |"]
    for name, fact in facts.items():
        lines = [fact] if isinstance(fact, str) else [f"- {text}" for text in _each_once(fact)]
        cell = "<br>".join(line.replace("|", r"\|").replace("\n", " ") for line in lines)
        rows.append(f"| {name} | {cell} |")
    return "\n".join(rows)


def as_text(facts, width=12):
    """Return facts as lines, each beside its name of this width; those of a list go on lines of their own."""
    return "\n".join(_lines(name.ljust(width), fact) for name, fact in facts.items())


def _lines(beside, fact):
    if isinstance(fact, str):
        return wrap(beside + fact, indent=len(beside))
    blank = " " * len(beside)
    items = (wrap(f"{blank}- {text}", indent=len(beside) + 2) for text in _each_once(fact))
    return beside + "\n".join(items).removeprefix(blank)


def _each_once(texts):
    """Join lines that say the same of several steps: "a: ..." and "a, b: ..." as "a, b: ..."."""
    said_of = {}
    for text in texts:
        steps, colon, said = text.partition(": ")
        said_of.setdefault(colon + said or text, []).extend(steps.split(", ") if colon else [])
    return [", ".join(dict.fromkeys(steps)) + said for said, steps in said_of.items()]


def _neighbours(relation, unit, bound):
    """How neighbours differ, in one line and as a sentence."""
    if unit == Unit.PERSON:
        return _NEIGHBOURS_OF_PERSONS[relation]
    if unit != Unit.ROW and relation in _NEIGHBOURS_OF_OTHERS:
        return tuple(text.format(unit=unit) for text in _NEIGHBOURS_OF_OTHERS[relation])
    within = f", within {unit}" * (unit != Unit.ROW and relation != Relation.ENTRY)
    return tuple(text.format(bound) + within for text in _NEIGHBOURS[relation])


def neighbours_sentence(adjacency, unit=Unit.ROW):
    """Say in full which data sets are neighbours; of those at a distance, where it is measured."""
    compared = f", {_where_compared(adjacency.after)}" if adjacency.is_distance else ""
    return _neighbours(adjacency.relation, unit, adjacency.bound)[1] + compared


def _where_compared(maps):
    return f"as they leave {maps}" if maps else AS_THEY_REACH_IT


def neighbours_in_short(relation, bound, unit=Unit.ROW):
    """Say in a few words how neighbours differ."""
    return _neighbours(relation, unit, bound)[0]


def neighbours_of(guarantee):
    """Say in a few words how the neighbours of a guarantee differ, and where; "" if it does not state that."""
    adjacency = guarantee.adjacency
    if adjacency is None:
        return ""
    where = f" of rows as they leave {_DIGEST.sub('', adjacency.after)}" if adjacency.after else ""
    return neighbours_in_short(adjacency.relation, adjacency.bound, guarantee.unit) + where


def guarantee_line(guarantee):
    """State a guarantee in one line that says whose privacy it is: a pair of numbers alone could be anybody's."""
    epsilon, delta = printed_up(guarantee.epsilon, digits=6), printed_up(guarantee.delta)
    return "".join(
        [
            f"({epsilon}, {delta})" if guarantee.delta else epsilon,
            f"-{guarantee.definition}",
            " per transform" if guarantee.per == "transform" else "",
            ", ",
            neighbours_of(guarantee) or "neighbours not stated",
            condition_and_marks(guarantee),
        ]
    )


def condition_and_marks(guarantee):
    """Say what both neighbours have in common besides, and why a guarantee does not hold: after every name of it."""
    return (f", given {guarantee.given}" if guarantee.given else "") + void_marks(guarantee)


def void_marks(guarantee):
    """Say of a guarantee that does not hold why; of any other, nothing."""
    violated = f" [VIOLATED: {guarantee.violation}]" if guarantee.violation else ""
    return violated + " [seeded: not private]" * guarantee.seeded


def guarantee_facts(guarantee):
    """Name every fact of a guarantee that is known, those first that say most to somebody who reads no further."""
    facts = {
        "guarantee": guarantee_line(guarantee),
        "best guess": best_guess_line(guarantee),
        "unit": unit_line(guarantee),
        "neighbours": neighbours_sentence(guarantee.adjacency, guarantee.unit) if guarantee.adjacency else "",
        "hides": _hidden(guarantee),
        "given": given_sentence(guarantee),
        "released": "; ".join(filter(None, [guarantee.released, RELEASED_AT.get(guarantee.per)])),
        "assumed": guarantee.assumptions or "nothing",
        "not covered": guarantee.not_covered,
        "mechanism": ": ".join(filter(None, [method_line(guarantee), guarantee.mechanism])),
        "source": guarantee.source,
        "audited": _audited(guarantee),
    }
    return {name: fact for name, fact in facts.items() if fact}


def unit_line(guarantee):
    """Name what is protected; of a row, whether all of it is or a bounded change."""
    adjacency = guarantee.adjacency
    if adjacency is None or guarantee.unit != Unit.ROW:
        return guarantee.unit
    return "a bounded change within one row" if adjacency.is_distance else "one row with its label or target"


def given_sentence(guarantee):
    """Say in full what neighbours have in common besides; "" if nothing."""
    return f"both neighbours have {guarantee.given} in common" if guarantee.given else ""


def method_line(guarantee):
    """Say how a total was computed; of what is no total, nothing."""
    return f"{guarantee.method} of {guarantee.n_releases} releases" if guarantee.method else ""


def _hidden(guarantee):
    if guarantee.hides is None:
        return ""
    right = "the best guess is right in at most 75 of 100 cases"
    if guarantee.hides == 0:
        return "nothing for sure: the best guess may be right in more than 75 of 100 cases, however small a change is"
    adjacency = guarantee.adjacency
    change = neighbours_in_short(adjacency.relation, f"at most {printed_down(guarantee.hides)}")
    if guarantee.hides == math.inf:
        change = "any change of one coordinate" if adjacency.relation == Relation.COORDINATE else "any change"
    return f"{change} of rows {_where_compared(_DIGEST.sub('', adjacency.after))}: {right}"


def best_guess_line(guarantee):
    """Say how often somebody who tries to tell two neighbours apart is right."""
    if guarantee.seeded:
        return "always right: the noise can be drawn again from its seed"
    if guarantee.violation:
        return "not bounded: the guarantee is violated"
    if guarantee.guess_probability is None:
        return "not bounded by this definition"
    right = _percent_up(guarantee.guess_probability)
    return f"an attacker who thinks both neighbours equally likely is right in at most {right} of 100"


def _percent_up(probability):
    """Print a probability as percent, rounded up to a tenth, or to as many digits as tell it from certainty."""
    percent = 100 * Fraction(probability)
    for digits in range(1, 16):  # as many as floats below 1 have
        rounded = math.ceil(percent * 10**digits)
        if rounded < 100 * 10**digits:
            whole, fraction = divmod(rounded, 10**digits)  # in no context of decimal, whose precision is the caller's
            return f"{whole}.{fraction:0{digits}d}"
    return "100.0"


_ATTACKED_ROWS = "assumed: their rows are public or made up"


def _audited(guarantee):
    if guarantee.violation:
        return f"VIOLATED: attacks show that {guarantee.violation}"
    if guarantee.audited_epsilon is None:
        return ""
    if guarantee.audited_epsilon == 0:
        return f"nothing shown: no attack told two neighbours apart at this delta; {_ATTACKED_ROWS}"
    shown = printed_down(guarantee.audited_epsilon)
    return f"attacks show that epsilon is at least {shown} at this delta; {_ATTACKED_ROWS}"


def violation_line(shown, epsilon, delta):
    """Say that an attack has shown more than a guarantee of (epsilon, delta) allows, with digits enough to see it."""
    numbers = ((printed_down(shown, digits), printed_up(epsilon, digits)) for digits in range(3, 17))
    exact = str(shown), str(epsilon)
    shown, stated = next((pair for pair in numbers if float(pair[0]) > float(pair[1])), exact)
    return f"epsilon is at least {shown} at delta={delta}, where {stated} is guaranteed"
