"""The engine of one machine: worker threads, one BLAS thread each.

Element-wise work between the matrix products is memory bound and runs on one core inside NumPy,
so tiles in parallel with single-threaded BLAS beat one multi-threaded BLAS call.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from numpy.typing import NDArray

from reconstruct.numbers.threads import cpu_count, one_blas_thread

T = TypeVar("T")
Floats = NDArray[Any]

PARALLEL_FLOPS = 10_000_000  # below this, handing tiles to threads costs more than it saves

AHEAD_FLOPS = 5_000_000  # what the caller does in the time that waking another thread takes


class Threads:
    """A fixed number of threads (default: all processors), started at first use.

    The calling thread works too. Handing a share to another thread through a queue takes about
    10 µs, a third of what an executor's futures take, which counts for maps of 50 × 50.
    """

    holders = 1
    first = True

    def __init__(self, count: int | None = None) -> None:
        self.count = max(1, count if count is not None else cpu_count())
        self.stopping = False
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._workers: list[threading.Thread] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count})"

    def __del__(self) -> None:
        self.close()

    def held(self, width: int) -> slice:
        """All units: there is one address space."""
        return slice(0, width)

    def shares(self, width: int, flops: float) -> list[slice]:
        """Contiguous shares, the same in every call, so that sums have the same order.

        The first one, the caller's, is a little longer: the caller begins while the others are
        waking up, and if it is the last to end it need not be woken itself.
        """
        if flops < PARALLEL_FLOPS or width < 2 * self.count:
            return [slice(0, width)]
        ahead = int(width * min(AHEAD_FLOPS / flops, 0.5 / self.count))
        rest = width - ahead
        edges = [0, *(ahead + rest * i // self.count for i in range(1, self.count + 1))]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def map(self, function: Callable[[slice], T], shares: list[slice]) -> list[T]:
        """Run `function` over `shares` in parallel; results keep their order.

        Every task has ended when this returns or raises, an interrupt included.
        """
        with one_blas_thread():
            if len(shares) == 1 or self.count == 1:
                return [function(part) for part in shares]
            self._start(len(shares) - 1)
            return _Batch(self, function, shares).run()

    def add(self, part: Floats) -> Floats:
        """The part is the whole."""
        return part

    def largest(self, value: float) -> float:
        """The value."""
        return value

    def first_says(self, value: T) -> T:
        """The value."""
        return value

    def joined(
        self, operator: Any, W: Any, solver: Any, checkpoint: Any
    ) -> AbstractContextManager[Any]:
        """The operator as it is: there is nobody else to call."""
        return nullcontext(operator)

    def gather(self, part: Floats, width: int) -> Floats:
        """The part is the whole."""
        return part

    def close(self) -> None:
        """End the threads; a later `map` starts new ones."""
        for _ in self._workers:
            self._inbox.put(None)
        self._workers = []

    def submit(self, task: Callable[[], None]) -> None:
        """Hand a task to the next thread that is free."""
        self._inbox.put(task)

    def _start(self, wanted: int) -> None:
        while len(self._workers) < min(wanted, self.count - 1):
            worker = threading.Thread(
                target=_work, args=(self._inbox,), name="khatri_rao", daemon=True
            )
            worker.start()
            self._workers.append(worker)


class Turns(Threads):
    """The shares of `Threads(count)`, one after the other in the calling thread.

    For solves that run side by side: sums have the same order as with threads, so every bit of
    the result is the same.
    """

    def map(self, function: Callable[[slice], T], shares: list[slice]) -> list[T]:
        """`function` of each share in turn."""
        with one_blas_thread():
            return [function(part) for part in shares]


def _work(inbox: SimpleQueue[Any]) -> None:
    """The loop of a worker: it knows the queue alone, so that an engine can be let go."""
    while (task := inbox.get()) is not None:
        task()
        del task


class _Batch:
    """One `map`: the first share is done by the caller, the others by the workers."""

    def __init__(
        self, engine: Threads, function: Callable[[slice], Any], shares: list[slice]
    ) -> None:
        self._engine, self._function, self._shares = engine, function, shares
        self._results: list[Any] = [None] * len(shares)
        self._errors: list[BaseException] = []
        self._submitted, self._ended = 0, 0
        self._signal: SimpleQueue[None] = SimpleQueue()
        self._lock = threading.Lock()

    def run(self) -> list[Any]:
        try:
            for i in range(1, len(self._shares)):
                self._engine.submit(functools.partial(self._task, i))
                self._submitted += 1
            self._results[0] = self._function(self._shares[0])
            self._wait()
        except BaseException:
            self._engine.stopping = True
            try:
                self._wait()
            finally:
                self._engine.stopping = False
            raise
        if self._errors:
            raise self._errors[0]
        return self._results

    def _wait(self) -> None:
        """Until every submitted task has ended; an interrupt may have taken a signal away."""
        while self._ended < self._submitted:
            with contextlib.suppress(Empty):
                self._signal.get(timeout=0.1)

    def _task(self, i: int) -> None:
        try:
            self._results[i] = self._function(self._shares[i])
        except BaseException as error:
            self._errors.append(error)
        finally:
            with self._lock:
                self._ended += 1
            self._signal.put(None)
