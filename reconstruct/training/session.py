"""A training as the command line runs it: data, seeds, checkpoints, report.json, a directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from reconstruct.bridge.from_torch import from_torch
from reconstruct.bridge.norms import norm_bytes
from reconstruct.errors import MissingDependencyError, UnsupportedError
from reconstruct.formats import save
from reconstruct.formats.files import write_atomically
from reconstruct.progress import Progress, silent
from reconstruct.reports.document import to_bytes
from reconstruct.reports.environment import environment, peak_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.training.data import Dataset, load_data
from reconstruct.training.experiment import Experiment, Run, describe, run_experiment
from reconstruct.training.page import percent, write_page

SCHEMA = "reconstruct.training/1"
FIGURES: dict[str, Callable[[Run], float]] = {
    "accuracy": lambda run: run.history.accuracy,
    "small_share": lambda run: run.small_share,
    "accuracy_without_small": lambda run: run.off_accuracy,
    "accuracy_without_as_many_at_random": lambda run: run.random_off_accuracy,
    "seconds": lambda run: run.history.seconds,
}


def build_report(
    experiment: Experiment, data: Dataset, runs: Sequence[Run], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The report as plain JSON values; `summary` has mean, least and most over the seeds."""
    return {
        "schema": SCHEMA,
        **describe(experiment),
        "data": {
            "name": data.name,
            "shape": list(data.shape),
            "classes": data.classes,
            "train": len(data.train_y),
            "test": len(data.test_y),
        },
        "parameters": {"all": runs[0].parameters, "tuned": runs[0].history.tuned},
        "summary": {name: _spread([f(run) for run in runs]) for name, f in FIGURES.items()},
        "runs": [run.as_json() for run in runs],
        "options": dict(options),
        "cost": {
            "seconds": sum(run.history.seconds for run in runs),
            "peak_bytes": peak_bytes(),
        },
        "environment": environment() | {"torch": str(torch.__version__)},
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": sum(values) / len(values), "least": min(values), "most": max(values)}


def summary(report: Mapping[str, Any]) -> str:
    """The lines that the command line prints."""
    model, found = report["model"], report["summary"]
    tuned, total = report["parameters"]["tuned"], report["parameters"]["all"]
    rows = [
        ("model", f"{model['family']} of depth {model['depth']} and width {model['width']}"),
        ("tuned", f"{report['tune']}: {tuned:,} of {total:,} parameters"),
        ("accuracy", f"{percent(found['accuracy'])} of {report['data']['test']} test examples"),
        ("γ near zero", f"{percent(found['small_share'])} (|γ| < 0.01)"),
        ("without those", percent(found["accuracy_without_small"])),
        ("without as many others", percent(found["accuracy_without_as_many_at_random"])),
    ]
    return "\n".join(f"{name:<22} {text}" for name, text in rows)


def train_into(
    output: str | Path,
    experiment: Experiment,
    source: str | Path,
    *,
    options: Mapping[str, Any],
    force: bool = False,
    resume: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run the experiment and fill `output`: norms and network of each seed, report and page.

    Checkpoints live in the directory's staging part until everything is done, which is where a
    resumed training finds them.
    """
    data = load_data(source)
    for seed in experiment.seeds[:1]:
        experiment.build(data, seed)  # refuses a model that does not fit before anything is made
    with closing(OutputFolder(output, force=force, resume=resume)) as folder:
        if not resume:
            for old in folder.staging.glob("seed-*.npz"):
                old.unlink()
        runs = run_experiment(experiment, data, folder=folder.staging, progress=progress)
        names: list[str] = []
        notes: list[str] = []
        for run in runs:
            names.append(f"norms-{run.seed}.npz")
            write_atomically(folder.staging / names[-1], norm_bytes(run.module))
            try:
                save(from_torch(run.module, data.test_x[:1]), folder.staging / _network(run.seed))
                names.append(_network(run.seed))
            except (UnsupportedError, MissingDependencyError) as error:
                notes.append(f"{_network(run.seed)} is not written: {error}")
        report = build_report(experiment, data, runs, options) | {"notes": notes}
        write_atomically(folder.staging / "report.json", to_bytes(report))
        write_page(folder.staging / "report.html", report)
        folder.publish((*names, "report.html", "report.json"))
    return report


def _network(seed: int) -> str:
    return f"network-{seed}.onnx"
