"""How far does training only γ and β come, against training as much elsewhere?

ResNets on scikit-learn's digits, three seeds each: what is tuned at depth 14 and width 16; norms
by depth at width 16; norms by width at depth 14; γ drawn uniformly against γ = 1. One row per
training. `python -m benchmarks.training [-o FILE] [--quick]` ends with the tables that
docs/training.md shows. It needs torch, and runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._common import Row, run
from benchmarks.training_tables import tables

SEEDS = (0, 1, 2)
DEPTHS = (8, 14, 26, 50)
WIDTHS = (4, 8, 16, 32)
TUNINGS = ("norms", "random", "output", "norms+output", "all")
EPOCHS, BATCH = 40, 64
Case = tuple[int, int, str, str]  # depth, width, what is tuned, γ


def cases() -> list[Case]:
    """Every case once, the short ones first."""
    found = [(14, 16, tuning, "uniform") for tuning in TUNINGS]
    found += [(depth, 16, "norms", "uniform") for depth in DEPTHS]
    found += [(14, width, "norms", "uniform") for width in WIDTHS]
    found += [(14, 16, "norms", "ones")]
    return sorted(set(found), key=lambda case: (case[2] == "all", case[0] * case[1] ** 2, case))


FEATURES = ("small_share", "accuracy_without_small", "accuracy_without_as_many_at_random")


def measure(quick: bool) -> Iterator[Row]:
    """One row per case and seed."""
    import torch

    torch.set_num_threads(1)
    from reconstruct.training.data import digits

    for seed in SEEDS[:1] if quick else SEEDS:
        for case in cases()[:4] if quick else cases():
            yield measure_case(case, seed, 5 if quick else EPOCHS, BATCH, digits())


def measure_case(
    case: Case, seed: int, epochs: int, batch: int, data: Any, folder: Path | None = None
) -> Row:
    """Train one model, with checkpoints in the folder, and look at its features."""
    from reconstruct.training.experiment import Experiment, run_experiment
    from reconstruct.training.freezing import Tuning
    from reconstruct.training.loop import Schedule
    from reconstruct.training.models import Gamma

    depth, width, tune, gamma = case
    experiment = Experiment(
        depth=depth,
        width=width,
        gamma=Gamma(gamma),
        tune=Tuning(tune),
        schedule=Schedule(epochs=epochs, batch=batch),
        seeds=(seed,),
    )
    (done,) = run_experiment(experiment, data, folder=folder)
    return {
        "model": "resnet",
        "data": data.name,
        "depth": depth,
        "width": width,
        "tune": tune,
        "gamma": gamma,
        "seed": seed,
        "epochs": epochs,
        "batch": batch,
        "parameters": sum(parameter.numel() for parameter in done.module.parameters()),
        "tuned": done.history.tuned,
        "accuracy": done.history.accuracy,
        "train_accuracy": done.history.train_accuracy[-1],
        "loss": done.history.loss[-1],
        **{key: done.told["gamma"][key] for key in FEATURES},
        "seconds": done.history.seconds,
    }


if __name__ == "__main__":
    print(tables(run("training", __doc__ or "", measure)))
