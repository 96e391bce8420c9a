"""Helpers: the answers are those of one process, errors come back, and whoever ends is replaced."""

from __future__ import annotations

import operator
import os
import time
from typing import Any

import pytest

from reconstruct.numbers.parallel import at_most_threads
from reconstruct.numbers.processes import Helpers, helped_by


def started(helpers: Helpers, count: int) -> Helpers:
    """With so many at work."""
    with at_most_threads(count):
        helpers.start()
    until = time.monotonic() + 60
    while helpers.count < count and time.monotonic() < until:
        time.sleep(0.01)
    assert helpers.count == count
    return helpers


def test_answers_come_in_the_order_of_the_tasks() -> None:
    with Helpers(divmod) as helpers:
        tasks = [(number, 7) for number in range(20)]
        alone = helpers(tasks)
        assert helpers.count == 1
        assert started(helpers, 3)(tasks) == alone == [divmod(*task) for task in tasks]
        assert helpers([(1, 7)]) == [(0, 1)] and helpers([]) == []


def test_every_process_takes_its_turn_and_all_end() -> None:
    with Helpers(os.getpid) as helpers:
        found = started(helpers, 2)([()] * 6)
        assert found[::2] == [os.getpid()] * 3 and len(set(found[1::2])) == 1
        assert found[1] != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(found[1], 0)


def test_one_processor_works_alone() -> None:
    with Helpers(os.getpid) as helpers, at_most_threads(1):
        helpers.start()
        assert set(helpers([()] * 4)) == {os.getpid()} and not helpers._own


def test_an_error_of_a_helper_is_raised_here_and_it_is_asked_no_more() -> None:
    with Helpers(operator.truediv) as helpers:
        with pytest.raises(ZeroDivisionError):
            started(helpers, 2)([(1, 2), (1, 0)])
        assert helpers([(1, 2), (1, 4)]) == [0.5, 0.25] and helpers.count == 2
        with pytest.raises(ZeroDivisionError):  # before the helper's answer, 3, is heard
            helpers([(1, 0), (3, 1)])
        assert helpers([(1, 2), (1, 4)]) == [0.5, 0.25] and helpers.count == 1


def test_what_a_lost_helper_had_is_done_here() -> None:
    with Helpers(operator.add) as helpers:
        started(helpers, 2)
        assert helpers._own[0].process is not None
        helpers._own[0].process.kill()
        helpers._own[0].process.wait()
        assert helpers([(1, 1), (2, 2), (3, 3)]) == [2, 4, 6]
        assert helpers.count == 1


def test_who_never_comes_is_not_waited_for() -> None:
    with Helpers(lambda x: x) as helpers:  # no other process can be given that
        with at_most_threads(2):
            helpers.start()
        for thread in helpers._waiting:
            thread.join()
        assert helpers([(1,), (2,)]) == [1, 2] and helpers.count == 1


class Loop:
    """A rank in this process."""

    def __init__(self) -> None:
        self.function: Any = None
        self.messages: list[Any] = []

    def send(self, message: Any) -> None:
        self.messages.append(message)

    def receive(self) -> Any:
        message = self.messages.pop(0)
        if callable(message):
            self.function = message
            return None
        return [self.function(*task) for task in message]

    def close(self) -> None:
        raise AssertionError("a rank runs on")


def test_ranks_help_and_are_left_without_a_question() -> None:
    rank = Loop()
    with helped_by([rank]), Helpers(operator.truediv) as helpers:
        with at_most_threads(1):
            helpers.start()
        assert helpers([(2, 1), (6, 2)]) == [2, 3] and rank.function is operator.truediv
        with pytest.raises(ZeroDivisionError):
            helpers([(1, 0), (3, 1)])
        assert rank.messages
    assert not rank.messages
    with Helpers(operator.add) as helpers, at_most_threads(1):
        helpers.start()
        assert helpers.count == 1
