"""What a solve returns, and the rule by which it is called solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Matrix, Vector
from reconstruct.khatri_rao.structure import StructuralObstruction

EPS = float(np.finfo(np.float64).eps)
ACCEPTED = 1e-9  # a relative residual above this is never called solved unless it was asked for
ACCEPTED_DEFICIENT = 1e-12  # the same for a K without full row rank: W must be in range to rounding


@dataclass(frozen=True, eq=False)
class Solution:
    """Result of `solve`: the same fields on success and on failure.

    - `s`: float64 vector of length n; after a failure, the best found.
    - `status`: what happened; `message` says it in a sentence with the numbers.
    - `solver`: name of the method that was used.
    - `residual`: `‖M2 diag(s) M1 − W‖_F / ‖W‖_F` in float64 (absolute when W = 0).
    - `rank`: numerical rank of K where the method finds it, else None; full rank that is proved
      modulo a prime overrules it; `needed` = m·k.
    - `width`: hidden width n.
    - `condition`: 2-norm condition number of K, None if not known, inf if K is singular. Direct:
      from singular values up to 512 equations, beyond it a lower estimate by power iterations
      with the triangular factor. Conjugate gradients: from the Lanczos matrix of the iteration,
      a lower estimate (with whitening, times the condition of the whitening).
    - `iterations`: refinement steps (direct) or inner iterations (conjugate gradients).
    - `history`: relative residual after each of them.
    - `obstruction`: why no values on this zero pattern could give full rank, if that was found.
    """

    s: NDArray[np.float64]
    status: Status
    solver: str
    residual: float
    rank: int | None
    needed: int
    width: int
    condition: float | None
    iterations: int
    history: tuple[float, ...]
    seconds: float
    obstruction: StructuralObstruction | None = None

    @property
    def solved(self) -> bool:
        """True when `status` is SOLVED."""
        return self.status is Status.SOLVED

    @property
    def message(self) -> str:
        """One sentence: outcome, numbers, remedy."""
        rank = "unknown" if self.rank is None else str(self.rank)
        condition = "unknown" if self.condition is None else f"{self.condition:.1e}"
        numbers = (
            f"rank {rank} of {self.needed} needed, width {self.width}, condition {condition}, "
            f"relative residual {self.residual:.1e} after {self.iterations} iterations "
            f"of {self.solver}"
        )
        text = f"{self.status.value}: {self.status.explanation} ({numbers})"
        if self.obstruction is not None and not self.solved:
            return f"{text}; {self.obstruction.message}"
        return f"{text}; {self.status.remedy}" if self.status.remedy else text

    def __repr__(self) -> str:
        return f"Solution({self.message})"


def relative_residual(operator: KhatriRao, s: Vector, W: Matrix) -> tuple[Matrix, float]:
    """`R = W − K s` and `‖R‖_F / ‖W‖_F` (absolute when W = 0), in float64."""
    R = W - operator.apply(s)
    norm = float(np.linalg.norm(W))
    size = float(np.linalg.norm(R))
    return R, size / norm if norm > 0 else size


def attainable_residual(operator: KhatriRao, s: Vector, W: Matrix) -> float:
    """Relative residual that rounding alone explains: `4 ε ‖ |M2| diag(|s|) |M1| ‖_F / ‖W‖_F`.

    Rounding the entries of `s` to float64 already leaves about a quarter of it.
    """
    norm = float(np.linalg.norm(W))
    size = 4 * EPS * float(np.linalg.norm(operator.magnitude(s)))
    return size / norm if norm > 0 else size


def is_solved(residual: float, tolerance: float, attainable: float, full_rank: bool) -> bool:
    """Whether a residual counts: within the tolerance asked for, or at rounding level.

    Without full row rank almost every W is out of reach, so there the residual has to be at
    rounding level whatever the tolerance.
    """
    if not np.isfinite(residual):
        return False
    if full_rank:
        return residual <= max(tolerance, min(attainable, ACCEPTED))
    return residual <= min(max(tolerance, attainable), ACCEPTED_DEFICIENT)
