"""Trains the digits classifier that the demo reconstructs: 64-32-16-10, ReLU, logits.

Run as `python -m benchmarks.train_digits [FOLDER]`. It needs scikit-learn, whose bundled
digits (1,797 images of 8 × 8 pixels) it uses; nothing is downloaded. The seed, the split and the
plain NumPy training make it deterministic up to the rounding of the machine's BLAS.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reconstruct.demo import PIXEL_MAX, share_recognised
from reconstruct.errors import MissingDependencyError
from reconstruct.formats import save
from reconstruct.formats.files import written_whole
from reconstruct.networks import Network

SHIPPED = Path(__file__).resolve().parents[1] / "reconstruct" / "demo"
SEED = 7
SIZES = (64, 32, 16, 10)
BATCH = 50
LEARNING_RATE = 0.003
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DigitsSplit:
    """Training and test images (whole grey levels, as rows) and their digits."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


def split_digits(test_share: float = 0.25) -> DigitsSplit:
    """scikit-learn's digits, shuffled by the seed; the last quarter is kept for testing."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingDependencyError("scikit-learn", "dev", "training the digits network") from None
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(labels))
    images, labels = images[order].astype(np.uint8), labels[order].astype(np.uint8)
    count = round(len(labels) * (1 - test_share))
    return DigitsSplit(images[:count], labels[:count], images[count:], labels[count:])


def train(images: Matrix, labels: NDArray[np.uint8], epochs: int = 120) -> Network:
    """Cross entropy by Adam with weight decay, random shifts by one pixel and a falling step."""
    rng = np.random.default_rng(SEED)
    weights = [rng.normal(0, np.sqrt(2 / k), (m, k)) for k, m in pairwise(SIZES)]
    biases = [np.zeros(m) for m in SIZES[1:]]
    adam = _Adam(weights + biases)
    count = len(labels)
    total = epochs * (count // BATCH)
    for _ in range(epochs):
        order = rng.permutation(count)
        shifted = _shifted(images, rng)
        for start in range(0, count - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            rate = LEARNING_RATE * (1 + np.cos(np.pi * (adam.steps + 1) / total)) / 2
            adam.step(_gradients(weights, biases, shifted[rows], labels[rows]), rate)
    return Network.mlp([w.astype(np.float32) for w in weights], [np.float32(b) for b in biases])


class _Adam:
    """Adam with decoupled weight decay; changes the parameters in place."""

    def __init__(self, parameters: list[Matrix], decay: float = 0.02) -> None:
        self.parameters = parameters
        self.decay = decay
        self.steps = 0
        self.first = [np.zeros_like(p) for p in parameters]
        self.second = [np.zeros_like(p) for p in parameters]

    def step(self, gradients: list[Matrix], rate: float) -> None:
        self.steps += 1
        moments = zip(self.parameters, gradients, self.first, self.second, strict=True)
        for parameter, gradient, first, second in moments:
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient * gradient - second)
            mean, square = first / (1 - 0.9**self.steps), second / (1 - 0.999**self.steps)
            parameter -= rate * (mean / (np.sqrt(square) + 1e-8) + self.decay * parameter)


def _shifted(images: Matrix, rng: np.random.Generator) -> Matrix:
    """Every image moved by −1, 0 or 1 pixels sideways and up, half of them left in place."""
    moved = images.reshape(-1, 8, 8).copy()
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        chosen = rng.random(len(images)) < 0.125
        padded = np.pad(moved[chosen], ((0, 0), (1, 1), (1, 1)))
        moved[chosen] = padded[:, 1 + dy : 9 + dy, 1 + dx : 9 + dx]
    return moved.reshape(-1, 64)


def _gradients(
    weights: list[Matrix], biases: list[Matrix], x: Matrix, labels: NDArray[np.uint8]
) -> list[Matrix]:
    """Gradients of the mean cross entropy with respect to the weights, then the biases."""
    values = [x]
    for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
        z = values[-1] @ w.T + b
        values.append(np.maximum(z, 0) if i < len(weights) - 1 else z)
    logits = values[-1] - values[-1].max(axis=1, keepdims=True)
    slope = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= len(labels)
    weight_slopes, bias_slopes = [], []
    for i in reversed(range(len(weights))):
        weight_slopes.append(slope.T @ values[i])
        bias_slopes.append(slope.sum(axis=0))
        slope = (slope @ weights[i]) * (values[i] > 0)
    return weight_slopes[::-1] + bias_slopes[::-1]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="benchmarks.train_digits")
    parser.add_argument("folder", nargs="?", type=Path, default=SHIPPED)
    folder = parser.parse_args(arguments).folder
    split = split_digits()
    network = train(split.train_images / PIXEL_MAX, split.train_labels)
    save(network, folder / "digits.onnx", dtype=np.float32)
    with written_whole(folder / "digits_test.npz") as file:
        np.savez_compressed(file, images=split.test_images, labels=split.test_labels)
    for name, images, labels in (
        ("training", split.train_images, split.train_labels),
        ("test", split.test_images, split.test_labels),
    ):
        share = share_recognised(network, images / PIXEL_MAX, labels)
        print(f"{name}: {share:.2%} of {len(labels)} images recognised")


if __name__ == "__main__":
    main()
