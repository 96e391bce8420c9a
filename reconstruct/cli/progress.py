"""Progress on stderr: a bar on a terminal, plain lines elsewhere; short work stays silent."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, TextIO

from reconstruct.progress import Step

FIRST_AFTER = 1.5  # seconds of silence: short work needs no bar
LINE_EVERY = 5.0  # seconds between plain lines when stderr is not a terminal


class ProgressDisplay:
    """A listener for `Step`s, used as a context manager; `quiet` hears and shows nothing."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.quiet = quiet
        self.stream = stream or sys.stderr
        self.start = self.last = time.monotonic()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if self.quiet or now - self.start < FIRST_AFTER:
            return
        if self.stream.isatty():
            self._draw(step)
        elif now - self.last >= LINE_EVERY:
            self.last = now
            self.stream.write(f"[{now - self.start:6.0f} s] {describe(step)}\n")
            self.stream.flush()

    def _draw(self, step: Step) -> None:
        if self.bar is None:
            self.bar = _rich_bar(self.stream)
            self.bar.start()
            self.task = self.bar.add_task("", total=None)
        text = step.task if step.residual is None else f"{step.task}  residual {step.residual:.1e}"
        self.bar.update(self.task, description=text, completed=step.done, total=step.total)


def describe(step: Step) -> str:
    """One line: what is being done, how far it is, the residual if there is one."""
    share = f" {step.done:g}" if step.total is None else f" {step.done:g}/{step.total:g}"
    residual = "" if step.residual is None else f", residual {step.residual:.1e}"
    return f"{step.task}{share}{residual}"


def _rich_bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        refresh_per_second=5,
    )
