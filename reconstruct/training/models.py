"""The models that are trained: residual, plain convolutional and fully connected networks.

ResNets for small images are those of He et al. (2016), VGGs of Simonyan and Zisserman (2015), with
norms before activations; weights are drawn once, by the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum

import torch
from torch import nn

from reconstruct.errors import InputError
from reconstruct.training.data import Dataset
from reconstruct.training.freezing import WEIGHTED


class Gamma(StrEnum):
    """The first values of γ: uniform on (0, 1) as in the paper, or all ones."""

    UNIFORM = "uniform"
    ONES = "ones"


def drawn(build: Callable[[], nn.Module], gamma: Gamma | str, seed: int) -> nn.Module:
    """The module with weights N(0, 2/fan_in), zero biases, γ as asked and β = 0."""
    kind = Gamma(gamma)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build()
        for layer in module.modules():
            if isinstance(layer, WEIGHTED):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            elif isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm)):
                if kind is Gamma.UNIFORM:
                    nn.init.uniform_(layer.weight)
                else:
                    nn.init.ones_(layer.weight)
                nn.init.zeros_(layer.bias)
    return module


NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


def mlp(
    depth: int,
    width: int,
    data: Dataset,
    *,
    gamma: Gamma | str = Gamma.UNIFORM,
    seed: int = 0,
    norm: str = "batch",
) -> nn.Module:
    """`depth` hidden layers of `width` units, `σ(norm(W h))` each, and a linear output."""
    if depth < 1 or width < 1:
        raise InputError(
            f"an MLP needs at least 1 hidden layer of at least 1 unit, but got depth {depth} and "
            f"width {width}"
        )
    return drawn(
        lambda: _mlp_layers(depth, width, math.prod(data.shape), data.classes, norm), gamma, seed
    )


def _mlp_layers(depth: int, width: int, inputs: int, classes: int, norm: str) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(inputs, width, bias=False), NORMS[norm](width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


VGG_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(
    depth: int,
    width: int,
    data: Dataset,
    *,
    gamma: Gamma | str = Gamma.UNIFORM,
    seed: int = 0,
) -> nn.Module:
    """The VGG of that depth with `width` channels in its first stage and one linear output.

    Each stage ends with a 2 × 2 maximum, as long as the image has two pixels each way: on images
    of 8 × 8 three stages do. What is left of the image is averaged.
    """
    if depth not in VGG_STAGES:
        raise InputError(
            f"a VGG has depth {', '.join(map(str, VGG_STAGES))}, but depth is {depth}; choose one"
        )
    if width < 1:
        raise InputError(f"a VGG needs a width of at least 1 channel, but got {width}")
    channels, height, breadth = data.image_shape("a VGG")
    size = min(height, breadth)
    return drawn(lambda: _vgg_layers(depth, width, channels, size, data.classes), gamma, seed)


def _vgg_layers(depth: int, width: int, channels: int, size: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for count, factor in zip(VGG_STAGES[depth], (1, 2, 4, 8, 8), strict=True):
        for _ in range(count):
            outputs = width * factor
            layers += [
                nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
            channels = outputs
        if size >= 2:
            layers.append(nn.MaxPool2d(2))
            size //= 2
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


class ResidualBlock(nn.Module):
    """`σ(shortcut(h) + norm(conv(σ(norm(conv(h))))))`; the shortcut is a projection where the
    size changes, and the identity elsewhere."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norm1(self.conv1(h)))
        return torch.relu(self.shortcut(h) + self.norm2(self.conv2(inner)))


class ResNet(nn.Module):
    """One convolution, three stages of blocks with w, 2w, 4w channels, mean, linear output."""

    def __init__(self, depth: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks, inputs = (depth - 2) // 6, width
        stages = []
        for stage in range(3):
            outputs = width * 2**stage
            strides = [1 if stage == 0 else 2] + [1] * (blocks - 1)
            stages.append(
                nn.Sequential(
                    *(
                        ResidualBlock(inputs if i == 0 else outputs, outputs, stride)
                        for i, stride in enumerate(strides)
                    )
                )
            )
            inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.output = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.stages(torch.relu(self.norm(self.conv(x))))
        return self.output(h.mean((2, 3)))


def resnet(
    depth: int,
    width: int,
    data: Dataset,
    *,
    gamma: Gamma | str = Gamma.UNIFORM,
    seed: int = 0,
) -> nn.Module:
    """The ResNet of 6n + 2 = `depth` layers with `width` channels in its first stage."""
    if depth < 8 or (depth - 2) % 6:
        raise InputError(
            f"a ResNet has depth 6n + 2 with n ≥ 1 (8, 14, 20, …), but depth is {depth}"
        )
    if width < 1:
        raise InputError(f"a ResNet needs a width of at least 1 channel, but got {width}")
    channels, _, _ = data.image_shape("a ResNet")
    return drawn(lambda: ResNet(depth, width, channels, data.classes), gamma, seed)
