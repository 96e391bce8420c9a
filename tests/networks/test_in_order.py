"""Items on many threads: the same outcome in the same order as on one."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from reconstruct.networks.maps import tiled
from reconstruct.networks.maps.tiled import Tiled
from reconstruct.numbers import in_order as module
from reconstruct.numbers.in_order import in_order
from reconstruct.numbers.threads import at_most_threads


class Meeting:
    """Two threads have to be inside at once for either to go on."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=20)
        self.names: list[str] = []

    def __call__(self, item: int) -> int:
        self.names.append(threading.current_thread().name)
        if item:
            self.barrier.wait()
        return item * item


def test_the_first_is_done_alone_and_the_others_side_by_side_in_order() -> None:
    meeting = Meeting()
    with at_most_threads(2):
        assert list(in_order(meeting, range(7))) == [i * i for i in range(7)]
    assert meeting.names[0] == threading.current_thread().name
    assert len(set(meeting.names[1:])) == 2 and meeting.names[0] not in meeting.names[1:]


@pytest.mark.parametrize(("threads", "items"), [(1, 9), (2, 0), (2, 1), (2, 2)])
def test_little_work_and_one_thread_stay_where_they_are(threads: int, items: int) -> None:
    here = threading.current_thread()
    with at_most_threads(threads):
        found = list(in_order(lambda i: (i, threading.current_thread()), range(items)))
    assert found == [(i, here) for i in range(items)]


def test_inside_of_another_there_is_one_thread() -> None:
    def outer(i: int) -> set[str]:
        return set(in_order(lambda _: threading.current_thread().name, range(4)))

    with at_most_threads(2):
        found = list(in_order(outer, range(4)))
    assert all(len(names) == 1 for names in found[1:])


def test_what_goes_wrong_in_a_thread_is_raised_and_the_rest_is_not_started() -> None:
    started: list[int] = []

    def work(i: int) -> int:
        started.append(i)
        if i == 3:
            raise ValueError("the third")
        return i

    with at_most_threads(2), pytest.raises(ValueError, match="the third"):
        list(in_order(work, range(1000)))
    assert len(started) < 20


def test_threads_ignore_what_the_caller_ignores() -> None:
    huge = np.full(3, 1e300)
    with at_most_threads(2), warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(over="ignore"):
            found = list(in_order(lambda _: huge * huge, range(5)))
        assert np.isinf(found).all()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            list(in_order(lambda i: huge * huge if i else None, range(5)))


def test_no_more_wait_than_there_are_threads() -> None:
    done: list[int] = []
    with at_most_threads(2):
        results = in_order(lambda i: done.append(i) or i, range(100))
        for _ in range(3):
            next(results)
        assert len(done) <= 3 + 2 + 2
        results.close()  # type: ignore[attr-defined]
    assert not getattr(module._here, "busy", False)


def test_a_tiled_map_gives_the_same_bits_on_one_thread_and_on_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiled, "BLOCK", 2**13)
    rng = np.random.default_rng(0)
    tall = rng.standard_normal((5000, 8)).astype(np.float32)

    class Held:
        dtype, keep_bytes = tall.dtype, 0

        def __init__(self, array: np.ndarray) -> None:
            self.array, self.shape, self.size = array, array.shape, array.size

        def rows(self, start: int, stop: int) -> np.ndarray:
            return self.array[start:stop]

        def columns(self, start: int, stop: int) -> np.ndarray:
            return self.array[:, start:stop]

    x = rng.standard_normal((3, 8))
    found = []
    for threads in (1, 2):
        with at_most_threads(threads):
            one, other = Tiled(Held(tall)), Tiled(Held(tall.T))
            y = one.linear(x)
            found.append((y, other.linear(y), one.pull(y, 8), other.pull(x, 5000), one.least))
    for first, second in zip(*found, strict=True):
        assert np.array_equal(first, second)
    assert found[0][0] == pytest.approx(x @ tall.T.astype(np.float64), rel=1e-10, abs=1e-10)
