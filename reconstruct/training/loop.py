"""The training loop: stochastic gradient descent on the parameters that are tuned.

Statistics are live while training (each batch is normalised by its own mean and variance, and the
running ones follow) and frozen at the end: the module is left in evaluation mode, without
gradients, as a network of this tool. The batches of an epoch are a function of the seed and the
epoch alone, so a resumed training ends with the same bits as one that was never interrupted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reconstruct.errors import InputError
from reconstruct.progress import Progress, Step, silent
from reconstruct.training.checkpoint import TrainingCheckpoint
from reconstruct.training.data.dataset import Dataset
from reconstruct.training.freezing import Tuning, tunable
from reconstruct.training.random_subset import settle
from reconstruct.training.schedule import Schedule

EVALUATION_BATCH = 1024


@dataclass(frozen=True)
class History:
    """One number per epoch: mean loss while training, and accuracy on both parts after it."""

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
    store = TrainingCheckpoint(
        checkpoint, module, optimiser, (str(Tuning(what)), seed, live, plan, data)
    )
    rows, before = store.load()
    start = time.perf_counter()
    for epoch in range(len(rows), plan.epochs):
        _set_rate(optimiser, plan.rate_in(epoch))
        loss = _epoch(module, data, optimiser, plan.batch, seed, epoch, live)
        rows.append((loss, *(accuracy(module, *part) for part in _parts(data))))
        store.save(rows, before + time.perf_counter() - start)
        progress(Step(f"seed {seed}", epoch + 1, plan.epochs))
    settle(module)
    module.eval().requires_grad_(False)
    seconds = before + time.perf_counter() - start
    columns = [tuple(column) for column in zip(*rows, strict=True)]
    return History(tuned, columns[0], columns[1], columns[2], seconds)


def accuracy(module: nn.Module, x: NDArray[Any], y: NDArray[np.int64]) -> float:
    """The share of the examples whose largest output is that of their label (frozen statistics)."""
    return float(np.mean(outputs(module, x).argmax(axis=1) == y))


def outputs(module: nn.Module, x: NDArray[Any]) -> NDArray[Any]:
    """The module's outputs in evaluation mode, in the precision of its parameters."""
    kind = next(module.parameters()).dtype
    module.eval()
    with torch.no_grad():
        parts = [
            module(torch.from_numpy(x[i : i + EVALUATION_BATCH]).to(kind)).numpy()
            for i in range(0, len(x), EVALUATION_BATCH)
        ]
    return np.concatenate(parts)


def _epoch(
    module: nn.Module,
    data: Dataset,
    optimiser: Any,
    batch: int,
    seed: int,
    epoch: int,
    live: bool,
) -> float:
    """One pass over the training part; the mean loss of its batches."""
    module.train(live)
    kind = next(module.parameters()).dtype
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(data.train_y))
    losses = []
    for rows in _batches(order, batch):
        x = torch.from_numpy(data.augmentation(data.train_x[rows], rng)).to(kind)
        loss = nn.functional.cross_entropy(module(x), torch.from_numpy(data.train_y[rows]))
        value = float(loss.detach())
        if not np.isfinite(value):
            raise InputError(
                f"the training diverged: the loss is {value} in epoch {epoch + 1}; lower the step "
                f"(rate), which is {optimiser.param_groups[0]['lr']:g}"
            )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(value)
    return float(np.mean(losses))


def _batches(order: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Batches of `size`; a last one that is smaller than half joins the one before it."""
    cuts = list(range(size, len(order), size))
    if cuts and len(order) - cuts[-1] < size / 2:
        cuts.pop()
    return np.split(order, cuts)


def _parts(data: Dataset) -> tuple[tuple[NDArray[Any], NDArray[np.int64]], ...]:
    return (data.train_x, data.train_y), (data.test_x, data.test_y)


def _set_rate(optimiser: Any, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate
