"""How long and how fast: the schedule of a training."""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.errors import InputError


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
