"""Engines: who holds which hidden units, and how the parts of a sum over them meet.

`K s = Σ_l s_l · M2[:, l] M1[l, :]` is a sum over hidden units, so any share of the units gives an
`m × k` part of it. The operator knows tiles; an engine knows shares.
"""

from reconstruct.khatri_rao.engines.engine import Engine
from reconstruct.khatri_rao.engines.mpi import Mpi
from reconstruct.khatri_rao.engines.threads import Threads, Turns
from reconstruct.numbers.threads import cpu_count, one_blas_thread, physical_memory

__all__ = ["Engine", "Mpi", "Threads", "Turns", "cpu_count", "one_blas_thread", "physical_memory"]
