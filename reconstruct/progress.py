"""How long work tells a caller where it is; the library itself never prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
