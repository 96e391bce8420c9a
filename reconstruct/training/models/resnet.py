"""The residual networks for small images (He et al. 2016), norm before activation."""

from __future__ import annotations

import torch
from torch import nn

from reconstruct.errors import InputError
from reconstruct.training.data.dataset import Dataset
from reconstruct.training.models.drawing import Gamma, drawn

STAGES = 3
STANDARD_WIDTH = 16  # channels of the first stage; the paper's width multiplier is width/16


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
        blocks, inputs = (depth - 2) // (2 * STAGES), width
        stages = []
        for stage in range(STAGES):
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
    if depth < 8 or (depth - 2) % (2 * STAGES):
        raise InputError(
            f"a ResNet has depth 6n + 2 with n ≥ 1 (8, 14, 20, …), but depth is {depth}"
        )
    if width < 1:
        raise InputError(f"a ResNet needs a width of at least 1 channel, but got {width}")
    channels, _, _ = data.image_shape("a ResNet")
    return drawn(lambda: ResNet(depth, width, channels, data.classes), gamma, seed)
