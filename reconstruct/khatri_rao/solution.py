"""What a solver is, what it returns, how it can end, and when a solution is called solved."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.operator import KhatriRao, Matrix, Vector
from reconstruct.khatri_rao.rank import StructuralObstruction
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.parallel import cpu_count, one_blas_thread
from reconstruct.progress import Progress, silent

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Accepted:
    """What is called solved."""

    residual: float = 1e-9  # above it nothing is called solved unless it was asked for
    deficient: float = 1e-12  # the same without full row rank: W must be in range to rounding
    condition: float = 1e12  # beyond which a failure is blamed on conditioning
    gradient: float = 1e-11  # of a residual, relative, at which it is orthogonal to the range of K


ACCEPTED = Accepted()


class Status(Enum):
    """Outcome of a solve; `explanation` says what it means and `remedy` what to try.

    Ranks are numerical, except where the exact solver or a proof modulo a prime found them.
    """

    SOLVED = "solved"
    RANK_DEFICIENT = "rank_deficient"
    TOO_NARROW = "too_narrow"
    NOT_CONVERGED = "not_converged"
    ILL_CONDITIONED = "ill_conditioned"

    @property
    def explanation(self) -> str:
        """What the status says about the system."""
        return _TABLE[self][0]

    @property
    def remedy(self) -> str:
        """What to try next; empty for SOLVED."""
        return _TABLE[self][1]


_TABLE: dict[Status, tuple[str, str]] = {
    Status.SOLVED: ("M2 diag(s) M1 equals W to rounding", ""),
    Status.RANK_DEFICIENT: (
        "the Khatri-Rao matrix of these M1, M2 does not have full row rank, "
        "and W is outside of its range",
        "draw weights from a continuous distribution, or use a larger width (ratio 1.5)",
    ),
    Status.TOO_NARROW: (
        "there are fewer hidden units than equations, and W is not among the maps that they reach",
        "widen the hidden layer to at least m·k, or factor W if its rank is low",
    ),
    Status.NOT_CONVERGED: (
        "the iteration stopped before the residual reached the tolerance",
        "use the direct solver, a larger width (ratio 1.5 or more), or more iterations",
    ),
    Status.ILL_CONDITIONED: (
        "the system has a solution, but float64 cannot carry it",
        "use a larger width (ratio 1.5 or more), or the exact solver",
    ),
}


@dataclass(frozen=True, eq=False)
class Solution:
    """Result of `solve`: the same fields on success and on failure.

    - `s`: float64 vector of length n; after a failure, the best found.
    - `status`: what happened; `message` says it in a sentence with the numbers.
    - `solver`: name of the method that was used.
    - `residual`: `‖M2 diag(s) M1 − W‖_F / ‖W‖_F` in float64 (absolute when W = 0).
    - `shape`: `(m, k)` of W; `needed` = m·k; `width`: hidden width n.
    - `rank`: numerical rank of K where the method finds it, else None; full rank that is proved
      modulo a prime overrules it.
    - `condition`: 2-norm condition number of K, None if not known, inf if K is singular. Direct:
      from singular values up to 512 equations, beyond it a lower estimate by power iterations
      with the triangular factor. Conjugate gradients: from the Lanczos matrix of the iteration,
      a lower estimate (with whitening, times the condition of the whitening).
    - `history`: relative residual after each refinement step (direct) or inner iteration
      (conjugate gradients); `iterations` is their number.
    - `seconds`: time of the whole solve.
    - `obstruction`: why no values on this zero pattern could give full rank, if that was found.
    - `rationals`: the exact solution that `s` is the rounding of, from the exact solver only, where
      there is one.
    - `said`: the sentence of a method that has one of its own.
    """

    s: NDArray[np.float64]
    status: Status
    solver: str
    residual: float
    shape: tuple[int, int]
    rank: int | None = None
    condition: float | None = None
    history: tuple[float, ...] = ()
    seconds: float = 0.0
    obstruction: StructuralObstruction | None = None
    rationals: tuple[Fraction, ...] | None = None
    said: str | None = None

    @property
    def needed(self) -> int:
        """Number of equations `m·k`."""
        return self.shape[0] * self.shape[1]

    @property
    def width(self) -> int:
        """Hidden width n: the number of unknowns."""
        return len(self.s)

    @property
    def iterations(self) -> int:
        """Number of steps in `history`."""
        return len(self.history)

    @property
    def largest(self) -> float:
        """`max |s_l|`."""
        return float(np.max(np.abs(self.s), initial=0.0))

    @property
    def solved(self) -> bool:
        """True when `status` is SOLVED."""
        return self.status is Status.SOLVED

    @property
    def message(self) -> str:
        """One sentence: outcome, numbers, remedy."""
        if self.said is not None:
            return self.said
        rank = "unknown" if self.rank is None else str(self.rank)
        condition = "unknown" if self.condition is None else f"{self.condition:.1e}"
        numbers = (
            f"rank {rank} of {self.needed} needed, width {self.width}, condition {condition}, "
            f"relative residual {self.residual:.1e} after {self.iterations} iterations "
            f"of {self.solver}"
        )
        exact = self.solved and self.rationals is not None
        what = "M2 diag(s) M1 == W over the rationals" if exact else self.status.explanation
        text = f"{self.status.value}: {what} ({numbers})"
        if self.obstruction is not None and not self.solved:
            return f"{text}; {self.obstruction.message}"
        return f"{text}; {self.status.remedy}" if self.status.remedy else text

    def __repr__(self) -> str:
        return f"Solution({self.message})"

    def replace(self, **changes: Any) -> Solution:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


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


def refine(
    s: Array,
    R: Array,
    size: float,
    correct: Callable[[Array], Array],
    evaluate: Callable[[Array], tuple[Array, float]],
    most: int,
) -> tuple[Array, list[float]]:
    """`s ← s + correct(R)` while the residual R at least halves, and its size after each step.

    A step that halves nothing is the last one: what is left is rounding.
    """
    history: list[float] = []
    for _ in range(most):
        moved = s + correct(R)
        rest, left = evaluate(moved) if np.isfinite(moved).all() else (R, np.inf)
        if not left < size:
            break
        halved = left <= size / 2
        s, R, size = moved, rest, left
        history.append(left)
        if not halved or left == 0:
            break
    return s, history


def is_solved(residual: float, tolerance: float, attainable: float, full_rank: bool) -> bool:
    """Whether a residual counts: within the tolerance asked for, or at rounding level.

    Without full row rank almost every W is out of reach, so there the residual has to be at
    rounding level whatever the tolerance.
    """
    if not np.isfinite(residual):
        return False
    if full_rank:
        return residual <= max(tolerance, min(attainable, ACCEPTED.residual))
    return residual <= min(max(tolerance, attainable), ACCEPTED.deficient)


def judged(
    found: Solution, operator: KhatriRao, W: Matrix, tolerance: float, R: Matrix | None = None
) -> Status:
    """How a solve ended that found this.

    Where a method does not find the rank it gives R: no correction brings it down, so that rank is
    lost, where `Kᵀ R` vanishes to rounding.
    """
    wide = operator.width >= operator.rows
    full = wide if R is not None else found.rank == operator.rows
    if is_solved(found.residual, tolerance, 0.0, full):
        return Status.SOLVED
    if is_solved(found.residual, tolerance, attainable_residual(operator, found.s, W), full):
        return Status.SOLVED
    if not wide:
        return Status.TOO_NARROW
    if R is not None:
        scale = np.sqrt(operator.squared_norm()) * np.linalg.norm(R)
        gradient = float(np.linalg.norm(operator.apply_transposed(R)))
        full = gradient > ACCEPTED.gradient * scale
    if not full:
        return Status.RANK_DEFICIENT
    if found.condition is not None and found.condition > ACCEPTED.condition:
        return Status.ILL_CONDITIONED
    return Status.NOT_CONVERGED


# --- solvers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What a solve takes: bytes, and work in flops of a float64 matrix product.

    Choices compare work, not seconds, so that they are the same on every machine. `solver` is the
    method that would run. `memory` counts the solver's own arrays, copies of the weights included.
    """

    solver: Solver
    memory: float
    work: float

    @property
    def memory_bytes(self) -> int:
        return int(self.memory)

    @property
    def seconds(self) -> float:
        """By the flop count, on this machine; expect a factor of two either way."""
        return self.work / gemm_speed()


@functools.cache
def gemm_speed() -> float:
    """Flops per second of float64 matrix products on all processors, measured once.

    One thread times the number of processors: several threads would wait for each other on a busy
    machine, and a product of milliseconds would show nothing but that.
    """
    A = np.random.default_rng(0).standard_normal((384, 384))
    best = np.inf
    with one_blas_thread():
        for _ in range(12):
            start = time.perf_counter()
            A @ A
            best = min(best, time.perf_counter() - start)
    return float(cpu_count() * 2 * 384**3 / best)


@runtime_checkable
class Solver(Protocol):
    """A way to solve `K s = W`, as a frozen dataclass of its settings."""

    @property
    def rational(self) -> bool:
        """Whether it solves over the rationals: W may then hold Fractions."""
        ...

    def solve(self, operator: KhatriRao, W: Any, progress: Progress = silent) -> Solution:
        """The minimum-norm solution, with a status that admits what went wrong.

        The verb `solve` has brought the weights near 1 and asked the zero pattern before.
        """
        ...

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """Cost for a map of `m × k`, hidden width `n`, and this fraction of non-zero weights."""
        ...
