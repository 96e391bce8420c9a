"""CIFAR-10 from its folder, in the python or the binary version, if the user has it.

The python version is pickled. Only what NumPy arrays need is unpickled, and nothing of it can run
code: any other name in the file is refused.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.files import naming, read_bytes
from reconstruct.training.data.dataset import Augmentation, Dataset

CLASSES = 10
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
SHIFT = 4  # as in the paper: images moved by up to four pixels, and mirrored
Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def cifar(folder: Path) -> Dataset:
    """The images, centred and scaled by each channel's mean and deviation over the training part.

    The folder holds data_batch_1, … and test_batch (python), or the same names with .bin.
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
        CLASSES,
        Augmentation(SHIFT, flip=True),
    )


def _files(folder: Path) -> tuple[list[Path], Path]:
    for suffix in ("", ".bin"):
        test = folder / f"test_batch{suffix}"
        batches = sorted(p for p in folder.glob("data_batch_*") if p.suffix == suffix)
        if test.is_file() and batches:
            return batches, test
    there = ", ".join(sorted(p.name for p in folder.iterdir())[:6]) or "nothing"
    raise InputError(
        f"{folder}: a CIFAR-10 folder holds data_batch_1, … and test_batch, or the same with .bin, "
        f"but this one holds {there}"
    )


def _joined(paths: list[Path]) -> tuple[NDArray[np.float64], Labels]:
    parts = [_read(path) for path in paths]
    images = np.concatenate([images for images, _ in parts]).reshape(-1, *SHAPE)
    return images / 255.0, np.concatenate([labels for _, labels in parts])


def _read(path: Path) -> tuple[Images, Labels]:
    with naming(path):
        images, labels = (_binary if path.suffix == ".bin" else _pickled)(read_bytes(path))
        if images.ndim != 2 or images.shape[1] != PIXELS or labels.shape != (len(images),):
            raise InputError(
                f"N rows of {PIXELS} pixels with N labels are needed, but the shapes are "
                f"{images.shape} and {labels.shape}"
            )
        if not len(labels) or labels.min() < 0 or labels.max() >= CLASSES:
            raise InputError(f"labels 0 … {CLASSES - 1} are needed, but there are others, or none")
    return images, labels


def _binary(content: bytes) -> tuple[Images, Labels]:
    record = 1 + PIXELS
    if len(content) % record:
        raise InputError(
            f"records of {record} bytes are needed, but {len(content)} bytes are no multiple of it"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, record)
    return rows[:, 1:], rows[:, 0].astype(np.int64)


def _pickled(content: bytes) -> tuple[Images, Labels]:
    try:
        found = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        return np.asarray(found[b"data"], np.uint8), np.asarray(found[b"labels"], np.int64)
    except InputError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise InputError(f"this is no CIFAR-10 batch ({error!r})") from None


def _latin(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise InputError(f"bytes must be written as latin1, but are as {encoding!r}")
    return text.encode("latin1")


class _ArraysOnly(pickle.Unpickler):
    """Unpickles plain values and NumPy arrays; any other name is refused unseen."""

    def find_class(self, module: str, name: str) -> Any:
        array = np.zeros(0, np.uint8)
        known = {
            "_reconstruct": array.__reduce__()[0],
            "ndarray": np.ndarray,
            "dtype": np.dtype,
        }
        if module.split(".")[0] == "numpy" and name in known:
            return known[name]
        if (module, name) == ("_codecs", "encode"):  # how bytes are pickled in old protocols
            return _latin
        raise InputError(
            f"only arrays are read from a pickled batch, but it names {module}.{name}; use the "
            f"binary version if this folder is not the original one"
        )
