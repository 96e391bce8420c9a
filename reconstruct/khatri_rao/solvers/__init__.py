"""Solvers of `M2 diag(s) M1 = W`: one class per file, each with `solve` and `cost`.

A new solver is its own file and one line in `SOLVERS`, by which the command line knows it.
"""

from reconstruct.khatri_rao.solution import Cost, Solver
from reconstruct.khatri_rao.solvers.auto import Auto
from reconstruct.khatri_rao.solvers.conjugate_gradient import ConjugateGradient
from reconstruct.khatri_rao.solvers.direct import Direct
from reconstruct.khatri_rao.solvers.exact import Exact

SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "direct": Direct,
    "cg": ConjugateGradient,
    "exact": Exact,
}

__all__ = [
    "SOLVERS",
    "Auto",
    "ConjugateGradient",
    "Cost",
    "Direct",
    "Exact",
    "Solver",
]
