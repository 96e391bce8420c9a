"""Khatri-Rao systems: solve `M2 diag(s) M1 = W` for `s`.

`solve` is the one verb; its methods are the frozen objects `Auto`, `Direct`, `ConjugateGradient`
and `Exact`; its result is a `Solution` with a `Status`. `plan` says beforehand what a solve would
do and cost. `KhatriRao` is the operator itself; an engine (`Threads`) shares out its work. Nothing
here knows what a network is.
"""

from reconstruct.khatri_rao.checkpoint import Checkpoint, FolderCheckpoint
from reconstruct.khatri_rao.engines import Engine, Mpi, Threads
from reconstruct.khatri_rao.many import solve_many
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.planning import Plan, plan
from reconstruct.khatri_rao.rank import RankProof, prove_full_rank
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import SOLVERS, Auto, ConjugateGradient, Direct, Exact, Solver
from reconstruct.khatri_rao.solvers.cgls import expected_iterations
from reconstruct.khatri_rao.solvers.exact import ExactSolution, solve_exact
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.structure import StructuralObstruction, structural_obstruction
from reconstruct.khatri_rao.using import using
from reconstruct.numbers.drawn import Drawn

__all__ = [
    "SOLVERS",
    "Auto",
    "Checkpoint",
    "ConjugateGradient",
    "Direct",
    "Drawn",
    "Engine",
    "Exact",
    "ExactSolution",
    "FolderCheckpoint",
    "KhatriRao",
    "Mpi",
    "Plan",
    "RankProof",
    "Solution",
    "Solver",
    "Status",
    "StructuralObstruction",
    "Threads",
    "expected_iterations",
    "plan",
    "prove_full_rank",
    "solve",
    "solve_exact",
    "solve_many",
    "structural_obstruction",
    "using",
]
