"""Fully connected networks with a norm before each activation."""

from __future__ import annotations

import math

from torch import nn

from reconstruct.errors import InputError
from reconstruct.training.data.dataset import Dataset
from reconstruct.training.models.drawing import Gamma, drawn


def mlp(
    depth: int,
    width: int,
    data: Dataset,
    *,
    gamma: Gamma | str = Gamma.UNIFORM,
    seed: int = 0,
) -> nn.Module:
    """`depth` hidden layers of `width` units, `σ(norm(W h))` each, and a linear output."""
    if depth < 1 or width < 1:
        raise InputError(
            f"an MLP needs at least 1 hidden layer of at least 1 unit, but got depth {depth} and "
            f"width {width}"
        )
    return drawn(lambda: _build(depth, width, math.prod(data.shape), data.classes), gamma, seed)


def _build(depth: int, width: int, inputs: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, classes))
