"""One operator of torch, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reconstruct.bridge.onnx_graph import OnnxGraph
from reconstruct.errors import UnsupportedError


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """One operator: its arguments (names of values for tensors), its shapes, its layer's name."""

    target: str
    name: str
    arguments: dict[str, Any]
    shape: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]

    def __getitem__(self, key: str) -> Any:
        return self.arguments[key]

    def refuse(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name!r} ({self.target}) {why}")


Rule = Callable[[OperatorCall, OnnxGraph], str]
