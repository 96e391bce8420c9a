"""The torch layer of each operation of a network, and the module that joins them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from reconstruct.bridge.image_layers import ImageConv, PlacedLayer, WindowMax, WindowSum
from reconstruct.bridge.requirement import SELU
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import (
    Add,
    Clip,
    Convolution,
    Dense,
    Elu,
    LeakyRelu,
    MaxPool,
    Norm,
    Placement,
    Relu,
    Scaling,
    Select,
    Selu,
    Sparse,
    SumPool,
)
from reconstruct.numbers.arrays import dense


@dataclass(frozen=True, eq=False)
class LayerStep:
    """`layer` applied to the values named by `inputs`; its own value is known by `name`."""

    name: str
    layer: nn.Module
    inputs: tuple[str, ...]


class GraphModule(nn.Module):
    """The steps of a network, one after the other, on rows of `size_in` values."""

    def __init__(self, steps: Sequence[LayerStep], source: str, output: str, size_in: int) -> None:
        super().__init__()
        self.plan = [(step.name, step.inputs) for step in steps]
        self.source, self.result, self.size_in = source, output, size_in
        for step in steps:
            _place(self, step.name.split("."), step.layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(1)
        if rows.shape[1] != self.size_in:
            raise InputError(
                f"the module takes examples of {self.size_in} values, but got {tuple(x.shape)}"
            )
        last_use = {name: i for i, (_, inputs) in enumerate(self.plan) for name in inputs}
        last_use[self.result] = len(self.plan)
        values = {self.source: rows}
        for i, (name, inputs) in enumerate(self.plan):
            values[name] = _found(self, name)(*(values[key] for key in inputs))
            for key in set(inputs):
                if last_use[key] == i:
                    del values[key]
        return values[self.result]


def _place(parent: nn.Module, path: list[str], layer: nn.Module) -> None:
    """Put the layer where its dotted name says.

    The table of children is used itself: `add_module` refuses names that a Module has for
    something else, such as `type`, and a network may use any.
    """
    if "training" in path:
        raise UnsupportedError(
            f"a torch module keeps its mode under the name 'training', so the node "
            f"{'.'.join(path)!r} cannot be one of its layers; rename it"
        )
    for word in path[:-1]:
        if word not in parent._modules:
            parent._modules[word] = nn.Module()
        parent = parent._modules[word]
    held = parent._modules.get(path[-1])
    if held is not None:
        for word, child in held._modules.items():
            layer._modules[word] = child
    parent._modules[path[-1]] = layer


def _found(module: nn.Module, name: str) -> nn.Module:
    for word in name.split("."):
        module = module._modules[word]
    return module


class Sum(nn.Module):
    """Where branches meet."""

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total


class LayerBlock(nn.Module):
    """`h[start:stop]`."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.start, self.stop = start, stop

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h[:, self.start : self.stop]


class Scaled(nn.Module):
    """`h∘factor/divisor + offset`."""

    def __init__(self, op: Scaling, kind: Any) -> None:
        super().__init__()
        for name in ("factor", "divisor", "offset"):
            self.register_buffer(name, _tensor(getattr(op, name), kind))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h * self.factor / self.divisor + self.offset


class Clamp(nn.Module):
    """`min(max(h, lo), hi)`; an end at infinity clips nothing."""

    def __init__(self, lo: float, hi: float) -> None:
        super().__init__()
        self.lo, self.hi = lo, hi

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return torch.clamp(h, self.lo, self.hi)


class ScaledElu(nn.Module):
    """`gamma·h` above 0 and `gamma·alpha·(exp(h) − 1)` below, with numbers of its own."""

    def __init__(self, alpha: float, gamma: float) -> None:
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.gamma * nn.functional.elu(h, self.alpha)


class PixelNorm(nn.BatchNorm1d):
    """BatchNorm of rows in which `positions` neighbouring units share a channel."""

    def __init__(self, channels: int, positions: int, eps: float) -> None:
        super().__init__(channels, eps=eps)
        self.positions = positions

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return super().forward(h.unflatten(1, (-1, self.positions))).flatten(1)


def _linear(op: Dense | Sparse, kind: Any) -> nn.Module:
    rows, columns = op.weight.shape
    layer = nn.utils.skip_init(nn.Linear, columns, rows, dtype=_torch_kind(kind))
    _fill(layer.weight, dense(op.weight))
    _fill(layer.bias, op.bias)
    return layer


def _norm(op: Norm, kind: Any) -> nn.Module:
    if op.positions == 1:
        layer: Any = nn.BatchNorm1d(len(op.gamma), eps=op.eps)
    else:
        layer = PixelNorm(len(op.gamma), op.positions, op.eps)
    layer.to(_torch_kind(kind))
    parts = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    for place, values in zip(parts, (op.gamma, op.beta, op.mean, op.var), strict=True):
        _fill(place, values)
    return layer


def _selu(op: Selu, kind: Any) -> nn.Module:
    return nn.SELU() if asdict(op) == SELU else ScaledElu(op.alpha, op.gamma)


RULES: dict[type, Callable[[Any, Any], nn.Module]] = {
    Dense: _linear,
    Sparse: _linear,
    Norm: _norm,
    Scaling: Scaled,
    Convolution: lambda op, kind: ImageConv(op, _torch_kind(kind)),
    SumPool: lambda op, kind: WindowSum(op, _torch_kind(kind)),
    MaxPool: lambda op, kind: WindowMax(op),
    Placement: lambda op, kind: PlacedLayer(op),
    Select: lambda op, kind: LayerBlock(op.start, op.stop),
    Add: lambda op, kind: Sum(),
    Relu: lambda op, kind: nn.ReLU(),
    LeakyRelu: lambda op, kind: nn.LeakyReLU(op.slope),
    Clip: lambda op, kind: Clamp(op.lo, op.hi),
    Elu: lambda op, kind: nn.ELU(op.alpha),
    Selu: _selu,
}


def layer_of(name: str, op: Any, kind: Any) -> nn.Module:
    """The layer of an operation in the precision `kind`."""
    rule = RULES.get(type(op))
    if rule is None:
        raise UnsupportedError(
            f"node {name!r} is a {type(op).__name__}, which has no torch layer here; there are "
            f"layers for {', '.join(known.__name__ for known in RULES)}"
        )
    return rule(op, kind)


def _fill(place: Any, values: Any) -> None:
    with torch.no_grad():
        place.copy_(_tensor(values, place.numpy(force=True).dtype))


def _tensor(values: Any, kind: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=kind))


def _torch_kind(kind: Any) -> Any:
    return torch.float32 if np.dtype(kind) == np.float32 else torch.float64
