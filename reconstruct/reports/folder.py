"""The output directory of a run: refused when it exists, filled whole or not at all.

While a run works, everything is in OUT/.partial; at the end the finished files are moved to their
places, one rename each, and .partial is removed. An interrupted run leaves .partial behind, which
`--resume` uses.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from reconstruct.errors import InputError

PARTIAL = ".partial"


class OutputFolder:
    """`path` made ready for a run; `staging` is where files are prepared."""

    def __init__(self, path: str | Path, *, force: bool = False, resume: bool = False) -> None:
        self.path = Path(path)
        self.staging = self.path / PARTIAL
        self._check(force, resume)
        self.existed = self.path.exists()
        try:
            self.staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.path}: the output directory cannot be written ({error.strerror}); "
                f"choose another with -o"
            ) from None

    def _check(self, force: bool, resume: bool) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(
                f"{self.path}: the output must be a directory, but a file of that name exists; "
                f"choose another with -o"
            )
        if any(self.path.iterdir()) and not (force or resume):
            remedy = "--resume to go on with it" if self.staging.exists() else "--force to replace"
            raise InputError(
                f"{self.path}: the output directory exists and is not empty; use {remedy}, or "
                f"choose another with -o"
            )
        if not os.access(self.path, os.W_OK):
            raise InputError(
                f"{self.path}: the output directory cannot be written (permission denied); "
                f"choose another with -o"
            )

    def publish(self, names: tuple[str, ...]) -> None:
        """Move the finished files from staging to their places, the last named last."""
        for name in names:
            os.replace(self.staging / name, self.path / name)
        shutil.rmtree(self.staging, ignore_errors=True)

    def discard(self) -> None:
        """Remove what this run made, after a failure that leaves nothing worth resuming."""
        shutil.rmtree(self.staging, ignore_errors=True)
        if not self.existed:
            try:
                self.path.rmdir()
            except OSError:
                return
