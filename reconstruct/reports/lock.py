"""One holder at a time: a lock on a file, which ends with the process however that ends."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from reconstruct.errors import InputError

FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class FileLock:
    """The lock on `path`; whoever comes second is told `taken`.

    The file says nothing by being there: the system holds the lock for the process and drops it
    when the process ends, so that a killed run never stands in the way of the next.
    """

    def __init__(self, path: Path, taken: str) -> None:
        self.path, self.taken = path, taken
        self._close: weakref.finalize[[int], FileLock] | None = None

    @property
    def held(self) -> bool:
        return self._close is not None

    def probe(self) -> None:
        """Refuse if somebody holds the lock now; makes and changes nothing."""
        if self.path.parent.is_symlink():
            return
        try:
            handle = os.open(self.path, FLAGS)
        except OSError:  # no such file, so nobody holds it; what else is wrong, `acquire` tells
            return
        try:
            self._lock(handle)
        except OSError:
            return
        finally:
            os.close(handle)

    def acquire(self) -> None:
        """Take the lock, making the file and its directory; refuse if somebody has it."""
        while not self.held:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                handle = os.open(self.path, FLAGS | os.O_CREAT, 0o666)
            except FileNotFoundError:  # the last holder has just removed the directory
                continue
            try:
                self._lock(handle)
            except BaseException:
                os.close(handle)
                raise
            if self._is_the_file(handle):
                self._close = weakref.finalize(self, os.close, handle)
            else:  # the last holder has removed the file between our two steps
                os.close(handle)

    def release(self) -> None:
        """Let others take it; the file stays."""
        if self._close is not None:
            self._close()
            self._close = None

    def remove(self) -> None:
        """Remove the file, then let others take the lock of a new one."""
        if self.held:
            self.path.unlink(missing_ok=True)
        self.release()

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(self.taken) from None

    def _is_the_file(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            return False
