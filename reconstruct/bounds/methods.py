"""How to bound: frozen objects that say which method, with its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from reconstruct.errors import InputError


@dataclass(frozen=True)
class Interval:
    """Node by node, each value's range from the ranges of its inputs: fast and loose."""


@dataclass(frozen=True)
class Crown:
    """Linear bounds carried back to the input through a line above and below each activation."""


@dataclass(frozen=True)
class Split:
    """CROWN on each part of a grid that covers the box; the worst part counts.

    `parts` pieces along every coordinate, or, without it, a grid of at most `budget` sub-boxes
    that cuts the coordinates with the largest effect most. For networks of few inputs.
    """

    parts: int | None = None
    budget: int = 4096

    def __post_init__(self) -> None:
        if self.parts is not None and self.parts < 1:
            raise InputError(f"a split needs at least 1 part per coordinate, but got {self.parts}")
        if self.budget < 1:
            raise InputError(f"a split needs a budget of at least 1 box, but got {self.budget}")


Method: TypeAlias = Interval | Crown | Split
