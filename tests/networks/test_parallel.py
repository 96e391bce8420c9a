"""Items on many threads: the same outcome in the same order as on one."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from reconstruct.numbers import parallel as module
from reconstruct.numbers.parallel import at_most_threads, parallel_map


class Meeting:
    """Two threads have to be inside at once for either to go on."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=20)
        self.names: list[str] = []

    def __call__(self, item: int) -> int:
        self.names.append(threading.current_thread().name)
        self.barrier.wait()
        return item * item


def test_items_are_done_side_by_side_and_given_in_order() -> None:
    meeting = Meeting()
    with at_most_threads(2):
        assert list(parallel_map(meeting, range(8))) == [i * i for i in range(8)]
    assert len(set(meeting.names)) == 2


@pytest.mark.parametrize(("threads", "items"), [(1, 9), (2, 0), (2, 1)])
def test_little_work_and_one_thread_stay_where_they_are(threads: int, items: int) -> None:
    here = threading.current_thread()
    with at_most_threads(threads):
        found = list(parallel_map(lambda i: (i, threading.current_thread()), range(items)))
    assert found == [(i, here) for i in range(items)]


def test_inside_of_another_there_is_one_thread() -> None:
    def outer(i: int) -> set[str]:
        return set(parallel_map(lambda _: threading.current_thread().name, range(4)))

    with at_most_threads(2):
        found = list(parallel_map(outer, range(4)))
    assert all(len(names) == 1 for names in found)


def test_what_goes_wrong_in_a_thread_is_raised_and_the_rest_is_not_started() -> None:
    started: list[int] = []

    def work(i: int) -> int:
        started.append(i)
        if i == 3:
            raise ValueError("the third")
        return i

    with at_most_threads(2), pytest.raises(ValueError, match="the third"):
        list(parallel_map(work, range(1000)))
    assert len(started) < 20


def test_threads_ignore_what_the_caller_ignores() -> None:
    huge = np.full(3, 1e300)
    with at_most_threads(2), warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(over="ignore"):
            found = list(parallel_map(lambda _: huge * huge, range(5)))
        assert np.isinf(found).all()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            list(parallel_map(lambda i: huge * huge if i else None, range(5)))


def test_no_more_wait_than_there_are_threads() -> None:
    done: list[int] = []
    with at_most_threads(2):
        results = parallel_map(lambda i: done.append(i) or i, range(100))
        for _ in range(3):
            next(results)
        assert len(done) <= 3 + 2 + 2
        results.close()  # type: ignore[attr-defined]
    assert not getattr(module._here, "busy", False)


def test_a_forked_process_starts_threads_of_its_own() -> None:
    with at_most_threads(2):
        list(parallel_map(abs, range(4)))
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            assert pool.submit(_in_child).result(timeout=30) == [0, 1, 2, 3]


def _in_child() -> list[int]:
    return list(parallel_map(abs, range(4)))
