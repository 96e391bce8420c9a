"""The digits networks and their test images, shipped for the demo.

Made by benchmarks/train_digits.py and benchmarks/train_digits_cnn.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats import load
from reconstruct.networks import Box, Network

PIXEL_MAX = 16  # the images are stored as whole grey levels 0 … 16


@dataclass(frozen=True, eq=False)
class Digits:
    """A classifier of handwritten digits and images that it was not trained on.

    `images` are rows of 64 pixels in [0, 1], `labels` their digits; `target` gives ten logits.
    """

    target: Network
    images: NDArray[np.float64]
    labels: NDArray[np.int64]
    path: Path

    @property
    def domain(self) -> Box:
        """All images there can be: [0, 1]^64."""
        return Box(0.0, 1.0).of_size(self.target.size_in)

    def accuracy(self, network: Network) -> float:
        """The share of the images whose largest output of `network` is that of their digit."""
        return share_recognised(network, self.images, self.labels)


def share_recognised(network: Network, images: Any, labels: Any) -> float:
    """The share of images whose largest logit is that of their digit."""
    return float(np.mean(network(images).argmax(axis=1) == labels))


def digits(*, cnn: bool = False) -> Digits:
    """The shipped network, fully connected or convolutional, with its test images."""
    folder = Path(str(files(__package__)))
    path = folder / ("digits_cnn.onnx" if cnn else "digits.onnx")
    with np.load(folder / "digits_test.npz", allow_pickle=False) as archive:
        images = archive["images"].astype(np.float64) / PIXEL_MAX
        labels = archive["labels"].astype(np.int64)
    return Digits(load(path), images, labels, path)
