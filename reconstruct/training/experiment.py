"""One model, one dataset, one tuning, some seeds: a training as the command line runs it, with
checkpoints, report.json and a page in a directory.

What it leaves are features, one channel behind a norm each, `γ ∘ (z − μ)/√(v + ε) + β`. With γ = 0
one is a constant: switched off.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from reconstruct.bridge.from_torch import from_torch
from reconstruct.bridge.to_torch import norm_bytes, norm_layers
from reconstruct.errors import InputError, MissingDependencyError, UnsupportedError
from reconstruct.formats import save
from reconstruct.formats.files import write_atomically
from reconstruct.numbers.arrays import Vector
from reconstruct.progress import Progress, Step, silent
from reconstruct.reports.document import environment, peak_bytes, to_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.training.data import Dataset, load_data
from reconstruct.training.freezing import Tuning
from reconstruct.training.loop import History, Schedule, accuracy, train
from reconstruct.training.models import NORMS, Gamma, mlp, resnet, vgg
from reconstruct.training.page import render

SMALL = 0.01  # |γ| below this counts as near zero, as in the paper
MODELS: dict[str, tuple[Callable[..., nn.Module], int, int]] = {  # with usual depth and width
    "resnet": (resnet, 14, 16),
    "vgg": (vgg, 11, 16),
    "mlp": (mlp, 2, 256),
}


@dataclass(frozen=True)
class Experiment:
    """What is trained, and how; `depth` and `width` None are the usual ones of the model."""

    model: str = "resnet"
    depth: int | None = None
    width: int | None = None
    gamma: str = Gamma.UNIFORM
    tune: str = Tuning.NORMS
    schedule: Schedule = field(default_factory=Schedule)
    seeds: tuple[int, ...] = (0,)
    norm: str = "batch"

    def __post_init__(self) -> None:
        for name, usual in zip(("depth", "width"), MODELS[self.model][1:], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        known = tuple(NORMS) if self.model == "mlp" else ("batch",)
        if self.norm not in known:
            raise InputError(
                f"the norm of a {self.model} must be {' or '.join(known)}, but is {self.norm!r}; "
                f"LayerNorm is trained in an MLP"
            )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            raise InputError(
                f"seeds must be different whole numbers ≥ 0, at least one, but are "
                f"{', '.join(map(str, self.seeds)) or 'none'}"
            )

    def build(self, data: Dataset, seed: int) -> nn.Module:
        """The untrained model of a seed."""
        more = {"norm": self.norm} if self.model == "mlp" else {}
        builder, size = MODELS[self.model][0], (self.depth, self.width)
        return builder(*size, data, gamma=self.gamma, seed=seed, **more)


@dataclass(frozen=True, eq=False)
class Trained:
    """One trained model, its history, and what report.json tells of it and its features."""

    module: nn.Module
    history: History
    told: dict[str, Any]


def run_experiment(
    experiment: Experiment,
    data: Dataset,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> list[Trained]:
    """Train one model per seed; with a `folder`, each keeps its checkpoint there."""

    def listen(index: int, step: Step) -> None:
        """One bar covers all seeds."""
        total = step.total or 1
        of_all = (index * total + step.done, len(experiment.seeds) * total)
        progress(Step(f"training, {step.task}", *of_all, unit=step.unit))

    runs = []
    for index, seed in enumerate(experiment.seeds):
        module = experiment.build(data, seed)
        history = train(
            module,
            data,
            experiment.tune,
            experiment.schedule,
            seed=seed,
            checkpoint=None if folder is None else folder / f"seed-{seed}.npz",
            progress=partial(listen, index),
        )
        found = gammas(module)
        share = small_share(found)
        without = switched_off(module), random_off(module, share, seed)
        left, chance = (accuracy(one, data.test_x, data.test_y) for one in without)
        curves = ("loss", "train_accuracy", "test_accuracy")
        told = {
            "seed": seed,
            "accuracy": history.accuracy,
            "seconds": history.seconds,
            "history": {name: list(getattr(history, name)) for name in curves},
            "gamma": {
                "small": SMALL,
                "small_share": share,
                "accuracy_without_small": left,
                "accuracy_without_as_many_at_random": chance,
                "layers": [_layer(name, values) for name, values in found.items()],
            },
        }
        runs.append(Trained(module, history, told))
    return runs


def _layer(name: str, values: Vector) -> dict[str, Any]:
    counts, edges = np.histogram(values, bins=24)
    return {
        "name": name,
        "channels": int(values.size),
        "small": int(np.sum(np.abs(values) < SMALL)),
        "largest": float(np.max(np.abs(values))),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def build_report(
    experiment: Experiment, data: Dataset, runs: Sequence[Trained], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The report as plain JSON values; `summary` has mean, least and most over the seeds."""
    parameters = sum(parameter.numel() for parameter in runs[0].module.parameters())
    features = ("small_share", "accuracy_without_small", "accuracy_without_as_many_at_random")
    summary = {}
    for name in ("accuracy", "seconds", *features):
        values = [{**run.told, **run.told["gamma"]}[name] for run in runs]
        mean = sum(values) / len(values)
        summary[name] = {"mean": mean, "least": min(values), "most": max(values)}
    return {
        "schema": "reconstruct.training/1",
        **asdict(experiment),
        "data": {
            "name": data.name,
            "shape": list(data.shape),
            "classes": data.classes,
            "train": len(data.train_y),
            "test": len(data.test_y),
        },
        "parameters": {"all": parameters, "tuned": runs[0].history.tuned},
        "summary": summary,
        "runs": [run.told for run in runs],
        "options": dict(options),
        "cost": {
            "seconds": sum(run.history.seconds for run in runs),
            "peak_bytes": peak_bytes(),
        },
        "environment": environment() | {"torch": str(torch.__version__)},
    }


def train_into(
    output: str | Path,
    experiment: Experiment,
    source: str | Path,
    *,
    words: Mapping[str, Any],
    force: bool = False,
    resume: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run the experiment and fill `output`: norms and network of each seed, report and page, which
    has the `words` of the command line that does it again.

    Checkpoints live in the directory's staging part until everything is done, which is where a
    resumed training finds them.
    """
    data = load_data(source)
    experiment.build(data, experiment.seeds[0])  # refuses what does not fit before anything is made
    with OutputFolder(output, force=force, resume=resume, solved="seed-*.npz") as folder:
        others = "training of another model, with other data, options or seeds"
        folder.claim(repr((experiment, os.fspath(source))).encode(), others)
        try:
            runs = run_experiment(experiment, data, folder=folder.staging, progress=progress)
        except InputError:  # it diverges: the same again ends the same
            folder.solved = ""
            raise
        notes: list[str] = []
        for seed, run in zip(experiment.seeds, runs, strict=True):
            name = f"network-{seed}.onnx"
            write_atomically(folder.staging / f"norms-{seed}.npz", norm_bytes(run.module))
            try:
                save(from_torch(run.module, data.test_x[:1]), folder.staging / name)
            except (UnsupportedError, MissingDependencyError) as error:
                notes.append(f"{name} is not written: {error}")
        report = build_report(experiment, data, runs, words) | {"notes": notes}
        write_atomically(folder.staging / "report.json", to_bytes(report))
        write_atomically(folder.staging / "report.html", render(report).encode())
        folder.publish()
    return report


def gammas(module: nn.Module) -> dict[str, Vector]:
    """γ of every norm layer, by the layer's name."""
    return {
        name: layer.weight.detach().numpy().astype(np.float64)
        for name, layer in norm_layers(module).items()
    }


def small_share(values: Mapping[str, Vector], below: float = SMALL) -> float:
    """The share of all γ with |γ| < `below`; 0 where there are none."""
    count = sum(v.size for v in values.values())
    return sum(int(np.sum(np.abs(v) < below)) for v in values.values()) / max(count, 1)


def switched_off(module: nn.Module, below: float = SMALL) -> nn.Module:
    """A copy of the module in which every γ with |γ| < `below` is 0."""
    changed = copy.deepcopy(module)
    with torch.no_grad():
        for layer in norm_layers(changed).values():
            layer.weight[layer.weight.abs() < below] = 0.0
    return changed


def random_off(module: nn.Module, share: float, seed: int = 0) -> nn.Module:
    """A copy with that share of all γ, chosen at random, set to 0: what chance would do."""
    changed = copy.deepcopy(module)
    layers = list(norm_layers(changed).values())
    ends = np.cumsum([layer.weight.numel() for layer in layers])
    total = int(ends[-1]) if layers else 0
    chosen = np.random.default_rng(seed).permutation(total)[: round(share * total)]
    with torch.no_grad():
        for layer, end in zip(layers, ends, strict=True):
            inside = chosen[(chosen < end) & (chosen >= end - layer.weight.numel())]
            layer.weight[torch.from_numpy(inside - (end - layer.weight.numel()))] = 0.0
    return changed
