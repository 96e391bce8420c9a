"""The scaled exponential linear unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.networks.activations.elu import ExponentialUnit
from reconstruct.networks.operation import register


@dataclass(frozen=True)
class Selu(ExponentialUnit):
    """`gamma·z` for z ≥ 0 and `gamma·alpha·(exp(z) − 1)` below (ONNX's constants, in float32)."""

    kind = "Selu"

    alpha: float = float(np.float32(1.67326319217681884765625))
    gamma: float = float(np.float32(1.05070102214813232421875))

    @property
    def numbers(self) -> tuple[float, float]:
        return self.alpha, self.gamma

    def settings(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "gamma": self.gamma}


register("Selu", lambda part, settings: Selu(**settings))
