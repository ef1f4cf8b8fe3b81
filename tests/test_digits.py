"""Bounds in print, against exact arithmetic."""

import decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdprp import AMPClassifier
from skdprp._digits import printed_down, printed_up

NUMBERS = [*np.exp(np.random.default_rng(0).uniform(-60, 60, 1000)).tolist(), np.nextafter(1.0, 2), 1 - 2.0 ** (-53)]


@pytest.mark.parametrize("digits", [2, 3, 4])
def test_bounds_are_printed_on_their_safe_side(digits):
    for number in NUMBERS:
        low, high = (Fraction(printed(number, digits)) for printed in (printed_down, printed_up))
        assert low <= Fraction(number) <= high <= low * (1 + Fraction(10) ** (1 - digits))


@pytest.mark.parametrize("printed", [printed_down, printed_up])
@pytest.mark.parametrize("text", ["1e-06", "1.0", "0.1", "12.75", "0.123456", "0.0", "2", "inf"])
def test_what_was_asked_prints_as_asked(printed, text):
    assert printed(int(text) if text == "2" else float(text)) == text


@pytest.mark.parametrize(
    ("number", "up", "down"),
    [(9.9996e-07 + 1e-20, "1e-06", "9.99e-07"), (1.0000000000000002, "1.01", "1.0"), (99.95001, "100.0", "99.9")],
)
def test_rounding_carries(number, up, down):
    assert (printed_up(number), printed_down(number)) == (up, down)


@given(st.floats(5e-324, allow_infinity=False), st.integers(2, 17))
def test_printed_bounds_are_on_their_sides(number, digits):
    assert float(printed_down(number, digits)) <= number <= float(printed_up(number, digits))
    assert printed_up(np.float64(number), digits) == printed_up(number, digits)


def test_no_context_of_decimals_changes_what_is_printed():
    """Neither its precision nor its traps, which the caller may have set; nor are its flags raised."""
    numbers = [1 / 3, 1e-6, 5e-324, 1.7e308, 0.1234567]
    usual = [(printed_up(number), printed_down(number)) for number in numbers]
    with decimal.localcontext(prec=2, rounding=decimal.ROUND_UP, Emin=-3, Emax=3) as context:
        context.clear_flags()  # which others have raised
        context.traps.update(dict.fromkeys(context.traps, True))
        assert [(printed_up(number), printed_down(number)) for number in numbers] == usual
        assert not any(context.flags.values())


X60 = np.random.default_rng(0).normal(size=(60, 3))


Y60 = np.arange(60) % 2


def test_traps_of_the_caller_for_decimals_end_no_fit():
    """A context that traps what is inexact is for the numbers of the caller."""
    context = decimal.Context(prec=9, traps=[decimal.Inexact])
    with decimal.localcontext(context):
        model = AMPClassifier(epsilon=1.23456789, delta=1e-3, classes=[0, 1]).fit(X60, Y60)
        assert "1.23" in repr(model.guarantee_)
