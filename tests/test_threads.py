"""Threads: all parts at a time, results in order, errors passed on."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdprp import DPOPORP, AMPClassifier, DPRidge, _noise
from skdprp._threads import _Blas, _Release, in_threads, one_blas_thread


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


def blas_threads():
    """Threads of the BLAS of numpy and scipy: other packages bring one of their own."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {pool["num_threads"] for pool in pools if "scipy_openblas" in pool["filepath"] or len(pools) == 1}


def test_blas_has_one_thread_while_blocks_run_and_then_as_many_as_before():
    """In whichever order blocks of several threads end, and if one raises."""
    seen = []
    with threadpool_limits(3, user_api="blas"):
        with ExitStack() as first, ExitStack() as second:
            first.enter_context(one_blas_thread())
            second.enter_context(one_blas_thread())
            seen.append(blas_threads())
            first.close()
            seen.append(blas_threads())
            with pytest.raises(ValueError, match="of a row"), one_blas_thread():
                raise ValueError("of a row")
            seen.append(blas_threads())
        assert seen == [{1}] * 3 and blas_threads() == {3}


@pytest.mark.parametrize(
    "release",
    [
        lambda X, y: AMPClassifier().fit(X, y),
        lambda X, y: AMPClassifier().fit_chunks([(X, y)]),
        lambda X, y: DPRidge(mechanism="descent", target_bounds=(0, 1)).fit(X, y),
        lambda X, y: DPOPORP(4, delta=0.1).fit_transform(X),
    ],
)
def test_a_release_multiplies_in_its_thread_and_leaves_the_others_as_they_were(release, monkeypatch):
    found, draw = [], _noise.random_bytes
    monkeypatch.setattr(_noise, "random_bytes", lambda size: found.append(blas_threads()) or draw(size))
    with threadpool_limits(3, user_api="blas"):
        release(np.eye(8), np.arange(8) % 2)
        assert blas_threads() == {3}
    assert found and all(threads == {1} for threads in found)


def test_releases_of_other_threads_leave_the_threads_of_blas_as_they_were():
    """Only the main thread sets their number, and while nothing runs: none sees another in the midst of a release."""
    begun, ended = threading.Event(), threading.Event()

    def run():
        with one_blas_thread():
            begun.set()
            ended.wait(30)

    with threadpool_limits(3, user_api="blas"), ThreadPoolExecutor(3) as pool:
        other = pool.submit(run)
        begun.wait(30)
        with one_blas_thread():
            assert blas_threads() == {3}
        ended.set()
        other.result()
        with one_blas_thread():
            assert blas_threads() == {1}
            begun.clear(), ended.clear()
            other = pool.submit(run)
            begun.wait(30)
        assert blas_threads() == {1}  # of the one that still runs
        ended.set()
        other.result()
        with one_blas_thread():
            pass
        X = np.random.default_rng(0).uniform(-1, 1, (200, 8))
        list(pool.map(DPOPORP(4, random_state=0).fit(X).transform, [X] * 20))
        assert blas_threads() == {3}


def test_a_child_of_a_fork_beside_a_release_has_none_of_its_own():
    begun, ended, blas = threading.Event(), threading.Event(), _Blas()

    def run():
        release = _Release()
        blas.begin(release)
        begun.set()
        ended.wait(30)
        blas.end(release)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(run)
        begun.wait(30)
        assert len(blas.running) == 1
        blas.after_fork()
        assert not blas.running
        ended.set()
        other.result()


@pytest.mark.parametrize("interrupted", ["limit", "add", "discard", "restore"])
def test_wherever_a_release_is_interrupted_the_next_one_leaves_all_threads_of_blas(interrupted, monkeypatch):
    """An interrupt just after BLAS has been limited, the release noted or forgotten, or the threads given back."""
    blas = _Blas()
    monkeypatch.setattr("skdprp._threads._BLAS", blas)

    def interrupting(method):
        def _method(*given):
            method(*given)
            if given == (arguments[interrupted] or given):
                raise KeyboardInterrupt

        return _method

    with threadpool_limits(3, user_api="blas"):
        with one_blas_thread():
            pass
        arguments = {"limit": ([1] * len(blas.pools),), "restore": ([3] * len(blas.pools),), "add": (), "discard": ()}
        target, name = (blas, "_set") if interrupted in ("limit", "restore") else (blas.running, interrupted)
        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
            patch.setattr(target, name, interrupting(getattr(target, name)))
            with one_blas_thread():
                pass
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {3} and not blas.running
