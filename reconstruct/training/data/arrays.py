"""Examples from an .npz: `x` with `y`, and `x_test` with `y_test` where they are given."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.files import naming
from reconstruct.training.data.dataset import Dataset, split

LEAST = 8  # examples: fewer cannot be split into batches and a test part
IMAGE_DIMENSIONS = 3


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
    if y.shape != (len(x),) or y.dtype.kind not in "iu" or len(x) < LEAST or int(y.min()) < 0:
        raise InputError(
            f"{y_name} must hold one whole label ≥ 0 for each of the {len(x)} examples (at least "
            f"{LEAST}), but is {y.dtype} of shape {y.shape}"
        )
    if x.ndim == IMAGE_DIMENSIONS:
        x = x[:, None]
    return np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.int64)
