"""Rank 0 runs a program as if it were alone; the other ranks wait, and join its iterations.

When conjugate gradients start on a large map, rank 0 calls the others, hands each its share of the
hidden units (or the source that draws them), and all iterate together. Small maps, direct and
exact solves stay with rank 0. Work that falls into many independent calls of one function is dealt
out with `each`, to whichever rank is free.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.checkpoint import Checkpoint, State
from reconstruct.khatri_rao.engines.mpi import Mpi
from reconstruct.khatri_rao.engines.threads import Threads
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.numbers.drawn import Drawn
from reconstruct.numbers.threads import one_blas_thread

SHARED_FLOPS = 2e8  # of one product: below, a sum over ranks costs more than it saves


CALL, ANSWER = 1, 2  # tags of a call and of what comes back from it
PAUSE = 0.002  # seconds between two looks for a call


class Iterative(Protocol):
    """A solver that ranks can run together."""

    def iterate(
        self, operator: KhatriRao, W: Any, progress: Any, checkpoint: Checkpoint | None
    ) -> Solution:
        """Solve on the operator's engine; every rank makes the same call."""
        ...


@dataclass(frozen=True)
class Invitation:
    """What rank 0 tells the others before they iterate together."""

    solver: Iterative
    shape: tuple[int, int]
    width: int
    W: NDArray[np.float64]
    seconds: float | None
    parts: tuple[Any, ...]  # for each of M1 and M2ᵀ its dtype, or None if it is drawn


@dataclass(frozen=True)
class Errand:
    """One of many independent calls: `function(*arguments)`, whose result goes back to rank 0."""

    number: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Mute:
    """The checkpoint of a rank that writes nothing: rank 0 keeps the state of all."""

    seconds: float

    def load(self, key: str) -> State | None:
        return None

    def save(self, key: str, state: State) -> None:
        raise AssertionError("only rank 0 writes")

    def clear(self, key: str) -> None:
        return None


class Ensemble(Threads):
    """The engine of rank 0: threads of its own, and other ranks that can be called."""

    def __init__(self, ranks: Mpi) -> None:
        super().__init__(ranks.count)
        self.ranks = ranks
        self.busy = False  # whether the others are iterating, and not waiting for a call

    @contextmanager
    def joined(
        self, operator: KhatriRao, W: Any, solver: Iterative, checkpoint: Checkpoint | None
    ) -> Iterator[KhatriRao]:
        """The operator shared out over all ranks, which iterate on it inside."""
        if 2.0 * operator.width * operator.rows < SHARED_FLOPS or self.ranks.holders == 1:
            yield operator
            return
        self.busy = True
        yield self._share_out(operator, W, solver, checkpoint)
        self.busy = False

    def each(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """`function(*item)` for every item, dealt out to all ranks; results in the items' order."""
        errands = deque(Errand(i, function, item) for i, item in enumerate(items))
        idle, own = list(range(1, self.ranks.holders)), _Own()
        ready: dict[int, Any] = {}
        try:
            for number in range(len(items)):
                while number not in ready:
                    self._deal(errands, idle, own)
                    ready |= own.collected() | self._answers(idle)
                    if number not in ready:
                        time.sleep(PAUSE)
                self.busy = len(idle) < self.ranks.holders - 1
                yield ready.pop(number)
        finally:
            own.leave()

    def _deal(self, errands: deque[Errand], idle: list[int], own: _Own) -> None:
        while errands and idle:
            self.busy = True
            self.ranks.comm.send(errands.popleft(), dest=idle.pop(), tag=CALL)
        if errands and own.free:
            own.take(errands.popleft())

    def _answers(self, idle: list[int]) -> dict[int, Any]:
        """What has come back; who sent it is idle again."""
        found = {}
        while self.ranks.comm.iprobe(tag=ANSWER):
            rank, number, result = self.ranks.comm.recv(tag=ANSWER)
            idle.append(rank)
            found[number] = result
        return found

    def dismiss(self) -> None:
        """No more calls: the other ranks leave `serve`."""
        self._call(None)

    def _call(self, call: Invitation | None) -> None:
        for rank in range(1, self.ranks.holders):
            self.ranks.comm.send(call, dest=rank, tag=CALL)

    def _share_out(
        self, operator: KhatriRao, W: Any, solver: Iterative, checkpoint: Checkpoint | None
    ) -> KhatriRao:
        ranks, pair = self.ranks, (operator.M1, operator.M2T)
        kinds = tuple(None if isinstance(one, Drawn) else one.dtype for one in pair)
        seconds = None if checkpoint is None else checkpoint.seconds
        call = Invitation(solver, operator.map_shape, operator.width, W, seconds, kinds)
        self._call(call)
        for rank in range(1, ranks.holders):
            for one in pair:
                _send(ranks, one, ranks.held_by(rank, operator.width), rank)
        own = ranks.held(operator.width)
        held = [one.part(own) if isinstance(one, Drawn) else one[own] for one in pair]
        return KhatriRao.of_parts(held[0], held[1], operator.width, engine=ranks)


class _Own:
    """Rank 0's own errand, on a thread beside the one that deals: it may take minutes.

    The thread does not inherit the ensemble, so that nothing in it calls ranks that are busy.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._errand: tuple[int, Future[Any]] | None = None

    @property
    def free(self) -> bool:
        return self._errand is None

    def take(self, errand: Errand) -> None:
        self._errand = errand.number, self._pool.submit(errand.function, *errand.arguments)

    def collected(self) -> dict[int, Any]:
        """The result, once it is there."""
        if self._errand is None or not self._errand[1].done():
            return {}
        number, future = self._errand
        self._errand = None
        return {number: future.result()}

    def leave(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def serve(ranks: Mpi) -> None:
    """What every other rank does: iterate or run errands when called, until dismissed.

    Interrupts are left to rank 0, which ends the job.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while (call := _next_call(ranks)) is not None:
            if isinstance(call, Errand):
                with one_blas_thread():  # the ranks of a machine share its processors
                    result = call.function(*call.arguments)
                ranks.comm.send((ranks.rank, call.number, result), dest=0, tag=ANSWER)
                continue
            checkpoint = None if call.seconds is None else Mute(call.seconds)
            call.solver.iterate(_receive(ranks, call), call.W, None, checkpoint)
    finally:
        signal.signal(signal.SIGINT, before)


def _next_call(ranks: Mpi) -> Invitation | Errand | None:
    """Wait without spinning, as MPI itself would: rank 0 may be at other work for minutes."""
    while not ranks.comm.iprobe(source=0, tag=CALL):
        time.sleep(PAUSE)
    call: Invitation | Errand | None = ranks.comm.recv(source=0, tag=CALL)
    return call


def _send(ranks: Mpi, matrix: Any, units: slice, rank: int) -> None:
    if isinstance(matrix, Drawn):
        ranks.comm.send(matrix.part(units), dest=rank)
    else:
        ranks.comm.Send(np.ascontiguousarray(matrix[units]), dest=rank)


def _receive(ranks: Mpi, call: Invitation) -> KhatriRao:
    held = ranks.held(call.width)
    got = []
    for dtype, across in zip(call.parts, reversed(call.shape), strict=True):
        if dtype is None:
            got.append(ranks.comm.recv(source=0))
        else:
            part = np.empty((held.stop - held.start, across), dtype)
            ranks.comm.Recv(part, source=0)
            got.append(part)
    return KhatriRao.of_parts(got[0], got[1], call.width, engine=ranks)
