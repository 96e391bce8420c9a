"""Labelled images as people keep them: folders of classes, MNIST's idx files, CIFAR-10's batches.

    FOLDER/train/CLASS/*.png|jpg, FOLDER/test/CLASS/…     the ImageFolder convention (by Pillow)
    FOLDER/train-images-idx3-ubyte[.gz], t10k-…           MNIST and what is shaped like it
    FOLDER/data_batch_1.bin, …, test_batch.bin            the binary version of CIFAR-10

CIFAR-10's python version is pickled, which lets a file choose what is run and which memory is read:
it is never opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, MissingDependencyError
from reconstruct.formats.files import Budget, contents, decimal, naming, read_bytes, read_limit

Pixels: TypeAlias = "NDArray[np.uint8]"

PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
SPLITS = ("train", "test")


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images x (N × channels × height × width, in [0, 1]) with labels y (N, 0 … classes − 1)."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    classes: int


@dataclass(frozen=True)
class Images:
    """Which images of a folder, and what a network was trained to take instead of [0, 1].

    `count` images are drawn from the split by a fixed seed (None: all of them); each channel is
    centred by `mean` and divided by `std`, one number for all channels or one for each.
    """

    folder: str | os.PathLike[str]
    split: str = "test"
    count: int | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"the split is train or test, but {self.split!r} is asked for")
        if self.count is not None and self.count < 1:
            raise InputError(f"the count of images must be at least 1, but is {self.count}")
        if not all(0 < s < np.inf for s in self.std) or not np.all(np.isfinite(self.mean)):
            raise InputError(
                f"means must be finite and deviations positive, but they are {self.mean} and "
                f"{self.std}; write MEAN:STD, as in 0.49,0.48,0.45:0.25,0.24,0.26"
            )

    @classmethod
    def chosen(
        cls, folder: str | os.PathLike[str], normalise: str | None = None, **settings: Any
    ) -> Images:
        """With mean and std by words: MEAN:STD, each one number or one for each channel."""
        if normalise is not None:
            sides = normalise.split(":")
            try:
                mean, std = (tuple(map(decimal, side.split(","))) for side in sides)
            except ValueError:
                raise InputError(
                    f"a normalisation is MEAN:STD, as in 0.49,0.48,0.45:0.25,0.24,0.26, but is "
                    f"{normalise!r}"
                ) from None
            settings |= {"mean": mean, "std": std}
        return cls(folder, **settings)

    def words(self) -> dict[str, Any]:
        """The same in words again."""
        ends = (",".join(map(repr, numbers)) for numbers in (self.mean, self.std))
        plain = (self.mean, self.std) == ((0.0,), (1.0,))
        normalise = None if plain else ":".join(ends)
        return {"split": self.split, "count": self.count, "normalise": normalise}

    def indices(self, there: int) -> NDArray[np.int64]:
        """The images taken of those that are there, in their own order."""
        if self.count is None or self.count >= there:
            return np.arange(there)
        return np.sort(np.random.default_rng(0).permutation(there)[: self.count])

    def normalised(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        mean, std = (np.asarray(given, np.float32) for given in (self.mean, self.std))
        if {mean.size, std.size} - {1, x.shape[1]}:
            raise InputError(
                f"the images have {x.shape[1]} channels, so that one mean and one deviation or "
                f"{x.shape[1]} of each are needed, but there are {mean.size} and {std.size}"
            )
        return np.asarray((x - mean[:, None, None]) / std[:, None, None], np.float32)


def read_labelled(images: Images) -> Labelled:
    """The chosen images of the folder."""
    folder = Path(images.folder)
    with naming(folder):
        if not folder.is_dir():
            raise InputError("there is no such folder; check the path")
        if all((folder / part).is_dir() for part in SPLITS):
            read = _classes
        elif any(folder.glob("*-images*idx3-ubyte*")):
            read = _idx
        elif (folder / "test_batch.bin").is_file():
            read = _batches
        else:
            raise InputError(_unknown(folder))
        pixels, labels, classes = read(folder, images)
        scaled = (pixels / np.float32(255)).astype(np.float32)
        return Labelled(images.normalised(scaled), labels, classes)


def _unknown(folder: Path) -> str:
    if (folder / "test_batch").exists():
        return (
            "this is the python version of CIFAR-10, pickles, which could run any code and are "
            "never opened; fetch the binary version, cifar-10-binary.tar.gz"
        )
    there = ", ".join(sorted(p.name for p in folder.iterdir())[:6]) or "nothing"
    return (
        "a folder of labelled images has train/CLASS/*.png and test/CLASS/*.png (or .jpg), MNIST's "
        "train-images-idx3-ubyte, … or CIFAR-10's data_batch_1.bin, … and test_batch.bin, but this "
        f"one holds {there}"
    )


def _classes(folder: Path, images: Images) -> tuple[Pixels, NDArray[np.int64], int]:
    """train/CLASS/… and test/CLASS/…: a class is its place among the sorted names of train."""
    names = sorted(p.name for p in (folder / "train").iterdir() if p.is_dir())
    if len(names) < 2:
        raise InputError(f"train must hold a folder for each of 2 classes or more, but has {names}")
    files = [
        (path, label)
        for label, name in enumerate(names)
        for path in sorted((folder / images.split / name).glob("*"))
        if path.suffix.lower() in PICTURES
    ]
    if not files:
        raise InputError(f"{images.split} holds no images ({', '.join(PICTURES)}) in {names[:6]}")
    chosen = [files[i] for i in images.indices(len(files))]
    budget = Budget(read_limit())
    first = _picture(chosen[0][0], None)
    budget.take(first.size * len(chosen) * 5, f"{len(chosen)} images")  # bytes, then float32
    pixels = np.empty((len(chosen), *first.shape), np.uint8)
    for i, (path, _) in enumerate(chosen):
        pixels[i] = _picture(path, first.shape)
    return pixels, np.array([label for _, label in chosen], np.int64), len(names)


def _picture(path: Path, shape: tuple[int, ...] | None) -> Pixels:
    """One image, channels first: grey ones have one channel, all others become RGB."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingDependencyError("Pillow", "images", "reading pictures") from None
    with naming(path):
        try:
            with Image.open(path) as image:
                if max(image.size) > 2**12:  # a few bytes may claim any size
                    raise InputError(f"images have at most 4096 pixels a side, not {image.size}")
                values = np.asarray(image if image.mode == "L" else image.convert("RGB"))
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            raise InputError(f"this image cannot be read ({error})") from None
        found = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
        if shape is not None and found.shape != shape:
            raise InputError(
                f"all images must have one shape, but this one is {found.shape} and the first "
                f"{shape} (channels, height, width); bring them to one size"
            )
        return np.asarray(found, np.uint8)


def _idx(folder: Path, images: Images) -> tuple[Pixels, NDArray[np.int64], int]:
    """MNIST's own files, gzip'd or not."""
    start = "train" if images.split == "train" else "t10k"
    pixels, labels = (
        _idx_array(folder, f"{start}-{what}", n) for what, n in (("images", 3), ("labels", 1))
    )
    if len(pixels) != len(labels) or not len(labels):
        raise InputError(
            f"each image needs its label, but there are {len(pixels)} and {len(labels)}"
        )
    chosen = images.indices(len(labels))
    return pixels[chosen][:, None], labels[chosen].astype(np.int64), int(labels.max()) + 1


def _idx_array(folder: Path, name: str, dimensions: int) -> Pixels:
    found = sorted(folder.glob(f"{name}*idx{dimensions}-ubyte*"))
    if not found:
        raise InputError(f"a file {name}-idx{dimensions}-ubyte is needed, but is not there")
    with naming(found[0]):
        content, _ = contents(found[0])
        header = 4 + 4 * dimensions
        if len(content) < header or content[:4] != bytes([0, 0, 8, dimensions]):
            raise InputError(f"an idx file of bytes in {dimensions} dimensions is needed, not this")
        shape = tuple(int(n) for n in np.frombuffer(content[4:header], ">u4"))
        if int(np.prod(shape, dtype=object)) != len(content) - header:
            raise InputError(
                f"its header says {' × '.join(map(str, shape))} values, but "
                f"{len(content) - header} are there; was it cut short?"
            )
        return np.frombuffer(content[header:], np.uint8).reshape(shape)


def _batches(folder: Path, images: Images) -> tuple[Pixels, NDArray[np.int64], int]:
    """CIFAR-10's records of a label and 3 × 32 × 32 pixels, one after the other."""
    pattern = "data_batch_*.bin" if images.split == "train" else "test_batch.bin"
    record, parts = 1 + 3 * 32 * 32, []
    for path in sorted(folder.glob(pattern)):
        with naming(path):
            content = read_bytes(path)
            if len(content) % record:
                raise InputError(
                    f"records of {record} bytes are needed, but {len(content)} bytes are no "
                    "multiple of it; was it cut short?"
                )
            parts.append(np.frombuffer(content, np.uint8).reshape(-1, record))
            if parts[-1][:, 0].max() > 9:
                raise InputError("labels 0 … 9 are needed, but there are others")
    if not parts:
        raise InputError(f"{pattern} is needed, but is not there")
    rows = np.concatenate(parts)
    rows = rows[images.indices(len(rows))]
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64), 10
