"""Progress: silent at first, plain lines where there is no terminal, one line where there is."""

from __future__ import annotations

import io

import pytest

from reconstruct import progress as module
from reconstruct.cli.process import ProgressDisplay
from reconstruct.progress import Step


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_short_work_is_silent(clock: Clock) -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream=stream) as display:
        for _ in range(10):
            clock.now += 0.1
            display(Step("solving", 1, 10))
    assert stream.getvalue() == ""


def test_plain_lines_tell_task_step_residual_and_time_left(clock: Clock) -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream=stream) as display:
        for i in range(11):
            display(Step("map 2/7 (50×50): conjugate gradients", i, 20, 10.0**-i))
            clock.now += 1.0
    first, *rest = stream.getvalue().splitlines()
    assert first == (
        "[5.0 s] map 2/7 (50×50): conjugate gradients: 25 %, step 6, residual 1.0e-05, 15 s left"
    )
    assert len(rest) == 1  # every five seconds, not every step


def test_quiet_is_quiet(clock: Clock) -> None:
    stream = io.StringIO()
    with ProgressDisplay(quiet=True, stream=stream) as display:
        clock.now += 60
        display(Step("solving", 5, 10))
    assert stream.getvalue() == ""


def test_a_terminal_gets_one_line(clock: Clock) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with ProgressDisplay(stream=stream) as display:
        clock.now += 2
        display(Step("solving", 5, 10, 1e-3))
        clock.now += 2
        display(Step("solving", 6, 10, 1e-3))
    first, second, last = (part.rstrip() for part in stream.getvalue().split("\r")[1:-1])
    assert first == "2.0 s  solving: 50 %, step 1, residual 1.0e-03"
    assert second.startswith("4.0 s  solving: 60 %, step 2") and last == ""
    assert "\n" not in stream.getvalue()


def test_the_line_is_gone_before_something_else_is_said(clock: Clock) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with ProgressDisplay(stream=stream) as display:
        display.clear()
        assert stream.getvalue() == ""  # nothing was shown yet
        clock.now += 2
        display(Step("solving", 5, 10))
        display.clear()
        assert stream.getvalue().endswith(" \r")


def test_the_end_of_a_task_is_not_guessed_too_soon(clock: Clock) -> None:
    display = ProgressDisplay(stream=io.StringIO())
    display(Step("a", 0, 100))
    display(Step("a", 1, 100))
    assert display.line(clock.now + 1.0) == "a: 1 %"
    display(Step("a", 50, 100))
    assert display.line(clock.now + 10.0) == "a: 50 %, 10 s left"
    display(Step("b", 3))
    assert display.line(clock.now) == "b: 3 done"


def test_work_that_says_nothing_is_not_silent() -> None:
    """The clock repeats what is known: first the name of the work, then its last step."""
    stream = io.StringIO()
    display = ProgressDisplay(stream=stream, task="proving it again")
    display.start = display.last = 100.0
    for now in (101.0, 104.0, 105.5, 106.0, 109.0, 110.6):
        display.beat(now)
    assert stream.getvalue() == "[5.5 s] proving it again\n[11 s] proving it again\n"
    display.step = Step("sampled inputs", 3, 4)
    display.beat(116.0)
    assert stream.getvalue().splitlines()[2].startswith("[16 s] sampled inputs: 75 %")


def test_the_clock_ends_with_the_work_and_shows_nothing_after() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream=stream, tick=0.001) as display:
        clock = display._clock
        assert clock.is_alive()
    assert not clock.is_alive()
    display.start = display.last = -100.0
    display.beat(0.0)
    assert stream.getvalue() == ""
    with ProgressDisplay(quiet=True, stream=stream) as hushed:
        assert not hushed._clock.is_alive()


def test_the_pace_is_told_in_the_unit_of_the_work():
    display = ProgressDisplay(stream=io.StringIO())
    display(Step("training", 100, 1000, unit="images"))
    display(Step("training", 400, 1000, unit="images"))
    assert "30 images a second" in display.line(display.begun + 10)
