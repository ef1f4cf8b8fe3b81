"""Threads: all parts at a time, results in order, errors passed on."""

import threading

import pytest

from skdprp._threads import in_threads


def test_parts_run_together_and_come_back_in_order():
    """No part passes the barrier before all have come to it."""
    barrier = threading.Barrier(3, timeout=30)

    def meet(part):
        barrier.wait()
        return part, threading.get_ident()

    parts, threads = zip(*in_threads(meet, iter("abc")), strict=True)
    assert parts == ("a", "b", "c")
    assert len({*threads, threading.get_ident()}) == 4


@pytest.mark.parametrize("parts", [[], [1]])
def test_one_part_stays_in_its_thread(parts):
    assert in_threads(lambda part: threading.get_ident(), parts) == [threading.get_ident()] * len(parts)


def test_an_error_is_raised_once_all_parts_have_ended():
    """Nothing goes on behind the back of the caller."""
    begun, ended = threading.Event(), []

    def fail_or_wait(part):
        if part == "bad":
            begun.wait(30)
            raise ValueError("a bad part")
        begun.set()
        threading.Event().wait(0.1)
        ended.append(part)

    with pytest.raises(ValueError, match="a bad part"):
        in_threads(fail_or_wait, ["bad", "good"])
    assert ended == ["good"]
