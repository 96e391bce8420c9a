"""The engine of many machines: each MPI rank holds a share of the hidden units.

    mpiexec -n 4 python script.py

Every rank runs the same script; a rank has rows of `M1` and columns of `M2` for its units alone
(or draws them), and threads of its own. One iteration of conjugate gradients exchanges one sum of
`m × k` numbers and two scalars, whatever the width. MPI gives every rank the same bits of a sum,
so all of them take the same decisions. Needs mpi4py (extra `mpi`).
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.khatri_rao.engines.threads import Threads
from reconstruct.numbers.threads import cpu_count

T = TypeVar("T")
Floats = NDArray[Any]

INTERRUPTED = 130  # exit code of a job that was stopped by Ctrl-C
FAILED = 4
COURTESY = 0.5  # seconds in which rank 0, if it was interrupted too, speaks for all
HEARD = 0.2  # seconds in which mpiexec passes on what a rank has said


class Mpi:
    """One share of hidden units per rank of `comm` (default: all ranks of the job).

    `threads`: workers inside of each rank (default: the processors of a machine divided among the
    ranks on it).
    """

    def __init__(self, comm: Any = None, *, threads: int | None = None) -> None:
        self._mpi = _mpi4py()
        self.comm = self._mpi.COMM_WORLD if comm is None else comm
        self.holders = int(self.comm.Get_size())
        self.rank = int(self.comm.Get_rank())
        self._threads = Threads(self._own_share() if threads is None else threads)

    def __repr__(self) -> str:
        return f"Mpi(rank {self.rank} of {self.holders}, {self.count} threads)"

    @property
    def count(self) -> int:
        """Threads inside this rank."""
        return self._threads.count

    @property
    def first(self) -> bool:
        """Rank 0 writes files."""
        return self.rank == 0

    @property
    def stopping(self) -> bool:
        """Whether this rank's threads are being interrupted."""
        return self._threads.stopping

    def held(self, width: int) -> slice:
        """Contiguous units, as many as the other ranks have or one more."""
        return self.held_by(self.rank, width)

    def held_by(self, rank: int, width: int) -> slice:
        """The units of any rank."""
        return slice(width * rank // self.holders, width * (rank + 1) // self.holders)

    def shares(self, width: int, flops: float) -> list[slice]:
        """The shares of this rank's threads."""
        return self._threads.shares(width, flops)

    def map(self, function: Callable[[slice], T], shares: list[slice]) -> list[T]:
        """On this rank's threads."""
        return self._threads.map(function, shares)

    def add(self, part: Floats) -> Floats:
        """The sum over all ranks, the same bits on each."""
        whole = np.empty_like(part)
        self.comm.Allreduce(np.ascontiguousarray(part), whole)
        return whole

    def largest(self, value: float) -> float:
        """The largest over all ranks; NaN if any is NaN."""
        found = self.comm.allgather(value)
        return float(np.max(found))

    def joined(
        self, operator: Any, W: Any, solver: Any, checkpoint: Any
    ) -> AbstractContextManager[Any]:
        """The operator as it is: every rank has its part already."""
        return nullcontext(operator)

    def gather(self, part: Floats, width: int) -> Floats:
        """The whole vector, on every rank."""
        whole = np.empty(width, dtype=part.dtype)
        held = [self.held_by(rank, width) for rank in range(self.holders)]
        counts = [part.stop - part.start for part in held]
        self.comm.Allgatherv(np.ascontiguousarray(part), (whole, counts))
        return whole

    def first_says(self, value: T) -> T:
        """What rank 0 gives, on every rank."""
        said: T = self.comm.bcast(value, root=0)
        return said

    def _own_share(self) -> int:
        beside = self.comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        ranks = int(beside.Get_size())
        beside.Free()
        return max(1, cpu_count() // ranks)


@contextmanager
def one_job(engine: Mpi, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Whatever ends one rank ends the job, with one message; otherwise the others would wait.

    `say` hears the message (default: standard error). Exit codes: 130 after an interrupt, 4 after
    an error; an exit that a rank asks for keeps its own.
    """
    speak = say or _to_stderr
    try:
        yield
    except KeyboardInterrupt:
        if not engine.first:
            time.sleep(COURTESY)
        speak("interrupted: the job ends; it goes on from the state that was kept last")
        _end(engine, INTERRUPTED)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if code:
            _end(engine, code)
        raise
    except BaseException as error:
        where = traceback.format_exception_only(error)[-1].strip()
        speak(f"rank {engine.rank} of {engine.holders} failed, so the job ends: {where}")
        _end(engine, FAILED)


def _end(engine: Mpi, code: int) -> None:
    """End all ranks; what was said has to reach mpiexec before, which drops it otherwise."""
    time.sleep(HEARD)
    engine.comm.Abort(code)


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _mpi4py() -> Any:
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise InputError(
            f"the MPI engine needs mpi4py, which cannot be imported ({error}); "
            "install the extra: pip install 'reconstruct[mpi]'"
        ) from None
