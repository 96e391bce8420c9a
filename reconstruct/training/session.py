"""A training as the command line runs it: data, seeds, checkpoints, files in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from reconstruct.bridge.from_torch import from_torch
from reconstruct.bridge.norms import norm_bytes
from reconstruct.errors import MissingDependencyError, UnsupportedError
from reconstruct.formats import save
from reconstruct.formats.files import write_atomically
from reconstruct.progress import Progress, silent
from reconstruct.reports.document import to_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.training.data.sources import load_data
from reconstruct.training.experiment import Experiment, run_experiment
from reconstruct.training.page import write_page
from reconstruct.training.report import build_report


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
