"""How to bound: frozen objects that say which method, with its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from reconstruct.bounds.adaptive.tree import Cuts
from reconstruct.bounds.leaning import Slopes
from reconstruct.errors import InputError
from reconstruct.numbers.given import number, whole


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
        if self.parts is not None and whole(self.parts, "the parts of a split") < 1:
            raise InputError(f"a split needs at least 1 part per coordinate, but got {self.parts}")
        if whole(self.budget, "the budget of a split") < 1:
            raise InputError(f"a split needs a budget of at least 1 box, but got {self.budget}")


@dataclass(frozen=True)
class Adaptive:
    """Branch and bound over the box: zonotopes on the leaves of a tree that is cut where it helps.

    The search ends after `boxes` boxes, or, if they are given, so early that all of the bounding
    takes about `seconds` (the outcome then depends on the machine). `cuts` brings a tree from an
    earlier search: no other is looked for.
    With more than `MOST_INPUTS` inputs, or a single box, nothing is cut: it is CROWN on the whole
    box with slopes that are searched for (alpha-CROWN); `slopes` brings those of an earlier search.
    """

    seconds: float | None = None
    boxes: int = 2**12
    cuts: Cuts | None = field(default=None, repr=False, compare=False)
    slopes: Slopes | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 <= number(self.seconds, "seconds") < float("inf"):
            raise InputError(f"a search needs a number of seconds ≥ 0, but got {self.seconds}")
        if whole(self.boxes, "the budget of a search") < 1:
            raise InputError(f"a search needs a budget of at least 1 box, but got {self.boxes}")
        if self.cuts is not None and not isinstance(self.cuts, Cuts):
            raise InputError(
                f"cuts must be the tree of an earlier search, reach.cuts, but are of the type "
                f"{type(self.cuts).__name__}"
            )
        if self.slopes is not None and not isinstance(self.slopes, Slopes):
            raise InputError(
                f"slopes must be those of an earlier search, reach.slopes, but are of the type "
                f"{type(self.slopes).__name__}"
            )

    def cutting(self, inputs: int) -> bool:
        """Whether a box of so many inputs is cut."""
        return inputs <= MOST_INPUTS and (self.boxes > 1 or self.cuts is not None)


MOST_INPUTS = 16  # beyond it cutting a box in halves gains next to nothing

Method: TypeAlias = Interval | Crown | Split | Adaptive


def as_method(method: Method | None) -> Method:
    """The method that is meant; None is CROWN. Words are for the command line."""
    if method is None:
        return Crown()
    if not isinstance(method, Interval | Crown | Split | Adaptive):
        raise InputError(
            f"bounds must be one of Interval(), Crown(), Split(), Adaptive(), but are {method!r}; "
            f"pass an instance"
        )
    return method
