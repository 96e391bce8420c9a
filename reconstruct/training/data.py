"""Labelled examples to train and to test on: the digits, an .npz, or a CIFAR-10 folder.

CIFAR-10's python version is pickled, which lets a file choose what is run and which memory is read:
it is never opened.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.demo import PIXEL_MAX
from reconstruct.errors import InputError, MissingDependencyError
from reconstruct.formats.files import naming, read_bytes


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
    return Dataset(name, *_typed(x[train], y[train]), *_typed(x[test], y[test]), classes)


def _typed(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.int64)


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
        found = _read(path)
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


def _read(path: Path) -> Mapping[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError("there is no such file; check the path") from None
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"this is not a readable .npz ({error})") from None


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


def cifar(folder: Path) -> Dataset:
    """The images, centred and scaled by each channel's mean and deviation over the training part.

    The folder holds data_batch_1.bin, … and test_batch.bin.
    """
    train, test = _files(folder)
    train_x, train_y = _joined(train)
    test_x, test_y = _joined([test])
    mean = train_x.mean(axis=(0, 2, 3), keepdims=True)
    deviation = train_x.std(axis=(0, 2, 3), keepdims=True)
    deviation[deviation == 0] = 1
    return Dataset(
        folder.name,
        ((train_x - mean) / deviation).astype(np.float32),
        train_y,
        ((test_x - mean) / deviation).astype(np.float32),
        test_y,
        10,
        Augmentation(4, flip=True),  # as in the paper
    )


def _files(folder: Path) -> tuple[list[Path], Path]:
    test, batches = folder / "test_batch.bin", sorted(folder.glob("data_batch_*.bin"))
    if test.is_file() and batches:
        return batches, test
    if (folder / "test_batch").exists():
        raise InputError(
            f"{folder}: this is the python version of CIFAR-10, pickles, which could run any code "
            "and are never opened; fetch the binary version, cifar-10-binary.tar.gz"
        )
    there = ", ".join(sorted(p.name for p in folder.iterdir())[:6]) or "nothing"
    raise InputError(
        f"{folder}: a CIFAR-10 folder holds data_batch_1.bin, … and test_batch.bin, but this one "
        f"holds {there}"
    )


def _joined(paths: list[Path]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Records of a label and 3 × 32 × 32 pixels, one after the other."""
    parts = []
    for path in paths:
        with naming(path):
            content, record = read_bytes(path), 1 + 3 * 32 * 32
            if len(content) % record:
                raise InputError(
                    f"records of {record} bytes are needed, but {len(content)} bytes are no "
                    f"multiple of it"
                )
            rows = np.frombuffer(content, np.uint8).reshape(-1, record)
            if not len(rows) or rows[:, 0].max() > 9:
                raise InputError("labels 0 … 9 are needed, but there are others, or none")
            parts.append(rows)
    rows = np.concatenate(parts)
    return rows[:, 1:].reshape(-1, 3, 32, 32) / 255.0, rows[:, 0].astype(np.int64)


def load_data(source: str | Path) -> Dataset:
    """`"digits"`, the path of an .npz with `x` and `y`, or that of a CIFAR-10 folder."""
    if source == "digits":
        return digits()
    path = Path(source)
    if path.is_dir():
        return cifar(path)
    if path.suffix.lower() == ".npz":
        return arrays(path)
    raise InputError(
        f"data must be digits, an .npz with x and y, or a CIFAR-10 folder, but {str(source)!r} is "
        f"none of them"
    )
