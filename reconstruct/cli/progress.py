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


class ProgressDisplay:
    """A listener for `Step`s, used as a context manager; `quiet` hears and shows nothing.

    `task` names the work before its first step, and all of it where it reports none; `tick` is how
    often (in seconds) the clock looks whether something should be shown again.
    """

    def __init__(
        self,
        quiet: bool = False,
        stream: TextIO | None = None,
        task: str = "working",
        tick: float = 1.0,
    ) -> None:
        self.quiet = quiet
        self.stream = stream or sys.stderr
        self.start = self.last = time.monotonic()
        self.tick = tick
        self.step = Step(task, 0)
        self.steps, self.begun, self.first = 0, self.start, 0.0  # of the present task
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
            if step.task != self.step.task or not self.steps:
                self.steps, self.begun, self.first = 0, now, step.done
            self.step, self.steps = step, self.steps + 1
            self._show(now)

    def _tick(self) -> None:
        """The clock: what is shown goes on while the work says nothing."""
        while not self._over.wait(self.tick):
            self.beat(time.monotonic())

    def beat(self, now: float) -> None:
        """Show the last step again if nothing was shown for a while."""
        with self._turn:
            if not self._over.is_set():
                self._show(now)

    def _show(self, now: float) -> None:
        elapsed = now - self.start
        if elapsed < 1.5:  # short work needs no bar
            return
        told = f"{self.step.task}: {rest}" if (rest := self.describe(now)) else self.step.task
        if self.stream.isatty():
            if self.bar is None:
                self.bar = _rich_bar(self.stream)
                self.bar.start()
                self.task = self.bar.add_task("", total=None)
            text = f"{duration(elapsed)}  {told}"
            done, total = self.step.done, self.step.total
            self.bar.update(self.task, description=text, completed=done, total=total)
        elif now - self.last >= 5.0:  # seconds between plain lines
            self.last = now
            self.stream.write(f"[{duration(elapsed)}] {told}\n")
            self.stream.flush()

    def describe(self, now: float) -> str:
        """How far it is: share done, iteration and residual of a solve, time left at its pace."""
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
        return ", ".join(parts)


def _rich_bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=16),
        TextColumn("{task.description}", markup=False),
        console=Console(file=stream),
        transient=True,
        refresh_per_second=5,
    )
