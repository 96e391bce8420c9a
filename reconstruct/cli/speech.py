"""Streams that outlive their reader: a lost line never changes what a command has found.

A reader that has seen enough (`reconstruct … | head -1`) closes the pipe, and a disk may be full:
the command goes on, its files are written, and its exit code is that of its verdict.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast


class Heard:
    """`stream`, which after its first failure takes everything in silence; `lost` is why."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        if self.lost is None:
            try:
                return self.stream.write(text)
            except OSError as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        if self.lost is None:
            try:
                self.stream.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        """What is still buffered goes nowhere, or the interpreter would fail on it at its end."""
        self.lost = error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self.stream.fileno())
        finally:
            os.close(nowhere)
        with suppress(OSError):
            self.stream.flush()

    @property
    def failure(self) -> str | None:
        """Why the words were lost, unless their reader simply went away."""
        if self.lost is None or isinstance(self.lost, BrokenPipeError):
            return None
        return self.lost.strerror or str(self.lost)


@contextmanager
def speaking() -> Iterator[Heard | None]:
    """Stdout and stderr made to outlive their readers; None where there is no stdout at all."""
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started the process
        yield None
        return
    out, err = Heard(sys.stdout), Heard(sys.stderr)
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        try:
            yield out
        finally:
            out.flush()
            err.flush()
