"""Progress on stderr: a bar on a terminal, plain lines elsewhere; short work stays silent.

Work that reports no steps for a while is not silent either: a clock says what it is at.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, TextIO

from reconstruct.cli.process import check_interrupt
from reconstruct.progress import Step
from reconstruct.reports.words import duration

FIRST_AFTER = 1.5  # seconds of silence: short work needs no bar
LINE_EVERY = 5.0  # seconds between plain lines when stderr is not a terminal
TICK = 1.0  # seconds between two looks of the clock
GUESS_AFTER = 0.02  # share of a task that has to be done before its end is guessed


class Pace:
    """How fast the present task goes: its steps so far, and how long it has left."""

    def __init__(self) -> None:
        self.task = ""
        self.steps = 0
        self.start = self.first = 0.0

    def hear(self, step: Step, now: float) -> None:
        """Count the step; a new task starts anew."""
        if step.task != self.task:
            self.task, self.steps, self.start, self.first = step.task, 0, now, step.done
        self.steps += 1

    def left(self, step: Step, now: float) -> float | None:
        """Seconds until the task is done at its pace so far; None while that is a guess."""
        if not step.total or step.done - self.first < GUESS_AFTER * step.total:
            return None
        rate = (step.done - self.first) / max(now - self.start, 1e-9)
        return max(0.0, (step.total - step.done) / rate)


class ProgressDisplay:
    """A listener for `Step`s, used as a context manager; `quiet` hears and shows nothing.

    `task` names the work before its first step, and all of it where it reports none.
    """

    def __init__(
        self, quiet: bool = False, stream: TextIO | None = None, task: str = "working"
    ) -> None:
        self.quiet = quiet
        self.stream = stream or sys.stderr
        self.start = self.last = time.monotonic()
        self.pace = Pace()
        self.step = Step(task, 0)
        self.bar: Any = None
        self.task: Any = None
        self._turn = threading.RLock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        if not self.quiet:
            self._clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._clock.is_alive():
            self._clock.join()
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, step: Step) -> None:
        check_interrupt()
        if self.quiet:
            return
        now = time.monotonic()
        with self._turn:
            self.step = step
            self.pace.hear(step, now)
            self._show(now)

    def _tick(self) -> None:
        """The clock: what is shown goes on while the work says nothing."""
        while not self._over.wait(TICK):
            self.beat(time.monotonic())

    def beat(self, now: float) -> None:
        """Show the last step again if nothing was shown for a while."""
        with self._turn:
            if not self._over.is_set():
                self._show(now)

    def _show(self, now: float) -> None:
        if now - self.start < FIRST_AFTER:
            return
        if self.stream.isatty():
            self._draw(self.step, now)
        elif now - self.last >= LINE_EVERY:
            self.last = now
            elapsed = duration(now - self.start)
            rest = describe(self.step, self.pace, now)
            self.stream.write(f"[{elapsed}] {self.step.task}{': ' if rest else ''}{rest}\n")
            self.stream.flush()

    def _draw(self, step: Step, now: float) -> None:
        if self.bar is None:
            self.bar = _rich_bar(self.stream)
            self.bar.start()
            self.task = self.bar.add_task("", total=None, rest="")
        self.bar.update(
            self.task,
            description=f"{duration(now - self.start)}  {step.task}",
            completed=step.done,
            total=step.total,
            rest=describe(step, self.pace, now),
        )


def describe(step: Step, pace: Pace, now: float) -> str:
    """How far it is: share done, iteration and residual of a solve, time left."""
    parts = [_share(step)] if step.total else [f"{step.done:g} done"] if step.done else []
    if step.residual is not None:
        parts += [f"step {pace.steps}", f"residual {step.residual:.1e}"]
    left = pace.left(step, now)
    if left is not None:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def _share(step: Step) -> str:
    return f"{100 * step.done / (step.total or 1):.0f} %"


def _rich_bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[rest]}", markup=False),
        console=Console(file=stream),
        transient=True,
        refresh_per_second=5,
    )
