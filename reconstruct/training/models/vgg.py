"""Plain convolutional networks in five stages (Simonyan and Zisserman 2015), with norms."""

from __future__ import annotations

from torch import nn

from reconstruct.errors import InputError
from reconstruct.training.data.dataset import Dataset
from reconstruct.training.models.drawing import Gamma, drawn

STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
WIDENING = (1, 2, 4, 8, 8)


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
    if depth not in STAGES:
        raise InputError(
            f"a VGG has depth {', '.join(map(str, STAGES))}, but depth is {depth}; choose one"
        )
    if width < 1:
        raise InputError(f"a VGG needs a width of at least 1 channel, but got {width}")
    channels, height, breadth = data.image_shape("a VGG")
    size = min(height, breadth)
    return drawn(lambda: _build(depth, width, channels, size, data.classes), gamma, seed)


def _build(depth: int, width: int, channels: int, size: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for count, factor in zip(STAGES[depth], WIDENING, strict=True):
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
