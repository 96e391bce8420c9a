"""The torch layer of each operation of a network, and the module that joins them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reconstruct.bridge import SELU
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Add, Geometry, MatrixProduct, Network, Node, activations, maps
from reconstruct.numbers.arrays import dense


class GraphModule(nn.Module):
    """The nodes of a network, one after the other, on rows of `size_in` values."""

    def __init__(self, network: Network, kind: torch.dtype) -> None:
        super().__init__()
        self.plan = [(n.name, n.inputs, network.finished[n.name]) for n in network.nodes]
        self.source, self.result = network.source, network.output
        self.size_in = network.size_in
        for node in network.nodes:
            _place(self, node.name.split("."), _layer(node, kind))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(1)
        if rows.shape[1] != self.size_in:
            raise InputError(
                f"the module takes examples of {self.size_in} values, but got {tuple(x.shape)}"
            )
        values = {self.source: rows}
        for name, inputs, finished in self.plan:
            values[name] = _found(self, name)(*(values[key] for key in inputs))
            for key in finished:
                if key != self.result:
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


class Applied(nn.Module):
    """`act(*values, **buffers)` with a function of this file: what torch has no layer for.

    Arrays are buffers, so that they move and are saved with the module; other settings are bound.
    """

    def __init__(self, act: Callable[..., torch.Tensor], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.act, self.names = act, tuple(buffers)
        for name, values in buffers.items():
            self.register_buffer(name, values)

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.act(*values, **{name: getattr(self, name) for name in self.names})


def rounded_to(value: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The value by way of a narrower type."""
    return value.to(kind).to(value.dtype)


def summed(*values: torch.Tensor) -> torch.Tensor:
    """Where branches meet."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def part(h: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    return h[:, start:stop]


def scaled(
    h: torch.Tensor, factor: torch.Tensor, divisor: torch.Tensor, offset: torch.Tensor
) -> torch.Tensor:
    return h * factor / divisor + offset


def scaled_elu(h: torch.Tensor, alpha: float, gamma: float) -> torch.Tensor:
    """`gamma·h` above 0 and `gamma·alpha·(exp(h) − 1)` below, with numbers of its own."""
    return gamma * functional.elu(h, alpha)


def placed(rows: torch.Tensor, index: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Each value is one of the inputs, or 0."""
    return torch.where(there, rows[:, index], 0.0)


class PixelNorm(nn.BatchNorm1d):
    """BatchNorm of rows in which `positions` neighbouring units share a channel."""

    def __init__(self, channels: int, positions: int, eps: float) -> None:
        super().__init__(channels, eps=eps)
        self.positions = positions

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return super().forward(h.unflatten(1, (-1, self.positions))).flatten(1)


class LiveRows(nn.Module):
    """LayerNorm or RMSNorm of `positions` runs of units; torch's RMSNorm has no bias."""

    def __init__(self, op: activations.LiveNorm, kind: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(_tensor(a, kind)) for a in (op.gamma, op.beta))
        self.eps, self.positions, self.centred = op.eps, op.positions, op.centred

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        rows, over = h.unflatten(1, (self.positions, -1)), tuple(self.weight.shape)
        if self.centred:
            return functional.layer_norm(rows, over, self.weight, self.bias, self.eps).flatten(1)
        return (functional.rms_norm(rows, over, self.weight, self.eps) + self.bias).flatten(1)


def images(rows: torch.Tensor, geometry: Geometry, filling: float = 0.0) -> torch.Tensor:
    """Rows as channels × height × width with their pads around them: torch's own layers pad both
    sides alike, and no more than half of a window."""
    values = rows.unflatten(1, (geometry.channels, geometry.height, geometry.width))
    top, left, bottom, right = geometry.pads
    return functional.pad(values, (left, right, top, bottom), value=filling)


class ImageConv(nn.Conv2d):
    """A Conv2d on rows."""

    def __init__(self, op: maps.Convolution, kind: torch.dtype) -> None:
        geometry = op.geometry
        super().__init__(
            geometry.channels,
            op.channels,
            geometry.kernel,
            geometry.strides,
            0,
            geometry.dilations,
            op.groups,
            dtype=kind,
        )
        self.geometry = geometry
        _fill(self.weight, op.kernel)
        _fill(self.bias, op.offsets)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return super().forward(images(rows, self.geometry)).flatten(1)


def window_sums(rows: torch.Tensor, geometry: Geometry, ones: torch.Tensor) -> torch.Tensor:
    """The sum over each window of each channel: a convolution with ones."""
    found = functional.conv2d(
        images(rows, geometry), ones, None, geometry.strides, 0, geometry.dilations,
        geometry.channels,
    )  # fmt: skip
    return found.flatten(1)


def window_maxima(rows: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """The maximum over each window of each channel; pads take no part."""
    values = images(rows, geometry, -torch.inf)
    found = functional.max_pool2d(values, geometry.kernel, geometry.strides, 0, geometry.dilations)
    return found.flatten(1)


def multiplied(first: torch.Tensor, second: torch.Tensor, op: MatrixProduct) -> torch.Tensor:
    """The product of each pair of matrices."""
    left = first.unflatten(1, (op.stack, op.rows, op.inner))
    return (left @ second.unflatten(1, (op.stack, op.inner, op.columns))).flatten(1)


def softmax(value: torch.Tensor, op: activations.Softmax) -> torch.Tensor:
    return functional.softmax(value.unflatten(1, (op.rows, op.width)), -1).flatten(1)


def _linear(op: maps.Dense | maps.Sparse, kind: torch.dtype) -> nn.Module:
    rows, columns = op.weight.shape
    layer = nn.utils.skip_init(nn.Linear, columns, rows, dtype=kind)
    _fill(layer.weight, dense(op.weight))
    _fill(layer.bias, op.bias)
    return layer


def _norm(op: maps.Norm, kind: torch.dtype) -> nn.Module:
    if op.positions == 1:
        layer: Any = nn.BatchNorm1d(len(op.gamma), eps=op.eps)
    else:
        layer = PixelNorm(len(op.gamma), op.positions, op.eps)
    layer.to(kind)
    parts = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    for place, values in zip(parts, (op.gamma, op.beta, op.mean, op.var), strict=True):
        _fill(place, values)
    return layer


def _window_sums(op: maps.SumPool, kind: torch.dtype) -> nn.Module:
    ones = torch.ones((op.geometry.channels, 1, *op.geometry.kernel), dtype=kind)
    return Applied(partial(window_sums, geometry=op.geometry), ones=ones)


def _placed(op: maps.Placement, kind: torch.dtype) -> nn.Module:
    index = torch.from_numpy(np.array(op.index))
    return Applied(placed, index=index.clamp_min(0), there=index >= 0)


def _scaled(op: maps.Scaling, kind: torch.dtype) -> nn.Module:
    names = ("factor", "divisor", "offset")
    return Applied(scaled, **{name: _tensor(getattr(op, name), kind) for name in names})


def _selu(op: activations.Selu, kind: torch.dtype) -> nn.Module:
    if asdict(op) == SELU:
        return nn.SELU()
    return Applied(partial(scaled_elu, alpha=op.alpha, gamma=op.gamma))


RULES: dict[type, Callable[[Any, torch.dtype], nn.Module]] = {
    maps.Dense: _linear,
    maps.Sparse: _linear,
    maps.Norm: _norm,
    activations.LayerNorm: LiveRows,
    activations.RMSNorm: LiveRows,
    maps.Scaling: _scaled,
    maps.Cast: lambda op, kind: Applied(partial(rounded_to, kind=getattr(torch, op.to))),
    maps.Convolution: lambda op, kind: ImageConv(op, kind),
    maps.SumPool: _window_sums,
    activations.MaxPool: lambda op, kind: Applied(partial(window_maxima, geometry=op.geometry)),
    maps.Placement: _placed,
    maps.Select: lambda op, kind: Applied(partial(part, start=op.start, stop=op.stop)),
    Add: lambda op, kind: Applied(summed),
    MatrixProduct: lambda op, kind: Applied(partial(multiplied, op=op)),
    activations.Softmax: lambda op, kind: Applied(partial(softmax, op=op)),
    activations.Relu: lambda op, kind: nn.ReLU(),
    activations.LeakyRelu: lambda op, kind: nn.LeakyReLU(op.slope),
    activations.Clip: lambda op, kind: Applied(partial(torch.clamp, min=op.lo, max=op.hi)),
    activations.Elu: lambda op, kind: nn.ELU(op.alpha),
    activations.Sigmoid: lambda op, kind: nn.Sigmoid(),
    activations.Tanh: lambda op, kind: nn.Tanh(),
    activations.Softplus: lambda op, kind: nn.Softplus(threshold=100.0),
    activations.Silu: lambda op, kind: nn.SiLU(),
    activations.Gelu: lambda op, kind: nn.GELU(),
    activations.HardSwish: lambda op, kind: nn.Hardswish(),
    activations.Selu: _selu,
}


def _layer(node: Node, kind: torch.dtype) -> nn.Module:
    """The layer of a node's operation in the precision `kind`."""
    rule = RULES.get(type(node.op))
    if rule is None:
        raise UnsupportedError(
            f"node {node.name!r} is a {type(node.op).__name__}, which has no torch layer here; "
            f"there are layers for {', '.join(known.__name__ for known in RULES)}"
        )
    return rule(node.op, kind)


def _fill(place: Any, values: Any) -> None:
    with torch.no_grad():
        place.copy_(torch.from_numpy(np.array(values)))


def _tensor(values: Any, kind: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.array(values)).to(kind)
