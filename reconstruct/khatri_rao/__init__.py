"""Khatri-Rao systems: solve `M2 diag(s) M1 = W` for `s`.

`solve` is the one verb; its methods are the frozen objects `Auto`, `Direct`, `ConjugateGradient`
and `Exact`; its result is a `Solution` with a `Status`. `plan` says beforehand what a solve would
do and cost. `KhatriRao` is the operator itself, which shares out its work over threads and MPI
ranks. Nothing here knows what a network is.
"""

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.rank import (
    RankProof,
    StructuralObstruction,
    prove_full_rank,
    structural_obstruction,
)
from reconstruct.khatri_rao.ranks import over_ranks
from reconstruct.khatri_rao.solution import Cost, Solution, Status
from reconstruct.khatri_rao.solve import plan, solve
from reconstruct.khatri_rao.solvers import SOLVERS, Auto, ConjugateGradient, Direct, Exact, Solver
from reconstruct.khatri_rao.solvers.conjugate_gradient import expected_iterations
from reconstruct.khatri_rao.solvers.exact import solve_exact
