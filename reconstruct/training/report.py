"""report.json of a training: what was trained, how it went, what became of γ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from reconstruct.reports.environment import environment, peak_bytes
from reconstruct.training.data.dataset import Dataset
from reconstruct.training.experiment import Experiment, Run, describe

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


def percent(spread: Mapping[str, float]) -> str:
    """`93.1 %`, with the range over the seeds where there is one."""
    mean, least, most = (100 * spread[key] for key in ("mean", "least", "most"))
    return f"{mean:.1f} %" if least == most else f"{mean:.1f} % ({least:.1f} … {most:.1f})"
