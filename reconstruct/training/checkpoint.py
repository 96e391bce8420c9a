"""A training on disk after each epoch, as plain arrays in an .npz, so that it can be resumed."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from reconstruct.errors import InputError
from reconstruct.formats.files import write_atomically
from reconstruct.training.data.dataset import Dataset

Row = tuple[float, ...]


class TrainingCheckpoint:
    """Keeps the values of `module` and the momentum of `optimiser` in `path` (None: nowhere).

    `decides` is everything that decides the numbers besides the module's first values; a file
    with another key is refused, because going on from it would mix two trainings.
    """

    def __init__(
        self, path: Path | None, module: nn.Module, optimiser: Any, decides: tuple[Any, ...]
    ) -> None:
        self.path, self.module, self.optimiser = path, module, optimiser
        self.key = "" if path is None else _key(module, decides)

    def load(self) -> tuple[list[Row], float]:
        """The epochs so far and their seconds; the module and optimiser stand where they ended."""
        if self.path is None or not self.path.is_file():
            return [], 0.0
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
            head = json.loads(found.pop("head").tobytes().decode())
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise InputError(
                f"{self.path}: the checkpoint cannot be read ({error}); remove it to start anew"
            ) from None
        if head["key"] != self.key:
            raise InputError(
                f"{self.path}: the checkpoint belongs to a training with another model, data, "
                f"schedule or seed; use the same options, or --force to start anew"
            )
        self._restore(found)
        return [tuple(row) for row in head["rows"]], float(head["seconds"])

    def save(self, rows: list[Row], seconds: float) -> None:
        """Write the present state, whole or not at all."""
        if self.path is None:
            return
        head = json.dumps({"key": self.key, "rows": rows, "seconds": seconds}).encode()
        arrays: dict[str, Any] = {"head": np.frombuffer(head, np.uint8)}
        for name, value in self.module.state_dict().items():
            arrays[f"value.{name}"] = value.numpy()
        for i, parameter in enumerate(self._tuned()):
            momentum = self.optimiser.state[parameter].get("momentum_buffer")
            if momentum is not None:
                arrays[f"momentum.{i}"] = momentum.numpy()
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(self.path, buffer.getvalue())

    def _restore(self, found: dict[str, Any]) -> None:
        values = {
            name.removeprefix("value."): torch.from_numpy(array)
            for name, array in found.items()
            if name.startswith("value.")
        }
        self.module.load_state_dict(values)
        for i, parameter in enumerate(self._tuned()):
            if f"momentum.{i}" in found:
                momentum = torch.from_numpy(found[f"momentum.{i}"])
                self.optimiser.state[parameter]["momentum_buffer"] = momentum

    def _tuned(self) -> list[nn.Parameter]:
        return [p for group in self.optimiser.param_groups for p in group["params"]]


def _key(module: nn.Module, decides: tuple[Any, ...]) -> str:
    digest = hashlib.sha256()
    for part in decides:
        if isinstance(part, Dataset):
            for array in (part.train_x, part.train_y, part.test_x, part.test_y):
                digest.update(np.ascontiguousarray(array).tobytes())
            part = part.augmentation
        digest.update(repr(part).encode())
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()
