"""The output directory of a command: refused when it exists, filled whole or not at all.

While a command works, everything is in OUT/.partial; at the end the finished files are moved to
their places, one rename each, and .partial is removed. What is interrupted leaves .partial behind,
which `--resume` uses. OUT belongs to one command at a time: whoever works in it holds
OUT/.partial/lock.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import as_path, write_atomically

if sys.platform == "win32":
    import msvcrt

    def _hold(handle: int) -> None:
        """Lock the open file for this process, or raise BlockingIOError."""
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error

else:
    import fcntl

    def _hold(handle: int) -> None:
        """Lock the open file for this process, or raise BlockingIOError."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


# Not every system has these: where they are missing, links are refused by their looks alone.
OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
ROLES = ("target", "candidate")  # folders with the networks that a certificate speaks of
PARTIAL = ".partial"
LOCK, KEY = "lock", "key"  # whose staging it is: never published
GOING_ON = "what was solved so far is kept, use --resume to go on"


def as_output(value: str | os.PathLike[str]) -> Path:
    """The directory to write; an empty name would be the current one."""
    if isinstance(value, str) and not value.strip():
        raise InputError("the output must name a directory, but is empty; write . for the current")
    return as_path(value, "the output")


class OutputFolder:
    """`path` made ready for a command and locked; `staging` is where files are prepared.

    As a context manager it leaves nothing of a failure behind, except for what a command that can
    resume (`resume` is not None) goes on with: files `solved` (a pattern), an interrupted run, or
    one that was resumed. The error then says so.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        resume: bool | None = None,
        solved: str = "",
        elsewhere: str = "choose another with -o",
    ) -> None:
        self.path = as_output(path)
        self.elsewhere = elsewhere  # what to do where this one cannot be used
        self.staging = self.path / PARTIAL
        self.force, self.resume, self.solved = force, resume, solved
        self._handle: int | None = None  # of the lock, while it is held
        self._check_place()
        self.existed = self.path.exists()
        self._lock()
        try:
            self._check_contents()
        except BaseException:
            self._leave()
            raise
        if not resume:
            self._clear()

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._handle is not None:
            if not self._worth_resuming(error):
                self.discard()
            elif not (self.resume and isinstance(error, InputError)):  # these say what is wrong
                error.add_note(GOING_ON)
        self.close()

    def _worth_resuming(self, error: BaseException) -> bool:
        """What cannot be written or read at all ends the same way whenever it is tried again."""
        if self.resume is None or isinstance(error, UnsupportedError):
            return False
        found = self.staging.glob(self.solved) if self.solved else ()
        begun = any(path.stat().st_size for path in found)
        return begun or self.resume or isinstance(error, KeyboardInterrupt)

    def claim(self, whose: bytes, others: str, name: str = KEY) -> None:
        """Write down whose staging is; refuse to go on with what an interrupted run of `others`
        left there."""
        path = self.staging / name
        if path.exists() and path.read_bytes() != whose:
            raise InputError(
                f"{self.path} holds an interrupted {others}; use the same options, or --force to "
                f"start anew"
            )
        write_atomically(path, whose)

    def made(self) -> tuple[str, ...]:
        """All files in staging but those a resumed run goes on with; documents, which speak of the
        others, last."""
        solved = set(self.staging.glob(self.solved)) if self.solved else set()
        files = (p for p in self.staging.rglob("*") if p.is_file() and p not in solved)
        names = (p.relative_to(self.staging).as_posix() for p in files)
        kept = (n for n in names if n not in (LOCK, KEY) and not n.startswith("."))
        return tuple(sorted(kept, key=lambda name: (name.endswith((".json", ".html")), name)))

    def publish(self, names: Iterable[str] | None = None, earlier: Iterable[str] = ()) -> None:
        """Move the finished files (all that were made) from staging to their places, in order.

        Files of an `earlier` run that are not among them go first: they are of something else. A
        name may lie in a folder of its own.
        """
        moved = self.made() if names is None else tuple(names)
        stale = sorted(set(earlier) - set(moved))
        for name in (*stale, *moved):
            for parent in Path(name).parents:
                self._refuse_link(parent)
        for name in stale:
            (self.path / name).unlink(missing_ok=True)
        for name in moved:
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.staging / name, self.path / name)
        for folder in {(self.path / name).parent for name in stale} - {self.path}:
            with suppress(OSError):  # something is still in it
                folder.rmdir()
        self._clear()
        self._leave()

    def discard(self) -> None:
        """Remove what this run made, after a failure that leaves nothing worth resuming."""
        self._clear()
        self._leave()
        if not self.existed:
            with suppress(OSError):  # somebody else has put something there
                self.path.rmdir()

    def close(self) -> None:
        """Let others work in the directory; what is in staging stays."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _lock(self) -> None:
        """Make staging and hold its lock, or refuse if somebody has it.

        The file says nothing by being there: the system holds the lock for the process and drops
        it when the process ends, so that a killed run never stands in the way of the next.
        """
        path = self.staging / LOCK
        try:
            # Staging that is a link would have files elsewhere cleared and replaced.
            if self.force and self.staging.is_symlink():
                self.staging.unlink()
            self._refuse_link(PARTIAL)
            while self._handle is None:
                self.staging.mkdir(parents=True, exist_ok=True)
                # The last holder may remove the directory or the file between any two steps.
                with suppress(FileNotFoundError):
                    handle = os.open(path, OPEN | os.O_CREAT, 0o666)
                    try:
                        _hold(handle)
                        if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):
                            self._handle = handle
                    finally:
                        if self._handle is None:
                            os.close(handle)
        except BlockingIOError:
            raise InputError(
                f"{self.path}: another run is working in this output directory; wait until it has "
                f"ended, or {self.elsewhere}"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.path}: the output directory cannot be written ({error.strerror}); "
                f"{self.elsewhere}"
            ) from None

    def _check_place(self) -> None:
        if not self.path.exists():
            return
        for role in ROLES:
            self._refuse_link(role)
        if not self.path.is_dir():
            raise InputError(
                f"{self.path}: the output must be a directory, but a file of that name exists; "
                f"{self.elsewhere}"
            )

    def _refuse_link(self, name: str | Path) -> None:
        """A folder inside of OUT that is a link would have files elsewhere removed and written."""
        if Path(name) != Path() and (self.path / name).is_symlink():
            raise InputError(
                f"{self.path / name}: must be a directory, but is a symbolic link, which is not "
                f"followed; remove it, or {self.elsewhere}"
            )

    def _check_contents(self) -> None:
        """Without --force nothing is replaced; --resume goes on with what was not finished."""
        if self.force:
            return
        finished = any(entry.name != PARTIAL for entry in self.path.iterdir())
        interrupted = any(entry.name != LOCK for entry in self.staging.iterdir())
        if self.resume and finished and not interrupted:
            raise InputError(
                f"{self.path}: there is no interrupted run to resume, and the output "
                f"directory is not empty; use --force to replace a finished run, or choose "
                f"another with -o"
            )
        if not self.resume and (finished or interrupted):
            going_on = self.resume is not None and interrupted
            remedy = "--resume to go on with it" if going_on else "--force to replace"
            raise InputError(
                f"{self.path}: the output directory exists and is not empty; use {remedy}, or "
                f"choose another with -o"
            )

    def _clear(self) -> None:
        """Empty staging of all but the lock, which goes last: until then nobody else comes in."""
        for entry in self.staging.iterdir():
            if entry.name == LOCK:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)

    def _leave(self) -> None:
        if sys.platform == "win32":  # there an open file cannot be removed
            self.close()
            with suppress(OSError):
                (self.staging / LOCK).unlink(missing_ok=True)
        elif self._handle is not None:
            (self.staging / LOCK).unlink(missing_ok=True)
        self.close()
        with suppress(OSError):  # the next run has come in already
            self.staging.rmdir()
