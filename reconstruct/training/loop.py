"""The training loop: stochastic gradient descent on the parameters that are tuned.

Statistics are live while training (each batch is normalised by its own mean and variance, and the
running ones follow) and frozen at the end: the module is left in evaluation mode, without
gradients, as a network of this tool. The batches of an epoch are a function of the seed and the
epoch alone, so a resumed training ends with the same bits as one that was never interrupted.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reconstruct.errors import InputError
from reconstruct.formats.files import written_whole
from reconstruct.progress import Progress, Step, silent
from reconstruct.training.data import Dataset
from reconstruct.training.freezing import Tuning, settle, tunable


@dataclass(frozen=True)
class Schedule:
    """SGD with momentum and weight decay; the step falls tenfold at some shares of the epochs.

    The defaults are the paper's for CIFAR-10 (batches of 128, step 0.1, momentum 0.9, decay 1e-4,
    drops after a half and three quarters of the epochs) with fewer epochs than its 160.
    """

    epochs: int = 30
    batch: int = 128
    rate: float = 0.1
    momentum: float = 0.9
    decay: float = 1e-4
    drops: tuple[float, ...] = (0.5, 0.75)

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 2:
            raise InputError(
                f"a schedule needs at least 1 epoch and batches of at least 2 (a batch of one has "
                f"no variance), but got {self.epochs} epochs of batches of {self.batch}"
            )
        if not 0 < self.rate < float("inf"):
            raise InputError(f"the step (rate) must be a number > 0, but is {self.rate}")
        if not 0 <= self.momentum < 1 or not 0 <= self.decay < float("inf"):
            raise InputError(
                f"momentum must lie in [0, 1) and weight decay be ≥ 0, but they are "
                f"{self.momentum} and {self.decay}"
            )
        if not all(0 < drop < 1 for drop in self.drops):
            raise InputError(
                f"the step falls at shares of the epochs between 0 and 1, but drops are "
                f"{', '.join(map(str, self.drops))}"
            )

    def rate_in(self, epoch: int) -> float:
        """The step in an epoch, counted from 0."""
        passed = sum(1 for drop in self.drops if epoch >= drop * self.epochs)
        return self.rate / 10.0**passed


Row = tuple[float, ...]


def _key(module: nn.Module, data: Dataset, *decides: Any) -> str:
    """A hash of all that decides the numbers of a training, the module's first values too."""
    digest = hashlib.sha256(repr((*decides, data.augmentation)).encode())
    values = (value.numpy() for value in module.state_dict().values())
    for array in (data.train_x, data.train_y, data.test_x, data.test_y, *values):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _restore(path: Path, key: str, module: nn.Module, optimiser: Any) -> tuple[list[Row], float]:
    """The epochs so far and their seconds; module and optimiser stand where they ended.

    A file with another key is refused, because going on from it would mix two trainings.
    """
    try:
        found = torch.load(path, weights_only=True)
    except (OSError, ValueError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise InputError(
            f"{path}: the checkpoint cannot be read ({error}); remove it to start anew"
        ) from None
    if found["key"] != key:
        raise InputError(
            f"{path}: the checkpoint belongs to a training with another model, data, schedule or "
            f"seed; use the same options, or --force to start anew"
        )
    module.load_state_dict(found["module"])
    optimiser.load_state_dict(found["optimiser"])
    return found["rows"], found["seconds"]


@dataclass(frozen=True)
class History:
    """One number per epoch: mean loss and accuracy while training, accuracy on the test part.

    The training accuracy is that of the batches as they came, each before its step: a pass of its
    own over the training part would take half as long again.
    """

    tuned: int
    loss: tuple[float, ...]
    train_accuracy: tuple[float, ...]
    test_accuracy: tuple[float, ...]
    seconds: float

    @property
    def accuracy(self) -> float:
        """The share of the test examples recognised at the end."""
        return self.test_accuracy[-1]


def train(
    module: nn.Module,
    data: Dataset,
    what: Tuning | str = Tuning.NORMS,
    schedule: Schedule | None = None,
    *,
    seed: int = 0,
    live: bool = True,
    checkpoint: Path | None = None,
    progress: Progress = silent,
) -> History:
    """Train what `what` names by cross entropy; the module is changed and left frozen.

    `live=False` keeps the statistics that the module has, also while training. `checkpoint` is a
    file that is written after each epoch and read, if it is there, at the start.
    """
    plan = schedule or Schedule()
    parameters = tunable(module, what, seed)
    tuned = sum(p.numel() for p in parameters)
    optimiser = torch.optim.SGD(
        parameters, lr=plan.rate, momentum=plan.momentum, weight_decay=plan.decay
    )
    rows: list[Row] = []
    before, key = 0.0, ""
    if checkpoint is not None:
        key = _key(module, data, str(Tuning(what)), seed, live, plan)
        if checkpoint.is_file():
            rows, before = _restore(checkpoint, key, module, optimiser)
    # Convolutions of small images take a quarter less time with the channels side by side.
    module.to(memory_format=torch.channels_last)
    start, count = time.perf_counter(), len(data.train_y)
    kind = next(module.parameters()).dtype
    for epoch in range(len(rows), plan.epochs):
        module.train(live)
        for group in optimiser.param_groups:
            group["lr"] = plan.rate_in(epoch)
        rng = np.random.default_rng([seed, epoch])
        losses, right, seen = [], 0, 0
        for batch in _batches(rng.permutation(count), plan.batch):
            x = _tensor(data.augmentation(data.train_x[batch], rng), kind)
            y = torch.from_numpy(data.train_y[batch])
            given = module(x)
            loss = nn.functional.cross_entropy(given, y)
            losses.append(float(loss.detach()))
            if not np.isfinite(losses[-1]):
                raise InputError(
                    f"the training diverged: the loss is {losses[-1]} in epoch {epoch + 1}; lower "
                    f"the step (rate), which is {plan.rate_in(epoch):g}"
                )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            right += int((given.detach().argmax(1) == y).sum())
            seen += len(batch)
            # Images seen in all epochs so far, of those that there will be.
            done = epoch * count + seen
            progress(Step(f"seed {seed}", done, plan.epochs * count, unit="images"))
        tested = accuracy(module, data.test_x, data.test_y)
        rows.append((float(np.mean(losses)), right / seen, tested))
        if checkpoint is not None:
            state = {"module": module.state_dict(), "optimiser": optimiser.state_dict()}
            state |= {"key": key, "rows": rows, "seconds": before + time.perf_counter() - start}
            with written_whole(checkpoint) as file:
                torch.save(state, file)
    settle(module)
    module.to(memory_format=torch.contiguous_format).eval().requires_grad_(False)
    loss, train_accuracy, test_accuracy = (tuple(c) for c in zip(*rows, strict=True))
    seconds = before + time.perf_counter() - start
    return History(tuned, loss, train_accuracy, test_accuracy, seconds)


def accuracy(module: nn.Module, x: NDArray[Any], y: NDArray[np.int64]) -> float:
    """The share of the examples whose largest output is that of their label (frozen statistics)."""
    return float(np.mean(outputs(module, x).argmax(axis=1) == y))


def outputs(module: nn.Module, x: NDArray[Any], batch: int = 256) -> NDArray[Any]:
    """The module's outputs in evaluation mode, in the precision of its parameters."""
    kind = next(module.parameters()).dtype
    module.eval()
    with torch.no_grad():
        parts = [module(_tensor(x[i : i + batch], kind)).numpy() for i in range(0, len(x), batch)]
    return np.concatenate(parts)


def _tensor(x: NDArray[Any], kind: torch.dtype) -> torch.Tensor:
    """The examples in the module's precision; images in the order in memory that training uses."""
    layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
    return torch.from_numpy(x).to(kind, memory_format=layout)


def _batches(order: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Batches of `size`; a last one that is smaller than half joins the one before it."""
    cuts = list(range(size, len(order), size))
    if cuts and len(order) - cuts[-1] < size / 2:
        cuts.pop()
    return np.split(order, cuts)
