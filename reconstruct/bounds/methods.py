"""How to bound: frozen objects that say which method, with its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
    """CROWN on the boxes of a partition that a branch and bound finds.

    The search ends after `boxes` boxes, or, if they are given, so early that all of the bounding
    takes about `seconds` (the outcome then depends on the machine). With more than `MOST_INPUTS`
    inputs, or a single box, nothing is divided: it is CROWN on the whole box.
    """

    seconds: float | None = None
    boxes: int = 2**12

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 <= number(self.seconds, "seconds") < float("inf"):
            raise InputError(f"a search needs a number of seconds ≥ 0, but got {self.seconds}")
        if whole(self.boxes, "the budget of a search") < 1:
            raise InputError(f"a search needs a budget of at least 1 box, but got {self.boxes}")

    def divides(self, inputs: int) -> bool:
        """Whether a box of so many inputs is divided."""
        return inputs <= MOST_INPUTS and self.boxes > 1


MOST_INPUTS = 16  # beyond it halving a box gains next to nothing

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
