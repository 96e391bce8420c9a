"""What surrounds a command: its streams, Ctrl-C, the ranks of an MPI job, and progress.

A lost line never changes what a command has found: a reader that has seen enough
(`reconstruct … | head -1`) closes the pipe, and a disk may be full; the command goes on, its files
are written, and its exit code is that of its verdict.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from types import FrameType
from typing import Any, TextIO, cast

from reconstruct.progress import ProgressLine, Step, duration


class Stream:
    """`stream`, which after its first failure takes everything in silence; `lost` is why."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        self._try(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self.stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        if self.lost is not None:
            return
        try:
            act()
        except OSError as error:
            self.lost = error
            # What is still buffered goes nowhere, or the interpreter would fail on it at its end.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
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
def lasting_streams() -> Iterator[Stream | None]:
    """Stdout and stderr made to outlive their readers; None where there is no stdout at all."""
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started the process
        yield None
        return
    out, err = Stream(sys.stdout), Stream(sys.stderr)
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        try:
            yield out
        finally:
            out.flush()
            err.flush()


started = time.perf_counter()  # of the command: a limit of time is for its imports, too
_interrupted = False


@contextmanager
def remembering_interrupts() -> Iterator[None]:
    """Interrupts are remembered inside, unless somebody else handles them already.

    Python drops whatever is raised inside of a destructor or the callback of a weak reference, and
    imports run these by the thousand: an interrupt that falls into one would be forgotten. So it is
    written down as well, and raised again where work goes on (`check_interrupt`).
    """
    global _interrupted
    ours = threading.current_thread() is threading.main_thread()
    if not (ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
        yield
        return
    _interrupted = False
    signal.signal(signal.SIGINT, _remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _interrupted = False


def check_interrupt() -> None:
    """Raise KeyboardInterrupt, in the main thread, if there was one that ended nothing."""
    if _interrupted and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def launched() -> bool:
    """Whether this process is one of several that mpiexec started; imports nothing."""
    sizes = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in sizes)


def run_as_job(words: Sequence[str], command: Callable[[], int]) -> int:
    """The exit code of `command` on this rank; only rank 0 is heard.

    Every rank runs the same command and shares the sums over hidden units; rank 0 alone reads what
    was kept, writes and speaks. `verify` is rank 0's, with the others to help it, and commands that
    solve nothing large are rank 0's alone.
    """
    from reconstruct.khatri_rao.ranks import as_job, job_of_helpers, over_ranks, world

    comm = world()

    def program() -> int:
        if not {"run", "study"} & set(words):
            if "verify" in words:
                return job_of_helpers(comm, command)
            return command() if comm.Get_rank() == 0 else 0
        with over_ranks(comm):
            if comm.Get_rank() == 0:
                return command()
            with open(os.devnull, "w") as no, redirect_stdout(no), redirect_stderr(no):
                return command()

    return as_job(comm, program)


# --- progress on stderr: one line on a terminal, lines elsewhere; short work stays silent ---------


class ProgressDisplay(ProgressLine):
    """A listener for `Step`s, used as a context manager; `quiet` hears and shows nothing.

    `task` names the work before its first step, and all of it where it reports none; `tick` is how
    often (in seconds) the clock looks whether something should be shown again. `verbose`: each task
    that is over stays as a line with its time.
    """

    def __init__(
        self,
        quiet: bool = False,
        stream: TextIO | None = None,
        task: str = "working",
        tick: float = 1.0,
        verbose: bool = False,
    ) -> None:
        where = stream or sys.stderr
        super().__init__(0.2 if where.isatty() else 5.0, where, task)
        self.quiet, self.verbose, self.tick = quiet, verbose, tick
        self.spent: dict[str, list[float]] = {}  # first and last report of each task
        self._turn = threading.RLock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        if not self.quiet:
            self._clock.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._clock.is_alive():
            self._clock.join()
        self.clear()
        if self.verbose and self.spent:
            self._note()

    def __call__(self, step: Step) -> None:
        check_interrupt()
        if self.quiet:
            return
        now = time.monotonic()
        with self._turn:
            self.spent.setdefault(step.task, [now, now])[1] = now
            self.hear(step, now)
            self._show(now)

    def clear(self) -> None:
        """Take the line away, before something else is said on the terminal."""
        with self._turn:
            if self.stream.isatty() and self.last > self.start:
                self.overwrite("")

    def _note(self) -> None:
        """A line for each task, in the order in which they began; several may run side by side."""
        begun = sorted(self.spent.items(), key=lambda task: task[1][0])
        ends = [*(first for _, (first, _) in begun), time.monotonic()][1:]
        for (task, (first, last)), after in zip(begun, ends, strict=True):
            # A task that reports only once lasts until the next begins.
            self.stream.write(f"{task}: {max(last, after) - first:.1f} s\n")

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
        if elapsed < 1.5 or now - self.last < self.seconds:  # short work needs no progress
            return
        self.last = now
        if self.stream.isatty():
            self.overwrite(f"{duration(elapsed)}  {self.line(now)}")
        else:
            self.stream.write(f"[{duration(elapsed)}] {self.line(now)}\n")
            self.stream.flush()
