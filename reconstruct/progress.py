"""How long work tells a caller where it is; the library itself never prints."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from reconstruct.errors import InputError


@dataclass(frozen=True)
class Step:
    """One report of progress: `done` out of `total` (None when the end is not known).

    With a `unit` (images, say) the pace is told in it.
    """

    task: str
    done: float
    total: float | None = None
    residual: float | None = None
    unit: str = ""

    @property
    def finished(self) -> bool:
        return self.done == self.total


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """The default listener: it hears and says nothing."""


def listener(progress: Any) -> Progress:
    """The listener that is meant; None hears nothing."""
    if progress is None:
        return silent
    if not callable(progress):
        raise InputError(
            f"progress must be a function that takes a step, but is of the type "
            f"{type(progress).__name__}"
        )
    found: Progress = progress
    return found


class OutOfTime(Exception):
    """The time that a caller gave is over; who gave it catches this."""


def until(deadline: float, progress: Progress = silent) -> Progress:
    """A listener that stops the work at the first report after `deadline` (perf_counter).

    Not at a report that something is finished: it would be lost.
    """

    def notify(step: Step) -> None:
        if time.perf_counter() > deadline and not step.finished:
            raise OutOfTime(step.task)
        progress(step)

    return notify


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`; a dash for what is not known."""
    if seconds is None:
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class ProgressLine:
    """A listener that keeps one line up to date: `rc.run(..., progress=rc.ProgressLine())`.

    The line is written at most every so many `seconds`, to stdout, as notebooks show it.
    """

    def __init__(
        self, seconds: float = 0.5, stream: TextIO | None = None, task: str = "working"
    ) -> None:
        self.seconds, self.stream = seconds, stream or sys.stdout
        self.start = self.last = self.begun = time.monotonic()
        self.step = Step(task, 0)
        self.steps, self.first = 0, 0.0  # of the present task

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        self.hear(step, now)
        if now - self.last >= self.seconds or step.finished:
            self.last = now
            self.overwrite(self.line(now))

    def hear(self, step: Step, now: float) -> None:
        if step.task != self.step.task or not self.steps:
            self.steps, self.begun, self.first = 0, now, step.done
        self.step, self.steps = step, self.steps + 1

    def overwrite(self, text: str) -> None:
        """The text in place of the last one; blanks, because not every terminal knows more."""
        width = shutil.get_terminal_size().columns - 1
        self.stream.write(f"\r{text:<{width}.{width}}" if text else f"\r{'':<{width}}\r")
        self.stream.flush()

    def line(self, now: float) -> str:
        """The task, and how far it is: share done, iteration, residual, time left at its pace."""
        done, total = self.step.done, self.step.total
        parts = [f"{100 * done / total:.0f} %"] if total else [f"{done:g} done"] if done else []
        if self.step.residual is not None:
            parts += [f"step {self.steps}", f"residual {self.step.residual:.1e}"]
        made = done - self.first
        if self.step.unit and made:
            parts.append(f"{made / max(now - self.begun, 1e-9):,.0f} {self.step.unit} a second")
        if total and made >= 0.02 * total:  # before that the end would be a guess
            left = (total - done) * max(now - self.begun, 1e-9) / made
            parts.append(f"{duration(max(0.0, left))} left")
        return f"{self.step.task}: {', '.join(parts)}" if parts else self.step.task
