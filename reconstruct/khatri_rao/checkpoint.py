"""A solve that can be interrupted: what is kept of it, and where.

The state of conjugate gradients is a few vectors over hidden units and matrices `m × k`: some
megabytes even for a map of 512 × 512, whatever the weights take.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

State: TypeAlias = Mapping[str, NDArray[Any]]

EVERY = 60.0  # seconds of work that a killed process may lose


class Checkpoint(Protocol):
    """Keeps the latest state of one solve."""

    @property
    def seconds(self) -> float:
        """How often a state is offered, at most."""
        ...

    def load(self) -> State | None:
        """The state kept last, None if there is none."""
        ...

    def save(self, state: State) -> None:
        """Keep this state instead; a process that dies in here leaves the old one."""
        ...

    def clear(self) -> None:
        """The solve has ended: forget its state."""
        ...


class FileCheckpoint:
    """A state in one npz file, replaced as a whole; a file that cannot be read counts as none."""

    def __init__(self, path: str | Path, *, seconds: float = EVERY) -> None:
        self.path = Path(path)
        self.seconds = seconds

    def load(self) -> State | None:
        """The arrays of the file."""
        try:
            with np.load(self.path, allow_pickle=False) as data:
                return {name: data[name] for name in data.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def save(self, state: State) -> None:
        """Written beside the file and moved over it."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = dict(state)
        np.savez(buffer, **arrays)
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                file.write(buffer.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)

    def clear(self) -> None:
        """The file is removed."""
        self.path.unlink(missing_ok=True)


def fingerprint(*parts: object) -> NDArray[np.uint8]:
    """A hash of what decides the numbers of a solve: arrays by their bytes, the rest by repr."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)


class Clock:
    """Says when a checkpoint is due."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether `seconds` have passed since it last was."""
        if time.monotonic() - self._last < self._seconds:
            return False
        self._last = time.monotonic()
        return True
