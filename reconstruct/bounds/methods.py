"""How to bound: frozen objects that say which method, with its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from reconstruct.bounds.adaptive.tree import Cuts
from reconstruct.errors import InputError
from reconstruct.numbers.given import number, whole


@dataclass(frozen=True)
class Interval:
    """Node by node, each value's range from the ranges of its inputs: fast and loose."""


@dataclass(frozen=True)
class Crown:
    """Linear bounds carried back to the input through a line above and below each activation."""


@dataclass(frozen=True)
class Adaptive:
    """Branch and bound over the box: zonotopes on the leaves of a tree that is cut where it helps.

    The search ends after `boxes` boxes, or, if they are given, so early that all of the bounding
    takes about `seconds` (the outcome then depends on the machine). `cuts` brings a tree from an
    earlier search: no other is looked for.
    With more than `MOST_INPUTS` inputs, or a single box, nothing is cut: it is CROWN on the whole
    box.
    """

    seconds: float | None = None
    boxes: int = 2**12
    cuts: Cuts | None = field(default=None, repr=False, compare=False)

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

    def cutting(self, inputs: int) -> bool:
        """Whether a box of so many inputs is cut."""
        return inputs <= MOST_INPUTS and (self.boxes > 1 or self.cuts is not None)


MOST_INPUTS = 16  # beyond it cutting a box in halves gains next to nothing

Method: TypeAlias = Interval | Crown | Adaptive


def as_method(method: Method | None) -> Method:
    """The method that is meant; None is CROWN. Words are for the command line."""
    if method is None:
        return Crown()
    if not isinstance(method, Interval | Crown | Adaptive):
        raise InputError(
            f"bounds must be one of Interval(), Crown(), Adaptive(), but are {method!r}; pass an "
            f"instance"
        )
    return method
