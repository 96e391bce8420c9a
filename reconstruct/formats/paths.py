"""Paths that callers hand over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from reconstruct.errors import InputError


def as_path(value: Any, what: str) -> Path:
    """The path, given as text or as an object; a sentence for anything else."""
    if isinstance(value, str | os.PathLike) and not isinstance(os.fspath(value), bytes):
        return Path(value)
    raise InputError(
        f"{what} must be a path, text or pathlib.Path, but is of the type {type(value).__name__}"
    )
