"""What every solver is: settings with a `solve` and a `cost`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.progress import Progress


@dataclass(frozen=True)
class Cost:
    """What a solve takes: bytes, and work in flops of a float64 matrix product.

    Choices compare work, not seconds, so that they are the same on every machine. `solver` is the
    method that would run, `reason` why it was chosen.
    """

    solver: Solver
    memory: float
    work: float
    reason: str = "asked for"


@runtime_checkable
class Solver(Protocol):
    """A way to solve `K s = W`, as a frozen dataclass of its settings."""

    @property
    def rational(self) -> bool:
        """Whether it solves over the rationals: W may then hold Fractions."""
        ...

    def solve(self, operator: KhatriRao, W: Any, progress: Progress | None = None) -> Solution:
        """The minimum-norm solution, with a status that admits what went wrong.

        The verb `solve` has brought the weights near 1 and asked the zero pattern before.
        """
        ...

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """Cost for a map of `m × k`, hidden width `n`, and this fraction of non-zero weights."""
        ...
