"""Khatri-Rao systems: solve `M2 diag(s) M1 = W` for `s`.

`solve` is the one verb; its methods are the frozen objects `Auto`, `Direct`, `ConjugateGradient`
and `Exact`; its result is a `Solution` with a `Status`. `plan` says beforehand what a solve would
do and cost. `KhatriRao` is the operator itself. Nothing here knows what a network is.
"""

from reconstruct.khatri_rao.auto import Auto, Plan, Solver, plan
from reconstruct.khatri_rao.conjugate_gradient import ConjugateGradient
from reconstruct.khatri_rao.direct import Direct
from reconstruct.khatri_rao.exact import Exact, ExactSolution, solve_exact
from reconstruct.khatri_rao.modular import RankProof, prove_full_rank
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.structure import StructuralObstruction, structural_obstruction

__all__ = [
    "Auto",
    "ConjugateGradient",
    "Direct",
    "Exact",
    "ExactSolution",
    "KhatriRao",
    "Plan",
    "RankProof",
    "Solution",
    "Solver",
    "Status",
    "StructuralObstruction",
    "plan",
    "prove_full_rank",
    "solve",
    "solve_exact",
    "structural_obstruction",
]
