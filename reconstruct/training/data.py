"""Labelled examples to train and to test on: the digits, an .npz, or a folder of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.demo import PIXEL_MAX
from reconstruct.errors import InputError, MissingDependencyError
from reconstruct.formats.files import Budget, naming, read_bytes, read_limit
from reconstruct.formats.labelled import SPLITS, Images, read_labelled
from reconstruct.formats.npz import read_arrays


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
    # Seed and share are those of the shipped digits network, whose test images so stay unseen.
    order = np.random.default_rng(7).permutation(len(y))
    count = round(len(y) * 0.75)
    train, test = order[:count], order[count:]
    x, y = np.asarray(x, np.float32), np.asarray(y, np.int64)
    return Dataset(name, x[train], y[train], x[test], y[test], classes)


def digits() -> Dataset:
    """The digits as images of one channel with values in [0, 1], a quarter kept for testing.

    The split is that of the shipped digits network, whose test images are therefore unseen here
    too.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingDependencyError("scikit-learn", "torch", "loading the digits") from None
    images, labels = load_digits(return_X_y=True)
    return split("digits", images.reshape(-1, 1, 8, 8) / PIXEL_MAX, labels, 10)


def arrays(path: Path) -> Dataset:
    """The examples in the file; without `x_test` a quarter of them is kept for testing.

    `x` is N × features, N × height × width (one channel) or N × channels × height × width, used
    as it stands; `y` are N labels 0 … classes − 1.
    """
    with naming(path):
        found = read_arrays(read_bytes(path), Budget(read_limit()))
        x, y = _examples(found, "x", "y")
        classes = int(y.max()) + 1
        if classes < 2:
            raise InputError("labels of at least 2 classes are needed, but every label is 0")
        if ("x_test" in found) != ("y_test" in found):
            raise InputError("x_test and y_test belong together, but only one of them is there")
        data = split(path.name, x, y, classes)
        if "x_test" not in found:
            return data
        x_test, y_test = _examples(found, "x_test", "y_test")
        if x_test.shape[1:] != x.shape[1:] or int(y_test.max()) >= classes:
            raise InputError(
                f"x_test and y_test must be like x and y, but examples have shapes "
                f"{x.shape[1:]} and {x_test.shape[1:]}, largest labels {classes - 1} and "
                f"{int(y_test.max())}"
            )
    return replace(data, train_x=x, train_y=y, test_x=x_test, test_y=y_test)


def _examples(
    found: Mapping[str, NDArray[Any]], x_name: str, y_name: str
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    for name in (x_name, y_name):
        if name not in found:
            raise InputError(f"an array {name!r} is needed, but there are {sorted(found)}")
    x, y = found[x_name], found[y_name]
    if x.dtype.kind not in "fiu" or x.ndim not in (2, 3, 4) or not np.all(np.isfinite(x)):
        raise InputError(
            f"{x_name} must hold finite numbers, N × features or N images, but is {x.dtype} of "
            f"shape {x.shape}{'' if x.dtype.kind not in 'f' else ', perhaps with NaN or infinity'}"
        )
    if y.shape != (len(x),) or y.dtype.kind not in "iu" or len(x) < 8 or int(y.min()) < 0:
        raise InputError(
            f"{y_name} must hold one whole label ≥ 0 for each of the {len(x)} examples (at least "
            f"8), but is {y.dtype} of shape {y.shape}"
        )
    if x.ndim == 3:
        x = x[:, None]
    return np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.int64)


def images(folder: Path) -> Dataset:
    """A folder of labelled images, each channel centred and scaled over the training part."""
    train, test = (read_labelled(Images(folder, split)) for split in SPLITS)
    if train.x.shape[1:] != test.x.shape[1:]:
        raise InputError(
            f"{folder}: images to train and to test on must have one shape, but they have "
            f"{train.x.shape[1:]} and {test.x.shape[1:]}"
        )
    mean = train.x.mean(axis=(0, 2, 3), keepdims=True, dtype=np.float64)
    deviation = train.x.std(axis=(0, 2, 3), keepdims=True, dtype=np.float64)
    deviation[deviation == 0] = 1
    colour = train.x.shape[1] == 3
    return Dataset(
        folder.name,
        ((train.x - mean) / deviation).astype(np.float32),
        train.y,
        ((test.x - mean) / deviation).astype(np.float32),
        test.y,
        max(train.classes, test.classes),
        Augmentation(4, flip=True) if colour else Augmentation(),  # as in the paper, for CIFAR-10
    )


def load_data(source: str | Path) -> Dataset:
    """`"digits"`, the path of an .npz with `x` and `y`, or a folder of labelled images."""
    path = Path(source)
    if source == "digits":
        return digits()
    if path.is_dir():
        return images(path)
    if path.suffix.lower() == ".npz":
        return arrays(path)
    raise InputError(
        f"data must be digits, an .npz with x and y, or a folder of labelled images, but "
        f"{str(source)!r} is none of them"
    )
