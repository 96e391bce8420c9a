"""MPI: every rank runs the same program, and the operator alone shares out its work.

    mpiexec -n 4 python script.py

Inside of `over_ranks(comm)` each operator takes a share of its hidden units on each rank and adds
up the `m × k` parts by one all-reduce, which gives every rank the same bits: so all of them take
the same decisions. Files are read and written by rank 0; `from_first` hands on what it read.
Where decisions hang on the clock, rank 0 takes them all, and the others help it: `job_of_helpers`.
Needs mpi4py (extra `mpi`).
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from reconstruct.errors import InputError
from reconstruct.numbers.parallel import at_most_threads, cpu_count
from reconstruct.numbers.processes import helped_by, serve

T = TypeVar("T")

_comm: Any = None


def world() -> Any:
    """The communicator of the whole job."""
    try:
        return importlib.import_module("mpi4py.MPI").COMM_WORLD
    except ImportError as error:
        raise InputError(
            f"a job of several ranks needs mpi4py, which cannot be imported ({error}); "
            "install the extra: pip install 'reconstruct[mpi]'"
        ) from None


def current() -> Any:
    """The communicator in use, None where this process works alone."""
    return _comm


def is_first() -> bool:
    """Whether this process writes files: rank 0, or the only one."""
    return _comm is None or int(_comm.Get_rank()) == 0


def from_first(make: Callable[[], T]) -> T:
    """What `make` gives on rank 0, on every rank."""
    if _comm is None:
        return make()
    found: T = _comm.bcast(make() if is_first() else None, root=0)
    return found


@contextmanager
def _sharing(comm: Any) -> Iterator[None]:
    global _comm
    before, _comm = _comm, comm
    try:
        yield
    finally:
        _comm = before


def alone() -> AbstractContextManager[None]:
    """Work that a rank does by itself, such as one trial of a study."""
    return _sharing(None)


@contextmanager
def over_ranks(comm: Any) -> Iterator[None]:
    """Share operators out over the ranks of `comm`; the ranks of a machine share its processors."""
    with _sharing(comm if int(comm.Get_size()) > 1 else None), at_most_threads(_threads(comm)):
        yield


def _threads(comm: Any) -> int:
    """A rank's share of the processors of its machine."""
    beside = comm.Split_type(importlib.import_module("mpi4py.MPI").COMM_TYPE_SHARED)
    threads = max(1, cpu_count() // int(beside.Get_size()))
    beside.Free()
    return threads


class Rank:
    """The way to another rank: a `Channel` of `numbers.processes`."""

    def __init__(self, comm: Any, number: int) -> None:
        self.comm, self.number = comm, number

    def send(self, message: Any) -> None:
        self.comm.send(message, dest=self.number)

    def receive(self) -> Any:
        while not self.comm.iprobe(source=self.number):  # MPI's own wait would spin
            time.sleep(1e-3)
        return self.comm.recv(source=self.number)

    def close(self) -> None:
        """Nothing: a rank goes on to help until rank 0 is through."""


def job_of_helpers(comm: Any, program: Callable[[], int]) -> int:
    """The exit code of `program`, which rank 0 runs while the others help; theirs is 0."""
    with at_most_threads(_threads(comm)):
        if int(comm.Get_rank()):
            serve(Rank(comm, 0))
            return 0
        others = [Rank(comm, number) for number in range(1, int(comm.Get_size()))]
        try:
            with helped_by(others):
                return program()
        finally:
            for rank in others:
                rank.send(None)


def as_job(comm: Any, program: Callable[[], int], courtesy: float = 5.0) -> int:
    """The exit code of `program`, which every rank runs; whatever ends one rank ends the job.

    A rank that failed waits `courtesy` seconds for the others, which as a rule fail likewise, and
    then ends those that wait for it in a sum. MPI's own wait would spin while rank 0 writes for
    minutes, so ranks look now and then.
    """
    try:
        code = program()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:
        rank, count = int(comm.Get_rank()), int(comm.Get_size())
        stderr = sys.__stderr__ or sys.stderr
        print(
            f"rank {rank} of {count} failed, so the job ends: {type(error).__name__}: {error}",
            file=stderr,
            flush=True,
        )
        code = 4  # internal error
    all_here, until = comm.Ibarrier(), time.monotonic() + courtesy
    while not all_here.Test():
        if code and time.monotonic() > until:
            comm.Abort(code)
        time.sleep(0.02)
    return code
