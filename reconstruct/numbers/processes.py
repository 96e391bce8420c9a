"""Work shared with other processes: many small steps, between which threads wait for each other.

A helper is a process that is given a function once, and then arguments for it again and again: one
of this machine, or a rank of an MPI job. On small matrices two threads hold each other up by as
much as they gain; two processes are nearly twice as fast as one.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from reconstruct.numbers.parallel import at_most_threads, cpu_count, one_blas_thread
from reconstruct.numbers.rounding import require_gradual_underflow

SERVE = "import sys; sys.path[:] = {}; from reconstruct.numbers.processes import main; main()"
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
LOST = (OSError, EOFError, pickle.PickleError)  # what a channel raises whose helper has ended
# and where a function cannot be handed on, such as a network with a map that a script defines
UNKNOWN = (*LOST, AttributeError, ImportError, TypeError)


class Channel(Protocol):
    """The way to a helper, and what it answers; `close` when nobody asks it any more."""

    def send(self, message: Any) -> None: ...
    def receive(self) -> Any: ...
    def close(self) -> None: ...


class Pipes:
    """Messages through two streams of bytes; `process` is whoever is at their other end."""

    def __init__(self, out: Any, back: Any, process: subprocess.Popen[bytes] | None = None) -> None:
        self.out, self.back, self.process = out, back, process

    def send(self, message: Any) -> None:
        pickle.dump(message, self.out, pickle.HIGHEST_PROTOCOL)
        self.out.flush()

    def receive(self) -> Any:
        return pickle.load(self.back)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _started() -> Pipes:
    """A new process of this machine that serves."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE.format(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD},
    )
    return Pipes(process.stdin, process.stdout, process)


def main() -> None:
    """What a helper of this machine runs, until the pipe to it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it hears the interrupt, and ends it
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anybody prints is no answer
    with at_most_threads(1), suppress(*UNKNOWN):
        serve(Pipes(out, sys.stdin.buffer))


def serve(channel: Channel) -> None:
    """Answers until there is nothing more: to a function that it has it, to a list of arguments
    with what the function makes of each, or with the error that ended it."""
    require_gradual_underflow()
    function: Callable[..., Any] | None = None
    while (message := channel.receive()) is not None:
        answer: Any = None
        if callable(message):
            function = message
        else:
            assert function is not None
            try:
                answer = [function(*arguments) for arguments in message]
            except Exception as error:  # it belongs to who asked
                answer = error
        channel.send(answer)


_ranks: tuple[Channel, ...] = ()


@contextmanager
def helped_by(ranks: Sequence[Channel]) -> Iterator[None]:
    """Work inside is shared with these, which run on."""
    global _ranks
    before, _ranks = _ranks, tuple(ranks)
    try:
        yield
    finally:
        _ranks = before


class Helpers:
    """A function and the processes that share its work; a context manager, which ends them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._ready: list[Channel] = []
        self._asked: list[Channel] = []  # and have not answered
        self._own: list[Pipes] = []
        self._waiting: list[threading.Thread] = []
        self._begun = False

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *error: object) -> None:
        for channel in self._own:
            channel.close()
        for thread in self._waiting:
            thread.join()
        for channel in self._own:
            with suppress(OSError):  # what was still to be written
                channel.out.close()
            channel.back.close()
        for other in set(self._asked) - set(self._own):
            other.receive()

    @property
    def count(self) -> int:
        """Processes that work now, with this one."""
        return 1 + len(self._ready)

    def start(self) -> None:
        """Ranks help at once; a process for each other processor does as soon as it is there."""
        if self._begun:
            return
        self._begun = True
        for rank in _ranks:
            self._engage(rank)
        with suppress(OSError):  # no process can be started: then not
            self._own = [_started() for _ in range(cpu_count() - 1)]
        for channel in self._own:
            self._waiting.append(threading.Thread(target=self._engage, args=(channel,)))
            self._waiting[-1].start()

    def _engage(self, channel: Channel) -> None:
        with suppress(*UNKNOWN):
            channel.send(self.function)
            channel.receive()
            self._ready.append(channel)

    def __call__(self, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The function of every task's arguments, in their order; the tasks are dealt out in turn.

        What was given to a helper that ended is done here.
        """
        # who was interrupted before an answer would take it for that of another question
        self._ready = [helper for helper in self._ready if helper not in self._asked]
        helpers = self._ready[: max(0, len(tasks) - 1)]
        dealt = [tasks[i :: len(helpers) + 1] for i in range(len(helpers) + 1)]
        for helper, part in zip(helpers, dealt[1:], strict=True):
            with suppress(*LOST):
                helper.send(part)
                self._asked.append(helper)
        found: list[Any] = [None] * len(tasks)
        with one_blas_thread():
            found[:: len(dealt)] = self._here(dealt[0])
            for i, (helper, part) in enumerate(zip(helpers, dealt[1:], strict=True), 1):
                found[i :: len(dealt)] = self._answer(helper, part)
        return found

    def _here(self, part: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [self.function(*arguments) for arguments in part]

    def _answer(self, helper: Channel, part: Sequence[tuple[Any, ...]]) -> list[Any]:
        try:
            self._asked.remove(helper)
            answer = helper.receive()
        except (ValueError, *LOST):
            self._ready.remove(helper)
            return self._here(part)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)
