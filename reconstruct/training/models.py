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
from reconstruct.numbers.given import at_least
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
                first = nn.init.uniform_ if kind is Gamma.UNIFORM else nn.init.ones_
                first(layer.weight)
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
    at_least(depth, "the depth of an MLP, its hidden layers,", 1)
    at_least(width, "the width of an MLP", 1)

    def build() -> nn.Module:
        layers, inputs = [nn.Flatten()], math.prod(data.shape)
        for _ in range(depth):
            layers += [nn.Linear(inputs, width, bias=False), NORMS[norm](width), nn.ReLU()]
            inputs = width
        return nn.Sequential(*layers, nn.Linear(inputs, data.classes))

    return drawn(build, gamma, seed)


VGG_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(
    depth: int, width: int, data: Dataset, *, gamma: Gamma | str = Gamma.UNIFORM, seed: int = 0
) -> nn.Module:
    """The VGG of that depth with `width` channels in its first stage and one linear output.

    Each stage ends with a 2 × 2 maximum, as long as the image has two pixels each way: on images
    of 8 × 8 three stages do. What is left of the image is averaged.
    """
    if depth not in VGG_STAGES:
        raise InputError(
            f"a VGG has depth {', '.join(map(str, VGG_STAGES))}, but depth is {depth}; choose one"
        )
    at_least(width, "the width of a VGG", 1)
    channels, *sides = data.image_shape("a VGG")

    def build() -> nn.Module:
        layers, inputs, size = [], channels, min(sides)
        for count, factor in zip(VGG_STAGES[depth], (1, 2, 4, 8, 8), strict=True):
            outputs = width * factor
            for _ in range(count):
                convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
                layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
                inputs = outputs
            if size >= 2:
                layers.append(nn.MaxPool2d(2))
                size //= 2
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, data.classes)
        return nn.Sequential(*layers, *head)

    return drawn(build, gamma, seed)


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
        inputs, self.stages = width, nn.Sequential()
        for stage in range(3):
            blocks, outputs = nn.Sequential(), width * 2**stage
            for i in range((depth - 2) // 6):
                blocks.append(ResidualBlock(inputs, outputs, 2 if stage > 0 and i == 0 else 1))
                inputs = outputs
            self.stages.append(blocks)
        self.output = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.stages(torch.relu(self.norm(self.conv(x))))
        return self.output(h.mean((2, 3)))


def resnet(
    depth: int, width: int, data: Dataset, *, gamma: Gamma | str = Gamma.UNIFORM, seed: int = 0
) -> nn.Module:
    """The ResNet of 6n + 2 = `depth` layers with `width` channels in its first stage."""
    if depth < 8 or (depth - 2) % 6:
        raise InputError(
            f"a ResNet has depth 6n + 2 with n ≥ 1 (8, 14, 20, …), but depth is {depth}"
        )
    at_least(width, "the width of a ResNet", 1)
    channels, _, _ = data.image_shape("a ResNet")
    return drawn(lambda: ResNet(depth, width, channels, data.classes), gamma, seed)
