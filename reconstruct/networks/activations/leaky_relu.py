"""The rectifier that lets some of the negative side through."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from reconstruct.errors import InputError
from reconstruct.networks.activations.kink import Kink
from reconstruct.networks.operation import register
from reconstruct.numbers.given import number


@dataclass(frozen=True)
class LeakyRelu(Kink):
    """`z` for z ≥ 0 and `slope·z` below; usually 0 < slope < 1."""

    kind = "LeakyRelu"

    slope: float = 0.01

    def __post_init__(self) -> None:
        if not isfinite(number(self.slope, "the slope")):
            raise InputError(f"LeakyRelu needs a finite slope, but got {self.slope}")

    @property
    def sides(self) -> tuple[float, float]:
        return self.slope, 1.0

    def settings(self) -> dict[str, Any]:
        return {"slope": self.slope}


register("LeakyRelu", lambda part, settings: LeakyRelu(**settings))
