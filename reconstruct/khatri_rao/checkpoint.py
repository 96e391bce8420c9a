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
    """Keeps the latest state of each solve; `key` names the system and the settings."""

    @property
    def seconds(self) -> float:
        """How often a state is offered, at most."""
        ...

    def load(self, key: str) -> State | None:
        """The state kept last, None if there is none."""
        ...

    def save(self, key: str, state: State) -> None:
        """Keep this state instead; a process that dies in here leaves the old one."""
        ...

    def clear(self, key: str) -> None:
        """The solve has ended: forget its state."""
        ...


class FolderCheckpoint:
    """One npz file per solve under way, replaced as a whole.

    A file that cannot be read counts as none. The folder is made when it is needed.
    """

    def __init__(self, folder: str | Path, *, seconds: float = EVERY) -> None:
        self.folder = Path(folder)
        self.seconds = seconds

    def path(self, key: str) -> Path:
        """Where the state of a solve is kept."""
        return self.folder / f"solve-{key[:24]}.npz"

    def load(self, key: str) -> State | None:
        """The arrays of the file."""
        try:
            with np.load(self.path(key), allow_pickle=False) as data:
                return {name: data[name] for name in data.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def save(self, key: str, state: State) -> None:
        """Written beside the file and moved over it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        arrays: dict[str, Any] = dict(state)
        np.savez(buffer, **arrays)
        partial = self.folder / f"{self.path(key).name}.{os.getpid()}.partial"
        try:
            with partial.open("wb") as file:
                file.write(buffer.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path(key))
        finally:
            partial.unlink(missing_ok=True)

    def clear(self, key: str) -> None:
        """The file is removed."""
        self.path(key).unlink(missing_ok=True)


def fingerprint(*parts: object) -> str:
    """A hash of what decides the numbers of a solve: arrays by their bytes, the rest by repr."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


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
