"""One command on many ranks: `mpiexec -n N reconstruct …`.

Every rank runs the same command and shares the sums over hidden units; rank 0 alone reads what was
kept, writes and speaks. Commands that solve nothing large are rank 0's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
SHARED = ("run", "study")


def launched() -> bool:
    """Whether this process is one of several that mpiexec started; imports nothing."""
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in SIZES)


def run_as_job(words: Sequence[str] | None, command: Callable[[], int]) -> int:
    """The exit code of `command` on this rank; only rank 0 is heard."""
    from reconstruct.khatri_rao.ranks import as_job, over_ranks, world

    comm = world()
    shared = bool({*(sys.argv[1:] if words is None else words)} & {*SHARED})

    def program() -> int:
        if not shared:
            return command() if comm.Get_rank() == 0 else 0
        with over_ranks(comm):
            if comm.Get_rank() == 0:
                return command()
            with open(os.devnull, "w") as no, redirect_stdout(no), redirect_stderr(no):
                return command()

    return as_job(comm, program)
