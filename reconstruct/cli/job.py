"""One command on many ranks: `mpiexec -n N reconstruct …`.

Rank 0 runs the command as it would alone, and is the only one that reads, writes and speaks; the
others join its large solves, and take their part of samples and of boxes. A rank that dies ends the
job; what rank 0 has kept, --resume takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def launched() -> bool:
    """Whether this process is one of several that mpiexec started; imports nothing."""
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in SIZES)


def run_as_job(command: Callable[[], int]) -> int:
    """The exit code of `command`, run by rank 0; 0 on the other ranks."""
    from reconstruct.khatri_rao import Mpi, using
    from reconstruct.khatri_rao.engines.mpi import one_job
    from reconstruct.khatri_rao.ensemble import Ensemble, serve
    from reconstruct.numbers.sharing import dealing

    ranks = Mpi()
    with one_job(ranks):
        if not ranks.first:
            serve(ranks)
            return 0
        engine = Ensemble(ranks)
        try:
            with using(engine=engine), dealing(engine.each):
                code = command()
        except SystemExit:
            engine.dismiss()  # bad usage: nothing was begun
            raise
        if engine.busy:
            ranks.comm.Abort(code)
        engine.dismiss()
        return code
