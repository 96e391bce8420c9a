"""The files of a run, read back: everything that the page is made from."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.reports.document import read_report

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RunFiles:
    """A run's report and its norm layers' gammas and betas, by the name of the layer."""

    report: Mapping[str, Any]
    gammas: Mapping[str, Vector] = field(default_factory=dict)
    betas: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def measurements(self) -> Mapping[str, Any]:
        """What was measured for the figures; empty in the report of a `verify`."""
        return self.report.get("measurements") or {}


def read_run(folder: Path) -> RunFiles:
    """Read report.json and, where it is there, norms.npz."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: the output directory of a run is needed, but there is none of that name"
        )
    report = read_report(folder / "report.json")
    path = folder / "norms.npz"
    arrays = read_norms(path) if path.exists() else {}
    return RunFiles(report, _ending(arrays, ".weight"), _ending(arrays, ".bias"))


def read_norms(path: Path) -> dict[str, Vector]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name], np.float64) for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: these are not readable norm parameters ({error})") from None


def _ending(arrays: Mapping[str, Vector], suffix: str) -> dict[str, Vector]:
    return {n.removesuffix(suffix): a for n, a in arrays.items() if n.endswith(suffix)}
