"""Labelled examples, in two parts that are never mixed: to train on, and to test on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError

TEST_SHARE = 0.25
SPLIT_SEED = 7  # the split of the shipped digits network, so that its test images stay unseen


@dataclass(frozen=True)
class Augmentation:
    """Random changes of the training images: moved by up to `shift` pixels, mirrored or not."""

    shift: int = 0
    flip: bool = False

    def __call__(self, images: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        changed = images
        if self.shift:
            changed = self._moved(changed, rng)
        if self.flip:
            mirrored = rng.random(len(images)) < 0.5
            changed = np.where(mirrored[:, None, None, None], changed[..., ::-1], changed)
        return np.ascontiguousarray(changed)

    def _moved(self, images: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        s, (height, width) = self.shift, images.shape[2:]
        padded = np.pad(images, ((0, 0), (0, 0), (s, s), (s, s)))
        down, right = rng.integers(0, 2 * s + 1, (2, len(images)))
        rows = down[:, None] + np.arange(height)
        columns = right[:, None] + np.arange(width)
        each = np.arange(len(images))[:, None, None]
        moved = padded.transpose(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]]
        return np.asarray(moved.transpose(0, 3, 1, 2))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples `*_x` (N × shape, float32) with labels `*_y` (N, 0 … classes − 1)."""

    name: str
    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: int
    augmentation: Augmentation = field(default_factory=Augmentation)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.train_x.shape[1:])

    def image_shape(self, user: str) -> tuple[int, int, int]:
        """(channels, height, width); examples that are not images are refused on behalf of
        `user`."""
        if len(self.shape) != 3:
            raise InputError(
                f"{user} needs images (N × channels × height × width, or N × height × width), but "
                f"the examples of {self.name} have shape {self.shape}; use an MLP, or reshape x"
            )
        channels, height, width = self.shape
        return channels, height, width


def split(name: str, x: NDArray[Any], y: NDArray[Any], classes: int) -> Dataset:
    """The examples shuffled by a fixed seed; the last quarter is kept for testing."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    count = round(len(y) * (1 - TEST_SHARE))
    train, test = order[:count], order[count:]
    return Dataset(name, *_typed(x[train], y[train]), *_typed(x[test], y[test]), classes)


def _typed(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.int64)
