"""What `--data` names: the digits, an .npz, or a CIFAR-10 folder."""

from __future__ import annotations

from pathlib import Path

from reconstruct.errors import InputError
from reconstruct.training.data.arrays import arrays
from reconstruct.training.data.cifar import cifar
from reconstruct.training.data.dataset import Dataset
from reconstruct.training.data.digits import digits


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
