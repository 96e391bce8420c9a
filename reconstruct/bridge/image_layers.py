"""The torch layers of operations on images; values come and go as rows, channel by channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reconstruct.networks import Convolution, Geometry, MaxPool, Placement, SumPool


def images(rows: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """Rows as channels × height × width."""
    return rows.unflatten(1, (geometry.channels, geometry.height, geometry.width))


def own_padding(geometry: Geometry) -> tuple[int, int] | None:
    """The padding as torch's layers have it, the same on both sides; None where it is not."""
    top, left, bottom, right = geometry.pads
    return (top, left) if (top, left) == (bottom, right) else None


def padded(values: torch.Tensor, geometry: Geometry, filling: float) -> torch.Tensor:
    """The images with their pads around them."""
    top, left, bottom, right = geometry.pads
    return functional.pad(values, (left, right, top, bottom), value=filling)


class ImageConv(nn.Conv2d):
    """A Conv2d on rows."""

    def __init__(self, op: Convolution, kind: Any) -> None:
        geometry = op.geometry
        super().__init__(
            geometry.channels,
            op.channels,
            geometry.kernel,
            geometry.strides,
            own_padding(geometry) or 0,
            geometry.dilations,
            op.groups,
            dtype=kind,
        )
        self.geometry = geometry
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(np.array(op.kernel)))
            self.bias.copy_(torch.from_numpy(np.array(op.offsets)))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        values = images(rows, self.geometry)
        if own_padding(self.geometry) is None:
            values = padded(values, self.geometry, 0.0)
        return super().forward(values).flatten(1)


class WindowSum(nn.Module):
    """The sum over each window of each channel: a convolution with ones."""

    def __init__(self, op: SumPool, kind: Any) -> None:
        super().__init__()
        self.geometry = op.geometry
        shape = (op.geometry.channels, 1, *op.geometry.kernel)
        self.register_buffer("ones", torch.ones(shape, dtype=kind))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        geometry = self.geometry
        values = images(rows, geometry)
        padding = own_padding(geometry)
        if padding is None:
            values, padding = padded(values, geometry, 0.0), (0, 0)
        summed = functional.conv2d(
            values,
            self.ones,
            None,
            geometry.strides,
            padding,
            geometry.dilations,
            geometry.channels,
        )
        return summed.flatten(1)


class WindowMax(nn.Module):
    """The maximum over each window of each channel; pads take no part."""

    def __init__(self, op: MaxPool) -> None:
        super().__init__()
        self.geometry = op.geometry

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        geometry = self.geometry
        values = images(rows, geometry)
        padding = own_padding(geometry)
        if padding is None or any(2 * p > k for p, k in zip(padding, geometry.kernel, strict=True)):
            values, padding = padded(values, geometry, -torch.inf), (0, 0)
        found = functional.max_pool2d(
            values, geometry.kernel, geometry.strides, padding, geometry.dilations
        )
        return found.flatten(1)


class PlacedLayer(nn.Module):
    """Each value is one of the inputs, or 0."""

    def __init__(self, op: Placement) -> None:
        super().__init__()
        index = torch.from_numpy(np.array(op.index))
        self.register_buffer("index", index.clamp_min(0))
        self.register_buffer("there", index >= 0)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.where(self.there, rows[:, self.index], 0.0)
