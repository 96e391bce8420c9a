"""What the operator and the solvers ask of an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")
Floats = NDArray[Any]


class Engine(Protocol):
    """Shares out `n` hidden units, and adds up what is computed from the shares.

    A holder is one address space: a process with threads is the only holder, an MPI job has one
    per rank. Vectors over hidden units are kept in parts, one per holder; everything of shape
    `m × k` is whole on every holder. With one holder `held` is all units, and `add`, `largest`
    and `gather` give back what they got. Every holder makes the same calls in the same order.
    """

    @property
    def count(self) -> int:
        """Workers inside this holder."""
        ...

    @property
    def holders(self) -> int:
        """Number of address spaces."""
        ...

    @property
    def first(self) -> bool:
        """Whether this holder is the one that writes files."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether a `map` is being interrupted: tasks should end at the next tile."""
        ...

    def held(self, width: int) -> slice:
        """Which of `width` hidden units this holder has."""
        ...

    def shares(self, width: int, flops: float) -> list[slice]:
        """Shares of `width` held units, one per worker; one share if `flops` are few."""
        ...

    def map(self, function: Callable[[slice], T], shares: list[slice]) -> list[T]:
        """`function` of each share, results in the order of the shares."""
        ...

    def add(self, part: Floats) -> Floats:
        """The sum of the holders' parts, whole on each of them."""
        ...

    def largest(self, value: float) -> float:
        """The largest of the holders' values."""
        ...

    def first_says(self, value: T) -> T:
        """The value of the first holder, on each of them."""
        ...

    def joined(
        self, operator: Any, W: Any, solver: Any, checkpoint: Any
    ) -> AbstractContextManager[Any]:
        """The operator for an iteration, on whatever else can be called in for it."""
        ...

    def gather(self, part: Floats, width: int) -> Floats:
        """The whole vector over `width` hidden units from the holders' parts."""
        ...
